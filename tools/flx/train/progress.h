/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h: how far a training is: one line that is redrawn on a terminal, lines from time to time elsewhere. */
#ifndef FLX_TRAIN_PROGRESS_H
#define FLX_TRAIN_PROGRESS_H

#include <fluxion/train.h>
#include <stdbool.h>

typedef struct {
    int64_t steps;      /* of the whole training */
    int64_t first_step; /* where this run began */
    double tokens;      /* of one example; 1: examples are counted */
    const char *unit;   /* "examples" or "tokens" */
    bool is_terminal;
    double begin, shown; /* seconds */
    double examples;     /* in this run */
    double rate;         /* smoothed, units per second */
    double loss;         /* smoothed */
    double last;         /* seconds, of the last step */
} progress;

void progress_begin(progress *p, int64_t steps, int64_t first_step, int64_t tokens);

/* After a step: `step` of all, the loss and the number of examples. */
void progress_step(progress *p, int64_t step, double loss, int64_t examples);

/* After an epoch, or a part of one: a line that stays. */
void progress_epoch(progress *p, const flx_progress *state, int64_t epoch, bool is_whole, bool is_best);

/* Removes the line that is redrawn. */
void progress_end(progress *p);

#endif
