/* SPDX-License-Identifier: Apache-2.0 */
/* tame.h: the rule `is_tame` of ops (graph/op/op.h), and what such rules ask. A derivative that is known to be finite
   may be multiplied with a cotangent of zero: the product is zero and not NaN, so nothing has to be restored afterwards
   (autodiff/masks.h). */
#ifndef FLXI_TAME_H
#define FLXI_TAME_H

#include "graph/graph.h"

/* The value is a constant of few elements, possibly copied, that are all finite and no smaller than `least`. */
bool flxi_is_tame_constant(const flx_graph *g, uint32_t id, double least);

/* The rule of ops whose derivative is finite whatever the operands are. */
bool flxi_always_tame(const flx_graph *g, const flxi_node *n, uint32_t operand);

#endif
