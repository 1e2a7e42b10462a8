/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_integers.c: tiles of integers and truth values for each instruction set; the code is gemm_tiles.inc.

   Integers are computed modulo 2^32 or 2^64, which is what wrapping around means at every narrower width too; truth
   values are masks, all bits or none. Integers of 8 and 16 bits are multiplied as pairs or fours of them: the products
   and their sums are exact in 32 bits. */
#include "backend/cpu/gemm/gemm_engine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ADD(a, b) ((a) + (b))
#define OR(a, b) ((a) | (b))

/* ---- Any machine: vectors of 16 bytes ---- */

typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x4_loose __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));
typedef uint64_t u64x2_loose __attribute__((vector_size(16), aligned(8), may_alias));

/* c + low a * low b + high a * high b, of signed halves. */
static inline u32x4 add_pairs(u32x4 a, u32x4 b, u32x4 c)
{
    u32x4 low_a = (u32x4)((i32x4)(a << 16) >> 16);
    u32x4 low_b = (u32x4)((i32x4)(b << 16) >> 16);
    u32x4 high_a = (u32x4)((i32x4)a >> 16);
    u32x4 high_b = (u32x4)((i32x4)b >> 16);
    return c + low_a * low_b + high_a * high_b;
}

#define LOAD32(p) ((u32x4) * (const u32x4_loose *)(p))
#define STORE32(p, v) (*(u32x4_loose *)(p) = (v))
#define EACH32(p) ((u32x4){*(p), *(p), *(p), *(p)})

#define INTEGER
#define JOIN ADD
#define GROUP 1
#define HEAD 0
#define REAL uint32_t
#define V u32x4
#define LANES 4
#define VECS 2
#define FN(name) generic_u32_##name
#define TARGET
#define LOAD LOAD32
#define STORE STORE32
#define SET1 EACH32
#define FMA(a, b, c) ((c) + (a) * (b))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN OR
#define GROUP 1
#define HEAD 0
#define REAL uint32_t
#define V u32x4
#define LANES 4
#define VECS 2
#define FN(name) generic_truth_##name
#define TARGET
#define LOAD LOAD32
#define STORE STORE32
#define SET1 EACH32
#define FMA(a, b, c) ((c) | ((a) & (b)))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 2
#define HEAD 0
#define REAL uint32_t
#define V u32x4
#define LANES 4
#define VECS 2
#define FN(name) generic_pairs_##name
#define TARGET
#define LOAD LOAD32
#define STORE STORE32
#define SET1 EACH32
#define FMA(a, b, c) add_pairs(a, b, c)
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 1
#define HEAD 0
#define REAL uint64_t
#define V u64x2
#define LANES 2
#define VECS 2
#define FN(name) generic_u64_##name
#define TARGET
#define LOAD(p) ((u64x2) * (const u64x2_loose *)(p))
#define STORE(p, v) (*(u64x2_loose *)(p) = (v))
#define SET1(p) ((u64x2){*(p), *(p)})
#define FMA(a, b, c) ((c) + (a) * (b))
#include "backend/cpu/gemm/gemm_tiles.inc"

/* ---- x86-64 ---- */

#if defined(__x86_64__)

typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint64_t u64x4 __attribute__((vector_size(32)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx2")))
#define VNNI __attribute__((target("avx512f,avx512vnni,avx2")))

#define LOAD256(T, p) ((T)_mm256_loadu_si256((const __m256i *)(p)))
#define STORE256(p, v) _mm256_storeu_si256((__m256i *)(p), (__m256i)(v))
#define LOAD512(T, p) ((T)_mm512_loadu_si512(p))
#define STORE512(p, v) _mm512_storeu_si512(p, (__m512i)(v))

#define INTEGER
#define JOIN ADD
#define GROUP 1
#define HEAD 0
#define REAL uint32_t
#define V u32x8
#define LANES 8
#define VECS 2
#define FN(name) avx2_u32_##name
#define TARGET AVX2
#define LOAD(p) LOAD256(u32x8, p)
#define STORE STORE256
#define SET1(p) ((u32x8)_mm256_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((c) + (a) * (b))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN OR
#define GROUP 1
#define HEAD 0
#define REAL uint32_t
#define V u32x8
#define LANES 8
#define VECS 2
#define FN(name) avx2_truth_##name
#define TARGET AVX2
#define LOAD(p) LOAD256(u32x8, p)
#define STORE STORE256
#define SET1(p) ((u32x8)_mm256_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((c) | ((a) & (b)))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 2
#define HEAD 0
#define REAL uint32_t
#define V u32x8
#define LANES 8
#define VECS 2
#define FN(name) avx2_pairs_##name
#define TARGET AVX2
#define LOAD(p) LOAD256(u32x8, p)
#define STORE STORE256
#define SET1(p) ((u32x8)_mm256_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((c) + (u32x8)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 1
#define HEAD 0
#define REAL uint64_t
#define V u64x4
#define LANES 4
#define VECS 2
#define FN(name) avx2_u64_##name
#define TARGET AVX2
#define LOAD(p) LOAD256(u64x4, p)
#define STORE STORE256
#define SET1(p) ((u64x4)_mm256_set1_epi64x((long long)*(p)))
#define FMA(a, b, c) ((c) + (a) * (b))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 1
#define HEAD 0
#define REAL uint32_t
#define V u32x16
#define LANES 16
#define VECS 4
#define FN(name) avx512_u32_##name
#define TARGET AVX512
#define LOAD(p) LOAD512(u32x16, p)
#define STORE STORE512
#define SET1(p) ((u32x16)_mm512_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((c) + (a) * (b))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 2
#define HEAD 0
#define REAL uint32_t
#define V u32x16
#define LANES 16
#define VECS 4
#define FN(name) vnni_pairs_##name
#define TARGET VNNI
#define LOAD(p) LOAD512(u32x16, p)
#define STORE STORE512
#define SET1(p) ((u32x16)_mm512_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((u32x16)_mm512_dpwssd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 4
#define HEAD 1
#define REAL uint32_t
#define V u32x16
#define LANES 16
#define VECS 4
#define FN(name) vnni_bytes_##name
#define TARGET VNNI
#define LOAD(p) LOAD512(u32x16, p)
#define STORE STORE512
#define SET1(p) ((u32x16)_mm512_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((u32x16)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#include "backend/cpu/gemm/gemm_tiles.inc"

#define INTEGER
#define JOIN ADD
#define GROUP 4
#define HEAD 1
#define REAL uint32_t
#define V u32x16
#define LANES 16
#define VECS 4
#define FN(name) vnni_ubytes_##name
#define TARGET VNNI
#define LOAD(p) LOAD512(u32x16, p)
#define STORE STORE512
#define SET1(p) ((u32x16)_mm512_set1_epi32((int)*(p)))
#define FMA(a, b, c) ((u32x16)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(b), (__m512i)(a)))
#include "backend/cpu/gemm/gemm_tiles.inc"

#endif

/* ---- Choosing ---- */

/* What a kind is computed by where there are no products of bytes. */
static const flxi_gemm_kernels *const kernels[][GEMM_KINDS] = {
    [FLXI_ISA_GENERIC] = {[GEMM_U32] = &generic_u32_kernels,
                          [GEMM_U64] = &generic_u64_kernels,
                          [GEMM_TRUTH] = &generic_truth_kernels,
                          [GEMM_PAIRS] = &generic_pairs_kernels,
                          [GEMM_BYTES] = &generic_pairs_kernels,
                          [GEMM_UBYTES] = &generic_pairs_kernels},
#if defined(__x86_64__)
    [FLXI_ISA_AVX2] = {[GEMM_U32] = &avx2_u32_kernels,
                       [GEMM_U64] = &avx2_u64_kernels,
                       [GEMM_TRUTH] = &avx2_truth_kernels,
                       [GEMM_PAIRS] = &avx2_pairs_kernels,
                       [GEMM_BYTES] = &avx2_pairs_kernels,
                       [GEMM_UBYTES] = &avx2_pairs_kernels},
    [FLXI_ISA_AVX512] = {[GEMM_U32] = &avx512_u32_kernels,
                         [GEMM_U64] = &avx2_u64_kernels,
                         [GEMM_TRUTH] = &avx2_truth_kernels,
                         [GEMM_PAIRS] = &avx2_pairs_kernels,
                         [GEMM_BYTES] = &avx2_pairs_kernels,
                         [GEMM_UBYTES] = &avx2_pairs_kernels},
#endif
};

const flxi_gemm_kernels *flxi_gemm_integer_kernels(flxi_gemm_kind kind, flxi_isa isa)
{
#if defined(__x86_64__)
    if (isa == FLXI_ISA_AVX512 && __builtin_cpu_supports("avx512vnni")) {
        switch (kind) {
        case GEMM_PAIRS: return &vnni_pairs_kernels;
        case GEMM_BYTES: return &vnni_bytes_kernels;
        case GEMM_UBYTES: return &vnni_ubytes_kernels;
        default: break;
        }
    }
#endif
    return kernels[isa][kind];
}
