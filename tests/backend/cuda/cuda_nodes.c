/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_nodes.c: nodes that are no part of a group are computed on the card, not on the host: their programs are made as
   for a card, without one. Where there is a card, results are compared with the device cpu, at sizes where libraries
   and blocks take part. cuDNN, where it is installed, checks the convolutions that are described to it. */
#include "backend/cuda/card_case.h"
#include "backend/cuda/node/cuda_conv.h"
#include "compile/program.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

extern const flxi_device flxi_device_cuda;

static const card_case cases[] = {
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
    {"graph f(x: f32[40, 1, 300], w: f32[300, 70], v: f32[9, 70]) {\n"
     "  return matmul(matmul(x, w), transpose(v, perm=[1, 0])) }",
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
    {"graph f(a: f64[5, 20, 7], b: c64[3, 9, 30], c: f32[60, 60]) {\n  u, s, v = svd(a)\n  x, y, z = svd(b)\n"
     "  d, e, f = svd(matmul(slice(c, start=[0, 0], limit=[60, 9]), slice(c, start=[0, 0], limit=[9, 60])))\n"
     "  return u, s, v, x, y, z, slice(e, start=[0], limit=[9]), matmul(matmul(d, diag(e)), f) }",
     {0},
     1e-4},
    {"kernel saxpy(workgroup = [64, 1, 1]) {\n  buffer x: f32[1024] read;\n  buffer y: f32[1024] read_write;\n"
     "  buffer out: f32[1024] output;\n  let i = invocation_id(0);\n  y[i] = y[i] * x[i];\n"
     "  out[i] = fma(2.0, x[i], y[i]);\n}\n"
     "graph f(x: f32[1024], y: f32[1024]) {\n"
     "  return kernel_call(x, y, kernel=@saxpy, grid=[16, 1, 1], outputs=[f32[1024]]) }",
     {"x", "y"},
     1e-6},
};

enum { NUM_CASES = sizeof cases / sizeof *cases };

TEST(cuda_nodes_are_not_computed_on_the_host)
{
    flx_error err = {0};
    if (!flxi_cuda_nvrtc(&err)) {
        printf("no NVRTC: %s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < NUM_CASES; i++) {
        flx_graph *g = card_case_graph(ctx, &cases[i]);
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
        flxi_card_conv_plan p = {.target = (flxi_conv_target)(k / 3 % 3), .dtype = dtypes[k / 9], .spatial = spatial};
        flxi_card_conv_form *f = &p.form;
        int64_t in = 1, taps = 1, out = 1;
        p.groups = 2;
        for (int a = 3; a-- > 0;) {
            bool is_there = a < spatial;
            f->axis[a] = (flxi_card_conv_axis){.out = is_there ? 5 : 1,
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

TEST(card_nodes_agree)
{
    card_cases_agree(cases, NUM_CASES);
}
