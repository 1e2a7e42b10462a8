/* SPDX-License-Identifier: Apache-2.0 */
/* host_op.h: operations that the program has added to a context. */
#ifndef FLXI_HOST_OP_H
#define FLXI_HOST_OP_H

#include "base/context.h"

#include <fluxion/custom.h>

/* Whether flx_register_custom() has added one of this name. */
bool flxi_custom_is_registered(flx_context *ctx, const char *name);

/* An operation that every context has (schur_op.c). Its functions are handed the allocator. */
extern const flx_custom_op flxi_schur_op;

#endif
