/* SPDX-License-Identifier: Apache-2.0 */
/* bench_suite.c: workloads with known results, compiled and timed; one JSON line each.

       bench_suite [--device NAME] [NAME...]      (default: all)

   Inputs come from a counter hash, so that every workload has a check value that any implementation must reproduce.
   Times are medians of batches of runs on the caller's memory, as in the peers that print the same keys. `limit` is the
   time that the memory of the machine needs for the bytes alone, measured in the same process by copying.

   Other devices than cpu have shapes of their own, for a large card, and hold inputs and outputs: they are copied once
   before and after the timed runs. */
#include "bench.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 24, MAX_WRT = 8, REPEATS = 9 };

/* SLOPE: a gradient without the value; SEEDED_OPS: with backward ops; SEEDED_FAST: and with bits that may differ
   between runs; EACH: the gradient of each example; JACOBIAN: by forward mode */
typedef enum { PLAIN, GRADIENT, SLOPE, SEEDED, SEEDED_OPS, SEEDED_FAST, HVP, SGD, EACH, JACOBIAN } transform;
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

#define EW(N)                                                   \
    "graph ew(x: f32[" N "], y: f32[" N "], z: f32[" N "]) {\n" \
    "  u = add(mul(x, y), z)\n"                                 \
    "  return add(mul(exp(neg(mul(u, u))), sin(x)), mul(y, sigmoid(z)))\n}\n"
#define EW_SUM(N)                                               \
    "graph ew(x: f32[" N "], y: f32[" N "], z: f32[" N "]) {\n" \
    "  u = add(mul(x, y), z)\n"                                 \
    "  return reduce_sum(add(mul(exp(neg(mul(u, u))), sin(x)), mul(y, sigmoid(z))))\n}\n"
#define LAYER_NORM(M, C)                                               \
    "graph ln(x: f32[" M ", " C "], w: f32[" C "], b: f32[" C "]) {\n" \
    "  d = sub(x, reduce_mean(x, axes=[1], keep_dims=true))\n"         \
    "  v = reduce_mean(mul(d, d), axes=[1], keep_dims=true)\n"         \
    "  return add(mul(mul(d, rsqrt(add(v, 1e-5))), w), b)\n}\n"
#define SOFTMAX(M, INV)                                                         \
    "graph xent(z: f32[" M ", 50304], label: i32[" M "]) {\n"                   \
    "  p = log_softmax(z, axis=-1)\n"                                           \
    "  hit = eq(iota(i32[" M ", 50304], axis=1), unsqueeze(label, axes=[1]))\n" \
    "  return neg(mul(reduce_sum(reduce_sum(where(hit, p, 0), axes=[1])), " INV "))\n}\n"
#define MLP(B, ACT, INV)                                                                             \
    "graph mlp(w1: f32[784, 512], b1: f32[512], w2: f32[512, 512], b2: f32[512], w3: f32[512, 10], " \
    "b3: f32[10], x: f32[" B ", 784], label: i32[" B "]) {\n"                                        \
    "  h1 = " ACT "(add(matmul(x, w1), b1))\n  h2 = " ACT "(add(matmul(h1, w2), b2))\n"              \
    "  p = log_softmax(add(matmul(h2, w3), b3), axis=-1)\n"                                          \
    "  hit = eq(iota(i32[" B ", 10], axis=1), unsqueeze(label, axes=[1]))\n"                         \
    "  return neg(mul(reduce_sum(where(hit, p, 0)), " INV "))\n}\n"
#define RNN(B, H)                                                                                            \
    "graph cell(h: f32[" B ", " H "], w: f32[" H ", " H "], b: f32[" H "], x: f32[" B ", " H "]) {\n"        \
    "  return tanh(add(add(matmul(h, w), x), b))\n}\n"                                                       \
    "graph rnn(w: f32[" H ", " H "], b: f32[" H "], xs: f32[1000, " B ", " H "], h0: f32[" B ", " H "]) {\n" \
    "  h = scan(h0, w, b, xs, body=@cell, num_bcast=2)\n  return reduce_mean(mul(h, h))\n}\n"
