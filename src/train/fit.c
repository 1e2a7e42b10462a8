/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c: a loop over epochs: steps, means of metrics, validation, early stopping, and the best parameters. */
#include "train/params.h"
#include "train/train.h"

#include "base/options.h"

#include <fluxion/data.h>
#include <fluxion/ops.h>
#include <math.h>
#include <time.h>

/* Weighted means of the scalars among some outputs. */
typedef struct {
    flx_metric *at;
    size_t *output; /* by metric */
    size_t n;
    double weight;
} means;

typedef struct {
    flx_trainer *t;
    flx_fit_options o;
    flx_fit_result r;
    flxi_arena arena;
    double begin;
    means training, validation;
    flx_exec *exec;       /* of the validation graph */
    flx_tensor **outputs; /* of a validation run */
    size_t num_outputs;
    flx_tensor **best; /* by parameter: its value at the end of the best epoch */
    flx_progress p;
    double last;        /* when the step before ended */
    double first;       /* when the first step ended, which also compiles and says nothing about the others */
    int64_t epoch_size; /* steps of an epoch; 0: not known yet */
    bool is_ended;
    flx_error *err;
} fit_work;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Means ---- */

static bool is_metric(const flx_type *t)
{
    return t && t->rank == 0 && flxi_is_float(t->dtype);
}

static flx_code make_means(fit_work *w, means *m, const flx_graph *g, size_t num_outputs)
{
    m->at = flxi_new(&w->arena, flx_metric, num_outputs);
    m->output = flxi_new(&w->arena, size_t, num_outputs);
    if (!m->at || !m->output)
        return flxi_oom(w->err, "metrics");
    for (size_t i = 0; i < num_outputs; i++)
        if (is_metric(flx_val_type(g, flx_graph_output(g, i)))) {
            m->at[m->n].name = flx_graph_output_name(g, i);
            m->output[m->n++] = i;
        }
    return FLX_OK;
}

static void clear_means(means *m)
{
    m->weight = 0;
    for (size_t i = 0; i < m->n; i++)
        m->at[i].value = 0;
}

/* mean += (value - mean) weight / sum of weights. */
static void add_value(means *m, size_t i, double value, double weight)
{
    double share = weight / (m->weight + weight);
    m->at[i].value += (value - m->at[i].value) * share;
}

static double weight_of(const flx_batch *b)
{
    if (b->examples > 0)
        return (double)b->examples;
    const flx_type *t = b->num_feeds ? flx_tensor_type(b->feeds[0].value) : NULL;
    return t && t->rank && t->dims[0] > 0 ? (double)t->dims[0] : 1;
}

/* ---- Batches ---- */

/* 1: there is a batch; 0: the epoch is over; -1: failed. */
static int next_batch(fit_work *w, flx_batch_fn fn, void *user, int64_t epoch, int64_t index, flx_batch *b)
{
    *b = (flx_batch){0};
    w->err->code = 0;
    int got = fn(user, epoch, index, b, w->err);
    if (got < 0 && !w->err->code)
        flxi_fail(w->err, FLX_E_USAGE, "flx_fit: the source of batches failed");
    if (got > 0 && b->num_feeds && !b->feeds) {
        flxi_fail(w->err, FLX_E_USAGE, "flx_fit: a batch has no feeds");
        got = -1;
    }
    return got < 0 ? -1 : got > 0;
}

/* ---- Progress ---- */

/* How many steps there will be, from the loader or from the first epoch. */
static int64_t steps_of_all(const fit_work *w)
{
    int64_t size = w->epoch_size;
    if (!size && w->o.next == flx_loader_batch)
        size = flx_loader_batches(w->o.next_user);
    int64_t all = size && w->o.epochs <= INT64_MAX / size ? size * w->o.epochs : INT64_MAX;
    if (w->o.max_steps && w->o.max_steps < all)
        all = w->o.max_steps;
    return all == INT64_MAX ? 0 : all;
}

/* After a step: means that follow slowly. */
static void measure(fit_work *w, double loss, double examples)
{
    flx_progress *p = &w->p;
    double now = seconds_now(), taken = now - w->last;
    double speed = taken > 0 ? examples * (double)(w->o.tokens ? w->o.tokens : 1) / taken : p->speed;
    int64_t after_first = w->r.steps - 1;
    p->num_steps = steps_of_all(w);
    if (after_first == 0)
        w->first = now;
    p->recent_loss = after_first == 0 || !isfinite(p->recent_loss) ? loss : 0.9 * p->recent_loss + 0.1 * loss;
    p->speed = after_first == 0 ? 0 : p->speed == 0 ? speed : 0.95 * p->speed + 0.05 * speed;
    p->seconds_left = after_first > 0 && p->num_steps
                          ? (now - w->first) / (double)after_first * (double)(p->num_steps - w->r.steps)
                          : NAN;
    w->last = now;
}

