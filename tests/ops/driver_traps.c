/* SPDX-License-Identifier: Apache-2.0 */
/* driver_traps.c: cases where the driver of derivatives, not a rule, would fail if written naively. */
#include "test.h"

#include <fluxion/custom.h>
#include <fluxion/fluxion.h>
#include <string.h>

static flx_module *parse(flx_context *ctx, const char *text, flx_error *err)
{
    *err = (flx_error){0};
    return flx_parse(ctx, text, strlen(text), "trap", err);
}

/* The zeros of an input that the loss does not depend on have the input's type. */
TEST(trap_108_gradient_of_an_unreached_input_has_its_type)
{
    static const char *const types[] = {"f64[3]", "f16[2, 5]", "bf16[]", "c64[4]", "c128[2]", "f32[0, 3]"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[200] = "graph f(x: f32[2], y: ";
        strcat(strcat(text, types[i]), ") { return reduce_sum(x) }");
        flx_error err;
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = parse(ctx, text, &err);
        CHECK_MSG(m, "%s", err.message);
        const char *wrt[] = {"y"};
        const flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
        flx_graph *g = flx_grad(flx_module_main(m), wrt, 1, &o, &err);
        CHECK_MSG(g, "%s", err.message);
        char shown[40];
        flx_type_print(ctx, flx_val_type(g, flx_graph_output(g, 0)), shown, sizeof shown);
        CHECK_EQ_STR(shown, types[i]);
        flx_graph_release(g);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

static flx_code infer_same(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user, (void)err;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    return FLX_OK;
}

static flx_code eval_nothing(void *user, const flx_custom_call *c, const void *const *in, void *const *out,
                             flx_error *err)
{
    (void)user, (void)c, (void)in, (void)out, (void)err;
    return FLX_OK;
}

/* A missing rule is an error that names the op and the mode, in every mode. */
TEST(trap_109_missing_rule_is_an_error_that_names_op_and_mode)
{
    flx_error err;
    flx_context *ctx = flx_context_new(NULL);
    const flx_custom_op op = {.name = "ruleless", .infer = infer_same, .eval = eval_nothing};
    CHECK_OK(flx_register_custom(ctx, &op, &err), &err);
    flx_module *m = parse(ctx, "graph f(x: f64[2]) { return reduce_sum(custom(x, name=\"ruleless\")) }", &err);
    CHECK_MSG(m, "%s", err.message);
    const char *wrt[] = {"x"};
    CHECK(!flx_grad(flx_module_main(m), wrt, 1, NULL, &err));
    CHECK(err.code == FLX_E_NO_RULE && strstr(err.message, "ruleless") && strstr(err.message, "vjp"));
    CHECK(!flx_jvp(flx_module_main(m), wrt, 1, &err));
    CHECK(err.code == FLX_E_NO_RULE && strstr(err.message, "ruleless") && strstr(err.message, "jvp"));
    CHECK(!flx_hvp(flx_module_main(m), wrt, 1, NULL, &err));
    CHECK(err.code == FLX_E_NO_RULE && strstr(err.message, "ruleless"));
    flx_module_free(m);
    flx_context_free(ctx);
}

/* The dtype of a sum does not depend on the order of its operands: unequal dtypes are an error in both. */
TEST(trap_110_dtype_of_a_result_is_not_that_of_the_left_operand)
{
    static const char *const calls[] = {
        "add(x, y)", "add(y, x)", "mul(x, y)", "mul(y, x)", "where(gt(x, 0), x, y)", "where(gt(x, 0), y, x)"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[200] = "graph f(x: f32[2], y: f64[2]) { return ";
        flx_error err;
        flx_context *ctx = flx_context_new(NULL);
        CHECK(!parse(ctx, strcat(strcat(text, calls[i]), " }"), &err));
        CHECK_MSG(err.code == FLX_E_DTYPE && strstr(err.hint, "cast"), "%s: %s (%s)", calls[i], err.message, err.hint);
        flx_context_free(ctx);
    }
    flx_error err;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = parse(ctx, "graph f(x: f64[2]) { return add(1, x), add(x, 1) }", &err);
    CHECK_MSG(m, "%s", err.message);
    for (size_t k = 0; k < 2; k++)
        CHECK(flx_val_type(flx_module_main(m), flx_graph_output(flx_module_main(m), k))->dtype == FLX_F64);
    flx_module_free(m);
    flx_context_free(ctx);
}
