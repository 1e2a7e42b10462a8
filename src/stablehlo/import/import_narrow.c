/* SPDX-License-Identifier: Apache-2.0 */
/* import_narrow.c: element types narrower than any dtype.

   An i4 is held in an i8, an f8E4M3FN in an f32: a wider dtype carries the value itself, never a code. What is computed
   in the carrier is then wrapped (integers) or rounded (floats) to the element type. Rounding is to nearest, ties to
   even, as if from the exact value: the carrier has more than twice the bits, so that rounding twice does not change
   sums, products, quotients and roots. Formats differ in what follows their largest number. */
#include "stablehlo/import/import_narrow.h"

#include "graph/type/type.h"

#include <math.h>

/* ---- Formats ---- */

typedef enum { TO_INFINITY, TO_NAN, TO_LARGEST } overflow_kind;

typedef struct {
    hlo_element element;
    int exponent, mantissa, bias; /* bits, bits, number */
    double largest;
    overflow_kind overflow;
    bool has_one_zero; /* no −0; its code is the NaN */
    uint32_t nan;      /* code; unused where there is none */
} float_format;

/* E8M0FNU has neither sign nor zero nor mantissa, TF32 the exponents of f32: they are rounded in their own way. */
static const float_format formats[] = {
    {HLO_F4E2M1FN, 2, 1, 1, 6, TO_LARGEST, false, 0},
    {HLO_F6E2M3FN, 2, 3, 1, 7.5, TO_LARGEST, false, 0},
    {HLO_F6E3M2FN, 3, 2, 3, 28, TO_LARGEST, false, 0},
    {HLO_F8E3M4, 3, 4, 3, 15.5, TO_INFINITY, false, 0x78},
    {HLO_F8E4M3, 4, 3, 7, 240, TO_INFINITY, false, 0x7c},
    {HLO_F8E4M3FN, 4, 3, 7, 448, TO_NAN, false, 0x7f},
    {HLO_F8E4M3FNUZ, 4, 3, 8, 240, TO_NAN, true, 0x80},
    {HLO_F8E4M3B11FNUZ, 4, 3, 11, 30, TO_NAN, true, 0x80},
    {HLO_F8E5M2, 5, 2, 15, 57344, TO_INFINITY, false, 0x7e},
    {HLO_F8E5M2FNUZ, 5, 2, 16, 57344, TO_NAN, true, 0x80},
    {HLO_F8E8M0FNU, 8, 0, 127, 0x1p127, TO_NAN, false, 0xff},
    {HLO_TF32, 8, 10, 127, 0x1.ffcp127, TO_INFINITY, false, 0},
};

static const float_format *format_of(hlo_element e)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].element == e)
            return &formats[i];
    return NULL;
}

static int narrow_bits(hlo_element e)
{
    int bits = flxi_hlo_element(e)->bits;
    return bits < 8 && e != HLO_I1 && !format_of(e) ? bits : 0;
}

bool flxi_hlo_is_narrow_int(hlo_element e)
{
    return narrow_bits(e) > 0;
}

bool flxi_hlo_is_narrow_float(hlo_element e)
{
    return format_of(e) != NULL;
}

/* ---- Rounding ---- */

static flx_val number(hlo_site *s, flx_val like, double x)
{
    return flxi_hlo_number(s, like, x);
}

static flx_val wrapped(hlo_site *s, flx_val x, int bits)
{
    if (flxi_hlo_dtype(s, x) == FLX_U8)
        return flx_bit_and(s->g, x, number(s, x, (1 << bits) - 1));
    flx_val up = number(s, x, 8 - bits);
    return flx_shr_arith(s->g, flx_shl(s->g, x, up), up);
}

/* Powers of two, halves upwards, from 2^−127 on; anything else is NaN. Half a mantissa is added to the bits of the
   f64, where no such number is below the normal ones, and the mantissa is cut off. */
static flx_val rounded_to_power(hlo_site *s, flx_val x, const float_format *f)
{
    flx_val wide = flx_cast(s->g, x, FLX_F64);
    flx_val word = flx_bitcast(s->g, wide, FLX_U64);
    word = flx_bit_and(s->g, flx_add(s->g, word, number(s, word, 0x1p51)), number(s, word, 0x7ffp52));
    flx_val y = flx_max(s->g, flx_bitcast(s->g, word, FLX_F64), number(s, wide, 0x1p-127));
    flx_val fits = flx_and(s->g, flx_gt(s->g, wide, number(s, wide, 0)), flx_le(s->g, y, number(s, wide, f->largest)));
    return flx_where(s->g, fits, y, number(s, wide, NAN));
}

/* The bias of the format is obtained by scaling: with one more bit of exponent the numbers from its least normal one on
   are where reduce_precision has its normal ones, and none is too large. */
static flx_val rounded_mantissa(hlo_site *s, flx_val x, const float_format *f)
{
    if (f->element == HLO_TF32)
        return flx_reduce_precision(s->g, x, f->exponent, f->mantissa);
    int shift = (1 - f->bias) - (2 - (1 << f->exponent));
    flx_val y = flx_mul(s->g, x, number(s, x, ldexp(1, -shift)));
    y = flx_reduce_precision(s->g, y, f->exponent + 1, f->mantissa);
    return flx_mul(s->g, y, number(s, x, ldexp(1, shift)));
}

