/* SPDX-License-Identifier: Apache-2.0 */
/* graph_verify.c: the verifier detects each way in which a graph can be invalid; the hash each way in which two
   differ. */
#include "graph/graph_text.h"

#include "graph/graph.h"
#include "ops/opcode.h"

static const char sample[] = "graph body(x: f32[3]) { return exp(x) }\n"
                             "graph main(x: f32[3], param w: f32[3], k: i32[2]) {\n"
                             "  s = add(x, w)\n  v, i = top_k(s, k=2)\n  m = softmax(s, axis=0)\n"
                             "  b = custom_fn(m, fwd_body=@body)\n  return b, v, i, x\n}\n";

static flxi_node *node(flx_graph *g, uint32_t i)
{
    return (flxi_node *)(uintptr_t)flxi_node_at(g, i);
}

static uint32_t last(const flx_graph *g)
{
    return g->node_count - 1;
}

/* Each breaks one property of the sample: node 3 is add, 4 top_k, 5 softmax, 6 custom_fn. */
static void operand_of_itself(flx_graph *g)
{
    ((uint32_t *)(uintptr_t)node(g, 3)->in)[0] = node(g, 3)->first;
}
static void operand_from_later(flx_graph *g)
{
    ((uint32_t *)(uintptr_t)node(g, 3)->in)[1] = g->value_count;
}
static void operand_zero(flx_graph *g)
{
    ((uint32_t *)(uintptr_t)node(g, 3)->in)[0] = 0;
}
static void operand_of_another_dtype(flx_graph *g)
{
    ((uint32_t *)(uintptr_t)node(g, 3)->in)[0] = g->leaves.at[2];
}
static void op_none(flx_graph *g)
{
    node(g, 3)->op = OP_NONE;
}
static void op_wild(flx_graph *g)
{
    node(g, 3)->op = OP_COUNT;
}
static void op_other_result(flx_graph *g)
{
    node(g, 3)->op = OP_lt;
}
static void op_other_attrs(flx_graph *g)
{
    node(g, 3)->op = OP_softmax;
}
static void one_operand_less(flx_graph *g)
{
    node(g, 3)->nin = 1;
}
static void one_result_less(flx_graph *g)
{
    node(g, 4)->nout = 1;
}
static void one_result_more(flx_graph *g)
{
    node(g, 3)->nout = 2;
}
static void no_result(flx_graph *g)
{
    node(g, 3)->nout = 0;
}
static void results_without_end(flx_graph *g)
{
    node(g, 4)->nout = UINT32_MAX;
}
static void results_elsewhere(flx_graph *g)
{
    node(g, 3)->first = UINT32_MAX;
}
static void results_nowhere(flx_graph *g)
{
    node(g, 3)->first = 0;
}
static void attrs_missing(flx_graph *g)
{
    node(g, 5)->attrs = NULL;
}
static void attrs_too_many(flx_graph *g)
{
    node(g, 3)->attrs = node(g, 5)->attrs;
}
static void axis_not_normal(flx_graph *g)
{
    *(int64_t *)node(g, 5)->attrs = -1;
}
static void axis_out_of_range(flx_graph *g)
{
    *(int64_t *)node(g, 5)->attrs = 7;
}
static void value_of_another_node(flx_graph *g)
{
    flxi_value_at(g, node(g, 3)->first)->node = 0;
}
static void value_of_another_type(flx_graph *g)
{
    flxi_value_at(g, node(g, 3)->first)->type = flxi_type_at(g, g->leaves.at[2]);
}
static void value_without_type(flx_graph *g)
{
    flxi_value_at(g, node(g, 3)->first)->type = NULL;
}
static void value_with_odd_name(flx_graph *g)
{
    flxi_value_at(g, node(g, 3)->first)->name = "a b";
}
static void leaf_without_name(flx_graph *g)
{
    flxi_value_at(g, g->leaves.at[0])->name = NULL;
}
static void leaf_of_taken_name(flx_graph *g)
{
    flxi_value_at(g, g->leaves.at[0])->name = "w";
}
static void leaf_not_listed(flx_graph *g)
{
    g->leaves.n--;
}
static void leaf_listed_is_none(flx_graph *g)
{
    g->leaves.at[2] = node(g, 3)->first;
}
static void leaves_out_of_order(flx_graph *g)
{
    g->leaves.at[0] = g->leaves.at[1];
}
static void init_of_an_input(flx_graph *g)
{
    ((flxi_leaf_attrs *)node(g, 0)->attrs)->init = (flx_init){FLX_INIT_ZEROS, 0, 1};
}
static void init_of_no_kind(flx_graph *g)
{
    ((flxi_leaf_attrs *)node(g, 1)->attrs)->init = (flx_init){99, 0, 1};
}
static void init_not_normal(flx_graph *g)
{
    ((flxi_leaf_attrs *)node(g, 1)->attrs)->init = (flx_init){FLX_INIT_ZEROS, 0, 3};
}
static void output_nowhere(flx_graph *g)
{
    g->outputs.at[0].val = g->value_count + 1;
}
static void output_of_nothing(flx_graph *g)
{
    g->outputs.at[0].val = 0;
}
static void output_without_name(flx_graph *g)
{
    g->outputs.at[1].name = NULL;
}
static void output_with_odd_name(flx_graph *g)
{
    g->outputs.at[1].name = "1";
}
static void output_of_taken_name(flx_graph *g)
{
    g->outputs.at[1].name = g->outputs.at[2].name;
}
static void output_of_a_leafs_name(flx_graph *g)
{
    g->outputs.at[1].name = "w";
}
static void output_of_unlisted_name(flx_graph *g)
{
    g->outputs.at[1].name = "never_heard_of";
}
static void one_value_more(flx_graph *g)
{
    g->value_count++;
}
static void one_value_less(flx_graph *g)
{
    g->value_count--;
}
static void body_is_broken(flx_graph *g)
{
    node(g->bodies.at[0], 1)->op = OP_neg, flxi_value_at(g->bodies.at[0], 2)->node = 0;
}
static void body_of_other_inputs(flx_graph *g)
{
    ((uint32_t *)(uintptr_t)node(g, last(g))->in)[0] = g->leaves.at[2];
}

