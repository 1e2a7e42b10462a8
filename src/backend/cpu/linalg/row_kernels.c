/* SPDX-License-Identifier: Apache-2.0 */
/* row_kernels.c: see row_kernels.h; the code is row_kernels.inc. */
#include "backend/cpu/linalg/row_kernels.h"

#include "backend/cpu/gemm/gemm.h"

typedef double f64x2 __attribute__((vector_size(16)));
typedef double f64x2_loose __attribute__((vector_size(16), aligned(8), may_alias));

#define EACH1(X) X(0)
#define EACH2(X) EACH1(X) X(1)
#define EACH4(X) EACH2(X) X(2) X(3)
#define EACH8(X) EACH4(X) X(4) X(5) X(6) X(7)

#define TARGET
#define NAME(x) plain_##x
#define V f64x2
#define LOOSE f64x2_loose
#define LANES 2
#define EACH EACH8
#define HALF EACH4
#include "backend/cpu/linalg/row_kernels.inc"

#if defined(__x86_64__)
typedef double f64x4 __attribute__((vector_size(32)));
typedef double f64x4_loose __attribute__((vector_size(32), aligned(8), may_alias));
typedef double f64x8 __attribute__((vector_size(64)));
typedef double f64x8_loose __attribute__((vector_size(64), aligned(8), may_alias));

#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#define V f64x4
#define LOOSE f64x4_loose
#define LANES 4
#define EACH EACH4
#define HALF EACH2
#include "backend/cpu/linalg/row_kernels.inc"

#define TARGET __attribute__((target("avx512f,avx2")))
#define NAME(x) avx512_##x
#define V f64x8
#define LOOSE f64x8_loose
#define LANES 8
#define EACH EACH2
#define HALF EACH1
#include "backend/cpu/linalg/row_kernels.inc"
#endif

const flxi_row_kernels *flxi_row_kernels_variant(int i)
{
#if defined(__x86_64__)
    const flxi_row_kernels *all[3] = {&plain_kernels};
    int count = 1;
    if (flxi_isa_available(FLXI_ISA_AVX2))
        all[count++] = &avx2_kernels;
    if (flxi_isa_available(FLXI_ISA_AVX512))
        all[count++] = &avx512_kernels;
    return i < count ? all[i] : NULL;
#else
    return i == 0 ? &plain_kernels : NULL;
#endif
}

const flxi_row_kernels *flxi_row_kernels_best(void)
{
    int last = 0;
    while (flxi_row_kernels_variant(last + 1))
        last++;
    return flxi_row_kernels_variant(last);
}
