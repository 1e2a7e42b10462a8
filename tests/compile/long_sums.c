/* SPDX-License-Identifier: Apache-2.0 */
/* long_sums.c: a value that is used thousands of times has a gradient of as many parts. The text of its kernels must
   not grow with them, and cutting the sum must not change the order of its additions. */
#include "graph/graph_text.h"

#include <stdio.h>

enum { USES = 2000, OPERANDS = 100, COLUMNS = 3 };

/* The C text of the gradient of a chain in which every link reads x. */
static size_t kernel_text_of(flx_context *ctx, int links)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_type t = {.dtype = FLX_F32, .rank = 1, .dims = {16}};
    flx_graph *g = flx_graph_new(ctx, "chain");
    flx_val x = flx_input(g, "x", &t), y = x;
    for (int i = 0; i < links; i++)
        y = flx_add(g, flx_sin(g, y), x);
    flx_output(g, flx_reduce_sum(g, y, FLX_ALL, 0), "loss");
    flx_graph *grad = flx_grad(g, (const char *const[]){"x"}, 1, NULL, &err);
    CHECK_MADE(grad, &err);
    CHECK_OK(flx_show_stage(grad, FLX_STAGE_C, NULL, &text, &err), &err);
    size_t size = text.size;
    flx_buffer_free(&text);
    flx_graph_release(grad);
    flx_graph_release(g);
    return size;
}

TEST(long_sums_of_cotangents_are_few_kernels)
{
    flx_context *ctx = flx_context_new(NULL);
    size_t few = kernel_text_of(ctx, USES / 4), many = kernel_text_of(ctx, USES);
    CHECK_MSG(many < 2 * few, "%d uses: %zu bytes of C, %d uses: %zu", USES / 4, few, USES, many);
    flx_context_free(ctx);
}

/* The sum of rows of x, each rounded to `dtype`, as one node or as a chain of additions in f32. */
static flx_val sum_of_rows(flx_graph *g, flx_val x, flx_dtype dtype, bool is_chain)
{
    flx_val row[OPERANDS];
    for (int64_t i = 0; i < OPERANDS; i++)
        row[i] = flx_cast(g, flx_slice(g, x, FLX_INTS(i, 0), FLX_INTS(i + 1, COLUMNS)), dtype);
    if (!is_chain)
        return flx_cast(g, flx_add_n(g, row, OPERANDS), FLX_F32);
    flx_val sum = flx_cast(g, row[0], FLX_F32);
    for (int i = 1; i < OPERANDS; i++)
        sum = flx_add(g, sum, flx_cast(g, row[i], FLX_F32));
    return flx_cast(g, flx_cast(g, sum, dtype), FLX_F32);
}

TEST(long_sums_keep_their_order_and_are_rounded_once)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type t = {.dtype = FLX_F32, .rank = 2, .dims = {OPERANDS, COLUMNS}};
    flx_graph *g = flx_graph_new(ctx, "sums");
    flx_val x = flx_input(g, "x", &t);
    for (int i = 0; i < 4; i++)
        flx_output(g, sum_of_rows(g, x, i < 2 ? FLX_F32 : FLX_BF16, i % 2),
                   (const char *const[]){"a", "b", "c", "d"}[i]);
    flx_tensor *in = flx_tensor_new(ctx, &t, NULL, &err), *out[4] = {0};
    CHECK_MADE(in, &err);
    for (int i = 0; i < OPERANDS * COLUMNS; i++)
        ((float *)flx_tensor_data(in))[i] = (float)((i * 7919) % 2003) * 0.37f - 300.0f;
    flx_exec *e = flx_compile(g, &(flx_compile_options){.device = "cpu", .optimisation = 1}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, NULL, &(flx_feed){"x", in}, 1, out, &err), &err);
    for (int i = 0; i < 4; i += 2)
        CHECK_MSG(memcmp(flx_tensor_data(out[i]), flx_tensor_data(out[i + 1]), COLUMNS * sizeof(float)) == 0,
                  "%s: %.9g, by a chain of additions %.9g", i ? "bf16" : "f32", flx_tensor_get(out[i], 0),
                  flx_tensor_get(out[i + 1], 0));
    for (int i = 0; i < 4; i++)
        flx_tensor_release(out[i]);
    flx_exec_free(e);
    flx_tensor_release(in);
    flx_graph_release(g);
    flx_context_free(ctx);
}
