/* SPDX-License-Identifier: Apache-2.0 */
/* gamma_side.c: see gamma_side.h; the code is gamma_side.inc. The functions here are less exact than those of the C
   library, which define the draws, but far more than f32 needs: where rounding to f32 might differ, the definition
   decides. */
#include "backend/cpu/routes/gamma_side.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum { SIDE = FLXI_BLOCKS_SIDE, WORDS = FLXI_BLOCK_WORDS };

typedef double f64x4 __attribute__((vector_size(32)));
typedef uint64_t u64x4 __attribute__((vector_size(32)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef int64_t i64x4 __attribute__((vector_size(32)));
typedef double f64x8 __attribute__((vector_size(64)));
typedef uint64_t u64x8 __attribute__((vector_size(64)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef int64_t i64x8 __attribute__((vector_size(64)));

#define TARGET __attribute__((target("avx2")))
#define FN(name) avx2_##name
#define REAL f64x4
#define WORD u64x4
#define COUNT i64x4
#define NARROW u32x4
#define LANES 4
#define SQRT(x) ((f64x4)_mm256_sqrt_pd((__m256d)(x)))
#include "backend/cpu/routes/gamma_side.inc"

#define TARGET __attribute__((target("avx512f,avx2")))
#define FN(name) avx512_##name
#define REAL f64x8
#define WORD u64x8
#define COUNT i64x8
#define NARROW u32x8
#define LANES 8
#define SQRT(x) ((f64x8)_mm512_sqrt_pd((__m512d)(x)))
#include "backend/cpu/routes/gamma_side.inc"

#endif

flxi_gammas_fn flxi_gamma_side(void)
{
#if defined(__x86_64__)
    if (flxi_isa_available(FLXI_ISA_AVX512))
        return avx512_gammas;
    if (flxi_isa_available(FLXI_ISA_AVX2))
        return avx2_gammas;
#endif
    return NULL;
}
