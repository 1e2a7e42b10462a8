/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_flow.h: what derivatives need to know about a normalised program: its tree with the variables that cross the
   boundary of each body, which positions write which buffer, and which values carry derivatives. */
#ifndef FLXI_KERNEL_FLOW_H
#define FLXI_KERNEL_FLOW_H

#include "kernel/derive/kernel_rules.h"

typedef struct flxi_kstep flxi_kstep;
typedef struct flxi_kwraps flxi_kwraps;

typedef struct {
    flxi_kstep *at;
    size_t n;
} flxi_ksteps;

typedef struct {
    const uint32_t *at;
    size_t n;
} flxi_knumbers;

struct flxi_kstep {
    const flxi_ks *s;
    flxi_ksteps body, other;
    uint32_t begin, end;      /* position in the text: its own, and after everything in it */
    flxi_knumbers reads;      /* of an if or loop: variables from outside that are read inside … */
    flxi_knumbers writes;     /* … and that are assigned inside */
    const flxi_kstep *parent; /* the if or loop that contains it, or NULL */
    bool in_else;             /* of its parent */
    const flxi_kstep *loop;   /* the innermost loop around it, or NULL */
    bool is_active;           /* it, or something in it, propagates a derivative */
    bool has_barrier;         /* in it, or it is one … */
    bool has_grid_barrier;    /* … for the whole grid */
    uint32_t number;          /* of a loop: from 1 */
};

enum { KVARIED = 1, KUSEFUL = 2, KACTIVE = 3 };

typedef struct {
    uint8_t activity;       /* KVARIED | KUSEFUL */
    uint8_t is_assigned;    /* after its let */
    uint32_t value;         /* of its let; 0 for a loop's variable */
    const flxi_kstep *step; /* where it is declared */
} flxi_kvar_facts;

typedef struct {
    uint8_t activity;
    uint32_t num_loads, num_stores, num_atomics;
    uint32_t last_write; /* position of the last store or atomic */
} flxi_kbuffer_facts;

typedef struct {
    const flx_kernel *k;
    flxi_kwraps *wraps; /* conditions that proofs about indices rely on, collected where this is set; kernel_wrap.h */
    const flx_kernel *source; /* for messages: the program whose positions are k's source positions; or NULL */
    flxi_arena *arena;
    flxi_ksteps top;
    flxi_kvar_facts *vars;
    flxi_kbuffer_facts *buffers;
    uint32_t num_loops;
    bool has_axis[3]; /* the program distinguishes invocations along it */
} flxi_kflow;

/* Facts about k, a normalised program; `inputs` and `outputs` flag its buffers. Lives in the arena. */
flx_code flxi_kernel_flow(flxi_kflow *w, flxi_arena *arena, const flx_kernel *k, const uint8_t *inputs,
                          const uint8_t *outputs, flx_error *err);

static inline bool flxi_kflow_var_is_active(const flxi_kflow *w, uint32_t var)
{
    return w->vars[var].activity == KACTIVE;
}

static inline bool flxi_kflow_buffer_is_active(const flxi_kflow *w, uint32_t buffer)
{
    return w->buffers[buffer].activity == KACTIVE;
}

/* The variable of leaf `e` if it is active, else 0. */
uint32_t flxi_kflow_active_leaf(const flxi_kflow *w, uint32_t e);

/* Whether the element that a load reads may change after the load: then its value cannot be loaded again later. */
bool flxi_kflow_may_change(const flxi_kflow *w, const flxi_kstep *load);

/* "body/2/else/0": the path of the step, written into buffer. */
const char *flxi_kflow_path(const flxi_kflow *w, const flxi_kstep *step, char *buffer, size_t size);

#endif
