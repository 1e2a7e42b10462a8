/* SPDX-License-Identifier: Apache-2.0 */
/* repeat.c: ops of the shape family that repeat each element or move it along its axis: tile, repeat,
   roll, meshgrid. They are linear: a cotangent is summed over the copies, or rotated back. */
#include "ops/express/express.h"
#include "ops/rule/axis/axis_map.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

/* ---- tile, repeat ---- */

/* Both repeat blocks of contiguous elements: as [outer, copies, block], the copies are equal. */

static flx_dim product(flx_context *ctx, const flx_dim *dims, int from, int to)
{
    flx_dim n = 1;
    for (int k = from; k < to; k++)
        n = flx_dim_mul(ctx, n, dims[k]);
    return n;
}

/* [outer, block] to [outer * copies * block], each block `copies` times. */
static flx_val copy_blocks(flxi_site *s, flx_val v, flx_dim outer, flx_dim copies, flx_dim block)
{
    flx_val one = flxi_reshape_to(s, v, 3, (flx_dim[]){outer, 1, block});
    return flx_expand(s->g, one, FLX_INTS(outer, copies, block));
}

/* Its transpose: the sum over the copies. */
static flx_val sum_blocks(flxi_site *s, flx_val v, flx_dim outer, flx_dim copies, flx_dim block)
{
    flx_val all = flxi_reshape_to(s, v, 3, (flx_dim[]){outer, copies, block});
    return flx_reduce_sum(s->g, all, FLX_INTS(1), 0);
}

typedef struct {
    flx_ints repeats;
} tile_attrs;

static const flxi_attr tile_schema[] = {A_DIMS_REQ(tile_attrs, repeats), A_END};

static flx_code infer_tile(flxi_infer *f)
{
    tile_attrs *a = f->attrs;
    FLXI_TRY(flxi_norm_list(f, "repeats", &a->repeats, (size_t)f->in[0]->rank, 0));
    FLXI_TRY(flxi_need_counts(f, "repeats", &a->repeats));
    f->out[0] = *f->in[0];
    for (int k = 0; k < f->out[0].rank; k++)
        f->out[0].dims[k] = flx_dim_mul(f->ctx, f->in[0]->dims[k], a->repeats.v[k]);
    return FLX_OK;
}

static int64_t at_tile(const flxi_eval *e, int axis, int64_t i)
{
    return i % e->in[0]->type.dims[axis]; /* not 0: the result is not empty */
}

static flx_code eval_tile(flxi_eval *e)
{
    return flxi_move_each(e, at_tile);
}

static const flxi_sample samples_tile[] = {
    {"T[2, 3]", "repeats=[2, 1]", NULL, FLX_OK},
    {"T[2, 2]", "repeats=[2, 3]", NULL, FLX_OK},
    {"T[]", "repeats=[]", NULL, FLX_OK},
    {"T[3]", "repeats=[0]", NULL, FLX_OK},
    {"T[0, 2]", "repeats=[3, 2]", NULL, FLX_OK},
    {"T[N, 2]", "repeats=[2, N]", NULL, FLX_OK},
    {"T[2, 3]", "repeats=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "repeats=[-1]", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", "repeats=[4611686018427387904]", NULL, FLX_E_SIZE},
    {0},
};

/* Axis by axis, so that no rank beyond 3 is needed. */
static void vjp_tile(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const tile_attrs *a = s->attrs;
    flx_type now = *flxi_typeof(s, dy[0]);
    const flx_type *x = flxi_typeof(s, s->x[0]);
    dx[0] = dy[0];
    for (int k = 0; k < x->rank; k++) {
        if (a->repeats.v[k] == 1)
            continue;
        now.dims[k] = x->dims[k];
        dx[0] = sum_blocks(s, dx[0], product(s->ctx, now.dims, 0, k), a->repeats.v[k],
                           product(s->ctx, now.dims, k, now.rank));
    }
    dx[0] = flxi_reshape_like(s, dx[0], x);
}

