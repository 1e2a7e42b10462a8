/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c: see channel.h. */
#include "ops/quant/channel.h"

#include "graph/op/eval.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/rule_lists.h"

/* ---- Inference ---- */

flx_code flxi_norm_channels(flxi_infer *f, int64_t *axis, const flx_type *x, flx_dim *count)
{
    *count = 1;
    if (*axis == FLXI_ABSENT)
        return FLX_OK;
    FLXI_TRY(flxi_norm_axis(f, "axis", axis, x->rank));
    *count = x->dims[*axis];
    return FLX_OK;
}

flx_code flxi_need_per_channel(flxi_infer *f, uint32_t k, int64_t axis, flx_dim count, bool may_share)
{
    const flx_type *t = f->in[k];
    char name[32];
    flxi_type_text text;
    flxi_dim_text channels;
    bool one = t->rank == 0 || (t->rank == 1 && t->dims[0] == 1);
    if ((one && (axis == FLXI_ABSENT || may_share)) || (t->rank == 1 && flxi_dims_may_equal(f, t->dims[0], count)))
        return FLX_OK;
    flxi_operand_name(f, k, name, sizeof name);
    if (axis == FLXI_ABSENT)
        return flxi_infer_fail(f, FLX_E_SHAPE, "give axis= for one per channel",
                               "without an axis, %s must be one number: it is %s", name,
                               flxi_shape_str(f->ctx, t, &text));
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must be [%s], one for each channel of axis %lld: it is %s", name,
                           flxi_dim_str(f->ctx, count, &channels), (long long)axis, flxi_shape_str(f->ctx, t, &text));
}

/* ---- Values ---- */

flx_val flxi_wide(flxi_site *s, flx_val v)
{
    return flxi_typeof(s, v)->dtype == FLX_F64 ? v : flx_cast(s->g, v, FLX_F32);
}

flx_val flxi_as(flxi_site *s, flx_val v, flx_val like)
{
    flx_dtype to = (flx_dtype)flxi_typeof(s, like)->dtype;
    return (flx_dtype)flxi_typeof(s, v)->dtype == to ? v : flx_cast(s->g, v, to);
}

flx_val flxi_channel_view(flxi_site *s, flx_val v, int64_t axis, const flx_type *x)
{
    const flx_type *t = flxi_typeof(s, v);
    bool one = axis == FLXI_ABSENT || t->rank == 0 || (t->dims[0] == 1 && x->dims[axis] != 1);
    flx_dim dims[FLX_MAX_RANK];
    for (int k = 0; k < x->rank; k++)
        dims[k] = !one && k == axis ? x->dims[k] : 1;
    return flxi_reshape_to(s, v, one ? 0 : x->rank, dims);
}

flx_val flxi_constants(flxi_site *s, flx_dtype dtype, const double *v, size_t n)
{
    flx_type type = flx_type_make(dtype, 1, (flx_dim[]){(flx_dim)n});
    flx_error err = {0};
    if (s->g->error.code)
        return FLX_NONE;
    flx_tensor *t = flx_tensor_new(s->ctx, &type, NULL, &err);
    if (!t) {
        flxi_graph_fail(s->g, &err);
        return FLX_NONE;
    }
    for (size_t i = 0; i < n; i++)
        flxi_store_double(type.dtype, flx_tensor_data(t), (int64_t)i, v[i]);
    flx_val c = flx_const(s->g, &type, t);
    flx_tensor_release(t);
    return c;
}

flx_val flxi_channel_constants(flxi_site *s, const double *v, size_t n, int64_t axis, flx_val like)
{
    const flx_type *x = flxi_typeof(s, like);
    if (axis == FLXI_ABSENT)
        return flxi_number(s, like, v[0]);
    return flxi_channel_view(s, flxi_constants(s, (flx_dtype)x->dtype, v, n), axis, x);
}

flx_ints flxi_axes_within_channel(int64_t axis, int rank, int64_t *room)
{
    size_t n = 0;
    for (int k = 0; k < rank; k++)
        if (axis == FLXI_ABSENT || k != axis)
            room[n++] = k;
    return (flx_ints){room, n};
}

/* ---- Batching ---- */

flx_val flxi_fold_channels(flxi_site *s, flx_val v, int64_t axis)
{
    flx_dim dims[FLX_MAX_RANK];
    if (axis == FLXI_ABSENT)
        return v;
    v = flxi_move_axis(s, v, (int)axis + 1, 1);
    const flx_type *t = flxi_typeof(s, v);
    for (int k = 2; k < t->rank; k++)
        dims[k - 1] = t->dims[k];
    dims[0] = flx_dim_mul(s->ctx, t->dims[0], t->dims[1]);
    return flxi_reshape_to(s, v, t->rank - 1, dims);
}

flx_val flxi_unfold_channels(flxi_site *s, flx_val v, int64_t axis, const flx_type *batch)
{
    flx_dim dims[FLX_MAX_RANK];
    int n = 0;
    if (axis == FLXI_ABSENT)
        return v;
    dims[n++] = batch->dims[0];
    dims[n++] = batch->dims[axis + 1];
    for (int k = 1; k < batch->rank; k++)
        if (k != axis + 1)
            dims[n++] = batch->dims[k];
    return flxi_move_axis(s, flxi_reshape_to(s, v, n, dims), 1, (int)axis + 1);
}

flx_val flxi_fold_scales(flxi_site *s, uint32_t k, flx_dim count)
{
    const flx_type *t = flxi_typeof(s, s->x[k]);
    bool is_batched = s->batched[k];
    flx_dim own = flxi_dims_product(s->ctx, t, is_batched, t->rank);
    flx_dim one[2] = {is_batched ? s->size : 1, own};
    flx_dim all[2] = {s->size, count};
    flx_dim folded = flx_dim_mul(s->ctx, s->size, count);
    flx_val v = flxi_expand_to(s, flxi_reshape_to(s, s->x[k], 2, one), 2, all);
    return flxi_reshape_to(s, v, 1, &folded);
}

flx_dim flxi_example_channels(flxi_site *s, int64_t axis)
{
    return axis == FLXI_ABSENT ? 1 : flxi_typeof(s, s->x[0])->dims[axis + (s->batched[0] ? 1 : 0)];
}
