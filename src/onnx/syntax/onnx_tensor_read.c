/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_tensor_read.c: lists of texts and numbers, tensors and types. */
#include "onnx/syntax/onnx_model.h"

#include <stdalign.h>

bool flxi_onnx_starved(onnx_reader *r)
{
    if (r->wire.err->code == FLX_OK)
        flxi_oom(r->wire.err, "an ONNX model");
    return false;
}

const char *flxi_onnx_text(onnx_reader *r, onnx_span s)
{
    if (memchr(s.at, 0, s.size)) {
        flxi_onnx_malformed(&r->wire, s.at, "a name contains a zero byte");
        return NULL;
    }
    const char *text = flxi_arena_text(r->arena, (const char *)s.at, s.size);
    if (!text)
        flxi_onnx_starved(r);
    return text;
}

bool flxi_onnx_read_texts(onnx_reader *r, onnx_span s, uint32_t number, const char *const **out, size_t *n)
{
    size_t count = flxi_onnx_count(&r->wire, s, number);
    const char **texts = flxi_new(r->arena, const char *, count + 1);
    if (!texts)
        return flxi_onnx_starved(r);
    size_t k = 0;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);) {
        if (f.number != number)
            continue;
        if (f.kind != ONNX_BYTES)
            return flxi_onnx_malformed(&r->wire, s.at, "a text is expected");
        texts[k] = flxi_onnx_text(r, f.bytes);
        if (!texts[k++])
            return false;
    }
    *out = texts;
    *n = k;
    return r->wire.err->code == FLX_OK;
}

/* How many numbers a field holds: one, or those of a packed list. */
static size_t count_packed(onnx_reader *r, const onnx_field *f, int width)
{
    size_t n = 0;
    if (f->kind != ONNX_BYTES)
        return 1;
    if (width > 0) {
        if (f->bytes.size % (size_t)width != 0)
            flxi_onnx_malformed(&r->wire, f->bytes.at, "a packed list is not complete");
        return f->bytes.size / (size_t)width;
    }
    for (size_t i = 0; i < f->bytes.size; i++)
        n += !(f->bytes.at[i] & 128);
    return n;
}

static bool unpack(onnx_reader *r, onnx_span s, int width, uint64_t *out, size_t room, size_t *k)
{
    while (s.size && *k < room) {
        uint64_t v = 0;
        if (width == 0 && !flxi_onnx_varint(&r->wire, &s, &v))
            return false;
        for (int b = 0; b < width; b++)
            v |= (uint64_t)s.at[b] << 8 * b;
        s.at += width;
        s.size -= (size_t)width;
        out[(*k)++] = v;
    }
    return s.size == 0 || flxi_onnx_malformed(&r->wire, s.at, "a packed list is not complete");
}

bool flxi_onnx_read_numbers(onnx_reader *r, onnx_span s, uint32_t number, int width, const uint64_t **out, size_t *n)
{
    size_t count = 0;
    onnx_span again = s;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);)
        count += f.number == number ? count_packed(r, &f, width) : 0;
    if (r->wire.err->code != FLX_OK)
        return false;
    uint64_t *v = flxi_new(r->arena, uint64_t, count + 1);
    if (!v)
        return flxi_onnx_starved(r);
    *n = 0;
    for (onnx_field f; flxi_onnx_next(&r->wire, &again, &f);) {
        if (f.number != number)
            continue;
        if (f.kind != ONNX_BYTES)
            v[(*n)++] = f.value;
        else if (!unpack(r, f.bytes, width, v, count, n))
            return false;
    }
    *out = v;
    return r->wire.err->code == FLX_OK;
}

void *flxi_onnx_read_list(onnx_reader *r, onnx_span s, uint32_t number, size_t size, onnx_read_fn read, size_t *n)
{
    size_t count = flxi_onnx_count(&r->wire, s, number);
    char *list = flxi_arena_alloc(r->arena, count + 1, size, alignof(max_align_t));
    if (!list) {
        flxi_onnx_starved(r);
        return NULL;
    }
    *n = 0;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);) {
        if (f.number != number)
            continue;
        if (f.kind != ONNX_BYTES) {
            flxi_onnx_malformed(&r->wire, s.at, "a message is expected");
            return NULL;
        }
        if (!read(r, f.bytes, list + size * *n))
            return NULL;
        (*n)++;
    }
    return r->wire.err->code == FLX_OK ? list : NULL;
}

/* ---- Tensors ---- */

static bool read_pair(onnx_reader *r, onnx_span s, void *out)
{
    onnx_pair *p = out;
    *p = (onnx_pair){"", ""};
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);) {
        if (f.kind != ONNX_BYTES || f.number > 2)
            continue;
        const char *text = flxi_onnx_text(r, f.bytes);
        if (!text)
            return false;
        *(f.number == 1 ? &p->key : &p->value) = text;
    }
    return r->wire.err->code == FLX_OK;
}

/* The typed fields: number, and bytes of an element in a packed list (0: variable-length). */
static const struct {
    uint32_t number;
    int width;
} typed_fields[] = {{4, 4}, {5, 0}, {7, 0}, {10, 8}, {11, 0}};

