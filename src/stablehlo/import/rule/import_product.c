/* SPDX-License-Identifier: Apache-2.0 */
/* import_product.c: sums of products: dot_general and its predecessors, convolutions.

   The element type of a result may be another one than that of the operands. Where it holds all their values the
   products are formed in it, so that a sum of bytes in 32 bits is exact; otherwise they are formed in the operands'
   type and the sum is converted. Any precision or algorithm is satisfied by computing in full precision. */
#include "stablehlo/import/import_site.h"

#include "graph/type/type.h"

#include <string.h>

/* ---- Element types ---- */

/* Whether `to` has every value of `from`, as far as products are concerned. */
static bool holds(flx_dtype to, flx_dtype from)
{
    int32_t t = (int32_t)to;
    int32_t f = (int32_t)from;
    if (to == from)
        return true;
    if (flxi_is_complex(f))
        return flxi_is_complex(t) && flx_dtype_size(t) > flx_dtype_size(f);
    if (flxi_is_complex(t))
        return !flxi_is_float(f) || flx_dtype_size(t) >= 2 * flx_dtype_size(f);
    if (flxi_is_float(t) && flxi_is_float(f))
        return flx_dtype_size(t) > flx_dtype_size(f);
    return flxi_is_float(t) || (!flxi_is_float(f) && flx_dtype_size(t) >= flx_dtype_size(f));
}

static flx_val in_dtype(hlo_site *s, flx_val v, flx_dtype to)
{
    return flxi_hlo_dtype(s, v) == to ? v : flx_cast(s->g, v, to);
}

/* The two factors in the type in which they are multiplied. */
static void meet(hlo_site *s, flx_val x[2])
{
    flx_dtype to = flxi_hlo_carrier(flxi_hlo_result_type(s, 0));
    flx_dtype a = flxi_hlo_dtype(s, s->x[0]);
    flx_dtype b = flxi_hlo_dtype(s, s->x[1]);
    if (!holds(to, a) || !holds(to, b))
        to = holds(a, b) ? a : b;
    x[0] = in_dtype(s, s->x[0], to);
    x[1] = in_dtype(s, s->x[1], to);
}

static void give(hlo_site *s, flx_val y)
{
    s->y[0] = in_dtype(s, y, flxi_hlo_carrier(flxi_hlo_result_type(s, 0)));
}

/* ---- Dot products ---- */

void flxi_hlo_import_dot_general(hlo_site *s)
{
    static const char numbers[] = "dot_dimension_numbers";
    flx_val x[2];
    flx_ints lc = flxi_hlo_member_ints(s, numbers, "lhs_contracting_dimensions");
    flx_ints rc = flxi_hlo_member_ints(s, numbers, "rhs_contracting_dimensions");
    flx_ints lb = flxi_hlo_member_ints(s, numbers, "lhs_batching_dimensions");
    flx_ints rb = flxi_hlo_member_ints(s, numbers, "rhs_batching_dimensions");
    meet(s, x);
    give(s, flx_dot_general(s->g, x[0], x[1], lc, rc, lb, rb));
}

/* Vectors and matrices: the last axis of the first with the first axis of the second. */
void flxi_hlo_import_dot(hlo_site *s)
{
    flx_val x[2];
    int rank = flxi_hlo_typeof(s, s->x[0])->rank;
    if (rank < 1 || rank > 2 || flxi_hlo_typeof(s, s->x[1])->rank < 1 || flxi_hlo_typeof(s, s->x[1])->rank > 2) {
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operands must be vectors or matrices");
        return;
    }
    meet(s, x);
    give(s, flx_dot_general(s->g, x[0], x[1], FLX_INTS(rank - 1), FLX_INTS(0), FLX_NO_INTS, FLX_NO_INTS));
}

void flxi_hlo_import_einsum(hlo_site *s)
{
    const char *equation = flxi_hlo_word(s, "einsum_config", "");
    give(s, flx_einsum(s->g, s->x, s->nx, equation));
}

/* ---- Convolutions ---- */

/* [first, second, spatial …] of one of the three, from members of dimension_numbers. */
static flx_ints axes_of(hlo_site *s, const char *first, const char *second, const char *spatial)
{
    static const char numbers[] = "dimension_numbers";
    flx_ints rest = flxi_hlo_member_ints(s, numbers, spatial);
    int64_t *v = flxi_hlo_new(s, int64_t, rest.n + 2);
    if (!v)
        return FLX_NO_INTS;
    v[0] = flxi_hlo_member_int(s, numbers, first, 0);
    v[1] = flxi_hlo_member_int(s, numbers, second, 1);
    for (size_t i = 0; i < rest.n; i++)
        v[i + 2] = rest.v[i];
    return (flx_ints){v, rest.n + 2};
}

/* Extent of n elements with d − 1 others between neighbours, as far as double counts exactly. */
static double spread(int64_t n, int64_t d)
{
    return n > 0 ? (double)(n - 1) * (double)d + 1 : 0;
}

/* Whether a window reaches beyond the padded input along some axis, so that it does not fit and the result is
   empty. */
