/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/train.h: training. A training step is a graph like any other: the loss, its gradients and the update of the
   optimiser, so that the compiler optimises them together. A trainer is that graph compiled, with the memory of the
   parameters and of the optimiser's state, which lives on from step to step. */
#ifndef FLUXION_TRAIN_H
#define FLUXION_TRAIN_H

#include <fluxion/exec.h>

FLX_BEGIN_DECLS

/* ---- Parameter sets ---- */

/* Named tensors that persist: the parameters of one or more graphs, or the state of an optimiser. Trainers that use
   one set update its tensors in place, executables read them without copies. A tensor stays the same object as long as
   the set lives, but the memory of its elements may change with each step. One thread at a time. */
typedef struct flx_params flx_params;

/** An empty set. NULL on failure; release it when done. */
FLX_API flx_params *flx_params_new(flx_context *ctx, flx_error *err);

/** The parameters of a graph, which must have static types, initialised. The numbers of a parameter depend on the seed
    and on its name alone, so another parameter more or less does not change them. A u32[2] parameter, a random key, is
    drawn from the seed; other parameters that are not of a real float dtype have no value yet. */
FLX_API flx_params *flx_params_of(const flx_graph *g, uint64_t seed, flx_error *err);

/** Adds the parameters of another graph. One with a name that the set has already is the same parameter, and must have
    the same type: DTYPE or SHAPE otherwise, and nothing is added. */
FLX_API flx_code flx_params_join(flx_params *s, const flx_graph *g, uint64_t seed, flx_error *err);

/** Adds a copy of a tensor. DUP_NAME when there is one of this name. */
FLX_API flx_code flx_params_add(flx_params *s, const char *name, const flx_tensor *value, flx_error *err);

FLX_API flx_params *flx_params_retain(flx_params *s);
FLX_API void flx_params_release(flx_params *s); /* NULL is fine; those who hold its tensors keep them */

FLX_API size_t flx_params_count(const flx_params *s);
FLX_API const char *flx_params_name(const flx_params *s, size_t i); /* NULL when out of range */
/** Tensor i, or the one of this name: borrowed. NULL when there is none, or when it has no value yet. */
FLX_API flx_tensor *flx_params_at(const flx_params *s, size_t i);
FLX_API flx_tensor *flx_params_find(const flx_params *s, const char *name);

/** Copies a value to the parameter of this name. NAME when there is none, DTYPE or SHAPE when it does not fit. */
FLX_API flx_code flx_params_set(flx_params *s, const char *name, const flx_tensor *value, flx_error *err);

/** How many elements the tensors whose names match have in total; pattern NULL: all. */
FLX_API int64_t flx_params_elements(const flx_params *s, const char *pattern);

/** 1 if the name matches the pattern: * matches any characters, ? matches one, every other character itself. */
FLX_API int flx_name_matches(const char *pattern, const char *name);

/* Flags of flx_params_load. */
enum {
    FLX_PARAMS_MISSING = 1, /* parameters that the file lacks keep their values */
    FLX_PARAMS_SURPLUS = 2  /* tensors of the file that the set lacks are ignored */
};

/** Writes all tensors to a .safetensors file, which appears whole or not at all. MISSING_INPUT when one has no
    value. */
FLX_API flx_code flx_params_save(const flx_params *s, const char *path, flx_error *err);
/** Reads the tensors from a file that flx_weights_read() reads. NAME with a list of the names when the file lacks some
    or has others, DTYPE or SHAPE when one does not fit; then nothing is changed. */
FLX_API flx_code flx_params_load(flx_params *s, const char *path, uint32_t flags, flx_error *err);

/** Makes the executable read its parameters from the set, without copies, in all later runs: flx_exec_share_param() for
    each. NAME when the set lacks one. Runs and training steps must not overlap. */
FLX_API flx_code flx_params_bind(const flx_params *s, flx_exec *e, flx_error *err);

