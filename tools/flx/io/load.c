/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: reading a graph file. The binary form is recognised by its first bytes, StableHLO by the name of the file or
   its first word, ONNX and GGUF by the name of the file; everything else is .flx text, and the parser says what is
   wrong with it. */
#include "io/load.h"

#include "io/spec.h"
#include "report.h"
#include "suggest.h"

#include <errno.h>
#include <fluxion/stablehlo.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A device file or a pipe may never end. Weights, which could be larger, have files of their own. */
static const size_t max_file_bytes = (size_t)1 << 30;

bool begins_with(const file_bytes *bytes, const char magic[4])
{
    return bytes->size >= 4 && memcmp(bytes->data, magic, 4) == 0;
}

/* Signals that the program catches are those that end it. */
static int cannot(const char *what, const char *name)
{
    if (errno == EINTR)
        return fail(FLX_E_CANCELLED, "cancelled before %s was read", name);
    return fail(FLX_E_IO, "cannot %s %s: %s", what, name, strerror(errno));
}

static int read_stream(FILE *f, const char *name, file_bytes *out)
{
    size_t room = 0;
    for (;;) {
        if (out->size == room) {
            room = room ? 2 * room : (size_t)1 << 16;
            char *more = realloc(out->data, room);
            if (!more)
                return fail_memory();
            out->data = more;
        }
        size_t n = fread(out->data + out->size, 1, room - out->size, f);
        out->size += n;
        if (ferror(f))
            return cannot("read", name);
        if (n == 0)
            return STATUS_OK;
        if (out->size > max_file_bytes) {
            int status = fail(FLX_E_SIZE, "%s is larger than %zu MiB", name, max_file_bytes >> 20);
            hint("large tensors belong in .safetensors or .npy files");
            return status;
        }
    }
}

/* One tensor may take what the machine has: more could only end in the system stopping the program. */
static int64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 && pages <= INT64_MAX / page ? (int64_t)pages * page : 0;
}

int file_read(const char *path, file_bytes *out)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, file_name(path), out);
    FILE *f = fopen(path, "rb");
    if (!f)
        return cannot("open", path);
    int status = read_stream(f, path, out);
    fclose(f);
    return status;
}

const char *file_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "<stdin>" : path;
}

char *weights_path(const char *path)
{
    static const char extension[] = ".safetensors";
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot != base ? (size_t)(dot - path) : strlen(path);
    char *beside = malloc(n + sizeof extension);
    if (beside) {
        memcpy(beside, path, n);
        memcpy(beside + n, extension, sizeof extension);
    }
    return beside;
}

/* The same folder's file of this name, allocated. */
static char *in_same_folder(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0, room = n + strlen(name) + 1;
    char *other = malloc(room);
    if (other)
        snprintf(other, room, "%.*s%s", (int)n, path, name);
    return other;
}

char *weights_find(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *beside = weights_path(path);
    if (!beside || access(beside, F_OK) == 0 || strcmp(slash ? slash + 1 : path, "model.flx") != 0)
        return beside;
    char *trained = in_same_folder(path, "weights.safetensors");
    bool is_trained = trained && access(trained, F_OK) == 0;
    free(is_trained ? beside : trained);
    return is_trained ? trained : beside;
}

/* ---- Slower ways, and equations that are not solved ---- */

/* The first event of a kind, and whether there are others; written by any thread. */
typedef struct {
    char first[500];
    bool has_more;
} heard;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static heard slow, unsolved;

static void listen(void *user, flx_log_event event, const char *subject, const char *text)
{
    char line[sizeof slow.first];
    heard *h = event == FLX_LOG_UNSOLVED ? &unsolved : &slow;
    (void)user;
    if (event != FLX_LOG_FALLBACK && event != FLX_LOG_REFUSED && event != FLX_LOG_UNSOLVED)
        return;
    snprintf(line, sizeof line, "%.80s: %.300s%s", subject, text,
             event == FLX_LOG_REFUSED ? " (a defect of the compiler; please report it)" : "");
    pthread_mutex_lock(&lock);
    if (!h->first[0])
        memcpy(h->first, line, sizeof line);
    else
        h->has_more |= strcmp(h->first, line) != 0;
    pthread_mutex_unlock(&lock);
}

static void tell(heard *h, const char *more)
{
    if (h->first[0])
        note("%s%s", h->first, h->has_more ? more : "");
    h->first[0] = 0;
    h->has_more = false;
}

void tell_slow(void)
{
    tell(&slow, "; and more: flx show --stage report");
}

void tell_unsolved(void)
{
    tell(&unsolved, "; others, too");
}

flx_context *new_context(void)
{
    return flx_context_new(&(flx_context_options){
        .struct_size = sizeof(flx_context_options), .memory_limit = machine_memory(), .log = listen});
}