static bool read_typed(onnx_reader *r, onnx_span s, onnx_tensor *t)
{
    for (size_t i = 0; i < sizeof typed_fields / sizeof *typed_fields; i++) {
        const uint64_t *v;
        size_t n;
        if (!flxi_onnx_read_numbers(r, s, typed_fields[i].number, typed_fields[i].width, &v, &n))
            return false;
        if (n && t->numbers_field)
            return flxi_onnx_malformed(&r->wire, s.at, "tensor '%.60s' has elements in two fields", t->name);
        if (n) {
            t->numbers = v;
            t->num_numbers = n;
            t->numbers_field = typed_fields[i].number;
        }
    }
    return true;
}

static bool read_tensor_field(onnx_reader *r, const onnx_field *f, onnx_tensor *t)
{
    switch (f->number) {
    case 2: t->element = (int32_t)(f->value & 0x7fffffff); return true;
    case 8: t->name = f->kind == ONNX_BYTES ? flxi_onnx_text(r, f->bytes) : ""; return t->name != NULL;
    case 9:
        t->has_raw = f->kind == ONNX_BYTES;
        t->raw = f->bytes;
        return true;
    case 14: t->is_external = f->value == 1; return true;
    default: return true;
    }
}

bool flxi_onnx_read_tensor(onnx_reader *r, onnx_span s, onnx_tensor *t)
{
    const uint64_t *dims;
    onnx_span rest = s;
    *t = (onnx_tensor){.name = "", .offset = (size_t)(s.at - r->wire.base)};
    for (onnx_field f; flxi_onnx_next(&r->wire, &rest, &f);)
        if (!read_tensor_field(r, &f, t))
            return false;
    if (!flxi_onnx_read_numbers(r, s, 1, 0, &dims, &t->rank) || !read_typed(r, s, t) ||
        !flxi_onnx_read_texts(r, s, 6, &t->texts, &t->num_texts))
        return false;
    t->dims = (const int64_t *)dims;
    t->external = flxi_onnx_read_list(r, s, 13, sizeof(onnx_pair), read_pair, &t->num_external);
    return t->external != NULL;
}

bool flxi_onnx_read_sparse(onnx_reader *r, onnx_span s, onnx_sparse *out)
{
    const uint64_t *dims;
    onnx_span rest = s;
    *out = (onnx_sparse){0};
    for (onnx_field f; flxi_onnx_next(&r->wire, &rest, &f);)
        if ((f.number == 1 || f.number == 2) && f.kind == ONNX_BYTES &&
            !flxi_onnx_read_tensor(r, f.bytes, f.number == 1 ? &out->values : &out->indices))
            return false;
    if (!flxi_onnx_read_numbers(r, s, 3, 0, &dims, &out->rank))
        return false;
    out->dims = (const int64_t *)dims;
    out->values.name = out->values.name ? out->values.name : "";
    out->indices.name = out->indices.name ? out->indices.name : "";
    return r->wire.err->code == FLX_OK;
}

/* ---- Types ---- */

static bool read_dim(onnx_reader *r, onnx_span s, void *out)
{
    onnx_dim *d = out;
    *d = (onnx_dim){.value = -1};
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);) {
        if (f.number == 1 && f.kind == ONNX_VARINT)
            d->value = (int64_t)f.value;
        if (f.number == 2 && f.kind == ONNX_BYTES && !(d->param = flxi_onnx_text(r, f.bytes)))
            return false;
    }
    return r->wire.err->code == FLX_OK;
}

/* TypeProto.Tensor, and with only the element type also SparseTensor. */
static bool read_tensor_type(onnx_reader *r, onnx_span s, onnx_type *t)
{
    t->kind = ONNX_T_TENSOR;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);) {
        if (f.number == 1)
            t->element = (int32_t)(f.value & 0x7fffffff);
        if (f.number == 2 && f.kind == ONNX_BYTES) {
            t->has_shape = true;
            t->dims = flxi_onnx_read_list(r, f.bytes, 1, sizeof(onnx_dim), read_dim, &t->rank);
            if (!t->dims)
                return false;
        }
    }
    return r->wire.err->code == FLX_OK;
}

static bool read_item_type(onnx_reader *r, onnx_span s, onnx_type *t)
{
    onnx_type *item = flxi_new(r->arena, onnx_type, 1);
    if (!item)
        return flxi_onnx_starved(r);
    t->item = item;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);)
        if (f.number == 1 && f.kind == ONNX_BYTES && !flxi_onnx_read_type(r, f.bytes, item))
            return false;
    return r->wire.err->code == FLX_OK;
}

bool flxi_onnx_read_type(onnx_reader *r, onnx_span s, onnx_type *t)
{
    *t = (onnx_type){0};
    if (++r->depth > ONNX_MAX_DEPTH)
        return flxi_onnx_malformed(&r->wire, s.at, "types are nested more than %d deep", ONNX_MAX_DEPTH);
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);) {
        if (f.kind != ONNX_BYTES)
            continue;
        bool ok = true;
        if (f.number == 1) {
            ok = read_tensor_type(r, f.bytes, t);
        } else if (f.number == 4 || f.number == 9) {
            t->kind = f.number == 4 ? ONNX_T_SEQUENCE : ONNX_T_OPTIONAL;
            ok = read_item_type(r, f.bytes, t);
        } else if (f.number == 5 || f.number == 7 || f.number == 8) {
            t->kind = ONNX_T_OTHER;
        }
        if (!ok)
            return false;
    }
    r->depth--;
    return r->wire.err->code == FLX_OK;
}
