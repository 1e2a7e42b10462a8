/* SPDX-License-Identifier: Apache-2.0 */
/* export_functions.c: graphs that are functions of the text. The body of a call is one; so is a large body of control
   flow, which its region then calls. Equal bodies are one function: rewriting makes the same loop for each use. */
#include "stablehlo/export/export_writers.h"

enum { MOST_INLINE = 500 }; /* nodes of a region, with those of its bodies */

static uint32_t position_of(exporter *w, const flx_graph *body);

/* ---- Sizes ---- */

typedef struct {
    exporter *w;
    uint64_t sum;
} counting;

static flx_code add_body(void *user, const flx_graph *body)
{
    counting *c = user;
    uint32_t i = position_of(c->w, body);
    uint64_t size = c->w->error.code ? 0 : c->w->bodies.at[i].size;
    c->sum = c->sum > UINT64_MAX - size ? UINT64_MAX : c->sum + size;
    return c->w->error.code ? FLX_E_OOM : FLX_OK;
}

static uint64_t size_of(exporter *w, const flx_graph *g)
{
    counting c = {w, g->node_count};
    const flxi_attr_visitor v = {.graph = add_body, .user = &c};
    for (uint32_t i = 0; i < g->node_count && !w->error.code; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    }
    return c.sum;
}

static uint32_t position_of(exporter *w, const flx_graph *body)
{
    const flxi_allocator *mem = &w->ctx->mem;
    uint64_t hash = flx_graph_hash(body);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&w->body_index, hash); flxi_index_next(&w->body_index, &p, &i);)
        if (flxi_graphs_alike(w->bodies.at[i].body, body))
            return i;
    export_body made = {.size = size_of(w, body)};
    i = (uint32_t)w->bodies.n;
    if (!flxi_reserve(mem, &w->bodies) || !flxi_index_add(mem, &w->body_index, hash, i)) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return 0;
    }
    made.body = flx_graph_retain((flx_graph *)(uintptr_t)body);
    w->bodies.at[w->bodies.n++] = made;
    return i;
}

/* ---- Calls ---- */

uint32_t flxi_export_function(exporter *w, const flx_graph *body)
{
    uint32_t i = position_of(w, body);
    if (!w->error.code)
        w->bodies.at[i].is_function = true;
    return i;
}

bool flxi_export_is_called(exporter *w, const flx_graph *body)
{
    uint32_t i = position_of(w, body);
    return !w->error.code && w->bodies.at[i].size > MOST_INLINE;
}

void flxi_export_call(exporter *w, const flx_graph *body, const export_val *in, uint32_t nin, export_val *out,
                      uint32_t nout)
{
    flxi_export_results(w, out, nout);
    flxi_addf(&w->out, "func.call @f%u(", flxi_export_function(w, body));
    flxi_export_values(w, in, nin);
    flxi_add_char(&w->out, ')');
    flxi_export_signature(w, in, nin, out, nout);
}

void flxi_export_write_call(export_node *n)
{
    flxi_export_call(n->w, flxi_attr_graph(n->op, n->attrs, "body"), n->in, n->nin, n->out, n->nout);
}

/* ---- Functions ---- */

static void write_function(exporter *w, uint32_t number)
{
    const flx_graph *g = w->bodies.at[number].body;
    uint32_t nin = (uint32_t)g->leaves.n, nout = (uint32_t)g->outputs.n;
    uint32_t *numbers = flxi_new(&w->scratch, uint32_t, nin + nout + 1);
    export_val *v = flxi_new(&w->scratch, export_val, nin + nout + 1);
    if (!numbers || !v) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    for (uint32_t k = 0; k < nout; k++)
        v[k].type = flxi_type_at(g, g->outputs.at[k].val);
    flxi_export_line(w);
    flxi_addf(&w->out, "func.func private @f%u(", number);
    for (uint32_t i = 0; i < nin; i++) {
        numbers[i] = w->next++;
        flxi_add_text(&w->out, i ? ", " : "");
        flxi_export_value(w, numbers[i]);
        flxi_add_text(&w->out, ": ");
        flxi_export_type(w, flxi_type_at(g, g->leaves.at[i]));
    }
    flxi_add_text(&w->out, ") -> (");
    flxi_export_types(w, v, nout);
    flxi_add_text(&w->out, ") {");
    w->indent++;
    flxi_export_graph_nodes(w, g, numbers, numbers + nin);
    for (uint32_t k = 0; k < nout; k++)
        v[k].number = numbers[nin + k];
    flxi_export_return(w, "func.return", v, nout);
    w->indent--;
    flxi_export_line(w);
    flxi_add_char(&w->out, '}');
}

void flxi_export_functions(exporter *w)
{
    bool any = true;
    while (any && !w->error.code) { /* writing one may call another, before or after it in the list */
        any = false;
        for (size_t i = 0; i < w->bodies.n && !w->error.code; i++) {
            flxi_mark mark = flxi_arena_mark(&w->scratch);
            if (!w->bodies.at[i].is_function || w->bodies.at[i].is_written)
                continue;
            w->bodies.at[i].is_written = true;
            write_function(w, (uint32_t)i);
            flxi_arena_rewind(&w->scratch, mark);
            any = true;
        }
    }
}

void flxi_export_functions_free(exporter *w)
{
    const flxi_allocator *mem = &w->ctx->mem;
    for (size_t i = 0; i < w->bodies.n; i++)
        flx_graph_release(w->bodies.at[i].body);
    flxi_vec_free(mem, &w->bodies);
    flxi_index_free(mem, &w->body_index);
}
