/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c: attention with and without a cache, transformer blocks, mixtures of experts and position encodings. */
#include "nn/layer.h"

#include <math.h>
#include <string.h>

/* ---- Positions ---- */

static bool check_positions(flx_graph *g, const char *function, int64_t width, double theta)
{
    return flxi_nn_require(g, width > 0 && width % 2 == 0, function, "the width must be even and positive, got %lld",
                           (long long)width) &&
           flxi_nn_require(g, theta >= 0 && isfinite(theta), function, "theta must be a finite number >= 0, got %g",
                           theta);
}

/* An integer scalar, or none. */
static bool check_position(flx_graph *g, const char *function, flx_val position)
{
    flxi_nn_type_text text;
    return !position.id ||
           flxi_nn_require(g, flxi_nn_is_integer(g, position) && flxi_nn_type(g, position)->rank == 0, function,
                           "the position must be an integer scalar, not %s", flxi_nn_text(g, position, &text));
}

/* [length, count] of p * theta^(-2i / (2 count)). */
static flx_val angles(flx_graph *g, flx_dim length, flx_val position, int64_t count, double theta, flx_dtype dtype)
{
    flx_type rows = flx_type_make(dtype, 1, &length), columns = flx_type_make(dtype, 1, &count);
    flx_val p = flx_iota(g, &rows, FLX_DEFAULT), i = flx_iota(g, &columns, FLX_DEFAULT);
    if (position.id)
        p = flx_add(g, p, flx_cast(g, position, dtype));
    double step = -log(theta > 0 ? theta : 10000.0) / (count > 0 ? (double)count : 1.0);
    flx_val f = flx_exp(g, flx_mul(g, i, flxi_nn_number(g, i, step)));
    return flx_mul(g, flx_unsqueeze(g, p, FLX_INTS(1)), f);
}

flx_val flx_nn_sinusoids(flx_graph *g, flx_dim length, int64_t width, double theta, flx_dtype dtype)
{
    if (!check_positions(g, "flx_nn_sinusoids", width, theta))
        return FLX_NONE;
    flx_val a = angles(g, length, FLX_NONE, width / 2, theta, dtype);
    const flx_val pair[] = {flx_sin(g, a), flx_cos(g, a)};
    const flx_dim dims[] = {length, width};
    return flx_reshape(g, flx_stack(g, pair, 2, 2), (flx_ints){dims, 2});
}

void flx_nn_rope_tables(flx_graph *g, flx_dim length, flx_val position, int64_t head_dim, double theta, flx_dtype dtype,
                        flx_val *cosines, flx_val *sines)
{
    static const char function[] = "flx_nn_rope_tables";
    if (cosines)
        *cosines = FLX_NONE;
    if (sines)
        *sines = FLX_NONE;
    if (!flxi_nn_require(g, cosines && sines, function, "a place for the cosines or the sines is NULL") ||
        !check_positions(g, function, head_dim, theta) || !check_position(g, function, position))
        return;
    flx_val a = angles(g, length, position, head_dim / 2, theta, dtype);
    *cosines = flx_cos(g, a);
    *sines = flx_sin(g, a);
}

/* ---- Attention ---- */

typedef struct {
    flx_graph *g;
    const char *name;
    const flx_nn_attention_options *o;
    int64_t heads, kv_heads, head_dim;
} attention;

static flx_val project(const attention *a, const char *part, flx_val x, int64_t units)
{
    char full[FLXI_NN_NAME];
    flxi_nn_join(full, a->name, part);
    return a->o->no_bias ? flx_nn_project(a->g, full, x, units) : flx_nn_linear(a->g, full, x, units, NULL);
}

static flx_dim tokens_of(const attention *a, flx_val x)
{
    const flx_type *t = flxi_nn_type(a->g, x);
    return t->dims[t->rank > 1];
}

/* [N, S, heads * head_dim], rotated by the positions. */
static flx_val rotated(const attention *a, flx_val x, int64_t heads)
{
    flx_val cosines, sines;
    if (a->o->rope_theta == 0)
        return x;
    flx_nn_rope_tables(a->g, tokens_of(a, x), a->o->position, a->head_dim, a->o->rope_theta, flxi_nn_dtype(a->g, x),
                       &cosines, &sines);
    return flx_rope(a->g, x, cosines, sines, "bsd", a->head_dim, FLX_DEFAULT, heads);
}

static bool is_kind(const attention *a, const char *kind)
{
    return a->o->mask_kind && strcmp(a->o->mask_kind, kind) == 0;
}

/* ---- The cache of keys and values ---- */

