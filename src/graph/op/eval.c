/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c: shared by the reference evaluation rules of all ops: elements of any dtype, arithmetic on them, positions. */
#include "graph/op/eval.h"

#include "base/host/stop.h"
#include "base/text/count_words.h"

#include "base/complex_arith.h"
#include "base/half.h"
#include "graph/op/origin.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>

flx_code flxi_eval_fail(flxi_eval *e, flx_code code, const char *hint, const char *fmt, ...)
{
    char text[240];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    flxi_node_name name;
    return flxi_fail_hint(e->err, code, hint, "%s: %s", flxi_name_node(&name, e->op, e->label, e->origin), text);
}

/* ---- Loading and storing ---- */

/* Elements are read and written through memcpy, which the compiler turns into a plain move. */
#define DEFINE_ACCESS(name, T)                         \
    static T get_##name(const void *base, int64_t i)   \
    {                                                  \
        T v;                                           \
        memcpy(&v, (const T *)base + i, sizeof v);     \
        return v;                                      \
    }                                                  \
    static void put_##name(void *base, int64_t i, T v) \
    {                                                  \
        memcpy((T *)base + i, &v, sizeof v);           \
    }

DEFINE_ACCESS(f64, double)
DEFINE_ACCESS(f32, float)
DEFINE_ACCESS(c64, float complex)
DEFINE_ACCESS(c128, double complex)
DEFINE_ACCESS(i64, int64_t)
DEFINE_ACCESS(i32, int32_t)
DEFINE_ACCESS(i16, int16_t)
DEFINE_ACCESS(i8, int8_t)
DEFINE_ACCESS(u32, uint32_t)
DEFINE_ACCESS(u16, uint16_t)
DEFINE_ACCESS(u8, uint8_t)

static double load_float(int32_t dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case FLX_F64: return get_f64(base, i);
    case FLX_F32: return (double)get_f32(base, i);
    case FLX_F16: return flxi_from_f16(get_u16(base, i));
    default: return flxi_from_bf16(get_u16(base, i));
    }
}

static void store_float(int32_t dtype, void *base, int64_t i, double x)
{
    switch (dtype) {
    case FLX_F64: put_f64(base, i, x); break;
    case FLX_F32: put_f32(base, i, (float)x); break;
    case FLX_F16: put_u16(base, i, flxi_to_f16(x)); break;
    default: put_u16(base, i, flxi_to_bf16(x)); break;
    }
}

static int64_t load_integer(int32_t dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case FLX_I64:
    case FLX_U64: return get_i64(base, i);
    case FLX_I32: return get_i32(base, i);
    case FLX_I16: return get_i16(base, i);
    case FLX_I8: return get_i8(base, i);
    case FLX_U32: return get_u32(base, i);
    case FLX_U16: return get_u16(base, i);
    case FLX_U8: return get_u8(base, i);
    default: return get_u8(base, i) != 0;
    }
}

static void store_integer(int32_t dtype, void *base, int64_t i, int64_t x)
{
    switch (dtype) {
    case FLX_I64:
    case FLX_U64: put_i64(base, i, x); break;
    case FLX_I32: put_i32(base, i, (int32_t)x); break;
    case FLX_I16: put_i16(base, i, (int16_t)x); break;
    case FLX_I8: put_i8(base, i, (int8_t)x); break;
    case FLX_U32: put_u32(base, i, (uint32_t)x); break;
    case FLX_U16: put_u16(base, i, (uint16_t)x); break;
    case FLX_U8: put_u8(base, i, (uint8_t)x); break;
    default: put_u8(base, i, x != 0); break;
    }
}

/* Sign- or zero-extends from the width of the dtype. */
int64_t flxi_wrap_int(int32_t dtype, int64_t x)
{
    int64_t word = 0;
    store_integer(dtype, &word, 0, x);
    return load_integer(dtype, &word, 0);
}

static double int_to_double(int32_t dtype, int64_t x)
{
    return dtype == FLX_U64 ? (double)(uint64_t)x : (double)x;
}

