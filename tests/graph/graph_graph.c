/* SPDX-License-Identifier: Apache-2.0 */
/* graph_graph.c: building graphs through the C API, reading them back, and the errors of misuse. */
#include "graph/graph_text.h"

#include "fault.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

static const flx_type f32_scalar = {.dtype = FLX_F32};
static const flx_type f32_3 = {.dtype = FLX_F32, .rank = 1, .dims = {3}};

/* A graph whose first error must be this one, with a message and a location. Frees it. */
static void check_error_and_free(flx_graph *g, flx_code code, const char *message)
{
    flx_error err = {0};
    CHECK_CODE(flx_graph_error(g, &err), code, &err);
    CHECK_MSG(err.message[0] && (!message || strstr(err.message, message)), "the message is '%s'", err.message);
    CHECK_MSG(err.where[0] != 0, "'%s' has no location", err.message);
    flx_graph_release(g);
}

/* ---- Building ---- */

/* loss = mean((x w - y)^2), with every kind of thing the API can make. */
static flx_graph *build_loss(flx_context *ctx)
{
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_type rows = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 3});
    flx_type column = flx_type_make(FLX_F32, 2, (flx_dim[]){3, 1});
    flx_graph *g = flx_graph_new(ctx, "loss");
    flx_val x = flx_input(g, "x", &rows);
    flx_val w = flx_param(g, "w", &column);
    flx_val z = flx_named(g, flx_matmul(g, x, w), "z");
    flx_val y = flx_input(g, "y", flx_val_type(g, z)); /* a leaf declared after a node */
    flx_val d = flx_pin(g, flx_sub(g, z, y));
    flx_output(g, flx_reduce_mean(g, flx_mul(g, d, d), FLX_ALL, -1), "mean");
    flx_output(g, z, NULL);
    return g;
}

TEST(graph_built_by_calls_reads_back)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_loss(ctx);
    flx_error err = {0};
    flx_node_view view;
    CHECK_OK(flx_graph_error(g, &err), &err);
    CHECK_EQ_STR(flx_graph_name(g), "loss");
    CHECK(flx_graph_context(g) == ctx);
    CHECK_EQ_U64(flx_graph_node_count(g), 7);
    CHECK_EQ_U64(flx_graph_input_count(g), 3);
    CHECK(!flx_graph_input_is_param(g, 0) && flx_graph_input_is_param(g, 1) && !flx_graph_input_is_param(g, 3));
    CHECK_EQ_STR(flx_val_name(g, flx_graph_input(g, 2)), "y");
    CHECK_EQ_STR(flx_graph_output_name(g, 0), "mean");
    CHECK_EQ_STR(flx_graph_output_name(g, 1), "z");
    CHECK_EQ_STR(flx_graph_output_name(g, 2), NULL);
    CHECK_EQ_STR(flx_graph_symbol(g, 0), "N");
    CHECK_EQ_STR(flx_graph_symbol(g, 1), NULL);
    CHECK_OK(flx_graph_node(g, 4, &view), NULL);
    CHECK_EQ_STR(view.op, "sub");
    CHECK(view.num_inputs == 2 && view.num_results == 1 && view.pinned == 1 && view.num_graphs == 0);
    CHECK_EQ_U64(flx_node_input(g, 4, 1).id, flx_graph_input(g, 2).id);
    CHECK_EQ_U64(flx_node_result(g, 2, 0).id, flx_graph_output(g, 1).id);
    CHECK_EQ_U64(flx_graph_find(g, "mean").id, flx_graph_output(g, 0).id);
    CHECK_EQ_U64(flx_graph_find(g, "w").id, flx_graph_input(g, 1).id);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_handles_out_of_range_give_nothing)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_loss(ctx);
    flx_node_view view;
    flx_val far = {1000, flx_graph_input(g, 0).graph};
    flx_val foreign = {1, 999};
    CHECK_EQ_I64(flx_graph_node(g, 7, &view), FLX_E_USAGE);
    CHECK_EQ_I64(flx_graph_node(g, 0, NULL), FLX_E_USAGE);
    CHECK(flx_node_input(g, 99, 0).id == 0 && flx_node_input(g, 0, 0).id == 0 && flx_node_result(g, 99, 0).id == 0);
    CHECK(flx_node_result(g, 0, 1).id == 0 && flx_node_graph(g, 0, 0) == NULL && flx_node_graph(g, 99, 0) == NULL);
    CHECK(flx_graph_input(g, 3).id == 0 && flx_graph_output(g, 2).id == 0);
    CHECK(!flx_val_type(g, FLX_NONE) && !flx_val_type(g, far) && !flx_val_type(g, foreign));
    CHECK(!flx_val_name(g, foreign) && flx_graph_find(g, "nothing").id == 0 && flx_graph_find(g, NULL).id == 0);
    CHECK_EQ_I64(flx_graph_error(g, NULL), FLX_OK); /* the query is not an error */
    flx_graph_release(g);
    flx_context_free(ctx);
}

