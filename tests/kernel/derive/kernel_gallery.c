/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_gallery.c: fifty kernels with exact gradients. */
#include "kernel/derive/kernel_case.h"
#include "kernel/program/kernel.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const char square[] = "kernel square(workgroup = [4, 1, 1]) {\n"
                             "  buffer x: f32[4] read @0;\n"
                             "  buffer out: f32[4] output @1;\n"
                             "  let i = invocation_id(0);\n"
                             "  out[i] = x[i] * x[i];\n"
                             "}\n";

TEST(kernel_01_square)
{
    kernel_case_check(&(kernel_case){.text = square,
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, -2, 3, 0.5; grad_out = 1, 1, 1, 2",
                                     .values = "out = 1, 4, 9, 0.25",
                                     .gradients = "grad_x = 2, -4, 6, 2",
                                     .flags = CASE_NO_ATOMIC | CASE_NO_TAPE});
}

TEST(kernel_02_fma)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer w: f32[3] read;"
                               "buffer out: f32[3] output; let i = invocation_id(0);"
                               "out[i] = fma(w[i], x[i], x[i] * x[i]); }",
                       .outputs = "out",
                       .inputs = "x,w",
                       .data = "x = 2, -1, 0; w = 3, 4, 5",
                       .gradients = "grad_x = 7, 2, 5; grad_w = 2, -1, 0"});
}

static const char sixth_power[] = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: f32[3] output;"
                                  "let i = invocation_id(0); let y = x[i] * x[i]; let z = y * y; out[i] = z * y; }";

TEST(kernel_03_nonlinear_locals)
{
    kernel_case_check(&(kernel_case){.text = sixth_power,
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, -1",
                                     .gradients = "grad_x = 6, 192, -6",
                                     .flags = CASE_NO_ATOMIC | CASE_NO_TAPE});
}

TEST(kernel_04_reassigned_variable)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: f32[3] output;"
                               "let i = invocation_id(0); let a = x[i]; a = a * a; a = a * a; a = a + x[i];"
                               "out[i] = a; }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 1, 2, -1",
                       .gradients = "grad_x = 5, 33, -3"});
}

TEST(kernel_05_overwritten_by_a_constant)
{
    kernel_case_check(&(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output;"
                                             "let t = x[0]; let u = t * t; t = 5.0; out[0] = u + t * x[0]; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 3",
                                     .gradients = "grad_x = 11"});
}

TEST(kernel_06_power_loop)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: f32[3] output;"
                               "let i = invocation_id(0); let p = 1.0f32; for (n in 0..5) { p = p * x[i]; }"
                               "out[i] = p; }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 2, -1, 0",
                       .gradients = "grad_x = 80, 5, 0"});
}

static const char product[] = "kernel k() { buffer x: f32[] read; buffer out: f32[1] output; let p = 1.0f32;"
                              "for (j in 0..buf_len(x)) { p = p * x[j]; } out[0] = p; }";

TEST(kernel_07_product_over_an_array)
{
    static const char *const rows[][2] = {
        {"x = 2, 2, 2", "grad_x = 4, 4, 4"}, {"x = 2, 3, 4", "grad_x = 12, 8, 6"}, {"x = 2, 0, 4", "grad_x = 0, 8, 0"}};
    for (size_t i = 0; i < 3; i++)
        kernel_case_check(&(kernel_case){
            .text = product, .outputs = "out", .inputs = "x", .data = rows[i][0], .gradients = rows[i][1]});
}

static const char horner[] = "kernel k() { buffer x: f32[1] read; buffer c: f32[] read; buffer out: f32[1] output;"
                             "let y = 0.0f32; let n = buf_len(c);"
                             "for (j in 0..n) { y = y * x[0] + c[n - 1 - j]; } out[0] = y; }";

TEST(kernel_08_horner)
{
    kernel_case_check(&(kernel_case){.text = horner,
                                     .outputs = "out",
                                     .inputs = "x,c",
                                     .data = "x = 2; c = 1, 2, 3, 4",
                                     .values = "out = 49",
                                     .gradients = "grad_x = 62; grad_c = 1, 2, 4, 8"});
}

TEST(kernel_09_dot_product_in_a_loop)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k() { buffer a: f32[] read; buffer b: f32[] read; buffer out: f32[1] output;"
                               "let s = 0.0f32; for (j in 0..buf_len(a)) { s = s + a[j] * b[j]; } out[0] = s; }",
                       .outputs = "out",
                       .inputs = "a,b",
                       .data = "a = 1, 2, 3; b = 4, 5, 6",
                       .gradients = "grad_a = 4, 5, 6; grad_b = 1, 2, 3",
                       .flags = CASE_NO_TAPE});
}

