/* SPDX-License-Identifier: Apache-2.0 */
/* export_matrix.c: linear algebra in terms of StableHLO's triangular_solve, cholesky and loops. See export_rules.h.

   StableHLO has no pivoted elimination and no reflections, so lu and qr are written as scans over their columns.
   Matrices are reshaped to [batch, rows, columns] first, whatever leading axes they have. */
#include "stablehlo/export/export_rules.h"

typedef struct {
    flx_dim batch, rows, columns;
    flx_dtype dtype;
} extents;

static extents extents_of(const flx_type *t)
{
    return (extents){flxi_static_extent(t, 0, t->rank - 2), t->dims[t->rank - 2], t->dims[t->rank - 1],
                     (flx_dtype)t->dtype};
}

flx_val flxi_export_in_batch(flxi_site *s, flx_val v)
{
    extents e = extents_of(flxi_typeof(s, v));
    return flxi_reshape_to(s, v, 3, (flx_dim[]){e.batch, e.rows, e.columns});
}

flx_val flxi_export_adjoint(flxi_site *s, flx_val v)
{
    int rank = flxi_typeof(s, v)->rank;
    int64_t perm[FLX_MAX_RANK];
    if (rank < 2)
        return v; /* the graph holds the error */
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return flxi_conj(s, flx_transpose(s->g, v, (flx_ints){perm, (size_t)rank}));
}

static flx_val identity_like(flxi_site *s, flx_val v)
{
    const flx_type *t = flxi_typeof(s, v);
    if (t->rank < 2)
        return v; /* the graph holds the error */
    flx_val one = flx_eye(s->g, t->dims[t->rank - 2], t->dims[t->rank - 1], 0, (flx_dtype)t->dtype);
    return flxi_expand_to(s, one, t->rank, t->dims);
}

/* ---- Triangles ---- */

/* What is read is the Hermitian part, what is given has zeros on the other side. A matrix that is not positive
   definite gives NaN everywhere. */
void flxi_export_as_cholesky(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val a = s->x[0];
    if (export_is_empty(flxi_typeof(s, a))) {
        y[0] = a;
        return;
    }
    flx_val mean = flx_mul(g, flx_add(g, a, flxi_export_adjoint(s, a)), flxi_number(s, a, 0.5));
    flx_val l = flxi_emit1(s, NULL, &mean, 1);
    int rank = flxi_typeof(s, l)->rank;
    l = site_int(s, "lower") ? flx_tril(g, l, 0) : flx_triu(g, l, 0);
    flx_val sound = flx_reduce_sum(g, flx_mul(g, l, flxi_number(s, l, 0.0)), FLX_INTS(rank - 2, rank - 1), 1);
    y[0] = flx_add(g, l, sound); /* 0, or NaN */
}

/* Both operands with the same leading axes; a vector is a matrix of one column (or row) meanwhile. */
void flxi_export_as_solve_triangular(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_type a = *flxi_typeof(s, s->x[0]);
    flx_type b = *flxi_typeof(s, s->x[1]);
    bool vector = b.rank == a.rank - 1;
    bool left = site_int(s, "left_side");
    int at = left ? b.rank : b.rank - 1;
    flx_val sides = vector ? flx_unsqueeze(g, s->x[1], FLX_INTS(at)) : s->x[1];
    b = *flxi_typeof(s, sides);
    if (s->g->error.code)
        return;
    int rank = a.rank > b.rank ? a.rank : b.rank;
    flx_type lead = {.dtype = a.dtype, .rank = rank};
    for (int i = 0; i < rank - 2; i++) {
        flx_dim da = i < rank - a.rank ? 1 : a.dims[i - (rank - a.rank)];
        flx_dim db = i < rank - b.rank ? 1 : b.dims[i - (rank - b.rank)];
        lead.dims[i] = da == 1 ? db : da;
    }
    flx_type full_a = lead;
    flx_type full_b = lead;
    for (int i = 1; i <= 2; i++) {
        full_a.dims[rank - i] = a.dims[a.rank - i];
        full_b.dims[rank - i] = b.dims[b.rank - i];
    }
    flx_val x[2] = {flxi_expand_like(s, s->x[0], &full_a), flxi_expand_like(s, sides, &full_b)};
    flx_val v = export_is_empty(&full_b) ? flxi_zeros(s, &full_b) : flxi_emit1(s, NULL, x, 2);
    y[0] = vector ? flx_squeeze(g, v, FLX_INTS(left ? rank - 1 : rank - 2)) : v;
}

