/* SPDX-License-Identifier: Apache-2.0 */
/* device_training.c: training on a device with memory of its own (backend/toy). Parameters and state stay there from
   step to step, and everybody who asks for them sees the newest values. */
#include "backend/devices.h"
#include "backend/toy/toy.h"
#include "emit/opencl_here.h"
#include "trainee.h"

#include <fluxion/checkpoint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_trainer *t;
    flx_feed feeds[2];
} session;

static const flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAMW, .rate = 0.05, .seed = 3};

static flx_tensor *batch(flx_context *ctx, int64_t rows, int64_t columns, uint64_t seed)
{
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){rows, columns});
    return trainee_random(ctx, &type, &seed);
}

static void feed(session *s, int64_t rows)
{
    for (int i = 0; i < 2; i++) {
        flx_tensor_release((flx_tensor *)(uintptr_t)s->feeds[i].value);
        s->feeds[i] = (flx_feed){i ? "y" : "x", batch(s->ctx, rows, i ? 4 : 6, 10 + (uint64_t)i)};
    }
}

static session begin(const char *device, flx_context *ctx, flx_params *set)
{
    flx_error err = {0};
    session s = {.ctx = ctx, .g = trainee_graph(ctx, trainee_network, FLX_F32)};
    flx_train_options o = adam;
    flx_compile_options compile = {
        .struct_size = sizeof compile, .flags = FLX_COMPILE_FLUSH, .device = device, .threads = 1};
    o.set = set;
    s.t = flx_compile_training(s.g, &o, &compile, &err);
    CHECK_MADE(s.t, &err);
    feed(&s, 16);
    return s;
}

static void end(session *s)
{
    flx_trainer_free(s->t);
    for (int i = 0; i < 2; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)s->feeds[i].value);
    flx_graph_release(s->g);
}

static double step(session *s)
{
    flx_error err = {0};
    double loss = NAN;
    CHECK_OK(flx_trainer_step(s->t, s->feeds, 2, &loss, &err), &err);
    return loss;
}

static void check_sets(const flx_params *a, const flx_params *b)
{
    CHECK(flx_params_count(a) == flx_params_count(b) && flx_params_count(a) > 0);
    for (size_t i = 0; i < flx_params_count(a); i++) {
        const flx_tensor *x = flx_params_at(a, i), *y = flx_params_at(b, i);
        for (int64_t k = 0; k < flx_tensor_count(x); k++)
            CHECK_MSG(fabs(flx_tensor_get(x, k) - flx_tensor_get(y, k)) < 2e-5, "%s[%lld]: %.9g and %.9g",
                      flx_params_name(a, i), (long long)k, flx_tensor_get(x, k), flx_tensor_get(y, k));
    }
}

/* A step that the device computes alone sends its inputs and receives its results, and nothing else. */
TEST(device_training_copies_nothing_else)
{
    static const char text[] = "graph loss(x: f32[16, 4], param w: f32[16, 4], param b: f32[16, 4]) {\n"
                               "  return reduce_mean(square(add(mul(x, w), b)))\n}\n";
    CHECK(flxi_device_add(&toy_device));
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = trainee_graph(ctx, text, FLX_F32);
    const flx_train_options o = {
        .struct_size = sizeof o, .optimiser = FLX_SGD, .rate = 0.5, .seed = 3, .flags = FLX_TRAIN_UNGUARDED};
    const flx_compile_options compile = {.struct_size = sizeof compile, .device = "toy"};
    flx_trainer *t = flx_compile_training(g, &o, &compile, &err);
    CHECK_MADE(t, &err);
    const flx_feed x = {"x", batch(ctx, 16, 4, 5)};
    for (int i = 0; i < 5; i++) {
        toy_counts before = toy_count();
        CHECK_OK(flx_trainer_step(t, &x, 1, NULL, &err), &err);
        toy_counts after = toy_count();
        CHECK_MSG(i == 0 || (after.sent - before.sent == 1 && after.received - before.received == 1),
                  "step %d: %d sent, %d received", i, (int)(after.sent - before.sent),
                  (int)(after.received - before.received));
    }
    flx_trainer_free(t);
    flx_tensor_release((flx_tensor *)(uintptr_t)x.value);
    flx_graph_release(g);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}

/* Losses and values are those of the host. */
TEST(device_training_keeps_parameters_there)
{
    CHECK(flxi_device_add(&toy_device));
    flx_context *ctx = flx_context_new(NULL);
    session here = begin("cpu", ctx, NULL), there = begin("toy", ctx, NULL);
    flx_params *set = flx_trainer_params(there.t);
    for (int i = 0; i < 6; i++) {
        double a = step(&here), b = step(&there);
        CHECK_MSG(fabs(a - b) < 1e-5, "step %d: %.9g and %.9g", i, a, b);
    }
    check_sets(flx_trainer_params(here.t), set);
    check_sets(flx_trainer_state(here.t), flx_trainer_state(there.t));
    CHECK_NEAR(step(&here), step(&there), 1e-5); /* looking changes nothing */
    end(&here);
    flx_params_retain(set);
    step(&there);
    flx_tensor *b2 = flx_trainer_param(there.t, "b2", NULL);
    double before = flx_tensor_get(b2, 0);
    flx_tensor_release(b2);
    end(&there);
    CHECK_NEAR(flx_tensor_get(flx_params_find(set, "b2"), 0), before,
               0); /* the set has them when the trainer is gone */
    flx_params_release(set);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}

