/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_syntax_errors.c: StableHLO text that is wrong: each mistake is reported with its location and what is
   wrong. Then text that no program writes: deep, huge, cut, changed, and read while memory runs out. Nothing crashes,
   leaks, or takes memory out of proportion to the text. */
#include "stablehlo/stablehlo_tree.h"

#include "fault.h"

/* Parses a copy of exactly that size, so that a sanitizer sees a read past its end. Frees everything. */
static flx_code attempt(const char *text, size_t size, fault *f, flx_error *err)
{
    flxi_allocator mem = {fault_alloc, f};
    char *copy = malloc(size ? size : 1);
    CHECK(copy != NULL);
    memcpy(copy, text, size);
    *err = (flx_error){0};
    hlo_module m;
    flx_code code = flxi_hlo_parse(&mem, copy, size, "t", &m, err);
    free(copy);
    if (code == FLX_OK)
        flxi_hlo_module_free(&m);
    CHECK_MSG(m.functions == NULL && m.name == NULL && m.num_functions == 0, "something is left");
    CHECK_MSG(fault_is_clean(f), "%zu blocks leaked, %zu errors", f->live_blocks, f->errors);
    CHECK_MSG(code != FLX_E_INTERNAL && code == (flx_code)err->code, "%d %s", (int)code, err->message);
    if (code != FLX_OK && code != FLX_E_OOM)
        CHECK_MSG(err->message[0] && strncmp(err->where, "t:", 2) == 0, "'%s' at '%s'", err->message, err->where);
    return code;
}

typedef struct {
    const char *text, *where, *message;
    flx_code code;
} mistake;

static void expect_mistake(const char *text, const mistake *m)
{
    fault f = {0};
    flx_error err;
    test_fail_context("%s", text);
    test_count_case();
    flx_code code = attempt(text, strlen(text), &f, &err);
    EXPECT_MSG(code == m->code && strcmp(err.where, m->where) == 0 && strstr(err.message, m->message),
               "code %s, '%s' at %s; expected %s, '%s' at %s", flx_code_name((int32_t)code), err.message, err.where,
               flx_code_name((int32_t)m->code), m->message, m->where);
}

