/* SPDX-License-Identifier: Apache-2.0 */
/* factor.c: lu and cholesky. The derivatives of both are those of a product of triangles: the change of the product,
   multiplied by the inverses of the factors from both sides, splits into a lower and an upper part, one for each
   factor. */
#include "base/host/stop.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/linalg/matrix_view.h"
#include "ops/linalg/matrix_work.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

#include <fluxion/run.h>

/* ---- lu ---- */

static flx_code infer_lu(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    flx_dim steps;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_smaller_dim(f, a, &steps));
    f->out[0] = *a;
    f->out[1] = flx_type_make(FLX_I32, a->rank - 1, a->dims);
    f->out[2] = f->out[1];
    f->out[1].dims[a->rank - 2] = steps;
    return FLX_OK;
}

static flx_code factor_each(flxi_eval *e, flxi_arena *scratch)
{
    const flx_tensor *a = e->in[0];
    int64_t m = a->type.dims[a->type.rank - 2], n = a->type.dims[a->type.rank - 1];
    const flxi_dense *d = flxi_dense_for(a->type.dtype);
    int64_t steps = m < n ? m : n;
    void *x = flxi_arena_alloc(scratch, (size_t)(m * n), d->size, _Alignof(max_align_t));
    int64_t *pivots = flxi_new(scratch, int64_t, steps);
    int64_t *perm = flxi_new(scratch, int64_t, m);
    int32_t *out_pivots = e->out[1]->data;
    int32_t *out_perm = e->out[2]->data;
    if (!x || !pivots || !perm)
        return flxi_oom(e->err, "factoring");
    for (int64_t i = 0; i < flxi_matrix_count(&a->type) && !flxi_stopped(); i++) {
        flxi_matrix_view from = {a->type.dtype, a->data, i * m * n, n, 1};
        flxi_matrix_view to = {a->type.dtype, e->out[0]->data, i * m * n, n, 1};
        flxi_matrix_load(x, &from, m, n);
        d->lu(x, m, n, pivots);
        flxi_permutation_of(pivots, steps, m, perm);
        flxi_matrix_store(&to, x, m, n);
        for (int64_t k = 0; k < steps; k++)
            out_pivots[i * steps + k] = (int32_t)pivots[k];
        for (int64_t k = 0; k < m; k++)
            out_perm[i * m + k] = (int32_t)perm[k];
    }
    return FLX_OK;
}

static flx_code eval_lu(flxi_eval *e)
{
    return e->out[2]->count ? flxi_eval_with_scratch(e, factor_each) : FLX_OK;
}

/* The first n rows or columns of v, along `axis` counted from the end; v itself where it has no more. */
static flx_val first_of(flxi_site *s, flx_val v, int from_back, flx_dim n)
{
    const flx_type *t = flxi_typeof(s, v);
    int axis = t->rank - from_back;
    return axis < 0 || t->dims[axis] == n ? v : flx_narrow(s->g, v, axis, 0, n);
}

/* A triangle of lu as a square matrix, for use in a triangular solve: where the factor is a tall L or a wide U, it is
   completed with ones on the diagonal and zeros. */
static flx_val completed(flxi_site *s, flx_val lu, bool lower)
{
    flx_type t = *flxi_typeof(s, lu);
    if (t.rank < 2)
        return lu;                             /* the graph has an error */
    int own = lower ? t.rank - 2 : t.rank - 1; /* axis of the factor's full extent */
    int other = lower ? t.rank - 1 : t.rank - 2;
    flx_dim n = t.dims[own];
    flx_dim low[FLX_MAX_RANK] = {0};
    flx_dim high[FLX_MAX_RANK] = {0};
    flx_val x = lower ? flx_tril(s->g, lu, -1) : lu;
    if (t.dims[other] == n)
        return x;
    if (!flxi_dim_below(s->ctx, t.dims[other], n))
        return first_of(s, x, lower ? 1 : 2, n);
    high[other] = flx_dim_sub(s->ctx, n, t.dims[other]);
    x = flxi_pad_zeros(s, x, low, high);
    if (lower)
        return x; /* solved with a unit diagonal */
    flx_val ones = flx_eye(s->g, n, n, 0, (flx_dtype)t.dtype);
    flx_type line = flx_type_make(FLX_I64, 2, (flx_dim[]){n, 1});
    flx_val rows = flxi_index_number(s, FLX_I64, t.dims[other]);
    return flx_where(s->g, flx_lt(s->g, flx_iota(s->g, &line, 0), rows), x, ones);
}

typedef struct {
    flx_val l, u;           /* square: l without its diagonal of ones, u from the diagonal on */
    flx_val full_l, full_u; /* the same for multiplication */
} triangles;

static triangles triangles_of(flxi_site *s)
{
    triangles t = {.l = completed(s, s->y[0], true), .u = completed(s, s->y[0], false)};
    t.full_l = flx_add(s->g, flx_tril(s->g, t.l, -1), flxi_identity_like(s, t.l));
    t.full_u = flx_triu(s->g, t.u, 0);
    return t;
}

/* op(L)^-1 v op(U)^-1 */
static flx_val between_inverses(flxi_site *s, const triangles *t, flx_val v, const char *trans)
{
    flx_val inner = flx_solve_triangular(s->g, t->l, v, 1, trans, 1, 1);
    return flx_solve_triangular(s->g, t->u, inner, 0, trans, 0, 0);
}

/* Rows by index; the indices have one axis less than v. */
static flx_val numbered_rows(flxi_site *s, flx_val v, flx_val numbers)
{
    const flx_type *t = flxi_typeof(s, v);
    int64_t last = t->rank - 1;
    flx_val at = flx_unsqueeze(s->g, numbers, (flx_ints){&last, 1});
    return flx_take_along(s->g, v, flxi_expand_like(s, at, t), last - 1, NULL);
}