static flx_val rounded(hlo_site *s, flx_val x, const float_format *f)
{
    if (f->element == HLO_F8E8M0FNU)
        return rounded_to_power(s, x, f);
    double over = f->overflow == TO_INFINITY ? INFINITY : f->overflow == TO_NAN ? NAN : f->largest;
    flx_val y = rounded_mantissa(s, x, f);
    flx_val above = flx_gt(s->g, y, number(s, x, f->largest));
    flx_val below = flx_lt(s->g, y, number(s, x, -f->largest));
    y = flx_where(s->g, above, number(s, x, over), flx_where(s->g, below, number(s, x, -over), y));
    if (f->has_one_zero)
        y = flx_where(s->g, flx_eq(s->g, y, number(s, x, 0)), number(s, x, 0), y);
    if (f->overflow == TO_LARGEST)
        y = flx_where(s->g, flx_is_nan(s->g, x), number(s, x, -0.0), y);
    return y;
}

flx_val flxi_hlo_round(hlo_site *s, flx_val x, hlo_element e)
{
    const float_format *f = format_of(e);
    if (f)
        return flx_cast(s->g, rounded(s, x, f), FLX_F32);
    return narrow_bits(e) ? wrapped(s, x, narrow_bits(e)) : x;
}

/* ---- Conversion ---- */

/* Floats are rounded once, from the widest dtype that holds them; integers beyond the target's range wrap, floats
   stop at its ends. */
flx_val flxi_hlo_convert(hlo_site *s, flx_val x, hlo_element to)
{
    flx_dtype from = flxi_hlo_dtype(s, x);
    flx_dtype carrier = flxi_hlo_element(to)->carrier;
    int bits = narrow_bits(to);
    if (flxi_is_complex((int32_t)from) && !flxi_is_complex((int32_t)carrier)) {
        x = flx_real(s->g, x);
        from = flxi_hlo_dtype(s, x);
    }
    if (format_of(to)) {
        bool is_exact = from == FLX_F32 || from == FLX_F16 || from == FLX_BF16 || from == FLX_BOOL;
        return flxi_hlo_round(s, flx_cast(s->g, x, is_exact ? FLX_F32 : FLX_F64), to);
    }
    flx_val y = flx_cast(s->g, x, carrier);
    if (bits && flxi_is_float((int32_t)from)) {
        double high = carrier == FLX_U8 ? (1 << bits) - 1 : (1 << (bits - 1)) - 1;
        double low = carrier == FLX_U8 ? 0 : -high - 1;
        return flx_clamp(s->g, number(s, y, low), y, number(s, y, high));
    }
    return bits ? wrapped(s, y, bits) : y;
}

/* ---- Codes ---- */

static flx_dtype unsigned_of(int bits)
{
    return bits <= 8 ? FLX_U8 : bits == 16 ? FLX_U16 : bits == 32 ? FLX_U32 : FLX_U64;
}

flx_val flxi_hlo_bits_of_int(hlo_site *s, flx_val x, hlo_element e)
{
    int bits = narrow_bits(e);
    return bits && flxi_hlo_dtype(s, x) == FLX_I8 ? flx_bit_and(s->g, x, number(s, x, (1 << bits) - 1)) : x;
}

/* The code of a value that the format has, from the bits of the f32 that carries it. */
static flx_val code_of_float(hlo_site *s, flx_val x, const float_format *f)
{
    flx_graph *g = s->g;
    flx_val word = flx_bitcast(g, x, FLX_U32);
    flx_val magnitude = flx_bit_and(g, word, number(s, word, 0x7fffffff));
    flx_val code = flx_shr_logical(g, magnitude, number(s, word, 23 - f->mantissa));
    if (f->element != HLO_F8E8M0FNU) {
        flx_val size = flx_abs(g, x);
        flx_val least = number(s, x, ldexp(1, 1 - f->bias)); /* normal number */
        flx_val steps = flx_cast(g, flx_mul(g, size, number(s, x, ldexp(1, f->mantissa + f->bias - 1))), FLX_U32);
        code = flx_sub(g, code, number(s, word, (127 - f->bias) << f->mantissa));
        code = flx_where(g, flx_lt(g, size, least), steps, code);
        code = flx_where(g, flx_gt(g, size, number(s, x, f->largest)),
                         number(s, word, ((1 << f->exponent) - 1) << f->mantissa), code);
        flx_val sign = flx_shr_logical(g, word, number(s, word, 31));
        code = flx_bit_or(g, code, flx_shl(g, sign, number(s, word, f->exponent + f->mantissa)));
    }
    if (f->overflow != TO_LARGEST)
        code = flx_where(g, flx_is_nan(g, x), number(s, word, f->nan), code);
    return flx_cast(g, code, FLX_U8);
}

