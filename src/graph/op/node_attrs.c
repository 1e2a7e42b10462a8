/* SPDX-License-Identifier: Apache-2.0 */
/* node_attrs.c: the attributes of a node for the outside, in the form in which flx_op() takes them. */
#include "graph/graph.h"

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

/* Attribute k, or the one called `key` where that is given; false when there is none. */
static bool find_attr(const flxi_node *n, uint32_t k, const char *key, flx_node_attr_view *out)
{
    const flxi_attr *schema = flxi_ops[n->op].rules->schema;
    for (uint32_t i = 0; n->attrs && schema && schema[i].name; i++) {
        if (!read_attr(&schema[i], (const char *)n->attrs + schema[i].offset, out) ||
            (key ? strcmp(key, schema[i].name) != 0 : k-- > 0))
            continue;
        flx_attr_view view;
        flx_op_attr(flxi_ops[n->op].name, i, &view);
        out->kind = view.kind;
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
    if (i < flx_graph_node_count(g) && find_attr(flxi_node_at(g, (uint32_t)i), k, NULL, out))
        return FLX_OK;
    *out = (flx_node_attr_view){0};
    return FLX_E_NAME;
}

flx_code flx_node_attr_find(const flx_graph *g, size_t i, const char *key, flx_node_attr_view *out)
{
    if (!out || !key)
        return FLX_E_USAGE;
    if (i < flx_graph_node_count(g) && find_attr(flxi_node_at(g, (uint32_t)i), 0, key, out))
        return FLX_OK;
    *out = (flx_node_attr_view){0};
    return FLX_E_NAME;
}
