/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_use.c: trainers as users see them: what is updated in place, what is rejected, and running out of memory. */
#include "fault.h"
#include "trainee.h"

#include <stdio.h>
#include <string.h>

/* ---- In place ---- */

/* Weights alone, in the order given; each is read by the forward pass, and the later ones by the backward pass. */
#define DEEP(params)                                            \
    "graph deep(x: f32[64, 24], " params ") {\n"                \
    "  y = matmul(tanh(matmul(tanh(matmul(x, w1)), w2)), w3)\n" \
    "  return reduce_mean(square(y))\n}\n"

static const char first_to_last[] = DEEP("param w1: f32[24, 40], param w2: f32[40, 24], param w3: f32[24, 20]");
static const char last_to_first[] = DEEP("param w3: f32[24, 20], param w2: f32[40, 24], param w1: f32[24, 40]");

enum { DEEP_BYTES = 4 * (24 * 40 + 40 * 24 + 24 * 20) };

static size_t memory_of(flx_context *ctx, const char *text, const flx_train_options *o, uint32_t flags)
{
    flx_graph *g = trainee_graph(ctx, text, FLX_F32);
    flx_compile_options c = {.flags = flags, .threads = 1};
    flx_error err = {0};
    flx_trainer *t;
    t = flx_compile_training(g, o, &c, &err);
    CHECK_MADE(t, &err);
    size_t n = flx_trainer_memory(t);
    flx_trainer_free(t);
    flx_graph_release(g);
    return n;
}

TEST(trainer_updates_weights_in_place)
{
    flx_context *ctx = flx_context_new(NULL);
    static const struct {
        flx_train_options o;
        size_t bytes;
    } rows[] = {
        {{.optimiser = FLX_SGD}, DEEP_BYTES},
        {{.optimiser = FLX_MOMENTUM}, 2 * DEEP_BYTES},
        {{.optimiser = FLX_ADAM}, 3 * DEEP_BYTES + 16}, /* the counter, which the updates read, has two buffers */
        {{.optimiser = FLX_ADAMW}, 3 * DEEP_BYTES + 16},
        {{.optimiser = FLX_ADAM, .clip_norm = 1}, 3 * DEEP_BYTES + 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_fail_context("optimiser %d", (int)rows[i].o.optimiser);
        CHECK_EQ_U64(memory_of(ctx, first_to_last, &rows[i].o, 0), rows[i].bytes);
        CHECK_EQ_U64(memory_of(ctx, last_to_first, &rows[i].o, 0), rows[i].bytes);
    }
    flx_context_free(ctx);
}

TEST(trainer_keeps_two_buffers_where_nothing_is_in_place)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_train_options o = {.optimiser = FLX_MOMENTUM};
    CHECK_EQ_U64(memory_of(ctx, first_to_last, &o, FLX_COMPILE_INTERPRET), 4 * DEEP_BYTES);
    flx_context_free(ctx);
}

/* An output that is a parameter has its value before the step. */
TEST(trainer_shows_a_parameter_from_before_the_step)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = trainee_graph(ctx, "graph f(param p: f32[3]) { return reduce_sum(square(p)), p }\n", FLX_F32);
    flx_train_options o = {.rate = 0.25};
    flx_error err = {0};
    flx_trainer *t;
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    flx_tensor *p = flx_tensor_new(ctx, &type, (float[]){1, -2, 4}, &err);
    t = flx_compile_training(g, &o, NULL, &err);
    CHECK_MADE(t, &err);
    CHECK_OK(flx_trainer_set_param(t, "p", p, &err), &err);
    for (int k = 0; k < 3; k++) {
        double loss;
        CHECK_OK(flx_trainer_step(t, NULL, 0, &loss, &err), &err);
        flx_tensor *now = flx_trainer_param(t, "p", &err);
        for (int i = 0; i < 3; i++) {
            double before = flx_tensor_get(p, i) / (1 << k);
            CHECK_NEAR(flx_tensor_get(flx_trainer_output(t, "p"), i), before, 0);
            CHECK_NEAR(flx_tensor_get(now, i), before / 2, 0);
        }
        CHECK_NEAR(loss, 21.0 / (1 << 2 * k), 0);
        flx_tensor_release(now);
    }
    flx_tensor_release(p);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Which parameters ---- */

