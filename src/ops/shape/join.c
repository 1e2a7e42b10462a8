/* SPDX-License-Identifier: Apache-2.0 */
/* join.c: joining tensors along an axis, and splitting them again. All four ops are linear, and joining and splitting
   are each other's transposes. */
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/express/express.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

typedef struct {
    int64_t axis;
} axis_attrs;

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
    for (int64_t o = 0; o < outer && !flxi_stopped_by_now(); o++)
        flxi_stop_copy(dst + (size_t)o * dst_step, src + (size_t)o * src_step, nbytes);
}

/* Joins the operands along the result's axis. Each takes as many positions there as its count says: one in a stack. */
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
    flx_unstack(s->g, dy[0], dx, s->nin, a->axis);
    for (uint32_t k = 0; k < s->nin; k++)
        dx[k] = s->wanted[k] ? flxi_reshape_like(s, dx[k], flxi_typeof(s, s->x[k])) : FLX_NONE;
}

/* concat and stack: all operands with the batch axis, joined along the next axis. */
static void batch_join(flxi_site *s, flx_val *by)
{
    axis_attrs *a = flxi_site_attrs(s);
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    if (!a || !x)
        return;
    a->axis++;
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = flxi_lift(s, k);
    flxi_append(s, a, x, s->nin, by);
}

static void decompose_stack(flxi_site *s, flx_val *y)
{
    const axis_attrs *a = s->attrs;
    flx_val *rows = flxi_rule_new(s, flx_val, s->nin);
    for (uint32_t k = 0; rows && k < s->nin; k++)
        rows[k] = flx_unsqueeze(s->g, s->x[k], FLX_INTS(a->axis));
    if (rows)
        y[0] = flx_concat(s->g, rows, s->nin, a->axis);
}

/* Every operand is tested for each element: worthwhile only for few operands. */
static bool expresses_few(const void *attrs, const flx_type *const *in, uint32_t nin)
{
    (void)attrs, (void)in;
    return nin <= 8;
}

/* in.dim[axis] counts along the result; operand k has positions from … from + n - 1. */
static flxi_kval pull_part(flxi_express *e, uint32_t k, const flxi_kindex *at, int64_t axis, int64_t from, int64_t n)
{
    flxi_kindex in = *at;
    uint32_t i = flxi_ku_sub(e, in.dim[axis], flxi_ku(e, from)); /* wraps below `from` */
    in.dim[axis] = flxi_ku_guarded(e, flxi_k2(e, KBIN_lt, i, flxi_ku(e, n)), i);
    return flxi_operand_at(e, k, &in);
}

static flxi_kval pull_concat(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const axis_attrs *a = e->attrs;
    flxi_kindex to = flxi_at_axes(e, at);
    flxi_kval y = {0};
    int64_t from = 0;
    for (uint32_t k = 0; k < e->nin; k++) {
        int64_t n = e->in[k]->dims[a->axis];
        if (n == e->out[result]->dims[a->axis])
            return flxi_operand_at(e, k, &to);
        if (n == 0)
            continue;
        flxi_kval part = pull_part(e, k, &to, a->axis, from, n);
        uint32_t is_before = flxi_k2(e, KBIN_lt, to.dim[a->axis], flxi_ku(e, from));
        y = y.re ? flxi_khold_value(e, flxi_kchoose(e, is_before, y, part)) : part;
        from += n;
    }
    return y;
}

static flxi_kval pull_stack(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const axis_attrs *a = e->attrs;
    (void)result;
    flxi_kindex to = flxi_at_axes(e, at);
    flxi_kindex in = {0};
    for (int k = 0; k < e->in[0]->rank; k++)
        in.dim[k] = to.dim[k < a->axis ? k : k + 1];
    flxi_kval y = flxi_operand_at(e, 0, &in);
    for (uint32_t k = 1; k < e->nin; k++) {
        uint32_t is_before = flxi_k2(e, KBIN_lt, to.dim[a->axis], flxi_ku(e, k));
        y = flxi_khold_value(e, flxi_kchoose(e, is_before, y, flxi_operand_at(e, k, &in)));
    }
    return y;
}

/* An operand begins where those before it end. */
static bool link_concat(const flxi_use *u, flxi_link *l)
{
    flx_dim begin = 0;
    if (l->axis != ((const axis_attrs *)u->n->attrs)->axis)
        return true;
    for (uint32_t k = 0; k < u->operand; k++)
        begin = flx_dim_add(u->g->ctx, begin, flxi_type_at(u->g, u->n->in[k])->dims[l->axis]);
    return flxi_dim_is_number(begin) && flxi_link_shift(l, -begin);
}

static int concat_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)operand;
    return axis == ((const axis_attrs *)n->attrs)->axis ? -1 : axis;
}

static const struct flxi_shard shard_concat = {.becomes = concat_becomes};

static bool link_stack(const flxi_use *u, flxi_link *l)
{
    return flxi_link_move(u, l, l->axis < ((const axis_attrs *)u->n->attrs)->axis ? l->axis : l->axis + 1);
}

