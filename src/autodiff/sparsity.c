/* SPDX-License-Identifier: Apache-2.0 */
/* sparsity.c: where a Jacobian is zero because of the structure of the graph.

   For each value and each axis of one leaf we follow a single fact: "position i along axis p depends only on the
   leaf's positions i + lo … i + hi". Pointwise ops keep it, data movement shifts it, a reduction along p loses it. Two
   uses of the leaf keep the hull of both. The fact at an output determines which elements of the leaf can be varied in
   one sweep: all those further apart than hi - lo. An elementwise function needs one sweep, a function that treats the
   rows of a batch alike one per element of a row, a three-point stencil three.

   An op without a row here loses the fact on all axes. That is never wrong, only slower; so the rows are those that
   matter. */
#include "autodiff/jacobian.h"

#include "graph/op/opcode.h"

#include <fluxion/catalogue.h>

typedef struct {
    const flx_graph *g;
    const flxi_node *n;
    uint32_t operand, result;
} step;

static const int64_t farthest = INT64_C(1) << 60; /* beyond any extent, yet the sum of two does not overflow */

static const flx_type *operand_type(const step *s)
{
    return flxi_type_at(s->g, s->n->in[s->operand]);
}

static const flx_type *result_type(const step *s)
{
    return flxi_type_at(s->g, s->n->first + s->result);
}

static const void *field(const step *s, const char *name)
{
    for (const flxi_attr *a = flxi_ops[s->n->op].rules->schema; a && a->name; a++)
        if (strcmp(a->name, name) == 0)
            return (const char *)s->n->attrs + a->offset;
    return NULL;
}

static int64_t number(const step *s, const char *name)
{
    return *(const int64_t *)field(s, name);
}

static const flx_ints *list(const step *s, const char *name)
{
    return field(s, name);
}

static bool lists(const flx_ints *l, int64_t x)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] == x)
            return true;
    return false;
}

/* ---- How each op carries a link from an operand to a result; false: it is lost ---- */

static bool same_extent(const step *s, int from, int to)
{
    return to >= 0 && to < result_type(s)->rank && operand_type(s)->dims[from] == result_type(s)->dims[to];
}

static bool move_to(const step *s, flxi_link *l, int to)
{
    bool kept = same_extent(s, l->axis, to);
    l->axis = to;
    return kept;
}

/* Position i of the result is position i + by of the operand. */
static bool shift(flxi_link *l, flx_dim by)
{
    if (!flxi_dim_is_number(by) || by > farthest || by < -farthest)
        return false;
    l->lo += by;
    l->hi += by;
    return l->lo > -farthest && l->hi < farthest;
}

/* Operands align at the right; an axis that is stretched is lost. */
static bool follow_broadcast(const step *s, flxi_link *l)
{
    return move_to(s, l, l->axis + result_type(s)->rank - operand_type(s)->rank);
}

static bool follow_transpose(const step *s, flxi_link *l)
{
    const flx_ints *perm = list(s, "perm");
    for (size_t i = 0; i < perm->n; i++)
        if (perm->v[i] == l->axis)
            return move_to(s, l, (int)i);
    return false;
}

static bool follow_broadcast_in_dim(const step *s, flxi_link *l)
{
    return move_to(s, l, (int)list(s, "axes")->v[l->axis]);
}

/* An axis survives a reshape if the result has an axis of its extent with the same number of elements before it. */
static bool follow_reshape(const step *s, flxi_link *l)
{
    const flx_type *x = operand_type(s);
    const flx_type *y = result_type(s);
    flx_dim before = flxi_dims_product(s->g->ctx, x, 0, l->axis);
    for (int k = 0; before != FLX_DIM_INVALID && k < y->rank; k++)
        if (y->dims[k] == x->dims[l->axis] && flxi_dims_product(s->g->ctx, y, 0, k) == before)
            return move_to(s, l, k);
    return false;
}

static bool follow_reduce(const step *s, flxi_link *l)
{
    const flx_ints *axes = list(s, "axes");
    int dropped = 0;
    for (size_t i = 0; i < axes->n; i++)
        dropped += axes->v[i] < l->axis;
    return !lists(axes, l->axis) && move_to(s, l, number(s, "keep_dims") ? l->axis : l->axis - dropped);
}

/* The op mixes the elements along one axis. */
static bool follow_along(const step *s, flxi_link *l)
{
    return l->axis != number(s, "axis") && move_to(s, l, l->axis);
}

static bool follow_reverse(const step *s, flxi_link *l)
{
    return !lists(list(s, "axes"), l->axis) && move_to(s, l, l->axis);
}

static bool follow_narrow(const step *s, flxi_link *l)
{
    return l->axis != number(s, "axis") || shift(l, number(s, "start"));
}

static bool follow_slice(const step *s, flxi_link *l)
{
    return list(s, "stride")->v[l->axis] == 1 && shift(l, list(s, "start")->v[l->axis]);
}

