/* SPDX-License-Identifier: Apache-2.0 */
/* step_graph.h: the training step of a graph, for standalone files. */
#ifndef FLXI_STEP_GRAPH_H
#define FLXI_STEP_GRAPH_H

#include "graph/graph.h"

#include <fluxion/train.h>

typedef struct {
    flx_graph *g;       /* released by the caller */
    size_t first_state; /* leaves from here on are states */
    size_t num_results; /* outputs before the next values */
    size_t guard;       /* 1 + the output that must be finite; 0: none */
    size_t num_updated;
    const size_t *updated; /* leaves, in the order of their next values; in the arena */
} flxi_sa_step;

flx_code flxi_sa_step_graph(const flx_graph *loss, const flx_train_options *options, flxi_arena *arena,
                            flxi_sa_step *out, flx_error *err);

#endif
