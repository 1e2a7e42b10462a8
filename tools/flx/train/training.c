/* SPDX-License-Identifier: Apache-2.0 */
/* training.c: a training from the plan to the files it leaves. Whatever ends it, the last complete step is in the
   checkpoint: the end, Ctrl-C, a loss that is not finite, data that cannot be read. */
#include "train/training.h"

#include "compiling.h"
#include "interrupt.h"
#include "io/load.h"
#include "io/profile_table.h"
#include "report.h"
#include "train/data/data_check.h"
#include "train/data/share.h"
#include "train/outcome/layer_norms.h"
#include "train/outcome/outcome.h"
#include "train/outcome/progress.h"
#include "train/run_folder.h"
#include "train/start.h"

#include <fluxion/mesh.h>
#include <fluxion/stop.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_POINTS = 4000, TIMED_STEPS = 5, MOST_BETWEEN = 64 };

/* What only some rank knows, the clock of the first one and signals, all must do after the same step: they exchange it
   now and then, about once in a second. */
typedef struct {
    int64_t next; /* the step after which they do */
    double begin; /* when they did … */
    int64_t step; /* … and the step */
    bool saves, ends;
} talk;

typedef struct {
    const train_plan *p;
    const training_request *request;
    start_values start;
    flx_trainer *trainer;
    flx_loader *loader, *validation;
    batches batches;
    share_part part;         /* of the last batch, if processes share it */
    run_position at, before; /* after the last complete step; before the batch that came after it */
    int64_t epoch_now;       /* of the loader, when the fit began this epoch … */
    int64_t row_then;        /* … and its position then */
    int64_t end;             /* the last step of this run */
    flx_params *best;        /* weights of the best epoch, or NULL */
    progress progress;
    flx_report *report;
    int64_t every;       /* steps between two points of a curve */
    int64_t every_epoch; /* … and epochs */
    double saved;        /* when the checkpoint was written, in seconds … */
    int64_t saved_step;  /* … and the step that it has */
    talk talk;           /* of a step that is cut */
    bool names_step;     /* a signal says in which step it came … */
    char named[2][100];  /* … in one of these, in turn */
    int status;          /* of what failed in a callback */
    int lock;            /* of the folder; -1: none */
} training;

/* ---- Batches ---- */

/* 1: a batch, 0: none is left, -1: failed. */
static int take_batch(training *t, flx_loader *l, const flx_graph *g, flx_batch *batch, flx_error *err)
{
    int got = batches_next(&t->batches, l, g, err);
    *batch = (flx_batch){t->batches.feeds, t->batches.num_feeds, t->batches.examples};
    return got;
}

/* The part of the next batch that this process trains with. */
static int take_part(training *t, flx_batch *batch, flx_error *err)
{
    int got = take_batch(t, t->loader, t->p->loss, batch, err);
    return got > 0 && share_take(&t->part, t->p, batch, err) != FLX_OK ? -1 : got;
}

static int next_batch(void *user, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err)
{
    training *t = user;
    int64_t at, row;
    (void)epoch;
    flx_loader_position(t->loader, &at, &row);
    if (index == 0) {
        t->epoch_now = at;
        t->row_then = row;
    }
    t->before = t->at;
    t->before.epoch = at;
    t->before.row = row;
    if (at != t->epoch_now)
        return 0;
    flx_mesh_set_step(t->p->model.ctx, t->at.step + 1);
    return take_part(t, batch, err);
}

static int next_validation(void *user, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err)
{
    training *t = user;
    (void)epoch;
    if (index == 0 && flx_loader_seek(t->validation, 0, 0, err) != FLX_OK)
        return -1;
    return take_batch(t, t->validation, t->p->validated, batch, err);
}

/* ---- After steps and epochs ---- */

static void point(training *t, const char *series, double value)
{
    flx_error err = {0};
    if (!t->status && flx_report_add_value(t->report, series, t->at.step, value, &err) != FLX_OK)
        t->status = report(&err, NULL);
}

static void points(training *t, const char *kind, const flx_metric *metrics, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[200];
        snprintf(name, sizeof name, "%.100s/%s", progress_name(&metrics[i]), kind);
        point(t, name, metrics[i].value);
    }
}

/* The step is cut for a mesh: all ranks save, or none. */
static bool is_cut(const training *t)
{
    return t->p->options.mesh != NULL;
}

/* Ranks of a step that is cut end together. If one has died they cannot, and are ended while they wait for it: so a
   signal says at once in which step it comes, in the first process or, if that is the one, in the second. */
