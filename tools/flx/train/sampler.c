/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c: see sampler.h. The window of tokens always has the same extent, so that the model is compiled once: its
   end is zero until it is full, and a model that predicts from earlier tokens does not look there. */
#include "train/sampler.h"

#include "report.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    flx_context *ctx;
    const flx_graph *predict;
    const flx_tokeniser *tokeniser;
    flx_exec *exec;
    flx_tensor *window; /* [1, length] */
    flx_tensor **outputs;
    const char *input;
    int64_t length, filled, vocabulary;
    sampler_options options;
    uint64_t state; /* of the random numbers */
    double *weight; /* of each token */
    double *sorted;
};

/* ---- Making ---- */

static int find_input(sampler *s, flx_type *type)
{
    for (size_t i = 0; i < flx_graph_input_count(s->predict); i++) {
        flx_val v = flx_graph_input(s->predict, i);
        if (flx_graph_input_is_param(s->predict, i))
            continue;
        s->input = flx_val_name(s->predict, v);
        *type = *flx_val_type(s->predict, v);
        if (type->rank == 2 && (type->dtype == FLX_I32 || type->dtype == FLX_I64))
            return STATUS_OK;
        break;
    }
    int status = fail(FLX_E_SHAPE, "the graph '%s' does not predict tokens", flx_graph_name(s->predict));
    hint("its first input must be integers [N, T], and output 0 the logits [N, T, V]");
    return status;
}

static int make(sampler *s, const flx_params *weights)
{
    flx_type type;
    flx_error err = {0};
    int status = find_input(s, &type);
    if (status)
        return status;
    if (flx_dim_is_static(type.dims[1]))
        s->length = (int64_t)type.dims[1];
    type.dims[0] = 1;
    type.dims[1] = (flx_dim)s->length;
    s->window = flx_tensor_new(s->ctx, &type, NULL, &err);
    s->exec = s->window ? flx_compile(s->predict, NULL, &err) : NULL;
    s->outputs = calloc(flx_graph_output_count(s->predict) + 1, sizeof(flx_tensor *));
    if (!s->exec || flx_params_bind(weights, s->exec, &err) != FLX_OK)
        return report(&err, NULL);
    return s->outputs ? STATUS_OK : fail_memory();
}

sampler *sampler_new(flx_context *ctx, const flx_graph *predict, const flx_params *weights,
                     const flx_tokeniser *tokeniser, int64_t length, const sampler_options *options)
{
    sampler *s = calloc(1, sizeof *s);
    if (!s) {
        fail_memory();
        return NULL;
    }
    *s = (sampler){.ctx = ctx,
                   .predict = predict,
                   .tokeniser = tokeniser,
                   .length = length,
                   .options = *options,
                   .state = options->seed};
    if (make(s, weights)) {
        sampler_free(s);
        return NULL;
    }
    return s;
}

static void release_outputs(sampler *s)
{
    for (size_t i = 0; s->outputs && i < flx_graph_output_count(s->predict); i++) {
        flx_tensor_release(s->outputs[i]);
        s->outputs[i] = NULL;
    }
}

void sampler_free(sampler *s)
{
    if (!s)
        return;
    release_outputs(s);
    free(s->outputs);
    flx_exec_free(s->exec);
    flx_tensor_release(s->window);
    free(s->weight);
    free(s->sorted);
    free(s);
}

/* ---- Tokens ---- */

