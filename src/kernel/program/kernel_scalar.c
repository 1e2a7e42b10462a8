/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c: the arithmetic of kernels, see kernel_scalar.h.

   Integers are computed in 64 bits and truncated to their width w; signed ones are extended first where the sign
   matters. Floats are computed in double and rounded to their type. For f32 that is the correctly rounded result of + -
   * / sqrt: double has more than 2 * 24 + 1 bits, so no exact result is close enough to a rounding boundary of f32
   for the first rounding to move it there. fma is the exception and is done in its own type. 16-bit floats are
   rounded to f32 first, by definition: an op on them is an f32 op whose result is rounded. */
#include "kernel/program/kernel_scalar.h"

#include "base/half.h"

#include <math.h>

/* ---- Bits ---- */

static inline uint64_t mask_of(unsigned w)
{
    return ~UINT64_C(0) >> (64 - w);
}

static inline int64_t extend(uint64_t x, unsigned w)
{
    return (int64_t)(x << (64 - w)) >> (64 - w);
}

static uint64_t quiet_nan(uint32_t type)
{
    switch (type) {
    case FLX_F64: return UINT64_C(0x7ff8000000000000);
    case FLX_F32: return 0x7fc00000;
    case FLX_F16: return 0x7e00;
    default: return 0x7fc0;
    }
}

/* ---- Floats as doubles ---- */

static double real_of(uint32_t type, uint64_t x)
{
    switch (type) {
    case FLX_F64: return flxi_f64_of(x);
    case FLX_F32: return (double)flxi_f32_of(x);
    case FLX_F16: return flxi_from_f16((uint16_t)x);
    default: return flxi_from_bf16((uint16_t)x);
    }
}

/* Rounded once. */
static uint64_t round_to(uint32_t type, double d)
{
    if (d != d)
        return quiet_nan(type);
    switch (type) {
    case FLX_F64: return flxi_f64_bits(d);
    case FLX_F32: return flxi_f32_bits((float)d);
    case FLX_F16: return flxi_to_f16(d);
    default: return flxi_to_bf16(d);
    }
}

/* The type that an op on `type` is computed in. */
static inline double as_computed(uint32_t type, double d)
{
    return type == FLX_F64 ? d : (double)(float)d;
}

static inline uint64_t result_of(uint32_t type, double d)
{
    return round_to(type, as_computed(type, d));
}

