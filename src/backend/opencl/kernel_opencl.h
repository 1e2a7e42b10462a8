/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_opencl.h: kernels on an OpenCL device. */
#ifndef FLXI_KERNEL_OPENCL_H
#define FLXI_KERNEL_OPENCL_H

#include "kernel/interpret/kernel_run.h"

/* A flxi_kernel_runner. */
flx_code flxi_kernel_run_opencl(const flxi_kdispatch *d, flx_error *err);

/* Frees what a dispatch was compiled to; `owner` is the engine. */
void flxi_opencl_discard_kernel(void *owner, void *data);

#endif
