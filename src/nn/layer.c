/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c: layers without state: linear, norms, embedding, convolution, dropout. */
#include "nn/layer.h"

#include "base/options.h"
#include "graph/graph.h"

#include <fluxion/catalogue.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- What layers share ---- */

const flx_type *flxi_nn_type(flx_graph *g, flx_val v)
{
    static const flx_type harmless = {.dtype = FLX_F32, .rank = 1, .dims = {1}};
    const flx_type *t = flx_val_type(g, v);
    return t ? t : &harmless;
}

flx_dtype flxi_nn_dtype(flx_graph *g, flx_val v)
{
    return (flx_dtype)flxi_nn_type(g, v)->dtype;
}

flx_dim flxi_nn_width(flx_graph *g, flx_val v)
{
    const flx_type *t = flxi_nn_type(g, v);
    return t->rank ? t->dims[t->rank - 1] : 1;
}

const char *flxi_nn_join(char *buffer, const char *name, const char *part)
{
    snprintf(buffer, FLXI_NN_NAME, "%s.%s", name ? name : "", part);
    return buffer;
}

flx_val flxi_nn_param(flx_graph *g, const char *name, const char *part, flx_dtype dtype, const flx_dim *dims, int rank)
{
    char full[FLXI_NN_NAME];
    flx_type type = flx_type_make(dtype, rank, dims);
    return flx_param(g, flxi_nn_join(full, name, part), &type);
}

flx_val flxi_nn_activate(flx_graph *g, flx_val x, const char *activation)
{
    if (!activation)
        return x;
    flx_val y = flx_op1(g, activation, &x, 1, NULL, 0);
    const flx_type *before = flx_val_type(g, x), *after = flx_val_type(g, y);
    bool is_same = !after || (before && before->dtype == after->dtype && before->rank == after->rank &&
                              memcmp(before->dims, after->dims, (size_t)after->rank * sizeof *after->dims) == 0);
    flxi_nn_require(g, is_same, "fluxion/nn.h", "'%.60s' is not an activation: it changes the type", activation);
    return y;
}

flx_val flxi_nn_swap01(flx_graph *g, flx_val v)
{
    int64_t perm[FLX_MAX_RANK];
    int rank = flxi_nn_type(g, v)->rank;
    for (int k = 0; k < rank; k++)
        perm[k] = k < 2 && rank > 1 ? 1 - k : k;
    return flx_transpose(g, v, (flx_ints){perm, (size_t)rank});
}

void flxi_nn_read(flx_graph *g, void *dst, size_t size, size_t alignment, const void *given, const char *name)
{
    flx_error err = {0};
    if (flxi_options_read(dst, size, size, alignment, given, name, &err) == FLX_OK || !g)
        return;
    memset(dst, 0, size);
    flxi_graph_fail(g, &err);
}

bool flxi_nn_require(flx_graph *g, bool is_fit, const char *function, const char *fmt, ...)
{
    char text[200];
    va_list args;
    if (is_fit || flx_graph_error(g, NULL) != FLX_OK)
        return is_fit;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    flxi_graph_failf(g, FLX_E_USAGE, NULL, "%s: %s", function, text);
    return false;
}

bool flxi_nn_check_layer(flx_graph *g, const char *function, const char *name, int64_t units)
{
    return flxi_nn_require(g, name != NULL, function, "the name of the layer is NULL") &&
           flxi_nn_require(g, units > 0, function, "the number of units must be positive, got %lld", (long long)units);
}

bool flxi_nn_check_activation(flx_graph *g, const char *function, const char *activation)
{
    flx_op_view op;
    if (!activation)
        return true;
    bool is_known = flx_op_find(activation, &op) == FLX_OK;
    if (!is_known && flx_graph_error(g, NULL) == FLX_OK)
        flxi_graph_failf(g, FLX_E_NAME, NULL, "%s: there is no activation called '%.60s'", function, activation);
    return is_known && flxi_nn_require(g, op.min_operands == 1, function,
                                       "'%.60s' is not an activation: it does not take one operand", activation);
}

