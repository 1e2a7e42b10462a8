/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: what all benchmarks need: a clock, and to end at the first error. */
#ifndef FLX_BENCH_H
#define FLX_BENCH_H

#include <fluxion/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double seconds_by(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double now(void)
{
    return seconds_by(CLOCK_MONOTONIC);
}

static inline void check(int ok, const flx_error *err)
{
    if (ok)
        return;
    fprintf(stderr, "error: %s%s%s\n", err->message, err->where[0] ? "\n" : "", err->where);
    exit(3);
}

/* Element i of an input or a parameter: in [-1, 1), the same in all programs and in Python. */
static inline float hashed(uint32_t i, uint32_t seed)
{
    uint32_t h = i + seed * UINT32_C(0x9E3779B9);
    h ^= h >> 16;
    h *= UINT32_C(0x7FEB352D);
    h ^= h >> 15;
    h *= UINT32_C(0x846CA68B);
    h ^= h >> 16;
    return (float)(h >> 8) * 0x1p-23f - 1.0f;
}

#endif
