/* SPDX-License-Identifier: Apache-2.0 */
/* reduction.c: kept and reduced axes, in evaluation and in rules. */
#include "ops/reduce/reduction.h"

#include "ops/rule/axis/along.h"

flx_type flxi_reduced_type(const flx_type *x, const flx_ints *axes, bool keep_dims)
{
    flx_type y = {.dtype = x->dtype};
    for (int k = 0; k < x->rank; k++) {
        bool reduced = flxi_has_axis(*axes, k);
        if (!reduced || keep_dims)
            y.dims[y.rank++] = reduced ? 1 : x->dims[k];
    }
    return y;
}

/* ---- Walking ---- */

/* A product that overflows belongs to an empty tensor whose other group of axes has the 0: then it is never used as a
   count. */
static int64_t count_of(const flxi_axis_group *g)
{
    int64_t count = 1;
    bool fits = true;
    for (int k = 0; k < g->rank; k++) {
        if (g->dims[k] == 0)
            return 0;
        fits = fits && !__builtin_mul_overflow(count, g->dims[k], &count);
    }
    return fits ? count : INT64_MAX;
}

flxi_reduction flxi_reduction_of(const flx_type *x, const flx_ints *axes)
{
    flxi_reduction r = {0};
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(x, strides);
    for (int k = 0; k < x->rank; k++) {
        flxi_axis_group *g = flxi_has_axis(*axes, k) ? &r.reduced : &r.kept;
        g->dims[g->rank] = x->dims[k];
        g->strides[g->rank++] = strides[k];
    }
    r.kept.count = count_of(&r.kept);
    r.reduced.count = count_of(&r.reduced);
    return r;
}

/* ---- Flattening ---- */

flx_dim flxi_extents_product(flx_context *ctx, const flx_dim *dims, int n)
{
    flx_dim product = 1;
    for (int k = 0; k < n; k++)
        if (dims[k] == 0)
            return 0;
    for (int k = 0; k < n; k++)
        product = flx_dim_mul(ctx, product, dims[k]);
    return product == FLX_DIM_INVALID ? 1 : product;
}

flxi_flattening flxi_flatten_axes(flx_context *ctx, const flx_type *x, flx_ints axes)
{
    flxi_flattening f = {.rank = x->rank, .kept = x->rank - (int)axes.n};
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < x->rank; k++)
            if (flxi_has_axis(axes, k) == (pass == 0)) {
                f.inverse[k] = n;
                f.permuted[n] = x->dims[k];
                f.perm[n++] = k;
            }
    f.dims[0] = flxi_extents_product(ctx, f.permuted, (int)axes.n);
    for (int k = 0; k < f.kept; k++)
        f.dims[k + 1] = f.permuted[(int)axes.n + k];
    return f;
}

flx_val flxi_flattened(flxi_site *s, const flxi_flattening *f, flx_val v)
{
    v = flx_transpose(s->g, v, (flx_ints){f->perm, (size_t)f->rank});
    return flxi_reshape_to(s, v, f->kept + 1, f->dims);
}

flx_val flxi_unflattened(flxi_site *s, const flxi_flattening *f, flx_val v)
{
    v = flxi_reshape_to(s, v, f->rank, f->permuted);
    return flx_transpose(s->g, v, (flx_ints){f->inverse, (size_t)f->rank});
}
