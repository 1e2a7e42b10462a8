/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_graphs.c: graphs on the device opencl beside the reference evaluator, within the bounds that are derived for
   compiled code. PoCL takes long for a program and for each kernel, so several graphs are one program, and each run has
   a share of them, others with each seed. Samples of all ops are compiled_samples_opencl. Effort compiled_all
   (script/soak): all of them. */
#include "backend/cuda/card_case.h"
#include "compile/bundle.h"
#include "compile/random_compiled.h"
#include "emit/opencl_here.h"
#include "runtime/session_case.h"

#include <fluxion/exec.h>
#include <stdlib.h>
#include <string.h>

/* Groups of all forms, then the ways that cards share, and their gradients. */
static const card_case cases[] = {
    {"graph f(x: f32[6, 70], g: f32[70]) {\n"
     "  c = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"
     "  return mul(mul(c, rsqrt(add(reduce_mean(mul(c, c), axes=[1], keep_dims=true), 1e-5))), g) }",
     {"x", "g"},
     0},
    {"graph f(x: f32[2, 5000]) { return log_softmax(x, axis=1), argmax(x, axis=1) }", {0}, 0},
    /* Rows in registers and memory of the workgroup. */
    {"graph f(x: f32[64, 26004]) { return softmax(x, axis=1) }", {0}, 0},
    {"graph f(x: bf16[64, 5008], y: f32[64, 5008]) {\n  z = add(softmax(x, axis=1), softmax(y, axis=1))\n"
     "  return div(z, reduce_sum(exp(z), axes=[1], keep_dims=true)) }",
     {0},
     0},
    {"graph f(x: bf16[300, 7], y: f16[300, 7]) { return reduce_sum(x, axes=[0]), add(cast(x, to=f16), y) }", {0}, 0},
    {"graph f(x: c64[3, 40]) { return reduce_prod(x, axes=[1]), exp(x) }", {0}, 0},
    {"graph f(a: f32[3, 40, 33], b: f32[33, 50]) { return matmul(a, b) }", {"a", "b"}, 0},
    {"graph f(a: f32[20, 200], b: f32[200, 5]) { return matmul(a, b) }", {0}, 0},
    {"graph f(a: bf16[5, 9, 40], b: bf16[40, 5, 7]) { return dot_general(a, b, lc=[2], rc=[0], lb=[0], rb=[1]) }",
     {0},
     0},
    {"graph f(x: f32[30, 8], i: i32[50]) { return gather(x, mod(i, 30), axis=0) }", {"x"}, 0},
    /* Keys in runs that are merged: two, eight, and 32 in two passes. */
    {"graph f(x: f32[30, 8], i: i32[1500]) { return gather(x, mod(i, 30), axis=0) }", {"x"}, 0},
    {"graph f(x: f32[30, 3], i: i32[7000]) { return gather(x, mod(i, 30), axis=0) }", {"x"}, 0},
    {"graph f(x: f32[1, 20000], y: f32[3, 2500]) { return sort(x, axis=1), argsort(y, axis=1) }", {0}, 0},
    {"graph f(x: f32[9, 6], i: i32[4, 6]) { return take_along(x, mod(i, 9), axis=0) }", {0}, 0},
    {"graph f(x: f32[3, 1500]) { v, i = top_k(x, k=5, axis=1) return sort(x, axis=1), v, i }", {0}, 0},
    {"graph f(x: f32[4, 50], y: i32[4, 50]) { return cumsum(x, axis=1), cummax(y, axis=0) }", {0}, 0},
    {"graph f(x: f32[30, 32], i: i32[70, 2], u: f32[70, 4, 5]) {\n"
     "  return scatter_nd(x, i, u, start_index_map=[0, 1], offset_axes=[1, 2], combine=max, oob=zero),\n"
     "         gather_nd(x, mod(i, 20), slice_sizes=[4, 8], start_index_map=[0, 1], offset_axes=[1, 2]) }",
     {0},
     0},
    {"graph f(x: f32[40, 12], w: f32[3, 12, 20], e: i32[40]) { return grouped_matmul(x, w, e, oob=zero) }",
     {"x", "w"},
     0},
    {"graph f(x: f32[2, 3, 9, 9], w: f32[4, 3, 3, 3]) { return conv(x, w, stride=[2, 1], padding=[[1, 1], [0, 1]]) }",
     {"x", "w"},
     0},
    {"graph f(x: c64[3, 60]) { return fft(x) }", {0}, 0},
    {"graph f(a: f32[5, 5]) { u, s, v = svd(a) return s }", {0}, 0}, /* on the host */
    {"graph step(s: f32[4], x: f32[4]) { t = tanh(add(mul(s, 2), x)) return t, t }\n"
     "graph f(x: f32[5, 4]) { s, all = scan(const(f32[4], [0, 1, 2, 3]), x, body=@step, num_carry=1) return s, all }",
     {"x"},
     0},
};

