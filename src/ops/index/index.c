/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: reading and writing at positions given by other tensors.

   Every index goes through flxi_resolve_index, which implements the policies of `oob`, so a rule here sees positions
   that are in range or dropped. All indices are checked, also those whose slices are empty: an index out of range is an
   error even then. Elements move as bytes; only scatter_add computes.

   Reading and writing are each other's transposes under every policy, so each op's derivative is another op of this
   file or of gather_nd.c. A batch in which every example has its own indices becomes a pair of batching axes of
   gather_nd and scatter_nd: an index out of range stays out of range and never reads the neighbouring example. */
#include "ops/index/index.h"

#include "base/host/stop.h"
#include "graph/op/work.h"
#include "ops/express/express_index.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/copy.h"
#include "ops/rule/link.h"
#include "ops/rule/oob.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"
#include "ops/rule/wide.h"

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
    for (int64_t i = 0; i < idx->count && !flxi_stopped_by_now(); i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, idx, i, s.n, (flxi_oob)a->oob, &at));
        if (at < 0 || row == 0)
            continue; /* dropped: the result is already zero */
        for (int64_t o = 0; o < s.outer; o++)
            flxi_copy_element(e->out[0]->data, o * idx->count + i, e->in[0]->data, o * s.n + at, row);
    }
    return FLX_OK;
}

