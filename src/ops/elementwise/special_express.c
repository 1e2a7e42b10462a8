/* SPDX-License-Identifier: Apache-2.0 */
/* special_express.c: special functions as kernel expressions: series and polynomials with a fixed number of terms, so
   that all lanes of a vector do the same. Only the formulas for negative arguments are in an `if`, which a vector
   skips if no lane needs it.

   The gamma family is computed in f64 also for f32: its functions have zeros, next to which f32 would lose all digits.
   The formulas are those of special.c where nothing else is said; coefficients without a formula are fitted by
   tests/oracle/minimax.py. */
#include "ops/elementwise/special_express.h"

#include "ops/elementwise/special.h"
#include "ops/express/express_formula.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SET(var, value) flxi_kb_assign(e->k, (var), (value))
#define LET(value) flxi_kb_let(e->k, flxi_kname(e), (value))
#define VAR(var) flxi_kb_var(e->k, (var))
#define FMA(x, y, z) flxi_kb_fma(e->k, (x), (y), (z))

static const double pi = 3.14159265358979323846;

/* By Horner's rule; the constant coefficient is the first. z is held. */
static uint32_t polynomial(flxi_express *e, uint32_t z, const double *c, size_t n)
{
    uint32_t q = NUM(z, c[n - 1]);
    while (n-- > 1)
        q = FMA(q, z, NUM(z, c[n - 1]));
    return HOLD(q);
}

static bool is_wide(flxi_express *e, uint32_t x)
{
    return flxi_kb_type(e->k, x) == FLX_F64;
}

static uint32_t widened(flxi_express *e, uint32_t x)
{
    return HOLD(flxi_kb_cast(e->k, FLX_F64, x));
}

static flxi_kval narrowed(flxi_express *e, uint32_t y, uint32_t like)
{
    return flxi_kreal(flxi_kb_cast(e->k, flxi_kb_type(e->k, like), y));
}

bool flxi_expresses_short_floats(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    (void)attrs, (void)nin;
    return in[0]->dtype != FLX_F64;
}

/* ---- Inverse error function ---- */

/* erf_inv(x) / x of w = -log(1 - x^2): of w - 5/2 below w = 5, from there on of sqrt(w) minus 3 (f32) or 4 (f64). */
static const double erf_inv_near[] = {0x1.805c5ep0,   0x1.f91e8ap-3,   -0x1.11c506p-8, -0x1.48650cp-10,
                                      0x1.c9e97p-13,  -0x1.4db186p-18, -0x1.d0edap-19, 0x1.f6a6f8p-22,
                                      0x1.90e8acp-26, -0x1.32e60ep-27};
static const double erf_inv_far[] = {0x1.6a9efcp1,   0x1.006dc4p0,  0x1.357e56p-7,  -0x1.f4770ap-8,  0x1.74d936p-8,
                                     -0x1.d7fa2ap-9, 0x1.83e54p-10, -0x1.a7479p-15, -0x1.405dc2p-12, 0x1.d3d3a4p-14};
static const double erf_inv_farther[] = {0x1.eb7e090f0616fp1,    0x1.026e256436abbp0,    0x1.4a420e58e22f4p-10,
                                         -0x1.c7444c74a475dp-11, 0x1.50e537940941cp-12,  -0x1.f77af5655b5b9p-14,
                                         0x1.ccaf81d2edfd8p-15,  -0x1.ea23287cad73ap-16, 0x1.3fc2ce92356b4p-16,
                                         -0x1.80d7b65c7f328p-17, 0x1.b6e52ebca35bp-19,   0x1.395c5026c6efap-21,
                                         -0x1.373b35c5afd0fp-21, 0x1.a3263b3159d18p-24};

/* One step of Halley's iteration, which triples the digits: 25 bits are enough to start from. */
static uint32_t refined(flxi_express *e, uint32_t m, uint32_t rest, uint32_t y)
{
    const double two_over_sqrt_pi = 1.12837916709551257390;
    uint32_t f = PICK(F2(lt, m, NUM(m, 0.5)), F2(sub, F1(erf, y), m), F2(sub, rest, F1(erfc, y)));
    uint32_t slope = F2(mul, NUM(y, two_over_sqrt_pi), F1(exp, F1(neg, F2(mul, y, y))));
    uint32_t newton = HOLD(F2(div, f, slope));
    return F2(sub, y, F2(div, newton, FMA(y, newton, NUM(y, 1))));
}

