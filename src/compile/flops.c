/* SPDX-License-Identifier: Apache-2.0 */
/* flops.c: see flops.h. */
#include "compile/flops.h"

#include "graph/op/work.h"

int64_t flxi_node_flops(const flx_graph *g, uint32_t node)
{
    return flxi_node_work(g, node).flops;
}
