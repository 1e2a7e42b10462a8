/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic: signs of zero, totality and messages. Values: tests/oracle/arith.py. */
#include "ops/batch_text.h"
#include "ops/run_text.h"
#include "ops/tangent_text.h"

#include <math.h>

/* Values alone do not distinguish 0 and -0: the reciprocal does. */
TEST(arith_zeros_have_the_defined_sign)
{
    text_run r = text_begin("graph g() { p = full(f32[], 0)  n = full(f32[], -0.0)  m = full(f32[], -6)"
                            "  z = stack(max(p, n), max(n, p), min(p, n), min(n, p), rem(m, 3), mod(m, 3), mod(6, m),"
                            "            add_n(n, n, n), fma(p, m, n), nextafter(n, p))"
                            "  return div(1, z) }");
    static const int negative[] = {0, 0, 1, 1, 1, 0, 1, 1, 1, 0};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 10; i++) {
        test_fail_context("zero %d", i);
        CHECK_NEAR(flx_tensor_get(r.out[0], i), negative[i] ? -INFINITY : INFINITY, 0);
    }
    text_end(&r);
}

/* a = (a/b)*b + rem(a, b) for every pair of bytes, zero and MIN/-1 included. */
TEST(integer_division_and_remainder_recompose)
{
    text_run r = text_begin("graph g() { i = iota(i32[256, 256], axis=0)  k = iota(i32[256, 256], axis=1)"
                            "  a = cast(i, to=i8)  b = cast(k, to=i8)  u = cast(i, to=u8)  v = cast(k, to=u8)"
                            "  return reduce_all(eq(a, add(mul(div(a, b), b), rem(a, b)))),"
                            "         reduce_all(eq(u, add(mul(div(u, v), v), rem(u, v)))) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_get(r.out[0], 0), 1);
    CHECK_EQ_I64(flx_tensor_get(r.out[1], 0), 1);
    text_end(&r);
}

TEST(clamp_with_crossed_bounds_gives_the_upper_one)
{
    text_run r = text_begin("graph g() { return clamp(3, const(f64[3], [1, 2.5, 9]), 2) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), 2, 0);
    text_end(&r);
}

TEST(arith_errors_name_shapes_and_dtypes)
{
    check_text_fails("graph g(x: f32[2, 3], y: f32[4]) { z = add(x, y) return z }", FLX_E_SHAPE,
                     "add 'z': shapes do not broadcast: [2, 3] and [4]");
    check_text_fails("graph g(x: bool[2]) { z = sub(x, x) return z }", FLX_E_DTYPE, "sub 'z': a cannot be bool");
    check_text_fails("graph g() { return add_n() }", FLX_E_ARITY, "add_n: at least one operand is needed");
}

/* ---- Derivatives at points where a naive rule fails ---- */

TEST(trap_10_max_and_min_split_ties_evenly)
{
    static const gradient_row largest[] = {
        {"a", {1, 2, 3, NAN, INFINITY, 0}, {0, 0.5, 1, 0, 0.5, 0.5}},
        {"b", {2, 2, 1, 1, INFINITY, -0.0}, {1, 0.5, 0, 0, 0.5, 0.5}},
    };
    static const gradient_row smallest[] = {
        {"a", {1, 2, 3, NAN, INFINITY, 0}, {1, 0.5, 0, 0, 0.5, 0.5}},
        {"b", {2, 2, 1, 1, INFINITY, -0.0}, {0, 0.5, 1, 0, 0.5, 0.5}},
    };
    check_gradient("graph g(a: f64[6], b: f64[6]) { return max(a, b) }", largest, 2);
    check_gradient("graph g(a: f64[6], b: f64[6]) { return min(a, b) }", smallest, 2);
}

TEST(max_of_a_value_with_itself_has_derivative_one)
{
    static const gradient_row x[] = {{"x", {-1, 0, 2}, {1, 1, 1}}};
    check_gradient("graph g(x: f32[3]) { return max(x, x) }", x, 1);
}

/* Masks select: the operand that lost gets 0 and not 0 times infinity. */
TEST(max_keeps_infinite_cotangents_from_the_loser)
{
    static const gradient_row rows[] = {{"a", {1, 5}, {0, INFINITY}}, {"b", {2, 3}, {INFINITY, 0}}};
    check_reverse("graph g(a: f64[2], b: f64[2]) { return mul(max(a, b), inf) }", rows, 2);
}

/* As min(max(x, lo), hi): below, at lo, inside, at hi, above, all three equal, bounds crossed, NaN. */
TEST(clamp_shares_ties_as_its_definition)
{
    static const gradient_row rows[] = {
        {"lo", {0, 0, 0, 0, 0, 1, 3, 0}, {1, 0.5, 0, 0, 0, 0.25, 0, 0}},
        {"x", {-1, 0, 1, 2, 3, 1, 1, NAN}, {0, 0.5, 1, 0.5, 0, 0.25, 0, 0}},
        {"hi", {2, 2, 2, 2, 2, 1, 2, 2}, {0, 0, 0, 0.5, 1, 0.5, 1, 0}},
    };
    check_gradient("graph g(lo: f64[8], x: f64[8], hi: f64[8]) { return clamp(lo, x, hi) }", rows, 3);
}

TEST(trap_11_12_pow_at_zero_and_of_negative_bases)
{
    static const gradient_row rows[] = {
        {"a", {0, 0, 0, 0, 0, -2, -2, 2}, {0, 1, 0, INFINITY, -INFINITY, 12, -4, 0}},
        {"b", {2, 1, 0, 0.5, -1, 3, 2, 0}, {0, 0, 0, 0, 0, NAN, NAN, 0.69314718055994530942}},
    };
    check_gradient("graph g(a: f64[8], b: f64[8]) { return pow(a, b) }", rows, 2);
}

/* The exponent is not differentiated, so the logarithm of the negative base is never taken. */
TEST(pow_with_fixed_exponent_takes_no_logarithm)
{
    static const gradient_row rows[] = {{"a", {-3, 0, 3}, {27, 0, 27}}};
    check_gradient("graph g(a: f32[3]) { return pow(a, 3) }", rows, 1);
}

TEST(pow_has_second_derivatives_at_zero)
{
    static const gradient_row powers[] = {{"x", {0, 0, 0, 0}, {0, 0, 2, 0}}};
    static const gradient_row mixed[] = {{"a", {1}, {1}}, {"b", {0}, {1}}}; /* the guard must not cost 1/a */
    check_hessian_of_ones("graph g(x: f64[4]) { return reduce_sum(pow(x, const(f64[4], [0, 1, 2, 3]))) }", powers, 1);
    check_hessian_of_ones("graph g(a: f64[], b: f64[]) { return pow(a, b) }", mixed, 2);
}

TEST(pow_of_complex_zero_has_finite_derivatives)
{
    static const gradient_row rows[] = {
        {"a", {0, 0, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0}},
        {"b", {2, 0, 1, 0, 0, 0}, {0, 0, 0, 0, 0, 0}},
    };
    check_gradient("graph g(a: c128[3], b: c128[3]) { return pow(a, b) }", rows, 2);
}

TEST(trap_13_div_does_not_square_the_divisor)
{
    static const gradient_row rows[] = {{"a", {0x1p80}, {0x1p-100}}, {"b", {0x1p100}, {-0x1p-120}}};
    check_gradient("graph g(a: f32[], b: f32[]) { return div(a, b) }", rows, 2);
}

/* In the last column a/b rounds to 3, but the whole quotient is 2. */
TEST(rem_and_mod_count_whole_quotients)
{
    static const gradient_row truncated[] = {{"a", {7, -7, 7, 1}, {1, 1, 1, 1}},
                                             {"b", {3, 3, -3, 0x1.555556p-2}, {-2, 2, 2, -2}}};
    static const gradient_row floored[] = {{"a", {7, -7, 7, 1}, {1, 1, 1, 1}},
                                           {"b", {3, 3, -3, 0x1.555556p-2}, {-2, 3, 3, -2}}};
    check_gradient("graph g(a: f32[4], b: f32[4]) { return rem(a, b) }", truncated, 2);
    check_gradient("graph g(a: f32[4], b: f32[4]) { return mod(a, b) }", floored, 2);
}

TEST(atan2_has_derivative_zero_at_the_origin)
{
    static const gradient_row rows[] = {{"y", {0, -0.0, 3}, {0, 0, 0.16}}, {"x", {0, 0, 4}, {0, 0, -0.12}}};
    static const gradient_row second[] = {{"y", {0}, {0}}, {"x", {0}, {0}}};
    check_gradient("graph g(y: f64[3], x: f64[3]) { return atan2(y, x) }", rows, 2);
    check_hessian_of_ones("graph g(y: f64[], x: f64[]) { return atan2(y, x) }", second, 2);
}

/* Squares of 512 and of 2^-14 are out of range in f16. */
TEST(atan2_derivative_does_not_square_its_operands)
{
    static const gradient_row rows[] = {{"y", {0, 0}, {0x1p-9, 0x1p14}}, {"x", {0x1p9, 0x1p-14}, {0, 0}}};
    check_gradient("graph g(y: f16[2], x: f16[2]) { return atan2(y, x) }", rows, 2);
}

/* The tangent of one operand alone has the shape of the result. */
TEST(trap_14_tangent_of_a_broadcast_operand_has_the_shape_of_the_result)
{
    static const char *const by_a[] = {"a"};
    static const char *const by_b[] = {"b"};
    const tangent_row along_a[] = {{"a", {1, 2}}, {"b", {5, 6, 7, 8}}, {"tangent_a", {10, 20}}};
    check_tangent("graph g(a: f64[2], b: f64[2, 2]) {\n  y = add(a, b)\n  return y\n}", by_a, 1, along_a, 3,
                  (tangent_row){"tangent_y", {10, 20, 10, 20}});
    const tangent_row along_b[] = {{"a", {5, 6, 7, 8}}, {"b", {1, 2}}, {"tangent_b", {10, 20}}};
    check_tangent("graph g(a: f64[2, 2], b: f64[2, 1]) {\n  y = sub(a, b)\n  return y\n}", by_b, 1, along_b, 3,
                  (tangent_row){"tangent_y", {-10, -10, -20, -20}});
}

/* As either operand, in every format, alone and in reductions. */
TEST(trap_23_nan_wins_every_comparison)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    for (int d = 0; d < 4; d++) {
        char text[400];
        snprintf(text, sizeof text,
                 "graph g() { n = const(%s[], nan)  one = const(%s[], 1)  x = const(%s[3], [2, nan, 1])\n"
                 "  return stack(max(n, one), max(one, n), min(n, one), min(one, n), relu(n), clamp(one, n, one),\n"
                 "               reduce_max(x), reduce_min(x)) }",
                 dtypes[d], dtypes[d], dtypes[d]);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        for (int i = 0; i < 8; i++) {
            test_fail_context("%s, result %d", dtypes[d], i);
            CHECK_NEAR(flx_tensor_get(r.out[0], i), NAN, 0);
        }
        text_end(&r);
    }
}

/* ---- Batching ---- */

/* [2, 2] against [2, 2, 2]: without an axis between them the rows of one example would be paired with another
   example. */
TEST(trap_40_operands_of_different_rank_are_aligned_behind_the_batch)
{
    static const batch_row rows[] = {{"a", {1, 2, 3, 4}, true}, {"b", {0, 10, 20, 30, 40, 50, 60, 70}, true}};
    static const double want[] = {1, 12, 21, 32, 43, 54, 63, 74};
    check_batched("graph g(a: f64[2], b: f64[2, 2]) { return add(a, b) }", 2, rows, 2, want, 8);
}

TEST(trap_41_output_that_does_not_depend_on_the_batch_has_its_axis)
{
    static const batch_row rows[] = {{"a", {1, 2, 3}, true}, {"b", {5, 7}, false}};
    static const double want[] = {10, 14, 10, 14, 10, 14};
    check_batched("graph g(a: f64[], b: f64[2]) { return mul(b, 2) }", 3, rows, 2, want, 6);
}