flxi_kval flxi_element_erf_inv(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = operands[0].re, one = NUM(x, 1), m = HOLD(F1(abs, x)), rest = HOLD(F2(sub, one, m));
    uint32_t w = HOLD(F1(neg, F1(log, F2(mul, rest, F2(add, one, m)))));
    uint32_t near = HOLD(F2(sub, w, NUM(w, 2.5))), far = HOLD(F2(sub, F1(sqrt, w), NUM(w, is_wide(e, x) ? 4 : 3)));
    uint32_t close = polynomial(e, near, erf_inv_near, COUNT(erf_inv_near));
    uint32_t distant = is_wide(e, x) ? polynomial(e, far, erf_inv_farther, COUNT(erf_inv_farther))
                                     : polynomial(e, far, erf_inv_far, COUNT(erf_inv_far));
    uint32_t factor = PICK(F2(lt, w, NUM(w, 5)), close, distant);
    uint32_t y = HOLD(F2(mul, m, factor));
    if (is_wide(e, x))
        y = refined(e, m, rest, y);
    uint32_t end = PICK(F2(eq, m, one), NUM(x, INFINITY), NUM(x, NAN));
    return flxi_kreal(F2(copysign, PICK(F2(lt, m, one), y, end), x));
}

/* ---- Modified Bessel functions of the first kind, times e^-|x| ---- */

/* I0(a) and I1(a) / a of a^2, up to a = T; sqrt(a) e^-a I(a) of 2 T / a - 1 from there on. T is 8 for f32 and 12 for
   f64. */
static const double i0_near_f32[] = {0x1p0,          0x1p-2,         0x1.000002p-6, 0x1.c71c3ap-12,
                                     0x1.c71ef6p-18, 0x1.23357ap-24, 0x1.035ffp-31, 0x1.4dd93ap-39,
                                     0x1.6acba6p-47, 0x1.6f54d8p-56, 0x1.40546ep-63};
static const double i1_near_f32[] = {0x1p-1,         0x1.000002p-4,  0x1.555534p-9,  0x1.c71edp-15,  0x1.6c0294p-21,
                                     0x1.8518d8p-28, 0x1.23e102p-35, 0x1.6c4d88p-43, 0x1.940a2ep-52, 0x1.95e5dep-59};
static const double i0_far_f32[] = {0x1.9bd428p-2,  0x1.b87988p-9,  0x1.1dab2ap-13, 0x1.74e1fcp-17,
                                    0x1.8c1c64p-20, 0x1.84dd2ep-22, 0x1.d3e53ap-24};
static const double i1_far_f32[] = {0x1.8ebe78p-2,   -0x1.3f796ap-7,  -0x1.cbc664p-13, -0x1.f778e6p-17,
                                    -0x1.e9a5c8p-20, -0x1.c37ddap-22, -0x1.09be02p-23};
static const double i0_near_f64[] = {0x1p0,
                                     0x1p-2,
                                     0x1.0000000000005p-6,
                                     0x1.c71c71c71c665p-12,
                                     0x1.c71c71c71d3e3p-18,
                                     0x1.23456789a38e4p-24,
                                     0x1.02e85c0904fdap-31,
                                     0x1.522a43eed48b7p-39,
                                     0x1.522a4454045c1p-47,
                                     0x1.0b312f38c9719p-55,
                                     0x1.5601b4d8b52b9p-64,
                                     0x1.69c8ddefc8ecfp-73,
                                     0x1.41a4e1f3b2f7fp-82,
                                     0x1.e68e7ca714196p-92,
                                     0x1.40a4dcd240225p-101,
                                     0x1.5a591bf37db2cp-111,
                                     0x1.ae9d8f4165f4ep-121,
                                     0x1.e776fe5056d8fp-133,
                                     0x1.21e9d2927b81dp-140};
static const double i1_near_f64[] = {0x1p-1,
                                     0x1p-4,
                                     0x1.5555555555558p-9,
                                     0x1.c71c71c71c6ccp-15,
                                     0x1.6c16c16c1712p-21,
                                     0x1.845c8a0cdf29bp-28,
                                     0x1.27e4fb77d163p-35,
                                     0x1.522a43f1b9daep-43,
                                     0x1.2c975910f4982p-51,
                                     0x1.ab81e6d884e9dp-60,
                                     0x1.f176c5f300112p-69,
                                     0x1.e261c051a3115p-78,
                                     0x1.8bdaf5bb9f19p-87,
                                     0x1.161914d5e94a9p-96,
                                     0x1.5594410c3f55ep-106,
                                     0x1.5c74c2918d50fp-116,
                                     0x1.8e828d1edd544p-126,
                                     0x1.e5ca04ba739bfp-138,
                                     0x1.dcb5b72c955a1p-146};