/** Feeds for the parameters of a graph that the set has, with borrowed values. Writes up to `capacity` and returns how
    many there are. */
FLX_API size_t flx_params_feeds(const flx_params *s, const flx_graph *g, flx_feed *feeds, size_t capacity);

/** Makes a parameter of `g` a state: a training step sets it to `next`, a value of its type, and no gradient is taken.
    This adds the output `new_<param>`. Any graph that has such an output for a parameter, of the same type, means the
    same. Statistics of a batch norm and random keys are states. Returns `next`; errors stay in the graph. */
FLX_API flx_val flx_update(flx_graph *g, flx_val param, flx_val next);

/* ---- Training steps ---- */

/* Optimisers; docs/training.md has their formulas. Weight decay adds weight_decay p to the gradient, except with
   ADAMW, LION, LAMB, ADAFACTOR and MUON, where it is separate. */
typedef enum flx_optimiser {
    FLX_SGD = 0,
    FLX_MOMENTUM = 1,
    FLX_ADAM = 2,
    FLX_ADAMW = 3,
    FLX_NADAM = 4,
    FLX_ADAGRAD = 5,
    FLX_RMSPROP = 6,
    FLX_LION = 7,
    FLX_ADAFACTOR = 8,
    FLX_LAMB = 9,
    FLX_MUON = 10 /* matrices; others as with ADAMW */
} flx_optimiser;

/** The number of an optimiser by its name ("adamw"), -1 when there is none; and its name, NULL when there is none. */
FLX_API int32_t flx_optimiser_find(const char *name);
FLX_API const char *flx_optimiser_name(int32_t optimiser);

/* Flags of flx_train_options. */
enum {
    FLX_TRAIN_NESTEROV = 1,   /* with FLX_MOMENTUM only */
    FLX_TRAIN_RATE_INPUT = 2, /* the rate is a scalar input `lr`, given in each step */
    FLX_TRAIN_MISSING_ZERO =
        4,                   /* a parameter that the loss does not depend on has the gradient zero, not NO_GRAD_PATH */
    FLX_TRAIN_UNGUARDED = 8, /* a trainer takes steps with a loss or gradients that are not finite */
    FLX_TRAIN_LOSS_SCALE = 16,  /* gradients are computed of the loss times a power of two, which adapts: for f16 */
    FLX_TRAIN_NORMS = 32,       /* a trainer keeps the norm of the gradient of each parameter: flx_trainer_norm_of() */
    FLX_TRAIN_BACKWARD_OPS = 64 /* gradients by backward ops where an op has them, such as attention: FLX_GRAD_… */
};

/* Flags of flx_train_group. */
enum {
    FLX_GROUP_FROZEN = 1,  /* not trained */
    FLX_GROUP_NO_DECAY = 2 /* no weight decay, such as for biases */
};

/* What holds for the parameters whose names match the pattern, of which there must be one: NAME otherwise. Of several
   groups that match, later ones prevail. */
typedef struct flx_train_group {
    const char *pattern; /* flx_name_matches() */
    uint32_t flags;      /* FLX_GROUP_… */
    uint32_t reserved;   /* 0 */
    double rate_factor;  /* times the rate; 0: 1 */
    double weight_decay; /* 0: that of the options */
} flx_train_group;

