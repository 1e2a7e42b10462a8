/* SPDX-License-Identifier: Apache-2.0 */
/* access.h: where a node reads its operands, found by asking the op's own lowering rule about a symbolic element. */
#ifndef FLXI_ACCESS_H
#define FLXI_ACCESS_H

#include "compile/grouping.h"

typedef enum {
    ACCESS_SAME,   /* element i of the node (of its operand, for a fold) needs element i */
    ACCESS_SPREAD, /* it needs the element that its row has in the space: (o, k, i) needs (o, i) */
    ACCESS_OTHER
} flxi_access_kind;

typedef struct {
    uint32_t value; /* of a node that is not a view */
    uint8_t kind;   /* a flxi_access_kind */
    flxi_space space;
} flxi_access;

typedef struct {
    flxi_access *at; /* equal ones once */
    uint32_t n;
    bool is_plain; /* the node's element is what it read last, unchanged */
} flxi_accesses;

/* What result `result` of node `i`, which must be a view, pointwise or folded, reads through views. `kind` is by
   node. */
flx_code flxi_find_accesses(const flx_graph *g, const uint8_t *kind, uint32_t i, uint32_t result, flxi_arena *out,
                            flxi_accesses *found, flx_error *err);

/* The space of a fold: its axes, which must be neighbours, in the middle. False when they are not. */
bool flxi_fold_space(const flx_graph *g, const flxi_node *n, flxi_space *space);

#endif
