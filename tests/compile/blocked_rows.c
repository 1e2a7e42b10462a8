/* SPDX-License-Identifier: Apache-2.0 */
/* blocked_rows.c: the pass that computes large results of products in blocks of rows: what it cuts, and what it leaves;
   that results stay what they are, for forward and backward passes, masks, shared heads, extents that no block divides;
   that less memory is needed; and how it fails without memory. */
#include "autodiff/transform_text.h"
#include "backend/devices.h"
#include "compile/pipeline.h"
#include "graph/graph.h"
#include "graph/op/eval.h"
#include "ops/control/control.h"
#include "ops/opcode.h"
#include "passes/blocks/block_rows.h"

#include <math.h>

/* Small enough for the reference evaluator. */
static const flxi_block_limits small_blocks = {.least_result = 512,
                                               .least_growth = 1.2,
                                               .most_terms = 16,
                                               .wanted_block = 256,
                                               .most_block = 4096,
                                               .least_whole = 1024,
                                               .least_rows = 2,
                                               .least_shared = 64,
                                               .part_rows = 3,
                                               .part_columns = 2,
                                               .most_parts = 3};

static int count(const flx_graph *g, uint32_t op)
{
    int n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        n += flxi_node_at(g, i)->op == op;
    return n;
}

static const scan_attrs *first_scan(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_scan_attrs(flxi_node_at(g, i)))
            return flxi_scan_attrs(flxi_node_at(g, i));
    return NULL;
}

static flx_code run_named(const char *want, const flx_graph *g, flx_graph **out, flx_error *err)
{
    const flxi_device *cpu = NULL;
    CHECK_OK(flxi_device_find("cpu", &cpu, err), err);
    for (size_t i = 0;; i++) {
        const char *name = flxi_compile_pass_name(i);
        CHECK_MSG(name, "there is no pass '%s'", want);
        if (strcmp(name, want) == 0)
            return flxi_compile_pass(i, cpu, g, out, err);
    }
}

/* The graph as the pass sees it. */
static flx_graph *prepared(const flx_graph *g, flx_error *err)
{
    static const char *const passes[] = {"inline calls", "lower", "simplify", "decompose", "simplify"};
    flx_graph *now = flx_graph_retain((flx_graph *)(uintptr_t)g);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        flx_graph *next = NULL;
        CHECK_OK(run_named(passes[i], now, &next, err), err);
        flx_graph_release(now);
        now = next;
    }
    return now;
}

static flx_graph *blocked(const flx_graph *g, flx_error *err)
{
    flx_graph *out = NULL;
    CHECK_OK(flxi_block_rows(g, &small_blocks, &out, NULL, err), err);
    CHECK_OK(flx_graph_verify(out, err), err);
    return out;
}

/* ---- Values ---- */

enum { FEEDS = 16 };
static flx_feed feeds[FEEDS];

/* Numbers in -1 … 1 that repeat nowhere. */
static size_t feed_all(flx_context *ctx, const flx_graph *g)
{
    flx_error err = {0};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= FEEDS);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(ctx, flx_val_type(g, v), NULL, &err);
        CHECK_MADE(t, &err);
        for (int64_t k = 0; k < flx_tensor_count(t); k++) {
            double x = sin((double)(k * 7 + (int64_t)i * 131) * 0.61803398875);
            flxi_store_double(t->type.dtype, t->data, k, t->type.dtype == FLX_BOOL ? x > -0.5 : x);
        }
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    return n;
}

static void release_feeds(size_t n)
{
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

static void expect_near(const flx_graph *g, flx_tensor *const *a, flx_tensor *const *b, double bound)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        double most = 0;
        for (int64_t k = 0; k < flx_tensor_count(a[i]); k++)
            most = fmax(most, fabs(flx_tensor_get(a[i], k)));
        CHECK_EQ_I64(flx_tensor_count(a[i]), flx_tensor_count(b[i]));
        for (int64_t k = 0; k < flx_tensor_count(a[i]); k++) {
            double x = flx_tensor_get(a[i], k), y = flx_tensor_get(b[i], k);
            CHECK_MSG(x == y || fabs(x - y) <= bound * most || (isnan(x) && isnan(y)),
                      "output %zu at %lld: %.17g whole, %.17g in blocks", i, (long long)k, x, y);
        }
    }
}

