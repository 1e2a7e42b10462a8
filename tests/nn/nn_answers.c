/* SPDX-License-Identifier: Apache-2.0 */
/* nn_answers.c: layers and losses against the answers of another framework (tests/oracle/nn.py), values and gradients,
   on both devices. The loss of a gradient is the sum of the result times a random cotangent. */
#include "answers.h"
#include "test.h"

/* ---- What is built ---- */

static flx_val build_rnn(const answers *a)
{
    return flx_nn_rnn(a->g, "l", answers_input(a, "x"), 4, NULL, NULL);
}

static flx_val build_gru(const answers *a)
{
    return flx_nn_gru(a->g, "l", answers_input(a, "x"), 4, NULL, NULL);
}

static flx_val build_lstm(const answers *a)
{
    return flx_nn_lstm(a->g, "l", answers_input(a, "x"), 4, NULL, NULL);
}

static flx_val build_attention(const answers *a)
{
    return flx_nn_attention(a->g, "a", answers_input(a, "x"), FLX_NONE, &(flx_nn_attention_options){.heads = 2});
}

static flx_val build_attention_causal(const answers *a)
{
    const flx_nn_attention_options o = {.heads = 2, .mask_kind = "causal"};
    return flx_nn_attention(a->g, "a", answers_input(a, "x"), FLX_NONE, &o);
}

static flx_val build_attention_cross(const answers *a)
{
    flx_val x = answers_input(a, "x"), context = answers_input(a, "context");
    return flx_nn_attention(a->g, "a", x, context, &(flx_nn_attention_options){.heads = 2});
}

static flx_val build_block_pre_norm(const answers *a)
{
    const flx_nn_block_options o = {.attention = &(flx_nn_attention_options){.heads = 2}, .hidden = 16};
    return flx_nn_transformer_block(a->g, "t", answers_input(a, "x"), &o);
}

static flx_val build_block_post_norm(const answers *a)
{
    const flx_nn_block_options o = {
        .attention = &(flx_nn_attention_options){.heads = 2}, .hidden = 16, .is_post_norm = 1};
    return flx_nn_transformer_block(a->g, "t", answers_input(a, "x"), &o);
}

static flx_val build_mse(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_mse(a->g, x, answers_input(a, "target"));
}

static flx_val build_mae(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_mae(a->g, x, answers_input(a, "target"));
}

static flx_val build_huber(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_huber(a->g, x, answers_input(a, "target"), 0.7);
}

static flx_val build_bce(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_bce_with_logits(a->g, x, answers_input(a, "target"));
}

static flx_val build_cross_entropy(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_cross_entropy(a->g, x, answers_input(a, "labels"), 0.1);
}

static flx_val build_kl(const answers *a)
{
    flx_val x = answers_input(a, "x");
    return flx_nn_kl(a->g, answers_input(a, "target"), x);
}

static flx_val build_ctc(const answers *a)
{
    flx_val x = answers_input(a, "x"), labels = answers_input(a, "labels");
    flx_val input_lengths = answers_input(a, "input_lengths"), label_lengths = answers_input(a, "label_lengths");
    return flx_nn_ctc(a->g, flx_log_softmax(a->g, x, -1), labels, input_lengths, label_lengths, 0);
}

/* ---- Comparing ---- */

TEST(nn_recurrent_layers_agree_with_another_framework)
{
    answers_check_case("rnn", build_rnn);
    answers_check_case("gru", build_gru);
    answers_check_case("lstm", build_lstm);
}

TEST(nn_attention_agrees_with_another_framework)
{
    answers_check_case("attention", build_attention);
    answers_check_case("attention_causal", build_attention_causal);
    answers_check_case("attention_cross", build_attention_cross);
    answers_check_case("block_pre_norm", build_block_pre_norm);
    answers_check_case("block_post_norm", build_block_post_norm);
}

TEST(nn_losses_agree_with_another_framework)
{
    answers_check_case("mse", build_mse);
    answers_check_case("mae", build_mae);
    answers_check_case("huber", build_huber);
    answers_check_case("bce", build_bce);
    answers_check_case("cross_entropy", build_cross_entropy);
    answers_check_case("kl", build_kl);
    answers_check_case("ctc", build_ctc);
    answers_check_case("ctc_no_labels", build_ctc);
}
