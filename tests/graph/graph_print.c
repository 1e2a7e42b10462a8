/* SPDX-License-Identifier: Apache-2.0 */
/* graph_print.c: graphs as text: exact constants, numbers written inline, names that collide, files with bodies. */
#include "graph/graph_text.h"
#include "graph/rich_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const flx_type f32_scalar = {.dtype = FLX_F32};
static const flx_type f32_3 = {.dtype = FLX_F32, .rank = 1, .dims = {3}};

static flx_val constant(flx_graph *g, flx_dtype dtype, int64_t count, const void *bytes)
{
    flx_error err = {0};
    flx_type type = flx_type_make(dtype, count < 0 ? 0 : 1, &count);
    flx_tensor *t = flx_tensor_new(flx_graph_context(g), &type, bytes, &err);
    CHECK_MSG(t != NULL, "%s", err.message);
    flx_val v = flx_const(g, &type, t);
    flx_tensor_release(t);
    return v;
}

static void check_printed_and_free(flx_graph *g, const char *expected)
{
    flx_buffer text = text_of(g);
    CHECK_EQ_STR(text.data, expected);
    flx_buffer_free(&text);
    check_round_trip(g);
    flx_graph_release(g);
}

/* The bytes of output 0 are unchanged after a round trip through text. */
static void check_bits_survive(flx_context *ctx, flx_dtype dtype, int64_t count, const void *bytes)
{
    flx_error err = {0};
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_output(g, constant(g, dtype, count, bytes), "y");
    check_round_trip(g);
    flx_buffer text = text_of(g);
    flx_graph *again = graph_of(ctx, text.data);
    flx_tensor *out = NULL;
    CHECK_OK(flx_run(again, ON_REF, NULL, 0, &out, &err), &err);
    size_t size = (count < 0 ? 1 : (size_t)count) * flx_dtype_size(dtype);
    CHECK_MSG(flx_tensor_nbytes(out) == size && memcmp(flx_tensor_const_data(out), bytes, size) == 0,
              "the bits change:\n%s", text.data);
    flx_tensor_release(out);
    flx_buffer_free(&text);
    flx_graph_release(again);
    flx_graph_release(g);
}

/* ---- Constants ---- */

TEST(print_special_floats_read_back_bit_for_bit)
{
    flx_context *ctx = flx_context_new(NULL);
    static const uint32_t f32_bits[] = {0x80000000u, 1u,          0x007fffffu, 0x7f7fffffu, 0x7f800000u, 0xff800000u,
                                        0x7fc00000u, 0x7fc00001u, 0xffc00000u, 0x7f800001u, 0x3dcccccdu, 0x00800000u};
    static const uint64_t f64_bits[] = {UINT64_C(0x8000000000000000), 1,
                                        UINT64_C(0x000fffffffffffff), UINT64_C(0x7fefffffffffffff),
                                        UINT64_C(0x7ff8000000000000), UINT64_C(0x7ff8000000000123),
                                        UINT64_C(0xfff8000000000000), UINT64_C(0x7ff0000000000001),
                                        UINT64_C(0x3fb999999999999a)};
    for (size_t i = 0; i < sizeof f32_bits / sizeof *f32_bits; i++)
        check_bits_survive(ctx, FLX_F32, -1, &f32_bits[i]);
    for (size_t i = 0; i < sizeof f64_bits / sizeof *f64_bits; i++)
        check_bits_survive(ctx, FLX_F64, -1, &f64_bits[i]);
    check_bits_survive(ctx, FLX_F32, 12, f32_bits);
    check_bits_survive(ctx, FLX_F64, 9, f64_bits);
    check_bits_survive(ctx, FLX_C128, 4, f64_bits);
    check_bits_survive(ctx, FLX_C64, -1, &f32_bits[6]);
    check_bits_survive(ctx, FLX_C64, -1, &f32_bits[0]); /* -0 and a subnormal */
    flx_context_free(ctx);
}

TEST(print_every_half_reads_back_bit_for_bit)
{
    flx_context *ctx = flx_context_new(NULL);
    for (uint32_t start = 0; start < 65536; start += 16) {
        uint16_t bits[16];
        for (uint32_t i = 0; i < 16; i++)
            bits[i] = (uint16_t)(start + i);
        if (start % 1024 == 0 || start >= 0xff80 || (start & 0x7fff) >= 0x7c00) {
            check_bits_survive(ctx, FLX_F16, 16, bits);
            check_bits_survive(ctx, FLX_BF16, 16, bits);
        }
    }
    flx_context_free(ctx);
}

