/* SPDX-License-Identifier: Apache-2.0 */
/* alike.c: whether two graphs mean the same because they have the same nodes. */
#include "graph/graph.h"

/* Nodes to compare before two graphs count as different: nested bodies may refer to each other exponentially often. */
enum { MOST_COMPARED = 100000 };

static bool is_alike(const flx_graph *a, const flx_graph *b, void *budget);

static bool nodes_alike(const flx_graph *a, const flx_graph *b, uint32_t i, size_t *budget)
{
    const flxi_node *n = flxi_node_at(a, i);
    const flxi_node *m = flxi_node_at(b, i);
    if (*budget == 0)
        return false;
    --*budget;
    if (n->op != m->op || n->nin != m->nin || n->nout != m->nout || n->first != m->first)
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (n->in[k] != m->in[k])
            return false;
    for (uint32_t k = 0; k < n->nout; k++)
        if (!flxi_type_equal(flxi_type_at(a, n->first + k), flxi_type_at(b, n->first + k)))
            return false;
    return flxi_attrs_alike(&flxi_ops[n->op], n->attrs, m->attrs, is_alike, budget);
}

static bool is_alike(const flx_graph *a, const flx_graph *b, void *budget)
{
    if (a == b || !a || !b)
        return a == b;
    bool is_same = flx_graph_hash(a) == flx_graph_hash(b) && a->node_count == b->node_count &&
                   a->leaves.n == b->leaves.n && a->outputs.n == b->outputs.n;
    for (size_t i = 0; is_same && i < a->leaves.n; i++)
        is_same = a->leaves.at[i] == b->leaves.at[i];
    for (size_t k = 0; is_same && k < a->outputs.n; k++)
        is_same = a->outputs.at[k].val == b->outputs.at[k].val;
    for (uint32_t i = 0; is_same && i < a->node_count; i++)
        is_same = nodes_alike(a, b, i, budget);
    return is_same;
}

bool flxi_graphs_alike(const flx_graph *a, const flx_graph *b)
{
    size_t budget = MOST_COMPARED;
    return is_alike(a, b, &budget);
}
