/* SPDX-License-Identifier: Apache-2.0 */
/* export_pointwise.c: pointwise ops and leaves in terms of those that StableHLO has too. See export_rules.h. */
#include "stablehlo/export/export_rules.h"

#include <math.h>

flx_val flxi_export_truth(flxi_site *s, flx_val v)
{
    int32_t dtype = flxi_typeof(s, v)->dtype;
    flx_val zero = flxi_number(s, v, 0.0);
    if (dtype == FLX_BOOL)
        return v;
    if (flxi_is_int(dtype))
        return flx_ne(s->g, v, zero);
    if (flxi_is_complex(dtype))
        return flx_and(s->g, flx_ne(s->g, v, zero), flx_eq(s->g, v, v));
    return flx_or(s->g, flx_lt(s->g, v, zero), flx_gt(s->g, v, zero));
}

flx_val flxi_export_iota(flxi_site *s, flx_dtype dtype, const flx_type *shape, int axis)
{
    flx_type t = *shape;
    t.dtype = dtype;
    return flx_iota(s->g, &t, axis);
}

/* Rules that are one formula: x and b are the operands. */
#define FORMULA(name, formula)                           \
    void flxi_export_as_##name(flxi_site *s, flx_val *y) \
    {                                                    \
        flx_graph *g = s->g;                             \
        flx_val x = s->x[0];                             \
        flx_val b = s->nin > 1 ? s->x[1] : x;            \
        (void)g;                                         \
        (void)b;                                         \
        y[0] = (formula);                                \
    }

FORMULA(or, flx_or(g, x, b))
FORMULA(and, flx_and(g, x, b))
FORMULA(exp2, flx_pow(g, flxi_number(s, x, 2.0), x))
FORMULA(log2, flx_div(g, flx_log(g, x), flxi_number(s, x, 0.69314718055994530942)))
FORMULA(log10, flx_div(g, flx_log(g, x), flxi_number(s, x, 2.30258509299404568402)))
FORMULA(reciprocal, flx_div(g, flxi_number(s, x, 1.0), x))
FORMULA(square, flx_mul(g, x, x))
FORMULA(relu, flx_max(g, x, flxi_number(s, x, 0.0)))
FORMULA(silu, flx_where(g, flx_eq(g, x, flxi_number(s, x, -INFINITY)), flxi_number(s, x, -0.0),
                        flx_mul(g, x, flx_sigmoid(g, x))))
FORMULA(trunc, flx_where(g, flx_lt(g, x, flxi_number(s, x, 0.0)), flx_ceil(g, x), flx_floor(g, x)))
FORMULA(sign, flx_min(g, x, flxi_number(s, x, 1.0)))                           /* of unsigned numbers */
FORMULA(where, flx_where(g, flx_ne(g, x, flxi_number(s, x, 0.0)), b, s->x[2])) /* NaN is not 0 */
FORMULA(conjugate, flx_complex(g, flx_real(g, x), flx_neg(g, flx_imag(g, x))))
FORMULA(complex_norm_sq, flx_add(g, flx_square(g, flx_real(g, x)), flx_square(g, flx_imag(g, x))))
FORMULA(dim_size, flx_scalar(g, FLX_I64, (double)flxi_typeof(s, x)->dims[site_int(s, "axis")]))

/* Operands as they are; what is more than that happens to no value. */
void flxi_export_as_identity(flxi_site *s, flx_val *y)
{
    for (uint32_t k = 0; k < s->nout; k++)
        y[k] = s->x[k];
}

/* The remainder moved to the divisor's side of zero; a zero takes the divisor's sign. */
void flxi_export_as_mod(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val b = s->x[1];
    flx_val zero = flxi_number(s, b, 0.0);
    flx_val r = flx_rem(g, s->x[0], b);
    flx_val apart = flx_ne(g, flx_lt(g, r, zero), flx_lt(g, b, zero));
    flx_val none = flx_eq(g, r, zero);
    flx_val signed_zero = zero;
    if (flxi_is_float(flxi_typeof(s, b)->dtype))
        signed_zero = flx_where(g, flx_lt(g, b, zero), flxi_number(s, b, -0.0), zero);
    y[0] = flx_where(g, none, signed_zero, flx_where(g, apart, flx_add(g, r, b), r));
}

