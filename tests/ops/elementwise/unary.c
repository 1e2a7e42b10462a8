/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions: signs of zero, lowest integers, branch cuts, the real result of abs. Values:
   tests/oracle/unary.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>

/* Values alone do not distinguish 0 and -0: the reciprocal does. */
TEST(unary_zeros_have_the_defined_sign)
{
    text_run r =
        text_begin("graph g() { p = full(f32[], 0)  n = full(f32[], -0.0)  s = full(f32[], -0.25)"
                   "  return reciprocal(stack(sign(n), sign(p), neg(p), abs(n), round(s), round_away(s), ceil(s),"
                   "                          trunc(s), sqrt(n), sin(n), cbrt(n), square(n))) }");
    static const int negative[] = {1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 12; i++) {
        test_fail_context("zero %d", i);
        CHECK_NEAR(flx_tensor_get(r.out[0], i), negative[i] ? -INFINITY : INFINITY, 0);
    }
    text_end(&r);
}

TEST(unary_lowest_integer_stays_itself)
{
    text_run r = text_begin("graph g() { x = const(i8[2], [-128, -127])  u = const(u8[2], [1, 200])"
                            "  return neg(x), abs(x), neg(u), sign(u) }");
    static const double want[4][2] = {{-128, 127}, {-128, 127}, {255, 56}, {1, 1}};
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 2; i++)
            CHECK_NEAR(flx_tensor_get(r.out[k], i), want[k][i], 0);
    text_end(&r);
}

/* On a cut the sign of a zero part selects the side: the two answers are conjugates or opposites. */
TEST(unary_complex_cut_is_continuous_with_its_side)
{
    text_run r =
        text_begin("graph g() { z = const(c128[2], [[-4, 0.0], [-4, -0.0]])  w = const(c128[2], [[0.0, 4], [-0.0, 4]])"
                   "  return imag(sqrt(z)), imag(log(z)), imag(log1p(z)), real(atan(w)) }");
    static const double want[] = {2, 3.141592653589793, 3.141592653589793, 1.5707963267948966};
    CHECK_OK(r.code, &r.err);
    for (int k = 0; k < 4; k++) {
        test_fail_context("function %d", k);
        CHECK_NEAR(flx_tensor_get(r.out[k], 0), want[k], 1e-15);
        CHECK_NEAR(flx_tensor_get(r.out[k], 1), -want[k], 1e-15);
    }
    text_end(&r);
}

TEST(abs_of_complex_is_real_and_does_not_overflow)
{
    text_run r = text_begin("graph g() { z = const(c64[2], [[3, -4], [3e38, 0]])  w = const(c128[1], [[1e308, 1e308]])"
                            "  return abs(z), abs(w), abs(sign(w)) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_type(r.out[0])->dtype, FLX_F32);
    CHECK_EQ_I64(flx_tensor_type(r.out[1])->dtype, FLX_F64);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 5, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), (double)3e38f, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0) / 1e308, 1.4142135623730951, 1e-15);
    CHECK_NEAR(flx_tensor_get(r.out[2], 0), 1, 1e-15);
    text_end(&r);
}

TEST(unary_errors_name_the_operand_and_its_dtype)
{
    check_text_fails("graph g(x: i32[2]) { z = exp(x) return z }", FLX_E_DTYPE, "exp 'z': x cannot be i32");
    check_text_fails("graph g(x: c64[2]) { z = floor(x) return z }", FLX_E_DTYPE, "floor 'z': x cannot be c64");
    check_text_fails("graph g(x: bool[2]) { z = neg(x) return z }", FLX_E_DTYPE, "neg 'z': x cannot be bool");
}

/* ---- Derivatives at points where a naive rule fails ---- */

TEST(trap_4_5_abs_at_zero_has_derivative_zero)
{
    static const gradient_row real[] = {{"x", {-2, 0, -0.0, 3}, {-1, 0, 0, 1}}};
    static const gradient_row complex[] = {{"z", {0, 0, 0, -2, 4, 0}, {0, 0, 0, -1, 1, 0}}};
    static const gradient_row flat[] = {{"x", {-2, 0, 3}, {0, 0, 0}}};
    static const gradient_row curved[] = {{"z", {0, 0, 0, -2, 4, 0}, {0, 0, 0.5, 0, 0, 0}}};
    check_gradient("graph g(x: f32[4]) { return abs(x) }", real, 1);
    check_gradient("graph g(z: c128[3]) { return abs(z) }", complex, 1);
    check_hessian_of_ones("graph g(x: f64[3]) { return reduce_sum(abs(x)) }", flat, 1);
    check_hessian_of_ones("graph g(z: c128[3]) { return reduce_sum(abs(z)) }", curved, 1);
}

/* sign(z) = z/|z| turns: along the imaginary axis by 1/|z| at a real z. */
TEST(sign_is_flat_for_reals_and_turns_for_complex)
{
    static const gradient_row real[] = {{"x", {-2, 0, 3}, {0, 0, 0}}};
    static const gradient_row turn[] = {{"z", {0, 0, 4, 0, 0, -2}, {0, 0, 0, 0, 0.5, 0}}};
    check_gradient("graph g(x: f64[3]) { return sign(x) }", real, 1);
    check_gradient("graph g(z: c128[3]) { return sign(z) }", turn, 1);
}

