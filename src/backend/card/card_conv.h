/* SPDX-License-Identifier: Apache-2.0 */
/* card_conv.h: convolutions on a card: their form, and kernels that take every layout and every dtype of numbers. */
#ifndef FLXI_CARD_CONV_H
#define FLXI_CARD_CONV_H

#include "backend/card/card_way.h"

typedef enum { FLXI_CONV_TO_FEATURES, FLXI_CONV_TO_INPUT, FLXI_CONV_TO_WEIGHT } flxi_conv_target;

enum { FLXI_CARD_CONV_AXES = 3 };

/* One spatial axis. Tap k of position o meets index (o stride + k dilation - low) / spread of x, if that is whole and
   inside. Steps are in elements. */
typedef struct {
    int32_t out, taps, extent, stride, dilation, low, spread, reverse;
    int64_t x, w, z;
} flxi_card_conv_axis;

/* The trilinear form of ops/signal/conv.c: z[n, f, o] w[f, c, k] x[n, c, p]. The kernels know this layout. */
typedef struct {
    flxi_card_conv_axis axis[FLXI_CARD_CONV_AXES];
    int32_t images;          /* of z */
    int32_t features;        /* of a group */
    int32_t channels;        /* of a group */
    int32_t per_batch_group; /* features */
    int64_t x_image, x_channel, w_feature, w_channel, z_image, z_feature;
    /* The result's axes, the one with the smallest step first; part: 0 image or feature, 1 feature or channel, then
       spatial ones. */
    int32_t part[FLXI_CARD_CONV_AXES + 2], extent[FLXI_CARD_CONV_AXES + 2];
    int64_t step[FLXI_CARD_CONV_AXES + 2];
    uint64_t count; /* elements of the result */
} flxi_card_conv_form;

/* The table of a node. */
typedef struct {
    flxi_card_conv_form form;
    flxi_conv_target target;
    int32_t dtype;
    int32_t spatial, groups;
    bool by_library;  /* a library of the device has a plan; false unless the device sets it … */
    size_t workspace; /* … and bytes that it needs */
} flxi_card_conv_plan;

/* NULL, or why the card does not compute the node. */
const char *flxi_card_refuse_conv(const flxi_device_node *n);
flxi_card_conv_plan flxi_card_plan_conv(const flxi_device_node *n);
/* By the kernels of our own. */
flx_code flxi_card_run_conv(const flxi_launcher *on, const flxi_node_step *s, flx_error *err);

extern const flxi_card_way flxi_card_convs;

#endif
