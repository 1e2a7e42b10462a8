/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_rules.h: helpers for rules about matrices, which are the last two axes of a tensor. */
#ifndef FLXI_MATRIX_RULES_H
#define FLXI_MATRIX_RULES_H

#include "graph/op/infer.h"
#include "ops/rule/rule_lists.h"

static inline flx_val flxi_transposed(flxi_site *s, flx_val a)
{
    int rank = flxi_typeof(s, a)->rank;
    return rank < 2 ? a : flxi_move_axis(s, a, rank - 1, rank - 2); /* less: the graph has an error */
}

/* a^H */
static inline flx_val flxi_adjoint(flxi_site *s, flx_val a)
{
    return flxi_conj(s, flxi_transposed(s, a));
}

/* (a + a^H) / 2 */
static inline flx_val flxi_hermitian_part(flxi_site *s, flx_val a)
{
    return flx_mul(s->g, flx_add(s->g, a, flxi_adjoint(s, a)), flxi_number(s, a, 0.5));
}

/* v with its last `own` extents taken from x: they are equal, but one may be a symbol. */
static inline flx_val flxi_spelled_like(flxi_site *s, flx_val v, flx_val x, int own)
{
    flx_type t = *flxi_typeof(s, v);
    const flx_type *like = flxi_typeof(s, x);
    for (int k = 1; k <= own && k <= t.rank && k <= like->rank; k++)
        t.dims[t.rank - k] = like->dims[like->rank - k];
    return flxi_reshape_like(s, v, &t);
}

/* Square matrices with both extents written the same way. */
static inline flx_val flxi_as_square(flxi_site *s, flx_val a)
{
    flx_type t = *flxi_typeof(s, a);
    if (t.rank < 2 || t.dims[t.rank - 1] == t.dims[t.rank - 2])
        return a;
    flx_dim n = flxi_dim_is_number(t.dims[t.rank - 1]) ? t.dims[t.rank - 1] : t.dims[t.rank - 2];
    t.dims[t.rank - 1] = t.dims[t.rank - 2] = n;
    return flxi_reshape_like(s, a, &t);
}

/* The identity like the matrices of a. */
static inline flx_val flxi_identity_like(flxi_site *s, flx_val a)
{
    const flx_type *t = flxi_typeof(s, a);
    flx_dim n = t->rank ? t->dims[t->rank - 1] : 1;
    return flx_eye(s->g, n, n, FLX_DEFAULT, (flx_dtype)t->dtype);
}

/* The lower triangle with half the diagonal: for Hermitian m its sum with its adjoint is m. */
static inline flx_val flxi_halved_lower(flxi_site *s, flx_val m)
{
    flx_val diagonal = flx_mul(s->g, flxi_identity_like(s, m), flxi_number(s, m, 0.5));
    return flx_mul(s->g, flx_tril(s->g, m, 0), flx_sub(s->g, flxi_number(s, m, 1.0), diagonal));
}

/* The op on a batch of matrices is the op: whatever is before the last two axes is kept. */
static inline void flxi_batch_matrices(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, s->x, s->nin, by);
}

/* ---- Inference ---- */

/* Operand i has rank 2 or more and its last two axes are equal. */
flx_code flxi_need_square(flxi_infer *f, uint32_t operand);
/* The smaller of two extents; fails with UNBOUND_DIM when that depends on symbols. */
flx_code flxi_smaller_dim(flxi_infer *f, const flx_type *matrix, flx_dim *out);
flx_code flxi_infer_square(flxi_infer *f); /* square matrices, result of the same type */

/* ---- Evaluation ---- */

/* How many matrices a tensor holds; 0 where it holds none, whatever the extents of the matrices. */
static inline int64_t flxi_matrix_count(const flx_type *t)
{
    return flxi_static_extent(t, 0, t->rank - 2);
}

#endif
