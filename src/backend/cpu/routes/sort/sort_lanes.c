/* SPDX-License-Identifier: Apache-2.0 */
/* sort_lanes.c: see sort_lanes.h; the code is sort_lanes.inc. Short runs are sorted in registers, then merged: the
   first half of two runs is compared with the second one in reverse, then parts at half the distance, and so on, the
   last four of them in registers again. */
#include "backend/cpu/routes/sort/sort_lanes.h"

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/routes/sort/sort_network.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- Any machine: vectors of 16 bytes ---- */

typedef uint32_t u32x4 __attribute__((vector_size(16), may_alias));
typedef uint64_t u64x2 __attribute__((vector_size(16), may_alias));

static inline u32x4 min_u32x4(u32x4 a, u32x4 b)
{
    u32x4 is_below = (u32x4)(a < b);
    return (a & is_below) | (b & ~is_below);
}

static inline u64x2 min_u64x2(u64x2 a, u64x2 b)
{
    u64x2 is_below = (u64x2)(a < b);
    return (a & is_below) | (b & ~is_below);
}

#define V u32x4
#define FN(name) generic_32_##name
#define TARGET
#define MIN(a, b) min_u32x4(a, b)
#define MAX(a, b) ((a) ^ (b) ^ min_u32x4(a, b))
#include "backend/cpu/routes/sort/sort_lanes.inc"

#define V u64x2
#define FN(name) generic_64_##name
#define TARGET
#define MIN(a, b) min_u64x2(a, b)
#define MAX(a, b) ((a) ^ (b) ^ min_u64x2(a, b))
#include "backend/cpu/routes/sort/sort_lanes.inc"

#if defined(__x86_64__)

/* ---- AVX2 ---- */

#define V __m256i
#define FN(name) avx2_32_##name
#define TARGET __attribute__((target("avx2")))
#define MIN(a, b) _mm256_min_epu32(a, b)
#define MAX(a, b) _mm256_max_epu32(a, b)
#include "backend/cpu/routes/sort/sort_lanes.inc"

/* Comparisons are signed: the highest bits are turned over first. */
static inline __attribute__((always_inline, target("avx2"))) __m256i is_above_u64(__m256i a, __m256i b)
{
    const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_cmpgt_epi64(_mm256_xor_si256(a, sign), _mm256_xor_si256(b, sign));
}

#define V __m256i
#define FN(name) avx2_64_##name
#define TARGET __attribute__((target("avx2")))
#define MIN(a, b) _mm256_blendv_epi8(a, b, is_above_u64(a, b))
#define MAX(a, b) _mm256_blendv_epi8(b, a, is_above_u64(a, b))
#include "backend/cpu/routes/sort/sort_lanes.inc"

/* ---- AVX-512 ---- */

#define V __m512i
#define FN(name) avx512_32_##name
#define TARGET __attribute__((target("avx512f")))
#define MIN(a, b) _mm512_min_epu32(a, b)
#define MAX(a, b) _mm512_max_epu32(a, b)
#include "backend/cpu/routes/sort/sort_lanes.inc"

#define V __m512i
#define FN(name) avx512_64_##name
#define TARGET __attribute__((target("avx512f")))
#define MIN(a, b) _mm512_min_epu64(a, b)
#define MAX(a, b) _mm512_max_epu64(a, b)
#include "backend/cpu/routes/sort/sort_lanes.inc"

#endif

flxi_lanes_sort flxi_lanes_sort_of(size_t item)
{
#if defined(__x86_64__)
    if (flxi_isa_available(FLXI_ISA_AVX512))
        return item == sizeof(uint32_t) ? avx512_32_sort : avx512_64_sort;
    if (flxi_isa_available(FLXI_ISA_AVX2))
        return item == sizeof(uint32_t) ? avx2_32_sort : avx2_64_sort;
#endif
    return item == sizeof(uint32_t) ? generic_32_sort : generic_64_sort;
}
