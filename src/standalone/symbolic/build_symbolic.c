/* SPDX-License-Identifier: Apache-2.0 */
/* build_symbolic.c: flx_build_c() of a graph with symbolic dimensions: models for all samples, planned together, written
   one by one, and merged (symbolic.h). */
#include "base/context.h"
#include "base/options.h"
#include "graph/graph.h"
#include "passes/pass.h"
#include "standalone/symbolic/symbolic.h"

#include <fluxion/transform.h>
#include <stdio.h>
#include <string.h>

/* Which samples a try has: those of symbolic_fit.c, with others that tell formulas apart. */
typedef struct {
    int shift;
    size_t num_added, num_tried;
    int64_t added[FLXI_SA_MAX_ADDED][FLXI_SA_MAX_SYMBOLS], tried[FLXI_SA_MAX_TRIED][FLXI_SA_MAX_SYMBOLS];
} samples;

typedef struct {
    flx_buffer *source, *header;
    flx_build_sizes *sizes;
} results;

typedef struct {
    const flx_graph *g;
    const flx_build_options *o;
    flxi_sa_points p;
    flxi_sa_file names; /* texts that live as long as this */
    flx_graph *graphs[FLXI_SA_MAX_SAMPLES];
    flxi_sa_model *models[FLXI_SA_MAX_SAMPLES];
    flx_build_sizes sizes[FLXI_SA_MAX_SAMPLES];
    flx_buffer sources[FLXI_SA_MAX_SAMPLES], headers[FLXI_SA_MAX_SAMPLES];
    flxi_sa_polys counts; /* of elements, and of rows */
    flxi_sa_range range;
    bool is_about_samples; /* what fails now may be built from others */
    flx_error *err;
} builder;

/* The name of an extent in the file, which nothing else there has: `N` as it is, `batch` as `batch_extent`. Names that
   begin with a capital and have no `_` are not made for variables, functions or macros. */
static const char *extent_name(builder *b, const char *symbol)
{
    bool is_plain = *symbol >= 'A' && *symbol <= 'Z' && !strchr(symbol, '_');
    const char *name = flxi_sa_identifier(&b->names, symbol);
    name = is_plain ? name : flxi_sa_text(&b->names, "%.50s_extent", name);
    for (size_t s = 0; s < b->p.num_symbols; s++)
        if (strcmp(b->p.names[s], name) == 0)
            name = flxi_sa_text(&b->names, "%s_%zu", name, b->p.num_symbols + 1);
    return name;
}

static flx_code name_symbols(builder *b)
{
    const char *symbol;
    while ((symbol = flx_graph_symbol(b->g, b->p.num_symbols)) != NULL) {
        if (b->p.num_symbols == FLXI_SA_MAX_SYMBOLS) {
            flxi_fail(b->err, FLX_E_UNBOUND_DIM, "a C file takes at most %d extents as arguments; '%.60s' is one more",
                      FLXI_SA_MAX_SYMBOLS, symbol);
            flxi_hint(b->err, "give its extent: --set %.60s=INT (flx_build_options.dims)", symbol);
            return FLX_E_UNBOUND_DIM;
        }
        b->p.names[b->p.num_symbols] = extent_name(b, symbol);
        b->p.num_symbols++;
    }
    return b->names.failed ? flxi_oom(b->err, "C text") : FLX_OK;
}

static void take_samples(builder *b, const samples *s)
{
    flxi_sa_points_init(&b->p, s->shift);
    for (size_t i = 0; i < s->num_added; i++)
        memcpy(b->p.at[b->p.n++], s->added[i], sizeof s->added[i]);
    memcpy(b->p.tried, s->tried, sizeof s->tried);
    b->p.num_tried = s->num_tried;
}

