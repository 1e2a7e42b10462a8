/* SPDX-License-Identifier: Apache-2.0 */
/* axis.h: shared by ops that work along an axis: positions as results. */
#ifndef FLXI_AXIS_H
#define FLXI_AXIS_H

#include "graph/op/infer.h"

/* The attribute `dtype` of a result that holds positions 0 … extent-1: an integer dtype that can hold them all. */
flx_code flxi_check_positions(flxi_infer *f, int64_t dtype, flx_dim extent);

#endif
