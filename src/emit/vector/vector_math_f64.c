/* SPDX-License-Identifier: Apache-2.0 */
/* vector_math_f64.c: mathematical functions on vectors of f64, as texts; see vector_math_f32.c. There are no
   conversions between f64 and integers of 64 bits and no signed shifts: AVX2 has neither, but the magic number does
   the same. */
#include "emit/vector/vector_math.h"

#define FARTHEST "1e6"

#define SPLIT_EXP                                                                                          \
    "    const $v magic = @all(0x1.8p52), t = @fma(x, @all(0x1.71547652b82fep0), magic), k = t - magic;\n" \
    "    const $v z = @fma(k, @all(-0x1.abc9e3b39803fp-56), @fma(k, @all(-0x1.62e42fefa39efp-1), x) + y);\n"
/* (1 + p) 2^m in two steps. */
#define SCALE(p)                                                 \
    "    const $u h = (m + 4096 >> 1) - 2048;\n" ZERO_FAR_BELOW( \
        "(@all(1.0) + " p ") * ($v)((h + 1023) << 52) * ($v)((m - h + 1023) << 52)")

const flxi_vhelper flxi_vector_math_f64[] = {
    ROW("exp_part", "$F $v $n($v z)\n{\n" FIRST("0x1.af38b4925be09p-26") STEP("0x1.28918e390a71ep-22")
                        STEP("0x1.71de0da9d06acp-19") STEP("0x1.a019b905bafb1p-16") STEP("0x1.a01a01a7c54aep-13")
                            STEP("0x1.6c16c1788dc33p-10") STEP("0x1.11111111109b2p-7") STEP("0x1.5555555553d5ep-5")
                                STEP("0x1.5555555555556p-3") STEP("0.5") "    return @fma(q * z, z, z);\n}\n"),
    ROW("exp_scaled", "$F $v $n($v x, $v y, $i n)\n{\n"
                      "    x = @pick(($i)(x > @all(711.0)), @all(711.0), x);\n" FAR_BELOW("-747.0") SPLIT_EXP
        "    const $u m = ($u)t - ($u)magic + ($u)n;\n" SCALE("@exp_part(z)")),
    ROW("exp", TEXT_EXP),
    ROW("exp2", "$F $v $n($v x)\n{\n"
                "    x = @pick(($i)(x > @all(1026.0)), @all(1026.0), x);\n" FAR_BELOW(
                    "-1078.0") "    const $v magic = @all(0x1.8p52), t = x + magic, d = x - (t - magic);\n"
                               "    const $v c = @all(0x1.62e42fefa39efp-1), z = d * c, low = @fma(d, c, -z);\n"
                               "    const $v p = @exp_part(z) + @fma(d, @all(0x1.abc9e3b39803fp-56), low);\n"
                               "    const $u m = ($u)t - ($u)magic;\n" SCALE("p")),
    ROW("expm1", "$F $v $n($v a)\n{\n"
                 "    $v x = @pick(($i)(a > @all(710.0)), @all(710.0), a);\n"
                 "    x = @pick(($i)(x < @all(-40.0)), @all(-40.0), x);\n"
                 "    const $v y = @all(-0.0);\n" SPLIT_EXP "    const $u m = ($u)t - ($u)magic;\n"
                 "    const $v half = @all(0.5), s = ($v)((m + 1022) << 52);\n"
                 "    const $v r = @fma(@exp_part(z), s, s - half);\n"
                 "    return @pick(($i)(@abs(a) < @all(0x1p-54)), a, r + r);\n}\n"),

    ROW("log_split", "$F $v $n($v x, $v *f)\n{\n"
                     "    const $i is_small = ($i)(x < @all(0x1p-1022));\n"
                     "    const $u d = ($u)@pick(is_small, x * @all(0x1p52), x) - 0x3fe6a09e667f3bcd;\n"
                     "    const $v magic = @all(0x1.8p52);\n"
                     "    const $i e = ($i)((d + 0x3ff0000000000000) >> 52) - (is_small & 52);\n"
                     "    *f = ($v)((d & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - @all(1.0);\n"
                     "    return ($v)(($i)magic + e) - (magic + @all(1023.0));\n}\n"),
    ROW("log_rest", "$F $v $n($v f)\n{\n"
                    "    const $v s = f / (@all(2.0) + f), z = s * s, h = f * f * @all(0.5);\n" FIRST(
                        "0x1.2f0d902bd2395p-3") STEP("0x1.39a0f4e0ff09p-3") STEP("0x1.7466462d7fa26p-3")
                        STEP("0x1.c71c51e7f5434p-3") STEP("0x1.24924942179ebp-2") STEP("0x1.999999997fb32p-2")
                            STEP("0x1.5555555555593p-1") "    return @fma(s, @fma(q, z, h), -h);\n}\n"),
    ROW("log", TEXT_LOG("0x1.62e42fefa38p-1", "0x1.ef35793c7673p-45")),
    ROW("log2", TEXT_LOG_BASE("0x1.71547652b82fep0", "0x1.777d0ffda0d24p-56", "1.0", "0.0")),
    ROW("log10",
        TEXT_LOG_BASE("0x1.bcb7b1526e50ep-2", "0x1.95355baaafad3p-57", "0x1.34413509f78p-2", "0x1.fef311f12b358p-46")),
    ROW("log1p", TEXT_LOG1P("0x1.62e42fefa38p-1", "0x1.ef35793c7673p-45")),

    ROW("quadrant",
        "$F $i $n($v x, $v *r)\n{\n"
        "    const $v magic = @all(0x1.8p52), t = @fma(x, @all(0x1.45f306dc9c883p-1), magic), k = t - magic;\n"
        "    const $v near = @fma(k, @all(-0x1.1a62633145c07p-54), @fma(k, @all(-0x1.921fb54442d18p0), x));\n"
        "    *r = @fma(k, @all(0x1.f1976b7ed8fbcp-110), near);\n"
        "    return ($i)(($u)t - ($u)magic);\n}\n"),
    ROW("sin_part", "$F $v $n($v r, $v z)\n{\n" FIRST("0x1.5d915d7900a2dp-33") STEP("-0x1.ae5e60c284a2ep-26")
                        STEP("0x1.71de3570faf18p-19") STEP("-0x1.a01a019c0a266p-13") STEP("0x1.111111110f841p-7")
                            STEP("-0x1.5555555555549p-3") "    return @fma(q, z * r, r);\n}\n"),
    ROW("cos_part", "$F $v $n($v z)\n{\n" FIRST("-0x1.8fa28f920131cp-37") STEP("0x1.1ee9d3d9e6796p-29")
                        STEP("-0x1.27e4f7e53a56dp-22") STEP("0x1.a01a019c7cd45p-16") STEP("-0x1.6c16c16c14f47p-10")
                            STEP("0x1.555555555554bp-5") STEP("-0.5") STEP("1.0") "    return q;\n}\n"),
    ROW("sin_far", TEXT_FAR(FARTHEST, "sin")),
    ROW("cos_far", TEXT_FAR(FARTHEST, "cos")),
    ROW("tan_far", TEXT_FAR(FARTHEST, "tan")),
    ROW("sin", TEXT_SIN(FARTHEST)),
    ROW("cos", TEXT_COS(FARTHEST)),
    ROW("tan", TEXT_TAN(FARTHEST)),

    ROW("tanh", "$F $v $n($v x)\n{\n"
                "    const $v a = @abs(x), z = a * a, one = @all(1.0);\n"
                "    const $v e = @exp(@pick(($i)(a > @all(20.0)), @all(40.0), a + a));\n" FIRST(
                    "0x1.9533e6bcf890cp-18") STEP("-0x1.fa4fba1ec5f2p-16") STEP("0x1.7ffe794089c89p-14")
                    STEP("-0x1.f10b093acbbc7p-13") STEP("0x1.350ac776f9cdp-11") STEP("-0x1.7d9c1bd076234p-10")
                        STEP("0x1.d6d35850cdeeap-9") STEP("-0x1.226e32c22ed6ep-7") STEP("0x1.664f487047e21p-6")
                            STEP("-0x1.ba1ba1b9cee07p-5") STEP("0x1.1111111110c1p-3")
                                STEP("-0x1.5555555555552p-2") "    const $v y = @pick(($i)(a < @all(0.625)), @fma(q, z "
                                                              "* a, a), one - @all(2.0) / (e + one));\n"
                                                              "    return @copysign(y, x);\n}\n"),
    ROW("sigmoid", TEXT_SIGMOID),
    ROW("sinh_part", "$F $v $n($v z)\n{\n" FIRST("0x1.b4df516762d3bp-41") STEP("0x1.611a1896ea947p-33")
                         STEP("0x1.ae64677d474c2p-26") STEP("0x1.71de3a4645733p-19") STEP("0x1.a01a01a028038p-13")
                             STEP("0x1.11111111110b5p-7") STEP("0x1.5555555555556p-3") "    return q;\n}\n"),
    ROW("sinh", TEXT_SINH),
    ROW("cosh", TEXT_COSH),
    ROW("asinh", TEXT_ASINH("0x1p54", "0x1.62e42fefa39efp-1")),
    ROW("acosh", TEXT_ACOSH("0x1p54", "0x1.62e42fefa39efp-1")),
    ROW("atanh", TEXT_ATANH),
    ROW("hypot", TEXT_HYPOT("0x1p500", "0x1p-500", "0x1p-600", "0x1p600")),
    ROW("mod_far", TEXT_MOD_FAR("0x1p53")),
    ROW("mod", TEXT_MOD("0x1p53")),

    ROW("erf",
        "$F $v $n($v x)\n{\n"
        "    const $v b = @abs(x), one = @all(1.0), two = @all(2.0);\n"
        "    const $v near = @fma(b, @erf_part(b * b), b);\n"
        "    const $v a = @pick(($i)(b > @all(6.0)), @all(6.0), b), z = (a - two) / (a + two);\n" FIRST(
            "0x1.780ade2e97156p-22") STEP("0x1.bcf7129b4808fp-25") STEP("-0x1.1c75b9b0a7e6ap-18")
            STEP("0x1.49e93ab3d1afp-18") STEP("0x1.3a21869222023p-18") STEP("0x1.52d2a310d6467p-19")
                STEP("-0x1.ad150a7a19214p-17") STEP("-0x1.310a89699501bp-15") STEP("-0x1.bf5146bf9f95dp-20")
                    STEP("0x1.3ccd50518bf61p-13") STEP("0x1.b0d0d4f04b61ep-13") STEP("-0x1.dc6a57e4875b8p-12")
                        STEP("-0x1.7de52dbbeaec9p-10") STEP("0x1.4d46225c472a4p-10") STEP("0x1.1dd2ec9938214p-7")
                            STEP("-0x1.0742340a1370ep-7") STEP("-0x1.bc2b95619b6bfp-5") STEP("0x1.4ffa1e14e3c63p-3")
                                STEP("-0x1.5407bebf3245ap-3") STEP("-0x1.7bf5ec170065fp-4") STEP(
                                    "0x1.46e80e2277953p0") "    const $v square = a * a, rest = @fma(a, a, -square);\n"
                                                           "    const $v far = @exp_scaled(-square, -rest, ($i){0}) * "
                                                           "(q / @fma(two, a, one));\n"
                                                           "    const $v y = @pick(($i)(b < one), near, one - far);\n"
                                                           "    return @copysign(y, x);\n}\n"),
    ROW("erf_part", "$F $v $n($v z)\n{\n" FIRST("-0x1.28e31fa07faa7p-38") STEP("0x1.7eb0872c08261p-34") STEP(
                        "-0x1.4e510928bc0b8p-30") STEP("0x1.fc4020dfc08e6p-27") STEP("-0x1.5f6d5b4f43f0cp-23")
                        STEP("0x1.b9e64ba09e04ap-20") STEP("-0x1.f4d255cbb52e5p-17") STEP("0x1.f9a326bed4983p-14")
                            STEP("-0x1.c02db3fed2bffp-11") STEP("0x1.565bcd0e648f8p-8") STEP("-0x1.b82ce31288992p-6")
                                STEP("0x1.ce2f21a042bddp-4") STEP("-0x1.812746b0379e7p-2")
                                    STEP("0x1.06eba8214db69p-3") "    return q;\n}\n"),

    /* e^(a^2) erfc(a) (2 a + 1) of z = (a - 3) / (a + 3), for a from 1/2 on */
    ROW("erfc",
        "$F $v $n($v x)\n{\n"
        "    const $v b = @abs(x), one = @all(1.0), two = @all(2.0), three = @all(3.0);\n"
        "    const $v near = one - @fma(x, @erf_part(x * x), x);\n"
        "    const $v a = @pick(($i)(b > @all(27.5)), @all(27.5), b), z = (a - three) / (a + three);\n"
        "    const $v square = a * a, rest = @fma(a, a, -square);\n" FIRST("0x1.4f4812aca706cp-29")
            STEP("-0x1.ce71bedf54862p-28") STEP("-0x1.2f5a17cc3b6fap-26") STEP("0x1.61bbdef603171p-25")
                STEP("0x1.cdcdb4c171e8ep-24") STEP("-0x1.331b726bc37b7p-23") STEP("-0x1.4d570a697ba67p-21") STEP(
                    "0x1.814d1bc2abdd2p-22") STEP("0x1.d25524c08a676p-19") STEP("-0x1.8965d8e01febdp-21")
                    STEP("-0x1.513e154a78eeep-16") STEP("0x1.4c2f477d25ed5p-18") STEP("0x1.065a47a9ca8dfp-13") STEP(
                        "-0x1.b912951540a01p-14") STEP("-0x1.98db5190e8c25p-11") STEP("0x1.ef1bdd862d03bp-10")
                        STEP("0x1.4b884e4668eaep-9") STEP("-0x1.8574c40c13aa5p-6") STEP("0x1.17ca2877f0474p-4") STEP(
                            "-0x1.e88b803a4897bp-4") STEP("0x1.098366a5b46e1p-3") STEP("-0x1.85a15c58aa61p-5")
                            STEP("-0x1.15c084bb9e8f3p-3") STEP(
                                "0x1.40c522d7e4987p0") "    const $v e = @exp_scaled(-square, -rest, ($i){0}), far = e "
                                                       "* (q / @fma(two, a, one));\n"
                                                       "    const $v y = @pick(($i)(x < @all(0.0)), two - far, far);\n"
                                                       "    return @pick(($i)(b < @all(0.5)), near, y);\n}\n"),

    ROW("atan_part",
        "$F $v $n($v x)\n{\n    const $v z = x * x;\n" FIRST("-0x1.4d6ba5ce0c721p-16") STEP("0x1.cd9dfc80c073cp-13")
            STEP("-0x1.2ebd31ee03c98p-10") STEP("0x1.f77d4914c5d1p-9") STEP("-0x1.2cb7fde640fep-7")
                STEP("0x1.1674dc0e97638p-6") STEP("-0x1.a7e6bacd343d2p-6") STEP("0x1.178e30ace5d03p-5")
                    STEP("-0x1.4fa83ac9e38efp-5") STEP("0x1.7f1e0ca49f0d7p-5") STEP("-0x1.ad4ba2909578bp-5")
                        STEP("0x1.e17ff2990cf3ep-5") STEP("-0x1.1109848aaece2p-4") STEP("0x1.3b12d907ef34ap-4")
                            STEP("-0x1.745d06871925cp-4") STEP("0x1.c71c70f0a7df7p-4") STEP("-0x1.2492492177af8p-3")
                                STEP("0x1.999999998eaddp-3")
                                    STEP("-0x1.55555555554f9p-2") "    return @fma(q, z * x, x);\n}\n"),
    ROW("asin_part", "$F $v $n($v z)\n{\n" FIRST("0x1.063ca57944931p-5") STEP("-0x1.0a5949636da77p-6")
                         STEP("0x1.3ef35011d62b3p-6") STEP("0x1.af8665a9a3836p-8") STEP("0x1.8e088479c9d59p-7")
                             STEP("0x1.c7279fa388c8cp-7") STEP("0x1.1c68f8bc8484dp-6") STEP("0x1.6e8a35425d5bbp-6")
                                 STEP("0x1.f1c728c06624ap-6") STEP("0x1.6db6db5002ce2p-5") STEP("0x1.3333333354813p-4")
                                     STEP("0x1.55555555554a4p-3") "    return q;\n}\n"),
    ROW("atan", TEXT_ATAN("0x1.921fb54442d18p0", "0x1.1a62633145c07p-54")),
    ROW("atan2",
        TEXT_ATAN2("0x1.921fb54442d18p0", "0x1.1a62633145c07p-54", "0x1.921fb54442d18p1", "0x1.1a62633145c07p-53")),
    ROW("asin", TEXT_ASIN("0x1.921fb54442d18p0", "0x1.1a62633145c07p-54")),
    ROW("acos",
        TEXT_ACOS("0x1.921fb54442d18p0", "0x1.1a62633145c07p-54", "0x1.921fb54442d18p1", "0x1.1a62633145c07p-53")),

    /* For powers of f32: as many digits as these need. x is an f32 number, not negative. */
    ROW("log2_short", "$F $v $n($v x)\n{\n"
                      "    const $u d = ($u)x - 0x3fe6a09e667f3bcd;\n"
                      "    const $v m = ($v)((d & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);\n"
                      "    const $v magic = @all(0x1.8p52), one = @all(1.0);\n"
                      "    const $v e = ($v)(($u)magic + ((d + 0x3ff0000000000000) >> 52)) - (magic + @all(1023.0));\n"
                      "    const $v s = (m - one) / (m + one), z = s * s;\n" FIRST("0x1.5ce7cd8f69a61p-2")
                          STEP("0x1.a58d8fc49d905p-2") STEP("0x1.27777fda50da3p-1") STEP("0x1.ec709d12e192ap-1")
                              STEP("0x1.71547652bede5p1") "    $v y = @fma(q, s, e);\n"
                                                          "    y = @pick(($i)(x < @all(__builtin_inf())), y, x);\n"
                                                          "    return @pick(($i)(x == @all(0.0)), "
                                                          "@all(-__builtin_inf()), y);\n}\n"),
    ROW("exp2_short", "$F $v $n($v x)\n{\n"
                      "    x = @pick(($i)(x > @all(200.0)), @all(200.0), x);\n"
                      "    x = @pick(($i)(x < @all(-200.0)), @all(-200.0), x);\n"
                      "    const $v magic = @all(0x1.8p52), t = x + magic, z = x - (t - magic);\n"
                      "    const $v scale = ($v)((($u)t - ($u)magic + 1023) << 52);\n" FIRST("0x1.c04555d127429p-17")
                          STEP("0x1.443f95dd9526p-13") STEP("0x1.5dc053af88f8bp-10") STEP("0x1.3b2a1bf5ae4e6p-7")
                              STEP("0x1.c6b0551b173bp-5") STEP("0x1.ebfbe045708dcp-3") STEP("0x1.62e4300b9e704p-1")
                                  STEP("1.0") "    return q * scale;\n}\n"),

    /* log(x) in two parts, *low included 70 bits: with s = f / (2 + f) it is 2 (s + s z / 3 + s z^2 q(z)), z = s^2, and
       what follows the second term needs no second part. */
    ROW("log_pair",
        "$F $v $n($v x, $v *low)\n{\n"
        "    $v f;\n"
        "    const $v e = @log_split(x, &f), two = @all(2.0), third = @all(0x1.5555555555555p-2);\n"
        "    const $v d = two + f, one_over = @all(1.0) / d, s = f * one_over;\n"
        "    const $v s_low = (@fma(-s, d, f) - s * (f - (d - two))) * one_over;\n"
        "    const $v z = s * s, z_low = @fma(s, s, -z) + (s + s) * s_low;\n" FIRST("0x1.e6c0f55413c56p-5") STEP(
            "0x1.dec2f5e2b5601p-5") STEP("0x1.111ce2de91b25p-4") STEP("0x1.3b137e2a27579p-4")
            STEP("0x1.745d17c39fd58p-4") STEP("0x1.c71c71c676bf8p-4") STEP("0x1.24924924927acp-3") STEP(
                "0x1.9999999999999p-3") "    const $v p = z * third;\n"
                                        "    const $v p_low = @fma(z, third, -p) + @fma(z, "
                                        "@all(0x1.5555555555555p-56), @fma(z_low, third, q * (z * z)));\n"
                                        "    const $v t = s * p, t_low = @fma(s, p, -t) + @fma(s, p_low, s_low * p);\n"
                                        "    const $v h = s + t, h_low = ((s - h) + t) + (s_low + t_low);\n"
                                        "    const $v n = e * @all(0x1.62e42fefa38p-1), sum = n + (h + h);\n"
                                        "    const $v rest = ((n - sum) + (h + h)) + @fma(e, "
                                        "@all(0x1.ef35793c7673p-45), h_low + h_low);\n"
                                        "    const $v y = sum + rest;\n"
                                        "    *low = (sum - y) + rest;\n"
                                        "    return y;\n}\n"),
    /* Not inlined: it is long, and series of powers have many of them. */
    ROW("pow", "static __attribute__((noinline)) $v $n($v x, $v y)\n{\n"
               "    const $v a = @abs(x), one = @all(1.0), zero = @all(0.0), half = y * @all(0.5);\n"
               "    $v low;\n"
               "    $v high = @log_pair(a, &low);\n"
               "    high = @pick(($i)(a < @all(__builtin_inf())), high, a);\n"
               "    high = @pick(($i)(a == zero), @all(-__builtin_inf()), high);\n"
               "    const $v p = y * high, rest = @fma(y, high, -p) + y * low;\n"
               "    $v r = @exp_scaled(p, @pick(($i)(@abs(p) < @all(1000.0)), rest, zero), ($i){0});\n" POW_ENDS),
    {{NULL, 0, NULL}, 0},
};
