/* SPDX-License-Identifier: Apache-2.0 */
/* dot_axes.h: the axes of a product of two operands. */
#ifndef FLXI_DOT_AXES_H
#define FLXI_DOT_AXES_H

#include "graph/graph.h"

/* Axes as dot_general has them; the lists may be in the struct itself, so it must not move. */
typedef struct {
    int64_t summed[2], batch[FLX_MAX_RANK];
    flx_ints lc, rc, lb, rb;
} flxi_dot_axes;

/* Of dot_general, and of matmul with one matrix on the right or as many on both sides; false for other nodes. */
bool flxi_find_dot_axes(const flx_graph *g, const flxi_node *n, flxi_dot_axes *d);

#endif
