/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_affine.h: indices as sums of ids and loop variables, and whether invocations can meet at an element. */
#ifndef FLXI_KERNEL_AFFINE_H
#define FLXI_KERNEL_AFFINE_H

#include "kernel/derive/kernel_flow.h"

/* An access to one buffer: the step it stands in and its index, a leaf. */
typedef struct {
    const flxi_kstep *at;
    uint32_t index;
} flxi_kaccess;

/* Whether no two different invocations (of a workgroup, if the buffer is the workgroup's) can touch the same element by
   any of these accesses to `buffer`. Axes that the program never mentions are taken to have one invocation. May rely on
   conditions that it adds to w->wraps; without that, only what ranges prove is true. */
bool flxi_kernel_is_injective(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *accesses, size_t n);

/* Whether moreover every time one access is executed it touches another element. */
bool flxi_kernel_is_single(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *access);

/* Whether the program tells invocations apart along the axis: it asks for an id, or a workgroup has several. */
bool flxi_kernel_mentions_axis(const flx_kernel *k, uint32_t axis);

/* Whether a leaf is the same for all invocations of a workgroup, whenever it is read. */
bool flxi_kernel_is_group_leaf(const flxi_kflow *w, uint32_t leaf);

#endif
