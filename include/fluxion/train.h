/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/train.h: training. A training step is a graph like any other: the loss, its gradients and the update of the
   optimiser, so that the compiler optimises them together. A trainer is that graph compiled, with the memory of the
   parameters and of the optimiser's state, which lives on from step to step. */
#ifndef FLUXION_TRAIN_H
#define FLUXION_TRAIN_H

#include <fluxion/exec.h>

FLX_BEGIN_DECLS

/* With the gradient g, the rate lr and the state named in brackets:
   SGD       p -= lr g
   MOMENTUM  m = momentum m + g, p -= lr m; with FLX_TRAIN_NESTEROV p -= lr (g + momentum m)                        [m]
   ADAM      m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g²,
             p -= lr m' / (sqrt(v') + epsilon) where m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)      [m, v, step t]
   ADAMW     like ADAM, and p -= lr weight_decay p
   Weight decay adds weight_decay p to the gradient, except with ADAMW, where it is separate. */
typedef enum flx_optimiser { FLX_SGD = 0, FLX_MOMENTUM = 1, FLX_ADAM = 2, FLX_ADAMW = 3 } flx_optimiser;

/* Flags of flx_train_options. */
enum {
    FLX_TRAIN_NESTEROV = 1,   /* with FLX_MOMENTUM only */
    FLX_TRAIN_RATE_INPUT = 2, /* the rate is a scalar input `lr`, given in each step */
    FLX_TRAIN_MISSING_ZERO =
        4,                  /* a parameter that the loss does not depend on has the gradient zero, not NO_GRAD_PATH */
    FLX_TRAIN_UNGUARDED = 8 /* a trainer takes steps with a loss or gradients that are not finite */
};

/* Numbers may not be negative; 0 means the default. */
typedef struct flx_train_options {
    uint32_t struct_size; /* sizeof(flx_train_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_TRAIN_… */
    int32_t optimiser;    /* a flx_optimiser */
    int32_t reserved;     /* 0 */
    double rate;          /* 0.01; of FLX_ADAM and FLX_ADAMW 0.001 */
    double momentum;      /* 0.9; below 1 */
    double beta1, beta2;  /* 0.9, 0.999; below 1 */
    double epsilon;       /* 1e-8 */
    double weight_decay;  /* none; of FLX_ADAMW 0.01 */
    double clip_norm;     /* none; otherwise gradients are scaled so that the norm of all together is at most this */
    const char *const *params; /* the parameters to train; NULL: all of a real float dtype */
    size_t num_params;
} flx_train_options;

/** The training step of a graph whose output 0 is the loss, a scalar. Inputs: those of the graph, then for each trained
    parameter p its state `state_<p>_m`, `state_<p>_v` and the counter `state_step`, all parameters that begin as zero,
    then `lr` where the rate is an input. Outputs: the loss, the graph's other outputs, then `new_<p>` for each trained
    parameter and `new_state_…` for each state, in the order of the inputs. Where a name is taken, a suffix _2, _3 … is
    added. Parameters narrower than f32 are updated in f32, and so is their state. NULL on failure: USAGE when there is
    nothing to train or an option is out of range, NAME and DUP_NAME for a wrong list, NON_SCALAR, NO_GRAD_PATH. */
FLX_API flx_graph *flx_training_graph(const flx_graph *loss, const flx_train_options *options, flx_error *err);

typedef struct flx_trainer flx_trainer;

/** Compiles the training step of `loss`. Symbolic dimensions of inputs that compile->dims does not bind take their
    extents from the values of each step, such as the number of examples, and the machine code serves them all; those of
    parameters must be bound: UNBOUND_DIM otherwise. Parameters have no value yet, state is zero. The graph may be
    released afterwards. Options may be NULL; without compile options subnormal numbers are flushed to zero
    (FLX_COMPILE_FLUSH). NULL on failure; free with flx_trainer_free(). */
FLX_API flx_trainer *flx_compile_training(const flx_graph *loss, const flx_train_options *options,
                                          const flx_compile_options *compile, flx_error *err);
FLX_API void flx_trainer_free(flx_trainer *t); /* NULL is fine */

/** Sets a parameter, trained or not, or a state, to a copy of the value. NAME when it does not exist, DTYPE or
    SHAPE when the value does not fit. */
FLX_API flx_code flx_trainer_set_param(flx_trainer *t, const char *name, const flx_tensor *value, flx_error *err);

/** A copy of a parameter or state as it is now, which the caller releases. MISSING_INPUT when it has no value yet. */
FLX_API flx_tensor *flx_trainer_param(const flx_trainer *t, const char *name, flx_error *err);

/** One step on these values of the inputs; *loss (may be NULL) receives the loss before the update. Allocates nothing
    after the first step with the same extents, unless there are ops that only the reference evaluator knows. A step
    that fails changes no parameter and no state: MISSING_INPUT, NAME, DUP_NAME, DTYPE, SHAPE for wrong values, NUMERIC
    if the loss or the norm of all gradients is not finite (unless FLX_TRAIN_UNGUARDED), what an op fails with. One
    thread at a time. */
FLX_API flx_code flx_trainer_step(flx_trainer *t, const flx_feed *feeds, size_t num_feeds, double *loss,
                                  flx_error *err);
/** The same with options of the run: FLX_RUN_CHECK_FINITE (of all but the update), print, dims, status, stop,
    time_limit, memory_limit. A step that is stopped changes nothing; once the update has begun, it ends. */
FLX_API flx_code flx_trainer_step_with(flx_trainer *t, const flx_run_options *options, const flx_feed *feeds,
                                       size_t num_feeds, double *loss, flx_error *err);

/** An output of the graph by its name, as the last step computed it: borrowed until the next step. NULL when it does
    not exist, or depends on extents and there was no step yet. */
FLX_API const flx_tensor *flx_trainer_output(const flx_trainer *t, const char *name);

/** Bytes that parameters and state take. A parameter that is updated in place is there once, others twice. In addition
    a step works in flx_exec_memory() of its executable. */
FLX_API size_t flx_trainer_memory(const flx_trainer *t);

/** The compiled step, for reports; borrowed. */
FLX_API const flx_exec *flx_trainer_exec(const flx_trainer *t);

FLX_END_DECLS
#endif
