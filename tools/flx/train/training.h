/* SPDX-License-Identifier: Apache-2.0 */
/* training.h: carrying out a plan. */
#ifndef FLX_TRAINING_H
#define FLX_TRAINING_H

#include "train/plan.h"

typedef struct {
    const char *folder; /* where it writes */
    const char *device;
    const char *trace; /* where the events of one step are written; NULL: nowhere */
    bool resumes, overwrites, is_dry;
    int64_t steps; /* ends after that many; 0: as the plan says */
} training_request;

/* Trains, writes the folder and says what it does. */
int training_run(const train_plan *p, const training_request *request);

#endif
