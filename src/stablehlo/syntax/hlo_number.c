/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_number.c: see hlo_number.h.

   A decimal is read as the nearest double. Rounding that double again gives the wrong element only where the double is
   exactly between two elements and the decimal is not: then the decimal is compared with the double digit by digit, and
   the double is moved by one step towards the decimal before it is rounded. */
#include "stablehlo/syntax/hlo_number.h"

#include "base/half.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>

/* ---- Reading ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool flxi_hlop_at_number(hlo_parser *p)
{
    char c = flxi_hlop_peek(p);
    return is_digit(c) || (c == '-' && p->c.at + 1 < p->end && is_digit(p->c.at[1]));
}

static const char *skip_digits(const hlo_parser *p, const char *s)
{
    while (s < p->end && is_digit(*s))
        s++;
    return s;
}

flx_code flxi_hlop_numeral(hlo_parser *p, hlo_numeral *out)
{
    *out = (hlo_numeral){.at = flxi_hlop_position(p)};
    if (!flxi_hlop_at_number(p))
        return flxi_hlop_expected(p, "a number");
    const char *s = p->c.at;
    if (*s == '-') {
        out->is_negative = true;
        s++;
    }
    if (s + 2 < p->end && s[0] == '0' && s[1] == 'x' && hex_value(s[2]) >= 0) {
        out->is_hex = true;
        out->digits = s + 2;
        for (s += 2; s < p->end && hex_value(*s) >= 0; s++)
            ;
    } else {
        out->digits = s;
        s = skip_digits(p, s);
        if (s < p->end && *s == '.') {
            out->is_real = true;
            s = skip_digits(p, s + 1);
        }
        if (s < p->end && (*s | 32) == 'e') {
            const char *e = s + 1;
            e += e < p->end && (*e == '+' || *e == '-');
            if (e < p->end && is_digit(*e)) {
                out->is_real = true;
                s = skip_digits(p, e);
            }
        }
    }
    out->length = (size_t)(s - out->digits);
    p->c.at = s;
    return FLX_OK;
}

/* ---- Integers ---- */

static int bits_of(hlo_element e)
{
    return flxi_hlo_element(e)->bits;
}

static bool is_unsigned(hlo_element e)
{
    return e >= HLO_UI2 && e <= HLO_UI64;
}

bool flxi_hlop_is_complex(hlo_element e)
{
    return e == HLO_C64 || e == HLO_C128;
}

bool flxi_hlop_is_float(hlo_element e)
{
    return e >= HLO_F4E2M1FN && !flxi_hlop_is_complex(e);
}

hlo_element flxi_hlop_part(hlo_element e)
{
    return e == HLO_C64 ? HLO_F32 : e == HLO_C128 ? HLO_F64 : e;
}

int64_t flxi_hlop_least(hlo_element e)
{
    return is_unsigned(e) ? 0 : INT64_MIN >> (64 - bits_of(e));
}

int64_t flxi_hlop_greatest(hlo_element e)
{
    int bits = bits_of(e) - !is_unsigned(e);
    return bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
}

