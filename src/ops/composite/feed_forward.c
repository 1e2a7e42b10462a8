/* SPDX-License-Identifier: Apache-2.0 */
/* feed_forward.c: layers as composites, which have two lowerings. `decompose` is the meaning, in primitive ops or
   smaller composites; `to_composites`, where it differs, is the same in terms of composites of MIR. Nothing else is
   needed: a composite is evaluated, differentiated and batched through its decomposition. */
#include "ops/composite/fused.h"
#include "ops/rule/decomposed.h"

#include <stdio.h>

/* ---- linear, fused_linear ---- */

typedef struct {
    int64_t act;
} act_attrs;

static const flxi_attr act_schema[] = {A_ACTIVATION(act_attrs, act, FLXI_ACT_none), A_END};

static flx_code infer_linear(flxi_infer *f)
{
    return flxi_infer_linear(f, f->in[0], f->in[1], f->nin > 2 ? f->in[2] : NULL, "w", "b", &f->out[0]);
}

static void decompose_linear(flxi_site *s, flx_val *y)
{
    y[0] = flxi_linear(s->g, s->x[0], s->x[1], s->nin > 2 ? s->x[2] : FLX_NONE, ((const act_attrs *)s->attrs)->act);
}

static const char *act_name(const flxi_site *s)
{
    return flxi_activation_name(((const act_attrs *)s->attrs)->act);
}

/* Without a bias there is no such composite, and a product followed by an activation is as good. */
static void compose_linear(flxi_site *s, flx_val *y)
{
    if (s->nin > 2)
        y[0] = flx_fused_matmul_bias_act(s->g, s->x[0], s->x[1], s->x[2], act_name(s));
    else
        decompose_linear(s, y);
}

