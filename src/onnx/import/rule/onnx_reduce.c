/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_reduce.c: reductions, running sums, sorting. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

typedef struct {
    flx_ints axes;
    bool keep;
    bool is_identity; /* no axes, and that means none rather than all */
} reduction;

static flx_ints all_axes(onnx_site *s, int rank)
{
    int64_t *v = flxi_onnx_new(s, int64_t, rank);
    for (int i = 0; v && i < rank; i++)
        v[i] = i;
    return (flx_ints){v, v ? (size_t)rank : 0};
}

/* Axes are an attribute, and an operand from version 18 on (ReduceSum: 13). */
static reduction read_reduction(onnx_site *s)
{
    int rank = flxi_onnx_rank(s, s->x[0]);
    flx_ints given = flxi_onnx_ints_at(s, 1, "axes");
    reduction r = {.keep = flxi_onnx_int(s, "keepdims", 1) != 0};
    r.is_identity = given.n == 0 && flxi_onnx_int(s, "noop_with_empty_axes", 0);
    r.axes = given.n ? flxi_onnx_axes(s, given, rank) : all_axes(s, rank);
    return r;
}

static flx_val reduce(onnx_site *s, const char *op, flx_val x, const reduction *r)
{
    if (r->is_identity)
        return x;
    flx_attr a[] = {flx_attr_ints("axes", r->axes), flx_attr_int("keep_dims", r->keep)};
    return flx_op1(s->g, op, &x, 1, a, 2);
}

void flxi_onnx_import_reduce(onnx_site *s)
{
    reduction r = read_reduction(s);
    s->y[0] = reduce(s, s->row->ours, s->x[0], &r);
}

/* Integers: the sum divided by the count. */
void flxi_onnx_import_reduce_mean(onnx_site *s)
{
    reduction r = read_reduction(s);
    flx_val x = s->x[0];
    if (flxi_is_float((int32_t)flxi_onnx_dtype(s, x))) {
        s->y[0] = reduce(s, "reduce_mean", x, &r);
        return;
    }
    flx_val mean = reduce(s, "reduce_mean", flxi_onnx_cast(s, x, FLX_F64), &r);
    s->y[0] = flxi_onnx_cast(s, mean, flxi_onnx_dtype(s, x));
}

void flxi_onnx_import_reduce_l1(onnx_site *s)
{
    reduction r = read_reduction(s);
    s->y[0] = reduce(s, "reduce_sum", flx_abs(s->g, s->x[0]), &r);
}

void flxi_onnx_import_reduce_l2(onnx_site *s)
{
    reduction r = read_reduction(s);
    flx_dtype d = flxi_onnx_dtype(s, s->x[0]);
    bool is_int = !flxi_is_float((int32_t)d);
    flx_val x = is_int ? flxi_onnx_cast(s, s->x[0], FLX_F64) : s->x[0];
    flx_val y = flx_sqrt(s->g, reduce(s, "reduce_sum", flx_square(s->g, x), &r));
    s->y[0] = flxi_onnx_cast(s, y, d);
}

void flxi_onnx_import_reduce_sum_square(onnx_site *s)
{
    reduction r = read_reduction(s);
    s->y[0] = reduce(s, "reduce_sum", flx_square(s->g, s->x[0]), &r);
}

void flxi_onnx_import_reduce_log_sum(onnx_site *s)
{
    reduction r = read_reduction(s);
    s->y[0] = flx_log(s->g, reduce(s, "reduce_sum", s->x[0], &r));
}

/* The maximum is taken out where it is finite, so that nothing overflows. */
void flxi_onnx_import_reduce_log_sum_exp(onnx_site *s)
{
    reduction r = read_reduction(s);
    flx_val x = s->x[0];
    if (r.is_identity) {
        s->y[0] = x;
        return;
    }
    reduction kept = {.axes = r.axes, .keep = true};
    flx_val top = flx_stop_gradient(s->g, reduce(s, "reduce_max", x, &kept));
    top = flx_where(s->g, flx_is_finite(s->g, top), top, flxi_onnx_number(s, x, 0));
    flx_val sum = reduce(s, "reduce_sum", flx_exp(s->g, flx_sub(s->g, x, top)), &kept);
    flx_val y = flx_add(s->g, flx_log(s->g, sum), top);
    s->y[0] = r.keep ? y : flx_squeeze(s->g, y, .axes = r.axes);
}

/* ---- Positions ---- */

void flxi_onnx_import_arg_extreme(onnx_site *s)
{
    flx_val x = s->x[0];
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, x));
    bool last = flxi_onnx_int(s, "select_last_index", 0) != 0;
    if (last)
        x = flx_reverse(s->g, x, .axes = FLX_INTS(axis));
    flx_attr a[] = {flx_attr_int("axis", axis), flx_attr_int("keep_dims", flxi_onnx_int(s, "keepdims", 1) != 0),
                    flx_attr_word("dtype", "i64")};
    flx_val at = flx_op1(s->g, s->row->ours, &x, 1, a, 3);
    if (last) /* n - 1 - position from the end */
        at = flx_sub(s->g, flx_sub(s->g, flx_dim_size(s->g, x, .axis = axis), flx_scalar(s->g, FLX_I64, 1)), at);
    s->y[0] = at;
}

void flxi_onnx_import_top_k(onnx_site *s)
{
    flx_val x = s->x[0];
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", -1), flxi_onnx_rank(s, x));
    flx_ints k = {(const int64_t[]){flxi_onnx_int(s, "k", 0)}, 1};
    if (s->version >= 10 && !flxi_onnx_extents(s, 1, &k))
        return;
    bool largest = flxi_onnx_int(s, "largest", 1) != 0;
    flx_val order = flx_argsort(s->g, x, .axis = axis, .descending = largest, .dtype = FLX_I64);
    s->y[1] = flx_narrow(s->g, order, .axis = axis, .start = 0, .len = k.n ? k.v[0] : 0);
    s->y[0] = flx_take_along(s->g, x, s->y[1], .axis = axis);
}

/* ---- Running sums ---- */

void flxi_onnx_import_cumulative(onnx_site *s)
{
    flx_ints axis;
    if (!flxi_onnx_extents(s, 1, &axis) || axis.n != 1)
        return;
    flx_attr a[] = {flx_attr_int("axis", flxi_onnx_axis(s, axis.v[0], flxi_onnx_rank(s, s->x[0]))),
                    flx_attr_int("exclusive", flxi_onnx_int(s, "exclusive", 0)),
                    flx_attr_int("reverse", flxi_onnx_int(s, "reverse", 0))};
    s->y[0] = flx_op1(s->g, s->row->ours, s->x, 1, a, 3);
}
