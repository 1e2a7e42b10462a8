/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h: the rule `shard` of ops (graph/op/op.h): how the op runs on tensors that are cut among processes. Along an
   axis that the rule `link` passes from an operand to the result position by position, the op computes each part by
   itself; other axes are either combined, as the terms of a sum are, or must be whole. Pointwise ops need no rule. An
   op without one runs on whole tensors, which is never wrong, only slower. */
#ifndef FLXI_SHARD_RULE_H
#define FLXI_SHARD_RULE_H

#include "graph/graph.h"

struct flxi_shard {
    /* The attribute whose list has, for each axis of the result, its extent: where that is cut, the extent of a part is
       put there. Or NULL. */
    const char *shape;
    /* Axes over which the op combines elements: its result from a part of them, combined over the processes by this
       reduction of all_reduce, is the result from all. NULL: there are none. */
    const char *combine;
    /* The number of the sum that an axis of an operand belongs to: paired axes have the same; -1: none. */
    int (*summed)(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis);
    /* The axis of all results that an axis of an operand becomes; -1: it must be whole. For ops whose links are about
       derivatives, which integers have none of, or whose attributes mean the extent of an axis. NULL: the rule `link`
       says it. */
    int (*becomes)(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis);
    /* The attribute that counts the groups, such as heads, along the last axis of the result: each part has some of
       them. Or NULL. */
    const char *groups;
    /* The lists of numbers by which the op lengthens an axis at its ends, such as low=[1], high=[-1]. Where they only
       move what is there, elements of the neighbour come first, and the op then runs with 0 in both; operand 1 comes
       from outside. NULL: an axis that moves must be whole. */
    const char *low, *high;
    /* The op is its bodies: it runs on parts where all of them do, whose inputs and outputs are then parts. */
    bool by_bodies;
};

extern const struct flxi_shard flxi_shard_linked; /* by links alone */
extern const struct flxi_shard flxi_shard_bodies; /* by bodies */

#endif
