/* SPDX-License-Identifier: Apache-2.0 */
/* Movement: ranges out of bounds, symbolic extents and error texts. Values: tests/oracle/movement.py. */
#include "graph/count_nodes.h"
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <math.h>

TEST(narrow_error_shows_the_range)
{
    check_text_fails("graph g(x: f32[4, 3]) { return narrow(x, axis=-2, start=2, len=3) }", FLX_E_ATTRIBUTE,
                     "narrow: start=2, len=3 is out of range for axis 0 of x, of shape [4, 3]");
}

/* Numbers beyond those of text, whose differences exceed the range of dimensions: they must not count as "unknown". */
TEST(narrow_rejects_huge_offsets)
{
    static const int64_t ranges[][2] = {{INT64_MAX - 1, 0}, {INT64_MAX / 2 + 100, 1}, {1, INT64_MAX - 1}, {-1, 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        test_fail_context("start=%lld, len=%lld", (long long)ranges[i][0], (long long)ranges[i][1]);
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = flx_graph_new(ctx, "g");
        flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
        flx_val x = flx_input(g, "x", &type);
        flx_attr attrs[] = {
            {.key = "axis", .kind = FLX_ATTR_INT, .as.i = 0},
            {.key = "start", .kind = FLX_ATTR_INT, .as.i = ranges[i][0]},
            {.key = "len", .kind = FLX_ATTR_INT, .as.i = ranges[i][1]},
        };
        flx_op(g, "narrow", &x, 1, attrs, 3, NULL, 0);
        flx_error err;
        int32_t code = (int32_t)flx_graph_error(g, &err);
        CHECK_CODE(code, FLX_E_ATTRIBUTE, &err);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}

TEST(narrow_of_symbolic_range_is_checked_when_bound)
{
    const char *text = "graph g(x: f32[N]) { return narrow(x, axis=0, start=2, len=2) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){4}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){3}), &y, &err), FLX_E_ATTRIBUTE, &err);
}

TEST(slice_of_symbolic_axis_rounds_up)
{
    const char *text = "graph g(x: f32[N]) { return slice(x, start=[1], limit=[N], stride=[3]) }";
    flx_error err;
    flx_type y;
    for (int64_t n = 1; n < 9; n++) {
        CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, &n), &y, &err), &err);
        CHECK_EQ_I64(y.dims[0], (n - 1 + 2) / 3);
    }
}

/* No element, no gaps: an extent of 0 is not (0 - 1)(interior + 1) + 1. */
TEST(pad_of_symbol_bound_to_zero_has_no_interior)
{
    const char *text = "graph g(x: f32[N]) { return pad(x, 1, low=[1], high=[1], interior=[2]) }";
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){0}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 2);
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, (flx_dim[]){2}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 6);
}

TEST(concat_error_names_the_operand)
{
    check_text_fails("graph g(x: f32[2, 3], y: f32[2, 4]) { return concat(x, x, y, axis=0) }", FLX_E_SHAPE,
                     "concat: operand 2, of shape [2, 4], does not match the shape [4, 3] before it");
}

TEST(concat_prefers_numbers_to_symbols)
{
    check_text_type("graph g(x: f32[N, 2], y: f32[3, M]) { return concat(x, y, axis=1) }", "f32[3, M + 2]");
}

TEST(split_sizes_must_cover_the_axis)
{
    check_text_fails("graph g(x: f32[5]) { a, b = split(x, sizes=[2, 2]) return a, b }", FLX_E_SHAPE,
                     "split 'a': sizes add up to 4, which x, of shape [5], does not have as extent of axis 0");
}

TEST(unstack_of_symbolic_axis_is_unbound)
{
    check_text_fails("graph g(x: f32[N, 2]) { a, b = unstack(x) return a, b }", FLX_E_UNBOUND_DIM,
                     "unstack 'a': axis 0 of x, of shape [N, 2], does not have a static extent");
}

TEST(diag_of_symbolic_matrix_is_clipped_when_bound)
{
    const char *text = "graph g(x: f32[N, N]) { return diag(x, k=3) }";
    check_text_type(text, "f32[N - 3]");
    flx_error err;
    flx_type y;
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){2, 2}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 0);
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 2, (flx_dim[]){5, 5}), &y, &err), &err);
    CHECK_EQ_I64(y.dims[0], 2);
}

