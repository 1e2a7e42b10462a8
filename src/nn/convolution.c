/* SPDX-License-Identifier: Apache-2.0 */
/* convolution.c: layers of images [N, C, spatial...]: convolutions, pooling, and the blocks of a U-Net. */
#include "nn/layer.h"

#include <stdio.h>

enum { MOST_SPATIAL = 3 };

/* ---- Lists by axis ---- */

/* What a layer says about the axes of its windows. */
typedef struct {
    flx_graph *g;
    const char *function;
    int spatial;
    int64_t kernel[MOST_SPATIAL], stride[MOST_SPATIAL], dilation[MOST_SPATIAL], extra[MOST_SPATIAL];
    int64_t padding[2 * MOST_SPATIAL]; /* low and high */
} windows;

/* A list that is absent, or of which a shorter struct has only the pointer. */
static bool is_absent(flx_ints given)
{
    return !given.v || !given.n;
}

static bool check_image(flx_graph *g, const char *function, flx_val x)
{
    return flxi_nn_check_rank(g, function, x, 3, 2 + MOST_SPATIAL, "[N, C, spatial...] with one to three spatial axes");
}

/* Numbers from `least` on, one for all axes or one each; `usual` where there is no list. */
static bool read_list(const windows *w, const char *what, flx_ints given, int64_t least, int64_t usual, int64_t *out)
{
    bool is_list = is_absent(given) || given.n == 1 || given.n == (size_t)w->spatial;
    if (!flxi_nn_require(w->g, is_list, w->function, "%s has %zu numbers, expected 1 or one for each of %d axes", what,
                         given.n, w->spatial))
        return false;
    for (int k = 0; k < w->spatial; k++) {
        out[k] = is_absent(given) ? usual : given.v[given.n == 1 ? 0 : k];
        if (!flxi_nn_require(w->g, out[k] >= least && out[k] < INT64_C(1) << 40, w->function,
                             "%s must be at least %lld, got %lld", what, (long long)least, (long long)out[k]))
            return false;
    }
    return true;
}

/* Also two numbers for each axis. */
static bool read_padding(windows *w, flx_ints given)
{
    int64_t both[MOST_SPATIAL] = {0};
    bool is_pairs = !is_absent(given) && given.n == 2 * (size_t)w->spatial;
    for (int k = 0; is_pairs && k < 2 * w->spatial; k++) {
        w->padding[k] = given.v[k];
        is_pairs = given.v[k] >= 0 && given.v[k] < INT64_C(1) << 40;
    }
    if (is_pairs)
        return true;
    if (given.v && given.n == 2 * (size_t)w->spatial)
        return flxi_nn_require(w->g, false, w->function, "padding must not be negative");
    if (!read_list(w, "padding", given, 0, 0, both))
        return false;
    for (int k = 0; k < w->spatial; k++)
        w->padding[2 * k] = w->padding[2 * k + 1] = both[k];
    return true;
}

/* Keeps the extents at stride 1; of an odd sum the larger part is at the high end. */
static void pad_evenly(windows *w)
{
    for (int k = 0; k < w->spatial; k++) {
        int64_t sum = w->dilation[k] * (w->kernel[k] - 1);
        w->padding[2 * k] = sum / 2;
        w->padding[2 * k + 1] = sum - sum / 2;
    }
}

static flx_ints list(const windows *w, const int64_t *v)
{
    return (flx_ints){v, (size_t)w->spatial};
}

static flx_ints pairs(const windows *w)
{
    return (flx_ints){w->padding, 2 * (size_t)w->spatial};
}

/* ---- Convolution ---- */

typedef struct {
    windows w;
    const char *name;
    flx_nn_conv_options o;
    int64_t channels, groups;
    flx_dim in; /* channels of x */
} convolution;

static bool check_groups(const convolution *c, flx_val x)
{
    flx_graph *g = c->w.g;
    flxi_nn_type_text text;
    bool divides = !flx_dim_is_static(c->in) || c->in % c->groups == 0;
    return flxi_nn_require(g, c->channels % c->groups == 0, c->w.function,
                           "%lld channels cannot be divided into %lld groups", (long long)c->channels,
                           (long long)c->groups) &&
           flxi_nn_require_shape(g, divides, "groups must divide the channels of x and those of the result",
                                 c->w.function, "the channels of x, %s, cannot be divided into %lld groups",
                                 flxi_nn_text(g, x, &text), (long long)c->groups);
}

