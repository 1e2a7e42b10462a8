/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_nodes.c: nodes that are no part of a group are computed on the card, not on the host: their programs are made as
   for a card, without one. Where there is a card, results are compared with the device cpu, at sizes where libraries
   and blocks take part. cuDNN, where it is installed, checks the convolutions that are described to it. */
#include "backend/cuda/node/cuda_conv.h"
#include "backend/devices.h"
#include "compile/program.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const flxi_device flxi_device_cuda;

/* The gradient with respect to the inputs named in wrt, if any, is taken of the graph. */
static const struct {
    const char *text, *wrt[2];
    double most; /* distance from the device cpu */
} cases[] = {
    {"graph f(x: f32[8, 32, 28, 28], w: f32[64, 32, 3, 3]) {\n"
     "  return reduce_sum(square(conv(x, w, stride=[2, 2], padding=[[1, 1], [1, 1]])), axes=[0, 1, 2, 3]) }",
     {"x", "w"},
     1e-4},
    {"graph f(x: bf16[8, 28, 28, 32], w: bf16[3, 3, 32, 64]) {\n"
     "  return conv(x, w, padding=[[1, 1], [1, 1]], input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], "
     "output_axes=[0, 3, 1, 2]) }",
     {0},
     1e-2},
    {"graph f(x: bf16[8, 28, 28, 32], w: bf16[64, 3, 3, 32]) {\n"
     "  return conv(x, w, padding=[[1, 1], [1, 1]], input_axes=[0, 3, 1, 2], kernel_axes=[0, 3, 1, 2], "
     "output_axes=[0, 3, 1, 2]) }",
     {"x", "w"},
     2e-2},
    {"graph f(x: f32[4, 64, 500], w: f32[32, 8, 5]) { return conv(x, w, padding=[[2, 2]], dilation=[1], groups=8) }",
     {0},
     1e-4},
    {"graph f(x: f64[2, 3, 9, 9, 9], w: f64[4, 3, 2, 3, 2]) {\n"
     "  return conv(x, w, input_dilation=[2, 1, 1], reverse=[true, false, true], padding=[[1, -1], [0, 2], [1, 1]]) }",
     {0},
     1e-12},
    {"graph f(x: c64[6, 1000]) { return fft(x) }", {0}, 1e-5},
    {"graph f(x: f32[3, 2, 74]) { return fft(x, inverse=true, norm=ortho) }", {0}, 1e-5},
    {"graph f(x: f32[40, 128]) { return rfft_complex(x) }", {0}, 1e-5},
    {"graph f(x: f32[100, 32], i: i32[300, 1], u: f32[300, 32]) {\n"
     "  return scatter_nd(x, i, u, start_index_map=[0], collapsed_axes=[0], offset_axes=[1], oob=clamp) }",
     {0},
     1e-5},
    {"graph f(x: f32[30, 32], i: i32[70, 2], u: f32[70, 4, 5]) {\n"
     "  return scatter_nd(x, i, u, start_index_map=[0, 1], offset_axes=[1, 2], combine=max, oob=zero) }",
     {0},
     0},
    {"graph f(x: f32[100, 32], i: i32[300, 2]) {\n"
     "  return gather_nd(x, mod(i, 20), slice_sizes=[4, 8], start_index_map=[0, 1], offset_axes=[1, 2]) }",
     {0},
     0},
    {"graph f(x: f32[200, 40], w: f32[6, 40, 70], e: i32[200]) { return grouped_matmul(x, w, e, oob=zero) }",
     {"x", "w"},
     1e-5},
    {"graph f(a: f32[3, 100, 100], b: f32[3, 100, 40]) {\n"
     "  m = add(a, mul(20.0, eye(n=100, dtype=f32)))\n  return solve(m, b) }",
     {"a", "b"},
     1e-4},
    {"graph f(a: f64[2, 70, 90]) {\n  l, pivots, perm = lu(a)\n  return l, pivots, perm }", {0}, 1e-9},
    {"graph f(a: c128[90, 90]) {\n  m = add(a, mul(20.0, eye(n=90, dtype=c128)))\n"
     "  return inv(m), det(mul(m, 0.05)) }",
     {0},
     1e-9},
    {"graph f(a: f32[4, 80, 80]) {\n  m = add(matmul(a, transpose(a, perm=[0, 2, 1])), eye(n=80, "
     "dtype=f32))\n"
     "  return cholesky(m), cholesky(m, lower=false) }",
     {0},
     1e-3},
    {"graph f(a: f64[70, 70], b: f64[50, 70]) {\n  t = add(a, mul(20.0, eye(n=70, dtype=f64)))\n"
     "  return solve_triangular(t, b, lower=false, left_side=false, trans=transpose) }",
     {0},
     1e-10},
    {"graph f(x: f32[30, 250], w: f32[250, 130], v: f32[90, 130]) {\n"
     "  h = tanh(matmul(x, w))\n  return matmul(h, transpose(v, perm=[1, 0])), matmul(x, slice(w, start=[0, 1], "
     "limit=[250, 101])) }",
     {"x", "w"},
     1e-5},
    {"graph f(x: f32[3, 20, 1024], w: f32[3, 64, 1024]) {\n"
     "  return matmul(x, transpose(w, perm=[0, 2, 1])) }",
     {"x", "w"},
     1e-5},
    {"graph f(a: c64[5, 20, 12], b: f64[30, 40]) {\n  q, r = qr(a)\n  u, v = qr(b)\n  return q, r, u, v }", {0}, 1e-5},
    {"graph f(a: f64[3, 41, 41], b: c128[1, 1]) {\n  w, v = eigh(a)\n  x, y = eigh(b)\n  return w, v, x, y }",
     {0},
     1e-9},
    {"kernel saxpy(workgroup = [64, 1, 1]) {\n  buffer x: f32[1024] read;\n  buffer y: f32[1024] read_write;\n"
     "  buffer out: f32[1024] output;\n  let i = invocation_id(0);\n  y[i] = y[i] * x[i];\n"
     "  out[i] = fma(2.0, x[i], y[i]);\n}\n"
     "graph f(x: f32[1024], y: f32[1024]) {\n"
     "  return kernel_call(x, y, kernel=@saxpy, grid=[16, 1, 1], outputs=[f32[1024]]) }",
     {"x", "y"},
     1e-6},
};

