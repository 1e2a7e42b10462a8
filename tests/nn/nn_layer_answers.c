/* SPDX-License-Identifier: Apache-2.0 */
/* nn_layer_answers.c: convolutions, pools, norms, recurrences, attention with a cache, blocks and losses against the
   answers of another framework (tests/oracle/nn_layers.py), values, states and gradients, on both devices. */
#include "answers.h"
#include "test.h"

/* Values one after the other, as a vector. */
static flx_val joined(const answers *a, const flx_val *parts, size_t count)
{
    flx_val flat[4];
    for (size_t i = 0; i < count; i++)
        flat[i] = flx_reshape(a->g, parts[i], FLX_INTS(-1));
    return flx_concat(a->g, flat, count, 0);
}

/* ---- Convolution and pooling ---- */

#define LIST(...)                                                                                \
    {                                                                                            \
        (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t) \
    }

static flx_val build_conv1(const answers *a)
{
    return flx_nn_conv(a->g, "c", answers_input(a, "x"), 4, &(flx_nn_conv_options){.activation = "silu"});
}

static flx_val build_conv2(const answers *a)
{
    const flx_nn_conv_options o = {
        .kernel = LIST(3, 2), .stride = LIST(2, 1), .padding = LIST(0, 3), .dilation = LIST(2, 3), .groups = 2};
    return flx_nn_conv(a->g, "c", answers_input(a, "x"), 6, &o);
}

static flx_val build_conv3(const answers *a)
{
    const flx_nn_conv_options o = {.kernel = LIST(2), .stride = LIST(2), .padding = LIST(0), .no_bias = 1};
    return flx_nn_conv(a->g, "c", answers_input(a, "x"), 3, &o);
}

static flx_val build_conv_depthwise(const answers *a)
{
    return flx_nn_conv(a->g, "c", answers_input(a, "x"), 6, &(flx_nn_conv_options){.groups = 3});
}

static flx_val build_conv_even(const answers *a)
{
    const flx_nn_conv_options o = {.kernel = LIST(4), .dilation = LIST(3)};
    return flx_nn_conv(a->g, "c", answers_input(a, "x"), 3, &o);
}

static flx_val build_conv_sides(const answers *a)
{
    return flx_nn_conv(a->g, "c", answers_input(a, "x"), 3, &(flx_nn_conv_options){.padding = LIST(2, 1)});
}

static flx_val build_conv_transpose1(const answers *a)
{
    return flx_nn_conv_transpose(a->g, "c", answers_input(a, "x"), 4, NULL);
}

static flx_val build_conv_transpose2(const answers *a)
{
    const flx_nn_conv_options o = {.kernel = LIST(3),
                                   .stride = LIST(2, 3),
                                   .padding = LIST(1),
                                   .extra = LIST(1, 2),
                                   .dilation = LIST(1, 2),
                                   .groups = 2};
    return flx_nn_conv_transpose(a->g, "c", answers_input(a, "x"), 6, &o);
}

static flx_val build_conv_transpose3(const answers *a)
{
    return flx_nn_conv_transpose(a->g, "c", answers_input(a, "x"), 3, &(flx_nn_conv_options){.no_bias = 1});
}

/* The norm declares c.gamma and c.beta beside c.w and c.b. */
static flx_val build_conv_block(const answers *a)
{
    const flx_nn_conv_options o = {.stride = LIST(2), .groups = 2};
    flx_val y = flx_nn_group_norm(a->g, "c", flx_nn_conv(a->g, "c", answers_input(a, "x"), 6, &o), 3, 0);
    return flx_nn_activate(a->g, y, "silu");
}

TEST(nn_convolutions_agree_with_another_framework)
{
    answers_check_case("conv1", build_conv1);
    answers_check_case("conv2", build_conv2);
    answers_check_case("conv3", build_conv3);
    answers_check_case("conv_depthwise", build_conv_depthwise);
    answers_check_case("conv_even", build_conv_even);
    answers_check_case("conv_sides", build_conv_sides);
    answers_check_case("conv_block", build_conv_block);
    answers_check_case("conv_transpose1", build_conv_transpose1);
    answers_check_case("conv_transpose2", build_conv_transpose2);
    answers_check_case("conv_transpose3", build_conv_transpose3);
}

