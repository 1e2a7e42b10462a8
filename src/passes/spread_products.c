/* SPDX-License-Identifier: Apache-2.0 */
/* spread_products.c: small products, for which a call and packing would take longer than the arithmetic, as sums of
   products. A product of matrices becomes mul of both operands, stretched over the axes they lack, and a reduce_sum:
   views and a fold, which join the work around them in one kernel. A product that sums over a single element needs no
   sum, whatever its size. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* With more multiplications than this the products of the backend are faster; the limit is lower if lanes must gather
   what they read. */
static const int64_t most_products = FLXI_MOST_SPREAD, most_gathered = 512;
/* At least this many neighbouring results are computed in parallel lanes. */
static const int64_t enough_columns = 16;

typedef struct {
    int axes[FLX_MAX_RANK];
    int n;
} axis_list;

/* Which axes of an operand are shared by both and kept, summed over, or its own. */
typedef struct {
    uint32_t value;
    const flx_type *type;
    axis_list batch, summed, own;
} side;

static int64_t extent_of(const side *s, const axis_list *l)
{
    int64_t n = 1;
    for (int k = 0; k < l->n; k++)
        n *= s->type->dims[l->axes[k]];
    return n;
}

static axis_list listed(const flx_ints *axes)
{
    axis_list l = {.n = (int)axes->n};
    for (int k = 0; k < l.n; k++)
        l.axes[k] = (int)axes->v[k];
    return l;
}

static bool holds(const axis_list *l, int axis)
{
    for (int k = 0; k < l->n; k++)
        if (l->axes[k] == axis)
            return true;
    return false;
}

static side side_of(const flx_graph *g, uint32_t value, axis_list batch, axis_list summed)
{
    side s = {.value = value, .type = flxi_type_at(g, value), .batch = batch, .summed = summed};
    for (int k = 0; k < s.type->rank; k++)
        if (!holds(&batch, k) && !holds(&summed, k))
            s.own.axes[s.own.n++] = k;
    return s;
}

/* matmul as dot_general would have it, if its batch axes are the same on both sides. */
static bool matmul_sides(const flx_graph *g, const flxi_node *n, side *l, side *r)
{
    const flx_type *a = flxi_type_at(g, n->in[0]), *b = flxi_type_at(g, n->in[1]);
    axis_list batch = {.n = a->rank - 2};
    if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)batch.n * sizeof *a->dims) != 0)
        return false;
    for (int k = 0; k < batch.n; k++)
        batch.axes[k] = k;
    *l = side_of(g, n->in[0], batch, (axis_list){{a->rank - 1}, 1});
    *r = side_of(g, n->in[1], batch, (axis_list){{b->rank - 2}, 1});
    return true;
}

static bool find_sides(const flx_graph *g, const flxi_node *n, side *l, side *r)
{
    if (n->op == OP_matmul)
        return matmul_sides(g, n, l, r);
    if (n->op != OP_dot_general)
        return false;
    *l = side_of(g, n->in[0], listed(flxi_node_ints(n, "lb")), listed(flxi_node_ints(n, "lc")));
    *r = side_of(g, n->in[1], listed(flxi_node_ints(n, "rb")), listed(flxi_node_ints(n, "rc")));
    return true;
}

/* Whether neighbours in memory are terms of one sum. */
static bool sums_neighbours(const side *s)
{
    int last = s->type->rank - 1;
    while (last > 0 && s->type->dims[last] == 1)
        last--;
    return holds(&s->summed, last);
}

static bool has_columns(const side *r)
{
    return extent_of(r, &r->own) >= enough_columns && !sums_neighbours(r);
}

