/* SPDX-License-Identifier: Apache-2.0 */
/* nth_grad.c: gradients of gradients; the gradient of each level is contracted with ones. */
#include "autodiff/autodiff.h"

#include <fluxion/text.h>
#include <stdio.h>

/* <1, output 0> as the loss of the next level. */
static flx_graph *summed(const flx_graph *g, flx_error *err)
{
    flx_graph *out = flx_graph_new(g->ctx, g->name);
    uint32_t *map = flxi_alloc(&g->ctx->mem, (size_t)g->value_count + 1, sizeof *map);
    flx_code code = out && map ? flxi_copy_leaves(g, out, map, err) : flxi_oom(err, "a gradient");
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        if (!(flxi_ops[flxi_node_at(g, i)->op].traits & TRAIT_DECLARED))
            code = flxi_graft(out, g, i, map, err);
    if (code == FLX_OK) {
        flx_output(out, flx_reduce_sum(out, ((flx_val){map[g->outputs.at[0].val], out->serial}), FLX_ALL, 0), "sum");
        code = flxi_built(out, err);
    }
    flxi_free(&g->ctx->mem, map, (size_t)g->value_count + 1, sizeof *map);
    if (code == FLX_OK)
        return out;
    flx_graph_release(out);
    return NULL;
}

flx_graph *flx_nth_grad(const flx_graph *g, const char *wrt, int32_t n, flx_error *err)
{
    flx_error local = {0};
    flxi_choice first = {.output = 0};
    flx_graph *now = NULL;
    if (flx_graph_error(g, &local) == FLX_OK && g->outputs.n && wrt && n >= 0)
        now = flxi_choose_outputs(g, &first, 1, &local);
    else if (local.code == FLX_OK)
        flxi_fail(&local, FLX_E_USAGE,
                  "flx_nth_grad: a graph with an output, a name and an order of 0 or more are needed");
    uint32_t id;
    if (now && n == 0 && flxi_find_wrt(g, wrt, &id, &local) != FLX_OK) { /* the name is wrong whatever the order */
        flx_graph_release(now);
        now = NULL;
    }
    for (int32_t k = 1; now && k <= n; k++) {
        flx_grad_options o = {.flags = k > 1 ? FLX_GRAD_MISSING_ZERO : 0}; /* a level may no longer depend on it */
        flx_graph *loss = k > 1 ? summed(now, &local) : flx_graph_retain(now);
        flx_graph *next = loss ? flx_grad(loss, &wrt, 1, &o, &local) : NULL;
        flx_graph_release(loss);
        flx_graph_release(now);
        now = next;
    }
    if (now && n > 0) {
        flxi_choice named = {.output = 0};
        snprintf(named.name, sizeof named.name, "d%d_%.250s", (int)n, wrt);
        flx_graph *renamed = flxi_choose_outputs(now, &named, 1, &local);
        flx_graph_release(now);
        now = renamed;
    }
    flxi_without_options(&local);
    return flxi_transformed(now, g, "nth_grad", &local, err);
}
