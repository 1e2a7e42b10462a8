/* SPDX-License-Identifier: Apache-2.0 */
/* numeric_fourier.c: Fourier transforms of every kind of length against their definition, within the bounds of
   numeric/fourier.h; lanes, widths of vectors and long transforms against each other. */
#include "emit/vector/vector_emit.h"
#include "numeric/fourier.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

/* Σ_j x_j exp(-2πi jk/n), term by term in long double; x and y are [re…, im…]. */
static void transform_by_definition(int64_t n, const double *x, long double *y)
{
    long double *roots = malloc(2 * (size_t)n * sizeof *roots);
    for (int64_t k = 0; k < n; k++) {
        long double angle = 2 * acosl(-1.0L) * (long double)k / (long double)n;
        roots[2 * k] = cosl(angle);
        roots[2 * k + 1] = -sinl(angle);
    }
    for (int64_t k = 0; k < n; k++) {
        long double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            const long double *w = roots + 2 * (j * k % n);
            re += x[j] * w[0] - x[n + j] * w[1];
            im += x[j] * w[1] + x[n + j] * w[0];
        }
        y[k] = re;
        y[n + k] = im;
    }
    free(roots);
}

/* One signal by the library, [re…, im…]. */
static void transform_wide(const flxi_fourier *p, double *x)
{
    flx_error err = {0};
    double *table = malloc((flxi_fourier_table_count(p) + 1) * sizeof *table);
    double *work = malloc(flxi_fourier_work_count(p) * sizeof *work);
    CHECK_OK(flxi_fourier_fill(p, FLX_F64, table, &mem, &err), &err);
    flxi_fourier_f64(p, table, x, x + p->n, 1, work);
    free(table);
    free(work);
}

static void transform_narrow(const flxi_fourier *p, double *x)
{
    flx_error err = {0};
    size_t count = 2 * (size_t)p->n;
    float *table = malloc((flxi_fourier_table_count(p) + 1) * sizeof *table);
    float *work = malloc((flxi_fourier_work_count(p) + count) * sizeof *work);
    float *own = work + flxi_fourier_work_count(p);
    CHECK_OK(flxi_fourier_fill(p, FLX_F32, table, &mem, &err), &err);
    for (size_t i = 0; i < count; i++)
        own[i] = (float)x[i];
    flxi_fourier_f32(p, table, own, own + p->n, 1, work);
    for (size_t i = 0; i < count; i++)
        x[i] = own[i];
    free(table);
    free(work);
}

/* ‖found - want‖ in units of ‖want‖ log2(n). */
static double error_in_units(int64_t n, const double *found, const long double *want, double unit)
{
    long double wrong = 0, all = 0;
    for (int64_t i = 0; i < 2 * n; i++) {
        wrong += (found[i] - want[i]) * (found[i] - want[i]);
        all += want[i] * want[i];
    }
    return (double)(sqrtl(wrong / all) / unit) / (log2((double)n) + 1);
}

static void check_length(int64_t n)
{
    flxi_fourier p;
    uint64_t seed = test_seed();
    double *x = malloc(4 * (size_t)n * sizeof *x), *y = x + 2 * n;
    long double *want = malloc(2 * (size_t)n * sizeof *want);
    test_fail_context("length %lld", (long long)n);
    CHECK(flxi_fourier_plan(n, &p));
    for (int64_t i = 0; i < 2 * n; i++)
        x[i] = (float)(2 * test_uniform(&seed) - 1);
    transform_by_definition(n, x, want);
    double bound = p.is_chirp ? 32 : 8;
    memcpy(y, x, 2 * (size_t)n * sizeof *y);
    transform_wide(&p, y);
    EXPECT_MSG(error_in_units(n, y, want, 0x1p-53) < bound, "f64: %g units", error_in_units(n, y, want, 0x1p-53));
    memcpy(y, x, 2 * (size_t)n * sizeof *y);
    transform_narrow(&p, y);
    EXPECT_MSG(error_in_units(n, y, want, 0x1p-24) < bound, "f32: %g units", error_in_units(n, y, want, 0x1p-24));
    test_count_case();
    free(x);
    free(want);
}

