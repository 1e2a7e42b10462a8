/* shape.c: the same elements under another shape: reinterpreted, permuted, stretched, repeated, rotated.

   Extents may be symbolic. What can be disproved is an error now; what only the values of the symbols decide is checked
   when they are bound, because binding runs these rules again on the normalised attributes. */
#include "ops/axis_map.h"

typedef struct {
    flx_ints shape;
} shape_attrs;

static const flxi_attr shape_schema[] = {A_DIMS_REQ(shape_attrs, shape), A_END};

/* ---- reshape ---- */

/* Elements of t. [0, huge, huge] has none although the product of the last two overflows. */
static flx_dim count_of(flxi_infer *f, const flx_type *t)
{
    int64_t count;
    return flxi_static_count(t, &count) ? count : flxi_type_count(f->ctx, t);
}

/* Replaces the entry -1 at `at` by what is left of x's elements. */
static flx_code infer_missing_dim(flxi_infer *f, flx_ints *shape, size_t at)
{
    flx_dim known = 1;
    for (size_t k = 0; k < shape->n; k++) {
        if (k != at && flxi_dim_negative(shape->v[k]))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "leave one extent open at most",
                                   "shape[%zu] and shape[%zu] are both negative", at, k);
        known = k == at ? known : flx_dim_mul(f->ctx, known, shape->v[k]);
    }
    flxi_type_text t;
    if (known == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "write the extent instead of -1",
                               "-1 beside an extent of 0 could be any number; x is %s",
                               flxi_shape_str(f->ctx, f->in[0], &t));
    flx_dim count = count_of(f, f->in[0]);
    if (flxi_dim_is_number(count) && flxi_dim_is_number(known) && count % known != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "x, of shape %s, has %lld elements, no multiple of the %lld of the other extents",
                               flxi_shape_str(f->ctx, f->in[0], &t), (long long)count, (long long)known);
    int64_t *own = flxi_own_list(f, shape);
    if (!own)
        return FLX_E_OOM;
    own[at] = flx_dim_div(f->ctx, count, known);
    return FLX_OK;
}

static flx_type shaped(int32_t dtype, const flx_ints *shape)
{
    flx_type t = {.dtype = dtype, .rank = (int32_t)shape->n};
    memcpy(t.dims, shape->v, shape->n * sizeof t.dims[0]);
    return t;
}

static flx_code infer_reshape(flxi_infer *f)
{
    shape_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_result_rank(f, a->shape.n));
    for (size_t k = 0; k < a->shape.n; k++) {
        if (a->shape.v[k] != -1)
            continue;
        FLXI_TRY(infer_missing_dim(f, &a->shape, k));
        break;
    }
    FLXI_TRY(flxi_need_counts(f, "shape", &a->shape));
    f->out[0] = shaped(f->in[0]->dtype, &a->shape);
    flx_dim from = count_of(f, f->in[0]);
    flx_dim to = count_of(f, &f->out[0]);
    if (from == FLX_DIM_INVALID || to == FLX_DIM_INVALID || !flxi_dims_differ(f->ctx, from, to))
        return FLX_OK; /* an overflow is reported with the result's type, or decided when symbols are bound */
    flxi_type_text tx, ty;
    flxi_dim_text nx, ny;
    return flxi_infer_fail(f, FLX_E_SHAPE, "one extent may be -1: it is then inferred",
                           "element counts differ: x is %s (%s elements), shape is %s (%s elements)",
                           flxi_shape_str(f->ctx, f->in[0], &tx), flxi_dim_str(f->ctx, from, &nx),
                           flxi_shape_str(f->ctx, &f->out[0], &ty), flxi_dim_str(f->ctx, to, &ny));
}

