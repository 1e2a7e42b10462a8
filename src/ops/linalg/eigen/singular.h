/* SPDX-License-Identifier: Apache-2.0 */
/* singular.h: singular values of the matrices of a tensor, for the evaluators of several ops. */
#ifndef FLXI_SINGULAR_H
#define FLXI_SINGULAR_H

#include "graph/op/eval.h"

/* Scratch for one matrix [m, n] with k = min(m, n): columns u_j of m components, v_j of n, values s_j. */
typedef struct {
    int64_t m, n, k;
    double _Complex *u, *v;
    double *s;
    double _Complex *block; /* what was allocated */
    size_t room;
} flxi_singular;

flx_code flxi_singular_begin(flxi_eval *e, flxi_singular *d);
/* Decomposes matrix b of operand 0. */
void flxi_singular_find(flxi_eval *e, flxi_singular *d, int64_t b);
void flxi_singular_end(flxi_eval *e, flxi_singular *d);

#endif