static void name_step(training *t)
{
    char *text = t->named[t->at.step % 2];
    int64_t rank = flx_mesh_rank(t->p->model.ctx);
    if (!t->names_step || rank > 1)
        return;
    snprintf(text, sizeof t->named[0], "note: rank %lld got a signal to end in step %lld\n", (long long)rank,
             (long long)t->at.step + 1);
    interrupt_say(text);
}

static void save(training *t)
{
    if (!t->status && (is_cut(t) || share_writes(t->p)))
        t->status = run_folder_save(t->request->folder, t->p, t->trainer, &t->at);
    t->saved = clock_seconds();
    t->saved_step = t->at.step;
    t->talk.saves = false;
}

/* How many steps of the present speed take a second. */
static int32_t steps_ahead(const training *t)
{
    double steps = (double)(t->at.step - t->talk.step) / (clock_seconds() - t->talk.begin + 1e-9);
    return steps < 1 ? 1 : steps > MOST_BETWEEN ? MOST_BETWEEN : (int32_t)steps;
}

static void listen(training *t)
{
    int32_t word = 4 * steps_ahead(t) + 2 * (clock_seconds() - t->saved > 60) + interrupt_is_caught();
    if (!is_cut(t) || t->status || t->at.step < t->talk.next)
        return;
    t->status = share_number(t->p, 1, &word);
    t->talk = (talk){.next = t->at.step + word / 4,
                     .begin = clock_seconds(),
                     .step = t->at.step,
                     .saves = word & 2,
                     .ends = word & 1};
}

/* Whether the last checkpoint is a minute old. */
static bool is_old(const training *t)
{
    return is_cut(t) ? t->talk.saves : clock_seconds() - t->saved > 60;
}

/* The end of an epoch saves after its validation: see after_epoch(). */
static bool is_time_to_save(const training *t)
{
    bool is_due = t->p->save_every ? t->at.step % t->p->save_every == 0 : is_old(t);
    return is_due && t->at.row > 0;
}

static void after_step(training *t, const flx_progress *state)
{
    t->at.step++;
    flx_loader_position(t->loader, &t->at.epoch, &t->at.row);
    t->at.is_due = t->validation && t->at.row == 0;
    if (share_writes(t->p))
        progress_step(&t->progress, state);
    if (t->at.step % t->every == 0) {
        point(t, "loss/step", state->loss);
        point(t, "rate", state->rate);
        point(t, "gradient norm/all", state->norm);
        t->status = t->status ? t->status : layer_norms_add(t->trainer, t->at.step, t->report);
        if (state->speed > 0)
            point(t, state->tokens ? "tokens per second" : "examples per second", state->speed);
    }
    listen(t);
    if (is_time_to_save(t))
        save(t);
}

/* Keeps the weights of the best epoch, in memory and in the folder. */
static void keep_best(training *t, double value)
{
    flx_error err = {0};
    flx_params *weights = flx_trainer_whole(t->trainer, 1, &err);
    flx_params_release(t->best);
    t->best = weights;
    t->at.best = value;
    t->at.best_epoch = t->epoch_now + 1;
    if (!weights)
        t->status = report(&err, NULL);
    else if (share_writes(t->p))
        t->status = run_folder_write_weights(t->request->folder, weights);
}

/* Whole epochs are compared, and the end that the settings give, wherever in an epoch it is: so a training that was
   stopped finds the same best one. */
static void after_epoch(training *t, const flx_progress *state)
{
    bool is_over = t->at.epoch > t->epoch_now;
    t->at.is_due = false;
    double value = state->num_validation ? state->validation[0].value : NAN;
    bool counts = state->num_validation && (is_over || t->at.step >= t->p->steps);
    bool is_best = counts && (!t->at.best_epoch || value < t->at.best);
    if (share_writes(t->p))
        progress_epoch(&t->progress, state, t->epoch_now + 1, is_over && t->row_then == 0, is_best);
    if (t->epoch_now % t->every_epoch == 0 || t->at.step >= t->end) {
        points(t, "training", state->metrics, state->num_metrics);
        points(t, "validation", state->validation, state->num_validation);
    }
    if (is_best && !t->status)
        keep_best(t, value);
    if (is_over && (t->p->save_every || is_old(t)))
        save(t);
}

/* Whether the validation has not improved for as many epochs as the plan allows. */
static bool is_patience_over(const training *t)
{
    return t->p->patience && t->at.best_epoch && t->at.epoch - t->at.best_epoch >= t->p->patience;
}

