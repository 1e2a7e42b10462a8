/* SPDX-License-Identifier: Apache-2.0 */
/* number.h: numbers as text, the same under every locale, and divisors. */
#ifndef FLXI_NUMBER_H
#define FLXI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the whole of s[0..n): decimal or hexadecimal float, `inf`, `nan`, each with an optional sign. Correctly
   rounded; too large becomes inf. False for anything else. */
bool flxi_read_double(const char *s, size_t n, double *out);

/* Reads the whole of s[0..n) as an integer with optional '-'. False if it is not an integer or does not fit. */
bool flxi_read_i64(const char *s, size_t n, int64_t *out);
bool flxi_read_u64(const char *s, size_t n, uint64_t *out);

/* The shortest decimal that reads back to the same value of a format with `digits` mantissa bits (53 f64, 24 f32, 11
   f16, 8 bf16), e.g. "0.1", "-inf", "1e-05"; an integral value prints without a point ("2"), -0 as "-0". NaN prints as
   "nan". Writes at most FLXI_NUMBER_MAX bytes with the 0, returns the length. */
#define FLXI_NUMBER_MAX 40
size_t flxi_write_double(char *buffer, double x, int digits);

/* The greatest number that divides both, of which one may be 0; they are not negative. */
static inline int64_t flxi_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