static double sigmoid(double x)
{
    double e = exp(-fabs(x)); /* never overflows */
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static double sign_of(double x)
{
    return x != x ? x : (double)((x > 0) - (x < 0));
}

static double real_unary(flxi_kunary op, uint32_t type, double x)
{
    switch (op) {
    case KUN_sign: return sign_of(x);
    case KUN_floor: return floor(x);
    case KUN_ceil: return ceil(x);
    case KUN_trunc: return trunc(x);
    case KUN_round: return round(x);
    case KUN_rint: return rint(x);
    case KUN_sqrt: return sqrt(x);
    case KUN_rsqrt: return 1 / as_computed(type, sqrt(x));
    case KUN_recip: return 1 / x;
    case KUN_exp: return exp(x);
    case KUN_exp2: return exp2(x);
    case KUN_expm1: return expm1(x);
    case KUN_log: return log(x);
    case KUN_log2: return log2(x);
    case KUN_log10: return log10(x);
    case KUN_log1p: return log1p(x);
    case KUN_sin: return sin(x);
    case KUN_cos: return cos(x);
    case KUN_tan: return tan(x);
    case KUN_asin: return asin(x);
    case KUN_acos: return acos(x);
    case KUN_atan: return atan(x);
    case KUN_sinh: return sinh(x);
    case KUN_cosh: return cosh(x);
    case KUN_tanh: return tanh(x);
    case KUN_asinh: return asinh(x);
    case KUN_acosh: return acosh(x);
    case KUN_atanh: return atanh(x);
    case KUN_erf: return erf(x);
    case KUN_erfc: return erfc(x);
    case KUN_sigmoid: return sigmoid(x);
    default: return 0;
    }
}

static uint64_t float_unary(flxi_kunary op, uint32_t type, uint64_t x)
{
    uint64_t sign = UINT64_C(1) << (flxi_ktype_of(type)->bits - 1);
    double d = real_of(type, x);
    switch (op) {
    case KUN_neg: return x ^ sign;
    case KUN_abs: return x & ~sign;
    case KUN_stop_gradient: return x;
    case KUN_is_nan: return d != d;
    case KUN_is_inf: return isinf(d) != 0;
    case KUN_is_finite: return isfinite(d) != 0;
    default: return result_of(type, real_unary(op, type, d));
    }
}

/* min and max return one of the operands. Equal operands have the same bits or are zeros of opposite sign, so `or`
   gives -0 and `and` gives +0. */
static uint64_t float_choice(flxi_kbinary op, uint32_t type, uint64_t x, uint64_t y)
{
    bool least = op == KBIN_min || op == KBIN_min_nan;
    bool keep_nan = op == KBIN_min_nan || op == KBIN_max_nan;
    double a = real_of(type, x), b = real_of(type, y);
    if (a != a || b != b) {
        if (keep_nan || (a != a && b != b))
            return quiet_nan(type);
        return a != a ? y : x;
    }
    if (a == b)
        return least ? x | y : x & y;
    return (a < b) == least ? x : y;
}

/* 1 also for signalling NaNs, which the C library propagates. */
static double power(double x, double y)
{
    return y == 0 || x == 1 ? 1 : pow(x, y);
}

/* Infinite even if the other operand is a signalling NaN. */
static double hypotenuse(double x, double y)
{
    return isinf(x) || isinf(y) ? INFINITY : hypot(x, y);
}

static uint64_t float_binary(flxi_kbinary op, uint32_t type, uint64_t x, uint64_t y)
{
    double a = real_of(type, x), b = real_of(type, y);
    switch (op) {
    case KBIN_add: return result_of(type, a + b);
    case KBIN_sub: return result_of(type, a - b);
    case KBIN_mul: return result_of(type, a * b);
    case KBIN_div: return result_of(type, a / b);
    case KBIN_mod: return result_of(type, fmod(a, b));
    case KBIN_abs_diff: return result_of(type, fabs(a - b));
    case KBIN_min:
    case KBIN_max:
    case KBIN_min_nan:
    case KBIN_max_nan: return float_choice(op, type, x, y);
    case KBIN_eq: return a == b;
    case KBIN_ne: return a != b;
    case KBIN_lt: return a < b;
    case KBIN_gt: return a > b;
    case KBIN_le: return a <= b;
    case KBIN_ge: return a >= b;
    case KBIN_pow: return result_of(type, power(a, b));
    case KBIN_atan2: return result_of(type, atan2(a, b));
    case KBIN_hypot: return result_of(type, hypotenuse(a, b));
    case KBIN_copysign: {
        uint64_t sign = UINT64_C(1) << (flxi_ktype_of(type)->bits - 1);
        return (x & ~sign) | (y & sign);
    }
    default: return 0;
    }
}

uint64_t flxi_kscalar_fma(uint32_t type, uint64_t x, uint64_t y, uint64_t z)
{
    if (!flxi_ktype_fits(type, TAKES_FLOAT))
        return 0;
    double a = real_of(type, x), b = real_of(type, y), c = real_of(type, z);
    if (type == FLX_F64)
        return round_to(type, fma(a, b, c));
    return round_to(type, (double)fmaf((float)a, (float)b, (float)c));
}

/* ---- Integers ---- */

static uint64_t reverse_bits(uint64_t x, unsigned w)
{
    uint64_t y = 0;
    for (unsigned i = 0; i < w; i++)
        y |= (x >> i & 1) << (w - 1 - i);
    return y;
}

static uint64_t int_unary(flxi_kunary op, unsigned w, bool is_signed, uint64_t x)
{
    uint64_t m = mask_of(w);
    bool is_negative = is_signed && x >> (w - 1);
    switch (op) {
    case KUN_neg: return (0 - x) & m;
    case KUN_bit_not: return ~x & m;
    case KUN_popcount: return (uint64_t)__builtin_popcountll(x);
    case KUN_clz: return x ? (uint64_t)__builtin_clzll(x) - (64 - w) : w;
    case KUN_ctz: return x ? (uint64_t)__builtin_ctzll(x) : w;
    case KUN_reverse_bits: return reverse_bits(x, w);
    case KUN_logical_not: return x == 0;
    case KUN_abs: return is_negative ? (0 - x) & m : x;
    case KUN_sign: return is_negative ? m : x != 0;
    case KUN_unpack_4_low: return x & 15;
    case KUN_unpack_4_high: return x >> 4 & 15;
    case KUN_unpack_8_low: return x & 255;
    case KUN_unpack_8_high: return x >> 24 & 255;
    default: return 0;
    }
}

/* x / y and x % y for a y that is not 0; y = -1 would overflow for the least x. */
static uint64_t signed_quotient(int64_t a, int64_t b)
{
    return b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b);
}

