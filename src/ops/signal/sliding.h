/* SPDX-License-Identifier: Apache-2.0 */
/* sliding.h: windows that slide along the axes of a tensor, for convolution, pooling, reduce_window and
   select_and_scatter.

   An axis of extent n is first spread (base_dilation − 1 gaps between neighbours), then padded at both ends or
   cropped there (negative padding). A window of `window` taps, `dilation` apart, visits the padded axis in steps
   of `stride`. */
#ifndef FLXI_SLIDING_H
#define FLXI_SLIDING_H

#include "graph/op/eval.h"
#include "ops/rule/axis/extent.h"

/* One axis. */
typedef struct {
    flx_dim extent, low, high;
    flx_dim window, stride;
    flx_dim base_dilation, dilation;
} flxi_slide;

/* ---- Inference ---- */

/* The span of n elements whose neighbours are `dilation` apart: (n − 1)·dilation + 1, and 0 for n = 0. */
flx_dim flxi_dilated(flx_context *ctx, flx_dim n, flx_dim dilation);
/* How far the window can move: padded extent − window's span; negative when it does not fit. */
flx_dim flxi_slide_room(flx_context *ctx, const flxi_slide *s);
/* ⌊room / stride⌋ + 1 */
flx_dim flxi_slide_count(flx_context *ctx, flx_dim room, flx_dim stride);
/* Fails with SHAPE when the window of spatial axis k is known not to fit, else *count receives the number of
   windows. */
flx_code flxi_slide_fit(flxi_infer *f, size_t k, const flxi_slide *s, flx_dim *count);

/* `padding` as low, high for each of n axes; absent is all zeros. */
flx_code flxi_norm_padding(flxi_infer *f, flx_ints *padding, size_t n);

/* ---- Evaluation ---- */

/* All axes of one tensor. */
typedef struct {
    int rank;
    flxi_slide axis[FLX_MAX_RANK];
    flx_dim count[FLX_MAX_RANK];  /* windows along each axis */
    flx_dim window[FLX_MAX_RANK]; /* taps along each axis */
    int64_t step[FLX_MAX_RANK];   /* the tensor's strides */
} flxi_windows;

/* x is visited by windows that fill a tensor of type y; the caller has set `axis`, except for the extents. */
void flxi_windows_over(flxi_windows *w, const flx_type *x, const flx_type *y);

/* Position of tap k of window o along an axis, or -1 where it is in padding or a gap. */
int64_t flxi_slide_at(const flxi_slide *s, int64_t o, int64_t k);
/* The element that tap k of window o reads, or -1 for padding. */
int64_t flxi_windows_at(const flxi_windows *w, const int64_t *o, const int64_t *k);

#endif
