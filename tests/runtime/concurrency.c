/* SPDX-License-Identifier: Apache-2.0 */
/* concurrency.c: several threads compile and run at the same time: one graph, different graphs, one executable with
   more extents than it keeps, jobs, the background and one cache on disk. ThreadSanitizer runs these too
   (script/test). */
#include "runtime/exec.h"
#include "session_case.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4 };

typedef struct {
    session_case *c;
    int number;
    uint32_t flags;
    char cache[800];
} worker;

static void run_threads(session_case *c, uint32_t flags, void *(*fn)(void *))
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.c = c, .number = i, .flags = flags};
        snprintf(workers[i].cache, sizeof workers[i].cache, "%.600s/%s", test_temp_dir(), test_name());
        CHECK(pthread_create(&threads[i], NULL, fn, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* A row of n twos. */
static flx_tensor *twos(flx_context *ctx, int64_t n)
{
    flx_error err = {0};
    flx_type t = flx_type_make(FLX_F32, 1, &n);
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
    for (int64_t i = 0; x && i < n; i++)
        ((float *)flx_tensor_data(x))[i] = 2;
    return x;
}

/* Runs on n twos; whether the first output's last element is `expected`. */
static bool runs_rightly(flx_exec *e, flx_context *ctx, int64_t n, double expected)
{
    flx_error err = {0};
    flx_tensor *x = twos(ctx, n), *out[2] = {0};
    bool ok = x && flx_exec_run(e, NULL, &(flx_feed){"x", x}, 1, out, &err) == FLX_OK &&
              flx_tensor_get(out[0], flx_tensor_count(out[0]) - 1) == expected;
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(x);
    return ok;
}

static flx_exec *compile_cached(const flx_graph *g, const worker *w)
{
    flx_error err = {0};
    flx_exec *e = NULL;
    flx_compile_options o = {.flags = w->flags, .threads = 1 + w->number % 2, .optimisation = 1, .cache_dir = w->cache};
    e = flx_compile(g, &o, &err);
    CHECK_MADE(e, &err);
    return e;
}

/* ---- Compiling ---- */

static void *compile_the_same(void *user)
{
    const worker *w = user;
    for (int round = 0; round < 2; round++) {
        flx_exec *e = compile_cached(w->c->g, w);
        CHECK(runs_rightly(e, w->c->ctx, 6, 5));
        flx_exec_free(e);
    }
    return NULL;
}

TEST(concurrent_compiling_of_one_graph)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[6]) { return add(mul(x, x), 1.0) }", 0);
    run_threads(&c, 0, compile_the_same);
    run_threads(&c, FLX_COMPILE_BACKGROUND, compile_the_same);
    session_end(&c);
}

static void *compile_others(void *user)
{
    const worker *w = user;
    for (int round = 0; round < 2; round++) {
        char text[200];
        snprintf(text, sizeof text, "graph f(x: f32[6]) { return add(mul(x, x), %d.0), reduce_sum(x, axes=[0]) }",
                 w->number + 10 * round);
        flx_graph *g = graph_of(w->c->ctx, text);
        flx_exec *e = compile_cached(g, w);
        flx_graph_release(g);
        CHECK(runs_rightly(e, w->c->ctx, 6, 4 + w->number + 10 * round));
        flx_exec_free(e);
    }
    return NULL;
}

TEST(concurrent_compiling_of_different_graphs)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[6]) { return x }", 0);
    run_threads(&c, 0, compile_others);
    session_end(&c);
}

static void *run_by_name_of_device(void *user)
{
    const worker *w = user;
    for (int round = 0; round < 6; round++) {
        char text[200];
        flx_error err = {0};
        int term = (w->number + round) % 3; /* some of the same, some of others */
        snprintf(text, sizeof text, "graph f(x: f32[N]) { return add(x, %d.0) }", term);
        flx_graph *g = graph_of(w->c->ctx, text);
        flx_tensor *x = twos(w->c->ctx, 1 + round % 2), *out = NULL;
        CHECK_OK(flx_run(g, &(flx_run_options){.device = "cpu"}, &(flx_feed){"x", x}, 1, &out, &err), &err);
        CHECK(flx_tensor_get(out, 0) == 2 + term);
        flx_tensor_release(out);
        flx_tensor_release(x);
        flx_graph_release(g);
    }
    return NULL;
}

TEST(concurrent_runs_by_name_of_device)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[6]) { return x }", 0);
    run_threads(&c, 0, run_by_name_of_device);
    session_end(&c);
}

/* ---- Running ---- */

static void ask_questions(flx_exec *e)
{
    flx_error err = {0};
    flx_buffer report = {0};
    flx_step step;
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    flx_buffer_free(&report);
    CHECK(flx_exec_memory(e) < 1 << 20 && flx_exec_is_ready(e) <= 1);
    CHECK_OK(flx_exec_step(e, 0, &step), NULL);
    CHECK(step.name && step.name[0]);
}

static void *run_many_extents(void *user)
{
    const worker *w = user;
    for (int64_t i = 0; i < 2 * FLXI_MAX_VARIANTS; i++) {
        int64_t n = 1 + (i + 31 * w->number) % (2 * FLXI_MAX_VARIANTS);
        CHECK(runs_rightly(w->c->exec, w->c->ctx, n, 4.0 * (double)n));
        if (i % 50 == 7)
            ask_questions(w->c->exec);
    }
    return NULL;
}

TEST(concurrent_runs_with_more_extents_than_are_kept)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[N]) { return reduce_sum(mul(x, x), axes=[0]) }", 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 2);
    run_threads(&c, 0, run_many_extents);
    session_end(&c);
}

static void *run_large(void *user)
{
    const worker *w = user;
    for (int i = 0; i < 6; i++) {
        if (i % 2) {
            CHECK(runs_rightly(w->c->exec, w->c->ctx, 40000, 7));
            continue;
        }
        flx_error err = {0};
        flx_tensor *in = twos(w->c->ctx, 40000), *out = NULL;
        flx_job *j = flx_exec_start(w->c->exec, NULL, &(flx_feed){"x", in}, 1, &err);
        CHECK_MSG(j, "%s", err.message);
        if (i == 2)
            flx_job_cancel(j);
        flx_code code = flx_job_wait(j, &out, &err);
        CHECK(code == FLX_OK ? flx_tensor_get(out, 39999) == 7 : i == 2 && code == FLX_E_CANCELLED);
        flx_tensor_release(out);
        flx_job_free(j);
        flx_tensor_release(in);
    }
    return NULL;
}

/* Large enough for the threads of the pool, whose loops take turns. */
TEST(concurrent_runs_and_jobs_share_the_pool)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[40000]) { y = add(mul(x, x), 3.0)\n return transpose(y) }", 0);
    session_compile(&c, 0, 3);
    run_threads(&c, 0, run_large);
    session_end(&c);
}