/* Saturated activations have derivatives that cancel, which the tests of precision do not allow: hence the ranges. */
static const flxi_sample samples_linear[] = {
    {"T[3, 4], T[4, 5]", NULL, NULL, FLX_OK},
    {"T[3, 4]{-0.5..0.5}, T[4, 5]{-0.5..0.5}", "act=tanh", NULL, FLX_OK},
    {"T[3, 4], T[4, 5], T[5]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 5], T[5]", "act=gelu", NULL, FLX_OK},
    {"T[N, 4], T[4, 2], T[2]", "act=relu", NULL, FLX_OK},
    {"T[0, 4], T[4, 5], T[5]", NULL, NULL, FLX_OK},
    {"T[4], T[4, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[5, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5, 1]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_linear = {
    .infer = infer_linear,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_linear,
    .to_composites = compose_linear,
    .schema = act_schema,
    .attrs_size = sizeof(act_attrs),
    .samples = samples_linear,
};

/* Its meaning is the composite of MIR, so that only a policy without any composites decomposes it. */
const flxi_rules flxi_rules_fused_linear = {
    .infer = infer_linear,
    .eval = flxi_eval_decomposed,
    .decompose = compose_linear,
    .schema = act_schema,
    .attrs_size = sizeof(act_attrs),
    .samples = samples_linear,
};

/* ---- linear_pair ---- */

typedef struct {
    int64_t act1, act2;
} pair_attrs;

static const flxi_attr pair_schema[] = {
    A_ACTIVATION(pair_attrs, act1, FLXI_ACT_none),
    A_ACTIVATION(pair_attrs, act2, FLXI_ACT_none),
    A_END,
};

static flx_code infer_pair(flxi_infer *f)
{
    if (f->nin == 4)
        return flxi_infer_fail(f, FLX_E_ARITY, "give both or none", "b1 is given without b2");
    bool biased = f->nin > 3;
    FLXI_TRY(flxi_infer_linear(f, f->in[0], f->in[1], biased ? f->in[3] : NULL, "w1", "b1", &f->out[0]));
    return flxi_infer_linear(f, f->in[0], f->in[2], biased ? f->in[4] : NULL, "w2", "b2", &f->out[1]);
}

static void decompose_pair(flxi_site *s, flx_val *y)
{
    const pair_attrs *a = s->attrs;
    bool biased = s->nin > 3;
    y[0] = flx_linear(s->g, s->x[0], s->x[1], biased ? s->x[3] : FLX_NONE, flxi_activation_name(a->act1));
    y[1] = flx_linear(s->g, s->x[0], s->x[2], biased ? s->x[4] : FLX_NONE, flxi_activation_name(a->act2));
}

static const flxi_sample samples_pair[] = {
    {"T[3, 4], T[4, 5], T[4, 2]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[4, 5], T[4, 2]", "act1=silu", NULL, FLX_OK},
    {"T[2, 3, 4]{-0.5..0.5}, T[4, 5]{-0.5..0.5}, T[4, 2]{-0.5..0.5}, T[5]{-0.5..0.5}, T[2]{-0.5..0.5}",
     "act1=tanh, act2=sigmoid", NULL, FLX_OK},
    {"T[N, 4], T[4, 5], T[4, 5], T[5], T[5]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[4, 5], T[4, 2], T[5]", NULL, NULL, FLX_E_ARITY},
    {"T[3, 4], T[4, 5], T[3, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[5, 4], T[4, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[4, 2], T[5], T[5]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_linear_pair = {
    .infer = infer_pair,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_pair,
    .schema = pair_schema,
    .attrs_size = sizeof(pair_attrs),
    .samples = samples_pair,
};

/* ---- gated_ffn ---- */

static const flxi_attr gated_schema[] = {A_ACTIVATION(act_attrs, act, FLXI_ACT_silu), A_END};

static flx_code infer_gated(flxi_infer *f)
{
    flx_type gate, up;
    flxi_type_text tg, tu;
    FLXI_TRY(flxi_infer_linear(f, f->in[0], f->in[1], NULL, "w_gate", "", &gate));
    FLXI_TRY(flxi_infer_linear(f, f->in[0], f->in[2], NULL, "w_up", "", &up));
    if (!flxi_dims_may_equal(f, gate.dims[gate.rank - 1], up.dims[up.rank - 1]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "w_gate and w_up must have the same number of columns: %s and %s",
                               flxi_shape_str(f->ctx, f->in[1], &tg), flxi_shape_str(f->ctx, f->in[2], &tu));
    return flxi_infer_linear(f, &up, f->in[3], NULL, "w_down", "", &f->out[0]);
}

static void decompose_gated(flxi_site *s, flx_val *y)
{
    flx_val gate = flxi_linear(s->g, s->x[0], s->x[1], FLX_NONE, ((const act_attrs *)s->attrs)->act);
    y[0] = flx_matmul(s->g, flx_mul(s->g, gate, flx_matmul(s->g, s->x[0], s->x[2])), s->x[3]);
}

static const flxi_sample samples_gated[] = {
    {"T[3, 4], T[4, 5], T[4, 5], T[5, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 5], T[4, 5], T[5, 2]", "act=gelu", NULL, FLX_OK},
    {"T[N, 4], T[4, 2], T[4, 2], T[2, 4]", "act=relu", NULL, FLX_OK},
    {"T[3, 2], T[2, 2], T[2, 2], T[2, 2]", "act=none", NULL, FLX_OK},
    {"T[3, 4], T[4, 5], T[4, 6], T[5, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[4, 5], T[4, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[4], T[4, 5], T[4, 5], T[5, 4]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_gated_ffn = {
    .infer = infer_gated,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_gated,
    .schema = gated_schema,
    .attrs_size = sizeof(act_attrs),
    .samples = samples_gated,
};

/* ---- swiglu_ffn ---- */

typedef struct {
    int64_t gate_first;
} halves_attrs;

static const flxi_attr halves_schema[] = {A_BOOL(halves_attrs, gate_first, 0), A_END};

static flx_code infer_swiglu_ffn(flxi_infer *f)
{
    flx_type p, h;
    FLXI_TRY(flxi_infer_linear(f, f->in[0], f->in[1], NULL, "w_in", "", &p));
    FLXI_TRY(flxi_infer_halves(f, &p, &h));
    return flxi_infer_linear(f, &h, f->in[2], NULL, "w_out", "", &f->out[0]);
}

static void decompose_swiglu_ffn(flxi_site *s, flx_val *y)
{
    flx_val p = flx_matmul(s->g, s->x[0], s->x[1]);
    y[0] = flx_matmul(s->g, flxi_swiglu(s, p, ((const halves_attrs *)s->attrs)->gate_first), s->x[2]);
}

static void compose_swiglu_ffn(flxi_site *s, flx_val *y)
{
    flx_val p = flx_matmul(s->g, s->x[0], s->x[1]);
    int gate_first = ((const halves_attrs *)s->attrs)->gate_first != 0;
    y[0] = flx_matmul(s->g, flx_fused_swiglu(s->g, p, gate_first, FLX_DTYPE_NONE), s->x[2]);
}

static const flxi_sample samples_swiglu_ffn[] = {
    {"T[3, 4], T[4, 6], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 2], T[1, 5]", "gate_first=true", NULL, FLX_OK},
    {"T[N, 4], T[4, 6], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[4, 2*M], T[M, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[4, 5], T[2, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 6], T[6, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 6], T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_swiglu_ffn = {
    .infer = infer_swiglu_ffn,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_swiglu_ffn,
    .to_composites = compose_swiglu_ffn,
    .schema = halves_schema,
    .attrs_size = sizeof(halves_attrs),
    .samples = samples_swiglu_ffn,
};

/* ---- mlp ---- */

typedef struct {
    int64_t act, out_act, bias;
} mlp_attrs;

static const flxi_attr mlp_schema[] = {
    A_ACTIVATION(mlp_attrs, act, FLXI_ACT_relu),
    A_ACTIVATION(mlp_attrs, out_act, FLXI_ACT_none),
    A_BOOL(mlp_attrs, bias, 1),
    A_END,
};

static flx_code infer_mlp(flxi_infer *f)
{
    bool bias = ((const mlp_attrs *)f->attrs)->bias;
    uint32_t step = bias ? 2 : 1; /* operands of a layer */
    char w[24], b[24];
    if (f->nin < 1 + step || (f->nin - 1) % step)
        return flxi_infer_fail(f, FLX_E_ARITY, bias ? "with bias=false there are only weights" : NULL,
                               "each layer needs its weights%s; there are %u operands after x",
                               bias ? " and its bias" : "", f->nin - 1);
    flx_type x = *f->in[0];
    for (uint32_t i = 1; i < f->nin; i += step) {
        flx_type y;
        snprintf(w, sizeof w, "w%u", i / step + (bias ? 1 : 0));
        snprintf(b, sizeof b, "b%u", i / step + 1);
        FLXI_TRY(flxi_infer_linear(f, &x, f->in[i], bias ? f->in[i + 1] : NULL, w, b, &y));
        x = y;
    }
    f->out[0] = x;
    return FLX_OK;
}

static void decompose_mlp(flxi_site *s, flx_val *y)
{
    const mlp_attrs *a = s->attrs;
    uint32_t step = a->bias ? 2 : 1;
    y[0] = s->x[0];
    for (uint32_t i = 1; i < s->nin; i += step) {
        bool is_last = i + step >= s->nin;
        y[0] = flx_linear(s->g, y[0], s->x[i], a->bias ? s->x[i + 1] : FLX_NONE,
                          flxi_activation_name(is_last ? a->out_act : a->act));
    }
}

static const flxi_sample samples_mlp[] = {
    {"T[3, 4], T[4, 5], T[5]", NULL, NULL, FLX_OK},
    {"T[3, 4]{-0.5..0.5}, T[4, 5]{-0.5..0.5}, T[5]{-0.5..0.5}, T[5, 2]{-0.5..0.5}, T[2]{-0.5..0.5}", "act=tanh", NULL,
     FLX_OK},
    {"T[3, 4]{-0.5..0.5}, T[4, 5]{-0.5..0.5}, T[5, 3]{-0.5..0.5}, T[3, 2]{-0.5..0.5}",
     "bias=false, act=silu, out_act=sigmoid", NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 4], T[4], T[4, 4], T[4], T[4, 1], T[1]", "act=softplus", NULL, FLX_OK},
    {"T[N, 4], T[4, H], T[H], T[H, 2], T[2]", "act=selu", NULL, FLX_OK},
    {"T[3, 4], T[4, 5]", NULL, NULL, FLX_E_ARITY},
    {"T[3, 4]", "bias=false", NULL, FLX_E_ARITY},
    {"T[3, 4], T[4, 5], T[5], T[4, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[4], T[5, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 5], T[5]", "bias=false", NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_mlp = {
    .infer = infer_mlp,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_mlp,
    .schema = mlp_schema,
    .attrs_size = sizeof(mlp_attrs),
    .samples = samples_mlp,
};
