/* SPDX-License-Identifier: Apache-2.0 */
/* vector_math.h: shorthands for the texts of mathematical functions on vectors.

   All functions are branch-free except for sin, cos and tan of huge numbers, use explicit fused multiply-adds (never
   one the compiler might form), and give the same bits on every machine. Special values (NaN, infinities, zeros with
   their signs, subnormals, overflow) are exact; errors in units of the last place: docs/performance.md. */
#ifndef FLXI_VECTOR_MATH_H
#define FLXI_VECTOR_MATH_H

#include "emit/vector/vector_spelling.h"

/* A polynomial in z by Horner's rule: FIRST with the highest coefficient, then one STEP for each lower one. */
#define FIRST(c) "    $v q = @all(" c ");\n"
#define STEP(c) "    q = @fma(q, z, @all(" c "));\n"
#define ROW(name, text)           \
    {                             \
        {name, KBY_TYPE, text}, 0 \
    }

/* Results that are zero because of underflow are not computed: where a product underflows, processors take hundreds of
   cycles for the vector, and rows with masked elements are full of them. */
#define FAR_BELOW(limit)                              \
    "    const $i far = ($i)(x < @all(" limit "));\n" \
    "    x = ($v)(($i)x & ~far);\n"
#define ZERO_FAR_BELOW(value) "    return ($v)(($i)(" value ") & ~far);\n}\n"

/* The same text for both types, with the constants of one. */

/* e^x: the scaled one with nothing added. -0 vanishes in an addition. */
#define TEXT_EXP "$F $v $n($v x)\n{ return @exp_scaled(x, @all(-(($T)0)), ($i){0}); }\n"

/* For arguments too large for the reduction: the library's function, lane by lane. */
#define TEXT_FAR(limit, function)                                   \
    "static __attribute__((noinline, cold)) $v $n($v x, $v y)\n{\n" \
    "    for (int j = 0; j < $k; j++)\n"                            \
    "        if (__builtin_fabs$f(x[j]) > " limit ")\n"             \
    "            y[j] = ($T)%1" function "((k_f64)x[j]);\n"         \
    "    return y;\n}\n"
#define FAR(limit, function)                                  \
    "    if (@any(@mask(($i)(@abs(x) > @all(" limit ")))))\n" \
    "        y = @" function "_far(x, y);\n"

#define REDUCED                            \
    "    $v r;\n"                          \
    "    const $i n = @quadrant(x, &r);\n" \
    "    const $v z = r * r, s = @sin_part(r, z), c = @cos_part(z);\n"

#define TEXT_SIN(limit)                                                           \
    "$F $v $n($v x)\n{\n" REDUCED "    $v y = @pick(($i)((n & 1) != 0), c, s);\n" \
    "    y = ($v)(($u)y ^ ((($u)n & 2) << ($m - 1)));\n" FAR(                     \
        limit, "sin") "    return @pick(($i)(x == @all(($T)0)), x, y);\n}\n"
#define TEXT_COS(limit)                                                           \
    "$F $v $n($v x)\n{\n" REDUCED "    $v y = @pick(($i)((n & 1) != 0), s, c);\n" \
    "    y = ($v)(($u)y ^ ((($u)n + 1 & 2) << ($m - 1)));\n" FAR(limit, "cos") "    return y;\n}\n"
#define TEXT_TAN(limit)                                                                     \
    "$F $v $n($v x)\n{\n" REDUCED                                                           \
    "    $v y = @pick(($i)((n & 1) != 0), c, s) / @pick(($i)((n & 1) != 0), -s, c);\n" FAR( \
        limit, "tan") "    return @pick(($i)(x == @all(($T)0)), x, y);\n}\n"

/* How all logarithms of x treat zero, negative numbers, infinity and NaN. */
#define LOG_ENDS                                                              \
    "    y = @pick(($i)(x < @all(__builtin_inf$f())), y, x);\n"               \
    "    y = @pick(($i)(x < @all(($T)0)), @all(__builtin_nan$f(\"\")), y);\n" \
    "    return @pick(($i)(x == @all(($T)0)), @all(-__builtin_inf$f()), y);\n"