static void check_every_reader(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer out = {0};
    flx_node_view view;
    flx_tensor *result = NULL;
    CHECK(flx_graph_context(g) == NULL && flx_graph_node_count(g) == 0 && flx_graph_memory(g) == 0);
    CHECK_EQ_STR(flx_graph_name(g), "");
    CHECK(flx_graph_input_count(g) == 0 && flx_graph_output_count(g) == 0 && flx_graph_hash(g) == 0);
    CHECK(flx_graph_input(g, 0).id == 0 && flx_graph_output(g, 0).id == 0 && flx_graph_output_name(g, 0) == NULL);
    CHECK(flx_graph_find(g, "x").id == 0 && flx_graph_symbol(g, 0) == NULL && flx_node_graph(g, 0, 0) == NULL);
    CHECK(flx_val_type(g, (flx_val){1, 1}) == NULL && flx_val_name(g, (flx_val){1, 1}) == NULL);
    CHECK_EQ_I64(flx_graph_node(g, 0, &view), FLX_E_USAGE);
    CHECK_EQ_I64(flx_graph_error(g, &err), FLX_E_USAGE);
    CHECK(err.message[0]);
    CHECK_EQ_I64(flx_graph_verify(g, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_graph_print(g, &out, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_graph_encode(g, &out, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_run(g, ON_REF, NULL, 0, &result, &err), FLX_E_USAGE);
    CHECK(flx_specialise(g, NULL, 0, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(out.data == NULL);
}

static void check_every_builder(flx_graph *g)
{
    flx_val v = {1, 1};
    CHECK(flx_input(g, "x", &f32_3).id == 0 && flx_param(g, "x", &f32_3).id == 0);
    CHECK(flx_named(g, v, "x").id == 0 && flx_pin(g, v).id == 0 && flx_scalar(g, FLX_F32, 1.0).id == 0);
    CHECK(flx_add(g, v, v).id == 0);
    CHECK(flx_output(g, v, "x") != FLX_OK);
    flx_val results[2] = {{5, 5}, {6, 6}};
    CHECK_EQ_U64(flx_op(g, "exp", &v, 1, NULL, 0, results, 2), 0);
    CHECK(results[0].id == 0 && results[1].id == 0);
}

TEST(graph_null_is_an_error_everywhere)
{
    flx_context *ctx = flx_context_new(NULL);
    CHECK(flx_graph_new(NULL, "f") == NULL && flx_graph_new(ctx, NULL) == NULL);
    flx_graph_release(NULL);
    flx_context_free(NULL);
    flx_module_free(NULL);
    flx_buffer_free(NULL);
    flx_tensor_release(NULL);
    CHECK(flx_graph_retain(NULL) == NULL && flx_tensor_retain(NULL) == NULL);
    check_every_reader(NULL);
    check_every_builder(NULL);
    flx_context_free(ctx);
}

#ifdef FLX_DEBUG
TEST(graph_that_was_freed_is_an_error_in_debug_builds)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_loss(ctx);
    flx_graph_release(g);
    check_every_reader(g);
    check_every_builder(g);
    flx_graph_release(g); /* nothing happens */
    flx_graph *user = flx_graph_new(ctx, "user");
    flx_val x = flx_input(user, "x", &f32_3);
    flx_val y;
    flx_attr body = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = g};
    CHECK_EQ_U64(flx_op(user, "custom_fn", &x, 1, &body, 1, &y, 1), 0);
    check_error_and_free(user, FLX_E_USAGE, "freed");
    flx_context_free(ctx);
}
#endif

/* ---- Misuse: each row builds into a fresh graph with inputs x: f32[3] and i: i32[3] ---- */

typedef struct {
    flx_graph *g;
    flx_val x, i;
} site;

static void none_operand(site *s)
{
    flx_add(s->g, s->x, FLX_NONE);
}
static void foreign_operand(site *s)
{
    flx_add(s->g, s->x, (flx_val){s->x.id, s->x.graph + 1});
}
static void far_operand(site *s)
{
    flx_exp(s->g, (flx_val){4000000000u, s->x.graph});
}
static void mixed_dtypes(site *s)
{
    flx_add(s->g, s->x, s->i);
}
static void exp_of_integer(site *s)
{
    flx_exp(s->g, s->i);
}
static void unknown_op(site *s)
{
    flx_op(s->g, "no_such_op", &s->x, 1, NULL, 0, NULL, 0);
}
static void null_op(site *s)
{
    flx_op(s->g, NULL, &s->x, 1, NULL, 0, NULL, 0);
}
static void declared_op(site *s)
{
    flx_op(s->g, "input", NULL, 0, NULL, 0, NULL, 0);
}
static void null_operands(site *s)
{
    flx_op(s->g, "exp", NULL, 1, NULL, 0, NULL, 0);
}
static void null_attrs(site *s)
{
    flx_op(s->g, "exp", &s->x, 1, NULL, 1, NULL, 0);
}
static void too_many(site *s)
{
    flx_op(s->g, "exp", (flx_val[]){s->x, s->x}, 2, NULL, 0, NULL, 0);
}
static void no_operands(site *s)
{
    flx_op(s->g, "add", NULL, 0, NULL, 0, NULL, 0);
}
static void no_results(site *s)
{
    flx_op(s->g, "optimization_barrier", NULL, 0, NULL, 0, NULL, 0);
}
static void leaf_twice(site *s)
{
    flx_param(s->g, "x", &f32_3);
}
static void leaf_unnamed(site *s)
{
    flx_input(s->g, NULL, &f32_3);
}
static void leaf_untyped(site *s)
{
    flx_input(s->g, "y", NULL);
}
static void leaf_odd_name(site *s)
{
    flx_input(s->g, "a b", &f32_3);
}
static void leaf_reserved(site *s)
{
    flx_input(s->g, "param", &f32_3);
}
static void leaf_empty_name(site *s)
{
    flx_input(s->g, "", &f32_3);
}
static void label_odd(site *s)
{
    flx_named(s->g, flx_exp(s->g, s->x), "1x");
}
static void label_null(site *s)
{
    flx_named(s->g, s->x, NULL);
}
static void label_discard(site *s)
{
    flx_named(s->g, flx_exp(s->g, s->x), "_");
}
static void label_none(site *s)
{
    flx_named(s->g, FLX_NONE, "y");
}
static void pin_none(site *s)
{
    flx_pin(s->g, FLX_NONE);
}
static void output_none(site *s)
{
    flx_output(s->g, FLX_NONE, "y");
}
static void output_odd(site *s)
{
    flx_output(s->g, s->x, "no-name");
}
static void output_discard(site *s)
{
    flx_output(s->g, flx_exp(s->g, s->x), "_");
}
static void scalar_of_nothing(site *s)
{
    flx_scalar(s->g, FLX_DTYPE_NONE, 1.0);
}
static void scalar_of_wild(site *s)
{
    flx_scalar(s->g, FLX_DTYPE_COUNT, 1.0);
}
static void null_body(site *s)
{
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH};
    flx_op(s->g, "custom_fn", &s->x, 1, &a, 1, NULL, 0);
}
static void own_body(site *s)
{
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = s->g};
    flx_op(s->g, "custom_fn", &s->x, 1, &a, 1, NULL, 0);
}
static void body_with_error(site *s)
{
    flx_graph *body = flx_graph_new(flx_graph_context(s->g), "9");
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = body};
    flx_op(s->g, "custom_fn", &s->x, 1, &a, 1, NULL, 0);
    flx_graph_release(body);
}
static void leaf_takes_output_name(site *s)
{
    flx_output(s->g, flx_exp(s->g, s->x), "y");
    flx_input(s->g, "y", &f32_3);
}