/* False with an error in the graph. */
static bool read_conv(convolution *c, flx_val x, const flx_nn_conv_options *options, bool is_transposed)
{
    flx_graph *g = c->w.g;
    FLXI_NN_READ(g, flx_nn_conv_options, &c->o, options);
    if (!flxi_nn_check_layer(g, c->w.function, c->name, c->channels) || !check_image(g, c->w.function, x) ||
        !flxi_nn_check_activation(g, c->w.function, c->o.activation))
        return false;
    const flx_type *t = flxi_nn_type(g, x);
    c->w.spatial = t->rank > 2 ? t->rank - 2 : 1;
    c->in = t->rank > 1 ? t->dims[1] : 1;
    c->groups = c->o.groups ? c->o.groups : 1;
    if (!flxi_nn_require(g, c->groups > 0, c->w.function, "groups must not be negative, got %lld",
                         (long long)c->groups) ||
        !flxi_nn_require(g, is_transposed || is_absent(c->o.extra), c->w.function,
                         "extra is an option of flx_nn_conv_transpose()"))
        return false;
    int64_t usual_kernel = is_transposed ? 2 : 3, usual_stride = is_transposed ? 2 : 1;
    if (!read_list(&c->w, "kernel", c->o.kernel, 1, usual_kernel, c->w.kernel) ||
        !read_list(&c->w, "stride", c->o.stride, 1, usual_stride, c->w.stride) ||
        !read_list(&c->w, "dilation", c->o.dilation, 1, 1, c->w.dilation) ||
        !read_list(&c->w, "extra", c->o.extra, 0, 0, c->w.extra) || !read_padding(&c->w, c->o.padding))
        return false;
    if (is_absent(c->o.padding) && !is_transposed)
        pad_evenly(&c->w);
    return check_groups(c, x);
}

/* The parameter w [outer, inner, kernel...]; a result depends on as many numbers as a row of it has. */
static flx_val weights(convolution *c, flx_dtype dtype, flx_dim outer, flx_dim inner, flx_init *init)
{
    flx_dim dims[2 + MOST_SPATIAL] = {outer, inner};
    double inputs = flx_dim_is_static(inner) ? (double)inner : 1;
    for (int k = 0; k < c->w.spatial; k++) {
        dims[k + 2] = c->w.kernel[k];
        inputs *= (double)c->w.kernel[k];
    }
    *init = flxi_nn_uniform(inputs);
    return flxi_nn_param(c->w.g, c->name, "w", dtype, dims, c->w.spatial + 2, *init);
}

static flx_val finish(const convolution *c, flx_val y, flx_init init)
{
    flx_graph *g = c->w.g;
    if (!c->o.no_bias) {
        flx_val b = flxi_nn_param(g, c->name, "b", flxi_nn_dtype(g, y), &c->channels, 1, init);
        y = flx_add(g, y, flxi_nn_per_channel(g, b, c->w.spatial));
    }
    return flxi_nn_activate(g, y, c->o.activation);
}

flx_val flx_nn_conv(flx_graph *g, const char *name, flx_val x, int64_t channels, const flx_nn_conv_options *options)
{
    convolution c = {.w = {.g = g, .function = "flx_nn_conv"}, .name = name, .channels = channels};
    flx_init init;
    if (!read_conv(&c, x, options, false))
        return FLX_NONE;
    flx_dim inner = flx_dim_div(flx_graph_context(g), c.in, c.groups);
    flx_val w = weights(&c, flxi_nn_dtype(g, x), channels, inner, &init);
    flx_conv_attrs attrs = FLX_CONV_ATTRS;
    attrs.stride = list(&c.w, c.w.stride);
    attrs.padding = pairs(&c.w);
    attrs.dilation = list(&c.w, c.w.dilation);
    attrs.groups = c.groups;
    return finish(&c, flx_conv_with(g, x, w, &attrs), init);
}

flx_val flx_nn_conv_transpose(flx_graph *g, const char *name, flx_val x, int64_t channels,
                              const flx_nn_conv_options *options)
{
    convolution c = {.w = {.g = g, .function = "flx_nn_conv_transpose"}, .name = name, .channels = channels};
    flx_init init;
    if (!read_conv(&c, x, options, true))
        return FLX_NONE;
    flx_val w = weights(&c, flxi_nn_dtype(g, x), c.in, channels / c.groups, &init);
    flx_conv_transpose_attrs attrs = FLX_CONV_TRANSPOSE_ATTRS;
    attrs.stride = list(&c.w, c.w.stride);
    attrs.padding = pairs(&c.w);
    attrs.dilation = list(&c.w, c.w.dilation);
    attrs.groups = c.groups;
    attrs.output_padding = list(&c.w, c.w.extra);
    return finish(&c, flx_conv_transpose_with(g, x, w, &attrs), init);
}

