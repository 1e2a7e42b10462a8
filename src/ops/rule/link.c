/* SPDX-License-Identifier: Apache-2.0 */
/* link.c: see link.h. */
#include "ops/rule/link.h"

#include "ops/rule/shard.h"

const struct flxi_shard flxi_shard_linked = {0}, flxi_shard_bodies = {.by_bodies = true};

static const int64_t farthest = INT64_C(1) << 60; /* beyond any extent: sums of two stay far from overflow */

int flxi_link_find(const flx_ints *list, int64_t x)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] == x)
            return (int)i;
    return -1;
}

bool flxi_link_move(const flxi_use *u, flxi_link *l, int64_t to)
{
    const flx_type *y = flxi_link_result(u);
    bool is_kept = to >= 0 && to < y->rank && flxi_link_operand(u)->dims[l->axis] == y->dims[to];
    l->axis = (int)to;
    return is_kept;
}

/* Whether an extent, which may be symbolic, is that many equal parts for all values of its symbols. */
static bool has_parts(flx_context *ctx, flx_dim extent, int64_t parts)
{
    flx_dim part = flx_dim_div(ctx, extent, parts);
    return part != FLX_DIM_INVALID && flx_dim_mul(ctx, part, parts) == extent;
}

bool flxi_link_move_blocks(const flxi_use *u, flxi_link *l, int64_t to)
{
    flx_dim x = flxi_link_operand(u)->dims[l->axis], y = flxi_link_result(u)->dims[to];
    l->by_blocks = l->blocks > 0 && l->lo == 0 && l->hi == 0 && has_parts(u->g->ctx, x, l->blocks) &&
                   has_parts(u->g->ctx, y, l->blocks);
    l->axis = (int)to;
    return l->by_blocks;
}

bool flxi_link_shift(flxi_link *l, flx_dim by)
{
    if (!flxi_dim_is_number(by) || by > farthest || by < -farthest)
        return false;
    l->lo += by;
    l->hi += by;
    return l->lo > -farthest && l->hi < farthest;
}

bool flxi_link_except(const flxi_use *u, flxi_link *l, int64_t axis)
{
    return l->axis != axis && flxi_link_move(u, l, l->axis);
}

bool flxi_link_rows(const flxi_use *u, flxi_link *l)
{
    return flxi_link_except(u, l, flxi_link_operand(u)->rank - 1);
}

bool flxi_link_except_all(const flxi_use *u, flxi_link *l, const flx_ints *axes)
{
    return flxi_link_find(axes, l->axis) < 0 && flxi_link_move(u, l, l->axis);
}

bool flxi_link_dense(const flxi_use *u, flxi_link *l)
{
    (void)u;
    (void)l;
    return false;
}

bool flxi_link_aligned(const flxi_use *u, flxi_link *l)
{
    return flxi_link_move(u, l, l->axis + flxi_link_result(u)->rank - flxi_link_operand(u)->rank);
}

bool flxi_link_matrices(const flxi_use *u, flxi_link *l)
{
    const flx_type *first = flxi_type_at(u->g, u->n->in[0]);
    const flx_type *x = flxi_link_operand(u);
    const flx_type *y = flxi_link_result(u);
    int count = first->rank - 2;
    bool is_vectors = x->rank == first->rank - 1; /* of systems */
    bool is_kept = (x->rank == first->rank || is_vectors) && y->rank >= count && l->axis < count;
    for (uint32_t i = 1; is_kept && i < u->n->nin; i++) /* others would shift the axes of the result */
        is_kept = flxi_type_at(u->g, u->n->in[i])->rank <= first->rank;
    bool is_aligned = y->rank == first->rank;
    for (uint32_t i = 0; i < u->n->nin; i++) /* integers, such as a permutation, have no derivative */
        is_aligned &=
            flxi_is_int(flxi_type_at(u->g, u->n->in[i])->dtype) || flxi_type_at(u->g, u->n->in[i])->rank == first->rank;
    for (int k = 0; is_kept && !is_aligned && k < count; k++)
        is_kept = x->dims[k] == first->dims[k] && y->dims[k] == first->dims[k];
    return is_kept && flxi_link_move(u, l, l->axis);
}

bool flxi_link_reshaped(const flxi_use *u, flxi_link *l)
{
    const flx_type *x = flxi_link_operand(u);
    const flx_type *y = flxi_link_result(u);
    const flxi_link given = *l;
    flx_dim before = flxi_dims_product(u->g->ctx, x, 0, l->axis);
    for (int k = 0; before != FLX_DIM_INVALID && k < y->rank; k++) {
        if (flxi_dims_product(u->g->ctx, y, 0, k) != before)
            continue;
        if (y->dims[k] == x->dims[l->axis])
            return flxi_link_move(u, l, k);
        if (flxi_link_move_blocks(u, l, k))
            return true;
        *l = given;
    }
    return false;
}
