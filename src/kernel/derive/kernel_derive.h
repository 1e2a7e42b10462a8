/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_derive.h: the common beginning and end of both modes of differentiation. */
#ifndef FLXI_KERNEL_DERIVE_H
#define FLXI_KERNEL_DERIVE_H

#include "kernel/derive/kernel_derived.h"
#include "kernel/derive/kernel_flow.h"

typedef struct {
    const flx_kernel *source; /* as given */
    flx_kernel *k;            /* the kernel, simplified: a let with a single use moves to its use */
    flx_kernel_grad_options options;
    flxi_arena arena;
    uint8_t *inputs, *outputs; /* flags of buffers */
    flx_kernel_derived *result;
    bool has_arena;
} flxi_kderive;

/* The arguments of the public functions. */
typedef struct {
    const flx_kernel *k;
    const char *const *outputs, *const *inputs;
    size_t num_outputs, num_inputs;
    const flx_kernel_grad_options *options;
} flxi_kderive_request;

/* Checks arguments and the kernel, simplifies it, finds the buffers. */
flx_code flxi_kderive_start(flxi_kderive *d, const char *function, const flxi_kderive_request *q, flx_error *err);

/* Inputs and outputs must hold floats; for others the error names the operation that prevents it. */
flx_code flxi_kderive_check_types(const flxi_kderive *d, const flx_kernel *normalised, flx_error *err);

/* A warning, or under `strict` an error, for each operation whose derivative is zero by definition. */
flx_code flxi_kderive_warn(flxi_kderive *d, const flxi_kflow *w, flx_error *err);

/* An error for stores that provably conflict: every invocation writes the same element. */
flx_code flxi_kderive_check_races(const flxi_kflow *w, flx_error *err);

/* Takes over the simplified kernel: dense bindings, lengths as metadata, needs of remaining buffers, validation. */
flx_code flxi_kderive_finish(flxi_kderive *d, flx_kernel *k, flx_error *err);

/* Frees everything except the result, and also the result unless `code` is FLX_OK. */
flx_kernel_derived *flxi_kderive_end(flxi_kderive *d, flx_code code);

#endif
