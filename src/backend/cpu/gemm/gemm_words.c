/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_words.c: packs integers of 8 and 16 bits as words of two or four of them along the depth. What is stored along
   the depth is words already, and only their order changes; what is stored along the lines is interleaved. */
#include "backend/cpu/gemm/gemm_engine.h"
#include "backend/cpu/gemm/gemm_square.h"

enum { MOST_GROUP = 4 };

/* ---- Elements along the depth are neighbours ---- */

static inline uint32_t load_word(const char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Whole words of four lines, in squares of 4 x 4. */
static void turn_lines(const char *s, int64_t step, uint32_t *d, int64_t width, int64_t words, uint32_t flip)
{
    int64_t w = 0;
    for (; w + 4 <= words; w += 4) {
        const flxi_word4 line[4] = {flxi_load_word4(s + 4 * w) ^ flip, flxi_load_word4(s + step + 4 * w) ^ flip,
                                    flxi_load_word4(s + 2 * step + 4 * w) ^ flip,
                                    flxi_load_word4(s + 3 * step + 4 * w) ^ flip};
        flxi_turn_square(line, d + w * width, width);
    }
    for (; w < words; w++)
        for (int i = 0; i < 4; i++)
            d[w * width + i] = load_word(s + i * step + 4 * w) ^ flip;
}

static void copy_lines(const char *s, int64_t step, uint32_t *d, int64_t width, int64_t lines, int64_t words,
                       uint32_t flip)
{
    int64_t i = 0;
    for (; i + 4 <= lines; i += 4)
        turn_lines(s + i * step, step, d + i, width, words, flip);
    for (; i < lines; i++)
        for (int64_t w = 0; w < words; w++)
            d[w * width + i] = load_word(s + i * step + 4 * w) ^ flip;
}

/* ---- Elements along the lines are neighbours ---- */

typedef uint8_t byte16 __attribute__((vector_size(16)));
typedef uint16_t half8 __attribute__((vector_size(16)));

static inline byte16 load_bytes(const uint8_t *p)
{
    byte16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline byte16 low_bytes(byte16 a, byte16 b)
{
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline byte16 high_bytes(byte16 a, byte16 b)
{
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

static inline half8 low_halves(half8 a, half8 b)
{
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline half8 high_halves(half8 a, half8 b)
{
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

static inline void store_words(uint32_t *d, half8 v, uint32_t flip)
{
    flxi_word4 w = (flxi_word4)v ^ flip;
    memcpy(d, &w, sizeof w);
}

static void interleave_bytes(const uint8_t *const row[4], uint32_t *d, int64_t lines, uint32_t flip)
{
    int64_t i = 0;
    for (; i + 16 <= lines; i += 16) {
        byte16 a = load_bytes(row[0] + i);
        byte16 b = load_bytes(row[1] + i);
        byte16 c = load_bytes(row[2] + i);
        byte16 e = load_bytes(row[3] + i);
        half8 ab_low = (half8)low_bytes(a, b);
        half8 ab_high = (half8)high_bytes(a, b);
        half8 ce_low = (half8)low_bytes(c, e);
        half8 ce_high = (half8)high_bytes(c, e);
        store_words(d + i, low_halves(ab_low, ce_low), flip);
        store_words(d + i + 4, high_halves(ab_low, ce_low), flip);
        store_words(d + i + 8, low_halves(ab_high, ce_high), flip);
        store_words(d + i + 12, high_halves(ab_high, ce_high), flip);
    }
    for (; i < lines; i++)
        d[i] =
            ((uint32_t)row[0][i] | (uint32_t)row[1][i] << 8 | (uint32_t)row[2][i] << 16 | (uint32_t)row[3][i] << 24) ^
            flip;
}

#define INTERLEAVE_PAIRS(name, T)                                                       \
    static void name(const char *first, const char *second, uint32_t *d, int64_t lines) \
    {                                                                                   \
        for (int64_t i = 0; i < lines; i++) {                                           \
            T a, b;                                                                     \
            memcpy(&a, first + i * (int64_t)sizeof(T), sizeof(T));                      \
            memcpy(&b, second + i * (int64_t)sizeof(T), sizeof(T));                     \
            d[i] = (uint16_t)a | (uint32_t)(uint16_t)b << 16;                           \
        }                                                                               \
    }
INTERLEAVE_PAIRS(pairs_of_i8, int8_t)
INTERLEAVE_PAIRS(pairs_of_u8, uint8_t)
INTERLEAVE_PAIRS(pairs_of_i16, int16_t)

/* ---- Any layout ---- */

/* The bits of one element in a word of that many elements. */
static inline uint32_t element_bits(int32_t dtype, const char *p, int group)
{
    if (group == 4)
        return *(const uint8_t *)p;
    if (dtype == FLX_I8)
        return (uint32_t) * (const int8_t *)p & 0xffff;
    if (dtype == FLX_U8)
        return *(const uint8_t *)p;
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* One word of each of some lines that are `step` bytes apart; `at` has the offsets of its elements in bytes. */
static void gather_words(const flxi_gemm_words *p, const char *s, int64_t step, const int64_t *at, int elements,
                         uint32_t *d, int64_t lines)
{
    int bits = 32 / p->group;
    for (int64_t i = 0; i < lines; i++, s += step) {
        uint32_t w = 0;
        for (int q = 0; q < elements; q++)
            w |= element_bits(p->dtype, s + at[q], p->group) << (q * bits);
        d[i] = w ^ p->flip;
    }
}

static void one_word(const flxi_gemm_words *p, const char *s, int64_t step, const int64_t *at, int elements,
                     uint32_t *d, int64_t lines)
{
    if (elements != p->group || step != (int64_t)flx_dtype_size(p->dtype)) {
        gather_words(p, s, step, at, elements, d, lines);
        return;
    }
    if (p->group == 4) {
        const uint8_t *const rows[4] = {(const uint8_t *)s + at[0], (const uint8_t *)s + at[1],
                                        (const uint8_t *)s + at[2], (const uint8_t *)s + at[3]};
        interleave_bytes(rows, d, lines, p->flip);
        return;
    }
    void (*pairs)(const char *, const char *, uint32_t *, int64_t) = p->dtype == FLX_I8   ? pairs_of_i8
                                                                     : p->dtype == FLX_U8 ? pairs_of_u8
                                                                                          : pairs_of_i16;
    pairs(s + at[0], s + at[1], d, lines);
}

/* Words [word, word + words) of a run of lines, `s` being the first of them. */
static void any_words(const flxi_gemm_words *p, const char *s, int64_t step, uint32_t *d, int64_t width, int64_t lines,
                      int64_t word, int64_t words)
{
    int64_t size = (int64_t)flx_dtype_size(p->dtype);
    for (int64_t w = 0; w < words; w++) {
        int64_t at[MOST_GROUP], run;
        int64_t first = (word + w) * p->group;
        int elements = (int)(p->count - first < p->group ? p->count - first : p->group);
        for (int q = 0; q < elements; q++)
            at[q] = flxi_walk_at(&p->x->depth, first + q, &run) * size;
        one_word(p, s, step, at, elements, d + w * width, lines);
    }
}

/* How many words from the first on are stored as such, for each line. */
static int64_t stored_words(const flxi_gemm_words *p, int64_t word, int64_t words)
{
    const flxi_walk *depth = &p->x->depth;
    bool is_stored = (int)flx_dtype_size(p->dtype) * p->group == 4 && depth->rank == 1 && depth->steps[0] == 1;
    int64_t whole = p->count / p->group - word;
    return !is_stored ? 0 : whole < words ? whole : words;
}

void flxi_gemm_pack_words(const flxi_gemm_words *p, const void *base, uint32_t *to, int64_t width, int64_t line,
                          int64_t lines, int64_t word, int64_t words)
{
    int64_t size = (int64_t)flx_dtype_size(p->dtype);
    int64_t stored = stored_words(p, word, words);
    int64_t step = flxi_walk_step(&p->x->line) * size;
    int64_t run;
    for (int64_t i = 0; i < lines; i += run) {
        const char *s = (const char *)base + flxi_walk_at(&p->x->line, line + i, &run) * size;
        run = run < lines - i ? run : lines - i;
        if (stored)
            copy_lines(s + word * 4, step, to + i, width, run, stored, p->flip);
        any_words(p, s, step, to + stored * width + i, width, run, word + stored, words - stored);
    }
    for (int64_t w = 0; lines < width && w < words; w++)
        memset(to + w * width + lines, 0, (size_t)(width - lines) * sizeof *to);
}
