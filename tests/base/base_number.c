/* SPDX-License-Identifier: Apache-2.0 */
/* base_number.c: numbers as text, in both directions, under any locale. */
#include "test.h"

#include "base/half.h"
#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_text(const char *s, double *out)
{
    return flxi_read_double(s, strlen(s), out);
}

TEST(number_reads_doubles)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"0", 0.0},
        {"-0", -0.0},
        {"1", 1.0},
        {"+2.5", 2.5},
        {"0.1", 0.1},
        {".5", 0.5},
        {"5.", 5.0},
        {"1e3", 1000.0},
        {"1E-3", 0.001},
        {"1.25e+2", 125.0},
        {"1e400", INFINITY},
        {"-1e400", -INFINITY},
        {"1e-400", 0.0},
        {"1e99999999999999999999", INFINITY},
        {"1e-99999999999999999999", 0.0},
        {"0e99999999999999999999", 0.0},
        {"0x1.8p3", 12.0},
        {"0X.8", 0.5},
        {"-0x10P-4", -1.0},
        {"0x1p-1074", 5e-324},
        {"inf", INFINITY},
        {"-inf", -INFINITY},
        {"+inf", INFINITY},
        {"9007199254740993", 9007199254740992.0},
        {"9007199254740993.0000000000000000000000000000000000001", 9007199254740994.0},
        {"2.4703282292062327208299627703763e-324", 0.0},
        {"2.4703282292062328e-324", 5e-324},
        {"1.7976931348623158e308", 1.7976931348623157e308},
        {"1.7976931348623159e308", INFINITY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double x = 77.0;
        test_fail_context("'%s'", rows[i].text);
        CHECK(read_text(rows[i].text, &x));
        CHECK_MSG(x == rows[i].value && !signbit(x) == !signbit(rows[i].value), "%a is not %a", x, rows[i].value);
    }
    double x = 0.0;
    CHECK(read_text("nan", &x) && isnan(x) && !signbit(x));
    CHECK(read_text("-nan", &x) && isnan(x) && signbit(x));
}

TEST(number_rejects_what_is_no_double)
{
    static const char *const rows[] = {
        "",     "+",   "-",    ".",   "e5",   "1e",    "1e+", "1e-",  "1e5.",  "1.2.3", " 1",  "1 ",
        "1_0",  "0x",  "0xp1", "0x.", "0xg",  "0x1p",  "1p3", "1f",   "Inf",   "NaN",   "INF", "infinity",
        "nan(", "--1", "+-1",  "1,5", "0x1e", "1e0x1", "in",  "nano", "1e5e5", "\t1",   "1\n", "0x1.8p3.0",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double x = 77.0;
        test_fail_context("'%s'", rows[i]);
        bool ok = read_text(rows[i], &x);
        if (strcmp(rows[i], "0x1e") == 0)
            CHECK(ok && x == 30.0); /* e is a digit here */
        else
            CHECK(!ok && x == 77.0);
    }
    double x;
    CHECK(!flxi_read_double("1\0", 2, &x));
}

TEST(number_reads_only_up_to_its_length)
{
    double x;
    int64_t i;
    CHECK(flxi_read_double("123456", 3, &x) && x == 123.0);
    CHECK(flxi_read_double("1e5e", 3, &x) && x == 1e5);
    CHECK(flxi_read_i64("123456", 2, &i) && i == 12);
}

TEST(number_long_numerals)
{
    /* 0.000…0001e4000 is 1e0 however it is written; much longer numerals are rejected instead of exhausting the stack.
       */
    static char text[1 << 20];
    memset(text, '0', sizeof text);
    text[1] = '.';
    memcpy(text + 4001, "1e4000", 6);
    double x = 0.0;
    CHECK(flxi_read_double(text, 4007, &x) && x == 1.0);
    memset(text, '9', sizeof text);
    CHECK(flxi_read_double(text, 4096, &x) && isinf(x));
    CHECK(!flxi_read_double(text, 4097, &x));
    CHECK(!flxi_read_double(text, sizeof text, &x));
    int64_t i = 5;
    uint64_t u = 5;
    CHECK(!flxi_read_i64(text, sizeof text, &i) && i == 5);
    CHECK(!flxi_read_u64(text, sizeof text, &u) && u == 5);
    memset(text, '0', sizeof text);
    CHECK(flxi_read_i64(text, sizeof text, &i) && i == 0);
}

