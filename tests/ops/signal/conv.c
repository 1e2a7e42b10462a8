/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: extents that do not fit, symbols, and agreement of the four ops. Values: tests/oracle/conv.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

TEST(trap_28_conv_window_larger_than_input_is_an_error)
{
    check_text_fails(
        "graph g() { y = conv(full(f32[1, 1, 2], 1), full(f32[1, 1, 3], 1))  return y }", FLX_E_SHAPE,
        "conv 'y': the window does not fit: along spatial axis 0 it spans 3, but the padded input has extent 2");
    check_text_fails(
        "graph g() { y = conv(full(f32[1, 1, 4], 1), full(f32[1, 1, 2], 1), dilation=[5], padding=[[1, 0]])"
        "  return y }",
        FLX_E_SHAPE,
        "conv 'y': the window does not fit: along spatial axis 0 it spans 6, but the padded input has extent 5");
    check_text_fails("graph g() { y = conv(full(f32[1, 3, 4], 1), full(f32[2, 2, 1], 1))  return y }", FLX_E_SHAPE,
                     "conv 'y': input features differ: the input has 3, the kernel takes 2 in each of groups=1");
    check_text_fails("graph g() { y = conv_transpose(full(f32[1, 1, 1], 1), full(f32[1, 1, 1], 1), padding=[1])"
                     "  return y }",
                     FLX_E_SHAPE, "conv_transpose 'y': the result would have extent -1 along axis 2");
}

TEST(conv_absurd_attributes_are_errors)
{
    static const char *const texts[] = {
        "graph g() { return conv(full(f32[1, 1, 2], 1), full(f32[1, 1, 2], 1), padding=[4611686018427387904]) }",
        "graph g() { return conv(full(f32[1, 1, 9], 1), full(f32[1, 1, 2], 1), dilation=[9223372036854775806]) }",
        "graph g() { return conv(full(f32[1, 1, 9], 1), full(f32[1, 1, 2], 1), input_dilation=[9223372036854775806]) }",
        "graph g() { x = full(f32[1, 1, 9], 1)  return conv_transpose(x, x, stride=[4611686018427387904]) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_fail_context("%s", texts[i]);
        text_run r = text_begin(texts[i]);
        CHECK(r.code == FLX_E_SIZE || r.code == FLX_E_SHAPE);
        text_end(&r);
    }
}

TEST(conv_shapes_with_symbols)
{
    check_text_type("graph g(x: f32[N, 3, L], w: f32[8, 3, 3]) { return conv(x, w, padding=[1]) }", "f32[N, 8, L]");
    check_text_type(
        "graph g(z: f32[N, 8, L], w: f32[8, 3, 3]) { return conv_backward_input(z, w, input_size=[L + 2]) }",
        "f32[N, 3, L + 2]");
    check_text_type(
        "graph g(x: f32[N, 3, L], w: f32[3, 2, 4]) { return conv_transpose(x, w, stride=[2], padding=[1]) }",
        "f32[N, 2, 2*L]");
    const char *text = "graph g(x: f32[1, 1, L]) { return conv(x, full(f32[1, 1, 3], 1), stride=[2], padding=[1]) }";
    for (flx_dim n = 1; n < 8; n++) {
        flx_error err = {0};
        flx_type y = {0};
        CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 3, (flx_dim[]){1, 1, n}), &y, &err), &err);
        CHECK_EQ_I64(y.dims[2], (n + 2 - 3) / 2 + 1);
    }
}

TEST(conv_symbolic_extent_too_small_fails_when_bound)
{
    const char *text = "graph g(x: f32[1, 1, L]) { return conv(x, full(f32[1, 1, 3], 1)) }";
    flx_error err = {0};
    flx_type y = {0};
    CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 3, (flx_dim[]){1, 1, 3}), &y, &err), &err);
    CHECK_CODE(run_text_at(text, flx_type_make(FLX_F32, 3, (flx_dim[]){1, 1, 2}), &y, &err), FLX_E_SHAPE, &err);
}

/* <z, conv(x, w)> = <x, conv_backward_input(z, w)> = <w, conv_backward_weight(x, z)>: small integers, so exactly. */
TEST(conv_ops_are_transposes_of_one_form)
{
    text_run r = text_begin(
        "graph g() {"
        "  x = sub(reshape(rem(mul(iota(i64[56]), 37), 11), shape=[2, 4, 7]), 5)"
        "  w = sub(reshape(rem(mul(iota(i64[36]), 23), 7), shape=[6, 2, 3]), 3)"
        "  z = sub(reshape(rem(mul(iota(i64[48]), 29), 13), shape=[2, 6, 4]), 6)"
        "  a = reduce_sum(mul(z, conv(x, w, stride=[2], padding=[[2, 1]], groups=2)))"
        "  b = reduce_sum(mul(x, conv_backward_input(z, w, input_size=[7], stride=[2], padding=[[2, 1]], groups=2)))"
        "  c = reduce_sum(mul(w, conv_backward_weight(x, z, kernel_size=[3], stride=[2], padding=[[2, 1]], groups=2)))"
        "  d = reduce_sum(mul(x, conv_transpose(z, w, stride=[2], padding=[[2, 1]], groups=2, output_padding=[1])))"
        "  return a, b, c, d }");
    CHECK_OK(r.code, &r.err);
    CHECK(flx_tensor_get(r.out[0], 0) != 0);
    for (int i = 1; i < 4; i++)
        CHECK_EQ_I64(flx_tensor_get(r.out[i], 0), flx_tensor_get(r.out[0], 0));
    text_end(&r);
}

