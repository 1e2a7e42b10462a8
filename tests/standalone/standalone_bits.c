/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_bits.c: products and convolutions of C files with vectors have the bits of the device `cpu`, factors of
   large matrices too, and so do Fourier transforms of all C files. */
#include "standalone/c_file.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    unsigned char *arena;
} bare_model;

static flx_tensor *random_value(flx_context *ctx, const flx_type *type, uint32_t seed)
{
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(ctx, type, NULL, &err);
    CHECK_MSG(t, "%s", err.message);
    float *at = flx_tensor_data(t);
    size_t count = 1;
    for (int k = 0; k < type->rank; k++)
        count *= (size_t)type->dims[k];
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        at[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    return t;
}

static size_t count_of(const flx_type *type)
{
    size_t count = 1;
    for (int k = 0; k < type->rank; k++)
        count *= (size_t)type->dims[k];
    return count;
}

/* An infinity and a NaN, if there is room for them. */
static void spoil(flx_tensor *t, size_t count)
{
    float *at = flx_tensor_data(t);
    if (count > 40) {
        at[7] = INFINITY;
        at[count - 9] = NAN;
    }
}

/* The sign and the payload of a NaN are not specified. */
static bool has_same_bits(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* Runs the file and the device with these inputs. */
static void check_run(const flx_graph *g, c_file *f, void *memory, flx_tensor *const in[2], const char *body)
{
    flx_error err = {0};
    flx_feed feeds[2];
    flx_tensor *expected = NULL;
    const void *from[2];
    for (size_t i = 0; i < 2; i++) {
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)), in[i]};
        from[i] = flx_tensor_const_data(in[i]);
    }
    const flx_run_options run_options = {.struct_size = sizeof run_options, .device = "cpu"};
    CHECK_OK(flx_run(g, &run_options, feeds, 2, &expected, &err), &err);
    const flx_type *type = flx_val_type(g, flx_graph_output(g, 0));
    flx_tensor *got = flx_tensor_new(flx_graph_context(g), type, NULL, &err);
    CHECK(got);
    int (*init)(bare_model *, void *);
    int (*run)(const bare_model *, const void *const *, void *const *);
    *(void **)&init = c_file_symbol(f, "model_init");
    *(void **)&run = c_file_symbol(f, "model_run");
    bare_model m;
    void *to[1] = {flx_tensor_data(got)};
    CHECK(init(&m, memory) == 0);
    CHECK(run(&m, from, to) == 0);
    CHECK_MSG(has_same_bits(to[0], flx_tensor_const_data(expected), count_of(type)), "%s: other bits than cpu", body);
    flx_tensor_release(got);
    flx_tensor_release(expected);
}

/* A graph of two inputs and one output, all f32, with numbers, then with an infinity and a NaN among them. */
static void check_bits_of(const char *body, int32_t vector_bytes, const char *flags)
{
    char text[600];
    flx_error err = {0};
    flx_context *ctx = bundle_context();
    snprintf(text, sizeof text, "graph model(%s\n}\n", body);
    flx_module *module = flx_parse(ctx, text, strlen(text), "bits.flx", &err);
    CHECK_MSG(module, "%s: %s", body, err.message);
    const flx_graph *g = flx_module_main(module);
    flx_buffer source;
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    const flx_build_options o = {
        .struct_size = sizeof o, .flags = FLX_BUILD_TABLES, .name = "model", .vector_bytes = vector_bytes};
    CHECK_OK(flx_build_c(g, &o, &source, NULL, &sizes, &err), &err);
    CHECK_MSG(!strstr(body, "quantize(") || !vector_bytes || strstr(source.data, "dots_of_bytes"), "%s: no bytes",
              body);
    c_file *f = c_file_compile(&source, "gcc", flags);
    c_file_memory memory = c_file_memory_new((size_t)sizes.memory_bytes);
    flx_tensor *in[2];
    for (size_t i = 0; i < 2; i++)
        in[i] = random_value(ctx, flx_val_type(g, flx_graph_input(g, i)), (uint32_t)i + 7);
    check_run(g, f, memory.at, in, body);
    for (size_t i = 0; i < 2; i++)
        spoil(in[i], count_of(flx_val_type(g, flx_graph_input(g, i))));
    check_run(g, f, memory.at, in, body);
    c_file_memory_free(&memory);
    c_file_free(f);
    flx_buffer_free(&source);
    flx_tensor_release(in[0]);
    flx_tensor_release(in[1]);
    flx_module_free(module);
    flx_context_free(ctx);
}

static void check_bits(const char *body)
{
    check_bits_of(body, 32, "-O1 -mavx2 -mfma");
}

