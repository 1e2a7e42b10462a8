/* SPDX-License-Identifier: Apache-2.0 */
/* Pattern rewrites: every pattern is found in its canonical graph and in other spellings, rejected where a condition is
   violated, and changes no value; lowering undoes it. */
#include "autodiff/transform_text.h"
#include "graph/graph.h"
#include "graph/op/eval.h"
#include "ops/sample.h"

#include <fluxion/catalogue.h>
#include <math.h>

/* ---- Running ---- */

static size_t count_op(const flx_graph *g, const char *name)
{
    size_t n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        n += strcmp(flxi_ops[flxi_node_at(g, i)->op].name, name) == 0;
    for (size_t i = 0; i < g->bodies.n; i++)
        n += count_op(g->bodies.at[i], name);
    return n;
}

static flx_graph *fuse(const flx_graph *g, uint32_t flags, flx_rewrite_report *report)
{
    flx_error err = {0};
    const flx_rewrite_options o = {sizeof o, flags};
    flx_graph *out = flx_rewrite_patterns(g, &o, report, &err);
    CHECK_MSG(out != NULL, "%s", err.message);
    CHECK_OK(flx_graph_verify(out, &err), &err);
    return out;
}

enum { MOST_LEAVES = 8 };

/* Values for the leaves of g: floats in -1..1, integers 0 or 1; extents of symbols are 3. */
typedef struct {
    flx_feed feeds[MOST_LEAVES];
    size_t n;
} values;

static values values_of(flx_context *ctx, const flx_graph *g, uint64_t *seed)
{
    values v = {.n = g->leaves.n};
    CHECK(v.n <= MOST_LEAVES);
    for (size_t i = 0; i < v.n; i++) {
        const flxi_value *leaf = flxi_value_at(g, g->leaves.at[i]);
        flx_type t = *leaf->type;
        flx_error err = {0};
        for (int k = 0; k < t.rank; k++)
            t.dims[k] = flx_dim_is_static(t.dims[k]) ? t.dims[k] : 3;
        flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
        CHECK_MSG(x != NULL, "%s", err.message);
        for (int64_t e = 0; e < x->count; e++) {
            double r = test_uniform(seed) * 2 - 1;
            flxi_store_double(t.dtype, x->data, e, flxi_is_float(t.dtype) ? r : r > 0);
        }
        v.feeds[i] = (flx_feed){leaf->name, x};
    }
    return v;
}

static void values_release(values *v)
{
    for (size_t i = 0; i < v->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)v->feeds[i].value);
}

static void run(const flx_graph *g, const values *v, flx_tensor **out)
{
    flx_error err = {0};
    CHECK(flx_graph_output_count(g) <= TEXT_OUTPUTS);
    CHECK_OK(flx_run(g, ON_REF, v->feeds, v->n, out, &err), &err);
}

/* Both give the same: to the bit, or to `tolerance`. */
static void check_alike(const flx_graph *a, const flx_graph *b, const values *v, double tolerance)
{
    flx_tensor *x[TEXT_OUTPUTS] = {0}, *y[TEXT_OUTPUTS] = {0};
    size_t n = flx_graph_output_count(a);
    CHECK_EQ_U64(n, flx_graph_output_count(b));
    run(a, v, x);
    run(b, v, y);
    for (size_t k = 0; k < n; k++) {
        CHECK_EQ_I64(flx_tensor_nbytes(x[k]), flx_tensor_nbytes(y[k]));
        if (tolerance == 0)
            CHECK_MSG(memcmp(flx_tensor_const_data(x[k]), flx_tensor_const_data(y[k]), flx_tensor_nbytes(x[k])) == 0,
                      "output %zu differs in bits", k);
        for (int64_t e = 0; e < flx_tensor_count(x[k]); e++)
            CHECK_NEAR(flx_tensor_get(x[k], e), flx_tensor_get(y[k], e), tolerance);
    }
    bench_release(a, x);
    bench_release(b, y);
}

/* The cotangents of all leaves that are floats, for a cotangent of output 0 that is an input. */
static flx_graph *gradient_of(const flx_graph *g)
{
    const char *wrt[MOST_LEAVES];
    size_t n = 0;
    flx_error err = {0};
    const flx_grad_options o = {sizeof o, FLX_GRAD_SEED_INPUT};
    for (size_t i = 0; i < g->leaves.n; i++)
        if (flxi_is_float(flxi_type_at(g, g->leaves.at[i])->dtype))
            wrt[n++] = flxi_value_at(g, g->leaves.at[i])->name;
    flx_graph *d = flx_grad(g, wrt, n, &o, &err);
    CHECK_MSG(d != NULL, "%s", err.message);
    return d;
}

/* ---- Found ---- */

typedef struct {
    const char *name;
    const char *text; /* T is the dtype */
    uint32_t pattern;
    const char *op; /* the op that appears, once */
    bool exact;     /* to the bit in f64 */
} found_row;

#define QKV "q: T[2, 2, 3, 4], k: T[2, 2, 5, 4], v: T[2, 2, 5, 6]"
#define SCORES "  kt = transpose(k, perm=[0, 1, 3, 2])\n  s = mul(matmul(q, kt), 0.5)\n"

