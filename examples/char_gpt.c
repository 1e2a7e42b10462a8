/* SPDX-License-Identifier: Apache-2.0 */
/* A small GPT learns to write, character by character, and then writes: each new character needs one step of the
   decoder, because the keys and values of all earlier ones are kept in caches. Loss and decoder are two graphs with the
   same parameters. Prints the loss, a text, and how many of its words occur in the text that it was trained on. */
#include "example.h"
#include <fluxion/data.h>
#include <fluxion/nn.h>

enum { CHARACTERS = 128, WIDTH = 64, HEADS = 4, LAYERS = 2, CONTEXT = 64, LENGTH = 400, BATCH = 16 };

/* Logits [N, S, CHARACTERS] of the characters that follow. `caches`, of each layer, and `position` are for writing. */
static flx_val network(flx_graph *g, flx_val characters, flx_nn_cache *caches, flx_val position)
{
    flx_val x = flx_nn_embedding(g, "characters", characters, CHARACTERS, WIDTH, FLX_F32);
    flx_nn_attention_options attention = {.struct_size = sizeof attention, .heads = HEADS, .rope_theta = 10000};
    attention.mask_kind = caches ? "sliding_window" : "causal";
    attention.window = caches ? CONTEXT : 0; /* as far back as it has learned to look */
    attention.position = position;
    flx_nn_block_options block = {.struct_size = sizeof block, .is_rms = 1, .attention = &attention};
    for (int i = 0; i < LAYERS; i++) {
        attention.cache = caches ? &caches[i] : NULL;
        x = flx_nn_transformer_block(g, (const char *[LAYERS]){"block0", "block1"}[i], x, &block);
    }
    return flx_nn_project(g, "head", flx_nn_rms_norm(g, "norm", x, 0), CHARACTERS);
}

static flx_graph *build_loss(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "loss");
    flx_type type = of_type(FLX_I32, FLX_INTS(BATCH, CONTEXT));
    flx_val x = flx_input(g, "x", &type), next = flx_input(g, "next", &type);
    flx_val logits = flx_reshape(g, network(g, x, NULL, FLX_NONE), .shape = FLX_INTS(BATCH * CONTEXT, CHARACTERS));
    next = flx_reshape(g, next, .shape = FLX_INTS(BATCH * CONTEXT));
    flx_output(g, flx_nn_cross_entropy(g, logits, next, 0), "loss");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* What goes from one step of writing to the next: inputs of the decoder, and its outputs. */
enum { STATES = 2 + 2 * LAYERS };
static const char *const names[STATES] = {"character", "position", "keys0", "values0", "keys1", "values1"};

static flx_graph *build_decoder(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "decoder");
    flx_type one = of_type(FLX_I32, FLX_INTS(1, 1)), scalar = of_type(FLX_I32, FLX_NO_INTS);
    flx_type cache = of_type(FLX_F32, FLX_INTS(1, LENGTH, WIDTH)), pair = of_type(FLX_U32, FLX_INTS(2));
    flx_val character = flx_input(g, names[0], &one), position = flx_input(g, names[1], &scalar);
    flx_nn_cache caches[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        caches[i].keys = flx_input(g, names[2 + 2 * i], &cache);
        caches[i].values = flx_input(g, names[3 + 2 * i], &cache);
    }
    flx_val logits = network(g, character, caches, position);
    logits = flx_div(g, logits, flx_scalar(g, FLX_F32, 0.6)); /* a temperature below 1: rather the likely ones */
    flx_val key = flx_rng_fold_in(g, flx_iota(g, &pair, FLX_DEFAULT), flx_cast(g, position, FLX_U32));
    flx_output(g, flx_cast(g, flx_categorical(g, key, logits), FLX_I32), NULL);
    flx_output(g, flx_add(g, position, flx_scalar(g, FLX_I32, 1)), NULL);
    for (int i = 0; i < LAYERS; i++) {
        flx_output(g, caches[i].keys, NULL);
        flx_output(g, caches[i].values, NULL);
    }
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* Writes LENGTH characters to `text`, which begins with a prompt: what each step returns is fed to the next. */
static void write_text(flx_context *ctx, const flx_params *params, char *text)
{
    static const char prompt[] = "\n\nThe ";
    flx_graph *g = build_decoder(ctx);
    flx_exec *e = flx_compile(g, NULL, &err);
    need(e && flx_params_bind(params, e, &err) == FLX_OK);
    flx_feed feeds[STATES];
    flx_tensor *state[STATES];
    for (int k = 0; k < STATES; k++) {
        state[k] = flx_tensor_new(ctx, flx_val_type(g, flx_graph_find(g, names[k])), NULL, &err); /* zero */
        need(state[k] != NULL);
    }
    for (int i = 0; i < LENGTH; i++) {
        int32_t *character = flx_tensor_data(state[0]);
        if (i + 1 < (int)sizeof prompt)
            *character = prompt[i];
        text[i] = (char)*character;
        flx_tensor *next[STATES];
        for (int k = 0; k < STATES; k++)
            feeds[k] = (flx_feed){names[k], state[k]};
        need(flx_exec_run(e, NULL, feeds, STATES, next, &err) == FLX_OK);
        for (int k = 0; k < STATES; k++)
            flx_tensor_release(state[k]);
        memcpy(state, next, sizeof state);
    }
    for (int k = 0; k < STATES; k++)
        flx_tensor_release(state[k]);
    text[LENGTH] = 0;
    flx_exec_free(e);
    flx_graph_release(g);
}

