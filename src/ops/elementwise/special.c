/* SPDX-License-Identifier: Apache-2.0 */
/* special.c: error function, gamma family, Hurwitz zeta and modified Bessel functions.

   erf, erfc and lgamma are the C library's. The others are computed here from the formula above each: no tables except
   the Bernoulli numbers, no fitted polynomials. They are simple rather than fast, and within a few units in the last
   place of the true value, except close to the zeros that digamma and polygamma have at negative x, where the error is
   relative to the terms that cancel. Kernels use other formulas: special_express.c. */
#include "ops/elementwise/special.h"

#include "ops/elementwise/special_express.h"
#include "ops/express/express_formula.h"
#include "ops/rule/element.h"
#include "ops/rule/partial.h"

#include <float.h>

static const double pi = 3.14159265358979323846;
static const double two_over_sqrt_pi = 1.12837916709551257390;

/* ---- Inverse error function ---- */

/* Winitzki's closed form from log(1 - x²), good to 0.002: y² = √(h² - l/a) - h with h = 2/(πa) + l/2. It starts the
   iteration below. The difference is taken as a quotient where it would cancel. */
static double erf_inv_guess(double log_one_minus_xx)
{
    const double a = 0.147;
    double t = -log_one_minus_xx / a;
    double h = 2 / (pi * a) + 0.5 * log_one_minus_xx;
    double root = sqrt(h * h + t);
    return sqrt(h > 0 ? t / (root + h) : root - h);
}

/* Halley's iteration on f(y) = erf(y) - x, for which f''/f' = -2y: the error is cubed each time, so three steps are one
   more than needed. From ½ on, f is taken from erfc and 1 - x, which is exact there, so the result stays accurate
   however close x comes to 1. Below 1e-8 the next term of the series, πx³/12, is too small to count. */
double flxi_erf_inv(double x)
{
    double m = fabs(x);
    if (!(m < 1))
        return m == 1 ? copysign(INFINITY, x) : NAN;
    if (m < 1e-8)
        return x / two_over_sqrt_pi;
    double rest = 1 - m;
    double y = erf_inv_guess(m < 0.5 ? log1p(-m * m) : log(rest * (1 + m)));
    for (int k = 0; k < 3; k++) {
        double f = m < 0.5 ? erf(y) - m : rest - erfc(y);
        double newton = f / (two_over_sqrt_pi * exp(-y * y));
        y -= newton / (1 + y * newton);
    }
    return copysign(y, x);
}

/* ---- Gamma family ---- */

const double flxi_bernoulli[FLXI_BERNOULLI_COUNT] = {
    1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
    -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330,
};

/* lgamma() would also write the global signgam, which threads share. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* ψ(a) ~ log a - 1/(2a) - Σ B(2k) / (2k·a^2k), for a ≥ 10. */
static double digamma_asymptotic(double a)
{
    double u = 1 / (a * a);
    double sum = 0;
    for (int k = FLXI_BERNOULLI_COUNT; k-- > 0;)
        sum = (sum + flxi_bernoulli[k] / (2 * k + 2)) * u;
    return log(a) - 0.5 / a - sum;
}

/* For 0 < x < 10, as the difference from ψ(r) = 0, so that the result is accurate relative to itself right up to the
   root r = 1.46…: with d = x - r,

       ψ(x) - ψ(r) = Σ d / ((x+k)(r+k)) over k = 0 … 9, plus ψ(a) - ψ(b) for a = x + 10, b = r + 10.

   In the difference of the two asymptotic series every term has the factor d, too: log(a/b) = log1p(d/b), and for the
   polynomial P of the Bernoulli terms P(v) - P(u) = (v - u)·P[u, v] with u = 1/a², v = 1/b² and the divided difference
   P[u, v] by Horner's scheme. All terms have the sign of d. */
static double digamma_near_root(double x)
{
    const double r = 0x1.762d86356be3fp+0;
    const double r_low = 0x1.b86a722197829p-54; /* the root is r + r_low */
    double d = (x - r) - r_low;
    double a = x + 10;
    double b = r + 10;
    double u = 1 / (a * a);
    double v = 1 / (b * b);
    double value = 0;   /* P(u) so far */
    double divided = 0; /* P[u, v] so far */
    for (int k = FLXI_BERNOULLI_COUNT; k-- > 0;) {
        divided = divided * v + value;
        value = value * u + flxi_bernoulli[k] / (2 * k + 2);
    }
    divided = divided * v + value; /* P has no constant term */
    double slope = 0.5 / (a * b) + (a + b) * u * v * divided;
    for (int k = 9; k >= 0; k--)
        slope += 1 / ((x + k) * (r + k));
    return log1p(d / b) + d * slope;
}

