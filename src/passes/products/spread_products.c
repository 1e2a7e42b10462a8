/* SPDX-License-Identifier: Apache-2.0 */
/* spread_products.c: small products, for which a call and packing would take longer than the arithmetic, as sums of
   products. A product of matrices becomes mul of both operands, stretched over the axes they lack, and a reduce_sum:
   views and a fold, which join the work around them in one kernel. A product that sums over a single element needs no
   sum, whatever its size; where it is used only transposed, it is computed that way. One that sums over no axis at all
   has no sum to start from +0 and keeps the sign of zeros: it becomes a mul wherever it is compiled. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* With more multiplications than this the products of the backend are faster; the limit is lower if lanes must gather
   what they read. */
static const int64_t most_products = FLXI_MOST_SPREAD, most_gathered = 512;
/* A batch of products of so few multiplications each is spread, whatever their number: to begin one costs more. */
static const int64_t most_each = 64, most_summed = 8;
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

static bool is_batch_of_tiny(const side *l, const side *r)
{
    int64_t sum = extent_of(l, &l->summed), rows = extent_of(l, &l->own), columns = extent_of(r, &r->own);
    return extent_of(l, &l->batch) > 1 && sum <= most_summed && rows <= most_each && columns <= most_each &&
           sum * rows * columns <= most_each;
}

/* The sides of a product whose extents are numbers, and how many results and terms it has; there is one at least. */
static bool has_extents(const flx_graph *g, const flxi_node *n, side *l, side *r, int64_t *results, int64_t *terms)
{
    int64_t elements[2];
    if ((n->op != OP_matmul && n->op != OP_dot_general) || flxi_value_at(g, n->first)->pinned ||
        !flxi_static_count(flxi_type_at(g, n->first), results) ||
        !flxi_static_count(flxi_type_at(g, n->in[0]), &elements[0]) ||
        !flxi_static_count(flxi_type_at(g, n->in[1]), &elements[1]) || !find_sides(g, n, l, r))
        return false;
    *terms = extent_of(l, &l->summed);
    return l->batch.n + l->own.n + r->own.n + l->summed.n <= FLX_MAX_RANK && *results > 0 && *terms > 0;
}

/* f16 and bf16 stay products: their partial sums must not be rounded. */
static bool is_spread(const flx_graph *g, const flxi_node *n, side *l, side *r)
{
    int64_t results, terms;
    int32_t dtype = flxi_type_at(g, n->first)->dtype;
    if ((dtype != FLX_F32 && dtype != FLX_F64) || !has_extents(g, n, l, r, &results, &terms))
        return false;
    return terms == 1 || is_batch_of_tiny(l, r) || results <= (has_columns(r) ? most_products : most_gathered) / terms;
}

/* No axis is summed over: each result is one product. */
static bool is_unsummed(const flx_graph *g, const flxi_node *n, side *l, side *r)
{
    int64_t results, terms;
    int32_t dtype = flxi_type_at(g, n->first)->dtype;
    return (flxi_is_float(dtype) || flxi_is_complex(dtype)) && has_extents(g, n, l, r, &results, &terms) &&
           l->summed.n == 0;
}