static const found_row found[] = {
    {"softmax",
     "graph f(x: T[2, 3]) {\n  e = exp(sub(x, reduce_max(x, axes=[1], keep_dims=true)))\n"
     "  return div(e, reduce_sum(e, axes=[1], keep_dims=true))\n}",
     FLX_PATTERN_SOFTMAX, "softmax", true},
    {"softmax with a stopped maximum along the first axis",
     "graph f(x: T[2, N]) {\n  e = exp(sub(x, stop_gradient(reduce_max(x, axes=[0], keep_dims=true))))\n"
     "  return div(e, reduce_sum(e, axes=[0], keep_dims=true))\n}",
     FLX_PATTERN_SOFTMAX, "softmax", true},
    {"softmax with axes brought back",
     "graph f(x: T[2, 3]) {\n  e = exp(sub(x, unsqueeze(reduce_max(x, axes=[1]), axes=[1])))\n"
     "  return div(e, expand(reshape(reduce_sum(e, axes=[1]), shape=[2, 1]), shape=[2, 3]))\n}",
     FLX_PATTERN_SOFTMAX, "softmax", true},
    {"log_softmax",
     "graph f(x: T[2, 3]) {\n  z = sub(x, reduce_max(x, axes=[1], keep_dims=true))\n"
     "  return sub(z, log(reduce_sum(exp(z), axes=[1], keep_dims=true)))\n}",
     FLX_PATTERN_LOG_SOFTMAX, "log_softmax", true},
    {"layer_norm",
     "graph f(x: T[2, 5], g: T[5], b: T[5]) {\n  d = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"
     "  r = rsqrt(add(reduce_mean(square(d), axes=[1], keep_dims=true), 0.001))\n"
     "  return add(mul(mul(d, r), g), b)\n}",
     FLX_PATTERN_NORM, "layer_norm", true},
    {"layer_norm with operands the other way round and a product for the square",
     "graph f(x: T[2, 5], g: T[1, 5], b: T[5]) {\n  d = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"
     "  r = rsqrt(add(0.001, reduce_mean(mul(d, d), axes=[1], keep_dims=true)))\n"
     "  return add(b, mul(g, mul(r, d)))\n}",
     FLX_PATTERN_NORM, "layer_norm", true},
    {"layer_norm divided by a root, with sums for means",
     "graph f(x: T[2, 5], g: T[5], b: T[5]) {\n  d = sub(x, div(reduce_sum(x, axes=[1], keep_dims=true), 5))\n"
     "  s = sqrt(add(mul(reduce_sum(square(d), axes=[1], keep_dims=true), 0.2), 0.001))\n"
     "  return add(mul(div(d, s), g), b)\n}",
     FLX_PATTERN_NORM, "layer_norm", false},
    {"layer_norm along the first axis",
     "graph f(x: T[2, 5], g: T[2], b: T[2]) {\n"
     "  d = sub(x, reduce_mean(x, axes=[0], keep_dims=true))\n"
     "  r = rsqrt(add(reduce_mean(square(d), axes=[0], keep_dims=true), 0.001))\n"
     "  return add(mul(mul(d, r), unsqueeze(g, axes=[1])), reshape(b, shape=[2, 1]))\n}",
     FLX_PATTERN_NORM, "layer_norm", true},
    {"rms_norm",
     "graph f(x: T[N, 5], g: T[5]) {\n"
     "  r = rsqrt(add(reduce_mean(square(x), axes=[1], keep_dims=true), 1e-5))\n  return mul(mul(x, r), g)\n}",
     FLX_PATTERN_NORM, "rms_norm", true},
    {"rms_norm with 1 / sqrt",
     "graph f(x: T[2, 5], g: T[5], b: T[5]) {\n"
     "  r = div(1, sqrt(add(reduce_mean(square(x), axes=[1], keep_dims=true), 1e-5)))\n"
     "  return add(mul(g, mul(x, r)), b)\n}",
     FLX_PATTERN_NORM, "rms_norm", false},
    {"cross entropy",
     "graph f(x: T[2, 3], l: i32[2]) {\n"
     "  t = take_along(log_softmax(x, axis=1), unsqueeze(l, axes=[1]), axis=1)\n"
     "  return sub(0, reshape(t, shape=[2]))\n}",
     FLX_PATTERN_CROSS_ENTROPY, "softmax_cross_entropy_with_logits", true},
    {"cross entropy negated",
     "graph f(x: T[2, 3], l: i32[2]) {\n"
     "  t = take_along(log_softmax(x, axis=1), unsqueeze(l, axes=[1]), axis=1, oob=zero)\n"
     "  return neg(squeeze(t, axes=[1]))\n}",
     FLX_PATTERN_CROSS_ENTROPY, "softmax_cross_entropy_with_logits", false},
    {"a residual before layer_norm",
     "graph f(x: T[2, 5], r: T[2, 5], g: T[5], b: T[5]) { return layer_norm(add(r, x), g, b, eps=0.01) }",
     FLX_PATTERN_RESIDUAL_NORM, "fused_residual_ln", true},
    {"a residual and a bias before rms_norm",
     "graph f(x: T[2, 5], r: T[2, 5], c: T[5], g: T[5], b: T[5]) {\n"
     "  return rms_norm(add(c, add(x, r)), g, b, eps=0.01)\n}",
     FLX_PATTERN_RESIDUAL_NORM, "fused_residual_rms_norm", true},
    {"matmul, bias, gelu", "graph f(x: T[2, 3], w: T[3, 4], b: T[4]) { return gelu(add(matmul(x, w), b)) }",
     FLX_PATTERN_MATMUL_BIAS, "fused_matmul_bias_act", true},
    {"matmul and a stretched bias as left operand",
     "graph f(x: T[2, N, 3], w: T[3, 4], b: T[4]) { return add(expand(b, shape=[2, N, 4]), matmul(x, w)) }",
     FLX_PATTERN_MATMUL_BIAS, "fused_matmul_bias_act", true},
    {"matmul and a bias of one row",
     "graph f(x: T[2, 3], w: T[3, 4], b: T[1, 4]) { return tanh(add(matmul(x, w), b)) }", FLX_PATTERN_MATMUL_BIAS,
     "fused_matmul_bias_act", true},
    {"matmul and a residual", "graph f(x: T[2, 3], w: T[3, 4], r: T[2, 4]) { return add(r, matmul(x, w)) }",
     FLX_PATTERN_MATMUL_RESIDUAL, "fused_matmul_residual", true},
    {"conv, bias, relu",
     "graph f(x: T[2, 3, 4, 4], w: T[5, 3, 2, 3], b: T[5]) {\n"
     "  c = conv(x, w, stride=[2, 1], padding=[[0, 1], [1, 1]])\n"
     "  return relu(add(c, reshape(b, shape=[1, 5, 1, 1])))\n}",
     FLX_PATTERN_CONV_BIAS, "fused_conv_bias_act", true},
    {"conv with features last and a bias that stretches by itself",
     "graph f(x: T[2, 4, 3], w: T[5, 3, 2], b: T[5]) {\n"
     "  return add(conv(x, w, input_axes=[0, 2, 1], output_axes=[0, 2, 1]), b)\n}",
     FLX_PATTERN_CONV_BIAS, "fused_conv_bias_act", true},
    {"swiglu",
     "graph f(p: T[2, 6]) {\n  u = narrow(p, axis=1, start=0, len=3)\n"
     "  return mul(silu(narrow(p, axis=1, start=3, len=3)), u)\n}",
     FLX_PATTERN_SWIGLU, "fused_swiglu", true},
    {"swiglu of a split with the gate first",
     "graph f(p: T[2, 6]) {\n  g, u = split(p, sizes=[3, 3], axis=1)\n  return mul(u, silu(g))\n}", FLX_PATTERN_SWIGLU,
     "fused_swiglu", true},
    {"swiglu with x sigmoid(x)",
     "graph f(p: T[2, 6]) {\n  g, u = split(p, sizes=[3, 3], axis=1)\n  return mul(mul(sigmoid(g), g), u)\n}",
     FLX_PATTERN_SWIGLU, "fused_swiglu", false},
    {"attention", "graph f(" QKV ") {\n" SCORES "  return matmul(softmax(s), v)\n}", FLX_PATTERN_ATTENTION, "attention",
     true},
    {"attention divided by 2, keys transposed before",
     "graph f(q: T[2, 2, 3, 4], k: T[2, 2, 4, 5], v: T[2, 2, 5, 4]) {\n"
     "  return matmul(softmax(div(matmul(q, k), 2)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", true},
    {"attention without a scale",
     "graph f(q: T[2, 2, N, 4], k: T[2, 2, N, 4], v: T[2, 2, N, 4]) {\n"
     "  return matmul(softmax(matmul(q, transpose(k, perm=[0, 1, 3, 2]))), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", true},
    {"attention with a scale on the queries",
     "graph f(" QKV ") {\n  s = matmul(mul(q, 0.5), transpose(k, perm=[0, 1, 3, 2]))\n"
     "  return matmul(softmax(s), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", false},
    {"causal attention",
     "graph f(q: T[2, 2, N, 4], k: T[2, 2, N, 4], v: T[2, 2, N, 4]) {\n" SCORES
     "  m = le(iota(i64[1, N], axis=1), iota(i64[N, 1]))\n  return matmul(softmax(where(m, s, -inf)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", true},
    {"causal attention, i32 positions of whole matrices, forbidden where above",
     "graph f(q: T[2, 2, 4, 4], k: T[2, 2, 4, 4], v: T[2, 2, 4, 4]) {\n" SCORES
     "  m = gt(iota(i32[4, 4], axis=1), iota(i32[4, 4], axis=0))\n"
     "  return matmul(softmax(where(m, -inf, s)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", true},
    {"causal attention with more keys, queries counted in a reshaped row",
     "graph f(" QKV ") {\n" SCORES "  i = add(reshape(iota(i64[3]), shape=[3, 1]), 2)\n  m = ge(i, iota(i64[5]))\n"
     "  return matmul(softmax(where(m, s, -inf)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", true},
    {"causal attention with a scale on the queries",
     "graph f(q: T[2, 2, 4, 4], k: T[2, 2, 4, 4], v: T[2, 2, 4, 4]) {\n"
     "  s = matmul(mul(q, 0.5), transpose(k, perm=[0, 1, 3, 2]))\n"
     "  m = le(iota(i64[1, 4], axis=1), iota(i64[4, 1]))\n  return matmul(softmax(where(m, s, -inf)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", false},
    {"attention in a window",
     "graph f(q: T[2, 2, 4, 4], k: T[2, 2, 4, 4], v: T[2, 2, 4, 4]) {\n" SCORES
     "  j = iota(i64[1, 4], axis=1)\n  i = iota(i64[4, 1])\n"
     "  return matmul(softmax(where(and(le(j, i), ge(j, sub(i, 2))), s, -inf)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", true},
    {"attention with a mask that is given",
     "graph f(" QKV ", c: T[3, 5]) {\n" SCORES "  return matmul(softmax(where(gt(c, -2), s, -inf)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", false},
    {"attention with a bias and a soft cap",
     "graph f(" QKV ", c: T[2, 3, 5]) {\n" SCORES "  l = mul(tanh(div(s, 30)), 30)\n"
     "  return matmul(softmax(add(c, l)), v)\n}",
     FLX_PATTERN_ATTENTION, "attention", false},
    {"regions", "graph f(x: T[2, 3], w: T[3]) {\n  y = add(sin(mul(x, w)), 1.5)\n  return mul(y, tanh(y))\n}",
     FLX_PATTERN_REGION, "elementwise_region", true},
    {"regions on slices",
     "graph f(x: T[7, 3], w: T[3], c: T[7, 1]) {\n"
     "  a = tanh(add(mul(narrow(x, axis=0, start=0, len=2), w), narrow(c, axis=0, start=0, len=2)))\n"
     "  b = tanh(add(mul(narrow(x, axis=0, start=3, len=4), w), narrow(c, axis=0, start=3, len=4)))\n"
     "  return concat(a, b, axis=0)\n}",
     FLX_PATTERN_BATCH_REGION, "batch_elementwise_region", true},
};

