/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_names.c: names of arguments from the locations that a program carries, in text and in bytecode. */
#include "test.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names of the inputs, with a blank after each. */
static void list_inputs(const flx_module *m, char *out, size_t size)
{
    const flx_graph *g = flx_module_main(m);
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        n += (size_t)snprintf(out + n, size - n, "%s ", flx_val_name(g, flx_graph_input(g, i)));
    CHECK(n < size);
}

static void check_names(const char *bytes, size_t size, uint32_t flags, const char *want)
{
    char names[600];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_import_stablehlo_with(ctx, bytes, size, "t", flags, &err);
    CHECK_MSG(m != NULL, "%s: %s", err.where, err.message);
    list_inputs(m, names, sizeof names);
    CHECK_EQ_STR(names, want);
    flx_module_free(m);
    flx_context_free(ctx);
}

static void check_text(const char *arguments, const char *want)
{
    char text[2000];
    int n = snprintf(text, sizeof text,
                     "#loc1 = loc(\"x\")\n#loc1 = loc(\"again\")\n"
                     "func.func public @main(%s) -> tensor<f32> {\n"
                     "  %%c = stablehlo.constant dense<1.0> : tensor<f32> loc(#loc3)\n"
                     "  return %%c : tensor<f32> loc(#loc)\n} loc(#loc)\n#loc = loc(unknown)\n"
                     "#loc2 = loc(\"params['b']\"(#loc1))\n#loc3 = loc(\"one\"(#loc1))\n#loc4 = loc(#loc1)\n",
                     arguments);
    CHECK(n > 0 && (size_t)n < sizeof text);
    check_names(text, (size_t)n, FLX_STABLEHLO_NAMES, want);
}

TEST(stablehlo_arguments_are_called_as_their_locations_say)
{
    check_text("%arg0: tensor<f32> loc(\"params['layers'][0]['w']\"), %arg1: tensor<f32> loc(\"model.weight_1\")",
               "params.layers.0.w model.weight_1 ");
    check_text("%arg0: tensor<f32> {a.b = \"c\"} loc(#loc2), %arg1: tensor<f32> loc(#loc1)", "params.b x ");
    check_text("%arg0: tensor<f32> loc(\"x\"(#loc2)), %arg1: tensor<f32> loc(#loc1)", "x x_ "); /* taken */
    check_text("%arg0: tensor<f32> loc(\"arg1\"), %arg1: tensor<f32>", "arg1 arg1_ ");
    check_text("%arg0: tensor<f32> loc(\"f.py\":1:2), %arg1: tensor<f32> loc(unknown), %arg2: tensor<f32> "
               "loc(callsite(\"f\" at \"g\")), %arg3: tensor<f32> loc(\"[*]\"), %arg4: tensor<f32> loc(\"\"), "
               "%arg5: tensor<f32> loc(#nowhere), %arg6: tensor<f32> loc(#loc4)",
               "arg0 arg1 arg2 arg3 arg4 arg5 arg6 ");
    check_text("%arg0: tuple<tensor<f32>, tensor<2xf32>> loc(\"pair\")", "pair_0 pair_1 ");
    check_text(
        "%arg0: tensor<f32> loc(\"0.weight\"), %arg1: tensor<f32> loc(\"[0]\"), %arg2: tensor<f32> loc(\"param\"), "
        "%arg3: tensor<f32> loc(\"_0\"), %arg4: tensor<f32> loc(\"_\")",
        "_0.weight _0 _param _0_ _ ");
}

TEST(stablehlo_long_names_of_locations_are_cut)
{
    char argument[600], want[600], *at = want;
    memset(argument, 0, sizeof argument);
    strcpy(argument, "%a: tensor<f32> loc(\"");
    memset(argument + strlen(argument), 'n', 300);
    strcat(argument, "\"), %b: tensor<f32> loc(\"");
    memset(argument + strlen(argument), 'm', 10);
    strcat(argument, "\")");
    memset(at, 'n', 117);
    strcpy(at + 117, " mmmmmmmmmm ");
    check_text(argument, want);
}

/* As many as there is no room for by longer and longer names; and parts of tuples, which are named after these. */
TEST(stablehlo_names_of_locations_may_be_equal)
{
    enum { COUNT = 20000, ROOM = 60 * COUNT };
    char *text = malloc(ROOM), name[130];
    size_t n = 0;
    CHECK(text);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    check_text("%arg0: tuple<tensor<f32>, tensor<f32>> loc(\"p\"), %arg1: tensor<f32> loc(\"p_0\"), %arg2: tensor<f32> "
               "loc(\"p\"), %arg3: tensor<f32> loc(\"p\"), %arg4: tensor<f32> loc(\"p_0\")",
               "p_0 p_1 p_0_ p p_ p_0_2 ");
    n += (size_t)snprintf(text, ROOM, "#long = loc(\"%s\")\nfunc.func @main(", name);
    for (int i = 0; i < COUNT; i++)
        n += (size_t)snprintf(text + n, ROOM - n, "%s%%arg%d: tensor<f32> loc(#long)", i ? ", " : "", i);
    n += (size_t)snprintf(text + n, ROOM - n, ") -> tensor<f32> { return %%arg0 : tensor<f32> }");
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_import_stablehlo_with(ctx, text, n, "t", FLX_STABLEHLO_NAMES, &err);
    CHECK_MSG(m != NULL, "%s: %s", err.where, err.message);
    CHECK_EQ_U64(flx_graph_input_count(flx_module_main(m)), COUNT);
    flx_module_free(m);
    flx_context_free(ctx);
    free(text);
}

TEST(stablehlo_names_of_locations_are_asked_for)
{
    static const char text[] = "func.func @main(%arg0: tensor<f32> loc(\"x\")) -> tensor<f32> { return %arg0 : "
                               "tensor<f32> }";
    check_names(text, strlen(text), 0, "arg0 ");
    check_names(text, strlen(text), FLX_STABLEHLO_NAMES, "x ");
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    CHECK(flx_import_stablehlo_with(ctx, text, strlen(text), "t", 2, &err) == NULL);
    CHECK_CODE((flx_code)err.code, FLX_E_USAGE, &err);
    flx_context_free(ctx);
}
