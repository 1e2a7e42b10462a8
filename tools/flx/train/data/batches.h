/* SPDX-License-Identifier: Apache-2.0 */
/* batches.h: batches of a loader as feeds of a graph: under the names of its inputs, without columns that it lacks. */
#ifndef FLX_BATCHES_H
#define FLX_BATCHES_H

#include "train/plan.h"

typedef struct {
    const train_plan *p;
    flx_feed *feeds; /* of the last batch */
    size_t num_feeds;
    int64_t examples;
    const flx_tensor *labels; /* what the input `label` takes, of the last batch; or NULL */
} batches;

/* Free with batches_end(), also after a failure. */
int batches_begin(batches *b, const train_plan *p);
void batches_end(batches *b);

/* The next batch for graph g. 1: there is one, 0: the loader is at its end, -1: failed. */
int batches_next(batches *b, flx_loader *l, const flx_graph *g, flx_error *err);
/* The same of a batch that was taken from its loader. */
void batches_take(batches *b, const flx_feed *feeds, size_t count, const flx_graph *g);

#endif
