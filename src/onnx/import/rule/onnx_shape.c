/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_shape.c: operations that move elements, and those that make tensors. */
#include "base/context.h"
#include "graph/type/dim.h"
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <math.h>

/* ---- Constants ---- */

static flx_val literal(onnx_site *s, flx_dtype dtype, const void *data, int rank, size_t n)
{
    flx_type type = flx_type_make(dtype, rank, &(flx_dim){(flx_dim)n});
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(flx_graph_context(s->g), &type, data, &err);
    if (!t) {
        flxi_graph_fail(s->g, &err);
        return FLX_NONE;
    }
    flx_val v = flx_const(s->g, .type = &type, .data = t);
    flx_tensor_release(t);
    return v;
}

static flx_val literal_floats(onnx_site *s, const double *v, size_t n, int rank)
{
    float *f = flxi_onnx_new(s, float, n);
    for (size_t i = 0; f && i < n; i++)
        f[i] = (float)v[i];
    return f ? literal(s, FLX_F32, f, rank, n) : FLX_NONE;
}

void flxi_onnx_import_constant(onnx_site *s)
{
    const onnx_attr *a;
    if (flxi_onnx_constant_texts(s))
        return;
    if ((a = flxi_onnx_attr(s, "value")) && a->t)
        s->y[0] = flxi_onnx_constant(s, a->t, &s->out[0].element);
    else if ((a = flxi_onnx_attr(s, "value_int")))
        s->y[0] = literal(s, FLX_I64, &a->i, 0, 1);
    else if ((a = flxi_onnx_attr(s, "value_ints")))
        s->y[0] = literal(s, FLX_I64, a->ints, 1, a->num_ints);
    else if ((a = flxi_onnx_attr(s, "value_float")))
        s->y[0] = literal_floats(s, &a->f, 1, 0);
    else if ((a = flxi_onnx_attr(s, "value_floats")))
        s->y[0] = literal_floats(s, a->floats, a->num_floats, 1);
    else
        flxi_onnx_unsupported(s, "a value that is not a tensor of numbers");
}

void flxi_onnx_import_constant_of_shape(onnx_site *s)
{
    flx_ints shape;
    const onnx_attr *a = flxi_onnx_attr(s, "value");
    flx_val v = a && a->t ? flxi_onnx_constant(s, a->t, &s->out[0].element) : flx_scalar(s->g, FLX_F32, 0);
    if (!flxi_onnx_extents(s, 0, &shape))
        return;
    s->y[0] = flxi_onnx_fill(s, flx_reshape(s->g, v, .shape = FLX_NO_INTS), shape);
}

void flxi_onnx_import_shape(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    int64_t start = flxi_onnx_int(s, "start", 0);
    int64_t end = flxi_onnx_int(s, "end", t->rank);
    start = start < 0 ? start + t->rank : start;
    end = end < 0 ? end + t->rank : end;
    start = start < 0 ? 0 : start > t->rank ? t->rank : start;
    end = end > t->rank ? t->rank : end < start ? start : end;
    if (flxi_type_is_static(t) || start == end) {
        s->y[0] = literal(s, FLX_I64, t->dims + start, 1, (size_t)(end - start));
        return;
    }
    flx_val sizes[FLX_MAX_RANK];
    for (int64_t i = start; i < end; i++)
        sizes[i - start] = flx_dim_size(s->g, s->x[0], .axis = i);
    s->y[0] = flx_stack(s->g, sizes, (size_t)(end - start), .axis = 0);
}

void flxi_onnx_import_size(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    flx_val n = flx_scalar(s->g, FLX_I64, 1);
    for (int i = 0; i < t->rank; i++)
        n = flx_mul(s->g, n, flx_dim_size(s->g, s->x[0], .axis = i));
    s->y[0] = n;
}

/* The number of elements must be known. Integers are exact; the steps of floats are multiplied, not added up. */
void flxi_onnx_import_range(onnx_site *s)
{
    flx_reals v[3];
    for (size_t i = 0; i < 3; i++)
        if (!flxi_onnx_known_reals(s, i, &v[i]) || v[i].n != 1)
            return;
    double n = ceil((v[1].v[0] - v[0].v[0]) / v[2].v[0]);
    if (v[2].v[0] == 0) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "the step is 0");
        return;
    }
    if (!(n < 1e9)) {
        flxi_onnx_fail(s, FLX_E_SIZE, NULL, "it has more than 1000000000 elements");
        return;
    }
    flx_type type = flx_type_make(flxi_onnx_dtype(s, s->x[0]), 1, &(flx_dim){n > 0 ? (flx_dim)n : 0});
    flx_val steps = flx_mul(s->g, flx_iota(s->g, .type = &type), flx_reshape(s->g, s->x[2], .shape = FLX_NO_INTS));
    s->y[0] = flx_add(s->g, flx_reshape(s->g, s->x[0], .shape = FLX_NO_INTS), steps);
}

