/* SPDX-License-Identifier: Apache-2.0 */
/* example_steps.c: steps that count or tell apart their examples: accumulation over batches of any size, its
   derivative, clipping of each example, and noise. */
#include "trainee.h"

#include <fluxion/nn.h>
#include <math.h>
#include <string.h>

#define SIZED .struct_size = sizeof(flx_train_options)

static const flx_compile_options interpreted = {.flags = FLX_COMPILE_INTERPRET, .threads = 1},
                                 compiled = {.optimisation = 1};

/* ---- Batches of any size ---- */

/* The mean of x, step by step, of batches of 1 + k % 4 numbers k; parameters are minus its sum over updates. */
static void check_accumulation(const char *text, const flx_train_options *o, const double want[6])
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, text, FLX_F32);
    flx_trainer *t = trainee_trainer(g, o, &compiled);
    trainee_set(t, ctx, "p", 0, 0);
    for (int k = 0; k < 6; k++) {
        double values[5] = {k, k, k, k, k};
        flx_tensor *x = trainee_numbers(ctx, FLX_F32, 1 + k % 4, values), *y = trainee_numbers(ctx, FLX_F32, 5, values);
        const flx_feed feeds[] = {{"x", x}, {"y", y}};
        CHECK_OK(flx_trainer_step(t, feeds, flx_graph_input_count(g) - 1, NULL, &err), &err);
        CHECK_NEAR(trainee_element(t, "p", 0), want[k], 1e-5);
        flx_tensor_release(x);
        flx_tensor_release(y);
    }
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Several batches, accumulated, are the batch of all their examples, whatever their sizes. Where the number of examples
   is not known, because two dimensions are symbolic, all steps weigh the same. */
TEST(training_accumulates_batches_by_their_examples)
{
    static const double joined[] = {0, 0, -(0 + 2 + 6) / 6.0, -8 / 6.0, -8 / 6.0, -8 / 6.0 - (12 + 4 + 10) / 7.0};
    static const double single[] = {0, 0, -1, -1, -1, -5};
    static const char one[] = "graph f(x: f32[N], param p: f32[2]) {\n"
                              "  return mul(reduce_mean(x), reduce_sum(p))\n}\n";
    static const char two[] = "graph f(x: f32[N], y: f32[M], param p: f32[2]) {\n"
                              "  return mul(add(reduce_mean(x), mul(0.0, reduce_mean(y))), reduce_sum(p))\n}\n";
    check_accumulation(one, &(flx_train_options){SIZED, .rate = 1, .accumulate = 3}, joined);
    check_accumulation(two, &(flx_train_options){SIZED, .rate = 1, .accumulate = 3}, single);
    check_accumulation(two, &(flx_train_options){SIZED, .rate = 1, .accumulate = 3, .example_dim = "N"}, joined);
}

/* The sum of the new parameters, differentiated with respect to p and x: a step is a graph like any other. */
static flx_graph *sum_of_new(flx_context *ctx, const flx_graph *step)
{
    flx_error err = {0};
    flx_val in[8], out[8];
    flx_graph *g = flx_graph_new(ctx, "after");
    size_t n = flx_graph_input_count(step), m = flx_graph_output_count(step), at = m;
    CHECK(n <= 8 && m <= 8);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(step, i);
        in[i] = flx_input(g, flx_val_name(step, v), flx_val_type(step, v));
    }
    flx_inline(g, step, in, n, out, m);
    while (at-- > 0 && strcmp(flx_graph_output_name(step, at), "new_p") != 0)
        continue;
    CHECK(at < m);
    flx_output(g, flx_reduce_sum(g, out[at], FLX_ALL, 0), "sum");
    flx_graph *d = flx_grad(g, (const char *[]){"p", "x"}, 2, NULL, &err);
    CHECK_MADE(d, &err);
    flx_graph_release(g);
    return d;
}

