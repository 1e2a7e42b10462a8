/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_block.c: see gguf_block.h. Numbers are little-endian; d, dmin and m are f16 unless a block says otherwise.
   Blocks of 32 put the first 16 numbers into the low halves of their bytes and the last 16 into the high halves.
   Blocks of 256 ("k") are divided into 8 or 16 sub-blocks, each with small integer scales of its own in addition to the
   block's. */
#include "numeric/gguf_block.h"

#include "base/half.h"

#include <string.h>

static double half_at(const uint8_t *p)
{
    return flxi_from_f16((uint16_t)(p[0] | p[1] << 8));
}

static int low(int byte)
{
    return byte & 15;
}

static int high(int byte)
{
    return byte >> 4;
}

/* ---- Blocks of 32 ---- */

/* Number e of 32 half bytes. */
static int half_byte(const uint8_t *qs, int e)
{
    return e < 16 ? low(qs[e]) : high(qs[e - 16]);
}

/* The same with a fifth bit: bit e of the 32 bits qh. */
static int five_bits(const uint8_t *qs, const uint8_t *qh, int e)
{
    return half_byte(qs, e) | (qh[e / 8] >> e % 8 & 1) << 4;
}

static void decode_q4_0(const uint8_t *b, double *y)
{
    for (int e = 0; e < 32; e++)
        y[e] = (half_byte(b + 2, e) - 8) * half_at(b);
}

static void decode_q4_1(const uint8_t *b, double *y)
{
    for (int e = 0; e < 32; e++)
        y[e] = half_byte(b + 4, e) * half_at(b) + half_at(b + 2);
}

static void decode_q5_0(const uint8_t *b, double *y)
{
    for (int e = 0; e < 32; e++)
        y[e] = (five_bits(b + 6, b + 2, e) - 16) * half_at(b);
}

static void decode_q5_1(const uint8_t *b, double *y)
{
    for (int e = 0; e < 32; e++)
        y[e] = five_bits(b + 8, b + 4, e) * half_at(b) + half_at(b + 2);
}

static void decode_q8_0(const uint8_t *b, double *y)
{
    for (int e = 0; e < 32; e++)
        y[e] = (int8_t)b[2 + e] * half_at(b);
}

/* ---- Blocks of 256 with 16 sub-blocks ---- */

/* Number l of sub-block t: two bits. A half of the block has four layers of two bits in 32 bytes, and two sub-blocks
   in each layer. */
static int two_bits(const uint8_t *qs, int t, int l)
{
    return qs[32 * (t / 8) + 16 * (t % 2) + l] >> 2 * (t % 8 / 2) & 3;
}

/* scales[16], qs[64], d, dmin */
static void decode_q2_k(const uint8_t *b, double *y)
{
    double d = half_at(b + 80);
    double dmin = half_at(b + 82);
    for (int e = 0; e < 256; e++) {
        int t = e / 16;
        y[e] = d * low(b[t]) * two_bits(b + 16, t, e % 16) - dmin * high(b[t]);
    }
}

/* hmask[32], qs[64], scales[12], d. The bit of hmask is the third one, with the weight -4 where it is not set. */
static void decode_q3_k(const uint8_t *b, double *y)
{
    const uint8_t *scales = b + 96;
    double d = half_at(b + 108);
    for (int e = 0; e < 256; e++) {
        int t = e / 16;
        int scale = (t < 8 ? low(scales[t]) : high(scales[t - 8])) | (scales[8 + t % 4] >> 2 * (t / 4) & 3) << 4;
        int bit = b[16 * (t % 2) + e % 16] >> (4 * (t / 8) + t % 8 / 2) & 1;
        y[e] = d * (scale - 32) * (two_bits(b + 32, t, e % 16) - (bit ? 0 : 4));
    }
}

/* ql[128], qh[64], i8 scales[16], d */
static void decode_q6_k(const uint8_t *b, double *y)
{
    double d = half_at(b + 208);
    for (int e = 0; e < 256; e++) {
        int h = e / 128;
        int part = e % 128 / 32;
        int l = e % 32;
        int byte = b[64 * h + 32 * (part % 2) + l];
        int code = (part < 2 ? low(byte) : high(byte)) | (b[128 + 32 * h + l] >> 2 * part & 3) << 4;
        y[e] = d * (int8_t)b[192 + e / 16] * (code - 32);
    }
}

