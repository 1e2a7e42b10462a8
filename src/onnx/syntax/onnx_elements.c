/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_elements.c: see onnx_elements.h. */
#include "onnx/syntax/onnx_elements.h"

#include "base/context.h"
#include "format/array.h"
#include "graph/op/eval.h"
#include "graph/type/type.h"
#include "onnx/syntax/onnx_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const onnx_element elements[] = {
#define X(name, number, carrier, bits) {number, #name, FLX_##carrier, bits},
    ONNX_ELEMENTS(X)
#undef X
};

const onnx_element *flxi_onnx_element(int32_t number)
{
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (elements[i].number == number)
            return &elements[i];
    return NULL;
}

int32_t flxi_onnx_element_of(int32_t dtype)
{
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if ((int32_t)elements[i].carrier == dtype)
            return elements[i].number;
    return 0;
}

/* ---- Narrow floats ---- */

static const onnx_float_format float_formats[] = {
    {ONNX_FLOAT8E4M3FN, 4, 3, 7, false, true, false, 448}, {ONNX_FLOAT8E4M3FNUZ, 4, 3, 8, false, true, true, 240},
    {ONNX_FLOAT8E5M2, 5, 2, 15, true, true, false, 57344}, {ONNX_FLOAT8E5M2FNUZ, 5, 2, 16, false, true, true, 57344},
    {ONNX_FLOAT4E2M1, 2, 1, 1, false, false, false, 6},    {ONNX_FLOAT8E8M0, 8, 0, 127, false, true, false, 0x1p127},
};

const onnx_float_format *flxi_onnx_float_format(int32_t element)
{
    for (size_t i = 0; i < sizeof float_formats / sizeof *float_formats; i++)
        if (float_formats[i].number == element)
            return &float_formats[i];
    return NULL;
}

double flxi_onnx_float_decode(const onnx_float_format *f, unsigned bits)
{
    if (f->number == ONNX_FLOAT8E8M0) /* a power of two without a sign */
        return bits == 255 ? (double)NAN : ldexp(1, (int)bits - f->bias);
    unsigned top = (1u << f->exponent) - 1;
    unsigned m = bits & ((1u << f->mantissa) - 1);
    unsigned e = bits >> f->mantissa & top;
    bool negative = bits >> (f->exponent + f->mantissa) & 1;
    double x = e ? ldexp((double)(m + (1u << f->mantissa)), (int)e - f->bias - f->mantissa)
                 : ldexp((double)m, 1 - f->bias - f->mantissa);
    if (f->is_fnuz && negative && e == 0 && m == 0)
        return NAN;
    if (f->has_inf && e == top)
        x = m ? (double)NAN : (double)INFINITY;
    if (f->has_nan && !f->has_inf && !f->is_fnuz && x > f->largest)
        x = NAN;
    return negative ? -x : x;
}

/* ---- Types ---- */

static flx_code tensor_type(const onnx_tensor *t, const onnx_element **element, flx_type *out, flx_error *err)
{
    *element = flxi_onnx_element(t->element);
    if (!*element)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "unsupported: tensor '%.60s' has elements of type %s", t->name,
                         t->element == ONNX_STRING ? "STRING" : "unknown");
    if (t->rank > FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_SIZE, "tensor '%.60s' has %zu axes; at most %d are supported", t->name, t->rank,
                         FLX_MAX_RANK);
    *out = flx_type_make((*element)->carrier, (int32_t)t->rank, t->dims);
    int64_t count;
    for (size_t i = 0; i < t->rank; i++)
        if (t->dims[i] < 0)
            return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s' has the negative extent %lld", t->name,
                             (long long)t->dims[i]);
    if (!flxi_static_count(out, &count))
        return flxi_fail(err, FLX_E_SIZE, "tensor '%.60s' is larger than any memory", t->name);
    return FLX_OK;
}

/* The elements that a field has, checked against those of the shape. */
static flx_code check_count(const onnx_tensor *t, size_t have, int64_t need, const char *what, flx_error *err)
{
    if (have == (size_t)need)
        return FLX_OK;
    return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s' has %zu %s, but its shape needs %lld", t->name, have, what,
                     (long long)need);
}

/* ---- Elements ---- */

