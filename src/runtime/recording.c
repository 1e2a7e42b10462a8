/* SPDX-License-Identifier: Apache-2.0 */
/* recording.c: reading recordings and running them. The file comes from anywhere, so it is treated as untrusted: the
   archive, the graph and the arrays are checked by their own readers, the text here. */
#include "runtime/recording.h"

#include "backend/devices.h"
#include "base/number.h"
#include "format/npy.h"
#include "format/zip.h"

#include <stdio.h>

struct flx_recording {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena;
    flx_graph *g;
    uint32_t compile_flags, run_flags;
    int32_t threads, optimisation;
    FLXI_VEC(flx_dim_binding) dims;
    flx_feed *feeds; /* one for each leaf */
    flx_tensor **values;
    flx_error failure;
    bool is_starved; /* memory was exhausted while its text was read */
};

typedef struct {
    flx_recording *r;
    flxi_zip zip;
    flx_error *err;
} reading;

/* ---- Entries ---- */

static const uint64_t longest_text = 1 << 16;

static flx_code find_entry(reading *x, const char *name, flxi_zip_entry *found)
{
    size_t at = 0, n = strlen(name);
    for (bool more = true; more;) {
        FLXI_TRY(flxi_zip_next(&x->zip, &at, found, &more, x->err));
        if (more && found->name_size == n && memcmp(found->name, name, n) == 0)
            return FLX_OK;
    }
    return flxi_fail_hint(x->err, FLX_E_SYNTAX, "flx_exec_record() or flx run --record writes one",
                          "the archive has no '%s': it is not a recording", name);
}

static flx_code open_entry(reading *x, const char *name, flxi_source *content, void **block)
{
    flxi_zip_entry entry;
    FLXI_TRY(find_entry(x, name, &entry));
    return flxi_zip_content(&x->zip, &entry, flxi_context_limit(x->r->ctx), content, block, x->err);
}

/* The whole entry in memory, with a 0 after it; freed with flxi_free(mem, *data, *size + 1, 1). */
static flx_code read_entry(reading *x, const char *name, uint64_t most, char **data, size_t *size)
{
    flxi_source content;
    void *block;
    *data = NULL;
    FLXI_TRY(open_entry(x, name, &content, &block));
    flx_code code = FLX_OK;
    if (content.size > most || content.size >= SIZE_MAX)
        code = flxi_fail(x->err, FLX_E_SIZE, "'%s' has %llu bytes, more than %llu", name,
                         (unsigned long long)content.size, (unsigned long long)most);
    if (code == FLX_OK) {
        *size = (size_t)content.size;
        *data = flxi_alloc(x->r->mem, *size + 1, 1);
        code = *data ? flxi_source_read(&content, 0, *data, *size, x->err) : flxi_oom(x->err, "a recording");
    }
    flxi_free(x->r->mem, block, (size_t)content.size, 1);
    return code;
}

/* ---- The text ---- */

static flx_code bad_text(reading *x, const char *line)
{
    char text[60];
    if (x->r->is_starved)
        return flxi_oom(x->err, "a recording");
    return flxi_fail(x->err, FLX_E_SYNTAX, "recording.txt is damaged: '%s'",
                     flxi_printable(text, sizeof text, line, strlen(line)));
}

/* Cuts the next word off; "" at the end. */
static char *next_word(char **rest)
{
    char *word = *rest, *end = word + strcspn(word, " ");
    *rest = *end ? end + 1 : end;
    *end = 0;
    return word;
}

static bool read_within(char **rest, int64_t low, int64_t high, int64_t *out)
{
    const char *word = next_word(rest);
    return flxi_read_i64(word, strlen(word), out) && *out >= low && *out <= high;
}

static bool read_compile(flx_recording *r, char *rest)
{
    int64_t flags, threads, level;
    if (!read_within(&rest, 0, FLXI_COMPILE_FLAGS, &flags) || !read_within(&rest, 0, 64, &threads) ||
        !read_within(&rest, 0, 4, &level))
        return false;
    r->compile_flags = (uint32_t)flags & ~(uint32_t)FLX_COMPILE_BACKGROUND; /* one run has nothing of it */
    r->threads = (int32_t)threads;
    r->optimisation = (int32_t)level;
    return *rest == 0;
}

