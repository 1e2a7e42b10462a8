/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_predict.c: `flx predict`: what a model that `flx train` has trained says of data, and how often it is right. */
#include "args.h"
#include "commands.h"
#include "report.h"
#include "train/data/batches.h"
#include "train/outcome/scores.h"
#include "train/trained.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCH = 64 };

/* ---- The data ---- */

static bool ends_with(const char *path, const char *const *endings)
{
    size_t n = strlen(path);
    for (; *endings; endings++)
        if (n > strlen(*endings) && strcmp(path + n - strlen(*endings), *endings) == 0)
            return true;
    return false;
}

/* The source that reads a path, by what it is called; NULL when that is not known. */
static const char *source_of(const char *path)
{
    static const char *const tables[] = {".csv", NULL}, *const arrays[] = {".npy", ".npz", ".safetensors", NULL};
    static const char *const images[] = {".pgm", ".ppm", ".pnm", ".png", NULL};
    struct stat is;
    if (strcmp(path, "-") == 0)
        return "csv";
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        return "folder";
    return ends_with(path, tables)   ? "csv"
           : ends_with(path, arrays) ? "arrays"
           : ends_with(path, images) ? "image"
                                     : NULL;
}

static int open_call(trained *t, settings *s, setting *call, bool may_lack_truth)
{
    const source_request request = {.ctx = t->p.model.ctx,
                                    .folder = "",
                                    .features = (const char *const *)t->features,
                                    .num_features = t->num_features,
                                    .may_lack_truth = may_lack_truth};
    flx_tokeniser *tokeniser = t->p.data.tokeniser;
    int status = source_open(&t->p.data, s, call, &request);
    flx_tokeniser_free(tokeniser);
    return status;
}

/* `data = TEXT` as settings, which the caller frees after the data. */
static int open_text(trained *t, settings *s, const char *text)
{
    file_bytes bytes = {0};
    int n = asprintf(&bytes.data, "data = %s\n", text);
    if (n < 0)
        return fail_memory();
    bytes.size = (size_t)n;
    int status = settings_parse(s, "DATA", bytes);
    setting *call = status ? NULL : settings_take(&s->root, "data");
    if (!status)
        status = settings_check_taken(s, &s->root);
    return status ? status : open_call(t, s, call, false);
}

/* KIND("PATH"), where quotes and backslashes are escaped. */
static char *call_text(const char *kind, const char *path)
{
    char *text = malloc(strlen(kind) + 2 * strlen(path) + 8), *at = text;
    if (!text)
        return NULL;
    at += sprintf(at, "%s(\"", kind);
    for (; *path; path++) {
        if (*path == '"' || *path == '\\')
            *at++ = '\\';
        *at++ = *path;
    }
    memcpy(at, "\")", 3);
    return text;
}

/* A source as in a file of settings, or a path: it is read as the data of the training was, if that is of its kind. */
static int open_data(trained *t, settings *s, const char *given)
{
    const char *kind = source_of(given);
    setting *before = settings_take(&t->p.settings.root, "data");
    if (strchr(given, '('))
        return open_text(t, s, given);
    if (!kind) {
        int status = fail(FLX_E_USAGE, "%s: what it has is not clear from its name", given);
        hint("a folder, .csv, .npy, .npz, .safetensors, .png, .pgm; or a source: 'csv(\"FILE\", label=kind)'");
        return status;
    }
    if (before && before->kind == SETTING_CALL && strcmp(before->text, kind) == 0 && before->first &&
        !before->first->name) {
        before->first->text = given;
        return open_call(t, &t->p.settings, before, true);
    }
    char *text = call_text(kind, given);
    int status = text ? open_text(t, s, text) : fail_memory();
    free(text);
    return status;
}

/* ---- What is predicted ---- */

static bool is_input(const trained *t, const char *column)
{
    const flx_graph *g = t->p.predict;
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        if (!flx_graph_input_is_param(g, i) &&
            strcmp(plan_column(&t->p, flx_val_name(g, flx_graph_input(g, i))), column) == 0)
            return true;
    return false;
}

