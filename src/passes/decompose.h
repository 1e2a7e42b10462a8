/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.h: replaces nodes by their meaning in terms of other ops. */
#ifndef FLXI_DECOMPOSE_H
#define FLXI_DECOMPOSE_H

#include "graph/op/site.h"
#include "passes/pass.h"

/* Decomposes every op that has no rule of its own for the mode, until none is left. Values do not change.
   Idempotent. */
flx_code flxi_prepare(const flx_graph *in, flxi_mode mode, flx_graph **out, flxi_remap *remap, flx_error *err);

/* The same for nodes of the caller's choice, which must have a decomposition. */
typedef bool (*flxi_choose_node)(const flx_graph *g, uint32_t node, const void *user);
flx_code flxi_decompose(const flx_graph *in, flxi_choose_node must, const void *user, flx_graph **out,
                        flxi_remap *remap, flx_error *err);

/* The same by rules of the caller's choice: the one that takes a node apart, or NULL where it stays. */
typedef flxi_expansion (*flxi_choose_expansion)(const flx_graph *g, uint32_t node, const void *user);
flx_code flxi_expand(const flx_graph *in, flxi_choose_expansion choose, const void *user, flx_graph **out,
                     flxi_remap *remap, flx_error *err);

/* A site for node i of `src` in graph g: operands and results are translated by `map` (ids of src to ids of g). Arrays
   are in g's arena. */
flxi_site flxi_site_of(flx_graph *g, const flx_graph *src, uint32_t i, const uint32_t *map);

#endif
