/* SPDX-License-Identifier: Apache-2.0 */
/* sliding.c: the arithmetic of sliding windows. Inference works on dimensions, which may be symbolic; evaluation on
   numbers. Positions are computed so that no attribute, however large, overflows: what passed inference fits in a
   dimension, and the only difference that may overflow is checked. */
#include "ops/signal/sliding.h"

/* ---- Inference ---- */

flx_dim flxi_dilated(flx_context *ctx, flx_dim n, flx_dim dilation)
{
    if (n == 0)
        return 0;
    return flx_dim_add(ctx, flx_dim_mul(ctx, flx_dim_sub(ctx, n, 1), dilation), 1);
}

static flx_dim padded(flx_context *ctx, const flxi_slide *s)
{
    flx_dim spread = flxi_dilated(ctx, s->extent, s->base_dilation);
    return flx_dim_add(ctx, flx_dim_add(ctx, s->low, spread), s->high);
}

flx_dim flxi_slide_room(flx_context *ctx, const flxi_slide *s)
{
    return flx_dim_sub(ctx, padded(ctx, s), flxi_dilated(ctx, s->window, s->dilation));
}

flx_dim flxi_slide_count(flx_context *ctx, flx_dim room, flx_dim stride)
{
    return flx_dim_add(ctx, flxi_dim_floor_div(ctx, room, stride), 1);
}

flx_code flxi_slide_fit(flxi_infer *f, size_t k, const flxi_slide *s, flx_dim *count)
{
    flx_dim room = flxi_slide_room(f->ctx, s);
    if (room != FLX_DIM_INVALID && flxi_dim_below(f->ctx, room, 0)) {
        flxi_dim_text span;
        flxi_dim_text size;
        return flxi_infer_fail(
            f, FLX_E_SHAPE, "use a larger padding, or a smaller window or dilation",
            "the window does not fit: along spatial axis %zu it spans %s, but the padded input has extent %s", k,
            flxi_dim_str(f->ctx, flxi_dilated(f->ctx, s->window, s->dilation), &span),
            flxi_dim_str(f->ctx, padded(f->ctx, s), &size));
    }
    *count = flxi_slide_count(f->ctx, room, s->stride);
    return FLX_OK;
}

flx_code flxi_norm_padding(flxi_infer *f, flx_ints *padding, size_t n)
{
    if (padding->v && padding->n != 2 * n)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "one number, or [low, high], for each spatial axis",
                               "padding is given for %zu spatial axes, but there are %zu", padding->n / 2, n);
    return flxi_norm_list(f, "padding", padding, 2 * n, 0);
}

/* ---- Evaluation ---- */

void flxi_windows_over(flxi_windows *w, const flx_type *x, const flx_type *y)
{
    w->rank = x->rank;
    flxi_strides(x, w->step);
    for (int k = 0; k < x->rank; k++) {
        w->axis[k].extent = x->dims[k];
        w->count[k] = y->dims[k];
        w->window[k] = w->axis[k].window;
    }
}

int64_t flxi_slide_at(const flxi_slide *s, int64_t o, int64_t k)
{
    int64_t at;
    if (__builtin_sub_overflow(o * s->stride + k * s->dilation, s->low, &at) || at < 0 || at % s->base_dilation != 0)
        return -1;
    at /= s->base_dilation;
    return at < s->extent ? at : -1;
}

int64_t flxi_windows_at(const flxi_windows *w, const int64_t *o, const int64_t *k)
{
    int64_t offset = 0;
    for (int i = 0; i < w->rank; i++) {
        int64_t at = flxi_slide_at(&w->axis[i], o[i], k[i]);
        if (at < 0)
            return -1;
        offset += at * w->step[i];
    }
    return offset;
}
