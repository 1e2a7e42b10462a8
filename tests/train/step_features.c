/* SPDX-License-Identifier: Apache-2.0 */
/* step_features.c: parts of a step that the options choose: states of the graph, groups, averages, schedules, loss
   scaling, recomputation. */
#include "trainee.h"

#include <fluxion/nn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZED .struct_size = sizeof(flx_train_options)

static const flx_compile_options interpreted = {.flags = FLX_COMPILE_INTERPRET, .threads = 1},
                                 compiled = {.optimisation = 1};

/* ---- States of the graph ---- */

#define RUNNING                                                                                          \
    "graph f(x: f32[2], param p: f32[2], param mean: f32[2], param key: u32[2], param count: i32[]) {\n" \
    "  loss = reduce_sum(square(sub(mul(p, x), mean)))\n"                                                \
    "  new_mean = add(mul(0.9, mean), mul(0.1, x))\n"                                                    \
    "  new_key = rng_fold_in(key, count)\n"                                                              \
    "  new_count = add(count, 1)\n"                                                                      \
    "  z = mul(p, 2.0)\n"                                                                                \
    "  return loss, new_mean, new_key, new_count, z\n}\n"

TEST(training_sets_states_and_trains_the_rest)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, RUNNING, FLX_F32);
    flx_train_options o = {SIZED, .rate = 0.1};
    flx_graph *step = flx_training_graph(g, &o, &err);
    CHECK_MADE(step, &err);
    static const char *const outputs[] = {"loss", "z", "new_p", "new_mean", "new_key", "new_count"};
    CHECK_EQ_U64(flx_graph_output_count(step), 6);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ_STR(flx_graph_output_name(step, i), outputs[i]);
    flx_tensor *x = trainee_numbers(ctx, FLX_F32, 2, (double[]){1, 2}),
               *bad = trainee_numbers(ctx, FLX_F32, 2, (double[]){NAN, 2});
    for (int way = 0; way < 2; way++) {
        flx_trainer *t = trainee_trainer(g, &o, way ? &interpreted : &compiled);
        trainee_set(t, ctx, "p", 1, 1);
        trainee_set(t, ctx, "mean", 0, 0);
        double key = trainee_element(t, "key", 0), mean[2] = {0, 0}, p[2] = {1, 1};
        for (int k = 0; k < 4; k++) {
            CHECK_OK(flx_trainer_step(t, &(flx_feed){"x", x}, 1, NULL, &err), &err);
            for (int i = 0; i < 2; i++) {
                double v = 1 + i;
                p[i] -= 0.1 * 2 * (p[i] * v - mean[i]) * v;
                mean[i] = 0.9 * mean[i] + 0.1 * v;
                CHECK_NEAR(trainee_element(t, "p", i), p[i], 1e-5);
                CHECK_NEAR(trainee_element(t, "mean", i), mean[i], 1e-6);
            }
            CHECK_NEAR(trainee_element(t, "count", 0), k + 1, 0);
            CHECK(trainee_element(t, "key", 0) != key);
            key = trainee_element(t, "key", 0);
            CHECK(!flx_trainer_output(t, "new_mean") && flx_trainer_output(t, "z"));
            CHECK_CODE(flx_trainer_step(t, &(flx_feed){"x", bad}, 1, NULL, &err), FLX_E_NUMERIC, &err);
            CHECK(trainee_element(t, "mean", 0) == (double)(float)trainee_element(t, "mean", 0) &&
                  trainee_element(t, "key", 0) == key);
            CHECK_NEAR(trainee_element(t, "count", 0), k + 1, 0);
            CHECK_NEAR(trainee_element(t, "mean", 1), mean[1], 1e-6);
        }
        flx_trainer_free(t);
    }
    const char *const named[] = {"mean"};
    o.params = named;
    o.num_params = 1;
    CHECK(!flx_training_graph(g, &o, &err) && err.code == FLX_E_NAME && strstr(err.message, "state"));
    flx_tensor_release(x);
    flx_tensor_release(bad);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(training_states_are_declared_in_c)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const flx_type pair = flx_type_make(FLX_F32, 1, (flx_dim[]){2}), triple = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    for (int wrong = 0; wrong < 6; wrong++) {
        flx_graph *g = flx_graph_new(ctx, "f");
        flx_val x = flx_input(g, "x", &pair), p = flx_param(g, "p", &pair), q = flx_param(g, "q", &triple);
        flx_output(g, flx_reduce_sum(g, flx_mul(g, x, p), FLX_ALL, 0), "loss");
        flx_val next = flx_update(g, wrong == 1 ? x : wrong == 2 ? q : p, wrong == 3 ? FLX_NONE : x);
        if (wrong == 4)
            next = flx_update(g, p, x);
        static const flx_code codes[] = {FLX_OK, FLX_E_USAGE, FLX_E_SHAPE, FLX_E_USAGE, FLX_E_DUP_NAME, FLX_OK};
        CHECK_CODE(flx_graph_error(g, &err), codes[wrong], &err);
        CHECK((next.id != 0) == (codes[wrong] == FLX_OK));
        if (codes[wrong] == FLX_OK)
            CHECK_EQ_STR(flx_graph_output_name(g, 1), "new_p");
        flx_graph_release(g);
    }
    flx_context_free(ctx);
}

