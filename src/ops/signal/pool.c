/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: pooling over the spatial axes of [N, C, spatial…]: plain windows, floor mode, padding at most window − 1.

   Padding is ignored by max, min and prod, and adds nothing to a sum; every window has an element, since an empty
   spatial axis is an error. Sums follow docs/numerics.md, "Sums and products", and are rounded once. */
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/express/express_combine.h"
#include "ops/express/express_window.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"
#include "ops/rule/wide.h"
#include "ops/signal/window.h"

#include <complex.h>

/* ---- Attributes ---- */

typedef struct {                           /* the first member of every op's attributes */
    flx_ints kernel_size, stride, padding; /* padding: low, high for each spatial axis */
} pool_common;

typedef struct {
    pool_common common;
    int64_t kind, count_include_pad;
} pool_attrs;

enum { KIND_MEAN, KIND_SUM, KIND_MAX, KIND_MIN, KIND_PROD };

#define COMMON_ROWS                                                                   \
    A_DIMS_REQ(pool_common, kernel_size), A_DIMS(pool_common, stride, "kernel_size"), \
        A_LIST(pool_common, padding, ATTR_PAIRS, "all 0")

static const flxi_attr pool_schema[] = {
    A_WORD_REQ(pool_attrs, kind, "mean sum max min prod"),
    COMMON_ROWS,
    A_BOOL(pool_attrs, count_include_pad, 1),
    A_END,
};
static const flxi_attr winner_schema[] = {COMMON_ROWS, A_END};

/* ---- Inference ---- */

static flx_code norm_pool(flxi_infer *f, pool_common *a, size_t spatial)
{
    FLXI_TRY(flxi_norm_sizes(f, "kernel_size", &a->kernel_size, spatial, 1, 1));
    if (!a->stride.v)
        a->stride = a->kernel_size;
    FLXI_TRY(flxi_norm_sizes(f, "stride", &a->stride, spatial, 1, 1));
    FLXI_TRY(flxi_norm_padding(f, &a->padding, spatial));
    for (size_t k = 0; k < 2 * spatial; k++) {
        flx_dim pad = a->padding.v[k];
        flx_dim window = a->kernel_size.v[k / 2];
        if (pad < 0 || (flxi_dim_is_number(window) && pad >= window))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "pad explicitly with the op pad",
                                   "padding of spatial axis %zu must be at least 0 and less than the window, got %lld",
                                   k / 2, (long long)pad);
    }
    return FLX_OK;
}

static flxi_slide pool_slide(const pool_common *a, int axis, flx_dim extent)
{
    flxi_slide s = {.extent = extent, .window = 1, .stride = 1, .base_dilation = 1, .dilation = 1};
    if (axis >= 2) {
        s.window = a->kernel_size.v[axis - 2];
        s.stride = a->stride.v[axis - 2];
        s.low = a->padding.v[2 * (axis - 2)];
        s.high = a->padding.v[2 * (axis - 2) + 1];
    }
    return s;
}

/* The shape with one element for each window of operand 0. */
static flx_code pooled_type(flxi_infer *f, pool_common *a, flx_type *y)
{
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(norm_pool(f, a, (size_t)x->rank - 2));
    *y = *x;
    for (int k = 2; k < x->rank; k++) {
        flxi_slide s = pool_slide(a, k, x->dims[k]);
        flxi_type_text t;
        if (x->dims[k] == 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "spatial axis %d of x, of shape %s, is empty: nothing to pool",
                                   k - 2, flxi_shape_str(f->ctx, x, &t));
        FLXI_TRY(flxi_slide_fit(f, (size_t)k - 2, &s, &y->dims[k]));
    }
    return FLX_OK;
}

