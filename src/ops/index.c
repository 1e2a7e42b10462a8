/* index.c: reading and writing at positions that other tensors hold.

   Every index goes through flxi_resolve_index, which knows the policies of `oob`, so a rule here sees positions
   that are in range or dropped. All indices are checked, those whose slices are empty too: a bad index is an error
   whatever stands beside it. dynamic_slice and dynamic_update_slice have no `oob`: they resolve as `clamp`, which
   is total: a fraction is cut off and NaN is 0. Elements move as bytes; only scatter_add computes. */
#include "ops/axis_lists.h"
#include "ops/copy.h"
#include "ops/oob.h"
#include "ops/wide.h"

/* ---- gather ---- */

typedef struct {
    int64_t axis, oob;
} axis_attrs;

static const flxi_attr gather_schema[] = {
    A_INT(axis_attrs, axis, 0),
    A_WORD(axis_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static flx_code infer_gather(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    const flx_type *table = f->in[0];
    const flx_type *idx = f->in[1];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, table->rank));
    FLXI_TRY(flxi_need_result_rank(f, (size_t)(table->rank - 1 + idx->rank)));
    flx_type y = {.dtype = table->dtype};
    flxi_append_dims(&y, table, 0, a->axis);
    flxi_append_dims(&y, idx, 0, idx->rank);
    flxi_append_dims(&y, table, a->axis + 1, table->rank);
    f->out[0] = y;
    return FLX_OK;
}

static flx_code eval_gather(flxi_eval *e)
{
    const axis_attrs *a = e->attrs;
    const flx_tensor *idx = e->in[1];
    flxi_split s = flxi_split_at(&e->in[0]->type, a->axis);
    size_t row = (size_t)s.inner * flx_dtype_size(e->in[0]->type.dtype);
    for (int64_t i = 0; i < idx->count; i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, idx, i, s.n, (flxi_oob)a->oob, &at));
        if (at < 0 || row == 0)
            continue; /* dropped: the result came zeroed */
        for (int64_t o = 0; o < s.outer; o++)
            flxi_copy_element(e->out[0]->data, o * idx->count + i, e->in[0]->data, o * s.n + at, row);
    }
    return FLX_OK;
}

static const flxi_sample samples_gather[] = {
    {"T[3, 4], i32[5]{0..2}", NULL, NULL, FLX_OK},
    {"T[3, 4], i64[2, 2]{0..3}", "axis=-1", NULL, FLX_OK},
    {"T[2, 3, 2], u8[]{0..2}", "axis=1", NULL, FLX_OK},
    {"T[3], i16[4]{-2..5}", "oob=zero", NULL, FLX_OK},
    {"T[2, 3], i32[4]{-2..5}", "axis=1, oob=clamp", NULL, FLX_OK},
    {"T[0, 3], i32[0]", NULL, NULL, FLX_OK},
    {"T[N, 3], i32[N]{0..1}", NULL, NULL, FLX_OK},
    {"T[], i32[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[2]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], bool[2]", NULL, NULL, FLX_E_DTYPE},
    {"T[1, 1, 1, 1, 1, 1, 1, 1, 1], i32[1, 1, 1, 1, 1, 1, 1, 1, 1]", NULL, NULL, FLX_E_SIZE},
    {0},
};

const flxi_rules flxi_rules_gather = {
    .infer = infer_gather,
    .eval = eval_gather,
    .schema = gather_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_gather,
};

/* ---- scatter_add ---- */

typedef struct {
    flx_dim R;
    int64_t oob;
} scatter_add_attrs;