/* Whole texts. */
static const mistake in_texts[] = {
    {"modul {}", "t:1:1", "expected a module or a function, found 'modul'", FLX_E_SYNTAX},
    {"module {", "t:1:9", "expected a function or '}', found the end", FLX_E_SYNTAX},
    {"module {\n  x.y @a\n}", "t:2:3", "x.y is not allowed outside of functions", FLX_E_UNSUPPORTED},
    {"\"x.y\"() : () -> ()", "t:1:1", "x.y is not allowed outside", FLX_E_UNSUPPORTED},
    {"module {\n  module {\n  }\n}", "t:2:3", "modules within modules", FLX_E_UNSUPPORTED},
    {"module attributes 3 {\n}", "t:1:19", "expected '{'", FLX_E_SYNTAX},
    {"func.func f() {\n}", "t:1:11", "expected a name such as @main, found 'f'", FLX_E_SYNTAX},
    {"func.func @(%a: i1)", "t:1:12", "the name of a symbol", FLX_E_SYNTAX},
    {"func.func @f(%a tensor<f32>)", "t:1:17", "expected ':'", FLX_E_SYNTAX},
    {"func.func @f(%a: tensor<f32>, %a: tensor<f32>)", "t:1:31", "%a is defined twice", FLX_E_DUP_NAME},
    {"func.func @f()\nfunc.func @f()", "t:2:11", "the function @f is defined twice", FLX_E_DUP_NAME},
    {"func.func @f() {\n}", "t:2:1", "does not end with a return", FLX_E_SYNTAX},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<1> : tensor<i8>\n  }", "t:3:3", "does not end with a return",
     FLX_E_SYNTAX},
    {"func.func @f() {\n  return\n  return\n}", "t:3:3", "an operation follows func.return", FLX_E_SYNTAX},
    {"func.func @f() {\n  return\n", "t:3:1", "expected '}', found the end", FLX_E_SYNTAX},
    {"func.func @f() -> tensor<f32> {\n  return\n}", "t:2:3", "@f returns 0 values, it declares 1", FLX_E_ARITY},
    {"func.func @f(%a: tensor<f32>) -> tensor<2xf32> {\n  return %a : tensor<f32>\n}", "t:2:3",
     "@f returns tensor<f32> as result 0, it declares tensor<2xf32>", FLX_E_DTYPE},
    {"func.func @f() {\n^bb0:\n  return\n^bb1:\n  return\n}", "t:4:1", "one block", FLX_E_UNSUPPORTED},
    {"#a = 1\n#a = 2", "t:2:2", "the alias #a is defined twice", FLX_E_DUP_NAME},
    {"!a = i1\n!a = i8", "t:2:2", "the alias !a is defined twice", FLX_E_DUP_NAME},
    {"# = 1", "t:1:3", "the name of an alias", FLX_E_SYNTAX},
    {"#a = #b", "t:1:6", "unknown alias #b", FLX_E_NAME},
    {"!a = !b", "t:1:6", "unknown type '!b'", FLX_E_UNSUPPORTED},
    {"#a = dense<1", "t:1:12", "the literal does not end", FLX_E_SYNTAX},
    {"#a = \"x", "t:1:6", "the string does not end on its line", FLX_E_SYNTAX},
    {"#a = \"x\n\"", "t:1:6", "the string does not end on its line", FLX_E_SYNTAX},
    {"#a = \"ab\\q\"", "t:1:9", "unknown escape", FLX_E_SYNTAX},
    {"#loc = loc(\"x\"", "t:1:15", "expected ')', found the end", FLX_E_SYNTAX},
    {"#loc = loc(\"x\"]", "t:1:15", "expected ')', found ']'", FLX_E_SYNTAX},
    {"{-# a: {b: 1 #-}", "t:1:17", "expected '}', found the end", FLX_E_SYNTAX},
    {"\"func.func\"() ({}) {sym_name = \"f\"} : () -> ()", "t:1:1", "needs sym_name and function_type",
     FLX_E_ATTRIBUTE},
    {"\"func.func\"() ({\n^bb0(%a: i8):\n\"func.return\"() : () -> ()\n}) {sym_name = \"f\", function_type = (i1) -> "
     "()} : () -> ()",
     "t:1:1", "are not those of its function_type", FLX_E_DTYPE},
    {"sdy.mesh @m = 3", "t:1:15", "expected '<'", FLX_E_SYNTAX},
};

