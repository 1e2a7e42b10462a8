/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.h: whether labels and tokens of the data are among those that the model has outputs for. */
#ifndef FLX_DATA_CHECK_H
#define FLX_DATA_CHECK_H

#include "train/plan.h"

/* BAD_INPUT where they are not. A model without a graph `predict`, from which that would be seen, is not checked. */
int data_check(const train_plan *p);

#endif
