/* SPDX-License-Identifier: Apache-2.0 */
/* export_spectrum.c: eigenvalues, singular values and the exponential of matrices as loops over rotations and
   squarings. See export_rules.h.

   StableHLO has nothing of the kind. Jacobi's method needs only arithmetic: a step rotates n/2 disjoint pairs of
   columns at once, each so that its product becomes zero, and n - 1 steps, a sweep, meet every pair once: in step t, i
   meets the j with i + j = 2t modulo n - 1, as in a tournament. Matrices are [batch, rows, columns], in f64 whatever
   their dtype. */
#include "stablehlo/export/export_rules.h"

#include <float.h>
#include <math.h>

static flx_dtype wide_of(int32_t dtype)
{
    return flxi_is_complex(dtype) ? FLX_C128 : FLX_F64;
}

static flx_val wide_batch(flxi_site *s, flx_val v)
{
    return flx_cast(s->g, flxi_export_in_batch(s, v), wide_of(flxi_typeof(s, v)->dtype));
}

/* [batch, 1, 1]: 0 for a matrix of finite elements, else NaN, which is what all results of such a matrix are. */
static flx_val taint(flxi_site *s, flx_val a)
{
    return flx_reduce_sum(s->g, flx_sub(s->g, a, a), FLX_INTS(1, 2), 1);
}

/* A result of a dtype in a shape. */
static flx_val shaped(flxi_site *s, flx_val v, int32_t dtype, const flx_type *t)
{
    return flx_cast(s->g, flxi_reshape_to(s, v, t->rank, t->dims), (flx_dtype)dtype);
}

static flx_val real_part(flxi_site *s, flx_val v)
{
    return flxi_is_complex(flxi_typeof(s, v)->dtype) ? flx_real(s->g, v) : v;
}

static flx_val like(flxi_site *s, flx_val v, flx_val other)
{
    return flx_cast(s->g, v, (flx_dtype)flxi_typeof(s, other)->dtype);
}

static flx_val squares(flxi_site *s, flx_val v)
{
    return flxi_is_complex(flxi_typeof(s, v)->dtype) ? flx_complex_norm_sq(s->g, v) : flx_square(s->g, v);
}

static flx_val identity(flxi_site *s, flx_dim batch, flx_dim n, flx_dtype dtype)
{
    return flxi_expand_to(s, flx_eye(s->g, n, n, 0, dtype), 3, (flx_dim[]){batch, n, n});
}

/* ---- Rotations ---- */

/* The partner of each of n columns in step k: i64[n]; the column itself where it has none. */
static flx_val partners(flxi_site *s, flx_val k, flx_dim n)
{
    flx_graph *g = s->g;
    bool is_odd = n % 2;
    flx_dim rounds = is_odd ? n : n - 1;
    flx_type line = flx_type_make(FLX_I64, 1, &n);
    flx_val i = flx_iota(g, &line, 0);
    flx_val m = flx_scalar(g, FLX_I64, (double)rounds);
    flx_val t = flx_rem(g, k, m);
    flx_val j = flx_mod(g, flx_sub(g, flx_add(g, t, t), i), m);
    flx_val met = flx_where(g, flx_eq(g, i, j), is_odd ? i : m, j);
    return is_odd ? met : flx_where(g, flx_eq(g, i, m), t, met);
}

typedef struct {
    flx_val partner;
    flx_val cosine; /* [batch, n], of the matrix's dtype: the factor of each column */
    flx_val sine;   /* and that of its partner */
} rotation;