TEST(kernel_10_dot_product_by_atomics)
{
    kernel_case_check(&(kernel_case){
        .text =
            "kernel k(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: f32[1] output;"
            "let i = invocation_id(0); atomic_add(out[0], x[i] * y[i]); }",
        .outputs = "out",
        .inputs = "x,y",
        .grid = {4, 1, 1},
        .data = "x = 2*255, 7; y = 5*255, 11; grad_out = 3",
        .gradients = "grad_x = 15*255, 33; grad_y = 6*255, 21",
        .flags = CASE_NO_ATOMIC | CASE_NO_TAPE});
}

TEST(kernel_11_branch_by_assignment)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: f32[3] output; let i = "
                "invocation_id(0);"
                "let r = 0.0f32; if (x[i] > 0.0) { r = x[i] * x[i]; } else { r = -3.0 * x[i]; } out[i] = r; }",
        .outputs = "out",
        .inputs = "x",
        .data = "x = 2, -2, 0",
        .gradients = "grad_x = 4, -3, -3",
        .flags = CASE_NO_SECOND});
}

TEST(kernel_12_branch_on_a_carried_value)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: f32[3] output; let i = "
                "invocation_id(0);"
                "let a = x[i]; for (s in 0..3) { if (a < 4.0) { a = a * 2.0; } else { a = a - 1.0; } } out[i] = a; }",
        .outputs = "out",
        .inputs = "x",
        .data = "x = 1.5, 3, 10",
        .gradients = "grad_x = 4, 2, 1"});
}

#define MIN_MAX_KERNEL(op)                                                                                       \
    "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer y: f32[3] read; buffer out: f32[3] output;" \
    "let i = invocation_id(0); out[i] = " op "(x[i], y[i]); }"

TEST(kernel_13_max_and_min_share_ties)
{
    kernel_case_check(&(kernel_case){.text = MIN_MAX_KERNEL("max"),
                                     .outputs = "out",
                                     .inputs = "x,y",
                                     .data = "x = 1, 2, 3; y = 2, 2, 1",
                                     .gradients = "grad_x = 0, 0.5, 1; grad_y = 1, 0.5, 0",
                                     .flags = CASE_NO_SECOND});
    kernel_case_check(&(kernel_case){.text = MIN_MAX_KERNEL("min"),
                                     .outputs = "out",
                                     .inputs = "x,y",
                                     .data = "x = 1, 2, 3; y = 2, 2, 1",
                                     .gradients = "grad_x = 1, 0.5, 0; grad_y = 0, 0.5, 1",
                                     .flags = CASE_NO_SECOND});
}

TEST(kernel_14_clamp_by_selects)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k(workgroup = [5, 1, 1]) { buffer x: f32[5] read; buffer out: f32[5] output; "
                               "let i = invocation_id(0);"
                               "let low = select(x[i] < 0.0, 0.0, x[i]); out[i] = select(low > 1.0, 1.0, low); }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = -1, 0, 0.5, 1, 2",
                       .gradients = "grad_x = 0, 1, 1, 1, 0",
                       .flags = CASE_NO_SECOND});
}

TEST(kernel_15_guarded_root)
{
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: "
                                             "f32[3] output; let i = invocation_id(0);"
                                             "out[i] = select(x[i] > 0.0, sqrt(x[i]), 0.0); }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 4, 0, -1",
                                     .gradients = "grad_x = 0.25, 0, 0",
                                     .flags = CASE_NO_SECOND});
}

TEST(kernel_16_colliding_gather)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [5, 1, 1]) { buffer x: f32[3] read; buffer w: f32[5] read; buffer k: u32[5] read;"
                "buffer out: f32[5] output; let i = invocation_id(0); out[i] = x[k[i]] * w[i]; }",
        .outputs = "out",
        .inputs = "x,w",
        .data = "x = 10, 20, 30; w = 1, 2, 3, 4, 5; k = 0, 2, 0, 1, 0",
        .gradients = "grad_x = 9, 4, 2; grad_w = 10, 30, 10, 20, 10",
        .flags = CASE_ATOMIC});
}

TEST(kernel_17_scatter_add)
{
    kernel_case_check(&(kernel_case){
        .text =
            "kernel k(workgroup = [5, 1, 1]) { buffer x: f32[5] read; buffer k: u32[5] read; buffer out: f32[3] output;"
            "let i = invocation_id(0); atomic_add(out[k[i]], x[i]); }",
        .outputs = "out",
        .inputs = "x",
        .data = "x = 1, 2, 3, 4, 5; k = 0, 2, 0, 1, 0; grad_out = 1, 10, 100",
        .values = "out = 9, 4, 2",
        .gradients = "grad_x = 1, 100, 1, 10, 1",
        .flags = CASE_NO_ATOMIC});
}

TEST(kernel_18_permutation_store)
{
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer p: "
                                             "u32[3] read distinct; buffer out: f32[3] output;"
                                             "let i = invocation_id(0); out[p[i]] = x[i] * x[i]; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3; p = 2, 0, 1; grad_out = 5, 6, 7",
                                     .gradients = "grad_x = 14, 20, 36",
                                     .flags = CASE_NO_ATOMIC});
}

