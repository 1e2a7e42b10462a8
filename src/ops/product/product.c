/* SPDX-License-Identifier: Apache-2.0 */
/* product.c: matmul, dot_general and products made of them. Both are contractions of two operands; the rules here say
   which axes of the result and of the sum each operand moves along. */
#include "base/host/stop.h"
#include "graph/op/site.h"
#include "graph/op/work.h"
#include "ops/product/contraction.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

#include <stdio.h>

/* ---- matmul ---- */

/* The batch axes of a matrix operand, as a type of their own. */
static flx_type batch_of(const flx_type *t)
{
    flx_type batch = {.dtype = t->dtype};
    flxi_append_dims(&batch, t, 0, t->rank - 2);
    return batch;
}

static flx_code fail_inner(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    const flx_type *b = f->in[1];
    flxi_type_text ta, tb;
    bool transposed = flxi_dims_may_equal(f, a->dims[a->rank - 1], b->dims[b->rank - 1]);
    char hint[120];
    char first[40], second[40];
    flxi_operand_label(f, 0, first, sizeof first);
    flxi_operand_label(f, 1, second, sizeof second);
    if (transposed && b->rank == 2)
        snprintf(hint, sizeof hint, "matmul(%.30s, transpose(%.30s, perm=[1, 0]))", first, second);
    else
        snprintf(hint, sizeof hint, "the last axis of %.28s and the second to last of %.28s are summed over", first,
                 second);
    return flxi_infer_fail(f, FLX_E_SHAPE, hint, "inner dimensions differ: a is %s, b is %s",
                           flxi_shape_str(f->ctx, a, &ta), flxi_shape_str(f->ctx, b, &tb));
}

/* matmul takes matrices. A product with a vector, or with a number, is another op. */
static flx_code fail_rank(flxi_infer *f)
{
    const flx_type *a = f->in[0], *b = f->in[1], *small = a->rank < 2 ? a : b;
    char hint[120], first[40], second[40];
    flxi_type_text text;
    int along = b->rank > 1 ? b->rank - 2 : 0; /* of b; of a the last axis */
    bool fits = a->rank && b->rank && flxi_dims_may_equal(f, a->dims[a->rank - 1], b->dims[along]);
    flxi_operand_label(f, 0, first, sizeof first);
    flxi_operand_label(f, 1, second, sizeof second);
    if (a->rank == 0 || b->rank == 0)
        snprintf(hint, sizeof hint, "mul(%.30s, %.30s)", first, second);
    else
        snprintf(hint, sizeof hint, "dot_general(%.30s, %.30s, lc=[%d], rc=[%d])", first, second, a->rank - 1, along);
    return flxi_infer_fail(f, FLX_E_SHAPE, fits || !a->rank || !b->rank ? hint : NULL,
                           "%s must have rank 2 or more, but it is %s", small == a ? "a" : "b",
                           flxi_type_str(f->ctx, small, &text));
}

static flx_code infer_matmul(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    const flx_type *b = f->in[1];
    if (a->rank < 2 || b->rank < 2)
        return fail_rank(f);
    if (!flxi_dims_may_equal(f, a->dims[a->rank - 1], b->dims[b->rank - 2]))
        return fail_inner(f);
    flx_type batch_a = batch_of(a);
    flx_type batch_b = batch_of(b);
    flx_type y = {.dtype = a->dtype};
    FLXI_TRY(flxi_broadcast(f, (const flx_type *const[]){&batch_a, &batch_b}, 2, &y));
    flxi_append_dims(&y, a, a->rank - 2, a->rank - 1);
    flxi_append_dims(&y, b, b->rank - 1, b->rank);
    f->out[0] = y;
    return FLX_OK;
}

/* How a matrix operand moves with the batch axes of the result; its other axes stay 0. */
static flxi_factor matrix_factor(const flx_tensor *x, const flx_type *batch)
{
    flxi_factor m = {.data = x->data};
    flx_type own = batch_of(&x->type);
    int64_t matrix = x->type.dims[x->type.rank - 2] * x->type.dims[x->type.rank - 1];
    flxi_broadcast_strides(&own, batch, m.along_result);
    for (int k = 0; k < batch->rank; k++)
        m.along_result[k] *= matrix;
    return m;
}