/* The pass does not change what a graph computes. */
static void check_meaning(const flx_graph *whole, const flx_graph *cut, double bound)
{
    flx_tensor *a[TEXT_OUTPUTS], *b[TEXT_OUTPUTS];
    flx_error err = {0};
    const flx_run_options ref = {.device = "ref"};
    size_t n = feed_all(flx_graph_context(whole), whole);
    CHECK_OK(flx_run(whole, &ref, feeds, n, a, &err), &err);
    CHECK_OK(flx_run(cut, &ref, feeds, n, b, &err), &err);
    expect_near(whole, a, b, bound);
    bench_release(whole, a);
    bench_release(whole, b);
    release_feeds(n);
}

/* ---- What is cut ---- */

#define QKV "q: f64[12, 4], k: f64[12, 4], v: f64[12, 4]"
#define SCORES "s = dot_general(q, k, lc=[1], rc=[1])\n  "

typedef struct {
    const char *what, *text;
    int scans, carries, length; /* of the first; no scan: the rest is 0 */
    int outside;                /* products that are left */
} row;

static const row rows[] = {
    {"rows of scores", "graph g(" QKV ") { " SCORES "return matmul(softmax(s, axis=1), v) }", 1, 0, 6, 0},
    {"heads before rows",
     "graph g(q: f64[3, 12, 4], k: f64[3, 12, 4], v: f64[3, 12, 4]) {\n"
     "  s = dot_general(q, k, lc=[2], rc=[2], lb=[0], rb=[0])\n  return matmul(softmax(s, axis=2), v) }",
     1, 0, 3, 0},
    {"heads that are not the first axis",
     "graph g(q: f64[12, 3, 4], k: f64[12, 3, 4], v: f64[12, 3, 4]) {\n"
     "  s = dot_general(q, k, lc=[2], rc=[2], lb=[1], rb=[1])\n"
     "  return dot_general(softmax(s, axis=2), v, lc=[2], rc=[0], lb=[0], rb=[1]) }",
     1, 0, 3, 0},
    {"sums over rows are carries",
     "graph g(" QKV ", d: f64[12, 4]) { " SCORES "return dot_general(softmax(s, axis=1), d, lc=[0], rc=[0]) }", 1, 1, 4,
     0},
    {"a reduction over rows",
     "graph g(" QKV ") { " SCORES "return reduce_sum(exp(s), axes=[0]), matmul(softmax(s, axis=1), v) }", 1, 1, 6, 0},
    {"a block of other size at the end",
     "graph g(q: f64[13, 4], k: f64[12, 4], v: f64[12, 4]) { " SCORES "return matmul(softmax(s, axis=1), v) }", 1, 0, 6,
     2},
    {"a mask of positions that excludes no block",
     "graph g(" QKV ") {\n  " SCORES "m = ne(iota(i64[12, 12], axis=1), iota(i64[12, 12], axis=0))\n"
     "  return matmul(softmax(where(m, s, -inf), axis=1), v) }",
     1, 0, 6, 0},
    {"a mask and a bias that are given",
     "graph g(" QKV ", m: bool[12, 12], b: f64[12]) { " SCORES
     "return matmul(softmax(where(m, add(s, b), -inf), axis=1), v) }",
     1, 0, 6, 0},
    {"the same operand on both sides",
     "graph g(q: f64[12, 4]) {\n  s = dot_general(q, q, lc=[1], rc=[1])\n  return matmul(softmax(s, axis=1), q) }", 1,
     0, 6, 0},
    {"the transposed scores",
     "graph g(" QKV ") {\n  s = dot_general(k, q, lc=[1], rc=[1])\n"
     "  return dot_general(softmax(s, axis=0), v, lc=[0], rc=[0]) }",
     1, 0, 6, 0},
    {"a value per row is returned too",
     "graph g(" QKV ") { " SCORES "return matmul(softmax(s, axis=1), v), reduce_max(s, axes=[1]) }", 1, 0, 6, 0},
    /* what stays */
    {"the scores are the result", "graph g(" QKV ") { " SCORES "return s, matmul(softmax(s, axis=1), v) }", 0, 0, 0, 2},
    {"rows depend on each other", "graph g(" QKV ") { " SCORES "return matmul(cumsum(s, axis=0), v) }", 0, 0, 0, 2},
    {"a maximum over both axes", "graph g(" QKV ") { " SCORES "return matmul(sub(s, reduce_max(s, axes=[0, 1])), v) }",
     0, 0, 0, 2},
    {"a check", "graph g(" QKV ") { " SCORES "return matmul(check(exp(s), lt(s, 100), message=\"large\"), v) }", 0, 0,
     0, 2},
    {"f16 sums",
     "graph g(q: f16[24, 4], k: f16[24, 4], d: f16[24, 4]) {\n  s = dot_general(q, k, lc=[1], rc=[1])\n"
     "  return dot_general(softmax(s, axis=1), d, lc=[0], rc=[0]) }",
     0, 0, 0, 2},
    {"too small",
     "graph g(q: f64[6, 4], k: f64[6, 4], v: f64[6, 4]) { " SCORES "return matmul(softmax(s, axis=1), v) }", 0, 0, 0,
     2},
    {"an ordinary product", "graph g(q: f64[24, 24], k: f64[24, 24], v: f64[24, 24]) { " SCORES "return matmul(s, v) }",
     0, 0, 0, 2},
};

