/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_order.c: orders, scatters and quantised numbers. TopK of all elements sorts: of equal ones the first
   comes first there too, so that the order is stable. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"

/* ---- Order ---- */

static int64_t axis_of(const onnx_source *n)
{
    int64_t axis = flxi_onnx_integer(n, "axis", -1);
    return axis < 0 ? axis + flxi_onnx_in_type(n, 0)->rank : axis;
}

/* The extent of the axis, which may be symbolic, as a vector of one element. */
static onnx_label extent_of(const onnx_source *n, onnx_label x, int64_t axis)
{
    onnx_label extent = flxi_onnx_fresh(n->w);
    const onnx_setting settings[] = {ONNX_INT("start", axis), ONNX_INT("end", axis + 1)};
    flxi_onnx_put(n->w, "Shape", &x, 1, &extent, 1, settings, 2);
    return extent;
}

/* The first k elements of operand 0 in order, and their positions in i64. */
static void put_top(const onnx_source *n, onnx_label k, bool descends, onnx_label *values, onnx_label *positions)
{
    const onnx_label in[2] = {flxi_onnx_in(n, 0), k};
    const onnx_setting settings[] = {ONNX_INT("axis", axis_of(n)), ONNX_INT("largest", descends),
                                     ONNX_INT("sorted", 1)};
    *positions = flxi_onnx_fresh(n->w);
    onnx_label out[2] = {*values, *positions};
    flxi_onnx_put(n->w, "TopK", in, 2, out, 2, settings, 3);
}

static void put_cast(const onnx_source *n, onnx_label x, uint32_t result)
{
    onnx_label out = flxi_onnx_out(n, result);
    flxi_onnx_put(n->w, "Cast", &x, 1, &out, 1,
                  &ONNX_INT("to", flxi_onnx_element_of(flxi_onnx_out_type(n, result)->dtype)), 1);
}

void flxi_onnx_write_top_k(const onnx_source *n)
{
    int64_t k = flxi_onnx_integer(n, "k", 1);
    onnx_label values = flxi_onnx_out(n, 0), positions;
    put_top(n, flxi_onnx_put_ints(n->w, (flx_ints){&k, 1}), true, &values, &positions);
    put_cast(n, positions, 1);
}

void flxi_onnx_write_topk(const onnx_source *n)
{
    int64_t k = flxi_onnx_integer(n, "k", 1);
    onnx_label values = flxi_onnx_fresh(n->w), positions;
    put_top(n, flxi_onnx_put_ints(n->w, (flx_ints){&k, 1}), true, &values, &positions);
    put_cast(n, positions, 0);
}

void flxi_onnx_write_argsort(const onnx_source *n)
{
    onnx_label values = flxi_onnx_fresh(n->w), positions;
    put_top(n, extent_of(n, flxi_onnx_in(n, 0), axis_of(n)), flxi_onnx_integer(n, "descending", 0), &values,
            &positions);
    put_cast(n, positions, 0);
}

/* Operands after the first are taken along at its positions. */
void flxi_onnx_write_sort(const onnx_source *n)
{
    onnx_label values = flxi_onnx_out(n, 0), positions;
    if (flxi_onnx_node_body(n, "compare") || flxi_onnx_integer(n, "num_keys", 1) != 1) {
        flxi_onnx_refuse(n, "an order by several keys or by a function");
        return;
    }
    put_top(n, extent_of(n, flxi_onnx_in(n, 0), axis_of(n)), flxi_onnx_integer(n, "descending", 0), &values,
            &positions);
    for (uint32_t i = 1; i < n->nin; i++) {
        onnx_label in[2] = {flxi_onnx_in(n, i), positions}, out = flxi_onnx_out(n, i);
        flxi_onnx_put(n->w, "GatherElements", in, 2, &out, 1, &ONNX_INT("axis", axis_of(n)), 1);
    }
}

/* ---- Scatters ---- */

static bool is_error_if_out_of_range(const onnx_source *n)
{
    onnx_label word;
    const char *oob = flxi_onnx_word_of(n, "oob", &word);
    if (!oob[0] || strcmp(oob, "error") == 0)
        return true;
    flxi_onnx_refuse(n, "indices out of range that are no error");
    return false;
}

