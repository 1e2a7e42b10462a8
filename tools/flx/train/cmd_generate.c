/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_generate.c: `flx generate`: text from a model that `flx train` has trained. */
#include "args.h"
#include "commands.h"
#include "report.h"
#include "train/outcome/writing.h"
#include "train/trained.h"

enum { USUAL_LENGTH = 64 };

/* flx chat has the longer name. */
static const char *top_of(const args *a)
{
    const char *top = args_value(a, "--top");
    return top ? top : args_value(a, "--top-k");
}

static int read_options(const args *a, flx_generate_options *o)
{
    const char *tokens = args_value(a, "--tokens"), *top = top_of(a), *seed = args_value(a, "--seed");
    const char *length = args_value(a, "--length"), *temperature = args_value(a, "--temperature");
    int64_t seed_number = 0;
    *o = (flx_generate_options){.struct_size = sizeof *o, .context = USUAL_LENGTH, .temperature = 0.8};
    if (tokens && (!read_i64(tokens, &o->tokens) || o->tokens < 1))
        return fail(FLX_E_USAGE, "--tokens must be a positive integer, got '%s'", tokens);
    if (length && (!read_i64(length, &o->context) || o->context < 1 || o->context > 1 << 20))
        return fail(FLX_E_USAGE, "--length must be an integer between 1 and 1048576, got '%s'", length);
    if (top && (!read_i64(top, &o->top) || o->top < 1))
        return fail(FLX_E_USAGE, "--top must be a positive integer, got '%s'", top);
    if (seed && (!read_i64(seed, &seed_number) || seed_number < 0))
        return fail(FLX_E_USAGE, "--seed must be an integer that is not negative, got '%s'", seed);
    if (temperature && (!read_number(temperature, &o->temperature) || !(o->temperature >= 0 && o->temperature <= 100)))
        return fail(FLX_E_USAGE, "--temperature must be between 0 and 100, got '%s'", temperature);
    o->flags = o->temperature > 0 ? 0 : FLX_GENERATE_MOST_LIKELY;
    o->seed = (uint64_t)seed_number;
    return STATUS_OK;
}

static int run_generate(const args *a)
{
    trained t = {0};
    flx_generate_options o;
    const char *prompt = args_value(a, "--prompt");
    int status = read_options(a, &o);
    if (!status)
        status = trained_open(&t, a->operand);
    if (!status) {
        o.tokeniser = t.p.data.tokeniser;
        status = writing_run(t.p.model.module, t.p.predict, t.weights, prompt ? prompt : "", &o, stdout, NULL);
        putchar('\n');
    }
    trained_close(&t);
    return status;
}

static const option options[] = {
    {"--prompt", "TEXT", "what to continue; nothing unless given", MAY_BE_GIVEN},
    {"--tokens", "N", "how many tokens to add; 200 unless given", MAY_BE_GIVEN},
    {"--temperature", "T",
     "above 1 more varied, below 1 more likely text; 0: always the most\nlikely token; 0.8 unless given", MAY_BE_GIVEN},
    {"--top", "K", "draw from the K most likely tokens only", MAY_BE_GIVEN},
    {"--top-k", "K", "the same", MAY_BE_GIVEN},
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
