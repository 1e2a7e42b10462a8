/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: errors, symbols and bodies. Values: tests/oracle/window.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include <math.h>

TEST(pool_errors_name_what_is_wrong)
{
    check_text_fails("graph g() { y = pool(full(f32[1, 1, 4], 1), kind=max, kernel_size=[2], padding=[2])  return y }",
                     FLX_E_ATTRIBUTE,
                     "pool 'y': padding of spatial axis 0 must be at least 0 and less than the window, got 2");
    check_text_fails("graph g() { y = pool(full(i32[1, 1, 4], 1), kind=mean, kernel_size=[2])  return y }", FLX_E_DTYPE,
                     "pool 'y': the mean of i32 is not defined");
    check_text_fails("graph g() { y = pool(full(f32[1, 1, 0], 1), kind=sum, kernel_size=[2], padding=[1])  return y }",
                     FLX_E_SHAPE, "pool 'y': spatial axis 0 of x, of shape [1, 1, 0], is empty: nothing to pool");
    check_text_fails("graph g() { y = max_pool_backward(full(f32[1, 1, 4], 1), full(f32[1, 1, 3], 1), kernel_size=[2])"
                     "  return y }",
                     FLX_E_SHAPE, "max_pool_backward 'y': the pooled shape is [1, 1, 2], but dy is [1, 1, 3]");
}

