/* SPDX-License-Identifier: Apache-2.0 */
/* host_op.c: operations that a program registers. The ones here are y = a x^p (with derivatives of any order, a batch
   rule that counts its calls) and a counter with effects and nothing else. */
#include "test.h"

#include <fluxion/custom.h>
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int batch_calls, counter_calls;

static flx_code infer_power(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user;
    if (flx_custom_num_inputs(c) != 1) {
        strcpy(err->message, "one operand, please");
        strcpy(err->hint, "pass x");
        return FLX_E_ARITY;
    }
    if (flx_custom_input(c, 0)->dtype != FLX_F64)
        return FLX_E_DTYPE;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    return FLX_OK;
}

static int64_t count_of(const flx_type *t)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= t->dims[k];
    return n;
}

static flx_code eval_power(void *user, const flx_custom_call *c, const void *const *in, void *const *out,
                           flx_error *err)
{
    double p = flx_custom_real(c, "p", 1), a = flx_custom_real(c, "a", 1);
    (void)user;
    if (flx_custom_num_results(c) != 1 || !strstr(flx_custom_name(c), "power")) {
        strcpy(err->message, "not as registered");
        return FLX_E_INTERNAL;
    }
    for (int64_t i = 0; i < count_of(flx_custom_result(c, 0)); i++)
        ((double *)out[0])[i] = a * pow(((const double *)in[0])[i], p);
    return FLX_OK;
}

static flx_val power(flx_graph *g, flx_val x, double a, double p)
{
    const flx_attr attrs[] = {flx_attr_real("p", p), flx_attr_string("name", "power"), flx_attr_real("a", a)};
    return flx_op1(g, "custom", &x, 1, attrs, 3);
}

/* a p x^(p - 1), which is the same operation. */
static flx_val slope(const flx_custom_call *c, flx_graph *g, flx_val x)
{
    double p = flx_custom_real(c, "p", 1), a = flx_custom_real(c, "a", 1);
    return power(g, x, a * p, p - 1);
}

static flx_code vjp_power(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const flx_val *y,
                          const flx_val *dy, flx_val *dx, flx_error *err)
{
    (void)user, (void)y, (void)err;
    dx[0] = flx_mul(g, dy[0], slope(c, g, x[0]));
    return FLX_OK;
}

static flx_code jvp_power(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const flx_val *y,
                          const flx_val *tx, flx_val *ty, flx_error *err)
{
    (void)user, (void)y, (void)err;
    ty[0] = flx_mul(g, tx[0], slope(c, g, x[0]));
    return FLX_OK;
}

static flx_code batch_power(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x,
                            const int32_t *batched, flx_dim size, flx_val *by, flx_error *err)
{
    (void)user, (void)err;
    batch_calls += batched[0] && size == 3;
    by[0] = power(g, x[0], flx_custom_real(c, "a", 1), flx_custom_real(c, "p", 1));
    return FLX_OK;
}

static flx_code infer_counter(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user, (void)err;
    *n = 2;
    results[0] = *flx_custom_input(c, 0);
    results[1] = flx_type_make(FLX_I32, 0, NULL);
    return FLX_OK;
}

static flx_code eval_counter(void *user, const flx_custom_call *c, const void *const *in, void *const *out,
                             flx_error *err)
{
    (void)user;
    int64_t n = count_of(flx_custom_input(c, 0));
    memcpy(out[0], in[0], (size_t)n * sizeof(double));
    *(int32_t *)out[1] = ++counter_calls;
    if (flx_custom_attr(c, "fails")) {
        strcpy(err->message, "failing as requested");
        return FLX_E_CHECK;
    }
    return FLX_OK;
}

static const flx_custom_op power_op = {.struct_size = sizeof power_op,
                                       .name = "power",
                                       .infer = infer_power,
                                       .eval = eval_power,
                                       .vjp = vjp_power,
                                       .jvp = jvp_power,
                                       .batch = batch_power};
static const flx_custom_op reverse_op = {.struct_size = sizeof reverse_op,
                                         .name = "reverse.power",
                                         .infer = infer_power,
                                         .eval = eval_power,
                                         .vjp = vjp_power};
static const flx_custom_op forward_op = {.struct_size = sizeof forward_op,
                                         .name = "forward.power",
                                         .infer = infer_power,
                                         .eval = eval_power,
                                         .jvp = jvp_power};

