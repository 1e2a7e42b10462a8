/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives and batches of control flow where a naive rule goes wrong, at points where the numbers are exact. */
#include "ops/batch_text.h"

#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- while ---- */

#define DOUBLING                                 \
    "graph more(x: f64[]) { return lt(x, 8) }\n" \
    "graph twice(x: f64[]) { return add(x, x) }\n"

/* 1, 2, 4, 8: three steps of the ten that are allowed. */
TEST(trap_88_while_with_a_bound_still_asks_its_condition)
{
    static const gradient_row rows[] = {{"x", {1}, {8}}};
    check_gradient(DOUBLING "graph g(x: f64[]) { return while(x, cond=@more, body=@twice, max_iterations=10) }", rows,
                   1);
}

/* (x, y) to (2x, y + x) until x is 4: x is 4x and y is y + 3x. */
TEST(trap_89_every_carry_of_a_while_is_a_result)
{
    static const gradient_row rows[] = {{"x", {1}, {43}}, {"y", {5}, {1}}};
    check_gradient("graph more(x: f64[], y: f64[]) { return lt(x, 4) }\n"
                   "graph next(x: f64[], y: f64[]) { return add(x, x), add(y, x) }\n"
                   "graph g(x: f64[], y: f64[]) {\n"
                   "a, b = while(x, y, cond=@more, body=@next, max_iterations=5)\nreturn add(b, mul(a, 10)) }",
                   rows, COUNT(rows));
}

/* The condition is a number: 1/2 and 2, to the power of the steps, are 0 and infinity. */
TEST(trap_90_activity_of_a_while_is_no_product)
{
    static const gradient_row rows[] = {{"w", {1}, {1100}}};
    static const char *const truths[] = {"0.5", "2"};
    for (size_t i = 0; i < COUNT(truths); i++) {
        char text[500];
        snprintf(text, sizeof text,
                 "graph more(n: f64[], x: f64[], w: f64[]) { return mul(cast(lt(n, 1100), to=f64), %s) }\n"
                 "graph next(n: f64[], x: f64[], w: f64[]) { return add(n, 1), add(x, w), mul(w, 1) }\n"
                 "graph g(w: f64[]) {\n"
                 "n, x, v = while(full(f64[], 0), full(f64[], 0), w, cond=@more, body=@next, max_iterations=1200)\n"
                 "return x }",
                 truths[i]);
        check_gradient(text, rows, 1);
    }
}

/* log 3 + log 2 + log 1; one step more would take the logarithm of 0. */
TEST(trap_91_steps_after_the_end_of_a_while_touch_no_live_value)
{
    static const gradient_row rows[] = {{"x", {3}, {1.0 / 3 + 1.0 / 2 + 1}}};
    check_gradient_near("graph more(x: f64[], y: f64[]) { return gt(x, 0) }\n"
                        "graph next(x: f64[], y: f64[]) { return sub(x, 1), add(y, log(x)) }\n"
                        "graph g(x: f64[]) {\n"
                        "n, y = while(x, full(f64[], 0), cond=@more, body=@next, max_iterations=6)\nreturn y }",
                        rows, 1, 1e-15);
}

TEST(trap_92_while_without_a_bound_has_a_gradient)
{
    static const gradient_row rows[] = {{"x", {1}, {8}}}, far[] = {{"x", {0x1p-40}, {0x1p43}}};
    const char *text = DOUBLING "graph g(x: f64[]) { return while(x, cond=@more, body=@twice) }";
    check_gradient(text, rows, 1);
    check_gradient(text, far, 1);
}

/* ---- if ---- */

/* where() over both branches would multiply the derivative of log at 0, which is infinite, with 0. */
TEST(trap_93_if_differentiates_only_the_taken_branch)
{
    static const gradient_row taken[] = {{"x", {2}, {3}}}, other[] = {{"x", {-2}, {-0.5}}};
    const char *text = "graph safe(x: f64[]) { return mul(x, 3) }\n"
                       "graph singular(x: f64[]) { return log(sub(abs(x), x)) }\n"
                       "graph g(x: f64[]) { return if(gt(x, 0), x, then=@safe, else=@singular) }";
    check_gradient(text, taken, 1);
    check_gradient(text, other, 1);
}

/* ---- scan ---- */

/* Five doublings with two checkpoints: the rows are the carries after steps 2 and 4, 8c and 32c. */
TEST(trap_94_checkpointed_trajectory_ends_with_the_final_carry)
{
    static const gradient_row both[] = {{"c", {1}, {40}}}, last[] = {{"c", {1}, {32}}};
    const char *text = "graph twice(c: f64[]) { return add(c, c) }\n"
                       "graph g(c: f64[]) {\n"
                       "p = scan(c, body=@twice, length=5, save_trajectory=true, num_checkpoints=2)\nreturn %s }";
    char filled[300];
    snprintf(filled, sizeof filled, text, "reduce_sum(p)");
    check_gradient(filled, both, 1);
    snprintf(filled, sizeof filled, text, "narrow(p, axis=0, start=1, len=1)");
    check_gradient(filled, last, 1);
}

