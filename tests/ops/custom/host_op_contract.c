/* SPDX-License-Identifier: Apache-2.0 */
/* host_op_contract.c: functions of operations that break their contract. Each fault is an error that names the
   operation and the function, whatever the function did to the graph or returned. */
#include "../../test.h"

#include <fluxion/custom.h>
#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

typedef enum {
    FAULT_NONE,
    FAULT_CODE,        /* a number that is not a code */
    FAULT_NEGATIVE,    /* likewise */
    FAULT_UNENDED,     /* texts of an error that do not end */
    FAULT_DTYPE,       /* a type that does not exist */
    FAULT_RANK,        /* likewise */
    FAULT_EXTENT,      /* likewise */
    FAULT_OUTPUT,      /* declares an output */
    FAULT_INPUT,       /* declares an input */
    FAULT_RELEASE,     /* releases the graph */
    FAULT_SHAPE,       /* a value of another shape */
    FAULT_WRONG_DTYPE, /* a value of another dtype */
    FAULT_FOREIGN,     /* a value of another graph */
    FAULT_GARBAGE,     /* a handle that does not exist */
    FAULT_UNSET,       /* a result that is left alone */
    FAULT_UNSTABLE     /* another answer to the same question */
} fault;

typedef struct {
    const char *function;
    fault what;
    const char *says; /* part of the message */
} fault_case;

static const fault_case *now;
static bool is_batched; /* batch has been called */

static bool is_now(const char *function, fault what)
{
    return now->what == what && strcmp(now->function, function) == 0;
}

/* What a function returns, with or without a fault. */
static flx_code returned(const char *function, flx_error *err)
{
    if (is_now(function, FAULT_CODE))
        return (flx_code)1234;
    if (is_now(function, FAULT_NEGATIVE))
        return (flx_code)-7;
    if (!is_now(function, FAULT_UNENDED))
        return FLX_OK;
    memset(err->message, 'm', sizeof err->message);
    memset(err->hint, 'h', sizeof err->hint);
    return FLX_E_CHECK;
}

/* A value with a fault, or the right one. */
static flx_val given(const char *function, flx_graph *g, flx_val right)
{
    const flx_type vector = *flx_val_type(g, right);
    const flx_val two[] = {right, right};
    flx_type scalar = {.dtype = FLX_F64};
    if (is_now(function, FAULT_OUTPUT))
        flx_output(g, right, "extra");
    if (is_now(function, FAULT_INPUT))
        flx_input(g, "extra", &vector);
    if (is_now(function, FAULT_RELEASE))
        flx_graph_release(g);
    if (is_now(function, FAULT_SHAPE))
        return flx_stack(g, two, 2, .axis = 0);
    if (is_now(function, FAULT_WRONG_DTYPE))
        return flx_cast(g, right, FLX_F32);
    if (is_now(function, FAULT_GARBAGE))
        return (flx_val){1000000, right.graph};
    if (is_now(function, FAULT_UNSET))
        return FLX_NONE;
    if (is_now(function, FAULT_FOREIGN)) {
        flx_graph *other = flx_graph_new(flx_graph_context(g), "other");
        flx_val v = flx_input(other, "x", &scalar);
        flx_graph_release(other);
        return v;
    }
    return right;
}

/* ---- y = x ---- */

static flx_code infer(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    if (is_now("infer", FAULT_DTYPE))
        results[0].dtype = 77;
    if (is_now("infer", FAULT_RANK) || (is_now("infer", FAULT_UNSTABLE) && is_batched))
        results[0].rank = 99;
    if (is_now("infer", FAULT_EXTENT))
        results[0].dims[0] = -3;
    return returned("infer", err);
}

static flx_code eval(void *user, const flx_custom_call *c, const void *const *in, void *const *out, flx_error *err)
{
    (void)user;
    memcpy(out[0], in[0], (size_t)flx_custom_input(c, 0)->dims[0] * sizeof(double));
    return returned("eval", err);
}

static flx_code vjp(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const flx_val *y,
                    const flx_val *dy, flx_val *dx, flx_error *err)
{
    (void)user, (void)c, (void)x, (void)y;
    dx[0] = given("vjp", g, dy[0]);
    return returned("vjp", err);
}

static flx_code jvp(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const flx_val *y,
                    const flx_val *tx, flx_val *ty, flx_error *err)
{
    (void)user, (void)c, (void)x, (void)y;
    ty[0] = given("jvp", g, tx[0]);
    return returned("jvp", err);
}

static flx_code batch(void *user, const flx_custom_call *c, flx_graph *g, const flx_val *x, const int32_t *batched,
                      flx_dim size, flx_val *by, flx_error *err)
{
    (void)user, (void)c, (void)batched, (void)size;
    is_batched = true;
    by[0] = given("batch", g, x[0]);
    return returned("batch", err);
}

/* ---- Trying ---- */

static flx_code run_once(flx_context *ctx, const flx_graph *g, flx_error *err)
{
    const flx_dim two = 2;
    flx_type type = flx_type_make(FLX_F64, 1, &two);
    flx_tensor *x = flx_tensor_new(ctx, &type, (const double[]){1, 2}, err), *y = NULL;
    flx_feed feed = {"x", x};
    flx_code code = flx_run(g, ON_REF, &feed, 1, &y, err);
    flx_tensor_release(y);
    flx_tensor_release(x);
    return code;
}