static const double i0_far_f64[] = {
    0x1.9ab25f8f56038p-2,   0x1.1e0569de02b21p-9,  0x1.d5a27f3779ac9p-15, 0x1.77807b30dd75fp-19, 0x1.d2593fac7783fp-23,
    0x1.96f6cf9a48b2cp-26,  0x1.d94325dc0c93fp-29, 0x1.644dd28365578p-31, 0x1.5788375e75236p-33, 0x1.a40c6cdec6acfp-35,
    0x1.49babddf5fb95p-36,  0x1.a310d7585a4cp-37,  0x1.3081d022c3eccp-37, 0x1.bbbfba3c418dep-41, -0x1.4cbb40f11c4d4p-38,
    -0x1.55e679c9cab7bp-39, 0x1.67dda1c28fbdp-41,  0x1.2192038fcb139p-41};
static const double i1_far_f64[] = {0x1.920c27c8dc633p-2,   -0x1.a3c9adbe35628p-8,  -0x1.7eb85088a7449p-14,
                                    -0x1.00e3b41a6e491p-18, -0x1.24caf526f1ddbp-22, -0x1.e56512b36934bp-26,
                                    -0x1.10a5f6702b698p-28, -0x1.905950217967cp-31, -0x1.7a8f85323dcc3p-33,
                                    -0x1.c7d00c26110c8p-35, -0x1.6062677902edep-36, -0x1.b91cf99ac46a5p-37,
                                    -0x1.42261efd85a1cp-37, -0x1.11633b80dab1bp-40, 0x1.587c60159e49bp-38,
                                    0x1.69d61dd05f44p-39,   -0x1.6da484e9dbaa5p-41, -0x1.2e49c4ad3028fp-41};

typedef struct {
    double limit;
    const double *near, *far;
    size_t num_near, num_far;
} bessel_fit;

#define FIT(limit, near, far)                     \
    {                                             \
        limit, near, far, COUNT(near), COUNT(far) \
    }

static const bessel_fit bessel_fits[2][2] = {
    {FIT(8, i0_near_f32, i0_far_f32), FIT(12, i0_near_f64, i0_far_f64)},
    {FIT(8, i1_near_f32, i1_far_f32), FIT(12, i1_near_f64, i1_far_f64)},
};

/* For |x|. I(a) depends so much on a^2 that the rounding of the square counts: the logarithmic derivative, which is
   close to 1 / (2 a + 4), corrects it. */
static uint32_t bessel(flxi_express *e, uint32_t x, int order)
{
    const bessel_fit *fit = &bessel_fits[order][is_wide(e, x)];
    uint32_t a = HOLD(F1(abs, x)), limit = NUM(x, fit->limit), is_near = HOLD(F2(lt, a, limit));
    uint32_t low = HOLD(PICK(is_near, a, limit)), high = PICK(is_near, limit, a);
    uint32_t z = HOLD(F2(mul, low, low)), near = polynomial(e, z, fit->near, fit->num_near);
    uint32_t lost = F2(div, FMA(low, low, F1(neg, z)), FMA(NUM(x, 2), low, NUM(x, 4)));
    near = F2(mul, FMA(near, lost, near), F1(exp, F1(neg, low)));
    uint32_t root = HOLD(F2(div, NUM(x, 1), F1(sqrt, high)));
    uint32_t v = HOLD(FMA(F2(mul, NUM(x, 2 * fit->limit), root), root, NUM(x, -1)));
    uint32_t far = F2(mul, polynomial(e, v, fit->far, fit->num_far), root);
    return PICK(is_near, order == 0 ? near : F2(mul, near, low), far);
}

flxi_kval flxi_element_bessel_i0e(flxi_express *e, const flxi_kval *operands)
{
    return flxi_kreal(bessel(e, operands[0].re, 0));
}

flxi_kval flxi_element_bessel_i1e(flxi_express *e, const flxi_kval *operands)
{
    return flxi_kreal(F2(copysign, bessel(e, operands[0].re, 1), operands[0].re));
}

/* ---- Gamma family ---- */

/* x minus the nearest integer. */
static uint32_t fraction_of(flxi_express *e, uint32_t x)
{
    return HOLD(F2(sub, x, F1(rint, x)));
}