static void leaf_of(site *s, int32_t dtype, int32_t rank, flx_dim d)
{
    flx_type t = {.dtype = dtype, .rank = rank};
    for (int k = 0; k < FLX_MAX_RANK; k++)
        t.dims[k] = k == 0 ? d : 1;
    flx_input(s->g, "t", &t);
}
static void leaf_wild_dtype(site *s)
{
    leaf_of(s, 77, 0, 1);
}
static void leaf_no_dtype(site *s)
{
    leaf_of(s, 0, 0, 1);
}
static void leaf_negative_dtype(site *s)
{
    leaf_of(s, -1, 0, 1);
}
static void leaf_rank_17(site *s)
{
    leaf_of(s, FLX_F32, 17, 1);
}
static void leaf_rank_negative(site *s)
{
    leaf_of(s, FLX_F32, -1, 1);
}
static void leaf_dim_negative(site *s)
{
    leaf_of(s, FLX_F32, 1, -1);
}
static void leaf_dim_invalid(site *s)
{
    leaf_of(s, FLX_F32, 1, FLX_DIM_INVALID);
}
static void leaf_dim_of_nobody(site *s)
{
    leaf_of(s, FLX_F32, 1, FLX_DIM_INVALID + 999);
}
static void leaf_huge(site *s)
{
    leaf_of(s, FLX_F64, 1, INT64_C(1) << 61);
}
static void leaf_huge_in_all(site *s)
{
    flx_type t = flx_type_make(FLX_F32, 3, (flx_dim[]){1 << 30, 1 << 30, 1 << 30});
    flx_input(s->g, "t", &t);
}
static void result_overflows(site *s)
{
    flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){INT64_C(1) << 40, 1});
    flx_type u = flx_type_make(FLX_F32, 2, (flx_dim[]){1, INT64_C(1) << 40});
    flx_add(s->g, flx_input(s->g, "a", &t), flx_input(s->g, "b", &u));
}