#define TEXT_LOG(ln2_high, ln2_low)         \
    "$F $v $n($v x)\n{\n"                   \
    "    $v f;\n"                           \
    "    const $v e = @log_split(x, &f);\n" \
    "    $v y = @fma(e, @all(" ln2_high "), f + @fma(e, @all(" ln2_low "), @log_rest(f)));\n" LOG_ENDS "}\n"

/* Another base: f and the rest times 1/ln(base), in two parts each. */
#define TEXT_LOG_BASE(high, low, log2_high, log2_low)                                                            \
    "$F $v $n($v x)\n{\n"                                                                                        \
    "    $v f;\n"                                                                                                \
    "    const $v e = @log_split(x, &f);\n"                                                                      \
    "    const $v small = @fma(@log_rest(f), @all(" high "), @fma(e, @all(" log2_low "), f * @all(" low ")));\n" \
    "    $v y = @fma(e, @all(" log2_high "), @fma(f, @all(" high "), small));\n" LOG_ENDS "}\n"

/* log(u) for u = 1 + x, and the rounding error of the sum; near 0 the sum is not needed. */
#define TEXT_LOG1P(ln2_high, ln2_low)                                                       \
    "$F $v $n($v x)\n{\n"                                                                   \
    "    const $v one = @all(($T)1), u = one + x;\n"                                        \
    "    const $i near = ($i)(x > @all(($T)-0.25)) & ($i)(x < @all(($T)0.375));\n"          \
    "    const $v lost = @pick(($i)(x > one), one - (u - x), x - (u - one)) / u;\n"         \
    "    $v g;\n"                                                                           \
    "    const $v d = @log_split(u, &g), e = ($v)(($i)d & ~near), f = @pick(near, x, g);\n" \
    "    const $v rest = @log_rest(f) + ($v)(($i)lost & ~near);\n"                          \
    "    $v y = @fma(e, @all(" ln2_high "), f + @fma(e, @all(" ln2_low "), rest));\n"       \
    "    y = @pick(($i)(u < @all(__builtin_inf$f())), y, u);\n"                             \
    "    y = @pick(($i)(u < @all(($T)0)), @all(__builtin_nan$f(\"\")), y);\n"               \
    "    y = @pick(($i)(u == @all(($T)0)), @all(-__builtin_inf$f()), y);\n"                 \
    "    return @pick(($i)(x == @all(($T)0)), x, y);\n}\n"

#define TEXT_SIGMOID                                        \
    "$F $v $n($v x)\n{\n"                                   \
    "    const $v e = @exp(-@abs(x)), one = @all(($T)1);\n" \
    "    return @pick(($i)(x < @all(($T)0)), e, one) / (one + e);\n}\n"

#define TEXT_COSH                                                           \
    "$F $v $n($v x)\n{\n"                                                   \
    "    const $v e = @exp_scaled(@abs(x), @all(-(($T)0)), ($i){0} - 1);\n" \
    "    return e + @all(($T)0.25) / e;\n}\n"

#define TEXT_SINH                                                                             \
    "$F $v $n($v x)\n{\n"                                                                     \
    "    const $v a = @abs(x), z = a * a, e = @exp_scaled(a, @all(-(($T)0)), ($i){0} - 1);\n" \
    "    const $v near = @fma(@sinh_part(z), z * a, a);\n"                                    \
    "    const $v y = @pick(($i)(a < @all(($T)1)), near, e - @all(($T)0.25) / e);\n"          \
    "    return @copysign(y, x);\n}\n"

