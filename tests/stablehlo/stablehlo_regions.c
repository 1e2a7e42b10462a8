/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_regions.c: operations with regions, each program by the reference evaluator and compiled: folds, windows,
   scatters, sorts, loops and branches; what their regions may use from outside; what is refused, and where. */
#include "fault.h"
#include "test.h"

#include <fluxion/exec.h>
#include <fluxion/run.h>
#include <fluxion/stablehlo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines that define %r from the arguments %p = 0.5 : f32 and %q = 2 : i32, which only a run knows. */
typedef struct {
    const char *name, *lines, *type, *expected;
} program;

static const char arguments[] = "(%p: tensor<f32>, %q: tensor<i32>)";

typedef struct {
    char data[60000];
    size_t size;
} text;

static void append(text *t, const char *fmt, ...) FLX_PRINTF(2, 3);
static void append(text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    t->size += (size_t)vsnprintf(t->data + t->size, sizeof t->data - t->size, fmt, args);
    va_end(args);
    CHECK(t->size < sizeof t->data);
}

/* A program that checks n rows, each in a function of its own. */
static const char *checking(text *t, const program *rows, size_t n)
{
    t->size = 0;
    for (size_t i = 0; i < n; i++)
        append(t, "func.func private @row%zu%s -> tensor<%s> {\n%s\n  return %%r : tensor<%s>\n}\n", i, arguments,
               rows[i].type, rows[i].lines, rows[i].type);
    append(t, "func.func private @plus(%%a: tensor<i32>, %%b: tensor<i32>) -> tensor<i32> {\n"
              "  %%s = stablehlo.add %%a, %%b : tensor<i32>\n  return %%s : tensor<i32>\n}\n");
    append(t, "func.func public @main%s -> tensor<f32> {\n", arguments);
    for (size_t i = 0; i < n; i++)
        append(t,
               "  %%r%zu = func.call @row%zu(%%p, %%q) : (tensor<f32>, tensor<i32>) -> tensor<%s>\n"
               "  %%e%zu = stablehlo.constant dense<%s> : tensor<%s>\n"
               "  stablehlo.custom_call @check.expect_eq(%%r%zu, %%e%zu) {has_side_effect = true} : "
               "(tensor<%s>, tensor<%s>) -> ()\n",
               i, i, rows[i].type, i, rows[i].expected, rows[i].type, i, i, rows[i].type, rows[i].type);
    append(t, "  return %%p : tensor<f32>\n}\n");
    return t->data;
}

/* The code of importing and running a program on p = 0.5 and q = 2. */
static flx_code outcome(const char *source, const char *device, flx_error *err)
{
    static const float half = 0.5F;
    static const int32_t two = 2;
    *err = (flx_error){0};
    flx_context *ctx = flx_context_new(NULL);
    flx_type types[2] = {{.dtype = FLX_F32}, {.dtype = FLX_I32}};
    flx_tensor *p = flx_tensor_new(ctx, &types[0], &half, err);
    flx_tensor *q = flx_tensor_new(ctx, &types[1], &two, err);
    flx_module *m = flx_import_stablehlo(ctx, source, strlen(source), "t.mlir", err);
    flx_run_options options = {.struct_size = sizeof options, .device = device};
    flx_tensor *out = NULL;
    if (m)
        flx_run(flx_module_main(m), &options, (flx_feed[]){{"arg0", p}, {"arg1", q}}, 2, &out, err);
    flx_tensor_release(out);
    flx_tensor_release(p);
    flx_tensor_release(q);
    flx_module_free(m);
    flx_context_free(ctx);
    return (flx_code)err->code;
}

/* Imports with each request for memory failing in turn: either it is missed, and that is said, or all is well. */
static void starve(const char *source)
{
    bool done = false;
    for (size_t n = 1; !done; n++) {
        fault f = {.fail_at = n};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_module *m = ctx ? flx_import_stablehlo(ctx, source, strlen(source), "t.mlir", &err) : NULL;
        done = f.failed == 0;
        CHECK_MSG(m || !ctx || err.code == FLX_E_OOM, "request %zu: %s", n, err.message);
        CHECK_MSG(m || !done, "without failures: %s", err.message);
        flx_module_free(m);
        flx_context_free(ctx);
        CHECK_MSG(fault_is_clean(&f), "request %zu: %zu blocks leaked, %zu errors", n, f.live_blocks, f.errors);
    }
}

/* Each row alone, then all of them as one compiled program. */
static void check_programs(const program *rows, size_t n)
{
    static text t;
    flx_error err;
    for (size_t i = 0; i < n; i++) {
        flx_code code = outcome(checking(&t, &rows[i], 1), "ref", &err);
        EXPECT_MSG(code == FLX_OK, "%s: %s (%s)", rows[i].name, err.message, err.where);
        test_count_case();
    }
    if (!test_failed())
        CHECK_OK(outcome(checking(&t, rows, n), "cpu", &err), &err);
    starve(t.data);
}

#define CHECK_PROGRAMS(rows) check_programs(rows, sizeof(rows) / sizeof *(rows))

#define I32 "tensor<i32>"
#define F32 "tensor<f32>"
#define MATRIX "  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>\n"
#define NUMBER(name, value) "  %" name " = stablehlo.constant dense<" value "> : tensor<i32>\n"
#define REDUCE_ROWS(body)                                                                                    \
    "  %r = \"stablehlo.reduce\"(%x, %init) <{dimensions = array<i64: 1>}> ({\n  ^bb0(%a: " I32 ", %b: " I32 \
    "):\n" body "  }) : (tensor<2x3xi32>, " I32 ") -> tensor<2xi32>"
#define RETURN(value, type) "    stablehlo.return %" value " : " type "\n"

/* ---- Folds ---- */

#define DOUBLED_PLUS(factor)                                  \
    "    %m = stablehlo.multiply %a, %" factor " : " I32 "\n" \
    "    %s = stablehlo.add %m, %b : " I32 "\n" RETURN("s", I32)

/* The position of the largest or smallest element, as it is usually written. */
#define PLACE(better)                                                                           \
    "    %c = stablehlo.compare " better ", %a, %b, FLOAT : (" F32 ", " F32 ") -> tensor<i1>\n" \
    "    %n = stablehlo.compare NE, %a, %a, FLOAT : (" F32 ", " F32 ") -> tensor<i1>\n"         \
    "    %s = stablehlo.or %c, %n : tensor<i1>\n"                                               \
    "    %e = stablehlo.compare EQ, %a, %b, FLOAT : (" F32 ", " F32 ") -> tensor<i1>\n"         \
    "    %l = stablehlo.compare LT, %i, %k, SIGNED : (" I32 ", " I32 ") -> tensor<i1>\n"        \
    "    %t = stablehlo.and %e, %l : tensor<i1>\n"                                              \
    "    %f = stablehlo.or %s, %t : tensor<i1>\n"                                               \
    "    %v = stablehlo.select %s, %a, %b : tensor<i1>, " F32 "\n"                              \
    "    %w = stablehlo.select %f, %i, %k : tensor<i1>, " I32 "\n"                              \
    "    stablehlo.return %v, %w : " F32 ", " I32 "\n"
