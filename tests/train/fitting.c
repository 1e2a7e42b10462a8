/* SPDX-License-Identifier: Apache-2.0 */
/* fitting.c: the loop over epochs: which batches it takes, what it reports, when it ends, and what is left then. */
#include "trainee.h"

#include <fluxion/data.h>
#include <fluxion/nn.h>
#include <math.h>
#include <string.h>

enum { EXAMPLES = 22, BATCH = 8 };

/* Points in the plane whose label is the sign of x + y; the last batch of an epoch is smaller. */
typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_tensor *x[3], *label[3];
    flx_feed feeds[2];
    int64_t asked, fails_at, bad_at;
} task;

static flx_graph *build(flx_context *ctx)
{
    flx_graph *g = flx_graph_new(ctx, "task");
    flx_dim n = flx_dim_symbol(ctx, "N");
    const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 2}), lt = flx_type_make(FLX_I32, 1, &n);
    flx_val x = flx_input(g, "x", &xt), label = flx_input(g, "label", &lt);
    flx_val z = flx_nn_mlp(g, "net", x, (const int64_t[]){8, 2}, 2, "tanh");
    flx_output(g, flx_nn_cross_entropy(g, z, label, 0), "loss");
    flx_output(g, flx_accuracy(g, z, label), "accuracy");
    flx_output(g, z, "z");
    return g;
}

static void begin(task *k)
{
    uint64_t seed = 11;
    flx_error err = {0};
    *k = (task){.ctx = flx_context_new(NULL), .fails_at = -1, .bad_at = -1};
    k->g = build(k->ctx);
    CHECK_OK(flx_graph_error(k->g, &err), &err);
    for (int b = 0; b < 3; b++) {
        int64_t n = b < 2 ? BATCH : EXAMPLES - 2 * BATCH;
        const flx_type xt = flx_type_make(FLX_F32, 2, (flx_dim[]){n, 2}), lt = flx_type_make(FLX_I32, 1, &n);
        k->x[b] = trainee_random(k->ctx, &xt, &seed);
        k->label[b] = flx_tensor_new(k->ctx, &lt, NULL, NULL);
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)flx_tensor_data(k->label[b]))[i] =
                flx_tensor_get(k->x[b], 2 * i) + flx_tensor_get(k->x[b], 2 * i + 1) > 0;
    }
}

static void end(task *k)
{
    for (int b = 0; b < 3; b++) {
        flx_tensor_release(k->x[b]);
        flx_tensor_release(k->label[b]);
    }
    flx_graph_release(k->g);
    flx_context_free(k->ctx);
}

static int next(void *user, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err)
{
    task *k = user;
    if (index == 3)
        return 0;
    if (k->asked++ == k->fails_at) {
        err->code = FLX_E_IO;
        return -1;
    }
    k->feeds[0] = (flx_feed){"x", k->x[(index + epoch) % 3]};
    k->feeds[1] = (flx_feed){"label", k->label[(index + epoch) % 3]};
    *batch = (flx_batch){.feeds = k->feeds, .num_feeds = 2};
    return 1;
}

static flx_trainer *trainer(const task *k, const flx_train_options *o)
{
    flx_error err = {0};
    flx_trainer *t = flx_compile_training(k->g, o, &(flx_compile_options){.optimisation = 1}, &err);
    CHECK_MADE(t, &err);
    return t;
}

typedef struct {
    int64_t steps, epochs, stop_after;
    double sum, weight; /* of the losses of an epoch */
    double accuracy, validation;
} seen;

static int watch(void *user, const flx_progress *p)
{
    seen *s = user;
    if (p->is_epoch_end) {
        s->epochs++;
        CHECK_EQ_I64(p->epoch + 1, s->epochs);
        CHECK(p->examples == EXAMPLES || s->stop_after);
        CHECK_NEAR(p->metrics[0].value, s->sum / s->weight, 1e-6);
        CHECK(p->num_metrics == 2 && strcmp(p->metrics[0].name, "loss") == 0 &&
              strcmp(p->metrics[1].name, "accuracy") == 0);
        s->accuracy = p->metrics[1].value;
        s->validation = p->num_validation ? p->validation[0].value : NAN;
        s->sum = s->weight = 0;
        return 0;
    }
    s->steps++;
    CHECK(p->total_steps == s->steps && p->step >= 1 && p->step <= 3 && p->seconds >= 0 && p->rate > 0 && p->norm > 0);
    double n = (p->step - 1 + p->epoch) % 3 == 2 ? EXAMPLES - 2 * BATCH : BATCH;
    s->sum += n * p->loss;
    s->weight += n;
    return s->stop_after && s->steps >= s->stop_after;
}

