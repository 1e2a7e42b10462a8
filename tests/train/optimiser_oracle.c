/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser_oracle.c: fifty steps of each optimiser against those of other programs (tests/oracle/optimisers.py), and
   what holds for every optimiser: bits do not depend on threads, training continues from its state with the same bits,
   and a step allocates nothing, changes nothing when it fails, and is the same on the reference evaluator. */
#include "fault.h"
#include "trainee.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"w1", "b1", "w2", "b2"};
enum { PARAMS = 4, STEPS = 50 };

/* Little time for the C compiler, and none. */
static const flx_compile_options compiled = {.optimisation = 1}, interpreted = {.flags = FLX_COMPILE_INTERPRET};

typedef struct {
    const char *name; /* in the fixture */
    flx_train_options o;
    flx_schedule_options schedule; /* of kind CONSTANT: none */
} setting;

static const flx_train_group no_vectors[] = {{.pattern = "b*", .flags = FLX_GROUP_NO_DECAY}};

#define SCHEDULE(...)                                            \
    {                                                            \
        .struct_size = sizeof(flx_schedule_options), __VA_ARGS__ \
    }
#define SIZED .struct_size = sizeof(flx_train_options)

static const setting settings[] = {
    {"sgd", {SIZED, .rate = 0.5}, {0}},
    {"sgd_decay", {SIZED, .rate = 0.5, .weight_decay = 0.05}, {0}},
    {"momentum", {SIZED, .optimiser = FLX_MOMENTUM, .rate = 0.1}, {0}},
    {"nesterov", {SIZED, .optimiser = FLX_MOMENTUM, .flags = FLX_TRAIN_NESTEROV, .rate = 0.1}, {0}},
    {"adam", {SIZED, .optimiser = FLX_ADAM, .rate = 0.02}, {0}},
    {"adamw", {SIZED, .optimiser = FLX_ADAMW, .rate = 0.02, .weight_decay = 0.1}, {0}},
    {"adamw_matrices",
     {SIZED, .optimiser = FLX_ADAMW, .rate = 0.02, .weight_decay = 0.1, .groups = no_vectors, .num_groups = 1},
     {0}},
    {"nadam", {SIZED, .optimiser = FLX_NADAM, .rate = 0.02}, {0}},
    {"adagrad", {SIZED, .optimiser = FLX_ADAGRAD, .rate = 0.05}, {0}},
    {"rmsprop", {SIZED, .optimiser = FLX_RMSPROP, .rate = 0.01}, {0}},
    {"lion", {SIZED, .optimiser = FLX_LION, .rate = 0.003, .weight_decay = 0.1}, {0}},
    {"adafactor", {SIZED, .optimiser = FLX_ADAFACTOR, .rate = 0.05, .weight_decay = 0.02}, {0}},
    {"lamb", {SIZED, .optimiser = FLX_LAMB, .rate = 0.02, .weight_decay = 0.05}, {0}},
    {"lamb_optax", {SIZED, .optimiser = FLX_LAMB, .rate = 0.02, .weight_decay = 0.05}, {0}},
    {"muon", {SIZED, .optimiser = FLX_MUON, .rate = 0.02}, {0}},
    {"clip_norm", {SIZED, .rate = 0.5, .clip_norm = 0.05}, {0}},
    {"clip_value", {SIZED, .rate = 0.5, .clip_value = 0.01}, {0}},
    {"cosine",
     {SIZED, .optimiser = FLX_ADAM, .rate = 0.02},
     SCHEDULE(.kind = FLX_SCHEDULE_COSINE, .steps = 40, .final = 0.1)},
    {"linear",
     {SIZED, .optimiser = FLX_ADAM, .rate = 0.02},
     SCHEDULE(.kind = FLX_SCHEDULE_LINEAR, .steps = 40, .final = 0.1)},
    {"staircase",
     {SIZED, .optimiser = FLX_ADAM, .rate = 0.02},
     SCHEDULE(.kind = FLX_SCHEDULE_STEP, .steps = 10, .factor = 0.5)},
    {"exponential",
     {SIZED, .optimiser = FLX_ADAM, .rate = 0.02},
     SCHEDULE(.kind = FLX_SCHEDULE_EXPONENTIAL, .steps = 10, .factor = 0.5)},
};

