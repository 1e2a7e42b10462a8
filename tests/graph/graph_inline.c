/* SPDX-License-Identifier: Apache-2.0 */
/* Inlining: values, names of inputs, and every possible error. */
#include "autodiff/transform_text.h"

static const char product_text[] = "graph f(x: f64[2], param w: f64[2]) { return mul(x, w), sub(x, w) }";

static flx_type vector_type(int64_t n)
{
    return flx_type_make(FLX_F64, 1, &n);
}

TEST(inline_puts_a_graph_into_another_as_often_as_wanted)
{
    text_bench b = bench_open(product_text, NULL);
    const double p[] = {2, 3}, q[] = {5, 7};
    flx_dim two = 2;
    bench_feed(&b, "p", 1, &two, p);
    bench_feed(&b, "q", 1, &two, q);
    flx_type type = vector_type(2);
    flx_graph *g = flx_graph_new(b.ctx, "g");
    flx_val in[2] = {flx_input(g, "p", &type), flx_input(g, "q", &type)}, out[2];
    CHECK_EQ_U64(flx_inline(g, b.g, in, 2, out, 2), 2);
    const flx_val again[2] = {out[1], out[0]};             /* q - p … : (p - q, p q) */
    CHECK_EQ_U64(flx_inline(g, b.g, again, 2, out, 1), 2); /* only one of the two results is taken */
    flx_output(g, out[0], "y");
    flx_tensor *y = NULL;
    bench_run(&b, g, &y);
    CHECK_EQ_I64((int64_t)flx_tensor_get(y, 0), (2 - 5) * 2 * 5);
    CHECK_EQ_I64((int64_t)flx_tensor_get(y, 1), (3 - 7) * 3 * 7);
    flx_tensor_release(y);
    flx_graph_release(g);
    bench_close(&b);
}

TEST(inline_by_name_declares_what_is_missing)
{
    text_bench b = bench_open(product_text, NULL);
    flx_type type = vector_type(2);
    flx_graph *g = flx_graph_new(b.ctx, "g");
    flx_val x = flx_input(g, "x", &type), out[3];
    CHECK_EQ_U64(flx_inline(g, b.g, NULL, 0, out, 3), 2);
    CHECK(out[2].id == 0);
    CHECK_EQ_U64(flx_graph_input_count(g), 2);
    CHECK(flx_graph_find(g, "x").id == x.id && flx_graph_input_is_param(g, 1));
    CHECK_EQ_STR(flx_val_name(g, flx_graph_input(g, 1)), "w");
    CHECK_EQ_U64(flx_inline(g, b.g, NULL, 0, out, 2), 2); /* now both are there */
    CHECK_EQ_U64(flx_graph_input_count(g), 2);
    flx_output(g, out[0], NULL);
    CHECK_OK(flx_graph_verify(g, &b.err), &b.err);
    flx_graph_release(g);
    bench_close(&b);
}

/* The outputs of a body may be its inputs. */
TEST(inline_of_an_identity_gives_the_value_itself)
{
    text_bench b = bench_open("graph f(x: f64[2]) { return x }", NULL);
    flx_type type = vector_type(2);
    flx_graph *g = flx_graph_new(b.ctx, "g");
    flx_val v = flx_exp(g, flx_input(g, "v", &type)), y;
    CHECK_EQ_U64(flx_inline(g, b.g, &v, 1, &y, 1), 1);
    CHECK_EQ_U64(y.id, v.id);
    flx_graph_release(g);
    bench_close(&b);
}

/* ---- Errors ---- */

/* Inlines `body` with two inputs, x of type f64[n] and w; the graph must keep exactly this error. */
static void refuse(const flx_graph *body, int64_t n, size_t count, flx_val last, flx_code code, const char *message)
{
    flx_error err = {0};
    flx_context *ctx = flx_graph_context(body);
    flx_graph *g = flx_graph_new(ctx, "g");
    flx_type type = vector_type(n);
    flx_val in[3] = {flx_input(g, "p", &type), last, FLX_NONE}, out;
    if (last.graph == 0 && last.id == 1)
        in[1] = in[0];
    CHECK_EQ_U64(flx_inline(g, body, in, count, &out, 1), 0);
    CHECK(out.id == 0);
    CHECK_CODE(flx_graph_error(g, &err), code, &err);
    CHECK_EQ_STR(err.message, message);
    flx_graph_release(g);
}

