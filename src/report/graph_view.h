/* SPDX-License-Identifier: Apache-2.0 */
/* graph_view.h: a graph as people look at it: a tree of groups, each drawn in layers.

   Items are the nodes of the graph, by their number, and after them the groups. Group 0 contains everything. A group
   comes from the names of parameters and values ("layer0.attention.q.w" is in layer0, attention, q), from the phase of
   training, or from the kernel that computes its nodes. A group has at most FLXI_VIEW_MOST items: larger ones are cut
   into parts. Constants are not drawn, they belong to the node that reads them. */
#ifndef FLXI_GRAPH_VIEW_H
#define FLXI_GRAPH_VIEW_H

#include "graph/graph.h"
#include "report/layered_layout.h"

enum {
    FLXI_VIEW_MOST = 120, /* items of a group */
    FLXI_VIEW_OPEN = 48,  /* items that are visible at first */
    FLXI_VIEW_TITLE = 26, /* characters of a title and of the line below it */
    FLXI_VIEW_DETAIL = 32,
    FLXI_VIEW_HEIGHT = 40, /* of a box */
    FLXI_VIEW_BETWEEN = 34 /* layers */
};
#define FLXI_VIEW_NONE UINT32_MAX
#define FLXI_VIEW_IN_PLACE (UINT32_MAX - 1) /* the step of a node whose elements are read where its operand is */

typedef enum { FLXI_FORWARD, FLXI_BACKWARD, FLXI_UPDATE, FLXI_PHASES } flxi_phase;

typedef struct {
    uint32_t parent; /* a group; FLXI_VIEW_NONE: not drawn, or the outermost group */
    uint32_t layer;
    double x, width;
    uint8_t phase;       /* a flxi_phase */
    uint32_t step;       /* of the program; or FLXI_VIEW_NONE, FLXI_VIEW_IN_PLACE */
    const char *title;   /* what is written in the box */
    const char *detail;  /* below it */
    uint32_t num_inside; /* of a group: nodes at any depth */
} flxi_view_item;

typedef struct {
    uint32_t *items;
    uint32_t num_items;
    flxi_layout_edge *edges; /* between its items, by item number */
    uint32_t num_edges;
    uint32_t num_layers;
    double width;
    bool is_open; /* at first */
} flxi_view_group;

typedef struct {
    const flx_graph *g;
    flxi_arena arena;
    flxi_view_item *items;
    uint32_t num_nodes, num_groups;
    flxi_view_group *groups;
    bool has_phases; /* more than one */
} flxi_graph_view;

/* Which step of a program computes each node of its graph (exec_view.c); NULL where nothing is compiled. */
typedef struct {
    const uint32_t *step_of;         /* by node */
    const char *const *kernel_names; /* by step: name of a kernel that computes several nodes, else NULL */
    uint32_t num_steps;
} flxi_view_steps;

/* What a node is called, NULL where it has only an automatic name. */
const char *flxi_view_name(const flx_graph *g, uint32_t node);

/* Freed by flxi_graph_view_free(), also after a failure. */
flx_code flxi_graph_view_make(flxi_graph_view *v, const flx_graph *g, const flxi_view_steps *steps, flx_error *err);
void flxi_graph_view_free(flxi_graph_view *v);

static inline bool flxi_view_is_drawn(const flxi_graph_view *v, uint32_t item)
{
    return v->items[item].parent != FLXI_VIEW_NONE;
}

#endif
