/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_check.h: derivatives of a graph against finite differences, at one point. */
#ifndef FLX_GRADIENT_CHECK_H
#define FLX_GRADIENT_CHECK_H

#include "io/inputs.h"

typedef struct {
    const flx_graph *graph; /* in f64; the first output is the loss */
    const inputs *at;       /* the point; its tensors are moved and put back */
    const size_t *wrt;      /* positions of inputs: f64 or c128 */
    size_t num_wrt;
    double tolerance; /* the largest error allowed; much smaller ones need no smaller step */
    int64_t only;     /* -1, or the one number of the one input to look at */
} check_point;

/* What was found about one input. A complex element is two numbers, the real part and the imaginary part. */
typedef struct {
    size_t input;
    int64_t elements; /* how many were checked; for inputs with many, a random choice */
    double worst;     /* scaled_error() */
    int64_t at;       /* the number in which it is, in row-major order */
    double claimed;   /* by the library */
    double found;     /* by finite differences */
    double hidden;    /* the part of `worst` that rounding of the loss explains: differences do not see it */
} check_result;

/* Whether the error exceeds what is allowed and what finite differences cannot see. */
bool check_fails(const check_result *r, double tolerance);
/* Whether a fails and b does not, or its error is larger. */
bool check_is_worse(const check_result *a, const check_result *b, double tolerance);

/* Order 1: the gradient, by reverse mode, against finite differences of the loss. Order 2: the Hessian times a fixed
   random vector, by forward over reverse mode, against finite differences of the gradient along that vector. A loss of
   several elements is replaced by their sum with fixed weights of random sign and sizes from 0.5 to 1.5. `results` has
   room for one per input of wrt. */
flx_code check_derivatives(const check_point *p, int order, check_result *results, flx_error *err);

/* The slopes of the loss on both sides of the point along number `at` of input wrt[0]. */
flx_code one_sided_slopes(const check_point *p, int64_t at, double *left, double *right, flx_error *err);

#endif