static void batch_tile(flxi_site *s, flx_val *by)
{
    const tile_attrs *a = s->attrs;
    by[0] = flx_tile(s->g, s->x[0], flxi_list_behind(s, 1, a->repeats, 0));
}

static void decompose_tile(flxi_site *s, flx_val *y)
{
    const tile_attrs *a = s->attrs;
    flx_type now = *flxi_typeof(s, s->x[0]);
    y[0] = s->x[0];
    for (int k = 0; k < now.rank; k++) {
        if (a->repeats.v[k] == 1)
            continue;
        y[0] = copy_blocks(s, y[0], product(s->ctx, now.dims, 0, k), a->repeats.v[k],
                           product(s->ctx, now.dims, k, now.rank));
        now.dims[k] = flx_dim_mul(s->ctx, now.dims[k], a->repeats.v[k]);
    }
    y[0] = flxi_reshape_like(s, y[0], &now);
}

/* No pull: the remainder of an index is read element by element, while the blocks of the decomposition are rows. */
const flxi_rules flxi_rules_tile = {
    .infer = infer_tile,
    .eval = eval_tile,
    .vjp = vjp_tile,
    .batch = batch_tile,
    .decompose = decompose_tile,
    .schema = tile_schema,
    .attrs_size = sizeof(tile_attrs),
    .samples = samples_tile,
    .link = flxi_link_dense,
};

typedef struct {
    flx_dim repeats;
    int64_t axis;
} repeat_attrs;

static const flxi_attr repeat_schema[] = {A_DIM_REQ(repeat_attrs, repeats), A_INT_REQ(repeat_attrs, axis), A_END};

static flx_code infer_repeat(flxi_infer *f)
{
    repeat_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(flxi_need_count(f, "repeats", a->repeats));
    f->out[0] = *f->in[0];
    f->out[0].dims[a->axis] = flx_dim_mul(f->ctx, f->in[0]->dims[a->axis], a->repeats);
    return FLX_OK;
}

static int64_t at_repeat(const flxi_eval *e, int axis, int64_t i)
{
    const repeat_attrs *a = e->attrs;
    return axis == a->axis ? i / a->repeats : i; /* repeats is not 0: the result is not empty */
}

static flx_code eval_repeat(flxi_eval *e)
{
    return flxi_move_each(e, at_repeat);
}

