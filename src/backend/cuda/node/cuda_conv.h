/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_conv.h: convolutions on the card: by cuDNN where it takes them, else by kernels of our own, which take every
   layout and every dtype of numbers. */
#ifndef FLXI_CUDA_CONV_H
#define FLXI_CUDA_CONV_H

#include "backend/cuda/cuda_card.h"

typedef enum { FLXI_CONV_TO_FEATURES, FLXI_CONV_TO_INPUT, FLXI_CONV_TO_WEIGHT } flxi_conv_target;

enum { FLXI_CUDA_CONV_AXES = 3 };

/* One spatial axis. Tap k of position o meets index (o stride + k dilation - low) / spread of x, if that is whole and
   inside. Steps are in elements. */
typedef struct {
    int32_t out, taps, extent, stride, dilation, low, spread, reverse;
    int64_t x, w, z;
} flxi_cuda_conv_axis;

/* The trilinear form of ops/signal/conv.c: z[n, f, o] w[f, c, k] x[n, c, p]. The kernels know this layout. */
typedef struct {
    flxi_cuda_conv_axis axis[FLXI_CUDA_CONV_AXES];
    int32_t images;          /* of z */
    int32_t features;        /* of a group */
    int32_t channels;        /* of a group */
    int32_t per_batch_group; /* features */
    int64_t x_image, x_channel, w_feature, w_channel, z_image, z_feature;
    /* The result's axes, the one with the smallest step first; part: 0 image or feature, 1 feature or channel, then
       spatial ones. */
    int32_t part[FLXI_CUDA_CONV_AXES + 2], extent[FLXI_CUDA_CONV_AXES + 2];
    int64_t step[FLXI_CUDA_CONV_AXES + 2];
    uint64_t count; /* elements of the result */
} flxi_cuda_conv_form;

/* The table of a node. */
typedef struct {
    flxi_cuda_conv_form form;
    flxi_conv_target target;
    int32_t dtype;
    int32_t spatial, groups;
    bool by_library;  /* cuDNN has a plan */
    size_t workspace; /* bytes that it needs */
} flxi_cuda_conv_plan;

/* cuda_conv_dnn.c: plans live as long as the card. */
bool flxi_cuda_conv_by_library(flxi_card *card, const flxi_cuda_conv_plan *p, size_t *workspace);
flx_code flxi_cuda_conv_run_library(flxi_card *card, flxi_cu_stream stream, const flxi_cuda_conv_plan *p,
                                    const void *const in[2], void *out, void *workspace, flx_error *err);
void flxi_cuda_free_convs(flxi_card *card);

/* Whether cuDNN takes the descriptors, also without a card; DEVICE where there is no library. */
flx_code flxi_cuda_conv_describes(const flxi_allocator *mem, const flxi_cuda_conv_plan *p, flx_error *err);

#endif
