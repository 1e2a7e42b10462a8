/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.c: see outcome.h. */
#include "train/outcome/outcome.h"

#include "compiling.h"
#include "io/drawing.h"
#include "io/output.h"
#include "io/profile_table.h"
#include "report.h"
#include "train/data/share.h"
#include "train/outcome/writing.h"
#include "train/run_folder.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_EVENTS = 1 << 16 }; /* of a profile */

static int add_fact(const outcome *o, const char *name, const char *value)
{
    flx_error err = {0};
    return flx_report_add_fact(o->report, name, value, &err) == FLX_OK ? STATUS_OK : report(&err, NULL);
}

static int add_facts(const outcome *o)
{
    char text[24], steps[40];
    const flx_params *set = flx_trainer_params(o->trainer);
    int status = add_fact(o, "parameters", scaled_text(text, (double)flx_params_elements(set, NULL), ""));
    if (!status)
        status = add_fact(o, "memory of parameters and state",
                          scaled_text(text, (double)flx_trainer_memory(o->trainer), "B"));
    if (!status)
        status = add_fact(o, "memory of a step",
                          scaled_text(text, (double)flx_exec_memory(flx_trainer_exec(o->trainer)), "B"));
    snprintf(steps, sizeof steps, "%lld of %lld", (long long)o->step, (long long)o->end);
    if (!status)
        status = add_fact(o, "steps", steps);
    return status ? status : add_fact(o, "optimiser", flx_optimiser_name(o->p->options.optimiser));
}

/* The times of one step more, which is not taken. Without them the report lacks a timeline, so that a failure, such as
   that of data which cannot be read any more, is not one of the training. Several processes would all have to
   take it. */
static bool trace_step(const outcome *o, flx_run_trace *trace)
{
    flx_error err = {0};
    *trace =
        (flx_run_trace){.step_capacity = compiling_steps(flx_trainer_exec(o->trainer)), .event_capacity = MAX_EVENTS};
    trace->steps = calloc(trace->step_capacity + 1, sizeof *trace->steps);
    trace->events = calloc(trace->event_capacity + 1, sizeof *trace->events);
    bool is_done = !o->is_stopped && share_is_alone(o->p) && trace->steps && trace->events &&
                   batches_next(o->batches, o->loader, o->p->loss, &err) > 0 &&
                   flx_trainer_trace(o->trainer, o->batches->feeds, o->batches->num_feeds, trace, &err) == FLX_OK;
    if (trace->num_steps > trace->step_capacity)
        trace->num_steps = trace->step_capacity;
    return is_done;
}

static int add_graph(const outcome *o, const flx_run_trace *trace)
{
    flx_error err = {0};
    const flx_report_graph graph = {.struct_size = sizeof graph,
                                    .title = "training step",
                                    .graph = o->p->loss,
                                    .exec = flx_trainer_exec(o->trainer),
                                    .trace = trace};
    return flx_report_add_graph(o->report, &graph, &err) == FLX_OK ? STATUS_OK : report(&err, NULL);
}

/* Counts of the validation examples by their class and the class that was predicted. */
typedef struct {
    flx_exec *exec;
    flx_tensor **outputs;
    int64_t classes;
    int64_t *counts;
} confusion;

static void count_batch(confusion *c, const flx_tensor *labels)
{
    const flx_tensor *logits = c->outputs[0];
    int64_t n = flx_tensor_count(labels), width = n ? flx_tensor_count(logits) / n : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0, label = (int64_t)flx_tensor_get(labels, i);
        for (int64_t k = 1; k < width; k++)
            if (flx_tensor_get(logits, i * width + k) > flx_tensor_get(logits, i * width + best))
                best = k;
        if (label >= 0 && label < c->classes && best < c->classes)
            c->counts[label * c->classes + best]++;
    }
}

static int count_all(const outcome *o, confusion *c)
{
    flx_error err = {0};
    int got = 1;
    flx_code code = flx_loader_seek(o->validation, 0, 0, &err);
    while (code == FLX_OK && (got = batches_next(o->batches, o->validation, o->p->predict, &err)) > 0) {
        code = flx_exec_run(c->exec, NULL, o->batches->feeds, o->batches->num_feeds, c->outputs, &err);
        if (code == FLX_OK && o->batches->labels)
            count_batch(c, o->batches->labels);
        for (size_t i = 0; i < flx_graph_output_count(o->p->predict); i++) {
            flx_tensor_release(c->outputs[i]);
            c->outputs[i] = NULL;
        }
    }
    return code == FLX_OK && got == 0 ? STATUS_OK : report(&err, NULL);
}

