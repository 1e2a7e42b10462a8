/* SPDX-License-Identifier: Apache-2.0 */
/* krylov.h: iterative solvers for linear systems that are given only as a function of a vector. Vectors are arrays of
   double; a complex vector is one of twice as many, which serves every operator that is linear over the reals. */
#ifndef FLXI_KRYLOV_H
#define FLXI_KRYLOV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y = A x; x is first rounded, in place, to the operator's precision. Not 0: it failed, and the solver returns that. */
typedef int (*flxi_apply)(void *user, double *x, double *y);

typedef struct {
    flxi_apply apply;
    void *user;
    int64_t n;
    double tol;         /* |b - A x| <= tol |b| is a solution */
    int64_t iterations; /* at most this many products; counts down */
    double *room;       /* flxi_cg_room() or flxi_gmres_room() numbers */
    bool solved;        /* set by the call */
} flxi_krylov;

/* Conjugate gradients: A symmetric (Hermitian) and positive definite. x is set from zero. */
int flxi_krylov_cg(flxi_krylov *k, const double *b, double *x);
size_t flxi_cg_room(int64_t n);

/* GMRES, restarted after 64 steps. x is set from zero. */
int flxi_krylov_gmres(flxi_krylov *k, const double *b, double *x);
size_t flxi_gmres_room(int64_t n);

double flxi_norm2(int64_t n, const double *x);

#endif
