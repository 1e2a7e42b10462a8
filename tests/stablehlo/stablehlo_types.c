/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_types.c: element types narrower than any dtype, and quantised ones. The answers for all codes and ties come
   from ml_dtypes (tests/oracle/stablehlo_types.py); here are the operations around them. Arguments are 1, 2, 3 … */
#include "stablehlo/stablehlo_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- All codes, all ties ---- */

static char *read_fixture(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/tests/oracle/fixtures/stablehlo/%s.mlir", test_source_dir(), name);
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s is missing", path);
    enum { MAX_SIZE = 200000 };
    char *text = malloc(MAX_SIZE);
    CHECK(text != NULL);
    size_t n = fread(text, 1, MAX_SIZE - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

TEST(stablehlo_narrow_types_agree_with_ml_dtypes)
{
    static const char *const names[] = {"i2",       "i4",         "ui2",      "ui4",      "f4E2M1FN",   "f6E2M3FN",
                                        "f6E3M2FN", "f8E3M4",     "f8E4M3",   "f8E4M3FN", "f8E4M3FNUZ", "f8E4M3B11FNUZ",
                                        "f8E5M2",   "f8E5M2FNUZ", "f8E8M0FNU"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *text = read_fixture(names[i]);
        test_fail_context("%s", names[i]);
        test_count_case();
        for (int k = 0; k < 2; k++) {
            const char *got = program_outcome(text, k ? "cpu" : "ref", NULL, 0);
            EXPECT_MSG(got[0] == 0, "%s: %s", k ? "cpu" : "ref", got);
        }
        free(text);
    }
}

/* ---- Operations ---- */

typedef struct {
    const char *argument, *result; /* types without tensor<> */
    const char *lines;             /* from %x to %r */
    const char *expected;
} typed;

#define CONVERT(y, x, n, from, to) \
    "  " y " = stablehlo.convert " x " : (tensor<" n "x" from ">) -> tensor<" n "x" to ">\n"
#define CONSTANT(y, value, type) "  " y " = stablehlo.constant dense<" value "> : tensor<" type ">\n"
#define SUM_OF(n, type)                                                                              \
    CONSTANT("%z", "0.0", type)                                                                      \
    "  %s = \"stablehlo.reduce\"(%y, %z) ({\n  ^bb0(%a: tensor<" type ">, %b: tensor<" type ">):\n"  \
    "    %c = stablehlo.add %a, %b : tensor<" type ">\n    stablehlo.return %c : tensor<" type ">\n" \
    "  }) {dimensions = array<i64: 0>} : (tensor<" n "x" type ">, tensor<" type ">) -> tensor<" type ">\n"

static const typed narrow[] = {
    /* floats stop at the ends of an integer type, integers wrap */
    {"10xf32", "10xi4", CONVERT("%r", "%x", "10", "f32", "i4"), "i8[10] 1 2 3 4 5 6 7 7 7 7"},
    {"5xf32", "5xi2", "  %n = stablehlo.negate %x : tensor<5xf32>\n" CONVERT("%r", "%n", "5", "f32", "i2"),
     "i8[5] -1 -2 -2 -2 -2"},
    {"5xf32", "5xui2", CONVERT("%r", "%x", "5", "f32", "ui2"), "u8[5] 1 2 3 3 3"},
    {"10xi32", "10xi4", CONVERT("%r", "%x", "10", "i32", "i4"), "i8[10] 1 2 3 4 5 6 7 -8 -7 -6"},
    {"5xi64", "5xui2", CONVERT("%r", "%x", "5", "i64", "ui2"), "u8[5] 1 2 3 0 1"},
    {"4xi32", "4xi1", CONVERT("%y", "%x", "4", "i32", "ui2") CONVERT("%r", "%y", "4", "ui2", "i1"), "bool[4] 1 1 1 0"},
    /* rounded after each step: 16 + 1 is 16 again */
    {"20xf32", "f8E4M3FN",
     CONSTANT("%o", "1.0", "20xf32") "  %m = stablehlo.minimum %x, %o : tensor<20xf32>\n" CONVERT("%y", "%m", "20",
                                                                                                  "f32", "f8E4M3FN")
         SUM_OF("20", "f8E4M3FN") "  %r = stablehlo.negate %s : tensor<f8E4M3FN>\n",
     "f32[] -16"},
    {"3xf32", "3xf8E5M2",
     CONVERT("%y", "%x", "3", "f32", "f8E5M2") "  %r = stablehlo.exponential %y : tensor<3xf8E5M2>\n",
     "f32[3] 2.5 7 20"},
    {"3xf32", "3xf8E4M3FNUZ",
     CONVERT("%y", "%x", "3", "f32", "f8E4M3FNUZ")
         CONSTANT("%h", "100.0", "3xf8E4M3FNUZ") "  %r = stablehlo.multiply %y, %h : tensor<3xf8E4M3FNUZ>\n",
     "f32[3] 96 192 nan"},
    {"3xf32", "3xf4E2M1FN",
     CONVERT("%y", "%x", "3", "f32", "f4E2M1FN") "  %r = stablehlo.multiply %y, %y : tensor<3xf4E2M1FN>\n",
     "f32[3] 1 4 6"},
    /* products are summed in the type of the result */
    {"2x2xf32", "2x2xf32",
     "  %y = stablehlo.convert %x : (tensor<2x2xf32>) -> tensor<2x2xf8E4M3FN>\n"
     "  %r = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0] : (tensor<2x2xf8E4M3FN>, tensor<2x2xf8E4M3FN>) "
     "-> "
     "tensor<2x2xf32>\n",
     "f32[2, 2] 7 10 15 22"},
    /* 1 + k·2^−11: ties go to even */
    {"3xf32", "3xtf32",
     CONSTANT("%h", "0.00048828125", "3xf32")
         CONSTANT("%o", "1.0",
                  "3xf32") "  %a = stablehlo.multiply %x, %h : tensor<3xf32>\n"
                           "  %b = stablehlo.add %a, %o : tensor<3xf32>\n" CONVERT("%c", "%b", "3", "f32", "tf32")
                               CONSTANT("%p", "1.0", "3xtf32") "  %r = stablehlo.subtract %c, %p : tensor<3xtf32>\n",
     "f32[3] 0 0.000976562 0.00195312"},
    {"4xi32", "4xi1",
     CONVERT("%y", "%x", "4", "i32", "i2") CONSTANT(
         "%z", "0", "4xi2") "  %r = stablehlo.compare LT, %y, %z : (tensor<4xi2>, tensor<4xi2>) -> tensor<4xi1>\n",
     "bool[4] 0 1 1 0"},
    {"2xf32", "2xf8E5M2",
     CONVERT("%y", "%x", "2", "f32",
             "f8E5M2") "  %r = chlo.next_after %y, %y : tensor<2xf8E5M2>, tensor<2xf8E5M2> -> tensor<2xf8E5M2>\n",
     "UNSUPPORTED: unsupported: chlo.next_after: neighbours among the numbers of f8E5M2 at t:3:8"},
    /* complex numbers: real parts first */
    {"4xf32", "4xi1",
     CONSTANT("%o", "2.0",
              "4xf32") "  %m = stablehlo.minimum %x, %o : tensor<4xf32>\n"
                       "  %a = stablehlo.complex %m, %x : tensor<4xcomplex<f32>>\n" CONSTANT(
                           "%b", "(2.0, 3.0)",
                           "4xcomplex<f32>") "  %r = stablehlo.compare LE, %a, %b : (tensor<4xcomplex<f32>>, "
                                             "tensor<4xcomplex<f32>>) -> tensor<4xi1>\n",
     "bool[4] 1 1 1 0"},
    {"4xf32", "4xf32",
     CONSTANT("%o", "2.0",
              "4xf32") "  %m = stablehlo.minimum %x, %o : tensor<4xf32>\n"
                       "  %a = stablehlo.complex %m, %x : tensor<4xcomplex<f32>>\n" CONSTANT("%l", "(1.0, 2.0)",
                                                                                             "complex<f32>")
                           CONSTANT("%h", "(2.0, 3.0)",
                                    "complex<f32>") "  %c = stablehlo.clamp %l, %a, %h : (tensor<complex<f32>>, "
                                                    "tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> "
                                                    "tensor<4xcomplex<f32>>\n  %r = stablehlo.imag %c : "
                                                    "(tensor<4xcomplex<f32>>) -> tensor<4xf32>\n",
     "f32[4] 2 2 3 3"},
    {"4xui8", "4x2xi4", "  %r = stablehlo.bitcast_convert %x : (tensor<4xui8>) -> tensor<4x2xi4>\n",
     "i8[4, 2] 1 0 2 0 3 0 4 0"},
    {"2xi16", "2x4xui4", "  %r = stablehlo.bitcast_convert %x : (tensor<2xi16>) -> tensor<2x4xui4>\n",
     "u8[2, 4] 1 0 0 0 2 0 0 0"},
    {"2x4xi32", "2xi16",
     "  %y = stablehlo.convert %x : (tensor<2x4xi32>) -> tensor<2x4xi4>\n"
     "  %r = stablehlo.bitcast_convert %y : (tensor<2x4xi4>) -> tensor<2xi16>\n",
     "i16[2] 17185 -30875"},
    {"3xui8", "3xf8E8M0FNU", "  %r = stablehlo.bitcast_convert %x : (tensor<3xui8>) -> tensor<3xf8E8M0FNU>\n",
     "f32[3] 1.17549e-38 2.35099e-38 4.70198e-38"},
    {"3xf32", "3xui8",
     CONVERT("%y", "%x", "3", "f32",
             "f8E8M0FNU") "  %r = stablehlo.bitcast_convert %y : (tensor<3xf8E8M0FNU>) -> tensor<3xui8>\n",
     "u8[3] 127 128 129"},
    {"4xi32", "5xi4", "  %r = stablehlo.bitcast_convert %x : (tensor<4xi32>) -> tensor<5xi4>\n",
     "SHAPE: stablehlo.bitcast_convert: result 0 is i8[4, 8], but the text says tensor<5xi4> at t:2:8"},
    {"4x3xi32", "4xi16",
     "  %y = stablehlo.convert %x : (tensor<4x3xi32>) -> tensor<4x3xi4>\n"
     "  %r = stablehlo.bitcast_convert %y : (tensor<4x3xi4>) -> tensor<4xi16>\n",
     "SHAPE: stablehlo.bitcast_convert: 4 bits do not make up elements of 16 bits along the last axis at t:3:8"},
};

static void expect_typed(const typed *rows, size_t n)
{
    static char text[4000];
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text,
                 "func.func @main(%%x: tensor<%s>) -> tensor<%s> {\n%s  return %%r : tensor<%s>\n}\n", rows[i].argument,
                 rows[i].result, rows[i].lines, rows[i].result);
        expect_program(text, NULL, 0, rows[i].expected);
    }
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

TEST(stablehlo_narrow_types_round_and_wrap)
{
    expect_typed(narrow, COUNT(narrow));
}

/* ---- Quantised types ---- */

#define Q8 "!quant.uniform<i8:f32, 0.5:3>"
#define Q8W "!quant.uniform<i8:f32, 2.0:-1>"
#define Q4 "!quant.uniform<i4<-7:7>:f32, 1.0>"
#define QA "!quant.uniform<i8:f32:1, {0.5:1, 2.0}>"
#define QUANTIZE(y, x, shape, from, to) \
    "  " y " = stablehlo.uniform_quantize " x " : (tensor<" shape from ">) -> tensor<" shape to ">\n"
#define BITS(r, y, shape, from, to) \
    "  " r " = stablehlo.bitcast_convert " y " : (tensor<" shape from ">) -> tensor<" shape to ">\n"
#define OP1(r, op, x, from, to) "  " r " = \"stablehlo." op "\"(" x ") : (tensor<" from ">) -> tensor<" to ">\n"
#define OP2(r, op, x, y, a, b, to) \
    "  " r " = \"stablehlo." op "\"(" x ", " y ") : (tensor<" a ">, tensor<" b ">) -> tensor<" to ">\n"

static const typed quantised[] = {
    /* value / scale + zero point */
    {"4xf32", "4xi8", QUANTIZE("%q", "%x", "4x", "f32", Q8) BITS("%r", "%q", "4x", Q8, "i8"), "i8[4] 5 7 9 11"},
    {"4xf32", "4xf32", QUANTIZE("%q", "%x", "4x", "f32", Q8) OP1("%r", "uniform_dequantize", "%q", "4x" Q8, "4xf32"),
     "f32[4] 1 2 3 4"},
    /* halves to even: 0.5, 1, 1.5, 2, 2.5, less the zero point 1 */
    {"5xf32", "5xi8", QUANTIZE("%q", "%x", "5x", "f32", Q8W) BITS("%r", "%q", "5x", Q8W, "i8"), "i8[5] -1 0 1 1 1"},
    /* the limits of the storage, given and natural */
    {"9xf32", "9xi4", QUANTIZE("%q", "%x", "9x", "f32", Q4) BITS("%r", "%q", "9x", Q4, "i4"),
     "i8[9] 1 2 3 4 5 6 7 7 7"},
    {"2xf32", "2xi8",
     CONSTANT("%b", "1000.0", "2xf32") "  %y = stablehlo.multiply %x, %b : tensor<2xf32>\n" QUANTIZE(
         "%q", "%y", "2x", "f32", Q8) BITS("%r", "%q", "2x", Q8, "i8"),
     "i8[2] 127 127"},
    /* one scale for each column */
    {"2x2xf32", "2x2xi8", QUANTIZE("%q", "%x", "2x2x", "f32", QA) BITS("%r", "%q", "2x2x", QA, "i8"),
     "i8[2, 2] 3 1 7 2"},
    /* of types that differ: each by its own scale */
    {"4xf32", "4xi8",
     QUANTIZE("%a", "%x", "4x", "f32", Q8) QUANTIZE("%b", "%x", "4x", "f32", Q8W)
         OP2("%q", "add", "%a", "%b", "4x" Q8, "4x" Q8W, "4x" Q8) BITS("%r", "%q", "4x", Q8, "i8"),
     "i8[4] 5 11 17 19"},
    {"4xf32", "4xi8",
     QUANTIZE("%a", "%x", "4x", "f32", Q8) OP1("%q", "uniform_quantize", "%a", "4x" Q8, "4x" Q8W)
         BITS("%r", "%q", "4x", Q8W, "i8"),
     "i8[4] -1 0 1 1"},
    {"4xf32", "4xi8",
     QUANTIZE("%a", "%x", "4x", "f32", Q8) OP1("%q", "negate", "%a", "4x" Q8, "4x" Q8) BITS("%r", "%q", "4x", Q8, "i8"),
     "i8[4] 1 -1 -3 -5"},
    {"4xf32", "4xi1",
     QUANTIZE("%a", "%x", "4x", "f32", Q8) CONSTANT("%c", "8", "4xi8")
         BITS("%b", "%c", "4x", "i8", Q8) "  %r = stablehlo.compare LT, %a, %b : (tensor<4x" Q8 ">, tensor<4x" Q8
                                          ">) -> tensor<4xi1>\n",
     "bool[4] 1 1 0 0"},
    /* moved as stored, scales with their axis */
    {"2x2xf32", "2x2xi8",
     QUANTIZE("%a", "%x", "2x2x", "f32", QA) "  %q = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2x" QA
                                             ">) -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5:1, 2.0}>>\n" BITS(
                                                 "%r", "%q", "2x2x", "!quant.uniform<i8:f32:0, {0.5:1, 2.0}>", "i8"),
     "i8[2, 2] 3 7 1 2"},
    /* what moves elements keeps their scales, choosing may change them */
    {"4xf32", "2x2xi8",
     QUANTIZE("%a", "%x", "4x", "f32", Q8) OP1("%q", "reshape", "%a", "4x" Q8, "2x2x" Q8W)
         BITS("%r", "%q", "2x2x", Q8W, "i8"),
     "DTYPE: stablehlo.reshape: the element types of operand 0…"},
    {"4xf32", "4xi8",
     QUANTIZE("%a", "%x", "4x", "f32", Q8) QUANTIZE("%b", "%x", "4x", "f32", Q8W)
         CONSTANT("%p", "[true, false, true, false]",
                  "4xi1") "  %q = \"stablehlo.select\"(%p, %a, %b) : (tensor<4xi1>, tensor<4x" Q8 ">, tensor<4x" Q8W
                          ">) -> tensor<4x" Q8 ">\n" BITS("%r", "%q", "4x", Q8, "i8"),
     "i8[4] 5 7 9 11"},
    /* products of both sides, and of floats with quantised weights */
    {"2x2xf32", "2x2xi8",
     QUANTIZE("%a", "%x", "2x2x", "f32",
              Q8) "  %q = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2x2x" Q8
                  ">, tensor<2x2x" Q8 ">) -> tensor<2x2x" Q8 ">\n" BITS("%r", "%q", "2x2x", Q8, "i8"),
     "i8[2, 2] 17 23 33 47"},
    {"2x2xf32", "2x2xf32",
     QUANTIZE("%a", "%x", "2x2x", "f32",
              QA) "  %r = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<2x2xf32>"
                  ", tensor<2x2x" QA ">) -> tensor<2x2xf32>\n",
     "f32[2, 2] 7 10 15 22"},
    /* inside a region each step is quantised */
    {"4xf32", "i8",
     QUANTIZE("%y", "%x", "4x", "f32", Q4) "  %k = stablehlo.constant dense<0> : tensor<i4>\n" BITS(
         "%z", "%k", "", "i4",
         Q4) "  %s = \"stablehlo.reduce\"(%y, %z) ({\n  ^bb0(%a: tensor<" Q4 ">, %b: tensor<" Q4 ">):\n"
             "    %c = \"stablehlo.add\"(%a, %b) : (tensor<" Q4 ">, tensor<" Q4 ">) -> tensor<" Q4
             ">\n    stablehlo.return %c : tensor<" Q4 ">\n"
             "  }) {dimensions = array<i64: 0>} : (tensor<4x" Q4 ">, tensor<" Q4 ">) -> tensor<" Q4
             ">\n" BITS("%i", "%s", "", Q4, "i4") "  %r = stablehlo.convert %i : (tensor<i4>) -> tensor<i8>\n",
     "i8[] 7"},
    {"3x2xf32", "3x2xi8",
     QUANTIZE("%q", "%x", "3x2x", "f32", "!quant.uniform<i8:f32:0, {0.5:1, 2.0}>")
         BITS("%r", "%q", "3x2x", "!quant.uniform<i8:f32:0, {0.5:1, 2.0}>", "i8"),
     "SHAPE: 2 scales for the extent 3 at t:2:…"},
    {"4xf16", "4xi8", QUANTIZE("%q", "%x", "4x", "f16", Q8) BITS("%r", "%q", "4x", Q8, "i8"),
     "DTYPE: stablehlo.uniform_quantize: operand 0 expresses f16, but the result f32 at t:2:8"},
};

TEST(stablehlo_quantised_types_compute_what_they_express)
{
    expect_typed(quantised, COUNT(quantised));
}

/* A quantised constant holds what is stored, and the checks compare that. */
TEST(stablehlo_quantised_values_compare_as_stored)
{
    static const char *const rows[][2] = {{"[5, 7]", "i8[2] 5 7"}, {"[5, 8]", "CHECK: …"}};
    static char text[2000];
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(text, sizeof text,
                 "func.func @main(%%x: tensor<2xf32>) -> tensor<2x" Q8 "> {\n"
                 "  %%q = stablehlo.uniform_quantize %%x : (tensor<2xf32>) -> tensor<2x" Q8 ">\n"
                 "  %%c = stablehlo.constant dense<%s> : tensor<2xi8>\n"
                 "  %%e = stablehlo.bitcast_convert %%c : (tensor<2xi8>) -> tensor<2x" Q8 ">\n"
                 "  stablehlo.custom_call @check.expect_eq(%%q, %%e) {has_side_effect = true} : (tensor<2x" Q8
                 ">, tensor<2x" Q8 ">) -> ()\n  return %%q : tensor<2x" Q8 ">\n}\n",
                 rows[i][0]);
        expect_program(text, NULL, 0, rows[i][1]);
    }
}
