/* SPDX-License-Identifier: Apache-2.0 */
/* express_complex.c: see express_complex.h. The quotient is Smith's, on operands that are scaled by powers of two where
   they are c128: the square of a divisor of c64 is far inside the range of double. */
#include "ops/express/express_complex.h"

#include "ops/express/express_formula.h"

#include <math.h>

flxi_kval flxi_kcwide(flxi_express *e, flxi_kval z)
{
    return flxi_khold_value(e, (flxi_kval){flxi_kb_cast(e->k, FLX_F64, z.re), flxi_kb_cast(e->k, FLX_F64, z.im)});
}

flxi_kval flxi_kcround(flxi_express *e, flxi_kval wide, flxi_kval like)
{
    uint32_t type = flxi_kb_type(e->k, like.re);
    return (flxi_kval){flxi_kb_cast(e->k, type, wide.re), flxi_kb_cast(e->k, type, wide.im)};
}

flxi_kval flxi_kcmul(flxi_express *e, flxi_kval a, flxi_kval b)
{
    flxi_kval x = flxi_kcwide(e, a);
    flxi_kval y = flxi_kcwide(e, b);
    uint32_t re = F2(sub, F2(mul, x.re, y.re), F2(mul, x.im, y.im));
    uint32_t im = F2(add, F2(mul, x.re, y.im), F2(mul, x.im, y.re));
    return flxi_kcround(e, (flxi_kval){re, im}, a);
}

/* ---- Quotient ---- */

/* The power of two that moves z away from the ends of double's range, and its inverse. */
typedef struct {
    uint32_t factor, inverse;
} scale;

static scale scale_of(flxi_express *e, flxi_kval z)
{
    uint32_t larger = HOLD(F2(max, F1(abs, z.re), F1(abs, z.im)));
    uint32_t huge = HOLD(F2(ge, larger, NUM(larger, 0x1p1021)));
    uint32_t tiny = HOLD(F2(lt, larger, NUM(larger, 0x1p-400)));
    uint32_t one = NUM(larger, 1);
    return (scale){HOLD(PICK(huge, NUM(one, 0x1p-3), PICK(tiny, NUM(one, 0x1p600), one))),
                   HOLD(PICK(huge, NUM(one, 0x1p3), PICK(tiny, NUM(one, 0x1p-600), one)))};
}

static flxi_kval scaled(flxi_express *e, flxi_kval z, uint32_t factor)
{
    return flxi_khold_value(e, (flxi_kval){F2(mul, z.re, factor), F2(mul, z.im, factor)});
}

/* For |Re b| ≥ |Im b|; where the ratio underflows, the product with it is taken in the other order. */
static flxi_kval divided(flxi_express *e, flxi_kval a, flxi_kval b)
{
    uint32_t ratio = HOLD(F2(div, b.im, b.re));
    uint32_t below = HOLD(F2(add, b.re, F2(mul, b.im, ratio)));
    uint32_t lost = HOLD(F2(eq, ratio, NUM(ratio, 0)));
    uint32_t u = PICK(lost, F2(mul, b.im, F2(div, a.im, b.re)), F2(mul, a.im, ratio));
    uint32_t v = PICK(lost, F2(mul, b.im, F2(div, a.re, b.re)), F2(mul, a.re, ratio));
    return (flxi_kval){F2(div, F2(add, a.re, u), below), F2(div, F2(sub, a.im, v), below)};
}

/* z/i = im - i·re where `turn` is true. */
static flxi_kval turned(flxi_express *e, uint32_t turn, flxi_kval z)
{
    return flxi_khold_value(e, (flxi_kval){PICK(turn, z.im, z.re), PICK(turn, F1(neg, z.re), z.im)});
}

flxi_kval flxi_kcdiv(flxi_express *e, flxi_kval a, flxi_kval b)
{
    flxi_kval x = flxi_kcwide(e, a);
    flxi_kval y = flxi_kcwide(e, b);
    uint32_t zero = NUM(x.re, 0);
    uint32_t by_zero = HOLD(F2(logical_and, F2(eq, y.re, zero), F2(eq, y.im, zero)));
    uint32_t inf = NUM(x.re, INFINITY);
    flxi_kval parts = {F2(mul, x.re, inf), F2(mul, x.im, inf)}; /* what dividing by zero gives, without a division */
    uint32_t back = 0;
    if (flxi_kb_type(e->k, a.re) == FLX_F64) {
        scale sx = scale_of(e, x);
        scale sy = scale_of(e, y);
        back = HOLD(F2(mul, sy.factor, sx.inverse));
        x = scaled(e, x, sx.factor);
        y = scaled(e, y, sy.factor);
    }
    uint32_t turn = HOLD(F2(lt, F1(abs, y.re), F1(abs, y.im)));
    flxi_kval over = turned(e, turn, x), under = turned(e, turn, y); /* in this order, whatever compiles the library */
    flxi_kval q = divided(e, over, under);
    if (back)
        q = (flxi_kval){F2(mul, q.re, back), F2(mul, q.im, back)};
    return flxi_kcround(e, flxi_kchoose(e, by_zero, parts, q), a);
}

