/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_whole_texts.c: graphs of whole texts: their logits are those of a decoder, and adapters are trained while the
   packed matrices stay as they are. */
#include "gguf/random_model.h"
#include "test.h"

#include <fluxion/decoder.h>
#include <fluxion/train.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUM_TOKENS = 12, MOST_PARAMS = 100 };

static flx_gguf *open_model(flx_context *ctx, const char *architecture, const char *type)
{
    char path[600];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/whole-%s-%s.gguf", test_temp_dir(), architecture, type);
    CHECK_OK(random_model_write(ctx, path, architecture, type, &err), &err);
    flx_gguf *f = flx_gguf_read(ctx, path, &err);
    CHECK_MADE(f, &err);
    return f;
}

/* Tokens of a text from `first` on. */
static flx_tensor *text(flx_context *ctx, int first)
{
    flx_error err = {0};
    int32_t tokens[NUM_TOKENS];
    flx_type type = flx_type_make(FLX_I32, 1, (flx_dim[]){NUM_TOKENS});
    for (int i = 0; i < NUM_TOKENS; i++)
        tokens[i] = (int32_t)((unsigned)(first + i) * 7919u % MODEL_VOCABULARY);
    flx_tensor *t = flx_tensor_new(ctx, &type, tokens, &err);
    CHECK_MADE(t, &err);
    return t;
}

/* The parameters of the graph: those of the file, and new ones. */
static flx_params *read_params(flx_context *ctx, const flx_gguf *f, const flx_graph *g)
{
    flx_error err = {0};
    flx_params *set = flx_params_new(ctx, &err);
    CHECK_MADE(set, &err);
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        if (!flx_graph_input_is_param(g, i) || strstr(name, ".lora_"))
            continue;
        flx_tensor *t = flx_text_param(f, g, name, &err);
        CHECK_MADE(t, &err);
        CHECK_OK(flx_params_add(set, name, t, &err), &err);
        flx_tensor_release(t);
    }
    CHECK_OK(flx_params_join(set, g, 1, &err), &err);
    return set;
}

/* The outputs of the graph after the tokens. */
static void run(const flx_graph *g, const flx_params *set, flx_tensor *tokens, flx_tensor *next, flx_tensor **out)
{
    flx_error err = {0};
    flx_feed feeds[MOST_PARAMS + 2] = {{"tokens", tokens}, {"next", next}};
    size_t inputs = next ? 2 : 1, count = flx_params_feeds(set, g, feeds + inputs, MOST_PARAMS);
    CHECK(count <= MOST_PARAMS);
    CHECK_OK(flx_run(g, NULL, feeds, inputs + count, out, &err), &err);
}

TEST(gguf_whole_text_has_the_logits_of_the_decoder)
{
    static const struct {
        const char *architecture, *type;
        int32_t bits;
        double tolerance;
    } models[] = {{"llama", "q4_k", 32, 1e-3}, {"gemma2", "q8_0", 32, 1e-3}, {"llama", "q4_k", 8, 2e-2}};
    static float logits[MODEL_VOCABULARY];
    flx_error err = {0};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_gguf *f = open_model(ctx, models[k].architecture, models[k].type);
        const flx_text_graph_options text_options = {.struct_size = sizeof text_options,
                                                     .activation_bits = models[k].bits};
        const flx_decoder_options decoder_options = {.struct_size = sizeof decoder_options,
                                                     .activation_bits = models[k].bits};
        flx_graph *g = flx_text_graph(f, &text_options, &err);
        CHECK_MADE(g, &err);
        flx_params *set = read_params(ctx, f, g);
        flx_tensor *tokens = text(ctx, 1), *out;
        run(g, set, tokens, NULL, &out);
        flx_decoder *d = flx_decoder_new(f, &decoder_options, &err);
        CHECK_MADE(d, &err);
        CHECK_OK(flx_decoder_feed(d, flx_tensor_const_data(tokens), NUM_TOKENS, logits, &err), &err);
        for (int i = 0; i < MODEL_VOCABULARY; i++)
            CHECK_NEAR(flx_tensor_get(out, (NUM_TOKENS - 1) * MODEL_VOCABULARY + i), (double)logits[i],
                       models[k].tolerance * fmax(1, fabs((double)logits[i])));
        flx_decoder_free(d);
        flx_tensor_release(out);
        flx_tensor_release(tokens);
        flx_params_release(set);
        flx_graph_release(g);
        flx_gguf_free(f);
        flx_context_free(ctx);
    }
}

