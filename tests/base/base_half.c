/* SPDX-License-Identifier: Apache-2.0 */
/* base_half.c: the narrow float formats, over all their values and around every rounding boundary. */
#include "test.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

typedef struct {
    const char *name;
    int exponent_bits, mantissa_bits;
    int bits;
    bool infinities; /* otherwise the last exponent holds numbers too, and only all ones is NaN */
    uint32_t quiet;  /* bit that is set when a NaN is narrowed */
    uint32_t (*narrow)(double);
    double (*widen)(uint32_t);
} format;

static uint32_t narrow_f16(double x)
{
    return flxi_to_f16(x);
}
static uint32_t narrow_bf16(double x)
{
    return flxi_to_bf16(x);
}
static uint32_t narrow_e4m3(double x)
{
    return flxi_to_f8_e4m3(x);
}
static uint32_t narrow_e5m2(double x)
{
    return flxi_to_f8_e5m2(x);
}
static double widen_f16(uint32_t b)
{
    return flxi_from_f16((uint16_t)b);
}
static double widen_bf16(uint32_t b)
{
    return flxi_from_bf16((uint16_t)b);
}
static double widen_e4m3(uint32_t b)
{
    return flxi_from_f8_e4m3((uint8_t)b);
}
static double widen_e5m2(uint32_t b)
{
    return flxi_from_f8_e5m2((uint8_t)b);
}

static const format formats[] = {
    {"f16", 5, 10, 16, true, 0x200, narrow_f16, widen_f16},
    {"bf16", 8, 7, 16, true, 0x40, narrow_bf16, widen_bf16},
    {"f8e4m3", 4, 3, 8, false, 0x04, narrow_e4m3, widen_e4m3},
    {"f8e5m2", 5, 2, 8, true, 0x02, narrow_e5m2, widen_e5m2},
};
enum { num_formats = sizeof formats / sizeof *formats };

/* The last encoding of a finite magnitude. */
static uint32_t last_finite(const format *f)
{
    uint32_t all = (UINT32_C(1) << (f->bits - 1)) - 1;
    return f->infinities ? all - (UINT32_C(1) << f->mantissa_bits) : all - 1;
}

/* The textbook formula. */
static double formula(const format *f, uint32_t q)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    int field = (int)(q >> f->mantissa_bits);
    int mantissa = (int)(q & ((1u << f->mantissa_bits) - 1));
    if (field == 0)
        return ldexp(mantissa, 1 - bias - f->mantissa_bits);
    return ldexp(mantissa + (1 << f->mantissa_bits), field - bias - f->mantissa_bits);
}

TEST(half_all_patterns_widen_by_the_formula_and_come_back)
{
    for (int k = 0; k < num_formats; k++) {
        const format *f = &formats[k];
        uint32_t sign = UINT32_C(1) << (f->bits - 1);
        for (uint32_t b = 0; b < 2 * sign; b++) {
            test_fail_context("%s %#x", f->name, b);
            uint32_t q = b & (sign - 1);
            double x = f->widen(b);
            CHECK(signbit(x) ? b >= sign : b < sign);
            if (q <= last_finite(f)) {
                CHECK_EQ_U64(flxi_f64_bits(fabs(x)), flxi_f64_bits(formula(f, q)));
                CHECK_EQ_U64(f->narrow(x), b);
            } else if (f->infinities && q == last_finite(f) + 1) {
                CHECK(isinf(x));
                CHECK_EQ_U64(f->narrow(x), b);
            } else {
                CHECK(isnan(x));
                CHECK_EQ_U64(f->narrow(x), b | f->quiet);
            }
        }
    }
}

TEST(half_midpoints_round_to_even_and_neighbours_to_nearest)
{
    for (int k = 0; k < num_formats; k++) {
        const format *f = &formats[k];
        uint32_t sign = UINT32_C(1) << (f->bits - 1);
        for (uint32_t q = 0; q <= last_finite(f); q++) {
            test_fail_context("%s %#x", f->name, q);
            /* Above the largest value is the next one that an unbounded format would have; it represents overflow. */
            double low = formula(f, q);
            double high = formula(f, q + 1);
            double middle = low + (high - low) / 2; /* exact: one bit more */
            uint32_t even = q & 1 ? q + 1 : q;
            CHECK_EQ_U64(f->narrow(low), q);
            CHECK_EQ_U64(f->narrow(middle), even);
            CHECK_EQ_U64(f->narrow(nextafter(middle, 0.0)), q);
            CHECK_EQ_U64(f->narrow(nextafter(middle, INFINITY)), q + 1);
            CHECK_EQ_U64(f->narrow(-middle), sign | even);
            CHECK_EQ_U64(f->narrow(-nextafter(middle, 0.0)), sign | q);
            CHECK_EQ_U64(f->narrow(-nextafter(middle, INFINITY)), sign | (q + 1));
            CHECK_EQ_U64(f->narrow(nextafter(low, INFINITY)), q);
            CHECK_EQ_U64(f->narrow(nextafter(high, 0.0)), q + 1);
        }
    }
}

