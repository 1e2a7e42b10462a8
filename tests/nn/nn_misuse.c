/* SPDX-License-Identifier: Apache-2.0 */
/* nn_misuse.c: every function of nn.h with arguments that it does not accept. The graph keeps the error, and no call
   with a wrong argument builds anything. A test reads the header and fails for a function without a row. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    flx_graph *g;
    flx_val x;      /* f32[2, 3, 4] */
    flx_val y;      /* f32[3, 4] */
    flx_val image;  /* f32[1, 4, 5, 5] */
    flx_val labels; /* i32[2, 2] */
    flx_val length; /* i32[2] */
    flx_val key;    /* u32[2] */
} inputs;

static flx_val input(flx_graph *g, const char *name, flx_dtype dtype, int rank, const flx_dim *dims)
{
    const flx_type type = flx_type_make(dtype, rank, dims);
    return flx_input(g, name, &type);
}

static inputs begin(flx_context *ctx)
{
    inputs i = {.g = flx_graph_new(ctx, "layer")};
    i.x = input(i.g, "x", FLX_F32, 3, (flx_dim[]){2, 3, 4});
    i.y = input(i.g, "y", FLX_F32, 2, (flx_dim[]){3, 4});
    i.image = input(i.g, "image", FLX_F32, 4, (flx_dim[]){1, 4, 5, 5});
    i.labels = input(i.g, "labels", FLX_I32, 2, (flx_dim[]){2, 2});
    i.length = input(i.g, "length", FLX_I32, 1, (flx_dim[]){2});
    i.key = input(i.g, "key", FLX_U32, 1, (flx_dim[]){2});
    return i;
}

typedef void (*build_fn)(const inputs *i);

typedef struct {
    const char *what; /* begins with the function */
    flx_code code;
    build_fn build;
} row;

/* ROW(name of the row's function, code, call) */
#define BUILD(name, call)             \
    static void name(const inputs *i) \
    {                                 \
        flx_val v = call;             \
        CHECK(v.id == 0);             \
    }

static const int64_t two_units[] = {3, 2}, bad_units[] = {3, 0};
static flx_val last;

BUILD(linear_name, flx_nn_linear(i->g, NULL, i->x, 3, NULL))
BUILD(linear_units, flx_nn_linear(i->g, "l", i->x, -2, NULL))
BUILD(linear_none, flx_nn_linear(i->g, "l", i->x, 0, NULL))
BUILD(linear_unknown, flx_nn_linear(i->g, "l", i->x, 3, "frobnicate"))
BUILD(linear_binary, flx_nn_linear(i->g, "l", i->x, 3, "add"))
BUILD(linear_empty, flx_nn_linear(i->g, "l", i->x, 3, ""))
BUILD(project_name, flx_nn_project(i->g, NULL, i->x, 3))
BUILD(project_units, flx_nn_project(i->g, "l", i->x, -1))
BUILD(mlp_name, flx_nn_mlp(i->g, NULL, i->x, two_units, 2, "relu"))
BUILD(mlp_list, flx_nn_mlp(i->g, "m", i->x, NULL, 2, "relu"))
BUILD(mlp_count, flx_nn_mlp(i->g, "m", i->x, two_units, 0, "relu"))
BUILD(mlp_units, flx_nn_mlp(i->g, "m", i->x, bad_units, 2, "relu"))
BUILD(mlp_unused, flx_nn_mlp(i->g, "m", i->x, two_units, 1, "frobnicate"))
BUILD(layer_norm_name, flx_nn_layer_norm(i->g, NULL, i->x, 1e-5))
BUILD(layer_norm_eps, flx_nn_layer_norm(i->g, "n", i->x, -1))
BUILD(layer_norm_nan, flx_nn_layer_norm(i->g, "n", i->x, NAN))
BUILD(rms_norm_name, flx_nn_rms_norm(i->g, NULL, i->x, 1e-5))
BUILD(rms_norm_inf, flx_nn_rms_norm(i->g, "n", i->x, INFINITY))
BUILD(rms_norm_nan, flx_nn_rms_norm(i->g, "n", i->x, NAN))
BUILD(embedding_name, flx_nn_embedding(i->g, NULL, i->labels, 10, 4, FLX_F32))
BUILD(embedding_count, flx_nn_embedding(i->g, "e", i->labels, 0, 4, FLX_F32))
BUILD(embedding_width, flx_nn_embedding(i->g, "e", i->labels, 10, -4, FLX_F32))
BUILD(embedding_dtype, flx_nn_embedding(i->g, "e", i->labels, 10, 4, FLX_DTYPE_NONE))
BUILD(embedding_float, flx_nn_embedding(i->g, "e", i->x, 10, 4, FLX_F32))
BUILD(dropout_rate, flx_nn_dropout(i->g, i->x, i->key, 1.5))
BUILD(dropout_negative, flx_nn_dropout(i->g, i->x, i->key, -0.5))
BUILD(dropout_nan, flx_nn_dropout(i->g, i->x, i->key, NAN))