static const flxi_attr scatter_add_schema[] = {
    A_DIM_REQ(scatter_add_attrs, R),
    A_WORD(scatter_add_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static flx_code infer_scatter_add(flxi_infer *f)
{
    const scatter_add_attrs *a = f->attrs;
    const flx_type *upd = f->in[0];
    const flx_type *idx = f->in[1];
    bool leads = idx->rank <= upd->rank;
    for (int k = 0; leads && k < idx->rank; k++)
        leads = flxi_dims_may_equal(f, upd->dims[k], idx->dims[k]);
    flxi_type_text tu, ti;
    if (!leads)
        return flxi_infer_fail(f, FLX_E_SHAPE, "one index per update: the shape of upd begins with the shape of idx",
                               "the shape of idx does not lead that of upd: upd is %s, idx is %s",
                               flxi_shape_str(f->ctx, upd, &tu), flxi_shape_str(f->ctx, idx, &ti));
    FLXI_TRY(flxi_need_count(f, "R", a->R));
    FLXI_TRY(flxi_need_result_rank(f, (size_t)(1 + upd->rank - idx->rank)));
    flx_type y = {.dtype = upd->dtype, .rank = 1, .dims = {a->R}};
    flxi_append_dims(&y, upd, idx->rank, upd->rank);
    f->out[0] = y;
    return FLX_OK;
}

/* Adds every row of the updates to its row of `sum`. */
static flx_code add_rows(flxi_eval *e, const flxi_arith *m, flxi_num *sum)
{
    const scatter_add_attrs *a = e->attrs;
    const flx_tensor *upd = e->in[0];
    const flx_tensor *idx = e->in[1];
    flxi_split s = flxi_split_at(&e->out[0]->type, 0);
    for (int64_t i = 0; i < idx->count; i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, idx, i, s.n, (flxi_oob)a->oob, &at));
        for (int64_t q = 0; at >= 0 && q < s.inner; q++) {
            flxi_num *to = &sum[at * s.inner + q];
            *to = m->accumulate(*to, m->load(upd->data, i * s.inner + q));
        }
    }
    return FLX_OK;
}

static flx_code eval_scatter_add(flxi_eval *e)
{
    const flxi_arith *m = flxi_arith_of(e->out[0]->type.dtype);
    flxi_num *sum = flxi_wide_begin(e, m->zero);
    return sum ? flxi_wide_end(e, sum, add_rows(e, m, sum)) : FLX_E_OOM;
}

static const flxi_sample samples_scatter_add[] = {
    {"T[5, 2], i32[5]{0..3}", "R=4", NULL, FLX_OK},
    {"T[2, 3, 2], i64[2, 3]{0..1}", "R=2", NULL, FLX_OK},
    {"T[3], i32[]{0..1}", "R=2", NULL, FLX_OK},
    {"T[6], i16[6]{-2..5}", "R=3, oob=zero", NULL, FLX_OK},
    {"T[6, 1], i32[6]{-2..5}", "R=3, oob=clamp", NULL, FLX_OK},
    {"T[0, 2], i32[0]", "R=3", NULL, FLX_OK},
    {"T[2, 3], i32[2]{-1..1}", "R=0, oob=zero", NULL, FLX_OK},
    {"T[N, 2], i32[N]{0..2}", "R=3", NULL, FLX_OK},
    {"T[3, 2], i32[3]{0..0}", "R=N", NULL, FLX_OK},
    {"T[5, 2], i32[4]", "R=4", NULL, FLX_E_SHAPE},
    {"T[5], i32[5, 1]", "R=4", NULL, FLX_E_SHAPE},
    {"T[5, 2], i32[5]", "R=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[5, 2], i32[5]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_scatter_add = {
    .infer = infer_scatter_add,
    .eval = eval_scatter_add,
    .schema = scatter_add_schema,
    .attrs_size = sizeof(scatter_add_attrs),
    .samples = samples_scatter_add,
};

/* ---- take_along ---- */

static const flxi_attr take_along_schema[] = {
    A_INT(axis_attrs, axis, -1),
    A_WORD(axis_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static flx_code infer_take_along(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *idx = f->in[1];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, x->rank));
    bool fits = x->rank == idx->rank;
    for (int k = 0; fits && k < x->rank; k++)
        fits = k == a->axis || flxi_dims_may_equal(f, x->dims[k], idx->dims[k]);
    flxi_type_text tx, ti;
    if (!fits)
        return flxi_infer_fail(f, FLX_E_SHAPE, "dims do not broadcast here: expand idx first",
                               "x and idx must have the same shape except along axis %lld: x is %s, idx is %s",
                               (long long)a->axis, flxi_shape_str(f->ctx, x, &tx), flxi_shape_str(f->ctx, idx, &ti));
    f->out[0] = *idx;
    f->out[0].dtype = x->dtype;
    return FLX_OK;
}

static flx_code eval_take_along(flxi_eval *e)
{
    const axis_attrs *a = e->attrs;
    const flx_tensor *idx = e->in[1];
    flxi_split sx = flxi_split_at(&e->in[0]->type, a->axis);
    flxi_split si = flxi_split_at(&idx->type, a->axis);
    size_t size = flx_dtype_size(e->in[0]->type.dtype);
    for (int64_t i = 0; i < idx->count; i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, idx, i, sx.n, (flxi_oob)a->oob, &at));
        if (at < 0)
            continue; /* dropped: the result came zeroed */
        int64_t o = i / (si.n * si.inner);
        int64_t from = (o * sx.n + at) * sx.inner + i % si.inner;
        flxi_copy_element(e->out[0]->data, i, e->in[0]->data, from, size);
    }
    return FLX_OK;
}

