/* SPDX-License-Identifier: Apache-2.0 */
/* graph_parse_value.c: numbers and their dtypes, dimensions, literal tensors. */
#include "graph/graph_text.h"

#include <math.h>
#include <stdio.h>

/* ---- Bare numbers ---- */

/* `call` is the right side of a statement in a graph with inputs of many dtypes; `constants` are the dtypes of the
   scalar constants it makes, in order. */
static void check_constants(const char *call, const char *constants)
{
    char text[600];
    char found[100] = "";
    flx_context *ctx = flx_context_new(NULL);
    snprintf(
        text, sizeof text,
        "graph f(x: f32[2], h: f16[2], b: bf16[2], d: f64[2], c: c64[2], i: i32[2], l: i64[], u: u8[2], p: bool[2]) {\n"
        "  y = %s\n  return y\n}\n",
        call);
    test_fail_context("%s", call);
    flx_graph *g = graph_of(ctx, text);
    for (size_t k = 0; k < flx_graph_node_count(g); k++) {
        flx_node_view view;
        flx_graph_node(g, k, &view);
        if (strcmp(view.op, "const") == 0)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", found[0] ? " " : "",
                     flx_dtype_name(flx_val_type(g, flx_node_result(g, k, 0))->dtype));
    }
    CHECK_EQ_STR(found, constants);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_fail_context("%s", "");
    test_count_case();
}

TEST(parse_number_takes_the_dtype_of_its_neighbours)
{
    check_constants("mul(x, 0.5)", "f32");
    check_constants("mul(0.5, h)", "f16");
    check_constants("add(b, 1e-3)", "bf16");
    check_constants("add(d, inf)", "f64");
    check_constants("add(c, -2)", "c64");
    check_constants("add(i, -7)", "i32");
    check_constants("add(u, 255)", "u8");
    check_constants("xor(p, true)", "bool");
    check_constants("xor(p, 1)", "bool");
    check_constants("add(1, 2)", "f32 f32");
    check_constants("add(add(1, 2), x)", "f32 f32"); /* the context of the call has no influence */
}

TEST(parse_number_among_roles_takes_the_right_dtype)
{
    check_constants("where(p, 1, x)", "f32");
    check_constants("where(p, d, 1)", "f64");
    check_constants("where(p, 1, 2)", "f32 f32");
    check_constants("where(true, i, 1)", "bool i32");
    check_constants("where(1, i, i)", "bool");
    check_constants("clamp(x, 0, 1)", "f32 f32");
    check_constants("clamp(0, d, 1)", "f64 f64");
    check_constants("gather(x, 1, axis=0)", "i64");
    check_constants("gt(i, 0)", "i32");
    check_constants("dynamic_slice(x, 0, sizes=[1])", "i64");
}

TEST(parse_number_alone_is_f32_or_bool)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, "graph f() { a = 3 b = true c = -inf d = nan return a, b, c, d, false }");
    static const flx_dtype wanted[] = {FLX_F32, FLX_BOOL, FLX_F32, FLX_F32, FLX_BOOL};
    for (size_t i = 0; i < 5; i++)
        CHECK_EQ_I64(flx_val_type(g, flx_graph_output(g, i))->dtype, wanted[i]);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(parse_number_must_be_a_value_of_its_dtype)
{
    static const struct {
        const char *call, *position;
    } rows[] = {
        {"add(i, 0.5)", "2:16"},        {"add(i, 1e-3)", "2:16"},
        {"add(i, inf)", "2:16"},        {"add(i, nan)", "2:16"},
        {"add(i, 2147483648)", "2:16"}, {"add(i, -2147483649)", "2:16"},
        {"add(u, -1)", "2:16"},         {"add(u, 256)", "2:16"},
        {"add(i, true)", "2:16"},       {"add(x, true)", "2:16"},
        {"xor(p, 2)", "2:16"},          {"xor(p, 0.5)", "2:16"},
        {"xor(p, -1)", "2:16"},         {"gather(x, 0.5, axis=0)", "2:19"},
        {"add(i, 1e300)", "2:16"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char text[300];
        snprintf(text, sizeof text, "graph f(x: f32[2], i: i32[2], u: u8[2], p: bool[2]) {\n return %s }",
                 rows[k].call);
        check_refused(text, FLX_E_DTYPE, rows[k].position, "is not a value of");
        test_count_case();
    }
}

TEST(parse_whole_numbers_may_be_written_with_a_point_or_exponent)
{
    check_constants("add(i, 3.0)", "i32");
    check_constants("add(i, 1e3)", "i32");
    check_constants("add(i, -2147483648)", "i32");
    check_constants("add(l, 9223372036854775807)", "i64");
    check_constants("add(l, -9223372036854775808)", "i64");
    check_constants("add(l, 9007199254740993)", "i64"); /* exact, although no double can represent it */
    check_constants("add(i, 0x10)", "i32");
}

TEST(parse_malformed_numbers_are_refused)
{
    static const char *const bad[] = {"1e",    "1e+", "1.2.3", "0x",  "1x", "--1", "-",        "-true", "1_000",
                                      "1e1.5", "0xg", "+1",    ". 5", "-a", "1..", "infinity", "- -1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[100];
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        snprintf(text, sizeof text, "graph f() { return %s }", bad[i]);
        flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
        CHECK_MSG(!m && (err.code == FLX_E_SYNTAX || err.code == FLX_E_NAME), "%s: %s", bad[i], err.message);
        flx_context_free(ctx);
        test_count_case();
    }
}

static double first_constant(const char *number)
{
    char text[9000];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_tensor *out = NULL;
    snprintf(text, sizeof text, "graph f() { return const(f64[], %s) }", number);
    flx_graph *g = graph_of(ctx, text);
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, &out, &err), &err);
    double v = flx_tensor_get(out, 0);
    flx_tensor_release(out);
    flx_graph_release(g);
    flx_context_free(ctx);
    return v;
}

