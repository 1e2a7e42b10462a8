/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_callbacks.c: calls back into Python, without functions for them and with functions of the program. */
#include "../test.h"

#include <fluxion/custom.h>
#include <fluxion/run.h>
#include <fluxion/stablehlo.h>
#include <string.h>

#define CALL "stablehlo.custom_call @xla_ffi_python_cpu_callback"

/* A print, and a check that calls back in a branch: as JAX and Equinox write them. */
static const char text[] =
    "func.func public @main(%x: tensor<2xf32>, %i: tensor<i32>) -> tensor<2xf32> {\n  " CALL
    "(%x) {api_version = 4 : i32, has_side_effect = true, mhlo.backend_config = {index = 3 : ui64}} : (tensor<2xf32>) "
    "-> ()\n"
    "  %r = \"stablehlo.case\"(%i) ({\n    stablehlo.return %x : tensor<2xf32>\n  }, {\n    %y = " CALL
    "(%x) {api_version = 4 : i32, mhlo.backend_config = {index = 5 : ui64}} : (tensor<2xf32>) -> tensor<2xf32>\n"
    "    stablehlo.return %y : tensor<2xf32>\n  }) : (tensor<i32>) -> tensor<2xf32>\n"
    "  return %r : tensor<2xf32>\n}\n";

static flx_code run_branch(flx_context *ctx, int32_t branch, float out[2], flx_error *err)
{
    const float x[2] = {1, 2};
    const flx_type vector = flx_type_make(FLX_F32, 1, (const flx_dim[]){2}), scalar = flx_type_make(FLX_I32, 0, NULL);
    flx_module *m = flx_import_stablehlo(ctx, text, sizeof text - 1, "program", err);
    flx_tensor *in = flx_tensor_new(ctx, &vector, x, err), *at = flx_tensor_new(ctx, &scalar, &branch, err), *y = NULL;
    const flx_feed feeds[] = {{"arg0", in}, {"arg1", at}};
    CHECK_MADE(m, err);
    flx_code code = m ? flx_run(flx_module_main(m), ON_REF, feeds, 2, &y, err) : (flx_code)err->code;
    if (code == FLX_OK)
        memcpy(out, flx_tensor_const_data(y), 2 * sizeof *out);
    flx_tensor_release(y);
    flx_tensor_release(in);
    flx_tensor_release(at);
    flx_module_free(m);
    return code;
}

TEST(stablehlo_callbacks_without_functions)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    float out[2] = {0};
    CHECK_OK(run_branch(ctx, 0, out, &err), &err);
    CHECK_NEAR(out[1], 2, 0);
    CHECK_CODE(run_branch(ctx, 1, out, &err), FLX_E_CHECK, &err);
    CHECK_MSG(strstr(err.message, "calls back into Python"), "%s", err.message);
    flx_context_free(ctx);
}

static int64_t seen;

static flx_code infer(void *user, const flx_custom_call *c, flx_type *results, size_t *num_results, flx_error *err)
{
    const flx_attr *types = flx_custom_attr(c, "types");
    (void)user;
    (void)err;
    *num_results = 1;
    results[0] = flx_type_make((flx_dtype)types->as.ints.v[0], (int32_t)types->as.ints.v[1], types->as.ints.v + 2);
    return FLX_OK;
}

/* Adds the number of the function. */
static flx_code eval(void *user, const flx_custom_call *c, const void *const *inputs, void *const *results,
                     flx_error *err)
{
    int64_t id = flx_custom_attr(c, "id")->as.i;
    (void)user;
    (void)err;
    seen = seen * 10 + id;
    for (int i = 0; i < 2 && flx_custom_result(c, 0)->rank == 1; i++)
        ((float *)results[0])[i] = ((const float *)inputs[0])[i] + (float)id;
    return FLX_OK;
}

TEST(stablehlo_callbacks_with_functions)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_custom_op op = {.struct_size = sizeof op, .name = "fluxion.pure_callback", .infer = infer, .eval = eval};
    float out[2] = {0};
    CHECK_OK(flx_register_custom(ctx, &op, &err), &err);
    op.name = "fluxion.callback";
    op.flags = FLX_CUSTOM_EFFECT;
    CHECK_OK(flx_register_custom(ctx, &op, &err), &err);
    seen = 0;
    CHECK_OK(run_branch(ctx, 1, out, &err), &err);
    CHECK_EQ_I64(seen, 35);
    CHECK_NEAR(out[1], 7, 0);
    flx_context_free(ctx);
}
