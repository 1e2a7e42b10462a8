/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_syntax_values.c: types, attributes, numbers and literals of StableHLO text. Numbers are checked against
   values worked out by hand or against the C library, which rounds f32 and f64 correctly. */
#include "stablehlo/stablehlo_tree.h"

#include <math.h>

/* The attribute `a` of an operation, as text. */
static char *attribute_tree(const char *attribute)
{
    char *text = NULL;
    CHECK(asprintf(&text, "#alias = 5 : i8\nfunc.func @f() {\n\"x.y\"() {a = %s} : () -> ()\nreturn\n}\n%s", attribute,
                   "{-# dialect_resources: { other: {b: 1, c: {d: \"x}\"}}, builtin: { one: \"0x040000000000803F\",\n"
                   "\"two words\": \"0x0400000001000000FFFFFFFF\" } },\n external_resources: {} #-}\n") > 0);
    char *tree = tree_of(text);
    free(text);
    static const char start[] = "public @f () {\n() = x.y() {a = ";
    CHECK_MSG(strncmp(tree, start, sizeof start - 1) == 0, "%s", tree);
    char *value = tree + sizeof start - 1;
    char *end = strstr(value, "}\n() = func.return");
    CHECK(end != NULL);
    *end = 0;
    char *copy = strdup(value);
    free(tree);
    CHECK(copy != NULL);
    return copy;
}

typedef struct {
    const char *text, *tree;
} row;

static void expect_attributes(const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        test_fail_context("%s", rows[i].text);
        test_count_case();
        char *tree = attribute_tree(rows[i].text);
        EXPECT_MSG(strcmp(tree, rows[i].tree) == 0, "it is %s, expected %s", tree, rows[i].tree);
        free(tree);
    }
}
#define EXPECT_ATTRIBUTES(rows) expect_attributes(rows, sizeof(rows) / sizeof *(rows))