#define PLACES(literal, limit, better, first)                                                    \
    "  %x = stablehlo.constant dense<" literal "> : tensor<2x3xf32>\n"                           \
    "  %n0 = stablehlo.iota dim = 1 : tensor<2x3xi32>\n"                                         \
    "  %first = stablehlo.constant dense<" first "> : tensor<i32>\n"                             \
    "  %limit = stablehlo.constant dense<" limit "> : tensor<f32>\n"                             \
    "  %o:2 = \"stablehlo.reduce\"(%x, %n0, %limit, %first) <{dimensions = array<i64: 1>}> ({\n" \
    "  ^bb0(%a: " F32 ", %i: " I32 ", %b: " F32 ", %k: " I32                                     \
    "):\n" PLACE(better) "  }) : (tensor<2x3xf32>, tensor<2x3xi32>, " F32 ", " I32               \
                         ") -> (tensor<2xf32>, tensor<2xi32>)\n"
#define FIRST_RESULT(type) "  %r = stablehlo.reshape %o#0 : (" type ") -> " type
#define SECOND_RESULT(type) "  %r = stablehlo.reshape %o#1 : (" type ") -> " type

TEST(stablehlo_folds)
{
    static const program rows[] = {
        {"a named fold starts from init",
         MATRIX NUMBER("init",
                       "10") "  %r = stablehlo.reduce(%x init: %init) applies stablehlo.add across dimensions = [0] : "
                             "(tensor<2x3xi32>, " I32 ") -> tensor<3xi32>",
         "3xi32", "[15, 17, 19]"},
        {"over no axis it combines each element with init",
         MATRIX NUMBER("init",
                       "2") "  %r = stablehlo.reduce(%x init: %init) applies stablehlo.multiply across dimensions = [] "
                            ": (tensor<2x3xi32>, " I32 ") -> tensor<2x3xi32>",
         "2x3xi32", "[[2, 4, 6], [8, 10, 12]]"},
        {"over an empty axis it is init",
         "  %x = stablehlo.constant dense<[]> : tensor<0x2xf32>\n"
         "  %r = stablehlo.reduce(%x init: %p) applies stablehlo.add across dimensions = [0] : (tensor<0x2xf32>, " F32
         ") -> tensor<2xf32>",
         "2xf32", "0.5"},
        {"NaN is the largest",
         "  %x = stablehlo.constant dense<[1.0, 0x7FC00000, 3.0]> : tensor<3xf32>\n"
         "  %r = stablehlo.reduce(%x init: %p) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf32>, " F32
         ") -> " F32,
         "f32", "0x7FC00000"},
        {"bits", MATRIX NUMBER("init", "-1") REDUCE_ROWS("    %s = stablehlo.and %a, %b : " I32 "\n" RETURN("s", I32)),
         "2xi32", "[0, 4]"},
        {"exclusive or",
         MATRIX NUMBER("init", "0") REDUCE_ROWS("    %s = stablehlo.xor %b, %a : " I32 "\n" RETURN("s", I32)), "2xi32",
         "[0, 7]"},
        {"truth",
         "  %x = stablehlo.constant dense<[[true, false], [false, false]]> : tensor<2x2xi1>\n"
         "  %no = stablehlo.constant dense<false> : tensor<i1>\n"
         "  %r = stablehlo.reduce(%x init: %no) applies stablehlo.or across dimensions = [1] : (tensor<2x2xi1>, "
         "tensor<i1>) -> "
         "tensor<2xi1>",
         "2xi1", "[true, false]"},
        {"any body, in order", MATRIX NUMBER("init", "1") NUMBER("two", "2") REDUCE_ROWS(DOUBLED_PLUS("two")), "2xi32",
         "[19, 40]"},
        {"operands exchanged",
         MATRIX NUMBER("init", "0") REDUCE_ROWS("    %s = stablehlo.subtract %b, %a : " I32 "\n" RETURN("s", I32)),
         "2xi32", "[2, 5]"},
        {"a value from outside that is known",
         MATRIX NUMBER("init", "1") "  %two = stablehlo.add %init, %init : " I32 "\n" REDUCE_ROWS(DOUBLED_PLUS("two")),
         "2xi32", "[19, 40]"},
        {"a value from outside that only a run knows", MATRIX NUMBER("init", "1") REDUCE_ROWS(DOUBLED_PLUS("q")),
         "2xi32", "[19, 40]"},
        {"the second of two arrays",
         MATRIX NUMBER("init",
                       "0") "  %y = stablehlo.negate %x : tensor<2x3xi32>\n"
                            "  %o:2 = \"stablehlo.reduce\"(%x, %y, %init, %q) <{dimensions = array<i64: 0, 1>}> ({\n"
                            "  ^bb0(%a: " I32 ", %i: " I32 ", %b: " I32 ", %k: " I32 "):\n"
                            "    %s = stablehlo.add %a, %b : " I32 "\n    %d = stablehlo.subtract %i, %k : " I32 "\n"
                            "    %m = stablehlo.maximum %s, %d : " I32 "\n"
                            "    stablehlo.return %s, %m : " I32 ", " I32 "\n"
                            "  }) : (tensor<2x3xi32>, tensor<2x3xi32>, " I32 ", " I32 ") -> (" I32 ", " I32
                            ")\n" SECOND_RESULT(I32),
         "i32", "23"},
        {"the position of the largest",
         PLACES("[[1.0, 3.0, 3.0], [0x7FC00000, 5.0, 0x7FC00000]]", "0xFF800000", "GT", "0")
             SECOND_RESULT("tensor<2xi32>"),
         "2xi32", "[1, 0]"},
        {"the position of the smallest",
         PLACES("[[1.0, 3.0, 1.0], [9.0, 5.0, 6.0]]", "0x7F800000", "LT", "0") SECOND_RESULT("tensor<2xi32>"), "2xi32",
         "[0, 1]"},
        {"the largest with its position",
         PLACES("[[0.0, -0.0, -3.0], [9.0, 5.0, 6.0]]", "0xFF800000", "GT", "0") FIRST_RESULT("tensor<2xf32>"), "2xf32",
         "[-0.0, 9.0]"},
        {"the position of the largest, counted from another one",
         PLACES("[[1.0, 3.0, 3.0], [2.0, 1.0, 1.0]]", "2.5", "GT", "7") SECOND_RESULT("tensor<2xi32>"), "2xi32",
         "[1, 7]"},
        {"elements are widened to the type of the body",
         "  %x = stablehlo.constant dense<[100, 100, 100]> : tensor<3xi8>\n  %z = stablehlo.constant dense<1> : "
         "tensor<i8>\n"
         "  %r = \"stablehlo.reduce\"(%x, %z) <{dimensions = array<i64: 0>}> ({\n  ^bb0(%a: " I32 ", %b: " I32 "):\n"
         "    %s = stablehlo.add %a, %b : " I32 "\n" RETURN("s", I32) "  }) : (tensor<3xi8>, tensor<i8>) -> " I32,
         "i32", "301"},
        {"a narrow type wraps at each step",
         "  %x = stablehlo.constant dense<[7, 1, 2]> : tensor<3xi4>\n  %z = stablehlo.constant dense<0> : tensor<i4>\n"
         "  %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3xi4>, "
         "tensor<i4>) -> "
         "tensor<i4>",
         "i4", "-6"},
        {"a function called in the body",
         MATRIX NUMBER("init", "0")
             REDUCE_ROWS("    %s = func.call @plus(%a, %b) : (" I32 ", " I32 ") -> " I32 "\n" RETURN("s", I32)),
         "2xi32", "[6, 15]"},
        {"map, with a scalar from outside",
         MATRIX "  %r = \"stablehlo.map\"(%x, %x) <{dimensions = array<i64: 0, 1>}> ({\n  ^bb0(%a: " I32 ", %b: " I32
                "):\n"
                "    %m = stablehlo.multiply %a, %b : " I32 "\n    %s = stablehlo.add %m, %q : " I32
                "\n" RETURN("s", I32) "  }) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>",
         "2x3xi32", "[[3, 6, 11], [18, 27, 38]]"},
    };
    CHECK_PROGRAMS(rows);
}

