/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_uniform.h: which values are the same for all invocations of a workgroup, or of the whole grid. */
#ifndef FLXI_KERNEL_UNIFORM_H
#define FLXI_KERNEL_UNIFORM_H

#include "kernel/program/kernel.h"

typedef enum { KUNIFORM_WORKGROUP, KUNIFORM_GRID } flxi_kuniform_scope;

/* Flags are 1 where all invocations of the scope agree. In functions they mean: if the arguments of the call agree. */
typedef struct {
    flxi_arena arena;       /* holds the rest */
    const uint8_t *exprs;   /* by expression: its value, wherever it is used */
    const uint8_t *vars;    /* by variable: its value, wherever it is read */
    const uint8_t *buffers; /* by buffer: the contents of a private one; 0 for all others */
    const uint8_t *flow;    /* by statement of the body, in text order from 0: whether all get there together */
    size_t num_flow;
} flxi_kuniform;

/* Fills `u` for a program, valid or not; call flxi_kuniform_free() if it succeeds. Time is linear in the program's
   size. */
flx_code flxi_kuniform_find(const flx_kernel *k, flxi_kuniform_scope scope, flxi_kuniform *u, flx_error *err);
void flxi_kuniform_free(flxi_kuniform *u);

#endif
