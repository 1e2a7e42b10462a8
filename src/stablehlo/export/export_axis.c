/* SPDX-License-Identifier: Apache-2.0 */
/* export_axis.c: reductions, running folds, orders and other ops along axes in terms of those that StableHLO has too.
   See export_rules.h. */
#include "stablehlo/export/export_rules.h"

#include <math.h>
#include <stdlib.h>

static flx_type scalar_of(int32_t dtype)
{
    return flx_type_make((flx_dtype)dtype, 0, NULL);
}

/* The same op on f32 operands, rounded once at the end: what folds floats that are narrower does. */
void flxi_export_as_widened(flxi_site *s, flx_val *y)
{
    flx_val x[4];
    uint32_t n = s->nin < 4 ? s->nin : 4;
    for (uint32_t i = 0; i < n; i++)
        x[i] = flx_cast(s->g, s->x[i], FLX_F32);
    y[0] = flx_cast(s->g, flxi_emit1(s, NULL, x, n), (flx_dtype)flxi_typeof(s, s->x[0])->dtype);
}

/* A reduction with the reduced axes kept, of narrow floats or both. */
void flxi_export_as_keep_dims(flxi_site *s, flx_val *y)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_dtype dtype = (flx_dtype)t->dtype;
    flx_ints axes = site_ints(s, "axes");
    void *attrs = flxi_site_attrs(s);
    flx_type kept = *t;
    if (!attrs)
        return;
    bool keep = site_int(s, "keep_dims");
    flxi_attr_set_int(s->op, attrs, "keep_dims", 0);
    for (size_t i = 0; i < axes.n; i++)
        kept.dims[axes.v[i]] = 1;
    flx_val x = export_is_half(dtype) ? flx_cast(s->g, s->x[0], FLX_F32) : s->x[0];
    flx_val v = flxi_emit1(s, attrs, &x, 1);
    v = export_is_half(dtype) ? flx_cast(s->g, v, dtype) : v;
    y[0] = keep ? flxi_reshape_to(s, v, kept.rank, kept.dims) : v;
}

/* Over no axes: the body once, on init and each element. Others take init for what does not count, and leave it out. */
void flxi_export_as_reduce(flxi_site *s, flx_val *y)
{
    uint32_t n = s->nin / 2;
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    flx_attr body = flx_attr_graph("body", site_graph(s, "body"));
    if (!x)
        return;
    for (uint32_t i = 0; i < n; i++) {
        const flx_type *t = flxi_typeof(s, s->x[i]);
        x[i] = flxi_expand_to(s, s->x[n + i], t->rank, t->dims);
        x[n + i] = s->x[i];
    }
    flx_op(s->g, "map", x, s->nin, &body, 1, y, s->nout);
}

/* ---- Limits ---- */

static flx_val lowest(flxi_site *s, int32_t dtype)
{
    double x = flxi_is_float(dtype) ? -INFINITY : flxi_is_signed(dtype) ? -ldexp(1.0, flxi_int_bits(dtype) - 1) : 0.0;
    return flx_scalar(s->g, (flx_dtype)dtype, x);
}

static flx_val highest(flxi_site *s, int32_t dtype)
{
    if (flxi_is_int(dtype))
        return flx_bit_not(s->g, lowest(s, dtype)); /* a double would round it */
    return flx_scalar(s->g, (flx_dtype)dtype, dtype == FLX_BOOL ? 1.0 : INFINITY);
}

/* ---- Orders ---- */

/* Whether a comes before b: NaN counts as larger than all numbers, or with `nan_first` as the winner either way. */
static flx_val before(flx_graph *g, flx_val a, flx_val b, bool descending, bool nan_first)
{
    int32_t dtype = flx_val_type(g, a) ? flx_val_type(g, a)->dtype : FLX_F32;
    flx_val less = descending ? flx_gt(g, a, b) : flx_lt(g, a, b);
    if (!flxi_is_float(dtype))
        return less;
    flx_val a_nan = flx_ne(g, a, a);
    flx_val b_nan = flx_ne(g, b, b);
    flx_val by_nan = nan_first ? flx_and(g, a_nan, flx_eq(g, b, b)) : flx_and(g, b_nan, flx_eq(g, a, a));
    return flx_or(g, less, by_nan);
}