/* ---- Windows ---- */

#define FIVE "  %x = stablehlo.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>\n"
#define WINDOW(x, init, geometry, body, type, results)                                                          \
    "  %r = \"stablehlo.reduce_window\"(%" x ", %" init ") <{" geometry "}> ({\n  ^bb0(%a: " type ", %b: " type \
    "):\n" body "  }) : " results
#define ADD_I32 "    %s = stablehlo.add %a, %b : " I32 "\n" RETURN("s", I32)
#define ADD_BF16 "    %s = stablehlo.add %a, %b : tensor<bf16>\n" RETURN("s", "tensor<bf16>")
#define MAX_F32 "    %s = stablehlo.maximum %a, %b : " F32 "\n" RETURN("s", F32)
#define ADD_F32 "    %s = stablehlo.add %a, %b : " F32 "\n" RETURN("s", F32)

TEST(stablehlo_windows)
{
    static const program rows[] = {
        {"strides and padding",
         FIVE NUMBER("z", "0")
             WINDOW("x", "z",
                    "window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<1> : "
                    "tensor<1x2xi64>",
                    ADD_I32, I32, "(tensor<5xi32>, " I32 ") -> tensor<3xi32>"),
         "3xi32", "[3, 9, 9]"},
        {"padding holds init, which is the start too",
         FIVE WINDOW(
             "x", "q",
             "window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<1> : tensor<1x2xi64>",
             ADD_I32, I32, "(tensor<5xi32>, " I32 ") -> tensor<3xi32>"),
         "3xi32", "[7, 11, 13]"},
        {"dilations",
         "  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n" NUMBER("z", "0") WINDOW(
             "x", "z",
             "window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>, window_dilations = array<i64: 2>",
             ADD_I32, I32, "(tensor<3xi32>, " I32 ") -> tensor<3xi32>"),
         "3xi32", "[3, 0, 5]"},
        {"a running sum",
         FIVE NUMBER("z", "0")
             WINDOW("x", "z", "window_dimensions = array<i64: 5>, padding = dense<[[4, 0]]> : tensor<1x2xi64>", ADD_I32,
                    I32, "(tensor<5xi32>, " I32 ") -> tensor<5xi32>"),
         "5xi32", "[1, 3, 6, 10, 15]"},
        {"a running sum from the end",
         FIVE NUMBER("z", "0")
             WINDOW("x", "z", "window_dimensions = array<i64: 5>, padding = dense<[[0, 4]]> : tensor<1x2xi64>", ADD_I32,
                    I32, "(tensor<5xi32>, " I32 ") -> tensor<5xi32>"),
         "5xi32", "[15, 14, 12, 9, 5]"},
        {"a running sum that starts elsewhere",
         FIVE WINDOW("x", "q", "window_dimensions = array<i64: 5>, padding = dense<[[4, 0]]> : tensor<1x2xi64>",
                     ADD_I32, I32, "(tensor<5xi32>, " I32 ") -> tensor<5xi32>"),
         "5xi32", "[11, 11, 12, 14, 17]"},
        {"a running maximum",
         "  %x = stablehlo.constant dense<[[1.0, 3.0, 2.0], [4.0, 0.0, 9.0]]> : tensor<2x3xf32>\n"
         "  %l = stablehlo.constant dense<0xFF800000> : " F32 "\n" WINDOW(
             "x", "l", "window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>",
             MAX_F32, F32, "(tensor<2x3xf32>, " F32 ") -> tensor<2x3xf32>"),
         "2x3xf32", "[[1.0, 3.0, 3.0], [4.0, 4.0, 9.0]]"},
        {"a long running sum of floats",
         "  %x = stablehlo.iota dim = 0 : tensor<70xf32>\n  %z = stablehlo.constant dense<0.0> : " F32
         "\n  %y = \"stablehlo.reduce_window\"(%x, %z) <{window_dimensions = array<i64: 70>, padding = dense<[[69, "
         "0]]> : "
         "tensor<1x2xi64>}> ({\n  ^bb0(%a: " F32 ", %b: " F32 "):\n" ADD_F32 "  }) : (tensor<70xf32>, " F32
         ") -> tensor<70xf32>\n  %r = stablehlo.slice %y [67:70] : (tensor<70xf32>) -> tensor<3xf32>",
         "3xf32", "[2278.0, 2346.0, 2415.0]"},
        {"a short sum rounds at each step",
         "  %x = stablehlo.constant dense<[256.0, 1.0, 1.0]> : tensor<3xbf16>\n"
         "  %z = stablehlo.constant dense<0.0> : tensor<bf16>\n" WINDOW(
             "x", "z", "window_dimensions = array<i64: 3>", ADD_BF16, "tensor<bf16>",
             "(tensor<3xbf16>, tensor<bf16>) -> tensor<1xbf16>"),
         "1xbf16", "256.0"},
        {"any body, with a scalar from outside",
         FIVE NUMBER("one", "1") WINDOW("x", "one", "window_dimensions = array<i64: 3>, window_strides = array<i64: 2>",
                                        DOUBLED_PLUS("q"), I32, "(tensor<5xi32>, " I32 ") -> tensor<2xi32>"),
         "2xi32", "[19, 33]"},
        {"two arrays: the element whose partner is smallest",
         FIVE "  %y = stablehlo.constant dense<[5, 3, 4, 1, 2]> : tensor<5xi32>\n" NUMBER("z", "0") NUMBER(
             "big",
             "99") "  %o:2 = \"stablehlo.reduce_window\"(%y, %x, %big, %z) <{window_dimensions = array<i64: 2>}> ({\n"
                   "  ^bb0(%a: " I32 ", %i: " I32 ", %b: " I32 ", %k: " I32 "):\n"
                   "    %c = stablehlo.compare LE, %a, %b, SIGNED : (" I32 ", " I32 ") -> tensor<i1>\n"
                   "    %v = stablehlo.select %c, %a, %b : tensor<i1>, " I32 "\n"
                   "    %w = stablehlo.select %c, %i, %k : tensor<i1>, " I32 "\n"
                   "    stablehlo.return %v, %w : " I32 ", " I32 "\n"
                   "  }) : (tensor<5xi32>, tensor<5xi32>, " I32 ", " I32
                   ") -> (tensor<4xi32>, tensor<4xi32>)\n" SECOND_RESULT("tensor<4xi32>"),
         "4xi32", "[2, 2, 4, 4]"},
        {"windows that do not fit",
         FIVE NUMBER("z", "0") WINDOW("x", "z", "window_dimensions = array<i64: 6>", ADD_I32, I32,
                                      "(tensor<5xi32>, " I32 ") -> tensor<0xi32>"),
         "0xi32", "[]"},
    };
    CHECK_PROGRAMS(rows);
}

