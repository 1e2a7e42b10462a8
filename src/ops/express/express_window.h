/* SPDX-License-Identifier: Apache-2.0 */
/* express_window.h: windows of a few taps (sliding.h) as expressions of kernels; loops over taps are unrolled. */
#ifndef FLXI_KERNEL_WINDOW_H
#define FLXI_KERNEL_WINDOW_H

#include "ops/express/express.h"
#include "ops/signal/sliding.h"

/* Whether the windows have few taps and all positions fit; the number of windows need not be known. */
bool flxi_kwindow_expresses(const flxi_windows *w);

typedef struct {
    flxi_kindex at;  /* always inside */
    uint32_t inside; /* bool; 0: always */
    bool never;      /* only padding or gaps are there, in every window */
} flxi_ktap;

/* What tap k of window o reads. */
flxi_ktap flxi_kwindow_tap(flxi_express *e, const flxi_windows *w, const flxi_kindex *o, const int64_t *k);

#endif
