/* SPDX-License-Identifier: Apache-2.0 */
/* nn_answers.c: layers and losses against the answers of another framework (tests/oracle/nn.py), values and gradients,
   on both devices. The loss of a gradient is the sum of the result times a random cotangent. */
#include "answers.h"
#include "test.h"

/* An input of the type that the answers have for it. */
static flx_val input(const answers *a, const char *name)
{
    flx_tensor *t = answers_read(a, name);
    CHECK_MSG(t, "%s has no %s", a->path, name);
    flx_val v = flx_input(a->g, name, flx_tensor_type(t));
    flx_tensor_release(t);
    return v;
}

/* ---- What is built ---- */

static flx_val build_rnn(const answers *a)
{
    return flx_nn_rnn(a->g, "l", input(a, "x"), 4, NULL);
}

static flx_val build_gru(const answers *a)
{
    return flx_nn_gru(a->g, "l", input(a, "x"), 4, NULL);
}

static flx_val build_lstm(const answers *a)
{
    return flx_nn_lstm(a->g, "l", input(a, "x"), 4, NULL);
}

static flx_val build_attention(const answers *a)
{
    return flx_nn_attention(a->g, "a", input(a, "x"), FLX_NONE, &(flx_nn_attention_options){.heads = 2});
}

static flx_val build_attention_causal(const answers *a)
{
    const flx_nn_attention_options o = {.heads = 2, .mask_kind = "causal"};
    return flx_nn_attention(a->g, "a", input(a, "x"), FLX_NONE, &o);
}

static flx_val build_attention_cross(const answers *a)
{
    flx_val x = input(a, "x"), context = input(a, "context");
    return flx_nn_attention(a->g, "a", x, context, &(flx_nn_attention_options){.heads = 2});
}

static flx_val build_block_pre_norm(const answers *a)
{
    const flx_nn_block_options o = {.attention = &(flx_nn_attention_options){.heads = 2}, .hidden = 16};
    return flx_nn_transformer_block(a->g, "t", input(a, "x"), &o);
}

static flx_val build_block_post_norm(const answers *a)
{
    const flx_nn_block_options o = {
        .attention = &(flx_nn_attention_options){.heads = 2}, .hidden = 16, .is_post_norm = 1};
    return flx_nn_transformer_block(a->g, "t", input(a, "x"), &o);
}

static flx_val build_conv_block(const answers *a)
{
    const flx_nn_conv_options o = {.stride = 2, .groups = 2, .norm_groups = 3, .activation = "silu"};
    return flx_nn_conv_block(a->g, "c", input(a, "x"), 6, &o);
}

static flx_val build_mse(const answers *a)
{
    flx_val x = input(a, "x");
    return flx_nn_mse(a->g, x, input(a, "target"));
}

static flx_val build_mae(const answers *a)
{
    flx_val x = input(a, "x");
    return flx_nn_mae(a->g, x, input(a, "target"));
}

static flx_val build_huber(const answers *a)
{
    flx_val x = input(a, "x");
    return flx_nn_huber(a->g, x, input(a, "target"), 0.7);
}

static flx_val build_bce(const answers *a)
{
    flx_val x = input(a, "x");
    return flx_nn_bce_with_logits(a->g, x, input(a, "target"));
}

static flx_val build_cross_entropy(const answers *a)
{
    flx_val x = input(a, "x");
    return flx_nn_cross_entropy(a->g, x, input(a, "labels"), 0.1);
}

static flx_val build_kl(const answers *a)
{
    flx_val x = input(a, "x");
    return flx_nn_kl(a->g, input(a, "target"), x);
}

static flx_val build_ctc(const answers *a)
{
    flx_val x = input(a, "x"), labels = input(a, "labels");
    flx_val input_lengths = input(a, "input_lengths"), label_lengths = input(a, "label_lengths");
    return flx_nn_ctc(a->g, flx_log_softmax(a->g, x, -1), labels, input_lengths, label_lengths, 0);
}

/* ---- Comparing ---- */

static void check_case(const char *name, flx_val (*build)(const answers *a))
{
    answers a;
    flx_error err = {0};
    test_fail_context("%s", name);
    answers_open(&a, name);
    flx_output(a.g, build(&a), "out");
    CHECK_OK(flx_graph_error(a.g, &err), &err);
    answers_check(&a, a.g, "ref");
    answers_check(&a, a.g, "cpu");
    answers_close(&a);
    answers_open(&a, name);
    flx_val y = build(&a);
    flx_tensor *seed = answers_read(&a, "seed");
    if (seed)
        y = flx_reduce_sum(a.g, flx_mul(a.g, y, input(&a, "seed")), FLX_ALL, 0);
    flx_tensor_release(seed);
    flx_output(a.g, y, "loss");
    answers_check_gradient(&a, a.g, 0);
    answers_close(&a);
}

TEST(nn_recurrent_layers_agree_with_another_framework)
{
    check_case("rnn", build_rnn);
    check_case("gru", build_gru);
    check_case("lstm", build_lstm);
}

TEST(nn_attention_agrees_with_another_framework)
{
    check_case("attention", build_attention);
    check_case("attention_causal", build_attention_causal);
    check_case("attention_cross", build_attention_cross);
    check_case("block_pre_norm", build_block_pre_norm);
    check_case("block_post_norm", build_block_post_norm);
}

TEST(nn_convolution_agrees_with_another_framework)
{
    check_case("conv_block", build_conv_block);
}

TEST(nn_losses_agree_with_another_framework)
{
    check_case("mse", build_mse);
    check_case("mae", build_mae);
    check_case("huber", build_huber);
    check_case("bce", build_bce);
    check_case("cross_entropy", build_cross_entropy);
    check_case("kl", build_kl);
    check_case("ctc", build_ctc);
    check_case("ctc_no_labels", build_ctc);
}
