/* SPDX-License-Identifier: Apache-2.0 */
/* phases.h: which nodes of a training step or a gradient graph belong to which part of it. */
#ifndef FLXI_PHASES_H
#define FLXI_PHASES_H

#include "report/graph_view.h"

/* By node, a flxi_phase: forward is what outputs other than derivatives and updates need; the update is what reads the
   optimiser's state or the rate, and what gives a new value; the rest is backward. Everything is forward in a graph
   without such outputs, or without others. */
flx_code flxi_find_phases(const flx_graph *g, flxi_arena *arena, uint8_t **phases, flx_error *err);

/* The name after the prefix that a transform gave it: new_state_, new_, state_, d_, tangent_, hvp_. */
const char *flxi_plain_name(const char *name);

#endif
