/* kernel_validate.h: the rules a program must obey, and which of its values are the same for a whole workgroup. */
#ifndef FLXI_KERNEL_VALIDATE_H
#define FLXI_KERNEL_VALIDATE_H

#include "kernel/kernel.h"

/* FLX_OK, or the first error of a validation for the interpreter, with path and hint. */
flx_code flxi_kernel_check(const flx_kernel *k, flx_error *err);

/* One flag per variable: whether all invocations of a workgroup see the same value wherever it is read. `flags` has room
   for num_vars + 1; also one per statement list is not kept: ask flxi_kernel_is_uniform for expressions. */
flx_code flxi_kernel_uniform_vars(const flx_kernel *k, uint8_t *flags, flx_error *err);
bool flxi_kernel_is_uniform(const flx_kernel *k, const uint8_t *uniform_vars, uint32_t expr);

#endif
