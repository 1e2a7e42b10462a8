/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_threads.c: C files with threads have the bits of the same file for one thread, whatever their number, and
   threads begin and end. */
#include "standalone/c_file.h"
#include "test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that threads share: convolutions in all directions, products of matrices and of batches, kernels. */
static const char text[] = "graph model(x: f32[4, 8, 24, 24], k: f32[12, 8, 3, 3], w: f32[288, 480]) {\n"
                           "  a = relu(conv(x, k, padding=[1, 1]))\n"
                           "  p = matmul(reshape(a, shape=[96, 288]), w)\n"
                           "  q = reshape(p, shape=[4, 24, 480])\n"
                           "  s = matmul(q, transpose(q, perm=[0, 2, 1]))\n"
                           "  return add(reduce_sum(mul(softmax(s, axis=-1), s)), reduce_mean(mul(p, p)))\n"
                           "}\n";

enum { INPUTS = 3, OUTPUTS = 4, MODEL_BYTES = 4096 };

typedef struct {
    flx_context *ctx;
    flx_graph *g; /* the value and its gradients */
    flx_tensor *in[INPUTS], *expected[OUTPUTS], *got[OUTPUTS];
} subject_of_threads;

typedef struct {
    c_file *object;
    int64_t memory_bytes;
} file_of_threads;

static void fill(flx_tensor *t, uint64_t *state)
{
    float *at = flx_tensor_data(t);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        at[i] = (float)(test_random(state) % 2001) / 1000 - 1;
}

static void begin(subject_of_threads *x)
{
    static const char *const wrt[] = {"x", "k", "w"};
    flx_error err = {0};
    uint64_t state = 3;
    *x = (subject_of_threads){.ctx = flx_context_new(NULL)};
    flx_module *m = flx_parse(x->ctx, text, strlen(text), "threads", &err);
    CHECK_MSG(m, "%s", err.message);
    const flx_grad_options o = {sizeof o, FLX_GRAD_VALUE};
    x->g = flx_grad(flx_module_main(m), wrt, INPUTS, &o, &err);
    CHECK_MSG(x->g, "%s", err.message);
    flx_module_free(m);
    for (size_t i = 0; i < INPUTS; i++) {
        x->in[i] = flx_tensor_new(x->ctx, flx_val_type(x->g, flx_graph_input(x->g, i)), NULL, &err);
        fill(x->in[i], &state);
    }
    for (size_t k = 0; k < OUTPUTS; k++) {
        const flx_type *type = flx_val_type(x->g, flx_graph_output(x->g, k));
        x->expected[k] = flx_tensor_new(x->ctx, type, NULL, &err);
        x->got[k] = flx_tensor_new(x->ctx, type, NULL, &err);
        CHECK(x->expected[k] && x->got[k]);
    }
}

static void end(subject_of_threads *x)
{
    for (size_t i = 0; i < INPUTS; i++)
        flx_tensor_release(x->in[i]);
    for (size_t k = 0; k < OUTPUTS; k++) {
        flx_tensor_release(x->expected[k]);
        flx_tensor_release(x->got[k]);
    }
    flx_graph_release(x->g);
    flx_context_free(x->ctx);
}

