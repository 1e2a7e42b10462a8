/* SPDX-License-Identifier: Apache-2.0 */
/* training_faults.c: a training step happens, or leaves every parameter and state as it was: with a loss or
   gradients that are not finite, ops that fail, memory that runs out, and steps that are stopped at any point. */
#include "fault.h"
#include "trainee.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* The embedding is an op that fails; `big` makes gradients as large as is wanted, and `shift` the loss alone. */
static const char network[] = "graph net(x: f32[64, 24], i: i32[64], big: f32[], shift: f32[], param e: f32[16, 24], "
                              "param w1: f32[24, 40], param b1: f32[40],\n"
                              "          param w2: f32[40, 24], param w3: f32[24, 20]) {\n"
                              "  h = tanh(add(matmul(add(x, gather(e, i, axis=0)), w1), b1))\n"
                              "  y = matmul(tanh(matmul(h, w2)), w3)\n"
                              "  return add(mul(big, reduce_mean(square(y))), shift)\n}\n";

static const char *const names[] = {"e",          "w1",         "b1",         "w2",         "w3",        "state_e_m",
                                    "state_w1_v", "state_b1_m", "state_w2_m", "state_w3_v", "state_step"};
enum { NAMES = sizeof names / sizeof *names, PARAMS = 5 };

typedef struct {
    fault memory;
    flx_context *ctx;
    flx_graph *g;
    flx_trainer *t;
    flx_tensor *x, *i, *big, *shift, *kept[NAMES];
    flx_error err;
} training;

static flx_tensor *filled(training *w, flx_type type, double scale)
{
    uint64_t seed = 7;
    flx_tensor *x =
        type.dtype == FLX_F32 ? trainee_random(w->ctx, &type, &seed) : flx_tensor_new(w->ctx, &type, NULL, NULL);
    CHECK(x);
    for (int64_t k = 0; type.dtype == FLX_F32 && k < flx_tensor_count(x); k++)
        ((float *)flx_tensor_data(x))[k] *= (float)scale;
    return x;
}

static void set_number(flx_tensor *x, double value)
{
    *(float *)flx_tensor_data(x) = (float)value;
}

static flx_code step(training *w, const flx_run_options *o)
{
    flx_feed feeds[] = {{"x", w->x}, {"i", w->i}, {"big", w->big}, {"shift", w->shift}};
    return flx_trainer_step_with(w->t, o, feeds, 4, NULL, &w->err);
}

static void begin(training *w, uint32_t compile_flags, flx_train_options o, int32_t threads)
{
    memset(w, 0, sizeof *w);
    w->ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &w->memory});
    CHECK(w->ctx);
    w->g = trainee_graph(w->ctx, network, FLX_F32);
    flx_compile_options c = {.struct_size = sizeof c, .flags = compile_flags, .threads = threads, .optimisation = 1};
    o.struct_size = sizeof o;
    w->t = flx_compile_training(w->g, &o, &c, &w->err);
    CHECK_MADE(w->t, &w->err);
    w->x = filled(w, flx_type_make(FLX_F32, 2, (flx_dim[]){64, 24}), 1);
    w->i = filled(w, flx_type_make(FLX_I32, 1, (flx_dim[]){64}), 1);
    w->big = filled(w, flx_type_make(FLX_F32, 0, NULL), 0);
    w->shift = filled(w, flx_type_make(FLX_F32, 0, NULL), 0);
    set_number(w->big, 1);
    for (int k = 0; k < PARAMS; k++) {
        flx_tensor *p = filled(w, *flx_val_type(w->g, flx_graph_find(w->g, names[k])), 0.3);
        CHECK_OK(flx_trainer_set_param(w->t, names[k], p, &w->err), &w->err);
        flx_tensor_release(p);
    }
    CHECK_OK(step(w, NULL), &w->err); /* state is not zero any more */
}

static void forget(training *w)
{
    for (int k = 0; k < NAMES; k++) {
        flx_tensor_release(w->kept[k]);
        w->kept[k] = NULL;
    }
}

static void end(training *w)
{
    forget(w);
    flx_tensor_release(w->x);
    flx_tensor_release(w->i);
    flx_tensor_release(w->big);
    flx_tensor_release(w->shift);
    flx_trainer_free(w->t);
    flx_graph_release(w->g);
    flx_context_free(w->ctx);
    CHECK(fault_is_clean(&w->memory));
}

static void keep(training *w)
{
    forget(w);
    for (int k = 0; k < NAMES; k++) {
        w->kept[k] = flx_trainer_param(w->t, names[k], &w->err);
        CHECK_MADE(w->kept[k], &w->err);
    }
}

