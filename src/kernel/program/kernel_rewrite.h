/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rewrite.h: copying a program with changes: the frame of every pass of the optimiser.

   flxi_krewrite_run() walks a program in the order of its text, functions first, and builds the copy statement by
   statement: buffers and functions keep their order, variables keep their names. Hooks may replace an expression,
   simplify one that was just rebuilt, or deal with a statement in their own way; what they leave alone is copied. */
#ifndef FLXI_KERNEL_REWRITE_H
#define FLXI_KERNEL_REWRITE_H

#include "kernel/program/kernel.h"

typedef struct flxi_krewrite flxi_krewrite;

/* What becomes of the names of lets. In a list that stands where it stood before they are kept. */
typedef enum {
    KNAMES_KEPT,
    KNAMES_APART,     /* the list is spliced into another: new, unless no other variable has the name */
    KNAMES_NEW,       /* the list is copied several times */
    KNAMES_ALL_APART, /* like these two, but other names are in sight there than here: also in lists within it */
    KNAMES_ALL_NEW,
} flxi_knames;

typedef struct {
    /* Called once, when the builder has its buffers and nothing else. */
    void (*begin)(flxi_krewrite *r);
    /* What stands for expression `e` of the old program in the new one; 0: it is rebuilt from its operands. */
    uint32_t (*expr)(flxi_krewrite *r, uint32_t e);
    /* The last word on an expression of the new program that was just rebuilt: itself, or a simpler one. */
    uint32_t (*node)(flxi_krewrite *r, uint32_t made);
    /* True if the statement was dealt with. Called before it is copied; r->at is its position (kernel_facts.h). */
    bool (*stmt)(flxi_krewrite *r, const flxi_ks *s);
    /* Expressions that read no variable become the same wherever they stand: they need to be mapped only once. */
    bool is_blind;
    /* Called before and behind the statements of every list; a function's list ends behind its result. */
    void (*open)(flxi_krewrite *r, flxi_klist list);
    void (*close)(flxi_krewrite *r, flxi_klist list);
} flxi_krewrite_hooks;

struct flxi_krewrite {
    const flx_kernel *from;
    flxi_kb *to;
    const flxi_krewrite_hooks *hooks;
    void *user;
    const uint8_t *drop_buffer; /* by number: not copied; NULL: all are */
    const uint8_t *drop_fn;     /* likewise */
    flxi_arena arena;           /* for as long as the rewriting lasts */
    uint32_t at;                /* position of the statement that is being copied */
    flxi_knames naming;         /* of lets in this list */
    bool ended;                 /* the rest of this list is never reached */
    uint32_t *vars;             /* by old number: the new variable, what is assigned to */
    uint32_t *values;           /* by old number: the new expression that reading it means; 0: the variable */
    uint32_t *reads;            /* by old number: the new expression that reads the new variable, 0 if not yet made */
    uint32_t *buffers, *fns, *opaques; /* by old number: the new one, 0 if there is none yet */
    uint32_t *made,
        *made_in;        /* by old expression: what it became, and in which round: operands are shared, so the work */
    uint32_t round;      /* on one statement is bounded by the number of its distinct expressions */
    uint32_t *name_uses; /* by old variable: how many variables have its name; NULL until asked for */
    FLXI_VEC(uint32_t) sources; /* by new variable: the old one it stands for; shorter than the list of variables */
};

/* The new program, or NULL with the error. */
flx_kernel *flxi_krewrite_run(flxi_krewrite *r, flx_error *err);

/* The same into a builder that exists: r->to, which must have the program's buffers under the numbers r->buffers, and
   no body open. Functions come as they are; the body becomes a block. r->hooks may be NULL. */
void flxi_krewrite_append(flxi_krewrite *r, uint32_t *buffers);

/* The program itself, for a pass that finds nothing to do. */
flx_kernel *flxi_krewrite_nothing(const flx_kernel *k);

/* For hooks. An expression of the old program as it is here in the new one; 0 for 0. */
uint32_t flxi_krewrite_expr(flxi_krewrite *r, uint32_t e);
/* An expression of the old program with other operands, already mapped; not for variables. */
uint32_t flxi_krewrite_rebuild(flxi_krewrite *r, const flxi_kx *e, const uint32_t *x, const uint32_t *args);
/* The statement copied, with its bodies. */
void flxi_krewrite_stmt(flxi_krewrite *r, const flxi_ks *s);
/* The statements of a list; r->at stands on the statement before the first, or on the one the list belongs to. */
void flxi_krewrite_list(flxi_krewrite *r, flxi_klist list);
/* The statements of a list as if they stood here instead of the statement that the list belongs to. */
void flxi_krewrite_splice(flxi_krewrite *r, flxi_klist list, flxi_knames naming);
/* Moves r->at past the list. */
void flxi_krewrite_skip(flxi_krewrite *r, flxi_klist list);
/* Says that old variable `var` is the new one `made` from here on. */
void flxi_krewrite_bind(flxi_krewrite *r, uint32_t var, uint32_t made);
/* The old variable that a new one stands for, 0 if a hook made it up. */
uint32_t flxi_krewrite_source(const flxi_krewrite *r, uint32_t made);
/* A let of the new program that stands for variable `var` of the old, named by r->naming or as said. */
void flxi_krewrite_let(flxi_krewrite *r, uint32_t var, uint32_t value);
void flxi_krewrite_let_named(flxi_krewrite *r, uint32_t var, uint32_t value, flxi_knames naming);
/* A name that nothing in the old program or in the new one so far has. */
const char *flxi_krewrite_fresh_name(flxi_krewrite *r, const char *stem);
/* Zeroed memory for as long as the rewriting lasts; NULL, and a failed builder, when there is none. */
void *flxi_krewrite_alloc(flxi_krewrite *r, size_t count, size_t size);

/* A number for everything that a program says: programs with different numbers differ. */
uint64_t flxi_kernel_fingerprint(const flx_kernel *k);

#endif
