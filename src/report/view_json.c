/* SPDX-License-Identifier: Apache-2.0 */
/* view_json.c: see view_json.h. Keys are short because there may be many thousands of nodes:

     node   o op, n name, m short name where that differs, v automatic name, t types of results,
            i operands (node + result * 2^25), a attributes, k kind of leaf (1 input, 2 parameter, 3 constant),
            b names of bodies, r name of output, p phase, s step, g group, l layer, x, w
     group  n title, c number of ops, p phase, s step, g group, l layer, x, w, open, W width inside, L layers inside,
            e edges with waypoints or that are special: from, to, 1 reversed + 2 long, x of waypoints

   Items count nodes first, then groups. */
#include "report/view_json.h"

#include "base/number.h"
#include "report/report_text.h"

enum { MAX_ATTRS = 400 }; /* bytes of attributes that are written for a node */

/* ---- Attributes ---- */

static void add_real(flxi_strbuf *out, double x)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, x, 53);
    flxi_add_text(out, text);
}

static void add_ints(const flx_graph *g, const flx_ints *list, flxi_strbuf *out)
{
    flxi_add_char(out, '[');
    for (size_t i = 0; i < list->n && i < 64; i++) {
        flxi_add_text(out, i ? ", " : "");
        flxi_dim_write(g->ctx, list->v[i], out);
    }
    flxi_add_text(out, list->n > 64 ? ", ...]" : "]");
}

static void add_tensor(const flx_graph *g, const flx_tensor *t, flxi_strbuf *out)
{
    flxi_type_text type;
    if (flx_tensor_count(t) == 1 && !flxi_is_complex(flx_tensor_type(t)->dtype))
        add_real(out, flx_tensor_get(t, 0));
    else
        flxi_add_text(out, flxi_type_str(g->ctx, flx_tensor_type(t), &type));
}

static void add_types(const flx_graph *g, const flx_type *types, size_t n, flxi_strbuf *out)
{
    flxi_type_text text;
    for (size_t i = 0; i < n && i < 16; i++) {
        flxi_add_text(out, i ? ", " : "");
        flxi_add_text(out, flxi_type_str(g->ctx, &types[i], &text));
    }
}

static void add_value(const flx_graph *g, const flx_attr *a, flxi_strbuf *out)
{
    switch (a->kind) {
    case FLX_ATTR_INT: flxi_dim_write(g->ctx, a->as.i, out); break;
    case FLX_ATTR_REAL: add_real(out, a->as.r); break;
    case FLX_ATTR_WORD: flxi_add_text(out, a->as.s); break;
    case FLX_ATTR_STRING: flxi_add_quoted(out, a->as.s); break;
    case FLX_ATTR_INTS:
    case FLX_ATTR_PAIRS: add_ints(g, &a->as.ints, out); break;
    case FLX_ATTR_TYPE: add_types(g, a->as.type, 1, out); break;
    case FLX_ATTR_TYPES: add_types(g, a->as.types.v, a->as.types.n, out); break;
    case FLX_ATTR_TENSOR: add_tensor(g, a->as.tensor, out); break;
    case FLX_ATTR_GRAPH:
        flxi_add_char(out, '@');
        flxi_add_text(out, a->as.graph->name);
        break;
    default: flxi_add_text(out, "[...]"); break;
    }
}

void flxi_add_attrs(const flx_graph *g, uint32_t node, flxi_strbuf *out)
{
    const flxi_node *n = flxi_node_at(g, node);
    flx_node_attr_view a;
    bool is_first = true;
    for (uint32_t k = 0; flxi_node_attr(n, k, &a); k++) {
        if (a.is_default)
            continue;
        flxi_add_text(out, is_first ? "" : ", ");
        flxi_add_text(out, a.value.key);
        flxi_add_char(out, '=');
        add_value(g, &a.value, out);
        is_first = false;
    }
}

/* ---- Nodes ---- */

typedef struct {
    const flxi_graph_view *v;
    flxi_strbuf *out, text; /* text: attributes of one node */
    flxi_arena arena;
    flxi_strings types, ops;
    const char **output_of; /* by node: the name of an output that it gives */
} view_writer;

