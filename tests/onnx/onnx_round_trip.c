/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_round_trip.c: graphs written as ONNX models and read back compute the same. */
#include "effort.h"
#include "graph/type/type.h"
#include "ops/sample.h"
#include "test.h"

#include <fluxion/onnx.h>
#include <math.h>
#include <string.h>

enum { MAX_OUTPUTS = 16 };

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
    "graph main(x: f32[3, 4]) { a, b = split(x, axis=1, sizes=[1, 3])\n return reverse(x, axes=[0, 1]), roll(x, "
    "shift=3, "
    "axis=1), tril(x), a, b, stack(x, x, axis=1), reverse(x, axes=[]) }",
    "graph main(x: f32[3, 2]) { return broadcast_in_dim(x, shape=[2, 4, 3], axes=[2, 0]), trunc(x), log2(abs(x)), "
    "is_finite(x), exp2(x), topk(x, k=1), eye(n=3, dtype=f64) }",
    "graph main(x: f32[4, 3], i: i64[6]) { j = sub(i, 1)\n return gather(x, j, oob=clamp), gather(x, j, oob=zero), "
    "take_along(x, reshape(j, shape=[2, 3]), axis=0, oob=zero), dynamic_slice(x, sub(dim_size(x, axis=0), 2), "
    "dim_size(x, axis=1), sizes=[3, 2]) }",
    "graph main(x: f32[1, 2, 3, 3], w: f32[2, 3, 2, 2]) { return conv_transpose(x, w, stride=[2, 2], "
    "output_padding=[1, 0]) }",
    "graph main(x: f32[4], n: i64[4]) { b = cast(x, to=bool)\n s = cast(mul(n, 100), to=i8)\n h = cast(x, to=bf16)\n"
    " return add(s, s), neg(cast(n, to=u32)), reduce_sum(s), max(b, not(b)), cast(sin(h), to=f32), bit_and(n, 5), "
    "add_n(n, n, n), reduce_any(b) }",
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

/* Attributes of floats are f32 in the file, and some ops become several, each of which rounds. */
static void check_close(const flx_tensor *a, const flx_tensor *b)
{
    int32_t dtype = flx_tensor_type(a)->dtype;
    double unit = dtype == FLX_BF16 ? 0x1p-7 : dtype == FLX_F16 ? 0x1p-10 : 0x1p-20, largest = 0;
    bool is_exact = dtype >= FLX_I64;
    CHECK(flxi_type_equal(flx_tensor_type(a), flx_tensor_type(b)));
    for (int64_t i = 0; i < flx_tensor_count(a); i++)
        largest = fmax(largest, isfinite(flx_tensor_get(a, i)) ? fabs(flx_tensor_get(a, i)) : 0);
    for (int64_t i = 0; i < flx_tensor_count(a); i++) {
        double x = flx_tensor_get(a, i), y = flx_tensor_get(b, i);
        bool same = x == y || (isnan(x) && isnan(y)) || (!is_exact && fabs(x - y) <= 8 * unit * largest);
        if (!EXPECT_MSG(same, "element %lld: %.9g, and %.9g from the model", (long long)i, x, y))
            return;
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

/* ---- Samples of all ops ---- */

/* Of what is written, the reader may refuse loops that it does not know, and extents that only the graph's own ops tie
   to numbers. */
static flx_onnx *read_back(flx_context *ctx, const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer bytes = {0};
    flx_onnx *back = NULL;
    if (flx_onnx_encode(g, NULL, 0, &bytes, &err) == FLX_OK) {
        back = flx_onnx_decode(ctx, bytes.data, bytes.size, NULL, NULL, &err);
        EXPECT_MSG(back || err.code == FLX_E_UNSUPPORTED || flx_graph_symbol(g, 0), "%s at %s", err.message, err.where);
    }
    flx_buffer_free(&bytes);
    return back;
}

static void check_sample(const sample_case *c)
{
    uint64_t h = sample_seed(c) + (uint64_t)c->dtype * 31 + (uintptr_t)(c->sample - flxi_ops[c->op].rules->samples);
    if (c->sample->error || h % (uint64_t)(effort(EFFORT_laws_share) * 60) != 0)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_tensor *a[MAX_OUTPUTS] = {0}, *b[MAX_OUTPUTS] = {0};
    flx_module *m = sample_parse(ctx, c, &err);
    const flx_graph *g = flx_module_main(m);
    flx_onnx *back = m && flx_graph_output_count(g) <= MAX_OUTPUTS ? read_back(ctx, g) : NULL;
    if (back && sample_run(g, c, FILL_RANDOM, a, &err) == FLX_OK &&
        EXPECT_MSG(sample_run(flx_onnx_graph(back), c, FILL_RANDOM, b, &err) == FLX_OK, "%s", err.message))
        for (size_t i = 0; i < flx_graph_output_count(g); i++)
            check_close(a[i], b[i]);
    for (size_t i = 0; i < MAX_OUTPUTS; i++) {
        flx_tensor_release(a[i]);
        flx_tensor_release(b[i]);
    }
    flx_onnx_free(back);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(onnx_exports_of_samples_read_back_as_the_same_functions)
{
    sample_each(check_sample);
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
