/* SPDX-License-Identifier: Apache-2.0 */
/* packed_rows.h: products of f32 rows with one row of packed weights, decoded in registers.

   What a product is, to the bit, on every instruction set: a block is divided into sub-blocks of 16 or 32 numbers with
   one scale s and perhaps one minimum m each. With 16 lanes, lane l of sub-block t adds s (q[l] x[l] + q[16 + l]
   x[16 + l]) to the chain of lanes t mod 2, m times the sum of the sub-block's x to a third one; every product and
   sum is rounded to f32. The chains are added, then the lanes in halves. Weights that are not small integers are
   decoded to f32 first, sub-blocks of 16 with s = 1. */
#ifndef FLXI_PACKED_ROWS_H
#define FLXI_PACKED_ROWS_H

#include "backend/cpu/gemm/gemm.h"
#include "numeric/gguf_block.h"

#include <stdbool.h>

enum { FLXI_PACKED_ROWS = 4 }; /* the most rows of one call */

/* y[i * y_step] = the product of row i of x and the packed row w of k numbers, for i < rows: 1 or FLXI_PACKED_ROWS. x
   has rows of k numbers; sums, which is NULL where flxi_packed_sums() is 0, has the result of flxi_packed_sum() for
   each. */
typedef void (*flxi_packed_fn)(const uint8_t *w, const float *x, const float *sums, int64_t k, int rows, float *y,
                               int64_t y_step);

/* The function of this machine for a format; never NULL. */
flxi_packed_fn flxi_packed_product(flxi_gguf format);

/* The one for an instruction set, which the machine must have; not BEST. */
flxi_packed_fn flxi_packed_product_for(flxi_gguf format, flxi_isa isa);

/* The numbers of a block as f32. */
typedef void (*flxi_unpack_fn)(const uint8_t *w, float *y);

typedef struct {
    const flxi_gguf_format *format;
    flxi_unpack_fn fast; /* or NULL: the format's own decoder, in f64 */
} flxi_decoder;

flxi_decoder flxi_packed_decoder(flxi_gguf format);
void flxi_packed_decode(const flxi_decoder *d, const uint8_t *w, float *y);

/* The fast one for an instruction set, or NULL. */
flxi_unpack_fn flxi_packed_decoder_for(flxi_gguf format, flxi_isa isa);

/* How many numbers flxi_packed_sum() writes for a row: 0 for formats without minima. */
int64_t flxi_packed_sums(flxi_gguf format, int64_t k);
void flxi_packed_sum(flxi_gguf format, const float *x, int64_t k, float *sums);

#endif
