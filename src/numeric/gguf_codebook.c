/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_codebook.c: blocks of GGUF files whose codes are positions in a table: of 16 numbers (iq4, mxfp4), or of vectors
   of four (iq3) or eight numbers (iq1, iq2), with the signs stored apart. The tables are part of the format; they are
   in gguf_grids.inc, with the position of each number in a short list of levels. See gguf_block.h. */
#include "numeric/gguf_block.h"

#include "base/half.h"

#include <math.h>

/* Eight positions of two bits, or four of three bits, in each. */
#include "numeric/gguf_grids.inc"

static const int8_t levels_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t levels_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const uint8_t levels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const uint8_t levels_iq2[4] = {8, 25, 43, 0};

static uint32_t u16_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32_at(const uint8_t *p)
{
    return u16_at(p) | u16_at(p + 2) << 16;
}

static double half_at(const uint8_t *p)
{
    return flxi_from_f16((uint16_t)u16_at(p));
}

/* Half byte i of a list. */
static int nibble(const uint8_t *p, int i)
{
    return p[i / 2] >> 4 * (i % 2) & 15;
}

/* Eight signs from seven bits: the number of minus signs is even. */
static uint32_t even_signs(uint32_t bits)
{
    uint32_t odd = bits ^ bits >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return bits | (odd & 1) << 7;
}

static double with_sign(double x, uint32_t signs, int i)
{
    return signs >> i & 1 ? -x : x;
}

/* ---- Tables of 16 numbers ---- */

static void decode_16(const uint8_t *qs, double scale, const int8_t *levels, double *y)
{
    for (int e = 0; e < 32; e++)
        y[e] = scale * levels[e < 16 ? qs[e] & 15 : qs[e - 16] >> 4];
}

/* d, qs[16] */
void flxi_decode_iq4_nl(const uint8_t *b, double *y)
{
    decode_16(b + 2, half_at(b), levels_iq4, y);
}

/* d, the high two bits of eight scales, the low four, qs[128] */
void flxi_decode_iq4_xs(const uint8_t *b, double *y)
{
    uint32_t high = u16_at(b + 2);
    for (int t = 0; t < 8; t++) {
        int scale = nibble(b + 4, t) | (int)(high >> 2 * t & 3) << 4;
        decode_16(b + 8 + 16 * t, half_at(b) * (scale - 32), levels_iq4, y + 32 * t);
    }
}

/* A power of two with the bias 128, qs[16] */
void flxi_decode_mxfp4(const uint8_t *b, double *y)
{
    decode_16(b + 1, ldexp(1, b[0] - 128), levels_mxfp4, y);
}

/* ---- Vectors of eight numbers ---- */

static void put_8(uint32_t vector, double scale, uint32_t signs, double *y)
{
    for (int i = 0; i < 8; i++)
        y[i] = with_sign(scale * levels_iq2[vector >> 2 * i & 3], signs, i);
}

/* d; for each 32 numbers four positions, then four times seven signs and four bits of the scale */
void flxi_decode_iq2_xxs(const uint8_t *b, double *y)
{
    for (int t = 0; t < 8; t++) {
        const uint8_t *at = b + 2 + 8 * t;
        uint32_t rest = u32_at(at + 4);
        double scale = half_at(b) * (0.5 + (rest >> 28)) * 0.25;
        for (int l = 0; l < 4; l++)
            put_8(grid_iq2_xxs[at[l]], scale, even_signs(rest >> 7 * l & 127), y + 32 * t + 8 * l);
    }
}

/* d; 32 times nine bits of position and seven signs; 16 scales of four bits */
void flxi_decode_iq2_xs(const uint8_t *b, double *y)
{
    for (int v = 0; v < 32; v++) {
        uint32_t code = u16_at(b + 2 + 2 * v);
        double scale = half_at(b) * (0.5 + nibble(b + 66, v / 2)) * 0.25;
        put_8(grid_iq2_xs[code & 511], scale, even_signs(code >> 9), y + 8 * v);
    }
}