TEST(print_random_floats_read_back_bit_for_bit)
{
    flx_context *ctx = flx_context_new(NULL);
    uint64_t random = test_seed();
    for (int i = 0; i < 60; i++) {
        uint64_t bits[8];
        for (int k = 0; k < 8; k++)
            bits[k] = test_random(&random);
        for (int d = FLX_F64; d <= FLX_U8; d++)
            check_bits_survive(ctx, (flx_dtype)d, d == FLX_C128 ? 4 : 8, bits);
        test_count_case();
    }
    flx_context_free(ctx);
}

TEST(print_large_constants_as_hexadecimal)
{
    flx_context *ctx = flx_context_new(NULL);
    uint8_t *bytes = calloc(100000, 1);
    for (int i = 0; i < 100000; i++)
        bytes[i] = (uint8_t)(i * 7);
    check_bits_survive(ctx, FLX_U8, 33, bytes);
    check_bits_survive(ctx, FLX_U8, 100000, bytes);
    check_bits_survive(ctx, FLX_F32, 25000, bytes);
    check_bits_survive(ctx, FLX_U8, 0, bytes);
    free(bytes);
    flx_context_free(ctx);
}

/* ---- Numbers written inline ---- */

TEST(print_constant_used_once_is_written_inline)
{
    check_prints("graph f(x: f32[3]) { return add(mul(2, x), -0.5) }",
                 "graph f(x: f32[3]) {\n  v0 = mul(2, x)\n  out0 = add(v0, -0.5)\n  return out0\n}\n");
    check_prints("graph f(p: bool[3], x: i32[3]) { return where(p, 1, x), where(true, x, 3) }",
                 "graph f(p: bool[3], x: i32[3]) {\n  out0 = where(p, 1, x)\n  out1 = where(true, x, 3)\n"
                 "  return out0, out1\n}\n");
}

TEST(print_constant_used_twice_or_named_is_a_statement)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "twice");
    flx_val c = flx_scalar(g, FLX_F32, 2.0);
    flx_output(g, flx_add(g, c, c), "y");
    check_printed_and_free(g, "graph twice() {\n  v0 = const(f32[], 2)\n  y = add(v0, v0)\n  return y\n}\n");
    g = flx_graph_new(ctx, "named");
    flx_val x = flx_input(g, "x", &f32_3);
    c = flx_named(g, flx_scalar(g, FLX_F32, 2.0), "two");
    flx_output(g, flx_add(g, x, c), "y");
    check_printed_and_free(g, "graph named(x: f32[3]) {\n  two = const(f32[], 2)\n  y = add(x, two)\n  return y\n}\n");
    g = flx_graph_new(ctx, "pinned");
    x = flx_input(g, "x", &f32_3);
    c = flx_pin(g, flx_scalar(g, FLX_F32, 2.0));
    flx_output(g, flx_add(g, x, c), "y");
    check_printed_and_free(g,
                           "graph pinned(x: f32[3]) {\n  pin v0 = const(f32[], 2)\n  y = add(x, v0)\n  return y\n}\n");
    g = flx_graph_new(ctx, "returned");
    x = flx_input(g, "x", &f32_3);
    c = flx_scalar(g, FLX_F32, 2.0);
    flx_output(g, flx_add(g, x, c), "y");
    flx_output(g, c, "c");
    check_printed_and_free(g,
                           "graph returned(x: f32[3]) {\n  c = const(f32[], 2)\n  y = add(x, c)\n  return y, c\n}\n");
    flx_context_free(ctx);
}

TEST(print_constant_that_is_not_right_before_its_user_is_a_statement)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "apart");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_val c = flx_scalar(g, FLX_F32, 2.0);
    flx_val e = flx_exp(g, x);
    flx_output(g, flx_add(g, e, c), "y");
    check_printed_and_free(
        g, "graph apart(x: f32[3]) {\n  v0 = const(f32[], 2)\n  v1 = exp(x)\n  y = add(v1, v0)\n  return y\n}\n");
    g = flx_graph_new(ctx, "swapped"); /* constants in another order than the operands */
    flx_val b = flx_scalar(g, FLX_F32, 2.0);
    flx_val a = flx_scalar(g, FLX_F32, 1.0);
    flx_output(g, flx_sub(g, a, b), "y");
    check_printed_and_free(g, "graph swapped() {\n  v0 = const(f32[], 2)\n  y = sub(1, v0)\n  return y\n}\n");
    g = flx_graph_new(ctx, "leaf_between");
    c = flx_scalar(g, FLX_F32, 2.0);
    x = flx_input(g, "x", &f32_3);
    flx_output(g, flx_add(g, x, c), "y");
    check_printed_and_free(g, "graph leaf_between(x: f32[3]) {\n  y = add(x, 2)\n  return y\n}\n");
    flx_context_free(ctx);
}

