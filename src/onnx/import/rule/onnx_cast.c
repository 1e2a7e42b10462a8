/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_cast.c: conversions between element types, those without a dtype here included. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <math.h>

/* Wraps an integer to a width below 8 bits. */
static flx_val narrow_int(onnx_site *s, flx_val x, const onnx_element *e)
{
    double top = ldexp(1, e->bits);
    flx_val wide = flxi_onnx_cast(s, x, FLX_I32);
    flx_val low = flx_bit_and(s->g, wide, flx_scalar(s->g, FLX_I32, top - 1));
    if (e->carrier == FLX_I8) {
        flx_val is_negative = flx_ge(s->g, low, flx_scalar(s->g, FLX_I32, top / 2));
        low = flx_where(s->g, is_negative, flx_sub(s->g, low, flx_scalar(s->g, FLX_I32, top)), low);
    }
    return flxi_onnx_cast(s, low, e->carrier);
}

/* 2^e as f32, e an i32 in the range of normal numbers. */
static flx_val power_of_two(onnx_site *s, flx_val e)
{
    flx_val bits = flx_shl(s->g, flx_add(s->g, e, flx_scalar(s->g, FLX_I32, 127)), flx_scalar(s->g, FLX_I32, 23));
    return flx_bitcast(s->g, bits, .to = FLX_F32);
}

/* The exponent of |x|, not below `least`. */
static flx_val exponent_of(onnx_site *s, flx_val x, int least)
{
    flx_val bits = flx_bitcast(s->g, flx_abs(s->g, x), .to = FLX_I32);
    flx_val e =
        flx_sub(s->g, flx_shr_logical(s->g, bits, flx_scalar(s->g, FLX_I32, 23)), flx_scalar(s->g, FLX_I32, 127));
    return flx_clamp(s->g, flx_scalar(s->g, FLX_I32, least), e, flx_scalar(s->g, FLX_I32, 126));
}

/* A power of two at or above x: the scale of a block. */
static flx_val narrow_scale(onnx_site *s, flx_val x, const char *mode, bool saturates)
{
    flx_val bits = flx_bitcast(s->g, flx_abs(s->g, x), .to = FLX_I32);
    flx_val mantissa = flx_bit_and(s->g, bits, flx_scalar(s->g, FLX_I32, 0x7fffff));
    flx_val e = flx_shr_logical(s->g, bits, flx_scalar(s->g, FLX_I32, 23));
    flx_val half = flx_scalar(s->g, FLX_I32,
                              strcmp(mode, "up") == 0        ? 1
                              : strcmp(mode, "nearest") == 0 ? 0x400000
                                                             : 0x800000);
    flx_val up = flx_ge(s->g, mantissa, half);
    e = flx_add(s->g, e, flxi_onnx_cast(s, up, FLX_I32));
    flx_val top = flx_scalar(s->g, FLX_I32, saturates ? 254 : 255);
    flx_val limited = flx_min(s->g, e, top);
    flx_val y = flx_bitcast(s->g, flx_shl(s->g, limited, flx_scalar(s->g, FLX_I32, 23)), .to = FLX_F32);
    flx_val is_nan = flx_or(s->g, flx_is_nan(s->g, x), flx_eq(s->g, limited, flx_scalar(s->g, FLX_I32, 255)));
    y = flx_where(s->g, flx_eq(s->g, limited, flx_scalar(s->g, FLX_I32, 0)), flx_scalar(s->g, FLX_F32, 0x1p-127), y);
    return flx_where(s->g, is_nan, flx_scalar(s->g, FLX_F32, NAN), y);
}

/* x rounded to the multiple of the spacing at its magnitude, ties to even. */
static flx_val narrow_float(onnx_site *s, flx_val x, const onnx_float_format *f, bool saturates)
{
    flx_val w = flxi_onnx_cast(s, x, FLX_F32);
    flx_val e = exponent_of(s, w, 1 - f->bias);
    flx_val step = power_of_two(s, flx_sub(s->g, e, flx_scalar(s->g, FLX_I32, f->mantissa)));
    flx_val y = flx_mul(s->g, flx_round(s->g, flx_div(s->g, w, step)), step);
    flx_val largest = flx_scalar(s->g, FLX_F32, f->largest);
    flx_val is_large = flx_gt(s->g, flx_abs(s->g, y), largest);
    flx_val sign = flx_sign(s->g, w);
    double over = f->has_inf ? (double)INFINITY : (double)NAN;
    flx_val instead =
        saturates || !f->has_nan ? flx_mul(s->g, sign, largest) : flx_mul(s->g, sign, flx_scalar(s->g, FLX_F32, over));
    y = flx_where(s->g, is_large, instead, y);
    if (!f->has_nan)
        return flx_where(s->g, flx_is_nan(s->g, w), flx_scalar(s->g, FLX_F32, 0), y);
    return flx_where(s->g, flx_is_nan(s->g, w), flx_scalar(s->g, FLX_F32, NAN), y);
}

flx_val flxi_onnx_narrow(onnx_site *s, flx_val x, int32_t element, bool saturates)
{
    const onnx_element *e = flxi_onnx_element(element);
    const onnx_float_format *f = flxi_onnx_float_format(element);
    if (element == ONNX_FLOAT8E8M0)
        return narrow_scale(s, flxi_onnx_cast(s, x, FLX_F32), flxi_onnx_word(s, "round_mode", "up"), saturates);
    if (f)
        return narrow_float(s, x, f, saturates);
    if (e && e->bits < 8)
        return narrow_int(s, x, e);
    return e ? flxi_onnx_cast(s, x, e->carrier) : x;
}

static void cast_to(onnx_site *s, int32_t element)
{
    if (!flxi_onnx_element(element)) {
        flxi_onnx_unsupported(s, "a cast to %s", element == ONNX_STRING ? "STRING" : "an unknown element type");
        return;
    }
    s->y[0] = flxi_onnx_narrow(s, s->x[0], element, flxi_onnx_int(s, "saturate", 1) != 0);
    s->out[0].element = element;
}

void flxi_onnx_import_cast(onnx_site *s)
{
    cast_to(s, (int32_t)flxi_onnx_int(s, "to", 0));
}

void flxi_onnx_import_cast_like(onnx_site *s)
{
    cast_to(s, s->in[1].element);
}

void flxi_onnx_import_bit_cast(onnx_site *s)
{
    int32_t element = (int32_t)flxi_onnx_int(s, "to", 0);
    const onnx_element *e = flxi_onnx_element(element);
    const onnx_element *from = flxi_onnx_element(s->in[0].element);
    if (!e || !from || e->bits != from->bits || e->bits < 8 || flxi_onnx_float_format(element)) {
        flxi_onnx_unsupported(s, "a bit cast between these element types");
        return;
    }
    s->y[0] = flx_bitcast(s->g, s->x[0], .to = e->carrier);
    s->out[0].element = element;
}