/* The code of building, running and transforming a graph with the operation, up to the first failure. */
static flx_code try_all(flx_context *ctx, flx_error *err)
{
    static const char text[] = "graph f(x: f64[2]) { return reduce_sum(custom(x, name=\"mine\")) }";
    const char *wrt[] = {"x"};
    const flx_vmap_axis axes[] = {{"x", 0}};
    flx_module *m = flx_parse(ctx, text, strlen(text), "contract", err);
    if (!m)
        return (flx_code)err->code;
    const flx_graph *g = flx_module_main(m);
    flx_code code = run_once(ctx, g, err);
    flx_graph *made[3] = {NULL, NULL, NULL};
    if (code == FLX_OK && !(made[0] = flx_grad(g, wrt, 1, NULL, err)))
        code = (flx_code)err->code;
    if (code == FLX_OK && !(made[1] = flx_jvp(g, wrt, 1, err)))
        code = (flx_code)err->code;
    if (code == FLX_OK && !(made[2] = flx_vmap(g, axes, 1, NULL, 0, 3, err)))
        code = (flx_code)err->code;
    for (int i = 0; i < 3; i++)
        flx_graph_release(made[i]);
    flx_module_free(m);
    return code;
}

static void check_fault(const fault_case *c)
{
    static const flx_custom_op mine = {.struct_size = sizeof mine,
                                       .name = "mine",
                                       .infer = infer,
                                       .eval = eval,
                                       .vjp = vjp,
                                       .jvp = jvp,
                                       .batch = batch};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    now = c;
    is_batched = false;
    test_fail_context("%s, fault %d", c->function, (int)c->what);
    CHECK_OK(flx_register_custom(ctx, &mine, &err), &err);
    flx_code code = try_all(ctx, &err);
    CHECK_CODE(code, c->what == FAULT_NONE ? FLX_OK : c->what == FAULT_UNENDED ? FLX_E_CHECK : FLX_E_USAGE, &err);
    if (c->what != FAULT_NONE) {
        EXPECT_MSG(strstr(err.message, "mine: ") && strstr(err.message, c->says), "%s", err.message);
        EXPECT_MSG(err.hint[0], "no hint: %s", err.message);
    }
    if (c->what != FAULT_NONE && c->what != FAULT_UNENDED)
        EXPECT_MSG(strstr(err.message, c->function), "%s", err.message);
    flx_context_free(ctx);
    test_count_case();
}

static const fault_case cases[] = {
    {"", FAULT_NONE, ""},
    {"infer", FAULT_CODE, "infer returned 1234, which is not a code"},
    {"infer", FAULT_NEGATIVE, "infer returned -7, which is not a code"},
    {"infer", FAULT_UNENDED, "mmm"},
    {"infer", FAULT_DTYPE, "wrong type to result 0"},
    {"infer", FAULT_RANK, "wrong type to result 0"},
    {"infer", FAULT_EXTENT, "wrong type to result 0"},
    {"infer", FAULT_UNSTABLE, "infer fails for operands that it accepted"},
    {"eval", FAULT_CODE, "eval returned 1234"},
    {"eval", FAULT_NEGATIVE, "eval returned -7"},
    {"eval", FAULT_UNENDED, "mmm"},
#define APPENDING(f, value, other, shape)                                                                         \
    {f, FAULT_CODE, f " returned 1234, which is not a code"},                                                     \
        {f, FAULT_NEGATIVE, f " returned -7, which is not a code"}, {f, FAULT_UNENDED, "mmm"},                    \
        {f, FAULT_OUTPUT, f " added an output to the graph"}, {f, FAULT_INPUT, f " added an input to the graph"}, \
        {f, FAULT_RELEASE, f " released the graph"}, {f, FAULT_SHAPE, other " for " value " 0, expected " shape}, \
        {f, FAULT_WRONG_DTYPE, " for " value " 0, expected " shape},                                              \
        {f, FAULT_FOREIGN, "no value of the graph for " value " 0"},                                              \
    {                                                                                                             \
        f, FAULT_GARBAGE, "no value of the graph for " value " 0"                                                 \
    }
    APPENDING("vjp", "the cotangent of operand", "f64[2, 2]", "f64[2]"),
    APPENDING("jvp", "the tangent of result", "f64[2, 2]", "f64[2]"),
    APPENDING("batch", "result", "f64[2, 3, 2]", "f64[3, 2]"),
    {"batch", FAULT_UNSET, "no value of the graph for result 0"},
};

TEST(host_op_functions_that_break_their_contract_are_reported)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_fault(&cases[i]);
}

/* Each mode alone has the other through its transpose: the same faults are found on the way. */
TEST(host_op_faults_are_found_where_one_rule_serves_both_modes)
{
    static const fault_case wrong[] = {{"vjp", FAULT_SHAPE, ""}, {"jvp", FAULT_SHAPE, ""}};
    static const char text[] = "graph f(x: f64[2]) { return reduce_sum(custom(x, name=\"mine\")) }";
    const char *wrt[] = {"x"};
    for (int i = 0; i < 2; i++) {
        flx_custom_op op = {.struct_size = sizeof op, .name = "mine", .infer = infer, .eval = eval};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        now = &wrong[i];
        op.vjp = i == 0 ? vjp : NULL;
        op.jvp = i == 1 ? jvp : NULL;
        CHECK_OK(flx_register_custom(ctx, &op, &err), &err);
        flx_module *m = flx_parse(ctx, text, strlen(text), "contract", &err);
        CHECK_MSG(m, "%s", err.message);
        flx_graph *made =
            i == 0 ? flx_jvp(flx_module_main(m), wrt, 1, &err) : flx_grad(flx_module_main(m), wrt, 1, NULL, &err);
        CHECK_MSG(!made && err.code == FLX_E_USAGE && strstr(err.message, "mine: "), "%s", err.message);
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}