/* f16 and bf16 stay products: their partial sums must not be rounded. */
static bool is_spread(const flx_graph *g, const flxi_node *n, side *l, side *r)
{
    if (n->op != OP_matmul && n->op != OP_dot_general)
        return false;
    const flx_type *y = flxi_type_at(g, n->first);
    int64_t results, elements[2];
    if ((y->dtype != FLX_F32 && y->dtype != FLX_F64) || flxi_value_at(g, n->first)->pinned ||
        !flxi_static_count(y, &results) || !flxi_static_count(flxi_type_at(g, n->in[0]), &elements[0]) ||
        !flxi_static_count(flxi_type_at(g, n->in[1]), &elements[1]) || !find_sides(g, n, l, r))
        return false;
    int64_t sum = extent_of(l, &l->summed);
    bool fits = l->batch.n + l->own.n + r->own.n + l->summed.n <= FLX_MAX_RANK;
    return fits && results > 0 &&
           (sum == 1 || (sum > 0 && results <= (has_columns(r) ? most_products : most_gathered) / sum));
}

/* An operand over the axes of the product: first[k] is where the axes of list k begin. */
static flx_val stretched(flxi_copy *c, const side *s, const flx_type *space, int batch, int summed, int own)
{
    int64_t to[FLX_MAX_RANK];
    const struct {
        const axis_list *list;
        int first;
    } parts[] = {{&s->batch, batch}, {&s->summed, summed}, {&s->own, own}};
    for (size_t p = 0; p < 3; p++)
        for (int k = 0; k < parts[p].list->n; k++)
            to[parts[p].list->axes[k]] = parts[p].first + k;
    flx_val x = {c->remap.id[s->value], c->to->serial};
    bool is_sorted = true;
    for (int k = 1; k < s->type->rank; k++)
        is_sorted &= to[k - 1] < to[k];
    if (is_sorted)
        return flx_broadcast_in_dim(c->to, x, (flx_ints){space->dims, (size_t)space->rank},
                                    (flx_ints){to, (size_t)s->type->rank});
    int64_t perm[FLX_MAX_RANK], sorted[FLX_MAX_RANK]; /* broadcast_in_dim needs its axes in order */
    int n = 0;
    for (int a = 0; a < space->rank; a++)
        for (int k = 0; k < s->type->rank; k++)
            if (to[k] == a) {
                perm[n] = k;
                sorted[n++] = a;
            }
    x = flx_transpose(c->to, x, (flx_ints){perm, (size_t)n});
    return flx_broadcast_in_dim(c->to, x, (flx_ints){space->dims, (size_t)space->rank}, (flx_ints){sorted, (size_t)n});
}

static int append(flx_type *space, const side *s, const axis_list *l)
{
    int first = space->rank;
    for (int k = 0; k < l->n; k++)
        space->dims[space->rank++] = s->type->dims[l->axes[k]];
    return first;
}

/* The summed axes come before the right operand's own, so that these run along the lanes, or last if they are few. */
static flx_code spread(flxi_copy *c, const flxi_node *n, const side *l, const side *r)
{
    flx_type space = {.dtype = l->type->dtype};
    bool is_wide = has_columns(r);
    int batch = append(&space, l, &l->batch), left = append(&space, l, &l->own);
    int summed = is_wide ? append(&space, l, &l->summed) : 0;
    int right = append(&space, r, &r->own);
    summed = is_wide ? summed : append(&space, l, &l->summed);
    flx_val y =
        flx_mul(c->to, stretched(c, l, &space, batch, summed, left), stretched(c, r, &space, batch, summed, right));
    int64_t axes[FLX_MAX_RANK];
    for (int k = 0; k < l->summed.n; k++)
        axes[k] = summed + k;
    const flx_type *t = flxi_type_at(c->from, n->first);
    if (extent_of(l, &l->summed) != 1)
        y = flx_reduce_sum(c->to, y, (flx_ints){axes, (size_t)l->summed.n}, 0);
    else
        y = flx_reshape(c->to, y, (flx_ints){t->dims, (size_t)t->rank});
    FLXI_TRY(flx_graph_error(c->to, c->err));
    flxi_copy_replace(c, n->first, y.id);
    return FLX_OK;
}

flx_code flxi_pass_spread_products(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        side l, r;
        code = is_spread(in, n, &l, &r) ? spread(&c, n, &l, &r) : flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
