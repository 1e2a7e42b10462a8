/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h: a graph on its way to the graph of each process of a mesh. */
#ifndef FLXI_PARTITION_H
#define FLXI_PARTITION_H

#include "graph/mesh.h"
#include "graph/op/site.h"

#include <assert.h>
#include <fluxion/mesh.h>

/* Some axes of the mesh, a bit for each: of several the first is the slowest, as in the mesh itself. */
typedef uint8_t flxi_along;

enum { WHOLE = 0 };

static_assert(FLXI_MESH_AXES <= 8, "a bit for each axis");

/* By axis of a value: the axes of the mesh along which it is cut, or WHOLE. */
typedef struct {
    flxi_along at[FLX_MAX_RANK];
} flxi_cuts;

/* A value of the graph in the new one. */
typedef struct {
    flx_val v;
    flxi_cuts cuts;
    flxi_along terms; /* v is a term: the value is its sum over the processes along these axes */
    flx_val whole;    /* the same in one piece, once it was needed; or none */
} flxi_placed;

typedef struct flxi_cut_memo flxi_cut_memo; /* cut_memo.h */

typedef struct {
    const flx_graph *from;
    flx_graph *to;
    flxi_cut_memo *memo; /* of this partition and those of its bodies */
    flxi_arena *arena;   /* of what follows, and of more like it */
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    int num_axes;
    const flxi_cuts *given;        /* by value of `from`: how leaves are cut */
    const flxi_cuts *given_output; /* by output */
    flxi_placed *placed;           /* by value of `from` */
    flxi_cuts *wishes;             /* by value of `from`: how those that use it would like it to be cut */
    uint32_t *uses;                /* by value of `from`; an output is one */
    bool *accumulates;             /* of the body of a loop, by value: carries that may be terms; NULL: none is */
    flx_partition_report report;
    flx_error *err;
} flxi_partition;

/* Before each node: fails when the work was stopped, or has become too much. */
flx_code flxi_visit_node(flxi_partition *p);

/* Whether an operand of the node is cut. */
bool flxi_reads_cut(const flxi_partition *p, const flxi_node *n);

flxi_cuts flxi_no_cuts(void);
bool flxi_is_cut(const flxi_cuts *c);
/* Adds cuts of axes that are whole, along axes of the mesh that are not used yet. Whether there were any. */
bool flxi_add_cuts(flxi_cuts *cuts, const flxi_cuts *more, int rank);

/* Reads "data,-" for a value of this type. */
flx_code flxi_read_cuts(const flxi_partition *p, const char *spec, const flx_type *type, const char *name,
                        flxi_cuts *out, flx_error *err);
/* The same for a part of such a value. */
flx_code flxi_read_part_cuts(const flxi_partition *p, const char *spec, const flx_type *part, flxi_cuts *out,
                             flx_error *err);
/* How many processes are along the axes, and their names with commas between them. */
enum { FLXI_ALONG_TEXT = FLXI_MESH_AXES * FLXI_MESH_NAME };
int64_t flxi_along_size(const flxi_partition *p, flxi_along axes);
const char *flxi_along_names(const flxi_partition *p, flxi_along axes, char text[FLXI_ALONG_TEXT]);
/* Which of those processes a rank is. */
int64_t flxi_along_index(const flxi_partition *p, flxi_along axes, int64_t rank);
/* Whether parts along axes of the mesh are equal. */
bool flxi_can_cut(const flxi_partition *p, flx_dim extent, flxi_along axes);
/* The type of a part. */
flx_type flxi_part_type(const flxi_partition *p, const flx_type *whole, const flxi_cuts *cuts);

/* The value cut as wanted: by all_to_all where a cut moves from one axis to another, by all_gather where one ends, by
   taking the own part where one begins. */
flx_val flxi_recut(flxi_partition *p, uint32_t value, const flxi_cuts *want);
/* all_reduce over axes of the mesh. */
flx_val flxi_combine_parts(flxi_partition *p, flx_val v, flxi_along axes, const char *reduction);
/* The own part of the sum, cut along `axis`: reduce_scatter. */
flx_val flxi_scatter_sum(flxi_partition *p, flx_val v, int axis, flxi_along axes);
/* v on the first process along the axes, zeros on others. */
flx_val flxi_first_term(flxi_partition *p, flx_val v, flxi_along axes);

