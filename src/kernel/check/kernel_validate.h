/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_validate.h: the rules that a program must satisfy. */
#ifndef FLXI_KERNEL_VALIDATE_H
#define FLXI_KERNEL_VALIDATE_H

#include "kernel/program/kernel.h"

/* FLX_OK, or the first error of a validation for the interpreter, with its path in err->where and a hint. */
flx_code flxi_kernel_check(const flx_kernel *k, flx_error *err);

/* The same; `position` receives the source position of the statement (offset + 1), or 0. */
flx_code flxi_kernel_check_position(const flx_kernel *k, uint32_t *position, flx_error *err);

#endif
