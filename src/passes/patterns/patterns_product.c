/* SPDX-License-Identifier: Apache-2.0 */
/* patterns_product.c: products with what follows them directly: a bias, an activation, a residual, a gate. */
#include "ops/composite/fused.h"
#include "passes/patterns/pattern.h"

/* The root, or what it is the activation of. */
static uint32_t before_activation(const flx_graph *g, uint32_t root, int64_t *act)
{
    const flxi_node *n = flxi_maker(g, root);
    *act = flxi_activation_of(n->op);
    return *act == FLXI_ACT_none ? root : n->in[0];
}

/* act(product + bias), for the operand of the sum that is made by the op; `features` is the length of the bias. */
static void propose_bias(flxi_rewriting *f, uint32_t root, flxi_opcode product, flxi_opcode fused,
                         flx_dim (*features)(const flx_graph *g, const flxi_node *n))
{
    const flx_graph *g = flxi_fused_graph(f);
    int64_t act;
    const flxi_node *sum = flxi_made_by(g, before_activation(g, root, &act), OP_add);
    for (uint32_t k = 0; sum && k < 2; k++) {
        const flxi_node *made = flxi_made_by(g, sum->in[k], product);
        flxi_proposal p = {.op = fused, .nin = 3};
        if (!made || !flxi_as_vector(g, sum->in[1 - k], features(g, made), &p.in[2]))
            continue;
        p.in[0] = flxi_whole(made->in[0]);
        p.in[1] = flxi_whole(made->in[1]);
        flxi_propose_attrs_of(&p, made);
        if (act != FLXI_ACT_none)
            flxi_propose_attr(&p, flx_attr_word("act", flxi_activation_name(act)));
        if (flxi_propose(f, &p))
            return;
    }
}

static flx_dim columns(const flx_graph *g, const flxi_node *n)
{
    const flx_type *t = flxi_type_at(g, n->first);
    return t->rank ? t->dims[t->rank - 1] : 1;
}

void flxi_pattern_matmul_bias(flxi_rewriting *f, uint32_t root)
{
    propose_bias(f, root, OP_matmul, OP_fused_matmul_bias_act, columns);
}

static flx_dim output_features(const flx_graph *g, const flxi_node *n)
{
    return flxi_type_at(g, n->first)->dims[flxi_node_ints(n, "output_axes")->v[1]];
}

void flxi_pattern_conv_bias(flxi_rewriting *f, uint32_t root)
{
    propose_bias(f, root, OP_conv, OP_fused_conv_bias_act, output_features);
}

/* Only a product with one matrix can be rewritten: batches of matrices are not a layer. */
void flxi_pattern_matmul_residual(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *sum = flxi_maker(g, root);
    for (uint32_t k = 0; k < 2; k++) {
        const flxi_node *made = flxi_made_by(g, sum->in[k], OP_matmul);
        if (!made || flxi_type_at(g, made->in[1])->rank != 2 || flxi_type_at(g, made->in[0])->rank < 2)
            continue;
        flxi_proposal p = {.op = OP_fused_matmul_residual, .nin = 3};
        p.in[0] = flxi_whole(made->in[0]);
        p.in[1] = flxi_whole(made->in[1]);
        p.in[2] = flxi_whole(sum->in[1 - k]);
        if (flxi_propose(f, &p))
            return;
    }
}

/* ---- swiglu ---- */

static const flxi_node *part_of(const flx_graph *g, uint32_t v)
{
    const flxi_node *n = flxi_maker(g, v);
    return n->op == OP_narrow || n->op == OP_split ? n : NULL;
}

/* What silu is applied to, if the value is that. */
static uint32_t gate_of(const flx_graph *g, uint32_t v)
{
    const flxi_node *n = flxi_maker(g, v);
    if (n->op == OP_silu)
        return n->in[0];
    for (uint32_t k = 0; n->op == OP_mul && k < 2; k++) {
        const flxi_node *s = flxi_made_by(g, n->in[k], OP_sigmoid);
        if (s && s->in[0] == n->in[1 - k])
            return s->in[0];
    }
    return 0;
}

static bool begins(const flx_graph *g, uint32_t v)
{
    const flxi_node *n = flxi_maker(g, v);
    return n->op == OP_split ? v == n->first : flxi_node_int(n, "start") == 0;
}

void flxi_pattern_swiglu(flxi_rewriting *f, uint32_t root)
{
    const flx_graph *g = flxi_fused_graph(f);
    const flxi_node *product = flxi_maker(g, root);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t gate = gate_of(g, product->in[k]);
        const flxi_node *a = gate ? part_of(g, gate) : NULL, *b = part_of(g, product->in[1 - k]);
        if (!a || !b || a->in[0] != b->in[0])
            continue;
        flxi_proposal p = {.op = OP_fused_swiglu, .nin = 1};
        p.in[0] = flxi_whole(a->in[0]);
        if (begins(g, gate))
            flxi_propose_attr(&p, flx_attr_int("gate_first", 1));
        if (flxi_propose(f, &p))
            return;
    }
}
