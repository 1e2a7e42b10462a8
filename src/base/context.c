/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: creates and frees contexts, and the buffers they return to callers. */
#include "base/context.h"

#include "base/error.h"
#include "base/text/count_words.h"

struct flxi_attachment {
    void *(*make)(flx_context *ctx);
    void (*discard)(void *data);
    void *data;
    flxi_attachment *next;
};

/* About 3 GiB of nodes: an expansion that grows beyond is a mistake, or an attack. */
static const uint64_t usual_nodes = (uint64_t)1 << 24;

flx_context *flxi_context_open(const flx_context_options *options)
{
    flxi_allocator mem = {flxi_default_alloc, NULL};
    if (options && options->alloc)
        mem = (flxi_allocator){options->alloc, options->alloc_user};
    flx_context *ctx = flxi_alloc(&mem, 1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->mem = mem;
    ctx->log = options ? options->log : NULL;
    ctx->log_user = options ? options->log_user : NULL;
    ctx->memory_limit = options && options->memory_limit > 0 ? options->memory_limit : 0;
    ctx->node_limit = options && options->node_limit > 0 ? (uint64_t)options->node_limit : usual_nodes;
    atomic_init(&ctx->next_serial, 1);
    if (pthread_mutex_init(&ctx->lock, NULL) != 0) {
        flxi_free(&mem, ctx, 1, sizeof *ctx);
        return NULL;
    }
    return ctx;
}

void flx_context_free(flx_context *ctx)
{
    if (!ctx)
        return;
    flxi_allocator mem = ctx->mem;
    while (ctx->attached) { /* the latest first; discarding one may use or attach others */
        flxi_attachment *a = ctx->attached;
        ctx->attached = a->next;
        a->discard(a->data);
        flxi_free(&mem, a, 1, sizeof *a);
    }
    pthread_mutex_destroy(&ctx->lock);
    flxi_free(&mem, ctx, 1, sizeof *ctx);
}

const flxi_allocator *flxi_context_mem(const flx_context *ctx)
{
    return &ctx->mem;
}

static flxi_attachment *attach(flx_context *ctx, void *(*make)(flx_context *ctx), void (*discard)(void *data))
{
    flxi_attachment *a = flxi_alloc(&ctx->mem, 1, sizeof *a);
    void *data = a ? make(ctx) : NULL;
    if (!data) {
        if (a)
            flxi_free(&ctx->mem, a, 1, sizeof *a);
        return NULL;
    }
    *a = (flxi_attachment){make, discard, data, ctx->attached};
    return ctx->attached = a;
}

static flxi_attachment *find_attachment(const flx_context *ctx, void *(*make)(flx_context *ctx))
{
    flxi_attachment *a = ctx->attached;
    while (a && a->make != make)
        a = a->next;
    return a;
}

void *flxi_context_find_attached(flx_context *ctx, void *(*make)(flx_context *ctx))
{
    pthread_mutex_lock(&ctx->lock);
    const flxi_attachment *a = find_attachment(ctx, make);
    void *data = a ? a->data : NULL;
    pthread_mutex_unlock(&ctx->lock);
    return data;
}

void *flxi_context_attached(flx_context *ctx, void *(*make)(flx_context *ctx), void (*discard)(void *data))
{
    pthread_mutex_lock(&ctx->lock);
    flxi_attachment *a = find_attachment(ctx, make);
    if (!a)
        a = attach(ctx, make, discard);
    pthread_mutex_unlock(&ctx->lock);
    return a ? a->data : NULL;
}

void flxi_context_raise(flx_context *ctx, void *(*make)(flx_context *ctx))
{
    pthread_mutex_lock(&ctx->lock);
    flxi_attachment *a = find_attachment(ctx, make), **link = &ctx->attached;
    while (a && *link != a)
        link = &(*link)->next;
    if (a) {
        *link = a->next;
        a->next = ctx->attached;
        ctx->attached = a;
    }
    pthread_mutex_unlock(&ctx->lock);
}

bool flxi_is_logging(const flx_context *ctx)
{
    return ctx && ctx->log;
}

void flxi_log(const flx_context *ctx, flx_log_event event, const char *subject, const char *fmt, ...)
{
    char text[400];
    if (!flxi_is_logging(ctx))
        return;
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    ctx->log(ctx->log_user, event, subject ? subject : "", text);
}

int64_t flxi_context_limit(const flx_context *ctx)
{
    return ctx->memory_limit;
}

void flx_buffer_free(flx_buffer *b)
{
    if (!b)
        return;
    if (b->data)
        flxi_free(&b->ctx->mem, b->data, b->size + 1, 1);
    *b = (flx_buffer){0};
}

flx_code flxi_buffer_finish(flxi_strbuf *b, flx_context *ctx, flx_buffer *out, flx_error *err)
{
    flxi_add_text(b, ""); /* so that there is a block even for empty text */
    char *exact = b->failed ? NULL : b->mem->fn(b->mem->user, b->at, b->cap, b->n + 1);
    if (!exact) {
        flxi_strbuf_free(b);
        return flxi_oom(err, "text or bytes");
    }
    *out = (flx_buffer){exact, b->n, ctx};
    return FLX_OK;
}
