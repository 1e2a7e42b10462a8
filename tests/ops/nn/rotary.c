/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embeddings where a naive rule fails. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char weighed_rope[] = "graph g(x: f64[1, 1, 1, 3], c: f64[1, 1], s: f64[1, 1]) {\n"
                                   "w = const(f64[3], [1, 10, 100])\n"
                                   "return reduce_sum(mul(rope(x, c, s, layout=bhsd, n_rot=2), w)) }";

/* y = (x0 c - x1 s, x1 c + x0 s, x2) with x = (1, 2, 5), c = 3, s = 4, weighted by (1, 10, 100): along x the tangent is
   (c - s) + 10 (c + s) + 100, which with -sin would be (c + s) + 10 (c - s) + 100. */
TEST(trap_53_rope_tangent_turns_as_the_value_does)
{
    static const gradient_row rows[] = {{"x", {1, 2, 5}, {43, 26, 100}}, {"c", {3}, {21}}, {"s", {4}, {8}}};
    check_gradient(weighed_rope, rows, COUNT(rows));
}

/* One row of the tables serves both items and both heads, and has an unused entry. The third element of a head is
   passed through, whatever the tables contain. */
TEST(trap_54_rope_tables_have_cotangents)
{
    static const gradient_row rows[] = {
        {"x", {1, 2, 5, 3, 4, 6}, {7, -1, 1, 7, -1, 1}}, {"c", {3, 9}, {10, 0}}, {"s", {4, 9}, {-2, 0}}};
    check_gradient("graph g(x: f64[2, 1, 3], c: f64[1, 2], s: f64[1, 2]) {\n"
                   "return rope(x, c, s, layout=bsd, num_heads=1, n_rot=2) }",
                   rows, COUNT(rows));
    static const gradient_row second[] = {{"x", {1, 2, 5}, {11, 9, 0}}, {"c", {3}, {11}}, {"s", {4}, {9}}};
    check_hessian_of_ones(weighed_rope, second, COUNT(second));
}

/* Heads of four elements, theta irrelevant for the first pair: the first half is rotated by px, the second by py =
   0. */
static void check_grid(const char *attrs, const double *px, int tokens)
{
    char text[300];
    snprintf(text, sizeof text,
             "graph g() { x = rem(add(iota(f64[1, 4, 4], axis=2), 1), 2)\n"
             "return axial_rope2d(x, end_x=2, end_y=1, num_heads=1%s) }",
             attrs);
    text_run r = text_begin(text);
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int t = 0; t < tokens; t++) {
        const double want[4] = {cos(px[t]), sin(px[t]), 1, 0};
        for (int d = 0; d < 4; d++) {
            test_fail_context("%s: token %d, element %d", attrs, t, d);
            CHECK_NEAR(flx_tensor_get(r.out[0], t * 4 + d), want[d], 1e-15);
        }
    }
    text_end(&r);
}

TEST(trap_60_axial_grids_are_tiled_unless_interleaved)
{
    static const double tiled[] = {0, 1, 0, 1}, interleaved[] = {0, 0, 1, 1};
    check_grid(", repeat_factor=2", tiled, 4);
    check_grid(", repeat_factor=2, repeat_mode=interleave", interleaved, 4);
}

/* The inverse rotation undoes the rotation. */
TEST(rope_backward_of_unit_tables_is_the_inverse)
{
    text_run r = text_begin("graph g() { x = const(f64[1, 1, 1, 4], [[[[1, 2, 3, 4]]]])\n"
                            "c = const(f64[1, 2], [[0.6, 0.8]]) s = const(f64[1, 2], [[0.8, -0.6]])\n"
                            "return rope_backward(rope(x, c, s, layout=bhsd), c, s, layout=bhsd) }");
    CHECK_CODE(r.code, FLX_OK, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), i + 1, 1e-15);
    text_end(&r);
}

TEST(rope_errors_say_what_the_tables_must_be)
{
    check_text_fails("graph g(x: f32[2, 4, 3, 8], c: f32[4, 4]) { y = rope(x, c, c, layout=bhsd) return y }",
                     FLX_E_SHAPE,
                     "rope 'y': cos and sin must be [S, T] or [N, S, T] for 3 tokens, but they are [4, 4]");
    check_text_fails("graph g(x: f32[2, 4, 3, 8], c: f32[3, 2]) { y = rope(x, c, c, layout=bhsd) return y }",
                     FLX_E_SHAPE, "rope 'y': cos and sin, of shape [3, 2], have fewer than the 4 angles of n_rot=8");
    check_text_fails("graph g(x: f32[1, 5, 8]) { y = axial_rope2d(x, end_x=2, end_y=2, num_heads=1) return y }",
                     FLX_E_SHAPE, "axial_rope2d 'y': x, of shape [1, 5, 8], does not have 2 * 2 * 1 tokens");
}
