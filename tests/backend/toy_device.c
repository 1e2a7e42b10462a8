/* SPDX-License-Identifier: Apache-2.0 */
/* toy_device.c: programs on the toy device (toy/toy.h), beside the samples of every op (compiled_samples_toy). The host
   faults on the toy's addresses, so whatever forgets to copy does not get far. */
#include "backend/devices.h"
#include "backend/toy/toy.h"
#include "runtime/session_case.h"

#include <fluxion/exec.h>
#include <stdio.h>
#include <string.h>

static void toy_begin(session_case *c, const char *text)
{
    CHECK(flxi_device_add(&toy_device));
    session_begin(c, text, 0);
    flx_compile_options o = {.struct_size = sizeof o, .device = "toy"};
    c->exec = flx_compile(c->g, &o, &c->err);
    CHECK_OK(c->err.code, &c->err);
}

static void toy_end(session_case *c)
{
    session_end(c);
    flxi_device_remove(&toy_device);
}

/* The report of the executable holds all of these. */
static void report_holds(const session_case *c, const char *const *parts)
{
    flx_buffer report = {0};
    flx_error err = {0};
    CHECK_OK(flx_exec_report(c->exec, &report, &err), &err);
    for (; *parts; parts++)
        CHECK_MSG(strstr(report.data, *parts), "no '%s' in\n%s", *parts, report.data);
    flx_buffer_free(&report);
}

static float run_for_first(session_case *c, const flx_feed *feeds, size_t n)
{
    flx_tensor *out[4] = {0};
    CHECK_OK(flx_exec_run(c->exec, NULL, feeds, n, out, &c->err), &c->err);
    float y = *(const float *)flx_tensor_const_data(out[0]);
    for (int i = 0; i < 4; i++)
        flx_tensor_release(out[i]);
    return y;
}

TEST(toy_device_runs_groups_and_leaves_the_rest)
{
    session_case c;
    toy_begin(&c, "graph f(x: f32[4]) { y = sort(mul(x, x)) return add(y, exp(y)), x }");
    report_holds(
        &c, (const char *const[]){"device toy, 1 thread", "kernel steps", "1 evaluate steps", "1 copy steps", NULL});
    toy_counts before = toy_count();
    float y = run_for_first(&c, &(flx_feed){"x", session_f32(&c, 4, 1)}, 1);
    toy_counts after = toy_count();
    CHECK_NEAR(y, 3.7182818284590452, 1e-6);
    CHECK(after.kernels == before.kernels + 2 && after.copies == before.copies + 1 && after.late == before.late + 3);
    toy_end(&c);
}

/* A sum of seven vectors is one group, which the toy refuses: each add is computed by the host. The square is a group
   of its own, which the toy takes. */
TEST(toy_device_refuses_groups_with_a_reason)
{
    session_case c;
    toy_begin(&c, "graph f(a: f32[3], b: f32[3], c: f32[3], d: f32[3], e: f32[3], g: f32[3], h: f32[3]) {\n"
                  "  s = add(add(add(a, b), add(c, d)), add(add(e, g), h))\n  r = sort(s)\n  return r, square(r) }");
    report_holds(&c, (const char *const[]){"no kernel: the toy takes no more than six buffers", "7 evaluate steps",
                                           "1 kernel steps", NULL});
    flx_feed feeds[7];
    static const char *const names[] = {"a", "b", "c", "d", "e", "g", "h"};
    for (int i = 0; i < 7; i++)
        feeds[i] = (flx_feed){names[i], session_f32(&c, 3, (float)i)};
    CHECK_NEAR(run_for_first(&c, feeds, 7), 21, 0);
    toy_end(&c);
}

TEST(toy_device_runs_control_flow)
{
    session_case c;
    toy_begin(&c, "graph step(s: f32[], x: f32[]) { t = add(mul(s, 2), x) return t, t }\n"
                  "graph below(s: f32[]) { return lt(s, 100) }\n"
                  "graph double(s: f32[]) { return mul(s, 2) }\n"
                  "graph half(s: f32[]) { return mul(s, 0.5) }\n"
                  "graph f(x: f32[5]) {\n"
                  "  s, all = scan(1, x, body=@step, num_carry=1)\n"
                  "  w = while(s, cond=@below, body=@double)\n"
                  "  return if(gt(w, 200), w, then=@double, else=@half), all }");
    float y = run_for_first(&c, &(flx_feed){"x", session_f32(&c, 5, 1)}, 1); /* 63, 126, halved */
    CHECK_NEAR(y, 63, 0);
    toy_end(&c);
}

TEST(toy_device_finds_what_is_not_finite)
{
    session_case c;
    toy_begin(&c, "graph f(x: f32[2]) { y = log(x) return mul(y, y) }");
    flx_feed feed = {"x", session_f32(&c, 2, 0)};
    flx_tensor *out = NULL;
    flx_run_options o = {.flags = FLX_RUN_CHECK_FINITE};
    CHECK_CODE(flx_exec_run(c.exec, &o, &feed, 1, &out, &c.err), FLX_E_NUMERIC, &c.err);
    toy_end(&c);
}

