/* SPDX-License-Identifier: Apache-2.0 */
/* block_parts.c: masks that exclude the same columns for many rows, such as those of causal attention. Then the rows
   are divided into a few parts, and each part has only the columns that its mask leaves.

   Which columns of a part are excluded follows from the bounds of the mask (block_ranges.c). They may be left out if
   nothing that leaves the set depends on them. For that every value of the set has a kind there: products with zeros
   are zero, exponentials of very low numbers are zero, sums are the same without zeros, and maxima without very low
   numbers as long as each row has something else, which a second mask or an added bias could make as low. The rules
   hold for finite data, and for products of data that stay above such low numbers: what a mask excludes counts as zero
   even if it is multiplied by an infinity. */
#include "passes/blocks/block_rows.h"

#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

#include <math.h>

/* A score up to this is that of an excluded column: its exponential is zero beside that of any other score. */
static const double very_low = -1e9;

/* Parts compute at most this share of all columns; otherwise they are not worth their number. */
static const double most_share = 0.8;

/* What the elements of a value are in the excluded columns of a part. */
typedef enum {
    LEFT_OUT_DATA, /* finite numbers, if the data is finite */
    LEFT_OUT_ZERO,
    LEFT_OUT_LOW,      /* finite, but very low */
    LEFT_OUT_INFINITE, /* minus infinity */
    LEFT_OUT_BAD       /* perhaps not finite */
} left_out;

static bool is_low(left_out kind)
{
    return kind == LEFT_OUT_LOW || kind == LEFT_OUT_INFINITE;
}

/* Conditions may be integers, of which only 0 is false. */
static bool is_true(flxi_block_range c)
{
    return c.lo > 0 || c.hi < 0;
}

static bool is_false(flxi_block_range c)
{
    return c.lo == 0 && c.hi == 0;
}

typedef struct {
    flxi_block_set *s;
    flxi_block_set columns; /* the same set with the axis of columns as the one that is followed */
    const flxi_block_part *part;
    left_out *kinds; /* by value */
} analysis;

static const flxi_node *member(const flxi_block_set *s, uint32_t i)
{
    return flxi_node_at(s->g, s->nodes[i]);
}

static bool is_inside(const flxi_block_set *s, uint32_t value)
{
    return s->position[flxi_value_at(s->g, value)->node] != 0;
}

/* ---- Excluded columns ---- */

/* The columns before and after those of the part. */
static flxi_block_part excluded(const analysis *a, bool after)
{
    flxi_block_part p = *a->part;
    int64_t end = p.column + p.columns;
    p.columns = after ? a->s->columns - end : p.column;
    p.column = after ? end : 0;
    return p;
}

/* Bounds of a condition over all excluded columns. */
static flxi_block_range excluded_range(const analysis *a, uint32_t value)
{
    flxi_block_range r = {INFINITY, -INFINITY};
    for (int after = 0; after < 2; after++) {
        flxi_block_part box = excluded(a, after);
        if (!box.columns)
            continue;
        flxi_block_range x = flxi_block_range_of(a->s, value, &box);
        r.lo = fmin(r.lo, x.lo);
        r.hi = fmax(r.hi, x.hi);
    }
    return r;
}

static left_out number_kind(const flx_tensor *t)
{
    if (flxi_is_complex(t->type.dtype))
        return LEFT_OUT_BAD;
    double x = flxi_load_double(t->type.dtype, t->data, 0);
    if (x == 0)
        return LEFT_OUT_ZERO;
    if (isfinite(x))
        return x <= very_low ? LEFT_OUT_LOW : LEFT_OUT_DATA;
    return x < 0 ? LEFT_OUT_INFINITE : LEFT_OUT_BAD;
}

static bool is_movement(const flxi_node *n)
{
    return n->op == OP_reshape || n->op == OP_squeeze || n->op == OP_unsqueeze || n->op == OP_transpose ||
           n->op == OP_expand || n->op == OP_broadcast_in_dim;
}

/* The number that all elements are; NULL: it is not known. */
static const flx_tensor *number_of(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_of(g, value);
    while (is_movement(n)) {
        value = n->in[0];
        n = flxi_node_of(g, value);
    }
    if (n->op == OP_full)
        return flxi_node_tensor(n, "value");
    return flxi_is_const(n) && flxi_type_at(g, value)->rank == 0 ? flxi_const_data(n) : NULL;
}

/* An alternative of a `where`. */
static left_out alternative_kind(const analysis *a, uint32_t value)
{
    const flx_tensor *number = number_of(a->s->g, value);
    if (number)
        return number_kind(number);
    return is_inside(a->s, value) ? a->kinds[value] : LEFT_OUT_DATA;
}

