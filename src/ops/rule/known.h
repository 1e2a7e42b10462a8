/* SPDX-License-Identifier: Apache-2.0 */
/* known.h: values that follow from a graph alone, without its inputs: importers need them where a program computes a
   shape. */
#ifndef FLXI_KNOWN_H
#define FLXI_KNOWN_H

#include "graph/graph.h"

typedef struct {
    const flxi_allocator *mem;
    /* The value of a leaf, borrowed; NULL where it is not known. NULL: none is. */
    const flx_tensor *(*leaf)(void *user, uint32_t id);
    void *user;
    FLXI_VEC(uint32_t) map; /* scratch, by id; zero between calls */
} flxi_known;

/* The value of result `id` of `g`, computed by the reference evaluator; the caller releases it. *out is NULL when it is
   not known: it depends on inputs, has effects, contains a loop or is the work of too many nodes. The only failure is
   OOM. */
flx_code flxi_known_value(flxi_known *k, const flx_graph *g, uint32_t id, flx_tensor **out, flx_error *err);
void flxi_known_free(flxi_known *k);

#endif
