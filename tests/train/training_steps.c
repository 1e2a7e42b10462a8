/* SPDX-License-Identifier: Apache-2.0 */
/* training_steps.c: what a training step computes: against formulas written out in C, against the same graph on the
   reference evaluator, with any number of threads; and what it costs. */
#include "fault.h"
#include "trainee.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name;
    flx_train_options o;
} setting;

static const setting settings[] = {
    {"sgd", {.rate = 0.1}},
    {"sgd, decay, clipping", {.rate = 0.1, .weight_decay = 0.05, .clip_norm = 0.01}},
    {"momentum", {.optimiser = FLX_MOMENTUM, .rate = 0.1, .momentum = 0.8}},
    {"nesterov", {.optimiser = FLX_MOMENTUM, .flags = FLX_TRAIN_NESTEROV, .rate = 0.1}},
    {"adam", {.optimiser = FLX_ADAM, .rate = 0.02}},
    {"adam, decay, clipping",
     {.optimiser = FLX_ADAM, .rate = 0.02, .weight_decay = 0.1, .clip_norm = 0.05, .beta2 = 0.95}},
    {"adamw", {.optimiser = FLX_ADAMW, .rate = 0.02, .weight_decay = 0.2}},
    {"sgd, rate as input", {.flags = FLX_TRAIN_RATE_INPUT}},
    {"adamw, rate as input", {.optimiser = FLX_ADAMW, .flags = FLX_TRAIN_RATE_INPUT, .clip_norm = 1}},
};

enum { NUM_SETTINGS = sizeof settings / sizeof *settings };

/* ---- Formulas ---- */

enum { LENGTH = 5 };

typedef struct {
    double p[LENGTH], m[LENGTH], v[LENGTH];
    int t;
} by_hand;

/* One step on the loss sum((p - a)²) / 2, whose gradient is p - a, as textbooks write it. */
static void step_by_hand(by_hand *s, const double *a, const flx_train_options *o, double rate)
{
    double d[LENGTH], norm = 0;
    double mu = o->momentum > 0 ? o->momentum : 0.9, b1 = 0.9, b2 = o->beta2 > 0 ? o->beta2 : 0.999;
    double decay = o->weight_decay > 0 || o->optimiser != FLX_ADAMW ? o->weight_decay : 0.01;
    for (int i = 0; i < LENGTH; i++)
        norm += (s->p[i] - a[i]) * (s->p[i] - a[i]);
    norm = sqrt(norm);
    s->t++;
    for (int i = 0; i < LENGTH; i++) {
        d[i] = s->p[i] - a[i];
        if (o->clip_norm > 0 && norm > o->clip_norm)
            d[i] *= o->clip_norm / norm;
        if (o->optimiser == FLX_ADAMW)
            s->p[i] *= 1 - rate * decay;
        else
            d[i] += decay * s->p[i];
        switch (o->optimiser) {
        case FLX_SGD: s->p[i] -= rate * d[i]; break;
        case FLX_MOMENTUM:
            s->m[i] = mu * s->m[i] + d[i];
            s->p[i] -= rate * (o->flags & FLX_TRAIN_NESTEROV ? d[i] + mu * s->m[i] : s->m[i]);
            break;
        default:
            s->m[i] = b1 * s->m[i] + (1 - b1) * d[i];
            s->v[i] = b2 * s->v[i] + (1 - b2) * d[i] * d[i];
            s->p[i] -= rate * (s->m[i] / (1 - pow(b1, s->t))) / (sqrt(s->v[i] / (1 - pow(b2, s->t))) + 1e-8);
        }
    }
}

static flx_tensor *vector(flx_context *ctx, const double *x)
{
    flx_type type = flx_type_make(FLX_F64, 1, (flx_dim[]){LENGTH});
    return flx_tensor_new(ctx, &type, x, NULL);
}

