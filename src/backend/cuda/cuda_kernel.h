/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_kernel.h: kernels as functions of the card: those of programs, and those of the user. */
#ifndef FLXI_CUDA_KERNEL_H
#define FLXI_CUDA_KERNEL_H

#include "backend/card/card_program.h"
#include "backend/cuda/cuda_compile.h"

/* More would not fit the parameters of a launch, which are 4096 bytes. */
enum { FLXI_CUDA_MOST_BUFFERS = 240 };

typedef struct {
    flxi_card_kernel of;
    flxi_cu_function function;
} flxi_cuda_kernel;

/* NULL, or why the card does not take the kernel. */
const char *flxi_cuda_refuse_kernel(const flx_kernel *k);
flx_code flxi_cuda_check_kernel(const flx_kernel *k, flx_error *err);
/* Whether a kernel of the user can be a node of a graph. */
flx_code flxi_cuda_check_call(const flx_kernel *k, flx_error *err);

/* The function of the kernel, by the name of its entry. */
flx_code flxi_cuda_find_function(const flxi_card *card, flxi_cu_module module, flxi_cuda_kernel *k, flx_error *err);

/* What a program's kernels are compiled to; `kernels` has room for them all. */
flx_code flxi_cuda_compile_program(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **out,
                                   flx_error *err);
void flxi_cuda_free_code(flxi_device_code *c); /* NULL is fine */
flx_code flxi_cuda_write_source(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err);

/* A flxi_kernel_runner: a dispatch of the user's. */
flx_code flxi_kernel_run_cuda(const flxi_kdispatch *d, flx_error *err);

#endif
