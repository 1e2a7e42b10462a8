/* SPDX-License-Identifier: Apache-2.0 */
/* completeness.c: what every row of the op table must answer. An op that lacks one of these rules would be counted as
   free, differentiated column by column or skipped by passes over bodies, in silence; here it fails. */
#include "../test.h"
#include "graph/op/attr_access.h"
#include "graph/op/attr_kinds.h"
#include "graph/op/work.h"
#include "ops/control/control.h"
#include "ops/opcode.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"
#include "sample.h"

#include <fluxion/catalogue.h>
#include <stdlib.h>

/* ---- Rows ---- */

static bool holds_graphs(const flxi_op *op)
{
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        if (a->kind == ATTR_GRAPH || a->kind == ATTR_GRAPHS || a->kind == ATTR_COMBINE)
            return true;
    return false;
}

/* Whether a link ever arrives at the op: it has a derivative of its own, which its decomposition does not replace. */
static bool meets_links(const flxi_op *op)
{
    return op->op_class != CLASS_POINTWISE && flxi_rule_kind(op, MODE_JVP) == FLX_RULE_OWN;
}

TEST(completeness_every_op_has_work)
{
    for (int i = 1; i < OP_COUNT; i++) {
        EXPECT_MSG(flxi_has_work(&flxi_ops[i]), "%s: nothing says what it costs; give its row the rule `work`",
                   flxi_ops[i].name);
        test_count_case();
    }
}

TEST(completeness_every_op_has_a_link)
{
    for (int i = 1; i < OP_COUNT; i++) {
        EXPECT_MSG(!meets_links(&flxi_ops[i]) || flxi_ops[i].rules->link,
                   "%s: nothing says how positions depend on each other; give its row the rule `link`, which may be "
                   "flxi_link_dense",
                   flxi_ops[i].name);
        test_count_case();
    }
}

TEST(completeness_every_op_with_graphs_has_bodies)
{
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_op *op = &flxi_ops[i];
        EXPECT_MSG(holds_graphs(op) == (op->rules->bodies != NULL),
                   "%s: an op has the rule `bodies` if and only if it has graphs among its attributes", op->name);
        const struct flxi_shard *shard = op->rules->shard;
        EXPECT_MSG(!shard || op->rules->link || shard->becomes, "%s: `shard` does not say how axes pass", op->name);
        EXPECT_MSG(!shard || !shard->combine == !shard->summed, "%s: `shard` says half of how it sums", op->name);
        test_count_case();
    }
}

TEST(completeness_one_input_one_param_one_const)
{
    int inputs = 0, params = 0, constants = 0;
    for (int i = 1; i < OP_COUNT; i++) {
        int traits = flxi_ops[i].traits;
        inputs += (traits & (TRAIT_DECLARED | TRAIT_PARAM)) == TRAIT_DECLARED;
        params += (traits & (TRAIT_DECLARED | TRAIT_PARAM)) == (TRAIT_DECLARED | TRAIT_PARAM);
        constants += (traits & TRAIT_CONST) != 0;
        EXPECT_MSG(!(traits & TRAIT_PARAM) || (traits & TRAIT_DECLARED), "%s", flxi_ops[i].name);
    }
    CHECK_EQ_I64(inputs, 1);
    CHECK_EQ_I64(params, 1);
    CHECK_EQ_I64(constants, 1);
    CHECK_EQ_I64(flxi_leaf_op(false), OP_input);
    CHECK_EQ_I64(flxi_leaf_op(true), OP_param);
    CHECK_EQ_I64(flxi_const_op(), OP_const);
}

TEST(completeness_every_kind_of_attribute_has_its_row)
{
    for (int k = 1; k < ATTR_KINDS; k++) {
        const flxi_attr_kind_row *row = &flxi_attr_kinds[k];
        CHECK_MSG(row->name && row->text, "kind %d has no row", k);
        EXPECT_MSG(row->fill && row->is_default && row->equal && row->write_default, "kind %s lacks a function",
                   row->name);
        EXPECT_MSG(row->hash || row->visit, "kind %s is not part of hashes", row->name);
        test_count_case();
    }
}

/* ---- Samples: what the rules answer ---- */

typedef struct {
    const flx_graph *seen[16];
    size_t n;
} graph_set;

static flx_code note_graph(void *user, const flx_graph *body)
{
    graph_set *s = user;
    if (s->n < 16)
        s->seen[s->n++] = body;
    return FLX_OK;
}

static bool take_graph(graph_set *s, const flx_graph *body)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->seen[i] == body) {
            s->seen[i] = s->seen[--s->n];
            return true;
        }
    return false;
}