/* The same on a device that compiles kernels. */
TEST(device_training_on_opencl)
{
    if (!opencl_here())
        return;
    flx_context *ctx = flx_context_new(NULL);
    session here = begin("cpu", ctx, NULL), there = begin("opencl", ctx, NULL);
    for (int i = 0; i < 4; i++) {
        double a = step(&here), b = step(&there);
        CHECK_MSG(fabs(a - b) < 1e-5, "step %d: %.9g and %.9g", i, a, b);
    }
    check_sets(flx_trainer_params(here.t), flx_trainer_params(there.t));
    end(&here);
    end(&there);
    flx_context_free(ctx);
}

/* What the host writes is what the next step reads. */
TEST(device_training_sees_what_the_host_sets)
{
    CHECK(flxi_device_add(&toy_device));
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    session here = begin("cpu", ctx, NULL), there = begin("toy", ctx, NULL);
    session *both[] = {&here, &there};
    flx_tensor *w = batch(ctx, 8, 4, 77);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++)
            step(both[i]);
        CHECK_OK(flx_trainer_set_param(both[i]->t, "w2", w, &err), &err);
        step(both[i]);
        ((float *)flx_tensor_data(flx_params_find(flx_trainer_params(both[i]->t), "b1")))[2] = 0.5f;
        step(both[i]);
    }
    check_sets(flx_trainer_params(here.t), flx_trainer_params(there.t));
    flx_tensor_release(w);
    end(&here);
    end(&there);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}

/* A step that fails changes nothing there either, and the training continues. */
TEST(device_training_survives_a_step_that_fails)
{
    CHECK(flxi_device_add(&toy_device));
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    session here = begin("cpu", ctx, NULL), there = begin("toy", ctx, NULL);
    session *both[] = {&here, &there};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++)
            step(both[i]);
        float *x = flx_tensor_data((flx_tensor *)(uintptr_t)both[i]->feeds[0].value), first = x[0];
        x[0] = NAN;
        CHECK_CODE(flx_trainer_step(both[i]->t, both[i]->feeds, 2, NULL, &err), FLX_E_NUMERIC, &err);
        x[0] = first;
        step(both[i]);
    }
    check_sets(flx_trainer_params(here.t), flx_trainer_params(there.t));
    check_sets(flx_trainer_state(here.t), flx_trainer_state(there.t));
    end(&here);
    end(&there);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}

/* Each number of examples has memory of its own there; parameters follow. */
TEST(device_training_follows_other_extents)
{
    CHECK(flxi_device_add(&toy_device));
    flx_context *ctx = flx_context_new(NULL);
    session here = begin("cpu", ctx, NULL), there = begin("toy", ctx, NULL);
    static const int64_t rows[] = {16, 16, 5, 16, 5, 5, 16, 3, 16};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        feed(&here, rows[i]);
        feed(&there, rows[i]);
        double a = step(&here), b = step(&there);
        CHECK_MSG(fabs(a - b) < 1e-5, "step %zu: %.9g and %.9g", i, a, b);
    }
    check_sets(flx_trainer_params(here.t), flx_trainer_params(there.t));
    end(&here);
    end(&there);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}

/* Two trainers of one set take turns, one of them on the host; an executable with the same set sees what they do. */
TEST(device_training_shares_a_set)
{
    CHECK(flxi_device_add(&toy_device));
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_params *alone = flx_params_new(ctx, &err), *shared = flx_params_new(ctx, &err);
    session a = begin("cpu", ctx, alone), b = begin("cpu", ctx, alone);
    session c = begin("toy", ctx, shared), d = begin("cpu", ctx, shared);
    flx_exec *e = flx_compile(c.g, NULL, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_params_bind(shared, e, &err), &err);
    for (int i = 0; i < 4; i++) {
        flx_tensor *out[2] = {0};
        step(&a);
        step(&c);
        CHECK_NEAR(step(&b), step(&d), 1e-5);
        step(&c);
        double next = (step(&a), step(&b));
        CHECK_OK(flx_exec_run(e, NULL, c.feeds, 2, out, &err), &err);
        CHECK_NEAR(flx_tensor_get(out[0], 0), next, 1e-5);
        step(&d);
        flx_tensor_release(out[0]);
        flx_tensor_release(out[1]);
    }
    check_sets(alone, shared);
    flx_exec_free(e);
    session *all[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++)
        end(all[i]);
    flx_params_release(alone);
    flx_params_release(shared);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}

TEST(device_training_resumes)
{
    CHECK(flxi_device_add(&toy_device));
    flx_error err = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/toy.checkpoint", test_temp_dir());
    flx_context *ctx = flx_context_new(NULL);
    session first = begin("toy", ctx, NULL);
    for (int i = 0; i < 4; i++)
        step(&first);
    CHECK_OK(flx_trainer_save(first.t, NULL, path, &err), &err);
    session again = begin("toy", ctx, NULL);
    step(&again);
    CHECK_OK(flx_trainer_load(again.t, NULL, path, &err), &err);
    for (int i = 0; i < 3; i++)
        CHECK(step(&first) == step(&again));
    check_sets(flx_trainer_params(first.t), flx_trainer_params(again.t));
    end(&first);
    end(&again);
    flx_context_free(ctx);
    flxi_device_remove(&toy_device);
}
