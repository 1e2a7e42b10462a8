/* SPDX-License-Identifier: Apache-2.0 */
/* share.h: a training by several processes: each takes its part of every batch, and the first one writes. */
#ifndef FLX_TRAIN_SHARE_H
#define FLX_TRAIN_SHARE_H

#include "train/plan.h"

/* Makes the process one of those that MPI started, which share batches from now on; those after the first print no
   progress. */
int share_begin(train_plan *p);
/* Whether this process writes files. */
bool share_writes(const train_plan *p);
bool share_is_alone(const train_plan *p);
/* Fails unless all processes train the same graph. */
int share_check(const train_plan *p, const flx_graph *trained);
/* Ends the other processes too if the status is a failure. */
void share_end(const train_plan *p, int status);

typedef struct {
    flx_feed *feeds; /* of the last batch */
    size_t num_feeds;
} share_part;

/* Replaces the feeds of the batch by the part of this process. */
flx_code share_take(share_part *s, const train_plan *p, flx_batch *batch, flx_error *err);
void share_free(share_part *s);

#endif
