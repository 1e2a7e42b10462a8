/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: what a context reports: compiling, hits and misses of caches, and slower ways with their reason. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    int count[FLX_LOG_REFUSED + 1];
    char subject[100], text[400]; /* of the last fallback */
    bool is_cache_named, is_plural_wrong;
} events;

static void keep_event(void *user, flx_log_event event, const char *subject, const char *text)
{
    events *e = user;
    e->count[event]++;
    if (event == FLX_LOG_CACHE_HIT || event == FLX_LOG_CACHE_MISS)
        e->is_cache_named = strncmp(text, strcmp(subject, "cpu") == 0 ? "object cache" : "executable cache", 12) == 0;
    e->is_plural_wrong |= strstr(text, " 1 objects") || strncmp(text, "1 steps", 7) == 0 || strstr(text, " 1 kernels");
    if (event == FLX_LOG_FALLBACK) {
        snprintf(e->subject, sizeof e->subject, "%s", subject);
        snprintf(e->text, sizeof e->text, "%s", text);
    }
}

static flx_context *logging_context(events *e)
{
    return flx_context_new(
        &(flx_context_options){.struct_size = sizeof(flx_context_options), .log = keep_event, .log_user = e});
}

static flx_module *parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "log", &err);
    CHECK_MADE(m, &err);
    return m;
}

TEST(api_log_reports_compiling_and_reuse)
{
    events e = {0};
    flx_error err = {0};
    flx_context *ctx = logging_context(&e);
    char text[100]; /* of this process alone: objects may be shared with others */
    snprintf(text, sizeof text, "graph f(x: f32[3]) { return exp(mul(x, %ld)) }", (long)getpid());
    flx_module *m = parse(ctx, text);
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err), *y;
    const flx_run_options on_cpu = {.struct_size = sizeof on_cpu, .device = "cpu"};
    for (int run = 0; run < 2; run++) {
        CHECK_OK(flx_run(flx_module_main(m), &on_cpu, &(flx_feed){"x", x}, 1, &y, &err), &err);
        flx_tensor_release(y);
        CHECK_EQ_I64(e.count[FLX_LOG_COMPILED], 1);
        CHECK(e.count[FLX_LOG_CACHE_MISS] >= 1);
        CHECK_EQ_I64(e.count[FLX_LOG_CACHE_HIT], run);
        CHECK(e.is_cache_named && !e.is_plural_wrong);
    }
    CHECK_EQ_I64(e.count[FLX_LOG_FALLBACK], 0);
    flx_tensor_release(x);
    flx_module_free(m);
    flx_context_free(ctx);
}

