/* SPDX-License-Identifier: Apache-2.0 */
/* passes_pass.c: dead code elimination, common subexpressions, and the remaps that lead handles through them. */
#include "graph/graph_text.h"

#include "passes/pass.h"

#include <stdio.h>

static void check_pass(flxi_pass pass, const char *text, const char *expected)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, text);
    flx_graph *wanted = graph_of(ctx, expected);
    uint64_t before = flx_graph_hash(g);
    flx_graph *out = NULL;
    CHECK_OK(pass(g, &out, NULL, &err), &err);
    CHECK_OK(flx_graph_verify(out, &err), &err);
    flx_buffer a = text_of(out);
    flx_buffer b = text_of(wanted);
    CHECK_EQ_STR(a.data, b.data);
    CHECK_EQ_U64(flx_graph_hash(g), before);
    flx_buffer_free(&a);
    flx_buffer_free(&b);
    flx_graph_release(out);
    flx_graph_release(wanted);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_count_case();
}

/* ---- Stopped derivatives ---- */

/* What remains is simplified as the compiler does it. */
static flx_code drop_and_simplify(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flx_graph *dropped;
    FLXI_TRY(flxi_pass_drop_stops(in, &dropped, NULL, err));
    flx_code code = flxi_simplify(dropped, out, remap, err);
    flx_graph_release(dropped);
    return code;
}

TEST(drop_stops_leaves_no_choice_between_equal_values)
{
    check_pass(drop_and_simplify, "graph f(x: f32[3], c: bool[]) { a = where(c, x, stop_gradient(x)) return exp(a) }",
               "graph f(x: f32[3], c: bool[]) { out0 = exp(x) return out0 }");
    check_pass(flxi_simplify, "graph f(x: f32[3], c: bool[3]) { a = where(c, x, x) return exp(a) }",
               "graph f(x: f32[3], c: bool[3]) { out0 = exp(x) return out0 }");
    check_pass(flxi_simplify, "graph f(x: f32[3], c: bool[]) { a = where(c, x, stop_gradient(x)) return a }",
               "graph f(x: f32[3], c: bool[]) { v0 = stop_gradient(x) a = where(c, x, v0) return a }");
}

TEST(drop_stops_leaves_no_extrema_with_infinities)
{
    check_pass(flxi_pass_drop_stops, "graph f(x: f32[3]) { a = max(full(f32[3], -inf), x) return exp(a) }",
               "graph f(x: f32[3]) { v0 = full(f32[3], -inf) out0 = exp(x) return out0 }");
    check_pass(drop_and_simplify, "graph f(x: f16[3]) { return exp(min(x, full(f16[3], inf))) }",
               "graph f(x: f16[3]) { out0 = exp(x) return out0 }");
    check_pass(drop_and_simplify, "graph f(x: f32[3]) { a = max(x, inf) return a }",
               "graph f(x: f32[3]) { a = max(x, inf) return a }");
    check_pass(drop_and_simplify, "graph f(x: f32[]) { a = max(x, full(f32[3], -inf)) return a }",
               "graph f(x: f32[]) { v0 = full(f32[3], -inf) a = max(x, v0) return a }");
}

/* ---- Dead code ---- */

TEST(dce_drops_what_reaches_nothing)
{
    check_pass(flxi_pass_dce,
               "graph f(x: f32[3], unused: f32[3]) { a = exp(x) b = log(a) c = neg(x) d = abs(c) return a }",
               "graph f(x: f32[3], unused: f32[3]) { a = exp(x) return a }");
    check_pass(flxi_pass_dce, "graph f(x: f32[3]) { a = exp(x) return }", "graph f(x: f32[3]) { return }");
    check_pass(flxi_pass_dce, "graph f(x: f32[3]) { v, i = top_k(x, k=1) return i }",
               "graph f(x: f32[3]) { v, i = top_k(x, k=1) return i }");
}

