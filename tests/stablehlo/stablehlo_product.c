/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_product.c: sums of products and elements picked by indices. */
#include "stablehlo/stablehlo_rows.h"

#define DOT(lc, rc, lb, rb)                                                                                           \
    "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [" lb "], rhs_batching_dimensions = [" rb "], " \
    "lhs_contracting_dimensions = [" lc "], rhs_contracting_dimensions = [" rc "]>"

static const hlo_row products[] = {
    {"matrices",
     {{"2x3xf32", "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]"}, {"3x2xf32", "[[1.0, 0.0], [2.0, 1.0], [-1.0, 3.0]]"}},
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : "
     "(tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>",
     "2x2xf32",
     "[[2.0, 11.0], [8.0, 23.0]]",
     NULL},
    {"an algorithm is met by computing in full",
     {{"2xf32", "[1.0, 2.0]"}, {"2xf32", "[3.0, 4.0]"}},
     "  %r = \"stablehlo.dot_general\"(%a, %b) <{" DOT(
         "0", "0", "",
         "") ", algorithm = #stablehlo.dot_algorithm<"
             "lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, "
             "rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>}> : "
             "(tensor<2xf32>, tensor<2xf32>) -> tensor<f32>",
     "f32",
     "11.0",
     NULL},
    {"batches",
     {{"2x1x2xi32", "[[[1, 2]], [[3, 4]]]"}, {"2x2x1xi32", "[[[5], [6]], [[7], [8]]]"}},
     "  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [2] x [0] : "
     "(tensor<2x1x2xi32>, tensor<2x2x1xi32>) -> tensor<2x1x1xi32>",
     "2x1x1xi32",
     "[[[19]], [[50]]]",
     NULL},
    {"bytes summed in 32 bits",
     {{"2xi8", "[100, 100]"}, {"2xi8", "[100, 127]"}},
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xi8>, tensor<2xi8>) -> tensor<i32>",
     "i32",
     "22700",
     NULL},
    {"half floats summed in f32",
     {{"2xbf16", "[256.0, 1.0]"}, {"2xbf16", "[1.0, 1.0]"}},
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xbf16>, tensor<2xbf16>) -> "
     "tensor<f32>",
     "f32",
     "257.0",
     NULL},
    {"a narrower result is rounded once",
     {{"2xf32", "[256.0, 1.0]"}, {"2xf32", "[1.0, 2.0]"}},
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf32>) -> "
     "tensor<bf16>",
     "bf16",
     "258.0",
     NULL},
    {"a short sum of f32 is rounded at each step",
     {{"3xf32", "[16777216.0, 1.0, -16777216.0]"}, {"3xf32", "1.0"}},
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> "
     "tensor<f32>",
     "f32",
     "0.0",
     NULL},
    {"products of c64 are rounded before they are added", /* 4097² has 25 bits */
     {{"1xcomplex<f32>", "(4097.0, 4095.0)"}, {"1xcomplex<f32>", "(4097.0, 4100.0)"}},
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<1xcomplex<f32>>, "
     "tensor<1xcomplex<f32>>) -> "
     "tensor<complex<f32>>",
     "complex<f32>",
     "(-4092.0, 33574916.0)",
     NULL},
    {"dot of vector and matrix",
     {{"2xf64", "[1.0, 2.0]"}, {"2x2xf64", "[[1.0, 3.0], [5.0, 7.0]]"}},
     "  %r = stablehlo.dot %a, %b : (tensor<2xf64>, tensor<2x2xf64>) -> tensor<2xf64>",
     "2xf64",
     "[11.0, 17.0]",
     NULL},
    {"einsum",
     {{"2x2xf32", "[[1.0, 2.0], [3.0, 4.0]]"}, {"2xf32", "[1.0, -1.0]"}},
     "  %r = \"stablehlo.einsum\"(%a, %b) <{einsum_config = \"ij,i->j\"}> : (tensor<2x2xf32>, tensor<2xf32>) -> "
     "tensor<2xf32>",
     "2xf32",
     "[-2.0, -2.0]",
     NULL},
    {"unary einsum",
     {{"2x2xf32", "[[1.0, 2.0], [3.0, 4.0]]"}},
     "  %r = \"stablehlo.unary_einsum\"(%a) <{einsum_config = \"ij->j\"}> : (tensor<2x2xf32>) -> tensor<2xf32>",
     "2xf32",
     "[4.0, 6.0]",
     NULL},
    {"ragged rows",
     {{"4x2xf32", "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]"},
      {"2x2x1xf32", "[[[1.0], [10.0]], [[100.0], [0x7F800000]]]"},
      {"2xi32", "[3, 0]"}},
     "  %r = \"chlo.ragged_dot\"(%a, %b, %c) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions "
     "= [], "
     "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], "
     "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : "
     "(tensor<4x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<4x1xf32>",
     "4x1xf32",
     "[[21.0], [43.0], [65.0], [0.0]]",
     NULL},
    {"ragged sums",
     {{"1x4xf32", "[[1.0, 2.0, 3.0, 4.0]]"}, {"4x1xf32", "[[1.0], [1.0], [10.0], [10.0]]"}, {"2xi32", "[1, 2]"}},
     "  %r = \"chlo.ragged_dot\"(%a, %b, %c) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions "
     "= [], "
     "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], "
     "lhs_ragged_dimensions = [1], rhs_group_dimensions = []>}> : "
     "(tensor<1x4xf32>, tensor<4x1xf32>, tensor<2xi32>) -> tensor<2x1x1xf32>",
     "2x1x1xf32",
     "[[[1.0]], [[32.0]]]",
     NULL},
};

