/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: from settings to a training. Each part of the settings has a function that takes what it knows. */
#include "train/plan.h"

#include "report.h"
#include "suggest.h"
#include "train/data/data_check.h"
#include "train/loss_setting.h"
#include "train/mesh_setting.h"
#include "train/optimiser_setting.h"

#include <fluxion/transform.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 32 };

static const int64_t most_steps = INT64_C(1) << 48;

/* ---- Names ---- */

static int read_names(train_plan *p, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    bool is_stream = strcmp(path, "-") == 0;
    p->folder = strndup(path, slash ? (size_t)(slash - path) : 0);
    p->name = is_stream ? strdup("training") : strndup(base, dot && dot != base ? (size_t)(dot - base) : strlen(base));
    return p->folder && p->name ? STATUS_OK : fail_memory();
}

/* ---- The model ---- */

static flx_graph *graph_or_usual(const train_plan *p, const char *given, const char *usual)
{
    return flx_module_find(p->model.module, given ? given : usual);
}

static int find_graph(const train_plan *p, const char *key, const char *usual, flx_graph **out)
{
    setting *given = settings_take((setting *)&p->settings.root, key);
    if (given && given->kind != SETTING_TEXT)
        return settings_fail(&p->settings, given, "%s must be the name of a graph", key);
    *out = graph_or_usual(p, given ? given->text : NULL, usual);
    if (*out || !given)
        return STATUS_OK;
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (; n < MAX_NAMES && n < flx_module_count(p->model.module); n++)
        names[n] = flx_graph_name(flx_module_graph(p->model.module, n));
    return settings_unknown(&p->settings, given, "graph", names, n);
}

/* Perhaps it is misspelt. */
static int no_model(const train_plan *p)
{
    int status = settings_fail(&p->settings, &p->settings.root, "there is no model");
    for (const setting *part = p->settings.root.first; part; part = part->next) {
        suggestion guess = suggest_begin(part->name);
        suggest_consider(&guess, "model");
        if (guess.best) {
            hint("line %d: did you mean 'model'?", part->line);
            return status;
        }
    }
    hint("give model = \"FILE.flx\", or write the graphs after the settings");
    return status;
}

static int open_model(train_plan *p)
{
    const char *given = NULL;
    int status = settings_text(&p->settings, &p->settings.root, "model", &given);
    if (status)
        return status;
    if (!given && !p->settings.has_graphs)
        return no_model(p);
    if (given && p->settings.has_graphs)
        return settings_fail(&p->settings, settings_take(&p->settings.root, "model"),
                             "there is a model, and there are graphs in this file: which one is it?");
    if (!given) {
        status = model_read(&p->model, p->settings.file, &p->settings.bytes);
        if (status && !p->settings.root.first)
            hint("settings come first: the graphs are the rest of the file");
        return status;
    }
    char *path = path_in(p->folder, given);
    status = path ? model_open(&p->model, path) : fail_memory();
    p->model.path = p->model.name = given; /* the other one is freed */
    free(path);
    return status;
}

/* Whether the graph sets the parameter itself: a state. */
static bool is_state(const flx_graph *g, const char *name)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        const char *output = flx_graph_output_name(g, i);
        if (output && strncmp(output, "new_", 4) == 0 && strcmp(output + 4, name) == 0)
            return true;
    }
    return false;
}

/* Parameters of another graph must be those of the loss: it is used with what was trained. */
static int check_params(const train_plan *p, const flx_graph *g)
{
    for (size_t i = 0; g && i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        const char *name = flx_val_name(g, v);
        flx_val same = flx_graph_find(p->loss, name);
        const flx_type *type = flx_val_type(g, v), *trained = same.id ? flx_val_type(p->loss, same) : NULL;
        if (!flx_graph_input_is_param(g, i) || (!trained && is_state(g, name)))
            continue;
        if (!trained || trained->dtype != type->dtype || trained->rank != type->rank ||
            memcmp(trained->dims, type->dims, (size_t)type->rank * sizeof *type->dims) != 0)
            return settings_fail(&p->settings, &p->settings.root,
                                 "the parameter '%.60s' of the graph '%.60s' is %s in the loss", name,
                                 flx_graph_name(g), trained ? "of another type" : "not");
    }
    return STATUS_OK;
}