static int on_progress(void *user, const flx_progress *state)
{
    training *t = user;
    if (!state->is_epoch_end)
        after_step(t, state);
    else
        after_epoch(t, state);
    name_step(t);
    return t->status != STATUS_OK || t->talk.ends ||
           (state->is_epoch_end && (is_patience_over(t) || t->at.step >= t->end));
}

/* ---- Before ---- */

static int make_loaders(training *t)
{
    const train_plan *p = t->p;
    flx_error err = {0};
    const flx_loader_options options = {.struct_size = sizeof options,
                                        .flags = FLX_LOADER_PREFETCH | (p->shuffle ? FLX_LOADER_SHUFFLE : 0u) |
                                                 (p->drop_last ? FLX_LOADER_DROP_LAST : 0u),
                                        .batch = p->batch,
                                        .seed = (uint64_t)p->seed};
    const flx_loader_options once = {.struct_size = sizeof once, .batch = p->batch, .epochs = 1};
    int status = batches_begin(&t->batches, p);
    if (status)
        return status;
    t->loader = flx_loader_new(p->data.data, &options, &err);
    if (t->loader && p->validation.data)
        t->validation = flx_loader_new(p->validation.data, &once, &err);
    return t->loader && (t->validation || !p->validation.data) ? STATUS_OK : report(&err, p->settings.file);
}

/* Hints of the library are for programs; here they name settings and the text of a model. */
static void say_as_setting(flx_error *err)
{
    static const struct {
        const char *names, *hint;
    } rows[] = {
        {"FLX_TRAIN_MISSING_ZERO", "let the loss depend on it, or write groups = [freeze(\"NAME\")]"},
        {"example_dim", "give all symbolic dimensions numbers but the one that counts examples"},
        {"flx_specialise", "write numbers for the dimensions of parameters"},
        {"flx_compile_options.dims", "write numbers for the dimensions of parameters"},
        {"flx_param()",
         "declare what is trained with `param`; of a .mlir file: flx import FILE --param INPUT -o m.flx"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(err->hint, rows[i].names)) {
            snprintf(err->hint, sizeof err->hint, "%s", rows[i].hint);
            return;
        }
}

/* A checkpoint has the values of a training that is resumed. */
static int compile(training *t)
{
    flx_error err = {0};
    int status = t->request->resumes ? STATUS_OK : start_read(&t->start, t->p);
    if (status)
        return status;
    flx_compile_options o = {.struct_size = sizeof o,
                             .flags = FLX_COMPILE_FLUSH,
                             .device = t->request->device,
                             .threads = (int32_t)t->p->threads,
                             .memory_budget = t->p->memory};
    flx_train_options options = t->p->options;
    options.flags |= FLX_TRAIN_NORMS;
    if (strcmp(t->request->device, "cpu") != 0) /* other devices have ways to compute them */
        options.flags |= FLX_TRAIN_BACKWARD_OPS;
    options.set = is_cut(t) ? NULL : t->start.set;
    t->trainer = flx_compile_training(t->p->loss, &options, &o, &err);
    if (t->trainer && t->p->memory && share_writes(t->p))
        compiling_tell_memory(flx_trainer_exec(t->trainer));
    if (t->trainer && is_cut(t) && t->start.set)
        status = start_set_parts(&t->start, t->p, t->trainer);
    if (t->trainer)
        return status ? status : share_check(t->p, t->p->loss);
    say_as_setting(&err);
    return report(&err, t->p->model.name);
}

/* Of all ranks together: a trainer whose step is cut has parts. */
static int64_t count_parameters(const training *t)
{
    const flx_graph *g = t->p->loss;
    int64_t sum = 0;
    if (!is_cut(t))
        return flx_params_elements(flx_trainer_params(t->trainer), NULL);
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        const flx_type *type = flx_val_type(g, flx_graph_input(g, i));
        int64_t n = flx_graph_input_is_param(g, i);
        for (int k = 0; k < type->rank; k++)
            n *= type->dims[k];
        sum += n;
    }
    return sum;
}