/* Truncates toward zero and saturates; NaN gives 0. */
static int64_t double_to_int(int32_t dtype, double x)
{
    int bits = flxi_int_bits(dtype);
    if (dtype == FLX_BOOL)
        return x != 0.0;
    if (isnan(x))
        return 0;
    x = trunc(x);
    if (flxi_is_signed(dtype)) {
        double limit = ldexp(1.0, bits - 1);
        int64_t top = (int64_t)(UINT64_MAX >> (65 - bits));
        return x >= limit ? top : x < -limit ? -top - 1 : (int64_t)x;
    }
    if (x >= ldexp(1.0, bits))
        return (int64_t)(UINT64_MAX >> (64 - bits));
    return x <= 0.0 ? 0 : (int64_t)(uint64_t)x;
}

double _Complex flxi_load_complex(int32_t dtype, const void *base, int64_t i)
{
    if (dtype == FLX_C64)
        return get_c64(base, i);
    if (dtype == FLX_C128)
        return get_c128(base, i);
    return flxi_cmake(flxi_load_double(dtype, base, i), 0.0);
}

void flxi_store_complex(int32_t dtype, void *base, int64_t i, double _Complex x)
{
    if (dtype == FLX_C64)
        put_c64(base, i, (float complex)x);
    else if (dtype == FLX_C128)
        put_c128(base, i, x);
    else
        flxi_store_double(dtype, base, i, creal(x));
}

double flxi_load_double(int32_t dtype, const void *base, int64_t i)
{
    if (flxi_is_float(dtype))
        return load_float(dtype, base, i);
    if (flxi_is_complex(dtype))
        return creal(flxi_load_complex(dtype, base, i));
    return int_to_double(dtype, load_integer(dtype, base, i));
}

void flxi_store_double(int32_t dtype, void *base, int64_t i, double x)
{
    if (flxi_is_float(dtype))
        store_float(dtype, base, i, x);
    else if (flxi_is_complex(dtype))
        flxi_store_complex(dtype, base, i, flxi_cmake(x, 0.0));
    else
        store_integer(dtype, base, i, double_to_int(dtype, x));
}

int64_t flxi_load_int(int32_t dtype, const void *base, int64_t i)
{
    if (flxi_is_int(dtype) || dtype == FLX_BOOL)
        return load_integer(dtype, base, i);
    return double_to_int(FLX_I64, flxi_load_double(dtype, base, i));
}

void flxi_store_int(int32_t dtype, void *base, int64_t i, int64_t x)
{
    if (flxi_is_int(dtype) || dtype == FLX_BOOL)
        store_integer(dtype, base, i, x);
    else
        flxi_store_double(dtype, base, i, (double)x);
}

bool flxi_load_truth(int32_t dtype, const void *base, int64_t i)
{
    if (flxi_is_complex(dtype)) {
        double complex z = flxi_load_complex(dtype, base, i);
        return (creal(z) != 0.0 || cimag(z) != 0.0) && !isnan(creal(z)) && !isnan(cimag(z));
    }
    if (flxi_is_float(dtype)) {
        double x = load_float(dtype, base, i);
        return x != 0.0 && !isnan(x);
    }
    return load_integer(dtype, base, i) != 0;
}

/* An integer that is converted to a float narrower than double is rounded once: the bits that double has no room for
   are folded into one sticky bit first (rounding to odd), so that the last rounding still sees on which side of a tie
   they are. */
static double int_to_double_odd(int32_t dtype, int64_t x)
{
    bool is_negative = dtype != FLX_U64 && x < 0;
    uint64_t m = is_negative ? 0 - (uint64_t)x : (uint64_t)x;
    if (m >> 53)
        m = (m & ~UINT64_C(0x7ff)) | (m & 0x7ff ? 0x800 : 0);
    return is_negative ? -(double)m : (double)m;
}

static void store_int_as_float(int32_t from, int64_t x, int32_t to, void *dst, int64_t j)
{
    bool is_wide = flxi_part_dtype(to) == FLX_F64;
    flxi_store_double(to, dst, j, is_wide ? int_to_double(from, x) : int_to_double_odd(from, x));
}

