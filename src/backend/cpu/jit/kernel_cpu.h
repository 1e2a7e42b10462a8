/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_cpu.h: kernels compiled to machine code through C, kept with their context. */
#ifndef FLXI_KERNEL_CPU_H
#define FLXI_KERNEL_CPU_H

#include "kernel/interpret/kernel_run.h"

/* Compiles the kernels in one go and keeps them, so that running them starts at once; those that are kept already are
   left out. All must be of one context. */
flx_code flxi_cpu_prepare(flx_kernel *const *kernels, size_t n, flx_error *err);

/* A flxi_kernel_runner: device "cpu" of flx_kernel_run(). Workgroups are spread over threads in pieces of a size that
   does not depend on their number. A kernel whose result depends on the order of workgroups (float additions by
   atomics, results of atomics that are used) runs them in order on one thread: the same input gives the same bits. */
flx_code flxi_kernel_run_cpu(const flxi_kdispatch *d, flx_error *err);

#endif
