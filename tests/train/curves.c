/* SPDX-License-Identifier: Apache-2.0 */
/* curves.c: the losses of fifty training steps against PyTorch's (tests/oracle/curves.py): four models built with
   fluxion/nn.h begin with the same parameters, see the same batches, and must have the same loss in every step. A wrong
   gradient, update, running statistic or default would show after a few of them. */
#include "curve_bits.h"
#include "effort.h"
#include "test.h"

#include <fluxion/checkpoint.h>
#include <fluxion/fluxion.h>
#include <fluxion/nn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 50, BATCHES = 4, MOST_INPUTS = 2 };

/* ---- Models ---- */

static flx_val input(flx_graph *g, const char *name, flx_dtype dtype, flx_ints dims)
{
    flx_type type = flx_type_make(dtype, (int)dims.n, dims.v);
    return flx_input(g, name, &type);
}

static flx_val build_mlp(flx_graph *g, flx_dtype dtype)
{
    flx_val x = input(g, "x", dtype, FLX_INTS(16, 6)), label = input(g, "label", FLX_I32, FLX_INTS(16));
    static const int64_t units[] = {16, 12, 4};
    return flx_nn_cross_entropy(g, flx_nn_mlp(g, "net", x, units, 3, "relu"), label, 0);
}

static flx_val build_conv(flx_graph *g, flx_dtype dtype)
{
    const flx_nn_conv_options conv = {.struct_size = sizeof conv, .no_bias = 1};
    const flx_nn_batch_norm_options norm = {.struct_size = sizeof norm, .is_training = 1};
    flx_val x = input(g, "x", dtype, FLX_INTS(8, 1, 8, 8)), label = input(g, "label", FLX_I32, FLX_INTS(8));
    x = flx_nn_batch_norm(g, "norm1", flx_nn_conv(g, "conv1", x, 4, &conv), &norm);
    x = flx_nn_max_pool(g, flx_nn_activate(g, x, "relu"), NULL);
    x = flx_nn_batch_norm(g, "norm2", flx_nn_conv(g, "conv2", x, 8, &conv), &norm);
    x = flx_nn_global_avg_pool(g, flx_nn_activate(g, x, "relu"));
    return flx_nn_cross_entropy(g, flx_nn_linear(g, "head", x, 3, NULL), label, 0);
}

static flx_val build_lstm(flx_graph *g, flx_dtype dtype)
{
    flx_val x = input(g, "x", dtype, FLX_INTS(6, 7, 3)), target = input(g, "target", dtype, FLX_INTS(6, 7, 1));
    x = flx_nn_lstm(g, "lstm", x, 8, NULL, NULL);
    return flx_nn_mse(g, flx_nn_linear(g, "head", x, 1, NULL), target);
}

static flx_val build_gpt(flx_graph *g, flx_dtype dtype)
{
    const flx_nn_attention_options attention = {.struct_size = sizeof attention, .heads = 2, .mask_kind = "causal"};
    const flx_nn_block_options layer = {.struct_size = sizeof layer, .attention = &attention, .hidden = 32};
    const flx_type places = flx_type_make(dtype, 2, (flx_dim[]){10, 16});
    flx_val words = input(g, "words", FLX_I32, FLX_INTS(4, 10)), next = input(g, "next", FLX_I32, FLX_INTS(4, 10));
    flx_val x = flx_nn_embedding(g, "words", words, 13, 16, dtype);
    x = flx_add(g, x, flx_param(g, "places.table", &places));
    x = flx_nn_transformer_block(g, "layer0", x, &layer);
    x = flx_nn_transformer_block(g, "layer1", x, &layer);
    x = flx_nn_linear(g, "head", flx_nn_layer_norm(g, "norm", x, 0), 13, NULL);
    return flx_nn_cross_entropy(g, x, next, 0);
}

typedef struct {
    const char *name; /* in the fixture */
    flx_val (*build)(flx_graph *g, flx_dtype dtype);
    double rate; /* times the rates of the settings */
} model;

static const model mlp = {"mlp", build_mlp, 1}, conv = {"conv", build_conv, 0.5}, lstm = {"lstm", build_lstm, 1},
                   gpt = {"gpt", build_gpt, 0.25};

/* ---- Settings ---- */

