/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_write.c: writes GGUF files of version 3. The descriptions are made in memory first, since the offsets of tensors
   follow from their sizes; then the bytes of the tensors are written as they are. */
#include "base/distinct.h"
#include "format/array.h"
#include "format/endian.h"
#include "format/file.h"
#include "gguf/gguf_file.h"
#include "graph/type/tensor.h"

#include <string.h>

typedef struct {
    flxi_strbuf head;
    uint64_t alignment;
    flx_error *err;
} writing;

/* ---- Numbers ---- */

static void put_u32(flxi_strbuf *b, uint32_t v)
{
    unsigned char bytes[4];
    flxi_put32(bytes, v);
    flxi_add_bytes(b, bytes, 4);
}

static void put_u64(flxi_strbuf *b, uint64_t v)
{
    unsigned char bytes[8];
    flxi_put64(bytes, v);
    flxi_add_bytes(b, bytes, 8);
}

static void put_text(flxi_strbuf *b, const char *s)
{
    size_t n = strlen(s);
    put_u64(b, n);
    flxi_add_bytes(b, s, n);
}

static uint64_t rounded(uint64_t n, uint64_t alignment)
{
    return (n + alignment - 1) / alignment * alignment;
}

/* ---- Values ---- */

/* Bytes of an element; 0 for strings and what is not a kind. */
static size_t element_size(int32_t kind)
{
    switch (kind) {
#define CASE(name, value, nbytes) \
    case FLX_GGUF_##name: return nbytes;
        FLX_GGUF_KIND_MAP(CASE)
#undef CASE
    default: return 0;
    }
}

static flx_code check_pair(const flx_gguf_pair *p, flx_error *err)
{
    int32_t element = p->kind == FLX_GGUF_ARRAY ? p->element : p->kind;
    if (!p->key || !p->key[0])
        return flxi_fail(err, FLX_E_USAGE, "flx_gguf_write: a value has no key");
    if (!element_size(element) && element != FLX_GGUF_STRING)
        return flxi_fail(err, FLX_E_USAGE, "flx_gguf_write: '%.80s' is of an unknown kind %d", p->key, (int)element);
    if (p->count && !p->data)
        return flxi_fail(err, FLX_E_USAGE, "flx_gguf_write: '%.80s' has no data", p->key);
    if (p->kind != FLX_GGUF_ARRAY && p->count != 1)
        return flxi_fail(err, FLX_E_USAGE, "flx_gguf_write: '%.80s' must have one element, or be an array", p->key);
    return FLX_OK;
}

/* Elements, lowest byte first, as this machine has them. */
static void put_elements(flxi_strbuf *b, const flx_gguf_pair *p, int32_t element)
{
    if (element != FLX_GGUF_STRING) {
        flxi_add_bytes(b, p->data, (size_t)p->count * element_size(element));
        return;
    }
    for (uint64_t i = 0; i < p->count; i++)
        put_text(b, ((const char *const *)p->data)[i]);
}

static flx_code put_pair(writing *w, const flx_gguf_pair *p)
{
    FLXI_TRY(check_pair(p, w->err));
    put_text(&w->head, p->key);
    put_u32(&w->head, (uint32_t)p->kind);
    if (p->kind == FLX_GGUF_ARRAY) {
        put_u32(&w->head, (uint32_t)p->element);
        put_u64(&w->head, p->count);
    }
    put_elements(&w->head, p, p->kind == FLX_GGUF_ARRAY ? p->element : p->kind);
    if (strcmp(p->key, "general.alignment") != 0)
        return FLX_OK;
    uint32_t a = p->kind == FLX_GGUF_U32 ? *(const uint32_t *)p->data : 0;
    if (a < 8 || a > 1 << 20 || (a & (a - 1)) != 0)
        return flxi_fail(w->err, FLX_E_USAGE,
                         "flx_gguf_write: general.alignment must be u32, a power of two from 8 on");
    w->alignment = a;
    return FLX_OK;
}

/* ---- Tensors ---- */

static const flxi_gguf_type *type_of(const flx_gguf_source *t, flx_error *err)
{
    int32_t dtype = flx_tensor_type(t->value)->dtype;
    const flxi_gguf_type *type = t->type ? flxi_gguf_type_named(t->type) : flxi_gguf_type_of_dtype(dtype);
    if (!type)
        flxi_fail(err, FLX_E_UNSUPPORTED, "flx_gguf_write: GGUF has no type for the tensor '%.80s' of %s", t->name,
                  t->type ? t->type : flx_dtype_name(dtype));
    return type;
}

