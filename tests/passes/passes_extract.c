/* SPDX-License-Identifier: Apache-2.0 */
/* passes_extract.c: the part of a graph that computes chosen values. */
#include "graph/graph_text.h"

static const char whole[] = "graph f(x: f32[2], w: f32[2], unused: i32[]) {\n"
                            "  a = exp(x)\n"
                            "  b = mul(a, w)\n"
                            "  c = sin(w)\n"
                            "  return b, c\n"
                            "}\n";

TEST(extract_keeps_inputs_and_drops_the_rest)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, whole);
    flx_val values[2] = {flx_graph_find(g, "c"), flx_graph_find(g, "x")};
    flx_graph *part = flx_extract(g, values, 2, &err);
    CHECK_MSG(part != NULL, "%s", err.message);
    flx_buffer text = text_of(part);
    CHECK_EQ_STR(text.data, "graph f(x: f32[2], w: f32[2], unused: i32[]) {\n"
                            "  c = sin(w)\n"
                            "  return c, x\n"
                            "}\n");
    flx_buffer_free(&text);
    flx_graph_release(part);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(extract_takes_values_that_are_no_outputs)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, whole);
    for (size_t i = 0; i < flx_graph_node_count(g); i++) {
        flx_val v = flx_node_result(g, i, 0);
        flx_graph *part = flx_extract(g, &v, 1, &err);
        CHECK_MSG(part != NULL, "%s", err.message);
        CHECK_EQ_U64(flx_graph_output_count(part), 1);
        CHECK_EQ_STR(flx_graph_output_name(part, 0), flx_val_name(g, v));
        CHECK_EQ_U64(flx_graph_input_count(part), 3);
        check_round_trip(part);
        flx_graph_release(part);
        test_count_case();
    }
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(extract_refuses_what_is_no_value)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, whole);
    flx_graph *other = graph_of(ctx, whole);
    flx_val none = FLX_NONE;
    flx_val foreign = flx_graph_output(other, 0);
    flx_val right = flx_graph_output(g, 0);
    CHECK(flx_extract(g, &none, 1, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_extract(g, &foreign, 1, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_extract(g, NULL, 0, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_extract(NULL, &right, 1, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_extract(g, &none, 1, NULL) == NULL);
    flx_graph_release(other);
    flx_graph_release(g);
    flx_context_free(ctx);
}
