/* SPDX-License-Identifier: Apache-2.0 */
/* decoder_runs.c: runs a decoder. Tokens are shown to it in runs of few different lengths, so that few variants of
   the graph are prepared: a run of fewer tokens is filled up with token 0. What these put into the caches is after
   all tokens that exist, no token attends to it, and later tokens replace it. Caches grow by doubling, and are
   written in place where the compiled program allows it. */
#include "base/options.h"
#include "gguf/decoder_graph.h"
#include "graph/type/tensor.h"

#include <fluxion/decoder.h>
#include <fluxion/exec.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_ROOM = 256, USUAL_CONTEXT = 4096, LONGEST_RUN = 128 };

/* Lengths of runs, ascending. */
static const int64_t run_lengths[] = {1, 8, 32, LONGEST_RUN};

typedef struct {
    size_t input, output;   /* positions in the graph */
    flx_tensor *now, *next; /* next: NULL where a run writes in place */
} cache;

struct flx_decoder {
    flx_context *ctx;
    const flxi_allocator *mem;
    flx_decoder_options o;
    flxi_model_sizes m;
    flx_graph *graph;
    flx_exec *exec;
    flxi_arena arena;
    cache *caches;
    size_t num_caches;
    int64_t room, seen;
    const void **inputs; /* by position; NULL for parameters */
    void **outputs;
    size_t num_inputs, at_tokens, at_position, at_last;
    int32_t tokens[LONGEST_RUN], position, last;
    float *logits;
};

/* ---- Preparation ---- */

static flx_code bind_tensors(flx_decoder *d, const flx_gguf *f, const uint8_t *used, flx_error *err)
{
    for (size_t i = 0; i < f->tensors.n; i++) {
        if (used[i] == FLXI_TENSOR_UNUSED)
            continue;
        flx_tensor *t =
            used[i] == FLXI_TENSOR_PACKED ? flx_gguf_tensor_bytes(f, i, err) : flx_gguf_tensor_f32(f, i, err);
        flx_code code = t ? flx_exec_share_param(d->exec, f->tensors.at[i].name, t, err) : (flx_code)err->code;
        flx_tensor_release(t);
        FLXI_TRY(code);
    }
    return FLX_OK;
}

/* Positions of the inputs and caches. */
static flx_code find_inputs(flx_decoder *d, flx_error *err)
{
    d->num_inputs = flx_graph_input_count(d->graph);
    d->num_caches = 2 * (size_t)d->m.blocks;
    d->inputs = flxi_new(&d->arena, const void *, d->num_inputs);
    d->outputs = flxi_new(&d->arena, void *, 1 + d->num_caches);
    d->caches = flxi_new(&d->arena, cache, d->num_caches);
    d->logits = flxi_new(&d->arena, float, d->m.vocabulary);
    if (!d->inputs || !d->outputs || !d->caches || !d->logits)
        return flxi_oom(err, "a decoder");
    for (size_t i = 0, n = 0; i < d->num_inputs; i++) {
        const char *name = flx_val_name(d->graph, flx_graph_input(d->graph, i));
        if (flx_graph_input_is_param(d->graph, i))
            continue;
        if (strcmp(name, "tokens") == 0)
            d->at_tokens = i;
        else if (strcmp(name, "position") == 0)
            d->at_position = i;
        else if (strcmp(name, "last") == 0)
            d->at_last = i;
        else { /* keys and values in the order of the blocks, as the outputs are */
            d->caches[n].input = i;
            d->caches[n].output = 1 + n;
            n++;
        }
    }
    d->inputs[d->at_tokens] = d->tokens;
    d->inputs[d->at_position] = &d->position;
    d->inputs[d->at_last] = &d->last;
    d->outputs[0] = d->logits;
    return FLX_OK;
}

static flx_code compile(flx_decoder *d, flx_error *err)
{
    flx_share *shares = flxi_new(&d->arena, flx_share, d->num_caches);
    if (!shares)
        return flxi_oom(err, "a decoder");
    for (size_t i = 0; i < d->num_caches; i++)
        shares[i] = (flx_share){d->caches[i].input, d->caches[i].output};
    const flx_compile_options o = {.struct_size = sizeof o,
                                   .threads = d->o.threads,
                                   .shares = shares,
                                   .num_shares = d->num_caches,
                                   .stop = d->o.stop};
    d->exec = flx_compile(d->graph, &o, err);
    return d->exec ? FLX_OK : (flx_code)err->code;
}

