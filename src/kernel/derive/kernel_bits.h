/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_bits.h: derivatives that would get lost in the bits of a float. */
#ifndef FLXI_KERNEL_BITS_H
#define FLXI_KERNEL_BITS_H

#include "kernel/derive/kernel_flow.h"

/* A float that depends on an input is taken apart by a bitcast, and what was made of its bits becomes a float again
   that an output depends on: there is a derivative, but no rule for it. An error then. */
flx_code flxi_kernel_check_bits(const flxi_kflow *w, flx_error *err);

#endif
