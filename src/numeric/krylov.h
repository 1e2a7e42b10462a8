/* SPDX-License-Identifier: Apache-2.0 */
/* krylov.h: iterative solvers for linear systems that are given only as a function of a vector. Vectors are arrays of
   double; a complex vector is one of twice as many, which serves every operator that is linear over the reals. */
#ifndef FLXI_KRYLOV_H
#define FLXI_KRYLOV_H

#include "base/error.h"
#include "base/memory.h"

#include <stdint.h>

/* y = A x; x is first rounded, in place, to the operator's precision. */
typedef flx_code (*flxi_apply)(void *user, double *x, double *y);

typedef struct {
    flxi_apply apply;
    void *user;
    int64_t n;
    double tol;         /* |b - A x| <= tol |b| is a solution */
    int64_t iterations; /* at most this many products; counts down */
    bool solved;        /* set by the call */
    const flxi_allocator *mem;
    flx_error *err;
} flxi_krylov;

/* Conjugate gradients: A symmetric (Hermitian) and positive definite. x is set from zero. */
flx_code flxi_krylov_cg(flxi_krylov *k, const double *b, double *x);

/* GMRES, restarted after 64 steps. x is set from zero. */
flx_code flxi_krylov_gmres(flxi_krylov *k, const double *b, double *x);

double flxi_norm2(int64_t n, const double *x);

#endif
