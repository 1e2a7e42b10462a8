/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_extents.c: products and convolutions that are larger than samples: tiles with remainders,
   packed operands, rows of convolutions at borders. */
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const char *const graphs[] = {
    "graph f(a: f32[17, 33], b: f32[33, 19]) { return matmul(a, b) }",
    "graph f(a: f32[5, 1, 2], b: f32[5, 3, 2]) { return concat(a, b, a, b, a, b, a, b, a, b, axis=1) }",
    "graph f(a: f32[8, 16], b: f32[16, 32]) { return matmul(a, b) }",
    "graph f(a: f32[13, 20], b: f32[35, 20]) { return dot_general(a, b, lc=[1], rc=[1]) }",
    "graph f(a: f64[20, 13], b: f64[20, 21]) { return dot_general(a, b, lc=[0], rc=[0]) }",
    "graph f(a: f16[9, 40], b: f16[40, 18]) { return matmul(a, b) }",
    "graph f(a: bf16[9, 40], b: bf16[18, 40]) { return dot_general(a, b, lc=[1], rc=[1]) }",
    "graph f(a: f32[2, 3, 9, 8], b: f32[3, 8, 17]) { return matmul(a, b) }",
    "graph f(a: c64[9, 7], b: c64[7, 18]) { return matmul(a, b) }",
    "graph f(a: i8[9, 30], b: i8[30, 17]) { return matmul(a, b) }",
    "graph f(x: f32[2, 3, 9, 11], w: f32[4, 3, 3, 3]) { return conv(x, w, padding=[1, 1]) }",
    "graph f(x: f32[1, 4, 10, 13], w: f32[6, 2, 3, 2]) { return conv(x, w, stride=[2, 2], padding=[2, 3], groups=2) }",
    "graph f(x: f32[1, 2, 12, 14], w: f32[3, 2, 3, 3]) { return conv(x, w, dilation=[2, 3], padding=[1, 4]) }",
    "graph f(x: f16[2, 2, 17], w: f16[3, 2, 4]) { return conv(x, w, stride=[3], padding=[5]) }",
    "graph f(x: i32[1, 2, 9, 9], w: i32[2, 2, 2, 2]) { return conv(x, w) }",
    "graph f(q: f32[2, 12, 16], k: f32[2, 12, 16], v: f32[2, 12, 16]) { return attention(q, k, v, layout=bsd,\n"
    "  num_heads=2, head_dim=8, num_kv_heads=2, mask_kind=causal) }",
    "graph f(x: f32[33, 70]) { return softmax(x, axis=-1), reduce_sum(x), layer_norm(x, reduce_mean(x, axes=[0]),\n"
    "  reduce_max(x, axes=[0]), axis=1) }",
};

static void fill(flx_tensor *t, uint64_t *state)
{
    int64_t n = flx_tensor_count(t);
    int32_t dtype = flx_tensor_type(t)->dtype;
    for (int64_t i = 0; i < n * (dtype == FLX_C64 ? 2 : 1); i++) {
        uint64_t r = test_random(state);
        double x = (double)(r % 2001) / 1000 - 1;
        switch (dtype) {
        case FLX_F64: ((double *)flx_tensor_data(t))[i] = x; break;
        case FLX_F32:
        case FLX_C64: ((float *)flx_tensor_data(t))[i] = (float)x; break;
        case FLX_F16:
            ((uint16_t *)flx_tensor_data(t))[i] = (uint16_t)(0x3000 + r % 0xc00 + (r >> 40 & 1) * 0x8000);
            break;
        case FLX_BF16:
            ((uint16_t *)flx_tensor_data(t))[i] = (uint16_t)(0x3e00 + r % 0x180 + (r >> 40 & 1) * 0x8000);
            break;
        case FLX_I32: ((int32_t *)flx_tensor_data(t))[i] = (int32_t)(r % 2001) - 1000; break;
        default: ((int8_t *)flx_tensor_data(t))[i] = (int8_t)(r % 201 - 100);
        }
    }
}

static void add(flx_context *ctx, bundle *b, const char *text)
{
    flx_error err = {0};
    flx_tensor *values[8];
    uint64_t state = 3;
    flx_module *m = flx_parse(ctx, text, strlen(text), "case", &err);
    CHECK_MSG(m, "%s: %s", text, err.message);
    flx_graph *g = flx_module_main(m);
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        values[i] = flx_tensor_new(ctx, flx_val_type(g, flx_graph_input(g, i)), NULL, &err);
        CHECK(values[i]);
        fill(values[i], &state);
    }
    CHECK_MSG(bundle_add(b, g, values, text), "%s: does not run", text);
    flx_module_free(m);
}

TEST(standalone_extents_with_remainders_agree_with_reference)
{
    static const struct {
        const char *flags;
        int vector_bytes;
    } ways[] = {{"-O2", 0}, {"-O2 -Wno-psabi", 16}};
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        add(ctx, b, graphs[i]);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        c_file_check_bundle(b, "gcc", ways[i].flags, ways[i].vector_bytes);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        c_file_check_bundle(b, "gcc", "-O3 -mavx2 -mfma -Wno-psabi", 32);
#endif
    bundle_free(b);
    flx_context_free(ctx);
}
