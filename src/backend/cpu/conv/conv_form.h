/* SPDX-License-Identifier: Apache-2.0 */
/* conv_form.h: a convolution as the trilinear form of ops/signal/conv.c, whatever its layout and which of the three
   factors is the result. */
#ifndef FLXI_CONV_FORM_H
#define FLXI_CONV_FORM_H

#include "backend/cpu/routes/routes.h"
#include "ops/signal/conv.h"

typedef struct {
    int spatial; /* at least 1: a point has one position and one tap */
    int64_t groups, batch_groups;
    flxi_conv_factor x, w, z;
    flxi_slide slide[FLX_MAX_RANK];
    bool reverse[FLX_MAX_RANK];
} flxi_conv_form;

/* Of a node that is a convolution of real floats or integers with static types. */
flxi_conv_form flxi_conv_form_of(const flxi_route_node *n);

/* Why the node is not such a convolution, or has extents beyond 2^31; NULL: it is. */
const char *flxi_conv_form_reason(const flxi_route_node *n);

/* Whether taps of the form meet padding or gaps. Towards the input nearly all do. */
bool flxi_conv_has_padding(const flxi_route_node *n, const flxi_conv_form *f);

/* Whether zeros in place of padding could change the result: terms of the form meet padding or gaps, and that operand
   has infinities or NaNs. */
bool flxi_conv_meets_infinity(const flxi_route_node *n, const flxi_conv_form *f, int operand);

/* Computes the node term by term, leaving out those that meet padding; slow. */
void flxi_conv_plain(const flxi_route_node *n, const flxi_conv_form *f);

#endif
