/* prepare.c: what all transforms share: which rule an op has, decomposing those that have none, sites, leaves. */
#include "transform/transform.h"

#include "ops/splat_graph.h"

#include <fluxion/catalogue.h>
#include <stdio.h>

enum { MAX_ROUNDS = 16 }; /* decompositions are a few levels deep; more is a cycle among them */

/* ---- Sites ---- */

flxi_site flxi_site_of(flx_graph *g, const flx_graph *src, uint32_t i, const uint32_t *map)
{
    const flxi_node *n = flxi_node_at(src, i);
    flxi_site s = {.g = g, .ctx = g->ctx, .op = &flxi_ops[n->op], .attrs = n->attrs, .nin = n->nin, .nout = n->nout,
                   .bodies = &flxi_bodies};
    flx_val *vals = flxi_new(&g->arena, flx_val, n->nin + n->nout);
    if (!vals) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: a rule");
        s.nin = s.nout = 0;
        return s;
    }
    for (uint32_t k = 0; k < n->nin; k++)
        vals[k] = (flx_val){map[n->in[k]], g->serial};
    for (uint32_t k = 0; k < n->nout; k++)
        vals[n->nin + k] = (flx_val){map[n->first + k], g->serial};
    s.x = vals;
    s.y = vals + n->nin;
    return s;
}

flx_code flxi_built(const flx_graph *g, flx_error *err)
{
    if (g->error.code && err) {
        *err = g->error;
        if (strncmp(err->where, g->name, sizeof err->where - 1) == 0) /* no place: the graph is still being made */
            err->where[0] = 0;
    }
    return (flx_code)g->error.code;
}

/* ---- Decomposing ---- */

static flx_code expand_node(flxi_copy *c, uint32_t i, flxi_expansion rule)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    flxi_site s = flxi_site_of(c->to, c->from, i, c->remap.id);
    FLXI_TRY(flxi_built(c->to, c->err));
    flx_val *y = flxi_new(&c->to->arena, flx_val, n->nout);
    if (!y)
        return flxi_oom(c->err, "decomposing");
    c->to->pending_label = n->nout ? flxi_value_at(c->from, n->first)->name : NULL;
    rule(&s, y);
    c->to->pending_label = NULL;
    FLXI_TRY(flxi_built(c->to, c->err));
    for (uint32_t k = 0; k < n->nout; k++) {
        const flx_type *made = flx_val_type(c->to, y[k]);
        if (!made || !flxi_type_equal(made, flxi_type_at(c->from, n->first + k)))
            return flxi_fail(c->err, FLX_E_INTERNAL, "%s: its decomposition has another type", s.op->name);
        flxi_copy_replace(c, n->first + k, y[k].id);
    }
    return FLX_OK;
}

static bool is_expanded(const flx_graph *g, flxi_choose_expansion choose, const void *user)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (choose(g, i, user))
            return false;
    return true;
}

static flx_code expand_once(const flx_graph *in, flxi_choose_expansion choose, const void *user, flx_graph **out,
                            flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        flxi_expansion rule = choose(in, i, user);
        code = rule ? expand_node(&c, i, rule) : flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}

flx_code flxi_expand(const flx_graph *in, flxi_choose_expansion choose, const void *user, flx_graph **out,
                     flxi_remap *remap, flx_error *err)
{
    flx_graph *now = NULL;
    flxi_remap total = {0};
    FLXI_TRY(expand_once(in, choose, user, &now, &total, err));
    for (int round = 0; !is_expanded(now, choose, user); round++) {
        flx_graph *next = NULL;
        flxi_remap step = {0};
        flx_code code = round < MAX_ROUNDS ? expand_once(now, choose, user, &next, &step, err)
                                           : flxi_fail(err, FLX_E_INTERNAL, "decompositions do not come to an end");
        flx_graph_free(now);
        if (code != FLX_OK) {
            flxi_remap_free(&total);
            return code;
        }
        flxi_remap_compose(&total, &step);
        flxi_remap_free(&step);
        now = next;
    }
    *out = now;
    if (remap)
        *remap = total;
    else
        flxi_remap_free(&total);
    return FLX_OK;
}

