/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_elimination.h: solves a system with a sparse matrix by elimination on lists of its nonzero elements. */
#ifndef FLXI_SPARSE_ELIMINATION_H
#define FLXI_SPARSE_ELIMINATION_H

#include "base/error.h"
#include "base/memory.h"

#include <complex.h>

typedef struct {
    int64_t n;     /* rows and columns */
    int64_t sides; /* columns of b */
    size_t count;  /* positions; duplicates are summed */
    const int64_t *rows, *cols;
    const double _Complex *values;
    double _Complex *b; /* [n, sides]; becomes the solution, NaN where the matrix is singular */
    bool regular;
} flxi_sparse_system;

/* Rows are exchanged so that each pivot is the largest of its column; columns keep their order, so that a band stays a
   band. Memory is that of the matrix and its fill-in. Fails only when memory is exhausted. */
flx_code flxi_eliminate(flxi_sparse_system *s, const flxi_allocator *mem, flx_error *err);

#endif