TEST(stablehlo_types_are_read_and_printed)
{
    static const char *const same[] = {
        "f32",
        "i1",
        "ui64",
        "index",
        "none",
        "tf32",
        "f8E4M3B11FNUZ",
        "complex<f64>",
        "tensor<f32>",
        "tensor<0xf32>",
        "tensor<2x3xcomplex<f32>>",
        "tensor<?x4x?xbf16>",
        "tensor<*xi8>",
        "tensor<1x2x3x4x5x6x7x8x9x1x2x3x4x5x6x7xi2>",
        "tensor<?x3xf32, #stablehlo.bounds<4, ?>>",
        "!stablehlo.token",
        "tuple<>",
        "tuple<tensor<f32>, tuple<i64>>",
        "!stablehlo.future<tensor<f32>>",
        "() -> ()",
        "(f32) -> (i32, tensor<f32>)",
        "tensor<2x!quant.uniform<i8:f32, 0.5>>",
        "!quant.uniform<ui4<1:14>:bf16, 0.25:7>",
        "tensor<3x2x!quant.uniform<i8<-127:127>:f32:1, {0.5, 2:-1}>>",
        "tensor<9223372036854775807x0xf32>",
    };
    static const row others[] = {
        {"(f32) -> tensor<f32>", "(f32) -> (tensor<f32>)"},
        {"tensor< 2 x 3 x f32 >", "tensor<2x3xf32>"},
        {"!mhlo.token", "!stablehlo.token"},
        {"tensor<2xf32, #sparse.encoding<{map = (d0) -> (d0 : compressed)}>>", "tensor<2xf32>"},
        {"tensor<?xf32, #stablehlo.type_extensions<bounds = [3]>>", "tensor<?xf32, #stablehlo.bounds<3>>"},
        {"tensor<f32, #stablehlo.bounds<>>", "tensor<f32>"},
        {"!quant.uniform<u8:f32, 3.400000e+01:16>", "!quant.uniform<ui8:f32, 34:16>"},
        {"!quant.uniform<i8<-128:127>:f32:0, {0.1:2, 1.0}>", "!quant.uniform<i8:f32:0, {0.1:2, 1}>"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char expected[200];
        snprintf(expected, sizeof expected, "type %s", same[i]);
        expect_attributes(&(row){same[i], expected}, 1);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char expected[200];
        snprintf(expected, sizeof expected, "type %s", others[i].tree);
        expect_attributes(&(row){others[i].text, expected}, 1);
    }
}

TEST(stablehlo_type_print_counts_what_does_not_fit)
{
    int64_t dims[] = {2, HLO_DYNAMIC};
    hlo_type t = {.kind = HLO_TENSOR, .element = HLO_F32, .rank = 2, .dims = dims};
    char text[8];
    memset(text, '#', sizeof text);
    CHECK_EQ_U64(flxi_hlo_type_print(&t, text, 6), 15);
    CHECK_EQ_STR(text, "tenso");
    CHECK(text[6] == '#');
    CHECK_EQ_U64(flxi_hlo_type_print(&t, NULL, 0), 15);
}

TEST(stablehlo_attributes_are_read)
{
    static const row rows[] = {
        {"unit", "unit"},
        {"true", "true"},
        {"false", "false"},
        {"7", "7 : i64"},
        {"-7 : i8", "-7 : i8"},
        {"255 : i8", "-1 : i8"},
        {"-128 : i8", "-128 : i8"},
        {"0xFF : ui8", "255 : ui8"},
        {"0xFFFFFFFFFFFFFFFF : i64", "-1 : i64"},
        {"-1 : i1", "1 : i1"},
        {"3 : index", "3 : index"},
        {"1.5", "1.5 : f64"},
        {"-0.0 : f32", "-0 : f32"},
        {"2 : f32", "2 : f32"},
        {"0x7F800000 : f32", "inf : f32"},
        {"0xBC00 : f16", "-1 : f16"},
        {"0x38 : f8E4M3FN", "1 : f8E4M3FN"},
        {"\"\"", "\"\""},
        {"\"a\\22b\\\\c\\n\\t\\\"\"", "\"a\"b\\c\n\t\"\""},
        {"@f", "@f"},
        {"@\"a b\"::@c.d", "@a b::c.d"},
        {"EQ", "word EQ"},
        {"tensor<2xf32>", "type tensor<2xf32>"},
        {"[]", "[]"},
        {"[1, [\"x\", @f], {}]", "[1 : i64, [\"x\", @f], {}]"},
        {"{b = 1, a, \"c d\" = 2.5}", "{a = unit, b = 1 : i64, c d = 2.5 : f64}"},
        {"array<i64>", "list<i64>"},
        {"array<i64: 1, -2>", "list<i64: 1, -2>"},
        {"array<i1: true, false>", "list<i1: 1, 0>"},
        {"array<f32: 1.5, 0x7F800000>", "list<f32: 1.5, inf>"},
        {"#alias", "5 : i8"},
        {"[#alias, #alias]", "[5 : i8, 5 : i8]"},
        {"#stablehlo<comparison_direction EQ>", "word EQ"},
        {"#stablehlo<precision<HIGH>>", "word HIGH"},
        {"#stablehlo.gather<offset_dims = [0, 1], collapsed_slice_dims = [], index_vector_dim = 1>",
         "gather{collapsed_slice_dims = list<i64>, index_vector_dim = 1 : i64, offset_dims = list<i64: 0, 1>}"},
        {"#stablehlo.channel_handle<handle = 3, type = 0>", "channel_handle{handle = 3 : i64, type = 0 : i64}"},
        {"#stablehlo.bounds<4, ?>", "list<i64: 4, -1>"},
        {"#stablehlo.conv<[f, 0, b]x[o, 0, i]->[0, b, f]>",
         "conv{input_batch_dimension = 2 : i64, input_feature_dimension = 0 : i64, input_spatial_dimensions = "
         "list<i64: 1>, "
         "kernel_input_feature_dimension = 2 : i64, kernel_output_feature_dimension = 0 : i64, "
         "kernel_spatial_dimensions = "
         "list<i64: 1>, output_batch_dimension = 1 : i64, output_feature_dimension = 2 : i64, "
         "output_spatial_dimensions = "
         "list<i64: 0>}"},
        {"[#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 1, operand_tuple_indices = []>]",
         "[output_operand_alias{operand_index = 1 : i64, operand_tuple_indices = list<i64>, output_tuple_indices = "
         "list<i64: "
         "0>}]"},
        {"#chlo.ragged<x = [true], y = <a = 1>, z = [#chlo<k V>]>",
         "ragged{x = list<i1: 1>, y = {a = 1 : i64}, z = [word V]}"},
        {"#sdy.sharding<@mesh, [{\"x\", ?}, {}]>", "opaque #sdy.sharding<@mesh, [{\"x\", ?}, {}]>"},
        {"#mhlo<x>", "opaque #mhlo<x>"},
        {"#other.word", "opaque #other.word"},
        {"affine_map<(d0, d1) -> (d1)>", "opaque affine_map<(d0, d1) -> (d1)>"},
        {"distinct[0]<1 : i64>", "opaque distinct[0]<1 : i64>"},
    };
    EXPECT_ATTRIBUTES(rows);
}

TEST(stablehlo_literals_are_read)
{
    static const row rows[] = {
        {"dense<1.5> : tensor<f32>", "splat<1.5> tensor<f32>"},
        {"dense<7> : tensor<1000000000x1000000xi64>", "splat<7> tensor<1000000000x1000000xi64>"},
        {"dense<[[1, 2, 3], [4, 5, -6]]> : tensor<2x3xi32>", "dense<1 2 3 4 5 -6> tensor<2x3xi32>"},
        {"dense<[ // >\n 1,\n 2 ]> : tensor<2xui8>", "dense<1 2> tensor<2xui8>"},
        {"dense<[true, false, 1, 0]> : tensor<4xi1>", "dense<1 0 1 0> tensor<4xi1>"},
        {"dense<> : tensor<0xf32>", "dense<> tensor<0xf32>"},
        {"dense<[]> : tensor<0x2xf32>", "dense<> tensor<0x2xf32>"},
        {"dense<[[], []]> : tensor<2x0xf32>", "dense<> tensor<2x0xf32>"},
        {"dense<[(1.0, -2.0), (0x7F800000, 3)]> : tensor<2xcomplex<f32>>",
         "dense<(1,-2) (inf,3)> tensor<2xcomplex<f32>>"},
        {"dense<(1.0, 2.0)> : tensor<4xcomplex<f64>>", "splat<(1,2)> tensor<4xcomplex<f64>>"},
        {"dense<18446744073709551615> : tensor<ui64>", "splat<18446744073709551615> tensor<ui64>"},
        {"dense<[-8, 7, 15]> : tensor<3xi4>", "dense<-8 7 -1> tensor<3xi4>"},
        {"dense<[0x3C00, 1.0, 65504.0]> : tensor<3xf16>", "dense<1 1 65504> tensor<3xf16>"},
        /* hexadecimal data */
        {"dense<\"0x0000803F000000C0\"> : tensor<2xf32>", "dense<1 -2> tensor<2xf32>"},
        {"dense<\"0x0000803f\"> : tensor<4xf32>", "splat<1> tensor<4xf32>"},
        {"dense<\"0x01000200FFFF\"> : tensor<3xi16>", "dense<1 2 -1> tensor<3xi16>"},
        {"dense<\"0x01000200FFFF\"> : tensor<3xui16>", "dense<1 2 65535> tensor<3xui16>"},
        {"dense<\"0xFFFFFFFFFFFFFF7F\"> : tensor<1xi64>", "dense<9223372036854775807> tensor<1xi64>"},
        {"dense<\"0x0000803F00000040\"> : tensor<1xcomplex<f32>>", "dense<(1,2)> tensor<1xcomplex<f32>>"},
        {"dense<\"0x0000803F00000040\"> : tensor<3xcomplex<f32>>", "splat<(1,2)> tensor<3xcomplex<f32>>"},
        {"dense<\"0x003C00C0\"> : tensor<2xf16>", "dense<1 -2> tensor<2xf16>"},
        {"dense<\"0x803F\"> : tensor<1xbf16>", "dense<1> tensor<1xbf16>"},
        {"dense<\"0x070F08\"> : tensor<3xi4>", "dense<7 -1 -8> tensor<3xi4>"},
        {"dense<\"0x070F08\"> : tensor<3xui4>", "dense<7 15 8> tensor<3xui4>"},
        {"dense<\"0x38C8\"> : tensor<2xf8E4M3FN>", "dense<1 -4> tensor<2xf8E4M3FN>"},
        {"dense<\"0x0207\"> : tensor<2xf4E2M1FN>", "dense<1 6> tensor<2xf4E2M1FN>"},
        {"dense<\"0xA503\"> : tensor<10xi1>", "dense<1 0 1 0 0 1 0 1 1 1> tensor<10xi1>"},
        {"dense<\"0x01000101\"> : tensor<4xi1>", "dense<1 0 1 1> tensor<4xi1>"},
        {"dense<\"0xFF\"> : tensor<10xi1>", "splat<1> tensor<10xi1>"},
        {"dense<\"0x00\"> : tensor<10xi1>", "splat<0> tensor<10xi1>"},
        {"dense<\"0x\"> : tensor<0xi32>", "dense<> tensor<0xi32>"},
        /* resources */
        {"dense_resource<one> : tensor<f32>", "dense<1> tensor<f32>"},
        {"dense_resource<\"two words\"> : tensor<2xi32>", "dense<1 -1> tensor<2xi32>"},
        {"[dense_resource<one> : tensor<1xf32>, dense_resource<one> : tensor<1xf32>]",
         "[dense<1> tensor<1xf32>, dense<1> tensor<1xf32>]"},
    };
    EXPECT_ATTRIBUTES(rows);
}

/* ---- Formats narrower than any dtype ---- */

/* All codes of a format as the definition gives them: sign, exponent, mantissa, bias. `top` says what the largest codes
   are: 'i' infinity and NaNs in the last exponent, 'n' NaN where all bits are set, 'z' NaN in place of the negative
   zero, 'f' nothing special. */
typedef struct {
    const char *type;
    int exponent, mantissa, bias;
    char top;
} narrow;

static const narrow narrows[] = {
    {"f4E2M1FN", 2, 1, 1, 'f'},    {"f6E2M3FN", 2, 3, 1, 'f'},       {"f6E3M2FN", 3, 2, 3, 'f'},
    {"f8E3M4", 3, 4, 3, 'i'},      {"f8E4M3", 4, 3, 7, 'i'},         {"f8E4M3FN", 4, 3, 7, 'n'},
    {"f8E4M3FNUZ", 4, 3, 8, 'z'},  {"f8E4M3B11FNUZ", 4, 3, 11, 'z'}, {"f8E5M2", 5, 2, 15, 'i'},
    {"f8E5M2FNUZ", 5, 2, 16, 'z'},
};

static double narrow_value(const narrow *f, int code)
{
    int bits = f->exponent + f->mantissa;
    int sign = code >> bits & 1;
    int field = code >> f->mantissa & ((1 << f->exponent) - 1);
    int fraction = code & ((1 << f->mantissa) - 1);
    int magnitude = code & ((1 << bits) - 1);
    if (f->top == 'z' && sign && magnitude == 0)
        return (double)NAN;
    if (f->top == 'n' && magnitude == (1 << bits) - 1)
        return (double)NAN;
    if (f->top == 'i' && field == (1 << f->exponent) - 1)
        return fraction ? (double)NAN : sign ? (double)-INFINITY : (double)INFINITY;
    double v =
        field ? ldexp(1 + ldexp(fraction, -f->mantissa), field - f->bias) : ldexp(fraction, 1 - f->bias - f->mantissa);
    return sign ? -v : v;
}

static double read_element(const char *type, const char *number)
{
    char text[4200];
    snprintf(text, sizeof text, "func.func @f() {\n%%0 = stablehlo.constant dense<%s> : tensor<%s>\nreturn\n}", number,
             type);
    hlo_module m;
    flx_error err = {0};
    CHECK_OK(flxi_hlo_parse(&plain_memory, text, strlen(text), "t", &m, &err), &err);
    const hlo_attr *a = flxi_hlo_attr(m.functions[0].body.first, "value");
    CHECK(a && a->kind == HLO_A_DENSE);
    double x = real_at(flxi_hlo_element(a->type->element)->carrier, a->bytes);
    flxi_hlo_module_free(&m);
    return x;
}

static bool same_real(double a, double b)
{
    return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b);
}

