/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_window.c: see onnx_window.h. */
#include "onnx/import/rule/onnx_window.h"

/* SAME: the result has ceil(extent / stride) positions; what is odd goes to the end, or for LOWER to the start. */
static bool pad_same(onnx_site *s, flx_val x, onnx_window *w, bool lower)
{
    for (int i = 0; i < w->spatial; i++) {
        flx_dim n = flxi_onnx_dim(s, x, 2 + i);
        if (!flx_dim_is_static(n)) {
            flxi_onnx_unsupported(s, "auto_pad with a symbolic extent");
            return false;
        }
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t total = ((n + w->stride[i] - 1) / w->stride[i] - 1) * w->stride[i] + reach - n;
        total = total < 0 ? 0 : total;
        w->low[i] = lower ? total - total / 2 : total / 2;
        w->high[i] = total - w->low[i];
    }
    return true;
}

/* The last window may begin inside of the tensor or its low padding and end beyond the high one. */
static void round_up(onnx_site *s, flx_val x, onnx_window *w)
{
    for (int i = 0; i < w->spatial; i++) {
        flx_dim n = flxi_onnx_dim(s, x, 2 + i);
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (!flx_dim_is_static(n)) {
            flxi_onnx_unsupported(s, "ceil_mode with a symbolic extent");
            return;
        }
        int64_t room = n + w->low[i] + w->high[i] - reach;
        int64_t count = (room + w->stride[i] - 1) / w->stride[i] + 1;
        if ((count - 1) * w->stride[i] >= n + w->low[i])
            count--;
        int64_t extra = (count - 1) * w->stride[i] + reach - (n + w->low[i] + w->high[i]);
        w->extra[i] = extra > 0 ? extra : 0;
    }
}

static bool read_numbers(onnx_site *s, const char *name, int64_t absent, int n, int64_t *out)
{
    flx_ints v = flxi_onnx_ints_of(s, name, (size_t)n, absent);
    for (int i = 0; i < n && v.v; i++) {
        out[i] = v.v[i];
        if (out[i] < 1 || out[i] > INT32_MAX) {
            flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has the entry %lld", name, (long long)out[i]);
            return false;
        }
    }
    return v.v != NULL && !flxi_onnx_failed(s);
}

static bool read_kernel(onnx_site *s, const flx_dim *kernel, onnx_window *w)
{
    if (!kernel)
        return read_numbers(s, "kernel_shape", 0, w->spatial, w->kernel);
    for (int i = 0; i < w->spatial; i++) {
        w->kernel[i] = kernel[i];
        if (!flx_dim_is_static(kernel[i])) {
            flxi_onnx_unsupported(s, "a kernel of a symbolic extent");
            return false;
        }
    }
    return true;
}

bool flxi_onnx_window(onnx_site *s, flx_val x, const flx_dim *kernel, onnx_window *w)
{
    *w = (onnx_window){.spatial = flxi_onnx_rank(s, x) - 2};
    if (w->spatial < 1) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand must be [N, C, spatial...]");
        return false;
    }
    if (!read_kernel(s, kernel, w) || !read_numbers(s, "strides", 1, w->spatial, w->stride) ||
        !read_numbers(s, "dilations", 1, w->spatial, w->dilation))
        return false;
    const char *auto_pad = flxi_onnx_word(s, "auto_pad", "NOTSET");
    if (strncmp(auto_pad, "SAME", 4) == 0) {
        if (!pad_same(s, x, w, strcmp(auto_pad, "SAME_LOWER") == 0))
            return false;
    } else if (strcmp(auto_pad, "VALID") != 0) {
        flx_ints pads = flxi_onnx_ints_of(s, "pads", 2 * (size_t)w->spatial, 0);
        for (int i = 0; i < w->spatial && pads.v && pads.n; i++) {
            w->low[i] = pads.v[i];
            w->high[i] = pads.v[w->spatial + i];
        }
    }
    if (flxi_onnx_int(s, "ceil_mode", 0))
        round_up(s, x, w);
    return !flxi_onnx_failed(s);
}

flx_ints flxi_onnx_padding(onnx_site *s, const onnx_window *w)
{
    int64_t *v = flxi_onnx_new(s, int64_t, 2 * w->spatial);
    for (int i = 0; v && i < w->spatial; i++) {
        v[2 * i] = w->low[i];
        v[2 * i + 1] = w->high[i] + w->extra[i];
    }
    return (flx_ints){v, v ? 2 * (size_t)w->spatial : 0};
}
