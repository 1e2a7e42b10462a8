/* SPDX-License-Identifier: Apache-2.0 */
/* singular.c: the singular value decomposition and the pseudoinverse.

   As for eigenvectors (eigen.c), the derivative of singular vectors divides by differences of singular values, and
   by the values themselves; differences below 128 units of rounding of the largest one contribute zero. */
#include "ops/linalg/eigen/singular.h"

#include "base/complex_arith.h"
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "numeric/linalg/jacobi.h"
#include "ops/linalg/eigen/eigen_rules.h"
#include "ops/linalg/matrix_work.h"
#include "ops/linalg/solve/linear_system.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

/* ---- Evaluation ---- */

flx_code flxi_singular_begin(flxi_eval *e, flxi_singular *d)
{
    const flx_type *t = &e->in[0]->type;
    d->m = t->dims[t->rank - 2];
    d->n = t->dims[t->rank - 1];
    d->k = d->m < d->n ? d->m : d->n;
    d->room = (size_t)d->k * ((size_t)d->m + (size_t)d->n + 1);
    d->block = flxi_alloc(e->mem, d->room, sizeof *d->block);
    if (!d->block)
        return flxi_oom(e->err, e->op->name);
    d->u = d->block;
    d->v = d->u + d->k * d->m;
    d->s = (double *)(d->v + d->k * d->n);
    return FLX_OK;
}

void flxi_singular_end(flxi_eval *e, flxi_singular *d)
{
    flxi_free(e->mem, d->block, d->room, sizeof *d->block);
}

/* A wide matrix is decomposed through its adjoint. */
void flxi_singular_find(flxi_eval *e, flxi_singular *d, int64_t b)
{
    const flx_tensor *a = e->in[0];
    bool is_wide = d->m < d->n;
    double _Complex *columns = is_wide ? d->v : d->u;
    for (int64_t i = 0; i < d->m && !flxi_stopped(); i++)
        for (int64_t j = 0; j < d->n; j++) {
            double _Complex x = flxi_load_complex(a->type.dtype, a->data, (b * d->m + i) * d->n + j);
            columns[is_wide ? i * d->n + j : j * d->m + i] = is_wide ? conj(x) : x;
        }
    if (is_wide)
        flxi_jacobi_svd(d->n, d->m, d->v, d->s, d->u, true);
    else
        flxi_jacobi_svd(d->m, d->n, d->u, d->s, d->v, false);
}

static flx_code eval_svd(flxi_eval *e)
{
    flxi_singular d;
    int32_t dtype = e->in[0]->type.dtype;
    if (e->in[0]->count == 0)
        return FLX_OK;
    FLXI_TRY(flxi_singular_begin(e, &d));
    for (int64_t b = 0; b < flxi_matrix_count(&e->in[0]->type) && !flxi_stopped(); b++) {
        flxi_singular_find(e, &d, b);
        for (int64_t j = 0; j < d.k && !flxi_stopped(); j++) {
            flxi_store_double(e->out[1]->type.dtype, e->out[1]->data, b * d.k + j, d.s[j]);
            for (int64_t i = 0; i < d.m; i++)
                flxi_store_complex(dtype, e->out[0]->data, (b * d.m + i) * d.k + j, d.u[j * d.m + i]);
            for (int64_t i = 0; i < d.n; i++)
                flxi_store_complex(dtype, e->out[2]->data, (b * d.k + j) * d.n + i, conj(d.v[j * d.n + i]));
        }
    }
    flxi_singular_end(e, &d);
    return FLX_OK;
}

/* ---- svd ---- */

static flx_code infer_svd(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    flx_dim k = 0;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_smaller_dim(f, a, &k));
    f->out[0] = f->out[2] = *a;
    f->out[0].dims[a->rank - 1] = k;
    f->out[2].dims[a->rank - 2] = k;
    f->out[1] = flx_type_make((flx_dtype)flxi_part_dtype(a->dtype), a->rank - 1, a->dims);
    f->out[1].dims[a->rank - 2] = k;
    return FLX_OK;
}