static flx_code infer_pool(flxi_infer *f)
{
    pool_attrs *a = f->attrs;
    int32_t dtype = f->in[0]->dtype;
    if (a->kind == KIND_MEAN && !flxi_in(FLXI_FLOATS | FLXI_COMPLEX, dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "cast x to a float dtype, or use kind=sum",
                               "the mean of %s is not defined", flx_dtype_name(dtype));
    if ((a->kind == KIND_MAX || a->kind == KIND_MIN) && flxi_is_complex(dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, NULL, "%s has no order, so no max or min", flx_dtype_name(dtype));
    return pooled_type(f, &a->common, &f->out[0]);
}

static flx_code infer_pool_argmax(flxi_infer *f)
{
    FLXI_TRY(pooled_type(f, f->attrs, &f->out[0]));
    flx_dim plane = flxi_dims_product(f->ctx, f->in[0], 2, f->in[0]->rank);
    if (flxi_dim_is_number(plane) && plane > INT32_MAX)
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "%lld positions exceed the range of i32", (long long)plane);
    f->out[0].dtype = FLX_I32;
    return FLX_OK;
}

static flx_code infer_max_pool_backward(flxi_infer *f)
{
    flx_type y;
    const flx_type *dy = f->in[1];
    FLXI_TRY(pooled_type(f, f->attrs, &y));
    bool fits = dy->rank == y.rank;
    for (int k = 0; fits && k < y.rank; k++)
        fits = flxi_dims_may_equal(f, dy->dims[k], y.dims[k]);
    if (!fits) {
        flxi_type_text ty;
        flxi_type_text td;
        return flxi_infer_fail(f, FLX_E_SHAPE, "dy has one element for each window",
                               "the pooled shape is %s, but dy is %s", flxi_shape_str(f->ctx, &y, &ty),
                               flxi_shape_str(f->ctx, dy, &td));
    }
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* ---- Evaluation ---- */

static flxi_windows pool_windows(const pool_common *a, const flx_type *x, const flx_type *y)
{
    flxi_windows w = {0};
    for (int k = 0; k < x->rank; k++)
        w.axis[k] = pool_slide(a, k, x->dims[k]);
    flxi_windows_over(&w, x, y);
    return w;
}

typedef struct {
    flxi_num (*step)(flxi_num acc, flxi_num x);
    flxi_num start;
} pool_fold;

static pool_fold fold_of(int64_t kind, const flxi_arith *t)
{
    switch (kind) {
    case KIND_MAX: return (pool_fold){t->max, t->lowest};
    case KIND_MIN: return (pool_fold){t->min, t->highest};
    case KIND_PROD: return (pool_fold){t->mul, t->one};
    default: return (pool_fold){t->accumulate, t->zero};
    }
}

static flxi_num divided(const flxi_arith *t, flxi_num sum, double by)
{
    if (flxi_is_complex(t->dtype))
        return (flxi_num){.c = sum.c / by};
    return (flxi_num){.f = sum.f / by};
}

static flx_code eval_pool(flxi_eval *e)
{
    const pool_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    flx_tensor *y = e->out[0];
    flxi_windows w = pool_windows(&a->common, &x->type, &y->type);
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    pool_fold fold = fold_of(a->kind, t);
    double taps = 1; /* a double, since the number of taps of a huge window need not fit an integer */
    for (int k = 0; k < w.rank; k++)
        taps *= (double)w.window[k];

    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(o, w.count, w.rank)) {
        int64_t k[FLX_MAX_RANK] = {0};
        double inside = 0;
        flxi_num acc = fold.start;
        do {
            int64_t at = flxi_windows_at(&w, o, k);
            if (at < 0)
                continue;
            acc = fold.step(acc, t->load(x->data, at));
            inside++;
        } while (flxi_next(k, w.window, w.rank));
        t->store(y->data, i, a->kind == KIND_MEAN ? divided(t, acc, a->count_include_pad ? taps : inside) : acc);
    }
    return FLX_OK;
}

/* The maximum of window o as an element of x: the first largest one, or the first NaN. */
static int64_t winner_of(const flxi_windows *w, const flxi_arith *t, const void *x, const int64_t *o)
{
    int64_t k[FLX_MAX_RANK] = {0};
    int64_t best = -1;
    flxi_num most = t->zero;
    do {
        int64_t at = flxi_windows_at(w, o, k);
        if (at < 0)
            continue;
        flxi_num v = t->load(x, at);
        bool is_nan = !t->equal(v, v);
        if (best < 0 || t->less(most, v) || is_nan) {
            best = at;
            most = v;
        }
        if (is_nan)
            break;
    } while (flxi_next(k, w->window, w->rank));
    return best;
}

static flx_code eval_pool_argmax(flxi_eval *e)
{
    const flx_tensor *x = e->in[0];
    flx_tensor *y = e->out[0];
    flxi_windows w = pool_windows(e->attrs, &x->type, &y->type);
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    int64_t plane = 1;
    for (int k = 2; k < x->type.rank; k++)
        plane *= x->type.dims[k];
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(o, w.count, w.rank))
        flxi_store_int(FLX_I32, y->data, i, winner_of(&w, t, x->data, o) % plane);
    return FLX_OK;
}

