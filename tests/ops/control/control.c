/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow: what runs and what does not, where loops stop, which row belongs to which step. Values of whole
   programs: tests/oracle/cross.py. */
#include "ops/run_text.h"

#include <math.h>
#include <stdio.h>

/* The elements of result i, as numbers. */
static void check_values(const text_run *r, int i, const double *want, int64_t n)
{
    CHECK_EQ_I64(flx_tensor_count(r->out[i]), n);
    for (int64_t k = 0; k < n; k++)
        CHECK_EQ_I64(flx_tensor_get(r->out[i], k), want[k]);
}

#define VALUES(r, i, ...) \
    check_values((r), (i), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* ---- if, case ---- */

#define BRANCHES                                                                       \
    "graph fails(x: f32[]) { return check(x, false, message=\"the wrong branch\") }\n" \
    "graph same(x: f32[]) { return stop_gradient(x) }\n"

TEST(if_runs_only_the_branch_that_is_taken)
{
    text_run r = text_begin(BRANCHES "graph main() { return if(true, 7, then=@same, else=@fails),"
                                     "  if(false, 8, then=@fails, else=@same),"
                                     "  case(1, 9, branches=[@fails, @same, @fails]) }");
    CHECK_OK(r.code, &r.err);
    VALUES(&r, 0, 7);
    VALUES(&r, 1, 8);
    VALUES(&r, 2, 9);
    text_end(&r);
}

TEST(predicate_holds_when_nonzero_and_not_nan)
{
    static const struct {
        const char *predicate;
        bool holds;
    } rows[] = {
        {"full(f32[], 0.5)", true},  {"full(f32[], nan)", false},        {"full(f32[1, 1], -0.0)", false},
        {"full(i8[], -1)", true},    {"const(c64[], [0, 1])", true},     {"const(c64[], [nan, 1])", false},
        {"full(f64[], -inf)", true}, {"const(bool[1], [false])", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, BRANCHES "graph main() { return if(%s, 7, then=@%s, else=@%s) }", rows[i].predicate,
                 rows[i].holds ? "same" : "fails", rows[i].holds ? "fails" : "same");
        test_fail_context("%s", rows[i].predicate);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        text_end(&r);
    }
}

TEST(case_index_outside_the_list_takes_the_last_branch)
{
    static const char *const indices[] = {"full(i32[], -1)",  "full(i64[], 2)",   "full(u64[], 18446744073709551615)",
                                          "full(f32[], 0.5)", "full(f32[], nan)", "full(f64[], 1e300)"};
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, BRANCHES "graph main() { return case(%s, 7, branches=[@fails, @same]) }",
                 indices[i]);
        test_fail_context("%s", indices[i]);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        text_end(&r);
    }
}

TEST(branch_errors_name_the_branch)
{
#define ONE_INPUT "graph a(x: f32[2]) { return x }\n"
    check_text_fails(ONE_INPUT "graph b(x: f32[3]) { return x }\n"
                               "graph main() { y = if(true, full(f32[2], 1), then=@a, else=@b)  return y }",
                     FLX_E_SHAPE, "if 'y': else=@b: input 'x' is f32[3], but the given value is f32[2]");
    check_text_fails(ONE_INPUT "graph b(x: f32[2]) { return cast(x, to=f64) }\n"
                               "graph main() { y = if(true, full(f32[2], 1), then=@a, else=@b)  return y }",
                     FLX_E_DTYPE, "if 'y': branches return different types for result 0: f32[2] and f64[2]");
    check_text_fails(ONE_INPUT "graph main() { y = case(0, full(f64[2], 1), branches=[@a])  return y }", FLX_E_DTYPE,
                     "case 'y': branches=@a: input 'x' is f32[2], but the given value is f64[2]");
}

/* ---- while ---- */

TEST(while_tests_before_every_step_and_returns_all_carries)
{
    text_run r = text_begin("graph more(i: i32[], x: f32[2]) { return lt(i, 3) }\n"
                            "graph next(i: i32[], x: f32[2]) { return add(i, 1), add(x, x) }\n"
                            "graph main() {\n"
                            "  i, x = while(0, const(f32[2], [1, 3]), cond=@more, body=@next)\n"
                            "  j, y = while(5, const(f32[2], [1, 3]), cond=@more, body=@next)\n"
                            "  return cast(i, to=f32), x, cast(j, to=f32), y\n}");
    CHECK_CODE(r.code, FLX_E_DTYPE, &r.err); /* a bare number has no carry that gives it a dtype */
    text_end(&r);
    r = text_begin("graph more(i: i32[], x: f32[2]) { return lt(i, 3) }\n"
                   "graph next(i: i32[], x: f32[2]) { return add(i, 1), add(x, x) }\n"
                   "graph main() {\n"
                   "  i, x = while(full(i32[], 0), const(f32[2], [1, 3]), cond=@more, body=@next)\n"
                   "  j, y = while(full(i32[], 5), const(f32[2], [1, 3]), cond=@more, body=@next)\n"
                   "  return i, x, j, y\n}");
    CHECK_OK(r.code, &r.err);
    VALUES(&r, 0, 3);
    VALUES(&r, 1, 8, 24);
    VALUES(&r, 2, 5); /* no iteration: the operands */
    VALUES(&r, 3, 1, 3);
    text_end(&r);
}

