/* SPDX-License-Identifier: Apache-2.0 */
/* transform_jacobian.c: Jacobians that are known to be zero here and there: how many directions they take, and that
   they equal the dense computation; chunks and byte budgets. */
#include "autodiff/transform_text.h"
#include "ops/opcode.h"

#include "graph/graph.h"

#include <math.h>

static const char *const by_x[] = {"x"};

/* ---- How many directions ---- */

/* One direction at a time, they are the steps of a scan; a single direction needs no scan. */
static int64_t directions(text_bench *b, uint32_t mode)
{
    flx_jacobian_options o = {.mode = mode, .chunk = 1};
    flx_graph *j = flx_jacobian(b->g, by_x, 1, &o, &b->err);
    int64_t n = 1;
    CHECK_MSG(j != NULL, "%s (%s)", b->err.message, b->err.where);
    for (uint32_t i = 0; i < j->node_count; i++) {
        const flxi_node *node = flxi_node_at(j, i);
        if (node->op == OP_scan)
            n = flxi_type_at(j, node->first)->dims[0];
    }
    flx_graph_release(j);
    return n;
}

/* The same bits, except for the sign of zeros. */
static void expect_same(const flx_tensor *a, const flx_tensor *b, const char *what)
{
    CHECK_EQ_I64(flx_tensor_count(a), flx_tensor_count(b));
    for (int64_t i = 0; i < flx_tensor_count(a); i++) {
        double p = flx_tensor_get(a, i);
        double q = flx_tensor_get(b, i);
        if (!EXPECT_MSG(p == q, "%s: element %lld is %.17g, dense %.17g", what, (long long)i, p, q))
            return;
    }
}

/* The Jacobian with respect to x with these options equals that of the dense computation. */
static void compare_with_dense(text_bench *b, flx_jacobian_options o, const char *what)
{
    flx_jacobian_options dense = {.mode = o.mode, .flags = FLX_JACOBIAN_DENSE};
    flx_graph *few = flx_jacobian(b->g, by_x, 1, &o, &b->err);
    flx_graph *all = flx_jacobian(b->g, by_x, 1, &dense, &b->err);
    flx_tensor *y[TEXT_OUTPUTS] = {0};
    flx_tensor *z[TEXT_OUTPUTS] = {0};
    bench_run(b, few, y);
    bench_run(b, all, z);
    for (size_t k = 0; k < flx_graph_output_count(all); k++) {
        CHECK_EQ_STR(flx_graph_output_name(few, k), flx_graph_output_name(all, k));
        expect_same(y[k], z[k], what);
    }
    bench_release(few, y);
    bench_release(all, z);
    flx_graph_release(few);
    flx_graph_release(all);
}

typedef struct {
    const char *body; /* of a graph whose input x is f64[24] or f64[20, 4] */
    int64_t forward, reverse;
} sparse_row;

