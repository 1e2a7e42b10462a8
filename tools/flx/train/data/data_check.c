/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.c: see data_check.h. What does not fit would otherwise fail the first step that meets it, in terms of the
   op that takes it. */
#include "train/data/data_check.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 4096 }; /* that are read together */

static int64_t last_extent(const flx_type *t)
{
    bool is_known = t && t->rank >= 2 && flx_dim_is_static(t->dims[t->rank - 1]);
    return is_known ? (int64_t)t->dims[t->rank - 1] : 0;
}

/* What the loss compares an input with: the logits of an op that takes both. */
typedef struct {
    int64_t outputs;    /* for classes or tokens; 0: not known */
    const char *column; /* of the data, that feeds the input; NULL: not known */
} comparison;

static const char compares[] = "softmax_cross_entropy_with_logits";

static comparison comparison_of(const train_plan *p)
{
    const flx_graph *g = p->loss;
    for (size_t i = 0; i < flx_graph_node_count(g); i++) {
        flx_node_view v;
        if (flx_graph_node(g, i, &v) != FLX_OK || strcmp(v.op, compares) != 0)
            continue;
        flx_val logits = flx_node_input(g, i, 0), labels = flx_node_input(g, i, 1);
        for (size_t k = 0; k < flx_graph_input_count(g); k++)
            if (flx_graph_input(g, k).id == labels.id)
                return (comparison){last_extent(flx_val_type(g, logits)), plan_column(p, flx_val_name(g, labels))};
    }
    return (comparison){0};
}

/* The outputs for classes or tokens: the last extent of what the graph `predict` returns, or else as the loss says. */
static int64_t outputs_of(const train_plan *p, const comparison *c)
{
    const flx_graph *g = p->predict;
    int64_t outputs = g && flx_graph_output_count(g) ? last_extent(flx_val_type(g, flx_graph_output(g, 0))) : 0;
    return outputs ? outputs : c->outputs;
}

/* The least and the largest number of a column. */
static int find_range(const flx_dataset *d, const char *column, int64_t *least, int64_t *most)
{
    int64_t rows[ROWS];
    flx_error err = {0};
    *least = INT64_MAX;
    *most = INT64_MIN;
    for (int64_t first = 0; first < flx_dataset_rows(d); first += ROWS) {
        size_t n = 0;
        while (n < ROWS && first + (int64_t)n < flx_dataset_rows(d)) {
            rows[n] = first + (int64_t)n;
            n++;
        }
        flx_tensor *t = flx_dataset_gather(d, column, rows, n, &err);
        if (!t)
            return report(&err, NULL);
        for (int64_t i = 0; i < flx_tensor_count(t); i++) {
            int64_t x = (int64_t)flx_tensor_get(t, i);
            *least = x < *least ? x : *least;
            *most = x > *most ? x : *most;
        }
        flx_tensor_release(t);
    }
    return STATUS_OK;
}

const setting *data_setting(const train_plan *p, const source *d)
{
    const setting *at = settings_take((setting *)&p->settings.root, d == &p->data ? "data" : "validation");
    return at ? at : &p->settings.root;
}

static int check_labels(const train_plan *p, const source *d, const char *label, int64_t outputs)
{
    int64_t least, most;
    const setting *at = data_setting(p, d);
    size_t classes = flx_dataset_classes(d->data);
    if ((int64_t)classes > outputs)
        return settings_fail(&p->settings, at, "the data has %zu %s, the model's last layer has %lld", classes,
                             plural((int64_t)classes, "class", "classes"), (long long)outputs);
    int status = classes ? STATUS_OK : find_range(d->data, label, &least, &most);
    if (status || classes)
        return status;
    if (most >= outputs)
        return settings_fail(
            &p->settings, at, "the labels '%.60s' go up to %lld, the model's last layer has %lld %s: 0 to %lld", label,
            (long long)most, (long long)outputs, plural(outputs, "class", "classes"), (long long)outputs - 1);
    if (least < 0)
        return settings_fail(&p->settings, at, "the labels '%.60s' begin at %lld, but classes at 0", label,
                             (long long)least);
    return STATUS_OK;
}

static int check_tokens(const train_plan *p, const source *d, int64_t outputs)
{
    if (d->tokens <= outputs)
        return STATUS_OK;
    int status = settings_fail(&p->settings, data_setting(p, d),
                               "the text has tokens up to %lld, the model's last layer "
                               "has %lld: 0 to %lld",
                               (long long)d->tokens - 1, (long long)outputs, (long long)outputs - 1);
    hint("flx model gpt --set vocabulary=%lld", (long long)d->tokens);
    return status;
}

static const flx_type *type_of_column(const flx_dataset *d, const char *column)
{
    for (size_t i = 0; i < flx_dataset_columns(d); i++)
        if (strcmp(flx_dataset_name(d, i), column) == 0)
            return flx_dataset_type(d, i);
    return NULL;
}

/* Whether rows of the column fit the input: a batch has another number of rows, and symbols take any extent. */
static bool rows_fit(const flx_type *column, const flx_type *input)
{
    if (column->dtype != input->dtype || column->rank != input->rank)
        return false;
    for (int i = 1; i < column->rank; i++)
        if (flx_dim_is_static(input->dims[i]) && input->dims[i] != column->dims[i])
            return false;
    return true;
}

static int misfit(const train_plan *p, const source *d, const char *name, const flx_type *column, const flx_type *input)
{
    char has[80], takes[80];
    flx_type_print(p->model.ctx, column, has, sizeof has);
    flx_type_print(p->model.ctx, input, takes, sizeof takes);
    return settings_fail(&p->settings, data_setting(p, d), "the column '%.60s' is %s, the model's input '%.60s' is %s",
                         plan_column(p, name), has, name, takes);
}

static int check_inputs(const train_plan *p, const source *d)
{
    for (size_t i = 0; d->data && i < flx_graph_input_count(p->loss); i++) {
        flx_val v = flx_graph_input(p->loss, i);
        const char *name = flx_val_name(p->loss, v);
        const flx_type *input = flx_val_type(p->loss, v), *column = type_of_column(d->data, plan_column(p, name));
        if (!flx_graph_input_is_param(p->loss, i) && column && !rows_fit(column, input))
            return misfit(p, d, name, column, input);
    }
    return STATUS_OK;
}

/* The column if it has one integer for each row, as labels are. */
static const char *if_labels(const source *d, const char *column)
{
    const flx_type *t = column ? type_of_column(d->data, column) : NULL;
    return t && t->rank == 1 && (t->dtype == FLX_I32 || t->dtype == FLX_I64) ? column : NULL;
}

static int check_source(const train_plan *p, const source *d, const comparison *c, int64_t outputs)
{
    if (!d->data)
        return STATUS_OK;
    if (d->is_text)
        return check_tokens(p, d, outputs);
    const char *label = d->label ? d->label : if_labels(d, c->column);
    return label ? check_labels(p, d, label, outputs) : STATUS_OK;
}

int data_check(const train_plan *p)
{
    comparison c = comparison_of(p);
    int64_t outputs = outputs_of(p, &c);
    int status = check_inputs(p, &p->data);
    if (!status)
        status = check_inputs(p, &p->validation);
    if (!status && outputs)
        status = check_source(p, &p->data, &c, outputs);
    return status || !outputs ? status : check_source(p, &p->validation, &c, outputs);
}