/* ---- Attributes ---- */

static void with_attr(site *s, const char *op, flx_attr a)
{
    flx_op(s->g, op, &s->x, 1, &a, 1, NULL, 0);
}
static void attr_unnamed(site *s)
{
    with_attr(s, "exp", (flx_attr){.kind = FLX_ATTR_INT});
}
static void attr_unknown(site *s)
{
    with_attr(s, "exp", (flx_attr){.key = "q", .kind = FLX_ATTR_INT});
}
static void attr_wild_kind(site *s)
{
    with_attr(s, "softmax", (flx_attr){.key = "axis", .kind = 99});
}
static void attr_null_word(site *s)
{
    with_attr(s, "cast", (flx_attr){.key = "to", .kind = FLX_ATTR_WORD});
}
static void attr_wild_dtype(site *s)
{
    with_attr(s, "cast", (flx_attr){.key = "to", .kind = FLX_ATTR_INT, .as.i = 99});
}
static void attr_null_string(site *s)
{
    with_attr(s, "print", (flx_attr){.key = "message", .kind = FLX_ATTR_STRING});
}
static void attr_null_list(site *s)
{
    with_attr(s, "reduce_sum", (flx_attr){.key = "axes", .kind = FLX_ATTR_INTS, .as.ints = {NULL, 3}});
}
static void attr_endless_list(site *s)
{
    int64_t v = 0;
    with_attr(s, "reduce_sum", (flx_attr){.key = "axes", .kind = FLX_ATTR_INTS, .as.ints = {&v, SIZE_MAX}});
}
static void attr_null_graphs(site *s)
{
    flx_attr a = {.key = "branches", .kind = FLX_ATTR_GRAPHS, .as.graphs = {NULL, 2}};
    flx_op(s->g, "case", (flx_val[]){flx_reduce_sum(s->g, s->i, FLX_ALL, -1), s->x}, 2, &a, 1, NULL, 0);
}
static void attr_dim_too_large(site *s)
{
    flx_eye(s->g, INT64_MAX - 1, FLX_DEFAULT, FLX_DEFAULT, FLX_F32);
}
static void attr_dim_of_nobody(site *s)
{
    flx_eye(s->g, FLX_DIM_INVALID + 999, FLX_DEFAULT, FLX_DEFAULT, FLX_F32);
}
static void attr_dim_invalid(site *s)
{
    flx_reshape(s->g, s->x, (flx_ints){(int64_t[]){FLX_DIM_INVALID, 1}, 2});
}
static void attr_null_tensor(site *s)
{
    flx_const(s->g, &f32_3, NULL);
}
static void attr_twice(site *s)
{
    flx_attr a[] = {{.key = "axis", .kind = FLX_ATTR_INT}, {.key = "axis", .kind = FLX_ATTR_INT}};
    flx_op(s->g, "softmax", &s->x, 1, a, 2, NULL, 0);
}
static void attr_missing(site *s)
{
    flx_op(s->g, "reshape", &s->x, 1, NULL, 0, NULL, 0);
}