/* ---- Scans over columns ---- */

/* The body of a scan: carries a and b (none: b's type NULL), then the number of the step. */
typedef struct {
    flxi_site in; /* its graph is the body's */
    flx_val a, b, k;
    flx_type batch_rows; /* i64 [batch, rows] */
} column_step;

static bool step_begin(column_step *c, flxi_site *s, extents e, const flx_type *a, const flx_type *b)
{
    flx_type number = flx_type_make(FLX_I64, 0, NULL);
    *c = (column_step){.in = *s};
    c->in.g = flx_graph_new(s->ctx, "step");
    if (!c->in.g) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return false;
    }
    c->a = flx_input(c->in.g, "a", a);
    c->b = flx_input(c->in.g, "b", b);
    c->k = flx_input(c->in.g, "k", &number);
    c->batch_rows = flx_type_make(FLX_I64, 2, (flx_dim[]){e.batch, e.rows});
    return true;
}

/* Runs the steps; out receives the two carries, then what else each step returns. */
static void run_steps(flxi_site *s, column_step *c, flx_val a, flx_val b, flx_dim steps, flx_val *out, size_t count)
{
    flx_type numbers = flx_type_make(FLX_I64, 1, &steps);
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = c->in.g;
    attrs.num_carry = 2;
    if (c->in.g->error.code)
        flxi_graph_fail(s->g, &c->in.g->error);
    flx_scan_with(s->g, (flx_val[]){a, b, flx_iota(s->g, &numbers, 0)}, 3, out, count, &attrs);
    flx_graph_release(c->in.g);
}

static flx_val rows_numbered(column_step *c)
{
    return flx_iota(c->in.g, &c->batch_rows, 1);
}

/* Column k as [batch, rows]. */
static flx_val column(column_step *c, flx_val a, extents e)
{
    flx_val zero = flx_scalar(c->in.g, FLX_I64, 0.0);
    flx_val x[4] = {a, zero, zero, c->k};
    flx_val v = flx_dynamic_slice(c->in.g, x, 4, FLX_INTS(e.batch, e.rows, 1));
    return flxi_reshape_to(&c->in, v, 2, (flx_dim[]){e.batch, e.rows});
}

/* Row k as [batch, 1, columns]. */
static flx_val row(column_step *c, flx_val a, extents e)
{
    flx_val zero = flx_scalar(c->in.g, FLX_I64, 0.0);
    flx_val x[4] = {a, zero, c->k, zero};
    return flx_dynamic_slice(c->in.g, x, 4, FLX_INTS(e.batch, 1, e.columns));
}

static flx_val as_column(column_step *c, flx_val v)
{
    return flx_unsqueeze(c->in.g, v, FLX_INTS(2));
}

/* What pivots are compared by. */
static flx_val size_of(flx_graph *g, flx_val v, extents e)
{
    if (!flxi_is_complex(e.dtype))
        return flx_abs(g, v);
    return flx_add(g, flx_abs(g, flx_real(g, v)), flx_abs(g, flx_imag(g, v)));
}

/* ---- lu ---- */

/* Exchanges row k with the row of the largest element on or below it, and subtracts multiples of it from those below.
   */
