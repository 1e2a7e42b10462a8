/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_nodes.c: the writers of single ops, and their table. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"

#include <fluxion/ops.h>
#include <fluxion/run.h>
#include <stdio.h>

enum { MAX_OPERANDS = 16, MAX_ATTRS = 8 };

static void put_all(const onnx_source *n, const onnx_setting *settings, size_t num_settings)
{
    onnx_label in[MAX_OPERANDS];
    onnx_label out[1] = {flxi_onnx_out(n, 0)};
    if (n->nin > MAX_OPERANDS || n->nout != 1) {
        flxi_onnx_refuse(n, "this many operands or results");
        return;
    }
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = flxi_onnx_in(n, i);
    flxi_onnx_put(n->w, n->to, in, n->nin, out, 1, settings, num_settings);
}

static void write_plain(const onnx_source *n)
{
    put_all(n, NULL, 0);
}

/* Sum is for floats only. */
static void write_add_n(const onnx_source *n)
{
    onnx_label sum = flxi_onnx_in(n, 0), out = flxi_onnx_out(n, 0);
    if (n->nin == 1)
        flxi_onnx_put1(n->w, "Identity", &sum, 1, &out);
    for (uint32_t i = 1; i < n->nin; i++) {
        onnx_label both[2] = {sum, flxi_onnx_in(n, i)};
        sum = i + 1 < n->nin ? flxi_onnx_fresh(n->w) : out;
        flxi_onnx_put1(n->w, "Add", both, 2, &sum);
    }
}

static bool is_of_one_type(const onnx_source *n)
{
    for (uint32_t i = 1; i < n->nin; i++)
        if (flxi_onnx_in_type(n, i)->dtype != flxi_onnx_in_type(n, 0)->dtype)
            return false;
    return flxi_onnx_out_type(n, 0)->dtype == flxi_onnx_in_type(n, 0)->dtype;
}

static void write_axis(const onnx_source *n)
{
    put_all(n, &ONNX_INT("axis", flxi_onnx_integer(n, "axis", -1)), 1);
}

static void write_alpha(const onnx_source *n)
{
    put_all(n, &ONNX_REAL("alpha", flxi_onnx_number_of(n, "alpha", 1)), 1);
}

static void write_eps(const onnx_source *n)
{
    if (!is_of_one_type(n))
        flxi_onnx_refuse(n, "operands of different types");
    put_all(n, &ONNX_REAL("epsilon", flxi_onnx_number_of(n, "eps", 1e-5)), 1);
}

static void write_layer_norm(const onnx_source *n)
{
    int64_t axis = flxi_onnx_integer(n, "axis", -1);
    int rank = flxi_onnx_in_type(n, 0)->rank;
    if (axis != -1 && axis != rank - 1) {
        flxi_onnx_refuse(n, "an axis that is not the last one");
        return;
    }
    write_eps(n);
}

static void write_gelu_approx(const onnx_source *n)
{
    put_all(n, &ONNX_TEXT("approximate", "tanh"), 1);
}

static void write_cast(const onnx_source *n)
{
    if (flxi_is_complex(flxi_onnx_out_type(n, 0)->dtype))
        flxi_onnx_refuse(n, "complex numbers");
    put_all(n, &ONNX_INT("to", flxi_onnx_element_of(flxi_onnx_out_type(n, 0)->dtype)), 1);
}

/* The condition may have any dtype here, and is bool there. */
static void write_where(const onnx_source *n)
{
    onnx_label in[3] = {flxi_onnx_in(n, 0), flxi_onnx_in(n, 1), flxi_onnx_in(n, 2)}, out = flxi_onnx_out(n, 0);
    if (flxi_onnx_in_type(n, 0)->dtype != FLX_BOOL) {
        onnx_label truth = flxi_onnx_fresh(n->w);
        flxi_onnx_put(n->w, "Cast", in, 1, &truth, 1, &ONNX_INT("to", ONNX_BOOL), 1);
        in[0] = truth;
    }
    flxi_onnx_put1(n->w, "Where", in, 3, &out);
}

static void write_rem(const onnx_source *n)
{
    put_all(n, &ONNX_INT("fmod", 1), 1);
}

