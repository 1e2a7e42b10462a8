/* SPDX-License-Identifier: Apache-2.0 */
/* backward.c: cotangents of small ops as ops of their own, for backends that compute them in one step and for graphs
   written by hand. Each means its decomposition; the forward ops append them where grad is asked for backward ops. */
#include "ops/composite/backward.h"

#include "graph/op/infer.h"
#include "ops/index/index.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/axis_lists.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/oob.h"

/* ---- relu_backward ---- */

static void decompose_relu_backward(flxi_site *s, flx_val *y)
{
    flx_val positive = flx_gt(s->g, s->x[0], flxi_number(s, s->x[0], 0.0));
    y[0] = flxi_masked(s, positive, s->x[1]);
}

static const flxi_sample samples_relu_backward[] = {
    {"T[3, 4]{0.2..2}, T[3, 4]", NULL, NULL, FLX_OK}, {"T[2, 3]{-2..-0.2}, T[3]", NULL, NULL, FLX_OK},
    {"T[]{0.2..2}, T[]", NULL, NULL, FLX_OK},         {"T[0, 3], T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 2]{0.2..2}, T[N, 2]", NULL, NULL, FLX_OK}, {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"i32[3], i32[3]", NULL, NULL, FLX_E_DTYPE},      {0},
};

const flxi_rules flxi_rules_relu_backward = {
    .infer = flxi_infer_pointwise,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_relu_backward,
    .samples = samples_relu_backward,
};

void flxi_backward_vjp_relu(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flx_relu_backward(s->g, s->x[0], dy[0]);
}

/* ---- activation_backward ---- */

typedef struct {
    int64_t kind;
} kind_attrs;

/* Functions of one operand without attributes of their own (round: with its default). */
#define KINDS                                                                                                         \
    "relu sigmoid tanh silu gelu gelu_approx softplus selu hard_swish mish exp exp2 expm1 log log2 log10 log1p sqrt " \
    "rsqrt cbrt reciprocal square neg abs sign sin cos tan asin acos atan sinh cosh asinh acosh atanh erf erfc "      \
    "erf_inv lgamma digamma bessel_i0e bessel_i1e floor ceil trunc round round_away"

static const flxi_attr kind_schema[] = {A_WORD_REQ(kind_attrs, kind, KINDS), A_END};

/* The shape that the operands broadcast to. A factor may be smaller. */
static flx_type common_type(flxi_site *s)
{
    flx_type x = *flxi_typeof(s, s->x[0]);
    return flxi_type_equal(&x, flxi_typeof(s, s->x[1])) ? x : *flxi_typeof(s, flx_mul(s->g, s->x[0], s->x[1]));
}

/* dy f'(x) from the rule of that op, applied to a node of it. */
static void decompose_activation_backward(flxi_site *s, flx_val *y)
{
    const kind_attrs *a = s->attrs;
    flx_graph *g = s->g;
    size_t n;
    const char *word = flxi_word_at(KINDS, a->kind, &n);
    flxi_opcode code = flxi_op_lookup(word, n);
    const bool is_wanted = true;
    flx_val fx = flx_op1(g, flxi_ops[code].name, s->x, 1, NULL, 0);
    if (flxi_is_none(fx))
        return;
    const flxi_node *node = flxi_node_of(g, fx.id);
    flxi_site inner = {.g = g,
                       .ctx = s->ctx,
                       .op = &flxi_ops[code],
                       .attrs = node->attrs,
                       .nin = 1,
                       .nout = 1,
                       .x = s->x,
                       .y = &fx,
                       .wanted = &is_wanted};
    flx_val d = FLX_NONE;
    if (!(inner.op->traits & TRAIT_ZERO_GRAD)) {
        if (inner.op->rules->vjp)
            inner.op->rules->vjp(&inner, &s->x[1], &d);
        else
            flxi_pointwise_vjp(&inner, &s->x[1], &d);
    }
    flx_type type = common_type(s);
    y[0] = flxi_is_none(d) ? flxi_zeros(s, &type) : flxi_expand_like(s, d, &type);
}

