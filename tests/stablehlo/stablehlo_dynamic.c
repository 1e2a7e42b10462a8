/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_dynamic.c: shapes that are not numbers: extents `?` of @main's arguments, shapes computed from them, and
   what programs demand of them. Each program runs with several extents. */
#include "stablehlo/stablehlo_program.h"

#include "base/context.h"
#include "graph/type/dim.h"

#include <string.h>

typedef struct {
    const char *name, *text;
    int64_t extents[3]; /* one symbol: run with each; */
    const char *expected[3];
} shaped;

#define MAIN(args, results) "func.func @main(" args ") -> " results " {\n"
#define SIZE(name, of, axis, type) \
    "  " name " = stablehlo.get_dimension_size " of ", dim = " axis " : (" type ") -> tensor<i32>\n"
#define NUMBER(name, value) "  " name " = stablehlo.constant dense<" value "> : tensor<i32>\n"
#define ROW(name, of) "  " name " = stablehlo.reshape " of " : (tensor<i32>) -> tensor<1xi32>\n"
#define PAIR(name, a, b) \
    "  " name " = stablehlo.concatenate " a ", " b ", dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
#define OP2(name, op, a, b) "  " name " = stablehlo." op " " a ", " b " : tensor<i32>\n"
#define COMPARE(name, how, a, b) \
    "  " name " = stablehlo.compare " how ", " a ", " b " : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
#define ASSERT(cond)                                                                                                   \
    "  stablehlo.custom_call @shape_assertion(" cond ") {error_message = \"does not fit\", has_side_effect = true} : " \
    "(tensor<i1>) -> ()\n"
#define V "tensor<?xf32>"
#define END(value, type) "  return " value " : " type "\n}\n"

