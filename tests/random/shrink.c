/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.c: see shrink.h. Each step copies the graph with one change and drops what is dead; a step is kept when the
   graph still fails and has fewer nodes or outputs, so the search ends. */
#include "shrink.h"

#include "passes/pass.h"
#include "test.h"

#include <fluxion/ops.h>
#include <fluxion/text.h>

typedef enum { BY_OPERAND, BY_INPUT, BY_CONSTANT, BY_KINDS } substitute;

typedef struct {
    flx_graph *best;
    shrink_predicate fails;
    void *user;
} shrinker;

static size_t size_of(const flx_graph *g)
{
    return g->node_count + g->outputs.n;
}

/* Takes ownership of the candidate; true when it is the best now. */
static bool offer(shrinker *s, flx_graph *candidate)
{
    flx_graph *lean = NULL;
    flx_error err = {0};
    if (candidate && flxi_pass_dce(candidate, &lean, NULL, &err) != FLX_OK)
        lean = NULL;
    flx_graph_release(candidate);
    bool better = lean && size_of(lean) < size_of(s->best) && s->fails(s->user, lean);
    if (!better) {
        flx_graph_release(lean);
        return false;
    }
    flx_graph_release(s->best);
    s->best = lean;
    return true;
}

/* ---- Outputs ---- */

/* All nodes. */
static flx_code copy_nodes(flxi_copy *c, const flx_graph *g, flx_error *err)
{
    flx_code code = flxi_copy_begin(c, g, err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        code = flxi_copy_node(c, i);
    return code;
}

static flx_graph *end_copy(flxi_copy *c, flx_code code)
{
    flx_graph *out = code == FLX_OK ? flx_graph_retain(c->to) : NULL;
    flx_graph_release(c->to);
    flxi_remap_free(&c->remap);
    return out;
}

static flx_graph *without_output(const flx_graph *g, size_t drop)
{
    flxi_copy c;
    flx_error err = {0};
    flx_code code = copy_nodes(&c, g, &err);
    for (size_t i = 0; code == FLX_OK && i < g->outputs.n; i++)
        if (i != drop)
            code = flxi_add_output(c.to, c.remap.id[g->outputs.at[i].val], g->outputs.at[i].name);
    return end_copy(&c, code);
}

/* The only output is the sum of value `id`, as a number of f64; of a complex value its real part. */
static flx_graph *with_loss(const flx_graph *g, uint32_t id)
{
    flxi_copy c;
    flx_error err = {0};
    flx_code code = copy_nodes(&c, g, &err);
    if (code == FLX_OK) {
        flx_val v = {c.remap.id[id], c.to->serial};
        if (flx_val_type(c.to, v)->rank > 0)
            v = flx_reduce_sum(c.to, v, FLX_ALL, 0);
        if (flxi_is_complex(flx_val_type(c.to, v)->dtype))
            v = flx_real(c.to, v);
        if (flx_val_type(c.to, v)->dtype != FLX_F64)
            v = flx_cast(c.to, v, FLX_F64);
        flx_output(c.to, v, "loss");
        code = flx_graph_error(c.to, &err);
    }
    return end_copy(&c, code);
}

static bool shrink_outputs(shrinker *s)
{
    for (size_t i = s->best->outputs.n; i-- > 0 && s->best->outputs.n > 1;)
        if (offer(s, without_output(s->best, i)))
            return true;
    for (uint32_t id = 1; id <= s->best->value_count; id++) {
        int32_t dtype = flxi_type_at(s->best, id)->dtype;
        if ((flxi_is_float(dtype) || flxi_is_complex(dtype)) && offer(s, with_loss(s->best, id)))
            return true;
    }
    return false;
}

/* ---- Nodes ---- */

static uint32_t constant_of(flx_graph *g, const flx_type *t)
{
    flx_type scalar = {.dtype = FLX_F64};
    double half = flxi_is_float(t->dtype) || flxi_is_complex(t->dtype) ? 0.5 : 1.0;
    flx_tensor *wide = flx_tensor_new(g->ctx, &scalar, &half, NULL);
    flx_tensor *value = wide ? flx_tensor_cast(wide, (flx_dtype)t->dtype, NULL) : NULL;
    uint32_t id = value ? flx_full(g, t, value).id : 0;
    flx_tensor_release(value);
    flx_tensor_release(wide);
    return id;
}

/* The replacement of result k of node n in the copy; 0 when there is nothing of its type. */
static uint32_t stand_in(flxi_copy *c, const flxi_node *n, uint32_t k, substitute by, uint32_t skip)
{
    const flx_graph *g = c->from;
    const flx_type *t = flxi_type_at(g, n->first + k); /* equal types of one graph are one pointer */
    if (by == BY_CONSTANT)
        return constant_of(c->to, t);
    size_t count = by == BY_OPERAND ? n->nin : g->leaves.n;
    for (size_t i = 0; i < count; i++) {
        uint32_t id = by == BY_OPERAND ? n->in[i] : g->leaves.at[i];
        if (flxi_type_at(g, id) == t && c->remap.id[id] && skip-- == 0)
            return c->remap.id[id];
    }
    return 0;
}

static flx_graph *with_stand_in(const flx_graph *g, uint32_t node, substitute by, uint32_t skip)
{
    flxi_copy c;
    flx_error err = {0};
    flx_graph *out = NULL;
    flx_code code = flxi_copy_begin(&c, g, &err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (i != node) {
            code = flxi_copy_node(&c, i);
            continue;
        }
        for (uint32_t k = 0; code == FLX_OK && k < n->nout; k++) {
            uint32_t id = stand_in(&c, n, k, by, skip);
            if (id)
                c.remap.id[n->first + k] = id;
            else
                code = FLX_E_USAGE;
        }
    }
    return flxi_copy_end(&c, code, &out, NULL) == FLX_OK ? out : NULL;
}

static bool shrink_nodes(shrinker *s)
{
    for (uint32_t i = s->best->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(s->best, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        for (int by = 0; by < BY_KINDS; by++)
            for (uint32_t skip = 0; skip < (by == BY_CONSTANT ? 1u : 3u); skip++)
                if (offer(s, with_stand_in(s->best, i, (substitute)by, skip)))
                    return true;
    }
    return false;
}

/* ---- Inputs ---- */

static bool is_used(const flx_graph *g, uint32_t id)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i].val == id)
            return true;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++)
            if (n->in[k] == id)
                return true;
    }
    return false;
}