/* Numbers may not be negative; 0 means the default. */
typedef struct flx_train_options {
    uint32_t struct_size; /* sizeof(flx_train_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_TRAIN_… */
    int32_t optimiser;    /* a flx_optimiser */
    int32_t reserved;     /* 0 */
    double rate;          /* 0.01; others for some optimisers, as all defaults below: docs/training.md */
    double momentum;      /* 0.9; below 1 */
    double beta1, beta2;  /* 0.9, 0.999; below 1 */
    double epsilon;       /* 1e-8 */
    double weight_decay;  /* none; of FLX_ADAMW 0.01 */
    double clip_norm;     /* none; otherwise gradients are scaled so that the norm of all together is at most this */
    const char *const *params; /* the parameters to train, by name or pattern; NULL: all of a real float dtype */
    size_t num_params;
    const flx_train_group *groups;
    size_t num_groups;
    flx_params *set;           /* the parameters of a trainer, which holds it; NULL: a set of its own */
    const flx_graph *schedule; /* of the rate: flx_schedule_graph(), or any graph of one scalar input, the number of
                                  steps taken before this one, whose output 0 is a factor of the rate; NULL: none */
    double clip_value;         /* none; otherwise elements of gradients are clamped to ± this, before clip_norm */
    double ema;                /* none; otherwise the decay of averages of the parameters, below 1 */
    int64_t accumulate;        /* that many steps share one update, with the mean over their examples; 0: 1 */
    int64_t scale_interval;    /* FLX_TRAIN_LOSS_SCALE: the scale doubles after that many good steps; 0: 2000 */
    double loss_scale;         /* … and starts with this, a power of two; 0: 65536 */
    double clip_example;     /* none; otherwise the gradient of each example is scaled to a norm of at most this … */
    double noise;            /* … and normal noise of deviation noise · clip_example is added to their sum */
    const char *example_dim; /* the dimension that counts examples; NULL: the only symbolic one */
    uint64_t seed;           /* of the initialisation of a set of its own, and of noise */
    int64_t recompute;       /* the loss is divided into that many regions, of which the backward pass keeps only the
                                  borders and computes the inside again; 0: everything is kept */
    const char *data_axis;   /* the axis of the mesh (fluxion/mesh.h) along which processes share a batch: each step
                                uses the mean of their gradients and losses; NULL: none */
    const char *mesh; /* "data=4,model=2": the step of the whole batch is cut for this mesh, which the context has
                                joined; all dimensions must be bound. data_axis then only says what `zero` cuts along.
                                NULL: it is not cut */
    const struct flx_sharding *shardings; /* … how: inputs, outputs, and parameters by name or pattern. The state of a
                                             parameter is cut as the parameter is */
    size_t num_shardings;
    int32_t zero; /* … and along data_axis too: 1, 2: the state of the optimiser; 3: parameters as well; 0: neither */
    int32_t reserved2; /* 0 */
} flx_train_options;

/** The training step of a graph whose output 0 is the loss, a scalar. Inputs: those of the graph, then states, all
    parameters that begin as zero: for each trained parameter p those of the optimiser, `state_<p>_m` …, and
    `state_<p>_sum`, `state_<p>_ema` where the options need them; then counters such as `state_step`; then `lr` where
    the rate is an input. Outputs: the loss, the graph's other outputs, then `new_<p>` for each trained parameter and
    each state of the graph (flx_update()), and `new_state_…` for each state, in the order of the inputs. Where a name
    is taken, a suffix _2, _3 … is added. Parameters narrower than f32 are updated in f32, and so is their state. NULL
    on failure: USAGE when there is nothing to train or an option is out of range, NAME and DUP_NAME for a wrong list,
    NON_SCALAR, NO_GRAD_PATH. */
FLX_API flx_graph *flx_training_graph(const flx_graph *loss, const flx_train_options *options, flx_error *err);

/* ---- Schedules: factors of the rate ---- */

typedef enum flx_schedule_kind {
    FLX_SCHEDULE_CONSTANT = 0,
    FLX_SCHEDULE_LINEAR = 1,      /* from 1 to `final` in `steps` */
    FLX_SCHEDULE_COSINE = 2,      /* the same along half a cosine */
    FLX_SCHEDULE_STEP = 3,        /* times `factor` every `steps` */
    FLX_SCHEDULE_EXPONENTIAL = 4, /* factor^(step / steps) */
    FLX_SCHEDULE_ONE_CYCLE = 5,   /* from 1 / 25 up to 1 and down to `final`, along half cosines */
    FLX_SCHEDULE_INVERSE_SQRT = 6 /* sqrt(warmup / step) */
} flx_schedule_kind;