TEST(inline_refuses_inputs_that_do_not_fit)
{
    const flx_val same = {1, 0}; /* the first input again */
    text_bench b = bench_open(product_text, NULL);
    refuse(b.g, 2, 1, same, FLX_E_ARITY, "inline: the graph 'f' has 2 inputs, not 1");
    refuse(b.g, 2, 3, same, FLX_E_ARITY, "inline: the graph 'f' has 2 inputs, not 3");
    refuse(b.g, 3, 2, same, FLX_E_SHAPE, "inline: 'x' of 'f' is f64[2], but the value given for it is f64[3]");
    refuse(b.g, 2, 2, FLX_NONE, FLX_E_USAGE, "inline: the value given for 'w' of 'f' is not a value of 'g'");
    refuse(b.g, 2, 2, flx_graph_input(b.g, 0), FLX_E_USAGE,
           "inline: the value given for 'w' of 'f' is not a value of 'g'");
    bench_close(&b);
    b = bench_open("graph f(x: f64[N], w: f32[2]) { return x }", NULL);
    refuse(b.g, 2, 2, same, FLX_E_SHAPE, "inline: 'x' of 'f' is f64[N], but the value given for it is f64[2]");
    bench_close(&b);
    b = bench_open("graph f(x: f32[2], w: f32[2]) { return x }", NULL);
    refuse(b.g, 2, 2, same, FLX_E_DTYPE, "inline: 'x' of 'f' is f32[2], but the value given for it is f64[2]");
    bench_close(&b);
}

static void refuse_body(flx_graph *g, const flx_graph *body, flx_code code, const char *message)
{
    flx_error err = {0};
    flx_val out;
    CHECK_EQ_U64(flx_inline(g, body, NULL, 0, &out, 1), 0);
    CHECK_CODE(flx_graph_error(g, &err), code, &err);
    CHECK_EQ_STR(err.message, message);
    CHECK_EQ_U64(flx_inline(g, body, NULL, 0, NULL, 0), 0); /* the error sticks */
    flx_graph_release(g);
}

TEST(inline_refuses_bodies_that_are_none)
{
    text_bench b = bench_open(product_text, NULL), other = bench_open(product_text, NULL);
    flx_graph *g = flx_graph_new(b.ctx, "g"), *broken = flx_graph_new(b.ctx, "broken");
    flx_output(broken, FLX_NONE, "y");
    flx_error err = {0};
    flx_graph_error(broken, &err);
    refuse_body(flx_graph_new(b.ctx, "g"), NULL, FLX_E_USAGE, "inline: there is no graph to be inlined in 'g'");
    refuse_body(flx_graph_new(b.ctx, "g"), other.g, FLX_E_USAGE,
                "inline: the graph 'f' belongs to another context than 'g'");
    refuse_body(flx_graph_new(b.ctx, "g"), broken, err.code, err.message);
    refuse_body(g, g, FLX_E_USAGE, "inline: the graph 'g' cannot be inlined in itself");
    CHECK_EQ_U64(flx_inline(NULL, b.g, NULL, 0, NULL, 0), 0);
    flx_graph_release(broken);
    bench_close(&b);
    bench_close(&other);
}

/* A lowered graph accepts no composites, and so no graph that has one. */
TEST(inline_of_a_block_into_a_lowered_graph_is_refused)
{
    text_bench b = bench_open("graph f(x: f64[2, 2]) { return linear(x, x) }", NULL);
    flx_graph *low = flx_lower(b.g, FLX_POLICY_DIRECT, &b.err);
    CHECK_MSG(low, "%s", b.err.message);
    CHECK_EQ_U64(flx_inline(low, b.g, NULL, 0, NULL, 0), 0);
    CHECK_CODE(flx_graph_error(low, &b.err), FLX_E_STAGE, &b.err);
    flx_graph_release(low);
    bench_close(&b);
}

TEST(inline_without_memory_fails_and_leaks_nothing)
{
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        fault f = {0};
        text_bench b = bench_open(product_text, &f);
        flx_graph *g = flx_graph_new(b.ctx, "g");
        f.fail_at = f.calls + n;
        flx_val out[2];
        uint32_t count = flx_inline(g, b.g, NULL, 0, out, 2);
        failed = f.failed > 0;
        f.fail_at = 0;
        CHECK_CODE(flx_graph_error(g, NULL), failed ? FLX_E_OOM : FLX_OK, NULL);
        CHECK_EQ_U64(count, failed ? 0 : 2);
        flx_graph_release(g);
        bench_close(&b);
        CHECK(fault_is_clean(&f));
        test_count_case();
    }
}
