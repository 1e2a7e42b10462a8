/* SPDX-License-Identifier: Apache-2.0 */
/* decomposed.h: the rules of an op through its decomposition, for ops that have their own rule for some attributes
   only. (An op without any rule omits it and is decomposed beforehand.) The decomposition becomes a graph, is
   transformed and inlined; the op itself stays in the forward computation. */
#ifndef FLXI_DECOMPOSED_H
#define FLXI_DECOMPOSED_H

#include "graph/op/eval.h"
#include "graph/op/site.h"

void flxi_vjp_decomposed(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_jvp_decomposed(flxi_site *s, const flx_val *tx, flx_val *ty);
/* The same by another form of the op than its decomposition. */
void flxi_vjp_through(flxi_site *s, flxi_expansion form, const flx_val *dy, flx_val *dx);
void flxi_jvp_through(flxi_site *s, flxi_expansion form, const flx_val *tx, flx_val *ty);
void flxi_batch_decomposed(flxi_site *s, flx_val *by);

/* The evaluation of an op that is defined by its decomposition. */
flx_code flxi_eval_decomposed(flxi_eval *e);

#endif
