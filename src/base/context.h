/* SPDX-License-Identifier: Apache-2.0 */
/* context.h: the state that graphs share: the allocator, limits and the symbolic dimensions. */
#ifndef FLXI_CONTEXT_H
#define FLXI_CONTEXT_H

#include "base/hash.h"
#include "base/strbuf.h"

#include <fluxion/text.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct flxi_dim_table flxi_dim_table;
typedef struct flxi_attachment flxi_attachment;

struct flx_context {
    flxi_allocator mem;
    int64_t memory_limit;
    uint64_t node_limit;
    flx_log_fn log; /* NULL: nothing is reported */
    void *log_user;
    atomic_uint next_serial;   /* of graphs; 0 is never used */
    flxi_dim_table *dims;      /* these two belong to graph/graph_context.c */
    flx_graph *dead_graphs;    /* debug builds: headers of freed graphs, so that using one is an error */
    pthread_mutex_t lock;      /* guards dims, dead_graphs and attached */
    flxi_attachment *attached; /* objects that other folders keep with the context */
};

/* A context without symbolic dimensions; flx_context_new() adds them. */
flx_context *flxi_context_open(const flx_context_options *options);
const flxi_allocator *flxi_context_mem(const flx_context *ctx);
int64_t flxi_context_limit(const flx_context *ctx);

/* Reports an event to the caller's log, if there is one. */
void flxi_log(const flx_context *ctx, flx_log_event event, const char *subject, const char *fmt, ...) FLX_PRINTF(4, 5);
bool flxi_is_logging(const flx_context *ctx);

/* The object that `make` creates once per context (caches and threads of backends), NULL if it fails. `make` identifies
   it; `discard` frees it with the context. */
void *flxi_context_attached(flx_context *ctx, void *(*make)(flx_context *ctx), void (*discard)(void *data));
/* With the context the latest objects are freed first: this one becomes the latest, because it uses others that were
   created after it. */
void flxi_context_raise(flx_context *ctx, void *(*make)(flx_context *ctx));
/* The same as flxi_context_attached() if it exists already, else NULL. */
void *flxi_context_find_attached(flx_context *ctx, void *(*make)(flx_context *ctx));

/* Passes finished text or bytes to the caller; frees them if building failed. */
flx_code flxi_buffer_finish(flxi_strbuf *b, flx_context *ctx, flx_buffer *out, flx_error *err);

#endif
