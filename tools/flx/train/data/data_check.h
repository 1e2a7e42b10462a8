/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.h: whether the columns of the data fit the inputs of the model, and whether labels and tokens are among
   those that it has outputs for. */
#ifndef FLX_DATA_CHECK_H
#define FLX_DATA_CHECK_H

#include "train/plan.h"

/* BAD_INPUT where they do not. Labels and tokens are not checked where neither `predict` nor the loss shows how many
   outputs the model has. */
int data_check(const train_plan *p);

/* The setting that messages about the data, or the validation, are at. */
const setting *data_setting(const train_plan *p, const source *d);

#endif
