/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reverse.h: emits the reverse of a normalised program. */
#ifndef FLXI_KERNEL_REVERSE_H
#define FLXI_KERNEL_REVERSE_H

#include "kernel/derive/kernel_derived.h"
#include "kernel/derive/kernel_flow.h"

/* Recorded values of one variable of one loop, or of one load. */
typedef struct {
    uint32_t type;
    uint64_t slots;           /* times the counted loops below */
    const uint32_t *counters; /* numbers of loops with unknown trip counts */
    size_t num_counters;
    const flxi_kstep *loop; /* the loop whose carried variable it keeps, or NULL for a load */
    bool is_kept;           /* false: not needed, nothing is recorded */
    bool is_private;
    uint32_t buffer;        /* in the derived kernel */
    uint32_t where, target; /* for contributions to a gradient that are added later: the indices, and the gradient */
} flxi_ktape;

typedef struct {
    const flxi_kflow *w;
    const flx_kernel *k; /* normalised forward program */
    const flx_kernel_grad_options *options;
    const uint8_t *inputs, *outputs; /* flags of k's buffers */
    const uint8_t *kept;             /* by tape: whether it is needed; NULL: not yet known, keep all */
    const uint8_t *is_private;       /* by tape */
    flx_kernel_derived *d;
} flxi_kreverse_request;

typedef struct {
    flx_kernel *gradient; /* not simplified */
    flx_kernel *counting; /* or NULL */
    flxi_ktape *tapes;    /* in the arena */
    size_t num_tapes;
    uint8_t *is_scratch; /* by buffer of the gradient: its contents are not needed afterwards */
} flxi_kreverse_result;

/* Emits both kernels; fills d's needs only when `kept` is given. */
flx_code flxi_kernel_reverse(const flxi_kreverse_request *q, flxi_arena *arena, flxi_kreverse_result *out,
                             flx_error *err);

/* The trip count of a loop if it is bounded by a number, else UINT64_MAX. */
uint64_t flxi_kernel_trip_bound(const flxi_kflow *w, const flxi_kstep *loop);

#endif