/* Any other operand: a low number there is as low in the columns that stay. */
static left_out kind_of(const analysis *a, uint32_t value)
{
    left_out kind = alternative_kind(a, value);
    return is_low(kind) && number_of(a->s->g, value) ? LEFT_OUT_BAD : kind;
}

/* Whether a value is far above low numbers, if products of data are: nothing in it is a low number, a second mask or a
   bias from outside. Factors may come from outside. */
static bool stays_high(const analysis *a, uint32_t value, bool is_factor)
{
    const flx_tensor *number = number_of(a->s->g, value);
    const flxi_node *n = flxi_node_of(a->s->g, value);
    if (number)
        return number_kind(number) == LEFT_OUT_DATA || number_kind(number) == LEFT_OUT_ZERO;
    if (!is_inside(a->s, value))
        return is_factor;
    if (flxi_is_contraction(n) || n->op == OP_iota)
        return true;
    bool are_factors = n->op == OP_mul || n->op == OP_div || (is_factor && is_movement(n));
    for (uint32_t k = n->op == OP_where; k < n->nin; k++)
        if (!stays_high(a, n->in[k], are_factors))
            return false;
    return true;
}

static left_out joined(left_out x, left_out y)
{
    if (x == y)
        return x;
    bool is_finite = (x == LEFT_OUT_DATA || x == LEFT_OUT_ZERO) && (y == LEFT_OUT_DATA || y == LEFT_OUT_ZERO);
    return is_finite ? LEFT_OUT_DATA : LEFT_OUT_BAD;
}

static left_out where_kind(const analysis *a, const flxi_node *n)
{
    flxi_block_range c = excluded_range(a, n->in[0]);
    left_out x = alternative_kind(a, n->in[1]), y = alternative_kind(a, n->in[2]);
    return is_true(c) ? x : is_false(c) ? y : joined(x, y);
}

static left_out sum_kind(left_out x, left_out y)
{
    if (x == LEFT_OUT_ZERO || y == LEFT_OUT_ZERO)
        return x == LEFT_OUT_ZERO ? y : x;
    if (y == LEFT_OUT_DATA)
        return x;
    return x == LEFT_OUT_DATA ? y : LEFT_OUT_BAD;
}

static left_out difference_kind(left_out x, left_out y)
{
    return is_low(y) ? LEFT_OUT_BAD : sum_kind(x, y);
}

static left_out product_kind(left_out x, left_out y)
{
    if (x >= LEFT_OUT_LOW || y >= LEFT_OUT_LOW)
        return LEFT_OUT_BAD;
    return x == LEFT_OUT_ZERO || y == LEFT_OUT_ZERO ? LEFT_OUT_ZERO : LEFT_OUT_DATA;
}

static left_out quotient_kind(left_out x, left_out y)
{
    return y != LEFT_OUT_DATA || x >= LEFT_OUT_LOW ? LEFT_OUT_BAD : x;
}

/* Other ops: finite numbers of finite ones; what they do with zeros and low numbers is not known. */
static left_out other_kind(const analysis *a, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (kind_of(a, n->in[k]) != LEFT_OUT_DATA)
            return LEFT_OUT_BAD;
    return LEFT_OUT_DATA;
}

static left_out cast_kind(const analysis *a, const flxi_node *n)
{
    if (flxi_type_at(a->s->g, n->in[0])->dtype != FLX_BOOL)
        return kind_of(a, n->in[0]);
    return excluded_range(a, n->in[0]).hi == 0 ? LEFT_OUT_ZERO : LEFT_OUT_DATA;
}

static left_out node_kind(const analysis *a, const flxi_node *n)
{
    left_out x = n->nin > 0 ? kind_of(a, n->in[0]) : LEFT_OUT_DATA;
    left_out y = n->nin > 1 ? kind_of(a, n->in[1]) : LEFT_OUT_DATA;
    if (flxi_type_at(a->s->g, n->first)->dtype == FLX_BOOL || n->op == OP_iota)
        return LEFT_OUT_DATA;
    if (is_movement(n))
        return x;
    switch (n->op) {
    case OP_slice:
    case OP_narrow:
    case OP_stop_gradient:
    case OP_reduce_sum: return x;
    case OP_cast: return cast_kind(a, n);
    case OP_where: return where_kind(a, n);
    case OP_add: return sum_kind(x, y);
    case OP_sub: return difference_kind(x, y);
    case OP_mul:
    case OP_matmul:
    case OP_dot_general: return product_kind(x, y);
    case OP_div: return quotient_kind(x, y);
    case OP_neg:
    case OP_square: return is_low(x) ? LEFT_OUT_BAD : x;
    case OP_exp:
    case OP_exp2: return is_low(x) ? LEFT_OUT_ZERO : x == LEFT_OUT_BAD ? x : LEFT_OUT_DATA;
    case OP_max: return x == y ? x : x == LEFT_OUT_BAD || y == LEFT_OUT_BAD ? LEFT_OUT_BAD : LEFT_OUT_DATA;
    default: return other_kind(a, n);
    }
}

