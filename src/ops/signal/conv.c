/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c: convolutions of any spatial rank.

   All four ops come from one trilinear form (docs/numerics.md, "Convolution and pooling"),
       T(x, w, z) = Σ z[n, c, o] · w[c, i, k] · x[n', i', o·stride + k·dilation − low]
   over output batch n, output feature c, output position o, kernel position k and the input features i of c's group:
   conv is ∂T/∂z, conv_backward_input and conv_transpose are ∂T/∂x, conv_backward_weight is ∂T/∂w. So there is one
   geometry, one walk over the terms, and three choices of which factor is the result. Each term is visited once, in
   row-major order of (n, c, o) and then (i, k); sums follow "Sums and products". Cross-correlation: the kernel is not
   flipped unless `reverse` says so. */
#include "ops/signal/conv.h"

#include "graph/op/work.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"
#include "ops/rule/wide.h"

/* ---- Attributes ---- */

static const flxi_attr conv_schema[] = {FLXI_CONV_ROWS, A_END};
static const flxi_attr backward_input_schema[] = {
    A_DIMS_REQ(flxi_conv_backward_input_attrs, input_size),
    FLXI_CONV_COMMON_ROWS,
    A_END,
};
static const flxi_attr backward_weight_schema[] = {
    A_DIMS_REQ(flxi_conv_backward_weight_attrs, kernel_size),
    FLXI_CONV_COMMON_ROWS,
    A_END,
};
static const flxi_attr transpose_schema[] = {
    FLXI_CONV_COMMON_ROWS,
    A_INTS(flxi_conv_transpose_attrs, output_padding, "all 0"),
    A_END,
};

/* ---- Inference ---- */

/* Both operands have the same rank of at least 2; *spatial receives the number of spatial axes. */
static flx_code need_conv_ranks(flxi_infer *f, size_t *spatial)
{
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    if (f->in[0]->rank != f->in[1]->rank) {
        char a[32];
        char b[32];
        flxi_type_text ta;
        flxi_type_text tb;
        return flxi_infer_fail(f, FLX_E_SHAPE, "both have two axes for batch and features, then the spatial ones",
                               "ranks differ: %s is %s, %s is %s", flxi_operand_name(f, 0, a, sizeof a),
                               flxi_shape_str(f->ctx, f->in[0], &ta), flxi_operand_name(f, 1, b, sizeof b),
                               flxi_shape_str(f->ctx, f->in[1], &tb));
    }
    *spatial = (size_t)f->in[0]->rank - 2;
    return FLX_OK;
}

static flx_code norm_groups(flxi_infer *f, const char *name, flx_dim groups)
{
    if (!flxi_dim_is_number(groups) || groups >= 1)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "%s must be at least 1, got %lld", name, (long long)groups);
}

static flx_code norm_common(flxi_infer *f, flxi_conv_common *a, size_t spatial)
{
    FLXI_TRY(flxi_norm_sizes(f, "stride", &a->stride, spatial, 1, 1));
    FLXI_TRY(flxi_norm_padding(f, &a->padding, spatial));
    FLXI_TRY(flxi_norm_sizes(f, "dilation", &a->dilation, spatial, 1, 1));
    return norm_groups(f, "groups", a->groups);
}

/* A permutation of all axes: which of them are batch, feature and spatial. */
static flx_code norm_layout(flxi_infer *f, const char *name, flx_ints *axes, int rank)
{
    if (axes->v && axes->n != (size_t)rank)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "two axes for batch and features, then the spatial ones",
                               "%s has %zu entries for rank %d", name, axes->n, rank);
    return flxi_norm_axes(f, name, axes, rank, false);
}

/* `part` divides `whole`, as far as is known. */
static flx_code need_divisible(flxi_infer *f, const char *what, flx_dim whole, const char *name, flx_dim part)
{
    if (!flxi_dim_is_number(whole) || !flxi_dim_is_number(part) || whole % part == 0)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must divide the number of %s: %s is %lld, there are %lld", name,
                           what, name, (long long)part, (long long)whole);
}

/* The input has `groups` times the features that the kernel takes. */
static flx_code need_features(flxi_infer *f, flx_dim features, flx_dim per_group, flx_dim groups)
{
    if (flxi_dims_may_equal(f, features, flx_dim_mul(f->ctx, per_group, groups)))
        return FLX_OK;
    flxi_dim_text a;
    flxi_dim_text b;
    flxi_dim_text c;
    return flxi_infer_fail(f, FLX_E_SHAPE, "the kernel is [output features, input features / groups, spatial...]",
                           "input features differ: the input has %s, the kernel takes %s in each of groups=%s",
                           flxi_dim_str(f->ctx, features, &a), flxi_dim_str(f->ctx, per_group, &b),
                           flxi_dim_str(f->ctx, groups, &c));
}

