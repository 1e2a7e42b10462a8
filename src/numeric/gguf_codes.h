/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_codes.h: the integers in packed blocks. A block of these formats is divided into sub-blocks of 16 or 32 numbers;
   number e of sub-block t is d scales[t] (codes[e] - zero) + least minima[t], where d and least are f16 in the block
   and all others are small integers. Formats that are not listed have scales of another kind, or tables of vectors. */
#ifndef FLXI_GGUF_CODES_H
#define FLXI_GGUF_CODES_H

#include "numeric/gguf_block.h"

/* X(name, numbers in a block, bytes, numbers in a sub-block, zero, byte of d, byte of least or -1) */
#define FLXI_GGUF_CODED_MAP(X)          \
    X(q4_0, 32, 18, 32, 8, 0, -1)       \
    X(q4_1, 32, 20, 32, 0, 0, 2)        \
    X(q5_0, 32, 22, 32, 16, 0, -1)      \
    X(q5_1, 32, 24, 32, 0, 0, 2)        \
    X(q8_0, 32, 34, 32, 128, 0, -1)     \
    X(q2_k, 256, 84, 16, 0, 80, 82)     \
    X(q3_k, 256, 110, 16, 4, 108, -1)   \
    X(q4_k, 256, 144, 32, 0, 0, 2)      \
    X(q5_k, 256, 176, 32, 0, 0, 2)      \
    X(q6_k, 256, 210, 16, 32, 208, -1)  \
    X(iq4_nl, 32, 18, 32, 128, 0, -1)   \
    X(iq4_xs, 256, 136, 32, 128, 0, -1) \
    X(tq2_0, 256, 66, 32, 1, 64, -1)

/* Blocks of 256 subtract their minima. */
#define FLXI_GGUF_LEAST(count, half) ((count) == 256 ? -(half) : (half))

typedef struct {
    uint8_t codes[FLXI_GGUF_MOST];
    int8_t scales[16], minima[16]; /* of sub-blocks; 0 beyond them */
    float d, least;                /* least: 0 where there are no minima */
} flxi_gguf_codes;

typedef struct {
    int count, nbytes, sub, zero; /* count 0: not a format of these */
    int d_at, least_at;
} flxi_gguf_grid;

extern const flxi_gguf_grid flxi_gguf_grids[FLXI_GGUF_COUNT];

/* The integers of a block of a format that has them. */
void flxi_gguf_unpack(flxi_gguf format, const uint8_t *block, flxi_gguf_codes *out);

#endif
