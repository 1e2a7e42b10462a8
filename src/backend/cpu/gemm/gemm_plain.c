/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_plain.c: tiles of integers and truth values. Integers are computed modulo 2^32 or 2^64, which is what wrapping
   around means at every narrower width too; truth values are masks, all bits or none. Loops of fixed length: the
   compiler makes vectors of them. */
#include "backend/cpu/gemm/gemm_engine.h"

enum { PLAIN_ROWS = 4, PLAIN_COLS = 8 };

#define PLAIN_TILE(name, T, combine)                                                                          \
    static void name(const flxi_tile *t)                                                                      \
    {                                                                                                         \
        T sum[PLAIN_ROWS][PLAIN_COLS] = {{0}};                                                                \
        const T *a = t->a;                                                                                    \
        const T *b = t->b;                                                                                    \
        T *c = t->c;                                                                                          \
        for (int64_t k = 0; k < t->depth; k++, a += t->a_col, b += t->b_step)                                 \
            for (int i = 0; i < t->rows; i++)                                                                 \
                for (int j = 0; j < PLAIN_COLS; j++)                                                          \
                    sum[i][j] combine(T)(a[i * t->a_row] combine##_WITH b[j]);                                \
        for (int i = 0; i < t->rows; i++)                                                                     \
            for (int j = 0; j < PLAIN_COLS; j++)                                                              \
                c[i * t->c_row + j] = t->add ? (T)(c[i * t->c_row + j] combine##_JOIN sum[i][j]) : sum[i][j]; \
    }
#define ADD +=
#define ADD_WITH *
#define ADD_JOIN +
#define OR |=
#define OR_WITH &
#define OR_JOIN |
PLAIN_TILE(tile_u32, uint32_t, ADD)
PLAIN_TILE(tile_u64, uint64_t, ADD)
PLAIN_TILE(tile_truth, uint32_t, OR)

#define PLAIN_KERNELS(T, fn)                                                                                   \
    {                                                                                                          \
        .size = sizeof(T), .parts = 1, .rows = PLAIN_ROWS, .cols = PLAIN_COLS, .lanes = PLAIN_COLS, .tile = fn \
    }

const flxi_gemm_kernels flxi_gemm_plain[GEMM_KINDS] = {
    [GEMM_U32] = PLAIN_KERNELS(uint32_t, tile_u32),
    [GEMM_U64] = PLAIN_KERNELS(uint64_t, tile_u64),
    [GEMM_TRUTH] = PLAIN_KERNELS(uint32_t, tile_truth),
};