static void say_beginning(const training *t)
{
    const train_plan *p = t->p;
    const flx_params *set = flx_trainer_params(t->trainer);
    long long numbers = count_parameters(t), rows = flx_dataset_rows(p->data.data);
    size_t tensors = flx_params_count(set);
    printf("%s: %lld %s in %zu %s, %lld %s", p->name, numbers, plural(numbers, "parameter", "parameters"), tensors,
           plural((int64_t)tensors, "tensor", "tensors"), rows, plural(rows, "row", "rows"));
    if (p->validation.data)
        printf(", %lld for validation", (long long)flx_dataset_rows(p->validation.data));
    printf("\n%lld %s of %lld %s with %s\n", (long long)t->end, plural(t->end, "step", "steps"), (long long)p->batch,
           plural(p->batch, "example", "examples"), flx_optimiser_name(p->options.optimiser));
    if (is_cut(t))
        printf("cut for the mesh %s\n", p->mesh);
    if (p->options.accumulate > 1 && p->steps % p->options.accumulate)
        printf("an update every %lld steps: the last %lld %s nothing\n", (long long)p->options.accumulate,
               (long long)(p->steps % p->options.accumulate),
               plural(p->steps % p->options.accumulate, "changes", "change"));
    if (t->start.from)
        printf("weights from %s", t->start.from);
    if (t->start.from && t->start.num_new)
        printf(": %zu of %zu parameters, the others are new", flx_params_count(set) - t->start.num_new,
               flx_params_count(set));
    if (t->start.from)
        printf("\n");
    if (t->every > 1)
        printf("the curves and the log have one step of %lld\n", (long long)t->every);
    fflush(stdout);
}

/* ---- A dry run ---- */

/* Floating-point operations of one step, as far as the ops tell them. */
static int64_t flops_of(const flx_exec *e)
{
    int64_t sum = 0;
    size_t n = compiling_steps(e);
    for (size_t i = 0; i < n; i++) {
        flx_step info;
        if (flx_exec_step(e, i, &info) == FLX_OK)
            sum += info.flops;
    }
    return sum;
}

static void say_estimate(double seconds, bool has_validation)
{
    static const double minute = 60, hour = 3600;
    if (seconds < 2 * minute)
        printf("the training takes about %.3g s", seconds);
    else if (seconds < 2 * hour)
        printf("the training takes about %.0f minutes", seconds / minute);
    else
        printf("the training takes about %.3g hours", seconds / hour);
    printf("%s\n", has_validation ? " without validation" : "");
}

/* Takes some steps, which nothing keeps, to know how long one lasts. */
static int run_dry(training *t)
{
    char text[2][24];
    flx_error err = {0};
    flx_batch batch;
    double best = INFINITY;
    for (int i = 0; i < TIMED_STEPS; i++) {
        double start = clock_seconds();
        if (take_part(t, &batch, &err) < 0 ||
            flx_trainer_step(t->trainer, batch.feeds, batch.num_feeds, NULL, &err) != FLX_OK)
            return report(&err, NULL);
        best = fmin(best, clock_seconds() - start);
    }
    if (!share_writes(t->p))
        return STATUS_OK;
    size_t state = flx_trainer_memory(t->trainer), work = flx_exec_memory(flx_trainer_exec(t->trainer));
    printf("memory: %s: parameters and state %s", scaled_text(text[0], (double)(state + work), "B"),
           scaled_text(text[1], (double)state, "B"));
    printf(", a step works in %s\n", scaled_text(text[0], (double)work, "B"));
    printf("a step: %s, %.3g ms\n", scaled_text(text[0], (double)flops_of(flx_trainer_exec(t->trainer)), "FLOP"),
           1e3 * best);
    say_estimate(best * (double)t->end, t->p->validation.data != NULL);
    return STATUS_OK;
}

/* What is written of a training, whether it came to its end or was stopped. */
static int conclude(training *t, bool is_stopped)
{
    flx_error err = {0};
    if (!share_writes(t->p) && !is_cut(t))
        return t->status;
    flx_params *last = t->best ? NULL : flx_trainer_whole(t->trainer, 1, &err);
    const outcome o = {.p = t->p,
                       .folder = t->request->folder,
                       .trainer = t->trainer,
                       .loader = t->loader,
                       .validation = t->validation,
                       .batches = &t->batches,
                       .report = t->report,
                       .weights = t->best ? t->best : last,
                       .step = t->at.step,
                       .end = t->end,
                       .is_stopped = is_stopped,
                       .trace = t->request->trace};
    save(t);
    int status = t->status ? t->status : !o.weights ? report(&err, NULL) : share_writes(t->p) ? outcome_write(&o) : 0;
    flx_params_release(last);
    return status;
}

/* ---- The training ---- */