flxi_slide flxi_conv_slide(const flxi_conv_common *a, size_t k, flx_dim extent, flx_dim window)
{
    return (flxi_slide){
        .extent = extent,
        .low = a->padding.v[2 * k],
        .high = a->padding.v[2 * k + 1],
        .window = window,
        .stride = a->stride.v[k],
        .base_dilation = 1,
        .dilation = a->dilation.v[k],
    };
}

flxi_conv_factor flxi_conv_factor_of(const flx_type *t, const flx_ints *axes)
{
    flxi_conv_factor f = {0};
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (int k = 0; k < t->rank; k++) {
        int64_t axis = axes ? axes->v[k] : k;
        f.dims[k] = t->dims[axis];
        f.steps[k] = strides[axis];
    }
    if (t->rank == 2)
        f.dims[2] = 1;
    return f;
}

static flx_code norm_conv(flxi_infer *f, flxi_conv_attrs *a, size_t spatial)
{
    int rank = f->in[0]->rank;
    FLXI_TRY(norm_common(f, &a->common, spatial));
    FLXI_TRY(flxi_norm_sizes(f, "input_dilation", &a->input_dilation, spatial, 1, 1));
    FLXI_TRY(flxi_norm_list(f, "reverse", &a->reverse, spatial, 0));
    FLXI_TRY(norm_groups(f, "batch_groups", a->batch_groups));
    if (a->common.groups != 1 && a->batch_groups != 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "at most one of groups and batch_groups may exceed 1");
    FLXI_TRY(norm_layout(f, "input_axes", &a->input_axes, rank));
    FLXI_TRY(norm_layout(f, "kernel_axes", &a->kernel_axes, rank));
    return norm_layout(f, "output_axes", &a->output_axes, rank);
}

flx_code flxi_infer_conv(flxi_infer *f)
{
    flxi_conv_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *w = f->in[1];
    size_t spatial;
    FLXI_TRY(need_conv_ranks(f, &spatial));
    FLXI_TRY(norm_conv(f, a, spatial));

    const int64_t *in = a->input_axes.v;
    const int64_t *ker = a->kernel_axes.v;
    const int64_t *to = a->output_axes.v;
    flx_dim batch = x->dims[in[0]];
    flx_dim features = w->dims[ker[0]];
    FLXI_TRY(need_features(f, x->dims[in[1]], w->dims[ker[1]], a->common.groups));
    FLXI_TRY(need_divisible(f, "output features", features, "groups", a->common.groups));
    FLXI_TRY(need_divisible(f, "output features", features, "batch_groups", a->batch_groups));
    FLXI_TRY(need_divisible(f, "examples", batch, "batch_groups", a->batch_groups));

    flx_type *z = &f->out[0];
    *z = (flx_type){.dtype = x->dtype, .rank = x->rank};
    z->dims[to[0]] = a->batch_groups == 1 ? batch : flx_dim_div(f->ctx, batch, a->batch_groups);
    z->dims[to[1]] = features;
    for (size_t k = 0; k < spatial; k++) {
        flxi_slide s = flxi_conv_slide(&a->common, k, x->dims[in[k + 2]], w->dims[ker[k + 2]]);
        s.base_dilation = a->input_dilation.v[k];
        FLXI_TRY(flxi_slide_fit(f, k, &s, &z->dims[to[k + 2]]));
    }
    return FLX_OK;
}

/* A convolution of `extent` with `window` has as many positions along spatial axis k as operand `from`. */
static flx_code need_positions(flxi_infer *f, size_t k, flxi_slide s, uint32_t from)
{
    flx_dim count;
    FLXI_TRY(flxi_slide_fit(f, k, &s, &count));
    flx_dim shown = f->in[from]->dims[k + 2];
    if (flxi_dims_may_equal(f, count, shown))
        return FLX_OK;
    char name[32];
    flxi_dim_text a;
    flxi_dim_text b;
    return flxi_infer_fail(f, FLX_E_SHAPE, "give the attributes of the forward conv",
                           "along spatial axis %zu the convolution has %s positions, but %s has %s", k,
                           flxi_dim_str(f->ctx, count, &a), flxi_operand_name(f, from, name, sizeof name),
                           flxi_dim_str(f->ctx, shown, &b));
}

