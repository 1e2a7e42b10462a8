/* SPDX-License-Identifier: Apache-2.0 */
/* row_kernels.h: loops over rows of doubles, from which reflections and rotations of matrices are made.

   Rows are `step` elements apart. Every instruction set gives the same bits: multiplications and additions are not
   fused, and the order of a sum depends on its length alone. */
#ifndef FLXI_ROW_KERNELS_H
#define FLXI_ROW_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Rotations of neighbouring rows, one after the other: with (c, s) = turns[2 k], turns[2 k + 1], row `row` + k (- k if
   not `down`) becomes c row + s next, and the row next to it c next - s row. */
typedef struct {
    int64_t row, count;
    bool down;
    const double *turns;
} flxi_sweep;

enum { FLXI_REFLECTED_ROWS = 18 };

typedef struct {
    /* y[i] = Σ_k a[i, k] x[k] */
    void (*dots)(const double *a, int64_t step, int64_t rows, const double *x, int64_t count, double *y);
    /* y[k] += Σ_i c[i] a[i, k] */
    void (*combine)(double *y, const double *a, int64_t step, int64_t rows, const double *c, int64_t count);
    /* a[i, k] += c[i] x[k] */
    void (*spread)(double *a, int64_t step, int64_t rows, const double *c, const double *x, int64_t count);
    /* Sweeps over rows of `vectors` (1 to 4) times 8 columns. */
    void (*rotate)(double *a, int64_t step, int64_t vectors, const flxi_sweep *sweeps, int64_t count);
    /* Reflections 1 - tau v v^T of rows k, k + 1, k + 2 for k = 0, 1, .., with v = (1, t[3 k + 1], t[3 k + 2]) and
       tau = t[3 k]; at most FLXI_REFLECTED_ROWS rows. With as many as rows - 1, the last one is of two rows. */
    void (*reflect)(double *a, int64_t step, int64_t cols, const double *t, int64_t rows, int64_t count);
} flxi_row_kernels;

/* Those of the best instruction set that the machine has. */
const flxi_row_kernels *flxi_row_kernels_best(void);

/* All variants that the machine can run, for tests; NULL after the last. */
const flxi_row_kernels *flxi_row_kernels_variant(int i);

#endif