static const flxi_sample samples_repeat[] = {
    {"T[2, 3]", "repeats=2, axis=0", NULL, FLX_OK},
    {"T[2, 3]", "repeats=3, axis=-1", NULL, FLX_OK},
    {"T[3]", "repeats=0, axis=0", NULL, FLX_OK},
    {"T[0, 2]", "repeats=3, axis=0", NULL, FLX_OK},
    {"T[2, N]", "repeats=2, axis=1", NULL, FLX_OK},
    {"T[2]", "repeats=N, axis=0", NULL, FLX_OK},
    {"T[2]", "repeats=-1, axis=0", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "repeats=2, axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "repeats=4611686018427387904, axis=0", NULL, FLX_E_SIZE},
    {"T[]", "repeats=2, axis=0", NULL, FLX_E_SHAPE},
    {0},
};

static void vjp_repeat(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const repeat_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    int behind = (int)a->axis + 1;
    flx_val sum = sum_blocks(s, dy[0], product(s->ctx, x->dims, 0, behind), a->repeats,
                             product(s->ctx, x->dims, behind, x->rank));
    dx[0] = flxi_reshape_like(s, sum, x);
}

static void batch_repeat(flxi_site *s, flx_val *by)
{
    const repeat_attrs *a = s->attrs;
    by[0] = flx_repeat(s->g, s->x[0], a->repeats, a->axis + 1);
}

static void decompose_repeat(flxi_site *s, flx_val *y)
{
    const repeat_attrs *a = s->attrs;
    flx_type t = *flxi_typeof(s, s->x[0]);
    int behind = (int)a->axis + 1;
    flx_val all = copy_blocks(s, s->x[0], product(s->ctx, t.dims, 0, behind), a->repeats,
                              product(s->ctx, t.dims, behind, t.rank));
    t.dims[a->axis] = flx_dim_mul(s->ctx, t.dims[a->axis], a->repeats);
    y[0] = flxi_reshape_like(s, all, &t);
}

static flxi_kval pull_repeat(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const repeat_attrs *a = e->attrs;
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    in.dim[a->axis] = flxi_ku_div(e, in.dim[a->axis], a->repeats ? a->repeats : 1);
    return flxi_operand_at(e, 0, &in);
}

const flxi_rules flxi_rules_repeat = {
    .infer = infer_repeat,
    .eval = eval_repeat,
    .pull = pull_repeat,
    .vjp = vjp_repeat,
    .batch = batch_repeat,
    .decompose = decompose_repeat,
    .schema = repeat_schema,
    .attrs_size = sizeof(repeat_attrs),
    .samples = samples_repeat,
    .link = flxi_link_dense,
};

/* ---- roll ---- */

typedef struct {
    int64_t shift, axis;
} roll_attrs;

static const flxi_attr roll_schema[] = {A_INT_REQ(roll_attrs, shift), A_INT_REQ(roll_attrs, axis), A_END};

static flx_code infer_roll(flxi_infer *f)
{
    roll_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static int64_t at_roll(const flxi_eval *e, int axis, int64_t i)
{
    const roll_attrs *a = e->attrs;
    int64_t n = e->in[0]->type.dims[axis];
    if (axis != a->axis)
        return i;
    int64_t back = i - a->shift % n; /* between 1 - n and 2n - 2 */
    return back < 0 ? back + n : back >= n ? back - n : back;
}

static flx_code eval_roll(flxi_eval *e)
{
    return flxi_move_each(e, at_roll);
}

static const flxi_sample samples_roll[] = {
    {"T[5]", "shift=2, axis=0", NULL, FLX_OK},
    {"T[2, 5]", "shift=-1, axis=-1", NULL, FLX_OK},
    {"T[3, 2]", "shift=7, axis=0", NULL, FLX_OK},
    {"T[3]", "shift=-4611686018427387904, axis=0", NULL, FLX_OK},
    {"T[0, 2]", "shift=1, axis=0", NULL, FLX_OK},
    {"T[N, 2]", "shift=1, axis=0", NULL, FLX_OK},
    {"T[5]", "shift=2, axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[]", "shift=2, axis=0", NULL, FLX_E_SHAPE},
    {0},
};

/* shift mod n in 0 … n - 1, or shift itself where the extent is not known. */
static int64_t wrapped_shift(int64_t shift, flx_dim n)
{
    if (!flxi_dim_is_number(n) || n == 0)
        return shift;
    return shift % n < 0 ? shift % n + n : shift % n;
}

static void vjp_roll(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const roll_attrs *a = s->attrs;
    int64_t shift = wrapped_shift(a->shift, flxi_typeof(s, s->x[0])->dims[a->axis]);
    if (shift == INT64_MIN) { /* INT64_MIN has no negative */
        dx[0] = flx_roll(s->g, flx_roll(s->g, dy[0], INT64_MAX - 1, a->axis), 2, a->axis);
        return;
    }
    dx[0] = flx_roll(s->g, dy[0], -shift, a->axis);
}

static void batch_roll(flxi_site *s, flx_val *by)
{
    const roll_attrs *a = s->attrs;
    by[0] = flx_roll(s->g, s->x[0], a->shift, a->axis + 1);
}

/* The two parts exchanged; where the extent is a symbol, by the positions (i - shift) mod n. */
static void decompose_roll(flxi_site *s, flx_val *y)
{
    const roll_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_dim n = flxi_typeof(s, s->x[0])->dims[a->axis];
    int64_t shift = wrapped_shift(a->shift, n);
    y[0] = s->x[0];
    if (n == 0 || shift == 0)
        return;
    if (flxi_dim_is_number(n)) {
        flx_val parts[2] = {flx_narrow(g, s->x[0], a->axis, n - shift, shift),
                            flx_narrow(g, s->x[0], a->axis, 0, n - shift)};
        y[0] = flx_concat(g, parts, 2, a->axis);
        return;
    }
    flx_type row = flx_type_make(FLX_I64, 1, &n);
    flx_val extent = flxi_index_number(s, FLX_I64, n);
    flx_val by = flx_mod(g, flx_scalar(g, FLX_I64, (double)shift), extent);
    flx_val at = flx_mod(g, flx_sub(g, flx_iota(g, &row, 0), by), extent);
    y[0] = flx_gather(g, s->x[0], at, a->axis, NULL);
}

static flxi_kval pull_roll(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const roll_attrs *a = e->attrs;
    (void)result;
    flxi_kindex in = flxi_at_axes(e, at);
    int64_t n = e->in[0]->dims[a->axis];
    int64_t shift = wrapped_shift(a->shift, n);
    if (n == 0 || shift == 0)
        return flxi_operand_at(e, 0, &in);
    uint32_t i = in.dim[a->axis];
    uint32_t behind = flxi_ku_sub(e, i, flxi_ku(e, shift));
    uint32_t before = flxi_ku_add(e, i, flxi_ku(e, n - shift));
    in.dim[a->axis] = flxi_kb_select(e->k, flxi_k2(e, KBIN_lt, i, flxi_ku(e, shift)), before, behind);
    return flxi_operand_at(e, 0, &in);
}

static bool link_roll(const flxi_use *u, flxi_link *l)
{
    return flxi_link_except(u, l, ((const roll_attrs *)u->n->attrs)->axis);
}

const flxi_rules flxi_rules_roll = {
    .infer = infer_roll,
    .eval = eval_roll,
    .pull = pull_roll,
    .vjp = vjp_roll,
    .batch = batch_roll,
    .decompose = decompose_roll,
    .schema = roll_schema,
    .attrs_size = sizeof(roll_attrs),
    .samples = samples_roll,
    .link = link_roll,
    .shard = &flxi_shard_linked,
};

/* ---- meshgrid ---- */

typedef struct {
    int64_t indexing;
} meshgrid_attrs;

static const flxi_attr meshgrid_schema[] = {A_WORD(meshgrid_attrs, indexing, "ij xy"), A_END};

/* The result axis along which operand k varies. */
static int grid_axis(const meshgrid_attrs *a, uint32_t nin, uint32_t k)
{
    bool swap = a->indexing == 1 && nin > 1 && k < 2;
    return (int)(swap ? 1 - k : k);
}

static flx_code infer_meshgrid(flxi_infer *f)
{
    const meshgrid_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_need_result_rank(f, f->nin));
    FLXI_TRY(flxi_results(f, f->nin));
    flx_type grid = {.dtype = f->in[0]->dtype, .rank = (int32_t)f->nin};
    for (uint32_t k = 0; k < f->nin; k++) {
        flxi_type_text t;
        if (f->in[k]->rank != 1)
            return flxi_infer_fail(f, FLX_E_SHAPE, "flatten it with reshape(x, shape=[-1])",
                                   "operand %u must be a vector, but its shape is %s", k,
                                   flxi_shape_str(f->ctx, f->in[k], &t));
        grid.dims[grid_axis(a, f->nin, k)] = f->in[k]->dims[0];
    }
    for (uint32_t k = 0; k < f->nin; k++)
        f->out[k] = grid;
    return FLX_OK;
}

static flx_code eval_meshgrid(flxi_eval *e)
{
    for (uint32_t k = 0; k < e->nin; k++) {
        flxi_axis_map map = {.at = NULL};
        for (int axis = 0; axis < FLX_MAX_RANK; axis++)
            map.from[axis] = -1;
        map.from[grid_axis(e->attrs, e->nin, k)] = 0;
        flxi_move(e, &map, e->in[k], e->out[k]);
    }
    return FLX_OK;
}

static const flxi_sample samples_meshgrid[] = {
    {"T[3], T[2]", NULL, NULL, FLX_OK},
    {"T[3], T[2]", "indexing=xy", NULL, FLX_OK},
    {"T[3], T[2], T[4]", "indexing=xy", NULL, FLX_OK},
    {"T[3]", "indexing=xy", NULL, FLX_OK},
    {"T[3], T[0]", NULL, NULL, FLX_OK},
    {"T[N], T[2]", NULL, NULL, FLX_OK},
    {"T[3], T[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[2]", "indexing=yx", NULL, FLX_E_ATTRIBUTE},
    {"", NULL, NULL, FLX_E_ARITY},
    {0},
};

/* v, a vector of extent n after `lead` axes, along its axis of the grid. */
static flx_val spread_over_grid(flxi_site *s, flx_val v, uint32_t k, int lead)
{
    flx_type grid = {.rank = (int32_t)s->nin + lead};
    int axis = lead + grid_axis(s->attrs, s->nin, k);
    if (grid.rank > FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "adding a batch axis to a grid of rank %d exceeds the rank limit",
                       (int)s->nin);
        return FLX_NONE;
    }
    grid.dims[0] = s->size; /* overwritten where there is no batch axis */
    for (uint32_t i = 0; i < s->nin; i++) {
        const flx_type *x = flxi_typeof(s, s->x[i]);
        grid.dims[lead + grid_axis(s->attrs, s->nin, i)] = x->dims[x->rank - 1];
    }
    return flx_broadcast_in_dim(s->g, v, (flx_ints){grid.dims, (size_t)grid.rank},
                                lead ? FLX_INTS(0, axis) : FLX_INTS(axis));
}