TEST(while_stops_at_nan_and_at_max_iterations)
{
    text_run r = text_begin("graph size(x: f32[]) { return x }\n" /* a number as predicate */
                            "graph shrink(x: f32[]) { return div(sub(x, 1), sub(x, 1)) }\n"
                            "graph double(x: f32[]) { return add(x, x) }\n"
                            "graph main() {\n"
                            "  return while(full(f32[], 1), cond=@size, body=@shrink),\n"
                            "    while(full(f32[], 1), cond=@size, body=@double, max_iterations=4),\n"
                            "    while(full(f32[], 1), cond=@size, body=@double, max_iterations=0)\n}");
    CHECK_OK(r.code, &r.err);
    CHECK(isnan(flx_tensor_get(r.out[0], 0)));
    VALUES(&r, 1, 16);
    VALUES(&r, 2, 1);
    text_end(&r);
}

/* ---- scan ---- */

#define STEP "graph step(c: f32[], x: f32[]) { n = add(mul(c, 10), x)  return n, neg(x) }\n"

TEST(scan_rows_belong_to_their_step_in_both_directions)
{
    text_run r =
        text_begin(STEP "graph main() {\n"
                        "  xs = const(f32[3], [1, 2, 3])\n"
                        "  c, ys = scan(full(f32[], 0), xs, body=@step, reverse=true)\n"
                        "  path, zs = scan(full(f32[], 0), xs, body=@step, reverse=true, save_trajectory=true)\n"
                        "  return c, ys, path, zs\n}");
    CHECK_OK(r.code, &r.err);
    VALUES(&r, 0, 321);
    VALUES(&r, 1, -1, -2, -3);
    VALUES(&r, 2, 321, 32, 3);
    VALUES(&r, 3, -1, -2, -3);
    text_end(&r);
}

/* After steps ceil((k + 1) L / K) - 1, the last of them being the final carry. */
TEST(scan_checkpoints_thin_the_trajectory_evenly)
{
    text_run r =
        text_begin(STEP "graph main() {\n"
                        "  xs = const(f32[5], [1, 2, 3, 4, 5])\n"
                        "  a, x = scan(full(f32[], 0), xs, body=@step, save_trajectory=true, num_checkpoints=2)\n"
                        "  b, y = scan(full(f32[], 0), xs, body=@step, save_trajectory=true, num_checkpoints=3)\n"
                        "  c, z = scan(full(f32[], 0), xs, body=@step, num_checkpoints=2)\n"
                        "  return a, b, c, z\n}");
    CHECK_OK(r.code, &r.err);
    VALUES(&r, 0, 123, 12345);
    VALUES(&r, 1, 12, 1234, 12345);
    VALUES(&r, 2, 12345); /* without save_trajectory it is only a hint */
    VALUES(&r, 3, -1, -2, -3, -4, -5);
    text_end(&r);
}

TEST(scan_of_no_steps_gives_the_initial_carry)
{
    text_run r = text_begin(STEP "graph main() {\n"
                                 "  xs = const(f32[0], [])\n"
                                 "  c, ys = scan(full(f32[], 7), xs, body=@step)\n"
                                 "  path, zs = scan(full(f32[], 7), xs, body=@step, save_trajectory=true)\n"
                                 "  return c, ys, path, zs\n}");
    CHECK_OK(r.code, &r.err);
    VALUES(&r, 0, 7);
    for (int i = 1; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_count(r.out[i]), 0);
    text_end(&r);
}

/* ---- custom_fn ---- */

TEST(custom_fn_residuals_are_no_results)
{
    text_run r = text_begin("graph f(x: f32[]) { return add(x, 1), mul(x, 2), mul(x, 3) }\n"
                            "graph main() { y, z = custom_fn(5, fwd_body=@f, num_residuals=1)  return y, z }");
    CHECK_OK(r.code, &r.err);
    VALUES(&r, 0, 6);
    VALUES(&r, 1, 10);
    text_end(&r);
}