/* The bins of a real signal against the definition, and the signal back from them, both in f32. */
static void check_real_length(int64_t n)
{
    flxi_fourier_real p;
    flx_error err = {0};
    uint64_t seed = test_seed();
    int64_t bins = n / 2 + 1;
    double *x = calloc(2 * (size_t)n, sizeof *x), wrong = 0, all = 0, off = 0, size = 0;
    long double *want = malloc(2 * (size_t)n * sizeof *want);
    float *signal = malloc((2 * (size_t)n + 2 * (size_t)bins) * sizeof *signal), *back = signal + n;
    float *re = back + n, *im = re + bins;
    test_fail_context("real length %lld", (long long)n);
    CHECK(flxi_fourier_real_plan(n, &p));
    float *table = malloc((flxi_fourier_real_table_count(&p) + 1) * sizeof *table);
    float *work = malloc(flxi_fourier_real_work_count(&p) * sizeof *work);
    CHECK_OK(flxi_fourier_real_fill(&p, FLX_F32, table, &mem, &err), &err);
    for (int64_t i = 0; i < n; i++)
        x[i] = signal[i] = (float)(2 * test_uniform(&seed) - 1);
    transform_by_definition(n, x, want);
    flxi_fourier_bins_f32(&p, table, signal, n, re, im, 1, work);
    flxi_fourier_signal_f32(&p, table, re, im, bins, back, 1 / (float)n, work);
    for (int64_t k = 0; k < bins; k++) {
        double r = re[k] - (double)want[k], i = im[k] - (double)want[n + k];
        wrong += r * r + i * i;
        all += (double)(want[k] * want[k] + want[n + k] * want[n + k]);
    }
    for (int64_t k = 0; k < n; k++) {
        off += (back[k] - x[k]) * (back[k] - x[k]);
        size += x[k] * x[k];
    }
    double units = 0x1p-24 * (log2((double)n) + 1), bound = p.inner.is_chirp ? 32 : 8;
    EXPECT_MSG(sqrt(wrong / all) < bound * units, "bins: %g units", sqrt(wrong / all) / units);
    EXPECT_MSG(sqrt(off / size) < 2 * bound * units, "there and back: %g units", sqrt(off / size) / units);
    EXPECT_MSG(im[0] == 0 && (n % 2 || im[bins - 1] == 0), "imaginary parts of bins without a partner");
    test_count_case();
    free(x);
    free(want);
    free(signal);
    free(table);
    free(work);
}

TEST(fourier_bins_of_real_signals_keep_the_bound)
{
    static const int64_t more[] = {211, 256, 398, 512, 960, 1000, 1024, 1998};
    for (int64_t n = 1; n <= 130; n++)
        check_real_length(n);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        check_real_length(more[i]);
}

TEST(fourier_transform_is_the_sum_for_every_length)
{
    static const int64_t more[] = {211, 256, 499, 960, 997, 1024, 1999, 2058, 2187, 2401, 3125, 4096, 4999};
    for (int64_t n = 1; n <= 200; n++)
        check_length(n);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        check_length(more[i]);
}

/* A long transform against passes in f64, whose own error does not count beside that of f32. */
static void check_long(int64_t n)
{
    flxi_fourier wide;
    flxi_fourier_long p;
    flx_error err = {0};
    uint64_t seed = test_seed();
    size_t count = 2 * (size_t)n;
    test_fail_context("length %lld", (long long)n);
    CHECK(flxi_fourier_plan(n, &wide) && flxi_fourier_long_plan(n, FLX_F32, &p));
    CHECK_EQ_I64(p.first.n * p.second.n, n);
    double *want = malloc(count * sizeof *want);
    float *x = malloc(3 * count * sizeof *x), *y = x + count, *middle = y + count;
    float *table = malloc(flxi_fourier_long_table_count(&p) * sizeof *table);
    float *work = malloc(flxi_fourier_long_work_count(&p) * sizeof *work);
    CHECK_OK(flxi_fourier_long_fill(&p, 0, FLX_F32, table, &mem, &err), &err);
    for (size_t i = 0; i < count; i++)
        want[i] = x[i] = (float)(2 * test_uniform(&seed) - 1);
    transform_wide(&wide, want);
    const flxi_fourier_long_row r = {.plan = &p,
                                     .table = table,
                                     .from_re = x,
                                     .from_im = x + n,
                                     .to_re = y,
                                     .to_im = y + n,
                                     .scale = 1,
                                     .middle = middle};
    for (int64_t i = 0; i < p.second.n / p.lanes; i++)
        flxi_fourier_long_first_f32(&r, i, work);
    for (int64_t i = 0; i < p.first.n / p.lanes; i++)
        flxi_fourier_long_second_f32(&r, i, work);
    double wrong = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += (y[i] - want[i]) * (y[i] - want[i]);
        all += want[i] * want[i];
    }
    double units = sqrt(wrong / all) / 0x1p-24 / log2((double)n);
    EXPECT_MSG(units < 8, "%g units", units);
    test_count_case();
    free(want);
    free(x);
    free(table);
    free(work);
}