/* ---- Functions ---- */

/* e^x, beyond |x| = 700 as two equal factors, neither of which overflows or vanishes unless the result does. An
   infinite or NaN angle leaves e^-inf = 0 and e^inf = inf. */
flxi_kval flxi_kcexp(flxi_express *e, flxi_kval z)
{
    flxi_kval w = flxi_kcwide(e, z);
    uint32_t zero = NUM(w.re, 0), one = NUM(w.re, 1), inf = NUM(w.re, INFINITY), nan = NUM(w.re, NAN);
    uint32_t far = HOLD(F2(gt, F1(abs, w.re), NUM(w.re, 700)));
    uint32_t first = HOLD(F1(exp, PICK(far, F2(mul, w.re, NUM(w.re, 0.5)), w.re)));
    uint32_t second = HOLD(PICK(far, first, one));
    uint32_t turns = HOLD(F1(is_finite, w.im));
    uint32_t vanishes = HOLD(F2(eq, w.re, NUM(w.re, -(double)INFINITY)));
    uint32_t re = F2(mul, F2(mul, first, F1(cos, w.im)), second);
    uint32_t im = F2(mul, F2(mul, first, F1(sin, w.im)), second);
    uint32_t re_else = PICK(vanishes, zero, PICK(F2(eq, w.re, inf), inf, nan));
    uint32_t im_else = PICK(vanishes, F2(copysign, zero, w.im), nan);
    re = PICK(F2(eq, w.im, zero), F2(mul, first, second), PICK(turns, re, re_else));
    im = PICK(F2(eq, w.im, zero), w.im, PICK(turns, im, im_else));
    return flxi_kcround(e, (flxi_kval){re, im}, z);
}

/* The rounding error of a + b = sum (Knuth's two-sum). */
uint32_t flxi_krest_of_sum(flxi_express *e, uint32_t a, uint32_t b, uint32_t sum)
{
    uint32_t part = HOLD(F2(sub, sum, a));
    return F2(add, F2(sub, a, F2(sub, sum, part)), F2(sub, b, part));
}

/* a² + b² - 1 with the rounding errors of squares and sums, for a not much below b. */
static uint32_t modulus_excess(flxi_express *e, uint32_t a, uint32_t b)
{
    uint32_t aa = HOLD(F2(mul, a, a)), bb = HOLD(F2(mul, b, b)), minus_one = NUM(a, -1);
    uint32_t low = F2(add, flxi_kb_fma(e->k, a, a, F1(neg, aa)), flxi_kb_fma(e->k, b, b, F1(neg, bb)));
    uint32_t first = HOLD(F2(add, aa, minus_one));
    uint32_t both = HOLD(F2(add, first, bb));
    low = F2(add, low, flxi_krest_of_sum(e, aa, minus_one, first));
    return F2(add, both, F2(add, low, flxi_krest_of_sum(e, first, bb, both)));
}

/* log|z|: where the modulus is near 1, from its square minus 1. */
static uint32_t log_modulus(flxi_express *e, flxi_kval w)
{
    scale s = scale_of(e, w);
    flxi_kval v = scaled(e, w, s.factor);
    uint32_t a = HOLD(F2(max, F1(abs, v.re), F1(abs, v.im)));
    uint32_t b = HOLD(F2(min, F1(abs, v.re), F1(abs, v.im)));
    uint32_t h = HOLD(F2(hypot, v.re, v.im));
    uint32_t excess = modulus_excess(e, a, b);
    uint32_t near = F2(logical_and, F2(gt, h, NUM(h, 0.5)), F2(lt, h, NUM(h, 2)));
    uint32_t far = F2(add, F1(log, h), F1(log, s.inverse));
    return PICK(near, F2(mul, NUM(h, 0.5), F1(log1p, excess)), far);
}

flxi_kval flxi_kclog(flxi_express *e, flxi_kval z)
{
    flxi_kval w = flxi_kcwide(e, z);
    return flxi_kcround(e, (flxi_kval){log_modulus(e, w), F2(atan2, w.im, w.re)}, z);
}

