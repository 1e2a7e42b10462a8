/* SPDX-License-Identifier: Apache-2.0 */
/* order.c: a canonical order of nodes. Two graphs that differ only in the order in which independent nodes were
   appended become equal: same text, same hash. Leaves come first, in their order; then everything depth first, operands
   from left to right, starting from the nodes with effects (which keep their relative order), the outputs and the
   pinned values. The walk uses its own stack, since graphs may be as deep as they are long. */
#include "passes/pass.h"

typedef struct {
    uint32_t node;
    uint32_t next; /* operand to look at */
} visit;

typedef struct {
    flxi_copy c;
    bool *done; /* by node */
    FLXI_VEC(visit) stack;
} walk;

static flx_code push(walk *w, uint32_t node)
{
    if (w->done[node])
        return FLX_OK;
    return flxi_push(&w->c.from->ctx->mem, &w->stack, ((visit){node, 0})) ? FLX_OK : flxi_oom(w->c.err, "ordering");
}

/* Copies a node after everything it needs. */
static flx_code reach(walk *w, uint32_t root)
{
    FLXI_TRY(push(w, root));
    while (w->stack.n) {
        visit *v = &w->stack.at[w->stack.n - 1];
        const flxi_node *n = flxi_node_at(w->c.from, v->node);
        if (v->next < n->nin) {
            FLXI_TRY(push(w, flxi_value_at(w->c.from, n->in[v->next++])->node));
            continue;
        }
        uint32_t node = v->node;
        w->stack.n--;
        if (!w->done[node]) {
            w->done[node] = true;
            FLXI_TRY(flxi_copy_node(&w->c, node));
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

static flx_code order_nodes(walk *w)
{
    const flx_graph *g = w->c.from;
    for (size_t i = 0; i < g->leaves.n; i++)
        FLXI_TRY(reach(w, flxi_value_at(g, g->leaves.at[i])->node));
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (!is_leaf(n) && flxi_is_root(g, n) && !is_pinned(g, n))
            FLXI_TRY(reach(w, i));
    }
    for (size_t i = 0; i < g->outputs.n; i++)
        FLXI_TRY(reach(w, flxi_value_at(g, g->outputs.at[i].val)->node));
    for (uint32_t i = 0; i < g->node_count; i++)
        if (is_pinned(g, flxi_node_at(g, i)))
            FLXI_TRY(reach(w, i));
    return FLX_OK;
}

flx_code flxi_pass_order(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    const flxi_allocator *mem = &in->ctx->mem;
    walk w = {.done = flxi_alloc(mem, in->node_count, sizeof *w.done)};
    flx_code code = flxi_copy_begin(&w.c, in, err);
    if (code == FLX_OK)
        code = w.done ? order_nodes(&w) : flxi_oom(err, "ordering");
    flxi_free(mem, w.done, in->node_count, sizeof *w.done);
    flxi_vec_free(mem, &w.stack);
    return flxi_copy_end(&w.c, code, out, remap);
}
