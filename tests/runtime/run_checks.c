/* SPDX-License-Identifier: Apache-2.0 */
/* run_checks.c: values that are not finite, subnormal numbers, and the memory of a run. */
#include "base/host/float_mode.h"
#include "graph/type/finite.h"
#include "session_case.h"

#include <math.h>
#include <stdio.h>

/* ---- Finite values ---- */

static const flx_run_options checking = {.flags = FLX_RUN_CHECK_FINITE};

static void fails_at(session_case *c, float bad, int64_t at, const char *const *parts)
{
    flx_tensor *x = c->made[0];
    flx_feed feed = {"x", x};
    flx_tensor *out[2];
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        ((float *)flx_tensor_data(x))[i] = i == at ? bad : 1;
    CHECK_OK(flx_exec_run(c->exec, NULL, &feed, 1, out, &c->err), &c->err);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    CHECK_CODE(flx_exec_run(c->exec, &checking, &feed, 1, out, &c->err), FLX_E_NUMERIC, &c->err);
    CHECK(!out[0] && !out[1]);
    for (; *parts; parts++)
        CHECK_MSG(strstr(c->err.message, *parts), "no '%s' in '%s'", *parts, c->err.message);
    flx_run_options ref = checking;
    ref.device = "ref";
    CHECK_CODE(flx_run(c->g, &ref, &feed, 1, out, &c->err), FLX_E_NUMERIC, &c->err);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        ((float *)flx_tensor_data(x))[i] = 1;
    CHECK_OK(flx_exec_run(c->exec, &checking, &feed, 1, out, &c->err), &c->err);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
}

TEST(finite_check_names_node_and_element)
{
    static const uint32_t ways[] = {FLX_COMPILE_INTERPRET, FLX_COMPILE_UNGROUPED, 0};
    for (size_t k = 0; k < 3; k++) {
        session_case c;
        session_begin(&c,
                      "graph f(x: f32[6]) { l = log(reshape(x, shape=[2, 3]))\n y = mul(l, 2)\n"
                      "  return where(gt(y, 0), const(f32[], -inf), sub(y, 1)), x }",
                      0);
        session_compile(&c, ways[k], 1);
        session_f32(&c, 6, 1);
        if (k < 2) {
            fails_at(&c, 0, 4, (const char *const[]){"log 'l'", "-inf", "[1, 1]", NULL});
            fails_at(&c, -1, 5, (const char *const[]){"log 'l'", "nan", "[1, 2]", NULL});
        }
        fails_at(&c, 0, 2, (const char *const[]){"-inf at element [0, 2]", NULL});
        session_end(&c);
    }
}

TEST(first_not_finite_in_long_rows)
{
    float x[200];
    for (int i = 0; i < 200; i++)
        x[i] = (float)i - 100;
    CHECK_EQ_I64(flxi_first_not_finite(FLX_F32, x, 200), -1);
    for (int i = 199; i >= 0; i--) {
        x[i] = i % 2 ? NAN : -INFINITY;
        CHECK_EQ_I64(flxi_first_not_finite(FLX_F32, x, 200), i);
        CHECK_EQ_I64(flxi_first_not_finite(FLX_C64, x, 100), i / 2);
    }
}

TEST(finite_check_sees_every_float_dtype)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    session_case c;
    session_begin(&c, "graph f(x: f32[]) { return x }", 0);
    flx_tensor *x = session_f32(&c, 5, 65504); /* the largest of f16 */
    for (int32_t dtype = 1; dtype < FLX_DTYPE_COUNT; dtype++)
        for (int64_t at = 0; at < 5; at++)
            for (int k = 0; k < 3; k++) {
                bool has_such = dtype <= FLX_C128;
                test_fail_context("%s, element %lld, %g", flx_dtype_name(dtype), (long long)at, (double)bad[k]);
                flx_tensor *good = flx_tensor_cast(x, (flx_dtype)dtype, &c.err);
                ((float *)flx_tensor_data(x))[at] = bad[k];
                flx_tensor *y = flx_tensor_cast(x, (flx_dtype)dtype, &c.err);
                ((float *)flx_tensor_data(x))[at] = 65504;
                CHECK(good && y);
                CHECK_EQ_I64(flxi_first_not_finite(dtype, flx_tensor_const_data(good), 5), -1);
                CHECK_EQ_I64(flxi_first_not_finite(dtype, flx_tensor_const_data(y), 5), has_such ? at : -1);
                CHECK_EQ_I64(flxi_check_finite(flx_tensor_type(y), flx_tensor_const_data(y), "op", &c.err),
                             has_such ? FLX_E_NUMERIC : FLX_OK);
                flx_tensor_release(good);
                flx_tensor_release(y);
            }
    session_end(&c);
}

