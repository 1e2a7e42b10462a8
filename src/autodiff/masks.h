/* SPDX-License-Identifier: Apache-2.0 */
/* masks.h: where a cotangent is known to be zero. Reverse mode forms products of cotangents and derivatives, and zero
   times infinity is NaN: an element that `where` did not select would get NaN from a function that has no finite
   derivative there. The predicates of `where` are therefore remembered as facts about the cotangents that flow from
   it, and the zeros are restored before cotangents of several elements or several uses are added.

   A fact says: the cotangent is zero where `cond` is not `when`. It holds for a value as long as the element at a
   position depends on the elements at the same position alone, along the axes of cond. An axis of the value may be
   longer than that of cond: it is then divided in as many equal blocks, one for each element of cond. So facts about
   the examples of a batch survive that examples become rows, channels or groups. Facts about a cond of one element hold
   for everything that it selects. */
#ifndef FLXI_MASKS_H
#define FLXI_MASKS_H

#include "autodiff/autodiff.h"

enum { FLXI_MAX_FACTS = 8 }; /* more are forgotten, which is never wrong */

typedef struct {
    flx_val cond; /* in the graph being built */
    bool when;
    int8_t axis[FLX_MAX_RANK]; /* by axis of cond: the axis of the value that it goes along, or whose blocks it goes
                                  along; -1: extent 1 */
} flxi_fact;

typedef struct {
    uint32_t n;
    flxi_fact v[FLXI_MAX_FACTS];
} flxi_facts;

/* A cotangent and what is known about it. NULL facts: nothing. */
typedef struct {
    flx_val v;
    const flxi_facts *facts;
    bool dirty; /* it may be something else than zero where a fact says that it is zero */
} flxi_cotangent;

/* v with zeros wherever a fact says so. With `except`, facts that are also in there are left out. */
flx_val flxi_restore_zeros(flxi_site *s, flx_val v, const flxi_facts *facts, const flxi_facts *except);

/* What is in both. */
const flxi_facts *flxi_common_facts(flx_graph *g, const flxi_facts *a, const flxi_facts *b);

/* The facts about the result of a node that selects, whose operands are in s, and what selecting operand `k` adds. */
const flxi_facts *flxi_add_choice(flxi_site *s, const flxi_facts *facts, uint32_t k);

/* And what a boolean adds that is true where there is a cotangent, along these axes of the value. */
const flxi_facts *flxi_add_flag(flxi_site *s, const flxi_facts *facts, flx_val flag, const int8_t *axis);

/* All of both. */
const flxi_facts *flxi_with_facts(flxi_site *s, const flxi_facts *facts, const flxi_facts *more);

/* What is known about a sum of contributions that have different facts: a new fact that holds for all of them, or
   NULL. */
const flxi_facts *flxi_joined_facts(flx_graph *g, const flxi_facts *const *facts, size_t n);

/* What is known about the cotangents of a node's operands from what is known about those of its results: `dy` by
   result (those without a cotangent do not count), `dx` by operand. Facts that hold for the operand are kept. */
flx_code flxi_pass_facts(flx_graph *g, const flx_graph *src, const flxi_node *n, const flxi_cotangent *dy,
                         const flxi_facts **dx, flx_error *err);

#endif