enum { NUM_SETTINGS = sizeof settings / sizeof *settings };

/* Whether this is the first setting of its optimiser: tests of what holds for each need no other. */
static bool is_first(int i)
{
    for (int k = 0; k < i; k++)
        if (settings[k].o.optimiser == settings[i].o.optimiser)
            return false;
    return true;
}

/* ---- Against other programs ---- */

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_params *initial;
    flx_tensor *x, *y;
    char path[512];
} oracle;

static flx_tensor *stored(const oracle *q, const char *key)
{
    flx_error err = {0};
    flx_tensor *t = flx_npz_read(q->ctx, q->path, key, &err);
    CHECK_MADE(t, &err);
    return t;
}

static void begin(oracle *q)
{
    flx_error err = {0};
    *q = (oracle){.ctx = flx_context_new(NULL)};
    snprintf(q->path, sizeof q->path, "%s/tests/oracle/fixtures/train/optimisers.npz", FLX_SOURCE_DIR);
    q->g = trainee_graph(q->ctx, trainee_network, FLX_F64);
    q->initial = flx_params_new(q->ctx, &err);
    CHECK_MADE(q->initial, &err);
    for (int i = 0; i < PARAMS; i++) {
        flx_tensor *p = stored(q, names[i]);
        CHECK_OK(flx_params_add(q->initial, names[i], p, &err), &err);
        flx_tensor_release(p);
    }
    q->x = stored(q, "x");
    q->y = stored(q, "y");
}

static void end(oracle *q)
{
    flx_tensor_release(q->x);
    flx_tensor_release(q->y);
    flx_params_release(q->initial);
    flx_graph_release(q->g);
    flx_context_free(q->ctx);
}

/* A trainer that begins with the parameters of the fixture. */
static flx_trainer *trainer_for(const oracle *q, const setting *s, const flx_compile_options *c)
{
    flx_error err = {0};
    flx_train_options o = s->o;
    flx_graph *schedule = s->schedule.kind ? flx_schedule_graph(q->ctx, &s->schedule, &err) : NULL;
    o.schedule = schedule;
    flx_trainer *t = flx_compile_training(q->g, &o, c, &err);
    CHECK_MADE(t, &err);
    flx_graph_release(schedule);
    for (int i = 0; i < PARAMS; i++)
        CHECK_OK(flx_trainer_set_param(t, names[i], flx_params_find(q->initial, names[i]), &err), &err);
    return t;
}

static void take_steps(const oracle *q, flx_trainer *t, int count)
{
    const flx_feed feeds[] = {{"x", q->x}, {"y", q->y}};
    flx_error err = {0};
    for (int k = 0; k < count; k++)
        CHECK_OK(flx_trainer_step(t, feeds, 2, NULL, &err), &err);
}

static void check_params(const oracle *q, const char *name, flx_trainer *t, double slack)
{
    for (int i = 0; i < PARAMS; i++) {
        char key[60];
        snprintf(key, sizeof key, "%s.%s", name, names[i]);
        flx_tensor *want = stored(q, key);
        const flx_tensor *got = flx_params_find(flx_trainer_params(t), names[i]);
        CHECK(flx_tensor_count(got) == flx_tensor_count(want));
        for (int64_t k = 0; k < flx_tensor_count(got); k++) {
            double w = flx_tensor_get(want, k);
            EXPECT_MSG(fabs(flx_tensor_get(got, k) - w) <= slack * (1 + fabs(w)), "%s[%d]: %.17g instead of %.17g", key,
                       (int)k, flx_tensor_get(got, k), w);
        }
        flx_tensor_release(want);
        test_count_case();
    }
}