/* Operand 0, z [N, Cout, O…], and w [Cout, Cin/groups, K…] agree in Cout. */
static flx_code need_output_features(flxi_infer *f, const flx_type *z, const flx_type *w, flx_dim groups)
{
    if (flxi_dims_may_equal(f, z->dims[1], w->dims[0]))
        return need_divisible(f, "features", w->dims[0], "groups", groups);
    char name[32];
    flxi_type_text tz;
    flxi_type_text tw;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "axis 1 of %s and axis 0 of w differ: %s is %s, w is %s",
                           flxi_operand_name(f, 0, name, sizeof name), name, flxi_shape_str(f->ctx, z, &tz),
                           flxi_shape_str(f->ctx, w, &tw));
}

static flx_code infer_backward_input(flxi_infer *f)
{
    flxi_conv_backward_input_attrs *a = f->attrs;
    const flx_type *z = f->in[0];
    const flx_type *w = f->in[1];
    size_t spatial;
    FLXI_TRY(need_conv_ranks(f, &spatial));
    FLXI_TRY(norm_common(f, &a->common, spatial));
    FLXI_TRY(flxi_norm_sizes(f, "input_size", &a->input_size, spatial, 0, 0));
    FLXI_TRY(need_output_features(f, z, w, a->common.groups));

    flx_type *x = &f->out[0];
    *x = (flx_type){.dtype = z->dtype, .rank = z->rank};
    x->dims[0] = z->dims[0];
    x->dims[1] = flx_dim_mul(f->ctx, w->dims[1], a->common.groups);
    for (size_t k = 0; k < spatial; k++) {
        x->dims[k + 2] = a->input_size.v[k];
        FLXI_TRY(need_positions(f, k, flxi_conv_slide(&a->common, k, a->input_size.v[k], w->dims[k + 2]), 0));
    }
    return FLX_OK;
}

static flx_code infer_backward_weight(flxi_infer *f)
{
    flxi_conv_backward_weight_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *z = f->in[1];
    size_t spatial;
    FLXI_TRY(need_conv_ranks(f, &spatial));
    FLXI_TRY(norm_common(f, &a->common, spatial));
    FLXI_TRY(flxi_norm_sizes(f, "kernel_size", &a->kernel_size, spatial, 0, 0));
    FLXI_TRY(need_divisible(f, "input features", x->dims[1], "groups", a->common.groups));
    FLXI_TRY(need_divisible(f, "output features", z->dims[1], "groups", a->common.groups));
    if (!flxi_dims_may_equal(f, x->dims[0], z->dims[0])) {
        flxi_type_text tx;
        flxi_type_text tz;
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "batch extents differ: x is %s, z is %s",
                               flxi_shape_str(f->ctx, x, &tx), flxi_shape_str(f->ctx, z, &tz));
    }

    flx_type *w = &f->out[0];
    *w = (flx_type){.dtype = x->dtype, .rank = x->rank};
    w->dims[0] = z->dims[1];
    w->dims[1] = flx_dim_div(f->ctx, x->dims[1], a->common.groups);
    for (size_t k = 0; k < spatial; k++) {
        w->dims[k + 2] = a->kernel_size.v[k];
        FLXI_TRY(need_positions(f, k, flxi_conv_slide(&a->common, k, x->dims[k + 2], a->kernel_size.v[k]), 1));
    }
    return FLX_OK;
}

/* (S−1)·stride − low − high + (K−1)·dilation + output_padding + 1, in signed arithmetic */
flx_dim flxi_conv_transposed_extent(flx_context *ctx, const flxi_conv_transpose_attrs *a, size_t k, flx_dim extent,
                                    flx_dim window)
{
    const flxi_conv_common *c = &a->common;
    flx_dim reach = flx_dim_mul(ctx, flx_dim_sub(ctx, extent, 1), c->stride.v[k]);
    flx_dim taps = flx_dim_mul(ctx, flx_dim_sub(ctx, window, 1), c->dilation.v[k]);
    flx_dim crop = flx_dim_add(ctx, c->padding.v[2 * k], c->padding.v[2 * k + 1]);
    flx_dim grown = flx_dim_add(ctx, flx_dim_sub(ctx, flx_dim_add(ctx, reach, taps), crop), a->output_padding.v[k]);
    return flx_dim_add(ctx, grown, 1);
}