/* The column that the model does not see and that has as many numbers as it predicts, or one: what is right. */
static const char *truth_column(const trained *t, int64_t width)
{
    const flx_dataset *d = t->p.data.data;
    for (size_t i = 0; i < flx_dataset_columns(d); i++) {
        const flx_type *type = flx_dataset_type(d, i);
        int64_t count = 1;
        for (int32_t k = 1; k < type->rank; k++)
            count *= (int64_t)type->dims[k];
        if (!is_input(t, flx_dataset_name(d, i)) && (count == 1 || count == width))
            return flx_dataset_name(d, i);
    }
    return NULL;
}

/* Logits [N, C] of C >= 2 classes, numbers [N] or [N, K]; *width is C or K. */
static int check_output(const trained *t, int64_t *width)
{
    const flx_graph *g = t->p.predict;
    const flx_type *type = flx_graph_output_count(g) ? flx_val_type(g, flx_graph_output(g, 0)) : NULL;
    bool is_text = type && type->rank == 3;
    if (type && (type->rank == 1 || (type->rank == 2 && flx_dim_is_static(type->dims[1])))) {
        *width = type->rank == 1 ? 1 : (int64_t)type->dims[1];
        return STATUS_OK;
    }
    int status = fail(FLX_E_SHAPE, "output 0 of the graph '%s' is neither [N] nor [N, C]", flx_graph_name(g));
    if (is_text)
        hint("flx generate continues a text");
    return status;
}

/* Whether what is right is a class: the data has its name or its number, or the training had a column of labels. */
static bool is_classifier(const trained *t, const char *truth)
{
    const flx_dataset *d = t->p.data.data;
    const setting *data = settings_take((setting *)&t->p.settings.root, "data");
    for (size_t i = 0; truth && i < flx_dataset_columns(d); i++)
        if (strcmp(flx_dataset_name(d, i), truth) == 0)
            return flx_dataset_type(d, i)->dtype == FLX_I32 || flx_dataset_type(d, i)->dtype == FLX_I64;
    return t->num_classes > 0 || (data && settings_take((setting *)data, "label"));
}

static const flx_tensor *column_of(const flx_feed *feeds, size_t count, const char *name)
{
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(feeds[i].name, name) == 0)
            return feeds[i].value;
    return NULL;
}

/* Runs the model on all rows. */
static int run_all(trained *t, scores *s, const char *truth)
{
    flx_error err = {0};
    const flx_loader_options once = {.struct_size = sizeof once, .batch = BATCH, .epochs = 1};
    flx_loader *l = flx_loader_new(t->p.data.data, &once, &err);
    flx_exec *e = l ? flx_compile(t->p.predict, NULL, &err) : NULL;
    size_t outputs = flx_graph_output_count(t->p.predict), count = 1;
    flx_tensor **out = calloc(outputs + 1, sizeof *out);
    batches b = {0};
    int status = out ? batches_begin(&b, &t->p) : fail_memory();
    if (!status && (!e || flx_params_bind(t->weights, e, &err) != FLX_OK))
        status = report(&err, NULL);
    while (!status && count) {
        const flx_feed *feeds;
        if (flx_loader_next(l, &feeds, &count, &err) != FLX_OK)
            status = report(&err, NULL);
        if (status || !count)
            break;
        batches_take(&b, feeds, count, t->p.predict);
        if (flx_exec_run(e, NULL, b.feeds, b.num_feeds, out, &err) != FLX_OK)
            status = report(&err, NULL);
        else
            scores_add(s, out[0], column_of(feeds, count, truth));
        for (size_t i = 0; i < outputs; i++) {
            flx_tensor_release(out[i]);
            out[i] = NULL;
        }
    }
    batches_end(&b);
    free(out);
    flx_exec_free(e);
    flx_loader_free(l);
    return status;
}

static bool knows_class(const trained *t, const char *name)
{
    for (size_t i = 0; i < t->num_classes; i++)
        if (strcmp(t->classes[i], name) == 0)
            return true;
    return false;
}

static int add_class_name(trained *t, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return fail_memory();
    t->classes[t->num_classes++] = copy;
    return STATUS_OK;
}

/* Labels in the numbers of the training. A class that the training did not have gets a number after those that the
   model predicts: such a row is wrong, and the others count as always. */