/* With S = L^-1 a'[perm] U^-1: L' = L stril(S), U' = triu(S) U, and both share the result. For the transpose
   S~ = stril(L^H g) + triu(g U^H), d_a[perm] = L^-H S~ U^-H. */
static void vjp_lu(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    triangles t = triangles_of(s);
    flx_val lower = flx_tril(s->g, flx_matmul(s->g, flxi_adjoint(s, t.full_l), dy[0]), -1);
    flx_val upper = flx_triu(s->g, flx_matmul(s->g, dy[0], flxi_adjoint(s, t.full_u)), 0);
    flx_val back = between_inverses(s, &t, flx_add(s->g, lower, upper), "adjoint");
    flx_val order = flx_argsort(s->g, s->y[2], -1, 1, 0, FLX_I32);
    dx[0] = flxi_spelled_like(s, numbered_rows(s, back, order), s->x[0], 2);
}

static void jvp_lu(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    triangles t = triangles_of(s);
    flx_val inner = between_inverses(s, &t, numbered_rows(s, tx[0], s->y[2]), "none");
    flx_val lower = flx_matmul(s->g, t.full_l, flx_tril(s->g, inner, -1));
    flx_val upper = flx_matmul(s->g, flx_triu(s->g, inner, 0), t.full_u);
    ty[0] = flxi_spelled_like(s, flx_add(s->g, lower, upper), s->y[0], 2);
}

static const flxi_sample samples_lu[] = {
    {"T[3, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[1, 1]{1..2}", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[3, 2]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[2, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[3, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N+1, N]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N, N+1]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_lu = {
    .infer = infer_lu,
    .eval = eval_lu,
    .vjp = vjp_lu,
    .jvp = jvp_lu,
    .batch = flxi_batch_matrices,
    .samples = samples_lu,
    .work = flxi_work_lu,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- cholesky ---- */

typedef struct {
    int64_t lower;
} cholesky_attrs;

static const flxi_attr cholesky_schema[] = {A_BOOL(cholesky_attrs, lower, 1), A_END};

static flx_code eval_cholesky(flxi_eval *e)
{
    const cholesky_attrs *attrs = e->attrs;
    const flx_tensor *a = e->in[0];
    const flxi_dense *d = flxi_dense_for(a->type.dtype);
    if (a->count == 0)
        return FLX_OK;
    int64_t n = a->type.dims[a->type.rank - 1];
    size_t count = (size_t)(n * n);
    void *x = flxi_alloc(e->mem, count, d->size);
    if (!x)
        return flxi_oom(e->err, "factoring");
    for (int64_t first = 0; first < a->count && !flxi_stopped(); first += n * n) {
        flxi_matrix_view from = {a->type.dtype, a->data, first, n, 1};
        flxi_matrix_view to = {a->type.dtype, e->out[0]->data, first, attrs->lower ? n : 1, attrs->lower ? 1 : n};
        flxi_matrix_load(x, &from, n, n);
        if (!d->cholesky(x, n)) {
            d->fill(x, n * n, NAN);
            e->report(e, FLX_RUN_SINGULAR);
        }
        if (!attrs->lower)
            d->conjugate(x, n * n);
        flxi_matrix_store(&to, x, n, n);
    }
    flxi_free(e->mem, x, count, d->size);
    return FLX_OK;
}

/* The lower factor, whichever the result is; applying it twice is the identity. */
static flx_val as_lower(flxi_site *s, flx_val v)
{
    return ((const cholesky_attrs *)s->attrs)->lower ? v : flxi_adjoint(s, v);
}

/* With P the halved lower triangle of L^H g, d_a is the Hermitian part of L^-H P L^-1. */
static void vjp_cholesky(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val l = as_lower(s, s->y[0]);
    flx_val p = flxi_halved_lower(s, flx_matmul(s->g, flxi_adjoint(s, l), as_lower(s, dy[0])));
    flx_val back = flx_solve_triangular(s->g, l, flx_solve_triangular(s->g, l, p, 1, "adjoint", 0, 1), 1, "none", 0, 0);
    dx[0] = flxi_spelled_like(s, flxi_hermitian_part(s, back), s->x[0], 2);
}

/* L' = L Φ(L^-1 a' L^-H), Φ the halved lower triangle, a' its Hermitian part */
static void jvp_cholesky(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val l = as_lower(s, s->y[0]);
    flx_val inner = flx_solve_triangular(s->g, l, flxi_hermitian_part(s, tx[0]), 1, "none", 0, 1);
    inner = flxi_halved_lower(s, flx_solve_triangular(s->g, l, inner, 1, "adjoint", 0, 0));
    ty[0] = flxi_spelled_like(s, as_lower(s, flx_matmul(s->g, l, inner)), s->y[0], 2);
}

static const flxi_sample samples_cholesky[] = {
    {"T[3, 3]{-1..1+4I}", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+4I}", "lower=false", NULL, FLX_OK},
    {"T[1, 1]{1..2}", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+4I}", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", "lower=false", NULL, FLX_OK},
    {"T[B, N, N]{-1..1+4I}", "lower=false", NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_cholesky = {
    .infer = flxi_infer_square,
    .eval = eval_cholesky,
    .vjp = vjp_cholesky,
    .jvp = jvp_cholesky,
    .batch = flxi_batch_matrices,
    .schema = cholesky_schema,
    .attrs_size = sizeof(cholesky_attrs),
    .samples = samples_cholesky,
    .work = flxi_work_cholesky,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};
