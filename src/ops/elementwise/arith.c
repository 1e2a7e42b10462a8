/* SPDX-License-Identifier: Apache-2.0 */
/* arith.c: arithmetic on two or more broadcast operands. Floats are computed in double and rounded once, integers wrap
   modulo 2^bits and are total, complex numbers use C99's principal branches and the products and quotients of
   complex_arith.h, bool has only `or` and `and`. */
#include "base/complex_arith.h"
#include "ops/express/express_complex.h"
#include "ops/express/express_formula.h"
#include "ops/rule/broadcast.h"
#include "ops/rule/element.h"
#include "ops/rule/tame.h"
#include "ops/rule/wide.h"

/* ---- Samples ---- */

/* Ranges of the second operand follow those of the first. Divisors avoid zero and quotients avoid integers where the
   derivatives are checked by finite differences. */
#define SAMPLES_BINARY(a, b)                                                                              \
    {"T[3, 4]" a ", T[3, 4]" b, NULL, NULL, FLX_OK}, {"T[3, 1]" a ", T[4]" b, NULL, NULL, FLX_OK},        \
        {"T[]" a ", T[2]" b, NULL, NULL, FLX_OK}, {"T[]" a ", T[]" b, NULL, NULL, FLX_OK},                \
        {"T[0, 3]" a ", T[1, 3]" b, NULL, NULL, FLX_OK}, {"T[N, 3]" a ", T[N, 1]" b, NULL, NULL, FLX_OK}, \
        {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE}, {"T[0], T[2]", NULL, NULL, FLX_E_SHAPE},                 \
        {"f32[2], f64[2]", NULL, NULL, FLX_E_DTYPE},                                                      \
    {                                                                                                     \
        "T[2]", NULL, NULL, FLX_E_ARITY                                                                   \
    }

#define REJECTS(dtype)                                     \
    {                                                      \
        dtype "[2], " dtype "[2]", NULL, NULL, FLX_E_DTYPE \
    }

static const flxi_sample samples_any[] = {SAMPLES_BINARY("", ""), {0}};
static const flxi_sample samples_number[] = {SAMPLES_BINARY("", ""), REJECTS("bool"), {0}};
static const flxi_sample samples_ordered[] = {SAMPLES_BINARY("", ""), REJECTS("c64"), {0}};
static const flxi_sample samples_quotient[] = {SAMPLES_BINARY("", "{1..3}"), REJECTS("bool"), {0}};
static const flxi_sample samples_power[] = {SAMPLES_BINARY("{1..3}", "{0..3}"), REJECTS("bool"), {0}};
static const flxi_sample samples_remainder[] = {
    SAMPLES_BINARY("{7..8}", "{5..6}"), REJECTS("bool"), REJECTS("c128"), {0}};
static const flxi_sample samples_float[] = {
    SAMPLES_BINARY("{1..2}", ""), REJECTS("bool"), REJECTS("c64"), REJECTS("i32"), {0}};

