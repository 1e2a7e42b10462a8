/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_syntax.c: programs as trees. Each operation that can be written without quotes is paired with its generic
   form: both must give the same tree. */
#include "stablehlo/stablehlo_tree.h"

#include "stablehlo/operations.h"

static const char arguments[] =
    "%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xcomplex<f32>>, %p: tensor<2xi1>, %s: tensor<f32>, "
    "%i: tensor<i64>, %m: tensor<4x8xf32>, %n: tensor<8x4xf32>, %t: !stablehlo.token, "
    "%u: tuple<tensor<f32>, tensor<i64>>, %v: tensor<2xi64>, %x: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x16xf32>, "
    "%d: tensor<?x4xf32, #stablehlo.bounds<8, ?>>, %q: tensor<2x!quant.uniform<i8:f32, 0.5:3>>";

/* A function around a body, with all the arguments. */
static char *around(const char *body)
{
    char *text = NULL;
    CHECK(asprintf(&text,
                   "func.func private @g(tensor<2xf32>) -> (tensor<f32>, tensor<i64>)\n"
                   "func.func @f(%s) {\n%s\nreturn\n}\n",
                   arguments, body) > 0);
    return text;
}

static void expect_same(const char *pretty, const char *generic)
{
    test_fail_context("%s", pretty);
    test_count_case();
    char *texts[2] = {around(pretty), around(generic)};
    char *trees[2] = {tree_of(texts[0]), tree_of(texts[1])};
    EXPECT_MSG(strcmp(trees[0], trees[1]) == 0, "the short form gives\n%s\nthe generic form\n%s", trees[0], trees[1]);
    for (int i = 0; i < 2; i++) {
        free(texts[i]);
        free(trees[i]);
    }
}

typedef struct {
    const char *pretty, *generic;
} pair;

#define REDUCED "(tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>"
#define CONV "(tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x6x6x16xf32>"
#define CONV_DIMS                                                                  \
    "#stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 3, " \
    "input_spatial_dimensions = [1, 2], kernel_input_feature_dimension = 2, "      \
    "kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1], "    \
    "output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2]>"
#define DOT "(tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>"

