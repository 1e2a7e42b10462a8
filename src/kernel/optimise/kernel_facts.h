/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_facts.h: what the passes of the optimiser know about a program: where its variables are declared, assigned
   and used, where its buffers are written, and whether an expression keeps its value from one position to another.

   Positions: statements are numbered from 1 in the order of the text, functions before the body, each
   function followed by one more position for its result. A statement spans the positions from its own to the end of
   its bodies. Inside one invocation text order is execution order, except that loops go back to their start. */
#ifndef FLXI_KERNEL_FACTS_H
#define FLXI_KERNEL_FACTS_H

#include "kernel/program/kernel.h"

/* What evaluating an expression does or depends on, gathered from the whole tree. */
enum {
    KF_EFFECT = 1,     /* changes memory, or may: atomics, impure extensions */
    KF_CONVERGENT = 2, /* depends on which invocations get there: subgroup ops */
    KF_HELD = 4,       /* names a buffer whose number of uses is prescribed: neither dropped nor repeated */
    KF_MEMORY = 8,     /* loads from a buffer that the program writes */
    KF_STATE = 16,     /* reads a variable that is assigned after its declaration */
    KF_LOADS = 32,     /* loads from any buffer */
    KF_FOREIGN = 64    /* calls a function that loads from a buffer that the program writes */
};

typedef struct {
    uint32_t at;      /* its let or loop; of a parameter 0 */
    uint32_t value;   /* of its let, else 0 */
    uint32_t uses;    /* in expression trees */
    uint32_t assigns; /* assign statements */
    uint32_t reach;   /* its value is needed up to here: the last use, or the end of the loops that lead back to one */
    uint32_t use_depth; /* of the deepest expression that uses it */
    bool is_looped;     /* used inside a loop that it is declared outside of */
} flxi_kvar_positions;

/* Ascending positions, in groups. */
typedef struct {
    const uint32_t *start; /* by group; one more at the end */
    const uint32_t *at;
} flxi_kpositions;

typedef struct {
    const flx_kernel *k;
    flxi_arena arena;
    uint32_t num_positions; /* highest position */
    const flxi_ks **stmt;   /* by position; NULL for a function's result */
    uint32_t *end;          /* by position: after the statement and its bodies */
    uint32_t *other;        /* by position: where its else branch begins */
    uint32_t *parent;       /* by position: the statement that contains it, or 0 */
    uint32_t *loop;         /* by position: the innermost loop that contains it, or 0 */
    uint32_t *fn_at;        /* by function: position of its first statement */
    uint32_t *fn_result;    /* by function: position of its result */
    flxi_kvar_positions *vars;
    flxi_kpositions assigns; /* by variable */
    flxi_kpositions writes;  /* by buffer: stores, atomics, copies */
    flxi_kpositions order;   /* one group: barriers, waits, atomics that order: accesses of others come between */
    flxi_kpositions wild;    /* one group: what may write anything that is not read-only */
    uint8_t *does;           /* by expression: KF_… */
    uint32_t *cost;          /* by expression: 0 for leaves, 1 for an addition, more for loads and divisions */
    uint8_t *fn_does;        /* by function: KF_… */
    uint8_t *copied;         /* by buffer: 1 if an async copy or a collective writes it */
    bool calls_act;          /* some function has an effect: any statement may write anything */
} flxi_kfacts;

/* Time and memory are linear in the program. flxi_kfacts_free() in any case. */
flx_code flxi_kfacts_find(flxi_kfacts *f, const flx_kernel *k, flx_error *err);
void flxi_kfacts_free(flxi_kfacts *f);

/* Whether a group has a position in [from, to). */
bool flxi_kpositions_within(const flxi_kpositions *p, uint32_t group, uint32_t from, uint32_t to);

/* It may be moved, repeated or shared, as long as its value is the same. */
static inline bool flxi_kfacts_is_pure(const flxi_kfacts *f, uint32_t e)
{
    return !(f->does[e] & (KF_EFFECT | KF_CONVERGENT | KF_HELD));
}

static inline bool flxi_kfacts_is_assigned(const flxi_kfacts *f, uint32_t var)
{
    return f->vars[var].assigns != 0;
}

/* The end of the span in which a value computed at `from` must hold to be valid at `use`: it includes loops that lead
   from the use back to itself without passing `from`. */
uint32_t flxi_kfacts_reach(const flxi_kfacts *f, uint32_t from, uint32_t use);

/* Whether a pure expression evaluated in the statement at `from` has the same value anywhere up to
   the statement at `to` (that statement's own effects come later). */
bool flxi_kfacts_is_stable(const flxi_kfacts *f, uint32_t e, uint32_t from, uint32_t to);
/* The same for one load, whose index is not examined, and for one variable. */
bool flxi_kfacts_is_kept(const flxi_kfacts *f, uint32_t buffer, uint32_t from, uint32_t to);
bool flxi_kfacts_is_same(const flxi_kfacts *f, uint32_t var, uint32_t from, uint32_t to);

/* Whether a variable still holds in the statement at `use`, which is in the same list or deeper, the value that it got
   in the statement at `from`: assignments in a branch that is not on the path do not count. */
bool flxi_kfacts_reaches(const flxi_kfacts *f, uint32_t var, uint32_t from, uint32_t use);

/* Whether it starts copies or waits for them: the two belong together, so neither is removed alone. */
bool flxi_klist_has_copies(flxi_klist list);

/* Whether other invocations may access its elements. */
bool flxi_kfacts_is_shared(const flxi_kfacts *f, uint32_t buffer);
/* Whether the program may write it. */
bool flxi_kfacts_is_written(const flxi_kfacts *f, uint32_t buffer);

#endif
