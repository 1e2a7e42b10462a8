/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.h: the table of optimisers, for the training graph. */
#ifndef FLXI_OPTIMISER_H
#define FLXI_OPTIMISER_H

#include "graph/graph.h"

#include <fluxion/train.h>

enum { FLXI_MAX_STATE = 2 };

typedef struct {
    const char *name;
    flx_type type;
} flxi_state;

/* The context in which an optimiser builds the update of one parameter. All values are of the dtype `dtype`; scalars
   broadcast. */
typedef struct {
    flx_graph *g;
    const flx_train_options *o; /* defaults filled in, those of the parameter's groups too */
    flx_dtype dtype;
    flx_val rate, step;            /* step counts from 1; FLX_NONE unless the row requests it */
    flx_val p, dp;                 /* parameter and gradient */
    flx_val state[FLXI_MAX_STATE]; /* before */
    flx_val next[FLXI_MAX_STATE];  /* after */
} flxi_update;

/* Defaults that are 0 here are those of most optimisers. */
typedef struct {
    const char *name;
    int num_state;
    const char *state[FLXI_MAX_STATE];                 /* names of states that have the parameter's type … */
    int (*states)(const flx_type *p, flxi_state *out); /* … or a function, where that is not so */
    bool counts_steps;
    double rate, momentum, beta1, beta2, epsilon, weight_decay; /* defaults */
    bool decay_is_apart;                                        /* weight decay is not part of the gradient */
    flx_val (*update)(flxi_update *u);                          /* the next parameter; fills u->next */
} flxi_optimiser;

/* The row of an optimiser, NULL when there is no such optimiser. */
const flxi_optimiser *flxi_optimiser_at(int32_t number);

/* The states of a parameter, whose type here has the dtype of the arithmetic; returns how many. */
int flxi_optimiser_states(const flxi_optimiser *row, const flx_type *p, flxi_state *out);

#endif
