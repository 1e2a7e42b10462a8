/* SPDX-License-Identifier: Apache-2.0 */
/* route_samples.c: every route on the samples of its op, and on shapes large enough for blocks, chunks and threads. */
#include "backend/cpu/routes/random_blocks.h"
#include "ops/opcode.h"
#include "route_check.h"

#include "ops/sample.h"
#include "test.h"

#include <stdio.h>

static bool has_route(flxi_opcode op)
{
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    for (size_t i = 0; i < count; i++)
        if (list[i].op == op)
            return true;
    return false;
}

/* Ops that only move elements: they must carry NaNs, infinities and both zeros through as the definition does. */
static bool is_movement(flxi_opcode op)
{
    return op == OP_transpose || op == OP_concat || op == OP_sort || op == OP_argsort || op == OP_topk ||
           op == OP_top_k;
}

static void check_values(flx_context *ctx, const flx_graph *g, const sample_case *c, sample_fill fill)
{
    flx_error err = {0};
    flx_tensor *in[SAMPLE_MAX_OPERANDS] = {0};
    uint64_t seed = test_seed() + (uint64_t)c->op;
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++)
        in[i] = sample_value(ctx, c, i, flx_val_type(g, flx_graph_input(g, i)), fill, &seed, &err);
    const char *why = NULL;
    bool done = route_check(g, (const flx_tensor *const *)in, NULL, &why);
    CHECK_MSG(done || (why && *why), "a refusal has a reason");
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
}

