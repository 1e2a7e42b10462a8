/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c: text from a trained model. The tokens that the model sees are a window. A graph without states gets the
   whole window in every run: it always has the same extent, so that the graph is prepared once, and its end is zero
   until it is full. A graph with states gets each token of the window once; when the window moves on, its states are
   zero again and it gets what is left of the window. Both therefore see the same tokens at the same positions. */
#include "train/params.h"

#include "base/context.h"
#include "base/options.h"

#include <fluxion/generate.h>
#include <math.h>
#include <stdlib.h>

/* A parameter that each run sets: leaf `leaf` becomes output `output`. */
typedef struct {
    size_t output;
    const char *name;
    flx_tensor *value;
} carried;

typedef struct {
    const flx_graph *g;
    flx_generate_options o;
    flxi_arena arena;
    flx_exec *exec;
    const char *input; /* its tokens … */
    flx_type type;     /* … of this type */
    carried *states;
    size_t num_states;
    flx_feed *feeds;
    flx_tensor **outputs;
    size_t num_outputs;
    int64_t *window;
    int64_t filled, seen; /* tokens in the window; how many of them the states have seen */
    double *weight, *sorted;
    int64_t vocabulary, known; /* logits of a token; tokens that have a text */
    uint64_t random;
    flxi_strbuf text;
    bool is_ended;
    flx_error *err;
} generation;

/* ---- The graph ---- */

static flx_code not_a_decoder(const generation *w)
{
    return flxi_fail_hint(w->err, FLX_E_SHAPE,
                          "its one input is integers [N, T], and output 0 the logits [N, T, V] of what follows",
                          "the graph '%.60s' does not predict tokens", flx_graph_name(w->g));
}

/* A cache that is too small would lose tokens without a word. */
static flx_code check_room(const generation *w, const char *name, const flx_type *type)
{
    if (type->rank != 3 || type->dims[0] != 1 || type->dims[1] < 2 || type->dims[1] >= w->o.context)
        return FLX_OK;
    return flxi_fail(w->err, FLX_E_SHAPE, "the state '%.60s' has room for %lld tokens, the context is %lld", name,
                     (long long)type->dims[1], (long long)w->o.context);
}

/* Where the tokens go, and which parameters are states. */
static flx_code find_leaves(generation *w)
{
    size_t n = flx_graph_input_count(w->g), inputs = 0;
    w->states = flxi_new(&w->arena, carried, n);
    w->feeds = flxi_new(&w->arena, flx_feed, n + 1);
    if (!w->states || !w->feeds)
        return flxi_oom(w->err, "states");
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(w->g, i);
        carried *next = &w->states[w->num_states];
        if (!flx_graph_input_is_param(w->g, i)) {
            w->input = flx_val_name(w->g, v);
            w->type = *flx_val_type(w->g, v);
            inputs++;
        } else if (flxi_find_update(w->g, i, &next->output)) {
            next->name = flx_val_name(w->g, v);
            w->num_states++;
        }
    }
    if (inputs != 1 || w->type.rank != 2 || (w->type.dtype != FLX_I32 && w->type.dtype != FLX_I64) || !w->num_outputs)
        return not_a_decoder(w);
    return FLX_OK;
}

static flx_code read_context(generation *w)
{
    bool is_static = flx_dim_is_static(w->type.dims[1]);
    if (w->num_states && !w->o.context)
        return flxi_fail_hint(w->err, FLX_E_USAGE, "give options.context: as many tokens as its caches have room for",
                              "the graph '%.60s' has states, but how many tokens it may see is not given",
                              flx_graph_name(w->g));
    if (w->num_states && is_static && w->type.dims[1] != 1)
        return not_a_decoder(w);
    if (!w->num_states && is_static)
        w->o.context = (int64_t)w->type.dims[1];
    w->o.context = w->o.context ? w->o.context : 64;
    w->type.dims[0] = 1;
    w->window = w->o.context > 0 ? flxi_new(&w->arena, int64_t, w->o.context) : NULL;
    return w->window ? FLX_OK : w->o.context > 0 ? flxi_oom(w->err, "the window") : not_a_decoder(w);
}

