/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reverser.h: the state of emitting a reverse, shared by kernel_tape.c (recorded values), kernel_replay.c (the
   forward part and its repetitions), kernel_adjoint_buffers.c (the buffers and how values are added to them) and
   kernel_reverse.c (the reverse itself, where the whole is explained). */
#ifndef FLXI_KERNEL_REVERSER_H
#define FLXI_KERNEL_REVERSER_H

#include "kernel/derive/kernel_affine.h"
#include "kernel/derive/kernel_normalise.h"
#include "kernel/derive/reverse/kernel_reverse.h"

#include <stdio.h>

typedef enum {
    MODE_FORWARD, /* the real run: stores, barriers, recording of loads */
    MODE_REPLAY,  /* a repetition, from recorded values */
    MODE_COUNT,   /* the real run, only to count trips */
} flxi_krev_mode;

/* Values that a statement read and computed when it was emitted, for its reverse. */
typedef struct {
    uint32_t x[3];
    uint32_t *args;
    uint32_t z;
    uint32_t from, trips;     /* of a loop */
    uint32_t *reads, *writes; /* of an if or loop: values at its entry of the variables that its step lists */
    size_t tape;              /* of a loop: the first of its tapes, one per variable in writes */
} flxi_kpast;

/* A variable of the emitted program, and the caller's copy of its value. */
typedef struct {
    uint32_t var, value;
} flxi_ksaved;

typedef struct {
    const flxi_kreverse_request *q;
    const flx_kernel *k;
    const flxi_kflow *w;
    flxi_arena *arena;
    flxi_kb *b;
    flxi_krev_mode mode;
    uint32_t *now;            /* of variables: the value, in the emitted program */
    uint32_t *bar;            /* of variables: the adjoint; 0 is zero */
    uint32_t *iteration;      /* of loops: number of the iteration being emitted, from 0 */
    uint32_t *radix;          /* of loops: bound of its trip count, an expression, created when needed */
    uint32_t *primal;         /* of buffers: the same in the emitted program, or 0 */
    uint32_t *adjoint;        /* of buffers: its adjoint, or 0 */
    uint8_t *is_plain;        /* of buffers: additions to its adjoint need no atomics */
    uint8_t *is_written_once; /* of buffers: stores need not clear the adjoint */
    uint8_t *keeps_stores;    /* of buffers: the forward part must write it */
    FLXI_VEC(uint32_t) asked; /* buffers of the emitted program whose contents matter afterwards */
    size_t *site_tapes;       /* of variables: number + 1 of the tape that keeps the load it is bound to */
    uint32_t counts;          /* the buffer with counted trips, or 0 */
    uint32_t overflow;        /* the buffer with the overflow flag, or 0 */
    uint32_t self, total;     /* number of the invocation and the number of invocations, created when needed */
    FLXI_VEC(flxi_ksaved) saved;
    uint32_t shared[2]; /* workgroup buffers for sums of f32 and f64, created when needed */
    FLXI_VEC(flxi_ktape) tapes;
} flxi_kreverser;

static inline bool flxi_krev_ok(const flxi_kreverser *g)
{
    return flxi_kb_ok(g->b);
}

static inline void *flxi_krev_check(flxi_kreverser *g, void *p)
{
    if (!p && flxi_krev_ok(g))
        flxi_oom(&g->b->err, "the derivative of a kernel");
    return p;
}

#define SCRATCH(g, T, n) ((T *)flxi_krev_check((g), flxi_new((g)->arena, T, (n))))

/* ---- Small parts ---- */

static inline uint32_t flxi_krev_let(flxi_kreverser *g, const char *name, uint32_t value)
{
    if (!value || flxi_kx_is_leaf(flxi_kb_expr(g->b, value)))
        return value;
    return flxi_kb_var(g->b, flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, name), value));
}

/* A new variable, also for a leaf. Returns its number. */
static inline uint32_t flxi_krev_new_var(flxi_kreverser *g, const char *name, uint32_t value)
{
    return flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, name), value);
}

static inline uint32_t flxi_krev_zero(flxi_kreverser *g, uint32_t type)
{
    return flxi_kb_literal(g->b, type, 0);
}

static inline const char *flxi_krev_name(const flxi_kreverser *g, uint32_t var)
{
    return g->k->vars[var].name;
}

static inline uint32_t flxi_krev_bar_type(const flxi_kreverser *g, uint32_t var)
{
    return flxi_kernel_adjoint_type(g->k->vars[var].type);
}

static inline const char *flxi_krev_bar_name(const flxi_kreverser *g, uint32_t var, char *buffer, size_t size)
{
    snprintf(buffer, size, "bar_%.100s", flxi_krev_name(g, var));
    return buffer;
}

/* ---- kernel_tape.c ---- */

/* Adds a tape: for the variables a loop carries, or for a load inside of the enclosing loops. Returns number + 1. */
size_t flxi_krev_add_tape(flxi_kreverser *g, uint32_t type, const flxi_kstep *innermost, bool only_innermost);
void flxi_krev_record(flxi_kreverser *g, size_t tape, uint32_t slot, uint32_t value);
uint32_t flxi_krev_restore(flxi_kreverser *g, size_t tape, uint32_t slot, const char *name);
/* The slot that a load uses now: the numbers of the enclosing iterations, read as digits. */
uint32_t flxi_krev_site_slot(flxi_kreverser *g, const flxi_kstep *loop);
/* Emits the number of the invocation and the number of invocations. */
void flxi_krev_find_self(flxi_kreverser *g);
void flxi_krev_tell_tape_length(flxi_kreverser *g, const flxi_ktape *t);
/* Keeps a contribution to target[index], one slot per execution of the step, for a kernel that adds them in order. */
void flxi_krev_contribute(flxi_kreverser *g, const flxi_kstep *step, uint32_t target, uint32_t index, uint32_t term);

/* ---- kernel_replay.c ---- */

/* Emits statements in g->mode. With a trace, their reverse follows in the same scope. */
void flxi_krev_forward(flxi_kreverser *g, flxi_ksteps steps, flxi_kpast *trace);

/* A loop of a region marked `recompute`: the values carried into an iteration are not taped but recomputed by all
   earlier ones. */
static inline bool flxi_krev_is_rerun(const flxi_kstep *loop)
{
    return (loop->s->flags & FLX_KERNEL_REGION_RECOMPUTE) != 0;
}

/* Emits the iterations before the one that `now` holds, from the values at the loop's entry, which `now` also holds. */
void flxi_krev_rerun(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p);

/* ---- kernel_adjoint_buffers.c ---- */

/* Which adjoints may be added to without atomics, and which cotangents need no clearing. */
void flxi_krev_decide_buffers(flxi_kreverser *g);
void flxi_krev_ask_for(flxi_kreverser *g, uint32_t buffer);
void flxi_krev_declare_buffers(flxi_kreverser *g);
uint32_t flxi_krev_declare_words(flxi_kreverser *g, const char *name, uint8_t access, uint32_t flags, uint64_t count);
/* Creates tapes for the loads that cannot be repeated. */
void flxi_krev_find_sites(flxi_kreverser *g, flxi_ksteps steps);
/* Tells users of the kernel without its manifest how long its own buffers are. */
void flxi_krev_tell_length(flxi_kreverser *g, const char *buffer, const char *value);
bool flxi_krev_has_unknown_trips(const flxi_kflow *w, flxi_ksteps steps);

#endif