static const flxi_sample samples_gather[] = {
    {"T[3, 4], i32[5]{0..2}", NULL, NULL, FLX_OK},
    {"T[3, 4], i64[2, 2]{0..3}", "axis=-1", NULL, FLX_OK},
    {"T[2, 3, 2], u8[]{0..2}", "axis=1", NULL, FLX_OK},
    {"T[2, 3, 2], i64[2, 2]{0..2}", "axis=1", NULL, FLX_OK},
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

/* Moves axes [from, from + n) of v before all others. */
static flx_val block_to_front(flxi_site *s, flx_val v, int from, int n)
{
    int64_t perm[FLX_MAX_RANK];
    int rank = flxi_typeof(s, v)->rank;
    if (from == 0 || n == 0)
        return v;
    for (int k = 0; k < rank; k++)
        perm[k] = k < n ? from + k : k < from + n ? k - n : k;
    return flx_transpose(s->g, v, (flx_ints){perm, (size_t)rank});
}

flx_val flxi_ungather(flxi_site *s, flx_val dy, flx_val idx, int64_t axis, flx_dim n, int64_t oob)
{
    flx_val rows = block_to_front(s, dy, (int)axis, flxi_typeof(s, idx)->rank);
    return flxi_move_axis(s, flx_scatter_add(s->g, rows, idx, n, flxi_oob_word(oob)), 0, (int)axis);
}

static void vjp_gather(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    if (s->wanted[0])
        dx[0] = flxi_ungather(s, dy[0], s->x[1], a->axis, flxi_typeof(s, s->x[0])->dims[a->axis], a->oob);
}

static void backward_vjp_gather(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    const flx_type *table = flxi_typeof(s, s->x[0]);
    if (s->wanted[0])
        dx[0] = flx_gather_backward(s->g, dy[0], s->x[1], flxi_dims_list(table->rank, table->dims), a->axis,
                                    flxi_oob_word(a->oob));
}

/* Every example has its own table, [B, pre, n, post], and its own indices: the batch axes of both run together. */
static flx_val gather_paired(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    const flx_type *table = flxi_typeof(s, s->x[0]);
    const flx_type *idx = flxi_typeof(s, s->x[1]);
    int64_t axis = a->axis + 1;
    int64_t window[FLX_MAX_RANK];
    flx_dim sizes[FLX_MAX_RANK] = {1};
    size_t n = 0;
    for (int k = 1; k < table->rank; k++) {
        sizes[k] = k == axis ? 1 : table->dims[k];
        if (k != axis)
            window[n++] = k < axis ? k : k + idx->rank - 2; /* of the result: the index axes replace `axis` */
    }
    flx_gather_nd_attrs nd = FLX_GATHER_ND_ATTRS;
    nd.slice_sizes = (flx_ints){sizes, (size_t)table->rank};
    nd.start_index_map = FLX_INTS(axis);
    nd.collapsed_axes = FLX_INTS(axis);
    nd.offset_axes = (flx_ints){window, n};
    nd.operand_batching_axes = FLX_INTS(0);
    nd.indices_batching_axes = FLX_INTS(0);
    nd.index_vector_axis = idx->rank;
    nd.oob = flxi_oob_word(a->oob);
    return flx_gather_nd_with(s->g, s->x[0], s->x[1], &nd);
}

static void batch_gather(flxi_site *s, flx_val *by)
{
    const axis_attrs *a = s->attrs;
    const flx_type *t = flxi_typeof(s, s->x[0]);
    flx_val table = s->x[0];
    bool is_paired = s->batched[0] && s->batched[1];
    if (is_paired && t->dims[a->axis + 1] == 0) { /* nothing to read is the same for every example */
        table = flxi_reshape_to(s, table, t->rank - 1, t->dims + 1);
        is_paired = false;
    }
    if (!s->batched[1])
        by[0] = flx_gather(s->g, table, s->x[1], a->axis + 1, flxi_oob_word(a->oob));
    else if (is_paired)
        by[0] = gather_paired(s);
    else
        by[0] = flxi_move_axis(s, flx_gather(s->g, table, s->x[1], a->axis, flxi_oob_word(a->oob)), (int)a->axis, 0);
}

/* gather and take_along: an index out of range must not be an error. */
static bool expresses_reading(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const axis_attrs *a = attrs;
    (void)nin;
    return flxi_oob_expresses(a->oob, in[0]->dims[a->axis]);
}

/* The element of operand 0 at `in`, whose index along the axis is that in `idx`. */
static flxi_kval pull_indexed(flxi_express *e, const flxi_kindex *idx, flxi_kindex *in)
{
    const axis_attrs *a = e->attrs;
    if (flxi_is_empty(e->in[0]))
        return flxi_kzero(e, e->in[0]->dtype);
    uint32_t i = flxi_operand_at(e, 1, idx).re;
    flxi_kposition position = flxi_kresolve(e, i, e->in[0]->dims[a->axis], (flxi_oob)a->oob);
    in->dim[a->axis] = position.at;
    return flxi_kread(e, 0, in, position.inside);
}

static flxi_kval pull_gather(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const axis_attrs *a = e->attrs;
    (void)result;
    flxi_kindex to = flxi_at_axes(e, at);
    flxi_kindex idx = {0};
    flxi_kindex in = {0};
    int axis = (int)a->axis, n = e->in[1]->rank;
    for (int k = 0; k < n; k++)
        idx.dim[k] = to.dim[axis + k];
    for (int k = 0; k < e->in[0]->rank; k++)
        if (k != axis) /* that one comes from the indices */
            in.dim[k] = k < axis ? to.dim[k] : to.dim[k + n - 1];
    return pull_indexed(e, &idx, &in);
}

/* The axes of the table stay, but for the one that is looked up. */
static bool link_gather(const flxi_use *u, flxi_link *l)
{
    int64_t axis = ((const axis_attrs *)u->n->attrs)->axis;
    int indices = flxi_type_at(u->g, u->n->in[1])->rank;
    return u->operand == 0 && l->axis != axis && flxi_link_move(u, l, l->axis < axis ? l->axis : l->axis + indices - 1);
}

static int gather_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    int at = (int)((const axis_attrs *)n->attrs)->axis, indices = flxi_type_at(g, n->in[1])->rank;
    if (operand == 1)
        return at + axis;
    return axis == at ? -1 : axis < at ? axis : axis + indices - 1;
}

static const struct flxi_shard shard_gather = {.becomes = gather_becomes};