TEST(trainer_leaves_parameters_alone_that_are_not_named)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(param a: f32[2], param b: f32[2], param k: i32[2]) {\n"
                                 "  return reduce_sum(square(mul(mul(a, b), cast(k, to=f32))))\n}\n",
                                 FLX_F32);
    const char *const only_b[] = {"b"};
    flx_train_options o = {.optimiser = FLX_MOMENTUM, .params = only_b, .num_params = 1};
    flx_error err = {0};
    flx_trainer *t;
    flx_type real = flx_type_make(FLX_F32, 1, (flx_dim[]){2}), whole = flx_type_make(FLX_I32, 1, (flx_dim[]){2});
    flx_tensor *v = flx_tensor_new(ctx, &real, (float[]){1, 2}, &err),
               *k = flx_tensor_new(ctx, &whole, (int[]){1, 3}, &err);
    flx_graph *step = flx_training_graph(g, &o, &err);
    CHECK(step && flx_graph_input_count(step) == 4 && flx_graph_output_count(step) == 3);
    CHECK_EQ_STR(flx_graph_output_name(step, 1), "new_b");
    CHECK_EQ_STR(flx_graph_output_name(step, 2), "new_state_b_m");
    CHECK_EQ_STR(flx_graph_name(step), "f.train");
    t = flx_compile_training(g, &o, NULL, &err);
    CHECK_MADE(t, &err);
    CHECK_OK(flx_trainer_set_param(t, "a", v, &err), &err);
    CHECK_OK(flx_trainer_set_param(t, "b", v, &err), &err);
    CHECK_OK(flx_trainer_set_param(t, "k", k, &err), &err);
    CHECK_OK(flx_trainer_step(t, NULL, 0, NULL, &err), &err);
    flx_tensor *a = flx_trainer_param(t, "a", &err), *b = flx_trainer_param(t, "b", &err);
    CHECK_NEAR(flx_tensor_get(a, 1), 2, 0);
    CHECK(flx_tensor_get(b, 1) < 2);
    flx_tensor_release(a);
    flx_tensor_release(b);
    flx_tensor_release(v);
    flx_tensor_release(k);
    flx_trainer_free(t);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* A graph that already uses the names of states, and of the rate. */
TEST(trainer_state_avoids_names_that_are_taken)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = trainee_graph(ctx,
                                 "graph f(lr: f32[], param p: f32[2], param state_p_m: f32[2]) {\n"
                                 "  return mul(lr, reduce_sum(mul(p, state_p_m)))\n}\n",
                                 FLX_F32);
    flx_train_options o = {.optimiser = FLX_MOMENTUM, .flags = FLX_TRAIN_RATE_INPUT};
    flx_error err = {0};
    flx_graph *step = flx_training_graph(g, &o, &err);
    static const char *const leaves[] = {"lr", "p", "state_p_m", "state_p_m_2", "state_state_p_m_m", "lr_2"};
    CHECK_MSG(step, "%s", err.message);
    CHECK_EQ_U64(flx_graph_input_count(step), 6);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ_STR(flx_val_name(step, flx_graph_input(step, i)), leaves[i]);
    flx_graph_release(step);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Rejected calls ---- */

typedef struct {
    const char *text;
    flx_train_options o;
    flx_code code;
    const char *says; /* part of the message */
} refusal;

static const char *const unknown[] = {"q"}, *const input[] = {"x"}, *const twice[] = {"p", "p"}, *const whole[] = {"k"};

