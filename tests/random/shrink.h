/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.h: a small graph that fails like a large one. */
#ifndef FLX_SHRINK_H
#define FLX_SHRINK_H

#include <fluxion/graph.h>
#include <stdbool.h>

typedef bool (*shrink_predicate)(void *user, const flx_graph *g);

/* Makes g smaller step by step while `fails` stays true, until no step succeeds; the caller frees the result. Steps:
   drop an output; make the sum of one value the loss; replace a node's results by an operand, an input or a constant of
   the same type; drop an unused input. */
flx_graph *shrink_graph(const flx_graph *g, shrink_predicate fails, void *user);

#endif
