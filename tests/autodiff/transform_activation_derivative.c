/* SPDX-License-Identifier: Apache-2.0 */
/* f'(x) as a builder: every pointwise op of one operand against finite differences, in first and second order, and what
   it rejects. */
#include "ops/opcode.h"
#include "ops/sample.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { POINTS = 16 };

static bool is_unary(const flxi_op *op)
{
    const flxi_operands *o = flxi_operands_of(op);
    return op->op_class == CLASS_POINTWISE && o->count == 1 && !o->variadic && (op->dtypes >> FLX_F64 & 1);
}

/* f(x), f'(x); NULL with the error when there is no f'. */
static flx_graph *pair_of(flx_context *ctx, const char *op, const flx_type *type, flx_error *err)
{
    flx_val y = FLX_NONE;
    flx_graph *g = flx_graph_new(ctx, "pair");
    flx_val x = flx_input(g, "x", type);
    flx_val slope = flx_activation_derivative(g, op, x);
    flx_op(g, op, &x, 1, NULL, 0, &y, 1);
    flx_output(g, y, "y");
    flx_output(g, slope, "slope");
    if (flx_graph_error(g, err) == FLX_OK && flx_graph_verify(g, err) == FLX_OK)
        return g;
    flx_graph_release(g);
    return NULL;
}

/* The two outputs of g at x + shift; `tangent_x`, where g has it, is 1. */
static void values_at(const flx_graph *g, const flx_tensor *x, double shift, size_t first, double (*v)[POINTS])
{
    flx_error err = {0};
    flx_tensor *out[4] = {0};
    flx_tensor *moved = flx_tensor_cast(x, FLX_F64, NULL);
    flx_tensor *ones = flx_tensor_cast(x, FLX_F64, NULL);
    for (int i = 0; i < POINTS; i++) {
        ((double *)flx_tensor_data(moved))[i] += shift;
        ((double *)flx_tensor_data(ones))[i] = 1;
    }
    flx_feed feeds[2] = {{"x", moved}, {"tangent_x", ones}};
    CHECK_OK((int32_t)flx_run(g, ON_REF, feeds, flx_graph_input_count(g), out, &err), &err);
    for (size_t k = 0; k < 2; k++)
        memcpy(v[k], flx_tensor_const_data(out[first + k]), sizeof v[k]);
    for (int k = 0; k < 4; k++)
        flx_tensor_release(out[k]);
    flx_tensor_release(moved);
    flx_tensor_release(ones);
}

static void check_against_differences(const flxi_op *op, const flx_graph *g, const flx_tensor *x)
{
    const double h = 1e-5;
    const char *const wrt[] = {"x"};
    double low[2][POINTS];
    double high[2][POINTS];
    double at[2][POINTS];
    double pushed[2][POINTS];
    flx_error err = {0};
    flx_graph *jvp = flx_jvp(g, wrt, 1, &err);
    if (!EXPECT_MSG(jvp != NULL, "%s: %s", op->name, err.message))
        return;
    values_at(g, x, -h, 0, low);
    values_at(g, x, h, 0, high);
    values_at(g, x, 0, 0, at);
    values_at(jvp, x, 0, 2, pushed);
    for (int i = 0; i < POINTS; i++) {
        double first = (high[0][i] - low[0][i]) / (2 * h);
        double second = (high[1][i] - low[1][i]) / (2 * h);
        double scale = 1 + fabs(at[0][i]) + fabs(at[1][i]) + fabs(pushed[1][i]);
        test_fail_context("%s at %.17g", op->name, flx_tensor_get(x, i));
        EXPECT_MSG(fabs(at[1][i] - first) <= 1e-7 * scale, "f' is %.12g, by finite difference %.12g", at[1][i], first);
        EXPECT_MSG(at[1][i] == pushed[0][i], "f' is %.17g, forward mode gives %.17g", at[1][i], pushed[0][i]);
        EXPECT_MSG(fabs(pushed[1][i] - second) <= 1e-6 * scale, "f'' is %.12g, by finite difference %.12g",
                   pushed[1][i], second);
        test_count_case();
    }
    flx_graph_release(jvp);
}

