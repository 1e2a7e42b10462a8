/* Activations: kinks, tails and attributes. Values: tests/oracle/activation.py. */
#include "run_text.h"

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

/* relu of both zeros is +0, and NaN is kept; threshold replaces what is not above theta, NaN included. */
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