static flx_val build_max_pool(const answers *a)
{
    const flx_nn_pool_options o = {.kernel = LIST(3, 2), .stride = LIST(2), .padding = LIST(1, 0)};
    return flx_nn_max_pool(a->g, answers_input(a, "x"), &o);
}

static flx_val build_avg_pool(const answers *a)
{
    const flx_nn_pool_options o = {.kernel = LIST(3), .stride = LIST(2), .padding = LIST(1)};
    return flx_nn_avg_pool(a->g, answers_input(a, "x"), &o);
}

static flx_val build_avg_pool_exclude(const answers *a)
{
    const flx_nn_pool_options o = {.kernel = LIST(3), .stride = LIST(2), .padding = LIST(1), .exclude_padding = 1};
    return flx_nn_avg_pool(a->g, answers_input(a, "x"), &o);
}

static flx_val build_adaptive_pool(const answers *a)
{
    return flx_nn_adaptive_avg_pool(a->g, answers_input(a, "x"), FLX_INTS(3, 2));
}

static flx_val build_adaptive_pool3(const answers *a)
{
    return flx_nn_adaptive_avg_pool(a->g, answers_input(a, "x"), FLX_INTS(2, 3, 5));
}

static flx_val build_global_avg_pool(const answers *a)
{
    return flx_nn_global_avg_pool(a->g, answers_input(a, "x"));
}

static flx_val build_global_max_pool(const answers *a)
{
    return flx_nn_global_max_pool(a->g, answers_input(a, "x"));
}

static flx_val build_unet(const answers *a)
{
    const flx_nn_unet_options o = {.norm_groups = 2, .activation = "silu"};
    flx_val skip, x = flx_nn_unet_down(a->g, "d", answers_input(a, "x"), 4, &o, &skip);
    return flx_nn_unet_up(a->g, "u", x, skip, 3, NULL);
}

TEST(nn_pools_agree_with_another_framework)
{
    answers_check_case("max_pool", build_max_pool);
    answers_check_case("avg_pool", build_avg_pool);
    answers_check_case("avg_pool_exclude", build_avg_pool_exclude);
    answers_check_case("adaptive_pool", build_adaptive_pool);
    answers_check_case("adaptive_pool3", build_adaptive_pool3);
    answers_check_case("global_avg_pool", build_global_avg_pool);
    answers_check_case("global_max_pool", build_global_max_pool);
    answers_check_case("unet", build_unet);
}

/* ---- Norms ---- */

static flx_val build_layer_norm(const answers *a)
{
    return flx_nn_layer_norm(a->g, "n", answers_input(a, "x"), 0);
}

static flx_val build_rms_norm(const answers *a)
{
    return flx_nn_rms_norm(a->g, "n", answers_input(a, "x"), 0);
}

static flx_val build_group_norm(const answers *a)
{
    return flx_nn_group_norm(a->g, "n", answers_input(a, "x"), 2, 1e-3);
}

static flx_val build_instance_norm(const answers *a)
{
    return flx_nn_instance_norm(a->g, "n", answers_input(a, "x"), 0);
}

static flx_val build_batch_norm(const answers *a)
{
    return flx_nn_batch_norm(a->g, "n", answers_input(a, "x"), &(flx_nn_batch_norm_options){.is_training = 1});
}

static flx_val build_batch_norm_rows(const answers *a)
{
    const flx_nn_batch_norm_options o = {.is_training = 1, .momentum = 0.25, .eps = 1e-3};
    return flx_nn_batch_norm(a->g, "n", answers_input(a, "x"), &o);
}

static flx_val build_batch_norm_inference(const answers *a)
{
    return flx_nn_batch_norm(a->g, "n", answers_input(a, "x"), NULL);
}