/* ---- Whether excluded columns may be left out ---- */

/* The operand's axis of columns, where this node reads it. */
static int operand_column(const analysis *a, const flxi_node *n, uint32_t k)
{
    return flxi_block_operand_axis(&a->columns, n, k);
}

/* A node that combines columns gives the same result without the excluded ones. */
static bool combines_well(const analysis *a, const flxi_node *n)
{
    int other;
    left_out x = kind_of(a, n->in[0]);
    if (n->op == OP_reduce_max)
        return is_low(x);
    if (n->op == OP_reduce_sum)
        return x == LEFT_OUT_ZERO;
    if (!flxi_is_contraction(n) || product_kind(x, kind_of(a, n->in[1])) != LEFT_OUT_ZERO)
        return false;
    int l = operand_column(a, n, 0), r = operand_column(a, n, 1);
    return l >= 0 && r >= 0 && flxi_block_sums(a->s->g, n, 0, l, &other) && other == r;
}

/* Whether each row between two has a column whose condition differs from `excludes`, as far as bounds show. */
static bool rows_have_others(const analysis *a, uint32_t condition, bool excludes, flxi_block_part box)
{
    flxi_block_range r = flxi_block_range_of(a->s, condition, &box);
    if (excludes ? is_false(r) : is_true(r))
        return true;
    if (r.lo == r.hi || box.columns == 1)
        return false;
    flxi_block_part left = box, right = box;
    left.columns = box.columns / 2;
    right.column += left.columns;
    right.columns -= left.columns;
    return rows_have_others(a, condition, excludes, left) || rows_have_others(a, condition, excludes, right);
}

/* A maximum is that of the other columns only if every row has one, which is higher. */
static bool leaves_something(const analysis *a, const flxi_node *n)
{
    left_out kind = a->kinds[n->first];
    bool is_first_low = is_low(alternative_kind(a, n->in[1]));
    if (!is_low(kind) || a->s->column[n->first] < 0)
        return true;
    if (is_first_low == is_low(alternative_kind(a, n->in[2])))
        return false;
    if (kind == LEFT_OUT_LOW && !stays_high(a, n->in[is_first_low ? 2 : 1], false))
        return false;
    for (int64_t r = 0; r < a->part->rows; r++) {
        flxi_block_part row = *a->part;
        row.row += r;
        row.rows = 1;
        if (!rows_have_others(a, n->in[0], is_first_low, row))
            return false;
    }
    return true;
}

/* A sum is low only where it has a masked term. */
static bool sum_stays_high(const analysis *a, const flxi_node *n)
{
    if (a->kinds[n->first] != LEFT_OUT_LOW)
        return true;
    return stays_high(a, n->in[kind_of(a, n->in[0]) == LEFT_OUT_LOW ? 1 : 0], false);
}

static bool combines_columns(const analysis *a, const flxi_node *n)
{
    for (uint32_t k = 0; a->s->column[n->first] < 0 && k < n->nin; k++)
        if (operand_column(a, n, k) >= 0)
            return true;
    return false;
}

static bool can_leave_out(analysis *a)
{
    const flxi_block_set *s = a->s;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flxi_node *n = member(s, i);
        a->kinds[n->first] = node_kind(a, n);
        if (s->column[n->first] >= 0 && s->column[n->first] == s->axis[n->first])
            return false;
        if (n->op == OP_where && !leaves_something(a, n))
            return false;
        if (n->op == OP_add && !sum_stays_high(a, n))
            return false;
        if (!combines_columns(a, n))
            continue;
        if (!combines_well(a, n))
            return false;
        a->kinds[n->first] = LEFT_OUT_DATA;
    }
    for (uint32_t i = 0; i < s->num_results; i++)
        if (s->column[s->results[i]] >= 0 && a->kinds[s->results[i]] != LEFT_OUT_ZERO)
            return false;
    return true;
}

/* ---- Parts ---- */

