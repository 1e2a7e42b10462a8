/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: see decompose.h. A round replaces every node that must be decomposed; rounds repeat until none is
   left. A scan whose steps the decomposition of another node repeats is replaced with it. */
#include "passes/decompose.h"

#include "ops/control/control.h"

#include <fluxion/catalogue.h>

/* Decompositions are a few levels deep, and bodies nest; more is a cycle among them. */
enum { MAX_ROUNDS = 16 + FLXI_MAX_NESTING };

/* ---- Sites ---- */

flxi_site flxi_site_of(flx_graph *g, const flx_graph *src, uint32_t i, const uint32_t *map)
{
    const flxi_node *n = flxi_node_at(src, i);
    flxi_site s = {.g = g,
                   .ctx = g->ctx,
                   .op = &flxi_ops[n->op],
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
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
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, c->from, n);
    rule(&s, y);
    flxi_origin_end(&scope);
    c->to->pending_label = NULL;
    flx_code code = flxi_built(c->to, c->err);
    if (code != FLX_OK) {
        flxi_at_node(c->err, c->from, n);
        return code;
    }
    for (uint32_t k = 0; k < n->nout; k++) {
        const flx_type *made = flx_val_type(c->to, y[k]);
        const flx_type *declared = flxi_type_at(c->from, n->first + k);
        bool is_static = made && flxi_type_is_static(made) && flxi_type_is_static(declared);
        if (made && !is_static && !flxi_type_equal(made, declared))
            return flxi_fail_hint(c->err, FLX_E_UNBOUND_DIM, "bind the dimensions: flx_specialise(), or write numbers",
                                  "%s: its operands do not say the extents of its results", s.op->name);
        if (!made || !flxi_type_equal(made, declared))
            return flxi_fail(c->err, FLX_E_INTERNAL, "%s: the type of its decomposition differs", s.op->name);
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
                                           : flxi_fail(err, FLX_E_INTERNAL, "decompositions do not terminate");
        flx_graph_release(now);
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
    uint32_t partner = 0;
    if (d->must(g, i, d->user))
        return flxi_ops[flxi_node_at(g, i)->op].rules->decompose;
    flxi_expansion beside = flxi_scan_beside_replay(g, i, &partner);
    return beside && d->must(g, partner, d->user) ? beside : NULL;
}

flx_code flxi_decompose(const flx_graph *in, flxi_choose_node must, const void *user, flx_graph **out,
                        flxi_remap *remap, flx_error *err)
{
    const decomposing d = {must, user};
    return flxi_expand(in, choose_decomposition, &d, out, remap, err);
}

/* What has a rule for the mode stays, unless it has one only together with another op. */
static flxi_expansion choose_preparation(const flx_graph *g, uint32_t i, const void *mode)
{
    const flxi_op *op = &flxi_ops[flxi_node_at(g, i)->op];
    if (flxi_rule_kind(op, *(const flxi_mode *)mode) == FLX_RULE_DECOMPOSE)
        return op->rules->decompose;
    return op->rules->pair ? op->rules->pair(g, i) : NULL;
}

flx_code flxi_prepare(const flx_graph *in, flxi_mode mode, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return flxi_expand(in, choose_preparation, &mode, out, remap, err);
}