TEST(finite_check_looks_into_loops_and_ignores_constants)
{
    session_case c;
    session_begin(&c,
                  "graph halve(x: f32[]) { y = div(1.0, sub(x, 3))\n return add(x, mul(y, 0)) }\n"
                  "graph f(x: f32[]) { s = scan(x, body=@halve, length=4)\n return s, const(f32[2], [inf, nan]) }",
                  0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    flx_feed feed = {"x", session_f32(&c, 0, 3)};
    flx_tensor *out[2];
    CHECK_CODE(flx_exec_run(c.exec, &checking, &feed, 1, out, &c.err), FLX_E_NUMERIC, &c.err);
    CHECK_MSG(strstr(c.err.where, "halve"), "%s", c.err.where);
    *(float *)flx_tensor_data(c.made[0]) = 5;
    CHECK_OK(flx_exec_run(c.exec, &checking, &feed, 1, out, &c.err), &c.err);
    CHECK(isinf(flx_tensor_get(out[1], 0)));
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    session_end(&c);
}

TEST(run_flags_that_do_not_exist_are_errors)
{
    session_case c;
    session_begin(&c, "graph f(x: f32[]) { return neg(x) }", 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    flx_feed feed = {"x", session_f32(&c, 0, 3)};
    flx_tensor *out;
    flx_run_options o = {.flags = 2};
    CHECK_CODE(flx_exec_run(c.exec, &o, &feed, 1, &out, &c.err), FLX_E_USAGE, &c.err);
    CHECK_CODE(flx_run(c.g, &o, &feed, 1, &out, &c.err), FLX_E_USAGE, &c.err);
    flx_exec *e;
    e = flx_compile(c.g, &(flx_compile_options){.flags = 1u << 20}, &c.err);
    CHECK_CODE(e ? FLX_OK : (flx_code)c.err.code, FLX_E_USAGE, &c.err);
    session_end(&c);
}

/* ---- Subnormal numbers ---- */

static double product(session_case *c, uint32_t flags, int32_t threads, int64_t n)
{
    flx_exec *e;
    flx_compile_options o = {.struct_size = sizeof o, .flags = flags, .threads = threads, .optimisation = 1};
    e = flx_compile(c->g, &o, &c->err);
    CHECK_MADE(e, &c->err);
    flx_feed feeds[] = {{"x", c->made[0]}, {"y", c->made[1]}};
    flx_tensor *out;
    uint32_t before = flxi_float_mode();
    CHECK_OK(flx_exec_run(e, NULL, feeds, 2, &out, &c->err), &c->err);
    CHECK(flxi_float_mode() == before);
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, flx_tensor_get(out, i));
    flx_tensor_release(out);
    flx_buffer b = {0};
    CHECK_OK(flx_exec_report(e, &b, &c->err), &c->err);
    CHECK(strstr(b.data,
                 flags & FLX_COMPILE_FLUSH ? "subnormal numbers are flushed to zero" : "subnormal numbers are kept"));
    flx_buffer_free(&b);
    flx_exec_free(e);
    return most;
}

TEST(flush_takes_subnormals_for_zero_on_all_threads)
{
    enum { N = 1 << 18 };
    if (!FLXI_FLUSH_EXISTS)
        return;
    session_case c;
    session_begin(&c, "graph f(x: f32[N], y: f32[N]) { return mul(x, y) }", 0);
    session_f32(&c, N, 1e-30f);
    session_f32(&c, N, 1e-10f);
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK(product(&c, 0, threads, N) > 0.0);
        CHECK(product(&c, FLX_COMPILE_FLUSH, threads, N) == 0.0);
        CHECK(product(&c, 0, threads, N) > 0.0); /* the mode was put back */
    }
    CHECK(product(&c, FLX_COMPILE_FLUSH | FLX_COMPILE_INTERPRET, 1, 8) == 0.0);
    session_end(&c);
}

/* ---- Memory ---- */

TEST(memory_of_a_run_is_known_before_and_allocated_once)
{
    session_case c;
    session_begin(
        &c,
        "graph f(x: f32[1048576]) { a = sort(x, axis=0)\n b = sort(neg(a), axis=0)\n return reduce_max(b, axes=[0]) }",
        0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    size_t need = flx_exec_memory(c.exec);
    CHECK(need >= 1048576 * 4);
    flx_feed feed = {"x", session_f32(&c, 1048576, 1)};
    flx_tensor *out;
    c.memory.largest = 0;
    CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, &out, &c.err), &c.err);
    CHECK(c.memory.largest >= need && c.memory.largest <= need + 128);
    flx_tensor_release(out);
    size_t live = c.memory.live_bytes;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, &out, &c.err), &c.err);
        flx_tensor_release(out);
    }
    CHECK(c.memory.live_bytes == live);
    session_end(&c);
}

TEST(memory_limit_is_respected_before_allocating)
{
    session_case c;
    session_begin(&c,
                  "graph f(x: f32[4096]) { a = sort(x, axis=0)\n b = sort(neg(a), axis=0)\n return add(reduce_max(a, "
                  "axes=[0]), reduce_max(b, axes=[0])) }",
                  20000);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    CHECK(flx_exec_memory(c.exec) > 20000);
    flx_feed feed = {"x", session_f32(&c, 4096, 1)};
    flx_tensor *out;
    c.memory.largest = 0;
    CHECK_CODE(flx_exec_run(c.exec, NULL, &feed, 1, &out, &c.err), FLX_E_SIZE, &c.err);
    CHECK(c.memory.largest <= 20000);
    session_end(&c);
}