/* Element i of packed bytes of less than a byte each, lowest bits first. */
static unsigned packed_bits(const unsigned char *p, int64_t i, int bits)
{
    int per_byte = 8 / bits;
    return p[i / per_byte] >> (int)(i % per_byte) * bits & ((1u << bits) - 1);
}

/* Stores element i of a type that has no dtype, from its bits. */
static void store_narrow(const onnx_element *e, unsigned bits, flx_dtype to, void *out, int64_t i)
{
    const onnx_float_format *f = flxi_onnx_float_format(e->number);
    if (f) {
        flxi_store_double((int32_t)to, out, i, flxi_onnx_float_decode(f, bits));
        return;
    }
    int64_t v = (int64_t)bits;
    if (to == FLX_I8 && bits >> (e->bits - 1))
        v -= (int64_t)1 << e->bits;
    flxi_store_int((int32_t)to, out, i, v);
}

static bool is_narrow(const onnx_element *e)
{
    return e->bits < 8 || flxi_onnx_float_format(e->number);
}

static flx_code load_raw(flx_context *ctx, const onnx_tensor *t, const onnx_element *e, const flx_type *type,
                         const flxi_source *from, flx_tensor **out, flx_error *err)
{
    int64_t n = flxi_known_count(type);
    if (!is_narrow(e)) {
        flxi_array a = {.type = *type, .size = from->size};
        *out = flxi_array_load(ctx, &a, from, err);
        return *out ? FLX_OK : FLX_E_IO;
    }
    int64_t bytes = e->bits == 8 ? n : (n + 8 / e->bits - 1) / (8 / e->bits);
    FLXI_TRY(check_count(t, (size_t)from->size, bytes, "bytes", err));
    unsigned char *packed = flxi_alloc(&ctx->mem, (size_t)bytes, 1);
    if (!packed)
        return flxi_oom(err, "a tensor");
    flx_code code = flxi_source_read(from, 0, packed, (size_t)bytes, err);
    *out = code == FLX_OK ? flx_tensor_new(ctx, type, NULL, err) : NULL;
    for (int64_t i = 0; *out && i < n; i++)
        store_narrow(e, e->bits == 8 ? packed[i] : packed_bits(packed, i, e->bits), e->carrier, flx_tensor_data(*out),
                     i);
    flxi_free(&ctx->mem, packed, (size_t)bytes, 1);
    return *out ? FLX_OK : FLX_E_OOM;
}

/* Element i of the typed field. 16-bit floats are bits in int32_data; narrow types are packed in it by byte. */
static void store_number(const onnx_tensor *t, const onnx_element *e, void *out, int64_t i)
{
    uint64_t v = t->numbers[e->bits < 8 ? i / (8 / e->bits) : i];
    if (is_narrow(e)) {
        unsigned bits = (unsigned)v;
        store_narrow(e, e->bits < 8 ? bits >> (int)(i % (8 / e->bits)) * e->bits & ((1u << e->bits) - 1) : bits & 255,
                     e->carrier, out, i);
    } else if (e->number == ONNX_BOOL) {
        ((unsigned char *)out)[i] = v != 0;
    } else if (e->carrier == FLX_C64 || e->carrier == FLX_C128) {
        memcpy((char *)out + (size_t)i * (size_t)e->bits / 16, &v, (size_t)e->bits / 16);
    } else { /* all others are their low bytes, also floats */
        flxi_store_int((int32_t)(e->bits == 8    ? FLX_U8
                                 : e->bits == 16 ? FLX_U16
                                 : e->bits == 32 ? FLX_U32
                                                 : FLX_U64),
                       out, i, (int64_t)v);
    }
}

static flx_code load_numbers(flx_context *ctx, const onnx_tensor *t, const onnx_element *e, const flx_type *type,
                             flx_tensor **out, flx_error *err)
{
    int64_t n = flxi_known_count(type);
    bool is_complex = e->carrier == FLX_C64 || e->carrier == FLX_C128;
    int64_t need = is_complex ? 2 * n : e->bits < 8 ? (n + 8 / e->bits - 1) / (8 / e->bits) : n;
    FLXI_TRY(check_count(t, t->num_numbers, need, "elements", err));
    *out = flx_tensor_new(ctx, type, NULL, err);
    for (int64_t i = 0; *out && i < (is_complex ? 2 * n : n); i++)
        store_number(t, e, flx_tensor_data(*out), i);
    return *out ? FLX_OK : FLX_E_OOM;
}

