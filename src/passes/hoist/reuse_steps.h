/* SPDX-License-Identifier: Apache-2.0 */
/* reuse_steps.h: what a step of a scan computes from the carries that it receives, and the step before has computed
   from the same values as its results, is carried instead of computed twice. */
#ifndef FLXI_REUSE_STEPS_H
#define FLXI_REUSE_STEPS_H

#include "passes/hoist/hoist_scan.h"

/* Steps of leapfrog compute the forces at both ends of a step: afterwards once. Bits do not change. */
flx_code flxi_reuse_steps(const flx_graph *in, flxi_prepare_body prepare, const void *user, flx_graph **out,
                          flxi_remap *remap, flx_error *err);

#endif
