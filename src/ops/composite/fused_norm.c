/* SPDX-License-Identifier: Apache-2.0 */
/* fused_norm.c: normalisations with the ops that usually surround them: a residual that is added first, or a scale and
   a shift that come from the data. All of them run along the last axis. */
#include "ops/composite/fused.h"
#include "ops/nn/norm.h"
#include "ops/rule/decomposed.h"

/* One vector along the last axis of x. */
static flx_code need_vector(flxi_infer *f, uint32_t i, const flx_type *x)
{
    char name[32];
    flxi_type_text tv, tx;
    if (f->in[i]->rank == 1 && flxi_dims_may_equal(f, f->in[i]->dims[0], x->dims[x->rank - 1]))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                           "%s must be a vector as long as the last axis of the normalised value: it is %s, that is %s",
                           flxi_operand_name(f, i, name, sizeof name), flxi_shape_str(f->ctx, f->in[i], &tv),
                           flxi_shape_str(f->ctx, x, &tx));
}

static flx_code need_last_axis(flxi_infer *f, const flx_type *x)
{
    if (x->rank > 0)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "there is no axis to normalise along: the operands are scalars");
}

/* ---- fused_residual_ln, fused_residual_rms_norm ---- */

typedef struct {
    int64_t has_bias;
    double eps;
} residual_attrs;

static const flxi_attr residual_schema[] = {
    A_BOOL(residual_attrs, has_bias, 0),
    A_REAL(residual_attrs, eps, 1e-5),
    A_END,
};

/* x, res and, where there is one, the bias broadcast; gamma and beta are vectors. */
static flx_code infer_residual_norm(flxi_infer *f)
{
    const residual_attrs *a = f->attrs;
    uint32_t summed = a->has_bias ? 3 : 2;
    flx_type *y = &f->out[0];
    FLXI_TRY(flxi_check_eps(f, "eps", a->eps));
    if (f->nin != summed + 2)
        return flxi_infer_fail(
            f, FLX_E_ARITY, a->has_bias ? "operands: x, res, bias, gamma, beta" : "has_bias=true adds a bias after res",
            "with has_bias=%s, expected %u operands, got %u", a->has_bias ? "true" : "false", summed + 2, f->nin);
    y->dtype = f->in[0]->dtype;
    FLXI_TRY(flxi_broadcast(f, f->in, summed, y));
    FLXI_TRY(need_last_axis(f, y));
    FLXI_TRY(need_vector(f, summed, y));
    return need_vector(f, summed + 1, y);
}

static void decompose_residual_norm(flxi_site *s, const char *norm, flx_val *y)
{
    const residual_attrs *a = s->attrs;
    flx_attr attrs[] = {flx_attr_int("axis", -1), flx_attr_real("eps", a->eps)};
    flx_val x = flx_add(s->g, s->x[0], s->x[1]);
    if (a->has_bias)
        x = flx_add(s->g, x, s->x[2]);
    y[0] = flx_op1(s->g, norm, (flx_val[]){x, s->x[s->nin - 2], s->x[s->nin - 1]}, 3, attrs, 2);
}

static void decompose_residual_ln(flxi_site *s, flx_val *y)
{
    decompose_residual_norm(s, "layer_norm", y);
}

static void decompose_residual_rms(flxi_site *s, flx_val *y)
{
    decompose_residual_norm(s, "rms_norm", y);
}

static const flxi_sample samples_residual[] = {
    {"T[2, 4], T[2, 4], T[4], T[4]", NULL, NULL, FLX_OK},
    {"T[2, 3], T[2, 3], T[3], T[3], T[3]", "has_bias=true, eps=0.01", NULL, FLX_OK},
    {"T[2, 3], T[2, 3], T[3], T[3]", "eps=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3], T[2, 3], T[3], T[3]", "eps=inf", NULL, FLX_E_ATTRIBUTE},
    {"T[3], T[3], T[3], T[3]", NULL, NULL, FLX_OK},
    {"T[2, 2, 3], T[2, 1, 3], T[3], T[3]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[0, 3], T[3], T[3]", NULL, NULL, FLX_OK},
    {"T[2, N], T[2, N], T[N], T[N]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[N, 3], T[3], T[3], T[3]", "has_bias=true", NULL, FLX_OK},
    {"T[2, 4], T[2, 4], T[4], T[4], T[4]", NULL, NULL, FLX_E_ARITY},
    {"T[2, 4], T[2, 4], T[4], T[4]", "has_bias=true", NULL, FLX_E_ARITY},
    {"T[2, 4], T[3, 4], T[4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2, 4], T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2, 4], T[4], T[1, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[], T[], T[1], T[1]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

#define RESIDUAL_RULES                                                                     \
    .infer = infer_residual_norm, .eval = flxi_eval_decomposed, .schema = residual_schema, \
    .attrs_size = sizeof(residual_attrs), .samples = samples_residual

const flxi_rules flxi_rules_fused_residual_ln = {RESIDUAL_RULES, .decompose = decompose_residual_ln};

const flxi_rules flxi_rules_fused_residual_rms_norm = {RESIDUAL_RULES, .decompose = decompose_residual_rms};

/* ---- fused_ada_layer_norm ---- */

typedef struct {
    double eps;
} ada_attrs;

static const flxi_attr ada_schema[] = {A_REAL(ada_attrs, eps, 1e-5), A_END};

static flx_code infer_ada(flxi_infer *f)
{
    FLXI_TRY(flxi_check_eps(f, "eps", ((const ada_attrs *)f->attrs)->eps));
    FLXI_TRY(need_last_axis(f, f->in[0]));
    return flxi_infer_pointwise(f);
}

static void decompose_ada(flxi_site *s, flx_val *y)
{
    const ada_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_type line = {.dtype = x->dtype, .rank = 1, .dims = {x->rank > 0 ? x->dims[x->rank - 1] : 1}};
    flx_attr attrs[] = {flx_attr_int("axis", -1), flx_attr_real("eps", a->eps)};
    flx_val operands[] = {s->x[0], flxi_full(s, &line, 1.0), flxi_zeros(s, &line)};
    flx_val z = flx_op1(s->g, "layer_norm", operands, 3, attrs, 2);
    flx_val scale = flx_add(s->g, s->x[1], flxi_number(s, s->x[1], 1.0));
    y[0] = flx_add(s->g, flx_mul(s->g, z, scale), s->x[2]);
}

static const flxi_sample samples_ada[] = {
    {"T[2, 4], T[4], T[4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 3], T[2, 1, 3], T[2, 1, 3]", "eps=0.01", NULL, FLX_OK},
    {"T[3], T[], T[2, 3]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[3], T[3]", NULL, NULL, FLX_OK},
    {"T[2, N], T[N], T[2, N]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[3], T[3]", NULL, NULL, FLX_OK},
    {"T[], T[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[4], T[4]", "eps=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4], T[4], T[4]", "eps=nan", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4], T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_fused_ada_layer_norm = {
    .infer = infer_ada,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_ada,
    .schema = ada_schema,
    .attrs_size = sizeof(ada_attrs),
    .samples = samples_ada,
};
