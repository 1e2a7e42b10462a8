/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_read.c: reads a GGUF file: "GGUF", the version, how many tensors and values there are, the values, descriptions
   of the tensors, and after padding the bytes of the tensors. All numbers are little-endian.

   The file is treated as untrusted. A cursor never passes the end of the bytes; a count is compared with the bytes that
   are left, each of its items taking a known least number of them, before anything is allocated for it; arrays of
   arrays are refused, so nothing nests; sizes are multiplied with checks. */
#include "format/endian.h"
#include "gguf/gguf_file.h"

#include <string.h>

typedef struct {
    flx_gguf *f;
    const flxi_gguf_image *m;
    uint32_t part;
    size_t at;
    uint64_t alignment;
    flx_error *err;
} cursor;

enum { LEAST_VALUE = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 4 + 8, DEFAULT_ALIGNMENT = 32 };

/* ---- Bytes ---- */

static flx_code fail_at(const cursor *c, size_t at, flx_code code, const char *what, const char *name)
{
    flxi_fail(c->err, code, name ? "GGUF: %s: '%.80s'" : "GGUF: %s", what, name);
    flxi_at(c->err, "%s:%zu", c->m->name, at);
    return code;
}

static size_t left(const cursor *c)
{
    return c->m->size - c->at;
}

static flx_code take(cursor *c, size_t n, const unsigned char **out)
{
    if (n > left(c))
        return fail_at(c, c->at, FLX_E_SYNTAX, "the file ends too early", NULL);
    *out = c->m->bytes + c->at;
    c->at += n;
    return FLX_OK;
}

static flx_code take_u32(cursor *c, uint32_t *out)
{
    const unsigned char *p = NULL;
    FLXI_TRY(take(c, 4, &p));
    *out = flxi_get32(p);
    return FLX_OK;
}

static flx_code take_u64(cursor *c, uint64_t *out)
{
    const unsigned char *p = NULL;
    FLXI_TRY(take(c, 8, &p));
    *out = flxi_get64(p);
    return FLX_OK;
}

/* A count of items that take at least `least` bytes each. */
static flx_code take_count(cursor *c, size_t least, uint64_t *out)
{
    size_t at = c->at;
    FLXI_TRY(take_u64(c, out));
    if (*out > left(c) / least)
        return fail_at(c, at, FLX_E_SYNTAX, "a count is larger than the rest of the file", NULL);
    return FLX_OK;
}

/* A string, copied with a 0 at its end; bytes of 0 inside would make names ambiguous. */
static flx_code take_name(cursor *c, const char **out)
{
    size_t at = c->at;
    uint64_t n;
    const unsigned char *p = NULL;
    FLXI_TRY(take_count(c, 1, &n));
    FLXI_TRY(take(c, (size_t)n, &p));
    if (memchr(p, 0, (size_t)n))
        return fail_at(c, at, FLX_E_SYNTAX, "a name has a byte of 0", NULL);
    *out = flxi_arena_text(&c->f->arena, (const char *)p, (size_t)n);
    return *out ? FLX_OK : flxi_oom(c->err, "a GGUF file");
}

/* ---- Values ---- */

static size_t kind_size(int32_t kind)
{
    static const unsigned char sizes[] = {
#define SIZE(name, value, nbytes) [value] = (nbytes),
        FLX_GGUF_KIND_MAP(SIZE)
#undef SIZE
    };
    return kind >= 0 && kind < (int32_t)sizeof sizes ? sizes[kind] : 0;
}

const char *flxi_gguf_next_string(const unsigned char **at, size_t *size)
{
    const char *text = (const char *)*at + 8;
    *size = (size_t)flxi_get64(*at);
    *at += 8 + *size;
    return text;
}

static flx_code skip_strings(cursor *c, uint64_t count)
{
    const unsigned char *p = NULL;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n;
        FLXI_TRY(take_count(c, 1, &n));
        FLXI_TRY(take(c, (size_t)n, &p));
    }
    return FLX_OK;
}