void flxi_cast_element(int32_t from, const void *src, int64_t i, int32_t to, void *dst, int64_t j)
{
    bool from_int = flxi_is_int(from) || from == FLX_BOOL;
    if (to == FLX_BOOL) {
        double complex z = flxi_load_complex(from, src, i);
        bool truth = from_int ? load_integer(from, src, i) != 0 : (creal(z) != 0.0 || cimag(z) != 0.0);
        store_integer(to, dst, j, truth); /* NaN differs from 0, so it is true */
    } else if (from_int && flxi_is_int(to)) {
        store_integer(to, dst, j, load_integer(from, src, i));
    } else if (from_int) {
        store_int_as_float(from, load_integer(from, src, i), to, dst, j);
    } else if (flxi_is_complex(from) && flxi_is_complex(to)) {
        flxi_store_complex(to, dst, j, flxi_load_complex(from, src, i));
    } else {
        flxi_store_double(to, dst, j, flxi_load_double(from, src, i));
    }
}

/* ---- Arithmetic tables ---- */

/* Loads and stores of the tables carry their dtype in their name; one macro makes both for each dtype. */
#define DEFINE_FLOAT_IO(dt, D)                                \
    static flxi_num load_##dt(const void *base, int64_t i)    \
    {                                                         \
        return (flxi_num){.f = load_float(D, base, i)};       \
    }                                                         \
    static void store_##dt(void *base, int64_t i, flxi_num x) \
    {                                                         \
        store_float(D, base, i, x.f);                         \
    }
#define DEFINE_COMPLEX_IO(dt, D)                               \
    static flxi_num load_##dt(const void *base, int64_t i)     \
    {                                                          \
        return (flxi_num){.c = flxi_load_complex(D, base, i)}; \
    }                                                          \
    static void store_##dt(void *base, int64_t i, flxi_num x)  \
    {                                                          \
        flxi_store_complex(D, base, i, x.c);                   \
    }
#define DEFINE_INT_IO(dt, D)                                  \
    static flxi_num load_##dt(const void *base, int64_t i)    \
    {                                                         \
        return (flxi_num){.i = load_integer(D, base, i)};     \
    }                                                         \
    static void store_##dt(void *base, int64_t i, flxi_num x) \
    {                                                         \
        store_integer(D, base, i, x.i);                       \
    }

DEFINE_FLOAT_IO(f64, FLX_F64)
DEFINE_FLOAT_IO(f32, FLX_F32)
DEFINE_FLOAT_IO(f16, FLX_F16)
DEFINE_FLOAT_IO(bf16, FLX_BF16)
DEFINE_COMPLEX_IO(c64, FLX_C64)
DEFINE_COMPLEX_IO(c128, FLX_C128)
DEFINE_INT_IO(i64, FLX_I64)
DEFINE_INT_IO(i32, FLX_I32)
DEFINE_INT_IO(i16, FLX_I16)
DEFINE_INT_IO(i8, FLX_I8)
DEFINE_INT_IO(u64, FLX_U64)
DEFINE_INT_IO(u32, FLX_U32)
DEFINE_INT_IO(u16, FLX_U16)
DEFINE_INT_IO(u8, FLX_U8)
DEFINE_INT_IO(bool, FLX_BOOL)

#define DEFINE_BINARY(name, field, expr)         \
    static flxi_num name(flxi_num a, flxi_num b) \
    {                                            \
        return (flxi_num){.field = (expr)};      \
    }
#define DEFINE_TEST(name, expr)              \
    static bool name(flxi_num a, flxi_num b) \
    {                                        \
        return (expr);                       \
    }