static const flxi_sample samples_reshape[] = {
    {"T[2, 3]", "shape=[3, 2]", NULL, FLX_OK},
    {"T[2, 3, 4]", "shape=[-1, 4]", NULL, FLX_OK},
    {"T[]", "shape=[1, 1]", NULL, FLX_OK},
    {"T[1, 1]", "shape=[]", NULL, FLX_OK},
    {"T[]", "shape=[-1]", NULL, FLX_OK},
    {"T[0, 3]", "shape=[3, 0, 2]", NULL, FLX_OK},
    {"T[0, 3]", "shape=[-1, 3]", NULL, FLX_OK},
    {"T[0]", "shape=[4294967296, 4294967296, 0]", NULL, FLX_OK},
    {"T[2]", "shape=[4294967296, 4294967296, 0]", NULL, FLX_E_SHAPE},
    {"T[N, 6]", "shape=[N, 2, 3]", NULL, FLX_OK},
    {"T[N, 6]", "shape=[-1, 3]", NULL, FLX_OK},
    {"T[2, N, 3]", "shape=[N*6]", NULL, FLX_OK},
    {"T[2, 3]", "shape=[4, 2]", NULL, FLX_E_SHAPE},
    {"T[2, 3]", "shape=[-1, 4]", NULL, FLX_E_SHAPE},
    {"T[N, 2]", "shape=[N*2+1]", NULL, FLX_E_SHAPE},
    {"T[2, 3]", "shape=[-1, -1]", NULL, FLX_E_ATTRIBUTE},
    {"T[0, 3]", "shape=[-1, 0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "shape=[-2, -3]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "shape=[-1, -6]", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "shape=[4294967296, 4294967296]", NULL, FLX_E_SIZE},
    {"T[]", "shape=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", NULL, FLX_E_SIZE},
    {"T[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_reshape = {
    .infer = infer_reshape,
    .eval = flxi_eval_copy,
    .schema = shape_schema,
    .attrs_size = sizeof(shape_attrs),
    .samples = samples_reshape,
};

/* ---- transpose ---- */

typedef struct {
    flx_ints perm;
} perm_attrs;

static const flxi_attr perm_schema[] = {A_INTS(perm_attrs, perm, "reversed"), A_END};

static flx_code infer_transpose(flxi_infer *f)
{
    perm_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    if (!a->perm.v) {
        int64_t *perm = flxi_new_list(f, &a->perm, (size_t)x->rank);
        if (!perm)
            return FLX_E_OOM;
        for (int k = 0; k < x->rank; k++)
            perm[k] = x->rank - 1 - k;
    }
    FLXI_TRY(flxi_norm_list(f, "perm", &a->perm, (size_t)x->rank, 0));
    FLXI_TRY(flxi_norm_axes(f, "perm", &a->perm, x->rank, false));
    f->out[0] = *x;
    for (int k = 0; k < x->rank; k++)
        f->out[0].dims[k] = x->dims[a->perm.v[k]];
    return FLX_OK;
}

static flx_code eval_transpose(flxi_eval *e)
{
    const perm_attrs *a = e->attrs;
    flxi_axis_map map = {.at = NULL};
    for (size_t k = 0; k < a->perm.n; k++)
        map.from[k] = (int)a->perm.v[k];
    flxi_move(e, &map, e->in[0], e->out[0]);
    return FLX_OK;
}

static const flxi_sample samples_transpose[] = {
    {"T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4]", "perm=[1, 2, 0]", NULL, FLX_OK},
    {"T[2, 3, 4]", "perm=[0, -1, -2]", NULL, FLX_OK},
    {"T[3]", "perm=[0]", NULL, FLX_OK},
    {"T[]", "perm=[]", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[2, 0, 3]", "perm=[2, 0, 1]", NULL, FLX_OK},
    {"T[N, 2, N]", "perm=[1, 0, 2]", NULL, FLX_OK},
    {"T[2, 3]", "perm=[0, 0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "perm=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "perm=[0, 2]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3]", "perm=[0, 1, 2]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_transpose = {
    .infer = infer_transpose,
    .eval = eval_transpose,
    .schema = perm_schema,
    .attrs_size = sizeof(perm_attrs),
    .samples = samples_transpose,
};

/* ---- expand, broadcast_in_dim ---- */

/* Replaces each -1 by x's own extent; a new leading axis has none. */
static flx_code keep_dims(flxi_infer *f, flx_ints *shape)
{
    const flx_type *x = f->in[0];
    size_t lead = shape->n - (size_t)x->rank;
    int64_t *own = NULL;
    for (size_t k = 0; k < shape->n; k++) {
        if (shape->v[k] != -1)
            continue;
        if (k < lead)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "-1 keeps an extent of x; a new axis needs a number",
                                   "shape[%zu] is -1 on a new axis", k);
        if (!own && !(own = flxi_own_list(f, shape)))
            return FLX_E_OOM;
        own[k] = x->dims[k - lead];
    }
    return FLX_OK;
}

static flx_code infer_expand(flxi_infer *f)
{
    shape_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_result_rank(f, a->shape.n));
    if (a->shape.n < (size_t)x->rank) {
        flxi_type_text t;
        return flxi_infer_fail(f, FLX_E_SHAPE, "axes can be added, not removed; use reshape or squeeze",
                               "shape has %zu entries, x, of shape %s, has %d axes", a->shape.n,
                               flxi_shape_str(f->ctx, x, &t), x->rank);
    }
    FLXI_TRY(keep_dims(f, &a->shape));
    FLXI_TRY(flxi_need_counts(f, "shape", &a->shape));
    size_t lead = a->shape.n - (size_t)x->rank;
    for (int k = 0; k < x->rank; k++)
        FLXI_TRY(flxi_need_stretch(f, k, a->shape.v[lead + (size_t)k]));
    f->out[0] = shaped(x->dtype, &a->shape);
    return FLX_OK;
}

static flx_code eval_expand(flxi_eval *e)
{
    flxi_axis_map map = {.at = flxi_at_stretched};
    int lead = e->out[0]->type.rank - e->in[0]->type.rank;
    for (int k = 0; k < e->out[0]->type.rank; k++)
        map.from[k] = k < lead ? -1 : k - lead;
    flxi_move(e, &map, e->in[0], e->out[0]);
    return FLX_OK;
}

static const flxi_sample samples_expand[] = {
    {"T[3, 1]", "shape=[3, 4]", NULL, FLX_OK},
    {"T[3]", "shape=[2, 3]", NULL, FLX_OK},
    {"T[]", "shape=[2, 2]", NULL, FLX_OK},
    {"T[]", "shape=[]", NULL, FLX_OK},
    {"T[3, 1]", "shape=[2, -1, 4]", NULL, FLX_OK},
    {"T[1, 3]", "shape=[0, 3]", NULL, FLX_OK},
    {"T[0, 1]", "shape=[0, 2]", NULL, FLX_OK},
    {"T[N, 1]", "shape=[3, N, 2]", NULL, FLX_OK},
    {"T[1, 2]", "shape=[N*2, 2]", NULL, FLX_OK},
    {"T[3]", "shape=[4]", NULL, FLX_E_SHAPE},
    {"T[0]", "shape=[3]", NULL, FLX_E_SHAPE},
    {"T[2, 3]", "shape=[3]", NULL, FLX_E_SHAPE},
    {"T[3]", "shape=[-1, 3]", NULL, FLX_E_ATTRIBUTE},
    {"T[1]", "shape=[-2]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_expand = {
    .infer = infer_expand,
    .eval = eval_expand,
    .schema = shape_schema,
    .attrs_size = sizeof(shape_attrs),
    .samples = samples_expand,
};

typedef struct {
    flx_ints shape, axes;
} broadcast_attrs;

static const flxi_attr broadcast_schema[] = {
    A_DIMS_REQ(broadcast_attrs, shape), A_INTS_REQ(broadcast_attrs, axes), A_END};

static flx_code infer_broadcast_in_dim(flxi_infer *f)
{
    broadcast_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_result_rank(f, a->shape.n));
    FLXI_TRY(flxi_need_counts(f, "shape", &a->shape));
    FLXI_TRY(flxi_norm_list(f, "axes", &a->axes, (size_t)x->rank, 0));
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, (int)a->shape.n, false));
    for (int k = 0; k < x->rank; k++)
        FLXI_TRY(flxi_need_stretch(f, k, a->shape.v[a->axes.v[k]]));
    f->out[0] = shaped(x->dtype, &a->shape);
    return FLX_OK;
}