/* Weights and checkpoints are files in which one name has another meaning. */
static int check_names(const train_plan *p)
{
    flx_val v = flx_graph_find(p->loss, "__metadata__");
    for (size_t i = 0; v.id && i < flx_graph_input_count(p->loss); i++)
        if (flx_graph_input(p->loss, i).id == v.id && flx_graph_input_is_param(p->loss, i))
            return settings_fail(&p->settings, &p->settings.root,
                                 "a parameter of the loss is called __metadata__, which .safetensors files reserve");
    return STATUS_OK;
}

static int read_model(train_plan *p)
{
    setting *loss = settings_take(&p->settings.root, "loss");
    p->made_loss = loss && loss->kind == SETTING_CALL ? loss : NULL;
    int status = open_model(p);
    if (!status && !p->made_loss)
        status = find_graph(p, "loss", "loss", &p->loss);
    if (!status)
        status = find_graph(p, "predict", "predict", &p->predict);
    if (!status)
        status = find_graph(p, "validate", "validate", &p->validated);
    if (!status && p->made_loss && !p->predict)
        p->predict = p->model.graph;
    return status;
}

/* The loss may compare with a column: it comes after the data. */
static int read_loss(train_plan *p)
{
    int status = p->made_loss ? loss_setting_build(p) : STATUS_OK;
    if (status)
        return status;
    if (!p->loss)
        p->loss = p->model.graph;
    if (!p->validated)
        p->validated = p->loss;
    status = check_names(p);
    if (!status)
        status = check_params(p, p->validated);
    if (!status)
        status = check_params(p, p->predict);
    return status ? status : check_params(p, flx_module_find(p->model.module, "decode"));
}

/* A word of weights(…): what the file may lack or have too much. */
static int read_leave(train_plan *p, setting *from, const char *name, const char *word, bool *out)
{
    const char *given = NULL;
    int status = settings_text(&p->settings, from, name, &given);
    *out = given != NULL;
    if (status || !given || strcmp(given, word) == 0)
        return status;
    return settings_fail(&p->settings, from, "write weights(\"FILE\", %s=%s)", name, word);
}

/* start = "file.safetensors", or new, or weights("file.safetensors", missing=new, surplus=ignore) */
static int read_start(train_plan *p)
{
    setting *given = settings_take(&p->settings.root, "start");
    int status = STATUS_OK;
    if (given && given->kind == SETTING_CALL && strcmp(given->text, "weights") == 0) {
        status = settings_operand(&p->settings, given, 0, "a file", &p->start);
        if (!status)
            status = read_leave(p, given, "missing", "new", &p->may_lack);
        if (!status)
            status = read_leave(p, given, "surplus", "ignore", &p->may_exceed);
        return status ? status : settings_check_taken(&p->settings, given);
    }
    status = settings_text(&p->settings, &p->settings.root, "start", &p->start);
    p->is_new = !status && p->start && strcmp(p->start, "new") == 0;
    return status;
}

/* f16 and bf16 are for the products of the training step alone: parameters stay as they are. */
static int read_precision(train_plan *p)
{
    const char *name = "f32";
    flx_error err = {0};
    int status = settings_text(&p->settings, &p->settings.root, "precision", &name);
    if (status || strcmp(name, "f32") == 0)
        return status;
    bool is_f16 = strcmp(name, "f16") == 0;
    if (!is_f16 && strcmp(name, "bf16") != 0)
        return settings_fail(&p->settings, settings_take(&p->settings.root, "precision"),
                             "precision must be f32, bf16 or f16");
    p->narrow = flx_mixed_precision(p->loss, is_f16 ? FLX_F16 : FLX_BF16, &err);
    if (!p->narrow)
        return report_transform(&err);
    p->loss = p->narrow;
    p->options.flags |= is_f16 ? FLX_TRAIN_LOSS_SCALE : 0u;
    return STATUS_OK;
}

/* ---- Data ---- */

/* The classes of the validation have the numbers of the data. */
static int match_classes(train_plan *p, const setting *at)
{
    size_t n = flx_dataset_classes(p->data.data);
    const char **names = calloc(n + 1, sizeof *names);
    flx_error err = {0};
    if (!names)
        return fail_memory();
    for (size_t i = 0; i < n; i++)
        names[i] = flx_dataset_class(p->data.data, i);
    int status = source_use_classes(&p->validation, names, n, &err);
    if (status)
        settings_fail(&p->settings, at, "validation: %s", err.message);
    free(names);
    return status;
}