/* Away from the points where a second derivative passes through 0: its terms cancel there. */
static const flxi_sample samples_activation_backward[] = {
    {"T[3, 4]{-1..1}, T[3, 4]", "kind=gelu", NULL, FLX_OK}, {"T[2, 3]{-1..1}, T[3]", "kind=gelu_approx", NULL, FLX_OK},
    {"T[3], T[2, 3]", "kind=silu", NULL, FLX_OK},           {"T[4]{0.5..2}, T[4]", "kind=sigmoid", NULL, FLX_OK},
    {"T[4]{-1..1}, T[4]", "kind=tanh", NULL, FLX_OK},       {"T[4]{0.2..2}, T[4]", "kind=relu", NULL, FLX_OK},
    {"T[4]{-2..-0.2}, T[4]", "kind=selu", NULL, FLX_OK},    {"T[4]{-2..2}, T[4]", "kind=hard_swish", NULL, FLX_OK},
    {"T[4]{-1..1}, T[4]", "kind=mish", NULL, FLX_OK},       {"T[4]{0.5..2}, T[4]", "kind=log", NULL, FLX_OK},
    {"T[]{0.5..2}, T[]", "kind=sqrt", NULL, FLX_OK},        {"T[4]{0.1..0.4}, T[4]", "kind=round", NULL, FLX_OK},
    {"T[4]{0.1..0.4}, T[2, 1]", "kind=sign", NULL, FLX_OK}, {"T[0, 3], T[0, 3]", "kind=softplus", NULL, FLX_OK},
    {"T[N, 2], T[N, 2]", "kind=sin", NULL, FLX_OK},         {"T[3], T[4]", "kind=exp", NULL, FLX_E_SHAPE},
    {"T[3], T[3]", "kind=add", NULL, FLX_E_ATTRIBUTE},      {"T[3], T[3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"i32[3], i32[3]", "kind=abs", NULL, FLX_E_DTYPE},      {0},
};

const flxi_rules flxi_rules_activation_backward = {
    .infer = flxi_infer_pointwise,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_activation_backward,
    .schema = kind_schema,
    .attrs_size = sizeof(kind_attrs),
    .samples = samples_activation_backward,
};

/* A complex operand has its own rule only: the op is real. */
void flxi_backward_vjp_activation(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (flxi_is_complex(flxi_typeof(s, s->x[0])->dtype))
        flxi_pointwise_vjp(s, dy, dx);
    else
        dx[0] = flx_activation_backward(s->g, s->x[0], dy[0], s->op->name);
}

/* ---- cumsum_backward ---- */

typedef struct {
    int64_t axis, exclusive;
} cumsum_attrs;

static const flxi_attr cumsum_schema[] = {A_INT(cumsum_attrs, axis, -1), A_BOOL(cumsum_attrs, exclusive, 0), A_END};

static flx_code infer_cumsum_backward(flxi_infer *f)
{
    cumsum_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    return flxi_infer_same(f);
}

static void decompose_cumsum_backward(flxi_site *s, flx_val *y)
{
    const cumsum_attrs *a = s->attrs;
    y[0] = flx_cumsum(s->g, s->x[0], a->axis, (int)a->exclusive, 1);
}

static const flxi_sample samples_cumsum_backward[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 2]", "axis=0, exclusive=true", NULL, FLX_OK},
    {"T[N, 2]", "axis=-2", NULL, FLX_OK},
    {"T[0, 3]", "axis=0", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "reverse=true", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_cumsum_backward = {
    .infer = infer_cumsum_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_cumsum_backward,
    .schema = cumsum_schema,
    .attrs_size = sizeof(cumsum_attrs),
    .samples = samples_cumsum_backward,
    .link = flxi_link_dense,
};

/* ---- gather_backward ---- */

typedef struct {
    flx_ints shape; /* of the table */
    int64_t axis, oob;
} ungather_attrs;

static const flxi_attr ungather_schema[] = {
    A_DIMS_REQ(ungather_attrs, shape),
    A_INT(ungather_attrs, axis, 0),
    A_WORD(ungather_attrs, oob, FLXI_OOB_WORDS),
    A_END,
};

static flx_code infer_gather_backward(flxi_infer *f)
{
    ungather_attrs *a = f->attrs;
    const flx_type *dy = f->in[0];
    const flx_type *idx = f->in[1];
    flx_type table = {.dtype = dy->dtype, .rank = (int32_t)a->shape.n};
    flx_type read = {.dtype = dy->dtype};
    flxi_type_text td, ti, tt;
    if (a->shape.n < 1 || a->shape.n > FLX_MAX_RANK)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "shape must have 1 to %d extents", FLX_MAX_RANK);
    for (size_t k = 0; k < a->shape.n; k++) {
        if (flx_dim_is_static(a->shape.v[k]) && a->shape.v[k] < 0)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "shape has a negative extent: %lld",
                                   (long long)a->shape.v[k]);
        table.dims[k] = a->shape.v[k];
    }
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, table.rank));
    FLXI_TRY(flxi_need_result_rank(f, (size_t)(table.rank - 1 + idx->rank)));
    flxi_append_dims(&read, &table, 0, a->axis);
    flxi_append_dims(&read, idx, 0, idx->rank);
    flxi_append_dims(&read, &table, a->axis + 1, table.rank);
    bool fits = read.rank == dy->rank;
    for (int k = 0; fits && k < dy->rank; k++)
        fits = flxi_dims_may_equal(f, read.dims[k], dy->dims[k]);
    if (!fits)
        return flxi_infer_fail(
            f, FLX_E_SHAPE, NULL, "dy is %s, which is not the shape of a gather by idx %s from a table %s",
            flxi_shape_str(f->ctx, dy, &td), flxi_shape_str(f->ctx, idx, &ti), flxi_shape_str(f->ctx, &table, &tt));
    f->out[0] = table;
    return FLX_OK;
}

