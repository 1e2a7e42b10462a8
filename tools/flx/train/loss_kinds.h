/* SPDX-License-Identifier: Apache-2.0 */
/* loss_kinds.h: the losses that a setting can name. */
#ifndef FLX_LOSS_KINDS_H
#define FLX_LOSS_KINDS_H

#include <fluxion/graph.h>
#include <stdbool.h>

typedef struct {
    const char *name;
    flx_val (*build)(flx_graph *g, flx_val y, flx_val truth);
    bool is_of_classes; /* y has logits along its last axis, truth integers */
} loss_kind;

/* Kind i; NULL when it is out of range. */
const loss_kind *loss_kind_at(size_t i);

/* Adds the output `loss` of what is predicted and what is right, and of classes `accuracy`. Numbers may have another
   float dtype, and y an axis of extent 1 more. */
void loss_kind_append(const loss_kind *kind, flx_graph *g, flx_val y, flx_val truth);

#endif
