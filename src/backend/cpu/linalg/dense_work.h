/* SPDX-License-Identifier: Apache-2.0 */
/* dense_work.h: decompositions of one real matrix in f64: reflections, QR, symmetric eigenvalues, singular values and
   the exponential. Nearly all of their work is matrix products, or passes over rows at the speed of memory.

   Matrices are rows of `step` elements, a multiple of 8, the rest of each row being 0 where rotations pass over it.
   Results depend neither on the number of threads nor on the instruction set. When the work is stopped, results are
   garbage but indices are valid.

   A decomposition takes its memory from the work with flxi_take(). Without memory (`memory` NULL) nothing is computed:
   the same calls then find how much is needed (flxi_space_bytes). */
#ifndef FLXI_DENSE_WORK_H
#define FLXI_DENSE_WORK_H

#include "backend/cpu/linalg/row_kernels.h"
#include "base/host/thread_pool.h"

#include <stddef.h>

typedef struct {
    flxi_pool *pool; /* or NULL */
    int threads;     /* the most that may run */
    const flxi_row_kernels *rows;
    char *memory;         /* 64-byte aligned; NULL: only count */
    size_t used, most;    /* bytes taken, and the most so far */
    size_t product_bytes; /* the most that a product or an engine wants; they share one piece, `products` */
    char *products;
} flxi_workspace;

/* To count with; then to compute in memory of flxi_space_bytes(), `most` of the count being what comes before the piece
   for products. `most` does not depend on the number of threads. */
flxi_workspace flxi_space_count(int threads);
flxi_workspace flxi_space_in(void *memory, size_t most, flxi_pool *pool);
size_t flxi_space_bytes(const flxi_workspace *w);
void flxi_space_want(flxi_workspace *w, size_t bytes); /* of `products` */

static inline bool flxi_space_counts(const flxi_workspace *w)
{
    return !w->memory;
}

/* Room for that many bytes, aligned to 64, until `used` is set back. NULL while counting. */
void *flxi_take(flxi_workspace *w, size_t bytes);
double *flxi_take_numbers(flxi_workspace *w, int64_t count);

/* Not a multiple of a large power of two: columns would fall into few sets of the caches. */
static inline int64_t flxi_row_step(int64_t cols)
{
    int64_t step = (cols + 7) / 8 * 8;
    return step % 64 == 0 ? step + 8 : step;
}

/* c [m, n] = a b, or with `add` += a b; element (i, k) of a is at i * a_row + k * a_col, and so on. */
typedef struct {
    double *at;
    int64_t row, col;
} flxi_part;
void flxi_multiply(flxi_workspace *w, flxi_part c, flxi_part a, flxi_part b, int64_t m, int64_t n, int64_t k, bool add);

/* The kernels of row_kernels.h, by all threads where it pays. */
void flxi_rows_dots(flxi_workspace *w, const double *a, int64_t step, int64_t rows, const double *x, int64_t count,
                    double *y);
void flxi_rows_combine(flxi_workspace *w, double *y, const double *a, int64_t step, int64_t rows, const double *c,
                       int64_t count);

/* ---- Reflections ---- */

/* Vectors v_j of reflections 1 - tau v v^T are rows of h, zero before element j + shift, where they are 1. */
typedef struct {
    double *h;
    int64_t step, count, width, shift;
    double *tau;
} flxi_reflections;

/* x [count] is reflected to (beta, 0, ..): v = x after the call, with v[0] = 1. Returns beta. */
double flxi_reflect_row(const flxi_row_kernels *k, double *x, int64_t count, double *tau);

/* Rows of z [rows, r->width] become columns 0.. of Q = H_0 H_1 ... */
void flxi_reflections_product(flxi_workspace *w, const flxi_reflections *r, double *z, int64_t step, int64_t rows);

/* Columns of a matrix [m, n], which are rows of `a`, become columns of R, zeros below its diagonal; r receives the
   min(m, n) reflections. */
void flxi_reflect_columns(flxi_workspace *w, double *a, int64_t step, int64_t m, int64_t n, const flxi_reflections *r);

/* ---- Rotations ---- */

/* Sweeps that are kept until there are many, and then applied to z [rows, step] by all threads. */
typedef struct {
    double *z; /* NULL: nothing is rotated */
    int64_t step, rows;
    flxi_sweep *sweeps;
    int64_t sweep_count, most_sweeps;
    double *turns;
    int64_t turn_count, most_turns;
} flxi_rotations;

flxi_rotations flxi_rotations_for(flxi_workspace *w, double *z, int64_t step, int64_t rows);
/* Room for the turns of a sweep of `count` rotations, which are then set. */
double *flxi_sweep_begin(flxi_workspace *w, flxi_rotations *r, int64_t row, int64_t count, bool down);
void flxi_rotations_apply(flxi_workspace *w, flxi_rotations *r);

/* sqrt(f f + g g), without underflow that would make a rotation of them inaccurate. */
double flxi_hypotenuse(double f, double g);

/* ---- Decompositions ---- */

/* a [n, step], symmetric and of modest size, becomes rows of eigenvectors; d its eigenvalues, in no order. False: no
   convergence. */
bool flxi_symmetric_eigen(flxi_workspace *w, double *a, int64_t step, int64_t n, double *d);

/* The matrix a [n, step] = u^T diag(d) v, where rows of u and v are singular vectors and d is not negative, in no
   order. a is destroyed. False: no convergence. */
bool flxi_square_singular(flxi_workspace *w, double *a, int64_t step, int64_t n, double *u, double *d, double *v);
/* d alone, with the same bits. */
bool flxi_square_singular_values(flxi_workspace *w, double *a, int64_t step, int64_t n, double *d);

/* Eigenvalues of a general matrix a [n, step] of modest size: re + i im, in no order, complex ones in pairs with the
   positive im first. With vectors, row k of a becomes the vector of a real one, and rows k and k + 1 the parts of the
   vector of the first of a pair; otherwise a is destroyed. False: no convergence. */
bool flxi_general_eigen(flxi_workspace *w, double *a, int64_t step, int64_t n, double *re, double *im,
                        bool has_vectors);

/* a [n, n] becomes its exponential and, with parts 2, the a [n, n] after it the derivative along the second one. Dense
   rows. False: a result is not finite, and a is destroyed. */
bool flxi_exponential(flxi_workspace *w, double *a, int64_t n, int parts);

#endif
