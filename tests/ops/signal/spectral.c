/* SPDX-License-Identifier: Apache-2.0 */
/* The traps of the derivatives of Fourier transforms, and messages. Transforms: tests/numeric/numeric_fourier.c; values
   of ops: tests/oracle/spectral.py; derivatives: tests/oracle/functions/spectra.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Traps ---- */

#define CHECK_ROW(text, ...) check_gradient((text), (const gradient_row[]){{"x", __VA_ARGS__}}, 1)

/* Re y_0 is α times the sum of the real parts: its gradient is α of the forward node, as precise as x. */
TEST(trap_64_fft_cotangent_has_the_factor_of_the_forward_transform)
{
    static const double third = 1.0 / 3.0;
    CHECK_ROW("graph g(x: f64[6]) { return narrow(fft(x), axis=0, start=0, len=1) }", {1, 2, 3, 4, 5, 6}, {1, 1, 1});
    CHECK_ROW("graph g(x: f64[6]) { return narrow(fft(x, norm=forward), axis=0, start=0, len=1) }", {1, 2, 3, 4, 5, 6},
              {third, third, third});
    CHECK_ROW("graph g(x: f64[6]) { return narrow(fft(x, inverse=true), axis=0, start=0, len=1) }", {1, 2, 3, 4, 5, 6},
              {third, third, third});
    CHECK_ROW("graph g(x: f64[8]) { return narrow(fft(x, norm=ortho), axis=0, start=0, len=1) }", {1},
              {0.5, 0.5, 0.5, 0.5});
    CHECK_ROW("graph g(x: f64[6]) { return narrow(fft(x, inverse=true, norm=none), axis=0, start=0, len=1) }", {1},
              {1, 1, 1});
    CHECK_ROW("graph g(x: c128[2]) { return narrow(fft(x), axis=0, start=1, len=1) }", {1, 2, 3, 4}, {1, 0, -1, 0});
}

static void check_values(const char *text, int output, const double *want, int64_t count)
{
    text_run r = text_begin(text);
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[output]), count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(flx_tensor_get(r.out[output], i), want[i], 0);
    text_end(&r);
}

/* Three numbers have two bins, at 0 and 1/3; padded to four they would have three. */
TEST(trap_65_rfft_does_not_pad_to_a_power_of_two)
{
    const char text[] = "graph g() { re, im = rfft(const(f64[3], [1, 2, 4])) return re, im }";
    check_values(text, 0, (const double[]){7, -2}, 2);
}

/* y_0 = (X_0 + 2 Re X_1 + X_2) / 4 and y_1 = (X_0 - 2 Im X_1 - X_2) / 4; for odd n = 3, y_0 = (X_0 + 2 Re X_1) / 3. */
TEST(trap_66_irfft_counts_unpaired_bins_once)
{
    static const double third = 1.0 / 3.0;
    const gradient_row first[] = {{"re", {1, 2, 3}, {0.25, 0.5, 0.25}}, {"im", {4, 5, 6}, {0}}};
    const gradient_row second[] = {{"re", {1, 2, 3}, {0.25, 0, -0.25}}, {"im", {4, 5, 6}, {0, -0.5, 0}}};
    const gradient_row odd[] = {{"re", {1, 2}, {third, 2 * third}}, {"im", {4, 5}, {0}}};
    check_gradient("graph g(re: f64[3], im: f64[3]) { return narrow(irfft(re, im), axis=0, start=0, len=1) }", first,
                   2);
    check_gradient("graph g(re: f64[3], im: f64[3]) { return narrow(irfft(re, im), axis=0, start=1, len=1) }", second,
                   2);
    check_gradient("graph g(re: f64[2], im: f64[2]) { return narrow(irfft(re, im, n=3), axis=0, start=0, len=1) }", odd,
                   2);
    check_values("graph g() { return irfft(const(f64[3], [4, 0, 0]), const(f64[3], [9, 0, 9])) }", 0,
                 (const double[]){1, 1, 1, 1}, 4);
}

/* N = 4: bin 3 mirrors bin 1 and does not affect the features. At the floor, reached exactly or not, no cotangent
   passes. */
TEST(trap_67_log_mel_has_no_gradient_at_the_floor_nor_for_mirrored_bins)
{
    static const double slope = 1 / 2.30258509299404568402;
    CHECK_ROW("graph g(x: f64[8]) { return log_mel(x, const(f64[1, 3], [[1, 1, 1]])) }", {1, 0, 0, 5, 0, 0, 0, 7},
              {2 * slope});
    CHECK_ROW("graph g(x: f64[8]) { return log_mel(x, const(f64[1, 3], [[1, 1, 1]]), floor=4) }",
              {0, 2, 0, 5, 0, 0, 0, 7}, {0});
    CHECK_ROW("graph g(x: f64[8]) { return log_mel(x, const(f64[1, 3], [[1, 1, 1]]), floor=4.5) }",
              {0, 2, 0, 5, 0, 0, 0, 7}, {0});
}