typedef struct {
    const char *name; /* in the fixture */
    flx_train_options o;
    double f64;       /* how far a loss may be from PyTorch's at least, relative to it; 0: 1e-12 */
    bool is_variant;  /* of another row by an op or two: interpreted only, to save time */
    const char *like; /* another curve that it is compared with, and how far it may be from that one */
    double apart;
    flx_schedule_options schedule; /* of the rate; of kind CONSTANT: none */
} setting;

#define SIZED .struct_size = sizeof(flx_train_options)
#define SCHEDULED(name_, ...)                                                                      \
    {                                                                                              \
        .name = (name_), .o = {SIZED, .optimiser = FLX_ADAM, .rate = 0.02},                        \
        .schedule = {.struct_size = sizeof(flx_schedule_options), __VA_ARGS__}, .is_variant = true \
    }

/* Two settings have another definition in PyTorch (docs/training.md): Muon divides by max(norm, 1e-7) instead of
   norm + 1e-7, and computes in bf16 (`muon_bf16`; `muon` is the same without that); clipping divides by norm + 1e-6.
   PyTorch has no Lion and no LAMB: theirs are the formulas of the papers. */
static const setting optimisers[] = {
    {.name = "sgd", .o = {SIZED, .rate = 0.5}},
    {.name = "momentum", .o = {SIZED, .optimiser = FLX_MOMENTUM, .rate = 0.1}},
    {.name = "adam", .o = {SIZED, .optimiser = FLX_ADAM, .rate = 0.02}},
    {.name = "adamw", .o = {SIZED, .optimiser = FLX_ADAMW, .rate = 0.02, .weight_decay = 0.1}},
    {.name = "nadam", .o = {SIZED, .optimiser = FLX_NADAM, .rate = 0.02}},
    {.name = "adagrad", .o = {SIZED, .optimiser = FLX_ADAGRAD, .rate = 0.05}},
    {.name = "rmsprop", .o = {SIZED, .optimiser = FLX_RMSPROP, .rate = 0.01}},
    {.name = "lion", .o = {SIZED, .optimiser = FLX_LION, .rate = 0.004, .weight_decay = 0.1}},
    {.name = "adafactor", .o = {SIZED, .optimiser = FLX_ADAFACTOR, .rate = 0.1, .weight_decay = 0.02}},
    {.name = "lamb", .o = {SIZED, .optimiser = FLX_LAMB, .rate = 0.02, .weight_decay = 0.1}},
    {.name = "muon", .o = {SIZED, .optimiser = FLX_MUON, .rate = 0.02}, .f64 = 1e-5},
    {.name = "nesterov",
     .o = {SIZED, .optimiser = FLX_MOMENTUM, .flags = FLX_TRAIN_NESTEROV, .rate = 0.1},
     .is_variant = true},
};
static const setting variants[] = {
    {.name = "adam_decay", .o = {SIZED, .optimiser = FLX_ADAM, .rate = 0.02, .weight_decay = 0.01}, .is_variant = true},
    {.name = "muon",
     .o = {SIZED, .optimiser = FLX_MUON, .rate = 0.02},
     .f64 = 3e-6,
     .is_variant = true,
     .like = "muon_bf16",
     .apart = 0.02},
    {.name = "clip_norm", .o = {SIZED, .rate = 1, .clip_norm = 0.1}, .f64 = 5e-6, .is_variant = true},
};
/* Schedules of the rate: against those of torch.optim.lr_scheduler, and a function for the last one. */
static const setting schedule_settings[] = {
    SCHEDULED("linear", .kind = FLX_SCHEDULE_LINEAR, .steps = 40, .final = 0.1),
    SCHEDULED("cosine_warmup", .kind = FLX_SCHEDULE_COSINE, .warmup = 8, .steps = 42, .final = 0.1),
    SCHEDULED("staircase", .kind = FLX_SCHEDULE_STEP, .steps = 15, .factor = 0.5),
    SCHEDULED("exponential", .kind = FLX_SCHEDULE_EXPONENTIAL, .steps = 15, .factor = 0.5),
    SCHEDULED("one_cycle", .kind = FLX_SCHEDULE_ONE_CYCLE, .steps = STEPS),
    SCHEDULED("inverse_sqrt", .kind = FLX_SCHEDULE_INVERSE_SQRT, .warmup = 10),
};

/* ---- A training from the fixture ---- */

