/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h: passes over functions that a graph calls: nodes whose body has the role BODY_FUNCTION. */
#ifndef FLXI_CALLS_H
#define FLXI_CALLS_H

#include "passes/pass.h"

/* The body of a node that calls it; NULL: the node does something else. */
const flx_graph *flxi_called(const flx_graph *g, const flxi_node *n);

/* Results that nothing reads, and operands that only these need, leave the functions. */
flx_code flxi_pass_prune_calls(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Functions that are small, or small together with all calls of them, become part of the graph. */
flx_code flxi_pass_inline_calls(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

#endif