static uint64_t signed_rest(int64_t a, int64_t b)
{
    return b == -1 ? 0 : (uint64_t)(a % b);
}

static uint64_t high_product(uint64_t x, uint64_t y, unsigned w)
{
    if (w <= 32)
        return x * y >> w;
    uint64_t x0 = x & UINT32_MAX, x1 = x >> 32, y0 = y & UINT32_MAX, y1 = y >> 32;
    uint64_t middle = x1 * y0 + (x0 * y0 >> 32); /* at most (2^32 - 1)^2 + 2^32 - 1: fits, as does the next line */
    uint64_t other = x0 * y1 + (middle & UINT32_MAX);
    return x1 * y1 + (middle >> 32) + (other >> 32);
}

static uint64_t saturate_unsigned(flxi_kbinary op, unsigned w, uint64_t x, uint64_t y)
{
    uint64_t r;
    bool over;
    if (op == KBIN_saturating_add)
        over = __builtin_add_overflow(x, y, &r);
    else if (op == KBIN_saturating_mul)
        over = __builtin_mul_overflow(x, y, &r);
    else
        return x < y ? 0 : x - y;
    return over || r > mask_of(w) ? mask_of(w) : r;
}

/* The exact result in 64 bits where it fits the width; else false, and whether it is below the range. */
static bool signed_fits(flxi_kbinary op, unsigned w, int64_t a, int64_t b, int64_t *r, bool *below)
{
    bool over;
    switch (op) {
    case KBIN_add:
    case KBIN_saturating_add:
        over = __builtin_add_overflow(a, b, r);
        *below = a < 0;
        break;
    case KBIN_sub:
    case KBIN_saturating_sub:
        over = __builtin_sub_overflow(a, b, r);
        *below = a < 0;
        break;
    default:
        over = __builtin_mul_overflow(a, b, r);
        *below = (a < 0) != (b < 0);
        break;
    }
    if (over)
        return false;
    *below = *r < 0;
    return extend((uint64_t)*r & mask_of(w), w) == *r;
}

static uint64_t saturate_signed(flxi_kbinary op, unsigned w, int64_t a, int64_t b)
{
    int64_t r;
    bool is_below;
    uint64_t least = UINT64_C(1) << (w - 1);
    if (signed_fits(op, w, a, b, &r, &is_below))
        return (uint64_t)r & mask_of(w);
    return is_below ? least : least - 1;
}

static uint64_t rotate_left(uint64_t x, uint64_t n, unsigned w)
{
    n &= w - 1;
    return n ? (x << n | x >> (w - n)) & mask_of(w) : x;
}

