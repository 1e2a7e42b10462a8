/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_training.c: training steps as C files against a trainer of the library, on the same numbers. Both compute
   the same graph. With the vectors of this machine they have the same bits; in plain C sums are in another order, so
   results agree to rounding, which a few steps amplify. */
#include "standalone/c_file.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model with parameters and states: pointers in the order of the struct. */
typedef struct {
    unsigned char *arena;
    void *field[64];
} trained_model;

typedef int (*init_function)(trained_model *m, void *memory);
typedef int (*step_function)(trained_model *m, const void *const *in, void *const *out);

static flx_graph *parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "model", &err);
    CHECK_MSG(m, "%s", err.message);
    flx_graph *g = flx_graph_retain(flx_module_main(m));
    flx_module_free(m);
    return g;
}

static void fill(flx_tensor *t, uint64_t *state, int most)
{
    int64_t n = flx_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        if (flx_tensor_type(t)->dtype == FLX_I32)
            ((int32_t *)flx_tensor_data(t))[i] = (int32_t)(test_random(state) % (uint64_t)most);
        else
            ((float *)flx_tensor_data(t))[i] = (float)(test_random(state) % 2001) / 1000 - 1;
    }
}

/* The largest difference, relative to the largest element. */
static double distance(const float *a, const float *b, int64_t n)
{
    double most = 0, size = 1e-6;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

typedef struct {
    const char *text;
    int32_t optimiser;
    int steps, labels;
    double bound;     /* 0: the same bits */
    int vector_bytes; /* of the target */
} training_case;

static const char *flags_of(int vector_bytes)
{
    return vector_bytes == 64   ? "-O2 -mavx512f -mavx512dq -mavx2 -mfma -fno-math-errno"
           : vector_bytes == 32 ? "-O2 -mavx2 -mfma -fno-math-errno"
                                : "-O2";
}

/* The inputs that are not parameters. */
typedef struct {
    flx_tensor *in[8];
    flx_feed feeds[8];
    const void *at[8];
    size_t n;
} batch;

static batch make_batch(flx_context *ctx, const flx_graph *g, const flx_params *start)
{
    batch b = {.n = 0};
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        if (flx_params_find(start, flx_val_name(g, v)))
            continue;
        b.in[b.n] = flx_tensor_new(ctx, flx_val_type(g, v), NULL, NULL);
        CHECK(b.in[b.n]);
        b.feeds[b.n] = (flx_feed){flx_val_name(g, v), b.in[b.n]};
        b.at[b.n] = flx_tensor_const_data(b.in[b.n]);
        b.n++;
    }
    return b;
}

/* Steps of the trainer and of the C file have the same losses. */
static void run_steps(const training_case *c, flx_trainer *t, step_function step, trained_model *m, const batch *b)
{
    flx_error err = {0};
    uint64_t state = 9;
    float loss = 0;
    double wanted = 0;
    for (int k = 0; k < c->steps; k++) {
        for (size_t i = 0; i < b->n; i++)
            fill(b->in[i], &state, c->labels);
        CHECK_OK(flx_trainer_step(t, b->feeds, b->n, &wanted, &err), &err);
        void *out[] = {&loss};
        CHECK(step(m, b->at, out) == 0);
        EXPECT_MSG(fabs((double)loss - wanted) <= c->bound * (1 + fabs(wanted)), "step %d: loss %.9g instead of %.9g",
                   k, (double)loss, wanted);
    }
}

static void check_params(const training_case *c, const flx_params *trained, const flx_params *start,
                         const trained_model *m)
{
    for (size_t i = 0; i < flx_params_count(start); i++) {
        const flx_tensor *p = flx_params_find(trained, flx_params_name(start, i));
        double d = distance(m->field[i], flx_tensor_const_data(p), flx_tensor_count(p));
        EXPECT_MSG(d <= c->bound, "%s differs by %.3g of its size", flx_params_name(start, i), d);
        EXPECT_MSG(distance(m->field[i], flx_tensor_const_data(flx_params_at(start, i)), flx_tensor_count(p)) > 1e-4,
                   "%s was not trained", flx_params_name(start, i));
    }
}

