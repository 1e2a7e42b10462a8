/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised numbers: values and straight-through derivatives against formulas worked out by hand, in all modes, along
   chains in which integers pass derivatives on; the traps of quantisation. */
#include "ops/batch_text.h"
#include "ops/run_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs the text; its outputs must be these, each given by its type and its numbers: "i8[2] [1, 2] f32[] [3]". */
static void check_text(const char *text, const char *expected)
{
    char message[200];
    snprintf(message, sizeof message, "%.190s", text);
    test_fail_context("%s", message);
    text_run r = text_begin(text);
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int k = 0; *expected; k++) {
        const flx_type *type = flx_tensor_type(r.out[k]);
        size_t dtype = strcspn(expected, "[");
        CHECK(strlen(flx_dtype_name(type->dtype)) == dtype &&
              strncmp(expected, flx_dtype_name(type->dtype), dtype) == 0);
        expected = strstr(expected, "] ") + 1;
        for (int64_t i = 0; i < flx_tensor_count(r.out[k]); i++) {
            char *end;
            expected += strspn(expected, " [],");
            double want = strtod(expected, &end);
            CHECK(end != expected);
            CHECK_NEAR(flx_tensor_get(r.out[k], i), want, 0);
            expected = end;
        }
        expected += strspn(expected, " ],");
    }
    text_end(&r);
}

/* ---- quantize, dequantize ---- */

#define IN_AND_OUT_OF_RANGE                              \
    "graph g(x: f32[5]) {\n"                             \
    "  q = quantize(x, scales=[0.5], zero_points=[3])\n" \
    "  return dequantize(q, scales=[0.5], zero_points=[3]) }"

/* -62.25 / 0.5 = -124.5, to even -124, with the zero point -121; 62 / 0.5 + 3 = 127; 62.5 saturates. */
TEST(quantize_rounds_to_even_and_saturates)
{
    check_text("graph g() {\n"
               "  x = const(f32[6], [0.25, 0.75, -62.25, 62, 62.5, -1000])\n"
               "  return quantize(x, scales=[0.5], zero_points=[3]) }",
               "i8[6] [3, 5, -121, 127, 127, -128]");
    check_text("graph g() { x = const(f64[2, 2], [[1, 2], [3, nan]])\n"
               "  return quantize(x, scales=[0.5, 2], axis=1) }",
               "i8[2, 2] [[2, 1], [6, 0]]");
    check_text("graph g() { return quantize(const(f32[2], [inf, -inf]), scales=[1]) }", "i8[2] [127, -128]");
}

TEST(dequantize_subtracts_the_zero_point_first)
{
    check_text("graph g() { q = const(i8[2, 2], [[-128, 127], [5, 0]])\n"
               "  return dequantize(q, scales=[0.5, 2], zero_points=[-128, 1], axis=0) }",
               "f32[2, 2] [[0, 127.5], [8, -2]]");
    check_text("graph g() { return dequantize(const(i8[1], [-128]), scales=[0.25], zero_points=[127], dtype=f64) }",
               "f64[1] [-63.75]");
}

/* The cotangent of q itself is g s, that of x is then g s / s; outside nothing arrives, however large g is. */
TEST(trap_72_quantize_and_dequantize_have_derivative_one_in_range_and_zero_saturated)
{
    gradient_row rows[] = {{"x", {0.1, -65.6, 62, 62.3, -66}, {1, 1, 1, 0, 0}}};
    check_gradient(IN_AND_OUT_OF_RANGE, rows, 1);
    gradient_row halves[] = {{"x", {0.1, 3}, {0.5, 0}}};
    check_gradient("graph g(x: f32[2]) { return dequantize(quantize(x, scales=[0.02]), scales=[0.01]) }", halves, 1);
}

/* Tangents of 1/64 along steps of 1/2 vanish in an integer. */
TEST(trap_73_derivatives_of_integers_are_not_rounded)
{
    gradient_row rows[] = {{"x", {1, -2}, {0.015625, 0.015625}}};
    check_gradient("graph g(x: f32[2]) {\n"
                   "  q = quantize(x, scales=[32])\n"
                   "  return mul(cast(q, to=f32), 0.5) }",
                   rows, 1);
    gradient_row narrow[] = {{"x", {1, -2}, {0.03125, 0.03125}}};
    check_gradient("graph g(x: f16[2]) { return cast(quantize(x, scales=[32]), to=f16) }", narrow, 1);
    check_gradient("graph g(x: f64[2]) { return cast(cast(quantize(x, scales=[32]), to=i32), to=f64) }", narrow, 1);
}

