/* SPDX-License-Identifier: Apache-2.0 */
/* group_kernel.h: a group of nodes as one kernel. */
#ifndef FLXI_GROUP_KERNEL_H
#define FLXI_GROUP_KERNEL_H

#include "compile/grouping.h"
#include "kernel/program/kernel.h"

typedef struct {
    flx_kernel *kernel;         /* buffers have the elements of values, in row-major order; the caller frees it */
    uint32_t grid[3];           /* workgroups */
    uint32_t lanes;             /* of a subgroup; 0: it has none */
    const uint32_t *values;     /* by number of the buffer - 1 */
    const bool *reads_in_place; /* likewise: read only at the element that the same invocation writes */
    uint32_t num_values;
    bool is_call;    /* a user wrote it: see flxi_compile_request */
    flx_buffer wire; /* what the program knows it by; the caller frees it */
} flxi_group_kernel;

/* Errors other than OOM mean that no kernel can be made of the group. */
flx_code flxi_group_to_kernel(const flxi_grouping *f, const flxi_group *group, flxi_arena *out, flxi_group_kernel *r,
                              flx_error *err);

void flxi_group_kernel_free(flxi_group_kernel *r); /* zeroes are fine */

#endif
