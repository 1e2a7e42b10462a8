/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c: attention, transformer blocks and position encodings. */
#include "nn/layer.h"

#include <math.h>

/* ---- Positions ---- */

static bool check_positions(flx_graph *g, const char *function, int64_t width, double theta)
{
    return flxi_nn_require(g, width > 0 && width % 2 == 0, function, "the width must be even and positive, got %lld",
                           (long long)width) &&
           flxi_nn_require(g, theta >= 0 && isfinite(theta), function, "theta must be a finite number >= 0, got %g",
                           theta);
}

/* [length, count] of p * theta^(-2i / (2 count)). */
static flx_val angles(flx_graph *g, flx_dim length, int64_t count, double theta, flx_dtype dtype)
{
    flx_type rows = flx_type_make(dtype, 1, &length), columns = flx_type_make(dtype, 1, &count);
    flx_val p = flx_iota(g, &rows, FLX_DEFAULT), i = flx_iota(g, &columns, FLX_DEFAULT);
    double step = -log(theta > 0 ? theta : 10000.0) / (count > 0 ? (double)count : 1.0);
    flx_val f = flx_exp(g, flx_mul(g, i, flxi_nn_number(g, i, step)));
    return flx_mul(g, flx_unsqueeze(g, p, FLX_INTS(1)), f);
}

flx_val flx_nn_sinusoids(flx_graph *g, flx_dim length, int64_t width, double theta, flx_dtype dtype)
{
    if (!check_positions(g, "flx_nn_sinusoids", width, theta))
        return FLX_NONE;
    flx_val a = angles(g, length, width / 2, theta, dtype);
    const flx_val pair[] = {flx_sin(g, a), flx_cos(g, a)};
    const flx_dim dims[] = {length, width};
    return flx_reshape(g, flx_stack(g, pair, 2, 2), (flx_ints){dims, 2});
}

void flx_nn_rope_tables(flx_graph *g, flx_dim length, int64_t head_dim, double theta, flx_dtype dtype, flx_val *cosines,
                        flx_val *sines)
{
    if (cosines)
        *cosines = FLX_NONE;
    if (sines)
        *sines = FLX_NONE;
    if (!flxi_nn_require(g, cosines && sines, "flx_nn_rope_tables", "a place for the cosines or the sines is NULL") ||
        !check_positions(g, "flx_nn_rope_tables", head_dim, theta))
        return;
    flx_val a = angles(g, length, head_dim / 2, theta, dtype);
    *cosines = flx_cos(g, a);
    *sines = flx_sin(g, a);
}

/* ---- Attention ---- */

typedef struct {
    flx_graph *g;
    const char *name;
    const flx_nn_attention_options *o;
    int64_t head_dim, kv_heads;
} attention;

static flx_val project(const attention *a, const char *part, flx_val x, int64_t units)
{
    char full[FLXI_NN_NAME];
    flxi_nn_join(full, a->name, part);
    return a->o->no_bias ? flx_nn_project(a->g, full, x, units) : flx_nn_linear(a->g, full, x, units, NULL);
}

/* [N, S, heads * head_dim], rotated by the positions. */
static flx_val rotated(const attention *a, flx_val x, int64_t heads)
{
    flx_val cosines, sines;
    const flx_type *t = flxi_nn_type(a->g, x);
    if (a->o->rope_theta == 0)
        return x;
    flx_nn_rope_tables(a->g, t->dims[t->rank > 1], a->head_dim, a->o->rope_theta, flxi_nn_dtype(a->g, x), &cosines,
                       &sines);
    return flx_rope(a->g, x, cosines, sines, "bsd", a->head_dim, FLX_DEFAULT, heads);
}

static bool check_attention(flx_graph *g, const char *name, flx_dim width, const flx_nn_attention_options *o)
{
    static const char function[] = "flx_nn_attention";
    int64_t heads = o->heads ? o->heads : 1, kv_heads = o->kv_heads ? o->kv_heads : heads;
    return flxi_nn_require(g, name != NULL, function, "the name of the layer is NULL") &&
           flxi_nn_require(g, o->heads >= 0 && o->kv_heads >= 0 && o->head_dim >= 0 && o->window >= 0, function,
                           "heads %lld, kv_heads %lld, head_dim %lld, window %lld: none may be negative",
                           (long long)o->heads, (long long)o->kv_heads, (long long)o->head_dim, (long long)o->window) &&
           flxi_nn_require(g, o->head_dim || (flx_dim_is_static(width) && width % heads == 0), function,
                           "%lld heads do not divide the width of x: give head_dim", (long long)heads) &&
           flxi_nn_require(g, heads % kv_heads == 0, function, "%lld kv_heads do not divide %lld heads",
                           (long long)kv_heads, (long long)heads) &&
           flxi_nn_require(g, o->rope_theta >= 0 && isfinite(o->rope_theta), function,
                           "rope_theta must be a finite number >= 0, got %g", o->rope_theta);
}

