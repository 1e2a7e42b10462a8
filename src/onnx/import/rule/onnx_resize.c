/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_resize.c: interpolation to another size. Along each axis the result is a fixed linear map of the operand: a
   gather for the nearest element, else a product with a matrix whose rows have the weights. Both are computed when
   the model is read. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <math.h>

typedef struct {
    const char *mode, *coordinates, *nearest;
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
} interpolation;

/* One axis. */
typedef struct {
    int64_t n, m;      /* extents before and after */
    double scale;      /* as given, or m / n */
    double start, end; /* of the region, as fractions */
    double wanted;     /* n * scale, without rounding */
} axis_plan;

static double coordinate(const interpolation *p, const axis_plan *a, int64_t i)
{
    double x = (double)i, n = (double)a->n, m = (double)a->m;
    const char *c = p->coordinates;
    if (strcmp(c, "align_corners") == 0)
        return a->wanted != 1 ? x * (n - 1) / (a->wanted - 1) : 0;
    if (strcmp(c, "asymmetric") == 0)
        return x / a->scale;
    if (strcmp(c, "pytorch_half_pixel") == 0)
        return m > 1 ? (x + 0.5) / a->scale - 0.5 : 0;
    if (strcmp(c, "tf_half_pixel_for_nn") == 0)
        return (x + 0.5) / a->scale;
    if (strcmp(c, "tf_crop_and_resize") == 0)
        return m > 1 ? a->start * (n - 1) + x * (a->end - a->start) * (n - 1) / (m - 1)
                     : 0.5 * (a->start + a->end) * (n - 1);
    if (strcmp(c, "half_pixel_symmetric") == 0) {
        double adjustment = m / a->wanted;
        return n / 2 * (1 - adjustment) + (x + 0.5) / a->scale - 0.5;
    }
    return (x + 0.5) / a->scale - 0.5;
}

static int64_t nearest_index(const interpolation *p, double x, int64_t n)
{
    double r;
    if (strcmp(p->nearest, "floor") == 0)
        r = floor(x);
    else if (strcmp(p->nearest, "ceil") == 0)
        r = ceil(x);
    else if (strcmp(p->nearest, "round_prefer_ceil") == 0)
        r = floor(x + 0.5);
    else
        r = ceil(x - 0.5);
    return r < 0 ? 0 : r > (double)(n - 1) ? n - 1 : (int64_t)r;
}

