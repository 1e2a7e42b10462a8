/* SPDX-License-Identifier: Apache-2.0 */
/* hoisted_scans.c: what the pass that empties the loops of scans moves, and what it leaves; and how it fails without
   memory. */
#include "autodiff/transform_text.h"
#include "backend/devices.h"
#include "compile/pipeline.h"
#include "graph/graph.h"
#include "ops/control/control.h"
#include "ops/opcode.h"

static flx_code hoist(const flx_graph *g, flx_graph **out, flx_error *err)
{
    const flxi_device *cpu = NULL;
    CHECK_OK(flxi_device_find("cpu", &cpu, err), err);
    for (size_t i = 0;; i++) {
        const char *name = flxi_compile_pass_name(i);
        CHECK_MSG(name, "there is no pass that hoists");
        if (strcmp(name, "hoist") == 0)
            return flxi_compile_pass(i, cpu, g, out, err);
    }
}

static int count(const flx_graph *g, uint32_t op)
{
    int n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        n += flxi_node_at(g, i)->op == op;
    return n;
}

static int count_products(const flx_graph *g)
{
    return count(g, OP_matmul) + count(g, OP_dot_general);
}

typedef struct {
    const char *what, *text;
    int scans;                      /* left */
    int carries, shared, sequences; /* of the first scan that is left */
    int inside, outside;            /* products */
} row;

#define TYPES "c: f64[3, 8], w: f64[8, 8], x: f64[3, 8]"
#define MAIN(call)                                                          \
    "graph f(c: f64[3, 8], w: f64[8, 8], xs: f64[9, 3, 8]) {\n  " call "\n" \
    "  return y, z\n}\n"
#define ONE_CARRY MAIN("y, z = scan(c, w, xs, body=@s, num_bcast=1)")

static const row rows[] = {
    {"a product of the sequence", "graph s(" TYPES ") { n = tanh(add(c, matmul(x, w))) return n, n }\n" ONE_CARRY, 1, 1,
     0, 1, 0, 1},
    {"the product, not the three values of it",
     "graph s(" TYPES
     ") { z = matmul(x, w) n = mul(add(c, tanh(z)), mul(exp(z), add(c, neg(z)))) return n, n }\n" ONE_CARRY,
     1, 1, 0, 1, 0, 1},
    {"a product of the carry", "graph s(" TYPES ") { n = tanh(add(x, matmul(c, w))) return n, n }\n" ONE_CARRY, 1, 1, 1,
     1, 1, 0},
    {"a product of what is shown", "graph s(" TYPES ") { n = tanh(add(x, c)) return n, exp(matmul(n, w)) }\n" ONE_CARRY,
     1, 1, 0, 1, 0, 1},
    {"nothing inside", "graph s(" TYPES ") { n = matmul(x, w) return c, n }\n" ONE_CARRY, 1, 1, 0, 0, 0, 1},
    {"elementwise work stays", "graph s(" TYPES ") { n = mul(tanh(x), c) return n, exp(n) }\n" ONE_CARRY, 1, 1, 1, 1, 0,
     0},
    {"a transposed weight is made once",
     "graph s(" TYPES ") { n = tanh(add(x, matmul(c, transpose(w, perm=[1, 0])))) return n, n }\n" ONE_CARRY, 1, 1, 1,
     1, 1, 0},
    {"and so for dot_general",
     "graph s(" TYPES ") { n = tanh(add(x, dot_general(c, w, lc=[1], rc=[1]))) return n, n }\n" ONE_CARRY, 1, 1, 1, 1,
     1, 0},
    {"a sum of products",
     "graph s(a: f64[8, 8], " TYPES ") {\n"
     "  n = tanh(add(x, matmul(c, w)))\n  return add(a, matmul(transpose(c, perm=[1, 0]), x)), n\n}\n" MAIN(
         "y, z = scan(w, c, w, xs, body=@s, num_carry=2, num_bcast=1)"),
     1, 1, 1, 1, 1, 1},
    {"a sum that is read in the loop",
     "graph s(a: f64[8, 8], " TYPES ") {\n"
     "  n = tanh(add(x, matmul(c, a)))\n  return add(a, matmul(transpose(c, perm=[1, 0]), x)), n\n}\n" MAIN(
         "y, z = scan(w, c, w, xs, body=@s, num_carry=2, num_bcast=1)"),
     1, 2, 1, 1, 2, 0},
    {"a sum whose course is kept",
     "graph s(a: f64[8, 8], " TYPES ") {\n"
     "  n = tanh(add(x, matmul(c, w)))\n  return add(a, matmul(transpose(c, perm=[1, 0]), x)), n\n}\n" MAIN(
         "y, z = scan(w, c, w, xs, body=@s, num_carry=2, num_bcast=1, save_trajectory=true)"),
     1, 2, 1, 1, 2, 0},
    {"one step",
     "graph s(" TYPES ") { n = tanh(add(c, matmul(x, w))) return n, n }\n"
     "graph f(c: f64[3, 8], w: f64[8, 8], xs: f64[1, 3, 8]) {\n"
     "  y, z = scan(c, w, xs, body=@s, num_bcast=1)\n  return y, z\n}\n",
     1, 1, 1, 1, 1, 0},
    {"a check in the loop",
     "graph s(" TYPES
     ") { n = tanh(add(c, check(matmul(x, w), lt(x, 2), message=\"large\"))) return n, n }\n" ONE_CARRY,
     1, 1, 1, 1, 1, 0},
};