/* ---- Scatter ---- */

#define FOUR "  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>\n"
#define INDICES "  %i = stablehlo.constant dense<[[1], [1], [9], [-1]]> : tensor<4x1xi64>\n"
#define UPDATES "  %u = stablehlo.constant dense<[10, 20, 30, 40]> : tensor<4xi32>\n"
#define POINTS                                                                                                        \
    "scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], " \
    "index_vector_dim = 1>"
#define SCATTER(numbers, body, results)                                                                     \
    "  %r = \"stablehlo.scatter\"(%x, %i, %u) <{" numbers "}> ({\n  ^bb0(%a: " I32 ", %b: " I32 "):\n" body \
    "  }) : " results
#define SCATTER_POINTS(body) \
    FOUR INDICES UPDATES SCATTER(POINTS, body, "(tensor<4xi32>, tensor<4x1xi64>, tensor<4xi32>) -> tensor<4xi32>")
#define COMBINE(op) "    %s = stablehlo." op " %a, %b : " I32 "\n" RETURN("s", I32)
#define SCATTER_TWO(body)                                                                                          \
    FOUR INDICES UPDATES                                                                                           \
        "  %y = stablehlo.constant dense<5> : tensor<4xi32>\n  %v = stablehlo.constant dense<[1, 2, 3, 4]> : "     \
        "tensor<4xi32>\n"                                                                                          \
        "  %o:2 = \"stablehlo.scatter\"(%x, %y, %i, %u, %v) <{" POINTS "}> ({\n"                                   \
        "  ^bb0(%a: " I32 ", %c: " I32 ", %b: " I32 ", %d: " I32 "):\n" body                                       \
        "  }) : (tensor<4xi32>, tensor<4xi32>, tensor<4x1xi64>, tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, " \
        "tensor<4xi32>)\n"

TEST(stablehlo_scatters)
{
    static const program rows[] = {
        {"add; out of range is dropped", SCATTER_POINTS(COMBINE("add")), "4xi32", "[1, 32, 3, 4]"},
        {"set: the last one stays", SCATTER_POINTS(RETURN("b", I32)), "4xi32", "[1, 20, 3, 4]"},
        {"nothing", SCATTER_POINTS(RETURN("a", I32)), "4xi32", "[1, 2, 3, 4]"},
        {"multiply", SCATTER_POINTS(COMBINE("multiply")), "4xi32", "[1, 400, 3, 4]"},
        {"minimum", SCATTER_POINTS(COMBINE("minimum")), "4xi32", "[1, 2, 3, 4]"},
        {"maximum", SCATTER_POINTS(COMBINE("maximum")), "4xi32", "[1, 20, 3, 4]"},
        {"any body", SCATTER_POINTS(COMBINE("subtract")), "4xi32", "[1, -28, 3, 4]"},
        {"a scalar from outside", SCATTER_POINTS(DOUBLED_PLUS("q")), "4xi32", "[1, 48, 3, 4]"},
        {"part of a window is out of range",
         FOUR
         "  %i = stablehlo.constant dense<[3]> : tensor<1xi64>\n  %u = stablehlo.constant dense<[10, 20]> : "
         "tensor<2xi32>\n" SCATTER("scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], "
                                   "scatter_dims_to_operand_dims = [0]>",
                                   COMBINE("add"), "(tensor<4xi32>, tensor<1xi64>, tensor<2xi32>) -> tensor<4xi32>"),
         "4xi32", "[1, 2, 3, 14]"},
        {"a window with a scalar from outside",
         MATRIX
         "  %i = stablehlo.constant dense<[[1], [2], [-1]]> : tensor<3x1xi64>\n"
         "  %u = stablehlo.constant dense<[[10, 20], [30, 40], [50, 60]]> : tensor<3x2xi32>\n" SCATTER(
             "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [1], "
             "scatter_dims_to_operand_dims = [1], index_vector_dim = 1>",
             DOUBLED_PLUS("q"), "(tensor<2x3xi32>, tensor<3x1xi64>, tensor<3x2xi32>) -> tensor<2x3xi32>"),
         "2x3xi32", "[[1, 14, 36], [4, 30, 52]]"},
        {"batching axes",
         MATRIX
         "  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi64>\n"
         "  %u = stablehlo.constant dense<[10, 20]> : tensor<2xi32>\n" SCATTER(
             "scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], "
             "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>",
             COMBINE("add"), "(tensor<2x3xi32>, tensor<2x1xi64>, tensor<2xi32>) -> tensor<2x3xi32>"),
         "2x3xi32", "[[1, 2, 13], [24, 5, 6]]"},
        {"two arrays by themselves: the first",
         SCATTER_TWO("    %s = stablehlo.add %a, %b : " I32 "\n    stablehlo.return %s, %d : " I32 ", " I32 "\n")
             FIRST_RESULT("tensor<4xi32>"),
         "4xi32", "[1, 32, 3, 4]"},
        {"two arrays by themselves: the second",
         SCATTER_TWO("    %s = stablehlo.add %a, %b : " I32 "\n    stablehlo.return %s, %d : " I32 ", " I32 "\n")
             SECOND_RESULT("tensor<4xi32>"),
         "4xi32", "[5, 2, 5, 5]"},
        {"two arrays that look at each other",
         SCATTER_TWO("    %s = stablehlo.add %a, %d : " I32 "\n    %m = stablehlo.multiply %c, %a : " I32
                     "\n    stablehlo.return %s, %m : " I32 ", " I32 "\n") SECOND_RESULT("tensor<4xi32>"),
         "4xi32", "[5, 30, 5, 5]"},
    };
    CHECK_PROGRAMS(rows);
}

/* ---- select_and_scatter ---- */