TEST(dce_keeps_pins_and_effects)
{
    check_pass(flxi_pass_dce, "graph f(x: f32[3]) { a = exp(x) pin b = log(a) c = neg(b) return x }",
               "graph f(x: f32[3]) { a = exp(x) pin b = log(a) return x }");
    check_pass(flxi_pass_dce,
               "graph f(x: f32[3]) { a = exp(x) b = print(a) c = check(x, true, message=\"m\") d = neg(b) return x }",
               "graph f(x: f32[3]) { a = exp(x) b = print(a) c = check(x, true, message=\"m\") return x }");
}

TEST(dce_keeps_effects_inside_bodies)
{
    static const char text[] = "graph loud(x: f32[3]) { return print(x, message=\"x\") }\n"
                               "graph outer(x: f32[3]) { return custom_fn(x, fwd_body=@loud) }\n"
                               "graph quiet(x: f32[3]) { return neg(x) }\n"
                               "graph f(p: bool[], x: f32[3]) {\n"
                               "  a = if(p, x, then=@quiet, else=@outer)\n  b = custom_fn(x, fwd_body=@quiet)\n"
                               "  return x\n}\n";
    static const char kept[] = "graph loud(x: f32[3]) { return print(x, message=\"x\") }\n"
                               "graph outer(x: f32[3]) { return custom_fn(x, fwd_body=@loud) }\n"
                               "graph quiet(x: f32[3]) { return neg(x) }\n"
                               "graph f(p: bool[], x: f32[3]) {\n"
                               "  a = if(p, x, then=@quiet, else=@outer)\n  return x\n}\n";
    check_pass(flxi_pass_dce, text, kept);
}

/* ---- Common subexpressions ---- */

TEST(cse_merges_equal_nodes)
{
    check_pass(flxi_pass_cse, "graph f(x: f32[3]) { a = exp(x) b = exp(x) c = add(a, b) d = add(b, a) return c, d }",
               "graph f(x: f32[3]) { a = exp(x) c = add(a, a) d = c return c, d }");
    check_pass(flxi_pass_cse, "graph f(x: f32[3, 3]) { return reduce_sum(x, axes=[0]), reduce_sum(x, axes=[-2]) }",
               "graph f(x: f32[3, 3]) { out0 = reduce_sum(x, axes=[0]) out1 = out0 return out0, out1 }");
    check_pass(flxi_pass_cse, "graph f(x: f32[3]) { v, i = top_k(x, k=1) w, j = top_k(x, k=1) return v, j }",
               "graph f(x: f32[3]) { v, j = top_k(x, k=1) return v, j }");
}

TEST(cse_merges_constants_by_their_bits)
{
    check_pass(flxi_pass_cse,
               "graph f() { a = const(f32[1], [0]) b = const(f32[1], [-0.0]) c = const(f32[1], [0]) return a, b, c }",
               "graph f() { a = const(f32[1], [0]) b = const(f32[1], [-0.0]) c = a return a, b, c }");
    check_pass(flxi_pass_cse, "graph f() { a = const(f32[], 0) b = const(i32[], 0) return a, b }",
               "graph f() { a = const(f32[], 0) b = const(i32[], 0) return a, b }");
    check_pass(flxi_pass_cse, "graph f() { a = full(f32[2], 0) b = full(f32[3], 0) return a, b }",
               "graph f() { a = full(f32[2], 0) b = full(f32[3], 0) return a, b }");
}

