/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_affine.h: indices as sums of ids and loop variables, and whether two invocations can access the same element.
   */
#ifndef FLXI_KERNEL_AFFINE_H
#define FLXI_KERNEL_AFFINE_H

#include "kernel/derive/kernel_flow.h"

/* An access to one buffer: the step that contains it and its index, a leaf. */
typedef struct {
    const flxi_kstep *at;
    uint32_t index;
} flxi_kaccess;

/* Whether no two different invocations (of a workgroup, for a workgroup buffer) can access the same element through any
   of these accesses to `buffer`. Axes that the program never mentions are assumed to have one invocation. The proof may
   rely on conditions that it adds to w->wraps; if that is NULL, only on ranges. */
bool flxi_kernel_is_injective(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *accesses, size_t n);

/* Whether, in addition, each execution of one access touches a different element. */
bool flxi_kernel_is_single(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *access);

/* Whether the program distinguishes invocations along the axis: it reads an id, or a workgroup has several. */
bool flxi_kernel_mentions_axis(const flx_kernel *k, uint32_t axis);

/* Whether a leaf is the same for all invocations of a workgroup, whenever it is read. */
bool flxi_kernel_is_group_leaf(const flxi_kflow *w, uint32_t leaf);

#endif