/* Rounded once: the product of two narrow floats is exact in a wider one. f64 has none, so it rounds twice. */
void flxi_export_as_fma(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    bool widen = flxi_is_float(dtype) && dtype != FLX_F64;
    flx_val v[3];
    for (int i = 0; i < 3; i++)
        v[i] = widen ? flx_cast(g, s->x[i], FLX_F64) : s->x[i];
    flx_val sum = flx_add(g, flx_mul(g, v[0], v[1]), v[2]);
    y[0] = widen ? flx_cast(g, sum, dtype) : sum;
}

void flxi_export_as_add_n(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    bool widen = export_is_half(dtype);
    flx_val sum = widen ? flx_cast(g, s->x[0], FLX_F32) : s->x[0];
    for (uint32_t i = 1; i < s->nin; i++)
        sum = flx_add(g, sum, widen ? flx_cast(g, s->x[i], FLX_F32) : s->x[i]);
    y[0] = widen ? flx_cast(g, sum, dtype) : sum;
}

/* ---- Questions ---- */

typedef flx_val (*question)(flxi_site *s, flx_val x);

/* Of a complex number: of either part, or of both. */
static flx_val ask(flxi_site *s, question of, bool both)
{
    flx_val x = s->x[0];
    if (!flxi_is_complex(flxi_typeof(s, x)->dtype))
        return of(s, x);
    flx_val re = of(s, flx_real(s->g, x));
    flx_val im = of(s, flx_imag(s->g, x));
    return both ? flx_and(s->g, re, im) : flx_or(s->g, re, im);
}

static flx_val is_nan(flxi_site *s, flx_val x)
{
    return flx_ne(s->g, x, x);
}

static flx_val is_inf(flxi_site *s, flx_val x)
{
    return flx_eq(s->g, flx_abs(s->g, x), flxi_number(s, x, INFINITY));
}

static flx_val is_finite(flxi_site *s, flx_val x)
{
    return flx_is_finite(s->g, x);
}

void flxi_export_as_is_nan(flxi_site *s, flx_val *y)
{
    y[0] = ask(s, is_nan, false);
}

void flxi_export_as_is_inf(flxi_site *s, flx_val *y)
{
    y[0] = ask(s, is_inf, false);
}

void flxi_export_as_is_finite(flxi_site *s, flx_val *y)
{
    y[0] = ask(s, is_finite, true);
}

/* ---- Conversions ---- */

/* To bool: what differs from 0. From complex to real: the real part. */
void flxi_export_as_cast(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    flx_dtype to = (flx_dtype)site_int(s, "to");
    y[0] = to == FLX_BOOL ? flx_ne(g, x, flxi_number(s, x, 0.0)) : flx_cast(g, flx_real(g, x), to);
}

/* The bytes of x along a new last axis. */
static flx_val bytes_of(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    flx_type t = *flxi_typeof(s, x);
    flx_dim size = (flx_dim)flx_dtype_size(t.dtype);
    if (t.dtype == FLX_BOOL)
        x = flx_cast(g, x, FLX_U8);
    if (flxi_is_complex(t.dtype)) {
        flx_val parts[2] = {flx_unsqueeze(g, flx_real(g, x), FLX_INTS(t.rank)),
                            flx_unsqueeze(g, flx_imag(g, x), FLX_INTS(t.rank))};
        x = flx_concat(g, parts, 2, t.rank);
    }
    t.dims[t.rank] = size;
    return flxi_reshape_to(s, flx_bitcast(g, x, FLX_U8), t.rank + 1, t.dims);
}

/* Numbers of that type from their bytes, in row-major order. */
static flx_val of_bytes(flxi_site *s, flx_val bytes, const flx_type *to)
{
    flx_graph *g = s->g;
    flx_type t = *to;
    flx_dtype part = (flx_dtype)flxi_part_dtype(to->dtype);
    if (flxi_is_complex(to->dtype))
        t.dims[t.rank++] = 2;
    if (flx_dtype_size(part) > 1)
        t.dims[t.rank++] = (flx_dim)flx_dtype_size(part);
    flx_val v = flx_bitcast(g, flxi_reshape_to(s, bytes, t.rank, t.dims), part);
    if (!flxi_is_complex(to->dtype))
        return v;
    flx_val re = flxi_reshape_to(s, flx_narrow(g, v, to->rank, 0, 1), to->rank, to->dims);
    flx_val im = flxi_reshape_to(s, flx_narrow(g, v, to->rank, 1, 1), to->rank, to->dims);
    return flx_complex(g, re, im);
}

