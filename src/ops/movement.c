/* movement.c: elements that keep their values and change their places: cut out, spread, joined, taken apart.
   diagonal.c has those that mask or move diagonals.

   Offsets and lengths may be symbolic. A range that is known to be wrong is an ATTRIBUTE error now, one that depends on
   symbols is checked when they are bound: binding runs these rules again.

   All ops here are linear. Cutting and padding are each other's transposes, as are joining and taking apart; where there is
   nothing to add, nothing is added. */
#include "ops/axis_map.h"
#include "ops/copy.h"
#include "ops/rule_lists.h"

typedef struct {
    int64_t axis;
} axis_attrs;

/* ---- narrow ---- */

typedef struct {
    int64_t axis;
    flx_dim start, len;
} narrow_attrs;

static const flxi_attr narrow_schema[] = {
    A_INT_REQ(narrow_attrs, axis), A_DIM_REQ(narrow_attrs, start), A_DIM_REQ(narrow_attrs, len), A_END};

static flx_code infer_narrow(flxi_infer *f)
{
    narrow_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    f->out[0] = *f->in[0];
    f->out[0].dims[a->axis] = a->len;
    flx_dim end = flx_dim_add(f->ctx, a->start, a->len);
    if (!flxi_dim_negative(a->start) && !flxi_dim_negative(a->len) && end != FLX_DIM_INVALID &&
        !flxi_dim_below(f->ctx, f->in[0]->dims[a->axis], end))
        return FLX_OK;
    flxi_type_text t;
    flxi_dim_text start, len;
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "0 <= start, 0 <= len and start + len <= extent must hold",
                           "start=%s, len=%s leave axis %lld of x, of shape %s", flxi_dim_str(f->ctx, a->start, &start),
                           flxi_dim_str(f->ctx, a->len, &len), (long long)a->axis,
                           flxi_shape_str(f->ctx, f->in[0], &t));
}

static int64_t at_narrow(const flxi_eval *e, int axis, int64_t i)
{
    const narrow_attrs *a = e->attrs;
    return axis == a->axis ? a->start + i : i;
}

static flx_code eval_narrow(flxi_eval *e)
{
    return flxi_move_each(e, at_narrow);
}

static const flxi_sample samples_narrow[] = {
    {"T[4, 3]", "axis=0, start=1, len=2", NULL, FLX_OK},
    {"T[2, 5]", "axis=-1, start=0, len=5", NULL, FLX_OK},
    {"T[2, 5]", "axis=1, start=5, len=0", NULL, FLX_OK},
    {"T[0, 2]", "axis=0, start=0, len=0", NULL, FLX_OK},
    {"T[0, 4]", "axis=1, start=1, len=2", NULL, FLX_OK},
    {"T[N, 2]", "axis=0, start=1, len=N-1", NULL, FLX_OK},
    {"T[2, N+2]", "axis=1, start=N, len=2", NULL, FLX_OK},
    {"T[4]", "axis=0, start=2, len=3", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "axis=0, start=-1, len=2", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "axis=0, start=2, len=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "axis=0, start=4611686018427387904, len=1", NULL, FLX_E_ATTRIBUTE},
    {"T[N]", "axis=0, start=1, len=N", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "axis=1, start=0, len=1", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "axis=0, start=0", NULL, FLX_E_ATTRIBUTE},
    {"T[]", "axis=0, start=0, len=1", NULL, FLX_E_SHAPE},
    {0},
};

/* Zeros before and behind the part that was cut out, if there are any. */
static void vjp_narrow(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const narrow_attrs *a = s->attrs;
    flx_dim low[FLX_MAX_RANK] = {0};
    flx_dim high[FLX_MAX_RANK] = {0};
    flx_dim end = flx_dim_add(s->ctx, a->start, a->len);
    low[a->axis] = a->start;
    high[a->axis] = flx_dim_sub(s->ctx, flxi_typeof(s, s->x[0])->dims[a->axis], end);
    dx[0] = flxi_pad_zeros(s, dy[0], low, high);
}

static void batch_narrow(flxi_site *s, flx_val *by)
{
    const narrow_attrs *a = s->attrs;
    by[0] = flx_narrow(s->g, s->x[0], a->axis + 1, a->start, a->len);
}

const flxi_rules flxi_rules_narrow = {
    .infer = infer_narrow,
    .eval = eval_narrow,
    .vjp = vjp_narrow,
    .batch = batch_narrow,
    .schema = narrow_schema,
    .attrs_size = sizeof(narrow_attrs),
    .samples = samples_narrow,
};

/* ---- slice ---- */

typedef struct {
    flx_ints start, limit, stride;
} slice_attrs;

static const flxi_attr slice_schema[] = {
    A_DIMS_REQ(slice_attrs, start), A_DIMS_REQ(slice_attrs, limit), A_INTS(slice_attrs, stride, "all 1"), A_END};

/* ⌈n / stride⌉, without overflow for any stride of a number. */
static flx_dim steps(flx_context *ctx, flx_dim n, int64_t stride)
{
    if (!flxi_dim_is_number(n))
        return flxi_dim_ceil_div(ctx, n, stride);
    return n / stride + (n % stride != 0);
}

static flx_code infer_slice(flxi_infer *f)
{
    slice_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    size_t rank = (size_t)x->rank;
    FLXI_TRY(flxi_norm_list(f, "start", &a->start, rank, 0));
    FLXI_TRY(flxi_norm_list(f, "limit", &a->limit, rank, 0));
    FLXI_TRY(flxi_norm_list(f, "stride", &a->stride, rank, 1));
    FLXI_TRY(flxi_need_counts(f, "start", &a->start));
    FLXI_TRY(flxi_need_counts(f, "limit", &a->limit));
    f->out[0] = *x;
    for (int k = 0; k < x->rank; k++) {
        flx_dim start = a->start.v[k];
        flx_dim limit = a->limit.v[k];
        flxi_type_text t;
        flxi_dim_text s, l;
        if (flxi_dim_below(f->ctx, limit, start) || flxi_dim_below(f->ctx, x->dims[k], limit))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "0 <= start <= limit <= extent must hold on every axis",
                                   "start=%s, limit=%s do not fit axis %d of x, of shape %s",
                                   flxi_dim_str(f->ctx, start, &s), flxi_dim_str(f->ctx, limit, &l), k,
                                   flxi_shape_str(f->ctx, x, &t));
        if (a->stride.v[k] < 1)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "to walk backwards, use reverse",
                                   "stride[%d] must be at least 1, it is %lld", k, (long long)a->stride.v[k]);
        f->out[0].dims[k] = steps(f->ctx, flx_dim_sub(f->ctx, limit, start), a->stride.v[k]);
    }
    return FLX_OK;
}