/* Negative x by reflection: ψ(x) = ψ(1 - x) - π / tan(πx). The fraction of x, on which the tangent depends, is
   exact. */
static double digamma(double x)
{
    if (isnan(x) || x == -INFINITY)
        return NAN;
    if (x == 0)
        return copysign(INFINITY, -x); /* as -1/x */
    if (x < 0) {
        double fraction = x - rint(x);
        return fraction == 0 ? NAN : digamma(1 - x) - pi / tan(pi * fraction);
    }
    return x < 10 ? digamma_near_root(x) : digamma_asymptotic(x);
}

/* unit^s · ζ(s, q) for s > 1, q > 0: the first terms of the sum of (q+k)^-s up to a = q + N, and the rest by
   Euler–Maclaurin:

       a^(1-s) · (1/(s-1) + (½ + Σ B(2j)/(2j)! · s(s+1)…(s+2j-2) / a^(2j-1)) / a)

   With a ≥ s + 12 ten Bernoulli terms leave less than 1e-17 of it. Large s need not go so far: below a = s the terms
   halve at least, and the sum ends when the remainder is negligible. The bound on N is for q beyond 2^53, where q + 1 =
   q. */
static double hurwitz(double s, double q, double unit)
{
    double a = q;
    double sum = 0;
    double power = pow(a / unit, -s);
    for (int k = 0; k < 128 && a < s + 12; k++) {
        sum += power;
        a += 1;
        power = pow(a / unit, -s);
        if (isinf(sum) || power * (1 + a / (s - 1)) <= DBL_EPSILON / 8 * sum)
            return sum;
    }
    double tail = 0.5;
    double factor = 0.5 * s / a; /* s(s+1)…(s+2j-2) / ((2j)! a^(2j-1)), here for j = 1 */
    for (int j = 1; j <= FLXI_BERNOULLI_COUNT; j++) {
        tail += flxi_bernoulli[j - 1] * factor;
        factor *= (s + 2 * j - 1) / ((2 * j + 1) * a) * ((s + 2 * j) / ((2 * j + 2) * a));
    }
    return sum + pow(a / unit, 1 - s) * unit * (1 / (s - 1) + tail / a);
}

/* For q < 0 the powers are real only if s is an integer. Then the terms with negative base q, q+1 … p-1, where p in (0,
   1) is the first positive one, have the magnitudes 1-p, 2-p … -q, and their sum is (-1)^s·(ζ(s, 1-p) - ζ(s, 1-q)). For
   odd s the large terms of ζ(s, p) and ζ(s, 1-p) cancel near p = ½, so their difference is taken first. */
static double zeta(double s, double q)
{
    if (isnan(q) || !(s >= 1) || q == -INFINITY)
        return NAN;
    if (s == 1)
        return INFINITY;
    if (q > 0)
        return isinf(q) ? 0.0 : hurwitz(s, q, 1);
    if (q == floor(q))
        return INFINITY;
    if (isinf(s) || s != floor(s))
        return NAN;
    double sign = fmod(s, 2) == 0 ? 1 : -1;
    double both_sides = hurwitz(s, q - floor(q), 1) + sign * hurwitz(s, ceil(q) - q, 1);
    return both_sides - sign * hurwitz(s, 1 - q, 1);
}

/* ---- Derivatives of zeta in its first argument ---- */

/* A power series in ε up to ε^order, with the coefficients as members. */
enum { MAX_ORDER = 16 };
typedef struct {
    double c[MAX_ORDER + 1];
} jet;

/* a^-(s+ε) = a^-s · Σ (-log a)^k/k! · ε^k */
static jet power_series(double a, double s, int order)
{
    jet y = {{pow(a, -s)}};
    for (int k = 1; k <= order; k++)
        y.c[k] = y.c[k - 1] * -log(a) / k;
    return y;
}

/* 1/(s - 1 + ε) */
static jet pole_series(double s, int order)
{
    jet y = {{1 / (s - 1)}};
    for (int k = 1; k <= order; k++)
        y.c[k] = -y.c[k - 1] / (s - 1);
    return y;
}

