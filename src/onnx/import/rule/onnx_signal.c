/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_signal.c: Fourier transforms and windows. Complex numbers are a last axis of two. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <math.h>

static flx_val part(onnx_site *s, flx_val x, int i)
{
    int last = flxi_onnx_rank(s, x) - 1;
    return flx_squeeze(s->g, flxi_onnx_slice_axis(s, x, last, i, i + 1), .axes = FLX_INTS(last));
}

/* [.., 1] or [.., 2] as complex numbers. */
static flx_val as_complex(onnx_site *s, flx_val x)
{
    flx_val re = part(s, x, 0);
    flx_dim parts = flxi_onnx_dim(s, x, flxi_onnx_rank(s, x) - 1);
    flx_val im = parts == 2 ? part(s, x, 1) : flx_mul(s->g, re, flxi_onnx_number(s, re, 0));
    return flx_complex(s->g, re, im);
}

static flx_val as_pairs(onnx_site *s, flx_val z)
{
    flx_val both[2] = {flx_real(s->g, z), flx_imag(s->g, z)};
    return flx_stack(s->g, both, 2, .axis = flxi_onnx_rank(s, z));
}

/* Cut or filled with zeros to n along an axis. */
static flx_val fitted(onnx_site *s, flx_val x, int axis, int64_t n)
{
    flx_dim have = flxi_onnx_dim(s, x, axis);
    if (have == n || !flx_dim_is_static(have))
        return x;
    if (have > n)
        return flxi_onnx_slice_axis(s, x, axis, 0, n);
    int64_t high[FLX_MAX_RANK] = {0};
    high[axis] = n - have;
    return flx_pad(s->g, x, flxi_onnx_number(s, x, 0), .high = {high, (size_t)flxi_onnx_rank(s, x)});
}

/* The two halves of a spectrum of n bins from its first one. */
static flx_val whole_spectrum(onnx_site *s, flx_val z, int axis, int64_t n)
{
    int64_t have = flxi_onnx_dim(s, z, axis), *at = flxi_onnx_new(s, int64_t, n);
    int64_t *flip = flxi_onnx_new(s, int64_t, n);
    for (int64_t k = 0; at && flip && k < n; k++) {
        flip[k] = k >= have;
        at[k] = flip[k] ? n - k : k;
    }
    if (!at || !flip)
        return z;
    flx_val y = flx_gather(s->g, z, flxi_onnx_vector(s, at, (size_t)n), .axis = axis);
    flx_dim dims[FLX_MAX_RANK];
    int rank = flxi_onnx_rank(s, z);
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? n : 1;
    flx_val mask = flx_reshape(s->g, flxi_onnx_vector(s, flip, (size_t)n), .shape = {dims, (size_t)rank});
    return flx_where(s->g, mask, flx_conjugate(s->g, y), y);
}

static void transform(onnx_site *s, flx_val x, int axis, int64_t n)
{
    bool inverse = flxi_onnx_int(s, "inverse", 0) != 0, onesided = flxi_onnx_int(s, "onesided", 0) != 0;
    flx_dtype d = flxi_onnx_dtype(s, x);
    if (d != FLX_F64)
        x = flxi_onnx_cast(s, x, FLX_F32);
    flx_val z = as_complex(s, x);
    z = inverse && onesided ? whole_spectrum(s, fitted(s, z, axis, n / 2 + 1), axis, n) : fitted(s, z, axis, n);
    z = flx_fft_axis(s->g, z, .axis = axis, .inverse = inverse);
    if (onesided && !inverse)
        z = flxi_onnx_slice_axis(s, z, axis, 0, n / 2 + 1);
    flx_val y = onesided && inverse ? flx_unsqueeze(s->g, flx_real(s->g, z), .axes = FLX_INTS(flxi_onnx_rank(s, z)))
                                    : as_pairs(s, z);
    s->y[0] = flxi_onnx_cast(s, y, d);
}

/* In f64: sums of f32 that cancel leave more than the bounds of the node tests allow. */
void flxi_onnx_import_dft(onnx_site *s)
{
    flx_val x = s->x[0];
    int rank = flxi_onnx_rank(s, x);
    flx_ints length = {NULL, 0}, given = {NULL, 0};
    if (flxi_onnx_given(s->x[1]) && !flxi_onnx_extents(s, 1, &length))
        return;
    if (flxi_onnx_given(s->x[2]) && !flxi_onnx_extents(s, 2, &given))
        return;
    int64_t axis = given.n ? given.v[0] : flxi_onnx_int(s, "axis", s->version < 20 ? 1 : -2);
    int at = flxi_onnx_axis(s, axis, rank);
    flx_dim n = flxi_onnx_dim(s, x, at);
    if (rank < 2 || at == rank - 1 || !flx_dim_is_static(n)) {
        flxi_onnx_unsupported(s, "this axis");
        return;
    }
    bool half = flxi_onnx_int(s, "inverse", 0) && flxi_onnx_int(s, "onesided", 0);
    flx_dtype d = flxi_onnx_dtype(s, x);
    transform(s, flxi_onnx_cast(s, x, FLX_F64), at, length.n ? length.v[0] : half ? 2 * (n - 1) : n);
    s->y[0] = flxi_onnx_cast(s, s->y[0], d);
}

/* [B, F, L]: the frames of a signal [B, T]. */
static flx_val frames_of(onnx_site *s, flx_val x, int64_t step, int64_t length)
{
    int64_t n = flxi_onnx_dim(s, x, 1);
    int64_t count = n >= length ? (n - length) / step + 1 : 0;
    int64_t *at = flxi_onnx_new(s, int64_t, count * length);
    for (int64_t i = 0; at && i < count * length; i++)
        at[i] = i / length * step + i % length;
    if (!at)
        return x;
    flx_val y = flx_gather(s->g, x, flxi_onnx_vector(s, at, (size_t)(count * length)), .axis = 1);
    return flx_reshape(s->g, y, .shape = FLX_INTS(flxi_onnx_dim(s, x, 0), count, length));
}

