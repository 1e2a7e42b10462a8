/* lapack.h: a LAPACK that the machine may have, as another way to factor large matrices.

   Looked for once, when first asked: $FLX_LAPACK (a path, or "off"), else the usual names. As with blas.h it is used only
   where it measures faster than our own blocks on this machine, and on one thread of its own for each matrix. */
#ifndef FLXI_LAPACK_H
#define FLXI_LAPACK_H

#include "backend/cpu/factor_engine.h"

/* The library's name, or NULL with *why the reason there is none. */
const char *flxi_lapack_library(const char **why);

/* A library must be there. Extents must be below 2^31. */
extern const flxi_factor_engine flxi_lapack_engine;

/* Speed of the library's LU over that of our own, on one thread; measured once per dtype. 0 without a library. */
double flxi_lapack_ratio(int32_t dtype);

#endif