static flx_code clear_states(generation *w)
{
    for (size_t i = 0; i < w->num_states; i++) {
        carried *s = &w->states[i];
        const flx_type *type = flx_val_type(w->g, flx_graph_find(w->g, s->name));
        flx_tensor_release(s->value);
        s->value = flx_tensor_new(w->g->ctx, type, NULL, w->err);
        if (!s->value)
            return (flx_code)w->err->code;
        FLXI_TRY(check_room(w, s->name, type));
    }
    w->seen = 0;
    return FLX_OK;
}

static bool is_state(const generation *w, const char *name)
{
    for (size_t i = 0; i < w->num_states; i++)
        if (strcmp(w->states[i].name, name) == 0)
            return true;
    return false;
}

static flx_code bind_weights(const generation *w, const flx_params *weights)
{
    const char *name;
    for (size_t i = 0; (name = flx_exec_param_name(w->exec, i)); i++) {
        flx_tensor *value = is_state(w, name) ? NULL : flx_params_find(weights, name);
        if (is_state(w, name))
            continue;
        if (!value)
            return flxi_fail(w->err, FLX_E_NAME, "the weights lack the parameter '%.60s'", name);
        FLXI_TRY(flx_exec_share_param(w->exec, name, value, w->err));
    }
    return FLX_OK;
}

static flx_code prepare(generation *w, const flx_params *weights)
{
    FLXI_TRY(flx_graph_error(w->g, w->err));
    w->num_outputs = flx_graph_output_count(w->g);
    FLXI_TRY(find_leaves(w));
    FLXI_TRY(read_context(w));
    FLXI_TRY(clear_states(w));
    w->outputs = flxi_new(&w->arena, flx_tensor *, w->num_outputs);
    if (!w->outputs)
        return flxi_oom(w->err, "outputs");
    w->exec = flx_compile(w->g, NULL, w->err);
    return w->exec ? bind_weights(w, weights) : (flx_code)w->err->code;
}

/* ---- Runs ---- */

/* Tokens [first, first + count) of the window. */
static flx_tensor *tokens_at(generation *w, int64_t first, int64_t count)
{
    w->type.dims[1] = (flx_dim)count;
    flx_tensor *t = flx_tensor_new(w->g->ctx, &w->type, NULL, w->err);
    for (int64_t i = 0; t && i < count; i++) {
        if (w->type.dtype == FLX_I32)
            ((int32_t *)flx_tensor_data(t))[i] = (int32_t)w->window[first + i];
        else
            ((int64_t *)flx_tensor_data(t))[i] = w->window[first + i];
    }
    return t;
}

static void release_outputs(generation *w)
{
    for (size_t i = 0; w->outputs && i < w->num_outputs; i++) {
        flx_tensor_release(w->outputs[i]);
        w->outputs[i] = NULL;
    }
}

/* The states become what the run returned. */
static void advance(generation *w, int64_t count)
{
    for (size_t i = 0; i < w->num_states; i++) {
        carried *s = &w->states[i];
        flx_tensor_release(s->value);
        s->value = w->outputs[s->output];
        w->outputs[s->output] = NULL;
    }
    w->seen += count;
}

static flx_code run(generation *w, int64_t first, int64_t count)
{
    const flx_run_options options = {.struct_size = sizeof options, .stop = w->o.stop};
    flx_tensor *tokens = tokens_at(w, first, count);
    if (!tokens)
        return (flx_code)w->err->code;
    w->feeds[0] = (flx_feed){w->input, tokens};
    for (size_t i = 0; i < w->num_states; i++)
        w->feeds[i + 1] = (flx_feed){w->states[i].name, w->states[i].value};
    release_outputs(w);
    flx_code code = flx_exec_run(w->exec, &options, w->feeds, w->num_states + 1, w->outputs, w->err);
    flx_tensor_release(tokens);
    if (code == FLX_OK)
        advance(w, count);
    return code;
}

