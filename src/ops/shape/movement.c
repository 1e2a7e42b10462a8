/* SPDX-License-Identifier: Apache-2.0 */
/* movement.c: ops that move elements without changing them: slicing, spreading, reversing. join.c has those that join
   and split tensors, diagonal.c those that mask or move diagonals.

   Offsets and lengths may be symbolic. A range that is known to be wrong is an ATTRIBUTE error now, one that depends on
   symbols is checked when they are bound: binding runs these rules again.

   All ops here are linear. Slicing and padding are each other's transposes; where there is nothing to pad, no op is
   appended. */
#include "graph/op/work.h"
#include "ops/express/express.h"
#include "ops/rule/axis/axis_map.h"
#include "ops/rule/copy.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

/* ---- narrow ---- */

typedef struct {
    int64_t axis;
    flx_dim start, len;
} narrow_attrs;

static const flxi_attr narrow_schema[] = {A_INT_REQ(narrow_attrs, axis), A_DIM_REQ(narrow_attrs, start),
                                          A_DIM_REQ(narrow_attrs, len), A_END};

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
                           "start=%s, len=%s is out of range for axis %lld of x, of shape %s",
                           flxi_dim_str(f->ctx, a->start, &start), flxi_dim_str(f->ctx, a->len, &len),
                           (long long)a->axis, flxi_shape_str(f->ctx, f->in[0], &t));
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

/* Zeros before and after the part that was cut out, if there are any. */
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

static flxi_kval pull_narrow(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const narrow_attrs *a = e->attrs;
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    in.dim[a->axis] = flxi_ku_add(e, in.dim[a->axis], flxi_ku(e, a->start));
    return flxi_operand_at(e, 0, &in);
}

static bool link_narrow(const flxi_use *u, flxi_link *l)
{
    const narrow_attrs *a = u->n->attrs;
    return l->axis != a->axis || flxi_link_shift(l, a->start);
}

static int narrow_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)operand;
    return axis == ((const narrow_attrs *)n->attrs)->axis ? -1 : axis;
}

static const struct flxi_shard shard_narrow = {.becomes = narrow_becomes};

const flxi_rules flxi_rules_narrow = {
    .infer = infer_narrow,
    .eval = eval_narrow,
    .pull = pull_narrow,
    .vjp = vjp_narrow,
    .batch = batch_narrow,
    .schema = narrow_schema,
    .attrs_size = sizeof(narrow_attrs),
    .samples = samples_narrow,
    .link = link_narrow,
    .shard = &shard_narrow,
    .work = flxi_work_picked,
};

/* ---- slice ---- */

typedef struct {
    flx_ints start, limit, stride;
} slice_attrs;

static const flxi_attr slice_schema[] = {A_DIMS_REQ(slice_attrs, start), A_DIMS_REQ(slice_attrs, limit),
                                         A_INTS(slice_attrs, stride, "all 1"), A_END};

/* ⌈n / stride⌉, without overflow for any numeric stride. */
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
                                   "start=%s, limit=%s is out of range for axis %d of x, of shape %s",
                                   flxi_dim_str(f->ctx, start, &s), flxi_dim_str(f->ctx, limit, &l), k,
                                   flxi_shape_str(f->ctx, x, &t));
        if (a->stride.v[k] < 1)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "to walk backwards, use reverse",
                                   "stride[%d] must be at least 1, got %lld", k, (long long)a->stride.v[k]);
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

/* stride - 1 zeros after every position of an axis whose extent is a symbol. pad's interior would put them between
   neighbours, but an extent that turns out to be 0 has no gaps, not -1. */
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
    bool is_whole = true;
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
        is_whole = is_whole && a->start.v[k] == 0 && high[k] == 0 && (interior[k] == 0 || n == 1);
    }
    size_t rank = (size_t)x->rank;
    dx[0] = is_whole ? v
                     : flx_pad(s->g, v, flxi_number(s, v, 0.0), a->start, (flx_ints){high, rank},
                               (flx_ints){interior, rank});
}

static void batch_slice(flxi_site *s, flx_val *by)
{
    const slice_attrs *a = s->attrs;
    by[0] = flx_slice(s->g, s->x[0], flxi_list_behind(s, 0, a->start, 0), flxi_list_behind(s, s->size, a->limit, 0),
                      flxi_list_behind(s, 1, a->stride, 0));
}

