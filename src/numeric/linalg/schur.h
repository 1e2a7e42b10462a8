/* SPDX-License-Identifier: Apache-2.0 */
/* schur.h: the Schur form, eigenvalues and eigenvectors of a general matrix, by unitary reduction to Hessenberg and
   then to triangular form (shifted QR), in complex double.

   They come sorted by real part, then imaginary part. The anchor of each vector (jacobi.h) is 1. A real matrix has real
   eigenvalues and exact conjugate pairs. A matrix with an infinity or a NaN, and one on which the iteration does not
   converge, gives NaN. */
#ifndef FLXI_SCHUR_H
#define FLXI_SCHUR_H

#include <stdbool.h>
#include <stdint.h>

/* The Schur form a = z t z^H, z unitary: a [n, n], an array of its columns, becomes t, which is upper triangular; z
   [n, n]; room for n numbers. Of a real matrix in real numbers t has blocks of two rows on its diagonal for conjugate
   pairs, with equal diagonal elements; the others are single. Eigenvalues come in the order in which the iteration
   leaves them. */
void flxi_schur_form(int64_t n, double _Complex *a, double _Complex *z, double _Complex *room);
void flxi_real_schur_form(int64_t n, double *a, double *z, double *room);

/* a [n, n], an array of its columns, is destroyed; w [n]; v [n, n], its columns the vectors; room for n * n numbers. */
void flxi_schur_eig(int64_t n, double _Complex *a, double _Complex *w, double _Complex *v, double _Complex *room,
                    bool is_real);

#endif
