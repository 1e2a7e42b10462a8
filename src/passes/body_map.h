/* SPDX-License-Identifier: Apache-2.0 */
/* body_map.h: a pass that also transforms bodies: each body is mapped once, however often it is used. */
#ifndef FLXI_BODY_MAP_H
#define FLXI_BODY_MAP_H

#include "passes/pass.h"

/* Both are held: `from` may belong to a graph that is gone before the pass ends, and a new body could get its
   address. */
typedef struct {
    flx_graph *from, *to;
} flxi_mapped_body;

typedef struct {
    const flxi_allocator *mem;
    flx_code (*map)(void *user, const flx_graph *body, flx_graph **out, flx_error *err);
    void *user;
    FLXI_VEC(flxi_mapped_body) done;
} flxi_body_map;

/* A copy of the graph with its bodies mapped. `map` may call this again for the bodies of a body. */
flx_code flxi_map_bodies(flxi_body_map *b, const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);
void flxi_body_map_free(flxi_body_map *b);

#endif