static flx_code infer_transpose(flxi_infer *f)
{
    flxi_conv_transpose_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *w = f->in[1];
    size_t spatial;
    FLXI_TRY(need_conv_ranks(f, &spatial));
    FLXI_TRY(norm_common(f, &a->common, spatial));
    FLXI_TRY(flxi_norm_sizes(f, "output_padding", &a->output_padding, spatial, 0, 0));
    FLXI_TRY(need_output_features(f, x, w, a->common.groups));

    flx_type *y = &f->out[0];
    *y = (flx_type){.dtype = x->dtype, .rank = x->rank};
    y->dims[0] = x->dims[0];
    y->dims[1] = flx_dim_mul(f->ctx, w->dims[1], a->common.groups);
    for (size_t k = 0; k < spatial; k++) {
        if (a->output_padding.v[k] >= a->common.stride.v[k])
            return flxi_infer_fail(
                f, FLX_E_ATTRIBUTE, "it chooses among the extents that share one convolved extent",
                "output_padding must be less than stride: along spatial axis %zu they are %lld and %lld", k,
                (long long)a->output_padding.v[k], (long long)a->common.stride.v[k]);
        flx_dim extent = flxi_conv_transposed_extent(f->ctx, a, k, x->dims[k + 2], w->dims[k + 2]);
        if (extent != FLX_DIM_INVALID && flxi_dim_below(f->ctx, extent, 1))
            return flxi_infer_fail(f, FLX_E_SHAPE, "use a smaller padding",
                                   "the result would have extent %lld along axis %zu", (long long)extent, k + 2);
        y->dims[k + 2] = extent;
    }
    return FLX_OK;
}

/* ---- Evaluation ---- */

enum { FACTOR_X, FACTOR_W, FACTOR_Z, FACTORS };

typedef struct {
    int spatial;
    int64_t batch;                   /* of z */
    int64_t features, per_group;     /* of z; of x in one group */
    int64_t features_in_group;       /* of z */
    int64_t features_in_batch_group; /* of z */
    flx_dim outer[FLX_MAX_RANK];     /* batch, features, positions: the loop over z */
    flx_dim inner[FLX_MAX_RANK];     /* features of a group, taps: the loop over a kernel */
    flxi_slide slide[FLX_MAX_RANK];  /* per spatial axis */
    bool reverse[FLX_MAX_RANK];
    int64_t step[FACTORS][FLX_MAX_RANK]; /* strides by part: batch or output feature, feature, spatial */
} trilinear;

/* Strides of `t` by part; axes NULL: parts are in order. */
static void strides_by_part(const flx_type *t, const int64_t *axes, int64_t *step)
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (int k = 0; k < t->rank; k++)
        step[k] = strides[axes ? axes[k] : k];
}

/* The form for tensors in the default layout. */
static trilinear plain_form(const flxi_conv_common *a, const flx_type *x, const flx_type *w, const flx_type *z)
{
    trilinear t = {.spatial = x->rank - 2, .batch = z->dims[0], .features = z->dims[1], .per_group = w->dims[1]};
    t.features_in_group = t.features / a->groups;
    t.features_in_batch_group = t.features;
    t.outer[0] = t.batch;
    t.outer[1] = t.features;
    t.inner[0] = t.per_group;
    for (int k = 0; k < t.spatial; k++) {
        t.slide[k] = flxi_conv_slide(a, (size_t)k, x->dims[k + 2], w->dims[k + 2]);
        t.outer[k + 2] = z->dims[k + 2];
        t.inner[k + 1] = w->dims[k + 2];
    }
    strides_by_part(x, NULL, t.step[FACTOR_X]);
    strides_by_part(w, NULL, t.step[FACTOR_W]);
    strides_by_part(z, NULL, t.step[FACTOR_Z]);
    return t;
}

/* Elements of the three factors in the term of output position o and tap k; false in the padding. */
static bool locate(const trilinear *t, const int64_t *o, const int64_t *k, int64_t at[FACTORS])
{
    int64_t group = o[1] / t->features_in_group;
    int64_t batch_group = o[1] / t->features_in_batch_group;
    at[FACTOR_X] =
        (batch_group * t->batch + o[0]) * t->step[FACTOR_X][0] + (group * t->per_group + k[0]) * t->step[FACTOR_X][1];
    at[FACTOR_W] = o[1] * t->step[FACTOR_W][0] + k[0] * t->step[FACTOR_W][1];
    at[FACTOR_Z] = flxi_offset(o, t->step[FACTOR_Z], t->spatial + 2);
    for (int i = 0; i < t->spatial; i++) {
        int64_t p = flxi_slide_at(&t->slide[i], o[i + 2], k[i + 1]);
        if (p < 0)
            return false;
        int64_t tap = t->reverse[i] ? t->inner[i + 1] - 1 - k[i + 1] : k[i + 1];
        at[FACTOR_X] += p * t->step[FACTOR_X][i + 2];
        at[FACTOR_W] += tap * t->step[FACTOR_W][i + 2];
    }
    return true;
}