TEST(nn_norms_agree_with_another_framework)
{
    answers_check_case("layer_norm", build_layer_norm);
    answers_check_case("rms_norm", build_rms_norm);
    answers_check_case("group_norm", build_group_norm);
    answers_check_case("instance_norm", build_instance_norm);
    answers_check_case("batch_norm", build_batch_norm);
    answers_check_case("batch_norm_rows", build_batch_norm_rows);
    answers_check_case("batch_norm_inference", build_batch_norm_inference);
}

/* ---- Recurrence ---- */

static flx_val build_lstm_states(const answers *a)
{
    flx_nn_recurrent_state last;
    flx_val x = answers_input(a, "x");
    const flx_nn_recurrent_options o = {.hidden = answers_input(a, "hidden"), .cell = answers_input(a, "cell")};
    flx_val y = flx_nn_lstm(a->g, "l", x, 4, &o, &last);
    return joined(a, (const flx_val[]){y, last.hidden, last.cell}, 3);
}

static flx_nn_recurrent_options padded(const answers *a, int64_t layers)
{
    return (flx_nn_recurrent_options){.is_bidirectional = 1,
                                      .layers = layers,
                                      .lengths = answers_input(a, "lengths"),
                                      .hidden = answers_input(a, "hidden")};
}

static flx_val build_lstm_padded(const answers *a)
{
    flx_nn_recurrent_state last;
    flx_nn_recurrent_options o = padded(a, 2);
    o.cell = answers_input(a, "cell");
    flx_val y = flx_nn_lstm(a->g, "l", answers_input(a, "x"), 4, &o, &last);
    return joined(a, (const flx_val[]){y, last.hidden, last.cell}, 3);
}

static flx_val build_gru_padded(const answers *a)
{
    flx_nn_recurrent_state last;
    flx_nn_recurrent_options o = padded(a, 2);
    flx_val y = flx_nn_gru(a->g, "l", answers_input(a, "x"), 4, &o, &last);
    return joined(a, (const flx_val[]){y, last.hidden}, 2);
}

static flx_val build_rnn_padded(const answers *a)
{
    flx_nn_recurrent_state last;
    flx_nn_recurrent_options o = padded(a, 1);
    flx_val y = flx_nn_rnn(a->g, "l", answers_input(a, "x"), 4, &o, &last);
    return joined(a, (const flx_val[]){y, last.hidden}, 2);
}

TEST(nn_recurrences_with_states_agree_with_another_framework)
{
    answers_check_case("lstm_states", build_lstm_states);
    answers_check_case("rnn_padded", build_rnn_padded);
    answers_check_case("gru_padded", build_gru_padded);
    answers_check_case("lstm_padded", build_lstm_padded);
}

/* ---- Attention and blocks ---- */

static flx_val with_cache(const answers *a, const char *mask_kind, int64_t window)
{
    flx_nn_cache cache = {answers_input(a, "keys"), answers_input(a, "values")};
    const flx_nn_attention_options o = {.heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 4,
                                        .mask_kind = mask_kind,
                                        .window = window,
                                        .rope_theta = 50,
                                        .position = answers_input(a, "position"),
                                        .cache = &cache};
    flx_val y = flx_nn_attention(a->g, "a", answers_input(a, "x"), FLX_NONE, &o);
    return joined(a, (const flx_val[]){y, cache.keys, cache.values}, 3);
}

static flx_val build_attention_cache(const answers *a)
{
    return with_cache(a, "causal", 0);
}

static flx_val build_attention_cache_all(const answers *a)
{
    return with_cache(a, NULL, 0);
}

static flx_val build_attention_cache_window(const answers *a)
{
    return with_cache(a, "sliding_window", 2);
}

static flx_val decoder(const answers *a, int is_post_norm)
{
    flx_val x = answers_input(a, "x");
    const flx_nn_attention_options attention = {.heads = 2, .mask_kind = "causal"};
    const flx_nn_block_options o = {
        .attention = &attention, .hidden = 16, .is_post_norm = is_post_norm, .context = answers_input(a, "context")};
    return flx_nn_transformer_block(a->g, "t", x, &o);
}

