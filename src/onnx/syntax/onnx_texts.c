/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_texts.c: see onnx_texts.h. */
#include "onnx/syntax/onnx_texts.h"

#include "base/text/utf8.h"
#include "graph/type/type.h"

/* One long text among many short ones must not become gigabytes of zeros: beyond a megabyte, the tensor has at most
   64 times the bytes of the texts. */
enum { FREE_BYTES = 1 << 20, MOST_TIMES = 64, MOST_BYTES = 1 << 28 };

flx_code flxi_onnx_texts_read(const onnx_tensor *t, onnx_texts *out, flx_error *err)
{
    flx_type type = flx_type_make(FLX_U8, (int32_t)(t->rank < FLX_MAX_RANK ? t->rank : 0), t->dims);
    int64_t count = 0;
    if (t->rank >= FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_SIZE, "tensor '%.60s' has %zu axes; texts have at most %d", t->name, t->rank,
                         FLX_MAX_RANK - 1);
    for (size_t i = 0; i < t->rank; i++)
        if (t->dims[i] < 0)
            return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s' has the negative extent %lld", t->name,
                             (long long)t->dims[i]);
    if (!flxi_static_count(&type, &count) || t->is_external || t->has_raw || (size_t)count != t->num_texts)
        return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s' has %zu texts, which do not fit its shape", t->name,
                         t->num_texts);
    for (size_t i = 0; i < t->num_texts; i++)
        if (!flxi_is_utf8(t->texts[i], strlen(t->texts[i])))
            return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s': text %zu is not UTF-8", t->name, i);
    *out = (onnx_texts){t->texts, t->num_texts, t->dims, t->rank};
    return FLX_OK;
}

/* The bytes of the longest text, at least 1; 0 with an error where the tensor would be too large. */
static size_t width_of(const onnx_texts *texts, flx_error *err)
{
    size_t width = 1, total = texts->n;
    for (size_t i = 0; i < texts->n; i++) {
        size_t n = strlen(texts->at[i]);
        width = n > width ? n : width;
        total += n;
    }
    size_t most = total < MOST_BYTES / MOST_TIMES ? total * MOST_TIMES : MOST_BYTES;
    most = most > FREE_BYTES ? most : FREE_BYTES;
    if (!texts->n || width <= most / texts->n)
        return width;
    flxi_fail(err, FLX_E_SIZE, "%zu texts of up to %zu bytes are too many for a tensor", texts->n, width);
    return 0;
}

flx_tensor *flxi_onnx_texts_pack(flx_context *ctx, const onnx_texts *texts, flx_error *err)
{
    size_t width = width_of(texts, err);
    if (!width)
        return NULL;
    flx_type type = flx_type_make(FLX_U8, (int32_t)texts->rank, texts->dims);
    type.dims[type.rank++] = (flx_dim)width;
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, err);
    char *at = t ? flx_tensor_data(t) : NULL;
    for (size_t i = 0; t && i < texts->n; i++, at += width) {
        size_t n = strlen(texts->at[i]);
        memcpy(at, texts->at[i], n);
        memset(at + n, 0, width - n);
    }
    return t;
}

flx_code flxi_onnx_texts_unpack(flxi_arena *arena, const flx_tensor *t, onnx_texts *out, flx_error *err)
{
    const flx_type *type = flx_tensor_type(t);
    if (type->dtype != FLX_U8 || type->rank == 0 || type->dims[type->rank - 1] == 0)
        return flxi_fail(err, FLX_E_DTYPE, "texts are u8, the bytes of each along the last axis, filled with zeros");
    size_t width = (size_t)type->dims[type->rank - 1], n = (size_t)flx_tensor_count(t) / width;
    const int64_t *dims = flxi_dup(arena, int64_t, type->dims, type->rank);
    const char **texts = flxi_new(arena, const char *, n + 1);
    const char *from = flx_tensor_const_data(t);
    if (!dims || !texts)
        return flxi_oom(err, "texts");
    for (size_t i = 0; i < n; i++) {
        const char *text = from + i * width;
        size_t length = strnlen(text, width);
        if (!flxi_is_utf8(text, length))
            return flxi_fail(err, FLX_E_SYNTAX, "text %zu is not UTF-8", i);
        texts[i] = flxi_arena_text(arena, text, length);
        if (!texts[i])
            return flxi_oom(err, "texts");
    }
    *out = (onnx_texts){texts, n, dims, (size_t)type->rank - 1};
    return FLX_OK;
}
