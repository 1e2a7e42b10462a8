/* SPDX-License-Identifier: Apache-2.0 */
/* rearrange.c: leaves and outputs of the graphs that transforms build. */
#include "autodiff/autodiff.h"

#include <stdio.h>

/* ---- Leaves ---- */

flx_code flxi_copy_leaves(const flx_graph *src, flx_graph *g, uint32_t *map, flx_error *err)
{
    for (size_t i = 0; i < src->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(src, src->leaves.at[i]);
        uint32_t id = flxi_add_leaf_like(g, src, src->leaves.at[i], v->type);
        if (!id)
            return flxi_built(g, err);
        flxi_value_at(g, id)->pinned = v->pinned;
        map[src->leaves.at[i]] = id;
    }
    return FLX_OK;
}

flx_val flxi_new_leaf(flx_graph *g, const char *prefix, const char *name, const flx_type *type)
{
    char text[300];
    snprintf(text, sizeof text, "%.40s%.200s", prefix, name);
    size_t n = strlen(text);
    for (unsigned k = 2; flx_graph_find(g, text).id; k++)
        snprintf(text + n, sizeof text - n, "_%u", k);
    return flx_input(g, text, type);
}

flx_code flxi_finish(flx_graph **g, flx_error *err)
{
    flx_graph *simple = NULL;
    flx_code code = flxi_built(*g, err);
    if (code == FLX_OK)
        code = flxi_simplify(*g, &simple, NULL, err);
    flx_graph_release(*g);
    *g = code == FLX_OK ? simple : NULL;
    return code;
}

/* ---- Rearranging ---- */

flx_graph *flxi_choose_outputs_as(const flx_graph *g, const char *name, const flxi_choice *choices, size_t n,
                                  flx_error *err)
{
    flx_graph *out = flx_graph_new(g->ctx, name);
    size_t ids = (size_t)g->value_count + 1;
    uint32_t *map = flxi_alloc(&g->ctx->mem, ids, sizeof *map);
    flx_code code = out && map ? flxi_copy_leaves(g, out, map, err) : flxi_oom(err, "copying a graph");
    if (out)
        out->is_lowered = g->is_lowered;
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        if (!(flxi_ops[flxi_node_at(g, i)->op].traits & TRAIT_DECLARED))
            code = flxi_graft(out, g, i, map, err);
    for (size_t k = 0; code == FLX_OK && k < n; k++) {
        const flxi_output *o = &g->outputs.at[choices[k].output];
        flx_output(out, (flx_val){map[o->val], out->serial}, choices[k].name[0] ? choices[k].name : o->name);
        code = flxi_built(out, err);
    }
    flxi_free(&g->ctx->mem, map, ids, sizeof *map);
    if (code == FLX_OK)
        code = flxi_finish(&out, err);
    if (code == FLX_OK)
        return out;
    flx_graph_release(out);
    return NULL;
}

flx_graph *flxi_choose_outputs(const flx_graph *g, const flxi_choice *choices, size_t n, flx_error *err)
{
    return flxi_choose_outputs_as(g, g->name, choices, n, err);
}
