/* Windows: errors, symbols and bodies. Values: tests/oracle/window.py. */
#include "symbolic_text.h"

TEST(pool_errors_name_what_is_wrong)
{
    check_text_fails("graph g() { y = pool(full(f32[1, 1, 4], 1), kind=max, kernel_size=[2], padding=[2])  return y }",
                     FLX_E_ATTRIBUTE,
                     "pool 'y': padding of spatial axis 0 must be at least 0 and less than the window, it is 2");
    check_text_fails("graph g() { y = pool(full(i32[1, 1, 4], 1), kind=mean, kernel_size=[2])  return y }", FLX_E_DTYPE,
                     "pool 'y': the mean of i32 is not defined");
    check_text_fails("graph g() { y = pool(full(f32[1, 1, 0], 1), kind=sum, kernel_size=[2], padding=[1])  return y }",
                     FLX_E_SHAPE, "pool 'y': spatial axis 0 of x, of shape [1, 1, 0], is empty: nothing to pool");
    check_text_fails("graph g() { y = max_pool_backward(full(f32[1, 1, 4], 1), full(f32[1, 1, 3], 1), kernel_size=[2])"
                     "  return y }",
                     FLX_E_SHAPE, "max_pool_backward 'y': the pooled shape is [1, 1, 2], dy is [1, 1, 3]");
}

TEST(reduce_window_errors_name_what_is_wrong)
{
    check_text_fails(
        "graph g() { y = reduce_window(full(f64[3], 1), full(f32[], 0), window=[2], combine=add)  return y }",
        FLX_E_DTYPE, "reduce_window 'y': operand 1, the init of operand 0, must be f64, it is f32");
    check_text_fails("graph g() { y = reduce_window(full(f32[3], 1), 0, window=[2, 1], combine=add)  return y }",
                     FLX_E_ATTRIBUTE, "reduce_window 'y': window has 2 entries where 1 are needed");
    check_text_fails("graph g() { y = select_and_scatter(full(f32[4], 1), full(f32[4], 1), 0, window=[2])  return y }",
                     FLX_E_SHAPE, "select_and_scatter 'y': windows are [3], source is [4]");
}

/* A cumulative sum: the window is as long as the axis, which is a symbol. */
TEST(reduce_window_takes_symbolic_windows)
{
    check_text_type("graph g(x: f32[N]) { return reduce_window(x, 0, window=[N], pad_low=[N - 1], combine=add) }",
                    "f32[N]");
    check_text_type("graph g(x: f32[2, 3, H, W]) { return pool(x, kind=mean, kernel_size=[H, W]) }", "f32[2, 3, 1, 1]");
}

TEST(reduce_window_wider_than_input_is_empty_when_bound)
{
    const char *text = "graph g(x: f32[N]) { return reduce_window(x, 0, window=[4], strides=[3], combine=add) }";
    static const int64_t windows[] = {0, 0, 0, 0, 1, 1, 1, 2};
    for (flx_dim n = 0; n < 8; n++) {
        flx_error err = {0};
        flx_type y = {0};
        CHECK_OK(run_text_at(text, flx_type_make(FLX_F32, 1, &n), &y, &err), &err);
        CHECK_EQ_I64(y.dims[0], windows[n]);
    }
}

/* Pads that differ by nearly the whole range of integers: positions must not overflow. */
TEST(reduce_window_far_crop_reads_nothing)
{
    text_run r = text_begin("graph g() { return reduce_window(full(i32[5], 1), full(i32[], 7), window=[1], combine=max,"
                            "  pad_low=[-4611686018427387000], pad_high=[4611686018427387003]) }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), 8);
    for (int64_t i = 0; i < 8; i++)
        CHECK_EQ_I64(flx_tensor_get(r.out[0], i), 7);
    text_end(&r);
}

TEST(reduce_window_body_failure_fails_the_run)
{
    text_run r = text_begin("graph f(a: f32[], x: f32[]) { return add(a, gather(full(f32[2], 1), cast(x, to=i32))) }"
                            "graph g() { return reduce_window(full(f32[3], 5), 0, window=[2], combine=@f) }");
    CHECK_CODE(r.code, FLX_E_INDEX, &r.err);
    text_end(&r);
}