/* The extents of the numbers, from those of the bytes where it is packed. */
static flx_code dims_of(const flx_gguf_source *t, const flxi_gguf_type *type, flx_type *out, flx_error *err)
{
    *out = *flx_tensor_type(t->value);
    if (out->rank > 4)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "flx_gguf_write: '%.80s' has rank %d; GGUF has at most 4", t->name,
                         (int)out->rank);
    if (out->dtype == type->dtype)
        return FLX_OK;
    flx_dim *last = &out->dims[out->rank - 1];
    if (out->dtype != FLX_U8 || out->rank < 1 || *last % type->nbytes != 0)
        return flxi_fail(err, FLX_E_SHAPE,
                         "flx_gguf_write: '%.80s' of type %s must be u8 with rows of a multiple of %d bytes", t->name,
                         type->name, (int)type->nbytes);
    *last = *last / type->nbytes * type->count;
    return FLX_OK;
}

static flx_code put_tensor(writing *w, const flx_gguf_source *t, uint64_t *offset)
{
    flx_type dims;
    if (!t->name || !t->name[0] || !t->value)
        return flxi_fail(w->err, FLX_E_USAGE, "flx_gguf_write: a tensor has no name or no value");
    const flxi_gguf_type *type = type_of(t, w->err);
    if (!type)
        return FLX_E_UNSUPPORTED;
    FLXI_TRY(dims_of(t, type, &dims, w->err));
    put_text(&w->head, t->name);
    put_u32(&w->head, (uint32_t)dims.rank);
    for (int i = dims.rank - 1; i >= 0; i--)
        put_u64(&w->head, (uint64_t)dims.dims[i]);
    put_u32(&w->head, type->number);
    put_u64(&w->head, *offset);
    *offset += rounded(flx_tensor_nbytes(t->value), w->alignment);
    return FLX_OK;
}

static flx_code pad(flxi_save *s, uint64_t alignment, flx_error *err)
{
    static const char zeros[256];
    while (s->written % alignment != 0) {
        uint64_t n = alignment - s->written % alignment;
        FLXI_TRY(flxi_save_bytes(s, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros, err));
    }
    return FLX_OK;
}

/* Packed bytes are written as they are; numbers lowest byte first, which this machine must have. */
static flx_code save_all(flxi_save *s, const writing *w, const flx_gguf_source *tensors, size_t count)
{
    FLXI_TRY(flxi_save_bytes(s, w->head.at, w->head.n, w->err));
    FLXI_TRY(pad(s, w->alignment, w->err));
    for (size_t i = 0; i < count; i++) {
        FLXI_TRY(
            flxi_save_bytes(s, flx_tensor_const_data(tensors[i].value), flx_tensor_nbytes(tensors[i].value), w->err));
        FLXI_TRY(pad(s, w->alignment, w->err));
    }
    return FLX_OK;
}

static flx_code make_head(writing *w, const flx_gguf_pair *pairs, size_t num_pairs, const flx_gguf_source *tensors,
                          size_t num_tensors)
{
    uint64_t offset = 0;
    flxi_add_text(&w->head, "GGUF");
    put_u32(&w->head, 3);
    put_u64(&w->head, num_tensors);
    put_u64(&w->head, num_pairs);
    for (size_t i = 0; i < num_pairs; i++)
        FLXI_TRY(put_pair(w, &pairs[i]));
    for (size_t i = 0; i < num_tensors; i++)
        FLXI_TRY(put_tensor(w, &tensors[i], &offset));
    return w->head.failed ? flxi_oom(w->err, "a GGUF file") : FLX_OK;
}

static flx_code save_file(const writing *w, const char *path, const flx_gguf_source *tensors, size_t count)
{
    flxi_save s;
    FLXI_TRY(flxi_save_begin(&s, path, w->err));
    flx_code code = save_all(&s, w, tensors, count);
    if (code == FLX_OK)
        return flxi_save_end(&s, w->err);
    flxi_save_abandon(&s);
    return code;
}

flx_code flx_gguf_write(const char *path, const flx_gguf_pair *pairs, size_t num_pairs, const flx_gguf_source *tensors,
                        size_t num_tensors, flx_error *err)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    flx_error local = {0};
    writing w = {.alignment = 32, .err = err ? err : &local};
    if (!path || (!pairs && num_pairs) || (!tensors && num_tensors))
        return flxi_fail(err, FLX_E_USAGE, "flx_gguf_write: a path, values and tensors must be given");
    if (flxi_host_is_big_endian())
        return flxi_fail(err, FLX_E_UNSUPPORTED, "flx_gguf_write: not supported on big-endian machines");
    flxi_strbuf_init(&w.head, &mem);
    flx_code code = flxi_check_distinct(&mem, "GGUF: two values have the key", pairs, num_pairs, sizeof *pairs, w.err);
    if (code == FLX_OK)
        code =
            flxi_check_distinct(&mem, "GGUF: two tensors have the name", tensors, num_tensors, sizeof *tensors, w.err);
    if (code == FLX_OK)
        code = make_head(&w, pairs, num_pairs, tensors, num_tensors);
    if (code == FLX_OK)
        code = save_file(&w, path, tensors, num_tensors);
    flxi_strbuf_free(&w.head);
    return code;
}
