/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_verify.c: what the language allows and what it does not. Our ops would broadcast operands, count axes from
   the end or use one dtype for two element types; a program that relies on this is refused, with its location and the
   reason. */
#include "test.h"

#include <fluxion/stablehlo.h>
#include <fluxion/text.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *op;
    const char *operands, *results; /* tensor types without "tensor<>", separated by "; "; others as they are */
    const char *attrs;
    flx_code code;
    const char *message; /* a part of it */
} typed_use;

/* ---- The program around an operation ---- */

typedef struct {
    char text[4096];
    size_t n;
} program;

static void put(program *p, const char *text, size_t n)
{
    CHECK(p->n + n < sizeof p->text);
    memcpy(p->text + p->n, text, n);
    p->n += n;
    p->text[p->n] = 0;
}

static void puts_of(program *p, const char *text)
{
    put(p, text, strlen(text));
}

/* One type after the other; with `numbered` as arguments: %0: type. Returns how many. */
static int put_types(program *p, const char *types, bool numbered)
{
    int count = 0;
    while (*types) {
        size_t n = strcspn(types, ";");
        char name[16];
        snprintf(name, sizeof name, "%s%%%d: ", count ? ", " : "", count);
        puts_of(p, numbered ? name : count ? ", " : "");
        bool is_tensor = types[0] != '!' && strncmp(types, "tuple", 5) != 0;
        puts_of(p, is_tensor ? "tensor<" : "");
        put(p, types, n);
        puts_of(p, is_tensor ? ">" : "");
        types += n;
        types += *types == ';' ? 2 : 0;
        count++;
    }
    return count;
}

/* The operation is in line 2, column 3. */
static void write_program(program *p, const typed_use *u)
{
    p->n = 0;
    puts_of(p, "func.func @main(");
    int operands = put_types(p, u->operands, true);
    puts_of(p, ") {\n  ");
    program results = {.n = 0};
    int num_results = put_types(&results, u->results, false);
    char text[64];
    snprintf(text, sizeof text, num_results > 1 ? "%%r:%d = " : "%%r = ", num_results);
    puts_of(p, text);
    snprintf(text, sizeof text, "\"stablehlo.%s\"(", u->op);
    puts_of(p, text);
    for (int i = 0; i < operands; i++) {
        snprintf(text, sizeof text, "%s%%%d", i ? ", " : "", i);
        puts_of(p, text);
    }
    puts_of(p, ") {");
    puts_of(p, u->attrs);
    puts_of(p, "} : (");
    put_types(p, u->operands, false);
    puts_of(p, ") -> (");
    puts_of(p, results.text);
    puts_of(p, ")\n  return\n}\n");
}

static void expect(flx_context *ctx, const char *text, flx_code code, const char *message, const char *line)
{
    flx_error err = {0};
    test_fail_context("%s", text);
    test_count_case();
    flx_module *m = flx_import_stablehlo(ctx, text, strlen(text), "t", &err);
    EXPECT_MSG((m != NULL) == (code == FLX_OK) && err.code == (int32_t)code, "code %s: %s at %s, expected %s",
               flx_code_name(err.code), err.message, err.where, flx_code_name((int32_t)code));
    EXPECT_MSG(code == FLX_OK || (strstr(err.message, message) && strncmp(err.where, line, strlen(line)) == 0),
               "'%s' at %s, expected '%s' at %s", err.message, err.where, message, line);
    flx_module_free(m);
}