/* Keeps of (value, position) and (value, position) the one that wins; of equal ones the earlier position. */
static flx_graph *winner_body(flxi_site *s, int32_t dtype, int32_t index, bool largest)
{
    flx_graph *g = flx_graph_new(s->ctx, "winner");
    flx_type value = scalar_of(dtype);
    flx_type position = scalar_of(index);
    if (!g) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return NULL;
    }
    flx_val a = flx_input(g, "a", &value);
    flx_val at_a = flx_input(g, "at_a", &position);
    flx_val b = flx_input(g, "b", &value);
    flx_val at_b = flx_input(g, "at_b", &position);
    flx_val lost = before(g, b, a, largest, true);
    flx_val tie = flx_and(g, flx_not(g, lost), flx_lt(g, at_a, at_b));
    flx_val won = flx_or(g, before(g, a, b, largest, true), tie);
    flx_output(g, flx_where(g, won, a, b), NULL);
    flx_output(g, flx_where(g, won, at_a, at_b), NULL);
    return g;
}

static void write_arg(flxi_site *s, flx_val *y, bool largest)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    int axis = (int)site_int(s, "axis");
    flx_dtype index = t->dims[axis] > INT32_MAX ? FLX_I64 : FLX_I32;
    flx_graph *body = winner_body(s, t->dtype, index, largest);
    flx_val in[4] = {s->x[0], flxi_export_iota(s, index, t, axis), largest ? lowest(s, t->dtype) : highest(s, t->dtype),
                     highest(s, index)};
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    flx_type kept = *t;
    if (!body)
        return;
    kept.dims[axis] = 1;
    flx_reduce(s->g, in, 4, out, 2, body, FLX_INTS(axis));
    flx_graph_release(body);
    y[0] = flx_cast(s->g, out[1], (flx_dtype)site_int(s, "dtype"));
    if (site_int(s, "keep_dims"))
        y[0] = flxi_reshape_to(s, y[0], kept.rank, kept.dims);
}

void flxi_export_as_argmax(flxi_site *s, flx_val *y)
{
    write_arg(s, y, true);
}

void flxi_export_as_argmin(flxi_site *s, flx_val *y)
{
    write_arg(s, y, false);
}

/* Operands a1, b1, a2, b2 …: lexicographic by the first keys. */
static flx_graph *order_body(flxi_site *s, int64_t keys, bool descending)
{
    flx_graph *g = flx_graph_new(s->ctx, "order");
    flx_val less = FLX_NONE;
    flx_val equal = FLX_NONE;
    if (!g) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return NULL;
    }
    for (uint32_t i = 0; i < s->nin; i++) {
        flx_type t = scalar_of(flxi_typeof(s, s->x[i])->dtype);
        char name[24] = "a";
        for (uint32_t k = i, at = 1; at < 2 || k; k /= 10, at++)
            name[at] = (char)('0' + k % 10);
        flx_val a = flx_input(g, name, &t);
        name[0] = 'b';
        flx_val b = flx_input(g, name, &t);
        if ((int64_t)i >= keys)
            continue;
        flx_val ahead = before(g, a, b, descending, descending);
        flx_val behind = before(g, b, a, descending, descending);
        less = i ? flx_or(g, less, flx_and(g, equal, ahead)) : ahead;
        flx_val same = flx_not(g, flx_or(g, ahead, behind));
        equal = i ? flx_and(g, equal, same) : same;
    }
    flx_output(g, less, NULL);
    return g;
}

void flxi_export_as_sort(flxi_site *s, flx_val *y)
{
    flx_graph *body = order_body(s, site_int(s, "num_keys"), site_int(s, "descending"));
    flx_sort_attrs a = FLX_SORT_ATTRS;
    a.axis = site_int(s, "axis");
    a.stable = (int)site_int(s, "stable");
    a.compare = body;
    if (body)
        flx_sort_with(s->g, s->x, s->nin, y, s->nout, &a);
    flx_graph_release(body);
}

