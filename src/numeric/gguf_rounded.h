/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_rounded.h: products of packed rows with rows that were rounded to 8 bits, by integer sums.

   x is rounded in blocks as long as those of the packed row: d = max(max |x| / 127, 1e-12) in f32, and each number
   becomes the integer round(x / d), ties to even. A block with an infinity or a NaN has d = NaN and zeros.

   What a product is, to the bit, on every machine: for each block the exact integers
     A = sum over sub-blocks of scale times (sum of (code - zero) times integer of x)
     B = sum over sub-blocks of minimum times (sum of integers of x)
   are converted to f32, and the block adds A (d_w d_x), or A (d_w d_x) + B (least d_x) where the format has minima, to
   one chain in order of the blocks; every product and sum is rounded to f32. */
#ifndef FLXI_GGUF_ROUNDED_H
#define FLXI_GGUF_ROUNDED_H

#include "numeric/gguf_codes.h"

#include <stddef.h>

#define FLXI_ROUNDED_LEAST 1e-12f /* the smallest d, as that of fake_quantize */

/* The parts of a rounded row of k numbers. */
typedef struct {
    const int8_t *codes;
    const float *d;      /* of each block */
    const int16_t *sums; /* of the integers of sub-blocks: one for a block of 32, 16 for one of 256, zeros at its end */
} flxi_rounded;

/* Where they are, in bytes from the beginning of the row: the integers come first. Rows follow one another every `size`
   bytes, a multiple of 64. k is a multiple of the format's block. */
typedef struct {
    int64_t d_at, sums_at, size;
} flxi_rounded_layout;

flxi_rounded_layout flxi_rounded_layout_of(flxi_gguf format, int64_t k);
flxi_rounded flxi_rounded_at(const flxi_rounded_layout *l, const void *base, int64_t row);

/* Writes a rounded row. */
void flxi_round_row(flxi_gguf format, const float *x, int64_t k, void *out);

/* y[i * y_step] = the product of the packed row w and row i of those that were rounded into x, one after the other. */
void flxi_rounded_products(flxi_gguf format, const uint8_t *w, const void *x, int64_t rows, int64_t k, float *y,
                           int64_t y_step);

#endif
