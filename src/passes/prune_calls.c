/* SPDX-License-Identifier: Apache-2.0 */
/* prune_calls.c: see calls.h. A transform makes a function for all that may be asked of it: kept values for every
   cotangent, every operand of the original. One backward sweep over the values finds what is needed, functions
   included; a function is pruned once for each set of results that is needed of it. */
#include "passes/calls.h"

typedef struct { /* a function with some of its results */
    uint32_t serial;
    const bool *outputs;
    const bool *inputs; /* those that it still has */
    flx_graph *graph;   /* held; the function itself where nothing leaves it */
    bool is_same;
} pruned;

typedef struct {
    const flxi_allocator *mem;
    flxi_arena arena;
    FLXI_VEC(pruned *) done;
    flxi_index index; /* of done by serial number */
    flx_error *err;
} pruner;

typedef struct {
    const flx_graph *g;
    bool *needed;   /* by value */
    pruned **calls; /* by node: the function it calls from now on; NULL: not a call */
    bool is_same;
} plan;

static flx_code prune_function(pruner *p, const flx_graph *body, const bool *outputs, pruned **out);

/* ---- What is needed ---- */

static flx_code need_operands(pruner *p, plan *l, uint32_t i, bool is_call)
{
    const flxi_node *n = flxi_node_at(l->g, i);
    const bool *inputs = NULL;
    if (is_call) {
        FLXI_TRY(prune_function(p, flxi_called(l->g, n), l->needed + n->first, &l->calls[i]));
        inputs = l->calls[i]->inputs;
        l->is_same &= l->calls[i]->is_same;
    }
    for (uint32_t k = 0; k < n->nin; k++)
        l->needed[n->in[k]] |= !inputs || inputs[k];
    return FLX_OK;
}

static flx_code find_needed(pruner *p, plan *l)
{
    for (uint32_t i = l->g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(l->g, i);
        bool is_root = flxi_is_root(l->g, n) && !(flxi_ops[n->op].traits & TRAIT_DECLARED), is_read = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_read |= l->needed[n->first + k];
        if (is_read || is_root)
            FLXI_TRY(need_operands(p, l, i, flxi_called(l->g, n) && !is_root));
    }
    return FLX_OK;
}

static flx_code plan_new(pruner *p, const flx_graph *g, const bool *outputs, plan *l)
{
    *l = (plan){.g = g,
                .needed = flxi_new(&p->arena, bool, (size_t)g->value_count + 1),
                .calls = flxi_new(&p->arena, pruned *, g->node_count),
                .is_same = true};
    if (!l->needed || !l->calls)
        return flxi_oom(p->err, "pruning");
    for (size_t k = 0; k < g->outputs.n; k++)
        l->needed[g->outputs.at[k].val] |= !outputs || outputs[k];
    return find_needed(p, l);
}

/* ---- Copies ---- */

static flx_graph *other_body(void *user, const flx_graph *body, flx_error *err)
{
    (void)body, (void)err;
    return user;
}

static flx_code copy_call(flxi_copy *c, uint32_t i, const pruned *f)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    const flxi_attr_map map = {.body = other_body, .user = f->graph};
    uint32_t *in = flxi_new(&c->to->arena, uint32_t, n->nin + 1), nin = 0, made = 0;
    void *attrs;
    if (!in)
        return flxi_oom(c->err, "pruning");
    FLXI_TRY(flxi_attrs_clone(c->to, &flxi_ops[n->op], n->attrs, &map, &attrs, c->err));
    for (uint32_t k = 0; k < n->nin; k++)
        if (f->inputs[k])
            in[nin++] = c->remap.id[n->in[k]];
    uint32_t first = flxi_add_node(c->to, n->op, in, nin, attrs);
    if (!first)
        return flxi_built(c->to, c->err);
    for (uint32_t k = 0; k < n->nout; k++)
        if (f->outputs[k])
            flxi_copy_replace(c, n->first + k, first + made++);
    return FLX_OK;
}

static bool is_needed(const plan *l, const flxi_node *n)
{
    bool any = flxi_is_root(l->g, n) && !(flxi_ops[n->op].traits & TRAIT_DECLARED);
    for (uint32_t k = 0; k < n->nout; k++)
        any |= l->needed[n->first + k];
    return any;
}

