/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_index.c: elements at positions. Out of range is an error in ONNX, except that positions from -n to -1
   count from the end; the policy `clamp` becomes operations on the positions, and `zero` a choice among the results. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"

onnx_label flxi_onnx_as_i64(const onnx_source *n, onnx_label x, const flx_type *type)
{
    return type->dtype == FLX_I64 ? x : flxi_onnx_put_cast(n->w, x, FLX_I64);
}

static onnx_label put2(const onnx_source *n, const char *operation, onnx_label a, onnx_label b)
{
    const onnx_label in[2] = {a, b};
    onnx_label y = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, operation, in, 2, &y);
    return y;
}

/* The extent of an axis of operand i as a scalar of i64, less a number. */
static onnx_label extent_less(const onnx_source *n, uint32_t i, int64_t axis, int64_t less)
{
    flx_dim extent = flxi_onnx_in_type(n, i)->dims[axis];
    if (flx_dim_is_static(extent))
        return flxi_onnx_put_scalar(n->w, FLX_I64, (double)(extent - less));
    onnx_label x = flxi_onnx_in(n, i), shape = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, "Shape", &x, 1, &shape);
    onnx_label size = put2(n, "Gather", shape, flxi_onnx_put_scalar(n->w, FLX_I64, (double)axis));
    return put2(n, "Sub", size, flxi_onnx_put_scalar(n->w, FLX_I64, (double)less));
}

/* Positions moved into [0, high]. */
static onnx_label clamped(const onnx_source *n, onnx_label at, onnx_label high)
{
    return put2(n, "Max", put2(n, "Min", at, high), flxi_onnx_put_scalar(n->w, FLX_I64, 0));
}

/* y where positions are in range, else zero; positions get `trailing` axes of extent 1. */
static void put_zero_outside(const onnx_source *n, onnx_label y, onnx_label at, onnx_label high, int first,
                             int64_t trailing)
{
    int64_t axes[FLX_MAX_RANK];
    onnx_label low = put2(n, "GreaterOrEqual", at, flxi_onnx_put_scalar(n->w, FLX_I64, 0));
    onnx_label inside = put2(n, "And", low, put2(n, "LessOrEqual", at, high));
    for (int64_t k = 0; k < trailing; k++)
        axes[k] = first + k;
    if (trailing)
        inside = put2(n, "Unsqueeze", inside, flxi_onnx_put_ints(n->w, (flx_ints){axes, (size_t)trailing}));
    const onnx_label in[3] = {inside, y, flxi_onnx_put_scalar(n->w, (flx_dtype)flxi_onnx_out_type(n, 0)->dtype, 0)};
    onnx_label out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Where", in, 3, &out);
}

static void write_along(const onnx_source *n, int64_t absent, bool replaces)
{
    onnx_label word;
    const char *oob = flxi_onnx_word_of(n, "oob", &word);
    const flx_type *x = flxi_onnx_in_type(n, 0), *i = flxi_onnx_in_type(n, 1);
    int64_t axis = flxi_onnx_integer(n, "axis", absent);
    axis += axis < 0 ? x->rank : 0;
    onnx_label at = flxi_onnx_as_i64(n, flxi_onnx_in(n, 1), i), y = flxi_onnx_out(n, 0), high = y;
    bool is_strict = !oob[0] || strcmp(oob, "error") == 0, zeroes = strcmp(oob, "zero") == 0;
    if (!is_strict)
        high = extent_less(n, 0, axis, 1);
    if (zeroes)
        y = flxi_onnx_fresh(n->w);
    const onnx_label in[2] = {flxi_onnx_in(n, 0), is_strict ? at : clamped(n, at, high)};
    flxi_onnx_put(n->w, n->to, in, 2, &y, 1, &ONNX_INT("axis", axis), 1);
    if (zeroes)
        put_zero_outside(n, y, at, high, i->rank, replaces ? x->rank - 1 - axis : 0);
}

void flxi_onnx_write_gather(const onnx_source *n)
{
    write_along(n, 0, true);
}

void flxi_onnx_write_take_along(const onnx_source *n)
{
    write_along(n, -1, false);
}

/* The positions of a window along axis k, moved so that the window fits. */
static onnx_label window(const onnx_source *n, uint32_t k, int64_t size)
{
    onnx_label at = flxi_onnx_as_i64(n, flxi_onnx_in(n, k + 1), flxi_onnx_in_type(n, k + 1));
    const onnx_label range[3] = {flxi_onnx_put_scalar(n->w, FLX_I64, 0),
                                 flxi_onnx_put_scalar(n->w, FLX_I64, (double)size),
                                 flxi_onnx_put_scalar(n->w, FLX_I64, 1)};
    onnx_label steps = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, "Range", range, 3, &steps);
    return put2(n, "Add", clamped(n, at, extent_less(n, 0, k, size)), steps);
}

/* Axis by axis, those apart where the window is all there is. */
void flxi_onnx_write_dynamic_slice(const onnx_source *n)
{
    flx_ints sizes;
    const flx_type *x = flxi_onnx_in_type(n, 0);
    onnx_label y = flxi_onnx_in(n, 0), out = flxi_onnx_out(n, 0);
    if (!flxi_onnx_list(n, "sizes", &sizes))
        sizes = (flx_ints){NULL, 0};
    for (size_t k = 0; k < sizes.n; k++) {
        if (sizes.v[k] == x->dims[k])
            continue;
        if (!flx_dim_is_static(sizes.v[k]))
            flxi_onnx_refuse(n, "symbolic extents");
        const onnx_label in[2] = {y, window(n, (uint32_t)k, sizes.v[k])};
        y = flxi_onnx_fresh(n->w);
        flxi_onnx_put(n->w, "Gather", in, 2, &y, 1, &ONNX_INT("axis", (int64_t)k), 1);
    }
    flxi_onnx_put1(n->w, "Identity", &y, 1, &out);
}

/* A slice with steps of -1, from the last element to beyond the first. */
void flxi_onnx_write_reverse(const onnx_source *n)
{
    int64_t start[FLX_MAX_RANK], end[FLX_MAX_RANK], step[FLX_MAX_RANK];
    flx_ints axes;
    onnx_label x = flxi_onnx_in(n, 0), out = flxi_onnx_out(n, 0);
    if (!flxi_onnx_list(n, "axes", &axes) || axes.n == 0) {
        flxi_onnx_put1(n->w, "Identity", &x, 1, &out);
        return;
    }
    for (size_t i = 0; i < axes.n; i++) {
        start[i] = -1;
        end[i] = INT32_MIN;
        step[i] = -1;
    }
    const onnx_label in[5] = {x, flxi_onnx_put_ints(n->w, (flx_ints){start, axes.n}),
                              flxi_onnx_put_ints(n->w, (flx_ints){end, axes.n}), flxi_onnx_put_ints(n->w, axes),
                              flxi_onnx_put_ints(n->w, (flx_ints){step, axes.n})};
    flxi_onnx_put1(n->w, "Slice", in, 5, &out);
}
