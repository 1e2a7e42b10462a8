/* SPDX-License-Identifier: Apache-2.0 */
/* transform_text.h: for tests of transforms: a graph given as text, values by name, runs, and verbatim errors. */
#ifndef FLX_TEST_TRANSFORM_TEXT_H
#define FLX_TEST_TRANSFORM_TEXT_H

#include "fault.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_FEEDS = 8, TEXT_OUTPUTS = 16 };

typedef struct {
    flx_context *ctx;
    flx_module *m;
    flx_graph *g; /* the main one */
    flx_feed feeds[TEXT_FEEDS];
    size_t n;
    flx_error err;
} text_bench;

static inline text_bench bench_open(const char *text, fault *f)
{
    flx_context_options o = {.alloc = fault_alloc, .alloc_user = f};
    text_bench b = {.ctx = flx_context_new(f ? &o : NULL)};
    b.m = flx_parse(b.ctx, text, strlen(text), "text", &b.err);
    CHECK_MSG(b.m != NULL, "%s: %s", b.err.where, b.err.message);
    b.g = flx_module_main(b.m);
    return b;
}

static inline void bench_close(text_bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)b->feeds[i].value);
    flx_module_free(b->m);
    flx_context_free(b->ctx);
}

/* Another f64 value to run with: x has as many elements as the dims say. */
static inline void bench_feed(text_bench *b, const char *name, int rank, const flx_dim *dims, const double *x)
{
    flx_type t = flx_type_make(FLX_F64, rank, dims);
    flx_tensor *v = flx_tensor_new(b->ctx, &t, x, &b->err);
    CHECK(v != NULL && b->n < TEXT_FEEDS);
    b->feeds[b->n++] = (flx_feed){name, v};
}

static inline void bench_feed_number(text_bench *b, const char *name, double x)
{
    bench_feed(b, name, 0, NULL, &x);
}

/* Runs g on those of the feeds that it has inputs for; the caller releases the outputs. */
static inline void bench_run(text_bench *b, const flx_graph *g, flx_tensor **out)
{
    flx_feed used[TEXT_FEEDS];
    size_t n = 0;
    CHECK_MSG(g != NULL, "%s (%s)", b->err.message, b->err.where);
    CHECK(flx_graph_output_count(g) <= TEXT_OUTPUTS);
    CHECK_OK(flx_graph_verify(g, &b->err), &b->err);
    for (size_t i = 0; i < b->n; i++)
        if (flx_graph_find(g, b->feeds[i].name).id)
            used[n++] = b->feeds[i];
    CHECK_OK(flx_run(g, ON_REF, used, n, out, &b->err), &b->err);
}

static inline void bench_release(const flx_graph *g, flx_tensor **out)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++)
        flx_tensor_release(out[i]);
}

/* The one element of output k of g, which is freed. */
static inline double bench_number(text_bench *b, flx_graph *g, size_t k)
{
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    bench_run(b, g, out);
    CHECK_EQ_I64(flx_tensor_count(out[k]), 1);
    double y = flx_tensor_get(out[k], 0);
    bench_release(g, out);
    flx_graph_release(g);
    return y;
}

/* `made` must be NULL, and the error exactly this. */
static inline void bench_refused(text_bench *b, flx_graph *made, flx_code code, const char *message, const char *where,
                                 const char *hint)
{
    CHECK_MSG(made == NULL, "it is accepted");
    CHECK_CODE(b->err.code, code, &b->err);
    CHECK_EQ_STR(b->err.message, message);
    CHECK_EQ_STR(b->err.where, where);
    CHECK_EQ_STR(b->err.hint, hint);
}

#endif
