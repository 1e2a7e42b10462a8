/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_bits.h: derivatives that would be lost in the bits of a float. */
#ifndef FLXI_KERNEL_BITS_H
#define FLXI_KERNEL_BITS_H

#include "kernel/derive/kernel_flow.h"

/* A bitcast turns a float that depends on an input into bits, and a value computed from these bits becomes a float
   again that an output depends on: there is a derivative, but no rule for it. This is an error. */
flx_code flxi_kernel_check_bits(const flxi_kflow *w, flx_error *err);

#endif