static bool needs_regions(const found_row *row)
{
    return row->pattern == FLX_PATTERN_REGION || row->pattern == FLX_PATTERN_BATCH_REGION;
}

/* The text with T replaced, in which the dtype is f64 or f32. */
static char *typed(const char *text, const char *dtype)
{
    static char out[2000];
    size_t n = 0;
    for (const char *s = text; *s; s++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s", *s == 'T' && s[1] == '[' ? 3 : 1,
                              *s == 'T' && s[1] == '[' ? dtype : s);
    CHECK(n < sizeof out);
    return out;
}

static void check_found(const found_row *row, uint32_t flags, const char *dtype, uint64_t *seed)
{
    text_bench b = bench_open(typed(row->text, dtype), NULL);
    flx_rewrite_report report;
    flags |= needs_regions(row) ? FLX_REWRITE_REGIONS : 0u;
    flx_graph *g = fuse(b.g, flags, &report);
    bool wide = strcmp(dtype, "f64") == 0;
    bool exact = flags & FLX_REWRITE_EXACT;
    if (exact && !row->exact) {
        CHECK_EQ_U64(report.rewritten[row->pattern], 0);
        CHECK_EQ_U64(report.miss_count > 0, 1);
    } else if (wide || !exact) {
        CHECK_EQ_U64(report.rewritten[row->pattern], 1);
        CHECK_EQ_U64(count_op(g, row->op), 1);
    }
    values v = values_of(b.ctx, b.g, seed);
    flx_graph *unfused = flx_lower(g, FLX_POLICY_FOR_AUTODIFF, &b.err);
    CHECK_MSG(unfused != NULL, "%s", b.err.message);
    double tolerance = exact || (wide && row->exact) ? 0 : wide ? 1e-13 : 2e-6;
    check_alike(b.g, g, &v, tolerance);
    check_alike(b.g, unfused, &v, tolerance);
    values_release(&v);
    flx_graph_release(unfused);
    flx_graph_release(g);
    bench_close(&b);
    test_count_case();
}