static flx_code eval_max_pool_backward(flxi_eval *e)
{
    const flx_tensor *x = e->in[0];
    const flx_tensor *dy = e->in[1];
    flxi_windows w = pool_windows(e->attrs, &x->type, &dy->type);
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_num *sum = flxi_wide_begin(e, t->zero);
    if (!sum)
        return FLX_E_OOM;
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < dy->count && !flxi_stopped_by_now(); i++, flxi_next(o, w.count, w.rank)) {
        int64_t at = winner_of(&w, t, x->data, o);
        if (at >= 0)
            sum[at] = t->accumulate(sum[at], t->load(dy->data, i));
    }
    return flxi_wide_end(e, sum, FLX_OK);
}

/* ---- Decompositions ---- */

static void slides_of(const flxi_site *s, const flx_type *x, flxi_slide *m)
{
    for (int k = 0; k < x->rank; k++)
        m[k] = pool_slide(s->attrs, k, x->dims[k]);
}

/* x with its order reversed, so that its largest elements are the smallest ones. */
static flx_val reversed(flxi_site *s, flx_val x)
{
    int32_t dtype = flxi_typeof(s, x)->dtype;
    return dtype == FLX_BOOL ? flx_not(s->g, x) : flxi_in(FLXI_INTS, dtype) ? flx_bit_not(s->g, x) : flx_neg(s->g, x);
}

/* The least number of the dtype, which exists. */
static double lowest_of(int32_t dtype)
{
    if (flxi_in(FLXI_FLOATS, dtype))
        return -INFINITY;
    return flxi_is_signed(dtype) ? -ldexp(1, flxi_int_bits(dtype) - 1) : 0;
}

static flx_val winners(flxi_site *s, flx_val x)
{
    const pool_common *a = s->attrs;
    return flx_pool_argmax(s->g, x, a->kernel_size, a->stride, a->padding);
}

/* Batch and features as one axis, the spatial axes as another. */
static flx_val as_planes(flxi_site *s, flx_val v)
{
    flx_type t = *flxi_typeof(s, v);
    flx_dim dims[2] = {flxi_dims_product(s->ctx, &t, 0, 2), flxi_dims_product(s->ctx, &t, 2, t.rank)};
    return flxi_reshape_to(s, v, 2, dims);
}

/* The elements of v [N, C, spatial…] at positions returned by pool_argmax. */
static flx_val at_winners(flxi_site *s, flx_val v, flx_val position)
{
    flx_type t = *flxi_typeof(s, position);
    return flxi_reshape_like(s, flx_take_along(s->g, as_planes(s, v), as_planes(s, position), 1, NULL), &t);
}

/* v, one number for each window, divided by the number of elements in the window's mean; in a dtype that can represent
   it. */
static flx_val divided_by_taps(flxi_site *s, flx_val v, const flxi_slide *m)
{
    const pool_attrs *a = s->attrs;
    flx_type t = *flxi_typeof(s, s->x[0]);
    flx_dim taps = 1;
    flx_val wide = flxi_widen(s, v);
    t.dtype = flxi_typeof(s, wide)->dtype;
    for (int k = 2; k < t.rank; k++)
        taps = flx_dim_mul(s->ctx, taps, m[k].window);
    if (a->count_include_pad)
        return flx_div(s->g, wide, flxi_index_number(s, (flx_dtype)t.dtype, taps));
    t.dims[0] = t.dims[1] = 1;
    return flx_div(s->g, wide, flxi_window_fold(s, flxi_full(s, &t, 1.0), "add", 0.0, m));
}

/* The sum of a window may be too large for f16 although its mean is not. */
static flx_val window_mean(flxi_site *s, flx_val x, const flxi_slide *m)
{
    flx_val sum = flxi_window_fold(s, flxi_widen(s, x), "add", 0.0, m);
    return flxi_as_dtype(s, divided_by_taps(s, sum, m), flxi_typeof(s, x)->dtype);
}

