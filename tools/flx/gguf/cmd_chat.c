/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_chat.c: `flx chat`: a conversation with a language model from a GGUF file. */
#include "args.h"
#include "commands.h"
#include "gguf/turns.h"
#include "io/load.h"
#include "report.h"

#include <fluxion/decoder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { USUAL_TOKENS = 256, LINE_MAX_BYTES = 1 << 16 };

typedef struct {
    flx_sampling sampling;
    int64_t tokens, context, threads;
    int32_t activation_bits;
    uint64_t seed;
} settings;

typedef struct {
    const args *a;
    settings s;
    flx_context *ctx;
    flx_gguf *file;
    flx_vocabulary *vocabulary;
    flx_decoder *decoder;
    const turn_form *form;
    float *logits;
    int32_t *history; /* the tokens that the decoder has seen */
    bool has_forgotten;
    uint64_t random;
    double prompt_seconds, answer_seconds;
    int64_t prompt_tokens, answer_tokens;
} conversation;

/* ---- Options ---- */

static int read_count(const args *a, const char *name, int64_t least, int64_t most, int64_t *out)
{
    const char *text = args_value(a, name);
    if (!text || (read_i64(text, out) && *out >= least && *out <= most))
        return STATUS_OK;
    return fail(FLX_E_USAGE, "%s must be an integer between %lld and %lld, got '%s'", name, (long long)least,
                (long long)most, text);
}

static int read_part(const args *a, const char *name, double most, double *out)
{
    const char *text = args_value(a, name);
    if (!text || (read_number(text, out) && *out >= 0 && *out <= most))
        return STATUS_OK;
    return fail(FLX_E_USAGE, "%s must be a number between 0 and %g, got '%s'", name, most, text);
}

static int read_settings(const args *a, settings *s)
{
    int64_t top_k = 40, seed = 0;
    *s = (settings){.tokens = USUAL_TOKENS};
    s->sampling = (flx_sampling){.struct_size = sizeof s->sampling, .top_p = 0.95, .temperature = 0.8};
    int status = read_count(a, "--tokens", 1, 1 << 24, &s->tokens);
    status = status ? status : read_count(a, "--length", 1, 1 << 24, &s->context);
    status = status ? status : read_count(a, "--threads", 1, 1024, &s->threads);
    status = status ? status : read_count(a, "--top-k", 0, 1 << 24, &top_k);
    status = status ? status : read_count(a, "--seed", 0, INT64_MAX, &seed);
    status = status ? status : read_part(a, "--top-p", 1, &s->sampling.top_p);
    status = status ? status : read_part(a, "--min-p", 1, &s->sampling.min_p);
    status = status ? status : read_part(a, "--temperature", 100, &s->sampling.temperature);
    status = status ? status : activation_bits_read(a, &s->activation_bits);
    s->sampling.top_k = (int32_t)top_k;
    s->seed = (uint64_t)seed;
    return status;
}

/* ---- Tokens ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int show_token(const conversation *c, int32_t token)
{
    flx_error err = {0};
    flx_buffer text = {0};
    if (flx_vocabulary_decode(c->vocabulary, &token, 1, &text, &err))
        return report(&err, NULL);
    fwrite(text.data ? text.data : "", 1, text.size, stdout);
    fflush(stdout);
    flx_buffer_free(&text);
    return STATUS_OK;
}

/* The text of a turn with what the form puts around it; the caller frees it. */
static char *turn_text(const conversation *c, const char *user, bool is_first)
{
    const turn_form *f = c->form;
    const char *system = is_first ? args_value(c->a, "--system") : NULL;
    const char *parts[6] = {0};
    size_t n = 0, size = 1;
    if (!is_first)
        parts[n++] = f->model_after;
    if (system && f->system_before) {
        parts[n++] = f->system_before;
        parts[n++] = system;
        parts[n++] = f->system_after;
        system = NULL;
    }
    char *with_system = system ? malloc(strlen(system) + strlen(user) + 3) : NULL;
    if (system && with_system)
        sprintf(with_system, "%s\n\n%s", system, user);
    parts[n++] = f->user_before;
    parts[n++] = with_system ? with_system : user;
    for (size_t i = 0; i < n; i++)
        size += strlen(parts[i]);
    size += strlen(f->user_after);
    char *text = malloc(size);
    if (text) {
        text[0] = 0;
        for (size_t i = 0; i < n; i++)
            strcat(text, parts[i]);
        strcat(text, f->user_after);
    }
    free(with_system);
    return text;
}