static flx_code prepare(flx_decoder *d, const flx_gguf *f, flx_error *err)
{
    FLXI_TRY(flxi_model_sizes_read(f, &d->m, err));
    if (d->o.context == 0)
        d->o.context = d->m.context < USUAL_CONTEXT ? d->m.context : USUAL_CONTEXT;
    uint8_t *used = flxi_new(&d->arena, uint8_t, f->tensors.n);
    if (!used)
        return flxi_oom(err, "a decoder");
    d->graph = flxi_decoder_graph(f, &d->m, d->o.activation_bits, used, err);
    if (!d->graph)
        return (flx_code)err->code;
    FLXI_TRY(find_inputs(d, err));
    FLXI_TRY(compile(d, err));
    return bind_tensors(d, f, used, err);
}

/* ---- Caches ---- */

static flx_tensor *new_cache(const flx_decoder *d, int64_t room, flx_error *err)
{
    flx_type type = flx_type_make(FLX_F32, 3, (flx_dim[]){1, room, d->m.kv_heads * d->m.head_dim});
    return flx_tensor_new(d->ctx, &type, NULL, err);
}

static flx_code grow_cache(flx_decoder *d, cache *c, int64_t room, flx_error *err)
{
    flx_tensor *t = new_cache(d, room, err);
    if (!t)
        return (flx_code)err->code;
    if (c->now)
        memcpy(flx_tensor_data(t), flx_tensor_data(c->now),
               (size_t)(d->seen * d->m.kv_heads * d->m.head_dim) * sizeof(float));
    flx_tensor_release(c->now);
    flx_tensor_release(c->next);
    c->now = t;
    c->next = NULL;
    return FLX_OK;
}

/* Makes room for that many tokens. */
static flx_code reserve(flx_decoder *d, int64_t count, flx_error *err)
{
    int64_t room = d->room ? d->room : LEAST_ROOM;
    while (room < count)
        room *= 2;
    if (room == d->room)
        return FLX_OK;
    d->room = 0; /* until all have grown: a failure in between leaves caches of different sizes */
    for (size_t i = 0; i < d->num_caches; i++)
        FLXI_TRY(grow_cache(d, &d->caches[i], room, err));
    d->room = room;
    return FLX_OK;
}

/* Where this run writes the caches: in place, or into a second set. */
static flx_code place_caches(flx_decoder *d, const flx_run_options *o, flx_error *err)
{
    for (size_t i = 0; i < d->num_caches; i++) {
        cache *c = &d->caches[i];
        int may = 0;
        FLXI_TRY(flx_exec_may_share_at(d->exec, o, c->input, c->output, &may, err));
        if (!may && !c->next && !(c->next = new_cache(d, d->room, err)))
            return (flx_code)err->code;
        d->inputs[c->input] = flx_tensor_data(c->now);
        d->outputs[c->output] = flx_tensor_data(may ? c->now : c->next);
    }
    return FLX_OK;
}

static void swap_caches(flx_decoder *d)
{
    for (size_t i = 0; i < d->num_caches; i++) {
        cache *c = &d->caches[i];
        if (c->next && d->outputs[c->output] == flx_tensor_data(c->next)) {
            flx_tensor *t = c->now;
            c->now = c->next;
            c->next = t;
        }
    }
}

/* ---- Runs ---- */

/* One run of `count` tokens, at most LONGEST_RUN. */
static flx_code run(flx_decoder *d, const int32_t *tokens, int64_t count, flx_error *err)
{
    size_t k = 0;
    while (run_lengths[k] < count)
        k++;
    FLXI_TRY(reserve(d, d->seen + run_lengths[k], err));
    const flx_dim_binding dims[] = {{"T", run_lengths[k]}, {"C", d->room}};
    const flx_run_options o = {.struct_size = sizeof o, .dims = dims, .num_dims = 2, .stop = d->o.stop};
    memset(d->tokens, 0, sizeof d->tokens);
    memcpy(d->tokens, tokens, (size_t)count * sizeof *tokens);
    d->position = (int32_t)d->seen;
    d->last = (int32_t)count - 1;
    FLXI_TRY(place_caches(d, &o, err));
    FLXI_TRY(flx_exec_run_at_with(d->exec, &o, d->inputs, d->outputs, err));
    swap_caches(d);
    d->seen += count;
    return FLX_OK;
}

