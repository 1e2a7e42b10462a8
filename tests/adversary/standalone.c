/* SPDX-License-Identifier: Apache-2.0 */
/* standalone.c: random graphs and their gradients as C files, compiled as their users may and run, against the
   reference evaluator: several in one file, or one whose functions take an extent. With sanitizers, the files have them
   too. */
#include "standalone/c_file.h"

#include "adversary.h"
#include "extents.h"
#include "random/plain_subject.h"
#include "sanitizer.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
static const char compiler[] = "clang";
#else
static const char compiler[] = "gcc";
#endif

/* Warnings are errors where nothing is instrumented: sanitizers add code that compilers warn about. */
#if HAS_ASAN
#define SANITIZE " -g -Wno-error -fsanitize=address,undefined -fno-sanitize-recover=all"
#else
#define SANITIZE ""
#endif

static const struct {
    const char *flags;
    int32_t vector_bytes;
} ways[] = {{"-O0" SANITIZE, 0}, {"-O2" SANITIZE, 0}, {"-O1 -Wno-psabi" SANITIZE, 16}, {"-O3 -Wno-psabi" SANITIZE, 32}};
enum { WAYS = sizeof ways / sizeof *ways };

static bool is_refused(flx_code code, const flx_error *err)
{
    CHECK_MSG(code == FLX_OK || code == FLX_E_UNSUPPORTED || code == FLX_E_UNBOUND_DIM, "%s: %s", flx_code_name(code),
              err->message);
    return code != FLX_OK;
}

/* ---- Several graphs in one file ---- */

static void add(void *user, const flx_graph *g, const subject *s, const char *about)
{
    bundle *b = user;
    flx_error err = {0};
    flx_buffer text = {0};
    const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_TABLES};
    flx_code code = flx_build_c(g, &o, &text, NULL, NULL, &err);
    flx_buffer_free(&text);
    if (!is_refused(code, &err))
        bundle_add_copy(b, g, subject_value, s, about);
}

static void try_bundle(uint64_t seed)
{
    enum { GRAPHS = 4 };
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    for (uint64_t i = 0; i < GRAPHS; i++)
        subject_with_gradient(seed * GRAPHS + i, add, b);
    c_file_check_bundle(b, compiler, ways[seed / 2 % WAYS].flags, ways[seed / 2 % WAYS].vector_bytes);
    if (bundle_size(b) > 0)
        case_accepted();
    bundle_free(b);
    flx_context_free(ctx);
}

/* ---- One file for all extents ---- */

typedef struct {
    unsigned char *arena;
} bare_model;

typedef int (*init_function)(bare_model *m, void *memory);
typedef int (*run_function)(const bare_model *m, int64_t extent, const void *const *in, void *const *out);
typedef int64_t (*memory_function)(int64_t extent);

/* The memory is of exactly the size that the file asks for, and has garbage in it. */
static flx_code run_file(void *user, const flx_graph *bound, const flx_dim_binding *dim, const flx_feed *feeds,
                         size_t n, flx_tensor **out, bool *declined, flx_error *err)
{
    const void *in[RANDOM_MAX_INPUTS];
    void *at[32], *memory;
    init_function init;
    run_function run;
    memory_function memory_bytes;
    bare_model m;
    size_t outputs = flx_graph_output_count(bound);
    *(void **)&init = c_file_symbol(user, "model_init");
    *(void **)&run = c_file_symbol(user, "model_run");
    *(void **)&memory_bytes = c_file_symbol(user, "model_memory_bytes");
    int64_t bytes = memory_bytes(dim->extent);
    *declined = bytes < 0;
    if (bytes < 0)
        return FLX_E_UNSUPPORTED;
    CHECK(posix_memalign(&memory, 64, (size_t)bytes) == 0);
    memset(memory, 0xa5, (size_t)bytes);
    for (size_t i = 0; i < n; i++)
        in[i] = flx_tensor_const_data(feeds[i].value);
    for (size_t k = 0; k < outputs; k++) {
        out[k] = flx_tensor_new(flx_graph_context(bound), flx_val_type(bound, flx_graph_output(bound, k)), NULL, err);
        CHECK_MADE(out[k], err);
        at[k] = flx_tensor_data(out[k]);
    }
    CHECK(init(&m, memory) == 0);
    int status = run(&m, dim->extent, in, at);
    for (size_t k = 0; status != 0 && k < outputs; k++)
        flx_tensor_release(out[k]);
    free(memory);
    return status == 0 ? FLX_OK : FLX_E_NUMERIC;
}

static void try_symbolic(uint64_t seed)
{
    subject s;
    flx_module *module;
    flx_error err = {0};
    flx_buffer text = {0};
    const flx_build_options o = {.struct_size = sizeof o,
                                 .flags = FLX_BUILD_TABLES,
                                 .name = "model",
                                 .vector_bytes = ways[seed / 2 % WAYS].vector_bytes};
    if (!symbolic_subject(&s, seed, &module))
        return;
    if (!is_refused(flx_build_c(s.g, &o, &text, NULL, NULL, &err), &err) && flx_graph_symbol(s.g, 0)) {
        c_file *f = c_file_compile(&text, compiler, ways[seed / 2 % WAYS].flags);
        try_extents(&s, seed, run_file, f);
        c_file_free(f);
        case_accepted();
    }
    flx_buffer_free(&text);
    random_subject_free(&s, module);
}

void attack_standalone(uint64_t seed)
{
    if (seed % 2)
        try_symbolic(seed);
    else
        try_bundle(seed);
}
