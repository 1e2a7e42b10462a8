/* SPDX-License-Identifier: Apache-2.0 */
/* start.h: the values that a training begins with. */
#ifndef FLX_TRAIN_START_H
#define FLX_TRAIN_START_H

#include "train/plan.h"

typedef struct {
    flx_params *set; /* parameters of the loss; NULL: new values */
    char *from;      /* the file that they are from, as messages name it */
    size_t num_new;  /* parameters that it lacks, which begin with new values */
} start_values;

/* Reads them from the file of the setting `start`, or else from m.safetensors beside m.flx, or from an ONNX model
   itself. Free with start_free(), also after a failure. */
int start_read(start_values *s, const train_plan *p);
/* Gives a trainer whose step is cut for a mesh the parts of this rank. */
int start_set_parts(const start_values *s, const train_plan *p, flx_trainer *t);
void start_free(start_values *s);

#endif