TEST(trap_7_roots_have_an_infinite_derivative_at_zero)
{
    static const gradient_row zero[] = {{"x", {0, 4}, {INFINITY, 0.25}}};
    static const gradient_row cube[] = {{"x", {0, 8}, {INFINITY, 1.0 / 12}}};
    check_gradient("graph g(x: f64[2]) { return sqrt(x) }", zero, 1);
    check_gradient("graph g(x: f64[2]) { return cbrt(x) }", cube, 1);
}

/* Poles of real functions have the sign of the side where they are defined. */
TEST(inverse_functions_have_poles_at_the_ends)
{
    static const gradient_row up[] = {{"x", {-1, 0, 1}, {INFINITY, 1, INFINITY}}};
    static const gradient_row down[] = {{"x", {-1, 0, 1}, {-INFINITY, -1, -INFINITY}}};
    static const gradient_row one[] = {{"x", {1, 1.25}, {INFINITY, 1 / 0.75}}};
    check_gradient("graph g(x: f64[3]) { return asin(x) }", up, 1);
    check_gradient("graph g(x: f64[3]) { return acos(x) }", down, 1);
    check_gradient("graph g(x: f64[3]) { return atanh(x) }", up, 1);
    check_gradient("graph g(x: f64[2]) { return acosh(x) }", one, 1);
}

TEST(trap_8_round_is_straight_through_only_when_asked)
{
    static const gradient_row zero[] = {{"x", {0.4, 0.5, -1.7}, {0, 0, 0}}};
    static const gradient_row through[] = {{"x", {0.4, 0.5, -1.7}, {1, 1, 1}}};
    check_gradient("graph g(x: f64[3]) { return round(x) }", zero, 1);
    check_gradient("graph g(x: f64[3]) { return round(x, ste=identity) }", through, 1);
    check_hessian_of_ones("graph g(x: f64[3]) { return reduce_sum(round(x, ste=identity)) }", zero, 1);
}

TEST(trap_62_complex_cotangents_take_the_conjugate)
{
    static const gradient_row inverse[] = {{"z", {0, 2}, {0, 0.5}}};
    static const gradient_row twice[] = {{"z", {3, 4}, {6, -8}}};
    check_gradient("graph g(z: c128[]) { return log(z) }", inverse, 1);
    check_gradient("graph g(z: c128[]) { return square(z) }", twice, 1);
}

/* On a cut the derivative is that of the side which the sign of the zero part selects. Conjugates are expected. */
TEST(complex_derivatives_on_a_cut_are_those_of_its_side)
{
    const double k = 1 / 0.75;
    const gradient_row asin[] = {{"z", {1.25, 0.0, 1.25, -0.0, -1.25, 0.0, -1.25, -0.0}, {0, -k, 0, k, 0, k, 0, -k}}};
    const gradient_row asinh[] = {{"z", {0.0, 1.25, -0.0, 1.25, 0.0, -1.25, -0.0, -1.25}, {0, k, 0, -k, 0, -k, 0, k}}};
    const gradient_row acosh[] = {{"z", {0, 0.0, 0, -0.0, -1.25, 0.0, -1.25, -0.0}, {0, 1, 0, -1, -k, 0, -k, 0}}};
    const gradient_row sqrt[] = {{"z", {-4, 0.0, -4, -0.0}, {0, 0.25, 0, -0.25}}};
    check_gradient("graph g(z: c128[4]) { return asin(z) }", asin, 1);
    check_gradient("graph g(z: c128[4]) { return asinh(z) }", asinh, 1);
    check_gradient("graph g(z: c128[4]) { return acosh(z) }", acosh, 1);
    check_gradient("graph g(z: c128[2]) { return sqrt(z) }", sqrt, 1);
}

/* Ties go to the even number in every format; away from zero is another op. */
TEST(trap_9_round_takes_halves_to_even)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    static const double even[] = {0, 2, 2, 4, -0.0, -2, -2};
    static const double away[] = {1, 2, 3, 4, -1, -2, -3};
    for (int d = 0; d < 4; d++) {
        char text[160];
        snprintf(
            text, sizeof text,
            "graph g() { x = const(%s[7], [0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5])  return round(x), round_away(x) }",
            dtypes[d]);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        for (int i = 0; i < 7; i++) {
            test_fail_context("%s, element %d", dtypes[d], i);
            CHECK_NEAR(flx_tensor_get(r.out[0], i), even[i], 0);
            CHECK_NEAR(flx_tensor_get(r.out[1], i), away[i], 0);
        }
        text_end(&r);
    }
}

/* The slope of erf at 0 is 2/sqrt(pi) rounded to each format: an f32 constant would be wrong in the eighth digit of
   f64, and its bytes are not a number of f16 and bf16. */
TEST(trap_16_constants_have_the_dtype_of_their_partner)
{
    static const struct {
        const char *text;
        double slope;
    } rows[] = {
        {"graph g(x: f64[]) { return erf(x) }", 0x1.20dd750429b6dp0},
        {"graph g(x: f32[]) { return erf(x) }", 0x1.20dd76p0},
        {"graph g(x: f16[]) { return erf(x) }", 0x1.20cp0},
        {"graph g(x: bf16[]) { return erf(x) }", 0x1.2p0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const gradient_row row = {"x", {0}, {rows[i].slope}};
        check_gradient(rows[i].text, &row, 1);
    }
}
