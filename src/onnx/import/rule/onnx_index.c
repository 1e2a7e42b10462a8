/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_index.c: gathering and scattering. Negative indices count from the end. */
#include "onnx/import/onnx_site.h"

/* Indices along an axis of x without negative ones. */
static flx_val positive(onnx_site *s, flx_val x, int axis, flx_val at)
{
    flx_dtype d = flxi_onnx_dtype(s, at);
    flx_val n = flxi_onnx_cast(s, flx_dim_size(s->g, x, .axis = axis), d);
    return flx_where(s->g, flx_lt(s->g, at, flxi_onnx_number(s, at, 0)), flx_add(s->g, at, n), at);
}

void flxi_onnx_import_gather(onnx_site *s)
{
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, s->x[0]));
    s->y[0] = flx_gather(s->g, s->x[0], positive(s, s->x[0], axis, s->x[1]), .axis = axis);
    s->out[0].element = s->in[0].element;
}

void flxi_onnx_import_gather_elements(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val at = s->x[1];
    const flx_type *t = flxi_onnx_typeof(s, at);
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), flxi_onnx_rank(s, x));
    for (int i = 0; i < t->rank; i++)
        if (i != axis && t->dims[i] != flxi_onnx_dim(s, x, i))
            x = flx_narrow(s->g, x, .axis = i, .start = 0, .len = t->dims[i]);
    s->y[0] = flx_take_along(s->g, x, positive(s, x, axis, at), .axis = axis);
}

/* 0, 1, 2 … n - 1 from `first` on. */
static flx_ints count_up(onnx_site *s, int64_t first, int64_t n)
{
    int64_t *v = flxi_onnx_new(s, int64_t, n > 0 ? n : 0);
    for (int64_t i = 0; v && i < n; i++)
        v[i] = first + i;
    return (flx_ints){v, v && n > 0 ? (size_t)n : 0};
}

/* The last axis of `at` holds positions along the axes of x from `first` on. */
static flx_val positive_tuples(onnx_site *s, flx_val x, int first, flx_val at)
{
    int last = flxi_onnx_rank(s, at) - 1;
    flx_dim k = flxi_onnx_dim(s, at, last);
    flx_val sizes[FLX_MAX_RANK];
    if (!flx_dim_is_static(k) || k < 1 || k + first > flxi_onnx_rank(s, x)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "the last axis of its indices does not fit the tensor");
        return at;
    }
    for (int64_t i = 0; i < k; i++)
        sizes[i] = flxi_onnx_cast(s, flx_dim_size(s->g, x, .axis = first + i), flxi_onnx_dtype(s, at));
    flx_val n = flx_stack(s->g, sizes, (size_t)k, .axis = 0);
    return flx_where(s->g, flx_lt(s->g, at, flxi_onnx_number(s, at, 0)), flx_add(s->g, at, n), at);
}

void flxi_onnx_import_gather_nd(onnx_site *s)
{
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    int64_t b = flxi_onnx_int(s, "batch_dims", 0);
    int q = flxi_onnx_rank(s, s->x[1]);
    flx_dim k = flxi_onnx_dim(s, s->x[1], q - 1);
    if (b < 0 || b >= q || b > t->rank) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "batch_dims %lld is out of range", (long long)b);
        return;
    }
    flx_val at = positive_tuples(s, x, (int)b, s->x[1]);
    flx_dim sizes[FLX_MAX_RANK];
    if (flxi_onnx_failed(s))
        return;
    for (int i = 0; i < t->rank; i++)
        sizes[i] = i < b + k ? 1 : t->dims[i];
    s->y[0] = flx_gather_nd(s->g, x, at, .slice_sizes = {sizes, (size_t)t->rank}, .start_index_map = count_up(s, b, k),
                            .offset_axes = count_up(s, q - 1, t->rank - b - k), .collapsed_axes = count_up(s, b, k),
                            .operand_batching_axes = count_up(s, 0, b), .indices_batching_axes = count_up(s, 0, b));
}

/* ---- Scattering ---- */

static const char *combine_word(onnx_site *s)
{
    static const char *const pairs[][2] = {
        {"none", "set"}, {"add", "add"}, {"mul", "mul"}, {"max", "max"}, {"min", "min"}};
    const char *given = flxi_onnx_word(s, "reduction", "none");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strcmp(given, pairs[i][0]) == 0)
            return pairs[i][1];
    flxi_onnx_unsupported(s, "the reduction '%.20s'", given);
    return "set";
}

void flxi_onnx_import_scatter_nd(onnx_site *s)
{
    flx_val x = s->x[0];
    int rank = flxi_onnx_rank(s, x);
    int q = flxi_onnx_rank(s, s->x[1]);
    flx_val at = positive_tuples(s, x, 0, s->x[1]);
    flx_dim k = flxi_onnx_dim(s, s->x[1], q - 1);
    if (flxi_onnx_failed(s))
        return;
    s->y[0] = flx_scatter_nd(s->g, x, at, s->x[2], .start_index_map = count_up(s, 0, k),
                             .offset_axes = count_up(s, q - 1, rank - k), .collapsed_axes = count_up(s, 0, k),
                             .combine = {.word = combine_word(s)});
}