TEST(kernel_19_stencil)
{
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer out: "
                                             "f32[4] output; let i = invocation_id(0);"
                                             "out[i] = x[i - 1] - 2.0 * x[i] + x[i + 1]; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3, 4; grad_out = 1, 2, 3, 4",
                                     .gradients = "grad_x = 0, 0, 0, -5"});
}

TEST(kernel_20_two_diffusion_steps)
{
    static const char step[] = "kernel k(workgroup = [4, 1, 1]) { buffer u: f32[4] read; buffer out: f32[4] output;"
                               "let i = invocation_id(0);"
                               "out[i] = u[i] + 0.25 * (u[i - 1] - 2.0 * u[i] + u[i + 1]); }";
    flx_kernel *k = flk(step);
    const char *const out[] = {"out"}, *const in[] = {"u"};
    flx_error err = {0};
    flx_kernel_derived *d = flx_kernel_grad(k, out, 1, in, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    float u[4] = {1, 2, 3, 4}, cotangent[4] = {0, 1, 0, 0}, middle[4] = {0}, start[4] = {0};
    const uint32_t grid[3] = {1, 1, 1};
    flx_kernel_memory second[] = {{"u", u, sizeof u}, {"grad_out", cotangent, sizeof u}, {"grad_u", middle, sizeof u}};
    flx_kernel_memory first[] = {{"u", u, sizeof u}, {"grad_out", middle, sizeof u}, {"grad_u", start, sizeof u}};
    CHECK_OK(flx_kernel_derived_run(d, grid, second, 3, NULL, &err), &err);
    CHECK_OK(flx_kernel_derived_run(d, grid, first, 3, NULL, &err), &err);
    static const float expected[4] = {0.25f, 0.375f, 0.25f, 0.0625f};
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(start[i], expected[i], 1e-7);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
}

TEST(kernel_21_intermediate_buffer_overwritten)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k(workgroup = [2, 1, 1]) { buffer x: f32[2] read; buffer b: f32[2] read_write; "
                               "buffer out: f32[2] output;"
                               "let i = invocation_id(0); b[i] = x[i] * x[i]; b[i] = b[i] * b[i]; out[i] = b[i]; }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 1, 2; b = 0, 0",
                       .gradients = "grad_x = 4, 32",
                       .flags = CASE_NO_ATOMIC});
}

TEST(kernel_22_in_and_out_in_one_buffer)
{
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [2, 1, 1]) { buffer x: f32[2] read_write;"
                                             "let i = invocation_id(0); x[i] = sin(x[i]); }",
                                     .outputs = "x",
                                     .inputs = "x",
                                     .data = "x = 0, 1.5707963267948966; grad_x = 2, 2",
                                     .gradients = "grad_x = 2, 0",
                                     .flags = CASE_NO_ATOMIC,
                                     .tolerance = 1e-6});
}

TEST(kernel_23_shared_memory_mirror)
{
    kernel_case_check(&(kernel_case){.text =
                                         "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer out: f32[4] "
                                         "output; buffer sh: f32[4] workgroup;"
                                         "let l = local_id(0); sh[l] = x[l]; barrier(); out[l] = sh[3 - l] * sh[l]; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3, 4; grad_out = 1, 2, 3, 4",
                                     .gradients = "grad_x = 20, 15, 10, 5"});
}

#define PREFIX_KERNEL(width, levels, op)                                                                           \
    "kernel k(workgroup = [" width ", 1, 1]) { buffer x: f32[" width "] read; buffer out: f32[" width "] output;"  \
    "buffer sh: f32[" width "] workgroup; let l = local_id(0); sh[l] = x[l]; barrier();"                           \
    "for (s in 0.." levels ") { let d = 1 << s; let v = sh[l]; if (l >= d) { v = v " op " sh[l - d]; } barrier();" \
    "sh[l] = v; barrier(); } out[l] = sh[l]; }"

TEST(kernel_24_prefix_sum)
{
    kernel_case_check(&(kernel_case){.text = PREFIX_KERNEL("8", "3", "+"),
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3, 4, 5, 6, 7, 8; grad_out = 1, 2, 3, 4, 5, 6, 7, 8",
                                     .values = "out = 1, 3, 6, 10, 15, 21, 28, 36",
                                     .gradients = "grad_x = 36, 35, 33, 30, 26, 21, 15, 8"});
}

TEST(kernel_25_prefix_product)
{
    kernel_case_check(&(kernel_case){.text = PREFIX_KERNEL("4", "2", "*"),
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 2, 3, 4, 5",
                                     .gradients = "grad_x = 76, 50, 36, 24"});
}

TEST(kernel_26_tree_reduction_of_squares)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[8] read; buffer out: f32[2] output; buffer sh: f32[4] "
                "workgroup;"
                "let l = local_id(0); let i = invocation_id(0); sh[l] = x[i] * x[i]; barrier();"
                "for (s in 0..2) { let d = 2 >> s; if (l < d) { sh[l] = sh[l] + sh[l + d]; } barrier(); }"
                "if (l == 0) { out[workgroup_id(0)] = sh[0]; } }",
        .outputs = "out",
        .inputs = "x",
        .grid = {2, 1, 1},
        .data = "x = 1, 2, 3, 4, 5, 6, 7, 8; grad_out = 10, 100",
        .values = "out = 30, 174",
        .gradients = "grad_x = 20, 40, 60, 80, 1000, 1200, 1400, 1600"});
}

