/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_bodies.c: graphs inside of nodes, inlined or as bodies of our control flow. A body has what it uses from outside
   as further inputs; literals are copied into it, so that shapes inside stay numbers. */
#include "base/context.h"
#include "onnx/import/onnx_scope.h"

#include <stdio.h>

static bool enter(onnx_site *s)
{
    if (s->scope->depth < ONNX_MAX_DEPTH)
        return true;
    flxi_onnx_fail(s, FLX_E_SYNTAX, NULL, "graphs and functions are nested too deep");
    return false;
}

bool flxi_onnx_inline(onnx_site *s, const onnx_graph *g, const onnx_value *args, size_t num_args, onnx_value *out)
{
    onnx_scope sc;
    if (!enter(s))
        return false;
    if (g->num_inputs != num_args) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "its graph has %zu inputs, expected %zu", g->num_inputs, num_args);
        return false;
    }
    flxi_onnx_scope_init(&sc, s->im, s->scope);
    bool ok = true;
    for (size_t i = 0; i < num_args && ok; i++)
        ok = flxi_onnx_bind(&sc, g->inputs[i].name, &args[i]);
    ok = ok && flxi_onnx_declare_initialisers(&sc, g, false) && flxi_onnx_import_nodes(&sc, g->nodes, g->num_nodes) &&
         flxi_onnx_take_outputs(&sc, g, out);
    flxi_onnx_scope_free(&sc);
    return ok;
}

/* ---- What graphs use from outside ---- */

typedef struct {
    flxi_strings free; /* names used and not defined */
} free_names;

typedef struct onnx_defined {
    const struct onnx_defined *outer;
    const onnx_graph *g;
    size_t nodes; /* the first ones, whose results are defined */
} onnx_defined;

