/* shape.c: the same elements under another shape: reinterpreted, permuted, stretched, repeated, rotated.

   Extents may be symbolic. What can be disproved is an error now; what only the values of the symbols decide is checked
   when they are bound, because binding runs these rules again on the normalised attributes.

   All ops here are linear: the cotangent goes the way back, summed where an element was repeated. Under a batch axis they
   are themselves, with every axis one further behind. */
#include "ops/axis_map.h"
#include "ops/rule_lists.h"

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

/* Whatever kept the elements in row-major order is undone by x's own shape. */
static void vjp_reshaped(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flxi_reshape_like(s, dy[0], flxi_typeof(s, s->x[0]));
}

static void batch_reshape(flxi_site *s, flx_val *by)
{
    const shape_attrs *a = s->attrs;
    by[0] = flx_reshape(s->g, s->x[0], flxi_list_behind(s, s->size, a->shape, 0));
}

const flxi_rules flxi_rules_reshape = {
    .infer = infer_reshape,
    .eval = flxi_eval_copy,
    .vjp = vjp_reshaped,
    .batch = batch_reshape,
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

static void vjp_transpose(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const perm_attrs *a = s->attrs;
    int64_t inverse[FLX_MAX_RANK];
    for (size_t k = 0; k < a->perm.n; k++)
        inverse[a->perm.v[k]] = (int64_t)k;
    dx[0] = flx_transpose(s->g, dy[0], (flx_ints){inverse, a->perm.n});
}

static void batch_transpose(flxi_site *s, flx_val *by)
{
    const perm_attrs *a = s->attrs;
    by[0] = flx_transpose(s->g, s->x[0], flxi_list_behind(s, 0, a->perm, 1));
}

const flxi_rules flxi_rules_transpose = {
    .infer = infer_transpose,
    .eval = eval_transpose,
    .vjp = vjp_transpose,
    .batch = batch_transpose,
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

/* An axis that only may be 1 cannot be summed or kept without knowing which. */
static bool stretch_is_known(flxi_site *s, int axis, flx_dim target)
{
    flx_dim d = flxi_typeof(s, s->x[0])->dims[axis];
    if (d == 1 || d == target)
        return true;
    flxi_dim_text from, to;
    flxi_site_fail(s, FLX_E_UNBOUND_DIM, "specialise the graph first", "axis %d has extent %s, which becomes %s: %s", axis,
                   flxi_dim_str(s->ctx, d, &from), flxi_dim_str(s->ctx, target, &to),
                   "whether it is stretched is not known");
    return false;
}

/* The caller sums over what was stretched. */
static void vjp_expand(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const shape_attrs *a = s->attrs;
    int rank = flxi_typeof(s, s->x[0])->rank;
    for (int k = 0; k < rank; k++)
        if (!stretch_is_known(s, k, a->shape.v[a->shape.n - (size_t)(rank - k)]))
            return;
    dx[0] = dy[0];
}

static void batch_expand(flxi_site *s, flx_val *by)
{
    const shape_attrs *a = s->attrs;
    by[0] = flx_expand(s->g, flxi_align(s, s->x[0], true, (int)a->shape.n), flxi_list_behind(s, s->size, a->shape, 0));
}

const flxi_rules flxi_rules_expand = {
    .infer = infer_expand,
    .eval = eval_expand,
    .vjp = vjp_expand,
    .batch = batch_expand,
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

/* place[k]: how many of the axes come before axes[k], which is where x's axis k stands once they are ascending. */
static void order_of_axes(flx_ints axes, int64_t place[FLX_MAX_RANK])
{
    for (size_t k = 0; k < axes.n; k++) {
        place[k] = 0;
        for (size_t i = 0; i < axes.n; i++)
            place[k] += axes.v[i] < axes.v[k];
    }
}

/* Sums over the axes that x does not have and puts the others in x's order; the caller sums over what was stretched. */
static void vjp_broadcast_in_dim(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const broadcast_attrs *a = s->attrs;
    int64_t added[FLX_MAX_RANK];
    int64_t place[FLX_MAX_RANK];
    bool from_x[FLX_MAX_RANK] = {false};
    size_t n = 0;
    for (size_t k = 0; k < a->axes.n; k++) {
        if (!stretch_is_known(s, (int)k, a->shape.v[a->axes.v[k]]))
            return;
        from_x[a->axes.v[k]] = true;
    }
    for (size_t k = 0; k < a->shape.n; k++)
        if (!from_x[k])
            added[n++] = (int64_t)k;
    order_of_axes(a->axes, place);
    flx_val sum = flxi_sum_axes(s, dy[0], (flx_ints){added, n}, false);
    dx[0] = flx_transpose(s->g, sum, (flx_ints){place, a->axes.n});
}

static void batch_broadcast_in_dim(flxi_site *s, flx_val *by)
{
    const broadcast_attrs *a = s->attrs;
    by[0] = flx_broadcast_in_dim(s->g, s->x[0], flxi_list_behind(s, s->size, a->shape, 0),
                                 flxi_list_behind(s, 0, a->axes, 1));
}

/* x's axes in ascending order, then ones between them, then stretched. */
static void decompose_broadcast_in_dim(flxi_site *s, flx_val *y)
{
    const broadcast_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    int64_t place[FLX_MAX_RANK];
    int64_t perm[FLX_MAX_RANK];
    flx_dim dims[FLX_MAX_RANK];
    order_of_axes(a->axes, place);
    for (size_t k = 0; k < a->shape.n; k++)
        dims[k] = 1;
    for (size_t k = 0; k < a->axes.n; k++) {
        perm[place[k]] = (int64_t)k;
        dims[a->axes.v[k]] = x->dims[k];
    }
    flx_val v = flx_transpose(s->g, s->x[0], (flx_ints){perm, a->axes.n});
    y[0] = flx_expand(s->g, flxi_reshape_to(s, v, (int)a->shape.n, dims), a->shape);
}

const flxi_rules flxi_rules_broadcast_in_dim = {
    .infer = infer_broadcast_in_dim,
    .eval = eval_broadcast_in_dim,
    .vjp = vjp_broadcast_in_dim,
    .batch = batch_broadcast_in_dim,
    .decompose = decompose_broadcast_in_dim,
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

/* squeeze and unsqueeze: the axes count on x or on the result; both move up by one. */
static void batch_axes(flxi_site *s, flx_val *by)
{
    axes_attrs *a = flxi_site_attrs(s);
    if (a)
        flxi_shift_axes(s, &a->axes);
    flxi_emit(s, a, s->x, 1, by);
}

static void decompose_squeeze(flxi_site *s, flx_val *y)
{
    const axes_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_dim dims[FLX_MAX_RANK];
    int rank = 0;
    size_t next = 0;
    for (int k = 0; k < x->rank; k++) {
        if (next < a->axes.n && a->axes.v[next] == k)
            next++;
        else
            dims[rank++] = x->dims[k];
    }
    y[0] = flxi_reshape_to(s, s->x[0], rank, dims);
}

static void decompose_unsqueeze(flxi_site *s, flx_val *y)
{
    const axes_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_dim dims[FLX_MAX_RANK];
    size_t next = 0;
    int rank = x->rank + (int)a->axes.n;
    for (int k = 0; k < rank; k++) {
        bool inserted = next < a->axes.n && a->axes.v[next] == k;
        dims[k] = inserted ? 1 : x->dims[(size_t)k - next];
        next += inserted;
    }
    y[0] = flxi_reshape_to(s, s->x[0], rank, dims);
}

const flxi_rules flxi_rules_squeeze = {
    .infer = infer_squeeze,
    .eval = flxi_eval_copy,
    .vjp = vjp_reshaped,
    .batch = batch_axes,
    .decompose = decompose_squeeze,
    .schema = squeeze_schema,
    .attrs_size = sizeof(axes_attrs),
    .samples = samples_squeeze,
};

const flxi_rules flxi_rules_unsqueeze = {
    .infer = infer_unsqueeze,
    .eval = flxi_eval_copy,
    .vjp = vjp_reshaped,
    .batch = batch_axes,
    .decompose = decompose_unsqueeze,
    .schema = unsqueeze_schema,
    .attrs_size = sizeof(axes_attrs),
    .samples = samples_unsqueeze,
};

/* ---- tile, repeat ---- */

/* Both repeat blocks of elements that are neighbours in memory: seen as [outer, copies, block], the copies are equal. */

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

const flxi_rules flxi_rules_tile = {
    .infer = infer_tile,
    .eval = eval_tile,
    .vjp = vjp_tile,
    .batch = batch_tile,
    .decompose = decompose_tile,
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

const flxi_rules flxi_rules_repeat = {
    .infer = infer_repeat,
    .eval = eval_repeat,
    .vjp = vjp_repeat,
    .batch = batch_repeat,
    .decompose = decompose_repeat,
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
    if (shift == INT64_MIN) { /* the one number that has no opposite */
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

const flxi_rules flxi_rules_roll = {
    .infer = infer_roll,
    .eval = eval_roll,
    .vjp = vjp_roll,
    .batch = batch_roll,
    .decompose = decompose_roll,
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

/* v, a vector of extent n behind `lead` axes, along its axis of the grid. */
static flx_val spread_over_grid(flxi_site *s, flx_val v, uint32_t k, int lead)
{
    flx_type grid = {.rank = (int32_t)s->nin + lead};
    int axis = lead + grid_axis(s->attrs, s->nin, k);
    if (grid.rank > FLX_MAX_RANK) {
        flxi_site_fail(s, FLX_E_SIZE, NULL, "a batch axis on a grid of rank %d exceeds the limit", (int)s->nin);
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

/* Result k depends on operand k alone. */
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

const flxi_rules flxi_rules_meshgrid = {
    .infer = infer_meshgrid,
    .eval = eval_meshgrid,
    .vjp = vjp_meshgrid,
    .jvp = jvp_meshgrid,
    .batch = batch_meshgrid,
    .decompose = decompose_meshgrid,
    .schema = meshgrid_schema,
    .attrs_size = sizeof(meshgrid_attrs),
    .samples = samples_meshgrid,
};
