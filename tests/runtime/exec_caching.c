/* SPDX-License-Identifier: Apache-2.0 */
/* exec_caching.c: executables that flx_run() keeps: found again, distinguished, evicted, shared by threads. */
#include "runtime/exec.h"
#include "runtime/exec_cache.h"
#include "session_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const flx_run_options on_cpu = {.device = "cpu"};

/* Runs text's graph, freshly made, on x = 2 and gives its first output. */
static double run_text(session_case *c, const char *text, int64_t n)
{
    flx_graph *g = graph_of(c->ctx, text);
    flx_type t = flx_type_make(FLX_F32, n ? 1 : 0, &n);
    flx_tensor *x = flx_tensor_new(c->ctx, &t, NULL, &c->err), *out;
    CHECK(x);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        ((float *)flx_tensor_data(x))[i] = 2;
    CHECK_OK(flx_run(g, &on_cpu, &(flx_feed){"x", x}, 1, &out, &c->err), &c->err);
    double y = flx_tensor_get(out, 0);
    flx_tensor_release(out);
    flx_tensor_release(x);
    flx_graph_release(g);
    return y;
}

TEST(kept_executable_serves_the_same_graph_again)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[]) { return x }", 0);
    CHECK(flxi_exec_cache_count(c.ctx).entries == 0);
    CHECK(run_text(&c, "graph f(x: f32[]) { return mul(x, 3) }", 0) == 6.0);
    CHECK(run_text(&c, "graph f(x: f32[]) { return mul(x, 3) }", 0) == 6.0);
    flxi_exec_cache_counts n = flxi_exec_cache_count(c.ctx);
    CHECK(n.hits == 1 && n.misses == 1 && n.entries == 1);
    session_end(&c);
}

TEST(kept_executable_is_of_exactly_this_graph)
{
    /* Names, constants, attributes, dtypes and order all count. */
    static const struct {
        const char *text;
        double y;
    } rows[] = {
        {"graph f(x: f32[]) { return mul(x, 3) }", 6},       {"graph f(x: f32[]) { return mul(x, 4) }", 8},
        {"graph f(x: f32[]) { return add(x, 3) }", 5},       {"graph f(x: f32[]) { return sub(x, 3) }", -1},
        {"graph f(x: f32[]) { return sub(3, x) }", 1},       {"graph f(x: f32[]) { y = mul(x, 3) return y }", 6},
        {"graph f(param x: f32[]) { return mul(x, 3) }", 6},
    };
    session_case c;
    session_begin(&c, "graph f(x: f32[]) { return x }", 0);
    size_t count = sizeof rows / sizeof *rows;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++)
            CHECK(run_text(&c, rows[i].text, 0) == rows[i].y);
    flxi_exec_cache_counts n = flxi_exec_cache_count(c.ctx);
    CHECK_EQ_U64(n.hits, count);
    CHECK_EQ_U64(n.misses, count);
    session_end(&c);
}

TEST(kept_executables_are_few_and_the_oldest_goes_first)
{
    session_case c;
    char text[80];
    session_begin(&c, "graph f(x: f32[]) { return x }", 0);
    for (int i = 0; i < FLXI_KEPT_EXECS + 2; i++) {
        CHECK(run_text(&c, "graph f(x: f32[2]) { return reverse(x, axes=[0]) }", 2) == 2.0); /* always in use */
        snprintf(text, sizeof text, "graph f(x: f32[%d]) { return x }", i + 3);
        run_text(&c, text, i + 3);
    }
    flxi_exec_cache_counts n = flxi_exec_cache_count(c.ctx);
    CHECK_EQ_U64(n.entries, FLXI_KEPT_EXECS);
    CHECK_EQ_U64(n.evicted, 3);
    CHECK_EQ_U64(n.hits, FLXI_KEPT_EXECS + 1);
    run_text(&c, "graph f(x: f32[3]) { return x }", 3); /* the first went */
    CHECK_EQ_U64(flxi_exec_cache_count(c.ctx).misses, n.misses + 1);
    session_end(&c);
}

TEST(kept_executable_serves_many_extents)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[]) { return x }", 0);
    for (int64_t i = 1; i <= FLXI_MAX_VARIANTS + 2; i++)
        CHECK(run_text(&c, "graph f(x: f32[N]) { return x }", i) == 2.0);
    flxi_exec_cache_counts n = flxi_exec_cache_count(c.ctx);
    CHECK_EQ_U64(n.misses, 1);
    CHECK_EQ_U64(n.entries, 1);
    session_end(&c);
}

TEST(kept_executable_is_not_made_of_a_failure)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[3]) { return neg(x) }", 0);
    flx_feed feed = {"x", session_f32(&c, 4, 1)};
    flx_tensor *out;
    for (int i = 0; i < 2; i++)
        CHECK_CODE(flx_run(c.g, &on_cpu, &feed, 1, &out, &c.err), FLX_E_SHAPE, &c.err);
    feed.value = session_f32(&c, 3, 1);
    CHECK_OK(flx_run(c.g, &on_cpu, &feed, 1, &out, &c.err), &c.err);
    flx_tensor_release(out);
    CHECK_EQ_U64(flxi_exec_cache_count(c.ctx).misses, 1);
    session_end(&c);
}

/* ---- Threads ---- */

static void *run_it(void *user)
{
    session_case *c = user;
    flx_error err = {0};
    flx_tensor *out = NULL;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(flx_run(c->g, &on_cpu, &(flx_feed){"x", c->made[0]}, 1, &out, &err), &err);
        CHECK(flx_tensor_get(out, 2) == 2.25);
        flx_tensor_release(out);
    }
    return NULL;
}

TEST(kept_executable_is_compiled_once_for_threads_that_want_it_together)
{
    enum { THREADS = 6 };
    session_case c;
    session_begin(&c, "graph f(x: f32[5]) { return mul(x, x) }", 0);
    session_f32(&c, 5, 1.5f);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run_it, &c) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    flxi_exec_cache_counts n = flxi_exec_cache_count(c.ctx);
    CHECK_EQ_U64(n.misses, 1);
    CHECK_EQ_U64(n.hits, THREADS * 4 - 1);
    session_end(&c);
}

TEST(kept_executable_withstands_memory_that_runs_out)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[3]) { return x }", 0);
    flx_feed feed = {"x", session_f32(&c, 3, 1)};
    flx_tensor *out;
    for (size_t n = 1;; n++) {
        size_t failed = c.memory.failed;
        c.memory.calls = 0;
        c.memory.fail_at = n;
        flx_code code = flx_run(c.g, &on_cpu, &feed, 1, &out, &c.err);
        c.memory.fail_at = 0;
        if (code == FLX_OK)
            flx_tensor_release(out);
        if (c.memory.failed == failed)
            break;
        CHECK_MSG(code == FLX_E_OOM || code == FLX_OK, "allocation %zu: %s", n, c.err.message);
    }
    session_end(&c);
}
