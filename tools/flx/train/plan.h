/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: a training as its settings describe it: the model, the data and how it is trained. */
#ifndef FLX_TRAIN_PLAN_H
#define FLX_TRAIN_PLAN_H

#include "io/load.h"
#include "train/data/source.h"
#include "train/settings.h"

#include <fluxion/mesh.h>
#include <fluxion/train.h>

typedef struct {
    const char *prompt; /* "": the beginning of the validation text */
    int64_t tokens;     /* 0: no sample */
    double temperature;
} sample_plan;

typedef struct {
    settings settings;
    char *folder; /* of the file; "" is the current one */
    char *name;   /* of the file, without folder and extension */
    model model;
    flx_graph *loss;         /* its output 0 is trained */
    setting *made_loss;      /* what it was made by: loss = cross_entropy(COLUMN); NULL: the model has it */
    flx_graph *validated;    /* the loss as validation computes it; NULL: there is none */
    flx_graph *predict;      /* or NULL */
    source data, validation; /* validation.data may be NULL */
    setting *inputs;         /* which column an input takes; NULL: that of its name */
    flx_train_options options;
    flx_train_group *groups;
    bool has_no_decay;            /* the optimiser's weight_decay is 0 */
    flx_graph *schedule, *narrow; /* what options and loss may point to */
    int64_t batch, epochs, steps; /* steps of all epochs; the training ends with whichever comes first */
    int64_t seed, patience, save_every, threads;
    const char *start; /* the file with the values that it begins with; NULL: what is with the model */
    bool is_new;       /* … or new ones */
    bool may_lack;     /* the file need not have all parameters: the others are new */
    bool may_exceed;   /* … and may have tensors that are none */
    char split[40];    /* which rows are for validation */
    int64_t memory;    /* bytes that a step may work in; 0: any */
    bool shuffle, drop_last;
    const char *mesh;                       /* "data=2,model=2": the step is cut for it; NULL: it is not */
    flx_sharding *shardings;                /* … in this way, inputs too */
    char (*row_cuts)[4 + 2 * FLX_MAX_RANK]; /* of inputs that are cut by examples */
    flx_graph *fixed;                       /* the loss with the extents of a batch; NULL: it is not cut */
    sample_plan sample;
} train_plan;

/* Reads the settings and what they name. Free with plan_free(), also after a failure. */
int plan_read(train_plan *p, const char *path);
void plan_free(train_plan *p);

/* The column that feeds an input of a graph; its own name unless the settings say otherwise. */
const char *plan_column(const train_plan *p, const char *input);

#endif