/* Three examples are summed; the step of two more updates by the mean over five, or waits for another one. */
static void check_derivative(flx_context *ctx, const flx_graph *d, bool is_last, const char *device)
{
    flx_error err = {0};
    const flx_type counter = flx_type_make(FLX_I64, 0, NULL);
    const int64_t steps = is_last, examples = 3, updates = 0;
    flx_tensor *of[] = {
        trainee_numbers(ctx, FLX_F64, 2, (double[]){1, 4}),   trainee_numbers(ctx, FLX_F64, 2, (double[]){3, -7}),
        trainee_numbers(ctx, FLX_F64, 2, (double[]){0.5, 2}), flx_tensor_new(ctx, &counter, &steps, &err),
        flx_tensor_new(ctx, &counter, &examples, &err),       flx_tensor_new(ctx, &counter, &updates, &err)};
    static const char *const names[] = {"x", "p", "state_p_sum", "state_micro_step", "state_examples", "state_step"};
    flx_feed feeds[6];
    size_t n = 0;
    for (size_t i = 0; i < 6; i++)
        if (flx_graph_find(d, names[i]).id)
            feeds[n++] = (flx_feed){names[i], of[i]};
    const flx_run_options o = {.struct_size = sizeof o, .device = device};
    flx_tensor *out[2] = {0};
    CHECK_OK(flx_run(d, &o, feeds, n, out, &err), &err);
    for (int i = 0; i < 2; i++) { /* new_p = p - 0.1 (sum + 2 · 2 mean(x) p) / 5 */
        CHECK_NEAR(flx_tensor_get(out[0], i), is_last ? 1 - 0.1 * 4 * 2.5 / 5 : 1, 1e-12);
        CHECK_NEAR(flx_tensor_get(out[1], i), is_last ? -0.1 * 4 * 0.5 * (3 - 7) / 5 : 0, 1e-12);
    }
    for (int i = 0; i < 2; i++)
        flx_tensor_release(out[i]);
    for (int i = 0; i < 6; i++)
        flx_tensor_release(of[i]);
}

TEST(training_steps_that_accumulate_have_derivatives)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(x: f64[N], param p: f64[2]) {\n"
                                 "  return mul(reduce_mean(x), reduce_sum(square(p)))\n}\n",
                                 FLX_F64);
    const flx_train_options o = {SIZED, .rate = 0.1, .accumulate = 2};
    flx_graph *step = flx_training_graph(g, &o, &err);
    CHECK_MADE(step, &err);
    flx_graph *d = sum_of_new(ctx, step);
    for (int i = 0; i < 4; i++)
        check_derivative(ctx, d, i % 2, i < 2 ? "ref" : "cpu");
    flx_graph_release(d);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(training_accumulation_by_an_unknown_dimension_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g =
        trainee_graph(ctx, "graph f(x: f32[N], param p: f32[]) { return mul(reduce_mean(x), p) }\n", FLX_F32);
    const flx_train_options o = {SIZED, .accumulate = 2, .example_dim = "M"};
    CHECK(flx_compile_training(g, &o, NULL, &err) == NULL);
    CHECK(err.code == FLX_E_NAME && strstr(err.message, "no dimension called 'M'"));
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Each example ---- */

#define LINEAR                                                   \
    "graph f(x: f64[N, 2], param p: f64[2], param q: f64[]) {\n" \
    "  y = add(reduce_sum(mul(x, p), axes=[1]), q)\n"            \
    "  return reduce_mean(y), y\n}\n"

/* A state that counts steps, as a random key does, belongs to no example. */
#define COUNTED                                                                  \
    "graph f(x: f64[N, 2], param p: f64[2], param q: f64[], param s: f64[]) {\n" \
    "  y = add(reduce_sum(mul(x, p), axes=[1]), q)\n"                            \
    "  new_s = add(s, 1.0)\n"                                                    \
    "  return reduce_mean(y), y, new_s\n}\n"

/* The gradient of an example is (x, 1): its norm is known. Steps of `o` on the first n examples, until an update. */
static void check_clipped(flx_context *ctx, const flx_graph *g, int64_t n, const flx_train_options *o)
{
    static const double xs[] = {3, 4, 0.1, 0.2, -6, 8};
    const flx_type type = flx_type_make(FLX_F64, 2, (flx_dim[]){n, 2});
    flx_error err = {0};
    flx_tensor *x = flx_tensor_new(ctx, &type, xs, &err);
    flx_trainer *t = trainee_trainer(g, o, n == 3 ? &compiled : &interpreted);
    bool counts = flx_params_find(flx_trainer_params(t), "s") != NULL;
    double p0 = trainee_element(t, "p", 0), q0 = trainee_element(t, "q", 0),
           s0 = counts ? trainee_element(t, "s", 0) : 0;
    double d = 0, dq = 0, loss, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double norm = sqrt(xs[2 * i] * xs[2 * i] + xs[2 * i + 1] * xs[2 * i + 1] + 1), f = fmin(1, 2 / norm);
        d += f * xs[2 * i] / (double)n;
        dq += f / (double)n;
    }
    for (int i = 0; i < o->accumulate; i++)
        CHECK_OK(flx_trainer_step(t, &(flx_feed){"x", x}, 1, &loss, &err), &err);
    CHECK_NEAR(trainee_element(t, "p", 0), p0 - d, 1e-12);
    CHECK_NEAR(trainee_element(t, "q", 0), q0 - dq, 1e-12);
    if (counts)
        CHECK_NEAR(trainee_element(t, "s", 0) - s0, (double)o->accumulate, 1e-12);
    const flx_tensor *y = flx_trainer_output(t, "y");
    CHECK(y && flx_tensor_count(y) == n && flx_tensor_type(y)->rank == 1);
    for (int64_t i = 0; i < n; i++)
        sum += flx_tensor_get(y, i) / (double)n;
    CHECK_NEAR(loss, sum, 1e-12);
    flx_trainer_free(t);
    flx_tensor_release(x);
}

