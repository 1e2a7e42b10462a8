/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_liveness.h: assignments whose value is never read. */
#ifndef FLXI_KERNEL_LIVENESS_H
#define FLXI_KERNEL_LIVENESS_H

#include "kernel/optimise/kernel_facts.h"

/* dead[at] = 1 for every assignment at position `at` after which the variable is not read before it is assigned again
   or goes out of scope, and whose value has no effect. `dead` has room for num_positions + 1. */
flx_code flxi_kliveness_find(const flxi_kfacts *f, uint8_t *dead, flx_error *err);

#endif
