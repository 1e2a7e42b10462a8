/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_square.h: squares of 4 x 4 words transposed in registers, for packing on every machine with vectors of 16
   bytes. gemm_turn.h has larger ones. */
#ifndef FLXI_GEMM_SQUARE_H
#define FLXI_GEMM_SQUARE_H

#include <stdint.h>
#include <string.h>

typedef uint32_t flxi_word4 __attribute__((vector_size(16)));

static inline flxi_word4 flxi_load_word4(const void *p)
{
    flxi_word4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Word k of line i goes to[k * pitch + i]. */
static inline void flxi_turn_square(const flxi_word4 line[4], uint32_t *to, int64_t pitch)
{
    flxi_word4 low01 = __builtin_shufflevector(line[0], line[1], 0, 4, 1, 5);
    flxi_word4 high01 = __builtin_shufflevector(line[0], line[1], 2, 6, 3, 7);
    flxi_word4 low23 = __builtin_shufflevector(line[2], line[3], 0, 4, 1, 5);
    flxi_word4 high23 = __builtin_shufflevector(line[2], line[3], 2, 6, 3, 7);
    const flxi_word4 row[4] = {
        __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
        __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
    for (int k = 0; k < 4; k++)
        memcpy(to + k * pitch, &row[k], sizeof row[k]);
}

#endif
