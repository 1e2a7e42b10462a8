/* SPDX-License-Identifier: Apache-2.0 */
/* cut_sums.c: sums of many operands (add_n) as sums of a few, one after another. Reverse mode adds the cotangents of a
   value in one node, thousands where a value is used that often. As one kernel they would cost the C compiler more than
   linear time, and a buffer for each operand; in parts they are mostly the same kernel again. The additions keep their
   order. Sums of f16 and bf16 are widened first: their parts must not be rounded.

   Where memory is scarce, sums become pairs: an operand is then added as soon as it is computed, and its memory is free
   again, while a sum of many needs all of them at once. */
#include "ops/opcode.h"
#include "passes/pass.h"

#include <fluxion/ops.h>

/* Operands of one node, and of one that is made for memory: of wide parts, pairs of a few take more. */
enum { MOST = 32, PAIR = 2, FEW_NARROW = 6 };

static bool is_narrow(const flx_graph *g, const flxi_node *n)
{
    int32_t dtype = flxi_type_at(g, n->first)->dtype;
    return dtype == FLX_F16 || dtype == FLX_BF16;
}

static flx_code cut(flxi_copy *c, const flxi_node *n, size_t most)
{
    const flx_type *out = flxi_type_at(c->from, n->first);
    bool widens = is_narrow(c->from, n);
    flx_val part[MOST];
    size_t filled = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
        flx_val x = {c->remap.id[n->in[k]], c->to->serial};
        part[filled++] = widens ? flx_cast(c->to, x, FLX_F32) : x;
        if (filled == most || k + 1 == n->nin) {
            part[0] = flx_add_n(c->to, part, filled);
            filled = 1;
        }
    }
    if (widens)
        part[0] = flx_cast(c->to, part[0], (flx_dtype)out->dtype);
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, n->first, part[0].id);
    return code;
}

/* Sums of more than `few` operands as sums of at most `most`. */
static flx_code cut_all(const flx_graph *in, size_t few, size_t few_narrow, size_t most, flx_graph **out,
                        flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        bool is_cut = n->op == OP_add_n && n->nin > (is_narrow(in, n) ? few_narrow : few);
        code = is_cut ? cut(&c, n, most) : flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}

flx_code flxi_pass_cut_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return cut_all(in, MOST, MOST, MOST, out, remap, err);
}

flx_code flxi_pass_pair_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return cut_all(in, PAIR, FEW_NARROW, PAIR, out, remap, err);
}

bool flxi_paired_sum(const flx_graph *g, uint32_t node, uint32_t *first)
{
    const flxi_node *n = flxi_node_at(g, node);
    if (n->op != OP_add_n || n->nin != PAIR)
        return false;
    const flxi_node *before = node > 0 ? flxi_node_at(g, node - 1) : NULL;
    *first = before && before->op == OP_cast && n->in[1] == before->first ? node - 1 : node;
    return true;
}