/* A network with a batch norm and dropout; is_training 0: as it is used later. */
static flx_graph *normed(flx_context *ctx, int32_t is_training)
{
    flx_graph *g = flx_graph_new(ctx, is_training ? "training" : "use");
    flx_dim n = flx_dim_symbol(ctx, "N");
    const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 3}), yt = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 1});
    flx_val x = flx_input(g, "x", &xt), y = flx_input(g, "y", &yt);
    flx_nn_batch_norm_options o = {.struct_size = sizeof o, .is_training = is_training, .momentum = 0.2};
    flx_val h = flx_tanh(g, flx_nn_linear(g, "in", flx_nn_batch_norm(g, "norm", x, &o), 16, NULL));
    h = flx_nn_dropout(g, h, is_training ? flx_nn_key(g, "key") : FLX_NONE, 0.1);
    flx_output(g, flx_nn_mse(g, flx_nn_linear(g, "out", h, 1, NULL), y), "loss");
    return g;
}

/* Layers with states train without further rules, and the graph for use reads the same set. */
TEST(training_updates_the_states_of_layers)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = normed(ctx, 1), *use = normed(ctx, 0);
    CHECK_OK(flx_graph_error(g, &err), &err);
    flx_train_options o = {SIZED, .optimiser = FLX_ADAM, .rate = 0.01, .seed = 3};
    flx_trainer *t = trainee_trainer(g, &o, &compiled);
    flx_exec *e = flx_compile(use, NULL, &err);
    CHECK_OK(flx_params_bind(flx_trainer_params(t), e, &err), &err);
    CHECK(!flx_params_find(flx_trainer_state(t), "state_norm.mean_m"));
    uint64_t seed = 9;
    double key = trainee_element(t, "key", 0), loss = 0, last = 0;
    for (int k = 0; k < 120; k++) {
        int64_t n = k % 5 == 4 ? 20 : 32;
        const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 3}),
                       yt = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 1});
        flx_tensor *x = trainee_random(ctx, &xt, &seed), *y = flx_tensor_new(ctx, &yt, NULL, &err), *out;
        float *xs = flx_tensor_data(x);
        for (int64_t i = 0; i < n; i++) {
            xs[3 * i] = 5 + 2 * xs[3 * i]; /* a mean of 5, a variance of 4 / 3 */
            ((float *)flx_tensor_data(y))[i] = xs[3 * i] - 5 + xs[3 * i + 1];
        }
        const flx_feed feeds[] = {{"x", x}, {"y", y}};
        CHECK_OK(flx_trainer_step(t, feeds, 2, &loss, &err), &err);
        CHECK(trainee_element(t, "key", 0) != key);
        key = trainee_element(t, "key", 0);
        CHECK_OK(flx_exec_run(e, NULL, feeds, 2, &out, &err), &err);
        last = flx_tensor_get(out, 0);
        flx_tensor_release(out);
        flx_tensor_release(x);
        flx_tensor_release(y);
    }
    CHECK_NEAR(trainee_element(t, "norm.mean", 0), 5, 0.4);
    CHECK_NEAR(trainee_element(t, "norm.var", 0), 4.0 / 3, 0.5);
    CHECK_MSG(last < 0.3, "%g, in training %g", last, loss);
    flx_exec_free(e);
    flx_trainer_free(t);
    flx_graph_release(use);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Groups ---- */

