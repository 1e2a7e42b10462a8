/* SPDX-License-Identifier: Apache-2.0 */
/* Backward ops: each kind of activation_backward against the gradient of its op, kinks, bodies, and scans that stay one
   sweep. Values: tests/oracle/backward.py. backward_ops.c tests that grad can use them. */
#include "autodiff/autodiff.h"
#include "graph/graph.h"
#include "ops/opcode.h"
#include "ops/run_text.h"
#include "ops/tangent_text.h"
#include "passes/pass.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdio.h>

/* ---- activation_backward ---- */

static flx_tensor *numbers(flx_context *ctx, const double *v, int64_t n)
{
    flx_type type = {.dtype = FLX_F64, .rank = 1, .dims = {n}};
    flx_tensor *t = flx_tensor_new(ctx, &type, v, NULL);
    CHECK(t != NULL);
    return t;
}

/* d_x of dy·kind(x), by the op (an output beside the loss) and by differentiating the function. */
static void check_kind(const char *kind)
{
    static const double x[] = {-2.5, -0.75, -0.25, 0, 0.25, 0.75, 2.5};
    static const double dy[] = {1, -2, 3, 4, -5, 6, 7};
    static const char *const by_x[] = {"x"};
    char text[256];
    snprintf(text, sizeof text,
             "graph f(x: f64[7], dy: f64[7]) {\n"
             "  return reduce_sum(mul(%s(x), dy)), activation_backward(x, dy, kind=%s)\n}",
             kind, kind);
    tangent_graph t = tangent_parse(text);
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *grad = flx_grad(t.g, by_x, 1, &o, &t.err);
    CHECK_OK(grad ? FLX_OK : t.err.code, &t.err);
    flx_tensor *a = numbers(t.ctx, x, 7);
    flx_tensor *b = numbers(t.ctx, dy, 7);
    flx_feed feeds[] = {{"x", a}, {"dy", b}};
    flx_tensor *y[2] = {0};
    CHECK_OK((int32_t)flx_run(grad, ON_REF, feeds, 2, y, &t.err), &t.err);
    for (int i = 0; i < 7; i++) {
        test_fail_context("%s at %g", kind, x[i]);
        CHECK_NEAR(flx_tensor_get(y[0], i), flx_tensor_get(y[1], i), 0);
    }
    flx_tensor_release(y[0]);
    flx_tensor_release(y[1]);
    flx_tensor_release(a);
    flx_tensor_release(b);
    flx_graph_release(grad);
    tangent_end(&t);
    test_count_case();
}

/* Outside a function's domain both are NaN. */
TEST(activation_backward_is_the_gradient_of_every_kind)
{
    flx_attr_view kind;
    CHECK(flx_op_attr("activation_backward", 0, &kind) == FLX_OK);
    size_t n = 0;
    for (const char *s = kind.words; *s; n++) {
        char word[32];
        size_t len = strcspn(s, " ");
        snprintf(word, sizeof word, "%.*s", (int)len, s);
        check_kind(word);
        s += len + strspn(s + len, " ");
    }
    CHECK(n > 40);
}

/* The double of an infinite cotangent and a derivative of 0 is NaN unless the op selects. */
TEST(relu_backward_selects_and_does_not_multiply)
{
    text_run r = text_begin("graph g() { x = const(f64[4], [-1, 0, nan, 2])\n"
                            "  return relu_backward(x, const(f64[4], [inf, nan, inf, -inf])) }");
    static const double want[] = {0, 0, 0, -INFINITY};
    CHECK_OK(r.code, &r.err);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), want[i], 0);
    text_end(&r);
}

/* 2 g z and the other way round: with cotangent U, G_z = 2 g U and d_g = 2 Re(conj(z) U). */
TEST(complex_norm_sq_backward_has_the_derivatives_of_its_product)
{
    text_run r = text_begin("graph g() { z = const(c128[2], [[1, 2], [inf, -3]])\n"
                            "  return complex_norm_sq_backward(z, const(f64[2], [3, 0.5])) }");
    CHECK_OK(r.code, &r.err);
    const double *y = flx_tensor_const_data(r.out[0]);
    static const double want[] = {6, 12, INFINITY, -3};
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(y[i], want[i], 0);
    text_end(&r);
}

/* ---- Labels ---- */