static void decompose_gather_backward(flxi_site *s, flx_val *y)
{
    const ungather_attrs *a = s->attrs;
    y[0] = flxi_ungather(s, s->x[0], s->x[1], a->axis, a->shape.v[a->axis], a->oob);
    y[0] = flxi_reshape_to(s, y[0], (int)a->shape.n, a->shape.v);
}

static const flxi_sample samples_gather_backward[] = {
    {"T[5, 4], i32[5]{0..2}", "shape=[3, 4]", NULL, FLX_OK},
    {"T[2, 2, 2, 3], i64[2, 2]{0..2}", "shape=[2, 3, 3], axis=1", NULL, FLX_OK},
    {"T[2, 3], u8[]{0..2}", "shape=[2, 3, 3], axis=-1", NULL, FLX_OK},
    {"T[4], i16[4]{-2..5}", "shape=[3], oob=zero", NULL, FLX_OK},
    {"T[2, 4], i32[4]{-2..5}", "shape=[2, 3], axis=1, oob=clamp", NULL, FLX_OK},
    {"T[N, 3], i32[N]{0..1}", "shape=[N, 3]", NULL, FLX_OK},
    {"T[0, 3], i32[0]", "shape=[2, 3]", NULL, FLX_OK},
    {"T[5, 4], i32[4]", "shape=[3, 4]", NULL, FLX_E_SHAPE},
    {"T[5, 4], i32[5]", "shape=[3, 5]", NULL, FLX_E_SHAPE},
    {"T[5, 4], i32[5]", "shape=[3, 4], axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[5, 4], i32[5]", "shape=[-3, 4]", NULL, FLX_E_ATTRIBUTE},
    {"T[5, 4], i32[5]", "shape=[]", NULL, FLX_E_ATTRIBUTE},
    {"T[5, 4], i32[5]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_gather_backward = {
    .infer = infer_gather_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_gather_backward,
    .schema = ungather_schema,
    .attrs_size = sizeof(ungather_attrs),
    .samples = samples_gather_backward,
    .link = flxi_link_dense,
};

/* ---- complex_norm_sq_backward ---- */

static flx_code infer_norm_sq_backward(flxi_infer *f)
{
    int32_t part = flxi_part_dtype(f->in[0]->dtype);
    if (f->in[1]->dtype != part)
        return flxi_infer_fail(f, FLX_E_DTYPE, NULL,
                               "dy is the cotangent of a real number, so for z of %s it must be %s, not %s",
                               flx_dtype_name(f->in[0]->dtype), flx_dtype_name(part), flx_dtype_name(f->in[1]->dtype));
    return flxi_infer_pointwise(f);
}

static void decompose_norm_sq_backward(flxi_site *s, flx_val *y)
{
    flx_val twice = flx_mul(s->g, s->x[1], flxi_number(s, s->x[1], 2.0));
    y[0] = flxi_by_parts(s, s->x[0], twice, flx_mul);
}

static const flxi_sample samples_norm_sq_backward[] = {
    {"c64[3, 2], f32[3, 2]", NULL, NULL, FLX_OK},
    {"c64[2, 3], f32[3]", NULL, NULL, FLX_OK},
    {"c64[], f32[2]", NULL, NULL, FLX_OK},
    {"c64[0], f32[0]", NULL, NULL, FLX_OK},
    {"c64[N], f32[N]", NULL, NULL, FLX_OK},
    {"c128[2], f64[2]", NULL, NULL, FLX_OK},
    {"c64[3], f32[4]", NULL, NULL, FLX_E_SHAPE},
    {"c64[3], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {"c64[3], c64[3]", NULL, NULL, FLX_E_DTYPE},
    {"f32[3], f32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_complex_norm_sq_backward = {
    .infer = infer_norm_sq_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_norm_sq_backward,
    .samples = samples_norm_sq_backward,
};
