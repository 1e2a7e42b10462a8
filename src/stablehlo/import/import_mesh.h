/* SPDX-License-Identifier: Apache-2.0 */
/* import_mesh.h: the meshes of a program, and how it says that values are cut. A sharding becomes the op `shard`, which
   flx_partition() follows. A manual computation (shard_map of JAX) is written for one device: its operands become the
   parts of the process, its collective operations exchanges along axes of the mesh, and its results are joined.

   A program may name several meshes of the same devices. Processes are those of the first with more than one device;
   what others say is put in terms of its ranks. */
#ifndef FLXI_STABLEHLO_IMPORT_MESH_H
#define FLXI_STABLEHLO_IMPORT_MESH_H

#include "graph/mesh.h"
#include "stablehlo/import/import_site.h"

enum { HLO_AXES_TEXT = FLXI_MESH_AXES * (FLXI_MESH_NAME + 1) };

typedef struct {
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    const char *names[FLXI_MESH_AXES]; /* as the program writes them, up to a quote; NULL: those of `axes` */
    const char *ids;                   /* where the devices of the mesh are listed: "1, 0]"; NULL: in order */
    int num_axes;
    int64_t ranks;    /* 0: there is no mesh, or one that is not understood; 1: one device */
    uint32_t manual;  /* axes of the manual computation that is being imported: a bit for each */
    bool is_manual;   /* … if one is */
    bool has_ignored; /* shardings are left out */
} hlo_mesh;

/* The mesh whose devices are the processes. */
void flxi_hlo_read_mesh(const hlo_module *program, hlo_mesh *out);
/* The mesh that the i-th sharding of an attribute is about: that of its name, or the mesh it contains. False: none. */
bool flxi_hlo_mesh_of(const hlo_module *program, const char *text, size_t index, hlo_mesh *out);
/* Its axes: "data=2,model=2"; "" where there is no mesh of several devices. */
void flxi_hlo_mesh_text(const hlo_mesh *m, char out[HLO_AXES_TEXT + 32 * FLXI_MESH_AXES]);

/* The names of the axes that each axis of a value is cut along, with commas between them; "": none. Devices along the
   axes `summed` have summands of it. */
typedef struct hlo_cuts {
    char at[FLX_MAX_RANK][HLO_AXES_TEXT];
    int rank;
    char summed[HLO_AXES_TEXT];
} hlo_cuts;

/* Reads <@mesh, [{"data"}, {}]>, the `index`-th of a text that may have several, whatever the mesh is called. False:
   the mesh does not have it. */
bool flxi_hlo_read_cuts(const hlo_mesh *m, const char *text, size_t index, hlo_cuts *out);

/* The same of an attribute, which may also be an mhlo.sharding. */
bool flxi_hlo_read_sharding(const hlo_mesh *m, const hlo_attr *a, hlo_cuts *out);

/* The same of mhlo.sharding, and the mesh of a program that has shardings of that kind only (import_tiles.c). */
bool flxi_hlo_read_tiles(const hlo_mesh *m, const char *text, hlo_cuts *out);
void flxi_hlo_find_mesh(const hlo_module *program, hlo_mesh *out);

/* The attribute of an argument or result, of its dictionary (may be NULL), that is its sharding; NULL: none. */
const hlo_attr *flxi_hlo_sharding_of(const hlo_attr *dict);

/* One more word of a spec: the axes of the mesh that an axis of a value is cut along, with commas between them; "" for
   none. An axis of the value that they do not divide, or that is cut in another order than that of the mesh, is whole;
   then false. */
enum { HLO_SPEC_TEXT = HLO_AXES_TEXT + 2 * FLX_MAX_RANK };
bool flxi_hlo_add_cut(const hlo_mesh *m, const char *axes, flx_dim extent, char spec[HLO_SPEC_TEXT]);

/* shard(v) as an attribute says: sdy.sharding or mhlo.sharding. v where it says nothing that the op can say. */
flx_val flxi_hlo_sharded(flx_graph *g, const hlo_mesh *m, flx_val v, const hlo_attr *sharding);

/* The mesh of the processes, and the one that the first sharding of a text is about. */
hlo_mesh *flxi_hlo_mesh(const hlo_site *s);
bool flxi_hlo_program_mesh(const hlo_site *s, const char *text, hlo_mesh *out);

#endif
