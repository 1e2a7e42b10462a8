/* SPDX-License-Identifier: Apache-2.0 */
/* bench_gpt2.c: a GPT-2 training step built from primitives: how long each part of compiling takes, and a step.

       bench_gpt2 [LAYERS [BATCH [TOKENS]]]      (default 12 4 64; 768 channels, 12 heads, 50304 words)
       bench_gpt2 --train DEVICE [LAYERS [BATCH [TOKENS]]]
       mpirun -n 2 bench_gpt2 --mpi DEVICE [LAYERS [BATCH [TOKENS [ZERO]]]]

   The loss of the first step has a known value for the default size. With --train, whole steps of AdamW on that device,
   with products in bf16. With --mpi the same in f32 by processes that share a batch: each has BATCH rows and one
   thread. With ZERO, 0 to 3, the step is cut for the mesh: 1 and 2 cut the state of the optimiser, 3 also the
   parameters. FLX_MESH_OVERLAP=0: exchanges end before the next step of the program begins. */
#include "bench.h"

#include <fluxion/fluxion.h>
#include <fluxion/mesh.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 768, HEADS = 12, WORDS = 50304, PER_LAYER = 12 };

/* ---- The model as text ---- */

typedef struct {
    char *at;
    size_t n, cap;
} text;

static void add(text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    t->n += (size_t)vsnprintf(t->at + t->n, t->cap - t->n, fmt, args);
    va_end(args);
}

/* Shapes of the parameters of a layer, in order. */
static const struct {
    const char *name;
    int rows, columns; /* rows 0: a vector */
} layer_params[PER_LAYER] = {
    {"g1", 0, CHANNELS},
    {"c1", 0, CHANNELS},
    {"wq", CHANNELS, 3 * CHANNELS},
    {"bq", 0, 3 * CHANNELS},
    {"wo", CHANNELS, CHANNELS},
    {"bo", 0, CHANNELS},
    {"g2", 0, CHANNELS},
    {"c2", 0, CHANNELS},
    {"w1", CHANNELS, 4 * CHANNELS},
    {"b1", 0, 4 * CHANNELS},
    {"w2", 4 * CHANNELS, CHANNELS},
    {"b2", 0, CHANNELS},
};

static void declare(text *t, int layers, int batch, int tokens)
{
    add(t, "graph gpt2(param wte: f32[%d, %d], param wpe: f32[%d, %d]", WORDS, CHANNELS, tokens, CHANNELS);
    for (int l = 0; l < layers; l++)
        for (int k = 0; k < PER_LAYER; k++) {
            add(t, ", param %s_%d: f32[", layer_params[k].name, l);
            if (layer_params[k].rows)
                add(t, "%d, ", layer_params[k].rows);
            add(t, "%d]", layer_params[k].columns);
        }
    add(t, ", param gf: f32[%d], param cf: f32[%d], ids: i32[%d, %d], next: i32[%d]) {\n", CHANNELS, CHANNELS, batch,
        tokens, batch * tokens);
}

static void norm(text *t, const char *out, const char *in, const char *g, const char *c, int l)
{
    add(t, "  %s_m = sub(%s, reduce_mean(%s, axes=[-1], keep_dims=true))\n", out, in, in);
    add(t, "  %s_v = reduce_mean(mul(%s_m, %s_m), axes=[-1], keep_dims=true)\n", out, out, out);
    add(t, "  %s = add(mul(mul(%s_m, rsqrt(add(%s_v, 1e-5))), %s", out, out, out, g);
    add(t, l < 0 ? "), %s)\n" : "_%2$d), %1$s_%2$d)\n", c, l);
}

/* Channels [from, from + CHANNELS) of the projection as [batch, heads, tokens, size]. */
static void head(text *t, const char *name, int l, int from, int batch, int tokens)
{
    add(t,
        "  %s%d = transpose(reshape(narrow(qkv%d, axis=1, start=%d, len=%d), shape=[%d, %d, %d, %d]), perm=[0, 2, 1, "
        "3])\n",
        name, l, l, from, CHANNELS, batch, tokens, HEADS, CHANNELS / HEADS);
}

