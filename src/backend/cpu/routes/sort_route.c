/* SPDX-License-Identifier: Apache-2.0 */
/* sort_route.c: sort, argsort, topk and top_k of one key by merging.

   Each element becomes an unsigned integer in whose order it sorts: floats by their bits with the sign turned into an
   offset, both zeros alike, all NaNs alike above +inf; descending order turns all bits over. So one loop sorts every
   dtype, stably, without asking a function. A few largest are picked by insertion, without sorting the rest. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

#include <string.h>

typedef struct {
    uint64_t key;
    int64_t at; /* position in the row */
} entry;

typedef struct {
    const flxi_route_node *n;
    flxi_split split; /* of the key */
    int64_t take;     /* results have the first `take` positions of each row */
    bool descending;
    uint32_t values; /* the first results are operands in the new order, this many */
    int positions;   /* the result that holds positions, or -1 */
    int64_t slots;   /* rows are distributed among that many */
} sorting;

static bool is_top(const flxi_route_node *n)
{
    return n->op == OP_topk || n->op == OP_top_k;
}

static int64_t axis_of(const flxi_route_node *n)
{
    return n->op == OP_topk ? n->in_types[0]->rank - 1 : flxi_route_int(n, "axis");
}

static sorting sorting_of(const flxi_route_node *n, int threads)
{
    int64_t axis = axis_of(n);
    sorting s = {.n = n, .split = flxi_split_at(n->in_types[0], axis), .take = n->out_types[0]->dims[axis]};
    int64_t rows = s.split.outer * s.split.inner;
    s.descending = is_top(n) || flxi_route_int(n, "descending");
    s.values = n->op == OP_sort ? n->nin : n->op == OP_top_k ? 1 : 0;
    s.positions = n->op == OP_sort ? -1 : n->op == OP_top_k ? 1 : 0;
    s.slots = threads < rows ? threads : rows;
    return s;
}

/* ---- Keys ---- */

static uint64_t key_of(int32_t dtype, const void *data, int64_t i)
{
    static const uint64_t sign = (uint64_t)1 << 63;
    if (!flxi_is_float(dtype)) {
        uint64_t x = (uint64_t)flxi_load_int(dtype, data, i);
        return flxi_is_signed(dtype) ? x ^ sign : x;
    }
    double x = flxi_load_double(dtype, data, i);
    uint64_t bits;
    if (x != x)
        return UINT64_MAX;
    x = x == 0 ? 0.0 : x;
    memcpy(&bits, &x, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

/* ---- Rows ---- */

/* Merges sorted runs of doubling length; returns the one of the two arrays that holds the result, NULL when the run is
   stopped. */
static entry *merge_runs(entry *v, entry *spare, int64_t n)
{
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t begin = 0; begin < n && !flxi_stopped_by_now(); begin += 2 * run) {
            int64_t middle = begin + run < n ? begin + run : n;
            int64_t end = begin + 2 * run < n ? begin + 2 * run : n;
            int64_t i = begin;
            int64_t j = middle;
            for (int64_t k = begin; k < end && !flxi_stopped_by_now(); k++)
                spare[k] = j >= end || (i < middle && v[i].key <= v[j].key) ? v[i++] : v[j++];
        }
        if (flxi_stopped())
            return NULL;
        entry *other = v;
        v = spare;
        spare = other;
    }
    return v;
}

enum { FEW = 32 };

/* The first `take` in order, of which there are few. */
static entry *pick_few(const entry *v, entry *best, int64_t n, int64_t take)
{
    int64_t held = 0;
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++) {
        if (held == take && v[i].key >= best[held - 1].key)
            continue;
        int64_t at = held < take ? held++ : held - 1;
        for (; at > 0 && best[at - 1].key > v[i].key; at--)
            best[at] = best[at - 1];
        best[at] = v[i];
    }
    return best;
}

static void sort_row(const sorting *s, int64_t row, entry *v)
{
    const flxi_route_node *n = s->n;
    flxi_split d = s->split;
    int32_t dtype = n->in_types[0]->dtype;
    int64_t in = row / d.inner * d.n * d.inner + row % d.inner;
    int64_t out = row / d.inner * s->take * d.inner + row % d.inner;
    for (int64_t k = 0; k < d.n && !flxi_stopped_by_now(); k++) {
        uint64_t key = key_of(dtype, n->in[0], in + k * d.inner);
        v[k] = (entry){s->descending ? ~key : key, k};
    }
    const entry *sorted = s->take > 0 && s->take <= FEW && s->take < d.n ? pick_few(v, v + d.n, d.n, s->take)
                                                                         : merge_runs(v, v + d.n, d.n);
    if (flxi_stopped()) /* positions are not complete */
        return;
    for (int64_t k = 0; k < s->take && !flxi_stopped_by_now(); k++) {
        int64_t at = out + k * d.inner;
        for (uint32_t j = 0; j < s->values; j++) {
            size_t size = flx_dtype_size(n->in_types[j]->dtype);
            memcpy((char *)n->out[j] + (size_t)at * size,
                   (const char *)n->in[j] + (size_t)(in + sorted[k].at * d.inner) * size, size);
        }
        if (s->positions >= 0)
            flxi_store_int(n->out_types[s->positions]->dtype, n->out[s->positions], at, sorted[k].at);
    }
}

/* Slot i takes rows i, i + slots …, with scratch of its own. */
static void sort_rows(void *user, int64_t begin, int64_t end)
{
    const sorting *s = user;
    int64_t rows = s->split.outer * s->split.inner;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t row = slot; row < rows && !flxi_stopped(); row += s->slots)
            sort_row(s, row, (entry *)s->n->scratch + slot * 2 * s->split.n);
}

/* ---- The route ---- */

const char *flxi_sort_applies(const flxi_route_node *n)
{
    if (n->op == OP_sort && flxi_route_has_graph(n, "compare"))
        return "the order is given by a graph";
    if (n->op == OP_sort && flxi_route_int(n, "num_keys") != 1)
        return "more than one key";
    return NULL;
}

size_t flxi_sort_scratch(const flxi_route_node *n, int threads)
{
    if (flxi_route_count(n->in_types[0]) == 0)
        return 0;
    sorting s = sorting_of(n, threads);
    return (size_t)(s.slots * 2 * s.split.n) * sizeof(entry);
}

flx_code flxi_sort_route(const flxi_route_node *n)
{
    if (flxi_route_count(n->in_types[0]) == 0)
        return FLX_OK;
    sorting s = sorting_of(n, flxi_pool_threads(n->pool));
    bool is_small = flxi_route_count(n->in_types[0]) < 4096; /* not worth waking a thread */
    flxi_pool_run(is_small ? NULL : n->pool, s.slots, 1, sort_rows, &s);
    return FLX_OK;
}
