/* SPDX-License-Identifier: Apache-2.0 */
/* eigen_rules.h: helpers for the rules of eigenvalues and singular values, in addition to matrix_rules.h. A
   matrix is the last two axes of a value, a vector the last one. */
#ifndef FLXI_SPECTRUM_RULES_H
#define FLXI_SPECTRUM_RULES_H

#include "ops/linalg/matrix_rules.h"

#include <float.h>

static inline flx_val flxi_product3(flxi_site *s, flx_val a, flx_val b, flx_val c)
{
    return flx_matmul(s->g, flx_matmul(s->g, a, b), c);
}

/* x - x^H */
static inline flx_val flxi_twice_skew(flxi_site *s, flx_val x)
{
    return flx_sub(s->g, x, flxi_adjoint(s, x));
}

/* A vector as a matrix of one row, or of one column. */
static inline flx_val flxi_as_row(flxi_site *s, flx_val w)
{
    int64_t axis = flxi_typeof(s, w)->rank - 1;
    return flx_unsqueeze(s->g, w, (flx_ints){&axis, 1});
}

static inline flx_val flxi_as_column(flxi_site *s, flx_val w)
{
    int64_t axis = flxi_typeof(s, w)->rank;
    return flx_unsqueeze(s->g, w, (flx_ints){&axis, 1});
}

/* x in the dtype of `like`: a real number among complex ones. */
static inline flx_val flxi_among(flxi_site *s, flx_val x, flx_val like)
{
    int32_t dtype = flxi_typeof(s, like)->dtype;
    return flxi_typeof(s, x)->dtype == dtype ? x : flx_cast(s->g, x, (flx_dtype)dtype);
}

static inline flx_val flxi_real_part(flxi_site *s, flx_val z)
{
    return flxi_is_complex(flxi_typeof(s, z)->dtype) ? flx_real(s->g, z) : z;
}

/* Column k of m times w[k], which may be real among complex numbers. */
static inline flx_val flxi_scale_columns(flxi_site *s, flx_val m, flx_val w)
{
    return flx_mul(s->g, m, flxi_as_row(s, flxi_among(s, w, m)));
}

static inline flx_val flxi_scale_rows(flxi_site *s, flx_val m, flx_val w)
{
    return flx_mul(s->g, m, flxi_as_column(s, flxi_among(s, w, m)));
}

/* m with the vector w added on its diagonal. */
static inline flx_val flxi_add_diagonal(flxi_site *s, flx_val m, flx_val w)
{
    const flx_type *t = flxi_typeof(s, m);
    flx_val eye = flx_eye(s->g, t->dims[t->rank - 1], FLX_DEFAULT, 0, FLX_BOOL);
    return flx_add(s->g, m, flxi_masked(s, eye, flxi_as_row(s, flxi_among(s, w, m))));
}

/* Tolerance of a dtype: numbers count as equal when they differ by at most this times the largest of them. */
static inline double flxi_spectral_tolerance(int32_t dtype)
{
    return 128.0 * (flxi_part_dtype(dtype) == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
}

/* Along the last axis, which stays with extent 1: the largest modulus times the tolerance above. */
static inline flx_val flxi_negligible(flxi_site *s, flx_val w)
{
    int64_t last = flxi_typeof(s, w)->rank - 1;
    flx_val most = flx_reduce_max(s->g, flx_abs(s->g, w), (flx_ints){&last, 1}, 1);
    return flx_mul(s->g, most, flxi_number(s, most, flxi_spectral_tolerance(flxi_typeof(s, w)->dtype)));
}

/* 1/x where ok, else 0, and so its derivatives. */
static inline flx_val flxi_guarded_inverse(flxi_site *s, flx_val ok, flx_val x)
{
    flx_val safe = flx_where(s->g, ok, x, flxi_number(s, x, 1.0));
    return flxi_masked(s, ok, flx_reciprocal(s->g, safe));
}

/* The positions of the anchors (jacobi.h) of a matrix of columns, as a mask. */
static inline flx_val flxi_anchor_mask(flxi_site *s, flx_val v)
{
    flx_type t = *flxi_typeof(s, v);
    int64_t rows = t.rank - 2;
    flx_val size = flx_abs(s->g, v);
    flx_val most = flx_reduce_max(s->g, size, (flx_ints){&rows, 1}, 1);
    flx_val large = flx_ge(s->g, size, flx_mul(s->g, most, flxi_number(s, most, 0.5)));
    t.dtype = FLX_I64;
    flx_val at = flx_iota(s->g, &t, rows);
    flx_val none = flxi_index_number(s, FLX_I64, t.dims[rows]);
    flx_val first = flx_reduce_min(s->g, flx_where(s->g, large, at, none), (flx_ints){&rows, 1}, 1);
    return flx_eq(s->g, at, first);
}

/* i x for a real x. */
static inline flx_val flxi_imaginary(flxi_site *s, flx_val x)
{
    return flx_complex(s->g, flxi_zeros_like(s, x), x);
}

/* Sums the anchors' row of m, one number for each column; the axis stays with extent 1. */
static inline flx_val flxi_at_anchors(flxi_site *s, flx_val mask, flx_val m)
{
    int64_t rows = flxi_typeof(s, m)->rank - 2;
    return flx_reduce_sum(s->g, flxi_masked(s, mask, m), (flx_ints){&rows, 1}, 1);
}

#endif