void flxi_onnx_import_eye_like(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    int64_t element = flxi_onnx_int(s, "dtype", 0);
    const onnx_element *e = flxi_onnx_element((int32_t)element);
    if (t->rank != 2) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand must be a matrix");
        return;
    }
    s->y[0] = flx_eye(s->g, .n = t->dims[0], .m = t->dims[1], .k = flxi_onnx_int(s, "k", 0),
                      .dtype = e ? e->carrier : (flx_dtype)t->dtype);
}

/* ---- Other shapes ---- */

/* 0 copies an extent, -1 is inferred. */
void flxi_onnx_import_reshape(onnx_site *s)
{
    flx_ints shape = flxi_onnx_ints_at(s, 1, "shape");
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    bool allow_zero = flxi_onnx_int(s, "allowzero", 0) != 0;
    int64_t *v = flxi_onnx_new(s, int64_t, shape.n);
    bool is_empty = false;
    for (int i = 0; i < t->rank; i++)
        is_empty |= t->dims[i] == 0;
    for (size_t i = 0; v && i < shape.n; i++) {
        v[i] = shape.v[i];
        if (v[i] == 0 && !allow_zero)
            v[i] = flxi_onnx_dim(s, s->x[0], (int)i);
    }
    if (!v || flxi_onnx_failed(s))
        return;
    for (size_t i = 0; is_empty && i < shape.n; i++) /* with no elements nothing can be inferred */
        if (v[i] == -1) {
            v[i] = 0;
            bool other = false;
            for (size_t k = 0; k < shape.n; k++)
                other |= k != i && v[k] == 0;
            v[i] = other ? 1 : 0;
        }
    s->y[0] = flx_reshape(s->g, s->x[0], .shape = {v, shape.n});
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_flatten(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    int64_t given = flxi_onnx_int(s, "axis", 1);
    int axis = given == t->rank ? t->rank : flxi_onnx_axis(s, given, t->rank);
    s->y[0] = flx_reshape(
        s->g, s->x[0],
        .shape = FLX_INTS(flxi_dims_product(s->g->ctx, t, 0, axis), flxi_dims_product(s->g->ctx, t, axis, t->rank)));
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_transpose(onnx_site *s)
{
    flx_ints perm = flxi_onnx_ints(s, "perm");
    s->y[0] = perm.n ? flx_transpose(s->g, s->x[0], .perm = perm) : flx_transpose(s->g, s->x[0]);
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_squeeze(onnx_site *s)
{
    flx_ints axes = flxi_onnx_ints_at(s, 1, "axes");
    int rank = flxi_onnx_rank(s, s->x[0]);
    if (flxi_onnx_failed(s))
        return;
    s->y[0] = axes.v ? flx_squeeze(s->g, s->x[0], .axes = flxi_onnx_axes(s, axes, rank)) : flx_squeeze(s->g, s->x[0]);
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_unsqueeze(onnx_site *s)
{
    flx_ints axes = flxi_onnx_ints_at(s, 1, "axes");
    int rank = flxi_onnx_rank(s, s->x[0]) + (int)axes.n;
    if (flxi_onnx_failed(s))
        return;
    s->y[0] = axes.n ? flx_unsqueeze(s->g, s->x[0], .axes = flxi_onnx_axes(s, axes, rank)) : s->x[0];
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_expand(onnx_site *s)
{
    flx_ints shape;
    if (!flxi_onnx_extents(s, 1, &shape))
        return;
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    int rank = (int)shape.n > t->rank ? (int)shape.n : t->rank;
    flx_dim dims[FLX_MAX_RANK];
    if (rank > FLX_MAX_RANK) {
        flxi_onnx_fail(s, FLX_E_SIZE, NULL, "a shape of %d axes", rank);
        return;
    }
    for (int i = 0; i < rank; i++) { /* both broadcast to each other */
        int a = i - (rank - t->rank);
        int b = i - (rank - (int)shape.n);
        flx_dim mine = a >= 0 ? t->dims[a] : 1;
        flx_dim wanted = b >= 0 ? shape.v[b] : 1;
        dims[i] = wanted == 1 ? mine : wanted;
    }
    s->y[0] = flx_expand(s->g, s->x[0], .shape = {dims, (size_t)rank});
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_tile(onnx_site *s)
{
    flx_ints repeats;
    if (flxi_onnx_extents(s, 1, &repeats))
        s->y[0] = repeats.n ? flx_tile(s->g, s->x[0], .repeats = repeats) : s->x[0];
}

void flxi_onnx_import_concat(onnx_site *s)
{
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 1), flxi_onnx_rank(s, s->x[0]));
    s->y[0] = flx_concat(s->g, s->x, s->nx, .axis = axis);
    s->out[0].element = s->in[0].element;
}

/* Sizes of the parts: given, or as equal as possible. */
static flx_ints split_sizes(onnx_site *s, int axis)
{
    flx_ints given = flxi_onnx_ints_at(s, 1, "split");
    flx_dim extent = flxi_onnx_dim(s, s->x[0], axis);
    int64_t n = flxi_onnx_int(s, "num_outputs", (int64_t)s->ny);
    if (given.n || flxi_onnx_failed(s))
        return given;
    int64_t *v = flxi_onnx_new(s, int64_t, n > 0 ? n : 0);
    if (!v || n <= 0 || n > 1 << 20)
        return (flx_ints){NULL, 0};
    if (!flx_dim_is_static(extent)) {
        for (int64_t i = 0; i < n; i++)
            v[i] = flx_dim_div(s->g->ctx, extent, n);
        return (flx_ints){v, (size_t)n};
    }
    int64_t part = (extent + n - 1) / n;
    for (int64_t i = 0; i < n; i++) {
        int64_t left = extent - i * part;
        v[i] = left < 0 ? 0 : left < part ? left : part;
    }
    return (flx_ints){v, (size_t)n};
}

void flxi_onnx_import_split(onnx_site *s)
{
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, s->x[0]));
    flx_ints sizes = split_sizes(s, axis);
    if (sizes.n == 0 || sizes.n < s->ny) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "it has %zu results for %zu parts", s->ny, sizes.n);
        return;
    }
    flx_split(s->g, s->x[0], s->y, s->ny, .sizes = sizes, .axis = axis);
}