/* Shared by both modes. */
typedef struct {
    flx_val u, uh, s, v, vh;
    flx_val inverse_s; /* 1 / s */
    flx_val gaps;      /* F[i, j] = 1 / (s[j]^2 - s[i]^2) */
    bool is_complex, tall, wide;
} parts;

static parts parts_of(flxi_site *site)
{
    flx_graph *g = site->g;
    const flx_type *a = flxi_typeof(site, site->x[0]);
    parts p = {.u = site->y[0], .s = site->y[1], .vh = site->y[2], .is_complex = flxi_is_complex(a->dtype)};
    const flx_type *s = flxi_typeof(site, p.s);
    if (g->error.code)
        return p;
    p.tall = a->dims[a->rank - 2] != s->dims[s->rank - 1];
    p.wide = a->dims[a->rank - 1] != s->dims[s->rank - 1];
    p.uh = flxi_adjoint(site, p.u);
    p.v = flxi_adjoint(site, p.vh);
    flx_val least = flxi_negligible(site, p.s);
    p.inverse_s = flxi_guarded_inverse(site, flx_gt(g, p.s, least), p.s);
    flx_val row = flxi_as_row(site, p.s);
    flx_val column = flxi_as_column(site, p.s);
    flx_val difference = flx_sub(g, row, column);
    flx_val ok = flx_gt(g, flx_abs(g, difference), flxi_as_column(site, least));
    p.gaps = flxi_among(site, flxi_guarded_inverse(site, ok, flx_mul(g, difference, flx_add(g, row, column))), p.u);
    return p;
}

/* x - q (q^H x): the part of x outside the span of q's columns. */
static flx_val outside(flxi_site *s, flx_val q, flx_val qh, flx_val x)
{
    return flx_sub(s->g, x, flx_matmul(s->g, q, flx_matmul(s->g, qh, x)));
}

static flx_val imaginary_diagonal(flxi_site *s, flx_val m, flx_val inverse_s)
{
    return flxi_imaginary(s, flx_mul(s->g, flx_imag(s->g, flx_diag(s->g, m, 0)), inverse_s));
}

/* With D = U^H A' V: s' = Re diag D; U' = U (F * (D S + S D^H) + i Im diag(D) / S) + (I - U U^H) A' V / S and
   V' = V (F * (S D + D^H S)) + (I - V V^H) A'^H U / S, both with phases corrected so that the anchors of U stay
   real. */
static void jvp_svd(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    parts p = parts_of(s);
    if (g->error.code)
        return;
    flx_val av = flx_matmul(g, tx[0], p.v);
    flx_val d = flx_matmul(g, p.uh, av);
    flx_val dh = flxi_adjoint(s, d);
    flx_val in_u = flx_mul(g, p.gaps, flx_add(g, flxi_scale_columns(s, d, p.s), flxi_scale_rows(s, dh, p.s)));
    flx_val in_v = flx_mul(g, p.gaps, flx_add(g, flxi_scale_rows(s, d, p.s), flxi_scale_columns(s, dh, p.s)));
    if (p.is_complex)
        in_u = flxi_add_diagonal(s, in_u, imaginary_diagonal(s, d, p.inverse_s));
    flx_val tu = flx_matmul(g, p.u, in_u);
    flx_val tv = flx_matmul(g, p.v, in_v);
    if (p.tall)
        tu = flx_add(g, tu, flxi_scale_columns(s, outside(s, p.u, p.uh, av), p.inverse_s));
    if (p.wide) {
        flx_val ahu = flx_matmul(g, flxi_adjoint(s, tx[0]), p.u);
        tv = flx_add(g, tv, flxi_scale_columns(s, outside(s, p.v, p.vh, ahu), p.inverse_s));
    }
    if (p.is_complex) {
        flx_val mask = flxi_anchor_mask(s, p.u);
        flx_val at = flx_real(g, flxi_at_anchors(s, mask, p.u));
        flx_val turn = flxi_imaginary(s, flx_div(g, flx_imag(g, flxi_at_anchors(s, mask, tu)), at));
        tu = flx_sub(g, tu, flx_mul(g, p.u, turn));
        tv = flx_sub(g, tv, flx_mul(g, p.v, turn));
    }
    ty[0] = tu;
    ty[1] = flxi_real_part(s, flx_diag(g, d, 0));
    ty[2] = flxi_adjoint(s, tv);
}

