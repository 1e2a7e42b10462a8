/* SPDX-License-Identifier: Apache-2.0 */
/* chains.c: no sum is one long chain of additions. Of terms that are all 0.1 each addition rounds to the same side, so
   the error grows with the length of the chain: 4096 of them in f32 lose 1e-5 of the sum, a million of them 1e-2. */
#include "graph/graph_text.h"

#include <math.h>

/* Inputs are full of 0.1; all results are positive. Products have chains of up to 1024 terms. */
static const struct {
    const char *text;
    double bound; /* relative error; 0: the usual one */
} sums[] = {
    {"graph f(x: f32[4096, 3]) { return reduce_sum(x, axes=[0]) }", 0},
    {"graph f(x: f32[100003, 3]) { return reduce_sum(x, axes=[0]) }", 0},
    {"graph f(x: f32[1048576, 1]) { return reduce_mean(x, axes=[0]) }", 0},
    {"graph f(x: f32[70, 20011, 2]) { return reduce_sum(exp(x), axes=[1]) }", 0},
    {"graph f(x: f32[70, 40009]) { return reduce_sum(mul(x, x), axes=[1]) }", 0},
    {"graph f(x: f32[2, 5003, 40]) { return reduce_sum(x, axes=[1]) }", 0},
    {"graph f(x: f32[2047, 32]) { return reduce_sum(x, axes=[0]) }", 0},
    {"graph f(x: f32[30011, 33]) { return reduce_sum(x, axes=[0]), reduce_sum(mul(x, x), axes=[0]) }", 0},
    {"graph f(x: f32[1000003]) { return reduce_sum(x), reduce_mean(x) }", 0},
    {"graph f(x: f32[3, 700, 5, 800]) { return reduce_sum(x, axes=[1, 3]) }", 0},
    {"graph f(x: f32[4, 40000]) { y = softmax(x, axis=1)\n  return reduce_sum(mul(y, x), axes=[1]) }", 0},
    {"graph f(x: bf16[40000, 3]) { return cast(reduce_sum(x, axes=[0]), to=f32) }", 0x1p-8},
    {"graph f(x: f32[2, 65536], y: f32[65536, 2]) { return matmul(x, y) }", 2e-5},
    {"graph f(x: f32[40, 65536], y: f32[65536, 40]) { return matmul(x, y) }", 2e-5},
    {"graph f(x: f32[65536], y: f32[65536]) { return dot_general(x, y, lc=[0], rc=[0], lb=[], rb=[]) }", 0},
    {"graph f(x: f32[30000, 3], y: f32[30000, 3]) { return einsum(x, y, eq=\"ij,ij->j\") }", 2e-5},
    {"graph f(x: f32[30000, 3], y: f32[30000, 5]) { return einsum(x, y, eq=\"ij,ik->jk\") }", 2e-5},
    {"graph f(x: f32[3, 300000]) { return cumsum(x, axis=1) }", 0},
    {"graph f(x: f32[300000, 3]) { return cumsum(x, axis=0) }", 0},
    {"graph f(x: f32[1, 3, 300, 300]) { return pool(x, kind=mean, kernel_size=[300, 300]) }", 0},
    {"graph f(x: f32[1, 3, 300, 300]) { return pool(x, kind=sum, kernel_size=[100, 100]) }", 0},
    {"graph f(x: f32[400, 400]) { return reduce_window(x, 0, window=[200, 300], combine=add) }", 0},
    {"graph f(x: f32[1, 4, 200, 200], w: f32[2, 4, 150, 150]) { return conv(x, w) }", 0},
    {"graph f(x: f32[1, 20000, 3, 3], w: f32[2, 20000, 3, 3]) { return conv(x, w) }", 2e-5},
    {"graph f(x: f32[8, 4, 100, 100], w: f32[4, 4, 3, 3])"
     " { z = conv(x, w)\n  return conv_backward_weight(x, z, kernel_size=[3, 3]) }",
     0},
    {"graph f(x: f32[40000, 3]) { return norm(x, axes=[0]) }", 0},
    {"graph f(q: f32[1, 1, 4, 8], k: f32[1, 1, 40000, 8], v: f32[1, 1, 40000, 8])"
     " { return attention(q, k, v, layout=bhsd, num_heads=1, head_dim=8) }",
     0},
};

static flx_tensor *tenths(flx_context *ctx, const flx_type *type)
{
    flx_error err = {0};
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *x = flx_tensor_new(ctx, &wide, NULL, &err);
    CHECK_MADE(x, &err);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        ((double *)flx_tensor_data(x))[i] = 0.1;
    flx_tensor *y = flx_tensor_cast(x, (flx_dtype)type->dtype, &err);
    CHECK_MADE(y, &err);
    flx_tensor_release(x);
    return y;
}

static double worst_error(const flx_tensor *found, const flx_tensor *expected)
{
    double worst = 0;
    for (int64_t i = 0; i < flx_tensor_count(expected); i++) {
        double y = flx_tensor_get(expected, i);
        worst = fmax(worst, fabs(flx_tensor_get(found, i) - y) / fabs(y));
    }
    return worst;
}

static void check_sum(size_t row)
{
    enum { MOST = 4 };
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, sums[row].text);
    flx_feed feeds[MOST];
    flx_tensor *in[MOST], *out[MOST] = {0}, *expected[MOST] = {0};
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        in[i] = tenths(ctx, flx_val_type(g, flx_graph_input(g, i)));
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)), in[i]};
    }
    flx_graph *wide = flx_widen(g, &err); /* exact enough, and faster than the reference evaluator */
    CHECK_MADE(wide, &err);
    flx_exec *e = flx_compile(g, &(flx_compile_options){.device = "cpu", .optimisation = 1}, &err);
    flx_exec *exact = flx_compile(wide, &(flx_compile_options){.device = "cpu", .optimisation = 1}, &err);
    CHECK_MSG(e && exact, "%s: %s", sums[row].text, err.message);
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, out, &err), &err);
    for (size_t i = 0; i < n; i++) {
        flx_tensor *narrow = in[i];
        in[i] = flx_tensor_cast(narrow, FLX_F64, &err);
        flx_tensor_release(narrow);
        feeds[i].value = in[i];
    }
    CHECK_OK(flx_exec_run(exact, NULL, feeds, n, expected, &err), &err);
    double bound = sums[row].bound > 0 ? sums[row].bound : 5e-6;
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        double worst = worst_error(out[k], expected[k]);
        EXPECT_MSG(worst <= bound, "%s: output %zu is off by %.2g", sums[row].text, k, worst);
        flx_tensor_release(out[k]);
        flx_tensor_release(expected[k]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
    flx_exec_free(e);
    flx_exec_free(exact);
    flx_graph_release(wide);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_count_case();
}

TEST(chains_of_additions_are_short_on_cpu)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        check_sum(i);
}