static flx_val largest(flxi_site *s, flx_val x, const flxi_slide *m)
{
    const flx_type *t = flxi_typeof(s, x);
    return flxi_window_is_wide(m, t->rank, FLXI_FEW_TAPS) ? flxi_window_fold(s, x, "max", lowest_of(t->dtype), m)
                                                          : at_winners(s, x, winners(s, x));
}

static void decompose_pool(flxi_site *s, flx_val *y)
{
    const pool_attrs *a = s->attrs;
    flx_val x = s->x[0];
    flxi_slide m[FLX_MAX_RANK];
    slides_of(s, flxi_typeof(s, x), m);
    switch (a->kind) {
    case KIND_MAX: y[0] = largest(s, x, m); break;
    case KIND_MIN: y[0] = reversed(s, largest(s, reversed(s, x), m)); break;
    case KIND_PROD: y[0] = flxi_window_fold(s, x, "mul", 1.0, m); break;
    case KIND_SUM: y[0] = flxi_window_fold(s, x, "add", 0.0, m); break;
    default: y[0] = window_mean(s, x, m); break;
    }
}

/* Positions in the flattened spatial axes, in the shape of x. */
static flx_val spatial_positions(flxi_site *s, const flx_type *x)
{
    flx_dim plane = flxi_dims_product(s->ctx, x, 2, x->rank);
    flx_type list = flx_type_make(FLX_I32, 1, &plane), t = *x;
    t.dtype = FLX_I32;
    flx_val v = flxi_reshape_to(s, flx_iota(s->g, &list, 0), x->rank - 2, x->dims + 2);
    return flxi_expand_like(s, v, &t);
}

/* The position of the first element of each window that is not padding. */
static flx_val first_inside(flxi_site *s, const flx_type *x, const flx_type *windows, const flxi_slide *m)
{
    flx_graph *g = s->g;
    flx_val at = flxi_zeros(s, windows);
    for (int k = 2; k < x->rank; k++) {
        flx_val o = flx_iota(g, windows, k);
        flx_val start = flx_sub(g, flx_mul(g, o, flxi_index_number(s, FLX_I32, m[k].stride)),
                                flxi_index_number(s, FLX_I32, m[k].low));
        start = flx_max(g, start, flxi_number(s, start, 0.0));
        at = flx_add(g, flx_mul(g, at, flxi_index_number(s, FLX_I32, x->dims[k])), start);
    }
    return at;
}

/* The element of `at` where each window of few taps, or of symbolic extents, has its first maximum. */
static flx_val winner_of_copies(flxi_site *s, flx_val x, flx_val lowest, flx_val at, const flxi_slide *m,
                                const flx_type *windows)
{
    int64_t taps[FLX_MAX_RANK];
    size_t n;
    flx_val v = flxi_unfold_windows(s, x, lowest, m, taps, &n);
    at = flxi_unfold_windows(s, at, flxi_number(s, at, -1.0), m, taps, &n);
    const flx_type *all = flxi_typeof(s, v);
    flx_dim rows[2] = {flxi_dims_product(s->ctx, windows, 0, windows->rank),
                       flxi_dims_product(s->ctx, all, windows->rank, all->rank)};
    v = flxi_reshape_to(s, v, 2, rows);
    at = flxi_reshape_to(s, at, 2, rows);
    at = flx_take_along(s->g, at, flx_argmax(s->g, v, 1, 1, FLX_I32), 1, NULL);
    return flxi_reshape_like(s, at, windows);
}

/* Padding wins where all elements of a window are the lowest number: then its first element is the answer. */
static void decompose_pool_argmax(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flxi_slide m[FLX_MAX_RANK];
    flx_val x = s->x[0];
    if (flxi_typeof(s, x)->dtype == FLX_BOOL)
        x = flx_cast(g, x, FLX_U8);
    flx_type t = *flxi_typeof(s, x), windows = t;
    slides_of(s, &t, m);
    windows.dtype = FLX_I32;
    for (int k = 2; k < t.rank; k++)
        windows.dims[k] = flxi_window_count(s->ctx, &m[k]);
    flx_val lowest = flxi_number(s, x, lowest_of(t.dtype)), at = spatial_positions(s, &t);
    at = flxi_window_is_wide(m, t.rank, FLXI_FEW_TAPS) ? flxi_window_winner(s, x, lowest, at, m, true)
                                                       : winner_of_copies(s, x, lowest, at, m, &windows);
    y[0] = flx_where(g, flx_lt(g, at, flxi_number(s, at, 0.0)), first_inside(s, &t, &windows, m), at);
}

