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

#endif
