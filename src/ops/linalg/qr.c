/* SPDX-License-Identifier: Apache-2.0 */
/* qr.c: a = q r by reflections. For matrices with more columns than rows, the first columns are factored, a1 = q r1;
   the rest of r is q^H a2, also in the rules. Where a, or a1, does not have full rank, r cannot be inverted and there
   is no derivative: infinities and NaNs. */
#include "base/host/stop.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/linalg/matrix_view.h"
#include "ops/linalg/matrix_work.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

static flx_code infer_qr(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    flx_dim n;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_smaller_dim(f, a, &n));
    f->out[0] = *a;
    f->out[1] = *a;
    f->out[0].dims[a->rank - 1] = n;
    f->out[1].dims[a->rank - 2] = n;
    return FLX_OK;
}

static flx_code factor_each(flxi_eval *e, flxi_arena *scratch)
{
    const flx_tensor *a = e->in[0];
    int64_t m = a->type.dims[a->type.rank - 2], n = a->type.dims[a->type.rank - 1];
    const flxi_dense *d = flxi_dense_for(a->type.dtype);
    int64_t steps = m < n ? m : n;
    void *r = flxi_arena_alloc(scratch, (size_t)(m * n), d->size, _Alignof(max_align_t));
    void *q = flxi_arena_alloc(scratch, (size_t)(m * steps + m), d->size, _Alignof(max_align_t));
    if (!r || !q)
        return flxi_oom(e->err, "factoring");
    for (int64_t i = 0; i < flxi_matrix_count(&a->type) && !flxi_stopped(); i++) {
        flxi_matrix_view from = {a->type.dtype, a->data, i * m * n, n, 1};
        flxi_matrix_view to_q = {a->type.dtype, e->out[0]->data, i * m * steps, steps, 1};
        flxi_matrix_view to_r = {a->type.dtype, e->out[1]->data, i * steps * n, n, 1};
        flxi_matrix_load(r, &from, m, n);
        d->qr(r, m, n, q);
        flxi_matrix_store(&to_q, q, m, steps);
        flxi_matrix_store(&to_r, r, steps, n);
    }
    return FLX_OK;
}

static flx_code eval_qr(flxi_eval *e)
{
    return e->in[0]->count ? flxi_eval_with_scratch(e, factor_each) : FLX_OK;
}

/* ---- Rules ---- */

/* The columns that determine q, and the rest; `rest` is FLX_NONE where there is none. */
typedef struct {
    flx_val first, rest;
} columns;

static columns columns_of(flxi_site *s, flx_val v)
{
    const flx_type *a = flxi_typeof(s, s->x[0]);
    const flx_type *q = flxi_typeof(s, s->y[0]);
    columns c = {v, FLX_NONE};
    if (flxi_is_none(v) || a->rank < 2 || q->rank < 2 || q->dims[q->rank - 1] == a->dims[a->rank - 1])
        return c;
    int64_t axis = a->rank - 1;
    flx_dim n = q->dims[axis];
    c.first = flx_narrow(s->g, v, axis, 0, n);
    c.rest = flx_narrow(s->g, v, axis, n, flx_dim_sub(s->ctx, a->dims[axis], n));
    return c;
}

static flx_val joined(flxi_site *s, flx_val first, flx_val rest)
{
    return flxi_is_none(rest) ? first
                              : flx_concat(s->g, ((flx_val[]){first, rest}), 2, flxi_typeof(s, first)->rank - 1);
}

/* v r^-1, or v r^-H */
static flx_val over_r(flxi_site *s, flx_val v, flx_val r, const char *trans)
{
    return flx_solve_triangular(s->g, r, v, 0, trans, 0, 0);
}

/* Then q q^H = 1 too, and the component outside the range of q is only rounding errors. */
static bool is_square(flxi_site *s, flx_val q)
{
    const flx_type *t = flxi_typeof(s, q);
    return t->rank > 1 && t->dims[t->rank - 1] == t->dims[t->rank - 2];
}