/* Bools and complex numbers, whose bits StableHLO does not show. */
void flxi_export_as_bitcast(flxi_site *s, flx_val *y)
{
    const flx_type *from = flxi_typeof(s, s->x[0]);
    flx_type to = *from;
    to.dtype = (int32_t)site_int(s, "to");
    flx_dim old_size = (flx_dim)flx_dtype_size(from->dtype);
    flx_dim new_size = (flx_dim)flx_dtype_size(to.dtype);
    if (from->rank + 3 > FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_UNSUPPORTED, "flatten it first: reshape",
                       "%d axes leave no room for those of the bytes", from->rank);
        return;
    }
    if (new_size < old_size)
        to.dims[to.rank++] = old_size / new_size;
    else if (new_size > old_size)
        to.rank--;
    y[0] = to.dtype == from->dtype ? s->x[0] : of_bytes(s, bytes_of(s, s->x[0]), &to);
}

/* ---- Special functions ---- */

enum { BESSEL_POINTS = 64, BESSEL_TERMS = 12 };
static const double bessel_far = 64.0;

/* cos t - 1 at the middles of 64 equal parts of (0, pi): the mean of exp(x (cos t - 1)) over them is that over the
   interval to full precision up to bessel_far, since the function is periodic and smooth. */
static flx_val bessel_near(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, x);
    flx_dim points = BESSEL_POINTS;
    flx_type row = flx_type_make((flx_dtype)t->dtype, 1, &points);
    flx_val step = flxi_number(s, x, 3.14159265358979323846 / BESSEL_POINTS / 2.0);
    flx_val half = flx_mul(g, flx_add(g, flx_iota(g, &row, 0), flxi_number(s, x, 0.5)), step);
    flx_val sine = flx_sin(g, half);
    flx_val fall = flx_mul(g, flxi_number(s, x, -2.0), flx_mul(g, sine, sine)); /* cos t - 1, without cancellation */
    flx_val spread = flx_mul(g, flx_unsqueeze(g, x, FLX_INTS(t->rank)), fall);
    return flx_reduce_mean(g, flx_exp(g, spread), FLX_INTS(t->rank), 0);
}

/* The series in 1/x. */
static flx_val bessel_series(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    flx_val inverse = flx_div(g, flxi_number(s, x, 0.125), x);
    flx_val sum = flxi_number(s, x, 1.0);
    for (int k = BESSEL_TERMS; k >= 1; k--) {
        double ratio = (2.0 * k - 1.0) * (2.0 * k - 1.0) / k;
        sum = flx_add(g, flxi_number(s, x, 1.0), flx_mul(g, flx_mul(g, inverse, flxi_number(s, x, ratio)), sum));
    }
    return flx_mul(g, sum, flx_rsqrt(g, flx_mul(g, flxi_number(s, x, 6.28318530717958647693), x)));
}

void flxi_export_as_bessel_i0e(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    flx_val x = flx_abs(g, export_is_half(dtype) ? flx_cast(g, s->x[0], FLX_F32) : s->x[0]);
    flx_val limit = flxi_number(s, x, bessel_far);
    flx_val near = bessel_near(s, flx_min(g, x, limit));
    flx_val far = bessel_series(s, flx_max(g, x, limit));
    flx_val v = flx_where(g, flx_gt(g, x, limit), far, near);
    y[0] = export_is_half(dtype) ? flx_cast(g, v, dtype) : v;
}

/* ---- Leaves ---- */

void flxi_export_as_eye(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_dim dims[2] = {site_int(s, "n"), site_int(s, "m")};
    flx_type t = flx_type_make(FLX_I64, 2, dims);
    flx_val k = flx_scalar(g, FLX_I64, (double)site_int(s, "k"));
    flx_val same = flx_eq(g, flx_iota(g, &t, 1), flx_add(g, flx_iota(g, &t, 0), k));
    flx_dtype dtype = (flx_dtype)site_int(s, "dtype");
    y[0] = dtype == FLX_BOOL ? same : flx_cast(g, same, dtype);
}
