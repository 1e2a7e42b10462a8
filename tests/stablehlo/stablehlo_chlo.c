/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_chlo.c: what CHLO has besides functions of one element. */
#include "stablehlo/stablehlo_program.h"
#include "stablehlo/stablehlo_rows.h"

static const hlo_row rows[] = {
    {"broadcasting as NumPy does",
     {{"2x1xf32", "[[1.0], [2.0]]"}, {"3xf32", "[10.0, 20.0, 30.0]"}},
     "  %r = chlo.broadcast_add %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
     "2x3xf32",
     "[[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]]",
     NULL},
    {"axes given by broadcast_dimensions",
     {{"2xi32", "[1, 2]"}, {"2x3xi32", "[[1, 2, 3], [4, 5, 6]]"}},
     "  %r = chlo.broadcast_multiply %a, %b {broadcast_dimensions = array<i64: 0>} : (tensor<2xi32>, tensor<2x3xi32>) "
     "-> tensor<2x3xi32>",
     "2x3xi32",
     "[[1, 2, 3], [8, 10, 12]]",
     NULL},
    {"comparison",
     {{"2xf32", "[1.0, 0x7FC00000]"}, {"f32", "1.0"}},
     "  %r = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction GE>} : (tensor<2xf32>, "
     "tensor<f32>) -> tensor<2xi1>",
     "2xi1",
     "[true, false]",
     NULL},
    {"logic of bits and of truth values",
     {{"2xi1", "[true, false]"}, {"i1", "true"}},
     "  %r = chlo.broadcast_xor %a, %b : (tensor<2xi1>, tensor<i1>) -> tensor<2xi1>",
     "2xi1",
     "[false, true]",
     NULL},
    {"complex",
     {{"2xf32", "[1.0, 2.0]"}, {"f32", "3.0"}},
     "  %r = chlo.broadcast_complex %a, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xcomplex<f32>>",
     "2xcomplex<f32>",
     "[(1.0, 3.0), (2.0, 3.0)]",
     NULL},
    {"select",
     {{"2x1xi1", "[[true], [false]]"}, {"2xf32", "[1.0, 2.0]"}, {"f32", "5.0"}},
     "  %r = chlo.broadcast_select %a, %b, %c : (tensor<2x1xi1>, tensor<2xf32>, tensor<f32>) -> tensor<2x2xf32>",
     "2x2xf32",
     "[[1.0, 2.0], [5.0, 5.0]]",
     NULL},
    {"zeta",
     {{"2xf64", "[2.0, 4.0]"}, {"f64", "1.0"}},
     "  %r = chlo.broadcast_zeta %a, %b : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>",
     "2xf64",
     "[1.6449340668482264, 1.0823232337111382]",
     "close"},
    {"the larger of complex numbers",
     {{"3xcomplex<f32>", "[(1.0, 5.0), (2.0, 1.0), (2.0, 3.0)]"},
      {"3xcomplex<f32>", "[(2.0, 0.0), (2.0, 2.0), (1.0, 9.0)]"}},
     "  %r = stablehlo.maximum %a, %b : tensor<3xcomplex<f32>>",
     "3xcomplex<f32>",
     "[(2.0, 0.0), (2.0, 2.0), (2.0, 3.0)]",
     NULL},
    {"the smaller of complex numbers",
     {{"2xcomplex<f64>", "[(1.0, 5.0), (2.0, 1.0)]"}, {"2xcomplex<f64>", "[(2.0, 0.0), (2.0, 2.0)]"}},
     "  %r = stablehlo.minimum %a, %b : tensor<2xcomplex<f64>>",
     "2xcomplex<f64>",
     "[(1.0, 5.0), (2.0, 1.0)]",
     NULL},
    {"complex cube root",
     {{"2xcomplex<f64>", "[(-8.0, 0.0), (0.0, 0.0)]"}},
     "  %r = stablehlo.cbrt %a : tensor<2xcomplex<f64>>",
     "2xcomplex<f64>",
     "[(1.0, 1.7320508075688772), (0.0, 0.0)]",
     "almost_eq"},
    {"complex angle",
     {{"complex<f64>", "(1.0, 0.5)"}, {"complex<f64>", "(2.0, -1.0)"}}, /* the arc tangent of their quotient */
     "  %r = stablehlo.atan2 %a, %b : tensor<complex<f64>>",
     "complex<f64>",
     "(0.337370471111776, 0.379086872342022)",
     "almost_eq"},
    {"logarithms of numbers of modulus near 1",
     {{"4xcomplex<f64>", "[(-0.4794934050378431, 0.8756886030607395), (0.6434878243432176, -0.7651942178845472), "
                         "(0.5116984074999771, 0.8591529339649835), (-0.6701608901465202, -0.7426604151955261)]"}},
     "  %r = stablehlo.log %a : tensor<4xcomplex<f64>>",
     "4xcomplex<f64>",
     "[(-0.00163042790544255, 2.0717654764182005), (-0.00020065467595784117, -0.8715814986797946), "
     "(-1.0488020671867428e-05, 1.0336296396343503), (0.00032994660147361995, -2.304924037148067)]",
     "close"},
    {"Bessel functions to the last place",
     {{"2xf64", "[1.3070096752156894, -1.2517980797754644]"}},
     "  %r = chlo.bessel_i1e %a : tensor<2xf64> -> tensor<2xf64>",
     "2xf64",
     "[0.21740754476385507, -0.21642815827822298]",
     "close"},
    {"constant_like of a float",
     {{"2x2xf64", "1.0"}},
     "  %r = \"chlo.constant_like\"(%a) <{value = 3.2 : f32}> : (tensor<2x2xf64>) -> tensor<2x2xf32>",
     "2x2xf32",
     "3.2",
     NULL},
    {"constant_like of an integer",
     {{"2xf32", "1.0"}},
     "  %r = \"chlo.constant_like\"(%a) <{value = 9007199254740993 : i64}> : (tensor<2xf32>) -> tensor<2xi64>",
     "2xi64",
     "9007199254740993",
     NULL},
    {"infinities",
     {{"4xf32", "[0x7F800000, 0xFF800000, 0x7FC00000, 1.0]"}},
     "  %p = chlo.is_pos_inf %a : tensor<4xf32> -> tensor<4xi1>\n  %n = chlo.is_neg_inf %a : tensor<4xf32> -> "
     "tensor<4xi1>\n"
     "  %r = stablehlo.concatenate %p, %n, dim = 0 : (tensor<4xi1>, tensor<4xi1>) -> tensor<8xi1>",
     "8xi1",
     "[true, false, false, false, false, true, false, false]",
     NULL},
    {"top_k",
     {{"2x3xf32", "[[1.0, 3.0, 3.0], [0x7FC00000, 5.0, -1.0]]"}},
     "  %v, %r = chlo.top_k(%a, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)",
     "2x2xi32",
     "[[1, 2], [0, 1]]",
     NULL},
    {"mulhi of bytes",
     {{"3xi8", "[-128, 127, -1]"}, {"3xi8", "[-128, 127, 1]"}},
     "  %r = chlo.mulhi %a, %b : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>",
     "3xi8",
     "[64, 63, -1]",
     NULL},
    {"mulhi of unsigned words",
     {{"2xui32", "[4294967295, 65536]"}, {"2xui32", "[4294967295, 65536]"}},
     "  %r = chlo.mulhi %a, %b : tensor<2xui32>, tensor<2xui32> -> tensor<2xui32>",
     "2xui32",
     "[4294967294, 1]",
     NULL},
    {"mulhi of 64 bits",
     {{"2xui64", "[18446744073709551615, 12297829382473034411]"}, {"2xui64", "[18446744073709551615, 3]"}},
     "  %r = chlo.mulhi %a, %b : tensor<2xui64>, tensor<2xui64> -> tensor<2xui64>",
     "2xui64",
     "[18446744073709551614, 2]",
     NULL},
    {"mulhi of signed 64 bits",
     {{"3xi64", "[-9223372036854775808, -1, 9223372036854775807]"}, {"3xi64", "[-9223372036854775808, 5, 4]"}},
     "  %r = chlo.mulhi %a, %b : tensor<3xi64>, tensor<3xi64> -> tensor<3xi64>",
     "3xi64",
     "[4611686018427387904, -1, 1]",
     NULL},
    {"scan with a value from outside",
     {{"2x3xf32", "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]"}, {"2xf32", "[0.0, 1.0]"}, {"f32", "10.0"}},
     "  %k = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2xf32>\n"
     "  %r, %last = \"chlo.scan\"(%a, %b) <{dimension = 1 : i64, is_reverse = true, is_associative = false, "
     "operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({\n"
     "  ^bb0(%x: tensor<2xf32>, %carry: tensor<2xf32>):\n"
     "    %s = stablehlo.add %x, %carry : tensor<2xf32>\n    %t = stablehlo.multiply %s, %k : tensor<2xf32>\n"
     "    stablehlo.return %t, %s : tensor<2xf32>, tensor<2xf32>\n"
     "  }) : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)",
     "2x3xf32",
     "[[60.0, 50.0, 30.0], [160.0, 120.0, 70.0]]",
     NULL},
};

