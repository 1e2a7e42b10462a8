/* SPDX-License-Identifier: Apache-2.0 */
/* tiers.c: compiling in the background, and what runs meanwhile. */
#include "session_case.h"

#include <pthread.h>
#include <stdlib.h>

static const char text[] =
    "graph f(x: f32[N], param w: f32[N]) { return mul(exp(mul(x, -0.5)), w), reduce_sum(add(x, w), axes=[0]) }";

static void report_has(const flx_exec *e, const char *part)
{
    flx_error err = {0};
    flx_buffer b = {0};
    CHECK_OK(flx_exec_report(e, &b, &err), &err);
    CHECK_MSG(strstr(b.data, part), "'%s' is not in\n%s", part, b.data);
    flx_buffer_free(&b);
}

/* The graph of `text` with 64 elements, its parameter set. */
static void begin_64(session_case *c, uint32_t flags)
{
    session_begin(c, text, 0);
    flx_dim_binding dim = {"N", 64};
    flx_compile_options o = {
        .struct_size = sizeof o, .flags = flags, .threads = 1, .optimisation = 1, .dims = &dim, .num_dims = 1};
    c->exec = flx_compile(c->g, &o, &c->err);
    CHECK_MADE(c->exec, &c->err);
    session_f32(c, 64, 2);
    CHECK_OK(flx_exec_set_param(c->exec, "w", session_f32(c, 64, 3), &c->err), &c->err);
}

static void run_and_check(session_case *c, int64_t n)
{
    flx_feed feed = {"x", c->made[0]};
    flx_tensor *out[2];
    CHECK_OK(flx_exec_run(c->exec, NULL, &feed, 1, out, &c->err), &c->err);
    CHECK_NEAR(flx_tensor_get(out[0], n - 1), 3 * 0.36787944117144233, 1e-6);
    CHECK_NEAR(flx_tensor_get(out[1], 0), 5.0 * (double)n, 1e-4 * (double)n);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
}

TEST(background_tier_runs_at_once_and_compiled_later)
{
    session_case c;
    begin_64(&c, FLX_COMPILE_BACKGROUND);
    flx_step step;
    CHECK_OK(flx_exec_step(c.exec, 0, &step), NULL);
    run_and_check(&c, 64); /* on whichever tier is on */
    CHECK_OK(flx_exec_wait_ready(c.exec, &c.err), &c.err);
    CHECK(flx_exec_is_ready(c.exec));
    CHECK_OK(flx_exec_step(c.exec, 0, &step), NULL);
    CHECK_EQ_STR(step.kind, "kernel");
    report_has(c.exec, "tier: compiled in the background\n");
    run_and_check(&c, 64);
    session_end(&c);
}

TEST(background_tier_of_each_binding_and_joined_by_free)
{
    session_case c;
    session_begin(&c, text, 0);
    session_compile(&c, FLX_COMPILE_BACKGROUND, 1);
    CHECK(flx_exec_is_ready(c.exec)); /* nothing to compile before extents are known */
    session_f32(&c, 8, 2);
    CHECK_OK(flx_exec_set_param(c.exec, "w", session_f32(&c, 8, 3), &c.err), &c.err);
    run_and_check(&c, 8);
    session_end(&c); /* waits for the compiler, and nothing is left */
}

TEST(background_tier_with_interpret_has_nothing_to_wait_for)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[3]) { return neg(x) }", 0);
    session_compile(&c, FLX_COMPILE_BACKGROUND | FLX_COMPILE_INTERPRET, 1);
    CHECK(flx_exec_is_ready(c.exec));
    CHECK_OK(flx_exec_wait_ready(c.exec, &c.err), &c.err);
    report_has(c.exec, "tier: interpreted\n");
    CHECK(!flx_exec_is_ready(NULL));
    CHECK_CODE(flx_exec_wait_ready(NULL, &c.err), FLX_E_USAGE, &c.err);
    session_end(&c);
}

/* ---- Several threads while the tier changes ---- */

static void *keep_running(void *user)
{
    session_case *c = user;
    flx_feed feed = {"x", c->made[0]};
    for (int i = 0; i < 300; i++) {
        flx_error err = {0};
        flx_tensor *out[2] = {0};
        CHECK_OK(flx_exec_run(c->exec, NULL, &feed, 1, out, &err), &err);
        CHECK_NEAR(flx_tensor_get(out[1], 0), 40.0, 1e-4);
        flx_tensor_release(out[0]);
        flx_tensor_release(out[1]);
        if (flx_exec_is_ready(c->exec) && i > 20)
            break;
    }
    return NULL;
}

TEST(background_tier_changes_while_threads_run)
{
    session_case c;
    session_begin(&c, text, 0);
    session_compile(&c, FLX_COMPILE_BACKGROUND, 2);
    session_f32(&c, 8, 2);
    CHECK_OK(flx_exec_set_param(c.exec, "w", session_f32(&c, 8, 3), &c.err), &c.err);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, keep_running, &c) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_OK(flx_exec_wait_ready(c.exec, &c.err), &c.err);
    keep_running(&c);
    session_end(&c);
}

/* ---- Small graphs ---- */

static const char *first_kind(const flx_exec *e)
{
    flx_step step;
    CHECK_OK(flx_exec_step(e, 0, &step), NULL);
    return step.kind;
}

TEST(lazy_tier_compiles_a_small_graph_after_many_runs)
{
    session_case c;
    begin_64(&c, FLX_COMPILE_LAZY);
    CHECK_EQ_STR(first_kind(c.exec), "evaluate");
    for (int i = 0; i < 1000000 && flx_exec_is_ready(c.exec) && strcmp(first_kind(c.exec), "kernel") != 0; i++)
        run_and_check(&c, 64);
    CHECK_OK(flx_exec_wait_ready(c.exec, &c.err), &c.err);
    CHECK_EQ_STR(first_kind(c.exec), "kernel");
    run_and_check(&c, 64);
    session_end(&c);
}

/* With both flags no compiler is started before runs have taken long, whatever the size. */
TEST(lazy_tier_in_the_background_is_for_all_graphs)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[100000]) { return exp(x) }", 0);
    session_compile(&c, FLX_COMPILE_LAZY | FLX_COMPILE_BACKGROUND, 1);
    CHECK(flx_exec_is_ready(c.exec));
    CHECK_EQ_STR(first_kind(c.exec), "evaluate");
    session_end(&c);
}

/* Much data, and loops, are compiled at once. */
TEST(lazy_tier_is_for_small_graphs_alone)
{
    static const char *const texts[] = {
        "graph f(x: f32[100000]) { return exp(x) }",
        "graph step(h: f32[4]) { return sin(h) }\ngraph f(x: f32[4]) { return exp(scan(x, body=@step, length=9)) }"};
    for (int i = 0; i < 2; i++) {
        session_case c;
        flx_step step;
        session_begin(&c, texts[i], 0);
        session_compile(&c, FLX_COMPILE_LAZY, 1);
        bool has_kernel = false;
        for (size_t k = 0; flx_exec_step(c.exec, k, &step) == FLX_OK; k++)
            has_kernel |= strcmp(step.kind, "kernel") == 0;
        CHECK(has_kernel);
        session_end(&c);
    }
}
