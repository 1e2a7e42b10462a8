/* SPDX-License-Identifier: Apache-2.0 */
/* cse.c: common subexpression elimination by hashing op, (already merged) operands and attributes. Bodies are equal
   when their nodes are: rules build a new body each time. */
#include "passes/pass.h"

/* ---- Nodes ---- */

uint64_t flxi_node_hash(const flx_graph *g, const flxi_node *n, const uint32_t *map)
{
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, n->op);
    for (uint32_t k = 0; k < n->nin; k++)
        h = flxi_hash_u64(h, map ? map[n->in[k]] : n->in[k]);
    return flxi_attrs_hash(g->ctx, &flxi_ops[n->op], n->attrs, h, flx_graph_hash);
}

static bool may_merge(const flx_graph *g, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_value_at(g, n->first + k)->pinned)
            return false;
    return !(flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_OPAQUE)) && !flxi_has_effect(n);
}

static bool bodies_alike(const flx_graph *a, const flx_graph *b, void *user)
{
    (void)user;
    return flxi_graphs_alike(a, b);
}

bool flxi_nodes_same(const flxi_node *n, const uint32_t *map, const flxi_node *m)
{
    if (n->op != m->op || n->nin != m->nin)
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (map[n->in[k]] != m->in[k])
            return false;
    return flxi_attrs_alike(&flxi_ops[n->op], n->attrs, m->attrs, bodies_alike, NULL);
}

flx_code flxi_merge_or_copy(flxi_copy *c, flxi_index *seen, uint32_t i, bool *merged)
{
    *merged = false;
    const flxi_node *n = flxi_node_at(c->from, i);
    if (!may_merge(c->from, n))
        return flxi_copy_node(c, i);
    uint64_t h = flxi_node_hash(c->from, n, c->remap.id);
    uint32_t k;
    for (flxi_probe p = flxi_index_first(seen, h); flxi_index_next(seen, &p, &k);) {
        const flxi_node *m = flxi_node_at(c->to, k);
        if (!flxi_nodes_same(n, c->remap.id, m) || !may_merge(c->to, m))
            continue;
        for (uint32_t r = 0; r < n->nout; r++)
            flxi_copy_replace(c, n->first + r, m->first + r);
        *merged = true;
        return FLX_OK;
    }
    FLXI_TRY(flxi_copy_node(c, i));
    return flxi_index_add(&c->from->ctx->mem, seen, h, c->to->node_count - 1) ? FLX_OK : flxi_oom(c->err, "cse");
}

flx_code flxi_pass_cse(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flxi_index seen = {0};
    bool merged;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = flxi_merge_or_copy(&c, &seen, i, &merged);
    flxi_index_free(&in->ctx->mem, &seen);
    return flxi_copy_end(&c, code, out, remap);
}