/* Each update has a position of its own: that of the indices along the axis, and where it is along the others. */
void flxi_onnx_import_scatter_elements(onnx_site *s)
{
    flx_val x = s->x[0];
    int rank = flxi_onnx_rank(s, x);
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", 0), rank);
    flx_val at = flxi_onnx_cast(s, positive(s, x, axis, s->x[1]), FLX_I64);
    flx_type grid = *flxi_onnx_typeof(s, at);
    flx_val parts[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        parts[i] = i == axis ? at : flx_iota(s->g, .type = &grid, .axis = i);
    flx_val indices = flx_stack(s->g, parts, (size_t)rank, .axis = rank);
    s->y[0] = flx_scatter_nd(s->g, x, indices, s->x[2], .start_index_map = count_up(s, 0, rank),
                             .collapsed_axes = count_up(s, 0, rank), .combine = {.word = combine_word(s)});
}

/* A cache of keys or values with new ones written at positions of the sequence, a start for each example. */
void flxi_onnx_import_tensor_scatter(onnx_site *s)
{
    flx_val x = s->x[0], u = s->x[1];
    const flx_type *t = flxi_onnx_typeof(s, u);
    int rank = t->rank;
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", -2), rank);
    flx_type grid = *t;
    grid.dtype = FLX_I64;
    flx_val at = flx_iota(s->g, .type = &grid, .axis = axis);
    if (flxi_onnx_given(s->x[2])) {
        flx_dim dims[FLX_MAX_RANK];
        for (int i = 0; i < rank; i++)
            dims[i] = i == 0 ? t->dims[0] : 1;
        flx_val start = flxi_onnx_cast(s, s->x[2], FLX_I64);
        at = flx_add(s->g, at, flx_reshape(s->g, start, .shape = {dims, (size_t)rank}));
    }
    if (strcmp(flxi_onnx_word(s, "mode", "linear"), "circular") == 0)
        at = flx_mod(s->g, at, flx_dim_size(s->g, x, .axis = axis));
    flx_val parts[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        parts[i] = i == axis ? at : flx_iota(s->g, .type = &grid, .axis = i);
    flx_val indices = flx_stack(s->g, parts, (size_t)rank, .axis = rank);
    s->y[0] = flx_scatter_nd(s->g, x, indices, u, .start_index_map = count_up(s, 0, rank),
                             .collapsed_axes = count_up(s, 0, rank), .combine = {.word = "set"});
}

/* ---- Others ---- */

/* Indices out of range have no hot element; those from -n to -1 count from the end. */
void flxi_onnx_import_one_hot(onnx_site *s)
{
    flx_ints depth;
    if (!flxi_onnx_extents(s, 1, &depth) || depth.n != 1)
        return;
    int rank = flxi_onnx_rank(s, s->x[0]);
    int axis = flxi_onnx_axis(s, flxi_onnx_int(s, "axis", -1), rank + 1);
    flx_val at = flxi_onnx_cast(s, s->x[0], FLX_I64);
    at = flx_where(s->g, flx_lt(s->g, at, flx_scalar(s->g, FLX_I64, 0)),
                   flx_add(s->g, at, flx_scalar(s->g, FLX_I64, (double)depth.v[0])), at);
    flx_val hot = flx_one_hot(s->g, at, .n = depth.v[0], .axis = axis, .dtype = FLX_BOOL, .oob = "zero");
    flx_val off = flx_narrow(s->g, s->x[2], .axis = 0, .start = 0, .len = 1);
    flx_val on = flx_narrow(s->g, s->x[2], .axis = 0, .start = 1, .len = 1);
    s->y[0] =
        flx_where(s->g, hot, flx_reshape(s->g, on, .shape = FLX_NO_INTS), flx_reshape(s->g, off, .shape = FLX_NO_INTS));
}

/* The first lengths[b] steps of each example in reverse order, the others unchanged. */
void flxi_onnx_import_reverse_sequence(onnx_site *s)
{
    flx_val x = s->x[0];
    int rank = flxi_onnx_rank(s, x);
    int batch = flxi_onnx_axis(s, flxi_onnx_int(s, "batch_axis", 1), rank);
    int time = flxi_onnx_axis(s, flxi_onnx_int(s, "time_axis", 0), rank);
    flx_type grid = *flxi_onnx_typeof(s, x);
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == batch ? grid.dims[batch] : 1;
    grid.dtype = FLX_I64;
    flx_val n = flx_reshape(s->g, flxi_onnx_cast(s, s->x[1], FLX_I64), .shape = {dims, (size_t)rank});
    flx_val t = flx_iota(s->g, .type = &grid, .axis = time);
    flx_val back = flx_sub(s->g, flx_sub(s->g, n, flx_scalar(s->g, FLX_I64, 1)), t);
    s->y[0] = flx_take_along(s->g, x, flx_where(s->g, flx_lt(s->g, t, n), back, t), .axis = time);
}

/* Picks columns. */
void flxi_onnx_import_array_feature_extractor(onnx_site *s)
{
    flx_val at = flx_reshape(s->g, s->x[1], .shape = FLX_INTS(-1));
    s->y[0] = flx_gather(s->g, s->x[0], at, .axis = flxi_onnx_rank(s, s->x[0]) - 1);
}