/* ---- External data ---- */

static const char *external_value(const onnx_tensor *t, const char *key)
{
    for (size_t i = 0; i < t->num_external; i++)
        if (strcmp(t->external[i].key, key) == 0)
            return t->external[i].value;
    return NULL;
}

/* A relative path without a way out of the folder. */
static bool stays_inside(const char *path)
{
    if (path[0] == 0 || path[0] == '/' || strchr(path, '\\') || strchr(path, ':'))
        return false;
    for (const char *s = path; s;) {
        if (strncmp(s, "..", 2) == 0 && (s[2] == '/' || s[2] == 0))
            return false;
        s = strchr(s, '/');
        s = s ? s + 1 : NULL;
    }
    return true;
}

/* The real path of the file, which must be below the real path of the folder: links may lead elsewhere. */
static bool resolve(const char *folder, const char *location, char *out, size_t size)
{
    char *base = realpath(folder[0] ? folder : ".", NULL);
    char joined[4096];
    int n = snprintf(joined, sizeof joined, "%s/%s", folder[0] ? folder : ".", location);
    char *real = base && n > 0 && (size_t)n < sizeof joined ? realpath(joined, NULL) : NULL;
    size_t k = base ? strlen(base) : 0;
    bool ok =
        real && strncmp(real, base, k) == 0 && (real[k] == '/' || (k == 1 && base[0] == '/')) && strlen(real) < size;
    if (ok)
        memcpy(out, real, strlen(real) + 1);
    free(base);
    free(real);
    return ok;
}

static flx_code external_number(const onnx_tensor *t, const char *key, uint64_t absent, uint64_t *out, flx_error *err)
{
    const char *text = external_value(t, key);
    char *end = NULL;
    *out = absent;
    if (!text)
        return FLX_OK;
    *out = strtoull(text, &end, 10);
    if (end == text || *end != 0 || text[0] == '-' || *out > INT64_MAX)
        return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s': external data has the %s '%.40s'", t->name, key, text);
    return FLX_OK;
}

static flx_code load_part(flx_context *ctx, const onnx_tensor *t, const onnx_element *e, const flx_type *type,
                          const flxi_source *file, flx_tensor **out, flx_error *err)
{
    uint64_t at, size;
    FLXI_TRY(external_number(t, "offset", 0, &at, err));
    FLXI_TRY(external_number(t, "length", at <= file->size ? file->size - at : 0, &size, err));
    if (at > file->size || size > file->size - at)
        return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s': its external file ends before byte %llu", t->name,
                         (unsigned long long)(at + size));
    flxi_source part = flxi_source_part(file, at, size);
    return load_raw(ctx, t, e, type, &part, out, err);
}

static flx_code load_external(flx_context *ctx, const onnx_tensor *t, const onnx_element *e, const flx_type *type,
                              const onnx_origin *origin, flx_tensor **out, flx_error *err)
{
    const char *location = external_value(t, "location");
    char path[4096];
    flxi_source file;
    struct stat st;
    if (!origin->folder)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "read the model from its file",
                              "unsupported: tensor '%.60s' is in another file, and there is no folder for it", t->name);
    if (!location || !stays_inside(location))
        return flxi_fail(err, FLX_E_SYNTAX, "tensor '%.60s': external data in '%.60s', which is outside of the folder",
                         t->name, location ? location : "");
    if (!resolve(origin->folder, location, path, sizeof path))
        return flxi_fail(err, FLX_E_IO, "tensor '%.60s': there is no file '%.80s' in the folder of the model", t->name,
                         location);
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) /* a pipe would be waited for */
        return flxi_fail(err, FLX_E_IO, "tensor '%.60s': external data in '%.80s', which is not a file", t->name,
                         location);
    FLXI_TRY(flxi_source_open(&file, &ctx->mem, path, 0, err));
    flx_code code = load_part(ctx, t, e, type, &file, out, err);
    flxi_source_close(&file);
    return code;
}

/* ---- Tensors ---- */

static flx_code load_texts(flx_context *ctx, const onnx_tensor *t, flx_tensor **out, flx_error *err)
{
    onnx_texts texts;
    FLXI_TRY(flxi_onnx_texts_read(t, &texts, err));
    *out = flxi_onnx_texts_pack(ctx, &texts, err);
    return *out ? FLX_OK : (flx_code)err->code;
}

