/* SPDX-License-Identifier: Apache-2.0 */
/* nn_init.c: the numbers that parameters are initialised with. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <math.h>

static flx_init of(int32_t kind, double scale)
{
    return (flx_init){kind, 0, scale};
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

TEST(init_numbers_have_their_deviation)
{
    /* The deviation of normal numbers that are cut at two deviations. */
    const double cut = sqrt(1 - 2 * 2 * exp(-2) / sqrt(2 * acos(-1)) / erf(sqrt(2)));
    const struct {
        int32_t kind;
        double scale, deviation, bound;
    } rows[] = {{FLX_INIT_XAVIER_UNIFORM, 0, sqrt(2.0 / 300), sqrt(6.0 / 300)},
                {FLX_INIT_XAVIER_NORMAL, 0, sqrt(2.0 / 300), 1},
                {FLX_INIT_HE_UNIFORM, 0, sqrt(2.0 / 100), sqrt(6.0 / 100)},
                {FLX_INIT_HE_NORMAL, 0, sqrt(2.0 / 100), 1},
                {FLX_INIT_HE_NORMAL, 3, 3 * sqrt(2.0 / 100), 3},
                {FLX_INIT_LECUN_UNIFORM, 0, sqrt(1.0 / 100), sqrt(3.0 / 100)},
                {FLX_INIT_LECUN_NORMAL, 0, sqrt(1.0 / 100), 1},
                {FLX_INIT_UNIFORM, 0.5, 0.5 / sqrt(3), 0.5},
                {FLX_INIT_NORMAL, 0.02, 0.02, 0.2},
                {FLX_INIT_TRUNCATED_NORMAL, 0.02, 0.02 * cut, 0.04},
                {FLX_INIT_ONES, 0, 1, 1},
                {FLX_INIT_CONSTANT, -0.25, 0.25, 0.25},
                {FLX_INIT_CONSTANT, 0, 0, 0},
                {FLX_INIT_ZEROS, 0, 0, 0},
                {FLX_INIT_USUAL, 0, sqrt(2.0 / 300), sqrt(6.0 / 300)}};
    flx_context *ctx = flx_context_new(NULL);
    const flx_dim dims[] = {100, 200};
    flx_type t = flx_type_make(FLX_F32, 2, dims);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        double largest;
        flx_tensor *x = flx_init_tensor(ctx, &t, of(rows[i].kind, rows[i].scale), 5, &err);
        CHECK_MSG(x, "%s", err.message);
        /* 20,000 numbers: the deviation is within 2 % of the true one, four of its own deviations. */
        CHECK_NEAR(deviation(x, &largest), rows[i].deviation, 0.02 * rows[i].deviation);
        CHECK_MSG(largest <= rows[i].bound * (1 + 1e-6), "row %zu: %g", i, largest);
        flx_tensor_release(x);
    }
    flx_context_free(ctx);
}

/* Inputs and outputs of [outputs, inputs, spatial...]. */
TEST(init_of_a_convolution_counts_its_window)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_type t = flx_type_make(FLX_F64, 4, (flx_dim[]){32, 20, 5, 5});
    double largest;
    flx_tensor *x = flx_init_tensor(ctx, &t, of(FLX_INIT_HE_UNIFORM, 0), 1, NULL);
    CHECK(x);
    CHECK_NEAR(deviation(x, &largest), sqrt(2.0 / 500), 0.02 * sqrt(2.0 / 500));
    CHECK(largest <= sqrt(6.0 / 500));
    flx_tensor_release(x);
    flx_context_free(ctx);
}

TEST(init_orthogonal_values_are_orthonormal)
{
    flx_context *ctx = flx_context_new(NULL);
    static const flx_dim shapes[2][2] = {{6, 4}, {4, 6}};
    for (int s = 0; s < 2; s++) {
        flx_error err = {0};
        flx_type type = flx_type_make(FLX_F64, 2, shapes[s]);
        flx_tensor *x = flx_init_tensor(ctx, &type, of(FLX_INIT_ORTHOGONAL, 2), 1 + (uint64_t)s, &err);
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

TEST(init_identity_may_have_more_columns_than_rows)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 3});
    flx_tensor *x = flx_init_tensor(ctx, &type, of(FLX_INIT_IDENTITY, 0.5), 0, NULL);
    CHECK(x);
    for (int i = 0; i < 6; i++)
        CHECK(flx_tensor_get(x, i) == (i % 4 == 0 ? 0.5 : 0));
    flx_tensor_release(x);
    flx_context_free(ctx);
}

