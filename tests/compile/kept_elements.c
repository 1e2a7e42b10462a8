/* SPDX-License-Identifier: Apache-2.0 */
/* kept_elements.c: expensive functions of the elements of a row are computed once, however many folds and results need
   them, where a result has room for them; and results are those of the reference evaluator. */
#include "autodiff/transform_text.h"
#include "backend/devices.h"
#include "compile/group_kernel.h"
#include "compile/pipeline.h"
#include "graph/op/eval.h"
#include "kernel/program/kernel.h"

#include <math.h>

static const struct {
    const char *what, *text;
    int exps; /* in the kernel: of all its loops */
} rows[] = {
    {"a softmax", "graph g(x: f32[20, 64]) { return softmax(x, axis=1) }", 1},
    {"rows that no vector divides: a loop and its rest", "graph g(x: f32[20, 70]) { return softmax(x, axis=1) }", 2},
    {"f64", "graph g(x: f64[20, 64]) { return softmax(x, axis=1) }", 1},
    {"two results, of which the first is stored early",
     "graph g(x: f32[20, 64]) {\n  e = exp(x)\n  s = reduce_sum(e, axes=[1], keep_dims=true)\n"
     "  t = reduce_sum(div(e, s), axes=[1], keep_dims=true)\n  return mul(e, s), sub(e, t)\n}",
     1},
    {"the exponential is itself a result",
     "graph g(x: f32[20, 64]) {\n  e = exp(x)\n  return e, div(e, reduce_sum(e, axes=[1], keep_dims=true))\n}", 2},
    {"no result is large enough",
     "graph g(x: f32[20, 64]) {\n  e = exp(x)\n  s = reduce_sum(e, axes=[1], keep_dims=true)\n"
     "  return reduce_sum(abs(sub(e, s)), axes=[1])\n}",
     2},
    {"a result of another type",
     "graph g(x: f32[20, 64]) {\n  e = exp(x)\n"
     "  return lt(e, reduce_sum(e, axes=[1], keep_dims=true))\n}",
     2},
    {"f16, whose exponentials are rounded", "graph g(x: f16[20, 64]) { return softmax(x, axis=1) }", 2},
    {"a row too long for the cache", "graph g(x: f32[70, 16400]) { return softmax(x, axis=1) }", 2},
};

static int count_exps(const flx_kernel *k)
{
    int n = 0;
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        n += k->exprs[i].kind == KX_UNARY && k->exprs[i].op == KUN_exp;
    return n;
}

/* Of all groups of the graph. */
static int exps_of(const flx_graph *g, flx_error *err)
{
    int n = 0;
    flx_graph *ready = NULL;
    const flxi_device *cpu = NULL;
    bool left_out = false;
    uint32_t failed;
    flxi_grouping f = {0};
    flxi_arena arena;
    const flxi_grouping_options o = {0};
    CHECK_OK(flxi_device_find("cpu", &cpu, err), err);
    CHECK_OK(flxi_optimise(g, cpu, true, &ready, &left_out, err), err);
    CHECK_OK(flxi_form_groups(ready, &o, &f, &failed, err), err);
    flxi_arena_init(&arena, &g->ctx->mem);
    for (uint32_t i = 0; i < f.num_groups; i++) {
        flxi_group_kernel k;
        if (f.groups[i].called)
            continue;
        CHECK_OK(flxi_group_to_kernel(&f, &f.groups[i], &arena, &k, err), err);
        n += count_exps(k.kernel);
        flxi_group_kernel_free(&k);
    }
    flxi_arena_free(&arena);
    flxi_grouping_free(&f);
    flx_graph_release(ready);
    return n;
}

static void check_values(text_bench *b, double bound)
{
    flx_tensor *right[TEXT_OUTPUTS], *got[TEXT_OUTPUTS];
    const flx_run_options ref = {.device = "ref"};
    flx_tensor *x = flx_tensor_new(b->ctx, flx_val_type(b->g, flx_graph_input(b->g, 0)), NULL, &b->err);
    CHECK_MADE(x, &b->err);
    for (int64_t k = 0; k < flx_tensor_count(x); k++)
        flxi_store_double(x->type.dtype, x->data, k, 3 * sin((double)k * 0.7));
    const flx_feed feed = {"x", x};
    flx_exec *e = flx_compile(b->g, NULL, &b->err);
    CHECK_MADE(e, &b->err);
    CHECK_OK(flx_run(b->g, &ref, &feed, 1, right, &b->err), &b->err);
    CHECK_OK(flx_exec_run(e, NULL, &feed, 1, got, &b->err), &b->err);
    for (size_t i = 0; i < flx_graph_output_count(b->g); i++)
        for (int64_t k = 0; k < flx_tensor_count(right[i]); k++)
            CHECK_NEAR(flx_tensor_get(got[i], k), flx_tensor_get(right[i], k),
                       bound * (1 + fabs(flx_tensor_get(right[i], k))));
    bench_release(b->g, right);
    bench_release(b->g, got);
    flx_exec_free(e);
    flx_tensor_release(x);
}

TEST(kept_elements_are_computed_once)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_bench b = bench_open(rows[i].text, NULL);
        test_fail_context("%s", rows[i].what);
        int exps = exps_of(b.g, &b.err);
        EXPECT_MSG(exps == rows[i].exps, "%d exponentials, expected %d", exps, rows[i].exps);
        check_values(&b, strstr(rows[i].text, "f16") ? 2e-3 : 1e-5);
        bench_close(&b);
        test_count_case();
    }
}