TEST(print_constant_of_another_dtype_than_the_reader_gives_is_a_statement)
{
    flx_context *ctx = flx_context_new(NULL);
    for (int d = 1; d < FLX_DTYPE_COUNT; d++) {
        char expected[200];
        flx_graph *g = flx_graph_new(ctx, "f");
        flx_val a = flx_scalar(g, (flx_dtype)d, 1.0);
        flx_val b = flx_scalar(g, (flx_dtype)d, 1.0);
        flx_output(g, d == FLX_BOOL ? flx_and(g, a, b) : flx_add(g, a, b), "y");
        const char *name = flx_dtype_name(d);
        const char *one = d == FLX_C64 || d == FLX_C128 ? "[1, 0]" : "1";
        if (d == FLX_F32)
            snprintf(expected, sizeof expected, "graph f() {\n  y = add(1, 1)\n  return y\n}\n");
        else if (d == FLX_BOOL)
            snprintf(expected, sizeof expected, "graph f() {\n  y = and(true, true)\n  return y\n}\n");
        else
            snprintf(expected, sizeof expected,
                     "graph f() {\n  v0 = const(%s[], %s)\n  v1 = const(%s[], %s)\n  y = add(v0, v1)\n  return y\n}\n",
                     name, one, name, one);
        check_printed_and_free(g, expected);
    }
    flx_context_free(ctx);
}

TEST(print_complex_constant_with_an_imaginary_part_is_a_statement)
{
    check_prints("graph f(z: c64[2]) { i = const(c64[], [0, 1]) return mul(z, i), mul(z, 2) }",
                 "graph f(z: c64[2]) {\n  i = const(c64[], [0, 1])\n  out0 = mul(z, i)\n  out1 = mul(z, 2)\n"
                 "  return out0, out1\n}\n");
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_type c64_2 = flx_type_make(FLX_C64, 1, (flx_dim[]){2});
    flx_val z = flx_input(g, "z", &c64_2);
    flx_output(g, flx_mul(g, z, constant(g, FLX_C64, -1, (float[]){1.0f, -0.0f})), "y");
    check_printed_and_free(g, "graph f(z: c64[2]) {\n  v0 = const(c64[], [1, -0])\n  y = mul(z, v0)\n  return y\n}\n");
    g = flx_graph_new(ctx, "g");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_output(g, flx_mul(g, x, constant(g, FLX_F32, -1, &(uint32_t){0x7fc00001u})), "y");
    check_printed_and_free(
        g, "graph g(x: f32[3]) {\n  v0 = const(f32[], \"0100c07f\")\n  y = mul(x, v0)\n  return y\n}\n");
    flx_context_free(ctx);
}

/* ---- Names ---- */

TEST(print_labels_that_clash_get_suffixes)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_named(g, flx_exp(g, x), "x"); /* like a leaf */
    flx_named(g, flx_exp(g, x), "a");
    flx_val b = flx_named(g, flx_log(g, x), "a");
    flx_named(g, flx_neg(g, x), "a_2"); /* like a name that was made */
    flx_named(g, flx_neg(g, x), "v0");  /* like one that will be */
    flx_exp(g, x);
    flx_named(g, flx_abs(g, x), "y"); /* like an output */
    flx_output(g, b, "y");
    check_printed_and_free(g, "graph f(x: f32[3]) {\n  x_2 = exp(x)\n  a = exp(x)\n  y = log(x)\n  a_2 = neg(x)\n"
                              "  v0 = neg(x)\n  v1 = exp(x)\n  y_2 = abs(x)\n  return y\n}\n");
    flx_context_free(ctx);
}

