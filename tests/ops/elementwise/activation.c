/* SPDX-License-Identifier: Apache-2.0 */
/* Activations: kinks, tails and attributes. Values: tests/oracle/activation.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <fluxion/ops.h>
#include <math.h>

TEST(activation_gates_take_their_limit_at_minus_infinity)
{
    text_run r = text_begin("graph g() { x = const(f32[3], [-inf, inf, nan])"
                            "  return stack(silu(x), gelu(x), gelu_approx(x), mish(x), hard_swish(x)) }");
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 5; k++) {
        test_fail_context("activation %d", k);
        CHECK_NEAR(flx_tensor_get(r.out[0], 3 * k), 0, 0);
        CHECK_NEAR(flx_tensor_get(r.out[0], 3 * k + 1), INFINITY, 0);
        CHECK(isnan(flx_tensor_get(r.out[0], 3 * k + 2)));
    }
    text_end(&r);
}

/* Where 1 + erf and 1 + tanh have no digits left, the result still has them all. */
TEST(gelu_keeps_its_digits_in_the_tail)
{
    text_run r = text_begin("graph g() { x = full(f64[], -12)  return gelu(x), gelu_approx(x), silu(mul(x, 60)) }");
    static const double want[] = {-2.1317785344932147e-32, -1.6359854493534683e-61, -1.46320617774547e-310};
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 3; k++) {
        test_fail_context("activation %d", k);
        CHECK_NEAR(flx_tensor_get(r.out[k], 0) / want[k], 1, 1e-12);
    }
    text_end(&r);
}

/* relu of both zeros is +0, and NaN is kept; threshold replaces everything that is not above theta, including NaN. */
TEST(activation_kinks_belong_to_the_lower_side)
{
    text_run r = text_begin("graph g() { x = const(f64[3], [-0.0, 0, nan])"
                            "  return div(1, relu(x)), threshold(x, theta=0, value=-3),"
                            "         threshold(const(f32[2], [0.1, 0.2]), theta=0.1, value=9) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(flx_tensor_get(r.out[0], i), i < 2 ? INFINITY : NAN, 0);
        CHECK_NEAR(flx_tensor_get(r.out[1], i), -3, 0);
    }
    CHECK_NEAR(flx_tensor_get(r.out[2], 0), 9, 0);
    CHECK_NEAR(flx_tensor_get(r.out[2], 1), (double)0.2f, 0);
    text_end(&r);
}

TEST(activation_errors_name_the_attribute)
{
    check_text_fails("graph g(x: f32[2]) { z = celu(x, alpha=0) return z }", FLX_E_ATTRIBUTE,
                     "celu 'z': alpha must not be 0: x is divided by it");
    check_text_fails("graph g(x: f32[2]) { z = elu(x, alpha=inf) return z }", FLX_E_ATTRIBUTE,
                     "elu 'z': alpha must be a finite number, it is inf");
    check_text_fails("graph g(x: f32[2]) { z = threshold(x, theta=nan, value=0) return z }", FLX_E_ATTRIBUTE,
                     "threshold 'z': theta must be a number to compare with, it is nan");
}

/* ---- Derivatives at points where a naive rule fails ---- */

TEST(trap_4_6_relu_selects_and_does_not_multiply)
{
    static const gradient_row rows[] = {{"x", {-1, 0, -0.0, 2, INFINITY}, {0, 0, 0, 1, 1}}};
    static const gradient_row infinite[] = {{"x", {-1, 0, 2}, {0, 0, INFINITY}}};
    static const gradient_row flat[] = {{"x", {-1, 0, 2}, {0, 0, 0}}};
    check_gradient("graph g(x: f16[5]) { return relu(x) }", rows, 1);
    check_reverse("graph g(x: f64[3]) { return mul(relu(x), inf) }", infinite, 1);
    check_hessian_of_ones("graph g(x: f64[3]) { return reduce_sum(relu(x)) }", flat, 1);
}

TEST(activation_masks_keep_infinite_cotangents_out)
{
    static const gradient_row inside[] = {{"x", {-4, -3, 3, 4}, {0, 0, 0, 0}}};
    static const gradient_row swish[] = {{"x", {-4, -3, 4}, {0, 0, INFINITY}}};
    static const gradient_row slopes[] = {{"x", {-1, 2}, {INFINITY, INFINITY}}, {"slope", {0.5, 0.5}, {-INFINITY, 0}}};
    check_reverse("graph g(x: f64[4]) { return mul(hard_sigmoid(x), inf) }", inside, 1);
    check_reverse("graph g(x: f64[3]) { return mul(hard_swish(x), inf) }", swish, 1);
    check_reverse("graph g(x: f64[3]) { return mul(threshold(x, theta=-3, value=1), inf) }", swish, 1);
    check_reverse("graph g(x: f64[2], slope: f64[2]) { return mul(prelu(x, slope), inf) }", slopes, 2);
}

/* The derivative at 0, above and far above; the second derivative is that of the same side, and the branch that is not
   taken may overflow. */