TEST(quantised_integers_have_no_derivative_through_arithmetic_and_indices)
{
    gradient_row rows[] = {{"x", {1, 2}, {0, 0}}};
    check_gradient("graph g(x: f32[2]) { q = quantize(x, scales=[1])\n"
                   "  return cast(add(q, q), to=f32) }",
                   rows, 1);
    check_gradient("graph g(x: f32[2]) { t = const(f32[4], [5, 6, 7, 8])\n"
                   "  return gather(t, quantize(x, scales=[1])) }",
                   rows, 1);
    check_gradient("graph g(x: f32[2]) { return cast(cast(x, to=i32), to=f32) }", rows, 1);
}

/* An op that moves numbers moves the derivatives of integers: through it and back the chain is the op on floats. */
TEST(quantised_integers_keep_their_derivatives_where_they_are_moved)
{
    static const char *const moves[] = {
        "reshape(q, shape=[6])",
        "transpose(q)",
        "expand(unsqueeze(q, axes=[0]), shape=[2, 2, 3])",
        "broadcast_in_dim(q, shape=[2, 4, 3], axes=[0, 2])",
        "squeeze(unsqueeze(q, axes=[1]), axes=[1])",
        "tile(q, repeats=[2, 1])",
        "repeat(q, repeats=2, axis=1)",
        "roll(q, shift=1, axis=1)",
        "narrow(q, axis=1, start=1, len=2)",
        "slice(q, start=[0, 0], limit=[2, 3], stride=[1, 2])",
        "pad(q, 0, low=[1, 0], high=[0, 1])",
        "reverse(q, axes=[1])",
        "concat(q, zero, q, axis=1)",
        "stack(zero, q, axis=0)",
        "gather(q, rows, axis=1)",
        "print(q)",
        "check(q, true, message=\"never\")",
        "optimization_barrier(q)",
        "cast(q, to=i32)",
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        char text[2][700];
        double want[GRADIENT_MAX_PARTS] = {0};
        for (int k = 0; k < 2; k++)
            snprintf(text[k], sizeof text[k],
                     "graph g(x: f32[2, 3]) {\n"
                     "  rows = const(i32[4], [2, 0, 2, 1])\n"
                     "  %s\n"
                     "  m = %s\n"
                     "  return reduce_sum(square(cast(m, to=f32))) }",
                     k ? "q = x zero = full(f32[2, 3], 0)" : "q = quantize(x, scales=[1]) zero = full(i8[2, 3], 0)",
                     moves[i]);
        if (strncmp(moves[i], "cast", 4) == 0)
            snprintf(text[1], sizeof text[1], "graph g(x: f32[2, 3]) { return reduce_sum(square(x)) }");
        gradient_row rows[] = {{"x", {1, -2, 3, 4, -5, 6}, {0}}};
        flx_error err = {0};
        flx_tensor *out[1] = {0};
        gradient_run r = gradient_begin(text[1], rows, 1);
        flx_graph *grad = flx_grad(flx_module_main(r.module), r.names, 1, NULL, &err);
        CHECK_OK(grad ? FLX_OK : err.code, &err);
        gradient_eval(&r, grad, 0, out);
        gradient_read(out[0], want);
        flx_tensor_release(out[0]);
        gradient_end(&r);
        memcpy(rows[0].want, want, sizeof want);
        test_fail_context("%s", moves[i]);
        check_gradient(text[0], rows, 1);
    }
}

/* unstack, split: several results, of which one has no cotangent. */
TEST(quantised_integers_keep_their_derivatives_where_they_are_split)
{
    gradient_row rows[] = {{"x", {1, 2, 3, 4}, {0.5, 0.5, 0, 0}}};
    check_gradient("graph g(x: f32[4]) {\n"
                   "  a, b = split(quantize(x, scales=[1]), sizes=[2, 2])\n"
                   "  return dequantize(a, scales=[0.5]) }",
                   rows, 1);
    gradient_row cells[] = {{"x", {1, 2}, {0, 0.5}}};
    check_gradient("graph g(x: f32[2]) {\n"
                   "  a, b = unstack(quantize(x, scales=[1]))\n"
                   "  return dequantize(b, scales=[0.5]) }",
                   cells, 1);
}

/* y = c q^2 along x = s q: by Taylor mode, hvp and finite differences of gradients 2c / s^2, as if nothing were
   rounded. */