static const flxi_sample samples_clamp[] = {
    {"T[3, 4]{0..1}, T[3, 4]{0..3}, T[3, 4]{2..3}", NULL, NULL, FLX_OK},
    {"T[]{0..1}, T[5]{0..3}, T[]{2..3}", NULL, NULL, FLX_OK},
    {"T[]{2..3}, T[5]{0..3}, T[]{0..1}", NULL, NULL, FLX_OK}, /* lo > hi gives hi */
    {"T[3, 1]{0..1}, T[4]{0..3}, T[2, 1, 1]{2..3}", NULL, NULL, FLX_OK},
    {"T[], T[0], T[]", NULL, NULL, FLX_OK},
    {"T[], T[N, 3], T[3]", NULL, NULL, FLX_OK},
    {"T[2], T[3], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[2], T[2]", NULL, NULL, FLX_E_ARITY},
    {"c64[2], c64[2], c64[2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_fma[] = {
    {"T[3, 4], T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 1], T[4], T[]", NULL, NULL, FLX_OK},
    {"T[], T[], T[]", NULL, NULL, FLX_OK},
    {"T[2, 0], T[1, 1], T[1]", NULL, NULL, FLX_OK},
    {"T[N], T[N], T[1]", NULL, NULL, FLX_OK},
    {"T[2], T[3], T[]", NULL, NULL, FLX_E_SHAPE},
    {"bool[2], bool[2], bool[2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_add_n[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 1], T[4], T[], T[2, 1, 1]", NULL, NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[3]", NULL, NULL, FLX_OK},
    {"T[N, 2], T[2], T[N, 1]", NULL, NULL, FLX_OK},
    {"T[3], T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"f32[2], i32[2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* ---- Integers: defined for all operands ---- */

static int64_t wrapped_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static bool int_less(int64_t a, int64_t b, const flxi_int_type *t)
{
    return t->is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

/* a = quotient * b + remainder holds modulo 2^bits for every a and b. Dividing by -1 is negating, which wraps where C's
   quotient would overflow. */
static int64_t quotient(const int64_t *x, const flxi_int_type *t)
{
    if (x[1] == 0)
        return -1;
    if (!t->is_signed)
        return (int64_t)((uint64_t)x[0] / (uint64_t)x[1]);
    return x[1] == -1 ? wrapped_mul(x[0], -1) : x[0] / x[1];
}

static int64_t remainder_i(const int64_t *x, const flxi_int_type *t)
{
    if (x[1] == 0)
        return x[0];
    if (!t->is_signed)
        return (int64_t)((uint64_t)x[0] % (uint64_t)x[1]);
    return x[1] == -1 ? 0 : x[0] % x[1];
}

/* The remainder moved to the divisor's side of zero. */
static int64_t modulus_i(const int64_t *x, const flxi_int_type *t)
{
    int64_t r = remainder_i(x, t);
    bool crosses = t->is_signed && x[1] != 0 && r != 0 && (r < 0) != (x[1] < 0);
    return crosses ? r + x[1] : r;
}

/* Repeated squaring. A negative exponent means 1 / a^|b| truncated, which is 0 for every a but 1 and -1; 0 gives 0. */
static int64_t power_i(const int64_t *x, const flxi_int_type *t)
{
    int64_t a = x[0];
    if (t->is_signed && x[1] < 0)
        return a == 1 ? 1 : a == -1 ? (x[1] & 1 ? -1 : 1) : 0;
    int64_t y = 1;
    for (uint64_t n = (uint64_t)x[1]; n; n >>= 1) {
        if (n & 1)
            y = wrapped_mul(y, a);
        a = wrapped_mul(a, a);
    }
    return y;
}

/* On bool, whose values are 0 and 1, the maximum is `or` and the minimum is `and`. */
static int64_t larger_i(const int64_t *x, const flxi_int_type *t)
{
    return int_less(x[0], x[1], t) ? x[1] : x[0];
}

static int64_t smaller_i(const int64_t *x, const flxi_int_type *t)
{
    return int_less(x[1], x[0], t) ? x[1] : x[0];
}

static int64_t clamp_i(const int64_t *x, const flxi_int_type *t)
{
    int64_t raised = larger_i(x, t);
    return smaller_i((const int64_t[]){raised, x[2]}, t);
}

ELEMENT_INT(add_i, t->bits == 1 ? (x[0] | x[1]) : (int64_t)((uint64_t)x[0] + (uint64_t)x[1]))
ELEMENT_INT(sub_i, (int64_t)((uint64_t)x[0] - (uint64_t)x[1]))
ELEMENT_INT(mul_i, wrapped_mul(x[0], x[1]))
ELEMENT_INT(fma_i, (int64_t)((uint64_t)wrapped_mul(x[0], x[1]) + (uint64_t)x[2]))

/* ---- Floats ---- */

/* A NaN operand is the result, and +0 counts as larger than -0, so that the order of the operands does not matter. */
static double larger(double a, double b)
{
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return -larger(-a, -b);
}

/* The remainder moved to the divisor's side of zero; a zero takes the divisor's sign. */
static double modulus(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0)
        return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

ELEMENT_REAL(add_f, x[0] + x[1])
ELEMENT_REAL(sub_f, x[0] - x[1])
ELEMENT_REAL(mul_f, x[0] * x[1])
ELEMENT_REAL(div_f, x[0] / x[1])
ELEMENT_REAL(max_f, larger(x[0], x[1]))
ELEMENT_REAL(min_f, smaller(x[0], x[1]))
ELEMENT_REAL(pow_f, pow(x[0], x[1]))
ELEMENT_REAL(rem_f, fmod(x[0], x[1]))
ELEMENT_REAL(mod_f, modulus(x[0], x[1]))
ELEMENT_REAL(atan2_f, atan2(x[0], x[1]))
ELEMENT_REAL(clamp_f, smaller(larger(x[1], x[0]), x[2]))
ELEMENT_REAL(fma_f, fma(x[0], x[1], x[2]))

/* ---- Complex numbers ---- */

/* exp(b log a). The logarithm of 0 is infinite, so 0 is a special case: 0^0 is 1, 0^b is 0 for Re b > 0 and NaN
   otherwise. */
static double complex power_c(double complex a, double complex b)
{
    if (b == 0)
        return 1;
    if (a == 0)
        return creal(b) > 0 ? 0 : flxi_cmake(NAN, NAN);
    return cexp(flxi_cmul(b, clog(a)));
}

ELEMENT_COMPLEX(add_c, x[0] + x[1])
ELEMENT_COMPLEX(sub_c, x[0] - x[1])
ELEMENT_COMPLEX(mul_c, flxi_cmul(x[0], x[1]))
ELEMENT_COMPLEX(div_c, flxi_cdiv(x[0], x[1]))
ELEMENT_COMPLEX(pow_c, power_c(x[0], x[1]))

/* ---- nextafter: on the encoding, which is ordered like the values of one sign ---- */

static uint64_t load_bits(const flx_tensor *t, int64_t i)
{
    size_t size = flx_dtype_size(t->type.dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)t->data + (size_t)i * size, size); /* little-endian: the low bytes */
    return bits;
}

static void store_bits(flx_tensor *t, int64_t i, uint64_t bits)
{
    size_t size = flx_dtype_size(t->type.dtype);
    memcpy((char *)t->data + (size_t)i * size, &bits, size);
}

/* `bits` encodes a, which is neither NaN nor equal to b; sign is the mask of the sign bit. */
static uint64_t step_towards(uint64_t bits, double a, double b, uint64_t sign)
{
    if (a == 0)
        return (b < 0 ? sign : 0) | 1; /* the smallest subnormal number with b's sign */
    return (a < b) == (a > 0) ? bits + 1 : bits - 1;
}

static flx_code eval_nextafter(flxi_eval *e)
{
    const flx_tensor *a = e->in[0];
    const flx_tensor *b = e->in[1];
    flx_tensor *y = e->out[0];
    const flxi_arith *t = flxi_arith_of(y->type.dtype);
    uint64_t sign = UINT64_C(1) << (8 * flx_dtype_size(y->type.dtype) - 1);
    for (flxi_lanes z = flxi_lanes_begin(e); z.i < z.count; flxi_lanes_next(&z)) {
        double from = t->load(a->data, z.at[0]).f;
        double to = t->load(b->data, z.at[1]).f;
        if (from != from || to != to)
            t->store(y->data, z.i, (flxi_num){.f = from + to});
        else if (from == to)
            store_bits(y, z.i, load_bits(b, z.at[1]));
        else
            store_bits(y, z.i, step_towards(load_bits(a, z.at[0]), from, to, sign));
    }
    return FLX_OK;
}

/* ---- fma ---- */

/* p + c rounded to odd: when the sum is inexact, of its two neighbours the one with an odd last bit. Rounding that to a
   narrower format gives what rounding the exact sum would give, since an odd double is never on a tie of the narrower
   format and never crosses one. */
static double add_to_odd(double p, double c)
{
    double s = p + c;
    double c_part = s - p;
    double rest = (p - (s - c_part)) + (c - c_part); /* s + rest is the exact sum */
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (!isfinite(s) || rest == 0 || (bits & 1))
        return s;
    bits += (rest > 0) == (s > 0) ? 1 : UINT64_MAX;
    memcpy(&s, &bits, sizeof s);
    return s;
}

/* The product of two narrower floats is exact in double, so only the sum must be kept from rounding twice. */
static flx_code eval_fma(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->out[0]->type.dtype);
    if (!flxi_is_float(t->dtype) || t->dtype == FLX_F64)
        return flxi_eval_pointwise(e);
    for (flxi_lanes z = flxi_lanes_begin(e); z.i < z.count; flxi_lanes_next(&z)) {
        double a = t->load(e->in[0]->data, z.at[0]).f;
        double b = t->load(e->in[1]->data, z.at[1]).f;
        double c = t->load(e->in[2]->data, z.at[2]).f;
        t->store(e->out[0]->data, z.i, (flxi_num){.f = add_to_odd(a * b, c)});
    }
    return FLX_OK;
}

/* ---- add_n ---- */

/* Operand by operand into wide sums, which start as the first operand and not as 0: a sum of -0 is -0. */
static flx_code eval_add_n(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    const flxi_arith *t = flxi_arith_of(y->type.dtype);
    flxi_num *sum = flxi_wide_begin(e, t->zero);
    if (!sum)
        return FLX_E_OOM;
    for (uint32_t k = 0; k < e->nin; k++)
        for (flxi_lanes z = flxi_lanes_of(&e->in[k], 1, y); z.i < z.count; flxi_lanes_next(&z)) {
            flxi_num x = t->load(e->in[k]->data, z.at[0]);
            sum[z.i] = k ? t->accumulate(sum[z.i], x) : x;
        }
    return flxi_wide_end(e, sum, FLX_OK);
}

/* ---- Derivatives ---- */

static void vjp_add(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    for (uint32_t i = 0; i < s->nin; i++)
        dx[i] = dy[0];
}

static void jvp_add(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    for (uint32_t i = 0; i < s->nin; i++)
        ty[0] = flxi_sum(s, ty[0], tx[i]);
    ty[0] = flxi_expand_like(s, ty[0], flxi_typeof(s, s->y[0]));
}

static void vjp_sub(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = dy[0];
    if (s->wanted[1])
        dx[1] = flx_neg(s->g, dy[0]);
}

static void jvp_sub(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    if (flxi_is_none(tx[1]))
        ty[0] = tx[0];
    else
        ty[0] = flxi_is_none(tx[0]) ? flx_neg(s->g, tx[1]) : flx_sub(s->g, tx[0], tx[1]);
    ty[0] = flxi_expand_like(s, ty[0], flxi_typeof(s, s->y[0]));
}

static flx_val partial_mul(flxi_site *s, uint32_t i)
{
    return s->x[1 - i];
}

/* d_a = g/conj(b) and d_b = -g conj(y)/conj(b): never through b², which may overflow where y does not. */
static void vjp_div(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val da = flx_div(s->g, dy[0], flxi_conj(s, s->x[1]));
    dx[0] = da;
    if (s->wanted[1])
        dx[1] = flx_neg(s->g, flx_mul(s->g, da, flxi_conj(s, s->y[0])));
}

static void jvp_div(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val top = tx[0];
    if (!flxi_is_none(tx[1])) {
        flx_val yb = flx_mul(s->g, s->y[0], tx[1]);
        top = flxi_is_none(top) ? flx_neg(s->g, yb) : flx_sub(s->g, top, yb);
    }
    ty[0] = flxi_expand_like(s, flx_div(s->g, top, s->x[1]), flxi_typeof(s, s->y[0]));
}

/* The part of v that operand i of max (`wins` is gt) or min (lt) gets: all of v where it wins, half at a tie, nothing
   where the other wins or either is NaN. It is linear in v, so both modes use it. */
typedef flx_val (*relation)(flx_graph *g, flx_val a, flx_val b);

static flx_val share(flxi_site *s, relation wins, uint32_t i, flx_val v)
{
    flx_graph *g = s->g;
    flx_val half = flx_mul(g, v, flxi_number(s, v, 0.5));
    flx_val tie = flx_eq(g, s->x[0], s->x[1]);
    return flx_where(g, wins(g, s->x[i], s->x[1 - i]), v, flxi_masked(s, tie, half));
}

static void vjp_extremum(flxi_site *s, relation wins, const flx_val *dy, flx_val *dx)
{
    for (uint32_t i = 0; i < 2; i++)
        if (s->wanted[i])
            dx[i] = share(s, wins, i, dy[0]);
}

static void jvp_extremum(flxi_site *s, relation wins, const flx_val *tx, flx_val *ty)
{
    for (uint32_t i = 0; i < 2; i++)
        if (!flxi_is_none(tx[i]))
            ty[0] = flxi_sum(s, ty[0], share(s, wins, i, tx[i]));
    ty[0] = flxi_expand_like(s, ty[0], flxi_typeof(s, s->y[0]));
}

static void vjp_max(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    vjp_extremum(s, flx_gt, dy, dx);
}

static void jvp_max(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    jvp_extremum(s, flx_gt, tx, ty);
}

static void vjp_min(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    vjp_extremum(s, flx_lt, dy, dx);
}

static void jvp_min(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    jvp_extremum(s, flx_lt, tx, ty);
}

/* The definition; it also determines how ties at a bound are shared. */
static void decompose_clamp(flxi_site *s, flx_val *y)
{
    y[0] = flx_min(s->g, flx_max(s->g, s->x[1], s->x[0]), s->x[2]);
}

static flx_val is_zero(flxi_site *s, flx_val v)
{
    return flx_eq(s->g, v, flxi_number(s, v, 0.0));
}

/* b a^(b-1), which is correct at a = 0 for every b except 0: there it is 0 instead of 0 times infinity. Guarding b = 0
   for every a would lose the derivative of this factor with respect to b, which is 1/a. */
static flx_val partial_power_base(flxi_site *s)
{
    flx_graph *g = s->g;
    flx_val a = s->x[0];
    flx_val b = s->x[1];
    flx_val origin = flx_and(g, is_zero(s, a), is_zero(s, b));
    flx_val safe = flx_where(g, origin, flxi_number(s, a, 1.0), a);
    flx_val power = flx_pow(g, safe, flx_sub(g, b, flxi_number(s, b, 1.0)));
    return flx_where(g, origin, flxi_number(s, a, 0.0), flx_mul(g, b, power));
}

/* a^b log a, and its limit 0 at a = 0. NaN for a negative real base; it is needed only to differentiate with respect to
   b. */
static flx_val partial_power_exponent(flxi_site *s)
{
    flx_graph *g = s->g;
    flx_val a = s->x[0];
    flx_val zero = is_zero(s, a);
    flx_val log = flx_log(g, flx_where(g, zero, flxi_number(s, a, 1.0), a));
    return flx_where(g, zero, flxi_number(s, a, 0.0), flx_mul(g, s->y[0], log));
}

static flx_val partial_pow(flxi_site *s, uint32_t i)
{
    return i == 0 ? partial_power_base(s) : partial_power_exponent(s);
}

/* y = a - b n with a whole number n, so the derivatives are 1 and -n. Rounding (a - y)/b finds n where rounding of a/b
   up to an integer would not. */
static flx_val whole_quotient(flxi_site *s)
{
    return flx_round(s->g, flx_div(s->g, flx_sub(s->g, s->x[0], s->y[0]), s->x[1]), NULL);
}

static void vjp_remainder(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = dy[0];
    if (s->wanted[1])
        dx[1] = flx_neg(s->g, flx_mul(s->g, dy[0], whole_quotient(s)));
}

static void jvp_remainder(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = tx[0];
    if (!flxi_is_none(tx[1])) {
        flx_val down = flx_mul(s->g, tx[1], whole_quotient(s));
        ty[0] = flxi_is_none(tx[0]) ? flx_neg(s->g, down) : flx_sub(s->g, tx[0], down);
    }
    ty[0] = flxi_expand_like(s, ty[0], flxi_typeof(s, s->y[0]));
}

/* x/(x² + y²) and -y/(x² + y²), 0 at the origin. The squares overflow or vanish long before the quotients do, so one
   factor of each is divided by m = max(|x|, |y|) first. The result does not depend on m, which therefore needs no
   derivative. */
static flx_val partial_atan2(flxi_site *s, uint32_t i)
{
    flx_graph *g = s->g;
    flx_val y = s->x[0];
    flx_val origin = flx_and(g, is_zero(s, y), is_zero(s, s->x[1]));
    flx_val x = flx_where(g, origin, flxi_number(s, y, 1.0), s->x[1]);
    flx_val m = flx_stop_gradient(g, flx_max(g, flx_abs(g, x), flx_abs(g, y)));
    flx_val u = flx_div(g, x, m);
    flx_val v = flx_div(g, y, m);
    flx_val below = flx_add(g, flx_mul(g, x, u), flx_mul(g, y, v));
    return flx_where(g, origin, flxi_number(s, y, 0.0), flx_div(g, i == 0 ? u : flx_neg(g, v), below));
}

static flx_val partial_fma(flxi_site *s, uint32_t i)
{
    return i == 2 ? flxi_number(s, s->x[2], 1.0) : s->x[1 - i];
}

/* The product must scale, and so must the term. */
static bool scales_fma(const flxi_node *n, const bool *in)
{
    (void)n;
    return in[2] && (in[0] || in[1]);
}

/* a - b n with a whole number n: the derivative 1 holds piece by piece. */
static bool scales_remainder(const flxi_node *n, const bool *in)
{
    (void)n;
    return in[0] && in[1];
}

/* ---- Derivatives that are finite ---- */

static bool is_tame_product(const flx_graph *g, const flxi_node *n, uint32_t operand)
{
    return operand > 1 || flxi_is_tame_constant(g, n->in[1 - operand], 0.0);
}

static bool is_tame_quotient(const flx_graph *g, const flxi_node *n, uint32_t operand)
{
    return operand == 0 && flxi_is_tame_constant(g, n->in[1], 0x1p-14); /* whose reciprocal overflows in no dtype */
}

/* ---- Kernel expressions ---- */

static bool is_bool(const flxi_express *e)
{
    return e->dtype == FLX_BOOL;
}

static flxi_kval added(flxi_express *e, flxi_kval a, flxi_kval b)
{
    return flxi_kparts(e, is_bool(e) ? KBIN_logical_or : KBIN_add, a, b);
}

static flxi_kval element_mul(flxi_express *e, const flxi_kval *x)
{
    if (flxi_is_complex(e->dtype))
        return flxi_kcmul(e, x[0], x[1]);
    return flxi_kparts(e, is_bool(e) ? KBIN_logical_and : KBIN_mul, x[0], x[1]);
}

static uint32_t larger_k(flxi_express *e, uint32_t a, uint32_t b)
{
    return flxi_k2(e, flxi_is_float(e->dtype) ? KBIN_max_nan : is_bool(e) ? KBIN_logical_or : KBIN_max, a, b);
}

static uint32_t smaller_k(flxi_express *e, uint32_t a, uint32_t b)
{
    return flxi_k2(e, flxi_is_float(e->dtype) ? KBIN_min_nan : is_bool(e) ? KBIN_logical_and : KBIN_min, a, b);
}

/* As power_i: a loop over the bits of the exponent. */
static uint32_t power_of_ints(flxi_express *e, uint32_t a, uint32_t b)
{
    uint32_t type = flxi_kb_type(e->k, a);
    uint32_t one = NUM(a, 1), none = NUM(a, 0);
    uint32_t y = flxi_kb_let(e->k, flxi_kname(e), one);
    uint32_t base = flxi_kb_let(e->k, flxi_kname(e), a);
    uint32_t rest = flxi_kb_let(e->k, flxi_kname(e), flxi_kb_cast(e->k, flxi_kunsigned(type), b));
    uint32_t y_now = flxi_kb_var(e->k, y), base_now = flxi_kb_var(e->k, base), n = flxi_kb_var(e->k, rest);
    flxi_kb_loop(e->k, flxi_kname(e), flxi_ku(e, 0), flxi_ku(e, flxi_int_bits((int32_t)type)));
    uint32_t odd = F2(ne, F2(bit_and, n, NUM(n, 1)), NUM(n, 0));
    flxi_kb_assign(e->k, y, PICK(odd, F2(mul, y_now, base_now), y_now));
    flxi_kb_assign(e->k, base, F2(mul, base_now, base_now));
    flxi_kb_assign(e->k, rest, F2(shr, n, NUM(n, 1)));
    flxi_kb_end(e->k);
    if (!flxi_is_signed((int32_t)type))
        return y_now;
    uint32_t alternating = PICK(F2(ne, F2(bit_and, b, one), none), NUM(a, -1), one);
    uint32_t inverse = PICK(F2(eq, a, one), one, PICK(F2(eq, a, NUM(a, -1)), alternating, none));
    return PICK(F2(lt, b, none), inverse, y_now);
}

/* x^n for n > 0. */
static uint32_t product_power(flxi_express *e, uint32_t x, int n)
{
    if (n == 1)
        return x;
    uint32_t half = HOLD(product_power(e, x, n / 2)), square = HOLD(F2(mul, half, half));
    return n % 2 ? F2(mul, square, x) : square;
}

/* x^y for a constant y, twice which is a small integer: products and a square root, which round less often than the
   function is wrong. Negative powers are those of 1/x, so that they overflow and vanish with the result. The power
   of -0 and of -inf is that of 0 and inf where y is not an integer. 0: y is another number. */
static uint32_t simple_power(flxi_express *e, uint32_t x, double y)
{
    bool has_root = y != floor(y);
    if (y != 0 && (y < -3 || y > 6 || y * 2 != floor(y * 2) || (has_root && (y < -1.5 || y > 3))))
        return 0;
    int n = (int)trunc(fabs(y));
    uint32_t one = NUM(x, 1), inf = NUM(x, INFINITY);
    if (y == 0)
        return one;
    if (has_root)
        x = HOLD(PICK(F2(eq, x, F1(neg, inf)), inf, F2(add, x, NUM(x, 0))));
    uint32_t base = y < 0 && n > 0 ? HOLD(F2(div, one, x)) : x;
    uint32_t root = has_root ? F1(sqrt, x) : 0;
    root = has_root && y < 0 ? F2(div, one, root) : root;
    return n == 0 ? root : has_root ? F2(mul, product_power(e, base, n), root) : product_power(e, base, n);
}

/* The value of a literal of type f32 or f64. */
static bool is_number(flxi_express *e, uint32_t x, double *value)
{
    const flxi_kx *at = flxi_kb_expr(e->k, x);
    float narrow;
    if (!at || at->kind != KX_LITERAL || (at->type != FLX_F32 && at->type != FLX_F64))
        return false;
    memcpy(&narrow, &(uint32_t){(uint32_t)at->bits}, sizeof narrow);
    memcpy(value, &at->bits, sizeof *value);
    *value = at->type == FLX_F32 ? (double)narrow : *value;
    return true;
}

static uint32_t power_k(flxi_express *e, uint32_t x, uint32_t y)
{
    double exponent;
    uint32_t simple = is_number(e, y, &exponent) ? simple_power(e, x, exponent) : 0;
    return simple ? simple : F2(pow, x, y);
}

/* The remainder moved to the divisor's side of zero; a zero of floats takes the divisor's sign. */
static uint32_t modulus_k(flxi_express *e, uint32_t a, uint32_t b)
{
    uint32_t r = HOLD(F2(mod, a, b));
    uint32_t none = NUM(r, 0);
    uint32_t other_side = F2(ne, F2(lt, r, none), F2(lt, b, none));
    if (flxi_is_float(e->dtype))
        return PICK(F2(eq, r, none), F2(copysign, none, b), PICK(other_side, F2(add, r, b), r));
    if (!flxi_is_signed(e->dtype))
        return r;
    uint32_t divides = F2(logical_or, F2(eq, r, none), F2(eq, b, none));
    return PICK(F2(logical_and, F1(logical_not, divides), other_side), F2(add, r, b), r);
}

/* On the encoding, in the type of the result. */
static flxi_kval element_nextafter(flxi_express *e, const flxi_kval *x)
{
    uint32_t type = (uint32_t)e->out[0]->dtype;
    uint32_t word = type == FLX_F64 ? FLX_U64 : type == FLX_F32 ? FLX_U32 : FLX_U16;
    uint32_t a = x[0].re, b = x[1].re, none = NUM(a, 0);
    uint32_t bits = HOLD(flxi_kb_bitcast(e->k, word, flxi_kb_cast(e->k, type, a)));
    uint32_t one = NUM(bits, 1);
    uint32_t sign = PICK(F2(lt, b, none), F2(shl, one, NUM(bits, flxi_int_bits((int32_t)word) - 1)), NUM(bits, 0));
    uint32_t away = F2(eq, F2(lt, a, b), F2(gt, a, none));
    uint32_t step = PICK(away, F2(add, bits, one), F2(sub, bits, one));
    uint32_t next = flxi_kb_bitcast(e->k, type, PICK(F2(eq, a, none), F2(bit_or, sign, one), step));
    uint32_t to = flxi_kb_cast(e->k, type, b);
    uint32_t is_nan = F2(logical_or, F1(is_nan, a), F1(is_nan, b));
    return flxi_kreal(PICK(is_nan, flxi_kb_cast(e->k, type, F2(add, a, b)), PICK(F2(eq, a, b), to, next)));
}

static flxi_kval element_add_n(flxi_express *e, const flxi_kval *x)
{
    flxi_kval sum = x[0];
    for (uint32_t k = 1; k < e->nin; k++)
        sum = flxi_khold_value(e, added(e, sum, x[k]));
    return sum;
}

static flxi_kval element_fma(flxi_express *e, const flxi_kval *x)
{
    if (flxi_is_float(e->dtype))
        return flxi_kreal(flxi_kb_fma(e->k, x[0].re, x[1].re, x[2].re));
    return flxi_kreal(F2(add, F2(mul, x[0].re, x[1].re), x[2].re));
}

ELEMENT_KERNEL(add, added(e, x[0], x[1]))
ELEMENT_KERNEL(sub, flxi_kparts(e, KBIN_sub, x[0], x[1]))
ELEMENT_KERNEL(div, x[0].im ? flxi_kcdiv(e, x[0], x[1]) : flxi_kreal(F2(div, x[0].re, x[1].re)))
ELEMENT_KERNEL(clamp, flxi_kreal(smaller_k(e, larger_k(e, x[1].re, x[0].re), x[2].re)))
ELEMENT_KERNEL_2(max, larger_k(e, x, y))
ELEMENT_KERNEL_2(min, smaller_k(e, x, y))
ELEMENT_KERNEL_2(pow, flxi_is_float(e->dtype) ? power_k(e, x, y) : power_of_ints(e, x, y))
ELEMENT_KERNEL_2(rem, F2(mod, x, y))
ELEMENT_KERNEL_2(mod, modulus_k(e, x, y))
ELEMENT_KERNEL_2(atan2, F2(atan2, x, y))

/* ---- Rules ---- */

#define ARITH(op, op_samples, ...) \
    const flxi_rules flxi_rules_##op = {POINTWISE_RULES, .element = element_##op, .samples = (op_samples), __VA_ARGS__}

ARITH(add, samples_any, .scalar = add_f, .scalar_c = add_c, .scalar_i = add_i, .vjp = vjp_add, .jvp = jvp_add);
ARITH(sub, samples_number, .scalar = sub_f, .scalar_c = sub_c, .scalar_i = sub_i, .vjp = vjp_sub, .jvp = jvp_sub);
ARITH(mul, samples_any, .scalar = mul_f, .scalar_c = mul_c, .scalar_i = mul_i, .partial = partial_mul,
      .is_tame = is_tame_product);
ARITH(div, samples_quotient, .scalar = div_f, .scalar_c = div_c, .scalar_i = quotient, .vjp = vjp_div, .jvp = jvp_div,
      .series = SERIES_QUOTIENT, .is_tame = is_tame_quotient);
ARITH(max, samples_ordered, .scalar = max_f, .scalar_i = larger_i, .vjp = vjp_max, .jvp = jvp_max);
ARITH(min, samples_ordered, .scalar = min_f, .scalar_i = smaller_i, .vjp = vjp_min, .jvp = jvp_min);
ARITH(pow, samples_power, .scalar = pow_f, .scalar_c = pow_c, .scalar_i = power_i, .partial = partial_pow,
      .expresses = flxi_expresses_reals);
ARITH(rem, samples_remainder, .scalar = rem_f, .scalar_i = remainder_i, .vjp = vjp_remainder, .jvp = jvp_remainder,
      .scales = scales_remainder);
ARITH(mod, samples_remainder, .scalar = mod_f, .scalar_i = modulus_i, .vjp = vjp_remainder, .jvp = jvp_remainder,
      .scales = scales_remainder);
ARITH(atan2, samples_float, .scalar = atan2_f, .partial = partial_atan2);
ARITH(clamp, samples_clamp, .scalar = clamp_f, .scalar_i = clamp_i, .decompose = decompose_clamp);

const flxi_rules flxi_rules_nextafter = {
    .infer = flxi_infer_pointwise, .eval = eval_nextafter, .element = element_nextafter, .samples = samples_float};
const flxi_rules flxi_rules_fma = {
    .infer = flxi_infer_pointwise,
    .eval = eval_fma,
    .element = element_fma,
    .scalar = fma_f,
    .scalar_i = fma_i,
    .partial = partial_fma,
    .scales = scales_fma,
    .is_tame = is_tame_product,
    .samples = samples_fma,
};
const flxi_rules flxi_rules_add_n = {
    .infer = flxi_infer_pointwise,
    .eval = eval_add_n,
    .element = element_add_n,
    .vjp = vjp_add,
    .jvp = jvp_add,
    .samples = samples_add_n,
};
