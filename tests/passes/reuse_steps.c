/* SPDX-License-Identifier: Apache-2.0 */
/* reuse_steps.c: what steps of scans carry to the next step instead of computing it twice. */
#include "passes/hoist/reuse_steps.h"
#include "graph/count_nodes.h"
#include "passes/pass_case.h"
#include "test.h"

#include <stdio.h>
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

TEST(reuse_what_the_step_before_computed)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        size_t carries = 0;
        flx_error err = {0};
        flx_graph *reused;
        snprintf(text, sizeof text,
                 "graph step(x: f64[24, 24], v: f64[24, 24], m: f64[24, 24], s: f64[24, 24]) {\n%s}\n"
                 "graph g(x: f64[24, 24], v: f64[24, 24], m: f64[24, 24], s: f64[10, 24, 24]) {\n"
                 "  a, b, c = scan(x, v, m, s, body=@step, %s)\n  return a, b, c\n}\n",
                 rows[i].step, rows[i].scan);
        pass_case c = pass_case_begin(text);
        CHECK_OK(flxi_reuse_steps(c.g, simplify, NULL, &reused, NULL, &err), &err);
        const flx_graph *step = find_step(reused, &carries);
        CHECK(step);
        EXPECT_MSG(count_nodes(step, "tanh") == rows[i].tanhs, "%zu tanh", count_nodes(step, "tanh"));
        EXPECT_MSG(carries == rows[i].carries, "%zu carries", carries);
        pass_case_same_bits(&c, reused);
        flx_graph_release(reused);
        pass_case_end(&c);
    }
}
