/* SPDX-License-Identifier: Apache-2.0 */
/* known.c: see known.h. The nodes that a value follows from are copied to a graph of their own, which is run. */
#include "ops/rule/known.h"

#include "graph/op/site.h"
#include "ops/opcode.h"

#include <fluxion/run.h>
#include <stdlib.h>

typedef FLXI_VEC(uint32_t) node_list;

enum { MAX_SLICE = 1 << 16 }; /* nodes that may be evaluated to know one value */

static const flx_tensor *leaf_value(const flxi_known *k, const flxi_node *n)
{
    return k->leaf && n->nout == 1 && (flxi_is_input(n) || flxi_is_param(n)) ? k->leaf(k->user, n->first) : NULL;
}

/* A loop may take long or not end at all: it is left to a run. */
static bool is_evaluable(const flxi_known *k, const flxi_node *n)
{
    bool is_loop = n->op == OP_while || n->op == OP_scan;
    if (flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_OPAQUE))
        return leaf_value(k, n) != NULL;
    return !flxi_has_effect(n) && !is_loop;
}

/* Adds a node to the list, marked in the map. */
static flx_code list_node(flxi_known *k, const flx_graph *g, uint32_t node, node_list *nodes)
{
    uint32_t *mark = &k->map.at[flxi_node_at(g, node)->first];
    if (*mark)
        return FLX_OK;
    if (!flxi_push(k->mem, nodes, node))
        return FLX_E_OOM;
    *mark = UINT32_MAX;
    return FLX_OK;
}

/* Lists the nodes that value `id` follows from; *known is false when one of them cannot be evaluated. */
static flx_code list_slice(flxi_known *k, const flx_graph *g, uint32_t id, node_list *nodes, bool *known)
{
    FLXI_TRY(list_node(k, g, flxi_value_at(g, id)->node, nodes));
    *known = true;
    for (size_t i = 0; i < nodes->n && *known; i++) {
        const flxi_node *n = flxi_node_at(g, nodes->at[i]);
        *known = is_evaluable(k, n) && nodes->n <= MAX_SLICE;
        for (uint32_t j = 0; j < n->nin && *known; j++)
            FLXI_TRY(list_node(k, g, flxi_value_at(g, n->in[j])->node, nodes));
    }
    return FLX_OK;
}

static int by_position(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* A leaf becomes a literal, everything else a copy. */
static flx_code copy_node(flxi_known *k, flx_graph *to, const flx_graph *g, uint32_t node, flx_error *err)
{
    const flxi_node *n = flxi_node_at(g, node);
    const flx_tensor *value = leaf_value(k, n);
    if (!value)
        return flxi_graft(to, g, node, k->map.at, err);
    k->map.at[n->first] = flx_const(to, .type = flx_tensor_type(value), .data = value).id;
    return flx_graph_error(to, err);
}

static flx_code run_slice(flxi_known *k, const flx_graph *g, const node_list *nodes, uint32_t id, flx_tensor **out)
{
    flx_graph *slice = flx_graph_new(g->ctx, "known");
    flx_error err = {0};
    flx_code code = slice ? FLX_OK : FLX_E_OOM;
    for (size_t i = 0; i < nodes->n && code == FLX_OK; i++)
        code = copy_node(k, slice, g, nodes->at[i], &err);
    if (code == FLX_OK)
        code = flx_output(slice, (flx_val){k->map.at[id], slice->serial}, NULL);
    if (code == FLX_OK)
        code = flx_run(slice, &(flx_run_options){.device = "ref"}, NULL, 0, out, &err);
    flx_graph_release(slice);
    return code == FLX_E_OOM ? code : FLX_OK; /* what cannot be computed for another reason is not known */
}

static bool reserve_map(flxi_known *k, const flx_graph *g)
{
    while (k->map.n <= g->value_count)
        if (!flxi_push(k->mem, &k->map, 0))
            return false;
    return true;
}

flx_code flxi_known_value(flxi_known *k, const flx_graph *g, uint32_t id, flx_tensor **out, flx_error *err)
{
    node_list nodes = {0};
    bool is_known = false;
    *out = NULL;
    if (id == 0)
        return FLX_OK;
    flx_code code = reserve_map(k, g) ? list_slice(k, g, id, &nodes, &is_known) : FLX_E_OOM;
    if (code == FLX_OK && is_known) {
        qsort(nodes.at, nodes.n, sizeof *nodes.at, by_position);
        code = run_slice(k, g, &nodes, id, out);
    }
    for (size_t i = 0; i < nodes.n; i++) {
        const flxi_node *n = flxi_node_at(g, nodes.at[i]);
        for (uint32_t j = 0; j < n->nout; j++)
            k->map.at[n->first + j] = 0;
    }
    flxi_vec_free(k->mem, &nodes);
    return code == FLX_OK ? FLX_OK : flxi_oom(err, "a value that the graph implies");
}

void flxi_known_free(flxi_known *k)
{
    flxi_vec_free(k->mem, &k->map);
}