#define PLAIN "graph f(x: f32[2], param p: f32[2], param k: i32[2]) { return reduce_sum(mul(x, p)) }\n"

static const refusal refusals[] = {
    {"graph f(x: f32[2]) { return reduce_sum(x) }\n", {0}, FLX_E_USAGE, "no parameter to train"},
    {"graph f(param k: i32[2]) { return reduce_sum(cast(k, to=f32)) }\n", {0}, FLX_E_USAGE, "no parameter to train"},
    {"graph f(param p: f32[2]) { return p }\n", {0}, FLX_E_NON_SCALAR, "f32[2]"},
    {"graph f(x: f32[], param p: f32[2]) { return x }\n", {0}, FLX_E_NO_GRAD_PATH, "param 'p'"},
    {"graph f(param p: c64[2]) { return reduce_sum(real(p)) }\n", {0}, FLX_E_UNSUPPORTED, "complex"},
    {PLAIN, {.params = unknown, .num_params = 1}, FLX_E_NAME, "'q'"},
    {PLAIN, {.params = input, .num_params = 1}, FLX_E_NAME, "'x' is an input"},
    {PLAIN, {.params = twice, .num_params = 2}, FLX_E_DUP_NAME, "'p'"},
    {PLAIN, {.params = whole, .num_params = 1}, FLX_E_NOT_DIFFERENTIABLE, "'k'"},
    {PLAIN, {.params = twice}, FLX_E_USAGE, "no parameter to train"},
    {PLAIN, {.num_params = 1}, FLX_E_USAGE, "list of parameters is missing"},
    {PLAIN, {.optimiser = 11}, FLX_E_USAGE, "unknown optimiser 11"},
    {PLAIN, {.flags = 128}, FLX_E_USAGE, "unknown flags"},
    {PLAIN, {.optimiser = FLX_ADAM, .flags = FLX_TRAIN_NESTEROV}, FLX_E_USAGE, "adam has no Nesterov"},
    {PLAIN, {.rate = -1}, FLX_E_USAGE, "rate=-1 is out of range"},
    {PLAIN, {.optimiser = FLX_ADAM, .beta2 = 1}, FLX_E_USAGE, "beta2=1 is out of range"},
};

TEST(trainer_refuses_what_cannot_be_trained)
{
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        flx_error err = {0};
        flx_graph *g = trainee_graph(ctx, r->text, FLX_F32);
        test_fail_context("row %zu: %s", i, r->text);
        CHECK(!flx_training_graph(g, &r->o, &err));
        CHECK_CODE((flx_code)err.code, r->code, &err);
        CHECK_MSG(strstr(err.message, r->says), "%s", err.message);
        flx_trainer *t = flx_compile_training(g, &r->o, NULL, &err);
        CHECK_CODE(t ? FLX_OK : (flx_code)err.code, r->code, &err);
        CHECK(!t);
        flx_graph_release(g);
        test_count_case();
    }
    flx_error err = {0};
    CHECK(!flx_training_graph(NULL, NULL, &err) && err.code);
    CHECK(!flx_compile_training(NULL, NULL, NULL, NULL));
    flx_context_free(ctx);
}

/* ---- Batches of any size ---- */

enum { LARGEST = 33 };

typedef struct {
    flx_context *ctx;
    flx_graph *g, *step; /* the loss and its training graph */
    flx_trainer *symbolic;
    flx_tensor *x[LARGEST + 1], *y[LARGEST + 1]; /* by number of examples */
    flx_error err;
} batches;

