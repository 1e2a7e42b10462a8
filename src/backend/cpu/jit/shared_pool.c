/* SPDX-License-Identifier: Apache-2.0 */
/* shared_pool.c: made when it is first wanted, with one thread for each core. */
#include "backend/cpu/jit/shared_pool.h"

typedef struct {
    const flxi_allocator *mem;
    flxi_pool *pool;
} holder;

static void *make(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    holder *h = flxi_alloc(mem, 1, sizeof *h);
    if (!h)
        return NULL;
    h->mem = mem;
    h->pool = flxi_pool_new(mem, 0);
    return h;
}

static void discard(void *data)
{
    holder *h = data;
    flxi_pool_free(h->pool);
    flxi_free(h->mem, h, 1, sizeof *h);
}

flxi_pool *flxi_shared_pool(flx_context *ctx)
{
    holder *h = flxi_context_attached(ctx, make, discard);
    return h ? h->pool : NULL;
}
