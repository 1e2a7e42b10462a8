/* SPDX-License-Identifier: Apache-2.0 */
/* graph_context.c: contexts for graphs: they have a table of symbolic dimensions from the start. */
#include "base/options.h"
#include "graph/graph.h"

static void *attach_graphs(flx_context *ctx)
{
    ctx->dims = flxi_dim_table_new(&ctx->mem);
    return ctx->dims ? ctx : NULL;
}

/* Attached first and so discarded last: other attachments may hold graphs. */
static void discard_graphs(void *data)
{
    flx_context *ctx = data;
    for (flx_graph *g = ctx->dead_graphs; g;) {
        flx_graph *next = g->next_dead;
        flxi_free(&ctx->mem, g, 1, sizeof *g);
        g = next;
    }
    flxi_dim_table_free(ctx->dims);
}

flx_context *flx_context_new(const flx_context_options *options)
{
    flx_context_options o;
    if (FLXI_READ_GROWN_OPTIONS(flx_context_options, node_limit, &o, options, NULL) != FLX_OK || o.flags ||
        o.memory_limit < 0 || o.node_limit < 0)
        return NULL;
    flx_context *ctx = flxi_context_open(&o);
    if (ctx && !flxi_context_attached(ctx, attach_graphs, discard_graphs)) {
        flx_context_free(ctx);
        return NULL;
    }
    return ctx;
}