TEST(opencl_graphs_agree_with_the_reference)
{
    enum { MOST = 8, SHARE = 8 };
    if (!opencl_here())
        return;
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    uint64_t seed = 5 + test_seed();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_tensor *values[MOST];
        if (!effort(EFFORT_compiled_all) && (i + test_seed()) % SHARE)
            continue;
        flx_graph *g = card_case_graph(ctx, &cases[i]);
        for (size_t k = 0; k < flx_graph_input_count(g); k++)
            values[k] = card_case_value(ctx, flx_val_type(g, flx_graph_input(g, k)), &seed);
        CHECK_MSG(bundle_add(b, g, values, cases[i].text), "%s: does not run", cases[i].text);
        flx_graph_release(g);
    }
    bundle_check(b, WAY_opencl);
    bundle_free(b);
    flx_context_free(ctx);
}

TEST(opencl_random_graphs_agree_with_the_reference)
{
    if (effort(EFFORT_compiled_all) && opencl_here())
        random_compiled_try(test_seed() % 1000000, 8, WAY_opencl);
}

static void opencl_begin(session_case *c, const char *text)
{
    session_begin(c, text, 0);
    flx_compile_options o = {.struct_size = sizeof o, .device = "opencl"};
    c->exec = flx_compile(c->g, &o, &c->err);
    CHECK_OK(c->err.code, &c->err);
}

static void report_holds(const session_case *c, const char *const *parts)
{
    flx_buffer report = {0};
    flx_error err = {0};
    CHECK_OK(flx_exec_report(c->exec, &report, &err), &err);
    for (; *parts; parts++)
        CHECK_MSG(strstr(report.data, *parts), "no '%s' in\n%s", *parts, report.data);
    flx_buffer_free(&report);
}

/* Control flow is driven by the host; what no kernel computes is evaluated there, and the report says so. */
TEST(opencl_runs_control_flow_and_leaves_the_rest)
{
    session_case c;
    flx_tensor *y = NULL;
    if (!opencl_here())
        return;
    opencl_begin(&c, "graph below(s: f32[4]) { return lt(reduce_max(s, axes=[0]), 100) }\n"
                     "graph double(s: f32[4]) { return mul(s, 2) }\n"
                     "graph half(s: f32[4]) { return mul(s, 0.5) }\n"
                     "graph f(x: f32[4]) {\n"
                     "  w = while(x, cond=@below, body=@double)\n"
                     "  d = if(gt(reduce_max(w, axes=[0]), 110), w, then=@half, else=@double)\n"
                     "  return reduce_sum(mul(d, expm(diag(d)))) }");
    report_holds(&c, (const char *const[]){"device opencl", "evaluate steps", "kernel steps", NULL});
    flx_feed feed = {"x", session_f32(&c, 4, 1)}; /* 128, halved */
    CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, &y, &c.err), &c.err);
    flx_tensor_release(y);
    session_end(&c);
}

/* The first that is found is reported, and the next run knows nothing of it. */
TEST(opencl_reports_an_index_out_of_range)
{
    session_case c;
    flx_tensor *y = NULL;
    if (!opencl_here())
        return;
    opencl_begin(&c, "graph f(x: f32[6], k: f32[3]) { return gather(x, cast(k, to=i32), axis=0) }");
    flx_feed feeds[] = {{"x", session_f32(&c, 6, 1)}, {"k", session_f32(&c, 3, 7)}};
    CHECK_CODE(flx_exec_run(c.exec, NULL, feeds, 2, &y, &c.err), FLX_E_INDEX, &c.err);
    CHECK_MSG(strstr(c.err.message, "7") && strstr(c.err.message, "6"), "%s", c.err.message);
    feeds[1].value = session_f32(&c, 3, 5);
    CHECK_OK(flx_exec_run(c.exec, NULL, feeds, 2, &y, &c.err), &c.err);
    flx_tensor_release(y);
    session_end(&c);
}

/* A run that takes for ever ends at its limit. */
TEST(opencl_runs_can_be_stopped)
{
    session_case c;
    flx_tensor *y = NULL;
    if (!opencl_here())
        return;
    opencl_begin(&c, "graph below(s: f32[]) { return lt(s, 2) }\n"
                     "graph next(s: f32[]) { return mul(s, 0.5) }\n"
                     "graph f(x: f32[]) { return while(x, cond=@below, body=@next) }");
    flx_feed feed = {"x", session_f32(&c, 0, 1)};
    const flx_run_options o = {.struct_size = sizeof o, .time_limit = 0.3};
    CHECK_CODE(flx_exec_run(c.exec, &o, &feed, 1, &y, &c.err), FLX_E_TIMEOUT, &c.err);
    session_end(&c);
}