TEST(blocks_are_cut_where_rows_are_independent)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        text_bench b = bench_open(r->text, NULL);
        test_fail_context("%s", r->what);
        flx_graph *whole = prepared(b.g, &b.err), *cut = blocked(whole, &b.err);
        const scan_attrs *a = first_scan(cut);
        CHECK_EQ_I64(count(cut, OP_scan), r->scans);
        if (a) {
            CHECK_EQ_I64(a->num_carry, r->carries);
            const flxi_node *n = NULL;
            for (uint32_t k = 0; k < cut->node_count && !n; k++)
                n = flxi_scan_attrs(flxi_node_at(cut, k)) ? flxi_node_at(cut, k) : NULL;
            CHECK_EQ_I64(flxi_type_at(cut, n->in[a->num_carry + a->num_bcast])->dims[0], r->length);
        }
        CHECK_EQ_I64(count(cut, OP_matmul) + count(cut, OP_dot_general), r->outside);
        check_meaning(whole, cut, flxi_type_at(whole, whole->outputs.at[0].val)->dtype == FLX_F16 ? 0.01 : 1e-12);
        flx_graph_release(cut);
        flx_graph_release(whole);
        bench_close(&b);
        test_count_case();
    }
}

/* ---- Derivatives ---- */

/* $ stands for attributes of the op. */
#define ATTENTION(heads, kv, rest)                                                                           \
    "graph g(q: f64[2, " heads ", 12, 4], k: f64[2, " kv ", 12, 4], v: f64[2, " kv ", 12, 4]" rest ") {\n  " \
    "y = attention(q, k, v"
#define END ")\n  return reduce_sum(mul(y, y)) }"

static const struct {
    const char *what, *text;
    int scans; /* of the gradient, at least */
} attentions[] = {
    {"plain", ATTENTION("3", "3", "") ", layout=bhsd" END, 1},
    {"causal", ATTENTION("3", "3", "") ", layout=bhsd, mask_kind=causal" END, 1},
    {"a window", ATTENTION("3", "3", "") ", layout=bhsd, mask_kind=sliding_window, window=3" END, 1},
    {"a soft cap", ATTENTION("3", "3", "") ", layout=bhsd, mask_kind=causal, softcap=2.5" END, 1},
    {"shared heads", ATTENTION("6", "3", "") ", layout=bhsd, num_kv_heads=3, mask_kind=causal" END, 1},
    {"one head of keys", ATTENTION("4", "1", "") ", layout=bhsd, num_kv_heads=1, mask_kind=causal" END, 1},
    {"a bias", ATTENTION("3", "3", ", b: f64[1, 3, 12, 12]") ", b, layout=bhsd, mask_kind=bias" END, 1},
    {"a mask", ATTENTION("3", "3", ", b: bool[2, 1, 12, 12]") ", b, layout=bhsd, mask_kind=custom" END, 1},
};