/* Rows of zeros, to which updates are added. */
void flxi_onnx_write_scatter_add(const onnx_source *n)
{
    const flx_type *t = flxi_onnx_out_type(n, 0), *at = flxi_onnx_in_type(n, 1);
    int64_t last = at->rank;
    if (!is_error_if_out_of_range(n))
        return;
    for (int i = 0; i < t->rank; i++)
        if (!flx_dim_is_static(t->dims[i]))
            flxi_onnx_refuse(n, "symbolic extents");
    onnx_label wide[2] = {flxi_onnx_put_scalar(n->w, (flx_dtype)t->dtype, 0),
                          flxi_onnx_put_ints(n->w, (flx_ints){t->dims, (size_t)t->rank})};
    onnx_label point[2] = {flxi_onnx_as_i64(n, flxi_onnx_in(n, 1), at), flxi_onnx_put_ints(n->w, (flx_ints){&last, 1})};
    onnx_label in[3] = {flxi_onnx_fresh(n->w), flxi_onnx_fresh(n->w), flxi_onnx_in(n, 0)}, out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Expand", wide, 2, &in[0]);
    flxi_onnx_put1(n->w, "Unsqueeze", point, 2, &in[1]);
    flxi_onnx_put(n->w, "ScatterND", in, 3, &out, 1, &ONNX_TEXT("reduction", "add"), 1);
}

/* Whether the list has `count` numbers that begin with `first`; it may be absent if there are none. */
static bool is_range(const onnx_source *n, const char *key, int64_t first, size_t count)
{
    flx_ints v;
    if (!flxi_onnx_list(n, key, &v))
        return count == 0;
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] != first + (int64_t)i)
            return false;
    return v.n == count;
}

/* ScatterND is the case in which the last axis of the indices selects along the first axes of the operand, and updates
   are whole slices of the others. */
void flxi_onnx_write_scatter_nd(const onnx_source *n)
{
    static const char *const ours[] = {"add", "mul", "max", "min", "replace", "set"};
    static const char *const theirs[] = {"add", "mul", "max", "min", "none", "none"};
    const flx_type *x = flxi_onnx_in_type(n, 0), *at = flxi_onnx_in_type(n, 1), *u = flxi_onnx_in_type(n, 2);
    flx_ints selected;
    onnx_label word;
    const char *combine = flxi_onnx_word_of(n, "combine", &word), *reduction = NULL;
    int64_t vector = flxi_onnx_integer(n, "index_vector_axis", at->rank - 1);
    bool plain = flxi_onnx_list(n, "start_index_map", &selected) && vector == at->rank - 1 &&
                 is_range(n, "start_index_map", 0, selected.n) && is_range(n, "collapsed_axes", 0, selected.n) &&
                 is_range(n, "operand_batching_axes", 0, 0) && is_range(n, "indices_batching_axes", 0, 0) &&
                 is_range(n, "offset_axes", at->rank - 1, (size_t)x->rank - selected.n) &&
                 u->rank == at->rank - 1 + x->rank - (int)selected.n;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(combine[0] ? combine : "add", ours[i]) == 0)
            reduction = theirs[i];
    for (int i = 0; plain && i < x->rank - (int)selected.n; i++)
        plain = u->dims[at->rank - 1 + i] == x->dims[(int)selected.n + i];
    if (!plain || !reduction) {
        flxi_onnx_refuse(n, "windows, batches or this way to combine");
        return;
    }
    if (!is_error_if_out_of_range(n))
        return;
    onnx_label in[3] = {flxi_onnx_in(n, 0), flxi_onnx_as_i64(n, flxi_onnx_in(n, 1), at), flxi_onnx_in(n, 2)};
    onnx_label out = flxi_onnx_out(n, 0);
    flxi_onnx_put(n->w, "ScatterND", in, 3, &out, 1, &ONNX_TEXT("reduction", reduction), 1);
}

/* ---- Quantised numbers ---- */

/* QuantizeLinear and DequantizeLinear, whose scale has the floating dtype. */
void flxi_onnx_write_quantize(const onnx_source *n)
{
    bool narrows = strcmp(n->op, "quantize") == 0;
    flx_dtype real = (flx_dtype)(narrows ? flxi_onnx_in_type(n, 0) : flxi_onnx_out_type(n, 0))->dtype;
    flx_reals scales;
    flx_ints zeros;
    double points[256];
    int64_t axis = flxi_onnx_integer(n, "axis", FLX_DEFAULT);
    bool is_scalar = axis == FLX_DEFAULT;
    if ((narrows && flxi_onnx_out_type(n, 0)->dtype != FLX_I8) || real == FLX_F64) {
        flxi_onnx_refuse(n, "i32 or f64");
        return;
    }
    if (!flxi_onnx_numbers(n, "scales", &scales) || !flxi_onnx_list(n, "zero_points", &zeros) || zeros.n > 256) {
        flxi_onnx_refuse(n, "this many zero points");
        return;
    }
    for (size_t i = 0; i < zeros.n; i++)
        points[i] = (double)zeros.v[i];
    onnx_label in[3] = {flxi_onnx_in(n, 0), flxi_onnx_put_numbers(n->w, real, scales, is_scalar),
                        flxi_onnx_put_numbers(n->w, FLX_I8, (flx_reals){points, zeros.n}, is_scalar)};
    onnx_label out = flxi_onnx_out(n, 0);
    flxi_onnx_put(n->w, n->to, in, 3, &out, 1, &ONNX_INT("axis", axis), !is_scalar);
}