/* The second line of a function of %a: tensor<2xf32> and %i: tensor<i64>. */
static const mistake in_bodies[] = {
    {"?", "t:2:1", "expected an operation, found '?'", FLX_E_SYNTAX},
    {"\001", "t:2:1", "expected an operation, found '?'", FLX_E_SYNTAX},
    {"%0 = ", "t:3:1", "func.return has 0 results, 1 are named", FLX_E_ARITY},
    {"% = stablehlo.abs %a : tensor<2xf32>", "t:2:3", "the name of a value", FLX_E_SYNTAX},
    {"%0 stablehlo.abs %a : tensor<2xf32>", "t:2:4", "expected '='", FLX_E_SYNTAX},
    {"%0 = stablehlo.abs %b : tensor<2xf32>", "t:2:20", "%b is not defined", FLX_E_NAME},
    {"%0 = stablehlo.abs %0 : tensor<2xf32>", "t:2:20", "%0 is not defined", FLX_E_NAME},
    {"%0 = stablehlo.abs %a#1 : tensor<2xf32>", "t:2:20", "%a has 1 result, there is no #1", FLX_E_NAME},
    {"%0 = stablehlo.abs %a#x : tensor<2xf32>", "t:2:23", "the number of a result", FLX_E_SYNTAX},
    {"%a = stablehlo.abs %a : tensor<2xf32>", "t:2:1", "%a is defined twice", FLX_E_DUP_NAME},
    {"%0:0 = stablehlo.abs %a : tensor<2xf32>", "t:2:4", "one result or more", FLX_E_SYNTAX},
    {"%0:2 = stablehlo.abs %a : tensor<2xf32>", "t:2:8", "stablehlo.abs has 1 result, 2 are named", FLX_E_ARITY},
    {"%0:99999999999999999999 = stablehlo.abs %a : tensor<2xf32>", "t:2:27", "has 1 result", FLX_E_ARITY},
    {"%0, %1 = stablehlo.abs %a : tensor<2xf32>", "t:2:10", "stablehlo.abs has 1 result, 2 are named", FLX_E_ARITY},
    {"%0 = stablehlo.abs %a : tensor<3xf32>", "t:2:20",
     "%a is of type tensor<2xf32>, here it is given as tensor<3xf32>", FLX_E_DTYPE},
    {"%0 = \"x.y\"(%a, %i) : (tensor<2xf32>) -> i1", "t:2:6", "x.y has 2 operands, but types of 1", FLX_E_ARITY},
    {"%0 = \"x.y\"(%a, %i) : (tensor<2xf32>, tensor<2xf32>) -> i1", "t:2:16", "%i is of type tensor<i64>", FLX_E_DTYPE},
    {"%0 = \"x.y\"(%a,) : (tensor<2xf32>) -> i1", "t:2:15", "expected a value such as %0", FLX_E_SYNTAX},
    {"\"x.y\"()[^bb1] : () -> ()", "t:2:8", "successors", FLX_E_UNSUPPORTED},
    {"\"x.y\"() {a = 1, a = 2} : () -> ()", "t:2:17", "the attribute a is given twice", FLX_E_ATTRIBUTE},
    {"\"x.y\"() <{a = 1}> {a = 2} : () -> ()", "t:2:19", "the attribute a is given twice", FLX_E_ATTRIBUTE},
    {"\"x.y\"() {= 2} : () -> ()", "t:2:10", "the name of an attribute", FLX_E_SYNTAX},
    {"\"x.y\"() ({}) : () -> ()", "t:2:11", "does not end with a return", FLX_E_SYNTAX},
    {"\"x.y\"() ({\n%r = stablehlo.abs %a : tensor<2xf32>\n\"x.yield\"() : () -> ()\n}) : () -> ()\n\"x.z\"(%r) : "
     "(tensor<2xf32>) -> ()",
     "t:6:7", "%r is not defined", FLX_E_NAME},
    {"\"x.y\"() ({\n^bb0(%a: i1):\n\"x.yield\"() : () -> ()\n}) : () -> ()", "t:3:6", "%a is defined twice",
     FLX_E_DUP_NAME},
    {"%0 = arith.bitcast %i : i64 to f64", "t:2:6", "arith.bitcast has no known short form", FLX_E_UNSUPPORTED},
    {"%0 = arith.constant @x", "t:2:21", "expected a number or a literal", FLX_E_SYNTAX},
    {"%0 = tensor.dim %a, %i : tensor<2xf32>", "t:2:21", "%i is of type tensor<i64>, here it is given as index",
     FLX_E_DTYPE},
    {"%0 = stablehlo.scatter %a", "t:2:6", "stablehlo.scatter has no known short form", FLX_E_UNSUPPORTED},
    {"%0 = stablehlo.add %a : tensor<2xf32>", "t:2:23", "expected ','", FLX_E_SYNTAX},
    {"%0 = stablehlo.iota dims = 0 : tensor<2xf32>", "t:2:21", "expected 'dim', found 'dims'", FLX_E_SYNTAX},
    {"%0 = stablehlo.iota dim = x : tensor<2xf32>", "t:2:27", "expected a number", FLX_E_SYNTAX},
    {"%0 = stablehlo.iota dim = 0 {iota_dimension = 1} : tensor<2xf32>", "t:2:29", "iota_dimension is given twice",
     FLX_E_ATTRIBUTE},
    {"%0 = stablehlo.select %a, %a, %a : tensor<2xf32>", "t:2:36", "the types of the predicate and of the values",
     FLX_E_SYNTAX},
    {"%0 = stablehlo.complex %a, %a : tensor<2xf32>", "t:2:33", "complex elements", FLX_E_DTYPE},
    {"%0 = stablehlo.tuple %a : tensor<2xf32>", "t:2:27", "the type of a tuple", FLX_E_DTYPE},
    {"%0 = stablehlo.tuple %a : tuple<>", "t:2:6", "stablehlo.tuple has 1 operand, but types of 0", FLX_E_ARITY},
    {"%0 = stablehlo.reduce_precision %a, format = f32 : tensor<2xf32>", "t:2:46", "a format such as e5m10",
     FLX_E_SYNTAX},
    {"%0 = stablehlo.reduce_precision %a, format = e5 : tensor<2xf32>", "t:2:46", "a format such as e5m10",
     FLX_E_SYNTAX},
    {"%0 = stablehlo.slice %a [0] : (tensor<2xf32>) -> tensor<1xf32>", "t:2:27", "expected ':'", FLX_E_SYNTAX},
    {"%0 = stablehlo.constant 1 : i64", "t:2:25", "expected a literal", FLX_E_SYNTAX},
    {"%0 = stablehlo.cholesky %a, lower = 1 : tensor<2xf32>", "t:2:37", "expected true or false", FLX_E_SYNTAX},
    {"%0 = func.call \"g\"() : () -> i1", "t:2:16", "expected a symbol such as @name", FLX_E_SYNTAX},
    {"%0 = stablehlo.reduce(%a init: %a) applies across dimensions = [0] : (tensor<2xf32>, tensor<2xf32>) -> i1",
     "t:2:51", "expected 'across'", FLX_E_SYNTAX},
    {"%0 = stablehlo.reduce(%a init: %a), (%a init: %a) applies stablehlo.add across dimensions = [0]", "t:2:59",
     "one operation reduces one input, but there are 2", FLX_E_ARITY},
    {"%0 = stablehlo.reduce(%a init: %a) across dimensions = [0] : (tensor<2xf32>, tensor<2xf32>) -> i1\nreducer(%x: "
     "i1, %y: i1) "
     "(%z: i1, %w: i1) {",
     "t:2:36", "more pairs of arguments than the 1 input", FLX_E_ARITY},
    {"%0 = stablehlo.while(%x = %a) : tensor<2xf32> cond {\nstablehlo.return %a : tensor<2xf32>\n}\nreturn", "t:5:1",
     "expected 'do', found 'return'", FLX_E_SYNTAX},
    {"%0 = stablehlo.while(%a = %a) : tensor<2xf32> cond {\n}", "t:2:22", "%a is defined twice", FLX_E_DUP_NAME},
    {"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f, f]x[i, o]->[b, f], window = {}", "t:2:57",
     "expected 'b', 'f' or the number of a spatial axis, each once", FLX_E_SYNTAX},
    {"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, 0]x[i, o]->[b, f], window = {}", "t:2:50",
     "the axes 'b' and 'f' are required", FLX_E_SYNTAX},
    {"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, 1, f]x[i, o]->[b, f], window = {}", "t:2:50",
     "the spatial axis 0 is missing", FLX_E_SYNTAX},
    {"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f]x[i, o]->[b, f], window = {steps = [1]}", "t:2:83",
     "expected stride, pad", FLX_E_SYNTAX},
    {"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f]x[i, o]->[b, f], window = {pad = [[1]]}", "t:2:90",
     "the padding below and above", FLX_E_SYNTAX},
    {"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f]x[i, o]->[b, f], window = {pad = [], pad = []}", "t:2:93",
     "the window has pad twice", FLX_E_ATTRIBUTE},
};