static flx_graph *without_leaf(const flx_graph *g, uint32_t id)
{
    flxi_copy c;
    flx_error err = {0};
    flx_graph *out = NULL;
    flx_code code = flxi_copy_begin(&c, g, &err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        if (flxi_node_at(g, i)->first != id)
            code = flxi_copy_node(&c, i);
    return flxi_copy_end(&c, code, &out, NULL) == FLX_OK ? out : NULL;
}

static bool shrink_inputs(shrinker *s)
{
    for (size_t i = s->best->leaves.n; i-- > 0;)
        if (!is_used(s->best, s->best->leaves.at[i]) && offer(s, without_leaf(s->best, s->best->leaves.at[i])))
            return true;
    return false;
}

flx_graph *shrink_graph(const flx_graph *g, shrink_predicate fails, void *user)
{
    flx_error err = {0};
    shrinker s = {.fails = fails, .user = user};
    CHECK_OK(flxi_pass_dce(g, &s.best, NULL, &err), &err);
    if (!fails(user, s.best)) { /* the failure is in dead code, or in its removal */
        flx_graph_release(s.best);
        flxi_copy c;
        flx_code code = flxi_copy_begin(&c, g, &err);
        for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
            code = flxi_copy_node(&c, i);
        CHECK_OK(flxi_copy_end(&c, code, &s.best, NULL), &err);
    }
    while (shrink_outputs(&s) || shrink_nodes(&s) || shrink_inputs(&s)) {
    }
    return s.best;
}