TEST(activation_kinks_have_the_derivative_of_the_lower_side)
{
    static const struct {
        const char *call;
        double at_zero, above, second_at_zero;
    } rows[] = {
        {"elu(x)", 1, 1, 1},
        {"elu(x, alpha=2)", 2, 1, 2},
        {"celu(x, alpha=0.5)", 1, 1, 2},
        {"selu(x)", 1.0507009873554805 * 1.6732632423543772, 1.0507009873554805,
         1.0507009873554805 * 1.6732632423543772},
        {"leaky_relu(x, alpha=0.25)", 0.25, 1, 0},
        {"threshold(x, theta=0, value=7)", 0, 1, 0},
        {"relu(x)", 0, 1, 0},
        {"prelu(x, 0.125)", 0.125, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[120];
        const gradient_row first[] = {
            {"x", {0, -0.0, 2, 1000}, {rows[i].at_zero, rows[i].at_zero, rows[i].above, rows[i].above}}};
        const gradient_row second[] = {{"x", {0, 2, 1000}, {rows[i].second_at_zero, 0, 0}}};
        snprintf(text, sizeof text, "graph g(x: f64[4]) { return %s }", rows[i].call);
        check_gradient(text, first, 1);
        snprintf(text, sizeof text, "graph g(x: f64[3]) { return reduce_sum(%s) }", rows[i].call);
        check_hessian_of_ones(text, second, 1);
    }
}

TEST(hard_activations_have_derivative_zero_at_their_bounds)
{
    static const gradient_row sigmoid[] = {{"x", {-2, 2, 0, -1}, {0, 0, 0.25, 0.25}}};
    static const gradient_row swish[] = {{"x", {-3, 3, 0, -INFINITY, INFINITY}, {0, 1, 0.5, 0, 1}}};
    static const gradient_row slope[] = {{"x", {0, -4, 2}, {0.5, 0.5, 1}}, {"a", {0.5}, {-4}}};
    check_gradient("graph g(x: f64[4]) { return hard_sigmoid(x, alpha=0.25, beta=0.5) }", sigmoid, 1);
    check_gradient("graph g(x: f32[5]) { return hard_swish(x) }", swish, 1);
    check_gradient("graph g(x: f64[3], a: f64[]) { return prelu(x, a) }", slope, 2);
}

/* Neither form of gelu is sech²; all gated ones have the slope of their gate at 0. */
TEST(trap_1_gated_activations_have_slope_one_half_at_zero)
{
    static const char *const calls[] = {"gelu(x)", "gelu_approx(x)", "silu(x)", "hard_swish(x)"};
    static const gradient_row half[] = {{"x", {0}, {0.5}}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char text[80];
        snprintf(text, sizeof text, "graph g(x: bf16[]) { return %s }", calls[i]);
        check_gradient(text, half, 1);
    }
}

/* The limits 0 and 1 are taken by the derivative at infinity and where squares and cubes overflow, and the second
   derivative is 0 there, in the widest and in the narrowest format. */
TEST(smooth_activations_have_finite_derivatives_everywhere)
{
    static const char *const calls[] = {"gelu", "gelu_approx", "silu", "mish", "softplus"};
    static const gradient_row narrow[] = {{"x", {-INFINITY, -60000, -300, 300, 60000, INFINITY}, {0, 0, 0, 1, 1, 1}}};
    static const gradient_row wide[] = {{"x", {-INFINITY, -1e200, -800, 800, 1e200, INFINITY}, {0, 0, 0, 1, 1, 1}}};
    static const gradient_row flat[] = {{"x", {-INFINITY, -1e200, -800, 800, 1e200, INFINITY}, {0, 0, 0, 0, 0, 0}}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char text[80];
        snprintf(text, sizeof text, "graph g(x: f16[6]) { return %s(x) }", calls[i]);
        check_gradient(text, narrow, 1);
        snprintf(text, sizeof text, "graph g(x: f64[6]) { return %s(x) }", calls[i]);
        check_gradient(text, wide, 1);
        snprintf(text, sizeof text, "graph g(x: f64[6]) { return reduce_sum(%s(x)) }", calls[i]);
        check_hessian_of_ones(text, flat, 1);
    }
}

/* f(x) and f'(x) of a unary op in f64, by reverse mode. */
static void value_and_slope(const char *op, double x, double *value, double *slope)
{
    static const char *const by_x[] = {"x"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "g");
    flx_type scalar = {.dtype = FLX_F64};
    flx_val in = flx_input(g, "x", &scalar);
    flx_output(g, flx_op1(g, op, &in, 1, NULL, 0), "y");
    flx_grad_options options = {.flags = FLX_GRAD_VALUE};
    flx_graph *d = flx_grad(g, by_x, 1, &options, &err);
    CHECK_OK(d ? FLX_OK : err.code, &err);
    flx_tensor *at = flx_tensor_new(ctx, &scalar, &x, NULL);
    flx_tensor *out[2] = {0};
    flx_feed feed = {"x", at};
    CHECK_OK((int32_t)flx_run(d, ON_REF, &feed, 1, out, &err), &err);
    *value = flx_tensor_get(out[0], 0);
    *slope = flx_tensor_get(out[1], 0);
    flx_tensor_release(at);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_graph_release(d);
    flx_graph_release(g);
    flx_context_free(ctx);
}

static void check_slope(const char *op, double x, double value, double slope)
{
    double v;
    double d;
    test_fail_context("%s at %g", op, x);
    value_and_slope(op, x, &v, &d);
    CHECK_NEAR(v, value, 1e-15);
    CHECK_NEAR(d, slope, 1e-15);
}

/* silu's slope differs in the second decimal. Numbers of 20 digits by mpmath. */
TEST(trap_2_gelu_approx_does_not_have_the_slope_of_silu)
{
    check_slope("gelu_approx", 1, 0.84119199060827676, 1.0829640838457826);
    check_slope("silu", 1, 0.73105857863000488, 0.92767051187148673);
}

/* The two forms differ in the fourth digit: each has the slope of its own value. */
TEST(trap_3_each_gelu_has_the_slope_of_its_own_form)
{
    check_slope("gelu", 1, 0.84134474606854295, 1.0833154705876863);
    check_slope("gelu", -2, -0.045500263896358415, -0.085231801078196897);
    check_slope("gelu_approx", -2, -0.045402305912224991, -0.086099256623618382);
}
