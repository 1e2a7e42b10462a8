/* SPDX-License-Identifier: Apache-2.0 */
/* graph_tensor.c: tensors: making, sharing, reading, converting, limits. */
#include "graph/graph_text.h"

#include "fault.h"

#include <math.h>

TEST(tensor_copies_its_data_and_counts_holds)
{
    fault f = {0};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 2});
    float data[] = {1.0f, 2.0f, 3.0f, 4.0f};
    flx_tensor *t = flx_tensor_new(ctx, &type, data, &err);
    data[0] = 9.0f;
    CHECK(flx_tensor_get(t, 0) == 1.0 && flx_tensor_get(t, 3) == 4.0);
    CHECK(isnan(flx_tensor_get(t, 4)) && isnan(flx_tensor_get(t, -1)));
    CHECK(flx_tensor_nbytes(t) == 16 && flx_tensor_count(t) == 4 && flx_tensor_type(t)->rank == 2);
    CHECK(flx_tensor_data(t) == flx_tensor_const_data(t) && (uintptr_t)flx_tensor_const_data(t) % 64 == 0);
    CHECK(flx_tensor_retain(t) == t);
    flx_tensor_release(t);
    CHECK(flx_tensor_get(t, 1) == 2.0);
    flx_tensor_release(t);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

TEST(tensor_without_data_is_zero)
{
    flx_context *ctx = flx_context_new(NULL);
    for (int d = 1; d < FLX_DTYPE_COUNT; d++) {
        flx_type type = flx_type_make((flx_dtype)d, 1, (flx_dim[]){3});
        flx_tensor *t = flx_tensor_new(ctx, &type, NULL, NULL);
        CHECK(flx_tensor_nbytes(t) == 3 * flx_dtype_size(d));
        for (int i = 0; i < 3; i++)
            CHECK(flx_tensor_get(t, i) == 0.0);
        flx_tensor_release(t);
    }
    flx_type empty = flx_type_make(FLX_F64, 3, (flx_dim[]){4, 0, INT64_C(1) << 62});
    flx_tensor *t = flx_tensor_new(ctx, &empty, NULL, NULL);
    CHECK(t && flx_tensor_count(t) == 0 && flx_tensor_nbytes(t) == 0 && flx_tensor_const_data(t) != NULL);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(tensor_null_gives_nothing)
{
    flx_error err = {0};
    CHECK(flx_tensor_type(NULL) == NULL && flx_tensor_data(NULL) == NULL && flx_tensor_const_data(NULL) == NULL);
    CHECK(flx_tensor_nbytes(NULL) == 0 && flx_tensor_count(NULL) == 0 && isnan(flx_tensor_get(NULL, 0)));
    CHECK(flx_tensor_cast(NULL, FLX_F32, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_tensor_new(NULL, NULL, NULL, &err) == NULL && err.code == FLX_E_USAGE);
}

TEST(tensor_of_a_type_that_is_none_is_refused)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 1000});
    flx_dim n = flx_dim_symbol(ctx, "N");
    const struct {
        flx_type type;
        flx_code code;
    } rows[] = {
        {{.dtype = 0}, FLX_E_DTYPE},
        {{.dtype = 99}, FLX_E_DTYPE},
        {{.dtype = FLX_F32, .rank = 17}, FLX_E_SIZE},
        {{.dtype = FLX_F32, .rank = -1}, FLX_E_SIZE},
        {{.dtype = FLX_F32, .rank = 1, .dims = {-2}}, FLX_E_SHAPE},
        {{.dtype = FLX_F32, .rank = 1, .dims = {n}}, FLX_E_UNBOUND_DIM},
        {{.dtype = FLX_F32, .rank = 1, .dims = {FLX_DIM_INVALID}}, FLX_E_SIZE},
        {{.dtype = FLX_F32, .rank = 2, .dims = {INT64_C(1) << 40, INT64_C(1) << 40}}, FLX_E_SIZE},
        {{.dtype = FLX_F32, .rank = 1, .dims = {251}}, FLX_E_SIZE}, /* the context's limit */
        {{.dtype = FLX_F32, .rank = 1, .dims = {250}}, FLX_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        flx_error err = {0};
        flx_tensor *t = flx_tensor_new(ctx, &rows[i].type, NULL, &err);
        CHECK_CODE(t ? FLX_OK : err.code, rows[i].code, &err);
        flx_tensor_release(t);
    }
    flx_context_free(ctx);
}

