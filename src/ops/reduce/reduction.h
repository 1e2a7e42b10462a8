/* SPDX-License-Identifier: Apache-2.0 */
/* reduction.h: the axes of a tensor, divided into kept and reduced ones. */
#ifndef FLXI_REDUCTION_H
#define FLXI_REDUCTION_H

#include "graph/op/eval.h"
#include "graph/op/site.h"
#include "ops/rule/axis/axis_lists.h"

/* x with the axes removed, or kept with extent 1. */
flx_type flxi_reduced_type(const flx_type *x, const flx_ints *axes, bool keep_dims);

/* ---- Walking: kept axes outside, reduced axes inside ---- */

typedef struct {
    int rank;
    int64_t count; /* elements, 1 for rank 0 */
    flx_dim dims[FLX_MAX_RANK];
    int64_t strides[FLX_MAX_RANK]; /* in x */
} flxi_axis_group;

typedef struct {
    flxi_axis_group kept, reduced;
} flxi_reduction;

flxi_reduction flxi_reduction_of(const flx_type *x, const flx_ints *axes);

/* Position of an element in x: `at` is the position among the kept elements, `k` that among the reduced ones. */
static inline int64_t flxi_reduction_at(const flxi_reduction *r, const int64_t *at, const int64_t *k)
{
    return flxi_offset(at, r->kept.strides, r->kept.rank) + flxi_offset(k, r->reduced.strides, r->reduced.rank);
}

/* ---- Reduced axes as one leading axis, for rules ---- */

/* Product of extents, 0 where one of them is. A product that overflows belongs to an empty tensor, where the count has
   no effect: then 1 will do. */
flx_dim flxi_extents_product(flx_context *ctx, const flx_dim *dims, int n);

typedef struct {
    int rank, kept;             /* total axes; axes not reduced */
    int64_t perm[FLX_MAX_RANK]; /* reduced axes first */
    int64_t inverse[FLX_MAX_RANK];
    flx_dim permuted[FLX_MAX_RANK];
    flx_dim dims[FLX_MAX_RANK + 1]; /* the count of reduced elements, then the kept extents */
} flxi_flattening;

flxi_flattening flxi_flatten_axes(flx_context *ctx, const flx_type *x, flx_ints axes);
/* v, of x's shape, as [reduced elements, kept axes …], and back. */
flx_val flxi_flattened(flxi_site *s, const flxi_flattening *f, flx_val v);
flx_val flxi_unflattened(flxi_site *s, const flxi_flattening *f, flx_val v);

#endif