static void check_formula(flx_context *ctx, const flx_graph *g, const setting *s)
{
    static const double a[LENGTH] = {0.5, -1, 2, 0.25, -0.125};
    by_hand hand = {.p = {1, 1, -1, 0.3, 2}};
    flx_error err = {0};
    flx_trainer *t;
    flx_type scalar = flx_type_make(FLX_F64, 0, NULL);
    double rate = 0.03;
    flx_tensor *ta = vector(ctx, a), *tp = vector(ctx, hand.p), *tr = flx_tensor_new(ctx, &scalar, &rate, NULL);
    flx_feed feeds[] = {{"a", ta}, {"lr", tr}};
    bool is_given = s->o.flags & FLX_TRAIN_RATE_INPUT;
    t = flx_compile_training(g, &s->o, NULL, &err);
    CHECK_MADE(t, &err);
    CHECK_OK(flx_trainer_set_param(t, "p", tp, &err), &err);
    for (int k = 0; k < 6; k++) {
        step_by_hand(&hand, a, &s->o, is_given ? rate : s->o.rate);
        CHECK_OK(flx_trainer_step(t, feeds, is_given ? 2 : 1, NULL, &err), &err);
        flx_tensor *now = flx_trainer_param(t, "p", &err);
        CHECK(now);
        for (int i = 0; i < LENGTH; i++)
            CHECK_NEAR(flx_tensor_get(now, i), hand.p[i], 1e-13 * (1 + fabs(hand.p[i])));
        flx_tensor_release(now);
    }
    flx_trainer_free(t);
    flx_tensor_release(ta);
    flx_tensor_release(tp);
    flx_tensor_release(tr);
}

TEST(training_optimisers_follow_their_formulas)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(a: f64[5], param p: f64[5]) {\n"
                                 "  return mul(0.5, reduce_sum(square(sub(p, a))))\n}\n",
                                 FLX_F64);
    for (int i = 0; i < NUM_SETTINGS; i++) {
        test_fail_context("%s", settings[i].name);
        check_formula(ctx, g, &settings[i]);
        test_count_case();
    }
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Against the reference evaluator ---- */

/* The training graph with N bound, and values for its leaves. */
static flx_graph *bound_step(const flx_graph *g, const flx_train_options *o)
{
    flx_error err = {0};
    flx_compile_options c = trainee_options(1);
    flx_graph *step = flx_training_graph(g, o, &err);
    CHECK_MSG(step, "%s: %s", err.where, err.message);
    CHECK_OK(flx_graph_verify(step, &err), &err);
    flx_graph *bound = flx_specialise(step, c.dims, c.num_dims, &err);
    CHECK_MSG(bound, "%s", err.message);
    flx_graph_release(step);
    return bound;
}

/* One step of the reference loop: outputs whose name is new_X become the next value of X. */
static double reference_step(const flx_graph *step, trainee_values *v)
{
    flx_tensor *out[TRAINEE_LEAVES];
    flx_error err = {0};
    flx_run_options o = {.device = "ref"};
    CHECK(flx_graph_output_count(step) <= TRAINEE_LEAVES);
    CHECK_OK(flx_run(step, &o, v->at, v->n, out, &err), &err);
    double loss = flx_tensor_get(out[0], 0);
    for (size_t i = 0; i < flx_graph_output_count(step); i++) {
        const char *name = flx_graph_output_name(step, i);
        for (size_t k = 0; strncmp(name, "new_", 4) == 0 && k < v->n; k++)
            if (strcmp(v->at[k].name, name + 4) == 0) {
                const flx_tensor *before = v->at[k].value;
                v->at[k].value = flx_tensor_retain(out[i]);
                flx_tensor_release((flx_tensor *)(uintptr_t)before);
            }
        flx_tensor_release(out[i]);
    }
    return loss;
}

/* Sums of 16 or fewer terms, two layers, a few steps whose errors add up, and a division by what may be small: about
   a thousand units of the dtype that is computed in, of the largest element. A parameter that is stored in lower
   precision rounds once a step. */
static void check_equal(flx_trainer *t, const flx_feed *f)
{
    flx_error err = {0};
    double most = 0;
    flx_tensor *now = flx_trainer_param(t, f->name, &err);
    CHECK_MSG(now, "%s", err.message);
    int32_t dtype = flx_tensor_type(now)->dtype;
    double unit = dtype == FLX_F64 ? 0x1p-52 : dtype == FLX_F32 ? 0x1p-23 : dtype == FLX_BF16 ? 0x1p-18 : 0;
    for (int64_t i = 0; i < flx_tensor_count(now); i++)
        most = fmax(most, fabs(flx_tensor_get(f->value, i)));
    for (int64_t i = 0; i < flx_tensor_count(now); i++)
        CHECK_MSG(fabs(flx_tensor_get(now, i) - flx_tensor_get(f->value, i)) <= 2048 * unit * most,
                  "%s[%d]: %.9g, by reference %.9g", f->name, (int)i, flx_tensor_get(now, i),
                  flx_tensor_get(f->value, i));
    flx_tensor_release(now);
}

