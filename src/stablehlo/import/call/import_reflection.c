/* SPDX-License-Identifier: Apache-2.0 */
/* import_reflection.c: QR factors as reflections, the form in which LAPACK keeps and exchanges them.

   The factorisation is a scan over the columns: step k reflects column k onto the axis k and applies the reflection to
   the columns after it. With pivots the longest of the columns from k on comes first; the Hessenberg form reflects
   column k onto the axis k + 1 and applies the reflection from both sides. The product of reflections is 1 − V T V^H
   with the triangle T = (1 + D striu(V^H V))^-1 D, D being the taus on a diagonal; a tau of 0, which means no
   reflection, needs no exception in it. */
#include "graph/type/type.h"
#include "stablehlo/import/rule/import_linalg.h"
#include "stablehlo/import/rule/import_region.h"

#include <math.h>

/* ---- One step of the factorisation ---- */

typedef struct {
    flx_graph *g;
    bool is_complex;
    flx_dtype dtype;
    flx_val a;                /* [.., m, n] */
    flx_val at, below;        /* rows [m, 1]: the axis, after it */
    flx_val column;           /* columns [1, n]: their numbers */
    flx_val on_column, after; /* k, after k */
    flx_val tau, v, beta;     /* of this step: [1, 1], [m, 1], [1, 1] */
} reflection;

typedef enum { REFLECT_QR, REFLECT_PIVOTED, REFLECT_HESSENBERG } reflection_kind;

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

static flx_val column_of(const reflection *r, flx_val is_column, flx_val a)
{
    return flx_reduce_sum(r->g, masked(r, is_column, a), columns_axis, 1);
}

/* The column is reflected onto beta e_k: beta has the sign opposite to the real part of its element k, so that nothing
   cancels; a column that is there already is left alone, with tau = 0. */
static void find_reflection(reflection *r)
{
    flx_graph *g = r->g;
    flx_val x = column_of(r, r->on_column, r->a);
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
    r->beta = flx_where(g, done, alpha, beta);
    flx_val divisor = flx_where(g, done, number(r, 1), beta);
    r->tau = flx_where(g, done, number(r, 0), flx_div(g, flx_sub(g, beta, alpha), divisor));
    flx_val gap = flx_where(g, done, number(r, 1), flx_sub(g, alpha, beta));
    r->v = flx_where(g, r->at, number(r, 1), flx_div(g, tail, gap));
}

/* The columns after k reflected, and v kept in column k. */
static flx_val from_left(const reflection *r)
{
    flx_graph *g = r->g;
    flx_val along = flx_reduce_sum(g, flx_mul(g, conjugated(r, r->v), r->a), rows_axis, 1);
    flx_val turned = flx_sub(g, r->a, flx_mul(g, flx_mul(g, conjugated(r, r->tau), r->v), along));
    flx_val column = flx_where(g, r->at, r->beta, flx_where(g, r->below, r->v, r->a));
    return flx_where(g, r->after, turned, flx_where(g, r->on_column, column, r->a));
}

/* v is 0 in the columns up to k: what is kept there neither counts nor changes. */
static flx_val from_right(const reflection *r, flx_val a)
{
    flx_graph *g = r->g;
    const flx_type *t = flx_val_type(g, a);
    int64_t perm[FLX_MAX_RANK];
    for (int i = 0; t && i < t->rank; i++)
        perm[i] = i < t->rank - 2 ? i : 2 * t->rank - 3 - i;
    flx_val row = conjugated(r, flx_transpose(g, r->v, (flx_ints){perm, t ? (size_t)t->rank : 0}));
    return flx_sub(g, a, flx_mul(g, flx_mul(g, r->tau, flx_matmul(g, a, r->v)), row));
}

/* Column k, and its entry of `order`, exchanged with the first fixed column from k on, whose entry is negative; after
   the fixed ones, with the longest. */
