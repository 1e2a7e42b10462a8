/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser_setting.h: the setting `optimiser = adamw(rate=0.001, …)`. */
#ifndef FLX_OPTIMISER_SETTING_H
#define FLX_OPTIMISER_SETTING_H

#include "train/settings.h"

#include <fluxion/train.h>

/* Reads it to the options of a training; without it the optimiser is AdamW. has_no_decay: `weight_decay=0` was
   given, which in the options would mean the default. Returns the exit status. */
int optimiser_setting_read(settings *s, flx_train_options *t, bool *has_no_decay);

#endif