static int64_t at_slice(const flxi_eval *e, int axis, int64_t i)
{
    const slice_attrs *a = e->attrs;
    return a->start.v[axis] + i * a->stride.v[axis];
}

static flx_code eval_slice(flxi_eval *e)
{
    return flxi_move_each(e, at_slice);
}

static const flxi_sample samples_slice[] = {
    {"T[4, 5]", "start=[1, 0], limit=[3, 5]", NULL, FLX_OK},
    {"T[7]", "start=[1], limit=[7], stride=[3]", NULL, FLX_OK},
    {"T[4, 5]", "start=[0, 1], limit=[4, 4], stride=[2, 2]", NULL, FLX_OK},
    {"T[5]", "start=[0], limit=[5], stride=[4611686018427387904]", NULL, FLX_OK},
    {"T[]", "start=[], limit=[]", NULL, FLX_OK},
    {"T[3]", "start=[2], limit=[2]", NULL, FLX_OK},
    {"T[0, 3]", "start=[0, 1], limit=[0, 3]", NULL, FLX_OK},
    {"T[N, 3]", "start=[1, 0], limit=[N, 2]", NULL, FLX_OK},
    {"T[N, 3]", "start=[0, 0], limit=[N, 3], stride=[2, 1]", NULL, FLX_OK},
    {"T[4]", "start=[0], limit=[5]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "start=[3], limit=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "start=[-1], limit=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "start=[0], limit=[4], stride=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "start=[0], limit=[4], stride=[1, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[4, 4]", "start=[0], limit=[4]", NULL, FLX_E_ATTRIBUTE},
    {"T[N]", "start=[0], limit=[N+1]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "limit=[4]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* The extent with `interior` values between neighbours. A symbol counts as at least 1 here; bound to 0, the rule runs
   again with that number. */
static flx_dim spread(flx_context *ctx, flx_dim n, int64_t interior)
{
    if (n == 0 || n == 1 || interior == 0)
        return n;
    flx_dim gaps = flx_dim_mul(ctx, flx_dim_sub(ctx, n, 1), flx_dim_add(ctx, interior, 1));
    return flx_dim_add(ctx, gaps, 1);
}

/* stride - 1 zeros behind every position of an axis whose extent is a symbol. pad's interior would put them between
   neighbours, of which an extent that turns out to be 0 has not -1 but none. */
static flx_val spread_axis(flxi_site *s, flx_val v, int axis, int64_t stride)
{
    flx_type t = *flxi_typeof(s, v);
    flx_dim flat[3] = {1, 1, 1};
    for (int k = 0; k < t.rank; k++) {
        flx_dim *n = &flat[k <= axis ? 0 : 2];
        *n = flx_dim_mul(s->ctx, *n, t.dims[k]);
    }
    v = flxi_reshape_to(s, v, 3, flat);
    v = flxi_pad_zeros(s, v, (flx_dim[]){0, 0, 0}, (flx_dim[]){0, stride - 1, 0});
    t.dims[axis] = flx_dim_mul(s->ctx, t.dims[axis], stride);
    return flxi_reshape_like(s, v, &t);
}

/* Each element goes back to start + i*stride, zeros elsewhere. */
static void vjp_slice(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const slice_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_dim high[FLX_MAX_RANK];
    int64_t interior[FLX_MAX_RANK];
    flx_val v = dy[0];
    bool whole = true;
    for (int k = 0; k < x->rank; k++) {
        flx_dim n = flxi_typeof(s, dy[0])->dims[k];
        int64_t stride = a->stride.v[k];
        if (n == 0) {
            dx[0] = flxi_zeros_like(s, s->x[0]);
            return;
        }
        bool spread_first = stride > 1 && !flxi_dim_is_number(n);
        if (spread_first) {
            v = spread_axis(s, v, k, stride);
            n = flxi_typeof(s, v)->dims[k];
        }
        interior[k] = spread_first ? 0 : stride - 1;
        flx_dim used = flx_dim_add(s->ctx, a->start.v[k], spread(s->ctx, n, interior[k]));
        high[k] = flx_dim_sub(s->ctx, x->dims[k], used);
        whole = whole && a->start.v[k] == 0 && high[k] == 0 && (interior[k] == 0 || n == 1);
    }
    size_t rank = (size_t)x->rank;
    dx[0] = whole ? v : flx_pad(s->g, v, flxi_number(s, v, 0.0), a->start, (flx_ints){high, rank},
                                (flx_ints){interior, rank});
}

static void batch_slice(flxi_site *s, flx_val *by)
{
    const slice_attrs *a = s->attrs;
    by[0] = flx_slice(s->g, s->x[0], flxi_list_behind(s, 0, a->start, 0), flxi_list_behind(s, s->size, a->limit, 0),
                      flxi_list_behind(s, 1, a->stride, 0));
}

const flxi_rules flxi_rules_slice = {
    .infer = infer_slice,
    .eval = eval_slice,
    .vjp = vjp_slice,
    .batch = batch_slice,
    .schema = slice_schema,
    .attrs_size = sizeof(slice_attrs),
    .samples = samples_slice,
};

/* ---- pad ---- */

typedef struct {
    flx_ints low, high, interior;
} pad_attrs;

static const flxi_attr pad_schema[] = {
    A_DIMS(pad_attrs, low, "all 0"), A_DIMS(pad_attrs, high, "all 0"), A_INTS(pad_attrs, interior, "all 0"), A_END};

static flx_code infer_pad(flxi_infer *f)
{
    pad_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flxi_type_text t;
    if (f->in[1]->rank != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "value must be a scalar, its shape is %s",
                               flxi_shape_str(f->ctx, f->in[1], &t));
    size_t rank = (size_t)x->rank;
    FLXI_TRY(flxi_norm_list(f, "low", &a->low, rank, 0));
    FLXI_TRY(flxi_norm_list(f, "high", &a->high, rank, 0));
    FLXI_TRY(flxi_norm_list(f, "interior", &a->interior, rank, 0));
    FLXI_TRY(flxi_need_counts(f, "interior", &a->interior));
    f->out[0] = *x;
    for (int k = 0; k < x->rank; k++) {
        flx_dim d = spread(f->ctx, x->dims[k], a->interior.v[k]);
        d = flx_dim_add(f->ctx, flx_dim_add(f->ctx, a->low.v[k], d), a->high.v[k]);
        flxi_dim_text low, high;
        if (flxi_dim_negative(d))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "crop no more than there is",
                                   "low=%s, high=%s crop axis %d of x, of shape %s, to a negative extent",
                                   flxi_dim_str(f->ctx, a->low.v[k], &low), flxi_dim_str(f->ctx, a->high.v[k], &high),
                                   k, flxi_shape_str(f->ctx, x, &t));
        f->out[0].dims[k] = d;
    }
    return FLX_OK;
}

static int64_t at_pad(const flxi_eval *e, int axis, int64_t i)
{
    const pad_attrs *a = e->attrs;
    int64_t at = i - a->low.v[axis];
    int64_t step = a->interior.v[axis] + 1;
    bool inside = at >= 0 && at % step == 0 && at / step < e->in[0]->type.dims[axis];
    return inside ? at / step : -1;
}

static flx_code eval_pad(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    flxi_fill_elements(y->data, y->count, e->in[1]->data, flx_dtype_size(y->type.dtype));
    return flxi_move_each(e, at_pad);
}

static const flxi_sample samples_pad[] = {
    {"T[3], T[]", "low=[1], high=[2]", NULL, FLX_OK},
    {"T[2, 3], T[]", "low=[1, 0], high=[0, 1], interior=[0, 2]", NULL, FLX_OK},
    {"T[5], T[]", "low=[-1], high=[-2]", NULL, FLX_OK},
    {"T[4], T[]", "low=[-2], high=[1], interior=[2]", NULL, FLX_OK},
    {"T[3], T[]", "low=[4], high=[-5]", NULL, FLX_OK},
    {"T[1], T[]", "interior=[4611686018427387904]", NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[2], T[]", NULL, NULL, FLX_OK},
    {"T[0], T[]", "low=[1], high=[2], interior=[3]", NULL, FLX_OK},
    {"T[2, 0], T[]", "low=[1, 1], high=[0, 0]", NULL, FLX_OK},
    {"T[3], T[]", "low=[-3]", NULL, FLX_OK},
    {"T[N, 2], T[]", "low=[N, 0], high=[1, 0]", NULL, FLX_OK},
    {"T[N, 2], T[]", "low=[-1, 0], high=[1, -1], interior=[2, 1]", NULL, FLX_OK},
    {"T[N], T[]", "high=[-1], interior=[1]", NULL, FLX_OK},
    {"T[3], T[]", "low=[-4]", NULL, FLX_E_ATTRIBUTE},
    {"T[3], T[]", "interior=[-1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3], T[]", "low=[1, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3], T[]", "high=[4611686018427387904]", NULL, FLX_E_SIZE},
    {"T[3], T[1]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

/* Where elements of x stand in the result, as bool. */
static flx_val reached(flxi_site *s, const flx_type *x)
{
    const pad_attrs *a = s->attrs;
    flx_type mask = flx_type_make(FLX_BOOL, x->rank, x->dims);
    return flx_pad(s->g, flxi_full(s, &mask, 1.0), flx_scalar(s->g, FLX_BOOL, 0.0), a->low, a->high, a->interior);
}

/* The ends are taken off, or put back where they were cropped, and what is between neighbours is stepped over. */
static flx_val unpad(flxi_site *s, flx_val dy)
{
    const pad_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_dim low[FLX_MAX_RANK];
    flx_dim high[FLX_MAX_RANK];
    flx_dim limit[FLX_MAX_RANK];
    flx_dim start[FLX_MAX_RANK] = {0};
    int64_t stride[FLX_MAX_RANK];
    bool strided = false;
    size_t rank = (size_t)x->rank;
    for (size_t k = 0; k < rank; k++) {
        low[k] = flx_dim_sub(s->ctx, 0, a->low.v[k]);
        high[k] = flx_dim_sub(s->ctx, 0, a->high.v[k]);
        limit[k] = spread(s->ctx, x->dims[k], a->interior.v[k]);
        stride[k] = a->interior.v[k] + 1;
        strided |= stride[k] > 1 && x->dims[k] != 0 && x->dims[k] != 1;
    }
    flx_val v = flxi_pad_zeros(s, dy, low, high);
    return strided ? flx_slice(s->g, v, (flx_ints){start, rank}, (flx_ints){limit, rank}, (flx_ints){stride, rank}) : v;
}

/* What no element of x reached belongs to the value. */
static void vjp_pad(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[0])
        dx[0] = unpad(s, dy[0]);
    if (s->wanted[1]) {
        flx_val rest = flx_where(s->g, reached(s, flxi_typeof(s, s->x[0])), flxi_number(s, dy[0], 0.0), dy[0]);
        dx[1] = flx_reduce_sum(s->g, rest, FLX_ALL, 0);
    }
}

/* A value per example cannot be one scalar: it is selected where no element of x is. */
static void batch_pad(flxi_site *s, flx_val *by)
{
    const pad_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_type example = flx_type_make((flx_dtype)x->dtype, flxi_example_rank(s, 0), x->dims + s->batched[0]);
    flx_val value = s->batched[1] ? flxi_number(s, s->x[0], 0.0) : s->x[1];
    flx_ints low = s->batched[0] ? flxi_list_behind(s, 0, a->low, 0) : a->low;
    flx_ints high = s->batched[0] ? flxi_list_behind(s, 0, a->high, 0) : a->high;
    flx_ints interior = s->batched[0] ? flxi_list_behind(s, 0, a->interior, 0) : a->interior;
    flx_val y = flx_pad(s->g, s->x[0], value, low, high, interior);
    by[0] = s->batched[1] ? flx_where(s->g, reached(s, &example), y, flxi_align(s, s->x[1], true, example.rank)) : y;
}

const flxi_rules flxi_rules_pad = {
    .infer = infer_pad,
    .eval = eval_pad,
    .vjp = vjp_pad,
    .batch = batch_pad,
    .schema = pad_schema,
    .attrs_size = sizeof(pad_attrs),
    .samples = samples_pad,
};

/* ---- reverse ---- */

typedef struct {
    flx_ints axes;
} reverse_attrs;

static const flxi_attr reverse_schema[] = {A_INTS_REQ(reverse_attrs, axes), A_END};

static flx_code infer_reverse(flxi_infer *f)
{
    reverse_attrs *a = f->attrs;
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, f->in[0]->rank, true));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static int64_t at_reverse(const flxi_eval *e, int axis, int64_t i)
{
    const reverse_attrs *a = e->attrs;
    for (size_t k = 0; k < a->axes.n; k++)
        if (a->axes.v[k] == axis)
            return e->in[0]->type.dims[axis] - 1 - i;
    return i;
}

static flx_code eval_reverse(flxi_eval *e)
{
    return flxi_move_each(e, at_reverse);
}

static const flxi_sample samples_reverse[] = {
    {"T[4]", "axes=[0]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[-1]", NULL, FLX_OK},
    {"T[2, 3, 2]", "axes=[2, 0]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[]", NULL, FLX_OK},
    {"T[]", "axes=[]", NULL, FLX_OK},
    {"T[0, 2]", "axes=[0]", NULL, FLX_OK},
    {"T[N, 2]", "axes=[0]", NULL, FLX_OK},
    {"T[4]", "axes=[1]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "axes=[1, -1]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

static void vjp_reverse(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flxi_emit1(s, NULL, dy, 1);
}

static void batch_reverse(flxi_site *s, flx_val *by)
{
    reverse_attrs *a = flxi_site_attrs(s);
    if (a)
        flxi_shift_axes(s, &a->axes);
    flxi_emit(s, a, s->x, 1, by);
}

const flxi_rules flxi_rules_reverse = {
    .infer = infer_reverse,
    .eval = eval_reverse,
    .vjp = vjp_reverse,
    .batch = batch_reverse,
    .schema = reverse_schema,
    .attrs_size = sizeof(reverse_attrs),
    .samples = samples_reverse,
};

/* ---- concat, stack ---- */

static const flxi_attr concat_schema[] = {A_INT_REQ(axis_attrs, axis), A_END};
static const flxi_attr first_axis_schema[] = {A_INT(axis_attrs, axis, 0), A_END};

static flx_code infer_concat(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    flx_type y = *f->in[0];
    for (uint32_t k = 1; k < f->nin; k++) {
        FLXI_TRY(flxi_merge_shape(f, k, a->axis, &y));
        y.dims[a->axis] = flx_dim_add(f->ctx, y.dims[a->axis], f->in[k]->dims[a->axis]);
    }
    f->out[0] = y;
    return FLX_OK;
}

static flx_code infer_stack(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    flx_type y;
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_equal_shapes(f, f->nin, &y));
    FLXI_TRY(flxi_need_result_rank(f, (size_t)y.rank + 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, y.rank + 1));
    for (int axis = y.rank++; axis > a->axis; axis--)
        y.dims[axis] = y.dims[axis - 1];
    y.dims[a->axis] = f->nin;
    f->out[0] = y;
    return FLX_OK;
}

/* `outer` blocks of `nbytes`; consecutive ones are a step apart on either side. */
static void copy_blocks(unsigned char *dst, size_t dst_step, const unsigned char *src, size_t src_step, size_t nbytes,
                        int64_t outer)
{
    for (int64_t o = 0; o < outer; o++)
        memcpy(dst + (size_t)o * dst_step, src + (size_t)o * src_step, nbytes);
}

/* Lays the operands side by side along the result's axis. Each takes as many positions there as its count says: one in
   a stack. */
static flx_code eval_join(flxi_eval *e)
{
    const axis_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    if (y->count == 0)
        return FLX_OK;
    flxi_split s = flxi_split_at(&y->type, a->axis);
    size_t step = y->nbytes / (size_t)s.outer;
    size_t at = 0;
    for (uint32_t k = 0; k < e->nin; k++) {
        size_t part = e->in[k]->nbytes / (size_t)s.outer;
        copy_blocks((unsigned char *)y->data + at, step, e->in[k]->data, part, part, s.outer);
        at += part;
    }
    return FLX_OK;
}

static const flxi_sample samples_concat[] = {
    {"T[2, 3], T[4, 3]", "axis=0", NULL, FLX_OK},
    {"T[2, 3], T[2, 1], T[2, 2]", "axis=-1", NULL, FLX_OK},
    {"T[2, 3]", "axis=0", NULL, FLX_OK},
    {"T[2, 1, 2], T[2, 3, 2]", "axis=1", NULL, FLX_OK},
    {"T[0], T[3]", "axis=0", NULL, FLX_OK},
    {"T[2, 0], T[2, 0]", "axis=0", NULL, FLX_OK},
    {"T[N, 3], T[2, 3]", "axis=0", NULL, FLX_OK},
    {"T[N, 3], T[N, 2]", "axis=1", NULL, FLX_OK},
    {"T[N, 3], T[3, 2]", "axis=1", NULL, FLX_OK},
    {"T[2, 3], T[2, 4]", "axis=0", NULL, FLX_E_SHAPE},
    {"T[2, 3], T[2]", "axis=0", NULL, FLX_E_SHAPE},
    {"T[N, 3], T[N+1, 3]", "axis=1", NULL, FLX_E_SHAPE},
    {"T[], T[]", "axis=0", NULL, FLX_E_SHAPE},
    {"T[2], T[3]", "axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[2], T[3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"", "axis=0", NULL, FLX_E_ARITY},
    {0},
};

static const flxi_sample samples_stack[] = {
    {"T[2, 3], T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[2, 3], T[2, 3]", "axis=1", NULL, FLX_OK},
    {"T[2, 3], T[2, 3]", "axis=-1", NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[3]", "axis=0", NULL, FLX_OK},
    {"T[0, 2], T[0, 2]", "axis=1", NULL, FLX_OK},
    {"T[N, 2], T[N, 2]", "axis=2", NULL, FLX_OK},
    {"T[N, 2], T[3, 2]", "axis=1", NULL, FLX_OK},
    {"T[2], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2], T[2, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[2], T[2]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", NULL, NULL, FLX_E_SIZE},
    {"", NULL, NULL, FLX_E_ARITY},
    {0},
};

/* Each operand gets its part back. */
static void vjp_concat(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    flx_dim at = 0;
    for (uint32_t k = 0; k < s->nin; k++) {
        const flx_type *x = flxi_typeof(s, s->x[k]);
        flx_dim len = x->dims[a->axis];
        if (s->wanted[k])
            dx[k] = flxi_reshape_like(s, s->nin == 1 ? dy[0] : flx_narrow(s->g, dy[0], a->axis, at, len), x);
        at = flx_dim_add(s->ctx, at, len);
    }
}

static void vjp_stack(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    flx_unstack(s->g, dy[0], a->axis, dx, s->nin);
    for (uint32_t k = 0; k < s->nin; k++)
        dx[k] = s->wanted[k] ? flxi_reshape_like(s, dx[k], flxi_typeof(s, s->x[k])) : FLX_NONE;
}

/* concat and stack: all operands with the batch axis, joined one axis further behind. */
static void batch_join(flxi_site *s, flx_val *by)
{
    axis_attrs *a = flxi_site_attrs(s);
    flx_val *x = flxi_new(&s->g->arena, flx_val, s->nin);
    if (!a || !x)
        return;
    a->axis++;
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = flxi_lift(s, k);
    flxi_emit(s, a, x, s->nin, by);
}

static void decompose_stack(flxi_site *s, flx_val *y)
{
    const axis_attrs *a = s->attrs;
    flx_val *rows = flxi_new(&s->g->arena, flx_val, s->nin);
    for (uint32_t k = 0; rows && k < s->nin; k++)
        rows[k] = flx_unsqueeze(s->g, s->x[k], FLX_INTS(a->axis));
    if (rows)
        y[0] = flx_concat(s->g, rows, s->nin, a->axis);
}

const flxi_rules flxi_rules_concat = {
    .infer = infer_concat,
    .eval = eval_join,
    .vjp = vjp_concat,
    .batch = batch_join,
    .schema = concat_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_concat,
};

const flxi_rules flxi_rules_stack = {
    .infer = infer_stack,
    .eval = eval_join,
    .vjp = vjp_stack,
    .batch = batch_join,
    .decompose = decompose_stack,
    .schema = first_axis_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_stack,
};

/* ---- split, unstack ---- */

typedef struct {
    flx_ints sizes;
    int64_t axis;
} split_attrs;

static const flxi_attr split_schema[] = {A_DIMS_REQ(split_attrs, sizes), A_INT(split_attrs, axis, 0), A_END};

static flx_code infer_split(flxi_infer *f)
{
    split_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, x->rank));
    FLXI_TRY(flxi_need_counts(f, "sizes", &a->sizes));
    if (a->sizes.n == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "sizes must have at least one entry");
    FLXI_TRY(flxi_results(f, a->sizes.n));
    flx_dim sum = 0;
    for (size_t k = 0; k < a->sizes.n; k++) {
        sum = flx_dim_add(f->ctx, sum, a->sizes.v[k]);
        f->out[k] = *x;
        f->out[k].dims[a->axis] = a->sizes.v[k];
    }
    if (sum != FLX_DIM_INVALID && flxi_dims_may_equal(f, sum, x->dims[a->axis]))
        return FLX_OK;
    flxi_type_text t;
    flxi_dim_text d;
    return flxi_infer_fail(f, FLX_E_SHAPE, "the sizes must add up to the extent",
                           "sizes add up to %s, x, of shape %s, does not have that extent on axis %lld",
                           sum == FLX_DIM_INVALID ? "too much" : flxi_dim_str(f->ctx, sum, &d),
                           flxi_shape_str(f->ctx, x, &t), (long long)a->axis);
}

static flx_code infer_unstack(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, x->rank));
    flx_dim n = x->dims[a->axis];
    flxi_type_text t;
    if (!flxi_dim_is_number(n))
        return flxi_infer_fail(f, FLX_E_UNBOUND_DIM, "specialise the graph first; the number of results depends on it",
                               "axis %lld of x, of shape %s, has no number as extent", (long long)a->axis,
                               flxi_shape_str(f->ctx, x, &t));
    if (n == 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "axis %lld of x, of shape %s, is empty: there would be no result",
                               (long long)a->axis, flxi_shape_str(f->ctx, x, &t));
    FLXI_TRY(flxi_results(f, (size_t)n));
    flx_type row = {.dtype = x->dtype};
    for (int axis = 0; axis < x->rank; axis++)
        if (axis != a->axis)
            row.dims[row.rank++] = x->dims[axis];
    for (int64_t k = 0; k < n; k++)
        f->out[k] = row;
    return FLX_OK;
}

/* The inverse of eval_join: each result takes as many positions as its count says. */
static flx_code take_apart(flxi_eval *e, int64_t axis)
{
    const flx_tensor *x = e->in[0];
    if (x->count == 0)
        return FLX_OK;
    flxi_split s = flxi_split_at(&x->type, axis);
    size_t step = x->nbytes / (size_t)s.outer;
    size_t at = 0;
    for (uint32_t k = 0; k < e->nout; k++) {
        size_t part = e->out[k]->nbytes / (size_t)s.outer;
        copy_blocks(e->out[k]->data, part, (const unsigned char *)x->data + at, step, part, s.outer);
        at += part;
    }
    return FLX_OK;
}

static flx_code eval_split(flxi_eval *e)
{
    return take_apart(e, ((const split_attrs *)e->attrs)->axis);
}

static flx_code eval_unstack(flxi_eval *e)
{
    return take_apart(e, ((const axis_attrs *)e->attrs)->axis);
}

static const flxi_sample samples_split[] = {
    {"T[5, 2]", "sizes=[2, 3]", NULL, FLX_OK},
    {"T[2, 5]", "sizes=[1, 0, 4], axis=-1", NULL, FLX_OK},
    {"T[3]", "sizes=[3]", NULL, FLX_OK},
    {"T[2, 4, 2]", "sizes=[1, 3], axis=1", NULL, FLX_OK},
    {"T[0, 2]", "sizes=[0, 0]", NULL, FLX_OK},
    {"T[0, 3]", "sizes=[1, 2], axis=1", NULL, FLX_OK},
    {"T[N*3]", "sizes=[N, 2*N]", NULL, FLX_OK},
    {"T[N]", "sizes=[1, 2]", NULL, FLX_OK},
    {"T[5]", "sizes=[2, 2]", NULL, FLX_E_SHAPE},
    {"T[N]", "sizes=[N, 1]", NULL, FLX_E_SHAPE},
    {"T[5]", "sizes=[4611686018427387904, 4611686018427387904]", NULL, FLX_E_SHAPE},
    {"T[5]", "sizes=[6, -1]", NULL, FLX_E_ATTRIBUTE},
    {"T[0]", "sizes=[]", NULL, FLX_E_ATTRIBUTE},
    {"T[5]", "sizes=[5], axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[]", "sizes=[1]", NULL, FLX_E_SHAPE},
    {0},
};

static const flxi_sample samples_unstack[] = {
    {"T[3, 2]", NULL, NULL, FLX_OK},
    {"T[3, 2]", "axis=-1", NULL, FLX_OK},
    {"T[2, 3, 2]", "axis=1", NULL, FLX_OK},
    {"T[2]", NULL, NULL, FLX_OK},
    {"T[2, 0]", NULL, NULL, FLX_OK},
    {"T[2, N]", NULL, NULL, FLX_OK},
    {"T[N, 2]", NULL, NULL, FLX_E_UNBOUND_DIM},
    {"T[0, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[65536]", NULL, NULL, FLX_E_SIZE},
    {"T[2]", "axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

/* The parts joined again, zeros for those without a cotangent; empty parts are left out. */
static void vjp_split(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const split_attrs *a = s->attrs;
    flx_val *parts = flxi_new(&s->g->arena, flx_val, s->nout);
    uint32_t n = 0;
    for (uint32_t k = 0; parts && k < s->nout; k++)
        if (a->sizes.v[k] != 0)
            parts[n++] = flxi_or_zeros(s, dy[k], s->y[k]);
    flx_val joined = n == 0 ? flxi_zeros_like(s, s->x[0]) : n == 1 ? parts[0] : flx_concat(s->g, parts, n, a->axis);
    dx[0] = flxi_reshape_like(s, joined, flxi_typeof(s, s->x[0]));
}

static void vjp_unstack(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    flx_val *rows = flxi_new(&s->g->arena, flx_val, s->nout);
    flx_val zero = FLX_NONE; /* one for all rows without a cotangent */
    for (uint32_t k = 0; rows && k < s->nout; k++) {
        if (flxi_is_none(dy[k]) && flxi_is_none(zero))
            zero = flxi_zeros_like(s, s->y[k]);
        rows[k] = flxi_is_none(dy[k]) ? zero : dy[k];
    }
    if (rows)
        dx[0] = flx_stack(s->g, rows, s->nout, a->axis);
}

static void batch_split(flxi_site *s, flx_val *by)
{
    const split_attrs *a = s->attrs;
    flx_split(s->g, s->x[0], a->sizes, a->axis + 1, by, s->nout);
}

static void batch_unstack(flxi_site *s, flx_val *by)
{
    const axis_attrs *a = s->attrs;
    flx_unstack(s->g, s->x[0], a->axis + 1, by, s->nout);
}

static void decompose_split(flxi_site *s, flx_val *y)
{
    const split_attrs *a = s->attrs;
    flx_dim at = 0;
    for (uint32_t k = 0; k < s->nout; k++) {
        y[k] = flx_narrow(s->g, s->x[0], a->axis, at, a->sizes.v[k]);
        at = flx_dim_add(s->ctx, at, a->sizes.v[k]);
    }
}

static void decompose_unstack(flxi_site *s, flx_val *y)
{
    const axis_attrs *a = s->attrs;
    for (uint32_t k = 0; k < s->nout; k++)
        y[k] = flx_squeeze(s->g, flx_narrow(s->g, s->x[0], a->axis, k, 1), FLX_INTS(a->axis));
}

const flxi_rules flxi_rules_split = {
    .infer = infer_split,
    .eval = eval_split,
    .vjp = vjp_split,
    .batch = batch_split,
    .decompose = decompose_split,
    .schema = split_schema,
    .attrs_size = sizeof(split_attrs),
    .samples = samples_split,
};

const flxi_rules flxi_rules_unstack = {
    .infer = infer_unstack,
    .eval = eval_unstack,
    .vjp = vjp_unstack,
    .batch = batch_unstack,
    .decompose = decompose_unstack,
    .schema = first_axis_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_unstack,
};
