/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: see fused.h. An op here means its decomposition, bit for bit: evaluation, derivatives and batching use it,
   and so does compilation wherever no backend has its own implementation. */
#include "ops/composite/fused.h"

#include "ops/rule/decomposed.h"

/* ---- Pieces ---- */

const char *flxi_activation_name(int64_t act)
{
    static const char *const names[FLXI_ACT_COUNT] = {"none",
#define NAME(name) #name,
                                                      FLXI_ACTIVATION_MAP(NAME)
#undef NAME
    };
    return names[act];
}

flx_val flxi_activate(flx_graph *g, int64_t act, flx_val x)
{
    return act == FLXI_ACT_none ? x : flx_op1(g, flxi_activation_name(act), &x, 1, NULL, 0);
}

flx_val flxi_linear(flx_graph *g, flx_val x, flx_val w, flx_val b, int64_t act)
{
    flx_val z = flx_matmul(g, x, w);
    return flxi_activate(g, act, flxi_is_none(b) ? z : flx_add(g, z, b));
}

flx_val flxi_swiglu(flxi_site *s, flx_val p, bool gate_first)
{
    const flx_type *t = flxi_typeof(s, p);
    int64_t axis = t->rank - 1;
    flx_dim n = flx_dim_div(s->ctx, t->dims[t->rank ? axis : 0], 2);
    flx_val first = flx_narrow(s->g, p, axis, 0, n);
    flx_val second = flx_narrow(s->g, p, axis, n, n);
    return flx_mul(s->g, gate_first ? second : first, flx_silu(s->g, gate_first ? first : second));
}

/* ---- Inference ---- */

flx_code flxi_infer_linear(flxi_infer *f, const flx_type *x, const flx_type *w, const flx_type *b, const char *w_name,
                           const char *b_name, flx_type *y)
{
    flxi_type_text tx, tw, tb;
    if (x->rank < 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "a single row is [1, n]: reshape it",
                               "x must have rank 2 or more: it is %s", flxi_shape_str(f->ctx, x, &tx));
    if (w->rank != 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "only x may have batch axes", "%s must be a matrix: it is %s", w_name,
                               flxi_shape_str(f->ctx, w, &tw));
    if (!flxi_dims_may_equal(f, x->dims[x->rank - 1], w->dims[0])) {
        bool transposed = flxi_dims_may_equal(f, x->dims[x->rank - 1], w->dims[1]);
        return flxi_infer_fail(f, FLX_E_SHAPE, transposed ? "is it transposed? It has one row for each input" : NULL,
                               "%s must have as many rows as its input has columns: %s is %s, its input %s", w_name,
                               w_name, flxi_shape_str(f->ctx, w, &tw), flxi_shape_str(f->ctx, x, &tx));
    }
    if (b && (b->rank != 1 || !flxi_dims_may_equal(f, b->dims[0], w->dims[1])))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "%s must have one element for each column of %s: %s is %s, %s is %s", b_name, w_name,
                               b_name, flxi_shape_str(f->ctx, b, &tb), w_name, flxi_shape_str(f->ctx, w, &tw));
    *y = *x;
    y->dims[x->rank - 1] = w->dims[1];
    return FLX_OK;
}

flx_code flxi_infer_halves(flxi_infer *f, const flx_type *p, flx_type *y)
{
    flxi_type_text tp;
    flx_dim last = p->rank ? p->dims[p->rank - 1] : 1;
    if (flx_dim_is_static(last) && last % 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "the last axis must have two halves: it is %s",
                               flxi_shape_str(f->ctx, p, &tp));
    *y = *p;
    y->dims[p->rank - 1] = flx_dim_div(f->ctx, last, 2);
    return FLX_OK;
}

/* ---- fused_matmul_bias_act ---- */

typedef struct {
    int64_t act;
} act_attrs;

static const flxi_attr act_schema[] = {A_ACTIVATION(act_attrs, act, FLXI_ACT_none), A_END};

static flx_code infer_matmul_bias_act(flxi_infer *f)
{
    return flxi_infer_linear(f, f->in[0], f->in[1], f->in[2], "w", "b", &f->out[0]);
}

static void decompose_matmul_bias_act(flxi_site *s, flx_val *y)
{
    y[0] = flxi_linear(s->g, s->x[0], s->x[1], s->x[2], ((const act_attrs *)s->attrs)->act);
}

