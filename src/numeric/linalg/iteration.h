/* SPDX-License-Identifier: Apache-2.0 */
/* iteration.h: fixed points and roots of a function of a vector, by steps until they are short. */
#ifndef FLXI_ITERATION_H
#define FLXI_ITERATION_H

#include "numeric/linalg/krylov.h"

typedef struct {
    flxi_apply call; /* y = f(x); x is first rounded, in place, to the function's precision */
    void *user;
    int64_t n;
    double tol;   /* a step no longer than tol (1 + |x|) is the last */
    double unit;  /* the function's unit of rounding */
    int64_t most; /* steps */
    double *room; /* flxi_fixed_point_room() or flxi_newton_room() numbers */
    bool solved;  /* set by the call */
} flxi_iteration;

/* x becomes a point with f(x) = x. The result is what the function failed with, or 0. */
int flxi_fixed_point(flxi_iteration *f, double *x);
size_t flxi_fixed_point_room(int64_t n);

/* x becomes a point with f(x) = 0: Newton's method, with the Jacobian from finite differences. */
int flxi_newton(flxi_iteration *f, double *x);
size_t flxi_newton_room(int64_t n);

#endif