bool flxi_nn_check_eps(flx_graph *g, const char *function, double eps)
{
    return flxi_nn_require(g, eps >= 0 && isfinite(eps), function, "eps must be a finite number >= 0, got %g", eps);
}

flx_val flxi_nn_number(flx_graph *g, flx_val like, double x)
{
    return flx_scalar(g, flxi_nn_dtype(g, like), x);
}

/* ---- Linear ---- */

flx_val flx_nn_project(flx_graph *g, const char *name, flx_val x, int64_t units)
{
    const flx_dim dims[] = {flxi_nn_width(g, x), units};
    if (!flxi_nn_check_layer(g, "flx_nn_project", name, units))
        return FLX_NONE;
    return flx_matmul(g, x, flxi_nn_param(g, name, "w", flxi_nn_dtype(g, x), dims, 2));
}

flx_val flx_nn_linear(flx_graph *g, const char *name, flx_val x, int64_t units, const char *activation)
{
    if (!flxi_nn_check_layer(g, "flx_nn_linear", name, units) ||
        !flxi_nn_check_activation(g, "flx_nn_linear", activation))
        return FLX_NONE;
    flx_val y = flx_nn_project(g, name, x, units);
    flx_val b = flxi_nn_param(g, name, "b", flxi_nn_dtype(g, x), &units, 1);
    return flxi_nn_activate(g, flx_add(g, y, b), activation);
}

flx_val flx_nn_mlp(flx_graph *g, const char *name, flx_val x, const int64_t *units, size_t count,
                   const char *activation)
{
    if (!flxi_nn_require(g, name && units && count, "flx_nn_mlp", "a name and at least one layer are needed") ||
        !flxi_nn_check_activation(g, "flx_nn_mlp", activation))
        return FLX_NONE;
    for (size_t i = 0; i < count; i++) {
        char layer[FLXI_NN_NAME], number[24];
        snprintf(number, sizeof number, "%zu", i);
        x = flx_nn_linear(g, flxi_nn_join(layer, name, number), x, units[i], i + 1 < count ? activation : NULL);
    }
    return x;
}

/* ---- Norms ---- */

static bool check_norm(flx_graph *g, const char *function, const char *name, double eps)
{
    return flxi_nn_require(g, name != NULL, function, "the name of the layer is NULL") &&
           flxi_nn_check_eps(g, function, eps);
}

flx_val flx_nn_layer_norm(flx_graph *g, const char *name, flx_val x, double eps)
{
    flx_dim width = flxi_nn_width(g, x);
    if (!check_norm(g, "flx_nn_layer_norm", name, eps))
        return FLX_NONE;
    flx_val gamma = flxi_nn_param(g, name, "gamma", flxi_nn_dtype(g, x), &width, 1);
    flx_val beta = flxi_nn_param(g, name, "beta", flxi_nn_dtype(g, x), &width, 1);
    return flx_layer_norm(g, x, gamma, beta, FLX_DEFAULT, eps);
}

flx_val flx_nn_rms_norm(flx_graph *g, const char *name, flx_val x, double eps)
{
    flx_dim width = flxi_nn_width(g, x);
    if (!check_norm(g, "flx_nn_rms_norm", name, eps))
        return FLX_NONE;
    flx_val gamma = flxi_nn_param(g, name, "gamma", flxi_nn_dtype(g, x), &width, 1);
    return flx_rms_norm(g, x, gamma, FLX_NONE, FLX_DEFAULT, eps);
}

/* ---- Others ---- */

flx_val flx_nn_embedding(flx_graph *g, const char *name, flx_val indices, int64_t count, int64_t width, flx_dtype dtype)
{
    const flx_dim dims[] = {count, width};
    if (!flxi_nn_check_layer(g, "flx_nn_embedding", name, width) ||
        !flxi_nn_require(g, count > 0, "flx_nn_embedding", "the count must be positive, got %lld", (long long)count) ||
        !flxi_nn_require(g, flxi_nn_dtype(g, indices) >= FLX_I64 && flxi_nn_dtype(g, indices) <= FLX_U8,
                         "flx_nn_embedding", "indices must be integers, not %s",
                         flx_dtype_name(flxi_nn_dtype(g, indices))))
        return FLX_NONE;
    return flx_gather(g, flxi_nn_param(g, name, "table", dtype, dims, 2), indices, 0, NULL);
}

