/* SPDX-License-Identifier: Apache-2.0 */
/* nn_parts.c: names and shapes of parameters, positions, initial values, dropout, and errors. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <math.h>
#include <string.h>

static flx_val input(flx_graph *g, const char *name, flx_dtype dtype, int rank, const flx_dim *dims)
{
    flx_type t = flx_type_make(dtype, rank, dims);
    return flx_input(g, name, &t);
}

TEST(nn_layers_declare_their_parameters_by_name)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    const flx_dim dims[] = {flx_dim_symbol(ctx, "N"), 5, 8};
    const int64_t units[] = {16, 3};
    flx_val x = input(g, "x", FLX_F32, 3, dims);
    flx_val y = flx_nn_mlp(g, "head", x, units, 2, "relu");
    y = flx_nn_rms_norm(g, "norm", y, 1e-6);
    flx_error err = {0};
    CHECK_OK(flx_graph_error(g, &err), &err);
    char text[80];
    flx_type_print(ctx, flx_val_type(g, y), text, sizeof text);
    CHECK_EQ_STR(text, "f32[N, 5, 3]");
    static const char *const names[] = {"x", "head.0.w", "head.0.b", "head.1.w", "head.1.b", "norm.gamma"};
    CHECK_EQ_U64(flx_graph_input_count(g), 6);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ_STR(flx_val_name(g, flx_graph_input(g, i)), names[i]);
    CHECK(flx_graph_input_is_param(g, 1) && !flx_graph_input_is_param(g, 0));
    flx_graph_release(g);
    flx_context_free(ctx);
}

static flx_tensor *run_only(flx_graph *g, flx_val y)
{
    flx_error err = {0};
    flx_tensor *out = NULL;
    flx_output(g, y, "y");
    CHECK_OK(flx_graph_error(g, &err), &err);
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, &out, &err), &err);
    return out;
}

TEST(nn_sinusoids_alternate_sine_and_cosine)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_tensor *t = run_only(g, flx_nn_sinusoids(g, 7, 6, 100, FLX_F64));
    for (int p = 0; p < 7; p++)
        for (int i = 0; i < 3; i++) {
            double angle = p * pow(100, -2.0 * i / 6);
            CHECK_NEAR(flx_tensor_get(t, p * 6 + 2 * i), sin(angle), 1e-12);
            CHECK_NEAR(flx_tensor_get(t, p * 6 + 2 * i + 1), cos(angle), 1e-12);
        }
    flx_tensor_release(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Rotated queries and keys: their products depend on the distance of the positions only. */
TEST(nn_rope_tables_turn_by_the_position)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_val cosines, sines;
    flx_nn_rope_tables(g, 5, FLX_NONE, 4, 0, FLX_F64, &cosines, &sines);
    const flx_dim dims[] = {1, 5, 4};
    flx_val x = flx_expand(g,
                           flx_reshape(g,
                                       flx_add(g, flx_iota(g, &(flx_type){.dtype = FLX_F64, .rank = 1, .dims = {4}}, 0),
                                               flx_scalar(g, FLX_F64, 1)),
                                       FLX_INTS(1, 1, 4)),
                           (flx_ints){dims, 3});
    flx_val r = flx_rope(g, x, cosines, sines, "bsd", 4, FLX_DEFAULT, 1);
    flx_tensor *t = run_only(g, flx_matmul(g, r, flx_transpose(g, r, FLX_INTS(0, 2, 1))));
    for (int i = 1; i < 5; i++)
        for (int j = 1; j < 5; j++)
            CHECK_NEAR(flx_tensor_get(t, i * 5 + j), flx_tensor_get(t, (i - 1) * 5 + j - 1), 1e-12);
    CHECK(fabs(flx_tensor_get(t, 0) - flx_tensor_get(t, 1)) > 1e-3);
    flx_tensor_release(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(nn_mistakes_stay_in_the_graph)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_error err = {0};
    const flx_dim dims[] = {2, 3};
    flx_val x = input(g, "x", FLX_F32, 2, dims);
    flx_nn_linear(g, "l", flx_nn_linear(g, "l", x, 4, NULL), 4, NULL); /* the same name twice */
    CHECK(flx_graph_error(g, &err) == FLX_E_DUP_NAME);
    flx_graph_release(g);
    g = flx_graph_new(ctx, "f");
    flx_nn_linear(g, "l", input(g, "x", FLX_F32, 2, dims), 4, "no_such_op");
    CHECK(flx_graph_error(g, &err) == FLX_E_NAME);
    flx_graph_release(g);
    g = flx_graph_new(ctx, "f");
    flx_nn_ctc(g, input(g, "x", FLX_F32, 2, dims), FLX_NONE, FLX_NONE, FLX_NONE, 0);
    CHECK(flx_graph_error(g, &err) != FLX_OK);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* One step is too few for two labels: the probability is 0. */
TEST(nn_ctc_of_too_short_an_input_is_infinite)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    const flx_dim dims[] = {1, 1, 3};
    flx_val zeros = flx_expand(g, flx_scalar(g, FLX_F64, 0), (flx_ints){dims, 3});
    const flx_dim two[] = {1, 2}, one[] = {1};
    flx_val labels = flx_expand(g, flx_scalar(g, FLX_I32, 1), (flx_ints){two, 2});
    flx_val steps = flx_expand(g, flx_scalar(g, FLX_I32, 1), (flx_ints){one, 1});
    flx_val count = flx_expand(g, flx_scalar(g, FLX_I32, 2), (flx_ints){one, 1});
    flx_tensor *t = run_only(g, flx_nn_ctc(g, flx_log_softmax(g, zeros, -1), labels, steps, count, 0));
    CHECK(isinf(flx_tensor_get(t, 0)) && flx_tensor_get(t, 0) > 0);
    flx_tensor_release(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}
