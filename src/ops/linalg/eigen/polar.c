/* SPDX-License-Identifier: Apache-2.0 */
/* polar.c: functions of singular values: the polar decomposition and the condition number.

   polar is defined by svd, but is not differentiated through it: that would divide by differences of
   singular values, where polar itself is smooth. Its own rules divide by sums. (A second derivative goes through
   svd's first, where equal singular values contribute zero.) */
#include "graph/op/work.h"
#include "ops/linalg/eigen/eigen_rules.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

typedef struct {
    flx_val u, s, vh;
} singular;

static singular singular_of(flxi_site *s)
{
    flx_val y[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    flx_op(s->g, "svd", s->x, 1, NULL, 0, y, 3);
    return (singular){y[0], y[1], y[2]};
}

/* ---- polar ---- */

static flx_code infer_polar(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    flx_dim k = 0;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_smaller_dim(f, a, &k));
    f->out[0] = f->out[1] = *a;
    f->out[1].dims[a->rank - 2] = a->dims[a->rank - 1];
    return FLX_OK;
}

static void decompose_polar(flxi_site *s, flx_val *y)
{
    singular d = singular_of(s);
    if (s->g->error.code)
        return;
    y[0] = flx_matmul(s->g, d.u, d.vh);
    y[1] = flx_matmul(s->g, flxi_scale_columns(s, flxi_adjoint(s, d.vh), d.s), d.vh);
}

/* Shared by both modes: with D = U^H X V the derivative of u along X, and its adjoint, are
   U E(D) V^H + (I - U U^H) X V S^-1 V^H + U S^-1 U^H X (I - V V^H), E being their only difference. */
typedef struct {
    flx_val u, uh, v, vh;
    flx_val inverse_s;
    flx_val inverse_sums; /* 1 / (s[i] + s[j]) */
    bool tall, wide;
} parts;

static parts parts_of(flxi_site *s)
{
    flx_graph *g = s->g;
    singular d = singular_of(s);
    parts p = {.u = d.u, .vh = d.vh};
    if (g->error.code)
        return p;
    const flx_type *a = flxi_typeof(s, s->x[0]);
    flx_dim k = flxi_typeof(s, d.s)->dims[a->rank - 2];
    p.tall = a->dims[a->rank - 2] != k;
    p.wide = a->dims[a->rank - 1] != k;
    p.uh = flxi_adjoint(s, d.u);
    p.v = flxi_adjoint(s, d.vh);
    flx_val least = flxi_negligible(s, d.s);
    flx_val sums = flx_add(g, flxi_as_row(s, d.s), flxi_as_column(s, d.s));
    flx_val ok = flx_gt(g, sums, flxi_as_column(s, least));
    p.inverse_s = flxi_guarded_inverse(s, flx_gt(g, d.s, least), d.s);
    p.inverse_sums = flxi_among(s, flxi_guarded_inverse(s, ok, sums), d.u);
    return p;
}

static flx_val along(flxi_site *s, const parts *p, flx_val x, bool adjoint)
{
    flx_graph *g = s->g;
    flx_val xv = flx_matmul(g, x, p->v);
    flx_val d = flx_matmul(g, p->uh, xv);
    flx_val e = adjoint ? flxi_twice_skew(s, flx_mul(g, d, p->inverse_sums))
                        : flx_mul(g, flxi_twice_skew(s, d), p->inverse_sums);
    flx_val y = flxi_product3(s, p->u, e, p->vh);
    if (p->tall) {
        flx_val rest = flx_sub(g, xv, flx_matmul(g, p->u, d));
        y = flx_add(g, y, flx_matmul(g, flxi_scale_columns(s, rest, p->inverse_s), p->vh));
    }
    if (p->wide) {
        flx_val rest = flx_sub(g, flx_matmul(g, p->uh, x), flx_matmul(g, d, p->vh));
        y = flx_add(g, y, flx_matmul(g, p->u, flxi_scale_rows(s, rest, p->inverse_s)));
    }
    return y;
}

/* p = u^H a */
static void jvp_polar(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    parts p = parts_of(s);
    if (g->error.code)
        return;
    ty[0] = along(s, &p, tx[0], false);
    ty[1] = flx_add(g, flx_matmul(g, flxi_adjoint(s, ty[0]), s->x[0]), flx_matmul(g, flxi_adjoint(s, s->y[0]), tx[0]));
}

static void vjp_polar(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    parts p = parts_of(s);
    if (g->error.code)
        return;
    flx_val du = dy[0];
    if (!flxi_is_none(dy[1]))
        du = flxi_sum(s, du, flx_matmul(g, s->x[0], flxi_adjoint(s, dy[1])));
    dx[0] = along(s, &p, du, true);
    if (!flxi_is_none(dy[1]))
        dx[0] = flx_add(g, dx[0], flx_matmul(g, s->y[0], dy[1]));
}

static const flxi_sample samples_polar[] = {
    {"T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]", NULL, NULL, FLX_OK},
    {"T[N, N]", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[2, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2]", NULL, NULL, FLX_OK},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"i32[2, 2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_polar = {
    .infer = infer_polar,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_polar,
    .vjp = vjp_polar,
    .jvp = jvp_polar,
    .batch = flxi_batch_matrices,
    .samples = samples_polar,
    .work = flxi_work_decomposed,
    .link = flxi_link_matrices,
};

/* ---- cond ---- */

static flx_code infer_cond(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    flx_dim k = 0;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_smaller_dim(f, a, &k));
    f->out[0] = flx_type_make((flx_dtype)flxi_part_dtype(a->dtype), a->rank - 2, a->dims);
    return FLX_OK;
}

static void decompose_cond(flxi_site *s, flx_val *y)
{
    singular d = singular_of(s);
    int64_t last = flxi_typeof(s, d.s)->rank - 1;
    flx_ints axes = {&last, 1};
    y[0] = flx_div(s->g, flx_reduce_max(s->g, d.s, axes, 0), flx_reduce_min(s->g, d.s, axes, 0));
}

static const flxi_sample samples_cond[] = {
    {"T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 2, 3]", NULL, NULL, FLX_OK},
    {"T[N, N]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[2, 0, 2]", NULL, NULL, FLX_OK},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"i32[2, 2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_cond = {
    .infer = infer_cond,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_cond,
    .samples = samples_cond,
    .work = flxi_work_decomposed,
};
