/* SPDX-License-Identifier: Apache-2.0 */
/* decoder_training.h: what examples/gpt2.c and examples/llama.c share: the task and the training. A sequence counts up
   by a fixed step modulo 11, and the decoder predicts the next word. The step differs between sequences, so the decoder
   must infer it from earlier words. The first word alone does not determine it, so the best possible loss is
   log(3) / 8 = 0.137. */
#ifndef DECODER_TRAINING_H
#define DECODER_TRAINING_H

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>

#include <math.h>
#include <stdio.h>

enum { WORDS = 11, TOKENS = 8, LARGEST_STEP = 3, BATCH = 32, STEPS = 200 };

static uint32_t seed = 1;

static int32_t draw(int32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int32_t)((uint64_t)seed * (uint64_t)below >> 32);
}

static void fill_batch(flx_tensor *words, flx_tensor *next)
{
    int32_t *w = flx_tensor_data(words), *n = flx_tensor_data(next);
    for (int i = 0; i < BATCH; i++) {
        int32_t first = draw(WORDS), step = 1 + draw(LARGEST_STEP);
        for (int t = 0; t < TOKENS; t++) {
            w[i * TOKENS + t] = (first + t * step) % WORDS;
            n[i * TOKENS + t] = (first + (t + 1) * step) % WORDS;
        }
    }
}

/* The loss of the last step; it starts near log(11). */
static flx_code train(flx_trainer *t, flx_tensor *words, flx_tensor *next, double *loss, flx_error *err)
{
    const flx_feed feeds[] = {{"words", words}, {"next", next}};
    for (int step = 1; step <= STEPS; step++) {
        fill_batch(words, next);
        if (flx_trainer_step(t, feeds, 2, loss, err) != FLX_OK)
            return (flx_code)err->code;
        if (step == 1 || step % 50 == 0)
            printf("step %3d  loss %.4f\n", step, *loss);
    }
    return FLX_OK;
}

static flx_code train_compiled(flx_context *ctx, flx_trainer *t, double *loss, flx_error *err)
{
    flx_type type = flx_type_make(FLX_I32, 2, (const flx_dim[]){BATCH, TOKENS});
    flx_tensor *words = flx_tensor_new(ctx, &type, NULL, err), *next = flx_tensor_new(ctx, &type, NULL, err);
    if (words && next)
        train(t, words, next, loss, err);
    flx_tensor_release(words);
    flx_tensor_release(next);
    return (flx_code)err->code;
}

/* Trains the loss `g` with inputs words and next [N, TOKENS]. Returns the exit status: 0 if it has learned the task. */
static int train_decoder(flx_context *ctx, const flx_graph *g)
{
    flx_error err = {0};
    const flx_train_options adam = {.optimiser = FLX_ADAM, .rate = 0.01, .clip_norm = 1};
    const flx_dim_binding batch = {"N", BATCH};
    const flx_compile_options options = {.flags = FLX_COMPILE_FLUSH, .dims = &batch, .num_dims = 1};
    flx_trainer *t = flx_compile_training(g, &adam, &options, &err);
    double loss = INFINITY;
    if (t)
        train_compiled(ctx, t, &loss, &err);
    flx_trainer_free(t);
    if (err.code)
        fprintf(stderr, "%s: %s\n", flx_code_name(err.code), err.message);
    return err.code || !(loss < 0.5);
}

#endif
