/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_symbolic.c: C files whose functions take extents: one file, many extents, each against the reference. */
#include "effort.h"
#include "graph/graph.h"
#include "ops/sample.h"
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for the struct of a model without parameters, and of its team of threads. */
typedef union {
    void *alignment;
    unsigned char bytes[4096];
} bare_model;

static const char *const graphs[] = {
    "graph f(x: f32[N, 20], w: f32[20, 10], b: f32[10]) {\n"
    "  z = relu(add(matmul(x, w), b))\n  return softmax(z, axis=-1), reduce_mean(z), reduce_max(z, axes=[0])\n}\n",
    "graph f(x: f32[N, 3, 8, 8], w: f32[4, 3, 3, 3]) {\n  return conv(x, w, padding=[1, 1])\n}\n",
    "graph f(x: f32[N, 6], y: f32[M, 6]) {\n  return dot_general(x, y, lc=[1], rc=[1]), concat(x, y, axis=0)\n}\n",
    "graph f(x: f64[N], i: i32[N]) {\n  return cumsum(x), sort(x), gather(x, i, oob=clamp)\n}\n",
    "graph f(x: f32[N, 4, 5], y: f32[N, 5, 3]) {\n  return matmul(x, y), transpose(x, perm=[1, 0, 2])\n}\n",
    "graph f(x: f32[N, 900], y: f32[900, 9]) {\n  return reduce_sum(exp(x), axes=[1]), matmul(x, y), tanh(x)\n}\n",
    "graph step(c: f32[N], x: f32[N]) {\n  h = tanh(add(c, x))\n  return h, mul(h, h)\n}\n"
    "graph f(c: f32[N], x: f32[7, N]) {\n  s, y = scan(c, x, body=@step, num_carry=1)\n  return s, y\n}\n",
};

static flx_graph *main_of(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "case", &err);
    CHECK_MSG(m, "%s: %s", text, err.message);
    flx_graph *g = flx_graph_retain(flx_module_find(m, "f"));
    flx_module_free(m);
    return g;
}

static flx_tensor *random_value(flx_context *ctx, const flx_type *type, uint64_t *state)
{
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(ctx, type, NULL, &err);
    CHECK_MSG(t, "%s", err.message);
    for (int64_t i = 0; i < flx_tensor_count(t); i++) {
        double x = (double)(test_random(state) % 2001) / 1000 - 1;
        if (type->dtype == FLX_F64)
            ((double *)flx_tensor_data(t))[i] = x;
        else if (type->dtype == FLX_F32)
            ((float *)flx_tensor_data(t))[i] = (float)x;
        else
            ((int32_t *)flx_tensor_data(t))[i] = (int32_t)(test_random(state) % 40);
    }
    return t;
}

/* The second extent beside the first one: larger or smaller. */
static int64_t second(int64_t n)
{
    return n % 2 ? 2 * n + 1 : n / 2 + 1;
}

static int call(const c_file *f, bare_model *m, size_t symbols, int64_t n, const void *const *in, void *const *out)
{
    int (*one)(const bare_model *, int64_t, const void *const *, void *const *);
    int (*two)(const bare_model *, int64_t, int64_t, const void *const *, void *const *);
    *(void **)&one = c_file_symbol(f, "model_run");
    *(void **)&two = c_file_symbol(f, "model_run");
    return symbols == 1 ? one(m, n, in, out) : two(m, n, second(n), in, out);
}

static int64_t memory_bytes(const c_file *f, size_t symbols, int64_t n)
{
    int64_t (*one)(int64_t), (*two)(int64_t, int64_t);
    *(void **)&one = c_file_symbol(f, "model_memory_bytes");
    *(void **)&two = c_file_symbol(f, "model_memory_bytes");
    return symbols == 1 ? one(n) : two(n, second(n));
}