TEST(kernel_27_tiled_matmul)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [2, 2, 1]) { buffer a: f32[16] read; buffer b: f32[16] read; buffer out: f32[16] "
                "output;"
                "buffer ta: f32[4] workgroup; buffer tb: f32[4] workgroup;"
                "let c = invocation_id(0); let r = invocation_id(1); let lc = local_id(0); let lr = local_id(1);"
                "let s = 0.0f32; for (t in 0..2) { ta[lr * 2 + lc] = a[r * 4 + t * 2 + lc];"
                "tb[lr * 2 + lc] = b[(t * 2 + lr) * 4 + c]; barrier();"
                "for (j in 0..2) { s = s + ta[lr * 2 + j] * tb[j * 2 + lc]; } barrier(); } out[r * 4 + c] = s; }",
        .outputs = "out",
        .inputs = "a,b",
        .grid = {2, 2, 1},
        .data = "a = -1, 2, 0, -2, 1, -1, 2, 0, -2, 1, -1, 2, 0, -2, 1, -1;"
                "b = 0, 2, -3, -1, 1, 3, -2, 0, 2, -3, -1, 1, 3, -2, 0, 2;"
                "grad_out = 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1",
        .gradients = "grad_a = -6, 1, -6, 1, 1, 9, -4, 4, -7, 2, 4, 13, -6, 1, -6, 1;"
                     "grad_b = -5, -1, -6, -5, 1, -2, 1, 1, 2, 7, 3, 2, 3, -4, -5, 3"});
}

TEST(kernel_28_softmax)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k() { buffer x: f32[] read; buffer out: f32[] output; let n = buf_len(x);"
                               "let m = x[0]; for (j in 1..n) { m = max(m, x[j]); }"
                               "let s = 0.0f32; for (j in 0..n) { s = s + exp(x[j] - m); }"
                               "for (j in 0..n) { out[j] = exp(x[j] - m) / s; } }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 0, 0.6931471805599453, 1.0986122886681098; out = 0, 0, 0; grad_out = 1, 0, 0",
                       .gradients = "grad_x = 5/36, -1/18, -1/12",
                       .tolerance = 2e-6});
}

TEST(kernel_29_variance)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k() { buffer x: f32[4] read; buffer out: f32[1] output; let s = 0.0f32;"
                               "for (j in 0..4) { s = s + x[j]; } let mean = s / 4.0; let v = 0.0f32;"
                               "for (j in 0..4) { let d = x[j] - mean; v = v + d * d; } out[0] = v / 4.0; }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 1, 2, 3, 6",
                       .values = "out = 3.5",
                       .gradients = "grad_x = -1, -0.5, 0, 1.5",
                       .flags = CASE_NO_TAPE});
}

TEST(kernel_30_trips_from_data)
{
    kernel_case_check(&(kernel_case){
        .text =
            "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer n: u32[3] read; buffer out: f32[3] output;"
            "let i = invocation_id(0); let p = 1.0f32; for (j in 0..n[i]) { p = p * x[i]; } out[i] = p; }",
        .outputs = "out",
        .inputs = "x",
        .data = "x = 2, 2, 2; n = 0, 1, 3",
        .values = "out = 1, 2, 8",
        .gradients = "grad_x = 0, 1, 12"});
}

TEST(kernel_31_nested_loops)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k() { buffer x: f32[1] read; buffer a: f32[6] read; buffer out: f32[1] output; let y = 0.0f32;"
                "for (i in 0..2) { for (j in 0..3) { y = y * x[0] + a[3 * i + j]; } } out[0] = y; }",
        .outputs = "out",
        .inputs = "x,a",
        .data = "x = 2; a = 1*6",
        .values = "out = 63",
        .gradients = "grad_x = 129; grad_a = 32, 16, 8, 4, 2, 1"});
}

TEST(kernel_32_newton_root)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; let r = 1.0f32;"
                               "for (s in 0..20) { r = 0.5 * (r + x[0] / r); } out[0] = r; }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 4",
                       .values = "out = 2",
                       .gradients = "grad_x = 0.25"});
}

TEST(kernel_33_logistic_map)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k() { buffer x: f32[1] read; buffer r: f32[1] read; buffer out: f32[1] output; let v = x[0];"
                "for (s in 0..3) { v = r[0] * v * (1.0 - v); } out[0] = v; }",
        .outputs = "out",
        .inputs = "x,r",
        .data = "x = 0.25; r = 2",
        .values = "out = 0.498046875",
        .gradients = "grad_x = 0.0625; grad_r = 0.2900390625"});
}

