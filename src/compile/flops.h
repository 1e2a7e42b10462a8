/* SPDX-License-Identifier: Apache-2.0 */
/* flops.h: how much arithmetic a node is. */
#ifndef FLXI_FLOPS_H
#define FLXI_FLOPS_H

#include "graph/graph.h"

/* Operations on floats that the node takes at least (graph/op/work.h); 0 for control flow whose bodies are steps of
   their own. Types are static. */
int64_t flxi_node_flops(const flx_graph *g, uint32_t node);

#endif