/* Starts or stops a team of three threads, where the file has one. */
static void start_team(const c_file *f, bare_model *m, bare_model *team)
{
    int (*start)(bare_model *, bare_model *, int);
    *(void **)&start = c_file_symbol(f, "model_start");
    CHECK(start(m, team, 3) == 0);
}

static void stop_team(const c_file *f, bare_model *m)
{
    void (*stop)(bare_model *);
    *(void **)&stop = c_file_symbol(f, "model_stop");
    stop(m);
}

static bool by_team; /* files have threads */

enum { MOST_OUTPUTS = 8 };

/* Values of the inputs of a graph without symbols, and room for its outputs. */
typedef struct {
    flx_graph *g;
    flx_tensor *values[SAMPLE_MAX_OPERANDS], *out[MOST_OUTPUTS];
    const void *in[SAMPLE_MAX_OPERANDS];
    void *at[MOST_OUTPUTS];
} bound_graph;

static void give_values(bound_graph *b, uint64_t state, const sample_case *c)
{
    flx_error err = {0};
    flx_context *ctx = flx_graph_context(b->g);
    CHECK(flx_graph_output_count(b->g) <= MOST_OUTPUTS);
    for (size_t i = 0; i < flx_graph_input_count(b->g); i++) {
        const flx_type *type = flx_val_type(b->g, flx_graph_input(b->g, i));
        b->values[i] = c ? sample_value(ctx, c, i, type, FILL_RANDOM, &state, &err) : random_value(ctx, type, &state);
        CHECK_MADE(b->values[i], &err);
        b->in[i] = flx_tensor_const_data(b->values[i]);
    }
    for (size_t k = 0; k < flx_graph_output_count(b->g); k++) {
        b->out[k] = flx_tensor_new(ctx, flx_val_type(b->g, flx_graph_output(b->g, k)), NULL, &err);
        CHECK_MADE(b->out[k], &err);
        b->at[k] = flx_tensor_data(b->out[k]);
    }
}

/* By the file, in memory that holds no zeros; it also refuses the extent 0. */
static void run_file(const c_file *f, bound_graph *b, size_t symbols, int64_t n, bool may_refuse)
{
    int64_t bytes = memory_bytes(f, symbols, n);
    CHECK(bytes > 0);
    void *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    bare_model m, team;
    int (*init)(bare_model *, void *);
    *(void **)&init = c_file_symbol(f, "model_init");
    CHECK(memory && init(&m, memory) == 0);
    memset(memory, 0xa5, (size_t)bytes);
    if (by_team)
        start_team(f, &m, &team);
    int code = call(f, &m, symbols, n, b->in, b->at);
    CHECK_MSG(code == 0 || may_refuse, "%d", code);
    CHECK(call(f, &m, symbols, 0, b->in, b->at) == 10);
    if (by_team)
        stop_team(f, &m);
    free(memory);
}

/* The graph with extents n (and a second one), by the file and by the reference; c: whose values it takes, or NULL. */
static void check_extent(const c_file *f, const flx_graph *g, int64_t n, const sample_case *c, const char *about)
{
    flx_error err = {0};
    flx_dim_binding dims[2];
    size_t symbols = 0;
    for (const char *s; (s = flx_graph_symbol(g, symbols)) != NULL; symbols++)
        dims[symbols] = (flx_dim_binding){s, symbols ? second(n) : n};
    bound_graph b = {.g = flx_specialise(g, dims, symbols, &err)};
    if (c && (!b.g || memory_bytes(f, symbols, n) < 0)) {
        flx_graph_release(b.g);
        return; /* the sample does not take this extent, or the file says so */
    }
    CHECK_MADE(b.g, &err);
    give_values(&b, (uint64_t)n, c);
    run_file(f, &b, symbols, n, c != NULL);
    char way[200];
    snprintf(way, sizeof way, "C file, N = %lld: %.150s", (long long)n, about);
    bundle *all = bundle_new(flx_graph_context(g));
    if (bundle_add(all, b.g, b.values, way))
        bundle_compare(all, b.out, way);
    bundle_free(all);
    for (size_t k = 0; k < flx_graph_output_count(b.g); k++)
        flx_tensor_release(b.out[k]);
    flx_graph_release(b.g);
}

