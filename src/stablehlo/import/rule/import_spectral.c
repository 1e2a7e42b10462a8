/* SPDX-License-Identifier: Apache-2.0 */
/* import_spectral.c: Fourier transforms of the last one, two or three axes. */
#include "stablehlo/import/import_site.h"

#include <string.h>

/* The transform of the axes from first on, up to end. */
static flx_val transform(hlo_site *s, flx_val x, int first, int end, int inverse)
{
    for (int axis = first; axis < end; axis++)
        x = flx_fft_axis(s->g, x, axis, inverse, NULL);
    return x;
}

/* The real signal has the extents of `length`; of its spectrum the last axis has length/2 + 1. */
static bool lengths_fit(hlo_site *s, const flx_type *signal, flx_ints length, bool is_half)
{
    for (size_t i = 0; i < length.n; i++) {
        flx_dim n = signal->dims[(size_t)signal->rank - length.n + i];
        int64_t wanted = is_half && i + 1 == length.n ? (length.v[i] ? length.v[i] / 2 + 1 : 0) : length.v[i];
        if (flx_dim_is_static(n) && n != wanted) {
            flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "fft_length asks for %lld elements, but the operand has %lld there",
                          (long long)wanted, (long long)n);
            return false;
        }
    }
    return true;
}

void flxi_hlo_import_fft(hlo_site *s)
{
    const flx_type *x = flxi_hlo_typeof(s, s->x[0]);
    const char *type = flxi_hlo_word(s, "fft_type", "");
    flx_ints length = flxi_hlo_ints(s, "fft_length");
    int first = x->rank - (int)length.n;
    bool is_irfft = strcmp(type, "IRFFT") == 0;
    if (length.n < 1 || length.n > 3 || first < 0) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL,
                      "fft_length must have 1 to 3 entries, and no more than the operand has axes");
        return;
    }
    if (!lengths_fit(s, x, length, is_irfft))
        return;
    if (strcmp(type, "FFT") == 0 || strcmp(type, "IFFT") == 0) {
        s->y[0] = transform(s, s->x[0], first, x->rank, type[0] == 'I');
    } else if (strcmp(type, "RFFT") == 0) {
        s->y[0] = transform(s, flx_rfft_complex(s->g, s->x[0], FLX_DEFAULT, NULL), first, x->rank - 1, 0);
    } else if (is_irfft) {
        flx_val z = transform(s, s->x[0], first, x->rank - 1, 1);
        s->y[0] = flx_irfft_complex(s->g, z, length.v[length.n - 1], NULL);
    } else {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "fft_type must be FFT, IFFT, RFFT or IRFFT");
    }
}