/* Where the sign matters. */
static uint64_t signed_binary(flxi_kbinary op, unsigned w, uint64_t x, uint64_t y)
{
    uint64_t m = mask_of(w);
    int64_t a = extend(x, w), b = extend(y, w);
    switch (op) {
    case KBIN_div: return y ? signed_quotient(a, b) & m : m;
    case KBIN_mod: return y ? signed_rest(a, b) & m : x;
    case KBIN_saturating_add:
    case KBIN_saturating_sub:
    case KBIN_saturating_mul: return saturate_signed(op, w, a, b);
    case KBIN_abs_diff: return (a < b ? y - x : x - y) & m;
    case KBIN_min: return a < b ? x : y;
    case KBIN_max: return a > b ? x : y;
    case KBIN_shr: return (uint64_t)(a >> (y & (w - 1))) & m;
    case KBIN_lt: return a < b;
    case KBIN_gt: return a > b;
    case KBIN_le: return a <= b;
    case KBIN_ge: return a >= b;
    default: return 0;
    }
}

static uint64_t unsigned_binary(flxi_kbinary op, unsigned w, uint64_t x, uint64_t y)
{
    switch (op) {
    case KBIN_div: return y ? x / y : mask_of(w);
    case KBIN_mod: return y ? x % y : x;
    case KBIN_saturating_add:
    case KBIN_saturating_sub:
    case KBIN_saturating_mul: return saturate_unsigned(op, w, x, y);
    case KBIN_mul_high: return high_product(x, y, w);
    case KBIN_abs_diff: return x < y ? y - x : x - y;
    case KBIN_min: return x < y ? x : y;
    case KBIN_max: return x > y ? x : y;
    case KBIN_shr: return x >> (y & (w - 1));
    case KBIN_rotate_left: return rotate_left(x, y, w);
    case KBIN_rotate_right: return rotate_left(x, w - (y & (w - 1)), w);
    case KBIN_lt: return x < y;
    case KBIN_gt: return x > y;
    case KBIN_le: return x <= y;
    case KBIN_ge: return x >= y;
    default: return 0;
    }
}

static uint64_t int_binary(flxi_kbinary op, unsigned w, bool is_signed, uint64_t x, uint64_t y)
{
    uint64_t m = mask_of(w);
    switch (op) {
    case KBIN_add:
    case KBIN_wrapping_add: return (x + y) & m;
    case KBIN_sub:
    case KBIN_wrapping_sub: return (x - y) & m;
    case KBIN_mul: return x * y & m;
    case KBIN_bit_and: return x & y;
    case KBIN_bit_or: return x | y;
    case KBIN_bit_xor: return x ^ y;
    case KBIN_shl: return x << (y & (w - 1)) & m;
    case KBIN_eq: return x == y;
    case KBIN_ne: return x != y;
    default: return is_signed ? signed_binary(op, w, x, y) : unsigned_binary(op, w, x, y);
    }
}

/* ---- Ops ---- */

/* flxi_ktype_fits() without a call: the interpreter runs this for every op. */
static inline bool fits(const flxi_ktype *t, uint32_t type, unsigned kinds)
{
    return !t->storage && ((t->kind & kinds) != 0 || (type == FLX_U32 && (kinds & TAKES_WORD)));
}

uint64_t flxi_kscalar_unary(flxi_kunary op, uint32_t type, uint64_t x)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    if (!fits(t, type, flxi_kunaries[op].kinds))
        return 0;
    switch (t->kind) {
    case TAKES_FLOAT: return float_unary(op, type, x);
    case TAKES_BOOL: return x == 0; /* the one op that takes a bool is `not` */
    default: return int_unary(op, t->bits, t->kind == TAKES_SIGNED, x);
    }
}