TEST(training_clips_each_example)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *plain = trainee_graph(ctx, LINEAR, FLX_F64), *counted = trainee_graph(ctx, COUNTED, FLX_F64);
    for (int64_t n = 1; n <= 3; n++)
        for (int k = 0; k < 4; k++) {
            flx_train_options o = {SIZED, .rate = 1, .clip_example = 2, .accumulate = 1 + k % 2};
            o.flags = k >= 2 ? FLX_TRAIN_LOSS_SCALE : 0;
            check_clipped(ctx, k == 1 || k == 2 ? counted : plain, n, &o);
        }
    flx_graph_release(counted);
    flx_graph_release(plain);
    flx_context_free(ctx);
}

/* Products in f16 with a scaled loss, and dropout, whose random key is a state: the loss falls nevertheless. */
TEST(training_clips_examples_of_narrow_layers_with_dropout)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = flx_graph_new(ctx, "narrow");
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_type wide = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 3}), slim = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 1});
    flx_val x = flx_input(g, "x", &wide), y = flx_input(g, "y", &slim);
    flx_val h = flx_nn_dropout(g, flx_nn_linear(g, "in", x, 16, "tanh"), flx_nn_key(g, "key"), 0.1);
    flx_output(g, flx_nn_mse(g, flx_nn_linear(g, "out", h, 1, NULL), y), "loss");
    flx_graph *mixed = flx_mixed_precision(g, FLX_F16, &err);
    CHECK_MADE(mixed, &err);
    flx_train_options o = {SIZED, .optimiser = FLX_ADAM, .rate = 0.02, .flags = FLX_TRAIN_LOSS_SCALE, .seed = 3};
    o.clip_example = 1;
    flx_trainer *t = trainee_trainer(mixed, &o, &compiled);
    uint64_t seed = 9;
    flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){32, 3}), yt = flx_type_make(FLX_F32, 2, (flx_dim[]){32, 1});
    flx_tensor *xs = trainee_random(ctx, &xt, &seed), *ys = flx_tensor_new(ctx, &yt, NULL, &err);
    for (int i = 0; i < 32; i++)
        ((float *)flx_tensor_data(ys))[i] = (float)(flx_tensor_get(xs, 3 * i) - flx_tensor_get(xs, 3 * i + 1));
    const flx_feed feeds[] = {{"x", xs}, {"y", ys}};
    double first = 0, loss = 0, key = trainee_element(t, "key", 0);
    for (int k = 0; k < 60; k++)
        CHECK_OK(flx_trainer_step(t, feeds, 2, k ? &loss : &first, &err), &err);
    CHECK_MSG(loss < 0.4 * first, "%g to %g", first, loss);
    CHECK(trainee_element(t, "key", 0) != key);
    flx_trainer_free(t);
    flx_tensor_release(xs);
    flx_tensor_release(ys);
    flx_graph_release(mixed);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Noise has the deviation noise · clip_example / N, differs between steps, and depends on the seed alone. */
