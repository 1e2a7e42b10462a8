/* SPDX-License-Identifier: Apache-2.0 */
/* sort_quick.c: see sort_quick.h. AVX-512 has what it takes: a comparison of unsigned integers, and an instruction that
   moves chosen lanes together. The loops are sort_quick.inc, and what is short is sorted in registers by
   sort_square.inc.

   With several threads, parts are divided in rounds, all parts of a round at the same time, until there are enough of
   them; then each part is sorted. */
#include "backend/cpu/routes/sort/sort_quick.h"

#include "base/host/stop.h"

#include <stdbool.h>
#include <string.h>

enum {
    MANY = 4096,    /* items for which a better pivot pays */
    POLL = 1 << 16, /* items between two questions whether to stop */
    MOST_PARTS = 64,
    PART = 1 << 13 /* items for which a thread pays */
};

#if defined(__x86_64__)
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/routes/sort/sort_network.h"

#include <immintrin.h>

typedef uint32_t u32x4 __attribute__((vector_size(16), may_alias));
typedef uint32_t u32x8 __attribute__((vector_size(32), may_alias));
typedef uint32_t u32x16 __attribute__((vector_size(64), may_alias));
typedef uint64_t u64x2 __attribute__((vector_size(16), may_alias));
typedef uint64_t u64x4 __attribute__((vector_size(32), may_alias));
typedef uint64_t u64x8 __attribute__((vector_size(64), may_alias));

#define TARGET __attribute__((target("avx512f,avx512vl,popcnt")))
#define LOAD_ALL(p) _mm512_loadu_si512(p)
#define STORE_ALL(p, v) _mm512_storeu_si512(p, v)

/* ---- 4 bytes ---- */

#define T uint32_t

#define SQUARE square_32_4
#define V u32x4
#define LANES 4
#define MIN(a, b) (V) _mm_min_epu32((__m128i)(a), (__m128i)(b))
#define MAX(a, b) (V) _mm_max_epu32((__m128i)(a), (__m128i)(b))
#include "backend/cpu/routes/sort/sort_square.inc"

#define SQUARE square_32_8
#define V u32x8
#define LANES 8
#define MIN(a, b) (V) _mm256_min_epu32((__m256i)(a), (__m256i)(b))
#define MAX(a, b) (V) _mm256_max_epu32((__m256i)(a), (__m256i)(b))
#include "backend/cpu/routes/sort/sort_square.inc"

#define SQUARE square_32_16
#define V u32x16
#define LANES 16
#define MIN(a, b) (V) _mm512_min_epu32((__m512i)(a), (__m512i)(b))
#define MAX(a, b) (V) _mm512_max_epu32((__m512i)(a), (__m512i)(b))
#include "backend/cpu/routes/sort/sort_square.inc"

#define FN(name) quick_32_##name
#define WIDTH 16
#define SHORTEST square_32_4
#define SHORTER square_32_8
#define SHORT square_32_16
#define SAMPLE square_32_4
#define FILL(x) _mm512_set1_epi32((int)(x))
#define COMPARE(a, b) _mm512_cmplt_epu32_mask(a, b)
#define COMPRESS(m, v) _mm512_maskz_compress_epi32((__mmask16)(m), v)
#define LOAD_SOME(m, p) _mm512_maskz_loadu_epi32((__mmask16)(m), p)
#define STORE_SOME(p, m, v) _mm512_mask_storeu_epi32(p, (__mmask16)(m), v)
#define LEAST(a, b) _mm512_min_epu32(a, b)
#define MOST(a, b) _mm512_max_epu32(a, b)
#include "backend/cpu/routes/sort/sort_quick.inc"

/* ---- 8 bytes ---- */

#define T uint64_t

#define SQUARE square_64_2
#define V u64x2
#define LANES 2
#define MIN(a, b) (V) _mm_min_epu64((__m128i)(a), (__m128i)(b))
#define MAX(a, b) (V) _mm_max_epu64((__m128i)(a), (__m128i)(b))
#include "backend/cpu/routes/sort/sort_square.inc"

