/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.h: values that are computed again instead of kept in memory.

   What is decided is decided on a planned routine, whose steps and slots say what is in memory when: a slot that no
   step between two others uses leaves a gap. A recomputation frees the slot in such a gap: the steps after it read a
   copy, made by copies of the nodes that the value needs. The result is a graph again, with its nodes in the order of
   the steps; compiling it gives the same bits, because each copy computes what its original did. */
#ifndef FLXI_RECOMPUTE_H
#define FLXI_RECOMPUTE_H

#include "compile/program.h"

typedef struct {
    uint32_t value;        /* of the routine's graph */
    uint32_t step;         /* it is computed again before this one, for it and all that follow */
    const uint32_t *nodes; /* that this takes, in order; the last is the value's own */
    uint32_t num_nodes;
} flxi_recomputation;

typedef struct {
    const flxi_recomputation *at;
    uint32_t n;
} flxi_recomputations;

/* The step that computes each node, + 1; 0: none, as of inputs, constants and views. NULL: no memory. */
uint32_t *flxi_steps_of_nodes(const flxi_routine *l, flxi_arena *arena);

/* Bytes of the arena that are in use at each step. NULL: no memory. */
size_t *flxi_live_bytes(const flxi_routine *l, flxi_arena *arena);

/* What to compute again so that no step of the planned routine needs more than `target` bytes, as far as that is
   possible; cheap things first. None when the highest step cannot be lowered. */
flx_code flxi_choose_recomputations(const flxi_routine *l, size_t target, flxi_arena *arena, flxi_recomputations *out,
                                    flx_error *err);

/* An order of the steps in which what ends the life of memory comes early; NULL: no memory. */
uint32_t *flxi_thrifty_order(const flxi_routine *l, const flxi_program *m, flxi_arena *arena);

/* The routine's graph with its nodes in this order of its steps (NULL: as they are), and with copies of what is
   computed again. *positions, in `arena`, has an entry for each node of the new graph. */
flx_code flxi_apply_recomputations(const flxi_routine *l, const uint32_t *order, const flxi_recomputations *list,
                                   flxi_arena *arena, flx_graph **out, flxi_position **positions, flx_error *err);

#endif