static const sparse_row rows[] = {
    /* elementwise, in any form */
    {"f(x: f64[24]) { return mul(sin(x), exp(x)) }", 1, 1},
    {"f(x: f64[24]) { return where(gt(x, 0), mul(x, x), neg(x)) }", 1, 1},
    {"f(x: f64[24]) { return mul(x, stop_gradient(reduce_sum(x))) }", 1, 1},
    {"f(x: f64[20, 4]) { return transpose(exp(x)) }", 1, 1},
    {"f(x: f64[20, 4]) { return tril(square(x)) }", 1, 1},
    {"f(x: f64[24]) { return mul(expand(reshape(x, shape=[24, 1]), shape=[24, 3]), const(f64[3], [1, 2, 3])) }", 1, 3},
    {"f(x: f64[24]) { return add(x, reshape(sin(x), shape=[24, 1])) }", 24, 576},
    /* independent rows */
    {"f(x: f64[20, 4]) { return reduce_sum(mul(x, x), axes=[1]) }", 4, 1},
    {"f(x: f64[20, 4]) { return reduce_max(x, axes=[1], keep_dims=true) }", 4, 1},
    {"f(x: f64[20, 4]) { return softmax(x) }", 4, 4},
    {"f(x: f64[20, 4]) { return cumsum(tanh(x), axis=0) }", 20, 20},
    {"f(x: f64[20, 4]) { return matmul(sin(x), const(f64[4, 2], [[1, 2], [3, 4], [5, 6], [7, 8]])) }", 4, 2},
    {"f(x: f64[20, 4]) { return matmul(iota(f64[2, 20], axis=1), x) }", 20, 8},
    {"f(x: f64[20, 4]) { return dot_general(x, exp(x), lb=[0], rb=[0], lc=[1], rc=[1]) }", 4, 1},
    {"f(x: f64[20, 4]) { return dot_general(exp(x), const(f64[4, 2], [[1, 2], [3, 4], [5, 6], [7, 8]]), lc=[1], "
     "rc=[0]) }",
     4, 2},
    {"f(x: f64[20, 4]) { return gather(sin(x), const(i64[3], [2, 0, 2]), axis=1) }", 4, 3},
    {"f(x: f64[20, 4]) { return stack(x, mul(x, 2), axis=1) }", 1, 2},
    {"f(x: f64[20, 4]) { return reverse(sin(x), axes=[1]) }", 4, 4},
    {"f(x: f64[20, 4]) { y = reshape(x, shape=[2, 10, 4]) return reduce_prod(y, axes=[2]) }", 80, 20},
    {"f(x: f64[20, 4]) { y = reshape(exp(x), shape=[20, 2, 2]) return reduce_sum(y, axes=[1, 2]) }", 4, 1},
    {"f(x: f64[20, 4]) { y = conv(reshape(x, shape=[20, 1, 4]), const(f64[2, 1, 3], [[[1, 2, 3]], [[4, 5, 6]]])) "
     "return sin(y) }",
     4, 4},
    {"f(x: f64[20, 4]) { return pool(reshape(x, shape=[20, 1, 4]), kind=max, kernel_size=[2], stride=[2]) }", 4, 2},
    /* bands */
    {"f(x: f64[24]) { return mul(narrow(x, axis=0, start=0, len=23), narrow(x, axis=0, start=1, len=23)) }", 2, 2},
    {"f(x: f64[24]) { return sub(slice(x, start=[2], limit=[24]), sin(slice(x, start=[0], limit=[22]))) }", 3, 3},
    {"f(x: f64[24]) { y = pad(mul(x, x), 0, low=[1], high=[0]) return mul(y, pad(x, 0, low=[0], high=[1])) }", 2, 2},
    {"f(x: f64[24]) { a, b = split(x, sizes=[20, 4], axis=0) return exp(a), b }", 5, 5},
    {"f(x: f64[24]) { return concat(exp(x), const(f64[2], [1, 2]), axis=0) }", 1, 1},
    /* not sparse, or not detected as sparse */
    {"f(x: f64[24]) { return mul(x, reduce_sum(x)) }", 24, 24},
    {"f(x: f64[24]) { return mul(x, reverse(x, axes=[0])) }", 24, 24},
    {"f(x: f64[24]) { return cumsum(x) }", 24, 24},
    {"f(x: f64[20, 4]) { return mul(reshape(x, shape=[4, 20]), transpose(x)) }", 80, 80},
};

TEST(jacobian_takes_one_direction_per_colour)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[300];
        snprintf(text, sizeof text, "graph %s", rows[i].body);
        text_bench b = bench_open(text, NULL);
        test_fail_context("%s", rows[i].body);
        if (flx_graph_output_count(b.g) == 1) {
            int64_t forward = directions(&b, FLX_JACOBIAN_FORWARD);
            int64_t reverse = directions(&b, FLX_JACOBIAN_REVERSE);
            EXPECT_MSG(forward == rows[i].forward, "forward takes %lld directions, not %lld", (long long)forward,
                       (long long)rows[i].forward);
            EXPECT_MSG(reverse == rows[i].reverse, "reverse takes %lld directions, not %lld", (long long)reverse,
                       (long long)rows[i].reverse);
        }
        bench_close(&b);
        test_count_case();
    }
}

TEST(jacobian_by_colours_is_the_dense_one)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[300];
        double x[80];
        snprintf(text, sizeof text, "graph %s", rows[i].body);
        text_bench b = bench_open(text, NULL);
        test_fail_context("%s", rows[i].body);
        for (int k = 0; k < 80; k++)
            x[k] = 0.9 * sin(7.0 * k + 0.3) + 0.05;
        const flx_type *t = flx_val_type(b.g, flx_graph_input(b.g, 0));
        bench_feed(&b, "x", t->rank, t->dims, x);
        for (uint32_t mode = 0; mode < 3; mode++) {
            compare_with_dense(&b, (flx_jacobian_options){.mode = mode}, mode == 2 ? "reverse" : "forward or either");
            compare_with_dense(&b, (flx_jacobian_options){.mode = mode, .chunk = 5}, "chunks of 5");
            compare_with_dense(&b, (flx_jacobian_options){.mode = mode, .budget = 1}, "one at a time");
        }
        bench_close(&b);
        test_count_case();
    }
}

