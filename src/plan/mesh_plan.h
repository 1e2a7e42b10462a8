/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_plan.h: what a run would take on a mesh of ranks that need not exist. An exchange is the messages that
   backend/collective sends for it (exchange_cost.c); a program is its steps, each as often as it runs (mesh_plan.c). */
#ifndef FLXI_MESH_PLAN_H
#define FLXI_MESH_PLAN_H

#include "base/context.h"
#include "graph/mesh.h"

#include <fluxion/mesh.h>

enum { FLXI_MACHINE_LINKS = 16 };

/* Where ranks are, and what is between them. */
typedef struct {
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    int num_axes;
    int64_t ranks;
    flx_machine machine; /* flops 0: there is none */
    flxi_arena *arena;   /* for what follows */
    int64_t *counts;     /* by rank: scratch */
    int64_t *targets;    /* by process of a group: scratch */
    struct flxi_crossings *crossings;
} flxi_layout;

/* What one exchange is. */
typedef struct {
    int64_t messages, bytes; /* of the rank that sends most */
    double link_bytes[FLXI_MACHINE_LINKS];
    double seconds;
} flxi_exchange_cost;

flx_code flxi_exchange_cost_of(flxi_layout *l, const flxi_collective *c, flxi_exchange_cost *out, flx_error *err);

#endif