TEST(stablehlo_narrow_floats_have_all_their_codes)
{
    for (size_t i = 0; i < sizeof narrows / sizeof *narrows; i++) {
        const narrow *f = &narrows[i];
        for (int code = 0; code < 1 << (1 + f->exponent + f->mantissa); code++) {
            char number[16];
            snprintf(number, sizeof number, "0x%02X", (unsigned)code);
            double x = read_element(f->type, number);
            EXPECT_MSG(same_real(x, narrow_value(f, code)), "%s %s is %g", f->type, number, x);
        }
    }
    for (int code = 0; code < 256; code++) {
        char number[16];
        snprintf(number, sizeof number, "0x%02X", (unsigned)code);
        double x = read_element("f8E8M0FNU", number);
        EXPECT_MSG(same_real(x, code == 255 ? (double)NAN : ldexp(1, code - 127)), "f8E8M0FNU %s is %g", number, x);
    }
}

/* Between two neighbours: below the middle, at it and above it, by less than any double can tell. */
TEST(stablehlo_decimals_round_once_to_narrow_floats)
{
    for (size_t i = 0; i < sizeof narrows / sizeof *narrows; i++) {
        const narrow *f = &narrows[i];
        for (int code = 0; isfinite(narrow_value(f, code + 1)) && code + 1 < 1 << (f->exponent + f->mantissa); code++) {
            double low = narrow_value(f, code);
            double high = narrow_value(f, code + 1);
            char middle[64];
            char number[96];
            snprintf(middle, sizeof middle, "%.30f", (low + high) / 2);
            CHECK(strtod(middle, NULL) == (low + high) / 2);
            double even = code % 2 ? high : low;
            snprintf(number, sizeof number, "-%s", middle);
            double x = read_element(f->type, number);
            EXPECT_MSG(x == -even, "%s %s is %g", f->type, number, x);
            snprintf(number, sizeof number, "%s000000000000000001", middle);
            x = read_element(f->type, number);
            EXPECT_MSG(x == high, "%s %s is %g", f->type, number, x);
        }
    }
}