TEST(fuse_finds_every_pattern)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        test_fail_context("%s", found[i].name);
        check_found(&found[i], 0, "f64", &seed);
        check_found(&found[i], 0, "f32", &seed);
    }
}

TEST(fuse_exactly_keeps_every_bit)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        test_fail_context("%s", found[i].name);
        check_found(&found[i], FLX_REWRITE_EXACT, "f64", &seed);
        check_found(&found[i], FLX_REWRITE_EXACT, "f32", &seed);
    }
}

TEST(fuse_keeps_gradients)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        test_fail_context("%s", found[i].name);
        text_bench b = bench_open(typed(found[i].text, "f64"), NULL);
        flx_graph *g = fuse(b.g, needs_regions(&found[i]) ? FLX_REWRITE_REGIONS : 0, NULL);
        flx_graph *before = gradient_of(b.g), *after = gradient_of(g);
        values v = values_of(b.ctx, before, &seed);
        check_alike(before, after, &v, 1e-12);
        values_release(&v);
        flx_graph_release(before);
        flx_graph_release(after);
        flx_graph_release(g);
        bench_close(&b);
    }
}

/* ---- Rejected ---- */

typedef struct {
    const char *text;
    uint32_t pattern;
    const char *reason; /* NULL: there is not even a near miss */
} refused_row;

