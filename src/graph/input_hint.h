/* SPDX-License-Identifier: Apache-2.0 */
/* input_hint.h: flxi_hint_input() of graph.h for those who feed no parameters. */
#ifndef FLXI_INPUT_HINT_H
#define FLXI_INPUT_HINT_H

#include "graph/graph.h"

/* What `name` was meant to be, of the inputs that are not parameters: a training step has dozens of states. */
void flxi_hint_fed_input(flx_error *err, const flx_graph *g, const char *name);

#endif
