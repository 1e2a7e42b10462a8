/* absorb_transposes.c: products of transposed matrices read them as they lie. matmul(transpose(a), b) becomes a dot_general that
   contracts another axis of a: the product packs its operands anyway, and a transposed one costs it nothing. */
#include "passes/pass.h"

#include <fluxion/ops.h>

/* The operand of a transpose that swaps the last two axes and no others; 0: it is none. */
static uint32_t untransposed(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
    const flx_type *t = flxi_type_at(g, value);
    if (n->op != OP_transpose || t->rank < 2 || flxi_value_at(g, value)->pinned)
        return 0;
    const flxi_attr *a = flxi_ops[OP_transpose].rules->schema; /* perm, its only attribute */
    const flx_ints *perm = (const flx_ints *)(const void *)((const char *)n->attrs + a->offset);
    for (int k = 0; k < t->rank; k++) {
        int from = k < t->rank - 2 ? k : 2 * t->rank - 3 - k;
        if (perm->v[k] != from)
            return 0;
    }
    return n->in[0];
}

typedef struct {
    uint32_t value; /* as it lies */
    int64_t contracted;
} operand;

/* Which axis of an operand of matmul is summed over: the last of a, the last but one of b. */
static operand look_at(const flx_graph *g, uint32_t value, bool is_left)
{
    int64_t rank = flxi_type_at(g, value)->rank;
    uint32_t plain = untransposed(g, value);
    bool is_last = is_left != (plain != 0);
    return (operand){plain ? plain : value, is_last ? rank - 1 : rank - 2};
}

static bool is_absorbed(const flx_graph *g, const flxi_node *n)
{
    if (n->op != OP_matmul)
        return false;
    const flx_type *a = flxi_type_at(g, n->in[0]), *b = flxi_type_at(g, n->in[1]);
    bool same_batch = a->rank == b->rank && a->rank >= 2 &&
                      memcmp(a->dims, b->dims, (size_t)(a->rank - 2) * sizeof *a->dims) == 0;
    return same_batch && (untransposed(g, n->in[0]) || untransposed(g, n->in[1]));
}

static flx_code absorb(flxi_copy *c, const flxi_node *n)
{
    int64_t batch[FLX_MAX_RANK];
    operand a = look_at(c->from, n->in[0], true), b = look_at(c->from, n->in[1], false);
    size_t rank = (size_t)flxi_type_at(c->from, n->in[0])->rank;
    for (size_t k = 0; k + 2 < rank; k++)
        batch[k] = (int64_t)k;
    const flx_ints axes = {batch, rank - 2};
    flx_val y = flx_dot_general(c->to, (flx_val){c->remap.id[a.value], c->to->serial},
                                (flx_val){c->remap.id[b.value], c->to->serial}, (flx_ints){&a.contracted, 1},
                                (flx_ints){&b.contracted, 1}, axes, axes);
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, n->first, y.id);
    return code;
}

flx_code flxi_pass_absorb_transposes(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        code = is_absorbed(in, n) ? absorb(&c, n) : flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