#define ROW(name, code)           \
    {                             \
#name, name, FLX_E_##code \
    }

static const struct {
    const char *name;
    void (*run)(site *s);
    flx_code code;
} misuses[] = {
    ROW(none_operand, USAGE),
    ROW(foreign_operand, USAGE),
    ROW(far_operand, USAGE),
    ROW(mixed_dtypes, DTYPE),
    ROW(exp_of_integer, DTYPE),
    ROW(unknown_op, NAME),
    ROW(null_op, USAGE),
    ROW(declared_op, NAME),
    ROW(null_operands, USAGE),
    ROW(null_attrs, USAGE),
    ROW(too_many, ARITY),
    ROW(no_operands, ARITY),
    ROW(no_results, ARITY),
    ROW(leaf_twice, DUP_NAME),
    ROW(leaf_unnamed, USAGE),
    ROW(leaf_untyped, USAGE),
    ROW(leaf_odd_name, NAME),
    ROW(leaf_reserved, NAME),
    ROW(leaf_empty_name, NAME),
    ROW(label_odd, NAME),
    ROW(label_null, NAME),
    ROW(label_discard, NAME),
    ROW(label_none, USAGE),
    ROW(pin_none, USAGE),
    ROW(output_none, USAGE),
    ROW(output_odd, NAME),
    ROW(output_discard, NAME),
    ROW(scalar_of_nothing, DTYPE),
    ROW(scalar_of_wild, DTYPE),
    ROW(null_body, USAGE),
    ROW(own_body, USAGE),
    ROW(body_with_error, NAME),
    ROW(leaf_takes_output_name, DUP_NAME),
    ROW(leaf_wild_dtype, DTYPE),
    ROW(leaf_no_dtype, DTYPE),
    ROW(leaf_negative_dtype, DTYPE),
    ROW(leaf_rank_17, SIZE),
    ROW(leaf_rank_negative, SIZE),
    ROW(leaf_dim_negative, SHAPE),
    ROW(leaf_dim_invalid, SIZE),
    ROW(leaf_dim_of_nobody, USAGE),
    ROW(leaf_huge, SIZE),
    ROW(leaf_huge_in_all, SIZE),
    ROW(result_overflows, SIZE),
    ROW(attr_unnamed, USAGE),
    ROW(attr_unknown, ATTRIBUTE),
    ROW(attr_wild_kind, ATTRIBUTE),
    ROW(attr_null_word, ATTRIBUTE),
    ROW(attr_wild_dtype, ATTRIBUTE),
    ROW(attr_null_string, ATTRIBUTE),
    ROW(attr_null_list, ATTRIBUTE),
    ROW(attr_endless_list, ATTRIBUTE),
    ROW(attr_null_graphs, ATTRIBUTE),
    ROW(attr_dim_too_large, ATTRIBUTE),
    ROW(attr_dim_of_nobody, ATTRIBUTE),
    ROW(attr_dim_invalid, ATTRIBUTE),
    ROW(attr_null_tensor, ATTRIBUTE),
    ROW(attr_twice, ATTRIBUTE),
    ROW(attr_missing, ATTRIBUTE),
};

