/* SPDX-License-Identifier: Apache-2.0 */
/* absorb_transposes.c: products of transposed matrices read the matrices as stored. matmul(transpose(a), b) becomes a
   dot_general that contracts another axis of a: the product packs its operands anyway, and a transposed one costs
   nothing extra. A product that is used only transposed is computed transposed: transpose(a b) is the product of
   transpose(b) and transpose(a), and a dot_general whose result has the free axes of a and b exchanged is that of b
   and a: so gradients of weights are written as other frameworks write them. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* The operand of a transpose that swaps the last two axes and no others; 0: the node is something else. */
static uint32_t untransposed(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
    const flx_type *t = flxi_type_at(g, value);
    if (n->op != OP_transpose || t->rank < 2 || flxi_value_at(g, value)->pinned)
        return 0;
    const flx_ints *perm = flxi_node_ints(n, "perm");
    for (int k = 0; k < t->rank; k++) {
        int from = k < t->rank - 2 ? k : 2 * t->rank - 3 - k;
        if (perm->v[k] != from)
            return 0;
    }
    return n->in[0];
}

typedef struct {
    uint32_t value; /* as stored */
    int64_t contracted;
} operand;

/* Which axis of an operand of matmul is summed over: the last of a, the second to last of b. */
static operand look_at(const flx_graph *g, uint32_t value, bool is_left)
{
    int64_t rank = flxi_type_at(g, value)->rank;
    uint32_t plain = untransposed(g, value);
    bool is_last = is_left != (plain != 0);
    return (operand){plain ? plain : value, is_last ? rank - 1 : rank - 2};
}

/* matmul of matrices, or of the same number of matrices on both sides. */
static bool is_plain_product(const flx_graph *g, const flxi_node *n)
{
    if (n->op != OP_matmul)
        return false;
    const flx_type *a = flxi_type_at(g, n->in[0]), *b = flxi_type_at(g, n->in[1]);
    return a->rank == b->rank && a->rank >= 2 && memcmp(a->dims, b->dims, (size_t)(a->rank - 2) * sizeof *a->dims) == 0;
}

static bool is_absorbed(const flx_graph *g, const flxi_node *n)
{
    return is_plain_product(g, n) && (untransposed(g, n->in[0]) || untransposed(g, n->in[1]));
}

/* The product that node n transposes, if nothing else reads it; otherwise NULL. */
static const flxi_node *transposed_product(const flx_graph *g, const flxi_node *n, const uint32_t *uses)
{
    uint32_t product = n->nout == 1 ? untransposed(g, n->first) : 0;
    if (!product || uses[product] != 1 || flxi_value_at(g, product)->pinned)
        return NULL;
    const flxi_node *p = flxi_node_at(g, flxi_value_at(g, product)->node);
    return is_plain_product(g, p) ? p : NULL;
}

/* The product of the operands of `n`, in reverse order if it is transposed, in place of `result`. */
static flx_code absorb(flxi_copy *c, const flxi_node *n, bool is_turned, uint32_t result)
{
    int64_t batch[FLX_MAX_RANK];
    operand a = look_at(c->from, n->in[0], true), b = look_at(c->from, n->in[1], false);
    size_t rank = (size_t)flxi_type_at(c->from, n->in[0])->rank;
    for (size_t k = 0; k + 2 < rank; k++)
        batch[k] = (int64_t)k;
    const flx_ints axes = {batch, rank - 2};
    operand l = is_turned ? b : a, r = is_turned ? a : b;
    flx_val y = flx_dot_general(c->to, ((flx_val){c->remap.id[l.value], c->to->serial}),
                                ((flx_val){c->remap.id[r.value], c->to->serial}), (flx_ints){&l.contracted, 1},
                                (flx_ints){&r.contracted, 1}, axes, axes);
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, result, y.id);
    return code;
}

/* The dot_general whose result node n has with the free axes of both operands exchanged, if nothing else reads it;
   otherwise NULL. */
static const flxi_node *exchanged_product(const flx_graph *g, const flxi_node *n, const uint32_t *uses)
{
    if (n->op != OP_transpose || uses[n->in[0]] != 1 || flxi_value_at(g, n->in[0])->pinned)
        return NULL;
    const flxi_node *p = flxi_node_at(g, flxi_value_at(g, n->in[0])->node);
    if (p->op != OP_dot_general)
        return NULL;
    const flx_ints *perm = flxi_node_ints(n, "perm");
    int64_t batch = (int64_t)flxi_node_ints(p, "lb")->n;
    int64_t left = flxi_type_at(g, p->in[0])->rank - batch - (int64_t)flxi_node_ints(p, "lc")->n;
    int64_t right = (int64_t)perm->n - batch - left;
    for (int64_t k = 0; k < (int64_t)perm->n; k++) {
        int64_t from = k < batch ? k : k < batch + right ? k + left : k - right;
        if (perm->v[k] != from)
            return NULL;
    }
    return p;
}

static flx_code exchange(flxi_copy *c, const flxi_node *n, uint32_t result)
{
    flx_val a = {c->remap.id[n->in[0]], c->to->serial};
    flx_val b = {c->remap.id[n->in[1]], c->to->serial};
    flx_val y = flx_dot_general(c->to, b, a, *flxi_node_ints(n, "rc"), *flxi_node_ints(n, "lc"),
                                *flxi_node_ints(n, "rb"), *flxi_node_ints(n, "lb"));
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, result, y.id);
    return code;
}

static void count_uses(const flx_graph *g, uint32_t *uses)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++)
            uses[n->in[k]]++;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        uses[g->outputs.at[k].val]++;
}

static flx_code rewrite(flxi_copy *c, const uint32_t *uses)
{
    for (uint32_t i = 0; i < c->from->node_count; i++) {
        const flxi_node *n = flxi_node_at(c->from, i), *product = transposed_product(c->from, n, uses);
        const flxi_node *exchanged = exchanged_product(c->from, n, uses);
        if (product)
            FLXI_TRY(absorb(c, product, true, n->first));
        else if (exchanged)
            FLXI_TRY(exchange(c, exchanged, n->first));
        else if (is_absorbed(c->from, n))
            FLXI_TRY(absorb(c, n, false, n->first));
        else
            FLXI_TRY(flxi_copy_node(c, i));
    }
    return FLX_OK;
}

flx_code flxi_pass_absorb_transposes(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    uint32_t *uses = NULL;
    flx_code code = flxi_copy_begin(&c, in, err);
    if (code == FLX_OK && !(uses = flxi_alloc(&in->ctx->mem, (size_t)in->value_count + 1, sizeof *uses)))
        code = flxi_oom(err, "a pass");
    if (code == FLX_OK) {
        count_uses(in, uses);
        code = rewrite(&c, uses);
        flxi_free(&in->ctx->mem, uses, (size_t)in->value_count + 1, sizeof *uses);
    }
    return flxi_copy_end(&c, code, out, remap);
}