uint64_t flxi_kscalar_binary(flxi_kbinary op, uint32_t type, uint64_t x, uint64_t y)
{
    if (op == KBIN_logical_and)
        return x && y;
    if (op == KBIN_logical_or)
        return x || y;
    const flxi_ktype *t = flxi_ktype_of(type);
    if (!fits(t, type, flxi_kbinaries[op].kinds))
        return 0;
    switch (t->kind) {
    case TAKES_FLOAT: return float_binary(op, type, x, y);
    case TAKES_BOOL: return (x == y) == (op == KBIN_eq);
    default: return int_binary(op, t->bits, t->kind == TAKES_SIGNED, x, y);
    }
}

const char *flxi_kscalar_unary_fault(flxi_kunary op, uint32_t type, uint64_t x)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    bool least = t->kind == TAKES_SIGNED && x == UINT64_C(1) << (t->bits - 1);
    return least && (op == KUN_neg || op == KUN_abs) ? "signed overflow" : NULL;
}

const char *flxi_kscalar_binary_fault(flxi_kbinary op, uint32_t type, uint64_t x, uint64_t y)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    if (!(t->kind & TAKES_INT) || t->storage)
        return NULL;
    if ((op == KBIN_div || op == KBIN_mod) && y == 0)
        return "division by zero";
    if (t->kind != TAKES_SIGNED)
        return NULL;
    if (op == KBIN_div)
        return x == UINT64_C(1) << (t->bits - 1) && y == mask_of(t->bits) ? "signed overflow" : NULL;
    int64_t r;
    bool is_below;
    bool is_checked = op == KBIN_add || op == KBIN_sub || op == KBIN_mul;
    return is_checked && !signed_fits(op, t->bits, extend(x, t->bits), extend(y, t->bits), &r, &is_below)
               ? "signed overflow"
               : NULL;
}

uint64_t flxi_kscalar_atomic(flx_kernel_atomic op, uint32_t type, uint64_t old, uint64_t value, uint64_t expected)
{
    switch (op) {
    case FLX_KERNEL_ATOMIC_ADD: return flxi_kscalar_binary(KBIN_add, type, old, value);
    case FLX_KERNEL_ATOMIC_SUB: return flxi_kscalar_binary(KBIN_sub, type, old, value);
    case FLX_KERNEL_ATOMIC_MIN: return flxi_kscalar_binary(KBIN_min, type, old, value);
    case FLX_KERNEL_ATOMIC_MAX: return flxi_kscalar_binary(KBIN_max, type, old, value);
    case FLX_KERNEL_ATOMIC_AND: return flxi_kscalar_binary(KBIN_bit_and, type, old, value);
    case FLX_KERNEL_ATOMIC_OR: return flxi_kscalar_binary(KBIN_bit_or, type, old, value);
    case FLX_KERNEL_ATOMIC_XOR: return flxi_kscalar_binary(KBIN_bit_xor, type, old, value);
    case FLX_KERNEL_ATOMIC_EXCHANGE: return value;
    case FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE: return old == expected ? value : old;
    case FLX_KERNEL_ATOMIC_COUNT: break;
    }
    return old;
}

/* ---- Conversions ---- */

/* Truncated and saturated; NaN is 0. */
static uint64_t real_to_int(unsigned w, bool is_signed, double d)
{
    if (d != d)
        return 0;
    double end = ldexp(1.0, (int)(is_signed ? w - 1 : w)); /* the smallest value that does not fit */
    if (d >= end)
        return is_signed ? mask_of(w) >> 1 : mask_of(w);
    if (!is_signed)
        return d > 0 ? (uint64_t)d : 0;
    return d <= -end ? UINT64_C(1) << (w - 1) : (uint64_t)(int64_t)d & mask_of(w);
}

/* A double that rounds to any format of at most 51 bits as the integer would: truncated to 53 bits, the last one set
   when any bit was lost ("round to odd"), so that it neither creates nor hides a tie. */
