/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: errors, and shapes that only a fold with a body can have. Values: tests/oracle/reduce.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"
#include "ops/tangent_text.h"

#include <math.h>

TEST(argmax_of_empty_axis_is_a_shape_error)
{
    check_text_fails("graph g(x: f32[3, 0]) { return argmax(x) }", FLX_E_SHAPE, "argmax: axis 1 of x [3, 0] is empty");
}

TEST(argmin_dtype_must_hold_every_position)
{
    check_text_fails("graph g(x: f32[129]) { return argmin(x, dtype=i8) }", FLX_E_DTYPE,
                     "argmin: i8 cannot represent 129 positions");
}

TEST(reduce_needs_one_init_for_each_array)
{
    check_text_fails("graph f(a: f32[], x: f32[]) { return add(a, x) }"
                     "graph g(x: f32[2], y: f32[2]) { z = reduce(x, y, 0, body=@f) return z }",
                     FLX_E_ARITY, "reduce 'z': 3 operands cannot be the same number of arrays and inits");
}

TEST(reduce_body_failure_reaches_the_caller)
{
    text_run r = text_begin("graph f(a: i32[], x: i32[]) { return check(a, x, message=\"zero\") }"
                            "graph g() { x = const(i32[3], [2, 0, 1]) return reduce(x, full(i32[], 8), body=@f) }");
    CHECK_CODE(r.code, FLX_E_CHECK, &r.err);
    text_end(&r);
}