TEST(kernel_34_power_iteration)
{
    kernel_case_check(&(kernel_case){
        .text =
            "kernel k() { buffer a: f32[4] read; buffer out: f32[1] output; let u = 1.0f32; let v = 0.0f32;"
            "for (s in 0..60) { let p = a[0] * u + a[1] * v; let q = a[2] * u + a[3] * v; let l = sqrt(p * p + q * q);"
            "u = p / l; v = q / l; }"
            "out[0] = u * (a[0] * u + a[1] * v) + v * (a[2] * u + a[3] * v); }",
        .outputs = "out",
        .inputs = "a",
        .data = "a = 2, 1, 1, 3",
        .values = "out = 3.618034",
        .gradients = "grad_a = 0.276393, 0.447214, 0.447214, 0.723607",
        .tolerance = 1e-5});
}

TEST(kernel_35_broadcast_weight)
{
    static char data[20000];
    size_t n = (size_t)snprintf(data, sizeof data, "w = 2; x = 0");
    for (int i = 1; i < 1000; i++)
        n += (size_t)snprintf(data + n, sizeof data - n, ", %d", i);
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [64, 1, 1]) { buffer w: f32[1] read; buffer x: "
                                             "f32[1000] read; buffer out: f32[1000] output;"
                                             "let i = invocation_id(0); if (i < 1000) { out[i] = w[0] * x[i]; } }",
                                     .outputs = "out",
                                     .inputs = "w",
                                     .grid = {16, 1, 1},
                                     .data = data,
                                     .gradients = "grad_w = 499500",
                                     .flags = CASE_ATOMIC});
}

TEST(kernel_36_guard_return)
{
    kernel_case_check(&(kernel_case){
        .text =
            "kernel k(workgroup = [8, 1, 1]) { buffer x: f32[8] read; buffer n: u32[1] read; buffer out: f32[8] output;"
            "let i = invocation_id(0); if (i >= n[0]) { return; } out[i] = x[i] * x[i]; }",
        .outputs = "out",
        .inputs = "x",
        .data = "x = 1, 2, 3, 4, 5, 6, 7, 8; n = 5",
        .values = "out = 1, 4, 9, 16, 25, 0, 0, 0",
        .gradients = "grad_x = 2, 4, 6, 8, 10, 0, 0, 0",
        .flags = CASE_NO_ATOMIC});
}

TEST(kernel_37_index_from_data)
{
    static const char text[] = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer y: f32[3] read;"
                               "buffer out: f32[4] output; let i = invocation_id(0); out[i] = y[cast<u32>(x[i])]; }";
    kernel_case_check(&(kernel_case){.text = text,
                                     .outputs = "out",
                                     .inputs = "x,y",
                                     .data = "x = 0.5, 2.2, 0.1, 1.9; y = 7, 8, 9",
                                     .gradients = "grad_x = 0, 0, 0, 0; grad_y = 2, 1, 1"});
    flx_kernel *k = flk(text);
    const char *const out[] = {"out"}, *const in[] = {"x"};
    flx_error err = {0};
    flx_kernel_derived *d = flx_kernel_grad(k, out, 1, in, 1, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    CHECK_EQ_U64(flx_kernel_derived_warning_count(d), 1);
    CHECK(strstr(flx_kernel_derived_warning(d, 0), "cast is piecewise constant") != NULL);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
}

TEST(kernel_38_casts)
{
    kernel_case_check(&(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; out[0] = "
                                             "cast<f32>(cast<i32>(x[0])) * x[0]; }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 2.5",
                                     .gradients = "grad_x = 2",
                                     .flags = CASE_NO_SECOND});
    kernel_case_check(
        &(kernel_case){.text = "kernel k() { buffer x: f16[1] read; buffer out: f16[1] output; let v = cast<f32>(x[0]);"
                               "out[0] = cast<f16>(v * v); }",
                       .outputs = "out",
                       .inputs = "x",
                       .data = "x = 3",
                       .values = "out = 9",
                       .gradients = "grad_x = 6",
                       .flags = CASE_F32_ONLY});
}

TEST(kernel_39_abs_and_floor)
{
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [3, 1, 1]) { buffer x: f32[3] read; buffer out: "
                                             "f32[3] output; let i = invocation_id(0);"
                                             "out[i] = abs(x[i]); }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = -2, 0, 3",
                                     .gradients = "grad_x = -1, 0, 1",
                                     .flags = CASE_NO_SECOND});
    flx_kernel *k = flk("kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; out[0] = floor(x[0]); }");
    const char *const out[] = {"out"}, *const in[] = {"x"};
    flx_error err = {0};
    flx_kernel_grad_options strict = {.struct_size = sizeof strict, .flags = FLX_KERNEL_STRICT};
    flx_kernel_derived *d = flx_kernel_grad(k, out, 1, in, 1, NULL, &err);
    CHECK(d != NULL);
    CHECK_EQ_U64(flx_kernel_derived_warning_count(d), 1);
    flx_kernel_derived_free(d);
    d = flx_kernel_grad(k, out, 1, in, 1, &strict, &err);
    CHECK(d == NULL);
    CHECK_EQ_STR(err.message, "not differentiable floor is piecewise constant: its derivative is zero");
    flx_kernel_release(k);
}