static const shaped programs[] = {
    {"size",
     MAIN("%x: " V, "tensor<i32>") SIZE("%n", "%x", "0", V) END("%n", "tensor<i32>"),
     {0, 2, 5},
     {"i32[] 0", "i32[] 2", "i32[] 5"}},
    {"reshape",
     MAIN("%x: tensor<?x2xf32>", V) SIZE("%n", "%x", "0", "tensor<?x2xf32>") NUMBER("%c", "2")
         OP2("%m", "multiply", "%n", "%c")
             ROW("%s", "%m") "  %y = stablehlo.dynamic_reshape %x, %s : (tensor<?x2xf32>, tensor<1xi32>) -> " V
                             "\n" END("%y", V),
     {0, 1, 2},
     {"f32[0]", "f32[2] 1 2", "f32[4] 1 2 3 4"}},
    {"broadcast",
     MAIN("%x: " V, "tensor<2x?xf32>") SIZE("%n", "%x", "0", V) NUMBER("%c", "2") ROW("%a", "%c") ROW("%b", "%n")
         PAIR("%s", "%a", "%b") "  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (" V
                                ", tensor<2xi32>) -> tensor<2x?xf32>\n" END("%y", "tensor<2x?xf32>"),
     {1, 2, 3},
     {"f32[2, 1] 1 1", "f32[2, 2] 1 2 1 2", "f32[2, 3] 1 2 3 1 2 3"}},
    {"iota",
     MAIN("%x: " V, "tensor<?xi4>") SIZE("%n", "%x", "0", V) NUMBER("%c", "7") OP2("%m", "add", "%n", "%c")
         ROW("%s", "%m") "  %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi4>\n" END(
             "%y", "tensor<?xi4>"),
     {1, 2, 3},
     {"i8[8] 0 1 2 3 4 5 6 7", "i8[9] 0 1 2 3 4 5 6 7 -8", "i8[10] 0 1 2 3 4 5 6 7 -8 -7"}},
    {"pad",
     MAIN("%x: " V, V) SIZE("%n", "%x", "0", V)
         ROW("%h", "%n") "  %o = stablehlo.constant dense<1> : tensor<1xi32>\n"
                         "  %z = stablehlo.constant dense<9.0> : tensor<f32>\n"
                         "  %y = stablehlo.dynamic_pad %x, %z, %o, %h, %o : (" V
                         ", tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> " V "\n" END("%y", V),
     {1, 2, 3},
     {"f32[3] 9 1 9", "f32[6] 9 1 9 2 9 9", "f32[9] 9 1 9 2 9 3 9 9 9"}},
    {"slice: the last two",
     MAIN("%x: " V, V) SIZE("%n", "%x", "0", V) NUMBER("%c", "2") OP2("%m", "subtract", "%n", "%c") ROW("%a", "%m")
         ROW("%b", "%n") "  %o = stablehlo.constant dense<1> : tensor<1xi32>\n"
                         "  %y = stablehlo.real_dynamic_slice %x, %a, %b, %o : (" V
                         ", tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> " V "\n" END("%y", V),
     {2, 3, 5},
     {"f32[2] 1 2", "f32[2] 2 3", "f32[2] 4 5"}},
    {"slice: a position that the run knows",
     MAIN("%x: " V ", %i: tensor<1xi32>",
          "tensor<2xf32>") "  %o = stablehlo.constant dense<1> : tensor<1xi32>\n"
                           "  %t = stablehlo.constant dense<2> : tensor<1xi32>\n  %e = stablehlo.add %i, %t : "
                           "tensor<1xi32>\n"
                           "  %y = stablehlo.real_dynamic_slice %x, %i, %e, %o : (" V
                           ", tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>\n" END("%y",
                                                                                                   "tensor<2xf32>"),
     {3, 4, 5},
     {"f32[2] 2 3", "f32[2] 2 3", "f32[2] 2 3"}},
    {"two arguments of one extent",
     MAIN("%x: " V ", %z: " V, V) "  %y = stablehlo.add %x, %z : " V "\n" END("%y", V),
     {0, 1, 3},
     {"f32[0]", "f32[1] 2", "f32[3] 2 4 6"}},
    {"equal by assertion",
     MAIN("%x: tensor<?x2xf32>, %z: " V, "tensor<?x2xf32>") SIZE("%n", "%x", "0", "tensor<?x2xf32>")
         SIZE("%m", "%z", "0", V) COMPARE("%e", "EQ", "%n",
                                          "%m") ASSERT("%e") NUMBER("%c", "2") ROW("%a", "%m") ROW("%b", "%c")
             PAIR("%s", "%a", "%b") "  %w = stablehlo.dynamic_broadcast_in_dim %z, %s, dims = [0] : (" V
                                    ", tensor<2xi32>) -> tensor<?x2xf32>\n"
                                    "  %y = stablehlo.multiply %x, %w : tensor<?x2xf32>\n" END("%y", "tensor<?x2xf32>"),
     {1, 2, 2},
     {"f32[1, 2] 1 2", "f32[2, 2] 1 2 6 8", "f32[2, 2] 1 2 6 8"}},
    {"a multiple by assertion", /* the symbol is half the extent */
     MAIN("%x: " V, "tensor<?x2xf32>") SIZE("%n", "%x", "0", V) NUMBER("%c", "2") NUMBER("%z", "0")
         OP2("%r", "remainder", "%n", "%c") COMPARE("%e", "EQ", "%r", "%z") ASSERT("%e") OP2("%h", "divide", "%n", "%c")
             ROW("%a", "%h") ROW("%b", "%c")
                 PAIR("%s", "%a", "%b") "  %y = stablehlo.dynamic_reshape %x, %s : (" V
                                        ", tensor<2xi32>) -> tensor<?x2xf32>\n" END("%y", "tensor<?x2xf32>"),
     {0, 1, 2},
     {"f32[0, 2]", "f32[1, 2] 1 2", "f32[2, 2] 1 2 3 4"}},
    {"an assertion that the run makes",
     MAIN("%x: " V, V) SIZE("%n", "%x", "0", V) NUMBER("%c", "3") COMPARE("%e", "LE", "%n", "%c") ASSERT("%e")
         END("%x", V),
     {1, 3, 4},
     {"f32[1] 1", "f32[3] 1 2 3", "CHECK: check: does not fit…"}},
    {"the larger of extents, by assertion", /* n ≥ 2, so max(n, 2) is n */
     MAIN("%x: " V, "tensor<?xi32>") SIZE("%n", "%x", "0", V) NUMBER("%c", "2") COMPARE("%e", "GE", "%n", "%c")
         ASSERT("%e") OP2("%m", "maximum", "%n", "%c")
             ROW("%s", "%m") "  %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\n" END(
                 "%y", "tensor<?xi32>"),
     {2, 3, 1},
     {"i32[2] 0 1", "i32[3] 0 1 2", "CHECK: check: does not fit…"}},
    {"halves rounded up", /* 2⌈n/2⌉ − n ≥ 0 is seen, so max(…, 0) is known */
     MAIN("%x: " V, V) SIZE("%n", "%x", "0", V) NUMBER("%c", "2") NUMBER("%i", "1") NUMBER("%o", "0")
         OP2("%a", "add", "%n", "%i") OP2("%h", "divide", "%a", "%c") OP2("%d", "multiply", "%h", "%c")
             OP2("%g", "subtract", "%d", "%n") OP2("%m", "maximum", "%g", "%o")
                 ROW("%s", "%m") "  %k = stablehlo.constant dense<0> : tensor<1xi32>\n"
                                 "  %z = stablehlo.constant dense<9.0> : tensor<f32>\n"
                                 "  %y = stablehlo.dynamic_pad %x, %z, %k, %s, %k : (" V
                                 ", tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> " V "\n" END("%y", V),
     {2, 3, 5},
     {"f32[2] 1 2", "f32[4] 1 2 3 9", "f32[6] 1 2 3 4 5 9"}},
    {"an extent inside a loop",
     MAIN("%x: " V, V) SIZE("%n", "%x", "0", V) ROW("%s", "%n") NUMBER("%o", "0") NUMBER(
         "%i", "1") "  %r:2 = stablehlo.while(%k = %o, %v = %x) : tensor<i32>, " V
                    "\n  cond {\n" COMPARE("%t", "LT", "%k", "%n") "  stablehlo.return %t : tensor<i1>\n  } do {\n" OP2(
                        "%k2", "add", "%k", "%i") "  %one = stablehlo.constant dense<1.0> : tensor<f32>\n"
                                                  "  %w = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = [] : "
                                                  "(tensor<f32>, tensor<1xi32>) -> " V "\n"
                                                  "  %v2 = stablehlo.add %v, %w : " V
                                                  "\n  stablehlo.return %k2, %v2 : tensor<i32>, " V
                                                  "\n  }\n" END("%r#1", V),
     {0, 1, 3},
     {"f32[0]", "f32[1] 2", "f32[3] 4 5 6"}},
    {"a function declared with ?",
     "func.func private @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {\n  %y = stablehlo.add %x, %x : tensor<?x?xf32>\n"
     "  return %y : tensor<?x?xf32>\n}\n" MAIN(
         "%x: tensor<?x2xf32>",
         "tensor<?x?xf32>") "  %y = func.call @f(%x) : (tensor<?x2xf32>) -> tensor<?x?xf32>\n" END("%y",
                                                                                                   "tensor<?x?xf32>"),
     {0, 1, 2},
     {"f32[0, 2]", "f32[1, 2] 2 4", "f32[2, 2] 2 4 6 8"}},
    {"a symbol that is a number",
     MAIN("%x: " V ", %z: tensor<2xf32>", V) "  %y = \"stablehlo.add\"(%x, %z) : (" V ", tensor<2xf32>) -> " V
                                             "\n" END("%y", V),
     {2, 2, 2},
     {"f32[2] 2 4", "f32[2] 2 4", "f32[2] 2 4"}},
    {"other dialects",
     MAIN("%x: tensor<?x2xf32>",
          "tensor<?xf32>") "  %s = \"shape.shape_of\"(%x) : (tensor<?x2xf32>) -> tensor<2xindex>\n"
                           "  %n = \"shape.num_elements\"(%s) : (tensor<2xindex>) -> index\n"
                           "  %t = \"tensor.from_elements\"(%n) : (index) -> tensor<1xindex>\n"
                           "  %y = stablehlo.dynamic_reshape %x, %t : (tensor<?x2xf32>, tensor<1xindex>) -> " V
                           "\n" END("%y", V),
     {0, 1, 2},
     {"f32[0]", "f32[2] 1 2", "f32[4] 1 2 3 4"}},
    {"windows over a whole axis",
     "func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n  %c = stablehlo.add %a, %b : "
     "tensor<f32>\n"
     "  return %c : tensor<f32>\n}\n" MAIN("%x: " V, V) SIZE("%n", "%x", "0", V) NUMBER("%i", "1") OP2("%l", "subtract",
                                                                                                       "%n", "%i")
         ROW("%w", "%n") "  %o = stablehlo.constant dense<1> : tensor<1xi32>\n  %k = stablehlo.constant dense<0> : "
                         "tensor<1xi32>\n" ROW("%p", "%l")
                             PAIR("%q", "%p", "%k") "  %r = stablehlo.reshape %q : (tensor<2xi32>) -> tensor<1x2xi32>\n"
                                                    "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
                                                    "  %y = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, "
                                                    "%z, %w, %o, %o, %o, %r) {called_computations = [@sum]} : (" V
                                                    ", tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, "
                                                    "tensor<1xi32>, tensor<1x2xi32>) -> " V "\n" END("%y", V),
     {1, 2, 4},
     {"f32[1] 1", "f32[2] 1 3", "f32[4] 1 3 6 10"}},
    {"the largest half",
     MAIN("%x: " V, "(" V ", tensor<?xi32>)") SIZE("%n", "%x", "0", V) NUMBER("%c", "2")
         OP2("%h", "divide", "%n", "%c") "  %y:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %h) : (" V
                                         ", tensor<i32>) -> (" V ", tensor<?xi32>)\n"
                                         "  return %y#0, %y#1 : " V ", tensor<?xi32>\n}\n",
     {2, 3, 4},
     {"f32[1] 2\ni32[1] 1", "f32[1] 3\ni32[1] 2", "f32[2] 4 3\ni32[2] 3 2"}},
};

