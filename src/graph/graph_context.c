/* SPDX-License-Identifier: Apache-2.0 */
/* graph_context.c: contexts for graphs: they have a table of symbolic dimensions from the start. */
#include "base/options.h"
#include "graph/type/dim.h"

static void *make_dims(flx_context *ctx)
{
    return ctx->dims = flxi_dim_table_new(&ctx->mem);
}

static void free_dims(void *dims)
{
    flxi_dim_table_free(dims);
}

flx_context *flx_context_new(const flx_context_options *options)
{
    flx_context_options o;
    if (FLXI_READ_OPTIONS(flx_context_options, &o, options, NULL) != FLX_OK)
        return NULL;
    flx_context *ctx = flxi_context_open(&o);
    if (ctx && !flxi_context_attached(ctx, make_dims, free_dims)) {
        flx_context_free(ctx);
        return NULL;
    }
    return ctx;
}