TEST(graph_misuse_is_kept_as_the_first_error)
{
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        fault f = {0};
        flx_type i32_3 = {.dtype = FLX_I32, .rank = 1, .dims = {3}};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        site s = {.g = flx_graph_new(ctx, "g")};
        test_fail_context("%s", misuses[i].name);
        s.x = flx_input(s.g, "x", &f32_3);
        s.i = flx_input(s.g, "i", &i32_3);
        misuses[i].run(&s);
        flx_error first = {0};
        CHECK_CODE(flx_graph_error(s.g, &first), misuses[i].code, &first);
        check_every_builder(s.g); /* later calls do nothing */
        flx_error later = {0};
        flx_graph_error(s.g, &later);
        CHECK(memcmp(&first, &later, sizeof first) == 0);
        flx_buffer out = {0};
        CHECK_EQ_I64(flx_graph_print(s.g, &out, NULL), misuses[i].code);
        CHECK_EQ_I64(flx_graph_verify(s.g, NULL), misuses[i].code);
        CHECK_EQ_U64(flx_graph_hash(s.g), 0);
        check_error_and_free(s.g, misuses[i].code, NULL);
        flx_context_free(ctx);
        CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
        test_count_case();
    }
}

TEST(graph_with_an_odd_name_starts_with_an_error)
{
    static const char *const odd[] = {"1", "a b", "graph", "true", "a\nb"};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *unnamed = flx_graph_new(ctx, "");
    CHECK_EQ_I64(flx_graph_error(unnamed, NULL), FLX_E_NAME);
    flx_graph_release(unnamed);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        flx_graph *g = flx_graph_new(ctx, odd[i]);
        CHECK(g != NULL && flx_input(g, "x", &f32_3).id == 0);
        check_error_and_free(g, FLX_E_NAME, "cannot be called");
    }
    flx_context_free(ctx);
}

/* ---- Bodies ---- */

static flx_graph *build_body(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "body");
    flx_output(g, flx_exp(g, flx_input(g, "x", &f32_3)), "y");
    return g;
}

static flx_graph *build_user(flx_context *ctx, const flx_graph *body)
{
    flx_graph *g = flx_graph_new(ctx, "user");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_val y;
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = body};
    CHECK_EQ_U64(flx_op(g, "custom_fn", &x, 1, &a, 1, &y, 1), 1);
    flx_output(g, y, "y");
    return g;
}

TEST(graph_body_outlives_its_makers_hold)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *body = build_body(ctx);
    flx_graph *g = build_user(ctx, body);
    flx_node_view view;
    flx_graph_release(body);
    CHECK_OK(flx_graph_node(g, 1, &view), NULL);
    CHECK_EQ_U64(view.num_graphs, 1);
    CHECK_EQ_STR(flx_graph_name(flx_node_graph(g, 1, 0)), "body");
    CHECK(flx_node_graph(g, 1, 1) == NULL);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_in_use_as_a_body_cannot_change_and_its_users_do_not_notice)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *body = build_body(ctx);
    flx_graph *g = build_user(ctx, body);
    flx_error err = {0};
    uint64_t hash = flx_graph_hash(g);
    CHECK(flx_exp(body, flx_graph_input(body, 0)).id == 0);
    CHECK(flx_output(body, flx_graph_input(body, 0), NULL) == FLX_E_USAGE);
    CHECK_EQ_I64(flx_graph_error(body, &err), FLX_E_USAGE);
    CHECK_EQ_U64(flx_graph_node_count(body), 2);
    CHECK_EQ_U64(flx_graph_hash(g), hash);
    check_round_trip(g);
    flx_graph *copy = flx_specialise(g, NULL, 0, &err);
    CHECK_MSG(copy != NULL, "%s", err.message);
    CHECK_EQ_U64(flx_graph_hash(copy), hash);
    flx_graph_release(copy);
    flx_graph_release(body);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_body_of_another_context_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_context *other = flx_context_new(NULL);
    flx_graph *body = build_body(other);
    flx_graph *g = flx_graph_new(ctx, "user");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = body};
    CHECK_EQ_U64(flx_op(g, "custom_fn", &x, 1, &a, 1, NULL, 0), 0);
    check_error_and_free(g, FLX_E_USAGE, "another context");
    g = flx_graph_new(ctx, "data");
    flx_tensor *t = flx_tensor_new(other, &f32_3, NULL, NULL);
    CHECK(flx_const(g, &f32_3, t).id == 0);
    check_error_and_free(g, FLX_E_USAGE, "another context");
    flx_tensor_release(t);
    flx_graph_release(body);
    flx_context_free(other);
    flx_context_free(ctx);
}