/* Each row of dy scattered to its plane; an offset separates the rows. */
static void decompose_max_pool_backward(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_type x = *flxi_typeof(s, s->x[0]);
    flx_dim planes = flxi_dims_product(s->ctx, &x, 0, 2);
    flx_dim plane = flxi_dims_product(s->ctx, &x, 2, x.rank);
    flx_type rows = flx_type_make(FLX_I64, 2, (const flx_dim[]){planes, 1});
    flx_val position = flx_cast(g, as_planes(s, winners(s, s->x[0])), FLX_I64);
    flx_val offset = flx_mul(g, flx_iota(g, &rows, 0), flxi_index_number(s, FLX_I64, plane));
    flx_val at = flx_add(g, position, offset);
    const flx_type *t = flxi_typeof(s, at);
    flx_dim count = flxi_dims_product(s->ctx, t, 0, t->rank);
    flx_val sums = flx_scatter_add(g, flxi_reshape_to(s, s->x[1], 1, &count), flxi_reshape_to(s, at, 1, &count),
                                   flx_dim_mul(s->ctx, planes, plane), NULL);
    y[0] = flxi_reshape_like(s, sums, &x);
}

/* ---- Derivatives and batching ---- */

static void vjp_pool(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const pool_attrs *a = s->attrs;
    const pool_common *c = &a->common;
    flx_val x = s->x[0];
    flxi_slide m[FLX_MAX_RANK];
    slides_of(s, flxi_typeof(s, x), m);
    switch (a->kind) {
    case KIND_MAX:
    case KIND_MIN:
        x = a->kind == KIND_MIN ? reversed(s, x) : x;
        dx[0] = flx_max_pool_backward(s->g, x, dy[0], c->kernel_size, c->stride, c->padding);
        break;
    case KIND_PROD: flxi_vjp_decomposed(s, dy, dx); break;
    case KIND_SUM: dx[0] = flxi_window_sum_back(s, dy[0], m, flxi_typeof(s, x)); break;
    default:
        dx[0] = flxi_window_sum_back(s, divided_by_taps(s, dy[0], m), m, flxi_typeof(s, x));
        dx[0] = flxi_as_dtype(s, dx[0], flxi_typeof(s, x)->dtype);
        break;
    }
}

static void jvp_pool(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const pool_attrs *a = s->attrs;
    flx_val x = s->x[0];
    switch (a->kind) {
    case KIND_MAX: ty[0] = at_winners(s, tx[0], winners(s, x)); break;
    case KIND_MIN: ty[0] = at_winners(s, tx[0], winners(s, reversed(s, x))); break;
    case KIND_PROD: flxi_jvp_decomposed(s, tx, ty); break;
    default: ty[0] = flxi_emit1(s, NULL, tx, 1); break;
    }
}

/* x only determines the positions. */
static void vjp_max_pool_backward(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[1])
        dx[1] = at_winners(s, dy[0], winners(s, s->x[0]));
}

static void jvp_max_pool_backward(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    if (!flxi_is_none(tx[1]))
        ty[0] = flxi_emit1(s, NULL, (flx_val[]){s->x[0], tx[1]}, 2);
}

/* The batch joins N. */
static void batch_pooling(flxi_site *s, flx_val *by)
{
    flx_val x[2];
    flx_dim examples = 1;
    flx_dim dims[FLX_MAX_RANK];
    for (uint32_t i = 0; i < s->nin; i++) {
        flx_val v = flxi_lift(s, i);
        flx_type t = *flxi_typeof(s, v);
        examples = t.dims[1];
        t.dims[1] = flx_dim_mul(s->ctx, s->size, examples);
        x[i] = flxi_reshape_to(s, v, t.rank - 1, t.dims + 1);
    }
    flx_val y = flxi_emit1(s, NULL, x, s->nin);
    flx_type t = *flxi_typeof(s, y);
    if (s->g->error.code)
        return;
    dims[0] = s->size;
    dims[1] = examples;
    for (int k = 1; k < t.rank; k++)
        dims[k + 1] = t.dims[k];
    by[0] = flxi_reshape_to(s, y, t.rank + 1, dims);
}