static const pair pairs[] = {
    /* one type for all, or a function's type */
    {"%0 = stablehlo.abs %a : tensor<2xf32>", "%0 = \"stablehlo.abs\"(%a) : (tensor<2xf32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.abs %c : (tensor<2xcomplex<f32>>) -> tensor<2xf32>",
     "%0 = \"stablehlo.abs\"(%c) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>"},
    {"%0 = stablehlo.tanh %a {result_accuracy = #stablehlo.result_accuracy<atol = 1.5, rtol = 0.0, ulps = 3, mode = "
     "#stablehlo.result_accuracy_mode<DEFAULT>>} : tensor<2xf32>",
     "%0 = \"stablehlo.tanh\"(%a) <{result_accuracy = #stablehlo.result_accuracy<atol = 1.5, rtol = 0.0, ulps = 3, "
     "mode = "
     "#stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<2xf32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>",
     "%0 = \"stablehlo.clamp\"(%s, %a, %s) : (tensor<f32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.cholesky %a : tensor<2xf32>",
     "%0 = \"stablehlo.cholesky\"(%a) : (tensor<2xf32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.cholesky %a, lower = true : tensor<2xf32>",
     "%0 = \"stablehlo.cholesky\"(%a) {lower = true} : (tensor<2xf32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.reverse %m, dims = [0, 1] : tensor<4x8xf32>",
     "%0 = \"stablehlo.reverse\"(%m) {dimensions = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>"},
    {"%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<2xf32>",
     "%0 = \"stablehlo.reduce_precision\"(%a) {exponent_bits = 5 : i32, mantissa_bits = 10 : i32} : (tensor<2xf32>) -> "
     "tensor<2xf32>"},
    {"%0 = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>",
     "%0 = \"stablehlo.uniform_dequantize\"(%q) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>"},
    {"%0 = stablehlo.after_all %t, %t : !stablehlo.token",
     "%0 = \"stablehlo.after_all\"(%t, %t) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token"},
    {"%0 = stablehlo.after_all : !stablehlo.token", "%0 = \"stablehlo.after_all\"() : () -> !stablehlo.token"},
    /* no operands */
    {"%0 = stablehlo.create_token : !stablehlo.token", "%0 = \"stablehlo.create_token\"() : () -> !stablehlo.token"},
    {"%0 = stablehlo.partition_id : tensor<ui32>", "%0 = \"stablehlo.partition_id\"() : () -> tensor<ui32>"},
    {"%0 = stablehlo.replica_id : tensor<ui32>", "%0 = \"stablehlo.replica_id\"() : () -> tensor<ui32>"},
    {"%0 = stablehlo.iota dim = 1 : tensor<4x8xf32>",
     "%0 = \"stablehlo.iota\"() {iota_dimension = 1 : i64} : () -> tensor<4x8xf32>"},
    {"%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>",
     "%0 = \"stablehlo.constant\"() <{value = dense<[1.0, 2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>"},
    {"%0 = stablehlo.constant {mark} dense<1.0> : tensor<2xf32>",
     "%0 = \"stablehlo.constant\"() {mark, value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>"},
    {"%0 = stablehlo.constant() {value = dense<1> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>",
     "%0 = \"stablehlo.constant\"() {value = dense<1> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>"},
    {"%0 = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>",
     "%0 = \"stablehlo.constant\"() {value = dense<1> : tensor<2xi8>} : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>"},
    {"%0 = chlo.constant dense<1> : tensor<i64>",
     "%0 = \"chlo.constant\"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>"},
    /* attributes between the operands and the types */
    {"%0 = stablehlo.bitcast_convert %a : (tensor<2xf32>) -> tensor<2xi32>",
     "%0 = \"stablehlo.bitcast_convert\"(%a) : (tensor<2xf32>) -> tensor<2xi32>"},
    {"%0 = stablehlo.reshape %m : (tensor<4x8xf32>) -> tensor<32xf32>",
     "%0 = \"stablehlo.reshape\"(%m) : (tensor<4x8xf32>) -> tensor<32xf32>"},
    {"%0 = stablehlo.broadcast %a, sizes = [3, 4] : (tensor<2xf32>) -> tensor<3x4x2xf32>",
     "%0 = \"stablehlo.broadcast\"(%a) {broadcast_sizes = dense<[3, 4]> : tensor<2xi64>} : (tensor<2xf32>) -> "
     "tensor<3x4x2xf32>"},
    {"%0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2xf32>",
     "%0 = \"stablehlo.broadcast_in_dim\"(%s) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.broadcast_in_dim %a, dims = [1] {mark} : (tensor<2xf32>) -> tensor<3x2xf32>",
     "%0 = \"stablehlo.broadcast_in_dim\"(%a) {mark, broadcast_dimensions = dense<1> : tensor<1xi64>} : "
     "(tensor<2xf32>) -> "
     "tensor<3x2xf32>"},
    {"%0 = stablehlo.dynamic_broadcast_in_dim %a, %v, dims = [1] : (tensor<2xf32>, tensor<2xi64>) -> tensor<?x2xf32>",
     "%0 = \"stablehlo.dynamic_broadcast_in_dim\"(%a, %v) {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>, "
     "tensor<2xi64>) -> tensor<?x2xf32>"},
    {"%0 = stablehlo.dynamic_iota %v, dim = 0 : (tensor<2xi64>) -> tensor<?x?xf32>",
     "%0 = \"stablehlo.dynamic_iota\"(%v) {iota_dimension = 0 : i64} : (tensor<2xi64>) -> tensor<?x?xf32>"},
    {"%0 = stablehlo.compare LT, %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
     "%0 = \"stablehlo.compare\"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction LT>}> : "
     "(tensor<2xf32>, "
     "tensor<2xf32>) -> tensor<2xi1>"},
    {"%0 = stablehlo.compare  EQ, %a, %b,  TOTALORDER {mark} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>",
     "%0 = \"stablehlo.compare\"(%a, %b) {mark, comparison_direction = \"EQ\", compare_type = "
     "#stablehlo<comparison_type "
     "TOTALORDER>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>"},
    {"%0 = stablehlo.complex %a, %b : tensor<2xcomplex<f32>>",
     "%0 = \"stablehlo.complex\"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>"},
    {"%0 = stablehlo.complex %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>",
     "%0 = \"stablehlo.complex\"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>"},
    {"%0 = stablehlo.select %p, %a, %b : tensor<2xi1>, tensor<2xf32>",
     "%0 = \"stablehlo.select\"(%p, %a, %b) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"},
    {"%0 = stablehlo.select %p, %a, %b : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32>",
     "%0 = \"stablehlo.select\"(%p, %a, %b) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32>"},
    {"%0 = stablehlo.concatenate %a, %b, %a, dim = 0 : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<6xf32>",
     "%0 = \"stablehlo.concatenate\"(%a, %b, %a) {dimension = 0 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) "
     "-> "
     "tensor<6xf32>"},
    {"%0 = stablehlo.dynamic_slice %m, %i, %i, sizes = [1, 4] : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> "
     "tensor<1x4xf32>",
     "%0 = \"stablehlo.dynamic_slice\"(%m, %i, %i) {slice_sizes = dense<[1, 4]> : tensor<2xi64>} : (tensor<4x8xf32>, "
     "tensor<i64>, tensor<i64>) -> tensor<1x4xf32>"},
    {"%0 = stablehlo.slice %m [1:3, 4:8:2] : (tensor<4x8xf32>) -> tensor<2x2xf32>",
     "%0 = \"stablehlo.slice\"(%m) {start_indices = array<i64: 1, 4>, limit_indices = array<i64: 3, 8>, strides = "
     "array<i64: 1, 2>} : (tensor<4x8xf32>) -> tensor<2x2xf32>"},
    {"%0 = stablehlo.slice %s [] : (tensor<f32>) -> tensor<f32>",
     "%0 = \"stablehlo.slice\"(%s) {start_indices = array<i64>, limit_indices = array<i64>, strides = array<i64>} : "
     "(tensor<f32>) -> tensor<f32>"},
    {"%0 = stablehlo.pad %a, %s, low = [-1], high = [2], interior = [0] : (tensor<2xf32>, tensor<f32>) -> "
     "tensor<3xf32>",
     "%0 = \"stablehlo.pad\"(%a, %s) {edge_padding_low = dense<-1> : tensor<1xi64>, edge_padding_high = array<i64: 2>, "
     "interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>"},
    {"%0 = stablehlo.transpose %m, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>",
     "%0 = \"stablehlo.transpose\"(%m) {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>"},
    {"%0 = stablehlo.fft %c, type =  IFFT, length = [2] : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>",
     "%0 = \"stablehlo.fft\"(%c) {fft_type = #stablehlo<fft_type IFFT>, fft_length = dense<2> : tensor<1xi64>} : "
     "(tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>"},
    {"%0 = stablehlo.rng %s, %s, %v, distribution =  NORMAL : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> "
     "tensor<2x2xf32>",
     "%0 = \"stablehlo.rng\"(%s, %s, %v) {rng_distribution = #stablehlo<rng_distribution NORMAL>} : (tensor<f32>, "
     "tensor<f32>, tensor<2xi64>) -> tensor<2x2xf32>"},
    {"%0, %1 = stablehlo.rng_bit_generator %v, algorithm = PHILOX : (tensor<2xi64>) -> (tensor<2xi64>, tensor<2xui32>)",
     "%0:2 = \"stablehlo.rng_bit_generator\"(%v) {rng_algorithm = \"PHILOX\"} : (tensor<2xi64>) -> (tensor<2xi64>, "
     "tensor<2xui32>)"},
    {"%0 = stablehlo.get_dimension_size %d, dim = 0 : (tensor<?x4xf32, #stablehlo.bounds<8, ?>>) -> tensor<i32>",
     "%0 = \"stablehlo.get_dimension_size\"(%d) {dimension = 0 : i64} : (tensor<?x4xf32, "
     "#stablehlo.type_extensions<bounds = [8, ?]>>) -> tensor<i32>"},
    {"%0 = stablehlo.set_dimension_size %m, %i, dim = 0 : (tensor<4x8xf32>, tensor<i64>) -> tensor<?x8xf32>",
     "%0 = \"stablehlo.set_dimension_size\"(%m, %i) {dimension = 0 : i64} : (tensor<4x8xf32>, tensor<i64>) -> "
     "tensor<?x8xf32>"},
    {"%0 = stablehlo.get_tuple_element %u[1] : (tuple<tensor<f32>, tensor<i64>>) -> tensor<i64>",
     "%0 = \"stablehlo.get_tuple_element\"(%u) {index = 1 : i32} : (tuple<tensor<f32>, tensor<i64>>) -> tensor<i64>"},
    {"%0 = stablehlo.tuple %s, %i : tuple<tensor<f32>, tensor<i64>>",
     "%0 = \"stablehlo.tuple\"(%s, %i) : (tensor<f32>, tensor<i64>) -> tuple<tensor<f32>, tensor<i64>>"},
    {"%0 = stablehlo.tuple : tuple<>", "%0 = \"stablehlo.tuple\"() : () -> tuple<>"},
    {"%0:2 = stablehlo.optimization_barrier %s, %i : tensor<f32>, tensor<i64>",
     "%0:2 = \"stablehlo.optimization_barrier\"(%s, %i) : (tensor<f32>, tensor<i64>) -> (tensor<f32>, tensor<i64>)"},
    {"stablehlo.optimization_barrier()", "\"stablehlo.optimization_barrier\"() : () -> ()"},
    {"stablehlo.trace %a, \"here\" : tensor<2xf32>",
     "\"stablehlo.trace\"(%a) {tag = \"here\"} : (tensor<2xf32>) -> ()"},
    {"%0 = stablehlo.einsum %m, %n, config = \"ab,bc->ac\" : " DOT,
     "%0 = \"stablehlo.einsum\"(%m, %n) {einsum_config = \"ab,bc->ac\"} : " DOT},
    {"%0 = stablehlo.unary_einsum %m, config = \"ab->a\" : (tensor<4x8xf32>) -> tensor<4xf32>",
     "%0 = \"stablehlo.unary_einsum\"(%m) {einsum_config = \"ab->a\"} : (tensor<4x8xf32>) -> tensor<4xf32>"},
    /* products */
    {"%0 = stablehlo.dot %m, %n : " DOT, "%0 = \"stablehlo.dot\"(%m, %n) : " DOT},
    {"%0 = stablehlo.dot %m, %n, precision = [DEFAULT, HIGHEST] : " DOT,
     "%0 = \"stablehlo.dot\"(%m, %n) {precision_config = [\"DEFAULT\", #stablehlo<precision HIGHEST>]} : " DOT},
    {"%0 = stablehlo.dot_general %m, %n, contracting_dims = [1] x [0] : " DOT,
     "%0 = \"stablehlo.dot_general\"(%m, %n) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
     "rhs_contracting_dimensions = [0]>} : " DOT},
    {"%0 = stablehlo.dot_general %m, %n, batching_dims = [0] x [1], contracting_dims = [1] x [0], precision = [HIGH, "
     "HIGH], "
     "algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count "
     "= 1, "
     "rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> {mark} : " DOT,
     "%0 = \"stablehlo.dot_general\"(%m, %n) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, "
     "rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
     "num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = "
     "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], "
     "rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>]}> "
     "{mark} : " DOT},
    {"%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} "
     "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : " CONV,
     "%0 = \"stablehlo.convolution\"(%x, %w) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, "
     "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>} : " CONV},
    {"%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, "
     "1], "
     "pad = [[1, 0], [2, 3]], lhs_dilate = [1, 1], rhs_dilate = [2, 2], reverse = [true, false]} : " CONV,
     "%0 = \"stablehlo.convolution\"(%x, %w) {dimension_numbers = " CONV_DIMS ", window_strides = array<i64: 2, 1>, "
     "padding = dense<[[1, 0], [2, 3]]> : tensor<2x2xi64>, lhs_dilation = dense<1> : tensor<2xi64>, rhs_dilation = "
     "array<i64: 2, 2>, window_reversal = dense<[true, false]> : tensor<2xi1>} : " CONV},
    {"%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {reverse = "
     "[1, 0]} : " CONV,
     "%0 = \"stablehlo.convolution\"(%x, %w) {dimension_numbers = " CONV_DIMS
     ", window_reversal = array<i1: true, false>} : " CONV},
    /* calls */
    {"%0:2 = call @g(%a) : (tensor<2xf32>) -> (tensor<f32>, tensor<i64>)",
     "%0:2 = \"func.call\"(%a) <{callee = @g}> : (tensor<2xf32>) -> (tensor<f32>, tensor<i64>)"},
    {"%0:2 = func.call @\"g\"(%a) {mark} : (tensor<2xf32>) -> (tensor<f32>, tensor<i64>)",
     "%0, %1 = \"func.call\"(%a) <{callee = @g}> {mark} : (tensor<2xf32>) -> (tensor<f32>, tensor<i64>)"},
    {"stablehlo.custom_call @check.expect_eq(%a, %b) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()",
     "\"stablehlo.custom_call\"(%a, %b) <{call_target_name = \"check.expect_eq\", has_side_effect = true}> : "
     "(tensor<2xf32>, "
     "tensor<2xf32>) -> ()"},
    {"%0 = stablehlo.custom_call @\"a b\"() : () -> tensor<f32>",
     "%0 = \"stablehlo.custom_call\"() {call_target_name = \"a b\"} : () -> tensor<f32>"},
    {"%0 = stablehlo.custom_call \"a b\"() : () -> tensor<f32>",
     "%0 = \"stablehlo.custom_call\"() {call_target_name = \"a b\"} : () -> tensor<f32>"},
    {"%0 = stablehlo.composite \"my.op\" %a, %b {composite_attributes = {n = 1 : i64}, decomposition = @g, version = 2 "
     ": "
     "i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
     "%0 = \"stablehlo.composite\"(%a, %b) <{name = \"my.op\", composite_attributes = {n = 1 : i64}, decomposition = "
     "@g, "
     "version = 2 : i32}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"},
    {"check.expect_eq_const %s, dense<1.5> : tensor<f32>",
     "\"check.expect_eq_const\"(%s) {value = dense<1.5> : tensor<f32>} : (tensor<f32>) -> ()"},
    {"check.expect_almost_eq_const %s, dense<1.5> : tensor<f32>",
     "\"check.expect_almost_eq_const\"(%s) {value = dense<1.5> : tensor<f32>} : (tensor<f32>) -> ()"},
    {"check.expect_eq %a, %b : tensor<2xf32>", "\"check.expect_eq\"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> ()"},
    {"check.expect_almost_eq %a, %b : tensor<2xf32>",
     "\"check.expect_almost_eq\"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> ()"},
    {"check.expect_close %a, %b {max_ulp_difference = 3 : i64} : tensor<2xf32>, tensor<2xf32>",
     "\"check.expect_close\"(%a, %b) {max_ulp_difference = 3 : i64} : (tensor<2xf32>, tensor<2xf32>) -> ()"},
    {"%0 = sdy.sharding_constraint %a <@mesh, [{\"x\"}]> : tensor<2xf32>",
     "%0 = \"sdy.sharding_constraint\"(%a) <{sharding = #sdy.sharding<@mesh, [{\"x\"}]>}> : (tensor<2xf32>) -> "
     "tensor<2xf32>"},
    {"%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{}]>] "
     "manual_axes={\"x\"} (%arg: tensor<2xf32>) {\n  sdy.return %arg : tensor<2xf32>\n} : (tensor<2xf32>) -> "
     "tensor<2xf32>",
     "%0 = \"sdy.manual_computation\"(%a) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>, "
     "out_shardings = #sdy.sharding_per_value<[<@mesh, [{}]>]>, manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n"
     "^bb0(%arg: tensor<2xf32>):\n  \"sdy.return\"(%arg) : (tensor<2xf32>) -> ()\n}) : (tensor<2xf32>) -> "
     "tensor<2xf32>"},
    /* other dialects that compute shapes */
    {"%0 = arith.constant 3 : index", "%0 = \"arith.constant\"() <{value = 3 : index}> : () -> index"},
    {"%0 = arith.constant true", "%0 = \"arith.constant\"() <{value = true}> : () -> i1"},
    {"%0 = arith.constant dense<[1, 2]> : tensor<2xindex>",
     "%0 = \"arith.constant\"() <{value = dense<[1, 2]> : tensor<2xindex>}> : () -> tensor<2xindex>"},
    {"%0 = arith.index_cast %i : tensor<i64> to tensor<index>",
     "%0 = \"arith.index_cast\"(%i) : (tensor<i64>) -> tensor<index>"},
    {"%0 = tensor.cast %a : tensor<2xf32> to tensor<?xf32>",
     "%0 = \"tensor.cast\"(%a) : (tensor<2xf32>) -> tensor<?xf32>"},
    {"%l = arith.constant 0 : index\n%0 = tensor.dim %m, %l : tensor<4x8xf32>",
     "%l = arith.constant 0 : index\n%0 = \"tensor.dim\"(%m, %l) : (tensor<4x8xf32>, index) -> index"},
    {"%l = arith.constant 0 : index\n%0 = tensor.from_elements %l, %l : tensor<2xindex>",
     "%l = arith.constant 0 : index\n%0 = \"tensor.from_elements\"(%l, %l) : (index, index) -> tensor<2xindex>"},
    {"%0 = shape.broadcast %v, %v : tensor<2xi64>, tensor<2xi64> -> tensor<2xindex>",
     "%0 = \"shape.broadcast\"(%v, %v) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xindex>"},
    /* chlo */
    {"%0:2 = chlo.top_k(%m, k=3) : tensor<4x8xf32> -> (tensor<4x3xf32>, tensor<4x3xi32>)",
     "%0:2 = \"chlo.top_k\"(%m) {k = 3 : i64} : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)"},
    {"%0, %1 = chlo.top_k(%m, k = 3) : tensor<4x8xf32> -> (tensor<4x3xf32>, tensor<4x3xi32>)",
     "%0:2 = \"chlo.top_k\"(%m) <{k = 3 : i64}> : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)"},
    {"%0 = chlo.broadcast_add %a, %s {broadcast_dimensions = array<i64>} : (tensor<2xf32>, tensor<f32>) -> "
     "tensor<2xf32>",
     "%0 = \"chlo.broadcast_add\"(%a, %s) {broadcast_dimensions = array<i64>} : (tensor<2xf32>, tensor<f32>) -> "
     "tensor<2xf32>"},
    {"%0 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>} : (tensor<2xf32>, "
     "tensor<2xf32>) -> tensor<2xi1>",
     "%0 = \"chlo.broadcast_compare\"(%a, %b) {comparison_direction = \"LT\"} : (tensor<2xf32>, tensor<2xf32>) -> "
     "tensor<2xi1>"},
    {"%0 = chlo.broadcast_select %p, %a, %b : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
     "%0 = \"chlo.broadcast_select\"(%p, %a, %b) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"},
    {"%0, %1 = chlo.minimum_broadcast_shapes %v, %v : tensor<2xi64>, tensor<2xi64> -> tensor<?xi64>, tensor<?xi64>",
     "%0:2 = \"chlo.minimum_broadcast_shapes\"(%v, %v) : (tensor<2xi64>, tensor<2xi64>) -> (tensor<?xi64>, "
     "tensor<?xi64>)"},
    {"%0:2 = chlo.scan(%a) inits(%s) dimension=0 attributes {is_reverse = true} {\n^bb0(%e: tensor<f32>, %f: "
     "tensor<f32>):\n"
     "%r = stablehlo.add %e, %f : tensor<f32>\nstablehlo.return %r, %r : tensor<f32>, tensor<f32>\n} : (tensor<2xf32>, "
     "tensor<f32>) -> (tensor<2xf32>, tensor<f32>)",
     "%0:2 = \"chlo.scan\"(%a, %s) <{dimension = 0 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, "
     "resultSegmentSizes = array<i32: 1, 1>}> ({\n^bb0(%e: tensor<f32>, %f: "
     "tensor<f32>):\n"
     "%r = stablehlo.add %e, %f : tensor<f32>\nstablehlo.return %r, %r : tensor<f32>, tensor<f32>\n}) : "
     "(tensor<2xf32>, "
     "tensor<f32>) -> (tensor<2xf32>, tensor<f32>)"},
    /* regions */
    {"%0 = stablehlo.reduce(%m init: %s) applies stablehlo.add across dimensions = [1] : " REDUCED,
     "%0 = \"stablehlo.reduce\"(%m, %s) <{dimensions = array<i64: 1>}> ({\n^bb0(%e: tensor<f32>, %f: tensor<f32>):\n"
     "%r = stablehlo.add %e, %f : tensor<f32>\nstablehlo.return %r : tensor<f32>\n}) : " REDUCED},
    {"%0 = stablehlo.reduce(%m init: %s) across dimensions = [1] {mark} : " REDUCED
     "\n reducer(%e: tensor<f32> loc(\"e\"), %f: tensor<f32>) {\n%r = stablehlo.maximum %f, %e : tensor<f32>\n"
     "stablehlo.return %r : tensor<f32>\n}",
     "%0 = \"stablehlo.reduce\"(%m, %s) ({\n^bb0(%e: tensor<f32>, %f: tensor<f32> loc(unknown)):\n"
     "%r = stablehlo.maximum %f, %e : tensor<f32>\nstablehlo.return %r : tensor<f32>\n}) {mark, dimensions = dense<1> "
     ": "
     "tensor<1xi64>} : " REDUCED},
    {"%0:2 = stablehlo.reduce(%a init: %s), (%v init: %i) across dimensions = [0] : (tensor<2xf32>, tensor<2xi64>, "
     "tensor<f32>, "
     "tensor<i64>) -> (tensor<f32>, tensor<i64>)\nreducer(%e: tensor<f32>, %f: tensor<f32>) (%g: tensor<i64>, %h: "
     "tensor<i64>) {\nstablehlo.return %f, %g : tensor<f32>, tensor<i64>\n}",
     "%0:2 = \"stablehlo.reduce\"(%a, %v, %s, %i) ({\n^bb0(%e: tensor<f32>, %g: tensor<i64>, %f: tensor<f32>, %h: "
     "tensor<i64>):\n"
     "stablehlo.return %f, %g : tensor<f32>, tensor<i64>\n}) {dimensions = array<i64: 0>} : (tensor<2xf32>, "
     "tensor<2xi64>, "
     "tensor<f32>, tensor<i64>) -> (tensor<f32>, tensor<i64>)"},
    {"%0:2 = stablehlo.while(%j = %i, %y = %s) : tensor<i64>, tensor<f32> attributes {mark}\n cond {\n"
     "%r = stablehlo.compare LT, %j, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>\nstablehlo.return %r : "
     "tensor<i1>\n} do {\n"
     "stablehlo.return %j, %y : tensor<i64>, tensor<f32>\n}",
     "%0:2 = \"stablehlo.while\"(%i, %s) ({\n^bb0(%j: tensor<i64>, %y: tensor<f32>):\n"
     "%r = stablehlo.compare LT, %j, %i : (tensor<i64>, tensor<i64>) -> tensor<i1>\nstablehlo.return %r : "
     "tensor<i1>\n}, {\n"
     "^bb0(%j: tensor<i64>, %y: tensor<f32>):\nstablehlo.return %j, %y : tensor<i64>, tensor<f32>\n}) {mark} : "
     "(tensor<i64>, "
     "tensor<f32>) -> (tensor<i64>, tensor<f32>)"},
};

