/* SPDX-License-Identifier: Apache-2.0 */
/* norm_backward.c: the cotangents of normalisations as ops of their own, for backends that compute them in one step.
   Each is a closed form, statistics included, so their derivatives, and with them Hessian products, are exact.

   With h = gamma dy, x̂ = (x - mean) r and the mean M along what is normalised, d_x = r (h - M(h) - x̂ M(h x̂));
   rms_norm, which does not centre, lacks M(h). d_gamma = Σ dy x̂ and d_beta = Σ dy over all axes but that of the
   channels. */
#include "ops/nn/norm.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/decomposed.h"

/* ---- Inference ---- */

static flx_code infer_like_x(flxi_infer *f, flx_code (*check)(flxi_infer *))
{
    FLXI_TRY(check(f));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* One element per channel, in the dtype of operand `like`. */
static flx_code infer_parameter(flxi_infer *f, flx_code (*check)(flxi_infer *), uint32_t like)
{
    FLXI_TRY(check(f));
    const flxi_norm_attrs *a = f->attrs;
    f->out[0] = flx_type_make((flx_dtype)f->in[like]->dtype, 1, &f->in[0]->dims[a->axis]);
    return FLX_OK;
}

#define INFER(name, rule, ...)                  \
    static flx_code infer_##name(flxi_infer *f) \
    {                                           \
        return rule(f, __VA_ARGS__);            \
    }

INFER(axis_input, infer_like_x, flxi_check_axis_norm)
INFER(axis_parameter, infer_parameter, flxi_check_axis_norm, 0)
INFER(rms_gamma, infer_parameter, flxi_check_axis_norm, 1)
INFER(rms_beta, infer_parameter, flxi_check_axis_norm, 2)
INFER(group_input, infer_like_x, flxi_check_group_norm)
INFER(group_parameter, infer_parameter, flxi_check_group_norm, 0)
INFER(channel_input, infer_like_x, flxi_check_channel_norm)
INFER(channel_parameter, infer_parameter, flxi_check_channel_norm, 0)

/* ---- Decompositions ---- */

static flx_val wide_dy(flxi_site *s)
{
    return flxi_widen(s, s->x[s->nin - 1]);
}

static void input_cotangent(flxi_site *s, bool centred, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val x = flxi_widen(s, s->x[0]);
    const flx_type *type = flxi_typeof(s, s->x[0]);
    flxi_normalised n = flxi_normalise(s, flxi_norm_rows(s, x), centred);
    flx_val h = flxi_norm_rows(s, flx_mul(g, wide_dy(s), flxi_norm_parameter(s, s->x[1], type->rank)));
    flx_val along = flxi_norm_mean(s, flx_mul(g, h, n.hat));
    flx_val rest = centred ? flx_sub(g, h, flxi_norm_mean(s, h)) : h;
    flx_val d = flx_mul(g, n.scale, flx_sub(g, rest, flx_mul(g, n.hat, along)));
    y[0] = flxi_as_dtype(s, flxi_norm_unrows(s, d, x), type->dtype);
}

static void decompose_centred_input(flxi_site *s, flx_val *y)
{
    input_cotangent(s, true, y);
}

static void decompose_rms_input(flxi_site *s, flx_val *y)
{
    input_cotangent(s, false, y);
}

static flx_val gamma_cotangent(flxi_site *s, bool centred)
{
    flx_val x = flxi_widen(s, s->x[0]);
    flx_val hat = flxi_norm_unrows(s, flxi_normalise(s, flxi_norm_rows(s, x), centred).hat, x);
    return flxi_norm_sum(s, flx_mul(s->g, wide_dy(s), hat));
}

static void decompose_centred_gamma(flxi_site *s, flx_val *y)
{
    y[0] = flxi_as_dtype(s, gamma_cotangent(s, true), flxi_typeof(s, s->x[0])->dtype);
}

static void decompose_rms_gamma(flxi_site *s, flx_val *y)
{
    y[0] = flxi_as_dtype(s, gamma_cotangent(s, false), flxi_typeof(s, s->x[1])->dtype);
}

static void decompose_beta(flxi_site *s, flx_val *y)
{
    y[0] = flxi_as_dtype(s, flxi_norm_sum(s, wide_dy(s)), flxi_typeof(s, s->x[0])->dtype);
}

static void decompose_rms_beta(flxi_site *s, flx_val *y)
{
    y[0] = flxi_as_dtype(s, flxi_norm_sum(s, wide_dy(s)), flxi_typeof(s, s->x[2])->dtype);
}

static void decompose_batch_norm_input(flxi_site *s, flx_val *y)
{
    const flx_type *type = flxi_typeof(s, s->x[0]);
    flx_val slope = flx_mul(s->g, flxi_widen(s, s->x[1]), flxi_norm_scale(s, s->x[3]));
    flx_val d = flx_mul(s->g, wide_dy(s), flxi_norm_parameter(s, slope, type->rank));
    y[0] = flxi_as_dtype(s, d, type->dtype);
}

static void decompose_batch_norm_gamma(flxi_site *s, flx_val *y)
{
    const flx_type *type = flxi_typeof(s, s->x[0]);
    flx_val centred = flx_sub(s->g, flxi_widen(s, s->x[0]), flxi_norm_parameter(s, s->x[1], type->rank));
    flx_val r = flxi_norm_parameter(s, flxi_norm_scale(s, s->x[2]), type->rank);
    flx_val d = flxi_norm_sum(s, flx_mul(s->g, wide_dy(s), flx_mul(s->g, centred, r)));
    y[0] = flxi_as_dtype(s, d, type->dtype);
}

/* ---- Samples ---- */

static const flxi_sample samples_layer_input[] = {
    {"T[3, 4], T[4], T[3, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[4, 2, 2], T[4], T[4, 2, 2]", "axis=0, eps=0.1", NULL, FLX_OK},
    {"T[5], T[5], T[5]", NULL, NULL, FLX_OK},
    {"T[2, 1], T[1], T[2, 1]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[4], T[N, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 4], T[4], T[0, 4]", NULL, NULL, FLX_OK},
    {"bf16[3, 4], f32[4], bf16[3, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[3, 4], T[3], T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4], T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[4], T[3, 4]", "eps=-1", NULL, FLX_E_ATTRIBUTE},
    {"f32[3, 4], f32[4], f64[3, 4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_layer_gamma[] = {
    {"T[3, 4], T[3, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[2, 4, 2], T[2, 4, 2]", "axis=1, eps=0.1", NULL, FLX_OK},
    {"T[5], T[5]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[N, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 4], T[0, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[3, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 4]", "axis=-3", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_rms[] = {
    {"T[3, 4], T[4], T[4], T[3, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[3, 2, 2], T[3], T[3], T[3, 2, 2]", "axis=0, eps=0.1", NULL, FLX_OK},
    {"T[5], T[5], T[5], T[5]", NULL, NULL, FLX_OK},
    {"T[2, N], T[N], T[N], T[2, N]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 4], T[4], T[4], T[0, 4]", NULL, NULL, FLX_OK},
    {"bf16[3, 4], f32[4], f32[4], bf16[3, 4]", "eps=0.1", NULL, FLX_OK},
    {"T[3, 4], T[3], T[4], T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4], T[4], T[3, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4], T[4], T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_group_input[] = {
    {"T[2, 4, 2], T[4], T[4], T[2, 4, 2]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[2, 3], T[3], T[3], T[2, 3]", "num_groups=1, eps=0.1", NULL, FLX_OK},
    {"T[N, 4, M], T[4], T[4], T[N, 4, M]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[2, 4, 0], T[4], T[4], T[2, 4, 0]", "num_groups=2", NULL, FLX_OK},
    {"f16[2, 4, 2], f32[4], f32[4], f16[2, 4, 2]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[2, 4], T[4], T[4], T[2, 3]", "num_groups=2", NULL, FLX_E_SHAPE},
    {"T[2, 4], T[4], T[4], T[2, 4]", "num_groups=3", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_group_parameter[] = {
    {"T[2, 4, 2], T[2, 4, 2]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[2, 3], T[2, 3]", "num_groups=1, eps=0.1", NULL, FLX_OK},
    {"T[N, 4, M], T[N, 4, M]", "num_groups=2, eps=0.1", NULL, FLX_OK},
    {"T[0, 4, 2], T[0, 4, 2]", "num_groups=2", NULL, FLX_OK},
    {"T[2, 4], T[4, 2]", "num_groups=2", NULL, FLX_E_SHAPE},
    {"T[4], T[4]", "num_groups=2", NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2, 4]", "num_groups=3", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_batch_norm_input[] = {
    {"T[2, 3, 2], T[3], T[3], T[3]{0.5..2}, T[2, 3, 2]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[3], T[3], T[3]{0.5..2}, T[N, 3]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 3], T[3], T[3], T[3]{0.5..2}, T[0, 3]", NULL, NULL, FLX_OK},
    {"bf16[2, 3], f32[3], f32[3], f32[3]{0.5..2}, bf16[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[3], T[2], T[3], T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3], T[3], T[3], T[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3], T[3], T[3], T[3], T[2, 3]", "eps=-1", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_batch_norm_gamma[] = {
    {"T[2, 3, 2], T[3], T[3]{0.5..2}, T[2, 3, 2]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[3], T[3]{0.5..2}, T[N, 3]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 3], T[3], T[3]{0.5..2}, T[0, 3]", NULL, NULL, FLX_OK},
    {"f16[2, 3], f32[3], f16[3]{0.5..2}, f16[2, 3]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[3], T[1], T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"f32[2, 3], f64[3], f32[3], f32[2, 3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_batch_norm_beta[] = {
    {"T[2, 3, 2]", NULL, NULL, FLX_OK}, {"T[N, 3]", "eps=0.1", NULL, FLX_OK},          {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},  {"T[2, 3]", "eps=nan", NULL, FLX_E_ATTRIBUTE}, {0},
};

/* A parameter's cotangent would sum over the examples, so there is no batching rule: the op is decomposed. */
#define BACKWARD_RULES(name, inference, described, expansion, batching, list)    \
    const flxi_rules flxi_rules_##name = {.infer = infer_##inference,            \
                                          .eval = flxi_eval_decomposed,          \
                                          .decompose = decompose_##expansion,    \
                                          .batch = batching,                     \
                                          .schema = described,                   \
                                          .attrs_size = sizeof(flxi_norm_attrs), \
                                          .samples = list};

BACKWARD_RULES(layer_norm_backward_input, axis_input, flxi_norm_axis_schema, centred_input, flxi_batch_axis_norm,
               samples_layer_input)
BACKWARD_RULES(layer_norm_backward_gamma, axis_parameter, flxi_norm_axis_schema, centred_gamma, NULL,
               samples_layer_gamma)
BACKWARD_RULES(rms_norm_backward_input, axis_input, flxi_norm_axis_schema, rms_input, flxi_batch_axis_norm, samples_rms)
BACKWARD_RULES(rms_norm_backward_gamma, rms_gamma, flxi_norm_axis_schema, rms_gamma, NULL, samples_rms)
BACKWARD_RULES(rms_norm_backward_beta, rms_beta, flxi_norm_axis_schema, rms_beta, NULL, samples_rms)
BACKWARD_RULES(group_norm_backward_input, group_input, flxi_norm_groups_schema, centred_input, flxi_batch_folded,
               samples_group_input)
BACKWARD_RULES(group_norm_backward_gamma, group_parameter, flxi_norm_groups_schema, centred_gamma, NULL,
               samples_group_parameter)
BACKWARD_RULES(group_norm_backward_beta, group_parameter, flxi_norm_groups_schema, beta, NULL, samples_group_parameter)
BACKWARD_RULES(batch_norm_inference_backward_input, channel_input, flxi_norm_eps_schema, batch_norm_input,
               flxi_batch_folded, samples_batch_norm_input)
BACKWARD_RULES(batch_norm_inference_backward_gamma, channel_parameter, flxi_norm_eps_schema, batch_norm_gamma, NULL,
               samples_batch_norm_gamma)
BACKWARD_RULES(batch_norm_inference_backward_beta, channel_parameter, flxi_norm_eps_schema, beta, NULL,
               samples_batch_norm_beta)