static void bring_longest(reflection *r, flx_val *order)
{
    flx_graph *g = r->g;
    flx_val rest = masked(r, flx_or(g, r->at, r->below), r->a);
    flx_val length = flx_norm(g, rest, 2, rows_axis, 1);
    const flx_type *t = flx_val_type(g, length);
    flx_dtype real = t ? (flx_dtype)t->dtype : r->dtype;
    flx_val none = flx_scalar(g, real, -1), is_fixed = flx_lt(g, *order, flx_scalar(g, FLX_I32, 0));
    length = flx_where(g, is_fixed, flx_scalar(g, real, INFINITY), length);
    flx_val counts = flx_or(g, r->on_column, r->after);
    flx_val longest = flx_argmax(g, flx_where(g, counts, length, none), -1, 1, FLX_I64);
    flx_val is_longest = flx_eq(g, r->column, longest);
    r->a = flx_where(g, r->on_column, column_of(r, is_longest, r->a),
                     flx_where(g, is_longest, column_of(r, r->on_column, r->a), r->a));
    flx_val zero = flx_scalar(g, FLX_I32, 0);
    flx_val first = flx_reduce_sum(g, flx_where(g, r->on_column, *order, zero), columns_axis, 1);
    flx_val other = flx_reduce_sum(g, flx_where(g, is_longest, *order, zero), columns_axis, 1);
    *order = flx_where(g, r->on_column, other, flx_where(g, is_longest, first, *order));
}

static flx_val line(flx_graph *g, flx_dim rows, flx_dim columns, int axis)
{
    flx_type t = flx_type_make(FLX_I64, 2, (const flx_dim[]){rows, columns});
    return flx_iota(g, &t, axis);
}

static void place(reflection *r, const flx_type *type, flx_val k, reflection_kind kind)
{
    flx_graph *g = r->g;
    flx_val row = line(g, type->dims[type->rank - 2], 1, 0);
    flx_val axis = kind == REFLECT_HESSENBERG ? flx_add(g, k, flx_scalar(g, FLX_I64, 1)) : k;
    r->column = line(g, 1, type->dims[type->rank - 1], 1);
    r->at = flx_eq(g, row, axis);
    r->below = flx_gt(g, row, axis);
    r->on_column = flx_eq(g, r->column, k);
    r->after = flx_gt(g, r->column, k);
}