static jet times(const jet *a, const jet *b, int order)
{
    jet y = {{0}};
    for (int k = 0; k <= order; k++)
        for (int i = 0; i <= k; i++)
            y.c[k] += a->c[i] * b->c[k - i];
    return y;
}

static void times_linear(jet *a, double c0, double c1, int order) /* a·(c0 + c1·ε) */
{
    for (int k = order; k >= 0; k--)
        a->c[k] = c0 * a->c[k] + (k ? c1 * a->c[k - 1] : 0);
}

/* The formula of hurwitz() for s + ε instead of s: the coefficient of ε^order is the derivative divided by order!.
   Twenty-four terms suffice for all s and q: the Bernoulli terms shrink like (s / 2πa)^2j, and where s is too large for
   that, what comes after the first terms is negligible beside them. */
static double hurwitz_derivative(double s, double q, int order)
{
    enum { TERMS = 24 };
    double sum = 0;
    for (int k = 0; k < TERMS; k++)
        sum += power_series(q + k, s, order).c[order];
    double a = q + TERMS;
    jet tail = {{0.5}};
    jet factor = {{0.5 * s / a, order ? 0.5 / a : 0}};
    for (int j = 1; j <= FLXI_BERNOULLI_COUNT; j++) {
        for (int k = 0; k <= order; k++)
            tail.c[k] += flxi_bernoulli[j - 1] * factor.c[k];
        times_linear(&factor, (s + 2 * j - 1) / ((2 * j + 1) * a), 1 / ((2 * j + 1) * a), order);
        times_linear(&factor, (s + 2 * j) / ((2 * j + 2) * a), 1 / ((2 * j + 2) * a), order);
    }
    jet rest = pole_series(s, order);
    for (int k = 0; k <= order; k++)
        rest.c[k] = rest.c[k] * a + tail.c[k];
    jet power = power_series(a, s, order);
    sum += times(&power, &rest, order).c[order];
    return sum * tgamma(order + 1.0);
}

/* For q < 0 zeta is real at integers x only, so it has no derivative in x there. */
static double zeta_derivative(double s, double q, int order)
{
    if (isnan(q) || !(s >= 1) || q < 0)
        return NAN;
    if (q == 0)
        return INFINITY;
    if (s == 1)
        return order % 2 ? -INFINITY : INFINITY;
    if (isinf(q))
        return 0.0;
    if (isinf(s)) /* the first term decides */
        return q < 1 ? INFINITY : 0.0;
    return hurwitz_derivative(s, q, order);
}

/* ψ^(n)(x) = (-1)^(n+1) · n! · ζ(n+1, x). Either factor may leave the range of double although the product does not.
   When the factorial does, its remaining factors are multiplied one by one; they are few before the product is
   infinite. When ζ does, x^-s is factored out of its sum and the two are combined as logarithms, at the cost of about
   three digits. */
static double polygamma(double n, double x)
{
    if (!(n >= 0) || isinf(n) || n != floor(n))
        return NAN;
    if (n == 0)
        return digamma(x);
    double s = n + 1;
    double sign = fmod(n, 2) == 0 ? -1 : 1;
    double z = zeta(s, x);
    if (x > 0 && z < DBL_MIN) {
        double scale = exp(log_gamma(s) - s * log(x));
        return sign * (scale == 0 || isinf(scale) ? scale : scale * hurwitz(s, x, x));
    }
    const double last = 171; /* Γ(171) = 170! is the last finite factorial */
    double product = z * tgamma(fmin(s, last));
    for (double k = last; k < s && isfinite(product) && product != 0; k++)
        product *= k;
    return sign * product;
}

/* ---- Modified Bessel functions of the first kind, times e^-|x| ---- */

/* I0(x) = 1/π ∫ e^(x·cos θ) dθ and I1(x) = x/π ∫ e^(x·cos θ)·sin² θ dθ over 0 … π. The integrands are periodic and
   analytic, so the trapezoidal rule converges faster than any power: with n intervals the error is about I(2n), below
   1e-25 of the value for |x| ≤ 30. The factor e^-x goes into the exponent, x·(cos θ - 1) = -2x·sin²(θ/2), and all terms
   are positive; the small values come first. Extended precision, where available, keeps the errors of 33 terms out of
   the result. */
