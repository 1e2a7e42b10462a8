/* SPDX-License-Identifier: Apache-2.0 */
/* training_work.h: a training step while it is built. */
#ifndef FLXI_TRAINING_WORK_H
#define FLXI_TRAINING_WORK_H

#include "autodiff/autodiff.h"
#include "train/optimiser.h"
#include "train/train.h"

typedef struct {
    const flx_graph *loss;
    flx_train_options o;
    const flxi_optimiser *optimiser;
    flxi_training *t;
    flx_graph *g;       /* the gradient graph, which grows. Its first outputs are those of the loss, then gradients */
    flxi_arena arena;   /* scratch */
    const char **names; /* of the trained parameters */
    size_t num_trained;
    size_t num_kept;      /* states of the loss graph */
    size_t *kept_outputs; /* their next values, by output of the loss */
    flx_dtype widest;     /* of the arithmetic: f64 if some parameter is, else f32 */
    flx_val rate, step;   /* step: with this one */
    flx_val loss_scale;   /* or none … */
    size_t scale_at;      /* … and the position of its state in t->updated, after which is the count of good steps */
    flx_val examples;     /* how many examples the step has, with clip_example; or the update, with a weight */
    flx_val weight;       /* how many examples the step has, with accumulation; or none: all steps weigh the same */
    flx_val share;        /* the reciprocal of the examples of the update; or none */
    flx_val *total;       /* by trained parameter: the gradient that the update uses */
    flx_val *squares;     /* by trained parameter: the sum of the squares of its gradient; or NULL */
    flx_val norm;         /* of all gradients, or a loss that is not finite; or none */
    flx_val factor;       /* of the gradients, from clipping; or none */
    flx_val takes;        /* whether gradients are finite and used; or none: always */
    flx_val waits;        /* the same, or what is always true, but known only with the norm: for sums */
    flx_val is_last;      /* whether this step ends with an update; or none: always */
    flx_val applies;      /* both */
    bool for_trainer;
    flx_val *next; /* by position in t->updated */
    flx_error *err;
} flxi_training_work;

/* Differentiates: makes w->g, with the leaves of the loss first. */
flx_code flxi_make_gradients(flxi_training_work *w);

/* Where processes share a batch: the outputs of w->g become means over the processes. */
flx_code flxi_reduce_over_processes(flxi_training_work *w);

/* Whether output i of the loss is the next value of a state. */
bool flxi_is_kept_output(const flxi_training_work *w, size_t i);

/* A parameter named after the given parts, with a suffix where that name is in use; it becomes the next updated
   leaf. */
flx_val flxi_new_state(flxi_training_work *w, const char *param, const char *state, const flx_type *type);

/* The value in another dtype. */
flx_val flxi_with_dtype(flx_graph *g, flx_val x, flx_dtype to);

/* The loss with its nodes in at most `regions` bodies that reverse mode computes again. */
flx_graph *flxi_recompute_regions(const flx_graph *loss, int64_t regions, flx_error *err);

#endif