static void check_refused_before_compiling(const char *text, flx_dim x_extent, flx_dim y_extent)
{
    events e = {0};
    flx_error err = {0};
    flx_context *ctx = logging_context(&e);
    flx_module *m = parse(ctx, text);
    const flx_type types[] = {flx_type_make(FLX_F32, 1, &x_extent), flx_type_make(FLX_F32, 1, &y_extent)};
    flx_tensor *x = flx_tensor_new(ctx, &types[0], NULL, &err), *y = flx_tensor_new(ctx, &types[1], NULL, &err);
    flx_tensor *out[2];
    CHECK_MADE(x, &err);
    CHECK_MADE(y, &err);
    const flx_feed feeds[] = {{"x", x}, {"y", y}};
    const flx_run_options on_cpu = {.struct_size = sizeof on_cpu, .device = "cpu"};
    CHECK_CODE(flx_run(flx_module_main(m), &on_cpu, feeds, 2, out, &err), FLX_E_SHAPE, &err);
    flx_exec *exec =
        flx_compile(flx_module_main(m), &(flx_compile_options){.struct_size = sizeof(flx_compile_options)}, &err);
    int at_first = e.count[FLX_LOG_COMPILED];
    CHECK_MADE(exec, &err);
    CHECK_CODE(flx_exec_run(exec, NULL, feeds, 2, out, &err), FLX_E_SHAPE, &err);
    CHECK_EQ_I64(e.count[FLX_LOG_COMPILED], at_first);
    CHECK_EQ_I64(at_first, flx_graph_symbol(flx_module_main(m), 0) ? 0 : 1);
    flx_exec_free(exec);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(api_log_shows_that_feeds_are_checked_before_compiling)
{
    check_refused_before_compiling("graph f(x: f32[3], y: f32[3]) { return add(x, y) }", 3, 4);
    check_refused_before_compiling("graph f(x: f32[N], y: f32[N]) { return add(x, y) }", 3, 4);
    check_refused_before_compiling("graph f(x: f32[N], y: f32[N * N]) { return x, y }", 3, 8);
    check_refused_before_compiling("graph f(x: f32[N], y: f32[N / 2]) { return x, y }", 3, 1);
}

TEST(api_log_gives_the_reason_for_a_slower_way)
{
    events e = {0};
    flx_error err = {0};
    flx_context *ctx = logging_context(&e);
    flx_module *m = parse(ctx, "graph f(x: f64[3]) { return lgamma(x) }");
    flx_compile_options o = {.struct_size = sizeof o, .threads = 1};
    flx_exec *exec = flx_compile(flx_module_main(m), &o, &err);
    CHECK_MADE(exec, &err);
    CHECK_EQ_I64(e.count[FLX_LOG_COMPILED], 1);
    CHECK_EQ_I64(e.count[FLX_LOG_FALLBACK], 1);
    CHECK_EQ_STR(e.subject, "lgamma");
    flx_exec_free(exec);
    o.flags = FLX_COMPILE_INTERPRET; /* asked for: not a fallback */
    exec = flx_compile(flx_module_main(m), &o, &err);
    CHECK_MADE(exec, &err);
    CHECK_EQ_I64(e.count[FLX_LOG_COMPILED], 2);
    CHECK_EQ_I64(e.count[FLX_LOG_FALLBACK], 1);
    CHECK_MSG(strstr(e.text, "reference evaluator"), "%s", e.text);
    flx_exec_free(exec);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Runs exp of three numbers on cpu; returns the status of the run. */
static uint32_t status_of_run(flx_context *ctx, const char *cache_dir)
{
    flx_error err = {0};
    uint32_t status = 0;
    flx_module *m = parse(ctx, "graph f(x: f32[3]) { return exp(x) }");
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err), *y = NULL;
    const flx_compile_options o = {.struct_size = sizeof o, .cache_dir = cache_dir, .threads = 1};
    flx_exec *e = flx_compile(flx_module_main(m), &o, &err);
    CHECK_MADE(e, &err);
    const flx_run_options run = {.struct_size = sizeof run, .status = &status};
    CHECK_OK(flx_exec_run(e, &run, &(flx_feed){"x", x}, 1, &y, &err), &err);
    CHECK_NEAR(flx_tensor_get(y, 0), 1, 0);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_exec_free(e);
    flx_module_free(m);
    return status;
}

/* No compiler, and a cache that cannot be written to. Both are in the status of the run and in the log. */
TEST(api_log_and_status_show_what_is_slow)
{
    events e = {0};
    char *old_cc = getenv("FLX_CC") ? strdup(getenv("FLX_CC")) : NULL;
    char *old_cache = getenv("FLX_CACHE") ? strdup(getenv("FLX_CACHE")) : NULL;
    const char *file = test_temp_path("not a program");
    FILE *f = fopen(file, "w");
    CHECK(f && fclose(f) == 0);
    flx_context *ctx = logging_context(&e);
    setenv("FLX_CACHE", "on", 1);
    CHECK_EQ_U64(status_of_run(ctx, file), FLX_RUN_SLOW); /* the folder of the cache is a file */
    CHECK_EQ_I64(e.count[FLX_LOG_FALLBACK], 1);
    CHECK_MSG(strstr(e.text, "object cache: no cache in"), "%s", e.text);
    setenv("FLX_CACHE", "off", 1);
    CHECK_EQ_U64(status_of_run(ctx, NULL), 0);
    CHECK_EQ_I64(e.count[FLX_LOG_FALLBACK], 1);
    setenv("FLX_CC", file, 1); /* not a program */
    CHECK_EQ_U64(status_of_run(ctx, NULL), FLX_RUN_SLOW);
    CHECK_EQ_I64(e.count[FLX_LOG_FALLBACK], 2);
    CHECK_MSG(strstr(e.text, "no machine code: "), "%s", e.text);
    CHECK_EQ_I64(e.count[FLX_LOG_REFUSED], 0);
    flx_context_free(ctx);
    unlink(file);
    old_cc ? setenv("FLX_CC", old_cc, 1) : unsetenv("FLX_CC");
    old_cache ? setenv("FLX_CACHE", old_cache, 1) : unsetenv("FLX_CACHE");
    free(old_cc);
    free(old_cache);
}