static bool defines(const onnx_defined *d, const char *name)
{
    for (size_t i = 0; i < d->g->num_inputs; i++)
        if (strcmp(d->g->inputs[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < d->g->num_initialisers; i++)
        if (strcmp(d->g->initialisers[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < d->nodes; i++)
        for (size_t k = 0; k < d->g->nodes[i].num_outputs; k++)
            if (strcmp(d->g->nodes[i].outputs[k], name) == 0)
                return true;
    return false;
}

static bool note_use(free_names *f, const onnx_defined *d, const char *name)
{
    if (!name[0])
        return true;
    for (; d; d = d->outer)
        if (defines(d, name))
            return true;
    return flxi_intern_number(&f->free, name, strlen(name)) != SIZE_MAX;
}

static bool collect(free_names *f, const onnx_defined *outer, const onnx_graph *g, int depth)
{
    onnx_defined d = {.outer = outer, .g = g};
    bool ok = depth < ONNX_MAX_DEPTH;
    for (size_t i = 0; i < g->num_nodes && ok; i++) {
        const onnx_node *n = &g->nodes[i];
        d.nodes = i;
        for (size_t k = 0; k < n->num_inputs && ok; k++)
            ok = note_use(f, &d, n->inputs[k]);
        for (size_t k = 0; k < n->num_attrs && ok; k++)
            ok = !n->attributes[k].g || collect(f, &d, n->attributes[k].g, depth + 1);
    }
    d.nodes = g->num_nodes;
    for (size_t i = 0; i < g->num_outputs && ok; i++)
        ok = note_use(f, &d, g->outputs[i].name);
    return ok;
}

static bool is_copied(const onnx_value *v)
{
    return v->kind == ONNX_T_TENSOR && v->is_const;
}

static bool take_captures(onnx_site *s, const free_names *f, onnx_captures *out)
{
    size_t n = f->free.texts.n;
    onnx_value *values = flxi_onnx_new(s, onnx_value, n);
    out->names = flxi_onnx_new(s, const char *, n);
    out->vals = flxi_onnx_new(s, flx_val, n);
    if (!values || !out->names || !out->vals)
        return false;
    for (size_t i = 0; i < n; i++) {
        const onnx_value *v = flxi_onnx_lookup(s->scope, f->free.texts.at[i]);
        if (!v || v->kind == ONNX_T_SEQUENCE || v->kind == ONNX_T_TEXTS) {
            flxi_onnx_fail(s, v ? FLX_E_UNSUPPORTED : FLX_E_NAME, NULL, "its graph uses '%.60s', which is %s",
                           f->free.texts.at[i],
                           !v                           ? "not defined"
                           : v->kind == ONNX_T_SEQUENCE ? "a sequence"
                                                        : "of texts");
            return false;
        }
        out->names[i] = f->free.texts.at[i];
        values[i] = *v;
        if (v->kind == ONNX_T_TENSOR && !is_copied(v))
            out->vals[out->num_vals++] = v->v;
    }
    out->values = values;
    out->n = n;
    return true;
}

bool flxi_onnx_captures(onnx_site *s, const onnx_graph *const *graphs, size_t n, onnx_captures *out)
{
    free_names f = {.free.arena = &s->im->arena};
    bool ok = true;
    *out = (onnx_captures){0};
    for (size_t i = 0; i < n && ok; i++)
        ok = collect(&f, NULL, graphs[i], 0);
    if (!ok)
        flxi_onnx_fail(s, FLX_E_OOM, NULL, "no memory for what its graph uses");
    ok = ok && take_captures(s, &f, out);
    flxi_strings_free(&f.free);
    return ok;
}

/* ---- Bodies ---- */

/* A literal of s->g in another graph. */
static flx_val copy_literal(onnx_site *s, flx_graph *to, flx_val v)
{
    flx_tensor *value = flxi_onnx_known(s, v);
    flx_val y = value ? flx_const(to, .type = flx_tensor_type(value), .data = value) : FLX_NONE;
    flx_tensor_release(value);
    return y;
}

static bool bind_captures(onnx_site *s, onnx_scope *sc, const onnx_captures *c)
{
    for (size_t i = 0; i < c->n; i++) {
        onnx_value v = c->values[i];
        char name[32];
        snprintf(name, sizeof name, "captured%zu", i);
        if (is_copied(&v))
            v.v = copy_literal(s, sc->g, v.v);
        else if (v.kind == ONNX_T_TENSOR)
            v.v = flx_input(sc->g, name, flxi_onnx_typeof(s, v.v));
        if (!flxi_onnx_bind(sc, c->names[i], &v))
            return false;
    }
    return true;
}

flx_graph *flxi_onnx_keep(onnx_site *s, flx_graph *g)
{
    if (g && flxi_push(&s->im->ctx->mem, &s->im->kept, g))
        return g;
    flx_graph_release(g);
    flxi_graph_failf(s->g, FLX_E_OOM, NULL, "no memory for %.40s", s->node->op);
    return NULL;
}

static bool fill_body(onnx_site *s, onnx_scope *sc, const onnx_graph *graph, const flx_type *args,
                      const int32_t *elements, const onnx_captures *captures, onnx_value *outputs)
{
    for (size_t i = 0; i < graph->num_inputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "a%zu", i);
        onnx_value v = {.kind = ONNX_T_TENSOR, .element = elements[i], .v = flx_input(sc->g, name, &args[i])};
        if (!flxi_onnx_bind(sc, graph->inputs[i].name, &v))
            return false;
    }
    return bind_captures(s, sc, captures) && flxi_onnx_declare_initialisers(sc, graph, false) &&
           flxi_onnx_import_nodes(sc, graph->nodes, graph->num_nodes) && flxi_onnx_take_outputs(sc, graph, outputs);
}

bool flxi_onnx_body(onnx_site *s, const onnx_graph *graph, const flx_type *args, const int32_t *elements,
                    size_t num_args, const onnx_captures *captures, onnx_body *out)
{
    onnx_scope sc;
    *out = (onnx_body){.g = flxi_onnx_keep(s, flx_graph_new(s->im->ctx, "body"))};
    out->outputs = flxi_onnx_new(s, onnx_value, graph->num_outputs);
    if (!out->g || !out->outputs || !enter(s))
        return false;
    if (graph->num_inputs != num_args) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "its graph has %zu inputs, expected %zu", graph->num_inputs, num_args);
        return false;
    }
    flxi_onnx_scope_init(&sc, s->im, s->scope);
    sc.parent = NULL;
    sc.g = out->g;
    bool ok = fill_body(s, &sc, graph, args, elements, captures, out->outputs);
    flx_error err = {0};
    if (flx_graph_error(out->g, &err) != FLX_OK)
        flxi_graph_fail(s->g, &err);
    flxi_onnx_scope_free(&sc);
    return ok && !flxi_onnx_failed(s);
}