/* ---- Blocks of 256 with 8 sub-blocks ---- */

/* The six-bit scale and minimum of sub-block t: the first four are the low six bits of bytes, whose other two bits
   are the upper ones of the last four. */
static void six_bit_pair(const uint8_t *s, int t, int *scale, int *least)
{
    *scale = t < 4 ? s[t] & 63 : low(s[t + 4]) | s[t - 4] >> 6 << 4;
    *least = t < 4 ? s[t + 4] & 63 : high(s[t + 4]) | s[t] >> 6 << 4;
}

/* d, dmin, scales[12], then with five bits qh[32], then qs[128]. */
static void decode_pairs(const uint8_t *b, const uint8_t *qh, const uint8_t *qs, double *y)
{
    double d = half_at(b);
    double dmin = half_at(b + 2);
    for (int e = 0; e < 256; e++) {
        int t = e / 32;
        int l = e % 32;
        int scale;
        int least;
        int code = t % 2 ? high(qs[32 * (t / 2) + l]) : low(qs[32 * (t / 2) + l]);
        six_bit_pair(b + 4, t, &scale, &least);
        if (qh)
            code |= (qh[l] >> t & 1) << 4;
        y[e] = d * scale * code - dmin * least;
    }
}

static void decode_q4_k(const uint8_t *b, double *y)
{
    decode_pairs(b, NULL, b + 16, y);
}

static void decode_q5_k(const uint8_t *b, double *y)
{
    decode_pairs(b, b + 16, b + 48, y);
}

/* f32 d, i8 qs[256], and sums that serve products with other quantised rows */
static void decode_q8_k(const uint8_t *b, double *y)
{
    float d;
    uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    memcpy(&d, &bits, sizeof d);
    for (int e = 0; e < 256; e++)
        y[e] = (int8_t)b[4 + e] * (double)d;
}

/* ---- Three values, -d, 0 and d ---- */

/* Digit n of base 3 of a byte, which holds the number 0.d0 d1 d2 d3 d4 times 256, rounded up. */
static int digit(int byte, int n)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    return ((byte * powers[n] & 255) * 3) >> 8;
}

/* qs[48], qh[4], d: 32 bytes of five digits, 16 bytes of five, 4 bytes of four; the first digits of all bytes come
   first. */
static void decode_tq1_0(const uint8_t *b, double *y)
{
    double d = half_at(b + 52);
    for (int e = 0; e < 256; e++) {
        int byte = e < 160 ? b[e % 32] : e < 240 ? b[32 + e % 16] : b[48 + e % 4];
        int n = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4;
        y[e] = (digit(byte, n) - 1) * d;
    }
}

/* qs[64], d */
static void decode_tq2_0(const uint8_t *b, double *y)
{
    double d = half_at(b + 64);
    for (int e = 0; e < 256; e++)
        y[e] = ((b[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3) - 1) * d;
}

/* ---- Floats that are not packed ---- */

static void decode_f32(const uint8_t *b, double *y)
{
    float x;
    uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    memcpy(&x, &bits, sizeof x);
    *y = (double)x;
}

static void decode_f16(const uint8_t *b, double *y)
{
    *y = half_at(b);
}

static void decode_bf16(const uint8_t *b, double *y)
{
    *y = flxi_from_bf16((uint16_t)(b[0] | b[1] << 8));
}

/* ---- The table ---- */

#define decode_iq4_nl flxi_decode_iq4_nl
#define decode_iq4_xs flxi_decode_iq4_xs
#define decode_iq3_xxs flxi_decode_iq3_xxs
#define decode_iq3_s flxi_decode_iq3_s
#define decode_iq2_xxs flxi_decode_iq2_xxs
#define decode_iq2_xs flxi_decode_iq2_xs
#define decode_iq2_s flxi_decode_iq2_s
#define decode_iq1_s flxi_decode_iq1_s
#define decode_iq1_m flxi_decode_iq1_m
#define decode_mxfp4 flxi_decode_mxfp4

const flxi_gguf_format flxi_gguf_formats[FLXI_GGUF_COUNT] = {
#define ROW(name, count, nbytes) [FLXI_GGUF_##name] = {count, nbytes, decode_##name},
    FLXI_GGUF_MAP(ROW)
#undef ROW
};