TEST(graph_nesting_is_bounded)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_body(ctx);
    int depth = 1;
    while (flx_graph_error(g, NULL) == FLX_OK && depth < 1000) {
        flx_graph *user = flx_graph_new(ctx, "user");
        flx_val x = flx_input(user, "x", &f32_3);
        flx_val y = FLX_NONE;
        flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = g};
        flx_op(user, "custom_fn", &x, 1, &a, 1, &y, 1);
        flx_output(user, y, "y");
        flx_graph_release(g);
        g = user;
        depth++;
    }
    CHECK_MSG(depth == 65, "rejected at depth %d", depth);
    check_error_and_free(g, FLX_E_SIZE, "nest");
    flx_context_free(ctx);
}

/* ---- Names of outputs ---- */

static void check_output_names(const flx_graph *g, const char *names)
{
    char found[200] = "";
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        strcat(found, i ? " " : "");
        strcat(found, flx_graph_output_name(g, i));
    }
    CHECK_EQ_STR(found, names);
}

TEST(graph_output_names_get_suffixes)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_val a = flx_named(g, flx_exp(g, x), "a");
    flx_val b = flx_log(g, x);
    flx_val out3 = flx_named(g, flx_neg(g, x), "out3");
    flx_output(g, a, NULL);    /* a */
    flx_output(g, b, NULL);    /* out1 */
    flx_output(g, a, NULL);    /* a_2 */
    flx_output(g, b, NULL);    /* out3 */
    flx_output(g, out3, NULL); /* out3_2 */
    flx_output(g, x, NULL);    /* x: the leaf itself */
    flx_output(g, b, "x");     /* x_2 */
    flx_output(g, b, "a_3");
    flx_output(g, a, "a"); /* a_4: a_3 is taken */
    flx_output(g, a, "a");
    check_output_names(g, "a out1 a_2 out3 out3_2 x x_2 a_3 a_4 a_5");
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_output_named_like_another_leaf_gets_a_suffix)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_val y = flx_input(g, "y", &f32_3);
    flx_output(g, x, "y");
    flx_output(g, x, "x_2");
    flx_output(g, y, "y");
    check_output_names(g, "y_2 x_2 y");
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_long_names_survive)
{
    char name[1001];
    memset(name, 'n', 1000);
    name[1000] = 0;
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *body = flx_graph_new(ctx, name);
    flx_output(body, flx_named(body, flx_exp(body, flx_input(body, "x", &f32_3)), name), NULL);
    flx_graph *g = build_user(ctx, body);
    flx_val y = flx_graph_output(g, 0);
    flx_output(g, y, name);
    flx_output(g, y, name);
    CHECK_EQ_U64(strlen(flx_graph_output_name(g, 2)), 1002);
    check_round_trip(g);
    flx_graph_release(body);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_many_outputs_of_one_name_take_linear_time)
{
    enum { COUNT = 30000 };
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_scalar);
    for (int i = 0; i < COUNT; i++)
        CHECK(flx_output(g, x, NULL) == FLX_OK);
    CHECK_EQ_STR(flx_graph_output_name(g, COUNT - 1), "x_30000");
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Sizes ---- */

