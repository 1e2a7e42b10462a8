/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c: elementary functions of one operand.

   Real functions are those of the C library, which is within two units in the last place of the true value and handles
   the special values of IEEE 754; the few functions implemented below are those it lacks or computes less accurately.
   Complex functions are C99's with their branch cuts: on a cut the sign of a zero part selects the side. Integers have
   only the functions whose results are integers; they wrap. */
#include "base/complex_arith.h"
#include "base/host/stop.h"
#include "ops/composite/backward.h"
#include "ops/express/express_complex.h"
#include "ops/express/express_formula.h"
#include "ops/rule/element.h"
#include "ops/rule/partial.h"

/* ---- Samples: values where the function is smooth and finite ---- */

#define VALID(range)                                                               \
    {"T[3, 4]" range, NULL, NULL, FLX_OK}, {"T[]" range, NULL, NULL, FLX_OK},      \
        {"T[2, 1, 3]" range, NULL, NULL, FLX_OK}, {"T[0, 3]", NULL, NULL, FLX_OK}, \
    {                                                                              \
        "T[N, 2]" range, NULL, NULL, FLX_OK                                        \
    }
#define INVALID                                                                      \
    {"bool[3]", NULL, NULL, FLX_E_DTYPE}, {"T[3]", "axis=0", NULL, FLX_E_ATTRIBUTE}, \
    {                                                                                \
        "T[3], T[3]", NULL, NULL, FLX_E_ARITY                                        \
    }

#define SAMPLES(range)         \
    {                          \
        VALID(range), INVALID, \
        {                      \
            0                  \
        }                      \
    }
/* Complex ones also in the quadrant opposite to the positive one, beyond the branch points. */
#define SAMPLES_COMPLEX(range)                                           \
    {                                                                    \
        VALID(range), {"c64[4]{-3..-0.2}", NULL, NULL, FLX_OK}, INVALID, \
        {                                                                \
            0                                                            \
        }                                                                \
    }

static const flxi_sample samples_any[] = SAMPLES("");
static const flxi_sample samples_positive[] = SAMPLES("{0.2..3}");
static const flxi_sample samples_complex_positive[] = SAMPLES_COMPLEX("{0.2..3}");
static const flxi_sample samples_inside_one[] = SAMPLES_COMPLEX("{-0.9..0.9}");
static const flxi_sample samples_above_one[] = SAMPLES_COMPLEX("{1.1..4}");
static const flxi_sample samples_above_minus_one[] = SAMPLES_COMPLEX("{-0.8..3}");

/* Away from the kink at 0. */
static const flxi_sample samples_signed[] = {VALID("{0.3..3}"), {"T[5]{-3..-0.3}", NULL, NULL, FLX_OK}, INVALID, {0}};

/* Where derivatives are tested, away from the jumps. */
static const flxi_sample samples_steps[] = {VALID("{0.1..0.4}"),
                                            {"T[5]{-1.9..-1.6}", NULL, NULL, FLX_OK},
                                            {"f16[20]{-5..5}", NULL, NULL, FLX_OK},
                                            INVALID,
                                            {0}};