/* Result k depends only on operand k. */
static void vjp_meshgrid(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    int64_t axes[FLX_MAX_RANK];
    for (uint32_t k = 0; k < s->nin; k++) {
        size_t n = 0;
        for (int axis = 0; axis < (int)s->nin; axis++)
            if (axis != grid_axis(s->attrs, s->nin, k))
                axes[n++] = axis;
        if (s->wanted[k] && !flxi_is_none(dy[k]))
            dx[k] = flxi_sum_axes(s, dy[k], (flx_ints){axes, n}, false);
    }
}

static void jvp_meshgrid(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    for (uint32_t k = 0; k < s->nin; k++)
        if (!flxi_is_none(tx[k]))
            ty[k] = spread_over_grid(s, tx[k], k, 0);
}

static void batch_meshgrid(flxi_site *s, flx_val *by)
{
    for (uint32_t k = 0; k < s->nin; k++) {
        by[k] = spread_over_grid(s, s->x[k], k, s->batched[k]);
        s->by_batched[k] = s->batched[k];
    }
}

static void decompose_meshgrid(flxi_site *s, flx_val *y)
{
    for (uint32_t k = 0; k < s->nin; k++)
        y[k] = spread_over_grid(s, s->x[k], k, 0);
}

static flxi_kval pull_meshgrid(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    flxi_kindex to = *at;
    flxi_kindex in = {.dim = {flxi_at_axis(e, e->out[result], &to, grid_axis(e->attrs, e->nin, result))}};
    return flxi_operand_at(e, result, &in);
}

const flxi_rules flxi_rules_meshgrid = {
    .infer = infer_meshgrid,
    .eval = eval_meshgrid,
    .pull = pull_meshgrid,
    .vjp = vjp_meshgrid,
    .jvp = jvp_meshgrid,
    .batch = batch_meshgrid,
    .decompose = decompose_meshgrid,
    .schema = meshgrid_schema,
    .attrs_size = sizeof(meshgrid_attrs),
    .samples = samples_meshgrid,
    .link = flxi_link_dense,
};