#define SIX "  %x = stablehlo.constant dense<[1, 5, 2, 8, 3, 3]> : tensor<6xi32>\n"
#define SELECT(direction)                                                       \
    "    %c = stablehlo.compare " direction ", %a, %b, SIGNED : (" I32 ", " I32 \
    ") -> tensor<i1>\n" RETURN("c", "tensor<i1>")
#define SPREAD(geometry, select, combine, sources)                                                               \
    "  %r = \"stablehlo.select_and_scatter\"(%x, %u, %z) <{" geometry "}> ({\n  ^bb0(%a: " I32 ", %b: " I32      \
    "):\n" select "  }, {\n  ^bb0(%a: " I32 ", %b: " I32 "):\n" combine "  }) : (tensor<6xi32>, tensor<" sources \
    "xi32>, " I32 ") -> tensor<6xi32>"
#define BY_THREE "window_dimensions = array<i64: 3>, window_strides = array<i64: 3>"
#define TWO_SOURCES "  %u = stablehlo.constant dense<[10, 20]> : tensor<2xi32>\n"

TEST(stablehlo_selections)
{
    static const program rows[] = {
        {"largest", SIX TWO_SOURCES NUMBER("z", "1") SPREAD(BY_THREE, SELECT("GE"), COMBINE("add"), "2"), "6xi32",
         "[1, 11, 1, 21, 1, 1]"},
        {"smallest, the first of equals",
         SIX TWO_SOURCES NUMBER("z", "0") SPREAD(BY_THREE, SELECT("LE"), COMBINE("add"), "2"), "6xi32",
         "[10, 0, 0, 0, 20, 0]"},
        {"smallest, the last of equals",
         SIX TWO_SOURCES NUMBER("z", "0") SPREAD(BY_THREE, SELECT("LT"), COMBINE("add"), "2"), "6xi32",
         "[10, 0, 0, 0, 0, 20]"},
        {"operands exchanged",
         SIX TWO_SOURCES NUMBER("z", "0") SPREAD(BY_THREE,
                                                 "    %c = stablehlo.compare GE, %b, %a, SIGNED : (" I32 ", " I32
                                                 ") -> tensor<i1>\n" RETURN("c", "tensor<i1>"),
                                                 COMBINE("add"), "2"),
         "6xi32", "[10, 0, 0, 0, 20, 0]"},
        {"any selection", SIX TWO_SOURCES NUMBER("z", "0") SPREAD(BY_THREE, SELECT("NE"), COMBINE("maximum"), "2"),
         "6xi32", "[10, 0, 0, 20, 0, 0]"},
        {"windows that overlap, and padding",
         SIX "  %u = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>\n" NUMBER("z", "0")
             SPREAD("window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<[[1, 2]]> : "
                    "tensor<1x2xi64>",
                    SELECT("GE"), COMBINE("add"), "4"),
         "6xi32", "[0, 1, 0, 5, 0, 4]"},
        {"scalars from outside",
         SIX TWO_SOURCES NUMBER("z", "1") SPREAD(BY_THREE,
                                                 "    %m = stablehlo.multiply %a, %q : " I32
                                                 "\n    %c = stablehlo.compare GE, %m, %b, SIGNED : (" I32 ", " I32
                                                 ") -> tensor<i1>\n" RETURN("c", "tensor<i1>"),
                                                 DOUBLED_PLUS("q"), "2"),
         "6xi32", "[1, 12, 1, 22, 1, 1]"},
    };
    CHECK_PROGRAMS(rows);
}

/* ---- Sort ---- */

#define KEYS "  %x = stablehlo.constant dense<[3, 1, 2, 1, 3]> : tensor<5xi32>\n"
#define SORT1(body)                                                                                            \
    "  %r = \"stablehlo.sort\"(%x) <{dimension = 0 : i64, is_stable = true}> ({\n  ^bb0(%a: " I32 ", %b: " I32 \
    "):\n" body "  }) : (tensor<5xi32>) -> tensor<5xi32>"
#define SORT2(body)                                                                      \
    "  %n = stablehlo.iota dim = 0 : tensor<5xi32>\n"                                    \
    "  %o:2 = \"stablehlo.sort\"(%x, %n) <{dimension = 0 : i64, is_stable = true}> ({\n" \
    "  ^bb0(%a: " I32 ", %b: " I32 ", %i: " I32 ", %k: " I32 "):\n" body                 \
    "  }) : (tensor<5xi32>, tensor<5xi32>) -> (tensor<5xi32>, tensor<5xi32>)\n" SECOND_RESULT("tensor<5xi32>")
#define SORT_F32(body)                                                                                  \
    "  %x = stablehlo.constant dense<[0x7FC00000, 0.0, -1.0, -0.0, 0xFFC00000, 2.0]> : tensor<6xf32>\n" \
    "  %n = stablehlo.iota dim = 0 : tensor<6xi32>\n"                                                   \
    "  %o:2 = \"stablehlo.sort\"(%x, %n) <{dimension = 0 : i64, is_stable = true}> ({\n"                \
    "  ^bb0(%a: " F32 ", %b: " F32 ", %i: " I32 ", %k: " I32 "):\n" body                                \
    "  }) : (tensor<6xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xi32>)\n" SECOND_RESULT("tensor<6xi32>")
#define COMPARE(name, direction, a, b) \
    "    %" name " = stablehlo.compare " direction ", %" a ", %" b ", SIGNED : (" I32 ", " I32 ") -> tensor<i1>\n"
#define DISTANCE(name, x) \
    "    %s" name " = stablehlo.subtract %" x ", %q : " I32 "\n    %" name " = stablehlo.abs %s" name " : " I32 "\n"
#define CANONICAL(name, x)                                                                                  \
    "    %z" name " = stablehlo.constant dense<0.0> : " F32 "\n"                                            \
    "    %e" name " = stablehlo.compare EQ, %" x ", %z" name ", FLOAT : (" F32 ", " F32 ") -> tensor<i1>\n" \
    "    %s" name " = stablehlo.select %e" name ", %z" name ", %" x " : tensor<i1>, " F32 "\n"              \
    "    %u" name " = stablehlo.compare NE, %" x ", %" x ", FLOAT : (" F32 ", " F32 ") -> tensor<i1>\n"     \
    "    %m" name " = stablehlo.constant dense<0x7FC00000> : " F32 "\n"                                     \
    "    %" name " = stablehlo.select %u" name ", %m" name ", %s" name " : tensor<i1>, " F32 "\n"
#define FIRST RETURN("f", "tensor<i1>")