/* d; the low bytes of 32 positions, 32 bytes of signs, the high two bits of the positions, 16 scales of four bits */
void flxi_decode_iq2_s(const uint8_t *b, double *y)
{
    for (int v = 0; v < 32; v++) {
        uint32_t position = b[2 + v] | (uint32_t)(b[66 + v / 4] >> 2 * (v % 4) & 3) << 8;
        double scale = half_at(b) * (0.5 + nibble(b + 74, v / 2)) * 0.25;
        put_8(grid_iq2_s[position], scale, b[34 + v], y + 8 * v);
    }
}

/* Numbers -1, 0, 1, moved by an eighth. */
static void put_8_moved(uint32_t vector, double scale, int is_down, double *y)
{
    for (int i = 0; i < 8; i++)
        y[i] = scale * ((int)(vector >> 2 * i & 3) - 1 + (is_down ? -0.125 : 0.125));
}

/* d, qs[32]; for each 32 numbers the high three bits of four positions, three bits of the scale, and the direction */
void flxi_decode_iq1_s(const uint8_t *b, double *y)
{
    for (int v = 0; v < 32; v++) {
        uint32_t high = u16_at(b + 34 + 2 * (v / 4));
        double scale = half_at(b) * (2 * (high >> 12 & 7) + 1);
        uint32_t position = b[2 + v] | (high >> 3 * (v % 4) & 7) << 8;
        put_8_moved(grid_iq1[position], scale, high >> 15 & 1, y + 8 * v);
    }
}

/* qs[32]; 32 times three high bits of a position and the direction; 16 scales of three bits in four words, whose high
   four bits make up d */
void flxi_decode_iq1_m(const uint8_t *b, double *y)
{
    const uint8_t *words = b + 48;
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= u16_at(words + 2 * i) >> 12 << 4 * i;
    double d = flxi_from_f16((uint16_t)bits);
    for (int v = 0; v < 32; v++) {
        int high = nibble(b + 32, v);
        uint32_t scale = u16_at(words + 2 * (v / 8)) >> 3 * (v % 8 / 2) & 7;
        uint32_t position = b[v] | (uint32_t)(high & 7) << 8;
        put_8_moved(grid_iq1[position], d * (2 * scale + 1), high >> 3, y + 8 * v);
    }
}

/* ---- Vectors of four numbers ---- */

/* d, qs[64]; for each 32 numbers four times seven signs and four bits of the scale */
void flxi_decode_iq3_xxs(const uint8_t *b, double *y)
{
    for (int v = 0; v < 64; v++) {
        uint32_t rest = u32_at(b + 66 + 4 * (v / 8));
        double scale = half_at(b) * (0.5 + (rest >> 28)) * 0.5;
        uint32_t signs = even_signs(rest >> 7 * (v % 8 / 2) & 127) >> 4 * (v % 2);
        for (int i = 0; i < 4; i++)
            y[4 * v + i] = with_sign(scale * levels_iq3_xxs[grid_iq3_xxs[b[2 + v]] >> 3 * i & 7], signs, i);
    }
}

/* d, qs[64], the ninth bits of the positions, 32 bytes of signs, eight scales of four bits. Levels are 1, 3 … 15. */
void flxi_decode_iq3_s(const uint8_t *b, double *y)
{
    for (int v = 0; v < 64; v++) {
        uint32_t position = b[2 + v] | (uint32_t)(b[66 + v / 8] >> v % 8 & 1) << 8;
        double scale = half_at(b) * (1 + 2 * nibble(b + 106, v / 8));
        uint32_t signs = (uint32_t)b[74 + v / 2] >> 4 * (v % 2);
        for (int i = 0; i < 4; i++)
            y[4 * v + i] = with_sign(scale * (2 * (grid_iq3_s[position] >> 3 * i & 7) + 1), signs, i);
    }
}
