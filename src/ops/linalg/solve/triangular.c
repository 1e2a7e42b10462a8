/* SPDX-License-Identifier: Apache-2.0 */
/* triangular.c: solve_triangular. Only one triangle of the matrix is read, and only it has a derivative. */
#include "ops/linalg/matrix_work.h"
#include "ops/linalg/solve/linear_system.h"

#include <fluxion/run.h>

typedef struct {
    int64_t lower, trans, unit_diagonal, left_side;
} triangular_attrs;

static const flxi_attr triangular_schema[] = {
    A_BOOL(triangular_attrs, lower, 1),
    A_WORD(triangular_attrs, trans, FLXI_TRANS_WORDS),
    A_BOOL(triangular_attrs, unit_diagonal, 0),
    A_BOOL(triangular_attrs, left_side, 1),
    A_END,
};

static flx_code infer_triangular(flxi_infer *f)
{
    const triangular_attrs *a = f->attrs;
    return flxi_infer_system(f, 0, 1, a->left_side, &f->out[0]);
}

flxi_triangle flxi_system_triangle(bool lower, flxi_trans trans, bool unit, bool left, int64_t n)
{
    bool is_turned = (trans != FLXI_TRANS_NONE) == left;
    return (flxi_triangle){.n = n,
                           .row = is_turned ? 1 : n,
                           .col = is_turned ? n : 1,
                           .lower = lower != is_turned,
                           .unit = unit,
                           .conjugated = trans == FLXI_TRANS_ADJOINT};
}

static flxi_triangle triangle_of(const triangular_attrs *a, int64_t n)
{
    return flxi_system_triangle(a->lower, (flxi_trans)a->trans, a->unit_diagonal, a->left_side, n);
}

static flx_code solve_triangles(flxi_eval *e, flxi_arena *scratch)
{
    flxi_systems w;
    if (!flxi_systems_begin(&w, e->in[0], e->in[1], e->out[0], ((const triangular_attrs *)e->attrs)->left_side))
        return FLX_OK;
    const flxi_dense *d = flxi_dense_for(w.a.dtype);
    flxi_triangle how = triangle_of(e->attrs, w.n);
    void *t = flxi_arena_alloc(scratch, (size_t)(w.n * w.n), d->size, _Alignof(max_align_t));
    void *b = flxi_arena_alloc(scratch, (size_t)(w.n * w.k), d->size, _Alignof(max_align_t));
    if (!t || !b)
        return flxi_oom(e->err, "solving");
    while (flxi_systems_next(&w)) {
        if (!w.same_matrix)
            flxi_matrix_load(t, &w.a, w.n, w.n);
        flxi_matrix_load(b, &w.b, w.n, w.k);
        if (!d->triangular(t, &how, b, w.k))
            e->report(e, FLX_RUN_SINGULAR);
        flxi_matrix_store(&w.y, b, w.n, w.k);
    }
    return FLX_OK;
}

static flx_code eval_triangular(flxi_eval *e)
{
    return flxi_eval_with_scratch(e, solve_triangles);
}

/* ---- Rules ---- */

/* The part of a matrix like t that is read. */
static flx_val read_part(flxi_site *s, flx_val v)
{
    const triangular_attrs *a = s->attrs;
    int64_t k = a->unit_diagonal ? 1 : 0;
    return a->lower ? flx_tril(s->g, v, -k) : flx_triu(s->g, v, k);
}

/* op(v); op is its own inverse, so this is also the matrix whose op is v. */
static flx_val op_of(flxi_site *s, flx_val v)
{
    int64_t trans = ((const triangular_attrs *)s->attrs)->trans;
    return trans == FLXI_TRANS_NONE ? v : trans == FLXI_TRANS_ADJOINT ? flxi_adjoint(s, v) : flxi_transposed(s, v);
}

/* Solves with op(t)^H. */
static flx_val solve_adjoint(flxi_site *s, flx_val g)
{
    triangular_attrs *a = flxi_site_attrs(s);
    flx_val t = s->x[0];
    if (!a)
        return FLX_NONE;
    if (a->trans == FLXI_TRANS_TRANSPOSE)
        t = flxi_conj(s, t);
    a->trans = a->trans == FLXI_TRANS_NONE ? FLXI_TRANS_ADJOINT : FLXI_TRANS_NONE;
    return flxi_emit1(s, a, (flx_val[]){t, g}, 2);
}