BUILD(activate_unknown, flx_nn_activate(i->g, i->x, "frobnicate"))
BUILD(activate_binary, flx_nn_activate(i->g, i->x, "mul"))
BUILD(key_name, flx_nn_key(i->g, NULL))

static const int64_t three_numbers[] = {1, 2, 3}, minus_one[] = {-1}, zero[] = {0}, low_high[] = {0, 0, 0, -1};
#define LIST(v)                      \
    {                                \
        (v), sizeof(v) / sizeof *(v) \
    }
#define CONV(...) flx_nn_conv(i->g, "c", i->image, 4, &(flx_nn_conv_options){__VA_ARGS__})
BUILD(conv_name, flx_nn_conv(i->g, NULL, i->image, 4, NULL))
BUILD(conv_channels, flx_nn_conv(i->g, "c", i->image, 0, NULL))
BUILD(conv_rank, flx_nn_conv(i->g, "c", i->y, 4, NULL))
BUILD(conv_kernel, CONV(.kernel = LIST(zero)))
BUILD(conv_list, CONV(.kernel = LIST(three_numbers)))
BUILD(conv_stride, CONV(.stride = LIST(minus_one)))
BUILD(conv_dilation, CONV(.dilation = LIST(zero)))
BUILD(conv_padding, CONV(.padding = LIST(minus_one)))
BUILD(conv_pairs, CONV(.padding = LIST(low_high)))
BUILD(conv_extra, CONV(.extra = LIST(zero)))
BUILD(conv_groups, CONV(.groups = -1))
BUILD(conv_uneven, CONV(.groups = 3))
BUILD(conv_activation, CONV(.activation = "frobnicate"))
BUILD(conv_of_x, flx_nn_conv(i->g, "c", i->image, 6, &(flx_nn_conv_options){.groups = 3}))
#define ENLARGE(...) flx_nn_conv_transpose(i->g, "c", i->image, 4, &(flx_nn_conv_options){__VA_ARGS__})
BUILD(transpose_name, flx_nn_conv_transpose(i->g, NULL, i->image, 4, NULL))
BUILD(transpose_channels, flx_nn_conv_transpose(i->g, "c", i->image, -4, NULL))
BUILD(transpose_extra, ENLARGE(.extra = LIST(minus_one)))
BUILD(transpose_groups, ENLARGE(.groups = 3))

#define POOL(...) (&(flx_nn_pool_options){__VA_ARGS__})
BUILD(max_pool_rank, flx_nn_max_pool(i->g, i->y, NULL))
BUILD(max_pool_kernel, flx_nn_max_pool(i->g, i->image, POOL(.kernel = LIST(zero))))
BUILD(max_pool_padding, flx_nn_max_pool(i->g, i->image, POOL(.padding = LIST(two_units))))
BUILD(avg_pool_stride, flx_nn_avg_pool(i->g, i->image, POOL(.stride = LIST(minus_one))))
BUILD(avg_pool_list, flx_nn_avg_pool(i->g, i->image, POOL(.stride = LIST(three_numbers))))
BUILD(adaptive_none, flx_nn_adaptive_avg_pool(i->g, i->image, (flx_ints){0, 0}))
BUILD(adaptive_zero, flx_nn_adaptive_avg_pool(i->g, i->image, (flx_ints){zero, 1}))
BUILD(adaptive_rank, flx_nn_adaptive_avg_pool(i->g, i->y, (flx_ints){two_units, 1}))
BUILD(global_avg_rank, flx_nn_global_avg_pool(i->g, i->y))
BUILD(global_max_rank, flx_nn_global_max_pool(i->g, i->y))

#define UNET(...) (&(flx_nn_unet_options){__VA_ARGS__})
BUILD(down_name, flx_nn_unet_down(i->g, NULL, i->image, 4, NULL, &last))
BUILD(down_skip, flx_nn_unet_down(i->g, "u", i->image, 4, NULL, NULL))
BUILD(down_groups, flx_nn_unet_down(i->g, "u", i->image, 4, UNET(.norm_groups = 3), &last))
BUILD(down_negative, flx_nn_unet_down(i->g, "u", i->image, 4, UNET(.norm_groups = -1), &last))
BUILD(down_reserved, flx_nn_unet_down(i->g, "u", i->image, 4, UNET(.reserved = 1), &last))
BUILD(up_name, flx_nn_unet_up(i->g, NULL, i->image, i->image, 4, NULL))
BUILD(up_activation, flx_nn_unet_up(i->g, "u", i->image, i->image, 4, UNET(.activation = "frobnicate")))
BUILD(up_shapes, flx_nn_unet_up(i->g, "u", i->image, i->image, 4, NULL))