/* ---- Special values ---- */

enum { ROWS = 5, COLUMNS = 24, LAST = 3 };

/* Rows: ordinary, with an infinity, with a NaN, as large as it may be, too large. */
static flx_tensor *special_rows(flx_context *ctx, bool is_spoilt)
{
    flx_error err = {0};
    flx_type t = {.dtype = FLX_F32, .rank = 2, .dims = {ROWS, COLUMNS}};
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, &err);
    CHECK_MADE(x, &err);
    float *p = flx_tensor_data(x);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        p[i] = (float)((i * 7919) % 2003) / 1001.0f - 1.0f;
    for (int k = 0; k < COLUMNS; k++)
        p[LAST * COLUMNS + k] = (k % 3 ? FLT_MAX : -FLT_MAX) / (4 * COLUMNS);
    if (is_spoilt) {
        p[COLUMNS + 7] = INFINITY;
        p[2 * COLUMNS + 7] = NAN;
        for (int k = 0; k < COLUMNS; k++)
            p[4 * COLUMNS + k] = FLT_MAX;
    }
    return x;
}

static void check_special_rows(const char *text, const char *device)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_MADE(m, &err);
    flx_run_options o = {.struct_size = sizeof o, .device = device};
    flx_tensor *y[2];
    for (int i = 0; i < 2; i++) {
        flx_tensor *x = special_rows(ctx, i == 1);
        CHECK_OK(flx_run(flx_module_main(m), &o, &(flx_feed){"x", x}, 1, &y[i], &err), &err);
        flx_tensor_release(x);
    }
    int64_t bins = flx_tensor_count(y[0]) / ROWS;
    for (int64_t i = 0; i < flx_tensor_count(y[0]); i++) {
        int64_t row = i / bins;
        double clean = flx_tensor_get(y[0], i), spoilt = flx_tensor_get(y[1], i);
        CHECK_MSG(isfinite(clean), "%s, %s: row %d, bin %d is %g", device, text, (int)row, (int)(i % bins), clean);
        CHECK_MSG(row == 1 || row == 2 || row == 4 || clean == spoilt,
                  "%s, %s: other rows changed row %d from %g to %g", device, text, (int)row, clean, spoilt);
        CHECK_MSG(i % bins || row == 0 || row == LAST || !isfinite(spoilt), "%s, %s: the sum of row %d is %g", device,
                  text, (int)row, spoilt);
        test_count_case();
    }
    for (int i = 0; i < 2; i++)
        flx_tensor_release(y[i]);
    flx_module_free(m);
    flx_context_free(ctx);
}

#define ALONG_COLUMNS                                                                       \
    "graph f(x: f32[5, 24]) { y = fft_axis(complex(transpose(x, perm=[1, 0]), 0), axis=0) " \
    "return transpose(real(y), perm=[1, 0]) }"

/* What docs/numerics.md promises: a transform that is not finite spoils no other, no transform of numbers up to the
   largest one divided by four times its length overflows, and the sum of a row that is not finite is not finite. */
TEST(fourier_transforms_that_are_not_finite_stay_alone)
{
    static const char *const texts[] = {
        "graph f(x: f32[5, 24]) { return real(fft(complex(x, mul(x, 0)))) }",
        "graph f(x: f32[5, 24]) { re, im = rfft(x) return re }",
        "graph f(x: f32[5, 24]) { return stft(reshape(x, shape=[120]), frame_len=24, hop=24) }",
        ALONG_COLUMNS,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_special_rows(texts[i], "ref");
        check_special_rows(texts[i], "cpu");
    }
}

/* ---- Messages ---- */

TEST(spectral_errors_say_what_differs)
{
    check_text_fails("graph g(x: f32[2, 5]) { return fft(x) }", FLX_E_SHAPE,
                     "fft: the last axis of x must have as many imaginary as real parts: it is [2, 5]");
    check_text_fails("graph g(x: f32[2, 4]) { return fftn(x) }", FLX_E_DTYPE,
                     "fftn: a transform along 2 axes needs complex numbers: x is f32");
    check_text_fails("graph g(s: f32[2, 8], f: f32[5, 4]) { return log_mel(s, f) }", FLX_E_SHAPE,
                     "log_mel: filt must be [M, N//2 + 1]: spec is [2, 8], filt is [5, 4]");
    check_text_fails("graph g(x: f32[9], w: f32[5]) { return stft(x, w, frame_len=4, hop=2) }", FLX_E_SHAPE,
                     "stft: window must be [frame_len]: frame_len is 4, window is [5]");
    check_text_fails("graph g(a: f32[1], b: f32[1]) { return irfft(a, b) }", FLX_E_SHAPE,
                     "irfft: the length of a transform must be at least 1, got 0");
}