static double bessel_integral(double x, int order)
{
    enum { INTERVALS = 32 };
    const long double quarter_turn = 3.14159265358979323846264338327950288L / 2;
    long double sum = 0;
    for (int j = INTERVALS; j >= 0; j--) {
        long double s = sinl(j * (quarter_turn / INTERVALS));
        long double ss = s * s;
        long double f = expl(-2 * x * ss) * (order == 0 ? 1 : 4 * ss * (1 - ss));
        sum += j == 0 || j == INTERVALS ? f / 2 : f;
    }
    return (double)((order == 0 ? 1 : x) * sum / INTERVALS);
}

/* e^-x I(x) ~ 1/√(2πx) · Σ t(k) with t(0) = 1, t(k) = t(k-1) · ((2k-1)² - 4·order²) / (8kx). For x ≥ 30 the terms fall
   below rounding long before they grow again, at k near 2x. */
static double bessel_asymptotic(double x, int order)
{
    const long double tau = 2 * 3.14159265358979323846264338327950288L;
    long double sum = 1;
    long double term = 1;
    for (int k = 1; k < 60 && fabsl(term) > LDBL_EPSILON / 8; k++) {
        int odd = 2 * k - 1;
        term *= (odd * odd - 4 * order) / (8 * k * (long double)x); /* order² = order for 0 and 1 */
        sum += term;
    }
    return (double)(sum / sqrtl(tau * x));
}

static double bessel_scaled(double x, int order)
{
    double m = fabs(x);
    return m < 30 ? bessel_integral(m, order) : bessel_asymptotic(m, order);
}

/* ---- Samples ---- */

#define SAMPLES(range, other)                                                                                      \
    {                                                                                                              \
        {"T[3, 4]" range, NULL, NULL, FLX_OK}, {"T[]" range, NULL, NULL, FLX_OK}, {"T[0, 3]", NULL, NULL, FLX_OK}, \
            {"T[N, 2]" other, NULL, NULL, FLX_OK}, {"i32[3]", NULL, NULL, FLX_E_DTYPE},                            \
            {"c64[3]", NULL, NULL, FLX_E_DTYPE}, {"T[3]", "n=1", NULL, FLX_E_ATTRIBUTE}, {0},                      \
    }

static const flxi_sample samples_any[] = SAMPLES("", "{-4..4}");
static const flxi_sample samples_inside_one[] = SAMPLES("{-0.95..0.95}", "{-0.5..0.5}");
static const flxi_sample samples_positive[] = SAMPLES("{0.2..6}", "{-2.8..-2.2}");
static const flxi_sample samples_wide[] = SAMPLES("{0.05..2}", "{-40..-0.3}"); /* away from the kink at 0 */

#define BINARY_FAILURES                                                                   \
    {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE}, {"i32[3], i32[3]", NULL, NULL, FLX_E_DTYPE}, \
        {"f32[3], f64[3]", NULL, NULL, FLX_E_DTYPE},                                      \
    {                                                                                     \
        "T[3]", NULL, NULL, FLX_E_ARITY                                                   \
    }

/* n must be an integer: ranges with a single value ensure that. */
static const flxi_sample samples_polygamma[] = {
    {"T[]{0..0}, T[3, 4]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[3, 4]{1..1}, T[3, 4]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[2, 1]{2..2}, T[3]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[]{3..3}, T[]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[1, 3]{1..1}, T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 1]{1..1}, T[N, 3]{0.5..4}", NULL, NULL, FLX_OK},
    BINARY_FAILURES,
    {0},
};

static const flxi_sample samples_zeta[] = {
    {"T[3, 4]{1.5..4}, T[3, 4]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[]{1.5..4}, T[5]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[2, 1]{1.5..4}, T[3]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[]{1.5..4}, T[]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[1, 3]{1.5..4}, T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 1]{1.5..4}, T[N, 3]{0.5..4}", NULL, NULL, FLX_OK},
    BINARY_FAILURES,
    {0},
};

static const flxi_sample samples_zeta_derivative[] = {
    {"T[3, 4]{1.5..4}, T[3, 4]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[]{1.5..4}, T[5]{0.5..4}", "order=2", NULL, FLX_OK},
    {"T[2, 1]{1.5..4}, T[3]{0.5..4}", "order=3", NULL, FLX_OK},
    {"T[N, 1]{1.5..4}, T[N, 3]{0.5..4}", NULL, NULL, FLX_OK},
    {"T[3], T[3]", "order=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3], T[3]", "order=17", NULL, FLX_E_ATTRIBUTE},
    BINARY_FAILURES,
    {0},
};