BUILD(group_norm_name, flx_nn_group_norm(i->g, NULL, i->image, 2, 0))
BUILD(group_norm_groups, flx_nn_group_norm(i->g, "n", i->image, 3, 0))
BUILD(group_norm_zero, flx_nn_group_norm(i->g, "n", i->image, 0, 0))
BUILD(group_norm_rank, flx_nn_group_norm(i->g, "n", i->y, 2, 0))
BUILD(group_norm_eps, flx_nn_group_norm(i->g, "n", i->image, 2, NAN))
BUILD(instance_norm_name, flx_nn_instance_norm(i->g, NULL, i->image, 0))
BUILD(instance_norm_rank, flx_nn_instance_norm(i->g, "n", i->y, 0))
#define BATCH(...) flx_nn_batch_norm(i->g, "n", i->image, &(flx_nn_batch_norm_options){__VA_ARGS__})
BUILD(batch_norm_name, flx_nn_batch_norm(i->g, NULL, i->image, NULL))
BUILD(batch_norm_rank, flx_nn_batch_norm(i->g, "n", i->length, NULL))
BUILD(batch_norm_momentum, BATCH(.momentum = 1.5))
BUILD(batch_norm_nan, BATCH(.momentum = NAN))
BUILD(batch_norm_eps, BATCH(.eps = -1))

#define ATTEND(...) flx_nn_attention(i->g, "a", i->x, FLX_NONE, &(flx_nn_attention_options){__VA_ARGS__})
BUILD(attention_name, flx_nn_attention(i->g, NULL, i->x, FLX_NONE, NULL))
BUILD(attention_heads, ATTEND(.heads = -2))
BUILD(attention_uneven, ATTEND(.heads = 3))
BUILD(attention_kv_heads, ATTEND(.heads = 4, .kv_heads = 3))
BUILD(attention_kv_negative, ATTEND(.heads = 4, .kv_heads = -1))
BUILD(attention_head_dim, ATTEND(.head_dim = -4))
BUILD(attention_window, ATTEND(.mask_kind = "sliding_window", .window = -1))
BUILD(attention_mask_kind, ATTEND(.mask_kind = "frobnicate"))
BUILD(attention_theta, ATTEND(.rope_theta = -1))
BUILD(attention_theta_nan, ATTEND(.rope_theta = NAN))
BUILD(attention_odd, ATTEND(.head_dim = 3, .rope_theta = 100))
BUILD(attention_position, ATTEND(.position = i->length))
BUILD(attention_cache_none, ATTEND(.cache = &(flx_nn_cache){FLX_NONE, FLX_NONE}))
BUILD(attention_cache_shape, ATTEND(.heads = 2, .kv_heads = 1, .cache = &(flx_nn_cache){i->x, i->x}))
BUILD(attention_cache_values, ATTEND(.cache = &(flx_nn_cache){i->x, i->image}))
BUILD(attention_cache_mask, ATTEND(.mask_kind = "custom", .mask = i->x, .cache = &(flx_nn_cache){i->x, i->x}))
BUILD(attention_cache_context,
      flx_nn_attention(i->g, "a", i->x, i->x, &(flx_nn_attention_options){.cache = &(flx_nn_cache){i->x, i->x}}))

#define BLOCK(...) flx_nn_transformer_block(i->g, "b", i->x, &(flx_nn_block_options){__VA_ARGS__})
static const flx_nn_attention_options no_heads = {.heads = -1};
BUILD(block_name, flx_nn_transformer_block(i->g, NULL, i->x, NULL))
BUILD(block_hidden, BLOCK(.hidden = -8))
BUILD(block_eps, BLOCK(.eps = -1))
BUILD(block_eps_nan, BLOCK(.eps = NAN))
BUILD(block_activation, BLOCK(.activation = "frobnicate"))
BUILD(block_attention, BLOCK(.attention = &no_heads))
BUILD(block_cross, BLOCK(.cross = &no_heads))
BUILD(block_cross_heads, BLOCK(.context = i->x, .cross = &no_heads))
BUILD(block_dropout, BLOCK(.dropout = 1.5))

#define GPT(...) flx_nn_gpt(i->g, "", i->labels, &(flx_nn_gpt_options){__VA_ARGS__})
BUILD(gpt_name, flx_nn_gpt(i->g, NULL, i->labels, NULL))
BUILD(gpt_tokens, flx_nn_gpt(i->g, "", i->x, NULL))
BUILD(gpt_heads, GPT(.width = 10, .heads = 3))
BUILD(gpt_negative, GPT(.layers = -1))
BUILD(gpt_dtype, GPT(.struct_size = sizeof(flx_nn_gpt_options), .dtype = FLX_I32))
BUILD(gpt_reserved, GPT(.struct_size = sizeof(flx_nn_gpt_options), .reserved = 1))
#define EXPERTS(...) flx_nn_moe(i->g, "m", i->x, 4, &(flx_nn_moe_options){__VA_ARGS__}, &last)
BUILD(moe_name, flx_nn_moe(i->g, NULL, i->x, 4, NULL, NULL))
BUILD(moe_experts, flx_nn_moe(i->g, "m", i->x, 0, NULL, NULL))
BUILD(moe_top_k, EXPERTS(.top_k = 5))
BUILD(moe_negative, EXPERTS(.top_k = -1))
BUILD(moe_hidden, EXPERTS(.hidden = -1))
BUILD(moe_activation, EXPERTS(.activation = "frobnicate"))