static double loss_of(const flx_graph *g, const flx_params *set, flx_tensor *tokens, flx_tensor *next)
{
    flx_tensor *out[2];
    run(g, set, tokens, next, out);
    double loss = flx_tensor_get(out[0], 0);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    return loss;
}

/* All that is not an adapter is as in the file. */
static void check_base(const flx_gguf *f, const flx_graph *g, const flx_params *set)
{
    flx_error err = {0};
    for (size_t i = 0; i < flx_params_count(set); i++) {
        const char *name = flx_params_name(set, i);
        if (strstr(name, ".lora_"))
            continue;
        flx_tensor *t = flx_text_param(f, g, name, &err);
        CHECK_MADE(t, &err);
        const flx_tensor *now = flx_params_at(set, i);
        CHECK(flx_tensor_nbytes(t) == flx_tensor_nbytes(now));
        CHECK(memcmp(flx_tensor_const_data(t), flx_tensor_const_data(now), flx_tensor_nbytes(t)) == 0);
        flx_tensor_release(t);
    }
}

TEST(gguf_adapters_learn_while_the_packed_base_stays)
{
    enum { STEPS = 12 };
    static const char *const trained[] = {"*.lora_a", "*.lora_b"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = open_model(ctx, "llama", "q4_k");
    const flx_text_graph_options o = {.struct_size = sizeof o, .flags = FLX_TEXT_LOSS, .adapter_rank = 4};
    const flx_text_graph_options plain = {.struct_size = sizeof plain, .flags = FLX_TEXT_LOSS};
    flx_graph *g = flx_text_graph(f, &o, &err), *base = flx_text_graph(f, &plain, &err);
    CHECK_MADE(g, &err);
    CHECK_MADE(base, &err);
    flx_params *set = read_params(ctx, f, g);
    flx_tensor *tokens = text(ctx, 1), *next = text(ctx, 2);
    const double first = loss_of(g, set, tokens, next);
    CHECK_NEAR(first, loss_of(base, set, tokens, next), 1e-5); /* lora_b is zero */
    const flx_train_options adam = {.struct_size = sizeof adam,
                                    .optimiser = FLX_ADAM,
                                    .rate = 0.01,
                                    .set = set,
                                    .params = trained,
                                    .num_params = 2};
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
    CHECK_MADE(t, &err);
    const flx_feed feeds[] = {{"tokens", tokens}, {"next", next}};
    for (int i = 0; i < STEPS; i++)
        CHECK_OK(flx_trainer_step(t, feeds, 2, NULL, &err), &err);
    const double last = loss_of(g, set, tokens, next);
    CHECK_MSG(last < 0.5 * first, "the loss was %g and is %g", first, last);
    check_base(f, g, set);
    flx_trainer_free(t);
    flx_tensor_release(tokens);
    flx_tensor_release(next);
    flx_params_release(set);
    flx_graph_release(base);
    flx_graph_release(g);
    flx_gguf_free(f);
    flx_context_free(ctx);
}

TEST(gguf_whole_text_refuses_wrong_options)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_gguf *f = open_model(ctx, "llama", "q8_0");
    const flx_text_graph_options rank = {.struct_size = sizeof rank, .adapter_rank = -1};
    const flx_text_graph_options flags = {.struct_size = sizeof flags, .flags = 1u << 20};
    const flx_text_graph_options bits = {.struct_size = sizeof bits, .activation_bits = 16};
    const flx_decoder_options decoder_bits = {.struct_size = sizeof decoder_bits, .activation_bits = 4};
    CHECK(!flx_text_graph(f, &bits, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_decoder_new(f, &decoder_bits, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_text_graph(f, &rank, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_text_graph(f, &flags, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_text_graph(NULL, NULL, &err) && err.code == FLX_E_USAGE);
    flx_gguf_free(f);
    flx_context_free(ctx);
}