static flx_code take_elements(cursor *c, flxi_gguf_value *v)
{
    const unsigned char *p = NULL;
    size_t size = kind_size(v->element);
    v->at = c->m->bytes + c->at;
    if (v->element == FLX_GGUF_STRING)
        return skip_strings(c, v->count);
    if (size == 0)
        return fail_at(c, c->at, FLX_E_SYNTAX,
                       v->element == FLX_GGUF_ARRAY ? "arrays of arrays are not supported" : "unknown kind of value",
                       v->key);
    return take(c, (size_t)v->count * size, &p); /* its count fits the file */
}

static flx_code take_kind(cursor *c, int32_t *out)
{
    uint32_t kind;
    FLXI_TRY(take_u32(c, &kind));
    *out = kind > INT32_MAX ? INT32_MAX : (int32_t)kind;
    return FLX_OK;
}

static flx_code take_value(cursor *c, flxi_gguf_value *v)
{
    *v = (flxi_gguf_value){.count = 1};
    FLXI_TRY(take_name(c, &v->key));
    FLXI_TRY(take_kind(c, &v->kind));
    v->element = v->kind;
    if (v->kind == FLX_GGUF_ARRAY) {
        FLXI_TRY(take_kind(c, &v->element));
        size_t least = v->element == FLX_GGUF_STRING ? 8 : kind_size(v->element);
        FLXI_TRY(take_count(c, least ? least : 1, &v->count));
    }
    return take_elements(c, v);
}

static flx_code take_alignment(cursor *c, const flxi_gguf_value *v)
{
    double a = flxi_gguf_element(v, 0, 0);
    if (!(a >= 1 && a <= 1 << 20) || (double)(uint64_t)a != a || ((uint64_t)a & ((uint64_t)a - 1)) != 0)
        return fail_at(c, (size_t)(v->at - c->m->bytes), FLX_E_SYNTAX, "the alignment must be a power of two", NULL);
    c->alignment = (uint64_t)a;
    return FLX_OK;
}

/* ---- Tensors ---- */

/* Extents in the file begin with the contiguous one. */
static flx_code take_dims(cursor *c, flxi_gguf_entry *t)
{
    uint32_t rank;
    size_t at = c->at;
    FLXI_TRY(take_u32(c, &rank));
    if (rank > FLXI_GGUF_MAX_RANK)
        return fail_at(c, at, FLX_E_SYNTAX, "a tensor has too many dimensions", t->name);
    t->rank = (int)rank;
    for (int i = t->rank - 1; i >= 0; i--) {
        uint64_t dim;
        at = c->at;
        FLXI_TRY(take_u64(c, &dim));
        if (dim > INT64_MAX)
            return fail_at(c, at, FLX_E_SIZE, "a dimension is too large", t->name);
        t->dims[i] = (int64_t)dim;
    }
    return FLX_OK;
}

static flx_code take_type(cursor *c, flxi_gguf_entry *t)
{
    uint32_t number;
    size_t at = c->at;
    FLXI_TRY(take_u32(c, &number));
    t->type = flxi_gguf_type_of(number);
    if (t->type)
        return FLX_OK;
    flxi_fail(c->err, FLX_E_UNSUPPORTED, "GGUF: unknown type %u of the tensor '%.80s'", number, t->name);
    return flxi_at(c->err, "%s:%zu", c->m->name, at);
}

/* Bytes of the tensor: rows of whole blocks. */
static flx_code count_bytes(cursor *c, size_t at, flxi_gguf_entry *t)
{
    int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    size_t n = (size_t)(row / t->type->count);
    if (row % t->type->count != 0)
        return fail_at(c, at, FLX_E_SYNTAX, "a row is not a whole number of blocks", t->name);
    bool fits = flxi_mul_size(n, (size_t)t->type->nbytes, &n);
    for (int i = 0; i < t->rank - 1; i++)
        fits = fits && flxi_mul_size(n, (size_t)t->dims[i], &n);
    if (!fits || n > c->m->size)
        return fail_at(c, at, FLX_E_SIZE, "a tensor is larger than the file", t->name);
    t->nbytes = n;
    return FLX_OK;
}