static bool has_terms(const trilinear *t)
{
    for (int k = 0; k < t->spatial + 2; k++)
        if (t->outer[k] == 0)
            return false;
    for (int k = 0; k < t->spatial + 1; k++)
        if (t->inner[k] == 0)
            return false;
    return true;
}

/* sum[element of factor `target`] += product of the other two factors, over all terms. */
static void add_terms(const trilinear *t, const flxi_arith *ar, const void *const data[FACTORS], int target,
                      flxi_num *sum)
{
    int a = target == FACTOR_X ? FACTOR_W : FACTOR_X;
    int b = target == FACTOR_Z ? FACTOR_W : FACTOR_Z;
    int64_t o[FLX_MAX_RANK] = {0};
    do {
        int64_t k[FLX_MAX_RANK] = {0};
        do {
            int64_t at[FACTORS];
            if (!locate(t, o, k, at))
                continue;
            flxi_num term = ar->mul(ar->load(data[a], at[a]), ar->load(data[b], at[b]));
            sum[at[target]] = ar->accumulate(sum[at[target]], term);
        } while (flxi_next(k, t->inner, t->spatial + 1));
    } while (flxi_next(o, t->outer, t->spatial + 2));
}

/* The derivative of the form with respect to factor `target`; the other two have the given data. */
static flx_code contract(flxi_eval *e, const trilinear *t, const void *const data[FACTORS], int target)
{
    const flxi_arith *ar = flxi_arith_of(e->out[0]->type.dtype);
    if (e->out[0]->count == 0 || !has_terms(t))
        return FLX_OK; /* results are zeroed before */
    flxi_num *sum = flxi_wide_begin(e, ar->zero);
    if (!sum)
        return FLX_E_OOM;
    add_terms(t, ar, data, target, sum);
    return flxi_wide_end(e, sum, FLX_OK);
}

/* A type with its axes in the order of their parts. */
static flx_type by_part(const flx_type *t, const int64_t *axes)
{
    flx_type p = {.dtype = t->dtype, .rank = t->rank};
    for (int k = 0; k < t->rank; k++)
        p.dims[k] = t->dims[axes[k]];
    return p;
}

static flx_code eval_conv(flxi_eval *e)
{
    const flxi_conv_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    const flx_tensor *w = e->in[1];
    flx_tensor *z = e->out[0];
    flx_type tx = by_part(&x->type, a->input_axes.v);
    flx_type tw = by_part(&w->type, a->kernel_axes.v);
    flx_type tz = by_part(&z->type, a->output_axes.v);
    trilinear t = plain_form(&a->common, &tx, &tw, &tz);
    t.features_in_batch_group = t.features / a->batch_groups;
    for (int k = 0; k < t.spatial; k++) {
        t.slide[k].base_dilation = a->input_dilation.v[k];
        t.reverse[k] = a->reverse.v[k];
    }
    strides_by_part(&x->type, a->input_axes.v, t.step[FACTOR_X]);
    strides_by_part(&w->type, a->kernel_axes.v, t.step[FACTOR_W]);
    strides_by_part(&z->type, a->output_axes.v, t.step[FACTOR_Z]);
    return contract(e, &t, (const void *const[FACTORS]){x->data, w->data, NULL}, FACTOR_Z);
}

/* conv_backward_input and conv_transpose: operands z and w, result x. */
static flx_code eval_to_input(flxi_eval *e)
{
    const flx_tensor *z = e->in[0];
    const flx_tensor *w = e->in[1];
    trilinear t = plain_form(e->attrs, &e->out[0]->type, &w->type, &z->type);
    return contract(e, &t, (const void *const[FACTORS]){NULL, w->data, z->data}, FACTOR_X);
}

static flx_code eval_to_weight(flxi_eval *e)
{
    const flx_tensor *x = e->in[0];
    const flx_tensor *z = e->in[1];
    trilinear t = plain_form(e->attrs, &x->type, &e->out[0]->type, &z->type);
    return contract(e, &t, (const void *const[FACTORS]){x->data, NULL, z->data}, FACTOR_W);
}

/* ---- Rules ---- */