/* ---- Rules ---- */

ELEMENT_REAL(erf_f, erf(x[0]))
ELEMENT_REAL(erfc_f, erfc(x[0]))
ELEMENT_REAL(erf_inv_f, flxi_erf_inv(x[0]))
ELEMENT_REAL(lgamma_f, log_gamma(x[0]))
ELEMENT_REAL(digamma_f, digamma(x[0]))
ELEMENT_REAL(polygamma_f, polygamma(x[0], x[1]))
ELEMENT_REAL(zeta_f, zeta(x[0], x[1]))
ELEMENT_REAL(bessel_i0e_f, bessel_scaled(x[0], 0))
ELEMENT_REAL(bessel_i1e_f, copysign(bessel_scaled(x[0], 1), x[0]))

/* ---- Derivatives ---- */

static flx_val bell(flxi_site *s) /* 2/√π·e^(-x²) */
{
    flx_graph *g = s->g;
    return flx_mul(g, K(two_over_sqrt_pi), flx_exp(g, flx_neg(g, flx_square(g, s->x[0]))));
}

PARTIAL(erf, bell(s))
PARTIAL(erfc, flx_neg(g, bell(s)))
PARTIAL(erf_inv, flx_mul(g, K(1 / two_over_sqrt_pi), flx_exp(g, flx_square(g, y))))
PARTIAL(lgamma, flx_digamma(g, x))
PARTIAL(digamma, flx_polygamma(g, K(1), x))
PARTIAL(bessel_i0e, flx_sub(g, flx_bessel_i1e(g, x), flx_mul(g, flx_sign(g, x), y)))

/* i1e(x)/x. For |x| < 1, where the derivatives of the quotient would cancel, it is e^-|x|·Σ (x²/4)^k / (2·k!·(k+1)!),
   which ten terms give to rounding. The branch that is not chosen is computed at 0 or 1, so that nothing overflows
   there. */
static flx_val bessel_quotient(flxi_site *s)
{
    enum { TERMS = 10 };
    flx_graph *g = s->g;
    flx_val small = flx_lt(g, flx_abs(g, s->x[0]), K(1));
    flx_val near = flx_where(g, small, s->x[0], K(0));
    flx_val far = flx_where(g, small, K(1), s->x[0]);
    flx_val square = flx_square(g, near);
    flx_val sum = K(1);
    for (int k = TERMS - 1; k > 0; k--)
        sum = flx_add(g, K(1), flx_mul(g, flx_mul(g, K(0.25 / (k * (k + 1))), square), sum));
    flx_val series = flx_mul(g, flx_mul(g, K(0.5), flx_exp(g, flx_neg(g, flx_abs(g, near)))), sum);
    return flx_where(g, small, series, flx_div(g, s->y[0], far));
}

/* i0e - sign(x)·i1e - i1e/x */
static flx_val partial_bessel_i1e(flxi_site *s, uint32_t i)
{
    (void)i;
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    flx_val rest = flx_sub(g, flx_bessel_i0e(g, x), flx_mul(g, flx_sign(g, x), s->y[0]));
    return flx_sub(g, rest, bessel_quotient(s));
}

static flx_val no_partial(flxi_site *s, const char *operand)
{
    flxi_site_fail(s, FLX_E_NO_RULE, "use stop_gradient() on that operand", "there is no derivative in %s", operand);
    return FLX_NONE;
}

static flx_val partial_polygamma(flxi_site *s, uint32_t i)
{
    if (i == 0)
        return no_partial(s, "n, which must be an integer");
    return flx_polygamma(s->g, flx_add(s->g, s->x[0], K(1)), s->x[1]);
}

static flx_val partial_zeta(flxi_site *s, uint32_t i)
{
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    if (i == 0)
        return flx_zeta_derivative(g, x, s->x[1], 1);
    return flx_neg(g, flx_mul(g, x, flx_zeta(g, flx_add(g, x, K(1)), s->x[1])));
}

typedef struct {
    int64_t order;
} order_attrs;

static const flxi_attr order_schema[] = {A_INT(order_attrs, order, 1), A_END};

static flx_code infer_order(flxi_infer *f)
{
    const order_attrs *a = f->attrs;
    if (a->order < 1 || a->order > MAX_ORDER)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "order must be from 1 to %d, not %lld", MAX_ORDER,
                               (long long)a->order);
    return flxi_infer_pointwise(f);
}

