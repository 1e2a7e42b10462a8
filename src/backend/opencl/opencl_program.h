/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_program.h: the kernels of a graph's program on an OpenCL device. */
#ifndef FLXI_OPENCL_PROGRAM_H
#define FLXI_OPENCL_PROGRAM_H

#include "backend/card/card_program.h"
#include "backend/opencl/opencl_engine.h"

/* Every device takes 1024 bytes of arguments at least, and a buffer is an address and a length. */
enum { FLXI_OPENCL_MOST_BUFFERS = 80 };

/* NULL, or why the device does not take the kernel; where there is no device, only what holds for all. */
const char *flxi_opencl_refuse_kernel(const flx_kernel *k);
flx_code flxi_opencl_check_kernel(const flx_kernel *k, flx_error *err);
/* Whether a kernel of the user can be a node of a graph. */
flx_code flxi_opencl_check_call(const flx_kernel *k, flx_error *err);

flx_code flxi_opencl_compile_program(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **out,
                                     flx_error *err);
void flxi_opencl_free_code(flxi_device_code *c); /* NULL is fine */
flx_code flxi_opencl_write_source(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err);

#endif
