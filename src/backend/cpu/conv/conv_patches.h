/* SPDX-License-Identifier: Apache-2.0 */
/* conv_patches.h: the matrix of patches that a convolution multiplies with: its rows are positions of the kernel, its
   columns the elements of the input under one tap and channel, 0 where the tap meets padding or a gap. It is never
   stored; the matrix product asks for parts of it while packing. */
#ifndef FLXI_CONV_PATCHES_H
#define FLXI_CONV_PATCHES_H

#include "backend/cpu/gemm/gemm.h"

typedef struct {
    int64_t out, taps, extent;     /* positions, extent of the kernel, extent of the input */
    int64_t stride, dilation, low; /* tap k of position o is at o stride + k dilation - low */
    int64_t spread;                /* of the input: neighbours are so far apart */
    int64_t step;                  /* of the input, in elements */
} flxi_patch_axis;

typedef struct {
    int32_t dtype;
    int spatial; /* at least 1 */
    int64_t images, image_step;
    int64_t channels, channel_step;
    bool by_channel; /* columns are (taps, channel), else (channel, taps) */
    flxi_patch_axis axis[FLX_MAX_RANK];
} flxi_patches;

int64_t flxi_patch_positions(const flxi_patches *x); /* rows: images and positions */
int64_t flxi_patch_taps(const flxi_patches *x);      /* columns: channels and taps */

/* Sources for operands whose lines are positions, or taps; `user` is the flxi_patches. */
void flxi_pack_positions(const void *user, const void *base, void *to, int64_t pitch, int64_t line, int64_t lines,
                         int64_t depth, int64_t depths);
void flxi_pack_taps(const void *user, const void *base, void *to, int64_t pitch, int64_t line, int64_t lines,
                    int64_t depth, int64_t depths);

#endif
