/* SPDX-License-Identifier: Apache-2.0 */
/* trained.h: a model that flx train has trained, as its folder has it. */
#ifndef FLX_TRAINED_H
#define FLX_TRAINED_H

#include "train/plan.h"

typedef struct {
    train_plan p; /* the settings, the model, its graph `predict`, the inputs; data.tokeniser, if there is one */
    flx_params *weights;
    char **classes; /* names of the classes, if they have names */
    size_t num_classes;
    char **features; /* the columns of a table with a header, in the order of the model, if they have names */
    size_t num_features;
} trained;

/* Reads the folder. Close with trained_close(), also after a failure. */
int trained_open(trained *t, const char *folder);
void trained_close(trained *t);

#endif
