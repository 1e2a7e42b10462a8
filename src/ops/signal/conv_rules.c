/* SPDX-License-Identifier: Apache-2.0 */
/* conv_rules.c: derivatives and batching of the convolutions.

   conv, conv_backward_input and conv_backward_weight are the three derivatives of one trilinear form T(x, w, z)
   (conv.c), so the cotangents of each are the other two, with the same geometry: derivatives of any order need no other
   op. The general form of conv (layouts, input_dilation, reverse, batch_groups) has no backward ops of its own; its
   cotangents are convs of that form. With r the part of the padded input after the last window, spans D of the spread
   input and W of the kernel, the cotangent z is spread by stride, which gives low + D + high − r − W + 1 positions, and
       d_x slides the flipped kernel, its two features exchanged, over z padded by W − 1 − low and W − 1 − high + r,
       d_w slides z, its batch being the summed feature, over x padded by low and high − r.
   Feature groups become batch groups in d_w and the other way round. In complex dtypes the other operand is conjugated.

   Batching folds the batch axis into an axis the form already has: into the batch where only activations are batched,
   into the features of one operand and the result where only it is, and into the groups where both are. */
#include "ops/signal/conv.h"

#include "graph/op/site.h"
#include "ops/rule/rule_lists.h"

/* ---- Axes ---- */

/* [.., n·d, ..] to [.., n, d, ..] */
static flx_val split_axis(flxi_site *s, flx_val v, int axis, flx_dim n)
{
    flx_dim dims[FLX_MAX_RANK + 1];
    flx_type t = *flxi_typeof(s, v);
    for (int k = 0; k <= t.rank; k++)
        dims[k] = k < axis ? t.dims[k] : k == axis ? n : t.dims[k - 1];
    dims[axis + 1] = flx_dim_div(s->ctx, t.dims[axis], n);
    return flxi_reshape_to(s, v, t.rank + 1, dims);
}

/* `count` axes from `axis` on become one. */
static flx_val join_axes(flxi_site *s, flx_val v, int axis, int count)
{
    flx_dim dims[FLX_MAX_RANK];
    flx_type t = *flxi_typeof(s, v);
    int rank = 0;
    for (int k = 0; k < t.rank; k++)
        if (k > axis && k < axis + count)
            dims[axis] = flx_dim_mul(s->ctx, dims[axis], t.dims[k]);
        else
            dims[rank++] = t.dims[k];
    return flxi_reshape_to(s, v, rank, dims);
}

/* [.., n·a, .., b, ..] to [.., a, .., n·b, ..]: the factor n moves from the front of one axis to that of another. */
static flx_val move_factor(flxi_site *s, flx_val v, int from, int to, flx_dim n)
{
    return n == 1 ? v : join_axes(s, flxi_move_axis(s, split_axis(s, v, from, n), from, to), to, 2);
}

/* ---- Cotangents in the plain geometry ---- */

/* The extents after the two axes for batch and features. */
static flx_ints spatial_dims(const flx_type *t)
{
    return (flx_ints){t->dims + 2, (size_t)t->rank - 2};
}

static flx_val conv_plain(flxi_site *s, flx_val x, flx_val w)
{
    const flxi_conv_common *a = s->attrs;
    flx_conv_attrs to = FLX_CONV_ATTRS;
    to.stride = a->stride;
    to.padding = a->padding;
    to.dilation = a->dilation;
    to.groups = a->groups;
    return flx_conv_with(s->g, x, w, &to);
}

/* ∂T/∂x, with the spatial extents `size` */
static flx_val conv_to_input(flxi_site *s, flx_val z, flx_val w, flx_ints size)
{
    const flxi_conv_common *a = s->attrs;
    flx_conv_backward_input_attrs to = {sizeof to, size, a->stride, a->padding, a->dilation, a->groups};
    return flx_conv_backward_input_with(s->g, z, w, &to);
}