/* flx_run() keeps executables by device. */
TEST(toy_device_is_told_apart_by_flx_run)
{
    CHECK(flxi_device_add(&toy_device));
    session_case c;
    session_begin(&c, "graph f(x: f32[2]) { return mul(x, 3) }", 0);
    flx_feed feed = {"x", session_f32(&c, 2, 5)};
    uint64_t kernels = toy_count().kernels;
    static const char *const names[] = {"cpu", "toy", "ref", "toy"};
    for (int i = 0; i < 4; i++) {
        flx_tensor *out = NULL;
        CHECK_OK(flx_run(c.g, &(flx_run_options){.device = names[i]}, &feed, 1, &out, &c.err), &c.err);
        CHECK_NEAR(*(const float *)flx_tensor_const_data(out), 15, 0);
        flx_tensor_release(out);
        CHECK_EQ_U64(toy_count().kernels - kernels, (uint64_t)(i + 1) / 2);
    }
    session_end(&c);
    flxi_device_remove(&toy_device);
}

/* The first run runs each step, the second notes them, and from then on they run as one. */
TEST(toy_device_runs_noted_steps_as_one)
{
    session_case c;
    toy_begin(&c, "graph step(s: f32[], x: f32[]) { return add(mul(s, 2), x) }\n"
                  "graph f(x: f32[5]) { return scan(1, x, body=@step, num_carry=1), reduce_sum(exp(x)) }");
    uint64_t before = toy_count().sequences;
    for (int i = 0; i < 4; i++) {
        float first = run_for_first(&c, &(flx_feed){"x", session_f32(&c, 5, (float)i)}, 1);
        CHECK_NEAR(first, 32 + 31 * i, 0);
        CHECK_EQ_U64(toy_count().sequences - before, (uint64_t)i);
    }
    toy_end(&c);
}

/* Sequences of the toy run what is noted last first, where it waits for nothing: memory that is used again, and results
   that are read later, keep their order. */
TEST(toy_device_runs_noted_steps_in_any_order_that_they_allow)
{
    session_case c;
    toy_begin(&c, "graph f(v: f32[1200], w: f32[70]) {\n"
                  "  a = reduce_max(mul(v, reduce_sum(exp(v))))\n  b = reduce_max(mul(w, reduce_sum(w)))\n"
                  "  return mul(v, a), mul(w, b)\n}\n");
    uint64_t before = toy_count().moved;
    const flx_feed feeds[] = {{"v", session_f32(&c, 1200, 3)}, {"w", session_f32(&c, 70, 0.5F)}};
    float first = run_for_first(&c, feeds, 2);
    for (int i = 0; i < 3; i++)
        CHECK(run_for_first(&c, feeds, 2) == first);
    CHECK(toy_count().moved > before);
    toy_end(&c);
}

/* A parameter that is updated in place stays on the device: it is sent once, and fetched when it is wanted. */
TEST(toy_device_keeps_what_the_caller_keeps)
{
    CHECK(flxi_device_add(&toy_device));
    session_case c;
    session_begin(&c, "graph f(w: f32[3], x: f32[3]) { return add(w, x), neg(x) }", 0);
    flx_share share = {0, 0};
    flx_compile_options o = {.struct_size = sizeof o, .device = "toy", .shares = &share, .num_shares = 1};
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    CHECK(flx_exec_may_share(c.exec, 0, 0));
    float w[3] = {1, 2, 3}, x[3] = {1, 1, 1}, y[3];
    const void *in[] = {w, x};
    void *out[] = {w, y};
    const uint8_t kept[] = {1, 0}, left[] = {1, 0};
    flx_run_options run = {.struct_size = sizeof run, .kept_inputs = kept, .left_outputs = left};
    toy_counts before = toy_count();
    for (int i = 0; i < 4; i++) {
        x[0] = (float)i;
        CHECK_OK(flx_exec_run_at_with(c.exec, &run, in, out, &c.err), &c.err);
        CHECK_NEAR(y[0], -i, 0);
    }
    toy_counts after = toy_count();
    CHECK_EQ_U64(after.sent - before.sent, 5);         /* x each time, w once */
    CHECK_EQ_U64(after.received - before.received, 4); /* -x */
    CHECK_NEAR(w[0], 1, 0);
    CHECK_OK(flx_exec_fetch(c.exec, &c.err), &c.err);
    CHECK(w[0] == 7 && w[1] == 6 && w[2] == 7);
    w[1] = 100; /* without the promise it is sent again */
    CHECK_OK(flx_exec_run_at(c.exec, in, out, &c.err), &c.err);
    CHECK(w[0] == 10 && w[1] == 101 && w[2] == 8);
    CHECK_CODE(flx_exec_fetch(NULL, &c.err), FLX_E_USAGE, &c.err);
    session_end(&c);
    flxi_device_remove(&toy_device);
}

/* Whatever allocation fails, nothing is lost, and the next attempt works. */
TEST(toy_device_survives_without_memory)
{
    CHECK(flxi_device_add(&toy_device));
    session_case c;
    session_begin(&c, "graph f(x: f32[2]) { return add(sort(x), const(f32[2], [1, 2])) }", 0);
    flx_feed feed = {"x", session_f32(&c, 2, 5)};
    flx_compile_options o = {.struct_size = sizeof o, .device = "toy"};
    size_t failures = 0;
    for (bool is_done = false; !is_done; failures++) {
        flx_tensor *out = NULL;
        c.memory.fail_at = c.memory.calls + failures + 1;
        c.exec = flx_compile(c.g, &o, &c.err);
        flx_code code = (flx_code)c.err.code;
        if (c.exec)
            code = flx_exec_run(c.exec, NULL, &feed, 1, &out, &c.err);
        is_done = code == FLX_OK;
        c.memory.fail_at = 0;
        CHECK_MSG(is_done || code == FLX_E_OOM, "%s", c.err.message);
        flx_tensor_release(out);
        flx_exec_free(c.exec);
        c.exec = NULL;
    }
    CHECK(failures > 20);
    session_end(&c);
    flxi_device_remove(&toy_device);
}
