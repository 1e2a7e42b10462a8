/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tiles.c: the kernels of the matrix product of floats and complex numbers for each instruction set; the code is
   gemm_tiles.inc.

   Every variant adds with fused multiply-adds and in the same order, so they agree to the bit; what differs is the size
   of a tile. The generic one calls fma(), which is slow where the machine has no such instruction. */
#include "backend/cpu/gemm/gemm_engine.h"

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define DOT4(X) X(0) X(1) X(2) X(3)
#define DOT8(X) DOT4(X) X(4) X(5) X(6) X(7)
#define DOT16(X) DOT8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/* ---- Any machine: vectors of 16 bytes ---- */

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_loose __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64x2 __attribute__((vector_size(16)));
typedef double f64x2_loose __attribute__((vector_size(16), aligned(8), may_alias));

static inline f32x4 fma_f32x4(f32x4 a, f32x4 b, f32x4 c)
{
    return (f32x4){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
}

static inline f64x2 fma_f64x2(f64x2 a, f64x2 b, f64x2 c)
{
    return (f64x2){fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1])};
}

#define REAL float
#define V f32x4
#define LANES 4
#define VECS 2
#define FN(name) generic_f32_##name
#define TARGET
#define LOAD(p) ((f32x4) * (const f32x4_loose *)(p))
#define STORE(p, v) (*(f32x4_loose *)(p) = (v))
#define SET1(p) ((f32x4){*(p), *(p), *(p), *(p)})
#define FMA(a, b, c) fma_f32x4(a, b, c)
#define FMA1(a, b, c) fmaf(a, b, c)
#define DOT_EACH DOT16
#define DOT_VECS 16
#include "backend/cpu/gemm/gemm_tiles.inc"

#define REAL double
#define V f64x2
#define LANES 2
#define VECS 2
#define FN(name) generic_f64_##name
#define TARGET
#define LOAD(p) ((f64x2) * (const f64x2_loose *)(p))
#define STORE(p, v) (*(f64x2_loose *)(p) = (v))
#define SET1(p) ((f64x2){*(p), *(p)})
#define FMA(a, b, c) fma_f64x2(a, b, c)
#define FMA1(a, b, c) fma(a, b, c)
#define DOT_EACH DOT16
#define DOT_VECS 16
#include "backend/cpu/gemm/gemm_tiles.inc"

/* ---- x86-64 ---- */

#if defined(__x86_64__)

/* The intrinsics' own types may alias anything, and GCC tells them apart from what arithmetic gives. */
typedef float f32x8 __attribute__((vector_size(32)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef float f32x16 __attribute__((vector_size(64)));
typedef double f64x8 __attribute__((vector_size(64)));

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx2,fma")))

#define REAL float
#define V f32x8
#define LANES 8
#define VECS 2
#define FN(name) avx2_f32_##name
#define TARGET AVX2
#define LOAD(p) ((f32x8)_mm256_loadu_ps(p))
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SET1(p) ((f32x8)_mm256_broadcast_ss(p))
#define FMA(a, b, c) ((f32x8)_mm256_fmadd_ps(a, b, c))
#define FMA1(a, b, c) __builtin_fmaf(a, b, c)
#define DOT_EACH DOT8
#define DOT_VECS 8
#include "backend/cpu/gemm/gemm_tiles.inc"

#define REAL double
#define V f64x4
#define LANES 4
#define VECS 2
#define FN(name) avx2_f64_##name
#define TARGET AVX2
#define LOAD(p) ((f64x4)_mm256_loadu_pd(p))
#define STORE(p, v) _mm256_storeu_pd(p, v)
#define SET1(p) ((f64x4)_mm256_broadcast_sd(p))
#define FMA(a, b, c) ((f64x4)_mm256_fmadd_pd(a, b, c))
#define FMA1(a, b, c) __builtin_fma(a, b, c)
#define DOT_EACH DOT8
#define DOT_VECS 8
#include "backend/cpu/gemm/gemm_tiles.inc"

#define REAL float
#define V f32x16
#define LANES 16
#define VECS 4
#define FN(name) avx512_f32_##name
#define TARGET AVX512
#define LOAD(p) ((f32x16)_mm512_loadu_ps(p))
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SET1(p) ((f32x16)_mm512_set1_ps(*(p)))
#define FMA(a, b, c) ((f32x16)_mm512_fmadd_ps(a, b, c))
#define FMA1(a, b, c) __builtin_fmaf(a, b, c)
#define DOT_EACH DOT4
#define DOT_VECS 4
#include "backend/cpu/gemm/gemm_tiles.inc"

#define REAL double
#define V f64x8
#define LANES 8
#define VECS 4
#define FN(name) avx512_f64_##name
#define TARGET AVX512
#define LOAD(p) ((f64x8)_mm512_loadu_pd(p))
#define STORE(p, v) _mm512_storeu_pd(p, v)
#define SET1(p) ((f64x8)_mm512_set1_pd(*(p)))
#define FMA(a, b, c) ((f64x8)_mm512_fmadd_pd(a, b, c))
#define FMA1(a, b, c) __builtin_fma(a, b, c)
#define DOT_EACH DOT4
#define DOT_VECS 4
#include "backend/cpu/gemm/gemm_tiles.inc"

#endif

/* ---- Choosing ---- */

#define FLOAT_KERNELS(isa)                                                                                         \
    {                                                                                                              \
        [GEMM_F32] = &isa##_f32_kernels, [GEMM_F64] = &isa##_f64_kernels, [GEMM_C64] = &isa##_f32_complex_kernels, \
        [GEMM_C128] = &isa##_f64_complex_kernels,                                                                  \
    }

static const flxi_gemm_kernels *const kernels[][GEMM_KINDS] = {
    [FLXI_ISA_GENERIC] = FLOAT_KERNELS(generic),
#if defined(__x86_64__)
    [FLXI_ISA_AVX2] = FLOAT_KERNELS(avx2),
    [FLXI_ISA_AVX512] = FLOAT_KERNELS(avx512),
#endif
};

bool flxi_isa_available(flxi_isa isa)
{
    if (isa == FLXI_ISA_BEST || isa == FLXI_ISA_GENERIC)
        return true;
#if defined(__x86_64__)
    bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return isa == FLXI_ISA_AVX2 ? fused : isa == FLXI_ISA_AVX512 && fused && __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

const flxi_gemm_kernels *flxi_gemm_kernels_of(flxi_gemm_kind kind, flxi_isa isa)
{
    if (isa == FLXI_ISA_BEST)
        isa = flxi_isa_available(FLXI_ISA_AVX512) ? FLXI_ISA_AVX512
              : flxi_isa_available(FLXI_ISA_AVX2) ? FLXI_ISA_AVX2
                                                  : FLXI_ISA_GENERIC;
    if (!flxi_isa_available(isa))
        return NULL;
    return kind < GEMM_U32 ? kernels[isa][kind] : flxi_gemm_integer_kernels(kind, isa);
}
