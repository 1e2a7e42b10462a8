/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norms.h: how large the gradients of each layer are, as curves of a report. */
#ifndef FLX_LAYER_NORMS_H
#define FLX_LAYER_NORMS_H

#include <fluxion/report.h>
#include <fluxion/train.h>

/* Adds a point to each curve: `gradient norm/LAYER`, where the name of a layer is what precedes the first point of the
   names of its parameters. None if there are too many layers to be told apart. */
int layer_norms_add(const flx_trainer *t, int64_t step, flx_report *to);

#endif
