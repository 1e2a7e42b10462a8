/* SPDX-License-Identifier: Apache-2.0 */
/* selective_scan and gated_delta_net: exact numbers, states, sequences of no token and of one, and that graphs do not
   grow with the sequence. Values and derivatives at random points: tests/oracle/fused.py,
   tests/oracle/functions/recurrences.py. */
#include "ops/gradient_text.h"
#include "ops/symbolic_text.h"

#include "graph/graph.h"

#include <stdio.h>

/* ---- selective_scan ---- */

/* With a = 0 nothing decays: h is the running sum of delta b x = 1·2·3, 2·(−1)·4, and y = c h. */
TEST(selective_scan_of_a_state_that_does_not_decay_is_a_running_sum)
{
    text_run r = text_begin("graph g() {\n"
                            "  x = const(f64[1, 2, 1], [[[3], [4]]])\n  d = const(f64[1, 2, 1], [[[1], [2]]])\n"
                            "  b = const(f64[1, 2, 1], [[[2], [-1]]])\n  c = const(f64[1, 2, 1], [[[10], [100]]])\n"
                            "  return selective_scan(x, d, full(f64[1, 1], 0), b, c) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 60, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), -200, 0);
    text_end(&r);
}

/* A state in bf16 would stop at 256, where adding 1 is lost. */
TEST(selective_scan_of_narrow_floats_keeps_a_wide_state)
{
    text_run r = text_begin("graph g() {\n  x = full(bf16[1, 1000, 1], 1)\n"
                            "  y = selective_scan(x, x, full(bf16[1, 1], 0), x, x)\n"
                            "  return narrow(y, axis=1, start=999, len=1) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 1000, 0);
    text_end(&r);
}

/* One token: y = c delta b x, and a has no effect because the state before it is zero. */
TEST(selective_scan_gradient_of_one_token)
{
    static const gradient_row rows[] = {{"x", {3}, {2 * 5 * 7}},
                                        {"d", {2}, {3 * 5 * 7}},
                                        {"a", {-1}, {0}},
                                        {"b", {5}, {3 * 2 * 7}},
                                        {"c", {7}, {3 * 2 * 5}}};
    check_gradient("graph g(x: f64[1, 1, 1], d: f64[1, 1, 1], a: f64[1, 1], b: f64[1, 1, 1], c: f64[1, 1, 1]) {\n"
                   "  return selective_scan(x, d, a, b, c) }",
                   rows, 5);
}

/* Two tokens, a = 0: y_2 = c_2 (exp(d_2 a) d_1 b_1 x_1 + …), so dy_2/da = c_2 d_2 d_1 b_1 x_1. */
TEST(selective_scan_gradient_reaches_the_decay_through_the_state)
{
    static const gradient_row rows[] = {{"a", {0}, {11 * 2 * 1 * 5 * 3}}};
    check_gradient("graph g(a: f64[1, 1]) {\n"
                   "  x = const(f64[1, 2, 1], [[[3], [4]]])\n  d = const(f64[1, 2, 1], [[[1], [2]]])\n"
                   "  b = const(f64[1, 2, 1], [[[5], [6]]])\n  c = const(f64[1, 2, 1], [[[7], [11]]])\n"
                   "  return selective_scan(x, d, a, b, c) }",
                   rows, 1);
}

TEST(recurrences_of_no_token)
{
    check_text_type("graph g(x: f32[2, 0, 3], a: f32[3, 4], b: f32[2, 0, 4]) { return selective_scan(x, x, a, b, b) }",
                    "f32[2, 0, 3]");
    text_run r = text_begin("graph g() {\n  q = full(f64[1, 0, 1, 2], 1)\n  z = full(f64[1, 0, 1], 1)\n"
                            "  y, s = gated_delta_net(q, q, q, z, z, const(f64[1, 1, 2, 2], [[[[1, 2], [3, 4]]]]),"
                            " carry_state=true)\n  return y, s }");
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), 0);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[1], i), i + 1, 0);
    text_end(&r);
}

TEST(recurrences_with_a_symbolic_sequence)
{
    check_text_type("graph g(x: f32[2, S, 3], a: f32[3, 4], b: f32[2, S, 4]) { return selective_scan(x, x, a, b, b) }",
                    "f32[2, S, 3]");
    check_text_type("graph g(q: f32[B, S, 3, 4], z: f32[B, S, 3]) { return gated_delta_net(q, q, q, z, z) }",
                    "f32[B, S, 3, 4]");
    check_text_fails("graph g(x: f32[2, S, 3], a: f32[3, 4], b: f32[2, S + 1, 4]) {\n"
                     "  return selective_scan(x, x, a, b, b) }",
                     FLX_E_SHAPE, "selective_scan: S differs: x [N, S, H] is [2, S, 3], b [N, S, n] is [2, S + 1, 4]");
}

/* ---- The size of gradients ---- */

static uint32_t nodes_in(const flx_graph *g)
{
    uint32_t n = g->node_count;
    for (size_t i = 0; i < g->bodies.n; i++)
        n += nodes_in(g->bodies.at[i]);
    return n;
}

typedef struct {
    uint32_t nodes;  /* bodies included */
    int64_t largest; /* elements of the largest value outside bodies */
} graph_size;

/* The gradient with respect to all inputs, for a sequence of that length. */
static graph_size gradient_size(const char *format, const char *const *names, size_t n, int tokens)
{
    char text[600];
    flx_error err = {0};
    graph_size size = {0};
    snprintf(text, sizeof text, format, tokens, tokens, tokens, tokens, tokens);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), names, n, NULL, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    size.nodes = nodes_in(grad);
    for (uint32_t id = 1; id <= grad->value_count; id++) {
        int64_t count;
        CHECK(flxi_static_count(flxi_type_at(grad, id), &count));
        size.largest = count > size.largest ? count : size.largest;
    }
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
    return size;
}

