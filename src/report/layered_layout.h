/* SPDX-License-Identifier: Apache-2.0 */
/* layered_layout.h: where the boxes of a small directed graph are drawn: in layers, edges pointing down. Graphs are cut
   into groups of a bounded size first (graph_view.h), so the time for a whole graph grows with its size. */
#ifndef FLXI_LAYERED_LAYOUT_H
#define FLXI_LAYERED_LAYOUT_H

#include "base/error.h"
#include "base/memory.h"

typedef struct {
    uint32_t from, to; /* different boxes */
    /* Results: */
    bool is_reversed; /* points up: part of a cycle */
    bool is_long;     /* passes too many layers for waypoints */
    uint32_t num_way; /* one for each layer between the two boxes, from the upper to the lower */
    double *way;      /* their x, in the caller's arena */
} flxi_layout_edge;

typedef struct {
    uint32_t n;
    const double *width; /* of boxes */
    const double *pull;  /* how much a box counts for its neighbours, and they for it, when it is placed: 1 is usual */
    flxi_layout_edge *edges;
    uint32_t num_edges; /* each pair of boxes at most once */
    /* Results, in the caller's arena: */
    uint32_t *layer;
    double *x; /* of the centres; the boxes are between 0 and total_width */
    uint32_t num_layers;
    double total_width;
} flxi_layout;

/* Space between boxes of a layer. */
enum { FLXI_LAYOUT_GAP = 22 };

/* The same graph always gets the same layout. OOM is the only failure. */
flx_code flxi_layout_layers(flxi_layout *l, flxi_arena *arena, flx_error *err);

#endif