static void add_placing(const view_writer *w, const flxi_view_item *item)
{
    flxi_strbuf *out = w->out;
    if (item->phase)
        flxi_addf(out, ",\"p\":%u", item->phase);
    if (item->step == FLXI_VIEW_IN_PLACE)
        flxi_add_text(out, ",\"s\":-2");
    else if (item->step != FLXI_VIEW_NONE)
        flxi_addf(out, ",\"s\":%u", item->step);
    if (item->parent == FLXI_VIEW_NONE)
        return;
    flxi_addf(out, ",\"g\":%u,\"l\":%u,\"x\":", item->parent, item->layer);
    flxi_add_fixed(out, item->x, 1);
    flxi_add_text(out, ",\"w\":");
    flxi_add_fixed(out, item->width, 1);
}

static int leaf_kind(const flxi_node *n)
{
    return flxi_is_param(n) ? 2 : flxi_is_input(n) ? 1 : n->nin == 0 && n->nout ? 3 : 0;
}

static void add_bodies(const view_writer *w, uint32_t i)
{
    flx_node_view view;
    if (flx_graph_node(w->v->g, i, &view) != FLX_OK || !view.num_graphs)
        return;
    flxi_add_text(w->out, ",\"b\":[");
    for (uint32_t k = 0; k < view.num_graphs; k++) {
        flxi_add_text(w->out, k ? "," : "");
        flxi_json_string(w->out, flx_node_graph(w->v->g, i, k)->name);
    }
    flxi_add_char(w->out, ']');
}

/* The number of a text in a list of the object. */
static void add_number_of(view_writer *w, flxi_strings *list, const char *text)
{
    size_t number = flxi_intern_number(list, text, strlen(text));
    w->out->failed |= number == SIZE_MAX;
    flxi_addf(w->out, "%zu", number);
}

static void add_names(view_writer *w, uint32_t i)
{
    const flx_graph *g = w->v->g;
    const flxi_node *n = flxi_node_at(g, i);
    flxi_strbuf *out = w->out;
    const char *name = n->nout ? flxi_value_at(g, n->first)->name : NULL;
    if (name) {
        flxi_add_text(out, flxi_view_name(g, i) ? ",\"n\":" : ",\"v\":");
        flxi_json_string(out, name);
    }
    if (name && strcmp(w->v->items[i].title, name) != 0 && flxi_view_name(g, i)) {
        flxi_add_text(out, ",\"m\":");
        flxi_json_string(out, w->v->items[i].title);
    }
}

static void add_types_and_operands(view_writer *w, const flxi_node *n)
{
    const flx_graph *g = w->v->g;
    flxi_strbuf *out = w->out;
    flxi_add_text(out, ",\"t\":[");
    for (uint32_t k = 0; k < n->nout; k++) {
        flxi_type_text text;
        flxi_add_text(out, k ? "," : "");
        add_number_of(w, &w->types, flxi_type_str(g->ctx, flxi_type_at(g, n->first + k), &text));
    }
    flxi_add_text(out, "],\"i\":[");
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t p = flxi_value_at(g, n->in[k])->node;
        uint64_t result = n->in[k] - flxi_node_at(g, p)->first;
        flxi_addf(out, "%s%llu", k ? "," : "", (unsigned long long)(p + (result << 25)));
    }
    flxi_add_char(out, ']');
}

static void add_attrs_of(view_writer *w, uint32_t i)
{
    const flx_graph *g = w->v->g;
    const flxi_node *n = flxi_node_at(g, i);
    flxi_strbuf *out = w->out;
    w->text.n = 0;
    if (!flxi_is_input(n) && !flxi_is_param(n)) /* of which the type is all there is to say */
        flxi_add_attrs(g, i, &w->text);
    if (w->text.n && !w->text.failed) {
        flxi_add_text(out, ",\"a\":\"");
        flxi_json_part(out, w->text.at, w->text.n < MAX_ATTRS ? w->text.n : MAX_ATTRS);
        flxi_add_text(out, w->text.n < MAX_ATTRS ? "\"" : "...\"");
    }
}

