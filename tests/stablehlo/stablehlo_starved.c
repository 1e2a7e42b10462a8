/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_starved.c: importing while memory runs out at any moment: an error that says so, and nothing is leaked. */
#include "fault.h"
#include "test.h"

#include <fluxion/stablehlo.h>
#include <fluxion/text.h>
#include <string.h>

#define Q "!quant.uniform<i8:f32:1, {0.5:1, 2.0}>"

static const char *const programs[] = {
    /* shapes from extents, in a loop too; two arguments of one extent, a multiple */
    "func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?x2xf32> {\n"
    "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>\n"
    "  %c = stablehlo.constant dense<2> : tensor<i32>\n  %z = stablehlo.constant dense<0> : tensor<i32>\n"
    "  %m = stablehlo.remainder %n, %c : tensor<i32>\n"
    "  %e = stablehlo.compare EQ, %m, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "  stablehlo.custom_call @shape_assertion(%e) {error_message = \"odd\", has_side_effect = true} : (tensor<i1>) -> "
    "()\n"
    "  %a = stablehlo.add %x, %y : tensor<?xf32>\n  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
    "  %r:2 = stablehlo.while(%k = %z, %v = %a) : tensor<i32>, tensor<?xf32>\n  cond {\n"
    "    %t = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    stablehlo.return %t : "
    "tensor<i1>\n"
    "  } do {\n    %k2 = stablehlo.add %k, %c : tensor<i32>\n    %one = stablehlo.constant dense<1.0> : tensor<f32>\n"
    "    %w = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>\n"
    "    %v2 = stablehlo.add %v, %w : tensor<?xf32>\n    stablehlo.return %k2, %v2 : tensor<i32>, tensor<?xf32>\n  }\n"
    "  %h = stablehlo.divide %n, %c : tensor<i32>\n  %i = stablehlo.reshape %h : (tensor<i32>) -> tensor<1xi32>\n"
    "  %j = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>\n"
    "  %l = stablehlo.concatenate %i, %j, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
    "  %o = stablehlo.dynamic_reshape %r#1, %l : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x2xf32>\n"
    "  return %o : tensor<?x2xf32>\n}\n",
    /* quantised and narrow types */
    "func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xi4> {\n"
    "  %q = stablehlo.uniform_quantize %x : (tensor<2x2xf32>) -> tensor<2x2x" Q ">\n"
    "  %n = \"stablehlo.negate\"(%q) : (tensor<2x2x" Q ">) -> tensor<2x2x" Q ">\n"
    "  %b = stablehlo.bitcast_convert %n : (tensor<2x2x" Q ">) -> tensor<2x2xi8>\n"
    "  %f = stablehlo.bitcast_convert %b : (tensor<2x2xi8>) -> tensor<2x2xf8E4M3FN>\n"
    "  %s = stablehlo.add %f, %f : tensor<2x2xf8E4M3FN>\n"
    "  %c = stablehlo.bitcast_convert %s : (tensor<2x2xf8E4M3FN>) -> tensor<2x2xi8>\n"
    "  %u = stablehlo.bitcast_convert %c : (tensor<2x2xi8>) -> tensor<2x2x2xi4>\n"
    "  %p = stablehlo.slice %u [0:2, 0:2, 1:2] : (tensor<2x2x2xi4>) -> tensor<2x2x1xi4>\n"
    "  %r = stablehlo.reshape %p : (tensor<2x2x1xi4>) -> tensor<2x2xi4>\n  return %r : tensor<2x2xi4>\n}\n",
    /* names from locations */
    "#loc1 = loc(\"x\")\nfunc.func @main(%a: tensor<f32> loc(\"p['w']\"), %b: tensor<f32> loc(#loc2), %c: tensor<f32> "
    "loc(#loc1), %d: tensor<f32> loc(\"x\")) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n"
    "#loc2 = loc(\"p['b']\"(#loc1))\n",
};

static flx_code import_with(fault *f, const char *text, flx_error *err)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f});
    *err = (flx_error){0};
    flx_module *m = ctx ? flx_import_stablehlo_with(ctx, text, strlen(text), "t", FLX_STABLEHLO_NAMES, err) : NULL;
    flx_code code = m ? FLX_OK : ctx ? (flx_code)err->code : FLX_E_OOM;
    flx_module_free(m);
    flx_context_free(ctx);
    CHECK_MSG(fault_is_clean(f), "%zu blocks leaked, %zu errors", f->live_blocks, f->errors);
    return code;
}

TEST(stablehlo_import_survives_want_of_memory)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        flx_error err;
        fault whole = {0};
        CHECK_CODE(import_with(&whole, programs[i], &err), FLX_OK, &err);
        for (size_t at = 1; at <= whole.calls; at++) {
            fault once = {.fail_at = at};
            fault all = {.fail_at = at, .forever = true};
            test_fail_context("program %zu, allocation %zu of %zu", i, at, whole.calls);
            flx_code code = import_with(&once, programs[i], &err);
            EXPECT_MSG(code == FLX_OK || code == FLX_E_OOM, "%s: %s", flx_code_name((int32_t)code), err.message);
            code = import_with(&all, programs[i], &err);
            EXPECT_MSG(code == FLX_E_OOM, "%s: %s", flx_code_name((int32_t)code), err.message);
        }
    }
}
