/* SPDX-License-Identifier: Apache-2.0 */
/* along.h: helpers for the rules of ops along axes, including reductions. */
#ifndef FLXI_ALONG_H
#define FLXI_ALONG_H

#include "graph/op/site.h"

/* ---- Dtypes ---- */

static inline flx_val flxi_as_dtype(flxi_site *s, flx_val v, int32_t dtype)
{
    return flxi_typeof(s, v)->dtype == dtype ? v : flx_cast(s->g, v, (flx_dtype)dtype);
}

/* The dtype of partial sums: f32 for f16 and bf16. */
static inline int32_t flxi_wide_dtype(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16 ? FLX_F32 : dtype;
}

static inline flx_val flxi_widen(flxi_site *s, flx_val v)
{
    return flxi_as_dtype(s, v, flxi_wide_dtype(flxi_typeof(s, v)->dtype));
}

/* f(v, r) for a real r: on both parts of a complex v. In a product or quotient of complex numbers an infinite part
   would be multiplied by the 0 of r's imaginary part, and make the other part NaN. */
flx_val flxi_by_parts(flxi_site *s, flx_val v, flx_val r, flx_val (*f)(flx_graph *g, flx_val a, flx_val b));

/* ---- Positions ---- */

/* v with its elements shifted by `by` positions along axis (negative: towards 0); zeros are shifted in, elements
   shifted out are dropped. */
flx_val flxi_move_along(flxi_site *s, flx_val v, int64_t axis, int64_t by);

/* 0, 1, 2 … along axis in the shape of `type`, in a dtype that holds them all. */
flx_val flxi_positions_along(flxi_site *s, const flx_type *type, int64_t axis);

/* Zeros of `type`, with the elements of v added to them at positions idx along axis: the transpose of take_along.
   `unique` promises that no position of a row occurs twice. */
flx_val flxi_scatter_along(flxi_site *s, flx_val v, flx_val idx, int64_t axis, const flx_type *type, bool unique);

/* ---- Linear recurrences ---- */

/* Of each pair of neighbours along axis the later one, or the earlier one: an extent of n - 1. Where n is symbolic, and
   so may be 0, a last element 0 is added. */
flx_val flxi_neighbours(flxi_site *s, flx_val v, int64_t axis, bool later);

/* The r with r[0] = b[0], r[k+1] = b[k+1] + link[k] r[k] along axis; backward: r[n-1] = b[n-1],
   r[k] = b[k] + link[k] r[k+1], which transposes that map of b. Links are between neighbours, in the form of
   flxi_neighbours. */
flx_val flxi_recurrence(flxi_site *s, flx_val b, flx_val link, int64_t axis, bool backward);

#endif