/* Which op gave the first value that is not finite: the batch again, with every result checked. */
static int explain_numeric(training *t)
{
    flx_error found = {0};
    const flx_run_options checked = {.struct_size = sizeof checked, .flags = FLX_RUN_CHECK_FINITE};
    int status = fail(FLX_E_NUMERIC, "step %lld: the loss or a gradient is not finite", (long long)t->at.step + 1);
    if (share_is_alone(t->p) &&
        flx_trainer_step_with(t->trainer, &checked, t->batches.feeds, t->batches.num_feeds, NULL, &found) != FLX_OK)
        note("the first value that is not finite: %s", found.message);
    if (t->at.step)
        hint("the checkpoint has the parameters of step %lld; try a lower rate or clip_norm", (long long)t->at.step);
    else
        hint("no step was taken: look at the data, the initialisation and the op that is named");
    return status;
}

/* Ctrl-C and limits have stopped the library; what follows must still be written. */
static int stopped(training *t)
{
    flx_stop_use(NULL);
    int status = conclude(t, true);
    if (!status && share_writes(t->p))
        note("stopped after step %lld; flx train --resume continues", (long long)t->at.step);
    return status ? status : STATUS_SYSTEM;
}

/* What is wrong with a step. An index out of range is in the data: hints about ops do not help. */
static int explain(training *t, flx_error *err)
{
    if (err->code == FLX_E_NUMERIC)
        return explain_numeric(t);
    if (err->code == FLX_E_INDEX)
        snprintf(err->hint, sizeof err->hint,
                 "step %lld: the data has a label or a token for which the model has no class or row",
                 (long long)t->at.step + 1);
    return report(err, NULL);
}

/* The parts of other ranks cannot be had any more: the checkpoint before is the last. */
static int lost(training *t, flx_error *err, bool is_cancelled)
{
    if (is_cancelled)
        flx_stop_use(NULL);
    int status = is_cancelled ? STATUS_SYSTEM : explain(t, err);
    if (share_writes(t->p) && t->saved_step)
        note("stopped in step %lld; the checkpoint has step %lld, and flx train --resume continues there",
             (long long)t->at.step + 1, (long long)t->saved_step);
    else if (share_writes(t->p))
        note("stopped in step %lld; there is no checkpoint yet", (long long)t->at.step + 1);
    return status;
}

/* A first process that has died cannot say in which step: the second one does. */
static void tell_step(const training *t)
{
    if (flx_mesh_rank(t->p->model.ctx) == 1)
        note("rank 1 was stopped in step %lld", (long long)t->at.step + 1);
}

/* What ended the fit before its end. Without a single step there is nothing to keep. */
static int failed(training *t, flx_error *err)
{
    bool is_cancelled =
        err->code == FLX_E_CANCELLED || (err->code == FLX_E_TIMEOUT && share_is_alone(t->p)); /* else of a mesh */
    t->at = t->before;
    if (is_cancelled)
        tell_step(t);
    if (t->at.step == 0)
        return is_cancelled ? STATUS_SYSTEM : explain(t, err);
    if (is_cut(t) && err->code != FLX_E_NUMERIC)
        return lost(t, err, is_cancelled);
    if (is_cancelled)
        return stopped(t);
    int status = explain(t, err);
    conclude(t, true);
    return status;
}

static int nothing_to_do(training *t)
{
    if (share_writes(t->p))
        printf("nothing to do: %lld of %lld %s done%s\n", (long long)t->at.step, (long long)t->end,
               plural(t->end, "step is", "steps are"),
               t->at.step < t->end ? ", and the validation does not improve" : "");
    return conclude(t, false);
}

static flx_code fit_all(training *t, const flx_fit_options *options, flx_error *err)
{
    flx_stop *stop = is_cut(t) ? flx_stop_use(NULL) : NULL; /* a signal ends all ranks after the same step */
    t->names_step = stop && !share_is_alone(t->p);
    name_step(t);
    flx_code code = flx_fit(t->trainer, options, NULL, err);
    interrupt_say(NULL);
    if (stop)
        flx_stop_use(stop);
    return code;
}

