/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_batch.h: one kernel for many examples. */
#ifndef FLXI_KERNEL_BATCH_H
#define FLXI_KERNEL_BATCH_H

#include "kernel/program/kernel.h"

/* The layout of the examples. Along `axis` the grid has groups * size workgroups: those of the first example, then
   those of the second. One of `groups` and `size` may be 0: unknown before the dispatch. */
typedef struct {
    const uint8_t *batched; /* by number of buffer: it holds the elements of all examples, one after the other */
    uint32_t axis;
    uint32_t groups; /* workgroups of one example along the axis */
    uint64_t size;   /* examples */
} flxi_kbatch;

/* A kernel that does for every example what k does for one: other examples are not visible, neither in ids nor in
   lengths nor through indices out of bounds. Buffers that k may write must be batched. NULL with the error, "batching
   …", if k has parts that cannot be separated by example. */
flx_kernel *flxi_kernel_batch(const flx_kernel *k, const flxi_kbatch *how, flx_error *err);

#endif