static void report(fit_work *w, bool is_epoch_end)
{
    w->p.is_epoch_end = is_epoch_end;
    w->p.seconds = seconds_now() - w->begin;
    w->p.rate = flx_trainer_rate(w->t);
    w->p.norm = flx_trainer_norm(w->t);
    if (w->o.progress && w->o.progress(w->o.progress_user, &w->p)) {
        w->is_ended = true;
        w->r.reason = FLX_FIT_BY_CALLBACK;
    }
}

static flx_code take_step(fit_work *w, const flx_batch *b)
{
    flx_run_options run = {.struct_size = sizeof run, .stop = w->o.stop};
    double loss = NAN, weight = weight_of(b);
    flx_code code = flx_trainer_step_with(w->t, &run, b->feeds, b->num_feeds, &loss, w->err);
    bool is_skipped = code == FLX_OK ? flx_trainer_skipped(w->t) : false;
    if (code == FLX_E_NUMERIC && w->o.flags & FLX_FIT_SKIP_NUMERIC) {
        is_skipped = true;
        code = FLX_OK;
    }
    if (code != FLX_OK)
        return code;
    w->r.steps++;
    w->r.skipped += is_skipped;
    for (size_t i = 0; !is_skipped && i < w->training.n; i++)
        add_value(&w->training, i, flx_tensor_get(flx_trainer_output(w->t, w->training.at[i].name), 0), weight);
    w->training.weight += is_skipped ? 0 : weight;
    w->p.step++;
    w->p.total_steps = w->r.steps;
    w->p.examples += (int64_t)weight;
    w->p.loss = loss;
    measure(w, loss, weight);
    report(w, false);
    return FLX_OK;
}

static bool is_over(const fit_work *w)
{
    return w->is_ended || (w->o.max_steps && w->r.steps >= w->o.max_steps);
}

/* ---- Validation ---- */

static flx_code bind_validation(fit_work *w)
{
    const char *name;
    bool takes_averages = w->o.flags & FLX_FIT_AVERAGES, is_cut = flxi_trainer_training(w->t)->axes;
    flx_params *averages = takes_averages ? flx_trainer_averages(w->t) : NULL;
    flx_params *whole = is_cut ? flx_trainer_whole(w->t, averages != NULL, w->err) : NULL;
    flx_code code = is_cut && !whole ? (flx_code)w->err->code : FLX_OK;
    for (size_t i = 0; code == FLX_OK && (name = flx_exec_param_name(w->exec, i)); i++) {
        flx_tensor *value = averages && !whole ? flx_params_find(averages, name) : NULL;
        value = value ? value : flx_params_find(whole ? whole : flx_trainer_params(w->t), name);
        code = value ? flx_exec_share_param(w->exec, name, value, w->err)
                     : flxi_fail(w->err, FLX_E_NAME,
                                 "flx_fit: the trainer has no parameter '%.60s' of the validation graph", name);
    }
    flx_params_release(whole);
    return code;
}

static flx_code make_validation(fit_work *w)
{
    const flx_graph *g = w->o.validation;
    const flx_compile_options flush = {
        .struct_size = sizeof flush, .flags = FLX_COMPILE_FLUSH, .device = flxi_trainer_device(w->t)};
    if (!g)
        return FLX_OK;
    FLXI_TRY(flx_graph_error(g, w->err));
    w->num_outputs = flx_graph_output_count(g);
    w->outputs = flxi_new(&w->arena, flx_tensor *, w->num_outputs);
    if (!w->outputs)
        return flxi_oom(w->err, "metrics");
    FLXI_TRY(make_means(w, &w->validation, g, w->num_outputs));
    if (!w->validation.n || w->validation.output[0] != 0)
        return flxi_fail(w->err, FLX_E_NON_SCALAR, "flx_fit: output 0 of the validation graph is not a real scalar");
    w->exec = flx_compile(g, &flush, w->err);
    if (!w->exec)
        return (flx_code)w->err->code;
    return flxi_trainer_training(w->t)->axes ? FLX_OK : bind_validation(w);
}

