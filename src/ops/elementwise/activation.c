/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c: activations of neural networks.

   Each value is that of the formula in the row, computed so that no intermediate overflows, cancels or underflows
   before the result does: the far tails are accurate to the last digits, and at minus infinity the gated ones (x times
   something in 0..1) take their limit 0 instead of infinity times zero. NaN stays NaN, except in threshold, whose
   formula replaces it. */
#include "base/complex_arith.h"
#include "ops/composite/backward.h"
#include "ops/express/express_complex.h"
#include "ops/express/express_formula.h"
#include "ops/opcode.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/element.h"
#include "ops/rule/partial.h"

/* ---- Gates ---- */

/* Times a gate in 0..1; where the gate is 0 the product is 0 even for an infinite x. */
static double gated(double x, double gate)
{
    return gate == 0 ? copysign(0.0, x) : x * gate;
}

/* With e^-|x| on both sides, which cannot overflow. */
static double sigmoid(double x)
{
    double e = exp(-fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* x·e^x for x ≤ 0. The factor e^x becomes subnormal, and so inexact, before the product does; two factors e^(x/2) do
   not. */
static double x_exp_x(double x)
{
    double half = exp(0.5 * x);
    return gated(x, half) * half;
}

/* The standard normal distribution below x ≤ 0: ½·erfc(t) at t = -x/√2. erfc falls so steeply that rounding t would
   cost x²/2 units in the last place; the rounding error d of t is known, and erfc(t + d) = erfc(t) -
   d·(2/√π)·e^(-t²). */
static double normal_tail(double x)
{
    const double sqrt_half = 0x1.6a09e667f3bcdp-1;
    const double sqrt_half_low = -0x1.bdd3413b26456p-55; /* √½ - sqrt_half */
    const double two_over_sqrt_pi = 1.1283791670955126;
    double t = -x * sqrt_half;
    double d = fma(-x, sqrt_half, -t) - x * sqrt_half_low;
    double slope = two_over_sqrt_pi * exp(-t * t);
    return 0.5 * (slope == 0 ? erfc(t) : erfc(t) - d * slope); /* d is not finite where t is not */
}

/* ---- Without attributes ---- */

ELEMENT_REAL(relu_f, x[0] > 0 || isnan(x[0]) ? x[0] : 0.0)
ELEMENT_INT(relu_i, t->is_signed &&x[0] < 0 ? 0 : x[0])
ELEMENT_REAL(sigmoid_f, sigmoid(x[0]))
ELEMENT_REAL(silu_f, x[0] < 0 ? x_exp_x(x[0]) / (1 + exp(x[0])) : x[0] * sigmoid(x[0]))
ELEMENT_REAL(softplus_f, fmax(x[0], 0.0) + log1p(exp(-fabs(x[0]))))

/* The same two forms as for reals: the exponential is the one of modulus ≤ 1. */
static double complex sigmoid_c(const double complex *x, const void *a)
{
    (void)a;
    if (creal(*x) < 0) {
        double complex e = cexp(*x);
        return flxi_cdiv(e, 1 + e);
    }
    return flxi_cdiv(1, 1 + cexp(-*x));
}

static double gelu_f(const double *x, const void *a)
{
    (void)a;
    if (x[0] < 0)
        return gated(x[0], normal_tail(x[0]));
    return 0.5 * x[0] * (1 + erf(x[0] * 0x1.6a09e667f3bcdp-1));
}

/* ½·(1 + tanh u) = sigmoid(2u), which keeps its digits where tanh u is close to -1. */
static double gelu_approx_f(const double *x, const void *a)
{
    (void)a;
    const double k = 0.7978845608028654; /* √(2/π) */
    const double c = 0.044715;
    double u = k * (x[0] + c * (x[0] * x[0] * x[0]));
    return gated(x[0], sigmoid(2 * u));
}

/* With e = e^x: tanh(log(1 + e)) = ((1+e)² - 1) / ((1+e)² + 1) = e(e+2) / (e(e+2) + 2); above 0 the fraction is divided
   by e², so that nothing overflows. */
static double mish_f(const double *x, const void *a)
{
    (void)a;
    if (x[0] < 0) {
        double e = exp(x[0]);
        return x_exp_x(x[0]) * (e + 2) / (e * (e + 2) + 2);
    }
    double r = exp(-x[0]);
    return x[0] * ((1 + 2 * r) / (1 + 2 * r + 2 * r * r));
}

/* Both bounds propagate NaN. */
static double clamp_unit(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

ELEMENT_REAL(hard_swish_f, gated(x[0], clamp_unit((x[0] + 3) / 6)))
ELEMENT_REAL(prelu_f, x[0] > 0 ? x[0] : x[1] * x[0])

static double selu_f(const double *x, const void *a)
{
    (void)a;
    const double scale = 1.0507009873554805;
    const double alpha = 1.6732632423543772;
    return scale * (x[0] > 0 ? x[0] : alpha * expm1(x[0]));
}

/* ---- With attributes ---- */

typedef struct {
    double alpha;
} alpha_attrs;

typedef struct {
    double alpha, beta;
} line_attrs;

typedef struct {
    double theta, value;
} threshold_attrs;

static const flxi_attr alpha_one_schema[] = {A_REAL(alpha_attrs, alpha, 1.0), A_END};
static const flxi_attr alpha_leak_schema[] = {A_REAL(alpha_attrs, alpha, 0.01), A_END};
static const flxi_attr line_schema[] = {A_REAL(line_attrs, alpha, 1.0 / 6), A_REAL(line_attrs, beta, 0.5), A_END};
static const flxi_attr threshold_schema[] = {A_REAL_REQ(threshold_attrs, theta), A_REAL_REQ(threshold_attrs, value),
                                             A_END};

static double elu_f(const double *x, const void *a)
{
    const alpha_attrs *p = a;
    return x[0] > 0 ? x[0] : p->alpha * expm1(x[0]);
}

static double celu_f(const double *x, const void *a)
{
    const alpha_attrs *p = a;
    return x[0] > 0 ? x[0] : p->alpha * expm1(x[0] / p->alpha);
}

static double leaky_relu_f(const double *x, const void *a)
{
    const alpha_attrs *p = a;
    return x[0] > 0 ? x[0] : p->alpha * x[0];
}

static double hard_sigmoid_f(const double *x, const void *a)
{
    const line_attrs *p = a;
    return clamp_unit(p->alpha * x[0] + p->beta);
}

/* NaN is not above theta, so the result is the value as well. */
static double threshold_f(const double *x, const void *a)
{
    const threshold_attrs *p = a;
    return x[0] > p->theta ? x[0] : p->value;
}

/* An infinite or NaN coefficient would turn ordinary values into NaN. */
static flx_code need_finite(flxi_infer *f, const char *name, double value)
{
    if (isfinite(value))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s must be a finite number, it is %g", name, value);
}

static flx_code infer_alpha(flxi_infer *f)
{
    const alpha_attrs *a = f->attrs;
    FLXI_TRY(need_finite(f, "alpha", a->alpha));
    return flxi_infer_pointwise(f);
}

static flx_code infer_celu(flxi_infer *f)
{
    const alpha_attrs *a = f->attrs;
    if (a->alpha == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "for alpha = 0 use relu", "alpha must not be 0: x is divided by it");
    return infer_alpha(f);
}

static flx_code infer_hard_sigmoid(flxi_infer *f)
{
    const line_attrs *a = f->attrs;
    FLXI_TRY(need_finite(f, "alpha", a->alpha));
    FLXI_TRY(need_finite(f, "beta", a->beta));
    return flxi_infer_pointwise(f);
}

static flx_code infer_threshold(flxi_infer *f)
{
    const threshold_attrs *a = f->attrs;
    if (isnan(a->theta))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "theta must be a number to compare with, it is nan");
    return flxi_infer_pointwise(f);
}

/* The comparison is made in the operand's dtype: an x written with the same digits as theta equals it. */
static flx_code eval_threshold(flxi_eval *e)
{
    threshold_attrs rounded = *(const threshold_attrs *)e->attrs;
    int32_t dtype = e->in[0]->type.dtype;
    uint64_t element;
    flxi_store_double(dtype, &element, 0, rounded.theta);
    rounded.theta = flxi_load_double(dtype, &element, 0);
    flxi_eval inner = *e;
    inner.attrs = &rounded;
    return flxi_eval_pointwise(&inner);
}

/* ---- Samples ---- */

#define INVALID_UNARY                            \
    {"bool[3]", NULL, NULL, FLX_E_DTYPE},        \
    {                                            \
        "T[3]", "gamma=1", NULL, FLX_E_ATTRIBUTE \
    }

static const flxi_sample samples_smooth[] = {
    {"T[3, 4]{-4..4}", NULL, NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3]{-30..30}", NULL, NULL, FLX_OK},
    INVALID_UNARY,
    {0},
};

/* Away from the kink at 0. */
#define VALID_KINKED                                                                    \
    {"T[3, 4]{0.2..4}", NULL, NULL, FLX_OK}, {"T[2, 3]{-4..-0.2}", NULL, NULL, FLX_OK}, \
        {"T[]{-30..-0.2}", NULL, NULL, FLX_OK}, {"T[0, 3]", NULL, NULL, FLX_OK},        \
    {                                                                                   \
        "T[N, 2]{-2..-0.2}", NULL, NULL, FLX_OK                                         \
    }

static const flxi_sample samples_kinked[] = {VALID_KINKED, INVALID_UNARY, {0}};

static const flxi_sample samples_alpha[] = {
    VALID_KINKED,
    {"T[5]{-2..-0.2}", "alpha=0.25", NULL, FLX_OK},
    {"T[5]{-2..-0.2}", "alpha=-1.5", NULL, FLX_OK},
    {"T[3]", "alpha=inf", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "beta=1", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_celu[] = {
    VALID_KINKED,
    {"T[5]{-2..-0.2}", "alpha=0.25", NULL, FLX_OK},
    {"T[5]{0.2..2}", "alpha=0.25", NULL, FLX_OK},
    {"T[3]", "alpha=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "alpha=nan", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* Away from the kinks at ±3. */
#define VALID_HARD                                                                                                    \
    {"T[3, 4]{-2.8..2.8}", NULL, NULL, FLX_OK}, {"T[]{3.2..6}", NULL, NULL, FLX_OK}, {"T[0, 3]", NULL, NULL, FLX_OK}, \
    {                                                                                                                 \
        "T[N, 2]{-6..-3.2}", NULL, NULL, FLX_OK                                                                       \
    }

static const flxi_sample samples_hard_swish[] = {VALID_HARD, INVALID_UNARY, {0}};

static const flxi_sample samples_hard_sigmoid[] = {
    VALID_HARD,
    {"T[5]{-2.2..2.2}", "alpha=0.2, beta=0.5", NULL, FLX_OK},
    {"T[5]{-0.4..0.4}", "alpha=-1", NULL, FLX_OK},
    {"T[3]", "alpha=inf", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "beta=nan", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_threshold[] = {
    {"T[3, 4]{-2..0.3}", "theta=0.5, value=-1", NULL, FLX_OK},
    {"T[5]{0.7..2}", "theta=0.5, value=-1", NULL, FLX_OK},
    {"T[]{0.2..2}", "theta=0, value=0", NULL, FLX_OK},
    {"T[0, 3]", "theta=0, value=1", NULL, FLX_OK},
    {"T[N, 2]{-0.3..2}", "theta=-0.5, value=-3", NULL, FLX_OK},
    {"f16[2]", "theta=-0.5, value=-inf", NULL, FLX_OK},
    {"T[3]", "theta=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "value=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "theta=nan, value=0", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", "theta=0, value=0", NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_prelu[] = {
    {"T[3, 4]{-2..-0.2}, T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3]{0.2..2}, T[3]", NULL, NULL, FLX_OK},
    {"T[4]{-2..-0.2}, T[]", NULL, NULL, FLX_OK},
    {"T[]{-2..-0.2}, T[]", NULL, NULL, FLX_OK},
    {"T[3]{-2..-0.2}, T[2, 3]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[1, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3]{-2..-0.2}, T[3]", NULL, NULL, FLX_OK},
    {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"i32[3], i32[3]", NULL, NULL, FLX_E_DTYPE},
    {"f32[3], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* ---- Derivatives and decompositions: building blocks ---- */

static flx_val is_positive(flxi_site *s)
{
    return flx_gt(s->g, s->x[0], K(0));
}

/* x where it is on the lower side of the kink, 0 above: a branch that is not taken must not overflow, or its derivative
   would be 0 times infinity. */
static flx_val lower_side(flxi_site *s)
{
    return flx_where(s->g, is_positive(s), K(0), s->x[0]);
}

/* A constant for an expression in x, whose dtype may be wider than that of the operand. */
#define OF_X(value) flxi_number(s, x, (value))

/* x kept within ±bound, beyond which the derivative has its limit in every dtype, so that no x² overflows and no
   infinite x meets a factor that has become 0. Of f16 and bf16 in f32: a dozen roundings would take longer than the
   rest, and lose the last digits. */
static flx_val bounded(flxi_site *s, double bound)
{
    return flxi_widen(s, flx_clamp(s->g, K(-bound), s->x[0], K(bound)));
}

/* What was computed from bounded(), as the operand. */
static flx_val narrowed(flxi_site *s, flx_val v)
{
    return flxi_as_dtype(s, v, flxi_typeof(s, s->x[0])->dtype);
}

/* Like gated(). */
static flx_val gate(flxi_site *s, flx_val by)
{
    return flx_where(s->g, flx_eq(s->g, by, K(0)), K(0), flx_mul(s->g, s->x[0], by));
}

/* ½·erfc(-x/√2): the standard normal distribution below x. */
static flx_val normal_below(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    return flx_mul(g, OF_X(0.5), flx_erfc(g, flx_mul(g, x, OF_X(-0.70710678118654752))));
}

/* 2u = √(8/π)·(x + 0.044715·x³), of which the gate of gelu_approx is the sigmoid: ½·(1 + tanh u) = sigmoid(2u). */
static const double gelu_slope = 1.5957691216057308;
static const double gelu_cubic = 0.07135481627260025;

static flx_val gelu_approx_gate(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    flx_val factor = flx_add(g, OF_X(gelu_slope), flx_mul(g, OF_X(gelu_cubic), flx_square(g, x)));
    return flx_sigmoid(g, flx_mul(g, x, factor));
}

static flx_val mish_gate(flxi_site *s, flx_val x)
{
    return flx_tanh(s->g, flx_softplus(s->g, x));
}

/* ---- Smooth ones ---- */

PARTIAL(sigmoid, flx_mul(g, y, flx_sub(g, K(1), y)))
PARTIAL(softplus, flx_sigmoid(g, x))

/* σ·(1 + x·(1 - σ)) */
static flx_val partial_silu(flxi_site *s, uint32_t i)
{
    (void)i;
    flx_graph *g = s->g;
    flx_val x = bounded(s, 800);
    flx_val sigma = flx_sigmoid(g, x);
    return narrowed(s, flx_mul(g, sigma, flx_add(g, flx_mul(g, x, flx_sub(g, OF_X(1), sigma)), OF_X(1))));
}

/* Φ + x·φ with the normal density φ = e^(-x²/2) / √(2π) */
static flx_val partial_gelu(flxi_site *s, uint32_t i)
{
    (void)i;
    flx_graph *g = s->g;
    flx_val x = bounded(s, 40);
    flx_val density = flx_mul(g, OF_X(0.39894228040143268), flx_exp(g, flx_mul(g, OF_X(-0.5), flx_square(g, x))));
    return narrowed(s, flx_add(g, normal_below(s, x), flx_mul(g, x, density)));
}

/* With the gate p = sigmoid(v), v = 2u: p + x·p·(1 - p)·v' */
static flx_val partial_gelu_approx(flxi_site *s, uint32_t i)
{
    (void)i;
    flx_graph *g = s->g;
    flx_val x = bounded(s, 30);
    flx_val p = gelu_approx_gate(s, x);
    flx_val slope = flx_add(g, OF_X(gelu_slope), flx_mul(g, OF_X(3 * gelu_cubic), flx_square(g, x)));
    flx_val bend = flx_mul(g, flx_mul(g, p, flx_sub(g, OF_X(1), p)), slope);
    return narrowed(s, flx_add(g, p, flx_mul(g, x, bend)));
}

/* With the gate t = tanh(softplus(x)): t + x·(1 - t²)·σ */
static flx_val partial_mish(flxi_site *s, uint32_t i)
{
    (void)i;
    flx_graph *g = s->g;
    flx_val x = bounded(s, 800);
    flx_val t = mish_gate(s, x);
    flx_val bend = flx_mul(g, flx_sub(g, OF_X(1), flx_square(g, t)), flx_sigmoid(g, x));
    return narrowed(s, flx_add(g, t, flx_mul(g, x, bend)));
}

static void decompose_gelu(flxi_site *s, flx_val *y)
{
    y[0] = gate(s, normal_below(s, s->x[0]));
}

static void decompose_gelu_approx(flxi_site *s, flx_val *y)
{
    y[0] = gate(s, gelu_approx_gate(s, s->x[0]));
}

static void decompose_mish(flxi_site *s, flx_val *y)
{
    y[0] = gate(s, mish_gate(s, s->x[0]));
}

/* max(x, 0) + log1p(e^-|x|): the exponent is never positive. */
static void decompose_softplus(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    flx_val tail = flx_log1p(g, flx_exp(g, flx_neg(g, flx_abs(g, x))));
    y[0] = flx_add(g, flx_max(g, x, K(0)), tail);
}

/* ---- With a kink at 0, which belongs to the lower side ---- */

static flx_val mask_relu(flxi_site *s, uint32_t i)
{
    (void)i;
    return is_positive(s);
}

/* scale·(x > 0 ? 1 : alpha·e^(x/width)/width) and scale·(x > 0 ? x : alpha·(e^(x/width) - 1)): elu, selu and celu. */
typedef struct {
    double scale, alpha, width;
} exponential_side;

static exponential_side side_of(const flxi_site *s)
{
    const alpha_attrs *a = s->attrs;
    if (s->op == &flxi_ops[OP_selu])
        return (exponential_side){1.0507009873554805, 1.6732632423543772, 1};
    if (s->op == &flxi_ops[OP_celu])
        return (exponential_side){1, a->alpha, a->alpha};
    return (exponential_side){1, a->alpha, 1};
}

static flx_val side_exponent(flxi_site *s, const exponential_side *e)
{
    flx_val x = lower_side(s);
    return e->width == 1 ? x : flx_div(s->g, x, K(e->width));
}

static flx_val partial_elu(flxi_site *s, uint32_t i)
{
    (void)i;
    flx_graph *g = s->g;
    exponential_side e = side_of(s);
    flx_val below = flx_mul(g, K(e.scale * e.alpha / e.width), flx_exp(g, side_exponent(s, &e)));
    return flx_where(g, is_positive(s), K(e.scale), below);
}

static void decompose_elu(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    exponential_side e = side_of(s);
    flx_val below = flx_mul(g, K(e.scale * e.alpha), flx_expm1(g, side_exponent(s, &e)));
    y[0] = flx_where(g, is_positive(s), flx_mul(g, K(e.scale), s->x[0]), below);
}

static flx_val partial_leaky_relu(flxi_site *s, uint32_t i)
{
    (void)i;
    const alpha_attrs *a = s->attrs;
    return flx_where(s->g, is_positive(s), K(1), K(a->alpha));
}

static void decompose_leaky_relu(flxi_site *s, flx_val *y)
{
    const alpha_attrs *a = s->attrs;
    y[0] = flx_where(s->g, is_positive(s), s->x[0], flx_mul(s->g, s->x[0], K(a->alpha)));
}

static void vjp_prelu(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val positive = is_positive(s);
    dx[0] = flx_where(g, positive, dy[0], flx_mul(g, dy[0], s->x[1]));
    if (s->wanted[1])
        dx[1] = flx_where(g, positive, K(0), flx_mul(g, dy[0], s->x[0]));
}

static void jvp_prelu(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    flx_val below = FLX_NONE;
    if (!flxi_is_none(tx[0]))
        below = flx_mul(g, tx[0], s->x[1]);
    if (!flxi_is_none(tx[1]))
        below = flxi_sum(s, below, flx_mul(g, tx[1], s->x[0]));
    flx_val above = flxi_is_none(tx[0]) ? K(0) : tx[0];
    ty[0] = flxi_expand_like(s, flx_where(g, is_positive(s), above, below), flxi_typeof(s, s->y[0]));
}

static void decompose_prelu(flxi_site *s, flx_val *y)
{
    y[0] = flx_where(s->g, is_positive(s), s->x[0], flx_mul(s->g, s->x[1], s->x[0]));
}

/* ---- With other kinks ---- */

static flx_val mask_threshold(flxi_site *s, uint32_t i)
{
    (void)i;
    const threshold_attrs *a = s->attrs;
    return flx_gt(s->g, s->x[0], K(a->theta));
}

static void decompose_threshold(flxi_site *s, flx_val *y)
{
    const threshold_attrs *a = s->attrs;
    y[0] = flx_where(s->g, mask_threshold(s, 0), s->x[0], K(a->value));
}

static flx_val line(flxi_site *s, const line_attrs *a)
{
    flx_graph *g = s->g;
    return flx_add(g, flx_mul(g, s->x[0], K(a->alpha)), K(a->beta));
}

/* alpha strictly inside, 0 elsewhere; both vjp and jvp. */
static void derive_hard_sigmoid(flxi_site *s, const flx_val *d, flx_val *out)
{
    flx_graph *g = s->g;
    const line_attrs *a = s->attrs;
    flx_val v = line(s, a);
    flx_val inside = flx_and(g, flx_gt(g, v, K(0)), flx_lt(g, v, K(1)));
    out[0] = flxi_masked(s, inside, flx_mul(g, d[0], K(a->alpha)));
}

static void decompose_hard_sigmoid(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val v = line(s, s->attrs);
    flx_val above = flx_where(g, flx_ge(g, v, K(1)), K(1), v);
    y[0] = flx_where(g, flx_le(g, v, K(0)), K(0), above);
}

/* h + x·h' with h = hard_sigmoid(x), h' = 1/6 strictly inside ±3; both vjp and jvp. */
static void derive_hard_swish(flxi_site *s, const flx_val *d, flx_val *out)
{
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    flx_val inside = flx_lt(g, flx_abs(g, x), K(3));
    flx_val bend = flx_where(g, inside, flx_div(g, x, K(6)), K(0));
    flx_val slope = flx_add(g, flx_hard_sigmoid(g, x, NAN, NAN), bend);
    out[0] = flxi_masked(s, flx_gt(g, x, K(-3)), flx_mul(g, d[0], slope));
}

static void decompose_hard_swish(flxi_site *s, flx_val *y)
{
    y[0] = gate(s, flx_hard_sigmoid(s->g, s->x[0], NAN, NAN));
}

/* ---- Kernel expressions: the same formulas in the operand's type ---- */

static uint32_t gated_k(flxi_express *e, uint32_t x, uint32_t by)
{
    by = HOLD(by);
    return PICK(F2(eq, by, NUM(by, 0)), F2(copysign, NUM(x, 0), x), F2(mul, x, by));
}

static uint32_t is_negative_k(flxi_express *e, uint32_t x)
{
    return F2(lt, x, NUM(x, 0));
}

/* x where it is positive, else the given expression. */
static uint32_t kinked(flxi_express *e, uint32_t x, uint32_t below)
{
    return PICK(F2(gt, x, NUM(x, 0)), x, below);
}

static uint32_t clamp_unit_k(flxi_express *e, uint32_t v)
{
    v = HOLD(v);
    return PICK(is_negative_k(e, v), NUM(v, 0), PICK(F2(gt, v, NUM(v, 1)), NUM(v, 1), v));
}

/* e^(-|x|/2), whose square may underflow where x times it does not. */
static uint32_t half_exponential(flxi_express *e, uint32_t x)
{
    return HOLD(F1(exp, F2(mul, F1(abs, x), NUM(x, -0.5))));
}

/* With e = e^-|x|: x·e/(1 + e) below 0, x/(1 + e) above. */
static flxi_kval element_silu(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = operands[0].re;
    uint32_t half = half_exponential(e, x);
    uint32_t top = PICK(is_negative_k(e, x), F2(mul, gated_k(e, x, half), half), x);
    return flxi_kreal(F2(div, top, F2(add, NUM(x, 1), F2(mul, half, half))));
}

/* As sigmoid_c: with the exponential of modulus ≤ 1 in the denominator and, for Re x < 0, in the numerator. */
static flxi_kval element_sigmoid(flxi_express *e, const flxi_kval *x)
{
    if (!x[0].im)
        return flxi_kreal(F1(sigmoid, x[0].re));
    flxi_kval z = flxi_kcwide(e, x[0]);
    uint32_t left = HOLD(is_negative_k(e, z.re)), one = NUM(z.re, 1);
    flxi_kval back = {F1(neg, z.re), F1(neg, z.im)};
    flxi_kval power = flxi_khold_value(e, flxi_kcexp(e, flxi_khold_value(e, flxi_kchoose(e, left, z, back))));
    flxi_kval top = flxi_kchoose(e, left, power, (flxi_kval){one, NUM(one, 0)});
    flxi_kval below = {F2(add, one, power.re), power.im};
    return flxi_kcround(e, flxi_kcdiv(e, top, below), x[0]);
}

/* √½ as a number of the type, and its rounding error. */
static uint32_t sqrt_half_rest(flxi_express *e, uint32_t x)
{
    const double sqrt_half = 0x1.6a09e667f3bcdp-1;
    return NUM(x, flxi_kb_type(e->k, x) == FLX_F64 ? -0x1.bdd3413b26456p-55 : sqrt_half - (double)(float)sqrt_half);
}

/* x times ½·erfc(t), t = -x/√2, on both sides of 0; as in normal_tail the rounding error d of t is corrected. */
static flxi_kval element_gelu(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = operands[0].re;
    uint32_t c = NUM(x, 0x1.6a09e667f3bcdp-1);
    uint32_t back = HOLD(F1(neg, x));
    uint32_t t = HOLD(F2(mul, back, c));
    uint32_t d = F2(add, flxi_kb_fma(e->k, back, c, F1(neg, t)), F2(mul, back, sqrt_half_rest(e, x)));
    uint32_t slope = HOLD(F2(mul, NUM(x, 1.1283791670955126), F1(exp, F2(mul, F1(neg, t), t))));
    uint32_t tail = HOLD(F1(erfc, t));
    tail = PICK(F2(eq, slope, NUM(x, 0)), tail, F2(sub, tail, F2(mul, d, slope)));
    return flxi_kreal(gated_k(e, x, F2(mul, NUM(x, 0.5), tail)));
}

static flxi_kval element_gelu_approx(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = operands[0].re;
    uint32_t factor = F2(add, NUM(x, gelu_slope), F2(mul, NUM(x, gelu_cubic), F2(mul, x, x)));
    return flxi_kreal(gated_k(e, x, F1(sigmoid, F2(mul, x, factor))));
}

static flxi_kval element_mish(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = operands[0].re;
    uint32_t one = NUM(x, 1), two = NUM(x, 2);
    uint32_t half = half_exponential(e, x);
    uint32_t r = HOLD(F2(mul, half, half));
    uint32_t top = HOLD(F2(add, r, two));
    uint32_t below = F2(div, F2(mul, F2(mul, gated_k(e, x, half), half), top), F2(add, F2(mul, r, top), two));
    uint32_t line = HOLD(F2(add, one, F2(mul, two, r)));
    uint32_t above = F2(mul, x, F2(div, line, F2(add, line, F2(mul, two, F2(mul, r, r)))));
    return flxi_kreal(PICK(is_negative_k(e, x), below, above));
}

/* A number rounded to the operand's dtype. */
static double as_element(int32_t dtype, double value)
{
    uint64_t element;
    flxi_store_double(dtype, &element, 0, value);
    return flxi_load_double(dtype, &element, 0);
}

static flxi_kval element_threshold(flxi_express *e, const flxi_kval *operands)
{
    const threshold_attrs *a = e->attrs;
    uint32_t x = operands[0].re;
    int32_t dtype = e->in[0]->dtype;
    uint32_t above = F2(gt, x, NUM(x, as_element(dtype, a->theta)));
    return flxi_kreal(PICK(above, x, NUM(x, as_element(dtype, a->value))));
}

static flxi_kval element_hard_sigmoid(flxi_express *e, const flxi_kval *operands)
{
    const line_attrs *a = e->attrs;
    uint32_t x = operands[0].re;
    return flxi_kreal(clamp_unit_k(e, flxi_kb_fma(e->k, NUM(x, a->alpha), x, NUM(x, a->beta))));
}

/* elu, selu and celu: scale·(x > 0 ? x : alpha·(e^(x/width) - 1)). */
static flxi_kval exponential_below(flxi_express *e, uint32_t x, double scale, double alpha, double width)
{
    uint32_t inner = F1(expm1, width == 1 ? x : F2(div, x, NUM(x, width)));
    uint32_t y = kinked(e, x, F2(mul, NUM(x, alpha), inner));
    return flxi_kreal(scale == 1 ? y : F2(mul, NUM(x, scale), y));
}

static double alpha_of(const flxi_express *e)
{
    return ((const alpha_attrs *)e->attrs)->alpha;
}

ELEMENT_KERNEL_1(relu, flxi_k2(e, flxi_is_float(e->dtype) ? KBIN_max_nan : KBIN_max, x, NUM(x, 0)))
ELEMENT_KERNEL_1(softplus, F2(add, F2(max_nan, x, NUM(x, 0)), F1(log1p, F1(exp, F1(neg, F1(abs, x))))))
ELEMENT_KERNEL_1(hard_swish, gated_k(e, x, clamp_unit_k(e, F2(div, F2(add, x, NUM(x, 3)), NUM(x, 6)))))
ELEMENT_KERNEL_1(leaky_relu, kinked(e, x, F2(mul, NUM(x, alpha_of(e)), x)))
ELEMENT_KERNEL_2(prelu, kinked(e, x, F2(mul, y, x)))
ELEMENT_KERNEL(selu, exponential_below(e, x[0].re, 1.0507009873554805, 1.6732632423543772, 1))
ELEMENT_KERNEL(elu, exponential_below(e, x[0].re, 1, alpha_of(e), 1))
ELEMENT_KERNEL(celu, exponential_below(e, x[0].re, 1, alpha_of(e), alpha_of(e)))

/* ---- Rules ---- */

#define ACTIVATION(op, op_samples, ...) \
    const flxi_rules flxi_rules_##op = {POINTWISE_RULES, .element = element_##op, .samples = (op_samples), __VA_ARGS__}

ACTIVATION(relu, samples_kinked, .scalar = relu_f, .scalar_i = relu_i, .mask = mask_relu,
           .backward_vjp = flxi_backward_vjp_relu);
ACTIVATION(sigmoid, samples_smooth, .scalar = sigmoid_f, .scalar_c = sigmoid_c, .partial = partial_sigmoid,
           .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(silu, samples_smooth, .scalar = silu_f, .partial = partial_silu,
           .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(gelu, samples_smooth, .scalar = gelu_f, .partial = partial_gelu, .decompose = decompose_gelu,
           .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(gelu_approx, samples_smooth, .scalar = gelu_approx_f, .partial = partial_gelu_approx,
           .decompose = decompose_gelu_approx, .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(softplus, samples_smooth, .scalar = softplus_f, .partial = partial_softplus, .decompose = decompose_softplus,
           .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(selu, samples_kinked, .scalar = selu_f, .partial = partial_elu, .decompose = decompose_elu,
           .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(hard_swish, samples_hard_swish, .scalar = hard_swish_f, .vjp = derive_hard_swish, .jvp = derive_hard_swish,
           .decompose = decompose_hard_swish, .backward_vjp = flxi_backward_vjp_activation);
ACTIVATION(mish, samples_smooth, .scalar = mish_f, .partial = partial_mish, .decompose = decompose_mish,
           .backward_vjp = flxi_backward_vjp_activation);

ACTIVATION(prelu, samples_prelu, .scalar = prelu_f, .vjp = vjp_prelu, .jvp = jvp_prelu, .decompose = decompose_prelu);

#define WITH_ATTRS(op, op_infer, op_eval, op_schema, attrs_type, op_samples, ...) \
    const flxi_rules flxi_rules_##op = {.infer = (op_infer),                      \
                                        .eval = (op_eval),                        \
                                        .element = element_##op,                  \
                                        .scalar = op##_f,                         \
                                        .schema = (op_schema),                    \
                                        .attrs_size = sizeof(attrs_type),         \
                                        .samples = (op_samples),                  \
                                        __VA_ARGS__}

WITH_ATTRS(elu, infer_alpha, flxi_eval_pointwise, alpha_one_schema, alpha_attrs, samples_alpha, .partial = partial_elu,
           .decompose = decompose_elu);
WITH_ATTRS(celu, infer_celu, flxi_eval_pointwise, alpha_one_schema, alpha_attrs, samples_celu, .partial = partial_elu,
           .decompose = decompose_elu);
WITH_ATTRS(leaky_relu, infer_alpha, flxi_eval_pointwise, alpha_leak_schema, alpha_attrs, samples_alpha,
           .partial = partial_leaky_relu, .decompose = decompose_leaky_relu);
WITH_ATTRS(hard_sigmoid, infer_hard_sigmoid, flxi_eval_pointwise, line_schema, line_attrs, samples_hard_sigmoid,
           .vjp = derive_hard_sigmoid, .jvp = derive_hard_sigmoid, .decompose = decompose_hard_sigmoid);
WITH_ATTRS(threshold, infer_threshold, eval_threshold, threshold_schema, threshold_attrs, samples_threshold,
           .mask = mask_threshold, .decompose = decompose_threshold);
