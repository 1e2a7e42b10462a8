/* SPDX-License-Identifier: Apache-2.0 */
/* session_case.h: what the tests of executables share: a context that keeps accounts, a graph from text, and its
   inputs. */
#ifndef FLX_SESSION_CASE_H
#define FLX_SESSION_CASE_H

#include "fault.h"
#include "graph/graph_text.h"

typedef struct {
    fault memory;
    flx_context *ctx;
    flx_graph *g;
    flx_exec *exec;
    flx_tensor *made[16];
    int count;
    flx_error err;
} session_case;

/* `c` must not move: the context's allocator is part of it. */
static inline void session_begin(session_case *c, const char *text, int64_t memory_limit)
{
    *c = (session_case){0};
    c->ctx = flx_context_new(
        &(flx_context_options){.alloc = fault_alloc, .alloc_user = &c->memory, .memory_limit = memory_limit});
    CHECK(c->ctx);
    c->g = graph_of(c->ctx, text);
}

static inline void session_compile(session_case *c, uint32_t flags, int32_t threads)
{
    flx_compile_options o = {.struct_size = sizeof o, .flags = flags, .threads = threads, .optimisation = 1};
    c->exec = flx_compile(c->g, &o, &c->err);
    CHECK_MADE(c->exec, &c->err);
}

/* A tensor of n equal elements; rank 0 when n is 0. */
static inline flx_tensor *session_f32(session_case *c, int64_t n, float value)
{
    flx_type t = flx_type_make(FLX_F32, n ? 1 : 0, &n);
    flx_tensor *x = flx_tensor_new(c->ctx, &t, NULL, &c->err);
    CHECK_MSG(x, "%s", c->err.message);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        ((float *)flx_tensor_data(x))[i] = value;
    return c->made[c->count++] = x;
}

/* Everything comes back to the allocator. */
static inline void session_end(session_case *c)
{
    flx_exec_free(c->exec);
    for (int i = 0; i < c->count; i++)
        flx_tensor_release(c->made[i]);
    flx_graph_release(c->g);
    flx_context_free(c->ctx);
    CHECK_MSG(fault_is_clean(&c->memory), "%zu blocks are left, %zu errors", c->memory.live_blocks, c->memory.errors);
}

#endif
