/* SPDX-License-Identifier: Apache-2.0 */
/* extent.c: checks on extents, counts and ranks. */
#include "ops/rule/axis/extent.h"

const char *flxi_dim_str(flx_context *ctx, flx_dim d, flxi_dim_text *buffer)
{
    flx_dim_print(ctx, d, buffer->text, sizeof buffer->text);
    return buffer->text;
}

/* ---- Counts and ranks ---- */

flx_code flxi_need_operands(flxi_infer *f)
{
    return f->nin ? FLX_OK : flxi_infer_fail(f, FLX_E_ARITY, NULL, "at least one operand is needed");
}

flx_code flxi_need_result_rank(flxi_infer *f, size_t rank)
{
    if (rank <= FLX_MAX_RANK)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SIZE, "merge some axes with reshape first",
                           "the result would have %zu axes, at most %d are supported", rank, FLX_MAX_RANK);
}

flx_code flxi_need_count(flxi_infer *f, const char *name, flx_dim n)
{
    if (!flxi_dim_negative(n))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s must not be negative, got %lld", name, (long long)n);
}

flx_code flxi_need_counts(flxi_infer *f, const char *name, const flx_ints *list)
{
    for (size_t k = 0; k < list->n; k++)
        if (flxi_dim_negative(list->v[k]))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s[%zu] must not be negative, got %lld", name, k,
                                   (long long)list->v[k]);
    return FLX_OK;
}

flx_code flxi_norm_sizes(flxi_infer *f, const char *name, flx_ints *list, size_t n, int64_t value, int64_t least)
{
    FLXI_TRY(flxi_norm_list(f, name, list, n, value));
    for (size_t k = 0; k < n; k++)
        if (flxi_dim_is_number(list->v[k]) && list->v[k] < least)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s[%zu] must be at least %lld, got %lld", name, k,
                                   (long long)least, (long long)list->v[k]);
    return FLX_OK;
}

/* ---- Shapes of several operands ---- */

flx_code flxi_merge_shape(flxi_infer *f, uint32_t k, int64_t except, flx_type *y)
{
    const flx_type *x = f->in[k];
    bool fits = x->rank == y->rank;
    for (int axis = 0; fits && axis < y->rank; axis++) {
        if (axis == except)
            continue;
        fits = flxi_dims_may_equal(f, x->dims[axis], y->dims[axis]);
        if (fits)
            y->dims[axis] = flxi_agreed_dim(x->dims[axis], y->dims[axis]);
    }
    if (fits)
        return FLX_OK;
    flxi_type_text tx;
    flxi_type_text ty;
    return flxi_infer_fail(f, FLX_E_SHAPE,
                           except < 0 ? "this op does not broadcast its operands; expand them first"
                                      : "the shapes may differ only along axis",
                           "operand %u, of shape %s, does not match the shape %s before it", k,
                           flxi_shape_str(f->ctx, x, &tx), flxi_shape_str(f->ctx, y, &ty));
}

flx_code flxi_equal_shapes(flxi_infer *f, uint32_t n, flx_type *shape)
{
    *shape = *f->in[0];
    for (uint32_t k = 1; k < n; k++)
        FLXI_TRY(flxi_merge_shape(f, k, -1, shape));
    return FLX_OK;
}
