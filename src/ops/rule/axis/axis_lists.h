/* SPDX-License-Identifier: Apache-2.0 */
/* axis_lists.h: checks of axis lists and ranks for the inference of the indexing and product families. Their lists
   default to the empty one (not to "all axes"), keep the given order where they are paired with another list, and
   together determine the rank of the result. */
#ifndef FLXI_AXIS_LISTS_H
#define FLXI_AXIS_LISTS_H

#include "ops/rule/axis/extent.h"

/* Distinct axes, normalised, in the given order; absent becomes the empty list. */
static inline flx_code flxi_norm_axes_or_none(flxi_infer *f, const char *name, flx_ints *axes, int rank)
{
    if (!axes->v)
        return flxi_norm_list(f, name, axes, 0, 0);
    return flxi_norm_axes(f, name, axes, rank, false);
}

static inline bool flxi_has_axis(flx_ints axes, int64_t axis)
{
    for (size_t i = 0; i < axes.n; i++)
        if (axes.v[i] == axis)
            return true;
    return false;
}

/* Two lists of axes are disjoint. */
static inline flx_code flxi_need_disjoint(flxi_infer *f, const char *name_a, flx_ints a, const char *name_b, flx_ints b)
{
    for (size_t i = 0; i < a.n; i++)
        if (flxi_has_axis(b, a.v[i]))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "axis %lld is both in %s and in %s", (long long)a.v[i],
                                   name_a, name_b);
    return FLX_OK;
}

/* Two lists pair their entries: they have the same length. */
static inline flx_code flxi_need_paired(flxi_infer *f, const char *name_a, flx_ints a, const char *name_b, flx_ints b)
{
    if (a.n == b.n)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s and %s must have the same number of axes: %zu and %zu", name_a,
                           name_b, a.n, b.n);
}

/* Appends axes [from, to) of t to y, which has room for them. */
static inline void flxi_append_dims(flx_type *y, const flx_type *t, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++)
        y->dims[y->rank++] = t->dims[k];
}

#endif