/* Values and their positions before, in order. */
static void sort_with_positions(flxi_site *s, int axis, bool descending, flx_val out[2])
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_dtype index = t->dims[axis] > INT32_MAX ? FLX_I64 : FLX_I32;
    flx_val in[2] = {s->x[0], flxi_export_iota(s, index, t, axis)};
    flx_sort_attrs a = FLX_SORT_ATTRS;
    a.axis = axis;
    a.descending = descending;
    out[0] = out[1] = FLX_NONE;
    flx_sort_with(s->g, in, 2, out, 2, &a);
}

void flxi_export_as_argsort(flxi_site *s, flx_val *y)
{
    flx_val out[2];
    sort_with_positions(s, (int)site_int(s, "axis"), site_int(s, "descending"), out);
    y[0] = flx_cast(s->g, out[1], (flx_dtype)site_int(s, "dtype"));
}

static void take_largest(flxi_site *s, int axis, flx_val out[2])
{
    flx_dim k = site_int(s, "k");
    sort_with_positions(s, axis, true, out);
    out[0] = flx_narrow(s->g, out[0], axis, 0, k);
    out[1] = flx_cast(s->g, flx_narrow(s->g, out[1], axis, 0, k), (flx_dtype)site_int(s, "dtype"));
}

void flxi_export_as_topk(flxi_site *s, flx_val *y)
{
    flx_val out[2];
    take_largest(s, flxi_typeof(s, s->x[0])->rank - 1, out);
    y[0] = out[1];
}

void flxi_export_as_top_k(flxi_site *s, flx_val *y)
{
    take_largest(s, (int)site_int(s, "axis"), y);
}

/* ---- Running folds ---- */

/* One entry per axis: `value` on the given one, `rest` on the others. */
static flx_ints one_axis(flxi_site *s, int rank, int axis, int64_t value, int64_t rest)
{
    int64_t *list = flxi_rule_new(s, int64_t, rank);
    for (int i = 0; list && i < rank; i++)
        list[i] = i == axis ? value : rest;
    return (flx_ints){list, list ? (size_t)rank : 0};
}

/* y[i] folds x[0] … x[i]: a window as long as the axis that hangs out over its start. */
static flx_val running(flxi_site *s, flx_val x, flx_val init, flx_combine combine)
{
    const flx_type *t = flxi_typeof(s, x);
    int axis = (int)site_int(s, "axis");
    int64_t extent = t->dims[axis];
    bool reverse = site_int(s, "reverse");
    flx_ints none = one_axis(s, t->rank, axis, 0, 0);
    flx_val y = FLX_NONE;
    if (extent == 0)
        return x;
    if (site_int(s, "exclusive"))
        x = flx_pad(s->g, x, init, one_axis(s, t->rank, axis, reverse ? -1 : 1, 0),
                    one_axis(s, t->rank, axis, reverse ? 1 : -1, 0), none);
    flx_reduce_window_attrs a = FLX_REDUCE_WINDOW_ATTRS;
    a.window = one_axis(s, t->rank, axis, extent, 1);
    a.combine = combine;
    a.pad_low = reverse ? none : one_axis(s, t->rank, axis, extent - 1, 0);
    a.pad_high = reverse ? one_axis(s, t->rank, axis, extent - 1, 0) : none;
    flx_reduce_window_with(s->g, (flx_val[]){x, init}, 2, &y, 1, &a);
    return y;
}

void flxi_export_as_cumsum(flxi_site *s, flx_val *y)
{
    y[0] = running(s, s->x[0], flxi_number(s, s->x[0], 0.0), (flx_combine){"add", NULL});
}

void flxi_export_as_cumprod(flxi_site *s, flx_val *y)
{
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    flx_val x = export_is_half(dtype) ? flx_cast(s->g, s->x[0], FLX_F32) : s->x[0];
    flx_val v = running(s, x, flxi_number(s, x, 1.0), (flx_combine){"mul", NULL});
    y[0] = export_is_half(dtype) ? flx_cast(s->g, v, dtype) : v;
}

