/* SPDX-License-Identifier: Apache-2.0 */
/* card_product.h: matmul and dot_general on a card: their layout, and a tiled kernel for all that no library takes. */
#ifndef FLXI_CARD_PRODUCT_H
#define FLXI_CARD_PRODUCT_H

#include "backend/card/card_way.h"

/* Axes that are walked together, the last one fastest. */
typedef struct {
    uint32_t rank;
    uint32_t extent[FLX_MAX_RANK];
    int64_t stride[FLX_MAX_RANK]; /* in elements */
} flxi_card_walk;

/* c[.., m, n] = sum over k of a[.., m, k] b[.., k, n]; c is dense. The kernel knows this layout. */
typedef struct {
    uint32_t m, n, k, batches;
    flxi_card_walk a_batch, a_line, a_depth;
    flxi_card_walk b_batch, b_line, b_depth;
} flxi_card_product;

/* The table of a node. */
typedef struct {
    flxi_card_product product;
    int32_t dtype;
    size_t workspace; /* bytes that a library of the device may use; 0 unless the device sets it */
} flxi_card_product_plan;

/* NULL, or why the card does not compute the node. The result must be static. */
const char *flxi_card_refuse_product(const flxi_device_node *n);
flxi_card_product_plan flxi_card_plan_product(const flxi_device_node *n);

/* Few columns with a long depth: a library has too few blocks for them. Depths have one stride, and neighbouring
   results are neighbours in b. */
bool flxi_card_is_thin(const flxi_card_product_plan *plan);
/* By the tiled kernel, or that for few columns. */
flx_code flxi_card_run_product(const flxi_launcher *on, const flxi_card_product_plan *plan, const void *const in[2],
                               void *out, flx_error *err);

extern const flxi_card_way flxi_card_products;

#endif