static flx_code check_tokens(const flx_decoder *d, const int32_t *tokens, size_t count, flx_error *err)
{
    if (count > (size_t)(d->o.context - d->seen))
        return flxi_fail_hint(err, FLX_E_SIZE,
                              "give a longer context: flx_decoder_options.context, --length of flx chat; or rewind",
                              "%zu tokens after %lld do not fit into a context of %lld", count, (long long)d->seen,
                              (long long)d->o.context);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= d->m.vocabulary)
            return flxi_fail(err, FLX_E_INDEX, "token %ld is not one of the %lld tokens of the model", (long)tokens[i],
                             (long long)d->m.vocabulary);
    return FLX_OK;
}

flx_code flx_decoder_feed(flx_decoder *d, const int32_t *tokens, size_t count, float *logits, flx_error *err)
{
    flx_error local = {0};
    if (!d || !tokens || count == 0)
        return flxi_fail(err, FLX_E_USAGE, "flx_decoder_feed: a decoder and at least one token must be given");
    FLXI_TRY(check_tokens(d, tokens, count, err));
    int64_t before = d->seen;
    flx_code code = FLX_OK;
    for (size_t i = 0; code == FLX_OK && i < count; i += LONGEST_RUN)
        code = run(d, tokens + i, count - i < LONGEST_RUN ? (int64_t)(count - i) : LONGEST_RUN, &local);
    if (code == FLX_OK && logits)
        memcpy(logits, d->logits, (size_t)d->m.vocabulary * sizeof *logits);
    if (code != FLX_OK) {
        d->seen = before;
        if (err)
            *err = local;
    }
    return code;
}

void flx_decoder_rewind(flx_decoder *d, int64_t count)
{
    if (d && count >= 0 && count < d->seen)
        d->seen = count;
}

/* ---- The decoder ---- */

static flx_code check_options(const flx_decoder_options *o, flx_error *err)
{
    if (o->activation_bits != 8 && o->activation_bits != 32)
        return flxi_fail(err, FLX_E_USAGE, "flx_decoder_new: activation_bits must be 8 or 32, or 0 for 8: it is %d",
                         (int)o->activation_bits);
    if (o->threads >= 0 && o->context >= 0 && o->context <= 1 << 24)
        return FLX_OK;
    return flxi_fail(err, FLX_E_USAGE,
                     "flx_decoder_new: threads and context must not be negative, nor the context above "
                     "2^24");
}

flx_decoder *flx_decoder_new(const flx_gguf *f, const flx_decoder_options *options, flx_error *err)
{
    flx_decoder_options o;
    flx_error local = {0};
    if (!f) {
        flxi_fail(err, FLX_E_USAGE, "flx_decoder_new: a file must be given");
        return NULL;
    }
    if (FLXI_READ_OPTIONS(flx_decoder_options, &o, options, err) != FLX_OK)
        return NULL;
    o.activation_bits = o.activation_bits ? o.activation_bits : 8;
    if (check_options(&o, err) != FLX_OK)
        return NULL;
    const flxi_allocator *mem = flxi_context_mem(f->ctx);
    flx_decoder *d = flxi_alloc(mem, 1, sizeof *d);
    if (!d) {
        flxi_oom(err, "a decoder");
        return NULL;
    }
    d->ctx = f->ctx;
    d->mem = mem;
    d->o = o;
    flxi_arena_init(&d->arena, mem);
    if (prepare(d, f, &local) == FLX_OK)
        return d;
    flx_decoder_free(d);
    if (err)
        *err = local;
    return NULL;
}

void flx_decoder_free(flx_decoder *d)
{
    if (!d)
        return;
    for (size_t i = 0; d->caches && i < d->num_caches; i++) {
        flx_tensor_release(d->caches[i].now);
        flx_tensor_release(d->caches[i].next);
    }
    flx_exec_free(d->exec);
    flx_graph_release(d->graph);
    flxi_arena_free(&d->arena);
    flxi_free(d->mem, d, 1, sizeof *d);
}

int64_t flx_decoder_vocabulary(const flx_decoder *d)
{
    return d ? d->m.vocabulary : 0;
}

int64_t flx_decoder_context(const flx_decoder *d)
{
    return d ? d->o.context : 0;
}

int64_t flx_decoder_seen(const flx_decoder *d)
{
    return d ? d->seen : 0;
}

flx_graph *flx_decoder_graph(const flx_decoder *d)
{
    return d ? d->graph : NULL;
}
