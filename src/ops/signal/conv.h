/* SPDX-License-Identifier: Apache-2.0 */
/* conv.h: attributes and derivative rules of the convolutions, shared by conv.c and conv_rules.c. */
#ifndef FLXI_CONV_H
#define FLXI_CONV_H

#include "graph/op/attr_access.h"
#include "ops/signal/sliding.h"

/* ---- Attributes ---- */

typedef struct {                        /* the first member of every op's attributes */
    flx_ints stride, padding, dilation; /* padding: low, high for each spatial axis */
    flx_dim groups;
} flxi_conv_common;

typedef struct {
    flxi_conv_common common;
    flx_ints input_dilation, reverse;
    flx_ints input_axes, kernel_axes, output_axes;
    flx_dim batch_groups;
} flxi_conv_attrs;

typedef struct {
    flxi_conv_common common;
    flx_ints input_size;
} flxi_conv_backward_input_attrs;

typedef struct {
    flxi_conv_common common;
    flx_ints kernel_size;
} flxi_conv_backward_weight_attrs;

typedef struct {
    flxi_conv_common common;
    flx_ints output_padding;
} flxi_conv_transpose_attrs;

/* For code outside the family: NULL where the op is another one. */
FLXI_ATTRS_VIEW_OF(flxi_conv_attrs_of, flxi_conv_attrs, conv)
FLXI_ATTRS_VIEW_OF(flxi_conv_backward_input_attrs_of, flxi_conv_backward_input_attrs, conv_backward_input)
FLXI_ATTRS_VIEW_OF(flxi_conv_backward_weight_attrs_of, flxi_conv_backward_weight_attrs, conv_backward_weight)
FLXI_ATTRS_VIEW_OF(flxi_conv_transpose_attrs_of, flxi_conv_transpose_attrs, conv_transpose)

/* What any of these four has; NULL for other ops. */
static inline const flxi_conv_common *flxi_conv_common_of(flxi_opcode op, const void *attrs)
{
    const flxi_conv_attrs *general = flxi_conv_attrs_of(op, attrs);
    const flxi_conv_backward_input_attrs *input = flxi_conv_backward_input_attrs_of(op, attrs);
    const flxi_conv_backward_weight_attrs *weight = flxi_conv_backward_weight_attrs_of(op, attrs);
    const flxi_conv_transpose_attrs *transpose = flxi_conv_transpose_attrs_of(op, attrs);
    if (general)
        return &general->common;
    if (input)
        return &input->common;
    if (weight)
        return &weight->common;
    return transpose ? &transpose->common : NULL;
}

/* Rows of conv's schema, for ops whose attributes begin with those of conv. */
#define FLXI_CONV_COMMON_ROWS                                                                          \
    A_INTS(flxi_conv_common, stride, "all 1"), A_LIST(flxi_conv_common, padding, ATTR_PAIRS, "all 0"), \
        A_INTS(flxi_conv_common, dilation, "all 1"), A_DIM(flxi_conv_common, groups, 1)
#define FLXI_CONV_ROWS                                                                                                 \
    FLXI_CONV_COMMON_ROWS, A_INTS(flxi_conv_attrs, input_dilation, "all 1"), A_DIM(flxi_conv_attrs, batch_groups, 1),  \
        A_LIST(flxi_conv_attrs, reverse, ATTR_BOOLS, "all false"),                                                     \
        A_INTS(flxi_conv_attrs, input_axes, "[0, 1, 2, ...]"), A_INTS(flxi_conv_attrs, kernel_axes, "[0, 1, 2, ...]"), \
        A_INTS(flxi_conv_attrs, output_axes, "[0, 1, 2, ...]")

/* The inference of conv, which checks operands 0 and 1 only. */
flx_code flxi_infer_conv(flxi_infer *f);

/* How the kernel, of extent `window`, moves along spatial axis k of an input of extent `extent`. */
flxi_slide flxi_conv_slide(const flxi_conv_common *a, size_t k, flx_dim extent, flx_dim window);

/* The extent of conv_transpose's result along spatial axis k. */
flx_dim flxi_conv_transposed_extent(flx_context *ctx, const flxi_conv_transpose_attrs *a, size_t k, flx_dim extent,
                                    flx_dim window);

/* One factor of a convolution, its axes by part: batch or output feature, feature, then spatial ones, at least
   one of them, of extent 1. `axes` are those of the parts; NULL: in order. The type is static. */
typedef struct {
    int64_t dims[FLX_MAX_RANK + 1], steps[FLX_MAX_RANK + 1];
} flxi_conv_factor;

flxi_conv_factor flxi_conv_factor_of(const flx_type *t, const flx_ints *axes);

/* ---- Rules ---- */

void flxi_vjp_conv(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_vjp_conv_to_input(flxi_site *s, const flx_val *dy, flx_val *dx); /* conv_backward_input, conv_transpose */
void flxi_vjp_conv_to_weight(flxi_site *s, const flx_val *dy, flx_val *dx);

void flxi_batch_conv(flxi_site *s, flx_val *by);
void flxi_batch_conv_to_input(flxi_site *s, flx_val *by);
void flxi_batch_conv_to_weight(flxi_site *s, flx_val *by);

void flxi_decompose_conv_transpose(flxi_site *s, flx_val *y);

#endif