TEST(reduce_window_errors_name_what_is_wrong)
{
    check_text_fails(
        "graph g() { y = reduce_window(full(f64[3], 1), full(f32[], 0), window=[2], combine=add)  return y }",
        FLX_E_DTYPE, "reduce_window 'y': operand 1, the init of operand 0, must be f64, but it is f32");
    check_text_fails("graph g() { y = reduce_window(full(f32[3], 1), 0, window=[2, 1], combine=add)  return y }",
                     FLX_E_ATTRIBUTE, "reduce_window 'y': window has 2 entries, expected 1");
    check_text_fails("graph g() { y = select_and_scatter(full(f32[4], 1), full(f32[4], 1), 0, window=[2])  return y }",
                     FLX_E_SHAPE, "select_and_scatter 'y': the windows are [3], but source is [4]");
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

/* ---- Derivatives ---- */

#define CHECK_ROW(text, ...) check_gradient((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)

/* Windows {·, x0}, {x1, x2}, {x3, ·} of two taps. */
TEST(trap_30_mean_pool_gradient_has_the_divisor_of_the_forward)
{
    CHECK_ROW("graph g(x: f64[1, 1, 4]) { return pool(x, kind=mean, kernel_size=[2], padding=[1]) }", {1, 2, 3, 4},
              {0.5, 0.5, 0.5, 0.5});
    CHECK_ROW("graph g(x: f64[1, 1, 4]) {"
              "  return pool(x, kind=mean, kernel_size=[2], padding=[1], count_include_pad=false) }",
              {1, 2, 3, 4}, {1, 0.5, 0.5, 1});
}

/* More taps than f16 can count. */
TEST(trap_30_mean_pool_counts_beyond_its_dtype)
{
    const char *text = "graph g(x: f16[1, 1, 1]) {"
                       "  y = pool(expand(x, shape=[1, 1, 131072]), kind=mean, kernel_size=[131072])  return y }";
    check_gradient(text, (const gradient_row[]){{"x", {2}, {1}}}, 1);
}

TEST(trap_31_min_and_prod_pools_are_not_sums)
{
    CHECK_ROW("graph g(x: f64[1, 1, 4]) { return pool(x, kind=min, kernel_size=[2]) }", {3, 1, 2, 5}, {0, 1, 1, 0});
    CHECK_ROW("graph g(x: f64[1, 1, 6]) { return pool(x, kind=prod, kernel_size=[3]) }", {3, 0, 2, 0, 5, 0},
              {0, 6, 0, 0, 0, 0});
    CHECK_ROW("graph g(x: f64[1, 1, 3]) { return pool(x, kind=prod, kernel_size=[2], stride=[1], padding=[1]) }",
              {2, 3, 5}, {1 + 3, 2 + 5, 3 + 1});
}

TEST(max_pool_tie_goes_to_the_first)
{
    CHECK_ROW("graph g(x: f64[1, 1, 4]) { return pool(x, kind=max, kernel_size=[2], stride=[1]) }", {7, 7, 7, 1},
              {1, 1, 1, 0});
    CHECK_ROW("graph g(x: f64[1, 1, 4]) { return pool(x, kind=min, kernel_size=[4]) }", {7, 2, 2, 3}, {0, 1, 0, 0});
    CHECK_ROW("graph g(x: f64[1, 1, 4]) { return pool(x, kind=max, kernel_size=[4]) }", {7, NAN, 9, NAN}, {0, 1, 0, 0});
    CHECK_ROW("graph g(x: f64[1, 1, 4]) { return pool(x, kind=min, kernel_size=[4]) }", {7, NAN, 1, NAN}, {0, 1, 0, 0});
}

/* An infinite cotangent is not multiplied by 0: elements that are not the maximum get exactly 0. */
TEST(max_pool_infinite_cotangent_leaves_others_zero)
{
    CHECK_ROW("graph g(x: f64[1, 1, 2]) { return mul(pool(x, kind=max, kernel_size=[2]), inf) }", {1, 2},
              {0, INFINITY});
}

/* The fold starts from init, which therefore wins a tie, and combines it again in the padding. */
TEST(reduce_window_gradient_goes_to_the_first_winner)
{
    const char *max = "graph g(x: f64[4], init: f64[]) { return reduce_window(x, init, window=[2], combine=max) }";
    check_gradient(max, (const gradient_row[]){{"x", {5, 5, 3, 3}, {1, 1, 1, 0}}, {"init", {0}, {0}}}, 2);
    check_gradient(max, (const gradient_row[]){{"x", {5, 3, 3, 3}, {1, 0, 0, 0}}, {"init", {3}, {2}}}, 2);
    check_gradient(max, (const gradient_row[]){{"x", {1, NAN, 3, NAN}, {0, 2, 0, 1}}, {"init", {9}, {0}}}, 2);
    check_gradient("graph g(x: f64[3], init: f64[]) {"
                   "  return reduce_window(x, init, window=[2], combine=min, pad_low=[1], base_dilation=[2]) }",
                   (const gradient_row[]){{"x", {5, 2, 7}, {0, 2, 0}}, {"init", {4}, {3}}}, 2);
}

TEST(reduce_window_product_gradient_with_zeros)
{
    check_gradient("graph g(x: f64[3], init: f64[]) {"
                   "  return reduce_window(x, init, window=[3], combine=mul) }",
                   (const gradient_row[]){{"x", {0, 3, 5}, {30, 0, 0}}, {"init", {2}, {0}}}, 2);
    check_gradient("graph g(x: f64[2], init: f64[]) {" /* init³ x0 x1: the two padded positions hold it too */
                   "  return reduce_window(x, init, window=[4], combine=mul, pad_low=[1], pad_high=[1]) }",
                   (const gradient_row[]){{"x", {3, 0}, {0, 24}}, {"init", {2}, {0}}}, 2);
}

/* Each padded position counts once, and the fold's start too. */
TEST(reduce_window_sum_gradient_counts_init)
{
    check_gradient("graph g(x: f64[3], init: f64[]) {"
                   "  return reduce_window(x, init, window=[2], combine=add, pad_low=[1], strides=[2]) }",
                   (const gradient_row[]){{"x", {1, 2, 3}, {1, 1, 1}}, {"init", {0}, {3}}}, 2);
}

TEST(reduce_window_body_gradient_follows_the_fold)
{
    check_gradient("graph f(a: f64[], x: f64[]) { return add(mul(a, x), x) }"
                   "graph g(x: f64[2], init: f64[]) { return reduce_window(x, init, window=[2], combine=@f) }",
                   (const gradient_row[]){{"x", {2, 3}, {(5 + 1) * 3, 5 * 2 + 2 + 1}}, {"init", {5}, {6}}}, 2);
}

/* A tie stays with the first for ge, goes to the last for gt; the window of padding only keeps nothing. */
TEST(select_and_scatter_gradient_comes_from_the_kept_positions)
{
    check_gradient(
        "graph g(x: f64[4], s: f64[3], init: f64[]) {"
        "  y = select_and_scatter(x, s, init, window=[2], strides=[2], pad_low=[2])"
        "  return mul(y, const(f64[4], [1, 10, 100, 1000])) }",
        (const gradient_row[]){{"x", {7, 7, 2, 3}, {0}}, {"s", {1, 2, 3}, {0, 1, 1000}}, {"init", {0}, {1111}}}, 3);
    check_gradient("graph g(x: f64[4], s: f64[2], init: f64[]) {"
                   "  y = select_and_scatter(x, s, init, window=[2], strides=[2], select=gt)"
                   "  return mul(y, const(f64[4], [1, 10, 100, 1000])) }",
                   (const gradient_row[]){{"x", {7, 7, 3, 2}, {0}}, {"s", {1, 2}, {10, 100}}, {"init", {0}, {1111}}},
                   3);
    check_gradient("graph g(x: f64[3], s: f64[2], init: f64[]) {"
                   "  return select_and_scatter(x, s, init, window=[2], combine=mul) }",
                   (const gradient_row[]){{"x", {1, 9, 2}, {0}}, {"s", {0, 5}, {10, 0}}, {"init", {2}, {1 + 0 + 1}}},
                   3);
}

TEST(window_gradients_with_symbolic_extents)
{
    const char *text = "graph g(x: f32[1, 1, N], y: f32[N]) {"
                       "  p = pool(x, kind=sum, kernel_size=[K])"
                       "  q = reduce_window(y, 0, window=[N], pad_low=[N - 1], combine=add)"
                       "  return add(reduce_sum(p), reduce_sum(q)) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), (const char *const[]){"x", "y"}, 2, NULL, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    char found[80];
    flx_type_print(ctx, flx_val_type(grad, flx_graph_output(grad, 0)), found, sizeof found);
    CHECK_EQ_STR(found, "f32[1, 1, N]");
    flx_graph_release(grad);
    flx_module_free(m);
    text = "graph g(x: f32[N]) { return reduce_sum(reduce_window(x, 0, window=[2], strides=[K], combine=add)) }";
    m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    CHECK(flx_grad(flx_module_main(m), (const char *const[]){"x"}, 1, NULL, &err) == NULL);
    CHECK_EQ_I64(err.code, FLX_E_UNBOUND_DIM);
    CHECK_EQ_STR(err.hint, "give the stride as a number");
    flx_module_free(m);
    flx_context_free(ctx);
}

/* 256 + 1 is 256 in bf16. The word sums in wider numbers; a graph is applied literally, one op or not. */
TEST(windows_with_a_graph_round_at_each_step)
{
    text_run r = text_begin(
        "graph add1(a: bf16[], b: bf16[]) { return add(b, a) }\n"
        "graph add2(a: bf16[], b: bf16[]) { return neg(sub(neg(a), b)) }\n"
        "graph g() {\n"
        "  x = const(bf16[3], [256, 1, 1])\n"
        "  zero = full(bf16[], 0)\n"
        "  w = reduce_window(x, zero, window=[3], combine=add)\n"
        "  f = reduce_window(x, zero, window=[3], combine=@add1)\n"
        "  h = reduce_window(x, zero, window=[3], combine=@add2)\n"
        "  s = const(bf16[5], [256, 1, 1, 5, 5])\n"
        "  u = select_and_scatter(full(bf16[3], 0), s, zero, window=[3], pad_low=[2], pad_high=[2], combine=@add1)\n"
        "  return w, f, h, u\n"
        "}\n");
    static const double expected[] = {258, 256, 256, 256};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[i], 0), expected[i], 0);
    text_end(&r);
}