/* ---- Slices ---- */

typedef struct {
    int64_t start[FLX_MAX_RANK], limit[FLX_MAX_RANK], step[FLX_MAX_RANK];
    int64_t reversed[FLX_MAX_RANK];
    size_t num_reversed;
} slices;

static int64_t bounded(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* One axis of a static extent; a negative step counts from the end of the reversed axis. */
static void slice_static(slices *r, int axis, int64_t n, int64_t start, int64_t end, int64_t step)
{
    if (start < 0)
        start += n;
    if (end < 0)
        end = end < -n ? -n - 1 + n : end + n;
    if (step > 0) {
        r->start[axis] = bounded(start, 0, n);
        r->limit[axis] = bounded(end, r->start[axis], n);
        r->step[axis] = step;
        return;
    }
    start = bounded(start, -1, n - 1);
    end = bounded(end, -1, start);
    r->reversed[r->num_reversed++] = axis;
    r->start[axis] = n - 1 - start;
    r->limit[axis] = n - 1 - end;
    r->step[axis] = -step;
}

/* One axis of a symbolic extent: what can be said without its number. */
static bool slice_symbolic(onnx_site *s, slices *r, int axis, flx_dim n, flx_dim start, flx_dim end, int64_t step)
{
    flx_context *ctx = s->g->ctx;
    if (step != 1) {
        flxi_onnx_unsupported(s, "a step along an axis of a symbolic extent");
        return false;
    }
    r->start[axis] = flxi_dim_is_number(start) && start < 0 ? flx_dim_add(ctx, n, start) : start;
    if (!flxi_dim_is_number(end))
        r->limit[axis] = end;
    else
        r->limit[axis] = end < 0 ? flx_dim_add(ctx, n, end) : end >= INT32_MAX ? n : end;
    r->step[axis] = 1;
    return true;
}

static bool read_slices(onnx_site *s, slices *r, flx_ints starts, flx_ints ends, flx_ints axes, flx_ints steps)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    for (int i = 0; i < t->rank; i++) {
        r->start[i] = 0;
        r->limit[i] = t->dims[i];
        r->step[i] = 1;
    }
    for (size_t i = 0; i < starts.n; i++) {
        int axis = flxi_onnx_axis(s, axes.n ? axes.v[i] : (int64_t)i, t->rank);
        int64_t step = steps.n ? steps.v[i] : 1;
        if (flxi_onnx_failed(s) || step == 0 || step == INT64_MIN)
            return false;
        if (flx_dim_is_static(t->dims[axis]) && flxi_dim_is_number(starts.v[i]) && flxi_dim_is_number(ends.v[i]))
            slice_static(r, axis, t->dims[axis], starts.v[i], ends.v[i], step);
        else if (!slice_symbolic(s, r, axis, t->dims[axis], starts.v[i], ends.v[i], step))
            return false;
    }
    return true;
}