static void compare(flx_context *ctx, flx_dtype dtype, const setting *s, const flx_compile_options *c)
{
    flx_graph *g = trainee_graph(ctx, trainee_network, dtype), *step = bound_step(g, &s->o);
    trainee_values v = trainee_values_for(step, test_seed());
    flx_feed inputs[TRAINEE_LEAVES];
    flx_error err = {0};
    flx_trainer *t;
    double loss;
    test_fail_context("%s, %s, flags %u", s->name, flx_dtype_name(dtype), c->flags);
    t = flx_compile_training(g, &s->o, c, &err);
    CHECK_MADE(t, &err);
    size_t n = trainee_begin(t, step, &v, inputs);
    double slack = dtype == FLX_F64 ? 1e-12 : dtype == FLX_F32 ? 1e-4 : 0.02;
    for (int k = 0; k < 5; k++) {
        CHECK_OK(flx_trainer_step(t, inputs, n, &loss, &err), &err);
        double expected = reference_step(step, &v);
        CHECK_NEAR(loss, expected, slack * (1 + fabs(expected)));
    }
    for (size_t i = 0; i < v.n; i++)
        if (flx_graph_input_is_param(step, i))
            check_equal(t, &v.at[i]);
    CHECK(flx_trainer_output(t, "z") && flx_tensor_count(flx_trainer_output(t, "z")) == 64);
    trainee_release(&v);
    flx_trainer_free(t);
    flx_graph_release(step);
    flx_graph_release(g);
    test_count_case();
}

TEST(training_steps_equal_a_reference_loop)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_compile_options c = trainee_options(0);
    for (int i = 0; i < NUM_SETTINGS; i++) {
        compare(ctx, FLX_F64, &settings[i], &c);
        compare(ctx, FLX_F32, &settings[i], &c);
    }
    flx_context_free(ctx);
}

/* Without a compiler nothing is updated in place. */
TEST(training_steps_interpreted_equal_a_reference_loop)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_compile_options c = trainee_options(1);
    c.flags = FLX_COMPILE_INTERPRET;
    for (int i = 0; i < NUM_SETTINGS; i++)
        compare(ctx, FLX_F64, &settings[i], &c);
    flx_context_free(ctx);
}

/* Narrow parameters have wide state. */
TEST(training_narrow_parameters_are_updated_in_f32)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_compile_options c = trainee_options(1);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, trainee_network, FLX_BF16);
    flx_graph *step = flx_training_graph(g, &(flx_train_options){.optimiser = FLX_ADAM}, &err);
    CHECK(step);
    CHECK_EQ_I64(flx_val_type(step, flx_graph_find(step, "state_w1_v"))->dtype, FLX_F32);
    CHECK_EQ_I64(flx_val_type(step, flx_graph_find(step, "new_w1"))->dtype, FLX_BF16);
    compare(ctx, FLX_BF16, &(setting){"momentum", {.optimiser = FLX_MOMENTUM, .rate = 0.1}}, &c);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Bits, falling loss, cost ---- */

enum { MANY = 60 };

/* Trains the f32 network and copies all parameters and states one after the other. */
static size_t train_for(flx_context *ctx, const flx_train_options *o, int32_t threads, double *first, double *last,
                        unsigned char *bytes, size_t room)
{
    flx_graph *g = trainee_graph(ctx, trainee_network, FLX_F32), *step = bound_step(g, o);
    trainee_values v = trainee_values_for(step, 7);
    flx_compile_options c = trainee_options(threads);
    flx_feed inputs[TRAINEE_LEAVES];
    flx_error err = {0};
    flx_trainer *t;
    size_t used = 0;
    float *y = flx_tensor_data((flx_tensor *)(uintptr_t)trainee_find(&v, "y"));
    for (int i = 0; i < 64; i++) /* a distribution: the loss has a minimum */
        y[i] = i % 4 == i / 4 % 4 ? 1.0f : 0.0f;
    t = flx_compile_training(g, o, &c, &err);
    CHECK_MADE(t, &err);
    size_t n = trainee_begin(t, step, &v, inputs);
    for (int k = 0; k < MANY; k++)
        CHECK_OK(flx_trainer_step(t, inputs, n, k ? last : first, &err), &err);
    for (size_t i = 0; i < v.n; i++)
        if (flx_graph_input_is_param(step, i)) {
            flx_tensor *now = flx_trainer_param(t, v.at[i].name, &err);
            CHECK(now && used + flx_tensor_nbytes(now) <= room);
            memcpy(bytes + used, flx_tensor_const_data(now), flx_tensor_nbytes(now));
            used += flx_tensor_nbytes(now);
            flx_tensor_release(now);
        }
    trainee_release(&v);
    flx_trainer_free(t);
    flx_graph_release(step);
    flx_graph_release(g);
    return used;
}