TEST(training_groups_freeze_and_scale_by_pattern)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(param a.w: f32[2], param a.b: f32[2], param c.w: f32[2]) {\n"
                                 "  return reduce_sum(add(a.w, add(a.b, c.w)))\n}\n",
                                 FLX_F32);
    const flx_train_group groups[] = {{.pattern = "*", .weight_decay = 0.5},
                                      {.pattern = "a.*", .rate_factor = 10},
                                      {.pattern = "*.b", .flags = FLX_GROUP_NO_DECAY, .rate_factor = 2},
                                      {.pattern = "c.*", .flags = FLX_GROUP_FROZEN}};
    flx_train_options o = {SIZED, .rate = 0.01, .weight_decay = 0.1, .groups = groups, .num_groups = 4};
    flx_trainer *t = trainee_trainer(g, &o, &interpreted);
    trainee_set(t, ctx, "a.w", 1, 2);
    trainee_set(t, ctx, "a.b", 1, 2);
    trainee_set(t, ctx, "c.w", 1, 2);
    CHECK_OK(flx_trainer_step(t, NULL, 0, NULL, &err), &err);
    CHECK_NEAR(trainee_element(t, "a.w", 1), 2 - 0.1 * (1 + 0.1 * 2), 1e-6); /* the later group prevails */
    CHECK_NEAR(trainee_element(t, "a.b", 1), 2 - 0.02, 1e-6);
    CHECK_NEAR(trainee_element(t, "c.w", 1), 2, 0);
    flx_trainer_free(t);
    static const struct {
        flx_train_group group;
        flx_code code;
    } wrong[] = {{{.pattern = NULL}, FLX_E_USAGE},
                 {{.pattern = "bais*"}, FLX_E_NAME},
                 {{.pattern = "*", .flags = 64}, FLX_E_USAGE},
                 {{.pattern = "*", .rate_factor = -1}, FLX_E_USAGE},
                 {{.pattern = "*", .weight_decay = NAN}, FLX_E_USAGE},
                 {{.pattern = "*", .flags = FLX_GROUP_FROZEN}, FLX_E_USAGE}}; /* nothing is left */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flx_train_options bad = {SIZED, .groups = &wrong[i].group, .num_groups = 1};
        CHECK(!flx_training_graph(g, &bad, &err));
        CHECK_EQ_I64(err.code, wrong[i].code);
    }
    flx_train_options none = {SIZED, .num_groups = 1};
    CHECK(!flx_training_graph(g, &none, &err) && err.code == FLX_E_USAGE);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(training_averages_parameters)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, "graph f(param p: f32[2]) { return reduce_sum(square(p)) }\n", FLX_F32);
    flx_train_options o = {SIZED, .rate = 0.1, .ema = 0.75};
    flx_trainer *t = trainee_trainer(g, &o, &compiled),
                *plain = trainee_trainer(g, &(flx_train_options){SIZED}, &interpreted);
    CHECK(!flx_trainer_averages(plain));
    trainee_set(t, ctx, "p", 1, 2);
    double mean = 0;
    for (int k = 0; k < 6; k++) {
        CHECK_OK(flx_trainer_step(t, NULL, 0, NULL, &err), &err);
        double p = trainee_element(t, "p", 1);
        mean = k ? 0.75 * mean + 0.25 * p : p;
        const flx_tensor *average = flx_params_find(flx_trainer_averages(t), "p");
        CHECK_NEAR(flx_tensor_get(average, 1), mean, 1e-6);
        CHECK_NEAR(trainee_element(t, "state_p_ema", 1), flx_tensor_get(average, 1), 0);
    }
    flx_trainer_free(plain);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Schedules ---- */

static double cosine(double a, double b, double x)
{
    return b + (a - b) * 0.5 * (1 + cos(3.14159265358979323846 * fmin(fmax(x, 0), 1)));
}