static flx_code take_tensor(cursor *c, flxi_gguf_entry *t)
{
    size_t at = c->at;
    *t = (flxi_gguf_entry){.part = c->part};
    FLXI_TRY(take_name(c, &t->name));
    FLXI_TRY(take_dims(c, t));
    FLXI_TRY(take_type(c, t));
    FLXI_TRY(take_u64(c, &t->offset));
    if (t->offset % c->alignment != 0)
        return fail_at(c, c->at - 8, FLX_E_SYNTAX, "the offset of a tensor is not aligned", t->name);
    return count_bytes(c, at, t);
}

/* Offsets count from the first byte after the descriptions that is aligned. */
static flx_code place_tensors(cursor *c, size_t first)
{
    uint64_t data = (c->at + c->alignment - 1) / c->alignment * c->alignment;
    for (size_t i = first; i < c->f->tensors.n; i++) {
        flxi_gguf_entry *t = &c->f->tensors.at[i];
        if (data > c->m->size || t->offset > c->m->size - data || t->nbytes > c->m->size - data - t->offset)
            return fail_at(c, c->at, FLX_E_SYNTAX, "the bytes of a tensor are beyond the end of the file", t->name);
        t->offset += data;
    }
    return FLX_OK;
}

/* ---- The file ---- */

static flx_code take_header(cursor *c, uint64_t *tensors, uint64_t *values)
{
    const unsigned char *magic = NULL;
    uint32_t version;
    FLXI_TRY(take(c, 4, &magic));
    if (memcmp(magic, "GGUF", 4) != 0)
        return fail_at(c, 0, FLX_E_SYNTAX, "the file does not begin with GGUF", NULL);
    FLXI_TRY(take_u32(c, &version));
    if (version != 0 && (version & 0xffff) == 0)
        return fail_at(c, 4, FLX_E_UNSUPPORTED, "big-endian files are not supported", NULL);
    if (version < 2 || version > 3)
        return fail_at(c, 4, FLX_E_VERSION, "the version of the file is neither 2 nor 3", NULL);
    FLXI_TRY(take_count(c, LEAST_TENSOR, tensors));
    return take_count(c, LEAST_VALUE, values);
}

static flx_code take_values(cursor *c, uint64_t count, bool with_values)
{
    for (uint64_t i = 0; i < count; i++) {
        flxi_gguf_value v;
        FLXI_TRY(take_value(c, &v));
        if (strcmp(v.key, "general.alignment") == 0)
            FLXI_TRY(take_alignment(c, &v));
        if (with_values && !flxi_push(flxi_context_mem(c->f->ctx), &c->f->values, v))
            return flxi_oom(c->err, "a GGUF file");
    }
    return FLX_OK;
}

flx_code flxi_gguf_read_image(flx_gguf *f, uint32_t part, bool with_values, flx_error *err)
{
    cursor c = {.f = f, .m = f->images.at[part], .part = part, .alignment = DEFAULT_ALIGNMENT, .err = err};
    size_t first = f->tensors.n;
    uint64_t tensors = 0, values = 0;
    FLXI_TRY(take_header(&c, &tensors, &values));
    FLXI_TRY(take_values(&c, values, with_values));
    for (uint64_t i = 0; i < tensors; i++) {
        flxi_gguf_entry t;
        FLXI_TRY(take_tensor(&c, &t));
        if (!flxi_push(flxi_context_mem(f->ctx), &f->tensors, t))
            return flxi_oom(err, "a GGUF file");
    }
    return place_tensors(&c, first);
}