static flxi_kval pull_slice(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const slice_attrs *a = e->attrs;
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    for (int k = 0; k < e->in[0]->rank; k++)
        in.dim[k] = flxi_ku_add(e, flxi_ku_mul(e, in.dim[k], a->stride.v[k]), flxi_ku(e, a->start.v[k]));
    return flxi_operand_at(e, 0, &in);
}

static bool link_slice(const flxi_use *u, flxi_link *l)
{
    const slice_attrs *a = u->n->attrs;
    return a->stride.v[l->axis] == 1 && flxi_link_shift(l, a->start.v[l->axis]);
}

/* An axis of which nothing is left out. */
static int slice_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const slice_attrs *a = n->attrs;
    bool is_all = a->start.v[axis] == 0 && a->stride.v[axis] == 1 &&
                  a->limit.v[axis] == flxi_type_at(g, n->in[operand])->dims[axis];
    return is_all ? axis : -1;
}

static const struct flxi_shard shard_slice = {.shape = "limit", .becomes = slice_becomes};

const flxi_rules flxi_rules_slice = {
    .infer = infer_slice,
    .eval = eval_slice,
    .pull = pull_slice,
    .vjp = vjp_slice,
    .batch = batch_slice,
    .schema = slice_schema,
    .attrs_size = sizeof(slice_attrs),
    .samples = samples_slice,
    .link = link_slice,
    .shard = &shard_slice,
    .work = flxi_work_picked,
};

/* ---- pad ---- */

typedef struct {
    flx_ints low, high, interior;
} pad_attrs;

static const flxi_attr pad_schema[] = {A_DIMS(pad_attrs, low, "all 0"), A_DIMS(pad_attrs, high, "all 0"),
                                       A_INTS(pad_attrs, interior, "all 0"), A_END};

