/* SPDX-License-Identifier: Apache-2.0 */
/* running_route.c: cumsum. Rows along the axis are independent, so they are what threads share; sums are kept as wide
   as the definition keeps them (f32 in f64, halves in f32), so results are those of the definition to the bit. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"

typedef struct {
    const flxi_route_node *n;
    flxi_split split;
    bool exclusive, reverse;
} running;

enum { LANES = 16 }; /* neighbouring rows that one pass takes along */

/* LANES rows, or fewer at the end: all of them step by step, so that memory is read in order. */
#define RUN(name, T, A, load, store)                                               \
    static void name(const running *r, int64_t outer, int64_t from, int64_t lanes) \
    {                                                                              \
        const T *x = r->n->in[0];                                                  \
        T *y = r->n->out[0];                                                       \
        A sum[LANES] = {0};                                                        \
        for (int64_t i = 0; i < r->split.n && !flxi_stopped_by_now(); i++) {       \
            int64_t k = r->reverse ? r->split.n - 1 - i : i;                       \
            int64_t at = (outer * r->split.n + k) * r->split.inner + from;         \
            for (int64_t l = 0; l < lanes; l++) {                                  \
                A next = (A)(sum[l] + load(x[at + l]));                            \
                y[at + l] = (T)store(r->exclusive ? sum[l] : next);                \
                sum[l] = next;                                                     \
            }                                                                      \
        }                                                                          \
    }
#define SAME(v) (v)
#define WIDE(v) ((double)(v))
RUN(run_f64, double, double, SAME, SAME)
RUN(run_f32, float, double, WIDE, SAME)
RUN(run_8, uint8_t, uint8_t, SAME, SAME)
RUN(run_16, uint16_t, uint16_t, SAME, SAME)
RUN(run_32, uint32_t, uint32_t, SAME, SAME)
RUN(run_64, uint64_t, uint64_t, SAME, SAME)

static void run_lanes(const running *r, int64_t outer, int64_t from, int64_t lanes)
{
    int32_t dtype = r->n->in_types[0]->dtype;
    size_t size = flx_dtype_size(dtype);
    if (dtype == FLX_F64)
        run_f64(r, outer, from, lanes);
    else if (dtype == FLX_F32)
        run_f32(r, outer, from, lanes);
    else
        (size == 1 ? run_8 : size == 2 ? run_16 : size == 4 ? run_32 : run_64)(r, outer, from, lanes);
}

static void run_rows(void *user, int64_t begin, int64_t end)
{
    const running *r = user;
    int64_t groups = (r->split.inner + LANES - 1) / LANES;
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i % groups * LANES;
        int64_t rest = r->split.inner - from;
        run_lanes(r, i / groups, from, rest < LANES ? rest : LANES);
    }
}

const char *flxi_cumsum_applies(const flxi_route_node *n)
{
    int32_t dtype = n->in_types[0]->dtype;
    bool has_loop = dtype == FLX_F32 || dtype == FLX_F64 || flxi_is_int(dtype);
    return has_loop ? NULL : "only f32, f64 and integers have a loop of their own";
}

flx_code flxi_cumsum_route(const flxi_route_node *n)
{
    running r = {.n = n};
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