TEST(half_never_rounds_twice)
{
    /* Through float this would become a tie, and then 1. */
    CHECK_EQ_U64(flxi_to_f16(1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
    CHECK_EQ_U64(flxi_to_bf16(1.0 + 0x1p-8 + 0x1p-40), 0x3f81);
    CHECK_EQ_U64(flxi_to_f16(1.0 + 0x1p-11), 0x3c00);
}

TEST(half_extremes)
{
    CHECK_EQ_U64(flxi_to_f16(65519.999), 0x7bff);
    CHECK_EQ_U64(flxi_to_f16(65520.0), 0x7c00);
    CHECK_EQ_U64(flxi_to_f16(1e300), 0x7c00);
    CHECK_EQ_U64(flxi_to_f16(-INFINITY), 0xfc00);
    CHECK_EQ_U64(flxi_to_f16(5e-324), 0);
    CHECK_EQ_U64(flxi_to_f16(-5e-324), 0x8000);
    CHECK_EQ_U64(flxi_to_f16(-0.0), 0x8000);
    CHECK_EQ_U64(flxi_to_f8_e4m3(448.0), 0x7e);
    CHECK_EQ_U64(flxi_to_f8_e4m3(464.0), 0x7e);
    CHECK_EQ_U64(flxi_to_f8_e4m3(464.1), 0x7f);
    CHECK_EQ_U64(flxi_to_f8_e4m3(INFINITY), 0x7f);
    CHECK_EQ_U64(flxi_to_f8_e4m3(-1e9), 0xff);
    CHECK_EQ_U64(flxi_to_f8_e5m2(1e9), 0x7c);
    CHECK_EQ_U64(flxi_to_bf16(3.4028234663852886e38), 0x7f80);
    CHECK(flxi_from_f8_e4m3(0x7e) == 448.0);
    CHECK(flxi_from_f8_e4m3(0x01) == 0x1p-9);
}

TEST(half_nans_keep_sign_and_top_payload)
{
    double negative = flxi_f64_of(UINT64_C(0xfff0000000000001)); /* signalling; only the last bit set */
    CHECK_EQ_U64(flxi_to_f16(negative), 0xfe00);
    CHECK_EQ_U64(flxi_to_bf16(negative), 0xffc0);
    CHECK_EQ_U64(flxi_to_f8_e5m2(negative), 0xfe);
    CHECK_EQ_U64(flxi_to_f8_e4m3(negative), 0xff);
    double payload = flxi_f64_of(UINT64_C(0x7ffd500000000000));
    CHECK_EQ_U64(flxi_to_f16(payload), 0x7f54);
    CHECK_EQ_U64(flxi_to_bf16(payload), 0x7fea);
    CHECK_EQ_U64(flxi_f64_bits(flxi_from_f16(0x7f54)), UINT64_C(0x7ffd500000000000));
}

/* ---- flxi_round_to ---- */

TEST(round_to_agrees_with_the_formats)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 200000; i++) {
        uint64_t r = test_random(&state);
        /* Half of the samples are where the narrow formats have their values. */
        double x = i & 1 ? flxi_f64_of(r) : ldexp((double)(int64_t)r, (int)(test_random(&state) % 80) - 110);
        test_fail_context("bits %#llx", (unsigned long long)flxi_f64_bits(x));
        CHECK_EQ_U64(flxi_f64_bits(flxi_round_to(x, 5, 10)), flxi_f64_bits(flxi_from_f16(flxi_to_f16(x))));
        CHECK_EQ_U64(flxi_f64_bits(flxi_round_to(x, 8, 7)), flxi_f64_bits(flxi_from_bf16(flxi_to_bf16(x))));
        CHECK_EQ_U64(flxi_f64_bits(flxi_round_to(x, 5, 2)), flxi_f64_bits(flxi_from_f8_e5m2(flxi_to_f8_e5m2(x))));
        if (isnan(x))
            continue;
        CHECK_EQ_U64(flxi_f64_bits(flxi_round_to(x, 8, 23)), flxi_f64_bits((double)(float)x));
        CHECK_EQ_U64(flxi_f64_bits(flxi_round_to(x, 11, 52)), flxi_f64_bits(x));
    }
}

TEST(round_to_keeps_doubles_range)
{
    CHECK(flxi_round_to(5e-324, 11, 52) == 5e-324);
    CHECK(flxi_round_to(0x1.8p-1072, 11, 51) == 0x1.8p-1072);
    CHECK(flxi_round_to(0x3p-1074, 11, 51) == 0x4p-1074); /* a tie between subnormals, to even */
    CHECK(flxi_round_to(0x1p-1074, 11, 51) == 0.0);
    CHECK(isinf(flxi_round_to(1.7976931348623157e308, 11, 51)));
    CHECK(flxi_round_to(0x1.fffffffffffffp-1, 11, 51) == 1.0);
}

/* Every eighth of every gap between neighbours of every small format. */
TEST(round_to_takes_the_nearest_of_each_format)
{
    for (int e = 1; e <= 6; e++) {
        for (int m = 0; m <= 6; m++) {
            format f = {"", e, m, e + m + 1, true, 0, NULL, NULL};
            uint32_t infinity = ((1u << e) - 1) << m;
            for (uint32_t q = 0; q < infinity; q++) {
                double low = formula(&f, q);
                double high = formula(&f, q + 1);
                for (int i = 0; i < 8; i++) {
                    double x = low + (high - low) * i / 8;
                    uint32_t best = i < 4 || (i == 4 && !(q & 1)) ? q : q + 1;
                    double expected = best == infinity ? INFINITY : formula(&f, best);
                    test_fail_context("e %d m %d x %a", e, m, x);
                    CHECK(flxi_round_to(x, e, m) == expected);
                    CHECK(flxi_round_to(-x, e, m) == -expected);
                }
            }
            CHECK(isinf(flxi_round_to(formula(&f, infinity), e, m)));
        }
    }
}

TEST(round_to_nan_stays_nan_without_mantissa_bits)
{
    CHECK(isnan(flxi_round_to(NAN, 5, 0)));
    CHECK(isnan(flxi_round_to(flxi_f64_of(UINT64_C(0x7ff0000000000001)), 1, 0)));
    CHECK(signbit(flxi_round_to(flxi_f64_of(UINT64_C(0xfff0000000000001)), 8, 7)));
    CHECK(isinf(flxi_round_to(INFINITY, 5, 0)));
}