TEST(stablehlo_products)
{
    CHECK_ROWS(products);
}

static const hlo_row convolutions[] = {
    {"stride, padding, dilations",
     {{"1x1x5xf32", "[[[1.0, 2.0, 3.0, 4.0, 5.0]]]"}, {"1x1x2xf32", "[[[1.0, 10.0]]]"}},
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2], pad = "
     "[[0, 2]], "
     "lhs_dilate = [2], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
     "(tensor<1x1x5xf32>, tensor<1x1x2xf32>) -> tensor<1x1x5xf32>",
     "1x1x5xf32",
     "[[[21.0, 32.0, 43.0, 54.0, 5.0]]]",
     NULL},
    {"axes in another order, reversed window",
     {{"3x1x1xf32", "[[[1.0]], [[2.0]], [[3.0]]]"}, {"2x1x1xf32", "[[[1.0]], [[10.0]]]"}},
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [0, b, f]x[0, i, o]->[f, 0, b], window = {reverse = [true]} "
     "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x1x1xf32>, tensor<2x1x1xf32>) -> "
     "tensor<1x2x1xf32>",
     "1x2x1xf32",
     "[[[12.0], [23.0]]]",
     NULL},
    {"groups of features",
     {{"1x2x2xi32", "[[[1, 2], [3, 4]]]"}, {"2x1x1xi32", "[[[10]], [[100]]]"}},
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} "
     "{batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x2x2xi32>, tensor<2x1x1xi32>) -> "
     "tensor<1x2x2xi32>",
     "1x2x2xi32",
     "[[[10, 20], [300, 400]]]",
     NULL},
    {"groups of examples",
     {{"2x1x2xi32", "[[[1, 2]], [[3, 4]]]"}, {"2x1x1xi32", "[[[10]], [[100]]]"}},
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} "
     "{batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x1x2xi32>, tensor<2x1x1xi32>) -> "
     "tensor<1x2x2xi32>",
     "1x2x2xi32",
     "[[[10, 20], [300, 400]]]",
     NULL},
    {"negative padding",
     {{"1x1x4xf32", "[[[1.0, 2.0, 3.0, 4.0]]]"}, {"1x1x1xf32", "2.0"}},
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[-1, -1]]} "
     "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> "
     "tensor<1x1x2xf32>",
     "1x1x2xf32",
     "[[[4.0, 6.0]]]",
     NULL},
    {"a window larger than the operand",
     {{"1x1x2xf32", "1.0"}, {"1x1x3xf32", "1.0"}},
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} "
     "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x2xf32>, tensor<1x1x3xf32>) -> "
     "tensor<1x1x0xf32>",
     "1x1x0xf32",
     "",
     NULL},
    {"padding as an operand",
     {{"1x1x2xf32", "[[[1.0, 2.0]]]"}, {"1x1x2xf32", "[[[1.0, 10.0]]]"}},
     "  %p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi64>\n"
     "  %r = \"stablehlo.dynamic_conv\"(%a, %b, %p) <{dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, "
     "0]>, "
     "batch_group_count = 1 : i64, feature_group_count = 1 : i64}> : "
     "(tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x2xi64>) -> tensor<1x1x2xf32>",
     "1x1x2xf32",
     "[[[10.0, 21.0]]]",
     NULL},
};

TEST(stablehlo_convolutions)
{
    CHECK_ROWS(convolutions);
}

