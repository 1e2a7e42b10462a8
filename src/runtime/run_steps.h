/* SPDX-License-Identifier: Apache-2.0 */
/* run_steps.h: memory for runs of a program, and running it. */
#ifndef FLXI_RUN_STEPS_H
#define FLXI_RUN_STEPS_H

#include "compile/program.h"

#include <fluxion/run.h>

/* What one run at a time works with: the arena and the tables of addresses. Made once; running allocates nothing,
   except where an op is computed by the reference evaluator. */
typedef struct flxi_state flxi_state;

flx_code flxi_state_new(const flxi_program *m, flxi_state **out, flx_error *err);
void flxi_state_free(flxi_state *s); /* NULL is fine */

typedef struct {
    const flx_run_options *options; /* print and status; may be NULL */
    flxi_queue *queue;              /* of the program's device; NULL: the caller alone */
    bool checks_finite;             /* after each step */
    bool flushes;                   /* subnormal numbers are flushed to zero */
    size_t guard;                   /* 1 + the output that must be finite; 0: none */
    int64_t min_parallel;           /* elements from which on a kernel runs on threads; 0: the usual number */
    /* After each step, or NULL; `base` is the device address of the routine's arena. */
    void (*observe)(void *user, const flxi_routine *l, unsigned char *base, uint32_t step, int64_t time_ns);
    void *observe_user;
} flxi_run_setup;

/* Inputs by leaf, outputs by position; host addresses of dense elements. */
flx_code flxi_state_run(flxi_state *s, const flxi_run_setup *setup, const void *const *inputs, void *const *outputs,
                        flx_error *err);

/* Copies what runs left on the device (flx_run_options.left_outputs) to where they were to write it. */
flx_code flxi_state_fetch(flxi_state *s, flxi_queue *queue, flx_error *err);

#endif