/* As other programs write them; i counts from 0. */
static double factor_by_hand(const flx_schedule_options *o, double i)
{
    double w = (double)o->warmup, n = (double)o->steps;
    if (o->kind == FLX_SCHEDULE_ONE_CYCLE) {
        double peak = (w > 0 ? w : 0.3 * n) - 1;
        return i <= peak ? cosine(0.04, 1, i / peak) : cosine(1, 4e-6, (i - peak) / (n - 1 - peak));
    }
    if (i < w)
        return (i + 1) / w;
    switch (o->kind) {
    case FLX_SCHEDULE_LINEAR: return 1 + (o->final - 1) * fmin((i - w) / n, 1);
    case FLX_SCHEDULE_COSINE: return cosine(1, o->final, (i - w) / n);
    case FLX_SCHEDULE_STEP: return pow(0.1, floor((i - w) / n));
    case FLX_SCHEDULE_EXPONENTIAL: return pow(0.1, (i - w) / n);
    case FLX_SCHEDULE_INVERSE_SQRT: return sqrt(fmax(w, 1) / (i + 1));
    default: return 1;
    }
}

TEST(training_schedules_follow_their_formulas)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const flx_type count = flx_type_make(FLX_I64, 0, NULL);
    for (int32_t kind = 0; kind <= FLX_SCHEDULE_INVERSE_SQRT; kind++)
        for (int64_t warmup = 0; warmup <= 8; warmup += 4) {
            flx_schedule_options o = {
                .struct_size = sizeof o, .kind = kind, .warmup = warmup, .steps = 20, .final = kind < 5 ? 0.25 : 0};
            flx_graph *g = flx_schedule_graph(ctx, &o, &err);
            CHECK_MADE(g, &err);
            for (int64_t i = 0; i < 40; i++) {
                flx_tensor *at = flx_tensor_new(ctx, &count, &i, &err), *out;
                CHECK_OK(flx_run(g, ON_REF, &(flx_feed){"step", at}, 1, &out, &err), &err);
                test_fail_context("kind %d, warm-up %d, step %d", (int)kind, (int)warmup, (int)i);
                CHECK_NEAR(flx_tensor_get(out, 0), factor_by_hand(&o, (double)i), 1e-12);
                flx_tensor_release(at);
                flx_tensor_release(out);
            }
            flx_graph_release(g);
            test_count_case();
        }
    static const flx_schedule_options wrong[] = {
        {.struct_size = sizeof *wrong, .kind = 7, .steps = 1},
        {.struct_size = sizeof *wrong, .kind = -1, .steps = 1},
        {.struct_size = sizeof *wrong, .kind = FLX_SCHEDULE_COSINE},
        {.struct_size = sizeof *wrong, .warmup = -1},
        {.struct_size = sizeof *wrong, .final = NAN},
        {.struct_size = sizeof *wrong, .kind = FLX_SCHEDULE_ONE_CYCLE, .warmup = 9, .steps = 9}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!flx_schedule_graph(ctx, &wrong[i], &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_schedule_graph(NULL, NULL, &err));
    flx_context_free(ctx);
}

/* Any graph of the number of steps, in float too; the trainer says which rate it used. */
TEST(training_takes_any_graph_as_a_schedule)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, "graph f(param p: f32[2]) { return reduce_sum(p) }\n", FLX_F32);
    flx_graph *s = trainee_graph(ctx, "graph s(i: f32[]) { return div(1.0, add(i, 1.0)) }\n", FLX_F32);
    flx_train_options o = {SIZED, .rate = 0.5, .schedule = s};
    flx_trainer *t = trainee_trainer(g, &o, &compiled);
    CHECK(isnan(flx_trainer_rate(t)) && isnan(flx_trainer_norm(t)));
    trainee_set(t, ctx, "p", 1, 2);
    double p = 2;
    for (int k = 0; k < 4; k++) {
        CHECK_OK(flx_trainer_step(t, NULL, 0, NULL, &err), &err);
        p -= 0.5 / (k + 1);
        CHECK_NEAR(trainee_element(t, "p", 1), p, 1e-6);
        CHECK_NEAR(flx_trainer_rate(t), 0.5 / (k + 1), 1e-7);
        CHECK_NEAR(flx_trainer_norm(t), sqrt(2), 1e-6);
    }
    flx_trainer_free(t);
    o = (flx_train_options){SIZED, .rate = 0.25};
    t = trainee_trainer(g, &o, &interpreted);
    CHECK_OK(flx_trainer_step(t, NULL, 0, NULL, &err), &err);
    CHECK_NEAR(flx_trainer_rate(t), 0.25, 0);
    flx_trainer_free(t);
    static const char *const wrong[] = {
        "graph s(i: f32[], j: f32[]) { return add(i, j) }\n", "graph s(i: f32[2]) { return i }\n",
        "graph s(i: i32[]) { return cast(i, to=f32) }\n", "graph s(i: i64[]) { return i }\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flx_graph *bad = trainee_graph(ctx, wrong[i], FLX_F32);
        flx_train_options b = {SIZED, .schedule = bad};
        CHECK(!flx_training_graph(g, &b, &err) && err.code == FLX_E_USAGE);
        flx_graph_release(bad);
    }
    flx_graph_release(s);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Loss scaling ---- */

