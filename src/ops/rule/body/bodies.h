/* SPDX-License-Identifier: Apache-2.0 */
/* bodies.h: shared by ops with sub-graphs. */
#ifndef FLXI_BODIES_H
#define FLXI_BODIES_H

#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "graph/type/tensor.h"

/* Results [0, n) have the types of the body's outputs from `from` on. */
flx_code flxi_body_results(flxi_infer *f, const flx_graph *body, size_t from, size_t n);

/* The body's first n outputs have exactly the types of the carries. */
flx_code flxi_match_carries(flxi_infer *f, const flx_graph *body, const flx_type *const *carries, size_t n);

/* Runs the body; its first e->nout outputs become the results. */
flx_code flxi_eval_body(flxi_eval *e, const flx_graph *body, const flx_tensor *const *in);

#endif
