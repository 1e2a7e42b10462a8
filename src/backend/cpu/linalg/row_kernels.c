/* SPDX-License-Identifier: Apache-2.0 */
/* row_kernels.c: see row_kernels.h; the code is row_kernels.inc. */
#include "backend/cpu/linalg/row_kernels.h"

#include "backend/cpu/gemm/gemm.h"

typedef double lanes __attribute__((vector_size(64)));
typedef double loose __attribute__((vector_size(64), aligned(8), may_alias));

#define TARGET
#define NAME(x) plain_##x
#include "backend/cpu/linalg/row_kernels.inc"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#include "backend/cpu/linalg/row_kernels.inc"

#define TARGET __attribute__((target("avx512f,avx2")))
#define NAME(x) avx512_##x
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