typedef struct {
    flx_context *ctx;
    const model *m;
    flx_dtype dtype;
    flx_graph *g;
    flx_tensor *values[BATCHES][MOST_INPUTS];
    flx_feed feeds[BATCHES][MOST_INPUTS];
    size_t num_inputs;
} course;

static flx_tensor *stored(const course *c, const char *key)
{
    char path[700];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/tests/oracle/fixtures/train/curves.npz", test_source_dir());
    flx_tensor *t = flx_npz_read(c->ctx, path, key, &err);
    CHECK_MADE(t, &err);
    return t;
}

/* `name` of the model, in the dtype of the course if it has numbers. */
static flx_tensor *stored_leaf(const course *c, const char *name)
{
    char key[120];
    flx_error err = {0};
    snprintf(key, sizeof key, "%s.%s", c->m->name, name);
    flx_tensor *t = stored(c, key);
    if (flx_tensor_type(t)->dtype != FLX_F32)
        return t;
    flx_tensor *wide = flx_tensor_cast(t, c->dtype, &err);
    CHECK_MADE(wide, &err);
    flx_tensor_release(t);
    return wide;
}

static void cut_batches(course *c, const char *name, const flx_type *type)
{
    flx_error err = {0};
    flx_tensor *all = stored_leaf(c, name);
    size_t i = c->num_inputs++, size = flx_tensor_nbytes(all) / BATCHES;
    CHECK(i < MOST_INPUTS);
    for (int k = 0; k < BATCHES; k++) {
        const char *bytes = (const char *)flx_tensor_const_data(all) + (size_t)k * size;
        c->values[k][i] = flx_tensor_new(c->ctx, type, bytes, &err);
        CHECK_MADE(c->values[k][i], &err);
        CHECK(flx_tensor_nbytes(c->values[k][i]) == size);
        c->feeds[k][i] = (flx_feed){name, c->values[k][i]};
    }
    flx_tensor_release(all);
}

static course begin(const model *m, flx_dtype dtype)
{
    flx_error err = {0};
    setenv("FLX_BLAS", "off", 1); /* whose bits are its own */
    course c = {.ctx = flx_context_new(NULL), .m = m, .dtype = dtype};
    c.g = flx_graph_new(c.ctx, m->name);
    flx_output(c.g, m->build(c.g, dtype), "loss");
    CHECK_OK(flx_graph_verify(c.g, &err), &err);
    for (size_t i = 0; i < flx_graph_input_count(c.g); i++) {
        flx_val leaf = flx_graph_input(c.g, i);
        if (!flx_graph_input_is_param(c.g, i))
            cut_batches(&c, flx_val_name(c.g, leaf), flx_val_type(c.g, leaf));
    }
    return c;
}

static void end(course *c)
{
    for (int k = 0; k < BATCHES; k++)
        for (size_t i = 0; i < c->num_inputs; i++)
            flx_tensor_release(c->values[k][i]);
    flx_graph_release(c->g);
    flx_context_free(c->ctx);
}

static bool is_statistic(const char *name)
{
    return flx_name_matches("*.mean", name) || flx_name_matches("*.var", name);
}

/* The steps by machine code, with little time for the C compiler; or by the interpreter of kernels. */
static flx_compile_options way(bool is_compiled, int32_t threads)
{
    return (flx_compile_options){.struct_size = sizeof(flx_compile_options),
                                 .flags = is_compiled ? 0 : FLX_COMPILE_INTERPRET,
                                 .threads = threads,
                                 .optimisation = 1};
}

/* Running statistics begin as the layer initialises them. */
static flx_trainer *trainer_for(const course *c, const setting *s, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_train_options options = s->o;
    options.rate *= c->m->rate;
    flx_graph *schedule = s->schedule.kind ? flx_schedule_graph(c->ctx, &s->schedule, &err) : NULL;
    CHECK(schedule || !s->schedule.kind);
    options.schedule = schedule;
    flx_trainer *t = flx_compile_training(c->g, &options, o, &err);
    CHECK_MADE(t, &err);
    flx_graph_release(schedule);
    const flx_params *set = flx_trainer_params(t);
    for (size_t i = 0; i < flx_params_count(set); i++) {
        const char *name = flx_params_name(set, i);
        if (is_statistic(name))
            continue;
        flx_tensor *value = stored_leaf(c, name);
        CHECK_OK(flx_trainer_set_param(t, name, value, &err), &err);
        flx_tensor_release(value);
    }
    return t;
}