/* ---- Shapes ---- */

/* Element `axis` of the shape. */
static void write_dim_size(const onnx_source *n)
{
    onnx_label in = flxi_onnx_in(n, 0), out = flxi_onnx_out(n, 0);
    onnx_label pick[2] = {flxi_onnx_fresh(n->w),
                          flxi_onnx_put_scalar(n->w, FLX_I64, (double)flxi_onnx_integer(n, "axis", 0))};
    flxi_onnx_put1(n->w, "Shape", &in, 1, &pick[0]);
    flxi_onnx_put1(n->w, "Gather", pick, 2, &out);
}

static void write_tile(const onnx_source *n)
{
    flx_ints repeats;
    if (!flxi_onnx_list(n, "repeats", &repeats))
        return;
    onnx_label in[2] = {flxi_onnx_in(n, 0), flxi_onnx_put_ints(n->w, repeats)}, out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Tile", in, 2, &out);
}

/* The extents of the result; one that is symbolic is inferred. */
static bool result_shape(const onnx_source *n, int64_t dims[FLX_MAX_RANK], flx_ints *out)
{
    const flx_type *t = flxi_onnx_out_type(n, 0);
    int unknown = 0;
    for (int i = 0; i < t->rank; i++) {
        dims[i] = flx_dim_is_static(t->dims[i]) ? t->dims[i] : -1;
        unknown += dims[i] < 0;
    }
    *out = (flx_ints){dims, (size_t)t->rank};
    if (unknown <= (strcmp(n->to, "Reshape") == 0))
        return true;
    flxi_onnx_refuse(n, "symbolic extents");
    return false;
}

static bool has_zero(const int64_t *dims, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (dims[i] == 0)
            return true;
    return false;
}

static void write_shape(const onnx_source *n)
{
    int64_t dims[FLX_MAX_RANK];
    flx_ints shape;
    if (!result_shape(n, dims, &shape))
        return;
    onnx_label in[2] = {flxi_onnx_in(n, 0), flxi_onnx_put_ints(n->w, shape)}, out = flxi_onnx_out(n, 0);
    flxi_onnx_put(n->w, n->to, in, 2, &out, 1, &ONNX_INT("allowzero", 1),
                  strcmp(n->to, "Reshape") == 0 && has_zero(dims, shape.n));
}

/* The operand with its axes in the order in which they are in the result. */
static onnx_label in_order(const onnx_source *n, flx_ints axes)
{
    int64_t perm[FLX_MAX_RANK];
    bool ascends = true;
    onnx_label in = flxi_onnx_in(n, 0), turned;
    for (size_t i = 0; i < axes.n; i++) {
        size_t at = 0;
        for (size_t k = 0; k < axes.n; k++)
            at += axes.v[k] < axes.v[i];
        perm[at] = (int64_t)i;
        ascends &= at == i;
    }
    if (ascends)
        return in;
    turned = flxi_onnx_fresh(n->w);
    flxi_onnx_put(n->w, "Transpose", &in, 1, &turned, 1, &ONNX_INTS("perm", ((flx_ints){perm, axes.n})), 1);
    return turned;
}

/* Axes of extent 1 first, then stretched. */
static void write_broadcast(const onnx_source *n)
{
    int64_t dims[FLX_MAX_RANK], first[FLX_MAX_RANK];
    const flx_type *x = flxi_onnx_in_type(n, 0);
    flx_ints shape, axes;
    if (!result_shape(n, dims, &shape))
        return;
    if (!flxi_onnx_list(n, "axes", &axes))
        axes = (flx_ints){NULL, 0};
    for (size_t i = 0; i < shape.n; i++)
        first[i] = 1;
    for (size_t i = 0; i < axes.n; i++)
        first[axes.v[i]] = x->dims[i];
    onnx_label in[2] = {in_order(n, axes), flxi_onnx_put_ints(n->w, (flx_ints){first, shape.n})};
    onnx_label wide[2] = {flxi_onnx_fresh(n->w), flxi_onnx_put_ints(n->w, shape)}, out = flxi_onnx_out(n, 0);
    flxi_onnx_put(n->w, "Reshape", in, 2, &wide[0], 1, &ONNX_INT("allowzero", 1), has_zero(first, shape.n));
    flxi_onnx_put1(n->w, "Expand", wide, 2, &out);
}