static const hlo_row gathers[] = {
    {"rows, out of range ones moved in",
     {{"3x2xi32", "[[1, 2], [3, 4], [5, 6]]"}, {"2x1xi64", "[[7], [-3]]"}},
     "  %r = \"stablehlo.gather\"(%a, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
     "collapsed_slice_dims = [0], "
     "start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>}> : "
     "(tensor<3x2xi32>, tensor<2x1xi64>) -> tensor<2x2xi32>",
     "2x2xi32",
     "[[5, 6], [1, 2]]",
     NULL},
    {"indices without an axis of their own",
     {{"3xf32", "[1.0, 2.0, 3.0]"}, {"2xui8", "[2, 0]"}},
     "  %r = \"stablehlo.gather\"(%a, %b) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], "
     "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<3xf32>, tensor<2xui8>) -> "
     "tensor<2xf32>",
     "2xf32",
     "[3.0, 1.0]",
     NULL},
    {"batching axes",
     {{"2x3xi32", "[[1, 2, 3], [4, 5, 6]]"}, {"2x1xi32", "[[2], [0]]"}},
     "  %r = \"stablehlo.gather\"(%a, %b) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], "
     "operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, "
     "slice_sizes = array<i64: 1, 1>}> : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2xi32>",
     "2xi32",
     "[3, 4]",
     NULL},
    {"sizes as an operand",
     {{"4xi32", "[1, 2, 3, 4]"}, {"1xi32", "[1]"}},
     "  %s = stablehlo.constant dense<2> : tensor<1xi32>\n"
     "  %r = \"stablehlo.dynamic_gather\"(%a, %b, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], "
     "start_index_map = [0]>}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>",
     "2xi32",
     "[2, 3]",
     NULL},
    {"torch_index_select",
     {{"2x3xi32", "[[1, 2, 3], [4, 5, 6]]"}, {"2xi32", "[2, 0]"}},
     "  %r = \"stablehlo.torch_index_select\"(%a, %b) <{dim = 1 : i64, batch_dims = 0 : i64}> : "
     "(tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x2xi32>",
     "2x2xi32",
     "[[3, 1], [6, 4]]",
     NULL},
    {"torch_index_select of batches",
     {{"2x3x2xi32", "[[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]"}, {"2x1xi32", "[[2], [1]]"}},
     "  %r = \"stablehlo.torch_index_select\"(%a, %b) <{dim = 1 : i64, batch_dims = 1 : i64}> : "
     "(tensor<2x3x2xi32>, tensor<2x1xi32>) -> tensor<2x1x2xi32>",
     "2x1x2xi32",
     "[[[5, 6]], [[9, 10]]]",
     NULL},
};

TEST(stablehlo_gathers)
{
    CHECK_ROWS(gathers);
}

static const hlo_mistake mistakes[] = {
    {"%a: tensor<2x3xf32>, %b: tensor<2x3xf32>",
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
     "tensor<2x3xf32>",
     FLX_E_SHAPE, "2:8", "dot_general"},
    {"%a: tensor<2x3x1xf32>, %b: tensor<3xf32>",
     "  %r = stablehlo.dot %a, %b : (tensor<2x3x1xf32>, tensor<3xf32>) -> tensor<2xf32>", FLX_E_SHAPE, "2:8",
     "vectors or matrices"},
    {"%a: tensor<2xf32>, %b: tensor<2xf32>",
     "  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<2xf32>, tensor<2xf32>) -> "
     "tensor<2xf32>",
     FLX_E_SHAPE, "2:8", "tensor<2xf32>"},
    {"%a: tensor<1x2x4xf32>, %b: tensor<1x3x2xf32>",
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} "
     "{batch_group_count = 1 : i64, "
     "feature_group_count = 1 : i64} : (tensor<1x2x4xf32>, tensor<1x3x2xf32>) -> tensor<1x1x3xf32>",
     FLX_E_SHAPE, "2:8", "conv"},
    {"%a: tensor<1x1x2xf32>, %b: tensor<1x1x3xf32>",
     "  %r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} "
     "{batch_group_count = 1 : i64, "
     "feature_group_count = 1 : i64} : (tensor<1x1x2xf32>, tensor<1x1x3xf32>) -> tensor<1x1x1xf32>",
     FLX_E_SHAPE, "2:8", "must be empty"},
    {"%a: tensor<3xf32>, %b: tensor<2x1xi32>",
     "  %r = \"stablehlo.gather\"(%a, %b) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], "
     "start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<3xf32>, tensor<2x1xi32>) "
     "-> tensor<2xf32>",
     FLX_E_ATTRIBUTE, "2:8", ""},
    {"%a: tensor<3xf32>, %b: tensor<2xi32>",
     "  %r = \"stablehlo.torch_index_select\"(%a, %b) <{dim = 4 : i64, batch_dims = 0 : i64}> : "
     "(tensor<3xf32>, tensor<2xi32>) -> tensor<2xf32>",
     FLX_E_ATTRIBUTE, "2:8", "dim is 4"},
};

TEST(stablehlo_products_refuse)
{
    CHECK_MISTAKES(mistakes);
}