static flx_code eval_matmul(flxi_eval *e)
{
    if (e->out[0]->count == 0)
        return FLX_OK; /* the other extents may be too large to multiply */
    const flx_type *a = &e->in[0]->type;
    const flx_type *b = &e->in[1]->type;
    flx_type batch = batch_of(&e->out[0]->type);
    int64_t k = a->dims[a->rank - 1];
    int64_t n = b->dims[b->rank - 1];
    flxi_factor factors[2] = {matrix_factor(e->in[0], &batch), matrix_factor(e->in[1], &batch)};
    factors[0].along_result[batch.rank] = k;
    factors[0].along_sum[0] = 1;
    factors[1].along_result[batch.rank + 1] = 1;
    factors[1].along_sum[0] = n;
    flxi_contraction c = {.factors = 2, .num_sums = 1, .sum_dims = {k}};
    flxi_contract(&c, factors, e->out[0]);
    return FLX_OK;
}

static const flxi_sample samples_matmul[] = {
    {"T[3, 4], T[4, 2]", NULL, NULL, FLX_OK},
    {"T[1, 1], T[1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 2]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[2, 4, 2]", NULL, NULL, FLX_OK},
    {"T[2, 1, 3, 2], T[3, 2, 1]", NULL, NULL, FLX_OK},
    {"T[3, 0], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[0, 3, 4], T[4, 2]", NULL, NULL, FLX_OK},
    {"T[0, 4294967296, 4294967296], T[4294967296, 0]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, N], T[N, 2]", NULL, NULL, FLX_OK},
    {"T[2, N], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, N]", NULL, NULL, FLX_OK},
    {"T[N, 2, 3], T[1, 3, 2]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[4], T[4, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[3, 4, 2]", NULL, NULL, FLX_E_SHAPE},
    {"f32[3, 4], f64[4, 2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* The last two axes exchanged, and conjugated: a^H. */
static flx_val adjoint(flxi_site *s, flx_val a)
{
    int rank = flxi_typeof(s, a)->rank;
    return flxi_conj(s, flxi_move_axis(s, a, rank - 1, rank - 2));
}

/* All rows of all matrices as one matrix. */
static flx_val stacked_rows(flxi_site *s, flx_val a)
{
    const flx_type *t = flxi_typeof(s, a);
    flx_dim rows = 1;
    for (int k = 0; k < t->rank - 1; k++)
        rows = flx_dim_mul(s->ctx, rows, t->dims[k]);
    return flxi_reshape_to(s, a, 2, (flx_dim[]){rows, t->dims[t->rank - 1]});
}

/* g b^H summed over the matrices of a batch, without computing one product for each. */
static flx_val summed_product(flxi_site *s, flx_val dy, flx_val b)
{
    int64_t axes[FLX_MAX_RANK];
    size_t n = 0;
    int rank = flxi_typeof(s, b)->rank;
    for (int k = 0; k < rank; k++)
        if (k != rank - 2)
            axes[n++] = k;
    return flx_dot_general(s->g, dy, flxi_conj(s, b), (flx_ints){axes, n}, (flx_ints){axes, n}, FLX_ALL, FLX_ALL);
}

/* v with exactly the extents of a matrix operand; its batch axes are unchanged. */
static flx_val as_matrices_of(flxi_site *s, flx_val v, flx_val x)
{
    flx_type t = *flxi_typeof(s, v);
    const flx_type *m = flxi_typeof(s, x);
    for (int k = 1; k <= 2 && k <= t.rank; k++) /* no rank: the graph has an error */
        t.dims[t.rank - k] = m->dims[m->rank - k];
    return flxi_reshape_like(s, v, &t);
}

/* d_a = g b^H and d_b = a^H g; the caller sums over a batch that was stretched. For one matrix shared by a whole batch,
   a single product sums over the batch. */
static void vjp_matmul(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val a = s->x[0];
    flx_val b = s->x[1];
    int rank_a = flxi_typeof(s, a)->rank;
    int rank_b = flxi_typeof(s, b)->rank;
    if (s->wanted[0]) {
        dx[0] = rank_a == 2 && rank_b > 2 ? summed_product(s, dy[0], b) : flx_matmul(s->g, dy[0], adjoint(s, b));
        dx[0] = as_matrices_of(s, dx[0], a);
    }
    if (s->wanted[1]) {
        dx[1] = rank_b == 2 && rank_a > 2 ? flx_matmul(s->g, adjoint(s, stacked_rows(s, a)), stacked_rows(s, dy[0]))
                                          : flx_matmul(s->g, adjoint(s, a), dy[0]);
        dx[1] = as_matrices_of(s, dx[1], b);
    }
}

/* Batch axes broadcast from the right, so a batched operand is padded to the larger per-example rank. */
static void batch_matmul(flxi_site *s, flx_val *by)
{
    int a = flxi_example_rank(s, 0);
    int b = flxi_example_rank(s, 1);
    int rank = a > b ? a : b;
    flx_val x[2] = {flxi_align(s, s->x[0], s->batched[0], rank), flxi_align(s, s->x[1], s->batched[1], rank)};
    flxi_append(s, NULL, x, 2, by);
}

static void work_matmul(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    const flx_type *a = flxi_type_at(g, n->in[0]);
    const flx_type *y = flxi_type_at(g, n->first);
    w->flops = flxi_work_pairs(y, flxi_times(flxi_work_count(y), flxi_work_extent(a->dims[a->rank - 1])));
}

static bool link_matmul(const flxi_use *u, flxi_link *l)
{
    int rank = flxi_link_operand(u)->rank;
    int summed = u->operand == 0 ? rank - 1 : rank - 2;
    if (rank < 2 || rank > flxi_link_result(u)->rank || l->axis == summed)
        return false;
    return flxi_link_aligned(u, l);
}

/* Vectors stay whole. */
static int summed_by_matmul(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    int rank = flxi_type_at(g, n->in[operand])->rank;
    bool has_vector = flxi_type_at(g, n->in[0])->rank < 2 || flxi_type_at(g, n->in[1])->rank < 2;
    return !has_vector && axis == (operand == 0 ? rank - 1 : rank - 2) ? 0 : -1;
}

static const struct flxi_shard shard_matmul = {.combine = "sum", .summed = summed_by_matmul};

const flxi_rules flxi_rules_matmul = {
    .infer = infer_matmul,
    .eval = eval_matmul,
    .vjp = vjp_matmul,
    .batch = batch_matmul,
    .samples = samples_matmul,
    .work = work_matmul,
    .link = link_matmul,
    .shard = &shard_matmul,
};

/* ---- dot_general ---- */

typedef struct {
    flx_ints lc, rc, lb, rb;
} dot_attrs;

static const flxi_attr dot_schema[] = {
    A_INTS(dot_attrs, lc, "[]"),
    A_INTS(dot_attrs, rc, "[]"),
    A_INTS(dot_attrs, lb, "[]"),
    A_INTS(dot_attrs, rb, "[]"),
    A_END,
};

/* Paired axes have the same extent. */
static flx_code check_pairs(flxi_infer *f, const char *names, flx_ints l, flx_ints r)
{
    for (size_t i = 0; i < l.n; i++) {
        flxi_type_text tl, tr;
        if (!flxi_dims_may_equal(f, f->in[0]->dims[l.v[i]], f->in[1]->dims[r.v[i]]))
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                                   "%s pair axis %lld of l with axis %lld of r, but l is %s, r is %s", names,
                                   (long long)l.v[i], (long long)r.v[i], flxi_shape_str(f->ctx, f->in[0], &tl),
                                   flxi_shape_str(f->ctx, f->in[1], &tr));
    }
    return FLX_OK;
}

static flx_code check_dot_axes(flxi_infer *f, dot_attrs *a)
{
    int l_rank = f->in[0]->rank;
    int r_rank = f->in[1]->rank;
    FLXI_TRY(flxi_norm_axes_or_none(f, "lc", &a->lc, l_rank));
    FLXI_TRY(flxi_norm_axes_or_none(f, "rc", &a->rc, r_rank));
    FLXI_TRY(flxi_norm_axes_or_none(f, "lb", &a->lb, l_rank));
    FLXI_TRY(flxi_norm_axes_or_none(f, "rb", &a->rb, r_rank));
    FLXI_TRY(flxi_need_paired(f, "lc", a->lc, "rc", a->rc));
    FLXI_TRY(flxi_need_paired(f, "lb", a->lb, "rb", a->rb));
    FLXI_TRY(flxi_need_disjoint(f, "lc", a->lc, "lb", a->lb));
    FLXI_TRY(flxi_need_disjoint(f, "rc", a->rc, "rb", a->rb));
    FLXI_TRY(check_pairs(f, "lc and rc", a->lc, a->rc));
    return check_pairs(f, "lb and rb", a->lb, a->rb);
}

/* The free axes of an operand, ascending; returns how many. */
static int free_axes(int rank, flx_ints contracted, flx_ints batch, int axes[FLX_MAX_RANK])
{
    int n = 0;
    for (int k = 0; k < rank; k++)
        if (!flxi_has_axis(contracted, k) && !flxi_has_axis(batch, k))
            axes[n++] = k;
    return n;
}

static flx_code infer_dot_general(flxi_infer *f)
{
    dot_attrs *a = f->attrs;
    const flx_type *l = f->in[0];
    const flx_type *r = f->in[1];
    FLXI_TRY(check_dot_axes(f, a));
    int l_free[FLX_MAX_RANK], r_free[FLX_MAX_RANK];
    int nl = free_axes(l->rank, a->lc, a->lb, l_free);
    int nr = free_axes(r->rank, a->rc, a->rb, r_free);
    FLXI_TRY(flxi_need_result_rank(f, a->lb.n + (size_t)(nl + nr)));
    flx_type y = {.dtype = l->dtype};
    for (size_t i = 0; i < a->lb.n; i++)
        y.dims[y.rank++] = flxi_agreed_dim(l->dims[a->lb.v[i]], r->dims[a->rb.v[i]]);
    for (int i = 0; i < nl; i++)
        y.dims[y.rank++] = l->dims[l_free[i]];
    for (int i = 0; i < nr; i++)
        y.dims[y.rank++] = r->dims[r_free[i]];
    f->out[0] = y;
    return FLX_OK;
}

/* One operand's strides over [batch, free …]: its free axes begin at axis *next of the result. */
static flxi_factor dot_factor(const flx_tensor *x, flx_ints contracted, flx_ints batch, int *next)
{
    flxi_factor d = {.data = x->data};
    int64_t strides[FLX_MAX_RANK];
    int axes[FLX_MAX_RANK];
    flxi_strides(&x->type, strides);
    for (size_t i = 0; i < batch.n; i++)
        d.along_result[i] = strides[batch.v[i]];
    for (size_t i = 0; i < contracted.n; i++)
        d.along_sum[i] = strides[contracted.v[i]];
    int n = free_axes(x->type.rank, contracted, batch, axes);
    for (int i = 0; i < n; i++)
        d.along_result[(*next)++] = strides[axes[i]];
    return d;
}

static flx_code eval_dot_general(flxi_eval *e)
{
    const dot_attrs *a = e->attrs;
    int next = (int)a->lb.n;
    flxi_factor factors[2];
    factors[0] = dot_factor(e->in[0], a->lc, a->lb, &next);
    factors[1] = dot_factor(e->in[1], a->rc, a->rb, &next);
    flxi_contraction c = {.factors = 2, .num_sums = (int)a->lc.n};
    for (size_t i = 0; i < a->lc.n; i++)
        c.sum_dims[i] = e->in[0]->type.dims[a->lc.v[i]];
    flxi_contract(&c, factors, e->out[0]);
    return FLX_OK;
}

static const flxi_sample samples_dot_general[] = {
    {"T[3, 4], T[4, 2]", "lc=[1], rc=[0]", NULL, FLX_OK},
    {"T[3], T[2]", NULL, NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[], T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 5, 3]", "lc=[1, 2], rc=[2, 0]", NULL, FLX_OK},
    {"T[2, 3, 4], T[2, 3, 4]", "lc=[0, 1, 2], rc=[0, 1, 2]", NULL, FLX_OK},
    {"T[2, 3, 4], T[3, 4, 2]", "lc=[-1], rc=[-2], lb=[0, 1], rb=[2, 0]", NULL, FLX_OK},
    {"T[3, 2], T[5, 2, 3]", "lb=[1, 0], rb=[1, 2]", NULL, FLX_OK},
    {"T[3, 0], T[0, 2]", "lc=[1], rc=[0]", NULL, FLX_OK},
    {"T[0, 3], T[3, 2]", "lc=[1], rc=[0]", NULL, FLX_OK},
    {"T[N, 3], T[N, 2]", "lc=[0], rc=[0]", NULL, FLX_OK},
    {"T[N, 3], T[N, 2]", "lb=[0], rb=[0]", NULL, FLX_OK},
    {"T[N, 2, 4], T[4, 3, 2]", "lb=[0], rb=[1], lc=[2, 1], rc=[0, 2]", NULL, FLX_OK},
    {"T[3, 4], T[3, 2]", "lc=[1], rc=[0]", NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 2]", "lb=[0], rb=[0]", NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 2]", "lc=[1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[4, 2]", "rb=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 3], T[3, 3]", "lc=[1], rc=[0], lb=[1], rb=[1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 3], T[3, 3]", "lc=[1, 1], rc=[0, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[4, 2]", "lc=[2], rc=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 1, 1, 1, 1, 1, 1, 1, 1], T[1, 1, 1, 1, 1, 1, 1, 1]", NULL, NULL, FLX_E_SIZE},
    {"f32[3], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* One side of a product as its derivative sees it. */
typedef struct {
    flx_val x;
    flx_ints contracted, batch;
    int free[FLX_MAX_RANK], num_free;
} dot_side;

static dot_side side_of(flxi_site *s, uint32_t i)
{
    const dot_attrs *a = s->attrs;
    dot_side d = {.x = s->x[i], .contracted = i ? a->rc : a->lc, .batch = i ? a->rb : a->lb};
    d.num_free = free_axes(flxi_typeof(s, d.x)->rank, d.contracted, d.batch, d.free);
    return d;
}

/* The cotangent of `to`: that of the result contracted with `other` along other's free axes, which begin at axis `at`
   of the result. What comes out is [batch, to's free axes, other's contracted axes ascending]; each goes to its
   position in `to`. */
static flx_val dot_cotangent(flxi_site *s, flx_val dy, const dot_side *to, const dot_side *other, int at)
{
    int64_t block[FLX_MAX_RANK];
    int64_t free[FLX_MAX_RANK];
    int64_t leading[FLX_MAX_RANK];
    int64_t perm[FLX_MAX_RANK];
    size_t num_free = (size_t)other->num_free;
    int64_t next = 0;
    for (size_t i = 0; i < num_free; i++) {
        block[i] = at + (int64_t)i;
        free[i] = other->free[i];
    }
    for (size_t i = 0; i < to->batch.n; i++) {
        leading[i] = (int64_t)i;
        perm[to->batch.v[i]] = next++;
    }
    flx_val raw = flx_dot_general(s->g, dy, flxi_conj(s, other->x), (flx_ints){block, num_free},
                                  (flx_ints){free, num_free}, (flx_ints){leading, to->batch.n}, other->batch);
    for (int i = 0; i < to->num_free; i++)
        perm[to->free[i]] = next++;
    int other_rank = flxi_typeof(s, other->x)->rank;
    for (int k = 0; k < other_rank; k++)
        for (size_t i = 0; i < other->contracted.n; i++)
            if (other->contracted.v[i] == k)
                perm[to->contracted.v[i]] = next++;
    flx_val v = flx_transpose(s->g, raw, (flx_ints){perm, (size_t)next});
    return flxi_reshape_like(s, v, flxi_typeof(s, to->x));
}

static void vjp_dot_general(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dot_side l = side_of(s, 0);
    dot_side r = side_of(s, 1);
    int batch = (int)l.batch.n;
    if (s->wanted[0])
        dx[0] = dot_cotangent(s, dy[0], &l, &r, batch + l.num_free);
    if (s->wanted[1])
        dx[1] = dot_cotangent(s, dy[0], &r, &l, batch);
}

/* Both batched: one more pair of batch axes. One alone: its batch axis is its first free axis. */
static void batch_dot_general(flxi_site *s, flx_val *by)
{
    dot_attrs *a = flxi_site_attrs(s);
    bool both = s->batched[0] && s->batched[1];
    if (!a)
        return;
    int at = (int)a->lb.n + (s->batched[0] ? 0 : side_of(s, 0).num_free); /* of the batch axis in the result */
    if (s->batched[0]) {
        flxi_shift_axes(s, &a->lc);
        flxi_shift_axes(s, &a->lb);
    }
    if (s->batched[1]) {
        flxi_shift_axes(s, &a->rc);
        flxi_shift_axes(s, &a->rb);
    }
    if (both) {
        a->lb = flxi_list_behind(s, 0, a->lb, 0);
        a->rb = flxi_list_behind(s, 0, a->rb, 0);
    }
    by[0] = flxi_move_axis(s, flxi_emit1(s, a, s->x, 2), both ? 0 : at, 0);
}

/* An operand with its axes in groups: [batch, first, second], each flattened to one; `batch` is the extent of the
   first, in which both operands agree. */
static flx_val grouped(flxi_site *s, const dot_side *d, flx_dim batch, bool contracted_last)
{
    const flx_type *t = flxi_typeof(s, d->x);
    int64_t perm[FLX_MAX_RANK];
    flx_dim dims[3] = {batch, 1, 1};
    size_t n = 0;
    for (size_t i = 0; i < d->batch.n; i++)
        perm[n++] = d->batch.v[i];
    for (int group = 1; group < 3; group++) {
        bool contracted = (group == 2) == contracted_last;
        size_t count = contracted ? d->contracted.n : (size_t)d->num_free;
        for (size_t i = 0; i < count; i++)
            perm[n++] = contracted ? d->contracted.v[i] : d->free[i];
    }
    size_t first = contracted_last ? (size_t)d->num_free : d->contracted.n;
    for (size_t i = d->batch.n; i < n; i++) {
        flx_dim *m = &dims[i < d->batch.n + first ? 1 : 2];
        *m = flx_dim_mul(s->ctx, *m, t->dims[perm[i]]);
    }
    return flxi_reshape_to(s, flx_transpose(s->g, d->x, (flx_ints){perm, n}), 3, dims);
}

static void decompose_dot_general(flxi_site *s, flx_val *y)
{
    dot_side l = side_of(s, 0);
    dot_side r = side_of(s, 1);
    const flx_type *tl = flxi_typeof(s, l.x);
    const flx_type *tr = flxi_typeof(s, r.x);
    flx_dim dims[FLX_MAX_RANK];
    flx_dim batch = 1;
    int rank = 0;
    for (size_t i = 0; i < l.batch.n; i++) {
        dims[rank] = flxi_agreed_dim(tl->dims[l.batch.v[i]], tr->dims[r.batch.v[i]]);
        batch = flx_dim_mul(s->ctx, batch, dims[rank++]);
    }
    for (int i = 0; i < l.num_free; i++)
        dims[rank++] = tl->dims[l.free[i]];
    for (int i = 0; i < r.num_free; i++)
        dims[rank++] = tr->dims[r.free[i]];
    flx_val left = grouped(s, &l, batch, true), right = grouped(s, &r, batch, false);
    bool is_summed = l.contracted.n > 0; /* a sum starts from +0, a product alone keeps its sign */
    flx_val product = is_summed ? flx_matmul(s->g, left, right) : flx_mul(s->g, left, right);
    y[0] = flxi_reshape_to(s, product, rank, dims);
}

static void work_dot_general(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    const dot_attrs *a = n->attrs;
    const flx_type *l = flxi_type_at(g, n->in[0]);
    int64_t pairs = flxi_work_count(flxi_type_at(g, n->first));
    for (size_t k = 0; k < a->lc.n; k++)
        pairs = flxi_times(pairs, flxi_work_extent(l->dims[a->lc.v[k]]));
    w->flops = flxi_work_pairs(flxi_type_at(g, n->first), pairs);
}

/* The result has the paired axes first, then the free ones of l, then those of r. */
static bool link_dot_general(const flxi_use *u, flxi_link *l)
{
    const dot_attrs *a = u->n->attrs;
    const flx_ints *paired = u->operand == 0 ? &a->lb : &a->rb;
    const flx_ints *summed = u->operand == 0 ? &a->lc : &a->rc;
    int at = flxi_link_find(paired, l->axis);
    if (at >= 0)
        return flxi_link_move(u, l, at);
    if (flxi_link_find(summed, l->axis) >= 0)
        return false;
    at = (int)paired->n;
    if (u->operand == 1)
        at += flxi_type_at(u->g, u->n->in[0])->rank - (int)(a->lb.n + a->lc.n);
    for (int k = 0; k < l->axis; k++)
        at += flxi_link_find(paired, k) < 0 && flxi_link_find(summed, k) < 0;
    return flxi_link_move(u, l, at);
}

static int summed_by_dot(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const dot_attrs *a = n->attrs;
    (void)g;
    return flxi_link_find(operand == 0 ? &a->lc : &a->rc, axis);
}

static const struct flxi_shard shard_dot = {.combine = "sum", .summed = summed_by_dot};

const flxi_rules flxi_rules_dot_general = {
    .infer = infer_dot_general,
    .eval = eval_dot_general,
    .vjp = vjp_dot_general,
    .batch = batch_dot_general,
    .decompose = decompose_dot_general,
    .schema = dot_schema,
    .attrs_size = sizeof(dot_attrs),
    .samples = samples_dot_general,
    .work = work_dot_general,
    .link = link_dot_general,
    .shard = &shard_dot,
};

/* ---- widening_dot ---- */

typedef struct {
    dot_attrs dot; /* first: dot_general's own rules read it */
    int64_t to;
} widening_attrs;

#define DOT_ROW(f)                                                                                                    \
    {                                                                                                                 \
        .name = #f, .kind = ATTR_INTS, .offset = offsetof(widening_attrs, dot) + offsetof(dot_attrs, f), .note = "[]" \
    }
static const flxi_attr widening_schema[] = {
    DOT_ROW(lc), DOT_ROW(rc), DOT_ROW(lb), DOT_ROW(rb), A_DTYPE_REQ(widening_attrs, to), A_END,
};

static flx_code infer_widening(flxi_infer *f)
{
    FLXI_TRY(infer_dot_general(f));
    f->out[0].dtype = (int32_t)((const widening_attrs *)f->attrs)->to;
    return FLX_OK;
}

static const flxi_sample samples_widening[] = {
    {"i8[3, 4], i8[4, 2]", "lc=[1], rc=[0], to=i32", NULL, FLX_OK},
    {"u8[2, 7, 5], i8[3, 2, 5]", "lc=[2], rc=[2], lb=[0], rb=[1], to=i32", NULL, FLX_OK},
    {"i16[4, 3], u8[4, 2]", "lc=[0], rc=[0], to=u32", NULL, FLX_OK},
    {"u8[2, 3, 4], u8[4, 5, 3]", "lc=[1, 2], rc=[2, 0], to=i32", NULL, FLX_OK},
    {"bf16[3, 4], f32[4, 2]", "lc=[1], rc=[0], to=f32", NULL, FLX_OK},
    {"f64[3], i32[3]", "lc=[0], rc=[0], to=c64", NULL, FLX_OK},
    {"i8[N, 3], i8[3, 2]", "lc=[1], rc=[0], to=i32", NULL, FLX_OK},
    {"i8[3, 0], i8[0, 2]", "lc=[1], rc=[0], to=i64", NULL, FLX_OK},
    {"i8[3, 4], i8[4, 2]", "lc=[1], rc=[0]", NULL, FLX_E_ATTRIBUTE},
    {"i8[3, 4], i8[3, 2]", "lc=[1], rc=[0], to=i32", NULL, FLX_E_SHAPE},
    {0},
};

static void decompose_widening(flxi_site *s, flx_val *y)
{
    const widening_attrs *a = s->attrs;
    flx_val l = flx_cast(s->g, s->x[0], (flx_dtype)a->to);
    flx_val r = flx_cast(s->g, s->x[1], (flx_dtype)a->to);
    y[0] = flx_dot_general(s->g, l, r, a->dot.lc, a->dot.rc, a->dot.lb, a->dot.rb);
}

const flxi_rules flxi_rules_widening_dot = {
    .infer = infer_widening,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_widening,
    .schema = widening_schema,
    .attrs_size = sizeof(widening_attrs),
    .samples = samples_widening,
    .work = work_dot_general,
};

/* ---- lora_matmul ---- */

typedef struct {
    double scale;
} lora_attrs;

static const flxi_attr lora_schema[] = {A_REAL(lora_attrs, scale, 1.0), A_END};

/* The inner dimensions of x @ w, x @ a and (x @ a) @ b agree, and so do the columns of w and b. */
static flx_code infer_lora(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    const flx_type *w = f->in[1];
    const flx_type *a = f->in[2];
    const flx_type *b = f->in[3];
    flxi_type_text tw, ta, tb;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    if (w->rank != 2 || a->rank != 2 || b->rank != 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "only x may have batch axes", "w, a and b must be matrices: %s, %s, %s",
                               flxi_shape_str(f->ctx, w, &tw), flxi_shape_str(f->ctx, a, &ta),
                               flxi_shape_str(f->ctx, b, &tb));
    flx_dim k = x->dims[x->rank - 1];
    if (!flxi_dims_may_equal(f, k, w->dims[0]) || !flxi_dims_may_equal(f, k, a->dims[0]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "w and a must have as many rows as x has columns: w is %s, a is %s",
                               flxi_shape_str(f->ctx, w, &tw), flxi_shape_str(f->ctx, a, &ta));
    if (!flxi_dims_may_equal(f, a->dims[1], b->dims[0]) || !flxi_dims_may_equal(f, w->dims[1], b->dims[1]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "a @ b must have the shape of w: w is %s, a is %s, b is %s",
                               flxi_shape_str(f->ctx, w, &tw), flxi_shape_str(f->ctx, a, &ta),
                               flxi_shape_str(f->ctx, b, &tb));
    f->out[0] = *x;
    f->out[0].dims[x->rank - 1] = w->dims[1];
    return FLX_OK;
}

/* Σ_k row[k] m[k, j] */
static flxi_num dot_column(const flxi_arith *ar, const flxi_num *row, const flx_tensor *m, int64_t j)
{
    flxi_num sum = ar->zero;
    for (int64_t k = 0; k < m->type.dims[0]; k++)
        sum = ar->accumulate(sum, ar->mul(row[k], ar->load(m->data, k * m->type.dims[1] + j)));
    return sum;
}

static flx_code eval_lora(flxi_eval *e)
{
    const flxi_arith *ar = flxi_arith_of(e->out[0]->type.dtype);
    const flx_tensor *w = e->in[1];
    const flx_tensor *a = e->in[2];
    int64_t depth = a->type.dims[0];
    int64_t rank = a->type.dims[1];
    int64_t columns = w->type.dims[1];
    double scale = ((const lora_attrs *)e->attrs)->scale;
    flxi_num factor = flxi_is_complex(ar->dtype) ? (flxi_num){.c = scale} : (flxi_num){.f = scale};
    size_t room = (size_t)depth + (size_t)rank;
    flxi_num *row = flxi_alloc(e->mem, room, sizeof *row);
    if (!row)
        return flxi_oom(e->err, "lora_matmul");
    flxi_num *low = row + depth;
    for (int64_t i = 0; columns && i < e->out[0]->count / columns && !flxi_stopped(); i++) {
        for (int64_t k = 0; k < depth; k++)
            row[k] = ar->load(e->in[0]->data, i * depth + k);
        for (int64_t r = 0; r < rank; r++)
            low[r] = dot_column(ar, row, a, r);
        for (int64_t j = 0; j < columns && !flxi_stopped_by_now(); j++)
            ar->store(e->out[0]->data, i * columns + j,
                      ar->add(dot_column(ar, row, w, j), ar->mul(factor, dot_column(ar, low, e->in[3], j))));
    }
    flxi_free(e->mem, row, room, sizeof *row);
    return FLX_OK;
}

static const flxi_sample samples_lora[] = {
    {"T[3, 4], T[4, 5], T[4, 2], T[2, 5]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 5], T[4, 1], T[1, 5]", "scale=0.5", NULL, FLX_OK},
    {"T[0, 4], T[4, 5], T[4, 2], T[2, 5]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[4, 5], T[4, 0], T[0, 5]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[4, 5], T[4, 2], T[2, 5]", "scale=-2", NULL, FLX_OK},
    {"T[3, 4], T[3, 5], T[4, 2], T[2, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[4, 2], T[3, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[4, 2], T[2, 6]", NULL, NULL, FLX_E_SHAPE},
    {"T[4], T[4, 5], T[4, 2], T[2, 5]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

static void decompose_lora(flxi_site *s, flx_val *y)
{
    double scale = ((const lora_attrs *)s->attrs)->scale;
    flx_val low = flx_matmul(s->g, flx_matmul(s->g, s->x[0], s->x[2]), s->x[3]);
    if (scale != 1.0)
        low = flx_mul(s->g, low, flxi_number(s, low, scale));
    y[0] = flx_add(s->g, flx_matmul(s->g, s->x[0], s->x[1]), low);
}

const flxi_rules flxi_rules_lora_matmul = {
    .infer = infer_lora,
    .eval = eval_lora,
    .decompose = decompose_lora,
    .schema = lora_schema,
    .attrs_size = sizeof(lora_attrs),
    .samples = samples_lora,
};