/* ---- Pooling ---- */

static flx_val pool(flx_graph *g, const char *function, const char *kind, flx_val x, const flx_nn_pool_options *options)
{
    windows w = {.g = g, .function = function};
    flx_nn_pool_options o;
    FLXI_NN_READ(g, flx_nn_pool_options, &o, options);
    if (!check_image(g, function, x))
        return FLX_NONE;
    int rank = flxi_nn_type(g, x)->rank;
    w.spatial = rank > 2 ? rank - 2 : 1;
    if (!read_list(&w, "kernel", o.kernel, 1, 2, w.kernel) ||
        !read_list(&w, "stride", is_absent(o.stride) ? list(&w, w.kernel) : o.stride, 1, 1, w.stride) ||
        !read_padding(&w, o.padding))
        return FLX_NONE;
    for (int k = 0; k < 2 * w.spatial; k++)
        if (!flxi_nn_require(g, w.padding[k] < w.kernel[k / 2], function,
                             "the padding, %lld, must be smaller than the window, %lld", (long long)w.padding[k],
                             (long long)w.kernel[k / 2]))
            return FLX_NONE;
    flx_pool_attrs attrs = FLX_POOL_ATTRS;
    attrs.kind = kind;
    attrs.kernel_size = list(&w, w.kernel);
    attrs.stride = list(&w, w.stride);
    attrs.padding = pairs(&w);
    attrs.count_include_pad = !o.exclude_padding;
    return flx_pool_with(g, x, &attrs);
}

flx_val flx_nn_max_pool(flx_graph *g, flx_val x, const flx_nn_pool_options *options)
{
    return pool(g, "flx_nn_max_pool", "max", x, options);
}

flx_val flx_nn_avg_pool(flx_graph *g, flx_val x, const flx_nn_pool_options *options)
{
    return pool(g, "flx_nn_avg_pool", "mean", x, options);
}

static flx_ints spatial_axes(flx_graph *g, flx_val x, int64_t axes[MOST_SPATIAL])
{
    int rank = flxi_nn_type(g, x)->rank;
    for (int k = 0; k + 2 < rank && k < MOST_SPATIAL; k++)
        axes[k] = k + 2;
    return (flx_ints){axes, rank > 2 ? (size_t)(rank - 2) : 0};
}

flx_val flx_nn_global_avg_pool(flx_graph *g, flx_val x)
{
    int64_t axes[MOST_SPATIAL];
    if (!check_image(g, "flx_nn_global_avg_pool", x))
        return FLX_NONE;
    return flx_reduce_mean(g, x, spatial_axes(g, x, axes), 0);
}

flx_val flx_nn_global_max_pool(flx_graph *g, flx_val x)
{
    int64_t axes[MOST_SPATIAL];
    if (!check_image(g, "flx_nn_global_max_pool", x))
        return FLX_NONE;
    return flx_reduce_max(g, x, spatial_axes(g, x, axes), 0);
}

/* Which of n elements belong to which of `count` windows, [n, count]: window i begins at i n / count, rounded down, and
   ends at (i + 1) n / count, rounded up; each element has the weight 1 / the size of the window. With e elements and i
   windows that is i n < (e + 1) count and e count < (i + 1) n. */
static flx_val averages(flx_graph *g, flx_dtype dtype, int64_t n, int64_t count)
{
    const flx_dim dims[] = {n, count};
    flx_type type = flx_type_make(FLX_I64, 2, dims);
    flx_val e = flx_iota(g, &type, 0), i = flx_iota(g, &type, 1), one = flx_scalar(g, FLX_I64, 1);
    flx_val size = flx_scalar(g, FLX_I64, (double)n), windows_ = flx_scalar(g, FLX_I64, (double)count);
    flx_val begins = flx_lt(g, flx_mul(g, i, size), flx_mul(g, flx_add(g, e, one), windows_));
    flx_val ends = flx_lt(g, flx_mul(g, e, windows_), flx_mul(g, flx_add(g, i, one), size));
    flx_val inside = flx_cast(g, flx_and(g, begins, ends), dtype);
    return flx_div(g, inside, flx_reduce_sum(g, inside, FLX_INTS(0), 1));
}

