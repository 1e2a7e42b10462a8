/* SPDX-License-Identifier: Apache-2.0 */
/* blas.h: a CBLAS that the machine may have, as another way to compute large matrix products.

   Looked for once, when first asked: $FLX_BLAS (a path, or "off"), else the usual names. It is used only where it
   measures faster than our own product on this machine, and always on one thread of its own inside our pool: blocks of
   fixed height are shared out, so results do not depend on the number of threads. Which of the two routes ran does show
   in the last bits, as each adds in its own order. */
#ifndef FLXI_BLAS_H
#define FLXI_BLAS_H

#include <fluxion/types.h>
#include <stdbool.h>

/* The library's name, or NULL with *why the reason there is none. */
const char *flxi_blas_library(const char **why);

/* C[m, n] = op(A) op(B), dense row-major C with that row step; dtype f32 or f64; a library must be there. */
typedef struct {
    int32_t dtype;
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    const void *a, *b;
    int64_t a_step, b_step, c_step; /* of rows in memory */
    void *c;
} flxi_blas_product;
void flxi_blas_run(const flxi_blas_product *p);

/* Speed of the library over that of our own product, on one thread; measured once per dtype. 0 without a library. */
double flxi_blas_ratio(int32_t dtype);

#endif
