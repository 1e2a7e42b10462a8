/* SPDX-License-Identifier: Apache-2.0 */
/* host_memory.c: see host_memory.h. */
#include "backend/host_memory.h"

#include "base/host/stop.h"

flx_code flxi_host_allocate(flx_context *ctx, size_t nbytes, flxi_device_memory *out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    size_t all;
    *out = (flxi_device_memory){0};
    unsigned char *block = flxi_add_size(nbytes, 128, &all) ? flxi_alloc_zeroed(mem, all) : NULL;
    if (!block)
        return flxi_fail_hint(err, FLX_E_OOM, "flx bench shows how much a graph needs",
                              "out of memory: an arena of %zu bytes", nbytes);
    *out = (flxi_device_memory){.at = block + (0 - (uintptr_t)block) % 64, .handle = block, .nbytes = all};
    return FLX_OK;
}

void flxi_host_release(flx_context *ctx, flxi_device_memory *m)
{
    if (m->handle)
        flxi_free(flxi_context_mem(ctx), m->handle, m->nbytes, 1);
    *m = (flxi_device_memory){0};
}

flx_code flxi_host_copy(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind)
{
    (void)r;
    (void)kind;
    if (nbytes)
        flxi_stop_copy(to, from, nbytes);
    return FLX_OK;
}