TEST(quantised_integers_have_second_derivatives)
{
    gradient_row rows[] = {{"x", {3, -1, 100}, {8, 8, 0}}};
    check_hessian_of_ones("graph g(x: f32[3]) {\n"
                          "  y = dequantize(quantize(x, scales=[0.5]), scales=[1])\n"
                          "  return reduce_sum(square(y)) }",
                          rows, 1);
}

/* Rows of the Jacobian are found from those of the input through the integers between: y_i is x_i / 2, except for one
   that is saturated, and twice x_i for its neighbour. */
TEST(quantised_integers_have_jacobians)
{
    static const double want[4][4] = {{0.5, 2, 0, 0}, {0, 0.5, 2, 0}, {0, 0, 0.5, 0}, {0, 0, 0, 0}};
    for (uint32_t mode = 0; mode < 3; mode++) {
        static const uint32_t modes[] = {FLX_JACOBIAN_AUTO, FLX_JACOBIAN_FORWARD, FLX_JACOBIAN_REVERSE};
        gradient_row rows[] = {{"x", {1, -2, 3, 900}, {0}}};
        flx_error err = {0};
        flx_tensor *out[1] = {0};
        double v[GRADIENT_MAX_PARTS];
        gradient_run r = gradient_begin("graph g(x: f32[4]) {\n"
                                        "  q = quantize(x, scales=[1])\n"
                                        "  next = pad(narrow(q, axis=0, start=1, len=3), 0, low=[0], high=[1])\n"
                                        "  return add(dequantize(q, scales=[0.5]), dequantize(next, scales=[2])) }",
                                        rows, 1);
        flx_jacobian_options o = {.mode = modes[mode]};
        flx_graph *jac = flx_jacobian(flx_module_main(r.module), r.names, 1, &o, &err);
        CHECK_OK(jac ? FLX_OK : err.code, &err);
        gradient_eval(&r, jac, 0, out);
        gradient_read(out[0], v);
        for (int i = 0; i < 16; i++) {
            test_fail_context("mode %u, number %d", mode, i);
            CHECK_NEAR(v[i], want[i / 4][i % 4], 0);
        }
        flx_tensor_release(out[0]);
        gradient_end(&r);
    }
}

TEST(quantize_batched_shares_its_scales)
{
    batch_row rows[] = {{"x", {1, 2, 3, 4}, true}};
    check_batched("graph g(x: f32[2]) { return cast(quantize(x, scales=[0.5, 1], axis=0), to=f32) }", 2, rows, 1,
                  (double[]){2, 2, 6, 4}, 4);
}

/* ---- fake_quantize ---- */

/* bits=3: Q = 3, s = 6 / 3 = 2; ties to even: 3 / 2 = 1.5 gives 2, 1 / 2 gives 0. */
TEST(fake_quantize_takes_its_scale_from_the_batch)
{
    check_text("graph g() { return fake_quantize(const(f32[4], [6, 3, 1, -5]), bits=3) }", "f32[4] [6, 4, 0, -4]");
    check_text("graph g() { return fake_quantize(const(f32[2, 2], [[3, 1], [0, 30]]), bits=3, axis=0) }",
               "f32[2, 2] [[3, 1], [0, 30]]");
    check_text("graph g() { return fake_quantize(const(f32[2], [0, 0])) }", "f32[2] [0, 0]");
    check_text("graph g() { return fake_quantize(const(f16[2], [0, 0])) }", "f16[2] [0, 0]");
}

TEST(fake_quantize_of_a_fixed_scale_clamps)
{
    check_text("graph g() { s = const(f32[1], [0.5])\n"
               "  return fake_quantize(const(f32[4], [0.3, -9, 1.25, 1.6]), s, bits=3, scale_mode=fixed) }",
               "f32[4] [0.5, -1.5, 1, 1.5]");
    check_text("graph g() { s = const(f64[], -1)\n"
               "  return fake_quantize(const(f64[2], [1, -1]), s, bits=2, scale_mode=fixed) }",
               "f64[2] [1e-12, -1e-12]");
}

/* 127 is above Q = 3 in units of the fixed scale 1, and not in units of the batch's own scale, which would be 127 /
   3. */
TEST(trap_75_fake_quantize_derivative_has_the_scale_of_the_value)
{
    gradient_row rows[] = {{"x", {2, 127}, {1, 0}}, {"s", {1}, {0}}};
    check_gradient("graph g(x: f32[2], s: f32[1]) { return fake_quantize(x, s, bits=3, scale_mode=fixed) }", rows, 2);
    /* The moving average is 0.5 * 1 + 0.5 * (6 / 3) = 1.5: 5 is 3.33 of it, 6 is 4. */
    gradient_row average[] = {{"x", {5, 6, 1}, {1, 0, 1}}, {"s", {1}, {0}}};
    check_gradient("graph g(x: f32[3], s: f32[1]) {\n"
                   "  y, t = fake_quantize(x, s, bits=3, scale_mode=ema, decay=0.5)\n"
                   "  return y }",
                   average, 2);
}