static double first_of(flx_context *ctx, const flx_type *t, flx_init init, uint64_t seed)
{
    flx_tensor *x = flx_init_tensor(ctx, t, init, seed, NULL);
    CHECK(x);
    double first = flx_tensor_get(x, 0);
    flx_tensor_release(x);
    return first;
}

TEST(init_seeds_give_their_own_numbers)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim n = 4, two = 2;
    flx_type t = flx_type_make(FLX_F32, 1, &n), words = flx_type_make(FLX_U32, 1, &two);
    static const uint64_t seeds[] = {1, 2, 1, UINT64_C(1) << 32};
    double first[4], key[4];
    for (int i = 0; i < 4; i++) {
        first[i] = first_of(ctx, &t, of(FLX_INIT_HE_NORMAL, 0), seeds[i]);
        key[i] = first_of(ctx, &words, of(FLX_INIT_KEY, 0), seeds[i]);
    }
    CHECK(first[0] == first[2] && first[0] != first[1] && first[0] != first[3]);
    CHECK(key[0] == key[2] && key[0] != key[1] && key[0] != key[3]);
    flx_context_free(ctx);
}

TEST(init_of_whole_numbers_is_exact)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_type t = flx_type_make(FLX_I32, 0, NULL), flag = flx_type_make(FLX_BOOL, 0, NULL);
    CHECK(first_of(ctx, &t, of(FLX_INIT_CONSTANT, -7), 0) == -7);
    CHECK(first_of(ctx, &t, of(FLX_INIT_USUAL, 0), 0) == 0);
    CHECK(first_of(ctx, &flag, of(FLX_INIT_ONES, 0), 0) == 1);
    flx_context_free(ctx);
}

TEST(init_misuse_is_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dim three = 3, symbol = flx_dim_symbol(ctx, "N");
    const flx_type f32 = flx_type_make(FLX_F32, 1, &three), i32 = flx_type_make(FLX_I32, 1, &three);
    const flx_type open = flx_type_make(FLX_F32, 1, &symbol), c64 = flx_type_make(FLX_C64, 1, &three);
    flx_type wrong = f32;
    wrong.rank = -1;
    const struct {
        const flx_type *type;
        flx_init init;
        flx_code code;
    } rows[] = {{&i32, of(FLX_INIT_HE_NORMAL, 0), FLX_E_DTYPE},
                {&c64, of(FLX_INIT_NORMAL, 0), FLX_E_DTYPE},
                {&f32, of(FLX_INIT_KEY, 0), FLX_E_DTYPE},
                {&f32, of(FLX_INIT_IDENTITY, 0), FLX_E_SHAPE},
                {&i32, of(FLX_INIT_CONSTANT, 0.5), FLX_E_USAGE},
                {&f32, of(FLX_INIT_ONES, NAN), FLX_E_USAGE},
                {&f32, of(FLX_INIT_CONSTANT, INFINITY), FLX_E_USAGE},
                {&f32, of(FLX_INIT_NORMAL, -1), FLX_E_USAGE},
                {&f32, of(-1, 0), FLX_E_USAGE},
                {&f32, of(FLX_INIT_KEY + 1, 0), FLX_E_USAGE},
                {&f32, {FLX_INIT_ONES, 1, 0}, FLX_E_USAGE},
                {&open, of(FLX_INIT_ZEROS, 0), FLX_E_UNBOUND_DIM},
                {NULL, of(FLX_INIT_ZEROS, 0), FLX_E_USAGE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        CHECK(!flx_init_tensor(ctx, rows[i].type, rows[i].init, 0, &err));
        CHECK_MSG(err.code == (int32_t)rows[i].code, "row %zu: %s", i, err.message);
    }
    flx_error err = {0};
    CHECK(!flx_init_tensor(NULL, &f32, of(FLX_INIT_ZEROS, 0), 0, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_init_tensor(ctx, &wrong, of(FLX_INIT_ZEROS, 0), 0, &err) && err.code != FLX_OK);
    flx_context_free(ctx);
}
