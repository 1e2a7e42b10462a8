/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.h: a small graph that fails as a large one does. */
#ifndef FLX_SHRINK_H
#define FLX_SHRINK_H

#include <fluxion/graph.h>
#include <stdbool.h>

typedef bool (*shrink_predicate)(void *user, const flx_graph *g);

/* Makes ever smaller graphs out of g for which `fails` stays true, until no step makes a smaller one; the caller
   frees the result. Steps: drop an output; let the sum of one value be the loss; put an operand, an input or a
   constant of its type in the place of a node's results; drop an input nothing uses. */
flx_graph *shrink_graph(const flx_graph *g, shrink_predicate fails, void *user);

#endif