const flxi_rules flxi_rules_gather = {
    .infer = infer_gather,
    .eval = eval_gather,
    .pull = pull_gather,
    .expresses = expresses_reading,
    .vjp = vjp_gather,
    .backward_vjp = backward_vjp_gather,
    .batch = batch_gather,
    .schema = gather_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_gather,
    .link = link_gather,
    .shard = &shard_gather,
    .work = flxi_work_picked,
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
                               "the shape of upd must begin with that of idx: upd is %s, idx is %s",
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
    for (int64_t i = 0; i < idx->count && !flxi_stopped_by_now(); i++) {
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
    {"T[N, 2], i32[3]{0..1}", "R=2", NULL, FLX_OK},
    {"T[5, 2], i32[4]", "R=4", NULL, FLX_E_SHAPE},
    {"T[5], i32[5, 1]", "R=4", NULL, FLX_E_SHAPE},
    {"T[5, 2], i32[5]", "R=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[5, 2], i32[5]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

static void vjp_scatter_add(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const scatter_add_attrs *a = s->attrs;
    if (!s->wanted[0])
        return;
    flx_val rows = flx_gather(s->g, dy[0], s->x[1], 0, flxi_oob_word(a->oob));
    dx[0] = flxi_reshape_like(s, rows, flxi_typeof(s, s->x[0]));
}

/* Every example has its own indices and adds into its own part of [B, R, …]. */
static flx_val scatter_paired(flxi_site *s)
{
    const scatter_add_attrs *a = s->attrs;
    const flx_type *idx = flxi_typeof(s, s->x[1]);
    flx_val updates = flxi_lift(s, 0);
    flx_type u = *flxi_typeof(s, updates);
    int64_t window[FLX_MAX_RANK];
    size_t n = 0;
    flx_type y = {.dtype = u.dtype, .rank = 2, .dims = {s->size, a->R}};
    for (int k = idx->rank; k < u.rank && y.rank < FLX_MAX_RANK; k++) {
        window[n++] = k;
        y.dims[y.rank++] = u.dims[k];
    }
    if (n < (size_t)(u.rank - idx->rank)) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a tensor of rank %d exceeds the rank limit",
                       FLX_MAX_RANK);
        return FLX_NONE;
    }
    if (a->R == 0) { /* nothing to add to is the same for every example */
        flx_val empty = flx_scatter_add(s->g, updates, s->x[1], 0, flxi_oob_word(a->oob));
        return flxi_reshape_like(s, empty, &y);
    }
    flx_scatter_nd_attrs nd = FLX_SCATTER_ND_ATTRS;
    nd.start_index_map = FLX_INTS(1);
    nd.collapsed_axes = FLX_INTS(1);
    nd.offset_axes = (flx_ints){window, n};
    nd.operand_batching_axes = FLX_INTS(0);
    nd.indices_batching_axes = FLX_INTS(0);
    nd.index_vector_axis = idx->rank;
    nd.oob = flxi_oob_word(a->oob);
    return flx_scatter_nd_with(s->g, flxi_zeros(s, &y), s->x[1], updates, &nd);
}

/* With shared indices the examples are one more axis of the rows. */
static void batch_scatter_add(flxi_site *s, flx_val *by)
{
    if (s->batched[1]) {
        by[0] = scatter_paired(s);
        return;
    }
    flx_val rows = flxi_move_axis(s, s->x[0], 0, flxi_typeof(s, s->x[1])->rank);
    by[0] = flxi_move_axis(s, flxi_emit1(s, NULL, (flx_val[]){rows, s->x[1]}, 2), 1, 0);
}

/* An addition for each update. */
static void work_scatter_add(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    w->flops = flxi_work_count(flxi_type_at(g, n->in[0]));
}

/* Axes beyond those of the indices belong to rows that are added whole. */
static bool link_scatter_add(const flxi_use *u, flxi_link *l)
{
    int indices = flxi_type_at(u->g, u->n->in[1])->rank;
    return u->operand == 0 && l->axis >= indices && flxi_link_move(u, l, l->axis - indices + 1);
}

static int scatter_add_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    int indices = flxi_type_at(g, n->in[1])->rank;
    return operand == 0 && axis >= indices ? axis - indices + 1 : -1;
}

/* Each process adds its updates. */
static int summed_by_scatter_add(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)operand;
    return axis < flxi_type_at(g, n->in[1])->rank ? axis : -1;
}

static const struct flxi_shard shard_scatter_add = {
    .combine = "sum", .summed = summed_by_scatter_add, .becomes = scatter_add_becomes};