#define LORENZ                                                                                        \
    "graph slope(x: f64[40]) {\n"                                                                     \
    "  d = sub(roll(x, shift=-1, axis=0), roll(x, shift=2, axis=0))\n"                                \
    "  return add(sub(mul(d, roll(x, shift=1, axis=0)), x), 8) }\n"                                   \
    "graph step(x: f64[40]) {\n"                                                                      \
    "  a = call(x, body=@slope)\n  b = call(add(x, mul(a, 0.005)), body=@slope)\n"                    \
    "  c = call(add(x, mul(b, 0.005)), body=@slope)\n  d = call(add(x, mul(c, 0.01)), body=@slope)\n" \
    "  return add(x, div(mul(add(add(a, d), mul(add(b, c), 2)), 0.01), 6)) }\n"                       \
    "graph flow(x: f64[40]) {\n  return scan(add(x, 8), body=@step, length=20)\n}\n"
#define FFT(ROWS, LENGTH) "graph transform(x: f32[" ROWS ", " LENGTH "]) {\n  return fft(x)\n}\n"
#define FFT_CONV                                                                           \
    "graph fftconv(x: f32[8, 16384], k: f32[16384]) {\n"                                   \
    "  xr, xi = rfft(x, n=32768)\n  kr, ki = rfft(k, n=32768)\n"                           \
    "  y = irfft(sub(mul(xr, kr), mul(xi, ki)), add(mul(xr, ki), mul(xi, kr)), n=32768)\n" \
    "  z = narrow(y, axis=1, start=0, len=16384)\n  return reduce_mean(mul(z, z))\n}\n"
#define ATTENTION                                                                                  \
    "graph attn(q: bf16[4, 16, 8192, 64], k: bf16[4, 16, 8192, 64], v: bf16[4, 16, 8192, 64]) {\n" \
    "  return attention(q, k, v, layout=bhsd, mask_kind=causal)\n}\n"
#define PARAMS "100*0.0618589574 101*0.1 102*0.0765465545 103*0.1 104*0.0765465545 105*0.1 5 i6<10"

