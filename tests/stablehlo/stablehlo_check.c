/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_check.c: the checks of self-checking programs: what they let pass, what they do not, and what they say. */
#include "test.h"

#include <fluxion/exec.h>
#include <fluxion/run.h>
#include <fluxion/stablehlo.h>
#include <stdio.h>
#include <string.h>

/* The code of importing and running the text, by the reference evaluator or compiled. */
static flx_code outcome(const char *text, bool compiled, flx_error *err)
{
    *err = (flx_error){0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_import_stablehlo(ctx, text, strlen(text), "t.mlir", err);
    const flx_graph *g = m ? flx_module_main(m) : NULL;
    flx_exec *exec = g && compiled ? flx_compile(g, NULL, err) : NULL;
    flx_tensor *out = NULL;
    if (exec)
        flx_exec_run(exec, NULL, NULL, 0, &out, err);
    else if (g && !compiled)
        flx_run(g, ON_REF, NULL, 0, &out, err);
    flx_tensor_release(out);
    flx_exec_free(exec);
    flx_module_free(m);
    flx_context_free(ctx);
    return (flx_code)err->code;
}

/* A program that compares two literals of one type. */
static const char *comparing(const char *check, const char *type, const char *a, const char *b)
{
    static char text[1000];
    snprintf(text, sizeof text,
             "func.func public @main() -> tensor<%s> {\n"
             "  %%a = stablehlo.constant dense<%s> : tensor<%s>\n"
             "  %%b = stablehlo.constant dense<%s> : tensor<%s>\n"
             "  stablehlo.custom_call @check.%s(%%a, %%b) {has_side_effect = true} : (tensor<%s>, tensor<%s>) -> ()\n"
             "  return %%a : tensor<%s>\n"
             "}\n",
             type, a, type, b, type, check, type, type, type);
    return text;
}

TEST(stablehlo_checks_decide)
{
    static const struct {
        const char *check, *type, *a, *b;
        bool holds;
    } rows[] = {
        {"expect_eq", "2xf32", "[1.0, -0.0]", "[1.0, -0.0]", true},
        {"expect_eq", "2xf32", "[1.0, -0.0]", "[1.0, 0.0]", false},
        {"expect_eq", "f32", "0x7FC00000", "0xFFC00001", true},
        {"expect_eq", "f32", "0x7FC00000", "1.0", false},
        {"expect_eq", "f64", "1.0", "1.0000000000000002", false},
        {"expect_eq", "f16", "0x7C00", "0x7C00", true},
        {"expect_eq", "bf16", "1.0", "0x3F81", false},
        {"expect_eq", "3xi8", "[1, -128, 127]", "[1, -128, 127]", true},
        {"expect_eq", "3xi8", "[1, -128, 127]", "[1, -128, 126]", false},
        {"expect_eq", "ui64", "18446744073709551615", "18446744073709551614", false},
        {"expect_eq", "2xi1", "[true, false]", "[true, true]", false},
        {"expect_eq", "complex<f32>", "(1.0, 2.0)", "(1.0, 2.0)", true},
        {"expect_eq", "complex<f32>", "(1.0, 2.0)", "(1.0, 2.5)", false},
        {"expect_eq", "0xf32", "[]", "[]", true},
        {"expect_close", "f32", "1.0", "0x3F800003", true},
        {"expect_close", "f32", "1.0", "0x3F800004", false},
        {"expect_close", "f32", "-1.0", "0xBF800003", true},
        {"expect_close", "f32", "0x00000001", "0x80000002", true}, /* over zero: three steps */
        {"expect_close", "f32", "0x00000002", "0x80000002", false},
        {"expect_close", "f32", "0.0", "-0.0", true},
        {"expect_close", "f32", "0x7F800000", "0x7F7FFFFF", false}, /* next to each other, but infinite */
        {"expect_close", "f32", "0x7F800000", "0x7F800000", true},
        {"expect_close", "f32", "0x7F800000", "0xFF800000", false},
        {"expect_close", "f32", "0x7FC00000", "0x7FC00001", true},
        {"expect_close", "f32", "0x7FC00000", "0x7F800000", false},
        {"expect_close", "f64", "0x3FF0000000000000", "0x3FF0000000000003", true},
        {"expect_close", "f64", "0x3FF0000000000000", "0x3FF0000000000004", false},
        {"expect_close", "f64", "0x8000000000000001", "0x0000000000000002", true},
        {"expect_close", "f16", "0x3C00", "0x3C03", true},
        {"expect_close", "f16", "0x3C00", "0x3C04", false},
        {"expect_close", "bf16", "0x3F80", "0x3F84", false},
        {"expect_close", "complex<f64>", "(1.0, 0x3FF0000000000000)", "(1.0, 0x3FF0000000000003)", true},
        {"expect_close", "complex<f64>", "(1.0, 0x3FF0000000000000)", "(1.0, 0x3FF0000000000004)", false},
        {"expect_close", "i32", "5", "6", false},
        {"expect_almost_eq", "f32", "1.0", "1.0009", true},
        {"expect_almost_eq", "f32", "1.0", "1.0011", false},
        {"expect_almost_eq", "f32", "0xFF800000", "0xFF800000", true},
        {"expect_almost_eq", "f32", "0x7FC00000", "1.0", false},
        {"expect_almost_eq", "f64", "100000.0", "100000.0011", false},
        {"expect_almost_eq", "complex<f32>", "(1.0, 2.0)", "(1.0005, 1.9995)", true},
        {"expect_almost_eq", "i32", "5", "6", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int compiled = 0; compiled < 2; compiled++) {
            flx_error err;
            flx_code code = outcome(comparing(rows[i].check, rows[i].type, rows[i].a, rows[i].b), compiled, &err);
            test_fail_context("%s of %s %s and %s, %s: %s", rows[i].check, rows[i].type, rows[i].a, rows[i].b,
                              compiled ? "compiled" : "by the reference", err.message);
            CHECK_EQ_I64(code, rows[i].holds ? FLX_OK : FLX_E_CHECK);
        }
        test_count_case();
    }
}

TEST(stablehlo_checks_say_what_differs)
{
    flx_error err;
    outcome(comparing("expect_eq", "2x2xi32", "[[1, 2], [3, 4]]", "[[1, 2], [3, 5]]"), false, &err);
    CHECK_EQ_STR(err.message,
                 "check: check.expect_eq(%a, %b) at line 4 (element [1, 1] of ok is false, where x is 4, 5)");
    outcome(comparing("expect_close", "f32", "1.5", "0.1"), true, &err);
    CHECK_EQ_STR(err.message, "check: check.expect_close(%a, %b) at line 4 (ok is false, where x is 1.5, 0.1)");
    outcome(comparing("expect_eq", "complex<f64>", "(1.0, 2.0)", "(1.0, -2.0)"), false, &err);
    CHECK_EQ_STR(err.message, "check: check.expect_eq(%a, %b) at line 4 (ok is false, where x is [1, 2], [1, -2])");
}

TEST(stablehlo_checks_take_distances)
{
    static const char text[] =
        "func.func public @main() -> tensor<f32> {\n"
        "  %%a = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "  %%b = stablehlo.constant dense<0x3F80000A> : tensor<f32>\n"
        "  stablehlo.custom_call @check.expect_close(%%a, %%b) {has_side_effect = true, max_ulp_difference = %d : i64, "
        "min_ulp_difference = %d : i64} : (tensor<f32>, tensor<f32>) -> ()\n"
        "  return %%a : tensor<f32>\n"
        "}\n";
    static const struct {
        int most, least;
        bool holds;
    } rows[] = {{10, 0, true}, {9, 0, false}, {20, 10, true}, {20, 11, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char program[600];
        flx_error err;
        snprintf(program, sizeof program, text, rows[i].most, rows[i].least);
        flx_code code = outcome(program, false, &err);
        test_fail_context("%d to %d: %s", rows[i].least, rows[i].most, err.message);
        CHECK_EQ_I64(code, rows[i].holds ? FLX_OK : FLX_E_CHECK);
    }
}

TEST(stablehlo_checks_refuse_what_cannot_be_compared)
{
    static const char frame[] = "func.func public @main(%%a: tensor<2xf32>, %%b: tensor<2xf64>, %%c: tensor<3xf32>, "
                                "%%d: tensor<1xf32>, %%t: tuple<tensor<2xf32>, tensor<2xf32>>) {\n"
                                "  %s\n"
                                "  return\n"
                                "}\n";
    static const struct {
        const char *call, *message;
    } rows[] = {
        {"stablehlo.custom_call @check.expect_eq(%a) : (tensor<2xf32>) -> ()", "2 values"},
        {"stablehlo.custom_call @check.expect_eq(%a, %b) : (tensor<2xf32>, tensor<2xf64>) -> ()", "different types"},
        {"stablehlo.custom_call @check.expect_eq(%t) : (tuple<tensor<2xf32>, tensor<2xf32>>) -> ()", "2 values"},
        {"stablehlo.custom_call @check.expect_close(%a, %d) : (tensor<2xf32>, tensor<1xf32>) -> ()", "different types"},
        {"stablehlo.custom_call @check.expect_close(%a, %c) : (tensor<2xf32>, tensor<3xf32>) -> ()", "different types"},
        {"stablehlo.custom_call @check.expect_nothing(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> ()",
         "@check.expect_nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[600];
        flx_error err;
        snprintf(text, sizeof text, frame, rows[i].call);
        CHECK(outcome(text, false, &err) != FLX_OK);
        CHECK_MSG(strstr(err.message, rows[i].message), "%s", err.message);
        CHECK_EQ_STR(err.where, "t.mlir:2:3");
    }
}
