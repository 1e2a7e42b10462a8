/* SPDX-License-Identifier: Apache-2.0 */
/* masked_rows.c: masks that exclude whole blocks of scores: products with these are left out, in derivatives too, and
   results stay what they are; nothing is left out where it could be seen. */
#include "autodiff/transform_text.h"
#include "graph/graph.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "passes/blocks/block_rows.h"

#include <math.h>

/* Small enough for the reference evaluator. */
static const flxi_block_limits limits = {.least_result = 512,
                                         .least_growth = 1.2,
                                         .most_terms = 16,
                                         .wanted_block = 256,
                                         .most_block = 4096,
                                         .least_whole = 1024,
                                         .least_rows = 2,
                                         .least_shared = 64,
                                         .part_rows = 3,
                                         .part_columns = 2,
                                         .most_parts = 4};

#define QKV "q: f64[12, 4], k: f64[12, 4], v: f64[12, 4]"
#define SCORES \
    "s = dot_general(q, k, lc=[1], rc=[1])\n  i = iota(i32[12, 12], axis=0)\n  j = iota(i32[12, 12], axis=1)\n  "
#define HEAD "graph g(" QKV ") {\n  " SCORES
#define SOFTMAX(axis)                                                                    \
    "  e = exp(sub(x, stop_gradient(reduce_max(x, axes=[" axis "], keep_dims=true))))\n" \
    "  p = div(e, reduce_sum(e, axes=[" axis "], keep_dims=true))\n"
#define ATTEND SOFTMAX("1") "  y = matmul(p, v)\n  return reduce_sum(mul(y, sin(y))) }"

static const struct {
    const char *what, *text;
    bool leaves_out;
} masks[] = {
    {"causal", HEAD "x = where(ge(i, j), s, -inf)\n" ATTEND, true},
    {"a very low number", HEAD "x = where(ge(i, j), s, -1e30)\n" ATTEND, true},
    {"the other way round", HEAD "x = where(lt(i, j), -1e30, s)\n" ATTEND, true},
    {"added", HEAD "x = add(s, cast(where(ge(i, j), 0.0, -1e30), to=f64))\n" ATTEND, true},
    {"a constant for each alternative", HEAD "x = where(where(ge(add(i, 0), j), true, false), s, -1e30)\n" ATTEND,
     true},
    {"a window", HEAD "x = where(and(ge(i, j), lt(sub(i, j), 3)), s, -1e30)\n" ATTEND, true},
    {"later columns alone", HEAD "x = where(le(i, j), s, -1e30)\n" ATTEND, true},
    {"a soft cap and a scale", HEAD "x = where(ge(i, j), mul(tanh(mul(s, 0.5)), 3), -inf)\n" ATTEND, true},
    {"masked weights without softmax", HEAD "y = matmul(where(ge(i, j), s, 0), v)\n  return reduce_sum(mul(y, y)) }",
     true},
    {"transposed",
     "graph g(" QKV ") {\n  s = dot_general(k, q, lc=[1], rc=[1])\n"
     "  m = le(iota(i64[12, 1], axis=0), iota(i64[1, 12], axis=1))\n"
     "  x = where(m, s, -inf)\n" SOFTMAX(
         "0") "  y = dot_general(p, v, lc=[0], rc=[0])\n  return reduce_sum(mul(y, y)) }",
     true},
    {"more columns than rows",
     "graph g(q: f64[9, 4], k: f64[14, 4], v: f64[14, 4]) {\n  s = dot_general(q, k, lc=[1], rc=[1])\n"
     "  m = ge(iota(i32[9, 14], axis=0), iota(i32[9, 14], axis=1))\n"
     "  x = where(m, s, -1e30)\n" ATTEND,
     true},
    {"scores that fall with distance",
     HEAD "x = where(ge(i, j), sub(s, mul(0.1, cast(sub(i, j), to=f64))), -1e30)\n" ATTEND, true},
    /* what stays */
    {"a second mask that is as low", HEAD "x = where(ge(i, j), where(gt(j, 2), s, -1e30), -1e30)\n" ATTEND, false},
    {"a second mask that is added",
     HEAD "x = where(ge(i, j), add(s, cast(where(gt(j, 2), 0.0, -1e30), to=f64)), -1e30)\n" ATTEND, false},
    {"a bias from outside",
     "graph g(" QKV ", b: f64[12, 12]) {\n  " SCORES "x = where(ge(i, j), add(s, mul(b, 1e31)), -1e30)\n" ATTEND,
     false},
    {"low numbers everywhere",
     HEAD "x = add(s, -1e9)\n  e = exp(sub(x, stop_gradient(reduce_max(x, axes=[1], keep_dims=true))))\n"
          "  y = matmul(where(ge(i, j), e, 0), v)\n  return reduce_sum(mul(y, sin(y))) }",
     false},
    {"integers that are not 0",
     HEAD "x = where(sub(cast(ge(i, j), to=i32), 1), -1e30, s)\n  e = exp(sub(x, stop_gradient(reduce_max(x, "
          "axes=[1], keep_dims=true))))\n  y = matmul(e, v)\n  return reduce_sum(mul(y, y)) }",
     true},
    {"a row without columns", HEAD "x = where(gt(i, j), s, -1e30)\n" ATTEND, false},
    {"a number that is not low enough", HEAD "x = where(ge(i, j), s, -50.0)\n" ATTEND, false},
    {"few columns are excluded", HEAD "x = where(ge(add(i, 9), j), s, -1e30)\n" ATTEND, false},
    {"a mask that depends on data", HEAD "x = where(and(ge(i, j), gt(s, -0.9)), s, -1e30)\n" ATTEND, false},
    {"the number of columns counts",
     HEAD "x = where(ge(i, j), s, -1e30)\n  y = matmul(exp(sub(x, x)), v)\n"
          "  return reduce_sum(mul(y, y)) }",
     false},
};