#define MAMBA(...) flx_nn_mamba(i->g, "m", i->x, &(flx_nn_mamba_options){__VA_ARGS__})
BUILD(mamba_name, flx_nn_mamba(i->g, NULL, i->x, NULL))
BUILD(mamba_rank, flx_nn_mamba(i->g, "m", i->y, NULL))
BUILD(mamba_inner, MAMBA(.inner = -1))
BUILD(mamba_states, MAMBA(.states = -1))
BUILD(mamba_reserved, MAMBA(.reserved = 1))

BUILD(sinusoids_odd, flx_nn_sinusoids(i->g, 4, 3, 0, FLX_F32))
BUILD(sinusoids_width, flx_nn_sinusoids(i->g, 4, -2, 0, FLX_F32))
BUILD(sinusoids_theta, flx_nn_sinusoids(i->g, 4, 2, -1, FLX_F32))
BUILD(sinusoids_dtype, flx_nn_sinusoids(i->g, 4, 2, 0, FLX_DTYPE_NONE))

static flx_val rope(flx_graph *g, int64_t width, double theta, bool has_cosines, bool has_sines)
{
    flx_val cosines = {7, 7}, sines = {7, 7};
    flx_nn_rope_tables(g, 4, FLX_NONE, width, theta, FLX_F32, has_cosines ? &cosines : NULL, has_sines ? &sines : NULL);
    return has_cosines ? cosines : sines;
}

BUILD(rope_cosines, rope(i->g, 4, 0, false, true))
BUILD(rope_sines, rope(i->g, 4, 0, true, false))
BUILD(rope_odd, rope(i->g, 3, 0, true, true))
BUILD(rope_theta, rope(i->g, 4, NAN, true, true))

static flx_val rope_at(const inputs *i)
{
    flx_val cosines, sines;
    flx_nn_rope_tables(i->g, 4, i->length, 4, 0, FLX_F32, &cosines, &sines);
    return cosines;
}

BUILD(rope_position, rope_at(i))

static flx_nn_recurrent_state states;
#define LSTM(...) flx_nn_lstm(i->g, "r", i->x, 3, &(flx_nn_recurrent_options){__VA_ARGS__}, &states)
BUILD(rnn_name, flx_nn_rnn(i->g, NULL, i->x, 3, NULL, &states))
BUILD(rnn_units, flx_nn_rnn(i->g, "r", i->x, -3, NULL, &states))
BUILD(rnn_rank, flx_nn_rnn(i->g, "r", i->y, 3, NULL, &states))
BUILD(rnn_cell, flx_nn_rnn(i->g, "r", i->x, 3, &(flx_nn_recurrent_options){.cell = i->x}, NULL))
BUILD(gru_units, flx_nn_gru(i->g, "r", i->x, 0, NULL, NULL))
BUILD(lstm_units, flx_nn_lstm(i->g, "r", i->x, INT64_MAX, NULL, NULL))
BUILD(lstm_layers, LSTM(.layers = -1))
BUILD(lstm_directions, LSTM(.is_bidirectional = 1, .is_reverse = 1))
BUILD(lstm_reserved, LSTM(.reserved = 1))
BUILD(lstm_lengths, LSTM(.lengths = i->labels))
BUILD(lstm_floats, LSTM(.lengths = i->y))
BUILD(lstm_hidden, LSTM(.hidden = i->x))
BUILD(lstm_cell, LSTM(.cell = i->y))

BUILD(mse_shapes, flx_nn_mse(i->g, i->x, i->y))
BUILD(mae_shapes, flx_nn_mae(i->g, i->x, i->y))
BUILD(huber_shapes, flx_nn_huber(i->g, i->x, i->y, 1))
BUILD(huber_delta, flx_nn_huber(i->g, i->x, i->x, 0))
BUILD(huber_nan, flx_nn_huber(i->g, i->x, i->x, NAN))
BUILD(bce_shapes, flx_nn_bce_with_logits(i->g, i->x, i->y))
BUILD(nll_floats, flx_nn_nll(i->g, i->y, i->y))
BUILD(nll_ranks, flx_nn_nll(i->g, i->x, i->length))
BUILD(focal_shapes, flx_nn_focal(i->g, i->x, i->y, 0, 0))
BUILD(focal_alpha, flx_nn_focal(i->g, i->x, i->x, 2, 0))
BUILD(focal_gamma, flx_nn_focal(i->g, i->x, i->x, 0, NAN))
BUILD(dice_shapes, flx_nn_dice(i->g, i->x, i->y, 0))
BUILD(dice_smooth, flx_nn_dice(i->g, i->x, i->x, -1))
BUILD(hinge_shapes, flx_nn_hinge(i->g, i->x, i->y))
BUILD(cosine_shapes, flx_nn_cosine(i->g, i->x, i->y))
BUILD(triplet_shapes, flx_nn_triplet(i->g, i->x, i->x, i->y, 0))
BUILD(triplet_margin, flx_nn_triplet(i->g, i->x, i->x, i->x, -1))
BUILD(contrastive_shapes, flx_nn_contrastive(i->g, i->x, i->y, 1))
BUILD(contrastive_rank, flx_nn_contrastive(i->g, i->x, i->x, 1))
BUILD(contrastive_cold, flx_nn_contrastive(i->g, i->y, i->y, 0))
BUILD(gaussian_shapes, flx_nn_gaussian_nll(i->g, i->x, i->x, i->y, 0))
BUILD(gaussian_eps, flx_nn_gaussian_nll(i->g, i->x, i->x, i->x, -1))
BUILD(poisson_shapes, flx_nn_poisson_nll(i->g, i->x, i->y))
BUILD(kl_shapes, flx_nn_kl(i->g, i->x, i->y))
BUILD(cross_smoothing, flx_nn_cross_entropy(i->g, i->y, i->length, 1.5))
BUILD(cross_negative, flx_nn_cross_entropy(i->g, i->y, i->length, -0.1))
BUILD(cross_nan, flx_nn_cross_entropy(i->g, i->y, i->length, NAN))
BUILD(cross_rank, flx_nn_cross_entropy(i->g, i->x, i->length, 0))
BUILD(cross_shapes, flx_nn_cross_entropy(i->g, i->x, i->labels, 0))
BUILD(ctc_blank, flx_nn_ctc(i->g, i->x, i->labels, i->length, i->length, 4))
BUILD(ctc_negative, flx_nn_ctc(i->g, i->x, i->labels, i->length, i->length, -1))
BUILD(ctc_none, flx_nn_ctc(i->g, i->x, FLX_NONE, i->length, i->length, 0))

