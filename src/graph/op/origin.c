/* SPDX-License-Identifier: Apache-2.0 */
/* origin.c: see origin.h. */
#include "graph/op/origin.h"

#include <stdio.h>

static _Thread_local const flxi_origin *current_origin;

const char *flxi_node_label(const flx_graph *g, const flxi_node *n)
{
    const char *name = NULL;
    for (uint32_t k = 0; !name && k < n->nout; k++)
        name = flxi_value_at(g, n->first + k)->name;
    return name;
}

void flxi_origin_begin(flxi_origin_scope *scope, const flx_graph *g, const flxi_node *n)
{
    flxi_origin_begin_op(scope, &flxi_ops[n->op], flxi_node_label(g, n), n->origin);
}

void flxi_origin_begin_op(flxi_origin_scope *scope, const flxi_op *op, const char *label, const flxi_origin *origin)
{
    scope->before = current_origin;
    scope->own = (flxi_origin){(uint32_t)(op - flxi_ops), label};
    if (origin)
        scope->own = *origin;
    else if (!label && scope->before)
        scope->own = *scope->before;
    current_origin = &scope->own;
}

void flxi_origin_end(const flxi_origin_scope *scope)
{
    current_origin = scope->before;
}

const flxi_origin *flxi_current_origin(void)
{
    return current_origin;
}

static bool is_same(const flxi_origin *a, const flxi_origin *b)
{
    return a->op == b->op && (a->label ? b->label && strcmp(a->label, b->label) == 0 : !b->label);
}

/* A rule appends many nodes in a row, which share one copy. */
const flxi_origin *flxi_keep_origin(flx_graph *g, const flxi_origin *origin)
{
    if (!origin || (g->last_origin && is_same(g->last_origin, origin)))
        return origin ? g->last_origin : NULL;
    flxi_origin *copy = flxi_dup(&g->arena, flxi_origin, origin, 1);
    if (copy && origin->label)
        copy->label = flxi_arena_text(&g->arena, origin->label, strlen(origin->label));
    if (!copy || (origin->label && !copy->label))
        return NULL;
    g->last_origin = copy;
    return copy;
}

void flxi_copy_origin(flx_graph *g, const flxi_node *n)
{
    flxi_node *copy = (flxi_node *)(uintptr_t)flxi_node_at(g, g->node_count - 1); /* the graph is being built */
    copy->origin = flxi_keep_origin(g, n->origin);
    if (n->origin && !copy->origin)
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: the origin of a node");
}

const char *flxi_name_node(flxi_node_name *name, const flxi_op *op, const char *label, const flxi_origin *origin)
{
    const char *shown = origin ? origin->label : label;
    const flxi_op *named = origin ? &flxi_ops[origin->op] : op;
    bool is_part = named != op;
    snprintf(name->s, sizeof name->s, "%s%s%.60s%s%s%s%s", named->name, shown ? " '" : "", shown ? shown : "",
             shown ? "'" : "", is_part ? " (its " : "", is_part ? op->name : "", is_part ? ")" : "");
    return name->s;
}

void flxi_at_node(flx_error *err, const flx_graph *g, const flxi_node *n)
{
    const char *label = n->origin ? n->origin->label : flxi_node_label(g, n);
    flxi_at(err, "%.50s/%.50s", g->name, label ? label : flxi_ops[n->origin ? n->origin->op : n->op].name);
}

const char *flxi_index_operand(const flxi_op *op, char *buffer, size_t size)
{
    const flxi_operands *o = flxi_operands_of(op);
    const char *found = NULL;
    int i = 0;
    buffer[0] = 0;
    for (const char *s = op->operands; s && *s; s = strchr(s, ','), i++) {
        s += strspn(s, ", [");
        if (flxi_operand_role(o, (uint32_t)i) != ROLE_INDEX)
            continue;
        if (found)
            return strcpy(buffer, "");
        found = s;
        snprintf(buffer, size, "%.*s", (int)strcspn(s, ":,]. "), s);
    }
    return buffer;
}