DEFINE_BINARY(add_float, f, a.f + b.f)
DEFINE_BINARY(sub_float, f, a.f - b.f)
DEFINE_BINARY(mul_float, f, a.f *b.f)
DEFINE_BINARY(max_float, f, isnan(a.f) || a.f > b.f ? a.f : isnan(b.f) || b.f > a.f ? b.f : signbit(a.f) ? b.f : a.f)
DEFINE_BINARY(min_float, f, isnan(a.f) || a.f < b.f ? a.f : isnan(b.f) || b.f < a.f ? b.f : signbit(a.f) ? a.f : b.f)
DEFINE_TEST(less_float, a.f < b.f)
DEFINE_TEST(equal_float, a.f == b.f)
DEFINE_BINARY(accumulate_half, f, (double)((float)a.f + (float)b.f))
DEFINE_BINARY(add_complex, c, a.c + b.c)
DEFINE_BINARY(sub_complex, c, a.c - b.c)
DEFINE_BINARY(mul_complex, c, flxi_cmul(a.c, b.c))
DEFINE_TEST(equal_complex, a.c == b.c)
DEFINE_BINARY(add_int, i, (int64_t)((uint64_t)a.i + (uint64_t)b.i))
DEFINE_BINARY(sub_int, i, (int64_t)((uint64_t)a.i - (uint64_t)b.i))
DEFINE_BINARY(mul_int, i, (int64_t)((uint64_t)a.i *(uint64_t)b.i))
DEFINE_BINARY(max_signed, i, a.i > b.i ? a.i : b.i)
DEFINE_BINARY(min_signed, i, a.i < b.i ? a.i : b.i)
DEFINE_TEST(less_signed, a.i < b.i)
DEFINE_TEST(equal_int, a.i == b.i)
DEFINE_BINARY(max_unsigned, i, (uint64_t)a.i > (uint64_t)b.i ? a.i : b.i)
DEFINE_BINARY(min_unsigned, i, (uint64_t)a.i < (uint64_t)b.i ? a.i : b.i)
DEFINE_TEST(less_unsigned, (uint64_t)a.i < (uint64_t)b.i)
DEFINE_BINARY(or_bool, i, a.i | b.i)
DEFINE_BINARY(xor_bool, i, a.i ^ b.i)
DEFINE_BINARY(and_bool, i, a.i &b.i)

#define FLOAT_ROW(dt, D, acc)                                                                                        \
    [D] = {D,          load_##dt,   store_##dt, add_float,  sub_float,        mul_float,       max_float, min_float, \
           less_float, equal_float, {.f = 0.0}, {.f = 1.0}, {.f = -INFINITY}, {.f = INFINITY}, acc}
#define COMPLEX_ROW(dt, D)                                                                           \
    [D] = {D,    load_##dt,     store_##dt, add_complex, sub_complex, mul_complex, NULL,       NULL, \
           NULL, equal_complex, {.c = 0.0}, {.c = 1.0},  {.c = 0.0},  {.c = 0.0},  add_complex}
#define SIGNED_ROW(dt, D, low, high)                                                                      \
    [D] = {D,           load_##dt, store_##dt, add_int,  sub_int,    mul_int,     max_signed, min_signed, \
           less_signed, equal_int, {.i = 0},   {.i = 1}, {.i = low}, {.i = high}, add_int}
#define UNSIGNED_ROW(dt, D, high)                                                                                    \
    [D] = {                                                                                                          \
        D,         load_##dt, store_##dt, add_int,  sub_int,     mul_int, max_unsigned, min_unsigned, less_unsigned, \
        equal_int, {.i = 0},  {.i = 1},   {.i = 0}, {.i = high}, add_int}

static const flxi_arith ariths[FLX_DTYPE_COUNT] = {
    FLOAT_ROW(f64, FLX_F64, add_float),
    FLOAT_ROW(f32, FLX_F32, add_float),
    FLOAT_ROW(f16, FLX_F16, accumulate_half),
    FLOAT_ROW(bf16, FLX_BF16, accumulate_half),
    COMPLEX_ROW(c64, FLX_C64),
    COMPLEX_ROW(c128, FLX_C128),
    SIGNED_ROW(i64, FLX_I64, INT64_MIN, INT64_MAX),
    SIGNED_ROW(i32, FLX_I32, INT32_MIN, INT32_MAX),
    SIGNED_ROW(i16, FLX_I16, INT16_MIN, INT16_MAX),
    SIGNED_ROW(i8, FLX_I8, INT8_MIN, INT8_MAX),
    UNSIGNED_ROW(u64, FLX_U64, -1),
    UNSIGNED_ROW(u32, FLX_U32, UINT32_MAX),
    UNSIGNED_ROW(u16, FLX_U16, UINT16_MAX),
    UNSIGNED_ROW(u8, FLX_U8, UINT8_MAX),
    [FLX_BOOL] = {FLX_BOOL,
                  load_bool,
                  store_bool,
                  or_bool,
                  xor_bool,
                  and_bool,
                  or_bool,
                  and_bool,
                  less_signed,
                  equal_int,
                  {.i = 0},
                  {.i = 1},
                  {.i = 0},
                  {.i = 1},
                  or_bool},
};

