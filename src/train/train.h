/* SPDX-License-Identifier: Apache-2.0 */
/* train.h: training steps as graphs, for the trainer. */
#ifndef FLXI_TRAIN_H
#define FLXI_TRAIN_H

#include "graph/graph.h"

#include <fluxion/train.h>

/* A training step. Outputs are the loss, the graph's other outputs, then the next value of each updated leaf. */
typedef struct {
    flx_graph *g;
    size_t *updated; /* leaves: trained parameters in order, then states */
    size_t num_updated;
    size_t num_results; /* the loss and other outputs: output num_results + j is the next value of updated[j] */
    bool is_guarded;    /* the last output is the norm of all gradients */
    size_t first_state; /* leaves of g from this position on are states, and the learning rate */
    size_t room;        /* of `updated` */
    const flxi_allocator *mem;
} flxi_training;

/* Freed by flxi_training_free() whether it succeeds or not. `for_trainer`: gradients are separate from the update, and
   their norm is an output unless the options say otherwise. */
flx_code flxi_training_make(flxi_training *t, const flx_graph *loss, const flx_train_options *options, bool for_trainer,
                            flx_error *err);
void flxi_training_free(flxi_training *t);

/* ---- Optimisers ---- */

enum { FLXI_MAX_STATE = 2 };

/* The context in which an optimiser builds the update of one parameter. All values are of the dtype `dtype`; scalars
   broadcast. */
typedef struct {
    flx_graph *g;
    const flx_train_options *o; /* defaults filled in */
    flx_dtype dtype;
    flx_val rate, step;            /* step counts from 1; FLX_NONE unless the row requests it */
    flx_val p, dp;                 /* parameter and gradient */
    flx_val state[FLXI_MAX_STATE]; /* before */
    flx_val next[FLXI_MAX_STATE];  /* after */
} flxi_update;

typedef struct {
    const char *name;
    int num_state;
    const char *state[FLXI_MAX_STATE]; /* their names */
    bool counts_steps;
    double rate, weight_decay;         /* defaults */
    bool decay_is_apart;               /* weight decay is not part of the gradient */
    flx_val (*update)(flxi_update *u); /* the next parameter; fills u->next */
} flxi_optimiser;

/* The row of an optimiser, NULL when there is no such optimiser. */
const flxi_optimiser *flxi_optimiser_at(int32_t number);

/* The options with their defaults filled in. */
flx_code flxi_train_options_check(const flx_train_options *given, flx_train_options *out, flx_error *err);

#endif