/* One step, which changes p[1] and s[1] to these, or leaves them. */
static void scaled_step(flx_trainer *t, const flx_feed *big, bool is_skipped, double p, double s)
{
    flx_error err = {0};
    CHECK_OK(flx_trainer_step(t, big, 1, NULL, &err), &err);
    CHECK(flx_trainer_skipped(t) == is_skipped && (!is_skipped || isnan(flx_trainer_norm(t))));
    CHECK_NEAR(trainee_element(t, "p", 1), p, 1e-6);
    CHECK_NEAR(trainee_element(t, "s", 1), s, 0);
}

/* Steps are left out until the scale fits, and those that follow train. */
static void check_scale_is_found(flx_trainer *t, const flx_feed *big)
{
    int skipped = 0;
    double scale = 0x1p20;
    for (; scale * 4 * 4 > 65504 || scale * 4 > 65504; skipped++) { /* 2 big p scale, and the cotangent of h h */
        scaled_step(t, big, true, 2, 0);
        CHECK_NEAR(trainee_element(t, "state_micro_step", 0), 0, 0);
        scale /= 2;
        CHECK_NEAR(trainee_element(t, "state_loss_scale", 0), scale, 0);
    }
    CHECK(skipped > 4);
    scaled_step(t, big, false, 2, 1); /* accumulated */
    scaled_step(t, big, false, 2 - 1e-5 * 16, 2);
    CHECK_NEAR(flx_trainer_norm(t), 8 * sqrt(5), 1e-3);
    scaled_step(t, big, false, 2 - 1e-5 * 16, 3);
    CHECK_NEAR(trainee_element(t, "state_loss_scale", 0), 2 * scale, 0); /* three good steps */
    scaled_step(t, big, true, 2 - 1e-5 * 16, 3);
}

/* A loss that no scale makes finite fails the step, once the scale is 1. */
static void check_scale_ends(flx_trainer *t, const flx_feed *big)
{
    flx_error err = {0};
    flx_code code = FLX_OK;
    for (int steps = 0; code == FLX_OK && steps < 100; steps++)
        code = flx_trainer_step(t, big, 1, NULL, &err);
    CHECK_CODE(code, FLX_E_NUMERIC, &err);
    CHECK_NEAR(trainee_element(t, "state_loss_scale", 0), 1, 0);
}

/* The gradient is big: with a scale of 2^16 it overflows f16. */
TEST(training_finds_a_scale_of_the_loss)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(big: f32[], param p: f32[2], param s: f32[2]) {\n"
                                 "  h = cast(p, to=f16)\n"
                                 "  loss = mul(big, reduce_sum(cast(mul(h, h), to=f32)))\n"
                                 "  new_s = add(s, 1.0)\n"
                                 "  return loss, new_s\n}\n",
                                 FLX_F32);
    flx_train_options o = {
        SIZED, .rate = 1e-5, .flags = FLX_TRAIN_LOSS_SCALE, .scale_interval = 3, .loss_scale = 0x1p20, .accumulate = 2};
    flx_tensor *big = trainee_numbers(ctx, FLX_F32, 0, (double[]){4});
    flx_tensor *nan = trainee_numbers(ctx, FLX_F32, 0, (double[]){NAN});
    for (int way = 0; way < 2; way++) {
        flx_trainer *t = trainee_trainer(g, &o, way ? &interpreted : &compiled);
        trainee_set(t, ctx, "p", 1, 2);
        trainee_set(t, ctx, "s", 0, 0);
        check_scale_is_found(t, &(flx_feed){"big", big});
        check_scale_ends(t, &(flx_feed){"big", nan});
        flx_trainer_free(t);
    }
    flx_train_options wrong = {SIZED, .loss_scale = 3};
    CHECK(!flx_training_graph(g, &wrong, &err) && strstr(err.message, "power of two"));
    wrong = (flx_train_options){SIZED, .flags = FLX_TRAIN_LOSS_SCALE | FLX_TRAIN_UNGUARDED};
    CHECK(!flx_training_graph(g, &wrong, &err) && err.code == FLX_E_USAGE);
    flx_tensor_release(nan);
    flx_tensor_release(big);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Products in f16: scaled losses train as f32 does, nearly. */