void flxi_export_as_cummax(flxi_site *s, flx_val *y)
{
    y[0] = running(s, s->x[0], lowest(s, flxi_typeof(s, s->x[0])->dtype), (flx_combine){"max", NULL});
}

void flxi_export_as_cummin(flxi_site *s, flx_val *y)
{
    y[0] = running(s, s->x[0], highest(s, flxi_typeof(s, s->x[0])->dtype), (flx_combine){"min", NULL});
}

/* log(exp a + exp b); equal ones apart, since infinities have no difference. */
static flx_graph *log_add_body(flxi_site *s, int32_t dtype)
{
    flx_graph *g = flx_graph_new(s->ctx, "log_add");
    flx_type t = scalar_of(dtype);
    if (!g) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
        return NULL;
    }
    flx_val a = flx_input(g, "a", &t);
    flx_val b = flx_input(g, "b", &t);
    flx_val less = flx_log1p(g, flx_exp(g, flx_neg(g, flx_abs(g, flx_sub(g, a, b)))));
    flx_val twice = flx_add(g, a, flx_scalar(g, (flx_dtype)dtype, 0.69314718055994530942));
    flx_output(g, flx_where(g, flx_eq(g, a, b), twice, flx_add(g, flx_max(g, a, b), less)), NULL);
    return g;
}

void flxi_export_as_cumlogsumexp(flxi_site *s, flx_val *y)
{
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    flx_dtype wide = export_is_half(dtype) ? FLX_F32 : dtype;
    flx_val x = export_is_half(dtype) ? flx_cast(s->g, s->x[0], FLX_F32) : s->x[0];
    flx_graph *body = log_add_body(s, wide);
    if (!body)
        return;
    flx_val v = running(s, x, flxi_number(s, x, -INFINITY), (flx_combine){NULL, body});
    flx_graph_release(body);
    y[0] = export_is_half(dtype) ? flx_cast(s->g, v, dtype) : v;
}

/* ---- Windows ---- */

/* Entries for the two leading axes, then those of a list, every `step`-th from `from` on. */
static flx_ints behind_two(flxi_site *s, flx_ints list, size_t from, size_t step, int64_t front)
{
    size_t n = list.n / step;
    int64_t *out = flxi_rule_new(s, int64_t, n + 2);
    if (!out)
        return (flx_ints){0};
    out[0] = out[1] = front;
    for (size_t i = 0; i < n; i++)
        out[i + 2] = list.v[from + i * step];
    return (flx_ints){out, n + 2};
}

void flxi_export_as_pool_argmax(flxi_site *s, flx_val *y)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_ints padding = site_ints(s, "padding");
    flx_dim positions = flxi_static_extent(t, 2, t->rank);
    flx_type row = flx_type_make(FLX_I32, 1, &positions);
    flx_val position = flxi_reshape_to(s, flx_iota(s->g, &row, 0), t->rank - 2, t->dims + 2);
    flx_graph *body = winner_body(s, t->dtype, FLX_I32, true);
    flx_val in[4] = {s->x[0], flxi_expand_to(s, position, t->rank, t->dims), lowest(s, t->dtype), highest(s, FLX_I32)};
    flx_val out[2] = {FLX_NONE, FLX_NONE};
    flx_reduce_window_attrs a = FLX_REDUCE_WINDOW_ATTRS;
    if (!body)
        return;
    a.window = behind_two(s, site_ints(s, "kernel_size"), 0, 1, 1);
    a.strides = behind_two(s, site_ints(s, "stride"), 0, 1, 1);
    a.pad_low = behind_two(s, padding, 0, 2, 0);
    a.pad_high = behind_two(s, padding, 1, 2, 0);
    a.combine = (flx_combine){NULL, body};
    flx_reduce_window_with(s->g, in, 4, out, 2, &a);
    flx_graph_release(body);
    y[0] = out[1];
}

