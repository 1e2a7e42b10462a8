/* SPDX-License-Identifier: Apache-2.0 */
/* eigen.c: eigenvalues and eigenvectors.

   The derivative of eigenvectors divides by differences of eigenvalues. Differences below 128 units of rounding of the
   largest eigenvalue are treated as zero, and so is the quotient: the vectors of a repeated eigenvalue have no
   derivative, while that of the eigenvalues stays correct.

   Vectors are defined up to a factor, which jacobi.h and schur.h fix; so they are functions of the matrix, and the
   rules are the derivatives of exactly these functions. Where a loss does not depend on the factor, the terms that the
   rules add for it vanish. */
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "graph/op/work.h"
#include "numeric/linalg/jacobi.h"
#include "numeric/linalg/schur.h"
#include "ops/linalg/eigen/eigen_rules.h"
#include "ops/linalg/matrix_work.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

/* ---- Evaluation ---- */

/* Scratch of one matrix: a tensor holds rows, the algorithms take columns. */
typedef struct {
    double _Complex *a, *v, *room, *w;
    double *real_w;
    int64_t n;
} scratch;

static size_t scratch_count(int64_t n)
{
    return 3 * (size_t)n * (size_t)n + 2 * (size_t)n;
}

static flx_code scratch_begin(flxi_eval *e, scratch *m)
{
    const flx_type *t = &e->in[0]->type;
    m->n = t->dims[t->rank - 1];
    size_t square = (size_t)m->n * (size_t)m->n;
    m->a = flxi_alloc(e->mem, scratch_count(m->n), sizeof *m->a);
    if (!m->a)
        return flxi_oom(e->err, e->op->name);
    m->v = m->a + square;
    m->room = m->v + square;
    m->w = m->room + square;
    m->real_w = (double *)(m->w + m->n);
    return FLX_OK;
}

static void load_columns(const flx_tensor *x, int64_t first, int64_t n, double _Complex *a)
{
    for (int64_t i = 0; i < n && !flxi_stopped(); i++)
        for (int64_t j = 0; j < n; j++)
            a[j * n + i] = flxi_load_complex(x->type.dtype, x->data, first + i * n + j);
}

static void store_columns(const flx_tensor *y, int64_t first, int64_t n, const double _Complex *a)
{
    for (int64_t i = 0; i < n && !flxi_stopped(); i++)
        for (int64_t j = 0; j < n; j++)
            flxi_store_complex(y->type.dtype, y->data, first + i * n + j, a[j * n + i]);
}

/* Computes w, which is stored, and v from a. */
typedef void (*find_fn)(scratch *m, bool is_real);

static void find_hermitian(scratch *m, bool is_real)
{
    (void)is_real;
    flxi_jacobi_eigh(m->n, m->a, m->real_w, m->v);
    for (int64_t k = 0; k < m->n; k++)
        m->w[k] = m->real_w[k];
}

static void find_general(scratch *m, bool is_real)
{
    flxi_schur_eig(m->n, m->a, m->w, m->v, m->room, is_real);
}

static flx_code eval_all(flxi_eval *e, find_fn find)
{
    scratch m;
    if (e->in[0]->count == 0)
        return FLX_OK;
    FLXI_TRY(scratch_begin(e, &m));
    for (int64_t b = 0; b < flxi_matrix_count(&e->in[0]->type) && !flxi_stopped(); b++) {
        load_columns(e->in[0], b * m.n * m.n, m.n, m.a);
        find(&m, !flxi_is_complex(e->in[0]->type.dtype));
        for (int64_t k = 0; k < m.n; k++)
            flxi_store_complex(e->out[0]->type.dtype, e->out[0]->data, b * m.n + k, m.w[k]);
        store_columns(e->out[1], b * m.n * m.n, m.n, m.v);
    }
    flxi_free(e->mem, m.a, scratch_count(m.n), sizeof *m.a);
    return FLX_OK;
}

static flx_code eval_eigh(flxi_eval *e)
{
    return eval_all(e, find_hermitian);
}

