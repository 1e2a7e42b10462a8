/* SPDX-License-Identifier: Apache-2.0 */
/* loss_setting.c: see loss_setting.h. The input that is compared has the name of its column, the dtype of the column
   and the shape that the model predicts. */
#include "train/loss_setting.h"

#include "report.h"
#include "train/loss_kinds.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 16 };

static const loss_kind *find_kind(const train_plan *p)
{
    const char *names[MAX_KINDS];
    const loss_kind *kind;
    size_t n = 0;
    for (; n < MAX_KINDS && (kind = loss_kind_at(n)); n++) {
        names[n] = kind->name;
        if (strcmp(kind->name, p->made_loss->text) == 0)
            return kind;
    }
    settings_unknown(&p->settings, p->made_loss, "loss", names, n);
    return NULL;
}

/* ---- The column ---- */

static const flx_type *column_type(const train_plan *p, const char *column)
{
    for (size_t i = 0; i < flx_dataset_columns(p->data.data); i++)
        if (strcmp(flx_dataset_name(p->data.data, i), column) == 0)
            return flx_dataset_type(p->data.data, i);
    settings_fail(&p->settings, p->made_loss, "the data has no column '%.60s'", column);
    hint_list_begin("the columns are");
    for (size_t i = 0; i < flx_dataset_columns(p->data.data); i++)
        list_item(flx_dataset_name(p->data.data, i));
    hint_list_end();
    return NULL;
}

static bool is_integer(const flx_type *t)
{
    return t->dtype == FLX_I32 || t->dtype == FLX_I64;
}

static int does_not_fit(const train_plan *p, const char *column, const flx_type *has, const flx_type *y)
{
    char text[2][80];
    flx_type_print(p->model.ctx, has, text[0], sizeof text[0]);
    flx_type_print(p->model.ctx, y, text[1], sizeof text[1]);
    int status =
        settings_fail(&p->settings, p->made_loss, "%s: the column '%.60s' is %s, but the graph '%.60s' returns %s",
                      p->made_loss->text, column, text[0], flx_graph_name(p->predict), text[1]);
    hint("cross_entropy takes logits [N, C] and a column of integers, other losses take numbers of one shape");
    return status;
}

/* The type of the input that is compared with y, the rows of the column as many as those of y. */
static int truth_type(const train_plan *p, const loss_kind *kind, const char *column, const flx_type *y, flx_type *out)
{
    const flx_type *has = column_type(p, column);
    if (!has)
        return STATUS_BAD_INPUT;
    bool is_fit = kind->is_of_classes ? y->rank == has->rank + 1 && is_integer(has)
                                      : y->rank == has->rank || (y->rank == has->rank + 1 && y->dims[has->rank] == 1);
    if (!is_fit)
        return does_not_fit(p, column, has, y);
    *out = flx_type_make((flx_dtype)has->dtype, has->rank, y->dims);
    return STATUS_OK;
}

/* ---- The graph ---- */

/* What the model sets itself, such as running statistics, is an output of the loss too. */
static void keep_states(flx_graph *g, const flx_graph *predict, const flx_val *outputs)
{
    for (size_t i = 1; i < flx_graph_output_count(predict); i++) {
        const char *name = flx_graph_output_name(predict, i);
        if (name && strncmp(name, "new_", 4) == 0)
            flx_output(g, outputs[i], name);
    }
}

static int build(train_plan *p, const loss_kind *kind, const char *column, flx_graph *g, flx_val *outputs)
{
    flx_error err = {0};
    flx_type type;
    size_t n = flx_graph_output_count(p->predict);
    if (!flx_inline(g, p->predict, NULL, 0, outputs, n)) {
        flx_graph_error(g, &err);
        return report(&err, p->model.name);
    }
    int status = truth_type(p, kind, column, flx_val_type(g, outputs[0]), &type);
    if (status)
        return status;
    loss_kind_append(kind, g, outputs[0], flx_input(g, column, &type));
    keep_states(g, p->predict, outputs);
    if (flx_module_add(p->model.module, g, &err) == FLX_OK)
        return STATUS_OK;
    return settings_fail(&p->settings, p->made_loss, "%s", err.message);
}

/* Models that `flx model` prints have their loss. */
static int check_is_needed(const train_plan *p)
{
    if (!flx_module_find(p->model.module, "loss"))
        return STATUS_OK;
    settings_fail(&p->settings, p->made_loss, "the model has a graph 'loss', which is trained");
    hint("remove this line, and write inputs = columns(INPUT=COLUMN) if its inputs are not called as the columns");
    return STATUS_BAD_INPUT;
}

int loss_setting_build(train_plan *p)
{
    const char *column;
    const loss_kind *kind = find_kind(p);
    if (!kind || check_is_needed(p))
        return STATUS_BAD_INPUT;
    int status = settings_operand(&p->settings, p->made_loss, 0, "a column", &column);
    if (!status)
        status = settings_check_taken(&p->settings, p->made_loss);
    if (status)
        return status;
    flx_graph *g = flx_graph_new(p->model.ctx, "loss");
    flx_val *outputs = calloc(flx_graph_output_count(p->predict) + 1, sizeof *outputs);
    status = g && outputs ? build(p, kind, column, g, outputs) : fail_memory();
    p->loss = status ? NULL : g; /* the model holds it */
    flx_graph_release(g);
    free(outputs);
    return status;
}