/* The number of a split. Words alone, percentages and strings are mistakes that people make. */
static int check_part(const settings *s, const setting *given, const char *kind, const setting *part, double *out)
{
    bool is_number = part && part->kind == SETTING_NUMBER;
    if (is_number && part->number >= 0 && part->number <= 0.9) {
        *out = part->number;
        return STATUS_OK;
    }
    int status = settings_fail(s, given, "split must be a part of the rows, a number up to 0.9");
    const char *open = *kind ? "(" : "", *close = *kind ? ")" : "";
    if (is_number && part->number >= 1 && part->number <= 90)
        hint("%g %% of the rows: split = %s%s%g%s", part->number, kind, open, part->number / 100, close);
    else
        hint("a fifth of the rows: split = %s%s0.2%s", kind, open, close);
    return status;
}

/* split = 0.2, or last(0.2), or random(0.2) */
static int read_split(train_plan *p, double *part, split_kind *kind)
{
    static const char *const words[] = {"last", "random"};
    settings *s = &p->settings;
    setting *given = settings_take(&s->root, "split");
    *kind = SPLIT_USUAL;
    if (!given)
        return STATUS_OK;
    bool is_word = given->kind == SETTING_CALL || given->kind == SETTING_TEXT;
    bool is_last = is_word && strcmp(given->text, "last") == 0,
         is_random = is_word && strcmp(given->text, "random") == 0;
    if (given->kind == SETTING_CALL && !is_last && !is_random)
        return settings_unknown(s, given, "kind of split", words, 2);
    const char *word = is_last ? "last" : is_random ? "random" : "";
    if (given->kind != SETTING_CALL)
        return check_part(s, given, word, is_word ? NULL : given, part);
    *kind = is_last ? SPLIT_LAST : SPLIT_RANDOM;
    bool is_one = given->first && !given->first->next && !given->first->name;
    int status = check_part(s, given, word, is_one ? given->first : NULL, part);
    if (!status)
        given->first->is_taken = true;
    return status;
}

/* What decides which rows are trained on, for a training that is resumed. */
static void describe_split(train_plan *p, double part, split_kind kind)
{
    bool is_last = kind == SPLIT_LAST || (kind == SPLIT_USUAL && source_is_ordered(&p->data));
    if (part > 0)
        snprintf(p->split, sizeof p->split, "%s(%.10g)", is_last ? "last" : "random", part);
    else
        snprintf(p->split, sizeof p->split, "none");
}

static int read_data(train_plan *p)
{
    settings *s = &p->settings;
    setting *data = settings_take(&s->root, "data"), *validation = settings_take(&s->root, "validation");
    double split = 0;
    split_kind kind;
    p->seed = 1;
    int status = settings_integer(s, &s->root, "seed", 0, INT64_MAX, &p->seed);
    if (!status)
        status = read_split(p, &split, &kind);
    if (status)
        return status;
    if (!data)
        return settings_fail(s, &s->root, "there is no data: give data = digits() or another source");
    if (validation && split > 0)
        return settings_fail(s, validation, "give validation or split, not both");
    source_request request = {.ctx = p->model.ctx, .folder = p->folder};
    status = source_open(&p->data, s, data, &request);
    request.like = &p->data;
    if (!status && validation)
        status = source_open(&p->validation, s, validation, &request);
    if (!status && validation)
        status = match_classes(p, validation);
    if (!status && split > 0)
        status = source_split(&p->data, split, kind, (uint64_t)p->seed, &p->validation);
    describe_split(p, split, kind);
    return status;
}

static const setting *input_setting(const train_plan *p, const char *input)
{
    const setting *part = p->inputs ? p->inputs->first : NULL;
    while (part && strcmp(part->name, input) != 0)
        part = part->next;
    return part;
}

const char *plan_column(const train_plan *p, const char *input)
{
    const setting *given = input_setting(p, input);
    return given ? given->text : input;
}

static bool has_column(const source *d, const char *name)
{
    for (size_t i = 0; i < flx_dataset_columns(d->data); i++)
        if (strcmp(flx_dataset_name(d->data, i), name) == 0)
            return true;
    return false;
}

static int no_column(const train_plan *p, const char *input, const char *column)
{
    const setting *at = p->inputs ? p->inputs : data_setting(p, &p->data);
    int status = settings_fail(&p->settings, at, "the input '%.60s' takes the column '%.60s', which the data lacks",
                               input, column);
    hint_list_begin("write inputs = columns(%s=COLUMN); the columns are", input);
    for (size_t i = 0; i < flx_dataset_columns(p->data.data); i++)
        list_item(flx_dataset_name(p->data.data, i));
    hint_list_end();
    return status;
}