/* The factor of step i, counted from 0. During the first `warmup` steps it is (i + 1) / warmup; the schedule begins
   after them. ONE_CYCLE has a warm-up of its own: `warmup` steps, or 0.3 steps where it is 0. */
typedef struct flx_schedule_options {
    uint32_t struct_size; /* sizeof(flx_schedule_options) */
    int32_t kind;         /* a flx_schedule_kind */
    int64_t warmup;       /* 0: none */
    int64_t steps;        /* must be given except for CONSTANT and INVERSE_SQRT */
    double final;         /* 0, of ONE_CYCLE 4e-6; the factor stays there */
    double factor;        /* 0: 0.1 */
} flx_schedule_options;

/** A schedule as a graph of `step`: i64[] with the output `factor`: f64[]. */
FLX_API flx_graph *flx_schedule_graph(flx_context *ctx, const flx_schedule_options *options, flx_error *err);

/* ---- Trainers ---- */

typedef struct flx_trainer flx_trainer;

/** Compiles the training step of `loss`. Symbolic dimensions of inputs that compile->dims does not bind take their
    extents from the values of each step, such as the number of examples; the first step compiles it then, and its
    machine code serves other extents. Those of parameters must be bound: UNBOUND_DIM otherwise. Parameters are those of
    options->set, to which those that it lacks are added, or of a set that the trainer makes; new ones are initialised
    with options->seed. State is zero. The graph may be released afterwards. Options may be NULL; without compile
    options subnormal numbers are flushed to zero (FLX_COMPILE_FLUSH). NULL on failure; free with flx_trainer_free(). */
FLX_API flx_trainer *flx_compile_training(const flx_graph *loss, const flx_train_options *options,
                                          const flx_compile_options *compile, flx_error *err);
FLX_API void flx_trainer_free(flx_trainer *t); /* NULL is fine */

/** Sets a parameter, trained or not, or a state, to a copy of the value. NAME when it does not exist, DTYPE or
    SHAPE when the value does not fit. */
FLX_API flx_code flx_trainer_set_param(flx_trainer *t, const char *name, const flx_tensor *value, flx_error *err);

/** A copy of a parameter or state as it is now, which the caller releases. MISSING_INPUT when it has no value yet. */
FLX_API flx_tensor *flx_trainer_param(const flx_trainer *t, const char *name, flx_error *err);

/** The sets that the trainer works on, borrowed: the parameters of the loss; the state, named as in the training graph;
    and the averages of the trained parameters, under their names, NULL without `ema` and before the first update not
    yet meaningful. With parameters and state saved and set again, training continues with the same bits. */
FLX_API flx_params *flx_trainer_params(const flx_trainer *t);
FLX_API flx_params *flx_trainer_state(const flx_trainer *t);
FLX_API flx_params *flx_trainer_averages(const flx_trainer *t);

/** One step on these values of the inputs; *loss (may be NULL) receives the loss before the update. Allocates nothing
    after the first step with the same extents, unless there are ops that only the reference evaluator knows. A step
    that fails changes no parameter and no state: MISSING_INPUT, NAME, DUP_NAME, DTYPE, SHAPE for wrong values, NUMERIC
    if the loss or the norm of all gradients is not finite (unless FLX_TRAIN_UNGUARDED), what an op fails with. With
    FLX_TRAIN_LOSS_SCALE such a step succeeds, but halves the scale and changes nothing else, until the scale is 1. One
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

/** Of the last step: its rate, and the norm of all gradients (of the sum, if they are accumulated) before clipping; NaN
    before the first step, and for the norm where it is not needed (FLX_TRAIN_UNGUARDED without clip_norm). */
FLX_API double flx_trainer_rate(const flx_trainer *t);
FLX_API double flx_trainer_norm(const flx_trainer *t);
/** Of the last step: the norm of the gradients of the trained parameters whose names match, before clipping.
    NaN before the first step, without FLX_TRAIN_NORMS, and when none matches. */