static bool is_too_large(hlo_site *s, const flx_conv_attrs *a)
{
    const flx_type *x = flxi_hlo_typeof(s, s->x[0]);
    const flx_type *w = flxi_hlo_typeof(s, s->x[1]);
    bool beyond = false;
    for (size_t k = 0; k + 2 < a->input_axes.n; k++) {
        int64_t from = a->input_axes.v[k + 2];
        int64_t to = a->kernel_axes.n > k + 2 ? a->kernel_axes.v[k + 2] : -1;
        if (from < 0 || from >= x->rank || to < 0 || to >= w->rank || !flx_dim_is_static(x->dims[from]) ||
            !flx_dim_is_static(w->dims[to]))
            return false;
        double padding = (double)a->padding.v[2 * k] + (double)a->padding.v[2 * k + 1];
        double room = spread(x->dims[from], a->input_dilation.v[k]) + padding;
        beyond |= spread(w->dims[to], a->dilation.v[k]) > room;
    }
    return beyond;
}

static flx_val nothing(hlo_site *s)
{
    flx_type t;
    int64_t count = 1;
    if (!flxi_hlo_static_result(s, 0, &t))
        return FLX_NONE;
    for (int i = 0; i < t.rank; i++)
        count = t.dims[i] == 0 ? 0 : count;
    if (count)
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "the window is larger than the padded operand: the result must be empty");
    return flxi_hlo_fill(s, flx_scalar(s->g, (flx_dtype)t.dtype, 0), &t);
}

/* `padding`: a pair for each spatial axis. */
static void convolve(hlo_site *s, flx_ints padding)
{
    flx_val x[2];
    flx_conv_attrs a = FLX_CONV_ATTRS;
    a.input_axes = axes_of(s, "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions");
    a.kernel_axes =
        axes_of(s, "kernel_output_feature_dimension", "kernel_input_feature_dimension", "kernel_spatial_dimensions");
    a.output_axes = axes_of(s, "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions");
    size_t n = a.input_axes.n >= 2 ? a.input_axes.n - 2 : 0;
    if (padding.n != 2 * n)
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "padding has %zu numbers, but %zu spatial axes need %zu", padding.n, n,
                      2 * n);
    a.padding = padding;
    a.stride = flxi_hlo_ints_of(s, "window_strides", n, 1);
    a.input_dilation = flxi_hlo_ints_of(s, "lhs_dilation", n, 1);
    a.dilation = flxi_hlo_ints_of(s, "rhs_dilation", n, 1);
    a.reverse = flxi_hlo_ints_of(s, "window_reversal", n, 0);
    a.groups = flxi_hlo_int(s, "feature_group_count", 1);
    a.batch_groups = flxi_hlo_int(s, "batch_group_count", 1);
    meet(s, x);
    if (!flxi_hlo_failed(s))
        give(s, is_too_large(s, &a) ? nothing(s) : flx_conv_with(s->g, x[0], x[1], &a));
}

void flxi_hlo_import_convolution(hlo_site *s)
{
    size_t n = flxi_hlo_member_ints(s, "dimension_numbers", "input_spatial_dimensions").n;
    convolve(s, flxi_hlo_ints_of(s, "padding", 2 * n, 0));
}

/* Padding that depends on extents is put around the operand before the convolution, which takes numbers only. */
static void convolve_padded(hlo_site *s, flx_ints padding)
{
    flx_ints spatial = flxi_hlo_member_ints(s, "dimension_numbers", "input_spatial_dimensions");
    flx_ints dilation = flxi_hlo_ints_of(s, "lhs_dilation", spatial.n, 1);
    size_t rank = (size_t)flxi_hlo_typeof(s, s->x[0])->rank;
    int64_t *edges = flxi_hlo_new(s, int64_t, 2 * rank);
    int64_t *none = flxi_hlo_new(s, int64_t, padding.n);
    if (!edges || !none || flxi_hlo_failed(s))
        return;
    for (size_t i = 0; i < spatial.n && 2 * i + 1 < padding.n; i++) {
        if (dilation.v[i] != 1 || spatial.v[i] < 0 || (size_t)spatial.v[i] >= rank) {
            flxi_hlo_unsupported(s, "padding that depends on extents beside lhs_dilation");
            return;
        }
        edges[spatial.v[i]] = padding.v[2 * i];
        edges[rank + (size_t)spatial.v[i]] = padding.v[2 * i + 1];
    }
    flx_val zero = flxi_hlo_number(s, s->x[0], 0);
    flx_val padded = flx_pad(s->g, s->x[0], zero, (flx_ints){edges, rank}, (flx_ints){edges + rank, rank}, FLX_ALL);
    const flx_val x[2] = {padded, s->x[1]};
    hlo_site inner = *s;
    inner.x = x;
    inner.nx = 2;
    convolve(&inner, (flx_ints){none, padding.n});
}

void flxi_hlo_import_dynamic_conv(hlo_site *s)
{
    flx_ints padding;
    bool is_static = true;
    if (!flxi_hlo_extents(s, s->x[2], &padding))
        return;
    for (size_t i = 0; i < padding.n; i++)
        is_static &= flx_dim_is_static(padding.v[i]) != 0;
    if (is_static)
        convolve(s, padding);
    else
        convolve_padded(s, padding);
}
