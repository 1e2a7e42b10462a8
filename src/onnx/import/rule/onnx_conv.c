/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_conv.c: convolutions. */
#include "onnx/import/rule/onnx_window.h"

/* y + b, an element of b for each channel. */
static flx_val add_bias(onnx_site *s, flx_val y, flx_val b)
{
    if (!flxi_onnx_given(b))
        return y;
    int rank = flxi_onnx_rank(s, y);
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == 1 ? flxi_onnx_dim(s, b, 0) : 1;
    return flx_add(s->g, y, flx_reshape(s->g, b, .shape = {dims, (size_t)rank}));
}

static flx_val convolve(onnx_site *s, flx_val x, flx_val w)
{
    onnx_window win;
    const flx_type *t = flxi_onnx_typeof(s, w);
    if (t->rank != flxi_onnx_rank(s, x) || t->rank < 3) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "operands and weights must have the same rank, at least 3");
        return FLX_NONE;
    }
    if (!flxi_onnx_window(s, x, t->dims + 2, &win))
        return FLX_NONE;
    size_t n = (size_t)win.spatial;
    return flx_conv(s->g, x, w, .stride = {win.stride, n}, .padding = flxi_onnx_padding(s, &win),
                    .dilation = {win.dilation, n}, .groups = flxi_onnx_int(s, "group", 1));
}

void flxi_onnx_import_conv(onnx_site *s)
{
    s->y[0] = add_bias(s, convolve(s, s->x[0], s->x[1]), s->x[2]);
}

/* ---- Transposed ---- */

/* pads from output_shape or auto_pad; output_padding is what the result has in addition at the end. */
static bool transposed_pads(onnx_site *s, onnx_window *w, const int64_t *output_padding)
{
    flx_ints shape = flxi_onnx_ints(s, "output_shape");
    const char *auto_pad = flxi_onnx_word(s, "auto_pad", "NOTSET");
    bool same = strncmp(auto_pad, "SAME", 4) == 0;
    if (!shape.n && !same)
        return true;
    for (int i = 0; i < w->spatial; i++) {
        flx_dim n = flxi_onnx_dim(s, s->x[0], 2 + i);
        if (!flx_dim_is_static(n)) {
            flxi_onnx_unsupported(s, "output_shape with a symbolic extent");
            return false;
        }
        size_t skip = shape.n > (size_t)w->spatial ? shape.n - (size_t)w->spatial : 0;
        int64_t wanted = shape.n ? shape.v[skip + (size_t)i] : n * w->stride[i];
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t total = w->stride[i] * (n - 1) + output_padding[i] + reach - wanted;
        int64_t half = total >= 0 ? total / 2 : -((1 - total) / 2); /* rounded down */
        w->low[i] = strcmp(auto_pad, "SAME_UPPER") == 0 ? half : total - half;
        w->high[i] = total - w->low[i];
    }
    return true;
}

void flxi_onnx_import_conv_transpose(onnx_site *s)
{
    onnx_window win;
    flx_val w = s->x[1];
    const flx_type *t = flxi_onnx_typeof(s, w);
    if (t->rank != flxi_onnx_rank(s, s->x[0]) || t->rank < 3) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "operands and weights must have the same rank, at least 3");
        return;
    }
    if (!flxi_onnx_window(s, s->x[0], t->dims + 2, &win))
        return;
    size_t n = (size_t)win.spatial;
    flx_ints more = flxi_onnx_ints_of(s, "output_padding", n, 0);
    if (!more.v || !transposed_pads(s, &win, more.v))
        return;
    int64_t low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    for (size_t i = 0; i < n; i++) { /* a negative pad widens the result */
        low[2 + i] = win.low[i] < 0 ? -win.low[i] : 0;
        high[2 + i] = win.high[i] < 0 ? -win.high[i] : 0;
        win.low[i] = win.low[i] < 0 ? 0 : win.low[i];
        win.high[i] = win.high[i] < 0 ? 0 : win.high[i];
    }
    flx_val y = flx_conv_transpose(s->g, s->x[0], w, .stride = {win.stride, n}, .padding = flxi_onnx_padding(s, &win),
                                   .dilation = {win.dilation, n}, .groups = flxi_onnx_int(s, "group", 1),
                                   .output_padding = more);
    bool widens = false;
    for (size_t i = 0; i < n; i++)
        widens |= low[2 + i] || high[2 + i];
    if (widens)
        y = flx_pad(s->g, y, flxi_onnx_number(s, y, 0), .low = {low, n + 2}, .high = {high, n + 2});
    s->y[0] = add_bias(s, y, s->x[2]);
}

