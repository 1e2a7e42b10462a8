/* SPDX-License-Identifier: Apache-2.0 */
/* dce.c: dead code elimination. One backward sweep marks the nodes that outputs, pins and effects need; one forward
   sweep copies them. */
#include "passes/pass.h"

bool flxi_is_root(const flx_graph *g, const flxi_node *n)
{
    bool is_pinned = false;
    for (uint32_t k = 0; k < n->nout; k++)
        is_pinned |= flxi_value_at(g, n->first + k)->pinned != 0;
    return is_pinned || (flxi_ops[n->op].traits & TRAIT_DECLARED) || flxi_has_effect(n);
}

static void mark_live(const flx_graph *g, bool *live)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        live[flxi_value_at(g, g->outputs.at[i].val)->node] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        live[i] = live[i] || flxi_is_root(g, n);
        for (uint32_t k = 0; live[i] && k < n->nin; k++)
            live[flxi_value_at(g, n->in[k])->node] = true;
    }
}

flx_code flxi_pass_dce(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    const flxi_allocator *mem = &in->ctx->mem;
    bool *live = flxi_alloc(mem, in->node_count, sizeof *live);
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK && !live)
        code = flxi_oom(err, "dead code elimination");
    if (code == FLX_OK)
        mark_live(in, live);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        if (live[i])
            code = flxi_copy_node(&c, i);
    flxi_free(mem, live, in->node_count, sizeof *live);
    return flxi_copy_end(&c, code, out, remap);
}