/* log gamma(x) / ((x - 1) (x - 2)) of t = x - 2, from 1 to 3. */
static const double log_gamma_part[] = {
    0x1.b0ee6072093c3p-2,   -0x1.9ae6509ea108ap-4,  0x1.0e0c9df299943p-5,  -0x1.95ce223aa8d7p-7,
    0x1.4797484a62effp-8,   -0x1.145121f0a2c25p-9,  0x1.dfebd4ed77e6bp-11, -0x1.a96a45433cb6dp-12,
    0x1.7ed666ea8258ep-13,  -0x1.5c85f03d4da63p-14, 0x1.4040f6bec2271p-15, -0x1.2861a4e72d1b3p-16,
    0x1.12e7dcfbf972ep-17,  -0x1.013c6fb72db6bp-18, 0x1.f776e0ed67a25p-20, -0x1.db7345eee8fa6p-21,
    0x1.441908d4794b5p-22,  -0x1.31b7d0f93402fp-23, 0x1.98e819022cb23p-23, -0x1.88fa6100bc1cep-24,
    -0x1.42c2474f6bc9fp-25, 0x1.39ca66b6f7731p-26,  0x1.7d7e3954d1fedp-26, -0x1.7058d0c89edacp-27};

/* x is at least 0. Below 3 the zeros at 1 and 2 are factors of the result; x between 3 and 8 is moved down by the
   recurrence, x below 1 is moved up; Stirling's series for the others. One logarithm serves all three. */
static uint32_t log_gamma_positive(flxi_express *e, uint32_t x)
{
    enum { TERMS = 8, FROM = 8 };
    uint32_t one = NUM(x, 1), two = NUM(x, 2), is_low = HOLD(F2(lt, x, one)), is_high = HOLD(F2(ge, x, NUM(x, FROM)));
    uint32_t product = one, t = F2(sub, x, PICK(is_low, one, two));
    for (int k = 1; k <= FROM - 3; k++) {
        uint32_t factor = HOLD(F2(sub, x, NUM(x, k)));
        product = F2(mul, product, PICK(F2(ge, factor, two), factor, one));
        t = PICK(F2(ge, factor, two), F2(sub, factor, two), t);
    }
    t = HOLD(t);
    uint32_t log = HOLD(F1(log, PICK(F2(logical_or, is_low, is_high), x, product)));
    uint32_t part = polynomial(e, t, log_gamma_part, COUNT(log_gamma_part));
    uint32_t near = F2(mul, F2(mul, PICK(is_low, x, F2(add, t, one)), t), part);
    near = F2(add, near, PICK(is_low, F1(neg, log), log));
    double series[TERMS];
    for (int k = 0; k < TERMS; k++)
        series[k] = flxi_bernoulli[k] / ((2 * k + 2) * (2 * k + 1));
    uint32_t inverse = HOLD(F2(div, one, x)), u = HOLD(F2(mul, inverse, inverse));
    uint32_t rest = FMA(polynomial(e, u, series, TERMS), inverse, NUM(x, 0.91893853320467274178 - 0.5));
    uint32_t far = FMA(F2(sub, x, NUM(x, 0.5)), F2(sub, log, one), rest);
    return PICK(is_high, far, near);
}

/* Negative x by reflection: log(pi / |sin(pi x)|) - log gamma(1 - x). */
flxi_kval flxi_element_lgamma(flxi_express *e, const flxi_kval *operands)
{
    uint32_t x = widened(e, operands[0].re), is_negative = HOLD(F2(lt, x, NUM(x, 0)));
    uint32_t y = LET(log_gamma_positive(e, HOLD(PICK(is_negative, F2(sub, NUM(x, 1), x), x))));
    flxi_kb_if(e->k, is_negative);
    uint32_t sine = F1(abs, F1(sin, F2(mul, NUM(x, pi), fraction_of(e, x))));
    uint32_t reflected = F2(sub, F1(log, F2(div, NUM(x, pi), sine)), VAR(y));
    SET(y, PICK(F1(is_inf, x), NUM(x, INFINITY), reflected));
    flxi_kb_end(e->k);
    return narrowed(e, VAR(y), operands[0].re);
}