FLX_API double flx_trainer_norm_of(const flx_trainer *t, const char *pattern);
/** 1 if the last step was left out because of gradients that are not finite (FLX_TRAIN_LOSS_SCALE). */
FLX_API int flx_trainer_skipped(const flx_trainer *t);

/** Bytes that parameters and state take. A parameter that is updated in place is there once, others twice. In addition
    a step works in flx_exec_memory() of its executable. */
FLX_API size_t flx_trainer_memory(const flx_trainer *t);

/** The compiled step, for reports; borrowed. */
FLX_API const flx_exec *flx_trainer_exec(const flx_trainer *t);

/** Runs the step on these values, as flx_exec_trace() does, without taking it: parameters and state stay as they are.
    For reports. */
FLX_API flx_code flx_trainer_trace(flx_trainer *t, const flx_feed *feeds, size_t num_feeds, flx_run_trace *trace,
                                   flx_error *err);

/* ---- Stopping a training and continuing it (fluxion/checkpoint.h, fluxion/data.h) ---- */

typedef struct flx_checkpoint flx_checkpoint;
typedef struct flx_loader flx_loader;

/** Writes a checkpoint with all parameters and states under their names, and the position of the loader, which may be
    NULL. A trainer of the same loss and options that loads it continues with the same bits. MISSING_INPUT when a
    parameter has no value yet. */
FLX_API flx_code flx_trainer_save(const flx_trainer *t, const flx_loader *loader, const char *path, flx_error *err);
/** Reads a checkpoint. NAME when it lacks a parameter, a state or, with a loader, the position; DTYPE or SHAPE when one
    does not fit; then nothing is changed. Tensors that the trainer does not have are ignored. */
FLX_API flx_code flx_trainer_load(flx_trainer *t, flx_loader *loader, const char *path, flx_error *err);

/** The same to and from a checkpoint that has more in it. It shares the tensors: write it before the next step. */
FLX_API flx_code flx_trainer_store(const flx_trainer *t, const flx_loader *loader, flx_checkpoint *c, flx_error *err);
FLX_API flx_code flx_trainer_restore(flx_trainer *t, flx_loader *loader, const flx_checkpoint *c, flx_error *err);

/* ---- A trainer whose step is cut for a mesh (flx_train_options.mesh, fluxion/mesh.h) ---- */

/* Its parameters and states are the parts of this process: flx_trainer_params(), flx_trainer_param() and
   flx_trainer_set_param() see them, and inputs are parts too (flx_mesh_part()). */

/** How a parameter, state or input is cut: "data,-"; borrowed. Of a trainer without a mesh "" or words -. NULL: the
    step has no such name. */
FLX_API const char *flx_trainer_cut(const flx_trainer *t, const char *name);

/** Whole values of the parameters, in a new set; with `averages` their averages, where the trainer has them. Called by
    all processes; without a mesh they are copies. NULL on failure. */
FLX_API flx_params *flx_trainer_whole(const flx_trainer *t, int averages, flx_error *err);

/** Called by all processes: each writes the parts that it has to a file of its own in the folder, which must exist;
    when all have succeeded, the first writes `index.safetensors`, which names them, and removes those of the checkpoint
    before. If any process fails, all of them fail, and the checkpoint before stays. The position of the loader, which
    may be NULL, is that of the first process. A trainer without a mesh writes one part. */
FLX_API flx_code flx_trainer_save_parts(const flx_trainer *t, const flx_loader *loader, const char *folder,
                                        flx_error *err);
/** The same with an index that also has what `index` has, such as texts of the caller: that of the first process. Keys
    of the parts are added to it, so it is used once. */
FLX_API flx_code flx_trainer_store_parts(const flx_trainer *t, flx_checkpoint *index, const char *folder,
                                         flx_error *err);