static void expect_uses(const typed_use *uses, size_t n)
{
    flx_context *ctx = flx_context_new(NULL);
    CHECK(ctx != NULL);
    for (size_t i = 0; i < n; i++) {
        program p = {.n = 0};
        write_program(&p, &uses[i]);
        expect(ctx, p.text, uses[i].code, uses[i].message, uses[i].results[0] ? "t:2:" : "t:");
    }
    flx_context_free(ctx);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- Operands, results and attributes ---- */

static const typed_use refused[] = {
    {"negate", "4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"sine", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"cosine", "4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"exponential", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"log", "4xui32", "4xui32", "", FLX_E_DTYPE, "must hold"},
    {"sqrt", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"rsqrt", "4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"tanh", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"logistic", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"floor", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"ceil", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"round_nearest_even", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"round_nearest_afz", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"popcnt", "4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"count_leading_zeros", "4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"not", "4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"abs", "4xui32", "4xui32", "", FLX_E_DTYPE, "must hold"},
    {"abs", "4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"sign", "4xui32", "4xui32", "", FLX_E_DTYPE, "must hold"},
    {"sign", "4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"cbrt", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"exponential_minus_one", "4xui32", "4xui32", "", FLX_E_DTYPE, "must hold"},
    {"log_plus_one", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"tan", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"is_finite", "4xi32", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"is_finite", "4xcomplex<f32>", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"is_finite", "4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"real", "4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"imag", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"real", "4xcomplex<f32>", "4xf64", "", FLX_E_DTYPE, "must hold"},
    {"abs", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"subtract", "4xi1; 4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"divide", "4xi1; 4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"remainder", "4xi1; 4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"power", "4xi1; 4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"atan2", "4xi32; 4xi32", "4xi32", "", FLX_E_DTYPE, "must hold"},
    {"and", "4xf32; 4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"or", "4xcomplex<f32>; 4xcomplex<f32>", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"xor", "4xf32; 4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"shift_left", "4xf32; 4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"shift_right_logical", "4xi1; 4xi1", "4xi1", "", FLX_E_DTYPE, "must hold"},
    {"shift_right_arithmetic", "4xcomplex<f32>; 4xcomplex<f32>", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"add", "4xf32; 4xf64", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"multiply", "4xf32; 4xf64", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"maximum", "4xf32; 4xf64", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"divide", "4xf32; 4xf64", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"power", "4xf32; 4xf64", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"add", "4xf32; 4xf32", "4xf64", "", FLX_E_DTYPE, "differ"},
    {"add", "4xi32; 4xui32", "4xi32", "", FLX_E_DTYPE, "differ"},
    {"add", "4xi4; 4xi8", "4xi8", "", FLX_E_DTYPE, "differ"},
    {"add", "4xi4; 4xi4", "4xi8", "", FLX_E_DTYPE, "differ"},
    {"add", "4xf8E5M2; 4xf8E4M3FN", "4xf8E5M2", "", FLX_E_DTYPE, "differ"},
    {"negate", "4xf8E5M2", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"add", "4xf32; 1xf32", "4xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"add", "4xf32; f32", "4xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"add", "4x1xf32; 1x4xf32", "4x4xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"minimum", "2x3xf32; 3xf32", "2x3xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"negate", "4xf32", "5xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"negate", "4xf32", "1x4xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"and", "4xi1; 1xi1", "4xi1", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"compare", "4xf32; 4xi32", "4xi1", "comparison_direction = #stablehlo<comparison_direction EQ>", FLX_E_DTYPE,
     "differ"},
    {"compare", "4xf32; 1xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction EQ>", FLX_E_SHAPE,
     "must have the shape of operand"},
    {"compare", "4xf32; 4xf32", "4xi32", "comparison_direction = #stablehlo<comparison_direction EQ>", FLX_E_DTYPE,
     "must hold"},
    {"compare", "4xf32; 4xf32", "4xi1", "", FLX_E_ATTRIBUTE, "is missing"},
    {"compare", "4xi32; 4xi32", "4xi1",
     "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>",
     FLX_E_DTYPE, "does not fit"},
    {"compare", "4xi32; 4xi32", "4xi1",
     "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type "
     "UNSIGNED>",
     FLX_E_DTYPE, "does not fit"},
    {"complex", "4xf32; 4xf32", "4xcomplex<f64>", "", FLX_E_DTYPE, "must hold"},
    {"complex", "4xi32; 4xi32", "4xcomplex<f32>", "", FLX_E_DTYPE, "must hold"},
    {"complex", "4xf32; 4xf64", "4xcomplex<f32>", "", FLX_E_DTYPE, "differ"},
    {"convert", "4xf32", "5xi32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"convert", "4xf32", "1xi32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"bitcast_convert", "4xf32", "4xi16", "", FLX_E_SHAPE, "but the text says"},
    {"bitcast_convert", "4xi8", "2xi16", "", FLX_E_SHAPE, "to i16 the last axis must have extent 2, but"},
    {"bitcast_convert", "4xf32", "4xf64", "", FLX_E_SHAPE, "to f64 the last axis must have extent 2, but"},
    {"reduce_precision", "4xi32", "4xi32", "exponent_bits = 5 : i32, mantissa_bits = 10 : i32", FLX_E_DTYPE,
     "must hold"},
    {"reduce_precision", "4xf32", "4xf32", "exponent_bits = 0 : i32, mantissa_bits = 10 : i32", FLX_E_ATTRIBUTE,
     "exponent must be at least 1, got 0"},
    {"reduce_precision", "4xf32", "4xf32", "exponent_bits = 5 : i32, mantissa_bits = -1 : i32", FLX_E_ATTRIBUTE,
     "mantissa must not be negative, got -1"},
    {"select", "4xi32; 4xf32; 4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"select", "1xi1; 4xf32; 4xf32", "4xf32", "", FLX_E_SHAPE, "must be a scalar or have the shape"},
    {"select", "4xi1; 4xf32; 4xi32", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"select", "4xi1; 4xf32; f32", "4xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"select", "i1; 4xf32; 1xf32", "4xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"select", "4xi1; 4xf32; 4xf32", "8xf32", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"clamp", "f32; 4xf32; 1xf32", "4xf32", "", FLX_E_SHAPE, "must be a scalar or have the shape"},
    {"clamp", "i32; 4xf32; f32", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"clamp", "f32; 4xf32; f32", "4xf64", "", FLX_E_DTYPE, "differ"},
    {"reshape", "4xf32", "2x3xf32", "", FLX_E_SHAPE, "differ"},
    {"reshape", "4xf32", "2x2xi32", "", FLX_E_DTYPE, "differ"},
    {"transpose", "2x3xf32", "3x2xf32", "permutation = array<i64: 1, 1>", FLX_E_ATTRIBUTE, "twice"},
    {"transpose", "2x3xf32", "3x2xf32", "permutation = array<i64: -1, 0>", FLX_E_ATTRIBUTE, "out of range for"},
    {"transpose", "2x3xf32", "3x2xf32", "permutation = array<i64: 1>", FLX_E_ATTRIBUTE, ", but needs"},
    {"transpose", "2x3xf32", "2x3xf32", "permutation = array<i64: 1, 0>", FLX_E_SHAPE, "but the text says"},
    {"transpose", "4xf32", "4xf32", "", FLX_E_ATTRIBUTE, "is missing"},
    {"transpose", "2x3xf32", "3x2xf32", "permutation = array<i64: 2, 0>", FLX_E_ATTRIBUTE, "out of range for"},
    {"transpose", "2x3xf32", "3x2xf64", "permutation = array<i64: 1, 0>", FLX_E_DTYPE, "differ"},
    {"broadcast_in_dim", "4xf32", "2x4xf32", "broadcast_dimensions = array<i64: 0>", FLX_E_SHAPE,
     "axis 0 of x, of shape [4], cannot become 2"},
    {"broadcast_in_dim", "4xf32", "2x4xf32", "broadcast_dimensions = array<i64: 2>", FLX_E_ATTRIBUTE,
     "out of range for"},
    {"broadcast_in_dim", "4xf32", "2x4xf32", "broadcast_dimensions = array<i64: -1>", FLX_E_ATTRIBUTE,
     "out of range for"},
    {"broadcast_in_dim", "4x4xf32", "4x4xf32", "broadcast_dimensions = array<i64: 1, 1>", FLX_E_ATTRIBUTE, "twice"},
    {"broadcast_in_dim", "4xf32", "2x4xf32", "broadcast_dimensions = array<i64>", FLX_E_ATTRIBUTE, ", but needs"},
    {"broadcast_in_dim", "4xf32", "2x4xi32", "broadcast_dimensions = array<i64: 1>", FLX_E_DTYPE, "differ"},
    {"broadcast_in_dim", "f32", "4xf32", "", FLX_E_ATTRIBUTE, "is missing"},
    {"concatenate", "4xf32; 4xi32", "8xf32", "dimension = 0 : i64", FLX_E_DTYPE, "differ"},
    {"concatenate", "4xf32; 2x3xf32", "8xf32", "dimension = 0 : i64", FLX_E_SHAPE, "does not match"},
    {"concatenate", "4xf32; 4xf32", "8xf32", "dimension = 1 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"concatenate", "4xf32; 4xf32", "8xf32", "dimension = -1 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"concatenate", "2x3xf32; 2x4xf32", "4x3xf32", "dimension = 0 : i64", FLX_E_SHAPE, "does not match"},
    {"concatenate", "4xf32; 4xf32", "9xf32", "dimension = 0 : i64", FLX_E_SHAPE, "but the text says"},
    {"concatenate", "4xf32; 4xf32", "8xf32", "", FLX_E_ATTRIBUTE, "is missing"},
    {"slice", "4xf32", "2xf32",
     "start_indices = array<i64: -1>, limit_indices = array<i64: 1>, strides = array<i64: 1>", FLX_E_ATTRIBUTE,
     "but must be at least"},
    {"slice", "4xf32", "2xf32", "start_indices = array<i64: 3>, limit_indices = array<i64: 5>, strides = array<i64: 1>",
     FLX_E_ATTRIBUTE, "start=3, limit=5 is out of range for axis 0 of x, of "},
    {"slice", "4xf32", "2xf32", "start_indices = array<i64: 3>, limit_indices = array<i64: 1>, strides = array<i64: 1>",
     FLX_E_ATTRIBUTE, "start=3, limit=1 is out of range for axis 0 of x, of "},
    {"slice", "4xf32", "2xf32", "start_indices = array<i64: 0>, limit_indices = array<i64: 4>, strides = array<i64: 0>",
     FLX_E_ATTRIBUTE, "but must be at least"},
    {"slice", "4xf32", "2xf32", "start_indices = array<i64: 0>, limit_indices = array<i64: 4>, strides = array<i64: 1>",
     FLX_E_SHAPE, "but the text says"},
    {"slice", "4xf32", "2xf32",
     "start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 2>, strides = array<i64: 1, 1>", FLX_E_ATTRIBUTE,
     ", but needs"},
    {"slice", "4xf32", "2xi32", "start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>",
     FLX_E_DTYPE, "differ"},
    {"pad", "4xf32; 4xf32", "6xf32",
     "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>",
     FLX_E_SHAPE, "but must have"},
    {"pad", "4xf32; i32", "6xf32",
     "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>",
     FLX_E_DTYPE, "differ"},
    {"pad", "4xf32; f32", "6xf32",
     "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: -1>",
     FLX_E_ATTRIBUTE, "but must be at least"},
    {"pad", "4xf32; f32", "7xf32",
     "edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>",
     FLX_E_SHAPE, "but the text says"},
    {"pad", "4xf32; f32", "6xf32",
     "edge_padding_low = array<i64: 1, 1>, edge_padding_high = array<i64: 1, 1>, interior_padding = array<i64: 0, 0>",
     FLX_E_ATTRIBUTE, ", but needs"},
    {"reverse", "4xf32", "4xf32", "dimensions = array<i64: 1>", FLX_E_ATTRIBUTE, "out of range for"},
    {"reverse", "2x3xf32", "2x3xf32", "dimensions = array<i64: 0, 0>", FLX_E_ATTRIBUTE, "twice"},
    {"reverse", "2x3xf32", "2x3xf32", "dimensions = array<i64: -1>", FLX_E_ATTRIBUTE, "out of range for"},
    {"reverse", "4xf32", "4xi32", "dimensions = array<i64: 0>", FLX_E_DTYPE, "differ"},
    {"reverse", "4xf32", "4xf32", "", FLX_E_ATTRIBUTE, "is missing"},
    {"iota", "", "4xf32", "iota_dimension = 1 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"iota", "", "f32", "iota_dimension = 0 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"iota", "", "4xi1", "iota_dimension = 0 : i64", FLX_E_DTYPE, "must hold"},
    {"iota", "", "4xf32", "iota_dimension = -1 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"iota", "", "4xf32", "", FLX_E_ATTRIBUTE, "is missing"},
    {"dynamic_slice", "4xf32; f32", "2xf32", "slice_sizes = array<i64: 2>", FLX_E_DTYPE, "must hold"},
    {"dynamic_slice", "4xf32; 1xi32", "2xf32", "slice_sizes = array<i64: 2>", FLX_E_SHAPE, "but must have"},
    {"dynamic_slice", "4xf32; i32", "2xf32", "slice_sizes = array<i64: 5>", FLX_E_ATTRIBUTE, "does not fit"},
    {"dynamic_slice", "4xf32; i32; i32", "2xf32", "slice_sizes = array<i64: 2>", FLX_E_ARITY,
     "got 2 indices for x of shape [4]"},
    {"dynamic_slice", "2x3xf32; i32; i64", "1x1xf32", "slice_sizes = array<i64: 1, 1>", FLX_E_DTYPE, "differ"},
    {"dynamic_slice", "4xf32; i32", "3xf32", "slice_sizes = array<i64: 2>", FLX_E_SHAPE, "but the text says"},
    {"dynamic_slice", "4xf32; i32", "2xf32", "slice_sizes = array<i64: -2>", FLX_E_ATTRIBUTE, "but must be at least"},
    {"dynamic_slice", "4xf32; i32", "2xi32", "slice_sizes = array<i64: 2>", FLX_E_DTYPE, "differ"},
    {"dynamic_update_slice", "4xf32; 4xi32; i32", "4xf32", "", FLX_E_DTYPE, "differ"},
    {"dynamic_update_slice", "4xf32; 5xf32; i32", "4xf32", "", FLX_E_SHAPE, "does not fit"},
    {"dynamic_update_slice", "4xf32; 2xf32; f32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"dynamic_update_slice", "4xf32; 2x1xf32; i32", "4xf32", "", FLX_E_SHAPE, "does not fit"},
    {"dynamic_update_slice", "4xf32; 2xf32; i32", "2xf32", "", FLX_E_SHAPE, "but the text says"},
    {"get_dimension_size", "4xf32", "i64", "dimension = 0 : i64", FLX_E_DTYPE, "must hold"},
    {"get_dimension_size", "4xf32", "i32", "dimension = 1 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"get_dimension_size", "4xf32", "i32", "dimension = -1 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"get_dimension_size", "4xf32", "1xi32", "dimension = 0 : i64", FLX_E_SHAPE, "but must have"},
    {"dot_general", "2x3xf32; 2x3xf32", "2x3xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>",
     FLX_E_SHAPE, "lc and rc pair axis 1 of l with axis 0 of r,"},
    {"dot_general", "2x3xf32; 2x3xf32", "2x2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>",
     FLX_E_ATTRIBUTE, "out of range for"},
    {"dot_general", "2x3xf32; 2x3xf32", "2x2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [-1], rhs_contracting_dimensions = [-1]>",
     FLX_E_ATTRIBUTE, "out of range for"},
    {"dot_general", "2x3xf32; 2x3xf32", "2x2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>",
     FLX_E_SHAPE, "but the text says"},
    {"dot_general", "2x3xf32; 2x3xf32", "2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
     "lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]>",
     FLX_E_ATTRIBUTE, "axis 0 is both in lc and in lb"},
    {"dot_general", "2x3xf32; 2x3xf32", "2x2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0, 1]>",
     FLX_E_ATTRIBUTE, "the same number of axes: 1 and 2"},
    {"dot_general", "2x3xf32; 2x3xf32", "2x3xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>",
     FLX_E_SHAPE, "but the text says"},
    {"cholesky", "2x2xi32", "2x2xi32", "", FLX_E_DTYPE, "must hold"},
    {"cholesky", "2x3xf32", "2x3xf32", "", FLX_E_SHAPE, "must be square"},
    {"cholesky", "3x3xf32", "3x3xf64", "", FLX_E_DTYPE, "differ"},
    {"fft", "4xi32", "4xcomplex<f32>", "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>", FLX_E_DTYPE,
     "must hold"},
    {"fft", "4xf32", "4xcomplex<f32>", "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>", FLX_E_DTYPE,
     "goes from complex to complex"},
    {"fft", "4xcomplex<f32>", "4xcomplex<f32>", "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 5>",
     FLX_E_SHAPE, "fft_length asks for 5 elements, but the oper"},
    {"fft", "4xcomplex<f32>", "4xf32", "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>", FLX_E_DTYPE,
     "goes from complex to complex"},
    {"fft", "4xf32", "4xcomplex<f32>", "fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 4>", FLX_E_SHAPE,
     "but the text says"},
    {"gather", "2x3xf32; 2x1xf32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>",
     FLX_E_DTYPE, "must hold"},
    {"gather", "2x3xf32; 2x1xi32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [5], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>",
     FLX_E_ATTRIBUTE, "out of range for"},
    {"gather", "2x3xf32; 2x1xi32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>",
     FLX_E_ATTRIBUTE, "slice_sizes is 4 along axis 1 of x, which is"},
    {"gather", "2x3xf32; 2x1xi32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1>",
     FLX_E_ATTRIBUTE, ", but needs"},
    {"gather", "2x3xf32; 2x1xi32", "2x3xi32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>",
     FLX_E_DTYPE, "differ"},
    {"triangular_solve", "2x2xf32; 3x2xf32", "3x2xf32",
     "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>",
     FLX_E_SHAPE, "t is [2, 2], b is [3, 2]"},
    {"triangular_solve", "2x2xf32; 2x2xf64", "2x2xf64",
     "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>",
     FLX_E_DTYPE, "differ"},
    {"batch_norm_inference", "2x3xf32; 3xf32; 3xf32; 3xf32; 2xf32", "2x3xf32",
     "epsilon = 0.1 : f32, feature_index = 1 : i64", FLX_E_SHAPE, "var is [2], x is [2, 3]"},
    {"batch_norm_inference", "2x3xf32; 3xf32; 3xf32; 3xf32; 3xf32", "2x3xf32",
     "epsilon = 0.1 : f32, feature_index = 2 : i64", FLX_E_ATTRIBUTE, "out of range for"},
    {"rng", "f32; i32; 1xi64", "4xf32", "rng_distribution = #stablehlo<rng_distribution UNIFORM>", FLX_E_DTYPE,
     "differ"},
    {"rng_bit_generator", "2xf32", "2xf32; 4xui32", "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>", FLX_E_DTYPE,
     "must hold"},
    {"dynamic_reshape", "4xf32; f32", "2x2xf32", "", FLX_E_DTYPE, "must hold"},
    {"dynamic_iota", "1xf32", "?xf32", "iota_dimension = 0 : i64", FLX_E_DTYPE, "must hold"},
    {"dynamic_broadcast_in_dim", "4xf32; 2xi32", "2x4xf32", "broadcast_dimensions = array<i64: 2>", FLX_E_ATTRIBUTE,
     "out of range for"},
    {"real_dynamic_slice", "4xf32; 1xi32; 1xi64; 1xi32", "?xf32", "", FLX_E_DTYPE, "differ"},
    {"dynamic_pad", "4xf32; 4xf32; 1xi32; 1xi32; 1xi32", "?xf32", "", FLX_E_SHAPE, "but must have"},
    {"uniform_quantize", "4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"uniform_dequantize", "4xf32", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"uniform_quantize", "4xi32", "4x!quant.uniform<i8:f32, 0.5>", "", FLX_E_DTYPE, "must hold"},
    {"uniform_dequantize", "4x!quant.uniform<i8:f32, 0.5>", "4xf64", "", FLX_E_DTYPE, "expresses"},
    {"add", "4x!quant.uniform<i8:f32, 0.5>; 4xf32", "4x!quant.uniform<i8:f32, 0.5>", "", FLX_E_DTYPE, "differ"},
    {"uniform_quantize", "4xf32", "5x!quant.uniform<i8:f32, 0.5>", "", FLX_E_SHAPE, "must have the shape of operand"},
    {"and", "4x!quant.uniform<i8:f32, 0.5>; 4x!quant.uniform<i8:f32, 0.5>", "4x!quant.uniform<i8:f32, 0.5>", "",
     FLX_E_DTYPE, "must hold"},
    {"negate", "4x!quant.uniform<i8:f32, 0.5>", "4x!quant.uniform<i16:f32, 0.5>", "", FLX_E_DTYPE, "differ"},
    {"add", "4xf32", "4xf32", "", FLX_E_ARITY, "operands, but takes"},
    {"negate", "4xf32; 4xf32", "4xf32", "", FLX_E_ARITY, "operands, but takes"},
    {"add", "4xf32; 4xf32", "4xf32; 4xf32", "", FLX_E_ARITY, "wrong number of"},
    {"select", "4xi1; 4xf32", "4xf32", "", FLX_E_ARITY, "operands, but takes"},
    {"concatenate", "", "4xf32", "dimension = 0 : i64", FLX_E_ARITY, "wrong number of"},
    {"iota", "4xf32", "4xf32", "iota_dimension = 0 : i64", FLX_E_ARITY, "operands, but takes"},
    {"add", "tuple<tensor<4xf32>>; tuple<tensor<4xf32>>", "tuple<tensor<4xf32>>", "", FLX_E_DTYPE, "must hold"},
    {"add", "!stablehlo.token; !stablehlo.token", "!stablehlo.token", "", FLX_E_DTYPE, "must hold"},
    {"fft", "4xf32", "4xf32", "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>", FLX_E_DTYPE,
     "goes from complex to complex"},
    {"fft", "3xcomplex<f32>", "4xcomplex<f32>", "fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 4>",
     FLX_E_DTYPE, "goes from complex to real"},
    {"gather", "2x3xf32; 2x1xi32", "2x1x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [2, 1], start_index_map = [0], index_vector_dim = 1>, "
     "slice_sizes = array<i64: 1, 3>",
     FLX_E_ATTRIBUTE, "offset_dims must be sorted"},
    {"gather", "2x3xf32; 2x1xi32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 3>, slice_sizes = array<i64: 1, 3>",
     FLX_E_ATTRIBUTE, "index_vector_dim has 3"},
    {"gather", "2x3xf32; 2x1xi32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [-1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>",
     FLX_E_ATTRIBUTE, "offset_dims has -1"},
    {"bitcast_convert", "4xcomplex<f32>", "4x2xf32", "", FLX_E_DTYPE, "between real and complex numbers"},
    {"bitcast_convert", "4x2xf32", "4xcomplex<f32>", "", FLX_E_DTYPE, "between real and complex numbers"},
    {"convert", "4x!quant.uniform<i8:f32, 0.5>", "4xf32", "", FLX_E_DTYPE, "must hold"},
    {"transpose", "4x!quant.uniform<i8:f32, 0.5>", "4x!quant.uniform<i8:f32, 0.25>", "permutation = array<i64: 0>",
     FLX_E_DTYPE, "differ"},
    {"constant", "", "4xi8", "value = dense<1> : tensor<4xi4>", FLX_E_DTYPE, "the literal is tensor<4xi4>"},
    {"constant", "", "4xi8", "value = dense<1> : tensor<5xi8>", FLX_E_SHAPE, "the literal is tensor<5xi8>"},
    {"tuple", "4xf32", "tuple<tensor<4xi32>>", "", FLX_E_DTYPE, "operand 0 is tensor<4xf32>"},
    {"tuple", "4xf32", "tuple<tensor<4xf32>, tensor<4xf32>>", "", FLX_E_ARITY, "it has 1 operand"},
    {"tuple", "4xf32", "4xf32", "", FLX_E_ARITY, "that are tuples"},
    {"get_tuple_element", "tuple<tensor<4xf32>, tensor<i4>>", "i8", "index = 1 : i32", FLX_E_DTYPE,
     "result 0 is tensor<i8>"},
    {"get_tuple_element", "tuple<tensor<4xf32>>", "4xf32", "index = 1 : i32", FLX_E_ATTRIBUTE, "no element 1"},
    {"optimization_barrier", "4xi4", "4xi8", "", FLX_E_DTYPE, "result 0 is tensor<4xi8>"},
    {"optimization_barrier", "4xf32", "4xf32; 4xf32", "", FLX_E_ARITY, "it has 2 results"},
    {"broadcast", "4xf32", "2x4xi32", "broadcast_sizes = array<i64: 2>", FLX_E_DTYPE, "differ"},
    {"broadcast", "4xf32", "3x4xf32", "broadcast_sizes = array<i64: 2>", FLX_E_SHAPE, "but the text says"},
};

TEST(stablehlo_refuses_ill_typed_operations)
{
    expect_uses(refused, COUNT(refused));
}

static const typed_use accepted[] = {
    {"sine", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"sine", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"cosine", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"cosine", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"exponential", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"exponential", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"log", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"log", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"sqrt", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"sqrt", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"rsqrt", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"rsqrt", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"tanh", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"tanh", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"logistic", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"logistic", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"exponential_minus_one", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"exponential_minus_one", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"log_plus_one", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"log_plus_one", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"tan", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"tan", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"cbrt", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"negate", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"negate", "4xi32", "4xi32", "", FLX_OK, NULL},
    {"negate", "4xi4", "4xi4", "", FLX_OK, NULL},
    {"negate", "4xf8E4M3FN", "4xf8E4M3FN", "", FLX_OK, NULL},
    {"negate", "4xbf16", "4xbf16", "", FLX_OK, NULL},
    {"negate", "4xui2", "4xui2", "", FLX_OK, NULL},
    {"negate", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"floor", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"floor", "4xf16", "4xf16", "", FLX_OK, NULL},
    {"ceil", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"ceil", "4xf16", "4xf16", "", FLX_OK, NULL},
    {"round_nearest_even", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"round_nearest_even", "4xf16", "4xf16", "", FLX_OK, NULL},
    {"round_nearest_afz", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"round_nearest_afz", "4xf16", "4xf16", "", FLX_OK, NULL},
    {"popcnt", "4xi32", "4xi32", "", FLX_OK, NULL},
    {"count_leading_zeros", "4xi32", "4xi32", "", FLX_OK, NULL},
    {"not", "4xi32", "4xi32", "", FLX_OK, NULL},
    {"shift_left", "4xi32; 4xi32", "4xi32", "", FLX_OK, NULL},
    {"popcnt", "4xui32", "4xui32", "", FLX_OK, NULL},
    {"count_leading_zeros", "4xui32", "4xui32", "", FLX_OK, NULL},
    {"not", "4xui32", "4xui32", "", FLX_OK, NULL},
    {"shift_left", "4xui32; 4xui32", "4xui32", "", FLX_OK, NULL},
    {"popcnt", "4xi4", "4xi4", "", FLX_OK, NULL},
    {"count_leading_zeros", "4xi4", "4xi4", "", FLX_OK, NULL},
    {"not", "4xi4", "4xi4", "", FLX_OK, NULL},
    {"shift_left", "4xi4; 4xi4", "4xi4", "", FLX_OK, NULL},
    {"not", "4xi1", "4xi1", "", FLX_OK, NULL},
    {"abs", "4xcomplex<f32>", "4xf32", "", FLX_OK, NULL},
    {"abs", "4xi32", "4xi32", "", FLX_OK, NULL},
    {"sign", "4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"is_finite", "4xf32", "4xi1", "", FLX_OK, NULL},
    {"real", "4xcomplex<f32>", "4xf32", "", FLX_OK, NULL},
    {"imag", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"complex", "4xf32; 4xf32", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"add", "4xi1; 4xi1", "4xi1", "", FLX_OK, NULL},
    {"multiply", "4xi1; 4xi1", "4xi1", "", FLX_OK, NULL},
    {"add", "4xi32; 4xi32", "4xi32", "", FLX_OK, NULL},
    {"multiply", "4xi32; 4xi32", "4xi32", "", FLX_OK, NULL},
    {"add", "4xui32; 4xui32", "4xui32", "", FLX_OK, NULL},
    {"multiply", "4xui32; 4xui32", "4xui32", "", FLX_OK, NULL},
    {"add", "4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"multiply", "4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"add", "4xcomplex<f32>; 4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"multiply", "4xcomplex<f32>; 4xcomplex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"add", "4xf64; 4xf64", "4xf64", "", FLX_OK, NULL},
    {"multiply", "4xf64; 4xf64", "4xf64", "", FLX_OK, NULL},
    {"add", "4xf8E5M2; 4xf8E5M2", "4xf8E5M2", "", FLX_OK, NULL},
    {"multiply", "4xf8E5M2; 4xf8E5M2", "4xf8E5M2", "", FLX_OK, NULL},
    {"add", "0xf32; 0xf32", "0xf32", "", FLX_OK, NULL},
    {"multiply", "0xf32; 0xf32", "0xf32", "", FLX_OK, NULL},
    {"add", "f32; f32", "f32", "", FLX_OK, NULL},
    {"multiply", "f32; f32", "f32", "", FLX_OK, NULL},
    {"add", "2x0x3xi8; 2x0x3xi8", "2x0x3xi8", "", FLX_OK, NULL},
    {"multiply", "2x0x3xi8; 2x0x3xi8", "2x0x3xi8", "", FLX_OK, NULL},
    {"maximum", "4xi1; 4xi1", "4xi1", "", FLX_OK, NULL},
    {"and", "4xi1; 4xi1", "4xi1", "", FLX_OK, NULL},
    {"maximum", "4xi32; 4xi32", "4xi32", "", FLX_OK, NULL},
    {"and", "4xi32; 4xi32", "4xi32", "", FLX_OK, NULL},
    {"maximum", "4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"minimum", "4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction EQ>", FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction NE>", FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction LT>", FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction LE>", FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction GT>", FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1", "comparison_direction = #stablehlo<comparison_direction GE>", FLX_OK, NULL},
    {"compare", "4xi1; 4xi1", "4xi1",
     "comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type "
     "UNSIGNED>",
     FLX_OK, NULL},
    {"compare", "4xcomplex<f32>; 4xcomplex<f32>", "4xi1",
     "comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>",
     FLX_OK, NULL},
    {"compare", "4xf32; 4xf32", "4xi1",
     "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type "
     "TOTALORDER>",
     FLX_OK, NULL},
    {"convert", "4xi1", "4xi1", "", FLX_OK, NULL},
    {"convert", "4xi1", "4xi32", "", FLX_OK, NULL},
    {"convert", "4xi1", "4xf32", "", FLX_OK, NULL},
    {"convert", "4xi1", "4xf64", "", FLX_OK, NULL},
    {"convert", "4xi1", "4xi2", "", FLX_OK, NULL},
    {"convert", "4xi1", "4xf8E8M0FNU", "", FLX_OK, NULL},
    {"convert", "4xi1", "4xf6E2M3FN", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xi1", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xi32", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xf32", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xf64", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xi2", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xf8E8M0FNU", "", FLX_OK, NULL},
    {"convert", "4xi32", "4xf6E2M3FN", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xi1", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xi32", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xf32", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xf64", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xi2", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xf8E8M0FNU", "", FLX_OK, NULL},
    {"convert", "4xf32", "4xf6E2M3FN", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xi1", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xi32", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xf32", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xf64", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xi2", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xf8E8M0FNU", "", FLX_OK, NULL},
    {"convert", "4xi4", "4xf6E2M3FN", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xi1", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xi32", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xf32", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xf64", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xi2", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xf8E8M0FNU", "", FLX_OK, NULL},
    {"convert", "4xf8E4M3FNUZ", "4xf6E2M3FN", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xi1", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xi32", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xf32", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xf64", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xi2", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xf8E8M0FNU", "", FLX_OK, NULL},
    {"convert", "4xui2", "4xf6E2M3FN", "", FLX_OK, NULL},
    {"bitcast_convert", "4xf32", "4xi32", "", FLX_OK, NULL},
    {"bitcast_convert", "4xf32", "4x2xi16", "", FLX_OK, NULL},
    {"bitcast_convert", "4x2xi16", "4xf32", "", FLX_OK, NULL},
    {"bitcast_convert", "4xi8", "4x2xi4", "", FLX_OK, NULL},
    {"bitcast_convert", "4x2xi4", "4xui8", "", FLX_OK, NULL},
    {"bitcast_convert", "4xf8E5M2", "4xi8", "", FLX_OK, NULL},
    {"reduce_precision", "4xf32", "4xf32", "exponent_bits = 5 : i32, mantissa_bits = 0 : i32", FLX_OK, NULL},
    {"select", "4xi1; 4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"select", "i1; 4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"clamp", "f32; 4xf32; 4xf32", "4xf32", "", FLX_OK, NULL},
    {"clamp", "4xf32; 4xf32; f32", "4xf32", "", FLX_OK, NULL},
    {"reshape", "4xf32", "2x2xf32", "", FLX_OK, NULL},
    {"reshape", "0x4xf32", "7x0xf32", "", FLX_OK, NULL},
    {"transpose", "2x3xf32", "3x2xf32", "permutation = array<i64: 1, 0>", FLX_OK, NULL},
    {"transpose", "f32", "f32", "permutation = array<i64>", FLX_OK, NULL},
    {"broadcast_in_dim", "4xf32", "2x4xf32", "broadcast_dimensions = array<i64: 1>", FLX_OK, NULL},
    {"broadcast_in_dim", "f32", "4xf32", "broadcast_dimensions = array<i64>", FLX_OK, NULL},
    {"broadcast_in_dim", "1x2xf32", "2x3xf32", "broadcast_dimensions = array<i64: 1, 0>", FLX_OK, NULL},
    {"concatenate", "4xf32; 4xf32; 0xf32", "8xf32", "dimension = 0 : i64", FLX_OK, NULL},
    {"concatenate", "4xf32", "4xf32", "dimension = 0 : i64", FLX_OK, NULL},
    {"slice", "4xf32", "2xf32", "start_indices = array<i64: 0>, limit_indices = array<i64: 4>, strides = array<i64: 2>",
     FLX_OK, NULL},
    {"slice", "4xf32", "0xf32", "start_indices = array<i64: 4>, limit_indices = array<i64: 4>, strides = array<i64: 1>",
     FLX_OK, NULL},
    {"slice", "4xf32", "1xf32", "start_indices = array<i64: 0>, limit_indices = array<i64: 3>, strides = array<i64: 7>",
     FLX_OK, NULL},
    {"pad", "4xf32; f32", "8xf32",
     "edge_padding_low = array<i64: -1>, edge_padding_high = array<i64: 2>, interior_padding = array<i64: 1>", FLX_OK,
     NULL},
    {"reverse", "2x3xf32", "2x3xf32", "dimensions = array<i64: 1, 0>", FLX_OK, NULL},
    {"reverse", "2x3xf32", "2x3xf32", "dimensions = array<i64>", FLX_OK, NULL},
    {"iota", "", "2x3xi4", "iota_dimension = 1 : i64", FLX_OK, NULL},
    {"iota", "", "4xcomplex<f32>", "iota_dimension = 0 : i64", FLX_OK, NULL},
    {"dynamic_slice", "4xf32; i32", "2xf32", "slice_sizes = array<i64: 2>", FLX_OK, NULL},
    {"dynamic_slice", "4xf32; ui8", "4xf32", "slice_sizes = array<i64: 4>", FLX_OK, NULL},
    {"dynamic_update_slice", "4xf32; 2xf32; i32", "4xf32", "", FLX_OK, NULL},
    {"dynamic_slice", "f32", "f32", "slice_sizes = array<i64>", FLX_OK, NULL},
    {"get_dimension_size", "2x3xf32", "i32", "dimension = 1 : i64", FLX_OK, NULL},
    {"dot_general", "2x3xf32; 2x3xf32", "2x2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>",
     FLX_OK, NULL},
    {"dot_general", "2x3xf32; 2x3xf32", "2xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>",
     FLX_OK, NULL},
    {"dot_general", "2x3xf32; 2x3xf32", "2x3x2x3xf32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [], rhs_contracting_dimensions = []>",
     FLX_OK, NULL},
    {"dot_general", "2x3xi8; 2x3xi8", "2x2xi32",
     "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
     "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>",
     FLX_OK, NULL},
    {"cholesky", "3x3xf32", "3x3xf32", "", FLX_OK, NULL},
    {"fft", "4xcomplex<f32>", "4xcomplex<f32>", "fft_type = #stablehlo<fft_type IFFT>, fft_length = array<i64: 4>",
     FLX_OK, NULL},
    {"fft", "4xf32", "3xcomplex<f32>", "fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 4>", FLX_OK,
     NULL},
    {"uniform_quantize", "4xf32", "4x!quant.uniform<i8:f32, 0.5>", "", FLX_OK, NULL},
    {"uniform_dequantize", "4x!quant.uniform<i8:f32, 0.5>", "4xf32", "", FLX_OK, NULL},
    {"add", "4x!quant.uniform<i8:f32, 0.5>; 4x!quant.uniform<i8:f32, 0.5>", "4x!quant.uniform<i8:f32, 0.25:3>", "",
     FLX_OK, NULL},
    {"transpose", "4x!quant.uniform<i8:f32, 0.5>", "4x!quant.uniform<i8:f32, 0.5>", "permutation = array<i64: 0>",
     FLX_OK, NULL},
    {"uniform_quantize", "4x!quant.uniform<i8:f32, 0.5>", "4x!quant.uniform<i16:f32, 0.25:3>", "", FLX_OK, NULL},
    {"negate", "4x!quant.uniform<i4<-7:7>:f32:0, {0.5, 0.25:1, 1.0, 2.0}>",
     "4x!quant.uniform<i4<-7:7>:f32:0, {0.5, 0.25:1, 1.0, 2.0}>", "", FLX_OK, NULL},
    {"clamp", "complex<f32>; 4xcomplex<f32>; complex<f32>", "4xcomplex<f32>", "", FLX_OK, NULL},
    {"broadcast", "4xf32", "2x4xf32", "broadcast_sizes = array<i64: 2>", FLX_OK, NULL},
    {"tuple", "4xf32; i4", "tuple<tensor<4xf32>, tensor<i4>>", "", FLX_OK, NULL},
    {"get_tuple_element", "tuple<tensor<4xf32>, tensor<i4>>", "i4", "index = 1 : i32", FLX_OK, NULL},
    {"optimization_barrier", "4xi4; i1", "4xi4; i1", "", FLX_OK, NULL},
    {"constant", "", "4xi4", "value = dense<1> : tensor<4xi4>", FLX_OK, NULL},
    {"gather", "2x3xf32; 2xi32", "2x3xf32",
     "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>",
     FLX_OK, NULL},
};

TEST(stablehlo_takes_well_typed_operations)
{
    expect_uses(accepted, COUNT(accepted));
}

/* ---- Regions and calls ---- */

typedef struct {
    const char *
        /* of the operation, from line 2 on; %f: tensor<4xf32>, %s: tensor<f32>, %i: tensor<i32>, %b: tensor<i1> */
        text;
    flx_code code;
    const char *message;
} region_use;

#define WHILE(cond, body)                                                                                  \
    "%r = \"stablehlo.while\"(%i) ({\n^bb0(%x: tensor<i32>):\n" cond "}, {\n^bb0(%x: tensor<i32>):\n" body \
    "}) : (tensor<i32>) -> tensor<i32>"
#define TRUE "%t = stablehlo.constant dense<true> : tensor<i1>\nstablehlo.return %t : tensor<i1>\n"
#define SAME_X "stablehlo.return %x : tensor<i32>\n"
#define TWO_F "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
#define SUM "%z = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %z : tensor<f32>\n"
#define REDUCE(operands, body, attrs, types) \
    "%r = \"stablehlo.reduce\"(" operands ") ({\n" body "}) {" attrs "} : " types
#define DIM0 "dimensions = array<i64: 0>"
#define F_S "(tensor<4xf32>, tensor<f32>) -> tensor<f32>"
#define LESS \
    "%z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %z : tensor<i1>\n"
#define SORT(body, attrs) "%r = \"stablehlo.sort\"(%f) ({\n" body "}) {" attrs "} : (tensor<4xf32>) -> tensor<4xf32>"
#define SCATTER(indices, updates, body)                                                                                \
    "%j = stablehlo.constant dense<1> : tensor<2x1x" indices ">\n%u = stablehlo.constant dense<1> : tensor<2x" updates \
    ">\n"                                                                                                              \
    "%r = \"stablehlo.scatter\"(%f, %j, %u) ({\n" body "}) {scatter_dimension_numbers = #stablehlo.scatter<"           \
    "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<4xf32>, "        \
    "tensor<2x1x" indices ">, tensor<2x" updates ">) -> tensor<4xf32>"

static const region_use in_regions[] = {
    {WHILE(TRUE, SAME_X), FLX_OK, NULL},
    {WHILE(SAME_X, SAME_X), FLX_E_DTYPE, "value 0 is tensor<i32>, but must be tensor<i1>"},
    {WHILE("%t = stablehlo.constant dense<true> : tensor<1xi1>\nstablehlo.return %t : tensor<1xi1>\n", SAME_X),
     FLX_E_SHAPE, "value 0 is tensor<1xi1>, but must be tensor<i1>"},
    {WHILE(TRUE, TRUE), FLX_E_DTYPE, "value 0 is tensor<i1>, but must be tensor<i32>"},
    {WHILE(TRUE, "stablehlo.return %x, %x : tensor<i32>, tensor<i32>\n"), FLX_E_ARITY, "it has 2 values"},
    {"%r = \"stablehlo.while\"(%i) ({\n^bb0(%x: tensor<i64>):\n" TRUE "}, {\n^bb0(%x: tensor<i32>):\n" SAME_X
     "}) : (tensor<i32>) -> tensor<i32>",
     FLX_E_DTYPE, "argument 0 is tensor<i64>, but must be tensor<i32>"},
    {"%r = \"stablehlo.while\"(%i) ({\n^bb0(%x: tensor<i32>):\n" TRUE "}, {\n^bb0(%x: tensor<i32>):\n" SAME_X
     "}) : (tensor<i32>) -> tensor<i64>",
     FLX_E_DTYPE, "result 0 is tensor<i64>"},
    {"%r = \"stablehlo.if\"(%b) ({\nstablehlo.return %f : tensor<4xf32>\n}, {\nstablehlo.return %f : tensor<4xf32>\n}) "
     ": "
     "(tensor<i1>) -> tensor<4xf32>",
     FLX_OK, NULL},
    {"%r = \"stablehlo.if\"(%i) ({\nstablehlo.return %f : tensor<4xf32>\n}, {\nstablehlo.return %f : tensor<4xf32>\n}) "
     ": "
     "(tensor<i32>) -> tensor<4xf32>",
     FLX_E_DTYPE, "operand 0 is tensor<i32>, but must hold i1"},
    {"%r = \"stablehlo.if\"(%b) ({\nstablehlo.return %f : tensor<4xf32>\n}, {\nstablehlo.return %s : tensor<f32>\n}) : "
     "(tensor<i1>) -> tensor<4xf32>",
     FLX_E_SHAPE, "value 0 is tensor<f32>, but must be tensor<4xf32>"},
    {"%r = \"stablehlo.if\"(%b) ({\nstablehlo.return %f : tensor<4xf32>\n}, {\nstablehlo.return\n}) : "
     "(tensor<i1>) -> tensor<4xf32>",
     FLX_E_ARITY, "it has 0 values"},
    {"%r = \"stablehlo.case\"(%b) ({\nstablehlo.return %f : tensor<4xf32>\n}) : (tensor<i1>) -> tensor<4xf32>",
     FLX_E_DTYPE, "operand 0 is tensor<i1>, but must hold i32"},
    {"%r = \"stablehlo.case\"(%i) ({\nstablehlo.return %i : tensor<i32>\n}) : (tensor<i32>) -> tensor<4xf32>",
     FLX_E_DTYPE, "value 0 is tensor<i32>"},
    {REDUCE("%f, %s", TWO_F SUM, DIM0, F_S), FLX_OK, NULL},
    {REDUCE("%f, %s", TWO_F SUM, "dimensions = array<i64: 0, 0>", F_S), FLX_E_ATTRIBUTE, "dimensions has 0 twice"},
    {REDUCE("%f, %s", TWO_F SUM, "dimensions = array<i64: 1>", F_S), FLX_E_ATTRIBUTE, "dimensions has 1"},
    {REDUCE("%f, %s", TWO_F SUM, "", F_S), FLX_E_ATTRIBUTE, "attribute dimensions is missing"},
    {REDUCE("%f, %f", TWO_F SUM, DIM0, "(tensor<4xf32>, tensor<4xf32>) -> tensor<f32>"), FLX_E_SHAPE,
     "operand 1 is tensor<4xf32>, but must be tensor<f32>"},
    {REDUCE("%f, %i", TWO_F SUM, DIM0, "(tensor<4xf32>, tensor<i32>) -> tensor<f32>"), FLX_E_DTYPE,
     "operand 1 is tensor<i32>"},
    {REDUCE("%f", TWO_F SUM, DIM0, "(tensor<4xf32>) -> tensor<f32>"), FLX_E_ARITY, "it has 1 operand"},
    {REDUCE("%f, %s", TWO_F LESS, DIM0, F_S), FLX_E_DTYPE, "value 0 is tensor<i1>, but must be tensor<f32>"},
    {REDUCE("%f, %s", "^bb0(%x: tensor<f32>):\nstablehlo.return %x : tensor<f32>\n", DIM0, F_S), FLX_E_ARITY,
     "it has 1 argument"},
    {REDUCE("%f, %s", "^bb0(%x: tensor<4xf32>, %y: tensor<f32>):\nstablehlo.return %y : tensor<f32>\n", DIM0, F_S),
     FLX_E_SHAPE, "argument 0 is tensor<4xf32>, but must be tensor<f32>"},
    {REDUCE("%f, %s", TWO_F SUM, DIM0, "(tensor<4xf32>, tensor<f32>) -> tensor<1xf32>"), FLX_E_SHAPE, "the text says"},
    {SORT(TWO_F LESS, "dimension = 0 : i64"), FLX_OK, NULL},
    {SORT(TWO_F LESS, "dimension = -1 : i64"), FLX_OK, NULL},
    {SORT(TWO_F LESS, "dimension = 1 : i64"), FLX_E_ATTRIBUTE, "dimension has 1"},
    {SORT(TWO_F LESS, "dimension = -2 : i64"), FLX_E_ATTRIBUTE, "dimension has -2"},
    {SORT(TWO_F SUM, "dimension = 0 : i64"), FLX_E_DTYPE, "value 0 is tensor<f32>, but must be tensor<i1>"},
    {SORT("^bb0(%x: tensor<f32>):\n" TRUE, "dimension = 0 : i64"), FLX_E_ARITY, "it has 1 argument"},
    {"%r = \"stablehlo.map\"(%f) ({\n^bb0(%x: tensor<f32>):\nstablehlo.return %x : tensor<f32>\n}) {dimensions = "
     "array<i64: 0>} "
     ": (tensor<4xf32>) -> tensor<4xf32>",
     FLX_OK, NULL},
    {"%r = \"stablehlo.map\"(%f) ({\n^bb0(%x: tensor<f32>):\nstablehlo.return %x : tensor<f32>\n}) {dimensions = "
     "array<i64: 0>} "
     ": (tensor<4xf32>) -> tensor<4xi32>",
     FLX_E_DTYPE, "value 0 is tensor<f32>"},
    {"%r = \"stablehlo.map\"(%f) ({\n^bb0(%x: tensor<f64>):\nstablehlo.return %x : tensor<f64>\n}) {dimensions = "
     "array<i64: 0>} "
     ": (tensor<4xf32>) -> tensor<4xf64>",
     FLX_E_DTYPE, "argument 0 is tensor<f64>"},
    {"%r = \"stablehlo.reduce_window\"(%f, %s) ({\n" TWO_F SUM "}) {window_dimensions = array<i64: 0>} : "
     "(tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
     FLX_E_ATTRIBUTE, "window_dimensions has 0"},
    {"%r = \"stablehlo.reduce_window\"(%f, %s) ({\n" TWO_F SUM "}) {window_dimensions = array<i64: 2, 1>} : "
     "(tensor<4xf32>, tensor<f32>) -> tensor<3xf32>",
     FLX_E_ATTRIBUTE, "window_dimensions has 2 entries"},
    {"%r = \"stablehlo.reduce_window\"(%f, %s) ({\n" TWO_F SUM
     "}) {window_dimensions = array<i64: 2>, window_strides = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> "
     "tensor<3xf32>",
     FLX_E_ATTRIBUTE, "window_strides has 0"},
    {"%r = \"stablehlo.select_and_scatter\"(%f, %s, %s) ({\n" TWO_F SUM "}, {\n" TWO_F SUM
     "}) {window_dimensions = array<i64: 4>} : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>",
     FLX_E_DTYPE, "value 0 is tensor<f32>, but must be tensor<i1>"},
    {"%r = func.call @callee(%f) : (tensor<4xf32>) -> tensor<4xf32>", FLX_OK, NULL},
    {"%r = func.call @callee(%s) : (tensor<f32>) -> tensor<4xf32>", FLX_E_SHAPE, "operand 0 is tensor<f32>"},
    {"%r = func.call @callee(%f) : (tensor<4xf32>) -> tensor<4xi32>", FLX_E_DTYPE, "result 0 is tensor<4xi32>"},
    {"%r = func.call @callee(%f, %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>", FLX_E_ARITY,
     "it has 2 operands"},
    {"%r:2 = func.call @callee(%f) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)", FLX_E_ARITY,
     "it has 2 results"},
    {"%r = func.call @nowhere(%f) : (tensor<4xf32>) -> tensor<4xf32>", FLX_E_NAME, "@nowhere"},
    {"%r = \"stablehlo.composite\"(%s) {name = \"a.b\", decomposition = @callee} : (tensor<f32>) -> tensor<4xf32>",
     FLX_E_SHAPE, "operand 0 is tensor<f32>"},
    {"%r = \"stablehlo.composite\"(%f) {name = \"a.b\", decomposition = @callee} : (tensor<4xf32>) -> tensor<4xf32>",
     FLX_OK, NULL},
};

/* The scatter is in line 4. */
static const region_use in_scatters[] = {
    {SCATTER("i32", "f32", TWO_F SUM), FLX_OK, NULL},
    {SCATTER("f32", "f32", TWO_F SUM), FLX_E_DTYPE, "the indices, must hold integers"},
    {SCATTER("i32", "f64", TWO_F SUM), FLX_E_DTYPE, "operand 2 is tensor<2xf64>, but must be tensor<2xf32>"},
    {SCATTER("i32", "f32", TWO_F LESS), FLX_E_DTYPE, "value 0 is tensor<i1>, but must be tensor<f32>"},
    {SCATTER("i32", "f32", "^bb0(%x: tensor<f32>):\nstablehlo.return %x : tensor<f32>\n"), FLX_E_ARITY,
     "it has 1 argument"},
};

static void expect_regions(const region_use *uses, size_t n, const char *line)
{
    static char text[8192];
    flx_context *ctx = flx_context_new(NULL);
    CHECK(ctx != NULL);
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text,
                 "func.func @main(%%f: tensor<4xf32>, %%s: tensor<f32>, %%i: tensor<i32>, %%b: tensor<i1>) {\n  %s\n  "
                 "return\n}\n"
                 "func.func private @callee(%%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %%x : tensor<4xf32>\n}\n",
                 uses[i].text);
        expect(ctx, text, uses[i].code, uses[i].message, line);
    }
    flx_context_free(ctx);
}

TEST(stablehlo_checks_regions_and_calls)
{
    expect_regions(in_regions, COUNT(in_regions), "t:2:");
    expect_regions(in_scatters, COUNT(in_scatters), "t:4:");
}