static bool read_run(flx_recording *r, char *rest)
{
    int64_t flags;
    bool ok = read_within(&rest, 0, FLX_RUN_CHECK_FINITE, &flags);
    r->run_flags = ok ? (uint32_t)flags : 0;
    return ok && *rest == 0;
}

static bool read_dim(flx_recording *r, char *rest)
{
    const char *name = next_word(&rest);
    flx_dim_binding b = {.name = flxi_arena_text(&r->arena, name, strlen(name))};
    r->is_starved |= !b.name || !flxi_push(r->mem, &r->dims, b);
    return !r->is_starved && name[0] && read_within(&rest, 0, INT64_MAX, &r->dims.at[r->dims.n - 1].extent) &&
           *rest == 0;
}

static bool read_failure(flx_recording *r, char *rest)
{
    int64_t code;
    if (!read_within(&rest, 1, 1 << 20, &code))
        return false;
    r->failure.code = (int32_t)code;
    snprintf(r->failure.message, sizeof r->failure.message, "%s", rest);
    return true;
}

static const struct {
    const char *word;
    bool (*read)(flx_recording *r, char *rest);
} facts[] = {{"compile", read_compile}, {"run", read_run}, {"dim", read_dim}, {"failure", read_failure}};

static bool read_fact(flx_recording *r, char *line)
{
    char *rest = line;
    const char *word = next_word(&rest);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(facts[i].word, word) == 0)
            return facts[i].read(r, rest);
    return false;
}

static flx_code read_lines(reading *x, char *text, size_t size)
{
    static const char first[] = "fluxion recording ";
    char *line = text, *end;
    if (strlen(text) != size || strncmp(text, first, sizeof first - 1) != 0)
        return bad_text(x, "it does not begin as one");
    for (int number = 0; *line; number++, line = end + 1) {
        end = strchr(line, '\n');
        if (!end)
            return bad_text(x, line);
        *end = 0;
        if (number == 0 && strcmp(line + sizeof first - 1, "1") != 0)
            return flxi_fail(x->err, FLX_E_VERSION, "this version reads recordings of form 1 only");
        if (number > 0 && !read_fact(x->r, line))
            return bad_text(x, line);
    }
    return FLX_OK;
}

static flx_code read_text(reading *x)
{
    char *text;
    size_t size = 0;
    flx_code code = read_entry(x, "recording.txt", longest_text, &text, &size);
    if (code == FLX_OK)
        code = read_lines(x, text, size);
    flxi_free(x->r->mem, text, size + 1, 1);
    return code;
}

/* ---- Graph and inputs ---- */

static flx_code read_graph(reading *x)
{
    char *bytes;
    size_t size = 0;
    flx_module *m = NULL;
    flx_code code = read_entry(x, "graph.flxb", UINT64_MAX, &bytes, &size);
    if (code == FLX_OK) {
        m = flx_decode(x->r->ctx, bytes, size, "graph.flxb", x->err);
        code = m ? FLX_OK : (flx_code)x->err->code;
    }
    if (m && !flx_module_main(m))
        code = flxi_fail(x->err, FLX_E_SYNTAX, "graph.flxb holds no graph");
    else if (m)
        x->r->g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    flxi_free(x->r->mem, bytes, size + 1, 1);
    return code;
}

/* NumPy has no bf16, so such an array is stored as f32. */
static flx_code read_input(reading *x, size_t i)
{
    flx_recording *r = x->r;
    const flxi_value *leaf = flxi_value_at(r->g, r->g->leaves.at[i]);
    flxi_source content;
    void *block;
    char name[40];
    snprintf(name, sizeof name, "input_%zu.npy", i);
    FLXI_TRY(open_entry(x, name, &content, &block));
    flx_tensor *t = flxi_npy_load(r->ctx, &content, x->err);
    flxi_free(r->mem, block, (size_t)content.size, 1);
    if (t && leaf->type->dtype == FLX_BF16 && flx_tensor_type(t)->dtype == FLX_F32) {
        flx_tensor *wide = t;
        t = flx_tensor_cast(wide, FLX_BF16, x->err);
        flx_tensor_release(wide);
    }
    r->values[i] = t;
    r->feeds[i] = (flx_feed){leaf->name, t};
    return t ? FLX_OK : (flx_code)x->err->code;
}