static const workload workloads[] = {
    /* The overhead of a run. */
    {"dispatch", "graph one(x: f32[16]) {\n  return add(x, 1)\n}\n", PLAIN, "", "1", 0, CHECK_MEAN, 0, 0, 0, 0},
    {"ew_fwd", EW("4194304"), PLAIN, "", "1 2 3", 0, CHECK_MEAN, 1.67721e-4, 1e-6, 4.0 * 4194304 * 4, 0},
    {"ew_grad", EW_SUM("4194304"), GRADIENT, "x,y,z", "1 2 3", 0, CHECK_MEAN, 0.5359673, 1e-4, 6.0 * 4194304 * 4, 0},
    {"layernorm", LAYER_NORM("1024", "768"), SEEDED, "x,w,b", "1 2 3 4", 1, CHECK_ABS_MEAN, 14.541252, 2e-3,
     5.0 * 1024 * 768 * 4, 0},
    {"softmax_xent", SOFTMAX("256", "0.00390625"), GRADIENT, "z", "1*4.0 i2<50304", -1, CHECK_VALUE, 12.671746, 2e-3,
     3.0 * 256 * 50304 * 4, 0},
    {"matmul", "graph mm(a: f32[1024, 1024], b: f32[1024, 1024]) {\n  return matmul(a, b)\n}\n", PLAIN, "", "1 2", 0,
     CHECK_ABS_MEAN, 0, 0, 0, 2.0 * 1024 * 1024 * 1024},
    {"mlp_b32_grad", MLP("32", "relu", "0.03125"), GRADIENT, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE, 2.2795157,
     1e-4, 0, 2.0 * 669706 * 32 * 3},
    {"mlp_b1024_grad", MLP("1024", "relu", "0.0009765625"), GRADIENT, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE,
     2.3465779, 1e-4, 0, 2.0 * 669706 * 1024 * 3},
    {"hvp", MLP("128", "tanh", "0.0078125"), HVP, "w1,b1,w2,b2,w3,b3", PARAMS " 50 51 52 53 54 55", 0, CHECK_ABS_MEAN,
     0.02452226, 1e-4, 0, 2.0 * 669706 * 128 * 6},
    {"rnn1000", RNN("8", "128"), GRADIENT, "w,b", "1*0.137784071 2*0.1 3 4", -1, CHECK_VALUE, 0.3179227, 1e-4, 0,
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

/* The shapes for a card. Check values that are 0 are those of the peers. */
static const workload card_workloads[] = {
    {"dispatch", "graph one(x: f32[16]) {\n  return add(x, 1)\n}\n", PLAIN, "", "1", 0, CHECK_MEAN, 0, 0, 0, 0},
    {"ew_fwd", EW("33554432"), PLAIN, "", "1 2 3", 0, CHECK_MEAN, 0, 0, 4.0 * 33554432 * 4, 0},
    {"ew_grad", EW_SUM("33554432"), SLOPE, "x,y,z", "1 2 3", 0, CHECK_MEAN, 0, 0, 6.0 * 33554432 * 4, 0},
    {"layernorm", LAYER_NORM("16384", "1024"), SEEDED, "x,w,b", "1 2 3 4", 1, CHECK_ABS_MEAN, 0, 0,
     5.0 * 16384 * 1024 * 4, 0},
    {"softmax_xent", SOFTMAX("8192", "0.0001220703125"), GRADIENT, "z", "1*4.0 i2<50304", -1, CHECK_VALUE, 0, 0,
     3.0 * 8192 * 50304 * 4, 0},
    {"matmul", "graph mm(a: bf16[8192, 8192], b: bf16[8192, 8192]) {\n  return matmul(a, b)\n}\n", PLAIN, "", "1 2", 0,
     CHECK_ABS_MEAN, 0, 0, 0, 2.0 * 8192 * 8192 * 8192},
    {"mlp_b1", MLP("1", "relu", "1"), SGD, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE, 2.6120601, 1e-4, 0,
     2.0 * 669706 * 3},
    {"mlp_b32", MLP("32", "relu", "0.03125"), SGD, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE, 2.2795157, 1e-4, 0,
     2.0 * 669706 * 32 * 3},
    {"mlp_b1024", MLP("1024", "relu", "0.0009765625"), SGD, "w1,b1,w2,b2,w3,b3", PARAMS, -1, CHECK_VALUE, 2.3465779,
     1e-4, 0, 2.0 * 669706 * 1024 * 3},
    {"hvp", MLP("128", "tanh", "0.0078125"), HVP, "w1,b1,w2,b2,w3,b3", PARAMS " 50 51 52 53 54 55", 0, CHECK_ABS_MEAN,
     0.02452226, 1e-4, 0, 2.0 * 669706 * 128 * 6},
    {"perex_grad", MLP("1", "relu", "1"), EACH, "w1,b1,w2,b2,w3,b3", PARAMS, 0, CHECK_ABS_MEAN, 0, 0,
     669706.0 * 256 * 4, 0},
    {"embed", "graph embed(t: f32[50304, 768], ids: i32[16, 1024]) {\n  return gather(t, ids, axis=0)\n}\n", SEEDED,
     "t", "1 i2<50304 3", 0, CHECK_ABS_MEAN, 0, 0, 2.0 * 16384 * 768 * 4 + 50304.0 * 768 * 4, 0},
    {"rnn1000", RNN("32", "256"), GRADIENT, "w,b", "1*0.0974278579 2*0.1 3 4", -1, CHECK_VALUE, 0, 0, 0,
     3.0 * 2 * 1000 * 32 * 256 * 256},
    {"jacfwd", LORENZ, JACOBIAN, "x", "1", 0, CHECK_ABS_MEAN, 0.17914886, 1e-4, 0, 0},
    {"attn_long", ATTENTION, SEEDED_OPS, "q,k,v", "1 2 3 4", 2, CHECK_ABS_MEAN, 0, 0, 0,
     3.5 * 4 * 4 * 16 * 8192.0 * 8192 * 64 / 2},
    {"attn_fast", ATTENTION, SEEDED_FAST, "q,k,v", "1 2 3 4", 2, CHECK_ABS_MEAN, 0, 0, 0,
     3.5 * 4 * 4 * 16 * 8192.0 * 8192 * 64 / 2},
};

enum {
    NUM_WORKLOADS = sizeof workloads / sizeof *workloads,
    NUM_CARD_WORKLOADS = sizeof card_workloads / sizeof *card_workloads
};

/* ---- Inputs ---- */

/* To the nearest, ties to even; finite numbers alone. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
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
        double v = (double)hashed((uint32_t)i, seed);
        if (is_int)
            ((int32_t *)flx_tensor_data(x))[i] = (int32_t)fmin((v + 1) * 0.5 * scale, scale - 1);
        else if (t->dtype == FLX_F64)
            ((double *)flx_tensor_data(x))[i] = v * scale;
        else if (t->dtype == FLX_BF16)
            ((uint16_t *)flx_tensor_data(x))[i] = bf16_of((float)v * (float)scale);
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

/* The loss, and each parameter less its gradient times a rate. */
static flx_graph *descended(const flx_graph *grad, size_t num_wrt)
{
    flx_graph *g = flx_graph_new(flx_graph_context(grad), "sgd");
    size_t nin = flx_graph_input_count(grad), nout = flx_graph_output_count(grad);
    flx_val in[MAX_INPUTS], out[MAX_INPUTS];
    for (size_t i = 0; i < nin; i++) {
        flx_val v = flx_graph_input(grad, i);
        in[i] = flx_input(g, flx_val_name(grad, v), flx_val_type(grad, v));
    }
    flx_attr body = {.key = "body", .kind = FLX_ATTR_GRAPH, .as.graph = grad};
    flx_op(g, "call", in, nin, &body, 1, out, nout);
    flx_output(g, out[0], "loss");
    for (size_t k = 0; k < num_wrt; k++) {
        char name[24];
        snprintf(name, sizeof name, "next%zu", k);
        flx_output(g, flx_sub(g, in[k], flx_mul(g, out[k + 1], flx_scalar(g, FLX_F32, 1e-3))), name);
    }
    return g;
}

/* Of a loss of one example, for 256 of them. */
static flx_graph *of_each(const flx_graph *g, const char *const *wrt, size_t n, flx_error *err)
{
    flx_graph *grad = flx_grad(g, wrt, n, &(flx_grad_options){0}, err);
    const flx_vmap_axis batched[] = {{"x", 0}, {"label", 0}};
    flx_graph *out = grad ? flx_vmap(grad, batched, 2, NULL, 0, 256, err) : NULL;
    flx_graph_release(grad);
    return out;
}

static flx_graph *transformed(const workload *w, const flx_graph *g)
{
    char list[200];
    const char *wrt[MAX_WRT];
    flx_error err = {0};
    snprintf(list, sizeof list, "%s", w->wrt);
    size_t n = split(list, ",", wrt, MAX_WRT);
    bool has_value = w->how == GRADIENT || w->how == SGD;
    flx_grad_options o = {.flags = w->how == SEEDED ? FLX_GRAD_SEED_INPUT
                                   : w->how == SEEDED_OPS || w->how == SEEDED_FAST
                                       ? FLX_GRAD_SEED_INPUT | FLX_GRAD_BACKWARD_OPS
                                   : has_value ? FLX_GRAD_VALUE
                                               : 0};
    flx_graph *out = w->how == PLAIN  ? flx_graph_retain((flx_graph *)(uintptr_t)g)
                     : w->how == HVP  ? flx_hvp(g, wrt, n, &o, &err)
                     : w->how == EACH ? of_each(g, wrt, n, &err)
                     : w->how == JACOBIAN
                         ? flx_jacobian(g, wrt, n, &(flx_jacobian_options){.mode = FLX_JACOBIAN_FORWARD}, &err)
                         : flx_grad(g, wrt, n, &o, &err);
    check(out != NULL, &err);
    if (w->how != SGD)
        return out;
    flx_graph *step = descended(out, n);
    flx_graph_release(out);
    check(flx_graph_error(step, &err) == FLX_OK, &err);
    return step;
}

static double value_of(const flx_tensor *t, check_kind kind)
{
    const float *x = flx_tensor_const_data(t);
    bool is_f32 = flx_tensor_type(t)->dtype == FLX_F32;
    double sum = 0;
    for (int64_t i = 0; i < flx_tensor_count(t); i++) {
        double v = is_f32 ? (double)x[i] : flx_tensor_get(t, i);
        sum += kind == CHECK_ABS_MEAN ? fabs(v) : v;
    }
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

/* A workload that is ready to run on the caller's memory. */
typedef struct {
    const workload *w;
    flx_context *ctx;
    flx_graph *g;
    flx_exec *e;
    size_t nin, nout;
    const void *in[MAX_INPUTS];
    void *out[MAX_INPUTS];
    flx_tensor *held[2 * MAX_INPUTS];
    double compile_s;
} prepared;

/* Parameters that a step updates are in the same memory before and after it. */
static void prepare_memory(prepared *p)
{
    flx_error err = {0};
    char specs[300];
    const char *spec[MAX_INPUTS];
    snprintf(specs, sizeof specs, "%s", p->w->seeds);
    p->nin = flx_graph_input_count(p->g);
    p->nout = flx_graph_output_count(p->g);
    size_t have = split(specs, " ", spec, MAX_INPUTS);
    if (have != p->nin) {
        fprintf(stderr, "%s: %zu inputs, %zu seeds\n", p->w->name, p->nin, have);
        exit(3);
    }
    for (size_t i = 0; i < p->nin; i++)
        p->in[i] = flx_tensor_data(p->held[i] = filled(p->ctx, flx_val_type(p->g, flx_graph_input(p->g, i)), spec[i]));
    for (size_t i = 0; i < p->nout; i++) {
        bool is_shared = p->w->how == SGD && i > 0 && flx_exec_may_share(p->e, i - 1, i);
        p->held[p->nin + i] = is_shared
                                  ? flx_tensor_retain(p->held[i - 1])
                                  : flx_tensor_new(p->ctx, flx_val_type(p->g, flx_graph_output(p->g, i)), NULL, &err);
        check(p->held[p->nin + i] != NULL, &err);
        p->out[i] = flx_tensor_data(p->held[p->nin + i]);
    }
}

static void prepare(prepared *p, const flx_module *m, const char *device)
{
    flx_error err = {0};
    flx_share shares[MAX_WRT];
    bool fades = strncmp(p->w->name, "rnn", 3) == 0; /* its gradients pass through subnormal numbers */
    p->g = transformed(p->w, flx_module_main(m));
    flx_compile_options o = {.struct_size = sizeof o,
                             .cache = FLX_CACHE_OFF,
                             .flags = fades                      ? FLX_COMPILE_FLUSH
                                      : p->w->how == SEEDED_FAST ? FLX_COMPILE_FAST
                                                                 : 0,
                             .device = device,
                             .shares = shares};
    for (size_t k = 0; p->w->how == SGD && k + 1 < flx_graph_output_count(p->g); k++)
        shares[o.num_shares++] = (flx_share){k, k + 1};
    double start = now();
    p->e = flx_compile(p->g, &o, &err);
    check(p->e != NULL, &err);
    p->compile_s = now() - start;
    prepare_memory(p);
}

/* After the first run everything is on the device. */
static void time_runs(const prepared *p, double times[REPEATS])
{
    flx_error err = {0};
    uint8_t all[MAX_INPUTS];
    memset(all, 1, sizeof all);
    flx_run_options o = {.struct_size = sizeof o, .kept_inputs = all, .left_outputs = all};
    double start = 0, once = 0;
    for (int r = 0; r < 4; r++) {
        start = now();
        check(flx_exec_run_at_with(p->e, &o, p->in, p->out, &err) == FLX_OK, &err);
        once = now() - start;
    }
    int inner = once > 0.02 ? 1 : (int)(0.02 / (once + 1e-7)) + 1;
    for (int r = 0; r < REPEATS; r++) {
        start = now();
        for (int i = 0; i < inner; i++)
            check(flx_exec_run_at_with(p->e, &o, p->in, p->out, &err) == FLX_OK, &err);
        times[r] = (now() - start) / inner;
    }
    qsort(times, REPEATS, sizeof *times, by_value);
}

/* The loss is the first output; gradients follow it. */
static double checked_value(const prepared *p)
{
    const workload *w = p->w;
    size_t shown = w->check == CHECK_VALUE || w->how != GRADIENT ? (w->check_output > 0 ? (size_t)w->check_output : 0)
                                                                 : (size_t)w->check_output + 1;
    return value_of(p->held[p->nin + shown], w->check);
}

static void print_times(const prepared *p, const char *device, const double times[REPEATS], double value, double rate)
{
    const workload *w = p->w;
    bool is_right = w->expected == 0 || fabs(value - w->expected) <= w->tolerance;
    printf(
        "{\"workload\": \"%s\", \"variant\": \"fluxion\", \"device\": \"%s\", \"status\": \"%s\", \"seconds\": %.4g, "
        "\"best\": %.4g, \"iqr\": %.3g, \"compile_s\": %.3g, \"peak_mem_bytes\": %zu, \"check\": %.7g",
        w->name, device, is_right ? "ok" : "wrong", times[REPEATS / 2], times[0],
        times[3 * REPEATS / 4] - times[REPEATS / 4], p->compile_s, flx_exec_memory(p->e), value);
    if (w->bytes > 0)
        printf(", \"GB/s\": %.4g", w->bytes / times[REPEATS / 2] * 1e-9);
    if (w->bytes > 0 && rate > 0)
        printf(", \"limit\": %.3g", w->bytes / rate);
    if (w->flops > 0)
        printf(", \"GFLOP/s\": %.4g", w->flops / times[REPEATS / 2] * 1e-9);
    printf("}\n");
    fflush(stdout);
}

static void run(const workload *w, const char *device, double rate)
{
    flx_error err = {0};
    double times[REPEATS];
    prepared p = {.w = w, .ctx = flx_context_new(NULL)};
    flx_module *m = flx_parse(p.ctx, w->text, strlen(w->text), w->name, &err);
    check(m != NULL, &err);
    prepare(&p, m, device);
    check(flx_exec_run_at(p.e, p.in, p.out, &err) == FLX_OK, &err);
    double value = checked_value(&p);
    time_runs(&p, times);
    print_times(&p, device, times, value, rate);
    for (size_t i = 0; i < p.nin + p.nout; i++)
        flx_tensor_release(p.held[i]);
    flx_exec_free(p.e);
    flx_graph_release(p.g);
    flx_module_free(m);
    flx_context_free(p.ctx);
}

int main(int argc, char **argv)
{
    const char *device = argc > 2 && strcmp(argv[1], "--device") == 0 ? argv[2] : "cpu";
    bool is_cpu = strcmp(device, "cpu") == 0;
    int first = argc > 2 && argv[2] == device ? 3 : 1;
    double rate = is_cpu ? copy_rate() : 0;
    const workload *list = is_cpu ? workloads : card_workloads;
    for (size_t i = 0; i < (is_cpu ? (size_t)NUM_WORKLOADS : (size_t)NUM_CARD_WORKLOADS); i++) {
        bool is_wanted = argc == first;
        for (int k = first; k < argc; k++)
            is_wanted |= strcmp(argv[k], list[i].name) == 0;
        if (is_wanted)
            run(&list[i], device, rate);
    }
    return 0;
}
