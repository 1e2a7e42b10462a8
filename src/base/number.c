/* SPDX-License-Identifier: Apache-2.0 */
/* number.c: see number.h. The C library rounds correctly but depends on the locale. A locale changes only the decimal
   point, so the library never sees one: before reading, a numeral is rewritten as an integer with an exponent (1.25e3
   becomes 125e1), and only the digits of its output are used. No locale is switched, nothing is shared. */
#include "base/number.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer numerals are rejected: 800 digits distinguish any two doubles, and the copy is on the stack. */
#define NUMERAL_MAX 4096

/* Exponents are clamped to this: far outside double's range even with NUMERAL_MAX digits. */
static const int64_t exponent_cut = 1000000;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* ---- Reading ---- */

typedef struct {
    char text[NUMERAL_MAX + 32];
    size_t n;
} numeral;

/* Reads all of s[0..n) as "[+-]digits". */
static bool read_exponent(const char *s, size_t n, int64_t *out)
{
    size_t i = n && (s[0] == '+' || s[0] == '-');
    if (i == n)
        return false;
    int64_t e = 0;
    for (size_t k = i; k < n; k++) {
        if (!is_digit(s[k]))
            return false;
        e = e * 10 + (s[k] - '0');
        if (e > exponent_cut)
            e = exponent_cut;
    }
    *out = s[0] == '-' ? -e : e;
    return true;
}

/* Appends the digits of s[0..n) without the point, then the exponent that compensates for it. */
static bool rewrite(numeral *t, const char *s, size_t n, bool is_hex)
{
    char mark = is_hex ? 'p' : 'e';
    int64_t step = is_hex ? 4 : 1; /* weight of one digit in the exponent */
    int64_t exponent = 0;
    size_t digits = 0;
    bool point = false;
    int64_t after_point = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (is_hex ? is_hex_digit(c) : is_digit(c)) {
            t->text[t->n++] = c;
            digits++;
            after_point += point;
        } else if (c == '.' && !point) {
            point = true;
        } else if ((c | 32) == mark) {
            if (!read_exponent(s + i + 1, n - i - 1, &exponent))
                return false;
            break;
        } else {
            return false;
        }
    }
    exponent -= after_point * step;
    int k = snprintf(t->text + t->n, sizeof t->text - t->n, "%c%lld", mark, (long long)exponent);
    return digits > 0 && k > 0;
}

bool flxi_read_double(const char *s, size_t n, double *out)
{
    numeral t;
    if (n == 0 || n > NUMERAL_MAX)
        return false;
    bool is_negative = s[0] == '-';
    if (is_negative || s[0] == '+') {
        s++;
        n--;
    }
    if (n == 3 && memcmp(s, "inf", 3) == 0) {
        *out = is_negative ? -INFINITY : INFINITY;
        return true;
    }
    if (n == 3 && memcmp(s, "nan", 3) == 0) {
        *out = is_negative ? -NAN : NAN;
        return true;
    }
    bool is_hex = n > 2 && s[0] == '0' && (s[1] | 32) == 'x';
    size_t skip = is_hex ? 2 : 0;
    memcpy(t.text, "0x", 2);
    t.n = skip;
    if (!rewrite(&t, s + skip, n - skip, is_hex))
        return false;
    double x = strtod(t.text, NULL);
    *out = is_negative ? -x : x;
    return true;
}