void flxi_onnx_import_stft(onnx_site *s)
{
    flx_val x = s->x[0], window = s->x[2];
    flx_ints step, length = {NULL, 0};
    const flx_type *t = flxi_onnx_typeof(s, x);
    if (!flxi_onnx_extents(s, 1, &step) || (flxi_onnx_given(s->x[3]) && !flxi_onnx_extents(s, 3, &length)))
        return;
    int64_t n = length.n ? length.v[0] : flxi_onnx_given(window) ? flxi_onnx_dim(s, window, 0) : flxi_onnx_dim(s, x, 1);
    bool is_complex = t->rank == 3 && t->dims[2] == 2;
    if (t->rank < 2 || !flxi_type_is_static(t) || step.n != 1 || step.v[0] < 1 || n < 1) {
        flxi_onnx_unsupported(s, "a signal of this shape");
        return;
    }
    flx_val re = frames_of(s, t->rank == 3 ? part(s, x, 0) : x, step.v[0], n);
    flx_val im = is_complex ? frames_of(s, part(s, x, 1), step.v[0], n) : FLX_NONE;
    if (flxi_onnx_given(window)) {
        re = flx_mul(s->g, re, window);
        im = is_complex ? flx_mul(s->g, im, window) : im;
    }
    if (!is_complex)
        im = flx_mul(s->g, re, flxi_onnx_number(s, re, 0));
    flx_val z = flx_fft_axis(s->g, flx_complex(s->g, re, im), .axis = 2);
    if (flxi_onnx_int(s, "onesided", 1) && !is_complex)
        z = flxi_onnx_slice_axis(s, z, 2, 0, n / 2 + 1);
    s->y[0] = as_pairs(s, z);
}

/* ---- Windows ---- */

/* A literal vector or matrix of doubles, in the dtype that the attribute names. */
static flx_val literal(onnx_site *s, const double *v, flx_ints shape)
{
    const onnx_element *e = flxi_onnx_element((int32_t)flxi_onnx_int(s, "output_datatype", ONNX_FLOAT));
    flx_type type = flx_type_make(FLX_F64, (int32_t)shape.n, shape.v);
    flx_tensor *t = flx_tensor_new(flx_graph_context(s->g), &type, v, NULL);
    if (!t) {
        flxi_onnx_fail(s, FLX_E_OOM, NULL, "no memory for its result");
        return FLX_NONE;
    }
    flx_val y = flx_const(s->g, .type = &type, .data = t);
    flx_tensor_release(t);
    return flxi_onnx_cast(s, y, e ? e->carrier : FLX_F32);
}

/* a - b cos(2 pi i / n) + c cos(4 pi i / n); the row has the kind. */
void flxi_onnx_import_window(onnx_site *s)
{
    static const double terms[3][3] = {{0.5, 0.5, 0}, {25. / 46, 21. / 46, 0}, {0.42, 0.5, 0.08}};
    const double *k = terms[(int)s->row->number];
    flx_ints size;
    if (!flxi_onnx_extents(s, 0, &size) || size.n != 1 || size.v[0] < 0 || size.v[0] > 1 << 24)
        return;
    double n = (double)(flxi_onnx_int(s, "periodic", 1) ? size.v[0] : size.v[0] - 1);
    double *v = flxi_onnx_new(s, double, size.v[0]);
    for (int64_t i = 0; v && i < size.v[0]; i++) {
        double t = n > 0 ? 2 * 3.14159265358979323846 * (double)i / n : 0;
        v[i] = k[0] - k[1] * cos(t) + k[2] * cos(2 * t);
    }
    if (v)
        s->y[0] = literal(s, v, size);
}

static double mel(double f)
{
    return 2595 * log10(1 + f / 700);
}

/* Triangles that are equally wide on the mel scale, between bins of a spectrum. */
void flxi_onnx_import_mel_weight_matrix(onnx_site *s)
{
    flx_reals in[5];
    for (size_t i = 0; i < 5; i++)
        if (!flxi_onnx_known_reals(s, i, &in[i]) || in[i].n != 1)
            return;
    double rate = in[2].v[0], length = in[1].v[0];
    int64_t bands = (int64_t)in[0].v[0], bins = (int64_t)length / 2 + 1;
    if (bands < 1 || bands > 1 << 16 || bins < 1 || bins > 1 << 20 || rate <= 0) {
        flxi_onnx_unsupported(s, "a matrix of this size");
        return;
    }
    double low = mel(in[3].v[0]), high = mel(in[4].v[0]), step = (high - low) / (double)(bands + 2);
    double *v = flxi_onnx_new(s, double, bins *bands);
    for (int64_t i = 0; v && i < bands; i++) {
        double edge[3];
        for (int k = 0; k < 3; k++) {
            double f = 700 * (pow(10, (low + step * (double)(i + k)) / 2595) - 1);
            edge[k] = floor((length + 1) * f / rate);
        }
        for (int64_t j = (int64_t)edge[0]; j <= (int64_t)edge[2] && j < bins; j++) {
            double up = edge[1] > edge[0] ? ((double)j - edge[0]) / (edge[1] - edge[0]) : 1;
            double down = edge[2] > edge[1] ? (edge[2] - (double)j) / (edge[2] - edge[1]) : 0;
            v[j * bands + i] = (double)j <= edge[1] ? up : down;
        }
    }
    if (v)
        s->y[0] = literal(s, v, FLX_INTS(bins, bands));
}