/* Saturated activations have derivatives that cancel, which the tests of precision do not allow: hence the ranges. */
static const flxi_sample samples_matmul_bias_act[] = {
    {"T[3, 4], T[4, 5], T[5]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4]{-0.5..0.5}, T[4, 5]{-0.5..0.5}, T[5]{-0.5..0.5}", "act=tanh", NULL, FLX_OK},
    {"T[3, 2], T[2, 3], T[3]", "act=relu", NULL, FLX_OK},
    {"T[3, 2], T[2, 3], T[3]", "act=gelu_approx", NULL, FLX_OK},
    {"T[N, 4], T[4, M], T[M]", "act=silu", NULL, FLX_OK},
    {"T[0, 4], T[4, 5], T[5]", "act=gelu", NULL, FLX_OK},
    {"T[3, 0]{-0.5..0.5}, T[0, 5]{-0.5..0.5}, T[5]{-0.5..0.5}", "act=sigmoid", NULL, FLX_OK},
    {"T[4], T[4, 5], T[5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[5, 4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[2, 4, 5], T[5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[1, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[5]", "act=sin", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_fused_matmul_bias_act = {
    .infer = infer_matmul_bias_act,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_matmul_bias_act,
    .schema = act_schema,
    .attrs_size = sizeof(act_attrs),
    .samples = samples_matmul_bias_act,
};

/* ---- fused_swiglu ---- */

typedef struct {
    int64_t gate_first;
    int64_t cast_to; /* FLX_DTYPE_NONE: p's own */
} swiglu_attrs;

static const flxi_attr swiglu_schema[] = {
    A_BOOL(swiglu_attrs, gate_first, 0),
    A_DTYPE_OPT(swiglu_attrs, cast_to, "none"),
    A_END,
};

static flx_code infer_swiglu(flxi_infer *f)
{
    const swiglu_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_infer_halves(f, f->in[0], &f->out[0]));
    if (a->cast_to != FLX_DTYPE_NONE)
        f->out[0].dtype = (int32_t)a->cast_to;
    return FLX_OK;
}

static void decompose_swiglu(flxi_site *s, flx_val *y)
{
    const swiglu_attrs *a = s->attrs;
    y[0] = flxi_swiglu(s, s->x[0], a->gate_first);
    if (a->cast_to != FLX_DTYPE_NONE && a->cast_to != flxi_typeof(s, s->x[0])->dtype)
        y[0] = flx_cast(s->g, y[0], (flx_dtype)a->cast_to);
}

static const flxi_sample samples_swiglu[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "gate_first=true", NULL, FLX_OK},
    {"T[2]", NULL, NULL, FLX_OK},
    {"T[2, 3, 6]", "cast_to=bf16", NULL, FLX_OK},
    {"T[3, 2]", "gate_first=true, cast_to=f16", NULL, FLX_OK},
    {"T[N, 4]", NULL, NULL, FLX_OK},
    {"T[2, 2*N]", NULL, NULL, FLX_OK},
    {"T[0, 4]", NULL, NULL, FLX_OK},
    {"T[3, 0]", NULL, NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 5]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_fused_swiglu = {
    .infer = infer_swiglu,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_swiglu,
    .schema = swiglu_schema,
    .attrs_size = sizeof(swiglu_attrs),
    .samples = samples_swiglu,
};

/* ---- fused_matmul_residual ---- */

static flx_code infer_matmul_residual(flxi_infer *f)
{
    flx_type product;
    FLXI_TRY(flxi_infer_linear(f, f->in[0], f->in[1], NULL, "w", NULL, &product));
    f->out[0].dtype = product.dtype;
    return flxi_broadcast(f, (const flx_type *const[]){&product, f->in[2]}, 2, &f->out[0]);
}

static void decompose_matmul_residual(flxi_site *s, flx_val *y)
{
    y[0] = flx_add(s->g, flx_matmul(s->g, s->x[0], s->x[1]), s->x[2]);
}

static const flxi_sample samples_matmul_residual[] = {
    {"T[3, 4], T[4, 2], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 2], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[3, 2], T[2, 2], T[]", NULL, NULL, FLX_OK},
    {"T[1, 2], T[2, 3], T[2, 4, 3]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[4, M], T[N, M]", NULL, NULL, FLX_OK},
    {"T[0, 4], T[4, 2], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[3, 0], T[0, 2], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[4], T[4, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 2], T[3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 2], T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_fused_matmul_residual = {
    .infer = infer_matmul_residual,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_matmul_residual,
    .samples = samples_matmul_residual,
};

/* ---- fused_gated_residual ---- */

static void decompose_gated_residual(flxi_site *s, flx_val *y)
{
    y[0] = flx_add(s->g, s->x[2], flx_mul(s->g, s->x[1], s->x[0]));
}

static const flxi_sample samples_gated_residual[] = {
    {"T[3, 4], T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 2], T[2, 1, 2], T[2, 3, 2]", NULL, NULL, FLX_OK},
    {"T[2], T[], T[3, 2]", NULL, NULL, FLX_OK},
    {"T[N, 2], T[2], T[N, 2]", NULL, NULL, FLX_OK},
    {"T[0, 2], T[1, 2], T[2]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[3], T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_fused_gated_residual = {
    .infer = flxi_infer_pointwise,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_gated_residual,
    .samples = samples_gated_residual,
};
