/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_bounds.h: the range of values of an unsigned expression, and accesses that are provably in range.

   Ranges come from literals, ids, lengths, loop bounds and the conditions of enclosing branches; a branch that returns
   also implies a condition on what follows it. */
#ifndef FLXI_KERNEL_BOUNDS_H
#define FLXI_KERNEL_BOUNDS_H

#include "kernel/optimise/kernel_facts.h"

typedef struct {
    uint64_t low, high;
} flxi_krange;

typedef struct {
    uint32_t expr;
    flxi_krange before;
} flxi_krange_lesson;

typedef struct {
    uint32_t index, buffer;
} flxi_kinside;

/* What is known at one position of a program. A client walks the program in text order and reports its position. */
typedef struct {
    const flxi_kfacts *f;
    const flxi_allocator *mem;
    flxi_krange *vars;                    /* by variable: for unassigned ones, from their declaration on */
    uint32_t *reads;                      /* by variable: the expression that reads it, or 0 */
    flxi_krange *learned;                 /* by expression: from conditions; the whole range where nothing is known */
    FLXI_VEC(flxi_krange_lesson) lessons; /* undone in reverse order */
    FLXI_VEC(flxi_kinside) inside;        /* index < length(buffer) */
    bool failed;                          /* memory is exhausted */
} flxi_kranges;

typedef struct {
    size_t lessons, inside;
} flxi_kranges_mark;

/* Tables live in the arena of the facts. flxi_kranges_free() in any case. */
bool flxi_kranges_begin(flxi_kranges *g, flxi_kfacts *f);
void flxi_kranges_free(flxi_kranges *g);
flxi_kranges_mark flxi_kranges_at(const flxi_kranges *g);
void flxi_kranges_back(flxi_kranges *g, flxi_kranges_mark mark); /* forgets what was learned since */

/* After a let, or at the start of a loop's body. */
void flxi_kranges_declare(flxi_kranges *g, const flxi_ks *s);
/* The condition holds, or does not hold, in what follows; only facts that cannot change any more are learned. */
void flxi_kranges_learn(flxi_kranges *g, uint32_t condition, bool holds);
/* After an `if`: if one branch returns, the other was taken. */
void flxi_kranges_pass_if(flxi_kranges *g, const flxi_ks *s);

flxi_krange flxi_kranges_of(const flxi_kranges *g, uint32_t e);
bool flxi_kranges_is_inside(const flxi_kranges *g, uint32_t buffer, uint32_t index);
/* 1 or 0 if a comparison is decided, else -1. */
int flxi_kranges_decide(const flxi_kranges *g, uint32_t e);

/* Whether control never gets past a list. */
bool flxi_klist_returns(flxi_klist list);

/* ---- The whole program ---- */

typedef struct {
    flxi_kfacts f;
    uint8_t *exprs;  /* by expression: 1 if it is a load or atomic that is in range wherever it occurs */
    uint8_t *stores; /* by position: 1 if it is a store in range */
} flxi_kbounds;

/* flxi_kbounds_free() in any case. */
flx_code flxi_kbounds_find(flxi_kbounds *b, const flx_kernel *k, flx_error *err);
void flxi_kbounds_free(flxi_kbounds *b);

#endif
