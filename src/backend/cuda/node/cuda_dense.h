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

/* The matrices in the last two axes of a node's first operand, which are worked on in double. */
typedef struct {
    uint64_t batch, rows, cols, least; /* of rows and columns */
    uint32_t size;                     /* of a number, in bytes */
    int32_t variant;                   /* of the text */
} flxi_dense_matrices;

flxi_dense_matrices flxi_dense_matrices_of(const flxi_device_node *n);
/* Of other dtypes, or with a tensor of 2^31 elements or more. */
const char *flxi_cuda_dense_refuse(const flxi_device_node *n);
/* A part of scratch: the next one is aligned. */
size_t flxi_dense_part(size_t bytes);

/* Its types: T of an element, R of a real one, N of a number in double, and what is done with them. */
const char *flxi_cuda_dense_types(int32_t variant);
bool flxi_cuda_dense_is_complex(int32_t variant);
/* Folds of one double for each thread of a block of 256, which all receive: all_of<add>, all_of<larger> (a NaN is the
   largest); and is_finite, square. */
extern const char flxi_cuda_block_folds[];

#endif
