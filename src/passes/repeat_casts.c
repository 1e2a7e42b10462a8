/* SPDX-License-Identifier: Apache-2.0 */
/* repeat_casts.c: large inputs and parameters as numbers of 16 bits are made again for each product that reads them.
   A training step in bf16 reads every weight forward and backward: kept from the one to the other, the narrow copies
   of all of them are in memory at once, half of what the weights themselves take, while each costs as little to make
   as one more look at the weight. So this comes after equal nodes were merged for the last time. */
#include "passes/pass.h"

/* Smaller copies are not worth another step, and what many read is kept. */
static const int64_t min_count = 1 << 16;
enum { MOST_READERS = 4 };

/* A leaf of the graph in f32, as f16 or bf16. */
static bool narrows_leaf(const flx_graph *g, const flxi_node *n)
{
    int64_t count;
    if (n->nin != 1 || n->nout != 1 || flxi_ops[n->op].op_class != CLASS_POINTWISE)
        return false;
    const flx_type *to = flxi_type_at(g, n->first);
    bool is_leaf = flxi_ops[flxi_node_at(g, flxi_value_at(g, n->in[0])->node)->op].traits & TRAIT_DECLARED;
    bool is_narrow = to->dtype == FLX_F16 || to->dtype == FLX_BF16;
    return is_leaf && is_narrow && flxi_type_at(g, n->in[0])->dtype == FLX_F32 && !flxi_value_at(g, n->first)->pinned &&
           flxi_static_count(to, &count) && count >= min_count;
}

/* The operands of node i that are such copies, and were read before, are made again. */
static flx_code repeat_operands(flxi_copy *c, uint32_t i, const uint32_t *uses, bool *is_read)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t maker = flxi_value_at(c->from, n->in[k])->node;
        if (uses[n->in[k]] > MOST_READERS || !narrows_leaf(c->from, flxi_node_at(c->from, maker)))
            continue;
        if (is_read[maker])
            FLXI_TRY(flxi_copy_node(c, maker));
        is_read[maker] = true;
    }
    return FLX_OK;
}

static flx_code rewrite(flxi_copy *c, const uint32_t *uses, bool *is_read)
{
    for (uint32_t i = 0; i < c->from->node_count; i++) {
        FLXI_TRY(repeat_operands(c, i, uses, is_read));
        FLXI_TRY(flxi_copy_node(c, i));
    }
    return FLX_OK;
}

flx_code flxi_pass_repeat_casts(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    const flxi_allocator *mem = &in->ctx->mem;
    flxi_copy c;
    uint32_t *uses = flxi_count_uses(in);
    bool *is_read = flxi_alloc(mem, (size_t)in->node_count + 1, sizeof *is_read);
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK)
        code = uses && is_read ? rewrite(&c, uses, is_read) : flxi_oom(err, "a pass");
    if (uses)
        flxi_free(mem, uses, (size_t)in->value_count + 1, sizeof *uses);
    if (is_read)
        flxi_free(mem, is_read, (size_t)in->node_count + 1, sizeof *is_read);
    return flxi_copy_end(&c, code, out, remap);
}