/* With the symbol bound, the result equals that of plain numbers; the number of directions does not depend on the
   extent. */
TEST(jacobian_of_symbolic_extents_is_coloured_and_chunked)
{
    static const char *const texts[] = {
        "graph f(x: f64[N]) { return mul(sin(x), x) }",
        ("graph f(x: f64[N]) {\n"
         "  return mul(narrow(x, axis=0, start=0, len=N - 1), narrow(x, axis=0, start=1, len=N - 1))\n}\n"),
        "graph f(x: f64[N]) { return mul(x, reduce_sum(x)) }",
        "graph f(x: f64[N, 3]) { return softmax(x) }",
    };
    double x[24];
    for (int k = 0; k < 24; k++)
        x[k] = cos(3.0 * k);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        text_bench b = bench_open(texts[i], NULL);
        const flx_type *t = flx_val_type(b.g, flx_graph_input(b.g, 0));
        bench_feed(&b, "x", t->rank, (const flx_dim[]){t->rank == 1 ? 5 : 4, 3}, x);
        test_fail_context("%s", texts[i]);
        for (uint32_t mode = 1; mode < 3; mode++)
            for (int64_t chunk = 0; chunk < 4; chunk++)
                compare_with_dense(&b, (flx_jacobian_options){.mode = mode, .chunk = chunk, .budget = chunk == 3},
                                   "symbolic");
        bench_close(&b);
    }
}

TEST(hessian_of_a_chain_takes_three_directions)
{
    text_bench b =
        bench_open("graph f(x: f64[40]) {\n"
                   "  here = narrow(x, axis=0, start=0, len=39)\n"
                   "  bend = sub(narrow(x, axis=0, start=1, len=39), mul(here, here))\n"
                   "  return add(reduce_sum(mul(mul(bend, bend), 100)), reduce_sum(square(sub(1, here))))\n}\n",
                   NULL);
    double x[40];
    for (int i = 0; i < 40; i++)
        x[i] = sin(i + 1.0);
    bench_feed(&b, "x", 1, (const flx_dim[]){40}, x);
    flx_jacobian_options one = {.mode = FLX_JACOBIAN_FORWARD, .chunk = 1};
    flx_graph *h = flx_hessian(b.g, by_x, 1, &one, &b.err);
    flx_tensor *y[TEXT_OUTPUTS] = {0};
    bench_run(&b, h, y);
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 40; k++) {
            double want = i == k       ? (i < 39 ? 1200 * x[i] * x[i] - 400 * x[i + 1] + 2 : 0) + (i > 0 ? 200 : 0)
                          : k == i + 1 ? -400 * x[i]
                          : i == k + 1 ? -400 * x[k]
                                       : 0;
            CHECK_NEAR(flx_tensor_get(y[0], 40 * i + k), want, 1e-11);
        }
    int64_t steps = 0;
    for (uint32_t i = 0; i < h->node_count; i++)
        if (flxi_node_at(h, i)->op == OP_scan)
            steps = flxi_type_at(h, flxi_node_at(h, i)->first)->dims[0];
    CHECK_EQ_I64(steps, 3);
    bench_release(h, y);
    flx_graph_release(h);
    bench_close(&b);
}

/* Several inputs and outputs, some of which are independent of each other. */
TEST(jacobian_of_many_is_dense_block_by_block)
{
    static const char *const wrt[] = {"x", "w"};
    text_bench b = bench_open("graph f(x: f64[20], w: f64[4, 20], z: f64[20]) {\n"
                              "  return mul(x, z), reduce_sum(mul(w, x), axes=[1]), exp(z), mul(w, w)\n}\n",
                              NULL);
    double x[80];
    for (int i = 0; i < 80; i++)
        x[i] = cos(i + 0.5);
    bench_feed(&b, "x", 1, (const flx_dim[]){20}, x);
    bench_feed(&b, "w", 2, (const flx_dim[]){4, 20}, x);
    bench_feed(&b, "z", 1, (const flx_dim[]){20}, x + 7);
    for (uint32_t mode = 1; mode < 3; mode++) {
        flx_jacobian_options o = {.mode = mode, .chunk = 3};
        flx_jacobian_options dense = {.mode = mode, .flags = FLX_JACOBIAN_DENSE};
        flx_graph *few = flx_jacobian(b.g, wrt, 2, &o, &b.err);
        flx_graph *all = flx_jacobian(b.g, wrt, 2, &dense, &b.err);
        flx_tensor *y[TEXT_OUTPUTS] = {0};
        flx_tensor *z[TEXT_OUTPUTS] = {0};
        bench_run(&b, few, y);
        bench_run(&b, all, z);
        CHECK_EQ_U64(flx_graph_output_count(few), 8);
        for (size_t k = 0; k < 8; k++)
            expect_same(y[k], z[k], flx_graph_output_name(few, k));
        bench_release(few, y);
        bench_release(all, z);
        flx_graph_release(few);
        flx_graph_release(all);
    }
    bench_close(&b);
}

