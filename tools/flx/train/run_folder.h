/* SPDX-License-Identifier: Apache-2.0 */
/* run_folder.h: the folder that a training writes: everything that is needed to continue it, and to use the model.

     checkpoint.safetensors   parameters, state of the optimiser, position: to resume; or, of a step that is cut for a
                              mesh, the folder parts
     weights.safetensors      the parameters, of the best epoch if there is validation
     model.flx                the graphs
     settings.train           the settings, without the graphs: what the columns of data mean
     classes.txt              the names of the classes, a line each, if they have names
     features.txt             the columns of a table with a header that are the features, a line each
     tokeniser.json           of a text, if it is not read byte by byte
     report.html, log.csv, log.tfevents   what happened */
#ifndef FLX_RUN_FOLDER_H
#define FLX_RUN_FOLDER_H

#include "train/plan.h"

#include <fluxion/report.h>

typedef struct {
    int64_t step, epoch, row; /* done; where the loader continues */
    int64_t best_epoch;       /* of the validation so far, from 1; 0: none */
    double best;              /* its loss */
    bool is_due;              /* an epoch has ended, and its validation has not */
} run_position;

/* Makes the folder. BAD_INPUT when it has a checkpoint or a file that would be written, unless the training is resumed
   or overwritten. */
int run_folder_make(const char *folder, bool may_have_checkpoint);

/* Makes sure that no other training writes to the folder, until the process ends or *lock is closed. BAD_INPUT when
   there is one. */
int run_folder_lock(const char *folder, int *lock);

/* Removes what an earlier training wrote: a new one that ends before its first checkpoint must not be resumed with the
   old one's, and files that it does not write must not be taken for its own. */
int run_folder_clear(const char *folder);

/* Finds the checkpoint that a training is resumed from. BAD_INPUT when there is none. */
int run_folder_need_checkpoint(const char *folder);

/* Writes model, tokeniser and classes. `is_there`: compares them with those of the folder, which a training is resumed
   from. */
int run_folder_describe(const char *folder, const train_plan *p, bool is_there);

/* Writes the settings, which may change when a training is resumed: after all else has been accepted. */
int run_folder_write_settings(const char *folder, const train_plan *p);

/* Makes the folder for checkpoints in parts, before any rank writes one. */
int run_folder_make_parts(const char *folder);
/* Parameters, state and position, in a file that is replaced atomically. All ranks call it if the step is cut for a
   mesh. Any number of ranks can resume either kind. */
int run_folder_save(const char *folder, const train_plan *p, const flx_trainer *t, const run_position *at);
/* Reads them back. BAD_INPUT when the checkpoint is of another training. */
int run_folder_load(const char *folder, const train_plan *p, flx_trainer *t, run_position *at);

/* Adds the curves of an earlier part of the training, up to this step, to the report. */
int run_folder_read_log(const char *folder, int64_t last_step, flx_report *report);

/* Writes what the model is used with to weights.safetensors, and reads it from there. */
int run_folder_write_weights(const char *folder, const flx_params *weights);
int run_folder_read_weights(const char *folder, flx_params *weights);

#endif