static flx_val sum_imaginary(flxi_site *s, flx_val dz, flx_val z)
{
    int64_t rows = flxi_typeof(s, z)->rank - 2;
    return flx_imag(s->g, flx_reduce_sum(s->g, flx_mul(s->g, flx_conjugate(s->g, dz), z), (flx_ints){&rows, 1}, 1));
}

/* The cotangent of U' before the common phase correction of U and V. */
static flx_val unturned(flxi_site *s, const parts *p, flx_val du, flx_val dv)
{
    flx_graph *g = s->g;
    flx_val t = FLX_NONE;
    if (!p->is_complex)
        return du;
    if (!flxi_is_none(du))
        t = sum_imaginary(s, du, p->u);
    if (!flxi_is_none(dv))
        t = flxi_sum(s, t, sum_imaginary(s, dv, p->v));
    flx_val mask = flxi_anchor_mask(s, p->u);
    flx_val turn = flx_div(g, t, flx_real(g, flxi_at_anchors(s, mask, p->u)));
    return flxi_sum(s, du, flxi_expand_like(s, flxi_masked(s, mask, flxi_imaginary(s, turn)), flxi_typeof(s, p->u)));
}

/* U (F * (U^H dU - dU^H U) S + S (F * (V^H dV - dV^H V)) + diag(ds + i Im diag(U^H dU) / S)) V^H, and the parts
   outside: (I - U U^H) dU S^-1 V^H + U S^-1 dV^H (I - V V^H). */
static void vjp_svd(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    parts p = parts_of(s);
    if (g->error.code)
        return;
    flx_val dv = flxi_is_none(dy[2]) ? FLX_NONE : flxi_adjoint(s, dy[2]);
    bool vectors = !flxi_is_none(dy[0]) || !flxi_is_none(dv);
    if (!vectors) {
        dx[0] = flx_matmul(g, flxi_scale_columns(s, p.u, dy[1]), p.vh);
        return;
    }
    flx_val du = unturned(s, &p, dy[0], dv);
    flx_val inner = FLX_NONE;
    flx_val rest = FLX_NONE;
    if (!flxi_is_none(du)) {
        flx_val m = flx_matmul(g, p.uh, du);
        inner = flxi_scale_columns(s, flx_mul(g, p.gaps, flxi_twice_skew(s, m)), p.s);
        if (p.is_complex)
            inner = flxi_add_diagonal(s, inner, imaginary_diagonal(s, m, p.inverse_s));
        if (p.tall)
            rest = flx_matmul(g, flxi_scale_columns(s, outside(s, p.u, p.uh, du), p.inverse_s), p.vh);
    }
    if (!flxi_is_none(dv)) {
        flx_val m = flx_matmul(g, p.vh, dv);
        inner = flxi_sum(s, inner, flxi_scale_rows(s, flx_mul(g, p.gaps, flxi_twice_skew(s, m)), p.s));
        if (p.wide) {
            flx_val beside = flxi_scale_columns(s, outside(s, p.v, p.vh, dv), p.inverse_s);
            rest = flxi_sum(s, rest, flx_matmul(g, p.u, flxi_adjoint(s, beside)));
        }
    }
    if (!flxi_is_none(dy[1]))
        inner = flxi_add_diagonal(s, inner, dy[1]);
    dx[0] = flxi_sum(s, flxi_product3(s, p.u, inner, p.vh), rest);
}

#define MATRIX_ERRORS                                                          \
    {"T[3]", NULL, NULL, FLX_E_SHAPE}, {"f16[2, 2]", NULL, NULL, FLX_E_DTYPE}, \
    {                                                                          \
        "i32[2, 2]", NULL, NULL, FLX_E_DTYPE                                   \
    }