flx_val flx_nn_dropout(flx_graph *g, flx_val x, flx_val key, double rate)
{
    if (!flxi_nn_require(g, rate >= 0 && rate <= 1, "flx_nn_dropout", "the rate must be in [0, 1], got %g", rate))
        return FLX_NONE;
    return flx_dropout(g, x, key, rate);
}

/* [channels] as [channels, 1, 1 …], for x [N, C, spatial...]. */
static flx_val per_channel(flx_graph *g, flx_val v, int spatial)
{
    int64_t axes[FLX_MAX_RANK];
    for (int k = 0; k < spatial; k++)
        axes[k] = k + 1;
    return spatial ? flx_unsqueeze(g, v, (flx_ints){axes, (size_t)spatial}) : v;
}

static bool check_conv(flx_graph *g, const char *name, int64_t channels, const flx_nn_conv_options *o)
{
    static const char function[] = "flx_nn_conv_block";
    int64_t groups = o->groups ? o->groups : 1, parts = o->norm_groups ? o->norm_groups : 1;
    return flxi_nn_check_layer(g, function, name, channels) &&
           flxi_nn_require(g, o->flags == 0, function, "unknown flags 0x%x", (unsigned)o->flags) &&
           flxi_nn_require(g, o->kernel >= 0 && o->stride >= 0 && o->groups >= 0 && o->norm_groups >= 0, function,
                           "kernel %lld, stride %lld, groups %lld, norm_groups %lld: none may be negative",
                           (long long)o->kernel, (long long)o->stride, (long long)o->groups,
                           (long long)o->norm_groups) &&
           flxi_nn_require(g, channels % groups == 0 && channels % parts == 0, function,
                           "%lld channels cannot be divided into %lld groups and %lld groups of the norm",
                           (long long)channels, (long long)groups, (long long)parts) &&
           flxi_nn_check_activation(g, function, o->activation);
}

flx_val flx_nn_conv_block(flx_graph *g, const char *name, flx_val x, int64_t channels,
                          const flx_nn_conv_options *options)
{
    flx_nn_conv_options o;
    FLXI_NN_READ(g, flx_nn_conv_options, &o, options);
    if (!check_conv(g, name, channels, &o))
        return FLX_NONE;
    const flx_type *t = flxi_nn_type(g, x);
    int spatial = t->rank > 2 ? t->rank - 2 : 0;
    int64_t kernel = o.kernel ? o.kernel : 3, groups = o.groups ? o.groups : 1;
    int64_t stride[FLX_MAX_RANK], padding[2 * FLX_MAX_RANK]; /* low and high */
    flx_dim dims[FLX_MAX_RANK] = {channels, t->rank > 1 ? flx_dim_div(flx_graph_context(g), t->dims[1], groups) : 1};
    for (int k = 0; k < spatial; k++) {
        dims[k + 2] = kernel;
        stride[k] = o.stride ? o.stride : 1;
        padding[2 * k] = padding[2 * k + 1] = (kernel - 1) / 2;
    }
    flx_dtype dtype = flxi_nn_dtype(g, x);
    flx_conv_attrs attrs = FLX_CONV_ATTRS;
    attrs.stride = (flx_ints){stride, (size_t)spatial};
    attrs.padding = (flx_ints){padding, 2 * (size_t)spatial};
    attrs.groups = groups;
    flx_val y = flx_conv_with(g, x, flxi_nn_param(g, name, "w", dtype, dims, spatial + 2), &attrs);
    y = flx_add(g, y, per_channel(g, flxi_nn_param(g, name, "b", dtype, &channels, 1), spatial));
    if (o.norm_groups) {
        flx_val gamma = flxi_nn_param(g, name, "gamma", dtype, &channels, 1);
        flx_val beta = flxi_nn_param(g, name, "beta", dtype, &channels, 1);
        y = flx_group_norm(g, y, gamma, beta, o.norm_groups, NAN);
    }
    return flxi_nn_activate(g, y, o.activation);
}
