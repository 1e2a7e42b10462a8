/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_checkpoints.c: a training that is stopped at any step and continued has the same bits as one that was not. */
#include "test.h"

#include <fluxion/checkpoint.h>
#include <fluxion/data.h>
#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char model[] = "graph loss(x: f32[N, 8], next: f32[N, 8], param w: f32[8, 8], param b: f32[8]) {\n"
                            "  return reduce_mean(square(sub(add(matmul(x, w), b), next)))\n}\n";
static const char other[] = "graph loss(x: f32[N, 8], next: f32[N, 8], param w: f32[8, 8], param c: f32[8]) {\n"
                            "  return reduce_mean(square(sub(add(matmul(x, w), c), next)))\n}\n";
static const char wider[] = "graph loss(x: f32[N, 8], next: f32[N, 8], param w: f32[8, 8], param b: f32[1, 8]) {\n"
                            "  return reduce_mean(square(sub(add(matmul(x, w), b), next)))\n}\n";

enum { STEPS = 14 };

typedef struct {
    flx_context *ctx;
    flx_trainer *trainer;
    flx_loader *loader;
} session;

static session begin_with(const char *text, uint64_t seed, int32_t optimiser)
{
    flx_error err = {0};
    session s = {.ctx = flx_context_new(NULL)};
    flx_module *m = flx_parse(s.ctx, text, strlen(text), "model", &err);
    CHECK_MADE(m, &err);
    const flx_train_options o = {.struct_size = sizeof o,
                                 .optimiser = optimiser,
                                 .rate = 0.01,
                                 .clip_norm = 1,
                                 .ema = 0.9,
                                 .accumulate = 2,
                                 .seed = seed};
    const flx_compile_options interpreted = {
        .struct_size = sizeof interpreted, .flags = FLX_COMPILE_INTERPRET, .threads = 1};
    s.trainer = flx_compile_training(flx_module_main(m), &o, &interpreted, &err);
    CHECK_MADE(s.trainer, &err);
    flx_module_free(m);
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){300});
    flx_tensor *series = flx_tensor_new(s.ctx, &type, NULL, &err);
    for (int i = 0; i < 300; i++)
        ((float *)flx_tensor_data(series))[i] = (float)(i * i % 37) / 37 - 0.5f;
    flx_dataset *d = flx_dataset_windows(s.ctx, series, 8, 3, &err);
    CHECK_MADE(d, &err);
    const flx_loader_options l = {
        .struct_size = sizeof l, .flags = FLX_LOADER_SHUFFLE | FLX_LOADER_PREFETCH, .batch = 16, .seed = 4};
    s.loader = flx_loader_new(d, &l, &err);
    CHECK_MADE(s.loader, &err);
    flx_tensor_release(series);
    flx_dataset_free(d);
    return s;
}

static session begin(const char *text, uint64_t seed)
{
    return begin_with(text, seed, FLX_ADAMW);
}

static void end(session *s)
{
    flx_trainer_free(s->trainer);
    flx_loader_free(s->loader);
    flx_context_free(s->ctx);
}

static double step(session *s)
{
    flx_error err = {0};
    const flx_feed *feeds;
    size_t n;
    double loss;
    CHECK_OK(flx_loader_next(s->loader, &feeds, &n, &err), &err);
    CHECK_OK(flx_trainer_step(s->trainer, feeds, n, &loss, &err), &err);
    return loss;
}

static void check_equal_sets(const flx_params *a, const flx_params *b)
{
    CHECK(flx_params_count(a) == flx_params_count(b) && flx_params_count(a) > 0);
    for (size_t i = 0; i < flx_params_count(a); i++) {
        const flx_tensor *x = flx_params_at(a, i), *y = flx_params_find(b, flx_params_name(a, i));
        CHECK(x && y && flx_tensor_nbytes(x) == flx_tensor_nbytes(y));
        CHECK_MSG(memcmp(flx_tensor_const_data(x), flx_tensor_const_data(y), flx_tensor_nbytes(x)) == 0, "%s differs",
                  flx_params_name(a, i));
    }
}

TEST(trainer_checkpoint_continues_with_the_same_bits)
{
    char path[700];
    double losses[STEPS];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/trainer.safetensors", test_temp_dir());
    session whole = begin(model, 1);
    for (int i = 0; i < STEPS; i++)
        losses[i] = step(&whole);
    for (int stop = 0; stop <= STEPS; stop++) { /* between accumulated steps too */
        session first = begin(model, 1), second = begin(model, 2);
        test_fail_context("stopped after %d steps", stop);
        for (int i = 0; i < stop; i++)
            CHECK(step(&first) == losses[i]);
        CHECK_OK(flx_trainer_save(first.trainer, first.loader, path, &err), &err);
        CHECK_OK(flx_trainer_load(second.trainer, second.loader, path, &err), &err);
        for (int i = stop; i < STEPS; i++)
            CHECK(step(&second) == losses[i]);
        check_equal_sets(flx_trainer_params(whole.trainer), flx_trainer_params(second.trainer));
        check_equal_sets(flx_trainer_state(whole.trainer), flx_trainer_state(second.trainer));
        end(&first);
        end(&second);
    }
    end(&whole);
}

