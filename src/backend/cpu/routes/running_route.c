/* SPDX-License-Identifier: Apache-2.0 */
/* running_route.c: cumsum, cumprod, cummax and cummin. Rows along the axis are independent, so they are what threads
   share; values are kept as wide as the definition keeps them (f32 in f64), so results are those of the definition to
   the bit. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"

#include <math.h>

typedef struct running running;
typedef void run_function(const running *r, int64_t outer, int64_t from, int64_t lanes);

struct running {
    const flxi_route_node *n;
    run_function *run;
    flxi_split split;
    bool exclusive, reverse;
};

enum { LANES = 16 }; /* neighbouring rows that one pass takes along */

/* LANES rows, or fewer at the end: all of them step by step, so that memory is read in order. */
#define RUN(name, T, A, start, step)                                               \
    static void name(const running *r, int64_t outer, int64_t from, int64_t lanes) \
    {                                                                              \
        const T *x = r->n->in[0];                                                  \
        T *y = r->n->out[0];                                                       \
        A acc[LANES];                                                              \
        for (int64_t l = 0; l < LANES; l++)                                        \
            acc[l] = (A)(start);                                                   \
        for (int64_t i = 0; i < r->split.n && !flxi_stopped_by_now(); i++) {       \
            int64_t k = r->reverse ? r->split.n - 1 - i : i;                       \
            int64_t at = (outer * r->split.n + k) * r->split.inner + from;         \
            for (int64_t l = 0; l < lanes; l++) {                                  \
                A next = (A)step(acc[l], (A)x[at + l]);                            \
                y[at + l] = (T)(r->exclusive ? acc[l] : next);                     \
                acc[l] = next;                                                     \
            }                                                                      \
        }                                                                          \
    }
#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) (1u * (a) * (b)) /* narrow integers as unsigned ones, whose products wrap */
RUN(sum_f64, double, double, 0, SUM)
RUN(sum_f32, float, double, 0, SUM)
RUN(sum_8, uint8_t, uint8_t, 0, SUM)
RUN(sum_16, uint16_t, uint16_t, 0, SUM)
RUN(sum_32, uint32_t, uint32_t, 0, SUM)
RUN(sum_64, uint64_t, uint64_t, 0, SUM)
RUN(product_f64, double, double, 1, PRODUCT)
RUN(product_f32, float, double, 1, PRODUCT)
RUN(product_8, uint8_t, uint8_t, 1, PRODUCT)
RUN(product_16, uint16_t, uint16_t, 1, PRODUCT)
RUN(product_32, uint32_t, uint32_t, 1, PRODUCT)
RUN(product_64, uint64_t, uint64_t, 1, PRODUCT)

/* The first NaN stays; of two zeros the greater, or smaller, is +0, or -0. */
static inline double larger(double a, double b)
{
    double other = isnan(b) || b > a || signbit(a) ? b : a;
    return isnan(a) || a > b ? a : other;
}

static inline double smaller(double a, double b)
{
    double other = isnan(b) || b < a || !signbit(a) ? b : a;
    return isnan(a) || a < b ? a : other;
}

RUN(max_f64, double, double, -INFINITY, larger)
RUN(max_f32, float, double, -INFINITY, larger)
RUN(min_f64, double, double, INFINITY, smaller)
RUN(min_f32, float, double, INFINITY, smaller)

#define LARGER(a, b) ((a) < (b) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) ? (b) : (a))
#define EXTREMA(bits)                                                  \
    RUN(max_i##bits, int##bits##_t, int64_t, INT##bits##_MIN, LARGER)  \
    RUN(min_i##bits, int##bits##_t, int64_t, INT##bits##_MAX, SMALLER) \
    RUN(max_u##bits, uint##bits##_t, uint64_t, 0, LARGER)              \
    RUN(min_u##bits, uint##bits##_t, uint64_t, UINT##bits##_MAX, SMALLER)
EXTREMA(8)
EXTREMA(16)
EXTREMA(32)
EXTREMA(64)

/* Of f64, f32, of unsigned integers with 1, 2, 4 and 8 bytes, and of signed ones; NULL: none. */
typedef run_function *run_functions[10];
static const run_functions sums = {sum_f64, sum_f32, sum_8, sum_16, sum_32, sum_64, sum_8, sum_16, sum_32, sum_64};
static const run_functions products = {product_f64, product_f32, product_8,  product_16, product_32,
                                       product_64,  product_8,   product_16, product_32, product_64};
static const run_functions maxima = {max_f64, max_f32, max_u8,  max_u16, max_u32,
                                     max_u64, max_i8,  max_i16, max_i32, max_i64};
static const run_functions minima = {min_f64, min_f32, min_u8,  min_u16, min_u32,
                                     min_u64, min_i8,  min_i16, min_i32, min_i64};

static run_function *choose(const run_functions from, int32_t dtype)
{
    size_t size = flx_dtype_size(dtype);
    if (dtype == FLX_F64 || dtype == FLX_F32)
        return from[dtype == FLX_F32];
    int first = flxi_is_signed(dtype) ? 6 : 2;
    return flxi_is_int(dtype) ? from[first + (size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3)] : NULL;
}

static void run_rows(void *user, int64_t begin, int64_t end)
{
    const running *r = user;
    int64_t groups = (r->split.inner + LANES - 1) / LANES;
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i % groups * LANES;
        int64_t rest = r->split.inner - from;
        r->run(r, i / groups, from, rest < LANES ? rest : LANES);
    }
}

const char *flxi_running_applies(const flxi_route_node *n)
{
    return choose(sums, n->in_types[0]->dtype) ? NULL : "only f32, f64 and integers have a loop of their own";
}

static flx_code run_all(const flxi_route_node *n, const run_functions from)
{
    running r = {.n = n, .run = choose(from, n->in_types[0]->dtype)};
    if (flxi_route_count(n->in_types[0]) == 0)
        return FLX_OK;
    r.split = flxi_split_at(n->in_types[0], flxi_route_int(n, "axis"));
    r.exclusive = flxi_route_int(n, "exclusive");
    r.reverse = flxi_route_int(n, "reverse");
    int64_t groups = r.split.outer * ((r.split.inner + LANES - 1) / LANES);
    int64_t bytes = r.split.n * LANES * (int64_t)flx_dtype_size(n->in_types[0]->dtype);
    flxi_pool_run(n->pool, groups, flxi_route_chunk(groups, bytes), run_rows, &r);
    return FLX_OK;
}

flx_code flxi_cumsum_route(const flxi_route_node *n)
{
    return run_all(n, sums);
}

flx_code flxi_cumprod_route(const flxi_route_node *n)
{
    return run_all(n, products);
}

flx_code flxi_cummax_route(const flxi_route_node *n)
{
    return run_all(n, maxima);
}

flx_code flxi_cummin_route(const flxi_route_node *n)
{
    return run_all(n, minima);
}
