/* SPDX-License-Identifier: Apache-2.0 */
/* loss_setting.h: a loss from the graph that predicts: `loss = cross_entropy(kind)` compares its first output with the
   column `kind`. */
#ifndef FLX_LOSS_SETTING_H
#define FLX_LOSS_SETTING_H

#include "train/plan.h"

/* Makes p->loss as p->made_loss says and adds it to the model. */
int loss_setting_build(train_plan *p);

#endif