static int match_classes(trained *t, int64_t width)
{
    flx_dataset *d = t->p.data.data;
    size_t there = flx_dataset_classes(d), outputs = (size_t)width > t->num_classes ? (size_t)width : t->num_classes;
    flx_error err = {0};
    int status = STATUS_OK;
    if (!t->p.data.label || !there || !t->num_classes || outputs > SIZE_MAX / sizeof *t->classes - there - 1)
        return STATUS_OK;
    char **more = realloc(t->classes, (outputs + there + 1) * sizeof *more);
    if (!more)
        return fail_memory();
    t->classes = more;
    for (size_t i = 0, known = t->num_classes; !status && i < there; i++) {
        char number[24];
        bool is_new = !knows_class(t, flx_dataset_class(d, i));
        for (; !status && is_new && known < outputs; known++) {
            snprintf(number, sizeof number, "%zu", known);
            status = add_class_name(t, number);
        }
        if (!status && is_new)
            note("the class '%.60s' is not one of those that the model knows", flx_dataset_class(d, i));
        if (!status && is_new)
            status = add_class_name(t, flx_dataset_class(d, i));
    }
    if (!status && source_use_classes(&t->p.data, (const char *const *)t->classes, t->num_classes, &err) != STATUS_OK)
        status = report(&err, NULL);
    return status;
}

static int predict(trained *t, int64_t width, scores_form form, bool is_summary)
{
    int status = match_classes(t, width);
    const char *truth = status ? NULL : truth_column(t, width);
    scores s;
    if (status)
        return status;
    status = scores_begin(&s, (const char *const *)t->classes, t->num_classes, width, is_classifier(t, truth));
    s.has_truth = truth != NULL;
    s.form = is_summary ? SCORES_SILENT : form;
    if (!status)
        scores_head(&s);
    if (!status)
        status = run_all(t, &s, truth);
    if (!status && is_summary && !truth)
        status = fail(FLX_E_USAGE, "the data has no labels: there is nothing to compare with");
    if (!status && truth && is_summary && form == SCORES_JSON) {
        scores_summary_json(&s);
    } else if (!status && truth) {
        fflush(stdout);
        scores_summary(&s, is_summary ? stdout : stderr);
    }
    scores_end(&s);
    return status;
}

static int run_predict(const args *a)
{
    trained t;
    settings s = {0};
    int64_t width = 0;
    if (!a->second)
        return fail(FLX_E_USAGE, "flx predict needs FOLDER and DATA");
    int status = trained_open(&t, a->operand);
    if (!status)
        status = check_output(&t, &width);
    if (!status)
        status = open_data(&t, &s, a->second);
    if (!status)
        status = predict(&t, width, args_has(a, "--json") ? SCORES_JSON : SCORES_TABLE, args_has(a, "--summary"));
    trained_close(&t);
    settings_free(&s);
    return status;
}

static const option options[] = {
    {"--summary", NULL, "how good the predictions are instead of each of them", MAY_BE_GIVEN},
    {"--json", NULL, "a JSON object for each row, or for the summary", MAY_BE_GIVEN},
    {0},
};

static const char *const examples[] = {
    "flx train examples/digits.train --steps 40 --out digits.run",
    "flx predict digits.run 'digits(rows=200, seed=5)' --summary",
    "flx predict digits.run 'digits(rows=3, seed=5)'",
    "flx predict digits.run 'digits(rows=3, seed=5)' --json",
    NULL,
};

const command command_predict = {
    .name = "predict",
    .operand = "FOLDER DATA",
    .summary = "classes or numbers that a trained model predicts of data",
    .about =
        "Reads the folder that flx train has written and runs the graph `predict` of the model on data: a path\n"
        "(.csv, .npy, .npz, .safetensors, .png, .pgm, a folder with images of each class), read as the data of the\n"
        "training was, a source as in a file of settings, or - for a table on standard input. Output 0 of the\n"
        "graph is logits of classes [N, C], or numbers [N] or [N, K].\n"
        "\n"
        "Prints a table: for each row the class and its probability, or the numbers; and what is right, if the\n"
        "data has it. Then the summary has accuracy and confusion matrix, or the errors, on standard error.",
    .options = options,
    .examples = examples,
    .run = run_predict,
};
