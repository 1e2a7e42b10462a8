/* SPDX-License-Identifier: Apache-2.0 */
/* factor_text.h: LU, Cholesky and triangular systems of large real matrices as functions of a C file with vectors, with
   the order of sums of the device `cpu` (backend/cpu/linalg/blocked_factor.c), so that the bits are the same. */
#ifndef FLXI_FACTOR_TEXT_H
#define FLXI_FACTOR_TEXT_H

#include "standalone/tiles/tiles.h"

/* `columns` is scratch memory of flxi_sa_factor_columns() numbers, `turned` of 8 m. */
typedef enum {
    SA_BLOCKS_LU,       /* (a, m, n, pivots, turned, columns): m >= n; exchanged rows become L U */
    SA_BLOCKS_CHOLESKY, /* (a, n, columns): the upper triangle becomes U with U^T U = a; 0: it is not definite */
    SA_BLOCKS_TRIANGLE  /* (t, n, row, col, lower, unit, b, k, columns): b [n, k] becomes the solution of T x = b */
} flxi_sa_blocks;

const char *flxi_sa_factor(flxi_sa_writer *w, flxi_sa_blocks which, int32_t dtype);
int64_t flxi_sa_factor_columns(int64_t n, int32_t dtype);

#endif