/* Formats that say it all: operations that have one are tried without a row of their own. */
typedef struct {
    const char *format, *pretty, *generic;
} plain_form;

static const plain_form plain_forms[] = {
    {"% {} :same", "%%0 = %s %%a {mark} : tensor<2xf32>",
     "%%0 = \"%s\"(%%a) {mark} : (tensor<2xf32>) -> tensor<2xf32>"},
    {"% , % {} :same", "%%0 = %s %%a, %%b : tensor<2xf32>",
     "%%0 = \"%s\"(%%a, %%b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"},
    {"% {} :arrow", "%%0 = %s %%a : tensor<2xf32> -> tensor<2xf32>",
     "%%0 = \"%s\"(%%a) : (tensor<2xf32>) -> tensor<2xf32>"},
    {"% , % {} :arrow", "%%0 = %s %%a, %%b {mark} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>",
     "%%0 = \"%s\"(%%a, %%b) {mark} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"},
    {"% , % {} :func",
     "%%0 = %s %%a, %%s {broadcast_dimensions = array<i64>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>",
     "%%0 = \"%s\"(%%a, %%s) {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<2xf32>, tensor<f32>) -> "
     "tensor<2xf32>"},
    {"%* {} :func", "%%0 = %s %%a, %%v : (tensor<2xf32>, tensor<2xi64>) -> tensor<?xf32>",
     "%%0 = \"%s\"(%%a, %%v) : (tensor<2xf32>, tensor<2xi64>) -> tensor<?xf32>"},
};