#define ROW(name)   \
    {               \
#name, name \
    }

static const struct {
    const char *name;
    void (*run)(flx_graph *g);
} ways[] = {
    ROW(operand_of_itself),
    ROW(operand_from_later),
    ROW(operand_zero),
    ROW(operand_of_another_dtype),
    ROW(op_none),
    ROW(op_wild),
    ROW(op_other_result),
    ROW(op_other_attrs),
    ROW(one_operand_less),
    ROW(one_result_less),
    ROW(one_result_more),
    ROW(no_result),
    ROW(results_without_end),
    ROW(results_elsewhere),
    ROW(results_nowhere),
    ROW(attrs_missing),
    ROW(attrs_too_many),
    ROW(axis_not_normal),
    ROW(axis_out_of_range),
    ROW(value_of_another_node),
    ROW(value_of_another_type),
    ROW(value_without_type),
    ROW(value_with_odd_name),
    ROW(leaf_without_name),
    ROW(leaf_of_taken_name),
    ROW(leaf_not_listed),
    ROW(leaf_listed_is_none),
    ROW(leaves_out_of_order),
    ROW(init_of_an_input),
    ROW(init_of_no_kind),
    ROW(init_not_normal),
    ROW(output_nowhere),
    ROW(output_of_nothing),
    ROW(output_without_name),
    ROW(output_with_odd_name),
    ROW(output_of_taken_name),
    ROW(output_of_a_leafs_name),
    ROW(output_of_unlisted_name),
    ROW(one_value_more),
    ROW(one_value_less),
    ROW(body_is_broken),
    ROW(body_of_other_inputs),
};

TEST(verify_sees_every_broken_field)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_graph *g = graph_of(ctx, sample);
        flx_error err = {0};
        test_fail_context("%s", ways[i].name);
        CHECK_OK(flx_graph_verify(g, &err), &err);
        ways[i].run(g);
        CHECK_CODE(flx_graph_verify(g, &err), FLX_E_INTERNAL, &err);
        CHECK(err.message[0] != 0);
        flx_graph_release(g);
        flx_context_free(ctx);
        test_count_case();
    }
}

TEST(verify_leaves_the_graph_as_it_was)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, sample);
    size_t memory = flx_graph_memory(g);
    uint64_t hash = flx_graph_hash(g);
    for (int i = 0; i < 3; i++)
        CHECK_OK(flx_graph_verify(g, NULL), NULL);
    CHECK_EQ_U64(flx_graph_memory(g), memory);
    CHECK_EQ_U64(flx_graph_hash(g), hash);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Hash ---- */