static flx_code eval_eig_pairs(flxi_eval *e)
{
    return eval_all(e, find_general);
}

/* ---- eigh ---- */

static flx_code infer_eigh(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    FLXI_TRY(flxi_need_square(f, 0));
    f->out[0] = flx_type_make((flx_dtype)flxi_part_dtype(a->dtype), a->rank - 1, a->dims);
    f->out[1] = *a;
    return FLX_OK;
}

/* F[i, j] = 1 / (w[j] - w[i]), 0 where the two count as equal, in the dtype of `like`. */
static flx_val inverse_gaps(flxi_site *s, flx_val w, flx_val like)
{
    flx_val gap = flx_sub(s->g, flxi_as_row(s, w), flxi_as_column(s, w));
    flx_val ok = flx_gt(s->g, flx_abs(s->g, gap), flxi_as_column(s, flxi_negligible(s, w)));
    return flxi_among(s, flxi_guarded_inverse(s, ok, gap), like);
}

/* With C = V^H sym(A') V: w' = diag C, V' = V (F * C), with phases corrected so that the anchors stay real. */
static void jvp_eigh(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    flx_val w = s->y[0];
    flx_val v = s->y[1];
    flx_val c = flxi_product3(s, flxi_adjoint(s, v), flxi_hermitian_part(s, tx[0]), v);
    ty[0] = flxi_real_part(s, flx_diag(g, c, 0));
    ty[1] = flx_matmul(g, v, flx_mul(g, inverse_gaps(s, w, v), c));
    if (!flxi_is_complex(flxi_typeof(s, v)->dtype))
        return;
    flx_val mask = flxi_anchor_mask(s, v);
    flx_val turn = flx_div(g, flx_imag(g, flxi_at_anchors(s, mask, ty[1])), flx_real(g, flxi_at_anchors(s, mask, v)));
    ty[1] = flx_sub(g, ty[1], flx_mul(g, v, flxi_imaginary(s, turn)));
}

/* The cotangent of V' before the phase correction: column k gains i t[k] / v at its anchor, t = Im(sum conj(dv) v). */
static flx_val unturned(flxi_site *s, flx_val v, flx_val dv)
{
    flx_graph *g = s->g;
    int64_t rows = flxi_typeof(s, v)->rank - 2;
    if (!flxi_is_complex(flxi_typeof(s, v)->dtype))
        return dv;
    flx_val mask = flxi_anchor_mask(s, v);
    flx_val t = flx_imag(g, flx_reduce_sum(g, flx_mul(g, flx_conjugate(g, dv), v), (flx_ints){&rows, 1}, 1));
    flx_val turn = flx_div(g, t, flx_real(g, flxi_at_anchors(s, mask, v)));
    return flx_add(g, dv, flxi_masked(s, mask, flxi_imaginary(s, turn)));
}

/* sym(V (diag(dw) + F * (V^H dV)) V^H) */
static void vjp_eigh(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val v = s->y[1];
    flx_val vh = flxi_adjoint(s, v);
    flx_val inner = FLX_NONE;
    if (!flxi_is_none(dy[1]))
        inner = flx_mul(g, inverse_gaps(s, s->y[0], v), flx_matmul(g, vh, unturned(s, v, dy[1])));
    if (flxi_is_none(inner))
        dx[0] = flx_matmul(g, flxi_scale_columns(s, v, dy[0]), vh);
    else
        dx[0] = flxi_product3(s, v, flxi_is_none(dy[0]) ? inner : flxi_add_diagonal(s, inner, dy[0]), vh);
    dx[0] = flxi_hermitian_part(s, dx[0]);
}

/* Both ops take the same matrices. */
static const flxi_sample samples_eigen[] = {
    {"T[3, 3]", NULL, NULL, FLX_OK},        {"T[1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]", NULL, NULL, FLX_OK},     {"T[N, N]", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},        {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},      {"T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[N, N+1]", NULL, NULL, FLX_E_SHAPE}, {"f16[2, 2]", NULL, NULL, FLX_E_DTYPE},
    {"i32[2, 2]", NULL, NULL, FLX_E_DTYPE}, {0},
};