/* x is at least 0. The sum of d / ((x+k)(r+k)) is one fraction, all terms of which have the same sign. */
static uint32_t digamma_positive(flxi_express *e, uint32_t x)
{
    enum { SHIFT = 10 };
    const double r = 0x1.762d86356be3fp+0, r_low = 0x1.b86a722197829p-54, b = r + SHIFT, v = 1 / (b * b);
    uint32_t one = NUM(x, 1), is_near = HOLD(F2(lt, x, NUM(x, SHIFT))), near = HOLD(PICK(is_near, x, one));
    uint32_t d = HOLD(F2(sub, F2(sub, near, NUM(x, r)), NUM(x, r_low)));
    uint32_t a = HOLD(PICK(is_near, F2(add, x, NUM(x, SHIFT)), x));
    uint32_t inverse = HOLD(F2(div, one, a)), u = HOLD(F2(mul, inverse, inverse));
    uint32_t value = NUM(x, 0), divided = NUM(x, 0), top = NUM(x, 0), below = one;
    for (size_t k = (size_t)FLXI_BERNOULLI_COUNT; k-- > 0;) {
        divided = HOLD(FMA(divided, NUM(x, v), value));
        value = HOLD(FMA(value, u, NUM(x, flxi_bernoulli[k] / (double)(2 * k + 2))));
    }
    divided = FMA(divided, NUM(x, v), value);
    for (int k = SHIFT; k-- > 0;) {
        uint32_t factor = HOLD(F2(add, near, NUM(x, k)));
        top = HOLD(FMA(top, factor, F2(mul, below, NUM(x, 1 / (r + k)))));
        below = HOLD(F2(mul, below, factor));
    }
    uint32_t slope = F2(mul, F2(mul, F2(add, a, NUM(x, b)), F2(mul, u, NUM(x, v))), divided);
    slope = F2(add, FMA(NUM(x, 0.5 / b), inverse, slope), F2(div, top, below));
    uint32_t log = HOLD(F1(log1p, PICK(is_near, F2(div, d, NUM(x, b)), F2(sub, a, one))));
    uint32_t far = F2(sub, log, FMA(NUM(x, 0.5), inverse, F2(mul, value, u)));
    return PICK(is_near, FMA(d, slope, log), far);
}

static uint32_t digamma(flxi_express *e, uint32_t x)
{
    uint32_t is_negative = HOLD(F2(lt, x, NUM(x, 0)));
    uint32_t y = LET(digamma_positive(e, HOLD(PICK(is_negative, F2(sub, NUM(x, 1), x), x))));
    flxi_kb_if(e->k, is_negative);
    uint32_t fraction = fraction_of(e, x);
    uint32_t other = F2(div, NUM(x, pi), F1(tan, F2(mul, NUM(x, pi), fraction)));
    SET(y, PICK(F2(eq, fraction, NUM(x, 0)), NUM(x, NAN), F2(sub, VAR(y), other)));
    flxi_kb_end(e->k);
    return PICK(F2(eq, x, NUM(x, 0)), F2(copysign, NUM(x, INFINITY), F1(neg, x)), VAR(y));
}

flxi_kval flxi_element_digamma(flxi_express *e, const flxi_kval *operands)
{
    return narrowed(e, digamma(e, widened(e, operands[0].re)), operands[0].re);
}

/* ---- Hurwitz zeta ---- */

/* e^shift times the sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: six terms, and the rest with ten Bernoulli
   numbers. Their series does not converge where s exceeds a = q + 6 by far, but there a^-s is negligible beside
   q^-s. */
static uint32_t hurwitz(flxi_express *e, uint32_t shift, uint32_t s, uint32_t q)
{
    enum { TERMS = 6 };
    uint32_t sum = LET(NUM(q, 0));
    uint32_t k = flxi_kb_loop(e->k, flxi_kname(e), flxi_ku(e, 0), flxi_ku(e, TERMS));
    uint32_t base = F2(add, q, flxi_kb_cast(e->k, FLX_F64, VAR(k)));
    SET(sum, F2(add, VAR(sum), F1(exp, F2(sub, shift, F2(mul, s, F1(log, base))))));
    flxi_kb_end(e->k);
    uint32_t a = HOLD(F2(add, q, NUM(q, TERMS))), inverse = HOLD(F2(div, NUM(q, 1), a));
    uint32_t power = HOLD(F1(exp, F2(sub, shift, F2(mul, s, F1(log, a)))));
    uint32_t tail = NUM(q, 0.5), factor = HOLD(F2(mul, F2(mul, NUM(q, 0.5), s), inverse));
    for (size_t j = 1; j <= (size_t)FLXI_BERNOULLI_COUNT; j++) {
        double n = 2.0 * (double)j;
        tail = HOLD(FMA(NUM(q, flxi_bernoulli[j - 1]), factor, tail));
        uint32_t first = F2(mul, F2(add, s, NUM(q, n - 1)), F2(mul, NUM(q, 1 / (n + 1)), inverse));
        uint32_t second = F2(mul, F2(add, s, NUM(q, n)), F2(mul, NUM(q, 1 / (n + 2)), inverse));
        factor = HOLD(F2(mul, factor, F2(mul, first, second)));
    }
    tail = PICK(F2(lt, s, F2(mul, NUM(q, 4), a)), tail, NUM(q, 0.5));
    uint32_t rest = F2(mul, power, F2(add, F2(div, a, F2(sub, s, NUM(q, 1))), tail));
    return F2(add, VAR(sum), PICK(F2(gt, power, NUM(q, 0)), rest, NUM(q, 0)));
}