/* A product of seven: the cotangent of each factor needs the carry before it, from any checkpoint. */
TEST(trap_95_recomputation_starts_at_the_carry_that_was_kept)
{
    static const gradient_row rows[] = {{"c", {1}, {32}}, {"x", {2, 1, 4, 1, 2, 1, 2}, {16, 32, 8, 32, 16, 32, 16}}};
    for (int k = 0; k <= 8; k++) {
        char text[300];
        snprintf(text, sizeof text,
                 "graph times(c: f64[], x: f64[]) { return mul(c, x) }\n"
                 "graph g(c: f64[], x: f64[7]) { return scan(c, x, body=@times, num_checkpoints=%d) }",
                 k);
        check_gradient(text, rows, COUNT(rows));
    }
}

/* c x0 x1: forward over reverse goes through the scan and through the scan that its reverse is. */
TEST(trap_96_scan_has_tangents_and_so_has_its_reverse)
{
    static const gradient_row rows[] = {{"c", {2}, {8}}, {"x", {3, 5}, {7, 5}}};
    for (int k = 0; k <= 1; k++) {
        char text[300];
        snprintf(text, sizeof text,
                 "graph times(c: f64[], x: f64[]) { return mul(c, x) }\n"
                 "graph g(c: f64[], x: f64[2]) { return scan(c, x, body=@times, num_checkpoints=%d) }",
                 k);
        check_hessian_of_ones(text, rows, COUNT(rows));
    }
}

#define HORNER                                                                \
    "graph step(c: f64[], w: f64[], x: f64[]) { return add(mul(c, w), x) }\n" \
    "graph g(c: f64[], w: f64[], x: f64[2]) { return scan(c, w, x, body=@step, num_bcast=1, num_checkpoints=2) }"

/* (c w + x0) w + x1. Only batched values have a batch axis; the carry has one as soon as anything it depends on has. */
TEST(trap_97_scan_batches_what_depends_on_the_batch_and_keeps_its_checkpoints)
{
    static const batch_row by_x[] = {{"c", {2}, false}, {"w", {10}, false}, {"x", {1, 2, 3, 4}, true}};
    static const batch_row by_w[] = {{"c", {2}, false}, {"w", {10, 100}, true}, {"x", {1, 2}, false}};
    static const batch_row by_c[] = {{"c", {2, 3}, true}, {"w", {10}, false}, {"x", {1, 2}, false}};
    static const double want_x[] = {212, 234}, want_w[] = {212, 20102}, want_c[] = {212, 312};
    check_batched(HORNER, 2, by_x, COUNT(by_x), want_x, 2);
    check_batched(HORNER, 2, by_w, COUNT(by_w), want_w, 2);
    check_batched(HORNER, 2, by_c, COUNT(by_c), want_c, 2);

    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, HORNER, strlen(HORNER), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *v = flx_vmap(flx_module_main(m), &(flx_vmap_axis){"x", 0}, 1, NULL, 0, 2, &err);
    CHECK_OK(v ? FLX_OK : err.code, &err);
    flx_buffer text = {0};
    CHECK_OK((int32_t)flx_graph_print(v, &text, &err), &err);
    CHECK(strstr((const char *)text.data, "num_checkpoints=2") != NULL);
    flx_buffer_free(&text);
    flx_graph_release(v);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The second carry has no cotangent at the end: its zeros have its dtype. */
TEST(trap_98_cotangents_of_unused_carries_have_their_dtype)
{
    static const gradient_row rows[] = {{"a", {1}, {8}}, {"b", {2}, {7}}};
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "graph step(a: f64[], b: %s[]) { return add(add(a, a), cast(b, to=f64)), b }\n"
                 "graph g(a: f64[], b: %s[]) { x, y = scan(a, b, body=@step, num_carry=2, length=3)\nreturn x }",
                 dtypes[i], dtypes[i]);
        test_fail_context("%s", dtypes[i]);
        check_gradient(text, rows, COUNT(rows));
    }
}

/* ---- custom_fn, bodies ---- */

#define SQUARE "graph square_it(x: f64[]) { return mul(x, x) }\n"

/* The given tangent is 10 times the true one: reverse mode must transpose it. The given cotangent is 100 times: forward
   mode must go through the body instead. */
TEST(trap_99_custom_fn_with_one_rule_has_both_modes)
{
    static const gradient_row tenfold[] = {{"x", {3}, {60}}};
    check_gradient(SQUARE "graph push(x: f64[], tx: f64[], y: f64[]) { return mul(mul(x, 20), tx) }\n"
                          "graph g(x: f64[]) { return custom_fn(x, fwd_body=@square_it, jvp_body=@push) }",
                   tenfold, 1);
    static const gradient_row hundredfold[] = {{"x", {3}, {600}}}, true_one[] = {{"x", {3}, {6}}};
    const char *text = SQUARE "graph pull(x: f64[], y: f64[], g: f64[]) { return mul(mul(x, 200), g) }\n"
                              "graph g(x: f64[]) { return custom_fn(x, fwd_body=@square_it, vjp_body=@pull) }";
    check_reverse(text, hundredfold, 1);
    gradient_run r = gradient_begin(text, true_one, 1);
    gradient_forward(&r, 0, 0);
    gradient_end(&r);
}

/* The body calls its carry x and its sequence c; outside it is the other way round. (10 c - x0) 10 - x1. */
TEST(trap_100_bodies_take_their_inputs_by_place)
{
    static const gradient_row rows[] = {{"c", {3}, {100}}, {"x", {1, 2}, {-10, -1}}};
    check_gradient("graph step(x: f64[], c: f64[]) { return sub(mul(x, 10), c) }\n"
                   "graph g(c: f64[], x: f64[2]) { return scan(c, x, body=@step) }",
                   rows, COUNT(rows));
}