TEST(cse_leaves_pins_effects_and_barriers_apart)
{
    static const char *const texts[] = {
        "graph f(x: f32[3]) { pin a = exp(x) b = exp(x) return a, b }",
        "graph f(x: f32[3]) { a = exp(x) pin b = exp(x) return a, b }",
        "graph f(x: f32[3]) { a = print(x) b = print(x) return a, b }",
        "graph f(x: f32[3]) { a = optimization_barrier(x) b = optimization_barrier(x) return a, b }",
        "graph l(x: f32[3]) { return print(x) } graph f(x: f32[3]) {\n"
        "  a = custom_fn(x, fwd_body=@l) b = custom_fn(x, fwd_body=@l) return a, b }",
        "graph l(x: f32[3]) { return exp(x) } graph m(x: f32[3]) { return log(x) } graph f(x: f32[3]) {\n"
        "  a = custom_fn(x, fwd_body=@l) b = custom_fn(x, fwd_body=@m) return a, b }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_pass(flxi_pass_cse, texts[i], texts[i]);
}

TEST(cse_merges_calls_of_one_body)
{
    check_pass(flxi_pass_cse,
               "graph l(x: f32[3]) { return exp(x) } graph f(x: f32[3]) {\n"
               "  a = custom_fn(x, fwd_body=@l) b = custom_fn(x, fwd_body=@l) return add(a, b) }",
               "graph l(x: f32[3]) { return exp(x) } graph f(x: f32[3]) {\n"
               "  a = custom_fn(x, fwd_body=@l) return add(a, a) }");
}

/* Rules build a new body each time: only its content counts. One more constant, or a different one, makes a different
   body; and towers of bodies that refer to the ones below twice are not visited exponentially often. */
TEST(cse_merges_calls_of_equal_bodies)
{
    check_pass(flxi_pass_cse,
               "graph l(x: f32[3]) { return add(exp(x), 2) } graph m(x: f32[3]) { return add(exp(x), 2) }\n"
               "graph f(x: f32[3]) {\n"
               "  a = custom_fn(x, fwd_body=@l) b = custom_fn(x, fwd_body=@m) return add(a, b) }",
               "graph l(x: f32[3]) { return add(exp(x), 2) } graph f(x: f32[3]) {\n"
               "  a = custom_fn(x, fwd_body=@l) return add(a, a) }");
    static const char other[] =
        "graph l(x: f32[3]) { return add(exp(x), 2) } graph m(x: f32[3]) { return add(exp(x), 3) }\n"
        "graph f(x: f32[3]) {\n  a = custom_fn(x, fwd_body=@l) b = custom_fn(x, fwd_body=@m) return add(a, b) }";
    check_pass(flxi_pass_cse, other, other);
    char tower[16000];
    size_t n = 0;
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < 40; k++)
            n += (size_t)snprintf(tower + n, sizeof tower - n,
                                  k ? "graph t%d_%d(x: f32[]) { a = custom_fn(x, fwd_body=@t%d_%d) b = custom_fn(a, "
                                      "fwd_body=@t%d_%d) return b }\n"
                                    : "graph t%d_%d(x: f32[]) { return exp(x) }\n",
                                  side, k, side, k - 1, side, k - 1);
    snprintf(tower + n, sizeof tower - n,
             "graph f(x: f32[]) { return custom_fn(x, fwd_body=@t0_39), custom_fn(x, fwd_body=@t1_39) }");
    check_pass(flxi_pass_cse, tower, tower);
}

/* ---- Folding ---- */

TEST(simplify_leaves_ops_with_bodies_to_the_device)
{
    static const char text[] =
        "graph plus(a: f32[], b: f32[]) { return add(a, b) }\ngraph less(a: f32[], b: f32[]) { return lt(a, b) }\n"
        "graph f() {\n  c = const(f32[3], [3, 1, 2])\n  z = const(f32[], 0)\n  r = reduce(c, z, body=@plus)\n"
        "  s = sort(c, compare=@less)\n  w = reduce_window(c, z, combine=@plus, window=[2])\n  return r, s, w\n}\n";
    check_pass(flxi_simplify, text, text);
    check_pass(flxi_simplify, "graph f() { c = const(f32[2], [3, 1]) s = reduce_sum(c) return s }",
               "graph f() { s = const(f32[], 4) return s }");
}

/* A number before a vector does not make the result uniform. */
TEST(simplify_folds_a_number_with_a_vector)
{
    check_pass(flxi_simplify, "graph f() { b = const(i32[3], [1, 2, 3]) p = sub(5, b) q = sub(b, 5) return p, q }",
               "graph f() { p = const(i32[3], [4, 3, 2]) q = const(i32[3], [-4, -3, -2]) return p, q }");
}