/* After the start of an operation on the second line: column 17. */
static const mistake in_attributes[] = {
    {"", "t:2:17", "expected an attribute, found '}'", FLX_E_SYNTAX},
    {"128x", "t:2:20", "expected '}'", FLX_E_SYNTAX},
    {"256 : i8", "t:2:17", "the number 256 does not fit into i8", FLX_E_SIZE},
    {"-129 : i8", "t:2:17", "the number -129 does not fit into i8", FLX_E_SIZE},
    {"-1 : ui8", "t:2:17", "the number -1 does not fit into ui8", FLX_E_SIZE},
    {"99999999999999999999", "t:2:17", "does not fit into i64", FLX_E_SIZE},
    {"1.5 : i8", "t:2:17", "expected an integer of type i8", FLX_E_SYNTAX},
    {"1 : tensor<f32>", "t:2:19", "the type of an integer or a float", FLX_E_SYNTAX},
    {"0x1FFFFFFFF : f32", "t:2:17", "not a bit pattern of type f32", FLX_E_SIZE},
    {"-0x1 : f32", "t:2:17", "not a bit pattern", FLX_E_SIZE},
    {"[1, 2", "t:2:22", "expected ']'", FLX_E_SYNTAX},
    {"array<tensor<f32>: 1>", "t:2:23", "an array holds integers or floats", FLX_E_SYNTAX},
    {"array<i8: 1.0>", "t:2:27", "expected an integer of type i8", FLX_E_SYNTAX},
    {"@", "t:2:18", "the name of a symbol", FLX_E_SYNTAX},
    {"#stablehlo<>", "t:2:28", "the kind of an attribute", FLX_E_SYNTAX},
    {"#stablehlo.gather<offset_dims = [0], offset_dims = [1]>", "t:2:54", "offset_dims is given twice",
     FLX_E_ATTRIBUTE},
    {"#stablehlo.gather<offset_dims [0]>", "t:2:47", "expected '='", FLX_E_SYNTAX},
    {"#stablehlo.bounds<-1>", "t:2:35", "a bound is negative", FLX_E_SIZE},
    {"sparse<[0], 1> : tensor<2xf32>", "t:2:17", "sparse literals", FLX_E_UNSUPPORTED},
    /* types */
    {"tensor<4xf31>", "t:2:26", "unknown type 'f31'", FLX_E_UNSUPPORTED},
    {"tensor<4x>", "t:2:26", "expected an element type", FLX_E_SYNTAX},
    {"tensor<4 f32>", "t:2:26", "expected 'x'", FLX_E_SYNTAX},
    {"tensor<-4xf32>", "t:2:24", "an extent is negative", FLX_E_SIZE},
    {"tensor<99999999999999999999xf32>", "t:2:24", "does not fit into 64 bits", FLX_E_SIZE},
    {"tensor<4294967296x4294967296xf32>", "t:2:35", "too many elements", FLX_E_SIZE},
    {"tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>", "t:2:56", "more than 16 axes", FLX_E_SIZE},
    {"tensor<2xcomplex<i8>>", "t:2:26", "parts of type f32 or f64", FLX_E_UNSUPPORTED},
    {"tensor<2x!stablehlo.token>", "t:2:26", "cannot have elements of this type", FLX_E_SYNTAX},
    {"tensor<?xf32, #stablehlo.bounds<3, 4>>", "t:2:31", "2 bounds for 1 axis", FLX_E_SHAPE},
    {"tensor<2xf32, #stablehlo.bounds<3>>", "t:2:31", "a bound and a fixed extent", FLX_E_SHAPE},
    {"!shape.witness", "t:2:17", "unknown type '!shape.witness'", FLX_E_UNSUPPORTED},
    {"!quant.uniform<f32:f32, 1.0>", "t:2:32", "integers of 2 to 32 bits", FLX_E_SYNTAX},
    {"!quant.uniform<i8:i8, 1.0>", "t:2:35", "floating-point", FLX_E_SYNTAX},
    {"!quant.uniform<i8<5:200>:f32, 1.0>", "t:2:32", "the range of the stored values", FLX_E_SIZE},
    {"!quant.uniform<i8:f32, 0.0>", "t:2:40", "a scale is a positive number", FLX_E_SYNTAX},
    {"!quant.uniform<i8:f32, 1.0:300>", "t:2:44", "the zero point is outside", FLX_E_SIZE},
    {"!quant.uniform<i8:f32, {1.0}>", "t:2:40", "several scales need the axis", FLX_E_SYNTAX},
    {"!quant.uniform<i8:f32:0, 1.0>", "t:2:42", "the scales along the axis", FLX_E_SYNTAX},
    {"!quant.uniform<i8:f32:{0:2}, {1.0}>", "t:2:38", "in blocks is not supported", FLX_E_UNSUPPORTED},
    {"tensor<2x!quant.uniform<i8:f32:1, {1.0}>>", "t:2:26", "the quantised axis 1 is not among 1 axis", FLX_E_SHAPE},
    {"tensor<2x!quant.uniform<i8:f32:0, {1.0}>>", "t:2:26", "1 scale for the extent 2", FLX_E_SHAPE},
    /* literals */
    {"dense<1>", "t:2:25", "expected ':'", FLX_E_SYNTAX},
    {"dense<1> : i8", "t:2:28", "a tensor of known shape", FLX_E_SHAPE},
    {"dense<1> : tensor<?xi8>", "t:2:28", "a tensor of known shape", FLX_E_SHAPE},
    {"dense<1, 2> : tensor<2xi8>", "t:2:24", "expected '>' after the elements", FLX_E_SYNTAX},
    {"dense<[1, 2]> : tensor<3xi8>", "t:2:23", "axis 0 of the literal has 2 items, its type says 3", FLX_E_SHAPE},
    {"dense<[1, 2]> : tensor<1xi8>", "t:2:25", "more items than the 1 of its type", FLX_E_SHAPE},
    {"dense<[[1], [2, 3]]> : tensor<2x2xi8>", "t:2:24", "axis 1 of the literal has 1 item", FLX_E_SHAPE},
    {"dense<[1 2]> : tensor<2xi8>", "t:2:26", "expected ','", FLX_E_SYNTAX},
    {"dense<[[1], [2]]> : tensor<2xi8>", "t:2:24", "expected a number", FLX_E_SYNTAX},
    {"dense<[1]> : tensor<9000000xi8>", "t:2:23", "fewer than the 9000000 elements", FLX_E_SHAPE},
    {"dense<> : tensor<2xi8>", "t:2:23", "the literal has no elements, its type 2", FLX_E_SHAPE},
    {"dense<300> : tensor<2xi8>", "t:2:23", "the number 300 does not fit into i8", FLX_E_SIZE},
    {"dense<true> : tensor<2xi8>", "t:2:23", "true and false are elements of type i1", FLX_E_SYNTAX},
    {"dense<1.0> : tensor<2xcomplex<f32>>", "t:2:23", "expected '('", FLX_E_SYNTAX},
    {"dense<\"00\"> : tensor<1xi8>", "t:2:23", "expected data as \"0x\"", FLX_E_SYNTAX},
    {"dense<\"0x0\"> : tensor<1xi8>", "t:2:23", "an even number of hexadecimal digits", FLX_E_SYNTAX},
    {"dense<\"0x0G\"> : tensor<1xi8>", "t:2:23", "not a hexadecimal digit", FLX_E_SYNTAX},
    {"dense<\"0x010203\"> : tensor<2xi8>", "t:2:23", "there are 3 bytes of data for 2 elements of type i8",
     FLX_E_SHAPE},
    {"dense<\"0x02\"> : tensor<20xi1>", "t:2:23", "there is 1 byte of data for 20 elements", FLX_E_SHAPE},
    {"dense_resource<x> : tensor<i8>", "t:2:17", "the text has no resource 'x'", FLX_E_NAME},
    {"dense_resource<> : tensor<i8>", "t:2:32", "the name of a resource", FLX_E_SYNTAX},
};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static void expect_mistakes(const char *before, const mistake *rows, size_t n, const char *behind)
{
    for (size_t i = 0; i < n; i++) {
        char *text = NULL;
        CHECK(asprintf(&text, "%s%s%s", before, rows[i].text, behind) > 0);
        expect_mistake(text, &rows[i]);
        free(text);
    }
}

