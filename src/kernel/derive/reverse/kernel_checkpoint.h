/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_checkpoint.h: splits loops so that their reverse needs less tape. */
#ifndef FLXI_KERNEL_CHECKPOINT_H
#define FLXI_KERNEL_CHECKPOINT_H

#include "kernel/program/kernel.h"

/* The program with each loop whose variable is flagged split into pieces of about the square root of its trip count: a
   loop over pieces around a loop over the iterations of one. Because the inner loop is replayed piece by piece, its
   tape is reused, and n states become about 2 sqrt(n). k is normalised, and so is the result. */
flx_kernel *flxi_kernel_cut_loops(const flx_kernel *k, const uint8_t *is_cut, flx_error *err);

#endif
