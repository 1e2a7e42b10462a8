/* SPDX-License-Identifier: Apache-2.0 */
/* implicit.h: shared by the ops whose result is defined by an equation given as a body. */
#ifndef FLXI_IMPLICIT_H
#define FLXI_IMPLICIT_H

#include "graph/op/op.h"

typedef struct {
    const flx_graph *body;
    double tol;
    int64_t max_iterations; /* FLXI_ABSENT: the op's own bound */
} implicit_attrs;

flx_code flxi_eval_cg(flxi_eval *e);
flx_code flxi_eval_gmres(flxi_eval *e);
flx_code flxi_eval_fixed_point(flxi_eval *e);
flx_code flxi_eval_root(flxi_eval *e);

#endif
