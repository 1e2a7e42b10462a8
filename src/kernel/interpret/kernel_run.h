/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_run.h: a dispatch whose memory is bound and checked, and the interpreter, which can run it. */
#ifndef FLXI_KERNEL_RUN_H
#define FLXI_KERNEL_RUN_H

#include "kernel/program/kernel.h"

/* The memory of one buffer. */
typedef struct {
    unsigned char *data; /* of any alignment; NULL for workgroup and private buffers */
    uint64_t count;      /* elements */
} flxi_kbound;

/* The kernel is valid, its buffers are large enough, do not overlap where it matters and satisfy their conditions,
   outputs are zero, and invocation ids fit a u32. */
typedef struct {
    const flx_kernel *kernel;
    uint32_t grid[3];               /* workgroups; any may be 0 */
    const flxi_kbound *bound;       /* by buffer number */
    flx_kernel_run_options options; /* with the defaults filled in */
} flxi_kdispatch;

/* Runs a dispatch. */
typedef flx_code (*flxi_kernel_runner)(const flxi_kdispatch *d, flx_error *err);

#define FLXI_KERNEL_MAX_STEPS (UINT64_C(1) << 33) /* of a run that sets no limit */

/* The caller's options (NULL: none) with the defaults filled in; USAGE when a value does not exist. */
flx_code flxi_kernel_options(const flx_kernel_run_options *given, flx_kernel_run_options *o, flx_error *err);
/* Checks the kernel and its memory, and calls `run`. The options have their defaults filled in. */
flx_code flxi_kernel_dispatch(const flx_kernel *k, const uint32_t grid[3], const flx_kernel_memory *memory,
                              size_t num_memory, const flx_kernel_run_options *options, flxi_kernel_runner run,
                              flx_error *err);

/* A flxi_kernel_runner: the interpreter, which gives kernels their meaning. */
flx_code flxi_kernel_interpret(const flxi_kdispatch *d, flx_error *err);

/* After a dispatch that executed an indirect_dispatch: reports the grid of the next stage as the message of an error
   with code FLX_OK. */
flx_code flxi_kernel_report_stage(const flxi_kdispatch *d, const flxi_ks *s, flx_error *err);

/* The value of length(): lengths are u32, and so are indices. */
static inline uint32_t flxi_kbound_length(const flxi_kbound *b)
{
    return b->count < UINT32_MAX ? (uint32_t)b->count : UINT32_MAX;
}

#endif
