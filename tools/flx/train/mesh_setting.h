/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_setting.h: a training step that is cut for a mesh: its axes, what is cut, and the graph with the extents of a
   batch. */
#ifndef FLX_TRAIN_MESH_SETTING_H
#define FLX_TRAIN_MESH_SETTING_H

#include "train/plan.h"

/* Reads mesh, zero and shardings. */
int mesh_setting_read(train_plan *p);
/* Makes the options of the step: the loss of a whole batch, and inputs cut along `data` unless the settings say how.
   `axes` is the option of the command; NULL: the setting. */
int mesh_setting_apply(train_plan *p, const char *axes);
/* How an input of the loss is cut. */
const char *mesh_setting_cut(const train_plan *p, const char *input);

#endif