static void check_training(const training_case *c)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = parse(ctx, c->text);
    flx_params *start = flx_params_of(g, 5, &err);
    CHECK_MSG(start, "%s", err.message);
    flx_train_options train = {.struct_size = sizeof train, .optimiser = c->optimiser, .seed = 5};
    flx_compile_options compile = {.struct_size = sizeof compile, .threads = 1, .device = "cpu"};
    flx_trainer *t = flx_compile_training(g, &train, &compile, &err);
    CHECK_MSG(t, "%s", err.message);
    flx_build_options o = {.struct_size = sizeof o,
                           .flags = FLX_BUILD_TABLES,
                           .name = "model",
                           .params = FLX_BUILD_EMBED,
                           .values = start,
                           .vector_bytes = c->vector_bytes,
                           .train = &train};
    flx_buffer text;
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    CHECK_OK(flx_build_c(g, &o, &text, NULL, &sizes, &err), &err);
    c_file *f = c_file_compile(&text, "gcc", flags_of(c->vector_bytes));
    init_function init;
    step_function step;
    *(void **)&init = c_file_symbol(f, "model_init");
    *(void **)&step = c_file_symbol(f, "model_step");
    trained_model m;
    void *memory = aligned_alloc(64, ((size_t)sizes.memory_bytes + 64) / 64 * 64);
    CHECK(memory && init(&m, NULL) == 1 && init(&m, (char *)memory + 1) == 1 && init(&m, memory) == 0);
    batch b = make_batch(ctx, g, start);
    run_steps(c, t, step, &m, &b);
    check_params(c, flx_trainer_params(t), start, &m);
    for (size_t i = 0; i < b.n; i++)
        flx_tensor_release(b.in[i]);
    free(memory);
    c_file_free(f);
    flx_buffer_free(&text);
    flx_trainer_free(t);
    flx_params_release(start);
    flx_graph_release(g);
    flx_context_free(ctx);
}

static const char perceptron[] =
    "graph model(x: f32[8, 12], label: i32[8], param w1: f32[12, 16], param b1: f32[16],\n"
    "            param w2: f32[16, 4], param b2: f32[4]) {\n"
    "  h = relu(add(matmul(x, w1), b1))\n"
    "  z = add(matmul(h, w2), b2)\n"
    "  loss = reduce_mean(neg(take_along(log_softmax(z, axis=-1), unsqueeze(label, axes=[1]), axis=1)))\n"
    "  return loss\n"
    "}\n";

TEST(standalone_training_of_perceptron_follows_trainer)
{
    static const int32_t optimisers[] = {FLX_SGD, FLX_MOMENTUM, FLX_ADAMW, FLX_LION};
    for (size_t i = 0; i < sizeof optimisers / sizeof *optimisers; i++)
        check_training(&(training_case){perceptron, optimisers[i], 10, 4, 1e-4, 0});
}

/* One block of a decoder: embedding, norm, causal attention, gated layer, tied to nothing. */
static const char decoder[] =
    "graph model(x: i32[2, 8], label: i32[2, 8], param table: f32[17, 12] ~ normal(0.5), param g1: f32[12] ~ ones,\n"
    "            param q: f32[12, 12], param k: f32[12, 12], param v: f32[12, 12], param o: f32[12, 12],\n"
    "            param g2: f32[12] ~ ones, param up: f32[12, 20], param gate: f32[12, 20], param down: f32[20, 12],\n"
    "            param head: f32[12, 17]) {\n"
    "  e = gather(table, x)\n"
    "  n1 = rms_norm(e, g1, axis=2)\n"
    "  a = attention(matmul(n1, q), matmul(n1, k), matmul(n1, v), layout=bsd, num_heads=2, head_dim=6,\n"
    "                num_kv_heads=2, mask_kind=causal)\n"
    "  r = add(e, matmul(a, o))\n"
    "  n2 = rms_norm(r, g2, axis=2)\n"
    "  s = add(r, matmul(mul(silu(matmul(n2, gate)), matmul(n2, up)), down))\n"
    "  z = matmul(s, head)\n"
    "  loss = reduce_mean(neg(take_along(log_softmax(z, axis=-1), unsqueeze(label, axes=[2]), axis=2)))\n"
    "  return loss\n"
    "}\n";

TEST(standalone_training_of_decoder_follows_trainer)
{
    check_training(&(training_case){decoder, FLX_ADAMW, 50, 17, 2e-3, 0});
}

/* With the vectors of this machine a C file has the bits of the trainer. */
TEST(standalone_training_of_decoder_has_bits_of_trainer)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    int bytes = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? 64 : 32;
    check_training(&(training_case){decoder, FLX_ADAMW, 50, 17, 0, bytes});
}