/* ---- Derivatives ---- */

/* The blocks of the Hessian between x and w, which conv_backward_input must carry in its second operand. */
TEST(trap_26_conv_hessian_couples_input_and_kernel)
{
    check_hessian_of_ones("graph g(x: f64[1, 1, 3], w: f64[1, 1, 2]) { return reduce_sum(conv(x, w)) }",
                          (const gradient_row[]){{"x", {1, 2, 3}, {1, 2, 1}}, {"w", {4, 5}, {2, 2}}}, 2);
    check_hessian_of_ones("graph g(z: f64[1, 1, 2], w: f64[1, 1, 2]) {"
                          "  return reduce_sum(conv_backward_input(z, w, input_size=[3])) }",
                          (const gradient_row[]){{"z", {1, 2}, {2, 2}}, {"w", {4, 5}, {2, 2}}}, 2);
}

/* w is [Cin, Cout, K]: here Cin = 2, Cout = 1. */
TEST(trap_27_conv_transpose_swaps_the_roles_of_its_features)
{
    check_gradient("graph g(x: f64[1, 2, 2], w: f64[2, 1, 2]) { return conv_transpose(x, w, stride=[3]) }",
                   (const gradient_row[]){{"x", {1, 2, 3, 4}, {3, 3, 7, 7}}, {"w", {1, 2, 3, 4}, {3, 3, 7, 7}}}, 2);
}

/* The cotangent of the other operand's conjugate. */
TEST(conv_gradient_conjugates_the_other_operand)
{
    check_gradient("graph g(x: c128[1, 1, 1], w: c128[1, 1, 1]) { return real(conv(x, w)) }",
                   (const gradient_row[]){{"x", {1, 2}, {3, -4}}, {"w", {3, 4}, {1, -2}}}, 2);
}

/* x is cropped at both ends and the last window leaves a remainder: those elements get no cotangent. */
TEST(conv_gradient_of_cropped_and_skipped_elements_is_zero)
{
    check_gradient("graph g(x: f64[1, 1, 7], w: f64[1, 1, 2]) { return conv(x, w, stride=[3], padding=[[-1, 0]]) }",
                   (const gradient_row[]){{"x", {1, 2, 3, 4, 5, 6, 7}, {0, 2, 3, 0, 2, 3, 0}}, {"w", {2, 3}, {7, 9}}},
                   2);
    check_gradient("graph g(x: f64[7, 1, 1], w: f64[1, 1, 2]) {"
                   "  return conv(x, w, stride=[3], padding=[[-1, 0]], input_axes=[1, 2, 0], reverse=[true]) }",
                   (const gradient_row[]){{"x", {1, 2, 3, 4, 5, 6, 7}, {0, 3, 2, 0, 3, 2, 0}}, {"w", {2, 3}, {9, 7}}},
                   2);
}

static flx_graph *batched(const flx_graph *g, const char *const *names, size_t n, flx_dim size)
{
    flx_error err = {0};
    flx_vmap_axis axes[2];
    for (size_t i = 0; i < n; i++)
        axes[i] = (flx_vmap_axis){names[i], 0};
    flx_graph *v = flx_vmap(g, axes, n, NULL, 0, size, &err);
    CHECK_OK(v ? FLX_OK : err.code, &err);
    return v;
}

/* Two examples of one tap: their gradients with respect to the kernel stay separate. */
TEST(trap_29_conv_gradients_by_kernel_are_per_example)
{
    const char *text = "graph g(x: f64[2, 1, 1], z: f64[2, 1, 1]) {"
                       "  return conv_backward_weight(x, z, kernel_size=[1]) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *v = batched(flx_module_main(m), (const char *const[]){"x", "z"}, 2, 2);
    flx_type wide = flx_type_make(FLX_F64, 4, (const flx_dim[]){2, 2, 1, 1});
    flx_tensor *x = gradient_tensor(ctx, &wide, (const double[]){1, 2, 3, 4});
    flx_tensor *z = gradient_tensor(ctx, &wide, (const double[]){1, 1, 10, 100});
    flx_tensor *w[1] = {NULL};
    CHECK_OK((int32_t)flx_run(v, ON_REF, (flx_feed[]){{"x", x}, {"z", z}}, 2, w, &err), &err);
    CHECK_EQ_I64(flx_tensor_count(w[0]), 2);
    CHECK_NEAR(flx_tensor_get(w[0], 0), 1 + 2, 0);
    CHECK_NEAR(flx_tensor_get(w[0], 1), 30 + 400, 0);
    flx_tensor_release(w[0]);
    flx_tensor_release(x);
    flx_tensor_release(z);
    flx_graph_release(v);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(conv_of_an_empty_batch_is_empty)
{
    const char *text = "graph g(x: f64[2, 4, 5], w: f64[6, 2, 3]) { return conv(x, w, groups=2) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *v = batched(flx_module_main(m), (const char *const[]){"x", "w"}, 2, 0);
    char found[80];
    flx_type_print(ctx, flx_val_type(v, flx_graph_output(v, 0)), found, sizeof found);
    CHECK_EQ_STR(found, "f64[0, 2, 6, 3]");
    flx_graph_release(v);
    flx_module_free(m);
    flx_context_free(ctx);
}
