/* SPDX-License-Identifier: Apache-2.0 */
/* host_memory.h: allocate, release and copy of the interface for devices that use the memory of the host. */
#ifndef FLXI_HOST_MEMORY_H
#define FLXI_HOST_MEMORY_H

#include "backend/backend.h"

flx_code flxi_host_allocate(flx_context *ctx, size_t nbytes, flxi_device_memory *out, flx_error *err);
void flxi_host_release(flx_context *ctx, flxi_device_memory *m);
flx_code flxi_host_copy(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind);

#endif