static flx_code eval_broadcast_in_dim(flxi_eval *e)
{
    const broadcast_attrs *a = e->attrs;
    flxi_axis_map map = {.at = flxi_at_stretched};
    for (int k = 0; k < FLX_MAX_RANK; k++)
        map.from[k] = -1;
    for (size_t k = 0; k < a->axes.n; k++)
        map.from[a->axes.v[k]] = (int)k;
    flxi_move(e, &map, e->in[0], e->out[0]);
    return FLX_OK;
}

static const flxi_sample samples_broadcast_in_dim[] = {
    {"T[3]", "shape=[3, 2], axes=[0]", NULL, FLX_OK},
    {"T[3, 2]", "shape=[2, 4, 3], axes=[2, 0]", NULL, FLX_OK},
    {"T[1, 2]", "shape=[3, 2], axes=[0, -1]", NULL, FLX_OK},
    {"T[]", "shape=[2, 2], axes=[]", NULL, FLX_OK},
    {"T[]", "shape=[], axes=[]", NULL, FLX_OK},
    {"T[1]", "shape=[2, 0], axes=[1]", NULL, FLX_OK},
    {"T[N]", "shape=[2, N], axes=[1]", NULL, FLX_OK},
    {"T[3]", "shape=[2, 4], axes=[1]", NULL, FLX_E_SHAPE},
    {"T[3]", "shape=[3, 3], axes=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 3]", "shape=[3, 3], axes=[1, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 3]", "shape=[3, 3], axes=[1]", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", "shape=[3, -1], axes=[0]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_broadcast_in_dim = {
    .infer = infer_broadcast_in_dim,
    .eval = eval_broadcast_in_dim,
    .schema = broadcast_schema,
    .attrs_size = sizeof(broadcast_attrs),
    .samples = samples_broadcast_in_dim,
};

/* ---- squeeze, unsqueeze ---- */

typedef struct {
    flx_ints axes;
} axes_attrs;

static const flxi_attr squeeze_schema[] = {A_INTS(axes_attrs, axes, "all of extent 1"), A_END};
static const flxi_attr unsqueeze_schema[] = {A_INTS_REQ(axes_attrs, axes), A_END};

/* The axes whose extent is known to be 1. A symbol does not count, even if it is bound to 1 later: the result's rank
   must not depend on it. */
static flx_code unit_axes(flxi_infer *f, flx_ints *axes)
{
    const flx_type *x = f->in[0];
    size_t n = 0;
    for (int k = 0; k < x->rank; k++)
        n += x->dims[k] == 1;
    int64_t *own = flxi_new_list(f, axes, n);
    if (!own)
        return FLX_E_OOM;
    for (int k = 0; k < x->rank; k++)
        if (x->dims[k] == 1)
            *own++ = k;
    return FLX_OK;
}

static flx_code infer_squeeze(flxi_infer *f)
{
    axes_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(a->axes.v ? flxi_norm_axes(f, "axes", &a->axes, x->rank, true) : unit_axes(f, &a->axes));
    flx_type y = {.dtype = x->dtype};
    size_t next = 0;
    for (int k = 0; k < x->rank; k++) {
        if (next == a->axes.n || a->axes.v[next] != k) {
            y.dims[y.rank++] = x->dims[k];
            continue;
        }
        next++;
        flxi_type_text t;
        if (!flxi_dims_may_equal(f, x->dims[k], 1))
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "axis %d of x, of shape %s, does not have extent 1", k,
                                   flxi_shape_str(f->ctx, x, &t));
    }
    f->out[0] = y;
    return FLX_OK;
}

static flx_code infer_unsqueeze(flxi_infer *f)
{
    axes_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    size_t rank = (size_t)x->rank + a->axes.n;
    FLXI_TRY(flxi_need_result_rank(f, rank));
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, (int)rank, true));
    flx_type y = {.dtype = x->dtype, .rank = (int32_t)rank};
    size_t next = 0;
    for (size_t k = 0; k < rank; k++) {
        bool inserted = next < a->axes.n && a->axes.v[next] == (int64_t)k;
        y.dims[k] = inserted ? 1 : x->dims[k - next];
        next += inserted;
    }
    f->out[0] = y;
    return FLX_OK;
}