const flxi_rules flxi_rules_eigh = {
    .infer = infer_eigh,
    .eval = eval_eigh,
    .vjp = vjp_eigh,
    .jvp = jvp_eigh,
    .batch = flxi_batch_matrices,
    .samples = samples_eigen,
    .work = flxi_work_eigh,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- eig_pairs ---- */

static flx_code infer_eig(flxi_infer *f)
{
    const flx_type *a = f->in[0];
    flx_dtype dtype = flxi_part_dtype(a->dtype) == FLX_F64 ? FLX_C128 : FLX_C64;
    FLXI_TRY(flxi_need_square(f, 0));
    f->out[0] = flx_type_make(dtype, a->rank - 1, a->dims);
    if (f->nout == 1)
        return FLX_OK;
    f->out[1] = *a;
    f->out[1].dtype = (int32_t)dtype;
    return FLX_OK;
}

static flx_val solve(flxi_site *s, flx_val a, flx_val b)
{
    return flx_op1(s->g, "solve", (const flx_val[]){a, b}, 2, NULL, 0);
}

/* With C = V^-1 A' V: w' = diag C, V' = V (F * C), minus the multiple of each column that keeps its anchor at 1. */
static void jvp_eig_pairs(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    flx_val v = s->y[1];
    flx_val c = solve(s, v, flx_matmul(g, flxi_among(s, tx[0], v), v));
    flx_val moved = flx_matmul(g, v, flx_mul(g, inverse_gaps(s, s->y[0], v), c));
    ty[0] = flx_diag(g, c, 0);
    ty[1] = flx_sub(g, moved, flx_mul(g, v, flxi_at_anchors(s, flxi_anchor_mask(s, v), moved)));
}

/* V^-H (diag(dw) + conj(F) * (V^H dV)) V^H, where the component of each column along V is first subtracted from dV at
   its anchor. */
static void vjp_eig_pairs(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val v = s->y[1];
    flx_val vh = flxi_adjoint(s, v);
    int64_t rows = flxi_typeof(s, v)->rank - 2;
    flx_val inner = FLX_NONE;
    if (!flxi_is_none(dy[1])) {
        flx_val along = flx_reduce_sum(g, flx_mul(g, flx_conjugate(g, v), dy[1]), (flx_ints){&rows, 1}, 1);
        flx_val rest = flx_sub(g, dy[1], flxi_masked(s, flxi_anchor_mask(s, v), along));
        inner = flx_mul(g, flx_conjugate(g, inverse_gaps(s, s->y[0], v)), flx_matmul(g, vh, rest));
    }
    flx_val right = flxi_is_none(inner)   ? flxi_scale_rows(s, vh, dy[0])
                    : flxi_is_none(dy[0]) ? flx_matmul(g, inner, vh)
                                          : flx_matmul(g, flxi_add_diagonal(s, inner, dy[0]), vh);
    dx[0] = solve(s, vh, right);
    if (!flxi_is_complex(flxi_typeof(s, s->x[0])->dtype))
        dx[0] = flx_real(g, dx[0]);
}

const flxi_rules flxi_rules_eig_pairs = {
    .infer = infer_eig,
    .eval = eval_eig_pairs,
    .vjp = vjp_eig_pairs,
    .jvp = jvp_eig_pairs,
    .batch = flxi_batch_matrices,
    .samples = samples_eigen,
    .work = flxi_work_eig,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};

/* ---- eig ---- */

static void decompose_eig(flxi_site *s, flx_val *y)
{
    flx_val pair[2] = {FLX_NONE, FLX_NONE};
    flx_op(s->g, "eig_pairs", s->x, 1, NULL, 0, pair, 2);
    y[0] = pair[0];
}

const flxi_rules flxi_rules_eig = {
    .infer = infer_eig,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_eig,
    .samples = samples_eigen,
    .work = flxi_work_decomposed,
};