TEST(activation_derivative_equals_differences_for_every_unary_op)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_type type = flx_type_make(FLX_F64, 1, FLX_INTS(POINTS).v);
    uint64_t state = test_seed();
    int tried = 0;
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_op *op = &flxi_ops[i];
        flx_error err = {0};
        if (!is_unary(op))
            continue;
        test_fail_context("%s", op->name);
        flx_graph *g = pair_of(ctx, op->name, &type, &err);
        if (!g) {
            bool refused = err.code == FLX_E_NO_RULE || err.code == FLX_E_ATTRIBUTE;
            EXPECT_MSG(refused && (!op->rules->partial || err.code == FLX_E_ATTRIBUTE), "%s: %s", op->name,
                       err.message);
            continue;
        }
        for (const flxi_sample *s = op->rules->samples; s->operands || s->attrs; s++) {
            if (s->error || s->attrs || strncmp(s->operands, "T[0", 3) == 0 || s->operands[0] != 'T')
                continue;
            sample_case c = {.op = (flxi_opcode)i, .sample = s, .dtype = FLX_F64};
            flx_tensor *x = sample_value(ctx, &c, 0, &type, FILL_RANDOM, &state, &err);
            CHECK_MSG(x != NULL, "%s", err.message);
            check_against_differences(op, g, x);
            flx_tensor_release(x);
        }
        tried++;
        flx_graph_release(g);
    }
    CHECK_MSG(tried >= 50, "only %d ops have a derivative", tried);
    flx_context_free(ctx);
}

TEST(activation_derivative_refuses_what_has_none)
{
    static const struct {
        const char *op;
        flx_dtype dtype;
        flx_code code;
        const char *message;
    } rows[] = {
        {"nonesuch", FLX_F32, FLX_E_NAME, "there is no op called 'nonesuch'"},
        {NULL, FLX_F32, FLX_E_USAGE, "flx_op: the name of the op is NULL"},
        {"add", FLX_F32, FLX_E_NO_RULE, "'add' has no f'(x): it is not a pointwise function of one operand"},
        {"reduce_sum", FLX_F32, FLX_E_NO_RULE,
         "'reduce_sum' has no f'(x): it is not a pointwise function of one operand"},
        {"is_nan", FLX_F32, FLX_E_NO_RULE, "'is_nan' has no f'(x): its result has a different dtype than x"},
        {"abs", FLX_C64, FLX_E_NO_RULE, "'abs' has no f'(x): its result has a different dtype than x"},
        {"sign", FLX_C64, FLX_E_NO_RULE, "'sign' has no f'(x): it is not holomorphic"},
        {"relu", FLX_I32, FLX_E_NO_RULE, "'relu' has no f'(x): x is neither floating nor complex"},
        {"threshold", FLX_F32, FLX_E_ATTRIBUTE, "threshold: attribute 'theta' must be given: a number"},
        {"gelu", FLX_C64, FLX_E_DTYPE, "gelu: x cannot be c64"},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        flx_error err = {0};
        flx_type type = {.dtype = (int32_t)rows[i].dtype};
        flx_graph *g = flx_graph_new(ctx, "g");
        flx_val d = flx_activation_derivative(g, rows[i].op, flx_input(g, "x", &type));
        test_fail_context("row %zu", i);
        CHECK_EQ_U64(d.id, 0);
        CHECK_CODE(flx_graph_error(g, &err), rows[i].code, &err);
        CHECK_EQ_STR(err.message, rows[i].message);
        flx_graph_release(g);
    }
    CHECK_EQ_U64(flx_activation_derivative(NULL, "tanh", FLX_NONE).id, 0);
    flx_context_free(ctx);
}

/* A mask becomes numbers, a constant gets the shape of x, and a holomorphic op has a complex derivative. */
TEST(activation_derivative_has_the_type_of_x)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "g");
    const char *const ops[] = {"relu", "neg", "floor", "hard_swish", "tanh", "sign"};
    flx_dim dims[] = {flx_dim_symbol(ctx, "N"), 2};
    flx_type half = flx_type_make(FLX_F16, 2, dims);
    flx_type wide = flx_type_make(FLX_C128, 2, dims);
    flx_error err = {0};
    flx_val x = flx_input(g, "x", &half);
    flx_val z = flx_input(g, "z", &wide);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const flx_type *t = flx_val_type(g, flx_activation_derivative(g, ops[i], x));
        test_fail_context("%s", ops[i]);
        CHECK_OK(flx_graph_error(g, &err), &err);
        CHECK(t && flxi_type_equal(t, &half));
    }
    const flx_type *t = flx_val_type(g, flx_activation_derivative(g, "neg", z));
    CHECK(t && flxi_type_equal(t, &wide));
    flx_graph_release(g);
    flx_context_free(ctx);
}