/* At Q s, the border of the grid, the factor is 1 - tanh(1)^2 = 0.42, at 8 bits 127 times as far out as with x / s. */
TEST(trap_76_fake_quantize_tanh_spans_the_grid)
{
    double edge = 1 - tanh(1.0) * tanh(1.0);
    double half = 1 - tanh(0.5) * tanh(0.5);
    gradient_row rows[] = {{"x", {127, -63.5, 0}, {edge, half, 1}}, {"s", {1}, {0}}};
    check_gradient("graph g(x: f64[3], s: f64[1]) { return fake_quantize(x, s, scale_mode=fixed, ste=tanh) }", rows, 2);
    gradient_row hard[] = {{"x", {127, -63.5, 0, 200}, {0, 0.5, 1, 0}}, {"s", {1}, {0}}};
    check_gradient("graph g(x: f64[4], s: f64[1]) { return fake_quantize(x, s, scale_mode=fixed, ste=hard_tanh) }",
                   hard, 2);
    gradient_row all[] = {{"x", {500, 1}, {1, 1}}, {"s", {1}, {0}}};
    check_gradient("graph g(x: f64[2], s: f64[1]) { return fake_quantize(x, s, scale_mode=fixed, ste=identity) }", all,
                   2);
}

/* Of these maxima some exceed 3 (max / 3) in f32, so that the maximum itself would get no gradient. */
TEST(trap_77_fake_quantize_clip_never_excludes_the_maximum)
{
    bool excluded = false;
    for (int i = 1; i < 200; i++) {
        float most = 1.0f + (float)i * 0.013f;
        volatile float scale = most / 3.0f;
        volatile float edge = 3.0f * scale;
        gradient_row rows[] = {{"x", {most, 0.5}, {1, 1}}};
        excluded |= edge < most;
        check_reverse("graph g(x: f32[2]) { return fake_quantize(x, bits=3) }", rows, 1);
    }
    CHECK(excluded);
}

/* A state that is not positive is not yet initialised. */
TEST(trap_78_fake_quantize_returns_its_state)
{
    static const char text[] = "graph g() { s = const(f32[2], [0, 4])\n"
                               "  x = const(f32[2, 2], [[3, -6], [12, 2]])\n"
                               "  y, t = fake_quantize(x, s, bits=3, axis=%d, scale_mode=ema, decay=0.25)\n"
                               "  return t, s }";
    char line[400];
    snprintf(line, sizeof line, text, 1);
    check_text(line, "f32[2] [4, 2.5] f32[2] [0, 4]");
    snprintf(line, sizeof line, text, 0);
    check_text(line, "f32[2] [2, 4] f32[2] [0, 4]");
}

/* The state has no derivative, neither as a result nor as an operand. */
TEST(fake_quantize_state_has_no_derivative)
{
    gradient_row rows[] = {{"x", {5, 6}, {0, 0}}, {"s", {1}, {0}}};
    check_gradient("graph g(x: f32[2], s: f32[1]) {\n"
                   "  y, t = fake_quantize(x, s, scale_mode=ema)\n"
                   "  return t }",
                   rows, 2);
}

/* Examples [3, 1] and [30, 9] with Q = 1: scales 3 and 30. One scale for all, 30, would give 0 for the first. */
TEST(trap_79_fake_quantize_batched_has_a_scale_for_each_example)
{
    batch_row rows[] = {{"x", {3, 1, 30, 9}, true}};
    check_batched("graph g(x: f32[2]) { return fake_quantize(x, bits=2) }", 2, rows, 1, (double[]){3, 0, 30, 0}, 4);
    batch_row channels[] = {{"x", {3, 1, 30, 9, 100, 200, 7, 8}, true}};
    check_batched("graph g(x: f32[2, 2]) { return fake_quantize(x, bits=2, axis=1) }", 2, channels, 1,
                  (double[]){0, 0, 30, 9, 100, 200, 0, 0}, 8);
    batch_row state[] = {{"x", {3, 1}, false}, {"s", {1, 4}, true}};
    check_batched("graph g(x: f32[2], s: f32[]) { return fake_quantize(x, s, bits=2, scale_mode=fixed) }", 2, state, 2,
                  (double[]){1, 1, 4, 0}, 4);
}