/* Input k of a body has the type of the operand it is bound to, or of a row of it. */
static void check_input(const flx_graph *g, const flxi_node *n, const flxi_body *b, uint32_t k)
{
    flx_type want = *flxi_type_at(g, n->in[b->first + k]);
    const flx_type *have = flxi_type_at(b->graph, b->graph->leaves.at[k]);
    if (k >= b->carries + b->shared) {
        CHECK_MSG(want.rank > 0, "%s: operand %u has no rows", flxi_ops[n->op].name, b->first + k);
        memmove(want.dims, want.dims + 1, (size_t)--want.rank * sizeof *want.dims);
        want.dims[want.rank] = 0;
    }
    EXPECT_MSG(have->dtype == want.dtype && have->rank == want.rank, "%s: input %u of @%s is not what operand %u binds",
               flxi_ops[n->op].name, k, b->graph->name, b->first + k);
}

static void check_body(const flx_graph *g, const flxi_node *n, const flxi_body *b)
{
    const char *op = flxi_ops[n->op].name;
    uint32_t bound = b->carries + b->shared + b->rows;
    bool is_flow = b->role == BODY_BRANCH || b->role == BODY_TEST || b->role == BODY_ROUND;
    CHECK_MSG(b->first + bound <= n->nin && bound <= b->graph->leaves.n, "%s: more is bound than there is", op);
    EXPECT_MSG(!is_flow || bound == b->graph->leaves.n, "%s: inputs of @%s that nothing is bound to", op,
               b->graph->name);
    EXPECT_MSG(b->role != BODY_ROUND || b->carries <= b->graph->outputs.n, "%s: carries without outputs", op);
    for (uint32_t k = 0; k < bound; k++)
        check_input(g, n, b, k);
}

static void check_bodies(const flx_graph *g, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    graph_set graphs = {.n = 0};
    const flxi_attr_visitor v = {.graph = note_graph, .user = &graphs};
    flxi_attrs_visit(op, n->attrs, &v);
    flxi_body b;
    for (uint32_t i = 0; op->rules->bodies && op->rules->bodies(g, n, i, &b); i++) {
        CHECK_MSG(i < 16 && b.graph, "%s: bodies do not end", op->name);
        EXPECT_MSG(take_graph(&graphs, b.graph), "%s: body %u is not an attribute, or is listed twice", op->name, i);
        check_body(g, n, &b);
    }
    EXPECT_MSG(graphs.n == 0, "%s: a graph among the attributes is missing from its bodies", op->name);
}

static void check_work(const flx_graph *g, uint32_t i)
{
    const flxi_node *n = flxi_node_at(g, i);
    flxi_work w = flxi_node_work(g, i);
    size_t most = 0;
    for (uint32_t k = 0; k < n->nin + n->nout; k++) {
        size_t bytes = 0;
        flxi_static_bytes(flxi_type_at(g, k < n->nin ? n->in[k] : n->first + k - n->nin), &bytes);
        most += bytes;
    }
    EXPECT_MSG(w.flops >= 0 && w.bytes >= 0, "%s costs less than nothing", flxi_ops[n->op].name);
    EXPECT_MSG((size_t)w.bytes <= most, "%s reads or writes more than there is", flxi_ops[n->op].name);
}

/* A link must not claim an axis that the result does not have. */
static void check_links(const flx_graph *g, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    for (uint32_t k = 0; op->rules->link && k < n->nout; k++)
        for (uint32_t i = 0; i < n->nin; i++)
            for (int axis = 0; axis < flxi_type_at(g, n->in[i])->rank; axis++) {
                flxi_link l = {.axis = axis};
                const flxi_use u = {g, n, i, k};
                bool kept = op->rules->link(&u, &l);
                EXPECT_MSG(!kept || (l.axis >= 0 && l.axis < flxi_type_at(g, n->first + k)->rank && l.lo <= l.hi),
                           "%s: axis %d of operand %u leads to axis %d of result %u", op->name, axis, i, l.axis, k);
            }
}

static void check_sample(const sample_case *c)
{
    flx_error err = {0};
    if (c->sample->error)
        return;
    test_fail_context("%s", sample_describe(c));
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    const flx_graph *g = m ? flx_module_find(m, "sample") : NULL;
    for (uint32_t i = 0; g && i < g->node_count; i++) {
        check_bodies(g, flxi_node_at(g, i));
        check_work(g, i);
        check_links(g, flxi_node_at(g, i));
    }
    EXPECT_MSG(g, "%s", err.message);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(completeness_rules_agree_with_samples)
{
    sample_each(check_sample);
}

/* ---- Known costs ---- */

static flxi_work work_of(const char *text)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, &err);
    const flx_graph *g = m ? flx_module_main(m) : NULL;
    flxi_work w = {-1, -1};
    EXPECT_MSG(g, "%s", err.message);
    if (g)
        w = flxi_node_work(g, g->node_count - 1);
    flx_module_free(m);
    flx_context_free(ctx);
    return w;
}