/* The change under which the product h of each column with its partner becomes 0; a: products with themselves. */
static rotation rotation_of(flxi_site *s, flx_val partner, flx_val a, flx_val h, flx_dim n)
{
    flx_graph *g = s->g;
    flx_type line = flx_type_make(FLX_I64, 1, &n);
    flx_val i = flx_iota(g, &line, 0);
    flx_val zero = flx_scalar(g, FLX_F64, 0.0);
    flx_val one = flx_scalar(g, FLX_F64, 1.0);
    flx_val size = flx_abs(g, h);
    flx_val rests = flx_or(g, flx_eq(g, size, zero), flx_eq(g, i, partner));
    flx_val twice = flx_where(g, rests, one, flx_mul(g, size, flx_scalar(g, FLX_F64, 2.0)));
    flx_val tau = flx_div(g, flx_sub(g, flx_gather(g, a, partner, 1, "clamp"), a), twice);
    flx_val first =
        flx_where(g, flx_lt(g, i, partner), one, flx_neg(g, one)); /* of equal columns the lower one rotates forward */
    flx_val side = flx_where(g, flx_eq(g, tau, zero), first, flx_sign(g, tau));
    flx_val root = flx_sqrt(g, flx_add(g, one, flx_square(g, tau)));
    flx_val t = flx_where(g, rests, zero, flx_div(g, side, flx_add(g, flx_abs(g, tau), root)));
    flx_val c = flx_rsqrt(g, flx_add(g, one, flx_square(g, t)));
    flx_val sine = flx_mul(g, like(s, flx_neg(g, flx_mul(g, t, c)), h), flxi_conj(s, flxi_export_phase(s, h)));
    return (rotation){partner, like(s, c, h), sine};
}

static flx_val rotate_columns(flxi_site *s, flx_val v, const rotation *r)
{
    flx_graph *g = s->g;
    flx_val other = flx_gather(g, v, r->partner, 2, "clamp");
    flx_val c = flx_unsqueeze(g, r->cosine, FLX_INTS(1));
    return flx_add(g, flx_mul(g, v, c), flx_mul(g, other, flx_unsqueeze(g, r->sine, FLX_INTS(1))));
}

static flx_val rotate_rows(flxi_site *s, flx_val v, const rotation *r)
{
    flx_graph *g = s->g;
    flx_val other = flx_gather(g, v, r->partner, 1, "clamp");
    flx_val c = flx_unsqueeze(g, r->cosine, FLX_INTS(2));
    flx_val t = flx_unsqueeze(g, flxi_conj(s, r->sine), FLX_INTS(2));
    return flx_add(g, flx_mul(g, v, c), flx_mul(g, other, t));
}

/* Rotates the columns of a, and its rows where it is Hermitian, until they are orthogonal; v collects the rotations. */
static void run_sweeps(flxi_site *s, flx_val *a, flx_val *v, bool hermitian)
{
    const flx_type *ta = flxi_typeof(s, *a);
    const flx_type *tv = flxi_typeof(s, *v);
    flx_dim n = ta->dims[2];
    flx_dim sweeps = 10 + (n > 1 ? (flx_dim)log2((double)n) : 0);
    flx_dim steps = (n % 2 ? n : n - 1) * sweeps;
    flx_type counter = flx_type_make(FLX_I64, 0, NULL);
    flx_type numbers = flx_type_make(FLX_I64, 1, &steps);
    flx_graph *body = flx_graph_new(s->ctx, "rotate");
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    if (n < 2 || !body) {
        if (!body)
            flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        flx_graph_release(body);
        return;
    }
    flxi_site in = *s;
    in.g = body;
    flx_val x = flx_input(body, "a", ta);
    flx_val w = flx_input(body, "v", tv);
    flx_val partner = partners(&in, flx_input(body, "k", &counter), n);
    flx_val other = flx_gather(body, x, partner, 2, "clamp");
    flx_val own =
        hermitian ? real_part(&in, flx_diag(body, x, 0)) : flx_reduce_sum(body, squares(&in, x), FLX_INTS(1), 0);
    flx_val mixed = hermitian ? flx_diag(body, other, 0)
                              : flx_reduce_sum(body, flx_mul(body, flxi_conj(&in, x), other), FLX_INTS(1), 0);
    rotation r = rotation_of(&in, partner, own, mixed, n);
    flx_val turned = rotate_columns(&in, x, &r);
    flx_output(body, hermitian ? rotate_rows(&in, turned, &r) : turned, NULL);
    flx_output(body, rotate_columns(&in, w, &r), NULL);
    if (body->error.code)
        flxi_graph_fail(s->g, &body->error);
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = body;
    attrs.num_carry = 2;
    flx_scan_with(s->g, (flx_val[]){*a, *v, flx_iota(s->g, &numbers, 0)}, 3, out, 2, &attrs);
    flx_graph_release(body);
    *a = out[0];
    *v = out[1];
}