TEST(stablehlo_chlo)
{
    CHECK_ROWS(rows);
}

static const hlo_mistake mistakes[] = {
    {"%a: tensor<2xf32>, %b: tensor<3xf32>",
     "  %r = chlo.broadcast_add %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>", FLX_E_SHAPE, "2:8", ""},
    {"%a: tensor<2xf32>, %b: tensor<2x2xf32>",
     "  %r = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 2>} : (tensor<2xf32>, tensor<2x2xf32>) -> "
     "tensor<2x2xf32>",
     FLX_E_ATTRIBUTE, "2:8", "below 2"},
    {"%a: tensor<2xf32>, %b: tensor<2x2xf32>",
     "  %r = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0, 1>} : (tensor<2xf32>, tensor<2x2xf32>) -> "
     "tensor<2x2xf32>",
     FLX_E_ATTRIBUTE, "2:8", "2 entries"},
    {"%a: tensor<2xf32>", "  %v, %i = chlo.top_k(%a, k = 3) : tensor<2xf32> -> (tensor<3xf32>, tensor<3xi32>)",
     FLX_E_ATTRIBUTE, "2:12", "top_k"},
    {"%a: tensor<2xf32>", "  %r = chlo.mulhi %a, %a : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>", FLX_E_DTYPE,
     "2:8", ""},
    {"%a: tensor<2xf32>", "  %r = \"chlo.constant_like\"(%a) <{value = \"x\"}> : (tensor<2xf32>) -> tensor<2xf32>",
     FLX_E_ATTRIBUTE, "2:8", "one number"},
};

