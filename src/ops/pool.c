/* pool.c: pooling over the spatial axes of [N, C, spatial…]: plain windows, floor mode, padding at most window − 1.

   Padding takes no part in max, min and prod, and adds nothing to a sum; so no window is without an element, provided
   that no spatial axis is empty, which is an error. Sums follow ops.md 0.2 and are rounded once. */
#include "ops/sliding.h"

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
            return flxi_infer_fail(
                f, FLX_E_ATTRIBUTE, "pad explicitly with the op pad",
                "padding of spatial axis %zu must be at least 0 and less than the window, it is %lld", k / 2,
                (long long)pad);
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

/* The shape of one value for each window of operand 0. */
static flx_code pooled_type(flxi_infer *f, pool_common *a, flx_type *y)
{
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(norm_pool(f, a, (size_t)x->rank - 2));
    *y = *x;
    for (int k = 2; k < x->rank; k++) {
        flxi_slide s = pool_slide(a, k, x->dims[k]);
        if (x->dims[k] == 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "spatial axis %d of x is empty: its windows hold nothing",
                                   k - 2);
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
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "%lld positions do not fit an i32", (long long)plane);
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
        return flxi_infer_fail(f, FLX_E_SHAPE, "dy has one element for each window", "the pooled shape is %s, dy is %s",
                               flxi_shape_str(f->ctx, &y, &ty), flxi_shape_str(f->ctx, dy, &td));
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
    for (int64_t i = 0; i < y->count; i++, flxi_next(o, w.count, w.rank)) {
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

/* The element of x that wins window o: the first largest one, or the first NaN. */
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
    for (int64_t i = 0; i < y->count; i++, flxi_next(o, w.count, w.rank))
        flxi_store_int(FLX_I32, y->data, i, winner_of(&w, t, x->data, o) % plane);
    return FLX_OK;
}

static flx_code eval_max_pool_backward(flxi_eval *e)
{
    const flx_tensor *x = e->in[0];
    const flx_tensor *dy = e->in[1];
    flx_tensor *dx = e->out[0];
    flxi_windows w = pool_windows(e->attrs, &x->type, &dy->type);
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_num *sum = flxi_alloc(e->mem, (size_t)dx->count, sizeof *sum);
    if (!sum)
        return flxi_oom(e->err, "the sums of a pooling's gradient");
    for (int64_t i = 0; i < dx->count; i++)
        sum[i] = t->zero;
    int64_t o[FLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < dy->count; i++, flxi_next(o, w.count, w.rank)) {
        int64_t at = winner_of(&w, t, x->data, o);
        if (at >= 0)
            sum[at] = t->accumulate(sum[at], t->load(dy->data, i));
    }
    for (int64_t i = 0; i < dx->count; i++)
        t->store(dx->data, i, sum[i]);
    flxi_free(e->mem, sum, (size_t)dx->count, sizeof *sum);
    return FLX_OK;
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

const flxi_rules flxi_rules_pool = {
    .infer = infer_pool,
    .eval = eval_pool,
    .schema = pool_schema,
    .attrs_size = sizeof(pool_attrs),
    .samples = samples_pool,
};

const flxi_rules flxi_rules_pool_argmax = {
    .infer = infer_pool_argmax,
    .eval = eval_pool_argmax,
    .schema = winner_schema,
    .attrs_size = sizeof(pool_common),
    .samples = samples_pool_argmax,
};

const flxi_rules flxi_rules_max_pool_backward = {
    .infer = infer_max_pool_backward,
    .eval = eval_max_pool_backward,
    .schema = winner_schema,
    .attrs_size = sizeof(pool_common),
    .samples = samples_max_pool_backward,
};