static const refused_row refused[] = {
    {"graph f(x: f64[2, 3], w: f64[3, 4], b: f64[4]) {\n  m = matmul(x, w)\n  return relu(add(m, b)), m\n}",
     FLX_PATTERN_MATMUL_BIAS, "matmul 'm' (f64[2, 4]) is an output"},
    {"graph f(x: f64[2, 3], w: f64[3, 4], b: f64[4]) {\n  m = matmul(x, w)\n  return relu(add(m, b)), exp(m)\n}",
     FLX_PATTERN_MATMUL_BIAS, "matmul 'm' (f64[2, 4]) is used elsewhere"},
    {"graph f(x: f64[2, 3], w: f64[3, 4], b: f64[4]) {\n  pin m = matmul(x, w)\n  return relu(add(m, b))\n}",
     FLX_PATTERN_MATMUL_BIAS, "matmul 'm' (f64[2, 4]) is pinned"},
    {"graph f(x: f64[5, 2, 3], w: f64[5, 3, 4], b: f64[4]) { return add(matmul(x, w), b) }", FLX_PATTERN_MATMUL_BIAS,
     "fused_matmul_bias_act: w must be a matrix: it is [5, 3, 4]"},
    {"graph f(x: f64[4, 3], w: f64[3, 4], b: f64[4, 1]) { return relu(add(matmul(x, w), b)) }", FLX_PATTERN_MATMUL_BIAS,
     NULL},
    {"graph f(x: f64[2, 3], w: f64[3, 4]) {\n  m = matmul(x, w)\n  return add(m, m)\n}", FLX_PATTERN_MATMUL_RESIDUAL,
     "matmul 'm' (f64[2, 4]) is both inside the pattern and an operand"},
    {"graph f(x: f16[2, 3], w: f16[3, 4], b: f32[4]) {\n  return relu(add(cast(matmul(x, w), to=f32), b))\n}",
     FLX_PATTERN_MATMUL_BIAS, NULL},
    {"graph f(x: f64[2, 3]) {\n  e = exp(x)\n  return div(e, reduce_sum(e, axes=[1], keep_dims=true))\n}",
     FLX_PATTERN_SOFTMAX, "input 'x' (f64[2, 3]) does not match what softmax needs there: sub"},
    {"graph f(x: f64[3, 3]) {\n  e = exp(sub(x, reduce_max(x, axes=[0], keep_dims=true)))\n"
     "  return div(e, reduce_sum(e, axes=[1], keep_dims=true))\n}",
     FLX_PATTERN_SOFTMAX, "does not match what softmax needs there"},
    {"graph f(x: f64[2, 3]) {\n  e = exp(sub(x, reduce_max(x, axes=[1], keep_dims=true)))\n"
     "  return div(e, reduce_sum(e, axes=[0, 1], keep_dims=true))\n}",
     FLX_PATTERN_SOFTMAX, NULL},
    {"graph f(x: f16[2, 3]) {\n  e = exp(sub(x, reduce_max(x, axes=[1], keep_dims=true)))\n"
     "  return div(e, reduce_sum(e, axes=[1], keep_dims=true))\n}",
     FLX_PATTERN_SOFTMAX, "does not match what softmax needs there: cast"},
    {"graph f(x: f64[4, 4], g: f64[4], b: f64[4]) {\n  d = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"
     "  r = rsqrt(add(reduce_mean(square(x), axes=[1], keep_dims=true), 0.001))\n"
     "  return add(mul(mul(d, r), g), b)\n}",
     FLX_PATTERN_NORM, "input 'x' (f64[4, 4]) does not match what layer_norm needs there: sub"},
    {"graph f(x: f64[4, 4], g: f64[4], b: f64[4]) {\n  d = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"
     "  r = rsqrt(add(reduce_mean(square(d), axes=[0], keep_dims=true), 0.001))\n"
     "  return add(mul(mul(d, r), g), b)\n}",
     FLX_PATTERN_NORM, "does not match what rms_norm needs there"},
    {"graph f(x: f64[2, 5], r: f64[2, 5], g: f64[5], b: f64[5]) {\n  h = add(x, r)\n"
     "  return layer_norm(h, g, b), h\n}",
     FLX_PATTERN_RESIDUAL_NORM, "add 'h' (f64[2, 5]) is an output"},
    {"graph f(x: f64[5, 2], r: f64[5, 2], g: f64[5], b: f64[5]) { return layer_norm(add(x, r), g, b, axis=0) }",
     FLX_PATTERN_RESIDUAL_NORM, "gamma must be a vector"},
    {"graph f(x: f64[5, 5], r: f64[5, 5], g: f64[5], b: f64[5]) { return layer_norm(add(x, r), g, b, axis=0) }",
     FLX_PATTERN_RESIDUAL_NORM, "does not match what fused_residual_ln needs there"},
    {"graph f(p: f64[2, 7]) {\n  u = narrow(p, axis=1, start=0, len=3)\n"
     "  return mul(silu(narrow(p, axis=1, start=3, len=3)), u)\n}",
     FLX_PATTERN_SWIGLU, "the last axis must have two halves"},
    {"graph f(p: f64[2, 8]) {\n  u = narrow(p, axis=1, start=0, len=3)\n"
     "  return mul(silu(narrow(p, axis=1, start=3, len=3)), u)\n}",
     FLX_PATTERN_SWIGLU, "fused_swiglu would have a different type"},
    {"graph f(p: f64[6, 6]) {\n  u = narrow(p, axis=0, start=0, len=3)\n"
     "  return mul(silu(narrow(p, axis=0, start=3, len=3)), u)\n}",
     FLX_PATTERN_SWIGLU, "fused_swiglu would have a different type"},
    {"graph f(x: f64[2, 3, 4, 4], w: f64[4, 3, 1, 1], b: f64[4]) { return add(conv(x, w), b) }", FLX_PATTERN_CONV_BIAS,
     "does not match what fused_conv_bias_act needs there"},
    {"graph f(x: f64[2, 3], l: i32[2]) {\n  p = log_softmax(x, axis=1)\n"
     "  t = take_along(p, unsqueeze(l, axes=[1]), axis=1)\n  return neg(squeeze(t, axes=[1])), p\n}",
     FLX_PATTERN_CROSS_ENTROPY, "log_softmax 'p' (f64[2, 3]) is an output"},
    {"graph f(q: f64[2, 2, 4, 4], k: f64[2, 2, 4, 4], v: f64[2, 2, 4, 4]) {\n" SCORES
     "  p = softmax(s, axis=2)\n  return matmul(p, v)\n}",
     FLX_PATTERN_ATTENTION, NULL},
    {"graph f(q: f64[2, 2, 4, 4], k: f64[2, 2, 4, 4], v: f64[2, 2, 4, 4]) {\n" SCORES
     "  p = softmax(s)\n  return matmul(p, v), p\n}",
     FLX_PATTERN_ATTENTION, "softmax 'p' (f64[2, 2, 4, 4]) is an output"},
    {"graph f(q: f64[2, 4, 4], k: f64[2, 4, 4], v: f64[2, 4, 4]) {\n"
     "  return matmul(softmax(matmul(q, transpose(k, perm=[0, 2, 1]))), v)\n}",
     FLX_PATTERN_ATTENTION, NULL},
    {"graph f(q: f64[2, 2, 4, 4], k: f64[2, 2, 4, 4], v: f64[2, 2, 4, 4]) {\n" SCORES
     "  m = lt(iota(i64[1, 4], axis=1), iota(i64[4, 1]))\n  return matmul(softmax(where(not(m), -1e9, s)), v)\n}",
     FLX_PATTERN_ATTENTION, "does not match what attention needs there"},
};

static void check_refused(const refused_row *row, uint64_t *seed)
{
    text_bench b = bench_open(row->text, NULL);
    flx_rewrite_report report;
    const flx_rewrite_options clean = {sizeof clean, FLX_REWRITE_CLEAN};
    flx_graph *g = fuse(b.g, 0, &report);
    const char *told = NULL;
    CHECK_EQ_U64(report.rewritten[row->pattern], 0);
    for (uint32_t i = 0; i < report.miss_count; i++)
        if (report.misses[i].pattern == row->pattern && (!told || (row->reason && !strstr(told, row->reason))))
            told = report.misses[i].reason;
    if (row->reason)
        CHECK_MSG(told && strstr(told, row->reason), "%s", told ? told : "no near miss");
    flx_graph *never = flx_rewrite_patterns(b.g, &clean, NULL, &b.err);
    CHECK_EQ_U64(never == NULL, report.miss_count > 0);
    if (!never)
        CHECK_CODE(b.err.code, FLX_E_CHECK, &b.err);
    flx_graph_release(never);
    values v = values_of(b.ctx, b.g, seed);
    check_alike(b.g, g, &v, 1e-13);
    values_release(&v);
    flx_graph_release(g);
    bench_close(&b);
    test_count_case();
}

TEST(fuse_refuses_what_breaks_a_condition)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        test_fail_context("%s", refused[i].text);
        check_refused(&refused[i], &seed);
    }
}

/* ---- Damaged ---- */

/* Whether all values of the graph are finite: a query without keys may differ, see flx_rewrite_patterns(). */
static bool is_finite_at(const flx_graph *g, const values *v)
{
    flx_tensor *x[TEXT_OUTPUTS] = {0};
    flx_error err = {0};
    bool finite = flx_run(g, ON_REF, v->feeds, v->n, x, &err) == FLX_OK;
    for (size_t k = 0; k < flx_graph_output_count(g) && finite; k++)
        for (int64_t e = 0; e < flx_tensor_count(x[k]); e++)
            finite &= isfinite(flx_tensor_get(x[k], e)) != 0;
    bench_release(g, x);
    return finite;
}