/* ---- Chunks and budgets ---- */

/* cumsum of x: in forward mode a direction and its result, 8000 bytes each, are alive at once. */
TEST(jacobian_budget_decides_the_chunk)
{
    static const struct {
        int64_t budget, chunk;
        int64_t steps; /* 1: no scan */
    } cases[] = {{16000 * 1000, 0, 1}, {16000 * 250, 0, 4}, {16000 * 10, 0, 100}, {16000 * 10, 4, 250},
                 {16000 * 7, 0, 143},  {15999, 0, 1000},    {1, 0, 1000},         {0, 300, 4}};
    text_bench b = bench_open("graph f(x: f64[1000]) { return cumsum(x) }", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        flx_jacobian_options o = {.mode = FLX_JACOBIAN_FORWARD, .chunk = cases[i].chunk, .budget = cases[i].budget};
        flx_graph *j = flx_jacobian(b.g, by_x, 1, &o, &b.err);
        int64_t steps = 1;
        CHECK_MSG(j != NULL, "%s", b.err.message);
        for (uint32_t k = 0; k < j->node_count; k++)
            if (flxi_node_at(j, k)->op == OP_scan)
                steps = flxi_type_at(j, flxi_node_at(j, k)->first)->dims[0];
        test_fail_context("budget %lld, chunk %lld", (long long)cases[i].budget, (long long)cases[i].chunk);
        CHECK_EQ_I64(steps, cases[i].steps);
        flx_graph_release(j);
    }
    bench_close(&b);
}

/* The bytes that a run of a deep function needs in addition to the result. */
static size_t peak_beside_result(int64_t budget)
{
    enum { N = 400, OUT = 2 };
    fault f = {0};
    text_bench b =
        bench_open("graph f(x: f64[400]) {\n"
                   "  a = mul(x, reduce_sum(x))\n  b = sin(a)\n  c = cumsum(mul(a, b))\n  d = mul(exp(c), b)\n"
                   "  return stack(reduce_sum(mul(d, a)), reduce_sum(mul(c, c)))\n}\n",
                   &f);
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = 0.001 * sin(i);
    bench_feed(&b, "x", 1, (const flx_dim[]){N}, x);
    flx_jacobian_options o = {.mode = FLX_JACOBIAN_FORWARD, .budget = budget};
    flx_graph *j = flx_jacobian(b.g, by_x, 1, &o, &b.err);
    CHECK_MSG(j != NULL, "%s", b.err.message);
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    size_t before = f.live_bytes;
    f.peak_bytes = f.live_bytes;
    CHECK_OK(flx_run(j, ON_REF, b.feeds, 1, out, &b.err), &b.err);
    size_t peak = f.peak_bytes - before;
    bench_release(j, out);
    flx_graph_release(j);
    bench_close(&b);
    CHECK(fault_is_clean(&f));
    return peak - N * OUT * sizeof(double);
}

TEST(jacobian_budget_bounds_memory)
{
    size_t all = peak_beside_result(0);
    CHECK_MSG(all > 5 * 400 * 400 * sizeof(double), "all at once takes %zu bytes", all);
    for (int64_t budget = 64 << 10; budget <= 1 << 20; budget *= 4) {
        size_t peak = peak_beside_result(budget);
        /* In addition there are bool and i64 rows from which directions are made, and what the evaluator keeps of each
           node. */
        CHECK_MSG(peak < (size_t)budget * 9 / 8 + 8000, "with a budget of %lld bytes %zu are taken", (long long)budget,
                  peak);
        CHECK_MSG(peak > (size_t)budget / 2, "of a budget of %lld bytes only %zu are used", (long long)budget, peak);
    }
}

TEST(jacobian_refuses_options_that_do_not_exist)
{
    static const flx_jacobian_options bad[] = {{.mode = 3}, {.chunk = -1}, {.budget = -1}, {.flags = 2}};
    text_bench b = bench_open("graph f(x: f64[3]) { return exp(x) }", NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char message[100];
        snprintf(message, sizeof message, "flx_jacobian_options: mode %u, flags 0x%x, chunk %d, budget %d", bad[i].mode,
                 bad[i].flags, (int)bad[i].chunk, (int)bad[i].budget);
        bench_refused(&b, flx_jacobian(b.g, by_x, 1, &bad[i], &b.err), FLX_E_USAGE, message, "jacobian of 'f'",
                      "mode 0 to 2, flags 0 or FLX_JACOBIAN_DENSE, chunk and budget from 0");
    }
    bench_close(&b);
}