/* Which alternative of a `where` is a number that has no effect in a column: 1, 2, or 0 for none. */
static uint32_t idle_alternative(const flx_graph *g, const flxi_node *n)
{
    const flx_tensor *x = number_of(g, n->in[1]), *y = number_of(g, n->in[2]);
    for (left_out kind = LEFT_OUT_INFINITE; kind >= LEFT_OUT_ZERO; kind--) {
        if (x && number_kind(x) == kind)
            return 1;
        if (y && number_kind(y) == kind)
            return 2;
    }
    return 0;
}

/* A `where` whose condition excludes columns; *excludes: when it is true. */
static const flxi_node *find_mask(const analysis *a, bool *excludes)
{
    for (uint32_t i = 0; i < a->s->num_nodes; i++) {
        const flxi_node *n = member(a->s, i);
        if (n->op != OP_where || a->s->axis[n->first] < 0 || a->s->column[n->first] < 0)
            continue;
        uint32_t idle = idle_alternative(a->s->g, n);
        *excludes = idle == 1;
        if (idle)
            return n;
    }
    return NULL;
}

static bool is_excluded(const analysis *a, const flxi_node *mask, bool excludes, flxi_block_part box)
{
    flxi_block_range r = flxi_block_range_of(a->s, mask->in[0], &box);
    return excludes ? is_true(r) : is_false(r);
}

/* Leaves out columns at both ends, in whole steps. */
static void narrow_part(const analysis *a, const flxi_node *mask, bool excludes, flxi_block_part *p)
{
    const int64_t step = a->s->limits->part_columns;
    flxi_block_part box = *p;
    int64_t first = 0, end = a->s->columns;
    for (box.columns = step; first + step < end; first += step) {
        box.column = first;
        if (!is_excluded(a, mask, excludes, box))
            break;
    }
    while (end - first > step) {
        box.column = (end - 1) / step * step;
        box.columns = end - box.column;
        if (!is_excluded(a, mask, excludes, box))
            break;
        end = box.column;
    }
    p->column = first;
    p->columns = end - first;
}

/* Rows of a part; 0: there are too few rows for parts. */
static int64_t part_rows(const flxi_block_set *s)
{
    const flxi_block_limits *l = s->limits;
    int64_t rows = (s->extent + l->most_parts - 1) / l->most_parts;
    rows = rows < l->part_rows ? l->part_rows : rows;
    return s->extent >= 2 * rows ? rows : 0;
}

static bool divide(analysis *a, flxi_block_part *parts, uint32_t *count)
{
    flxi_block_set *s = a->s;
    bool excludes = false;
    const flxi_node *mask = find_mask(a, &excludes);
    int64_t rows = part_rows(s);
    double area = 0;
    *count = 0;
    if (!mask || !rows)
        return false;
    for (int64_t from = 0; from < s->extent; from += rows) {
        flxi_block_part *p = &parts[(*count)++];
        *p = (flxi_block_part){from, s->extent - from < rows ? s->extent - from : rows, 0, s->columns};
        narrow_part(a, mask, excludes, p);
        area += (double)p->rows * (double)p->columns;
    }
    if (area > most_share * (double)s->extent * (double)s->columns)
        return false;
    for (uint32_t i = 0; i < *count; i++) {
        a->part = &parts[i];
        if (parts[i].columns < s->columns && !can_leave_out(a))
            return false;
    }
    return true;
}

static bool try_axis(analysis *a, uint32_t seed, int axis, flxi_block_part *parts)
{
    flxi_block_set *s = a->s;
    s->columns = flxi_type_at(s->g, seed)->dims[axis];
    a->columns = *s;
    a->columns.axis = s->column;
    return flxi_block_follow(&a->columns, seed, axis, s->columns) && divide(a, parts, &s->num_parts);
}

flx_code flxi_block_find_parts(flxi_block_set *s, uint32_t seed)
{
    analysis a = {.s = s};
    const flx_type *t = flxi_type_at(s->g, seed);
    a.kinds = flxi_new(s->arena, left_out, s->g->value_count + 1);
    s->parts = flxi_new(s->arena, flxi_block_part, s->limits->most_parts + 1);
    if (!a.kinds || !s->parts)
        return flxi_oom(s->err, "a pass");
    for (int axis = 0; axis < t->rank; axis++)
        if (axis != s->axis[seed] && t->dims[axis] > s->limits->part_columns && try_axis(&a, seed, axis, s->parts))
            return FLX_OK;
    s->num_parts = 0;
    return FLX_OK;
}
