/* SPDX-License-Identifier: Apache-2.0 */
/* determinant.c: det, slogdet, logdet and adjugate.

   The derivative of a determinant is the adjugate, a polynomial in the elements: it exists for singular matrices,
   where det(a) a^-1 does not, and is evaluated without dividing by a pivot. Its derivative is adjugate_along, whose
   decomposition finds it as a coefficient of the polynomial adj(a + z v), again without an inverse, so that every
   order holds at singular matrices. */
#include "base/host/stop.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/linalg/matrix_view.h"
#include "ops/linalg/matrix_work.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

/* ---- Appending ---- */

/* v, one number for each matrix of a, with two trailing axes of extent 1. */
static flx_val for_each_matrix(flxi_site *s, flx_val v)
{
    int64_t rank = flxi_typeof(s, v)->rank;
    return flx_unsqueeze(s->g, v, (flx_ints){(int64_t[]){rank, rank + 1}, 2});
}

/* The sum over each matrix. */
static flx_val sum_of_matrix(flxi_site *s, flx_val v)
{
    int64_t rank = flxi_typeof(s, v)->rank;
    return flx_reduce_sum(s->g, v, (flx_ints){(int64_t[]){rank - 2, rank - 1}, 2}, 0);
}

/* ---- Inference ---- */

static flx_type scalars_of(const flx_type *a, int32_t dtype)
{
    return flx_type_make((flx_dtype)dtype, a->rank - 2, a->dims);
}

static flx_code infer_det(flxi_infer *f)
{
    FLXI_TRY(flxi_need_square(f, 0));
    f->out[0] = scalars_of(f->in[0], f->in[0]->dtype);
    return FLX_OK;
}

static flx_code infer_logdet(flxi_infer *f)
{
    FLXI_TRY(flxi_need_square(f, 0));
    f->out[f->nout - 1] = scalars_of(f->in[0], flxi_part_dtype(f->in[0]->dtype));
    return FLX_OK;
}

static flx_code infer_slogdet(flxi_infer *f)
{
    FLXI_TRY(infer_logdet(f));
    f->out[0] = scalars_of(f->in[0], f->in[0]->dtype);
    return FLX_OK;
}

/* ---- Evaluation ---- */

typedef void from_factors(const flxi_dense *d, const void *lu, int64_t n, const int64_t *pivots, void *out);

static void det_of(const flxi_dense *d, const void *lu, int64_t n, const int64_t *pivots, void *out)
{
    d->determinant(lu, n, pivots, out);
}

static void adjugate_of(const flxi_dense *d, const void *lu, int64_t n, const int64_t *pivots, void *out)
{
    d->adjugate(lu, n, pivots, out);
}

/* Factors each matrix and stores the m x m numbers that `fn` computes from it. */
static flx_code each_matrix(flxi_eval *e, from_factors *fn, int64_t n, int64_t m, flxi_arena *scratch)
{
    const flx_tensor *a = e->in[0];
    const flxi_dense *d = flxi_dense_for(a->type.dtype);
    void *x = flxi_arena_alloc(scratch, (size_t)(n * n), d->size, _Alignof(max_align_t));
    void *y = flxi_arena_alloc(scratch, (size_t)(m * m), d->size, _Alignof(max_align_t));
    int64_t *pivots = flxi_new(scratch, int64_t, n);
    if (!x || !y || !pivots)
        return flxi_oom(e->err, "factoring");
    for (int64_t i = 0; i < flxi_matrix_count(&a->type) && !flxi_stopped(); i++) {
        flxi_matrix_view from = {a->type.dtype, a->data, i * n * n, n, 1};
        flxi_matrix_view to = {a->type.dtype, e->out[0]->data, i * m * m, m, 1};
        flxi_matrix_load(x, &from, n, n);
        d->lu(x, n, n, pivots);
        fn(d, x, n, pivots, y);
        flxi_matrix_store(&to, y, m, m);
    }
    return FLX_OK;
}