/* The scale is constant for second derivatives, so that only x of m(x) = 1 - tanh(z)^2, z = x / (Q s), is there:
   d2y/dx2 = -2 tanh(z) (1 - tanh(z)^2) / (Q s). */
TEST(fake_quantize_tanh_has_a_second_derivative)
{
    double t = tanh(0.5);
    gradient_row rows[] = {{"x", {1.5}, {-2 * t * (1 - t * t) / 3}}, {"s", {1}, {0}}};
    flx_tensor *out[2] = {0};
    double v[GRADIENT_MAX_PARTS];
    flx_error err = {0};
    gradient_run r = gradient_begin("graph g(x: f64[1], s: f64[1]) {\n"
                                    "  return reduce_sum(fake_quantize(x, s, bits=3, scale_mode=fixed, ste=tanh)) }",
                                    rows, 2);
    flx_graph *hvp = flx_hvp(flx_module_main(r.module), r.names, 1, NULL, &err);
    CHECK_OK(hvp ? FLX_OK : err.code, &err);
    flx_tensor *one = gradient_uniform(r.ctx, flx_tensor_type(r.point[0]), 1, 0);
    r.feeds[2] = (flx_feed){"tangent_x", one};
    gradient_eval(&r, hvp, 1, out);
    gradient_read(out[0], v);
    CHECK_NEAR(v[0], rows[0].want[0], 1e-15);
    flx_tensor_release(out[0]);
    flx_tensor_release(one);
    gradient_end(&r);
}

TEST(fake_quantize_is_idempotent_and_has_few_levels)
{
    uint64_t state = test_seed();
    double v[16];
    for (int i = 0; i < 16; i++)
        v[i] = 4 * test_uniform(&state) - 2;
    flx_error err = {0};
    gradient_row rows[] = {{"x", {0}, {0}}};
    memcpy(rows[0].at, v, sizeof v);
    flx_tensor *out[2] = {0};
    gradient_run r = gradient_begin("graph g(x: f64[16]) { s = full(f64[1], 0.3)\n"
                                    "  y = fake_quantize(x, s, bits=3, scale_mode=fixed)\n"
                                    "  return y, fake_quantize(y, s, bits=3, scale_mode=fixed) }",
                                    rows, 1);
    CHECK_OK((int32_t)flx_run(flx_module_main(r.module), ON_REF, r.feeds, 1, out, &err), &err);
    for (int i = 0; i < 16; i++) {
        double y = flx_tensor_get(out[0], i);
        CHECK_NEAR(flx_tensor_get(out[1], i), y, 0);
        CHECK(fabs(y / 0.3) <= 3 + 1e-12 && fabs(y / 0.3 - nearbyint(y / 0.3)) < 1e-12);
    }
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    gradient_end(&r);
}

/* ---- fake_quantize_lsq ---- */

/* s = 0.5, Q = 3. z = 1, -1.5, 4, -3.5, 3: psi = 0, -0.5, 3, -3, 0. */
TEST(learned_step_has_the_derivatives_of_its_definition)
{
    gradient_row rows[] = {{"x", {0.5, -0.75, 2, -1.75, 1.5}, {1, 1, 0, 0, 1}}, {"s", {0.5}, {0 - 0.5 + 3 - 3 + 0}}};
    check_gradient("graph g(x: f64[5], s: f64[1]) { return fake_quantize_lsq(x, s, bits=3) }", rows, 2);
    gradient_row scaled[] = {{"x", {0.375, 2}, {1, 0}}, {"s", {0.5}, {0.25 * (0.25 + 3)}}};
    check_gradient("graph g(x: f64[2], s: f64[1]) { return fake_quantize_lsq(x, s, bits=3, grad_scale=0.25) }", scaled,
                   2);
    gradient_row channels[] = {{"x", {0.375, 2, 0.75, -9}, {1, 0, 1, 0}}, {"s", {0.5, 1}, {3.25, 0.25 - 3}}};
    check_gradient("graph g(x: f64[2, 2], s: f64[2]) { return fake_quantize_lsq(x, s, bits=3, axis=0) }", channels, 2);
    gradient_row shared[] = {{"x", {0.375, 2, 0.75, -9}, {1, 0, 1, 0}}, {"s", {0.5}, {0.25 + 3 + 0.5 - 3}}};
    check_gradient("graph g(x: f64[2, 2], s: f64[1]) { return fake_quantize_lsq(x, s, bits=3, axis=0) }", shared, 2);
}