static bool check_cache(const attention *a, flx_val x, flx_val context)
{
    static const char function[] = "flx_nn_attention";
    const flx_nn_cache *cache = a->o->cache;
    flx_graph *g = a->g;
    flxi_nn_type_text keys, of_x;
    if (!cache)
        return true;
    const flx_type *k = flxi_nn_type(g, cache->keys), *t = flxi_nn_type(g, x);
    bool is_fit = k->rank == 3 && t->rank == 3 && k->dims[0] == t->dims[0] && k->dtype == t->dtype &&
                  k->dims[2] == a->kv_heads * a->head_dim;
    return flxi_nn_require(g, !context.id, function, "a cache is for attention of x to itself, not to a context") &&
           flxi_nn_require(g, cache->keys.id && cache->values.id, function,
                           "the keys or values of the cache are none") &&
           flxi_nn_require(
               g, !a->o->mask_kind || is_kind(a, "none") || is_kind(a, "causal") || is_kind(a, "sliding_window"),
               function, "a cache takes no mask of kind '%.40s'", a->o->mask_kind) &&
           flxi_nn_require_shape(g, is_fit, "keys and values are [N, capacity, kv_heads * head_dim], of x's dtype",
                                 function, "the keys of the cache, %s, do not fit x, %s, with %lld heads of %lld",
                                 flxi_nn_text(g, cache->keys, &keys), flxi_nn_text(g, x, &of_x), (long long)a->kv_heads,
                                 (long long)a->head_dim) &&
           flxi_nn_check_same(g, function, cache->keys, cache->values);
}

/* i64 scalar: the position of the first token. */
static flx_val first_position(const attention *a)
{
    return a->o->position.id ? flx_cast(a->g, a->o->position, FLX_I64) : flx_scalar(a->g, FLX_I64, 0);
}

static flx_val put(const attention *a, flx_val cache, flx_val tokens)
{
    flx_val zero = flx_scalar(a->g, FLX_I64, 0);
    const flx_val operands[] = {cache, tokens, zero, first_position(a), zero};
    return flx_dynamic_update_slice(a->g, operands, 5);
}

/* bool [1, 1, S or 1, capacity]: which keys of the cache the tokens attend to. */
static flx_val filled(const attention *a, flx_val x, flx_val keys)
{
    flx_graph *g = a->g;
    const flx_dim dims[] = {tokens_of(a, x), tokens_of(a, keys)};
    flx_type rows = flx_type_make(FLX_I64, 1, dims), columns = flx_type_make(FLX_I64, 1, dims + 1);
    flx_val token = flx_unsqueeze(g, flx_add(g, flx_iota(g, &rows, FLX_DEFAULT), first_position(a)), FLX_INTS(1));
    flx_val key = flx_unsqueeze(g, flx_iota(g, &columns, FLX_DEFAULT), FLX_INTS(0));
    flx_val last = flx_add(g, first_position(a), flx_sub(g, flx_dim_size(g, x, 1), flx_scalar(g, FLX_I64, 1)));
    bool is_ordered = is_kind(a, "causal") || is_kind(a, "sliding_window");
    flx_val allowed = flx_le(g, key, is_ordered ? token : last);
    if (is_kind(a, "sliding_window"))
        allowed = flx_and(g, allowed, flx_ge(g, key, flx_sub(g, token, flx_scalar(g, FLX_I64, (double)a->o->window))));
    return flx_unsqueeze(g, allowed, FLX_INTS(0, 1));
}

/* ---- The layer ---- */

static bool check_attention(flx_graph *g, const char *name, flx_dim width, const flx_nn_attention_options *o)
{
    static const char function[] = "flx_nn_attention";
    int64_t heads = o->heads ? o->heads : 1, kv_heads = o->kv_heads ? o->kv_heads : heads;
    return flxi_nn_check_name(g, function, name) &&
           flxi_nn_require(g, o->heads >= 0 && o->kv_heads >= 0 && o->head_dim >= 0 && o->window >= 0, function,
                           "heads %lld, kv_heads %lld, head_dim %lld, window %lld: none may be negative",
                           (long long)o->heads, (long long)o->kv_heads, (long long)o->head_dim, (long long)o->window) &&
           flxi_nn_require(g, o->head_dim || (flx_dim_is_static(width) && width % heads == 0), function,
                           "%lld heads do not divide the width of x: give head_dim", (long long)heads) &&
           flxi_nn_require(g, heads % kv_heads == 0, function, "%lld kv_heads do not divide %lld heads",
                           (long long)kv_heads, (long long)heads) &&
           flxi_nn_require(g, o->rope_theta >= 0 && isfinite(o->rope_theta), function,
                           "rope_theta must be a finite number >= 0, got %g", o->rope_theta) &&
           check_position(g, function, o->position);
}

