/* SPDX-License-Identifier: Apache-2.0 */
/* packed_rows.c: see packed_rows.h. Few rows times a large packed matrix take the time of reading the matrix from
   memory if decoding is fast enough: codes become signed bytes in a small buffer, are widened to f32 by one
   instruction for 16 of them, and meet x there; the matrix is never decoded as a whole. The code is packed_rows.inc,
   compiled for each instruction set. */
#include "backend/cpu/quant/packed_rows.h"

#include "base/half.h"
#include "numeric/gguf_bytes.h"
#include "numeric/gguf_codes.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* The levels of codes, plus 128. */
static const bytes16 levels_mxfp4 = {128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116};

/* 2^n; below the normal numbers 2^-127 and 2^-128 alone. */
static float flxi_power_of_two(int n)
{
    return flxi_f32_of(n >= -126 ? (uint32_t)(n + 127) << 23 : n == -127 ? 0x00400000 : 0x00200000);
}

/* All formats with integers as codes, in the form of FLXI_GGUF_CODED_MAP. */
#define PACKED_FORMATS(X)             \
    FLXI_GGUF_CODED_MAP(X)            \
    X(q8_k, 256, 292, 32, 128, 0, -1) \
    X(mxfp4, 32, 17, 32, 128, 0, -1)

#define DECODED_FORMATS(X) \
    X(iq3_xxs)             \
    X(iq3_s)               \
    X(iq2_xxs)             \
    X(iq2_xs)              \
    X(iq2_s)               \
    X(iq1_s)               \
    X(iq1_m)               \
    X(tq1_0)

/* ---- Any machine ---- */

typedef struct {
    float x[16];
} lanes;

static inline lanes plain_load(const float *p)
{
    lanes v;
    memcpy(v.x, p, sizeof v.x);
    return v;
}

static inline lanes plain_set(float x)
{
    lanes v;
    for (int i = 0; i < 16; i++)
        v.x[i] = x;
    return v;
}

static inline lanes plain_widen(const uint8_t *p)
{
    lanes v;
    for (int i = 0; i < 16; i++)
        v.x[i] = (float)(int8_t)p[i];
    return v;
}

static inline float plain_half(const uint8_t *p)
{
    return (float)flxi_from_f16((uint16_t)(p[0] | p[1] << 8));
}

static inline lanes plain_halves(const uint8_t *p)
{
    lanes v;
    for (int i = 0; i < 16; i++)
        v.x[i] = plain_half(p + 2 * i);
    return v;
}

static inline lanes plain_brain_halves(const uint8_t *p)
{
    lanes v;
    for (int i = 0; i < 16; i++) {
        uint32_t bits = (uint32_t)p[2 * i] << 16 | (uint32_t)p[2 * i + 1] << 24;
        memcpy(&v.x[i], &bits, sizeof bits);
    }
    return v;
}

static inline lanes plain_mul(lanes a, lanes b)
{
    for (int i = 0; i < 16; i++)
        a.x[i] *= b.x[i];
    return a;
}

static inline lanes plain_add(lanes a, lanes b)
{
    for (int i = 0; i < 16; i++)
        a.x[i] += b.x[i];
    return a;
}

#define TARGET
#define FN(name) plain_##name
#define LANES lanes
#define ZERO() plain_set(0)
#define LOAD(p) plain_load(p)
#define SET1(x) plain_set(x)
#define WIDEN(p) plain_widen(p)
#define HALVES(p) plain_halves(p)
#define BRAIN_HALVES(p) plain_brain_halves(p)
#define MUL(a, b) plain_mul(a, b)
#define ADD(a, b) plain_add(a, b)
#define SPREAD(v, out) memcpy((out), (v).x, sizeof(v).x)
#define LOOKUP(table, codes) flxi_look_up_bytes(table, codes)
#define STORE_PAIR(q, low, high) flxi_store_pair(q, low, high)
#define HALF(p) plain_half(p)
#include "backend/cpu/quant/packed_rows.inc"

/* ---- x86-64 ---- */

#if defined(__x86_64__)

#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,f16c")))
#define TWO static inline __attribute__((always_inline)) AVX2

typedef struct {
    __m256 low, high;
} two;

TWO two two_make(__m256 low, __m256 high)
{
    return (two){low, high};
}

TWO __m256 widen_8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

