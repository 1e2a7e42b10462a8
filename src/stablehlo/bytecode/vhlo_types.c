/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_types.c: types of VHLO and of MLIR's builtin dialect, which occur side by side: both become the types of the
   tree. */
#include "base/half.h"
#include "stablehlo/bytecode/vhlo_reader.h"
#include "stablehlo/syntax/hlo_number.h"

#include <math.h>

/* A type may be used by many others, so its size is bounded: otherwise a short file could describe one too large to
   compare. */
enum { LARGEST_TUPLE = 4096 };

/* ---- Codes ---- */

/* Types of VHLO without fields: the element, by code. */
static const signed char elements[] = {
    [0] = HLO_I1 + 1,          [2] = HLO_BF16 + 1,        [3] = HLO_F16 + 1,
    [4] = HLO_F32 + 1,         [5] = HLO_F64 + 1,         [6] = HLO_F8E4M3FN + 1,
    [7] = HLO_F8E5M2 + 1,      [9] = HLO_INDEX + 1,       [10] = HLO_I4 + 1,
    [11] = HLO_I8 + 1,         [12] = HLO_I16 + 1,        [13] = HLO_I32 + 1,
    [14] = HLO_I64 + 1,        [15] = HLO_UI4 + 1,        [16] = HLO_UI8 + 1,
    [17] = HLO_UI16 + 1,       [18] = HLO_UI32 + 1,       [19] = HLO_UI64 + 1,
    [27] = HLO_F8E4M3FNUZ + 1, [28] = HLO_F8E5M2FNUZ + 1, [29] = HLO_F8E4M3B11FNUZ + 1,
    [31] = HLO_I2 + 1,         [32] = HLO_UI2 + 1,        [34] = HLO_TF32 + 1,
    [35] = HLO_F8E4M3 + 1,     [36] = HLO_F8E3M4 + 1,     [37] = HLO_F4E2M1FN + 1,
    [38] = HLO_F6E2M3FN + 1,   [39] = HLO_F6E3M2FN + 1,   [40] = HLO_F8E8M0FNU + 1,
};

enum {
    CODE_COMPLEX = 1,
    CODE_FUNCTION = 8,
    CODE_TENSOR = 20,
    CODE_ENCODED_TENSOR = 21,
    CODE_TOKEN = 22,
    CODE_TUPLE = 23,
    CODE_QUANTISED = 24,
    CODE_UNRANKED = 25,
    CODE_QUANTISED_AXIS = 30,
    CODE_NONE = 33,
    CODE_BUFFER = 41,
    CODE_FUTURE = 42
};

/* The same of the builtin dialect, which numbers them in another way. */
enum {
    BUILTIN_INTEGER,
    BUILTIN_INDEX,
    BUILTIN_FUNCTION,
    BUILTIN_BF16,
    BUILTIN_F16,
    BUILTIN_F32,
    BUILTIN_F64,
    BUILTIN_COMPLEX = 9,
    BUILTIN_NONE = 12,
    BUILTIN_TENSOR = 13,
    BUILTIN_ENCODED_TENSOR = 14,
    BUILTIN_TUPLE = 15
};

/* ---- Parts ---- */

flx_code flxi_vhlo_read_type(vhlo_reader *r, vhlo_bytes *b, const hlo_type **out)
{
    const unsigned char *at = b->at;
    uint64_t number = flxi_vhlo_varint(b);
    return flxi_vhlo_type(r, at, number, out);
}

/* A type that elements of tensors may have. */
static flx_code read_element(vhlo_reader *r, vhlo_bytes *b, const hlo_type **out)
{
    const unsigned char *at = b->at;
    FLXI_TRY(flxi_vhlo_read_type(r, b, out));
    if ((*out)->kind != HLO_SCALAR)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "a tensor cannot have elements of this type");
    return FLX_OK;
}

/* A count and that many types. */
static flx_code read_types(vhlo_reader *r, vhlo_bytes *b, const hlo_type *const **out, size_t *n)
{
    size_t count = flxi_vhlo_count(b);
    const hlo_type **types = flxi_new(r->p.arena, const hlo_type *, count);
    if (!types)
        return flxi_hlop_oom(&r->p);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *at = b->at;
        uint64_t number = flxi_vhlo_varint(b);
        FLXI_TRY(flxi_vhlo_type(r, at, number, &types[i]));
        r->weight += r->types[number].weight;
    }
    *out = types;
    *n = count;
    return flxi_vhlo_check(r, b, "a type");
}

flx_code flxi_vhlo_read_ints(vhlo_reader *r, vhlo_bytes *b)
{
    size_t n = flxi_vhlo_count(b);
    for (size_t i = 0; i < n; i++)
        HLO_PUSH(&r->p, ints, flxi_vhlo_svarint(b));
    return flxi_vhlo_check(r, b, "a list of numbers");
}