static void write_transpose(const onnx_source *n)
{
    flx_ints perm;
    bool given = flxi_onnx_list(n, "perm", &perm);
    put_all(n, &ONNX_INTS("perm", perm), given);
}

static void write_narrow(const onnx_source *n)
{
    int64_t axis = flxi_onnx_integer(n, "axis", 0), start = flxi_onnx_integer(n, "start", 0);
    int64_t end = start + flxi_onnx_integer(n, "len", 0);
    onnx_label in[4] = {flxi_onnx_in(n, 0), flxi_onnx_put_ints(n->w, (flx_ints){&start, 1}),
                        flxi_onnx_put_ints(n->w, (flx_ints){&end, 1}), flxi_onnx_put_ints(n->w, (flx_ints){&axis, 1})};
    onnx_label out = flxi_onnx_out(n, 0);
    if (!flx_dim_is_static(start) || !flx_dim_is_static(end))
        flxi_onnx_refuse(n, "symbolic extents");
    flxi_onnx_put1(n->w, "Slice", in, 4, &out);
}

static void write_slice(const onnx_source *n)
{
    flx_ints start, limit, stride;
    int64_t axes[FLX_MAX_RANK], ones[FLX_MAX_RANK];
    int rank = flxi_onnx_in_type(n, 0)->rank;
    for (int i = 0; i < rank; i++) {
        axes[i] = i;
        ones[i] = 1;
    }
    if (!flxi_onnx_list(n, "start", &start) || !flxi_onnx_list(n, "limit", &limit))
        return;
    if (!flxi_onnx_list(n, "stride", &stride))
        stride = (flx_ints){ones, (size_t)rank};
    for (int i = 0; i < rank; i++)
        if (!flx_dim_is_static(start.v[i]) || !flx_dim_is_static(limit.v[i]))
            flxi_onnx_refuse(n, "symbolic extents");
    onnx_label in[5] = {flxi_onnx_in(n, 0), flxi_onnx_put_ints(n->w, start), flxi_onnx_put_ints(n->w, limit),
                        flxi_onnx_put_ints(n->w, (flx_ints){axes, (size_t)rank}), flxi_onnx_put_ints(n->w, stride)};
    onnx_label out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Slice", in, 5, &out);
}

static void write_pad(const onnx_source *n)
{
    int64_t pads[2 * FLX_MAX_RANK] = {0};
    int rank = flxi_onnx_in_type(n, 0)->rank;
    flx_ints low, high, interior;
    if (flxi_onnx_list(n, "low", &low))
        memcpy(pads, low.v, low.n * sizeof *pads);
    if (flxi_onnx_list(n, "high", &high))
        memcpy(pads + rank, high.v, high.n * sizeof *pads);
    if (flxi_onnx_list(n, "interior", &interior))
        for (size_t i = 0; i < interior.n; i++)
            if (interior.v[i])
                flxi_onnx_refuse(n, "interior padding");
    onnx_label in[3] = {flxi_onnx_in(n, 0), flxi_onnx_put_ints(n->w, (flx_ints){pads, 2 * (size_t)rank}),
                        flxi_onnx_in(n, 1)};
    onnx_label out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Pad", in, 3, &out);
}

/* A node without operands: its value is an initialiser. */
static void write_literal(const onnx_source *n)
{
    const flx_graph *g = n->w->g;
    flx_graph *one = flx_graph_new(flx_graph_context(g), "literal");
    flx_attr attrs[MAX_ATTRS];
    flx_node_attr_view a[MAX_ATTRS]; /* what a word refers to */
    flx_node_view v;
    size_t count = 0;
    flx_val y = FLX_NONE;
    flx_tensor *t = NULL;
    if (flx_graph_node(g, n->index, &v) == FLX_OK)
        for (uint32_t k = 0; k < v.num_attrs && k < MAX_ATTRS; k++)
            if (flx_node_attr(g, n->index, k, &a[k]) == FLX_OK)
                attrs[count++] = a[k].word[0] ? flx_attr_word(a[k].value.key, a[k].word) : a[k].value;
    if (one && flx_op(one, n->op, NULL, 0, attrs, count, &y, 1) == 1)
        flx_output(one, y, "y");
    flx_error err = {0};
    if (one && flx_run(one, &(flx_run_options){.device = "ref"}, NULL, 0, &t, &err) == FLX_OK)
        flxi_onnx_put_tensor(n->w, flxi_onnx_out(n, 0).text, t);
    else
        flxi_onnx_refuse(n, "symbolic extents");
    flx_tensor_release(t);
    flx_graph_release(one);
}

