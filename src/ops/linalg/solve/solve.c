/* SPDX-License-Identifier: Apache-2.0 */
/* solve.c: linear systems solved with LU factors, and the inverse.

   Differentiating a solve factors its matrix once: the forward computation becomes lu and lu_solve, and the reverse
   sweep solves with the adjoint of the same factors. A singular matrix gives infinities and NaNs in its own system and
   the status FLX_RUN_SINGULAR. */
#include "ops/linalg/matrix_work.h"
#include "ops/linalg/solve/linear_system.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

#include <fluxion/run.h>

enum { LEFT = 1 }; /* a x = b: the right-hand sides are columns */

/* ---- Appending ---- */

typedef struct {
    flx_val lu, perm;
} factors;

static factors append_lu(flxi_site *s, flx_val a)
{
    flx_val y[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    flx_lu(s->g, flxi_as_square(s, a), y);
    return (factors){y[0], y[2]};
}

static flx_val append_lu_solve(flxi_site *s, factors f, flx_val b, flxi_trans trans)
{
    return flx_lu_solve(s->g, f.lu, f.perm, b, flxi_trans_word(trans));
}

/* ---- solve ---- */

static flx_code infer_solve(flxi_infer *f)
{
    return flxi_infer_system(f, 0, 1, LEFT, &f->out[0]);
}

static flx_code solve_each(flxi_eval *e, flxi_arena *scratch)
{
    flxi_systems w;
    if (!flxi_systems_begin(&w, e->in[0], e->in[1], e->out[0], LEFT))
        return FLX_OK;
    const flxi_dense *d = flxi_dense_for(w.a.dtype);
    void *a = flxi_arena_alloc(scratch, (size_t)(w.n * w.n), d->size, _Alignof(max_align_t));
    void *b = flxi_arena_alloc(scratch, (size_t)(w.n * w.k), d->size, _Alignof(max_align_t));
    int64_t *pivots = flxi_new(scratch, int64_t, w.n);
    if (!a || !b || !pivots)
        return flxi_oom(e->err, "solving");
    while (flxi_systems_next(&w)) {
        if (!w.same_matrix) {
            flxi_matrix_load(a, &w.a, w.n, w.n);
            d->lu(a, w.n, w.n, pivots);
        }
        flxi_matrix_load(b, &w.b, w.n, w.k);
        if (!flxi_dense_solve(d, a, w.n, pivots, b, w.k))
            e->report(e, FLX_RUN_SINGULAR);
        flxi_matrix_store(&w.y, b, w.n, w.k);
    }
    return FLX_OK;
}

static flx_code eval_solve(flxi_eval *e)
{
    return flxi_eval_with_scratch(e, solve_each);
}

static uint32_t num_factors(flxi_site *s)
{
    (void)s;
    return 2;
}

static void primal_solve(flxi_site *s, flx_val *y, flx_val *saved)
{
    factors f = append_lu(s, s->x[0]);
    y[0] = append_lu_solve(s, f, s->x[1], FLXI_TRANS_NONE);
    saved[0] = f.lu;
    saved[1] = f.perm;
}

/* d_b = a^-H g, d_a = -d_b x^H */
static void vjp_solve(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    bool vector = flxi_is_vector_system(flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    flx_val back = append_lu_solve(s, (factors){s->saved[0], s->saved[1]}, dy[0], FLXI_TRANS_ADJOINT);
    back = s->bodies->restore_zeros(s, back);
    if (s->wanted[1])
        dx[1] = flxi_spelled_like(s, back, s->x[1], vector ? 1 : 2);
    if (!s->wanted[0])
        return;
    flx_val x = flxi_as_sides(s, s->bodies->restore_zeros(s, s->y[0]), vector, LEFT);
    int rank = flxi_typeof(s, s->x[0])->rank;
    flx_val outer = flxi_outer_product(s, flxi_as_sides(s, back, vector, LEFT), x, LEFT, rank);
    dx[0] = flxi_spelled_like(s, flx_neg(s->g, outer), s->x[0], 2);
}

/* a x' = b' - a' x */
static void jvp_solve(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    bool vector = flxi_is_vector_system(flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    factors f = append_lu(s, s->x[0]);
    flx_val x = append_lu_solve(s, f, s->x[1], FLXI_TRANS_NONE);
    flx_val moved = tx[1];
    s->new_y[0] = x;
    if (!flxi_is_none(tx[0])) {
        flx_val ax = flx_matmul(s->g, tx[0], flxi_as_sides(s, x, vector, LEFT));
        flx_val back = flx_neg(s->g, flxi_as_vectors(s, ax, vector, LEFT));
        moved = flxi_sum(s, tx[1], flxi_spelled_like(s, back, x, vector ? 1 : 2));
    }
    ty[0] = flxi_expand_like(s, append_lu_solve(s, f, moved, FLXI_TRANS_NONE), flxi_typeof(s, x));
}

static void batch_solve(flxi_site *s, flx_val *by)
{
    flxi_batch_system(s, LEFT, by);
}

/* A multiple of the identity is added so that the matrices are well conditioned. */
static const flxi_sample samples_solve[] = {
    {"T[3, 3]{-1..1+3I}, T[3]", NULL, NULL, FLX_OK},
    {"T[3, 3]{-1..1+3I}, T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}, T[2, 2]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}, T[2, 2, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 2, 1]", NULL, NULL, FLX_OK},
    {"T[2, 1, 2, 2]{-1..1+3I}, T[1, 3, 2]", NULL, NULL, FLX_OK},
    {"T[1, 1]{1..2}, T[1]", NULL, NULL, FLX_OK},
    {"T[0, 0], T[0]", NULL, NULL, FLX_OK},
    {"T[0, 0], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[N, N]{-1..1+3I}, T[N]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}, T[B, N, K]", NULL, NULL, FLX_OK},
    {"T[N, 3]{-1..1+3I}, T[3, 2]", NULL, NULL, FLX_OK},
    {"T[3, 2], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 3], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 3], T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 3], T[4, 3, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 3], T[]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_solve = {
    .infer = infer_solve,
    .eval = eval_solve,
    .primal = primal_solve,
    .num_saved = num_factors,
    .vjp = vjp_solve,
    .jvp = jvp_solve,
    .batch = batch_solve,
    .samples = samples_solve,
    .work = flxi_work_solve,
    .link = flxi_link_system,
};

/* ---- dense_solve, batched_dense_solve: solve with the ranks fixed ---- */

static flx_code need_matrix_rank(flxi_infer *f, int rank, const char *shape)
{
    flxi_type_text t;
    if (f->in[0]->rank != rank)
        return flxi_infer_fail(f, FLX_E_SHAPE, "solve takes any number of leading axes", "a must be %s: it is %s",
                               shape, flxi_shape_str(f->ctx, f->in[0], &t));
    if (f->in[1]->rank > rank)
        return flxi_infer_fail(f, FLX_E_SHAPE, "solve takes any number of leading axes",
                               "b must have no more axes than a: it is %s", flxi_shape_str(f->ctx, f->in[1], &t));
    return infer_solve(f);
}

static flx_code infer_dense_solve(flxi_infer *f)
{
    return need_matrix_rank(f, 2, "one matrix, [N, N]");
}

static flx_code infer_batched_solve(flxi_infer *f)
{
    flxi_type_text ta, tb;
    FLXI_TRY(need_matrix_rank(f, 3, "a batch of matrices, [B, N, N]"));
    if (!flxi_dims_may_equal(f, f->in[0]->dims[0], f->in[1]->dims[0]))
        return flxi_infer_fail(f, FLX_E_SHAPE, "solve broadcasts the leading axes",
                               "a and b must have the same number of systems: a is %s, b is %s",
                               flxi_shape_str(f->ctx, f->in[0], &ta), flxi_shape_str(f->ctx, f->in[1], &tb));
    return FLX_OK;
}

static void decompose_to_solve(flxi_site *s, flx_val *y)
{
    y[0] = flx_solve(s->g, s->x[0], s->x[1]);
}

static const flxi_sample samples_dense_solve[] = {
    {"T[3, 3]{-1..1+3I}, T[3]", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 2]", NULL, NULL, FLX_OK},
    {"T[0, 0], T[0]", NULL, NULL, FLX_OK},
    {"T[N, N]{-1..1+3I}, T[N, K]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2], T[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 2], T[2, 2, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

static const flxi_sample samples_batched_solve[] = {
    {"T[2, 2, 2]{-1..1+3I}, T[2, 2]", NULL, NULL, FLX_OK},  {"T[2, 2, 2]{-1..1+3I}, T[2, 2, 1]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2], T[0, 2, 1]", NULL, NULL, FLX_OK},         {"T[2, 2, 2]{-1..1+3I}, T[2, 2, 0]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}, T[B, N]", NULL, NULL, FLX_OK},  {"T[2, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 2, 2], T[1, 2]", NULL, NULL, FLX_E_SHAPE},       {"T[2, 2, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 2, 2], T[2, 2, 2, 2]", NULL, NULL, FLX_E_SHAPE}, {0},
};

const flxi_rules flxi_rules_dense_solve = {
    .infer = infer_dense_solve,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_to_solve,
    .samples = samples_dense_solve,
};

const flxi_rules flxi_rules_batched_dense_solve = {
    .infer = infer_batched_solve,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_to_solve,
    .samples = samples_batched_solve,
};

/* ---- lu_solve ---- */

typedef struct {
    int64_t trans;
} lu_solve_attrs;

static const flxi_attr lu_solve_schema[] = {A_WORD(lu_solve_attrs, trans, FLXI_TRANS_WORDS), A_END};

static flx_code infer_lu_solve(flxi_infer *f)
{
    const flx_type *lu = f->in[0];
    const flx_type *perm = f->in[1];
    flxi_type_text tl, tp;
    FLXI_TRY(flxi_infer_system(f, 0, 2, LEFT, &f->out[0]));
    bool fits = perm->rank == lu->rank - 1;
    for (int k = 0; fits && k < perm->rank; k++)
        fits = flxi_dims_may_equal(f, perm->dims[k], lu->dims[k]);
    if (!fits)
        return flxi_infer_fail(f, FLX_E_SHAPE, "perm is the third result of lu",
                               "perm must have one entry for each row of lu: lu is %s, perm is %s",
                               flxi_shape_str(f->ctx, lu, &tl), flxi_shape_str(f->ctx, perm, &tp));
    return FLX_OK;
}

/* The rows of v, which has the axes of the solution, by index. */
static flx_val rows_of(flxi_site *s, flx_val v, flx_val numbers, bool vector)
{
    const flx_type *t = flxi_typeof(s, v);
    int64_t axis = t->rank - (vector ? 1 : 2);
    flx_val at = flxi_as_sides(s, numbers, !vector, LEFT);
    return flx_take_along(s->g, v, flxi_expand_like(s, at, t), axis, NULL);
}

/* With one of the factors: L has ones on its diagonal. */
static flx_val solve_factor(flxi_site *s, flx_val lu, flx_val b, bool lower, const char *trans)
{
    return flx_solve_triangular(s->g, lu, b, lower, trans, lower, 1);
}

/* b with the leading axes of the solution. */
static flx_val stretched_sides(flxi_site *s, flx_val lu, flx_val b, bool vector)
{
    const flx_type *l = flxi_typeof(s, lu);
    flx_type t = *flxi_typeof(s, b);
    int lead = t.rank - (vector ? 1 : 2);
    int gap = lead - (l->rank - 2);
    for (int k = gap < 0 ? 0 : gap; k < lead; k++)
        t.dims[k] = t.dims[k] == 1 ? l->dims[k - gap] : t.dims[k];
    return flxi_expand_like(s, b, &t);
}

/* a[perm] = L U: x = U^-1 L^-1 b[perm], and with the adjoint x[perm] = L^-H U^-H b. */
static void decompose_lu_solve(flxi_site *s, flx_val *y)
{
    const lu_solve_attrs *a = s->attrs;
    const char *trans = flxi_trans_word(a->trans);
    flx_val lu = s->x[0];
    bool vector = flxi_is_vector_system(flxi_typeof(s, lu), flxi_typeof(s, s->x[2]));
    flx_val b = stretched_sides(s, lu, s->x[2], vector);
    if (a->trans == FLXI_TRANS_NONE) {
        y[0] = solve_factor(s, lu, rows_of(s, b, s->x[1], vector), true, trans);
        y[0] = solve_factor(s, lu, y[0], false, trans);
        return;
    }
    flx_val order = flx_argsort(s->g, s->x[1], -1, 1, 0, FLX_I32);
    y[0] = solve_factor(s, lu, solve_factor(s, lu, b, false, trans), true, trans);
    y[0] = rows_of(s, y[0], order, vector);
}

static void batch_lu_solve(flxi_site *s, flx_val *by)
{
    flxi_batch_system(s, LEFT, by);
}

static const flxi_sample samples_lu_solve[] = {
    {"T[3, 3]{-1..1+3I}, i32[3]{0..2}, T[3]", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, i32[2]{0..1}, T[2, 2]", "trans=adjoint", NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, i64[2]{0..1}, T[2]", "trans=transpose", NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}, i32[2, 2]{0..1}, T[1, 2]", "trans=adjoint", NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, i32[2]{0..1}, T[2, 2, 1]", NULL, NULL, FLX_OK},
    {"T[0, 0], i32[0], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}, i32[B, N]{0..2}, T[B, N, K]", NULL, NULL, FLX_OK},
    {"T[2, 2], i32[3], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 2], i32[1, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 2], f32[2], T[2]", NULL, NULL, FLX_E_DTYPE},
    {"T[2, 2], i32[2], T[2]", "trans=other", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_lu_solve = {
    .infer = infer_lu_solve,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_lu_solve,
    .batch = batch_lu_solve,
    .schema = lu_solve_schema,
    .attrs_size = sizeof(lu_solve_attrs),
    .samples = samples_lu_solve,
};

/* ---- inv ---- */

static flx_code invert_each(flxi_eval *e, flxi_arena *scratch)
{
    int64_t n = e->in[0]->type.dims[e->in[0]->type.rank - 1];
    const flxi_dense *d = flxi_dense_for(e->in[0]->type.dtype);
    void *a = flxi_arena_alloc(scratch, (size_t)(n * n), d->size, _Alignof(max_align_t));
    void *b = flxi_arena_alloc(scratch, (size_t)(n * n), d->size, _Alignof(max_align_t));
    int64_t *pivots = flxi_new(scratch, int64_t, n);
    flxi_matrix_view from = {e->in[0]->type.dtype, e->in[0]->data, 0, n, 1};
    flxi_matrix_view to = {e->out[0]->type.dtype, e->out[0]->data, 0, n, 1};
    if (!a || !b || !pivots)
        return flxi_oom(e->err, "inverting");
    for (; from.first < e->in[0]->count; from.first = to.first += n * n) {
        flxi_matrix_load(a, &from, n, n);
        d->unit(b, n);
        d->lu(a, n, n, pivots);
        if (!flxi_dense_solve(d, a, n, pivots, b, n))
            e->report(e, FLX_RUN_SINGULAR);
        flxi_matrix_store(&to, b, n, n);
    }
    return FLX_OK;
}

static flx_code eval_inv(flxi_eval *e)
{
    return e->in[0]->count ? flxi_eval_with_scratch(e, invert_each) : FLX_OK;
}

/* -l v l */
static flx_val sandwich(flxi_site *s, flx_val l, flx_val v, flx_val like)
{
    flx_val y = flx_matmul(s->g, flx_matmul(s->g, l, v), l);
    return flxi_spelled_like(s, flx_neg(s->g, y), like, 2);
}

static void vjp_inv(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = sandwich(s, flxi_adjoint(s, s->y[0]), dy[0], s->x[0]);
}

static void jvp_inv(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = sandwich(s, s->y[0], tx[0], s->y[0]);
}

static const flxi_sample samples_inv[] = {
    {"T[3, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[1, 1]{1..2}", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[0, 4294967296, 4294967296]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_inv = {
    .infer = flxi_infer_square,
    .eval = eval_inv,
    .vjp = vjp_inv,
    .jvp = jvp_inv,
    .batch = flxi_batch_matrices,
    .samples = samples_inv,
    .work = flxi_work_solve,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};
