/* SPDX-License-Identifier: Apache-2.0 */
/* small_product.h: a product of few rows as C text, for functions that run a whole block (kernel_chain.h). Inside a
   loop such a product costs less than calling one that fits all shapes: everything is a number in the text, nothing is
   packed. Its bits are those of gemm.h: each element is one chain of fused multiply-adds in order of the depth. */
#ifndef FLXI_SMALL_PRODUCT_H
#define FLXI_SMALL_PRODUCT_H

#include "backend/cpu/gemm/gemm.h"
#include "emit/kernel_text.h"

typedef struct {
    int32_t dtype;
    int64_t rows, cols, depth;
    int64_t a_row, a_col, b_row; /* steps in elements; columns of b and c are neighbours, and c is dense */
} flxi_small_product;

/* NULL: `out` describes the product. Otherwise why it is better computed by a call. */
const char *flxi_small_product_of(const flxi_gemm *g, int threads, flxi_small_product *out);

/* Writes a function called `name` of the three matrices a, b and c into the file. */
void flxi_small_product_write(const flxi_small_product *p, const char *name, flxi_kfile *f);

#endif
