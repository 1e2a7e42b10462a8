/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c: tensors over the caller's memory, and the keys of files. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    int calls;
    void *data;
} released;

static void count_release(void *user, void *data)
{
    released *r = user;
    r->calls++;
    r->data = data;
}

TEST(api_tensor_wraps_memory_of_the_caller)
{
    static const char text[] = "graph f(x: f32[3]) { return mul(x, x), x }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "wrap", &err);
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    float data[3] = {1, 2, 3};
    released r = {0};
    flx_tensor *t = flx_tensor_wrap(ctx, &type, data, count_release, &r, &err), *out[2];
    CHECK_MADE(t, &err);
    CHECK(flx_tensor_data(t) == data && flx_tensor_const_data(t) == data);
    CHECK_EQ_U64(flx_tensor_nbytes(t), sizeof data);
    CHECK_EQ_I64(flx_tensor_count(t), 3);
    data[1] = 5; /* nothing was copied */
    CHECK_OK(flx_run(flx_module_main(m), NULL, &(flx_feed){"x", t}, 1, out, &err), &err);
    CHECK(flx_tensor_get(out[0], 1) == 25);
    flx_tensor_release(t);
    CHECK_EQ_I64(r.calls, 0); /* the second output is the same tensor */
    flx_tensor_release(out[1]);
    CHECK_EQ_I64(r.calls, 1);
    CHECK(r.data == data);
    flx_tensor_release(out[0]);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(api_tensor_wrap_refuses)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    released r = {0};
    double data[4] = {0};
    const flx_type type = flx_type_make(FLX_F64, 1, (flx_dim[]){2}), none = flx_type_make(FLX_F64, 1, (flx_dim[]){0});
    const flx_dim n = flx_dim_symbol(ctx, "N");
    const flx_type symbolic = flx_type_make(FLX_F64, 1, &n);
    CHECK(!flx_tensor_wrap(ctx, &type, (char *)data + 1, count_release, &r, &err));
    CHECK_CODE((flx_code)err.code, FLX_E_USAGE, &err);
    CHECK(!flx_tensor_wrap(ctx, &type, NULL, count_release, &r, &err));
    CHECK(!flx_tensor_wrap(ctx, &symbolic, data, count_release, &r, &err));
    CHECK_CODE((flx_code)err.code, FLX_E_UNBOUND_DIM, &err);
    CHECK(!flx_tensor_wrap(NULL, &type, data, NULL, NULL, NULL));
    CHECK_EQ_I64(r.calls, 0);
    flx_tensor *t = flx_tensor_wrap(ctx, &none, NULL, NULL, NULL, &err);
    CHECK_MADE(t, &err);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

/* ---- Keys ---- */

static void check_keys(flx_keys *k, flx_error *err)
{
    CHECK_MADE(k, err);
    CHECK_EQ_U64(flx_keys_count(k), 3);
    CHECK_EQ_STR(flx_keys_at(k, 0), "b");
    CHECK_EQ_STR(flx_keys_at(k, 1), "layer.0/w \"x\"");
    CHECK_EQ_STR(flx_keys_at(k, 2), "a");
    CHECK(flx_keys_at(k, 3) == NULL);
    flx_keys_free(k);
}

TEST(api_keys_of_files)
{
    static const char *const keys[] = {"b", "layer.0/w \"x\"", "a"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    const flx_tensor *const tensors[] = {t, t, t};
    const char *npz = test_temp_path("keys.npz"), *safe = test_temp_path("keys.safetensors");
    CHECK_OK(flx_npz_write(npz, keys, tensors, 3, &err), &err);
    CHECK_OK(flx_safetensors_write(safe, keys, tensors, 3, &err), &err);
    check_keys(flx_keys_read(ctx, npz, &err), &err);
    check_keys(flx_keys_read(ctx, safe, &err), &err);
    CHECK_OK(flx_npz_write(npz, keys, tensors, 0, &err), &err);
    flx_keys *none = flx_keys_read(ctx, npz, &err);
    CHECK_MADE(none, &err);
    CHECK_EQ_U64(flx_keys_count(none), 0);
    flx_keys_free(none);
    unlink(npz);
    unlink(safe);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(api_keys_refuse_other_files)
{
    static const char *const texts[] = {"", "PK", "PK\3\4\024\0\0\0zip", "hello, world", "\2\0\0\0\0\0\0\0[]"};
    static const size_t sizes[] = {0, 2, 11, 12, 10};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        flx_error err = {0};
        test_fail_context("text %zu", i);
        CHECK(!flx_keys_decode(ctx, texts[i], sizes[i], &err));
        CHECK_CODE((flx_code)err.code, FLX_E_SYNTAX, &err);
    }
    flx_error err = {0};
    CHECK(!flx_keys_read(ctx, test_missing_path("keys.npz"), &err) && err.code);
    CHECK(!flx_keys_read(NULL, NULL, NULL) && !flx_keys_decode(NULL, NULL, 0, NULL));
    CHECK(flx_keys_count(NULL) == 0 && !flx_keys_at(NULL, 0));
    flx_context_free(ctx);
}