void flxi_onnx_import_slice(onnx_site *s)
{
    bool old = s->version < 10;
    flx_ints starts = flxi_onnx_ints_at(s, 1, old ? "starts" : NULL);
    flx_ints ends = flxi_onnx_ints_at(s, 2, old ? "ends" : NULL);
    flx_ints axes = flxi_onnx_ints_at(s, 3, old ? "axes" : NULL);
    flx_ints steps = flxi_onnx_ints_at(s, 4, NULL);
    size_t rank = (size_t)flxi_onnx_rank(s, s->x[0]);
    slices r = {.num_reversed = 0};
    if (flxi_onnx_failed(s))
        return;
    if (starts.n != ends.n || starts.n > rank || (axes.n && axes.n != starts.n) || (steps.n && steps.n != starts.n)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its lists of starts, ends, axes and steps do not fit");
        return;
    }
    if (!read_slices(s, &r, starts, ends, axes, steps))
        return;
    flx_val x = s->x[0];
    if (r.num_reversed)
        x = flx_reverse(s->g, x, .axes = {r.reversed, r.num_reversed});
    s->y[0] = flx_slice(s->g, x, .start = {r.start, rank}, .limit = {r.limit, rank}, .stride = {r.step, rank});
    s->out[0].element = s->in[0].element;
}

/* ---- Padding ---- */

/* Position i of the padded axis as one of the axis itself. */
static int64_t padded_position(const char *mode, int64_t i, int64_t n)
{
    if (strcmp(mode, "edge") == 0 || n == 1)
        return bounded(i, 0, n - 1);
    if (strcmp(mode, "wrap") == 0)
        return (i % n + n) % n;
    int64_t period = 2 * (n - 1);
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

static flx_val pad_by_positions(onnx_site *s, flx_val x, int axis, int64_t low, int64_t high, const char *mode)
{
    flx_dim n = flxi_onnx_dim(s, x, axis);
    if (low == 0 && high == 0)
        return x;
    if (!flx_dim_is_static(n) || n == 0 || n + low + high < 0) {
        flxi_onnx_unsupported(s, "mode %s along an axis of this extent", mode);
        return x;
    }
    int64_t total = n + low + high;
    int64_t *at = flxi_onnx_new(s, int64_t, total);
    for (int64_t i = 0; at && i < total; i++)
        at[i] = padded_position(mode, i - low, n);
    return at ? flx_gather(s->g, x, flxi_onnx_vector(s, at, (size_t)total), .axis = axis) : x;
}

static flx_val pad_value(onnx_site *s)
{
    flx_val x = s->x[0];
    if (s->version < 11)
        return flxi_onnx_number(s, x, flxi_onnx_real(s, "value", 0));
    return flxi_onnx_given(s->x[2]) ? flx_reshape(s->g, s->x[2], .shape = FLX_NO_INTS) : flxi_onnx_number(s, x, 0);
}

void flxi_onnx_import_pad(onnx_site *s)
{
    flx_val x = s->x[0];
    int rank = flxi_onnx_rank(s, x);
    flx_ints pads = flxi_onnx_ints_at(s, 1, s->version < 2 ? "paddings" : "pads");
    flx_ints axes = flxi_onnx_ints_at(s, 3, NULL);
    const char *mode = flxi_onnx_word(s, "mode", "constant");
    int64_t low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    size_t n = axes.n ? axes.n : (size_t)rank;
    if (flxi_onnx_failed(s))
        return;
    if (pads.n != 2 * n) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "it has %zu pads for %zu axes", pads.n, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int axis = axes.n ? flxi_onnx_axis(s, axes.v[i], rank) : (int)i;
        low[axis] = pads.v[i];
        high[axis] = pads.v[n + i];
    }
    if (strcmp(mode, "constant") == 0) {
        s->y[0] = flx_pad(s->g, x, pad_value(s), .low = {low, (size_t)rank}, .high = {high, (size_t)rank});
        return;
    }
    for (int i = 0; i < rank; i++)
        x = pad_by_positions(s, x, i, low[i], high[i], mode);
    s->y[0] = x;
}