TEST(fit_trains_for_epochs_and_reports)
{
    task k;
    begin(&k);
    flx_error err = {0};
    flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.05, .ema = 0.5};
    flx_trainer *t = trainer(&k, &adam);
    seen s = {0};
    flx_fit_result r;
    flx_fit_options o = {.struct_size = sizeof o,
                         .next = next,
                         .next_user = &k,
                         .epochs = 30,
                         .progress = watch,
                         .progress_user = &s,
                         .validation = k.g,
                         .next_validation = next,
                         .validation_user = &k};
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    CHECK(r.reason == FLX_FIT_DONE && r.epochs == 30 && r.steps == 90 && r.skipped == 0 && s.epochs == 30);
    CHECK_MSG(s.accuracy > 0.9 && r.loss < 0.3, "accuracy %g, loss %g", s.accuracy, r.loss);
    CHECK(r.best_epoch >= 20 && r.best_loss <= s.validation);
    /* The validated loss is that of the parameters after the epoch. */
    o.epochs = 1;
    o.flags = FLX_FIT_AVERAGES;
    s = (seen){.stop_after = 0};
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    flx_exec *e = flx_compile(k.g, NULL, &err);
    CHECK_MADE(e, &err);
    CHECK_OK(flx_params_bind(flx_trainer_averages(t), e, &err), &err);
    double sum = 0;
    for (int b = 0; b < 3; b++) {
        flx_tensor *out[3];
        const flx_feed feeds[] = {{"x", k.x[b]}, {"label", k.label[b]}};
        CHECK_OK(flx_exec_run(e, NULL, feeds, 2, out, &err), &err);
        sum += flx_tensor_get(out[0], 0) * (double)flx_tensor_type(k.label[b])->dims[0];
        for (int i = 0; i < 3; i++)
            flx_tensor_release(out[i]);
    }
    CHECK_NEAR(s.validation, sum / EXAMPLES, 1e-6);
    flx_exec_free(e);
    flx_trainer_free(t);
    end(&k);
}

TEST(fit_ends_when_it_is_told_to)
{
    task k;
    begin(&k);
    flx_error err = {0};
    flx_train_options sgd = {.struct_size = sizeof sgd, .rate = 1e-12};
    flx_trainer *t = trainer(&k, &sgd);
    seen s = {.stop_after = 4};
    flx_fit_result r;
    flx_fit_options o = {
        .struct_size = sizeof o, .next = next, .next_user = &k, .epochs = 50, .progress = NULL, .patience = 3};
    CHECK_OK(flx_fit(t, &o, &r, &err), &err); /* a rate of nearly 0: no improvement by more than min_delta */
    CHECK(r.epochs <= 50);
    o.min_delta = 0.01;
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    CHECK(r.reason == FLX_FIT_NO_IMPROVEMENT && r.epochs == 4 && r.best_epoch == 0);
    o.max_steps = 5;
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    CHECK(r.reason == FLX_FIT_DONE && r.steps == 5 && r.epochs == 2);
    o.max_steps = 0;
    o.progress = watch;
    o.progress_user = &s;
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    CHECK(r.reason == FLX_FIT_BY_CALLBACK && r.steps == 4);
    o.progress = NULL;
    k.asked = 0;
    k.fails_at = 4;
    CHECK_CODE(flx_fit(t, &o, &r, &err), FLX_E_IO, &err);
    CHECK_EQ_I64(r.steps, 4);
    flx_stop *stop = flx_stop_new(k.ctx, 0, &err);
    flx_stop_request(stop);
    o.stop = stop;
    CHECK_CODE(flx_fit(t, &o, NULL, &err), FLX_E_CANCELLED, &err);
    flx_stop_free(stop);
    flx_trainer_free(t);
    end(&k);
}