static int check_columns(const train_plan *p)
{
    for (size_t i = 0; i < flx_graph_input_count(p->loss); i++) {
        const char *name = flx_val_name(p->loss, flx_graph_input(p->loss, i));
        if (!flx_graph_input_is_param(p->loss, i) && !has_column(&p->data, plan_column(p, name)))
            return no_column(p, name, plan_column(p, name));
    }
    return STATUS_OK;
}

/* inputs = columns(x=image, label=class) */
static int read_inputs(train_plan *p)
{
    p->inputs = settings_take(&p->settings.root, "inputs");
    if (p->inputs && (p->inputs->kind != SETTING_CALL || strcmp(p->inputs->text, "columns") != 0))
        return settings_fail(&p->settings, p->inputs, "write inputs = columns(INPUT=COLUMN, …)");
    for (setting *part = p->inputs ? p->inputs->first : NULL; part; part = part->next) {
        flx_val v = part->name ? flx_graph_find(p->loss, part->name) : FLX_NONE;
        if (part->kind != SETTING_TEXT || !part->name)
            return settings_fail(&p->settings, part, "write INPUT=COLUMN");
        if (!v.id)
            return settings_fail(&p->settings, part, "the loss has no input '%.60s'", part->name);
        part->is_taken = true;
    }
    return check_columns(p);
}

/* ---- How it is trained ---- */

static int read_optimiser(train_plan *p)
{
    return optimiser_setting_read(&p->settings, &p->options, &p->has_no_decay);
}

/* A group that matches nothing is a mistake in writing: biases would decay, layers would not be frozen. */
static int check_pattern(const train_plan *p, const setting *from, const char *pattern)
{
    const flx_graph *g = p->loss;
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        if (flx_graph_input_is_param(g, i) && flx_name_matches(pattern, flx_val_name(g, flx_graph_input(g, i))))
            return STATUS_OK;
    int status =
        settings_fail(&p->settings, from, "no parameter of '%.60s' matches '%.60s'", flx_graph_name(g), pattern);
    hint_list_begin("its parameters are");
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        if (flx_graph_input_is_param(g, i))
            list_item(flx_val_name(g, flx_graph_input(g, i)));
    hint_list_end();
    return status;
}

/* group("*.b", rate=0.1, weight_decay=0), freeze("embedding.*") */
static int read_group(train_plan *p, setting *from, flx_train_group *out)
{
    bool is_frozen = from->kind == SETTING_CALL && strcmp(from->text, "freeze") == 0;
    double decay = -1, rate = -1;
    if (!is_frozen && (from->kind != SETTING_CALL || strcmp(from->text, "group") != 0))
        return settings_fail(&p->settings, from, "write group(\"PATTERN\", …) or freeze(\"PATTERN\")");
    int status = settings_operand(&p->settings, from, 0, "a pattern", &out->pattern);
    if (!status)
        status = check_pattern(p, from, out->pattern);
    if (!status && !is_frozen)
        status = settings_number(&p->settings, from, "rate", 0, 1e6, &rate);
    if (!status && !is_frozen)
        status = settings_number(&p->settings, from, "weight_decay", 0, 1e6, &decay);
    out->flags = is_frozen || rate == 0 ? FLX_GROUP_FROZEN : decay == 0 ? FLX_GROUP_NO_DECAY : 0;
    out->weight_decay = decay > 0 ? decay : 0;
    out->rate_factor = rate > 0 ? rate : 0;
    return status ? status : settings_check_taken(&p->settings, from);
}

/* Later groups prevail. */
static bool stays_as_it_is(const train_plan *p, const char *name)
{
    for (size_t k = p->options.num_groups; k-- > 0;)
        if (flx_name_matches(p->groups[k].pattern, name))
            return p->groups[k].flags & FLX_GROUP_FROZEN;
    return false;
}

static int check_frozen(const train_plan *p, const setting *list)
{
    const flx_graph *g = p->loss;
    bool has_any = false;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        if (!flx_graph_input_is_param(g, i))
            continue;
        has_any = true;
        if (!stays_as_it_is(p, flx_val_name(g, v)))
            return STATUS_OK;
    }
    return has_any ? settings_fail(&p->settings, list, "groups freezes all parameters: nothing is trained") : STATUS_OK;
}