TEST(training_adds_noise_to_the_sum_of_examples)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    enum { MANY = 4000 };
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(x: f32[N], param p: f32[4000]) {\n"
                                 "  return mul(reduce_mean(x), reduce_sum(p))\n}\n",
                                 FLX_F32);
    flx_tensor *x = trainee_numbers(ctx, FLX_F32, 4, (double[]){0, 0, 0, 0});
    double first[2];
    for (int k = 0; k < 2; k++) {
        flx_train_options o = {SIZED, .rate = 1, .clip_example = 2, .noise = 3, .seed = 5};
        flx_trainer *t = trainee_trainer(g, &o, k ? &interpreted : &compiled);
        flx_tensor *before = flx_trainer_param(t, "p", &err);
        CHECK_OK(flx_trainer_step(t, &(flx_feed){"x", x}, 1, NULL, &err), &err);
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < MANY; i++) {
            double d = flx_tensor_get(flx_params_find(flx_trainer_params(t), "p"), i) - flx_tensor_get(before, i);
            sum += d;
            squares += d * d;
        }
        CHECK_NEAR(sum / MANY, 0, 4 * 1.5 / sqrt(MANY));
        CHECK_NEAR(sqrt(squares / MANY), 2 * 3 / 4.0, 0.1);
        first[k] = trainee_element(t, "p", 7) - flx_tensor_get(before, 7);
        CHECK_OK(flx_trainer_step(t, &(flx_feed){"x", x}, 1, NULL, &err), &err);
        CHECK(fabs(trainee_element(t, "p", 7) - flx_tensor_get(before, 7) - 2 * first[k]) > 1e-6);
        flx_tensor_release(before);
        flx_trainer_free(t);
    }
    CHECK_NEAR(first[0], first[1], 1e-6);
    flx_tensor_release(x);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(training_refuses_examples_that_are_mixed)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    static const struct {
        const char *text, *dim, *says;
        flx_code code;
    } rows[] = {
        {"graph f(x: f32[3], param p: f32[3]) { return reduce_sum(mul(x, p)) }\n", NULL, "0 symbolic", FLX_E_USAGE},
        {"graph f(x: f32[N], y: f32[M], param p: f32[]) { return mul(p, add(reduce_sum(x), reduce_sum(y))) }\n", NULL,
         "2 symbolic", FLX_E_USAGE},
        {"graph f(x: f32[N], param p: f32[]) { return mul(p, reduce_sum(x)) }\n", "M", "'M'", FLX_E_NAME},
        {"graph f(x: f32[N, N], param p: f32[]) { return mul(p, reduce_sum(x)) }\n", NULL, "input 'x'",
         FLX_E_UNSUPPORTED},
        {"graph f(x: f32[2*N], param p: f32[]) { return mul(p, reduce_sum(x)) }\n", NULL, "input 'x'",
         FLX_E_UNSUPPORTED},
        {"graph f(x: f32[N], param p: f32[N]) { return reduce_sum(mul(p, x)) }\n", NULL, "parameter 'p'",
         FLX_E_UNSUPPORTED},
        {"graph f(x: f32[N], param p: f32[], param s: f32[]) {\n"
         "  new_s = add(s, reduce_mean(x))\n"
         "  return mul(p, reduce_sum(x)), new_s\n}\n",
         NULL, "states", FLX_E_UNSUPPORTED},
        {"graph f(x: f32[N], param p: f32[]) { i = argmax(x) return mul(p, reduce_sum(x)), i }\n", NULL, "output 'i'",
         FLX_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_graph *g = trainee_graph(ctx, rows[i].text, FLX_F32);
        flx_train_options o = {SIZED, .clip_example = 1, .example_dim = rows[i].dim};
        test_fail_context("row %zu", i);
        CHECK(!flx_training_graph(g, &o, &err));
        CHECK_CODE((flx_code)err.code, rows[i].code, &err);
        CHECK_MSG(strstr(err.message, rows[i].says), "%s", err.message);
        flx_graph_release(g);
    }
    flx_graph *g = trainee_graph(ctx, LINEAR, FLX_F64);
    static const flx_train_options wrong[] = {{SIZED, .noise = 1},       {SIZED, .clip_example = -1},
                                              {SIZED, .accumulate = -1}, {SIZED, .ema = 1},
                                              {SIZED, .recompute = -1},  {SIZED, .clip_value = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!flx_training_graph(g, &wrong[i], &err) && err.code == FLX_E_USAGE);
    flx_graph_release(g);
    flx_context_free(ctx);
}