static const flxi_sample samples_squeeze[] = {
    {"T[1, 3, 1]", NULL, NULL, FLX_OK},
    {"T[1, 3, 1]", "axes=[0]", NULL, FLX_OK},
    {"T[1, 3, 1]", "axes=[-1, 0]", NULL, FLX_OK},
    {"T[1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 1]", "axes=[]", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 1]", NULL, NULL, FLX_OK},
    {"T[N, 1]", NULL, NULL, FLX_OK},
    {"T[2, 1]", "axes=[0]", NULL, FLX_E_SHAPE},
    {"T[0, 1]", "axes=[0]", NULL, FLX_E_SHAPE},
    {"T[2, 1]", "axes=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1]", "axes=[1, -1]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_unsqueeze[] = {
    {"T[2, 3]", "axes=[0]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[-1]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[3, 0]", NULL, FLX_OK},
    {"T[2]", "axes=[1, -1]", NULL, FLX_OK},
    {"T[]", "axes=[0, 1]", NULL, FLX_OK},
    {"T[2]", "axes=[]", NULL, FLX_OK},
    {"T[0]", "axes=[1]", NULL, FLX_OK},
    {"T[N]", "axes=[0]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[3]", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axes=[1, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axes=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]", NULL, FLX_E_SIZE},
    {0},
};

const flxi_rules flxi_rules_squeeze = {
    .infer = infer_squeeze,
    .eval = flxi_eval_copy,
    .schema = squeeze_schema,
    .attrs_size = sizeof(axes_attrs),
    .samples = samples_squeeze,
};

const flxi_rules flxi_rules_unsqueeze = {
    .infer = infer_unsqueeze,
    .eval = flxi_eval_copy,
    .schema = unsqueeze_schema,
    .attrs_size = sizeof(axes_attrs),
    .samples = samples_unsqueeze,
};

/* ---- tile, repeat ---- */

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

const flxi_rules flxi_rules_tile = {
    .infer = infer_tile,
    .eval = eval_tile,
    .schema = tile_schema,
    .attrs_size = sizeof(tile_attrs),
    .samples = samples_tile,
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

const flxi_rules flxi_rules_repeat = {
    .infer = infer_repeat,
    .eval = eval_repeat,
    .schema = repeat_schema,
    .attrs_size = sizeof(repeat_attrs),
    .samples = samples_repeat,
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

const flxi_rules flxi_rules_roll = {
    .infer = infer_roll,
    .eval = eval_roll,
    .schema = roll_schema,
    .attrs_size = sizeof(roll_attrs),
    .samples = samples_roll,
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
                                   "operand %u must be a vector, its shape is %s", k,
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

const flxi_rules flxi_rules_meshgrid = {
    .infer = infer_meshgrid,
    .eval = eval_meshgrid,
    .schema = meshgrid_schema,
    .attrs_size = sizeof(meshgrid_attrs),
    .samples = samples_meshgrid,
};
