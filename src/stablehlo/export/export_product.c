/* SPDX-License-Identifier: Apache-2.0 */
/* export_product.c: products and convolutions in terms of StableHLO's dot_general and convolution. See
   export_rules.h. */
#include "stablehlo/export/export_rules.h"

/* ---- matmul ---- */

/* v with the given axes before its last two. */
static flx_val with_batch(flxi_site *s, flx_val v, const flx_type *batch)
{
    const flx_type *t = flxi_typeof(s, v);
    flx_type to = *batch;
    to.dims[to.rank++] = t->dims[t->rank - 2];
    to.dims[to.rank++] = t->dims[t->rank - 1];
    to.dtype = t->dtype;
    return flxi_expand_like(s, v, &to);
}

static flx_type common_batch(const flx_type *a, const flx_type *b)
{
    const flx_type *longer = a->rank >= b->rank ? a : b;
    const flx_type *shorter = a->rank >= b->rank ? b : a;
    flx_type t = *longer;
    int shift = longer->rank - shorter->rank;
    t.rank = longer->rank - 2;
    for (int i = 0; i < shorter->rank - 2; i++)
        if (t.dims[shift + i] == 1)
            t.dims[shift + i] = shorter->dims[i];
    return t;
}

void flxi_export_as_matmul(flxi_site *s, flx_val *y)
{
    const flx_type *a = flxi_typeof(s, s->x[0]);
    const flx_type *b = flxi_typeof(s, s->x[1]);
    int64_t axes[FLX_MAX_RANK];
    if (b->rank == 2) {
        y[0] = flx_dot_general(s->g, s->x[0], s->x[1], FLX_INTS(a->rank - 1), FLX_INTS(0), FLX_NO_INTS, FLX_NO_INTS);
        return;
    }
    flx_type batch = common_batch(a, b);
    flx_val l = with_batch(s, s->x[0], &batch);
    flx_val r = with_batch(s, s->x[1], &batch);
    for (int i = 0; i < batch.rank; i++)
        axes[i] = i;
    flx_ints lead = {axes, (size_t)batch.rank};
    y[0] = flx_dot_general(s->g, l, r, FLX_INTS(batch.rank + 1), FLX_INTS(batch.rank), lead, lead);
}

/* ---- Of bools: and, then or ---- */

static void counted(flxi_site *s, flx_val *y)
{
    flx_val x[2] = {flx_cast(s->g, s->x[0], FLX_I32), flx_cast(s->g, s->x[1], FLX_I32)};
    y[0] = flx_cast(s->g, flxi_emit1(s, NULL, x, 2), FLX_BOOL);
}

void flxi_export_as_dot_general(flxi_site *s, flx_val *y)
{
    counted(s, y);
}

void flxi_export_as_conv(flxi_site *s, flx_val *y)
{
    counted(s, y);
}

/* ---- grouped_matmul ---- */

/* Rows times the matrices that their indices name; a row without one is 0. */
static flx_val times_chosen(flxi_site *s, int64_t contracted)
{
    flx_graph *g = s->g;
    flx_dim groups = flxi_typeof(s, s->x[1])->dims[0];
    flx_val chosen = flx_gather(g, s->x[1], s->x[2], 0, flxi_export_oob(s));
    flx_val rows = flx_dot_general(g, s->x[0], chosen, FLX_INTS(1), FLX_INTS(contracted), FLX_INTS(0), FLX_INTS(0));
    if (strcmp(flxi_export_oob(s), "zero") != 0)
        return rows;
    flx_val e = flx_cast(g, s->x[2], FLX_I64);
    flx_val inside = flx_and(g, flx_ge(g, e, flxi_number(s, e, 0.0)), flx_lt(g, e, flxi_number(s, e, (double)groups)));
    return flxi_masked(s, flx_unsqueeze(g, inside, FLX_INTS(1)), rows);
}

void flxi_export_as_grouped_matmul(flxi_site *s, flx_val *y)
{
    y[0] = times_chosen(s, 1);
}

void flxi_export_as_grouped_matmul_input_backward(flxi_site *s, flx_val *y)
{
    y[0] = times_chosen(s, 2);
}

void flxi_export_as_grouped_matmul_weight_backward(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    flx_val x = export_is_half(dtype) ? flx_cast(g, s->x[0], FLX_F32) : s->x[0];
    flx_val d = export_is_half(dtype) ? flx_cast(g, s->x[1], FLX_F32) : s->x[1];
    flx_val outer = flx_mul(g, flx_unsqueeze(g, x, FLX_INTS(2)), flx_unsqueeze(g, d, FLX_INTS(1)));
    flx_val sums = flx_scatter_add(g, outer, s->x[2], site_int(s, "E"), flxi_export_oob(s));
    y[0] = export_is_half(dtype) ? flx_cast(g, sums, dtype) : sums;
}

