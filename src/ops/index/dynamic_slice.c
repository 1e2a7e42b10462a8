/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_slice.c: windows at a position known at run time, read and overwritten. One scalar index for each axis; there
   is no `oob`: an index is clamped so that the window fits, so it is always valid: a fraction is truncated and NaN is
   0.

   Each op's derivative is the other. A batch in which every example has its own position becomes a pair of batching
   axes of gather_nd and scatter_nd. */
#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/express/express_index.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/copy.h"
#include "ops/rule/link.h"
#include "ops/rule/oob.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

/* ---- The position ---- */

/* Operands `first` … are the position: one scalar for each axis of x. */
static flx_code need_position(flxi_infer *f, uint32_t first)
{
    int rank = f->in[0]->rank;
    flxi_type_text text;
    if ((int64_t)f->nin - first != rank)
        return flxi_infer_fail(f, FLX_E_ARITY, "pass one scalar index for each axis of x",
                               "got %lld indices for x of shape %s", (long long)f->nin - first,
                               flxi_shape_str(f->ctx, f->in[0], &text));
    for (uint32_t i = first; i < f->nin; i++)
        if (f->in[i]->rank != 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, "make it a scalar: reshape(…, shape=[])",
                                   "the index of axis %u must be a scalar, but it is %s", (unsigned)(i - first),
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
        int64_t starts = x->dims[k] - window->dims[k] + 1; /* where the window may begin; at least one */
        FLXI_TRY(flxi_resolve_index(e, e->in[first + (uint32_t)k], 0, starts, OOB_CLAMP, &at));
        w->base += at * w->strides[k];
    }
    return FLX_OK;
}

/* The current element; advances the walk. */
static int64_t window_step(window_walk *w)
{
    int64_t at = w->base + flxi_offset(w->index, w->strides, w->rank);
    flxi_next(w->index, w->extent, w->rank);
    return at;
}

/* ---- dynamic_slice ---- */

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
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++)
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

/* Operands `with`, then the position, which is operand `first` and those after it; *n receives their number. */
static flx_val *at_position(flxi_site *s, const flx_val *with, uint32_t count, uint32_t first, uint32_t *n)
{
    flx_val *x = flxi_rule_new(s, flx_val, count + s->nin);
    *n = 0;
    if (!x)
        return NULL;
    for (uint32_t k = 0; k < count; k++)
        x[(*n)++] = with[k];
    for (uint32_t k = first; k < s->nin; k++)
        x[(*n)++] = s->x[k];
    return x;
}

static void vjp_dynamic_slice(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    uint32_t n;
    if (!s->wanted[0])
        return;
    flx_val *x = at_position(s, (flx_val[]){flxi_zeros_like(s, s->x[0]), dy[0]}, 2, 1, &n);
    dx[0] = flx_dynamic_update_slice(s->g, x, n);
}

static bool position_is_batched(const flxi_site *s, uint32_t first)
{
    for (uint32_t k = first; k < s->nin; k++)
        if (s->batched[k])
            return true;
    return false;
}

/* Starts [B, rank], one row per example. A u64 beyond i64 is clamped to a number that is still too large for any
   axis. */
static flx_val stacked_position(flxi_site *s, uint32_t first)
{
    uint32_t n;
    flx_val *x = at_position(s, NULL, 0, first, &n);
    for (uint32_t k = 0; k < n; k++) {
        int32_t dtype = flxi_typeof(s, x[k])->dtype;
        x[k] = flxi_lift(s, first + k);
        if (dtype == FLX_U64)
            x[k] = flx_min(s->g, x[k], flx_scalar(s->g, FLX_U64, 4611686018427387904.0));
        if (dtype != FLX_I64)
            x[k] = flx_cast(s->g, x[k], FLX_I64);
    }
    return flx_stack(s->g, x, n, 1);
}