static double multiplications(const flx_graph *g)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        int64_t l = 0, r = 0, y = 0;
        if (!flxi_is_contraction(n))
            continue;
        CHECK(flxi_static_count(flxi_type_at(g, n->in[0]), &l) && flxi_static_count(flxi_type_at(g, n->in[1]), &r) &&
              flxi_static_count(flxi_type_at(g, n->first), &y));
        sum += sqrt((double)l * (double)r * (double)y); /* of matrices */
    }
    return sum;
}

static bool has_scan(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->op == OP_scan)
            return true;
    return false;
}

enum { MOST_FEEDS = 8 };

static flx_tensor *wavy(flx_context *ctx, const flx_graph *g, size_t i)
{
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(ctx, flx_val_type(g, flx_graph_input(g, i)), NULL, &err);
    CHECK_MADE(t, &err);
    for (int64_t k = 0; k < flx_tensor_count(t); k++)
        flxi_store_double(t->type.dtype, t->data, k, sin((double)(k * 7 + (int64_t)i * 131) * 0.61803398875));
    return t;
}

static void expect_same_results(const flx_graph *a, const flx_graph *b, double bound)
{
    flx_context *ctx = flx_graph_context(a);
    flx_feed feeds[MOST_FEEDS];
    flx_tensor *x[TEXT_OUTPUTS], *y[TEXT_OUTPUTS];
    flx_error err = {0};
    const flx_run_options ref = {.device = "ref"};
    size_t n = flx_graph_input_count(a);
    CHECK(n <= MOST_FEEDS);
    for (size_t i = 0; i < n; i++)
        feeds[i] = (flx_feed){flx_val_name(a, flx_graph_input(a, i)), wavy(ctx, a, i)};
    CHECK_OK(flx_run(a, &ref, feeds, n, x, &err), &err);
    CHECK_OK(flx_run(b, &ref, feeds, n, y, &err), &err);
    for (size_t i = 0; i < flx_graph_output_count(a); i++)
        for (int64_t k = 0; k < flx_tensor_count(x[i]); k++) {
            double u = flx_tensor_get(x[i], k), v = flx_tensor_get(y[i], k);
            CHECK_MSG(isfinite(u) && fabs(u - v) <= bound * fmax(1, fabs(u)), "output %zu at %lld: %.17g and %.17g", i,
                      (long long)k, u, v);
        }
    bench_release(a, x);
    bench_release(b, y);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static void check_masked(const flx_graph *g, bool leaves_out, flx_error *err)
{
    flx_graph *plain = NULL, *cut = NULL;
    CHECK_OK(flxi_simplify(g, &plain, NULL, err), err);
    CHECK_OK(flxi_block_rows(plain, &limits, &cut, NULL, err), err);
    CHECK_OK(flx_graph_verify(cut, err), err);
    CHECK_EQ_I64(has_scan(cut), !leaves_out);
    if (leaves_out)
        CHECK_MSG(multiplications(cut) < 0.85 * multiplications(plain), "%g of %g multiplications are left",
                  multiplications(cut), multiplications(plain));
    expect_same_results(plain, cut, 1e-11);
    flx_graph_release(cut);
    flx_graph_release(plain);
    test_count_case();
}

TEST(masked_blocks_are_left_out)
{
    static const char *const wrt[] = {"q", "k", "v"};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        text_bench b = bench_open(masks[i].text, NULL);
        test_fail_context("%s", masks[i].what);
        flx_graph *d = flx_grad(b.g, wrt, 3, NULL, &b.err), *t = flx_jvp(b.g, wrt, 3, &b.err);
        CHECK_MADE(d, &b.err);
        CHECK_MADE(t, &b.err);
        check_masked(b.g, masks[i].leaves_out, &b.err);
        check_masked(d, masks[i].leaves_out, &b.err);
        check_masked(t, masks[i].leaves_out, &b.err);
        flx_graph_release(d);
        flx_graph_release(t);
        bench_close(&b);
    }
}