/* ---- Transforms ---- */

/* Complex numbers, scaled as the norm says: backward is how StableHLO scales. */
static flx_val transform(flxi_site *s, flx_val z)
{
    const flx_type *t = flxi_typeof(s, z);
    bool inverse = site_int(s, "inverse");
    if (t->rank < 1)
        return z; /* the graph holds the error */
    double n = (double)t->dims[t->rank - 1];
    double scale = 1.0;
    if (site_says(s, "norm", "ortho"))
        scale = inverse ? sqrt(n) : 1.0 / sqrt(n);
    else if (site_says(s, "norm", "forward"))
        scale = inverse ? n : 1.0 / n;
    else if (site_says(s, "norm", "none"))
        scale = inverse ? n : 1.0;
    flx_val y = flx_fft(s->g, z, inverse, "backward");
    if (scale == 1.0)
        return y;
    flx_val re = flx_real(s->g, y); /* one by one: an infinity times a complex number would be NaN */
    flx_val im = flx_imag(s->g, y);
    return flx_complex(s->g, flx_mul(s->g, re, flxi_number(s, re, scale)),
                       flx_mul(s->g, im, flxi_number(s, im, scale)));
}

/* Real dtypes hold the real parts and then the imaginary ones. */
void flxi_export_as_fft(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    int axis = t->rank - 1;
    flx_dim half = t->dims[axis] / 2;
    if (flxi_is_complex(t->dtype)) {
        y[0] = transform(s, s->x[0]);
        return;
    }
    flx_val z = flx_complex(g, flx_narrow(g, s->x[0], axis, 0, half), flx_narrow(g, s->x[0], axis, half, half));
    flx_val w = transform(s, z);
    y[0] = flx_concat(g, ((flx_val[]){flx_real(g, w), flx_imag(g, w)}), 2, axis);
}

/* ---- Rotary embedding ---- */

/* A table [S, T] or [N, S, T] as [N, 1, S, half] or [N, S, 1, half]; N is 1 in the first case. */
static flx_val angles(flxi_site *s, flx_val table, int64_t half, bool heads_first)
{
    const flx_type *t = flxi_typeof(s, table);
    if (t->rank < 2)
        return table; /* the graph holds the error */
    flx_dim n = t->rank == 3 ? t->dims[0] : 1;
    flx_dim tokens = t->dims[t->rank - 2];
    flx_dim shape[4] = {n, heads_first ? 1 : tokens, heads_first ? tokens : 1, half};
    return flxi_reshape_to(s, flx_narrow(s->g, table, t->rank - 1, 0, half), 4, shape);
}

void flxi_export_as_rope(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_dtype dtype = (flx_dtype)t->dtype;
    bool heads_first = site_says(s, "layout", "bhsd");
    int64_t size = site_int(s, "head_dim");
    int64_t turned = site_int(s, "n_rot");
    int64_t half = turned / 2;
    flx_dim shape[4] = {t->dims[0], t->dims[1], t->rank == 4 ? t->dims[2] : site_int(s, "num_heads"), size};
    flx_val v[3];
    for (int i = 0; i < 3; i++)
        v[i] = export_is_half(dtype) ? flx_cast(g, s->x[i], FLX_F32) : s->x[i];
    flx_val x = flxi_reshape_to(s, v[0], 4, shape);
    flx_val c = angles(s, v[1], half, heads_first);
    flx_val d = angles(s, v[2], half, heads_first);
    flx_val a = flx_narrow(g, x, 3, 0, half);
    flx_val b = flx_narrow(g, x, 3, half, half);
    flx_val parts[3] = {flx_sub(g, flx_mul(g, a, c), flx_mul(g, b, d)), flx_add(g, flx_mul(g, b, c), flx_mul(g, a, d)),
                        flx_narrow(g, x, 3, turned, size - turned)};
    flx_val joined = flxi_reshape_to(s, flx_concat(g, parts, 3, 3), t->rank, t->dims);
    y[0] = export_is_half(dtype) ? flx_cast(g, joined, dtype) : joined;
}
