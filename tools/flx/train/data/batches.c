/* SPDX-License-Identifier: Apache-2.0 */
/* batches.c: see batches.h. */
#include "train/data/batches.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

int batches_begin(batches *b, const train_plan *p)
{
    *b = (batches){.p = p, .feeds = calloc(flx_dataset_columns(p->data.data) + 1, sizeof(flx_feed))};
    return b->feeds ? STATUS_OK : fail_memory();
}

void batches_end(batches *b)
{
    free(b->feeds);
    *b = (batches){0};
}

/* The input of the graph that takes the column, or NULL. */
static const char *input_of(const batches *b, const flx_graph *g, const char *column)
{
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        if (!flx_graph_input_is_param(g, i) && strcmp(plan_column(b->p, name), column) == 0)
            return name;
    }
    return NULL;
}

void batches_take(batches *b, const flx_feed *feeds, size_t count, const flx_graph *g)
{
    const char *label = b->p->data.label ? b->p->data.label : plan_column(b->p, "label");
    b->num_feeds = 0;
    b->labels = NULL;
    b->examples = count ? (int64_t)flx_tensor_type(feeds[0].value)->dims[0] : 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = input_of(b, g, feeds[i].name);
        if (name)
            b->feeds[b->num_feeds++] = (flx_feed){name, feeds[i].value};
        if (strcmp(feeds[i].name, label) == 0)
            b->labels = feeds[i].value;
    }
}

int batches_next(batches *b, flx_loader *l, const flx_graph *g, flx_error *err)
{
    const flx_feed *feeds;
    size_t count;
    if (flx_loader_next(l, &feeds, &count, err) != FLX_OK)
        return -1;
    batches_take(b, feeds, count, g);
    return count > 0;
}