static const char function_start[] = "func.func @f(%a: tensor<2xf32>, %i: tensor<i64>) {\n";

TEST(stablehlo_mistakes_are_reported_with_their_location)
{
    char start[120];
    snprintf(start, sizeof start, "%s\"x.y\"() {   a = ", function_start);
    expect_mistakes("", in_texts, COUNT(in_texts), "");
    expect_mistakes(function_start, in_bodies, COUNT(in_bodies), "\nreturn\n}\n");
    expect_mistakes(start, in_attributes, COUNT(in_attributes), "} : () -> ()\nreturn\n}\n");
}

TEST(stablehlo_resources_are_checked)
{
    static const mistake rows[] = {
        {"\"x.y\"() {a = dense_resource<k> : tensor<3xf32>} : () -> ()", "t:5:40",
         "there are 4 bytes of data for 3 elements of type f32", FLX_E_SHAPE},
        {"\"x.y\"() {a = dense_resource<k> : tensor<f32>, b = dense_resource<k> : tensor<1xi32>} : () -> ()", "t:2:51",
         "the resource 'k' is used with two types", FLX_E_UNSUPPORTED},
        {"\"x.y\"() {a = dense_resource<s> : tensor<f32>} : () -> ()", "t:5:65", "2 bytes of data", FLX_E_SHAPE},
    };
    expect_mistakes(
        function_start, rows, COUNT(rows),
        "\nreturn\n}\n{-# dialect_resources: { builtin: { k: \"0x0400000000000000\", s: \"0x0400\" } } #-}");
}