/* A run may bind a dimension that only values without use have; the recorded graph lacks those. */
static void drop_unused_dims(flx_recording *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->dims.n; i++)
        for (size_t k = 0; k < r->g->symbols.n; k++)
            if (strcmp(r->dims.at[i].name, r->g->symbols.at[k]) == 0)
                r->dims.at[n++] = r->dims.at[i];
    r->dims.n = n;
}

static flx_code read_archive(reading *x)
{
    flx_recording *r = x->r;
    FLXI_TRY(read_text(x));
    FLXI_TRY(flxi_check_bindings(r->dims.at, r->dims.n, x->err));
    FLXI_TRY(read_graph(x));
    drop_unused_dims(r);
    r->feeds = flxi_new(&r->arena, flx_feed, r->g->leaves.n);
    r->values = flxi_new(&r->arena, flx_tensor *, r->g->leaves.n);
    if (!r->feeds || !r->values)
        return flxi_oom(x->err, "a recording");
    for (size_t i = 0; i < r->g->leaves.n; i++)
        FLXI_TRY(read_input(x, i));
    return FLX_OK;
}

/* ---- The border ---- */

static flx_recording *load(flx_context *ctx, const flxi_source *s, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_error local = {0};
    reading x = {.r = flxi_alloc(mem, 1, sizeof *x.r), .err = &local};
    flx_code code = x.r ? FLX_OK : flxi_oom(&local, "a recording");
    if (x.r) {
        x.r->ctx = ctx;
        x.r->mem = mem;
        flxi_arena_init(&x.r->arena, mem);
        code = flxi_zip_open(&x.zip, mem, s, &local);
        if (code == FLX_OK) {
            code = read_archive(&x);
            flxi_zip_close(&x.zip);
        }
    }
    if (code == FLX_OK)
        return x.r;
    flx_recording_free(x.r);
    if (err)
        *err = local;
    return NULL;
}

flx_recording *flx_recording_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_recording_decode: context and bytes must be given");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return load(ctx, &s, err);
}

flx_recording *flx_recording_read(flx_context *ctx, const char *path, flx_error *err)
{
    flxi_source s;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_recording_read: context and path must be given");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) != FLX_OK)
        return NULL;
    flx_recording *r = load(ctx, &s, err);
    flxi_source_close(&s);
    return r;
}

void flx_recording_free(flx_recording *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->values && i < r->g->leaves.n; i++)
        flx_tensor_release(r->values[i]);
    flx_graph_release(r->g);
    flxi_vec_free(r->mem, &r->dims);
    flxi_arena_free(&r->arena);
    flxi_free(r->mem, r, 1, sizeof *r);
}

const flx_graph *flx_recording_graph(const flx_recording *r)
{
    return r ? r->g : NULL;
}

flx_code flx_recording_failure(const flx_recording *r, flx_error *out)
{
    if (!r)
        return flxi_fail(out, FLX_E_USAGE, "flx_recording_failure: the recording must be given");
    if (out)
        *out = r->failure;
    return (flx_code)r->failure.code;
}

flx_code flx_recording_run(const flx_recording *r, const flx_run_options *options, flx_tensor **outputs, flx_error *err)
{
    flx_run_options run;
    if (!r || (!outputs && r->g->outputs.n))
        return flxi_fail(err, FLX_E_USAGE,
                         "flx_recording_run: the recording and where to write the outputs must be given");
    const flxi_device *device;
    FLXI_TRY(flxi_run_options_read(options, &run, err));
    run.flags = r->run_flags;
    run.dims = r->dims.at;
    run.num_dims = r->dims.n;
    for (size_t i = 0; i < r->g->outputs.n; i++)
        outputs[i] = NULL;
    FLXI_TRY(flxi_device_for_graphs(run.device, &device, err));
    if (device->run_graph)
        return flx_run(r->g, &run, r->feeds, r->g->leaves.n, outputs, err);
    flx_compile_options compile = {.device = device->name,
                                   .flags = r->compile_flags,
                                   .threads = r->threads,
                                   .optimisation = r->optimisation,
                                   .dims = r->dims.at,
                                   .num_dims = r->dims.n};
    flx_error local = {0};
    flx_exec *e = flx_compile(r->g, &compile, &local);
    flx_code code = e ? flx_exec_run(e, &run, r->feeds, r->g->leaves.n, outputs, &local) : (flx_code)local.code;
    if (code != FLX_OK && err)
        *err = local;
    flx_exec_free(e);
    return code;
}