enum { num_pairs = sizeof pairs / sizeof *pairs };

TEST(stablehlo_short_forms_are_the_generic_ones)
{
    for (size_t i = 0; i < num_pairs; i++)
        expect_same(pairs[i].pretty, pairs[i].generic);
}

static bool try_plain_form(const char *name, const char *format)
{
    for (size_t i = 0; i < sizeof plain_forms / sizeof *plain_forms; i++) {
        if (strcmp(plain_forms[i].format, format) != 0)
            continue;
        char pretty[300];
        char generic[300];
        snprintf(pretty, sizeof pretty, plain_forms[i].pretty, name);
        snprintf(generic, sizeof generic, plain_forms[i].generic, name);
        expect_same(pretty, generic);
        return true;
    }
    return false;
}

static bool has_pair(const char *name)
{
    if (strcmp(name, "func.return") == 0 || strcmp(name, "stablehlo.return") == 0)
        return true; /* in every other pair */
    const char *shorter = strncmp(name, "func.", 5) == 0 ? name + 5 : name;
    for (size_t i = 0; i < num_pairs; i++) {
        const char *found = strstr(pairs[i].pretty, shorter);
        char behind = found ? found[strlen(shorter)] : 'x';
        if (behind == ' ' || behind == '(')
            return true;
    }
    return false;
}