/* The loss grows with a rate that is far too large: the best epoch is an early one. */
TEST(fit_keeps_the_best_parameters)
{
    task k;
    begin(&k);
    flx_error err = {0};
    flx_graph *rising = NULL;
    const char text[] = "graph s(i: f32[]) { return where(lt(i, 9.0), 1.0, 200.0) }\n";
    rising = trainee_graph(k.ctx, text, FLX_F32);
    flx_train_options o = {.struct_size = sizeof o, .optimiser = FLX_ADAM, .rate = 0.05, .schedule = rising};
    flx_trainer *t = trainer(&k, &o), *again = trainer(&k, &o);
    flx_fit_result r;
    flx_fit_options f = {.struct_size = sizeof f,
                         .flags = FLX_FIT_KEEP_BEST,
                         .next = next,
                         .next_user = &k,
                         .epochs = 6,
                         .validation = k.g,
                         .next_validation = next,
                         .validation_user = &k};
    CHECK_OK(flx_fit(t, &f, &r, &err), &err);
    CHECK_MSG(r.best_epoch < 5, "%d", (int)r.best_epoch);
    f.flags = 0;
    f.epochs = r.best_epoch + 1;
    CHECK_OK(flx_fit(again, &f, NULL, &err), &err);
    for (size_t i = 0; i < flx_params_count(flx_trainer_params(t)); i++) {
        const flx_tensor *a = flx_params_at(flx_trainer_params(t), i), *b = flx_params_at(flx_trainer_params(again), i);
        CHECK(memcmp(flx_tensor_const_data(a), flx_tensor_const_data(b), flx_tensor_nbytes(a)) == 0);
    }
    flx_trainer_free(t);
    flx_trainer_free(again);
    flx_graph_release(rising);
    end(&k);
}

TEST(fit_leaves_out_batches_that_are_not_finite)
{
    task k;
    begin(&k);
    flx_error err = {0};
    flx_trainer *t = trainer(&k, NULL);
    flx_fit_options o = {.struct_size = sizeof o, .next = next, .next_user = &k, .epochs = 2};
    flx_fit_result r;
    ((float *)flx_tensor_data(k.x[1]))[3] = NAN;
    CHECK_CODE(flx_fit(t, &o, &r, &err), FLX_E_NUMERIC, &err);
    CHECK(r.steps == 1 && r.skipped == 0);
    o.flags = FLX_FIT_SKIP_NUMERIC;
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    CHECK(r.steps == 6 && r.skipped == 2 && isfinite(r.loss));
    flx_trainer_free(t);
    end(&k);
}

static int nothing(void *user, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err)
{
    (void)user, (void)epoch, (void)index, (void)batch, (void)err;
    return 0;
}

TEST(fit_refuses_wrong_options)
{
    task k;
    begin(&k);
    flx_error err = {0};
    flx_trainer *t = trainer(&k, NULL);
    const flx_fit_options good = {.struct_size = sizeof good, .next = next, .next_user = &k};
    flx_graph *other = trainee_graph(k.ctx, "graph f(param q: f32[]) { return q }\n", FLX_F32);
    flx_graph *wide = trainee_graph(k.ctx, "graph f(x: f32[N, 2]) { return x }\n", FLX_F32);
    struct {
        flx_fit_options o;
        flx_code code;
    } rows[] = {{good, FLX_E_USAGE}, {good, FLX_E_USAGE}, {good, FLX_E_USAGE},      {good, FLX_E_USAGE},
                {good, FLX_E_USAGE}, {good, FLX_E_NAME},  {good, FLX_E_NON_SCALAR}, {good, FLX_E_USAGE}};
    rows[0].o.next = NULL;
    rows[1].o.flags = 64;
    rows[2].o.epochs = -1;
    rows[3].o.validation = k.g;
    rows[4].o.flags = FLX_FIT_AVERAGES;
    rows[5].o.validation = other;
    rows[5].o.next_validation = next;
    rows[6].o.validation = wide;
    rows[6].o.next_validation = next;
    rows[7].o.next = nothing;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_fail_context("row %zu", i);
        CHECK_CODE(flx_fit(t, &rows[i].o, NULL, &err), rows[i].code, &err);
    }
    CHECK_CODE(flx_fit(NULL, &good, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_fit(t, NULL, NULL, &err), FLX_E_USAGE, &err);
    flx_graph_release(other);
    flx_graph_release(wide);
    flx_trainer_free(t);
    end(&k);
}

/* An epoch of the fit is one of the loader, the first one the rest of that which it is in; a loader of one epoch begins
   again, as validation needs it. */