/* ∂T/∂w, with the spatial extents of `like` */
static flx_val conv_to_weight(flxi_site *s, flx_val x, flx_val z, flx_val like)
{
    const flxi_conv_common *a = s->attrs;
    flx_conv_backward_weight_attrs to = {
        sizeof to, spatial_dims(flxi_typeof(s, like)), a->stride, a->padding, a->dilation, a->groups};
    return flx_conv_backward_weight_with(s->g, x, z, &to);
}

void flxi_vjp_conv_to_input(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val z = s->x[0];
    flx_val w = s->x[1];
    if (s->wanted[0])
        dx[0] = flxi_reshape_like(s, conv_plain(s, dy[0], flxi_conj(s, w)), flxi_typeof(s, z));
    if (s->wanted[1])
        dx[1] = conv_to_weight(s, dy[0], flxi_conj(s, z), w);
}

void flxi_vjp_conv_to_weight(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val x = s->x[0];
    flx_val z = s->x[1];
    if (s->wanted[0])
        dx[0] = conv_to_input(s, flxi_conj(s, z), dy[0], spatial_dims(flxi_typeof(s, x)));
    if (s->wanted[1])
        dx[1] = flxi_reshape_like(s, conv_plain(s, flxi_conj(s, x), dy[0]), flxi_typeof(s, z));
}

/* ---- Cotangents in the general geometry ---- */

typedef struct {
    flx_type x, w;
    size_t spatial;
    flx_dim pad_x[2 * FLX_MAX_RANK]; /* paddings for d_x and d_w */
    flx_dim pad_w[2 * FLX_MAX_RANK];
    bool empty; /* a factor has an empty spatial axis: then all sums are empty */
} general;

static general general_form(flxi_site *s, const flx_type *z)
{
    const flxi_conv_attrs *a = s->attrs;
    flx_context *ctx = s->ctx;
    general f = {.x = *flxi_typeof(s, s->x[0]), .w = *flxi_typeof(s, s->x[1])};
    f.spatial = (size_t)f.x.rank - 2;
    for (size_t k = 0; k < f.spatial; k++) {
        flx_dim window = f.w.dims[a->kernel_axes.v[k + 2]];
        flxi_slide m = flxi_conv_slide(&a->common, k, f.x.dims[a->input_axes.v[k + 2]], window);
        m.base_dilation = a->input_dilation.v[k];
        f.empty |= m.extent == 0 || window == 0;
        flx_dim last = flx_dim_sub(ctx, z->dims[a->output_axes.v[k + 2]], 1);
        flx_dim r = flx_dim_sub(ctx, flxi_slide_room(ctx, &m), flx_dim_mul(ctx, last, m.stride));
        flx_dim reach = flx_dim_sub(ctx, flxi_dilated(ctx, window, m.dilation), 1);
        f.pad_x[2 * k] = flx_dim_sub(ctx, reach, m.low);
        f.pad_x[2 * k + 1] = flx_dim_add(ctx, flx_dim_sub(ctx, reach, m.high), r);
        f.pad_w[2 * k] = m.low;
        f.pad_w[2 * k + 1] = flx_dim_sub(ctx, m.high, r);
    }
    return f;
}

/* The axes in their parts, the first two exchanged. */
static flx_ints exchanged(flx_ints axes, int64_t *own)
{
    for (size_t k = 0; k < axes.n; k++)
        own[k] = axes.v[k < 2 ? 1 - k : k];
    return (flx_ints){own, axes.n};
}

/* v spread and padded along its spatial axes by the op pad. */
static flx_val pad_spatial(flxi_site *s, flx_val v, const flx_conv_attrs *a)
{
    flx_dim low[FLX_MAX_RANK] = {0};
    flx_dim high[FLX_MAX_RANK] = {0};
    int64_t interior[FLX_MAX_RANK] = {0};
    size_t rank = a->input_axes.n;
    for (size_t k = 2; k < rank; k++) {
        int64_t axis = a->input_axes.v[k];
        low[axis] = a->padding.v[2 * (k - 2)];
        high[axis] = a->padding.v[2 * (k - 2) + 1];
        interior[axis] = a->input_dilation.v[k - 2] - 1;
    }
    return flx_pad(s->g, v, flxi_number(s, v, 0.0), (flx_ints){low, rank}, (flx_ints){high, rank},
                   (flx_ints){interior, rank});
}