TEST(tensor_cast_is_that_of_the_op)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_type type = flx_type_make(FLX_F64, 1, (flx_dim[]){5});
    flx_tensor *t = flx_tensor_new(ctx, &type, (double[]){-1.5, 300.0, NAN, 0.0, 65504.0}, &err);
    static const struct {
        flx_dtype to;
        double values[5];
    } rows[] = {
        {FLX_U8, {0, 255, 0, 0, 255}},     {FLX_I8, {-1, 127, 0, 0, 127}},        {FLX_BOOL, {1, 1, 1, 0, 1}},
        {FLX_I64, {-1, 300, 0, 0, 65504}}, {FLX_F16, {-1.5, 300, NAN, 0, 65504}}, {FLX_C64, {-1.5, 300, NAN, 0, 65504}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        flx_tensor *y = flx_tensor_cast(t, rows[i].to, &err);
        CHECK_EQ_I64(flx_tensor_type(y)->dtype, rows[i].to);
        for (int k = 0; k < 5; k++)
            CHECK_NEAR(flx_tensor_get(y, k), rows[i].values[k], 0.0);
        flx_tensor_release(y);
    }
    CHECK(flx_tensor_cast(t, FLX_DTYPE_NONE, &err) == NULL && err.code == FLX_E_DTYPE);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(tensor_in_a_graph_outlives_its_makers_hold)
{
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_type type = flx_type_make(FLX_I32, 1, (flx_dim[]){3});
    flx_tensor *t = flx_tensor_new(ctx, &type, (int32_t[]){1, 2, 3}, NULL);
    flx_graph *g = flx_graph_new(ctx, "f");
    flx_output(g, flx_const(g, &type, t), "y");
    flx_tensor_release(t);
    flx_tensor *out = NULL;
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, &out, NULL), NULL);
    flx_graph_release(g);
    CHECK(flx_tensor_get(out, 2) == 3.0);
    flx_tensor_release(out);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

TEST(dtype_names_and_sizes_agree_with_the_map)
{
    for (int d = 1; d < FLX_DTYPE_COUNT; d++) {
        CHECK_EQ_I64(flx_dtype_parse(flx_dtype_name(d)), d);
        CHECK(flx_dtype_size(d) > 0);
    }
    CHECK(flx_dtype_parse("f33") == FLX_DTYPE_NONE && flx_dtype_parse(NULL) == FLX_DTYPE_NONE);
    CHECK(flx_dtype_parse("none") == FLX_DTYPE_NONE && flx_dtype_parse("") == FLX_DTYPE_NONE);
    CHECK(flx_dtype_size(0) == 0 && flx_dtype_size(-1) == 0 && flx_dtype_size(16) == 0);
    CHECK_EQ_STR(flx_dtype_name(-5), "none");
    CHECK_EQ_STR(flx_dtype_name(1000), "none");
    CHECK_EQ_STR(flx_version(), FLX_VERSION);
}

TEST(code_names_texts_and_statuses_are_those_of_the_map)
{
#define CHECK_ROW(name, value, status, text)                  \
    CHECK_EQ_STR(flx_code_name(FLX_E_##name), #name);         \
    CHECK_EQ_STR(flx_code_text(FLX_E_##name), text);          \
    CHECK_EQ_I64(flx_code_exit_status(FLX_E_##name), status); \
    CHECK_EQ_I64(FLX_E_##name, value);
    FLX_ERROR_MAP(CHECK_ROW)
#undef CHECK_ROW
    CHECK_EQ_STR(flx_code_name(FLX_OK), "OK");
    CHECK(flx_code_exit_status(FLX_OK) == 0 && flx_code_exit_status(12345) == 3);
    CHECK(flx_code_name(12345)[0] && flx_code_text(12345)[0] && flx_code_text(FLX_OK)[0]);
}