static int fit(training *t)
{
    const train_plan *p = t->p;
    flx_error err = {0};
    const flx_fit_options options = {.struct_size = sizeof options,
                                     .flags = (p->options.ema > 0 ? FLX_FIT_AVERAGES : 0u) |
                                              (t->at.is_due ? FLX_FIT_VALIDATE_FIRST : 0u),
                                     .next = next_batch,
                                     .next_user = t,
                                     .epochs = p->epochs - t->at.epoch,
                                     .max_steps = t->end - t->at.step,
                                     .progress = on_progress,
                                     .progress_user = t,
                                     .validation = t->validation ? p->validated : NULL,
                                     .next_validation = t->validation ? next_validation : NULL,
                                     .validation_user = t,
                                     .tokens = p->data.is_text ? p->data.length : 0};
    t->epoch_now = t->at.epoch - t->at.is_due; /* the epoch that is validated first */
    if (!t->at.is_due && (t->at.step >= t->end || is_patience_over(t)))
        return nothing_to_do(t);
    progress_begin(&t->progress, t->end, t->at.step);
    flx_code code = fit_all(t, &options, &err);
    if (share_writes(p))
        progress_end(&t->progress);
    if (t->status)
        return t->status;
    if (code != FLX_OK)
        return failed(t, &err);
    if (t->talk.ends)
        return stopped(t);
    if (is_patience_over(t) && t->at.step < t->end && share_writes(p))
        printf("stopped: no improvement for %lld %s\n", (long long)p->patience, plural(p->patience, "epoch", "epochs"));
    if (t->at.best_epoch && share_writes(p))
        printf("the best epoch is %lld, with a validation loss of %.4f\n", (long long)t->at.best_epoch, t->at.best);
    return conclude(t, false);
}

/* Parameters, state, position, the best weights and the curves so far. */
static int resume(training *t)
{
    flx_error err = {0};
    const char *folder = t->request->folder;
    int status = run_folder_load(folder, t->p, t->trainer, &t->at);
    if (!status && flx_loader_seek(t->loader, t->at.epoch, t->at.row, &err) != FLX_OK)
        status = report(&err, NULL);
    if (!status && t->at.best_epoch) {
        t->best = flx_trainer_whole(t->trainer, 1, &err); /* the same names and types */
        status = t->best ? run_folder_read_weights(folder, t->best) : report(&err, NULL);
    }
    if (!status)
        status = run_folder_read_log(folder, t->at.step, t->report);
    t->saved_step = t->at.step;
    if (!status && is_cut(t) && flx_mesh_agree(t->p->model.ctx, "the step", (uint64_t)t->at.step, &err) != FLX_OK)
        status = report(&err, NULL); /* another rank has not read its parts */
    if (!status && share_writes(t->p))
        printf("resuming after step %lld\n", (long long)t->at.step);
    t->before = t->at;
    return status;
}

static int begin(training *t)
{
    const training_request *r = t->request;
    flx_error err = {0};
    const flx_report_options options = {.struct_size = sizeof options, .title = t->p->name};
    bool writes = share_writes(t->p);
    int status = r->resumes ? run_folder_need_checkpoint(r->folder) : STATUS_OK;
    if (!status && !r->resumes && writes)
        status = run_folder_make(r->folder, r->overwrites);
    if (!status && writes)
        status = run_folder_lock(r->folder, &t->lock);
    if (!status && r->overwrites && writes)
        status = run_folder_clear(r->folder);
    if (!status && writes && is_cut(t))
        status = run_folder_make_parts(r->folder);
    if (!status && writes)
        status = run_folder_describe(r->folder, t->p, r->resumes);
    if (!status && !(t->report = flx_report_new(t->p->model.ctx, &options, &err)))
        status = report(&err, NULL);
    if (!status && r->resumes)
        status = resume(t);
    if (!status && writes)
        status = run_folder_write_settings(r->folder, t->p);
    t->saved = clock_seconds();
    return status;
}

int training_run(const train_plan *p, const training_request *request)
{
    training t = {.p = p, .request = request, .lock = -1};
    t.talk.begin = clock_seconds();
    t.end = request->steps && request->steps < p->steps ? request->steps : p->steps;
    t.every = p->steps / MAX_POINTS + 1;
    t.every_epoch = p->epochs / MAX_POINTS + 1;
    int status = data_check(p);
    if (!status)
        status = make_loaders(&t);
    if (!status)
        status = compile(&t);
    if (!status && share_writes(p))
        say_beginning(&t);
    if (!status && request->is_dry)
        status = run_dry(&t);
    if (!status && !request->is_dry)
        status = begin(&t);
    if (!status && !request->is_dry)
        status = fit(&t);
    tell_slow();
    flx_params_release(t.best);
    flx_report_free(t.report);
    flx_trainer_free(t.trainer);
    start_free(&t.start);
    flx_loader_free(t.loader);
    flx_loader_free(t.validation);
    batches_end(&t.batches);
    share_free(&t.part);
    if (t.lock >= 0)
        close(t.lock);
    return status;
}