TEST(number_reads_integers)
{
    static const struct {
        const char *text;
        bool is_i64, is_u64;
        int64_t i;
        uint64_t u;
    } rows[] = {
        {"0", true, true, 0, 0},
        {"-0", true, true, 0, 0},
        {"007", true, true, 7, 7},
        {"-1", true, false, -1, 0},
        {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
        {"9223372036854775808", false, true, 0, UINT64_C(9223372036854775808)},
        {"-9223372036854775808", true, false, INT64_MIN, 0},
        {"-9223372036854775809", false, false, 0, 0},
        {"18446744073709551615", false, true, 0, UINT64_MAX},
        {"18446744073709551616", false, false, 0, 0},
        {"99999999999999999999", false, false, 0, 0},
        {"", false, false, 0, 0},
        {"-", false, false, 0, 0},
        {"+1", false, false, 0, 0},
        {" 1", false, false, 0, 0},
        {"1.0", false, false, 0, 0},
        {"1e3", false, false, 0, 0},
        {"0x10", false, false, 0, 0},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        int64_t i = 0;
        uint64_t u = 0;
        test_fail_context("'%s'", rows[k].text);
        CHECK(flxi_read_i64(rows[k].text, strlen(rows[k].text), &i) == rows[k].is_i64);
        CHECK(flxi_read_u64(rows[k].text, strlen(rows[k].text), &u) == rows[k].is_u64);
        CHECK_EQ_I64(i, rows[k].i);
        CHECK_EQ_U64(u, rows[k].u);
    }
}

TEST(number_writes_the_shortest)
{
    static const struct {
        double value;
        int digits;
        const char *text;
    } rows[] = {
        {0.0, 53, "0"},
        {-0.0, 53, "-0"},
        {2.0, 53, "2"},
        {-3.0, 24, "-3"},
        {0.1, 53, "0.1"},
        {0.1f, 24, "0.1"},
        {0.1f, 53, "0.10000000149011612"},
        {0.0001, 53, "0.0001"},
        {0.00001, 53, "1e-05"},
        {123456.789, 53, "123456.789"},
        {1e15, 53, "1000000000000000"},
        {1e16, 53, "1e+16"},
        {1e22, 53, "1e+22"},
        {1.5e300, 53, "1.5e+300"},
        {5e-324, 53, "5e-324"},
        {1.7976931348623157e308, 53, "1.7976931348623157e+308"},
        {-1.2345678901234568e-300, 53, "-1.2345678901234568e-300"},
        {0x1p-44, 53, "5.684341886080802e-14"},
        {9007199254740993.0, 53, "9007199254740992"},
        {3.4028234663852886e38, 24, "3.4028235e+38"},
        {0x1p-149, 24, "1e-45"},
        {16777216.0, 24, "16777216"},
        {123456792.0, 24, "123456792"},
        {65504.0, 11, "65504"},
        {0x1p-24, 11, "6e-08"},
        {3.140625, 11, "3.14"},
        {3.140625, 8, "3.14"},
        {INFINITY, 53, "inf"},
        {-INFINITY, 24, "-inf"},
        {NAN, 53, "nan"},
        {-NAN, 11, "nan"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[FLXI_NUMBER_MAX];
        size_t n = flxi_write_double(text, rows[i].value, rows[i].digits);
        CHECK_EQ_STR(text, rows[i].text);
        CHECK_EQ_U64(n, strlen(text));
    }
}

static const struct {
    int digits, exponent;
} widths[] = {{53, 11}, {24, 8}, {11, 5}, {8, 8}};

TEST(number_round_trips_in_every_width)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 9000; i++) {
        uint64_t r = test_random(&state);
        double x;
        memcpy(&x, &r, sizeof x);
        if (i % 3 == 0)
            x = ldexp(1.0, (int)(r % 2098) - 1074); /* powers of two have uneven neighbours */
        else if (i % 3 == 1)
            x = ldexp((double)(r >> 11), (int)(r % 90) - 100);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            double expected = flxi_round_to(x, widths[w].exponent, widths[w].digits - 1);
            char text[FLXI_NUMBER_MAX + 1];
            text[FLXI_NUMBER_MAX] = 'Z';
            size_t n = flxi_write_double(text, x, widths[w].digits);
            double y = 0.0;
            test_fail_context("%a in %d bits is '%s'", expected, widths[w].digits, text);
            CHECK(n < FLXI_NUMBER_MAX && n == strlen(text) && text[FLXI_NUMBER_MAX] == 'Z');
            CHECK(flxi_read_double(text, n, &y));
            if (isnan(expected)) {
                CHECK(isnan(y));
                continue;
            }
            CHECK(flxi_round_to(y, widths[w].exponent, widths[w].digits - 1) == expected);
            if (widths[w].digits == 24)
                CHECK((double)strtof(text, NULL) == expected); /* read directly into the format */
        }
    }
}

TEST(number_no_shorter_decimal_reads_back)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 5000; i++) {
        uint64_t r = test_random(&state);
        double x = i & 1 ? ldexp(1.0, (int)(r % 2000) - 1000) : ldexp((double)(r >> 11), (int)(r % 1800) - 900);
        char text[FLXI_NUMBER_MAX];
        flxi_write_double(text, x, 53);
        int digits = 0;
        for (const char *p = text; *p && *p != 'e'; p++)
            digits += *p >= '1' || (*p == '0' && digits); /* leading zeros do not count */
        char shorter[64];
        if (digits < 2)
            continue;
        if (x == floor(x) && x < 1e16)
            continue; /* integers are written in full */
        snprintf(shorter, sizeof shorter, "%.*e", digits - 2, x);
        test_fail_context("%a is '%s'", x, text);
        CHECK(strtod(shorter, NULL) != x);
    }
}

TEST(number_ignores_the_locale)
{
    /* Any installed locale with a decimal comma will do; without one the test is empty. */
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "fr_FR", "es_ES.UTF-8", "ru_RU.UTF-8"};
    char before[128];
    snprintf(before, sizeof before, "%s", setlocale(LC_NUMERIC, NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_NUMERIC, names[i]))
            continue;
        char text[FLXI_NUMBER_MAX];
        double x = 0.0;
        flxi_write_double(text, 1234.5678, 53);
        bool ok = flxi_read_double("0x1.8p0", 7, &x) && x == 1.5 && flxi_read_double("2.25e1", 6, &x) && x == 22.5;
        setlocale(LC_NUMERIC, before);
        CHECK(ok);
        CHECK_EQ_STR(text, "1234.5678");
    }
}