static double zeta_derivative_f(const double *x, const void *a)
{
    return zeta_derivative(x[0], x[1], (int)((const order_attrs *)a)->order);
}

/* In q, a term (-log t)^m t^-x changes by -m (-log t)^(m-1) t^-(x+1) - x (-log t)^m t^-(x+1). */
static flx_val partial_zeta_derivative(flxi_site *s, uint32_t i)
{
    int64_t order = ((const order_attrs *)s->attrs)->order;
    flx_graph *g = s->g;
    flx_val x = s->x[0], q = s->x[1], next = flx_add(g, x, K(1));
    if (i == 0 && order == MAX_ORDER) {
        flxi_site_fail(s, FLX_E_NO_RULE, NULL, "derivatives in x are known up to order %d", MAX_ORDER);
        return FLX_NONE;
    }
    if (i == 0)
        return flx_zeta_derivative(g, x, q, order + 1);
    flx_val lower = order == 1 ? flx_zeta(g, next, q) : flx_zeta_derivative(g, next, q, order - 1);
    flx_val same = flx_mul(g, x, flx_zeta_derivative(g, next, q, order));
    return flx_neg(g, flx_add(g, flx_mul(g, K((double)order), lower), same));
}

/* ---- Derivatives of zeta in terms of other ops ----

   The formula of hurwitz_derivative() on whole tensors, in f64: series have tensors as coefficients. Numbers outside of
   its domain are replaced at the end. */

enum { ZETA_TERMS = 24 };

typedef struct {
    flxi_site *s;
    flx_graph *g;
    int64_t order;
    flx_val x, q; /* f64, of the shape of the result */
} zeta_work;

typedef struct {
    flx_val c[MAX_ORDER + 1];
} value_series;

static flx_val number(const zeta_work *w, double x)
{
    return flx_scalar(w->g, FLX_F64, x);
}

static value_series power_values(const zeta_work *w, flx_val a)
{
    value_series y = {.c = {flx_pow(w->g, a, flx_neg(w->g, w->x))}};
    flx_val slope = flx_neg(w->g, flx_log(w->g, a));
    for (int64_t k = 1; k <= w->order; k++)
        y.c[k] = flx_div(w->g, flx_mul(w->g, y.c[k - 1], slope), number(w, (double)k));
    return y;
}

/* a·(c0 + c1·ε), where a has coefficients up to ε^degree */
static void times_linear_values(const zeta_work *w, value_series *a, int64_t *degree, flx_val c0, flx_val c1)
{
    int64_t most = *degree < w->order ? *degree + 1 : w->order;
    for (int64_t k = most; k >= 0; k--) {
        flx_val low = k ? flx_mul(w->g, c1, a->c[k - 1]) : FLX_NONE;
        flx_val high = k <= *degree ? flx_mul(w->g, c0, a->c[k]) : FLX_NONE;
        a->c[k] = flxi_sum(w->s, high, low);
    }
    *degree = most;
}

/* (x + n) / (m a) and 1 / (m a) */
static void times_fraction(const zeta_work *w, value_series *f, int64_t *degree, flx_val a, int n, int m)
{
    flx_val below = flx_mul(w->g, a, number(w, m));
    times_linear_values(w, f, degree, flx_div(w->g, flx_add(w->g, w->x, number(w, n)), below),
                        flx_reciprocal(w->g, below));
}

/* a / (x - 1 + ε), and the Bernoulli terms */
static value_series rest_values(const zeta_work *w, flx_val a)
{
    value_series tail = {.c = {flx_mul(w->g, number(w, 0.5), flxi_full(w->s, flxi_typeof(w->s, a), 1.0))}};
    value_series factor = {.c = {number(w, 0.5)}};
    int64_t degree = 0;
    flx_val less = flx_sub(w->g, w->x, number(w, 1)), pole = flx_div(w->g, a, less);
    times_fraction(w, &factor, &degree, a, 0, 1);
    for (int j = 1; j <= FLXI_BERNOULLI_COUNT; j++) {
        for (int64_t k = 0; k <= degree; k++)
            tail.c[k] = flxi_sum(w->s, tail.c[k], flx_mul(w->g, number(w, flxi_bernoulli[j - 1]), factor.c[k]));
        times_fraction(w, &factor, &degree, a, 2 * j - 1, 2 * j + 1);
        times_fraction(w, &factor, &degree, a, 2 * j, 2 * j + 2);
    }
    for (int64_t k = 0; k <= w->order; k++) {
        tail.c[k] = flxi_sum(w->s, pole, tail.c[k]);
        pole = flx_neg(w->g, flx_div(w->g, pole, less));
    }
    return tail;
}