/* d_b = op(t)^-H g; the cotangent of op(t) is -d_b x^H, or -x^H d_b for systems in rows. */
static void vjp_triangular(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    bool left = ((const triangular_attrs *)s->attrs)->left_side;
    bool vector = flxi_is_vector_system(flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    flx_val back = s->bodies->restore_zeros(s, solve_adjoint(s, dy[0]));
    if (s->wanted[1])
        dx[1] = flxi_spelled_like(s, back, s->x[1], vector ? 1 : 2);
    if (!s->wanted[0])
        return;
    flx_val sides = flxi_as_sides(s, back, vector, left);
    flx_val x = flxi_as_sides(s, s->bodies->restore_zeros(s, s->y[0]), vector, left);
    flx_val outer = flxi_outer_product(s, left ? sides : x, left ? x : sides, left, flxi_typeof(s, s->x[0])->rank);
    dx[0] = flxi_spelled_like(s, flx_neg(s->g, read_part(s, op_of(s, outer))), s->x[0], 2);
}

/* op(t) x' = b' - op(t') x */
static void jvp_triangular(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    bool left = ((const triangular_attrs *)s->attrs)->left_side;
    bool vector = flxi_is_vector_system(flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    flx_val moved = tx[1];
    if (!flxi_is_none(tx[0])) {
        flx_val x = flxi_as_sides(s, s->y[0], vector, left);
        flx_val t = op_of(s, read_part(s, tx[0]));
        flx_val product = left ? flx_matmul(s->g, t, x) : flx_matmul(s->g, x, t);
        flx_val back = flx_neg(s->g, flxi_as_vectors(s, product, vector, left));
        moved = flxi_sum(s, moved, flxi_spelled_like(s, back, s->y[0], vector ? 1 : 2));
    }
    ty[0] = flxi_emit1(s, NULL, (flx_val[]){s->x[0], moved}, 2);
}

static void batch_triangular(flxi_site *s, flx_val *by)
{
    flxi_batch_system(s, ((const triangular_attrs *)s->attrs)->left_side, by);
}

static const flxi_sample samples_triangular[] = {
    {"T[3, 3]{-1..1+3I}, T[3]", NULL, NULL, FLX_OK},
    {"T[3, 3]{-1..1+3I}, T[3, 2]", "lower=false", NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 1]", "trans=transpose", NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 1]", "trans=adjoint, lower=false", NULL, FLX_OK},
    {"T[2, 2]{-1..1}, T[2, 2]", "unit_diagonal=true", NULL, FLX_OK},
    {"T[2, 2]{-1..1}, T[2]", "unit_diagonal=true, lower=false, trans=transpose", NULL, FLX_OK},
    {"T[3, 3]{-1..1+3I}, T[2, 3]", "left_side=false", NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2]", "left_side=false, trans=adjoint", NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[1, 2]", "left_side=false, trans=transpose, lower=false", NULL, FLX_OK},
    {"T[2, 1, 2, 2]{-1..1+3I}, T[1, 2, 2, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 1, 2]", "left_side=false", NULL, FLX_OK},
    {"T[0, 0], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[2, 2]{-1..1+3I}, T[2, 0]", NULL, NULL, FLX_OK},
    {"T[B, N, N]{-1..1+3I}, T[B, N, K]", NULL, NULL, FLX_OK},
    {"T[N, 3]{-1..1+3I}, T[2, 3]", "left_side=false", NULL, FLX_OK},
    {"T[2, 3], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 3], T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 3], T[3, 2]", "left_side=false", NULL, FLX_E_SHAPE},
    {"T[3, 3], T[3]", "trans=conjugate", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_solve_triangular = {
    .infer = infer_triangular,
    .eval = eval_triangular,
    .vjp = vjp_triangular,
    .jvp = jvp_triangular,
    .batch = batch_triangular,
    .schema = triangular_schema,
    .attrs_size = sizeof(triangular_attrs),
    .samples = samples_triangular,
    .work = flxi_work_triangular,
    .link = flxi_link_system,
};