/* Ignored rows are 0 whatever they contain, and so are their derivatives. */
TEST(softmax_cross_entropy_backward_of_ignored_rows_is_zero)
{
    const char *text = "graph f(x: f64[2, 2], dl: f64[2]) {\n"
                       "  y = softmax_cross_entropy_backward(x, const(i32[2], [1, -1]), dl, oob=zero)\n  return y\n}";
    static const char *const by_both[] = {"x", "dl"};
    tangent_graph t = tangent_parse(text);
    const tangent_row at[] = {{"x", {0, 0, NAN, INFINITY}}, {"dl", {2, INFINITY}}};
    const tangent_row want = {"y", {1, -1, 0, 0}};
    tangent_check(&t, flx_simplify(t.g, &t.err), at, 2, &want, 1);
    tangent_end(&t);
    const tangent_row along[] = {
        {"x", {0, 0, 1, 2}}, {"dl", {2, 5}}, {"tangent_x", {1, 0, 3, 4}}, {"tangent_dl", {0, 7}}};
    check_tangent(text, by_both, 2, along, 4, (tangent_row){"tangent_y", {0.5, -0.5, 0, 0}});
}

TEST(softmax_cross_entropy_of_an_ignored_label_is_plus_zero)
{
    text_run r = text_begin("graph g() { x = const(f64[2, 1], [[3], [5]])\n"
                            "  return reciprocal(softmax_cross_entropy(x, const(i32[2], [0, 4]), oob=zero)) }");
    CHECK_OK(r.code, &r.err);
    CHECK_NEAR(flx_tensor_get(r.out[0], 0), INFINITY, 0);
    CHECK_NEAR(flx_tensor_get(r.out[0], 1), INFINITY, 0);
    text_end(&r);
}

TEST(softmax_cross_entropy_label_out_of_range_fails_the_run)
{
    text_run r = text_begin("graph g() { return softmax_cross_entropy(full(f32[1, 3], 0), const(i32[1], [3])) }");
    CHECK_CODE(r.code, FLX_E_INDEX, &r.err);
    text_end(&r);
}

/* ---- In bodies, and scans ---- */

static size_t count_ops(const flx_graph *g, const char *part)
{
    size_t n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        n += strstr(flxi_ops[flxi_node_at(g, i)->op].name, part) != NULL;
    for (size_t i = 0; i < g->bodies.n; i++)
        n += count_ops(g->bodies.at[i], part);
    return n;
}

/* The option applies to the bodies of control flow, and only when it is set. */
TEST(backward_ops_reaches_into_bodies)
{
    tangent_graph t = tangent_parse("graph a(x: f64[2, 3], g: f64[3]) { return rms_norm(x, g) }\n"
                                    "graph b(x: f64[2, 3], g: f64[3]) { return mul(x, g) }\n"
                                    "graph f(x: f64[2, 3], g: f64[3]) {\n"
                                    "  return reduce_sum(if(const(bool[], true), x, g, then=@a, else=@b))\n}");
    static const char *const by_x[] = {"x"};
    flx_grad_options plain = {.flags = 0};
    flx_grad_options backward_ops = {.flags = FLX_GRAD_BACKWARD_OPS};
    flx_graph *a = flx_grad(t.g, by_x, 1, &plain, &t.err);
    flx_graph *b = flx_grad(t.g, by_x, 1, &backward_ops, &t.err);
    CHECK_OK(a && b ? FLX_OK : t.err.code, &t.err);
    CHECK_EQ_U64(count_ops(a, "rms_norm_backward_input"), 0);
    CHECK_EQ_U64(count_ops(b, "rms_norm_backward_input"), 1);
    flx_graph_release(a);
    flx_graph_release(b);
    tangent_end(&t);
}

static bool is_scan_backward(const flx_graph *g, uint32_t i, const void *user)
{
    (void)user;
    return strncmp(flxi_ops[flxi_node_at(g, i)->op].name, "scan_backward", 13) == 0;
}

/* Three backward ops, for the start and two sequences, decomposed: the forward scan and one reverse sweep. */
TEST(scan_backward_ops_become_one_sweep)
{
    tangent_graph t = tangent_parse("graph step(c: f64[], a: f64[], b: f64[]) { return sin(add(mul(c, a), b)) }\n"
                                    "graph f(c: f64[], a: f64[4], b: f64[4]) { return scan(c, a, b, body=@step) }");
    static const char *const by_all[] = {"c", "a", "b"};
    flx_grad_options backward_ops = {.flags = FLX_GRAD_BACKWARD_OPS};
    flx_graph *d = flx_grad(t.g, by_all, 3, &backward_ops, &t.err);
    CHECK_OK(d ? FLX_OK : t.err.code, &t.err);
    CHECK_EQ_U64(count_ops(d, "scan_backward"), 3);
    flx_graph *apart = NULL;
    flx_graph *simple = NULL;
    CHECK_OK(flxi_decompose(d, is_scan_backward, NULL, &apart, NULL, &t.err), &t.err);
    CHECK_OK(flxi_simplify(apart, &simple, NULL, &t.err), &t.err);
    CHECK_EQ_U64(count_ops(simple, "scan"), 2);
    flx_graph_release(d);
    flx_graph_release(apart);
    flx_graph_release(simple);
    tangent_end(&t);
}