static void begin_batches(batches *b, const flx_train_options *o)
{
    *b = (batches){.ctx = flx_context_new(NULL)};
    b->g = trainee_graph(b->ctx, trainee_network, FLX_F32);
    b->step = flx_training_graph(b->g, o, &b->err);
    CHECK_MADE(b->step, &b->err);
    b->symbolic = flx_compile_training(b->g, o, NULL, &b->err);
    CHECK_MADE(b->symbolic, &b->err);
    uint64_t seed = 5;
    for (size_t i = 0; i < flx_graph_input_count(b->step); i++) {
        flx_val v = flx_graph_input(b->step, i);
        const char *name = flx_val_name(b->step, v);
        if (!flx_graph_input_is_param(b->step, i) || strncmp(name, "state_", 6) == 0)
            continue;
        flx_tensor *t = trainee_random(b->ctx, flx_val_type(b->step, v), &seed);
        CHECK_OK(flx_trainer_set_param(b->symbolic, name, t, &b->err), &b->err);
        flx_tensor_release(t);
    }
}

static size_t batch(batches *b, int64_t n, flx_feed *feeds)
{
    uint64_t seed = (uint64_t)n;
    flx_type x = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 6}), y = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 4});
    b->x[n] = b->x[n] ? b->x[n] : trainee_random(b->ctx, &x, &seed);
    b->y[n] = b->y[n] ? b->y[n] : trainee_random(b->ctx, &y, &seed);
    feeds[0] = (flx_feed){"x", b->x[n]};
    feeds[1] = (flx_feed){"y", b->y[n]};
    return 2;
}

/* All parameters and state of one trainer to another, or compared with it. */
static void with_params(batches *b, flx_trainer *other, bool compares)
{
    for (size_t i = 0; i < flx_graph_input_count(b->step); i++) {
        const char *name = flx_val_name(b->step, flx_graph_input(b->step, i));
        if (!flx_graph_input_is_param(b->step, i))
            continue;
        flx_tensor *here = flx_trainer_param(b->symbolic, name, &b->err);
        CHECK_MADE(here, &b->err);
        if (compares) {
            flx_tensor *there = flx_trainer_param(other, name, &b->err);
            CHECK_MADE(there, &b->err);
            CHECK_MSG(memcmp(flx_tensor_data(here), flx_tensor_data(there), flx_tensor_nbytes(here)) == 0, "%s", name);
            flx_tensor_release(there);
        } else {
            CHECK_OK(flx_trainer_set_param(other, name, here, &b->err), &b->err);
        }
        flx_tensor_release(here);
    }
}

static void end_batches(batches *b)
{
    for (int n = 0; n <= LARGEST; n++) {
        flx_tensor_release(b->x[n]);
        flx_tensor_release(b->y[n]);
    }
    flx_trainer_free(b->symbolic);
    flx_graph_release(b->step);
    flx_graph_release(b->g);
    flx_context_free(b->ctx);
}

/* A step on n examples is the step of a trainer that was compiled for n. */
TEST(trainer_takes_batches_of_any_size)
{
    static const int64_t sizes[] = {16, 16, 7, 16, 1, 33, 7, 32};
    const flx_train_options o = {.optimiser = FLX_ADAM, .rate = 0.02, .clip_norm = 0.5};
    batches b;
    begin_batches(&b, &o);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        flx_feed feeds[2];
        double loss, expected;
        flx_dim_binding dim = {"N", sizes[i]};
        flx_compile_options fixed = {.flags = FLX_COMPILE_FLUSH, .dims = &dim, .num_dims = 1};
        flx_trainer *t = flx_compile_training(b.g, &o, &fixed, &b.err);
        CHECK_MADE(t, &b.err);
        with_params(&b, t, false);
        size_t n = batch(&b, sizes[i], feeds);
        CHECK_OK(flx_trainer_step(t, feeds, n, &expected, &b.err), &b.err);
        CHECK_OK(flx_trainer_step(b.symbolic, feeds, n, &loss, &b.err), &b.err);
        CHECK(loss == expected);
        with_params(&b, t, true);
        const flx_tensor *z = flx_trainer_output(b.symbolic, "z");
        CHECK(z && flx_tensor_count(z) == 4 * sizes[i]);
        flx_trainer_free(t);
    }
    end_batches(&b);
}

