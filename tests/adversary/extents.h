/* SPDX-License-Identifier: Apache-2.0 */
/* extents.h: a random graph with a symbolic dimension, run in one way with several extents, against the reference
   evaluator on the graph of these extents. */
#ifndef FLX_ADVERSARY_EXTENTS_H
#define FLX_ADVERSARY_EXTENTS_H

#include "random/random_graph.h"

/* One run in the way; `bound` is the graph of the extent. A way that does not take the extent sets *declined. */
typedef flx_code (*extent_run)(void *user, const flx_graph *bound, const flx_dim_binding *dim, const flx_feed *feeds,
                               size_t n, flx_tensor **out, bool *declined, flx_error *err);

/* The graph of the seed; false when there is none. */
bool symbolic_subject(subject *s, uint64_t seed, flx_module **module);

/* Tries six extents, the subject's own first and last. */
void try_extents(const subject *s, uint64_t seed, extent_run run, void *user);

#endif
