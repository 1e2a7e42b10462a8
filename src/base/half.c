/* SPDX-License-Identifier: Apache-2.0 */
/* half.c: see half.h. All formats share one encoder and one decoder, written for E exponent and M mantissa bits.

   A magnitude is handled as its encoding, the integer (exponent field << M) + mantissa. Encodings of one format are
   ordered like the values, so rounding is rounding of an integer: a carry out of the mantissa moves to the next binade,
   from the subnormals to the normals, and from the largest finite value to infinity, without special cases. Ties go to
   the even encoding; with M = 0 the last bit is that of the exponent field. */
#include "base/half.h"

#include <string.h>

#define F64_BITS 52 /* mantissa bits of double */
#define F64_BIAS 1023
#define F64_MAX_FIELD 2047                   /* exponent field of infinities and NaNs */
#define F64_HIDDEN (UINT64_C(1) << F64_BITS) /* also: one step of the exponent field */
#define F64_FRACTION (F64_HIDDEN - 1)
#define F64_SIGN (UINT64_C(1) << 63)

static int bias_of(int e)
{
    return (1 << (e - 1)) - 1;
}

static uint64_t infinity_of(int e, int m)
{
    return ((UINT64_C(1) << e) - 1) << m;
}

/* u / 2^shift, ties to even. */
static uint64_t shift_rounded(uint64_t u, int shift)
{
    if (shift <= 0)
        return u;
    uint64_t q = u >> shift;
    uint64_t rest = u & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    return q + (rest > half || (rest == half && (q & 1)));
}

/* The encoding of a finite magnitude, as if the exponent field were unbounded; `u` has no sign. */
static inline uint64_t encode(uint64_t u, int e, int m)
{
    int field = (int)(u >> F64_BITS);
    int bias = bias_of(e);
    int exponent = field ? field - F64_BIAS : 1 - F64_BIAS;
    int least = 1 - bias; /* exponent of the smallest normal value */
    if (field && exponent >= least) {
        uint64_t wide = (uint64_t)(exponent + bias) << F64_BITS | (u & F64_FRACTION);
        return shift_rounded(wide, F64_BITS - m);
    }
    uint64_t significand = field ? (u & F64_FRACTION) | F64_HIDDEN : u;
    int shift = F64_BITS - m + (least - exponent);
    /* A significand is below 2^53, so from a shift of 54 on it is below half a step. */
    return shift > F64_BITS + 1 ? 0 : shift_rounded(significand, shift);
}

/* The value of an encoding with infinities and NaNs in the last exponent field; exact. NaN payloads are kept in the top
   bits of double's payload. */
static inline uint64_t decode(uint64_t q, int e, int m)
{
    uint64_t field = q >> m;
    uint64_t mantissa = (q & ((UINT64_C(1) << m) - 1)) << (F64_BITS - m);
    if (q >= infinity_of(e, m))
        return (uint64_t)F64_MAX_FIELD << F64_BITS | mantissa;
    if (field || e == 11) /* with double's own range, subnormals are subnormals of double */
        return (field + (uint64_t)(F64_BIAS - bias_of(e))) << F64_BITS | mantissa;
    if (!mantissa)
        return 0;
    /* mantissa / 2^52 * 2^(1 - bias): subtract the hidden bit that the exponent field implies. */
    uint64_t power = (uint64_t)(F64_BIAS + 1 - bias_of(e)) << F64_BITS;
    return flxi_f64_bits(flxi_f64_of(power | mantissa) - flxi_f64_of(power));
}

/* The encoding of any magnitude; NaNs are quieted. */
static inline uint64_t narrow(uint64_t u, int e, int m)
{
    uint64_t inf = infinity_of(e, m);
    if (u > (uint64_t)F64_MAX_FIELD << F64_BITS) {
        uint64_t quiet = m ? UINT64_C(1) << (m - 1) : 0;
        return inf | quiet | (u & F64_FRACTION) >> (F64_BITS - m);
    }
    if (u == (uint64_t)F64_MAX_FIELD << F64_BITS)
        return inf;
    uint64_t q = encode(u, e, m);
    return q < inf ? q : inf;
}

static inline uint64_t sign_at(double x, int bit)
{
    return flxi_f64_bits(x) >> 63 << bit;
}

static inline uint64_t magnitude(double x)
{
    return flxi_f64_bits(x) & ~F64_SIGN;
}

uint16_t flxi_to_f16(double x)
{
    return (uint16_t)(sign_at(x, 15) | narrow(magnitude(x), 5, 10));
}

uint16_t flxi_to_bf16(double x)
{
    return (uint16_t)(sign_at(x, 15) | narrow(magnitude(x), 8, 7));
}

uint8_t flxi_to_f8_e5m2(double x)
{
    return (uint8_t)(sign_at(x, 7) | narrow(magnitude(x), 5, 2));
}

/* The last exponent field holds ordinary values here, up to 0x7e = 448; 0x7f, where 480 would be, is NaN. */
uint8_t flxi_to_f8_e4m3(double x)
{
    uint64_t u = magnitude(x);
    uint64_t q = u < (uint64_t)F64_MAX_FIELD << F64_BITS ? encode(u, 4, 3) : 0x7f;
    return (uint8_t)(sign_at(x, 7) | (q < 0x7f ? q : 0x7f));
}

double flxi_from_f16(uint16_t bits)
{
    return flxi_f64_of((uint64_t)(bits >> 15) << 63 | decode(bits & 0x7fff, 5, 10));
}

double flxi_from_bf16(uint16_t bits)
{
    return flxi_f64_of((uint64_t)(bits >> 15) << 63 | decode(bits & 0x7fff, 8, 7));
}

double flxi_from_f8_e5m2(uint8_t bits)
{
    return flxi_f64_of((uint64_t)(bits >> 7) << 63 | decode(bits & 0x7f, 5, 2));
}

double flxi_from_f8_e4m3(uint8_t bits)
{
    uint64_t sign = (uint64_t)(bits >> 7) << 63;
    uint64_t q = bits & 0x7f;
    if (q == 0x7f)
        return flxi_f64_of(sign | (uint64_t)F64_MAX_FIELD << F64_BITS | F64_HIDDEN >> 1);
    if (q < 0x78)
        return flxi_f64_of(sign | decode(q, 4, 3));
    return flxi_f64_of(sign | (uint64_t)(F64_BIAS + 8) << F64_BITS | (q & 7) << (F64_BITS - 3));
}

double flxi_round_to(double x, int exponent, int mantissa)
{
    if (x != x) { /* keeps what fits of the payload, but without mantissa bits it must not become infinity */
        uint64_t kept = ~UINT64_C(0) << (F64_BITS - mantissa);
        return flxi_f64_of((flxi_f64_bits(x) & kept) | F64_HIDDEN >> 1);
    }
    uint64_t q = narrow(magnitude(x), exponent, mantissa);
    return flxi_f64_of(sign_at(x, 63) | decode(q, exponent, mantissa));
}
