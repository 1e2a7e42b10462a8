/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c: see registry.h. */
#include "base/registry.h"

void *flxi_registry_new(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_registry *r = flxi_alloc(mem, 1, sizeof *r);
    if (r && pthread_mutex_init(&r->lock, NULL) != 0) {
        flxi_free(mem, r, 1, sizeof *r);
        return NULL;
    }
    if (r) {
        r->mem = mem;
        flxi_arena_init(&r->arena, mem);
    }
    return r;
}

void flxi_registry_free(void *registry)
{
    flxi_registry *r = registry;
    flxi_arena_free(&r->arena);
    pthread_mutex_destroy(&r->lock);
    flxi_free(r->mem, r, 1, sizeof *r);
}
