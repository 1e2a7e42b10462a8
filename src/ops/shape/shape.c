/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: the same elements in another shape: reshaped, permuted, broadcast. repeat.c has the ops that repeat or
   rotate elements.

   Extents may be symbolic. What is known to be wrong is an error now; what depends on the values of symbols is checked
   when they are bound, because binding runs these rules again on the normalised attributes.

   All ops here are linear: the cotangent is mapped back, summed where an element was repeated. With a leading batch
   axis they are the same ops with every axis one higher. */
#include "ops/express/express.h"
#include "ops/rule/axis/axis_map.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

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

/* Replaces the entry -1 at `at` by the extent that x's elements leave for it. */
static flx_code infer_missing_dim(flxi_infer *f, flx_ints *shape, size_t at)
{
    flx_dim known = 1;
    for (size_t k = 0; k < shape->n; k++) {
        if (k != at && flxi_dim_negative(shape->v[k]))
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "at most one extent may be inferred",
                                   "shape[%zu] and shape[%zu] are both negative", at, k);
        known = k == at ? known : flx_dim_mul(f->ctx, known, shape->v[k]);
    }
    flxi_type_text t;
    if (known == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "write the extent instead of -1",
                               "-1 cannot be inferred with another extent of 0; x is %s",
                               flxi_shape_str(f->ctx, f->in[0], &t));
    flx_dim count = count_of(f, f->in[0]);
    if (flxi_dim_is_number(count) && flxi_dim_is_number(known) && count % known != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "x, of shape %s, has %lld elements, not a multiple of the %lld of the other extents",
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

/* The inverse of any op that keeps the elements in row-major order is a reshape to x's shape. */
static void vjp_reshaped(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flxi_reshape_like(s, dy[0], flxi_typeof(s, s->x[0]));
}

static void batch_reshape(flxi_site *s, flx_val *by)
{
    const shape_attrs *a = s->attrs;
    by[0] = flx_reshape(s->g, s->x[0], flxi_list_behind(s, s->size, a->shape, 0));
}

/* For ops that keep the elements in row-major order. */
static flxi_kval pull_reshaped(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    flxi_kindex to = *at;
    flxi_kindex in = flxi_at_reshape(e, e->in[0], e->out[result], &to);
    return flxi_operand_at(e, 0, &in);
}

static const struct flxi_shard shard_reshape = {.shape = "shape"};

const flxi_rules flxi_rules_reshape = {
    .infer = infer_reshape,
    .eval = flxi_eval_copy,
    .pull = pull_reshaped,
    .vjp = vjp_reshaped,
    .batch = batch_reshape,
    .schema = shape_schema,
    .attrs_size = sizeof(shape_attrs),
    .samples = samples_reshape,
    .link = flxi_link_reshaped,
    .shard = &shard_reshape,
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

static flxi_kval pull_transpose(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const perm_attrs *a = e->attrs;
    flxi_kindex to = *at;
    flxi_kindex in = {0};
    for (size_t k = 0; k < a->perm.n; k++)
        in.dim[a->perm.v[k]] = flxi_at_axis(e, e->out[result], &to, (int)k);
    return flxi_operand_at(e, 0, &in);
}

static bool link_transpose(const flxi_use *u, flxi_link *l)
{
    const perm_attrs *a = u->n->attrs;
    return flxi_link_move(u, l, flxi_link_find(&a->perm, l->axis));
}

const flxi_rules flxi_rules_transpose = {
    .infer = infer_transpose,
    .eval = eval_transpose,
    .pull = pull_transpose,
    .vjp = vjp_transpose,
    .batch = batch_transpose,
    .schema = perm_schema,
    .attrs_size = sizeof(perm_attrs),
    .samples = samples_transpose,
    .link = link_transpose,
    .shard = &flxi_shard_linked,
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
                               "shape has %zu entries, but x, of shape %s, has %d axes", a->shape.n,
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

/* An axis that may or may not be 1 can be neither summed nor kept. */
static bool stretch_is_known(flxi_site *s, int axis, flx_dim target)
{
    flx_dim d = flxi_typeof(s, s->x[0])->dims[axis];
    if (d == 1 || d == target)
        return true;
    flxi_dim_text from, to;
    flxi_site_fail(s, FLX_E_UNBOUND_DIM, "specialise the graph first", "axis %d has extent %s, which becomes %s: %s",
                   axis, flxi_dim_str(s->ctx, d, &from), flxi_dim_str(s->ctx, target, &to),
                   "whether it is stretched is not known");
    return false;
}

/* The caller sums over the stretched axes. */
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

static flxi_kval pull_expand(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    flxi_kindex to = *at;
    flxi_kindex in = flxi_at_broadcast(e, e->in[0], e->out[result], &to);
    return flxi_operand_at(e, 0, &in);
}

static const struct flxi_shard shard_shaped = {.shape = "shape"};

const flxi_rules flxi_rules_expand = {
    .infer = infer_expand,
    .eval = eval_expand,
    .pull = pull_expand,
    .vjp = vjp_expand,
    .batch = batch_expand,
    .schema = shape_schema,
    .attrs_size = sizeof(shape_attrs),
    .samples = samples_expand,
    .link = flxi_link_aligned,
    .shard = &shard_shaped,
};

typedef struct {
    flx_ints shape, axes;
} broadcast_attrs;

static const flxi_attr broadcast_schema[] = {A_DIMS_REQ(broadcast_attrs, shape), A_INTS_REQ(broadcast_attrs, axes),
                                             A_END};

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

/* order[k]: how many of the axes come before axes[k], which is the position of x's axis k in ascending order. */
static void order_of_axes(flx_ints axes, int64_t order[FLX_MAX_RANK])
{
    for (size_t k = 0; k < axes.n; k++) {
        order[k] = 0;
        for (size_t i = 0; i < axes.n; i++)
            order[k] += axes.v[i] < axes.v[k];
    }
}

/* Sums over the axes that x does not have and puts the others in x's order; the caller sums over the stretched axes. */
static void vjp_broadcast_in_dim(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const broadcast_attrs *a = s->attrs;
    int64_t added[FLX_MAX_RANK];
    int64_t order[FLX_MAX_RANK];
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
    order_of_axes(a->axes, order);
    flx_val sum = flxi_sum_axes(s, dy[0], (flx_ints){added, n}, false);
    dx[0] = flx_transpose(s->g, sum, (flx_ints){order, a->axes.n});
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
    int64_t order[FLX_MAX_RANK];
    int64_t perm[FLX_MAX_RANK];
    flx_dim dims[FLX_MAX_RANK];
    order_of_axes(a->axes, order);
    for (size_t k = 0; k < a->shape.n; k++)
        dims[k] = 1;
    for (size_t k = 0; k < a->axes.n; k++) {
        perm[order[k]] = (int64_t)k;
        dims[a->axes.v[k]] = x->dims[k];
    }
    flx_val v = flx_transpose(s->g, s->x[0], (flx_ints){perm, a->axes.n});
    y[0] = flx_expand(s->g, flxi_reshape_to(s, v, (int)a->shape.n, dims), a->shape);
}

static flxi_kval pull_broadcast_in_dim(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const broadcast_attrs *a = e->attrs;
    flxi_kindex to = *at;
    flxi_kindex in = {0};
    for (size_t k = 0; k < a->axes.n; k++)
        in.dim[k] = e->in[0]->dims[k] == 1 ? flxi_ku(e, 0) : flxi_at_axis(e, e->out[result], &to, (int)a->axes.v[k]);
    return flxi_operand_at(e, 0, &in);
}

static bool link_broadcast_in_dim(const flxi_use *u, flxi_link *l)
{
    const broadcast_attrs *a = u->n->attrs;
    return flxi_link_move(u, l, a->axes.v[l->axis]);
}

const flxi_rules flxi_rules_broadcast_in_dim = {
    .infer = infer_broadcast_in_dim,
    .eval = eval_broadcast_in_dim,
    .pull = pull_broadcast_in_dim,
    .vjp = vjp_broadcast_in_dim,
    .batch = batch_broadcast_in_dim,
    .decompose = decompose_broadcast_in_dim,
    .schema = broadcast_schema,
    .attrs_size = sizeof(broadcast_attrs),
    .samples = samples_broadcast_in_dim,
    .link = link_broadcast_in_dim,
    .shard = &shard_shaped,
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
    flxi_append(s, a, s->x, 1, by);
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
    .pull = pull_reshaped,
    .vjp = vjp_reshaped,
    .batch = batch_axes,
    .decompose = decompose_squeeze,
    .schema = squeeze_schema,
    .attrs_size = sizeof(axes_attrs),
    .samples = samples_squeeze,
    .link = flxi_link_reshaped,
    .shard = &flxi_shard_linked,
};

const flxi_rules flxi_rules_unsqueeze = {
    .infer = infer_unsqueeze,
    .eval = flxi_eval_copy,
    .pull = pull_reshaped,
    .vjp = vjp_reshaped,
    .batch = batch_axes,
    .decompose = decompose_unsqueeze,
    .schema = unsqueeze_schema,
    .attrs_size = sizeof(axes_attrs),
    .samples = samples_unsqueeze,
    .link = flxi_link_reshaped,
    .shard = &flxi_shard_linked,
};
