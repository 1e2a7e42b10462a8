/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_origin.h: where the statements of a transformed program come from. */
#ifndef FLXI_KERNEL_ORIGIN_H
#define FLXI_KERNEL_ORIGIN_H

#include "kernel/program/kernel.h"

/* A copy of k whose statements carry their position in k as their source position. Transforms pass source positions on,
   so a message about a derived statement can name the original one. */
flx_kernel *flxi_kernel_numbered(const flx_kernel *k, flx_error *err);

/* "body/2/else/0" or "fn f/1": the path of the statement of k at a position, written into buffer; NULL if there is no
   such statement. */
const char *flxi_kernel_origin(const flx_kernel *k, uint32_t position, char *buffer, size_t size);

#endif
