/* SPDX-License-Identifier: Apache-2.0 */
/* node_attrs.c: the attributes of a node for the outside, in the form in which flx_op() takes them. */
#include "graph/op/attr_kinds.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdio.h>

/* A value that is a word of a list, which is not terminated there. */
static void read_word(const char *words, int64_t i, flx_node_attr_view *out)
{
    size_t n = 0;
    const char *word = flxi_word_at(words, i, &n);
    snprintf(out->word, sizeof out->word, "%.*s", (int)n, word ? word : "");
    out->value.as.s = out->word;
}

/* ---- One kind each ---- */

bool flxi_view_int(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    (void)a;
    out->value.kind = FLX_ATTR_INT;
    out->value.as.i = *(const int64_t *)field;
    return out->value.as.i != FLXI_ABSENT;
}

bool flxi_view_real(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    (void)a;
    out->value.kind = FLX_ATTR_REAL;
    out->value.as.r = *(const double *)field;
    return !isnan(out->value.as.r);
}

bool flxi_view_word(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    out->value.kind = FLX_ATTR_WORD;
    read_word(a->words, *(const int64_t *)field, out);
    return true;
}

bool flxi_view_dtype(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    int64_t dtype = *(const int64_t *)field;
    (void)a;
    out->value.kind = FLX_ATTR_WORD;
    read_word(flx_dtype_name((int32_t)dtype), 0, out);
    return dtype != FLX_DTYPE_NONE;
}

bool flxi_view_combine(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    const flxi_combine *combine = field;
    out->value.kind = combine->graph ? FLX_ATTR_GRAPH : FLX_ATTR_WORD;
    if (combine->graph)
        out->value.as.graph = combine->graph;
    else
        read_word(a->words, combine->word, out);
    return true;
}

#define VIEW_OBJECT(name, KIND, member, T)                                                \
    bool flxi_view_##name(const flxi_attr *a, const void *field, flx_node_attr_view *out) \
    {                                                                                     \
        (void)a;                                                                          \
        out->value.kind = FLX_ATTR_##KIND;                                                \
        out->value.as.member = *(const T *const *)field;                                  \
        return out->value.as.member != NULL;                                              \
    }
VIEW_OBJECT(string, STRING, s, char)
VIEW_OBJECT(type, TYPE, type, flx_type)
VIEW_OBJECT(graph, GRAPH, graph, flx_graph)
VIEW_OBJECT(tensor, TENSOR, tensor, flx_tensor)

#define VIEW_LIST(name, KIND, member, T)                                                  \
    bool flxi_view_##name(const flxi_attr *a, const void *field, flx_node_attr_view *out) \
    {                                                                                     \
        (void)a;                                                                          \
        out->value.kind = FLX_ATTR_##KIND;                                                \
        out->value.as.member = *(const T *)field;                                         \
        return out->value.as.member.v != NULL;                                            \
    }
VIEW_LIST(ints, INTS, ints, flx_ints)
VIEW_LIST(pairs, PAIRS, ints, flx_ints)
VIEW_LIST(reals, REALS, reals, flx_reals)
VIEW_LIST(types, TYPES, types, flx_types)
VIEW_LIST(graphs, GRAPHS, graphs, flx_graphs)

/* ---- All ---- */

/* False for an attribute without a value. */
static bool view_attr(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    *out = (flx_node_attr_view){.value = {.key = a->name}, .is_default = flxi_attr_is_default(a, field)};
    return flxi_attr_kinds[a->kind].view(a, field, out);
}

/* What inference completes: numbers and lists of numbers. 0: nothing else. */
static size_t completed_size(const flxi_attr *a)
{
    switch (flxi_attr_kinds[a->kind].storage) {
    case STORED_INT: return sizeof(int64_t);
    case STORED_REAL: return sizeof(double);
    case STORED_INTS: return sizeof(flx_ints);
    case STORED_REALS: return sizeof(flx_reals);
    default: return 0;
    }
}

/* Whether the node would have the same value if the attribute had been left out: inference completes and normalises
   attributes ("all axes", negative axes), so the node is inferred again without it. */
static bool completes_to(const flx_graph *g, const flxi_node *n, const flxi_attr *a)
{
    const flxi_op *op = &flxi_ops[n->op];
    const void *value = (const char *)n->attrs + a->offset;
    flx_graph *t = flx_graph_new(g->ctx, "scratch");
    flx_type *results = t ? flxi_new(&t->arena, flx_type, n->nout) : NULL;
    const flx_type **in = t ? flxi_new(&t->arena, const flx_type *, n->nin) : NULL;
    void *attrs = NULL;
    uint32_t nout;
    bool is_same = false;
    if (results && in && flxi_attrs_clone(t, op, n->attrs, NULL, &attrs, NULL) == FLX_OK) {
        char *field = (char *)attrs + a->offset;
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = flxi_type_at(g, n->in[k]);
        memset(field, 0, completed_size(a));
        if (flxi_attr_kinds[a->kind].set_default)
            flxi_attr_kinds[a->kind].set_default(a, field);
        is_same = flxi_infer_node(t, (flxi_opcode)n->op, in, n->nin, attrs, &results, &nout, NULL) == FLX_OK &&
                  flxi_attr_kinds[a->kind].equal(field, value, NULL, NULL);
    }
    flx_graph_release(t);
    return is_same;
}

/* Attribute k, or the one called `key` where that is given; false when there is none. Without a graph, is_default is
   about the value as it is. */
static bool find_attr(const flx_graph *g, const flxi_node *n, uint32_t k, const char *key, flx_node_attr_view *out)
{
    const flxi_attr *schema = flxi_ops[n->op].rules->schema;
    for (uint32_t i = 0; n->attrs && schema && schema[i].name; i++) {
        if (!view_attr(&schema[i], (const char *)n->attrs + schema[i].offset, out) ||
            (key ? strcmp(key, schema[i].name) != 0 : k-- > 0))
            continue;
        flx_attr_view view;
        flx_op_attr(flxi_ops[n->op].name, i, &view);
        out->kind = view.kind;
        out->is_default =
            out->is_default || (g && !view.required && completed_size(&schema[i]) && completes_to(g, n, &schema[i]));
        return true;
    }
    return false;
}

uint32_t flxi_node_attr_count(const flxi_node *n)
{
    flx_node_attr_view view;
    uint32_t count = 0;
    const flxi_attr *schema = flxi_ops[n->op].rules->schema;
    for (const flxi_attr *a = schema; n->attrs && a && a->name; a++)
        count += view_attr(a, (const char *)n->attrs + a->offset, &view);
    return count;
}

bool flxi_node_attr(const flxi_node *n, uint32_t k, flx_node_attr_view *out)
{
    return find_attr(NULL, n, k, NULL, out);
}

flx_code flx_node_attr(const flx_graph *g, size_t i, uint32_t k, flx_node_attr_view *out)
{
    if (!out)
        return FLX_E_USAGE;
    if (i < flx_graph_node_count(g) && find_attr(g, flxi_node_at(g, (uint32_t)i), k, NULL, out))
        return FLX_OK;
    *out = (flx_node_attr_view){0};
    return FLX_E_NAME;
}

flx_code flx_node_attr_find(const flx_graph *g, size_t i, const char *key, flx_node_attr_view *out)
{
    if (!out || !key)
        return FLX_E_USAGE;
    if (i < flx_graph_node_count(g) && find_attr(g, flxi_node_at(g, (uint32_t)i), 0, key, out))
        return FLX_OK;
    *out = (flx_node_attr_view){0};
    return FLX_E_NAME;
}
