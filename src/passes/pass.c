/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c: remaps and copying, used by all passes. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "graph/op/origin.h"

void flxi_remap_free(flxi_remap *r)
{
    if (r && r->id)
        flxi_free(r->mem, r->id, r->n, sizeof *r->id);
    if (r)
        *r = (flxi_remap){0};
}

void flxi_remap_compose(flxi_remap *first, const flxi_remap *second)
{
    for (size_t i = 0; i < first->n; i++)
        first->id[i] = first->id[i] < second->n ? second->id[first->id[i]] : 0;
}

flx_code flxi_copy_begin(flxi_copy *c, const flx_graph *from, flx_error *err)
{
    const flxi_allocator *mem = &from->ctx->mem;
    *c = (flxi_copy){.from = from, .err = err};
    FLXI_TRY(flxi_graph_check(from, err));
    c->remap = (flxi_remap){.n = (size_t)from->value_count + 1, .mem = mem};
    c->remap.id = flxi_alloc(mem, c->remap.n, sizeof *c->remap.id);
    c->to = flx_graph_new(from->ctx, from->name);
    if (!c->remap.id || !c->to)
        return flxi_oom(err, "copying a graph");
    c->to->is_lowered = from->is_lowered;
    return FLX_OK;
}

/* Extents that are not numbers may be written in several ways. */
static bool same_type(const flx_type *a, const flx_type *b)
{
    if (flxi_type_is_static(a) && flxi_type_is_static(b))
        return flxi_type_equal(a, b);
    return a->dtype == b->dtype && a->rank == b->rank;
}

void flxi_copy_replace(flxi_copy *c, uint32_t old, uint32_t id)
{
    c->remap.id[old] = id;
    if (!c->retypes && !c->attrs.dim && !c->changed && !same_type(flxi_type_at(c->from, old), flxi_type_at(c->to, id)))
        c->changed = old;
    flxi_value *from = flxi_value_at(c->from, old);
    flxi_value *to = flxi_value_at(c->to, id);
    to->pinned |= from->pinned;
    if (from->name && !to->name)
        flxi_label(c->to, id, from->name, strlen(from->name));
}

static flx_code graph_code(const flx_graph *g, flx_error *err)
{
    if (err)
        *err = g->error;
    return (flx_code)g->error.code;
}

static flx_code copy_leaf(flxi_copy *c, const flxi_node *n, const void *attrs)
{
    const flx_type *type = flxi_attr_type(&flxi_ops[n->op], attrs, "type");
    uint32_t id = flxi_add_leaf_like(c->to, c->from, n->first, type);
    if (!id)
        return graph_code(c->to, c->err);
    flxi_copy_replace(c, n->first, id);
    return FLX_OK;
}

flx_code flxi_copy_node(flxi_copy *c, uint32_t i)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    void *attrs;
    FLXI_TRY(flxi_attrs_clone(c->to, &flxi_ops[n->op], n->attrs, &c->attrs, &attrs, c->err));
    if (flxi_ops[n->op].traits & TRAIT_DECLARED)
        return copy_leaf(c, n, attrs);
    uint32_t *in = flxi_new(&c->to->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(c->err, "copying a graph");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = c->remap.id[n->in[k]];
    c->to->pending_label = n->nout ? flxi_value_at(c->from, n->first)->name : NULL;
    uint32_t first =
        c->attrs.dim ? flxi_add_node(c->to, n->op, in, n->nin, attrs) : flxi_add_copy(c->to, c->from, n, in, attrs);
    c->to->pending_label = NULL;
    if (c->attrs.dim && first)
        flxi_copy_origin(c->to, n);
    if (!first)
        return graph_code(c->to, c->err);
    if (flxi_node_at(c->to, c->to->node_count - 1)->nout != n->nout)
        return flxi_fail(c->err, FLX_E_SHAPE, "%s: the number of results changes with the extents",
                         flxi_ops[n->op].name);
    for (uint32_t k = 0; k < n->nout; k++)
        flxi_copy_replace(c, n->first + k, first + k);
    return FLX_OK;
}

static flx_code copy_outputs(flxi_copy *c)
{
    for (size_t i = 0; i < c->from->outputs.n; i++) {
        const flxi_output *o = &c->from->outputs.at[i];
        if (flxi_add_output(c->to, c->remap.id[o->val], o->name) != FLX_OK)
            return graph_code(c->to, c->err);
    }
    return graph_code(c->to, c->err);
}

static flx_code fail_changed(const flxi_copy *c)
{
    flxi_type_text before, after;
    flx_context *ctx = c->from->ctx;
    const flxi_value *v = flxi_value_at(c->from, c->changed);
    const char *op = flxi_ops[flxi_node_at(c->from, v->node)->op].name;
    return flxi_fail(c->err, FLX_E_INTERNAL, "a pass replaced a value of %s, %s, by one of type %s", op,
                     flxi_type_str(ctx, flxi_type_at(c->from, c->changed), &before),
                     flxi_type_str(ctx, flxi_type_at(c->to, c->remap.id[c->changed]), &after));
}

flx_code flxi_copy_end(flxi_copy *c, flx_code code, flx_graph **out, flxi_remap *remap)
{
    if (code == FLX_OK && c->changed)
        code = fail_changed(c);
    if (code == FLX_OK)
        code = copy_outputs(c);
    if (code != FLX_OK) {
        flx_graph_release(c->to);
        flxi_remap_free(&c->remap);
        return code;
    }
    *out = c->to;
    if (remap)
        *remap = c->remap;
    else
        flxi_remap_free(&c->remap);
    return FLX_OK;
}

flx_code flxi_built(const flx_graph *g, flx_error *err)
{
    if (g->error.code && err) {
        *err = g->error;
        if (strncmp(err->where, g->name, sizeof err->where - 1) == 0) /* no location: the graph is still being built */
            err->where[0] = 0;
    }
    return (flx_code)g->error.code;
}

/* ---- Looking at graphs ---- */

uint32_t *flxi_count_uses(const flx_graph *g)
{
    uint32_t *uses = flxi_alloc(&g->ctx->mem, (size_t)g->value_count + 1, sizeof *uses);
    for (uint32_t i = 0; uses && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++)
            uses[n->in[k]]++;
    }
    for (size_t k = 0; uses && k < g->outputs.n; k++)
        uses[g->outputs.at[k].val]++;
    return uses;
}