#define TWO_IN_KERNEL(value) \
    "kernel k() { buffer x: f32[1] read; buffer y: f32[1] read; buffer out: f32[1] output;" value "}"

TEST(kernel_40_pow_and_atan2)
{
    kernel_case_check(&(kernel_case){.text = TWO_IN_KERNEL("out[0] = pow(x[0], y[0]);"),
                                     .outputs = "out",
                                     .inputs = "x,y",
                                     .data = "x = 2; y = 3",
                                     .gradients = "grad_x = 12; grad_y = 5.545177444479562"});
    kernel_case_check(&(kernel_case){.text = TWO_IN_KERNEL("out[0] = atan2(x[0], y[0]);"),
                                     .outputs = "out",
                                     .inputs = "x,y",
                                     .data = "x = 1; y = 1",
                                     .gradients = "grad_x = 0.5; grad_y = -0.5"});
}

TEST(kernel_41_subgroups)
{
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer out: "
                                             "f32[4] output; let i = invocation_id(0);"
                                             "out[i] = subgroup_add(x[i]); }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3, 5; grad_out = 1, 2, 3, 4",
                                     .values = "out = 11, 11, 11, 11",
                                     .gradients = "grad_x = 10, 10, 10, 10"});
    kernel_case_check(&(kernel_case){.text = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer lane: "
                                             "u32[4] read; buffer out: f32[4] output;"
                                             "let i = invocation_id(0); out[i] = subgroup_shuffle(x[i], lane[i]); }",
                                     .outputs = "out",
                                     .inputs = "x",
                                     .data = "x = 1, 2, 3, 5; lane = 1, 1, 3, 0; grad_out = 1, 2, 3, 4",
                                     .values = "out = 2, 2, 5, 1",
                                     .gradients = "grad_x = 4, 3, 0, 3"});
}

TEST(kernel_42_zero_trips_and_unused_input)
{
    kernel_case_check(&(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer unused: f32[2] read; buffer "
                                             "n: u32[1] read; buffer out: f32[1] output;"
                                             "let a = x[0]; for (j in 0..n[0]) { a = a * a * 3.0; } out[0] = a; }",
                                     .outputs = "out",
                                     .inputs = "x,unused",
                                     .data = "x = 5; unused = 1, 2; n = 0",
                                     .values = "out = 5",
                                     .gradients = "grad_x = 1; grad_unused = 0, 0"});
}

TEST(kernel_43_local_named_like_a_buffer)
{
    kernel_case_check(
        &(kernel_case){.text = "kernel k() { buffer x: f32[1] read; buffer y: f32[1] read; buffer out: f32[1] output;"
                               "let y = x[0] * 2.0; let x = y * y; out[0] = x * 3.0; }",
                       .outputs = "out",
                       .inputs = "x,y",
                       .data = "x = 5; y = 7",
                       .gradients = "grad_x = 120; grad_y = 0"});
}

