/* SPDX-License-Identifier: Apache-2.0 */
/* index_route.c: gather and scatter_add by rows.

   Indices are checked before anything is written, so an index out of range fails as in the definition. scatter_add
   gives each thread columns of its own and lets it walk all updates in order: sums have one order, whatever the
   threads. f16 and bf16 are summed in f32 in scratch and rounded once. */
#include "backend/cpu/gemm/gemm_engine.h"
#include "backend/cpu/routes/route_index.h"
#include "base/half.h"
#include "base/host/stop.h"

typedef struct {
    flxi_route_index idx; /* operand 1 */
    const flxi_route_node *n;
    int64_t outer, inner; /* gather: rows of the table are `inner` elements */
    size_t size;
} indexing;

static indexing indexing_of(const flxi_route_node *n, int64_t extent)
{
    return (indexing){.idx = flxi_route_indices(n, 1, extent), .n = n, .size = flx_dtype_size(n->in_types[0]->dtype)};
}

/* ---- gather ---- */

static void gather_rows(void *user, int64_t begin, int64_t end)
{
    const indexing *x = user;
    size_t row = (size_t)x->inner * x->size;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = flxi_route_position(&x->idx, r % x->idx.count);
        char *to = (char *)x->n->out[0] + (size_t)r * row;
        if (at < 0)
            memset(to, 0, row);
        else
            memcpy(to, (const char *)x->n->in[0] + (size_t)(r / x->idx.count * x->idx.extent + at) * row, row);
    }
}

flx_code flxi_gather_route(const flxi_route_node *n)
{
    if (flxi_route_count(n->in_types[1]) == 0)
        return FLX_OK;
    flxi_split s = flxi_split_at(n->in_types[0], flxi_route_int(n, "axis"));
    indexing x = indexing_of(n, s.n);
    x.outer = s.outer;
    x.inner = s.inner;
    FLXI_TRY(flxi_route_check_indices(&x.idx));
    if (flxi_route_count(n->out_types[0]) == 0)
        return FLX_OK;
    int64_t rows = x.outer * x.idx.count;
    flxi_pool_run(n->pool, rows, flxi_route_chunk(rows, x.inner * (int64_t)x.size + 8), gather_rows, &x);
    return FLX_OK;
}

/* ---- scatter_add ---- */

const char *flxi_scatter_applies(const flxi_route_node *n)
{
    return flxi_is_complex(n->out_types[0]->dtype) ? "rows of complex numbers are not summed in place" : NULL;
}

static bool is_half(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16;
}

size_t flxi_scatter_scratch(const flxi_route_node *n, int threads)
{
    (void)threads;
    return is_half(n->out_types[0]->dtype) ? (size_t)flxi_route_count(n->out_types[0]) * sizeof(float) : 0;
}

/* Columns [begin, end) of all rows: cleared, then updates added in order. A and U: what sums and updates are stored
   as. */
#define SCATTER(name, A, U, widen, combine)                                                                \
    static void name(const indexing *x, A *y, int64_t begin, int64_t end)                                  \
    {                                                                                                      \
        const U *updates = x->n->in[0];                                                                    \
        for (int64_t r = 0; r < x->idx.extent && !flxi_stopped_by_now(); r++)                              \
            memset(y + r * x->inner + begin, 0, (size_t)(end - begin) * sizeof(A));                        \
        for (int64_t i = 0; i < x->idx.count && !flxi_stopped_by_now(); i++) {                             \
            int64_t at = flxi_route_position(&x->idx, i);                                                  \
            for (int64_t j = begin; at >= 0 && j < end; j++)                                               \
                y[at * x->inner + j] = (A)(y[at * x->inner + j] combine widen(updates[i * x->inner + j])); \
        }                                                                                                  \
    }
#define SAME(v) (v)
SCATTER(add_f64, double, double, SAME, +)
SCATTER(add_f32, float, float, SAME, +)
SCATTER(add_f16, float, uint16_t, flxi_widen_f16, +)
SCATTER(add_bf16, float, uint16_t, flxi_widen_bf16, +)
SCATTER(add_8, uint8_t, uint8_t, SAME, +)
SCATTER(add_16, uint16_t, uint16_t, SAME, +)
SCATTER(add_32, uint32_t, uint32_t, SAME, +)
SCATTER(add_64, uint64_t, uint64_t, SAME, +)
SCATTER(add_truth, uint8_t, uint8_t, SAME, |)

static void round_columns(const indexing *x, int64_t begin, int64_t end)
{
    const float *sums = x->n->scratch;
    uint16_t *y = x->n->out[0];
    bool is_f16 = x->n->out_types[0]->dtype == FLX_F16;
    for (int64_t r = 0; r < x->idx.extent && !flxi_stopped_by_now(); r++)
        for (int64_t i = r * x->inner + begin; i < r * x->inner + end; i++)
            y[i] = is_f16 ? flxi_to_f16((double)sums[i]) : flxi_to_bf16((double)sums[i]);
}

static void scatter_columns(void *user, int64_t begin, int64_t end)
{
    const indexing *x = user;
    void *y = x->n->out[0];
    switch (x->n->out_types[0]->dtype) {
    case FLX_F64: add_f64(x, y, begin, end); return;
    case FLX_F32: add_f32(x, y, begin, end); return;
    case FLX_F16: add_f16(x, x->n->scratch, begin, end); break;
    case FLX_BF16: add_bf16(x, x->n->scratch, begin, end); break;
    case FLX_BOOL: add_truth(x, y, begin, end); return;
    default:
        (void)(x->size == 1   ? (add_8(x, y, begin, end), 0)
               : x->size == 2 ? (add_16(x, y, begin, end), 0)
               : x->size == 4 ? (add_32(x, y, begin, end), 0)
                              : (add_64(x, y, begin, end), 0));
        return;
    }
    round_columns(x, begin, end);
}

flx_code flxi_scatter_route(const flxi_route_node *n)
{
    const flx_type *y = n->out_types[0];
    indexing x = indexing_of(n, y->dims[0]);
    FLXI_TRY(flxi_route_check_indices(&x.idx));
    if (flxi_route_count(y) == 0)
        return FLX_OK;
    x.inner = flxi_route_count(y) / x.idx.extent;
    int64_t bytes = (x.idx.extent + x.idx.count) * (int64_t)x.size; /* of one column */
    int64_t chunk = flxi_route_chunk(x.inner, bytes);
    chunk = chunk < 16 && x.inner > 16 ? 16 : chunk; /* whole cache lines, so that threads do not meet in one */
    flxi_pool_run(n->pool, x.inner, chunk, scatter_columns, &x);
    return FLX_OK;
}