TEST(completeness_work_of_known_nodes)
{
    static const struct {
        const char *text;
        int64_t flops, bytes;
    } cases[] = {
        {"graph g(a: f32[4, 5], b: f32[5, 6]) { return matmul(a, b) }", 2 * 4 * 5 * 6, 4 * (20 + 30 + 24)},
        {"graph g(a: c64[4, 5], b: c64[5, 6]) { return matmul(a, b) }", 8 * 4 * 5 * 6, 8 * (20 + 30 + 24)},
        {"graph g(a: i32[4, 5], b: i32[5, 6]) { return matmul(a, b) }", 0, 4 * (20 + 30 + 24)},
        {"graph g(x: f32[4, 5]) { return exp(x) }", 20, 4 * 40},
        {"graph g(x: f32[4, 5]) { return reduce_sum(x, axes=[1]) }", 20, 4 * 24},
        {"graph g(x: f32[4, 5]) { return transpose(x) }", 0, 4 * 40},
        {"graph g(x: f32[100, 8], i: i32[3]) { return gather(x, i) }", 0, 4 * (24 + 3 + 24)},
        {"graph g(x: c64[3, 8]) { return fft(x) }", 5 * 3 * 8 * 3, 8 * 48},
        {"graph g(x: c64[3, 8]) { return fft_axis(x, axis=1) }", 5 * 3 * 8 * 3, 8 * 48},
        {"graph g(a: f32[6, 6]) { return cholesky(a) }", 2 * (216 / 6), 4 * 72},
        {"graph g(a: f32[6, 6], b: f32[6, 2]) { return solve(a, b) }", 2 * (216 / 3 + 12 * 6), 4 * 60},
        {"graph f(x: f32[4], w: f32[4]) { return mul(x, w) }\n"
         "graph g(x: f32[4], w: f32[7, 4]) { return scan(x, w, body=@f) }",
         7 * 4, 4 * (4 + 28 + 4)},
        {"graph a(x: f32[4]) { return exp(x) }\ngraph b(x: f32[4]) { return exp(exp(exp(x))) }\n"
         "graph g(p: bool[], x: f32[4]) { return if(p, x, then=@a, else=@b) }",
         12, 1 + 4 * 8},
        {"graph g(x: f32[4, 5], w: f32[5, 6], b: f32[6]) { return fused_matmul_bias_act(x, w, b) }", 240 + 24,
         4 * (20 + 30 + 6 + 24)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        flxi_work w = work_of(cases[i].text);
        EXPECT_MSG(w.flops == cases[i].flops && w.bytes == cases[i].bytes, "%s: %lld flops, %lld bytes", cases[i].text,
                   (long long)w.flops, (long long)w.bytes);
        test_count_case();
    }
}

/* ---- Reading attributes ---- */

TEST(completeness_attributes_are_read_by_name_and_kind)
{
    static const char text[] =
        "graph g(x: f32[4, 5], c: f32[5]) { return softmax(x, axis=0), transpose(x, perm=[1, 0]), "
        "full(f32[2], 3), layer_norm(x, c, c, eps=0.5), fft(cast(x, to=c64), norm=forward) }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, &err);
    CHECK_MSG(m, "%s", err.message);
    const flx_graph *g = flx_module_main(m);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        const char *op = flxi_ops[n->op].name;
        EXPECT_MSG(flxi_node_int(n, "axis") == (n->op == OP_softmax ? 0 : FLXI_ABSENT) || n->op == OP_layer_norm, "%s",
                   op);
        EXPECT_MSG(flxi_node_ints(n, "perm")->n == (n->op == OP_transpose ? 2 : 0), "%s", op);
        EXPECT_MSG(flxi_node_int(n, "perm") == FLXI_ABSENT, "%s: a list read as an integer", op);
        EXPECT_MSG((flxi_node_tensor(n, "value") != NULL) == (n->op == OP_full), "%s", op);
        EXPECT_MSG(flxi_node_ints(n, "eps")->n == 0, "%s: a number read as a list", op);
        EXPECT_MSG(n->op != OP_layer_norm || flxi_node_real(n, "eps") == 0.5, "%s", op);
        EXPECT_MSG(flxi_attr_is_word(&flxi_ops[n->op], n->attrs, "norm", "forward") == (n->op == OP_fft), "%s", op);
        EXPECT_MSG(!flxi_scan_attrs(n) && !flxi_if_attrs(n), "%s: seen as another op", op);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}
