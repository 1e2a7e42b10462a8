/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_norm.c: normalisation. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

/* A vector with an element for each channel, as a tensor that broadcasts against x [N, C, …]. */
static flx_val per_channel(onnx_site *s, flx_val x, flx_val v)
{
    int rank = flxi_onnx_rank(s, x);
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == 1 ? flxi_onnx_dim(s, v, 0) : 1;
    return flx_reshape(s->g, v, .shape = {dims, (size_t)rank});
}

static flx_ints axes_from(onnx_site *s, int first, int rank)
{
    int64_t *v = flxi_onnx_new(s, int64_t, rank);
    for (int i = first; v && i < rank; i++)
        v[i - first] = i;
    return (flx_ints){v, v && rank > first ? (size_t)(rank - first) : 0};
}

/* (x - mean) / sqrt(variance + eps) over the axes; the mean and 1 / deviation are kept where asked for. */
static flx_val standardised(onnx_site *s, flx_val x, flx_ints axes, double eps, flx_val *mean, flx_val *inverse)
{
    flx_val m = flx_reduce_mean(s->g, x, .axes = axes, .keep_dims = 1);
    flx_val centred = flx_sub(s->g, x, m);
    flx_val var = flx_reduce_mean(s->g, flx_square(s->g, centred), .axes = axes, .keep_dims = 1);
    flx_val r = flx_rsqrt(s->g, flx_add(s->g, var, flxi_onnx_number(s, var, eps)));
    if (mean)
        *mean = m;
    if (inverse)
        *inverse = r;
    return flx_mul(s->g, centred, r);
}

/* ---- Batch ---- */

static flx_val mixed(onnx_site *s, flx_val old, flx_val current, double momentum)
{
    flx_val now = flxi_onnx_cast(s, current, flxi_onnx_dtype(s, old));
    return flx_add(s->g, flx_mul(s->g, old, flxi_onnx_number(s, old, momentum)),
                   flx_mul(s->g, now, flxi_onnx_number(s, old, 1 - momentum)));
}

void flxi_onnx_import_batch_norm(onnx_site *s)
{
    double eps = flxi_onnx_real(s, "epsilon", 1e-5);
    if (flxi_onnx_int(s, "training_mode", 0)) {
        flx_val y[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
        double momentum = flxi_onnx_real(s, "momentum", 0.9);
        flx_batch_norm_training(s->g, s->x[0], s->x[1], s->x[2], y, .eps = eps);
        s->y[0] = y[0];
        s->y[1] = mixed(s, s->x[3], y[1], momentum);
        s->y[2] = mixed(s, s->x[4], y[2], momentum);
        return;
    }
    s->y[0] = flx_batch_norm_inference(s->g, s->x[0], s->x[1], s->x[2], s->x[3], s->x[4], .eps = eps);
    for (size_t i = 1; i < s->ny; i++) /* old versions list the statistics as results */
        s->y[i] = s->x[i == 1 || i == 3 ? 3 : 4];
}

void flxi_onnx_import_instance_norm(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_ints axes = axes_from(s, 2, flxi_onnx_rank(s, x));
    flx_val y = standardised(s, x, axes, flxi_onnx_real(s, "epsilon", 1e-5), NULL, NULL);
    y = flx_mul(s->g, y, per_channel(s, x, s->x[1]));
    s->y[0] = flx_add(s->g, y, per_channel(s, x, s->x[2]));
}

/* ---- Layer ---- */

/* The dtype of the statistics: stash_type, f32 unless given. */
static flx_dtype stash(onnx_site *s)
{
    const onnx_element *e = flxi_onnx_element((int32_t)flxi_onnx_int(s, "stash_type", ONNX_FLOAT));
    return e && flxi_is_float((int32_t)e->carrier) ? e->carrier : FLX_F32;
}

static flx_dtype wider(flx_dtype a, flx_dtype b)
{
    return a == FLX_F64 || b == FLX_F64 ? FLX_F64 : b;
}

void flxi_onnx_import_layer_norm(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_dtype d = flxi_onnx_dtype(s, x);
    int rank = flxi_onnx_rank(s, x);
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", -1), rank);
    double eps = flxi_onnx_real(s, "epsilon", 1e-5);
    if (axis == rank - 1 && d == FLX_F32 && s->ny < 2 && flxi_onnx_given(s->x[2]) && flxi_onnx_rank(s, s->x[1]) == 1 &&
        flxi_onnx_rank(s, s->x[2]) == 1) {
        s->y[0] = flx_layer_norm(s->g, x, s->x[1], s->x[2], .eps = eps);
        return;
    }
    flx_val wide = flxi_onnx_cast(s, x, wider(d, stash(s)));
    flx_val y = standardised(s, wide, axes_from(s, axis, rank), eps, &s->y[1], &s->y[2]);
    y = flx_mul(s->g, flxi_onnx_cast(s, y, d), s->x[1]);
    s->y[0] = flxi_onnx_given(s->x[2]) ? flx_add(s->g, y, s->x[2]) : y;
}

void flxi_onnx_import_rms_norm(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_dtype d = flxi_onnx_dtype(s, x);
    int rank = flxi_onnx_rank(s, x);
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", -1), rank);
    flx_val wide = flxi_onnx_cast(s, x, wider(d, stash(s)));
    flx_val mean = flx_reduce_mean(s->g, flx_square(s->g, wide), .axes = axes_from(s, axis, rank), .keep_dims = 1);
    flx_val eps = flxi_onnx_number(s, mean, flxi_onnx_real(s, "epsilon", 1e-5));
    flx_val y = flx_mul(s->g, wide, flx_rsqrt(s->g, flx_add(s->g, mean, eps)));
    flx_dtype scale = flxi_onnx_dtype(s, s->x[1]);
    s->y[0] = flx_mul(s->g, flxi_onnx_cast(s, y, scale), s->x[1]);
}

void flxi_onnx_import_group_norm(onnx_site *s)
{
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    int64_t groups = flxi_onnx_int(s, "num_groups", 1);
    double eps = flxi_onnx_real(s, "epsilon", 1e-5);
    if (t->rank < 2 || !flx_dim_is_static(t->dims[1]) || groups < 1 || t->dims[1] % groups != 0) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its channels cannot be divided into %lld groups", (long long)groups);
        return;
    }
    flx_val gamma = s->x[1], beta = s->x[2];
    if (s->version < 21) { /* one for each group */
        gamma = flx_repeat(s->g, gamma, .repeats = t->dims[1] / groups, .axis = 0);
        beta = flx_repeat(s->g, beta, .repeats = t->dims[1] / groups, .axis = 0);
    }
    s->y[0] = flx_group_norm(s->g, x, gamma, beta, .num_groups = groups, .eps = eps);
}

