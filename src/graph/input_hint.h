/* SPDX-License-Identifier: Apache-2.0 */
/* input_hint.h: what a name that no input has was meant to be. */
#ifndef FLXI_INPUT_HINT_H
#define FLXI_INPUT_HINT_H

#include "graph/graph.h"

/* The hint of an error about the input called `name`: the nearest one, and the inputs as far as they fit. */
void flxi_hint_input(flx_error *err, const flx_graph *g, const char *name);

#endif
