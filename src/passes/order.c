/* SPDX-License-Identifier: Apache-2.0 */
/* order.c: a canonical order of nodes. Two graphs that differ only in the order in which independent nodes were
   appended become equal: same text, same hash. Leaves come first, in their order; then everything depth first, operands
   from left to right, starting from the nodes with effects (which keep their relative order), the outputs and the
   pinned values. The walk uses its own stack, since graphs may be as deep as they are long.

   Sums over processes come before the outputs, the one that depends on the fewest nodes in a row first: each is then
   computed as soon as its operand is, and the exchange has time until its result is used. In a training step these are
   the gradients, from the last layer to the first; from the outputs alone the first layer would be reached first. */
#include "ops/collective/exchange.h"
#include "passes/pass.h"

#include <stdlib.h>

typedef struct {
    uint32_t node;
    uint32_t next; /* operand to look at */
} visit;

typedef struct {
    const flx_graph *g;
    const flxi_allocator *mem;
    flx_error *err;
    uint32_t *list; /* of nodes, in their new order */
    uint32_t n;
    bool *done; /* by node: it is in the list */
    FLXI_VEC(visit) stack;
} walk;

static flx_code push(walk *w, uint32_t node)
{
    if (w->done[node])
        return FLX_OK;
    return flxi_push(w->mem, &w->stack, ((visit){node, 0})) ? FLX_OK : flxi_oom(w->err, "ordering");
}

/* Lists a node after everything it needs. */
static flx_code reach(walk *w, uint32_t root)
{
    FLXI_TRY(push(w, root));
    while (w->stack.n) {
        visit *v = &w->stack.at[w->stack.n - 1];
        const flxi_node *n = flxi_node_at(w->g, v->node);
        if (v->next < n->nin) {
            FLXI_TRY(push(w, flxi_value_at(w->g, n->in[v->next++])->node));
            continue;
        }
        uint32_t node = v->node;
        w->stack.n--;
        if (!w->done[node]) {
            w->done[node] = true;
            w->list[w->n++] = node;
        }
    }
    return FLX_OK;
}

static bool is_leaf(const flxi_node *n)
{
    return (flxi_ops[n->op].traits & TRAIT_DECLARED) != 0;
}

static bool is_pinned(const flx_graph *g, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_value_at(g, n->first + k)->pinned)
            return true;
    return false;
}

static flx_code reach_first(walk *w)
{
    const flx_graph *g = w->g;
    for (size_t i = 0; i < g->leaves.n; i++)
        FLXI_TRY(reach(w, flxi_value_at(g, g->leaves.at[i])->node));
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (!is_leaf(n) && flxi_is_root(g, n) && !is_pinned(g, n))
            FLXI_TRY(reach(w, i));
    }
    return FLX_OK;
}

static flx_code reach_rest(walk *w)
{
    const flx_graph *g = w->g;
    for (size_t i = 0; i < g->outputs.n; i++)
        FLXI_TRY(reach(w, flxi_value_at(g, g->outputs.at[i].val)->node));
    for (uint32_t i = 0; i < g->node_count; i++)
        if (is_pinned(g, flxi_node_at(g, i)))
            FLXI_TRY(reach(w, i));
    return FLX_OK;
}

/* ---- Sums over processes ---- */

typedef struct {
    uint32_t node, depth, position;
} sum;

static int compare_sums(const void *a, const void *b)
{
    const sum *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* The longest chain of nodes that ends in each node; operands are listed before what reads them. */
static void measure_depths(const walk *w, uint32_t *depth)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const flxi_node *n = flxi_node_at(w->g, w->list[i]);
        uint32_t most = 0;
        for (uint32_t k = 0; k < n->nin; k++) {
            uint32_t below = depth[flxi_value_at(w->g, n->in[k])->node];
            most = below > most ? below : most;
        }
        depth[w->list[i]] = most + 1;
    }
}

/* Lists the nodes again, sums over processes as early as they can be; their order must not depend on that of `g`. */
static flx_code reach_sums(walk *w, sum *sums, uint32_t *depth)
{
    size_t count = 0;
    measure_depths(w, depth);
    for (uint32_t i = 0; i < w->n; i++)
        if (flxi_exchange_sums(flxi_node_at(w->g, w->list[i])))
            sums[count++] = (sum){w->list[i], depth[w->list[i]], i};
    if (count)
        qsort(sums, count, sizeof *sums, compare_sums);
    w->n = 0;
    memset(w->done, 0, w->g->node_count * sizeof *w->done);
    FLXI_TRY(reach_first(w));
    for (size_t i = 0; i < count; i++)
        FLXI_TRY(reach(w, sums[i].node));
    return reach_rest(w);
}

static flx_code put_sums_first(walk *w)
{
    size_t n = w->g->node_count;
    sum *sums = flxi_alloc(w->mem, n, sizeof *sums);
    uint32_t *depth = flxi_alloc(w->mem, n, sizeof *depth);
    flx_code code = sums && depth ? reach_sums(w, sums, depth) : flxi_oom(w->err, "ordering");
    flxi_free(w->mem, sums, n, sizeof *sums);
    flxi_free(w->mem, depth, n, sizeof *depth);
    return code;
}

/* ---- The pass ---- */

static flx_code list_nodes(walk *w)
{
    if (!w->list || !w->done)
        return flxi_oom(w->err, "ordering");
    FLXI_TRY(reach_first(w));
    FLXI_TRY(reach_rest(w));
    return w->g->has_exchanges ? put_sums_first(w) : FLX_OK;
}

flx_code flxi_pass_order(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    const flxi_allocator *mem = &in->ctx->mem;
    size_t n = in->node_count;
    flxi_copy c;
    walk w = {.g = in, .mem = mem, .err = err};
    w.list = flxi_alloc(mem, n, sizeof *w.list);
    w.done = flxi_alloc(mem, n, sizeof *w.done);
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK)
        code = list_nodes(&w);
    for (uint32_t i = 0; code == FLX_OK && i < w.n; i++)
        code = flxi_copy_node(&c, w.list[i]);
    flxi_free(mem, w.list, n, sizeof *w.list);
    flxi_free(mem, w.done, n, sizeof *w.done);
    flxi_vec_free(mem, &w.stack);
    return flxi_copy_end(&c, code, out, remap);
}