TWO __m256 halves_8(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

TWO __m256 brain_halves_8(const uint8_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

#define TARGET AVX2
#define FN(name) avx2_##name
#define LANES two
#define ZERO() two_make(_mm256_setzero_ps(), _mm256_setzero_ps())
#define LOAD(p) two_make(_mm256_loadu_ps(p), _mm256_loadu_ps((p) + 8))
#define SET1(x) two_make(_mm256_set1_ps(x), _mm256_set1_ps(x))
#define WIDEN(p) two_make(widen_8(p), widen_8((p) + 8))
#define HALVES(p) two_make(halves_8(p), halves_8((p) + 16))
#define BRAIN_HALVES(p) two_make(brain_halves_8(p), brain_halves_8((p) + 16))
#define MUL(a, b) avx2_mul(a, b)
#define ADD(a, b) avx2_add(a, b)
TWO two avx2_mul(two a, two b)
{
    return two_make(_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high));
}
TWO two avx2_add(two a, two b)
{
    return two_make(_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high));
}
TWO void avx2_spread(two v, float *out)
{
    _mm256_storeu_ps(out, v.low);
    _mm256_storeu_ps(out + 8, v.high);
}
#define SPREAD(v, out) avx2_spread(v, out)
#define LOOKUP(table, codes) flxi_look_up_x86(table, codes)
#define STORE_PAIR(q, low, high) flxi_store_pair_x86(q, low, high)
#define HALF(p) flxi_half_x86(p)
#include "backend/cpu/quant/packed_rows.inc"

#define TARGET AVX512
#define FN(name) avx512_##name
#define LANES __m512
#define ZERO() _mm512_setzero_ps()
#define LOAD(p) _mm512_loadu_ps(p)
#define SET1(x) _mm512_set1_ps(x)
#define WIDEN(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define HALVES(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define BRAIN_HALVES(p)  \
    _mm512_castsi512_ps( \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))), 16))
#define MUL(a, b) _mm512_mul_ps(a, b)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SPREAD(v, out) _mm512_storeu_ps(out, v)
#define LOOKUP(table, codes) flxi_look_up_x86(table, codes)
#define STORE_PAIR(q, low, high) flxi_store_pair_x86(q, low, high)
#define HALF(p) flxi_half_x86(p)
#include "backend/cpu/quant/packed_rows.inc"

#endif

/* ---- Choice ---- */

flxi_packed_fn flxi_packed_product_for(flxi_gguf format, flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX512)
        return avx512_products[format];
    if (isa == FLXI_ISA_AVX2)
        return avx2_products[format];
#endif
    (void)isa;
    return plain_products[format];
}

static flxi_isa best_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return FLXI_ISA_AVX512;
    if (__builtin_cpu_supports("avx2")) /* all of these have f16c */
        return FLXI_ISA_AVX2;
#endif
    return FLXI_ISA_GENERIC;
}

flxi_packed_fn flxi_packed_product(flxi_gguf format)
{
    return flxi_packed_product_for(format, best_isa());
}

flxi_unpack_fn flxi_packed_decoder_for(flxi_gguf format, flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX512)
        return avx512_decoders[format];
    if (isa == FLXI_ISA_AVX2)
        return avx2_decoders[format];
#endif
    (void)isa;
    return plain_decoders[format];
}

flxi_decoder flxi_packed_decoder(flxi_gguf format)
{
    return (flxi_decoder){&flxi_gguf_formats[format], flxi_packed_decoder_for(format, best_isa())};
}

void flxi_packed_decode(const flxi_decoder *d, const uint8_t *w, float *y)
{
    double numbers[FLXI_GGUF_MOST];
    if (d->fast) {
        d->fast(w, y);
        return;
    }
    d->format->decode(w, numbers);
    for (int e = 0; e < d->format->count; e++)
        y[e] = (float)numbers[e];
}

/* ---- Sums of x for the minima ---- */

int64_t flxi_packed_sums(flxi_gguf format, int64_t k)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[format];
    return g->count > 0 && g->least_at >= 0 ? k / g->count * 16 : 0;
}

/* 16 for each block; those of sub-blocks that it does not have are 0. */
void flxi_packed_sum(flxi_gguf format, const float *x, int64_t k, float *sums)
{
    int count = flxi_gguf_grids[format].count, sub = flxi_gguf_grids[format].sub;
    for (int64_t p = 0; p < k; p += count, sums += 16)
        for (int t = 0; t < 16; t++) {
            float sum = 0;
            for (int e = 0; t < count / sub && e < sub; e++)
                sum += x[p + sub * t + e];
            sums[t] = sum;
        }
}
