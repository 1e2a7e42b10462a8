/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_function.h: the definition of expm, for routes to which a matrix is too large. */
#ifndef FLXI_MATRIX_FUNCTION_H
#define FLXI_MATRIX_FUNCTION_H

#include <stddef.h>
#include <stdint.h>

/* The first n * n of flxi_expm_room(n) numbers are a matrix and become its exponential: infinite, with their sign,
   where they leave the range of double. Room for n pivots. */
void flxi_expm(int64_t n, double _Complex *m, int64_t *pivots);
size_t flxi_expm_room(int64_t n);

#endif
