/* SPDX-License-Identifier: Apache-2.0 */
/* flops.h: how much arithmetic a node is. */
#ifndef FLXI_FLOPS_H
#define FLXI_FLOPS_H

#include "graph/graph.h"

/* Operations on floats that the node takes at least: one for each element of a pointwise op, two for each factor of a
   product
   (eight for a complex one). 0 when it moves or counts only, and for ops of which it is not known. Types are static. */
int64_t flxi_node_flops(const flx_graph *g, uint32_t node);

#endif