/* Makes room for `count` tokens: of those that were seen, the latest are shown again, at most half of the context. The
   first one stays too, as attention depends on the token that begins a text. */
static int forget_older(conversation *c, int64_t count)
{
    flx_error err = {0};
    int64_t context = flx_decoder_context(c->decoder), seen = flx_decoder_seen(c->decoder);
    int64_t keep = count < context / 2 ? context / 2 : context - count;
    keep = keep < seen ? keep : seen;
    if (keep > 1)
        memmove(c->history + 1, c->history + seen - keep + 1, (size_t)(keep - 1) * sizeof *c->history);
    flx_decoder_rewind(c->decoder, 0);
    if (!c->has_forgotten)
        note("the context of %lld tokens is full: older tokens than the last %lld are forgotten, as often as needed; "
             "--length gives a longer one",
             (long long)context, (long long)keep);
    c->has_forgotten = true;
    if (keep && flx_decoder_feed(c->decoder, c->history, (size_t)keep, NULL, &err))
        return report(&err, NULL);
    return STATUS_OK;
}

/* Shows the decoder further tokens; what it has no room for it forgets. */
static int feed(conversation *c, const int32_t *tokens, int64_t count)
{
    flx_error err = {0};
    int64_t context = flx_decoder_context(c->decoder);
    if (count <= context && flx_decoder_seen(c->decoder) + count > context && forget_older(c, count))
        return STATUS_BAD_INPUT;
    int64_t seen = flx_decoder_seen(c->decoder);
    if (flx_decoder_feed(c->decoder, tokens, (size_t)count, c->logits, &err))
        return report(&err, NULL);
    memcpy(c->history + seen, tokens, (size_t)count * sizeof *tokens);
    return STATUS_OK;
}

static int feed_prompt(conversation *c, const char *user, bool is_first)
{
    flx_error err = {0};
    char *text = turn_text(c, user, is_first);
    if (!text)
        return fail_memory();
    uint32_t flags = FLX_ENCODE_CONTROLS | (is_first ? FLX_ENCODE_ENDS : 0u);
    flx_tensor *tokens = flx_vocabulary_encode(c->vocabulary, text, strlen(text), flags, &err);
    free(text);
    int status = STATUS_OK;
    int64_t n = tokens ? flx_tensor_count(tokens) : 0;
    double start = now();
    if (tokens && n == 0)
        status = fail(FLX_E_USAGE, "the prompt has no tokens");
    else
        status = tokens ? feed(c, flx_tensor_const_data(tokens), n) : report(&err, NULL);
    c->prompt_seconds += now() - start;
    c->prompt_tokens += n;
    flx_tensor_release(tokens);
    return status;
}

static int answer(conversation *c)
{
    flx_error err = {0};
    double start = now();
    for (int64_t i = 0; i < c->s.tokens; i++) {
        int32_t token =
            flx_sample_token(c->ctx, c->logits, flx_decoder_vocabulary(c->decoder), &c->s.sampling, &c->random, &err);
        if (token < 0)
            return report(&err, NULL);
        if (flx_vocabulary_is_end(c->vocabulary, token))
            break;
        if (token < flx_vocabulary_size(c->vocabulary) && show_token(c, token))
            return STATUS_BAD_INPUT;
        c->answer_tokens++;
        int status = feed(c, &token, 1);
        if (status)
            return status;
    }
    putchar('\n');
    c->answer_seconds += now() - start;
    return STATUS_OK;
}

/* ---- The conversation ---- */

static int open_model(conversation *c, const char *path)
{
    flx_error err = {0};
    c->ctx = flx_context_new(NULL);
    if (!c->ctx)
        return fail_memory();
    const flx_decoder_options o = {.struct_size = sizeof o,
                                   .context = c->s.context,
                                   .threads = (int32_t)c->s.threads,
                                   .activation_bits = c->s.activation_bits};
    c->file = flx_gguf_read(c->ctx, path, &err);
    c->vocabulary = c->file ? flx_vocabulary_new(c->file, &err) : NULL;
    c->decoder = c->vocabulary ? flx_decoder_new(c->file, &o, &err) : NULL;
    if (!c->decoder)
        return report(&err, path);
    c->form = args_has(c->a, "--raw") ? turn_form_plain() : turn_form_of(c->file);
    if (flx_vocabulary_warning(c->vocabulary))
        note("%s", flx_vocabulary_warning(c->vocabulary));
    c->logits = calloc((size_t)flx_decoder_vocabulary(c->decoder), sizeof *c->logits);
    c->history = calloc((size_t)flx_decoder_context(c->decoder), sizeof *c->history);
    return c->logits && c->history ? STATUS_OK : fail_memory();
}

