/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_round_trip.c: graphs written as ONNX models and read back compute the same. */
#include "test.h"

#include <fluxion/onnx.h>
#include <string.h>

static const char *const graphs[] = {
    "graph main(x: f32[2, 3], y: f32[3]) { a = add(mul(x, y), 0.5)\n return tanh(div(sub(a, x), exp(neg(y)))) }",
    "graph main(x: f32[2, 3], w: f32[3, 4]) { return softmax(relu(matmul(x, w)), axis=1) }",
    "graph main(x: f32[2, 3, 4]) { return reduce_sum(transpose(x, perm=[2, 0, 1]), axes=[1]), "
    "reduce_mean(x, keep_dims=true), argmax(x, axis=1) }",
    "graph main(x: f32[1, 2, 6, 6], w: f32[4, 2, 3, 3]) { c = conv(x, w, stride=[2, 1], padding=[[1, 1], [0, 2]])\n"
    " return pool(c, kind=max, kernel_size=[2, 2]), pool(c, kind=mean, kernel_size=[2, 2], stride=[1, 1]) }",
    "graph main(x: f32[3, 4], i: i64[2]) { return gather(x, i, axis=1), slice(x, start=[0, 1], limit=[3, 4], "
    "stride=[2, 1]), narrow(x, axis=0, start=1, len=2), reshape(x, shape=[2, 6]), concat(x, x, axis=0) }",
    "graph main(a: f32[2, 3, 4], b: f32[2, 4, 5]) { return dot_general(a, b, lc=[2], rc=[1], lb=[0], rb=[0]), "
    "einsum(a, b, eq=\"bij,bjk->ik\") }",
    "graph main(x: f32[2, 8], g: f32[8], b: f32[8]) { return layer_norm(x, g, b), gelu(x), silu(x), rsqrt(square(x)), "
    "where(gt(x, 0), x, cumsum(x, axis=1)) }",
    "graph main(x: f32[4], i: i64[4]) { return take_along(x, i), dim_size(x, axis=0), expm1(x), log1p(abs(x)), "
    "fma(x, x, 1), rem(x, 0.75), tile(x, repeats=[2]) }",
    "graph main(x: f32[4]) { return cast(x, to=i32), clamp(-1, x, 1), pad(x, 2, low=[1], high=[2]), leaky_relu(x, "
    "alpha=0.2), broadcast_in_dim(x, shape=[2, 4], axes=[1]), ne(x, x) }",
    "graph main(x: f32[3, 5]) { v, i = top_k(x, k=2, axis=1)\n s, y = sort(x, neg(x), axis=0)\n"
    " return v, i, argsort(x, axis=1, descending=true), s, y, argsort(x, axis=0, dtype=i64) }",
    "graph main(x: f32[3, 4]) { q = quantize(x, scales=[0.1, 0.2, 0.3], zero_points=[1, 0, -3], axis=0)\n"
    " return q, dequantize(q, scales=[0.1, 0.2, 0.3], zero_points=[1, 0, -3], axis=0), quantize(x, scales=[0.5]) }",
    "graph main(u: f32[4, 2], i: i64[4]) { return scatter_add(u, i, R=6) }",
    "graph main(x: f32[6, 2], i: i64[3, 1], u: f32[3, 2]) { return scatter_nd(x, i, u, start_index_map=[0], "
    "collapsed_axes=[0], offset_axes=[1], combine=max) }",
    "graph main(x: f32[3], y: f32[3]) { p = gt(reduce_sum(x), reduce_sum(y))\n"
    " a, b = if(p, x, y, then=@more, else=@less)\n return a, add(b, x) }\n"
    "graph more(x: f32[3], y: f32[3]) { return mul(x, y), y }\n"
    "graph less(x: f32[3], y: f32[3]) { return sub(x, 1), exp(y) }",
    "graph main(x: f32[3], n: f32[3]) { s = abs(reduce_sum(n))\n"
    " a, b = while(x, s, cond=@small, body=@step, max_iterations=40)\n return a, b }\n"
    "graph small(x: f32[3], s: f32[]) { return lt(s, 20) }\n"
    "graph step(x: f32[3], s: f32[]) { return add(x, s), add(mul(s, 1.5), 1) }",
    "graph main(c: f32[1, 2], w: f32[2, 2], xs: f32[4, 2]) {\n"
    " a, ys = scan(c, w, xs, body=@cell, num_carry=1, num_bcast=1)\n"
    " b, zs = scan(c, w, xs, body=@cell, num_carry=1, num_bcast=1, reverse=true)\n return a, ys, b, zs }\n"
    "graph cell(c: f32[1, 2], w: f32[2, 2], x: f32[2]) { h = tanh(add(matmul(c, w), x))\n return h, mul(h, 2) }",
    "graph main(x: f32[2, 4, 8], c: f32[4, 2], s: f32[4, 2]) { return rope(x, c, s, layout=bsd, num_heads=2), "
    "rope(reshape(x, shape=[2, 4, 2, 4]), c, s, layout=bshd), rope(x, c, s, layout=bsd, head_dim=8, n_rot=4) }",
    "graph main(x: f32[2, 3, 4, 6], c: f32[2, 4, 3], s: f32[2, 4, 3], t: f32[4, 3]) { return rope(x, c, s, "
    "layout=bhsd), rope(x, t, t, layout=bhsd, n_rot=4), rope(reshape(x, shape=[2, 4, 3, 6]), c, s, layout=bshd) }",
};

