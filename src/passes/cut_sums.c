/* SPDX-License-Identifier: Apache-2.0 */
/* cut_sums.c: sums of many operands (add_n) as sums of a few, one after another. Reverse mode adds the cotangents of a
   value in one node, thousands where a value is used that often. As one kernel they would cost the C compiler more than
   linear time, and a buffer for each operand; in parts they are mostly the same kernel again. The additions keep their
   order. Sums of f16 and bf16 are widened first: their parts must not be rounded. */
#include "ops/opcode.h"
#include "passes/pass.h"

#include <fluxion/ops.h>

/* Operands of one node. */
enum { MOST = 32 };

static bool is_cut(const flxi_node *n)
{
    return n->op == OP_add_n && n->nin > MOST;
}

static flx_code cut(flxi_copy *c, const flxi_node *n)
{
    const flx_type *out = flxi_type_at(c->from, n->first);
    bool is_narrow = out->dtype == FLX_F16 || out->dtype == FLX_BF16;
    flx_val part[MOST];
    size_t filled = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
        flx_val x = {c->remap.id[n->in[k]], c->to->serial};
        part[filled++] = is_narrow ? flx_cast(c->to, x, FLX_F32) : x;
        if (filled == MOST || k + 1 == n->nin) {
            part[0] = flx_add_n(c->to, part, filled);
            filled = 1;
        }
    }
    if (is_narrow)
        part[0] = flx_cast(c->to, part[0], (flx_dtype)out->dtype);
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, n->first, part[0].id);
    return code;
}

flx_code flxi_pass_cut_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        code = is_cut(n) ? cut(&c, n) : flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
