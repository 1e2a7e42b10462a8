/* SPDX-License-Identifier: Apache-2.0 */
/* grouping.h: which nodes of a graph are computed together.

   Every node is one of these:
     held      inputs, parameters and constants: memory that is there before the run;
     view      its elements are read where it is used, at indices computed from those asked for: transpose, slice, iota
     …; and light nodes (light_nodes.h);
     pointwise a pointwise op or the like: part of a group;
     folded    a reduction over neighbouring axes: part of a group;
     called    everything else: a step of its own, by a route or by the reference evaluator.

   A group becomes one kernel. Its nodes share a space of outer × extent × inner elements. A value of the group has
   either one element for each of these (LEVEL_ELEMENT) or, once folds run over `extent`, one for each row, outer ×
   inner in all
   (LEVEL_ROW). Within a group a value is read at the same element or row at which it is computed, so it need not be in
   memory unless others want it.

   A group may also fold its elements the other way, over rows that follow each other (LEVEL_COLUMN): the sums that the
   parameters of a norm or a bias get as gradients, made of the elements that the rows compute anyway. Such a fold is
   complete only when the kernel has ended, so it is read by other groups only. */
#ifndef FLXI_GROUPING_H
#define FLXI_GROUPING_H

#include "backend/backend.h"
#include "graph/graph.h"

typedef enum { NODE_HELD, NODE_VIEW, NODE_POINTWISE, NODE_FOLDED, NODE_CALLED } flxi_node_kind;
typedef enum { LEVEL_ELEMENT, LEVEL_ROW, LEVEL_COLUMN } flxi_level;

typedef struct {
    int64_t outer, extent, inner;
} flxi_space;

static inline int64_t flxi_space_rows(const flxi_space *s)
{
    return s->outer * s->inner;
}

typedef struct {
    const uint32_t *nodes; /* ascending */
    uint32_t num_nodes;
    flxi_space space;
    bool has_rows;       /* there are folds, or values of LEVEL_ROW; else only the number of elements matters */
    int64_t column_rows; /* how many rows each fold of LEVEL_COLUMN takes; 0: there is none */
    bool needs_axes; /* something is read at other indices than the element's own: the index of each axis is wanted */
    uint32_t called; /* a called node, when there are no nodes: its number + 1 */
} flxi_group;

typedef struct {
    const flx_graph *g;
    const flxi_kernel_form *form; /* of the device, or NULL */
    bool has_scalar_rows;         /* of the device */
    const int64_t *free_extents;  /* likewise; NULL: none */
    flxi_arena arena;
    uint8_t *kind;      /* by node */
    uint8_t *level;     /* by node, of those in groups */
    uint32_t *group_of; /* by node: number of the group + 1, or 0 */
    uint32_t *alias_of; /* by value: the value whose memory it is, under another shape; 0: none */
    bool *is_stored;    /* by value: others read it from memory */
    flxi_group *groups; /* in an order in which they can run */
    uint32_t num_groups;
} flxi_grouping;

/* Where a node belongs in a graph that was put into the order of its steps (budget/recompute.h). A copy, which computes
   again what is not kept, joins no group with nodes of earlier positions: it would be kept after all. Neither does a
   node that is apart: a sum after which an operand is not needed any more. */
typedef struct {
    uint32_t step;
    bool is_copy, is_apart;
} flxi_position;

typedef struct {
    bool keep_apart;                /* each node is a group of its own */
    bool evaluate_all;              /* nothing becomes a kernel: there is no compiler */
    uint32_t max_nodes;             /* of a group; 0: the usual limit */
    const char *const *refused;     /* by node: not NULL for those that may be in no group; or NULL */
    const bool *preferred;          /* by node: a view that the device computes faster than a kernel; or NULL */
    const flxi_position *positions; /* by node; or NULL */
    const flxi_kernel_form *form;   /* of the device, or NULL: rows are folded by columns only without one */
    bool has_scalar_rows;           /* of the device */
    const int64_t *free_extents;    /* likewise; NULL: none */
} flxi_grouping_options;

/* All types must be static. When a node's own rule fails, for which memory is not the reason, *failed receives the
   node's number + 1; else 0. */
flx_code flxi_form_groups(const flx_graph *g, const flxi_grouping_options *o, flxi_grouping *out, uint32_t *failed,
                          flx_error *err);
void flxi_grouping_free(flxi_grouping *f);

/* Whether operands and results of the node have few enough elements for the indices of kernels. */
bool flxi_can_index(const flx_graph *g, const flxi_node *n);

#endif