void flxi_onnx_import_lp_norm(onnx_site *s)
{
    flx_val x = s->x[0];
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", -1), flxi_onnx_rank(s, x));
    flx_val size = flxi_onnx_int(s, "p", 2) == 1 ? flx_abs(s->g, x) : flx_square(s->g, x);
    size = flx_reduce_sum(s->g, size, .axes = FLX_INTS(axis), .keep_dims = 1);
    if (flxi_onnx_int(s, "p", 2) != 1)
        size = flx_sqrt(s->g, size);
    flx_val is_zero = flx_eq(s->g, size, flxi_onnx_number(s, size, 0));
    s->y[0] = flx_div(s->g, x, flx_where(s->g, is_zero, flxi_onnx_number(s, size, 1), size));
}

void flxi_onnx_import_mean_variance_norm(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_ints given = flxi_onnx_ints(s, "axes");
    flx_ints axes = flxi_onnx_axes(s, given.n ? given : FLX_INTS(0, 2, 3), flxi_onnx_rank(s, x));
    flx_val mean = flx_reduce_mean(s->g, x, .axes = axes, .keep_dims = 1);
    flx_val centred = flx_sub(s->g, x, mean);
    flx_val var = flx_reduce_mean(s->g, flx_square(s->g, centred), .axes = axes, .keep_dims = 1);
    s->y[0] = flx_div(s->g, centred, flx_add(s->g, flx_sqrt(s->g, var), flxi_onnx_number(s, x, 1e-9)));
}

/* Local response: x / (bias + alpha / size * sum of squares of neighbouring channels)^beta. */
void flxi_onnx_import_lrn(onnx_site *s)
{
    flx_val x = s->x[0];
    int64_t size = flxi_onnx_int(s, "size", 1);
    double alpha = flxi_onnx_real(s, "alpha", 1e-4), beta = flxi_onnx_real(s, "beta", 0.75);
    int rank = flxi_onnx_rank(s, x);
    int64_t window[FLX_MAX_RANK], low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++)
        window[i] = i == 1 ? size : 1;
    low[1] = (size - 1) / 2;
    high[1] = size - 1 - low[1];
    flx_val in[2] = {flx_square(s->g, x), flxi_onnx_number(s, x, 0)};
    flx_val sum = FLX_NONE;
    flx_reduce_window(s->g, in, 2, &sum, 1, .window = {window, (size_t)rank}, .combine = {.word = "add"},
                      .pad_low = {low, (size_t)rank}, .pad_high = {high, (size_t)rank});
    flx_val scale = flx_add(s->g, flxi_onnx_number(s, x, flxi_onnx_real(s, "bias", 1)),
                            flx_mul(s->g, sum, flxi_onnx_number(s, x, alpha / (double)size)));
    s->y[0] = flx_div(s->g, x, flx_pow(s->g, scale, flxi_onnx_number(s, x, beta)));
}