static double odd_double(uint64_t magnitude)
{
    if (magnitude >> 53 == 0)
        return (double)magnitude;
    uint64_t lost = magnitude & 0x7ff;
    return ldexp((double)(magnitude >> 11 | (lost != 0)), 11);
}

static uint64_t int_to_real(uint32_t to, bool is_negative, uint64_t magnitude)
{
    double d;
    if (to == FLX_F64)
        d = (double)magnitude;
    else if (to == FLX_F32)
        d = (double)(float)magnitude;
    else
        d = odd_double(magnitude);
    return round_to(to, is_negative ? -d : d);
}

uint64_t flxi_kscalar_cast(uint32_t to, uint32_t from, uint64_t x)
{
    const flxi_ktype *t = flxi_ktype_of(to), *f = flxi_ktype_of(from);
    if (t->storage || f->storage || !t->kind || !f->kind)
        return 0;
    if (to == from)
        return x;
    if (f->kind == TAKES_FLOAT) {
        double d = real_of(from, x);
        if (t->kind == TAKES_FLOAT)
            return round_to(to, d);
        return to == FLX_BOOL ? d != 0 : real_to_int(t->bits, t->kind == TAKES_SIGNED, d);
    }
    if (to == FLX_BOOL)
        return x != 0;
    bool is_negative = f->kind == TAKES_SIGNED && x >> (f->bits - 1);
    uint64_t wide = is_negative ? (uint64_t)extend(x, f->bits) : x;
    if (t->kind == TAKES_FLOAT)
        return int_to_real(to, is_negative, is_negative ? 0 - wide : wide);
    return wide & mask_of(t->bits);
}

uint64_t flxi_kscalar_from_double(uint32_t type, double value)
{
    return flxi_kscalar_cast(type, FLX_F64, flxi_f64_bits(value));
}

double flxi_kscalar_to_double(uint32_t type, uint64_t x)
{
    return flxi_f64_of(flxi_kscalar_cast(FLX_F64, type, x));
}

static bool eval_select(const flxi_kx *e, const uint32_t *types, const uint64_t *x, uint64_t *result)
{
    *result = x[0] ? x[1] : x[2];
    return flxi_ktype_fits(types[0], TAKES_TRUTH) && types[1] == types[2] && e->type == types[1];
}

bool flxi_kscalar_eval(const flxi_kx *e, const uint32_t *types, const uint64_t *x, uint64_t *result)
{
    if (!e->type)
        return false;
    switch ((flxi_kx_kind)e->kind) {
    case KX_UNARY: *result = flxi_kscalar_unary((flxi_kunary)e->op, types[0], x[0]); return true;
    case KX_BINARY: *result = flxi_kscalar_binary((flxi_kbinary)e->op, types[0], x[0], x[1]); return true;
    case KX_SELECT: return eval_select(e, types, x, result);
    case KX_FMA: *result = flxi_kscalar_fma(e->type, x[0], x[1], x[2]); return true;
    case KX_CAST:
        *result = flxi_kscalar_cast(e->type, types[0], x[0]);
        return flxi_ktype_fits(e->type, TAKES_ANY) && flxi_ktype_fits(types[0], TAKES_ANY);
    case KX_BITCAST: *result = x[0]; return flxi_ktype_of(e->type)->bits == flxi_ktype_of(types[0])->bits;
    default: return false;
    }
}

/* ---- Elements of buffers ---- */