flx_val flx_nn_attention(flx_graph *g, const char *name, flx_val x, flx_val context,
                         const flx_nn_attention_options *options)
{
    flx_nn_attention_options o;
    FLXI_NN_READ(g, flx_nn_attention_options, &o, options);
    if (!check_attention(g, name, flxi_nn_width(g, x), &o))
        return FLX_NONE;
    flx_dim width = flxi_nn_width(g, x);
    attention a = {g, name, &o, o.heads > 0 ? o.heads : 1, 0, 0};
    a.head_dim = o.head_dim ? o.head_dim : width / a.heads;
    a.kv_heads = o.kv_heads ? o.kv_heads : a.heads;
    if (!check_cache(&a, x, context))
        return FLX_NONE;
    flx_val from = context.id ? context : x, mask = o.mask;
    flx_val q = rotated(&a, project(&a, "q", x, a.heads * a.head_dim), a.heads);
    flx_val k = rotated(&a, project(&a, "k", from, a.kv_heads * a.head_dim), a.kv_heads);
    flx_val v = project(&a, "v", from, a.kv_heads * a.head_dim);
    flx_attention_attrs attrs = FLX_ATTENTION_ATTRS;
    attrs.layout = "bsd";
    attrs.num_heads = a.heads;
    attrs.num_kv_heads = a.kv_heads;
    attrs.head_dim = a.head_dim;
    attrs.mask_kind = o.mask_kind;
    attrs.window = o.window ? o.window : FLX_DEFAULT;
    if (o.cache) {
        k = o.cache->keys = put(&a, o.cache->keys, k);
        v = o.cache->values = put(&a, o.cache->values, v);
        mask = filled(&a, x, k);
        attrs.mask_kind = "custom";
        attrs.window = FLX_DEFAULT;
    }
    return project(&a, "o", flx_attention_with(g, q, k, v, mask, &attrs), width);
}

/* ---- Blocks ---- */

typedef struct {
    flx_graph *g;
    const char *name;
    const flx_nn_block_options *o;
    flx_nn_attention_options attention, cross;
    int num_dropouts;
} block;

static flx_val norm(const block *b, const char *part, flx_val x)
{
    char full[FLXI_NN_NAME];
    flxi_nn_join(full, b->name, part);
    return b->o->is_rms ? flx_nn_rms_norm(b->g, full, x, b->o->eps) : flx_nn_layer_norm(b->g, full, x, b->o->eps);
}

static flx_val attend(const block *b, flx_val x)
{
    char full[FLXI_NN_NAME];
    return flx_nn_attention(b->g, flxi_nn_join(full, b->name, "attention"), x, FLX_NONE, &b->attention);
}

static flx_val attend_to_context(const block *b, flx_val x)
{
    char full[FLXI_NN_NAME];
    return flx_nn_attention(b->g, flxi_nn_join(full, b->name, "cross"), x, b->o->context, &b->cross);
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

/* The sum of x and of a part of the block applied to it, with the norm before the part or after the sum. */
static flx_val with_part(block *b, const char *norm_name, flx_val x, flx_val (*part)(const block *b, flx_val x))
{
    flx_val y = part(b, b->o->is_post_norm ? x : norm(b, norm_name, x));
    if (b->o->key.id && b->o->dropout > 0) { /* each with bits of its own */
        flx_val key = flx_rng_fold_in(b->g, b->o->key, flx_scalar(b->g, FLX_I64, b->num_dropouts++));
        y = flx_nn_dropout(b->g, y, key, b->o->dropout);
    }
    y = flx_add(b->g, x, y);
    return b->o->is_post_norm ? norm(b, norm_name, y) : y;
}

static bool check_block(flx_graph *g, const char *name, const flx_nn_block_options *o)
{
    static const char function[] = "flx_nn_transformer_block";
    return flxi_nn_check_name(g, function, name) &&
           flxi_nn_require(g, o->hidden >= 0, function, "hidden must not be negative, got %lld",
                           (long long)o->hidden) &&
           flxi_nn_check_eps(g, function, o->eps) && flxi_nn_check_activation(g, function, o->activation) &&
           flxi_nn_require(g, o->dropout >= 0 && o->dropout <= 1, function, "dropout must be in [0, 1], got %g",
                           o->dropout) &&
           flxi_nn_require(g, o->context.id || !o->cross, function, "cross is given, but no context");
}

flx_val flx_nn_transformer_block(flx_graph *g, const char *name, flx_val x, const flx_nn_block_options *options)
{
    flx_nn_block_options o;
    FLXI_NN_READ(g, flx_nn_block_options, &o, options);
    block b = {.g = g, .name = name, .o = &o};
    if (!check_block(g, name, &o))
        return FLX_NONE;
    FLXI_NN_READ(g, flx_nn_attention_options, &b.attention, o.attention);
    if (o.cross)
        FLXI_NN_READ(g, flx_nn_attention_options, &b.cross, o.cross);
    else
        b.cross = (flx_nn_attention_options){.no_bias = b.attention.no_bias,
                                             .heads = b.attention.heads,
                                             .kv_heads = b.attention.kv_heads,
                                             .head_dim = b.attention.head_dim};
    x = with_part(&b, "norm1", x, attend);
    if (o.context.id)
        x = with_part(&b, "norm2", x, attend_to_context);
    return with_part(&b, o.context.id ? "norm3" : "norm2", x, feed_forward);
}