TEST(fit_takes_the_epochs_of_a_loader)
{
    task k;
    flx_error err = {0};
    begin(&k);
    flx_dataset *d = flx_dataset_new(k.ctx, &err);
    CHECK_OK(flx_dataset_add(d, "x", k.x[0], &err), &err);
    CHECK_OK(flx_dataset_add(d, "label", k.label[0], &err), &err);
    flx_loader *l = flx_loader_new(d, &(flx_loader_options){.batch = 3}, &err);
    flx_loader *once = flx_loader_new(d, &(flx_loader_options){.batch = 3, .epochs = 1}, &err);
    CHECK_OK(flx_loader_seek(l, 0, 3, &err), &err);
    flx_trainer *t = trainer(&k, NULL);
    flx_fit_result r;
    const flx_fit_options o = {.struct_size = sizeof o,
                               .next = flx_loader_batch,
                               .next_user = l,
                               .epochs = 3,
                               .validation = k.g,
                               .next_validation = flx_loader_batch,
                               .validation_user = once};
    CHECK_OK(flx_fit(t, &o, &r, &err), &err);
    CHECK_EQ_I64(r.epochs, 3);
    CHECK_EQ_I64(r.steps, 2 + 3 + 3); /* of 8 rows three at a time */
    flx_batch batch;
    CHECK_EQ_I64(flx_loader_batch(NULL, 0, 0, &batch, &err), -1);
    flx_trainer_free(t);
    flx_loader_free(l);
    flx_loader_free(once);
    flx_dataset_free(d);
    end(&k);
}

/* What each step and epoch says. */
typedef struct {
    int steps, epochs;
    char first[160], last[160], epoch[160];
} said;

static int listen(void *user, const flx_progress *p)
{
    said *s = user;
    char text[160];
    CHECK(flx_progress_text(p, p->is_epoch_end ? 0 : 10, text, sizeof text) == text);
    memcpy(p->is_epoch_end ? s->epoch : s->steps == 0 ? s->first : s->last, text, sizeof text);
    s->steps += !p->is_epoch_end;
    s->epochs += p->is_epoch_end;
    CHECK(p->is_epoch_end || p->num_steps == 6);
    CHECK(p->total_steps < 2 || (p->speed > 0 && p->seconds_left >= 0));
    return 0;
}

TEST(fit_progress_in_words)
{
    task k;
    said s = {0};
    flx_error err = {0};
    begin(&k);
    flx_trainer *t = flx_compile_training(k.g, NULL, NULL, &err);
    flx_dataset *d = flx_dataset_new(k.ctx, &err);
    CHECK_OK(flx_dataset_add(d, "x", k.x[0], &err), &err);
    CHECK_OK(flx_dataset_add(d, "label", k.label[0], &err), &err);
    const flx_loader_options three = {.struct_size = sizeof three, .batch = 3};
    flx_loader *l = flx_loader_new(d, &three, &err);
    const flx_fit_options o = {.struct_size = sizeof o,
                               .next = flx_loader_batch,
                               .next_user = l,
                               .epochs = 2,
                               .progress = listen,
                               .progress_user = &s,
                               .tokens = 7};
    CHECK_OK(flx_fit(t, &o, NULL, &err), &err);
    CHECK(s.steps == 6 && s.epochs == 2);
    CHECK(strncmp(s.first, "[#.........] step 1 of 6  loss ", 31) == 0 && !strstr(s.first, "left"));
    CHECK(strncmp(s.last, "[##########] step 6 of 6  loss ", 31) == 0);
    CHECK(strstr(s.last, " tokens/s  0:00 left") != NULL);
    CHECK(strncmp(s.epoch, "epoch 2: loss ", 14) == 0 && strstr(s.epoch, ", accuracy ") != NULL);
    char cut[12] = "";
    const flx_progress p = {.total_steps = 123456789, .recent_loss = 1, .seconds_left = 7265};
    CHECK_EQ_STR(flx_progress_text(&p, 0, cut, sizeof cut), "step 123456");
    char whole[80];
    CHECK_EQ_STR(flx_progress_text(&p, 24, whole, sizeof whole), "step 123456789  loss 1.0000  2:01:05 left");
    flx_loader_free(l);
    flx_dataset_free(d);
    flx_trainer_free(t);
    end(&k);
}