static flx_graph *gradient(const flx_graph *g, bool with_bias, flx_error *err)
{
    static const char *const wrt[] = {"q", "k", "v", "b"};
    flx_graph *d = flx_grad(g, wrt, with_bias ? 4 : 3, NULL, err);
    CHECK_MADE(d, err);
    return d;
}

static void check_cut(const flx_graph *g, int scans, double bound, flx_error *err)
{
    flx_graph *whole = prepared(g, err), *cut = blocked(whole, err);
    EXPECT_MSG(count(cut, OP_scan) >= scans, "%d scans, expected %d", count(cut, OP_scan), scans);
    check_meaning(whole, cut, bound);
    flx_graph *again = NULL; /* bodies are cut in turn */
    const scan_attrs *a = first_scan(cut);
    if (a) {
        again = blocked(a->body, err);
        check_meaning(a->body, again, bound);
    }
    flx_graph_release(again);
    flx_graph_release(cut);
    flx_graph_release(whole);
    test_count_case();
}

TEST(blocks_of_attention_and_its_derivatives)
{
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        text_bench b = bench_open(attentions[i].text, NULL);
        test_fail_context("%s", attentions[i].what);
        flx_graph *d = gradient(b.g, strstr(attentions[i].text, "mask_kind=bias"), &b.err);
        flx_graph *h = flx_hvp(b.g, (const char *const[]){"q", "k", "v"}, 3, NULL, &b.err);
        CHECK_MADE(h, &b.err);
        check_cut(h, attentions[i].scans, 1e-10, &b.err);
        flx_graph_release(h);
        check_cut(b.g, 1, 1e-12, &b.err);
        check_cut(d, attentions[i].scans, 1e-10, &b.err);
        flx_graph_release(d);
        bench_close(&b);
    }
}

/* ---- Random graphs ---- */

static uint32_t draw(uint64_t *state, uint32_t n)
{
    return (uint32_t)(test_uniform(state) * n) % n;
}

/* Large values are [9, 10], as x0, x1 …; rows and columns of them meet numbers, rows, columns, positions and
   reductions of rows; what is returned sums over columns, over rows, or is a value for each row. */
static const char *const steps[] = {
    "tanh(%s)",
    "mul(%s, %s)",
    "add(%s, b)",
    "sub(%s, a)",
    "where(lt(iota(i32[9, 10], axis=0), iota(i32[9, 10], axis=1)), %s, %s)",
    "where(ge(add(iota(i64[9, 1], axis=0), 2), iota(i64[1, 10], axis=1)), %s, 0.5)",
    "where(ge(iota(i32[9, 10], axis=0), iota(i32[9, 10], axis=1)), %s, -inf)",
    "where(gt(iota(i32[9, 10], axis=1), iota(i32[9, 10], axis=0)), 0, %s)",
    "softmax(%s, axis=1)",
    "sub(%s, reduce_max(%s, axes=[1], keep_dims=true))",
    "mul(%s, expand(reduce_sum(%s, axes=[1], keep_dims=true), shape=[9, 10]))",
    "reshape(exp(reshape(%s, shape=[9, 5, 2])), shape=[9, 10])",
    "transpose(sin(transpose(%s, perm=[1, 0])), perm=[1, 0])",
    "reshape(reduce_max(reshape(concat(%s, %s, axis=1), shape=[9, 2, 10]), axes=[1]), shape=[9, 10])",
    "pad(slice(%s, start=[0, 2], limit=[9, 8]), 0.25, low=[0, 1], high=[0, 3])",
    "add(%s, dot_general(q, k, lc=[1], rc=[1], lb=[], rb=[]))",
    "mul(%s, matmul(%s, w))",
};
static const char *const exits[] = {
    "matmul(%s, v)",
    "dot_general(%s, q, lc=[0], rc=[0])",
    "dot_general(q, %s, lc=[0], rc=[0])",
    "reduce_sum(%s, axes=[0])",
    "reduce_max(%s, axes=[1])",
    "reduce_sum(mul(%s, %s))",
    "matmul(transpose(%s, perm=[1, 0]), tanh(q))",
};

