/* SPDX-License-Identifier: Apache-2.0 */
/* inline.c: the public way to copy one graph's nodes into another that is under construction. The result of a transform
   can thus become part of a larger graph: a gradient inside a loss. Types must agree exactly, since nodes are copied
   with theirs. */
#include "graph/op/site.h"

/* Errors of the arguments as a whole, kept in g. */
static bool can_inline(flx_graph *g, const flx_graph *body, const flx_val *inputs, size_t num_inputs)
{
    flx_error err = {0};
    if (!flxi_graph_alive(g) || g->error.code)
        return false;
    if (!flxi_graph_alive(body))
        flxi_graph_failf(g, FLX_E_USAGE, NULL, "inline: there is no graph to be inlined in '%s'", g->name);
    else if (body == g)
        flxi_graph_failf(g, FLX_E_USAGE, NULL, "inline: the graph '%s' cannot be inlined in itself", g->name);
    else if (body->ctx != g->ctx)
        flxi_graph_failf(g, FLX_E_USAGE, "make both graphs in one context",
                         "inline: the graph '%s' belongs to another context than '%s'", body->name, g->name);
    else if (flxi_graph_check(body, &err) != FLX_OK)
        flxi_graph_fail(g, &err);
    else if (inputs && num_inputs != body->leaves.n)
        flxi_graph_failf(g, FLX_E_ARITY, "parameters count, in order of declaration",
                         "inline: the graph '%s' has %zu inputs, not %zu", body->name, body->leaves.n, num_inputs);
    return !g->error.code;
}

/* The input or parameter of g that has the name of leaf i of the body; a new one if there is none. */
static flx_val by_name(flx_graph *g, const flx_graph *body, size_t i)
{
    const flxi_value *v = flxi_value_at(body, body->leaves.at[i]);
    size_t k;
    if (flxi_find_leaf(g, v->name, &k))
        return (flx_val){g->leaves.at[k], g->serial};
    uint32_t id = flxi_add_leaf_like(g, body, body->leaves.at[i], v->type);
    return id ? (flx_val){id, g->serial} : FLX_NONE;
}

static void check_type(flx_graph *g, const flx_graph *body, size_t i, flx_val v)
{
    const flxi_value *leaf = flxi_value_at(body, body->leaves.at[i]);
    const flx_type *type = flx_val_type(g, v);
    flxi_type_text want, got;
    if (g->error.code)
        return;
    if (!type)
        flxi_graph_failf(g, FLX_E_USAGE, "values can only be used in the graph they were made in",
                         "inline: the value given for '%s' of '%s' is not a value of '%s'", leaf->name, body->name,
                         g->name);
    else if (!flxi_type_equal(type, leaf->type))
        flxi_graph_failf(g, type->dtype == leaf->type->dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                         "types must be the same; flx_specialise() gives symbols their extents",
                         "inline: '%s' of '%s' is %s, but the value given for it is %s", leaf->name, body->name,
                         flxi_type_str(g->ctx, leaf->type, &want), flxi_type_str(g->ctx, type, &got));
}

uint32_t flx_inline(flx_graph *g, const flx_graph *body, const flx_val *inputs, size_t num_inputs, flx_val *results,
                    size_t capacity)
{
    bool fits = can_inline(g, body, inputs, num_inputs);
    size_t nin = fits ? body->leaves.n : 0, nout = fits ? body->outputs.n : 0;
    flx_val *in = fits ? flxi_new(&g->arena, flx_val, nin + 1) : NULL;
    flx_val *out = fits ? flxi_new(&g->arena, flx_val, nout + 1) : NULL;
    if (fits && (!in || !out))
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: inlining");
    for (size_t i = 0; i < nin && !g->error.code; i++) {
        in[i] = inputs ? inputs[i] : by_name(g, body, i);
        check_type(g, body, i, in[i]);
    }
    if (fits && !g->error.code)
        flxi_inline(g, body, in, out);
    uint32_t n = fits && !g->error.code ? (uint32_t)nout : 0;
    for (size_t i = 0; results && i < capacity; i++)
        results[i] = i < n ? out[i] : FLX_NONE;
    return n;
}
