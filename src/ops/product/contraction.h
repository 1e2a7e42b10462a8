/* SPDX-License-Identifier: Apache-2.0 */
/* contraction.h: the loop that defines every product: for each position of the result, the sum over the contracted
   positions of the product of one element of each operand.

   An operand is described by how far its element moves with each axis of the result and with each contracted axis: 0
   where it does not have the axis or stretches along it, the sum of several strides on a diagonal. */
#ifndef FLXI_CONTRACTION_H
#define FLXI_CONTRACTION_H

#include "graph/op/eval.h"

enum { FLXI_MAX_CONTRACTED = 72 }; /* einsum has 52 letters and FLX_MAX_RANK unnamed axes */

typedef struct {
    const void *data;
    int64_t along_result[FLX_MAX_RANK];
    int64_t along_sum[FLXI_MAX_CONTRACTED];
    int64_t base; /* internal to the loop: where the sum for one element of the result begins */
} flxi_factor;

typedef struct {
    size_t factors; /* at least one */
    int num_sums;
    flx_dim sum_dims[FLXI_MAX_CONTRACTED];
} flxi_contraction;

/* Fills y, which is zeroed before. Sums follow docs/numerics.md, "Sums and products"; an empty sum is zero. */
void flxi_contract(const flxi_contraction *c, flxi_factor *factors, flx_tensor *y);

#endif
