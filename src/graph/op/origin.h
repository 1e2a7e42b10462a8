/* SPDX-License-Identifier: Apache-2.0 */
/* origin.h: for which node of the user's graph another node was made.

   Decompositions, derivatives and batching replace a node by others, and an error of one of those must name the node
   that the user wrote. While a rule runs, its node is the thread's current origin, and every node that is appended
   meanwhile, in whichever graph, remembers it. The current origin belongs to the thread and not to a graph because
   rules also build graphs of their own, which are transformed and inlined. */
#ifndef FLXI_ORIGIN_H
#define FLXI_ORIGIN_H

#include "graph/graph.h"

typedef struct flxi_origin flxi_origin;
struct flxi_origin {
    uint32_t op;       /* a flxi_opcode */
    const char *label; /* or NULL */
};

typedef struct {
    flxi_origin own;
    const flxi_origin *before;
} flxi_origin_scope;

/* Makes node n of g, or the node it was made for, the current origin until flxi_origin_end(). Inside of another origin
   a node that has neither an origin nor a label was made by a rule: the other origin stays. */
void flxi_origin_begin(flxi_origin_scope *scope, const flx_graph *g, const flxi_node *n);
/* The same for an op that is not in a graph: label and origin may be NULL. */
void flxi_origin_begin_op(flxi_origin_scope *scope, const flxi_op *op, const char *label, const flxi_origin *origin);
void flxi_origin_end(const flxi_origin_scope *scope);

/* NULL outside of rules. */
const flxi_origin *flxi_current_origin(void);

/* The origin in the memory of g; NULL where it is NULL or memory is exhausted. */
const flxi_origin *flxi_keep_origin(flx_graph *g, const flxi_origin *origin);

/* Gives the latest node of g, a copy of n, the origin of n. */
void flxi_copy_origin(flx_graph *g, const flxi_node *n);

/* The name of the first result that has one; NULL: none. */
const char *flxi_node_label(const flx_graph *g, const flxi_node *n);

/* How messages call a node: "op 'label'", or "origin 'label' (its op)". */
typedef struct {
    char s[160];
} flxi_node_name;
const char *flxi_name_node(flxi_node_name *name, const flxi_op *op, const char *label, const flxi_origin *origin);

/* Adds the location "graph/label" or "graph/op" to an error, for the node or for its origin. */
void flxi_at_node(flx_error *err, const flx_graph *g, const flxi_node *n);

/* The operand of an op that holds indices, as its row calls it; "" where it has none or several. */
const char *flxi_index_operand(const flxi_op *op, char *buffer, size_t size);

#endif
