/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_attention.c: attention by cuDNN. Where the library is installed it checks the operations that are described to
   it, without a card; on a card results are compared with the definition in f32. */
#include "backend/cuda/cuda_attention.h"
#include "backend/devices.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TEST(cuda_attention_is_described_as_cudnn_wants_it)
{
    flx_error err = {0};
    if (!flxi_cuda_dnn(&err)) {
        printf("%s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (int k = 0; k < 16; k++) {
        flxi_cuda_attention of = {.n = 2, .heads = 3, .queries = 200, .keys = 200, .width = 64, .scale = 0.125};
        of.is_causal = k & 1;
        of.is_backward = k >> 1 & 1;
        of.is_heads_first = k >> 2 & 1;
        of.is_fast = of.is_backward && k >> 3 & 1;
        of.dtype = k & 1 ? FLX_BF16 : FLX_F16;
        int count = 0;
        CHECK_OK(flxi_dnn_count_operations(flxi_context_mem(ctx), &of, &count, &err), &err);
        CHECK(count == (of.is_backward ? 17 + of.is_fast : 10) + 4 * of.is_causal);
    }
    flx_context_free(ctx);
}

/* ---- On a card ---- */

static flx_graph *cotangents(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "attention", &err);
    CHECK_MSG(m, "%s: %s", err.where, err.message);
    static const char *const wrt[] = {"q", "k", "v"};
    const flx_grad_options o = {.struct_size = sizeof o,
                                .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_VALUE | FLX_GRAD_BACKWARD_OPS};
    flx_graph *g = flx_grad(flx_module_main(m), wrt, 3, &o, &err);
    CHECK_MADE(g, &err);
    flx_module_free(m);
    return g;
}

/* |x - y| / |y| over all elements. */
static double distance(const flx_tensor *x, const flx_tensor *y)
{
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double d = flx_tensor_get(x, i) - flx_tensor_get(y, i);
        sum += d * d;
        norm += flx_tensor_get(y, i) * flx_tensor_get(y, i);
    }
    return sqrt(sum / norm);
}

static void compare(flx_context *ctx, const flx_graph *g, bool expects_route, uint32_t flags)
{
    flx_error err = {0};
    enum { INPUTS = 4, OUTPUTS = 4 };
    flx_feed feeds[INPUTS];
    flx_tensor *out[2][OUTPUTS] = {{0}}, *wide;
    uint64_t seed = 5;
    for (size_t i = 0; i < INPUTS; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_type type = *flx_val_type(g, v);
        type.dtype = FLX_F32;
        CHECK_MADE(wide = flx_tensor_new(ctx, &type, NULL, &err), &err);
        for (int64_t k = 0; k < flx_tensor_count(wide); k++)
            ((float *)flx_tensor_data(wide))[k] = (float)(4 * test_uniform(&seed) - 2);
        feeds[i] = (flx_feed){flx_val_name(g, v), flx_tensor_cast(wide, FLX_BF16, &err)};
        flx_tensor_release(wide);
    }
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cuda", .flags = flags};
    flx_exec *e = flx_compile(g, &o, &err);
    CHECK_MADE(e, &err);
    flx_buffer report = {0};
    CHECK_OK(flx_exec_report(e, &report, &err), &err);
    CHECK_MSG(!expects_route || strstr(report.data, "cudnn"), "%s", report.data);
    flx_buffer_free(&report);
    for (int run = 0; run < 3; run++) { /* the third is a graph of the driver */
        for (size_t k = 0; k < OUTPUTS; k++)
            flx_tensor_release(out[0][k]);
        CHECK_OK(flx_exec_run(e, NULL, feeds, INPUTS, out[0], &err), &err);
    }
    const flx_run_options ref = {.struct_size = sizeof ref, .device = "cpu"};
    CHECK_OK(flx_run(g, &ref, feeds, INPUTS, out[1], &err), &err);
    for (size_t k = 0; k < OUTPUTS; k++)
        CHECK_MSG(distance(out[0][k], out[1][k]) < 1e-2, "output %zu: %.3g", k, distance(out[0][k], out[1][k]));
    for (size_t i = 0; i < INPUTS; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    for (size_t k = 0; k < 2 * OUTPUTS; k++)
        flx_tensor_release(out[k / OUTPUTS][k % OUTPUTS]);
    flx_exec_free(e);
}

TEST(card_attention_agrees)
{
    static const char *const texts[] = {
        "graph f(q: bf16[2, 3, 200, 64], k: bf16[2, 3, 200, 64], v: bf16[2, 3, 200, 64]) {\n"
        "  return attention(q, k, v, layout=bhsd, mask_kind=causal)\n}\n",
        "graph f(q: bf16[2, 128, 4, 32], k: bf16[2, 96, 4, 32], v: bf16[2, 96, 4, 32]) {\n"
        "  return attention(q, k, v, layout=bshd)\n}\n",
        "graph f(q: bf16[1, 256, 256], k: bf16[1, 256, 256], v: bf16[1, 256, 256]) {\n"
        "  return attention(q, k, v, layout=bsd, num_heads=2, mask_kind=causal, score_scale=0.3)\n}\n"};
    flx_error err = {0};
    if (flx_device_check("cuda", &err) != FLX_OK) {
        printf("%s\n", err.message);
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        flx_graph *g = cotangents(ctx, texts[i]);
        compare(ctx, g, flxi_cuda_dnn(NULL) != NULL, 0);
        compare(ctx, g, flxi_cuda_dnn(NULL) != NULL, FLX_COMPILE_FAST);
        flx_graph_release(g);
    }
    flx_context_free(ctx);
}
