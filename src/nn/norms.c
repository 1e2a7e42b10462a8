/* SPDX-License-Identifier: Apache-2.0 */
/* norms.c: layers that bring activations to mean 0 and variance 1, with a scale and a shift that are learned. */
#include "nn/layer.h"

#include <math.h>

static bool check_norm(flx_graph *g, const char *function, const char *name, double *eps)
{
    bool is_fit = flxi_nn_check_name(g, function, name) && flxi_nn_check_eps(g, function, *eps);
    if (*eps == 0)
        *eps = 1e-5;
    return is_fit;
}

/* ---- By example ---- */

flx_val flx_nn_layer_norm(flx_graph *g, const char *name, flx_val x, double eps)
{
    flx_dim width = flxi_nn_width(g, x);
    if (!check_norm(g, "flx_nn_layer_norm", name, &eps))
        return FLX_NONE;
    flx_val gamma = flxi_nn_param(g, name, "gamma", flxi_nn_dtype(g, x), &width, 1, flxi_nn_ones());
    flx_val beta = flxi_nn_param(g, name, "beta", flxi_nn_dtype(g, x), &width, 1, flxi_nn_zeros());
    return flx_layer_norm(g, x, gamma, beta, FLX_DEFAULT, eps);
}

flx_val flx_nn_rms_norm(flx_graph *g, const char *name, flx_val x, double eps)
{
    flx_dim width = flxi_nn_width(g, x);
    if (!check_norm(g, "flx_nn_rms_norm", name, &eps))
        return FLX_NONE;
    flx_val gamma = flxi_nn_param(g, name, "gamma", flxi_nn_dtype(g, x), &width, 1, flxi_nn_ones());
    return flx_rms_norm(g, x, gamma, FLX_NONE, FLX_DEFAULT, eps);
}

static bool check_channels(flx_graph *g, const char *function, flx_val x, int least)
{
    return flxi_nn_check_rank(g, function, x, least, FLX_MAX_RANK,
                              least > 2 ? "[N, C, spatial...]" : "[N, C] or [N, C, spatial...]");
}

static flx_dim channels_of(flx_graph *g, flx_val x)
{
    const flx_type *t = flxi_nn_type(g, x);
    return t->rank > 1 ? t->dims[1] : 1;
}

static flx_val grouped(flx_graph *g, const char *name, flx_val x, flx_dim groups, double eps)
{
    flx_dim channels = channels_of(g, x);
    flx_val gamma = flxi_nn_param(g, name, "gamma", flxi_nn_dtype(g, x), &channels, 1, flxi_nn_ones());
    flx_val beta = flxi_nn_param(g, name, "beta", flxi_nn_dtype(g, x), &channels, 1, flxi_nn_zeros());
    return flx_group_norm(g, x, gamma, beta, groups, eps);
}

flx_val flx_nn_group_norm(flx_graph *g, const char *name, flx_val x, int64_t groups, double eps)
{
    static const char function[] = "flx_nn_group_norm";
    flx_dim channels = channels_of(g, x);
    flxi_nn_type_text text;
    if (!check_norm(g, function, name, &eps) || !check_channels(g, function, x, 3) ||
        !flxi_nn_require(g, groups > 0, function, "the number of groups must be positive, got %lld",
                         (long long)groups) ||
        !flxi_nn_require_shape(
            g, !flx_dim_is_static(channels) || channels % groups == 0, "groups must divide the channels", function,
            "the channels of x, %s, cannot be divided into %lld groups", flxi_nn_text(g, x, &text), (long long)groups))
        return FLX_NONE;
    return grouped(g, name, x, groups, eps);
}

flx_val flx_nn_instance_norm(flx_graph *g, const char *name, flx_val x, double eps)
{
    if (!check_norm(g, "flx_nn_instance_norm", name, &eps) || !check_channels(g, "flx_nn_instance_norm", x, 3))
        return FLX_NONE;
    return grouped(g, name, x, channels_of(g, x), eps);
}

/* ---- By batch ---- */

/* state + momentum (of_batch - state) is the next value of the state. */
static void follow(flx_graph *g, flx_val state, flx_val of_batch, double momentum)
{
    flx_val step = flx_mul(g, flxi_nn_number(g, state, momentum), flx_sub(g, of_batch, state));
    flxi_nn_update(g, state, flx_stop_gradient(g, flx_add(g, state, step)));
}

/* n / (n - 1) for n elements per channel, which is not known before the batch is: 1 for n = 1, where the variance is
   0. */
static flx_val sample_factor(flx_graph *g, flx_val x, flx_dtype dtype)
{
    flx_val n = FLX_NONE;
    for (int k = 0; k < flxi_nn_type(g, x)->rank; k++) {
        flx_val extent = k == 1 ? FLX_NONE : flx_cast(g, flx_dim_size(g, x, k), dtype);
        if (k != 1)
            n = n.id ? flx_mul(g, n, extent) : extent;
    }
    flx_val one = flx_scalar(g, dtype, 1);
    return flx_div(g, n, flx_max(g, flx_sub(g, n, one), one));
}

flx_val flx_nn_batch_norm(flx_graph *g, const char *name, flx_val x, const flx_nn_batch_norm_options *options)
{
    static const char function[] = "flx_nn_batch_norm";
    flx_nn_batch_norm_options o;
    FLXI_NN_READ(g, flx_nn_batch_norm_options, &o, options);
    if (!check_norm(g, function, name, &o.eps) || !check_channels(g, function, x, 2) ||
        !flxi_nn_require(g, o.momentum >= 0 && o.momentum <= 1, function, "momentum must be in [0, 1], got %g",
                         o.momentum))
        return FLX_NONE;
    flx_dim channels = channels_of(g, x);
    flx_dtype dtype = flxi_nn_dtype(g, x), wide = dtype == FLX_F64 ? FLX_F64 : FLX_F32;
    flx_val gamma = flxi_nn_param(g, name, "gamma", dtype, &channels, 1, flxi_nn_ones());
    flx_val beta = flxi_nn_param(g, name, "beta", dtype, &channels, 1, flxi_nn_zeros());
    flx_val mean = flxi_nn_param(g, name, "mean", wide, &channels, 1, flxi_nn_zeros());
    flx_val var = flxi_nn_param(g, name, "var", wide, &channels, 1, flxi_nn_ones());
    if (!o.is_training)
        return flx_batch_norm_inference(g, x, gamma, beta, flx_cast(g, mean, dtype), flx_cast(g, var, dtype), o.eps);
    flx_val results[3] = {FLX_NONE, FLX_NONE, FLX_NONE};
    flx_batch_norm_training(g, x, gamma, beta, results, o.eps);
    double momentum = o.momentum == 0 ? 0.1 : o.momentum;
    follow(g, mean, flx_cast(g, results[1], wide), momentum);
    follow(g, var, flx_mul(g, flx_cast(g, results[2], wide), sample_factor(g, x, wide)), momentum);
    return results[0];
}