static float value_of_code(const float_format *f, uint32_t code)
{
    if (f->element == HLO_F8E8M0FNU)
        return code == f->nan ? NAN : (float)ldexp(1, (int)code - f->bias);
    uint32_t sign_bit = UINT32_C(1) << (f->exponent + f->mantissa);
    int exponent = (int)(code >> f->mantissa) & ((1 << f->exponent) - 1);
    int mantissa = (int)code & ((1 << f->mantissa) - 1);
    double size = exponent == 0 ? ldexp(mantissa, 1 - f->bias - f->mantissa)
                                : ldexp(mantissa + (1 << f->mantissa), exponent - f->bias - f->mantissa);
    if (f->has_one_zero && code == f->nan)
        return NAN;
    if (size > f->largest)
        size = f->overflow == TO_INFINITY && mantissa == 0 ? INFINITY : NAN;
    return (float)(code & sign_bit ? -size : size);
}

/* A look into the list of all values. */
static flx_val float_of_code(hlo_site *s, flx_val code, const float_format *f)
{
    float values[256] = {0};
    flx_type type = {.dtype = FLX_F32, .rank = 1, .dims = {1 << flxi_hlo_element(f->element)->bits}};
    flx_error err = {0};
    for (uint32_t i = 0; i < (uint32_t)type.dims[0]; i++)
        values[i] = value_of_code(f, i);
    flx_tensor *t = flx_tensor_new(s->g->ctx, &type, values, &err);
    if (!t)
        flxi_graph_fail(s->g, &err);
    flx_val table = t ? flx_const(s->g, &type, t) : FLX_NONE;
    flx_tensor_release(t);
    return flx_gather(s->g, table, code, 0, "clamp");
}

static flx_val to_code(hlo_site *s, flx_val x, hlo_element e)
{
    const float_format *f = format_of(e);
    if (f)
        return code_of_float(s, x, f);
    if (e == HLO_I1)
        return flx_cast(s->g, x, FLX_U8);
    return flx_bitcast(s->g, flxi_hlo_bits_of_int(s, x, e), unsigned_of(flxi_hlo_element(e)->bits));
}

static flx_val from_code(hlo_site *s, flx_val code, hlo_element e)
{
    const float_format *f = format_of(e);
    if (f)
        return float_of_code(s, code, f);
    if (e == HLO_I1)
        return flx_cast(s->g, code, FLX_BOOL);
    return flxi_hlo_round(s, flx_bitcast(s->g, code, flxi_hlo_element(e)->carrier), e);
}

/* 0, step, 2 step … */
static flx_val positions(hlo_site *s, flx_dtype dtype, int n, int step)
{
    flx_type type = {.dtype = (int32_t)dtype, .rank = 1, .dims = {n}};
    flx_val i = flx_iota(s->g, &type, 0);
    return flx_mul(s->g, i, number(s, i, step));
}

static flx_val packed(hlo_site *s, flx_val code, int from, int to)
{
    code = flx_cast(s->g, code, unsigned_of(to));
    code = flx_shl(s->g, code, positions(s, unsigned_of(to), to / from, from));
    return flx_reduce_sum(s->g, code, FLX_INTS(-1), 0);
}

static flx_val unpacked(hlo_site *s, flx_val code, int from, int to)
{
    code = flx_unsqueeze(s->g, code, FLX_INTS(-1));
    code = flx_shr_logical(s->g, code, positions(s, unsigned_of(from), from / to, to));
    if (to < 8)
        code = flx_bit_and(s->g, code, number(s, code, (1 << to) - 1));
    return flx_cast(s->g, code, unsigned_of(to));
}

flx_val flxi_hlo_bitcast(hlo_site *s, flx_val x, hlo_element from, hlo_element to)
{
    int a = flxi_hlo_element(from)->bits;
    int b = flxi_hlo_element(to)->bits;
    const flx_type *t = flxi_hlo_typeof(s, x);
    bool is_plain = !narrow_bits(from) && !narrow_bits(to) && !format_of(from) && !format_of(to);
    if (is_plain && (from == HLO_I1) == (to == HLO_I1))
        return flx_bitcast(s->g, x, flxi_hlo_element(to)->carrier);
    int wide = a > b ? a : b;
    int slim = a > b ? b : a;
    if (wide % slim != 0 || (b > a && (t->rank == 0 || t->dims[t->rank - 1] != b / a))) {
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "%d bits do not make up elements of %d bits along the last axis", a, b);
        return FLX_NONE;
    }
    flx_val code = to_code(s, x, from);
    if (a != b)
        code = a < b ? packed(s, code, a, b) : unpacked(s, code, a, b);
    return from_code(s, code, to);
}

/* ---- Bytes ---- */

flx_val flxi_hlo_of_byte(hlo_site *s, flx_val byte, hlo_element e)
{
    int bits = flxi_hlo_element(e)->bits;
    if (narrow_bits(e))
        return flxi_hlo_round(s, byte, e);
    if (bits < 8)
        byte = flx_bit_and(s->g, byte, number(s, byte, (1 << bits) - 1));
    return from_code(s, byte, e);
}

flx_val flxi_hlo_to_byte(hlo_site *s, flx_val x, hlo_element e)
{
    return narrow_bits(e) ? x : to_code(s, x, e);
}