/* The optimiser's own `weight_decay=0` is a group of all parameters, before the others. */
static int read_groups(train_plan *p)
{
    setting *list = settings_take(&p->settings.root, "groups");
    size_t n = 1;
    if (list && list->kind != SETTING_LIST)
        return settings_fail(&p->settings, list, "groups must be a list: [group(\"*.b\", weight_decay=0)]");
    for (const setting *part = list ? list->first : NULL; part; part = part->next)
        n++;
    p->groups = calloc(n, sizeof *p->groups);
    if (!p->groups)
        return fail_memory();
    if (p->has_no_decay)
        p->groups[p->options.num_groups++] = (flx_train_group){.pattern = "*", .flags = FLX_GROUP_NO_DECAY};
    int status = STATUS_OK;
    for (setting *part = list ? list->first : NULL; !status && part; part = part->next)
        status = read_group(p, part, &p->groups[p->options.num_groups++]);
    p->options.groups = p->groups;
    return status || !list ? status : check_frozen(p, list);
}

/* A schedule counts updates, of which several steps may share one. */
static int64_t updates_of(const train_plan *p)
{
    return p->options.accumulate > 1 ? p->steps / p->options.accumulate : p->steps;
}

static int read_schedule(train_plan *p)
{
    static const char *const kinds[] = {"constant",    "linear",    "cosine",      "step",
                                        "exponential", "one_cycle", "inverse_sqrt"};
    settings *s = &p->settings;
    setting *given = settings_take(&s->root, "schedule");
    flx_schedule_options o = {.struct_size = sizeof o, .kind = -1};
    flx_error err = {0};
    if (!given)
        return STATUS_OK;
    for (size_t i = 0; given->text && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i], given->text) == 0)
            o.kind = (int32_t)i;
    if (o.kind < 0)
        return settings_unknown(s, given, "schedule", kinds, sizeof kinds / sizeof *kinds);
    int64_t updates = updates_of(p);
    int status = settings_integer(s, given, "warmup", 0, most_steps, &o.warmup);
    if (!status && o.warmup > updates)
        return settings_fail(s, given, "warmup = %lld is longer than the training, which has %lld %s",
                             (long long)o.warmup, (long long)updates, plural(updates, "update", "updates"));
    o.steps = updates > o.warmup ? updates - o.warmup : 1;
    if (!status)
        status = settings_integer(s, given, "steps", 1, most_steps, &o.steps);
    if (!status)
        status = settings_number(s, given, "final", 0, 1, &o.final);
    if (!status)
        status = settings_number(s, given, "factor", SETTINGS_ABOVE_0, 1, &o.factor);
    if (!status)
        status = settings_check_taken(s, given);
    if (status)
        return status;
    p->schedule = flx_schedule_graph(p->model.ctx, &o, &err);
    p->options.schedule = p->schedule;
    return p->schedule ? STATUS_OK : settings_fail(s, given, "%s", err.message);
}

static int64_t batches_of(const train_plan *p)
{
    int64_t rows = flx_dataset_rows(p->data.data);
    return p->drop_last ? rows / p->batch : (rows + p->batch - 1) / p->batch;
}

/* How long, in steps and epochs. */
static int read_length(train_plan *p)
{
    settings *s = &p->settings;
    p->batch = 32;
    p->shuffle = true;
    int status = settings_integer(s, &s->root, "batch", 1, 1 << 24, &p->batch);
    if (!status)
        status = settings_bool(s, &s->root, "shuffle", &p->shuffle);
    if (!status)
        status = settings_bool(s, &s->root, "drop_last", &p->drop_last);
    if (!status)
        status = settings_integer(s, &s->root, "epochs", 1, most_steps, &p->epochs);
    if (!status)
        status = settings_integer(s, &s->root, "steps", 1, most_steps, &p->steps);
    if (status)
        return status;
    int64_t batches = batches_of(p);
    if (batches < 1)
        return settings_fail(s, &s->root, "the data has %lld %s, fewer than one batch of %lld",
                             (long long)flx_dataset_rows(p->data.data),
                             plural(flx_dataset_rows(p->data.data), "row", "rows"), (long long)p->batch);
    if (p->validation.data && flx_dataset_rows(p->validation.data) == 0)
        return settings_fail(s, &s->root, "the data of the validation has no rows");
    if (!p->epochs && !p->steps)
        p->epochs = 1;
    if (!p->epochs)
        p->epochs = (p->steps + batches - 1) / batches;
    if (!p->steps || p->steps / batches >= p->epochs)
        p->steps = p->epochs < most_steps / batches ? p->epochs * batches : most_steps;
    return STATUS_OK;
}