/* ---- Tensors ---- */

static flx_code read_dims(vhlo_reader *r, vhlo_bytes *b, hlo_type *t)
{
    const unsigned char *at = b->at;
    size_t base = r->p.ints.n;
    int64_t count = 1;
    FLXI_TRY(flxi_vhlo_read_ints(r, b));
    size_t rank = r->p.ints.n - base;
    if (rank > FLX_MAX_RANK)
        return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "more than %d axes", FLX_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        int64_t *extent = &r->p.ints.at[base + i];
        if (*extent == INT64_MIN)
            *extent = HLO_DYNAMIC;
        else if (*extent < 0)
            return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "an extent is negative");
        else if (*extent && __builtin_mul_overflow(count, *extent, &count))
            return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "the tensor has too many elements");
    }
    t->dims = HLO_TAKE(&r->p, int64_t, ints, base, &rank);
    t->rank = (int)rank;
    return t->dims ? FLX_OK : FLX_E_OOM;
}

static flx_code read_tensor(vhlo_reader *r, vhlo_bytes *b, bool has_encoding, hlo_type *t)
{
    const unsigned char *at = b->at;
    const hlo_attr *encoding = NULL;
    const hlo_type *element;
    if (has_encoding)
        FLXI_TRY(flxi_vhlo_read_attr(r, b, &encoding));
    FLXI_TRY(read_dims(r, b, t));
    FLXI_TRY(read_element(r, b, &element));
    t->element = element->element;
    t->quant = element->quant;
    FLXI_TRY(flxi_hlop_check_quantised(&r->p, flxi_vhlo_position(r, at), t));
    return encoding ? flxi_hlop_encoding(&r->p, flxi_vhlo_position(r, at), encoding, t) : FLX_OK;
}

/* ---- Quantised elements ---- */

static double read_double(vhlo_bytes *b)
{
    return flxi_f64_of((uint64_t)flxi_vhlo_svarint(b));
}

static flx_code check_scale(vhlo_reader *r, const unsigned char *at, const hlo_quant *q, double scale, int64_t zero)
{
    if (!(scale > 0) || !isfinite(scale))
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "a scale is a positive number");
    if (zero < q->min || zero > q->max)
        return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "the zero point is outside the range of the stored values");
    return FLX_OK;
}

/* Scales and zero points, of which there are as many. */
static flx_code read_scales(vhlo_reader *r, vhlo_bytes *b, hlo_quant *q)
{
    const unsigned char *at = b->at;
    size_t n = flxi_vhlo_count(b);
    double *scales = flxi_new(r->p.arena, double, n);
    if (!scales)
        return flxi_hlop_oom(&r->p);
    for (size_t i = 0; i < n; i++)
        scales[i] = read_double(b);
    size_t base = r->p.ints.n;
    FLXI_TRY(flxi_vhlo_read_ints(r, b));
    q->scales = scales;
    q->zero_points = HLO_TAKE(&r->p, int64_t, ints, base, &q->num_scales);
    if (!q->zero_points)
        return FLX_E_OOM;
    if (q->num_scales != n)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "%zu scales, but %zu zero points", n, q->num_scales);
    return FLX_OK;
}

static flx_code check_quant(vhlo_reader *r, const unsigned char *at, const hlo_quant *q)
{
    if (q->storage > HLO_UI32 || q->storage == HLO_I1 || q->storage == HLO_I64)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "quantised values are stored in integers of 2 to 32 bits");
    if (!flxi_hlop_is_float(q->expressed))
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "quantised values express floating-point numbers");
    if (q->min >= q->max || q->min < flxi_hlop_least(q->storage) || q->max > flxi_hlop_greatest(q->storage))
        return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "the range of the stored values is not one of their type");
    for (size_t i = 0; i < q->num_scales; i++)
        FLXI_TRY(check_scale(r, at, q, q->scales[i], q->zero_points[i]));
    return FLX_OK;
}

/* The storage type of the file has no sign: the flags say whether the values have one. */
static hlo_element with_sign(hlo_element e, uint64_t flags)
{
    bool is_signed = flags & 1;
    switch (e) {
    case HLO_I2: return is_signed ? e : HLO_UI2;
    case HLO_I4: return is_signed ? e : HLO_UI4;
    case HLO_I8: return is_signed ? e : HLO_UI8;
    case HLO_I16: return is_signed ? e : HLO_UI16;
    case HLO_I32: return is_signed ? e : HLO_UI32;
    default: return e;
    }
}

