/* activation.c: activations of neural networks.

   Each value is that of the formula in the row, written so that no intermediate overflows, cancels or underflows before
   the result does: the far tails are right to the last places, and at minus infinity the gated ones (x times something
   in 0..1) take their limit 0 instead of infinity times zero. NaN stays NaN, except in threshold, whose formula replaces it. */
#include "base/complex_arith.h"
#include "ops/element.h"

/* ---- Gates ---- */

/* Times a gate in 0..1; where the gate is shut the product is 0 even for an infinite x. */
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

/* x·e^x for x ≤ 0. The factor e^x turns subnormal, and so inexact, before the product does; two halves do not. */
static double x_exp_x(double x)
{
    double half = exp(0.5 * x);
    return gated(x, half) * half;
}

/* The standard normal distribution below x ≤ 0: ½·erfc(t) at t = -x/√2. erfc falls so steeply that rounding t would cost
   x²/2 units in the last place; the rounding error d of t is known, and erfc(t + d) = erfc(t) - d·(2/√π)·e^(-t²). */
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
ELEMENT_INT(relu_i, t->is_signed && x[0] < 0 ? 0 : x[0])
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

/* Both bounds let NaN through. */
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
static const flxi_attr threshold_schema[] = {
    A_REAL_REQ(threshold_attrs, theta), A_REAL_REQ(threshold_attrs, value), A_END};

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

/* NaN is not above theta, so it gives the value as well. */
static double threshold_f(const double *x, const void *a)
{
    const threshold_attrs *p = a;
    return x[0] > p->theta ? x[0] : p->value;
}

/* An infinite or NaN coefficient would make NaN of ordinary values. */
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

#define VALID_UNARY                            \
    {"T[3, 4]{-4..4}", NULL, NULL, FLX_OK},    \
    {"T[]", NULL, NULL, FLX_OK},               \
    {"T[0, 3]", NULL, NULL, FLX_OK},           \
    {"T[N, 2]", NULL, NULL, FLX_OK}

static const flxi_sample samples_unary[] = {
    VALID_UNARY,
    {"T[2, 3]{-30..30}", NULL, NULL, FLX_OK},
    {"bool[3]", NULL, NULL, FLX_E_DTYPE},
    {"T[3]", "alpha=1", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_alpha[] = {
    VALID_UNARY,
    {"T[5]", "alpha=0.25", NULL, FLX_OK},
    {"T[5]", "alpha=-1.5", NULL, FLX_OK},
    {"T[3]", "alpha=inf", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "beta=1", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_celu[] = {
    VALID_UNARY,
    {"T[5]", "alpha=0.25", NULL, FLX_OK},
    {"T[3]", "alpha=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "alpha=nan", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_hard_sigmoid[] = {
    VALID_UNARY,
    {"T[5]{-4..4}", "alpha=0.2, beta=0.5", NULL, FLX_OK},
    {"T[5]", "alpha=-1", NULL, FLX_OK},
    {"T[3]", "alpha=inf", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "beta=nan", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_threshold[] = {
    {"T[3, 4]", "theta=0.5, value=-1", NULL, FLX_OK},
    {"T[]", "theta=0, value=0", NULL, FLX_OK},
    {"T[0, 3]", "theta=0, value=1", NULL, FLX_OK},
    {"T[N, 2]", "theta=-0.5, value=-inf", NULL, FLX_OK},
    {"T[3]", "theta=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "value=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "theta=nan, value=0", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", "theta=0, value=0", NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_prelu[] = {
    {"T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[3]", NULL, NULL, FLX_OK},
    {"T[4], T[]", NULL, NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[1, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[3]", NULL, NULL, FLX_OK},
    {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"i32[3], i32[3]", NULL, NULL, FLX_E_DTYPE},
    {"f32[3], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* ---- Rules ---- */

#define ACTIVATION(op, ...) \
    const flxi_rules flxi_rules_##op = {POINTWISE_RULES, .samples = samples_unary, __VA_ARGS__}

ACTIVATION(relu, .scalar = relu_f, .scalar_i = relu_i);
ACTIVATION(sigmoid, .scalar = sigmoid_f, .scalar_c = sigmoid_c);
ACTIVATION(silu, .scalar = silu_f);
ACTIVATION(gelu, .scalar = gelu_f);
ACTIVATION(gelu_approx, .scalar = gelu_approx_f);
ACTIVATION(softplus, .scalar = softplus_f);
ACTIVATION(selu, .scalar = selu_f);
ACTIVATION(hard_swish, .scalar = hard_swish_f);
ACTIVATION(mish, .scalar = mish_f);

const flxi_rules flxi_rules_prelu = {POINTWISE_RULES, .scalar = prelu_f, .samples = samples_prelu};

#define WITH_ATTRS(op, op_infer, op_eval, op_schema, attrs_type, op_samples) \
    const flxi_rules flxi_rules_##op = {                                     \
        .infer = (op_infer),                                                 \
        .eval = (op_eval),                                                   \
        .scalar = op##_f,                                                    \
        .schema = (op_schema),                                               \
        .attrs_size = sizeof(attrs_type),                                    \
        .samples = (op_samples),                                             \
    }

WITH_ATTRS(elu, infer_alpha, flxi_eval_pointwise, alpha_one_schema, alpha_attrs, samples_alpha);
WITH_ATTRS(celu, infer_celu, flxi_eval_pointwise, alpha_one_schema, alpha_attrs, samples_celu);
WITH_ATTRS(leaky_relu, infer_alpha, flxi_eval_pointwise, alpha_leak_schema, alpha_attrs, samples_alpha);
WITH_ATTRS(hard_sigmoid, infer_hard_sigmoid, flxi_eval_pointwise, line_schema, line_attrs, samples_hard_sigmoid);
WITH_ATTRS(threshold, infer_threshold, eval_threshold, threshold_schema, threshold_attrs, samples_threshold);
