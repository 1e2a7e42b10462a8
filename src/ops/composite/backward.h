/* SPDX-License-Identifier: Apache-2.0 */
/* backward.h: appends the backward ops of backward.c; each function is the `backward_vjp` of the op in its name. */
#ifndef FLXI_BACKWARD_H
#define FLXI_BACKWARD_H

#include "graph/op/site.h"

void flxi_backward_vjp_relu(flxi_site *s, const flx_val *dy, flx_val *dx);
/* For an op that is one of activation_backward's kinds. */
void flxi_backward_vjp_activation(flxi_site *s, const flx_val *dy, flx_val *dx);

#endif