/* ---- Order and phase ---- */

/* Columns of v in an order, [batch, n]. */
static flx_val ordered(flxi_site *s, flx_val v, flx_val order)
{
    const flx_type *t = flxi_typeof(s, v);
    flx_val at = flx_unsqueeze(s->g, order, FLX_INTS(1));
    return flx_take_along(s->g, v, flxi_expand_to(s, at, 3, t->dims), 2, "clamp");
}

/* What makes the first component of at least half the largest modulus of each column real and positive: [batch, 1,
   n]. */
static flx_val anchor_phase(flxi_site *s, flx_val v)
{
    flx_graph *g = s->g;
    flx_val size = flx_sqrt(g, squares(s, v));
    flx_val half = flx_mul(g, flx_reduce_max(g, size, FLX_INTS(1), 1), flx_scalar(g, FLX_F64, 0.5));
    flx_val at = flx_argmax(g, flx_ge(g, size, half), 1, 1, FLX_I32);
    return flxi_conj(s, flxi_export_phase(s, flx_take_along(g, v, at, 1, "clamp")));
}

/* ---- eigh ---- */

void flxi_export_as_eigh(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_type values = flx_type_make((flx_dtype)flxi_part_dtype(t->dtype), t->rank - 1, t->dims);
    if (export_is_empty(t)) {
        y[0] = flxi_zeros(s, &values);
        y[1] = s->x[0];
        return;
    }
    flx_val a = wide_batch(s, s->x[0]);
    a = flx_mul(g, flx_add(g, a, flxi_export_adjoint(s, a)), flxi_number(s, a, 0.5));
    const flx_type *b = flxi_typeof(s, a);
    flx_val bad = taint(s, a);
    flx_val v = flx_add(g, identity(s, b->dims[0], b->dims[1], (flx_dtype)b->dtype), bad);
    a = flx_add(g, a, bad);
    run_sweeps(s, &a, &v, true);
    flx_val w = real_part(s, flx_diag(g, a, 0));
    flx_val order = flx_argsort(g, w, 1, 1, 0, FLX_I32);
    v = ordered(s, v, order);
    y[0] = shaped(s, flx_take_along(g, w, order, 1, "clamp"), values.dtype, &values);
    y[1] = shaped(s, flx_mul(g, v, anchor_phase(s, v)), t->dtype, t);
}

/* ---- svd ---- */

typedef struct {
    flx_val u, s, v; /* of [batch, m, n]: [batch, m, k], [batch, k], [batch, n, k]; in f64 or c128 */
} singular;

/* Of a matrix with at least as many rows as columns; u is orthonormal also where singular values are 0. */
static singular tall_svd(flxi_site *s, flx_val a)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, a);
    flx_val bad = taint(s, a);
    flx_val v = flx_add(g, identity(s, t->dims[0], t->dims[2], (flx_dtype)t->dtype), bad);
    a = flx_add(g, a, bad);
    run_sweeps(s, &a, &v, false);
    flx_val size = flx_sqrt(g, flx_reduce_sum(g, squares(s, a), FLX_INTS(1), 0));
    flx_val order = flx_argsort(g, size, 1, 1, 1, FLX_I32);
    size = flx_take_along(g, size, order, 1, "clamp");
    flx_val least = flx_mul(g, flx_reduce_max(g, size, FLX_INTS(1), 1), flx_scalar(g, FLX_F64, DBL_EPSILON));
    flx_val none = flx_le(g, size, least);
    flx_val inverse = flx_where(g, none, flx_scalar(g, FLX_F64, 0.0), flx_div(g, flx_scalar(g, FLX_F64, 1.0), size));
    flx_val u = flx_mul(g, ordered(s, a, order), like(s, flx_unsqueeze(g, inverse, FLX_INTS(1)), a));
    flx_val qr[2];
    flx_qr(g, u, qr);
    return (singular){qr[0], size, ordered(s, v, order)};
}

