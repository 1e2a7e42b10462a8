/* SPDX-License-Identifier: Apache-2.0 */
/* work.h: what a node costs, from its types and attributes alone. A rule of the op says so where the class of the op
   does not. */
#ifndef FLXI_WORK_H
#define FLXI_WORK_H

#include "graph/graph.h"

/* The cost of a node. Flops are 0 where the node moves or counts only. An extent that is not a number counts as 0. */
flxi_work flxi_node_work(const flx_graph *g, uint32_t node);

/* Whether flxi_node_work knows the op: by its rule, its class, its bodies or its decomposition. */
bool flxi_has_work(const flxi_op *op);

/* ---- For rules: counts that do not fit are the largest that do ---- */

int64_t flxi_times(int64_t a, int64_t b); /* neither is negative */
int64_t flxi_plus(int64_t a, int64_t b);
int64_t flxi_work_count(const flx_type *t); /* elements; 0 where an extent is not a number */
int64_t flxi_work_extent(flx_dim d);        /* d; 0 where it is not a number */
/* Two operations for each pair that is multiplied and added; eight for a complex one. */
int64_t flxi_work_pairs(const flx_type *y, int64_t pairs);

/* One operation for each element of the results. */
void flxi_work_results(const flx_graph *g, const flxi_node *n, flxi_work *w);
/* What the decomposition takes; for ops that cost more than their class does. */
void flxi_work_decomposed(const flx_graph *g, const flxi_node *n, flxi_work *w);
/* Of operand 0 only as much is read as result 0 has. */
void flxi_work_picked(const flx_graph *g, const flxi_node *n, flxi_work *w);

#endif