/* How many of them differ from what was kept. */
static int count_changes(training *w)
{
    int changes = 0;
    for (int k = 0; k < NAMES; k++) {
        flx_tensor *now = flx_trainer_param(w->t, names[k], &w->err);
        CHECK_MADE(now, &w->err);
        changes += memcmp(flx_tensor_const_data(now), flx_tensor_const_data(w->kept[k]), flx_tensor_nbytes(now)) != 0;
        flx_tensor_release(now);
    }
    return changes;
}

static const flx_train_options plain = {.optimiser = FLX_ADAM}, clipped = {.optimiser = FLX_ADAM, .clip_norm = 0.5};
static const uint32_t ways[] = {0, FLX_COMPILE_UNGROUPED, FLX_COMPILE_INTERPRET};

TEST(training_step_that_is_not_finite_changes_nothing)
{
    for (int way = 0; way < 6; way++) {
        training w;
        begin(&w, ways[way / 2], way % 2 ? clipped : plain, 1 + way % 2);
        static const double bad[] = {NAN, INFINITY, 1e38};
        for (int k = 0; k < 3; k++) {
            keep(&w);
            set_number(w.big, bad[k]);
            CHECK_CODE(step(&w, NULL), FLX_E_NUMERIC, &w.err);
            CHECK_EQ_U64(count_changes(&w), 0);
            set_number(w.big, 1);
            CHECK_OK(step(&w, NULL), &w.err);
            CHECK_EQ_U64(count_changes(&w), NAMES);
        }
        end(&w);
    }
}

/* A constant that is not finite spoils the loss, but no gradient. */
TEST(training_step_whose_loss_is_not_finite_changes_nothing)
{
    for (int way = 0; way < 6; way++) {
        training w;
        begin(&w, ways[way / 2], way % 2 ? clipped : plain, 1 + way % 2);
        static const double bad[] = {NAN, INFINITY, -INFINITY};
        for (int k = 0; k < 3; k++) {
            keep(&w);
            set_number(w.shift, bad[k]);
            CHECK_CODE(step(&w, NULL), FLX_E_NUMERIC, &w.err);
            CHECK_EQ_STR(w.err.message, "the loss or a gradient of the step is not finite");
            CHECK(strstr(w.err.hint, "FLX_RUN_CHECK_FINITE") && strlen(w.err.hint) < sizeof w.err.hint - 1);
            CHECK_EQ_U64(count_changes(&w), 0);
            set_number(w.shift, -1e38);
            CHECK_OK(step(&w, NULL), &w.err);
            CHECK_EQ_U64(count_changes(&w), NAMES);
        }
        end(&w);
    }
}

TEST(training_step_is_taken_with_any_gradient_when_unguarded)
{
    training w;
    flx_train_options o = plain;
    o.flags = FLX_TRAIN_UNGUARDED;
    begin(&w, 0, o, 1);
    keep(&w);
    set_number(w.big, NAN);
    CHECK_OK(step(&w, NULL), &w.err);
    CHECK_EQ_U64(count_changes(&w), NAMES);
    end(&w);
}

TEST(training_step_whose_op_fails_changes_nothing)
{
    for (int way = 0; way < 6; way++) {
        training w;
        begin(&w, ways[way / 2], way % 2 ? clipped : plain, 1);
        keep(&w);
        ((int32_t *)flx_tensor_data(w.i))[63] = 99;
        CHECK_CODE(step(&w, NULL), FLX_E_INDEX, &w.err);
        CHECK_EQ_U64(count_changes(&w), 0);
        end(&w);
    }
}

/* Only the evaluator allocates in a step. */
TEST(training_step_without_memory_changes_nothing)
{
    training w;
    begin(&w, FLX_COMPILE_INTERPRET, clipped, 1);
    size_t before = w.memory.calls;
    CHECK_OK(step(&w, NULL), &w.err);
    size_t calls = w.memory.calls - before;
    for (size_t n = 1; n <= calls; n++) {
        keep(&w);
        w.memory.fail_at = w.memory.calls + n;
        flx_code code = step(&w, NULL);
        w.memory.fail_at = 0;
        CHECK_MSG(code == FLX_E_OOM || code == FLX_OK, "%s", flx_code_name(code));
        CHECK_EQ_U64(count_changes(&w), code == FLX_OK ? NAMES : 0);
    }
    end(&w);
}

static void *request_later(void *user)
{
    static atomic_uint nanoseconds;
    nanosleep(&(struct timespec){.tv_nsec = (long)(atomic_fetch_add(&nanoseconds, 7919) % 300000)}, NULL);
    flx_stop_request(user);
    return NULL;
}