/* Positive and negative numbers, different for each input. */
static flx_tensor *some_value(flx_context *ctx, const flx_type *t, size_t k)
{
    flx_tensor *x = flx_tensor_new(ctx, t, NULL, NULL);
    for (int64_t i = 0; x && i < flx_tensor_count(x); i++) {
        if (t->dtype == FLX_F32)
            ((float *)flx_tensor_data(x))[i] = (float)((int)((i * 7 + (int64_t)k * 3) % 11) - 5) / 4;
        else
            ((int64_t *)flx_tensor_data(x))[i] = i;
    }
    return x;
}

static void check_equal(const flx_tensor *a, const flx_tensor *b)
{
    CHECK(flx_tensor_count(a) == flx_tensor_count(b));
    CHECK(flx_tensor_type(a)->dtype == flx_tensor_type(b)->dtype &&
          flx_tensor_type(a)->rank == flx_tensor_type(b)->rank);
    for (int64_t i = 0; i < flx_tensor_count(a); i++) {
        double x = flx_tensor_get(a, i), y = flx_tensor_get(b, i);
        CHECK_MSG(x == y || (x != x && y != y) || (x - y < 1e-6 && y - x < 1e-6), "%lld: %g and %g", (long long)i, x,
                  y);
    }
}

static void check_graph(flx_context *ctx, const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer bytes = {0};
    CHECK_MSG(flx_onnx_encode(g, NULL, 0, &bytes, &err) == FLX_OK, "%s", err.message);
    flx_onnx *m = flx_onnx_decode(ctx, bytes.data, bytes.size, NULL, NULL, &err);
    CHECK_MSG(m != NULL, "%s at %s", err.message, err.where);
    size_t n = flx_graph_input_count(g), count = flx_graph_output_count(g);
    flx_feed feeds[8];
    flx_tensor *values[8], *a[8] = {0}, *b[8] = {0};
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        values[i] = some_value(ctx, flx_val_type(g, v), i);
        feeds[i] = (flx_feed){flx_val_name(g, v), values[i]};
    }
    flx_run_options o = {.device = "ref"};
    CHECK(flx_run(g, &o, feeds, n, a, &err) == FLX_OK);
    CHECK_MSG(flx_run(flx_onnx_graph(m), &o, feeds, n, b, &err) == FLX_OK, "%s", err.message);
    for (size_t i = 0; i < count; i++) {
        check_equal(a[i], b[i]);
        CHECK_EQ_STR(flx_graph_output_name(g, i), flx_graph_output_name(flx_onnx_graph(m), i));
        flx_tensor_release(a[i]);
        flx_tensor_release(b[i]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(values[i]);
    flx_onnx_free(m);
    flx_buffer_free(&bytes);
}

TEST(onnx_export_reads_back_as_the_same_function)
{
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        test_fail_context("graph %zu", i);
        flx_module *m = flx_parse(ctx, graphs[i], strlen(graphs[i]), "t", &err);
        CHECK_MSG(m != NULL, "%s", err.message);
        check_graph(ctx, flx_module_main(m));
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

TEST(onnx_export_names_an_op_that_onnx_lacks)
{
    static const char text[] = "graph main(x: f32[2, 2]) { return eig(x) }";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_buffer bytes = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
    CHECK(flx_onnx_encode(flx_module_main(m), NULL, 0, &bytes, &err) == FLX_E_UNSUPPORTED);
    CHECK_EQ_STR(err.message, "unsupported: eig_pairs as an operation of ONNX: there is none");
    flx_module_free(m);
    flx_context_free(ctx);
}