/* Momentum and lion have a state `m`, which in a checkpoint of adamw means something else. */
TEST(trainer_checkpoint_of_another_optimiser_changes_nothing)
{
    char path[700], parts[700];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/optimiser.safetensors", test_temp_dir());
    snprintf(parts, sizeof parts, "%s/optimiser.parts", test_temp_dir());
    CHECK(mkdir(parts, 0777) == 0);
    session a = begin(model, 1);
    step(&a);
    CHECK_OK(flx_trainer_save(a.trainer, NULL, path, &err), &err);
    CHECK_OK(flx_trainer_save_parts(a.trainer, NULL, parts, &err), &err);
    static const int32_t others[] = {FLX_MOMENTUM, FLX_LION, FLX_SGD};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        session b = begin_with(model, 2, others[i]), same = begin_with(model, 2, others[i]);
        CHECK_CODE(flx_trainer_load(b.trainer, NULL, path, &err), FLX_E_USAGE, &err);
        CHECK_MSG(strstr(err.message, "adamw") && strstr(err.message, flx_optimiser_name(others[i])), "%s",
                  err.message);
        CHECK_CODE(flx_trainer_load_parts(b.trainer, NULL, parts, &err), FLX_E_USAGE, &err);
        check_equal_sets(flx_trainer_params(b.trainer), flx_trainer_params(same.trainer));
        end(&b);
        end(&same);
    }
    CHECK_OK(flx_trainer_load(a.trainer, NULL, path, &err), &err);
    CHECK_OK(flx_trainer_load_parts(a.trainer, NULL, parts, &err), &err);
    end(&a);
}

TEST(trainer_checkpoint_of_another_model_changes_nothing)
{
    char path[700];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/other.safetensors", test_temp_dir());
    session a = begin(model, 1), b = begin(other, 2), c = begin(wider, 3), same = begin(other, 2);
    step(&a);
    CHECK_OK(flx_trainer_save(a.trainer, NULL, path, &err), &err);
    CHECK_CODE(flx_trainer_load(b.trainer, NULL, path, &err), FLX_E_NAME, &err);
    CHECK_EQ_STR(err.message, "the checkpoint has no tensor named 'c'");
    CHECK_EQ_STR(err.where, path);
    CHECK_CODE(flx_trainer_load(c.trainer, NULL, path, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_trainer_load(a.trainer, a.loader, path, &err), FLX_E_NAME, &err); /* no position */
    CHECK_EQ_STR(err.message, "the checkpoint has no text 'loader.epoch'");
    check_equal_sets(flx_trainer_params(b.trainer), flx_trainer_params(same.trainer));
    CHECK_OK(flx_trainer_load(a.trainer, NULL, path, NULL), NULL);
    CHECK_CODE(flx_trainer_load(a.trainer, NULL, test_missing_path("x"), &err), FLX_E_IO, &err);
    CHECK_CODE(flx_trainer_save(a.trainer, NULL, test_missing_path("x"), &err), FLX_E_IO, &err);
    CHECK_CODE(flx_trainer_save(NULL, NULL, path, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_trainer_load(NULL, NULL, path, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_trainer_store(a.trainer, NULL, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_trainer_restore(a.trainer, NULL, NULL, &err), FLX_E_USAGE, &err);
    end(&a);
    end(&b);
    end(&c);
    end(&same);
}

/* Of a version whose accumulation did not count examples: the checkpoint says too little, and nothing is changed. */
TEST(trainer_checkpoint_without_counted_examples_changes_nothing)
{
    flx_error err = {0};
    session a = begin(model, 1), b = begin(model, 2), same = begin(model, 2);
    step(&a);
    flx_checkpoint *whole = flx_checkpoint_new(a.ctx, &err), *old = flx_checkpoint_new(a.ctx, &err);
    CHECK_OK(flx_trainer_store(a.trainer, NULL, whole, &err), &err);
    for (size_t i = 0; i < flx_checkpoint_tensors(whole); i++) {
        const char *name = flx_checkpoint_name(whole, i);
        if (strcmp(name, "state_examples") != 0)
            CHECK_OK(flx_checkpoint_add(old, name, flx_checkpoint_tensor(whole, name, &err), &err), &err);
    }
    CHECK(flx_checkpoint_tensors(old) + 1 == flx_checkpoint_tensors(whole));
    CHECK_CODE(flx_trainer_restore(b.trainer, NULL, old, &err), FLX_E_NAME, &err);
    CHECK_EQ_STR(err.message, "the checkpoint has no tensor named 'state_examples'");
    CHECK_EQ_STR(err.hint, "it was written with other options of the training, or by another version");
    check_equal_sets(flx_trainer_params(b.trainer), flx_trainer_params(same.trainer));
    check_equal_sets(flx_trainer_state(b.trainer), flx_trainer_state(same.trainer));
    CHECK_OK(flx_trainer_restore(b.trainer, NULL, whole, &err), &err);
    check_equal_sets(flx_trainer_state(b.trainer), flx_trainer_state(a.trainer));
    flx_checkpoint_free(whole);
    flx_checkpoint_free(old);
    end(&a);
    end(&b);
    end(&same);
}
