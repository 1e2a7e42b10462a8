/* SPDX-License-Identifier: Apache-2.0 */
/* quantised_bits.c: flx_val_bits: how many bits an element of a quantised value has. */
#include "graph/op/attr_access.h"
#include "graph/op/attr_kinds.h"
#include "ops/opcode.h"

/* Names of schemes hold the bits of an element as their first digit: int4_block, fp8_e4m3, gguf_q6_k. Floats that are
   not packed (gguf_f16) are not quantised. */
static uint32_t bits_of_scheme(const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flxi_attr *a = flxi_find_attr(op, "scheme");
    size_t length = 0;
    const char *word = a ? flxi_word_at(a->words, flxi_node_int(n, "scheme"), &length) : NULL;
    for (size_t i = 0; word && i < length; i++)
        if (word[i] >= '1' && word[i] <= '9')
            return i > 0 && word[i - 1] == 'f' ? 0 : (uint32_t)(word[i] - '0');
    return 0;
}

/* As packed weights of some node. */
static uint32_t bits_of_uses(const flx_graph *g, uint32_t id)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_second = n->op == OP_dequant_matmul || n->op == OP_dequant_grouped_matmul;
        uint32_t weights = is_second ? 1 : 0;
        if ((is_second || n->op == OP_dequant_moe_weights) && n->nin > weights && n->in[weights] == id)
            return bits_of_scheme(n);
    }
    return 0;
}

/* Every element of the result is one of the operand. */
static bool only_moves(const flxi_node *n)
{
    const int both = TRAIT_LINEAR | TRAIT_SHADOW;
    const flxi_op *op = &flxi_ops[n->op];
    uint32_t same = 0;
    for (uint32_t i = 0; i < n->nin; i++)
        same += flxi_operand_role(flxi_operands_of(op), i) == ROLE_SAME;
    return (op->traits & both) == both && same == 1;
}

uint32_t flx_val_bits(const flx_graph *g, flx_val v)
{
    if (!flx_val_type(g, v))
        return 0;
    for (uint32_t id = v.id;;) {
        const flxi_node *n = flxi_node_of(g, id);
        if (n->op == OP_quantize)
            return (uint32_t)flx_dtype_size((int32_t)flxi_node_int(n, "dtype")) * 8;
        if ((n->op == OP_fake_quantize || n->op == OP_fake_quantize_lsq) && id == n->first)
            return (uint32_t)flxi_node_int(n, "bits");
        if (n->op != OP_dequantize && !only_moves(n))
            return bits_of_uses(g, v.id);
        id = n->in[0];
    }
}