static singular svd_of(flxi_site *s, flx_val x)
{
    flx_graph *g = s->g;
    flx_val a = wide_batch(s, x);
    const flx_type *t = flxi_typeof(s, a);
    bool is_wide = t->dims[1] < t->dims[2];
    singular d = tall_svd(s, is_wide ? flxi_export_adjoint(s, a) : a);
    if (is_wide)
        d = (singular){d.v, d.s, d.u};
    flx_val turn = anchor_phase(s, d.u);
    return (singular){flx_mul(g, d.u, turn), d.s, flx_mul(g, d.v, turn)};
}

void flxi_export_as_svd(flxi_site *s, flx_val *y)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_dim k = t->dims[t->rank - 2] < t->dims[t->rank - 1] ? t->dims[t->rank - 2] : t->dims[t->rank - 1];
    flx_type u = *t;
    flx_type vt = *t;
    flx_type values = flx_type_make((flx_dtype)flxi_part_dtype(t->dtype), t->rank - 1, t->dims);
    u.dims[t->rank - 1] = vt.dims[t->rank - 2] = values.dims[t->rank - 2] = k;
    if (export_is_empty(t)) {
        y[0] = flxi_zeros(s, &u);
        y[1] = flxi_zeros(s, &values);
        y[2] = flxi_zeros(s, &vt);
        return;
    }
    singular d = svd_of(s, s->x[0]);
    y[0] = shaped(s, d.u, t->dtype, &u);
    y[1] = shaped(s, d.s, values.dtype, &values);
    y[2] = shaped(s, flxi_export_adjoint(s, d.v), t->dtype, &vt);
}

void flxi_export_as_pinv(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    double rcond = site_real(s, "rcond");
    flx_type out = *t;
    out.dims[t->rank - 2] = t->dims[t->rank - 1];
    out.dims[t->rank - 1] = t->dims[t->rank - 2];
    if (export_is_empty(t)) {
        y[0] = flxi_zeros(s, &out);
        return;
    }
    if (isnan(rcond))
        rcond = (flxi_part_dtype(t->dtype) == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON) *
                (double)(out.dims[t->rank - 2] > out.dims[t->rank - 1] ? out.dims[t->rank - 2] : out.dims[t->rank - 1]);
    singular d = svd_of(s, s->x[0]);
    flx_val least = flx_mul(g, flx_narrow(g, d.s, 1, 0, 1), flx_scalar(g, FLX_F64, rcond));
    flx_val inverse = flx_where(g, flx_le(g, d.s, least), flx_scalar(g, FLX_F64, 0.0), flx_reciprocal(g, d.s));
    flx_val scaled = flx_mul(g, d.v, like(s, flx_unsqueeze(g, inverse, FLX_INTS(1)), d.v));
    y[0] = shaped(s, flx_matmul(g, scaled, flxi_export_adjoint(s, d.u)), t->dtype, &out);
}

/* ---- expm ---- */

/* The sum of c[i] times power i of the square, from the identity on. */
static flx_val polynomial(flxi_site *s, const flx_val *powers, const double *c, int n)
{
    flx_val sum = FLX_NONE;
    for (int i = 0; i < n; i++)
        sum = flxi_sum(s, sum, flx_mul(s->g, powers[i], flxi_number(s, powers[i], c[i])));
    return sum;
}

