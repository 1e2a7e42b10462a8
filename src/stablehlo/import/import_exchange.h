/* SPDX-License-Identifier: Apache-2.0 */
/* import_exchange.h: exchanges among groups of processes. Groups along axes of the mesh are the ops of
   src/ops/collective; any others are made of an exchange among all processes, of which each takes what concerns it. */
#ifndef FLXI_STABLEHLO_IMPORT_EXCHANGE_H
#define FLXI_STABLEHLO_IMPORT_EXCHANGE_H

#include "stablehlo/import/import_mesh.h"

/* Groups of equal size: ranks[0 … n) is the first. */
typedef struct {
    flx_ints ranks;
    int64_t n;
    const char *axes; /* of the mesh, which give the same groups; NULL: there are none */
} hlo_groups;

/* The groups of a table in which every rank appears once; false with the error set for another one. */
bool flxi_hlo_groups_of(hlo_site *s, flx_ints ranks, int64_t n, hlo_groups *out);
/* Those along axes ("x,y", whose sizes are n together) of a mesh of the same ranks. */
bool flxi_hlo_groups_along(hlo_site *s, const hlo_mesh *m, const char *axes, hlo_groups *out);

/* The position of this process in its group; and its rank. */
flx_val flxi_hlo_position_in(hlo_site *s, const hlo_groups *g);
flx_val flxi_hlo_rank(hlo_site *s);
/* The axes of the mesh of the processes, all of them. */
const char *flxi_hlo_all_axes(hlo_site *s);

/* What x is cut in along an axis, one part for each process of the group: the part at `position`. */
flx_val flxi_hlo_part_at(hlo_site *s, flx_val x, int axis, int64_t parts, flx_val position);

flx_val flxi_hlo_all_reduce(hlo_site *s, const hlo_groups *g, flx_val x, const char *reduction);
flx_val flxi_hlo_all_gather(hlo_site *s, const hlo_groups *g, flx_val x, int axis);
flx_val flxi_hlo_reduce_scatter(hlo_site *s, const hlo_groups *g, flx_val x, int axis, const char *reduction);
flx_val flxi_hlo_all_to_all(hlo_site *s, const hlo_groups *g, flx_val x, int split, int concat);
/* x of the first process of the group. */
flx_val flxi_hlo_from_first(hlo_site *s, const hlo_groups *g, flx_val x);

#endif
