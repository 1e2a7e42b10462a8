/* SPDX-License-Identifier: Apache-2.0 */
/* count_nodes.c: see count_nodes.h. */
#include "graph/count_nodes.h"

#include <string.h>

size_t count_nodes(const flx_graph *g, const char *op)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++)
        n += strcmp(v.op, op) == 0;
    return n;
}
