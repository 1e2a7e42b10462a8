/* SPDX-License-Identifier: Apache-2.0 */
/* vector_norm.c: norm of the elements along the axes as one vector. The default, ord=2 over all axes, is the
   Frobenius norm of a matrix. Where a norm has a corner, at a vector of zeros, its derivative is 0. */
#include "ops/linalg/matrix_rules.h"
#include "ops/rule/decomposed.h"

typedef struct {
    double ord;
    flx_ints axes;
    int64_t keep_dims;
} norm_attrs;

static const flxi_attr norm_schema[] = {
    A_REAL(norm_attrs, ord, 2.0),
    A_INTS(norm_attrs, axes, "all"),
    A_BOOL(norm_attrs, keep_dims, 0),
    A_END,
};

static flx_code infer_norm(flxi_infer *f)
{
    norm_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flx_type y = {.dtype = flxi_part_dtype(x->dtype)};
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, x->rank, true));
    if (isnan(a->ord))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "ord=2, ord=1, ord=inf …", "ord must be a number, or inf or -inf");
    size_t next = 0;
    for (int k = 0; k < x->rank; k++) {
        bool reduced = next < a->axes.n && a->axes.v[next] == k;
        next += reduced;
        if (!reduced || a->keep_dims)
            y.dims[y.rank++] = reduced ? 1 : x->dims[k];
    }
    f->out[0] = y;
    return FLX_OK;
}

/* where(v = 0, zero, v) */
static flx_val instead_of_zero(flxi_site *s, flx_val v, flx_val like, double instead)
{
    return flx_where(s->g, flx_eq(s->g, like, flxi_number(s, like, 0.0)), flxi_number(s, v, instead), v);
}

/* The vector is divided by this, so that no power overflows or vanishes. It has no derivative, since the norm does not
   depend on it. */
static flx_val scale_of(flxi_site *s, flx_val size, flx_ints axes)
{
    flx_val most = flx_reduce_max(s->g, size, axes, 1);
    flx_val usable = flx_and(s->g, flx_is_finite(s->g, most), flx_gt(s->g, most, flxi_number(s, most, 0.0)));
    return flx_stop_gradient(s->g, flx_where(s->g, usable, most, flxi_number(s, most, 1.0)));
}

/* scale * total^power, and 0 where the total is 0. */
static flx_val root_of(flxi_site *s, flx_val total, flx_val scale, double ord)
{
    flx_val inside = instead_of_zero(s, total, total, 1.0);
    flx_val root = ord == 2.0 ? flx_sqrt(s->g, inside) : flx_pow(s->g, inside, flxi_number(s, total, 1.0 / ord));
    return instead_of_zero(s, flx_mul(s->g, scale, root), total, ord < 0.0 ? INFINITY : 0.0);
}

static flx_val euclidean(flxi_site *s, flx_ints axes)
{
    flx_val x = s->x[0];
    flx_val scale = scale_of(s, flx_abs(s->g, x), axes);
    flx_val unit = flx_div(s->g, x, flx_cast(s->g, scale, (flx_dtype)flxi_typeof(s, x)->dtype));
    flx_val square =
        flxi_is_complex(flxi_typeof(s, x)->dtype) ? flx_complex_norm_sq(s->g, unit) : flx_square(s->g, unit);
    return root_of(s, flx_reduce_sum(s->g, square, axes, 1), scale, 2.0);
}

/* The power of 0 is set explicitly, since for ord < 1 its slope is infinite. */
static flx_val by_powers(flxi_site *s, flx_ints axes, double ord)
{
    flx_val size = flx_abs(s->g, s->x[0]);
    flx_val scale = scale_of(s, size, axes);
    flx_val unit = flx_div(s->g, size, scale);
    flx_val power = flx_pow(s->g, instead_of_zero(s, unit, unit, 1.0), flxi_number(s, unit, ord));
    power = instead_of_zero(s, power, unit, ord < 0.0 ? INFINITY : 0.0);
    return root_of(s, flx_reduce_sum(s->g, power, axes, 1), scale, ord);
}

static flx_val count_of_others(flxi_site *s, flx_ints axes)
{
    flx_val x = s->x[0];
    int32_t dtype = flxi_part_dtype(flxi_typeof(s, x)->dtype);
    flx_val other = flx_ne(s->g, x, flxi_number(s, x, 0.0));
    return flx_reduce_sum(s->g, flx_cast(s->g, other, (flx_dtype)dtype), axes, 1);
}

/* The largest modulus of an empty vector is 0. */
static flx_val largest(flxi_site *s, flx_ints axes)
{
    flx_val most = flx_reduce_max(s->g, flx_abs(s->g, s->x[0]), axes, 1);
    flx_val none = flx_eq(s->g, most, flxi_number(s, most, -INFINITY));
    return flx_where(s->g, none, flxi_number(s, most, 0.0), most);
}

static void decompose_norm(flxi_site *s, flx_val *y)
{
    const norm_attrs *a = s->attrs;
    flx_ints axes = a->axes;
    if (a->ord == 2.0)
        y[0] = euclidean(s, axes);
    else if (a->ord == 1.0)
        y[0] = flx_reduce_sum(s->g, flx_abs(s->g, s->x[0]), axes, 1);
    else if (a->ord == 0.0)
        y[0] = count_of_others(s, axes);
    else if (isinf(a->ord))
        y[0] = a->ord > 0.0 ? largest(s, axes) : flx_reduce_min(s->g, flx_abs(s->g, s->x[0]), axes, 1);
    else
        y[0] = by_powers(s, axes, a->ord);
    if (!a->keep_dims && axes.n)
        y[0] = flx_squeeze(s->g, y[0], axes);
}

static const flxi_sample samples_norm[] = {
    {"T[4]", NULL, NULL, FLX_OK},
    {"T[2, 3]", "axes=[-1]", NULL, FLX_OK},
    {"T[2, 3]", "ord=1, axes=[0], keep_dims=true", NULL, FLX_OK},
    {"T[2, 3]", "ord=inf", NULL, FLX_OK},
    {"T[3]{0.5..2}", "ord=-inf", NULL, FLX_OK},
    {"T[4]", "ord=0", NULL, FLX_OK},
    {"T[3]{0.5..2}", "ord=3", NULL, FLX_OK},
    {"T[3]{0.5..2}", "ord=0.5", NULL, FLX_OK},
    {"T[3]{0.5..2}", "ord=-1", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[3]", "axes=[], ord=2", NULL, FLX_OK},
    {"T[2, 0]", "axes=[1]", NULL, FLX_OK},
    {"T[0]", "ord=inf", NULL, FLX_OK},
    {"T[N, 2]", "axes=[0]", NULL, FLX_OK},
    {"T[3]", "axes=[1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "ord=nan", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_norm = {
    .infer = infer_norm,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_norm,
    .schema = norm_schema,
    .attrs_size = sizeof(norm_attrs),
    .samples = samples_norm,
};