static const row rows[] = {
    {"flx_nn_linear, name NULL", FLX_E_USAGE, linear_name},
    {"flx_nn_linear, -2 units", FLX_E_USAGE, linear_units},
    {"flx_nn_linear, 0 units", FLX_E_USAGE, linear_none},
    {"flx_nn_linear, unknown activation", FLX_E_NAME, linear_unknown},
    {"flx_nn_linear, activation of two operands", FLX_E_USAGE, linear_binary},
    {"flx_nn_linear, empty activation", FLX_E_NAME, linear_empty},
    {"flx_nn_project, name NULL", FLX_E_USAGE, project_name},
    {"flx_nn_project, -1 units", FLX_E_USAGE, project_units},
    {"flx_nn_mlp, name NULL", FLX_E_USAGE, mlp_name},
    {"flx_nn_mlp, units NULL", FLX_E_USAGE, mlp_list},
    {"flx_nn_mlp, no layer", FLX_E_USAGE, mlp_count},
    {"flx_nn_mlp, 0 units", FLX_E_USAGE, mlp_units},
    {"flx_nn_mlp, unknown activation that is not used", FLX_E_NAME, mlp_unused},
    {"flx_nn_layer_norm, name NULL", FLX_E_USAGE, layer_norm_name},
    {"flx_nn_layer_norm, eps -1", FLX_E_USAGE, layer_norm_eps},
    {"flx_nn_layer_norm, eps NaN", FLX_E_USAGE, layer_norm_nan},
    {"flx_nn_rms_norm, name NULL", FLX_E_USAGE, rms_norm_name},
    {"flx_nn_rms_norm, eps inf", FLX_E_USAGE, rms_norm_inf},
    {"flx_nn_rms_norm, eps NaN", FLX_E_USAGE, rms_norm_nan},
    {"flx_nn_embedding, name NULL", FLX_E_USAGE, embedding_name},
    {"flx_nn_embedding, count 0", FLX_E_USAGE, embedding_count},
    {"flx_nn_embedding, width -4", FLX_E_USAGE, embedding_width},
    {"flx_nn_embedding, no dtype", FLX_E_DTYPE, embedding_dtype},
    {"flx_nn_embedding, indices f32", FLX_E_USAGE, embedding_float},
    {"flx_nn_dropout, rate 1.5", FLX_E_USAGE, dropout_rate},
    {"flx_nn_dropout, rate -0.5", FLX_E_USAGE, dropout_negative},
    {"flx_nn_dropout, rate NaN", FLX_E_USAGE, dropout_nan},
    {"flx_nn_activate, unknown activation", FLX_E_NAME, activate_unknown},
    {"flx_nn_activate, activation of two operands", FLX_E_USAGE, activate_binary},
    {"flx_nn_key, name NULL", FLX_E_USAGE, key_name},
    {"flx_nn_conv, name NULL", FLX_E_USAGE, conv_name},
    {"flx_nn_conv, 0 channels", FLX_E_USAGE, conv_channels},
    {"flx_nn_conv, x of rank 2", FLX_E_SHAPE, conv_rank},
    {"flx_nn_conv, kernel 0", FLX_E_USAGE, conv_kernel},
    {"flx_nn_conv, three numbers for two axes", FLX_E_USAGE, conv_list},
    {"flx_nn_conv, stride -1", FLX_E_USAGE, conv_stride},
    {"flx_nn_conv, dilation 0", FLX_E_USAGE, conv_dilation},
    {"flx_nn_conv, padding -1", FLX_E_USAGE, conv_padding},
    {"flx_nn_conv, padding -1 at a high end", FLX_E_USAGE, conv_pairs},
    {"flx_nn_conv, an option of flx_nn_conv_transpose", FLX_E_USAGE, conv_extra},
    {"flx_nn_conv, groups -1", FLX_E_USAGE, conv_groups},
    {"flx_nn_conv, 3 groups of 4 channels", FLX_E_USAGE, conv_uneven},
    {"flx_nn_conv, 3 groups of x's 4 channels", FLX_E_SHAPE, conv_of_x},
    {"flx_nn_conv, unknown activation", FLX_E_NAME, conv_activation},
    {"flx_nn_conv_transpose, name NULL", FLX_E_USAGE, transpose_name},
    {"flx_nn_conv_transpose, -4 channels", FLX_E_USAGE, transpose_channels},
    {"flx_nn_conv_transpose, extra -1", FLX_E_USAGE, transpose_extra},
    {"flx_nn_conv_transpose, 3 groups of 4 channels", FLX_E_USAGE, transpose_groups},
    {"flx_nn_max_pool, x of rank 2", FLX_E_SHAPE, max_pool_rank},
    {"flx_nn_max_pool, kernel 0", FLX_E_USAGE, max_pool_kernel},
    {"flx_nn_max_pool, padding of the window", FLX_E_USAGE, max_pool_padding},
    {"flx_nn_avg_pool, stride -1", FLX_E_USAGE, avg_pool_stride},
    {"flx_nn_avg_pool, three numbers for two axes", FLX_E_USAGE, avg_pool_list},
    {"flx_nn_adaptive_avg_pool, no sizes", FLX_E_USAGE, adaptive_none},
    {"flx_nn_adaptive_avg_pool, size 0", FLX_E_USAGE, adaptive_zero},
    {"flx_nn_adaptive_avg_pool, x of rank 2", FLX_E_SHAPE, adaptive_rank},
    {"flx_nn_global_avg_pool, x of rank 2", FLX_E_SHAPE, global_avg_rank},
    {"flx_nn_global_max_pool, x of rank 2", FLX_E_SHAPE, global_max_rank},
    {"flx_nn_unet_down, name NULL", FLX_E_USAGE, down_name},
    {"flx_nn_unet_down, skip NULL", FLX_E_USAGE, down_skip},
    {"flx_nn_unet_down, 3 groups of 4 channels", FLX_E_USAGE, down_groups},
    {"flx_nn_unet_down, norm_groups -1", FLX_E_USAGE, down_negative},
    {"flx_nn_unet_down, reserved 1", FLX_E_USAGE, down_reserved},
    {"flx_nn_unet_up, name NULL", FLX_E_USAGE, up_name},
    {"flx_nn_unet_up, unknown activation", FLX_E_NAME, up_activation},
    {"flx_nn_unet_up, skip of another size", FLX_E_SHAPE, up_shapes},
    {"flx_nn_group_norm, name NULL", FLX_E_USAGE, group_norm_name},
    {"flx_nn_group_norm, 3 groups of 4 channels", FLX_E_SHAPE, group_norm_groups},
    {"flx_nn_group_norm, 0 groups", FLX_E_USAGE, group_norm_zero},
    {"flx_nn_group_norm, x of rank 2", FLX_E_SHAPE, group_norm_rank},
    {"flx_nn_group_norm, eps NaN", FLX_E_USAGE, group_norm_eps},
    {"flx_nn_instance_norm, name NULL", FLX_E_USAGE, instance_norm_name},
    {"flx_nn_instance_norm, x of rank 2", FLX_E_SHAPE, instance_norm_rank},
    {"flx_nn_batch_norm, name NULL", FLX_E_USAGE, batch_norm_name},
    {"flx_nn_batch_norm, x of rank 1", FLX_E_SHAPE, batch_norm_rank},
    {"flx_nn_batch_norm, momentum 1.5", FLX_E_USAGE, batch_norm_momentum},
    {"flx_nn_batch_norm, momentum NaN", FLX_E_USAGE, batch_norm_nan},
    {"flx_nn_batch_norm, eps -1", FLX_E_USAGE, batch_norm_eps},
    {"flx_nn_attention, name NULL", FLX_E_USAGE, attention_name},
    {"flx_nn_attention, -2 heads", FLX_E_USAGE, attention_heads},
    {"flx_nn_attention, 3 heads of width 4", FLX_E_USAGE, attention_uneven},
    {"flx_nn_attention, 3 kv_heads of 4 heads", FLX_E_USAGE, attention_kv_heads},
    {"flx_nn_attention, -1 kv_heads", FLX_E_USAGE, attention_kv_negative},
    {"flx_nn_attention, head_dim -4", FLX_E_USAGE, attention_head_dim},
    {"flx_nn_attention, window -1", FLX_E_USAGE, attention_window},
    {"flx_nn_attention, unknown mask_kind", FLX_E_ATTRIBUTE, attention_mask_kind},
    {"flx_nn_attention, rope_theta -1", FLX_E_USAGE, attention_theta},
    {"flx_nn_attention, rope_theta NaN", FLX_E_USAGE, attention_theta_nan},
    {"flx_nn_attention, odd head_dim with rope", FLX_E_USAGE, attention_odd},
    {"flx_nn_attention, position of rank 1", FLX_E_USAGE, attention_position},
    {"flx_nn_attention, cache of none", FLX_E_USAGE, attention_cache_none},
    {"flx_nn_attention, cache of another width", FLX_E_SHAPE, attention_cache_shape},
    {"flx_nn_attention, values unlike keys", FLX_E_SHAPE, attention_cache_values},
    {"flx_nn_attention, cache and custom mask", FLX_E_USAGE, attention_cache_mask},
    {"flx_nn_attention, cache and context", FLX_E_USAGE, attention_cache_context},
    {"flx_nn_transformer_block, name NULL", FLX_E_USAGE, block_name},
    {"flx_nn_transformer_block, hidden -8", FLX_E_USAGE, block_hidden},
    {"flx_nn_transformer_block, eps -1", FLX_E_USAGE, block_eps},
    {"flx_nn_transformer_block, eps NaN", FLX_E_USAGE, block_eps_nan},
    {"flx_nn_transformer_block, unknown activation", FLX_E_NAME, block_activation},
    {"flx_nn_transformer_block, -1 heads", FLX_E_USAGE, block_attention},
    {"flx_nn_transformer_block, cross without context", FLX_E_USAGE, block_cross},
    {"flx_nn_transformer_block, -1 heads to the context", FLX_E_USAGE, block_cross_heads},
    {"flx_nn_transformer_block, dropout 1.5", FLX_E_USAGE, block_dropout},
    {"flx_nn_gpt, name NULL", FLX_E_USAGE, gpt_name},
    {"flx_nn_gpt, tokens that are not integers", FLX_E_SHAPE, gpt_tokens},
    {"flx_nn_gpt, width 10 of 3 heads", FLX_E_USAGE, gpt_heads},
    {"flx_nn_gpt, -1 layers", FLX_E_USAGE, gpt_negative},
    {"flx_nn_gpt, a dtype of integers", FLX_E_USAGE, gpt_dtype},
    {"flx_nn_gpt, reserved", FLX_E_USAGE, gpt_reserved},
    {"flx_nn_moe, name NULL", FLX_E_USAGE, moe_name},
    {"flx_nn_moe, 0 experts", FLX_E_USAGE, moe_experts},
    {"flx_nn_moe, 5 of 4 experts", FLX_E_USAGE, moe_top_k},
    {"flx_nn_moe, top_k -1", FLX_E_USAGE, moe_negative},
    {"flx_nn_moe, hidden -1", FLX_E_USAGE, moe_hidden},
    {"flx_nn_moe, unknown activation", FLX_E_NAME, moe_activation},
    {"flx_nn_mamba, name NULL", FLX_E_USAGE, mamba_name},
    {"flx_nn_mamba, x of rank 2", FLX_E_SHAPE, mamba_rank},
    {"flx_nn_mamba, inner -1", FLX_E_USAGE, mamba_inner},
    {"flx_nn_mamba, states -1", FLX_E_USAGE, mamba_states},
    {"flx_nn_mamba, reserved 1", FLX_E_USAGE, mamba_reserved},
    {"flx_nn_sinusoids, odd width", FLX_E_USAGE, sinusoids_odd},
    {"flx_nn_sinusoids, width -2", FLX_E_USAGE, sinusoids_width},
    {"flx_nn_sinusoids, theta -1", FLX_E_USAGE, sinusoids_theta},
    {"flx_nn_sinusoids, no dtype", FLX_E_DTYPE, sinusoids_dtype},
    {"flx_nn_rope_tables, cosines NULL", FLX_E_USAGE, rope_cosines},
    {"flx_nn_rope_tables, sines NULL", FLX_E_USAGE, rope_sines},
    {"flx_nn_rope_tables, odd width", FLX_E_USAGE, rope_odd},
    {"flx_nn_rope_tables, theta NaN", FLX_E_USAGE, rope_theta},
    {"flx_nn_rope_tables, position of rank 1", FLX_E_USAGE, rope_position},
    {"flx_nn_rnn, name NULL", FLX_E_USAGE, rnn_name},
    {"flx_nn_rnn, -3 units", FLX_E_USAGE, rnn_units},
    {"flx_nn_rnn, x of rank 2", FLX_E_SHAPE, rnn_rank},
    {"flx_nn_rnn, a cell", FLX_E_USAGE, rnn_cell},
    {"flx_nn_gru, 0 units", FLX_E_USAGE, gru_units},
    {"flx_nn_lstm, too many units", FLX_E_USAGE, lstm_units},
    {"flx_nn_lstm, -1 layers", FLX_E_USAGE, lstm_layers},
    {"flx_nn_lstm, both directions and the reverse one", FLX_E_USAGE, lstm_directions},
    {"flx_nn_lstm, reserved 1", FLX_E_USAGE, lstm_reserved},
    {"flx_nn_lstm, lengths of rank 2", FLX_E_SHAPE, lstm_lengths},
    {"flx_nn_lstm, lengths f32", FLX_E_USAGE, lstm_floats},
    {"flx_nn_lstm, initial state of another shape", FLX_E_SHAPE, lstm_hidden},
    {"flx_nn_lstm, initial cell of another shape", FLX_E_SHAPE, lstm_cell},
    {"flx_nn_mse, different shapes", FLX_E_SHAPE, mse_shapes},
    {"flx_nn_mae, different shapes", FLX_E_SHAPE, mae_shapes},
    {"flx_nn_huber, different shapes", FLX_E_SHAPE, huber_shapes},
    {"flx_nn_huber, delta 0", FLX_E_USAGE, huber_delta},
    {"flx_nn_huber, delta NaN", FLX_E_USAGE, huber_nan},
    {"flx_nn_bce_with_logits, different shapes", FLX_E_SHAPE, bce_shapes},
    {"flx_nn_nll, labels f32", FLX_E_USAGE, nll_floats},
    {"flx_nn_nll, log_probs of rank 3", FLX_E_SHAPE, nll_ranks},
    {"flx_nn_focal, different shapes", FLX_E_SHAPE, focal_shapes},
    {"flx_nn_focal, alpha 2", FLX_E_USAGE, focal_alpha},
    {"flx_nn_focal, gamma NaN", FLX_E_USAGE, focal_gamma},
    {"flx_nn_dice, different shapes", FLX_E_SHAPE, dice_shapes},
    {"flx_nn_dice, smooth -1", FLX_E_USAGE, dice_smooth},
    {"flx_nn_hinge, different shapes", FLX_E_SHAPE, hinge_shapes},
    {"flx_nn_cosine, different shapes", FLX_E_SHAPE, cosine_shapes},
    {"flx_nn_triplet, different shapes", FLX_E_SHAPE, triplet_shapes},
    {"flx_nn_triplet, margin -1", FLX_E_USAGE, triplet_margin},
    {"flx_nn_contrastive, different shapes", FLX_E_SHAPE, contrastive_shapes},
    {"flx_nn_contrastive, rank 3", FLX_E_SHAPE, contrastive_rank},
    {"flx_nn_contrastive, temperature 0", FLX_E_USAGE, contrastive_cold},
    {"flx_nn_gaussian_nll, different shapes", FLX_E_SHAPE, gaussian_shapes},
    {"flx_nn_gaussian_nll, eps -1", FLX_E_USAGE, gaussian_eps},
    {"flx_nn_poisson_nll, different shapes", FLX_E_SHAPE, poisson_shapes},
    {"flx_nn_kl, different shapes", FLX_E_SHAPE, kl_shapes},
    {"flx_nn_cross_entropy, smoothing 1.5", FLX_E_USAGE, cross_smoothing},
    {"flx_nn_cross_entropy, smoothing -0.1", FLX_E_USAGE, cross_negative},
    {"flx_nn_cross_entropy, smoothing NaN", FLX_E_USAGE, cross_nan},
    {"flx_nn_cross_entropy, labels of another rank", FLX_E_SHAPE, cross_rank},
    {"flx_nn_cross_entropy, labels of other extents", FLX_E_SHAPE, cross_shapes},
    {"flx_nn_ctc, blank 4 of 4 classes", FLX_E_USAGE, ctc_blank},
    {"flx_nn_ctc, blank -1", FLX_E_USAGE, ctc_negative},
    {"flx_nn_ctc, no labels", FLX_E_USAGE, ctc_none},
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

TEST(nn_misuse_is_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    for (size_t k = 0; k < NUM_ROWS; k++) {
        flx_error err = {0};
        inputs i = begin(ctx);
        test_fail_context("%s", rows[k].what);
        rows[k].build(&i);
        flx_code code = flx_graph_error(i.g, &err);
        EXPECT_MSG(code == rows[k].code, "%s: %s instead of %s: %s", rows[k].what, flx_code_name(code),
                   flx_code_name(rows[k].code), err.message);
        flx_graph_release(i.g);
        i.g = NULL;
        rows[k].build(&i); /* without a graph nothing happens */
        test_count_case();
    }
    flx_context_free(ctx);
}

TEST(nn_misuse_table_is_complete)
{
    char path[512];
    snprintf(path, sizeof path, "%s/include/fluxion/nn.h", FLX_SOURCE_DIR);
    FILE *in = fopen(path, "rb");
    CHECK_MSG(in != NULL, "%s", path);
    char line[256];
    size_t found = 0;
    while (fgets(line, sizeof line, in)) {
        char *name = strstr(line, "flx_nn_");
        char *end = name ? strchr(name, '(') : NULL;
        if (strncmp(line, "FLX_API ", 8) != 0 || !end)
            continue;
        *end = 0;
        bool has_row = false;
        for (size_t k = 0; k < NUM_ROWS; k++)
            has_row |= strncmp(rows[k].what, name, strlen(name)) == 0 && rows[k].what[strlen(name)] == ',';
        EXPECT_MSG(has_row, "tests/nn/nn_misuse.c has no row for %s()", name);
        found++;
        test_count_case();
    }
    fclose(in);
    CHECK(found >= 20);
}