static bool is_word(char c)
{
    return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* In place of an extent of the sample, which is a number of this file's own, the text gets the name of the symbol. */
static void name_extent(char *text, size_t room, int64_t extent, const char *symbol)
{
    char number[24], rest[sizeof((flx_error){0}).message];
    size_t n = (size_t)snprintf(number, sizeof number, "%lld", (long long)extent);
    for (char *at = text; (at = strstr(at, number)) != NULL; at++) {
        if ((at > text && is_word(at[-1])) || is_word(at[n]))
            continue;
        snprintf(rest, sizeof rest, "%s", at + n);
        snprintf(at, room - (size_t)(at - text), "%.60s%s", symbol, rest);
    }
}

static void name_extents(const builder *b, size_t i)
{
    for (size_t s = 0; s < b->p.num_symbols; s++) {
        const char *symbol = flx_graph_symbol(b->g, s);
        name_extent(b->err->message, sizeof b->err->message, b->p.at[i][s], symbol);
        name_extent(b->err->hint, sizeof b->err->hint, b->p.at[i][s], symbol);
    }
}

static flx_code open_sample(builder *b, size_t i)
{
    flx_dim_binding dims[FLXI_SA_MAX_SYMBOLS];
    for (size_t s = 0; s < b->p.num_symbols; s++)
        dims[s] = (flx_dim_binding){flx_graph_symbol(b->g, s), b->p.at[i][s]};
    b->graphs[i] = flx_specialise(b->g, dims, b->p.num_symbols, b->err);
    if (!b->graphs[i] && b->err->code != FLX_E_OOM) {
        const flx_error why = *b->err;
        flxi_fail(b->err, FLX_E_UNBOUND_DIM, "the graph does not take all extents of '%.30s': %.160s", dims[0].name,
                  why.message);
        flxi_hint(b->err, "give its extent: --set %.60s=INT (flx_build_options.dims)", dims[0].name);
    }
    if (!b->graphs[i])
        return (flx_code)b->err->code;
    const flxi_sa_symbols symbols = {b->p.names, b->p.at[i], b->p.num_symbols};
    flx_code code = flxi_sa_model_open(b->graphs[i], b->o, &symbols, &b->models[i], b->err);
    if (code != FLX_OK)
        name_extents(b, i);
    return code;
}

static bool takes(const builder *b, int64_t extent)
{
    flx_dim_binding dims[FLXI_SA_MAX_SYMBOLS];
    for (size_t s = 0; s < b->p.num_symbols; s++)
        dims[s] = (flx_dim_binding){flx_graph_symbol(b->g, s), extent};
    flx_graph *g = flx_specialise(b->g, dims, b->p.num_symbols, NULL);
    flx_graph_release(g);
    return g != NULL;
}

/* The least extent that the graph takes: a slice or the largest of k elements may need some. Those of the samples are
   taken. */
static int64_t least_extent(const builder *b)
{
    int64_t low = 1, high = b->p.at[0][0];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (takes(b, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* ---- Numbers that a text may only have in rounded form ---- */

static flx_code keep_count(builder *b, const int64_t *counts)
{
    flxi_sa_poly f;
    if (counts[0] == counts[1] || !flxi_sa_fit(&b->p, counts, &f) || flxi_sa_polys_have(&b->counts, &f))
        return FLX_OK;
    return flxi_push(b->names.mem, &b->counts, f) ? FLX_OK : flxi_oom(b->err, "C text");
}

/* Products of the leading extents of a value, one after the other, for all samples. */
static flx_code keep_counts_of(builder *b, size_t function, uint32_t value)
{
    int64_t counts[FLXI_SA_MAX_SAMPLES];
    const flx_type *first = flxi_type_at(b->models[0]->functions[function].program.main->g, value);
    for (int rank = 1; rank <= first->rank; rank++) {
        for (size_t i = 0; i < b->p.n; i++) {
            const flx_type *t = flxi_type_at(b->models[i]->functions[function].program.main->g, value);
            if (t->rank != first->rank)
                return FLX_OK;
            counts[i] = flxi_static_extent(t, 0, rank);
        }
        FLXI_TRY(keep_count(b, counts));
    }
    return FLX_OK;
}

/* Loops over all elements of a value take some at a time: then the count itself is nowhere in the text, only what is
   left after vectors, say. */
static flx_code find_counts(builder *b)
{
    for (size_t k = 0; k < b->models[0]->num_functions; k++) {
        uint32_t least = UINT32_MAX;
        for (size_t i = 0; i < b->p.n; i++) {
            uint32_t n = b->models[i]->functions[k].program.main->g->value_count;
            least = n < least ? n : least;
        }
        for (uint32_t v = 1; v <= least; v++)
            FLXI_TRY(keep_counts_of(b, k, v));
    }
    return FLX_OK;
}

static flx_code merge(builder *b, const flx_buffer *texts, flx_buffer *out)
{
    flxi_strbuf merged, threaded;
    flxi_sa_file *f = &b->names;
    flxi_strbuf_init(&merged, f->mem);
    flxi_strbuf_init(&threaded, f->mem);
    flx_code code = flxi_sa_merge(&b->p, texts, &b->counts, f, &merged, &b->range, b->err);
    if (code == FLX_OK && merged.failed)
        code = flxi_oom(b->err, "C text");
    if (code == FLX_OK)
        code = flxi_sa_thread_extents(&b->p, &b->range, &merged, f, &threaded, b->err);
    flxi_strbuf_free(&merged);
    flxi_sa_wrap(&threaded);
    if (code == FLX_OK)
        return flxi_buffer_finish(&threaded, f->ctx, out, b->err);
    flxi_strbuf_free(&threaded);
    return code;
}

/* The value for extents of 1; 0: there is no polynomial. */
static int64_t at_one(const builder *b, int64_t (*get)(const flx_build_sizes *))
{
    int64_t values[FLXI_SA_MAX_SAMPLES], value;
    const int64_t ones[FLXI_SA_MAX_SYMBOLS] = {1, 1};
    flxi_sa_poly f;
    for (size_t i = 0; i < b->p.n; i++)
        values[i] = get(&b->sizes[i]);
    return flxi_sa_fit(&b->p, values, &f) && flxi_sa_poly_at(&b->p, &f, ones, &value) ? value : 0;
}

static int64_t arena_of(const flx_build_sizes *s)
{
    return s->arena_bytes;
}

static int64_t memory_of(const flx_build_sizes *s)
{
    return s->memory_bytes;
}

static int64_t flops_of(const flx_build_sizes *s)
{
    return s->flops;
}

/* An arena that is large enough for every function whatever the extents. */
static flx_code measure(builder *b)
{
    flxi_sa_poly most = {0}, one;
    for (size_t i = 0; i < b->p.n; i++)
        flxi_sa_model_measure(b->models[i]);
    for (size_t k = 0; k < b->models[0]->num_functions; k++) {
        int64_t bytes[FLXI_SA_MAX_SAMPLES];
        for (size_t i = 0; i < b->p.n; i++)
            bytes[i] = (int64_t)b->models[i]->functions[k].arena_bytes;
        if (!flxi_sa_fit(&b->p, bytes, &one))
            return flxi_fail(b->err, FLX_E_UNSUPPORTED, "the memory of %.60s has no formula",
                             b->models[0]->functions[k].name);
        flxi_sa_poly_raise(&most, &one);
    }
    for (size_t i = 0; i < b->p.n; i++) {
        int64_t bytes = 0;
        flxi_sa_poly_at(&b->p, &most, b->p.at[i], &bytes);
        flxi_sa_model_sizes(b->models[i], (size_t)bytes, &b->sizes[i]);
    }
    return FLX_OK;
}

static flx_code plan(builder *b)
{
    b->is_about_samples = true;
    FLXI_TRY(flxi_sa_plan_together(b->models, &b->p, b->err));
    FLXI_TRY(measure(b));
    FLXI_TRY(find_counts(b));
    b->is_about_samples = false;
    return FLX_OK;
}

static flx_code build(builder *b, const samples *s, const results *out)
{
    FLXI_TRY(name_symbols(b));
    take_samples(b, s);
    for (size_t i = 0; i < b->p.n; i++) {
        b->is_about_samples = i + s->num_added >= b->p.n;
        FLXI_TRY(open_sample(b, i));
    }
    b->range = (flxi_sa_range){.least = least_extent(b), .limit = INT32_MAX};
    FLXI_TRY(plan(b));
    for (size_t i = 0; i < b->p.n; i++)
        FLXI_TRY(flxi_sa_model_write(b->models[i], &b->sources[i], out->header ? &b->headers[i] : NULL));
    b->is_about_samples = true;
    FLXI_TRY(merge(b, b->sources, out->source));
    if (out->header)
        FLXI_TRY(merge(b, b->headers, out->header));
    const flx_build_sizes full = {.struct_size = sizeof full,
                                  .num_functions = (uint32_t)b->models[0]->f.statics.n,
                                  .constant_bytes = (int64_t)b->models[0]->f.constant_bytes,
                                  .arena_bytes = at_one(b, arena_of),
                                  .memory_bytes = at_one(b, memory_of),
                                  .flops = at_one(b, flops_of),
                                  .text_bytes = (int64_t)out->source->size};
    return out->sizes ? FLXI_FILL_OPTIONS(flx_build_sizes, out->sizes, &full, b->err) : FLX_OK;
}

/* ---- Tries ---- */

/* What came of one try. */
typedef struct {
    flx_code code;
    bool is_about_samples, asks;
    int64_t asked[FLXI_SA_MAX_SYMBOLS];
    flx_error err;
} outcome;

static outcome try_samples(const flx_graph *g, const flx_build_options *o, const samples *s, const results *out)
{
    const flxi_allocator *mem = flxi_context_mem(g->ctx);
    outcome y = {0};
    builder *b = flxi_alloc(mem, 1, sizeof *b);
    if (!b) {
        y.code = flxi_oom(&y.err, "C text");
        return y;
    }
    *b = (builder){.g = g, .o = o, .err = &y.err};
    flxi_sa_file_init(&b->names, g->ctx);
    y.code = build(b, s, out);
    y.is_about_samples = b->is_about_samples;
    y.asks = b->range.asks;
    memcpy(y.asked, b->range.asked, sizeof y.asked);
    for (size_t i = 0; i < FLXI_SA_MAX_SAMPLES; i++) {
        flxi_sa_model_free(b->models[i]);
        flx_graph_release(b->graphs[i]);
        flx_buffer_free(&b->sources[i]);
        flx_buffer_free(&b->headers[i]);
    }
    flxi_vec_free(mem, &b->counts);
    flxi_sa_file_free(&b->names);
    flxi_free(mem, b, 1, sizeof *b);
    if (y.code != FLX_OK) {
        flx_buffer_free(out->source);
        flx_buffer_free(out->header);
    }
    return y;
}

/* Adds the samples that tries ask for. One for which the graph has another text is given up, and another is asked for. */
static outcome try_shift(const flx_graph *g, const flx_build_options *o, int shift, const results *out)
{
    samples s = {.shift = shift};
    for (;;) {
        outcome y = try_samples(g, o, &s, out);
        if (y.code == FLX_OK || y.code == FLX_E_OOM || !y.is_about_samples)
            return y;
        if (y.asks && s.num_added < FLXI_SA_MAX_ADDED) {
            memcpy(s.added[s.num_added++], y.asked, sizeof y.asked);
            continue;
        }
        if (y.asks || !s.num_added || s.num_tried == FLXI_SA_MAX_TRIED)
            return y;
        memcpy(s.tried[s.num_tried++], s.added[--s.num_added], sizeof y.asked);
    }
}

/* Sums over N - 1 and N + 1 elements are written from samples that are a little larger or smaller. */
flx_code flxi_sa_build_symbolic(const flx_graph *g, const flx_build_options *o, flx_buffer *source, flx_buffer *header,
                                flx_build_sizes *sizes, flx_error *err)
{
    static const int shifts[] = {0, 1, -1, 3, 6};
    const results out = {source, header, sizes};
    flx_error first = {0};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        const outcome y = try_shift(g, o, shifts[i], &out);
        if (y.code == FLX_OK)
            return FLX_OK;
        if (i == 0 || y.code == FLX_E_OOM)
            first = y.err;
        if (y.code == FLX_E_OOM || !y.is_about_samples)
            break;
    }
    if (err)
        *err = first;
    return (flx_code)first.code;
}
