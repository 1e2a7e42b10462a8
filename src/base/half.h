/* SPDX-License-Identifier: Apache-2.0 */
/* half.h: floats as their bits, and bit-exact conversions between double and the narrow float formats.

   To narrow: round to nearest, ties to even, straight from double (never through float, which would round twice).
   Overflow gives infinity (f8 e4m3 has none: it gives NaN). NaNs stay NaN: the quiet bit is set, the sign and the top
   payload bits kept. From narrow: exact. */
#ifndef FLXI_HALF_H
#define FLXI_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint64_t flxi_f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double flxi_f64_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t flxi_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Of the low 32 bits. */
static inline float flxi_f32_of(uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

uint16_t flxi_to_f16(double x);
uint16_t flxi_to_bf16(double x);
uint8_t flxi_to_f8_e4m3(double x); /* 1-4-3, bias 7, no infinities, largest 448, 0x7f is NaN */
uint8_t flxi_to_f8_e5m2(double x); /* 1-5-2, bias 15, with infinities */
double flxi_from_f16(uint16_t bits);
double flxi_from_bf16(uint16_t bits);
double flxi_from_f8_e4m3(uint8_t bits);
double flxi_from_f8_e5m2(uint8_t bits);

/* x rounded to a format of `exponent` and `mantissa` bits (reduce_precision; f16 is 5, 10): nearest even, out of range
   becomes infinity, subnormals of that format kept. exponent 1..11, mantissa 0..52. */
double flxi_round_to(double x, int exponent, int mantissa);

#endif
