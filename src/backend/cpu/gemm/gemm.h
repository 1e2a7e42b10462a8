/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: matrix products of every dtype, C[i, j] = alpha · Σ_k A[i, k] B[k, j] + bias + residual.

   An operand is seen as lines (rows of A, columns of B) of a common depth (the summed index). Lines and depth may each
   run over several axes of memory, so a transposed, permuted or broadcast operand is read where it is: packing, which
   copies blocks into the order the inner loop wants, straightens everything. An operand may also be made by a function
   while it is packed, as convolutions do.

   What a result is, to the bit:
   - f32 and f64: the depth is cut into chunks of flxi_gemm_chunk() (a function of dtype and depth alone); within a
     chunk each element is one chain of fused multiply-adds from 0, in order of k; chunks are added in order. f16 and
     bf16 are widened to f32, summed like f32 and rounded once.
   - One line against k-contiguous lines (dot products): 64 (f32) or 32 (f64) chains, k going to chain k mod their
     number, folded in halves at the end.
   - At most 4096 elements of depth 16384 or more: the same over pieces of 8192, the pieces added in order.
   - Complex: four real chains per element; integers wrap around; bool is or of ands.
   Nothing of this depends on the number of threads or on the instruction set: every variant uses fused
   multiply-adds. */
#ifndef FLXI_GEMM_H
#define FLXI_GEMM_H

#include "backend/order.h"
#include "base/host/thread_pool.h"

/* Makes elements while packing: to[d * pitch + i] = element (line + i, depth + d) of the matrix whose data begin at
   `base`, for i < lines and d < depths, in the type the products are computed in. */
typedef struct {
    void (*pack)(const void *user, const void *base, void *to, int64_t pitch, int64_t line, int64_t lines,
                 int64_t depth, int64_t depths);
    const void *user;
} flxi_gemm_source;

typedef struct {
    const void *data;
    flxi_walk line, depth;
    int64_t batch[FLX_MAX_RANK];    /* steps along the batch axes; 0: shared */
    const flxi_gemm_source *source; /* or NULL: elements are where the walks say */
} flxi_gemm_operand;

typedef enum { FLXI_ISA_BEST, FLXI_ISA_GENERIC, FLXI_ISA_AVX2, FLXI_ISA_AVX512 } flxi_isa;

typedef struct {
    int32_t dtype;   /* of A and B */
    int32_t b_dtype; /* of B where it differs, which integers of 8 and 16 bits may; 0: dtype. u16 excepted */
    int32_t result;  /* of C: dtype, or f32 where dtype is f16 or bf16, i32 or u32 where it is such an integer */
    flxi_isa isa;    /* which kernels; BEST is what the machine has */
    int64_t m, n, k;
    flxi_gemm_operand a, b;
    void *c;
    int64_t c_row, c_col; /* steps of C; the fast paths want c_col 1 */
    int batch_rank;
    int64_t batch_dims[FLX_MAX_RANK], c_batch[FLX_MAX_RANK];

    /* Applied once to finished sums, in the type they are computed in; real floats only. */
    double alpha;     /* 1 leaves sums alone */
    const void *bias; /* or NULL: bias[i * bias_row + j * bias_col], of dtype `result` */
    int64_t bias_row, bias_col;
    const void *residual; /* or NULL: laid out like C, which it must not overlap */

    /* C += …, for f32 and f64 without any of the above: chains begin with what C holds, where C is written in place
       (c_col 1, sides that did not change places), else the finished sums are added. */
    bool add;
} flxi_gemm;

/* Plain matrices: a[i * a_row + k * a_col], b[k * b_row + j * b_col], C dense. The caller sets data pointers, and batch
   axes if there are any. */
flxi_gemm flxi_gemm_matrices(int32_t dtype, int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t a_col,
                             int64_t b_row, int64_t b_col);

/* Bytes of scratch that flxi_gemm_run needs with a pool of at most that many threads; data pointers need not be set. */
size_t flxi_gemm_scratch(const flxi_gemm *p, int threads);

/* Computes C. Scratch is 64-byte aligned, of at least flxi_gemm_scratch() bytes for the pool's threads; nothing is
   allocated. pool NULL: the caller's thread alone. */
void flxi_gemm_run(const flxi_gemm *p, flxi_pool *pool, void *scratch);

/* Whether this machine can run those kernels. */
bool flxi_isa_available(flxi_isa isa);

/* The order of the product's sums (backend/order.h). */
flxi_product_order flxi_gemm_order_of(const flxi_gemm *p);

/* Appends an axis inside those the walk has; extents of 1 vanish and neighbours that form one stride join. */
void flxi_walk_push(flxi_walk *w, int64_t dim, int64_t step);
int64_t flxi_walk_count(const flxi_walk *w);

#endif