TEST(training_optimisers_agree_with_other_programs)
{
    oracle q;
    begin(&q);
    for (int i = 0; i < NUM_SETTINGS; i++) {
        test_fail_context("%s", settings[i].name);
        flx_trainer *t = trainer_for(&q, &settings[i], &compiled);
        take_steps(&q, t, STEPS);
        check_params(&q, settings[i].name, t, 1e-10);
        flx_trainer_free(t);
    }
    end(&q);
}

/* Two halves of the batch, accumulated, are the batch. */
TEST(training_accumulates_to_the_step_of_the_whole_batch)
{
    oracle q;
    flx_error err = {0};
    begin(&q);
    flx_type x = flx_type_make(FLX_F64, 2, (flx_dim[]){8, 6}), y = flx_type_make(FLX_F64, 2, (flx_dim[]){8, 4});
    const double *xs = flx_tensor_const_data(q.x), *ys = flx_tensor_const_data(q.y);
    flx_tensor *parts[] = {flx_tensor_new(q.ctx, &x, xs, &err), flx_tensor_new(q.ctx, &x, xs + 48, &err),
                           flx_tensor_new(q.ctx, &y, ys, &err), flx_tensor_new(q.ctx, &y, ys + 32, &err)};
    static const char *const same[] = {"clip_norm", "muon", "cosine"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        int at = 0;
        while (strcmp(settings[at].name, same[i]) != 0)
            at++;
        setting s = settings[at];
        s.o.accumulate = 2;
        test_fail_context("%s", s.name);
        flx_trainer *t = trainer_for(&q, &s, &compiled);
        for (int k = 0; k < 2 * STEPS; k++) {
            const flx_feed feeds[] = {{"x", parts[k % 2]}, {"y", parts[2 + k % 2]}};
            flx_tensor *before = flx_trainer_param(t, "w1", &err);
            CHECK_OK(flx_trainer_step(t, feeds, 2, NULL, &err), &err);
            const flx_tensor *after = flx_params_find(flx_trainer_params(t), "w1");
            CHECK((memcmp(flx_tensor_const_data(before), flx_tensor_const_data(after), 48 * 8) != 0) == (k % 2 == 1));
            flx_tensor_release(before);
        }
        check_params(&q, s.name, t, 1e-10);
        flx_trainer_free(t);
    }
    for (int k = 0; k < 4; k++)
        flx_tensor_release(parts[k]);
    end(&q);
}

/* A power of two as a scale changes nothing but rounding, in f64 nothing to speak of. */
TEST(training_with_scaled_losses_agrees_with_other_programs)
{
    oracle q;
    begin(&q);
    for (int i = 0; i < NUM_SETTINGS; i++) {
        if (!is_first(i))
            continue;
        setting s = settings[i];
        s.o.flags |= FLX_TRAIN_LOSS_SCALE;
        s.o.scale_interval = 7;
        test_fail_context("%s", s.name);
        flx_trainer *t = trainer_for(&q, &s, &interpreted);
        take_steps(&q, t, STEPS);
        check_params(&q, s.name, t, 1e-10);
        CHECK_NEAR(flx_tensor_get(flx_params_find(flx_trainer_state(t), "state_loss_scale"), 0), 0x1p23, 0);
        flx_trainer_free(t);
    }
    end(&q);
}

/* Recomputed regions give the same gradients. */
TEST(training_with_recomputed_regions_agrees_with_other_programs)
{
    oracle q;
    begin(&q);
    for (int regions = 1; regions <= 5; regions++) {
        setting s = settings[4];
        s.o.recompute = regions;
        flx_trainer *t = trainer_for(&q, &s, &compiled);
        take_steps(&q, t, STEPS);
        check_params(&q, s.name, t, 1e-10);
        flx_trainer_free(t);
    }
    end(&q);
}