static flx_code read_quant(vhlo_reader *r, vhlo_bytes *b, bool has_axis, hlo_type *t)
{
    const unsigned char *at = b->at;
    hlo_quant *q = flxi_new(r->p.arena, hlo_quant, 1);
    const hlo_type *storage;
    const hlo_type *expressed;
    if (!q)
        return flxi_hlop_oom(&r->p);
    uint64_t flags = flxi_vhlo_varint(b);
    FLXI_TRY(read_element(r, b, &storage));
    FLXI_TRY(read_element(r, b, &expressed));
    q->storage = with_sign(storage->element, flags);
    q->expressed = expressed->element;
    q->axis = has_axis ? (int64_t)(flxi_vhlo_varint(b) & INT32_MAX) : -1;
    if (has_axis) {
        q->min = flxi_vhlo_svarint(b);
        q->max = flxi_vhlo_svarint(b);
        FLXI_TRY(read_scales(r, b, q));
    } else {
        double scale = read_double(b);
        int64_t zero = flxi_vhlo_svarint(b);
        q->min = flxi_vhlo_svarint(b);
        q->max = flxi_vhlo_svarint(b);
        q->scales = flxi_hlop_take(&r->p, &scale, 1, sizeof scale);
        q->zero_points = flxi_hlop_take(&r->p, &zero, 1, sizeof zero);
        q->num_scales = 1;
        if (!q->scales || !q->zero_points)
            return FLX_E_OOM;
    }
    FLXI_TRY(flxi_vhlo_check(r, b, "a type"));
    FLXI_TRY(check_quant(r, at, q));
    t->element = q->storage;
    t->quant = q;
    return FLX_OK;
}

/* ---- Types ---- */

static flx_code unknown(vhlo_reader *r, const unsigned char *at, uint64_t code)
{
    return flxi_vhlo_fail(r, at, FLX_E_UNSUPPORTED, NULL, "unknown type %llu", (unsigned long long)code);
}

static flx_code read_complex(vhlo_reader *r, vhlo_bytes *b, hlo_type *t)
{
    const unsigned char *at = b->at;
    const hlo_type *part;
    FLXI_TRY(flxi_vhlo_read_type(r, b, &part));
    bool is_float = part->kind == HLO_SCALAR && (part->element == HLO_F32 || part->element == HLO_F64);
    if (!is_float)
        return flxi_vhlo_fail(r, at, FLX_E_UNSUPPORTED, NULL, "complex elements have parts of type f32 or f64");
    t->element = part->element == HLO_F32 ? HLO_C64 : HLO_C128;
    return FLX_OK;
}

static flx_code read_function(vhlo_reader *r, vhlo_bytes *b, hlo_type *t)
{
    t->kind = HLO_FUNCTION;
    FLXI_TRY(read_types(r, b, &t->parts, &t->num_parts));
    return read_types(r, b, &t->results, &t->num_results);
}

/* The types by code, apart from elements. */
static flx_code decode_vhlo(vhlo_reader *r, vhlo_bytes *b, uint64_t code, hlo_type *t)
{
    const unsigned char *at = b->at;
    const hlo_type *element;
    switch (code) {
    case CODE_COMPLEX: return read_complex(r, b, t);
    case CODE_FUNCTION: return read_function(r, b, t);
    case CODE_TENSOR:
    case CODE_BUFFER:
    case CODE_ENCODED_TENSOR: t->kind = HLO_TENSOR; return read_tensor(r, b, code == CODE_ENCODED_TENSOR, t);
    case CODE_TOKEN: t->kind = HLO_TOKEN; return FLX_OK;
    case CODE_TUPLE:
    case CODE_FUTURE:
        t->kind = code == CODE_TUPLE ? HLO_TUPLE : HLO_FUTURE;
        return read_types(r, b, &t->parts, &t->num_parts);
    case CODE_QUANTISED:
    case CODE_QUANTISED_AXIS: return read_quant(r, b, code == CODE_QUANTISED_AXIS, t);
    case CODE_UNRANKED:
        FLXI_TRY(read_element(r, b, &element));
        *t = *element;
        t->kind = HLO_TENSOR;
        t->is_unranked = true;
        return FLX_OK;
    case CODE_NONE: t->kind = HLO_NONE; return FLX_OK;
    default: break;
    }
    if (code >= sizeof elements || !elements[code])
        return unknown(r, at, code);
    t->element = (hlo_element)(elements[code] - 1);
    return FLX_OK;
}

