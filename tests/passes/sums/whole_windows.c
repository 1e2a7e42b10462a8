/* SPDX-License-Identifier: Apache-2.0 */
/* whole_windows.c: windows that cover whole axes become reductions, others stay; values and gradients are those of the
   windows, with infinities, NaN and ties. */
#include "autodiff/transform_text.h"
#include "graph/graph.h"
#include "ops/opcode.h"
#include "passes/pass.h"

#include <math.h>

#define X "x: f64[2, 3, 4, 5]"
#define POOL(rest) "graph g(" X ") { return pool(x, " rest ") }"
#define WINDOW(rest) "graph g(" X ") { return reduce_window(x, " rest ") }"

static const struct {
    const char *text;
    uint32_t op; /* that replaces it */
} rows[] = {
    {POOL("kind=mean, kernel_size=[4, 5]"), OP_reduce_mean},
    {POOL("kind=max, kernel_size=[4, 5]"), OP_reduce_max},
    {POOL("kind=min, kernel_size=[4, 5], stride=[1, 1]"), OP_reduce_min},
    {POOL("kind=sum, kernel_size=[1, 5], stride=[1, 2]"), OP_reduce_sum},
    {POOL("kind=prod, kernel_size=[1, 5]"), OP_reduce_prod},
    {POOL("kind=max, kernel_size=[6, 5], padding=[1, 0]"), OP_reduce_max},
    {POOL("kind=mean, kernel_size=[6, 5], padding=[1, 0], count_include_pad=false"), OP_reduce_mean},
    {WINDOW("0, window=[1, 1, 4, 5], combine=add"), OP_reduce_sum},
    {WINDOW("-inf, window=[2, 1, 1, 5], combine=max"), OP_reduce_max},
    {WINDOW("1, window=[1, 3, 4, 1], combine=mul"), OP_reduce_prod},
    /* what stays */
    {POOL("kind=mean, kernel_size=[6, 5], padding=[1, 0]"), OP_pool},
    {POOL("kind=mean, kernel_size=[3, 5]"), OP_pool},
    {POOL("kind=max, kernel_size=[4, 2]"), OP_pool},
    {POOL("kind=max, kernel_size=[4, 5], padding=[0, 1]"), OP_pool},
    {POOL("kind=sum, kernel_size=[1, 1]"), OP_pool},
    {POOL("kind=sum, kernel_size=[4, 1], stride=[4, 2]"), OP_pool},
    {WINDOW("2, window=[1, 1, 4, 5], combine=add"), OP_reduce_window},
    {WINDOW("0, window=[1, 1, 4, 5], combine=max"), OP_reduce_window},
    {WINDOW("0, window=[1, 1, 2, 5], window_dilation=[1, 1, 3, 1], combine=add"), OP_reduce_window},
    {WINDOW("0, window=[1, 1, 7, 5], base_dilation=[1, 1, 2, 1], combine=add"), OP_reduce_window},
};

static bool has(const flx_graph *g, uint32_t op)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->op == op)
            return true;
    return false;
}

/* Ties, infinities and one NaN, which is in the last plane. */
static void feed(text_bench *b)
{
    double x[120];
    for (int i = 0; i < 120; i++)
        x[i] = (double)(i * 7 % 11 - 5) / 4;
    x[30] = INFINITY;
    x[50] = -INFINITY;
    x[110] = NAN;
    bench_feed(b, "x", 4, (const flx_dim[]){2, 3, 4, 5}, x);
}

static void expect_same(text_bench *b, const flx_graph *g, const flx_graph *other)
{
    flx_tensor *want[TEXT_OUTPUTS], *got[TEXT_OUTPUTS];
    bench_run(b, g, want);
    bench_run(b, other, got);
    for (int64_t k = 0; k < flx_tensor_count(want[0]); k++) {
        double x = flx_tensor_get(want[0], k), y = flx_tensor_get(got[0], k);
        CHECK_MSG(x == y || fabs(x - y) < 1e-12 || (isnan(x) && isnan(y)), "element %lld: %g as windows, %g reduced",
                  (long long)k, x, y);
    }
    bench_release(g, want);
    bench_release(other, got);
}

TEST(windows_over_whole_axes_are_reductions)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_bench b = bench_open(rows[i].text, NULL);
        flx_graph *g = NULL;
        test_fail_context("%s", rows[i].text);
        feed(&b);
        CHECK_OK(flxi_pass_whole_windows(b.g, &g, NULL, &b.err), &b.err);
        EXPECT_MSG(has(g, rows[i].op), "no %s", flxi_ops[rows[i].op].name);
        EXPECT_MSG(rows[i].op == OP_pool || !has(g, OP_pool), "a pool is left");
        EXPECT_MSG(rows[i].op == OP_reduce_window || !has(g, OP_reduce_window), "a reduce_window is left");
        expect_same(&b, b.g, g);
        flx_graph_release(g);
        bench_close(&b);
        test_count_case();
    }
}

TEST(cotangent_of_a_maximum_of_all_positions_goes_to_the_first)
{
    text_bench b = bench_open(POOL("kind=max, kernel_size=[4, 5]"), NULL);
    const flx_grad_options seeded = {.struct_size = sizeof seeded, .flags = FLX_GRAD_SEED_INPUT};
    flx_graph *reduced = NULL, *d = flx_grad(b.g, (const char *[]){"x"}, 1, &seeded, &b.err);
    CHECK_MADE(d, &b.err);
    feed(&b);
    const double dy[6] = {1, 2, 3, 4, 5, 6};
    bench_feed(&b, "d_output", 4, (const flx_dim[]){2, 3, 1, 1}, dy);
    CHECK_OK(flxi_pass_whole_windows(d, &reduced, NULL, &b.err), &b.err);
    CHECK(has(d, OP_max_pool_backward) && !has(reduced, OP_max_pool_backward) && has(reduced, OP_argmax));
    expect_same(&b, d, reduced);
    flx_graph_release(reduced);
    flx_graph_release(d);
    bench_close(&b);
}
