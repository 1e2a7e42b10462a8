/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_params.c: the three ways in which a C file gets parameters give the same results. */
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    unsigned char *arena;
    const float *w, *b;
} linear_model;

typedef int (*init_function)(linear_model *m, void *memory);
typedef int (*load_function)(linear_model *m, const void *file, size_t bytes);
typedef int (*run_function)(const linear_model *m, const float *x, float *y);

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_params *values;
} subject;

static subject subject_open(void)
{
    flx_error err = {0};
    subject s = {.ctx = flx_context_new(NULL)};
    const char *plain = "graph model(x: f32[3], param w: f32[3, 2], param b: f32[2]) {\n"
                        "  return add(matmul(unsqueeze(x, axes=[0]), w), b)\n}\n";
    flx_module *m = flx_parse(s.ctx, plain, strlen(plain), "model", &err);
    CHECK_MSG(m, "%s", err.message);
    s.g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    s.values = flx_params_of(s.g, 3, &err);
    CHECK_MSG(s.values, "%s", err.message);
    float *b = flx_tensor_data(flx_params_find(s.values, "b"));
    b[0] = 0.5f;
    b[1] = -2.0f;
    return s;
}

static void subject_close(subject *s)
{
    flx_params_release(s->values);
    flx_graph_release(s->g);
    flx_context_free(s->ctx);
}

static c_file *build(const subject *s, int32_t params)
{
    flx_error err = {0};
    flx_buffer source;
    const flx_build_options o = {.struct_size = sizeof o, .params = params, .values = s->values};
    CHECK_OK(flx_build_c(s->g, &o, &source, NULL, NULL, &err), &err);
    c_file *f = c_file_compile(&source, "gcc", "-O1");
    flx_buffer_free(&source);
    return f;
}

static void run(const c_file *f, const linear_model *m, float y[2])
{
    static const float x[] = {1, -2, 3};
    run_function run_model;
    *(void **)&run_model = c_file_symbol(f, "model_run");
    CHECK(run_model(m, x, y) == 0);
}

static linear_model init(const c_file *f)
{
    static _Alignas(64) unsigned char memory[4096];
    linear_model m;
    init_function init_model;
    *(void **)&init_model = c_file_symbol(f, "model_init");
    CHECK(init_model(&m, memory) == 0);
    return m;
}

static void expected(const subject *s, float y[2])
{
    const float *w = flx_tensor_const_data(flx_params_find(s->values, "w"));
    const float *b = flx_tensor_const_data(flx_params_find(s->values, "b"));
    for (int j = 0; j < 2; j++)
        y[j] = (w[j] * 1 + w[2 + j] * -2) + w[4 + j] * 3 + b[j];
}

TEST(standalone_params_embedded_and_given_agree)
{
    subject s = subject_open();
    float want[2], y[2];
    expected(&s, want);
    c_file *f = build(&s, FLX_BUILD_EMBED);
    linear_model m = init(f);
    run(f, &m, y);
    CHECK(memcmp(y, want, sizeof y) == 0);
    c_file_free(f);
    f = build(&s, FLX_BUILD_CALLER);
    m = init(f);
    run_function run_model;
    *(void **)&run_model = c_file_symbol(f, "model_run");
    CHECK(run_model(&m, want, y) == 2); /* no parameter */
    m.w = flx_tensor_const_data(flx_params_find(s.values, "w"));
    m.b = flx_tensor_const_data(flx_params_find(s.values, "b"));
    run(f, &m, y);
    CHECK(memcmp(y, want, sizeof y) == 0);
    c_file_free(f);
    subject_close(&s);
}

/* The file of flx_params_save(), and every prefix and every changed byte of it, which must do no harm. */
TEST(standalone_params_are_found_in_file)
{
    subject s = subject_open();
    flx_error err = {0};
    const char *path = test_temp_path("params.safetensors");
    CHECK_OK(flx_params_save(s.values, path, &err), &err);
    FILE *in = fopen(path, "rb");
    _Alignas(64) unsigned char file[2000];
    CHECK(in);
    size_t size = fread(file, 1, sizeof file, in);
    fclose(in);
    unlink(path);
    c_file *f = build(&s, FLX_BUILD_FILE);
    linear_model m = init(f);
    load_function load;
    *(void **)&load = c_file_symbol(f, "model_load");
    float want[2], y[2];
    expected(&s, want);
    CHECK(load(&m, file, size) == 0);
    run(f, &m, y);
    CHECK(memcmp(y, want, sizeof y) == 0);
    for (size_t n = 0; n < size; n++)
        CHECK(load(&m, file, n) == 4);
    for (size_t i = 0; i < size; i++) {
        unsigned char was = file[i];
        file[i] = (unsigned char)(was + 1);
        load(&m, file, size);
        file[i] = was;
    }
    c_file_free(f);
    subject_close(&s);
}

TEST(standalone_params_to_embed_must_have_values)
{
    subject s = subject_open();
    flx_error err = {0};
    flx_buffer source;
    const flx_build_options o = {.struct_size = sizeof o, .params = FLX_BUILD_EMBED};
    CHECK(flx_build_c(s.g, &o, &source, NULL, NULL, &err) == FLX_E_MISSING_INPUT);
    subject_close(&s);
}

TEST(standalone_options_that_do_not_exist_are_refused)
{
    subject s = subject_open();
    static const flx_build_options wrong[] = {
        {.struct_size = sizeof *wrong, .flags = 64},
        {.struct_size = sizeof *wrong, .params = 3},
        {.struct_size = sizeof *wrong, .vector_bytes = 24},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flx_error err = {0};
        flx_buffer source;
        CHECK(flx_build_c(s.g, &wrong[i], &source, NULL, NULL, &err) == FLX_E_USAGE && !source.data);
    }
    CHECK(flx_build_c(s.g, NULL, NULL, NULL, NULL, NULL) == FLX_E_USAGE);
    subject_close(&s);
}