TEST(parse_numbers_are_read_to_the_nearest_double)
{
    CHECK(first_constant("0.1") == 0.1 && first_constant("1e400") == INFINITY && first_constant("-1e400") == -INFINITY);
    CHECK(first_constant("5e-324") == 5e-324 && first_constant("1e-400") == 0.0);
    CHECK(first_constant(".5") == 0.5 && first_constant("1.") == 1.0 && first_constant("0x1.8p1") == 3.0);
    CHECK(first_constant("1e999999999999999999999") == INFINITY);
    CHECK(signbit(first_constant("-0")) && signbit(first_constant("-0.0")) && isnan(first_constant("nan")));
    char digits[4001];
    memset(digits, '3', 4000);
    digits[4000] = 0;
    memcpy(digits, "0.", 2);
    CHECK(first_constant(digits) == 1.0 / 3.0);
}

/* ---- Dimensions ---- */

static void check_dim(const char *dim, const char *printed)
{
    char text[1000];
    char found[500];
    flx_context *ctx = flx_context_new(NULL);
    snprintf(text, sizeof text, "graph f(x: f32[%s]) { return x }", dim);
    flx_graph *g = graph_of(ctx, text);
    flx_dim_print(ctx, flx_val_type(g, flx_graph_input(g, 0))->dims[0], found, sizeof found);
    CHECK_EQ_STR(found, printed);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
    test_count_case();
}

TEST(parse_dimension_arithmetic_has_the_usual_precedence)
{
    check_dim("2 + 3 * 4", "14");
    check_dim("(2 + 3) * 4", "20");
    check_dim("20 - 3 - 4", "13");
    check_dim("24 / 4 / 2", "3");
    check_dim("24 / (4 / 2)", "12");
    check_dim("2 * 6 / 3", "4");
    check_dim("7 // 2 * 2", "6");
    check_dim("-3 + 5", "2");
    check_dim("- - 5", "5");
    check_dim("N - -1", "N + 1");
    check_dim("N + N", "2*N");
    check_dim("N * (M + 1) - N", "M*N");
    check_dim("(N * N - 1) / (N + 1)", "N - 1");
    check_dim("N / 2 + N / 2", "2*(N/2)");
    check_dim("N // 2 // 3", "(N//2)//3");
    check_dim("((((((N))))))", "N");
}