/* Not linear in the tangent. */
static flx_code jvp_squared(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const flx_val *y,
                            const flx_val *tx, flx_val *ty, flx_error *err)
{
    (void)user, (void)c, (void)x, (void)y, (void)err;
    ty[0] = flx_mul(g, tx[0], tx[0]);
    return FLX_OK;
}

static const flx_custom_op squared_op = {.struct_size = sizeof squared_op,
                                         .name = "squared.power",
                                         .infer = infer_power,
                                         .eval = eval_power,
                                         .jvp = jvp_squared};
static const flx_custom_op plain_op = {.name = "plain.power", .infer = infer_power, .eval = eval_power};
static const flx_custom_op counter_op = {
    .flags = FLX_CUSTOM_EFFECT, .name = "counter", .infer = infer_counter, .eval = eval_counter};

static flx_context *context_with_ops(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    CHECK_OK(flx_register_custom(ctx, &power_op, &err), &err);
    CHECK_OK(flx_register_custom(ctx, &plain_op, &err), &err);
    CHECK_OK(flx_register_custom(ctx, &reverse_op, &err), &err);
    CHECK_OK(flx_register_custom(ctx, &forward_op, &err), &err);
    CHECK_OK(flx_register_custom(ctx, &squared_op, &err), &err);
    CHECK_OK(flx_register_custom(ctx, &counter_op, &err), &err);
    return ctx;
}

static flx_module *parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "host", &err);
    CHECK_MSG(m, "%s: %s", text, err.message);
    return m;
}

static flx_code code_of(flx_context *ctx, const char *text, flx_error *err)
{
    *err = (flx_error){0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "host", err);
    flx_module_free(m);
    return m ? FLX_OK : (flx_code)err->code;
}

/* Runs a graph of x: f64[…], whose first output has one element. */
static double value_at(flx_context *ctx, const flx_graph *g, const double *x, int64_t n, const char *device)
{
    flx_error err = {0};
    flx_type type = flx_type_make(FLX_F64, 1, &n);
    flx_tensor *in = flx_tensor_new(ctx, &type, x, &err), *out[2] = {0};
    flx_feed feed = {"x", in};
    flx_run_options o = {.device = device};
    CHECK_OK(flx_run(g, &o, &feed, 1, out, &err), &err);
    double y = flx_tensor_get(out[0], 0);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(in);
    return y;
}

#define CUBE "graph f(x: f64[2]) { return reduce_sum(custom(x, name=\"power\", p=3, a=0.5)) }"

