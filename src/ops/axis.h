/* axis.h: what ops that work along an axis share: positions as results, and arrays that are walked together. */
#ifndef FLXI_AXIS_H
#define FLXI_AXIS_H

#include "ir/infer.h"

/* The attribute `dtype` of a result that holds positions 0 … extent-1: an integer dtype that can hold them all. */
flx_code flxi_check_positions(flxi_infer *f, int64_t dtype, flx_dim extent);

/* The first n operands have equal shapes. *shape receives it: operand 0's type, with numbers where any operand shows
   one for a symbol. */
flx_code flxi_equal_shapes(flxi_infer *f, uint32_t n, flx_type *shape);

#endif
