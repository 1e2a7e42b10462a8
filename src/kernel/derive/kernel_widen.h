/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_widen.h: the same kernel in double precision. */
#ifndef FLXI_KERNEL_WIDEN_H
#define FLXI_KERNEL_WIDEN_H

#include "kernel/program/kernel.h"

/* Every f32, f16 and bf16 becomes f64, in buffers, literals (whose values are unchanged), casts and functions.
   Operations that depend on the width of a float, such as bitcast, may become invalid. */
flx_kernel *flxi_kernel_widen(const flx_kernel *k, flx_error *err);

#endif