TEST(stablehlo_error_names_the_text_when_no_file_is_given)
{
    hlo_module m;
    flx_error err = {0};
    CHECK_CODE(flxi_hlo_parse(&plain_memory, "x", 1, NULL, &m, &err), FLX_E_SYNTAX, &err);
    CHECK_EQ_STR(err.where, "text:1:1");
    CHECK_CODE(flxi_hlo_parse(&plain_memory, "x", 1, NULL, &m, NULL), FLX_E_SYNTAX, NULL);
}

/* ---- Text that no program writes ---- */

static const char rich[] =
    "!t = tensor<2xf32>\n#k = dense<[1, 2]> : tensor<2xi64>\nmodule @m attributes {a = 1 : i32, b = #sdy.x<\"y\">} {\n"
    "  func.func public @main(%x: !t {j.k = \"v\"}, %p: tensor<i1>, %q: tensor<2x!quant.uniform<i8:f32:0, {0.5, "
    "2.0:3}>>) -> "
    "(tensor<f32> {r}) {\n"
    "    %0 = stablehlo.constant dense<[1.5, 0x7F800000]> : tensor<2xf32>\n"
    "    %1 = stablehlo.constant dense<\"0x0000803F00000040\"> : tensor<1xcomplex<f32>>\n"
    "    %2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
    "    %3 = stablehlo.add %x, %0 {mark, l = [1, @s, \"t\"]} : tensor<2xf32> loc(\"a\":1:2)\n"
    "    %4 = stablehlo.reduce(%3 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, "
    "tensor<f32>) -> "
    "tensor<f32>\n"
    "    %5:2 = \"stablehlo.case\"(%p) <{n = array<i64: 1>}> ({\n      stablehlo.return %4, %x : tensor<f32>, !t\n    "
    "}) {u = #k} : "
    "(tensor<i1>) -> (tensor<f32>, tensor<2xf32>)\n"
    "    %6:2 = stablehlo.while(%i = %4, %j = %5#1) : tensor<f32>, tensor<2xf32>\n     cond {\n"
    "      stablehlo.return %p : tensor<i1>\n    } do {\n      stablehlo.return %i, %j : tensor<f32>, tensor<2xf32>\n  "
    "  }\n"
    "    %7 = stablehlo.slice %x [0:2:1] : (tensor<2xf32>) -> tensor<2xf32>\n"
    "    %8 = stablehlo.constant dense_resource<r> : tensor<f32>\n"
    "    stablehlo.custom_call @c(%7) {api_version = 2 : i32} : (tensor<2xf32>) -> ()\n"
    "    return %6#0 : tensor<f32>\n  }\n}\n{-#\n  dialect_resources: {\n    builtin: {\n      r: "
    "\"0x040000000000803F\"\n    }\n"
    "  }\n#-}\n";

