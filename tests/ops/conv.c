/* Convolutions: extents that do not fit, symbols, and agreement of the four ops. Values: tests/oracle/conv.py. */
#include "symbolic_text.h"

TEST(conv_window_larger_than_input_is_an_error)
{
    check_text_fails("graph g() { y = conv(full(f32[1, 1, 2], 1), full(f32[1, 1, 3], 1))  return y }", FLX_E_SHAPE,
                     "conv 'y': the window does not fit: along spatial axis 0 it spans 3, the padded input 2");
    check_text_fails(
        "graph g() { y = conv(full(f32[1, 1, 4], 1), full(f32[1, 1, 2], 1), dilation=[5], padding=[[1, 0]])"
        "  return y }",
        FLX_E_SHAPE, "conv 'y': the window does not fit: along spatial axis 0 it spans 6, the padded input 5");
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
