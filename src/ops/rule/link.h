/* SPDX-License-Identifier: Apache-2.0 */
/* link.h: the rule `link` of ops (graph/op/op.h), and what such rules are made of. A link says which positions along an
   axis of a leaf an element depends on; it lets a Jacobian be computed from few directions
   (autodiff/jacobian/sparsity.c). Losing a link is never wrong, only slower. */
#ifndef FLXI_LINK_RULE_H
#define FLXI_LINK_RULE_H

#include "graph/graph.h"

static inline const flx_type *flxi_link_operand(const flxi_use *u)
{
    return flxi_type_at(u->g, u->n->in[u->operand]);
}

static inline const flx_type *flxi_link_result(const flxi_use *u)
{
    return flxi_type_at(u->g, u->n->first + u->result);
}

/* ---- Whole rules ---- */

/* Every element of the result may depend on every element of the operand. */
bool flxi_link_dense(const flxi_use *u, flxi_link *l);
/* Operands align at the right; an axis that is stretched is lost. */
bool flxi_link_aligned(const flxi_use *u, flxi_link *l);
/* Matrices along the last two axes of the first operand: the axes before them count matrices, which are independent. An
   operand has as many axes as the first, or one less for vectors; others are not followed. */
bool flxi_link_matrices(const flxi_use *u, flxi_link *l);
/* An axis is kept if the result has one of its extent with as many elements before it; its blocks are kept by an axis
   of another extent. */
bool flxi_link_reshaped(const flxi_use *u, flxi_link *l);

/* ---- Parts of rules ---- */

/* The axis becomes axis `to` of the result, if that has its extent. */
bool flxi_link_move(const flxi_use *u, flxi_link *l, int64_t to);
/* The blocks of the axis become those of axis `to`, if both can be divided like that. */
bool flxi_link_move_blocks(const flxi_use *u, flxi_link *l, int64_t to);
/* Position i of the result is position i + by of the operand. */
bool flxi_link_shift(flxi_link *l, flx_dim by);
/* The op mixes what is along `axis` and leaves the others alone. */
bool flxi_link_except(const flxi_use *u, flxi_link *l, int64_t axis);
/* The op treats the rows along the last axis one by one. */
bool flxi_link_rows(const flxi_use *u, flxi_link *l);
bool flxi_link_except_all(const flxi_use *u, flxi_link *l, const flx_ints *axes);

/* The position of x in the list; -1: none. */
int flxi_link_find(const flx_ints *list, int64_t x);

#endif