static double take_step(const course *c, flx_trainer *t, int k)
{
    flx_error err = {0};
    double loss = 0;
    CHECK_OK(flx_trainer_step(t, c->feeds[k % BATCHES], c->num_inputs, &loss, &err), &err);
    return loss;
}

/* ---- Against PyTorch ---- */

static void check_statistics(const course *c, const char *curve, const flx_trainer *t, double slack)
{
    const flx_params *set = flx_trainer_params(t);
    for (size_t i = 0; i < flx_params_count(set); i++) {
        const char *name = flx_params_name(set, i);
        char key[180];
        if (!is_statistic(name))
            continue;
        snprintf(key, sizeof key, "%s.%s", curve, name);
        flx_tensor *want = stored(c, key);
        const flx_tensor *got = flx_params_at(set, i);
        CHECK(flx_tensor_count(got) == flx_tensor_count(want));
        for (int64_t k = 0; k < flx_tensor_count(got); k++) {
            double w = flx_tensor_get(want, k), x = flx_tensor_get(got, k);
            EXPECT_MSG(fabs(x - w) <= slack * fmax(1, fabs(w)), "%s[%d]: %.17g instead of %.17g", key, (int)k, x, w);
        }
        flx_tensor_release(want);
        test_count_case();
    }
}

static void check_losses(const course *c, const char *key, const double *losses, double slack)
{
    double most = 0;
    flx_tensor *want = stored(c, key);
    CHECK(flx_tensor_count(want) == STEPS);
    for (int k = 0; k < STEPS; k++) {
        double expected = flx_tensor_get(want, k);
        EXPECT_MSG(fabs(losses[k] - expected) <= slack * expected, "loss of step %d: %.17g instead of %.17g", k,
                   losses[k], expected);
        most = fmax(most, fabs(losses[k] / expected - 1));
    }
    if (effort(EFFORT_report))
        printf("%s: %.1e\n", key, most);
    flx_tensor_release(want);
    test_count_case();
}

/* How far PyTorch's curve in f32 is from its own in f64, relative to it. */
static double distance_of_dtypes(const course *c, const setting *s)
{
    char narrow[120], wide[120];
    double most = 0;
    snprintf(narrow, sizeof narrow, "%s.%s.f32", c->m->name, s->name);
    snprintf(wide, sizeof wide, "%s.%s.f64", c->m->name, s->name);
    flx_tensor *x = stored(c, narrow), *y = stored(c, wide);
    for (int k = 0; k < STEPS; k++)
        most = fmax(most, fabs(flx_tensor_get(x, k) / flx_tensor_get(y, k) - 1));
    flx_tensor_release(x);
    flx_tensor_release(y);
    return most;
}

/* A training may enlarge differences, such as those of rounding. PyTorch's two curves show by how much: what we add up
   in another order may be ten times as far from the one in f32, and in f64 by the ratio of the precisions less. */
static double slack_of(const course *c, const setting *s)
{
    double rounding = 16 * distance_of_dtypes(c, s);
    return c->dtype == FLX_F64 ? fmax(fmax(1e-12, s->f64), 0x1p-29 * rounding) : fmax(1e-5, rounding);
}

static void check_curve(const course *c, const setting *s, bool is_compiled)
{
    char key[120], like[120];
    double slack = slack_of(c, s), losses[STEPS];
    snprintf(key, sizeof key, "%s.%s.%s", c->m->name, s->name, flx_dtype_name(c->dtype));
    test_fail_context("%s, %s", key, is_compiled ? "compiled" : "interpreted");
    const flx_compile_options o = way(is_compiled, 0);
    flx_trainer *t = trainer_for(c, s, &o);
    for (int k = 0; k < STEPS; k++)
        losses[k] = take_step(c, t, k);
    check_losses(c, key, losses, slack);
    if (is_compiled)
        curve_bits_check(key, losses, STEPS);
    check_statistics(c, key, t, slack);
    if (s->like) {
        snprintf(like, sizeof like, "%s.%s.%s", c->m->name, s->like, flx_dtype_name(c->dtype));
        check_losses(c, like, losses, s->apart);
    }
    flx_trainer_free(t);
}