static void write_elimination(column_step *c, extents e)
{
    flx_graph *g = c->in.g;
    flx_val at = rows_numbered(c);
    flx_val size = size_of(g, column(c, c->a, e), e);
    flx_val open = flx_where(g, flx_ge(g, at, c->k), size, flxi_number(&c->in, size, -1.0));
    flx_val pivot = flx_cast(g, flx_argmax(g, open, 1, 1, FLX_I32), FLX_I64); /* [batch, 1] */
    flx_val exchanged = flx_where(g, flx_eq(g, at, c->k), pivot, flx_where(g, flx_eq(g, at, pivot), c->k, at));
    flx_val positions = flxi_expand_to(&c->in, as_column(c, exchanged), 3, (flx_dim[]){e.batch, e.rows, e.columns});
    flx_val a = flx_take_along(g, c->a, positions, 1, "clamp");
    flx_val perm = flx_take_along(g, c->b, exchanged, 1, "clamp");

    flx_val top = row(c, a, e);
    flx_val head =
        flx_dynamic_slice(g, ((flx_val[]){top, flx_scalar(g, FLX_I64, 0.0), flx_scalar(g, FLX_I64, 0.0), c->k}), 4,
                          FLX_INTS(e.batch, 1, 1));
    flx_val zero = flxi_number(&c->in, head, 0.0);
    flx_val none = flx_eq(g, head, zero);
    flx_val divisor = flx_where(g, none, flxi_number(&c->in, head, 1.0), head);
    flx_val below = as_column(c, flx_gt(g, at, c->k));
    flx_val factor = flx_div(g, as_column(c, column(c, a, e)), divisor);
    factor = flx_where(g, flx_or(g, none, flx_not(g, below)), zero, factor);
    flx_type line = flx_type_make(FLX_I64, 3, (flx_dim[]){1, 1, e.columns});
    flx_val to_the_right = flx_gt(g, flx_iota(g, &line, 2), c->k);
    flx_val here = flx_eq(g, flx_iota(g, &line, 2), c->k);
    flx_val reduced = flx_where(g, to_the_right, flx_sub(g, a, flx_mul(g, factor, top)), a);
    flx_output(g, flx_where(g, below, flx_where(g, here, factor, reduced), a), NULL);
    flx_output(g, perm, NULL);
    flx_output(g, flxi_reshape_to(&c->in, flx_cast(g, pivot, FLX_I32), 1, &e.batch), NULL);
}

void flxi_export_as_lu(flxi_site *s, flx_val *y)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    extents e = extents_of(t);
    flx_dim steps = e.rows < e.columns ? e.rows : e.columns;
    flx_type matrix = flx_type_make(e.dtype, 3, (flx_dim[]){e.batch, e.rows, e.columns});
    flx_type order = flx_type_make(FLX_I32, 2, (flx_dim[]){e.batch, e.rows});
    flx_type pivots = flx_type_make(FLX_I32, t->rank - 1, t->dims);
    flx_type perm = pivots;
    flx_val out[3] = {s->x[0], FLX_NONE, FLX_NONE};
    column_step c;
    pivots.dims[t->rank - 2] = steps;
    flx_val start = flx_iota(s->g, &order, 1);
    if (export_is_empty(t)) {
        y[0] = s->x[0];
        y[1] = flxi_zeros(s, &pivots);
        y[2] = flxi_reshape_to(s, start, perm.rank, perm.dims);
        return;
    }
    if (!step_begin(&c, s, e, &matrix, &order))
        return;
    write_elimination(&c, e);
    run_steps(s, &c, flxi_export_in_batch(s, s->x[0]), start, steps, out, 3);
    y[0] = flxi_reshape_to(s, out[0], t->rank, t->dims);
    y[1] = flxi_reshape_to(s, flx_transpose(s->g, out[2], FLX_INTS(1, 0)), pivots.rank, pivots.dims);
    y[2] = flxi_reshape_to(s, out[1], perm.rank, perm.dims);
}

/* ---- What is read off lu ---- */

void flxi_export_as_solve(flxi_site *s, flx_val *y)
{
    flx_val lu[3];
    flx_lu(s->g, s->x[0], lu);
    y[0] = flx_lu_solve(s->g, lu[0], lu[2], s->x[1], "none");
}

void flxi_export_as_inv(flxi_site *s, flx_val *y)
{
    bool none = export_is_empty(flxi_typeof(s, s->x[0]));
    y[0] = none ? s->x[0] : flx_solve(s->g, s->x[0], identity_like(s, s->x[0]));
}