static flx_code eval_by_factors(flxi_eval *e, from_factors *fn, bool is_matrix)
{
    const flx_type *t = &e->in[0]->type;
    flxi_arena scratch;
    if (e->out[0]->count == 0)
        return FLX_OK;
    int64_t n = t->dims[t->rank - 1];
    flxi_arena_init(&scratch, e->mem);
    flx_code code = each_matrix(e, fn, n, is_matrix ? n : 1, &scratch);
    flxi_arena_free(&scratch);
    return code;
}

static flx_code eval_det(flxi_eval *e)
{
    return eval_by_factors(e, det_of, false);
}

static flx_code eval_adjugate(flxi_eval *e)
{
    return eval_by_factors(e, adjugate_of, true);
}

/* ---- det ---- */

static void vjp_det(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val slope = flxi_adjoint(s, flx_adjugate(s->g, s->x[0]));
    dx[0] = flxi_spelled_like(s, flx_mul(s->g, for_each_matrix(s, dy[0]), slope), s->x[0], 2);
}

static void jvp_det(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val slope = flxi_spelled_like(s, flxi_transposed(s, flx_adjugate(s->g, s->x[0])), s->x[0], 2);
    ty[0] = sum_of_matrix(s, flx_mul(s->g, slope, tx[0]));
}