/* conv, whose padding may depend on symbols: then the op pad pads. */
static flx_val conv_general(flxi_site *s, flx_val x, flx_val w, const flx_conv_attrs *a)
{
    flx_conv_attrs bare = *a;
    bool numbers = true;
    for (size_t k = 0; k < a->padding.n; k++)
        numbers = numbers && flxi_dim_is_number(a->padding.v[k]);
    if (numbers)
        return flx_conv_with(s->g, x, w, a);
    bare.padding = bare.input_dilation = (flx_ints){NULL, 0};
    return flx_conv_with(s->g, pad_spatial(s, x, a), w, &bare);
}

static flx_val general_to_input(flxi_site *s, const general *f, flx_val dy)
{
    const flxi_conv_attrs *a = s->attrs;
    int64_t kernel_axes[FLX_MAX_RANK];
    int64_t flipped[FLX_MAX_RANK];
    flx_dim groups = flx_dim_mul(s->ctx, a->common.groups, a->batch_groups); /* one of them is 1 */
    for (size_t k = 0; k < f->spatial; k++)
        flipped[k] = !a->reverse.v[k];
    flx_conv_attrs to = {
        .struct_size = sizeof to,
        .stride = a->input_dilation,
        .padding = {f->pad_x, 2 * f->spatial},
        .dilation = a->common.dilation,
        .groups = groups,
        .input_dilation = a->common.stride,
        .batch_groups = 1,
        .reverse = {flipped, f->spatial},
        .input_axes = a->output_axes,
        .kernel_axes = exchanged(a->kernel_axes, kernel_axes),
        .output_axes = a->input_axes,
    };
    flx_val w = move_factor(s, flxi_conj(s, s->x[1]), (int)a->kernel_axes.v[0], (int)a->kernel_axes.v[1], groups);
    flx_val x = conv_general(s, dy, w, &to);
    x = move_factor(s, x, (int)a->input_axes.v[1], (int)a->input_axes.v[0], a->batch_groups);
    return flxi_reshape_like(s, x, &f->x);
}

static flx_val general_to_weight(flxi_site *s, const general *f, flx_val dy)
{
    const flxi_conv_attrs *a = s->attrs;
    int64_t input_axes[FLX_MAX_RANK];
    int64_t kernel_axes[FLX_MAX_RANK];
    int64_t output_axes[FLX_MAX_RANK];
    int64_t flipped[FLX_MAX_RANK];
    size_t n = 0;
    flx_conv_attrs to = {
        .struct_size = sizeof to,
        .stride = a->common.dilation,
        .padding = {f->pad_w, 2 * f->spatial},
        .dilation = a->common.stride,
        .groups = a->batch_groups,
        .input_dilation = a->input_dilation,
        .batch_groups = a->common.groups,
        .input_axes = exchanged(a->input_axes, input_axes),
        .kernel_axes = exchanged(a->output_axes, kernel_axes),
        .output_axes = exchanged(a->kernel_axes, output_axes),
    };
    flx_val w = flxi_reshape_like(s, conv_general(s, flxi_conj(s, s->x[0]), dy, &to), &f->w);
    for (size_t k = 0; k < f->spatial; k++)
        if (a->reverse.v[k])
            flipped[n++] = a->kernel_axes.v[k + 2];
    return n ? flx_reverse(s->g, w, (flx_ints){flipped, n}) : w;
}

static bool is_plain(const flxi_conv_attrs *a)
{
    bool plain = a->batch_groups == 1;
    for (size_t k = 0; k < a->input_dilation.n; k++)
        plain = plain && a->input_dilation.v[k] == 1 && !a->reverse.v[k];
    for (size_t k = 0; k < a->input_axes.n; k++)
        plain = plain && a->input_axes.v[k] == (int64_t)k && a->kernel_axes.v[k] == (int64_t)k &&
                a->output_axes.v[k] == (int64_t)k;
    return plain;
}