/* Runs the model on what it has not seen; *row is where the logits of the last token are, of `rows`. */
static flx_code run_window(generation *w, bool is_one_by_one, int64_t *row, int64_t *rows)
{
    if (!w->num_states) {
        *row = w->filled - 1;
        *rows = w->o.context;
        return run(w, 0, w->o.context);
    }
    *rows = is_one_by_one ? 1 : w->filled - w->seen;
    *row = *rows - 1;
    while (w->seen < w->filled)
        FLXI_TRY(run(w, w->seen, *rows));
    return FLX_OK;
}

/* ---- Tokens ---- */

/* Uniform in [0, 1): a counter that is mixed well (splitmix64). */
static double uniform(generation *w)
{
    uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The window moves on by half its length when it is full, so that most tokens see much of the text. */
static flx_code append(generation *w, int64_t token)
{
    if (w->filled == w->o.context) {
        int64_t kept = w->o.context - (w->o.context + 1) / 2;
        memmove(w->window, w->window + w->o.context - kept, (size_t)kept * sizeof *w->window);
        memset(w->window + kept, 0, (size_t)(w->o.context - kept) * sizeof *w->window);
        w->filled = kept;
        FLXI_TRY(clear_states(w));
    }
    w->window[w->filled++] = token;
    return FLX_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static flx_code make_weights(generation *w, int64_t rows)
{
    int64_t n = flx_tensor_count(w->outputs[0]) / rows;
    if (n < 1 || flx_tensor_count(w->outputs[0]) % rows || !flxi_is_float(flx_tensor_type(w->outputs[0])->dtype))
        return not_a_decoder(w);
    w->vocabulary = n;
    w->known = w->o.tokeniser ? flx_tokeniser_size(w->o.tokeniser) : 256; /* the model may have room for more */
    w->weight = flxi_new(&w->arena, double, n);
    w->sorted = flxi_new(&w->arena, double, n);
    return w->weight && w->sorted ? FLX_OK : flxi_oom(w->err, "logits");
}

/* The least logit that is drawn: that of the last of the top tokens. */
static double least_logit(const generation *w)
{
    int64_t n = w->vocabulary;
    if (w->o.top == 0 || w->o.top >= n)
        return -INFINITY;
    memcpy(w->sorted, w->weight, (size_t)n * sizeof *w->sorted);
    qsort(w->sorted, (size_t)n, sizeof *w->sorted, ascending);
    return w->sorted[n - w->o.top];
}

/* Weights of the tokens from their logits, relative to the most likely one. */
static flx_code weigh(generation *w, int64_t row, int64_t rows)
{
    double most = -INFINITY;
    if (!w->weight)
        FLXI_TRY(make_weights(w, rows));
    for (int64_t i = 0; i < w->vocabulary; i++) {
        w->weight[i] = i < w->known ? flx_tensor_get(w->outputs[0], row * w->vocabulary + i) : -INFINITY;
        most = fmax(most, w->weight[i]);
    }
    if (!isfinite(most))
        return flxi_fail(w->err, FLX_E_NUMERIC, "the logits of the next token are not finite");
    bool is_drawn = !(w->o.flags & FLX_GENERATE_MOST_LIKELY);
    double least = is_drawn ? least_logit(w) : most;
    for (int64_t i = 0; i < w->vocabulary; i++)
        w->weight[i] = w->weight[i] >= least ? exp((w->weight[i] - most) / w->o.temperature) : 0;
    return FLX_OK;
}

static int64_t draw(generation *w)
{
    double sum = 0, limit;
    int64_t last = 0;
    for (int64_t i = 0; i < w->vocabulary; i++)
        sum += w->weight[i];
    limit = uniform(w) * sum;
    for (int64_t i = 0; i < w->vocabulary; i++) {
        if (w->weight[i] > 0)
            last = i;
        limit -= w->weight[i];
        if (limit < 0)
            break;
    }
    return last;
}

/* ---- Text ---- */

static void put(generation *w, const char *bytes, size_t n)
{
    flxi_add_bytes(&w->text, bytes, n);
    if (n && w->o.write && w->o.write(w->o.write_user, bytes, n))
        w->is_ended = true;
}

static flx_code put_token(generation *w, int64_t token)
{
    int32_t number = (int32_t)token;
    char byte = (char)token;
    flx_buffer text = {0};
    if (!w->o.tokeniser) {
        put(w, &byte, 1);
        return FLX_OK;
    }
    FLXI_TRY(flx_tokeniser_decode(w->o.tokeniser, &number, 1, &text, w->err));
    put(w, text.data, text.size);
    flx_buffer_free(&text);
    return FLX_OK;
}

static flx_code read_prompt(generation *w, const char *prompt)
{
    size_t n = strlen(prompt);
    flx_tensor *tokens = w->o.tokeniser ? flx_tokeniser_encode(w->o.tokeniser, prompt, n, w->err) : NULL;
    if (w->o.tokeniser && !tokens)
        return (flx_code)w->err->code;
    flx_code code = FLX_OK;
    int64_t count = tokens ? flx_tensor_count(tokens) : (int64_t)n;
    for (int64_t i = 0; code == FLX_OK && i < count; i++)
        code = append(w, tokens ? (int64_t)flx_tensor_get(tokens, i) : (unsigned char)prompt[i]);
    flx_tensor_release(tokens);
    return code;
}

static flx_code generate(generation *w, const flx_params *weights, const char *prompt)
{
    FLXI_TRY(prepare(w, weights));
    bool is_one_by_one = flx_dim_is_static(w->type.dims[1]);
    FLXI_TRY(read_prompt(w, prompt && prompt[0] ? prompt : "\n")); /* a model needs something to continue */
    if (prompt)
        put(w, prompt, strlen(prompt));
    for (int64_t i = 0; i < w->o.tokens && !w->is_ended; i++) {
        int64_t row, rows;
        FLXI_TRY(run_window(w, is_one_by_one, &row, &rows));
        FLXI_TRY(weigh(w, row, rows));
        int64_t token = draw(w);
        FLXI_TRY(put_token(w, token));
        FLXI_TRY(append(w, token));
    }
    return FLX_OK;
}

static flx_code check(flx_generate_options *o, flx_error *err)
{
    if (o->flags & ~(uint32_t)FLX_GENERATE_MOST_LIKELY)
        return flxi_fail(err, FLX_E_USAGE, "flx_generate: unknown flags 0x%x", (unsigned)o->flags);
    if (o->tokens < 0 || o->context < 0 || o->context > INT32_MAX || o->top < 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_generate: tokens, context and top must not be negative");
    if (!(o->temperature >= 0) || !isfinite(o->temperature))
        return flxi_fail(err, FLX_E_USAGE, "flx_generate: the temperature must be a finite number >= 0");
    o->tokens = o->tokens ? o->tokens : 200;
    o->temperature = o->temperature > 0 ? o->temperature : 0.8;
    return FLX_OK;
}

static void free_all(generation *w)
{
    release_outputs(w);
    for (size_t i = 0; i < w->num_states; i++)
        flx_tensor_release(w->states[i].value);
    flx_exec_free(w->exec);
    flxi_arena_free(&w->arena);
}

flx_code flx_generate(const flx_graph *model, const flx_params *weights, const char *prompt,
                      const flx_generate_options *options, flx_buffer *out, flx_error *err)
{
    flx_error local = {0};
    generation w = {.g = model, .err = &local};
    if (!model || !weights)
        return flxi_fail(err, FLX_E_USAGE, "flx_generate: a graph and its weights must be given");
    FLXI_TRY(FLXI_READ_OPTIONS(flx_generate_options, &w.o, options, err));
    FLXI_TRY(check(&w.o, err));
    w.random = w.o.seed;
    flxi_arena_init(&w.arena, flxi_context_mem(model->ctx));
    flxi_strbuf_init(&w.text, flxi_context_mem(model->ctx));
    flx_code code = generate(&w, weights, prompt);
    if (code == FLX_OK && out)
        code = flxi_buffer_finish(&w.text, model->ctx, out, &local);
    else
        flxi_strbuf_free(&w.text);
    free_all(&w);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