static const flxi_sample samples_det[] = {
    {"T[3, 3]", NULL, NULL, FLX_OK},
    {"T[1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[2, 0, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[B, N, N]", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_det = {
    .infer = infer_det,
    .eval = eval_det,
    .vjp = vjp_det,
    .jvp = jvp_det,
    .batch = flxi_batch_matrices,
    .samples = samples_det,
    .work = flxi_work_lu,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- adjugate ---- */

/* tr(adj'(a)[v] w) is the second derivative of the determinant, which is symmetric in v and w: so the adjoint of
   v -> adj'(a)[v] takes g to adj'(a)[g^H]^H. */
static void vjp_adjugate(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val g = flxi_spelled_like(s, flxi_adjoint(s, dy[0]), s->x[0], 2);
    dx[0] = flxi_spelled_like(s, flxi_adjoint(s, flx_adjugate_along(s->g, s->x[0], g)), s->x[0], 2);
}

static void jvp_adjugate(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] =
        flxi_spelled_like(s, flx_adjugate_along(s->g, s->x[0], flxi_spelled_like(s, tx[0], s->x[0], 2)), s->y[0], 2);
}

static const flxi_sample samples_adjugate[] = {
    {"T[3, 3]", NULL, NULL, FLX_OK},      {"T[1, 1]", NULL, NULL, FLX_OK},    {"T[2, 2, 2]", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},      {"T[0, 2, 2]", NULL, NULL, FLX_OK}, {"T[N, N]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_E_SHAPE}, {"T[2]", NULL, NULL, FLX_E_SHAPE},  {0},
};

const flxi_rules flxi_rules_adjugate = {
    .infer = flxi_infer_square,
    .eval = eval_adjugate,
    .vjp = vjp_adjugate,
    .jvp = jvp_adjugate,
    .batch = flxi_batch_matrices,
    .samples = samples_adjugate,
    .work = flxi_work_solve,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- adjugate_along ---- */

static flx_code infer_adjugate_along(flxi_infer *f)
{
    flx_type shape;
    FLXI_TRY(flxi_need_square(f, 0));
    FLXI_TRY(flxi_equal_shapes(f, 2, &shape));
    f->out[0] = shape;
    return FLX_OK;
}

static flx_code along_each(flxi_eval *e, flxi_arena *scratch)
{
    const flx_type *t = &e->in[0]->type;
    int64_t n = t->dims[t->rank - 1];
    const flxi_dense *d = flxi_dense_for(t->dtype);
    size_t size = (size_t)(n * n);
    void *a = flxi_arena_alloc(scratch, size, d->size, _Alignof(max_align_t));
    void *v = flxi_arena_alloc(scratch, size, d->size, _Alignof(max_align_t));
    void *w = flxi_arena_alloc(scratch, size + (size_t)n, d->size, _Alignof(max_align_t));
    int64_t *pivots = flxi_new(scratch, int64_t, 2 * n);
    if (!a || !v || !w || !pivots)
        return flxi_oom(e->err, e->op->name);
    for (int64_t i = 0; i < flxi_matrix_count(t) && !flxi_stopped(); i++) {
        flxi_matrix_load(a, &(flxi_matrix_view){t->dtype, e->in[0]->data, i * n * n, n, 1}, n, n);
        flxi_matrix_load(v, &(flxi_matrix_view){t->dtype, e->in[1]->data, i * n * n, n, 1}, n, n);
        d->adjugate_along(a, v, n, pivots, w);
        flxi_matrix_store(&(flxi_matrix_view){t->dtype, e->out[0]->data, i * n * n, n, 1}, w, n, n);
    }
    return FLX_OK;
}

static flx_code eval_adjugate_along(flxi_eval *e)
{
    return e->out[0]->count ? flxi_eval_with_scratch(e, along_each) : FLX_OK;
}

/* How far to go along v: as far as the sum, and its rounding errors, stay of the size of a. It has no derivative: the
   coefficient does not depend on it. */
static flx_val step_along(flxi_site *s, flx_val a, flx_val v, flx_val n)
{
    int64_t rank = flxi_typeof(s, a)->rank;
    flx_ints axes = {(int64_t[]){rank - 2, rank - 1}, 2};
    flx_val one = flx_scalar(s->g, FLX_F64, 1.0);
    flx_val size = flx_reduce_max(s->g, flx_abs(s->g, a), axes, 1);
    flx_val other = flx_mul(s->g, flx_reduce_max(s->g, flx_abs(s->g, v), axes, 1), n);
    flx_val step = flx_div(s->g, size, other);
    flx_val usable = flx_and(s->g, flx_is_finite(s->g, step), flx_gt(s->g, step, flx_scalar(s->g, FLX_F64, 0.0)));
    return flx_stop_gradient(s->g, flx_where(s->g, usable, step, one));
}

/* d/dz adj(a + z v) at 0. The polynomial has degree n - 1, so its values at n + 1 points on a circle give the
   coefficient exactly: the mean of adj(a + r w v) / (r w) over the roots of unity w. */
static void decompose_adjugate_along(flxi_site *s, flx_val *y)
{
    flx_val a = s->x[0], v = s->x[1];
    const flx_type t = *flxi_typeof(s, a);
    flx_val z = flx_cast(s->g, a, FLX_C128);
    flx_val w = flx_cast(s->g, v, FLX_C128);
    flx_type ring = {.dtype = FLX_F64, .rank = t.rank + 1};
    int64_t front = 0;
    if (t.rank < 2 || t.rank == FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "the derivative of a tensor of rank %d exceeds the rank limit", t.rank);
        return;
    }
    if (t.dims[t.rank - 1] == 1) { /* the adjugate is 1 everywhere; the mean over roots would be zero with an error */
        y[0] = flxi_zeros_like(s, a);
        return;
    }
    for (int k = 0; k <= t.rank; k++)
        ring.dims[k] = 1;
    ring.dims[0] = flx_dim_add(s->ctx, t.dims[t.rank - 1], 1);
    flx_val points = flxi_index_number(s, FLX_F64, ring.dims[0]);
    flx_val turn = flx_mul(s->g, flx_iota(s->g, &ring, 0), flx_scalar(s->g, FLX_F64, 2 * 3.14159265358979323846));
    turn = flx_div(s->g, turn, points);
    flx_val roots = flx_complex(s->g, flx_cos(s->g, turn), flx_sin(s->g, turn));
    flx_val step = flx_cast(s->g, step_along(s, z, w, points), FLX_C128);
    flx_val way = flx_mul(s->g, roots, step);
    flx_val values = flx_adjugate(s->g, flx_add(s->g, z, flx_mul(s->g, way, w)));
    flx_val sum = flx_reduce_sum(s->g, flx_mul(s->g, values, flxi_conj(s, roots)), (flx_ints){&front, 1}, 0);
    flx_val share = flx_mul(s->g, step, flx_cast(s->g, points, FLX_C128));
    y[0] = flx_cast(s->g, flx_div(s->g, sum, share), (flx_dtype)t.dtype);
}

static void batch_adjugate_along(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, (const flx_val[]){flxi_lift(s, 0), flxi_lift(s, 1)}, 2, by);
}

static const flxi_sample samples_adjugate_along[] = {
    {"T[3, 3], T[3, 3]", NULL, NULL, FLX_OK},       {"T[1, 1], T[1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2], T[2, 2, 2]", NULL, NULL, FLX_OK}, {"T[0, 0], T[0, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2], T[0, 2, 2]", NULL, NULL, FLX_OK}, {"T[N, N], T[N, N]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[2, 3]", NULL, NULL, FLX_E_SHAPE},  {"T[2, 2], T[3, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2], T[2]", NULL, NULL, FLX_E_SHAPE},        {0},
};

const flxi_rules flxi_rules_adjugate_along = {
    .infer = infer_adjugate_along,
    .eval = eval_adjugate_along,
    .batch = batch_adjugate_along,
    .decompose = decompose_adjugate_along,
    .samples = samples_adjugate_along,
    .work = flxi_work_solve,
    .link = flxi_link_matrices,
};

/* ---- slogdet, logdet ---- */

typedef struct {
    flx_val diagonal, pivots;
} pivoted;

static pivoted diagonal_of_lu(flxi_site *s)
{
    flx_val y[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    flx_lu(s->g, flxi_as_square(s, s->x[0]), y);
    return (pivoted){flx_diag(s->g, y[0], 0), y[1]};
}

static flx_val product_of_row(flxi_site *s, flx_val v)
{
    int64_t last = flxi_typeof(s, v)->rank - 1;
    return flx_reduce_prod(s->g, v, (flx_ints){&last, 1}, 0);
}

static flx_val log_size(flxi_site *s, const pivoted *p)
{
    int64_t last = flxi_typeof(s, p->diagonal)->rank - 1;
    return flx_reduce_sum(s->g, flx_log(s->g, flx_abs(s->g, p->diagonal)), (flx_ints){&last, 1}, 0);
}

/* The signs of the diagonal of U, and -1 for each exchange of two rows. */
static void decompose_slogdet(flxi_site *s, flx_val *y)
{
    pivoted p = diagonal_of_lu(s);
    flx_type rows = *flxi_typeof(s, p.pivots);
    flx_val exchanged = flx_ne(s->g, p.pivots, flx_iota(s->g, &rows, rows.rank ? rows.rank - 1 : 0));
    flx_val turns = flx_where(s->g, exchanged, flxi_number(s, p.diagonal, -1.0), flxi_number(s, p.diagonal, 1.0));
    y[0] = product_of_row(s, flx_mul(s->g, flx_sign(s->g, p.diagonal), turns));
    y[1] = log_size(s, &p);
}

static void decompose_logdet(flxi_site *s, flx_val *y)
{
    pivoted p = diagonal_of_lu(s);
    y[0] = log_size(s, &p);
}

static const flxi_sample samples_logdet[] = {
    {"T[3, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[1, 1]{1..2}", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_slogdet = {
    .infer = infer_slogdet,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_slogdet,
    .samples = samples_logdet,
};

const flxi_rules flxi_rules_logdet = {
    .infer = infer_logdet,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_logdet,
    .samples = samples_logdet,
};