void flxi_export_as_det(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val lu[3];
    flx_lu(g, s->x[0], lu);
    flx_val diagonal = flx_diag(g, lu[0], 0);
    const flx_type *rows = flxi_typeof(s, lu[1]);
    flx_val exchanged = flx_ne(g, lu[1], flx_iota(g, rows, rows->rank - 1));
    flx_val turned = flx_where(g, exchanged, flx_neg(g, diagonal), diagonal);
    y[0] = flx_reduce_prod(g, turned, FLX_INTS(rows->rank - 1), 0);
}

/* det(a) a^-1 without dividing by a pivot, by the recursion of Faddeev and LeVerrier: m = a m - tr(a m)/k for k = 1,
   2 … */
void flxi_export_as_adjugate(flxi_site *s, flx_val *y)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    extents e = extents_of(t);
    flx_dtype wide = e.dtype == FLX_F32 ? FLX_F64 : e.dtype == FLX_C64 ? FLX_C128 : e.dtype;
    flx_type matrix = flx_type_make(wide, 3, (flx_dim[]){e.batch, e.rows, e.rows});
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    column_step c;
    if (export_is_empty(t)) {
        y[0] = s->x[0];
        return;
    }
    flx_val a = flx_cast(s->g, flxi_export_in_batch(s, s->x[0]), wide);
    flx_val one = identity_like(s, a);
    if (e.rows > 1) {
        if (!step_begin(&c, s, e, &matrix, &matrix))
            return;
        flx_graph *g = c.in.g;
        flx_val product = flx_matmul(g, c.b, c.a);
        flx_val round = flx_add(g, c.k, flx_scalar(g, FLX_I64, 1.0));
        flx_val share = flx_div(g, flx_trace(g, product), flx_cast(g, round, wide));
        flx_val shift = flx_mul(g, flx_unsqueeze(g, share, FLX_INTS(1, 2)), identity_like(&c.in, product));
        flx_output(g, flx_sub(g, shift, product), NULL); /* the sign alternates: (-1)^(n-1) in the end */
        flx_output(g, c.b, NULL);
        run_steps(s, &c, one, a, e.rows - 1, out, 2);
        one = out[0];
    }
    y[0] = flxi_reshape_to(s, flx_cast(s->g, one, e.dtype), t->rank, t->dims);
}

/* The matrix as a dense one. */
void flxi_export_as_sparse_solve(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_ints rows = site_ints(s, "rows");
    flx_ints cols = site_ints(s, "cols");
    flx_dim n = site_int(s, "n");
    flx_type pairs = flx_type_make(FLX_I64, 2, (flx_dim[]){(flx_dim)rows.n, 2});
    flx_type matrix = flx_type_make((flx_dtype)flxi_typeof(s, s->x[0])->dtype, 2, (flx_dim[]){n, n});
    flx_tensor *positions = flx_tensor_new(s->ctx, &pairs, NULL, NULL);
    if (!positions) {
        flxi_graph_failf(g, FLX_E_OOM, NULL, "out of memory: a rule");
        return;
    }
    for (size_t i = 0; i < rows.n; i++) {
        ((int64_t *)positions->data)[2 * i] = rows.v[i];
        ((int64_t *)positions->data)[2 * i + 1] = cols.v[i];
    }
    flx_scatter_nd_attrs a = FLX_SCATTER_ND_ATTRS;
    a.start_index_map = a.collapsed_axes = FLX_INTS(0, 1);
    flx_val dense = flx_scatter_nd_with(g, flxi_zeros(s, &matrix), flx_const(g, &pairs, positions), s->x[0], &a);
    flx_tensor_release(positions);
    y[0] = flx_solve(g, dense, s->x[1]);
}

/* ---- qr ---- */

flx_val flxi_export_phase(flxi_site *in, flx_val v)
{
    flx_graph *g = in->g;
    flx_val zero = flx_eq(g, v, flxi_number(in, v, 0.0));
    return flx_where(g, zero, flxi_number(in, v, 1.0), flx_sign(g, v));
}