static flx_code validate(fit_work *w)
{
    flx_run_options run = {.struct_size = sizeof run, .stop = w->o.stop};
    flx_batch b;
    int got;
    clear_means(&w->validation);
    if (flxi_trainer_training(w->t)->axes) /* whole values, from the parts of all processes */
        FLXI_TRY(bind_validation(w));
    for (int64_t i = 0; (got = next_batch(w, w->o.next_validation, w->o.validation_user, w->p.epoch, i, &b)) > 0; i++) {
        double weight = weight_of(&b);
        FLXI_TRY(flx_exec_run(w->exec, &run, b.feeds, b.num_feeds, w->outputs, w->err));
        for (size_t k = 0; k < w->validation.n; k++)
            add_value(&w->validation, k, flx_tensor_get(w->outputs[w->validation.output[k]], 0), weight);
        w->validation.weight += weight;
        for (size_t k = 0; k < w->num_outputs; k++) {
            flx_tensor_release(w->outputs[k]);
            w->outputs[k] = NULL;
        }
    }
    if (got == 0 && w->validation.weight == 0)
        return flxi_fail(w->err, FLX_E_USAGE, "flx_fit: there is no batch to validate");
    return got < 0 ? (flx_code)w->err->code : FLX_OK;
}

/* ---- Epochs ---- */

static flx_code keep_best(fit_work *w)
{
    const flx_params *s = flx_trainer_params(w->t);
    for (size_t i = 0; i < s->entries.n; i++) {
        const flx_tensor *now = s->entries.at[i]->value;
        if (!w->best[i] && !(w->best[i] = flx_tensor_new(s->ctx, &now->type, NULL, w->err)))
            return (flx_code)w->err->code;
        FLXI_TRY(flxi_tensor_fetch(now, w->err));
        if (now->nbytes)
            memcpy(w->best[i]->data, now->data, now->nbytes);
    }
    return FLX_OK;
}

static flx_code restore_best(fit_work *w)
{
    const flx_params *s = flx_trainer_params(w->t);
    for (size_t i = 0; w->best && i < s->entries.n; i++) {
        if (!w->best[i] || !w->best[i]->nbytes)
            continue;
        FLXI_TRY(flxi_tensor_take(s->entries.at[i]->value, w->err));
        memcpy(s->entries.at[i]->value->data, w->best[i]->data, w->best[i]->nbytes);
    }
    return FLX_OK;
}

/* Whether the value is the best so far, and keeps the parameters if it is. */
static flx_code compare(fit_work *w, double value)
{
    w->p.num_validation = w->validation.n;
    w->p.is_best = value < w->r.best_loss - w->o.min_delta;
    if (!w->p.is_best)
        return FLX_OK;
    w->r.best_loss = value;
    w->r.best_epoch = w->p.epoch;
    return w->best ? keep_best(w) : FLX_OK;
}

static flx_code validate_first(fit_work *w)
{
    size_t metrics = w->p.num_metrics;
    w->p.epoch = -1;
    w->p.num_metrics = 0;
    FLXI_TRY(validate(w));
    FLXI_TRY(compare(w, w->validation.at[0].value));
    report(w, true);
    w->p.num_metrics = metrics;
    w->last = seconds_now();
    return FLX_OK;
}

static flx_code end_epoch(fit_work *w)
{
    if (w->exec)
        FLXI_TRY(validate(w));
    for (size_t i = 0; w->training.weight == 0 && i < w->training.n; i++) /* every step was left out */
        w->training.at[i].value = NAN;
    w->r.loss = w->training.at[0].value;
    double value = w->exec ? w->validation.at[0].value : w->r.loss;
    w->r.epochs = w->p.epoch + 1;
    w->epoch_size = w->epoch_size ? w->epoch_size : w->p.step;
    FLXI_TRY(compare(w, value));
    report(w, true);
    w->last = seconds_now(); /* the validation is not part of the next step */
    if (!w->is_ended && w->o.patience && w->p.epoch - w->r.best_epoch >= w->o.patience) {
        w->is_ended = true;
        w->r.reason = FLX_FIT_NO_IMPROVEMENT;
    }
    return FLX_OK;
}

static flx_code run_epoch(fit_work *w, int64_t epoch)
{
    flx_batch b;
    int got = 0;
    clear_means(&w->training);
    w->p.epoch = epoch;
    w->p.step = w->p.examples = 0;
    w->p.is_best = 0;
    w->p.num_validation = 0;
    for (int64_t i = 0; !is_over(w) && (got = next_batch(w, w->o.next, w->o.next_user, epoch, i, &b)) > 0; i++)
        FLXI_TRY(take_step(w, &b));
    if (got < 0)
        return (flx_code)w->err->code;
    if (w->p.step == 0 && !is_over(w))
        return flxi_fail(w->err, FLX_E_USAGE, "flx_fit: epoch %lld has no batch", (long long)epoch);
    return w->p.step ? end_epoch(w) : FLX_OK;
}

