/* SPDX-License-Identifier: Apache-2.0 */
/* share.h: a training by several ranks: each takes its part of every batch, and the first one writes. Ranks are
   processes that MPI or the environment has started, or threads with a plan each. */
#ifndef FLX_TRAIN_SHARE_H
#define FLX_TRAIN_SHARE_H

#include "train/plan.h"

/* Makes the process one of those that were started together; those after the first print no progress. With p->mesh the
   step is cut for it, else processes share batches. */
int share_begin(train_plan *p, const char *transport);
/* Makes the plan that of a rank which is a thread. */
int share_begin_thread(train_plan *p, flx_local_mesh *local, int64_t rank);
/* Whether this process writes files. */
bool share_writes(const train_plan *p);
bool share_is_alone(const train_plan *p);
/* Fails unless all processes train the same graph. */
int share_check(const train_plan *p, const flx_graph *trained);
/* Ends the other processes too if the status is a failure. */
void share_end(const train_plan *p, int status);
/* The number of the first rank, with the bits of `any` that some rank has set: all call it. Of a step that is cut for a
   mesh. */
int share_number(const train_plan *p, int32_t any, int32_t *number);

typedef struct {
    flx_feed *feeds; /* of the last batch */
    size_t num_feeds;
} share_part;

/* Replaces the feeds of the batch by the part of this process. */
flx_code share_take(share_part *s, const train_plan *p, flx_batch *batch, flx_error *err);
void share_free(share_part *s);

#endif
