/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.c: see data_check.h. An index out of range would otherwise fail the first step that meets it, in terms of
   the op that takes it. */
#include "train/data_check.h"

#include "report.h"

#include <stdlib.h>

enum { ROWS = 4096 }; /* that are read together */

/* The outputs for classes or tokens: the last extent of output 0; 0 when it is not known. */
static int64_t outputs_of(const train_plan *p)
{
    const flx_graph *g = p->predict;
    const flx_type *t = g && flx_graph_output_count(g) ? flx_val_type(g, flx_graph_output(g, 0)) : NULL;
    bool is_known = t && t->rank >= 2 && flx_dim_is_static(t->dims[t->rank - 1]);
    return is_known ? (int64_t)t->dims[t->rank - 1] : 0;
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

static int check_labels(const train_plan *p, const source *d, int64_t outputs)
{
    int64_t least, most;
    size_t classes = flx_dataset_classes(d->data);
    if ((int64_t)classes > outputs)
        return settings_fail(&p->settings, &p->settings.root,
                             "the data has %zu classes, the model's last layer has %lld", classes, (long long)outputs);
    int status = classes ? STATUS_OK : find_range(d->data, d->label, &least, &most);
    if (status || classes)
        return status;
    if (most >= outputs)
        return settings_fail(&p->settings, &p->settings.root,
                             "the labels '%.60s' go up to %lld, the model's last layer has %lld classes: 0 to %lld",
                             d->label, (long long)most, (long long)outputs, (long long)outputs - 1);
    if (least < 0)
        return settings_fail(&p->settings, &p->settings.root, "the labels '%.60s' begin at %lld, but classes at 0",
                             d->label, (long long)least);
    return STATUS_OK;
}

static int check_tokens(const train_plan *p, const source *d, int64_t outputs)
{
    if (d->tokens <= outputs)
        return STATUS_OK;
    int status = settings_fail(&p->settings, &p->settings.root,
                               "the text has tokens up to %lld, the model's last layer "
                               "has %lld: 0 to %lld",
                               (long long)d->tokens - 1, (long long)outputs, (long long)outputs - 1);
    hint("flx model gpt --set vocabulary=%lld", (long long)d->tokens);
    return status;
}

static int check_source(const train_plan *p, const source *d, int64_t outputs)
{
    if (!d->data)
        return STATUS_OK;
    return d->is_text ? check_tokens(p, d, outputs) : d->label ? check_labels(p, d, outputs) : STATUS_OK;
}

int data_check(const train_plan *p)
{
    int64_t outputs = outputs_of(p);
    int status = outputs ? check_source(p, &p->data, outputs) : STATUS_OK;
    return status || !outputs ? status : check_source(p, &p->validation, outputs);
}