static const flxi_sample conv_samples[] = {
    {"T[2, 3, 8], T[4, 3, 3]", NULL, NULL, FLX_OK},
    {"T[1, 2, 5, 6], T[3, 2, 2, 3]", "stride=[2, 1], padding=[1, 0]", NULL, FLX_OK},
    {"T[1, 4, 7, 5], T[6, 2, 3, 2]", "groups=2, dilation=[2, 1], padding=[[1, 2], [0, 1]]", NULL, FLX_OK},
    {"T[4, 2, 5], T[6, 2, 2]", "batch_groups=2, input_dilation=[2]", NULL, FLX_OK},
    {"T[2, 6, 5, 3], T[2, 3, 3, 4]",
     "input_axes=[0, 3, 1, 2], kernel_axes=[-1, 2, 0, 1], output_axes=[0, -1, 1, 2], reverse=[true, false]", NULL,
     FLX_OK},
    {"T[1, 1, 2, 3, 2], T[2, 1, 2, 1, 2]", "padding=[1, 0, [0, 1]]", NULL, FLX_OK},
    {"T[2, 3], T[4, 3]", NULL, NULL, FLX_OK},
    {"T[1, 1, 6], T[1, 1, 2]", "padding=[[-1, -2]]", NULL, FLX_OK},
    {"T[0, 3, 4], T[2, 3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 0, 4], T[2, 0, 2]", NULL, NULL, FLX_OK},
    {"T[N, 3, 8], T[4, 3, 3]", "stride=[2]", NULL, FLX_OK},
    {"T[1, 2, N + 3], T[1, 2, 3]", "stride=[2], padding=[1]", NULL, FLX_OK},
    {"T[2, 7, 4], T[6, 2, 3]",
     "groups=2, stride=[3], padding=[[2, 1]], input_axes=[0, 2, 1], output_axes=[2, 0, 1], reverse=[true]", NULL,
     FLX_OK},
    {"T[4, 1, 6], T[2, 1, 3]", "batch_groups=2, stride=[2], kernel_axes=[0, 1, 2], output_axes=[1, 0, 2]", NULL,
     FLX_OK},
    {"T[1, 0, 2, 3], T[2, 0, 1, 2]", "reverse=[true, false]", NULL, FLX_OK},
    {"T[1, 2, 0], T[1, 2, 1]", "input_dilation=[2], padding=[1]", NULL, FLX_OK},
    {"T[1, 2, N + 3], T[1, 2, 3]", "stride=[2], padding=[[1, 2]], reverse=[true]", NULL, FLX_OK},
    {"T[1, 1, 2*N], T[2, 1, 3]", "stride=[4], dilation=[2], input_dilation=[3], padding=[[-1, 2]]", NULL, FLX_OK},
    {"T[2, 3, 8], T[4, 2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 8], T[4, 3, 3, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 2], T[4, 3, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[4, 3, 3]", "dilation=[2]", NULL, FLX_E_SHAPE},
    {"T[2, 4, 8], T[3, 2, 3]", "groups=2", NULL, FLX_E_SHAPE},
    {"T[3, 2, 8], T[4, 2, 3]", "batch_groups=2", NULL, FLX_E_SHAPE},
    {"T[2, 3, 8], T[4, 3, 3]", "stride=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 8], T[4, 3, 3]", "padding=[1, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 8], T[4, 3, 3]", "groups=0", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 8], T[4, 3, 3]", "input_axes=[0, 1, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 8], T[4, 3, 3]", "input_axes=[0, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[4, 4, 8], T[4, 2, 3]", "groups=2, batch_groups=2", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 8], T[4, 3, 3]", "padding=[9000000000000000000]", NULL, FLX_E_SIZE},
    {0},
};