/* The part of v outside the range of q: v - q (q^H v). */
static flx_val beyond(flxi_site *s, flx_val q, flx_val v, flx_val inside)
{
    return flx_sub(s->g, v, flx_matmul(s->g, q, inside));
}

/* The cotangent of the columns that determine q. With X = q^H dq, half() the lower triangle with half the diagonal and
   Y = half(r dr^H): (q (half(X - X^H) + Y + Y^H) + dq - q X) r^-H. */
static flx_val cotangent_of_first(flxi_site *s, flx_val dq, flx_val dr, flx_val r)
{
    flx_val q = s->y[0];
    flx_val inner = FLX_NONE;
    flx_val outer = FLX_NONE;
    if (!flxi_is_none(dr)) {
        flx_val half = flxi_halved_lower(s, flx_matmul(s->g, r, flxi_adjoint(s, dr)));
        inner = flx_add(s->g, half, flxi_adjoint(s, half));
    }
    if (!flxi_is_none(dq)) {
        flx_val x = flx_matmul(s->g, flxi_adjoint(s, q), dq);
        inner = flxi_sum(s, inner, flxi_halved_lower(s, flx_sub(s->g, x, flxi_adjoint(s, x))));
        outer = is_square(s, q) ? FLX_NONE : beyond(s, q, dq, x);
    }
    return over_r(s, flxi_sum(s, flx_matmul(s->g, q, inner), outer), r, "adjoint");
}

static void vjp_qr(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    columns a = columns_of(s, s->x[0]);
    columns r = columns_of(s, s->y[1]);
    columns dr = columns_of(s, dy[1]);
    flx_val dq = dy[0];
    flx_val rest = FLX_NONE;
    if (!flxi_is_none(dr.rest)) { /* of q^H a2 */
        dq = flxi_sum(s, dq, flx_matmul(s->g, a.rest, flxi_adjoint(s, dr.rest)));
        rest = flx_matmul(s->g, s->y[0], dr.rest);
    } else if (!flxi_is_none(a.rest)) {
        rest = flxi_zeros_like(s, a.rest);
    }
    dx[0] = flxi_spelled_like(s, joined(s, cotangent_of_first(s, dq, dr.first, r.first), rest), s->x[0], 2);
}

/* With B = a' r^-1, C = q^H B and W = H - H^H, H the lower triangle of C with half the diagonal:
   q' = q W + B - q C, r' = (C - W) r. */
static void jvp_qr(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    columns a = columns_of(s, s->x[0]);
    columns r = columns_of(s, s->y[1]);
    columns t = columns_of(s, tx[0]);
    flx_val q = s->y[0];
    flx_val b = over_r(s, t.first, r.first, "none");
    flx_val c = flx_matmul(s->g, flxi_adjoint(s, q), b);
    flx_val half = flxi_halved_lower(s, c);
    flx_val turn = flx_sub(s->g, half, flxi_adjoint(s, half));
    flx_val rest = FLX_NONE;
    ty[0] = flxi_sum(s, flx_matmul(s->g, q, turn), is_square(s, q) ? FLX_NONE : beyond(s, q, b, c));
    if (!flxi_is_none(a.rest))
        rest = flx_add(s->g, flx_matmul(s->g, flxi_adjoint(s, ty[0]), a.rest),
                       flx_matmul(s->g, flxi_adjoint(s, q), t.rest));
    flx_val first = flx_matmul(s->g, flx_sub(s->g, c, turn), r.first);
    ty[1] = flxi_spelled_like(s, joined(s, first, rest), s->y[1], 2);
    ty[0] = flxi_spelled_like(s, ty[0], q, 2);
}

static const flxi_sample samples_qr[] = {
    {"T[3, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[4, 2]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[2, 3]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[1, 1]{1..2}", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[3, 0]", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[0, 3, 2]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N+1, N]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N, N+1]{-1..1+3I}", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_qr = {
    .infer = infer_qr,
    .eval = eval_qr,
    .vjp = vjp_qr,
    .jvp = jvp_qr,
    .batch = flxi_batch_matrices,
    .samples = samples_qr,
    .work = flxi_work_qr,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};
