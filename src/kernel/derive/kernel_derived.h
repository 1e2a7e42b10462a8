/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_derived.h: the parts of a derivative of a kernel: dispatches in order, and the needs of each of their buffers.
   */
#ifndef FLXI_KERNEL_DERIVED_H
#define FLXI_KERNEL_DERIVED_H

#include "kernel/program/kernel.h"

/* A buffer's length: that of a forward buffer times slots, or slots times counted numbers times the invocations. */
typedef struct {
    uint32_t forward; /* number of the forward buffer, or 0 */
    uint64_t slots;
    const uint32_t *counters; /* numbers of counted loops */
    size_t num_counters;
    bool per_invocation;
} flxi_klength;

typedef struct {
    const char *name;
    uint32_t forward; /* number of the forward buffer it belongs to, or 0 */
    uint8_t role;     /* a flx_kernel_role */
    uint8_t element;
    uint32_t flags; /* FLX_KERNEL_NEED_… */
    flxi_klength length;
    const char *length_text;
} flxi_kneed;

struct flx_kernel_derived {
    flx_context *ctx;
    flxi_arena arena;
    flx_kernel *forward;
    FLXI_VEC(flx_kernel *) kernels;
    flx_kernel *counting; /* writes `counts`, or NULL */
    uint32_t num_counters;
    FLXI_VEC(flxi_kneed) needs;
    FLXI_VEC(const char *) warnings;
    uint64_t tape_budget; /* bytes of tape per invocation, where loops of computed length may exceed it; 0: no limit */
    bool lone_axes[3];    /* the derivative relies on a single invocation along the axis */
};

#define FLXI_KERNEL_COUNTS "counts"     /* of loop iterations, found by the counting kernel */
#define FLXI_KERNEL_OVERFLOW "overflow" /* set when a loop ran longer than the caller declared */

flx_kernel_derived *flxi_kernel_derived_new(const flx_kernel *forward, flx_error *err);
bool flxi_kernel_derived_add_kernel(flx_kernel_derived *d, flx_kernel *k); /* takes ownership, also on failure */
bool flxi_kernel_derived_add_need(flx_kernel_derived *d, const flxi_kneed *need);
bool flxi_kernel_derived_warn(flx_kernel_derived *d, const char *text);

#endif