TEST(stablehlo_sorts)
{
    static const program rows[] = {
        {"ascending", KEYS SORT1(COMPARE("f", "LT", "a", "b") FIRST), "5xi32", "[1, 1, 2, 3, 3]"},
        {"descending", KEYS SORT1(COMPARE("f", "GT", "a", "b") FIRST), "5xi32", "[3, 3, 2, 1, 1]"},
        {"operands exchanged", KEYS SORT1(COMPARE("f", "LT", "b", "a") FIRST), "5xi32", "[3, 3, 2, 1, 1]"},
        {"with positions", KEYS SORT2(COMPARE("f", "LT", "a", "b") FIRST), "5xi32", "[1, 3, 2, 0, 4]"},
        {"with positions, descending", KEYS SORT2(COMPARE("f", "GT", "a", "b") FIRST), "5xi32", "[0, 4, 2, 1, 3]"},
        {"by the second array", KEYS SORT2(COMPARE("f", "GT", "i", "k") FIRST), "5xi32", "[4, 3, 2, 1, 0]"},
        {"by two keys",
         KEYS SORT2(COMPARE("l", "GT", "a", "b") COMPARE("e", "EQ", "a", "b") COMPARE(
             "t", "GT", "i",
             "k") "    %u = stablehlo.and %e, %t : tensor<i1>\n    %f = stablehlo.or %l, %u : tensor<i1>\n" FIRST),
         "5xi32", "[4, 0, 2, 3, 1]"},
        {"by two keys in two directions",
         KEYS SORT2(COMPARE("l", "LT", "a", "b") COMPARE("e", "EQ", "a", "b") COMPARE(
             "t", "GT", "i",
             "k") "    %u = stablehlo.and %t, %e : tensor<i1>\n    %f = stablehlo.or %u, %l : tensor<i1>\n" FIRST),
         "5xi32", "[3, 1, 2, 4, 0]"},
        {"by distance from a value that only a run knows",
         KEYS SORT2(DISTANCE("da", "a") DISTANCE("db", "b") COMPARE("f", "LT", "da", "db") FIRST), "5xi32",
         "[2, 0, 1, 3, 4]"},
        {"by no order of keys, with a value that only a run knows",
         KEYS SORT2(DISTANCE("da", "a") COMPARE("l", "LT", "da", "q")
                        COMPARE("t", "GT", "i", "k") "    %f = stablehlo.and %l, %t : tensor<i1>\n" FIRST),
         "5xi32", "[4, 3, 2, 1, 0]"},
        {"floats: NaN last, equal zeros keep their places",
         SORT_F32(CANONICAL("x1", "a")
                      CANONICAL("x2", "b") "    %f = stablehlo.compare LT, %x1, %x2, TOTALORDER : (" F32 ", " F32
                                           ") -> tensor<i1>\n" FIRST),
         "6xi32", "[2, 1, 3, 5, 0, 4]"},
        {"floats in total order",
         SORT_F32("    %f = stablehlo.compare LT, %a, %b, TOTALORDER : (" F32 ", " F32 ") -> tensor<i1>\n" FIRST),
         "6xi32", "[4, 2, 3, 1, 5, 0]"},
    };
    CHECK_PROGRAMS(rows);
}

/* ---- Loops and branches ---- */

#define BOOL "tensor<i1>"
#define PAIR "tuple<" I32 ", " I32 ">"

/* Two carries: %i counts to the limit, %d starts as `start` and becomes %g. Row %v is made by `read`; %w is that plus
   0, 1, 2. */
#define COUNTED(limit, start, type, read, write)                                                                     \
    NUMBER("z", "0")                                                                                                 \
    NUMBER("one", "1")                                                                                               \
    NUMBER("limit", limit)                                                                                           \
    "  %ramp = stablehlo.iota dim = 0 : tensor<3xi32>\n"                                                             \
    "  %o:2 = stablehlo.while(%i = %z, %d = " start ") : " I32 ", " type "\n  cond {\n"                              \
    "    %c = stablehlo.compare LT, %i, %limit, SIGNED : (" I32 ", " I32 ") -> " BOOL                                \
    "\n" RETURN("c", BOOL) "  } do {\n" read "    %w = stablehlo.add %v, %ramp : tensor<3xi32>\n" write              \
                           "    %n = stablehlo.add %i, %one : " I32 "\n    stablehlo.return %n, %g : " I32 ", " type \
                           "\n  }\n"
#define ROW(x, i)                                                                                           \
    "    %s = stablehlo.dynamic_slice %" x ", %" i ", %z, sizes = [1, 3] : (tensor<2x3xi32>, " I32 ", " I32 \
    ") -> tensor<1x3xi32>\n    %v = stablehlo.reshape %s : (tensor<1x3xi32>) -> tensor<3xi32>\n"

