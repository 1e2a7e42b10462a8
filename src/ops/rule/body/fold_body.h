/* SPDX-License-Identifier: Apache-2.0 */
/* fold_body.h: folds whose step is a sub-graph, for reduce and reduce_window.

   Operands are n arrays, then their n initial values. The body takes n accumulators, then one element of each array,
   all scalars, and returns the new accumulators. */
#ifndef FLXI_FOLD_BODY_H
#define FLXI_FOLD_BODY_H

#include "ops/rule/body/scalar_body.h"

/* ---- Inference ---- */

/* Checks that there are as many arrays as initial values, at least one of each, and that the latter are scalars. *n
   receives their number. */
flx_code flxi_need_inits(flxi_infer *f, uint32_t *n);
/* The body folds the operands; accumulators have the dtypes of the initial values. */
flx_code flxi_match_fold_body(flxi_infer *f, const char *attr, const flx_graph *body);

/* The op of a body that is a single op on two different inputs; NULL for other bodies. */
const flxi_op *flxi_body_combination(const flx_graph *body);

/* ---- Evaluation ---- */

/* End it with flxi_scalar_body_end() whether this succeeds or not. */
flx_code flxi_fold_begin(flxi_scalar_body *b, flxi_eval *e, const flx_graph *body);
/* The accumulators become the initial values. */
void flxi_fold_start(flxi_scalar_body *b);
/* Folds in element `at` of each array, or the initial values again when it is negative. */
flx_code flxi_fold_step(flxi_scalar_body *b, int64_t at);
/* Element i of the results becomes the accumulators. */
void flxi_fold_store(const flxi_scalar_body *b, int64_t i);

#endif
