/* SPDX-License-Identifier: Apache-2.0 */
/* module.h: the graphs of one file. */
#ifndef FLXI_MODULE_H
#define FLXI_MODULE_H

#include "graph/graph.h"

#include <fluxion/text.h>

struct flx_module {
    flx_context *ctx;
    FLXI_VEC(flx_graph *) graphs; /* held */
};

flx_module *flxi_module_new(flx_context *ctx);
flx_code flxi_module_add(flx_module *m, flx_graph *g); /* takes a reference of its own */

/* Graphs in an order in which bodies come before their users, each once. */
typedef struct {
    FLXI_VEC(const flx_graph *) graphs;
    flxi_index index; /* by serial number */
} flxi_graph_list;

/* Adds `root` and all it uses. */
flx_code flxi_collect_graphs(const flxi_allocator *mem, const flx_graph *root, flxi_graph_list *list);
/* Position of a graph in the list, SIZE_MAX when absent. */
size_t flxi_graph_position(const flxi_graph_list *list, const flx_graph *g);
void flxi_graph_list_free(const flxi_allocator *mem, flxi_graph_list *list);

/* Unique names for the graphs of the list, by position; only main_graph is called main. */
flx_code flxi_name_graphs(const flxi_graph_list *list, const flx_graph *main_graph, flxi_arena *arena,
                          const char **names);

#endif
