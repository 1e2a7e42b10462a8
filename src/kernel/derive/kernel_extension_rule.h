/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_extension_rule.h: functions with the derivatives that extensions were registered with. */
#ifndef FLXI_KERNEL_EXTENSION_RULE_H
#define FLXI_KERNEL_EXTENSION_RULE_H

#include "kernel/program/kernel.h"

/* Declares in b, outside of all bodies, a function that computes opaque expression `e` of `k`, with the derivatives
   that its extension has. Returns its number, or 0 with b's error. */
uint32_t flxi_kextension_function(flxi_kb *b, const flx_kernel *k, const flxi_kx *e);

#endif