TEST(simplify_drops_pads_and_slices_that_change_nothing)
{
    check_pass(flxi_simplify,
               "graph f(x: f32[2, 3]) { p = pad(x, 1, low=[0, 0], high=[0, 0], interior=[0, 0])\n"
               "  s = slice(p, start=[0, 0], limit=[2, 3], stride=[1, 1]) y = exp(s) return y }",
               "graph f(x: f32[2, 3]) { y = exp(x) return y }");
    static const char moved[] = "graph f(x: f32[2, 3]) { p = pad(x, 1, low=[0, 1], high=[0, -1], interior=[0, 0])\n"
                                "  s = slice(p, start=[0, 1], limit=[2, 3], stride=[1, 2]) return s }";
    check_pass(flxi_simplify, moved, moved);
}

/* A real transform continues its operand with zeros; other values, and zeros elsewhere, are not what it does. */
TEST(simplify_makes_rolls_of_two_slices)
{
    check_pass(flxi_simplify,
               "graph f(x: f32[2, 5]) { a = slice(x, start=[0, 3], limit=[2, 5]) "
               "b = slice(x, start=[0, 0], limit=[2, 3]) return concat(a, b, axis=1) }",
               "graph f(x: f32[2, 5]) { out0 = roll(x, shift=2, axis=1) return out0 }");
    static const char *const others[] = {/* a gap, the same order, another value, fewer rows, a stride */
                                         "a = slice(x, start=[0, 3], limit=[2, 4], stride=[1, 1]) "
                                         "b = slice(x, start=[0, 0], limit=[2, 3], stride=[1, 1])",
                                         "a = slice(x, start=[0, 0], limit=[2, 3], stride=[1, 1]) "
                                         "b = slice(x, start=[0, 3], limit=[2, 5], stride=[1, 1])",
                                         "a = slice(x, start=[0, 3], limit=[2, 5], stride=[1, 1]) "
                                         "b = slice(y, start=[0, 0], limit=[2, 3], stride=[1, 1])",
                                         "a = slice(x, start=[1, 3], limit=[2, 5], stride=[1, 1]) "
                                         "b = slice(x, start=[1, 0], limit=[2, 3], stride=[1, 1])",
                                         "a = slice(x, start=[0, 4], limit=[2, 5], stride=[1, 1]) "
                                         "b = slice(x, start=[0, 0], limit=[2, 4], stride=[1, 2])"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[400];
        snprintf(text, sizeof text, "graph f(x: f32[2, 5], y: f32[2, 5]) { %s c = concat(a, b, axis=1) return c }",
                 others[i]);
        check_pass(flxi_simplify, text, text);
    }
}

