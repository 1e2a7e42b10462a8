/* SPDX-License-Identifier: Apache-2.0 */
/* route_refusals.c: routes that do not apply say why, and what must fail fails as the definition does. */
#include "route_check.h"

#include "graph/graph.h"
#include "test.h"

#include <string.h>

static flx_graph *graph_of(flx_module *m)
{
    return flx_module_find(m, "g");
}

static void check_refusal(const char *text, const char *expected)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "text", &err);
    CHECK_MSG(m, "%s", err.message);
    const flx_graph *g = graph_of(m);
    const flxi_node *node = flxi_node_at(g, g->node_count - 1);
    const flx_type *in[4];
    const flx_type *out[4];
    for (uint32_t k = 0; k < node->nin; k++)
        in[k] = flxi_type_at(g, node->in[k]);
    for (uint32_t k = 0; k < node->nout; k++)
        out[k] = flxi_type_at(g, node->first + k);
    flxi_route_node n = {
        .op = node->op, .attrs = node->attrs, .nin = node->nin, .nout = node->nout, .in_types = in, .out_types = out};
    flxi_route_reasons reasons;
    test_fail_context("%s", text);
    CHECK(flxi_route_find(&n, &reasons) == NULL);
    CHECK(reasons.count >= 1);
    CHECK_EQ_STR(reasons.at[reasons.count - 1].why, expected);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(route_refusals_have_reasons)
{
    check_refusal("graph g(x: i32[1, 2, 5], w: i32[3, 2, 2]) { return conv(x, w) }",
                  "only real floats are packed as patches");
    check_refusal("graph g(x: f32[4, 5, 6, 7], w: f32[7, 7, 2, 2]) { return conv(x, w, input_axes=[0, 3, 1, 2],"
                  " output_axes=[0, 2, 1, 3]) }",
                  "the result's spatial axes are not neighbours");
    check_refusal("graph g(x: f32[5], y: f32[5]) { a, b = sort(x, y, num_keys=2) return a, b }", "more than one key");
    check_refusal("graph f(a: f32[], b: f32[]) { return lt(a, b) } graph g(x: f32[5]) { return sort(x, compare=@f) }",
                  "the order is given by a graph");
    check_refusal("graph g(x: bf16[5]) { return cumsum(x) }", "only f32, f64 and integers have a loop of their own");
    check_refusal("graph g(x: c64[5], i: i32[5]) { return scatter_add(x, i, R=3) }",
                  "rows of complex numbers are not summed in place");
}

TEST(route_refuses_indices_out_of_range)
{
    static const char *const words[] = {"gather", "scatter_add"};
    const flx_type x = {.dtype = FLX_F32, .rank = 1, .dims = {3}};
    const flx_type idx = {.dtype = FLX_I32, .rank = 1, .dims = {3}};
    for (int i = 0; i < 2; i++) {
        flxi_opcode op = flxi_op_lookup(words[i], strlen(words[i]));
        float from[3] = {1, 2, 3};
        float to[3];
        int32_t at[3] = {0, 1, 3};
        _Alignas(16) char attrs[64] = {0}; /* axis 0 or R 0, oob=error */
        const void *const in[] = {from, at};
        void *const out[] = {to};
        const flx_type *const in_types[] = {&x, &idx};
        const flx_type *const out_types[] = {&x};
        flx_error err = {0};
        flxi_route_node n = {.op = op,
                             .attrs = attrs,
                             .nin = 2,
                             .nout = 1,
                             .in_types = in_types,
                             .out_types = out_types,
                             .in = in,
                             .out = out,
                             .err = &err};
        const flxi_route *r = flxi_route_find(&n, NULL);
        CHECK(r);
        CHECK_CODE(r->run(&n), FLX_E_INDEX, &err);
        CHECK(strstr(err.message, "index 3 is out of range for an axis of extent 3"));
        const flx_type real = {.dtype = FLX_F32, .rank = 1, .dims = {3}};
        const flx_type *const real_types[] = {&x, &real};
        const void *const real_in[] = {from, (const float[]){0, 1.5f, 2}};
        n.in_types = real_types;
        n.in = real_in;
        CHECK_CODE(r->run(&n), FLX_E_INDEX, &err);
        CHECK(strstr(err.message, "element 1 of the index operand is not an integer"));
    }
}