/* A graph `predict` with logits [N, classes], and data with a column `label` whose classes are known. */
static bool has_classes(const outcome *o)
{
    const flx_graph *g = o->p->predict;
    size_t classes = o->p->validation.data ? flx_dataset_classes(o->p->data.data) : 0;
    if (!g || classes < 2 || !flx_graph_output_count(g))
        return false;
    const flx_type *type = flx_val_type(g, flx_graph_output(g, 0));
    return type && type->rank == 2 && type->dims[1] == (flx_dim)classes;
}

static int add_confusion(const outcome *o)
{
    flx_error err = {0};
    confusion c = {.classes = (int64_t)flx_dataset_classes(o->p->data.data)};
    const char **names = calloc((size_t)c.classes, sizeof *names);
    c.counts = calloc((size_t)(c.classes * c.classes), sizeof *c.counts);
    c.outputs = calloc(flx_graph_output_count(o->p->predict), sizeof(flx_tensor *));
    int status = names && c.counts && c.outputs ? STATUS_OK : fail_memory();
    for (size_t i = 0; !status && i < (size_t)c.classes; i++)
        names[i] = flx_dataset_class(o->p->data.data, i);
    if (!status &&
        (!(c.exec = flx_compile(o->p->predict, NULL, &err)) || flx_params_bind(o->weights, c.exec, &err) != FLX_OK))
        status = report(&err, NULL);
    if (!status)
        status = count_all(o, &c);
    if (!status &&
        flx_report_add_confusion(o->report, "validation", names, (size_t)c.classes, c.counts, &err) != FLX_OK)
        status = report(&err, NULL);
    flx_exec_free(c.exec);
    free(c.outputs);
    free(c.counts);
    free(names);
    return status;
}

static int add_sample(const outcome *o)
{
    const train_plan *p = o->p;
    const flx_generate_options options = {.struct_size = sizeof options,
                                          .flags = p->sample.temperature > 0 ? 0 : FLX_GENERATE_MOST_LIKELY,
                                          .tokens = p->sample.tokens,
                                          .context = p->data.length,
                                          .temperature = p->sample.temperature,
                                          .seed = (uint64_t)p->seed,
                                          .tokeniser = p->data.tokeniser};
    flx_error err = {0};
    flx_buffer text = {0};
    puts("\na sample of what it has learned:\n");
    int status = writing_run(p->model.module, p->predict, o->weights, p->sample.prompt, &options, stdout, &text);
    puts("\n");
    if (!status && flx_report_add_text(o->report, "sample", o->step, text.data, &err) != FLX_OK)
        status = report(&err, NULL);
    flx_buffer_free(&text);
    return status;
}

static int write_report(const outcome *o, flx_report_form form, const char *name, bool says)
{
    flx_error err = {0};
    char *path = path_in(o->folder, name);
    int status = path ? STATUS_OK : fail_memory();
    if (!status && flx_report_write(o->report, form, path, &err) != FLX_OK)
        status = output_failed(path, &err);
    if (!status && says)
        printf("report: %s\n", path);
    free(path);
    return status;
}

/* A sample may take long, and may be stopped: the report is written before it, and again with it. */
static int write_results(const outcome *o, const flx_run_trace *trace)
{
    bool has_sample = !o->is_stopped && o->p->sample.tokens;
    int status = run_folder_write_weights(o->folder, o->weights);
    if (!status && !o->is_stopped && has_classes(o))
        status = add_confusion(o);
    if (!status)
        status = add_facts(o);
    if (!status)
        status = add_graph(o, trace);
    if (!status)
        status = write_report(o, FLX_REPORT_CSV, "log.csv", false);
    if (!status)
        status = write_report(o, FLX_REPORT_EVENTS, "log.tfevents", false);
    if (!status)
        status = write_report(o, FLX_REPORT_HTML, "report.html", !has_sample);
    if (!status && has_sample)
        status = add_sample(o);
    return status || !has_sample ? status : write_report(o, FLX_REPORT_HTML, "report.html", true);
}

/* The trace comes last: its file is elsewhere, and a failure to write it must not take the report away. */
int outcome_write(const outcome *o)
{
    flx_run_trace trace;
    bool has_trace = trace_step(o, &trace);
    int status = write_results(o, has_trace ? &trace : NULL);
    if (!status && o->trace && has_trace)
        status = drawing_write_trace(flx_trainer_exec(o->trainer), &trace, o->trace);
    free(trace.steps);
    free(trace.events);
    return status;
}
