/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_exponential.h: the exponential of a square matrix of complex doubles. */
#ifndef FLXI_MATRIX_EXPONENTIAL_H
#define FLXI_MATRIX_EXPONENTIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* b [n, n] becomes the solution of a x = b; a is destroyed. Room for n pivots. */
typedef void (*flxi_solve_square)(int64_t n, double _Complex *a, double _Complex *b, int64_t *pivots);

/* The first n * n of flxi_expm_room(n) numbers are a matrix and become its exponential: infinite, with their sign,
   where they leave the range of double. */
void flxi_matrix_exponential(int64_t n, double _Complex *m, int64_t *pivots, flxi_solve_square solve);
size_t flxi_expm_room(int64_t n);

#endif