TEST(stablehlo_loops_and_branches)
{
    static const program rows[] = {
        {"a loop that counts, with values from outside",
         NUMBER("z", "0") NUMBER("one", "1")
             NUMBER("five", "5") "  %o:2 = stablehlo.while(%i = %z, %v = %q) : " I32 ", " I32 "\n  cond {\n"
                                 "    %c = stablehlo.compare LT, %i, %five, SIGNED : (" I32 ", " I32 ") -> " BOOL
                                 "\n" RETURN("c", BOOL) "  } do {\n    %n = stablehlo.add %i, %one : " I32
                                                        "\n    %w = stablehlo.multiply %v, %q : " I32 "\n"
                                                        "    stablehlo.return %n, %w : " I32 ", " I32
                                                        "\n  }\n" SECOND_RESULT(I32),
         "i32", "64"},
        {"a loop that ends on a value",
         NUMBER("hundred", "100") "  %r = stablehlo.while(%v = %q) : " I32 "\n  cond {\n"
                                  "    %c = stablehlo.compare LT, %v, %hundred, SIGNED : (" I32 ", " I32 ") -> " BOOL
                                  "\n" RETURN("c", BOOL) "  } do {\n    %w = stablehlo.multiply %v, %v : " I32
                                                         "\n" RETURN("w", I32) "  }",
         "i32", "256"},
        {"a loop that never runs",
         NUMBER("z", "0") "  %r = stablehlo.while(%v = %q) : " I32 "\n  cond {\n"
                          "    %c = stablehlo.compare LT, %v, %z, SIGNED : (" I32 ", " I32 ") -> " BOOL "\n" RETURN(
                              "c", BOOL) "  } do {\n    %w = stablehlo.negate %v : " I32 "\n" RETURN("w", I32) "  }",
         "i32", "2"},
        {"a loop in a loop",
         NUMBER("z", "0") NUMBER("one", "1") NUMBER(
             "three",
             "3") "  %o:2 = stablehlo.while(%i = %z, %v = %z) : " I32 ", " I32 "\n  cond {\n"
                  "    %c = stablehlo.compare LT, %i, %three, SIGNED : (" I32 ", " I32 ") -> " BOOL "\n" RETURN(
                      "c", BOOL) "  } do {\n"
                                 "    %p2:2 = stablehlo.while(%j = %z, %w = %v) : " I32 ", " I32 "\n    cond {\n"
                                 "      %c = stablehlo.compare LE, %j, %i, SIGNED : (" I32 ", " I32 ") -> " BOOL
                                 "\n" RETURN("c", BOOL) "    } do {\n      %k = stablehlo.add %j, %one : " I32
                                                        "\n      %t = stablehlo.add %w, %q : " I32 "\n"
                                                        "      stablehlo.return %k, %t : " I32 ", " I32 "\n    }\n"
                                                        "    %n = stablehlo.add %i, %one : " I32
                                                        "\n    stablehlo.return %n, %p2#1 : " I32 ", " I32
                                                        "\n  }\n" SECOND_RESULT(I32),
         "i32", "12"},
        {"a loop over a tuple",
         NUMBER("z", "0") NUMBER("one", "1") NUMBER(
             "four",
             "4") "  %t = stablehlo.tuple %z, %q : " PAIR "\n  %o = \"stablehlo.while\"(%t) ({\n  ^bb0(%a: " PAIR "):\n"
                  "    %i = stablehlo.get_tuple_element %a[0] : (" PAIR ") -> " I32 "\n"
                  "    %c = stablehlo.compare LT, %i, %four, SIGNED : (" I32 ", " I32 ") -> " BOOL "\n" RETURN(
                      "c", BOOL) "  }, {\n  ^bb0(%a: " PAIR "):\n"
                                 "    %i = stablehlo.get_tuple_element %a[0] : (" PAIR ") -> " I32 "\n"
                                 "    %v = stablehlo.get_tuple_element %a[1] : (" PAIR ") -> " I32 "\n"
                                 "    %n = stablehlo.add %i, %one : " I32 "\n    %w = stablehlo.add %v, %v : " I32 "\n"
                                 "    %u = stablehlo.tuple %n, %w : " PAIR "\n" RETURN(
                                     "u", PAIR) "  }) : (" PAIR ") -> " PAIR
                                                "\n  %r = stablehlo.get_tuple_element %o[1] : (" PAIR ") -> " I32,
         "i32", "32"},
        {"a loop over rows",
         MATRIX COUNTED(
             "2", "%x",
             "tensor<2x3xi32>", ROW("x", "i"),
             "    %u = stablehlo.reshape %w : (tensor<3xi32>) -> tensor<1x3xi32>\n"
             "    %g = stablehlo.dynamic_update_slice %d, %u, %i, %z : (tensor<2x3xi32>, tensor<1x3xi32>, " I32 ", " I32
             ") -> tensor<2x3xi32>\n") SECOND_RESULT("tensor<2x3xi32>"),
         "2x3xi32", "[[1, 3, 5], [4, 6, 8]]"},
        {"a loop over rows from the last to the first",
         MATRIX COUNTED(
             "2", "%x",
             "tensor<2x3xi32>",
             "    %l = stablehlo.subtract %limit, %i : " I32 "\n    %j = stablehlo.subtract %l, %one : " I32
             "\n" ROW("x", "j"),
             "    %u = stablehlo.reshape %w : (tensor<3xi32>) -> tensor<1x3xi32>\n"
             "    %g = stablehlo.dynamic_update_slice %d, %u, %j, %z : (tensor<2x3xi32>, tensor<1x3xi32>, " I32 ", " I32
             ") -> tensor<2x3xi32>\n") SECOND_RESULT("tensor<2x3xi32>"),
         "2x3xi32", "[[1, 3, 5], [4, 6, 8]]"},
        {"a loop over some of the rows",
         MATRIX COUNTED(
             "1", "%x",
             "tensor<2x3xi32>", ROW("x", "i"),
             "    %u = stablehlo.reshape %w : (tensor<3xi32>) -> tensor<1x3xi32>\n"
             "    %g = stablehlo.dynamic_update_slice %d, %u, %i, %z : (tensor<2x3xi32>, tensor<1x3xi32>, " I32 ", " I32
             ") -> tensor<2x3xi32>\n") SECOND_RESULT("tensor<2x3xi32>"),
         "2x3xi32", "[[1, 3, 5], [4, 5, 6]]"},
        {"a loop that reads what it has written",
         MATRIX COUNTED(
             "2", "%x",
             "tensor<2x3xi32>", ROW("d", "z"),
             "    %u = stablehlo.reshape %w : (tensor<3xi32>) -> tensor<1x3xi32>\n"
             "    %g = stablehlo.dynamic_update_slice %d, %u, %i, %z : (tensor<2x3xi32>, tensor<1x3xi32>, " I32 ", " I32
             ") -> tensor<2x3xi32>\n") SECOND_RESULT("tensor<2x3xi32>"),
         "2x3xi32", "[[1, 3, 5], [1, 4, 7]]"},
        {"a branch that a run decides",
         NUMBER("five", "5") "  %c = stablehlo.compare LT, %five, %q, SIGNED : (" I32 ", " I32 ") -> " BOOL "\n"
                             "  %r = \"stablehlo.if\"(%c) ({\n" RETURN(
                                 "five", I32) "  }, {\n"
                                              "    %n = stablehlo.negate %q : " I32
                                              "\n" RETURN("n", I32) "  }) : (" BOOL ") -> " I32,
         "i32", "-2"},
        {"a branch that is known: the other one is not looked at",
         "  %c = stablehlo.constant dense<true> : " BOOL "\n"
         "  %r = \"stablehlo.if\"(%c) ({\n" RETURN("q", I32) "  }, {\n"
                                                             "    %n = stablehlo.custom_call @nowhere(%q) : (" I32
                                                             ") -> " I32 "\n" RETURN("n", I32) "  }) : (" BOOL
                                                                                               ") -> " I32,
         "i32", "2"},
        {"one of several",
         NUMBER("five", "5") NUMBER("one", "1") "  %k = stablehlo.subtract %q, %one : " I32 "\n"
                                                "  %r = \"stablehlo.case\"(%k) ({\n" RETURN("q", I32) "  }, {\n" RETURN(
                                                    "five", I32) "  }, {\n" RETURN("one", I32) "  }) : (" I32
                                                                                               ") -> " I32,
         "i32", "5"},
        {"the last one for any other index",
         NUMBER("five", "5") "  %k = stablehlo.negate %q : " I32 "\n"
                             "  %r = \"stablehlo.case\"(%k) ({\n" RETURN("q", I32) "  }, {\n" RETURN(
                                 "five", I32) "  }) : (" I32 ") -> " I32,
         "i32", "5"},
        {"a known index",
         NUMBER("z", "0") "  %r = \"stablehlo.case\"(%z) ({\n" RETURN("q", I32) "  }, {\n" RETURN(
             "z", I32) "  }) : (" I32 ") -> " I32,
         "i32", "2"},
    };
    CHECK_PROGRAMS(rows);
}

