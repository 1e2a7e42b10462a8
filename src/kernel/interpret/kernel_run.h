/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_run.h: a dispatch whose memory is bound and checked, and the devices that can run it. */
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

/* Runs a dispatch on one device. */
typedef flx_code (*flxi_kernel_runner)(const flxi_kdispatch *d, flx_error *err);

/* Every runner listed in kernel_devices.def. */
#define KERNEL_DEVICE(name, runner) flx_code runner(const flxi_kdispatch *d, flx_error *err);
#include "kernel/interpret/kernel_devices.def"

/* After a dispatch that executed an indirect_dispatch: reports the grid of the next stage as the message of an error
   with code FLX_OK. */
flx_code flxi_kernel_report_stage(const flxi_kdispatch *d, const flxi_ks *s, flx_error *err);

/* The value of length(): lengths are u32, and so are indices. */
static inline uint32_t flxi_kbound_length(const flxi_kbound *b)
{
    return b->count < UINT32_MAX ? (uint32_t)b->count : UINT32_MAX;
}

#endif