TEST(simplify_leaves_padding_to_real_transforms)
{
    check_pass(flxi_simplify,
               "graph f(x: f32[2, 3]) { p = pad(x, 0, low=[0, 0], high=[0, 5], interior=[0, 0])\n"
               "  re, im = rfft(p) z = rfft_complex(p, n=6) return re, im, z }",
               "graph f(x: f32[2, 3]) { re, im = rfft(x, n=8) z = rfft_complex(x, n=6) return re, im, z }");
    check_pass(flxi_simplify,
               "graph f(a: f64[3], b: f64[3]) { c = pad(a, 0, low=[0], high=[2], interior=[0])\n"
               "  d = pad(b, 0, low=[0], high=[2], interior=[0]) y = irfft(c, d, n=9) return y }",
               "graph f(a: f64[3], b: f64[3]) { y = irfft(a, b, n=9) return y }");
    static const char *const others[] = {
        "graph f(x: f32[3]) { p = pad(x, 1, low=[0], high=[5], interior=[0]) re, im = rfft(p) return re, im }",
        "graph f(x: f32[3]) { p = pad(x, -0.0, low=[0], high=[5], interior=[0]) re, im = rfft(p) return re, im }",
        "graph f(x: f32[3]) { p = pad(x, 0, low=[1], high=[5], interior=[0]) re, im = rfft(p) return re, im }",
        "graph f(x: f32[3]) { p = pad(x, 0, low=[0], high=[5], interior=[1]) re, im = rfft(p) return re, im }",
        "graph f(x: f32[3]) { p = pad(x, 0, low=[0], high=[-1], interior=[0]) re, im = rfft(p, n=3) return re, im }",
        "graph f(x: f32[2, 3]) { p = pad(x, 0, low=[0, 0], high=[1, 1], interior=[0, 0]) return rfft_complex(p) }",
        "graph f(a: f32[3], b: f32[4]) { p = pad(a, 0, low=[0], high=[1], interior=[0]) y = irfft(p, b) return y }"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_pass(flxi_simplify, others[i], others[i]);
}

TEST(simplify_removes_empty_padding)
{
    static const char kept[] = "graph f(x: f32[3], v: f32[]) { y = pad(x, v, low=[-1], high=[1]) return exp(y) }";
    check_pass(flxi_simplify, "graph f(x: f32[3], v: f32[]) { y = pad(x, v, low=[0], high=[0]) return exp(y) }",
               "graph f(x: f32[3], v: f32[]) { return exp(x) }");
    check_pass(flxi_simplify, kept, kept);
}

TEST(simplify_joins_the_padding_of_windows)
{
    static const char *const kept[] = {
        /* another number, a pad that crops, a window that spreads */
        "graph f(x: f32[4], v: f32[], u: f32[]) { p = pad(x, v, low=[1]) y = reduce_window(p, u, combine=add, "
        "window=[2])"
        " return y }",
        "graph f(x: f32[4], v: f32[]) { p = pad(x, v, low=[-1]) y = reduce_window(p, v, combine=add, window=[2],"
        " pad_low=[1]) return y }",
        "graph f(x: f32[4], v: f32[]) { p = pad(x, v, low=[1]) y = reduce_window(p, v, combine=add, window=[2],"
        " base_dilation=[2]) return y }",
    };
    check_pass(flxi_simplify,
               "graph f(x: f32[4, 3]) { p = pad(x, 0.0, low=[1, 0], high=[2, 0], interior=[1, 0]) y = reduce_window(p, "
               "0.0, combine=add, window=[2, 2], strides=[2, 1], pad_low=[0, 1], pad_high=[-1, 0]) return y }",
               "graph f(x: f32[4, 3]) { y = reduce_window(x, 0.0, combine=add, window=[2, 2], strides=[2, 1], "
               "pad_low=[1, 1], pad_high=[1, 0], base_dilation=[2, 1]) return y }");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        check_pass(flxi_simplify, kept[i], kept[i]);
}

/* ---- Remaps ---- */

TEST(remap_leads_handles_to_where_they_went)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flxi_remap first = {0};
    flxi_remap second = {0};
    flx_graph *merged = NULL;
    flx_graph *lean = NULL;
    /* ids: x 1, dead 2, a 3, b 4, y 5 */
    flx_graph *g =
        graph_of(ctx, "graph f(x: f32[3]) { dead = abs(x) a = exp(x) b = exp(x) pin y = add(a, b) return x }");
    CHECK_OK(flxi_pass_cse(g, &merged, &first, &err), &err);
    CHECK_EQ_U64(first.id[4], first.id[3]);
    CHECK(flxi_value_at(merged, first.id[5])->pinned);
    CHECK_OK(flxi_pass_dce(merged, &lean, &second, &err), &err);
    flxi_remap_compose(&first, &second);
    CHECK_EQ_U64(first.id[0], 0);
    CHECK_EQ_U64(first.id[1], 1);
    CHECK_MSG(first.id[2] == 0, "a vanished value leads to %u", first.id[2]);
    CHECK(first.id[3] == 2 && first.id[4] == 2 && first.id[5] == 3);
    CHECK(flxi_value_at(lean, first.id[5])->pinned);
    CHECK_EQ_STR(flxi_ops[flxi_node_of(lean, first.id[5])->op].name, "add");
    flxi_remap_free(&first);
    flxi_remap_free(&second);
    flxi_remap_free(&second);
    flxi_remap_free(NULL);
    flx_graph_release(g);
    flx_graph_release(merged);
    flx_graph_release(lean);
    flx_context_free(ctx);
}

