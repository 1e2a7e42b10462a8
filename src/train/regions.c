/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c: the loss with its nodes in regions that reverse mode computes again (custom_fn with recompute), so that
   only what passes from one region to the next is kept. Regions end where least passes, near the borders of equal
   parts. The last region is not computed again: the backward pass begins with it, while its values are still there. */
#include "train/training_work.h"

#include <fluxion/ops.h>
#include <stdio.h>

typedef struct {
    const flx_graph *g;
    flx_graph *out;
    flxi_arena arena;
    uint32_t *map;      /* ids of g to ids of out */
    uint32_t *last_use; /* by id: the last node that reads the value; node_count for outputs */
    double *passing;    /* by node: elements of values that are needed after it and are computed up to it */
    flx_error *err;
} region_work;

static bool is_declared(const flx_graph *g, uint32_t node)
{
    return flxi_ops[flxi_node_at(g, node)->op].traits & TRAIT_DECLARED;
}

/* Neither leaves nor constants, which are there anyway. */
static bool is_computed(const flx_graph *g, uint32_t id)
{
    const flxi_node *n = flxi_node_of(g, id);
    return !(flxi_ops[n->op].traits & TRAIT_DECLARED) && !flxi_is_const(n);
}

/* Symbolic dimensions count as 1: most values share the number of examples. */
static double elements(const flx_type *t)
{
    double n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= flx_dim_is_static(t->dims[k]) ? (double)t->dims[k] : 1;
    return n;
}

static void find_uses(region_work *w)
{
    const flx_graph *g = w->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++)
            w->last_use[n->in[k]] = i;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        w->last_use[g->outputs.at[k].val] = g->node_count;
    for (uint32_t id = 1; id <= g->value_count; id++) {
        uint32_t from = flxi_value_at(g, id)->node;
        if (!is_computed(g, id) || w->last_use[id] <= from)
            continue;
        w->passing[from] += elements(flxi_type_at(g, id));
        if (w->last_use[id] < g->node_count)
            w->passing[w->last_use[id]] -= elements(flxi_type_at(g, id));
    }
    for (uint32_t i = 1; i < g->node_count; i++)
        w->passing[i] += w->passing[i - 1];
}

/* The node after which least passes, among those around `at`; an earlier one wins a tie. */
static uint32_t best_border(const region_work *w, uint32_t at, uint32_t reach)
{
    uint32_t from = at > reach ? at - reach : 0,
             to = at + reach < w->g->node_count - 1 ? at + reach : w->g->node_count - 1;
    uint32_t best = at;
    for (uint32_t i = from; i <= to; i++)
        if (w->passing[i] < w->passing[best])
            best = i;
    return best;
}

static bool is_plain(const flx_graph *g, uint32_t node)
{
    const flxi_node *n = flxi_node_at(g, node);
    bool is_pinned = false;
    for (uint32_t k = 0; k < n->nout; k++)
        is_pinned |= flxi_value_at(g, n->first + k)->pinned != 0;
    return !is_pinned && !flxi_has_effect(n);
}

static flx_code graft_all(region_work *w, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i <= to; i++)
        if (!is_declared(w->g, i) && !flxi_is_const(flxi_node_at(w->g, i)))
            FLXI_TRY(flxi_graft(w->out, w->g, i, w->map, w->err));
    return FLX_OK;
}

/* A region as a body: inputs are what comes from before, outputs what is needed later. */
typedef struct {
    flx_graph *body;
    uint32_t *map; /* ids of g to ids of the body */
    flx_val *operands;
    uint32_t *results; /* ids of g */
    size_t num_operands, num_results;
} region;

static flx_code bring_in(region_work *w, region *r, uint32_t id)
{
    const flxi_value *v = flxi_value_at(w->g, id);
    char name[20];
    if (r->map[id])
        return FLX_OK;
    if (flxi_is_const(flxi_node_at(w->g, v->node)))
        return flxi_graft(r->body, w->g, v->node, r->map, w->err);
    snprintf(name, sizeof name, "x%zu", r->num_operands);
    r->map[id] = flx_input(r->body, name, v->type).id;
    r->operands[r->num_operands++] = (flx_val){w->map[id], w->out->serial};
    return flxi_built(r->body, w->err);
}