/* A real tensor with the dtype of another, which may be complex. */
static flx_val cast_like(flxi_site *in, flx_val v, flx_val like)
{
    return flx_cast(in->g, v, (flx_dtype)flxi_typeof(in, like)->dtype);
}

/* a - 2 v (v^H a) / |v|^2 */
static flx_val reflected(flxi_site *in, flx_val a, flx_val v, flx_val scale)
{
    flx_val inner = flx_matmul(in->g, flxi_export_adjoint(in, v), a);
    return flx_sub(in->g, a, flx_matmul(in->g, flx_mul(in->g, v, scale), inner));
}

/* One reflection that makes column k zero below the diagonal; the carries are r and q^H. */
static void write_reflection(column_step *c, extents e)
{
    flx_graph *g = c->in.g;
    flx_val at = rows_numbered(c);
    flx_val x = column(c, c->a, e);
    flx_val zero = flxi_number(&c->in, x, 0.0);
    x = flx_where(g, flx_ge(g, at, c->k), x, zero);
    bool is_complex = flxi_is_complex(e.dtype);
    flx_val square = flx_reduce_sum(g, is_complex ? flx_complex_norm_sq(g, x) : flx_square(g, x), FLX_INTS(1), 1);
    flx_val here = flx_eq(g, at, c->k);
    flx_val head = flx_reduce_sum(g, flx_where(g, here, x, zero), FLX_INTS(1), 1);
    flx_val reach = flx_mul(g, flxi_export_phase(&c->in, head), cast_like(&c->in, flx_sqrt(g, square), head));
    flx_val v = flx_where(g, here, flx_add(g, x, reach), x);
    flx_val length = flx_reduce_sum(g, is_complex ? flx_complex_norm_sq(g, v) : flx_square(g, v), FLX_INTS(1), 1);
    flx_val none = flx_eq(g, length, flxi_number(&c->in, length, 0.0));
    flx_val safe = flx_where(g, none, flxi_number(&c->in, length, 1.0), length);
    flx_val scale = cast_like(&c->in, flx_div(g, flxi_number(&c->in, length, 2.0), safe), head);
    flx_val scale3 = as_column(c, scale);
    flx_output(g, reflected(&c->in, c->a, as_column(c, v), scale3), NULL);
    flx_output(g, reflected(&c->in, c->b, as_column(c, v), scale3), NULL);
}

void flxi_export_as_qr(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    extents e = extents_of(t);
    flx_dim steps = e.rows < e.columns ? e.rows : e.columns;
    flx_type matrix = flx_type_make(e.dtype, 3, (flx_dim[]){e.batch, e.rows, e.columns});
    flx_type square = flx_type_make(e.dtype, 3, (flx_dim[]){e.batch, e.rows, e.rows});
    flx_type tq = *t;
    flx_type tr = *t;
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    column_step c;
    tq.dims[t->rank - 1] = steps;
    tr.dims[t->rank - 2] = steps;
    if (export_is_empty(t)) {
        y[0] = flxi_zeros(s, &tq);
        y[1] = flxi_zeros(s, &tr);
        return;
    }
    if (!step_begin(&c, s, e, &matrix, &square))
        return;
    write_reflection(&c, e);
    run_steps(s, &c, flxi_export_in_batch(s, s->x[0]), identity_like(s, flxi_zeros(s, &square)), steps, out, 2);
    flx_val r = flx_triu(g, flx_narrow(g, out[0], 1, 0, steps), 0);
    flx_val qh = flx_narrow(g, out[1], 1, 0, steps);
    flx_val turn =
        flx_unsqueeze(g, flxi_conj(s, flxi_export_phase(s, flx_diag(g, r, 0))), FLX_INTS(2)); /* a positive diagonal */
    y[0] = flxi_reshape_to(s, flxi_export_adjoint(s, flx_mul(g, turn, qh)), tq.rank, tq.dims);
    y[1] = flxi_reshape_to(s, flx_mul(g, turn, r), tr.rank, tr.dims);
}