static bool follow_pad(const step *s, flxi_link *l)
{
    flx_dim low = list(s, "low")->v[l->axis];
    return s->operand == 0 && list(s, "interior")->v[l->axis] == 0 && flxi_dim_is_number(low) && shift(l, -low);
}

/* Operand k of a concat, or result k of a split, begins where those before it end. */
static bool follow_concat(const step *s, flxi_link *l)
{
    flx_dim begin = 0;
    if (l->axis != number(s, "axis"))
        return true;
    for (uint32_t k = 0; k < s->operand; k++)
        begin = flx_dim_add(s->g->ctx, begin, flxi_type_at(s->g, s->n->in[k])->dims[l->axis]);
    return flxi_dim_is_number(begin) && shift(l, -begin);
}

static bool follow_split(const step *s, flxi_link *l)
{
    flx_dim begin = 0;
    if (l->axis != number(s, "axis"))
        return true;
    for (uint32_t k = 0; k < s->result; k++)
        begin = flx_dim_add(s->g->ctx, begin, flxi_type_at(s->g, s->n->first + k)->dims[l->axis]);
    return shift(l, begin);
}

static bool follow_stack(const step *s, flxi_link *l)
{
    return move_to(s, l, l->axis < number(s, "axis") ? l->axis : l->axis + 1);
}

/* The table's axes stay, except the one that is indexed. */
static bool follow_gather(const step *s, flxi_link *l)
{
    int64_t axis = number(s, "axis");
    int places = flxi_type_at(s->g, s->n->in[1])->rank;
    return s->operand == 0 && l->axis != axis && move_to(s, l, l->axis < axis ? l->axis : l->axis + places - 1);
}

static bool follow_matmul(const step *s, flxi_link *l)
{
    int rank = operand_type(s)->rank;
    int summed = s->operand == 0 ? rank - 1 : rank - 2;
    if (rank < 2 || operand_type(s)->rank > result_type(s)->rank || l->axis == summed)
        return false;
    return follow_broadcast(s, l);
}

static int position_in(const flx_ints *l, int64_t x)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] == x)
            return (int)i;
    return -1;
}

/* The result has the paired axes first, then the free ones of l, then those of r. */
static bool follow_dot_general(const step *s, flxi_link *l)
{
    const flx_ints *paired = list(s, s->operand == 0 ? "lb" : "rb");
    const flx_ints *summed = list(s, s->operand == 0 ? "lc" : "rc");
    int at = position_in(paired, l->axis);
    if (at >= 0)
        return move_to(s, l, at);
    if (lists(summed, l->axis))
        return false;
    at = (int)paired->n;
    if (s->operand == 1)
        at += flxi_type_at(s->g, s->n->in[0])->rank - (int)(list(s, "lb")->n + list(s, "lc")->n);
    for (int k = 0; k < l->axis; k++)
        at += !lists(paired, k) && !lists(summed, k);
    return move_to(s, l, at);
}

/* The examples of a batch stay independent. */
static bool follow_conv(const step *s, flxi_link *l)
{
    bool examples = s->operand == 0 && number(s, "batch_groups") == 1 && l->axis == list(s, "input_axes")->v[0];
    return examples && move_to(s, l, (int)list(s, "output_axes")->v[0]);
}

/* Windows are along the axes after the examples and channels. */
static bool follow_pool(const step *s, flxi_link *l)
{
    return l->axis < 2 && move_to(s, l, l->axis);
}

typedef struct {
    flxi_opcode op;
    bool (*follow)(const step *s, flxi_link *l);
} follow_row;

static const follow_row rows[] = {
    {OP_expand, follow_broadcast},
    {OP_tril, follow_broadcast},
    {OP_triu, follow_broadcast},
    {OP_print, follow_broadcast},
    {OP_dropout, follow_broadcast},
    {OP_quantize, follow_broadcast},
    {OP_dequantize, follow_broadcast},
    {OP_transpose, follow_transpose},
    {OP_broadcast_in_dim, follow_broadcast_in_dim},
    {OP_reshape, follow_reshape},
    {OP_squeeze, follow_reshape},
    {OP_unsqueeze, follow_reshape},
    {OP_reduce_sum, follow_reduce},
    {OP_reduce_mean, follow_reduce},
    {OP_reduce_max, follow_reduce},
    {OP_reduce_min, follow_reduce},
    {OP_reduce_prod, follow_reduce},
    {OP_softmax, follow_along},
    {OP_log_softmax, follow_along},
    {OP_cumsum, follow_along},
    {OP_cumprod, follow_along},
    {OP_cummax, follow_along},
    {OP_cummin, follow_along},
    {OP_cumlogsumexp, follow_along},
    {OP_roll, follow_along},
    {OP_reverse, follow_reverse},
    {OP_narrow, follow_narrow},
    {OP_slice, follow_slice},
    {OP_pad, follow_pad},
    {OP_concat, follow_concat},
    {OP_split, follow_split},
    {OP_stack, follow_stack},
    {OP_gather, follow_gather},
    {OP_matmul, follow_matmul},
    {OP_dot_general, follow_dot_general},
    {OP_conv, follow_conv},
    {OP_pool, follow_pool},
};

