/* SPDX-License-Identifier: Apache-2.0 */
/* passes_specialise.c: binding symbolic dimensions: what changes, what is shared, and errors that are found only
   then. */
#include "graph/graph_text.h"

#include "passes/pass.h"

/* Specialises the main graph of `text`; it must equal the graph of the text `numbers`. */
static void check_special(const char *text, const flx_dim_binding *b, size_t n, const char *numbers)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, text);
    flx_graph *wanted = graph_of(ctx, numbers);
    flx_graph *bound = flx_specialise(g, b, n, &err);
    CHECK_MSG(bound != NULL, "%s", err.message);
    CHECK_OK(flx_graph_verify(bound, &err), &err);
    flx_buffer found = text_of(bound);
    flx_buffer expected = text_of(wanted);
    CHECK_EQ_STR(found.data, expected.data);
    CHECK_EQ_U64(flx_graph_hash(bound), flx_graph_hash(wanted));
    flx_buffer_free(&found);
    flx_buffer_free(&expected);
    flx_graph_release(bound);
    flx_graph_release(wanted);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_count_case();
}

static void check_special_fails(const char *text, const flx_dim_binding *b, size_t n, flx_code code,
                                const char *message)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, text);
    uint64_t hash = flx_graph_hash(g);
    flx_graph *bound = flx_specialise(g, b, n, &err);
    CHECK(bound == NULL);
    CHECK_CODE(err.code, code, &err);
    CHECK_MSG(strstr(err.message, message), "%s", err.message);
    CHECK_EQ_U64(flx_graph_hash(g), hash); /* a failed call leaves its input unchanged */
    flx_graph_release(g);
    flx_context_free(ctx);
    test_count_case();
}

TEST(specialise_binds_types_and_attributes)
{
    flx_dim_binding b[] = {{"N", 4}, {"M", 3}};
    check_special("graph f(x: f32[N, M]) { y = reshape(x, shape=[N*M]) z = iota(i32[N//2 + M]) return y, z, x }", b, 2,
                  "graph f(x: f32[4, 3]) { y = reshape(x, shape=[12]) z = iota(i32[5]) return y, z, x }");
    check_special("graph f(x: f32[N, M]) { return narrow(x, axis=0, start=N/2, len=N/2) }", b, 2,
                  "graph f(x: f32[4, 3]) { return narrow(x, axis=0, start=2, len=2) }");
    check_special("graph f() { return eye(n=N, m=M), rng_uniform(shape=[N, M]) }", b, 2,
                  "graph f() { return eye(n=4, m=3), rng_uniform(shape=[4, 3]) }");
}

TEST(specialise_some_symbols_keeps_the_others)
{
    flx_dim_binding b[] = {{"N", 4}, {"unheard_of", 9}};
    check_special_fails("graph f(x: f32[N, M]) { return exp(x) }", b, 2, FLX_E_NAME, "unheard_of");
    check_special("graph f(x: f32[N, M]) { return reshape(x, shape=[N*M + 0]) }", b, 1,
                  "graph f(x: f32[4, M]) { return reshape(x, shape=[4*M]) }");
    check_special("graph f(x: f32[N, M]) { return exp(x) }", NULL, 0, "graph f(x: f32[N, M]) { return exp(x) }");
}

TEST(specialise_reaches_into_bodies)
{
    flx_dim_binding b = {"N", 4};
    check_special("graph b(x: f32[N]) { return reshape(x, shape=[N, 1]) }\n"
                  "graph c(x: f32[N]) { return custom_fn(x, fwd_body=@b) }\n"
                  "graph f(x: f32[N]) { return custom_fn(x, fwd_body=@c) }",
                  &b, 1,
                  "graph b(x: f32[4]) { return reshape(x, shape=[4, 1]) }\n"
                  "graph c(x: f32[4]) { return custom_fn(x, fwd_body=@b) }\n"
                  "graph f(x: f32[4]) { return custom_fn(x, fwd_body=@c) }");
    check_special("graph step(h: f32[N], x: f32[N]) { n = add(h, x) return n, n }\n"
                  "graph f(h: f32[N], xs: f32[T, N]) { c, ys = scan(h, xs, body=@step) return c, ys }",
                  &b, 1,
                  "graph step(h: f32[4], x: f32[4]) { n = add(h, x) return n, n }\n"
                  "graph f(h: f32[4], xs: f32[T, 4]) { c, ys = scan(h, xs, body=@step) return c, ys }");
}