/* How files are written and compiled. */
typedef struct {
    const char *flags;
    int32_t threads, vector_bytes;
    bool needs_two; /* an extent of 1 is too small */
} file_way;

static void check_graph(const flx_graph *g, const char *about, const file_way *way)
{
    static const int64_t extents[] = {1,  2,  3,  4,  5,  8,   15,  16,  17,  31,  32,  33,  48,
                                      63, 64, 65, 96, 97, 100, 133, 255, 256, 257, 300, 1025};
    flx_error err = {0};
    flx_buffer text;
    const flx_build_options o = {.struct_size = sizeof o,
                                 .flags = FLX_BUILD_TABLES,
                                 .name = "model",
                                 .threads = way->threads,
                                 .vector_bytes = way->vector_bytes};
    by_team = way->threads == FLX_BUILD_PTHREADS;
    CHECK_MSG(flx_build_c(g, &o, &text, NULL, NULL, &err) == FLX_OK, "%s: %s", about, err.message);
    c_file *f = c_file_compile(&text, "gcc", way->flags);
    for (size_t i = way->needs_two ? 1 : 0; i < sizeof extents / sizeof *extents; i++)
        check_extent(f, g, extents[i], NULL, about);
    by_team = false;
    c_file_free(f);
    flx_buffer_free(&text);
}

static void check_text(const char *text, const file_way *way)
{
    flx_context *ctx = bundle_context();
    flx_graph *g = main_of(ctx, text);
    check_graph(g, text, way);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(standalone_symbolic_files_agree_with_reference_for_all_extents)
{
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        check_text(graphs[i], &(file_way){.flags = "-O1 -Wvla"});
}

/* Threads decide while the file runs whether an extent leaves them enough work. */
TEST(standalone_symbolic_files_by_threads_agree_with_reference)
{
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        check_text(graphs[i], &(file_way){.flags = "-O1 -Wvla -pthread", .threads = FLX_BUILD_PTHREADS});
}

static const char *const maps[] = {
    "graph f(x: f32[N]) {\n  return exp(x), mul(x, x)\n}\n",
    "graph f(x: f32[N, 2]) {\n  return exp(x)\n}\n",
    "graph f(x: f32[N, 8], b: f32[8]) {\n  return tanh(add(x, b)), reduce_sum(x, axes=[0]), softmax(x, axis=-1)\n}\n",
    "graph f(x: f32[N], y: f32[5, N], z: f32[5, 1]) {\n  return add(x, y), mul(y, z), reduce_sum(exp(y))\n}\n",
    "graph f(x: f32[N, 1, 3], y: f32[1, M, 3]) {\n  return reduce_sum(mul(x, y))\n}\n",
};

/* Loops over vectors, and what counts leave after them, hold for all extents. */
TEST(standalone_symbolic_files_in_vectors_agree_with_reference)
{
    const char *const turned = "graph f(x: f32[N, 5]) {\n  return transpose(x, perm=[1, 0])\n}\n";
    const file_way narrow = {.flags = "-O1 -Wvla -Wno-psabi", .vector_bytes = 16};
    const file_way shared = {
        .flags = "-O1 -Wvla -Wno-psabi -pthread", .vector_bytes = 16, .threads = FLX_BUILD_PTHREADS};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        check_text(maps[i], i ? &narrow : &shared);
    check_text(turned, &shared);
#if defined(__x86_64__)
    const file_way wide = {.flags = "-O1 -Wvla -Wno-psabi -mavx2 -mfma", .vector_bytes = 32};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
            check_text(maps[i], &wide);
        for (size_t i = 0; i < 2; i++)
            check_text(graphs[i], &wide);
    }
#endif
}

