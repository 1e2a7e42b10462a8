/* SPDX-License-Identifier: Apache-2.0 */
/* decomposition.h: what the routes of decompositions share: the matrices of one node, loaded in f64 and scaled. */
#ifndef FLXI_DECOMPOSITION_H
#define FLXI_DECOMPOSITION_H

#include "backend/cpu/linalg/dense_work.h"
#include "backend/cpu/routes/routes.h"

typedef struct {
    const flxi_route_node *n;
    const struct flxi_method *how;
    int32_t dtype;             /* f32 or f64; complex results are pairs of these */
    int64_t rows, cols, least; /* least: the smaller one */
    int64_t count, slots;
} flxi_decomposing;

static inline double flxi_load_element(const flxi_decomposing *s, int64_t i)
{
    return s->dtype == FLX_F64 ? ((const double *)s->n->in[0])[i] : (double)((const float *)s->n->in[0])[i];
}

static inline void flxi_store_element(const flxi_decomposing *s, int result, int64_t i, double x)
{
    if (s->dtype == FLX_F64)
        ((double *)s->n->out[result])[i] = x;
    else
        ((float *)s->n->out[result])[i] = (float)x;
}

static inline int64_t flxi_first_of(const flxi_decomposing *s, int64_t i)
{
    return i * s->rows * s->cols;
}

/* The power of two to divide by so that the largest element is in [1/2, 1); false where one is not finite. */
bool flxi_find_scale(const flxi_decomposing *s, int64_t i, int *exponent);

/* 2^exponent as two factors, each of which is a number. */
typedef struct {
    double half, rest;
} flxi_power;

flxi_power flxi_power_of(int exponent);

static inline double flxi_times(double x, flxi_power p)
{
    return x * p.half * p.rest;
}

enum { FLXI_TILE = 16 };

/* a[i, j] = matrix[i, j] / 2^exponent, or with `turned` a[j, i]; tiles, so that lines of both are used while near. */
void flxi_load_matrix(const flxi_decomposing *s, int64_t which, int exponent, double *a, int64_t step, bool turned);

void flxi_fill_nan(const flxi_decomposing *s, int result, int64_t which, int64_t count);

/* order[k] is the position of the k-th value, equal ones in their order. */
void flxi_sort_values(const double *d, int64_t n, bool descending, int64_t *order, int64_t *room);

/* Matrix `which` of eig and of eig_pairs. */
void flxi_eig_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which);
void flxi_eig_pairs_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which);

#endif