/* z = 1.5 rounds to 2, so psi = 0.5 there: the tie is taken as the value takes it. */
TEST(learned_step_rounds_to_even_in_its_derivative)
{
    gradient_row rows[] = {{"x", {1.5, 2.5}, {1, 1}}, {"s", {1}, {0.5 - 0.5}}};
    check_gradient("graph g(x: f64[2], s: f64[1]) { return fake_quantize_lsq(x, s) }", rows, 2);
}

TEST(learned_step_below_its_least_gets_no_gradient)
{
    gradient_row rows[] = {{"x", {1, 0}, {0, 1}}, {"s", {-0.5}, {0}}};
    check_gradient("graph g(x: f64[2], s: f64[1]) { return fake_quantize_lsq(x, s) }", rows, 2);
}

/* L = sum w y; grad_x = w inside, grad_s = sum w psi. Along (1, 1): grad_x does not move, grad_s moves by
   sum w (-1/s + z/s) inside. */
TEST(learned_step_has_the_second_derivatives_of_its_definition)
{
    gradient_row rows[] = {{"x", {0.375, 2}, {0, 0}}, {"s", {0.5}, {1 / 0.5 * (0.75 - 1)}}};
    check_hessian_of_ones("graph g(x: f64[2], s: f64[1]) { return reduce_sum(fake_quantize_lsq(x, s, bits=3)) }", rows,
                          2);
}

TEST(learned_step_backward_scale_batched_sums_per_example)
{
    batch_row rows[] = {{"x", {0.375, 2, 0.75, -9}, true}, {"s", {0.5}, false}, {"d", {1, 1, 2, 2}, true}};
    check_batched("graph g(x: f64[2], s: f64[1], d: f64[2]) {\n"
                  "  return fake_quantize_lsq_backward_scale(x, s, d, bits=3) }",
                  2, rows, 3, (double[]){0.25 + 3, 2 * 0.5 - 2 * 3}, 2);
}

/* ---- q_matmul, q_conv ---- */

/* (1-2)(3+1) + (4-2)(-2+1) = -6, + 10 = 4, times 1.5 = 6, + 5 = 11; 2.5 rounds to even. */
TEST(quantised_product_values)
{
    check_text("graph g() { x = const(i8[1, 2], [[1, 4]]) w = const(i8[2, 1], [[3], [-2]])\n"
               "  return q_matmul(x, w, const(i32[1], [10]), mult=1.5, x_zp=2, w_zp=-1, out_zp=5) }",
               "i8[1, 1] [[11]]");
    check_text("graph g() { x = const(i8[1, 1], [[5]]) w = const(i8[1, 2], [[1, 100]])\n"
               "  return q_matmul(x, w, const(i32[2], [0, 0]), mult=0.5) }",
               "i8[1, 2] [[2, 127]]");
    /* Padding is the zero point of x: it adds nothing. */
    check_text("graph g() { x = const(i8[1, 1, 2], [[[7, 9]]]) w = const(i8[1, 1, 3], [[[1, 2, 3]]])\n"
               "  return q_conv(x, w, const(i32[1], [0]), mult=1, x_zp=7, padding=[1]) }",
               "i8[1, 1, 2] [[[6, 4]]]");
}

/* x = 2 X, w = W: acc = 2 X W with scales 0.5 and 1. The second column saturates: nothing comes back from it. */
TEST(trap_74_saturated_products_pass_no_gradient)
{
    gradient_row rows[] = {{"x", {3, 4}, {2 * 0.25 * 2, 2 * 0.25 * 3}},
                           {"w", {2, 100, 3, 120}, {0.25 * 6, 0, 0.25 * 8, 0}},
                           {"b", {0, 0}, {0.25, 0}}};
    check_gradient("graph g(x: f32[1, 2], w: f32[2, 2], b: f32[2]) {\n"
                   "  bias = cast(quantize(b, scales=[1]), to=i32)\n"
                   "  q = q_matmul(quantize(x, scales=[0.5]), quantize(w, scales=[1]), bias, mult=0.25)\n"
                   "  return dequantize(q, scales=[1]) }",
                   rows, 3);
    gradient_row image[] = {{"x", {3, 100}, {0.5 * 2, 0}}, {"w", {2}, {0.5 * 3}}};
    check_gradient("graph g(x: f32[1, 1, 2], w: f32[1, 1, 1]) {\n"
                   "  q = q_conv(quantize(x, scales=[1]), quantize(w, scales=[1]), const(i32[1], [0]), mult=0.5)\n"
                   "  return dequantize(narrow(q, axis=2, start=0, len=1), scales=[1]) }",
                   image, 2);
    gradient_row saturated[] = {{"x", {3, 127}, {0.5 * 2, 0}}, {"w", {2}, {0.5 * 3}}};
    check_gradient("graph g(x: f32[1, 1, 2], w: f32[1, 1, 1]) {\n"
                   "  q = q_conv(quantize(x, scales=[1]), quantize(w, scales=[1]), const(i32[1], [2]), mult=0.5)\n"
                   "  return dequantize(q, scales=[1]) }",
                   saturated, 2);
}

