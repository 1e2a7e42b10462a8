/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_function.h: the definition of expm, for routes to which a matrix is too large. */
#ifndef FLXI_MATRIX_FUNCTION_H
#define FLXI_MATRIX_FUNCTION_H

#include "numeric/linalg/matrix_exponential.h"

/* flxi_matrix_exponential() with the solver of dense.h. */
void flxi_expm(int64_t n, double _Complex *m, int64_t *pivots);

#endif