TEST(host_op_runs_on_every_device)
{
    flx_context *ctx = context_with_ops();
    flx_module *m = parse(ctx, CUBE);
    const double x[2] = {2, -1};
    CHECK_NEAR(value_at(ctx, flx_module_main(m), x, 2, "ref"), 3.5, 0);
    CHECK_NEAR(value_at(ctx, flx_module_main(m), x, 2, "cpu"), 3.5, 0);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(host_op_text_and_bytes_keep_its_own_attributes)
{
    flx_context *ctx = context_with_ops();
    flx_error err = {0};
    flx_module *m = parse(ctx, "graph f(x: f64[2]) { return custom(x, p=3, name=\"power\", tag=\"a \\\"b\\\"\\n\", "
                               "list=[1, 2], reals=[0.5, 2.0, -inf], flag=true, none=[]) }");
    flx_buffer text = {0}, again = {0}, bytes = {0};
    CHECK_OK(flx_graph_print(flx_module_main(m), &text, &err), &err);
    CHECK_MSG(strstr(text.data, "custom(x, name=\"power\", flag=true, list=[1, 2], none=[], p=3, "
                                "reals=[0.5, 2.0, -inf], tag=\"a \\\"b\\\"\\n\")"),
              "%s", (const char *)text.data);
    flx_module *second = parse(ctx, text.data);
    CHECK_OK(flx_graph_print(flx_module_main(second), &again, &err), &err);
    CHECK_EQ_STR(text.data, again.data);
    CHECK_OK(flx_graph_encode(flx_module_main(m), &bytes, &err), &err);
    flx_module *third = flx_decode(ctx, bytes.data, bytes.size, "host", &err);
    CHECK_MSG(third, "%s", err.message);
    flx_buffer_free(&again);
    CHECK_OK(flx_graph_print(flx_module_main(third), &again, &err), &err);
    CHECK_EQ_STR(text.data, again.data);
    flx_buffer_free(&text);
    flx_buffer_free(&again);
    flx_buffer_free(&bytes);
    flx_module_free(m);
    flx_module_free(second);
    flx_module_free(third);
    flx_context_free(ctx);
}

TEST(host_op_derivatives_of_every_order)
{
    flx_context *ctx = context_with_ops();
    flx_error err = {0};
    flx_module *m = parse(ctx, "graph f(x: f64[1]) { return reduce_sum(custom(x, name=\"power\", p=4)) }");
    const char *wrt[] = {"x"};
    const double x = 1.5;
    const flx_graph *g = flx_module_main(m);
    flx_graph *first = flx_grad(g, wrt, 1, NULL, &err);
    CHECK_MSG(first, "%s", err.message);
    CHECK_NEAR(value_at(ctx, first, &x, 1, "cpu"), 4 * x * x * x, 1e-12);
    flx_graph *hessian = flx_hessian(g, wrt, 1, NULL, &err);
    CHECK_MSG(hessian, "%s", err.message);
    CHECK_NEAR(value_at(ctx, hessian, &x, 1, "ref"), 12 * x * x, 1e-12);
    flx_graph_release(first);
    flx_graph_release(hessian);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* x^4 with one of the rules alone: first and second derivatives in every order of the modes. */
static void check_one_rule(const char *name)
{
    flx_context *ctx = context_with_ops();
    flx_error err = {0};
    char text[200];
    snprintf(text, sizeof text, "graph f(x: f64[1]) { return reduce_sum(custom(x, name=\"%s\", p=4)) }", name);
    flx_module *m = parse(ctx, text);
    const char *wrt[] = {"x"};
    const double x = 1.5;
    const flx_graph *g = flx_module_main(m);
    const flx_jacobian_options modes[] = {{.mode = FLX_JACOBIAN_FORWARD}, {.mode = FLX_JACOBIAN_REVERSE}};
    for (int i = 0; i < 2; i++) {
        flx_graph *first = flx_jacobian(g, wrt, 1, &modes[i], &err);
        CHECK_MSG(first, "%s: %s", name, err.message);
        CHECK_NEAR(value_at(ctx, first, &x, 1, "cpu"), 4 * x * x * x, 1e-12);
        for (int k = 0; k < 2; k++) {
            flx_graph *second = flx_jacobian(first, wrt, 1, &modes[k], &err);
            CHECK_MSG(second, "%s: %s", name, err.message);
            CHECK_NEAR(value_at(ctx, second, &x, 1, "ref"), 12 * x * x, 1e-12);
            flx_graph_release(second);
        }
        flx_graph_release(first);
    }
    flx_graph *product = flx_hvp(g, wrt, 1, NULL, &err);
    CHECK_MSG(product, "%s: %s", name, err.message);
    flx_graph_release(product);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(host_op_with_one_rule_has_both_modes)
{
    check_one_rule("reverse.power");
    check_one_rule("forward.power");
}

TEST(host_op_with_a_jvp_that_is_not_linear_has_no_reverse_mode)
{
    flx_context *ctx = context_with_ops();
    flx_error err = {0};
    flx_module *m = parse(ctx, "graph f(x: f64[1]) { return reduce_sum(custom(x, name=\"squared.power\")) }");
    const char *wrt[] = {"x"};
    CHECK(!flx_grad(flx_module_main(m), wrt, 1, NULL, &err));
    CHECK(err.code == FLX_E_NO_RULE);
    CHECK_MSG(strstr(err.message, "its jvp is not linear in its tangents: mul"), "%s", err.message);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(host_op_batches_by_its_rule_or_in_a_loop)
{
    static const char *const texts[] = {"graph f(x: f64[]) { return custom(x, name=\"power\", p=2) }",
                                        "graph f(x: f64[]) { return custom(x, name=\"plain.power\", p=2) }"};
    for (int i = 0; i < 2; i++) {
        flx_context *ctx = context_with_ops();
        flx_error err = {0};
        flx_module *m = parse(ctx, texts[i]);
        const flx_vmap_axis axes[] = {{"x", 0}};
        batch_calls = 0;
        flx_graph *g = flx_vmap(flx_module_main(m), axes, 1, NULL, 0, 3, &err);
        CHECK_MSG(g, "%s", err.message);
        CHECK(batch_calls == (i == 0));
        const double x[3] = {-3, 1, 2};
        CHECK_NEAR(value_at(ctx, g, x, 3, "cpu"), 9, 0);
        flx_graph_release(g);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

TEST(host_op_without_a_rule_is_reported_by_name)
{
    flx_context *ctx = context_with_ops();
    flx_error err = {0};
    flx_module *m = parse(ctx, "graph f(x: f64[2]) { return reduce_sum(custom(x, name=\"plain.power\")) }");
    const char *wrt[] = {"x"};
    CHECK(!flx_grad(flx_module_main(m), wrt, 1, NULL, &err));
    CHECK(err.code == FLX_E_NO_RULE && strstr(err.message, "plain.power") && strstr(err.message, "vjp"));
    err = (flx_error){0};
    CHECK(!flx_jvp(flx_module_main(m), wrt, 1, &err));
    CHECK(err.code == FLX_E_NO_RULE && strstr(err.message, "jvp"));
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Two equal calls with effects both run, in order, although the first is unused. */
TEST(host_op_with_effects_is_neither_merged_nor_dropped)
{
    flx_context *ctx = context_with_ops();
    flx_module *m = parse(ctx, "graph f(x: f64[1]) {\n  a, i = custom(x, name=\"counter\")\n"
                               "  b, j = custom(x, name=\"counter\")\n  return j\n}");
    const double x = 1;
    counter_calls = 0;
    CHECK_NEAR(value_at(ctx, flx_module_main(m), &x, 1, "cpu"), 2, 0);
    CHECK_NEAR(value_at(ctx, flx_module_main(m), &x, 1, "ref"), 4, 0);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(host_op_errors_name_it)
{
    flx_context *ctx = context_with_ops();
    flx_error err;
    CHECK(code_of(ctx, "graph f(x: f64[2]) { return custom(x, name=\"unknown\") }", &err) == FLX_E_NAME);
    CHECK(strstr(err.message, "unknown") && strstr(err.hint, "flx_register_custom"));
    CHECK(code_of(ctx, "graph f(x: f64[2]) { return custom(x, x, name=\"power\") }", &err) == FLX_E_ARITY);
    CHECK(strstr(err.message, "power: one operand, please") && strcmp(err.hint, "pass x") == 0);
    CHECK(code_of(ctx, "graph f(x: f32[2]) { return custom(x, name=\"power\") }", &err) == FLX_E_DTYPE);
    CHECK(code_of(ctx, "graph f(x: f64[2]) { return custom(x, name=\"power\", p=1, p=2) }", &err) == FLX_E_ATTRIBUTE);
    CHECK(code_of(ctx, "graph f(x: f64[2]) { return custom(x, name=\"power\", p=f32[2]) }", &err) == FLX_E_ATTRIBUTE);
    CHECK(code_of(ctx, "graph f(x: f64[2]) { return custom(x, name=\"power\", attrs=\"p=\") }", &err) ==
          FLX_E_ATTRIBUTE);
    CHECK(code_of(ctx, "graph f(x: f64[2]) { return custom(x, name=\"power\", attrs=\"q=1, p=2\") }", &err) ==
          FLX_E_ATTRIBUTE);
    flx_module *m = parse(ctx, "graph f(x: f64[1]) {\n  a, i = custom(x, name=\"counter\", fails=true)\n  return a\n}");
    flx_dim one = 1;
    flx_type type = flx_type_make(FLX_F64, 1, &one);
    flx_tensor *x = flx_tensor_new(ctx, &type, NULL, &err), *y = NULL;
    flx_feed feed = {"x", x};
    CHECK(flx_run(flx_module_main(m), ON_REF, &feed, 1, &y, &err) == FLX_E_CHECK);
    CHECK(strstr(err.message, "counter: failing as requested"));
    flx_tensor_release(x);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(host_op_registration_checks_what_it_gets)
{
    flx_context *ctx = context_with_ops();
    flx_error err = {0};
    flx_custom_op op = power_op;
    CHECK(flx_register_custom(ctx, &op, &err) == FLX_E_DUP_NAME);
    CHECK(flx_register_custom(NULL, &op, &err) == FLX_E_USAGE);
    CHECK(flx_register_custom(ctx, NULL, &err) == FLX_E_USAGE);
    op.name = "no spaces";
    CHECK(flx_register_custom(ctx, &op, &err) == FLX_E_NAME);
    op.name = "new";
    op.eval = NULL;
    CHECK(flx_register_custom(ctx, &op, &err) == FLX_E_USAGE);
    op = power_op;
    op.struct_size = 9;
    CHECK(flx_register_custom(ctx, &op, &err) == FLX_E_USAGE);
    flx_context_free(ctx);
}