/* ---- Complex values ---- */

TEST(jacobian_of_complex_values)
{
    static const char *const by_z[] = {"z"};
    text_bench b = bench_open("graph f(x: f64[2]) { return mul(complex(cos(x), sin(x)), complex(x, 0)) }", NULL);
    double x[2] = {0.3, -1.2};
    flx_tensor *y[TEXT_OUTPUTS] = {0};
    bench_feed(&b, "x", 1, (const flx_dim[]){2}, x);
    flx_graph *j = flx_jacobian(b.g, by_x, 1, NULL, &b.err); /* d (x e^ix) = (1 + ix) e^ix */
    bench_run(&b, j, y);
    const double *v = flx_tensor_const_data(y[0]);
    CHECK_EQ_I64(flx_tensor_type(y[0])->dtype, FLX_C128);
    for (int i = 0; i < 2; i++) {
        CHECK_NEAR(v[2 * (3 * i)], cos(x[i]) - x[i] * sin(x[i]), 1e-15);
        CHECK_NEAR(v[2 * (3 * i) + 1], sin(x[i]) + x[i] * cos(x[i]), 1e-15);
    }
    CHECK(v[2] == 0 && v[3] == 0 && v[4] == 0 && v[5] == 0);
    bench_release(j, y);
    flx_graph_release(j);
    bench_refused(&b, flx_jacobian(b.g, by_x, 1, &(flx_jacobian_options){.mode = FLX_JACOBIAN_REVERSE}, &b.err),
                  FLX_E_UNSUPPORTED, "the output mul 'out0' (c128[2]) is complex: that needs forward mode",
                  "jacobian of 'f'", "");
    bench_close(&b);

    b = bench_open("graph f(z: c128[2]) { return abs(mul(z, z)), real(z) }", NULL);
    flx_type t = flx_type_make(FLX_C128, 1, (const flx_dim[]){2});
    double z[4] = {0.6, 0.8, -2.0, 1.5};
    b.feeds[b.n++] = (flx_feed){"z", flx_tensor_new(b.ctx, &t, z, &b.err)};
    j = flx_jacobian(b.g, by_z, 1, NULL, &b.err); /* |z|^2 has the gradient 2 z, Re z has 1 */
    bench_run(&b, j, y);
    v = flx_tensor_const_data(y[0]);
    const double *r = flx_tensor_const_data(y[1]);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            bool diagonal = i / 2 == k;
            CHECK_NEAR(v[4 * k + i], diagonal ? 2 * z[i] : 0, 1e-15);
            CHECK_NEAR(r[4 * k + i], diagonal && i % 2 == 0, 0);
        }
    bench_release(j, y);
    flx_graph_release(j);
    bench_refused(&b, flx_jacobian(b.g, by_z, 1, &(flx_jacobian_options){.mode = FLX_JACOBIAN_FORWARD}, &b.err),
                  FLX_E_UNSUPPORTED, "input 'z' (c128[2]) is complex: that needs reverse mode", "jacobian of 'f'", "");
    bench_close(&b);

    b = bench_open("graph f(z: c128[2]) { return exp(z) }", NULL);
    bench_refused(&b, flx_jacobian(b.g, by_z, 1, NULL, &b.err), FLX_E_UNSUPPORTED,
                  "input 'z' (c128[2]) and the output exp 'out0' (c128[2]) are both complex: no single complex matrix "
                  "is their Jacobian",
                  "jacobian of 'f'", "differentiate real and imaginary parts separately");
    bench_close(&b);
}

/* The mode does not show in the result's type. */
TEST(jacobian_has_the_dtype_of_the_output)
{
    text_bench b = bench_open("graph f(x: f64[3]) { return cast(exp(x), to=f32) }", NULL);
    for (uint32_t mode = 0; mode < 3; mode++) {
        flx_graph *j = flx_jacobian(b.g, by_x, 1, &(flx_jacobian_options){.mode = mode}, &b.err);
        CHECK_MSG(j != NULL, "%s", b.err.message);
        CHECK_EQ_I64(flx_val_type(j, flx_graph_output(j, 0))->dtype, FLX_F32);
        flx_graph_release(j);
    }
    bench_close(&b);
}