static const struct {
    const char *type, *number;
    double value;
} roundings[] = {
    /* f32: 1 + 2^-24 lies halfway between 1 and 1 + 2^-23 */
    {"f32", "1.00000005960464477539062", 1.0},
    {"f32", "1.000000059604644775390625", 1.0},
    {"f32", "1.0000000596046447753906250000000000000000000000000001", 1.00000011920928955078125},
    {"f32", "16777217.0", 16777216.0},
    {"f32", "16777217.00000000000000000001", 16777218.0},
    {"f32", "16777218.9999999999999999999", 16777218.0},
    {"f32", "1.40129846432481707e-45", 0x1p-149},
    {"f32", "7.0064923216240853546186479164495806564013097093825788587853e-46", 0.0},
    {"f32", "7.0064923216240853546186479164495806564013097093825788587854e-46", 0x1p-149},
    {"f32", "3.4028235677973367e38", (double)INFINITY},
    {"f32", "3.4028235677973366e38", 0x1.fffffep127},
    {"f16", "65519.999999999999999999", 65504.0},
    {"f16", "65520.0", (double)INFINITY},
    {"f16", "2.98023223876953125e-8", 0.0},
    {"f16", "2.980232238769531250000000000000000000001e-8", 0x1p-24},
    {"f16", "1.00048828125", 1.0},
    {"f16", "1.000488281250000000000000000001", 1.0009765625},
    {"bf16", "1.00390625", 1.0},
    {"bf16", "1.0039062500000000000000001", 1.0078125},
    {"bf16", "3.39e38", 0x1.fep127},
    {"bf16", "3.4e38", (double)INFINITY},
    {"tf32", "1.00048828125", 1.0},
    {"tf32", "1.00048828125000000000000000001", 1.0009765625},
    {"tf32", "0x1FC00", 1.0},
    {"f64", "1.00000000000000011102230246251565404236316680908203125", 1.0},
    {"f64", "1.00000000000000011102230246251565404236316680908203126", 0x1.0000000000001p0},
    {"f64", "5e-324", 0x1p-1074},
    {"f64", "1e400", (double)INFINITY},
    {"f64", "123456789012345678", 123456789012345678.0},
    {"f64", "00000000000000000000000000000000000000000000000000001.5", 1.5},
    {"f8E4M3FN", "464.0", 448.0},
    {"f8E4M3FN", "464.000000000000000000001", (double)NAN},
    {"f8E4M3FN", "1e400", (double)NAN},
    {"f8E5M2", "61440.0", (double)INFINITY},
    {"f8E5M2", "61439.99999999999999999999", 57344.0},
    {"f8E5M2", "-1e400", (double)-INFINITY},
    {"f8E4M3FNUZ", "-0.0", 0.0},
    {"f8E4M3FNUZ", "1000.0", (double)NAN},
    {"f4E2M1FN", "100.0", 6.0},
    {"f4E2M1FN", "-100.0", -6.0},
    {"f8E8M0FNU", "3.0", 4.0},
    {"f8E8M0FNU", "2.9999999999999999999999999", 2.0},
    {"f8E8M0FNU", "0.0", 0x1p-127},
    {"f8E8M0FNU", "2.6e38", (double)NAN},
    {"f8E8M0FNU", "-1.0", (double)NAN},
};

