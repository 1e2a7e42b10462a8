/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_case.h: one matrix product with its memory, for tests. */
#ifndef FLX_GEMM_CASE_H
#define FLX_GEMM_CASE_H

#include "backend/cpu/gemm/gemm.h"

typedef struct {
    int32_t dtype;
    int32_t b_dtype, result; /* where they differ from dtype; 0: they do not */
    int64_t batch;           /* 0: no batch axis */
    int64_t m, n, k;
    bool a_transposed, b_transposed, a_shared, b_shared;
    int64_t c_gap; /* unused elements after each row of C */
} gemm_shape;

typedef struct {
    gemm_shape shape;
    flxi_gemm p;
    void *a, *b, *c;
    size_t a_bytes, b_bytes, c_bytes;
} gemm_case;

/* Random operands; C holds bytes that a run must replace, its gaps bytes that it must not. */
gemm_case gemm_case_new(const gemm_shape *s, uint64_t *seed);
void gemm_case_free(gemm_case *g);

/* Runs with that many threads, with scratch of exactly the size asked for, filled with NaNs. */
void gemm_case_run(gemm_case *g, int threads, flxi_isa isa);

/* Compares C with plain sums in long double; the bound is that of a sum of k rounded products, whatever the order. */
void gemm_case_check(const gemm_case *g);

#endif