static void check_sample(const sample_case *c)
{
    flx_error err = {0};
    flx_dim_binding dims[8];
    size_t num_dims = 0;
    if (!has_route(c->op) || c->sample->error != FLX_OK)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    CHECK_MSG(m, "%s", err.message);
    const flx_graph *g = flx_module_find(m, "sample");
    for (const char *s; num_dims < 8 && (s = flx_graph_symbol(g, num_dims)) != NULL; num_dims++)
        dims[num_dims] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(g, dims, num_dims, &err);
    if (bound) { /* else the sample does not exist for this extent */
        check_values(ctx, bound, c, FILL_RANDOM);
        if (is_movement(c->op))
            check_values(ctx, bound, c, FILL_SPECIAL);
        flx_graph_release(bound);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(routes_agree_with_definitions_on_samples)
{
    sample_each(check_sample);
}

TEST(routes_of_transforms_on_larger_shapes)
{
    route_check_text("fft", "f32[19, 1000]", NULL, 0, 0);
    route_check_text("fft", "f32[3, 16384]", "inverse=true, norm=ortho", 0, 0);
    route_check_text("fft", "c64[9, 509]", "norm=forward", 0, 0);
    route_check_text("fft", "c128[2, 3, 4099]", "inverse=true", 0, 0);
    route_check_text("fft", "f64[40, 2, 62]", "norm=none", 0, 0);
    route_check_text("fft", "c64[33, 45]", "inverse=true", 0, 0);
    route_check_text("fft_axis", "c64[3, 1024, 37]", "axis=1", 0, 0);
    route_check_text("fft_axis", "c128[60, 3]", "axis=0, inverse=true, norm=ortho", 0, 0);
    route_check_text("fft_axis", "f32[2, 998, 20]", "axis=1, inverse=true", 0, 0);
    route_check_text("fft_axis", "c64[2, 12, 31]", "axis=1, inverse=true", 0, 0);
    route_check_text("fft", "c64[2, 65536]", NULL, 0, 0);
    route_check_text("fft", "c128[131072]", "inverse=true, norm=none", 0, 0);
    route_check_text("fft", "f32[2, 202752]", "inverse=true", 0, 0);
    route_check_text("fft", "f64[1, 200000]", NULL, 0, 0);
    route_check_text("rfft", "f32[2, 131072]", "norm=ortho", 0, 0);
    route_check_text("rfft", "f64[100001]", "n=131072", 0, 0);
    route_check_text("irfft", "f32[2, 65537], f32[2, 65537]", NULL, 0, 0);
    route_check_text("irfft", "f64[70000], f64[70000]", "n=131072", 0, 0);
    route_check_text("rfft_complex", "f32[2, 131072]", NULL, 0, 0);
    route_check_text("irfft_complex", "c64[2, 65537]", "norm=ortho", 0, 0);
    route_check_text("rfft_complex", "f32[3, 1000]", "n=1500", 0, 0);
    route_check_text("rfft_complex", "f64[3, 625]", NULL, 0, 0);
    route_check_text("irfft_complex", "c64[3, 500]", "n=1500, norm=forward", 0, 0);
    route_check_text("irfft_complex", "c128[3, 313]", "n=625", 0, 0);
    route_check_text("rfft", "f32[5, 4096]", NULL, 0, 0);
    route_check_text("rfft", "f64[3, 1000]", "n=1536, norm=ortho", 0, 0);
    route_check_text("rfft", "f32[2, 2018]", "norm=forward", 0, 0);
    route_check_text("rfft", "f64[4, 999]", NULL, 0, 0);
    route_check_text("irfft", "f32[5, 2049], f32[5, 2049]", NULL, 0, 0);
    route_check_text("irfft", "f64[3, 500], f64[3, 500]", "n=1536, norm=ortho", 0, 0);
    route_check_text("irfft", "f32[2, 1010], f32[2, 1010]", NULL, 0, 0);
    route_check_text("irfft", "f64[4, 700], f64[4, 700]", "n=999, norm=forward", 0, 0);
}

TEST(routes_of_products_on_larger_shapes)
{
    route_check_text("matmul", "f32[70, 90], f32[90, 80]", NULL, 0, 0);
    route_check_text("matmul", "f32[3, 1, 40, 30], f32[5, 30, 20]", NULL, 0, 0);
    route_check_text("matmul", "bf16[2, 1, 17], bf16[17, 40]", NULL, 0, 0);
    route_check_text("dot_general", "f32[6, 20, 5, 8], f32[5, 6, 8, 30]", "lc=[3, 2], rc=[2, 0], lb=[0], rb=[1]", 0, 0);
    route_check_text("dot_general", "c64[12, 9, 10], c64[9, 11, 10]", "lc=[1, 2], rc=[0, 2]", 0, 0);
    route_check_text("dot_general", "f64[600, 7], f64[600, 9]", "lc=[0], rc=[0]", 0, 0);
    route_check_text("dot_general", "i8[40, 30], i8[30, 20]", "lc=[1], rc=[0]", -128, 127);
}

TEST(routes_of_convolutions_on_larger_shapes)
{
    static const char *const dtypes[] = {"f32", "f64", "bf16", "f16"};
    for (int i = 0; i < 4; i++) {
        static const struct {
            const char *op, *x, *w, *attrs;
        } rows[] = {
            {"conv", "[2, 5, 13, 11]", "[7, 5, 3, 3]", "padding=[1, 1]"},
            {"conv", "[2, 6, 13, 11]", "[8, 3, 3, 2]", "padding=[[2, 1], [0, 2]], groups=2, stride=[2, 3]"},
            {"conv", "[1, 40, 12, 12]", "[20, 40, 3, 3]", "dilation=[2, 1], padding=[3, 1]"},
            {"conv", "[3, 1, 200]", "[20, 1, 31]", "stride=[4], padding=[15]"},
            {"conv", "[2, 9, 9, 8]", "[3, 3, 8, 10]",
             "input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], output_axes=[0, 3, 1, 2], padding=[1, 1]"},
            {"conv", "[2, 9, 9, 8]", "[3, 3, 4, 10]",
             "input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], output_axes=[0, 3, 1, 2], groups=2, stride=[2, 2]"},
            {"conv", "[2, 7, 6, 2]", "[3, 2, 2, 5]",
             "input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], output_axes=[0, 3, 1, 2], reverse=[true, true]"},
            {"conv", "[1, 3, 5, 6, 7]", "[4, 3, 2, 3, 2]", "padding=[1, 0, 1], input_dilation=[2, 1, 3]"},
            {"conv_backward_input", "[2, 7, 13, 11]", "[7, 5, 3, 3]", "input_size=[13, 11], padding=[1, 1]"},
            {"conv_backward_input", "[2, 8, 7, 6]", "[8, 3, 3, 2]",
             "input_size=[13, 11], padding=[[1, 1], [1, 1]], groups=2, stride=[2, 2]"},
            {"conv_backward_weight", "[3, 5, 13, 11]", "[3, 7, 13, 11]", "kernel_size=[3, 3], padding=[1, 1]"},
            {"conv_backward_weight", "[2, 6, 13, 11]", "[2, 8, 7, 6]",
             "kernel_size=[3, 2], padding=[[1, 1], [1, 1]], groups=2, stride=[2, 2]"},
            {"conv_backward_input", "[2, 4, 7, 3]", "[4, 3, 5, 4]",
             "input_size=[33, 20], padding=[[2, 1], [0, 1]], dilation=[4, 2], stride=[3, 6]"},
            {"conv_backward_input", "[1, 4, 4]", "[4, 3, 2]", "input_size=[21], stride=[5], dilation=[1]"},
            {"conv_transpose", "[2, 4, 6, 5]", "[4, 6, 4, 3]", "stride=[2, 3], padding=[1, 0], dilation=[1, 2]"},
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            char operands[120];
            snprintf(operands, sizeof operands, "%s%s, %s%s", dtypes[i], rows[r].x, dtypes[i], rows[r].w);
            route_check_text(rows[r].op, operands, rows[r].attrs, 0, 0);
            route_check_text_by("patches", rows[r].op, operands, rows[r].attrs, 0, 0);
        }
    }
}

TEST(routes_of_convolutions_of_integers_wrap_around)
{
    static const char *const dtypes[] = {"i32", "u32", "i64", "u64"};
    for (int i = 0; i < 4; i++) {
        char operands[120];
        double most = 0x1p30, least = i % 2 ? 0 : -most;
        snprintf(operands, sizeof operands, "%s[2, 5, 13, 11], %s[7, 5, 3, 3]", dtypes[i], dtypes[i]);
        route_check_text("conv", operands, "padding=[1, [2, 0]]", least, most);
        snprintf(operands, sizeof operands, "%s[2, 9, 9, 8], %s[3, 3, 4, 10]", dtypes[i], dtypes[i]);
        route_check_text("conv", operands,
                         "input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], output_axes=[0, 3, 1, 2], groups=2, "
                         "stride=[2, 2], input_dilation=[2, 1]",
                         least, most);
    }
}

TEST(routes_of_random_numbers_on_larger_shapes)
{
    static const char *const dtypes[] = {"f32", "f64", "bf16"}, *const whole[] = {"u32", "i64", "u16"};
    char attrs[120];
    for (int i = 0; i < 3; i++) {
        char operands[40];
        snprintf(operands, sizeof operands, "u32[2], %s[3001]", dtypes[i]);
        route_check_text("gamma", operands, "shape=[3, 3001]", 0, 1e9);
        snprintf(attrs, sizeof attrs, "shape=[3, 3001], dtype=%s, stream=5", dtypes[i]);
        route_check_text("rng_uniform", "u32[2]", attrs, 0, 1e9);
        snprintf(attrs, sizeof attrs, "shape=[20000], dtype=%s, lo=-1.5, hi=0.25", dtypes[i]);
        route_check_text("rng_uniform", "u32[2]", attrs, 0, 1e9);
        snprintf(attrs, sizeof attrs, "shape=[3, 3001], dtype=%s", whole[i]);
        route_check_text("rng_bits", "u32[2]", attrs, 0, 1e9);
        for (int k = 0; k < 2; k++) {
            snprintf(attrs, sizeof attrs, "shape=[3, 3001], dtype=%s, algorithm=%s", whole[i],
                     k ? "philox4x32" : "threefry2x32");
            route_check_text("rng_bit_generator", "u64[2]", attrs, 0, 1e9);
        }
    }
}

TEST(words_of_blocks_in_vectors_are_those_of_the_generator)
{
    static const uint64_t lows[] = {0, UINT32_MAX - 20, UINT64_MAX - 40, UINT64_MAX - 31, UINT64_MAX - 32};
    uint32_t words[32 * 4];
    for (size_t i = 0; i < sizeof lows / sizeof *lows; i++) {
        flxi_rng g = flxi_rng_seeded(UINT64_C(0x123456789ABCDEF), UINT64_MAX);
        g.low = lows[i];
        flxi_philox_words(&g, 0, 32, words);
        for (uint64_t w = 0; w < 32 * 4; w++)
            CHECK_MSG(words[w] == flxi_rng_word(&g, w), "word %llu from block %llu", (unsigned long long)w,
                      (unsigned long long)lows[i]);
        flxi_philox_words(&g, 7, 16, words);
        for (uint64_t w = 0; w < 16 * 4; w++)
            CHECK_MSG(words[w] == flxi_rng_word(&g, 7 * 4 + w), "word %llu", (unsigned long long)w);
    }
}

TEST(routes_that_move_on_larger_shapes)
{
    static const char *const dtypes[] = {"f64", "f32", "bf16", "i8", "c128"};
    for (int i = 0; i < 5; i++) {
        static const struct {
            const char *op, *x, *attrs;
        } rows[] = {
            {"transpose", "[70, 45]", NULL},
            {"transpose", "[3, 70, 1, 45]", "perm=[0, 3, 2, 1]"},
            {"transpose", "[5, 33, 4, 40]", "perm=[3, 0, 2, 1]"},
            {"transpose", "[5, 33, 4, 40]", "perm=[2, 1, 0, 3]"},
            {"transpose", "[300, 300]", "perm=[1, 0]"},
        };
        char operands[120];
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            snprintf(operands, sizeof operands, "%s%s", dtypes[i], rows[r].x);
            route_check_text(rows[r].op, operands, rows[r].attrs, -100, 100);
        }
        snprintf(operands, sizeof operands, "%s[50, 30, 4], %s[50, 7, 4], %s[50, 0, 4]", dtypes[i], dtypes[i],
                 dtypes[i]);
        route_check_text("concat", operands, "axis=1", -100, 100);
        snprintf(operands, sizeof operands, "%s[90, 60], i32[700]", dtypes[i]);
        route_check_text("gather", operands, NULL, 0, 89);
        snprintf(operands, sizeof operands, "%s[20, 90, 10], i64[700]", dtypes[i]);
        route_check_text("gather", operands, "axis=1, oob=clamp", -20, 120);
    }
}

TEST(routes_of_scattering_on_larger_shapes)
{
    static const char *const dtypes[] = {"f64", "f32", "bf16", "f16", "i8", "u16", "i32", "u64", "c64"};
    for (int i = 0; i < 9; i++) {
        char operands[120];
        snprintf(operands, sizeof operands, "%s[900, 130], i32[900]", dtypes[i]);
        route_check_text("scatter_add", operands, "R=40", 0, 39);
        snprintf(operands, sizeof operands, "%s[9000], i64[9000]", dtypes[i]);
        route_check_text("scatter_add", operands, "R=700", 0, 699);
        snprintf(operands, sizeof operands, "%s[30, 30], u8[30, 30]", dtypes[i]);
        route_check_text("scatter_add", operands, "R=40, oob=zero", 0, 80);
    }
}

/* Elements, rows, columns and windows; indices of each dtype, in range and outside of it. */
TEST(routes_gather_windows)
{
    static const struct {
        const char *op, *operands, *attrs;
        double low, high;
    } rows[] = {
        {"gather", "%s[5000], i32[3000]", NULL, 0, 4999},
        {"gather", "%s[500], u16[30, 100]", "oob=zero", 0, 700},
        {"gather", "%s[70, 40], i32[300]", "axis=1", 0, 39},
        {"gather", "%s[700, 40], i32[3]", "axis=1, oob=clamp", -20, 60},
        {"gather", "%s[3, 9, 700], i64[1]", "axis=1", 0, 8},
        {"gather", "%s[9, 5], f32[40]", "oob=zero", 0, 0},
        {"gather", "%s[9, 5], f64[40]", "oob=clamp", 0, 0},
        {"take_along", "%s[40, 70], i32[40, 90]", NULL, 0, 69},
        {"take_along", "%s[40, 70], i64[90, 70]", "axis=0", 0, 39},
        {"take_along", "%s[9, 40, 7], i8[9, 50, 7]", "axis=1, oob=zero", -20, 60},
        {"take_along", "%s[600, 70], u64[600, 1]", "oob=clamp", 0, 90},
        {"gather_nd", "%s[40, 70], i32[300]",
         "slice_sizes=[1, 70], start_index_map=[0], collapsed_axes=[0], offset_axes=[1], index_vector_axis=1", 0, 39},
        {"gather_nd", "%s[40, 70], i64[300, 2]", "slice_sizes=[1, 1], start_index_map=[1, 0], collapsed_axes=[0, 1]", 0,
         39},
        {"gather_nd", "%s[40, 70], u32[2, 300]",
         "slice_sizes=[1, 1], start_index_map=[0, 1], collapsed_axes=[0, 1], index_vector_axis=0, oob=clamp", 0, 80},
        {"gather_nd", "%s[40, 70], i32[2, 300]",
         "slice_sizes=[1, 1], start_index_map=[0, 1], collapsed_axes=[0, 1], index_vector_axis=0, oob=zero", -30, 80},
        {"gather_nd", "%s[40, 70], i32[300, 2]",
         "slice_sizes=[3, 5], start_index_map=[0, 1], offset_axes=[1, 2], oob=zero", -9, 60},
        {"gather_nd", "%s[40, 70], f32[300, 2]",
         "slice_sizes=[3, 5], start_index_map=[0, 1], offset_axes=[1, 2], oob=zero", -9, 60},
        {"gather_nd", "%s[40, 70], u8[300, 2]",
         "slice_sizes=[3, 5], start_index_map=[0, 1], offset_axes=[0, 2], oob=clamp", 0, 90},
        {"gather_nd", "%s[40, 70], i16[50, 1]", "slice_sizes=[3, 70], start_index_map=[0], offset_axes=[0, 1]", 0, 37},
        {"gather_nd", "%s[6, 40, 33], i32[6, 50]",
         "slice_sizes=[1, 1, 33], start_index_map=[1], collapsed_axes=[1], offset_axes=[2], "
         "operand_batching_axes=[0], indices_batching_axes=[0], index_vector_axis=2",
         0, 39},
        {"gather_nd", "%s[33, 40, 6], i32[50, 6]",
         "slice_sizes=[33, 1, 1], start_index_map=[1], collapsed_axes=[1], offset_axes=[1], "
         "operand_batching_axes=[2], indices_batching_axes=[1], index_vector_axis=2",
         0, 39},
        {"gather_nd", "%s[900, 70], i32[1]",
         "slice_sizes=[800, 3], start_index_map=[0], offset_axes=[0, 1], index_vector_axis=0", 0, 100},
    };
    static const char *const dtypes[] = {"f32", "f64", "bf16", "c128", "i8", "bool"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            char operands[120];
            snprintf(operands, sizeof operands, rows[i].operands, dtypes[d]);
            route_check_text(rows[i].op, operands, rows[i].attrs, rows[i].low, rows[i].high);
        }
}

/* Rows, points, batches and moved windows, large enough for threads. */
TEST(route_scatters_windows)
{
    static const struct {
        const char *operands, *attrs;
        double low, high;
    } rows[] = {
        {"%s[40, 70], i32[300], %s[300, 70]",
         "start_index_map=[0], collapsed_axes=[0], offset_axes=[1], index_vector_axis=1", 0, 39},
        {"%s[40, 70], i64[300, 2], %s[300]", "start_index_map=[0, 1], collapsed_axes=[0, 1]", 0, 39},
        {"%s[40, 70], i32[300, 2], %s[300, 3, 5]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=zero", -9, 60},
        {"%s[40, 70], u8[300, 2], %s[300, 3, 5]", "start_index_map=[0, 1], offset_axes=[1, 2], oob=clamp", 0, 90},
        {"%s[6, 40, 33], i32[6, 50], %s[6, 50, 33]",
         "start_index_map=[1], collapsed_axes=[1], offset_axes=[2], operand_batching_axes=[0], "
         "indices_batching_axes=[0], index_vector_axis=2",
         0, 39},
        {"%s[70, 40], i32[300], %s[70, 300]",
         "start_index_map=[1], collapsed_axes=[1], offset_axes=[0], index_vector_axis=1", 0, 39},
        {"%s[400], i16[3000], %s[3000]", "start_index_map=[0], collapsed_axes=[0], index_vector_axis=1, oob=zero", -200,
         600},
        {"%s[40, 9], f32[300], %s[300, 9]",
         "start_index_map=[0], collapsed_axes=[0], offset_axes=[1], index_vector_axis=1, oob=zero", 0, 0},
        {"%s[20, 40, 33], i32[20, 50, 33], %s[20, 50, 33]",
         "start_index_map=[1], collapsed_axes=[1], operand_batching_axes=[0, 2], indices_batching_axes=[0, 2], "
         "index_vector_axis=3",
         0, 39},
    };
    static const char *const dtypes[] = {"f32", "f64", "bf16", "f16", "c64", "i32", "u8", "bool"};
    static const char *const combines[] = {"", ", combine=set", ", combine=mul"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (size_t c = 0; c < sizeof combines / sizeof *combines; c++) {
                if (!effort(EFFORT_compiled_all) && (i + d + c) % 3) /* all pairs of row, dtype and combine */
                    continue;
                char operands[120], attrs[260];
                snprintf(operands, sizeof operands, rows[i].operands, dtypes[d], dtypes[d]);
                snprintf(attrs, sizeof attrs, "%s%s", rows[i].attrs, combines[c]);
                route_check_text("scatter_nd", operands, attrs, rows[i].low, rows[i].high);
            }
}

/* Groups of every size from none to all rows, whole sizes and filled ones. */
TEST(routes_of_grouped_products_on_larger_shapes)
{
    static const char *const dtypes[] = {"f64", "f32", "bf16", "f16", "c64", "i8", "u32", "bool"};
    for (int i = 0; i < 8; i++) {
        char operands[120];
        const char *d = dtypes[i];
        snprintf(operands, sizeof operands, "%s[80, 33], %s[7, 33, 21], i32[80]", d, d);
        route_check_text("grouped_matmul", operands, NULL, 0, 6);
        route_check_text("grouped_matmul", operands, "oob=clamp", -3, 9);
        snprintf(operands, sizeof operands, "%s[50, 9], %s[30, 9, 40], i64[50]", d, d);
        route_check_text("grouped_matmul", operands, "oob=zero", -10, 40);
        snprintf(operands, sizeof operands, "%s[80, 21], %s[7, 33, 21], i32[80]", d, d);
        route_check_text("grouped_matmul_input_backward", operands, NULL, 0, 6);
        snprintf(operands, sizeof operands, "%s[80, 33], %s[80, 21], i32[80]", d, d);
        route_check_text("grouped_matmul_weight_backward", operands, "E=7", 0, 6);
        route_check_text("grouped_matmul_weight_backward", operands, "E=1", 0, 0);
        snprintf(operands, sizeof operands, "%s[50, 9], %s[50, 40], u8[50]", d, d);
        route_check_text("grouped_matmul_weight_backward", operands, "E=30, oob=zero", 0, 40);
    }
}

TEST(routes_of_sorting_on_larger_shapes)
{
    static const char *const dtypes[] = {"f64", "f32", "bf16", "i8", "u64", "i64"};
    for (int i = 0; i < 6; i++) {
        char operands[120];
        snprintf(operands, sizeof operands, "%s[40, 333]", dtypes[i]);
        route_check_text("argsort", operands, NULL, -100, 100);
        route_check_text("argsort", operands, "axis=0, descending=true", -100, 100);
        route_check_text("sort", operands, "axis=0", -100, 100);
        route_check_text("topk", operands, "k=7", -100, 100);
        route_check_text("topk", operands, "k=200, dtype=i64", -100, 100);
    }
}

TEST(routes_of_random_bits_on_larger_shapes)
{
    static const char *const dtypes[] = {"u8", "i16", "u32", "i64"};
    static const char *const shapes[] = {"[5000]", "[4999]", "[31, 44, 9]", "[31, 45, 9]", "[2, 2, 3001]"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            char attrs[120];
            snprintf(attrs, sizeof attrs, "shape=%s, dtype=%s, algorithm=philox4x32", shapes[k], dtypes[i]);
            route_check_text("rng_bit_generator", "u64[2]", attrs, -9e18, 9e18);
            route_check_text("rng_bit_generator", "u32[6]", attrs, 0, 4e9);
            snprintf(attrs, sizeof attrs, "shape=%s, dtype=%s, algorithm=threefry2x32", shapes[k], dtypes[i]);
            route_check_text("rng_bit_generator", "u64[2]", attrs, -9e18, 9e18);
            route_check_text("rng_bit_generator", "u32[4]", attrs, 0, 4e9);
        }
}

TEST(routes_of_running_sums_on_larger_shapes)
{
    static const char *const dtypes[] = {"f64", "f32", "i8", "u16", "i32", "u64"};
    for (int i = 0; i < 6; i++) {
        char operands[120];
        snprintf(operands, sizeof operands, "%s[40, 3, 333]", dtypes[i]);
        route_check_text("cumsum", operands, "axis=0, reverse=true", -100, 100);
        route_check_text("cumsum", operands, "exclusive=true", -100, 100);
    }
}
