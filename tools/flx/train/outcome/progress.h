/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h: how far a training is: one line that is redrawn on a terminal, lines from time to time elsewhere. */
#ifndef FLX_TRAIN_PROGRESS_H
#define FLX_TRAIN_PROGRESS_H

#include <fluxion/train.h>
#include <stdbool.h>

typedef struct {
    int64_t steps;      /* of the whole training */
    int64_t first_step; /* where this run began */
    double shown;       /* when the line was written, in seconds */
    bool is_terminal;
} progress;

void progress_begin(progress *p, int64_t steps, int64_t first_step);

/* After a step of this run. */
void progress_step(progress *p, const flx_progress *state);

/* After an epoch, or a part of one: a line that stays. */
void progress_epoch(progress *p, const flx_progress *state, int64_t epoch, bool is_whole, bool is_best);

/* Removes the line that is redrawn. */
void progress_end(progress *p);

/* The name of a metric; that of an output 0 without a name of its own is `loss`. */
const char *progress_name(const flx_metric *m);

#endif