/* ---- Rules ---- */

static const flxi_sample samples_pool[] = {
    {"T[2, 3, 6]", "kind=sum, kernel_size=[2]", NULL, FLX_OK},
    {"T[1, 2, 4, 5]", "kind=prod, kernel_size=[2, 3], stride=[1, 2], padding=[1, 0]", NULL, FLX_OK},
    {"f32[2, 3, 6]", "kind=max, kernel_size=[3], stride=[2], padding=[1]", NULL, FLX_OK},
    {"bf16[1, 1, 4, 4]", "kind=min, kernel_size=[2, 2]", NULL, FLX_OK},
    {"i8[1, 2, 5]", "kind=max, kernel_size=[2], stride=[1]", NULL, FLX_OK},
    {"bool[1, 2, 5]", "kind=min, kernel_size=[2]", NULL, FLX_OK},
    {"f64[1, 1, 4, 4]", "kind=mean, kernel_size=[3, 2], padding=[[2, 0], [0, 1]], stride=[1, 1]", NULL, FLX_OK},
    {"f32[1, 1, 4]", "kind=mean, kernel_size=[3], padding=[1], count_include_pad=false", NULL, FLX_OK},
    {"c64[1, 1, 4]", "kind=mean, kernel_size=[2]", NULL, FLX_OK},
    {"f32[1, 2, 9, 12]", "kind=max, kernel_size=[8, 9], stride=[1, 2], padding=[3, [0, 4]]", NULL, FLX_OK},
    {"bf16[1, 1, 80]", "kind=min, kernel_size=[70], stride=[1]", NULL, FLX_OK},
    {"T[2, 3]", "kind=sum, kernel_size=[]", NULL, FLX_OK},
    {"T[0, 3, 4]", "kind=sum, kernel_size=[2]", NULL, FLX_OK},
    {"T[N, 3, 4]", "kind=sum, kernel_size=[2]", NULL, FLX_OK},
    {"f32[1, 2, N + 2]", "kind=mean, kernel_size=[2], stride=[2], padding=[1]", NULL, FLX_OK},
    {"f32[1, 2, N + 1]", "kind=mean, kernel_size=[N + 1]", NULL, FLX_OK},
    {"T[4]", "kind=sum, kernel_size=[2]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4]", "kind=sum, kernel_size=[5]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 0]", "kind=sum, kernel_size=[2], padding=[1]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4]", "kind=sum, kernel_size=[2, 2]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4]", "kind=sum, kernel_size=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4]", "kind=sum, kernel_size=[2], padding=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4]", "kind=sum, kernel_size=[2], stride=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4]", "kernel_size=[2]", NULL, FLX_E_ATTRIBUTE},
    {"i32[2, 3, 4]", "kind=mean, kernel_size=[2]", NULL, FLX_E_DTYPE},
    {"c64[2, 3, 4]", "kind=max, kernel_size=[2]", NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_pool_argmax[] = {
    {"T[2, 3, 6]", "kernel_size=[2]", NULL, FLX_OK},
    {"T[1, 2, 4, 5]", "kernel_size=[2, 3], stride=[1, 2], padding=[1, [0, 2]]", NULL, FLX_OK},
    {"T[1, 2, 9, 12]", "kernel_size=[8, 9], stride=[1, 2], padding=[3, [0, 4]]", NULL, FLX_OK},
    {"T[0, 3, 4]", "kernel_size=[2]", NULL, FLX_OK},
    {"T[N, 3, 4]", "kernel_size=[2]", NULL, FLX_OK},
    {"T[2, 3, 4]", "kernel_size=[5]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4]", "kernel_size=[-1]", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 1, 3000000000, 0]", "kernel_size=[1, 1]", NULL, FLX_E_SHAPE},
    {"T[0, 1, 3000000000]", "kernel_size=[1]", NULL, FLX_E_SIZE},
    {0},
};

static const flxi_sample samples_max_pool_backward[] = {
    {"T[2, 3, 6], T[2, 3, 3]", "kernel_size=[2]", NULL, FLX_OK},
    {"T[1, 2, 4, 5], T[1, 2, 5, 3]", "kernel_size=[2, 3], stride=[1, 2], padding=[1, 1]", NULL, FLX_OK},
    {"T[0, 3, 4], T[0, 3, 2]", "kernel_size=[2]", NULL, FLX_OK},
    {"T[N, 3, 4], T[N, 3, 2]", "kernel_size=[2]", NULL, FLX_OK},
    {"T[2, 3, 6], T[2, 3, 2]", "kernel_size=[2]", NULL, FLX_E_SHAPE},
    {"T[2, 3, 6], T[2, 3]", "kernel_size=[2]", NULL, FLX_E_SHAPE},
    {0},
};

/* ---- Kernel expressions ---- */

static bool expresses_pool(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const pool_attrs *a = attrs;
    (void)nin;
    flxi_windows w = pool_windows(&a->common, in[0], in[0]); /* the number of windows is not checked */
    return flxi_kwindow_expresses(&w);
}

/* Taps that are padding are left out. The mean divides by their number or by that of all. */
static flxi_kval pull_pool(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    static const flxi_kcombining ops[] = {FLXI_COMBINE_ADD, FLXI_COMBINE_ADD, FLXI_COMBINE_MAX, FLXI_COMBINE_MIN,
                                          FLXI_COMBINE_MUL};
    const pool_attrs *a = e->attrs;
    flxi_windows w = pool_windows(&a->common, e->in[0], e->out[result]);
    flxi_kindex o = flxi_at_axes(e, at);
    flxi_kval acc = flxi_kcombine_start(e, ops[a->kind]);
    bool is_mean = a->kind == KIND_MEAN;
    uint32_t taps = is_mean ? flxi_kc(e, acc.re, 0) : 0;
    int64_t k[FLX_MAX_RANK] = {0};
    do {
        flxi_ktap tap = flxi_kwindow_tap(e, &w, &o, k);
        if (is_mean && (a->count_include_pad || !tap.never)) {
            uint32_t one = flxi_kc(e, taps, 1);
            bool always = a->count_include_pad || !tap.inside;
            uint32_t counted = always ? one : flxi_kb_select(e->k, tap.inside, one, flxi_kc(e, taps, 0));
            taps = flxi_khold(e, flxi_k2(e, KBIN_add, taps, counted));
        }
        if (tap.never)
            continue;
        flxi_kval x = flxi_kas(e, flxi_operand_at(e, 0, &tap.at), e->dtype);
        flxi_kval next = flxi_khold_value(e, flxi_kcombine(e, ops[a->kind], acc, flxi_khold_value(e, x)));
        acc = tap.inside ? flxi_khold_value(e, flxi_kchoose(e, tap.inside, next, acc)) : next;
    } while (flxi_next(k, w.window, w.rank));
    flxi_kval y = is_mean ? flxi_kparts(e, KBIN_div, acc, (flxi_kval){taps, taps}) : acc;
    return flxi_kas(e, y, e->out[result]->dtype);
}

/* Every window meets all its taps. */
static void work_windows(const flx_type *windows, const flxi_node *n, flxi_work *w)
{
    const pool_common *a = n->attrs;
    w->flops = flxi_work_count(windows);
    for (size_t k = 0; k < a->kernel_size.n; k++)
        w->flops = flxi_times(w->flops, flxi_work_extent(a->kernel_size.v[k]));
}

static void work_pool(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    work_windows(flxi_type_at(g, n->first), n, w);
}

/* Windows are in the axes after the examples and channels. */
static bool link_pool(const flxi_use *u, flxi_link *l)
{
    return l->axis < 2 && flxi_link_move(u, l, l->axis);
}

static int examples_or_channels(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)n, (void)operand;
    return axis < 2 ? axis : -1;
}

/* Indices count within a channel. pool_argmax has no derivative, and so no links. */
static const struct flxi_shard shard_windows = {.becomes = examples_or_channels};

const flxi_rules flxi_rules_pool = {
    .infer = infer_pool,
    .eval = eval_pool,
    .pull = pull_pool,
    .expresses = expresses_pool,
    .schema = pool_schema,
    .attrs_size = sizeof(pool_attrs),
    .vjp = vjp_pool,
    .jvp = jvp_pool,
    .batch = batch_pooling,
    .decompose = decompose_pool,
    .samples = samples_pool,
    .work = work_pool,
    .link = link_pool,
    .shard = &shard_windows,
};

static bool expresses_pool_argmax(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    (void)nin;
    flxi_windows w = pool_windows(attrs, in[0], in[0]);
    return flxi_kwindow_expresses(&w);
}

/* Whether x replaces the current maximum: it is larger or NaN, and the maximum is not NaN. */
static uint32_t wins(flxi_express *e, uint32_t x, uint32_t best)
{
    if (e->dtype == FLX_BOOL)
        return flxi_k2(e, KBIN_logical_and, x, flxi_k1(e, KUN_logical_not, best));
    uint32_t larger = flxi_k2(e, KBIN_gt, x, best);
    if (!flxi_is_float(e->dtype))
        return larger;
    uint32_t any = flxi_k2(e, KBIN_logical_or, larger, flxi_k1(e, KUN_is_nan, x));
    return flxi_k2(e, KBIN_logical_and, any, flxi_k1(e, KUN_logical_not, flxi_k1(e, KUN_is_nan, best)));
}

/* The position of an element in the flattened spatial axes, as i32. */
static uint32_t flat_index(flxi_express *e, const flxi_kindex *at)
{
    uint32_t index = flxi_ku(e, 0);
    for (int k = 2; k < e->in[0]->rank; k++)
        index = flxi_ku_add(e, flxi_ku_mul(e, index, e->in[0]->dims[k]), at->dim[k]);
    return flxi_kb_cast(e->k, FLX_I32, index);
}

/* winner_of() with the loop over taps unrolled. */
static flxi_kval pull_pool_argmax(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    flxi_windows w = pool_windows(e->attrs, e->in[0], e->out[result]);
    flxi_kindex o = flxi_at_axes(e, at);
    uint32_t best = 0, index = flxi_kb_number(e->k, FLX_I32, 0), found = 0;
    int64_t k[FLX_MAX_RANK] = {0};
    do {
        flxi_ktap tap = flxi_kwindow_tap(e, &w, &o, k);
        if (tap.never)
            continue;
        uint32_t inside = tap.inside ? tap.inside : flxi_kb_bool(e->k, true);
        uint32_t x = flxi_khold(e, flxi_kas(e, flxi_operand_at(e, 0, &tap.at), e->dtype).re);
        uint32_t here = flat_index(e, &tap.at);
        if (best) {
            uint32_t first = flxi_k1(e, KUN_logical_not, found);
            uint32_t takes = flxi_k2(e, KBIN_logical_and, inside, flxi_k2(e, KBIN_logical_or, first, wins(e, x, best)));
            takes = flxi_khold(e, takes);
            x = flxi_kb_select(e->k, takes, x, best);
            here = flxi_kb_select(e->k, takes, here, index);
            inside = flxi_k2(e, KBIN_logical_or, found, inside);
        }
        best = flxi_khold(e, x);
        index = flxi_khold(e, here);
        found = flxi_khold(e, inside);
    } while (flxi_next(k, w.window, w.rank));
    return flxi_kreal(index);
}

const flxi_rules flxi_rules_pool_argmax = {
    .infer = infer_pool_argmax,
    .eval = eval_pool_argmax,
    .pull = pull_pool_argmax,
    .expresses = expresses_pool_argmax,
    .schema = winner_schema,
    .attrs_size = sizeof(pool_common),
    .batch = batch_pooling,
    .decompose = decompose_pool_argmax,
    .samples = samples_pool_argmax,
    .work = work_pool,
    .shard = &shard_windows,
};

static void work_max_pool_backward(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    work_windows(flxi_type_at(g, n->in[1]), n, w);
}

const flxi_rules flxi_rules_max_pool_backward = {
    .infer = infer_max_pool_backward,
    .eval = eval_max_pool_backward,
    .schema = winner_schema,
    .attrs_size = sizeof(pool_common),
    .vjp = vjp_max_pool_backward,
    .jvp = jvp_max_pool_backward,
    .batch = batch_pooling,
    .decompose = decompose_max_pool_backward,
    .samples = samples_max_pool_backward,
    .work = work_max_pool_backward,
    .link = flxi_link_dense,
    .shard = &shard_windows,
};