TEST(trainer_checks_the_extents_of_a_step)
{
    batches b;
    flx_feed feeds[2], other[2];
    begin_batches(&b, NULL);
    batch(&b, 8, feeds);
    batch(&b, 9, other);
    CHECK(!flx_trainer_output(b.symbolic, "z") && flx_trainer_output(b.symbolic, "loss"));
    CHECK_OK(flx_trainer_step(b.symbolic, feeds, 2, NULL, &b.err), &b.err);
    feeds[1] = other[1];
    CHECK_CODE(flx_trainer_step(b.symbolic, feeds, 2, NULL, &b.err), FLX_E_SHAPE, &b.err);
    CHECK_MSG(strstr(b.err.message, "'y'") && strstr(b.err.hint, "f32[8, 4]"), "%s: %s", b.err.message, b.err.hint);
    feeds[1] = (flx_feed){"y", other[0].value};
    CHECK_CODE(flx_trainer_step(b.symbolic, feeds, 2, NULL, &b.err), FLX_E_SHAPE, &b.err);
    CHECK_OK(flx_trainer_step(b.symbolic, other, 2, NULL, &b.err), &b.err);
    flx_dim_binding dim = {"N", 8};
    flx_run_options run = {.dims = &dim, .num_dims = 1};
    CHECK_CODE(flx_trainer_step_with(b.symbolic, &run, other, 2, NULL, &b.err), FLX_E_SHAPE, &b.err);
    CHECK_OK(flx_trainer_step(b.symbolic, other, 2, NULL, &b.err), &b.err);
    end_batches(&b);
}

/* Parameters must have types of numbers; a dimension that no input shows has its extent from the options. */
TEST(trainer_refuses_dimensions_without_extents)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g =
        trainee_graph(ctx, "graph f(x: %s[4], param w: %s[N]) { return mul(reduce_sum(x), reduce_sum(w)) }", FLX_F32);
    flx_compile_options other = {.dims = &(flx_dim_binding){"M", 4}, .num_dims = 1};
    flx_trainer *t = flx_compile_training(g, NULL, NULL, &err);
    CHECK_CODE(t ? FLX_OK : (flx_code)err.code, FLX_E_UNBOUND_DIM, &err);
    CHECK(strstr(err.message, "'w'") && !t);
    CHECK(!flx_compile_training(g, NULL, &other, &err));
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* A trainer of PLAIN, and tensors that it takes and does not take. */
typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_trainer *t;
    flx_tensor *two, *three, *ints;
} misused;

static misused misuse_begin(void)
{
    flx_error err = {0};
    misused r = {.ctx = flx_context_new(NULL)};
    flx_type pair = flx_type_make(FLX_F32, 1, (flx_dim[]){2}), triple = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
    flx_type ints = flx_type_make(FLX_I32, 1, (flx_dim[]){2});
    r.g = trainee_graph(r.ctx, PLAIN, FLX_F32);
    r.two = flx_tensor_new(r.ctx, &pair, (float[]){1, 2}, &err);
    r.three = flx_tensor_new(r.ctx, &triple, NULL, &err);
    r.ints = flx_tensor_new(r.ctx, &ints, NULL, &err);
    r.t = flx_compile_training(r.g, &(flx_train_options){.rate = 1}, NULL, &err);
    CHECK_MADE(r.t, &err);
    return r;
}

static void misuse_end(misused *r)
{
    flx_tensor_release(r->two);
    flx_tensor_release(r->three);
    flx_tensor_release(r->ints);
    flx_trainer_free(r->t);
    flx_graph_release(r->g);
    flx_context_free(r->ctx);
}