/* A graph that is nearly the pattern: whatever it is rewritten to has the same values. */
static void fuse_damaged(const char *text, uint64_t *seed)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "damaged", &err);
    const flx_graph *g = m ? flx_module_main(m) : NULL;
    if (g) {
        test_fail_context("%s", text);
        values v = values_of(ctx, g, seed);
        flx_graph *exact = fuse(g, FLX_REWRITE_EXACT | FLX_REWRITE_REGIONS, NULL), *loose = fuse(g, 0, NULL);
        if (is_finite_at(g, &v)) {
            check_alike(g, exact, &v, 0);
            check_alike(g, loose, &v, 1e-9);
            test_count_case();
        }
        values_release(&v);
        flx_graph_release(exact);
        flx_graph_release(loose);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

static const char *const damages[][2] = {
    {"sub(", "add("},
    {"add(", "sub("},
    {"mul(", "div("},
    {"div(", "mul("},
    {"mul(", "add("},
    {"axes=[1]", "axes=[0]"},
    {"axes=[0]", "axes=[1]"},
    {"0.5", "0.25"},
    {"0.001", "0.002"},
    {"le(", "lt("},
    {"le(", "ge("},
    {"gt(", "ge("},
    {"ge(", "gt("},
    {"ge(", "le("},
    {"axis=1", "axis=0"},
    {"axis=0", "axis=1"},
    {"reduce_max", "reduce_min"},
    {"reduce_mean", "reduce_sum"},
    {"reduce_sum", "reduce_mean"},
    {"start=0", "start=1"},
    {"start=3", "start=2"},
    {"start=3", "start=0"},
    {"rsqrt(", "sqrt("},
    {"sqrt(", "abs("},
    {"-inf", "-1"},
    {"square(", "abs("},
    {"sigmoid(", "tanh("},
    {"silu(", "gelu("},
    {"30)", "29)"},
    {", 2)", ", 1)"},
    {", 5)", ", 4)"},
    {"log(", "exp("},
    {"exp(", "tanh("},
    {"keep_dims=true", "keep_dims=false"},
    {"(d, r)", "(x, r)"},
    {"(d)", "(x)"},
    {"(j, i)", "(i, j)"},
    {"(p, v)", "(v, p)"},
    {", s, -inf", ", -inf, s"},
    {"-inf, s", "s, -inf"},
    {"[4, 1]", "[1, 4]"},
    {"[1, N]", "[N, 1]"},
    {"[1, 4, 1]", "[4, 1, 1]"},
    {"(x, w)", "(w, w)"},
    {"softmax(", "log_softmax("},
    {"transpose(", "exp("},
    {"(q, kt)", "(kt, q)"},
    {", v)", ", k)"},
    {"and(", "or("},
    {"unsqueeze(l", "unsqueeze(neg(l)"},
    {"i64[3]", "i64[5]"},
    {"(s)", "(s, axis=2)"},
    {"[2, 1]", "[1, 2]"},
    {"(g", "(b"},
    {", b)", ", g)"},
    {"sizes=[3, 3]", "sizes=[2, 4]"},
};

TEST(fuse_of_damaged_patterns_keeps_values)
{
    uint64_t seed = test_seed();
    char text[2000];
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        for (size_t k = 0; k < sizeof damages / sizeof *damages; k++) {
            const char *whole = typed(found[i].text, "f64"), *from = damages[k][0];
            for (const char *at = strstr(whole, from); at; at = strstr(at + 1, from)) {
                snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, damages[k][1], at + strlen(from));
                fuse_damaged(text, &seed);
            }
        }
    }
}

/* ---- Several at once ---- */

/* A mask is shared by two layers: it stays, and both are rewritten. A norm of primitive ops becomes part of a larger
   pattern. */
#define LAYER(n, in)                                                                         \
    "  s" n " = mul(matmul(" in ", transpose(" in ", perm=[0, 1, 3, 2])), 0.5)\n"            \
    "  e" n " = where(m, s" n ", -inf)\n"                                                    \
    "  x" n " = exp(sub(e" n ", reduce_max(e" n ", axes=[3], keep_dims=true)))\n"            \
    "  y" n " = matmul(div(x" n ", reduce_sum(x" n ", axes=[3], keep_dims=true)), " in ")\n" \
    "  h" n " = add(" in ", y" n ")\n"                                                       \
    "  d" n " = sub(h" n ", reduce_mean(h" n ", axes=[3], keep_dims=true))\n"                \
    "  z" n " = add(mul(div(d" n ", sqrt(add(reduce_mean(square(d" n "), axes=[3], keep_dims=true), 0.01))), g), b)\n"

TEST(fuse_takes_a_network_of_primitive_ops)
{
    uint64_t seed = test_seed();
    text_bench b = bench_open("graph f(x: f64[1, 2, 4, 4], g: f64[4], b: f64[4], w: f64[4, 3], c: f64[3]) {\n"
                              "  m = le(iota(i64[1, 4], axis=1), iota(i64[4, 1]))\n" LAYER("1", "x")
                                  LAYER("2", "z1") "  return relu(add(matmul(z2, w), c))\n}",
                              NULL);
    flx_rewrite_report report;
    flx_graph *g = fuse(b.g, 0, &report);
    static const uint32_t expected[] = {FLX_PATTERN_SOFTMAX, FLX_PATTERN_NORM, FLX_PATTERN_RESIDUAL_NORM,
                                        FLX_PATTERN_ATTENTION};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK_EQ_U64(report.rewritten[expected[i]], 2);
    CHECK_EQ_U64(report.rewritten[FLX_PATTERN_MATMUL_BIAS], 1);
    CHECK_EQ_U64(report.miss_count, 0);
    CHECK_EQ_U64(g->node_count, 5 + 5);
    values v = values_of(b.ctx, b.g, &seed);
    check_alike(b.g, g, &v, 1e-13);
    values_release(&v);
    flx_graph *again = fuse(g, 0, &report);
    CHECK(flx_graph_hash(again) == flx_graph_hash(g));
    flx_graph_release(again);
    flx_graph_release(g);
    bench_close(&b);
}

