/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: the result of each policy for a composite, that no value changes, and that a lowered graph accepts no
   composites. */
#include "passes/lower_composites.h"
#include "autodiff/transform_text.h"
#include "graph/module.h"
#include "ops/sample.h"

static const flx_policy policies[] = {FLX_POLICY_DIRECT, FLX_POLICY_FUSABLE, FLX_POLICY_FOR_AUTODIFF};

enum { NUM_POLICIES = sizeof policies / sizeof *policies, MAX_RESULTS = 4 };

/* ---- What is in a graph ---- */

/* For how many nodes of a graph and its bodies a predicate is true. */
static size_t count_nodes(const flx_graph *g, bool (*is)(const flxi_op *op))
{
    size_t n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        n += is(&flxi_ops[flxi_node_at(g, i)->op]);
    for (size_t i = 0; i < g->bodies.n; i++)
        n += count_nodes(g->bodies.at[i], is);
    return n;
}

static bool is_composite_of_hir(const flxi_op *op)
{
    return (op->traits & TRAIT_HIR) != 0;
}

static bool is_composite_of_mir(const flxi_op *op)
{
    return strncmp(op->name, "fused_", 6) == 0;
}

/* Neither a rule, nor zero by definition, nor a reason why there is none. */
static bool lacks_vjp(const flxi_op *op)
{
    int32_t kind = flxi_rule_kind(op, MODE_VJP);
    return kind == FLX_RULE_DECOMPOSE || kind == FLX_RULE_NONE;
}

static bool is_matmul(const flxi_op *op)
{
    return strcmp(op->name, "matmul") == 0;
}

static bool is_activation(const flxi_op *op)
{
    return strcmp(op->family, "activation") == 0;
}

static flx_graph *lower(const flx_graph *g, flx_policy policy)
{
    flx_error err = {0};
    flx_graph *out = flx_lower(g, policy, &err);
    CHECK_MSG(out != NULL, "policy %d: %s (%s)", (int)policy, err.message, err.where);
    CHECK_OK(flx_graph_verify(out, &err), &err);
    CHECK_EQ_I64(flx_graph_stage(out), FLX_STAGE_MIR);
    CHECK_EQ_U64(count_nodes(out, is_composite_of_hir), 0);
    if (policy == FLX_POLICY_FOR_AUTODIFF)
        CHECK_EQ_U64(count_nodes(out, lacks_vjp), 0);
    return out;
}

/* ---- Values ---- */

static void check_same(flx_tensor *const *a, flx_tensor *const *b, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        CHECK_EQ_I64(flx_tensor_nbytes(a[k]), flx_tensor_nbytes(b[k]));
        CHECK_MSG(memcmp(flx_tensor_const_data(a[k]), flx_tensor_const_data(b[k]), flx_tensor_nbytes(a[k])) == 0,
                  "result %zu differs from the composite's", k);
    }
}