/* n axes, from `from` on. */
static void count_axes(int64_t axes[FLX_MAX_RANK], int n, int64_t from)
{
    for (int k = 0; k < n; k++)
        axes[k] = from + k;
}

static flx_val slice_paired(flxi_site *s)
{
    const dynamic_slice_attrs *a = s->attrs;
    int rank = (int)a->sizes.n;
    int64_t starts[FLX_MAX_RANK];
    int64_t window[FLX_MAX_RANK];
    count_axes(starts, rank, s->batched[0]);
    count_axes(window, rank, 1);
    flx_gather_nd_attrs nd = FLX_GATHER_ND_ATTRS;
    nd.slice_sizes = s->batched[0] ? flxi_list_behind(s, 1, a->sizes, 0) : a->sizes;
    nd.start_index_map = (flx_ints){starts, (size_t)rank};
    nd.offset_axes = (flx_ints){window, (size_t)rank};
    nd.operand_batching_axes = s->batched[0] ? FLX_INTS(0) : FLX_NO_INTS;
    nd.indices_batching_axes = s->batched[0] ? FLX_INTS(0) : FLX_NO_INTS;
    nd.index_vector_axis = 1;
    nd.oob = "clamp";
    return flx_gather_nd_with(s->g, s->x[0], stacked_position(s, 1), &nd);
}

/* At a shared position the batch axis is taken as a whole, starting at 0. */
static void batch_dynamic_slice(flxi_site *s, flx_val *by)
{
    const dynamic_slice_attrs *a = s->attrs;
    uint32_t n;
    if (position_is_batched(s, 1)) {
        by[0] = slice_paired(s);
        return;
    }
    flx_val *x = at_position(s, (flx_val[]){s->x[0], flx_scalar(s->g, FLX_I64, 0.0)}, 2, 1, &n);
    by[0] = flx_dynamic_slice(s->g, x, n, flxi_list_behind(s, s->size, a->sizes, 0));
}

/* Where the window begins along an axis; operands `first` … are the position. */
static uint32_t window_start(flxi_express *e, uint32_t first, int axis, const flx_type *window)
{
    int64_t starts = e->in[0]->dims[axis] - window->dims[axis] + 1;
    if (starts == 1)
        return flxi_ku(e, 0);
    flxi_kindex scalar = {.flat = flxi_ku(e, 0)};
    return flxi_kresolve(e, flxi_operand_at(e, first + (uint32_t)axis, &scalar).re, starts, OOB_CLAMP).at;
}

static flxi_kval pull_dynamic_slice(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    flxi_kindex in = flxi_at_axes(e, at);
    for (int k = 0; k < e->in[0]->rank; k++)
        in.dim[k] = flxi_ku_add(e, in.dim[k], window_start(e, 1, k, e->out[result]));
    return flxi_operand_at(e, 0, &in);
}

/* An axis that the window covers; operands 0 and, of an update, 1. */
static int covered(const flx_graph *g, const flxi_node *n, int axis, const flx_type *window)
{
    return axis < window->rank && window->dims[axis] == flxi_type_at(g, n->in[0])->dims[axis] ? axis : -1;
}

static int slice_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    return operand == 0 ? covered(g, n, axis, flxi_type_at(g, n->first)) : -1;
}

static const struct flxi_shard shard_slice = {.shape = "sizes", .becomes = slice_becomes};

const flxi_rules flxi_rules_dynamic_slice = {
    .infer = infer_dynamic_slice,
    .eval = eval_dynamic_slice,
    .pull = pull_dynamic_slice,
    .vjp = vjp_dynamic_slice,
    .batch = batch_dynamic_slice,
    .schema = dynamic_slice_schema,
    .attrs_size = sizeof(dynamic_slice_attrs),
    .samples = samples_dynamic_slice,
    .link = flxi_link_dense,
    .shard = &shard_slice,
    .work = flxi_work_picked,
};