/* ---- StableHLO ---- */

/* Past blanks and the lines that say nothing of the language: comments of either, and `#loc = …`. */
static const char *skip_prelude(const char *s, const char *end)
{
    while (s < end) {
        if (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n') {
            s++;
        } else if (*s == '#' || (*s == '/' && end - s > 1 && s[1] == '/')) {
            const char *newline = memchr(s, '\n', (size_t)(end - s));
            s = newline ? newline : end;
        } else {
            break;
        }
    }
    return s;
}

/* Whether the text begins as a program in StableHLO does. */
static bool begins_stablehlo(const file_bytes *bytes)
{
    static const char *const words[] = {
        "module", "builtin.module", "\"builtin.module\"", "func.func", "\"func.func\"", "func ", "{-#", "!",
    };
    const char *end = bytes->data + bytes->size;
    const char *s = skip_prelude(bytes->data, end);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - s) >= n && memcmp(s, words[i], n) == 0)
            return true;
    }
    return false;
}

static bool ends_with(const char *path, const char *extension)
{
    size_t n = strlen(path);
    size_t k = strlen(extension);
    return n >= k && strcmp(path + n - k, extension) == 0;
}

/* Bytecode, or a file of jax.export, which has bytecode after its names and types. */
static bool is_bytecode(const file_bytes *bytes)
{
    return bytes->size >= 4 && memmem(bytes->data, bytes->size, BYTECODE_MAGIC, 4) != NULL;
}

static bool is_stablehlo(const char *path, const file_bytes *bytes)
{
    return ends_with(path, ".mlir") || ends_with(path, ".mlirbc") || begins_stablehlo(bytes) || is_bytecode(bytes);
}

/* ---- ONNX ---- */

/* The inputs that --fix makes constants. */
typedef struct {
    char **names;
    flx_tensor **values;
    flx_feed *feeds;
    size_t n;
} fixed_inputs;

static int read_fixed(flx_context *ctx, const args *a, fixed_inputs *f)
{
    const char *text;
    size_t room = a ? a->num_given + 1 : 1;
    f->names = calloc(room, sizeof *f->names);
    f->values = calloc(room, sizeof *f->values);
    f->feeds = calloc(room, sizeof *f->feeds);
    if (!f->names || !f->values || !f->feeds)
        return fail_memory();
    for (size_t at = 0; a && (text = args_next(a, "--fix", &at)) != NULL; f->n++) {
        const char *spec = NULL;
        int status = args_split("--fix", text, "NAME=SPEC", &f->names[f->n], &spec);
        if (!status && spec_has_texts(spec))
            status = spec_read_texts(ctx, f->names[f->n], spec, &f->values[f->n]);
        else if (!status && spec_has_shape(spec))
            status = spec_read(ctx, f->names[f->n], spec, 0, &f->values[f->n]);
        else if (!status)
            status = spec_read_list(ctx, f->names[f->n], spec, FLX_DTYPE_NONE, &f->values[f->n]);
        if (status)
            return status;
        f->feeds[f->n] = (flx_feed){f->names[f->n], f->values[f->n]};
    }
    return STATUS_OK;
}

static void free_fixed(fixed_inputs *f)
{
    for (size_t i = 0; f->names && f->values && i <= f->n; i++) {
        free(f->names[i]);
        flx_tensor_release(f->values[i]);
    }
    free(f->names);
    free(f->values);
    free(f->feeds);
}

/* The file itself is read by the library: weights may be large and in other files. */
static int open_onnx(model *m, const args *a)
{
    fixed_inputs f = {0};
    flx_error err = {0};
    int status = read_fixed(m->ctx, a, &f);
    if (!status) {
        flx_onnx_options o = {.struct_size = sizeof o, .inputs = f.feeds, .num_inputs = f.n};
        m->onnx = flx_onnx_read(m->ctx, m->path, &o, &err);
        m->graph = flx_onnx_graph(m->onnx);
        m->module = m->onnx ? flx_onnx_module(m->onnx, &err) : NULL;
        status = m->module ? STATUS_OK : report(&err, m->name);
    }
    free_fixed(&f);
    return status;
}

/* ---- GGUF ---- */

/* A module of the one graph. */
static flx_module *module_of(flx_context *ctx, const flx_graph *g, flx_error *err)
{
    flx_buffer bytes = {0};
    flx_module *m = NULL;
    if (flx_graph_encode(g, &bytes, err) == FLX_OK)
        m = flx_decode(ctx, bytes.data, bytes.size, "file", err);
    flx_buffer_free(&bytes);
    return m;
}