/* The digits as a number; false when it needs more than 64 bits. */
static bool magnitude_of(const hlo_numeral *n, uint64_t *out)
{
    uint64_t base = n->is_hex ? 16 : 10;
    uint64_t v = 0;
    for (size_t i = 0; i < n->length; i++) {
        uint64_t d = (uint64_t)hex_value(n->digits[i]);
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *out = v;
    return true;
}

flx_code flxi_hlop_to_int(hlo_parser *p, const hlo_numeral *n, hlo_element e, int64_t *out)
{
    const char *type = flxi_hlo_element(e)->text;
    if (n->is_real)
        return flxi_hlop_fail_at(p, n->at, FLX_E_SYNTAX, NULL, "expected an integer of type %s, found a real number",
                                 type);
    int bits = bits_of(e);
    uint64_t v = 0;
    bool fits = magnitude_of(n, &v);
    if (n->is_negative)
        fits = fits && (v == 0 || (!is_unsigned(e) && v <= UINT64_C(1) << (bits - 1)));
    else
        fits = fits && (bits == 64 || v < UINT64_C(1) << bits);
    if (!fits)
        return flxi_hlop_fail_at(p, n->at, FLX_E_SIZE, NULL, "the number %s%s%.*s does not fit into %s",
                                 n->is_negative ? "-" : "", n->is_hex ? "0x" : "", n->length > 40 ? 40 : (int)n->length,
                                 n->digits, type);
    if (n->is_negative)
        v = 0 - v;
    int unused = 64 - bits;
    if (e == HLO_I1)
        *out = (int64_t)(v & 1);
    else if (is_unsigned(e))
        *out = (int64_t)v;
    else
        *out = (int64_t)(v << unused) >> unused;
    return FLX_OK;
}

/* ---- Formats of eight bits and less ---- */

typedef enum {
    with_infinity, /* as IEEE 754: the last exponent holds infinity and NaNs */
    one_nan,       /* all bits set is NaN, no infinity */
    zero_nan,      /* the negative zero is NaN, no infinity */
    no_special,    /* neither */
    powers         /* exponent only: no sign, no zero, all bits set is NaN */
} ending;

typedef struct {
    int exponent, mantissa, bias;
    ending ending;
} small_format;

static const small_format small_formats[HLO_ELEMENT_COUNT] = {
    [HLO_F4E2M1FN] = {2, 1, 1, no_special},   [HLO_F6E2M3FN] = {2, 3, 1, no_special},
    [HLO_F6E3M2FN] = {3, 2, 3, no_special},   [HLO_F8E3M4] = {3, 4, 3, with_infinity},
    [HLO_F8E4M3] = {4, 3, 7, with_infinity},  [HLO_F8E4M3FN] = {4, 3, 7, one_nan},
    [HLO_F8E4M3FNUZ] = {4, 3, 8, zero_nan},   [HLO_F8E4M3B11FNUZ] = {4, 3, 11, zero_nan},
    [HLO_F8E5M2] = {5, 2, 15, with_infinity}, [HLO_F8E5M2FNUZ] = {5, 2, 16, zero_nan},
    [HLO_F8E8M0FNU] = {8, 0, 127, powers},
};

static const small_format *small_format_of(hlo_element e)
{
    return small_formats[e].exponent ? &small_formats[e] : NULL;
}

/* The largest code of a finite value, without sign. */
static unsigned last_finite(const small_format *f)
{
    unsigned all = (1u << (f->exponent + f->mantissa)) - 1;
    if (f->ending == with_infinity)
        return all - (1u << f->mantissa);
    return f->ending == one_nan || f->ending == powers ? all - 1 : all;
}

/* The value of a finite code without sign. */
static double small_value(const small_format *f, unsigned code)
{
    int field = (int)(code >> f->mantissa);
    int fraction = (int)(code & ((1u << f->mantissa) - 1));
    if (f->ending == powers)
        return ldexp(1.0, field - f->bias);
    if (field == 0)
        return ldexp(fraction, 1 - f->bias - f->mantissa);
    return ldexp(fraction + (1 << f->mantissa), field - f->bias - f->mantissa);
}

static double decode_small(const small_format *f, unsigned bits)
{
    unsigned magnitude_bits = (unsigned)(f->exponent + f->mantissa);
    unsigned code = bits & ((1u << magnitude_bits) - 1);
    bool is_negative = f->ending != powers && bits >> magnitude_bits & 1;
    double v;
    if (f->ending == zero_nan && is_negative && code == 0)
        return NAN;
    if (code <= last_finite(f))
        v = small_value(f, code);
    else
        v = f->ending == with_infinity && code == last_finite(f) + 1 ? INFINITY : NAN;
    return is_negative ? -v : v;
}

/* What a finite |x| rounds to; the caller has moved x off a tie unless the decimal is one. */
static double round_small(const small_format *f, double x)
{
    unsigned low = 0;
    unsigned high = last_finite(f);
    while (low < high) { /* the largest code whose value is not above x */
        unsigned mid = (low + high + 1) / 2;
        if (small_value(f, mid) <= x)
            low = mid;
        else
            high = mid - 1;
    }
    double below = small_value(f, low);
    if (x <= below)
        return below;
    bool is_last = low == last_finite(f);
    double step = is_last ? below - small_value(f, low - 1) : small_value(f, low + 1) - below;
    if (f->ending == powers && is_last)
        step = below;
    double rest = x - below;
    bool is_odd = low & 1 || f->ending == powers; /* without mantissa, the last digit is the leading 1 */
    bool goes_up = rest > step / 2 || (rest == step / 2 && is_odd);
    if (!goes_up)
        return below;
    if (!is_last)
        return small_value(f, low + 1);
    return f->ending == with_infinity ? INFINITY : f->ending == no_special ? below : NAN;
}

/* ---- Reals ---- */

typedef struct {
    int exponent, mantissa;
} wide_format;

static wide_format wide_format_of(hlo_element e)
{
    switch (e) {
    case HLO_F16: return (wide_format){5, 10};
    case HLO_BF16: return (wide_format){8, 7};
    case HLO_TF32: return (wide_format){8, 10};
    case HLO_F32: return (wide_format){8, 23};
    default: return (wide_format){11, 52};
    }
}

static double round_element(hlo_element e, double x)
{
    if (e == HLO_F32)
        return (double)(float)x;
    const small_format *f = small_format_of(e);
    if (!f) {
        wide_format w = wide_format_of(e);
        return flxi_round_to(x, w.exponent, w.mantissa);
    }
    if (f->ending == powers && signbit(x))
        return NAN;
    double y = isinf(x) ? (f->ending == with_infinity ? INFINITY
                           : f->ending == no_special  ? small_value(f, last_finite(f))
                                                      : NAN)
                        : round_small(f, fabs(x));
    if (y == 0 && f->ending == zero_nan)
        return 0;
    return signbit(x) ? -y : y;
}

double flxi_hlop_decode(hlo_element e, uint64_t bits)
{
    const small_format *f = small_format_of(e);
    if (f)
        return decode_small(f, (unsigned)(bits & 0xff));
    if (e == HLO_F16)
        return flxi_from_f16((uint16_t)bits);
    if (e == HLO_BF16)
        return flxi_from_bf16((uint16_t)bits);
    if (e == HLO_F64) {
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    uint32_t single = (uint32_t)(e == HLO_TF32 ? bits << 13 : bits);
    float x;
    memcpy(&x, &single, sizeof x);
    return (double)x;
}

/* Decimals of up to 15 digits and powers of ten up to 22 are exact doubles, so one multiplication or division rounds
   correctly. False when the numeral is longer. */
static bool read_short(const hlo_numeral *n, double *out)
{
    static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                           1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t v = 0;
    int digits = 0;
    int exponent = 0;
    bool point = false;
    size_t i = 0;
    for (; i < n->length && (n->digits[i] | 32) != 'e'; i++) {
        if (n->digits[i] == '.') {
            point = true;
            continue;
        }
        v = v * 10 + (uint64_t)(n->digits[i] - '0');
        digits += v != 0;
        exponent -= point;
        if (digits > 15)
            return false;
    }
    if (i < n->length) {
        bool down = n->digits[i + 1] == '-';
        int e = 0;
        for (i += 1 + (size_t)(down || n->digits[i + 1] == '+'); i < n->length; i++) {
            e = e * 10 + (n->digits[i] - '0');
            if (e > 1000)
                return false;
        }
        exponent += down ? -e : e;
    }
    if (exponent < -22 || exponent > 22)
        return false;
    *out = exponent < 0 ? (double)v / powers_of_ten[-exponent] : (double)v * powers_of_ten[exponent];
    return true;
}

/* The decimal point and the digits without leading zeros: the value is 0.d0d1d2… · 10^exponent. */
static long leading_exponent(const hlo_numeral *n)
{
    long point = -1;
    long first = -1;
    long seen = 0;
    long exponent = 0;
    for (size_t i = 0; i < n->length; i++) {
        char c = n->digits[i];
        if (c == '.') {
            point = seen;
        } else if ((c | 32) == 'e') {
            const char *s = n->digits + i + 1;
            bool down = *s == '-';
            for (s += down || *s == '+'; s < n->digits + n->length && exponent < 100000; s++)
                exponent = exponent * 10 + (*s - '0');
            exponent = down ? -exponent : exponent;
            break;
        } else {
            if (c != '0' && first < 0)
                first = seen;
            seen++;
        }
    }
    return (point < 0 ? seen : point) - first + exponent;
}

/* Steps through digits, skipping the point; 0 after the last one. */
static char next_digit(const char **s, const char *end)
{
    while (*s < end && !is_digit(**s) && (**s | 32) != 'e')
        (*s)++;
    if (*s == end || !is_digit(**s))
        return '0';
    return *(*s)++;
}

/* The sign of |decimal| − x for a finite double x > 0. */
static int compare_exactly(const hlo_numeral *n, double x)
{
    char text[1100]; /* a double has at most 767 digits */
    int length = snprintf(text, sizeof text, "%.*e", 800, x);
    const char *mark = memchr(text, 'e', (size_t)length);
    int shown = 0;
    if (!mark || sscanf(mark + 1, "%d", &shown) != 1)
        return 0;
    long mine = leading_exponent(n);
    if (mine != shown + 1)
        return mine < shown + 1 ? -1 : 1;
    const char *a = n->digits;
    const char *a_end = n->digits + n->length;
    while (a < a_end && (*a == '0' || *a == '.'))
        a++;
    const char *b = text;
    for (size_t i = 0; i < n->length + 800; i++) {
        char da = next_digit(&a, a_end);
        char db = next_digit(&b, mark);
        if (da != db)
            return da < db ? -1 : 1;
    }
    return 0;
}

/* Whether x can be halfway between two elements: such a double has few bits. */
static bool may_be_halfway(double x)
{
    return (flxi_f64_bits(x) & ((UINT64_C(1) << 26) - 1)) == 0;
}

flx_code flxi_hlop_to_real(hlo_parser *p, const hlo_numeral *n, hlo_element e, double *out)
{
    const char *type = flxi_hlo_element(e)->text;
    if (n->is_hex) {
        uint64_t bits = 0;
        int width = bits_of(e);
        if (n->is_negative || !magnitude_of(n, &bits) || (width < 64 && bits >> width))
            return flxi_hlop_fail_at(p, n->at, FLX_E_SIZE, NULL,
                                     "the hexadecimal number is not a bit pattern of type %s", type);
        *out = flxi_hlop_decode(e, bits);
        return FLX_OK;
    }
    double x = 0;
    if (!read_short(n, &x) && !flxi_read_double(n->digits, n->length, &x))
        return flxi_hlop_fail_at(p, n->at, FLX_E_SIZE, NULL, "the number has too many digits");
    if (e != HLO_F64 && x != 0 && isfinite(x)) {
        double y = round_element(e, x);
        if (y != x && may_be_halfway(x)) {
            int side = compare_exactly(n, x);
            x = side < 0 ? nextafter(x, 0) : side > 0 ? nextafter(x, INFINITY) : x;
        }
    }
    *out = round_element(e, n->is_negative ? -x : x);
    return FLX_OK;
}

/* ---- Elements in memory ---- */

#define STORE(T, v)                         \
    do {                                    \
        T stored = (T)(v);                  \
        memcpy(at, &stored, sizeof stored); \
    } while (0)

void flxi_hlop_store_int(hlo_element e, void *at, int64_t v)
{
    switch (flx_dtype_size(flxi_hlo_element(e)->carrier)) {
    case 1: STORE(uint8_t, v); break;
    case 2: STORE(uint16_t, v); break;
    case 4: STORE(uint32_t, v); break;
    default: STORE(uint64_t, v); break;
    }
}

void flxi_hlop_store_real(hlo_element e, void *at, double v)
{
    switch (flxi_hlo_element(e)->carrier) {
    case FLX_F16: STORE(uint16_t, flxi_to_f16(v)); break;
    case FLX_BF16: STORE(uint16_t, flxi_to_bf16(v)); break;
    case FLX_F64: STORE(double, v); break;
    default: STORE(float, v); break;
    }
}
