/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_columns.c: columns, conversions, slices, windows, and datasets from arrays. */
#include "test.h"

#include <fluxion/data.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_tensor *tensor(flx_context *ctx, flx_dtype dtype, int32_t rank, const flx_dim *dims, const void *data)
{
    flx_error err = {0};
    const flx_type type = flx_type_make(dtype, rank, dims);
    flx_tensor *t = flx_tensor_new(ctx, &type, data, &err);
    CHECK_MADE(t, &err);
    return t;
}

TEST(dataset_columns_must_agree)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dataset *d = flx_dataset_new(ctx, &err);
    flx_tensor *three = tensor(ctx, FLX_F32, 2, (flx_dim[]){3, 2}, NULL);
    flx_tensor *four = tensor(ctx, FLX_F32, 1, (flx_dim[]){4}, NULL);
    flx_tensor *scalar = tensor(ctx, FLX_F32, 0, NULL, NULL);
    CHECK_OK(flx_dataset_add(d, "a", three, &err), &err);
    CHECK_CODE(flx_dataset_add(d, "a", three, &err), FLX_E_DUP_NAME, &err);
    CHECK_CODE(flx_dataset_add(d, "b", four, &err), FLX_E_SHAPE, &err);
    CHECK_EQ_STR(err.message, "column 'b' has 4 rows, but column 'a' has 3");
    CHECK_CODE(flx_dataset_add(d, "c", scalar, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_dataset_add(d, "", three, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_dataset_add(NULL, "c", three, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_dataset_add(d, NULL, three, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_dataset_add(d, "c", NULL, &err), FLX_E_USAGE, &err);
    CHECK(flx_dataset_rows(d) == 3 && flx_dataset_columns(d) == 1);
    CHECK_EQ_STR(flx_dataset_name(d, 0), "a");
    CHECK(flx_dataset_type(d, 0)->rank == 2 && flx_dataset_type(d, 0)->dims[1] == 2);
    CHECK(!flx_dataset_name(d, 1) && !flx_dataset_type(d, 1) && !flx_dataset_class(d, 0));
    CHECK(flx_dataset_rows(NULL) == 0 && flx_dataset_columns(NULL) == 0 && flx_dataset_classes(NULL) == 0);
    CHECK(!flx_dataset_new(NULL, &err) && err.code == FLX_E_USAGE);
    CHECK_CODE(flx_dataset_convert(d, "z", FLX_F32, 1, 0, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_dataset_convert(d, "a", FLX_F32, (double)NAN, 0, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_dataset_convert(d, "a", FLX_I32, 1, 0, &err), FLX_E_DTYPE, &err);
    CHECK_OK(flx_dataset_add(d, "b", three, &err), &err);
    CHECK_CODE(flx_dataset_remove(d, "c", &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_dataset_remove(d, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_dataset_remove(NULL, "a", &err), FLX_E_USAGE, &err);
    CHECK_OK(flx_dataset_remove(d, "a", &err), &err);
    CHECK(flx_dataset_columns(d) == 1 && flx_dataset_rows(d) == 3);
    CHECK_EQ_STR(flx_dataset_name(d, 0), "b");
    CHECK_OK(flx_dataset_remove(d, "b", &err), &err);
    CHECK_OK(flx_dataset_add(d, "d", four, &err), &err); /* without columns there is no number of rows */
    CHECK(flx_dataset_rows(d) == 4);
    flx_dataset_free(NULL);
    flx_tensor_release(three);
    flx_tensor_release(four);
    flx_tensor_release(scalar);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

/* Every conversion gives what flx_tensor_cast() gives to f64, times the scale, plus the offset. */
TEST(dataset_converts_every_dtype)
{
    static const flx_dtype targets[] = {FLX_F32, FLX_F64, FLX_I32, FLX_I64};
    flx_context *ctx = flx_context_new(NULL);
    const double values[4] = {0, 1, 2, 100};
    flx_tensor *wide = tensor(ctx, FLX_F64, 1, (flx_dim[]){4}, values);
    int refused = 0;
    for (int from = 1; from < FLX_DTYPE_COUNT; from++)
        for (size_t k = 0; k < 4; k++) {
            flx_error err = {0};
            bool is_float = targets[k] == FLX_F32 || targets[k] == FLX_F64;
            double scale = is_float ? 0.25 : 1, offset = is_float ? -3 : 0;
            test_fail_context("%s to %s", flx_dtype_name(from), flx_dtype_name(targets[k]));
            flx_dataset *d = flx_dataset_new(ctx, &err);
            flx_tensor *t = flx_tensor_cast(wide, (flx_dtype)from, &err);
            CHECK_MADE(t, &err);
            CHECK_OK(flx_dataset_add(d, "x", t, &err), &err);
            flx_code code = flx_dataset_convert(d, "x", targets[k], scale, offset, &err);
            if (code != FLX_OK) {
                CHECK_EQ_I64(code, FLX_E_DTYPE);
                refused++;
            } else {
                flx_tensor *y = flx_dataset_gather(d, "x", (int64_t[]){3, 0, 2, 1, 1}, 5, &err);
                CHECK_MADE(y, &err);
                CHECK_EQ_I64(flx_tensor_type(y)->dtype, targets[k]);
                static const int order[] = {3, 0, 2, 1, 1};
                for (int i = 0; i < 5; i++)
                    CHECK_NEAR(flx_tensor_get(y, i), flx_tensor_get(t, order[i]) * scale + offset, 0);
                flx_tensor_release(y);
            }
            flx_tensor_release(t);
            flx_dataset_free(d);
        }
    /* Complex ones to four dtypes; the four floats, u64, u32, i64 to integers that are too narrow. */
    CHECK_EQ_I64(refused, 2 * 4 + 4 * 2 + 2 + 1 + 1);
    flx_tensor_release(wide);
    flx_context_free(ctx);
}

TEST(dataset_gathers_rows_and_slices)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const int32_t values[10] = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41};
    flx_tensor *t = tensor(ctx, FLX_I32, 2, (flx_dim[]){5, 2}, values);
    flx_dataset *d = flx_dataset_new(ctx, &err);
    CHECK_OK(flx_dataset_add(d, "x", t, &err), &err);
    flx_tensor_release(t);
    flx_dataset *s = flx_dataset_slice(d, 1, 4, &err);
    flx_dataset *ss = flx_dataset_slice(s, 1, 3, &err);
    CHECK(s && ss && flx_dataset_rows(s) == 3 && flx_dataset_rows(ss) == 2);
    CHECK(!flx_dataset_slice(d, 2, 1, &err) && err.code == FLX_E_INDEX);
    CHECK(!flx_dataset_slice(d, 0, 6, &err) && err.code == FLX_E_INDEX);
    CHECK(!flx_dataset_slice(d, -1, 2, &err) && err.code == FLX_E_INDEX);
    CHECK(!flx_dataset_slice(NULL, 0, 0, &err) && err.code == FLX_E_USAGE);
    flx_dataset_free(d);
    flx_dataset_free(s);
    flx_tensor *y = flx_dataset_gather(ss, "x", (int64_t[]){1, 0, 1}, 3, &err);
    CHECK_MADE(y, &err);
    CHECK(memcmp(flx_tensor_const_data(y), (int32_t[]){30, 31, 20, 21, 30, 31}, 24) == 0);
    flx_tensor_release(y);
    y = flx_dataset_gather(ss, "x", NULL, 0, &err);
    CHECK(y && flx_tensor_count(y) == 0);
    flx_tensor_release(y);
    CHECK(!flx_dataset_gather(ss, "x", (int64_t[]){2}, 1, &err) && err.code == FLX_E_INDEX);
    CHECK(!flx_dataset_gather(ss, "x", (int64_t[]){-1}, 1, &err) && err.code == FLX_E_INDEX);
    CHECK(!flx_dataset_gather(ss, "y", NULL, 0, &err) && err.code == FLX_E_NAME);
    CHECK(!flx_dataset_gather(ss, "x", NULL, 1, &err) && err.code == FLX_E_USAGE);
    flx_dataset_free(ss);
    flx_context_free(ctx);
}

/* Random rows of random shapes against a plain loop. */
TEST(dataset_gather_equals_a_loop)
{
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    for (int round = 0; round < 60; round++) {
        flx_error err = {0};
        int64_t rows = 1 + (int64_t)(test_random(&state) % 300), width = (int64_t)(test_random(&state) % 40);
        flx_tensor *t = tensor(ctx, FLX_U16, 2, (flx_dim[]){rows, width}, NULL);
        uint16_t *x = flx_tensor_data(t);
        for (int64_t i = 0; i < rows * width; i++)
            x[i] = (uint16_t)test_random(&state);
        flx_dataset *d = flx_dataset_new(ctx, &err);
        CHECK_OK(flx_dataset_add(d, "x", t, &err), &err);
        int64_t list[500];
        size_t n = test_random(&state) % 500;
        for (size_t i = 0; i < n; i++) /* runs of neighbours, and jumps */
            list[i] = i && test_random(&state) % 3 ? (list[i - 1] + 1) % rows
                                                   : (int64_t)(test_random(&state) % (uint64_t)rows);
        flx_tensor *y = flx_dataset_gather(d, "x", list, n, &err);
        CHECK_MADE(y, &err);
        for (size_t i = 0; i < n; i++)
            for (int64_t k = 0; k < width; k++)
                CHECK(((const uint16_t *)flx_tensor_const_data(y))[(int64_t)i * width + k] == x[list[i] * width + k]);
        flx_tensor_release(y);
        flx_tensor_release(t);
        flx_dataset_free(d);
    }
    flx_context_free(ctx);
}

TEST(dataset_windows_overlap_without_copies)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_tensor *text = tensor(ctx, FLX_U8, 1, (flx_dim[]){10}, "abcdefghij");
    static const struct {
        int64_t length, stride, rows;
    } cases[] = {{3, 1, 7}, {3, 0, 3}, {3, 3, 3}, {4, 2, 3}, {9, 1, 1}, {1, 1, 9}, {1, 100, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_dataset *d = flx_dataset_windows(ctx, text, cases[i].length, cases[i].stride, &err);
        CHECK_MADE(d, &err);
        CHECK_EQ_I64(flx_dataset_rows(d), cases[i].rows);
        int64_t stride = cases[i].stride ? cases[i].stride : cases[i].length;
        for (int64_t row = 0; row < cases[i].rows; row++) {
            flx_tensor *x = flx_dataset_gather(d, "x", &row, 1, &err);
            flx_tensor *y = flx_dataset_gather(d, "next", &row, 1, &err);
            CHECK(x && y && flx_tensor_type(x)->dtype == FLX_I32 && flx_tensor_count(x) == cases[i].length);
            for (int64_t k = 0; k < cases[i].length; k++) {
                CHECK_EQ_I64(flx_tensor_get(x, k), "abcdefghij"[row * stride + k]);
                CHECK_EQ_I64(flx_tensor_get(y, k), "abcdefghij"[row * stride + k + 1]);
            }
            flx_tensor_release(x);
            flx_tensor_release(y);
        }
        flx_dataset_free(d);
    }
    CHECK(!flx_dataset_windows(ctx, text, 10, 1, &err) && err.code == FLX_E_SHAPE);
    CHECK_EQ_STR(err.message, "the sequence has 10 elements, a window of 10 and its next element need 11");
    CHECK(!flx_dataset_windows(ctx, text, INT64_MAX, 1, &err) && err.code == FLX_E_SHAPE);
    CHECK(!flx_dataset_windows(ctx, text, 0, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_dataset_windows(ctx, text, 1, -1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_dataset_windows(ctx, NULL, 1, 1, &err) && err.code == FLX_E_USAGE);
    flx_tensor_release(text);
    flx_context_free(ctx);
}

TEST(bytes_of_a_file_are_a_sequence)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 1000});
    flx_error err = {0};
    const char *path = test_temp_path("text");
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite("abc\0\377", 1, 5, f) == 5 && fclose(f) == 0);
    flx_tensor *t = flx_bytes_read(ctx, path, &err);
    CHECK_MADE(t, &err);
    CHECK(flx_tensor_type(t)->dtype == FLX_U8 && flx_tensor_count(t) == 5 && flx_tensor_get(t, 4) == 255.0);
    flx_tensor_release(t);
    f = fopen(path, "wb");
    CHECK(f && fclose(f) == 0);
    t = flx_bytes_read(ctx, path, &err);
    CHECK(t && flx_tensor_count(t) == 0);
    flx_tensor_release(t);
    f = fopen(path, "wb");
    CHECK(f && fprintf(f, "%1001s", "") == 1001 && fclose(f) == 0);
    CHECK(!flx_bytes_read(ctx, path, &err) && err.code == FLX_E_SIZE);
    CHECK_EQ_STR(err.message, "the file has 1001 bytes, more than the limit");
    CHECK_EQ_STR(err.where, path);
    CHECK(!flx_bytes_read(ctx, test_temp_dir(), &err) && err.code == FLX_E_IO); /* a folder */
    CHECK(!flx_bytes_read(NULL, path, &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}

TEST(dataset_reads_arrays)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_tensor *a = tensor(ctx, FLX_F32, 2, (flx_dim[]){2, 2}, (float[]){1, 2, 3, 4});
    flx_tensor *b = tensor(ctx, FLX_I64, 1, (flx_dim[]){2}, (int64_t[]){5, 6});
    flx_tensor *c = tensor(ctx, FLX_I64, 1, (flx_dim[]){3}, NULL);
    const flx_tensor *both[] = {a, b}, *wrong[] = {a, c};
    static const char *const keys[] = {"x", "y"};
    CHECK_OK(flx_npy_write(a, test_temp_path("columns.npy"), &err), &err);
    flx_dataset *d = flx_arrays_read(ctx, test_temp_path("columns.npy"), &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_rows(d) == 2 && flx_dataset_columns(d) == 1);
    flx_dataset_free(d);
    for (int i = 0; i < 2; i++) {
        const char *path = test_temp_path(i ? "columns.npz" : "columns.safetensors");
        CHECK_OK((i ? flx_npz_write : flx_safetensors_write)(path, keys, both, 2, &err), &err);
        d = flx_arrays_read(ctx, path, &err);
        CHECK_MADE(d, &err);
        CHECK(flx_dataset_rows(d) == 2 && flx_dataset_columns(d) == 2);
        flx_tensor *y = flx_dataset_gather(d, "y", (int64_t[]){1}, 1, &err);
        CHECK(y && flx_tensor_get(y, 0) == 6.0);
        flx_tensor_release(y);
        flx_dataset_free(d);
        CHECK_OK((i ? flx_npz_write : flx_safetensors_write)(path, keys, wrong, 2, &err), &err);
        CHECK(!flx_arrays_read(ctx, path, &err) && err.code == FLX_E_SHAPE);
        CHECK_EQ_STR(err.where, path);
    }
    CHECK(!flx_arrays_read(ctx, test_missing_path("a.npz"), &err) && err.code == FLX_E_IO);
    CHECK(!flx_arrays_read(ctx, "a.txt", &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_arrays_read(ctx, NULL, &err) && err.code == FLX_E_USAGE);
    flx_tensor_release(a);
    flx_tensor_release(b);
    flx_tensor_release(c);
    flx_context_free(ctx);
}
