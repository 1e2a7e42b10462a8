/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: reading a graph file. The binary form is recognised by its first bytes, StableHLO by the name of the file or
   its first word; everything else is .flx text, and what is wrong with it the parser says. */
#include "io/load.h"

#include "report.h"

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
            return fail(FLX_E_IO, "cannot read %s: %s", name, strerror(errno));
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
        return fail(FLX_E_IO, "cannot open %s: %s", path, strerror(errno));
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

/* ---- Slower ways ---- */

/* The first reason, and whether there are others; written by any thread. */
static struct {
    pthread_mutex_t lock;
    char reason[500];
    bool has_more;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void listen(void *user, flx_log_event event, const char *subject, const char *text)
{
    char reason[sizeof slow.reason];
    (void)user;
    if (event != FLX_LOG_FALLBACK && event != FLX_LOG_REFUSED)
        return;
    snprintf(reason, sizeof reason, "%.80s: %.300s%s", subject, text,
             event == FLX_LOG_REFUSED ? " (a defect of the compiler; please report it)" : "");
    pthread_mutex_lock(&slow.lock);
    if (!slow.reason[0])
        memcpy(slow.reason, reason, sizeof reason);
    else
        slow.has_more |= strcmp(slow.reason, reason) != 0;
    pthread_mutex_unlock(&slow.lock);
}

void tell_slow(void)
{
    if (slow.reason[0])
        note("%s%s", slow.reason, slow.has_more ? "; and more: flx show --stage report" : "");
    slow.reason[0] = 0;
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

static bool is_stablehlo(const char *path, const file_bytes *bytes)
{
    static const char extension[] = ".mlir";
    size_t n = strlen(path);
    size_t k = sizeof extension - 1;
    return (n >= k && strcmp(path + n - k, extension) == 0) || begins_stablehlo(bytes);
}

/* ---- Models ---- */

/* The name given to the library is short, because an error keeps only so much of it; report() puts ours in its
   place. */
static int read_module(model *m, const file_bytes *bytes)
{
    flx_error err = {0};
    if (begins_with(bytes, KERNEL_MAGIC)) {
        int status = fail(FLX_E_SYNTAX, "%s is a kernel in its wire form", m->name);
        hint("flx kernel check and flx kernel run read it");
        return status;
    }
    if (begins_with(bytes, GRAPH_MAGIC))
        m->module = flx_decode(m->ctx, bytes->data, bytes->size, "file", &err);
    else if (is_stablehlo(m->path, bytes))
        m->module = flx_import_stablehlo(m->ctx, bytes->data, bytes->size, "file", &err);
    else
        m->module = flx_parse(m->ctx, bytes->data, bytes->size, "file", &err);
    if (!m->module)
        return report(&err, m->name);
    m->graph = flx_module_main(m->module);
    if (!m->graph)
        return fail(FLX_E_SYNTAX, "%s holds no graph", m->name);
    return STATUS_OK;
}

int model_read(model *m, const char *path, const file_bytes *bytes)
{
    *m = (model){.path = path, .name = file_name(path), .ctx = new_context()};
    return m->ctx ? read_module(m, bytes) : fail_memory();
}

int model_open(model *m, const char *path)
{
    file_bytes bytes = {0};
    *m = (model){0};
    int status = file_read(path, &bytes);
    if (!status)
        status = model_read(m, path, &bytes);
    free(bytes.data);
    return status;
}

void model_close(model *m)
{
    flx_module_free(m->module);
    flx_context_free(m->ctx);
    *m = (model){0};
}
