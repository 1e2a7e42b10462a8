/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h: scales for a whole tensor or for each channel, shared by the ops of quantisation. Their attribute
   `axis` is FLXI_ABSENT for one scale, or the axis whose positions are the channels.

   Half floats are computed with in f32 ("wide") and rounded once at the end: a scale of 1e-12 would be 0 in f16. */
#ifndef FLXI_CHANNEL_H
#define FLXI_CHANNEL_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

/* ---- Inference ---- */

/* Normalises the axis; *count receives the number of channels: 1 without an axis. */
flx_code flxi_norm_channels(flxi_infer *f, int64_t *axis, const flx_type *x, flx_dim *count);

/* Operand k has one number for each channel: [C]; without an axis, or where one may be shared by all, also [1] or
   []. */
flx_code flxi_need_per_channel(flxi_infer *f, uint32_t k, int64_t axis, flx_dim count, bool may_share);

/* ---- Values ---- */

/* v in the dtype it is computed with, and in that of `like`. */
flx_val flxi_wide(flxi_site *s, flx_val v);
flx_val flxi_as(flxi_site *s, flx_val v, flx_val like);

/* One number for each channel as [1, …, C, …, 1], which stretches over x. */
flx_val flxi_channel_view(flxi_site *s, flx_val v, int64_t axis, const flx_type *x);

/* A vector of n constants; and one in the dtype of `like`, as such a view. */
flx_val flxi_constants(flxi_site *s, flx_dtype dtype, const double *v, size_t n);
flx_val flxi_channel_constants(flxi_site *s, const double *v, size_t n, int64_t axis, flx_val like);

/* Every axis except that of the channels; `room` has FLX_MAX_RANK entries. */
flx_ints flxi_axes_within_channel(int64_t axis, int rank, int64_t *room);

/* ---- Batching ---- */

/* Every example has channels of its own, so a batch has B·C of them, on axis 0: v [B, …] with axis `axis` of the
   example brought there, and back to the type of the batch. */
flx_val flxi_fold_channels(flxi_site *s, flx_val v, int64_t axis);
flx_val flxi_unfold_channels(flxi_site *s, flx_val v, int64_t axis, const flx_type *batch);

/* Operand k, one number for each channel of an example, as [B·C]. */
flx_val flxi_fold_scales(flxi_site *s, uint32_t k, flx_dim count);

/* The channels of an example of operand 0. */
flx_dim flxi_example_channels(flxi_site *s, int64_t axis);

#endif