static size_t fill(char *to, size_t room, const char *form, uint64_t *state, uint32_t values)
{
    size_t n = 0;
    for (const char *p = form; *p && n + 16 < room; p++) {
        if (p[0] == '%' && p[1] == 's') {
            n += (size_t)snprintf(to + n, room - n, "x%u", draw(state, values));
            p++;
        } else {
            to[n++] = *p;
        }
    }
    return n;
}

static void random_text(char *to, size_t room, uint64_t *state)
{
    size_t n = (size_t)snprintf(to, room,
                                "graph g(q: f64[9, 3], k: f64[10, 3], v: f64[10, 4], w: f64[10, 10], "
                                "a: f64[9, 1], b: f64[10]) {\n  x0 = dot_general(q, k, lc=[1], rc=[1])\n");
    uint32_t values = 1, outputs = 1 + draw(state, 4);
    for (uint32_t left = 2 + draw(state, 7); left; left--) {
        const char *form = steps[draw(state, sizeof steps / sizeof *steps)];
        n += (size_t)snprintf(to + n, room - n, "  x%u = ", values);
        n += fill(to + n, room - n, form, state, values);
        to[n++] = '\n';
        values++;
    }
    n += (size_t)snprintf(to + n, room - n, "  return ");
    for (uint32_t i = 0; i < outputs; i++) {
        n += fill(to + n, room - n, exits[draw(state, sizeof exits / sizeof *exits)], state, values);
        n += (size_t)snprintf(to + n, room - n, i + 1 < outputs ? ", " : "\n}\n");
    }
}

TEST(blocks_keep_the_meaning_of_random_graphs)
{
    uint64_t state = test_seed();
    int cut_ones = 0;
    for (int i = 0; i < 150; i++) {
        char text[8192];
        random_text(text, sizeof text, &state);
        text_bench b = bench_open(text, NULL);
        test_fail_context("%s", text);
        flx_graph *whole = prepared(b.g, &b.err), *cut = blocked(whole, &b.err);
        cut_ones += count(cut, OP_scan) > 0;
        check_meaning(whole, cut, 1e-11);
        flx_graph_release(cut);
        flx_graph_release(whole);
        bench_close(&b);
        test_count_case();
    }
    CHECK_MSG(cut_ones > 30, "only %d graphs were cut", cut_ones);
}

/* ---- Without memory ---- */

