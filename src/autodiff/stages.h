/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h: what the two forms of a pipeline share: all microbatches forwards, then all backwards (stages.c), and each
   backwards as soon as its loss is known (stages_with_loss.c). */
#ifndef FLXI_STAGES_H
#define FLXI_STAGES_H

#include "autodiff/autodiff.h"

typedef struct {
    const flx_graph *stage;
    int64_t stages, microbatches;
    size_t inputs;        /* of the stage: the activation, then its parameters */
    const flx_type *type; /* of the activation of a microbatch */
    flx_graph *all;       /* all stages at once */
    flx_graph *tick, *to;
    flx_error *err;
} flxi_stages;

/* Checks the stage; fills `inputs` and `type`. Then makes `all`, which the caller releases. */
flx_code flxi_stages_check(flxi_stages *p);
flx_code flxi_stages_make_all(flxi_stages *p);

flx_type flxi_with_axis(int64_t extent, const flx_type *t);

/* ---- In a tick: values of all stages have a leading axis of stages ---- */

flx_val flxi_stage_numbers(const flxi_stages *p, flx_graph *g); /* i32 [stages] */
/* One number for each stage, for values of rank `rank` in each of them: [stages, 1, …]. */
flx_val flxi_by_stage(const flxi_stages *p, flx_graph *g, flx_val numbers, int rank);
/* Whether an element belongs to this stage. */
flx_val flxi_is_stage(const flxi_stages *p, flx_graph *g, int64_t stage, int rank);
/* Values of the stage before, and the microbatch that enters. */
flx_val flxi_moved_on(const flxi_stages *p, flx_graph *g, flx_val state, flx_val entering);

/* ---- The whole batch; `type` is that of a microbatch ---- */

/* [microbatches, …], and back. */
flx_val flxi_microbatches_of(const flxi_stages *p, flx_graph *g, flx_val x, const flx_type *type);
flx_val flxi_joined_microbatches(const flxi_stages *p, flx_graph *g, flx_val each, const flx_type *type);
/* One of them as often as needed. */
flx_val flxi_repeated_microbatch(flx_graph *g, flx_val each, const flx_type *type, int64_t microbatch, int64_t times);

#endif
