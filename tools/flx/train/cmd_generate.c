/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_generate.c: `flx generate`: text from a model that `flx train` has trained. */
#include "args.h"
#include "commands.h"
#include "io/load.h"
#include "report.h"
#include "train/sampler.h"
#include "train/source.h"

#include <stdlib.h>
#include <unistd.h>

enum { USUAL_TOKENS = 200, USUAL_LENGTH = 64 };

typedef struct {
    model model;
    flx_params *weights;
    flx_tokeniser *tokeniser; /* NULL: tokens are bytes */
    int64_t tokens, length;
    sampler_options options;
} generation;

static int read_weights(generation *g, const char *path)
{
    flx_error err = {0};
    const flx_graph *predict = g->model.graph;
    g->weights = flx_params_of(predict, 0, &err);
    if (!g->weights || flx_params_load(g->weights, path, FLX_PARAMS_SURPLUS, &err) != FLX_OK)
        return report(&err, path);
    return STATUS_OK;
}

static int read_tokeniser(generation *g, const char *path)
{
    flx_error err = {0};
    if (access(path, F_OK) != 0)
        return STATUS_OK;
    g->tokeniser = flx_tokeniser_read(g->model.ctx, path, &err);
    return g->tokeniser ? STATUS_OK : report(&err, path);
}

static int read_model(generation *g, const char *path)
{
    int status = model_open(&g->model, path);
    if (status)
        return status;
    flx_graph *predict = flx_module_find(g->model.module, "predict");
    if (!predict) {
        status = fail(FLX_E_NAME, "%s has no graph 'predict'", path);
        hint("it takes tokens [N, T] and returns the logits [N, T, V] of those that follow");
        return status;
    }
    g->model.graph = predict;
    return STATUS_OK;
}

/* Calls `read` with FOLDER/NAME. */
static int read_part(generation *g, const char *folder, const char *name, int (*read)(generation *, const char *))
{
    char *path = path_in(folder, name);
    int status = path ? read(g, path) : fail_memory();
    g->model.path = g->model.name = "the model";
    free(path);
    return status;
}

static int read_options(const args *a, generation *g)
{
    const char *tokens = args_value(a, "--tokens"), *top = args_value(a, "--top"), *seed = args_value(a, "--seed");
    const char *length = args_value(a, "--length"), *temperature = args_value(a, "--temperature");
    int64_t seed_number = 0;
    g->tokens = USUAL_TOKENS;
    g->length = USUAL_LENGTH;
    g->options.temperature = 0.8;
    if (tokens && (!read_i64(tokens, &g->tokens) || g->tokens < 1))
        return fail(FLX_E_USAGE, "--tokens must be a positive integer, got '%s'", tokens);
    if (length && (!read_i64(length, &g->length) || g->length < 1 || g->length > 1 << 20))
        return fail(FLX_E_USAGE, "--length must be an integer between 1 and 1048576, got '%s'", length);
    if (top && (!read_i64(top, &g->options.top) || g->options.top < 1))
        return fail(FLX_E_USAGE, "--top must be a positive integer, got '%s'", top);
    if (seed && (!read_i64(seed, &seed_number) || seed_number < 0))
        return fail(FLX_E_USAGE, "--seed must be an integer that is not negative, got '%s'", seed);
    if (temperature && (!read_number(temperature, &g->options.temperature) ||
                        !(g->options.temperature >= 0 && g->options.temperature <= 100)))
        return fail(FLX_E_USAGE, "--temperature must be between 0 and 100, got '%s'", temperature);
    g->options.seed = (uint64_t)seed_number;
    return STATUS_OK;
}

static int generate(const generation *g, const char *prompt)
{
    sampler *s = sampler_new(g->model.ctx, g->model.graph, g->weights, g->tokeniser, g->length, &g->options);
    if (!s)
        return STATUS_BAD_INPUT;
    int status = sampler_run(s, prompt ? prompt : "", g->tokens, stdout, NULL);
    putchar('\n');
    sampler_free(s);
    return status;
}

static int run_generate(const args *a)
{
    generation g = {0};
    int status = read_options(a, &g);
    if (!status)
        status = read_part(&g, a->operand, "model.flx", read_model);
    if (!status)
        status = read_part(&g, a->operand, "weights.safetensors", read_weights);
    if (!status)
        status = read_part(&g, a->operand, "tokeniser.json", read_tokeniser);
    if (!status)
        status = generate(&g, args_value(a, "--prompt"));
    flx_params_release(g.weights);
    flx_tokeniser_free(g.tokeniser);
    model_close(&g.model);
    return status;
}

static const option options[] = {
    {"--prompt", "TEXT", "what to continue; nothing unless given", MAY_BE_GIVEN},
    {"--tokens", "N", "how many tokens to add; 200 unless given", MAY_BE_GIVEN},
    {"--temperature", "T",
     "above 1 more varied, below 1 more likely text; 0: always the most\nlikely token; 0.8 unless given", MAY_BE_GIVEN},
    {"--top", "K", "draw from the K most likely tokens only", MAY_BE_GIVEN},
    {"--seed", "S", "of the random numbers; 0 unless given", MAY_BE_GIVEN},
    {"--length", "L", "how many tokens the model sees, if its graph does not say; 64 unless given", MAY_BE_GIVEN},
    {0},
};

static const char *const examples[] = {
    "flx train examples/gpt.train --steps 3 --out gpt.run",
    "flx generate gpt.run --prompt 'The bear' --tokens 20",
    "flx generate gpt.run --tokens 20 --temperature 0 --seed 7",
    NULL,
};

const command command_generate = {
    .name = "generate",
    .operand = "FOLDER",
    .summary = "continue a text with a model that flx train has trained",
    .about = "Reads model.flx, weights.safetensors and tokeniser.json (if it is there) from the folder that flx train\n"
             "has written, and prints the prompt and its continuation, token by token. The graph `predict` of the\n"
             "model takes tokens [N, T] and returns the logits [N, T, V] of those that follow. The same seed gives\n"
             "the same text.",
    .options = options,
    .examples = examples,
    .run = run_generate,
};