static const flxi_sample samples_round[] = {
    {"T[3, 4]{-0.4..0.4}", NULL, NULL, FLX_OK},
    {"T[]{1.6..2.4}", "ste=zero", NULL, FLX_OK},
    {"T[N, 2]{-5..5}", "ste=identity", NULL, FLX_OK},
    {"f16[20]{-5..5}", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[3]", "ste=sideways", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* ---- Functions of the C library ---- */

#define LIBM_REAL(op) ELEMENT_REAL(op##_f, op(x[0]))
#define LIBM_COMPLEX(op) ELEMENT_COMPLEX(op##_c, c##op(x[0]))
#define LIBM_BOTH(op) LIBM_REAL(op) LIBM_COMPLEX(op)

LIBM_BOTH(exp)
LIBM_BOTH(log)
LIBM_BOTH(sqrt)
LIBM_BOTH(sin)
LIBM_BOTH(cos)
LIBM_BOTH(tan)
LIBM_BOTH(asin)
LIBM_BOTH(acos)
LIBM_BOTH(atan)
LIBM_BOTH(sinh)
LIBM_BOTH(cosh)
LIBM_BOTH(tanh)
LIBM_BOTH(asinh)
LIBM_BOTH(acosh)
LIBM_BOTH(atanh)
LIBM_REAL(exp2)
LIBM_REAL(expm1)
LIBM_REAL(log2)
LIBM_REAL(log10)
LIBM_REAL(log1p)
LIBM_REAL(floor)
LIBM_REAL(ceil)
LIBM_REAL(trunc)

ELEMENT_REAL(round_f, rint(x[0])) /* to even: the default rounding direction, which is never changed */
ELEMENT_REAL(round_away_f, round(x[0]))

/* ---- Differences that must not cancel ---- */

/* e^(x+iy) - 1 = expm1(x)·cos y - 2·sin²(y/2) + i·e^x·sin y, from cos y = 1 - 2·sin²(y/2). Both terms of the real part
   vanish with z, so no digits are lost near 0. Where they cancel elsewhere, the imaginary part is the larger one, and
   the result is accurate relative to its modulus. For x > 1 the plain difference is as good and cannot overflow
   early. */
static double complex expm1_c(const double complex *z, const void *a)
{
    (void)a;
    double x = creal(*z);
    double y = cimag(*z);
    if (x > 1 || !isfinite(x) || !isfinite(y)) {
        double complex w = cexp(*z);
        return flxi_cmake(creal(w) - 1, cimag(w));
    }
    double s = sin(0.5 * y);
    return flxi_cmake(expm1(x) * cos(y) - 2 * s * s, exp(x) * sin(y));
}

/* a + b is *sum + *rest exactly (Knuth's two-sum). */
static void two_sum(double a, double b, double *sum, double *rest)
{
    *sum = a + b;
    double part = *sum - a;
    *rest = (a - (*sum - part)) + (b - part);
}

/* |1+z|² - 1 = 2x + x² + y². The terms cancel near the circle |1+z| = 1, so they are added with their rounding
   errors. */
static double circle_excess(double x, double y)
{
    double xx = x * x;
    double yy = y * y;
    double low = fma(x, x, -xx) + fma(y, y, -yy);
    double sum;
    double rest;
    two_sum(2 * x, xx, &sum, &rest);
    low += rest;
    two_sum(sum, yy, &sum, &rest);
    return sum + (low + rest);
}

/* log|1+z| + i·arg(1+z), the modulus from its excess over 1 where that is small. An overflow in the excess makes it
   infinite or NaN, and the other branch is taken. */
static double complex log1p_c(const double complex *z, const void *a)
{
    (void)a;
    double x = creal(*z);
    double y = cimag(*z);
    double excess = circle_excess(x, y);
    double modulus = excess > -0.5 && excess < 1 ? 0.5 * log1p(excess) : log(hypot(1 + x, y));
    return flxi_cmake(modulus, atan2(y, 1 + x));
}

/* ---- Powers ---- */

/* The library's cube root may be several units off; one Newton step on y³ - x, with the cube's rounding errors
   included, leaves less than one. Near the ends of the range, where the cube's error is lost or the cube overflows, the
   step is too small to matter or is skipped. */
static double cbrt_f(const double *x, const void *a)
{
    (void)a;
    double y = cbrt(x[0]);
    double yy = y * y;
    double yyy = yy * y;
    double low = fma(y, y, -yy) * y + fma(yy, y, -yyy);
    double step = ((yyy - x[0]) + low) / (3 * yy);
    return isfinite(step) ? y - step : y;
}

/* z² with re² - im² as a product, which does not cancel. */
static double complex square_c(const double complex *z, const void *a)
{
    (void)a;
    double x = creal(*z);
    double y = cimag(*z);
    return flxi_cmake((x - y) * (x + y), 2 * (x * y));
}

ELEMENT_REAL(rsqrt_f, 1 / sqrt(x[0]))
ELEMENT_COMPLEX(rsqrt_c, flxi_cdiv(1, csqrt(x[0])))
ELEMENT_REAL(reciprocal_f, 1 / x[0])
ELEMENT_COMPLEX(reciprocal_c, flxi_cdiv(1, x[0]))
ELEMENT_REAL(square_f, x[0] * x[0])
ELEMENT_INT(square_i, (int64_t)((uint64_t)x[0] * (uint64_t)x[0]))

/* ---- Sign and magnitude ---- */

/* x as a number of modulus 1, 0 at 0. The operand is first scaled to about 1 because the modulus of a very large one
   overflows and that of a very small one is inexact. An infinite part outweighs a finite one, as in arg(z). */
static double complex sign_c(const double complex *z, const void *a)
{
    (void)a;
    double x = creal(*z);
    double y = cimag(*z);
    if (isnan(x) || isnan(y))
        return flxi_cmake(NAN, NAN);
    double larger = fmax(fabs(x), fabs(y));
    if (larger == 0)
        return *z;
    if (isinf(larger)) {
        x = copysign(isinf(x) ? 1.0 : 0.0, x);
        y = copysign(isinf(y) ? 1.0 : 0.0, y);
    } else {
        int exponent = ilogb(larger);
        x = scalbn(x, -exponent);
        y = scalbn(y, -exponent);
    }
    double modulus = hypot(x, y);
    return flxi_cmake(x / modulus, y / modulus);
}

ELEMENT_REAL(neg_f, -x[0])
ELEMENT_COMPLEX(neg_c, -x[0])
ELEMENT_INT(neg_i, (int64_t)(0 - (uint64_t)x[0]))
ELEMENT_REAL(abs_f, fabs(x[0]))
ELEMENT_COMPLEX(abs_c, cabs(x[0]))
ELEMENT_INT(abs_i, t->is_signed &&x[0] < 0 ? (int64_t)(0 - (uint64_t)x[0]) : x[0])
ELEMENT_REAL(sign_f, x[0] > 0 ? 1.0 : x[0] < 0 ? -1.0 : x[0])
ELEMENT_INT(sign_i, t->is_signed ? (x[0] > 0) - (x[0] < 0) : x[0] != 0)

/* abs of a complex operand is real. */
static flx_code infer_abs(flxi_infer *f)
{
    flx_code code = flxi_infer_pointwise(f);
    if (code == FLX_OK)
        f->out[0].dtype = flxi_part_dtype(f->in[0]->dtype);
    return code;
}

static flx_code eval_abs(flxi_eval *e)
{
    const flx_tensor *x = e->in[0];
    flx_tensor *y = e->out[0];
    if (!flxi_is_complex(x->type.dtype))
        return flxi_eval_pointwise(e);
    for (int64_t i = 0; i < x->count && !flxi_stopped_by_now(); i++) {
        double complex z = flxi_load_complex(x->type.dtype, x->data, i);
        flxi_store_double(y->type.dtype, y->data, i, creal(abs_c(&z, NULL)));
    }
    return FLX_OK;
}

/* ---- Rules ---- */

typedef struct {
    int64_t ste; /* word: the assumed derivative */
} round_attrs;

enum { STE_ZERO, STE_IDENTITY };

static const flxi_attr round_schema[] = {A_WORD(round_attrs, ste, "zero identity"), A_END};

/* ---- Derivatives ---- */

static bool is_complex_site(const flxi_site *s)
{
    return flxi_is_complex(flxi_typeof(s, s->x[0])->dtype);
}

PARTIAL(exp, y)
PARTIAL(exp2, flx_mul(g, y, K(0.69314718055994531)))
PARTIAL(expm1, flx_add(g, y, K(1)))
PARTIAL(log, flx_reciprocal(g, x))
PARTIAL(log2, flx_reciprocal(g, flx_mul(g, x, K(0.69314718055994531))))
PARTIAL(log10, flx_reciprocal(g, flx_mul(g, x, K(2.3025850929940457))))
PARTIAL(log1p, flx_reciprocal(g, flx_add(g, x, K(1))))
PARTIAL(sqrt, flx_div(g, K(0.5), y))
PARTIAL(rsqrt, flx_mul(g, K(-0.5), flx_mul(g, y, flx_square(g, y))))
PARTIAL(cbrt, flx_reciprocal(g, flx_mul(g, K(3), flx_square(g, y))))
PARTIAL(reciprocal, flx_neg(g, flx_square(g, y)))
PARTIAL(square, flx_mul(g, x, K(2)))
PARTIAL(neg, K(-1))
PARTIAL(sin, flx_cos(g, x))
PARTIAL(cos, flx_neg(g, flx_sin(g, x)))
PARTIAL(tan, flx_add(g, flx_square(g, y), K(1)))
PARTIAL(sinh, flx_cosh(g, x))
PARTIAL(cosh, flx_sinh(g, x))
PARTIAL(tanh, flx_sub(g, K(1), flx_square(g, y)))

/* The derivatives of inverse functions have roots whose sign depends on the side of a cut, which the sign of a zero
   imaginary part selects. Subtracting a constant keeps that sign and adding one does not: so x + 1 is x - (-1), and 1 -
   x of a complex x is -(x - 1). For a real x that would be -0 at 1, where the poles must be positive. */
static flx_val one_plus(flxi_site *s, flx_val x)
{
    return flx_sub(s->g, x, K(-1));
}

static flx_val one_minus(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    return is_complex_site(s) ? flx_neg(g, flx_sub(g, x, K(1))) : flx_sub(g, K(1), x);
}

/* 1 - x² without cancellation. */
static flx_val one_minus_square(flxi_site *s, flx_val x)
{
    return flx_mul(s->g, one_minus(s, x), one_plus(s, x));
}

PARTIAL(asin, flx_rsqrt(g, one_minus_square(s, x)))
PARTIAL(acos, flx_neg(g, flx_rsqrt(g, one_minus_square(s, x))))
PARTIAL(atan, flx_reciprocal(g, one_plus(s, flx_square(g, x))))
PARTIAL(asinh, flx_rsqrt(g, one_plus(s, flx_square(g, x))))
/* Two roots: the principal root of the product has the wrong sign where Re x < 0. */
PARTIAL(acosh, flx_mul(g, flx_rsqrt(g, flx_sub(g, x, K(1))), flx_rsqrt(g, one_plus(s, x))))
PARTIAL(atanh, flx_reciprocal(g, one_minus_square(s, x)))

/* The rules from here on are their own adjoints, so that one function is both vjp and jvp; abs of complex is the
   exception. */

static void derive_neg(flxi_site *s, const flx_val *d, flx_val *out)
{
    out[0] = flx_neg(s->g, d[0]);
}

static void derive_round(flxi_site *s, const flx_val *d, flx_val *out)
{
    const round_attrs *a = s->attrs;
    out[0] = a->ste == STE_IDENTITY ? d[0] : FLX_NONE;
}

static bool scales_round(const flxi_node *n, const bool *in)
{
    (void)n;
    (void)in;
    return false; /* whatever its derivative is set to */
}

/* Zero for reals. y = z/|z| has ∂y/∂z = 1/(2|z|) and ∂y/∂z̄ = -y²/(2|z|); at 0 both are taken as 0. */
static void derive_sign(flxi_site *s, const flx_val *d, flx_val *out)
{
    flx_graph *g = s->g;
    flx_val z = s->x[0];
    flx_val y = s->y[0];
    if (!is_complex_site(s))
        return;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, z)->dtype;
    flx_val inside = flx_ne(g, z, K(0));
    flx_val modulus = flx_cast(g, flx_abs(g, flx_where(g, inside, z, K(1))), dtype);
    flx_val across = flx_sub(g, d[0], flx_mul(g, flx_conjugate(g, d[0]), flx_square(g, y)));
    out[0] = flxi_masked(s, inside, flx_div(g, across, flx_mul(g, K(2), modulus)));
}

/* sign(x), which is 0 at 0; of a complex operand z/|z|, to which the real cotangent is widened. */
static void vjp_abs(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    flx_val d = is_complex_site(s) ? flx_cast(g, dy[0], dtype) : dy[0];
    dx[0] = flx_mul(g, d, flx_sign(g, s->x[0]));
}

static void jvp_abs(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    flx_val direction = flxi_conj(s, flx_sign(g, s->x[0]));
    flx_val along = flx_mul(g, tx[0], direction);
    ty[0] = is_complex_site(s) ? flx_real(g, along) : along;
}

/* ---- Kernel expressions ---- */

ELEMENT_KERNEL(exp, x[0].im ? flxi_kcexp(e, x[0]) : flxi_kreal(F1(exp, x[0].re)))
ELEMENT_KERNEL_1(exp2, F1(exp2, x))
ELEMENT_KERNEL(log, x[0].im ? flxi_kclog(e, x[0]) : flxi_kreal(F1(log, x[0].re)))
ELEMENT_KERNEL_1(log2, F1(log2, x))
ELEMENT_KERNEL_1(log10, F1(log10, x))
ELEMENT_KERNEL(sqrt, x[0].im ? flxi_kcsqrt(e, x[0]) : flxi_kreal(F1(sqrt, x[0].re)))
ELEMENT_KERNEL_1(tan, F1(tan, x))
ELEMENT_KERNEL_1(asin, F1(asin, x))
ELEMENT_KERNEL_1(acos, F1(acos, x))
ELEMENT_KERNEL_1(atan, F1(atan, x))
ELEMENT_KERNEL(sinh, x[0].im ? flxi_kcsinh(e, x[0]) : flxi_kreal(F1(sinh, x[0].re)))
ELEMENT_KERNEL(cosh, x[0].im ? flxi_kccosh(e, x[0]) : flxi_kreal(F1(cosh, x[0].re)))
ELEMENT_KERNEL_1(tanh, F1(tanh, x))
ELEMENT_KERNEL_1(asinh, F1(asinh, x))
ELEMENT_KERNEL_1(acosh, F1(acosh, x))
ELEMENT_KERNEL_1(atanh, F1(atanh, x))
ELEMENT_KERNEL_1(floor, F1(floor, x))
ELEMENT_KERNEL_1(ceil, F1(ceil, x))
ELEMENT_KERNEL_1(trunc, F1(trunc, x))
ELEMENT_KERNEL_1(round, F1(rint, x))
ELEMENT_KERNEL_1(round_away, F1(round, x))

/* i·z */
static flxi_kval turned(flxi_express *e, flxi_kval z)
{
    return (flxi_kval){HOLD(F1(neg, z.im)), z.re};
}

/* sin z = -i·sinh(i·z) and cos z = cosh(i·z). Where the real part is not finite, the sign of an infinite imaginary part
   is lost: + is chosen in both. */
static flxi_kval element_sin(flxi_express *e, const flxi_kval *x)
{
    if (!x[0].im)
        return flxi_kreal(F1(sin, x[0].re));
    flxi_kval y = flxi_kcsinh(e, turned(e, x[0]));
    uint32_t lost = F2(logical_and, F1(is_inf, x[0].im), F1(logical_not, F1(is_finite, x[0].re)));
    return (flxi_kval){y.im, PICK(lost, NUM(y.re, INFINITY), F1(neg, y.re))};
}

ELEMENT_KERNEL(cos, x[0].im ? flxi_kccosh(e, turned(e, x[0])) : flxi_kreal(F1(cos, x[0].re)))

/* As expm1_c. */
static flxi_kval element_expm1(flxi_express *e, const flxi_kval *operands)
{
    if (!operands[0].im)
        return flxi_kreal(F1(expm1, operands[0].re));
    flxi_kval z = flxi_kcwide(e, operands[0]);
    uint32_t x = z.re, y = z.im;
    uint32_t finite = F2(logical_and, F1(is_finite, x), F1(is_finite, y));
    uint32_t near = HOLD(F2(logical_and, finite, F2(le, x, NUM(x, 1))));
    flxi_kval power = flxi_khold_value(e, flxi_kcexp(e, z));
    uint32_t s = HOLD(F1(sin, F2(mul, NUM(y, 0.5), y)));
    uint32_t re = F2(sub, F2(mul, F1(expm1, x), F1(cos, y)), F2(mul, F2(mul, NUM(s, 2), s), s));
    uint32_t im = F2(mul, F1(exp, x), F1(sin, y));
    flxi_kval far = {F2(sub, power.re, NUM(x, 1)), power.im};
    return flxi_kcround(e, flxi_kchoose(e, near, (flxi_kval){re, im}, far), operands[0]);
}

/* As circle_excess. */
static uint32_t circle_excess_k(flxi_express *e, uint32_t x, uint32_t y)
{
    uint32_t xx = HOLD(F2(mul, x, x)), yy = HOLD(F2(mul, y, y));
    uint32_t low = F2(add, flxi_kb_fma(e->k, x, x, F1(neg, xx)), flxi_kb_fma(e->k, y, y, F1(neg, yy)));
    uint32_t twice = HOLD(F2(mul, NUM(x, 2), x));
    uint32_t sum = HOLD(F2(add, twice, xx));
    low = F2(add, low, flxi_krest_of_sum(e, twice, xx, sum));
    uint32_t all = HOLD(F2(add, sum, yy));
    return HOLD(F2(add, all, F2(add, low, flxi_krest_of_sum(e, sum, yy, all))));
}

/* As log1p_c. */
static flxi_kval element_log1p(flxi_express *e, const flxi_kval *operands)
{
    if (!operands[0].im)
        return flxi_kreal(F1(log1p, operands[0].re));
    flxi_kval z = flxi_kcwide(e, operands[0]);
    uint32_t excess = circle_excess_k(e, z.re, z.im);
    uint32_t above = HOLD(F2(add, NUM(excess, 1), z.re));
    uint32_t near = F2(logical_and, F2(gt, excess, NUM(excess, -0.5)), F2(lt, excess, NUM(excess, 1)));
    uint32_t small = F2(mul, NUM(excess, 0.5), F1(log1p, excess));
    uint32_t re = PICK(near, small, F1(log, F2(hypot, above, z.im)));
    return flxi_kcround(e, (flxi_kval){re, F2(atan2, z.im, above)}, operands[0]);
}

/* The cube root of x > 0 to 14 bits: the bits of x, read as an integer, are close to its logarithm, so a third of them
   is close to the root; then one step of Halley's iteration. */
static uint32_t cbrt_guess(flxi_express *e, uint32_t x)
{
    uint32_t bits = flxi_kb_cast(e->k, FLX_F32, flxi_kb_bitcast(e->k, FLX_I32, x));
    uint32_t third = flxi_kb_cast(e->k, FLX_I32, F2(mul, bits, NUM(x, 1.0 / 3)));
    uint32_t y = HOLD(flxi_kb_bitcast(e->k, FLX_F32, F2(add, third, NUM(third, 0x2a5119f2))));
    uint32_t cube = HOLD(F2(mul, F2(mul, y, y), y));
    return F2(mul, y, F2(div, F2(add, cube, F2(add, x, x)), F2(add, F2(add, cube, cube), x)));
}

/* A first root and the step of cbrt_f, all in the operand's type; near the ends of the range of a
   multiple by a cube. */
static flxi_kval element_cbrt(flxi_express *e, const flxi_kval *operands)
{
    bool is_double = flxi_kb_type(e->k, operands[0].re) == FLX_F64;
    double cube = is_double ? 0x1p300 : 0x1p54, root = is_double ? 0x1p100 : 0x1p18;
    uint32_t given = operands[0].re, x = given, one = NUM(x, 1);
    uint32_t huge = HOLD(F2(gt, F1(abs, x), NUM(x, is_double ? 0x1p900 : 0x1p100)));
    uint32_t tiny = HOLD(F2(lt, F1(abs, x), NUM(x, is_double ? 0x1p-800 : 0x1p-90)));
    uint32_t back = PICK(huge, NUM(x, root), PICK(tiny, NUM(x, 1 / root), one));
    x = HOLD(F2(mul, F1(abs, x), PICK(huge, NUM(x, 1 / cube), PICK(tiny, NUM(x, cube), one))));
    uint32_t y = HOLD(is_double ? F2(pow, x, NUM(x, 1.0 / 3)) : cbrt_guess(e, x));
    uint32_t yy = HOLD(F2(mul, y, y));
    uint32_t yyy = HOLD(F2(mul, yy, y));
    uint32_t low = F2(mul, flxi_kb_fma(e->k, y, y, F1(neg, yy)), y);
    low = F2(add, low, flxi_kb_fma(e->k, yy, y, F1(neg, yyy)));
    uint32_t step = HOLD(F2(div, F2(add, F2(sub, yyy, x), low), F2(mul, NUM(x, 3), yy)));
    uint32_t has_root = F2(logical_and, F2(gt, x, NUM(x, 0)), F2(lt, x, NUM(x, INFINITY)));
    return flxi_kreal(PICK(has_root, F2(copysign, F2(mul, F2(sub, y, step), back), given), given));
}

/* 1/z, with z in the type of the computation. */
static flxi_kval inverse(flxi_express *e, flxi_kval z)
{
    return flxi_kcdiv(e, (flxi_kval){NUM(z.re, 1), NUM(z.re, 0)}, z);
}

static flxi_kval element_rsqrt(flxi_express *e, const flxi_kval *x)
{
    if (!x[0].im)
        return flxi_kreal(F1(rsqrt, x[0].re));
    flxi_kval root = flxi_khold_value(e, flxi_kcsqrt(e, flxi_kcwide(e, x[0])));
    return flxi_kcround(e, inverse(e, root), x[0]);
}

static flxi_kval element_reciprocal(flxi_express *e, const flxi_kval *x)
{
    return x[0].im ? inverse(e, x[0]) : flxi_kreal(F1(recip, x[0].re));
}

static flxi_kval element_square(flxi_express *e, const flxi_kval *x)
{
    if (!x[0].im)
        return flxi_kreal(F2(mul, x[0].re, x[0].re));
    flxi_kval z = flxi_kcwide(e, x[0]);
    uint32_t re = F2(mul, F2(sub, z.re, z.im), F2(add, z.re, z.im));
    return flxi_kcround(e, (flxi_kval){re, F2(mul, NUM(z.re, 2), F2(mul, z.re, z.im))}, x[0]);
}

ELEMENT_KERNEL(neg, ((flxi_kval){F1(neg, x[0].re), x[0].im ? F1(neg, x[0].im) : 0}))
ELEMENT_KERNEL(abs, flxi_kreal(x[0].im ? F2(hypot, x[0].re, x[0].im) : F1(abs, x[0].re)))

static flxi_kval element_sign(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = operands[0].re;
    if (operands[0].im)
        return flxi_kcsign(e, operands[0]);
    return flxi_kreal(flxi_is_float(e->dtype) ? PICK(F2(eq, x, NUM(x, 0)), x, F1(sign, x)) : F1(sign, x));
}

/* The sine of a c128 number is a product of two functions that kernels compute to two units in the last place each; the
   C library computes the product to that accuracy. */
static bool expresses_but_c128(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    (void)attrs, (void)nin;
    return in[0]->dtype != FLX_C128;
}

#define UNARY(op, op_samples, ...) \
    const flxi_rules flxi_rules_##op = {POINTWISE_RULES, .element = element_##op, .samples = (op_samples), __VA_ARGS__}
/* The evaluator computes complex numbers. */
#define UNARY_REAL(op, op_samples, ...) UNARY(op, op_samples, .expresses = flxi_expresses_reals, __VA_ARGS__)

UNARY(exp, samples_any, .scalar = exp_f, .scalar_c = exp_c, .partial = partial_exp);
UNARY(exp2, samples_any, .scalar = exp2_f, .partial = partial_exp2);
UNARY(expm1, samples_any, .scalar = expm1_f, .scalar_c = expm1_c, .partial = partial_expm1);
UNARY(log, samples_complex_positive, .scalar = log_f, .scalar_c = log_c, .partial = partial_log);
UNARY(log2, samples_positive, .scalar = log2_f, .partial = partial_log2);
UNARY(log10, samples_positive, .scalar = log10_f, .partial = partial_log10);
UNARY(log1p, samples_above_minus_one, .scalar = log1p_f, .scalar_c = log1p_c, .partial = partial_log1p);
UNARY(sqrt, samples_complex_positive, .scalar = sqrt_f, .scalar_c = sqrt_c, .partial = partial_sqrt);
UNARY(rsqrt, samples_complex_positive, .scalar = rsqrt_f, .scalar_c = rsqrt_c, .partial = partial_rsqrt);
UNARY(cbrt, samples_positive, .scalar = cbrt_f, .partial = partial_cbrt);
UNARY(reciprocal, samples_complex_positive, .scalar = reciprocal_f, .scalar_c = reciprocal_c,
      .partial = partial_reciprocal);
UNARY(square, samples_any, .scalar = square_f, .scalar_c = square_c, .scalar_i = square_i, .partial = partial_square,
      .series = SERIES_SQUARE);
UNARY(neg, samples_any, .scalar = neg_f, .scalar_c = neg_c, .scalar_i = neg_i, .partial = partial_neg,
      .vjp = derive_neg, .jvp = derive_neg);
UNARY(sign, samples_signed, .scalar = sign_f, .scalar_c = sign_c, .scalar_i = sign_i, .vjp = derive_sign,
      .jvp = derive_sign);
UNARY(sin, samples_any, .scalar = sin_f, .scalar_c = sin_c, .partial = partial_sin, .expresses = expresses_but_c128);
UNARY(cos, samples_any, .scalar = cos_f, .scalar_c = cos_c, .partial = partial_cos, .expresses = expresses_but_c128);
UNARY_REAL(tan, samples_inside_one, .scalar = tan_f, .scalar_c = tan_c, .partial = partial_tan);
UNARY_REAL(asin, samples_inside_one, .scalar = asin_f, .scalar_c = asin_c, .partial = partial_asin);
UNARY_REAL(acos, samples_inside_one, .scalar = acos_f, .scalar_c = acos_c, .partial = partial_acos);
UNARY_REAL(atan, samples_inside_one, .scalar = atan_f, .scalar_c = atan_c, .partial = partial_atan);
UNARY(sinh, samples_any, .scalar = sinh_f, .scalar_c = sinh_c, .partial = partial_sinh);
UNARY(cosh, samples_any, .scalar = cosh_f, .scalar_c = cosh_c, .partial = partial_cosh);
UNARY_REAL(tanh, samples_any, .scalar = tanh_f, .scalar_c = tanh_c, .partial = partial_tanh,
           .backward_vjp = flxi_backward_vjp_activation);
UNARY_REAL(asinh, samples_inside_one, .scalar = asinh_f, .scalar_c = asinh_c, .partial = partial_asinh);
UNARY_REAL(acosh, samples_above_one, .scalar = acosh_f, .scalar_c = acosh_c, .partial = partial_acosh);
UNARY_REAL(atanh, samples_inside_one, .scalar = atanh_f, .scalar_c = atanh_c, .partial = partial_atanh);
UNARY(floor, samples_steps, .scalar = floor_f);
UNARY(ceil, samples_steps, .scalar = ceil_f);
UNARY(trunc, samples_steps, .scalar = trunc_f);
UNARY(round_away, samples_steps, .scalar = round_away_f);
UNARY(round, samples_round, .scalar = round_f, .schema = round_schema, .attrs_size = sizeof(round_attrs),
      .vjp = derive_round, .jvp = derive_round, .scales = scales_round);

const flxi_rules flxi_rules_abs = {
    .infer = infer_abs,
    .eval = eval_abs,
    .element = element_abs,
    .scalar = abs_f,
    .scalar_c = abs_c,
    .scalar_i = abs_i,
    .vjp = vjp_abs,
    .jvp = jvp_abs,
    .samples = samples_signed,
};