TEST(stablehlo_shapes_follow_the_arguments)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t k = 0; k < 3; k++) {
            test_fail_context("%s with %lld", programs[i].name, (long long)programs[i].extents[k]);
            expect_program(programs[i].text, &programs[i].extents[k], 1, programs[i].expected[k]);
        }
}

/* Shapes that are numbers once the program is read. */
TEST(stablehlo_known_shapes_need_no_arguments)
{
    static const char *const rows[][2] = {
        {MAIN("%x: tensor<4xf32>", "tensor<?xf32>")
             NUMBER("%n", "3") "  %y = \"stablehlo.set_dimension_size\"(%x, %n) {dimension = 0 : i64} : "
                               "(tensor<4xf32>, tensor<i32>) -> " V "\n" END("%y", V),
         "f32[3] 1 2 3"},
        {MAIN("%x: tensor<4xf32>", "tensor<?x?xf32>") "  %s = stablehlo.constant dense<2> : tensor<2xi64>\n"
                                                      "  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, "
                                                      "tensor<2xi64>) -> tensor<?x?xf32>\n" END("%y",
                                                                                                "tensor<?x?xf32>"),
         "f32[2, 2] 1 2 3 4"},
        {MAIN("%x: tensor<2xui64>",
              "(tensor<2xui64>, tensor<?xui32>)") "  %s = stablehlo.constant dense<2> : tensor<1xi32>\n"
                                                  "  %y:2 = stablehlo.custom_call "
                                                  "@stablehlo.dynamic_rng_bit_generator(%x, %s) {rng_algorithm = "
                                                  "#stablehlo<rng_algorithm "
                                                  "THREE_FRY>} : (tensor<2xui64>, tensor<1xi32>) -> (tensor<2xui64>, "
                                                  "tensor<?xui32>)\n"
                                                  "  return %y#0, %y#1 : tensor<2xui64>, tensor<?xui32>\n}\n",
         "u64[2]…"},
        {MAIN("%x: tensor<4xf32>", "tensor<i32>") NUMBER("%a", "1") NUMBER("%b", "2") COMPARE("%e", "EQ", "%a", "%b")
             ASSERT("%e") END("%a", "tensor<i32>"),
         "SHAPE: stablehlo.custom_call: does not fit at t:5:3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_program(rows[i][0], NULL, 0, rows[i][1]);
}

TEST(stablehlo_shapes_that_only_a_run_knows_are_refused)
{
    static const char *const rows[][2] = {
        {MAIN("%x: tensor<4xf32>, %s: tensor<1xi32>",
              V) "  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<1xi32>) -> " V "\n" END("%y", V),
         "UNSUPPORTED: unsupported: stablehlo.dynamic_reshape: the shape depends on values that are known only when "
         "the program "
         "runs at t:2:8"},
        {MAIN("%x: " V ", %s: tensor<1xi32>", V) SIZE("%n", "%x", "0", V)
             ROW("%a", "%n") "  %b = stablehlo.add %a, %s : tensor<1xi32>\n"
                             "  %y = stablehlo.dynamic_iota %b, dim = 0 : (tensor<1xi32>) -> " V "\n" END("%y", V),
         "UNSUPPORTED: unsupported: stablehlo.dynamic_iota:…"},
        {MAIN("%x: " V ", %z: tensor<2xf32>, %w: tensor<3xf32>",
              V) "  %a = \"stablehlo.add\"(%x, %z) : (" V ", tensor<2xf32>) -> " V "\n"
                 "  %y = \"stablehlo.add\"(%a, %w) : (" V ", tensor<3xf32>) -> " V "\n" END("%y", V),
         "SHAPE: stablehlo.add: operand 1 is tensor<3xf32>, but must have the shape of operand 0 at t:3:8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_program(rows[i][0], (const int64_t[]){2}, 1, rows[i][1]);
}

/* ---- Lower bounds of dimensions ---- */

static int64_t two_each(void *user, const char *symbol)
{
    (void)user;
    return symbol[0] == 'U' ? -1 : 2; /* of U nothing is known */
}

TEST(dim_least_bounds_polynomials_and_quotients)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_dim u = flx_dim_symbol(ctx, "U");
    flx_dim half = flxi_dim_floor_div(ctx, n, 2);
    flx_dim up = flxi_dim_floor_div(ctx, flx_dim_add(ctx, n, 1), 2);
    const struct {
        flx_dim dim;
        bool is_known;
        int64_t least;
    } rows[] = {
        {7, true, 7},
        {-7, true, -7},
        {n, true, 2},
        {flx_dim_sub(ctx, n, 5), true, -3},
        {flx_dim_mul(ctx, flx_dim_mul(ctx, n, n), 3), true, 12},
        {flx_dim_sub(ctx, 0, n), false, 0},
        {u, false, 0},
        {flx_dim_add(ctx, n, u), false, 0},
        {half, true, 1},
        {flx_dim_sub(ctx, n, half), true, 1},                      /* n − ⌊n/2⌋ ≥ n/2 */
        {flx_dim_sub(ctx, n, flx_dim_mul(ctx, half, 2)), true, 0}, /* n mod 2 */
        {flx_dim_sub(ctx, flx_dim_mul(ctx, up, 2), n), true, 0},   /* 2⌈n/2⌉ − n */
        {flx_dim_sub(ctx, half, n), false, 0},
        {flxi_dim_floor_div(ctx, n, flx_dim_add(ctx, n, 1)), true, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t least = 0;
        bool is_known = flxi_dim_least(ctx, rows[i].dim, two_each, NULL, &least);
        EXPECT_MSG(is_known == rows[i].is_known && (!is_known || least == rows[i].least), "row %zu: %d %lld", i,
                   is_known, (long long)least);
    }
    flx_context_free(ctx);
}
