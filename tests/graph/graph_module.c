/* SPDX-License-Identifier: Apache-2.0 */
/* graph_module.c: the graphs of one file. */
#include "graph/graph_text.h"

TEST(module_gives_its_graphs_by_place_and_name)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = module_of(ctx, "graph a() { return }\ngraph b() { return }");
    CHECK_EQ_U64(flx_module_count(m), 2);
    CHECK_EQ_STR(flx_graph_name(flx_module_graph(m, 0)), "a");
    CHECK(flx_module_graph(m, 2) == NULL && flx_module_graph(m, SIZE_MAX) == NULL);
    CHECK(flx_module_find(m, "b") == flx_module_graph(m, 1));
    CHECK(flx_module_find(m, "c") == NULL && flx_module_find(m, NULL) == NULL);
    CHECK(flx_module_main(m) == flx_module_graph(m, 1));
    flx_module_free(m);
    CHECK(flx_module_count(NULL) == 0 && flx_module_graph(NULL, 0) == NULL && flx_module_find(NULL, "a") == NULL);
    CHECK(flx_module_main(NULL) == NULL);
    flx_context_free(ctx);
}

TEST(module_main_is_the_one_called_main_else_the_last)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = module_of(ctx, "graph main() { return }\ngraph b() { return }");
    CHECK_EQ_STR(flx_graph_name(flx_module_main(m)), "main");
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(module_graph_that_was_retained_outlives_it)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = module_of(ctx, "graph b(x: f32[2]) { return exp(x) }\n"
                                   "graph f(x: f32[2]) { return custom_fn(x, fwd_body=@b) }");
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Prints the module, reads that and prints again: the same text, the same main graph. */
static void check_module_is_stable(const char *text, const char *expected)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = module_of(ctx, text);
    flx_buffer once = {0};
    flx_buffer twice = {0};
    CHECK_OK(flx_module_print(m, &once, &err), &err);
    CHECK_EQ_STR(once.data, expected);
    flx_module *again = module_of(ctx, once.data);
    CHECK_OK(flx_module_print(again, &twice, &err), &err);
    CHECK_EQ_STR(twice.data, expected);
    CHECK_EQ_STR(flx_graph_name(flx_module_main(again)), flx_graph_name(flx_module_main(m)));
    CHECK_EQ_U64(flx_graph_hash(flx_module_main(again)), flx_graph_hash(flx_module_main(m)));
    flx_buffer_free(&once);
    flx_buffer_free(&twice);
    flx_module_free(m);
    flx_module_free(again);
    flx_context_free(ctx);
}

TEST(module_prints_bodies_before_users_and_main_last)
{
    check_module_is_stable("graph f(x: f32[2]) { return custom_fn(x, fwd_body=@b) }\ngraph z() { return }\n"
                           "graph b(x: f32[2]) { return x }\ngraph last() { return }",
                           "graph b(x: f32[2]) {\n  return x\n}\n\n"
                           "graph f(x: f32[2]) {\n  out0 = custom_fn(x, fwd_body=@b)\n  return out0\n}\n\n"
                           "graph z() {\n  return\n}\n\ngraph last() {\n  return\n}\n");
}

TEST(module_main_that_others_use_stays_the_main_one)
{
    check_module_is_stable("graph f(x: f32[2]) { return custom_fn(x, fwd_body=@b) }\ngraph b(x: f32[2]) { return x }",
                           "graph f(x: f32[2]) {\n  out0 = custom_fn(x, fwd_body=@b)\n  return out0\n}\n\n"
                           "graph b(x: f32[2]) {\n  return x\n}\n");
    check_module_is_stable(
        "graph f(x: f32[2]) { return custom_fn(x, fwd_body=@main) }\ngraph main(x: f32[2]) { return x }",
        "graph main(x: f32[2]) {\n  return x\n}\n\n"
        "graph f(x: f32[2]) {\n  out0 = custom_fn(x, fwd_body=@main)\n  return out0\n}\n");
}