/* Runs the tangent kernel on data that includes tan_… and compares the results with the expected ones. */
static void check_tangents(const char *text, const char *inputs, const char *data, const char *expected)
{
    flx_kernel *k = flk(text);
    kernel_dataset set = {0}, want = {0};
    kernel_data_read(&set, k, data);
    kernel_data_read(&want, k, expected);
    const char *in[4], *const out[] = {"out"};
    char names[60];
    snprintf(names, sizeof names, "%s", inputs);
    size_t n = 0;
    for (char *s = strtok(names, ","); s; s = strtok(NULL, ","))
        in[n++] = s;
    flx_error err = {0};
    flx_kernel_derived *d = flx_kernel_jvp(k, out, 1, in, n, NULL, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    float memory[40][16];
    flx_kernel_memory m[40];
    kernel_data_zeros(&set, k, "tan_out", want.at[0].count);
    kernel_data_zeros(&set, k, "out", want.at[0].count);
    for (size_t i = 0; i < set.n; i++) {
        for (size_t j = 0; j < set.at[i].count; j++)
            memory[i][j] = (float)set.at[i].values[j];
        m[i] = (flx_kernel_memory){set.at[i].name, memory[i], set.at[i].count * sizeof(float)};
    }
    CHECK_OK(flx_kernel_derived_run(d, (const uint32_t[3]){1, 1, 1}, m, set.n, NULL, &err), &err);
    for (size_t i = 0; i < set.n; i++)
        for (size_t j = 0; strcmp(set.at[i].name, "tan_out") == 0 && j < want.at[0].count; j++)
            CHECK_NEAR(memory[i][j], want.at[0].values[j], 1e-6);
    flx_kernel_derived_free(d);
    flx_kernel_release(k);
    kernel_data_free(&set);
    kernel_data_free(&want);
}

TEST(kernel_44_forward_mode)
{
    check_tangents(horner, "x,c", "x = 2; c = 1, 2, 3, 4; tan_x = 1; tan_c = 0, 0, 0, 0", "tan_out = 62");
    check_tangents(MIN_MAX_KERNEL("max"), "x,y", "x = 1, 2, 3; y = 2, 2, 1; tan_x = 1, 1, 1; tan_y = 0, 0, 0",
                   "tan_out = 0, 0.5, 1");
}

/* The Hessian of the sum of `out` times v: the tangent of the gradient. */
static void check_hessian(const char *text, size_t n, const float *x, const float *v, const float *expected)
{
    flx_kernel *k = flk(text);
    flx_error err = {0};
    const char *const out = "out", *const in = "x", *const gradient = "grad_x";
    flx_kernel_derived *g = flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err);
    CHECK_MSG(g != NULL, "%s", err.message);
    flx_kernel_derived *h = flx_kernel_jvp(flx_kernel_derived_kernel(g, 0), &gradient, 1, &in, 1, NULL, &err);
    CHECK_MSG(h != NULL, "%s", err.message);
    float ones[4] = {1, 1, 1, 1}, once[4] = {0}, twice[4] = {0}, point[4], direction[4];
    memcpy(point, x, n * sizeof *x);
    memcpy(direction, v, n * sizeof *v);
    float tape[4] = {0}, tape_tangent[4] = {0};
    flx_kernel_memory m[] = {{"x", point, n * 4},
                             {"tan_x", direction, n * 4},
                             {"grad_out", ones, 0},
                             {"grad_x", once, n * 4},
                             {"tan_grad_x", twice, n * 4},
                             {"tape_0", tape, n * 4},
                             {"tan_tape_0", tape_tangent, n * 4}};
    m[2].size = strstr(text, "out: f32[1]") ? 4 : n * 4;
    bool has_tape = strstr(text, "p * x[j]") != NULL;
    CHECK_OK(flx_kernel_derived_run(h, (const uint32_t[3]){1, 1, 1}, m, has_tape ? 7 : 5, NULL, &err), &err);
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(twice[i], expected[i], 1e-4);
    flx_kernel_derived_free(h);
    flx_kernel_derived_free(g);
    flx_kernel_release(k);
}

TEST(kernel_45_second_order)
{
    check_hessian(sixth_power, 3, (const float[]){1, 2, -1}, (const float[]){1, 1, 1}, (const float[]){30, 480, 30});
    check_hessian(product, 3, (const float[]){2, 3, 4}, (const float[]){1, 0, 0}, (const float[]){0, 4, 3});
}

TEST(kernel_49_second_order_in_shared_memory)
{
    check_hessian(PREFIX_KERNEL("4", "2", "*"), 4, (const float[]){2, 3, 4, 5}, (const float[]){1, -1, 2, 0.5f},
                  (const float[]){17, 53, 9, 16});
}

/* Size of the gradient of a chain of tanh. */
static uint64_t chain_gradient(int terms)
{
    char text[8000];
    int n =
        snprintf(text, sizeof text, "kernel k() { buffer x: f32[1] read; buffer out: f32[1] output; let y0 = x[0];");
    for (int i = 0; i < terms; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "let y%d = tanh(y%d);", i + 1, i);
    snprintf(text + n, sizeof text - (size_t)n, "out[0] = y%d; }", terms);
    flx_kernel *k = flk(text);
    flx_error err = {0};
    const char *const out = "out", *const in = "x";
    flx_kernel_derived *g = flx_kernel_grad(k, &out, 1, &in, 1, NULL, &err);
    CHECK_MSG(g != NULL, "%s", err.message);
    uint64_t nodes = flx_kernel_derived_kernel(g, 0)->nodes;
    flx_kernel_derived_free(g);
    flx_kernel_release(k);
    return nodes;
}

/* Rejection of deep expressions: kernel_validate.c. */
TEST(kernel_50_chains_differentiate_in_linear_size)
{
    uint64_t half = chain_gradient(50), whole = chain_gradient(100);
    CHECK_MSG(whole <= 2 * half + 10, "%llu nodes for 50 terms, %llu for 100", (unsigned long long)half,
              (unsigned long long)whole);
}

/* The errors of number 46. */
static void check_refused(const char *text, const char *output, const char *input, uint64_t budget, const char *message)
{
    flx_kernel *k = flk(text);
    flx_error err = {0};
    flx_kernel_grad_options options = {.struct_size = sizeof options, .tape_budget = budget};
    flx_kernel_derived *d = flx_kernel_grad(k, &output, 1, &input, 1, &options, &err);
    CHECK(d == NULL);
    CHECK_EQ_I64(err.code, FLX_E_KERNEL);
    CHECK_EQ_STR(err.message, message);
    CHECK(err.hint[0] != 0);
    flx_kernel_release(k);
}