TEST(training_step_stopped_anywhere_happens_or_does_not)
{
    for (int way = 0; way < 6; way++) {
        training w;
        int taken = 0, stopped = 0;
        begin(&w, ways[way / 2], way % 2 ? clipped : plain, 1 + way % 2);
        for (int round = 0; round < 60; round++) {
            pthread_t thread;
            flx_stop *stop = flx_stop_new(w.ctx, 0, &w.err);
            CHECK_MADE(stop, &w.err);
            keep(&w);
            CHECK(pthread_create(&thread, NULL, request_later, stop) == 0);
            flx_code code = step(&w, &(flx_run_options){.struct_size = sizeof(flx_run_options), .stop = stop});
            pthread_join(thread, NULL);
            CHECK_MSG(code == FLX_E_CANCELLED || code == FLX_OK, "%s", flx_code_name(code));
            CHECK_EQ_U64(count_changes(&w), code == FLX_OK ? NAMES : 0);
            taken += code == FLX_OK;
            stopped += code != FLX_OK;
            flx_stop_free(stop);
        }
        if (effort(EFFORT_report))
            printf("  way %d: %d taken, %d stopped\n", way, taken, stopped);
        end(&w);
    }
}

TEST(training_step_takes_the_options_of_a_run)
{
    training w;
    begin(&w, FLX_COMPILE_UNGROUPED, plain, 1);
    uint32_t status = 77;
    flx_run_options o = {.struct_size = sizeof o, .status = &status, .flags = FLX_RUN_CHECK_FINITE};
    keep(&w);
    CHECK_OK(step(&w, &o), &w.err);
    CHECK(status == 0 && count_changes(&w) == NAMES);
    keep(&w);
    set_number(w.big, INFINITY);
    CHECK_CODE(step(&w, &o), FLX_E_NUMERIC, &w.err);
    CHECK_MSG(strstr(w.err.message, "inf"), "%s", w.err.message); /* of the op, not of the guard */
    o = (flx_run_options){.struct_size = sizeof o, .time_limit = 1e-9};
    set_number(w.big, 1);
    CHECK_CODE(step(&w, &o), FLX_E_TIMEOUT, &w.err);
    o = (flx_run_options){.struct_size = sizeof o, .memory_limit = 1000};
    CHECK_CODE(step(&w, &o), FLX_E_SIZE, &w.err);
    CHECK_EQ_U64(count_changes(&w), 0);
    end(&w);
}

/* ---- Parameters without influence, and memory ---- */

TEST(training_gives_zero_gradients_where_asked)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g =
        trainee_graph(ctx, "graph f(param a: f32[2], param b: f32[2]) { return reduce_sum(square(a)) }\n", FLX_F32);
    flx_error err = {0};
    flx_train_options o = {.struct_size = sizeof o, .optimiser = FLX_MOMENTUM};
    CHECK(!flx_compile_training(g, &o, NULL, &err) && err.code == FLX_E_NO_GRAD_PATH);
    CHECK(strstr(err.hint, "FLX_TRAIN_MISSING_ZERO"));
    o.flags = FLX_TRAIN_MISSING_ZERO;
    flx_trainer *t = flx_compile_training(g, &o, NULL, &err);
    CHECK_MADE(t, &err);
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
    flx_tensor *v = flx_tensor_new(ctx, &type, (float[]){1, 2}, &err);
    CHECK_OK(flx_trainer_set_param(t, "a", v, &err), &err);
    CHECK_OK(flx_trainer_set_param(t, "b", v, &err), &err);
    CHECK_OK(flx_trainer_step(t, NULL, 0, NULL, &err), &err);
    flx_tensor *a = flx_trainer_param(t, "a", &err), *b = flx_trainer_param(t, "b", &err);
    CHECK(flx_tensor_get(a, 1) < 2 && flx_tensor_get(b, 1) == 2);
    flx_tensor_release(a);
    flx_tensor_release(b);
    flx_tensor_release(v);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* Sums and averages are updated in place too. */
TEST(training_sums_and_averages_are_held_once)
{
    for (int way = 0; way < 2; way++) {
        training w;
        flx_train_options o = {
            .struct_size = sizeof o, .optimiser = FLX_ADAM, .accumulate = 2, .ema = 0.9, .clip_norm = way ? 0.5 : 0};
        begin(&w, 0, o, 1);
        size_t all = 4 * (16 * 24 + 24 * 40 + 40 + 40 * 24 + 24 * 20);
        CHECK_MSG(flx_trainer_memory(w.t) <= 5 * all + 32, "%zu bytes", flx_trainer_memory(w.t));
        end(&w);
    }
}

/* Everything is there once, clipped or not; the counter, which others read, twice. */
TEST(training_state_is_held_once_with_clipping)
{
    for (int way = 0; way < 2; way++) {
        training w;
        begin(&w, 0, way ? clipped : plain, 1);
        size_t all = 4 * (16 * 24 + 24 * 40 + 40 + 40 * 24 + 24 * 20);
        CHECK_EQ_U64(flx_trainer_memory(w.t), 3 * all + 16);
        end(&w);
    }
}
