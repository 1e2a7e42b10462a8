/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h: a graph on its way to the graph of each process of a mesh. */
#ifndef FLXI_PARTITION_H
#define FLXI_PARTITION_H

#include "graph/mesh.h"
#include "graph/op/site.h"

#include <fluxion/mesh.h>

enum { WHOLE = -1 };

/* By axis of a value: the axis of the mesh along which it is cut, or WHOLE. */
typedef struct {
    int8_t at[FLX_MAX_RANK];
} flxi_cuts;

/* A value of the graph in the new one. */
typedef struct {
    flx_val v;
    flxi_cuts cuts;
    flx_val whole; /* the same in one piece, once it was needed; or none */
} flxi_placed;

typedef struct {
    const flx_graph *from;
    flx_graph *to;
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    int num_axes;
    flxi_placed *placed; /* by value of `from` */
    flxi_cuts *wishes;   /* by value of `from`: how those that use it would like it to be cut */
    flx_partition_report report;
    flx_error *err;
} flxi_partition;

flxi_cuts flxi_no_cuts(void);
bool flxi_is_cut(const flxi_cuts *c);

/* Reads "data,-" for a value of this type. */
flx_code flxi_read_cuts(const flxi_partition *p, const char *spec, const flx_type *type, const char *name,
                        flxi_cuts *out, flx_error *err);
/* Whether parts along an axis of the mesh are equal. */
bool flxi_can_cut(const flxi_partition *p, flx_dim extent, int mesh_axis);
/* The type of a part. */
flx_type flxi_part_type(const flxi_partition *p, const flx_type *whole, const flxi_cuts *cuts);

/* The value cut as wanted: by all_to_all where a cut moves from one axis to another, by all_gather where one ends, by
   taking the own part where one begins. */
flx_val flxi_recut(flxi_partition *p, uint32_t value, const flxi_cuts *want);
/* all_reduce over an axis of the mesh. */
flx_val flxi_combine_parts(flxi_partition *p, flx_val v, int mesh_axis, const char *reduction);
/* The own part of the sum, cut along `axis`: reduce_scatter. */
flx_val flxi_scatter_sum(flxi_partition *p, flx_val v, int axis, int mesh_axis);

/* ---- What axes of operands mean to a node (shard_labels.c) ---- */

enum { NO_LABEL = -1, FIRST_SUM = FLX_MAX_RANK, LABELS = 2 * FLX_MAX_RANK };

/* The axis of the results that an axis of an operand becomes if it is cut into that many parts, or FIRST_SUM + the sum
   that it belongs to. */
int flxi_shard_label(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t parts);
/* Whether the node can be computed on parts at all. */
bool flxi_has_shard_rule(const flxi_node *n);
/* For each label the axis of the mesh along which the node is cut, by the cuts of its operands. False: along none. */
bool flxi_choose_cuts(const flxi_partition *p, const flxi_node *n, int8_t chosen[LABELS]);
/* How an operand must be cut for that. */
flxi_cuts flxi_wanted_cuts(const flxi_partition *p, const flxi_node *n, uint32_t operand, const int8_t chosen[LABELS]);

/* ---- Before nodes are made ---- */

/* The graph with nodes that have no rule for parts, but a decomposition, taken apart where cut values arrive
   (open_composites.c). */
flx_code flxi_open_composites(const flx_graph *g, const flx_sharding *list, size_t count, flx_graph **out,
                              flx_error *err);
/* Fills p->wishes (shard_wishes.c). */
flx_code flxi_find_wishes(flxi_partition *p, const flx_sharding *list, size_t count);
/* The cuts that the list gives for a name; none if it is not there. */
flx_code flxi_listed_cuts(const flxi_partition *p, const char *name, const flx_type *type, const flx_sharding *list,
                          size_t count, flxi_cuts *out);
/* The cuts that a node says its result has (the op `shard`); NULL: none. */
const char *flxi_said_cuts(const flxi_node *n);

#endif
