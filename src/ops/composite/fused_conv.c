/* SPDX-License-Identifier: Apache-2.0 */
/* fused_conv.c: a convolution with the ops that usually follow it: a bias or an affine map of each output feature, and
   an activation. Attributes and layouts are those of conv; features are along output_axes[1]. */
#include "ops/composite/fused.h"
#include "ops/rule/decomposed.h"
#include "ops/signal/conv.h"

typedef struct {
    flxi_conv_attrs conv;
    int64_t act;
} conv_act_attrs;

static const flxi_attr conv_act_schema[] = {
    A_ACTIVATION(conv_act_attrs, act, FLXI_ACT_none),
    FLXI_CONV_ROWS,
    A_END,
};

/* Each operand after the kernel has one element for each output feature. */
static flx_code infer_conv_act(flxi_infer *f)
{
    const conv_act_attrs *a = f->attrs;
    FLXI_TRY(flxi_infer_conv(f));
    flx_dim features = f->out[0].dims[a->conv.output_axes.v[1]];
    for (uint32_t i = 2; i < f->nin; i++) {
        char name[32];
        flxi_type_text tb, tw;
        if (f->in[i]->rank != 1 || !flxi_dims_may_equal(f, f->in[i]->dims[0], features))
            return flxi_infer_fail(f, FLX_E_SHAPE, "pass a vector: it need not have the result's shape",
                                   "%s must have one element for each output feature: it is %s, w is %s",
                                   flxi_operand_name(f, i, name, sizeof name), flxi_shape_str(f->ctx, f->in[i], &tb),
                                   flxi_shape_str(f->ctx, f->in[1], &tw));
    }
    return FLX_OK;
}

static flx_val append_conv(flxi_site *s, const flxi_conv_attrs *a)
{
    flx_conv_attrs c = FLX_CONV_ATTRS;
    c.stride = a->common.stride;
    c.padding = a->common.padding;
    c.dilation = a->common.dilation;
    c.groups = a->common.groups;
    c.input_dilation = a->input_dilation;
    c.batch_groups = a->batch_groups;
    c.reverse = a->reverse;
    c.input_axes = a->input_axes;
    c.kernel_axes = a->kernel_axes;
    c.output_axes = a->output_axes;
    return flx_conv_with(s->g, s->x[0], s->x[1], &c);
}

/* A vector of features in the layout of the result z. */
static flx_val per_feature(flxi_site *s, flx_val v, flx_val z)
{
    const flxi_conv_attrs *a = &((const conv_act_attrs *)s->attrs)->conv;
    int64_t axis = a->output_axes.v[1];
    flx_dim dims[FLX_MAX_RANK];
    for (size_t k = 0; k < a->output_axes.n; k++)
        dims[k] = 1;
    dims[axis] = flxi_typeof(s, z)->dims[axis];
    return flxi_reshape_to(s, v, (int)a->output_axes.n, dims);
}

static void decompose_conv_bias(flxi_site *s, flx_val *y)
{
    const conv_act_attrs *a = s->attrs;
    flx_val z = append_conv(s, &a->conv);
    y[0] = flxi_activate(s->g, a->act, flx_add(s->g, z, per_feature(s, s->x[2], z)));
}

static void decompose_conv_affine(flxi_site *s, flx_val *y)
{
    const conv_act_attrs *a = s->attrs;
    flx_val z = append_conv(s, &a->conv);
    flx_val scaled = flx_mul(s->g, z, per_feature(s, s->x[2], z));
    y[0] = flxi_activate(s->g, a->act, flx_add(s->g, scaled, per_feature(s, s->x[3], z)));
}

/* The same convolutions for both ops; V stands for the operands after them, each with that many features. */
#define CONV_ACT_SAMPLES(V)                                                                                    \
    {"T[2, 3, 5], T[2, 3, 3], " V("2"), NULL, NULL, FLX_OK},                                                   \
        {"T[1, 2, 4, 4]{-0.5..0.5}, T[4, 1, 2, 3]{-0.5..0.5}, " V("4"),                                        \
         "act=tanh, stride=[2, 1], padding=[1, 0], groups=2", NULL, FLX_OK},                                   \
        {"T[2, 4, 3, 2], T[2, 2, 2, 3], " V("3"),                                                              \
         "act=gelu, input_axes=[0, 3, 1, 2], kernel_axes=[3, 2, 0, 1], output_axes=[0, 3, 1, 2], "             \
         "reverse=[true, false]",                                                                              \
         NULL, FLX_OK},                                                                                        \
        {"T[2, 1, 4], T[2, 1, 2], " V("2"), "batch_groups=2, input_dilation=[2], dilation=[2]", NULL, FLX_OK}, \
        {"T[0, 2, 3], T[2, 2, 2], " V("2"), "act=relu", NULL, FLX_OK},                                         \
        {"T[N, 1, 4], T[2, 1, 3], " V("2"), "act=silu, stride=[2], padding=[[1, 0]]", NULL, FLX_OK},           \
        {"T[1, 1, 3], T[3, 1, 2], " V("N"), NULL, NULL, FLX_OK},                                               \
        {"T[2, 3, 5], T[2, 2, 3], " V("2"), NULL, NULL, FLX_E_SHAPE},                                          \
        {"T[2, 3, 5], T[2, 3, 3], " V("3"), NULL, NULL, FLX_E_SHAPE},                                          \
        {"T[2, 3, 5], T[2, 3, 3], " V("2, 1"), NULL, NULL, FLX_E_SHAPE},                                       \
        {"T[2, 3, 5], T[2, 3, 3], " V("2"), "act=sin", NULL, FLX_E_ATTRIBUTE},                                 \
        {"T[2, 3, 5], T[2, 3, 3], " V("2"), "stride=[0]", NULL, FLX_E_ATTRIBUTE},                              \
    {                                                                                                          \
        0                                                                                                      \
    }
#define ONE_VECTOR(n) "T[" n "]{-0.5..0.5}"
#define TWO_VECTORS(n) "T[" n "]{-0.5..0.5}, T[" n "]{-0.5..0.5}"

static const flxi_sample samples_conv_bias[] = {CONV_ACT_SAMPLES(ONE_VECTOR)};
static const flxi_sample samples_conv_affine[] = {CONV_ACT_SAMPLES(TWO_VECTORS)};

#define CONV_ACT_RULES                                                                \
    .infer = infer_conv_act, .eval = flxi_eval_decomposed, .schema = conv_act_schema, \
    .attrs_size = sizeof(conv_act_attrs)

const flxi_rules flxi_rules_fused_conv_bias_act = {
    CONV_ACT_RULES,
    .decompose = decompose_conv_bias,
    .samples = samples_conv_bias,
};

const flxi_rules flxi_rules_fused_conv_affine_act = {
    CONV_ACT_RULES,
    .decompose = decompose_conv_affine,
    .samples = samples_conv_affine,
};
