/* SPDX-License-Identifier: Apache-2.0 */
/* import_ragged.c: chlo.ragged_dot: products in which consecutive runs of an axis of the first operand, the groups, are
   multiplied by different matrices.

   The operands get an axis for the group and are zero outside of it, so that one batched product serves all groups;
   what zeros meet in the other operand (infinities, NaNs) is masked as well. Rows that belong to no group are zero. */
#include "stablehlo/import/import_site.h"

static const char numbers[] = "ragged_dot_dimension_numbers";

typedef struct {
    flx_ints lc, rc;
    int64_t ragged; /* axis of the first operand */
    flx_dim groups, length;
    flx_val mask; /* bool [groups, length]: the position is in the group */
} ragged;

static flx_val group_mask(hlo_site *s, flx_dim groups, flx_dim length)
{
    flx_graph *g = s->g;
    flx_type plane = flx_type_make(FLX_I64, 2, (const flx_dim[]){groups, length});
    flx_val end = flx_cumsum(g, flx_cast(g, s->x[2], FLX_I64), 0, 0, 0);
    flx_val begin = flx_sub(g, end, flx_cast(g, s->x[2], FLX_I64));
    flx_val at = flx_iota(g, &plane, 1);
    return flx_and(g, flx_le(g, flx_unsqueeze(g, begin, FLX_INTS(1)), at),
                   flx_lt(g, at, flx_unsqueeze(g, end, FLX_INTS(1))));
}

/* x [..] as [groups, ..], zero where the position along `axis` is outside the group; the mask may be that of another
   tensor. */
static flx_val grouped(hlo_site *s, const ragged *r, flx_val x, int64_t axis, bool has_groups)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_hlo_typeof(s, x);
    int rank = t->rank + (has_groups ? 0 : 1);
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == 0 ? r->groups : i - 1 == axis ? r->length : 1;
    flx_val mask = flx_reshape(g, r->mask, (flx_ints){dims, (size_t)rank});
    return flx_where(g, mask, has_groups ? x : flx_unsqueeze(g, x, FLX_INTS(0)), flxi_hlo_number(s, x, 0));
}

/* Axes after a new first one is added. */
static flx_ints behind(hlo_site *s, flx_ints axes)
{
    int64_t *v = flxi_hlo_new(s, int64_t, axes.n);
    for (size_t i = 0; v && i < axes.n; i++)
        v[i] = axes.v[i] + (axes.v[i] < INT64_MAX); /* an invalid axis stays invalid */
    return (flx_ints){v, v ? axes.n : 0};
}

static int64_t position_of(flx_ints axes, int64_t axis)
{
    for (size_t i = 0; i < axes.n; i++)
        if (axes.v[i] == axis)
            return (int64_t)i;
    return -1;
}

/* Place of the ragged axis among those of the first operand that are not contracted. */
static int64_t kept_position(const ragged *r)
{
    int64_t position = 0;
    for (int64_t i = 0; i < r->ragged; i++)
        position += position_of(r->lc, i) < 0;
    return position;
}

static bool find_groups(hlo_site *s, ragged *r)
{
    const flx_type *l = flxi_hlo_typeof(s, s->x[0]);
    const flx_type *sizes = flxi_hlo_typeof(s, s->x[2]);
    flx_ints axes = flxi_hlo_member_ints(s, numbers, "lhs_ragged_dimensions");
    r->lc = flxi_hlo_member_ints(s, numbers, "lhs_contracting_dimensions");
    r->rc = flxi_hlo_member_ints(s, numbers, "rhs_contracting_dimensions");
    if (flxi_hlo_member_ints(s, numbers, "lhs_batching_dimensions").n || sizes->rank != 1) {
        flxi_hlo_unsupported(s, "batches of groups");
        return false;
    }
    if (axes.n != 1 || axes.v[0] < 0 || axes.v[0] >= l->rank || r->lc.n != r->rc.n || l->rank >= FLX_MAX_RANK ||
        flxi_hlo_typeof(s, s->x[1])->rank >= FLX_MAX_RANK) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "lhs_ragged_dimensions must name one axis of the first operand");
        return false;
    }
    r->ragged = axes.v[0];
    r->groups = sizes->dims[0];
    r->length = l->dims[r->ragged];
    r->mask = group_mask(s, r->groups, r->length);
    return !flxi_hlo_failed(s);
}

void flxi_hlo_import_ragged_dot(hlo_site *s)
{
    ragged r;
    flx_graph *g = s->g;
    flx_ints group = flxi_hlo_member_ints(s, numbers, "rhs_group_dimensions");
    if (!find_groups(s, &r))
        return;
    flx_val l = grouped(s, &r, s->x[0], r.ragged, false);
    int64_t pair = position_of(r.lc, r.ragged);
    flx_val y;
    if (pair >= 0) { /* the groups are runs of what is summed over */
        flx_val right = grouped(s, &r, s->x[1], r.rc.v[pair], false);
        y = flx_dot_general(g, l, right, behind(s, r.lc), behind(s, r.rc), FLX_INTS(0), FLX_INTS(0));
    } else if (group.n == 1) { /* runs of rows, each with a matrix of its own */
        flx_val all = flx_dot_general(g, l, s->x[1], behind(s, r.lc), r.rc, FLX_INTS(0), group);
        y = flx_reduce_sum(g, grouped(s, &r, all, kept_position(&r), true), FLX_INTS(0), 0);
    } else {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "rhs_group_dimensions must name one axis of the second operand");
        return;
    }
    flx_dtype d = flxi_hlo_carrier(flxi_hlo_result_type(s, 0));
    s->y[0] = flxi_hlo_dtype(s, y) == d ? y : flx_cast(g, y, d);
}