typedef struct {
    flxi_choose_node must;
    const void *user;
} decomposing;

static flxi_expansion choose_decomposition(const flx_graph *g, uint32_t i, const void *user)
{
    const decomposing *d = user;
    return d->must(g, i, d->user) ? flxi_ops[flxi_node_at(g, i)->op].rules->decompose : NULL;
}

flx_code flxi_decompose(const flx_graph *in, flxi_choose_node must, const void *user, flx_graph **out,
                        flxi_remap *remap, flx_error *err)
{
    const decomposing d = {must, user};
    return flxi_expand(in, choose_decomposition, &d, out, remap, err);
}

/* Pairs of ops that are one op apart from each other come first: each half alone has no rule. */
static flxi_expansion choose_preparation(const flx_graph *g, uint32_t i, const void *mode)
{
    const flxi_op *op = &flxi_ops[flxi_node_at(g, i)->op];
    if (flxi_rule_kind(op, *(const flxi_mode *)mode) == FLX_RULE_DECOMPOSE)
        return op->rules->decompose;
    return flxi_splat_pair(g, i);
}

flx_code flxi_prepare(const flx_graph *in, flxi_mode mode, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return flxi_expand(in, choose_preparation, &mode, out, remap, err);
}

/* ---- Leaves ---- */

flx_code flxi_copy_leaves(const flx_graph *src, flx_graph *g, uint32_t *map, flx_error *err)
{
    for (size_t i = 0; i < src->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(src, src->leaves.at[i]);
        uint32_t id = flxi_add_leaf(g, flxi_node_at(src, v->node)->op, v->name, v->type);
        if (!id)
            return flxi_built(g, err);
        flxi_value_at(g, id)->pinned = v->pinned;
        map[src->leaves.at[i]] = id;
    }
    return FLX_OK;
}

flx_val flxi_new_leaf(flx_graph *g, const char *prefix, const char *name, const flx_type *type)
{
    char text[300];
    snprintf(text, sizeof text, "%.40s%.200s", prefix, name);
    size_t n = strlen(text);
    for (unsigned k = 2; flx_graph_find(g, text).id; k++)
        snprintf(text + n, sizeof text - n, "_%u", k);
    return flx_input(g, text, type);
}

flx_code flxi_finish(flx_graph **g, flx_error *err)
{
    flx_graph *simple = NULL;
    flx_code code = flxi_built(*g, err);
    if (code == FLX_OK)
        code = flxi_simplify(*g, &simple, NULL, err);
    flx_graph_free(*g);
    *g = code == FLX_OK ? simple : NULL;
    return code;
}

/* ---- Rearranging ---- */

flx_graph *flxi_choose_outputs_as(const flx_graph *g, const char *name, const flxi_choice *choices, size_t n,
                                  flx_error *err)
{
    flx_graph *out = flx_graph_new(g->ctx, name);
    size_t ids = (size_t)g->value_count + 1;
    uint32_t *map = flxi_alloc(&g->ctx->mem, ids, sizeof *map);
    flx_code code = out && map ? flxi_copy_leaves(g, out, map, err) : flxi_oom(err, "copying a graph");
    if (out)
        out->is_lowered = g->is_lowered;
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        if (!(flxi_ops[flxi_node_at(g, i)->op].traits & TRAIT_DECLARED))
            code = flxi_graft(out, g, i, map, err);
    for (size_t k = 0; code == FLX_OK && k < n; k++) {
        const flxi_output *o = &g->outputs.at[choices[k].output];
        flx_output(out, (flx_val){map[o->val], out->serial}, choices[k].name[0] ? choices[k].name : o->name);
        code = flxi_built(out, err);
    }
    flxi_free(&g->ctx->mem, map, ids, sizeof *map);
    if (code == FLX_OK)
        code = flxi_finish(&out, err);
    if (code == FLX_OK)
        return out;
    flx_graph_free(out);
    return NULL;
}

flx_graph *flxi_choose_outputs(const flx_graph *g, const flxi_choice *choices, size_t n, flx_error *err)
{
    return flxi_choose_outputs_as(g, g->name, choices, n, err);
}