/* flx_run() keeps executables with the context, which frees them before the device. */
TEST(opencl_is_a_device_of_flx_run)
{
    session_case c;
    if (!opencl_here())
        return;
    session_begin(&c, "graph f(x: f32[3]) { return mul(x, 3), exp(x) }", 0);
    flx_feed feed = {"x", session_f32(&c, 3, 2)};
    float first = 0;
    for (int i = 0; i < 3; i++) { /* the same bits each time */
        flx_tensor *y[2] = {0};
        CHECK_OK(flx_run(c.g, &(flx_run_options){.device = "opencl"}, &feed, 1, y, &c.err), &c.err);
        CHECK_NEAR(*(const float *)flx_tensor_const_data(y[0]), 6, 0);
        float e = *(const float *)flx_tensor_const_data(y[1]);
        CHECK(i == 0 || e == first);
        first = e;
        flx_tensor_release(y[0]);
        flx_tensor_release(y[1]);
    }
    session_end(&c);
}

typedef struct {
    int hits, misses;
} cache_log;

static void count_cache(void *user, flx_log_event event, const char *subject, const char *text)
{
    cache_log *c = user;
    (void)text;
    c->hits += event == FLX_LOG_CACHE_HIT && strcmp(subject, "opencl") == 0;
    c->misses += event == FLX_LOG_CACHE_MISS && strcmp(subject, "opencl") == 0;
}

/* A program is built once; then its machine code is found. */
TEST(opencl_keeps_programs_in_the_cache)
{
    static const char text[] = "graph f(x: f32[5]) { return add(mul(x, 3), 1) }";
    if (!opencl_here())
        return;
    CHECK(setenv("FLX_CACHE", "on", 1) == 0); /* the tests' own is off */
    for (int i = 0; i < 2; i++) {
        cache_log seen = {0};
        flx_error err = {0};
        flx_tensor *y = NULL;
        flx_context *ctx = flx_context_new(&(flx_context_options){.log = count_cache, .log_user = &seen});
        flx_graph *g = graph_of(ctx, text);
        flx_compile_options o = {
            .struct_size = sizeof o, .device = "opencl", .cache_dir = test_temp_path("opencl_cache")};
        flx_exec *e = flx_compile(g, &o, &err);
        CHECK_MADE(e, &err);
        CHECK_MSG(seen.hits == i && seen.misses == 1 - i, "%d hits, %d misses", seen.hits, seen.misses);
        const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){5});
        const float x[5] = {0, 1, 2, 3, 4};
        flx_tensor *t = flx_tensor_new(ctx, &type, x, &err);
        CHECK_OK(flx_exec_run(e, NULL, &(flx_feed){"x", t}, 1, &y, &err), &err);
        CHECK_NEAR(((const float *)flx_tensor_const_data(y))[4], 13, 0);
        flx_tensor_release(y);
        flx_tensor_release(t);
        flx_exec_free(e);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
    CHECK(setenv("FLX_CACHE", "off", 1) == 0);
}

/* A user's kernel as a node, with a trap that the run reports. */
TEST(opencl_runs_kernel_calls)
{
    session_case c;
    flx_tensor *y = NULL;
    if (!opencl_here())
        return;
    opencl_begin(&c, "kernel cube(workgroup = [4, 1, 1]) {\n  buffer x: f32[6] read;\n  buffer y: f32[6] output;\n"
                     "  let i = invocation_id(0);\n  if (i < 6) {\n    if (x[i] > 5.0) { trap(i, \"large\"); }\n"
                     "    y[i] = x[i] * x[i] * x[i];\n  }\n}\n"
                     "graph f(x: f32[6]) { return kernel_call(x, kernel=@cube, grid=[2, 1, 1], outputs=[f32[6]]) }");
    flx_feed feed = {"x", session_f32(&c, 6, 2)};
    CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, &y, &c.err), &c.err);
    CHECK_NEAR(*(const float *)flx_tensor_const_data(y), 8, 0);
    flx_tensor_release(y);
    feed.value = session_f32(&c, 6, 6);
    CHECK_CODE(flx_exec_run(c.exec, NULL, &feed, 1, &y, &c.err), FLX_E_KERNEL, &c.err);
    session_end(&c);
}