flx_tensor *flxi_onnx_tensor(flx_context *ctx, const onnx_tensor *t, const onnx_origin *origin, flx_error *err)
{
    flx_error local = {0};
    const onnx_element *e = NULL;
    flx_type type;
    flx_tensor *out = NULL;
    bool is_text = t->element == ONNX_STRING;
    flx_code code = is_text ? load_texts(ctx, t, &out, &local) : tensor_type(t, &e, &type, &local);
    if (code != FLX_OK || is_text) {
        /* done, or said already */
    } else if (t->is_external) {
        code = load_external(ctx, t, e, &type, origin, &out, &local);
    } else if (t->has_raw) {
        flxi_source s = flxi_source_memory(t->raw.at, t->raw.size);
        code = load_raw(ctx, t, e, &type, &s, &out, &local);
    } else {
        code = load_numbers(ctx, t, e, &type, &out, &local);
    }
    if (out)
        return out;
    if (local.code == FLX_OK)
        flxi_fail(&local, code, "tensor '%.60s' cannot be read", t->name);
    local.where[0] = 0;
    flxi_at(&local, "%.90s:%zu", origin->file, t->offset);
    if (err)
        *err = local;
    return NULL;
}

/* Index k of a sparse tensor as a position: a number, or one for each axis. */
static int64_t sparse_position(const flx_tensor *indices, const flx_type *type, int64_t k)
{
    const flx_type *t = flx_tensor_type(indices);
    if (t->rank == 1)
        return (int64_t)flx_tensor_get(indices, k);
    int64_t at = 0;
    for (int i = 0; i < type->rank; i++) {
        int64_t x = (int64_t)flx_tensor_get(indices, k * type->rank + i);
        if (x < 0 || x >= type->dims[i])
            return -1;
        at = at * type->dims[i] + x;
    }
    return at;
}

static flx_code fill_sparse(flx_tensor *out, const flx_tensor *values, const flx_tensor *indices, flx_error *err)
{
    const flx_type *type = flx_tensor_type(out);
    const flx_type *it = flx_tensor_type(indices);
    int64_t n = flx_tensor_count(values);
    size_t size = flx_dtype_size(type->dtype);
    bool fits =
        flxi_is_int(it->dtype) && (it->rank == 1 || (it->rank == 2 && it->dims[1] == type->rank)) && it->dims[0] == n;
    for (int64_t k = 0; k < n && fits; k++) {
        int64_t at = sparse_position(indices, type, k);
        fits = at >= 0 && at < flx_tensor_count(out);
        if (fits)
            memcpy((char *)flx_tensor_data(out) + (size_t)at * size,
                   (const char *)flx_tensor_const_data(values) + (size_t)k * size, size);
    }
    return fits ? FLX_OK : flxi_fail(err, FLX_E_SYNTAX, "the indices of a sparse tensor do not fit its shape");
}

static flx_tensor *load_sparse(flx_context *ctx, const onnx_sparse *t, const onnx_origin *origin, flx_error *err)
{
    onnx_tensor dense = {.name = t->values.name, .element = t->values.element, .dims = t->dims, .rank = t->rank};
    const onnx_element *e;
    flx_type type;
    if (tensor_type(&dense, &e, &type, err) != FLX_OK)
        return NULL;
    flx_tensor *values = flxi_onnx_tensor(ctx, &t->values, origin, err);
    flx_tensor *indices = values ? flxi_onnx_tensor(ctx, &t->indices, origin, err) : NULL;
    flx_tensor *out = indices ? flx_tensor_new(ctx, &type, NULL, err) : NULL;
    if (out && fill_sparse(out, values, indices, err) != FLX_OK) {
        flx_tensor_release(out);
        out = NULL;
    }
    flx_tensor_release(values);
    flx_tensor_release(indices);
    return out;
}

flx_tensor *flxi_onnx_sparse_tensor(flx_context *ctx, const onnx_sparse *t, const onnx_origin *origin, flx_error *err)
{
    flx_error local = {0};
    flx_tensor *out = load_sparse(ctx, t, origin, &local);
    if (out)
        return out;
    local.where[0] = 0;
    flxi_at(&local, "%.90s:%zu", origin->file, t->values.offset);
    if (err)
        *err = local;
    return NULL;
}