enum { NUM_CASES = sizeof cases / sizeof *cases };

static flx_graph *graph_of(flx_context *ctx, size_t i)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, cases[i].text, strlen(cases[i].text), "nodes", &err);
    CHECK_MSG(m, "%s: %s: %s", cases[i].text, err.where, err.message);
    const flx_grad_options o = {.struct_size = sizeof o, .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_VALUE};
    flx_graph *g = flx_module_main(m);
    flx_graph_retain(g);
    if (cases[i].wrt[0]) {
        flx_graph_release(g);
        g = flx_grad(flx_module_main(m), (const char *const *)cases[i].wrt, 2, &o, &err);
    }
    CHECK_MSG(g, "%s: %s", cases[i].text, err.message);
    flx_module_free(m);
    return g;
}

TEST(cuda_nodes_are_not_computed_on_the_host)
{
    flx_error err = {0};
    if (!flxi_cuda_nvrtc(&err)) {
        printf("no NVRTC: %s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < NUM_CASES; i++) {
        flx_graph *g = graph_of(ctx, i);
        const flx_compile_options o = {.struct_size = sizeof o};
        flxi_program m;
        flxi_program_init(&m, ctx, &flxi_device_cuda, &o);
        CHECK_MSG(flxi_routine_compile(&m, g, &m.main, &err) == FLX_OK, "%s: %s", cases[i].text, err.message);
        for (uint32_t k = 0; k < m.main->num_steps; k++)
            CHECK_MSG(m.main->steps[k].kind != STEP_EVALUATE, "%s: %s", cases[i].text,
                      flxi_ops[flxi_node_at(m.main->g, m.main->steps[k].node)->op].name);
        flxi_program_free(&m);
        flx_graph_release(g);
    }
    flx_context_free(ctx);
}

TEST(cuda_convolutions_are_described_as_cudnn_wants_them)
{
    static const flx_dtype dtypes[] = {FLX_F32, FLX_F64, FLX_F16, FLX_BF16};
    flx_error err = {0};
    if (!flxi_cuda_dnn(&err)) {
        printf("%s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (int k = 0; k < 36; k++) {
        const int spatial = 1 + k % 3;
        flxi_cuda_conv_plan p = {.target = (flxi_conv_target)(k / 3 % 3), .dtype = dtypes[k / 9], .spatial = spatial};
        flxi_cuda_conv_form *f = &p.form;
        int64_t in = 1, taps = 1, out = 1;
        p.groups = 2;
        for (int a = 3; a-- > 0;) {
            bool is_there = a < spatial;
            f->axis[a] = (flxi_cuda_conv_axis){.out = is_there ? 5 : 1,
                                               .taps = is_there ? 3 : 1,
                                               .stride = 2,
                                               .extent = is_there ? 10 : 1,
                                               .dilation = 1,
                                               .low = is_there,
                                               .spread = 1,
                                               .x = in,
                                               .w = taps,
                                               .z = out};
            in *= f->axis[a].extent;
            taps *= f->axis[a].taps;
            out *= f->axis[a].out;
        }
        f->images = 4;
        f->features = f->channels = 8;
        f->per_batch_group = 16;
        f->x_channel = in;
        f->x_image = 16 * in;
        f->w_channel = taps;
        f->w_feature = 8 * taps;
        f->z_feature = out;
        f->z_image = 16 * out;
        CHECK_OK(flxi_cuda_conv_describes(flxi_context_mem(ctx), &p, &err), &err);
    }
    flx_context_free(ctx);
}

/* ---- On a card ---- */

/* |x - y| / |y| over all elements; NaN and infinities in the same places are equal. */
static double distance(const flx_tensor *x, const flx_tensor *y)
{
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double a = flx_tensor_get(x, i), b = flx_tensor_get(y, i), d = a - b;
        if (a == b || (isnan(a) && isnan(b)))
            d = 0;
        sum += d * d;
        norm += isfinite(b) ? b * b : 0;
    }
    return norm > 0 ? sqrt(sum / norm) : sqrt(sum);
}

static flx_tensor *drawn(flx_context *ctx, const flx_type *want, uint64_t *seed)
{
    flx_error err = {0};
    flx_type type = *want;
    bool is_index = type.dtype == FLX_I32;
    type.dtype = FLX_F32;
    flx_tensor *wide = flx_tensor_new(ctx, &type, NULL, &err);
    CHECK_MADE(wide, &err);
    for (int64_t k = 0; k < flx_tensor_count(wide); k++)
        ((float *)flx_tensor_data(wide))[k] =
            is_index ? floorf((float)(8 * test_uniform(seed) - 1)) : (float)(2 * test_uniform(seed) - 1);
    flx_tensor *t = flx_tensor_cast(wide, (flx_dtype)want->dtype, &err);
    CHECK_MADE(t, &err);
    flx_tensor_release(wide);
    return t;
}

/* How many outputs are not close, each with a line that says so. */
static int compare(flx_context *ctx, size_t number)
{
    enum { MOST = 8 };
    flx_error err = {0};
    flx_feed feeds[MOST];
    flx_tensor *out[2][MOST] = {{0}};
    uint64_t seed = 11;
    int bad = 0;
    flx_graph *g = graph_of(ctx, number);
    size_t inputs = flx_graph_input_count(g), outputs = flx_graph_output_count(g);
    for (size_t i = 0; i < inputs; i++) {
        flx_val v = flx_graph_input(g, i);
        feeds[i] = (flx_feed){flx_val_name(g, v), drawn(ctx, flx_val_type(g, v), &seed)};
    }
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cuda"};
    const flx_run_options ref = {.struct_size = sizeof ref, .device = "cpu"};
    flx_exec *e = flx_compile(g, &o, &err);
    CHECK_MSG(e, "%s: %s", cases[number].text, err.message);
    for (int run = 0; run < 3; run++) { /* the third is a graph of the driver */
        for (size_t k = 0; k < outputs; k++)
            flx_tensor_release(out[0][k]);
        CHECK_MSG(flx_exec_run(e, NULL, feeds, inputs, out[0], &err) == FLX_OK, "%s: %s", cases[number].text,
                  err.message);
    }
    CHECK_OK(flx_run(g, &ref, feeds, inputs, out[1], &err), &err);
    for (size_t k = 0; k < outputs; k++) {
        double d = distance(out[0][k], out[1][k]);
        if (!(d <= cases[number].most))
            bad += printf("%s, output %zu: %.3g\n", cases[number].text, k, d) > 0;
    }
    for (size_t i = 0; i < inputs; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    for (size_t k = 0; k < 2 * MOST; k++)
        flx_tensor_release(out[k / MOST][k % MOST]);
    flx_exec_free(e);
    flx_graph_release(g);
    return bad;
}

TEST(card_nodes_agree)
{
    flx_error err = {0};
    int bad = 0;
    if (flx_device_check("cuda", &err) != FLX_OK) {
        printf("%s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < NUM_CASES; i++)
        bad += compare(ctx, i);
    CHECK(bad == 0);
    flx_context_free(ctx);
}