/* t = √((|x| + |z|)/2) is the larger part; the other is y/2t. Scaled by an even power of two. */
flxi_kval flxi_kcsqrt(flxi_express *e, flxi_kval z)
{
    flxi_kval w = flxi_kcwide(e, z);
    uint32_t larger = HOLD(F2(max, F1(abs, w.re), F1(abs, w.im)));
    uint32_t huge = HOLD(F2(ge, larger, NUM(larger, 0x1p1000)));
    uint32_t tiny = HOLD(F2(lt, larger, NUM(larger, 0x1p-900)));
    uint32_t zero = NUM(larger, 0), one = NUM(larger, 1), inf = NUM(larger, INFINITY);
    uint32_t factor = HOLD(PICK(huge, NUM(one, 0x1p-200), PICK(tiny, NUM(one, 0x1p200), one)));
    uint32_t back = HOLD(PICK(huge, NUM(one, 0x1p100), PICK(tiny, NUM(one, 0x1p-100), one)));
    flxi_kval v = scaled(e, w, factor);
    uint32_t x = HOLD(F1(abs, v.re));
    uint32_t t = HOLD(F1(sqrt, F2(mul, NUM(x, 0.5), F2(add, x, F2(hypot, v.re, v.im)))));
    uint32_t other = HOLD(F2(div, F1(abs, v.im), F2(mul, NUM(t, 2), t)));
    uint32_t left = HOLD(F2(lt, w.re, zero));
    uint32_t re = F2(mul, back, PICK(left, other, t));
    uint32_t im = F2(copysign, F2(mul, back, PICK(left, t, other)), w.im);
    uint32_t none = F2(eq, t, zero);
    re = PICK(F1(is_inf, w.im), inf, PICK(none, zero, re));
    im = PICK(F2(logical_or, F1(is_inf, w.im), none), w.im, im);
    return flxi_kcround(e, (flxi_kval){re, im}, z);
}

/* a·b for a = sinh x or cosh x, in two factors where a may overflow and the product does not: both are e^|x|/2 there.
   */
static uint32_t hyperbolic_times(flxi_express *e, uint32_t x, uint32_t a, uint32_t b, bool is_odd)
{
    uint32_t half = HOLD(F1(exp, F2(mul, NUM(x, 0.5), F1(abs, x))));
    uint32_t large = F2(mul, F2(mul, F2(mul, NUM(x, 0.5), half), b), half);
    large = is_odd ? F2(mul, large, F2(copysign, NUM(x, 1), x)) : large;
    return PICK(F2(gt, F1(abs, x), NUM(x, 40)), large, F2(mul, a, b));
}

/* Shared by the two: where y is not finite, an infinite x stays infinite in the real part, and a part that vanishes
   because of x = 0 or y = 0 stays 0. */
static flxi_kval hyperbolic(flxi_express *e, flxi_kval z, bool is_sine)
{
    flxi_kval w = flxi_kcwide(e, z);
    uint32_t x = w.re, y = w.im, zero = NUM(x, 0), inf = NUM(x, INFINITY);
    uint32_t s = F1(sinh, x), c = F1(cosh, x);
    uint32_t re = hyperbolic_times(e, x, is_sine ? s : c, F1(cos, y), is_sine);
    uint32_t im = hyperbolic_times(e, x, is_sine ? c : s, F1(sin, y), !is_sine);
    uint32_t lost = HOLD(F1(logical_not, F1(is_finite, y)));
    uint32_t real = F2(eq, y, zero), imaginary = F2(logical_and, lost, F2(eq, x, zero));
    re = PICK(F2(logical_and, lost, F1(is_inf, x)), inf, re);
    if (is_sine)
        re = PICK(imaginary, x, re);
    else
        im = PICK(imaginary, zero, im);
    im = PICK(real, is_sine ? y : F2(mul, y, F2(copysign, NUM(x, 1), x)), im);
    return flxi_kcround(e, (flxi_kval){re, im}, z);
}

flxi_kval flxi_kcsinh(flxi_express *e, flxi_kval z)
{
    return hyperbolic(e, z, true);
}

flxi_kval flxi_kccosh(flxi_express *e, flxi_kval z)
{
    return hyperbolic(e, z, false);
}

/* z/|z|; 0 is itself. An infinite part counts as 1 and a finite one beside it as 0, each with its sign. */
flxi_kval flxi_kcsign(flxi_express *e, flxi_kval z)
{
    flxi_kval w = flxi_kcwide(e, z);
    uint32_t zero = NUM(w.re, 0), one = NUM(w.re, 1), nan = NUM(w.re, NAN);
    uint32_t endless = HOLD(F2(logical_or, F1(is_inf, w.re), F1(is_inf, w.im)));
    uint32_t is_nan = HOLD(F2(logical_or, F1(is_nan, w.re), F1(is_nan, w.im)));
    uint32_t re = F2(copysign, PICK(F1(is_inf, w.re), one, zero), w.re);
    uint32_t im = F2(copysign, PICK(F1(is_inf, w.im), one, zero), w.im);
    flxi_kval v = flxi_khold_value(e, flxi_kchoose(e, endless, (flxi_kval){re, im}, w));
    bool may_overflow = flxi_kb_type(e->k, z.re) == FLX_F64;
    if (may_overflow)
        v = scaled(e, v, scale_of(e, v).factor);
    uint32_t squares = flxi_kb_fma(e->k, v.re, v.re, F2(mul, v.im, v.im));
    uint32_t modulus = HOLD(may_overflow ? F2(hypot, v.re, v.im) : F1(sqrt, squares));
    flxi_kval y = {F2(div, v.re, modulus), F2(div, v.im, modulus)};
    y = flxi_kchoose(e, F2(eq, modulus, zero), w, y);
    return flxi_kcround(e, flxi_kchoose(e, is_nan, (flxi_kval){nan, nan}, y), z);
}