static double cubic_weight(double a, double x)
{
    x = fabs(x);
    if (x <= 1)
        return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

static double weight_at(const interpolation *p, double distance)
{
    if (strcmp(p->mode, "cubic") == 0)
        return cubic_weight(p->cubic_a, distance);
    distance = fabs(distance);
    return distance < 1 ? 1 - distance : 0;
}

/* The weights of one position of the result, in a row of n. What is outside counts for the edge, or not at all. */
static void fill_row(const interpolation *p, const axis_plan *a, double x, double *row)
{
    double stretch = p->antialias && a->scale < 1 ? 1 / a->scale : 1;
    double reach = (strcmp(p->mode, "cubic") == 0 ? 2 : 1) * stretch;
    int64_t first = (int64_t)floor(x - reach), last = (int64_t)ceil(x + reach);
    double sum = 0;
    bool crops = strcmp(p->coordinates, "tf_crop_and_resize") == 0;
    if (crops && (x < 0 || x > (double)(a->n - 1)))
        return; /* filled with the extrapolation value */
    for (int64_t k = first; k <= last; k++) {
        double w = weight_at(p, (x - (double)k) / stretch);
        bool is_outside = k < 0 || k >= a->n;
        if (is_outside && p->exclude_outside)
            continue;
        row[k < 0 ? 0 : k >= a->n ? a->n - 1 : k] += w;
        sum += w;
    }
    for (int64_t k = 0; k < a->n && sum != 0 && (p->exclude_outside || stretch > 1); k++)
        row[k] /= sum;
}

static flx_val apply_matrix(onnx_site *s, flx_val x, int axis, const axis_plan *a, const double *rows)
{
    flx_type type = flx_type_make(FLX_F64, 2, (flx_dim[]){a->n, a->m});
    double *columns = flxi_onnx_new(s, double, a->n * a->m);
    for (int64_t i = 0; columns && i < a->m; i++)
        for (int64_t k = 0; k < a->n; k++)
            columns[k * a->m + i] = rows[i * a->n + k];
    flx_tensor *t = columns ? flx_tensor_new(flx_graph_context(s->g), &type, columns, NULL) : NULL;
    if (!t) {
        flxi_onnx_fail(s, FLX_E_OOM, NULL, "no memory for its weights");
        return x;
    }
    flx_val w = flxi_onnx_cast(s, flx_const(s->g, .type = &type, .data = t), flxi_onnx_dtype(s, x));
    flx_tensor_release(t);
    int rank = flxi_onnx_rank(s, x);
    flx_val y = flx_dot_general(s->g, x, w, .lc = FLX_INTS(axis), .rc = FLX_INTS(0));
    int64_t perm[FLX_MAX_RANK]; /* the new axis is last: back to its position */
    for (int i = 0; i < rank; i++)
        perm[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
    return axis == rank - 1 ? y : flx_transpose(s->g, y, .perm = {perm, (size_t)rank});
}

/* Positions of the result that a crop has outside of the operand get a value of their own. */
static flx_val fill_outside(onnx_site *s, flx_val y, int axis, const interpolation *p, const axis_plan *a)
{
    int64_t *inside = flxi_onnx_new(s, int64_t, a->m);
    bool all = true;
    for (int64_t i = 0; inside && i < a->m; i++) {
        double x = coordinate(p, a, i);
        inside[i] = x >= 0 && x <= (double)(a->n - 1);
        all &= inside[i] != 0;
    }
    if (!inside || all)
        return y;
    int rank = flxi_onnx_rank(s, y);
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? a->m : 1;
    flx_val mask = flx_reshape(s->g, flxi_onnx_vector(s, inside, (size_t)a->m), .shape = {dims, (size_t)rank});
    return flx_where(s->g, mask, y, flxi_onnx_number(s, y, p->extrapolation));
}

static flx_val resize_axis(onnx_site *s, flx_val x, int axis, const interpolation *p, const axis_plan *a)
{
    if (strcmp(p->mode, "nearest") == 0) {
        int64_t *at = flxi_onnx_new(s, int64_t, a->m);
        for (int64_t i = 0; at && i < a->m; i++)
            at[i] = nearest_index(p, coordinate(p, a, i), a->n);
        return at ? flx_gather(s->g, x, flxi_onnx_vector(s, at, (size_t)a->m), .axis = axis) : x;
    }
    double *rows = flxi_onnx_new(s, double, a->n * a->m);
    for (int64_t i = 0; rows && i < a->m; i++)
        fill_row(p, a, coordinate(p, a, i), rows + i * a->n);
    return rows ? apply_matrix(s, x, axis, a, rows) : x;
}

/* ---- The operation ---- */

typedef struct {
    axis_plan axis[FLX_MAX_RANK];
    bool is_resized[FLX_MAX_RANK];
} resize_plan;

/* sizes as they are, or scaled by one factor for all of their axes. */
static void fit_sizes(onnx_site *s, resize_plan *p, flx_ints axes, flx_ints sizes)
{
    const char *policy = flxi_onnx_word(s, "keep_aspect_ratio_policy", "stretch");
    double factor = 0;
    bool larger = strcmp(policy, "not_smaller") == 0;
    for (size_t i = 0; i < sizes.n; i++) {
        double f = (double)sizes.v[i] / (double)p->axis[axes.v[i]].n;
        factor = i == 0 || (larger ? f > factor : f < factor) ? f : factor;
    }
    for (size_t i = 0; i < sizes.n; i++) {
        axis_plan *a = &p->axis[axes.v[i]];
        bool stretches = strcmp(policy, "stretch") == 0;
        a->m = stretches ? sizes.v[i] : (int64_t)floor(factor * (double)a->n + 0.5);
        a->scale = stretches ? (double)a->m / (double)a->n : factor;
        a->wanted = (double)a->m;
        p->is_resized[axes.v[i]] = true;
    }
}

static void fit_scales(resize_plan *p, flx_ints axes, flx_reals scales, bool crops)
{
    for (size_t i = 0; i < scales.n; i++) {
        axis_plan *a = &p->axis[axes.v[i]];
        double part = crops ? a->end - a->start : 1;
        a->scale = (double)(float)scales.v[i];
        a->wanted = (double)a->n * part * a->scale;
        a->m = (int64_t)floor(a->wanted);
        p->is_resized[axes.v[i]] = true;
    }
}

static bool check_plan(onnx_site *s, const resize_plan *p, int rank)
{
    for (int i = 0; i < rank; i++)
        if (p->is_resized[i] && (p->axis[i].m < 1 || p->axis[i].n < 1 || p->axis[i].m > 1 << 24 ||
                                 p->axis[i].m > ((int64_t)1 << 28) / p->axis[i].n)) {
            flxi_onnx_unsupported(s, "an extent of %lld from %lld", (long long)p->axis[i].m, (long long)p->axis[i].n);
            return false;
        }
    return true;
}

static flx_ints plan_axes(onnx_site *s, int rank)
{
    flx_ints given = flxi_onnx_ints(s, "axes");
    int64_t *all = flxi_onnx_new(s, int64_t, rank);
    for (int i = 0; all && i < rank; i++)
        all[i] = i;
    return given.n ? flxi_onnx_axes(s, given, rank) : (flx_ints){all, all ? (size_t)rank : 0};
}

/* Reads sizes or scales; false after an error. */
static bool read_plan(onnx_site *s, resize_plan *p, size_t roi_at, size_t scales_at, size_t sizes_at, bool crops)
{
    const flx_type *t = flxi_onnx_typeof(s, s->x[0]);
    flx_ints axes = plan_axes(s, t->rank), sizes = {NULL, 0};
    flx_reals scales = {NULL, 0}, roi = {NULL, 0};
    if (!flxi_type_is_static(t)) {
        flxi_onnx_unsupported(s, "symbolic extents");
        return false;
    }
    for (int i = 0; i < t->rank; i++)
        p->axis[i] = (axis_plan){.n = t->dims[i], .m = t->dims[i], .scale = 1, .end = 1, .wanted = (double)t->dims[i]};
    if (roi_at && crops && flxi_onnx_given(s->x[roi_at]) && !flxi_onnx_known_reals(s, roi_at, &roi))
        return false;
    for (size_t i = 0; i < axes.n && roi.n == 2 * axes.n; i++) {
        p->axis[axes.v[i]].start = roi.v[i];
        p->axis[axes.v[i]].end = roi.v[axes.n + i];
    }
    if (flxi_onnx_given(s->x[scales_at]) && !flxi_onnx_known_reals(s, scales_at, &scales))
        return false;
    if (scales.n == 0 && sizes_at && flxi_onnx_given(s->x[sizes_at]) && !flxi_onnx_extents(s, sizes_at, &sizes))
        return false;
    if (scales.n == 0 && !sizes_at)
        scales = flxi_onnx_reals(s, "scales");
    if ((scales.n ? scales.n : sizes.n) != axes.n || flxi_onnx_failed(s)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "it needs a scale or a size for each of %zu axes", axes.n);
        return false;
    }
    if (scales.n)
        fit_scales(p, axes, scales, crops);
    else
        fit_sizes(s, p, axes, sizes);
    return check_plan(s, p, t->rank);
}

static bool changes(const axis_plan *a, bool crops)
{
    return a->n != a->m || a->scale != 1 || (crops && (a->start != 0 || a->end != 1));
}

static void resize(onnx_site *s, const interpolation *p, const resize_plan *plan)
{
    flx_val x = s->x[0];
    flx_dtype d = flxi_onnx_dtype(s, x);
    bool weighs = strcmp(p->mode, "nearest") != 0;
    bool crops = strcmp(p->coordinates, "tf_crop_and_resize") == 0;
    int rank = flxi_onnx_rank(s, x);
    if (weighs && !flxi_is_float((int32_t)d))
        x = flxi_onnx_cast(s, x, FLX_F32);
    for (int i = 0; i < rank; i++)
        if (plan->is_resized[i] && changes(&plan->axis[i], crops))
            x = resize_axis(s, x, i, p, &plan->axis[i]);
    for (int i = 0; i < rank && crops; i++)
        if (plan->is_resized[i])
            x = fill_outside(s, x, i, p, &plan->axis[i]);
    s->y[0] = flxi_onnx_cast(s, x, d);
}

void flxi_onnx_import_resize(onnx_site *s)
{
    bool is_old = s->version < 11; /* X, scales; the coordinates were asymmetric */
    interpolation p = {
        .mode = flxi_onnx_word(s, "mode", "nearest"),
        .coordinates = flxi_onnx_word(s, "coordinate_transformation_mode", is_old ? "asymmetric" : "half_pixel"),
        .nearest = flxi_onnx_word(s, "nearest_mode", is_old ? "floor" : "round_prefer_floor"),
        .antialias = flxi_onnx_int(s, "antialias", 0) != 0,
        .exclude_outside = flxi_onnx_int(s, "exclude_outside", 0) != 0,
        .cubic_a = flxi_onnx_real(s, "cubic_coeff_a", -0.75),
        .extrapolation = flxi_onnx_real(s, "extrapolation_value", 0),
    };
    resize_plan plan = {.is_resized = {false}};
    bool crops = strcmp(p.coordinates, "tf_crop_and_resize") == 0;
    if (read_plan(s, &plan, is_old ? 0 : 1, is_old ? 1 : 2, is_old ? 0 : 3, crops))
        resize(s, &p, &plan);
}