TEST(training_in_mixed_precision_lowers_the_loss)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *wide = trainee_graph(ctx, trainee_network, FLX_F32);
    flx_graph *mixed = flx_mixed_precision(wide, FLX_F16, &err);
    CHECK_MADE(mixed, &err);
    uint64_t seed = 3;
    const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){16, 6}),
                   yt = flx_type_make(FLX_F32, 2, (flx_dim[]){16, 4});
    flx_tensor *x = trainee_random(ctx, &xt, &seed), *y = flx_tensor_new(ctx, &yt, NULL, &err);
    for (int i = 0; i < 64; i++)
        ((float *)flx_tensor_data(y))[i] = i % 4 == i / 4 % 4 ? 1e-4f : 0; /* gradients that f16 flushes to zero */
    const flx_feed feeds[] = {{"x", x}, {"y", y}};
    double first[2] = {0}, last[2] = {0};
    for (int k = 0; k < 2; k++) {
        flx_train_options o = {SIZED, .optimiser = FLX_ADAM, .rate = 0.05, .epsilon = 1e-15, .seed = 4};
        o.flags = k ? FLX_TRAIN_LOSS_SCALE : 0;
        flx_trainer *t = trainee_trainer(k ? mixed : wide, &o, &compiled);
        for (int i = 0; i < 40; i++)
            CHECK_OK(flx_trainer_step(t, feeds, 2, i ? &last[k] : &first[k], &err), &err);
        CHECK_MSG(last[k] < 0.5 * first[k], "%g to %g", first[k], last[k]);
        flx_trainer_free(t);
    }
    CHECK_NEAR(last[1], last[0], 0.05 * first[0]);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_graph_release(mixed);
    flx_graph_release(wide);
    flx_context_free(ctx);
}

TEST(training_optimisers_have_names)
{
    for (int32_t i = FLX_SGD; i <= FLX_MUON; i++)
        CHECK_EQ_I64(flx_optimiser_find(flx_optimiser_name(i)), i);
    CHECK(flx_optimiser_find("none") == -1 && flx_optimiser_find(NULL) == -1);
    CHECK(!flx_optimiser_name(-1) && !flx_optimiser_name(FLX_MUON + 1));
}

/* ---- Recomputed regions ---- */

/* A deep chain: its gradient needs less memory, and gives the same numbers. */
TEST(training_recomputes_regions_in_less_memory)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    enum { DEEP = 24 };
    flx_graph *g = flx_graph_new(ctx, "deep");
    const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){64, 32}),
                   wt = flx_type_make(FLX_F32, 2, (flx_dim[]){32, 32});
    flx_val h = flx_input(g, "x", &xt);
    for (int k = 0; k < DEEP; k++) {
        char name[10];
        snprintf(name, sizeof name, "w%d", k);
        h = flx_tanh(g, flx_matmul(g, flx_sin(g, flx_exp(g, flx_neg(g, flx_mul(g, h, h)))), flx_param(g, name, &wt)));
    }
    flx_output(g, flx_reduce_mean(g, flx_mul(g, h, h), FLX_ALL, 0), "loss");
    uint64_t seed = 3;
    flx_tensor *x = trainee_random(ctx, &xt, &seed);
    size_t memory[2];
    double loss[2], w[2];
    for (int k = 0; k < 2; k++) {
        flx_train_options o = {SIZED, .rate = 0.1, .recompute = k ? 5 : 0};
        flx_trainer *t = trainee_trainer(g, &o, &(flx_compile_options){.threads = 1, .optimisation = 1});
        for (int i = 0; i < 3; i++)
            CHECK_OK(flx_trainer_step(t, &(flx_feed){"x", x}, 1, &loss[k], &err), &err);
        memory[k] = flx_exec_memory(flx_trainer_exec(t));
        w[k] = trainee_element(t, "w3", 5);
        flx_trainer_free(t);
    }
    CHECK_MSG((double)memory[1] < 0.6 * (double)memory[0], "%zu and %zu bytes", memory[0], memory[1]);
    CHECK_NEAR(loss[0], loss[1], 1e-6);
    CHECK_NEAR(w[0], w[1], 1e-6);
    flx_tensor_release(x);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Nothing of the model or the options changes but the memory. */
