/* SPDX-License-Identifier: Apache-2.0 */
/* factor_engine.h: factors and triangles of one dense matrix of f32 or f64, row-major, in its own precision.

   Two engines compute them: blocks of our own (blocked_factor.c) and a library that the machine may have (lapack.c).
   Both are backward stable: L U, U^T U and T x differ from what they stand for by a modest multiple of n units of the
   sizes that meet. A result depends on the engine, never on the number of threads. */
#ifndef FLXI_FACTOR_ENGINE_H
#define FLXI_FACTOR_ENGINE_H

#include "base/host/thread_pool.h"
#include "numeric/linalg/dense.h"

typedef struct {
    int32_t dtype;
    flxi_pool *pool; /* or NULL */
    void *scratch;   /* 64-byte aligned, of the size asked for with at least this pool's threads */
} flxi_factor_job;

typedef struct {
    /* a [m, n], its rows exchanged, becomes L U; pivots[k] is the row exchanged with row k. */
    void (*lu)(const flxi_factor_job *j, void *a, int64_t m, int64_t n, int64_t *pivots);
    /* The upper triangle of a [n, n] becomes U with U^T U = a; what is below is neither read nor defined afterwards.
       False: a is not positive definite. */
    bool (*cholesky)(const flxi_factor_job *j, void *a, int64_t n);
    /* b [n, k] becomes the solution of T x = b. One of the steps of T is 1. */
    void (*triangular)(const flxi_factor_job *j, const void *t, const flxi_triangle *how, void *b, int64_t k);

    /* Bytes of scratch with a pool of at most that many threads. */
    size_t (*lu_scratch)(int32_t dtype, int64_t m, int64_t n, int threads);
    size_t (*cholesky_scratch)(int32_t dtype, int64_t n, int threads);
    size_t (*triangular_scratch)(int32_t dtype, const flxi_triangle *how, int64_t k, int threads);
} flxi_factor_engine;

extern const flxi_factor_engine flxi_block_engine;

/* to[j, i] = from[i, j]; both dense. */
void flxi_turn_matrix(int32_t dtype, void *to, const void *from, int64_t rows, int64_t cols);

#endif