/* Every prefix; an error is found or the rest was not needed. */
TEST(stablehlo_text_may_end_anywhere)
{
    for (size_t n = 0; n <= sizeof rich - 1; n++) {
        fault f = {0};
        flx_error err;
        attempt(rich, n, &f, &err);
    }
}

/* Every byte changed, dropped and doubled. */
TEST(stablehlo_text_may_be_damaged_anywhere)
{
    static const char replacements[] = {0,   ' ', '\n', '"', '%', '(', ')', '<',
                                        '>', '{', '}',  '0', 'x', '-', ':', (char)0xff};
    char changed[sizeof rich + 1];
    for (size_t i = 0; i < sizeof rich - 1; i++) {
        fault f = {0};
        flx_error err;
        for (size_t k = 0; k < sizeof replacements; k++) {
            memcpy(changed, rich, sizeof rich);
            changed[i] = replacements[k];
            attempt(changed, sizeof rich - 1, &f, &err);
        }
        memcpy(changed, rich, i);
        memcpy(changed + i, rich + i + 1, sizeof rich - 1 - i);
        attempt(changed, sizeof rich - 2, &f, &err);
        memcpy(changed + i + 1, rich + i, sizeof rich - i);
        attempt(changed, sizeof rich, &f, &err);
    }
}

