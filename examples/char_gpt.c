/* SPDX-License-Identifier: Apache-2.0 */
/* A small GPT, that of `flx model gpt`, learns to write byte by byte, is saved, and continues a text. Loss and decoder
   are two graphs with the same parameters; the decoder sees each byte once, because keys and values of all earlier ones
   are states. `flx train examples/gpt.train` is the same from the shell. The number of steps may be given. */
#include <fluxion/data.h>
#include <fluxion/fluxion.h>
#include <fluxion/generate.h>
#include <fluxion/nn.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONTEXT = 64 };

static flx_graph *build(flx_context *ctx, int is_decoding)
{
    flx_graph *g = flx_graph_new(ctx, is_decoding ? "decode" : "loss");
    flx_dim many[] = {flx_dim_symbol(ctx, "N"), CONTEXT}, one[] = {1, 1};
    flx_type bytes = flx_type_make(FLX_I32, 2, is_decoding ? one : many);
    flx_nn_gpt_options gpt = {.struct_size = sizeof gpt, .is_decoding = is_decoding, .context = CONTEXT};
    flx_val logits = flx_nn_gpt(g, "", flx_input(g, "x", &bytes), &gpt);
    if (is_decoding)
        flx_output(g, logits, "logits");
    else
        flx_output(g, flx_nn_cross_entropy(g, logits, flx_input(g, "next", &bytes), 0), "loss");
    return g;
}

static int show(void *user, const flx_progress *p) /* after each step: a bar, the loss, tokens/s, the time left */
{
    char text[160];
    (void)user;
    return fprintf(stderr, "\r%-79s", flx_progress_text(p, 24, text, sizeof text)) < 0;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 800;
    steps = steps > 0 ? steps : 12; /* --quick */
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_buffer text = {0}, written = {0};
    flx_demo_text(ctx, 200000, 1, &text, &err);
    flx_dataset *data = flx_dataset_text(ctx, text.data, text.size, NULL, CONTEXT, 0, &err);
    flx_loader_options shuffled = {.struct_size = sizeof shuffled, .flags = FLX_LOADER_SHUFFLE, .batch = 16};
    flx_loader *batches = data ? flx_loader_new(data, &shuffled, &err) : NULL;
    flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .warmup = 40};
    cosine.steps = steps;
    flx_graph *loss = build(ctx, 0), *decode = build(ctx, 1), *schedule = flx_schedule_graph(ctx, &cosine, &err);
    flx_train_options adamw = {.struct_size = sizeof adamw, .optimiser = FLX_ADAMW, .rate = 0.003, .clip_norm = 1};
    adamw.schedule = schedule;
    flx_trainer *t = batches ? flx_compile_training(loss, &adamw, NULL, &err) : NULL;
    flx_fit_options fit = {.struct_size = sizeof fit, .next = flx_loader_batch, .next_user = batches, .epochs = 1000};
    fit.max_steps = steps, fit.tokens = CONTEXT, fit.progress = show;
    flx_fit_result r = {0};
    flx_generate_options o = {.struct_size = sizeof o, .tokens = 300, .context = CONTEXT, .temperature = 0.7};
    if (t && flx_fit(t, &fit, &r, &err) == FLX_OK &&
        flx_params_save(flx_trainer_params(t), "char_gpt.safetensors", &err) == FLX_OK &&
        flx_generate(decode, flx_trainer_params(t), "The ", &o, &written, &err) == FLX_OK)
        printf("\n%s\nloss %.3f for each byte\n", written.data, r.loss);
    fputs(err.message, stderr);
    flx_trainer_free(t);
    flx_graph_release(schedule), flx_graph_release(decode), flx_graph_release(loss);
    flx_loader_free(batches), flx_dataset_free(data);
    flx_buffer_free(&text), flx_buffer_free(&written);
    flx_context_free(ctx);
    return err.code != FLX_OK || r.loss > (steps > 100 ? 0.7 : 5);
}