/* ---- Integers ---- */

/* x - zero point in i32; the zero point is a scalar or has an element for each position of `axis`. */
static flx_val centred(onnx_site *s, flx_val x, flx_val zero, int axis)
{
    flx_val wide = flxi_onnx_cast(s, x, FLX_I32);
    if (!flxi_onnx_given(zero))
        return wide;
    flx_val z = flxi_onnx_cast(s, zero, FLX_I32);
    int rank = flxi_onnx_rank(s, x);
    if (flxi_onnx_rank(s, z) == 1) {
        flx_dim dims[FLX_MAX_RANK];
        for (int i = 0; i < rank; i++)
            dims[i] = i == axis ? flxi_onnx_dim(s, z, 0) : 1;
        z = flxi_onnx_dim(s, z, 0) == 1 ? flx_reshape(s->g, z, .shape = FLX_NO_INTS)
                                        : flx_reshape(s->g, z, .shape = {dims, (size_t)rank});
    }
    return flx_sub(s->g, wide, z);
}

void flxi_onnx_import_conv_integer(onnx_site *s)
{
    s->y[0] = convolve(s, centred(s, s->x[0], s->x[2], 1), centred(s, s->x[1], s->x[3], 0));
}

void flxi_onnx_import_matmul_integer(onnx_site *s)
{
    int ra = flxi_onnx_rank(s, s->x[0]), rb = flxi_onnx_rank(s, s->x[1]);
    s->y[0] = flx_matmul(s->g, centred(s, s->x[0], s->x[2], ra - 2), centred(s, s->x[1], s->x[3], rb - 1));
}

/* round(y * scale) + zero point, saturated to the dtype of the zero point. */
static flx_val requantised(onnx_site *s, flx_val y, flx_val scale, flx_val zero)
{
    flx_dtype to = flxi_onnx_dtype(s, zero);
    flx_val r = flx_round(s->g, flx_mul(s->g, flxi_onnx_cast(s, y, FLX_F32), scale));
    flx_val z = flxi_onnx_cast(s, zero, FLX_F32);
    return flxi_onnx_cast(s, flx_add(s->g, r, z), to); /* a cast to integers saturates */
}

/* A scale with an element for each channel, to broadcast against [N, C, …]. */
static flx_val channel_scale(onnx_site *s, flx_val scale, int rank, int axis)
{
    flx_dim dims[FLX_MAX_RANK];
    if (flxi_onnx_rank(s, scale) != 1 || flxi_onnx_dim(s, scale, 0) == 1)
        return flxi_onnx_rank(s, scale) == 1 ? flx_reshape(s->g, scale, .shape = FLX_NO_INTS) : scale;
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? flxi_onnx_dim(s, scale, 0) : 1;
    return flx_reshape(s->g, scale, .shape = {dims, (size_t)rank});
}

static flx_val total_scale(onnx_site *s, flx_val a, flx_val b, flx_val y)
{
    flx_val product = flx_mul(s->g, flxi_onnx_cast(s, a, FLX_F32), flxi_onnx_cast(s, b, FLX_F32));
    return flx_div(s->g, product, flxi_onnx_cast(s, y, FLX_F32));
}

void flxi_onnx_import_qlinear_conv(onnx_site *s)
{
    flx_val y = convolve(s, centred(s, s->x[0], s->x[2], 1), centred(s, s->x[3], s->x[5], 0));
    y = add_bias(s, y, s->x[8]);
    flx_val w_scale = channel_scale(s, s->x[4], flxi_onnx_rank(s, s->x[0]), 1);
    s->y[0] = requantised(s, y, total_scale(s, s->x[1], w_scale, s->x[6]), s->x[7]);
}

void flxi_onnx_import_qlinear_matmul(onnx_site *s)
{
    int ra = flxi_onnx_rank(s, s->x[0]), rb = flxi_onnx_rank(s, s->x[3]);
    flx_val y = flx_matmul(s->g, centred(s, s->x[0], s->x[2], ra - 2), centred(s, s->x[3], s->x[5], rb - 1));
    int r = flxi_onnx_rank(s, y);
    flx_val a = channel_scale(s, s->x[1], r, r - 2), b = channel_scale(s, s->x[4], r, r - 1);
    s->y[0] = requantised(s, y, total_scale(s, a, b, s->x[6]), s->x[7]);
}
