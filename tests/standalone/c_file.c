/* SPDX-License-Identifier: Apache-2.0 */
/* c_file.c: see c_file.h. */
#include "standalone/c_file.h"

#include "test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct c_file {
    void *object;
};

static void write_file(const char *path, const flx_buffer *text)
{
    FILE *f = fopen(path, "wb");
    CHECK_MSG(f, "cannot write %s", path);
    CHECK(fwrite(text->data, 1, text->size, f) == text->size);
    CHECK(fclose(f) == 0);
}

c_file *c_file_compile(const flx_buffer *text, const char *compiler, const char *flags)
{
    char folder[550], source[600], object[600], command[2000]; /* a folder for each: dlopen() knows objects by name */
    c_file *f = calloc(1, sizeof *f);
    CHECK(f);
    snprintf(folder, sizeof folder, "%s/c_file_XXXXXX", test_temp_dir());
    CHECK(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/model.c", folder);
    snprintf(object, sizeof object, "%s/model.so", folder);
    write_file(source, text);
    snprintf(command, sizeof command,
             "%s -std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off %s -fPIC -shared -o '%s' '%s' -lm",
             compiler, flags, object, source);
    CHECK_MSG(system(command) == 0, "%s", command);
    f->object = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(f->object, "%s", dlerror());
    unlink(source);
    unlink(object);
    rmdir(folder);
    return f;
}

void *c_file_symbol(const c_file *f, const char *name)
{
    void *symbol = dlsym(f->object, name);
    CHECK_MSG(symbol, "the file has no %s", name);
    return symbol;
}

void c_file_free(c_file *f)
{
    dlclose(f->object);
    free(f);
}

/* ---- Memory ---- */

enum { GUARD = 4096, UNTOUCHED = 0xa5 };

c_file_memory c_file_memory_new(size_t nbytes)
{
    size_t all = (nbytes + GUARD + 63) / 64 * 64;
    c_file_memory m = {.at = aligned_alloc(64, all), .nbytes = nbytes};
    CHECK(m.at);
    memset(m.at, UNTOUCHED, all);
    return m;
}

void c_file_memory_free(c_file_memory *m)
{
    const unsigned char *after = (const unsigned char *)m->at + m->nbytes;
    for (size_t i = 0; i < GUARD; i++)
        CHECK_MSG(after[i] == UNTOUCHED, "the file writes %zu bytes after its memory of %zu", i, m->nbytes);
    free(m->at);
}

/* A model without parameters. */
typedef struct {
    unsigned char *arena;
} bare_model;

typedef int (*init_function)(bare_model *m, void *memory);
typedef int (*run_function)(const bare_model *m, const void *const *in, void *const *out);

static flx_tensor **run_file(const c_file *f, const flx_graph *all, const flx_feed *feeds, size_t memory_bytes)
{
    flx_error err = {0};
    size_t nin = flx_graph_input_count(all), nout = flx_graph_output_count(all);
    const void **in = calloc(nin + 1, sizeof *in);
    void **at = calloc(nout + 1, sizeof *at);
    flx_tensor **out = calloc(nout + 1, sizeof *out);
    c_file_memory memory = c_file_memory_new(memory_bytes);
    bare_model m;
    CHECK(in && at && out);
    for (size_t i = 0; i < nin; i++)
        in[i] = flx_tensor_const_data(feeds[i].value);
    for (size_t k = 0; k < nout; k++) {
        out[k] = flx_tensor_new(flx_graph_context(all), flx_val_type(all, flx_graph_output(all, k)), NULL, &err);
        CHECK_MSG(out[k], "%s", err.message);
        at[k] = flx_tensor_data(out[k]);
    }
    init_function init;
    run_function run;
    *(void **)&init = c_file_symbol(f, "model_init");
    *(void **)&run = c_file_symbol(f, "model_run");
    CHECK(init(&m, memory.at) == 0);
    CHECK(run(&m, in, at) == 0);
    c_file_memory_free(&memory);
    free(in);
    free(at);
    return out;
}

/* All pieces as one graph, and what its C file returned. */
typedef struct {
    flx_graph *all;
    flx_feed *feeds;
    flx_tensor **out;
} results;

static results run_bundle(bundle *b, const char *compiler, const char *flags, int vector_bytes)
{
    flx_error err = {0};
    flx_buffer text;
    results r;
    r.all = bundle_join(b, &r.feeds);
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    const flx_build_options o = {
        .struct_size = sizeof o, .flags = FLX_BUILD_TABLES, .name = "model", .vector_bytes = vector_bytes};
    CHECK_OK(flx_build_c(r.all, &o, &text, NULL, &sizes, &err), &err);
    c_file *f = c_file_compile(&text, compiler, flags);
    r.out = run_file(f, r.all, r.feeds, (size_t)sizes.memory_bytes);
    c_file_free(f);
    flx_buffer_free(&text);
    return r;
}

static void release_all(flx_tensor **out, size_t n)
{
    for (size_t k = 0; k < n; k++)
        flx_tensor_release(out[k]);
    free(out);
}

static void results_free(results *r)
{
    release_all(r->out, flx_graph_output_count(r->all));
    free(r->feeds);
    flx_graph_release(r->all);
}

/* On the device `cpu`, compiled for one thread. */
static flx_tensor **run_compiled(const results *r)
{
    flx_error err = {0};
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    flx_tensor **out = calloc(flx_graph_output_count(r->all) + 1, sizeof *out);
    CHECK(out);
    flx_exec *e = flx_compile(r->all, &o, &err);
    CHECK_MSG(e, "%s", err.message);
    CHECK_OK(flx_exec_run(e, NULL, r->feeds, flx_graph_input_count(r->all), out, &err), &err);
    flx_exec_free(e);
    return out;
}

static void check_bundle(bundle *b, const char *compiler, const char *flags, int vector_bytes, bundle_differs differs)
{
    char way[100];
    if (bundle_size(b) == 0)
        return;
    results r = run_bundle(b, compiler, flags, vector_bytes);
    snprintf(way, sizeof way, "C file, %s %s", compiler, flags);
    bundle_compare(b, r.out, way);
    if (differs) {
        flx_tensor **compiled = run_compiled(&r);
        bundle_compare_bits(b, r.out, compiled, differs);
        release_all(compiled, flx_graph_output_count(r.all));
    }
    results_free(&r);
}

void c_file_check_bundle(bundle *b, const char *compiler, const char *flags, int vector_bytes)
{
    check_bundle(b, compiler, flags, vector_bytes, NULL);
}

void c_file_check_bits(bundle *b, const char *compiler, const char *flags, int vector_bytes, bundle_differs differs)
{
    check_bundle(b, compiler, flags, vector_bytes, differs);
}
