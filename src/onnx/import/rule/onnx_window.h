/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_window.h: the attributes that convolutions and poolings share. */
#ifndef FLXI_ONNX_WINDOW_H
#define FLXI_ONNX_WINDOW_H

#include "onnx/import/onnx_site.h"

typedef struct {
    int spatial; /* axes after batch and channels */
    int64_t kernel[FLX_MAX_RANK], stride[FLX_MAX_RANK], dilation[FLX_MAX_RANK];
    int64_t low[FLX_MAX_RANK], high[FLX_MAX_RANK];
    int64_t extra[FLX_MAX_RANK]; /* beyond `high`, for ceil_mode; not counted as padding */
} onnx_window;

/* Reads kernel_shape, strides, dilations, pads or auto_pad and ceil_mode for x [N, C, spatial…]; the kernel is given
   where the weights have it (NULL: the attribute). False with the error in the graph. */
bool flxi_onnx_window(onnx_site *s, flx_val x, const flx_dim *kernel, onnx_window *out);

/* low, high, low, high …, as the attribute `padding` of our ops takes it. */
flx_ints flxi_onnx_padding(onnx_site *s, const onnx_window *w);

#endif