TEST(map_result_shows_a_number_where_one_operand_does)
{
    const char text[] = "graph f(a: f32[], b: f32[]) { return add(a, b) }"
                        "graph g(x: f32[N, 3], y: f32[2, M]) { z = map(x, y, body=@f) return z }";
    flx_error err;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    const flx_graph *g = flx_module_main(m);
    char type[40];
    flx_type_print(ctx, flx_val_type(g, flx_graph_output(g, 0)), type, sizeof type);
    CHECK_EQ_STR(type, "f32[2, 3]");
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The number of elements reduced does not fit 64 bits; nothing may be counted where no result exists. */
TEST(reduce_of_empty_tensor_with_huge_dims_is_empty)
{
    text_run r = text_begin("graph g() { x = full(f32[0, 4294967296, 4294967296], 1)"
                            "  return reduce_mean(x, axes=[1, 2]) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), 0);
    text_end(&r);
}

/* A sum of one term is that term, so that simplification may use it; 1/-0 shows the sign. */
TEST(sum_of_negative_zeros_is_negative_zero)
{
    text_run r = text_begin("graph g() { x = const(f64[1, 2], [[-0.0, -0.0]])"
                            "  z = full(c128[1], -0.0)"
                            "  return div(1, reduce_sum(x, axes=[0])), div(1, reduce_sum(x)),"
                            "         div(1, real(reduce_sum(z))), div(1, reduce_sum(full(f64[0], 1))) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), -INFINITY, 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), -INFINITY, 0);
    CHECK_NEAR(flx_tensor_get(r.out[2], 0), -INFINITY, 0);
    CHECK_NEAR(flx_tensor_get(r.out[3], 0), INFINITY, 0);
    text_end(&r);
}

/* ---- Derivatives at special points ---- */

#define CHECK_ROW(text, ...) check_gradient((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)
#define CHECK_HESSIAN_ROW(text, ...) check_hessian_of_ones((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)

/* Forward mode returns the tangents of the elements that equal the extremum, not 0. */
TEST(trap_17_tied_extremum_shares_its_cotangent)
{
    CHECK_ROW("graph g(x: f64[4]) { return reduce_max(x) }", {3, 1, 3, 2}, {0.5, 0, 0.5, 0});
    CHECK_ROW("graph g(x: f64[2, 2]) { return reduce_min(x, axes=[0, 1]) }", {1, 1, 1, 1}, {0.25, 0.25, 0.25, 0.25});
    CHECK_ROW("graph g(x: f16[2, 2]) { return reduce_max(x, axes=[1], keep_dims=true) }", {1, 1, 0, 2},
              {0.5, 0.5, 0, 1});
    CHECK_ROW("graph g(x: f64[3]) { return reduce_max(x) }", {-INFINITY, 1, INFINITY}, {0, 0, 1});
}

TEST(reduce_max_gives_its_cotangent_to_the_nans)
{
    CHECK_ROW("graph g(x: f64[4]) { return reduce_max(x) }", {9, NAN, 2, NAN}, {0, 0.5, 0, 0.5});
    CHECK_ROW("graph g(x: f64[3]) { return reduce_min(x) }", {NAN, -INFINITY, 2}, {1, 0, 0});
}

/* -inf whatever the operand is: the tangent is 0, not 0/0. */
TEST(reduce_max_of_nothing_has_zero_tangent)
{
    CHECK_ROW("graph g(x: f64[0]) { return reduce_max(x) }", {0}, {0});
    CHECK_ROW("graph g(x: f64[2, 0]) { return reduce_min(x, axes=[1]) }", {0}, {0});
}

TEST(trap_19_prod_with_zero)
{
    CHECK_ROW("graph g(x: f64[3]) { return reduce_prod(x) }", {2, 0, 3}, {0, 6, 0});
    CHECK_ROW("graph g(x: f64[3]) { return reduce_prod(x) }", {0, 5, 0}, {0, 0, 0});
    CHECK_ROW("graph g(x: f64[2, 2, 2]) { return reduce_prod(x, axes=[0, 2]) }", {2, 3, 0, 4, 5, 6, 7, 8},
              {90, 60, 224, 0, 36, 30, 0, 0});
    CHECK_ROW("graph g(x: f64[2]) { return reduce_prod(x, axes=[]) }", {0, 7}, {1, 1});
}

TEST(trap_19_second_derivatives_of_prod_with_zeros)
{
    CHECK_HESSIAN_ROW("graph g(x: f64[3]) { return reduce_prod(x) }", {2, 0, 3}, {3, 5, 2});
    CHECK_HESSIAN_ROW("graph g(x: f64[3]) { return reduce_prod(x) }", {0, 5, 0}, {5, 0, 5});
    CHECK_HESSIAN_ROW("graph g(x: f64[2, 2]) { return reduce_prod(x) }", {0, 5, 0, 2}, {10, 0, 10, 0});
}

TEST(trap_19_complex_prod_with_zero_conjugates)
{
    CHECK_ROW("graph g(x: c128[3]) { return reduce_prod(x) }", {0, 0, 1, 2, 3, 0}, {3, -6, 0, 0, 0, 0});
}

TEST(trap_21_mean_counts_all_its_axes)
{
    CHECK_ROW("graph g(x: f64[2, 2, 2]) { return reduce_mean(x, axes=[0, 2]) }", {0},
              {0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25});
}

/* 2^17 is beyond f16, its inverse is not. */
TEST(trap_21_mean_counts_beyond_its_dtype)
{
    CHECK_ROW("graph g(x: f16[]) { return reduce_mean(expand(x, shape=[131072])) }", {1}, {1});
}

TEST(reduce_with_named_body_has_the_derivative_of_its_reduction)
{
    CHECK_ROW("graph f(a: f64[], b: f64[]) { return max(b, a) }"
              "graph g(x: f64[4]) { return reduce(x, -10, body=@f) }",
              {3, 3, 3, 3}, {0.25, 0.25, 0.25, 0.25});
    CHECK_ROW("graph f(a: f64[], b: f64[]) { return mul(a, b) }"
              "graph g(x: f64[2, 2]) { return reduce(x, 2, body=@f, axes=[0]) }",
              {0, 3, 4, 0}, {8, 0, 0, 6});
}

/* ((x0² ) x1 + x1²) x2 + x2², from 0. */
TEST(reduce_with_any_body_folds_in_order)
{
    CHECK_ROW("graph f(a: f64[], b: f64[]) { return add(mul(a, b), mul(b, b)) }"
              "graph g(x: f64[3]) { return reduce(x, 0, body=@f) }",
              {2, 3, 5}, {60, 50, 31});
}

/* Neither 0, nor the sum of the tied ones. */
TEST(trap_18_extremum_has_the_tangent_of_its_winners)
{
    static const char *const by_x[] = {"x"};
    const tangent_row one[] = {{"x", {1, 5, 2}}, {"tangent_x", {10, 20, 30}}};
    const tangent_row tied[] = {{"x", {1, 4, 1}}, {"tangent_x", {10, 20, 30}}};
    check_tangent("graph g(x: f64[3]) {\n  y = reduce_max(x)\n  return y\n}", by_x, 1, one, 2,
                  (tangent_row){"tangent_y", {20}});
    check_tangent("graph g(x: f64[3]) {\n  y = reduce_min(x)\n  return y\n}", by_x, 1, tied, 2,
                  (tangent_row){"tangent_y", {20}});
}

/* Each factor's tangent times the product of the others, summed: with one zero only its own term is left. */
TEST(trap_20_prod_tangent_sums_over_its_factors)
{
    static const char *const by_x[] = {"x"};
    const char *text = "graph g(x: f64[2, 3]) {\n  y = reduce_prod(x, axes=[1])\n  return y\n}";
    const tangent_row at[] = {{"x", {2, 0, 3, 2, 4, 5}}, {"tangent_x", {7, 1, 9, 1, 10, 100}}};
    check_tangent(text, by_x, 1, at, 2, (tangent_row){"tangent_y", {6, 20 + 100 + 800}});
}