/* Carries: the matrix, and with pivots the order of its columns [.., 1, n]. */
static const flx_graph *step_body(hlo_site *s, const flx_type *type, const flx_type *order_type, reflection_kind kind)
{
    flx_graph *g = flxi_hlo_new_body(s);
    if (!g)
        return NULL;
    flx_type index = flx_type_make(FLX_I64, 0, NULL);
    reflection r = {.g = g, .dtype = (flx_dtype)type->dtype, .is_complex = flxi_is_complex(type->dtype)};
    r.a = flxi_hlo_body_input(g, 0, type);
    flx_val order = order_type ? flxi_hlo_body_input(g, 1, order_type) : FLX_NONE;
    flx_val k = flxi_hlo_body_input(g, order_type ? 2 : 1, &index);
    place(&r, type, k, kind);
    if (order_type)
        bring_longest(&r, &order);
    find_reflection(&r);
    flx_val a = from_left(&r);
    flx_output(g, kind == REFLECT_HESSENBERG ? from_right(&r, a) : a, "a");
    if (order_type)
        flx_output(g, order, "order");
    flx_output(g, flx_squeeze(g, r.tau, FLX_INTS(-2, -1)), "tau");
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

/* 1, 2 … for each matrix, [.., 1, n]; negative where `fixed` is not zero. */
static flx_val first_order(hlo_site *s, const flx_type *matrix, flx_val fixed)
{
    flx_type t = *matrix;
    t.dtype = FLX_I32;
    t.dims[t.rank - 2] = 1;
    flx_val zero = flx_scalar(s->g, flxi_hlo_dtype(s, fixed), 0);
    flx_val is_fixed = flx_ne(s->g, flx_unsqueeze(s->g, fixed, FLX_INTS(-2)), zero);
    flx_val order = flx_add(s->g, flx_iota(s->g, &t, t.rank - 1), flx_scalar(s->g, FLX_I32, 1));
    return flx_where(s->g, is_fixed, flx_neg(s->g, order), order);
}

/* order: NULL, or what fixes columns [.., n] before, and their order afterwards, counted from 1. */
static void reflect(hlo_site *s, flx_val a, reflection_kind kind, flx_val *packed, flx_val *order, flx_val *taus)
{
    flx_graph *g = s->g;
    if (!flxi_hlo_need_matrix(s, a))
        return;
    const flx_type t = *flxi_hlo_typeof(s, a);
    flx_dim m = t.dims[t.rank - 2];
    flx_dim n = t.dims[t.rank - 1];
    if (!flx_dim_is_static(m) || !flx_dim_is_static(n)) {
        flxi_hlo_unsupported(s, "reflections of a matrix whose extents are not known");
        return;
    }
    flx_dim count = kind == REFLECT_HESSENBERG ? (n ? n - 1 : 0) : m < n ? m : n;
    flx_type steps = flx_type_make(FLX_I64, 1, &count);
    size_t carries = order ? 2 : 1;
    flx_val operands[3] = {a, order ? first_order(s, &t, *order) : FLX_NONE};
    flx_val results[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    operands[carries] = flx_iota(g, &steps, 0);
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = step_body(s, &t, order ? flxi_hlo_typeof(s, operands[1]) : NULL, kind);
    attrs.num_carry = (int64_t)carries;
    if (!attrs.body)
        return;
    flx_scan_with(g, operands, carries + 1, results, carries + 1, &attrs);
    *packed = results[0];
    if (order)
        *order = flx_abs(g, flx_squeeze(g, results[1], FLX_INTS(-2)));
    *taus = first_axis_last(s, results[carries]);
}

void flxi_hlo_reflect(hlo_site *s, flx_val a, flx_val *packed, flx_val *taus)
{
    reflect(s, a, REFLECT_QR, packed, NULL, taus);
}

void flxi_hlo_reflect_pivoted(hlo_site *s, flx_val a, flx_val fixed, flx_val *packed, flx_val *order, flx_val *taus)
{
    *order = fixed;
    reflect(s, a, REFLECT_PIVOTED, packed, order, taus);
}

void flxi_hlo_hessenberg(hlo_site *s, flx_val a, flx_val *packed, flx_val *taus)
{
    reflect(s, a, REFLECT_HESSENBERG, packed, NULL, taus);
}

/* The vectors [.., m, k] and the triangle T [.., k, k] of a product of reflections. */
static bool factors_of(hlo_site *s, flx_val packed, flx_val taus, flx_val *vectors, flx_val *triangle)
{
    flx_graph *g = s->g;
    if (!flxi_hlo_need_matrix(s, packed))
        return false;
    const flx_type *t = flxi_hlo_typeof(s, packed);
    const flx_type *tau_type = flxi_hlo_typeof(s, taus);
    flx_dim m = t->dims[t->rank - 2];
    flx_dim k = tau_type->rank ? tau_type->dims[tau_type->rank - 1] : 0;
    flx_val below = flx_tril(g, flx_narrow(g, packed, -1, 0, k), -1);
    *vectors = flx_add(g, below, flx_eye(g, m, k, 0, (flx_dtype)t->dtype));
    flx_val above = flx_triu(g, flx_matmul(g, flxi_hlo_adjoint(s, *vectors), *vectors), 1);
    flx_val system = flx_mul(g, flx_unsqueeze(g, taus, FLX_INTS(-1)), above);
    hlo_triangular how = {.left_side = true, .lower = false, .unit_diagonal = true, .trans = "none"};
    *triangle = flxi_hlo_solve_triangular(s, system, flx_diag_set(g, taus), &how);
    return true;
}

flx_val flxi_hlo_apply_reflections(hlo_site *s, flx_val packed, flx_val taus, flx_val c, bool left, bool is_adjoint)
{
    flx_graph *g = s->g;
    flx_val v, t;
    if (!factors_of(s, packed, taus, &v, &t))
        return FLX_NONE;
    flx_val vh = flxi_hlo_adjoint(s, v);
    if (is_adjoint)
        t = flxi_hlo_adjoint(s, t);
    flx_val change = left ? flx_matmul(g, v, flx_matmul(g, t, flx_matmul(g, vh, c)))
                          : flx_matmul(g, flx_matmul(g, flx_matmul(g, c, v), t), vh);
    return flx_sub(g, c, change);
}

flx_val flxi_hlo_reflected(hlo_site *s, flx_val packed, flx_val taus, flx_dim columns)
{
    flx_graph *g = s->g;
    flx_val v, triangle;
    if (!factors_of(s, packed, taus, &v, &triangle))
        return FLX_NONE;
    const flx_type *t = flxi_hlo_typeof(s, packed);
    flx_val part = flx_narrow(g, flxi_hlo_adjoint(s, v), -1, 0, columns);
    flx_val turn = flx_matmul(g, v, flx_matmul(g, triangle, part));
    return flx_sub(g, flx_eye(g, t->dims[t->rank - 2], columns, 0, (flx_dtype)t->dtype), turn);
}