static const flxi_sample samples_svd[] = {
    {"T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_OK},
    {"T[3, 3]", NULL, NULL, FLX_OK},
    {"T[1, 1]{1..2}", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]", NULL, NULL, FLX_OK},
    {"T[N, N]", NULL, NULL, FLX_OK},
    {"T[N+1, N]", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3, 0]", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_E_UNBOUND_DIM},
    MATRIX_ERRORS,
    {0},
};

const flxi_rules flxi_rules_svd = {
    .infer = infer_svd,
    .eval = eval_svd,
    .vjp = vjp_svd,
    .jvp = jvp_svd,
    .batch = flxi_batch_matrices,
    .samples = samples_svd,
    .work = flxi_work_svd,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- pinv ---- */

typedef struct {
    double rcond; /* NaN: max(m, n) eps */
} pinv_attrs;

static const flxi_attr pinv_schema[] = {A_REAL_OPT(pinv_attrs, rcond, "none"), A_END};

static flx_code infer_pinv(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    double rcond = ((const pinv_attrs *)f->attrs)->rcond;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    if (rcond < 0.0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "rcond=%g is negative", rcond);
    f->out[0] = *a;
    f->out[0].dims[a->rank - 2] = a->dims[a->rank - 1];
    f->out[0].dims[a->rank - 1] = a->dims[a->rank - 2];
    return FLX_OK;
}

static double cutoff(const flxi_eval *e, const flxi_singular *d)
{
    double rcond = ((const pinv_attrs *)e->attrs)->rcond;
    double eps = flxi_part_dtype(e->in[0]->type.dtype) == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    return isnan(rcond) ? eps * (double)(d->m > d->n ? d->m : d->n) : rcond;
}

/* Element (i, j) of v diag(1/s) u^H. */
static double _Complex inverse_element(const flxi_singular *d, double least, int64_t i, int64_t j)
{
    double _Complex sum = 0.0;
    for (int64_t k = 0; k < d->k; k++)
        if (!(d->s[k] <= least))
            sum += flxi_cmul(d->v[k * d->n + i], conj(d->u[k * d->m + j])) / d->s[k];
    return sum;
}

static flx_code eval_pinv(flxi_eval *e)
{
    flxi_singular d;
    if (e->in[0]->count == 0)
        return FLX_OK;
    FLXI_TRY(flxi_singular_begin(e, &d));
    for (int64_t b = 0; b < flxi_matrix_count(&e->in[0]->type) && !flxi_stopped(); b++) {
        flxi_singular_find(e, &d, b);
        double least = cutoff(e, &d) * d.s[0];
        for (int64_t i = 0; i < d.n && !flxi_stopped(); i++)
            for (int64_t j = 0; j < d.m; j++)
                flxi_store_complex(e->out[0]->type.dtype, e->out[0]->data, (b * d.n + i) * d.m + j,
                                   inverse_element(&d, least, i, j));
    }
    flxi_singular_end(e, &d);
    return FLX_OK;
}

/* -Y A' Y + Y Y^H A'^H (I - A Y) + (I - Y A) A'^H Y^H Y */
static void jvp_pinv(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    flx_val a = s->x[0];
    flx_val y = s->y[0];
    flx_val yh = flxi_adjoint(s, y);
    flx_val th = flxi_adjoint(s, tx[0]);
    flx_val left = flx_matmul(g, y, flx_matmul(g, yh, th));
    flx_val right = flx_matmul(g, flx_matmul(g, th, yh), y);
    flx_val inside = flxi_product3(s, y, tx[0], y);
    ty[0] = flx_sub(g, flx_sub(g, left, flx_matmul(g, flx_matmul(g, left, a), y)), inside);
    ty[0] = flx_add(g, ty[0], flx_sub(g, right, flx_matmul(g, y, flx_matmul(g, a, right))));
}

/* The adjoint: -Y^H G Y^H + (I - A Y) G^H Y Y^H + Y^H Y G^H (I - Y A) */
static void vjp_pinv(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val a = s->x[0];
    flx_val y = s->y[0];
    flx_val yh = flxi_adjoint(s, y);
    flx_val gh = flxi_adjoint(s, dy[0]);
    flx_val left = flx_matmul(g, flx_matmul(g, gh, y), yh);
    flx_val right = flx_matmul(g, yh, flx_matmul(g, y, gh));
    flx_val inside = flxi_product3(s, yh, dy[0], yh);
    dx[0] = flx_sub(g, flx_sub(g, left, flx_matmul(g, a, flx_matmul(g, y, left))), inside);
    dx[0] = flx_add(g, dx[0], flx_sub(g, right, flx_matmul(g, flx_matmul(g, right, y), a)));
}

static const flxi_sample samples_pinv[] = {
    {"T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3]", "rcond=1e-3", NULL, FLX_OK},
    {"T[2, 2, 2]", NULL, NULL, FLX_OK},
    {"T[N, M]", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3, 0]", NULL, NULL, FLX_OK},
    {"T[2, 2]", "rcond=-1", NULL, FLX_E_ATTRIBUTE},
    MATRIX_ERRORS,
    {0},
};

const flxi_rules flxi_rules_pinv = {
    .infer = infer_pinv,
    .eval = eval_pinv,
    .schema = pinv_schema,
    .attrs_size = sizeof(pinv_attrs),
    .vjp = vjp_pinv,
    .jvp = jvp_pinv,
    .batch = flxi_batch_matrices,
    .samples = samples_pinv,
    .work = flxi_work_svd,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- lstsq ---- */

static flx_code infer_lstsq(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    const flx_type *b = f->in[1];
    flxi_type_text ta, tb;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_need_rank(f, 1, 1));
    bool vector = flxi_is_vector_system(a, b);
    flx_dim rows = b->dims[b->rank - (vector || b->rank < 2 ? 1 : 2)];
    if ((!vector && b->rank < 2) || !flxi_dims_may_equal(f, a->dims[a->rank - 2], rows))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "b must have as many rows as a: a is %s, b is %s",
                               flxi_shape_str(f->ctx, a, &ta), flxi_shape_str(f->ctx, b, &tb));
    flx_type lead[2] = {*a, *b};
    lead[0].rank -= 2;
    lead[1].rank -= vector ? 1 : 2;
    f->out[0].dtype = a->dtype;
    FLXI_TRY(flxi_broadcast(f, (const flx_type *const[]){&lead[0], &lead[1]}, 2, &f->out[0]));
    f->out[0].dims[f->out[0].rank++] = a->dims[a->rank - 1];
    if (!vector)
        f->out[0].dims[f->out[0].rank++] = b->dims[b->rank - 1];
    return FLX_OK;
}

static void decompose_lstsq(flxi_site *s, flx_val *y)
{
    bool vector = flxi_is_vector_system(flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    flx_val inverse = flx_op1(s->g, "pinv", s->x, 1, NULL, 0);
    flx_val sides = flxi_as_sides(s, s->x[1], vector, true);
    y[0] = flxi_as_vectors(s, flx_matmul(s->g, inverse, sides), vector, true);
}

static const flxi_sample samples_lstsq[] = {
    {"T[3, 2], T[3]", NULL, NULL, FLX_OK},
    {"T[3, 2], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3, 2], T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[4, 2, 1]", NULL, NULL, FLX_OK},
    {"T[N, 2], T[N, M]", NULL, NULL, FLX_OK},
    {"T[3, 0], T[3]", NULL, NULL, FLX_OK},
    {"T[0, 2], T[0, 3]", NULL, NULL, FLX_OK},
    {"T[3, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 2], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 2], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"f32[3, 2], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_lstsq = {
    .infer = infer_lstsq,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_lstsq,
    .samples = samples_lstsq,
    .work = flxi_work_decomposed,
};
