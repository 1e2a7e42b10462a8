/* SPDX-License-Identifier: Apache-2.0 */
/* dense.h: dense matrices of doubles or complex doubles in scratch memory, and the factorisations that evaluators of
   linear algebra use.

   Everything is total: a singular matrix, an infinity or a NaN gives infinities and NaNs, never a read out of bounds. A
   function that returns bool says whether the matrix was regular. The order of operations is fixed, and columns of
   right-hand sides are independent, so that solving for several at once gives the same bits as solving for each. */
#ifndef FLXI_DENSE_H
#define FLXI_DENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A triangle within an array: element (i, j) is at i * row + j * col. */
typedef struct {
    int64_t n, row, col;
    bool lower; /* which half is read */
    bool unit;  /* the diagonal is not read and counts as 1 */
    bool conjugated;
} flxi_triangle;

typedef struct {
    size_t size; /* of a number in scratch */
    void (*fill)(void *x, int64_t count, double value);
    void (*conjugate)(void *x, int64_t count);
    void (*unit)(void *x, int64_t n); /* the identity */
    /* a, its rows exchanged, becomes L U in place, partial pivoting by |re| + |im|; pivots[k] is the row exchanged
       with row k. */
    bool (*lu)(void *a, int64_t m, int64_t n, int64_t *pivots);
    /* Applies the exchanges that `lu` made to the rows of b [.., k]. */
    void (*exchange_rows)(void *b, int64_t k, const int64_t *pivots, int64_t count);
    /* b [n, k] becomes the solution of T x = b. */
    bool (*triangular)(const void *t, const flxi_triangle *how, void *b, int64_t k);
    /* The Hermitian part of a [n, n] is factored; its lower factor replaces a, zeros above. False: not positive
       definite. */
    bool (*cholesky)(void *a, int64_t n);
    /* a [m, n] becomes r, with min(m, n) rows; q is [m, min(m, n)], with room for m numbers after it. The diagonal
       of r is real and not negative. */
    void (*qr)(void *a, int64_t m, int64_t n, void *q);
    /* The determinant of the matrix that `lu` factored, one number. */
    void (*determinant)(const void *lu, int64_t n, const int64_t *pivots, void *det);
    /* w becomes the adjugate of the matrix that `lu` factored, singular or not. */
    void (*adjugate)(const void *lu, int64_t n, const int64_t *pivots, void *w);
    /* w, with room for n numbers after it, becomes d/dz adj(a + z v) at z = 0. a and v are destroyed, pivots has room
       for 2 n positions. By complete pivoting: errors are relative to the sizes of a and v, singular or not. */
    void (*adjugate_along)(void *a, void *v, int64_t n, int64_t *pivots, void *w);
} flxi_dense;

const flxi_dense *flxi_dense_of(bool is_complex);

/* b [n, k] becomes the solution of a x = b, for the a [n, n] that `lu` factored. */
bool flxi_dense_solve(const flxi_dense *d, const void *lu, int64_t n, const int64_t *pivots, void *b, int64_t k);

/* perm[i] is the row of a that the exchanges bring to row i. */
void flxi_permutation_of(const int64_t *pivots, int64_t count, int64_t rows, int64_t *perm);

#endif