/* ---- Blocks ---- */

void flxi_onnx_import_depth_to_space(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    int64_t b = flxi_onnx_int(s, "blocksize", 1);
    if (t->rank != 4 || b < 1 || !flxi_type_is_static(t)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand must be [N, C, H, W]");
        return;
    }
    flx_dim n = t->dims[0], c = t->dims[1], h = t->dims[2], w = t->dims[3];
    bool crd = strcmp(flxi_onnx_word(s, "mode", "DCR"), "CRD") == 0;
    flx_val x = crd ? flx_reshape(s->g, s->x[0], .shape = FLX_INTS(n, c / (b * b), b, b, h, w))
                    : flx_reshape(s->g, s->x[0], .shape = FLX_INTS(n, b, b, c / (b * b), h, w));
    x = crd ? flx_transpose(s->g, x, .perm = FLX_INTS(0, 1, 4, 2, 5, 3))
            : flx_transpose(s->g, x, .perm = FLX_INTS(0, 3, 4, 1, 5, 2));
    s->y[0] = flx_reshape(s->g, x, .shape = FLX_INTS(n, c / (b * b), h * b, w * b));
}

void flxi_onnx_import_space_to_depth(onnx_site *s)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    int64_t b = flxi_onnx_int(s, "blocksize", 1);
    if (t->rank != 4 || b < 1 || !flxi_type_is_static(t)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand must be [N, C, H, W]");
        return;
    }
    flx_dim n = t->dims[0], c = t->dims[1], h = t->dims[2], w = t->dims[3];
    flx_val x = flx_reshape(s->g, s->x[0], .shape = FLX_INTS(n, c, h / b, b, w / b, b));
    bool crd = strcmp(flxi_onnx_word(s, "mode", "DCR"), "CRD") == 0;
    x = crd ? flx_transpose(s->g, x, .perm = FLX_INTS(0, 1, 3, 5, 2, 4))
            : flx_transpose(s->g, x, .perm = FLX_INTS(0, 3, 5, 1, 2, 4));
    s->y[0] = flx_reshape(s->g, x, .shape = FLX_INTS(n, c * b * b, h / b, w / b));
}

void flxi_onnx_import_trilu(onnx_site *s)
{
    flx_ints k = {(const int64_t[]){0}, 1};
    if (s->in[1].kind == ONNX_T_TENSOR && !flxi_onnx_extents(s, 1, &k))
        return;
    int64_t shift = k.n ? k.v[0] : 0;
    s->y[0] = flxi_onnx_int(s, "upper", 1) ? flx_triu(s->g, s->x[0], .k = shift) : flx_tril(s->g, s->x[0], .k = shift);
}

/* Crops or pads with zeros around the centre. */
void flxi_onnx_import_center_crop_pad(onnx_site *s)
{
    flx_ints shape, axes = flxi_onnx_ints(s, "axes");
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    int64_t low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    if (!flxi_onnx_extents(s, 1, &shape))
        return;
    for (size_t i = 0; i < shape.n; i++) {
        int axis = flxi_onnx_axis(s, axes.n ? axes.v[i < axes.n ? i : 0] : (int64_t)i, t->rank);
        if (!flx_dim_is_static(t->dims[axis])) {
            flxi_onnx_unsupported(s, "a symbolic extent");
            return;
        }
        int64_t more = shape.v[i] - t->dims[axis];
        low[axis] = more >= 0 ? more / 2 : -((-more) / 2);
        high[axis] = more - low[axis];
    }
    size_t rank = (size_t)t->rank;
    s->y[0] = flx_pad(s->g, x, flxi_onnx_number(s, x, 0), .low = {low, rank}, .high = {high, rank});
}
