/* SPDX-License-Identifier: Apache-2.0 */
/* import_reflection.c: QR factors as reflections, the form in which LAPACK keeps and exchanges them.

   The factorisation is a scan over the columns: step k reflects column k onto the axis k and applies the reflection to
   the columns after it. The product of reflections is 1 − V T V^H with the triangle T = (1 + D striu(V^H V))^-1 D, D
   being the taus on a diagonal; a tau of 0, which stands for no reflection, needs no exception in it. */
#include "graph/type/type.h"
#include "stablehlo/import/rule/import_linalg.h"
#include "stablehlo/import/rule/import_region.h"

/* ---- One step of the factorisation ---- */

typedef struct {
    flx_graph *g;
    bool is_complex;
    flx_dtype dtype;
    flx_val a;                /* [.., m, n] */
    flx_val at, below;        /* rows [m, 1]: k, after k */
    flx_val on_column, after; /* columns [1, n]: k, after k */
} reflection;

static const flx_ints rows_axis = {(const int64_t[]){-2}, 1};
static const flx_ints columns_axis = {(const int64_t[]){-1}, 1};

static flx_val number(const reflection *r, double x)
{
    return flx_scalar(r->g, r->dtype, x);
}

static flx_val masked(const reflection *r, flx_val mask, flx_val x)
{
    return flx_where(r->g, mask, x, number(r, 0));
}

static flx_val conjugated(const reflection *r, flx_val x)
{
    return r->is_complex ? flx_conjugate(r->g, x) : x;
}

static flx_val real_of(const reflection *r, flx_val x)
{
    return r->is_complex ? flx_real(r->g, x) : x;
}

/* A real number in the dtype of the matrix. */
static flx_val as_element(const reflection *r, flx_val x)
{
    return r->is_complex ? flx_cast(r->g, x, r->dtype) : x;
}

/* The column is reflected onto beta e_k: beta has the sign opposite to the real part of its element k, so that nothing
   cancels; a column that is there already is left alone, with tau = 0. */
static flx_val step(const reflection *r, flx_val *tau)
{
    flx_graph *g = r->g;
    flx_val x = flx_reduce_sum(g, masked(r, r->on_column, r->a), columns_axis, 1);
    flx_val alpha = flx_reduce_sum(g, masked(r, r->at, x), rows_axis, 1);
    flx_val tail = masked(r, r->below, x);
    flx_val rest = flx_norm(g, tail, 2, rows_axis, 1);
    flx_val length = flx_norm(g, flx_add(g, tail, masked(r, r->at, x)), 2, rows_axis, 1);
    flx_val zero = flx_scalar(g, flx_val_type(g, rest) ? (flx_dtype)flx_val_type(g, rest)->dtype : r->dtype, 0);
    flx_val done = flx_eq(g, rest, zero);
    if (r->is_complex)
        done = flx_and(g, done, flx_eq(g, flx_imag(g, alpha), zero));
    flx_val is_negative = flx_lt(g, real_of(r, alpha), zero);
    flx_val beta = as_element(r, flx_where(g, is_negative, length, flx_neg(g, length)));
    beta = flx_where(g, done, alpha, beta);
    flx_val divisor = flx_where(g, done, number(r, 1), beta);
    *tau = flx_where(g, done, number(r, 0), flx_div(g, flx_sub(g, beta, alpha), divisor));
    flx_val gap = flx_where(g, done, number(r, 1), flx_sub(g, alpha, beta));
    flx_val v = flx_where(g, r->at, number(r, 1), flx_div(g, tail, gap));
    flx_val along = flx_reduce_sum(g, flx_mul(g, conjugated(r, v), r->a), rows_axis, 1);
    flx_val turned = flx_sub(g, r->a, flx_mul(g, flx_mul(g, conjugated(r, *tau), v), along));
    flx_val column = flx_where(g, r->at, beta, flx_where(g, r->below, v, r->a));
    return flx_where(g, r->after, turned, flx_where(g, r->on_column, column, r->a));
}