static void close_model(conversation *c)
{
    free(c->logits);
    free(c->history);
    flx_decoder_free(c->decoder);
    flx_vocabulary_free(c->vocabulary);
    flx_gguf_free(c->file);
    flx_context_free(c->ctx);
}

/* Lines of standard input are turns, until its end. */
static int talk(conversation *c)
{
    char *line = malloc(LINE_MAX_BYTES);
    int status = line ? STATUS_OK : fail_memory();
    for (bool is_first = true; !status; is_first = false) {
        fputs("> ", stderr);
        if (!fgets(line, LINE_MAX_BYTES, stdin))
            break;
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 0)
            continue;
        status = feed_prompt(c, line, is_first);
        if (!status)
            status = answer(c);
    }
    free(line);
    return status;
}

static int run_prompt(conversation *c, const char *prompt)
{
    int status = feed_prompt(c, prompt, true);
    if (!status && c->form == turn_form_plain())
        fputs(prompt, stdout); /* a continuation is read with what it continues */
    return status ? status : answer(c);
}

static int run_chat(const args *a)
{
    conversation c = {.a = a};
    const char *prompt = args_value(a, "--prompt") ? args_value(a, "--prompt") : args_value(a, "-p");
    int status = read_settings(a, &c.s);
    c.random = c.s.seed;
    if (!status)
        status = open_model(&c, a->operand);
    if (!status)
        status = prompt ? run_prompt(&c, prompt) : talk(&c);
    if (!status && args_has(a, "--times"))
        note("prompt: %lld %s, %.1f tokens/s; answer: %lld %s, %.1f tokens/s", (long long)c.prompt_tokens,
             plural(c.prompt_tokens, "token", "tokens"), (double)c.prompt_tokens / (c.prompt_seconds + 1e-9),
             (long long)c.answer_tokens, plural(c.answer_tokens, "token", "tokens"),
             (double)c.answer_tokens / (c.answer_seconds + 1e-9));
    close_model(&c);
    return status;
}

static const option options[] = {
    {"-p", "TEXT", "what to say; without it, each line of standard input is a turn", MAY_BE_GIVEN},
    {"--prompt", "TEXT", "the same", MAY_BE_GIVEN},
    {"--system", "TEXT", "instructions before the first turn", MAY_BE_GIVEN},
    {"--raw", NULL, "continue the text as it is, without marks of turns", MAY_BE_GIVEN},
    {"--tokens", "N", "the longest answer; 256 unless given", MAY_BE_GIVEN},
    {"--temperature", "T",
     "above 1 more varied, below 1 more likely; 0: always the most likely token;\n0.8 unless given", MAY_BE_GIVEN},
    {"--top-k", "K", "draw from the K most likely tokens only; 40 unless given, 0: all", MAY_BE_GIVEN},
    {"--top-p", "P", "draw from the fewest tokens of this probability together; 0.95 unless given", MAY_BE_GIVEN},
    {"--min-p", "P", "draw from tokens with this part of the greatest probability; 0 unless given", MAY_BE_GIVEN},
    {"--seed", "S", "of the random numbers; 0 unless given", MAY_BE_GIVEN},
    {"--length", "L", "how many tokens the model may see; what it was made for, at most 4096, unless\ngiven",
     MAY_BE_GIVEN},
    {"--threads", "N", "one for each core unless given", MAY_BE_GIVEN},
    OPTION_ACTIVATION_BITS("8"),
    {"--times", NULL, "print tokens per second at the end", MAY_BE_GIVEN},
    {0},
};

static const char *const examples[] = {
    "flx chat examples/tiny.gguf -p 'the' --tokens 8",
    "flx chat examples/tiny.gguf --raw -p 'the' --temperature 0 --tokens 4",
    "flx show examples/tiny.gguf",
    NULL,
};

const command command_chat = {
    .name = "chat",
    .operand = "FILE",
    .summary = "talk to a language model from a GGUF file",
    .about = "Reads the weights, the tokens and the marks of turns from FILE (.gguf), and prints the answer token by\n"
             "token. Without -p, each line of standard input is a turn, until its end. Files without a chat template\n"
             "are continued as plain text. The same seed gives the same answer.",
    .options = options,
    .examples = examples,
    .run = run_chat,
};