TEST(fuse_goes_into_bodies)
{
    uint64_t seed = test_seed();
    text_bench b =
        bench_open("graph step(x: f64[2, 3], w: f64[3, 3], b: f64[3]) { return tanh(add(matmul(x, w), b)) }\n"
                   "graph f(x: f64[2, 3], w: f64[3, 3], b: f64[3]) {\n"
                   "  return scan(x, w, b, body=@step, num_carry=1, num_bcast=2, length=3)\n}",
                   NULL);
    flx_rewrite_report report;
    flx_graph *g = fuse(b.g, FLX_REWRITE_EXACT, &report);
    CHECK_EQ_U64(report.rewritten[FLX_PATTERN_MATMUL_BIAS], 1);
    CHECK_EQ_U64(count_op(g, "fused_matmul_bias_act"), 1);
    values v = values_of(b.ctx, b.g, &seed);
    check_alike(b.g, g, &v, 0);
    values_release(&v);
    flx_graph_release(g);
    bench_close(&b);
}

/* Twice the layers take twice the work: quadratic time would take minutes. */
TEST(fuse_is_linear_in_the_layers)
{
    enum { LAYERS = 3000 };
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "deep");
    const flx_type square = flx_type_make(FLX_F64, 2, (const flx_dim[]){2, 2});
    const flx_type row = flx_type_make(FLX_F64, 1, (const flx_dim[]){2});
    flx_val x = flx_input(g, "x", &square), w = flx_input(g, "w", &square), b = flx_input(g, "b", &row);
    for (int i = 0; i < LAYERS; i++)
        x = flx_tanh(g, flx_add(g, flx_matmul(g, x, w), b));
    flx_output(g, x, "y");
    flx_rewrite_report report;
    flx_graph *fused = fuse(g, FLX_REWRITE_REGIONS, &report);
    CHECK_EQ_U64(report.rewritten[FLX_PATTERN_MATMUL_BIAS], LAYERS);
    CHECK_EQ_U64(fused->node_count, LAYERS + 3);
    flx_graph_release(fused);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(fuse_cuts_regions_at_16_inputs)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "wide");
    const flx_type row = flx_type_make(FLX_F64, 1, (const flx_dim[]){2});
    flx_val x = flx_input(g, "x", &row);
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        x = flx_mul(g, x, flx_sin(g, flx_input(g, name, &row)));
    }
    flx_output(g, x, "y");
    flx_rewrite_report report;
    flx_graph *fused = fuse(g, FLX_REWRITE_REGIONS, &report);
    CHECK_EQ_U64(report.rewritten[FLX_PATTERN_REGION], 3);
    CHECK_EQ_U64(count_op(fused, "elementwise_region"), 3);
    flx_graph_release(fused);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Another chain, another order, slices of something else, and a slice that something else reads. */
TEST(fuse_batches_only_equal_regions_on_slices_in_order)
{
#define SLICE(name, at) name " = tanh(mul(narrow(x, axis=0, start=" at ", len=2), w))\n"
    static const char *const texts[] = {
        "graph f(x: f64[6], w: f64[]) {\n" SLICE("a", "0") "b = sin(mul(narrow(x, axis=0, start=2, len=2), w))\n"
                                                           "return concat(a, b, axis=0) }",
        "graph f(x: f64[6], w: f64[]) {\n" SLICE("a", "4") SLICE("b", "0") "return concat(a, b, axis=0) }",
        "graph f(x: f64[6], w: f64[]) {\n" SLICE("a", "0") SLICE("b", "1") "return concat(a, b, axis=0) }",
        "graph f(x: f64[6], w: f64[], y: f64[6]) {\n" SLICE("a", "0") "b = tanh(mul(narrow(y, axis=0, start=2, len=2), "
                                                                      "w))\nreturn concat(a, b, axis=0) }",
        "graph f(x: f64[6], w: f64[]) {\n" SLICE("a", "0") SLICE("b", "2") "return concat(a, b, axis=0), a }",
        "graph f(x: f64[2], w: f64[]) {\n" SLICE("a", "0") "return concat(a, a, axis=0) }",
    };
#undef SLICE
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text_bench b = bench_open(texts[i], NULL);
        flx_rewrite_report report;
        flx_graph *g = fuse(b.g, FLX_REWRITE_REGIONS, &report);
        test_fail_context("%s", texts[i]);
        CHECK_EQ_U64(report.rewritten[FLX_PATTERN_BATCH_REGION], 0);
        flx_graph_release(g);
        bench_close(&b);
    }
}

/* ---- Every op that has a decomposition ---- */

static bool is_made(const char *op)
{
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (strcmp(found[i].op, op) == 0)
            return true;
    return false;
}

/* Decomposed and rewritten again, an op gives the same bits; an op that patterns produce reappears, in every layout,
   with every mask and with symbols, except for regions of a single op. */