#define SQUARE square_64_4
#define V u64x4
#define LANES 4
#define MIN(a, b) (V) _mm256_min_epu64((__m256i)(a), (__m256i)(b))
#define MAX(a, b) (V) _mm256_max_epu64((__m256i)(a), (__m256i)(b))
#include "backend/cpu/routes/sort/sort_square.inc"

#define SQUARE square_64_8
#define V u64x8
#define LANES 8
#define MIN(a, b) (V) _mm512_min_epu64((__m512i)(a), (__m512i)(b))
#define MAX(a, b) (V) _mm512_max_epu64((__m512i)(a), (__m512i)(b))
#include "backend/cpu/routes/sort/sort_square.inc"

#define FN(name) quick_64_##name
#define WIDTH 8
#define SHORTEST square_64_2
#define SHORTER square_64_4
#define SHORT square_64_8
#define SAMPLE square_64_4
#define FILL(x) _mm512_set1_epi64((long long)(x))
#define COMPARE(a, b) _mm512_cmplt_epu64_mask(a, b)
#define COMPRESS(m, v) _mm512_maskz_compress_epi64((__mmask8)(m), v)
#define LOAD_SOME(m, p) _mm512_maskz_loadu_epi64((__mmask8)(m), p)
#define STORE_SOME(p, m, v) _mm512_mask_storeu_epi64(p, (__mmask8)(m), v)
#define LEAST(a, b) _mm512_min_epu64(a, b)
#define MOST(a, b) _mm512_max_epu64(a, b)
#include "backend/cpu/routes/sort/sort_quick.inc"

const flxi_quick *flxi_quick_of(size_t item)
{
    static const flxi_quick quick_32 = {4, quick_32_sort, quick_32_split},
                            quick_64 = {8, quick_64_sort, quick_64_split};
    if (!flxi_isa_available(FLXI_ISA_AVX512) || !__builtin_cpu_supports("avx512vl"))
        return NULL;
    return item == sizeof(uint32_t) ? &quick_32 : &quick_64;
}

#else

const flxi_quick *flxi_quick_of(size_t item)
{
    (void)item;
    return NULL;
}

#endif

/* ---- Threads ---- */

typedef struct {
    const flxi_quick *q;
    char *items, *spare;
    int64_t ends[MOST_PARTS + 1]; /* parts are from one to the next */
    int64_t middle[MOST_PARTS];
    int parts;
} dividing;

static void divide_parts(void *user, int64_t begin, int64_t end)
{
    dividing *d = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = d->ends[i], n = d->ends[i + 1] - first;
        size_t at = (size_t)first * d->q->item;
        d->middle[i] = first + (n < PART ? 0 : d->q->split(d->items + at, n, d->spare + at));
    }
}

static void sort_parts(void *user, int64_t begin, int64_t end)
{
    dividing *d = user;
    for (int64_t i = begin; i < end && !flxi_stopped(); i++) {
        size_t at = (size_t)d->ends[i] * d->q->item;
        d->q->sort(d->items + at, d->ends[i + 1] - d->ends[i], d->spare + at);
    }
}

void flxi_quick_sort(const flxi_quick *q, void *items, int64_t n, void *spare, flxi_pool *pool)
{
    const int threads = pool ? flxi_pool_threads(pool) : 1;
    if (threads == 1 || n < 2 * PART) {
        q->sort(items, n, spare);
        return;
    }
    dividing d = {.q = q, .items = items, .spare = spare, .ends = {0, n}, .parts = 1};
    while (2 * d.parts <= MOST_PARTS && d.parts < 4 * threads && !flxi_stopped()) {
        flxi_pool_run(pool, d.parts, 1, divide_parts, &d);
        for (int i = d.parts; i > 0; i--) {
            d.ends[2 * i] = d.ends[i];
            d.ends[2 * i - 1] = d.middle[i - 1];
        }
        d.parts *= 2;
    }
    flxi_pool_run(pool, d.parts, 1, sort_parts, &d);
}
