/* SPDX-License-Identifier: Apache-2.0 */
/* vector_math_f32.c: mathematical functions on vectors of f32, as texts. Polynomials are our own minimax fits, the
   reductions those of Cody and Waite with the remainder of a constant in a second (third) part. */
#include "emit/vector/vector_math.h"

#define FARTHEST "0x1p17f"

/* x = n ln 2 + r; the magic number makes the sum's last bit worth 1. */
#define SPLIT_EXP                                                                                     \
    "    const $v magic = @all(0x1.8p23f), t = @fma(x, @all(0x1.715476p0f), magic), k = t - magic;\n" \
    "    const $v z = @fma(k, @all(0x1.05c610p-29f), @fma(k, @all(-0x1.62e430p-1f), x) + y);\n"

const flxi_vhelper flxi_vector_math_f32[] = {
    /* e^z - 1 for |z| <= ln(2) / 2 */
    ROW("exp_part", "$F $v $n($v z)\n{\n" FIRST("0x1.6db44ap-10f") STEP("0x1.123b64p-7f") STEP("0x1.55545ep-5f")
                        STEP("0x1.55548ep-3f") STEP("0.5f") "    return @fma(q * z, z, z);\n}\n"),
    /* e^(x + y) 2^n for a small y; in two steps, because 2^n alone may overflow or underflow */
    ROW("exp_scaled", "$F $v $n($v x, $v y, $i n)\n{\n"
                      "    x = @pick(($i)(x > @all(90.0f)), @all(90.0f), x);\n" FAR_BELOW("-106.0f") SPLIT_EXP
        "    const $i m = ($i)(($u)t - ($u)magic + ($u)n), h = m >> 1;\n" ZERO_FAR_BELOW(
            "(@all(1.0f) + @exp_part(z)) * ($v)((($u)h + 127) << 23) * ($v)((($u)m - ($u)h + 127) << 23)")),
    ROW("exp", TEXT_EXP),
    ROW("exp2", "$F $v $n($v x)\n{\n"
                "    x = @pick(($i)(x > @all(130.0f)), @all(130.0f), x);\n" FAR_BELOW(
                    "-152.0f") "    const $v magic = @all(0x1.8p23f), t = x + magic, d = x - (t - magic);\n"
                               "    const $v c = @all(0x1.62e430p-1f), z = d * c, low = @fma(d, c, -z);\n"
                               "    const $v p = @exp_part(z) + @fma(d, @all(-0x1.05c610p-29f), low);\n"
                               "    const $i m = ($i)(($u)t - ($u)magic), h = m >> 1;\n" ZERO_FAR_BELOW(
                                   "(@all(1.0f) + p) * ($v)((($u)h + 127) << 23) * ($v)((($u)m - ($u)h + 127) << 23)")),
    ROW("expm1", "$F $v $n($v a)\n{\n"
                 "    $v x = @pick(($i)(a > @all(89.0f)), @all(89.0f), a);\n"
                 "    x = @pick(($i)(x < @all(-20.0f)), @all(-20.0f), x);\n"
                 "    const $v y = @all(-0.0f);\n" SPLIT_EXP "    const $u m = ($u)t - ($u)magic;\n"
                 "    const $v half = @all(0.5f), s = ($v)((m + 126) << 23);\n"
                 "    const $v r = @fma(@exp_part(z), s, s - half);\n"
                 "    return @pick(($i)(@abs(a) < @all(0x1p-25f)), a, r + r);\n}\n"),

    /* x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2) */
    ROW("log_split", "$F $v $n($v x, $v *f)\n{\n"
                     "    const $i is_small = ($i)(x < @all(0x1p-126f));\n"
                     "    const $u d = ($u)@pick(is_small, x * @all(0x1p23f), x) - 0x3f3504f3;\n"
                     "    *f = ($v)((d & 0x7fffff) + 0x3f3504f3) - @all(1.0f);\n"
                     "    return __builtin_convertvector((($i)d >> 23) - (is_small & 23), $v);\n}\n"),
    /* log(1 + z) - z */
    ROW("log_rest", "$F $v $n($v z)\n{\n" FIRST("0x1.1456eep-4f") STEP("-0x1.de3b84p-4f") STEP("0x1.e6f078p-4f") STEP(
                        "-0x1.fc2224p-4f") STEP("0x1.233768p-3f") STEP("-0x1.555c4cp-3f") STEP("0x1.99a4b6p-3f")
                        STEP("-0x1.000006p-2f") STEP("0x1.555548p-2f") STEP("-0.5f") "    return q * (z * z);\n}\n"),
    ROW("log", TEXT_LOG("0x1.62e4p-1f", "0x1.7f7d1cp-20f")),
    ROW("log2", TEXT_LOG_BASE("0x1.715476p0f", "0x1.4ae0cp-26f", "1.0f", "0.0f")),
    ROW("log10", TEXT_LOG_BASE("0x1.bcb7b2p-2f", "-0x1.5b235ep-27f", "0x1.3442p-2f", "-0x1.95ec1p-19f")),
    ROW("log1p", TEXT_LOG1P("0x1.62e4p-1f", "0x1.7f7d1cp-20f")),

    /* x = n pi / 2 + r */
    ROW("quadrant", "$F $i $n($v x, $v *r)\n{\n"
                    "    const $v magic = @all(0x1.8p23f), t = @fma(x, @all(0x1.45f306p-1f), magic), k = t - magic;\n"
                    "    const $v near = @fma(k, @all(0x1.777a5cp-25f), @fma(k, @all(-0x1.921fb6p0f), x));\n"
                    "    *r = @fma(k, @all(0x1.ee59dap-50f), near);\n"
                    "    return ($i)(($u)t - ($u)magic);\n}\n"),
    ROW("sin_part", "$F $v $n($v r, $v z)\n{\n" FIRST("-0x1.994b36p-13f") STEP("0x1.110756p-7f")
                        STEP("-0x1.555546p-3f") "    return @fma(q, z * r, r);\n}\n"),
    ROW("cos_part", "$F $v $n($v z)\n{\n" FIRST("0x1.99e868p-16f") STEP("-0x1.6c0c28p-10f") STEP("0x1.55554ap-5f")
                        STEP("-0.5f") STEP("1.0f") "    return q;\n}\n"),
    ROW("sin_far", TEXT_FAR(FARTHEST, "sin")),
    ROW("cos_far", TEXT_FAR(FARTHEST, "cos")),
    ROW("tan_far", TEXT_FAR(FARTHEST, "tan")),
    ROW("sin", TEXT_SIN(FARTHEST)),
    ROW("cos", TEXT_COS(FARTHEST)),
    ROW("tan", TEXT_TAN(FARTHEST)),

    ROW("tanh", "$F $v $n($v x)\n{\n"
                "    const $v a = @abs(x), z = a * a, one = @all(1.0f);\n"
                "    const $v e = @exp(@pick(($i)(a > @all(9.5f)), @all(19.0f), a + a));\n" FIRST("-0x1.762d42p-8f")
                    STEP("0x1.523bbcp-6f") STEP("-0x1.b84058p-5f") STEP("0x1.11074cp-3f")
                        STEP("-0x1.555534p-2f") "    const $v y = @pick(($i)(a < @all(0.625f)), @fma(q, z * a, a), one "
                                                "- @all(2.0f) / (e + one));\n"
                                                "    return @copysign(y, x);\n}\n"),
    ROW("sigmoid", TEXT_SIGMOID),
    ROW("sinh_part", "$F $v $n($v z)\n{\n" FIRST("0x1.7a5d1ap-19f") STEP("0x1.9ffd06p-13f") STEP("0x1.111136p-7f")
                         STEP("0x1.555556p-3f") "    return q;\n}\n"),
    ROW("sinh", TEXT_SINH),
    ROW("cosh", TEXT_COSH),
    ROW("asinh", TEXT_ASINH("0x1p25f", "0x1.62e430p-1f")),
    ROW("acosh", TEXT_ACOSH("0x1p25f", "0x1.62e430p-1f")),
    ROW("atanh", TEXT_ATANH),
    ROW("hypot", TEXT_HYPOT("0x1p60f", "0x1p-60f", "0x1p-100f", "0x1p100f")),
    ROW("mod_far", TEXT_MOD_FAR("0x1p24f")),
    ROW("mod", TEXT_MOD("0x1p24f")),

    /* (erf(x) - x) / x of z = x^2 */
    ROW("erf_part", "$F $v $n($v z)\n{\n" FIRST("0x1.4922d4p-14f") STEP("-0x1.a3de2ep-11f") STEP("0x1.54027ap-8f")
                        STEP("-0x1.b7f8acp-6f") STEP("0x1.ce2cf2p-4f") STEP("-0x1.81273ep-2f")
                            STEP("0x1.06eba8p-3f") "    return q;\n}\n"),
    ROW("erf", "$F $v $n($v x)\n{\n"
               "    const $v b = @abs(x), one = @all(1.0f), near = @fma(b, @erf_part(b * b), b);\n"
               "    const $v z = @pick(($i)(b > @all(4.0f)), @all(4.0f), b);\n" FIRST("-0x1.448596p-13f")
                   STEP("0x1.5b31d2p-9f") STEP("-0x1.5314dcp-6f") STEP("0x1.9d0be2p-4f") STEP("0x1.47fd9ap-1f")
                       STEP("0x1.202db4p0f")
                           STEP("0x1.5af26ap-11f") "    const $v y = @pick(($i)(b < one), near, one - @exp(-q));\n"
                                                   "    return @copysign(y, x);\n}\n"),
    ROW("erfc", "$F $v $n($v x)\n{\n"
                "    const $v b = @abs(x), one = @all(1.0f), two = @all(2.0f);\n"
                "    const $v near = one - @fma(x, @erf_part(x * x), x);\n"
                "    const $v a = @pick(($i)(b > @all(10.1f)), @all(10.1f), b), z = (a - two) / (a + two);\n"
                "    const $v square = a * a, rest = @fma(a, a, -square);\n" FIRST("-0x1.defde6p-13f")
                    STEP("-0x1.4bdc8ap-10f") STEP("0x1.2d439ep-10f") STEP("0x1.1bc066p-7f") STEP("-0x1.065b82p-7f")
                        STEP("-0x1.bc1958p-5f") STEP("0x1.4ff8d6p-3f") STEP("-0x1.5407f8p-3f") STEP("-0x1.7bf5dcp-4f")
                            STEP("0x1.46e80ep0f") "    const $v e = @exp_scaled(-square, -rest, ($i){0}), far = e * (q "
                                                  "/ @fma(two, a, one));\n"
                                                  "    const $v y = @pick(($i)(x < @all(0.0f)), two - far, far);\n"
                                                  "    return @pick(($i)(b < @all(0.5f)), near, y);\n}\n"),

    ROW("atan_part", "$F $v $n($v x)\n{\n    const $v z = x * x;\n" FIRST("-0x1.c919cep-10f") STEP("0x1.6034f4p-7f")
                         STEP("-0x1.fbc2e4p-6f") STEP("0x1.da6d8p-5f") STEP("-0x1.58801ap-4f") STEP("0x1.c0dd1p-4f")
                             STEP("-0x1.242cbep-3f") STEP("0x1.999388p-3f")
                                 STEP("-0x1.555548p-2f") "    return @fma(q, z * x, x);\n}\n"),
    ROW("asin_part", "$F $v $n($v z)\n{\n" FIRST("0x1.5c995ep-5f") STEP("0x1.8a269p-6f") STEP("0x1.74747cp-5f")
                         STEP("0x1.3305c8p-4f") STEP("0x1.5555acp-3f") "    return q;\n}\n"),
    ROW("atan", TEXT_ATAN("0x1.921fb6p0f", "-0x1.777a5cp-25f")),
    ROW("atan2", TEXT_ATAN2("0x1.921fb6p0f", "-0x1.777a5cp-25f", "0x1.921fb6p1f", "-0x1.777a5cp-24f")),
    ROW("asin", TEXT_ASIN("0x1.921fb6p0f", "-0x1.777a5cp-25f")),
    ROW("acos", TEXT_ACOS("0x1.921fb6p0f", "-0x1.777a5cp-25f", "0x1.921fb6p1f", "-0x1.777a5cp-24f")),

    /* |x|^y in f64, each half of the lanes separately; then signs and special cases. */
    ROW("pow_half", "$F $t $n($t x, $t y)\n"
                    "{ return __builtin_convertvector(@/exp2_short:f64(__builtin_convertvector(y, $d) * "
                    "@/log2_short:f64(__builtin_convertvector(x, $d))), $t); }\n"),
    ROW("pow", "$F $v $n($v x, $v y)\n{\n"
               "    const $v a = @abs(x), one = @all(1.0f), zero = @all(0.0f), half = y * @all(0.5f);\n"
               "    $t xs[2], ys[2], rs[2];\n"
               "    __builtin_memcpy(xs, &a, sizeof a);\n"
               "    __builtin_memcpy(ys, &y, sizeof y);\n"
               "    rs[0] = @pow_half(xs[0], ys[0]);\n"
               "    rs[1] = @pow_half(xs[1], ys[1]);\n"
               "    $v r;\n"
               "    __builtin_memcpy(&r, rs, sizeof r);\n" POW_ENDS),
    {{NULL, 0, NULL}, 0},
};
