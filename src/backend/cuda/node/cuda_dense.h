/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dense.h: dense matrices on the card: factors and systems. */
#ifndef FLXI_CUDA_DENSE_H
#define FLXI_CUDA_DENSE_H

#include "backend/cuda/cuda_way.h"

enum { FLXI_DENSE_BLOCK = 32, FLXI_DENSE_THREADS = 256, FLXI_DENSE_DTYPES = 4 };

/* Where the matrices of a tensor are: batch axes that are walked together, and steps within a matrix. The kernels know
   this layout. */
typedef struct {
    int64_t extent[FLX_MAX_RANK], step[FLX_MAX_RANK];
    int64_t row, col;
    uint32_t rank, reserved;
} flxi_dense_view;

/* The variant of the text for a dtype, or -1. */
int32_t flxi_cuda_dense_variant(int32_t dtype);
/* Its types: T of an element, R of a real one, N of a number in double, and what is done with them. */
const char *flxi_cuda_dense_types(int32_t variant);
bool flxi_cuda_dense_is_complex(int32_t variant);
/* Folds of one double for each thread of a block of 256, which all receive: all_of<add>, all_of<larger> (a NaN is the
   largest); and is_finite, square. */
extern const char flxi_cuda_block_folds[];

#endif