/* The magnitude of an integer with optional '-'. */
static bool read_magnitude(const char *s, size_t n, bool *negative, uint64_t *out)
{
    *negative = n && s[0] == '-';
    size_t i = *negative;
    uint64_t v = 0;
    if (i == n)
        return false;
    for (; i < n; i++) {
        if (!is_digit(s[i]) || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

bool flxi_read_i64(const char *s, size_t n, int64_t *out)
{
    bool is_negative;
    uint64_t v;
    if (!read_magnitude(s, n, &is_negative, &v) || v > (uint64_t)INT64_MAX + is_negative)
        return false;
    *out = is_negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool flxi_read_u64(const char *s, size_t n, uint64_t *out)
{
    bool is_negative;
    uint64_t v;
    if (!read_magnitude(s, n, &is_negative, &v) || (is_negative && v))
        return false;
    *out = v;
    return true;
}

/* ---- Writing ---- */

#define DIGITS_MAX 17 /* enough for every double */

static const double plain_end = 1e16; /* from here on with an exponent */
static const int plain_digits = 16;

typedef struct {
    char digit[DIGITS_MAX + 1]; /* d0 d1 d2 …: the value is d0.d1d2… * 10^exponent */
    int n;
    int exponent;
} decimal;

/* The decimal of n digits nearest to x > 0. */
static void nearest_decimal(decimal *d, double x, int n)
{
    char text[DIGITS_MAX + 24];
    snprintf(text, sizeof text, "%.*e", n - 1, x);
    const char *p = text;
    for (d->n = 0; *p && *p != 'e'; p++)
        if (is_digit(*p) && d->n < n)
            d->digit[d->n++] = *p;
    d->exponent = *p ? (int)strtol(p + 1, NULL, 10) : 0;
}

/* The next larger decimal with the same number of digits. */
static void next_decimal(decimal *d)
{
    int i = d->n - 1;
    for (; i >= 0 && d->digit[i] == '9'; i--)
        d->digit[i] = '0';
    if (i >= 0) {
        d->digit[i]++;
    } else {
        d->digit[0] = '1';
        d->exponent++;
    }
}

typedef struct {
    int exponent_bits, mantissa_bits;
} format;

static format format_of(int digits)
{
    int bits = digits < 1 ? 1 : digits > 53 ? 53 : digits;
    int range = bits == 24 || bits == 8 ? 8 : bits == 11 ? 5 : 11;
    return (format){range, bits - 1};
}

/* Whether d reads back as x in either way: directly into the format, or as a double that is then rounded. So for a
   narrow format the doubles on both sides of the value of d must also round to x. */
static bool reads_back(const decimal *d, double x, format f)
{
    char text[DIGITS_MAX + 24];
    snprintf(text, sizeof text, "%.*se%d", d->n, d->digit, d->exponent - (d->n - 1));
    double y = strtod(text, NULL);
    if (f.mantissa_bits == 52)
        return y == x;
    return flxi_round_to(nextafter(y, 0.0), f.exponent_bits, f.mantissa_bits) == x &&
           flxi_round_to(nextafter(y, INFINITY), f.exponent_bits, f.mantissa_bits) == x;
}

/* Below a power of two the values are closer together than above it, so the nearest decimal may miss x from below where
   the next one still reads back as x from above. */
static bool try_digits(decimal *d, double x, int n, format f)
{
    nearest_decimal(d, x, n);
    if (reads_back(d, x, f))
        return true;
    next_decimal(d);
    return reads_back(d, x, f);
}

/* More digits never read back worse, so bisection finds the fewest. */
static void shortest_decimal(decimal *d, double x, format f)
{
    int low = 1;
    int high = DIGITS_MAX;
    while (low < high) {
        int mid = (low + high) / 2;
        if (try_digits(d, x, mid, f))
            high = mid;
        else
            low = mid + 1;
    }
    try_digits(d, x, low, f); /* its last digit is not 0: otherwise fewer digits would have been enough */
}

/* A fraction or a large value; from 1e-4 up to plain_end without exponent. */
static size_t layout(char *out, const decimal *d)
{
    size_t k = 0;
    int e = d->exponent;
    bool is_plain = e >= -4 && e < plain_digits;
    int before = is_plain ? e + 1 : 1; /* digits before the point */
    if (before <= 0) {
        out[k++] = '0';
        out[k++] = '.';
        for (int i = before; i < 0; i++)
            out[k++] = '0';
    }
    for (int i = 0; i < d->n || i < before; i++) {
        if (i == before && before > 0)
            out[k++] = '.';
        out[k++] = i < d->n ? d->digit[i] : '0';
    }
    out[k] = 0;
    if (!is_plain)
        k += (size_t)snprintf(out + k, FLXI_NUMBER_MAX - DIGITS_MAX - 4, "e%+03d", e);
    return k;
}

size_t flxi_write_double(char *buffer, double x, int digits)
{
    format f = format_of(digits);
    x = flxi_round_to(x, f.exponent_bits, f.mantissa_bits);
    if (isnan(x)) {
        memcpy(buffer, "nan", 4);
        return 3;
    }
    size_t k = 0;
    if (signbit(x))
        buffer[k++] = '-';
    x = fabs(x);
    if (isinf(x) || x == 0.0) {
        memcpy(buffer + k, isinf(x) ? "inf" : "0", isinf(x) ? 4 : 2);
        return k + (isinf(x) ? 3 : 1);
    }
    /* Exact, though for a narrow format fewer digits might do: 65504 is as long as 65500 and is exact. */
    if (x < plain_end && x == floor(x))
        return k + (size_t)snprintf(buffer + k, FLXI_NUMBER_MAX - 1, "%.0f", x);
    decimal d;
    shortest_decimal(&d, x, f);
    return k + layout(buffer + k, &d);
}