const flxi_rules flxi_rules_concat = {
    .infer = infer_concat,
    .eval = eval_join,
    .pull = pull_concat,
    .expresses = expresses_few,
    .vjp = vjp_concat,
    .batch = batch_join,
    .schema = concat_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_concat,
    .link = link_concat,
    .shard = &shard_concat,
};

const flxi_rules flxi_rules_stack = {
    .infer = infer_stack,
    .eval = eval_join,
    .pull = pull_stack,
    .expresses = expresses_few,
    .vjp = vjp_stack,
    .batch = batch_join,
    .decompose = decompose_stack,
    .schema = first_axis_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_stack,
    .link = link_stack,
    .shard = &flxi_shard_linked,
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
                           "sizes add up to %s, which x, of shape %s, does not have as extent of axis %lld",
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
                               "axis %lld of x, of shape %s, does not have a static extent", (long long)a->axis,
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

/* The inverse of eval_join: each result takes as many positions as its count. */
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

/* The parts joined again, zeros for those without a cotangent; empty parts are skipped. */
static void vjp_split(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const split_attrs *a = s->attrs;
    flx_val *parts = flxi_rule_new(s, flx_val, s->nout);
    uint32_t n = 0;
    for (uint32_t k = 0; parts && k < s->nout; k++)
        if (a->sizes.v[k] != 0)
            parts[n++] = flxi_or_zero_tangent(s, dy[k], s->y[k]);
    flx_val joined = n == 0   ? flxi_or_zero_tangent(s, FLX_NONE, s->x[0])
                     : n == 1 ? parts[0]
                              : flx_concat(s->g, parts, n, a->axis);
    dx[0] = flxi_reshape_like(s, joined, flxi_typeof(s, s->x[0]));
}

static void vjp_unstack(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    flx_val *rows = flxi_rule_new(s, flx_val, s->nout);
    flx_val zero = FLX_NONE; /* one for all rows without a cotangent */
    for (uint32_t k = 0; rows && k < s->nout; k++) {
        if (flxi_is_none(dy[k]) && flxi_is_none(zero))
            zero = flxi_or_zero_tangent(s, FLX_NONE, s->y[k]);
        rows[k] = flxi_is_none(dy[k]) ? zero : dy[k];
    }
    if (rows)
        dx[0] = flx_stack(s->g, rows, s->nout, a->axis);
}

static void batch_split(flxi_site *s, flx_val *by)
{
    const split_attrs *a = s->attrs;
    flx_split(s->g, s->x[0], by, s->nout, a->sizes, a->axis + 1);
}

static void batch_unstack(flxi_site *s, flx_val *by)
{
    const axis_attrs *a = s->attrs;
    flx_unstack(s->g, s->x[0], by, s->nout, a->axis + 1);
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

static flxi_kval pull_split(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const split_attrs *a = e->attrs;
    flxi_kindex to = *at;
    flxi_kindex in = {0};
    int64_t from = 0;
    for (uint32_t k = 0; k < result; k++)
        from += a->sizes.v[k];
    for (int k = 0; k < e->in[0]->rank; k++)
        in.dim[k] = flxi_at_axis(e, e->out[result], &to, k);
    in.dim[a->axis] = flxi_ku_add(e, in.dim[a->axis], flxi_ku(e, from));
    return flxi_operand_at(e, 0, &in);
}

static flxi_kval pull_unstack(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const axis_attrs *a = e->attrs;
    flxi_kindex to = *at;
    flxi_kindex in = {0};
    for (int k = 0; k < e->out[result]->rank; k++)
        in.dim[k < a->axis ? k : k + 1] = flxi_at_axis(e, e->out[result], &to, k);
    in.dim[a->axis] = flxi_ku(e, result);
    return flxi_operand_at(e, 0, &in);
}

/* A result begins where those before it end. */
static bool link_split(const flxi_use *u, flxi_link *l)
{
    flx_dim begin = 0;
    if (l->axis != ((const split_attrs *)u->n->attrs)->axis)
        return true;
    for (uint32_t k = 0; k < u->result; k++)
        begin = flx_dim_add(u->g->ctx, begin, flxi_type_at(u->g, u->n->first + k)->dims[l->axis]);
    return flxi_link_shift(l, begin);
}

static int split_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)operand;
    return axis == ((const split_attrs *)n->attrs)->axis ? -1 : axis;
}

static const struct flxi_shard shard_split = {.becomes = split_becomes};

const flxi_rules flxi_rules_split = {
    .infer = infer_split,
    .eval = eval_split,
    .pull = pull_split,
    .vjp = vjp_split,
    .batch = batch_split,
    .decompose = decompose_split,
    .schema = split_schema,
    .attrs_size = sizeof(split_attrs),
    .samples = samples_split,
    .link = link_split,
    .shard = &shard_split,
};

const flxi_rules flxi_rules_unstack = {
    .infer = infer_unstack,
    .eval = eval_unstack,
    .pull = pull_unstack,
    .vjp = vjp_unstack,
    .batch = batch_unstack,
    .decompose = decompose_unstack,
    .schema = first_axis_schema,
    .attrs_size = sizeof(axis_attrs),
    .samples = samples_unstack,
    .link = flxi_link_dense,
};
