/* SPDX-License-Identifier: Apache-2.0 */
/* block_ranges.c: between which numbers the elements of a value are, over a box of rows and columns of a set. Masks are
   made of positions by few ops, so the ends of the box say whether a mask excludes all of it, nothing, or a part. What
   depends on data has no bounds. */
#include "passes/blocks/block_rows.h"

#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

#include <math.h>

/* Masks have few nodes: after that many the bounds are not looked for. */
enum { MOST_NODES = 256 };
/* Positions up to this many are exact in every dtype of at least 32 bits. */
static const double most = 1 << 24;

typedef struct {
    const flxi_block_set *s;
    const flxi_block_part *box;
    int left; /* nodes that may still be looked at */
} query;

static const flxi_block_range anything = {-INFINITY, INFINITY}, either = {0, 1};

static flxi_block_range number_range(const flx_tensor *t)
{
    double x = flxi_is_complex(t->type.dtype) ? NAN : flxi_load_double(t->type.dtype, t->data, 0);
    return isnan(x) ? anything : (flxi_block_range){x, x};
}

/* Positions along an axis of which the box has `count` of `extent`, from `from` on. */
static flxi_block_range positions(int64_t length, int64_t extent, int64_t from, int64_t count)
{
    int64_t each = length / extent;
    return (flxi_block_range){(double)(from * each), (double)((from + count) * each - 1)};
}

static flxi_block_range iota_range(const flxi_block_set *s, const flxi_node *n, const flxi_block_part *box)
{
    int axis = (int)flxi_node_int(n, "axis");
    int64_t length = flxi_type_at(s->g, n->first)->dims[axis];
    if (axis == s->axis[n->first])
        return positions(length, s->extent, box->row, box->rows);
    if (axis == s->column[n->first])
        return positions(length, s->columns, box->column, box->columns);
    return positions(length, length, 0, length);
}

static flxi_block_range truth(bool never, bool always)
{
    return (flxi_block_range){always, !never};
}

static flxi_block_range compared(flxi_opcode op, flxi_block_range a, flxi_block_range b)
{
    switch (op) {
    case OP_lt: return truth(a.lo >= b.hi, a.hi < b.lo);
    case OP_le: return truth(a.lo > b.hi, a.hi <= b.lo);
    case OP_gt: return truth(a.hi <= b.lo, a.lo > b.hi);
    case OP_ge: return truth(a.hi < b.lo, a.lo >= b.hi);
    case OP_eq: return truth(a.hi < b.lo || a.lo > b.hi, a.lo == a.hi && b.lo == b.hi && a.lo == b.lo);
    default: return truth(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.hi < b.lo || a.lo > b.hi);
    }
}

static flxi_block_range hull(flxi_block_range a, flxi_block_range b)
{
    return (flxi_block_range){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

static flxi_block_range chosen(flxi_block_range c, flxi_block_range a, flxi_block_range b)
{
    bool is_true = c.lo > 0 || c.hi < 0, is_false = c.lo == 0 && c.hi == 0;
    return is_true ? a : is_false ? b : hull(a, b);
}

static flxi_block_range product(flxi_block_range a, flxi_block_range b)
{
    double x = a.lo * b.lo, y = a.lo * b.hi, z = a.hi * b.lo, w = a.hi * b.hi;
    if (isnan(x) || isnan(y) || isnan(z) || isnan(w))
        return anything;
    return (flxi_block_range){fmin(fmin(x, y), fmin(z, w)), fmax(fmax(x, y), fmax(z, w))};
}

static flxi_block_range cast_range(int32_t from, int32_t to, flxi_block_range x)
{
    if (to == FLX_BOOL)
        return truth(x.lo == 0 && x.hi == 0, x.lo > 0 || x.hi < 0);
    return flxi_is_float(from) && !flxi_is_float(to) ? anything : x;
}

static flxi_block_range range_of(query *q, uint32_t value);

static flxi_block_range computed(query *q, const flxi_node *n)
{
    flxi_block_range x[3];
    int32_t dtype = flxi_type_at(q->s->g, n->first)->dtype;
    bool is_bitwise = dtype != FLX_BOOL && (n->op == OP_and || n->op == OP_or || n->op == OP_not);
    if (n->nin < 1 || n->nin > 3 || is_bitwise)
        return anything;
    for (uint32_t k = 0; k < n->nin; k++)
        x[k] = range_of(q, n->in[k]);
    switch (n->op) {
    case OP_reshape:
    case OP_squeeze:
    case OP_unsqueeze:
    case OP_transpose:
    case OP_expand:
    case OP_broadcast_in_dim: return x[0];
    case OP_cast: return cast_range(flxi_type_at(q->s->g, n->in[0])->dtype, dtype, x[0]);
    case OP_add: return (flxi_block_range){x[0].lo + x[1].lo, x[0].hi + x[1].hi};
    case OP_sub: return (flxi_block_range){x[0].lo - x[1].hi, x[0].hi - x[1].lo};
    case OP_neg: return (flxi_block_range){-x[0].hi, -x[0].lo};
    case OP_mul: return product(x[0], x[1]);
    case OP_max: return (flxi_block_range){fmax(x[0].lo, x[1].lo), fmax(x[0].hi, x[1].hi)};
    case OP_min: return (flxi_block_range){fmin(x[0].lo, x[1].lo), fmin(x[0].hi, x[1].hi)};
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_eq:
    case OP_ne: return compared(n->op, x[0], x[1]);
    case OP_and: return truth(x[0].hi == 0 || x[1].hi == 0, x[0].lo == 1 && x[1].lo == 1);
    case OP_or: return truth(x[0].hi == 0 && x[1].hi == 0, x[0].lo == 1 || x[1].lo == 1);
    case OP_not: return truth(x[0].lo == 1, x[0].hi == 0);
    case OP_where: return chosen(x[0], x[1], x[2]);
    default: return anything;
    }
}

/* Numbers that the dtype holds exactly; unsigned ones do not wrap around. */
static flxi_block_range bounded(const flx_type *t, flxi_block_range r)
{
    if (t->dtype == FLX_BOOL)
        return r.lo >= 0 && r.hi <= 1 ? r : either;
    bool is_small = r.lo >= (flxi_in(FLXI_UNSIGNED, t->dtype) ? 0 : -most) && r.hi <= most;
    return is_small && flx_dtype_size((flx_dtype)t->dtype) >= 4 ? r : anything;
}

static flxi_block_range range_of(query *q, uint32_t value)
{
    const flx_graph *g = q->s->g;
    uint32_t i = flxi_value_at(g, value)->node;
    const flxi_node *n = flxi_node_at(g, i);
    const flx_type *t = flxi_type_at(g, value);
    flxi_block_range r = anything;
    if (n->op == OP_full)
        r = number_range(flxi_node_tensor(n, "value"));
    else if (flxi_is_const(n) && t->rank == 0)
        r = number_range(flxi_const_data(n));
    else if (q->left-- > 0 && q->s->position[i])
        r = n->op == OP_iota ? iota_range(q->s, n, q->box) : computed(q, n);
    return bounded(t, r);
}

flxi_block_range flxi_block_range_of(const flxi_block_set *s, uint32_t value, const flxi_block_part *box)
{
    query q = {s, box, MOST_NODES};
    return range_of(&q, value);
}
