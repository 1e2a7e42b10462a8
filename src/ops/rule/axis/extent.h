/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h: checks of extents, counts and ranks that inference rules share, with one wording each. An extent that
   depends on symbols passes; binding them runs the rule again on numbers. */
#ifndef FLXI_EXTENT_H
#define FLXI_EXTENT_H

#include "graph/op/infer.h"

typedef struct {
    char text[64];
} flxi_dim_text;
/* A dimension as text, for messages. */
const char *flxi_dim_str(flx_context *ctx, flx_dim d, flxi_dim_text *buffer);

static inline bool flxi_dim_negative(flx_dim d)
{
    return flxi_dim_is_number(d) && d < 0;
}

/* The dimension that two dims which may be equal share: the number, where one of them is a number. */
static inline flx_dim flxi_agreed_dim(flx_dim a, flx_dim b)
{
    return flxi_dim_is_number(a) ? a : b;
}

/* Fails with ARITY when an op of any number of operands has none. */
flx_code flxi_need_operands(flxi_infer *f);
/* Fails with SIZE when a result cannot have that many axes. */
flx_code flxi_need_result_rank(flxi_infer *f, size_t rank);
/* Fails with ATTRIBUTE when a count is a negative number. */
flx_code flxi_need_count(flxi_infer *f, const char *name, flx_dim n);
/* The same for each entry of a list. */
flx_code flxi_need_counts(flxi_infer *f, const char *name, const flx_ints *list);
/* A list of n entries; absent is filled with `value`. Fails with ATTRIBUTE when an entry is a number below `least`. */
flx_code flxi_norm_sizes(flxi_infer *f, const char *name, flx_ints *list, size_t n, int64_t value, int64_t least);

/* Merges the extents of operand k into y, except for axis `except` (-1: none); fails with SHAPE where they differ. A
   number replaces a symbol. */
flx_code flxi_merge_shape(flxi_infer *f, uint32_t k, int64_t except, flx_type *y);
/* The first n operands have equal shapes, which *shape receives: operand 0's type with everything known about the
   extents. */
flx_code flxi_equal_shapes(flxi_infer *f, uint32_t n, flx_type *shape);

#endif