/* One state for each token is kept for the reverse sweep, and nothing is unrolled. */
TEST(recurrences_gradients_are_scans_whatever_the_length)
{
    static const struct {
        const char *text;
        const char *names[5];
        int64_t state; /* elements of one */
    } rows[] = {
        {"graph g(x: f32[2, %d, 3], d: f32[2, %d, 3], a: f32[3, 4], b: f32[2, %d, 4], c: f32[2, %d, 4]) {\n"
         "  y = selective_scan(x, d, a, b, c)\n  return reduce_sum(mul(y, y)) }",
         {"x", "d", "a", "b", "c"},
         2 * 3 * 4},
        {"graph g(q: f32[2, %d, 3, 4], k: f32[2, %d, 3, 4], v: f32[2, %d, 3, 4], r: f32[2, %d, 3], b: f32[2, %d, 3]) "
         "{\n"
         "  y = gated_delta_net(q, k, v, r, b)\n  return reduce_sum(mul(y, y)) }",
         {"q", "k", "v", "r", "b"},
         2 * 3 * 4 * 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        graph_size few = gradient_size(rows[i].text, rows[i].names, 5, 4);
        graph_size many = gradient_size(rows[i].text, rows[i].names, 5, 4096);
        test_fail_context("%s", rows[i].text);
        CHECK_EQ_U64(few.nodes, many.nodes);
        CHECK(few.nodes < 400);
        CHECK_EQ_I64(many.largest, 4096 * rows[i].state);
    }
}

/* ---- gated_delta_net ---- */

/* One token of width 1 with γ = 0: T' = T + k (v − k T) β and y = q T'. The incoming state is only read, the outgoing
   one is a result with its own cotangent: dT'/dT = 1 − k² β. */
TEST(trap_104_gated_delta_net_returns_its_state_instead_of_overwriting_it)
{
    text_run r = text_begin("graph g() {\n  s = const(f64[1, 1, 1, 1], [[[[10]]]])\n"
                            "  y, t = gated_delta_net(full(f64[1, 1, 1, 1], 2), full(f64[1, 1, 1, 1], 3),"
                            " full(f64[1, 1, 1, 1], 40), full(f64[1, 1, 1], 0), full(f64[1, 1, 1], 0.5), s,"
                            " carry_state=true)\n  return y, t, s }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 10 + 3 * (40 - 3 * 10) * 0.5, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), 2 * (10 + 3 * (40 - 3 * 10) * 0.5), 0);
    CHECK_NEAR(flx_tensor_get(r.out[2], 0), 10, 0);
    text_end(&r);
    static const gradient_row rows[] = {{"k", {3}, {(40 - 2 * 3 * 10) * 0.5}},
                                        {"v", {40}, {3 * 0.5}},
                                        {"r", {0}, {(1 - 9 * 0.5) * 10}},
                                        {"b", {0.5}, {3 * (40 - 30)}},
                                        {"s", {10}, {1 - 9 * 0.5}}};
    check_gradient("graph g(k: f64[1, 1, 1, 1], v: f64[1, 1, 1, 1], r: f64[1, 1, 1], b: f64[1, 1, 1],"
                   " s: f64[1, 1, 1, 1]) {\n"
                   "  _, t = gated_delta_net(full(f64[1, 1, 1, 1], 2), k, v, r, b, s, carry_state=true)\n  return t }",
                   rows, 5);
}

/* A sequence in two parts with the state passed on equals the whole sequence. */
TEST(gated_delta_net_goes_on_from_its_state)
{
    text_run r = text_begin(
        "graph g() {\n  q = const(f64[1, 3, 1, 2], [[[[1, 2]], [[-1, 0.5]], [[0.25, 3]]]])\n"
        "  k = const(f64[1, 3, 1, 2], [[[[0.5, -1]], [[1, 1]], [[2, 0.5]]]])\n"
        "  g = const(f64[1, 3, 1], [[[-0.5], [-0.25], [-1]]])\n  b = const(f64[1, 3, 1], [[[0.5], [1], [0.25]]])\n"
        "  y, s = gated_delta_net(q, k, q, g, b, carry_state=true)\n"
        "  q1, q2 = split(q, sizes=[1, 2], axis=1)\n  k1, k2 = split(k, sizes=[1, 2], axis=1)\n"
        "  g1, g2 = split(g, sizes=[1, 2], axis=1)\n  b1, b2 = split(b, sizes=[1, 2], axis=1)\n"
        "  y1, s1 = gated_delta_net(q1, k1, q1, g1, b1, carry_state=true)\n"
        "  y2, s2 = gated_delta_net(q2, k2, q2, g2, b2, s1, carry_state=true)\n"
        "  return y, s, concat(y1, y2, axis=1), s2 }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), flx_tensor_get(r.out[2], i), 0);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[1], i), flx_tensor_get(r.out[3], i), 0);
    CHECK(flx_tensor_get(r.out[1], 0) != 0);
    text_end(&r);
}

/* Only the queries are scaled, by 1/√n, and they are applied to the updated state. */
TEST(gated_delta_net_scales_queries_by_the_root_of_their_width)
{
    text_run r = text_begin("graph g() {\n  o = full(f64[1, 1, 1, 4], 1)\n"
                            "  return gated_delta_net(o, o, o, full(f64[1, 1, 1], 0), full(f64[1, 1, 1], 1)) }");
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++) /* T = k v^T is all ones; q T = 4, over √4 */
        CHECK_NEAR(flx_tensor_get(r.out[0], i), 2, 0);
    text_end(&r);
}
