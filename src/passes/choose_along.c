/* SPDX-License-Identifier: Apache-2.0 */
/* choose_along.c: elements chosen along an axis, as in the loss of a classifier. What is computed of all elements only
   to choose one from each row is computed of that one: take_along moves through pointwise ops to what is in memory
   anyway. A sum of where(position == label, f, 0) has at most one term that is not zero, which is chosen as well. Both
   have the same bits as before, but for the sign of a zero. */
#include "graph/op/attr_access.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "ops/rule/oob.h"
#include "passes/pass.h"

#include <fluxion/ops.h>

enum {
    MOST_NODES = 24,   /* that are computed again */
    MOST_TAKEN = 3,    /* values in memory that elements are chosen from */
    LEAST_EXTENT = 32, /* of the axis, for each element that is chosen of it */
};

/* Elements at `idx` along an axis of values of the type x. */
typedef struct {
    flxi_copy *c;
    const flx_type *x;
    int axis;
    flx_val idx; /* in the new graph */
    int64_t oob;
    int num_nodes, num_taken;
} choice;

/* ---- What can be chosen ---- */

/* Whether the value broadcasts along the axis: it is the same for all elements. */
static bool is_shared(const choice *h, const flx_type *t)
{
    int axis = h->axis - (h->x->rank - t->rank);
    return axis < 0 || t->dims[axis] == 1;
}

static bool has_shape(const flx_type *x, const flx_type *t)
{
    return t->rank == x->rank && memcmp(t->dims, x->dims, (size_t)t->rank * sizeof *t->dims) == 0;
}

/* A copy of a smaller value that does not vary along the axis. */
static bool is_spread(const choice *h, const flxi_node *n)
{
    if (n->op == OP_expand)
        return is_shared(h, flxi_type_at(h->c->from, n->in[0]));
    if (n->op != OP_broadcast_in_dim)
        return false;
    const flx_type *t = flxi_type_at(h->c->from, n->in[0]);
    const flx_ints *axes = flxi_node_ints(n, "axes");
    for (size_t k = 0; k < axes->n; k++)
        if (axes->v[k] == h->axis && t->dims[k] != 1)
            return false;
    return true;
}

/* Values that some op had to store, or could have. */
static bool is_in_memory(const flxi_node *n)
{
    flxi_class class = flxi_ops[n->op].op_class;
    return class != CLASS_SHAPE && class != CLASS_POINTWISE && class != CLASS_IDENTITY && n->op != OP_iota &&
           n->op != OP_full && !flxi_is_const(n);
}

static bool is_pointwise(const flxi_node *n)
{
    return flxi_ops[n->op].op_class == CLASS_POINTWISE && n->nout == 1 && n->nin > 0;
}

static bool can_choose(choice *h, uint32_t value)
{
    const flx_graph *g = h->c->from;
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
    if (is_shared(h, flxi_type_at(g, value)))
        return true;
    if (!has_shape(h->x, flxi_type_at(g, value)) || ++h->num_nodes > MOST_NODES)
        return false;
    if (is_spread(h, n))
        return true;
    if (!is_pointwise(n))
        return is_in_memory(n) && ++h->num_taken <= MOST_TAKEN;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!can_choose(h, n->in[k]))
            return false;
    return true;
}

/* ---- Choosing ---- */

static flx_val mapped(const choice *h, uint32_t value)
{
    return (flx_val){h->c->remap.id[value], h->c->to->serial};
}

/* The same op on the chosen elements of its operands; 0: the graph has an error. */
static uint32_t choose(const choice *h, uint32_t value)
{
    enum { MOST_OPERANDS = 8 };
    const flx_graph *g = h->c->from;
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
    uint32_t in[MOST_OPERANDS];
    void *attrs = NULL;
    flx_error err = {0};
    if (is_shared(h, flxi_type_at(g, value)))
        return mapped(h, value).id;
    if (is_spread(h, n))
        return flx_narrow(h->c->to, mapped(h, value), h->axis, 0, 1).id;
    if (!is_pointwise(n))
        return flx_take_along(h->c->to, mapped(h, value), h->idx, h->axis, flxi_oob_word(h->oob)).id;
    for (uint32_t k = 0; k < n->nin && k < MOST_OPERANDS; k++)
        if (!(in[k] = choose(h, n->in[k])))
            return 0;
    if (n->nin > MOST_OPERANDS)
        return flxi_graph_failf(h->c->to, FLX_E_INTERNAL, NULL, "an op has many operands"), 0;
    if (flxi_attrs_clone(h->c->to, &flxi_ops[n->op], n->attrs, &h->c->attrs, &attrs, &err) != FLX_OK)
        return flxi_graph_fail(h->c->to, &err), 0;
    return flxi_add_node(h->c->to, n->op, in, n->nin, attrs);
}

/* 0 where the index is not one of the axis. */
static flx_val only_inside(const choice *h, flx_val y)
{
    flx_graph *g = h->c->to;
    flxi_site s = flxi_plain_site(g);
    flx_val is_from = flx_ge(g, h->idx, flxi_number(&s, h->idx, 0));
    flx_val is_below = flx_lt(g, h->idx, flxi_number(&s, h->idx, (double)h->x->dims[h->axis]));
    return flxi_masked(&s, flx_and(g, is_from, is_below), y);
}