/* One sample of a composite: itself and lowered, on the same values, bit for bit, in every dtype. */
static void lower_sample(const sample_case *c)
{
    flx_error err = {0};
    if (!is_composite_of_hir(&flxi_ops[c->op]) || c->sample->error)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    const flx_graph *g = flx_module_main(m);
    CHECK_EQ_I64(flx_graph_stage(g), FLX_STAGE_HIR);
    size_t n = flx_graph_output_count(g);
    flx_tensor *expected[MAX_RESULTS] = {0};
    CHECK_OK(sample_run(g, c, FILL_RANDOM, expected, &err), &err);
    for (size_t i = 0; i < NUM_POLICIES; i++) {
        test_fail_context("%s, policy %zu", sample_describe(c), i);
        flx_graph *low = lower(g, policies[i]);
        flx_tensor *out[MAX_RESULTS] = {0};
        CHECK_OK(sample_run(low, c, FILL_RANDOM, out, &err), &err);
        check_same(expected, out, n);
        for (size_t k = 0; k < n; k++)
            flx_tensor_release(out[k]);
        flx_graph_release(low);
        test_count_case();
    }
    for (size_t k = 0; k < n; k++)
        flx_tensor_release(expected[k]);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(lower_keeps_the_values_of_every_block)
{
    sample_each(lower_sample);
}

/* A random network of composites and ops on x: f64[3, 4], with parameters p0, p1 …; every value has 4 columns. */
static flx_graph *random_network(flx_context *ctx, uint64_t *seed)
{
    static const char *const acts[] = {"none", "relu", "tanh", "gelu", "silu", "mish"};
    flx_graph *g = flx_graph_new(ctx, "net");
    const flx_type square = flx_type_make(FLX_F64, 2, (const flx_dim[]){4, 4});
    const flx_type wide = flx_type_make(FLX_F64, 2, (const flx_dim[]){4, 8});
    const flx_type row = flx_type_make(FLX_F64, 1, (const flx_dim[]){4});
    const flx_type rows = flx_type_make(FLX_F64, 2, (const flx_dim[]){3, 4});
    flx_val w = flx_param(g, "p0", &square);
    flx_val v = flx_param(g, "p1", &square);
    flx_val u = flx_param(g, "p2", &wide);
    flx_val b = flx_param(g, "p3", &row);
    flx_val x = flx_input(g, "x", &rows);
    for (uint64_t depth = 1 + test_random(seed) % 6; depth > 0; depth--) {
        const char *act = acts[test_random(seed) % 6];
        flx_val bias = test_random(seed) % 2 ? b : FLX_NONE;
        flx_val two[2];
        switch (test_random(seed) % 7) {
        case 0: x = flx_linear(g, x, w, bias, act); break;
        case 1: x = flx_fused_linear(g, x, v, bias, act); break;
        case 2: x = flx_gated_ffn(g, x, w, v, w, act); break;
        case 3: x = flx_swiglu_ffn(g, x, u, v, (int)(test_random(seed) % 2)); break;
        case 4: x = flx_mlp(g, ((const flx_val[]){x, w, b, v, b}), 5, act, NULL, -1); break;
        case 5: x = flx_fused_swiglu(g, flx_concat(g, ((const flx_val[]){x, x}), 2, 1), 0, FLX_DTYPE_NONE); break;
        default: flx_linear_pair(g, x, w, v, bias, bias, two, act, NULL); x = flx_mul(g, two[0], flx_tanh(g, two[1]));
        }
    }
    flx_output(g, x, "y");
    return g;
}

static flx_tensor *random_rows(flx_context *ctx, const flx_type *type, uint64_t *seed)
{
    double x[32];
    for (size_t i = 0; i < 32; i++)
        x[i] = test_uniform(seed) - 0.5;
    flx_tensor *t = flx_tensor_new(ctx, type, x, NULL);
    CHECK(t != NULL && flx_tensor_count(t) <= 32);
    return t;
}

static void run_network(const flx_graph *g, flx_feed *feeds, size_t n, flx_tensor **out)
{
    flx_error err = {0};
    CHECK_OK(flx_run(g, ON_REF, feeds, n, out, &err), &err);
}

TEST(lower_random_networks_agrees_under_all_policies)
{
    static const char *const names[] = {"p0", "p1", "p2", "p3", "x"};
    uint64_t seed = test_seed();
    for (int round = 0; round < 60; round++) {
        test_fail_context("round %d", round);
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = random_network(ctx, &seed);
        CHECK_OK(flx_graph_error(g, &err), &err);
        flx_feed feeds[5];
        for (size_t i = 0; i < 5; i++)
            feeds[i] = (flx_feed){names[i], random_rows(ctx, flx_val_type(g, flx_graph_find(g, names[i])), &seed)};
        flx_tensor *expected = NULL;
        run_network(g, feeds, 5, &expected);
        for (size_t i = 0; i < NUM_POLICIES; i++) {
            flx_graph *low = lower(g, policies[i]);
            flx_tensor *y = NULL;
            run_network(low, feeds, 5, &y);
            check_same(&expected, &y, 1);
            flx_tensor_release(y);
            flx_graph_release(low);
        }
        flx_tensor_release(expected);
        for (size_t i = 0; i < 5; i++)
            flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}

/* ---- What a composite becomes ---- */

typedef struct {
    const char *call;
    size_t composites[NUM_POLICIES]; /* of MIR, by policy */
    size_t products[NUM_POLICIES];
} lowered_row;

TEST(lower_chooses_fused_ops_by_policy)
{
    static const lowered_row rows[] = {
        {"linear(x, w)", {0, 0, 0}, {1, 1, 1}},
        {"linear(x, w, act=relu)", {0, 0, 0}, {1, 1, 1}},
        {"linear(x, w, b, act=relu)", {1, 0, 0}, {0, 1, 1}},
        {"fused_linear(x, w, b)", {1, 1, 0}, {0, 0, 1}},
        {"fused_linear(x, w)", {0, 0, 0}, {1, 1, 1}},
        {"fused_matmul_bias_act(x, w, b)", {1, 1, 0}, {0, 0, 1}},
        {"gated_ffn(x, w, w, w)", {0, 0, 0}, {3, 3, 3}},
        {"swiglu_ffn(x, concat(w, w, axis=1), w)", {1, 0, 0}, {2, 2, 2}},
        {"mlp(x, w, b, w, b, w, b)", {3, 0, 0}, {0, 3, 3}},
        {"mlp(x, w, w, bias=false)", {0, 0, 0}, {2, 2, 2}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text, "graph f(x: f64[3, 4], w: f64[4, 4], b: f64[4]) { return %s }", rows[i].call);
        text_bench t = bench_open(text, NULL);
        for (size_t k = 0; k < NUM_POLICIES; k++) {
            test_fail_context("%s, policy %zu", rows[i].call, k);
            flx_graph *low = lower(t.g, policies[k]);
            CHECK_EQ_U64(count_nodes(low, is_composite_of_mir), rows[i].composites[k]);
            CHECK_EQ_U64(count_nodes(low, is_matmul), rows[i].products[k]);
            flx_graph_release(low);
        }
        bench_close(&t);
    }
}

static const char pair_text[] = "graph f(x: f64[3, 4], w: f64[4, 4], b: f64[4]) {\n"
                                "  y, z = linear_pair(x, w, w, b, b, act1=tanh)\n  return z, y\n}\n";

TEST(lower_keeps_names_and_order_of_results)
{
    text_bench t = bench_open(pair_text, NULL);
    flx_graph *low = lower(t.g, FLX_POLICY_FUSABLE);
    CHECK_EQ_STR(flx_graph_output_name(low, 0), "z");
    CHECK_EQ_STR(flx_graph_output_name(low, 1), "y");
    CHECK_EQ_U64(count_nodes(low, is_activation), 0); /* tanh is a unary op, and there is one */
    CHECK_EQ_STR(flxi_ops[flxi_node_at(low, low->node_count - 1)->op].name, "add");
    flx_graph_release(low);
    bench_close(&t);
}

/* A pinned value is never removed, and the remap finds it. */
TEST(lower_carries_pins_and_remaps)
{
    text_bench t = bench_open("graph f(x: f64[3, 4], w: f64[4, 4], b: f64[4]) {\n"
                              "  h = linear(x, w, b, act=relu)\n  y = mlp(h, w, b, w, b)\n  return y\n}\n",
                              NULL);
    flxi_remap remap;
    flx_graph *low = NULL;
    flx_val h = {flxi_node_at(t.g, 3)->first, t.g->serial}; /* after the three inputs */
    CHECK_EQ_STR(flx_val_name(t.g, h), "h");
    CHECK(flx_pin(t.g, h).id != 0);
    CHECK_OK(flxi_lower(t.g, FLX_POLICY_FUSABLE, &low, &remap, &t.err), &t.err);
    uint32_t id = remap.id[h.id];
    CHECK(id != 0 && flxi_value_at(low, id)->pinned);
    CHECK_EQ_STR(flxi_value_at(low, id)->name, "h");
    CHECK_EQ_STR(flxi_ops[flxi_node_of(low, id)->op].name, "relu");
    flxi_remap_free(&remap);
    flx_graph_release(low);
    bench_close(&t);
}

/* ---- Bodies ---- */

static const char scan_text[] = "graph step(c: f64[2, 4], w: f64[4, 4], b: f64[4], x: f64[2, 4]) {\n"
                                "  n = linear(add(c, x), w, b, act=tanh)\n  return n, n\n}\n"
                                "graph f(x: f64[5, 2, 4], w: f64[4, 4], b: f64[4]) {\n"
                                "  c, ys = scan(full(f64[2, 4], 0), w, b, x, body=@step, num_bcast=2)\n"
                                "  d, zs = scan(c, w, b, ys, body=@step, num_bcast=2)\n"
                                "  return reduce_sum(mlp(d, w, b)), zs\n}\n";

TEST(lower_reaches_into_bodies)
{
    text_bench t = bench_open(scan_text, NULL);
    CHECK_EQ_U64(count_nodes(t.g, is_composite_of_hir), 3);
    for (size_t k = 0; k < NUM_POLICIES; k++) {
        flx_graph *low = lower(t.g, policies[k]);
        CHECK_EQ_U64(low->bodies.n, 2);
        CHECK_MSG(low->bodies.at[0] == low->bodies.at[1], "a body that is used twice is lowered once");
        CHECK_EQ_I64(flx_graph_stage(low->bodies.at[0]), FLX_STAGE_MIR);
        flx_graph_release(low);
    }
    CHECK_EQ_U64(count_nodes(t.g, is_composite_of_hir), 3);
    bench_close(&t);
}

/* ---- Stages ---- */

TEST(lower_makes_a_graph_that_takes_no_blocks)
{
    text_bench t = bench_open(pair_text, NULL);
    flx_graph *low = lower(t.g, FLX_POLICY_DIRECT);
    flx_val x = flx_graph_find(low, "x");
    flx_val w = flx_graph_find(low, "w");
    CHECK(flx_matmul(low, x, w).id != 0); /* ops may still be added */
    CHECK(flx_linear(low, x, w, FLX_NONE, NULL).id == 0);
    CHECK_CODE(flx_graph_error(low, &t.err), FLX_E_STAGE, &t.err);
    CHECK_EQ_STR(t.err.message, "linear is a composite of HIR, but 'f' has been lowered");
    CHECK_EQ_STR(t.err.hint, "add it to the graph before lowering, then lower again");
    flx_graph_release(low);
    bench_close(&t);
}

TEST(lower_makes_a_graph_that_takes_no_bodies_with_blocks)
{
    text_bench t =
        bench_open("graph a(x: f64[2, 2]) { return linear(x, x) }\ngraph b(x: f64[2, 2]) { return matmul(x, x) }\n"
                   "graph f(x: f64[2, 2], p: bool[]) { return add(x, x) }\n",
                   NULL);
    flx_graph *low = lower(t.g, FLX_POLICY_DIRECT);
    flx_val y;
    flx_val in[] = {flx_graph_find(low, "p"), flx_graph_find(low, "x")};
    flx_attr attrs[] = {flx_attr_graph("then", flx_module_find(t.m, "b")),
                        flx_attr_graph("else", flx_module_find(t.m, "b"))};
    CHECK_EQ_U64(flx_op(low, "if", in, 2, attrs, 2, &y, 1), 1);
    attrs[1] = flx_attr_graph("else", flx_module_find(t.m, "a"));
    CHECK_EQ_U64(flx_op(low, "if", in, 2, attrs, 2, &y, 1), 0);
    CHECK_CODE(flx_graph_error(low, &t.err), FLX_E_STAGE, &t.err);
    CHECK_EQ_STR(t.err.message, "if: its body has composites of HIR, but 'f' has been lowered");
    flx_graph_release(low);
    bench_close(&t);
}

/* Passes and transforms of MIR return MIR, those of HIR accept composites unchanged. */
TEST(stage_survives_passes_and_transforms)
{
    static const char *const wrt[] = {"w"};
    text_bench t = bench_open(scan_text, NULL);
    flx_graph *low = lower(t.g, FLX_POLICY_FOR_AUTODIFF);
    flx_graph *simple = flx_simplify(low, &t.err);
    flx_graph *same = flx_lower(low, FLX_POLICY_DIRECT, &t.err);
    flx_graph *grad = flx_grad(low, wrt, 1, NULL, &t.err);
    flx_graph *jvp = flx_jvp(low, wrt, 1, &t.err);
    flx_graph *plain = flx_grad(t.g, wrt, 1, NULL, &t.err);
    CHECK_MSG(simple && same && grad && jvp && plain, "%s", t.err.message);
    CHECK_EQ_I64(flx_graph_stage(simple), FLX_STAGE_MIR);
    CHECK_EQ_I64(flx_graph_stage(same), FLX_STAGE_MIR);
    CHECK_EQ_I64(flx_graph_stage(grad), FLX_STAGE_MIR);
    CHECK_EQ_I64(flx_graph_stage(jvp), FLX_STAGE_MIR);
    CHECK_EQ_I64(flx_graph_stage(plain), FLX_STAGE_HIR);
    CHECK_EQ_U64(count_nodes(grad, is_composite_of_hir), 0);
    CHECK_EQ_U64(flx_graph_hash(same), flx_graph_hash(low)); /* nothing is left to do */
    flx_graph_release(simple);
    flx_graph_release(same);
    flx_graph_release(grad);
    flx_graph_release(jvp);
    flx_graph_release(plain);
    flx_graph_release(low);
    bench_close(&t);
}

/* ---- Failures ---- */

TEST(lower_refuses_bad_arguments)
{
    text_bench t = bench_open(pair_text, NULL);
    CHECK(flx_lower(t.g, (flx_policy)7, &t.err) == NULL);
    CHECK_CODE(t.err.code, FLX_E_USAGE, &t.err);
    CHECK_EQ_STR(t.err.message, "flx_lower: unknown policy 7");
    CHECK(flx_lower(NULL, FLX_POLICY_DIRECT, &t.err) == NULL);
    CHECK_CODE(t.err.code, FLX_E_USAGE, &t.err);
    CHECK_EQ_I64(flx_graph_stage(NULL), FLX_STAGE_HIR);
    bench_close(&t);
}

TEST(lower_survives_memory_failure)
{
    static const char *const texts[] = {pair_text, scan_text};
    for (size_t i = 0; i < 2 * NUM_POLICIES; i++) {
        fault f = {0};
        text_bench t = bench_open(texts[i % 2], &f);
        for (size_t n = 1;; n++) {
            test_fail_context("text %zu, policy %zu, request %zu", i % 2, i / 2, n);
            f.fail_at = f.calls + n;
            f.failed = 0;
            flx_graph *low = flx_lower(t.g, policies[i / 2], &t.err);
            bool failed = f.failed > 0;
            f.fail_at = 0;
            if (!failed) {
                CHECK_MSG(low != NULL, "%s", t.err.message);
                flx_graph_release(low);
                CHECK(n > 10);
                break;
            }
            CHECK(low == NULL);
            CHECK_CODE(t.err.code, FLX_E_OOM, &t.err);
        }
        bench_close(&t);
        CHECK(fault_is_clean(&f));
    }
}