/* A part whose elements have moved by that many positions along an axis that is cut, no farther than to the neighbour;
   `outside`, a scalar, comes from outside. */
flx_val flxi_shift(flxi_partition *p, flx_val part, flx_val outside, int axis, flxi_along axes, int64_t by);

/* ---- Sums that wait (terms.c) ---- */

/* Fills p->uses. */
flx_code flxi_find_uses(flxi_partition *p);
/* Makes the sum of a value that is a term: a reduce_scatter where those that use it want it cut, or an all_reduce. */
void flxi_settle(flxi_partition *p, uint32_t value);
/* The axes along which results are terms if the node computes with terms of its operands; 0: it must not. */
flxi_along flxi_pass_terms(flxi_partition *p, const flxi_node *n);
/* Which of the first `carries` inputs of a body only collect a sum: p->accumulates. `test` decides about the next round
   and must not read them; or NULL. */
flx_code flxi_find_accumulators(flxi_partition *p, uint32_t carries, const flx_graph *test);

/* ---- What axes of operands mean to a node (shard_labels.c) ---- */

enum { NO_LABEL = -1, FIRST_SUM = FLX_MAX_RANK, LABELS = 2 * FLX_MAX_RANK };

/* The axis of the results that an axis of an operand becomes if it is cut into that many parts, or FIRST_SUM + the sum
   that it belongs to. */
int flxi_shard_label(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t parts);
/* Whether the node can be computed on parts at all. */
bool flxi_has_shard_rule(const flxi_node *n);
/* For each label the axes of the mesh along which the node is cut, by the cuts of its operands. False: along none. */
bool flxi_choose_cuts(const flxi_partition *p, const flxi_node *n, flxi_along chosen[LABELS]);
/* How an operand must be cut for that. */
flxi_cuts flxi_wanted_cuts(const flxi_partition *p, const flxi_node *n, uint32_t operand,
                           const flxi_along chosen[LABELS]);

/* ---- Nodes with bodies (shard_bodies.c) ---- */

/* How a node with bodies is cut: by operand and by result. */
typedef struct {
    flxi_cuts *operands, *results;
    flxi_along *terms, *sums; /* by operand and by result: a loop collects terms there, to be added up after it */
    bool is_cut;
} flxi_body_cuts;

/* Whether the op is its bodies, which are then cut in turn. */
bool flxi_is_by_bodies(const flxi_node *n);
/* By the cuts of its operands. A body in which an op would have to gather runs on whole values. */
flx_code flxi_choose_body_cuts(flxi_partition *p, const flxi_node *n, flxi_body_cuts *out);
/* The attributes of the node in the new graph: with bodies for parts, which p->memo holds. */
flx_code flxi_cut_bodies(flxi_partition *p, const flxi_node *n, flxi_body_cuts *cuts, void **attrs);

/* ---- Before nodes are made ---- */

/* The graph with nodes that have no rule for parts, but a decomposition, taken apart where cut values arrive
   (open_composites.c). */
flx_code flxi_open_composites(const flx_graph *g, const flx_sharding *list, size_t count, flx_graph **out,
                              flx_error *err);
/* Cuts of the results of a node, by those of its operands (shard_wishes.c). */
flx_code flxi_place_node(flxi_partition *p, const flxi_node *n);
/* Of all values, without making nodes, if sums are whole: p->placed, which is new. */
flx_code flxi_place_all(flxi_partition *p);
/* Fills p->wishes. */
flx_code flxi_find_wishes(flxi_partition *p);
/* The cuts that a node says its result has (the op `shard`); NULL: none. */
const char *flxi_said_cuts(const flxi_node *n);

/* The graph of each process from one whose composites are open; p->given and p->given_output say how. */
flx_code flxi_partition_open(flxi_partition *p, flx_graph **out);

#endif