TEST(kernel_46_errors)
{
    check_refused(square, "out", "z", 0, "buffer not found 'z', requested as an input of 'square'");
    check_refused(
        "kernel k() { buffer a: u32[1] read; buffer b: u32[1] read; buffer out: u32[1] output; out[0] = a[0] & b[0]; }",
        "out", "a", 0, "not differentiable bit_and: buffer 'a' holds u32, which has no derivative");
    check_refused("kernel k() { buffer x: f32[1] read; buffer out: f32[1] output;"
                  "let old = atomic_exchange(out[0], x[0]); }",
                  "out", "x", 0, "not differentiable atomic_exchange has no derivative");
    check_refused("kernel k() { buffer x: f32[1] read; buffer out: f32[1] output;"
                  "out[0] = x[0]; resume(again); }",
                  "out", "x", 0, "unsupported statement resume has no derivative");
    check_refused("kernel k() { buffer x: f32[1] read; buffer g: u32[3] read; buffer out: f32[1] output;"
                  "out[0] = x[0]; indirect_dispatch(g, 0); }",
                  "out", "x", 0, "unsupported statement indirect_dispatch has no derivative");
    check_refused("kernel k(workgroup = [4, 1, 1]) { buffer x: f32[4] read; buffer out: f32[1] output;"
                  "out[0] = x[local_id(0)]; }",
                  "out", "x", 0, "racy all invocations of a workgroup store to the same element of 'out'");
    check_refused("kernel k() { buffer x: f32[1] read; buffer b: f32[1] read_write; buffer out: f32[1] output;"
                  "for (j in 0..1000) { b[0] = sin(b[0]) * x[0]; } out[0] = b[0]; }",
                  "out", "x", 64,
                  "resource limit the reverse of 'k' needs 4000 bytes of tape per invocation; the budget is 64");
}

/* A copy takes effect where the kernel waits for it. */
TEST(kernel_asynchronous_copies)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [4, 1, 1]) { buffer x: f32[8] read; buffer out: f32[8] output;"
                "buffer tile: f32[4] workgroup; let l = local_id(0); let i = invocation_id(0);"
                "if (l == 0) { async_load(x, tile, workgroup_id(0) * 16, 16, fetch); async_wait(fetch); }"
                "barrier(); out[i] = tile[l] * tile[3 - l]; }",
        .outputs = "out",
        .inputs = "x",
        .grid = {2, 1, 1},
        .data = "x = 1, 2, 3, 4, 5, 6, 7, 8",
        .values = "out = 4, 6, 6, 4, 40, 42, 42, 40",
        .gradients = "grad_x = 8, 6, 4, 2, 16, 14, 12, 10",
        .flags = CASE_F32_ONLY});
}

/* Barriers of the grid are reversed like those of a workgroup. */
TEST(kernel_grid_barrier)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k(workgroup = [2, 1, 1]) { buffer x: f32[4] read; buffer mid: f32[4] read_write; buffer out: "
                "f32[4] output;"
                "let i = invocation_id(0); mid[i] = x[i] * x[i]; barrier(grid); out[i] = mid[3 - i] * x[i]; }",
        .outputs = "out",
        .inputs = "x",
        .grid = {2, 1, 1},
        .data = "x = 1, 2, 3, 4; mid = 0*4",
        .values = "out = 16, 18, 12, 4",
        .gradients = "grad_x = 24, 21, 16, 9",
        .flags = CASE_INTERPRETED});
}

TEST(kernel_47_long_loop_within_a_budget)
{
    static const char text[] = "kernel k() { buffer x: f64[1] read; buffer out: f64[1] output; let y = x[0];"
                               "for (s in 0..100000) { y = y - 1e-5 * y * y; } out[0] = y; }";
    for (int limited = 0; limited < 2; limited++)
        kernel_case_check(&(kernel_case){.text = text,
                                         .outputs = "out",
                                         .inputs = "x",
                                         .data = "x = 1",
                                         .values = "out = 0.49999827",
                                         .gradients = "grad_x = 0.24999702",
                                         .tolerance = 2e-8,
                                         .flags = CASE_F32_ONLY | CASE_NO_SECOND,
                                         .tape_budget = limited ? 65536 : 0});
}

TEST(kernel_48_memory_torture)
{
    kernel_case_check(&(kernel_case){
        .text = "kernel k() { buffer x: f64[2] read; buffer b: f64[1] read_write; buffer out: f64[1] output;"
                "b[0] = x[0]; let q = 1.0f64;"
                "for (a in 0..3) { let u = b[0]; for (c in 0..a + 1) { q = q * sin(b[0]); b[0] = b[0] * x[1]; }"
                "if (b[0] > u) { b[0] = b[0] + q; } else { q = q + u; } } out[0] = q * b[0]; }",
        .outputs = "out",
        .inputs = "x",
        .data = "x = 0.7, 1.1; b = 0",
        .values = "out = 0.2282967",
        .gradients = "grad_x = -4.3259765, -10.0001614",
        .tolerance = 1e-7,
        .flags = CASE_F32_ONLY});
}