/* The part of the words of `text` that occur in `known`. */
static double known_words(char *text, const char *known)
{
    int words = 0, found = 0;
    for (char *word = strtok(text, " .,\n"); word; word = strtok(NULL, " .,\n")) {
        words++;
        found += strstr(known, word) != NULL;
    }
    return words ? (double)found / words : 0;
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), steps = quick ? 30 : 1000;
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer text = {0};
    need(flx_demo_text(ctx, 500000, 1, &text, &err) == FLX_OK);
    flx_tensor *bytes = tensor(ctx, FLX_U8, FLX_INTS((flx_dim)text.size), text.data);
    flx_dataset *data = flx_dataset_windows(ctx, bytes, CONTEXT, CONTEXT, &err);
    need(data != NULL);
    flx_loader_options batches = {.struct_size = sizeof batches, .batch = BATCH, .seed = 1};
    batches.flags = FLX_LOADER_SHUFFLE | FLX_LOADER_DROP_LAST;
    flx_loader *loader = flx_loader_new(data, &batches, &err);
    flx_graph *loss = build_loss(ctx);
    flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .warmup = 20};
    cosine.steps = steps;
    flx_graph *schedule = flx_schedule_graph(ctx, &cosine, &err);
    flx_train_options adamw = {.struct_size = sizeof adamw, .optimiser = FLX_ADAMW, .rate = 0.004, .clip_norm = 1};
    adamw.schedule = schedule;
    flx_trainer *t = flx_compile_training(loss, &adamw, NULL, &err);
    need(loader && t);
    double value = 0, last = 0; /* the mean of the last tenth */
    for (int step = 1; step <= steps; step++) {
        const flx_feed *feeds;
        size_t count;
        need(flx_loader_next(loader, &feeds, &count, &err) == FLX_OK);
        need(flx_trainer_step(t, feeds, count, &value, &err) == FLX_OK);
        last += step > steps - steps / 10 ? value / (steps / 10) : 0;
        if (step % (steps / 5) == 0)
            printf("step %d: the loss is %.3f\n", step, value);
    }
    char written[LENGTH + 1];
    write_text(ctx, flx_trainer_params(t), written);
    puts(written);
    double known = known_words(written, text.data);
    printf("loss %.3f for each character, %.0f %% of the words are known\n", last, 100 * known);

    flx_trainer_free(t);
    flx_graph_release(schedule);
    flx_graph_release(loss);
    flx_loader_free(loader);
    flx_dataset_free(data);
    flx_tensor_release(bytes);
    flx_buffer_free(&text);
    flx_context_free(ctx);
    return verdict(quick ? last < 2.7 : last < 0.5 && known > 0.9);
}