static flx_code infer_pad(flxi_infer *f)
{
    pad_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flxi_type_text t;
    if (f->in[1]->rank != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "value must be a scalar, but its shape is %s",
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
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "crop at most the whole extent",
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
    bool is_inside = at >= 0 && at % step == 0 && at / step < e->in[0]->type.dims[axis];
    return is_inside ? at / step : -1;
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

/* Where elements of x are in the result, as bool. */
static flx_val reached(flxi_site *s, const flx_type *x)
{
    const pad_attrs *a = s->attrs;
    flx_type mask = flx_type_make(FLX_BOOL, x->rank, x->dims);
    return flx_pad(s->g, flxi_full(s, &mask, 1.0), flx_scalar(s->g, FLX_BOOL, 0.0), a->low, a->high, a->interior);
}

/* The ends are removed, or restored where they were cropped, and the values between neighbours are skipped. */
static flx_val unpad(flxi_site *s, flx_val dy)
{
    const pad_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_dim low[FLX_MAX_RANK];
    flx_dim high[FLX_MAX_RANK];
    flx_dim limit[FLX_MAX_RANK];
    flx_dim start[FLX_MAX_RANK] = {0};
    int64_t stride[FLX_MAX_RANK];
    bool is_strided = false;
    size_t rank = (size_t)x->rank;
    for (size_t k = 0; k < rank; k++) {
        low[k] = flx_dim_sub(s->ctx, 0, a->low.v[k]);
        high[k] = flx_dim_sub(s->ctx, 0, a->high.v[k]);
        limit[k] = spread(s->ctx, x->dims[k], a->interior.v[k]);
        stride[k] = a->interior.v[k] + 1;
        is_strided |= stride[k] > 1 && x->dims[k] != 0 && x->dims[k] != 1;
    }
    flx_val v = flxi_pad_zeros(s, dy, low, high);
    return is_strided ? flx_slice(s->g, v, (flx_ints){start, rank}, (flx_ints){limit, rank}, (flx_ints){stride, rank})
                      : v;
}

/* Positions without an element of x belong to the value. */
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

/* Offsets and steps that fit u32, with room for their sums. */
static bool expresses_pad(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const pad_attrs *a = attrs;
    (void)nin;
    for (int k = 0; k < in[0]->rank; k++)
        if (a->low.v[k] > INT32_MAX || a->low.v[k] < INT32_MIN || a->interior.v[k] >= INT32_MAX)
            return false;
    return true;
}

/* Position i of a padded axis in x; `inside` excludes what is not an element of x, or stays 0 where all are. */
static uint32_t unpadded(flxi_express *e, int axis, uint32_t i, uint32_t *inside)
{
    const pad_attrs *a = e->attrs;
    int64_t low = a->low.v[axis], step = a->interior.v[axis] + 1, n = e->in[0]->dims[axis];
    uint32_t offset = flxi_ku_sub(e, i, flxi_ku(e, low)); /* wraps below low: with step 1 to beyond the end */
    uint32_t at = flxi_ku_div(e, offset, step), is_in = 0;
    if (low > 0 || (e->out[0]->dims[axis] - 1 - low) / step >= n)
        is_in = flxi_k2(e, KBIN_lt, at, flxi_ku(e, n));
    if (step > 1) {
        uint32_t hits = flxi_k2(e, KBIN_eq, flxi_ku_mod(e, offset, step), flxi_ku(e, 0));
        if (low > 0)
            hits = flxi_k2(e, KBIN_logical_and, hits, flxi_k2(e, KBIN_ge, i, flxi_ku(e, low)));
        is_in = is_in ? flxi_k2(e, KBIN_logical_and, is_in, hits) : hits;
    }
    if (!is_in)
        return at;
    is_in = flxi_khold(e, is_in);
    *inside = *inside ? flxi_k2(e, KBIN_logical_and, *inside, is_in) : is_in;
    return flxi_ku_guarded(e, is_in, at);
}

static flxi_kval pull_pad(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    flxi_kval value = flxi_operand_at(e, 1, &(flxi_kindex){.flat = flxi_ku(e, 0)});
    uint32_t inside = 0;
    if (flxi_is_empty(e->in[0]))
        return value;
    for (int k = 0; k < e->in[0]->rank; k++)
        in.dim[k] = unpadded(e, k, in.dim[k], &inside);
    if (!inside)
        return flxi_operand_at(e, 0, &in);
    inside = flxi_khold(e, inside);
    return flxi_khold_value(e, flxi_kchoose(e, inside, flxi_operand_at(e, 0, &in), value));
}

static bool link_pad(const flxi_use *u, flxi_link *l)
{
    const pad_attrs *a = u->n->attrs;
    flx_dim low = u->operand == 0 ? a->low.v[l->axis] : 0;
    return u->operand == 0 && a->interior.v[l->axis] == 0 && flxi_dim_is_number(low) && flxi_link_shift(l, -low);
}

static const struct flxi_shard shard_pad = {.low = "low", .high = "high"};

const flxi_rules flxi_rules_pad = {
    .infer = infer_pad,
    .eval = eval_pad,
    .pull = pull_pad,
    .expresses = expresses_pad,
    .vjp = vjp_pad,
    .batch = batch_pad,
    .schema = pad_schema,
    .attrs_size = sizeof(pad_attrs),
    .samples = samples_pad,
    .link = link_pad,
    .shard = &shard_pad,
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
    flxi_append(s, a, s->x, 1, by);
}

static flxi_kval pull_reverse(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const reverse_attrs *a = e->attrs;
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    for (size_t k = 0; k < a->axes.n; k++) {
        int64_t axis = a->axes.v[k];
        in.dim[axis] = flxi_ku_sub(e, flxi_ku(e, e->in[0]->dims[axis] - 1), in.dim[axis]);
    }
    return flxi_operand_at(e, 0, &in);
}

static bool link_reverse(const flxi_use *u, flxi_link *l)
{
    return flxi_link_except_all(u, l, &((const reverse_attrs *)u->n->attrs)->axes);
}

const flxi_rules flxi_rules_reverse = {
    .infer = infer_reverse,
    .eval = eval_reverse,
    .pull = pull_reverse,
    .vjp = vjp_reverse,
    .batch = batch_reverse,
    .schema = reverse_schema,
    .attrs_size = sizeof(reverse_attrs),
    .samples = samples_reverse,
    .link = link_reverse,
    .shard = &flxi_shard_linked,
};
