/* SPDX-License-Identifier: Apache-2.0 */
/* needs.h: which operands of a conditional, loop or call get a cotangent when it runs. A branch that ignores an operand
   gives it a cotangent of zero, which must not become NaN where the operand itself has no finite derivative: the zero
   is known by structure, like those of elements that `where` did not select (masks.h). */
#ifndef FLXI_NEEDS_H
#define FLXI_NEEDS_H

#include "autodiff/masks.h"

typedef struct {
    bool arrives;            /* false: never */
    const flxi_facts *facts; /* NULL: always and everywhere */
} flxi_need;

/* Whether the node has bodies that can be followed. Then need[i] is known for each operand of it. dy: by result, a
   value that is not FLX_NONE where there is a cotangent, and what is known about it. `s` is the node's site in the
   graph being built. */
bool flxi_node_needs(flxi_site *s, const flx_graph *src, const flxi_node *n, const flxi_cotangent *dy, flxi_need *need);

#endif