TEST(stablehlo_every_short_form_is_tried)
{
    for (size_t i = 0; i < flxi_hlo_num_operations; i++) {
        const hlo_operation *row = &flxi_hlo_operations[i];
        EXPECT_MSG(!row->form || try_plain_form(row->name, row->form) || has_pair(row->name), "%s has no pair",
                   row->name);
    }
}

/* ---- Programs ---- */

static void expect_tree(const char *text, const char *expected)
{
    test_fail_context("%s", text);
    test_count_case();
    char *tree = tree_of(text);
    EXPECT_MSG(strcmp(tree, expected) == 0, "the tree is\n%s\nexpected\n%s", tree, expected);
    free(tree);
}

static const struct {
    const char *text, *tree;
} programs[] = {
    {"", ""},
    {"// nothing\n", ""},
    {"module {\n}", ""},
    {"module @m attributes {mhlo.num_partitions = 1 : i32, jax.x = #sdy.mesh<[\"x\"=2]>} {\n"
     "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]> {a = {b = []}}\n  \"sdy.mesh\"() <{sym_name = \"n\"}> {c} : () -> ()\n"
     "  func.func private @f() attributes {a, b = 2 : i64} {\n    return\n  }\n}",
     "module @m\nprivate @f () {\n() = func.return() {}\n} -> of 0 values\n"},
    {"builtin.module @\"a b\" {\n}\n", "module @a b\n"},
    {"func.func public @f(%x: tensor<f32> {a.b = 1 : i64} loc(\"x\"), %y: tensor<i64>) -> (tensor<f32> {c = \"d\"}) {\n"
     "  func.return %x : tensor<f32> loc(#loc)\n} loc(#loc)\n#loc = loc(\"here.py\":3:4)\n",
     "public @f (%0: tensor<f32>, %1: tensor<i64>) {\n() = func.return(%0) {}\n} -> tensor<f32> argument 0 {a.b = 1 : "
     "i64} "
     "result 0 {c = \"d\"} of 2 values\n"},
    {"func.func private @f(tensor<f32> {a}, tensor<?x2xi8>) -> tensor<f32>\nfunc.func nested @g(%a: tensor<f32>)",
     "private declared @f (%0: tensor<f32>, %1: tensor<?x2xi8>) {\n} -> tensor<f32> argument 0 {a = unit} of 2 values\n"
     "private declared @g (%0: tensor<f32>) {\n} -> of 1 values\n"},
    /* several results, some unnamed, some unused */
    {"func.func @f() -> tensor<i64> {\n"
     "  %0:2, %1 = \"x.y\"() : () -> (tensor<f32>, tensor<i64>, tensor<i8>)\n"
     "  \"x.z\"(%0, %1, %0#1) : (tensor<f32>, tensor<i8>, tensor<i64>) -> tensor<f32>\n"
     "  return %0#1 : tensor<i64>\n}",
     "public @f () {\n(%0: tensor<f32>, %1: tensor<i64>, %2: tensor<i8>) = x.y() {}\n(%3: tensor<f32>) = x.z(%0, %2, "
     "%1) {}\n"
     "() = func.return(%1) {}\n} -> tensor<i64> of 4 values\n"},
    /* regions see what is around them; names of one are free again in the next */
    {"func.func @f(%p: tensor<i1>, %x: tensor<f32>) {\n"
     "  %0 = \"stablehlo.if\"(%p) ({\n    %1 = stablehlo.negate %x : tensor<f32>\n    stablehlo.return %1 : "
     "tensor<f32>\n  }, {\n"
     "    %1 = stablehlo.abs %x : tensor<f32>\n    \"stablehlo.return\"(%1) : (tensor<f32>) -> ()\n  }) : (tensor<i1>) "
     "-> "
     "tensor<f32>\n  return\n}",
     "public @f (%0: tensor<i1>, %1: tensor<f32>) {\n(%4: tensor<f32>) = stablehlo.if(%0) {}() {\n"
     "(%2: tensor<f32>) = stablehlo.negate(%1) {}\n() = stablehlo.return(%2) {}\n}() {\n"
     "(%3: tensor<f32>) = stablehlo.abs(%1) {}\n() = stablehlo.return(%3) {}\n}\n() = func.return() {}\n} -> of 5 "
     "values\n"},
    /* aliases of types and attributes, also of each other */
    {"!t = tensor<2xf32>\n!u = tuple<!t, !t>\n#a = [1, 2]\n#b = {x = #a, y = !t}\n"
     "func.func @f(%x: !t, %y: !u) -> !t {\n  \"x.y\"(%x) {b = #b} : (tensor<2xf32>) -> ()\n  return %x : !t\n}",
     "public @f (%0: tensor<2xf32>, %1: tuple<tensor<2xf32>, tensor<2xf32>>) {\n"
     "() = x.y(%0) {b = {x = [1 : i64, 2 : i64], y = type tensor<2xf32>}}\n() = func.return(%0) {}\n} -> tensor<2xf32> "
     "of 2 "
     "values\n"},
    /* the generic form of everything */
    {"\"builtin.module\"() <{sym_name = \"m\"}> ({\n"
     "  \"func.func\"() <{function_type = (tensor<f32>) -> tensor<f32>, sym_name = \"f\", sym_visibility = "
     "\"private\", "
     "arg_attrs = [{a = 1 : i64}], res_attrs = [{}]}> ({\n  ^bb0(%arg0: tensor<f32>):\n    %0 = "
     "\"stablehlo.abs\"(%arg0) : "
     "(tensor<f32>) -> tensor<f32>\n    \"func.return\"(%0) : (tensor<f32>) -> ()\n  }) : () -> ()\n"
     "  \"func.func\"() ({\n  }) {function_type = (tensor<f32>) -> (), sym_name = \"g\"} : () -> ()\n}) {x} : () -> ()",
     "module @m\nprivate @f (%0: tensor<f32>) {\n(%1: tensor<f32>) = stablehlo.abs(%0) {}\n() = func.return(%1) {}\n} "
     "-> "
     "tensor<f32> argument 0 {a = 1 : i64} of 2 values\npublic declared @g (%0: tensor<f32>) {\n} -> of 1 values\n"},
    /* places in the program, in all their forms, say nothing */
    {"#loc1 = loc(\"a\"(#loc2))\nmodule {\n  func.func @f(%x: tensor<f32> loc(unknown)) {\n"
     "    %0 = stablehlo.abs %x : tensor<f32> loc(callsite(\"f\" at fused<\"x\">[\"a)\":1:2, #loc1]))\n    return "
     "loc(#loc3)\n"
     "  } loc(#loc)\n} loc(#loc)\n#loc = loc(unknown)\n#loc2 = loc(\"f.py\":1:2 to 3:4)\n#loc3 = loc(\"x\")",
     "public @f (%0: tensor<f32>) {\n(%1: tensor<f32>) = stablehlo.abs(%0) {}\n() = func.return() {}\n} -> of 2 "
     "values\n"},
};