static const flxi_sample backward_input_samples[] = {
    {"T[2, 4, 6], T[4, 3, 3]", "input_size=[8]", NULL, FLX_OK},
    {"T[1, 3, 3, 4], T[3, 2, 2, 3]", "input_size=[5, 6], stride=[2, 1], padding=[1, 0]", NULL, FLX_OK},
    {"T[1, 6, 4], T[6, 2, 3]", "input_size=[9], groups=2, padding=[[0, 1]], stride=[2]", NULL, FLX_OK},
    {"T[0, 4, 6], T[4, 3, 3]", "input_size=[8]", NULL, FLX_OK},
    {"T[2, 4], T[4, 3]", "input_size=[]", NULL, FLX_OK},
    {"T[N, 4, 6], T[4, 3, 3]", "input_size=[8]", NULL, FLX_OK},
    {"T[2, 4, 6], T[4, 3, 3]", "input_size=[9]", NULL, FLX_E_SHAPE},
    {"T[2, 5, 6], T[4, 3, 3]", "input_size=[8]", NULL, FLX_E_SHAPE},
    {"T[2, 4, 6], T[4, 3, 3]", "input_size=[8, 8]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4, 6], T[4, 3, 3]", "input_size=[-8]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample backward_weight_samples[] = {
    {"T[2, 3, 8], T[2, 4, 6]", "kernel_size=[3]", NULL, FLX_OK},
    {"T[1, 2, 5, 6], T[1, 3, 3, 4]", "kernel_size=[2, 3], stride=[2, 1], padding=[1, 0]", NULL, FLX_OK},
    {"T[2, 4, 9], T[2, 6, 4]", "kernel_size=[3], groups=2, stride=[2]", NULL, FLX_OK},
    {"T[0, 3, 8], T[0, 4, 6]", "kernel_size=[3]", NULL, FLX_OK},
    {"T[N, 3, 8], T[N, 4, 6]", "kernel_size=[3]", NULL, FLX_OK},
    {"T[2, 3, 8], T[3, 4, 6]", "kernel_size=[3]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 8], T[2, 4, 6]", "kernel_size=[4]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 8], T[2, 4, 6]", "kernel_size=[3], groups=2", NULL, FLX_E_SHAPE},
    {"T[2, 3, 8], T[2, 4, 6]", "kernel_size=[]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample transpose_samples[] = {
    {"T[2, 3, 4], T[3, 2, 3]", NULL, NULL, FLX_OK},
    {"T[1, 2, 3, 2], T[2, 3, 2, 3]", "stride=[2, 3], padding=[1, 0], output_padding=[1, 2]", NULL, FLX_OK},
    {"T[1, 4, 3], T[4, 2, 2]", "groups=2, dilation=[2], padding=[[1, 0]]", NULL, FLX_OK},
    {"T[0, 3, 4], T[3, 2, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3, 4], T[3, 2, 3]", "stride=[2]", NULL, FLX_OK},
    {"T[1, 3, N], T[3, 2, 3]", "stride=[2], padding=[1]", NULL, FLX_OK},
    {"T[2, 3, 4], T[2, 3, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3, 1], T[3, 2, 1]", "padding=[1]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[3, 2, 3]", "stride=[2], output_padding=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4], T[3, 2, 3]", "output_padding=[-1]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* Each element on the side of the features meets all weights of its feature, which is `axis` of the weights. */
static void work_features(const flx_type *features, const flx_type *weights, int64_t axis, const flx_type *y,
                          flxi_work *w)
{
    int64_t extent = flxi_work_extent(weights->dims[axis]);
    int64_t each = extent ? flxi_work_count(weights) / extent : 0;
    w->flops = flxi_work_pairs(y, flxi_times(flxi_work_count(features), each));
}

static void work_conv(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    const flx_type *y = flxi_type_at(g, n->first);
    work_features(y, flxi_type_at(g, n->in[1]), ((const flxi_conv_attrs *)n->attrs)->kernel_axes.v[0], y, w);
}

static void work_to_input(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    work_features(flxi_type_at(g, n->in[0]), flxi_type_at(g, n->in[1]), 0, flxi_type_at(g, n->first), w);
}

static void work_to_weight(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    work_features(flxi_type_at(g, n->in[1]), flxi_type_at(g, n->first), 0, flxi_type_at(g, n->first), w);
}

/* Whether the blocks of an axis of features are groups, or several groups each. */
static bool is_grouped(const flxi_link *l, flx_dim groups)
{
    return l->blocks > 0 && flxi_dim_is_number(groups) && groups % l->blocks == 0;
}

/* The examples of a batch do not meet, nor do features of different groups. */
static bool link_conv(const flxi_use *u, flxi_link *l)
{
    const flxi_conv_attrs *a = u->n->attrs;
    int64_t examples = a->output_axes.v[0], features = a->output_axes.v[1];
    if (u->operand == 1)
        return l->axis == a->kernel_axes.v[0] && flxi_link_move(u, l, features);
    if (l->axis == a->input_axes.v[1])
        return is_grouped(l, a->common.groups) && flxi_link_move_blocks(u, l, features);
    if (l->axis != a->input_axes.v[0])
        return false;
    return a->batch_groups == 1 ? flxi_link_move(u, l, examples)
                                : is_grouped(l, a->batch_groups) && flxi_link_move_blocks(u, l, features);
}

static bool link_to_input(const flxi_use *u, flxi_link *l)
{
    flx_dim groups = ((const flxi_conv_common *)u->n->attrs)->groups;
    int features = u->operand == 0 ? 1 : 0; /* of z and of the weights */
    if (l->axis == features)
        return is_grouped(l, groups) && flxi_link_move_blocks(u, l, 1);
    if (u->operand == 0)
        return l->axis == 0 && flxi_link_move(u, l, 0);
    return l->axis == 1 && groups == 1 && flxi_link_move(u, l, 1);
}

static bool link_to_weight(const flxi_use *u, flxi_link *l)
{
    flx_dim groups = ((const flxi_conv_common *)u->n->attrs)->groups;
    if (l->axis != 1)
        return false;
    if (u->operand == 1)
        return flxi_link_move(u, l, 0);
    return groups == 1 ? flxi_link_move(u, l, 1) : is_grouped(l, groups) && flxi_link_move_blocks(u, l, 0);
}

/* ---- Parts ---- */

/* Examples are independent, features of the result too, and features of the operand are summed; groups stay whole. */
static int conv_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const flxi_conv_attrs *a = n->attrs;
    (void)g;
    if (operand == 0)
        return axis == a->input_axes.v[0] && a->batch_groups == 1 ? (int)a->output_axes.v[0] : -1;
    bool is_one = a->common.groups == 1 && a->batch_groups == 1;
    return axis == a->kernel_axes.v[0] && is_one ? (int)a->output_axes.v[1] : -1;
}

static int summed_by_conv(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const flxi_conv_attrs *a = n->attrs;
    (void)g;
    bool is_one = a->common.groups == 1 && a->batch_groups == 1;
    return is_one && axis == (operand == 0 ? a->input_axes.v[1] : a->kernel_axes.v[1]) ? 0 : -1;
}

static bool has_one_group(const flxi_node *n)
{
    return ((const flxi_conv_common *)n->attrs)->groups == 1;
}

static int to_input_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g;
    if (operand == 0)
        return axis == 0 ? 0 : -1;
    return axis == 1 && has_one_group(n) ? 1 : -1;
}

static int summed_to_input(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g;
    return has_one_group(n) && axis == (operand == 0 ? 1 : 0) ? 0 : -1;
}

static int to_weight_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g;
    return axis == 1 && has_one_group(n) ? 1 - (int)operand : -1;
}

static int summed_to_weight(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)n, (void)operand;
    return axis == 0 ? 0 : -1;
}

