/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_wrap.h: run-time conditions under which no index wraps around at 2^32. */
#ifndef FLXI_KERNEL_WRAP_H
#define FLXI_KERNEL_WRAP_H

#include "kernel/derive/kernel_flow.h"

/* known + factor * symbol * extent <= 2^32. `symbol` is a leaf that all invocations agree on; 0 means 1. The extent is
   that of an axis of the grid, in workgroups, or such a leaf. */
typedef struct flxi_kwrap {
    uint64_t known, factor;
    uint32_t symbol;
    uint32_t extent; /* a leaf; 0: the workgroups along `axis` */
    uint32_t axis;
} flxi_kwrap;

struct flxi_kwraps {
    FLXI_VEC(flxi_kwrap) list;
    bool failed; /* out of memory */
};

/* Adds a condition, unless it is there already. */
void flxi_kwraps_add(flxi_kwraps *x, const flxi_allocator *mem, const flxi_kwrap *wrap);

/* The normalised program of w, preceded by a trap for each condition. */
flx_kernel *flxi_kernel_guard_wraps(const flxi_kflow *w, const flxi_kwraps *wraps, flx_error *err);

#endif
