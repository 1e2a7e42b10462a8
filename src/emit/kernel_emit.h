/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_emit.h: emits source text of kernels for one target, any number of kernels per file. */
#ifndef FLXI_KERNEL_EMIT_H
#define FLXI_KERNEL_EMIT_H

#include "emit/kernel_text.h"

/* Words of the status: 1 when a trap was taken, its number, its address, the invocation's ids; one more than the number
   of the requested indirect dispatch. Both are numbered in text order. */
enum { KSTATUS_TRAPPED, KSTATUS_SITE, KSTATUS_ADDRESS, KSTATUS_ID, KSTATUS_INDIRECT = 6, KSTATUS_WORDS };

/* What a caller of a kernel's function has to know. */
typedef struct {
    char name[64];         /* of the function */
    size_t scratch;        /* C: bytes that each call needs, aligned to 64 */
    uint64_t units;        /* of a plain function that is cut: what a call runs a range of */
    size_t dynamic_bytes;  /* CUDA: of shared memory that the launch must ask for */
    bool is_ordered;       /* its result depends on the order of workgroups: run them in order to reproduce it */
    bool has_grid_barrier; /* CUDA: needs a cooperative launch, and a zero word to count with */
    bool has_status;       /* CUDA, OpenCL: takes a pointer to KSTATUS_WORDS zeros */
    bool has_subgroups;    /* OpenCL: takes the subgroup's size */
} flxi_kentry;

/* Writes the function of a kernel, which must be valid for the file's target. */
flx_code flxi_kernel_write(flxi_kfile *f, const flx_kernel *k, flxi_kentry *entry, flx_error *err);

/* Validates for a target. */
flx_code flxi_kernel_check_target(const flx_kernel *k, const flxi_ktarget *t, flx_error *err);

/* Trap or indirect dispatch number `site` in text order, or NULL. */
const flxi_ks *flxi_kernel_site(const flx_kernel *k, flxi_ks_kind kind, uint32_t site);

#endif