TEST(passes_keep_leaves_declared_late_and_names)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type t = {.dtype = FLX_F32, .rank = 1, .dims = {3}};
    flx_graph *g = flx_graph_new(ctx, "late");
    flx_val a = flx_exp(g, flx_input(g, "a", &t));
    flx_val b = flx_param(g, "b", &t);
    flx_output(g, flx_named(g, flx_add(g, a, b), "sum"), "total");
    flx_output(g, b, "copy");
    static const flxi_pass passes[] = {flxi_pass_dce, flxi_pass_cse};
    for (int i = 0; i < 2; i++) {
        flx_graph *out = NULL;
        CHECK_OK(passes[i](g, &out, NULL, &err), &err);
        flx_buffer x = text_of(g);
        flx_buffer y = text_of(out);
        CHECK_EQ_STR(y.data, x.data);
        CHECK_EQ_U64(flx_graph_hash(out), flx_graph_hash(g));
        flx_buffer_free(&x);
        flx_buffer_free(&y);
        flx_graph_release(out);
    }
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(passes_refuse_a_graph_with_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *out = NULL;
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_input(g, "1", NULL);
    CHECK_EQ_I64(flxi_pass_dce(g, &out, NULL, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flxi_pass_cse(g, &out, NULL, &err), FLX_E_USAGE);
    CHECK(out == NULL && err.message[0]);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(passes_take_linear_time)
{
    enum { COUNT = 100000 };
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type t = {.dtype = FLX_F32};
    flx_graph *g = flx_graph_new(ctx, "deep");
    flx_val y = flx_input(g, "x", &t);
    for (int i = 0; i < COUNT; i++)
        y = i % 2 ? flx_neg(g, y) : flx_add(g, y, y);
    flx_output(g, y, "y");
    flx_graph *a = NULL;
    flx_graph *b = NULL;
    CHECK_OK(flxi_pass_cse(g, &a, NULL, &err), &err);
    CHECK_OK(flxi_pass_dce(a, &b, NULL, &err), &err);
    CHECK_EQ_U64(flx_graph_node_count(b), COUNT + 1);
    flx_graph_release(a);
    flx_graph_release(b);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Order ---- */

/* The sum that needs least comes first, whatever the order of outputs and of appending. */
TEST(order_puts_sums_over_processes_first)
{
    static const char ordered[] = "graph f(x: f32[3]) {\n"
                                  "  a = exp(x) b = all_reduce(a, axis_name=\"data\") c = tanh(a)\n"
                                  "  d = reduce_scatter(c, axis_name=\"data\") e = sin(c)\n"
                                  "  h = all_reduce(e, axis_name=\"data\", op=max) k = neg(h) l = neg(d) m = neg(b)\n"
                                  "  return k, l, m\n}\n";
    check_pass(flxi_pass_order, ordered, ordered);
    check_pass(flxi_pass_order,
               "graph f(x: f32[3]) {\n"
               "  a = exp(x) c = tanh(a) e = sin(c) h = all_reduce(e, axis_name=\"data\", op=max) k = neg(h)\n"
               "  d = reduce_scatter(c, axis_name=\"data\") l = neg(d)\n"
               "  b = all_reduce(a, axis_name=\"data\") m = neg(b)\n  return k, l, m\n}\n",
               ordered);
}

/* What is gathered is larger than its parts, so it comes where it is used. */
TEST(order_leaves_gathers_where_they_are_used)
{
    static const char ordered[] = "graph f(x: f32[3], w: f32[3]) {\n"
                                  "  a = exp(x) b = tanh(a) c = all_gather(w, axis_name=\"data\") d = mul(b, c)\n"
                                  "  return d\n}\n";
    check_pass(flxi_pass_order, ordered, ordered);
}
