/* SPDX-License-Identifier: Apache-2.0 */
/* absorb_transposes.c: products of transposed matrices read the matrices as stored. matmul(transpose(a), b) becomes a
   dot_general that contracts another axis of a: the product packs its operands anyway, and a transposed one costs
   nothing extra. A product that is used only transposed is computed transposed: transpose(a b) is the product of
   transpose(b) and transpose(a). Products that are dot_general already read any operand whose axes are permuted, as
   long as the axes of the result keep their order. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* The operand of a transpose that swaps the last two axes and no others; 0: the node is something else. */
static uint32_t untransposed(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_of(g, value);
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
    const flxi_node *p = flxi_node_of(g, product);
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

/* ---- dot_general, and matmul with any permutation ---- */

typedef struct {
    uint32_t value;
    int64_t summed[FLX_MAX_RANK], batch[FLX_MAX_RANK];
    size_t num_summed, num_batch;
} side;

static bool holds(const int64_t *axes, size_t n, int64_t axis)
{
    for (size_t i = 0; i < n; i++)
        if (axes[i] == axis)
            return true;
    return false;
}

/* One matrix on the right serves all rows on the left, which need no batch axes then. */
static side side_of_matmul(const flx_graph *g, const flxi_node *n, uint32_t k)
{
    int rank = flxi_type_at(g, n->in[k])->rank;
    side s = {.value = n->in[k], .num_summed = 1, .num_batch = (size_t)flxi_type_at(g, n->in[1])->rank - 2};
    s.summed[0] = k ? rank - 2 : rank - 1;
    for (size_t i = 0; i < s.num_batch; i++)
        s.batch[i] = (int64_t)i;
    return s;
}

static side side_of(const flx_graph *g, const flxi_node *n, uint32_t k)
{
    if (n->op == OP_matmul)
        return side_of_matmul(g, n, k);
    const flx_ints *summed = flxi_node_ints(n, k ? "rc" : "lc"), *batch = flxi_node_ints(n, k ? "rb" : "lb");
    side s = {.value = n->in[k], .num_summed = summed->n, .num_batch = batch->n};
    for (size_t i = 0; i < summed->n; i++)
        s.summed[i] = summed->v[i];
    for (size_t i = 0; i < batch->n; i++)
        s.batch[i] = batch->v[i];
    return s;
}

/* The operand as stored, if its own axes keep their order. */
static bool read_permuted(const flx_graph *g, side *s)
{
    const flxi_node *n = flxi_node_of(g, s->value);
    int64_t last = -1;
    if (n->op != OP_transpose || flxi_value_at(g, s->value)->pinned)
        return false;
    const flx_ints *perm = flxi_node_ints(n, "perm");
    for (size_t k = 0; k < perm->n; k++) {
        if (holds(s->summed, s->num_summed, (int64_t)k) || holds(s->batch, s->num_batch, (int64_t)k))
            continue;
        if (perm->v[k] < last)
            return false;
        last = perm->v[k];
    }
    for (size_t i = 0; i < s->num_summed; i++)
        s->summed[i] = perm->v[s->summed[i]];
    for (size_t i = 0; i < s->num_batch; i++)
        s->batch[i] = perm->v[s->batch[i]];
    s->value = n->in[0];
    return true;
}

/* The dot_general whose result node n transposes by exchanging the sides, if nothing else reads it; otherwise NULL. */
static const flxi_node *turned_product(const flx_graph *g, const flxi_node *n, const uint32_t *uses)
{
    if (n->op != OP_transpose || uses[n->in[0]] != 1 || flxi_value_at(g, n->in[0])->pinned)
        return NULL;
    const flxi_node *p = flxi_node_of(g, n->in[0]);
    if (p->op != OP_dot_general)
        return NULL;
    const flx_ints *perm = flxi_node_ints(n, "perm");
    size_t batch = flxi_node_ints(p, "lb")->n;
    size_t left = (size_t)flxi_type_at(g, p->in[0])->rank - batch - flxi_node_ints(p, "lc")->n;
    size_t right = perm->n - batch - left;
    if (!left || !right)
        return NULL;
    for (size_t k = 0; k < perm->n; k++) {
        size_t from = k < batch ? k : k < batch + right ? k + left : k - right;
        if (perm->v[k] != (int64_t)from)
            return NULL;
    }
    return p;
}

static flx_code absorb_dot(flxi_copy *c, const flxi_node *n, bool is_turned, uint32_t result)
{
    side l = side_of(c->from, n, is_turned), r = side_of(c->from, n, !is_turned);
    while (read_permuted(c->from, &l))
        continue;
    while (read_permuted(c->from, &r))
        continue;
    flx_val y = flx_dot_general(c->to, ((flx_val){c->remap.id[l.value], c->to->serial}),
                                ((flx_val){c->remap.id[r.value], c->to->serial}), ((flx_ints){l.summed, l.num_summed}),
                                ((flx_ints){r.summed, r.num_summed}), ((flx_ints){l.batch, l.num_batch}),
                                ((flx_ints){r.batch, r.num_batch}));
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, result, y.id);
    return code;
}

static bool is_absorbed_dot(const flx_graph *g, const flxi_node *n)
{
    bool has_one_matrix = n->op == OP_matmul && flxi_type_at(g, n->in[1])->rank == 2;
    if (n->op != OP_dot_general && !has_one_matrix && !is_plain_product(g, n))
        return false;
    side l = side_of(g, n, 0), r = side_of(g, n, 1);
    return read_permuted(g, &l) || read_permuted(g, &r);
}

static flx_code rewrite(flxi_copy *c, const uint32_t *uses)
{
    for (uint32_t i = 0; i < c->from->node_count; i++) {
        const flxi_node *n = flxi_node_at(c->from, i), *product = transposed_product(c->from, n, uses);
        const flxi_node *turned = turned_product(c->from, n, uses);
        if (turned)
            FLXI_TRY(absorb_dot(c, turned, true, n->first));
        else if (is_absorbed_dot(c->from, n))
            FLXI_TRY(absorb_dot(c, n, false, n->first));
        else if (product)
            FLXI_TRY(absorb(c, product, true, n->first));
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
    if (code == FLX_OK && !(uses = flxi_count_uses(in)))
        code = flxi_oom(err, "a pass");
    if (code == FLX_OK) {
        code = rewrite(&c, uses);
        flxi_free(&in->ctx->mem, uses, (size_t)in->value_count + 1, sizeof *uses);
    }
    return flxi_copy_end(&c, code, out, remap);
}
