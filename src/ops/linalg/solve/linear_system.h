/* SPDX-License-Identifier: Apache-2.0 */
/* linear_system.h: shared by the ops that take matrices and right-hand sides.

   The matrices are the last two axes of `a`. `b` holds one vector for each matrix when it has one axis less than `a`,
   and matrices of right-hand sides otherwise: columns, or rows for systems written x a = b. The leading axes
   broadcast. */
#ifndef FLXI_LINEAR_SYSTEM_H
#define FLXI_LINEAR_SYSTEM_H

#include "ops/linalg/matrix_rules.h"
#include "ops/linalg/matrix_view.h"

/* Attribute `trans`: which form of the matrix is solved with. */
#define FLXI_TRANS_WORDS "none transpose adjoint"
typedef enum { FLXI_TRANS_NONE, FLXI_TRANS_TRANSPOSE, FLXI_TRANS_ADJOINT } flxi_trans; /* order of the words */
const char *flxi_trans_word(int64_t trans);

static inline bool flxi_is_vector_system(const flx_type *a, const flx_type *b)
{
    return b->rank == a->rank - 1;
}

/* ---- Inference ---- */

/* Checks operands `a` and `b` and returns the type of the solution. */
flx_code flxi_infer_system(flxi_infer *f, uint32_t a, uint32_t b, bool left, flx_type *y);

/* ---- Evaluation ---- */

/* A walk over the systems of a batch; begin with zeros in `index`. */
typedef struct {
    int64_t n, k;  /* extent of a, number of right-hand sides */
    flx_type lead; /* the batch */
    int64_t a_lead[FLX_MAX_RANK], b_lead[FLX_MAX_RANK], index[FLX_MAX_RANK];
    flxi_matrix_view a, b, y; /* of the current system */
    bool same_matrix;         /* as in the system before */
    bool is_first;
} flxi_systems;

/* False where there is nothing to compute. */
bool flxi_systems_begin(flxi_systems *w, const flx_tensor *a, const flx_tensor *b, const flx_tensor *y, bool left);
bool flxi_systems_next(flxi_systems *w);

/* The triangle of a system of solve_triangular with those attributes, for right-hand sides in columns: x op(t) = b is
   op(t)^T x^T = b^T. */
flxi_triangle flxi_system_triangle(bool lower, flxi_trans trans, bool unit, bool left, int64_t n);

/* ---- Rules ---- */

/* Right-hand sides as matrices, and back to vectors where `like` has them. */
flx_val flxi_as_sides(flxi_site *s, flx_val v, bool vector, bool left);
flx_val flxi_as_vectors(flxi_site *s, flx_val v, bool vector, bool left);

/* The sum over right-hand sides of l r^H, columns each, or of l^H r, rows each: the terms of the cotangent of a matrix.
   For one matrix (rank 2) shared by a whole batch, a single product sums over the batch. */
flx_val flxi_outer_product(flxi_site *s, flx_val l, flx_val r, bool left, int matrix_rank);

/* The rule `link` of systems whose matrices are the first operand and whose right-hand sides are the last: the axes
   before the last two of matrices, and before the last or last two of sides, count systems, which are independent. They
   align at the right; one that is stretched is lost. */
bool flxi_link_system(const flxi_use *u, flxi_link *l);

/* Operand `rhs` is the last; the operands before it describe the matrix, the first of them by its own two axes,
   others by one. Right-hand sides of examples that share a matrix become more columns (rows) of one system. */
void flxi_batch_system(flxi_site *s, bool left, flx_val *by);
/* The same where no other operand is batched; `vector`: an example has one right-hand side. */
void flxi_batch_sides(flxi_site *s, bool left, bool vector, flx_val *by);

#endif
