/* SPDX-License-Identifier: Apache-2.0 */
/* bench_suite.c: workloads with known results, compiled and timed; one JSON line each.

       bench_suite [NAME...]      (default: all)

   Inputs come from a counter hash, so that every workload has a check value that any implementation must reproduce.
   Times are medians of batches of runs on the caller's memory, as in the peers that print the same keys. `limit` is the
   time that the memory of the machine needs for the bytes alone, measured in the same process by copying. */
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_INPUTS = 24, MAX_WRT = 8, REPEATS = 9 };

typedef enum { PLAIN, GRADIENT, SEEDED, HVP } transform;
typedef enum { CHECK_MEAN, CHECK_ABS_MEAN, CHECK_VALUE } check_kind;

typedef struct {
    const char *name;
    const char *text;
    transform how;
    const char *wrt;   /* separated by commas */
    const char *seeds; /* of the inputs in order: "1 2*4.0 i3<50304"; i: integers below */
    int check_output;
    check_kind check;
    double expected, tolerance;
    double bytes, flops; /* of one run; 0: not given */
} workload;

#define EW                                                            \
    "graph ew(x: f32[4194304], y: f32[4194304], z: f32[4194304]) {\n" \
    "  u = add(mul(x, y), z)\n"                                       \
    "  return add(mul(exp(neg(mul(u, u))), sin(x)), mul(y, sigmoid(z)))\n}\n"
#define EW_SUM                                                        \
    "graph ew(x: f32[4194304], y: f32[4194304], z: f32[4194304]) {\n" \
    "  u = add(mul(x, y), z)\n"                                       \
    "  return reduce_sum(add(mul(exp(neg(mul(u, u))), sin(x)), mul(y, sigmoid(z))))\n}\n"
#define LAYER_NORM                                              \
    "graph ln(x: f32[1024, 768], w: f32[768], b: f32[768]) {\n" \
    "  d = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"  \
    "  v = reduce_mean(mul(d, d), axes=[1], keep_dims=true)\n"  \
    "  return add(mul(mul(d, rsqrt(add(v, 1e-5))), w), b)\n}\n"
#define SOFTMAX                                                               \
    "graph xent(z: f32[256, 50304], label: i32[256]) {\n"                     \
    "  p = log_softmax(z, axis=-1)\n"                                         \
    "  hit = eq(iota(i32[256, 50304], axis=1), unsqueeze(label, axes=[1]))\n" \
    "  return neg(mul(reduce_sum(reduce_sum(where(hit, p, 0), axes=[1])), 0.00390625))\n}\n"
#define MLP(B, ACT, INV)                                                                             \
    "graph mlp(w1: f32[784, 512], b1: f32[512], w2: f32[512, 512], b2: f32[512], w3: f32[512, 10], " \
    "b3: f32[10], x: f32[" B ", 784], label: i32[" B "]) {\n"                                        \
    "  h1 = " ACT "(add(matmul(x, w1), b1))\n  h2 = " ACT "(add(matmul(h1, w2), b2))\n"              \
    "  p = log_softmax(add(matmul(h2, w3), b3), axis=-1)\n"                                          \
    "  hit = eq(iota(i32[" B ", 10], axis=1), unsqueeze(label, axes=[1]))\n"                         \
    "  return neg(mul(reduce_sum(where(hit, p, 0)), " INV "))\n}\n"
#define RNN                                                                                \
    "graph cell(h: f32[8, 128], w: f32[128, 128], b: f32[128], x: f32[8, 128]) {\n"        \
    "  return tanh(add(add(matmul(h, w), x), b))\n}\n"                                     \
    "graph rnn(w: f32[128, 128], b: f32[128], xs: f32[1000, 8, 128], h0: f32[8, 128]) {\n" \
    "  h = scan(h0, w, b, xs, body=@cell, num_bcast=2)\n  return reduce_mean(mul(h, h))\n}\n"
