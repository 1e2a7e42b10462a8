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

static bool read_number(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    const int64_t *i = field;
    switch (a->kind) {
    case ATTR_REAL:
        out->value.kind = FLX_ATTR_REAL;
        out->value.as.r = *(const double *)field;
        return !isnan(out->value.as.r);
    case ATTR_WORD:
        out->value.kind = FLX_ATTR_WORD;
        read_word(a->words, *i, out);
        return true;
    case ATTR_DTYPE:
        out->value.kind = FLX_ATTR_WORD;
        read_word(flx_dtype_name((int32_t)*i), 0, out);
        return *i != FLX_DTYPE_NONE;
    default:
        out->value.kind = FLX_ATTR_INT;
        out->value.as.i = *i;
        return *i != FLXI_ABSENT;
    }
}

static bool read_object(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    const flxi_combine *combine = field;
    switch (a->kind) {
    case ATTR_STRING: out->value.kind = FLX_ATTR_STRING; return (out->value.as.s = *(const char *const *)field) != NULL;
    case ATTR_TYPE:
        out->value.kind = FLX_ATTR_TYPE;
        return (out->value.as.type = *(const flx_type *const *)field) != NULL;
    case ATTR_GRAPH:
        out->value.kind = FLX_ATTR_GRAPH;
        return (out->value.as.graph = *(const flx_graph *const *)field) != NULL;
    case ATTR_COMBINE:
        out->value.kind = combine->graph ? FLX_ATTR_GRAPH : FLX_ATTR_WORD;
        if (combine->graph)
            out->value.as.graph = combine->graph;
        else
            read_word(a->words, combine->word, out);
        return true;
    default: /* DATA, VALUE */
        out->value.kind = FLX_ATTR_TENSOR;
        return (out->value.as.tensor = *(const flx_tensor *const *)field) != NULL;
    }
}

static bool read_list(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    switch (a->kind) {
    case ATTR_REALS:
        out->value.kind = FLX_ATTR_REALS;
        out->value.as.reals = *(const flx_reals *)field;
        return out->value.as.reals.v != NULL;
    case ATTR_TYPES:
        out->value.kind = FLX_ATTR_TYPES;
        out->value.as.types = *(const flx_types *)field;
        return out->value.as.types.v != NULL;
    case ATTR_GRAPHS:
        out->value.kind = FLX_ATTR_GRAPHS;
        out->value.as.graphs = *(const flx_graphs *)field;
        return out->value.as.graphs.v != NULL;
    default:
        out->value.kind = a->kind == ATTR_PAIRS ? FLX_ATTR_PAIRS : FLX_ATTR_INTS;
        out->value.as.ints = *(const flx_ints *)field;
        return out->value.as.ints.v != NULL;
    }
}

/* False for an attribute without a value. */
static bool read_attr(const flxi_attr *a, const void *field, flx_node_attr_view *out)
{
    *out = (flx_node_attr_view){.value = {.key = a->name}, .is_default = flxi_attr_is_default(a, field)};
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_REAL:
    case ATTR_WORD:
    case ATTR_DTYPE:
    case ATTR_DIM: return read_number(a, field, out);
    case ATTR_STRING:
    case ATTR_TYPE:
    case ATTR_GRAPH:
    case ATTR_COMBINE:
    case ATTR_DATA:
    case ATTR_VALUE: return read_object(a, field, out);
    default: return read_list(a, field, out);
    }
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
    bool same = false;
    if (results && in && flxi_attrs_clone(t, op, n->attrs, NULL, &attrs, NULL) == FLX_OK) {
        char *field = (char *)attrs + a->offset;
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = flxi_type_at(g, n->in[k]);
        memset(field, 0, completed_size(a));
        if (flxi_attr_kinds[a->kind].set_default)
            flxi_attr_kinds[a->kind].set_default(a, field);
        same = flxi_infer_node(t, (flxi_opcode)n->op, in, n->nin, attrs, &results, &nout, NULL) == FLX_OK &&
               flxi_attr_kinds[a->kind].equal(field, value, NULL, NULL);
    }
    flx_graph_release(t);
    return same;
}

/* Attribute k, or the one called `key` where that is given; false when there is none. */
static bool find_attr(const flx_graph *g, const flxi_node *n, uint32_t k, const char *key, flx_node_attr_view *out)
{
    const flxi_attr *schema = flxi_ops[n->op].rules->schema;
    for (uint32_t i = 0; n->attrs && schema && schema[i].name; i++) {
        if (!read_attr(&schema[i], (const char *)n->attrs + schema[i].offset, out) ||
            (key ? strcmp(key, schema[i].name) != 0 : k-- > 0))
            continue;
        flx_attr_view view;
        flx_op_attr(flxi_ops[n->op].name, i, &view);
        out->kind = view.kind;
        out->is_default =
            out->is_default || (!view.required && completed_size(&schema[i]) && completes_to(g, n, &schema[i]));
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
        count += read_attr(a, (const char *)n->attrs + a->offset, &view);
    return count;
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