TEST(fourier_long_transforms_keep_the_bound)
{
    static const int64_t lengths[] = {65536, 131072, 160000, 3 << 15, 202752};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_long(lengths[i]);
    flxi_fourier_long p;
    CHECK(!flxi_fourier_long_plan(1000, FLX_F32, &p));   /* fits into the cache */
    CHECK(!flxi_fourier_long_plan(100003, FLX_F32, &p)); /* a prime */
    CHECK(!flxi_fourier_long_plan(177147, FLX_F64, &p)); /* odd */
}

/* Whatever the number of lanes, and so the vectors, a signal has the same bits. */
TEST(fourier_lanes_are_independent_to_the_bit)
{
    static const int64_t lengths[] = {4, 15, 31, 37, 60, 64};
    enum { MOST_LANES = 9, LONGEST = 64, WORK = 6 * 128 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        flxi_fourier p;
        flx_error err = {0};
        uint64_t seed = test_seed();
        int64_t n = lengths[i];
        CHECK(flxi_fourier_plan(n, &p));
        float one[2 * LONGEST], first[2 * LONGEST], many[2 * LONGEST * MOST_LANES], work[WORK * MOST_LANES];
        float *table = malloc(flxi_fourier_table_count(&p) * sizeof *table);
        CHECK_OK(flxi_fourier_fill(&p, FLX_F32, table, &mem, &err), &err);
        for (int64_t k = 0; k < 2 * n; k++)
            one[k] = first[k] = (float)test_uniform(&seed);
        flxi_fourier_f32(&p, table, one, one + n, 1, work);
        for (int64_t lanes = 2; lanes <= MOST_LANES; lanes++) {
            for (int64_t k = 0; k < 2 * n * lanes; k++)
                many[k] = k % lanes == lanes - 1 ? first[k / lanes] : (float)test_uniform(&seed);
            flxi_fourier_f32(&p, table, many, many + n * lanes, lanes, work);
            for (int64_t k = 0; k < 2 * n; k++)
                CHECK_MSG(many[k * lanes + lanes - 1] == one[k], "length %lld, %lld lanes, number %lld", (long long)n,
                          (long long)lanes, (long long)k);
        }
        free(table);
    }
}

TEST(fourier_vectors_of_every_width_agree_to_the_bit)
{
    static const int64_t lengths[] = {2,   6,   8,   16,  24,   40,   64,   96,   100,  128,
                                      250, 360, 509, 512, 1000, 1024, 1458, 1536, 3430, 8192};
    static const int widths[] = {16, 32, 64};
    if (flxi_vector_host_bytes() < 64)
        printf("   left out: vectors of more than %u bytes\n", flxi_vector_host_bytes());
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        flxi_fourier_real p;
        flx_error err = {0};
        uint64_t seed = test_seed();
        size_t n = (size_t)lengths[i];
        CHECK(flxi_fourier_real_plan(lengths[i], &p));
        float *table = malloc(flxi_fourier_real_table_count(&p) * sizeof *table);
        float *work = malloc(flxi_fourier_real_work_count(&p) * sizeof *work);
        float *x = malloc(6 * (n + 2) * sizeof *x), *re = x + n, *im = re + n / 2 + 1, *y = im + n / 2 + 1;
        float *first = y + n;
        CHECK_OK(flxi_fourier_real_fill(&p, FLX_F32, table, &mem, &err), &err);
        for (size_t k = 0; k < n; k++)
            x[k] = (float)test_uniform(&seed);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            p.inner.widest = widths[w];
            flxi_fourier_bins_f32(&p, table, x, (int64_t)n - 1, re, im, 0.25F, work);
            flxi_fourier_signal_f32(&p, table, re, im, (int64_t)n / 2, y, 3, work);
            if (w == 0)
                memcpy(first, re, (2 * (n / 2 + 1) + n) * sizeof *re);
            CHECK_MSG(memcmp(first, re, (2 * (n / 2 + 1) + n) * sizeof *re) == 0, "length %zu, vectors of %d bytes", n,
                      widths[w]);
            test_count_case();
        }
        free(table);
        free(work);
        free(x);
    }
}

TEST(fourier_good_length_is_the_next_without_large_factors)
{
    for (int64_t n = 1; n < 3000; n++) {
        int64_t want = n;
        for (;; want++) {
            int64_t rest = want;
            for (int64_t r = 2; r <= 5; r++)
                while (rest % r == 0)
                    rest /= r;
            if (rest == 1)
                break;
        }
        CHECK_EQ_I64(flxi_fourier_good_length(n), want);
    }
}

TEST(fourier_of_absurd_lengths_is_refused)
{
    flxi_fourier p;
    CHECK(!flxi_fourier_plan(0, &p) && !flxi_fourier_plan(-4, &p) && !flxi_fourier_plan(INT64_MAX, &p));
}
