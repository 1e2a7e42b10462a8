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
    check_refusal("graph g(x: i8[1, 2, 5], w: i8[3, 2, 2]) { return conv(x, w) }",
                  "only real floats and integers of 32 and 64 bits are packed as patches");
    check_refusal("graph g(x: f32[4, 5, 6, 3, 7], w: f32[7, 7, 2, 2, 2]) { return conv(x, w,"
                  " input_axes=[0, 4, 1, 2, 3], output_axes=[0, 2, 1, 3, 4]) }",
                  "the result's spatial axes are not neighbours");
    check_refusal("graph g(x: f32[5], y: f32[5]) { a, b = sort(x, y, num_keys=2) return a, b }", "more than one key");
    check_refusal("graph f(a: f32[], b: f32[]) { return lt(a, b) } graph g(x: f32[5]) { return sort(x, compare=@f) }",
                  "the order is given by a graph");
    check_refusal("graph g(x: bf16[5]) { return cumsum(x) }", "only f32, f64 and integers have a loop of their own");
    check_refusal("graph g(x: f32[5], i: i32[0]) { return gather(x, i) }", "too small for blocks to pay");
}

TEST(route_refuses_indices_out_of_range)
{
    static const char *const words[] = {"gather", "scatter_add", "take_along"};
    const flx_type x = {.dtype = FLX_F32, .rank = 1, .dims = {3}};
    const flx_type idx = {.dtype = FLX_I32, .rank = 1, .dims = {3}};
    for (int i = 0; i < 3; i++) {
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

static void run_both(const char *text, const int32_t *indices)
{
    flx_error err[2] = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "text", &err[0]);
    CHECK_MSG(m, "%s", err[0].message);
    const flx_graph *g = graph_of(m);
    flx_tensor *x = flx_tensor_new(ctx, flx_val_type(g, flx_graph_input(g, 0)), NULL, &err[0]);
    flx_tensor *i = flx_tensor_new(ctx, flx_val_type(g, flx_graph_input(g, 1)), indices, &err[0]);
    const flx_feed feeds[] = {{"x", x}, {"i", i}};
    static const char *const devices[] = {"cpu", "ref"};
    test_fail_context("%s", text);
    for (int d = 0; d < 2; d++) {
        flx_tensor *out = NULL;
        CHECK_CODE(flx_run(g, &(flx_run_options){.device = devices[d]}, feeds, 2, &out, &err[d]), FLX_E_INDEX, &err[d]);
    }
    CHECK_EQ_STR(err[0].message, err[1].message);
    flx_tensor_release(x);
    flx_tensor_release(i);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The message names the first start that is out of range, in the order of the definition. */
TEST(routes_of_windows_fail_as_definitions)
{
    run_both("graph g(x: f32[3, 4], i: i32[2, 2]) { return gather_nd(x, i, slice_sizes=[2, 1], start_index_map=[1, 0],"
             " offset_axes=[1], collapsed_axes=[1]) }",
             (const int32_t[]){3, 1, 0, 2});
    run_both("graph g(x: f32[3, 4], i: i32[2, 2]) { return gather_nd(x, i, slice_sizes=[1, 1], start_index_map=[0, 1],"
             " collapsed_axes=[0, 1], index_vector_axis=0) }",
             (const int32_t[]){0, 5, 9, 1});
    run_both("graph g(x: f32[2, 4], i: i32[2, 3]) { return take_along(x, i) }", (const int32_t[]){0, 1, 3, -1, 4, 2});
    run_both("graph g(x: f32[4, 2], i: i32[2, 3]) { return gather(x, i) }", (const int32_t[]){0, 1, 3, 2, 7, -2});
    run_both("graph g(x: f32[3, 2], i: i32[3]) { return scatter_add(x, i, R=2) }", (const int32_t[]){0, 2, -1});
}
