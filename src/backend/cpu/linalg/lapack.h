/* SPDX-License-Identifier: Apache-2.0 */
/* lapack.h: a LAPACK that the machine may have, as another way to factor large matrices.

   Looked for once, when first asked: $FLX_LAPACK (a path, or "off"), else the usual names. As with blas.h it is used
   only where it measures faster than our own blocks on this machine, and on one thread of its own for each matrix. */
#ifndef FLXI_LAPACK_H
#define FLXI_LAPACK_H

#include "backend/cpu/linalg/factor_engine.h"

/* The library's name, or NULL with *why the reason there is none. */
const char *flxi_lapack_library(const char **why);

/* A library must be there. Extents must be below 2^31. */
extern const flxi_factor_engine flxi_lapack_engine;

/* Speed of the library over that of our own blocks, on one thread; measured once per dtype. 0 without a library. */
typedef enum { FLXI_BY_LU, FLXI_BY_CHOLESKY, FLXI_BY_TRIANGLE } flxi_lapack_task;
double flxi_lapack_ratio(flxi_lapack_task task, int32_t dtype);

#endif