TEST(stablehlo_chlo_refuses)
{
    CHECK_MISTAKES(mistakes);
}

/* What the formulas give, not the limits of C: at −inf + i inf, and at −inf and 3 + 4i where it is of interest. */
TEST(stablehlo_complex_functions_at_infinities)
{
#define AT(numbers, count, op)                                                                     \
    "func.func public @main() -> (tensor<" count "xf32>, tensor<" count "xf32>) {\n"               \
    "  %z = stablehlo.constant dense<" numbers "> : tensor<" count "xcomplex<f32>>\n"              \
    "  %0 = \"" op "\"(%z) : (tensor<" count "xcomplex<f32>>) -> tensor<" count "xcomplex<f32>>\n" \
    "  %r = stablehlo.real %0 : (tensor<" count "xcomplex<f32>>) -> tensor<" count "xf32>\n"       \
    "  %1 = stablehlo.abs %r : tensor<" count "xf32>\n" /* NaN has a sign on some processors */    \
    "  %2 = stablehlo.imag %0 : (tensor<" count "xcomplex<f32>>) -> tensor<" count "xf32>\n"       \
    "  return %1, %2 : tensor<" count "xf32>, tensor<" count "xf32>\n}\n"
    expect_program(AT("[(0xFF800000, 0x7F800000), (0xFF800000, 0.0)]", "2", "chlo.cosh"), NULL, 0,
                   "f32[2] nan inf\nf32[2] nan -0");
    expect_program(AT("[(0x7F800000, 0x7F800000), (0xFF800000, 2.0)]", "2", "stablehlo.exponential_minus_one"), NULL, 0,
                   "f32[2] nan 1\nf32[2] nan 0");
    expect_program(AT("[(0xFF800000, 0.0), (0.0, 0x7F800000)]", "2", "stablehlo.tan"), NULL, 0,
                   "f32[2] nan 0\nf32[2] nan 1");
    expect_program(AT("[(0xFF800000, 2.0), (3.0, 4.0), (0.0, 0.0)]", "3", "stablehlo.sign"), NULL, 0,
                   "f32[3] nan 0.6 0\nf32[3] 0 0.8 0");
#undef AT
}