/* Runs the graph as a C file by that many threads; POSIX threads are started and stopped. */
static void run_file(subject_of_threads *x, const file_of_threads *f, int threads, flx_tensor *const *out)
{
    union {
        void *alignment;
        unsigned char bytes[MODEL_BYTES];
    } m, team;
    const void *in[INPUTS];
    void *at[OUTPUTS];
    for (size_t i = 0; i < INPUTS; i++)
        in[i] = flx_tensor_const_data(x->in[i]);
    for (size_t k = 0; k < OUTPUTS; k++)
        at[k] = flx_tensor_data(out[k]);
    int (*init)(void *, void *), (*run)(const void *, const void *const *, void *const *);
    int (*start)(void *, void *, int);
    void (*stop)(void *);
    size_t bytes = (size_t)f->memory_bytes;
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    *(void **)&init = c_file_symbol(f->object, "model_init");
    *(void **)&run = c_file_symbol(f->object, "model_run");
    CHECK(memory && init(&m, memory) == 0);
    memset(memory, 0xa5, bytes);
    if (threads > 0) {
        *(void **)&start = c_file_symbol(f->object, "model_start");
        *(void **)&stop = c_file_symbol(f->object, "model_stop");
        CHECK(start(&m, &team, threads) == 0);
    }
    for (int round = 0; round < 3; round++)
        CHECK(run(&m, in, at) == 0);
    if (threads > 0) {
        stop(&m);
        stop(&m); /* does nothing */
        CHECK(run(&m, in, at) == 0);
    }
    free(memory);
}

static file_of_threads make(subject_of_threads *x, int32_t threads, int vector_bytes)
{
    flx_error err = {0};
    flx_buffer source;
    char flags[100];
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    const flx_build_options o = {.struct_size = sizeof o,
                                 .flags = FLX_BUILD_TABLES,
                                 .name = "model",
                                 .vector_bytes = vector_bytes,
                                 .threads = threads};
    CHECK_OK(flx_build_c(x->g, &o, &source, NULL, &sizes, &err), &err);
    snprintf(flags, sizeof flags, "-O1%s%s", vector_bytes ? " -mavx2 -mfma" : "",
             threads == FLX_BUILD_OPENMP     ? " -fopenmp"
             : threads == FLX_BUILD_PTHREADS ? " -pthread"
                                             : "");
    CHECK_MSG(!threads || strstr(source.data, "model_share(m, "), "no step is shared by threads");
    const file_of_threads f = {c_file_compile(&source, "gcc", flags), sizes.memory_bytes};
    flx_buffer_free(&source);
    return f;
}

static void check_bits(subject_of_threads *x, const file_of_threads *f, int threads, const char *about)
{
    for (size_t k = 0; k < OUTPUTS; k++)
        memset(flx_tensor_data(x->got[k]), 0xa5, flx_tensor_nbytes(x->got[k]));
    run_file(x, f, threads, x->got);
    for (size_t k = 0; k < OUTPUTS; k++)
        CHECK_MSG(memcmp(flx_tensor_const_data(x->got[k]), flx_tensor_const_data(x->expected[k]),
                         flx_tensor_nbytes(x->got[k])) == 0,
                  "%s, %d threads: output %zu has other bits", about, threads, k);
}

static void check_target(int vector_bytes)
{
    static const int counts[] = {1, 2, 3, 8, 100};
    subject_of_threads x;
    begin(&x);
    file_of_threads one = make(&x, FLX_BUILD_ONE_THREAD, vector_bytes);
    file_of_threads team = make(&x, FLX_BUILD_PTHREADS, vector_bytes);
    run_file(&x, &one, 0, x.expected);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        check_bits(&x, &team, counts[i], "POSIX threads");
    /* The library of OpenMP stays when the file is closed: its threads wait for work. */
    if (!vector_bytes && dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE)) {
        file_of_threads open = make(&x, FLX_BUILD_OPENMP, 0);
        check_bits(&x, &open, 0, "OpenMP");
        c_file_free(open.object);
    }
    c_file_free(one.object);
    c_file_free(team.object);
    end(&x);
}

TEST(standalone_threads_have_bits_of_one_thread)
{
    check_target(0);
}

TEST(standalone_threads_with_vectors_have_bits_of_one_thread)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_target(32);
#endif
}

TEST(standalone_threads_are_of_a_kind)
{
    flx_error err = {0};
    flx_buffer source;
    subject_of_threads x;
    begin(&x);
    const flx_build_options wrong = {.struct_size = sizeof wrong, .threads = 3};
    CHECK(flx_build_c(x.g, &wrong, &source, NULL, NULL, &err) == FLX_E_USAGE);
    end(&x);
}