TEST(stablehlo_programs_become_trees)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        expect_tree(programs[i].text, programs[i].tree);
}

TEST(stablehlo_names_and_places_are_kept)
{
    static const char text[] = "func.func @f(%x: tensor<f32>) {\n"
                               "  %a:2 = \"x.y\"(%x) {k = 7} : (tensor<f32>) -> (tensor<f32>, tensor<i8>)\n"
                               "    return\n}";
    hlo_module m;
    flx_error err = {0};
    CHECK_OK(flxi_hlo_parse(&plain_memory, text, sizeof text - 1, "t", &m, &err), &err);
    const hlo_function *f = flxi_hlo_find(&m, "f");
    CHECK(f != NULL && flxi_hlo_find(&m, "g") == NULL);
    CHECK(f->at.line == 1 && f->at.column == 11);
    CHECK_EQ_STR(f->body.args[0]->name, "x");
    const hlo_op *op = f->body.first;
    CHECK(op->at.line == 2 && op->at.column == 10);
    CHECK_EQ_STR(op->results[0]->name, "a#0");
    CHECK_EQ_STR(op->results[1]->name, "a#1");
    CHECK(flxi_hlo_attr(op, "k") && flxi_hlo_attr(op, "k")->integer == 7 && !flxi_hlo_attr(op, "l"));
    CHECK(flxi_hlo_attr(op, "k")->at.column == 25);
    CHECK(op->next->at.line == 3 && op->next->at.column == 5 && op->next->next == NULL);
    flxi_hlo_module_free(&m);
}
