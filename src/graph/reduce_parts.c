/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_parts.c: the elements of several processes combined in the order of the processes. The arithmetic is that of
   the library's reductions (docs/numerics.md), rounded once at the end; sums of f32 and f64, which are most of what is
   reduced, have loops of their own. */
#include "graph/mesh.h"

#include <math.h>

enum { BLOCK = 512 }; /* elements whose sums are kept at a time */

/* Whether 1 / divisor has no rounding, so that a product with it is the quotient. */
static bool is_exact(double divisor)
{
    int exponent;
    return frexp(divisor, &exponent) == 0.5;
}

/* Whole blocks have a constant number of elements, so that compilers make vectors of them. */
#define SUM_LOOP(name, type)                                                                              \
    static void name##_block(const void *const *parts, size_t n, size_t begin, double divisor, type *out) \
    {                                                                                                     \
        double sum[BLOCK];                                                                                \
        const type *x = (const type *)parts[0] + begin;                                                   \
        for (size_t i = 0; i < BLOCK; i++)                                                                \
            sum[i] = (double)x[i];                                                                        \
        for (size_t k = 1; k < n; k++) {                                                                  \
            x = (const type *)parts[k] + begin;                                                           \
            for (size_t i = 0; i < BLOCK; i++)                                                            \
                sum[i] += (double)x[i];                                                                   \
        }                                                                                                 \
        const double reciprocal = 1 / divisor;                                                            \
        if (is_exact(divisor))                                                                            \
            for (size_t i = 0; i < BLOCK; i++)                                                            \
                out[begin + i] = (type)(sum[i] * reciprocal);                                             \
        else                                                                                              \
            for (size_t i = 0; i < BLOCK; i++)                                                            \
                out[begin + i] = (type)(sum[i] / divisor);                                                \
    }                                                                                                     \
    static void name(const void *const *parts, size_t n, size_t count, double divisor, void *out)         \
    {                                                                                                     \
        size_t begin = 0;                                                                                 \
        for (; count - begin >= BLOCK; begin += BLOCK)                                                    \
            name##_block(parts, n, begin, divisor, out);                                                  \
        for (; begin < count; begin++) {                                                                  \
            double sum = (double)((const type *)parts[0])[begin];                                         \
            for (size_t k = 1; k < n; k++)                                                                \
                sum += (double)((const type *)parts[k])[begin];                                           \
            ((type *)out)[begin] = (type)(sum / divisor);                                                 \
        }                                                                                                 \
    }
SUM_LOOP(sum_f32, float)
SUM_LOOP(sum_f64, double)

static flxi_num combine(const flxi_arith *a, flxi_reduce_kind reduction, flxi_num x, flxi_num y)
{
    switch (reduction) {
    case REDUCE_MAX: return a->max(x, y);
    case REDUCE_MIN: return a->min(x, y);
    case REDUCE_PROD: return a->mul(x, y);
    case REDUCE_AND: return (flxi_num){.i = x.i & y.i};
    case REDUCE_OR: return (flxi_num){.i = x.i | y.i};
    default: return a->accumulate(x, y);
    }
}

static flxi_num divided(int32_t dtype, flxi_num x, double divisor)
{
    if (flxi_is_complex(dtype))
        x.c /= divisor;
    else
        x.f /= divisor;
    return x;
}

void flxi_reduce_parts(int32_t dtype, flxi_reduce_kind reduction, const void *const *parts, size_t n, size_t count,
                       void *out)
{
    bool is_mean = reduction == REDUCE_MEAN;
    double divisor = is_mean ? (double)n : 1;
    const flxi_arith *a = flxi_arith_of(dtype);
    if ((is_mean || reduction == REDUCE_SUM) && (dtype == FLX_F32 || dtype == FLX_F64)) {
        (dtype == FLX_F32 ? sum_f32 : sum_f64)(parts, n, count, divisor, out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        flxi_num x = a->load(parts[0], (int64_t)i);
        for (size_t k = 1; k < n; k++)
            x = combine(a, reduction, x, a->load(parts[k], (int64_t)i));
        a->store(out, (int64_t)i, is_mean ? divided(dtype, x, divisor) : x);
    }
}
