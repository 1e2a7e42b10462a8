/* SPDX-License-Identifier: Apache-2.0 */
/* gpt.c: a whole decoder of tokens: rotary positions, rms norms, gated networks, no biases. It is built in two ways
   with the same parameters: for many tokens at once, as training needs it, and as a step that keeps what it has seen in
   states, so that each new token costs the same. */
#include "nn/layer.h"

#include <stdio.h>
#include <string.h>

static const char function[] = "flx_nn_gpt";

typedef struct {
    flx_graph *g;
    const char *name;
    flx_nn_gpt_options o;
    flx_dim examples;
} decoder;

static bool check_dtype(decoder *d)
{
    flx_nn_gpt_options *o = &d->o;
    o->dtype = o->dtype ? o->dtype : FLX_F32;
    bool is_float = o->dtype == FLX_F32 || o->dtype == FLX_F64 || o->dtype == FLX_F16 || o->dtype == FLX_BF16;
    return flxi_nn_require(d->g, is_float, function, "the dtype must be a real float, got %d (%s)", (int)o->dtype,
                           flx_dtype_name(o->dtype)) &&
           flxi_nn_require(d->g, o->reserved == 0, function, "reserved is %d, must be 0", (int)o->reserved);
}

static bool check(decoder *d, flx_val tokens)
{
    flx_nn_gpt_options *o = &d->o;
    flx_graph *g = d->g;
    flxi_nn_type_text text;
    if (!flxi_nn_check_name(g, function, d->name) ||
        !flxi_nn_require(g, o->vocabulary >= 0 && o->width >= 0 && o->layers >= 0 && o->heads >= 0 && o->context >= 0,
                         function,
                         "vocabulary %lld, width %lld, layers %lld, heads %lld, context %lld: none may be negative",
                         (long long)o->vocabulary, (long long)o->width, (long long)o->layers, (long long)o->heads,
                         (long long)o->context) ||
        !flxi_nn_require_shape(g, flxi_nn_is_integer(g, tokens) && flxi_nn_type(g, tokens)->rank == 2,
                               "tokens are integers [N, S]", function, "tokens are %s", flxi_nn_text(g, tokens, &text)))
        return false;
    o->vocabulary = o->vocabulary ? o->vocabulary : 256;
    o->width = o->width ? o->width : 96;
    o->layers = o->layers ? o->layers : 3;
    o->heads = o->heads ? o->heads : 4;
    o->context = o->context ? o->context : 64;
    d->examples = flxi_nn_type(g, tokens)->dims[0];
    return check_dtype(d) &&
           flxi_nn_require(g, !o->is_decoding || flx_dim_is_static(d->examples), function,
                           "a decoder with states needs a number of texts that is known, such as 1") &&
           flxi_nn_require(g, o->layers <= 1000, function, "layers must be at most 1000, got %lld",
                           (long long)o->layers) &&
           flxi_nn_require(g, o->width % o->heads == 0 && o->width / o->heads % 2 == 0, function,
                           "the width, %lld, must be %lld heads times an even number", (long long)o->width,
                           (long long)o->heads);
}

/* The name of a part; that of the decoder precedes it unless it is empty. */
static const char *part_name(const decoder *d, char buffer[FLXI_NN_NAME], const char *part)
{
    if (d->name[0])
        return flxi_nn_join(buffer, d->name, part);
    snprintf(buffer, FLXI_NN_NAME, "%s", part);
    return buffer;
}

static flx_val state(const decoder *d, const char *part, flx_dtype dtype, const flx_dim *dims, int rank)
{
    char full[FLXI_NN_NAME];
    flx_type type = flx_type_make(dtype, rank, dims);
    return flx_set_init(d->g, flx_param(d->g, part_name(d, full, part), &type), flxi_nn_zeros());
}

static flx_val cache_of(const decoder *d, const char *kind, int64_t layer)
{
    char part[40];
    const flx_dim dims[] = {d->examples, d->o.context, d->o.width};
    snprintf(part, sizeof part, "%s%d", kind, (int)layer);
    return state(d, part, (flx_dtype)d->o.dtype, dims, 3);
}

static flx_val add_block(const decoder *d, int64_t layer, flx_val x, flx_val position)
{
    char full[FLXI_NN_NAME], part[40];
    flx_nn_cache cache = {FLX_NONE, FLX_NONE}, before;
    if (d->o.is_decoding)
        cache = (flx_nn_cache){cache_of(d, "keys", layer), cache_of(d, "values", layer)};
    before = cache;
    const flx_nn_attention_options attention = {.struct_size = sizeof attention,
                                                .no_bias = 1,
                                                .heads = d->o.heads,
                                                .mask_kind = "causal",
                                                .rope_theta = 10000,
                                                .position = position,
                                                .cache = d->o.is_decoding ? &cache : NULL};
    const flx_nn_block_options block = {.struct_size = sizeof block,
                                        .is_rms = 1,
                                        .is_gated = 1,
                                        .hidden = 2 * d->o.width,
                                        .activation = "silu",
                                        .attention = &attention};
    snprintf(part, sizeof part, "block%d", (int)layer);
    x = flx_nn_transformer_block(d->g, part_name(d, full, part), x, &block);
    if (d->o.is_decoding) {
        flxi_nn_update(d->g, before.keys, cache.keys);
        flxi_nn_update(d->g, before.values, cache.values);
    }
    return x;
}

flx_val flx_nn_gpt(flx_graph *g, const char *name, flx_val tokens, const flx_nn_gpt_options *options)
{
    decoder d = {.g = g, .name = name};
    char full[FLXI_NN_NAME];
    flx_val position = FLX_NONE;
    FLXI_NN_READ(g, flx_nn_gpt_options, &d.o, options);
    if (!check(&d, tokens))
        return FLX_NONE;
    flx_val x =
        flx_nn_embedding(g, part_name(&d, full, "tokens"), tokens, d.o.vocabulary, d.o.width, (flx_dtype)d.o.dtype);
    if (d.o.is_decoding)
        position = state(&d, "position", FLX_I64, NULL, 0);
    for (int64_t i = 0; i < d.o.layers; i++)
        x = add_block(&d, i, x, position);
    if (d.o.is_decoding)
        flxi_nn_update(g, position, flx_add(g, position, flx_dim_size(g, tokens, 1)));
    x = flx_nn_rms_norm(g, part_name(&d, full, "norm"), x, 0);
    return flx_nn_project(g, part_name(&d, full, "head"), x, d.o.vocabulary);
}