static flx_code copy_nodes(flxi_copy *c, const plan *l, bool keeps_leaves)
{
    for (uint32_t i = 0; i < l->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(l->g, i);
        bool stays = is_needed(l, n) || (keeps_leaves && (flxi_ops[n->op].traits & TRAIT_DECLARED));
        const pruned *f = l->calls[i];
        if (stays)
            FLXI_TRY(f && !f->is_same ? copy_call(c, i, f) : flxi_copy_node(c, i));
    }
    return FLX_OK;
}

/* ---- Functions ---- */

static bool is_all(const bool *flags, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!flags[i])
            return false;
    return true;
}

static flx_code copy_function(const plan *l, pruned *f, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, l->g, err);
    if (code == FLX_OK)
        code = copy_nodes(&c, l, false);
    for (size_t k = 0; code == FLX_OK && k < l->g->outputs.n; k++)
        if (f->outputs[k] &&
            flxi_add_output(c.to, c.remap.id[l->g->outputs.at[k].val], l->g->outputs.at[k].name) != FLX_OK)
            break; /* the graph has the error */
    if (code == FLX_OK)
        code = flxi_built(c.to, err);
    flxi_remap_free(&c.remap);
    if (code != FLX_OK)
        flx_graph_release(c.to);
    else
        f->graph = c.to;
    return code;
}

static flx_code make_pruned(pruner *p, const flx_graph *body, pruned *f)
{
    plan l;
    bool *inputs = flxi_new(&p->arena, bool, body->leaves.n + 1);
    if (!inputs)
        return flxi_oom(p->err, "pruning");
    FLXI_TRY(plan_new(p, body, f->outputs, &l));
    for (size_t i = 0; i < body->leaves.n; i++)
        inputs[i] = l.needed[body->leaves.at[i]];
    f->inputs = inputs;
    f->is_same = l.is_same && is_all(inputs, body->leaves.n) && is_all(f->outputs, body->outputs.n);
    if (!f->is_same)
        return copy_function(&l, f, p->err);
    f->graph = flx_graph_retain((flx_graph *)(uintptr_t)body);
    return FLX_OK;
}

static flx_code prune_function(pruner *p, const flx_graph *body, const bool *outputs, pruned **out)
{
    uint32_t i;
    for (flxi_probe at = flxi_index_first(&p->index, body->serial); flxi_index_next(&p->index, &at, &i);) {
        pruned *f = p->done.at[i];
        if (f->serial == body->serial && memcmp(f->outputs, outputs, body->outputs.n * sizeof *outputs) == 0) {
            *out = f;
            return FLX_OK;
        }
    }
    pruned *f = flxi_new(&p->arena, pruned, 1);
    bool *asked = flxi_dup(&p->arena, bool, outputs, body->outputs.n);
    if (!f || !asked)
        return flxi_oom(p->err, "pruning");
    *f = (pruned){.serial = body->serial, .outputs = asked};
    FLXI_TRY(make_pruned(p, body, f));
    if (!flxi_reserve(p->mem, &p->done) || !flxi_index_add(p->mem, &p->index, f->serial, (uint32_t)p->done.n)) {
        flx_graph_release(f->graph);
        return flxi_oom(p->err, "pruning");
    }
    p->done.at[p->done.n++] = f;
    *out = f;
    return FLX_OK;
}

static flx_code copy_graph(const plan *l, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, l->g, err);
    if (code == FLX_OK)
        code = copy_nodes(&c, l, true);
    return flxi_copy_end(&c, code, out, remap);
}

flx_code flxi_pass_prune_calls(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    pruner p = {.mem = &in->ctx->mem, .err = err};
    plan l;
    flxi_arena_init(&p.arena, p.mem);
    flx_code code = plan_new(&p, in, NULL, &l);
    if (code == FLX_OK)
        code = copy_graph(&l, out, remap, err);
    for (size_t i = 0; i < p.done.n; i++)
        flx_graph_release(p.done.at[i]->graph);
    flxi_vec_free(p.mem, &p.done);
    flxi_index_free(p.mem, &p.index);
    flxi_arena_free(&p.arena);
    return code;
}