const flxi_arith *flxi_arith_of(int32_t dtype)
{
    return &ariths[dtype];
}

/* ---- Positions ---- */

int64_t flxi_strides(const flx_type *t, int64_t strides[FLX_MAX_RANK])
{
    int64_t n = 1;
    bool is_empty = false;
    for (int k = t->rank - 1; k >= 0; k--) {
        strides[k] = n;
        is_empty |= t->dims[k] == 0;
        if (__builtin_mul_overflow(n, t->dims[k], &n))
            n = 0; /* only possible when some extent is 0, as the count below shows */
    }
    return is_empty ? 0 : n;
}

void flxi_broadcast_strides(const flx_type *t, const flx_type *to, int64_t strides[FLX_MAX_RANK])
{
    int64_t own[FLX_MAX_RANK];
    flxi_strides(t, own);
    int shift = to->rank - t->rank;
    for (int k = 0; k < to->rank; k++)
        strides[k] = k < shift || t->dims[k - shift] == 1 ? 0 : own[k - shift];
}

bool flxi_next(int64_t *index, const flx_dim *dims, int rank)
{
    for (int k = rank - 1; k >= 0 && !flxi_stopped_by_now(); k--) {
        if (++index[k] < dims[k])
            return true;
        index[k] = 0;
    }
    return false;
}

flxi_split flxi_split_at(const flx_type *t, int64_t axis)
{
    flxi_split s = {1, t->dims[axis], 1};
    int64_t count;
    flxi_static_count(t, &count);
    if (count == 0)
        return (flxi_split){0, t->dims[axis], 0};
    for (int64_t k = 0; k < axis; k++)
        s.outer *= t->dims[k];
    for (int64_t k = axis + 1; k < t->rank; k++)
        s.inner *= t->dims[k];
    return s;
}

flx_code flxi_index_fail(flxi_index_reader by, int32_t dtype, const void *idx, int64_t i, int64_t extent,
                         flx_error *err)
{
    char operand[32];
    char of[40] = "";
    char number[24];
    flxi_node_name name;
    bool is_part = by.origin && &flxi_ops[by.origin->op] != by.op;
    /* Where an op of the user's is made of others, the operand's name says which number is meant. */
    if (is_part && flxi_index_operand(&flxi_ops[by.origin->op], operand, sizeof operand)[0]) {
        snprintf(of, sizeof of, " of %s", operand);
        by.op = &flxi_ops[by.origin->op];
    }
    flxi_name_node(&name, by.op, by.label, by.origin);
    int64_t k = flxi_load_int(dtype, idx, i);
    if (flxi_is_float(dtype)) {
        double x = load_float(dtype, idx, i);
        if (x != trunc(x) || !isfinite(x))
            return flxi_fail(err, FLX_E_INDEX, "%s: element %lld of %s is not an integer", name.s, (long long)i,
                             of[0] ? operand : "the index operand");
    }
    snprintf(number, sizeof number, dtype == FLX_U64 ? "%llu" : "%lld", (unsigned long long)k);
    return flxi_fail_hint(err, FLX_E_INDEX, "oob=zero drops such positions, oob=clamp moves them into range",
                          "%s: index %s%s is out of range for an axis of extent %lld", name.s, number, of,
                          (long long)extent);
}

