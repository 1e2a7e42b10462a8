/* SPDX-License-Identifier: Apache-2.0 */
/* minimise.h: a function of a vector of real numbers, made from a graph, and the methods that minimise it. */
#ifndef FLXI_MINIMISE_H
#define FLXI_MINIMISE_H

#include "train/params.h"

/* A compiled graph whose parameters are parts of the vector. */
typedef struct {
    flx_exec *exec;
    flx_feed *feeds;
    size_t num_feeds;
    flx_tensor **outputs;
    size_t num_outputs;
} flxi_function;

typedef struct {
    flx_params *set;
    const flx_feed *given;
    size_t num_given;
    flx_minimise_options o;
    flx_minimise_result r;
    flxi_arena arena;
    const char **names; /* of the parameters that the vector consists of … */
    size_t num_params;
    size_t *begin;        /* … by parameter: where it begins; one more: the length of the vector */
    flx_tensor **point;   /* their values, in tensors of their types */
    flx_tensor **tangent; /* a direction, likewise; NULL for a method without one */
    size_t n;
    flxi_function value;   /* outputs: the value, then the gradient */
    flxi_function product; /* outputs: the Hessian, or J'J, times the direction */
    double *x, *d;         /* the best point, and the gradient there */
    double f;
    flx_error *err;
} flxi_minimising;

/* Vectors of the problem's length. */
double *flxi_new_vector(flxi_minimising *m);
double flxi_inner_product(const flxi_minimising *m, const double *a, const double *b);

/* The value and the gradient at x, which is rounded to what the parameters can hold. */
flx_code flxi_value_and_gradient(flxi_minimising *m, double *x, double *f, double *d);
/* The product with v at m->x, the point of the last evaluation that was accepted. */
flx_code flxi_curvature_times(flxi_minimising *m, const double *v, double *out);

/* Makes x the best point. Returns whether the method ends, and notes the reason. */
bool flxi_accept_point(flxi_minimising *m, const double *x, double f, const double *d);

/* One function for each method: iterates until the end. */
flx_code flxi_lbfgs(flxi_minimising *m);
flx_code flxi_newton_cg(flxi_minimising *m);
flx_code flxi_gauss_newton(flxi_minimising *m);

#endif