/* memory = 4000000, or "4M" */
static int read_memory(train_plan *p)
{
    const setting *given = settings_take(&p->settings.root, "memory");
    if (!given || (given->text && given->kind <= SETTING_TEXT && read_amount(given->text, &p->memory)))
        return STATUS_OK;
    return settings_fail(&p->settings, given, "memory must be a number of bytes above 0, such as 64M or 2G");
}

static int read_limits(train_plan *p)
{
    settings *s = &p->settings;
    flx_train_options *t = &p->options;
    int status = settings_number(s, &s->root, "clip_norm", SETTINGS_ABOVE_0, 1e30, &t->clip_norm);
    if (!status)
        status = settings_number(s, &s->root, "clip_value", SETTINGS_ABOVE_0, 1e30, &t->clip_value);
    if (!status)
        status = settings_number(s, &s->root, "ema", SETTINGS_ABOVE_0, SETTINGS_BELOW_1, &t->ema);
    if (!status)
        status = settings_integer(s, &s->root, "accumulate", 1, 1 << 20, &t->accumulate);
    if (!status)
        status = settings_integer(s, &s->root, "recompute", 0, 1 << 20, &t->recompute);
    if (!status)
        status = settings_number(s, &s->root, "clip_example", 0, 1e30, &t->clip_example);
    if (!status)
        status = settings_number(s, &s->root, "noise", 0, 1e30, &t->noise);
    if (!status)
        status = settings_integer(s, &s->root, "patience", 1, most_steps, &p->patience);
    if (!status)
        status = settings_integer(s, &s->root, "save_every", 1, most_steps, &p->save_every);
    if (!status)
        status = settings_integer(s, &s->root, "threads", 1, 64, &p->threads);
    if (!status)
        status = read_memory(p);
    t->seed = (uint64_t)p->seed;
    if (!status && p->patience && !p->validation.data)
        return settings_fail(s, settings_take(&s->root, "patience"), "patience needs validation, or split");
    if (!status && t->accumulate > p->steps)
        return settings_fail(s, settings_take(&s->root, "accumulate"),
                             "accumulate = %lld, but the training has %lld %s: nothing would be updated",
                             (long long)t->accumulate, (long long)p->steps, plural(p->steps, "step", "steps"));
    return status;
}

/* sample = text(prompt="The ", tokens=200, temperature=0.8) */
static int read_sample(train_plan *p)
{
    settings *s = &p->settings;
    setting *given = settings_take(&s->root, "sample");
    p->sample = (sample_plan){.prompt = "", .temperature = 0.8};
    if (!given)
        return STATUS_OK;
    if (given->kind != SETTING_CALL || strcmp(given->text, "text") != 0)
        return settings_fail(s, given, "write sample = text(prompt=\"…\", tokens=200, temperature=0.8)");
    if (!p->data.is_text || !p->predict)
        return settings_fail(s, given, "a sample needs data that is text, and a graph 'predict' in the model");
    p->sample.tokens = 200;
    int status = settings_text(s, given, "prompt", &p->sample.prompt);
    if (!status)
        status = settings_integer(s, given, "tokens", 1, 1 << 20, &p->sample.tokens);
    if (!status)
        status = settings_number(s, given, "temperature", 0, 100, &p->sample.temperature);
    return status ? status : settings_check_taken(s, given);
}

int plan_read(train_plan *p, const char *path)
{
    static int (*const parts[])(train_plan *) = {
        read_model,  read_start,  read_data,     read_loss,   read_inputs,    read_length,      read_optimiser,
        read_groups, read_limits, read_schedule, read_sample, read_precision, mesh_setting_read};
    *p = (train_plan){.options = {.struct_size = sizeof p->options}};
    int status = read_names(p, path);
    if (!status)
        status = settings_read(&p->settings, path);
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++)
        status = parts[i](p);
    return status ? status : settings_check_taken(&p->settings, &p->settings.root);
}

void plan_free(train_plan *p)
{
    source_free(&p->validation);
    source_free(&p->data);
    flx_graph_release(p->schedule);
    flx_graph_release(p->narrow);
    flx_graph_release(p->fixed);
    free(p->shardings);
    free(p->row_cuts);
    free(p->groups);
    model_close(&p->model);
    settings_free(&p->settings);
    free(p->folder);
    free(p->name);
    *p = (train_plan){0};
}