static void add_node(view_writer *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->v->g, i);
    flxi_strbuf *out = w->out;
    flxi_add_text(out, "{\"o\":");
    add_number_of(w, &w->ops, flxi_ops[n->op].name);
    add_names(w, i);
    add_types_and_operands(w, n);
    if (leaf_kind(n))
        flxi_addf(out, ",\"k\":%d", leaf_kind(n));
    add_attrs_of(w, i);
    if (w->output_of[i]) {
        flxi_add_text(out, ",\"r\":");
        flxi_json_string(out, w->output_of[i]);
    }
    add_bodies(w, i);
    add_placing(w, &w->v->items[i]);
    flxi_add_char(out, '}');
}

/* ---- Groups ---- */

static void add_edges(const view_writer *w, const flxi_view_group *g)
{
    bool is_first = true;
    flxi_add_text(w->out, ",\"e\":[");
    for (uint32_t i = 0; i < g->num_edges; i++) {
        const flxi_layout_edge *e = &g->edges[i];
        if (!e->num_way && !e->is_reversed && !e->is_long)
            continue;
        flxi_addf(w->out, "%s[%u,%u,%d", is_first ? "" : ",", e->from, e->to, e->is_reversed + 2 * e->is_long);
        for (uint32_t k = 0; k < e->num_way; k++) {
            flxi_add_char(w->out, ',');
            flxi_add_fixed(w->out, e->way[k], 1);
        }
        flxi_add_char(w->out, ']');
        is_first = false;
    }
    flxi_add_char(w->out, ']');
}

static void add_group(const view_writer *w, uint32_t i)
{
    const flxi_view_item *item = &w->v->items[w->v->num_nodes + i];
    const flxi_view_group *g = &w->v->groups[i];
    flxi_add_text(w->out, "{\"n\":");
    flxi_json_string(w->out, item->title);
    flxi_addf(w->out, ",\"c\":%u", item->num_inside);
    add_placing(w, item);
    flxi_addf(w->out, ",\"L\":%u,\"W\":", g->num_layers);
    flxi_add_fixed(w->out, g->width, 1);
    if (g->is_open)
        flxi_add_text(w->out, ",\"open\":1");
    add_edges(w, g);
    flxi_add_char(w->out, '}');
}

static void add_texts(flxi_strbuf *out, const char *key, const flxi_strings *s)
{
    flxi_addf(out, ",\n\"%s\":[", key);
    for (size_t i = 0; i < s->texts.n; i++) {
        flxi_add_text(out, i ? "," : "");
        flxi_json_string(out, s->texts.at[i]);
    }
    flxi_add_char(out, ']');
}

void flxi_view_json(const flxi_graph_view *v, const char *kind, flxi_strbuf *out)
{
    view_writer w = {.v = v, .out = out};
    flxi_arena_init(&w.arena, v->arena.mem);
    flxi_strbuf_init(&w.text, v->arena.mem);
    w.types.arena = w.ops.arena = &w.arena;
    w.output_of = flxi_new(&w.arena, const char *, v->num_nodes + 1);
    out->failed |= !w.output_of;
    for (size_t i = 0; w.output_of && i < v->g->outputs.n; i++)
        w.output_of[flxi_value_at(v->g, v->g->outputs.at[i].val)->node] = v->g->outputs.at[i].name;
    flxi_add_text(out, "{\"name\":");
    flxi_json_string(out, v->g->name);
    flxi_addf(out, ",\"kind\":\"%s\",\"phases\":%d,\"nodes\":[", kind, v->has_phases);
    for (uint32_t i = 0; !out->failed && i < v->num_nodes; i++) {
        flxi_add_text(out, i ? ",\n" : "\n");
        add_node(&w, i);
    }
    flxi_add_text(out, "],\n\"groups\":[");
    for (uint32_t i = 0; !out->failed && i < v->num_groups; i++) {
        flxi_add_text(out, i ? ",\n" : "\n");
        add_group(&w, i);
    }
    flxi_add_char(out, ']');
    add_texts(out, "ops", &w.ops);
    add_texts(out, "types", &w.types);
    flxi_add_char(out, '}');
    out->failed |= w.text.failed;
    flxi_strings_free(&w.types);
    flxi_strings_free(&w.ops);
    flxi_strbuf_free(&w.text);
    flxi_arena_free(&w.arena);
}