/* 2^40 empty rows: must not be visited row by row. */
TEST(movement_does_not_walk_empty_tensors)
{
    text_run r = text_begin("graph g() { x = full(f32[1099511627776, 0], 1)"
                            "  a, b = split(x, sizes=[1, 1099511627775])"
                            "  return concat(x, x, axis=0), b, stack(x, x, axis=2), triu(x) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_count(r.out[i]), 0);
    text_end(&r);
}

/* ---- Derivatives ---- */

/* The gradient of the text's only output with respect to x, with the seed as input. */
static flx_graph *gradient_graph_of(flx_context *ctx, const char *text, flx_module **m)
{
    flx_error err = {0};
    flx_grad_options options = {.flags = FLX_GRAD_SEED_INPUT};
    *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(*m ? FLX_OK : err.code, &err);
    flx_graph *d = flx_grad(flx_module_main(*m), (const char *[]){"x"}, 1, &options, &err);
    CHECK_OK(d ? FLX_OK : err.code, &err);
    return d;
}

static void check_op_in_gradient(const char *text, const char *op, size_t count)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m;
    flx_graph *d = gradient_graph_of(ctx, text, &m);
    test_fail_context("%s", text);
    CHECK_EQ_I64(count_nodes(d, op), count);
    flx_graph_release(d);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(trap_42_empty_blocks_are_left_out)
{
    check_op_in_gradient("graph g(x: f64[4]) { return narrow(x, axis=0, start=1, len=2) }", "pad", 1);
    check_op_in_gradient("graph g(x: f64[4]) { return narrow(x, axis=0, start=0, len=4) }", "pad", 0);
    check_op_in_gradient("graph g(x: f64[4]) { return slice(x, start=[0], limit=[4]) }", "pad", 0);
    check_op_in_gradient("graph g(x: f64[4]) { return pad(x, 0) }", "pad", 0);
    check_op_in_gradient("graph g(x: f64[4]) { a, b = split(x, sizes=[0, 4]) return b }", "concat", 0);
    static const gradient_row none[] = {{"x", {1, 2}, {0, 0}}};
    check_gradient("graph g(x: f64[2]) { return narrow(x, axis=0, start=2, len=0) }", none, 1);
    check_gradient("graph g(x: f64[2]) { return slice(x, start=[1], limit=[1], stride=[3]) }", none, 1);
}

TEST(split_gradient_of_unused_parts_is_zero)
{
    static const gradient_row rows[] = {{"x", {1, 2, 3, 4}, {0, 1, 1, 0}}};
    check_gradient("graph g(x: f64[4]) { a, b, c = split(x, sizes=[1, 2, 1]) return b }", rows, 1);
    static const gradient_row row[] = {{"x", {1, 2, 3}, {0, 0, 1}}};
    check_gradient("graph g(x: f64[3]) { a, b, c = unstack(x) return c }", row, 1);
}

/* An infinite cotangent at an element of x does not reach the value, and vice versa. */
TEST(pad_gradient_is_selected_not_multiplied)
{
    static const gradient_row rows[] = {{"x", {1, 2}, {INFINITY, 3}}, {"v", {0}, {7}}};
    check_reverse("graph g(x: f64[2], v: f64[]) {"
                  "  return mul(pad(x, v, low=[1], interior=[1]), const(f64[4], [2, inf, 5, 3])) }",
                  rows, 2);
    static const gradient_row other[] = {{"x", {1, 2}, {4, 3}}, {"v", {0}, {INFINITY}}};
    check_reverse("graph g(x: f64[2], v: f64[]) {"
                  "  return mul(pad(x, v, low=[1], interior=[1]), const(f64[4], [2, 4, inf, 3])) }",
                  other, 2);
}

TEST(pad_gradient_of_cropped_elements_is_zero)
{
    static const gradient_row rows[] = {{"x", {1, 2, 3, 4}, {0, 1, 1, 0}}, {"v", {0}, {1}}};
    check_gradient("graph g(x: f64[4], v: f64[]) { return pad(x, v, low=[-2], high=[-2], interior=[1]) }", rows, 2);
}

/* ⌈N/2⌉ elements go back between zeros, for N = 0 as well, where there is not even a first one. */
TEST(slice_gradient_of_symbol_bound_to_zero)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m;
    flx_graph *d =
        gradient_graph_of(ctx, "graph g(x: f64[N]) { return slice(x, start=[0], limit=[N], stride=[2]) }", &m);
    for (int64_t n = 0; n < 6; n++) {
        flx_error err = {0};
        int64_t half = (n + 1) / 2;
        flx_type tx = flx_type_make(FLX_F64, 1, &n);
        flx_type ty = flx_type_make(FLX_F64, 1, &half);
        flx_tensor *x = flx_tensor_new(ctx, &tx, NULL, NULL);
        flx_tensor *dy = flx_tensor_new(ctx, &ty, (const double[]){1, 2, 3}, NULL);
        flx_tensor *dx = NULL;
        flx_feed feeds[2] = {{"x", x}, {"d_output", dy}};
        test_fail_context("N = %lld", (long long)n);
        CHECK_OK((int32_t)flx_run(d, ON_REF, feeds, 2, &dx, &err), &err);
        CHECK_EQ_I64(flx_tensor_count(dx), n);
        for (int64_t i = 0; i < n; i++)
            CHECK_NEAR(flx_tensor_get(dx, i), i % 2 ? 0 : (double)(i / 2 + 1), 0);
        flx_tensor_release(x);
        flx_tensor_release(dy);
        flx_tensor_release(dx);
    }
    flx_graph_release(d);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(diag_gradient_moves_the_diagonal_back)
{
    static const gradient_row out[] = {{"x", {1, 2, 3, 4, 5, 6}, {0, 1, 0, 0, 0, 1}}};
    check_gradient("graph g(x: f64[2, 3]) { return diag(x, k=1) }", out, 1);
    static const gradient_row in[] = {{"x", {1, 2}, {1, 1}}};
    check_gradient("graph g(x: f64[2]) { return diag(x, k=-1) }", in, 1);
    static const gradient_row beside[] = {{"x", {1, 2, 3, 4}, {0, 0, 0, 0}}};
    check_gradient("graph g(x: f64[2, 2]) { return diag(x, k=4611686018427387904) }", beside, 1);
}