TEST(stablehlo_memory_may_run_out_anywhere)
{
    for (int forever = 0; forever < 2; forever++) {
        flx_code code = FLX_E_OOM;
        for (size_t n = 1; code != FLX_OK; n++) {
            fault f = {.fail_at = n, .forever = forever};
            flx_error err;
            code = attempt(rich, sizeof rich - 1, &f, &err);
            CHECK_MSG(code == (f.failed ? FLX_E_OOM : FLX_OK), "request %zu: %d %s", n, (int)code, err.message);
        }
    }
}

TEST(stablehlo_nesting_is_bounded)
{
    static const struct {
        const char *start, *before, *middle, *behind;
    } rows[] = {
        {"#a = ", "[", "1", "]"},
        {"#a = ", "{x = ", "1", "}"},
        {"#a = #stablehlo.x", "<a = ", "1", ">"},
        {"!a = ", "tuple<", "f32", ">"},
        {"!a = ", "(", "f32", ") -> f32"},
        {"!a = ", "!stablehlo.future<", "f32", ">"},
        {"#a = #sdy.x<", "[", "1", "]"},
        {"#a = loc(", "(", "", ")"},
        {"func.func @f() {", "\"x.y\"() ({\n", "return", "\n}) : () -> ()\n return"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        fault f = {0};
        flx_error err;
        test_fail_context("%s%s", rows[i].start, rows[i].before);
        char *text = NULL;
        size_t size = 0;
        FILE *o = open_memstream(&text, &size);
        CHECK(o != NULL);
        fputs(rows[i].start, o);
        for (int k = 0; k < 100000; k++)
            fputs(rows[i].before, o);
        fputs(rows[i].middle, o);
        for (int k = 0; k < 100000; k++)
            fputs(rows[i].behind, o);
        CHECK(fclose(o) == 0);
        EXPECT_MSG(attempt(text, size, &f, &err) == FLX_E_SIZE && strstr(err.message, "nested deeper than 256"),
                   "%d %s", err.code, err.message);
        free(text);
    }
}

/* An alias may be used in the next one twice, which doubles what it stands for. */
TEST(stablehlo_aliases_do_not_explode)
{
    char *text = NULL;
    size_t size = 0;
    FILE *o = open_memstream(&text, &size);
    CHECK(o != NULL);
    fputs("!a0 = f32\n", o);
    for (int i = 1; i < 64; i++)
        fprintf(o, "!a%d = tuple<!a%d, !a%d>\n", i, i - 1, i - 1);
    CHECK(fclose(o) == 0);
    fault f = {0};
    flx_error err;
    CHECK_CODE(attempt(text, size, &f, &err), FLX_E_SIZE, &err);
    CHECK(strstr(err.message, "more than 256 types") != NULL);
    free(text);
}

/* The memory requested is in proportion to the text. */
TEST(stablehlo_memory_follows_the_text)
{
    static const char *const hungry[] = {
        "#a = dense<1> : tensor<9223372036854775807xi64>",
        "#a = dense<[1]> : tensor<9223372036854775807xi64>",
        "#a = dense<\"0x00\"> : tensor<9223372036854775807xi1>",
        "#a = dense<1> : tensor<9007199254740992xi64>\nfunc.func @f() {\n\"x\"() {strides = #a} : () -> ()\nreturn\n}",
        "func.func @f() {\n%0:999999999 = \"x.y\"() : () -> ()\nreturn\n}",
        "!a = tensor<9223372036854775807x!quant.uniform<i8:f32:0, {1.0}>>",
    };
    for (size_t i = 0; i < COUNT(hungry); i++) {
        fault f = {0};
        flx_error err;
        test_fail_context("%s", hungry[i]);
        attempt(hungry[i], strlen(hungry[i]), &f, &err);
        EXPECT_MSG(f.peak_bytes < 65536, "%zu bytes for %zu of text", f.peak_bytes, strlen(hungry[i]));
    }
}