static flx_code fit(fit_work *w)
{
    const flx_graph *step = flxi_trainer_graph(w->t);
    FLXI_TRY(make_means(w, &w->training, step, flxi_trainer_results(w->t)));
    FLXI_TRY(make_validation(w));
    if (w->o.flags & FLX_FIT_KEEP_BEST &&
        !(w->best = flxi_new(&w->arena, flx_tensor *, flx_params_count(flx_trainer_params(w->t)))))
        return flxi_oom(w->err, "the best parameters");
    w->p = (flx_progress){.num_epochs = w->o.epochs,
                          .metrics = w->training.at,
                          .num_metrics = w->training.n,
                          .validation = w->validation.at,
                          .num_steps = steps_of_all(w),
                          .seconds_left = NAN,
                          .tokens = w->o.tokens};
    w->last = seconds_now();
    w->r.best_loss = INFINITY;
    flx_code code = w->o.flags & FLX_FIT_VALIDATE_FIRST && w->exec ? validate_first(w) : FLX_OK;
    for (int64_t e = 0; code == FLX_OK && e < w->o.epochs && !is_over(w); e++)
        code = run_epoch(w, e);
    return code == FLX_OK ? restore_best(w) : code;
}

static flx_code check(flx_fit_options *o, const flx_trainer *t, flx_error *err)
{
    if (o->flags & ~(uint32_t)(FLX_FIT_SKIP_NUMERIC | FLX_FIT_KEEP_BEST | FLX_FIT_AVERAGES | FLX_FIT_VALIDATE_FIRST))
        return flxi_fail(err, FLX_E_USAGE, "flx_fit: unknown flags 0x%x", (unsigned)o->flags);
    if (!o->next || (o->validation && !o->next_validation))
        return flxi_fail(err, FLX_E_USAGE, "flx_fit: a source of batches must be given");
    if (o->epochs < 0 || o->max_steps < 0 || o->patience < 0 || o->tokens < 0 || !(o->min_delta >= 0))
        return flxi_fail(err, FLX_E_USAGE,
                         "flx_fit: epochs, max_steps, patience, tokens and min_delta must not be negative");
    if (o->flags & FLX_FIT_AVERAGES && !flx_trainer_averages(t))
        return flxi_fail_hint(err, FLX_E_USAGE, "set flx_train_options.ema", "flx_fit: the trainer has no averages");
    o->epochs = o->epochs ? o->epochs : 1;
    return FLX_OK;
}

flx_code flx_fit(flx_trainer *t, const flx_fit_options *options, flx_fit_result *result, flx_error *err)
{
    flx_error local = {0};
    fit_work w = {.t = t, .begin = seconds_now(), .err = &local};
    if (!t || !options)
        return flxi_fail(err, FLX_E_USAGE, "flx_fit: the trainer and options must be given");
    FLXI_TRY(FLXI_READ_OPTIONS(flx_fit_options, &w.o, options, err));
    FLXI_TRY(check(&w.o, t, err));
    flxi_arena_init(&w.arena, flx_trainer_params(t)->mem);
    flx_code code = fit(&w);
    for (size_t i = 0; w.best && i < flx_params_count(flx_trainer_params(t)); i++)
        flx_tensor_release(w.best[i]);
    flx_exec_free(w.exec);
    flxi_arena_free(&w.arena);
    if (result)
        *result = w.r;
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

flx_val flx_accuracy(flx_graph *g, flx_val logits, flx_val labels)
{
    const flx_type *type = flx_val_type(g, labels), *given = flx_val_type(g, logits);
    flx_val guess = flx_argmax(g, logits, -1, 0, type ? (flx_dtype)type->dtype : FLX_I32);
    const flx_type *guessed = flx_val_type(g, guess);
    bool agrees = type && guessed && type->rank == guessed->rank &&
                  memcmp(type->dims, guessed->dims, (size_t)type->rank * sizeof *type->dims) == 0;
    if (type && given && guessed && !agrees) {
        flxi_type_text text[2];
        flxi_graph_failf(g, FLX_E_SHAPE, "labels have the shape of logits without its last axis",
                         "flx_accuracy: logits are %s, but labels are %s", flxi_type_str(g->ctx, given, &text[0]),
                         flxi_type_str(g->ctx, type, &text[1]));
        return FLX_NONE;
    }
    return flx_reduce_mean(g, flx_cast(g, flx_eq(g, guess, labels), FLX_F32), FLX_ALL, 0);
}
