/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_cuts.h: a graph cut for a mesh as the options --mesh and --shard say. */
#ifndef FLX_MESH_CUTS_H
#define FLX_MESH_CUTS_H

#include "args.h"
#include "io/inputs.h"
#include "io/load.h"

#include <fluxion/mesh.h>

#define OPTION_MESH                                                                                             \
    {                                                                                                           \
        "--mesh", "AXES", "cut the graph for a mesh of processes, such as data=4,model=2; docs/distributed.md", \
            MAY_BE_GIVEN                                                                                        \
    }
#define OPTION_SHARD                                                                                           \
    {                                                                                                          \
        "--shard", "NAME=SPEC",                                                                                \
            "how an input or parameter is cut: for each of its axes the axis of the mesh, or -,\nwith commas " \
            "between them: x=data,-; along several axes of the mesh: x=data+model,-",                          \
            MAY_REPEAT                                                                                         \
    }

/* What --shard says. */
typedef struct {
    flx_sharding *list;
    size_t count;
} mesh_cuts;

/* Free with mesh_cuts_free(), also after a failure. */
int mesh_cuts_read(mesh_cuts *c, const args *a);
void mesh_cuts_free(mesh_cuts *c);
/* Adds the inputs that the graph, which must outlive it, cuts by the op `shard`. */
int mesh_cuts_add_said(mesh_cuts *c, const flx_graph *g);
/* Says so if the program was written for another mesh. */
void mesh_cuts_note(const model *m, const char *axes);
/* How the value of this name is cut; NULL: it is whole. */
const char *mesh_cuts_find(const mesh_cuts *c, const char *name);

/* The graph of one process, with these extents. Only inputs may be cut. */
int mesh_cuts_apply(const mesh_cuts *c, const flx_graph *g, const char *axes, const inputs *in, flx_graph **out);
/* The same of a graph of static types, outputs too. A graph that has exchanges already, of which nothing is cut, is
   taken as it is; `counts` stays as it is then. */
int mesh_cuts_partition(const mesh_cuts *c, const flx_graph *g, const char *axes, flx_graph **out,
                        flx_partition_report *counts);

#endif