TEST(parse_dimension_that_is_no_extent_is_refused)
{
    check_refused("graph f(x: f32[-1]) { return }", FLX_E_SHAPE, "1:12", "negative");
    check_refused("graph f(x: f32[2 - 3]) { return }", FLX_E_SHAPE, "1:12", "negative");
    check_refused("graph f(x: f32[7/2]) { return }", FLX_E_SHAPE, "1:17", "no whole result");
    check_refused("graph f(x: f32[1/0]) { return }", FLX_E_SHAPE, "1:17", "by zero");
    check_refused("graph f(x: f32[N//0]) { return }", FLX_E_SHAPE, "1:17", "by zero");
    check_refused("graph f(x: f32[1.5]) { return }", FLX_E_SYNTAX, "1:16", "a dimension");
    check_refused("graph f(x: f32[inf]) { return }", FLX_E_SYNTAX, "1:16", "a dimension");
    check_refused("graph f(x: f32[()]) { return }", FLX_E_SYNTAX, "1:17", "a dimension");
    check_refused("graph f(x: f32[(2]) { return }", FLX_E_SYNTAX, "1:18", "')'");
    check_refused("graph f(x: f32[2 +]) { return }", FLX_E_SYNTAX, "1:19", "a dimension");
    check_refused("graph f(x: f32[9223372036854775807]) { return }", FLX_E_SIZE, "1:16", "too large");
    check_refused("graph f(x: f32[99999999999999999999]) { return }", FLX_E_SIZE, "1:16", "too large");
    check_refused("graph f(x: f32[4611686018427387904 * 2]) { return }", FLX_E_SIZE, "1:36", "too large");
    check_refused("graph f(x: f32[4611686018427387904]) { return }", FLX_E_SIZE, "1:12", "too many elements");
    check_refused("graph f(x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) { return }", FLX_E_SIZE, "1:48", "at most 16");
    check_dim("0, 4611686018427387904", "0");
}

TEST(parse_symbol_names_one_dimension_throughout)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g =
        graph_of(ctx, "graph f(x: f32[N, M], y: f32[M]) { return reshape(x, shape=[M, N]), iota(f32[K*2]) }");
    CHECK_EQ_STR(flx_graph_symbol(g, 0), "N");
    CHECK_EQ_STR(flx_graph_symbol(g, 1), "M");
    CHECK_EQ_STR(flx_graph_symbol(g, 2), "K");
    CHECK(flx_val_type(g, flx_graph_input(g, 0))->dims[1] == flx_val_type(g, flx_graph_input(g, 1))->dims[0]);
    check_round_trip(g);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Literal tensors ---- */

static void check_literal(const char *arguments, const char *printed)
{
    char text[1000];
    char expected[1000];
    snprintf(text, sizeof text, "graph f() { y = const(%s) return y }", arguments);
    snprintf(expected, sizeof expected, "graph f() {\n  y = const(%s)\n  return y\n}\n", printed);
    check_prints(text, expected);
    test_count_case();
}

TEST(parse_literals_of_every_form)
{
    check_literal("f32[], 1.5", "f32[], 1.5");
    check_literal("f32[2, 2], [[1, 2], [3, 4],]", "f32[2, 2], [[1, 2], [3, 4]]");
    check_literal("f32[3], [1, -inf, nan]", "f32[3], [1, -inf, nan]");
    check_literal("bool[4], [true, false, 1, 0]", "bool[4], [true, false, true, false]");
    check_literal("c64[3], [[1, -2], 3, [0, 0]]", "c64[3], [[1, -2], [3, 0], [0, 0]]");
    check_literal("c128[], [1, nan]", "c128[], [1, nan]");
    check_literal("c128[], -1", "c128[], [-1, 0]");
    check_literal("c64[1, 2], [[[1, 2], [3, 4]]]", "c64[1, 2], [[[1, 2], [3, 4]]]");
    check_literal("u64[2], [18446744073709551615, 0]", "u64[2], [18446744073709551615, 0]");
    check_literal("i64[1], [-9223372036854775808]", "i64[1], [-9223372036854775808]");
    check_literal("i8[2], \"FfFe\"", "i8[2], [-1, -2]");
    check_literal("f32[1], \"0100C07f\"", "f32[1], \"0100c07f\""); /* a NaN with a payload */
    check_literal("f32[1], \"0000c0ff\"", "f32[1], \"0000c0ff\""); /* a negative one */
    check_literal("f16[2], \"007c00fc\"", "f16[2], [inf, -inf]");
    check_literal("bool[2], \"0100\"", "bool[2], [true, false]");
    check_literal("f32[0], []", "f32[0], \"\"");
    check_literal("f32[2, 0], [[], []]", "f32[2, 0], \"\"");
    check_literal("f32[0, 9], \"\"", "f32[0, 9], \"\"");
}

