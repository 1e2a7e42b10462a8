/* SPDX-License-Identifier: Apache-2.0 */
/* adjugate_route.c: adjugate and adjugate_along as the definitions compute them, each thread with matrices of its
   own. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/linalg/matrix_view.h"
#include "ops/opcode.h"

typedef struct {
    const flxi_route_node *n;
    const flxi_dense *d;
    int64_t extent, count, slots;
} adjugates;

static adjugates make(const flxi_route_node *n, int threads)
{
    const flx_type *t = n->in_types[0];
    adjugates a = {n, flxi_dense_for(t->dtype), t->dims[t->rank - 1], flxi_matrix_count(t), threads};
    a.slots = a.count < threads ? a.count : threads;
    return a;
}

/* Two matrices, the result with a row more, and two lists of positions. */
static size_t slot_bytes(const adjugates *a)
{
    size_t n = (size_t)a->extent, bytes = (3 * n * n + n) * a->d->size + 2 * n * sizeof(int64_t);
    return (bytes + 63) / 64 * 64;
}

const char *flxi_adjugate_applies(const flxi_route_node *n)
{
    return flxi_route_count(n->in_types[0]) == 0 ? "nothing to compute" : NULL;
}

size_t flxi_adjugate_scratch(const flxi_route_node *n, int threads)
{
    adjugates a = make(n, threads);
    return (size_t)a.slots * slot_bytes(&a);
}

static void run_matrix(const adjugates *a, int64_t which, char *memory)
{
    int64_t n = a->extent;
    size_t bytes = (size_t)(n * n) * a->d->size;
    void *x = memory, *v = memory + bytes, *y = memory + 2 * bytes;
    int64_t *pivots = (int64_t *)(void *)(memory + 3 * bytes + (size_t)n * a->d->size);
    flxi_matrix_view view = {a->n->in_types[0]->dtype, (void *)(uintptr_t)a->n->in[0], which * n * n, n, 1};
    flxi_matrix_load(x, &view, n, n);
    if (a->n->op == OP_adjugate) {
        a->d->lu(x, n, n, pivots);
        a->d->adjugate(x, n, pivots, y);
    } else {
        view.data = (void *)(uintptr_t)a->n->in[1];
        flxi_matrix_load(v, &view, n, n);
        a->d->adjugate_along(x, v, n, pivots, y);
    }
    view.data = a->n->out[0];
    flxi_matrix_store(&view, y, n, n);
}

static void run_slot(void *user, int64_t begin, int64_t end)
{
    const adjugates *a = user;
    for (int64_t k = begin; k < end; k++)
        for (int64_t i = k * a->count / a->slots; i < (k + 1) * a->count / a->slots && !flxi_stopped(); i++)
            run_matrix(a, i, (char *)a->n->scratch + (size_t)k * slot_bytes(a));
}

flx_code flxi_adjugate_route(const flxi_route_node *n)
{
    adjugates a = make(n, flxi_pool_threads(n->pool));
    flxi_pool_run(n->pool, a.slots, 1, run_slot, &a);
    return FLX_OK;
}