flx_val flx_nn_attention(flx_graph *g, const char *name, flx_val x, flx_val context,
                         const flx_nn_attention_options *options)
{
    flx_nn_attention_options o;
    FLXI_NN_READ(g, flx_nn_attention_options, &o, options);
    if (!check_attention(g, name, flxi_nn_width(g, x), &o))
        return FLX_NONE;
    attention a = {g, name, &o, 0, 0};
    flx_val from = context.id ? context : x;
    flx_dim width = flxi_nn_width(g, x);
    int64_t heads = a.o->heads > 0 ? a.o->heads : 1;
    a.head_dim = a.o->head_dim ? a.o->head_dim : width / heads;
    a.kv_heads = a.o->kv_heads ? a.o->kv_heads : heads;
    flx_val q = rotated(&a, project(&a, "q", x, heads * a.head_dim), heads);
    flx_val k = rotated(&a, project(&a, "k", from, a.kv_heads * a.head_dim), a.kv_heads);
    flx_val v = project(&a, "v", from, a.kv_heads * a.head_dim);
    flx_attention_attrs attrs = FLX_ATTENTION_ATTRS;
    attrs.layout = "bsd";
    attrs.num_heads = heads;
    attrs.num_kv_heads = a.kv_heads;
    attrs.head_dim = a.head_dim;
    attrs.mask_kind = a.o->mask_kind;
    attrs.window = a.o->window ? a.o->window : FLX_DEFAULT;
    return project(&a, "o", flx_attention_with(g, q, k, v, a.o->mask, &attrs), width);
}

/* ---- Blocks ---- */

typedef struct {
    flx_graph *g;
    const char *name;
    const flx_nn_block_options *o;
    flx_nn_attention_options attention;
} block;

static flx_val norm(const block *b, const char *part, flx_val x)
{
    char full[FLXI_NN_NAME];
    double eps = b->o->eps == 0 ? 1e-5 : b->o->eps;
    flxi_nn_join(full, b->name, part);
    return b->o->is_rms ? flx_nn_rms_norm(b->g, full, x, eps) : flx_nn_layer_norm(b->g, full, x, eps);
}

static flx_val attend(const block *b, flx_val x)
{
    char full[FLXI_NN_NAME];
    return flx_nn_attention(b->g, flxi_nn_join(full, b->name, "attention"), x, FLX_NONE, &b->attention);
}

static flx_val linear_part(const block *b, const char *part, flx_val x, int64_t units, const char *activation)
{
    char full[FLXI_NN_NAME];
    flxi_nn_join(full, b->name, part);
    if (!b->attention.no_bias)
        return flx_nn_linear(b->g, full, x, units, activation);
    return flxi_nn_activate(b->g, flx_nn_project(b->g, full, x, units), activation);
}

static flx_val feed_forward(const block *b, flx_val x)
{
    flx_dim width = flxi_nn_width(b->g, x);
    int64_t hidden = b->o->hidden ? b->o->hidden : flx_dim_is_static(width) ? 4 * width : 0;
    const char *activation = b->o->activation ? b->o->activation : "gelu";
    flx_val up = linear_part(b, "up", x, hidden, b->o->is_gated ? NULL : activation);
    if (b->o->is_gated)
        up = flx_mul(b->g, linear_part(b, "gate", x, hidden, activation), up);
    return linear_part(b, "down", up, width, NULL);
}

flx_val flx_nn_transformer_block(flx_graph *g, const char *name, flx_val x, const flx_nn_block_options *options)
{
    flx_nn_block_options o;
    FLXI_NN_READ(g, flx_nn_block_options, &o, options);
    block b = {.g = g, .name = name, .o = &o};
    if (!flxi_nn_require(g, name != NULL, "flx_nn_transformer_block", "the name of the layer is NULL") ||
        !flxi_nn_require(g, o.hidden >= 0, "flx_nn_transformer_block", "hidden must not be negative, got %lld",
                         (long long)o.hidden) ||
        !flxi_nn_check_eps(g, "flx_nn_transformer_block", o.eps) ||
        !flxi_nn_check_activation(g, "flx_nn_transformer_block", o.activation))
        return FLX_NONE;
    FLXI_NN_READ(g, flx_nn_attention_options, &b.attention, o.attention);
    if (b.o->is_post_norm) {
        x = norm(&b, "norm1", flx_add(g, x, attend(&b, x)));
        return norm(&b, "norm2", flx_add(g, x, feed_forward(&b, x)));
    }
    x = flx_add(g, x, attend(&b, norm(&b, "norm1", x)));
    return flx_add(g, x, feed_forward(&b, norm(&b, "norm2", x)));
}
