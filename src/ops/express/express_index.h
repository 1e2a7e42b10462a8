/* SPDX-License-Identifier: Apache-2.0 */
/* express_index.h: positions from index operands as kernel expressions: flxi_resolve_index in terms of express.h. */
#ifndef FLXI_KERNEL_INDEX_H
#define FLXI_KERNEL_INDEX_H

#include "graph/op/eval.h"
#include "ops/express/express.h"

typedef struct {
    uint32_t at;     /* u32, always in range */
    uint32_t inside; /* bool; 0: always */
} flxi_kposition;

/* The position for `extent` > 0 valid ones under OOB_ZERO or OOB_CLAMP; x is an element of the index operand. */
flxi_kposition flxi_kresolve(flxi_express *e, uint32_t x, int64_t extent, flxi_oob policy);
/* Whether a policy can be implemented in a kernel: an index out of range must not be an error. */
bool flxi_oob_expresses(int64_t oob, int64_t extent);

/* The value read there: the operand's element, or 0 if out of range. */
flxi_kval flxi_kread(flxi_express *e, uint32_t operand, const flxi_kindex *at, uint32_t inside);

#endif
