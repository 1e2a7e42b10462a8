/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_texts.h: tensors of texts (STRING).

   There is no dtype of texts. Where such a tensor meets the outside, it is u8 with one more axis at the end: the bytes
   of each text, filled up with zeros to the longest one, which counts as at least one byte. */
#ifndef FLXI_ONNX_TEXTS_H
#define FLXI_ONNX_TEXTS_H

#include "onnx/syntax/onnx_model.h"

#include <fluxion/tensor.h>

typedef struct {
    const char *const *at; /* the texts in order, as UTF-8 */
    size_t n;
    const int64_t *dims;
    size_t rank;
} onnx_texts;

/* The texts of a tensor of the file, which stay there; fails where they do not fit its shape. */
flx_code flxi_onnx_texts_read(const onnx_tensor *t, onnx_texts *out, flx_error *err);

/* Both forms of the same: as u8, and the texts of such a tensor, in the arena. */
flx_tensor *flxi_onnx_texts_pack(flx_context *ctx, const onnx_texts *texts, flx_error *err);
flx_code flxi_onnx_texts_unpack(flxi_arena *arena, const flx_tensor *t, onnx_texts *out, flx_error *err);

#endif