const flxi_rules flxi_rules_scatter_add = {
    .infer = infer_scatter_add,
    .eval = eval_scatter_add,
    .vjp = vjp_scatter_add,
    .batch = batch_scatter_add,
    .schema = scatter_add_schema,
    .attrs_size = sizeof(scatter_add_attrs),
    .samples = samples_scatter_add,
    .link = link_scatter_add,
    .shard = &shard_scatter_add,
    .work = work_scatter_add,
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
        return flxi_infer_fail(f, FLX_E_SHAPE, "this op does not broadcast: expand idx first",
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
    for (int64_t i = 0; i < idx->count && !flxi_stopped_by_now(); i++) {
        int64_t at;
        FLXI_TRY(flxi_resolve_index(e, idx, i, sx.n, (flxi_oob)a->oob, &at));
        if (at < 0)
            continue; /* dropped: the result is already zero */
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
    {"T[N, 4], i32[3, 2]{0..2}", NULL, NULL, FLX_OK},
    {"T[], i32[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[1, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[3, 2]", "axis=-3", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* take_along in terms of gather_nd and scatter_nd: each index is one number, for `axis`; all other axes of x and idx
   run together. x_lead and idx_lead count the leading batch axes that only one of them has. */
typedef struct {
    int64_t of_x[FLX_MAX_RANK], of_idx[FLX_MAX_RANK], axis;
    size_t n;
} along_geometry;

static along_geometry geometry_along(int rank, int64_t axis, int x_lead, int idx_lead)
{
    along_geometry p = {.axis = axis + x_lead};
    for (int k = 0; k < rank; k++) {
        if (k == axis)
            continue;
        p.of_x[p.n] = k + x_lead;
        p.of_idx[p.n++] = k + idx_lead;
    }
    return p;
}

/* The index, whose error a gradient must not lose: read from the list of all indices. */
static flx_val checked_index(flxi_site *s, flx_val idx, int64_t extent)
{
    const flx_type all = {.dtype = flxi_typeof(s, idx)->dtype, .rank = 1, .dims = {extent}};
    return flx_gather(s->g, flx_iota(s->g, &all, 0), idx, 0, "error");
}

/* One element of each row: where the position is the index. Kernels compute that along with what is around it. */
static flx_val cotangent_of_one(flxi_site *s, flx_val dy)
{
    const axis_attrs *a = s->attrs;
    flx_type x = *flxi_typeof(s, s->x[0]);
    flx_val idx = s->x[1];
    bool is_wide = x.dims[a->axis] > INT32_MAX || flx_dtype_size((flx_dtype)flxi_typeof(s, idx)->dtype) > 4 ||
                   flxi_typeof(s, idx)->dtype == FLX_U32;
    flx_type positions = x;
    positions.dtype = is_wide ? FLX_I64 : FLX_I32;
    if (flxi_typeof(s, idx)->dtype != positions.dtype)
        idx = flx_cast(s->g, idx, (flx_dtype)positions.dtype);
    if (a->oob == OOB_CLAMP)
        idx = flx_clamp(s->g, flxi_number(s, idx, 0), idx, flxi_number(s, idx, (double)(x.dims[a->axis] - 1)));
    if (a->oob == OOB_ERROR)
        idx = checked_index(s, idx, x.dims[a->axis]);
    flx_val hit = flx_eq(s->g, flx_iota(s->g, &positions, a->axis), idx);
    return flxi_masked(s, hit, dy);
}

static void vjp_take_along(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    if (!s->wanted[0])
        return;
    if (flxi_typeof(s, s->x[1])->dims[a->axis] == 1 && flxi_dim_is_number(x->dims[a->axis])) {
        dx[0] = cotangent_of_one(s, dy[0]);
        return;
    }
    dx[0] = flxi_zeros(s, x);
    if (x->dims[a->axis] == 0)
        return;
    along_geometry p = geometry_along(x->rank, a->axis, 0, 0);
    flx_scatter_nd_attrs nd = FLX_SCATTER_ND_ATTRS;
    nd.start_index_map = FLX_INTS(p.axis);
    nd.collapsed_axes = FLX_INTS(p.axis);
    nd.operand_batching_axes = (flx_ints){p.of_x, p.n};
    nd.indices_batching_axes = (flx_ints){p.of_idx, p.n};
    nd.index_vector_axis = x->rank;
    nd.oob = flxi_oob_word(a->oob);
    dx[0] = flx_scatter_nd_with(s->g, dx[0], s->x[1], dy[0], &nd);
}

/* One of x and idx is shared: the batch axis of the other is an axis of the window or of the indices. */
static flx_val take_along_shared(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    const flx_type *idx = flxi_typeof(s, s->x[1]);
    along_geometry p = geometry_along(flxi_example_rank(s, 0), a->axis, s->batched[0], s->batched[1]);
    flx_dim sizes[FLX_MAX_RANK];
    for (int k = 0; k < x->rank; k++)
        sizes[k] = 1;
    if (s->batched[0])
        sizes[0] = s->size;
    flx_gather_nd_attrs nd = FLX_GATHER_ND_ATTRS;
    nd.slice_sizes = (flx_ints){sizes, (size_t)x->rank};
    nd.start_index_map = FLX_INTS(p.axis);
    nd.collapsed_axes = FLX_INTS(p.axis);
    nd.offset_axes = s->batched[0] ? FLX_INTS(0) : FLX_NO_INTS;
    nd.operand_batching_axes = (flx_ints){p.of_x, p.n};
    nd.indices_batching_axes = (flx_ints){p.of_idx, p.n};
    nd.index_vector_axis = idx->rank;
    nd.oob = flxi_oob_word(a->oob);
    return flx_gather_nd_with(s->g, s->x[0], s->x[1], &nd);
}

static void batch_take_along(flxi_site *s, flx_val *by)
{
    const axis_attrs *a = s->attrs;
    bool empty = flxi_typeof(s, s->x[0])->dims[a->axis + s->batched[0]] == 0; /* no window of 1 fits there */
    if ((s->batched[0] && s->batched[1]) || empty)
        by[0] = flx_take_along(s->g, flxi_lift(s, 0), flxi_lift(s, 1), a->axis + 1, flxi_oob_word(a->oob));
    else
        by[0] = take_along_shared(s);
}

static flxi_kval pull_take_along(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    return pull_indexed(e, at, &in);
}

static bool link_take_along(const flxi_use *u, flxi_link *l)
{
    return u->operand == 0 && flxi_link_except(u, l, ((const axis_attrs *)u->n->attrs)->axis);
}

static int take_along_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)operand;
    return axis == ((const axis_attrs *)n->attrs)->axis ? -1 : axis;
}

static const struct flxi_shard shard_take_along = {.becomes = take_along_becomes};

const flxi_rules flxi_rules_take_along = {
    .infer = infer_take_along,
    .eval = eval_take_along,
    .pull = pull_take_along,
    .expresses = expresses_reading,
    .vjp = vjp_take_along,
    .batch = batch_take_along,
    .schema = take_along_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_take_along,
    .link = link_take_along,
    .shard = &shard_take_along,
    .work = flxi_work_picked,
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
    for (int64_t i = 0; i < idx->count && !flxi_stopped_by_now(); i++) {
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

static void batch_one_hot(flxi_site *s, flx_val *by)
{
    one_hot_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_append(s, a, s->x, 1, by);
}

/* Positions counted from 1, read through the indices: reading applies the policy, and 0 marks what was dropped. */
static void decompose_one_hot(flxi_site *s, flx_val *y)
{
    const one_hot_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_type line = flx_type_make(FLX_I64, 1, &a->n);
    flx_val numbers = flx_add(g, flx_iota(g, &line, 0), flx_scalar(g, FLX_I64, 1.0));
    flx_val read = flx_gather(g, numbers, s->x[0], 0, flxi_oob_word(a->oob));
    int behind = flxi_typeof(s, s->x[0])->rank - (int)a->axis;
    flx_dim dims[FLX_MAX_RANK] = {a->n};
    for (int k = 1; k <= behind; k++)
        dims[k] = 1;
    flx_val hit = flx_eq(g, flx_unsqueeze(g, read, FLX_INTS(a->axis)), flxi_reshape_to(s, numbers, behind + 1, dims));
    y[0] = a->dtype == FLX_BOOL ? hit : flx_cast(g, hit, (flx_dtype)a->dtype);
}

static bool expresses_one_hot(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    const one_hot_attrs *a = attrs;
    (void)in, (void)nin;
    return flxi_oob_expresses(a->oob, a->n);
}

static flxi_kval pull_one_hot(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const one_hot_attrs *a = e->attrs;
    flxi_kindex to = flxi_at_axes(e, at);
    flxi_kindex idx = {0};
    for (int k = 0; k < e->in[0]->rank; k++)
        idx.dim[k] = to.dim[k < a->axis ? k : k + 1];
    flxi_kposition position = flxi_kresolve(e, flxi_operand_at(e, 0, &idx).re, a->n, (flxi_oob)a->oob);
    uint32_t hit = flxi_k2(e, KBIN_eq, position.at, to.dim[a->axis]);
    hit = position.inside ? flxi_k2(e, KBIN_logical_and, position.inside, hit) : hit;
    int32_t dtype = e->out[result]->dtype;
    return flxi_khold_value(e, flxi_kchoose(e, flxi_khold(e, hit), flxi_kone(e, dtype), flxi_kzero(e, dtype)));
}

const flxi_rules flxi_rules_one_hot = {
    .infer = infer_one_hot,
    .eval = eval_one_hot,
    .pull = pull_one_hot,
    .expresses = expresses_one_hot,
    .batch = batch_one_hot,
    .decompose = decompose_one_hot,
    .schema = one_hot_schema,
    .attrs_size = sizeof(one_hot_attrs),
    .samples = samples_one_hot,
};
