/* SPDX-License-Identifier: Apache-2.0 */
/* sparsity.c: where a Jacobian is zero because of the structure of the graph.

   For each value and each axis of one leaf we follow a single fact: "position i along axis p depends only on the
   leaf's positions i + lo … i + hi". Pointwise ops keep it, data movement shifts it, a reduction along p loses it. Two
   uses of the leaf keep the hull of both. The fact at an output determines which elements of the leaf can be varied in
   one sweep: all those further apart than hi - lo. An elementwise function needs one sweep, a function that treats the
   rows of a batch alike one per element of a row, a three-point stencil three.

   How an op passes the fact on is its rule `link`; an op without one, or one that says flxi_link_dense, loses it on all
   axes, which is never wrong, only slower. */
#include "autodiff/jacobian/jacobian.h"

#include "ops/rule/link.h"

#include <fluxion/catalogue.h>

/* How the node carries a link from the operand to the result; false: it is lost. */
static bool follow(const flxi_use *u, flxi_link *l)
{
    const flxi_op *op = &flxi_ops[u->n->op];
    if (op->rules->link)
        return op->rules->link(u, l);
    return op->op_class == CLASS_POINTWISE && flxi_link_aligned(u, l);
}

/* ---- The walk ---- */

typedef struct {
    const flx_graph *g;
    const flx_type *leaf;
    size_t rank;      /* of the leaf */
    bool *reached;    /* by id */
    flxi_link *links; /* by id and axis of the leaf */
} walk;

static flxi_link *links_of(const walk *w, uint32_t id)
{
    return w->links + id * w->rank;
}

/* Both uses of the leaf count. */
static void merge(flxi_link *into, const flxi_link *l)
{
    if (into->axis != l->axis)
        into->axis = -1;
    into->lo = l->lo < into->lo ? l->lo : into->lo;
    into->hi = l->hi > into->hi ? l->hi : into->hi;
}

static void visit_use(const walk *w, const flxi_use *s)
{
    uint32_t from = s->n->in[s->operand];
    uint32_t to = s->n->first + s->result;
    for (size_t q = 0; q < w->rank; q++) {
        flxi_link l = links_of(w, from)[q];
        if (l.axis >= 0 && !follow(s, &l))
            l.axis = -1;
        if (w->reached[to])
            merge(&links_of(w, to)[q], &l);
        else
            links_of(w, to)[q] = l;
    }
    w->reached[to] = true;
}

/* A band as wide as the axis carries no information. */
static void drop_wide(const walk *w, uint32_t id)
{
    for (size_t q = 0; q < w->rank; q++) {
        flxi_link *l = &links_of(w, id)[q];
        if (flxi_dim_is_number(w->leaf->dims[q]) && l->hi - l->lo + 1 >= w->leaf->dims[q])
            l->axis = -1;
    }
}

/* Whether operand i of a node depends on the leaf in a way that matters to the node. */
static bool uses(const walk *w, const flxi_node *n, uint32_t i)
{
    return w->reached[n->in[i]] && flxi_takes_derivative(&flxi_ops[n->op], flxi_type_at(w->g, n->in[i])->dtype);
}

static void visit(const walk *w, const flxi_node *n)
{
    if (flxi_rule_kind(&flxi_ops[n->op], MODE_JVP) == FLX_RULE_ZERO)
        return;
    bool is_quantised = false;
    for (uint32_t i = 0; i < n->nin; i++)
        is_quantised |= uses(w, n, i) && flxi_is_int(flxi_type_at(w->g, n->in[i])->dtype);
    for (uint32_t k = 0; k < n->nout; k++) {
        if (!flxi_gives_derivative(&flxi_ops[n->op], flxi_type_at(w->g, n->first + k)->dtype, is_quantised))
            continue;
        for (uint32_t i = 0; i < n->nin; i++)
            if (uses(w, n, i))
                visit_use(w, &(flxi_use){w->g, n, i, k});
        if (w->reached[n->first + k])
            drop_wide(w, n->first + k);
    }
}

static void write_outputs(const walk *w, flxi_pattern *outputs)
{
    for (size_t k = 0; k < w->g->outputs.n; k++) {
        uint32_t id = w->g->outputs.at[k].val;
        outputs[k] = (flxi_pattern){.reached = w->reached[id]};
        for (size_t q = 0; q < w->rank; q++)
            outputs[k].link[q] = links_of(w, id)[q];
    }
}

flx_code flxi_find_patterns(const flx_graph *g, uint32_t leaf, flxi_pattern *outputs, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t ids = (size_t)g->value_count + 1;
    walk w = {.g = g, .leaf = flxi_type_at(g, leaf), .rank = (size_t)flxi_type_at(g, leaf)->rank};
    w.reached = flxi_alloc(mem, ids, sizeof *w.reached);
    w.links = flxi_alloc(mem, ids * w.rank, sizeof *w.links);
    flx_code code = w.reached && w.links ? FLX_OK : flxi_oom(err, "a Jacobian");
    if (code == FLX_OK) {
        w.reached[leaf] = true;
        for (size_t q = 0; q < w.rank; q++)
            links_of(&w, leaf)[q].axis = (int)q;
        drop_wide(&w, leaf);
        for (uint32_t i = 0; i < g->node_count; i++)
            visit(&w, flxi_node_at(g, i));
        write_outputs(&w, outputs);
    }
    flxi_free(mem, w.reached, ids, sizeof *w.reached);
    flxi_free(mem, w.links, ids * w.rank, sizeof *w.links);
    return code;
}
