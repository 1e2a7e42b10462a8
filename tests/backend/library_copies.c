/* SPDX-License-Identifier: Apache-2.0 */
/* library_copies.c: several copies of the library in one process, as a program and a plugin of its have them. They
   share the numbers of descriptors, the loader, the cache of objects and the folder for temporary files, and nothing
   else: none may run what another has compiled. */
#include "backend/cache_fixture.h"

#include <fluxion/exec.h>
#include <fluxion/text.h>

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

/* What the test calls of a copy. */
#define FUNCTIONS(X)    \
    X(flx_context_new)  \
    X(flx_context_free) \
    X(flx_parse)        \
    X(flx_module_main)  \
    X(flx_module_free)  \
    X(flx_compile)      \
    X(flx_exec_run)     \
    X(flx_exec_free) X(flx_tensor_new) X(flx_tensor_get) X(flx_tensor_release) X(flx_val_type) X(flx_graph_input)

typedef struct {
    void *handle;
#define MEMBER(f) __typeof__(&(f)) f;
    FUNCTIONS(MEMBER)
#undef MEMBER
    flx_context *ctx;
} copy;

static void copy_file(const char *from, const char *to)
{
    char part[65536];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in && out);
    for (size_t n; (n = fread(part, 1, sizeof part, in)) > 0;)
        CHECK(fwrite(part, 1, n, out) == n);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

/* A file of its own: the loader knows files by their inodes. */
static copy open_copy(const char *dir, int number)
{
    copy c = {.handle = NULL};
    char path[900];
    snprintf(path, sizeof path, "%s/copy%d.so", dir, number);
    copy_file(FLX_LIBRARY_PATH, path);
    c.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(c.handle != NULL, "%s", dlerror());
    CHECK(unlink(path) == 0);
#define FIND(f) CHECK((*(void **)(void *)&c.f = dlsym(c.handle, #f)) != NULL);
    FUNCTIONS(FIND)
#undef FIND
    c.ctx = c.flx_context_new(NULL);
    CHECK(c.ctx != NULL);
    return c;
}

static void close_copy(copy *c)
{
    c->flx_context_free(c->ctx);
    dlclose(c->handle);
}

static flx_exec *compile(const copy *c, const char *text, const char *cache)
{
    flx_error err = {0};
    const flx_compile_options o = {
        .struct_size = sizeof o, .threads = 1, .optimisation = 1, .cache = FLX_CACHE_ON, .cache_dir = cache};
    flx_module *m = c->flx_parse(c->ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : (flx_code)err.code, &err);
    flx_exec *e = c->flx_compile(c->flx_module_main(m), &o, &err);
    CHECK_OK(e ? FLX_OK : (flx_code)err.code, &err);
    c->flx_module_free(m);
    return e;
}

/* The result at x = 3 everywhere. */
static double run(const copy *c, flx_exec *e)
{
    enum { N = 4 };
    static const float x[N] = {3, 3, 3, 3};
    flx_error err = {0};
    flx_tensor *out = NULL;
    flx_type t = flx_type_make(FLX_F32, 1, (flx_dim[]){N});
    flx_tensor *in = c->flx_tensor_new(c->ctx, &t, x, &err);
    CHECK(in != NULL);
    CHECK_OK(c->flx_exec_run(e, NULL, &(flx_feed){"x", in}, 1, &out, &err), &err);
    double y = c->flx_tensor_get(out, N - 1);
    c->flx_tensor_release(out);
    c->flx_tensor_release(in);
    return y;
}

/* In turn, so that serial numbers and descriptors of the copies are the same: once compiled, once from the cache. */
TEST(library_copies_do_not_run_the_code_of_each_other)
{
    enum { COPIES = 3, GRAPHS = 3 };
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    for (int round = 0; round < 2; round++) {
        copy copies[COPIES];
        flx_exec *e[COPIES][GRAPHS];
        for (int k = 0; k < COPIES; k++)
            copies[k] = open_copy(f.temp, k);
        for (int i = 0; i < GRAPHS; i++)
            for (int k = 0; k < COPIES; k++) {
                char text[100];
                snprintf(text, sizeof text, "graph g(x: f32[4]) { return add(mul(x, %d), %d) }", 10 * k, i);
                e[k][i] = compile(&copies[k], text, f.dir);
            }
        for (int i = 0; i < GRAPHS; i++)
            for (int k = 0; k < COPIES; k++) {
                CHECK_NEAR(run(&copies[k], e[k][i]), 30 * k + i, 0);
                copies[k].flx_exec_free(e[k][i]);
            }
        for (int k = 0; k < COPIES; k++)
            close_copy(&copies[k]);
    }
    cache_fixture_end(&f);
}