TEST(blocks_without_memory)
{
    static const char text[] = "graph g(q: f64[13, 4], k: f64[12, 4], v: f64[12, 4], d: f64[13, 4]) {\n"
                               "  s = dot_general(q, k, lc=[1], rc=[1])\n"
                               "  m = le(iota(i64[13, 12], axis=1), iota(i64[13, 12], axis=0))\n"
                               "  e = exp(where(m, s, -3))\n  p = div(e, reduce_sum(e, axes=[1], keep_dims=true))\n"
                               "  return matmul(p, v), dot_general(p, d, lc=[0], rc=[0])\n}";
    fault counting = {0};
    text_bench b = bench_open(text, &counting);
    size_t before = counting.calls;
    flx_graph *g = blocked(b.g, &b.err);
    size_t requests = counting.calls - before;
    CHECK_EQ_I64(count(g, OP_scan), 1);
    flx_graph_release(g);
    bench_close(&b);
    CHECK(fault_is_clean(&counting));
    for (size_t n = 1; n <= requests; n++) {
        fault starved = {0};
        b = bench_open(text, &starved);
        starved.fail_at = starved.calls + n;
        flx_error err = {0};
        g = NULL;
        flx_code code = flxi_block_rows(b.g, &small_blocks, &g, NULL, &err);
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

/* ---- Compiled ---- */

/* Large enough for the usual limits; 499 and 997 are prime: no block divides them. */
#define LARGE(n, heads, kv, attrs)                                                                             \
    "graph g(q: f32[1, " heads ", " n ", 16], k: f32[1, " kv ", " n ", 16], v: f32[1, " kv ", " n ", 16]) {\n" \
    "  y = attention(q, k, v, layout=bhsd" attrs ")\n  return reduce_sum(mul(y, sin(y))), y }"

static const struct {
    const char *what, *text;
} compiled[] = {
    {"heads", LARGE("640", "6", "6", ", mask_kind=causal")},
    {"one head", LARGE("1000", "1", "1", ", softcap=3.0")},
    {"shared heads, a last block", LARGE("499", "6", "3", ", num_kv_heads=3, mask_kind=sliding_window, window=40")},
    {"one head, a last block", LARGE("997", "1", "1", ", mask_kind=sliding_window, window=996")},
};

typedef struct {
    flx_tensor *out[TEXT_OUTPUTS];
    size_t memory;
} result;

/* Once with all steps watched, one after the other, and once as usual. */
static result run_compiled(const flx_graph *g, uint32_t flags, int threads, size_t n)
{
    result r = {0};
    flx_tensor *watched[TEXT_OUTPUTS];
    flx_error err = {0};
    const flx_run_options finite = {.flags = FLX_RUN_CHECK_FINITE};
    flx_exec *e = flx_compile(g, &(flx_compile_options){.flags = flags, .threads = threads, .optimisation = 2}, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, r.out, &err), &err);
    r.memory = flx_exec_memory(e);
    if (flags == 0) {
        flx_code code = flx_exec_run(e, &finite, feeds, n, watched, &err);
        CHECK_MSG(code == FLX_OK || code == FLX_E_NUMERIC, "%s", err.message); /* masked scores are -inf */
        for (size_t i = 0; code == FLX_OK && i < flx_graph_output_count(g); i++)
            CHECK(memcmp(flx_tensor_const_data(r.out[i]), flx_tensor_const_data(watched[i]),
                         flx_tensor_nbytes(r.out[i])) == 0);
        if (code == FLX_OK)
            bench_release(g, watched);
    }
    flx_exec_free(e);
    return r;
}

static void expect_same_bits(const flx_graph *g, const result *a, const result *b, int threads)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++)
        CHECK_MSG(memcmp(flx_tensor_const_data(a->out[i]), flx_tensor_const_data(b->out[i]),
                         flx_tensor_nbytes(a->out[i])) == 0,
                  "output %zu: other bits with %d threads", i, threads);
}

/* Beside the program whose kernels are single ops, for which nothing is cut. */
static void check_compiled(const flx_graph *g, int threads)
{
    size_t n = feed_all(flx_graph_context(g), g);
    result whole = run_compiled(g, FLX_COMPILE_UNGROUPED, 1, n), one = run_compiled(g, 0, 1, n);
    expect_near(g, whole.out, one.out, 1e-4);
    CHECK_MSG(one.memory * 3 < whole.memory * 2, "%zu bytes in blocks, %zu as a whole", one.memory, whole.memory);
    result more = run_compiled(g, 0, threads, n);
    expect_same_bits(g, &one, &more, threads);
    bench_release(g, more.out);
    bench_release(g, one.out);
    bench_release(g, whole.out);
    release_feeds(n);
    test_count_case();
}

