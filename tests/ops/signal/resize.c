/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing: errors and symbols. Values: tests/oracle/resize.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

TEST(resize_errors_name_what_is_wrong)
{
    check_text_fails("graph g() { y = resize(full(i32[2, 3], 1), shape=[4, 3], mode=linear)  return y }", FLX_E_DTYPE,
                     "resize 'y': i32 cannot be interpolated");
    check_text_fails("graph g() { y = resize(full(f32[0, 3], 1), shape=[4, 3])  return y }", FLX_E_SHAPE,
                     "resize 'y': axis 0 of x is empty and cannot become 4");
    check_text_fails("graph g() { y = resize(full(f32[2, 3], 1), shape=[4])  return y }", FLX_E_ATTRIBUTE,
                     "resize 'y': shape has 1 entry, expected 2");
}

TEST(resize_shapes_with_symbols)
{
    check_text_type("graph g(x: f32[N, 3, H, W]) { return resize(x, shape=[N, 3, 2*H, W + 1], mode=cubic) }",
                    "f32[N, 3, 2*H, W + 1]");
    check_text_type("graph g(x: u8[N, 3, H, W]) { return resize_nearest_2x(x) }", "u8[N, 3, 2*H, 2*W]");
}

/* Exactly between two elements nearest takes the lower one: positions are fractions, not rounded numbers. */
TEST(resize_nearest_rounds_halves_down)
{
    text_run r = text_begin("graph g() { x = iota(i32[15])"
                            "  return resize(x, shape=[5]), resize(x, shape=[29], coordinates=align_corners) }");
    CHECK_OK(r.code, &r.err);
    for (int64_t i = 0; i < 5; i++)
        CHECK_EQ_I64(flx_tensor_get(r.out[0], i), 3 * i + 1);
    for (int64_t i = 0; i < 29; i++)
        CHECK_EQ_I64(flx_tensor_get(r.out[1], i), i / 2);
    text_end(&r);
}

/* ---- Derivatives ---- */

TEST(resize_gradient_sums_the_weights_of_each_element)
{
    check_gradient(
        "graph g(x: f64[2]) { return mul(resize(x, shape=[4], mode=linear), const(f64[4], [1, 8, 64, 512])) }",
        (const gradient_row[]){{"x", {1, 2}, {1 + 6 + 16, 2 + 48 + 512}}}, 1);
    check_gradient("graph g(x: f64[3]) { return resize(x, shape=[2], coordinates=align_corners) }",
                   (const gradient_row[]){{"x", {1, 2, 3}, {1, 0, 1}}}, 1);
    check_gradient(
        "graph g(x: f64[1, 1, 1, 2]) { return mul(resize_nearest_2x(x), const(f64[4], [1, 10, 100, 1000])) }",
        (const gradient_row[]){{"x", {1, 2}, {22, 2200}}}, 1);
}

/* Position 1 of 0, ½, 1 is an integer: its other neighbour has no weight, even if it is infinite. */
TEST(resize_gradient_lets_no_infinity_leak)
{
    check_gradient("graph g(x: f64[2]) {"
                   "  y = resize(x, shape=[3], mode=linear, coordinates=align_corners)"
                   "  return mul(y, const(f64[3], [inf, 1, 1])) }",
                   (const gradient_row[]){{"x", {1, 2}, {1.0 / 0.0, 1.5}}}, 1);
}