static const flxi_sample samples_take_along[] = {
    {"T[3, 4], i32[3, 2]{0..3}", NULL, NULL, FLX_OK},
    {"T[3, 4], i64[5, 4]{0..2}", "axis=0", NULL, FLX_OK},
    {"T[2, 3, 2], u8[2, 1, 2]{0..2}", "axis=-2", NULL, FLX_OK},
    {"T[2, 3], i32[2, 4]{-2..5}", "oob=zero", NULL, FLX_OK},
    {"T[2, 3], i32[2, 4]{-2..5}", "oob=clamp", NULL, FLX_OK},
    {"T[0, 3], i32[0, 2]", NULL, NULL, FLX_OK},
    {"T[2, 0], i32[2, 2]{-1..1}", "oob=zero", NULL, FLX_OK},
    {"T[2, 3], i32[2, 0]", NULL, NULL, FLX_OK},
    {"T[N, 3], i32[N, 2]{0..2}", NULL, NULL, FLX_OK},
    {"T[], i32[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[1, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[3, 2]", "axis=-3", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_take_along = {
    .infer = infer_take_along,
    .eval = eval_take_along,
    .schema = take_along_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_take_along,
};

/* ---- one_hot ---- */

typedef struct {
    flx_dim n;
    int64_t axis, dtype, oob;
} one_hot_attrs;

static const flxi_attr one_hot_schema[] = {
    A_DIM_REQ(one_hot_attrs, n),
    A_INT(one_hot_attrs, axis, -1),
    A_DTYPE(one_hot_attrs, dtype, FLX_F32),
    A_WORD(one_hot_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static flx_code infer_one_hot(flxi_infer *f)
{
    one_hot_attrs *a = f->attrs;
    const flx_type *i = f->in[0];
    FLXI_TRY(flxi_need_result_rank(f, (size_t)i->rank + 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, i->rank + 1));
    FLXI_TRY(flxi_need_count(f, "n", a->n));
    flx_type y = {.dtype = (int32_t)a->dtype};
    flxi_append_dims(&y, i, 0, a->axis);
    y.dims[y.rank++] = a->n;
    flxi_append_dims(&y, i, a->axis, i->rank);
    f->out[0] = y;
    return FLX_OK;
}

static flx_code eval_one_hot(flxi_eval *e)
{
    const one_hot_attrs *a = e->attrs;
    const flx_tensor *idx = e->in[0];
    flx_tensor *y = e->out[0];
    const flxi_arith *m = flxi_arith_of(y->type.dtype);
    flxi_split s = flxi_split_at(&y->type, a->axis);
    for (int64_t i = 0; i < idx->count; i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, idx, i, s.n, (flxi_oob)a->oob, &at));
        if (at >= 0)
            m->store(y->data, (i / s.inner * s.n + at) * s.inner + i % s.inner, m->one);
    }
    return FLX_OK;
}

static const flxi_sample samples_one_hot[] = {
    {"i32[3]{0..3}", "n=4", NULL, FLX_OK},
    {"i64[2, 3]{0..2}", "n=3, axis=0, dtype=f64", NULL, FLX_OK},
    {"u8[2, 3]{0..2}", "n=3, axis=-2, dtype=c64", NULL, FLX_OK},
    {"i32[]{0..1}", "n=2, dtype=bool", NULL, FLX_OK},
    {"i32[4]{-2..5}", "n=3, oob=zero, dtype=f16", NULL, FLX_OK},
    {"i32[4]{-2..5}", "n=3, oob=clamp, dtype=i8", NULL, FLX_OK},
    {"i32[0]", "n=3", NULL, FLX_OK},
    {"i32[2]", "n=0, oob=zero", NULL, FLX_OK},
    {"i32[N]{0..1}", "n=N+2", NULL, FLX_OK},
    {"i32[3]", "n=-1", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", "n=4, axis=2", NULL, FLX_E_ATTRIBUTE},
    {"i32[3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"bool[3]", "n=4", NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_one_hot = {
    .infer = infer_one_hot,
    .eval = eval_one_hot,
    .schema = one_hot_schema,
    .attrs_size = sizeof(one_hot_attrs),
    .samples = samples_one_hot,
};

/* ---- Windows at a position known at run time ---- */

/* Operands `first` … are the position: one scalar for each axis of x. */
static flx_code need_position(flxi_infer *f, uint32_t first)
{
    int rank = f->in[0]->rank;
    flxi_type_text text;
    if ((int64_t)f->nin - first != rank)
        return flxi_infer_fail(f, FLX_E_ARITY, "give one scalar index for each axis of x",
                               "%lld indices for x of shape %s", (long long)f->nin - first,
                               flxi_shape_str(f->ctx, f->in[0], &text));
    for (uint32_t i = first; i < f->nin; i++)
        if (f->in[i]->rank != 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, "an index is a scalar: reshape(…, shape=[])",
                                   "the index of axis %u must be a scalar, but is %s", (unsigned)(i - first),
                                   flxi_type_str(f->ctx, f->in[i], &text));
    return FLX_OK;
}

/* Walks the positions of a window of x in row-major order. */
typedef struct {
    int rank;
    const flx_dim *extent;
    int64_t index[FLX_MAX_RANK], strides[FLX_MAX_RANK];
    int64_t base; /* element of x where the window begins */
} window_walk;

static flx_code window_begin(flxi_eval *e, uint32_t first, const flx_type *window, window_walk *w)
{
    const flx_type *x = &e->in[0]->type;
    *w = (window_walk){.rank = x->rank, .extent = window->dims};
    flxi_strides(x, w->strides);
    for (int k = 0; k < x->rank; k++) {
        int64_t at;
        int64_t places = x->dims[k] - window->dims[k] + 1; /* where the window may begin; at least one */
        FLXI_TRY(flxi_resolve_index(e, e->in[first + (uint32_t)k], 0, places, OOB_CLAMP, &at));
        w->base += at * w->strides[k];
    }
    return FLX_OK;
}

/* The element under the walk, which then moves on. */
static int64_t window_step(window_walk *w)
{
    int64_t at = w->base + flxi_offset(w->index, w->strides, w->rank);
    flxi_next(w->index, w->extent, w->rank);
    return at;
}

typedef struct {
    flx_ints sizes;
} dynamic_slice_attrs;

static const flxi_attr dynamic_slice_schema[] = {
    A_DIMS_REQ(dynamic_slice_attrs, sizes),
    A_END,
};

static flx_code infer_dynamic_slice(flxi_infer *f)
{
    dynamic_slice_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flxi_type_text tx;
    flxi_dim_text td;
    FLXI_TRY(need_position(f, 1));
    FLXI_TRY(flxi_norm_list(f, "sizes", &a->sizes, (size_t)x->rank, 0));
    f->out[0] = *x;
    for (int k = 0; k < x->rank; k++) {
        flx_dim size = a->sizes.v[k];
        if (flxi_dim_below(f->ctx, size, 0) || flxi_dim_below(f->ctx, x->dims[k], size))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "a window has at most the extent of its axis",
                                   "sizes[%d] is %s, which does not fit axis %d of x of shape %s", k,
                                   flxi_dim_str(f->ctx, size, &td), k, flxi_shape_str(f->ctx, x, &tx));
        f->out[0].dims[k] = size;
    }
    return FLX_OK;
}

static flx_code eval_dynamic_slice(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    size_t size = flx_dtype_size(y->type.dtype);
    window_walk w;
    FLXI_TRY(window_begin(e, 1, &y->type, &w));
    for (int64_t i = 0; i < y->count; i++)
        flxi_copy_element(y->data, i, e->in[0]->data, window_step(&w), size);
    return FLX_OK;
}

static const flxi_sample samples_dynamic_slice[] = {
    {"T[3, 4], i32[]{0..1}, i32[]{0..2}", "sizes=[2, 2]", NULL, FLX_OK},
    {"T[5], i64[]{-9..9}", "sizes=[3]", NULL, FLX_OK},
    {"T[2, 3], i32[]{-2..9}, u8[]{0..9}", "sizes=[1, 3]", NULL, FLX_OK},
    {"T[4], i32[]", "sizes=[0]", NULL, FLX_OK},
    {"T[]", "sizes=[]", NULL, FLX_OK},
    {"T[0, 2], i32[], i32[]", "sizes=[0, 1]", NULL, FLX_OK},
    {"T[N, 3], i32[], i32[]", "sizes=[N, 2]", NULL, FLX_OK},
    {"T[3, 4], i32[]", "sizes=[2, 2]", NULL, FLX_E_ARITY},
    {"T[3, 4], i32[], i32[1]", "sizes=[2, 2]", NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[], i32[]", "sizes=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[], i32[]", "sizes=[4, 2]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], i32[], i32[]", "sizes=[-1, 2]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], bool[], i32[]", "sizes=[2, 2]", NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_dynamic_slice = {
    .infer = infer_dynamic_slice,
    .eval = eval_dynamic_slice,
    .schema = dynamic_slice_schema,
    .attrs_size = sizeof(dynamic_slice_attrs),
    .samples = samples_dynamic_slice,
};

static flx_code infer_dynamic_update_slice(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    const flx_type *u = f->in[1];
    bool fits = x->rank == u->rank;
    for (int k = 0; fits && k < x->rank; k++)
        fits = !flxi_dim_below(f->ctx, x->dims[k], u->dims[k]);
    flxi_type_text tx, tu;
    if (!fits)
        return flxi_infer_fail(f, FLX_E_SHAPE, "u has the rank of x, and at most the extent of x along each axis",
                               "u does not fit into x: x is %s, u is %s", flxi_shape_str(f->ctx, x, &tx),
                               flxi_shape_str(f->ctx, u, &tu));
    FLXI_TRY(need_position(f, 2));
    f->out[0] = *x;
    return FLX_OK;
}

static flx_code eval_dynamic_update_slice(flxi_eval *e)
{
    const flx_tensor *u = e->in[1];
    flx_tensor *y = e->out[0];
    size_t size = flx_dtype_size(y->type.dtype);
    window_walk w;
    FLXI_TRY(window_begin(e, 2, &u->type, &w));
    FLXI_TRY(flxi_eval_copy(e));
    for (int64_t i = 0; i < u->count; i++)
        flxi_copy_element(y->data, window_step(&w), u->data, i, size);
    return FLX_OK;
}

static const flxi_sample samples_dynamic_update_slice[] = {
    {"T[3, 4], T[2, 2], i32[]{0..1}, i32[]{0..2}", NULL, NULL, FLX_OK},
    {"T[5], T[3], i64[]{-9..9}", NULL, NULL, FLX_OK},
    {"T[2, 3], T[1, 3], i32[]{-2..9}, u8[]{0..9}", NULL, NULL, FLX_OK},
    {"T[4], T[0], i32[]", NULL, NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[0, 2], T[0, 1], i32[], i32[]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[N, 2], i32[], i32[]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[2, 2], i32[]", NULL, NULL, FLX_E_ARITY},
    {"T[3, 4], T[2, 5], i32[], i32[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[2], i32[], i32[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[2, 2], i32[], i32[1]", NULL, NULL, FLX_E_SHAPE},
    {"f32[3], f64[2], i32[]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_dynamic_update_slice = {
    .infer = infer_dynamic_update_slice,
    .eval = eval_dynamic_update_slice,
    .samples = samples_dynamic_update_slice,
};