/* ---- Convolutions backwards ---- */

/* One spatial axis of a convolution: how far its kernel reaches, and its result with the stride's gaps. */
typedef struct {
    int64_t size, reach, spread, low;
} sliding;

static sliding axis_of(const flxi_site *s, int64_t size, int64_t kernel, int64_t result, int k)
{
    return (sliding){size, (kernel - 1) * site_ints(s, "dilation").v[k] + 1,
                     (result - 1) * site_ints(s, "stride").v[k] + 1, site_ints(s, "padding").v[2 * k]};
}

/* w [Cout, Cin/G, K…] with its feature axes exchanged within each group: [Cin, Cout/G, K…]. */
static flx_val exchanged(flxi_site *s, flx_val w, int64_t groups)
{
    const flx_type *t = flxi_typeof(s, w);
    flx_type split = *t;
    int64_t perm[FLX_MAX_RANK];
    if (t->rank == FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_UNSUPPORTED, NULL, "%d axes leave no room for one of groups", t->rank);
        return w;
    }
    split.rank = t->rank + 1;
    split.dims[0] = groups;
    split.dims[1] = t->dims[0] / groups;
    for (int i = 1; i < t->rank; i++)
        split.dims[i + 1] = t->dims[i];
    for (int i = 0; i < split.rank; i++)
        perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    flx_val swapped =
        flx_transpose(s->g, flxi_reshape_to(s, w, split.rank, split.dims), (flx_ints){perm, (size_t)split.rank});
    flx_type joined = *t;
    joined.dims[0] = groups * t->dims[1];
    joined.dims[1] = split.dims[1];
    return flxi_reshape_to(s, swapped, t->rank, joined.dims);
}

void flxi_export_as_conv_backward_input(flxi_site *s, flx_val *y)
{
    const flx_type *z = flxi_typeof(s, s->x[0]);
    const flx_type *w = flxi_typeof(s, s->x[1]);
    int64_t groups = site_int(s, "groups");
    flx_ints sizes = site_ints(s, "input_size");
    int64_t padding[2 * FLX_MAX_RANK];
    int64_t flips[FLX_MAX_RANK];
    int n = z->rank - 2;
    for (int k = 0; k < n; k++) {
        sliding d = axis_of(s, sizes.v[k], w->dims[k + 2], z->dims[k + 2], k);
        padding[2 * k] = d.reach - 1 - d.low;
        padding[2 * k + 1] = d.size + d.reach - 1 - d.spread - padding[2 * k];
        flips[k] = 1;
    }
    flx_conv_attrs a = FLX_CONV_ATTRS;
    a.padding = (flx_ints){padding, 2 * (size_t)n};
    a.dilation = site_ints(s, "dilation");
    a.groups = groups;
    a.input_dilation = site_ints(s, "stride");
    a.reverse = (flx_ints){flips, (size_t)n};
    y[0] = flx_conv_with(s->g, s->x[0], exchanged(s, s->x[1], groups), &a);
}

void flxi_export_as_conv_backward_weight(flxi_site *s, flx_val *y)
{
    const flx_type *x = flxi_typeof(s, s->x[0]);
    const flx_type *z = flxi_typeof(s, s->x[1]);
    flx_ints sizes = site_ints(s, "kernel_size");
    int64_t padding[2 * FLX_MAX_RANK];
    int64_t axes[FLX_MAX_RANK];
    int n = x->rank - 2;
    for (int k = 0; k < n; k++) {
        sliding d = axis_of(s, x->dims[k + 2], sizes.v[k], z->dims[k + 2], k);
        padding[2 * k] = d.low;
        padding[2 * k + 1] = d.spread - d.size + d.reach - 1 - d.low;
    }
    for (int i = 0; i < x->rank; i++)
        axes[i] = i < 2 ? 1 - i : i;
    flx_ints swapped = {axes, (size_t)x->rank};
    flx_conv_attrs a = FLX_CONV_ATTRS;
    a.stride = site_ints(s, "dilation");
    a.padding = (flx_ints){padding, 2 * (size_t)n};
    a.dilation = site_ints(s, "stride");
    a.batch_groups = site_int(s, "groups");
    a.input_axes = a.kernel_axes = a.output_axes = swapped;
    y[0] = flx_conv_with(s->g, s->x[0], s->x[1], &a);
}