/* Sizes beside the extent: N - 1, N + 1, N - 2 … Rounded down or up to tiles they are the same as N for most extents,
   and for all that files are written from at first. */
static const char *const shifted[] = {
    "graph f(x: f32[N, 8], w: f32[8, 4]) {\n  a = narrow(x, axis=0, start=1, len=N-1)\n"
    "  return matmul(a, w), reduce_sum(x, axes=[1])\n}\n",
    "graph f(x: f32[N]) {\n  return exp(pad(x, 0, low=[1], high=[0])), tanh(pad(x, 0, low=[1], high=[1]))\n}\n",
    "graph f(x: f32[N, 8], y: f32[1, 8]) {\n  a = concat(x, y, axis=0)\n  return exp(a), softmax(a, axis=1)\n}\n",
    "graph f(x: f64[N]) {\n  a = narrow(x, axis=0, start=0, len=N-1)\n  b = narrow(x, axis=0, start=1, len=N-1)\n"
    "  c = sub(b, mul(a, a))\n  return reduce_sum(mul(c, c))\n}\n",
    "graph f(x: f32[N, 5]) {\n  a = pad(x, 0, low=[1, 0], high=[0, 0])\n  return reduce_sum(exp(a))\n}\n",
};

TEST(standalone_symbolic_files_with_sizes_beside_the_extent_agree_with_reference)
{
    static const file_way ways[] = {{.flags = "-O1", .needs_two = true},
                                    {.flags = "-O1 -Wno-psabi", .vector_bytes = 16, .needs_two = true}};
    for (size_t i = 0; i < sizeof shifted / sizeof *shifted; i++)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
            check_text(shifted[i], &ways[k]);
}

/* Sums of all elements are those of rows, then of one number for each row. */
TEST(standalone_symbolic_reductions_of_all_elements)
{
    static const int widths[] = {1, 2, 3, 5, 8, 10, 24, 32, 100};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "graph f(x: f32[N, %d]) {\n  return reduce_sum(x), reduce_mean(x), reduce_max(x), argmax(reshape(x, "
                 "shape=[-1]), axis=0)\n}\n",
                 widths[i]);
        check_text(text, &(file_way){.flags = "-O0"});
    }
}