static const flxi_node *first_scan(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->op == OP_scan)
            return flxi_node_at(g, i);
    return NULL;
}

TEST(hoisting_moves_what_needs_no_loop)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        text_bench b = bench_open(r->text, NULL);
        flx_graph *g = NULL;
        test_fail_context("%s", r->what);
        CHECK_OK(hoist(b.g, &g, &b.err), &b.err);
        CHECK_OK(flx_graph_verify(g, &b.err), &b.err);
        CHECK_EQ_I64(count(g, OP_scan), r->scans);
        const flxi_node *n = first_scan(g);
        const scan_attrs *a = n->attrs;
        CHECK_EQ_I64(a->num_carry, r->carries);
        CHECK_EQ_I64(a->num_bcast, r->shared);
        CHECK_EQ_I64((int64_t)n->nin - a->num_carry - a->num_bcast, r->sequences);
        CHECK_EQ_I64(count_products(a->body), r->inside);
        CHECK_EQ_I64(count_products(g), r->outside);
        flx_graph_release(g);
        bench_close(&b);
        test_count_case();
    }
}

/* A sum over no carry and no sequence: there is no scan any more. */
TEST(hoisting_may_leave_no_loop)
{
    text_bench b = bench_open("graph s(w: f64[4, 4], x: f64[3, 4]) { return matmul(x, w) }\n"
                              "graph f(w: f64[4, 4], xs: f64[5, 3, 4]) {\n"
                              "  return scan(w, xs, body=@s, num_carry=0, num_bcast=1)\n}\n",
                              NULL);
    flx_graph *g = NULL;
    CHECK_OK(hoist(b.g, &g, &b.err), &b.err);
    CHECK_EQ_I64(count(g, OP_scan), 0);
    CHECK_EQ_I64(count_products(g), 1);
    flx_graph_release(g);
    bench_close(&b);
}

/* Whichever request for memory fails, the pass ends with OOM and leaks nothing. */
TEST(hoisting_without_memory_fails_with_oom)
{
    const char *text = rows[8].text; /* a sum of products: every part has something in it */
    fault f = {0};
    text_bench b = bench_open(text, &f);
    flx_graph *g = NULL;
    size_t before = f.calls;
    CHECK_OK(hoist(b.g, &g, &b.err), &b.err);
    size_t requests = f.calls - before, step = 1 + requests / 150;
    flx_graph_release(g);
    bench_close(&b);
    for (size_t n = 1 + test_seed() % step; n <= requests; n += step) {
        fault starved = {0};
        b = bench_open(text, &starved);
        starved.fail_at = starved.calls + n;
        flx_error err = {0};
        g = NULL;
        flx_code code = hoist(b.g, &g, &err);
        bool failed = starved.failed > 0;
        starved.fail_at = 0;
        test_fail_context("request %zu of %zu fails", n, requests);
        CHECK_CODE(code, failed ? FLX_E_OOM : FLX_OK, &err);
        if (code == FLX_OK)
            flx_graph_release(g);
        bench_close(&b);
        CHECK_MSG(fault_is_clean(&starved), "%zu blocks leaked, %zu errors", starved.live_blocks, starved.errors);
        test_count_case();
    }
}