void flxi_vjp_conv(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val x = s->x[0];
    flx_val w = s->x[1];
    bool plain = is_plain(s->attrs);
    general f = {0};
    if (!plain)
        f = general_form(s, flxi_typeof(s, dy[0]));
    if (s->wanted[0] && plain)
        dx[0] = conv_to_input(s, dy[0], flxi_conj(s, w), spatial_dims(flxi_typeof(s, x)));
    else if (s->wanted[0] && !f.empty)
        dx[0] = general_to_input(s, &f, dy[0]);
    if (s->wanted[1] && plain)
        dx[1] = conv_to_weight(s, flxi_conj(s, x), dy[0], w);
    else if (s->wanted[1] && !f.empty)
        dx[1] = general_to_weight(s, &f, dy[0]);
}

/* ---- conv_transpose ---- */

void flxi_decompose_conv_transpose(flxi_site *s, flx_val *y)
{
    flx_dim size[FLX_MAX_RANK] = {0};
    const flxi_conv_transpose_attrs *a = s->attrs;
    flx_type x = *flxi_typeof(s, s->x[0]);
    const flx_type *w = flxi_typeof(s, s->x[1]);
    for (int k = 2; k < x.rank; k++)
        size[k - 2] = flxi_conv_transposed_extent(s->ctx, a, (size_t)k - 2, x.dims[k], w->dims[k]);
    y[0] = conv_to_input(s, s->x[0], s->x[1], (flx_ints){size, (size_t)x.rank - 2});
}

/* ---- Batching ---- */

/* Where a batch of B goes: axis `axis`, of extent n, becomes one of extent parts·B·(n / parts). */
typedef struct {
    int64_t axis;
    flx_dim parts;
} axis_part;

/* [B, .., n, ..] to [.., parts·B·(n / parts), ..] */
static flx_val fold_batch(flxi_site *s, flx_val v, axis_part p)
{
    int axis = (int)p.axis;
    if (p.parts == 1)
        return join_axes(s, flxi_move_axis(s, v, 0, axis), axis, 2);
    return join_axes(s, flxi_move_axis(s, split_axis(s, v, axis + 1, p.parts), 0, axis + 1), axis, 3);
}

/* The inverse, to the batch of examples of this type. */
static flx_val unfold_batch(flxi_site *s, flx_val v, axis_part p, const flx_type *example)
{
    flx_dim dims[FLX_MAX_RANK + 2];
    int axis = (int)p.axis;
    int rank = 0;
    int at = 0; /* of the batch */
    for (int k = 0; k < example->rank; k++) {
        if (k == axis && p.parts != 1)
            dims[rank++] = p.parts;
        if (k == axis)
            dims[at = rank++] = s->size;
        dims[rank++] = k == axis ? flx_dim_div(s->ctx, example->dims[k], p.parts) : example->dims[k];
    }
    v = flxi_move_axis(s, flxi_reshape_to(s, v, rank, dims), at, 0);
    dims[0] = s->size;
    memcpy(dims + 1, example->dims, (size_t)example->rank * sizeof *dims);
    return flxi_reshape_to(s, v, example->rank + 1, dims);
}

/* The type of the result for one example. */
static bool example_result(flxi_site *s, flx_type *y)
{
    flx_type x[2];
    uint32_t n = 1;
    flx_error err = {0};
    void *attrs = flxi_site_attrs(s);
    for (uint32_t i = 0; i < 2; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        x[i] = s->batched[i] ? flx_type_make((flx_dtype)t->dtype, t->rank - 1, t->dims + 1) : *t;
    }
    if (s->g->error.code)
        return false;
    if (flxi_infer_node(s->g, (flxi_opcode)(s->op - flxi_ops), (const flx_type *const[]){&x[0], &x[1]}, 2, attrs, &y,
                        &n, &err) != FLX_OK)
        flxi_graph_fail(s->g, &err);
    return !s->g->error.code;
}