/* The diagonal Padé approximant of degree 13, (v - u)^-1 (v + u) with v even and u odd in a. */
static flx_val approximant(flxi_site *s, flx_val a)
{
    static const double even[7] = {
        64764752532480000.0, 7771770303897600.0, 129060195264000.0, 670442572800.0, 1323241920.0, 960960.0, 182.0};
    static const double odd[7] = {
        32382376266240000.0, 1187353796428800.0, 10559470521600.0, 33522128640.0, 40840800.0, 16380.0, 1.0};
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, a);
    flx_val powers[4] = {identity(s, t->dims[0], t->dims[1], (flx_dtype)t->dtype)};
    powers[1] = flx_matmul(g, a, a);
    powers[2] = flx_matmul(g, powers[1], powers[1]);
    powers[3] = flx_matmul(g, powers[2], powers[1]);
    flx_val v =
        flx_add(g, polynomial(s, powers, even, 4), flx_matmul(g, powers[3], polynomial(s, powers + 1, even + 4, 3)));
    flx_val inner =
        flx_add(g, polynomial(s, powers, odd, 4), flx_matmul(g, powers[3], polynomial(s, powers + 1, odd + 4, 3)));
    flx_val u = flx_matmul(g, a, inner);
    return flx_solve(g, flx_sub(g, v, u), flx_add(g, v, u));
}

/* Squares each matrix as often as `times`, f64[batch, 1, 1], says. */
static flx_val squared(flxi_site *s, flx_val a, flx_val times)
{
    flx_type counter = flx_type_make(FLX_F64, 0, NULL);
    flx_graph *cond = flx_graph_new(s->ctx, "cond");
    flx_graph *body = flx_graph_new(s->ctx, "square");
    flx_val out[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    const flx_type *types[3] = {&counter, flxi_typeof(s, a), flxi_typeof(s, times)};
    static const char *const names[3] = {"k", "a", "times"};
    flx_val c[3];
    flx_val b[3];
    if (cond && body) {
        for (int i = 0; i < 3; i++) {
            c[i] = flx_input(cond, names[i], types[i]);
            b[i] = flx_input(body, names[i], types[i]);
        }
        flx_output(cond, flx_lt(cond, c[0], flx_reduce_max(cond, c[2], FLX_ALL, 0)), NULL);
        flx_output(body, flx_add(body, b[0], flx_scalar(body, FLX_F64, 1.0)), NULL);
        flx_output(body, flx_where(body, flx_lt(body, b[0], b[2]), flx_matmul(body, b[1], b[1]), b[1]), NULL);
        flx_output(body, b[2], NULL);
        flx_while(s->g, ((flx_val[]){flx_scalar(s->g, FLX_F64, 0.0), a, times}), 3, out, 3, cond, body, FLX_DEFAULT);
    } else {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
    }
    flx_graph_release(cond);
    flx_graph_release(body);
    return out[1];
}

/* Halved until the largest column sum is at most 5.37, where the approximant is exact to rounding. */
void flxi_export_as_expm(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    if (export_is_empty(t)) {
        y[0] = s->x[0];
        return;
    }
    flx_val a = wide_batch(s, s->x[0]);
    flx_val sums = flx_reduce_sum(g, flx_abs(g, a), FLX_INTS(1), 1);
    flx_val most = flx_reduce_max(g, sums, FLX_INTS(2), 1);
    flx_val parts = flx_log2(g, flx_div(g, most, flx_scalar(g, FLX_F64, 5.371920351148152)));
    flx_val zero = flx_scalar(g, FLX_F64, 0.0);
    flx_val bounded = flx_clamp(g, zero, flx_ceil(g, parts), flx_scalar(g, FLX_F64, 1100.0));
    flx_val times = flx_where(g, flx_is_finite(g, most), bounded, zero);
    flx_val scale = flx_pow(g, flx_scalar(g, FLX_F64, 2.0), flx_neg(g, times));
    flx_val small = approximant(s, flx_mul(g, a, like(s, scale, a)));
    y[0] = shaped(s, squared(s, small, times), t->dtype, t);
}