/* ---- Indexing and reductions ---- */

static void write_reduce(const onnx_source *n)
{
    int64_t all[FLX_MAX_RANK];
    flx_ints axes;
    int rank = flxi_onnx_in_type(n, 0)->rank;
    for (int i = 0; i < rank; i++)
        all[i] = i;
    if (!flxi_onnx_list(n, "axes", &axes))
        axes = (flx_ints){all, (size_t)rank};
    onnx_label in[2] = {flxi_onnx_in(n, 0), flxi_onnx_put_ints(n->w, axes)}, out = flxi_onnx_out(n, 0);
    for (size_t i = 0; n->carried && i < axes.n; i++)
        if (flxi_onnx_in_type(n, 0)->dims[axes.v[i] < 0 ? axes.v[i] + rank : axes.v[i]] == 0)
            flxi_onnx_refuse(n, "nothing, in another dtype");
    onnx_setting settings[] = {ONNX_INT("keepdims", flxi_onnx_integer(n, "keep_dims", 0)),
                               ONNX_INT("noop_with_empty_axes", 1)};
    flxi_onnx_put(n->w, n->to, in, 2, &out, 1, settings, 2);
}

/* The largest or smallest of the truth values. */
static void write_reduce_truth(const onnx_source *n)
{
    if (flxi_onnx_in_type(n, 0)->dtype == FLX_BOOL)
        write_reduce(n);
    else
        flxi_onnx_refuse(n, "numbers");
}

/* The result is i64 there. */
static void write_arg_extreme(const onnx_source *n)
{
    onnx_label in = flxi_onnx_in(n, 0), wide = flxi_onnx_fresh(n->w), out = flxi_onnx_out(n, 0);
    onnx_setting settings[] = {ONNX_INT("axis", flxi_onnx_integer(n, "axis", -1)),
                               ONNX_INT("keepdims", flxi_onnx_integer(n, "keep_dims", 0))};
    flxi_onnx_put(n->w, n->to, &in, 1, &wide, 1, settings, 2);
    flxi_onnx_put(n->w, "Cast", &wide, 1, &out, 1,
                  &ONNX_INT("to", flxi_onnx_element_of(flxi_onnx_out_type(n, 0)->dtype)), 1);
}

static void write_cumsum(const onnx_source *n)
{
    onnx_label in[2] = {flxi_onnx_in(n, 0),
                        flxi_onnx_put_scalar(n->w, FLX_I64, (double)flxi_onnx_integer(n, "axis", -1))};
    onnx_label out = flxi_onnx_out(n, 0);
    onnx_setting settings[] = {ONNX_INT("exclusive", flxi_onnx_integer(n, "exclusive", 0)),
                               ONNX_INT("reverse", flxi_onnx_integer(n, "reverse", 0))};
    flxi_onnx_put(n->w, "CumSum", in, 2, &out, 1, settings, 2);
}

/* ---- Products ---- */

static void write_einsum(const onnx_source *n)
{
    onnx_label eq;
    if (strstr(flxi_onnx_word_of(n, "eq", &eq), "..."))
        flxi_onnx_refuse(n, "an ellipsis");
    put_all(n, &ONNX_TEXT("equation", flxi_onnx_word_of(n, "eq", &eq)), 1);
}

