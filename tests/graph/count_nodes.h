/* SPDX-License-Identifier: Apache-2.0 */
/* count_nodes.h: how many nodes of a graph are of an op, for tests of what passes and rules leave. Bodies do not
   count. */
#ifndef FLX_TESTS_COUNT_NODES_H
#define FLX_TESTS_COUNT_NODES_H

#include <fluxion/graph.h>

size_t count_nodes(const flx_graph *g, const char *op);

#endif