static const struct flxi_shard shard_conv = {.combine = "sum", .summed = summed_by_conv, .becomes = conv_becomes},
                               shard_to_input = {.combine = "sum",
                                                 .summed = summed_to_input,
                                                 .becomes = to_input_becomes},
                               shard_to_weight = {
                                   .combine = "sum", .summed = summed_to_weight, .becomes = to_weight_becomes};

const flxi_rules flxi_rules_conv = {
    .infer = flxi_infer_conv,
    .eval = eval_conv,
    .schema = conv_schema,
    .attrs_size = sizeof(flxi_conv_attrs),
    .vjp = flxi_vjp_conv,
    .batch = flxi_batch_conv,
    .samples = conv_samples,
    .work = work_conv,
    .link = link_conv,
    .shard = &shard_conv,
};

const flxi_rules flxi_rules_conv_backward_input = {
    .infer = infer_backward_input,
    .eval = eval_to_input,
    .schema = backward_input_schema,
    .attrs_size = sizeof(flxi_conv_backward_input_attrs),
    .vjp = flxi_vjp_conv_to_input,
    .batch = flxi_batch_conv_to_input,
    .samples = backward_input_samples,
    .work = work_to_input,
    .link = link_to_input,
    .shard = &shard_to_input,
};

const flxi_rules flxi_rules_conv_backward_weight = {
    .infer = infer_backward_weight,
    .eval = eval_to_weight,
    .schema = backward_weight_schema,
    .attrs_size = sizeof(flxi_conv_backward_weight_attrs),
    .vjp = flxi_vjp_conv_to_weight,
    .batch = flxi_batch_conv_to_weight,
    .samples = backward_weight_samples,
    .work = work_to_weight,
    .link = link_to_weight,
    .shard = &shard_to_weight,
};

const flxi_rules flxi_rules_conv_transpose = {
    .infer = infer_transpose,
    .eval = eval_to_input,
    .schema = transpose_schema,
    .attrs_size = sizeof(flxi_conv_transpose_attrs),
    .vjp = flxi_vjp_conv_to_input,
    .batch = flxi_batch_conv_to_input,
    .decompose = flxi_decompose_conv_transpose,
    .samples = transpose_samples,
    .work = work_to_input,
    .link = link_to_input,
    .shard = &shard_to_input,
};
