/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h: what a training leaves: weights, a sample, a confusion matrix, a report. */
#ifndef FLX_OUTCOME_H
#define FLX_OUTCOME_H

#include "train/data/batches.h"

#include <fluxion/report.h>

typedef struct {
    const train_plan *p;
    const char *folder;
    flx_trainer *trainer;
    flx_loader *loader;     /* of the data; its next batch is used for the profile */
    flx_loader *validation; /* NULL: none */
    batches *batches;
    flx_report *report;        /* with the curves */
    const flx_params *weights; /* what is written and tried */
    int64_t step;              /* the last one */
    int64_t end;               /* how many there should be */
    bool is_stopped;           /* before its end: no sample and no matrix */
    const char *trace;         /* where the events of one step are written; NULL: nowhere */
} outcome;

/* Writes weights.safetensors, report.html, log.csv and log.tfevents; prints a sample, if the plan has one. */
int outcome_write(const outcome *o);

#endif