static flx_val line(flx_graph *g, flx_dim rows, flx_dim columns, int axis)
{
    flx_type t = flx_type_make(FLX_I64, 2, (const flx_dim[]){rows, columns});
    return flx_iota(g, &t, axis);
}

static const flx_graph *step_body(hlo_site *s, const flx_type *type)
{
    flx_graph *g = flxi_hlo_new_body(s);
    if (!g)
        return NULL;
    flx_type index = flx_type_make(FLX_I64, 0, NULL);
    reflection r = {.g = g, .dtype = (flx_dtype)type->dtype, .is_complex = flxi_is_complex(type->dtype)};
    r.a = flxi_hlo_body_input(g, 0, type);
    flx_val k = flxi_hlo_body_input(g, 1, &index);
    flx_val row = line(g, type->dims[type->rank - 2], 1, 0);
    flx_val column = line(g, 1, type->dims[type->rank - 1], 1);
    r.at = flx_eq(g, row, k);
    r.below = flx_gt(g, row, k);
    r.on_column = flx_eq(g, column, k);
    r.after = flx_gt(g, column, k);
    flx_val tau = FLX_NONE;
    flx_output(g, step(&r, &tau), "a");
    flx_output(g, flx_squeeze(g, tau, FLX_INTS(-2, -1)), "tau");
    return flxi_hlo_finished(s, g);
}

/* ---- Factors ---- */

/* Axis 0 after the others. */
static flx_val first_axis_last(hlo_site *s, flx_val x)
{
    int rank = flxi_hlo_typeof(s, x)->rank;
    int64_t perm[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = (i + 1) % rank;
    return flx_transpose(s->g, x, (flx_ints){perm, (size_t)rank});
}

void flxi_hlo_reflect(hlo_site *s, flx_val a, flx_val *packed, flx_val *taus)
{
    const flx_type *t = flxi_hlo_typeof(s, a);
    if (!flxi_hlo_need_matrix(s, a))
        return;
    flx_dim m = t->dims[t->rank - 2];
    flx_dim n = t->dims[t->rank - 1];
    if (!flx_dim_is_static(m) || !flx_dim_is_static(n)) {
        flxi_hlo_unsupported(s, "reflections of a matrix whose extents are not known");
        return;
    }
    flx_type steps = flx_type_make(FLX_I64, 1, (const flx_dim[]){m < n ? m : n});
    flx_val operands[2] = {a, flx_iota(s->g, &steps, 0)};
    flx_val results[2] = {FLX_NONE, FLX_NONE};
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = step_body(s, t);
    attrs.num_carry = 1;
    if (!attrs.body)
        return;
    flx_scan_with(s->g, operands, 2, results, 2, &attrs);
    *packed = results[0];
    *taus = first_axis_last(s, results[1]);
}

flx_val flxi_hlo_reflected(hlo_site *s, flx_val packed, flx_val taus, flx_dim columns)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_hlo_typeof(s, packed);
    const flx_type *tau_type = flxi_hlo_typeof(s, taus);
    flx_dtype d = (flx_dtype)t->dtype;
    if (!flxi_hlo_need_matrix(s, packed))
        return FLX_NONE;
    flx_dim m = t->dims[t->rank - 2];
    flx_dim k = tau_type->rank ? tau_type->dims[tau_type->rank - 1] : 0;
    flx_val below = flx_tril(g, flx_narrow(g, packed, -1, 0, k), -1);
    flx_val v = flx_add(g, below, flx_eye(g, m, k, 0, d));
    flx_val vh = flxi_hlo_adjoint(s, v);
    flx_val above = flx_triu(g, flx_matmul(g, vh, v), 1);
    flx_val system = flx_mul(g, flx_unsqueeze(g, taus, FLX_INTS(-1)), above);
    hlo_triangular how = {.left_side = true, .lower = false, .unit_diagonal = true, .trans = "none"};
    flx_val triangle = flxi_hlo_solve_triangular(s, system, flx_diag_set(g, taus), &how);
    flx_val turn = flx_matmul(g, v, flx_matmul(g, triangle, flx_narrow(g, vh, -1, 0, columns)));
    return flx_sub(g, flx_eye(g, m, columns, 0, d), turn);
}