TEST(stablehlo_decimals_round_once)
{
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++) {
        double x = read_element(roundings[i].type, roundings[i].number);
        test_count_case();
        EXPECT_MSG(same_real(x, roundings[i].value), "%s %s is %a, expected %a", roundings[i].type, roundings[i].number,
                   x, roundings[i].value);
    }
}

TEST(stablehlo_decimals_agree_with_the_library)
{
    uint64_t random = test_seed();
    for (int i = 0; i < 20000; i++) {
        char number[80];
        int digits = 1 + (int)(test_random(&random) % 24);
        int n = snprintf(number, sizeof number, "%d.", (int)(test_random(&random) % 10));
        for (int k = 0; k < digits; k++)
            number[n++] = (char)('0' + test_random(&random) % 10);
        snprintf(number + n, sizeof number - (size_t)n, "e%d", (int)(test_random(&random) % 100) - 50);
        double x = read_element("f64", number);
        double y = read_element("f32", number);
        CHECK_MSG(x == strtod(number, NULL), "f64 %s is %a", number, x);
        CHECK_MSG(y == (double)strtof(number, NULL), "f32 %s is %a", number, y);
    }
}

/* NaNs keep their bits in the formats that have a dtype. */
TEST(stablehlo_data_keeps_payloads)
{
    static const char text[] =
        "func.func @f() {\n%0 = stablehlo.constant dense<\"0x0100C07F0100A0FF\"> : tensor<2xf32>\n"
        "%1 = stablehlo.constant dense<[0x7FC00001, 0xFFC00002]> : tensor<2xf32>\nreturn\n}";
    hlo_module m;
    flx_error err = {0};
    CHECK_OK(flxi_hlo_parse(&plain_memory, text, sizeof text - 1, "t", &m, &err), &err);
    const hlo_op *op = m.functions[0].body.first;
    const uint32_t data[2] = {0x7fc00001, 0xffa00001};
    const uint32_t numbers[2] = {0x7fc00001, 0xffc00002};
    CHECK(memcmp(flxi_hlo_attr(op, "value")->bytes, data, sizeof data) == 0);
    CHECK(memcmp(flxi_hlo_attr(op->next, "value")->bytes, numbers, sizeof numbers) == 0);
    flxi_hlo_module_free(&m);
}