static flx_code replace(choice *h, const flxi_node *n, flx_val y, bool *done)
{
    const flx_type *t = flxi_type_at(h->c->from, n->first);
    flxi_site s = flxi_plain_site(h->c->to);
    y = flxi_reshape_to(&s, y, t->rank, t->dims);
    FLXI_TRY(flxi_built(h->c->to, h->c->err));
    flxi_copy_replace(h->c, n->first, y.id);
    *done = true;
    return FLX_OK;
}

/* ---- take_along ---- */

/* What is a result is in memory anyway. */
static bool is_output(const flx_graph *g, uint32_t value)
{
    for (size_t k = 0; k < flx_graph_output_count(g); k++)
        if (flx_graph_output(g, k).id == value)
            return true;
    return false;
}

static bool is_worth(const flx_type *x, const flx_type *idx, int axis)
{
    int64_t count = 0;
    return flxi_static_count(x, &count) && flxi_static_count(idx, &count) && idx->dims[axis] > 0 &&
           x->dims[axis] / LEAST_EXTENT >= idx->dims[axis];
}

static flx_code choose_taken(flxi_copy *c, const flxi_node *n, bool *done)
{
    const flx_type *x = flxi_type_at(c->from, n->in[0]);
    choice h = {.c = c, .x = x, .axis = (int)flxi_node_int(n, "axis"), .oob = flxi_node_int(n, "oob")};
    const flxi_node *from = flxi_node_at(c->from, flxi_value_at(c->from, n->in[0])->node);
    if (!is_pointwise(from) || is_output(c->from, n->in[0]) || !is_worth(x, flxi_type_at(c->from, n->in[1]), h.axis) ||
        !can_choose(&h, n->in[0]) || !h.num_taken)
        return FLX_OK;
    h.idx = mapped(&h, n->in[1]);
    flx_val y = {choose(&h, n->in[0]), c->to->serial};
    return replace(&h, n, h.oob == OOB_ZERO ? only_inside(&h, y) : y, done);
}

/* ---- Sums with one term ---- */

static bool is_zero(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_at(g, flxi_value_at(g, value)->node);
    const flx_tensor *t = n->op == OP_full   ? flxi_node_tensor(n, "value")
                          : flxi_is_const(n) ? flxi_const_data(n)
                                             : NULL;
    if (!t || t->count != 1)
        return false;
    for (size_t i = 0; i < t->nbytes; i++)
        if (((const char *)t->data)[i])
            return false;
    return true;
}

/* Whether the value is the position along the axis. */
static bool is_position(const choice *h, uint32_t value)
{
    const flxi_node *n = flxi_node_at(h->c->from, flxi_value_at(h->c->from, value)->node);
    const flx_type *t = flxi_type_at(h->c->from, value);
    int axis = h->axis - (h->x->rank - t->rank);
    return n->op == OP_iota && axis >= 0 && flxi_node_int(n, "axis") == axis && t->dims[axis] == h->x->dims[h->axis];
}

/* Of shape x, but with one element along the axis, and of a dtype that take_along takes on every device. */
static bool is_label(const choice *h, uint32_t value)
{
    const flx_type *t = flxi_type_at(h->c->from, value);
    flx_type one = *h->x;
    one.dims[h->axis] = 1;
    return has_shape(&one, t) && (t->dtype == FLX_I32 || t->dtype == FLX_I64);
}

/* The label of where(position == label, f, 0); 0: it is something else. */
static uint32_t find_label(const choice *h, const flxi_node *where)
{
    const flx_graph *g = h->c->from;
    if (where->op != OP_where || !is_zero(g, where->in[2]))
        return 0;
    const flxi_node *hit = flxi_node_at(g, flxi_value_at(g, where->in[0])->node);
    for (int k = 0; hit->op == OP_eq && k < 2; k++)
        if (is_position(h, hit->in[k]) && is_label(h, hit->in[1 - k]))
            return hit->in[1 - k];
    return 0;
}

static flx_code choose_term(flxi_copy *c, const flxi_node *n, bool *done)
{
    const flx_ints *axes = flxi_node_ints(n, "axes");
    const flx_type *x = flxi_type_at(c->from, n->in[0]);
    if (axes->n != 1 || x->dtype != flxi_type_at(c->from, n->first)->dtype)
        return FLX_OK;
    choice h = {.c = c, .x = x, .axis = (int)axes->v[0], .oob = OOB_ZERO};
    const flxi_node *where = flxi_node_at(c->from, flxi_value_at(c->from, n->in[0])->node);
    uint32_t label = find_label(&h, where);
    if (!label || !is_worth(x, flxi_type_at(c->from, label), h.axis) || !can_choose(&h, where->in[1]))
        return FLX_OK;
    h.idx = mapped(&h, label);
    return replace(&h, n, only_inside(&h, (flx_val){choose(&h, where->in[1]), c->to->serial}), done);
}

flx_code flxi_pass_choose_along(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        bool done = false;
        if (n->op == OP_take_along)
            code = choose_taken(&c, n, &done);
        else if (n->op == OP_reduce_sum)
            code = choose_term(&c, n, &done);
        if (code == FLX_OK && !done)
            code = flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