/** Reads what is needed of such a checkpoint, written by any number of processes cut in any way: values have the same
    bits. If a process fails, nothing is changed in it. */
FLX_API flx_code flx_trainer_load_parts(flx_trainer *t, flx_loader *loader, const char *folder, flx_error *err);

/* ---- Fitting: a loop over epochs ---- */

/* Values for the inputs of one step; they must stay valid until the next batch is asked for. */
typedef struct flx_batch {
    const flx_feed *feeds;
    size_t num_feeds;
    int64_t examples; /* the weight of this batch in means; 0: the extent of axis 0 of the first value, or 1 */
} flx_batch;

/* Fills in the next batch of an epoch, counted from 0, and returns 1; returns 0 after the last one, and -1 on failure,
   with *err filled in. The first call of an epoch has `index` 0. */
typedef int (*flx_batch_fn)(void *user, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err);

/** Batches of a loader (fluxion/data.h), for flx_fit_options.next with the loader as next_user: an epoch of the fit is
    one of the loader, or the rest of the one that it is in. A loader at its end begins again, as for validation. */
FLX_API int flx_loader_batch(void *loader, int64_t epoch, int64_t index, flx_batch *batch, flx_error *err);

typedef struct flx_metric {
    const char *name;
    double value;
} flx_metric;

/* How far a fit is. Metrics are the means over the epoch so far of all outputs that are real scalars, the loss first,
   weighted by the number of examples; those of the validation graph are there at the end of an epoch. */
typedef struct flx_progress {
    int64_t epoch, num_epochs;
    int64_t step;         /* of this epoch, from 1 */
    int64_t total_steps;  /* of all epochs */
    int64_t examples;     /* of this epoch */
    int32_t is_epoch_end; /* 1: the call at the end of an epoch */
    int32_t is_best;      /* … of the best one so far */
    double loss;          /* of this step */
    double rate, norm;    /* as flx_trainer_rate(), flx_trainer_norm() */
    double seconds;       /* since the fit began */
    const flx_metric *metrics;
    size_t num_metrics;
    const flx_metric *validation;
    size_t num_validation;
    int64_t num_steps;   /* of all epochs; 0: not known yet */
    double recent_loss;  /* of the last steps: the mean with weights 0.9^k */
    double speed;        /* examples per second, or tokens if there are flx_fit_options.tokens; 0: not known yet */
    double seconds_left; /* NaN: not known yet */
    int64_t tokens;      /* flx_fit_options.tokens */
} flx_progress;

/** Progress in words. After a step: "step 20 of 500  loss 0.1234  1.2k tokens/s  1:05 left", as far as it is known; the
    loss is the recent one. After an epoch: "epoch 1: loss 0.1234, accuracy 0.97; validation loss 0.2". With `bar` above
    0 a bar of that many characters precedes a step: "[####....] ". Returns `text`. */
FLX_API const char *flx_progress_text(const flx_progress *p, int32_t bar, char *text, size_t size);

/* Called after each step and after each epoch; a result other than 0 ends the fit. */
typedef int (*flx_progress_fn)(void *user, const flx_progress *p);

/* Flags of flx_fit_options. */
enum {
    FLX_FIT_SKIP_NUMERIC = 1,  /* a step that fails with NUMERIC is left out, instead of ending the fit */
    FLX_FIT_KEEP_BEST = 2,     /* at the end parameters and states of the graph are those of the best epoch */
    FLX_FIT_AVERAGES = 4,      /* the averages of flx_train_options.ema are validated */
    FLX_FIT_VALIDATE_FIRST = 8 /* the validation is also run before the first step: a call at the end of epoch -1, which
                                  has no metrics of its own */
};

