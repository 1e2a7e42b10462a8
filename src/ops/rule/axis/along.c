/* SPDX-License-Identifier: Apache-2.0 */
/* along.c: see along.h.

   A recurrence of known length n is solved by doubling (Kogge and Stone, 1973): after the round of width w, r[k] holds
   the terms of the 2w positions that end at k, and link[k] spans 2w positions. That is log2 n rounds of ordinary
   products and sums, hence differentiable to any order, and exact where links are zero: nothing is divided. Only
   products of elements that both exist are formed, so an infinite link is never multiplied by a zero from beyond the
   end. For a symbolic length a scan is used. */
#include "ops/rule/axis/along.h"

#include <limits.h>

flx_val flxi_by_parts(flxi_site *s, flx_val v, flx_val r, flx_val (*f)(flx_graph *g, flx_val a, flx_val b))
{
    flx_graph *g = s->g;
    if (!flxi_is_complex(flxi_typeof(s, v)->dtype))
        return f(g, v, r);
    return flx_complex(g, f(g, flx_real(g, v), r), f(g, flx_imag(g, v), r));
}

flx_val flxi_move_along(flxi_site *s, flx_val v, int64_t axis, int64_t by)
{
    int64_t low[FLX_MAX_RANK] = {0};
    int64_t high[FLX_MAX_RANK] = {0};
    size_t rank = (size_t)flxi_typeof(s, v)->rank;
    low[axis] = by;
    high[axis] = -by;
    return flx_pad(s->g, v, flxi_number(s, v, 0.0), (flx_ints){low, rank}, (flx_ints){high, rank}, FLX_ALL);
}

flx_val flxi_positions_along(flxi_site *s, const flx_type *type, int64_t axis)
{
    flx_type positions = *type;
    flx_dim n = type->dims[axis];
    positions.dtype = flxi_dim_is_number(n) && n <= INT32_MAX ? FLX_I32 : FLX_I64;
    return flx_iota(s->g, &positions, axis);
}

flx_val flxi_scatter_along(flxi_site *s, flx_val v, flx_val idx, int64_t axis, const flx_type *type, bool unique)
{
    int64_t others[FLX_MAX_RANK];
    size_t n = 0;
    if (type->dims[axis] == 0) /* no window fits there, and none is needed */
        return flxi_zeros(s, type);
    for (int64_t k = 0; k < type->rank; k++)
        if (k != axis)
            others[n++] = k;
    flx_scatter_nd_attrs a = FLX_SCATTER_ND_ATTRS;
    a.start_index_map = a.collapsed_axes = (flx_ints){&axis, 1};
    a.operand_batching_axes = a.indices_batching_axes = (flx_ints){others, n};
    a.index_vector_axis = type->rank;
    a.unique = unique;
    return flx_scatter_nd_with(s->g, flxi_zeros(s, type), idx, v, &a);
}

/* ---- Linear recurrences ---- */

flx_val flxi_neighbours(flxi_site *s, flx_val v, int64_t axis, bool later)
{
    flx_dim n = flxi_typeof(s, v)->dims[axis];
    if (flxi_dim_is_number(n))
        return n == 0 ? v : flx_narrow(s->g, v, axis, later, n - 1);
    flx_val moved = later ? v : flxi_move_along(s, v, axis, 1);
    return flxi_move_along(s, moved, axis, -1);
}

static flx_val recur_by_doubling(flxi_site *s, flx_val r, flx_val link, int64_t axis, bool backward)
{
    flx_graph *g = s->g;
    flx_type type = *flxi_typeof(s, r);
    int64_t before[FLX_MAX_RANK] = {0};
    int64_t none[FLX_MAX_RANK] = {0};
    size_t rank = (size_t)type.rank;
    flx_dim n = type.dims[axis];
    for (flx_dim w = 1; w < n; w *= 2) { /* link[k] spans k to k + w; link has n - w elements */
        flx_val over = flx_mul(g, link, flx_narrow(g, r, axis, backward ? w : 0, n - w));
        before[axis] = w;
        flx_ints gap = {before, rank};
        flx_ints flush = {none, rank};
        over = flx_pad(g, over, flxi_number(s, over, 0.0), backward ? flush : gap, backward ? gap : flush, FLX_ALL);
        r = flx_add(g, r, over);
        if (2 * w < n)
            link = flx_mul(g, flx_narrow(g, link, axis, 0, n - 2 * w), flx_narrow(g, link, axis, w, n - 2 * w));
    }
    return r;
}

/* One step: c becomes b + link c. */
static flx_graph *recurrence_step(flxi_site *s, const flx_type *row)
{
    flx_graph *g = flx_graph_new(s->ctx, "recurrence");
    if (!g) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return NULL;
    }
    flx_val c = flx_input(g, "c", row);
    flx_val link = flx_input(g, "link", row);
    flx_val b = flx_input(g, "b", row);
    flx_output(g, flx_add(g, b, flx_mul(g, link, c)), "r");
    return g;
}

static flx_val recur_by_scan(flxi_site *s, flx_val b, flx_val link, int64_t axis, bool backward)
{
    if (!backward) /* step k needs the link to k */
        link = flxi_move_along(s, link, axis, 1);
    flx_val xs[2] = {flxi_move_axis(s, link, (int)axis, 0), flxi_move_axis(s, b, (int)axis, 0)};
    const flx_type *stack = flxi_typeof(s, xs[1]);
    flx_type row = flx_type_make((flx_dtype)stack->dtype, stack->rank - 1, stack->dims + 1);
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    flx_graph *step = recurrence_step(s, &row);
    flx_val in[3] = {flxi_zeros(s, &row), xs[0], xs[1]};
    flx_val r = FLX_NONE;
    a.body = step;
    a.reverse = backward;
    a.save_trajectory = true;
    if (step)
        flx_scan_with(s->g, in, 3, &r, 1, &a);
    flx_graph_release(step);
    return flxi_move_axis(s, r, 0, (int)axis);
}

flx_val flxi_recurrence(flxi_site *s, flx_val b, flx_val link, int64_t axis, bool backward)
{
    bool is_known = flxi_dim_is_number(flxi_typeof(s, b)->dims[axis]);
    return is_known ? recur_by_doubling(s, b, link, axis, backward) : recur_by_scan(s, b, link, axis, backward);
}