TEST(specialise_shares_bodies)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, "graph plain(x: f32[2]) { return exp(x) }\ngraph sized(x: f32[N]) { return exp(x) }\n"
                                 "graph f(x: f32[2], y: f32[N]) {\n"
                                 "  a = custom_fn(x, fwd_body=@plain)\n  b = custom_fn(y, fwd_body=@sized)\n"
                                 "  c = custom_fn(b, fwd_body=@sized)\n  return a, c\n}");
    flx_graph *bound = flx_specialise(g, &(flx_dim_binding){"N", 5}, 1, &err);
    CHECK_MSG(bound != NULL, "%s", err.message);
    CHECK(flx_node_graph(bound, 2, 0) == flx_node_graph(g, 2, 0)); /* shared */
    CHECK(flx_node_graph(bound, 3, 0) != flx_node_graph(g, 3, 0)); /* rebuilt, but once */
    CHECK(flx_node_graph(bound, 3, 0) == flx_node_graph(bound, 4, 0));
    flx_graph_release(g);
    CHECK_OK(flx_graph_verify(bound, &err), &err);
    flx_graph_release(bound);
    flx_context_free(ctx);
}

TEST(specialise_finds_what_only_seemed_to_fit)
{
    flx_dim_binding different[] = {{"N", 4}, {"M", 5}};
    flx_dim_binding same[] = {{"N", 4}, {"M", 4}};
    const char *text = "graph f(x: f32[N, 2], y: f32[M, 2]) { return matmul(transpose(x, perm=[1, 0]), y) }";
    check_special_fails(text, different, 2, FLX_E_SHAPE, "matmul");
    check_special(text, same, 2, "graph f(x: f32[4, 2], y: f32[4, 2]) { return matmul(transpose(x, perm=[1, 0]), y) }");
    check_special_fails("graph f(x: f32[N]) { return reshape(x, shape=[M]) }", different, 2, FLX_E_SHAPE, "reshape");
    check_special_fails("graph f(x: f32[N]) { z = reshape(x, shape=[M]) return z }", different, 2, FLX_E_SHAPE, "'z'");
}

TEST(specialise_fails_where_a_dimension_is_no_extent)
{
    flx_dim_binding odd = {"N", 5};
    flx_dim_binding small = {"N", 1};
    flx_dim_binding huge = {"N", INT64_C(1) << 40};
    check_special_fails("graph f(x: f32[N/2]) { return x }", &odd, 1, FLX_E_SHAPE, "N/2");
    check_special_fails("graph f(x: f32[N]) { return iota(f32[N/2]) }", &odd, 1, FLX_E_SHAPE, "N/2");
    check_special_fails("graph f(x: f32[N - 3]) { return x }", &small, 1, FLX_E_SHAPE, "negative");
    check_special_fails("graph f(x: f32[N, N]) { return x }", &huge, 1, FLX_E_SIZE, "too many elements");
    check_special_fails("graph f(x: f32[N*N]) { return x }", &huge, 1, FLX_E_SIZE, "too large");
}

TEST(specialise_refuses_bindings_that_make_no_sense)
{
    const char *text = "graph f(x: f32[N]) { return x }";
    flx_dim_binding negative = {"N", -1};
    flx_dim_binding unnamed = {NULL, 1};
    flx_dim_binding endless = {"N", INT64_MAX};
    flx_dim_binding torn[] = {{"N", 2}, {"N", 3}};
    flx_dim_binding agreed[] = {{"N", 2}, {"N", 2}};
    check_special_fails(text, &negative, 1, FLX_E_USAGE, "extent");
    check_special_fails(text, &unnamed, 1, FLX_E_USAGE, "name");
    check_special_fails(text, &endless, 1, FLX_E_USAGE, "extent");
    check_special_fails(text, NULL, 1, FLX_E_USAGE, "bindings");
    check_special_fails(text, torn, 2, FLX_E_DUP_NAME, "to 2 and 3");
    check_special_fails(text, agreed, 2, FLX_E_DUP_NAME, "bound twice");
}

TEST(specialise_carries_pins_labels_and_handles)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *bound = NULL;
    flxi_remap remap = {0};
    flx_graph *g = graph_of(ctx, "graph f(x: f32[N]) { pin a = exp(x) b = log(x) return b }");
    CHECK_OK(flxi_specialise(g, &(flx_dim_binding){"N", 3}, 1, &bound, &remap, &err), &err);
    uint32_t a = remap.id[2];
    CHECK(a != 0 && flxi_value_at(bound, a)->pinned);
    CHECK_EQ_STR(flxi_value_at(bound, a)->name, "a");
    CHECK(flxi_type_at(bound, a)->dims[0] == 3);
    CHECK_EQ_U64(remap.n, 4);
    flxi_remap_free(&remap);
    flx_graph_release(bound);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* A symbol broadcasts with 1, decided when the graph is built; binding it to 1 does not change that. */
TEST(specialise_to_one_keeps_what_was_decided)
{
    flx_dim_binding one = {"N", 1};
    check_special("graph f(x: f32[N], y: f32[1]) { return add(x, y) }", &one, 1,
                  "graph f(x: f32[1], y: f32[1]) { return add(x, y) }");
    check_special("graph f(x: f32[N, 2], y: f32[N, 2]) { return add(x, y) }", &(flx_dim_binding){"N", 0}, 1,
                  "graph f(x: f32[0, 2], y: f32[0, 2]) { return add(x, y) }");
}