const float flxi_kfp4[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

const float flxi_knf4[16] = {
    -1,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1,
};

/* The code of the value nearest to x in an ascending table; of two equally near, the even code. */
static uint8_t nearest(const float *values, int count, double x)
{
    int code = 0;
    for (int i = 0; i + 1 < count; i++) {
        double middle = ((double)values[i] + (double)values[i + 1]) / 2;
        if (x > middle || (x == middle && i % 2 == 1))
            code = i + 1;
    }
    return (uint8_t)code;
}

static uint8_t to_fp4(double x)
{
    if (x != x)
        return 0;
    return (uint8_t)(nearest(flxi_kfp4, 8, fabs(x)) | (signbit(x) ? 8 : 0));
}

static uint8_t to_nf4(double x)
{
    return x != x ? 7 : nearest(flxi_knf4, 16, x);
}

static uint8_t to_f8(uint32_t element, double x)
{
    x = x != x ? (double)NAN : x;
    return element == FLX_KERNEL_F8E4M3 ? flxi_to_f8_e4m3(x) : flxi_to_f8_e5m2(x);
}

static uint64_t load_narrow(uint32_t element, const unsigned char *at, uint64_t index)
{
    unsigned half = at[index / 2] >> (index % 2 * 4) & 15;
    switch (element) {
    case FLX_KERNEL_I4: return (uint64_t)extend(half, 4) & UINT32_MAX;
    case FLX_KERNEL_U4: return half;
    case FLX_KERNEL_FP4: return flxi_f32_bits(flxi_kfp4[half]);
    default: return flxi_f32_bits(flxi_knf4[half]);
    }
}

uint64_t flxi_kscalar_load(uint32_t element, const void *memory, uint64_t index)
{
    const unsigned char *at = memory;
    uint32_t word;
    uint16_t half;
    uint64_t pair;
    switch (element) {
    case FLX_F64:
    case FLX_I64:
    case FLX_U64: memcpy(&pair, at + index * 8, 8); return pair;
    case FLX_F32:
    case FLX_I32:
    case FLX_U32: memcpy(&word, at + index * 4, 4); return word;
    case FLX_BOOL: memcpy(&word, at + index * 4, 4); return word != 0;
    case FLX_F16:
    case FLX_BF16:
    case FLX_I16:
    case FLX_U16: memcpy(&half, at + index * 2, 2); return half;
    case FLX_I8:
    case FLX_U8: return at[index];
    case FLX_KERNEL_F8E4M3: return round_to(FLX_F32, flxi_from_f8_e4m3(at[index]));
    case FLX_KERNEL_F8E5M2: return round_to(FLX_F32, flxi_from_f8_e5m2(at[index]));
    case FLX_KERNEL_I4:
    case FLX_KERNEL_U4:
    case FLX_KERNEL_FP4:
    case FLX_KERNEL_NF4: return load_narrow(element, at, index);
    default: return 0;
    }
}

static void store_narrow(unsigned char *at, uint64_t index, uint64_t code)
{
    unsigned shift = index % 2 * 4;
    unsigned char *byte = &at[index / 2];
    *byte = (unsigned char)((*byte & (0xf0u >> shift)) | (code & 15) << shift);
}

void flxi_kscalar_store(uint32_t element, void *memory, uint64_t index, uint64_t value)
{
    unsigned char *at = memory;
    uint32_t word = (uint32_t)value;
    uint16_t half = (uint16_t)value;
    switch (element) {
    case FLX_F64:
    case FLX_I64:
    case FLX_U64: memcpy(at + index * 8, &value, 8); break;
    case FLX_F32:
    case FLX_I32:
    case FLX_U32:
    case FLX_BOOL: memcpy(at + index * 4, &word, 4); break;
    case FLX_F16:
    case FLX_BF16:
    case FLX_I16:
    case FLX_U16: memcpy(at + index * 2, &half, 2); break;
    case FLX_I8:
    case FLX_U8: at[index] = (unsigned char)value; break;
    case FLX_KERNEL_F8E4M3:
    case FLX_KERNEL_F8E5M2: at[index] = to_f8(element, real_of(FLX_F32, value)); break;
    case FLX_KERNEL_I4:
    case FLX_KERNEL_U4: store_narrow(at, index, value); break;
    case FLX_KERNEL_FP4: store_narrow(at, index, to_fp4(real_of(FLX_F32, value))); break;
    case FLX_KERNEL_NF4: store_narrow(at, index, to_nf4(real_of(FLX_F32, value))); break;
    default: break;
    }
}