/* Tensors of the file for the parameters, over its memory. */
static int read_tensors(model *m)
{
    flx_error err = {0};
    size_t n = flx_graph_input_count(m->graph);
    m->values = calloc(n + 1, sizeof *m->values);
    if (!m->values)
        return fail_memory();
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(m->graph, flx_graph_input(m->graph, i));
        if (flx_graph_input_is_param(m->graph, i) && !(m->values[i] = flx_text_param(m->gguf, m->graph, name, &err)))
            return report(&err, m->name);
    }
    return STATUS_OK;
}

int activation_bits_read(const args *a, int32_t *out)
{
    const char *text = args_value(a, "--activation-bits");
    int64_t bits = 0;
    if (text && (!read_i64(text, &bits) || (bits != 8 && bits != 32)))
        return fail(FLX_E_USAGE, "--activation-bits must be 8 or 32, got '%s'", text);
    *out = (int32_t)bits;
    return STATUS_OK;
}

/* The file is mapped, as it may be larger than memory. */
static int open_gguf(model *m, const args *a)
{
    flx_error err = {0};
    flx_text_graph_options o = {.struct_size = sizeof o};
    int status = a ? activation_bits_read(a, &o.activation_bits) : STATUS_OK;
    if (status)
        return status;
    m->gguf = flx_gguf_read(m->ctx, m->path, &err);
    flx_graph *g = m->gguf ? flx_text_graph(m->gguf, &o, &err) : NULL;
    m->module = g ? module_of(m->ctx, g, &err) : NULL;
    m->graph = flx_module_main(m->module);
    flx_graph_release(g);
    return m->graph ? read_tensors(m) : report(&err, m->name);
}

flx_tensor *model_param(const model *m, const char *name)
{
    for (size_t i = 0; m->values && i < flx_graph_input_count(m->graph); i++)
        if (strcmp(flx_val_name(m->graph, flx_graph_input(m->graph, i)), name) == 0)
            return m->values[i];
    for (size_t i = 0; i < flx_onnx_param_count(m->onnx); i++)
        if (strcmp(flx_onnx_param_name(m->onnx, i), name) == 0)
            return flx_onnx_param_value(m->onnx, i);
    return NULL;
}

/* ---- Models ---- */

static bool contains(const file_bytes *bytes, const char *word)
{
    return memmem(bytes->data, bytes->size, word, strlen(word)) != NULL;
}

/* What a program of JAX does not say, or what does not happen here. */
static void tell_losses(model *m, const file_bytes *bytes)
{
    if (contains(bytes, "python_cpu_callback") || contains(bytes, "python_gpu_callback") ||
        contains(bytes, "fluxion_callback"))
        note("%s calls back into Python: prints and other calls without results are left out, the others end a run "
             "that reaches them",
             m->name);
    m->lost_rules = contains(bytes, "mhlo.num_partitions") && !contains(bytes, "fluxion_stop_gradient") &&
                    !contains(bytes, "fluxion_custom_");
}

/* Few programs are for a mesh: only those that may name one are read once more. */
static flx_module *import_program(model *m, const file_bytes *bytes, uint32_t flags, flx_error *err)
{
    flx_module *module = flx_import_stablehlo_with(m->ctx, bytes->data, bytes->size, "file", flags, err);
    if (module)
        tell_losses(m, bytes);
    if (module && memmem(bytes->data, bytes->size, "shard", 5) &&
        flx_stablehlo_mesh(m->ctx, bytes->data, bytes->size, "file", &m->mesh, err) != FLX_OK) {
        flx_module_free(module);
        return NULL;
    }
    return module;
}

/* The name given to the library is short, because an error keeps only so much of it; report() puts ours in its
   place. */
static int read_module(model *m, const file_bytes *bytes, uint32_t flags)
{
    flx_error err = {0};
    if (!bytes->size && strcmp(m->path, "-") == 0) {
        int status = fail(FLX_E_SYNTAX, "standard input is empty");
        hint("in a pipe, the command before this one may have failed");
        return status;
    }
    if (begins_with(bytes, KERNEL_MAGIC)) {
        int status = fail(FLX_E_SYNTAX, "%s is a kernel in its wire form", m->name);
        hint("flx kernel check and flx kernel run read it");
        return status;
    }
    if (begins_with(bytes, GGUF_MAGIC)) {
        int status = fail(FLX_E_UNSUPPORTED, "%s is a GGUF file, whose name must end in .gguf", m->name);
        hint("it is mapped, so a pipe will not do");
        return status;
    }
    if (begins_with(bytes, GRAPH_MAGIC))
        m->module = flx_decode(m->ctx, bytes->data, bytes->size, "file", &err);
    else if (is_stablehlo(m->path, bytes))
        m->module = import_program(m, bytes, flags, &err);
    else
        m->module = flx_parse(m->ctx, bytes->data, bytes->size, "file", &err);
    if (!m->module)
        return report(&err, m->name);
    m->graph = flx_module_main(m->module);
    if (!m->graph)
        return fail(FLX_E_SYNTAX, "%s holds no graph", m->name);
    return STATUS_OK;
}