/* ---- What holds for each ---- */

static bool same_sets(const flx_params *a, const flx_params *b)
{
    bool same = flx_params_count(a) == flx_params_count(b);
    for (size_t i = 0; same && i < flx_params_count(a); i++) {
        const flx_tensor *x = flx_params_at(a, i), *y = flx_params_at(b, i);
        same = strcmp(flx_params_name(a, i), flx_params_name(b, i)) == 0 &&
               memcmp(flx_tensor_const_data(x), flx_tensor_const_data(y), flx_tensor_nbytes(x)) == 0;
    }
    return same;
}

static bool same_trainers(const flx_trainer *a, const flx_trainer *b)
{
    return same_sets(flx_trainer_params(a), flx_trainer_params(b)) &&
           same_sets(flx_trainer_state(a), flx_trainer_state(b));
}

static void copy_set(const flx_params *from, flx_params *to)
{
    flx_error err = {0};
    for (size_t i = 0; i < flx_params_count(from); i++)
        CHECK_OK(flx_params_set(to, flx_params_name(from, i), flx_params_at(from, i), &err), &err);
}

/* All features at once: sums, averages, the scale of the loss and a schedule are state too. */
static setting everything(int i)
{
    setting s = settings[i];
    s.o.accumulate = 3;
    s.o.ema = 0.9;
    s.o.flags |= FLX_TRAIN_LOSS_SCALE;
    s.o.scale_interval = 4;
    s.schedule = (flx_schedule_options)SCHEDULE(.kind = FLX_SCHEDULE_COSINE, .steps = 20, .warmup = 2);
    return s;
}

TEST(training_optimisers_continue_with_the_same_bits)
{
    oracle q;
    begin(&q);
    for (int i = 0; i < NUM_SETTINGS; i++) {
        if (!is_first(i))
            continue;
        setting s = everything(i);
        test_fail_context("%s", s.name);
        flx_trainer *a = trainer_for(&q, &s, &(flx_compile_options){.threads = 1, .optimisation = 1});
        flx_trainer *b = trainer_for(&q, &s, &(flx_compile_options){.threads = 2, .optimisation = 1});
        take_steps(&q, a, 7);
        copy_set(flx_trainer_params(a), flx_trainer_params(b));
        copy_set(flx_trainer_state(a), flx_trainer_state(b));
        take_steps(&q, a, 8);
        take_steps(&q, b, 8);
        CHECK(same_trainers(a, b));
        flx_trainer_free(a);
        flx_trainer_free(b);
        test_count_case();
    }
    end(&q);
}

TEST(training_optimisers_allocate_nothing_and_fail_without_a_trace)
{
    fault f = {0};
    oracle q;
    begin(&q);
    flx_context *plain = q.ctx;
    flx_graph *g = q.g;
    q.ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    q.g = trainee_graph(q.ctx, trainee_network, FLX_F64);
    const flx_feed feeds[] = {{"x", q.x}, {"y", q.y}};
    flx_error err = {0};
    double *y = flx_tensor_data(q.y), good = y[5];
    for (int i = 0; i < NUM_SETTINGS; i++) {
        if (!is_first(i))
            continue;
        setting s = everything(i);
        s.o.flags &= ~(uint32_t)FLX_TRAIN_LOSS_SCALE; /* with which a bad step does not fail */
        test_fail_context("%s", s.name);
        flx_trainer *t = trainer_for(&q, &s, &compiled), *kept = trainer_for(&q, &s, &compiled);
        take_steps(&q, t, 4);
        size_t calls = f.calls;
        take_steps(&q, t, 4);
        CHECK_EQ_U64(f.calls, calls);
        copy_set(flx_trainer_params(t), flx_trainer_params(kept));
        copy_set(flx_trainer_state(t), flx_trainer_state(kept));
        y[5] = NAN;
        for (int k = 0; k < 4; k++) { /* accumulating, and with an update */
            CHECK_CODE(flx_trainer_step(t, feeds, 2, NULL, &err), FLX_E_NUMERIC, &err);
            CHECK(same_trainers(t, kept));
            y[5] = good;
            take_steps(&q, t, 1);
            take_steps(&q, kept, 1);
            CHECK(same_trainers(t, kept));
            y[5] = NAN;
        }
        y[5] = good;
        flx_trainer_free(t);
        flx_trainer_free(kept);
        test_count_case();
    }
    flx_graph_release(q.g);
    flx_context_free(q.ctx);
    CHECK(fault_is_clean(&f));
    q.ctx = plain;
    q.g = g;
    end(&q);
}