static flx_val build_decoder_pre_norm(const answers *a)
{
    return decoder(a, 0);
}

static flx_val build_decoder_post_norm(const answers *a)
{
    return decoder(a, 1);
}

static flx_val build_moe(const answers *a)
{
    flx_val balance, y = flx_nn_moe(a->g, "m", answers_input(a, "x"), 4, &(flx_nn_moe_options){.hidden = 6}, &balance);
    return joined(a, (const flx_val[]){y, balance}, 2);
}

static flx_val build_mamba(const answers *a)
{
    const flx_nn_mamba_options o = {.inner = 6, .states = 3, .kernel = 3, .rank = 2};
    return flx_nn_mamba(a->g, "m", answers_input(a, "x"), &o);
}

static flx_val build_gpt(const answers *a)
{
    const flx_nn_gpt_options o = {
        .struct_size = sizeof o, .vocabulary = 11, .width = 8, .layers = 2, .heads = 2, .dtype = FLX_F64};
    return flx_nn_gpt(a->g, "g", answers_input(a, "words"), &o);
}

TEST(nn_blocks_agree_with_another_framework)
{
    answers_check_case("attention_cache", build_attention_cache);
    answers_check_case("attention_cache_all", build_attention_cache_all);
    answers_check_case("attention_cache_window", build_attention_cache_window);
    answers_check_case("decoder_pre_norm", build_decoder_pre_norm);
    answers_check_case("decoder_post_norm", build_decoder_post_norm);
    answers_check_case("moe", build_moe);
    answers_check_case("mamba", build_mamba);
    answers_check_case("gpt", build_gpt);
}

/* ---- Linear layers ---- */

static flx_val build_mlp(const answers *a)
{
    return flx_nn_mlp(a->g, "n", answers_input(a, "x"), (const int64_t[]){5, 4, 2}, 3, "gelu");
}

static flx_val build_embedding(const answers *a)
{
    return flx_nn_project(a->g, "p", flx_nn_embedding(a->g, "e", answers_input(a, "words"), 7, 4, FLX_F64), 3);
}

TEST(nn_linear_layers_agree_with_another_framework)
{
    answers_check_case("mlp", build_mlp);
    answers_check_case("embedding", build_embedding);
}

/* ---- Losses ---- */

static flx_val build_nll(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_nll(a->g, x, answers_input(a, "labels"));
}

static flx_val build_focal(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_focal(a->g, x, answers_input(a, "target"), 0.25, 3);
}

static flx_val build_dice(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_dice(a->g, x, answers_input(a, "target"), 0.5);
}

static flx_val build_hinge(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_hinge(a->g, x, answers_input(a, "target"));
}

static flx_val build_cosine(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_cosine(a->g, x, answers_input(a, "target"));
}

static flx_val build_triplet(const answers *a)
{
    flx_val x = answers_input(a, "x"), positive = answers_input(a, "positive");
    return flx_nn_triplet(a->g, x, positive, answers_input(a, "negative"), 0.7);
}

static flx_val build_contrastive(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_contrastive(a->g, x, answers_input(a, "target"), 0.2);
}

static flx_val build_gaussian_nll(const answers *a)
{
    flx_val x = answers_input(a, "x"), target = answers_input(a, "target");
    return flx_nn_gaussian_nll(a->g, x, target, answers_input(a, "var"), 0);
}

static flx_val build_poisson_nll(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_poisson_nll(a->g, x, answers_input(a, "target"));
}

TEST(nn_further_losses_agree_with_another_framework)
{
    answers_check_case("nll", build_nll);
    answers_check_case("focal", build_focal);
    answers_check_case("dice", build_dice);
    answers_check_case("hinge", build_hinge);
    answers_check_case("cosine", build_cosine);
    answers_check_case("triplet", build_triplet);
    answers_check_case("contrastive", build_contrastive);
    answers_check_case("gaussian_nll", build_gaussian_nll);
    answers_check_case("poisson_nll", build_poisson_nll);
}
