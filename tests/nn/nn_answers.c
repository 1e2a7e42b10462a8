/* nn_answers.c: layers and losses against the answers of another framework (tests/oracle/nn.py), values and gradients, on both
   devices. What is summed up for a gradient is the result times a random cotangent. */
#include "../test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    char path[512];
} answers;

static flx_tensor *read_answer(const answers *a, const char *key)
{
    flx_error err = {0};
    return flx_npz_read(a->ctx, a->path, key, &err);
}

/* An input of the type that the answers have for it. */
static flx_val input(const answers *a, const char *name)
{
    flx_tensor *t = read_answer(a, name);
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
    const flx_nn_block_options o = {.attention = {.heads = 2}, .hidden = 16};
    return flx_nn_transformer_block(a->g, "t", input(a, "x"), &o);
}

static flx_val build_block_post_norm(const answers *a)
{
    const flx_nn_block_options o = {.attention = {.heads = 2}, .hidden = 16, .is_post_norm = 1};
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

enum { MOST_INPUTS = 32 };

static void compare(const char *what, const flx_tensor *y, const flx_tensor *want)
{
    CHECK_MSG(flx_tensor_count(y) == flx_tensor_count(want), "%s has another size", what);
    for (int64_t i = 0; i < flx_tensor_count(y); i++) {
        double got = flx_tensor_get(y, i), expected = flx_tensor_get(want, i);
        EXPECT_MSG(fabs(got - expected) <= 1e-12 * (1 + fabs(expected)), "%s[%lld] is %.17g instead of %.17g", what,
                   (long long)i, got, expected);
    }
}

/* Runs a graph on the answers' inputs and compares its outputs, which are called as in the file. */
static void check_graph(const answers *a, const flx_graph *g, const char *device)
{
    flx_error err = {0};
    flx_feed feeds[MOST_INPUTS];
    flx_tensor *in[MOST_INPUTS], *out[MOST_INPUTS] = {0};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= MOST_INPUTS && flx_graph_output_count(g) <= MOST_INPUTS);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        in[i] = read_answer(a, name);
        CHECK_MSG(in[i], "%s has no %s", a->path, name);
        feeds[i] = (flx_feed){name, in[i]};
    }
    const flx_run_options o = {.device = device};
    CHECK_OK(flx_run(g, &o, feeds, n, out, &err), &err);
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        flx_tensor *want = read_answer(a, flx_graph_output_name(g, k));
        CHECK_MSG(want, "no answer for %s", flx_graph_output_name(g, k));
        compare(flx_graph_output_name(g, k), out[k], want);
        flx_tensor_release(want);
        flx_tensor_release(out[k]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
}

static void check_gradient(const answers *a)
{
    flx_error err = {0};
    const char *wrt[MOST_INPUTS];
    size_t n = 0;
    for (size_t i = 0; i < flx_graph_input_count(a->g); i++) {
        char key[256];
        const char *name = flx_val_name(a->g, flx_graph_input(a->g, i));
        snprintf(key, sizeof key, "d_%s", name);
        flx_tensor *d = read_answer(a, key);
        if (d)
            wrt[n++] = name;
        flx_tensor_release(d);
    }
    CHECK(n > 0);
    flx_graph *grad = flx_grad(a->g, wrt, n, NULL, &err);
    CHECK_MSG(grad, "%s", err.message);
    check_graph(a, grad, "ref");
    check_graph(a, grad, "cpu");
    flx_graph_free(grad);
}

static void open_case(answers *a, const char *name)
{
    a->ctx = flx_context_new(NULL);
    a->g = flx_graph_new(a->ctx, name);
    snprintf(a->path, sizeof a->path, "%s/tests/oracle/fixtures/nn/%s.npz", FLX_SOURCE_DIR, name);
}

static void close_case(answers *a)
{
    flx_graph_free(a->g);
    flx_context_free(a->ctx);
}

static void check_case(const char *name, flx_val (*build)(const answers *a))
{
    answers a;
    flx_error err = {0};
    test_fail_context("%s", name);
    open_case(&a, name);
    flx_output(a.g, build(&a), "out");
    CHECK_OK(flx_graph_error(a.g, &err), &err);
    check_graph(&a, a.g, "ref");
    check_graph(&a, a.g, "cpu");
    close_case(&a);
    open_case(&a, name);
    flx_val y = build(&a);
    flx_tensor *seed = read_answer(&a, "seed");
    if (seed)
        y = flx_reduce_sum(a.g, flx_mul(a.g, y, input(&a, "seed")), FLX_ALL, 0);
    flx_tensor_release(seed);
    flx_output(a.g, y, "loss");
    check_gradient(&a);
    close_case(&a);
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