/* A bias beyond 8 bits, in units of the product's scale 0.5 * 1: 300 of them, and one that saturates the result. */
TEST(quantised_biases_of_32_bits_have_gradients)
{
    gradient_row rows[] = {{"x", {3, 4}, {2 * 0.0625 * 2, 2 * 0.0625 * 3}},
                           {"w", {2, 1, 3, 1}, {0.0625 * 6, 0, 0.0625 * 8, 0}},
                           {"b", {150, 20000}, {2 * 0.0625, 0}}};
    check_gradient("graph g(x: f32[1, 2], w: f32[2, 2], b: f32[2]) {\n"
                   "  bias = quantize(b, scales=[0.5], dtype=i32)\n"
                   "  q = q_matmul(quantize(x, scales=[0.5]), quantize(w, scales=[1]), bias, mult=0.0625)\n"
                   "  return dequantize(q, scales=[1]) }",
                   rows, 3);
    check_text("graph g() { return quantize(const(f32[4], [150, -3e9, 3e9, 0.0000001]), scales=[1e-7], dtype=i32) }",
               "i32[4] [1500000000, -2147483648, 2147483647, 1]");
}

/* L = (mult (x - zx)(w - zw))^2 / 2 with z = mult a b: Hessian of ones: (mult b)^2 + 2 mult^2 a b and so on; a = 3, b
   = 2, mult = 1/2: x: 1 + 1.5 + 1.5, w: 2.25 + 1.5 + 1.5. */
TEST(quantised_products_have_second_derivatives)
{
    gradient_row rows[] = {{"x", {5}, {4}}, {"w", {1}, {5.25}}};
    check_hessian_of_ones("graph g(x: f32[1, 1], w: f32[1, 1]) {\n"
                          "  q = q_matmul(quantize(x, scales=[1]), quantize(w, scales=[1]), const(i32[1], [0]),\n"
                          "               mult=0.5, x_zp=2, w_zp=-1)\n"
                          "  y = dequantize(q, scales=[1])\n"
                          "  return reduce_sum(mul(square(y), 0.5)) }",
                          rows, 2);
}

/* acc = 2^24 + 1, which f32 does not hold: times 62.5 / 2^24 it is above 62.5 and rounds to 63, while 62.5 rounds to
   62. */
TEST(trap_87_accumulator_is_scaled_in_f64)
{
    check_text("graph g() { x = full(i8[1, 1], 1) w = full(i8[1, 1], 1)\n"
               "  return q_matmul(x, w, const(i32[1], [16777216]), mult=3.725290298461914e-06) }",
               "i8[1, 1] [[63]]");
    /* It does not wrap either: 2147483647 + 128 * 128 does not fit an i32. */
    check_text("graph g() { x = full(i8[1, 1], -128) w = full(i8[1, 1], -128)\n"
               "  return q_matmul(x, w, const(i32[1], [2147483647]), mult=4e-8) }",
               "i8[1, 1] [[86]]");
}

/* Each example its own matrix and bias: 1·3 + 1, 2·5 + 2. */
TEST(quantised_product_batched_in_all_operands)
{
    batch_row rows[] = {{"x", {1, 2}, true}, {"w", {3, 5}, true}, {"b", {1, 2}, true}};
    check_batched("graph g(x: i8[1, 1], w: i8[1, 1], b: i32[1]) {\n"
                  "  return dequantize(q_matmul(x, w, b, mult=1), scales=[1]) }",
                  2, rows, 3, (double[]){4, 12}, 2);
}