/* ---- The graph of the step ---- */

/* Runs the training graph on the reference evaluator: outputs new_X become X. */
static void reference_steps(const oracle *q, const flx_graph *step, flx_params *values, int count)
{
    flx_error err = {0};
    for (int k = 0; k < count; k++) {
        flx_feed feeds[64];
        flx_tensor *out[64];
        size_t n = flx_params_feeds(values, step, feeds, 60);
        CHECK(n < 60 && flx_graph_output_count(step) <= 64);
        feeds[n++] = (flx_feed){"x", q->x};
        feeds[n++] = (flx_feed){"y", q->y};
        CHECK_OK(flx_run(step, &(flx_run_options){.device = "ref"}, feeds, n, out, &err), &err);
        for (size_t i = 0; i < flx_graph_output_count(step); i++) {
            const char *name = flx_graph_output_name(step, i);
            if (strncmp(name, "new_", 4) == 0)
                CHECK_OK(flx_params_set(values, name + 4, out[i], &err), &err);
            flx_tensor_release(out[i]);
        }
    }
}

TEST(training_graphs_of_all_optimisers_are_the_step)
{
    oracle q;
    flx_error err = {0};
    begin(&q);
    for (int i = 0; i < NUM_SETTINGS; i++) {
        if (!is_first(i))
            continue;
        setting s = everything(i);
        test_fail_context("%s", s.name);
        flx_graph *schedule = flx_schedule_graph(q.ctx, &s.schedule, &err);
        CHECK_MADE(schedule, &err);
        flx_trainer *t = trainer_for(&q, &s, &interpreted);
        s.o.schedule = schedule;
        flx_graph *step = flx_training_graph(q.g, &s.o, &err);
        CHECK_MADE(step, &err);
        CHECK_OK(flx_graph_verify(step, &err), &err);
        flx_params *values = flx_params_new(q.ctx, &err);
        for (size_t k = 0; k < flx_params_count(flx_trainer_state(t)); k++)
            CHECK_OK(flx_params_add(values, flx_params_name(flx_trainer_state(t), k),
                                    flx_params_at(flx_trainer_state(t), k), &err),
                     &err);
        for (int k = 0; k < PARAMS; k++)
            CHECK_OK(flx_params_add(values, names[k], flx_params_find(q.initial, names[k]), &err), &err);
        take_steps(&q, t, 7);
        reference_steps(&q, step, values, 7);
        for (size_t k = 0; k < flx_params_count(values); k++) {
            const char *name = flx_params_name(values, k);
            const flx_tensor *want = flx_params_at(values, k);
            flx_tensor *got = flx_trainer_param(t, name, &err);
            CHECK_MADE(got, &err);
            for (int64_t j = 0; j < flx_tensor_count(got); j++)
                CHECK_MSG(fabs(flx_tensor_get(got, j) - flx_tensor_get(want, j)) <= 1e-10, "%s[%d]: %.17g, %.17g", name,
                          (int)j, flx_tensor_get(got, j), flx_tensor_get(want, j));
            flx_tensor_release(got);
        }
        flx_params_release(values);
        flx_trainer_free(t);
        flx_graph_release(step);
        flx_graph_release(schedule);
        test_count_case();
    }
    end(&q);
}