TEST(parse_literals_that_do_not_fit_their_type_are_refused)
{
    static const struct {
        const char *arguments;
        flx_code code;
        const char *message;
    } rows[] = {
        {"f32[2], [1]", FLX_E_SHAPE, "1 entry, expected 2"},
        {"f32[2], [1, 2, 3]", FLX_E_SHAPE, "more than 2"},
        {"f32[2, 2], [[1, 2], [3]]", FLX_E_SHAPE, "1 entry, expected 2"},
        {"f32[2], 1", FLX_E_SYNTAX, "'['"},
        {"f32[], [1]", FLX_E_SYNTAX, "a number"},
        {"f32[2], [[1, 2]]", FLX_E_SYNTAX, "a number"},
        {"c64[1], [[1, 2, 3]]", FLX_E_SYNTAX, "']'"},
        {"c64[1], [[1]]", FLX_E_SYNTAX, "imaginary"},
        {"i32[1], [1.5]", FLX_E_DTYPE, "not a value of i32"},
        {"u8[1], [256]", FLX_E_DTYPE, "not a value of u8"},
        {"bool[1], [2]", FLX_E_DTYPE, "not a value of bool"},
        {"f32[1], [true]", FLX_E_DTYPE, "not a value of f32"},
        {"bool[1], \"02\"", FLX_E_DTYPE, "00 or 01"},
        {"f32[1], \"00\"", FLX_E_SHAPE, "2 hexadecimal digits"},
        {"f32[1], \"0000000g\"", FLX_E_SYNTAX, "not a hexadecimal digit"},
        {"f32[N], [1]", FLX_E_UNBOUND_DIM, "numbers for its dimensions"},
        {"f32[1000000000], [1]", FLX_E_SHAPE, "too short"},
        {"[1, 2]", FLX_E_SYNTAX, "a type"},
        {"f32[2]", FLX_E_ATTRIBUTE, "must be given"},
        {"", FLX_E_ATTRIBUTE, "must be given"},
        {"f32[1], x", FLX_E_SYNTAX, "'['"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        snprintf(text, sizeof text, "graph f() { return const(%s) }", rows[i].arguments);
        test_fail_context("%s", text);
        CHECK(flx_parse(ctx, text, strlen(text), "t", &err) == NULL);
        CHECK_CODE(err.code, rows[i].code, &err);
        CHECK_MSG(strstr(err.message, rows[i].message), "%s", err.message);
        flx_context_free(ctx);
        test_count_case();
    }
}

TEST(parse_full_and_iota_take_symbols)
{
    check_prints("graph f() { return full(f32[N, 2], -0.5), iota(i32[N], axis=-1), full(c64[], [1, 2]) }",
                 "graph f() {\n  out0 = full(f32[N, 2], -0.5)\n  out1 = iota(i32[N])\n"
                 "  out2 = full(c64[], [1, 2])\n  return out0, out1, out2\n}\n");
}

/* ---- Attribute values ---- */

TEST(parse_real_attributes_are_exact)
{
    check_prints("graph f(x: f32[2]) { return leaky_relu(x, alpha=-0) }",
                 "graph f(x: f32[2]) {\n  out0 = leaky_relu(x, alpha=-0)\n  return out0\n}\n");
    check_prints("graph f(x: f32[2]) { return leaky_relu(x, alpha=9999999999999999999) }",
                 "graph f(x: f32[2]) {\n  out0 = leaky_relu(x, alpha=1e+19)\n  return out0\n}\n");
    check_prints("graph f(x: f32[2]) { return leaky_relu(x, alpha=3) }",
                 "graph f(x: f32[2]) {\n  out0 = leaky_relu(x, alpha=3)\n  return out0\n}\n");
}

TEST(parse_lists_of_one_kind_only)
{
    check_refused("graph f(x: f32[2]) { return reduce_sum(x, axes=[0, 1.5]) }", FLX_E_ATTRIBUTE, "1:29",
                  "list of integers");
    check_refused("graph f(x: f32[2]) { return reduce_sum(x, axes=[0, @f]) }", FLX_E_NAME, "1:53", "calls itself");
    check_refused("graph f(x: f32[2]) { return reduce_sum(x, axes=[0, f32[2]]) }", FLX_E_SYNTAX, "1:48",
                  "different kinds");
    check_refused("graph f(x: f32[2]) { return reduce_sum(x, axes=[N]) }", FLX_E_ATTRIBUTE, "1:29", "list of integers");
    check_refused("graph f(x: f32[2]) { return reduce_sum(x, axes=[0", FLX_E_SYNTAX, "1:50", "']'");
    check_refused("graph f(x: f32[2]) { return reduce_sum(x, axes=[[0, 1], 2.5]) }", FLX_E_SYNTAX, "1:48",
                  "different kinds");
}