/* x with its last axis moved to position 2: three axes turn round, so that each is the last once. */
static flx_val turn(flx_graph *g, flx_val x)
{
    int64_t perm[2 + MOST_SPATIAL] = {0, 1};
    int rank = flxi_nn_type(g, x)->rank;
    for (int k = 2; k < rank; k++)
        perm[k] = k == 2 ? rank - 1 : k - 1;
    return rank > 3 ? flx_transpose(g, x, (flx_ints){perm, (size_t)rank}) : x;
}

flx_val flx_nn_adaptive_avg_pool(flx_graph *g, flx_val x, flx_ints sizes)
{
    windows w = {.g = g, .function = "flx_nn_adaptive_avg_pool"};
    int64_t out[MOST_SPATIAL] = {0};
    flxi_nn_type_text text;
    if (!check_image(g, w.function, x))
        return FLX_NONE;
    const flx_type *t = flxi_nn_type(g, x);
    w.spatial = t->rank > 2 ? t->rank - 2 : 1;
    if (!flxi_nn_require(g, !is_absent(sizes), w.function, "the sizes must be given") ||
        !read_list(&w, "sizes", sizes, 1, 1, out))
        return FLX_NONE;
    for (int k = 2; k < t->rank; k++)
        if (!flxi_nn_require_shape(g, flx_dim_is_static(t->dims[k]), "flx_nn_global_avg_pool() takes any extents",
                                   w.function, "the extents of x, %s, must be numbers", flxi_nn_text(g, x, &text)))
            return FLX_NONE;
    for (int k = w.spatial; k-- > 0;) { /* the last axis first; after all turns they are in order again */
        t = flxi_nn_type(g, x);
        flx_dim n = t->dims[t->rank - 1];
        x = turn(g, flx_matmul(g, x, averages(g, flxi_nn_dtype(g, x), n, out[k])));
    }
    return x;
}

/* ---- U-Net ---- */

typedef struct {
    flx_graph *g;
    const char *function, *name;
    int64_t channels;
    flx_nn_unet_options o;
} unet;

static bool read_unet(unet *u, const flx_nn_unet_options *options, flx_val x)
{
    FLXI_NN_READ(u->g, flx_nn_unet_options, &u->o, options);
    int64_t groups = u->o.norm_groups ? u->o.norm_groups : 1;
    if (!u->o.activation)
        u->o.activation = "relu";
    return flxi_nn_check_layer(u->g, u->function, u->name, u->channels) && check_image(u->g, u->function, x) &&
           flxi_nn_require(u->g, u->o.reserved == 0, u->function, "reserved must be 0, got %d", (int)u->o.reserved) &&
           flxi_nn_check_activation(u->g, u->function, u->o.activation) &&
           flxi_nn_require(u->g, groups > 0 && u->channels % groups == 0, u->function,
                           "%lld channels cannot be divided into %lld groups of the norm", (long long)u->channels,
                           (long long)groups);
}

static flx_val part(const unet *u, int number, flx_val x)
{
    char name[FLXI_NN_NAME], text[16];
    const flx_nn_conv_options o = {.struct_size = sizeof o};
    snprintf(text, sizeof text, "conv%d", number);
    x = flx_nn_conv(u->g, flxi_nn_join(name, u->name, text), x, u->channels, &o);
    snprintf(text, sizeof text, "norm%d", number);
    if (u->o.norm_groups)
        x = flx_nn_group_norm(u->g, flxi_nn_join(name, u->name, text), x, u->o.norm_groups, 0);
    return flxi_nn_activate(u->g, x, u->o.activation);
}

flx_val flx_nn_unet_down(flx_graph *g, const char *name, flx_val x, int64_t channels,
                         const flx_nn_unet_options *options, flx_val *skip)
{
    unet u = {g, "flx_nn_unet_down", name, channels, {0}};
    if (skip)
        *skip = FLX_NONE;
    if (!flxi_nn_require(g, skip != NULL, u.function, "there is no room for the value that skips") ||
        !read_unet(&u, options, x))
        return FLX_NONE;
    *skip = part(&u, 2, part(&u, 1, x));
    return flx_nn_max_pool(g, *skip, NULL);
}

flx_val flx_nn_unet_up(flx_graph *g, const char *name, flx_val x, flx_val skip, int64_t channels,
                       const flx_nn_unet_options *options)
{
    unet u = {g, "flx_nn_unet_up", name, channels, {0}};
    char full[FLXI_NN_NAME];
    if (!read_unet(&u, options, x))
        return FLX_NONE;
    const flx_val both[] = {flx_nn_conv_transpose(g, flxi_nn_join(full, name, "up"), x, channels, NULL), skip};
    return part(&u, 2, part(&u, 1, flx_concat(g, both, 2, 1)));
}