static bool follow(const step *s, flxi_link *l)
{
    if (flxi_ops[s->n->op].op_class == CLASS_POINTWISE)
        return follow_broadcast(s, l);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].op == s->n->op)
            return rows[i].follow(s, l);
    return false;
}

/* ---- The walk ---- */

typedef struct {
    const flx_graph *g;
    const flx_type *leaf;
    size_t rank;      /* of the leaf */
    bool *reached;    /* by id */
    flxi_link *links; /* by id and axis of the leaf */
} walk;

static flxi_link *links_of(const walk *w, uint32_t id)
{
    return w->links + id * w->rank;
}

/* Both uses of the leaf count. */
static void merge(flxi_link *into, const flxi_link *l)
{
    if (into->axis != l->axis)
        into->axis = -1;
    into->lo = l->lo < into->lo ? l->lo : into->lo;
    into->hi = l->hi > into->hi ? l->hi : into->hi;
}

static void visit_use(const walk *w, const step *s)
{
    uint32_t from = s->n->in[s->operand];
    uint32_t to = s->n->first + s->result;
    for (size_t q = 0; q < w->rank; q++) {
        flxi_link l = links_of(w, from)[q];
        if (l.axis >= 0 && !follow(s, &l))
            l.axis = -1;
        if (w->reached[to])
            merge(&links_of(w, to)[q], &l);
        else
            links_of(w, to)[q] = l;
    }
    w->reached[to] = true;
}

/* A band as wide as the axis carries no information. */
static void drop_wide(const walk *w, uint32_t id)
{
    for (size_t q = 0; q < w->rank; q++) {
        flxi_link *l = &links_of(w, id)[q];
        if (flxi_dim_is_number(w->leaf->dims[q]) && l->hi - l->lo + 1 >= w->leaf->dims[q])
            l->axis = -1;
    }
}

/* Whether operand i of a node depends on the leaf in a way that matters to the node. */
static bool uses(const walk *w, const flxi_node *n, uint32_t i)
{
    return w->reached[n->in[i]] && flxi_takes_derivative(&flxi_ops[n->op], flxi_type_at(w->g, n->in[i])->dtype);
}

static void visit(const walk *w, const flxi_node *n)
{
    if (flxi_rule_kind(&flxi_ops[n->op], MODE_JVP) == FLX_RULE_ZERO)
        return;
    bool quantised = false;
    for (uint32_t i = 0; i < n->nin; i++)
        quantised |= uses(w, n, i) && flxi_is_int(flxi_type_at(w->g, n->in[i])->dtype);
    for (uint32_t k = 0; k < n->nout; k++) {
        if (!flxi_gives_derivative(&flxi_ops[n->op], flxi_type_at(w->g, n->first + k)->dtype, quantised))
            continue;
        for (uint32_t i = 0; i < n->nin; i++)
            if (uses(w, n, i))
                visit_use(w, &(step){w->g, n, i, k});
        if (w->reached[n->first + k])
            drop_wide(w, n->first + k);
    }
}

static void write_outputs(const walk *w, flxi_pattern *outputs)
{
    for (size_t k = 0; k < w->g->outputs.n; k++) {
        uint32_t id = w->g->outputs.at[k].val;
        outputs[k] = (flxi_pattern){.reached = w->reached[id]};
        for (size_t q = 0; q < w->rank; q++)
            outputs[k].link[q] = links_of(w, id)[q];
    }
}

flx_code flxi_find_patterns(const flx_graph *g, uint32_t leaf, flxi_pattern *outputs, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t ids = (size_t)g->value_count + 1;
    walk w = {.g = g, .leaf = flxi_type_at(g, leaf), .rank = (size_t)flxi_type_at(g, leaf)->rank};
    w.reached = flxi_alloc(mem, ids, sizeof *w.reached);
    w.links = flxi_alloc(mem, ids * w.rank, sizeof *w.links);
    flx_code code = w.reached && w.links ? FLX_OK : flxi_oom(err, "a Jacobian");
    if (code == FLX_OK) {
        w.reached[leaf] = true;
        for (size_t q = 0; q < w.rank; q++)
            links_of(&w, leaf)[q].axis = (int)q;
        drop_wide(&w, leaf);
        for (uint32_t i = 0; i < g->node_count; i++)
            visit(&w, flxi_node_at(g, i));
        write_outputs(&w, outputs);
    }
    flxi_free(mem, w.reached, ids, sizeof *w.reached);
    flxi_free(mem, w.links, ids * w.rank, sizeof *w.links);
    return code;
}
