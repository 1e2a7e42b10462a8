/* SPDX-License-Identifier: Apache-2.0 */
/* generated.c: data without files: the digits, the demo text, the pendulum. They are the same on every machine: a hash
   of each is written here. */
#include "test.h"

#include "base/hash.h"
#include "fault.h"

#include <fluxion/data.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static flx_tensor *column(const flx_dataset *d, const char *name)
{
    flx_error err = {0};
    int64_t n = flx_dataset_rows(d);
    int64_t *rows = malloc((size_t)n * sizeof *rows);
    CHECK(rows);
    for (int64_t i = 0; i < n; i++)
        rows[i] = i;
    flx_tensor *t = flx_dataset_gather(d, name, rows, (size_t)n, &err);
    CHECK_MADE(t, &err);
    free(rows);
    return t;
}

TEST(digits_are_balanced_and_reproducible)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dataset *d = flx_digits(ctx, 500, 1, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_classes(d) == 10 && flx_dataset_type(d, 0)->rank == 4);
    CHECK_EQ_STR(flx_dataset_class(d, 7), "7");
    flx_tensor *x = column(d, "x"), *y = column(d, "label");
    int counts[10] = {0};
    bool is_sorted = true;
    for (int64_t i = 0; i < 500; i++) {
        int digit = (int)flx_tensor_get(y, i);
        CHECK(digit >= 0 && digit < 10);
        counts[digit]++;
        is_sorted = is_sorted && digit == i % 10;
    }
    for (int i = 0; i < 10; i++)
        CHECK_EQ_I64(counts[i], 50);
    CHECK(!is_sorted);
    for (int64_t i = 0; i < 500; i++) { /* something is drawn, and it is not all ink */
        double sum = 0;
        for (int64_t k = 0; k < 784; k++) {
            double v = flx_tensor_get(x, i * 784 + k);
            CHECK(v >= 0 && v <= 1);
            sum += v;
        }
        CHECK_MSG(sum > 15 && sum < 500, "image %lld has %g of ink", (long long)i, sum);
    }
    flx_dataset *first = flx_digits(ctx, 500, 1, &err), *other = flx_digits(ctx, 500, 2, &err);
    flx_tensor *again = column(first, "x"), *different = column(other, "x");
    CHECK(memcmp(flx_tensor_const_data(x), flx_tensor_const_data(again), flx_tensor_nbytes(x)) == 0);
    CHECK(memcmp(flx_tensor_const_data(x), flx_tensor_const_data(different), flx_tensor_nbytes(x)) != 0);
    uint64_t h = flxi_hash_bytes(FLXI_HASH_SEED, flx_tensor_const_data(x), flx_tensor_nbytes(x));
    CHECK_EQ_U64(h, UINT64_C(0xca84d0b3fedf833c));
    CHECK(!flx_digits(ctx, 0, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_digits(NULL, 1, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_digits(ctx, INT64_MAX, 1, &err) && err.code == FLX_E_SIZE);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_tensor_release(again);
    flx_tensor_release(different);
    flx_dataset_free(d);
    flx_dataset_free(first);
    flx_dataset_free(other);
    flx_context_free(ctx);
}

TEST(demo_text_is_plain_and_reproducible)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_buffer text = {0}, other = {0}, shorter = {0};
    CHECK_OK(flx_demo_text(ctx, 50000, 1, &text, &err), &err);
    CHECK_OK(flx_demo_text(ctx, 50000, 2, &other, &err), &err);
    CHECK_OK(flx_demo_text(ctx, 20000, 1, &shorter, &err), &err);
    CHECK(text.size >= 50000 && text.size < 51000);
    for (size_t i = 0; i < text.size; i++)
        CHECK_MSG(text.data[i] == '\n' || (text.data[i] >= ' ' && text.data[i] < 127 && !strchr("{}", text.data[i])),
                  "byte %zu is %d", i, text.data[i]);
    CHECK(strcmp(text.data + text.size - 3, ".\n\n") == 0 && !strstr(text.data, "  "));
    CHECK(memcmp(text.data, shorter.data, shorter.size) == 0 && memcmp(text.data, other.data, 10000) != 0);
    CHECK_EQ_U64(flxi_hash_bytes(FLXI_HASH_SEED, text.data, text.size), UINT64_C(0x37ae84100a27275));
    CHECK_CODE(flx_demo_text(NULL, 1, 1, &text, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_demo_text(ctx, 1, 1, NULL, &err), FLX_E_USAGE, &err);
    flx_buffer_free(&text);
    flx_buffer_free(&other);
    flx_buffer_free(&shorter);
    flx_context_free(ctx);
}

/* Small swings without much damping have the period 2 pi sqrt(length / g); energy only falls. */
TEST(pendulum_swings_as_it_should)
{
    enum { ROWS = 40, LENGTH = 200 };
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dataset *d = flx_pendulum(ctx, ROWS, LENGTH, 5, &err);
    CHECK_MADE(d, &err);
    flx_tensor *x = column(d, "x"), *next = column(d, "next");
    const float *a = flx_tensor_const_data(x), *b = flx_tensor_const_data(next);
    CHECK(flx_tensor_type(x)->dims[1] == LENGTH && flx_tensor_type(next)->dims[1] == LENGTH);
    for (int64_t row = 0; row < ROWS; row++) {
        const float *p = a + row * LENGTH * 2;
        CHECK(memcmp(p + 2, b + row * LENGTH * 2, (LENGTH - 1) * 2 * sizeof *p) == 0);
        for (int i = 0; i < LENGTH; i++)
            CHECK(fabsf(p[2 * i]) < 3.1416f);
        /* The velocity is the slope of the angle: compare with central finite differences. */
        for (int i = 1; i + 1 < LENGTH; i++)
            CHECK_NEAR((p[2 * i + 2] - p[2 * i - 2]) / 0.2, p[2 * i + 1], 0.3);
    }
    CHECK_EQ_U64(flxi_hash_bytes(FLXI_HASH_SEED, a, flx_tensor_nbytes(x)), UINT64_C(0xc11dbb08f81305a2));
    CHECK(!flx_pendulum(ctx, 0, 1, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_pendulum(ctx, 1, 0, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_pendulum(ctx, 1, INT64_MAX, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_pendulum(ctx, INT64_MAX, 9, 1, &err) && err.code == FLX_E_SIZE);
    flx_tensor_release(x);
    flx_tensor_release(next);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

static void make_all(flx_context *ctx)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_dataset *a = flx_digits(ctx, 3, 1, &err);
    CHECK(a || err.code == FLX_E_OOM);
    flx_dataset *b = flx_pendulum(ctx, 3, 4, 1, &err);
    CHECK(b || err.code == FLX_E_OOM);
    flx_code code = flx_demo_text(ctx, 3000, 1, &text, &err);
    CHECK(code == FLX_OK || code == FLX_E_OOM);
    flx_buffer_free(&text);
    flx_dataset_free(a);
    flx_dataset_free(b);
}

TEST(generated_data_survives_failing_allocations)
{
    size_t calls = 1;
    for (size_t at = 0; at <= calls; at++) {
        fault f = {.fail_at = at};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        if (ctx)
            make_all(ctx);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        calls = at ? calls : f.calls;
    }
    CHECK(calls > 10);
}