static void refuse_sample(const sample_case *c)
{
    flx_error err = {0};
    if (c->sample->error || !flxi_ops[c->op].rules->decompose || c->dtype != FLX_F64)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    test_fail_context("%s", sample_describe(c));
    flx_graph *low = flx_lower(flx_module_main(m), FLX_POLICY_FOR_AUTODIFF, &err);
    CHECK_MSG(low != NULL, "%s", err.message);
    flx_graph *again = fuse(low, FLX_REWRITE_EXACT | FLX_REWRITE_REGIONS, NULL);
    if (is_made(flxi_ops[c->op].name) && !strstr(flxi_ops[c->op].name, "elementwise_region"))
        CHECK_EQ_U64(count_op(again, flxi_ops[c->op].name), 1);
    flx_tensor *x[TEXT_OUTPUTS] = {0}, *y[TEXT_OUTPUTS] = {0};
    if (sample_run(low, c, FILL_RANDOM, x, &err) == FLX_OK) {
        CHECK_OK(sample_run(again, c, FILL_RANDOM, y, &err), &err);
        for (size_t k = 0; k < flx_graph_output_count(low); k++)
            CHECK(memcmp(flx_tensor_const_data(x[k]), flx_tensor_const_data(y[k]), flx_tensor_nbytes(x[k])) == 0);
        bench_release(low, x);
        bench_release(again, y);
    }
    flx_graph_release(low);
    flx_graph_release(again);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(fuse_undoes_unfusing_to_the_bit)
{
    sample_each(refuse_sample);
}

/* ---- Random networks ---- */

/* Composites and ops on [3, 4], decomposed, with some values that are outputs. */
static flx_graph *random_network(flx_context *ctx, uint64_t *seed)
{
    static const char *const acts[] = {"none", "relu", "tanh", "gelu", "silu", "mish"};
    const flx_type square = flx_type_make(FLX_F64, 2, (const flx_dim[]){4, 4});
    const flx_type row = flx_type_make(FLX_F64, 1, (const flx_dim[]){4});
    const flx_type rows = flx_type_make(FLX_F64, 2, (const flx_dim[]){3, 4});
    flx_graph *g = flx_graph_new(ctx, "net");
    flx_val x = flx_input(g, "x", &rows), w = flx_input(g, "w", &square), b = flx_input(g, "b", &row);
    flx_val res = x;
    for (uint64_t depth = 2 + test_random(seed) % 8; depth > 0; depth--) {
        const char *act = acts[test_random(seed) % 6];
        flx_val before = x;
        switch (test_random(seed) % 9) {
        case 0: x = flx_linear(g, x, w, b, act); break;
        case 1: x = flx_gated_ffn(g, x, w, w, w, act); break;
        case 2: x = flx_softmax(g, x, (int64_t)(test_random(seed) % 2)); break;
        case 3: x = flx_layer_norm(g, flx_add(g, x, res), b, b, -1, 0.1); break;
        case 4: x = flx_rms_norm(g, x, b, FLX_NONE, -1, 0.1); break;
        case 5: x = flx_add(g, flx_matmul(g, x, w), res); break;
        case 6: x = flx_fused_swiglu(g, flx_concat(g, ((const flx_val[]){x, res}), 2, 1), 0, FLX_DTYPE_NONE); break;
        case 7: x = flx_mul(g, flx_log_softmax(g, x, 1), flx_tanh(g, res)); break;
        default: x = flx_tanh(g, flx_add(g, x, b)); break;
        }
        if (test_random(seed) % 4 == 0)
            res = before;
        if (test_random(seed) % 8 == 0)
            flx_output(g, before, "before");
        if (test_random(seed) % 8 == 0)
            flx_pin(g, x);
    }
    flx_output(g, x, "y");
    return g;
}

static size_t count_pins(const flx_graph *g)
{
    size_t n = 0;
    for (uint32_t id = 1; id <= g->value_count; id++)
        n += flxi_value_at(g, id)->pinned;
    return n;
}

TEST(fuse_random_networks_agree)
{
    uint64_t seed = test_seed();
    for (int round = 0; round < 60; round++) {
        test_fail_context("round %d", round);
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = random_network(ctx, &seed);
        flx_graph *low = flx_lower(g, FLX_POLICY_FOR_AUTODIFF, &err);
        CHECK_MSG(low != NULL, "%s", err.message);
        values v = values_of(ctx, low, &seed);
        flx_graph *exact = fuse(low, FLX_REWRITE_EXACT | FLX_REWRITE_REGIONS, NULL), *free_hand = fuse(low, 0, NULL);
        check_alike(low, exact, &v, 0);
        check_alike(low, free_hand, &v, 1e-11);
        CHECK_EQ_U64(count_pins(exact) > 0, count_pins(low) > 0);
        values_release(&v);
        flx_graph_release(exact);
        flx_graph_release(free_hand);
        flx_graph_release(low);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}

/* ---- Misuse and shortage ---- */

TEST(fuse_refuses_unknown_flags)
{
    text_bench b = bench_open("graph f(x: f32[2]) { return exp(x) }", NULL);
    const flx_rewrite_options o = {sizeof o, 64};
    bench_refused(&b, flx_rewrite_patterns(b.g, &o, NULL, &b.err), FLX_E_USAGE,
                  "flx_rewrite_patterns: unknown flags 0x40", "", "");
    CHECK_EQ_STR(flx_pattern_name(FLX_PATTERN_SWIGLU), "swiglu");
    CHECK(flx_pattern_name(1000) == NULL);
    bench_close(&b);
}

static const char starving[] =
    "graph step(x: f64[2, 4], w: f64[4, 4], b: f64[4]) { return tanh(add(matmul(x, w), b)) }\n"
    "graph f(x: f64[2, 4], w: f64[4, 4], b: f64[4]) {\n"
    "  h = scan(x, w, b, body=@step, num_carry=1, num_bcast=2, length=3)\n"
    "  d = sub(h, reduce_mean(h, axes=[1], keep_dims=true))\n"
    "  r = rsqrt(add(reduce_mean(square(d), axes=[1], keep_dims=true), 0.001))\n"
    "  n = add(mul(mul(d, r), b), b)\n  return mul(sin(n), exp(n))\n}";

TEST(fuse_without_memory_fails_cleanly)
{
    const flx_rewrite_options o = {sizeof o, FLX_REWRITE_REGIONS};
    bool done = false;
    for (size_t at = 1; !done; at++) {
        fault f = {0};
        text_bench b = bench_open(starving, &f);
        flx_error err = {0};
        f.fail_at = f.calls + at;
        flx_graph *g = flx_rewrite_patterns(b.g, &o, NULL, &err);
        done = g != NULL;
        if (!done)
            CHECK_CODE(err.code, FLX_E_OOM, &err);
        flx_graph_release(g);
        bench_close(&b);
        CHECK_MSG(fault_is_clean(&f), "request %zu leaks", at);
    }
}