/* The gradient of a batch goes through the moved axes of integers. */
TEST(quantised_product_gradient_of_a_batch)
{
    static const char text[] =
        "graph g(x: f32[1, 2], w: f32[2, 1]) {\n"
        "  q = q_matmul(quantize(x, scales=[1]), quantize(w, scales=[1]), const(i32[1], [0]), mult=0.5)\n"
        "  return reduce_sum(dequantize(q, scales=[1])) }";
    static const struct {
        bool batched[2];
        double want[2][4];
    } cases[] = {
        {{true, true}, {{1.5, 2, 2.5, 3}, {0.5, 1, 3.5, 4}}},
        {{true, false}, {{1.5, 2, 1.5, 2}, {4, 5}}},
        {{false, true}, {{4, 5}, {0.5, 1, 0.5, 1}}},
    };
    static const double at[2][4] = {{1, 2, 7, 8}, {3, 4, 5, 6}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
        CHECK_OK(m ? FLX_OK : err.code, &err);
        static const char *const names[] = {"x", "w"};
        flx_vmap_axis axes[2];
        size_t n = 0;
        for (int i = 0; i < 2; i++)
            if (cases[c].batched[i])
                axes[n++] = (flx_vmap_axis){names[i], 0};
        flx_graph *v = flx_vmap(flx_module_main(m), axes, n, NULL, 0, 2, &err);
        CHECK_OK(v ? FLX_OK : err.code, &err);
        flx_grad_options options = {.flags = FLX_GRAD_SEED_INPUT};
        flx_graph *grad = flx_grad(v, names, 2, &options, &err);
        CHECK_OK(grad ? FLX_OK : err.code, &err);
        flx_type pair = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
        flx_tensor *in[3] = {0};
        flx_feed feeds[3];
        for (int i = 0; i < 2; i++) {
            in[i] = gradient_tensor(ctx, flx_val_type(v, flx_graph_find(v, names[i])), at[i]);
            feeds[i] = (flx_feed){names[i], in[i]};
        }
        in[2] = gradient_uniform(ctx, &pair, 1, 0);
        feeds[2] = (flx_feed){"d_output", in[2]};
        flx_tensor *out[2] = {0};
        CHECK_OK((int32_t)flx_run(grad, ON_REF, feeds, 3, out, &err), &err);
        for (int i = 0; i < 2; i++) {
            for (int64_t k = 0; k < flx_tensor_count(out[i]); k++) {
                test_fail_context("case %zu, d_%s, number %lld", c, names[i], (long long)k);
                CHECK_NEAR(flx_tensor_get(out[i], k), cases[c].want[i][k], 0);
            }
            flx_tensor_release(out[i]);
        }
        for (int i = 0; i < 3; i++)
            flx_tensor_release(in[i]);
        flx_graph_release(grad);
        flx_graph_release(v);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

/* ---- Bits ---- */

static void check_bits(const char *text, uint32_t want)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    const flx_graph *g = flx_module_main(m);
    flx_val w = flx_graph_find(g, "w");
    test_fail_context("%s", text);
    CHECK_EQ_U64(flx_val_bits(g, w.id ? w : flx_graph_output(g, 0)), want);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(quantised_values_say_how_many_bits_they_have)
{
    check_bits("graph g(x: f32[4]) { return quantize(x, scales=[1]) }", 8);
    check_bits("graph g(x: f32[4]) { return quantize(x, scales=[1], dtype=i32) }", 32);
    check_bits("graph g(x: f32[4]) { return dequantize(reverse(quantize(x, scales=[1]), axes=[0]), scales=[1]) }", 8);
    check_bits("graph g(x: f32[4]) { return fake_quantize(x, bits=3) }", 3);
    check_bits(
        "graph g(x: f32[4, 2]) { return transpose(reshape(fake_quantize(x, bits=4), shape=[2, 4]), perm=[1, 0]) }", 4);
    check_bits("graph g(x: f32[4], s: f32[1]) { return fake_quantize_lsq(x, s, bits=2) }", 2);
    check_bits("graph g(x: f32[4], c: f32[1]) { y, s = fake_quantize(x, c, scale_mode=ema) return s }", 0);
    check_bits("graph g(x: f32[4]) { return mul(fake_quantize(x), 2) }", 0);
    check_bits("graph g(x: f32[4]) { return x }", 0);
    check_bits("graph g(x: f32[2, 4], w: i8[4, 2], s: f32[1, 2]) { return dequant_matmul(x, w, s, scheme=int8_block) }",
               8);
    check_bits("graph g(x: f32[2, 4], w: u8[4], s: f32[1, 2], z: f32[1, 2]) { return dequant_matmul(x, w, s, z, "
               "scheme=int4_block) }",
               4);
    check_bits("graph g(x: f32[2, 4], w: u8[4, 2], s: f32[2]) { return dequant_matmul(x, w, s, scheme=fp8_e4m3) }", 8);
    CHECK_EQ_U64(flx_val_bits(NULL, FLX_NONE), 0);
}