/* A curve is compiled in one of its dtypes and interpreted in the other one, unless there is much time. */
static void check_curves(const model *m, const setting *settings, size_t count)
{
    for (size_t wide = 0; wide < 2; wide++) {
        course c = begin(m, wide ? FLX_F64 : FLX_F32);
        for (size_t i = 0; i < count; i++)
            check_curve(&c, &settings[i],
                        (!settings[i].is_variant && (i + wide) % 2 == 0) || effort(EFFORT_compiled_all));
        end(&c);
    }
}

#define CHECK_CURVES(m, settings) check_curves(&(m), settings, sizeof(settings) / sizeof *(settings))

TEST(curves_of_an_mlp_agree_with_another_framework)
{
    CHECK_CURVES(mlp, optimisers);
    CHECK_CURVES(mlp, variants);
}

TEST(curves_of_schedules_agree_with_another_framework)
{
    CHECK_CURVES(mlp, schedule_settings);
}

TEST(curves_of_a_convolutional_network_agree_with_another_framework)
{
    CHECK_CURVES(conv, optimisers);
}

TEST(curves_of_an_lstm_agree_with_another_framework)
{
    CHECK_CURVES(lstm, optimisers);
}

TEST(curves_of_a_gpt_agree_with_another_framework)
{
    CHECK_CURVES(gpt, optimisers);
}

/* ---- Stopped and continued ---- */

static void check_same_bits(const flx_params *a, const flx_params *b)
{
    CHECK(flx_params_count(a) == flx_params_count(b)); /* SGD has no state */
    for (size_t i = 0; i < flx_params_count(a); i++) {
        const char *name = flx_params_name(a, i);
        const flx_tensor *x = flx_params_at(a, i), *y = flx_params_find(b, name);
        CHECK_MSG(y && flx_tensor_nbytes(x) == flx_tensor_nbytes(y), "%s", name);
        CHECK_MSG(memcmp(flx_tensor_const_data(x), flx_tensor_const_data(y), flx_tensor_nbytes(x)) == 0, "%s", name);
    }
}

/* Through a file, as when the program ends in between. */
static void hand_over(const flx_trainer *from, flx_trainer *to, flx_context *ctx, const char *name)
{
    char path[700];
    flx_error err = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", test_temp_dir(), name);
    flx_checkpoint *kept = flx_checkpoint_new(ctx, &err);
    CHECK_MADE(kept, &err);
    CHECK_OK(flx_trainer_store(from, NULL, kept, &err), &err);
    CHECK_OK(flx_checkpoint_write(kept, path, &err), &err);
    flx_checkpoint_free(kept);
    kept = flx_checkpoint_read(ctx, path, &err);
    CHECK_MADE(kept, &err);
    CHECK_OK(flx_trainer_restore(to, NULL, kept, &err), &err);
    flx_checkpoint_free(kept);
}

static void check_continued(const model *m, const setting *s, bool is_compiled)
{
    double losses[STEPS];
    test_fail_context("%s.%s, %s", m->name, s->name, is_compiled ? "compiled" : "interpreted");
    course c = begin(m, FLX_F32), again = begin(m, FLX_F32); /* nothing of the first one is left over */
    const flx_compile_options one = way(is_compiled, 1), two = way(is_compiled, 2);
    flx_trainer *whole = trainer_for(&c, s, &one), *rest = trainer_for(&again, s, &two);
    for (int k = 0; k < STEPS; k++) {
        if (k == STEPS / 2)
            hand_over(whole, rest, again.ctx, m->name);
        losses[k] = take_step(&c, whole, k);
    }
    for (int k = STEPS / 2; k < STEPS; k++)
        CHECK_MSG(take_step(&again, rest, k) == losses[k], "loss of step %d", k);
    check_same_bits(flx_trainer_params(whole), flx_trainer_params(rest));
    check_same_bits(flx_trainer_state(whole), flx_trainer_state(rest));
    flx_trainer_free(whole);
    flx_trainer_free(rest);
    end(&c);
    end(&again);
    test_count_case();
}

TEST(curves_continue_with_the_same_bits_from_a_checkpoint)
{
    bool all = effort(EFFORT_compiled_all);
    const setting *adamw = &optimisers[3];
    for (size_t i = 0; i < sizeof optimisers / sizeof *optimisers; i++)
        check_continued(&mlp, &optimisers[i], all);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        check_continued(&mlp, &variants[i], all);
    check_continued(&conv, adamw, true); /* with running statistics */
    check_continued(&lstm, adamw, all);
    check_continued(&gpt, adamw, all);
}