#define FFT(ROWS, LENGTH) "graph transform(x: f32[" ROWS ", " LENGTH "]) {\n  return fft(x)\n}\n"
#define FFT_CONV                                                                           \
    "graph fftconv(x: f32[8, 16384], k: f32[16384]) {\n"                                   \
    "  xr, xi = rfft(x, n=32768)\n  kr, ki = rfft(k, n=32768)\n"                           \
    "  y = irfft(sub(mul(xr, kr), mul(xi, ki)), add(mul(xr, ki), mul(xi, kr)), n=32768)\n" \
    "  z = narrow(y, axis=1, start=0, len=16384)\n  return reduce_mean(mul(z, z))\n}\n"
#define PARAMS "100*0.0618589574 101*0.1 102*0.0765465545 103*0.1 104*0.0765465545 105*0.1 5 i6<10"

static const workload workloads[] = {
    /* The overhead of a run. */
    {"dispatch", "graph one(x: f32[16]) {\n  return add(x, 1)\n}\n", PLAIN, "", "1", 0, CHECK_MEAN, 0, 0, 0, 0},
    {"ew_fwd", EW, PLAIN, "", "1 2 3", 0, CHECK_MEAN, 1.67721e-4, 1e-6, 4.0 * 4194304 * 4, 0},
    {"ew_grad", EW_SUM, GRADIENT, "x,y,z", "1 2 3", 0, CHECK_MEAN, 0.5359673, 1e-4, 6.0 * 4194304 * 4, 0},
    {"layernorm", LAYER_NORM, SEEDED, "x,w,b", "1 2 3 4", 1, CHECK_ABS_MEAN, 14.541252, 2e-3, 5.0 * 1024 * 768 * 4, 0},
    {"softmax_xent", SOFTMAX, GRADIENT, "z", "1*4.0 i2<50304", -1, CHECK_VALUE, 12.671746, 2e-3, 3.0 * 256 * 50304 * 4,
     0},
    {"matmul", "graph mm(a: f32[1024, 1024], b: f32[1024, 1024]) {\n  return matmul(a, b)\n}\n", PLAIN, "", "1 2", 0,
     CHECK_ABS_MEAN, 0, 0, 0, 2.0 * 1024 * 1024 * 1024},
    {"mlp_b32_grad", MLP("32", "relu", "0.03125"), GRADIENT, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE, 2.2795157,
     1e-4, 0, 2.0 * 669706 * 32 * 3},
    {"mlp_b1024_grad", MLP("1024", "relu", "0.0009765625"), GRADIENT, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE,
     2.3465779, 1e-4, 0, 2.0 * 669706 * 1024 * 3},
    {"hvp", MLP("128", "tanh", "0.0078125"), HVP, "w1,b1,w2,b2,w3,b3", PARAMS " 50 51 52 53 54 55", 0, CHECK_ABS_MEAN,
     0.02452226, 1e-4, 0, 2.0 * 669706 * 128 * 6},
    {"rnn1000", RNN, GRADIENT, "w,b", "1*0.137784071 2*0.1 3 4", -1, CHECK_VALUE, 0.3179227, 1e-4, 0,
     3.0 * 2 * 1000 * 8 * 128 * 128},
    {"solve512", "graph s(a: f32[512, 512], b: f32[512]) {\n  return solve(a, b)\n}\n", PLAIN, "", "1 2", 0,
     CHECK_ABS_MEAN, 4.8629444, 5e-3, 0, 2.0 / 3 * 512 * 512 * 512},
    {"fft_2p10", FFT("1024", "2048"), PLAIN, "", "1", 0, CHECK_ABS_MEAN, 0, 0, 0, 5.0 * 1024 * 1024 * 10},
    {"fft_2p16", FFT("16", "131072"), PLAIN, "", "1", 0, CHECK_ABS_MEAN, 0, 0, 0, 5.0 * 16 * 65536 * 16},
    {"fft_3x2p12", FFT("64", "24576"), PLAIN, "", "1", 0, CHECK_ABS_MEAN, 0, 0, 0, 5.0 * 64 * 12288 * 13.585},
    {"fft_prime", FFT("64", "24562"), PLAIN, "", "1", 0, CHECK_ABS_MEAN, 0, 0, 0, 5.0 * 64 * 12281 * 13.584},
    {"fftconv", FFT_CONV, GRADIENT, "x,k", "1 2*0.0078125", -1, CHECK_VALUE, 0.05620427, 1e-4, 0,
     (5.0 * 8 + 3) * 2.5 * 32768 * 15},
};