TEST(blocked_programs_agree_with_whole_ones)
{
    static const char *const wrt[] = {"q", "k", "v"};
    for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++) {
        text_bench b = bench_open(compiled[i].text, NULL);
        test_fail_context("%s", compiled[i].what);
        flx_graph *d = flx_grad(b.g, wrt, 3, NULL, &b.err), *t = flx_jvp(b.g, wrt, 3, &b.err);
        CHECK_MADE(d, &b.err);
        CHECK_MADE(t, &b.err);
        check_compiled(d, 2 + (int)i % 2);
        check_compiled(i % 2 ? b.g : t, 3 - (int)i % 2);
        flx_graph_release(d);
        flx_graph_release(t);
        bench_close(&b);
    }
}

/* In the body of a loop, for a batch, and for extents that are known when it runs. */
TEST(blocked_programs_inside_of_others)
{
    static const char inside[] = "graph layer(x: f32[1000, 16], w: f32[16, 16]) {\n"
                                 "  s = dot_general(matmul(x, w), x, lc=[1], rc=[1])\n"
                                 "  return tanh(add(x, matmul(softmax(s, axis=1), x)))\n}\n"
                                 "graph g(x: f32[1000, 16], ws: f32[3, 16, 16]) { return scan(x, ws, body=@layer) }";
    static const char symbolic[] = "graph g(q: f32[2, N, 16], k: f32[2, N, 16]) {\n"
                                   "  s = dot_general(q, k, lc=[2], rc=[2], lb=[0], rb=[0])\n"
                                   "  return matmul(softmax(s, axis=2), k) }";
    text_bench b = bench_open(inside, NULL);
    check_compiled(b.g, 3);
    bench_close(&b);
    b = bench_open(symbolic, NULL);
    flx_graph *many = flx_vmap(b.g, (const flx_vmap_axis[]){{.name = "q"}}, 1, NULL, 0, 3, &b.err);
    CHECK_MADE(many, &b.err);
    flx_exec *e = flx_compile(many, NULL, &b.err);
    CHECK_MADE(e, &b.err);
    for (int64_t extent = 300; extent < 900; extent += 257) {
        flx_graph *bound = flx_specialise(many, &(flx_dim_binding){"N", extent}, 1, &b.err);
        CHECK_MADE(bound, &b.err);
        flx_tensor *y[TEXT_OUTPUTS];
        size_t n = feed_all(b.ctx, bound);
        result whole = run_compiled(bound, FLX_COMPILE_UNGROUPED, 2, n);
        CHECK_OK(flx_exec_run(e, NULL, feeds, n, y, &b.err), &b.err);
        expect_near(bound, whole.out, y, 1e-4);
        bench_release(bound, y);
        bench_release(bound, whole.out);
        release_feeds(n);
        flx_graph_release(bound);
        test_count_case();
    }
    flx_exec_free(e);
    flx_graph_release(many);
    bench_close(&b);
}

/* A run that is stopped in the middle of steps that several threads run, and the next run. */
TEST(blocked_programs_can_be_stopped)
{
    text_bench b = bench_open(LARGE("1280", "6", "6", ", mask_kind=causal"), NULL);
    flx_exec *e = flx_compile(b.g, &(flx_compile_options){.threads = 3}, &b.err);
    CHECK_MADE(e, &b.err);
    size_t n = feed_all(b.ctx, b.g);
    flx_tensor *first[TEXT_OUTPUTS], *second[TEXT_OUTPUTS];
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, first, &b.err), &b.err);
    for (int i = 0; i < 10; i++) {
        const flx_run_options o = {.time_limit = 1e-4 * (i + 1)};
        flx_error err = {0};
        flx_code code = flx_exec_run(e, &o, feeds, n, second, &err);
        CHECK_MSG(code == FLX_OK || code == FLX_E_TIMEOUT, "%s", err.message);
        if (code == FLX_OK)
            bench_release(b.g, second);
        test_count_case();
    }
    CHECK_OK(flx_exec_run(e, NULL, feeds, n, second, &b.err), &b.err);
    expect_near(b.g, first, second, 0);
    bench_release(b.g, first);
    bench_release(b.g, second);
    release_feeds(n);
    flx_exec_free(e);
    bench_close(&b);
}
