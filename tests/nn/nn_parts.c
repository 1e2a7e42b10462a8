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
    flx_nn_rope_tables(g, 5, 4, 0, FLX_F64, &cosines, &sines);
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

static double deviation(const flx_tensor *t, double *largest)
{
    double sum = 0;
    *largest = 0;
    for (int64_t i = 0; i < flx_tensor_count(t); i++) {
        double x = flx_tensor_get(t, i);
        sum += x * x;
        *largest = fmax(*largest, fabs(x));
    }
    return sqrt(sum / (double)flx_tensor_count(t));
}

TEST(nn_first_values_have_their_deviation)
{
    const struct {
        flx_nn_init_kind kind;
        double deviation, bound;
    } rows[] = {{FLX_NN_XAVIER_UNIFORM, sqrt(2.0 / 300), sqrt(6.0 / 300)},
                {FLX_NN_XAVIER_NORMAL, sqrt(2.0 / 300), 1},
                {FLX_NN_HE_UNIFORM, sqrt(2.0 / 100), sqrt(6.0 / 100)},
                {FLX_NN_HE_NORMAL, sqrt(2.0 / 100), 1},
                {FLX_NN_ONES, 1, 1},
                {FLX_NN_ZEROS, 0, 0}};
    flx_context *ctx = flx_context_new(NULL);
    const flx_dim dims[] = {100, 200};
    flx_type t = flx_type_make(FLX_F32, 2, dims);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        double largest;
        flx_tensor *x = flx_nn_init(ctx, &t, rows[i].kind, 1, 5, &err);
        CHECK_MSG(x, "%s", err.message);
        /* 20,000 numbers: the deviation is within 2 % of the true one, four of its own deviations. */
        CHECK_NEAR(deviation(x, &largest), rows[i].deviation, 0.02 * rows[i].deviation);
        CHECK_MSG(largest <= rows[i].bound * (1 + 1e-6), "kind %zu: %g", i, largest);
        flx_tensor_release(x);
    }
    flx_context_free(ctx);
}

TEST(nn_orthogonal_values_are_orthonormal)
{
    flx_context *ctx = flx_context_new(NULL);
    static const flx_dim shapes[2][2] = {{6, 4}, {4, 6}};
    for (int s = 0; s < 2; s++) {
        flx_error err = {0};
        flx_type type = flx_type_make(FLX_F64, 2, shapes[s]);
        flx_tensor *x = flx_nn_init(ctx, &type, FLX_NN_ORTHOGONAL, 2, 1 + (uint64_t)s, &err);
        CHECK_MSG(x, "%s", err.message);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                double dot = 0;
                for (int k = 0; k < 6; k++)
                    dot += s == 0 ? flx_tensor_get(x, k * 4 + i) * flx_tensor_get(x, k * 4 + j)
                                  : flx_tensor_get(x, i * 6 + k) * flx_tensor_get(x, j * 6 + k);
                CHECK_NEAR(dot, i == j ? 4 : 0, 1e-12);
            }
        flx_tensor_release(x);
    }
    flx_context_free(ctx);
}

TEST(nn_seeds_give_their_own_numbers)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = 4;
    flx_type t = flx_type_make(FLX_F32, 1, &n);
    static const uint64_t seeds[] = {1, 2, 1, UINT64_C(1) << 32};
    double first[4];
    for (int i = 0; i < 4; i++) {
        flx_tensor *x = flx_nn_init(ctx, &t, FLX_NN_HE_NORMAL, 1, seeds[i], NULL);
        CHECK(x);
        first[i] = flx_tensor_get(x, 0);
        flx_tensor_release(x);
    }
    CHECK(first[0] == first[2] && first[0] != first[1] && first[0] != first[3]);
    flx_context_free(ctx);
}

TEST(nn_init_reports_what_it_cannot_do)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dim symbol = flx_dim_symbol(ctx, "N");
    flx_type t = flx_type_make(FLX_F32, 1, &symbol), ints = flx_type_make(FLX_I32, 0, NULL);
    CHECK(!flx_nn_init(ctx, &t, FLX_NN_ZEROS, 1, 0, &err) && err.code == FLX_E_UNBOUND_DIM);
    CHECK(!flx_nn_init(ctx, &ints, FLX_NN_HE_NORMAL, 1, 0, &err) && err.code == FLX_E_DTYPE);
    CHECK(!flx_nn_init(NULL, &t, FLX_NN_ZEROS, 1, 0, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_nn_init(ctx, &ints, (flx_nn_init_kind)99, 1, 0, &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}

TEST(nn_usual_values_go_by_the_name)
{
    CHECK(flx_nn_usual_init("block.norm1.gamma") == FLX_NN_ONES && flx_nn_usual_init("a.q.b") == FLX_NN_ZEROS);
    CHECK(flx_nn_usual_init("a.q.w") == FLX_NN_XAVIER_UNIFORM && flx_nn_usual_init("beta") == FLX_NN_ZEROS);
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