/* What has another text for some extents is an error that names its nodes. */
TEST(standalone_symbolic_files_that_cannot_be_name_the_node)
{
    static const char text[] = "graph f(x: f32[1, 1, N], w: f32[4, 1, 9]) {\n  y = conv(x, w)\n  return relu(y)\n}\n";
    for (int32_t bytes = 0; bytes <= 32; bytes += 16) {
        flx_error err = {0};
        flx_buffer source;
        flx_context *ctx = bundle_context();
        flx_graph *g = main_of(ctx, text);
        const flx_build_options o = {.struct_size = sizeof o, .name = "model", .vector_bytes = bytes};
        CHECK(flx_build_c(g, &o, &source, NULL, NULL, &err) == FLX_E_UNBOUND_DIM);
        CHECK_MSG(strstr(err.message, "conv"), "%s", err.message);
        CHECK(strstr(err.hint, "--set N=INT"));
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}

/* Extents that an op does not take, or for which the text would be another, are refused by the file. */
TEST(standalone_symbolic_files_refuse_extents_that_are_too_small)
{
    static const struct {
        const char *text;
        int64_t least;
    } cases[] = {
        {"graph f(x: f32[N, 3]) {\n  t, i = top_k(x, k=2, axis=0)\n  return roll(x, shift=3, axis=0), t\n}\n", 3},
        {"graph f(x: f32[N, 3]) {\n  return slice(x, start=[2, 0], limit=[4, 3])\n}\n", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        flx_buffer text;
        flx_context *ctx = bundle_context();
        flx_graph *g = main_of(ctx, cases[i].text);
        const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_TABLES, .name = "model"};
        CHECK_OK(flx_build_c(g, &o, &text, NULL, NULL, &err), &err);
        c_file *f = c_file_compile(&text, "gcc", "-O1");
        for (int64_t n = -1; n < cases[i].least; n++) {
            CHECK(memory_bytes(f, 1, n) == -1);
            CHECK(call(f, NULL, 1, n, NULL, NULL) == 10);
        }
        for (int64_t n = cases[i].least; n < 9; n++)
            check_extent(f, g, n, NULL, cases[i].text);
        c_file_free(f);
        flx_buffer_free(&text);
        flx_graph_release(g);
        flx_context_free(ctx);
    }
}

/* Names of symbolic dimensions that the text has for something else: variables, types, functions, macros, the range. */
TEST(standalone_symbolic_names_do_not_clash)
{
    static const char *const names[][2] = {{"i", "x"},   {"int", "int_"},           {"limit_", "least_"},
                                           {"b", "run"}, {"MODEL_BAD_EXTENT", "I"}, {"N", "N_extent"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "graph f(x: f32[%s, 6], y: f32[6, %s]) {\n  z = relu(matmul(x, y))\n  return z, reduce_max(z, "
                 "axes=[0])\n}\n",
                 names[i][0], names[i][1]);
        check_text(text, &(file_way){.flags = "-O0"});
    }
}

/* The gradient of a loss, which is a mean over the examples. */
TEST(standalone_symbolic_gradient_agrees_with_reference)
{
    flx_error err = {0};
    flx_context *ctx = bundle_context();
    flx_graph *g = main_of(ctx, "graph f(x: f32[N, 12], w: f32[12, 7], b: f32[7]) {\n"
                                "  z = add(matmul(x, w), b)\n  return reduce_mean(mul(tanh(z), z))\n}\n");
    const char *wrt[] = {"w", "b"};
    flx_grad_options o = {.flags = FLX_GRAD_VALUE};
    flx_graph *d = flx_grad(g, wrt, 2, &o, &err);
    CHECK_MSG(d, "%s", err.message);
    check_graph(d, "gradient", &(file_way){.flags = "-O1 -Wvla"});
    flx_graph_release(d);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Samples ---- */

static struct {
    uint64_t turn, share;
    size_t built, refused;
} now;

static void check_sample(const sample_case *c)
{
    flx_error err = {0};
    flx_buffer text;
    const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_TABLES, .name = "model"};
    if (c->sample->error != FLX_OK || !strchr(c->sample->operands, 'N') || (now.turn++ + test_seed()) % now.share != 0)
        return;
    flx_context *ctx = bundle_context();
    flx_module *m = sample_parse(ctx, c, &err);
    CHECK_MSG(m, "%s: %s", sample_describe(c), err.message);
    flx_graph *g = flx_module_main(m);
    flx_code code =
        flx_graph_symbol(g, 0) && !flx_graph_symbol(g, 2) ? flx_build_c(g, &o, &text, NULL, NULL, &err) : FLX_E_USAGE;
    now.built += code == FLX_OK;
    now.refused += code == FLX_E_UNSUPPORTED || code == FLX_E_UNBOUND_DIM;
    if (code != FLX_OK && effort(EFFORT_report))
        printf("refused: %s: %s\n", sample_describe(c), err.message);
    if (code == FLX_OK) {
        c_file *f = c_file_compile(&text, "gcc", "-O0");
        for (int64_t n = 1; n < 6; n += 2)
            check_extent(f, g, n, c, sample_describe(c));
        c_file_free(f);
        flx_buffer_free(&text);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

/* What is built is right; most can be. */
TEST(standalone_symbolic_samples_agree_with_reference)
{
    now.turn = now.built = now.refused = 0;
    now.share = 2 * (uint64_t)effort(EFFORT_standalone_share);
    sample_each(check_sample);
    if (effort(EFFORT_report))
        printf("%zu symbolic samples built, %zu refused\n", now.built, now.refused);
}