/* An operand over the axes of the product: its axis k becomes to[k]. */
static flx_val stretched(flxi_copy *c, const side *s, const flx_type *space, const int64_t *to)
{
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

/* Where the axes of an operand are in the product: those of each list begin at a number. */
static void place_axes(const side *s, int batch, int summed, int own, int64_t *to)
{
    for (int k = 0; k < s->batch.n; k++)
        to[s->batch.axes[k]] = batch + k;
    for (int k = 0; k < s->summed.n; k++)
        to[s->summed.axes[k]] = summed + k;
    for (int k = 0; k < s->own.n; k++)
        to[s->own.axes[k]] = own + k;
}

static int append(flx_type *space, const side *s, const axis_list *l)
{
    int first = space->rank;
    for (int k = 0; k < l->n; k++)
        space->dims[space->rank++] = s->type->dims[l->axes[k]];
    return first;
}

/* A sum of one term. The axes of the product are those of the result, in the order of `perm` (NULL: as they are), then
   those that have one element. */
static flx_val spread_one(flxi_copy *c, const side *l, const side *r, const flx_type *t, const flx_ints *perm)
{
    flx_type space = *t;
    int64_t left[FLX_MAX_RANK], right[FLX_MAX_RANK], at[FLX_MAX_RANK];
    for (int k = 0; k < t->rank; k++)
        at[perm ? perm->v[k] : k] = k;
    for (int k = 0; k < l->summed.n; k++) {
        at[space.rank] = space.rank;
        space.dims[space.rank++] = 1;
    }
    place_axes(l, 0, t->rank, l->batch.n, left);
    place_axes(r, 0, t->rank, l->batch.n + l->own.n, right);
    for (int k = 0; k < l->type->rank; k++)
        left[k] = at[left[k]];
    for (int k = 0; k < r->type->rank; k++)
        right[k] = at[right[k]];
    flx_val y = flx_mul(c->to, stretched(c, l, &space, left), stretched(c, r, &space, right));
    return flx_reshape(c->to, y, (flx_ints){t->dims, (size_t)t->rank});
}

/* The summed axes come before the right operand's own, so that these run along the lanes, or last if they are few. */
static flx_val spread_sum(flxi_copy *c, const side *l, const side *r)
{
    flx_type space = {.dtype = l->type->dtype};
    bool is_wide = has_columns(r);
    int batch = append(&space, l, &l->batch), left = append(&space, l, &l->own);
    int summed = is_wide ? append(&space, l, &l->summed) : 0;
    int right = append(&space, r, &r->own);
    summed = is_wide ? summed : append(&space, l, &l->summed);
    int64_t of_left[FLX_MAX_RANK], of_right[FLX_MAX_RANK], axes[FLX_MAX_RANK];
    place_axes(l, batch, summed, left, of_left);
    place_axes(r, batch, summed, right, of_right);
    flx_val y = flx_mul(c->to, stretched(c, l, &space, of_left), stretched(c, r, &space, of_right));
    for (int k = 0; k < l->summed.n; k++)
        axes[k] = summed + k;
    return flx_reduce_sum(c->to, y, (flx_ints){axes, (size_t)l->summed.n}, 0);
}

/* ---- The pass ---- */

typedef struct {
    flxi_copy c;
    uint32_t *uses;      /* by value */
    bool *is_transposed; /* by value: by some use */
} spreading;

static const flxi_node *producer(const flx_graph *g, uint32_t value)
{
    return flxi_node_of(g, value);
}

/* Whether the node is a product of single terms that only a transpose reads. */
static bool is_only_transposed(const spreading *s, const flxi_node *n, const side *l)
{
    return extent_of(l, &l->summed) == 1 && s->uses[n->first] == 1 && s->is_transposed[n->first];
}

/* A sum of products starts from +0, which a sum and a single term do not: -0 becomes +0. */
static flx_code replace(spreading *s, const flxi_node *n, const side *l, flx_val y)
{
    int32_t dtype = flxi_type_at(s->c.from, n->first)->dtype;
    if (l->summed.n && (flxi_is_float(dtype) || flxi_is_complex(dtype)))
        y = flx_add(s->c.to, y, flx_scalar(s->c.to, dtype, 0));
    FLXI_TRY(flx_graph_error(s->c.to, s->c.err));
    flxi_copy_replace(&s->c, n->first, y.id);
    return FLX_OK;
}

static flx_code visit(spreading *s, uint32_t i)
{
    const flx_graph *g = s->c.from;
    const flxi_node *n = flxi_node_at(g, i);
    side l, r;
    if (n->op == OP_transpose) {
        const flxi_node *product = producer(g, n->in[0]);
        if (is_spread(g, product, &l, &r) && is_only_transposed(s, product, &l))
            return replace(s, n, &l, spread_one(&s->c, &l, &r, flxi_type_at(g, n->first), flxi_node_ints(n, "perm")));
        return flxi_copy_node(&s->c, i);
    }
    if (!is_spread(g, n, &l, &r))
        return flxi_copy_node(&s->c, i);
    if (is_only_transposed(s, n, &l))
        return FLX_OK; /* with the transpose */
    bool is_one = extent_of(&l, &l.summed) == 1;
    return replace(s, n, &l,
                   is_one ? spread_one(&s->c, &l, &r, flxi_type_at(g, n->first), NULL) : spread_sum(&s->c, &l, &r));
}

static void look_at_uses(spreading *s, const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++) {
            s->uses[n->in[k]]++;
            s->is_transposed[n->in[k]] |= n->op == OP_transpose && !flxi_value_at(g, n->first)->pinned;
        }
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        s->uses[g->outputs.at[k].val]++;
}

flx_code flxi_pass_spread_products(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    spreading s = {0};
    const flxi_allocator *mem = &in->ctx->mem;
    size_t n = (size_t)in->value_count + 1;
    flx_code code = flxi_copy_begin(&s.c, in, err);
    s.uses = flxi_alloc(mem, n, sizeof *s.uses);
    s.is_transposed = flxi_alloc(mem, n, sizeof *s.is_transposed);
    if (code == FLX_OK && (!s.uses || !s.is_transposed))
        code = flxi_oom(err, "a pass");
    if (code == FLX_OK)
        look_at_uses(&s, in);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = visit(&s, i);
    if (s.uses)
        flxi_free(mem, s.uses, n, sizeof *s.uses);
    if (s.is_transposed)
        flxi_free(mem, s.is_transposed, n, sizeof *s.is_transposed);
    return flxi_copy_end(&s.c, code, out, remap);
}

flx_code flxi_pass_multiply_unsummed(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    spreading s = {0};
    flx_code code = flxi_copy_begin(&s.c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        side l, r;
        code = is_unsummed(in, n, &l, &r)
                   ? replace(&s, n, &l, spread_one(&s.c, &l, &r, flxi_type_at(in, n->first), NULL))
                   : flxi_copy_node(&s.c, i);
    }
    return flxi_copy_end(&s.c, code, out, remap);
}
