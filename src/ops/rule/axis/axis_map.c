/* SPDX-License-Identifier: Apache-2.0 */
/* axis_map.c: the walk over the result for ops that move whole axes. */
#include "ops/rule/axis/axis_map.h"

#include "base/host/stop.h"
#include "ops/rule/copy.h"

/* ---- Moving elements ---- */

typedef struct {
    const flxi_eval *e;
    const flxi_axis_map *map;
    const flx_tensor *x;
    flx_tensor *y;
    size_t size; /* bytes of one element */
    int64_t x_stride[FLX_MAX_RANK], y_stride[FLX_MAX_RANK];
} walk;

/* All result positions for a fixed choice along the axes before `axis`; the offsets are those of that choice. */
static void walk_axis(const walk *w, int axis, int64_t x_at, int64_t y_at)
{
    if (axis == w->y->type.rank) {
        flxi_copy_element(w->y->data, y_at, w->x->data, x_at, w->size);
        return;
    }
    int from = w->map->from[axis];
    for (int64_t i = 0; i < w->y->type.dims[axis] && !flxi_stopped_by_now(); i++) {
        int64_t at = from < 0 ? 0 : w->map->at ? w->map->at(w->e, from, i) : i;
        if (at >= 0)
            walk_axis(w, axis + 1, x_at + (from < 0 ? 0 : at * w->x_stride[from]), y_at + i * w->y_stride[axis]);
    }
}

void flxi_move(const flxi_eval *e, const flxi_axis_map *map, const flx_tensor *x, flx_tensor *y)
{
    if (y->count == 0)
        return; /* [1000000000, 0]: an empty result must not take long */
    walk w = {.e = e, .map = map, .x = x, .y = y, .size = flx_dtype_size(x->type.dtype)};
    flxi_strides(&x->type, w.x_stride);
    flxi_strides(&y->type, w.y_stride);
    walk_axis(&w, 0, 0, 0);
}

flx_code flxi_move_each(flxi_eval *e, flxi_axis_at at)
{
    flxi_axis_map map = {.at = at};
    for (int k = 0; k < FLX_MAX_RANK; k++)
        map.from[k] = k;
    flxi_move(e, &map, e->in[0], e->out[0]);
    return FLX_OK;
}

int64_t flxi_at_stretched(const flxi_eval *e, int axis, int64_t i)
{
    return e->in[0]->type.dims[axis] == 1 ? 0 : i;
}

/* ---- Inference ---- */

flx_code flxi_need_stretch(flxi_infer *f, int axis, flx_dim target)
{
    flx_dim d = f->in[0]->dims[axis];
    if (d == 1 || flxi_dims_may_equal(f, d, target))
        return FLX_OK;
    flxi_type_text t;
    flxi_dim_text want;
    return flxi_infer_fail(f, FLX_E_SHAPE, "only axes of extent 1 broadcast; repeat or tile copies longer ones",
                           "axis %d of x, of shape %s, cannot become %s", axis, flxi_shape_str(f->ctx, f->in[0], &t),
                           flxi_dim_str(f->ctx, target, &want));
}