static uint64_t hash_of(const char *text)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, text);
    uint64_t h = flx_graph_hash(g);
    flx_graph_release(g);
    flx_context_free(ctx);
    return h;
}

TEST(hash_is_that_of_the_structure)
{
    uint64_t h = hash_of("graph f(x: f32[N]) { y = exp(x) return y }");
    CHECK(h != 0);
    CHECK_EQ_U64(hash_of("graph g(x: f32[N]) { z = exp(x) y = z return y }"),
                 h); /* labels and graph names do not count */
    static const char *const others[] = {
        "graph f(x: f32[M]) { y = exp(x) return y }",
        "graph f(x: f32[2*N]) { y = exp(x) return y }",
        "graph f(x: f32[N//2]) { y = exp(x) return y }",
        "graph f(x: f32[N/2]) { y = exp(x) return y }",
        "graph f(x: f32[4]) { y = exp(x) return y }",
        "graph f(x: f64[N]) { y = exp(x) return y }",
        "graph f(x: f32[N, 1]) { y = exp(x) return y }",
        "graph f(param x: f32[N]) { y = exp(x) return y }",
        "graph f(w: f32[N]) { y = exp(w) return y }",
        "graph f(x: f32[N]) { z = exp(x) return z }",
        "graph f(x: f32[N]) { y = log(x) return y }",
        "graph f(x: f32[N]) { pin y = exp(x) return y }",
        "graph f(x: f32[N]) { pin _ = x y = exp(x) return y }",
        "graph f(x: f32[N]) { _ = exp(x) y = exp(x) return y }",
        "graph f(x: f32[N]) { y = exp(x) return y, y }",
        "graph f(x: f32[N]) { y = exp(x) return }",
        "graph f(x: f32[N], z: f32[N]) { y = exp(x) return y }",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        CHECK_MSG(hash_of(others[i]) != h, "%s", others[i]);
        for (size_t k = 0; k < i; k++)
            CHECK_MSG(hash_of(others[i]) != hash_of(others[k]), "%s\n%s", others[i], others[k]);
    }
}

TEST(hash_sees_attributes_constants_and_bodies)
{
    static const char *const texts[] = {
        "graph f(x: f32[2, 2]) { return reduce_sum(x, axes=[0]) }",
        "graph f(x: f32[2, 2]) { return reduce_sum(x, axes=[1]) }",
        "graph f(x: f32[2, 2]) { return reduce_sum(x, axes=[]) }",
        "graph f(x: f32[2, 2]) { return add(x, 1) }",
        "graph f(x: f32[2, 2]) { return add(x, 2) }",
        "graph f(x: f32[2, 2]) { return print(x, message=\"a\") }",
        "graph f(x: f32[2, 2]) { return print(x, message=\"b\") }",
        "graph b(x: f32[2, 2]) { return exp(x) } graph f(x: f32[2, 2]) { return custom_fn(x, fwd_body=@b) }",
        "graph b(x: f32[2, 2]) { return log(x) } graph f(x: f32[2, 2]) { return custom_fn(x, fwd_body=@b) }",
        "graph f() { return full(f32[N], 0) }",
        "graph f() { return full(f32[M], 0) }",
        "graph f() { return rng_uniform(shape=[2], seed=1) }",
        "graph f() { return rng_uniform(shape=[2], seed=2) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (size_t k = 0; k < i; k++)
            CHECK_MSG(hash_of(texts[i]) != hash_of(texts[k]), "%s\n%s", texts[i], texts[k]);
}

/* Thirty bodies, each used twice by the next: expanded it would be 10^9 graphs. */
TEST(hash_of_shared_bodies_takes_linear_time)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type t = {.dtype = FLX_F32};
    flx_graph *body = graph_of(ctx, "graph b(x: f32[]) { return exp(x) }");
    for (int i = 0; i < 30; i++) {
        flx_graph *g = flx_graph_new(ctx, "g");
        flx_val y = flx_input(g, "x", &t);
        flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = body};
        flx_op(g, "custom_fn", &y, 1, &a, 1, &y, 1);
        flx_op(g, "custom_fn", &y, 1, &a, 1, &y, 1);
        flx_output(g, y, "y");
        flx_graph_release(body);
        body = g;
    }
    CHECK(flx_graph_hash(body) != 0);
    CHECK_OK(flx_graph_verify(body, &err), &err);
    check_round_trip(body);
    flx_graph_release(body);
    flx_context_free(ctx);
}