/* Loops that count are not left as they are written. */
TEST(stablehlo_loops_over_rows_become_scans)
{
    static const program row = {
        "rows, backwards",
        MATRIX "  %y = stablehlo.negate %x : tensor<2x3xi32>\n" COUNTED(
            "2", "%x", "tensor<2x3xi32>",
            "    %l = stablehlo.subtract %limit, %i : " I32 "\n    %j = stablehlo.subtract %l, %one : " I32
            "\n" ROW("y", "j"),
            "    %u = stablehlo.reshape %w : (tensor<3xi32>) -> tensor<1x3xi32>\n"
            "    %g = stablehlo.dynamic_update_slice %d, %u, %j, %z : (tensor<2x3xi32>, tensor<1x3xi32>, " I32 ", " I32
            ") -> tensor<2x3xi32>\n") SECOND_RESULT("tensor<2x3xi32>"),
        "2x3xi32", "0"};
    static text t;
    flx_error err = {0};
    flx_buffer printed = {0};
    flx_context *ctx = flx_context_new(NULL);
    const char *source = checking(&t, &row, 1);
    flx_module *m = flx_import_stablehlo(ctx, source, strlen(source), "t.mlir", &err);
    CHECK_MSG(m, "%s", err.message);
    CHECK_OK(flx_graph_print(flx_module_main(m), &printed, &err), &err);
    CHECK(strstr(printed.data, "reverse=true"));
    CHECK(!strstr(printed.data, "while(") && !strstr(printed.data, "dynamic_slice(") &&
          !strstr(printed.data, "dynamic_update_slice("));
    flx_buffer_free(&printed);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- One process ---- */

TEST(stablehlo_operations_of_one_process)
{
    static const program rows[] = {
        {"all_reduce",
         MATRIX
         "  %r = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({\n  ^bb0(%a: " I32
         ", %b: " I32 "):\n" COMBINE("add") "  }) : (tensor<2x3xi32>) -> tensor<2x3xi32>",
         "2x3xi32", "[[1, 2, 3], [4, 5, 6]]"},
        {"all_gather",
         FOUR "  %r = \"stablehlo.all_gather\"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : "
              "tensor<1x1xi64>}> : "
              "(tensor<4xi32>) -> tensor<4xi32>",
         "4xi32", "[1, 2, 3, 4]"},
        {"collective_permute",
         FOUR "  %r = \"stablehlo.collective_permute\"(%x) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : "
              "(tensor<4xi32>) -> tensor<4xi32>",
         "4xi32", "[1, 2, 3, 4]"},
        {"collective_permute without a source",
         FOUR "  %r = \"stablehlo.collective_permute\"(%x) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : "
              "(tensor<4xi32>) -> tensor<4xi32>",
         "4xi32", "0"},
        {"numbers of the process",
         "  %a = stablehlo.partition_id : tensor<ui32>\n  %b = stablehlo.replica_id : tensor<ui32>\n"
         "  %r = stablehlo.add %a, %b : tensor<ui32>",
         "ui32", "0"},
    };
    CHECK_PROGRAMS(rows);
}

/* ---- What is refused ---- */

TEST(stablehlo_regions_that_are_refused)
{
    static const struct {
        const char *lines; /* from line 2 on */
        flx_code code;
        const char *where, *message;
    } rows[] = {
        {MATRIX NUMBER("init",
                       "0") "  %r = \"stablehlo.reduce\"(%x, %init) <{dimensions = array<i64: 1>}> ({\n  ^bb0(%a: " I32
                            "):\n" RETURN("a", I32) "  }) : (tensor<2x3xi32>, " I32 ") -> tensor<2xi32>",
         FLX_E_ARITY, "t.mlir:4:8", "stablehlo.reduce: "},
        {FOUR INDICES UPDATES "  %r = \"stablehlo.scatter\"(%x, %i) <{" POINTS "}> ({\n  ^bb0(%a: " I32 ", %b: " I32
                              "):\n" COMBINE("add") "  }) : (tensor<4xi32>, tensor<4x1xi64>) -> tensor<4xi32>",
         FLX_E_ARITY, "t.mlir:5:8", "stablehlo.scatter"},
        {FOUR "  %y = \"stablehlo.broadcast_in_dim\"(%q) <{broadcast_dimensions = array<i64>}> : (" I32
              ") -> tensor<4xi32>\n"
              "  %z = stablehlo.constant dense<0> : " I32 "\n"
              "  %r = \"stablehlo.reduce\"(%x, %z) <{dimensions = array<i64: 0>}> ({\n  ^bb0(%a: " I32 ", %b: " I32
              "):\n"
              "    %s = stablehlo.slice %y [1:2] : (tensor<4xi32>) -> tensor<1xi32>\n"
              "    %t = stablehlo.reshape %s : (tensor<1xi32>) -> " I32 "\n"
              "    %u = stablehlo.add %a, %t : " I32 "\n" RETURN("u", I32) "  }) : (tensor<4xi32>, " I32 ") -> " I32,
         FLX_E_UNSUPPORTED, "t.mlir:5:8", "stablehlo.reduce: its region uses a tensor from outside"},
        {FOUR "  %r = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n  "
              "^bb0(%a: " I32 ", %b: " I32 "):\n" COMBINE("add") "  }) : (tensor<4xi32>) -> tensor<4xi32>",
         FLX_E_UNSUPPORTED, "t.mlir:3:8", "stablehlo.all_reduce: more than one process"},
        {"  %x = stablehlo.constant dense<[1.5, 2.5]> : tensor<2xf32>\n  %z = stablehlo.constant dense<0> : " I32 "\n"
         "  %r = \"stablehlo.reduce\"(%x, %z) <{dimensions = array<i64: 0>}> ({\n  ^bb0(%a: " I32 ", %b: " I32
         "):\n" COMBINE("add") "  }) : (tensor<2xf32>, " I32 ") -> " I32,
         FLX_E_DTYPE, "t.mlir:4:8", "stablehlo.reduce"},
        {"  %t = stablehlo.create_token : !stablehlo.token\n"
         "  %o = \"stablehlo.outfeed\"(%q, %t) <{outfeed_config = \"\"}> : (" I32
         ", !stablehlo.token) -> !stablehlo.token\n"
         "  %r = stablehlo.add %q, %q : " I32,
         FLX_E_UNSUPPORTED, "t.mlir:3:8", "stablehlo.outfeed"},
        {"  %r = stablehlo.while(%v = %q) : " I32 "\n  cond {\n" RETURN("v", I32) "  } do {\n" RETURN("v", I32) "  }",
         FLX_E_DTYPE, "t.mlir:2:8", "stablehlo.while"},
        {"  %c = stablehlo.compare LT, %q, %q, SIGNED : (" I32 ", " I32 ") -> " BOOL "\n"
         "  %r = \"stablehlo.if\"(%c) ({\n" RETURN("q", I32) "  }, {\n" RETURN("p", F32) "  }) : (" BOOL ") -> " I32,
         FLX_E_DTYPE, "t.mlir:3:8", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static text t;
        flx_error err;
        t.size = 0;
        append(&t, "func.func public @main%s {\n%s\n  return\n}\n", arguments, rows[i].lines);
        flx_code code = outcome(t.data, "ref", &err);
        EXPECT_MSG(code == rows[i].code && strcmp(err.where, rows[i].where) == 0 &&
                       strstr(err.message, rows[i].message),
                   "row %zu: code %d at %s: %s", i, (int)code, err.where, err.message);
        test_count_case();
    }
}