/* log(a + sqrt(a^2 + 1)) as log1p of what it has more than 1; from `limit` on log(2 a), where 1 is negligible. */
#define TEXT_ASINH(limit, ln2)                                               \
    "$F $v $n($v x)\n{\n"                                                    \
    "    const $v a = @abs(x), one = @all(($T)1);\n"                         \
    "    const $i is_large = ($i)(a > @all(" limit "));\n"                   \
    "    const $v b = @pick(is_large, one, a), z = b * b;\n"                 \
    "    const $v t = @pick(is_large, a, b + z / (one + @sqrt(one + z)));\n" \
    "    const $v y = @log1p(t) + ($v)(is_large & ($i)@all(" ln2 "));\n"     \
    "    return @copysign(y, x);\n}\n"

#define TEXT_ACOSH(limit, ln2)                                             \
    "$F $v $n($v x)\n{\n"                                                  \
    "    const $v one = @all(($T)1);\n"                                    \
    "    const $i is_large = ($i)(x > @all(" limit "));\n"                 \
    "    const $v b = @pick(is_large, one, x - one);\n"                    \
    "    const $v t = @pick(is_large, x, b + @sqrt(@fma(b, b, b + b)));\n" \
    "    const $v y = @log1p(t) + ($v)(is_large & ($i)@all(" ln2 "));\n"   \
    "    return @pick(($i)(x < one), @all(__builtin_nan$f(\"\")), y);\n}\n"

#define TEXT_ATANH                                                                         \
    "$F $v $n($v x)\n{\n"                                                                  \
    "    const $v a = @abs(x), y = @log1p((a + a) / (@all(($T)1) - a)) * @all(($T)0.5);\n" \
    "    return @copysign(y, x);\n}\n"

/* The larger operand is moved away from the ends of the range by a power of two. */
#define TEXT_HYPOT(high, low, down, up)                                                          \
    "$F $v $n($v x, $v y)\n{\n"                                                                  \
    "    const $v a = @abs(x), b = @abs(y), one = @all(($T)1), inf = @all(__builtin_inf$f());\n" \
    "    const $v p = @pick(($i)(a > b), a, b), q = @pick(($i)(a > b), b, a);\n"                 \
    "    const $i is_high = ($i)(p > @all(" high ")), is_low = ($i)(p < @all(" low "));\n"       \
    "    const $v s = @pick(is_high, @all(" down "), @pick(is_low, @all(" up "), one));\n"       \
    "    const $v back = @pick(is_high, @all(" up "), @pick(is_low, @all(" down "), one));\n"    \
    "    const $v r = @sqrt(@fma(p * s, p * s, (q * s) * (q * s))) * back;\n"                    \
    "    return @pick(($i)((a == inf) | (b == inf)), inf, r);\n}\n"

/* A quotient below `limit`, 2 to the bits of a mantissa, is rounded up to the next integer at most, never down to less
   than the true one. So the remainder is exact, and negative where the quotient is one too large. */
#define TEXT_MOD(limit)                                                                           \
    "$F $v $n($v x, $v y)\n{\n"                                                                   \
    "    const $v a = @abs(x), b = @abs(y), zero = @all(($T)0), inf = @all(__builtin_inf$f());\n" \
    "    const $v t = a / b;\n"                                                                   \
    "    const $i is_defined = ($i)(a < inf) & ($i)(b > zero);\n"                                 \
    "    $v r = @fma(-@trunc(t), b, a);\n"                                                        \
    "    r = @pick(($i)(r < zero), r + b, r);\n"                                                  \
    "    r = @pick(($i)(b == inf), a, r);\n"                                                      \
    "    if (@any(@mask(is_defined & ($i)(t >= @all(" limit ")))))\n"                             \
    "        r = @mod_far(a, b, r);\n"                                                            \
    "    return @copysign(@pick(is_defined, r, @all(__builtin_nan$f(\"\"))), x);\n}\n"
#define TEXT_MOD_FAR(limit)                                               \
    "static __attribute__((noinline, cold)) $v $n($v a, $v b, $v r)\n{\n" \
    "    for (int j = 0; j < $k; j++)\n"                                  \
    "        if (a[j] / b[j] >= " limit ")\n"                             \
    "            r[j] = ($T)%2fmod((k_f64)a[j], (k_f64)b[j]);\n"          \
    "    return r;\n}\n"