static void check_plain_bits(const char *body)
{
    check_bits_of(body, 0, "-O1");
}

TEST(standalone_products_have_bits_of_cpu)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    check_bits("a: f32[37, 1100], b: f32[1100, 75]) {\n  return matmul(a, b)");
    check_bits("a: f32[1, 300], b: f32[300, 260]) {\n  return matmul(a, b)");
    check_bits("a: f32[300, 50], b: f32[300, 70]) {\n  return matmul(transpose(a, perm=[1, 0]), b)");
}

/* Squares of columns, or of sums, that are turned in registers, and what is left beside them. */
TEST(standalone_turned_products_have_bits_of_cpu)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    check_bits("a: f32[50, 1100], b: f32[75, 1100]) {\n  return matmul(a, transpose(b, perm=[1, 0]))");
    check_bits("a: f32[33, 61], b: f32[40, 61]) {\n  return matmul(a, transpose(b, perm=[1, 0]))");
    check_bits("a: f32[21, 64], b: f32[1500, 64]) {\n  return matmul(a, transpose(b, perm=[1, 0]))");
    check_bits(
        "x: f32[2, 3, 14, 23], z: f32[2, 19, 12, 21]) {\n  return conv_backward_weight(x, z, kernel_size=[3, 3])");
}

/* With 32 registers eight rows are one tile. */
TEST(standalone_products_of_eight_rows_have_bits_of_cpu)
{
    static const char flags[] = "-O1 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma";
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return;
    check_bits_of("a: f32[8, 90], b: f32[90, 119]) {\n  return matmul(a, b)", 64, flags);
    check_bits_of("a: f32[7, 1100], b: f32[1100, 96]) {\n  return matmul(a, b)", 64, flags);
}

/* Numbers that are rounded to bytes are multiplied as integers, which is exact. */
TEST(standalone_products_of_bytes_have_bits_of_cpu)
{
    static const char *const products[] = {
        "a: f32[37, 70], b: f32[70, 45]) {\n  p = cast(quantize(a, scales=[0.01]), to=i32)\n"
        "  return cast(matmul(p, cast(quantize(b, scales=[0.01]), to=i32)), to=f32)",
        "a: f32[5, 130], b: f32[131, 130]) {\n  p = cast(cast(abs(mul(a, 200)), to=u8), to=i32)\n"
        "  q = cast(quantize(b, scales=[0.01]), to=i32)\n"
        "  return cast(dot_general(p, q, lc=[1], rc=[1]), to=f32)",
        "a: f32[3, 20, 64], b: f32[3, 64, 18]) {\n  p = cast(quantize(a, scales=[0.01]), to=i32)\n"
        "  return cast(matmul(p, cast(quantize(b, scales=[0.01]), to=i32)), to=f32)"};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        check_bits(products[i]);
        check_plain_bits(products[i]);
    }
}

TEST(standalone_convolutions_have_bits_of_cpu)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    check_bits("x: f32[2, 90, 13, 11], w: f32[7, 90, 3, 3]) {\n  return conv(x, w, padding=[1, 1], stride=[2, 2])");
    check_bits("x: f32[2, 5, 12, 12], w: f32[8, 5, 3, 3]) {\n  return conv(x, w, dilation=[2, 2])");
}

/* A table that init makes, constants, a length with a large prime factor, and odd lengths; with and without vectors. */
TEST(standalone_transforms_have_bits_of_cpu)
{
    const char *const body = "a: f32[2, 5000], b: f32[2, 74]) {\n  xr, xi = rfft(a, n=8192)\n  br, bi = rfft(b, n=74)\n"
                             "  y = concat(irfft(xr, xi, n=8192), irfft(br, bi, n=75), fft(b, norm=ortho), axis=1)\n"
                             "  return concat(y, fft(a, inverse=true), irfft(xr, xi, n=900), axis=1)";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_bits(body);
    check_plain_bits(body);
}

/* Two matrices that blocks factor, one with a leaf that is not full; one right-hand side is solved by dot products. */
TEST(standalone_factors_have_bits_of_cpu)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    check_bits(
        "a: f32[44, 44], b: f32[44, 19]) {\n  l, p, o = lu(a)\n  c = transpose(b, perm=[1, 0])\n"
        "  one = solve(a, narrow(b, axis=1, start=0, len=1))\n  u = cholesky(matmul(a, transpose(a, perm=[1, 0])))\n"
        "  x = solve_triangular(l, b, lower=true, unit_diagonal=true)\n"
        "  t = transpose(solve_triangular(l, c, lower=false, left_side=false), perm=[1, 0])\n"
        "  return concat(l, one, u, x, t, solve(a, b), inv(a), axis=1)");
}