typedef struct flx_fit_options {
    uint32_t struct_size; /* sizeof(flx_fit_options) */
    uint32_t flags;       /* FLX_FIT_… */
    flx_batch_fn next;    /* the batches; must be given */
    void *next_user;
    int64_t epochs;    /* 0: 1 */
    int64_t max_steps; /* the fit ends after that many; 0: no limit */
    flx_progress_fn progress;
    void *progress_user;
    const flx_graph *validation; /* run after each epoch on all batches of next_validation, with the parameters as they
                                    are; output 0 is what should become small. NULL: none */
    flx_batch_fn next_validation;
    void *validation_user;
    int64_t patience; /* the fit ends after that many epochs without improvement; 0: never */
    double min_delta; /* an improvement is larger than this */
    flx_stop *stop;   /* NULL, or ends the fit, with CANCELLED */
    int64_t tokens;   /* of an example, for flx_progress.speed; 0: it counts examples */
} flx_fit_options;

/* Why a fit ended. */
enum { FLX_FIT_DONE = 0, FLX_FIT_NO_IMPROVEMENT = 1, FLX_FIT_BY_CALLBACK = 2 };

typedef struct flx_fit_result {
    int32_t reason; /* FLX_FIT_… */
    int32_t reserved;
    int64_t epochs, steps, skipped;
    int64_t best_epoch;
    double loss;      /* the mean of the last epoch */
    double best_loss; /* what was compared: of the validation graph, if there is one */
} flx_fit_result;

/** Trains for a number of epochs. On failure what the steps before did stays. `result` may be NULL. */
FLX_API flx_code flx_fit(flx_trainer *t, const flx_fit_options *options, flx_fit_result *result, flx_error *err);

/** The part of the examples whose largest logit is that of their label, an f32[]: logits [..., C], labels [...]. */
FLX_API flx_val flx_accuracy(flx_graph *g, flx_val logits, flx_val labels);

/* ---- Minimising: for small problems, all data at once ---- */

typedef enum flx_minimiser {
    FLX_LBFGS = 0,       /* quasi-Newton, with a line search for the strong Wolfe conditions */
    FLX_NEWTON_CG = 1,   /* Newton's method in a trust region, by conjugate gradients on products with the Hessian */
    FLX_GAUSS_NEWTON = 2 /* output 0 is a residual of any shape: half the sum of its squares is minimised, by conjugate
                            gradients on products with its Jacobian, damped as by Levenberg and Marquardt */
} flx_minimiser;

typedef struct flx_minimise_options {
    uint32_t struct_size;      /* sizeof(flx_minimise_options) */
    int32_t method;            /* a flx_minimiser */
    int64_t max_iterations;    /* 0: 200 */
    int64_t history;           /* of FLX_LBFGS; 0: 10 */
    double tolerance;          /* ends when no element of the gradient is larger; 0: 1e-8 in f64, else 1e-5 */
    double step_tolerance;     /* ends when the relative decrease of the value is smaller; 0: 1e-15 in f64, else 1e-7 */
    const char *const *params; /* by name or pattern; NULL: all of a real float dtype */
    size_t num_params;
    flx_stop *stop; /* NULL, or ends it, with CANCELLED; the parameters are the best so far */
} flx_minimise_options;

/* Why it ended. */
enum { FLX_MINIMISE_GRADIENT = 0, FLX_MINIMISE_STEP = 1, FLX_MINIMISE_LIMIT = 2 };

typedef struct flx_minimise_result {
    int32_t reason; /* FLX_MINIMISE_… */
    int32_t reserved;
    int64_t iterations, evaluations;
    double first, value; /* before and after */
    double gradient;     /* its largest element */
} flx_minimise_result;

/** Minimises output 0 of the graph over parameters of the set, which receives them; inputs have the values of the
    feeds. A value never increases from one iteration to the next. NUMERIC when the value is not finite at the start.
    `result` may be NULL. */
FLX_API flx_code flx_minimise(const flx_graph *g, flx_params *set, const flx_feed *feeds, size_t num_feeds,
                              const flx_minimise_options *options, flx_minimise_result *result, flx_error *err);

FLX_END_DECLS
#endif