TEST(training_lowers_the_loss_to_the_same_bits_with_any_number_of_threads)
{
    flx_context *ctx = flx_context_new(NULL);
    unsigned char one[8192], two[8192];
    for (int32_t kind = FLX_SGD; kind <= FLX_ADAMW; kind++) {
        flx_train_options o = {.optimiser = kind, .rate = kind < FLX_ADAM ? 1 : 0.05};
        double first, last, other;
        test_fail_context("optimiser %d", (int)kind);
        size_t n = train_for(ctx, &o, 1, &first, &last, one, sizeof one);
        CHECK_MSG(last < 0.7 * first, "from %g to %g", first, last);
        CHECK_EQ_U64(train_for(ctx, &o, 2, &first, &other, two, sizeof two), n);
        CHECK(memcmp(one, two, n) == 0 && memcmp(&last, &other, sizeof last) == 0);
    }
    flx_context_free(ctx);
}

/* Steps of a trainer that begins with these values; its final values replace them. */
static void continue_for(const flx_graph *g, const flx_graph *step, trainee_values *v, int steps)
{
    flx_compile_options c = trainee_options(1);
    flx_feed inputs[TRAINEE_LEAVES];
    flx_error err = {0};
    flx_trainer *t;
    t = flx_compile_training(g, &(flx_train_options){.optimiser = FLX_ADAM}, &c, &err);
    CHECK_MADE(t, &err);
    size_t n = trainee_begin(t, step, v, inputs);
    for (int k = 0; k < steps; k++)
        CHECK_OK(flx_trainer_step(t, inputs, n, NULL, &err), &err);
    for (size_t i = 0; i < v->n; i++)
        if (flx_graph_input_is_param(step, i)) {
            flx_tensor_release((flx_tensor *)(uintptr_t)v->at[i].value);
            v->at[i].value = flx_trainer_param(t, v->at[i].name, &err);
            CHECK(v->at[i].value);
        }
    flx_trainer_free(t);
}

TEST(training_goes_on_with_the_same_bits_from_parameters_and_state)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = trainee_graph(ctx, trainee_network, FLX_F32);
    flx_graph *step = bound_step(g, &(flx_train_options){.optimiser = FLX_ADAM});
    trainee_values once = trainee_values_for(step, 5), twice = trainee_values_for(step, 5);
    continue_for(g, step, &once, 9);
    continue_for(g, step, &twice, 4);
    continue_for(g, step, &twice, 5);
    for (size_t i = 0; i < once.n; i++)
        CHECK_MSG(memcmp(flx_tensor_const_data(once.at[i].value), flx_tensor_const_data(twice.at[i].value),
                         flx_tensor_nbytes(once.at[i].value)) == 0,
                  "%s", once.at[i].name);
    CHECK_NEAR(flx_tensor_get(trainee_find(&once, "state_step"), 0), 9, 0);
    trainee_release(&once);
    trainee_release(&twice);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(training_steps_allocate_nothing)
{
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_train_options o = {.optimiser = FLX_ADAMW, .clip_norm = 1};
    flx_graph *g = trainee_graph(ctx, trainee_network, FLX_F32), *step = bound_step(g, &o);
    trainee_values v = trainee_values_for(step, 3);
    flx_compile_options c = trainee_options(2);
    flx_feed inputs[TRAINEE_LEAVES];
    flx_error err = {0};
    flx_trainer *t;
    t = flx_compile_training(g, &o, &c, &err);
    CHECK_MADE(t, &err);
    size_t n = trainee_begin(t, step, &v, inputs);
    CHECK_OK(flx_trainer_step(t, inputs, n, NULL, &err), &err);
    size_t calls = f.calls, live = f.live_bytes;
    for (int k = 0; k < 20; k++)
        CHECK_OK(flx_trainer_step(t, inputs, n, NULL, &err), &err);
    CHECK_EQ_U64(f.calls, calls);
    CHECK_EQ_U64(f.live_bytes, live);
    trainee_release(&v);
    flx_trainer_free(t);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}
