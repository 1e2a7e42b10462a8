/* SPDX-License-Identifier: Apache-2.0 */
/* The traps of the derivatives of Fourier transforms, and messages. Transforms: tests/numeric/numeric_fourier.c; values
   of ops: tests/oracle/spectral.py; derivatives: tests/oracle/functions/spectra.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>
#include <stdlib.h>

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
