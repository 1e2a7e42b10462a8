/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_status.h: the status words of a dispatch (kernel_emit.h) as the error the interpreter would give. */
#ifndef FLXI_KERNEL_STATUS_H
#define FLXI_KERNEL_STATUS_H

#include "kernel/interpret/kernel_run.h"

flx_code flxi_kernel_report_status(const flxi_kdispatch *d, const uint32_t *status, flx_error *err);

#endif