/* A third of the projection as [batch, tokens, channels]. */
static void third(text *t, const char *name, int l, int from, int batch, int tokens)
{
    add(t, "  %s%d = reshape(narrow(qkv%d, axis=1, start=%d, len=%d), shape=[%d, %d, %d])\n", name, l, l, from,
        CHANNELS, batch, tokens, CHANNELS);
}

/* As one op. */
static void attend(text *t, int l, int batch, int tokens)
{
    third(t, "q", l, 0, batch, tokens);
    third(t, "k", l, CHANNELS, batch, tokens);
    third(t, "v", l, 2 * CHANNELS, batch, tokens);
    add(t, "  p%d = attention(q%d, k%d, v%d, layout=bsd, num_heads=%d, mask_kind=causal)\n", l, l, l, l, HEADS);
    add(t, "  o%d = reshape(p%d, shape=[%d, %d])\n", l, l, batch * tokens, CHANNELS);
}

static void attend_in_parts(text *t, int l, int batch, int tokens)
{
    head(t, "q", l, 0, batch, tokens);
    head(t, "k", l, CHANNELS, batch, tokens);
    head(t, "v", l, 2 * CHANNELS, batch, tokens);
    add(t, "  t%d = mul(matmul(q%d, transpose(k%d, perm=[0, 1, 3, 2])), 0.125)\n", l, l, l);
    add(t, "  p%d = softmax(where(seen, t%d, -1e30), axis=-1)\n", l, l);
    add(t, "  o%d = reshape(transpose(matmul(p%d, v%d), perm=[0, 2, 1, 3]), shape=[%d, %d])\n", l, l, l, batch * tokens,
        CHANNELS);
}

/* in w + b; narrow: on operands rounded to bf16, which the result is too. */
static void linear(text *t, const char *out, const char *in, const char *w, const char *b, int l, bool is_narrow)
{
    if (is_narrow)
        add(t, "  %s%d = add(matmul(cast(%s%d, to=bf16), cast(%s_%d, to=bf16)), cast(%s_%d, to=bf16))\n", out, l, in, l,
            w, l, b, l);
    else
        add(t, "  %s%d = add(matmul(%s%d, %s_%d), %s_%d)\n", out, l, in, l, w, l, b, l);
}

static void layer(text *t, int l, int batch, int tokens, bool in_parts)
{
    char a[24], b[24], x[24];
    snprintf(a, sizeof a, "a%d", l);
    snprintf(b, sizeof b, "n%d", l);
    snprintf(x, sizeof x, "x%d", l);
    norm(t, a, x, "g1", "c1", l);
    linear(t, "qkv", "a", "wq", "bq", l, !in_parts);
    if (in_parts)
        attend_in_parts(t, l, batch, tokens);
    else
        attend(t, l, batch, tokens);
    linear(t, "r", "o", "wo", "bo", l, !in_parts);
    add(t, "  y%d = add(x%d, cast(r%d, to=f32))\n", l, l, l);
    snprintf(x, sizeof x, "y%d", l);
    norm(t, b, x, "g2", "c2", l);
    linear(t, "g", "n", "w1", "b1", l, !in_parts);
    add(t, "  h%d = gelu_approx(g%d)\n", l, l);
    linear(t, "s", "h", "w2", "b2", l, !in_parts);
    add(t, "  x%d = add(y%d, cast(s%d, to=f32))\n", l + 1, l, l);
}

static void write_model(text *t, int layers, int batch, int tokens, bool in_parts)
{
    int rows = batch * tokens;
    char last[24];
    declare(t, layers, batch, tokens);
    if (in_parts)
        add(t, "  seen = ge(iota(i32[%d, %d], axis=0), iota(i32[%d, %d], axis=1))\n", tokens, tokens, tokens, tokens);
    add(t, "  e = add(gather(wte, ids, axis=0), wpe)\n  x0 = reshape(e, shape=[%d, %d])\n", rows, CHANNELS);
    for (int l = 0; l < layers; l++)
        layer(t, l, batch, tokens, in_parts);
    snprintf(last, sizeof last, "x%d", layers);
    norm(t, "f", last, "gf", "cf", -1);
    if (in_parts)
        add(t, "  z = matmul(f, transpose(wte, perm=[1, 0]))\n");
    else
        add(t, "  z = cast(matmul(cast(f, to=bf16), transpose(cast(wte, to=bf16), perm=[1, 0])), to=f32)\n");
    add(t, "  p = log_softmax(z, axis=-1)\n");
    add(t, "  hit = eq(iota(i32[%d, %d], axis=1), unsqueeze(next, axes=[1]))\n", rows, WORDS);
    add(t, "  loss = neg(mul(reduce_sum(reduce_sum(where(hit, p, 0), axes=[1])), %.17g))\n  return loss\n}\n",
        1.0 / rows);
}

