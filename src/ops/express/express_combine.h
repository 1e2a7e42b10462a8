/* SPDX-License-Identifier: Apache-2.0 */
/* express_combine.h: the operators that reductions and windows fold with, as expressions of kernels in the dtype
   e->dtype. */
#ifndef FLXI_KERNEL_COMBINE_H
#define FLXI_KERNEL_COMBINE_H

#include "ops/express/express.h"

typedef enum { FLXI_COMBINE_ADD, FLXI_COMBINE_MAX, FLXI_COMBINE_MIN, FLXI_COMBINE_MUL } flxi_kcombining;

/* The neutral element: 0 (the caller handles -0 of floats), the lowest and the highest number, 1. */
flxi_kval flxi_kcombine_start(flxi_express *e, flxi_kcombining op);
flxi_kval flxi_kcombine(flxi_express *e, flxi_kcombining op, flxi_kval acc, flxi_kval x);

/* Converts real values from the dtype of an operand to that of the fold, and back. */
flxi_kval flxi_kas(flxi_express *e, flxi_kval x, int32_t dtype);

#endif
