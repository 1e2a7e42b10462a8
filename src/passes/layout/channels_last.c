/* SPDX-License-Identifier: Apache-2.0 */
/* channels_last.c: convolutions and what is between them store their channels last.

   Tiles of a convolution run over channels: where these are neighbours in memory, no image is turned in registers
   before it is multiplied, and a result is written in whole lines. Networks that come from frameworks have their
   channels before the positions. This pass changes all values between convolutions whose layout no one sees: results
   of convolutions, norms, activations, pools and sums, and in a graph of derivatives the same backward. Convolutions
   read inputs and write outputs of the graph as they are; other nodes get a transpose, where the values that change
   with it are worth that (layout_choice.c).

   Sums over positions are then sums over other axes, so their last bits differ from those of the graph as written. */
#include "passes/layout/layout.h"

/* Whether any operand or the result of the node moves. */
static bool is_touched(const flxi_layout *w, const flxi_node *n)
{
    bool is_moved = n->nout == 1 && flxi_layout_moves(&w->choice, n->first);
    for (uint32_t k = 0; k < n->nin; k++)
        is_moved = is_moved || flxi_layout_moves(&w->choice, n->in[k]);
    return is_moved;
}

static flx_code visit(flxi_layout *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->c.from, i);
    bool is_moved = is_touched(w, n);
    if (is_moved && w->choice.follows[i])
        return flxi_layout_follow(w, i);
    if (is_moved && n->nin == 2 && flxi_layout_of_conv(n, 0) >= 0)
        return flxi_layout_conv(w, i);
    for (uint32_t k = 0; k < n->nin; k++)
        flxi_layout_first(w, n->in[k]);
    FLXI_TRY(flxi_built(w->c.to, w->c.err));
    return flxi_copy_node(&w->c, i);
}

static flx_code move(flxi_layout *w)
{
    const flx_graph *g = w->c.from;
    for (uint32_t i = 0; i < g->node_count; i++)
        FLXI_TRY(visit(w, i));
    for (size_t k = 0; k < g->outputs.n; k++)
        flxi_layout_first(w, g->outputs.at[k].val);
    return flxi_built(w->c.to, w->c.err);
}

static bool moves_any(const flxi_layout_choice *c)
{
    for (uint32_t v = 1; v <= c->g->value_count; v++)
        if (flxi_layout_moves(c, v))
            return true;
    return false;
}

static bool has_conv(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_layout_of_conv(flxi_node_at(g, i), 0) >= 0)
            return true;
    return false;
}

static flx_code move_all(flxi_layout *w, const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    const flxi_allocator *mem = &in->ctx->mem;
    size_t n = (size_t)in->value_count + 1;
    flx_code code = flxi_copy_begin(&w->c, in, err);
    w->moved = flxi_alloc(mem, n, sizeof *w->moved);
    w->turned = flxi_alloc(mem, n, sizeof *w->turned);
    if (code == FLX_OK && (!w->moved || !w->turned))
        code = flxi_oom(err, "a pass");
    if (code == FLX_OK)
        code = move(w);
    if (w->moved)
        flxi_free(mem, w->moved, n, sizeof *w->moved);
    if (w->turned)
        flxi_free(mem, w->turned, n, sizeof *w->turned);
    return flxi_copy_end(&w->c, code, out, remap);
}

flx_code flxi_channels_last(const flx_graph *in, const flxi_layout_limits *limits, flx_graph **out, flxi_remap *remap,
                            flx_error *err)
{
    flxi_layout w = {0};
    if (!has_conv(in))
        return flxi_pass_dce(in, out, remap, err);
    flx_code code = flxi_layout_choose(&w.choice, in, limits, err);
    if (code == FLX_OK)
        code = moves_any(&w.choice) ? move_all(&w, in, out, remap, err) : flxi_pass_dce(in, out, remap, err);
    flxi_layout_free(&w.choice);
    return code;
}

/* With fewer channels, lanes of vectors stay empty. A transpose in memory reads and writes all elements once more. */
flx_code flxi_pass_channels_last(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    static const flxi_layout_limits usual = {.least_channels = 16, .transpose_cost = 3};
    return flxi_channels_last(in, &usual, out, remap, err);
}