flx_code flxi_resolve_index(flxi_eval *e, const flx_tensor *idx, int64_t i, int64_t extent, flxi_oob policy,
                            int64_t *at)
{
    int32_t dtype = idx->type.dtype;
    int64_t k = flxi_load_int(dtype, idx->data, i);
    bool is_whole = true;
    if (flxi_is_float(dtype)) {
        double x = load_float(dtype, idx->data, i);
        is_whole = x == trunc(x) && isfinite(x);
    }
    bool is_inside = is_whole && k >= 0 && k < extent && !(dtype == FLX_U64 && k < 0);
    if (is_inside) {
        *at = k;
        return FLX_OK;
    }
    if (policy == OOB_ZERO) {
        *at = -1;
        return FLX_OK;
    }
    if (policy == OOB_CLAMP && extent > 0) {
        bool above = dtype == FLX_U64 || k >= extent;
        *at = above ? extent - 1 : k < 0 ? 0 : k;
        return FLX_OK;
    }
    return flxi_index_fail((flxi_index_reader){e->op, e->label, e->origin}, dtype, idx->data, i, extent, e->err);
}

/* ---- Ready-made rules ---- */

enum { MAX_POINTWISE = 4 };

static void pointwise_float(flxi_eval *e, const int64_t *at, int64_t o)
{
    double x[MAX_POINTWISE];
    for (uint32_t k = 0; k < e->nin; k++)
        x[k] = load_float(e->in[k]->type.dtype, e->in[k]->data, at[k]);
    flxi_store_double(e->out[0]->type.dtype, e->out[0]->data, o, e->op->rules->scalar(x, e->attrs));
}

static void pointwise_complex(flxi_eval *e, const int64_t *at, int64_t o)
{
    double complex x[MAX_POINTWISE];
    for (uint32_t k = 0; k < e->nin; k++)
        x[k] = flxi_load_complex(e->in[k]->type.dtype, e->in[k]->data, at[k]);
    flxi_store_complex(e->out[0]->type.dtype, e->out[0]->data, o, e->op->rules->scalar_c(x, e->attrs));
}

static void pointwise_int(flxi_eval *e, const int64_t *at, int64_t o)
{
    int64_t x[MAX_POINTWISE];
    int32_t dtype = e->in[0]->type.dtype;
    flxi_int_type t = {dtype, flxi_int_bits(dtype), flxi_is_signed(dtype)};
    for (uint32_t k = 0; k < e->nin; k++)
        x[k] = load_integer(e->in[k]->type.dtype, e->in[k]->data, at[k]);
    flxi_store_int(e->out[0]->type.dtype, e->out[0]->data, o, e->op->rules->scalar_i(x, &t));
}

flx_code flxi_eval_pointwise(flxi_eval *e)
{
    const flxi_rules *r = e->op->rules;
    int32_t dtype = e->in[0]->type.dtype;
    void (*element)(flxi_eval *, const int64_t *, int64_t) = NULL;
    if (flxi_is_float(dtype) && r->scalar)
        element = pointwise_float;
    else if (flxi_is_complex(dtype) && r->scalar_c)
        element = pointwise_complex;
    else if ((flxi_is_int(dtype) || dtype == FLX_BOOL) && r->scalar_i)
        element = pointwise_int;
    if (!element || e->nin > MAX_POINTWISE)
        return flxi_eval_fail(e, FLX_E_INTERNAL, NULL, "no evaluation for %s", flx_dtype_name(dtype));
    const flx_type *to = &e->out[0]->type;
    int64_t strides[MAX_POINTWISE][FLX_MAX_RANK];
    int64_t index[FLX_MAX_RANK] = {0};
    for (uint32_t k = 0; k < e->nin; k++)
        flxi_broadcast_strides(&e->in[k]->type, to, strides[k]);
    for (int64_t o = 0; o < e->out[0]->count && !flxi_stopped_by_now(); o++) {
        int64_t at[MAX_POINTWISE];
        for (uint32_t k = 0; k < e->nin; k++)
            at[k] = flxi_offset(index, strides[k], to->rank);
        element(e, at, o);
        flxi_next(index, to->dims, to->rank);
    }
    return FLX_OK;
}

flx_code flxi_eval_copy(flxi_eval *e)
{
    flxi_stop_copy(e->out[0]->data, e->in[0]->data, e->out[0]->nbytes);
    return FLX_OK;
}