/* ---- Inputs ---- */

/* Weights are small random numbers, gains one, all else zero. Seeds: the tables 1 and 2, layer l starting at 10 + 4 l.
   */
static void fill_param(float *x, int64_t n, const char *name)
{
    static const char *const matrices[] = {"wq_", "wo_", "w1_", "w2_"};
    float scale = 0.02f * sqrtf(3.0f);
    uint32_t seed = strcmp(name, "wte") == 0 ? 1 : strcmp(name, "wpe") == 0 ? 2 : 0;
    for (uint32_t k = 0; k < 4; k++)
        if (strncmp(name, matrices[k], 3) == 0)
            seed = 10 + 4 * (uint32_t)atoi(name + 3) + k;
    for (int64_t i = 0; i < n; i++)
        x[i] = seed ? hashed((uint32_t)i, seed) * scale : name[0] == 'g' ? 1.0f : 0.0f;
}

/* Words below 50257 from seed 7, one more per row than there are tokens: inputs, and the word after each. */
static void fill_words(int32_t *ids, int32_t *next, int batch, int tokens)
{
    for (int b = 0; b < batch; b++)
        for (int t = 0; t <= tokens; t++) {
            double v = ((double)hashed((uint32_t)(b * (tokens + 1) + t), 7) + 1) * 0.5 * (WORDS - 47);
            int32_t word = (int32_t)fmin(v, WORDS - 48);
            if (t < tokens)
                ids[b * tokens + t] = word;
            if (t > 0)
                next[b * tokens + t - 1] = word;
        }
}

/* ---- Measuring ---- */

static flx_graph *gradient(const flx_graph *g)
{
    const char *wrt[4096];
    size_t n = 0;
    flx_error err = {0};
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        if (flx_graph_input_is_param(g, i))
            wrt[n++] = flx_val_name(g, flx_graph_input(g, i));
    flx_grad_options o = {.flags = FLX_GRAD_VALUE};
    flx_graph *out = flx_grad(g, wrt, n, &o, &err);
    check(out != NULL, &err);
    return out;
}

/* ---- Training ---- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fill_params(flx_params *set)
{
    for (size_t i = 0; i < flx_params_count(set); i++) {
        flx_tensor *x = flx_params_at(set, i);
        fill_param(flx_tensor_data(x), flx_tensor_count(x), flx_params_name(set, i));
    }
}

enum { STEPS = 12, FIRST = 3 };

/* cpu_s: processor time of a step, of all threads of this process. */
static void print_steps(flx_trainer *t, double *times, const double *losses, double compiling, int words, double cpu)
{
    double first = times[0];
    qsort(times + FIRST, STEPS - FIRST, sizeof *times, compare_times);
    double median = times[FIRST + (STEPS - FIRST) / 2];
    printf("{\"workload\": \"gpt2_124m\", \"seconds\": %.6g, \"best\": %.6g, \"check\": %.8g, \"compile_s\": %.4g, "
           "\"cpu_s\": %.4g, \"tokens_per_s\": %.6g, \"peak_mem_bytes\": %zu, \"losses\": [",
           median, times[FIRST], losses[0], compiling + first - median, cpu, words / median,
           flx_exec_memory(flx_trainer_exec(t)) + flx_trainer_memory(t));
    for (int i = 0; i < 6; i++)
        printf("%s%.6g", i ? ", " : "", losses[i]);
    printf("]}\n");
    const char *traced = getenv("FLX_BENCH_REPORT");
    if (traced) {
        flx_buffer report = {0};
        flx_error err = {0};
        check(flx_exec_report(flx_trainer_exec(t), &report, &err) == FLX_OK, &err);
        fputs(report.data, stderr);
        flx_buffer_free(&report);
    }
}

