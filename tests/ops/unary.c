/* Elementary functions: signs of zero, lowest integers, branch cuts, the real result of abs. Values: tests/oracle/unary.py. */
#include "run_text.h"

#include <math.h>

/* Values alone do not tell 0 from -0: the reciprocal does. */
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

/* On a cut the sign of a zero part tells the side: the two answers are conjugates or opposites. */
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
    check_text_fails("graph g(x: i32[2]) { z = exp(x) return z }", FLX_E_DTYPE, "exp 'z': x may not be i32");
    check_text_fails("graph g(x: c64[2]) { z = floor(x) return z }", FLX_E_DTYPE, "floor 'z': x may not be c64");
    check_text_fails("graph g(x: bool[2]) { z = neg(x) return z }", FLX_E_DTYPE, "neg 'z': x may not be bool");
}