/* Letters for the axes of both operands: paired axes share one. */
static void write_dot_general(const onnx_source *n)
{
    flx_ints lists[4];
    static const char *const keys[] = {"lc", "rc", "lb", "rb"};
    char left[FLX_MAX_RANK + 1] = {0}, right[FLX_MAX_RANK + 1] = {0}, eq[120], result[2 * FLX_MAX_RANK + 1] = {0};
    int lr = flxi_onnx_in_type(n, 0)->rank, rr = flxi_onnx_in_type(n, 1)->rank;
    size_t k = 0;
    char letter = 'a';
    for (int i = 0; i < 4; i++)
        if (!flxi_onnx_list(n, keys[i], &lists[i]))
            lists[i] = (flx_ints){NULL, 0};
    if (lr + rr > 26) {
        flxi_onnx_refuse(n, "this many axes");
        return;
    }
    for (int i = 0; i < lr; i++)
        left[i] = letter++;
    for (int p = 0; p < 4; p += 2)
        for (size_t i = 0; i < lists[p].n; i++)
            right[lists[p + 1].v[i]] = left[lists[p].v[i]];
    for (int i = 0; i < rr; i++)
        right[i] = right[i] ? right[i] : letter++;
    for (size_t i = 0; i < lists[2].n; i++)
        result[k++] = left[lists[2].v[i]];
    for (int i = 0; i < lr; i++)
        if (!strchr(right, left[i]))
            result[k++] = left[i];
    for (int i = 0; i < rr; i++)
        if (!strchr(left, right[i]))
            result[k++] = right[i];
    snprintf(eq, sizeof eq, "%s,%s->%s", left, right, result);
    put_all(n, &ONNX_TEXT("equation", eq), 1);
}

/* ---- Windows ---- */

/* low, high, low, high … as low, low …, high, high …; `fallback` for each where it is not given. */
static flx_ints spatial(const onnx_source *n, const char *key, int64_t fallback, int count, bool pairs, int64_t *out)
{
    flx_ints v;
    bool given = flxi_onnx_list(n, key, &v);
    int total = pairs ? 2 * count : count;
    for (int i = 0; i < total; i++)
        out[i] = !given ? fallback : pairs ? v.v[2 * (i % count) + i / count] : v.v[i];
    return (flx_ints){out, (size_t)total};
}

static bool is_ascending(const onnx_source *n, const char *key)
{
    flx_ints v;
    if (!flxi_onnx_list(n, key, &v))
        return true;
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] != (int64_t)i)
            return false;
    return true;
}

static bool all_are(const onnx_source *n, const char *key, int64_t value)
{
    flx_ints v;
    bool is_same = true;
    for (size_t i = 0; flxi_onnx_list(n, key, &v) && i < v.n; i++)
        is_same &= v.v[i] == value;
    return is_same;
}

static bool is_padded_outwards(const onnx_source *n)
{
    flx_ints v;
    for (size_t i = 0; flxi_onnx_list(n, "padding", &v) && i < v.n; i++)
        if (v.v[i] < 0)
            return false;
    return true;
}

static void write_conv_transpose(const onnx_source *n)
{
    int count = flxi_onnx_in_type(n, 0)->rank - 2;
    int64_t stride[FLX_MAX_RANK], dilation[FLX_MAX_RANK], pads[2 * FLX_MAX_RANK], more[FLX_MAX_RANK];
    if (count < 1 || !is_padded_outwards(n)) {
        flxi_onnx_refuse(n, "no axes, or padding inwards");
        return;
    }
    onnx_setting settings[] = {ONNX_INTS("strides", spatial(n, "stride", 1, count, false, stride)),
                               ONNX_INTS("dilations", spatial(n, "dilation", 1, count, false, dilation)),
                               ONNX_INTS("pads", spatial(n, "padding", 0, count, true, pads)),
                               ONNX_INTS("output_padding", spatial(n, "output_padding", 0, count, false, more)),
                               ONNX_INT("group", flxi_onnx_integer(n, "groups", 1))};
    put_all(n, settings, 5);
}