static flx_code fill_body(region_work *w, region *r, uint32_t from, uint32_t to)
{
    const flx_graph *g = w->g;
    for (uint32_t i = from; i <= to; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (is_declared(g, i) || flxi_is_const(n))
            continue;
        for (uint32_t k = 0; k < n->nin; k++)
            FLXI_TRY(bring_in(w, r, n->in[k]));
        FLXI_TRY(flxi_graft(r->body, g, i, r->map, w->err));
        for (uint32_t k = 0; k < n->nout; k++)
            if (w->last_use[n->first + k] > to) {
                flx_output(r->body, (flx_val){r->map[n->first + k], r->body->serial}, NULL);
                r->results[r->num_results++] = n->first + k;
            }
    }
    return flxi_built(r->body, w->err);
}

static flx_code append_call(region_work *w, const region *r)
{
    flx_val *results = flxi_new(&w->arena, flx_val, r->num_results);
    if (!results)
        return flxi_oom(w->err, "recomputed regions");
    flx_custom_fn(w->out, r->operands, r->num_operands, results, r->num_results, .fwd_body = r->body, .recompute = 1);
    FLXI_TRY(flxi_built(w->out, w->err));
    for (size_t k = 0; k < r->num_results; k++)
        w->map[r->results[k]] = results[k].id;
    return FLX_OK;
}

static flx_code add_region(region_work *w, uint32_t from, uint32_t to)
{
    size_t ids = (size_t)w->g->value_count + 1;
    region r = {.body = flx_graph_new(w->g->ctx, "region"),
                .map = flxi_new(&w->arena, uint32_t, ids),
                .operands = flxi_new(&w->arena, flx_val, ids),
                .results = flxi_new(&w->arena, uint32_t, ids)};
    if (!r.body || !r.map || !r.operands || !r.results) {
        flx_graph_release(r.body);
        return flxi_oom(w->err, "recomputed regions");
    }
    flx_code code = fill_body(w, &r, from, to);
    if (code == FLX_OK && r.num_results)
        code = append_call(w, &r);
    flx_graph_release(r.body);
    return code;
}

static flx_code add_nodes(region_work *w, uint32_t from, uint32_t to)
{
    bool is_body = true;
    for (uint32_t i = from; i <= to; i++)
        is_body &= is_declared(w->g, i) || is_plain(w->g, i);
    return is_body ? add_region(w, from, to) : graft_all(w, from, to);
}

static flx_code divide(region_work *w, int64_t regions)
{
    const flx_graph *g = w->g;
    size_t ids = (size_t)g->value_count + 1;
    w->map = flxi_new(&w->arena, uint32_t, ids);
    w->last_use = flxi_new(&w->arena, uint32_t, ids);
    w->passing = flxi_new(&w->arena, double, (size_t)g->node_count + 1);
    if (!w->out || !w->map || !w->last_use || !w->passing)
        return flxi_oom(w->err, "recomputed regions");
    FLXI_TRY(flxi_copy_leaves(g, w->out, w->map, w->err));
    find_uses(w);
    /* Constants may be needed by several regions; those that are not needed are dropped later. */
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_is_const(flxi_node_at(g, i)))
            FLXI_TRY(flxi_graft(w->out, g, i, w->map, w->err));
    uint32_t from = 0, size = (uint32_t)((int64_t)g->node_count / regions);
    for (int64_t r = 1; r < regions && size > 1; r++) {
        uint32_t border = best_border(w, (uint32_t)(r * (int64_t)size), size / 2);
        if (border < from)
            continue;
        FLXI_TRY(add_nodes(w, from, border));
        from = border + 1;
    }
    if (from < g->node_count)
        FLXI_TRY(graft_all(w, from, g->node_count - 1));
    for (size_t k = 0; k < g->outputs.n; k++)
        if (flxi_add_output(w->out, w->map[g->outputs.at[k].val], g->outputs.at[k].name) != FLX_OK)
            break; /* the graph has the error */
    return flxi_built(w->out, w->err);
}

flx_graph *flxi_recompute_regions(const flx_graph *loss, int64_t regions, flx_error *err)
{
    region_work w = {.g = loss, .out = flx_graph_new(loss->ctx, loss->name), .err = err};
    flxi_arena_init(&w.arena, &loss->ctx->mem);
    flx_code code = divide(&w, regions);
    flxi_arena_free(&w.arena);
    if (code == FLX_OK)
        return w.out;
    flx_graph_release(w.out);
    return NULL;
}
