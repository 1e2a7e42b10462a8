/* SPDX-License-Identifier: Apache-2.0 */
/* jacobi.h: eigenvalues of Hermitian matrices and singular values by Jacobi rotations, in complex double. Slow for
   large matrices, but as accurate as any method; real matrices stay real to the bit, since every phase is then 1 or -1.

   A matrix is an array of its columns. Vectors have a fixed phase: the anchor of a column, which is its first
   component of at least half the modulus of its largest one, is real and positive. (Half, so that rounding does not
   decide between components of equal modulus.) A matrix with an infinity or a NaN gives NaN everywhere. */
#ifndef FLXI_JACOBI_H
#define FLXI_JACOBI_H

#include <stdbool.h>
#include <stdint.h>

/* The anchor of a column of n components; 0 when they are all zero. */
int64_t flxi_column_anchor(int64_t n, const double _Complex *column);

/* The power of two to divide n numbers by so that the largest part is in [1/2, 1); false where one is not finite. */
bool flxi_matrix_scale(int64_t n, const double _Complex *a, int *exponent);

/* The Hermitian part of a [n, n], which is destroyed: w ascending, v [n, n] its vectors. */
void flxi_jacobi_eigh(int64_t n, double _Complex *a, double *w, double _Complex *v);

/* a, of n columns of m ≥ n components, becomes u, orthonormal even where singular values are zero; s descending; v
   [n, n] with a = u diag(s) v^H. `anchor_v`: the phases are those of v's columns, not of u's. */
void flxi_jacobi_svd(int64_t m, int64_t n, double _Complex *a, double *s, double _Complex *v, bool anchor_v);

#endif
