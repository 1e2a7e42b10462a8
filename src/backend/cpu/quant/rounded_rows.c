/* SPDX-License-Identifier: Apache-2.0 */
/* rounded_rows.c: see rounded_rows.h. The code is rounded_rows.inc, compiled for each instruction set. */
#include "backend/cpu/quant/rounded_rows.h"

#include "backend/cpu/gemm/gemm_turn.h"
#include "numeric/gguf_bytes.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { DEPTH = 512 }; /* of a tile: its codes stay in the first cache while rows of x pass */

/* Some rows of a packed matrix, of `depth` numbers each, unpacked. */
typedef struct {
    _Alignas(64) uint8_t raw[FLXI_ROUNDED_MANY][DEPTH];
    _Alignas(64) uint8_t codes[DEPTH * FLXI_ROUNDED_MANY]; /* groups of four numbers, in each of them all rows */
    float d[DEPTH / 32][FLXI_ROUNDED_MANY], least[DEPTH / 32][FLXI_ROUNDED_MANY];
    int32_t scales[DEPTH / 16][FLXI_ROUNDED_MANY];    /* of sub-blocks */
    int16_t minima[DEPTH / 32][FLXI_ROUNDED_MANY][2]; /* of two sub-blocks */
    int32_t shift[DEPTH / 256][FLXI_ROUNDED_MANY];    /* what adding 128 to x adds to the sums of a block */
} tile;

/* From rows of numbers to groups of four. */
static void turn(tile *t, int64_t rows, int64_t depth)
{
    if (flxi_turn_words(FLXI_ISA_BEST, t->raw, t->codes, rows, rows, DEPTH / 4, depth / 4))
        return;
    for (int64_t j = 0; j < rows; j++)
        for (int64_t p = 0; p < depth; p += 4)
            memcpy(t->codes + p * rows + 4 * j, t->raw[j] + p, 4);
}

#define TARGET __attribute__((target("avx2,f16c")))
#define FN(name) avx2_##name
#define SIGNED(zero) ((zero) == 128)
#define DOT_PAIRS(sum, p, q) _mm256_add_epi32(sum, _mm256_madd_epi16(p, q))
#define DOT(sum, u, x) DOT_PAIRS(sum, _mm256_maddubs_epi16(u, x), _mm256_set1_epi16(1))
#define LANES 8
#define WIDE __m256i
#define WIDE_ROWS 2
#define WIDE_FLOATS __m256
#define WIDE_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define WIDE_SET(x) _mm256_set1_epi32(x)
#define WIDE_ADD _mm256_add_epi32
#define WIDE_SUB _mm256_sub_epi32
#define WIDE_MUL _mm256_mullo_epi32
#define WIDE_DOT DOT
#define WIDE_DOT_SIGNED(sum, w, x) DOT(sum, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
#define WIDE_DOT_PAIRS DOT_PAIRS
#define WIDE_TO_FLOATS _mm256_cvtepi32_ps
#define WIDE_SET_FLOAT _mm256_set1_ps
#define WIDE_LOAD_FLOATS _mm256_loadu_ps
#define WIDE_STORE_FLOATS _mm256_storeu_ps
#define WIDE_TIMES _mm256_mul_ps
#define WIDE_PLUS _mm256_add_ps
#include "backend/cpu/quant/rounded_rows.inc"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,f16c")))
#define FN(name) avx512_##name
#define SIGNED(zero) false
#define DOT_PAIRS(sum, p, q) _mm256_dpwssd_epi32(sum, p, q)
#define DOT(sum, u, x) _mm256_dpbusd_epi32(sum, u, x)
#define LANES 16
#define WIDE __m512i
#define WIDE_ROWS 4
#define WIDE_FLOATS __m512
#define WIDE_LOAD(p) _mm512_loadu_si512(p)
#define WIDE_SET(x) _mm512_set1_epi32(x)
#define WIDE_ADD _mm512_add_epi32
#define WIDE_SUB _mm512_sub_epi32
#define WIDE_MUL _mm512_mullo_epi32
#define WIDE_DOT _mm512_dpbusd_epi32
#define WIDE_DOT_SIGNED(sum, w, x) WIDE_DOT(sum, w, x)
#define WIDE_DOT_PAIRS _mm512_dpwssd_epi32
#define WIDE_TO_FLOATS _mm512_cvtepi32_ps
#define WIDE_SET_FLOAT _mm512_set1_ps
#define WIDE_LOAD_FLOATS _mm512_loadu_ps
#define WIDE_STORE_FLOATS _mm512_storeu_ps
#define WIDE_TIMES _mm512_mul_ps
#define WIDE_PLUS _mm512_add_ps
#include "backend/cpu/quant/rounded_rows.inc"

#endif

/* ---- Any machine ---- */

static void plain_rows(const flxi_rounded_call *c)
{
    for (int64_t j = 0; j < c->columns; j++)
        flxi_rounded_products(c->format, c->w + j * c->row_bytes, c->x, c->rows, c->k, c->y + j, c->y_step);
}

/* ---- Choice ---- */

bool flxi_rounded_isa_available(flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
    if (isa == FLXI_ISA_AVX2)
        return __builtin_cpu_supports("avx2"); /* all of these have f16c */
#endif
    return isa == FLXI_ISA_GENERIC;
}

flxi_rounded_engine flxi_rounded_engine_for(flxi_gguf format, flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX512)
        return avx512_engines[format];
    if (isa == FLXI_ISA_AVX2)
        return avx2_engines[format];
#endif
    (void)format;
    (void)isa;
    return (flxi_rounded_engine){flxi_round_row, plain_rows, plain_rows};
}

flxi_rounded_engine flxi_rounded_engine_of(flxi_gguf format)
{
    flxi_isa isa = flxi_rounded_isa_available(FLXI_ISA_AVX512) ? FLXI_ISA_AVX512
                   : flxi_rounded_isa_available(FLXI_ISA_AVX2) ? FLXI_ISA_AVX2
                                                               : FLXI_ISA_GENERIC;
    return flxi_rounded_engine_for(format, isa);
}
