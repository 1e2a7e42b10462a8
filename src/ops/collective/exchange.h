/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h: what a node exchanges with other processes, for code that plans it, or runs it beside other
   nodes. */
#ifndef FLXI_EXCHANGE_H
#define FLXI_EXCHANGE_H

#include "graph/graph.h"
#include "graph/mesh.h"

/* Fills everything but the addresses; types must be static. False: the node does not exchange values. */
bool flxi_exchange_of(const flx_graph *g, const flxi_node *n, flxi_collective *out);

/* Waits for an exchange that was started (flxi_eval.started) and for all before it; 0: none. */
flx_code flxi_exchange_finish(flxi_eval *e, flx_context *ctx, uint64_t exchange);

/* Whether it sums values of all processes, or reduces them in another way. */
bool flxi_exchange_sums(const flxi_node *n);

#endif
