/* SPDX-License-Identifier: Apache-2.0 */
/* part_direct.h: what the two files of convolutions with vectors share. */
#ifndef FLXI_PART_DIRECT_H
#define FLXI_PART_DIRECT_H

#include "backend/order.h"
#include "standalone/tiles/tiles.h"

typedef struct {
    flxi_sa_writer *w;
    flxi_direct_conv d;
    int32_t sum;      /* the dtype of sums */
    const char *real; /* its name */
    size_t size;
    flxi_sa_shape shape;
} flxi_sa_direct_form;

static inline long long flxi_sa_long(int64_t x)
{
    return (long long)x;
}

/* Elements as bytes, a multiple of 64. */
static inline size_t flxi_sa_elements(int64_t elements, size_t size)
{
    return ((size_t)elements * size + 63) / 64 * 64;
}

/* Term by term, in double: an operand with infinities or NaNs (part_conv.c). */
void flxi_sa_conv_apart(flxi_sa_writer *w);

/* z from x and w (part_gather.c). */
size_t flxi_sa_gather_bytes(const flxi_sa_direct_form *f);
flxi_sa_cuts flxi_sa_gather_cuts(const flxi_sa_direct_form *f);
void flxi_sa_gather_tiles(flxi_sa_direct_form *f);

/* w from x and z (part_weight.c). */
size_t flxi_sa_weight_bytes(const flxi_sa_direct_form *f);
flxi_sa_cuts flxi_sa_weight_cuts(const flxi_sa_direct_form *f);
void flxi_sa_weight_tiles(flxi_sa_direct_form *f);

#endif
