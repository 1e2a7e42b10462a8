/* SPDX-License-Identifier: Apache-2.0 */
/* express_node.h: running the lowering rules of one node. */
#ifndef FLXI_EXPRESS_NODE_H
#define FLXI_EXPRESS_NODE_H

#include "ops/express/express.h"

/* What a flxi_express's `user` points to while the rule of a node runs. */
typedef struct {
    const flx_graph *g;
    uint32_t node;
    void *user; /* the caller's */
} flxi_express_frame;

/* The caller's answer to a rule that asks for an operand; e->user is a flxi_express_frame. */
typedef flxi_kval (*flxi_operand_fn)(flxi_express *e, uint32_t operand, const flxi_kindex *at);

/* The element of a result of node i (which has `element` or `pull`) at an index of its type; of the result's dtype. */
flxi_kval flxi_express_element(const flx_graph *g, flxi_kb *k, uint32_t i, uint32_t result, const flxi_kindex *at,
                               flxi_operand_fn operand, void *user);
/* What the node reads of one operand at an index of the operand's type. */
flxi_kval flxi_express_operand(const flx_graph *g, flxi_kb *k, uint32_t i, uint32_t operand, const flxi_kindex *at,
                               flxi_operand_fn answer, void *user);

/* Folds: values of the accumulator, whose dtype is wide (f32 for f16 and bf16). */
flxi_kval flxi_express_start(const flx_graph *g, flxi_kb *k, uint32_t i);
flxi_kval flxi_express_step(const flx_graph *g, flxi_kb *k, uint32_t i, flxi_kval acc,
                            flxi_kval x); /* x: not yet wide */
flxi_kval flxi_express_join(const flx_graph *g, flxi_kb *k, uint32_t i, flxi_kval a,
                            flxi_kval b); /* two accumulators */
flxi_kval flxi_express_finish(const flx_graph *g, flxi_kb *k, uint32_t i, flxi_kval acc, int64_t count);

#endif