TEST(training_within_a_budget_has_the_same_bits)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = flx_graph_new(ctx, "deep");
    const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){64, 32}),
                   wt = flx_type_make(FLX_F32, 2, (flx_dim[]){32, 32});
    flx_val h = flx_input(g, "x", &xt), w = flx_param(g, "w", &wt);
    for (int k = 0; k < 8; k++)
        h = flx_tanh(g, flx_matmul(g, flx_sin(g, h), w));
    flx_output(g, flx_reduce_mean(g, flx_mul(g, h, h), FLX_ALL, 0), "loss");
    uint64_t seed = 3;
    flx_tensor *x = trainee_random(ctx, &xt, &seed);
    size_t memory[2];
    double loss[2], last[2];
    for (int k = 0; k < 2; k++) {
        flx_train_options o = {SIZED, .rate = 0.1, .optimiser = FLX_ADAM};
        flx_compile_options c = {
            .struct_size = sizeof c, .threads = 1, .optimisation = 1, .memory_budget = k ? (int64_t)memory[0] / 2 : 0};
        flx_trainer *t = trainee_trainer(g, &o, &c);
        for (int i = 0; i < 3; i++)
            CHECK_OK(flx_trainer_step(t, &(flx_feed){"x", x}, 1, &loss[k], &err), &err);
        memory[k] = flx_exec_memory(flx_trainer_exec(t));
        last[k] = trainee_element(t, "w", 5);
        flx_trainer_free(t);
    }
    CHECK_MSG(2 * memory[1] <= memory[0], "%zu and %zu bytes", memory[0], memory[1]);
    CHECK(loss[0] == loss[1] && last[0] == last[1]);
    flx_tensor_release(x);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* The norms of the parts, of all together, and of none. */
TEST(training_keeps_the_norm_of_each_gradient)
{
    static const char text[] = "graph f(x: %s[2], param a.w: %s[2], param a.b: %s[], param c: %s[]) {\n"
                               "  return add(add(reduce_sum(mul(x, a.w)), mul(5, a.b)), mul(2, c))\n"
                               "}\n";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = NULL;
    char full[300];
    snprintf(full, sizeof full, text, "f32", "f32", "f32", "f32");
    m = flx_parse(ctx, full, strlen(full), NULL, &err);
    CHECK_MADE(m, &err);
    const flx_type pair = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
    flx_tensor *x = flx_tensor_new(ctx, &pair, (const float[]){3, 4}, &err);
    const flx_feed feed = {"x", x};
    for (int clips = 0; clips < 2; clips++) {
        const flx_train_options o = {SIZED, .flags = FLX_TRAIN_NORMS, .clip_norm = clips, .clip_value = clips};
        flx_trainer *t = flx_compile_training(flx_module_main(m), &o, NULL, &err);
        CHECK_MADE(t, &err);
        CHECK(isnan(flx_trainer_norm_of(t, NULL)));
        CHECK_OK(flx_trainer_step(t, &feed, 1, NULL, &err), &err);
        CHECK_NEAR(flx_trainer_norm_of(t, "a.w"), 5, 1e-6);
        CHECK_NEAR(flx_trainer_norm_of(t, "a.*"), sqrt(50), 1e-6);
        CHECK_NEAR(flx_trainer_norm_of(t, "c"), 2, 1e-6);
        CHECK_NEAR(flx_trainer_norm_of(t, NULL), flx_trainer_norm(t), 1e-6);
        CHECK(isnan(flx_trainer_norm_of(t, "b")));
        flx_trainer_free(t);
    }
    flx_trainer *plain = flx_compile_training(flx_module_main(m), NULL, NULL, &err);
    CHECK_OK(flx_trainer_step(plain, &feed, 1, NULL, &err), &err);
    CHECK(isnan(flx_trainer_norm_of(plain, "c")));
    flx_trainer_free(plain);
    flx_tensor_release(x);
    flx_module_free(m);
    flx_context_free(ctx);
}