static uint32_t is_whole(flxi_express *e, uint32_t x)
{
    return F2(eq, F1(floor, x), x);
}

/* The same for every q, as zeta() of special.c; s is at least 1. */
static uint32_t zeta_scaled(flxi_express *e, uint32_t shift, uint32_t s, uint32_t q)
{
    uint32_t one = NUM(q, 1), zero = NUM(q, 0), inf = NUM(q, INFINITY), nan = NUM(q, NAN);
    uint32_t is_positive = HOLD(F2(gt, q, zero));
    uint32_t y = LET(hurwitz(e, shift, s, HOLD(PICK(is_positive, q, one))));
    uint32_t end = PICK(F2(lt, q, one), inf, PICK(F2(eq, q, one), F1(exp, shift), zero));
    SET(y, PICK(F1(is_inf, s), end, PICK(F1(is_inf, q), zero, VAR(y))));
    flxi_kb_if(e->k, F1(logical_not, is_positive));
    uint32_t below = HOLD(F1(floor, q)), half = HOLD(F2(mul, s, NUM(q, 0.5)));
    uint32_t sign = HOLD(PICK(is_whole(e, half), one, NUM(q, -1)));
    uint32_t right = HOLD(hurwitz(e, zero, s, HOLD(F2(sub, q, below))));
    uint32_t left = HOLD(hurwitz(e, zero, s, HOLD(F2(sub, F1(ceil, q), q))));
    uint32_t rest = HOLD(hurwitz(e, zero, s, HOLD(F2(sub, one, q))));
    uint32_t sum = F2(sub, F2(add, right, F2(mul, sign, left)), F2(mul, sign, rest));
    sum = F2(mul, sum, F1(exp, shift));
    uint32_t is_real = F2(logical_and, is_whole(e, s), F1(is_finite, s));
    SET(y, PICK(F2(eq, q, below), inf, PICK(is_real, sum, nan)));
    SET(y, PICK(F2(gt, q, NUM(q, -(double)INFINITY)), VAR(y), nan));
    flxi_kb_end(e->k);
    return VAR(y);
}

flxi_kval flxi_element_zeta(flxi_express *e, const flxi_kval *operands)
{
    uint32_t s = widened(e, operands[0].re), q = widened(e, operands[1].re), one = NUM(s, 1);
    uint32_t y = zeta_scaled(e, NUM(s, 0), s, q);
    uint32_t is_defined = F2(logical_and, F2(ge, s, one), F2(gt, q, NUM(q, -(double)INFINITY)));
    y = PICK(F2(eq, s, one), NUM(s, INFINITY), y);
    return narrowed(e, PICK(is_defined, y, NUM(s, NAN)), operands[0].re);
}

/* The factorial is part of the exponent of each term, so that nothing overflows unless the result does. */
flxi_kval flxi_element_polygamma(flxi_express *e, const flxi_kval *operands)
{
    uint32_t n = widened(e, operands[0].re), x = widened(e, operands[1].re), zero = NUM(n, 0);
    uint32_t half = HOLD(F2(mul, n, NUM(n, 0.5))), is_first = HOLD(F2(eq, n, zero));
    uint32_t s = HOLD(F2(add, PICK(is_first, NUM(n, 1), n), NUM(n, 1)));
    uint32_t y = LET(zeta_scaled(e, HOLD(log_gamma_positive(e, s)), s, x));
    SET(y, PICK(is_whole(e, half), F1(neg, VAR(y)), VAR(y)));
    flxi_kb_if(e->k, is_first);
    SET(y, digamma(e, x));
    flxi_kb_end(e->k);
    uint32_t is_count = F2(logical_and, F2(ge, n, zero), F2(logical_and, is_whole(e, n), F1(is_finite, n)));
    return narrowed(e, PICK(is_count, VAR(y), NUM(n, NAN)), operands[0].re);
}
