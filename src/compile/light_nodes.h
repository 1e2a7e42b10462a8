/* SPDX-License-Identifier: Apache-2.0 */
/* light_nodes.h: pointwise nodes that every reader computes for itself, as it does with views. Their operands are in
   memory anyway or are much smaller, so that reading those takes no longer than reading the result, and the result is
   not written. */
#ifndef FLXI_LIGHT_NODES_H
#define FLXI_LIGHT_NODES_H

#include "graph/graph.h"

/* By node; NULL: no memory. only_widened: numbers of 16 bits as f32 and no others. */
bool *flxi_find_light_nodes(const flx_graph *g, bool only_widened, flxi_arena *arena);

#endif