TEST(graph_scalars_of_every_dtype_are_made)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    for (int d = 1; d < FLX_DTYPE_COUNT; d++) {
        flx_val v = flx_scalar(g, (flx_dtype)d, 1.0);
        CHECK(flx_val_type(g, v) && flx_val_type(g, v)->dtype == d && flx_val_type(g, v)->rank == 0);
        flx_output(g, v, NULL);
    }
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_memory_is_what_the_allocator_gave)
{
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_dim n = flx_dim_symbol(ctx, "N");
    size_t before = f.live_bytes;
    flx_graph *g = flx_graph_new(ctx, "f");
    for (int i = 0; i < 300; i++) {
        char name[16];
        flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){n, i});
        snprintf(name, sizeof name, "x%d", i);
        flx_output(g, flx_exp(g, flx_input(g, name, &t)), NULL);
        CHECK_EQ_U64(flx_graph_memory(g), f.live_bytes - before);
    }
    flx_graph_release(g);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

TEST(graph_of_many_nodes_is_built_and_read)
{
    enum { COUNT = 100000 };
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "deep");
    flx_error err = {0};
    flx_val y = flx_input(g, "x", &f32_3);
    for (int i = 0; i < COUNT; i++)
        y = flx_neg(g, y);
    flx_output(g, y, "y");
    CHECK_EQ_U64(flx_graph_node_count(g), COUNT + 1);
    CHECK_OK(flx_graph_verify(g, &err), &err);
    flx_tensor *x = flx_tensor_new(ctx, &f32_3, (float[]){1, 2, 3}, &err);
    flx_tensor *out = NULL;
    CHECK_OK(flx_run(g, ON_REF, &(flx_feed){"x", x}, 1, &out, &err), &err);
    CHECK(flx_tensor_get(out, 2) == 3.0);
    flx_tensor_release(out);
    flx_tensor_release(x);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(graph_op_with_many_operands_and_results_is_built)
{
    enum { COUNT = 300 };
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "wide");
    flx_val v[COUNT];
    for (int i = 0; i < COUNT; i++)
        v[i] = flx_scalar(g, FLX_F32, i);
    CHECK_EQ_U64(flx_op(g, "optimization_barrier", v, COUNT, NULL, 0, v, COUNT), COUNT);
    CHECK_EQ_U64(flx_op(g, "optimization_barrier", v, COUNT, NULL, 0, NULL, 0), COUNT);
    flx_output(g, v[COUNT - 1], "last");
    check_round_trip(g);
    flx_tensor *out = NULL;
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, &out, NULL), NULL);
    CHECK(flx_tensor_get(out, 0) == COUNT - 1);
    flx_tensor_release(out);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Layers declare next values of their states before there is a loss. */
TEST(graph_next_values_of_states_come_last)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_error err = {0};
    flx_val a = flx_param(g, "a", &f32_3), b = flx_param(g, "b", &f32_3), x = flx_input(g, "x", &f32_3);
    CHECK_OK(flxi_output_update(g, a, flx_add(g, a, x)), &err);
    flx_output(g, flx_reduce_sum(g, flx_mul(g, a, x), FLX_ALL, 0), "loss");
    CHECK_OK(flxi_output_update(g, b, flx_add(g, b, x)), &err);
    flx_output(g, flx_exp(g, x), "other");
    flx_output(g, flx_neg(g, x), NULL);
    CHECK_OK(flx_graph_verify(g, &err), &err);
    static const char *const names[] = {"loss", "other", "out2"};
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ_STR(flx_graph_output_name(g, i), names[i]);
    CHECK_EQ_U64(flx_graph_output_count(g), 5);
    for (size_t i = 0; i < 5; i++)
        CHECK(flx_graph_find(g, flx_graph_output_name(g, i)).id == flx_graph_output(g, i).id);
    CHECK(flx_graph_find(g, "new_a").id && flx_graph_find(g, "new_b").id);
    check_round_trip(g);
    CHECK(flxi_output_update(g, x, FLX_NONE) != FLX_OK && flxi_output_update(NULL, x, x) == FLX_E_USAGE);
    flx_graph_release(g);
    flx_context_free(ctx);
}