enum { NUM_WORKLOADS = sizeof workloads / sizeof *workloads };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int ok, const flx_error *err)
{
    if (ok)
        return;
    fprintf(stderr, "error: %s\n", err->message);
    exit(3);
}

/* ---- Inputs ---- */

static double hashed(uint32_t i, uint32_t seed)
{
    uint32_t h = i + seed * UINT32_C(0x9E3779B9);
    h ^= h >> 16;
    h *= UINT32_C(0x7FEB352D);
    h ^= h >> 15;
    h *= UINT32_C(0x846CA68B);
    h ^= h >> 16;
    return (double)(float)((float)(h >> 8) * 0x1p-23f - 1.0f);
}

static flx_tensor *filled(flx_context *ctx, const flx_type *t, const char *spec)
{
    flx_error err = {0};
    flx_tensor *x = flx_tensor_new(ctx, t, NULL, &err);
    check(x != NULL, &err);
    bool is_int = *spec == 'i';
    char *end;
    uint32_t seed = (uint32_t)strtoul(spec + is_int, &end, 10);
    double scale = *end == '*' || *end == '<' ? strtod(end + 1, NULL) : 1;
    for (int64_t i = 0; i < flx_tensor_count(x); i++) {
        double v = hashed((uint32_t)i, seed);
        if (is_int)
            ((int32_t *)flx_tensor_data(x))[i] = (int32_t)fmin((v + 1) * 0.5 * scale, scale - 1);
        else
            ((float *)flx_tensor_data(x))[i] = (float)v * (float)scale;
    }
    return x;
}

/* ---- Graphs ---- */

static size_t split(char *text, const char *separators, const char **out, size_t room)
{
    size_t n = 0;
    for (char *p = strtok(text, separators); p && n < room; p = strtok(NULL, separators))
        out[n++] = p;
    return n;
}

static flx_graph *transformed(const workload *w, const flx_graph *g)
{
    char list[200];
    const char *wrt[MAX_WRT];
    flx_error err = {0};
    snprintf(list, sizeof list, "%s", w->wrt);
    size_t n = split(list, ",", wrt, MAX_WRT);
    flx_grad_options o = {.flags = w->how == SEEDED ? FLX_GRAD_SEED_INPUT : w->how == GRADIENT ? FLX_GRAD_VALUE : 0};
    flx_graph *out = w->how == PLAIN ? flx_graph_retain((flx_graph *)(uintptr_t)g)
                     : w->how == HVP ? flx_hvp(g, wrt, n, &o, &err)
                                     : flx_grad(g, wrt, n, &o, &err);
    check(out != NULL, &err);
    return out;
}

static double value_of(const flx_tensor *t, check_kind kind)
{
    const float *x = flx_tensor_const_data(t);
    double sum = 0;
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        sum += kind == CHECK_ABS_MEAN ? fabs((double)x[i]) : (double)x[i];
    return sum / (double)flx_tensor_count(t);
}

/* ---- Timing ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bytes per second of a copy larger than the caches: the bandwidth of plain loops. */
static double copy_rate(void)
{
    size_t n = (size_t)64 << 20;
    char *a = malloc(n), *b = malloc(n);
    double best = 1e9;
    if (!a || !b)
        return 0;
    memset(a, 1, n);
    for (int i = 0; i < 5; i++) {
        double start = now();
        memcpy(b, a, n);
        double t = now() - start;
        best = t < best ? t : best;
    }
    free(a);
    free(b);
    return 2 * (double)n / best;
}

