/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_checker.h: the state that the rules of validation share: the program, the target, scopes, and findings. */
#ifndef FLXI_KERNEL_CHECKER_H
#define FLXI_KERNEL_CHECKER_H

#include "kernel/check/kernel_uniform.h"
#include "kernel/program/kernel_path.h"

/* What is known about one text, whatever it is the name of. A program stores each text once, so the pointer is the key.
   */
typedef struct {
    const char *text;
    uint32_t var;       /* the innermost variable of this name that is in scope */
    uint32_t buffer;    /* the first buffer or … */
    uint32_t function;  /* … function of this name */
    uint32_t last_wait; /* of a tag: number + 1 of the last statement that waits for it */
    bool is_started;    /* a copy with this tag was seen */
    bool is_region;     /* a region of this generator was seen … */
    bool is_once;       /* … that is allowed once in a program */
    uint8_t checked;    /* for K09: 1 as a text, 2 as a name */
} flxi_kname;

typedef struct {
    uint32_t name;  /* of flxi_kchecker.names */
    uint32_t list;  /* number of the list of statements, the loop or the parameter list that declares it */
    uint32_t outer; /* the variable of the same name that it hides */
    bool is_visible;
} flxi_kscoped;

/* Accesses to one element, identified by a buffer and an index that is the same for all invocations. */
typedef struct {
    uint32_t buffer, index;
    uint32_t interval; /* the last barrier interval that had one */
    bool atomic, plain;
} flxi_ktouched;

typedef struct {
    const flx_kernel *k;
    flx_kernel_target target; /* with defaults filled in */
    const flxi_allocator *mem;
    flxi_arena scratch;
    bool failed; /* memory is exhausted */

    /* Findings. */
    flx_kernel_finding *findings;
    size_t room, found, errors;
    flx_error first;         /* the first error … */
    uint32_t first_position; /* … and its source position */
    flxi_kpath path;
    uint32_t position;

    /* Names and scopes. */
    flxi_index name_index;
    FLXI_VEC(flxi_kname) names;
    flxi_kscoped *vars; /* by variable */
    uint32_t *visible;  /* variables in scope, innermost last */
    size_t num_visible;
    uint32_t list, num_lists;

    /* Facts. */
    flxi_kuniform uniform;  /* in a workgroup … */
    flxi_kuniform gridwide; /* … and in the grid, if the program has a grid barrier */
    uint64_t *uses;         /* by buffer: textual uses of its contents */
    uint32_t *call_depth;   /* by function: 1 when it calls none */

    /* The walk. */
    uint32_t function;  /* that is being checked; 0: the body */
    uint32_t statement; /* number of the next one of the body */
    bool is_certain;    /* every invocation gets here */
    uint32_t interval;  /* number of barriers so far */
    flxi_index touched_index;
    FLXI_VEC(flxi_ktouched) touched;
} flxi_kchecker;

/* Whether all invocations get to the statement together. */
static inline bool flxi_kchecker_is_uniform(const flxi_kchecker *c, const flxi_kuniform *u)
{
    return c->statement - 1 < u->num_flow && u->flow[c->statement - 1];
}

/* An error, or a warning, at the current path. */
void flxi_kfind(flxi_kchecker *c, const char *code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);
void flxi_kwarn(flxi_kchecker *c, const char *code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

/* The record of a text, created if it is new. Valid until the next call. Number 0 means none, used when memory is
   exhausted. */
uint32_t flxi_kname_number(flxi_kchecker *c, const char *text);
flxi_kname *flxi_kname_of(flxi_kchecker *c, const char *text);

/* K09 unless the text is UTF-8; a name must also have 1 to 1024 bytes and no control bytes. Each text is checked once.
   */
void flxi_kcheck_name(flxi_kchecker *c, const char *what, const char *name);
void flxi_kcheck_text(flxi_kchecker *c, const char *what, const char *text);

/* For messages: a shortened and cleaned text, the name of a type, of a buffer. */
typedef struct {
    char at[64];
} flxi_kshown;

flxi_kshown flxi_kshow(const char *text);
const char *flxi_ktype_shown(uint32_t type);

/* The buffer with that number, or K15 and the row of zeros. */
const flxi_kbuffer *flxi_kcheck_buffer(flxi_kchecker *c, uint32_t buffer, const char *what);

#endif
