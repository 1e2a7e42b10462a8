/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c: asynchronous runs: results, several at once, cancelling, failures, misuse. */
#include "session_case.h"

#include <time.h>

static const char plain[] = "graph f(x: f32[4], y: f32[4]) { return add(mul(x, y), 1), sub(x, y) }";

/* A loop that only ends when it is cancelled. */
static const char endless[] =
    "graph grow(i: i64[], x: f32[4]) { return add(i, 1), mul(x, 0.5) }\n"
    "graph more(i: i64[], x: f32[4]) { return ge(i, 0) }\n"
    "graph f(x: f32[4]) { n, y = while(full(i64[], 0), x, cond=@more, body=@grow)\n return y }";

TEST(job_gives_the_outputs_of_a_run)
{
    session_case c;
    session_begin(&c, plain, 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    flx_feed feeds[] = {{"x", session_f32(&c, 4, 3)}, {"y", session_f32(&c, 4, 5)}};
    flx_job *j = flx_exec_start(c.exec, NULL, feeds, 2, &c.err);
    CHECK_MSG(j, "%s", c.err.message);
    flx_tensor_release(c.made[--c.count]); /* the job holds what it reads */
    flx_tensor *out[2];
    CHECK_OK(flx_job_wait(j, out, &c.err), &c.err);
    CHECK(flx_job_is_done(j));
    CHECK(flx_tensor_get(out[0], 3) == 16.0 && flx_tensor_get(out[1], 0) == -2.0);
    flx_tensor *again[2];
    CHECK_CODE(flx_job_wait(j, again, &c.err), FLX_E_USAGE, &c.err);
    CHECK(!again[0] && !again[1]);
    flx_job_free(j);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    session_end(&c);
}

TEST(job_many_at_once_have_memory_of_their_own)
{
    enum { JOBS = 12 };
    session_case c;
    session_begin(&c,
                  "graph step(x: f32[N]) { return mul(add(x, roll(x, shift=1, axis=0)), 0.5) }\n"
                  "graph f(x: f32[N]) { s = scan(x, body=@step, length=200)\n return add(s, sin(x)) }",
                  0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 2);
    flx_job *jobs[JOBS];
    flx_tensor *expected[JOBS], *out;
    for (int i = 0; i < JOBS; i++) {
        flx_feed feed = {"x", session_f32(&c, 16 + i % 3, (float)i)};
        CHECK_OK(flx_exec_run(c.exec, NULL, &feed, 1, &expected[i], &c.err), &c.err);
    }
    for (int i = 0; i < JOBS; i++) {
        flx_feed feed = {"x", c.made[i]};
        jobs[i] = flx_exec_start(c.exec, NULL, &feed, 1, &c.err);
        CHECK_MSG(jobs[i], "%s", c.err.message);
    }
    for (int i = JOBS; i-- > 0;) {
        CHECK_OK(flx_job_wait(jobs[i], &out, &c.err), &c.err);
        CHECK(memcmp(flx_tensor_const_data(out), flx_tensor_const_data(expected[i]), flx_tensor_nbytes(out)) == 0);
        flx_tensor_release(out);
        flx_tensor_release(expected[i]);
        flx_job_free(jobs[i]);
    }
    session_end(&c);
}

TEST(job_cancelled_inside_a_loop_fails_and_leaves_the_executable_usable)
{
    static const uint32_t ways[] = {FLX_COMPILE_INTERPRET, 0};
    for (size_t k = 0; k < 2; k++) {
        session_case c;
        session_begin(&c, endless, 0);
        session_compile(&c, ways[k], 1);
        flx_feed feed = {"x", session_f32(&c, 4, 1)};
        flx_tensor *out;
        for (int round = 0; round < 2; round++) {
            flx_job *j = flx_exec_start(c.exec, NULL, &feed, 1, &c.err);
            CHECK_MSG(j, "%s", c.err.message);
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
            CHECK(!flx_job_is_done(j));
            flx_job_cancel(j);
            CHECK_CODE(flx_job_wait(j, &out, &c.err), FLX_E_CANCELLED, &c.err);
            CHECK_MSG(strstr(c.err.message, "cancelled"), "%s", c.err.message);
            CHECK(!out);
            flx_job_free(j);
        }
        flx_job *left = flx_exec_start(c.exec, NULL, &feed, 1, &c.err);
        CHECK(left);
        flx_job_free(left); /* cancels */
        session_end(&c);
    }
}

TEST(job_failures_come_with_waiting_or_at_once)
{
    session_case c;
    session_begin(&c, plain, 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    flx_feed feeds[] = {{"x", session_f32(&c, 4, 3)}, {"y", session_f32(&c, 5, 5)}};
    flx_tensor *out[2];
    flx_job *j = flx_exec_start(c.exec, NULL, feeds, 2, &c.err);
    CHECK_MSG(j, "%s", c.err.message);
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(flx_job_wait(j, out, &c.err), FLX_E_SHAPE, &c.err);
        CHECK(c.err.message[0] && !out[0] && !out[1]);
    }
    CHECK_CODE(flx_job_wait(j, NULL, &c.err), FLX_E_USAGE, &c.err);
    flx_job_free(j);
    j = flx_exec_start(c.exec, NULL, feeds, 1, &c.err);
    CHECK(j);
    CHECK_CODE(flx_job_wait(j, out, &c.err), FLX_E_MISSING_INPUT, &c.err);
    flx_job_free(j);
    CHECK(!flx_exec_start(NULL, NULL, feeds, 2, &c.err) && c.err.code == FLX_E_USAGE);
    CHECK(!flx_exec_start(c.exec, NULL, NULL, 2, &c.err) && c.err.code == FLX_E_USAGE);
    CHECK(!flx_exec_start(c.exec, NULL, &(flx_feed){"x", NULL}, 1, &c.err) && c.err.code == FLX_E_USAGE);
    CHECK(!flx_exec_start(c.exec, &(flx_run_options){.flags = 8}, feeds, 2, &c.err) && c.err.code == FLX_E_USAGE);
    CHECK(!flx_exec_start(c.exec, &(flx_run_options){.num_dims = 1}, feeds, 2, &c.err) && c.err.code == FLX_E_USAGE);
    flx_job_free(NULL);
    flx_job_cancel(NULL);
    CHECK(!flx_job_is_done(NULL));
    session_end(&c);
}

TEST(job_withstands_memory_that_runs_out)
{
    session_case c;
    session_begin(&c, plain, 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    flx_feed feeds[] = {{"x", session_f32(&c, 4, 3)}, {"y", session_f32(&c, 4, 5)}};
    flx_tensor *out[2];
    for (size_t n = 1;; n++) {
        size_t failed = c.memory.failed;
        c.memory.calls = 0;
        c.memory.fail_at = n;
        c.err = (flx_error){0};
        flx_job *j = flx_exec_start(c.exec, NULL, feeds, 2, &c.err);
        flx_code code = j ? flx_job_wait(j, out, &c.err) : (flx_code)c.err.code;
        flx_job_free(j);
        c.memory.fail_at = 0;
        if (code == FLX_OK) {
            flx_tensor_release(out[0]);
            flx_tensor_release(out[1]);
        }
        if (c.memory.failed == failed)
            break;
        CHECK_MSG(code == FLX_E_OOM || code == FLX_OK, "allocation %zu: %s", n, c.err.message);
    }
    session_end(&c);
}