static void run(const workload *w, double rate)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, w->text, strlen(w->text), w->name, &err);
    check(m != NULL, &err);
    flx_graph *g = transformed(w, flx_module_main(m));
    double start = now();
    bool fades = strncmp(w->name, "rnn", 3) == 0; /* its gradients pass through subnormal numbers */
    flx_compile_options o = {.cache = FLX_CACHE_OFF, .flags = fades ? FLX_COMPILE_FLUSH : 0};
    flx_exec *e = NULL;
    e = flx_compile(g, &o, &err);
    check(e != NULL, &err);
    double compile_s = now() - start;
    const void *in[MAX_INPUTS];
    void *out[MAX_INPUTS];
    flx_tensor *held[2 * MAX_INPUTS];
    char specs[300];
    const char *spec[MAX_INPUTS];
    snprintf(specs, sizeof specs, "%s", w->seeds);
    size_t nin = flx_graph_input_count(g), nout = flx_graph_output_count(g), have = split(specs, " ", spec, MAX_INPUTS);
    if (have != nin) {
        fprintf(stderr, "%s: %zu inputs, %zu seeds\n", w->name, nin, have);
        exit(3);
    }
    for (size_t i = 0; i < nin; i++)
        in[i] = flx_tensor_data(held[i] = filled(ctx, flx_val_type(g, flx_graph_input(g, i)), spec[i]));
    for (size_t i = 0; i < nout; i++) {
        held[nin + i] = flx_tensor_new(ctx, flx_val_type(g, flx_graph_output(g, i)), NULL, &err);
        check(held[nin + i] != NULL, &err);
        out[i] = flx_tensor_data(held[nin + i]);
    }
    start = now();
    check(flx_exec_run_at(e, in, out, &err) == FLX_OK, &err);
    double once = now() - start, times[REPEATS];
    int inner = once > 0.02 ? 1 : (int)(0.02 / (once + 1e-7)) + 1;
    for (int r = 0; r < REPEATS; r++) {
        start = now();
        for (int i = 0; i < inner; i++)
            check(flx_exec_run_at(e, in, out, &err) == FLX_OK, &err);
        times[r] = (now() - start) / inner;
    }
    qsort(times, REPEATS, sizeof *times, by_value);
    /* The loss is the first output; gradients follow it. */
    size_t shown = w->check == CHECK_VALUE || w->how == PLAIN || w->how == HVP || w->how == SEEDED
                       ? (w->check_output > 0 ? (size_t)w->check_output : 0)
                       : (size_t)w->check_output + 1;
    double value = value_of(held[nin + shown], w->check);
    bool is_right = w->expected == 0 || fabs(value - w->expected) <= w->tolerance;
    printf(
        "{\"workload\": \"%s\", \"variant\": \"fluxion\", \"device\": \"cpu\", \"status\": \"%s\", \"seconds\": %.4g, "
        "\"best\": %.4g, \"iqr\": %.3g, \"compile_s\": %.3g, \"peak_mem_bytes\": %zu, \"check\": %.7g",
        w->name, is_right ? "ok" : "wrong", times[REPEATS / 2], times[0], times[3 * REPEATS / 4] - times[REPEATS / 4],
        compile_s, flx_exec_memory(e), value);
    if (w->bytes > 0)
        printf(", \"GB/s\": %.3g, \"limit\": %.3g", w->bytes / times[REPEATS / 2] * 1e-9, w->bytes / rate);
    if (w->flops > 0)
        printf(", \"GFLOP/s\": %.4g", w->flops / times[REPEATS / 2] * 1e-9);
    printf("}\n");
    fflush(stdout);
    for (size_t i = 0; i < nin + nout; i++)
        flx_tensor_release(held[i]);
    flx_exec_free(e);
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
}

int main(int argc, char **argv)
{
    double rate = copy_rate();
    for (size_t i = 0; i < NUM_WORKLOADS; i++) {
        bool is_wanted = argc == 1;
        for (int k = 1; k < argc; k++)
            is_wanted |= strcmp(argv[k], workloads[i].name) == 0;
        if (is_wanted)
            run(&workloads[i], rate);
    }
    return 0;
}
