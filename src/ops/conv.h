/* conv.h: attributes and derivative rules of the convolutions, as conv.c and conv_rules.c share them. */
#ifndef FLXI_CONV_H
#define FLXI_CONV_H

#include "ops/sliding.h"

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

/* How the kernel, of extent `window`, moves along spatial axis k of an input of extent `extent`. */
flxi_slide flxi_conv_slide(const flxi_conv_common *a, size_t k, flx_dim extent, flx_dim window);

/* The extent of conv_transpose's result along spatial axis k. */
flx_dim flxi_conv_transposed_extent(flx_context *ctx, const flxi_conv_transpose_attrs *a, size_t k, flx_dim extent,
                                    flx_dim window);

/* ---- Rules ---- */

void flxi_vjp_conv(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_vjp_conv_to_input(flxi_site *s, const flx_val *dy, flx_val *dx); /* conv_backward_input, conv_transpose */
void flxi_vjp_conv_to_weight(flxi_site *s, const flx_val *dy, flx_val *dx);

void flxi_batch_conv(flxi_site *s, flx_val *by);
void flxi_batch_conv_to_input(flxi_site *s, flx_val *by);
void flxi_batch_conv_to_weight(flxi_site *s, flx_val *by);

void flxi_decompose_conv_transpose(flxi_site *s, flx_val *y);

#endif