/* `flags` are for StableHLO. */
static int read_as(model *m, const char *path, const file_bytes *bytes, uint32_t flags)
{
    *m = (model){.path = path, .name = file_name(path), .ctx = new_context()};
    return m->ctx ? read_module(m, bytes, flags) : fail_memory();
}

int model_read(model *m, const char *path, const file_bytes *bytes)
{
    return read_as(m, path, bytes, 0);
}

/* `a` has the options of the command where it takes --fix, --names or --activation-bits; NULL otherwise. */
static int open_path(model *m, const char *path, const args *a)
{
    file_bytes bytes = {0};
    *m = (model){0};
    if (ends_with(path, ".onnx")) {
        *m = (model){.path = path, .name = file_name(path), .ctx = new_context()};
        return m->ctx ? open_onnx(m, a) : fail_memory();
    }
    if (ends_with(path, ".gguf")) {
        *m = (model){.path = path, .name = file_name(path), .ctx = new_context()};
        return m->ctx ? open_gguf(m, a) : fail_memory();
    }
    int status = file_read(path, &bytes);
    if (!status)
        status = read_as(m, path, &bytes, a && args_has(a, "--names") ? FLX_STABLEHLO_NAMES : 0u);
    free(bytes.data);
    return status;
}

int model_open(model *m, const char *path)
{
    return open_path(m, path, NULL);
}

/* The graph that has this one as a body, or NULL. */
static const flx_graph *user_of(const flx_module *m, const flx_graph *body)
{
    for (size_t i = 0; i < flx_module_count(m); i++) {
        const flx_graph *g = flx_module_graph(m, i);
        for (size_t n = 0; n < flx_graph_node_count(g); n++) {
            const flx_graph *b;
            for (uint32_t k = 0; (b = flx_node_graph(g, n, k)) != NULL; k++)
                if (b == body)
                    return g;
        }
    }
    return NULL;
}

/* The last graph of a file is its main one. One that is a body of another was hardly meant. */
static void tell_position(const model *m)
{
    const flx_graph *user = user_of(m->module, m->graph);
    if (user)
        note("'%s' is taken, the last graph of %s, but it is a body of '%s': --graph %s takes that one",
             flx_graph_name(m->graph), m->name, flx_graph_name(user), flx_graph_name(user));
}

/* Makes another graph of the file the one to work on; `name` NULL: the main one stays. */
static int choose(model *m, const char *name)
{
    flx_graph *g = name ? flx_module_find(m->module, name) : m->graph;
    if (!name)
        tell_position(m);
    if (g) {
        m->graph = g;
        m->is_chosen = name != NULL;
        return STATUS_OK;
    }
    int status = fail(FLX_E_NAME, "%s has no graph '%s'", m->name, name);
    suggestion s = suggest_begin(name);
    for (size_t i = 0; i < flx_module_count(m->module); i++)
        suggest_consider(&s, flx_graph_name(flx_module_graph(m->module, i)));
    if (s.best)
        hint_list_begin("did you mean '%s'? it has", s.best);
    else
        hint_list_begin("it has");
    for (size_t i = 0; i < flx_module_count(m->module); i++)
        list_item(flx_graph_name(flx_module_graph(m->module, i)));
    hint_list_end();
    return status;
}

int model_open_chosen(model *m, const args *a)
{
    int status = open_path(m, a->operand, NULL);
    return status ? status : choose(m, args_value(a, "--graph"));
}

int model_open_fixed(model *m, const args *a)
{
    *m = (model){0};
    if (args_value(a, "--activation-bits") && !ends_with(a->operand, ".gguf"))
        return fail(FLX_E_USAGE, "--activation-bits is for language models, which are files .gguf");
    if (args_value(a, "--fix") && !ends_with(a->operand, ".onnx")) {
        int status = fail(FLX_E_USAGE, "--fix is for ONNX models, which are files .onnx");
        hint("--in gives inputs of a graph their values");
        return status;
    }
    int status = open_path(m, a->operand, a);
    return status ? status : choose(m, args_value(a, "--graph"));
}

void model_close(model *m)
{
    for (size_t i = 0; m->values && i < flx_graph_input_count(m->graph); i++)
        flx_tensor_release(m->values[i]);
    free(m->values);
    flx_onnx_free(m->onnx);
    flx_module_free(m->module);
    flx_gguf_free(m->gguf);
    flx_buffer_free(&m->mesh);
    flx_context_free(m->ctx);
    *m = (model){0};
}