static flx_val hurwitz_values(const zeta_work *w)
{
    flx_val sum = FLX_NONE;
    for (int k = 0; k < ZETA_TERMS; k++)
        sum = flxi_sum(w->s, sum, power_values(w, flx_add(w->g, w->q, number(w, k))).c[w->order]);
    flx_val a = flx_add(w->g, w->q, number(w, ZETA_TERMS));
    value_series power = power_values(w, a), rest = rest_values(w, a);
    for (int64_t i = 0; i <= w->order; i++)
        sum = flx_add(w->g, sum, flx_mul(w->g, power.c[i], rest.c[w->order - i]));
    return flx_mul(w->g, sum, number(w, tgamma((double)w->order + 1)));
}

/* zeta_derivative() outside of the domain of the formula. */
static flx_val with_limits(const zeta_work *w, flx_val y)
{
    flx_graph *g = w->g;
    flx_val infinity = number(w, INFINITY), zero = number(w, 0), one = number(w, 1);
    flx_val at_one = number(w, w->order % 2 ? -INFINITY : INFINITY);
    y = flx_where(g, flx_eq(g, w->x, infinity), flx_where(g, flx_lt(g, w->q, one), infinity, zero), y);
    y = flx_where(g, flx_eq(g, w->q, infinity), zero, y);
    y = flx_where(g, flx_eq(g, w->x, one), at_one, y);
    y = flx_where(g, flx_eq(g, w->q, zero), infinity, y);
    flx_val is_inside = flx_and(g, flx_ge(g, w->x, one), flx_ge(g, w->q, zero));
    return flx_where(g, is_inside, y, number(w, NAN));
}

static void decompose_zeta_derivative(flxi_site *s, flx_val *y)
{
    zeta_work w = {.s = s, .g = s->g, .order = ((const order_attrs *)s->attrs)->order};
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    w.x = flx_cast(s->g, s->x[0], FLX_F64);
    w.q = flx_cast(s->g, s->x[1], FLX_F64);
    flx_type shape = *flxi_typeof(s, flx_add(s->g, w.x, w.q));
    w.x = flxi_expand_like(s, w.x, &shape);
    w.q = flxi_expand_like(s, w.q, &shape);
    y[0] = flx_cast(s->g, with_limits(&w, hurwitz_values(&w)), dtype);
}

ELEMENT_KERNEL_1(erf, F1(erf, x))
ELEMENT_KERNEL_1(erfc, F1(erfc, x))

#define SPECIAL(op, op_samples, ...)                                                                \
    const flxi_rules flxi_rules_##op = {POINTWISE_RULES, .scalar = op##_f, .partial = partial_##op, \
                                        .samples = (op_samples), __VA_ARGS__}

SPECIAL(erf, samples_any, .element = element_erf);
SPECIAL(erfc, samples_any, .element = element_erfc);
SPECIAL(erf_inv, samples_inside_one, .element = flxi_element_erf_inv);
SPECIAL(lgamma, samples_positive, .element = flxi_element_lgamma, .expresses = flxi_expresses_short_floats);
SPECIAL(digamma, samples_positive, .element = flxi_element_digamma);
SPECIAL(polygamma, samples_polygamma, .element = flxi_element_polygamma, .expresses = flxi_expresses_short_floats);
SPECIAL(zeta, samples_zeta, .element = flxi_element_zeta, .expresses = flxi_expresses_short_floats);
const flxi_rules flxi_rules_zeta_derivative = {
    .infer = infer_order,
    .eval = flxi_eval_pointwise,
    .scalar = zeta_derivative_f,
    .partial = partial_zeta_derivative,
    .schema = order_schema,
    .attrs_size = sizeof(order_attrs),
    .decompose = decompose_zeta_derivative,
    .samples = samples_zeta_derivative,
};
SPECIAL(bessel_i0e, samples_wide, .element = flxi_element_bessel_i0e);
SPECIAL(bessel_i1e, samples_wide, .element = flxi_element_bessel_i1e);