/* The rules of signs and special cases for the power r of a = |x|. */
#define POW_ENDS                                                                                    \
    "    const $i is_whole = ($i)(@rint(y) == y), is_odd = is_whole & ($i)(@rint(half) != half);\n" \
    "    r = @pick(($i)((a == one) & (y == y)), one, r);\n"                                         \
    "    r = ($v)(($i)r | (is_odd & ($i)x & ($i)@all(-(($T)0))));\n"                                \
    "    r = @pick(($i)((x < zero) & (a < @all(__builtin_inf$f())) & ~is_whole & (y == y)), "       \
    "@all(__builtin_nan$f(\"\")), r);\n"                                                            \
    "    return @pick(($i)((y == zero) | (x == one)), one, r);\n}\n"

#define TEXT_ATAN(half_pi, half_pi_low)                                                       \
    "$F $v $n($v x)\n{\n"                                                                     \
    "    const $v a = @abs(x), one = @all(($T)1);\n"                                          \
    "    const $i is_large = ($i)(a > one);\n"                                                \
    "    const $v p = @atan_part(@pick(is_large, one / a, a));\n"                             \
    "    const $v y = @pick(is_large, @all(" half_pi ") - (p - @all(" half_pi_low ")), p);\n" \
    "    return @copysign(y, x);\n}\n"

#define TEXT_ATAN2(half_pi, half_pi_low, pi, pi_low)                                    \
    "$F $v $n($v y, $v x)\n{\n"                                                         \
    "    const $v a = @abs(x), b = @abs(y), zero = @all(($T)0);\n"                      \
    "    const $i is_steep = ($i)(b > a), is_same = ($i)(a == b);\n"                    \
    "    const $v big = @pick(is_steep, b, a), small = @pick(is_steep, a, b);\n"        \
    "    $v t = small / big;\n"                                                         \
    "    t = @pick(is_same, @pick(($i)(a == zero), zero, @all(($T)1)), t);\n"           \
    "    $v p = @atan_part(t);\n"                                                       \
    "    p = @pick(is_steep, @all(" half_pi ") - (p - @all(" half_pi_low ")), p);\n"    \
    "    p = @pick(($i)(($i)x < ($i){0}), @all(" pi ") - (p - @all(" pi_low ")), p);\n" \
    "    p = @pick(($i)((a != a) | (b != b)), a + b, p);\n"                             \
    "    return @copysign(p, y);\n}\n"

/* Both: P of a small argument w, where w^2 = z. */
#define ASIN_CORE                                                                                    \
    "    const $v a = @abs(x), half = @all(($T)0.5), one = @all(($T)1);\n"                           \
    "    const $i is_large = ($i)(a > half);\n"                                                      \
    "    const $v z = @pick(is_large, (one - a) * half, a * a), w = @pick(is_large, @sqrt(z), a);\n" \
    "    const $v p = @fma(w * z, @asin_part(z), w);\n"

#define TEXT_ASIN(half_pi, half_pi_low)                                                                               \
    "$F $v $n($v x)\n{\n" ASIN_CORE "    const $v y = @pick(is_large, @all(" half_pi ") - (p + p - @all(" half_pi_low \
    ")), p);\n"                                                                                                       \
    "    return @copysign(y, x);\n}\n"

#define TEXT_ACOS(half_pi, half_pi_low, pi, pi_low)                                                 \
    "$F $v $n($v x)\n{\n" ASIN_CORE "    const $v zero = @all(($T)0), s = @copysign(p, x);\n"       \
    "    const $v far = @pick(($i)(x < zero), @all(" pi ") - (p + p - @all(" pi_low ")), p + p);\n" \
    "    return @pick(is_large, far, @all(" half_pi ") - (s - @all(" half_pi_low ")));\n}\n"

#endif