static void run_steps(flx_context *ctx, flx_trainer *t, int batch, int tokens, double compiling)
{
    flx_error err = {0};
    double times[STEPS], losses[STEPS];
    const flx_type types[] = {flx_type_make(FLX_I32, 2, (flx_dim[]){batch, tokens}),
                              flx_type_make(FLX_I32, 1, (flx_dim[]){batch * tokens})};
    flx_tensor *ids = flx_tensor_new(ctx, &types[0], NULL, &err), *next = flx_tensor_new(ctx, &types[1], NULL, &err);
    check(ids && next, &err);
    fill_words(flx_tensor_data(ids), flx_tensor_data(next), batch, tokens);
    const flx_feed feeds[] = {{"ids", ids}, {"next", next}};
    clock_t begin = 0;
    for (int i = 0; i < STEPS; i++) {
        begin = i == FIRST ? clock() : begin;
        double start = now();
        check(flx_trainer_step(t, feeds, 2, &losses[i], &err) == FLX_OK, &err);
        times[i] = now() - start;
    }
    double cpu = (double)(clock() - begin) / CLOCKS_PER_SEC / (STEPS - FIRST);
    if (flx_mesh_rank(ctx) == 0)
        print_steps(t, times, losses, compiling, batch * tokens * (int)flx_mesh_size(ctx), cpu);
    flx_tensor_release(ids);
    flx_tensor_release(next);
}

typedef struct {
    int layers, batch, tokens;
    bool is_shared; /* by the processes of the mesh that the context has joined */
    int zero;       /* below 0: the step is not cut */
} sizes;

static int train(const flx_graph *loss, const char *device, const sizes *n)
{
    flx_error err = {0};
    flx_context *ctx = flx_graph_context(loss);
    char mesh[40];
    const flx_sharding cuts[] = {{"ids", "data,-"}, {"next", "data"}};
    flx_train_options o = {.struct_size = sizeof o,
                           .flags = FLX_TRAIN_BACKWARD_OPS,
                           .optimiser = FLX_ADAMW,
                           .rate = 1e-4,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .weight_decay = 0.1,
                           .data_axis = n->is_shared ? "data" : NULL};
    snprintf(mesh, sizeof mesh, "data=%lld", (long long)flx_mesh_size(ctx));
    if (n->zero >= 0) {
        o.mesh = mesh;
        o.shardings = cuts;
        o.num_shardings = 2;
        o.zero = n->zero;
    }
    const flx_compile_options compile = {
        .struct_size = sizeof compile, .flags = FLX_COMPILE_FLUSH, .device = device, .threads = n->is_shared ? 1 : 0};
    double start = now();
    flx_trainer *t = flx_compile_training(loss, &o, &compile, &err);
    check(t != NULL, &err);
    double compiling = now() - start;
    if (n->zero < 3)
        fill_params(flx_trainer_params(t));
    run_steps(ctx, t, n->batch, n->tokens, compiling);
    flx_trainer_free(t);
    return 0;
}

/* Inputs, parameters and results of a gradient, as addresses. */
typedef struct {
    size_t nin, nout;
    const void **in;
    void **out;
    flx_tensor **held;
} memory_of_run;

static memory_of_run hold(flx_context *ctx, const flx_graph *g)
{
    memory_of_run m = {.nin = flx_graph_input_count(g), .nout = flx_graph_output_count(g)};
    flx_error err = {0};
    m.in = calloc(m.nin, sizeof *m.in);
    m.out = calloc(m.nout, sizeof *m.out);
    m.held = calloc(m.nin + m.nout, sizeof *m.held);
    for (size_t i = 0; i < m.nin + m.nout; i++) {
        flx_val v = i < m.nin ? flx_graph_input(g, i) : flx_graph_output(g, i - m.nin);
        m.held[i] = flx_tensor_new(ctx, flx_val_type(g, v), NULL, &err);
        check(m.held[i] != NULL, &err);
        if (i >= m.nin) {
            m.out[i - m.nin] = flx_tensor_data(m.held[i]);
            continue;
        }
        m.in[i] = flx_tensor_data(m.held[i]);
        if (flx_graph_input_is_param(g, i))
            fill_param(flx_tensor_data(m.held[i]), flx_tensor_count(m.held[i]), flx_val_name(g, v));
    }
    return m;
}