/* Each wrong use of one trainer returns its error and leaves the trainer unchanged. */
TEST(trainer_refuses_wrong_parameters)
{
    flx_error err = {0};
    misused r = misuse_begin();
    CHECK_CODE(flx_trainer_set_param(r.t, "q", r.two, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_trainer_set_param(r.t, "x", r.two, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_trainer_set_param(r.t, "p", r.three, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_trainer_set_param(r.t, "p", r.ints, &err), FLX_E_DTYPE, &err);
    CHECK_CODE(flx_trainer_set_param(r.t, "p", NULL, &err), FLX_E_USAGE, &err);
    CHECK(!flx_trainer_param(r.t, "k", &err) && err.code == FLX_E_MISSING_INPUT);
    CHECK_OK(flx_trainer_set_param(r.t, "p", r.two, &err), &err);
    CHECK_CODE(flx_trainer_set_param(r.t, "p", r.three, &err), FLX_E_SHAPE, &err);
    flx_tensor *p = flx_trainer_param(r.t, "p", &err);
    CHECK(p && memcmp(flx_tensor_const_data(p), flx_tensor_const_data(r.two), 8) == 0);
    CHECK(!flx_trainer_param(r.t, "q", &err) && err.code == FLX_E_NAME);
    CHECK(!flx_trainer_output(r.t, "new_p") && !flx_trainer_output(r.t, "q") && !flx_trainer_output(NULL, "q"));
    flx_tensor_release(p);
    misuse_end(&r);
}

TEST(trainer_refuses_wrong_values)
{
    flx_error err = {0};
    misused r = misuse_begin();
    flx_feed good[] = {{"x", r.two}, {"x", r.two}}, wide = {"x", r.three}, other = {"x", r.ints};
    CHECK_CODE(flx_trainer_step(r.t, good, 1, NULL, &err), FLX_E_MISSING_INPUT, &err);
    CHECK(strstr(err.message, "'k'"));
    CHECK_CODE(flx_trainer_step(r.t, &(flx_feed){"xx", r.two}, 1, NULL, &err), FLX_E_NAME, &err);
    CHECK_MSG(strstr(err.hint, "its inputs: ") && !strstr(err.hint, "p,") && !strstr(err.hint, "state"), "%s",
              err.hint);
    CHECK_OK(flx_trainer_set_param(r.t, "p", r.two, &err), &err);
    CHECK_OK(flx_trainer_set_param(r.t, "k", r.ints, &err), &err);
    CHECK_CODE(flx_trainer_step(r.t, NULL, 0, NULL, &err), FLX_E_MISSING_INPUT, &err);
    CHECK(strstr(err.message, "'x'"));
    CHECK_CODE(flx_trainer_step(r.t, good, 2, NULL, &err), FLX_E_DUP_NAME, &err);
    CHECK_CODE(flx_trainer_step(r.t, &wide, 1, NULL, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_trainer_step(r.t, &other, 1, NULL, &err), FLX_E_DTYPE, &err);
    CHECK_CODE(flx_trainer_step(r.t, &(flx_feed){"p", r.two}, 1, NULL, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_trainer_step(r.t, &(flx_feed){"q", r.two}, 1, NULL, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_trainer_step(r.t, &(flx_feed){"x", NULL}, 1, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_trainer_step(NULL, NULL, 0, NULL, &err), FLX_E_USAGE, &err);
    CHECK_OK(flx_trainer_step(r.t, good, 1, NULL, &err), &err);
    flx_tensor *next = flx_trainer_param(r.t, "p", &err);
    CHECK_NEAR(flx_tensor_get(next, 0), 0, 0);
    CHECK_NEAR(flx_tensor_get(next, 1), 0, 0);
    flx_tensor_release(next);
    misuse_end(&r);
}

/* ---- Memory that runs out ---- */

static flx_code train_once(fault *f)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f});
    flx_error err = {0};
    flx_code code = FLX_E_OOM;
    flx_trainer *t = NULL;
    flx_graph *g = ctx ? flx_graph_new(ctx, "f") : NULL;
    if (g) {
        flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){3});
        flx_val p = flx_param(g, "p", &type);
        flx_output(g, flx_reduce_sum(g, flx_mul(g, p, p), FLX_ALL, 0), "loss");
        flx_compile_options c = {.flags = FLX_COMPILE_INTERPRET, .threads = 1};
        t = flx_compile_training(g, &(flx_train_options){.optimiser = FLX_ADAM, .clip_norm = 1}, &c, &err);
        code = t ? FLX_OK : (flx_code)err.code;
        CHECK(t || (err.code && err.message[0]));
        flx_tensor *v = t ? flx_tensor_new(ctx, &type, (float[]){1, 2, 3}, &err) : NULL;
        if (t)
            code = v ? flx_trainer_set_param(t, "p", v, &err) : FLX_E_OOM;
        if (code == FLX_OK)
            code = flx_trainer_step(t, NULL, 0, NULL, &err);
        flx_tensor_release(v);
    }
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
    return code;
}

TEST(trainer_survives_any_failed_allocation)
{
    fault whole_run = {0};
    CHECK(train_once(&whole_run) == FLX_OK && fault_is_clean(&whole_run));
    for (size_t n = 1; n <= whole_run.calls; n++) {
        fault f = {.fail_at = n};
        test_fail_context("request %zu of %zu", n, whole_run.calls);
        flx_code code = train_once(&f);
        CHECK_MSG(code == FLX_E_OOM || code == FLX_OK, "%s", flx_code_name(code));
        CHECK(fault_is_clean(&f));
    }
}

/* ---- Traces ---- */

/* A step that is traced has times, and is not taken. */
TEST(trainer_trace_leaves_the_trainer_as_it_is)
{
    enum { STEPS = 64, EVENTS = 256 };
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, first_to_last, FLX_F32);
    const flx_train_options o = {.struct_size = sizeof o, .optimiser = FLX_ADAM, .clip_norm = 1};
    flx_trainer *t = flx_compile_training(g, &o, NULL, &err);
    CHECK_MADE(t, &err);
    uint64_t seed = 3;
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){64, 24});
    const flx_feed feed = {"x", trainee_random(ctx, &type, &seed)};
    double losses[3];
    CHECK_OK(flx_trainer_step(t, &feed, 1, &losses[0], &err), &err);
    flx_step_time steps[STEPS];
    flx_step_event events[EVENTS];
    flx_run_trace trace = {.steps = steps, .step_capacity = STEPS, .events = events, .event_capacity = EVENTS};
    flx_tensor *before = flx_trainer_param(t, "w2", &err), *after = NULL;
    CHECK_OK(flx_trainer_trace(t, &feed, 1, &trace, &err), &err);
    CHECK(trace.num_steps > 0 && trace.num_events > 0);
    after = flx_trainer_param(t, "w2", &err);
    CHECK(memcmp(flx_tensor_const_data(before), flx_tensor_const_data(after), flx_tensor_nbytes(before)) == 0);
    CHECK_OK(flx_trainer_step(t, &feed, 1, &losses[1], &err), &err);
    CHECK(flx_trainer_trace(NULL, &feed, 1, &trace, &err) == FLX_E_USAGE);
    CHECK(flx_trainer_trace(t, NULL, 0, &trace, &err) == FLX_E_MISSING_INPUT);
    CHECK_OK(flx_trainer_step(t, &feed, 1, &losses[2], &err), &err);

    flx_trainer *same = flx_compile_training(g, &o, NULL, &err); /* without traces */
    for (int i = 0; i < 3; i++) {
        double loss;
        CHECK_OK(flx_trainer_step(same, &feed, 1, &loss, &err), &err);
        CHECK(loss == losses[i]);
    }
    flx_trainer_free(same);
    flx_tensor_release(before);
    flx_tensor_release(after);
    flx_tensor_release((flx_tensor *)feed.value);
    flx_trainer_free(t);
    flx_graph_release(g);
    flx_context_free(ctx);
}
