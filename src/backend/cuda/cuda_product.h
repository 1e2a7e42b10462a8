/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_product.h: matmul and dot_general on the card: by cuBLASLt where it is there and takes the layout, else by a
   tiled kernel of our own. */
#ifndef FLXI_CUDA_PRODUCT_H
#define FLXI_CUDA_PRODUCT_H

#include "backend/cuda/cuda_card.h"

/* Axes that are walked together, the last one fastest. */
typedef struct {
    uint32_t rank;
    uint32_t extent[FLX_MAX_RANK];
    int64_t stride[FLX_MAX_RANK]; /* in elements */
} flxi_cuda_walk;

/* c[.., m, n] = sum over k of a[.., m, k] b[.., k, n]; c is dense. The kernel of our own knows this layout. */
typedef struct {
    uint32_t m, n, k, batches;
    flxi_cuda_walk a_batch, a_line, a_depth;
    flxi_cuda_walk b_batch, b_line, b_depth;
} flxi_cuda_product;

/* The table of a node. */
typedef struct {
    flxi_cuda_product product;
    int32_t dtype;
    size_t workspace; /* bytes that cuBLASLt may use */
} flxi_cuda_product_plan;

/* NULL, or why the card does not compute the node. The result must be static. */
const char *flxi_cuda_refuse_product(const flxi_device_node *n);
flxi_cuda_product_plan flxi_cuda_plan_product(const flxi_device_node *n);

flx_code flxi_cuda_run_product(flxi_card *card, flxi_cu_stream stream, const flxi_cuda_product_plan *p,
                               const void *const in[2], void *out, void *scratch, flx_error *err);

/* By cuBLASLt; *done is false, without an error, where it does not take the product. */
flx_code flxi_cuda_run_lt(flxi_card *card, flxi_cu_stream stream, const flxi_cuda_product_plan *p,
                          const void *const in[2], void *out, void *scratch, bool *done, flx_error *err);
void flxi_cuda_free_lt_plans(flxi_card *card);

/* How the text of a kernel knows a dtype: types T of elements and A of sums, LOAD, SAVE, ZERO and STEP (c + x y); NULL:
   not at all. */
const char *flxi_cuda_number_text(int32_t dtype);

/* These dtypes are counted: the number of one, or -1; and the dtype with a number. */
enum { FLXI_CUDA_NUM_NUMBERS = 14 };
int32_t flxi_cuda_number_of(int32_t dtype);
int32_t flxi_cuda_number_at(int32_t number);

/* The text of our own kernel for a dtype. Its function is called "product". */
flx_code flxi_cuda_product_text(int32_t dtype, flxi_strbuf *out, flx_error *err);

#endif