/* ---- dynamic_update_slice ---- */

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
    for (int64_t i = 0; i < u->count && !flxi_stopped_by_now(); i++)
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

static void vjp_dynamic_update_slice(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flx_type *u = flxi_typeof(s, s->x[1]);
    uint32_t n;
    if (s->wanted[0]) {
        flx_val *x = at_position(s, (flx_val[]){dy[0], flxi_zeros(s, u)}, 2, 2, &n);
        dx[0] = flx_dynamic_update_slice(s->g, x, n);
    }
    if (s->wanted[1]) {
        flx_val *x = at_position(s, dy, 1, 2, &n);
        dx[1] = flx_dynamic_slice(s->g, x, n, flxi_dims_list(u->rank, u->dims));
    }
}

/* Elements of one window, and of different examples, have distinct targets. */
static flx_val update_paired(flxi_site *s)
{
    int rank = flxi_example_rank(s, 0);
    int64_t axes[FLX_MAX_RANK];
    count_axes(axes, rank, 1);
    flx_scatter_nd_attrs nd = FLX_SCATTER_ND_ATTRS;
    nd.start_index_map = (flx_ints){axes, (size_t)rank};
    nd.offset_axes = (flx_ints){axes, (size_t)rank};
    nd.operand_batching_axes = FLX_INTS(0);
    nd.indices_batching_axes = FLX_INTS(0);
    nd.index_vector_axis = 1;
    nd.combine.word = "set";
    nd.unique = 1;
    nd.oob = "clamp";
    return flx_scatter_nd_with(s->g, flxi_lift(s, 0), stacked_position(s, 2), flxi_lift(s, 1), &nd);
}

static void batch_dynamic_update_slice(flxi_site *s, flx_val *by)
{
    uint32_t n;
    if (position_is_batched(s, 2)) {
        by[0] = update_paired(s);
        return;
    }
    flx_val with[3] = {flxi_lift(s, 0), flxi_lift(s, 1), flx_scalar(s->g, FLX_I64, 0.0)};
    flx_val *x = at_position(s, with, 3, 2, &n);
    by[0] = flx_dynamic_update_slice(s->g, x, n);
}

static flxi_kval pull_dynamic_update_slice(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const flx_type *u = e->in[1];
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    flxi_kval x = flxi_operand_at(e, 0, at);
    uint32_t inside = flxi_kb_bool(e->k, true);
    if (flxi_is_empty(u))
        return x;
    /* Each axis is guarded by its own condition: all but the last one are then the same for a whole vector. */
    for (int k = 0; k < u->rank; k++) {
        if (u->dims[k] == e->in[0]->dims[k])
            continue;
        in.dim[k] = flxi_khold(e, flxi_ku_sub(e, in.dim[k], window_start(e, 2, k, u))); /* wraps before the window */
        uint32_t is_in = flxi_khold(e, flxi_k2(e, KBIN_lt, in.dim[k], flxi_ku(e, u->dims[k])));
        in.dim[k] = flxi_ku_guarded(e, is_in, in.dim[k]);
        inside = flxi_k2(e, KBIN_logical_and, inside, is_in);
    }
    inside = flxi_khold(e, inside);
    return flxi_khold_value(e, flxi_kchoose(e, inside, flxi_operand_at(e, 1, &in), x));
}

static int update_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    return operand < 2 ? covered(g, n, axis, flxi_type_at(g, n->in[1])) : -1;
}

static const struct flxi_shard shard_update = {.becomes = update_becomes};

const flxi_rules flxi_rules_dynamic_update_slice = {
    .infer = infer_dynamic_update_slice,
    .eval = eval_dynamic_update_slice,
    .pull = pull_dynamic_update_slice,
    .vjp = vjp_dynamic_update_slice,
    .batch = batch_dynamic_update_slice,
    .samples = samples_dynamic_update_slice,
    .link = flxi_link_dense,
    .shard = &shard_update,
};