static void let_go(memory_of_run *m)
{
    for (size_t i = 0; i < m->nin + m->nout; i++)
        flx_tensor_release(m->held[i]);
    free(m->held);
    free(m->in);
    free(m->out);
}

/* Four runs. */
static void run_gradient(flx_context *ctx, const flx_graph *g, flx_exec *e, const sizes *n)
{
    flx_error err = {0};
    memory_of_run m = hold(ctx, g);
    fill_words(flx_tensor_data(m.held[m.nin - 2]), flx_tensor_data(m.held[m.nin - 1]), n->batch, n->tokens);
    double best = 1e9;
    for (int r = 0; r < 4; r++) {
        double start = now();
        check(flx_exec_run_at(e, m.in, m.out, &err) == FLX_OK, &err);
        best = fmin(best, now() - start);
    }
    printf("{\"workload\": \"gpt2_gradient\", \"layers\": %d, \"best\": %.4g, \"check\": %.8g}\n", n->layers, best,
           (double)*(float *)m.out[0]);
    let_go(&m);
}

/* Seconds that compiling takes. */
static double compile_in(const flx_graph *g, int32_t cache, flx_exec **e)
{
    const flx_compile_options o = {.cache = cache};
    flx_error err = {0};
    double start = now();
    *e = flx_compile(g, &o, &err);
    check(*e != NULL, &err);
    return now() - start;
}

static void measure(flx_context *ctx, const flx_graph *loss, double parsing, const sizes *n)
{
    double start = now();
    flx_graph *g = gradient(loss);
    double deriving = now() - start;
    flx_exec *e;
    double compiling = compile_in(g, FLX_CACHE_OFF, &e);
    flx_exec_free(e);
    compile_in(g, FLX_CACHE_ON, &e); /* fills the cache */
    flx_exec_free(e);
    double cached = compile_in(g, FLX_CACHE_ON, &e);
    printf("{\"workload\": \"compile_gpt2\", \"layers\": %d, \"nodes\": %zu, \"parse_s\": %.3g, \"grad_s\": %.3g, "
           "\"compile_s\": %.3g, \"cached_s\": %.3g, \"peak_mem_bytes\": %zu}\n",
           n->layers, flx_graph_node_count(g), parsing, deriving, compiling, cached, flx_exec_memory(e));
    fflush(stdout);
    run_gradient(ctx, g, e, n);
    flx_exec_free(e);
    flx_graph_release(g);
}

static void join(flx_context *ctx)
{
    flx_error err = {0};
    const flx_mesh_options mesh = {.struct_size = sizeof mesh, .transport = "mpi"};
    check(flx_mesh_join(ctx, &mesh, &err) == FLX_OK, &err);
}

static int run(flx_context *ctx, const text *t, const char *device, const sizes *n)
{
    flx_error err = {0};
    double start = now();
    flx_module *m = flx_parse(ctx, t->at, t->n, "gpt2", &err);
    check(m != NULL, &err);
    int status = 0;
    if (device)
        status = train(flx_module_main(m), device, n);
    else
        measure(ctx, flx_module_main(m), now() - start, n);
    flx_module_free(m);
    return status;
}

int main(int argc, char **argv)
{
    bool is_shared = argc > 2 && strcmp(argv[1], "--mpi") == 0;
    const char *device = is_shared || (argc > 2 && strcmp(argv[1], "--train") == 0) ? argv[2] : NULL;
    argc -= device ? 2 : 0;
    argv += device ? 2 : 0;
    const sizes n = {argc > 1 ? atoi(argv[1]) : 12, argc > 2 ? atoi(argv[2]) : 4, argc > 3 ? atoi(argv[3]) : 64,
                     is_shared, is_shared && argc > 4 ? atoi(argv[4]) : -1};
    text t = {.cap = (size_t)1 << 20};
    t.at = malloc(t.cap);
    flx_context *ctx = flx_context_new(NULL);
    if (is_shared)
        join(ctx);
    int rows = n.batch * (n.zero < 0 ? 1 : (int)flx_mesh_size(ctx)); /* of a step that is cut: of all processes */
    write_model(&t, n.layers, rows, n.tokens, device == NULL || is_shared);
    int status = run(ctx, &t, device, &n);
    flx_context_free(ctx);
    free(t.at);
    return status;
}
