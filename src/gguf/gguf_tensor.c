/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tensor.c: the tensors of a GGUF file: over its memory where they may be used as they are, or decoded. */
#include "base/host/stop.h"
#include "base/options.h"
#include "gguf/gguf_file.h"
#include "graph/type/tensor.h"

#include <string.h>

size_t flx_gguf_tensor_count(const flx_gguf *f)
{
    return f ? f->tensors.n : 0;
}

flx_code flx_gguf_tensor_at(const flx_gguf *f, size_t i, flx_gguf_tensor_info *out, flx_error *err)
{
    if (!f || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_gguf_tensor_at: a file and a place for the result must be given");
    if (i >= f->tensors.n)
        return flxi_fail(err, FLX_E_NAME, "flx_gguf_tensor_at: there is no tensor %zu, the file has %zu", i,
                         f->tensors.n);
    const flxi_gguf_entry *t = &f->tensors.at[i];
    flx_gguf_tensor_info full = {.struct_size = sizeof full,
                                 .rank = t->rank,
                                 .name = t->name,
                                 .type = t->type->name,
                                 .offset = t->offset,
                                 .nbytes = t->nbytes,
                                 .part = t->part,
                                 .block = (uint32_t)t->type->count};
    memcpy(full.dims, t->dims, sizeof full.dims);
    return FLXI_FILL_OPTIONS(flx_gguf_tensor_info, out, &full, err);
}

static const flxi_gguf_entry *entry_at(const flx_gguf *f, size_t i, const char *function, flx_error *err)
{
    if (f && i < f->tensors.n)
        return &f->tensors.at[i];
    flxi_fail(err, f ? FLX_E_NAME : FLX_E_USAGE, "%s: there is no tensor %zu", function, i);
    return NULL;
}

static const unsigned char *bytes_of(const flx_gguf *f, const flxi_gguf_entry *t)
{
    return f->images.at[t->part]->bytes + t->offset;
}

/* ---- Over the file's memory ---- */

static void drop_image(void *user, void *data)
{
    (void)data;
    flxi_gguf_drop(user);
}

/* Elements that are not aligned as their dtype requires, which a file with a small alignment may have, are copied. */
static flx_tensor *wrap(const flx_gguf *f, const flxi_gguf_entry *t, const flx_type *type, flx_error *err)
{
    const unsigned char *at = bytes_of(f, t);
    size_t size = flx_dtype_size(type->dtype);
    if (size == 0 || (uintptr_t)at % size != 0 || t->nbytes == 0)
        return flx_tensor_new(f->ctx, type, at, err);
    flxi_gguf_image *m = flxi_gguf_hold(f->images.at[t->part]);
    flx_tensor *out = flx_tensor_wrap(f->ctx, type, (void *)(uintptr_t)at, drop_image, m, err);
    if (!out)
        flxi_gguf_drop(m);
    return out;
}

static flx_type byte_type(const flxi_gguf_entry *t)
{
    flx_type type = flx_type_make(FLX_U8, t->rank, t->dims);
    if (t->rank == 0)
        type = flx_type_make(FLX_U8, 1, (flx_dim[]){1});
    type.dims[type.rank - 1] = type.dims[type.rank - 1] / t->type->count * t->type->nbytes;
    return type;
}

flx_tensor *flx_gguf_tensor_bytes(const flx_gguf *f, size_t i, flx_error *err)
{
    const flxi_gguf_entry *t = entry_at(f, i, "flx_gguf_tensor_bytes", err);
    flx_type type;
    if (!t)
        return NULL;
    type = byte_type(t);
    return wrap(f, t, &type, err);
}

flx_tensor *flx_gguf_tensor(const flx_gguf *f, size_t i, flx_error *err)
{
    const flxi_gguf_entry *t = entry_at(f, i, "flx_gguf_tensor", err);
    if (!t)
        return NULL;
    if (t->type->dtype == FLX_DTYPE_NONE)
        return flx_gguf_tensor_bytes(f, i, err);
    flx_type type = flx_type_make((flx_dtype)t->type->dtype, t->rank, t->dims);
    return wrap(f, t, &type, err);
}

/* ---- Decoded ---- */

static void decode_blocks(const flxi_gguf_format *b, const unsigned char *block, float *y, int64_t count)
{
    double numbers[FLXI_GGUF_MOST];
    for (int64_t p = 0; p < count && !flxi_stopped(); p += b->count, block += b->nbytes) {
        b->decode(block, numbers);
        for (int i = 0; i < b->count; i++)
            y[p + i] = (float)numbers[i];
    }
}

flx_tensor *flx_gguf_tensor_f32(const flx_gguf *f, size_t i, flx_error *err)
{
    const flxi_gguf_entry *t = entry_at(f, i, "flx_gguf_tensor_f32", err);
    if (!t)
        return NULL;
    if (t->type->format < 0) {
        flx_tensor *own = flx_gguf_tensor(f, i, err);
        flx_tensor *cast = own ? flx_tensor_cast(own, FLX_F32, err) : NULL;
        flx_tensor_release(own);
        return cast;
    }
    flx_type type = flx_type_make(FLX_F32, t->rank, t->dims);
    flx_tensor *out = flx_tensor_new(f->ctx, &type, NULL, err);
    if (out)
        decode_blocks(&flxi_gguf_formats[t->type->format], bytes_of(f, t), flx_tensor_data(out), flx_tensor_count(out));
    return out;
}
