/* SPDX-License-Identifier: Apache-2.0 */
/* train.h: training steps as graphs, for the trainer. */
#ifndef FLXI_TRAIN_H
#define FLXI_TRAIN_H

#include "graph/graph.h"

#include <fluxion/train.h>

/* A training step. Outputs are the loss, the graph's other outputs, then the next value of each updated leaf. */
typedef struct flxi_training {
    flx_graph *g;
    size_t *updated; /* leaves: trained parameters in order, then states of the graph, then those of the step */
    size_t num_updated, num_trained;
    size_t num_results; /* the loss and other outputs: output num_results + j is the next value of updated[j] */
    size_t guard;       /* 1 + the output that is the norm of all gradients; 0: none */
    size_t norms;       /* 1 + the output that has the sums of squares of the gradients; 0: none */
    size_t rate;        /* 1 + the output that is the rate; 0: none, the rate is fixed or an input */
    size_t first_state; /* leaves of g from this position on are states, and the learning rate */
    size_t first_ema;   /* updated[first_ema + i] is the average of trained parameter i; 0: none */
    size_t room;        /* of `updated` */
    int32_t optimiser;  /* a flx_optimiser */
    const flxi_allocator *mem;
    /* Of a step that is cut for a mesh: */
    flx_graph *whole;  /* the step before that */
    char *axes;        /* of the mesh; NULL: it is not cut */
    const char **cuts; /* by leaf, in the arena of `whole` */
} flxi_training;

/* Cuts the step for the mesh of the options, if they name one (mesh_step.c). is_run: the context must be a process of
   that mesh. */
flx_code flxi_training_cut(flxi_training *t, const flx_train_options *o, bool is_run, flx_error *err);
/* How leaf i is cut: words with commas between them. */
const char *flxi_training_cut_of(const flxi_training *t, size_t leaf);

/* Freed by flxi_training_free() whether it succeeds or not. `options` were read by flxi_train_options_read().
   `for_trainer`: gradients are separate from the update, and their norm is an output unless the options say
   otherwise. */
flx_code flxi_training_make(flxi_training *t, const flx_graph *loss, const flx_train_options *options, bool for_trainer,
                            flx_error *err);
void flxi_training_free(flxi_training *t);

/* ---- Options ---- */

/* The options with their defaults filled in, checked. */
flx_code flxi_train_options_read(flx_train_options *out, const flx_train_options *given, flx_error *err);

/* What the groups say of one parameter. */
typedef struct {
    bool is_frozen;
    double rate_factor, weight_decay;
} flxi_group;

flxi_group flxi_group_of(const flx_train_options *o, const char *name);

#endif