/* Width << 2 | sign, which is 2 for unsigned ones. */
static flx_code read_integer(vhlo_reader *r, vhlo_bytes *b, hlo_type *t)
{
    static const struct {
        uint64_t width;
        hlo_element with_sign, without;
    } known[] = {{1, HLO_I1, HLO_I1},     {2, HLO_I2, HLO_UI2},    {4, HLO_I4, HLO_UI4},   {8, HLO_I8, HLO_UI8},
                 {16, HLO_I16, HLO_UI16}, {32, HLO_I32, HLO_UI32}, {64, HLO_I64, HLO_UI64}};
    const unsigned char *at = b->at;
    uint64_t v = flxi_vhlo_varint(b);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].width == v >> 2) {
            t->element = (v & 3) == 2 ? known[i].without : known[i].with_sign;
            return FLX_OK;
        }
    return flxi_vhlo_fail(r, at, FLX_E_UNSUPPORTED, NULL, "integers of %llu bits", (unsigned long long)(v >> 2));
}

static flx_code decode_builtin(vhlo_reader *r, vhlo_bytes *b, uint64_t code, hlo_type *t)
{
    const unsigned char *at = b->at;
    switch (code) {
    case BUILTIN_INTEGER: return read_integer(r, b, t);
    case BUILTIN_INDEX: t->element = HLO_INDEX; return FLX_OK;
    case BUILTIN_FUNCTION: return read_function(r, b, t);
    case BUILTIN_BF16: t->element = HLO_BF16; return FLX_OK;
    case BUILTIN_F16: t->element = HLO_F16; return FLX_OK;
    case BUILTIN_F32: t->element = HLO_F32; return FLX_OK;
    case BUILTIN_F64: t->element = HLO_F64; return FLX_OK;
    case BUILTIN_COMPLEX: return read_complex(r, b, t);
    case BUILTIN_NONE: t->kind = HLO_NONE; return FLX_OK;
    case BUILTIN_TENSOR:
    case BUILTIN_ENCODED_TENSOR: t->kind = HLO_TENSOR; return read_tensor(r, b, code == BUILTIN_ENCODED_TENSOR, t);
    case BUILTIN_TUPLE: t->kind = HLO_TUPLE; return read_types(r, b, &t->parts, &t->num_parts);
    default: return unknown(r, at, code);
    }
}

/* ---- By number ---- */

enum { STABLEHLO_TOKEN = 0 }; /* operations of sdy keep the tokens of their regions */

static flx_code check_weight(vhlo_reader *r, const vhlo_encoded *e, const hlo_type *t)
{
    if (e->weight > LARGEST_TUPLE && e->weight > t->num_parts + t->num_results + 1)
        return flxi_vhlo_fail(r, e->at, FLX_E_SIZE, NULL, "the type consists of more than %d types", LARGEST_TUPLE);
    return FLX_OK;
}

static flx_code decode_text(vhlo_reader *r, const vhlo_encoded *e, const hlo_type **out)
{
    flxi_hlop_set_text(&r->p, (const char *)e->at, e->size && e->at[e->size - 1] == 0 ? e->size - 1 : e->size);
    return flxi_hlop_type(&r->p, out);
}

static flx_code decode(vhlo_reader *r, vhlo_encoded *e)
{
    vhlo_bytes b = {e->at, e->at + e->size, false};
    const hlo_type *read = NULL;
    size_t outer = r->weight;
    r->weight = 1;
    if (e->is_text) {
        FLXI_TRY(decode_text(r, e, &read));
        r->weight = e->size;
    } else {
        hlo_type *t = flxi_hlop_new_type(&r->p, HLO_SCALAR);
        uint64_t code = flxi_vhlo_varint(&b);
        if (!t)
            return FLX_E_OOM;
        if (e->dialect == VHLO_STABLEHLO && code == STABLEHLO_TOKEN)
            t->kind = HLO_TOKEN;
        else if (e->dialect == VHLO_VHLO)
            FLXI_TRY(decode_vhlo(r, &b, code, t));
        else if (e->dialect == VHLO_BUILTIN)
            FLXI_TRY(decode_builtin(r, &b, code, t));
        else
            return unknown(r, e->at, code);
        FLXI_TRY(flxi_vhlo_check(r, &b, "a type"));
        read = t;
    }
    e->weight = r->weight;
    r->weight = outer;
    FLXI_TRY(check_weight(r, e, read));
    e->type = read;
    return FLX_OK;
}

flx_code flxi_vhlo_type(vhlo_reader *r, const unsigned char *at, uint64_t number, const hlo_type **out)
{
    if (number >= r->num_types)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "there is no type %llu", (unsigned long long)number);
    vhlo_encoded *e = &r->types[number];
    if (!e->type) {
        FLXI_TRY(flxi_vhlo_enter(r, at));
        FLXI_TRY(decode(r, e));
        flxi_hlop_leave(&r->p);
    }
    *out = e->type;
    return FLX_OK;
}
