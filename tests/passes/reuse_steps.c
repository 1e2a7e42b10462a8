/* SPDX-License-Identifier: Apache-2.0 */
/* reuse_steps.c: what steps of scans carry to the next step instead of computing it twice. */
#include "passes/hoist/reuse_steps.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <string.h>

/* Of a step over x, v: f64[24, 24] with m: f64[24, 24] and a sequence s: f64[10, 24, 24]. */
static const struct {
    const char *step, *scan;
    size_t tanhs; /* in the step afterwards */
    size_t carries;
} rows[] = {
    /* leapfrog: both ends of a step */
    {"  half = add(v, tanh(matmul(x, m)))\n  y = mul(add(x, half), 0.5)\n"
     "  return y, mul(add(half, tanh(matmul(y, m))), 0.5), reduce_sum(half)\n",
     "num_carry=2, num_bcast=1", 1, 3},
    {"  half = add(v, tanh(matmul(x, m)))\n  y = mul(add(x, half), 0.5)\n"
     "  return y, mul(add(half, tanh(matmul(y, m))), 0.5), reduce_sum(half)\n",
     "num_carry=2, num_bcast=1, reverse=true", 1, 3},
    /* the step needs its product for two things */
    {"  f = matmul(x, m)\n  half = add(v, add(tanh(f), mul(f, f)))\n  y = mul(add(x, half), 0.1)\n  g = matmul(y, m)\n"
     "  return y, mul(add(half, mul(g, g)), 0.1), reduce_sum(half)\n",
     "num_carry=2, num_bcast=1", 1, 3},
    /* a result of two steps ago */
    {"  return tanh(matmul(x, m)), add(x, tanh(matmul(v, m))), reduce_sum(x)\n", "num_carry=2, num_bcast=1", 2, 2},
    {"  a = tanh(matmul(v, m))\n  return tanh(add(x, a)), x, reduce_sum(tanh(matmul(x, m)))\n",
     "num_carry=2, num_bcast=1", 2, 3},
    /* depends on the step: the next step computes something else */
    {"  half = add(v, tanh(matmul(x, s)))\n  y = mul(add(x, half), 0.5)\n"
     "  return y, mul(add(half, tanh(matmul(y, s))), 0.5), reduce_sum(half)\n",
     "num_carry=2, num_bcast=1", 2, 2},
    /* cheap, or not carried to the same place */
    {"  y = add(v, tanh(x))\n  return y, tanh(y), reduce_sum(matmul(x, m))\n", "num_carry=2, num_bcast=1", 2, 2},
    {"  half = add(v, tanh(matmul(x, m)))\n  y = mul(add(x, half), 0.5)\n"
     "  return mul(y, 0.5), mul(add(half, tanh(matmul(y, m))), 0.5), reduce_sum(half)\n",
     "num_carry=2, num_bcast=1", 2, 2},
};

static flx_code simplify(const void *user, const flx_graph *body, flx_graph **out, flx_error *err)
{
    (void)user;
    return flxi_simplify(body, out, NULL, err);
}

static size_t count_nodes(const flx_graph *g, const char *op)
{
    size_t n = 0;
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++)
        n += strcmp(v.op, op) == 0;
    return n;
}

/* The body of the scan, and how many carries it has: the operands but m and s. */
static const flx_graph *find_step(const flx_graph *g, size_t *carries)
{
    flx_node_view v;
    for (size_t i = 0; flx_graph_node(g, i, &v) == FLX_OK; i++)
        if (strcmp(v.op, "scan") == 0) {
            *carries = v.num_inputs - 2;
            return flx_node_graph(g, i, 0);
        }
    return NULL;
}

static void run(const flx_graph *g, flx_tensor **out)
{
    flx_feed feeds[4];
    flx_error err = {0};
    for (size_t i = 0; i < 4; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(flx_graph_context(g), flx_val_type(g, v), NULL, &err);
        CHECK(t);
        for (int64_t k = 0; k < flx_tensor_count(t); k++)
            ((double *)flx_tensor_data(t))[k] = 0.3 * sin((double)(k + 1) * (double)(i + 2));
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    flx_run_options o = {.device = "ref"};
    CHECK_OK(flx_run(g, &o, feeds, 4, out, &err), &err);
    for (size_t i = 0; i < 4; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static void compare(const flx_graph *g, const flx_graph *reused, const char *text)
{
    flx_tensor *expected[3] = {0}, *found[3] = {0};
    run(g, expected);
    run(reused, found);
    for (size_t k = 0; k < 3; k++) {
        size_t bytes = (size_t)flx_tensor_count(expected[k]) * sizeof(double);
        CHECK(flx_tensor_count(found[k]) == flx_tensor_count(expected[k]));
        EXPECT_MSG(memcmp(flx_tensor_const_data(expected[k]), flx_tensor_const_data(found[k]), bytes) == 0,
                   "%s: output %zu", text, k);
        flx_tensor_release(found[k]);
        flx_tensor_release(expected[k]);
    }
}

TEST(reuse_what_the_step_before_computed)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        size_t carries = 0;
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *reused;
        snprintf(text, sizeof text,
                 "graph step(x: f64[24, 24], v: f64[24, 24], m: f64[24, 24], s: f64[24, 24]) {\n%s}\n"
                 "graph g(x: f64[24, 24], v: f64[24, 24], m: f64[24, 24], s: f64[10, 24, 24]) {\n"
                 "  a, b, c = scan(x, v, m, s, body=@step, %s)\n  return a, b, c\n}\n",
                 rows[i].step, rows[i].scan);
        flx_module *m = flx_parse(ctx, text, strlen(text), "row", &err);
        CHECK_MSG(m, "%s: %s", text, err.message);
        const flx_graph *g = flx_module_main(m);
        CHECK_OK(flxi_reuse_steps(g, simplify, NULL, &reused, NULL, &err), &err);
        const flx_graph *step = find_step(reused, &carries);
        CHECK(step);
        EXPECT_MSG(count_nodes(step, "tanh") == rows[i].tanhs, "%s: %zu tanh", text, count_nodes(step, "tanh"));
        EXPECT_MSG(carries == rows[i].carries, "%s: %zu carries", text, carries);
        compare(g, reused, text);
        flx_graph_release(reused);
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}