static void write_conv(const onnx_source *n)
{
    int count = flxi_onnx_in_type(n, 0)->rank - 2;
    int64_t stride[FLX_MAX_RANK], dilation[FLX_MAX_RANK], pads[2 * FLX_MAX_RANK];
    bool plain = count > 0 && is_padded_outwards(n) && is_ascending(n, "input_axes") &&
                 is_ascending(n, "kernel_axes") && is_ascending(n, "output_axes") && all_are(n, "input_dilation", 1) &&
                 all_are(n, "reverse", 0) && flxi_onnx_integer(n, "batch_groups", 1) == 1;
    if (!plain) {
        flxi_onnx_refuse(n, "another order of axes, or dilated inputs");
        return;
    }
    onnx_setting settings[] = {ONNX_INTS("strides", spatial(n, "stride", 1, count, false, stride)),
                               ONNX_INTS("dilations", spatial(n, "dilation", 1, count, false, dilation)),
                               ONNX_INTS("pads", spatial(n, "padding", 0, count, true, pads)),
                               ONNX_INT("group", flxi_onnx_integer(n, "groups", 1))};
    put_all(n, settings, 4);
}

static void write_pool(const onnx_source *n)
{
    onnx_label buffer, in = flxi_onnx_in(n, 0), out = flxi_onnx_out(n, 0);
    const char *kind = flxi_onnx_word_of(n, "kind", &buffer);
    bool mean = strcmp(kind, "mean") == 0;
    int count = flxi_onnx_in_type(n, 0)->rank - 2;
    int64_t kernel[FLX_MAX_RANK], stride[FLX_MAX_RANK], pads[2 * FLX_MAX_RANK];
    if (!mean && strcmp(kind, "max") != 0) {
        flxi_onnx_refuse(n, "this kind of pooling");
        return;
    }
    flx_ints window = spatial(n, "kernel_size", 1, count, false, kernel), steps;
    steps = flxi_onnx_list(n, "stride", &steps) ? spatial(n, "stride", 1, count, false, stride) : window;
    onnx_setting settings[] = {ONNX_INTS("kernel_shape", window), ONNX_INTS("strides", steps),
                               ONNX_INTS("pads", spatial(n, "padding", 0, count, true, pads)),
                               ONNX_INT("count_include_pad", flxi_onnx_integer(n, "count_include_pad", 1))};
    flxi_onnx_put(n->w, mean ? "AveragePool" : "MaxPool", &in, 1, &out, 1, settings, mean ? 4 : 3);
}

/* ---- The table ---- */

#define BIT(name) (1u << FLX_##name)

/* The types of the operations in version 21. */
enum {
    TYPES_BOOL = BIT(BOOL),
    TYPES_SINGLE = BIT(F32),
    TYPES_SINGLE_OR_DOUBLE = BIT(F32) | BIT(F64),
    TYPES_NO_BF16 = TYPES_SINGLE_OR_DOUBLE | BIT(F16),
    TYPES_FLOATS = TYPES_NO_BF16 | BIT(BF16),
    TYPES_POWERS = TYPES_FLOATS | BIT(I64) | BIT(I32),
    TYPES_SIGNED = TYPES_POWERS | BIT(I16) | BIT(I8),
    TYPES_UNSIGNED = BIT(U64) | BIT(U32) | BIT(U16) | BIT(U8),
    TYPES_NUMBERS = TYPES_SIGNED | TYPES_UNSIGNED,
    TYPES_SUMS = TYPES_POWERS | BIT(U64) | BIT(U32),
    TYPES_EXTREMES = TYPES_SUMS | BIT(I8) | BIT(U8) | BIT(BOOL),
    TYPES_ORDERED = TYPES_NUMBERS & ~BIT(BF16),
    TYPES_WIDE = TYPES_ORDERED & ~BIT(F16),
    TYPES_REAL = TYPES_NUMBERS | BIT(BOOL),
    TYPES_INTEGERS = TYPES_UNSIGNED | BIT(I64) | BIT(I32) | BIT(I16) | BIT(I8),
    TYPES_ALL = -1
};

static const onnx_export_row rows[] = {
#define ONNX_EXPORT(op, operation, writer, types) {#op, operation, write_##writer, (uint32_t)TYPES_##types},
#define ONNX_EXPORT_FAR(op, operation, writer, types) \
    {#op, operation, flxi_onnx_write_##writer, (uint32_t)TYPES_##types},
#include "onnx/export/onnx_export.def"
};

const onnx_export_row *flxi_onnx_row_of(const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].op, op) == 0)
            return &rows[i];
    return NULL;
}