TEST(print_many_equal_labels_take_linear_time)
{
    enum { COUNT = 30000 };
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_scalar);
    for (int i = 0; i < COUNT; i++)
        flx_named(g, flx_neg(g, x), i % 2 ? "a" : "b"); /* alternately */
    flx_output(g, x, NULL);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(print_outputs_that_are_not_the_variable_get_an_alias)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_val a = flx_named(g, flx_exp(g, x), "a");
    flx_output(g, x, "p");
    flx_output(g, x, "x_2"); /* what `return x, x` would call the second, but x itself is not returned */
    flx_output(g, a, "q");
    flx_output(g, a, "q");
    flx_output(g, a, "a");
    flx_output(g, a, "q_4");
    flx_output(g, a, "q");
    check_printed_and_free(g, "graph f(x: f32[3]) {\n  q = exp(x)\n  p = x\n  x_2 = x\n  a = q\n  q_4 = q\n"
                              "  return p, x_2, q, q, a, q_4, q\n}\n");
    flx_context_free(ctx);
}

TEST(print_pins_of_leaves_and_of_some_results)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val x = flx_input(g, "x", &f32_3);
    flx_val top[2];
    flx_top_k(g, x, top, 1, FLX_DEFAULT, FLX_DTYPE_NONE);
    flx_pin(g, top[1]);
    flx_pin(g, flx_input(g, "late", &f32_3));
    flx_pin(g, flx_exp(g, x));
    flx_output(g, top[0], "y");
    check_printed_and_free(g, "graph f(x: f32[3], late: f32[3]) {\n  pin _ = late\n  y, v0 = top_k(x, k=1, axis=0)\n"
                              "  pin _ = v0\n  pin v1 = exp(x)\n  return y\n}\n");
    flx_context_free(ctx);
}

/* ---- Files ---- */

static flx_graph *build_body(flx_context *ctx, const char *name, bool negate)
{
    flx_graph *g = flx_graph_new(ctx, name);
    flx_val x = flx_input(g, "x", &f32_3);
    flx_output(g, negate ? flx_neg(g, x) : flx_exp(g, x), "y");
    return g;
}

static flx_val call(flx_graph *g, flx_val x, flx_graph *body)
{
    flx_val y = FLX_NONE;
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = body};
    flx_op(g, "custom_fn", &x, 1, &a, 1, &y, 1);
    return y;
}

TEST(print_graphs_of_one_name_are_told_apart)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *bodies[] = {build_body(ctx, "f", false), build_body(ctx, "main", true), build_body(ctx, "f", true)};
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val y = flx_input(g, "x", &f32_3);
    for (int i = 0; i < 3; i++)
        y = call(g, y, bodies[i]);
    flx_output(g, call(g, y, bodies[0]), "y"); /* once more: printed once */
    for (int i = 0; i < 3; i++)
        flx_graph_release(bodies[i]);
    check_printed_and_free(g, "graph f_2(x: f32[3]) {\n  y = exp(x)\n  return y\n}\n\n"
                              "graph main_2(x: f32[3]) {\n  y = neg(x)\n  return y\n}\n\n"
                              "graph f_3(x: f32[3]) {\n  y = neg(x)\n  return y\n}\n\n"
                              "graph f(x: f32[3]) {\n  v0 = custom_fn(x, fwd_body=@f_2)\n"
                              "  v1 = custom_fn(v0, fwd_body=@main_2)\n  v2 = custom_fn(v1, fwd_body=@f_3)\n"
                              "  y = custom_fn(v2, fwd_body=@f_2)\n  return y\n}\n");
    flx_context_free(ctx);
}

TEST(print_rich_text_is_stable)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = module_of(ctx, rich_text);
    flx_buffer once = {0};
    flx_buffer twice = {0};
    CHECK_OK(flx_module_print(m, &once, NULL), NULL);
    flx_module *again = module_of(ctx, once.data);
    CHECK_OK(flx_module_print(again, &twice, NULL), NULL);
    CHECK_EQ_STR(twice.data, once.data);
    CHECK_EQ_U64(flx_module_count(again), flx_module_count(m));
    CHECK_EQ_U64(flx_graph_hash(flx_module_main(again)), flx_graph_hash(flx_module_main(m)));
    flx_buffer_free(&once);
    flx_buffer_free(&twice);
    flx_module_free(m);
    flx_module_free(again);
    flx_context_free(ctx);
}

TEST(print_without_a_place_to_print_to_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build_body(ctx, "f", false);
    flx_error err = {0};
    CHECK_EQ_I64(flx_graph_print(g, NULL, &err), FLX_E_USAGE);
    CHECK_EQ_I64(flx_module_print(NULL, NULL, &err), FLX_E_USAGE);
    flx_graph_release(g);
    flx_context_free(ctx);
}