/* Folds the batch into the given axes of the batched operands, and splits it off in the result. */
static void batch_folded(flxi_site *s, void *attrs, axis_part a, axis_part b, axis_part result, flx_val *by)
{
    flx_type y;
    if (!example_result(s, &y))
        return;
    if (s->size == 0) { /* the number of groups cannot be 0 */
        flx_dim dims[FLX_MAX_RANK + 1] = {0};
        memcpy(dims + 1, y.dims, (size_t)y.rank * sizeof *dims);
        flx_type none = flx_type_make((flx_dtype)y.dtype, y.rank + 1, dims);
        by[0] = flxi_zeros(s, &none);
        return;
    }
    flx_val x[2] = {s->x[0], s->x[1]};
    if (s->batched[0])
        x[0] = fold_batch(s, x[0], a);
    if (s->batched[1])
        x[1] = fold_batch(s, x[1], b);
    flx_val folded = flxi_emit1(s, attrs, x, 2);
    by[0] = unfold_batch(s, folded, result, &y);
}

void flxi_batch_conv(flxi_site *s, flx_val *by)
{
    flxi_conv_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    axis_part batch = {a->input_axes.v[0], a->batch_groups};
    axis_part features = {a->kernel_axes.v[0], flx_dim_mul(s->ctx, a->common.groups, a->batch_groups)};
    if (!s->batched[1]) {
        batch_folded(s, a, batch, features, (axis_part){a->output_axes.v[0], 1}, by);
    } else if (!s->batched[0]) {
        batch_folded(s, a, batch, features, (axis_part){a->output_axes.v[1], features.parts}, by);
    } else {
        bool in_batch = a->batch_groups != 1;
        flx_dim *groups = in_batch ? &a->batch_groups : &a->common.groups;
        *groups = flx_dim_mul(s->ctx, *groups, s->size);
        batch_folded(s, a, (axis_part){a->input_axes.v[in_batch ? 0 : 1], 1}, (axis_part){a->kernel_axes.v[0], 1},
                     (axis_part){a->output_axes.v[1], 1}, by);
    }
}

/* z [N, Cout, O…] and w [Cout, Cin/groups, K…] to x [N, Cin, S…] */
void flxi_batch_conv_to_input(flxi_site *s, flx_val *by)
{
    flxi_conv_common *a = flxi_site_attrs(s);
    if (!a)
        return;
    if (!s->batched[1]) {
        batch_folded(s, a, (axis_part){0, 1}, (axis_part){0, 1}, (axis_part){0, 1}, by);
    } else if (!s->batched[0]) {
        batch_folded(s, a, (axis_part){0, 1}, (axis_part){1, 1}, (axis_part){1, a->groups}, by);
    } else {
        a->groups = flx_dim_mul(s->ctx, a->groups, s->size);
        batch_folded(s, a, (axis_part){1, 1}, (axis_part){0, 1}, (axis_part){1, 1}, by);
    }
}

/* x [N, Cin, S…] and z [N, Cout, O…] to w [Cout, Cin/groups, K…]; N is summed over, so the batch must not be folded
   into N. */
void flxi_batch_conv_to_weight(flxi_site *s, flx_val *by)
{
    flxi_conv_common *a = flxi_site_attrs(s);
    if (!a)
        return;
    if (!s->batched[1]) {
        batch_folded(s, a, (axis_part){1, a->groups}, (axis_part){1, 1}, (axis_part){1, 1}, by);
    } else if (!s->batched[0]) {
        batch_folded(s, a, (axis_part){1, 1}, (axis_part){1, a->groups}, (axis_part){0, a->groups}, by);
    } else {
        a->groups = flx_dim_mul(s->ctx, a->groups, s->size);
        batch_folded(s, a, (axis_part){1, 1}, (axis_part){1, 1}, (axis_part){0, 1}, by);
    }
}
