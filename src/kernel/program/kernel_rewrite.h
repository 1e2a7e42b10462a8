/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rewrite.h: copying a program with changes: the framework of every pass of the optimiser.

   flxi_krewrite_run() walks a program in the order of its text, functions first, and builds the copy statement by
   statement: buffers and functions keep their order, variables keep their names. Hooks may replace an expression,
   simplify one that was just rebuilt, or handle a statement themselves; everything else is copied. */
#ifndef FLXI_KERNEL_REWRITE_H
#define FLXI_KERNEL_REWRITE_H

#include "kernel/program/kernel.h"

typedef struct flxi_krewrite flxi_krewrite;

/* How lets are named. In a list that keeps its position the names are kept. */
typedef enum {
    KNAMES_KEPT,
    KNAMES_APART,     /* the list is spliced into another: new names, unless no other variable has the name */
    KNAMES_NEW,       /* the list is copied several times */
    KNAMES_ALL_APART, /* like these two, but other names are visible there than here: also in lists within it */
    KNAMES_ALL_NEW,
} flxi_knames;

typedef struct {
    /* Called once, when the builder has its buffers and nothing else. */
    void (*begin)(flxi_krewrite *r);
    /* The expression of the new program that replaces expression `e` of the old one; 0: it is rebuilt from its
       operands. */
    uint32_t (*expr)(flxi_krewrite *r, uint32_t e);
    /* Called last on an expression of the new program that was just rebuilt: returns it, or a simpler one. */
    uint32_t (*node)(flxi_krewrite *r, uint32_t made);
    /* True if the hook handled the statement. Called before it is copied; r->at is its position (kernel_facts.h). */
    bool (*stmt)(flxi_krewrite *r, const flxi_ks *s);
    /* Expressions that read no variable are mapped the same everywhere: map them only once. */
    bool is_blind;
    /* Called before and after the statements of every list; a function's list ends after its result. */
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
    flxi_arena arena;           /* lives as long as the rewriting */
    uint32_t at;                /* position of the statement that is being copied */
    flxi_knames naming;         /* of lets in this list */
    bool ended;                 /* the rest of this list is never reached */
    uint32_t *vars;             /* by old number: the new variable, the target of assignments */
    uint32_t *values;           /* by old number: the new expression that replaces a read of it; 0: the variable */
    uint32_t *reads;            /* by old number: the new expression that reads the new variable, 0 if not yet made */
    uint32_t *buffers, *fns, *opaques; /* by old number: the new one, 0 if there is none yet */
    uint32_t *made,
        *made_in;   /* by old expression: its mapping and the round that made it: operands are shared, so the work */
    uint32_t round; /* on one statement is bounded by the number of its distinct expressions */
    uint32_t *name_uses;        /* by old variable: how many variables have its name; NULL until needed */
    FLXI_VEC(uint32_t) sources; /* by new variable: the old one it represents; shorter than the list of variables */
};

/* Returns the new program, or NULL with the error. */
flx_kernel *flxi_krewrite_run(flxi_krewrite *r, flx_error *err);

/* The same into an existing builder: r->to, which must have the program's buffers under the numbers r->buffers, and no
   open body. Functions are copied unchanged; the body becomes a block. r->hooks may be NULL. */
void flxi_krewrite_append(flxi_krewrite *r, uint32_t *buffers);

/* The program itself, for a pass that finds nothing to do. */
flx_kernel *flxi_krewrite_nothing(const flx_kernel *k);

/* For hooks. Maps an expression of the old program to the new one, as of here; 0 for 0. */
uint32_t flxi_krewrite_expr(flxi_krewrite *r, uint32_t e);
/* Rebuilds an expression of the old program with operands that are already mapped; not for variables. */
uint32_t flxi_krewrite_rebuild(flxi_krewrite *r, const flxi_kx *e, const uint32_t *x, const uint32_t *args);
/* Copies the statement with its bodies. */
void flxi_krewrite_stmt(flxi_krewrite *r, const flxi_ks *s);
/* Copies the statements of a list; r->at is the position of the statement before the first, or of the list's owner. */
void flxi_krewrite_list(flxi_krewrite *r, flxi_klist list);
/* Copies the statements of a list in place of the statement that owns the list. */
void flxi_krewrite_splice(flxi_krewrite *r, flxi_klist list, flxi_knames naming);
/* Moves r->at past the list. */
void flxi_krewrite_skip(flxi_krewrite *r, flxi_klist list);
/* Maps old variable `var` to the new one `made` from here on. */
void flxi_krewrite_bind(flxi_krewrite *r, uint32_t var, uint32_t made);
/* The old variable that a new one represents, 0 if a hook introduced it. */
uint32_t flxi_krewrite_source(const flxi_krewrite *r, uint32_t made);
/* Adds a let of the new program that represents variable `var` of the old one, named by r->naming or as given. */
void flxi_krewrite_let(flxi_krewrite *r, uint32_t var, uint32_t value);
void flxi_krewrite_let_named(flxi_krewrite *r, uint32_t var, uint32_t value, flxi_knames naming);
/* A name that is used neither in the old program nor in the new one so far. */
const char *flxi_krewrite_fresh_name(flxi_krewrite *r, const char *stem);
/* Zeroed memory that lives as long as the rewriting; NULL, and a failed builder, when memory is exhausted. */
void *flxi_krewrite_alloc(flxi_krewrite *r, size_t count, size_t size);

/* Fingerprint of the program: different fingerprints imply different programs. */
uint64_t flxi_kernel_fingerprint(const flx_kernel *k);

#endif