/* Uniform in [0, 1): a counter that is mixed well (splitmix64). */
static double uniform(sampler *s)
{
    uint64_t z = s->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void put_token(sampler *s, int64_t at, int64_t token)
{
    void *data = flx_tensor_data(s->window);
    if (flx_tensor_type(s->window)->dtype == FLX_I32)
        ((int32_t *)data)[at] = (int32_t)token;
    else
        ((int64_t *)data)[at] = token;
}

/* The window moves on by half its length when it is full, so that most tokens see much of the text. */
static void append(sampler *s, int64_t token)
{
    if (s->filled == s->length) {
        int64_t kept = s->length - (s->length + 1) / 2, first = s->length - kept;
        for (int64_t i = 0; i < s->length; i++)
            put_token(s, i, i < kept ? (int64_t)flx_tensor_get(s->window, first + i) : 0);
        s->filled = kept;
    }
    put_token(s, s->filled++, token);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Weights of the tokens from their logits, relative to the most likely one. */
static int weigh(sampler *s, const flx_tensor *logits)
{
    int64_t n = flx_tensor_count(logits) / s->length, row = (s->filled - 1) * n;
    double most = -INFINITY;
    if (!s->weight) {
        s->vocabulary = n;
        s->weight = calloc((size_t)n + 1, sizeof *s->weight);
        s->sorted = calloc((size_t)n + 1, sizeof *s->sorted);
    }
    if (!s->weight || !s->sorted)
        return fail_memory();
    int64_t known = s->tokeniser ? flx_tokeniser_size(s->tokeniser) : 256; /* the model may have room for more */
    for (int64_t i = 0; i < n; i++) {
        s->weight[i] = i < known ? flx_tensor_get(logits, row + i) : -INFINITY;
        most = fmax(most, s->weight[i]);
    }
    if (n < 1 || !isfinite(most))
        return fail(FLX_E_NUMERIC, "the logits of the next token are not finite");
    double least = -INFINITY;
    if (s->options.top > 0 && s->options.top < n) {
        memcpy(s->sorted, s->weight, (size_t)n * sizeof *s->sorted);
        qsort(s->sorted, (size_t)n, sizeof *s->sorted, ascending);
        least = s->sorted[n - s->options.top];
    }
    for (int64_t i = 0; i < n; i++) {
        bool is_in = s->options.temperature > 0 ? s->weight[i] >= least : s->weight[i] == most;
        s->weight[i] =
            is_in ? exp((s->weight[i] - most) / (s->options.temperature > 0 ? s->options.temperature : 1)) : 0;
    }
    return STATUS_OK;
}

static int64_t draw(sampler *s)
{
    double sum = 0, limit;
    int64_t last = 0;
    for (int64_t i = 0; i < s->vocabulary; i++)
        sum += s->weight[i];
    limit = uniform(s) * sum;
    for (int64_t i = 0; i < s->vocabulary; i++) {
        if (s->weight[i] > 0)
            last = i;
        limit -= s->weight[i];
        if (limit < 0)
            break;
    }
    return last;
}

static int next_token(sampler *s, int64_t *token)
{
    flx_error err = {0};
    const flx_feed feed = {s->input, s->window};
    release_outputs(s);
    if (flx_exec_run(s->exec, NULL, &feed, 1, s->outputs, &err) != FLX_OK)
        return report(&err, NULL);
    int status = weigh(s, s->outputs[0]);
    *token = status ? 0 : draw(s);
    return status;
}

/* ---- Text ---- */

typedef struct {
    FILE *stream;
    char *text;
    size_t size;
} sink;

static int write_bytes(sink *to, const char *bytes, size_t n)
{
    if (to->stream) {
        fwrite(bytes, 1, n, to->stream);
        fflush(to->stream);
    }
    char *more = realloc(to->text, to->size + n + 1);
    if (!more)
        return fail_memory();
    memcpy(more + to->size, bytes, n);
    more[to->size += n] = 0;
    to->text = more;
    return STATUS_OK;
}

static int write_token(const sampler *s, sink *to, int64_t token)
{
    int32_t number = (int32_t)token;
    char byte = (char)token;
    flx_buffer text = {0};
    flx_error err = {0};
    if (!s->tokeniser)
        return write_bytes(to, &byte, 1);
    if (flx_tokeniser_decode(s->tokeniser, &number, 1, &text, &err) != FLX_OK)
        return report(&err, NULL);
    int status = write_bytes(to, text.data, text.size);
    flx_buffer_free(&text);
    return status;
}

static int read_prompt(sampler *s, const char *prompt)
{
    flx_error err = {0};
    size_t n = strlen(prompt);
    flx_tensor *tokens = s->tokeniser && n ? flx_tokeniser_encode(s->tokeniser, prompt, n, &err) : NULL;
    if (s->tokeniser && n && !tokens)
        return report(&err, NULL);
    int64_t count = tokens ? flx_tensor_count(tokens) : (int64_t)n;
    for (int64_t i = 0; i < count; i++)
        append(s, tokens ? (int64_t)flx_tensor_get(tokens, i) : (unsigned char)prompt[i]);
    flx_tensor_release(tokens);
    return STATUS_OK;
}

int sampler_run(sampler *s, const char *prompt, int64_t tokens, FILE *stream, char **text)
{
    sink to = {.stream = stream};
    int status = read_prompt(s, prompt[0] ? prompt : "\n");
    if (!status)
        status = write_bytes(&to, prompt, strlen(prompt));
    for (int64_t i = 0; !status && i < tokens; i++) {
        int64_t token;
        status = next_token(s, &token);
        if (!status)
            status = write_token(s, &to, token);
        if (!status)
            append(s, token);
    }
    if (text && !status)
        *text = to.text;
    else
        free(to.text);
    return status;
}
