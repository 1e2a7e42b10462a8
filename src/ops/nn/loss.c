/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: losses of classifiers, and their cotangents as ops of their own. */
#include "ops/nn/norm.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/oob.h"

typedef struct {
    int64_t oob;
} label_attrs;

static const flxi_attr label_schema[] = {A_WORD(label_attrs, oob, FLXI_OOB_WORDS), A_END};

/* ---- Inference ---- */

static flx_code check_per_row(flxi_infer *f, uint32_t i)
{
    char name[32];
    flxi_type_text t, tx;
    if (f->in[i]->rank == 1 && flxi_dims_may_equal(f, f->in[i]->dims[0], f->in[0]->dims[0]))
        return FLX_OK;
    bool hot = i == 1 && f->in[i]->rank == 2;
    return flxi_infer_fail(f, FLX_E_SHAPE,
                           hot ? "labels are class numbers, not rows of ones and zeros: argmax(labels)" : NULL,
                           "%s must have one element for each row of logits: %s is %s, logits is %s",
                           flxi_operand_name(f, i, name, sizeof name), name, flxi_shape_str(f->ctx, f->in[i], &t),
                           flxi_shape_str(f->ctx, f->in[0], &tx));
}

static flx_code check_rows(flxi_infer *f)
{
    const flx_type *x = f->in[0];
    flxi_type_text tx;
    if (x->rank != 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "reshape it to one row per label", "logits must be [N, C], but it is %s",
                               flxi_shape_str(f->ctx, x, &tx));
    if (x->dims[1] == 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "logits must have at least one class, but it is %s",
                               flxi_shape_str(f->ctx, x, &tx));
    for (uint32_t i = 1; i < f->nin; i++)
        FLXI_TRY(check_per_row(f, i));
    return FLX_OK;
}

static flx_code infer_loss(flxi_infer *f)
{
    FLXI_TRY(check_rows(f));
    f->out[0] = flx_type_make((flx_dtype)f->in[0]->dtype, 1, f->in[0]->dims);
    return FLX_OK;
}

static flx_code infer_loss_backward(flxi_infer *f)
{
    FLXI_TRY(check_rows(f));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* ---- Decompositions ---- */

/* 0 - log p of the label; an ignored label reads 0. */
static void decompose_loss(flxi_site *s, flx_val *y)
{
    const label_attrs *a = s->attrs;
    flx_graph *g = s->g;
    const flx_type *logits = flxi_typeof(s, s->x[0]);
    flx_val log_p = flx_log_softmax(g, flxi_widen(s, s->x[0]), 1);
    flx_val label = flx_unsqueeze(g, s->x[1], FLX_INTS(1));
    flx_val chosen = flxi_reshape_to(s, flx_take_along(g, log_p, label, 1, flxi_oob_word(a->oob)), 1, logits->dims);
    y[0] = flxi_as_dtype(s, flx_sub(g, flxi_number(s, chosen, 0.0), chosen), logits->dtype);
}

/* (p - onehot) dl. Rows of ignored labels are 0 whatever they contain: masked before the product for the sake of the
   derivative, and after it for the sake of the value. */
static void decompose_loss_backward(flxi_site *s, flx_val *y)
{
    const label_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val x = flxi_widen(s, s->x[0]);
    const flx_type type = *flxi_typeof(s, x);
    flx_val hot = flx_one_hot(g, s->x[1], type.dims[1], 1, (flx_dtype)type.dtype, flxi_oob_word(a->oob));
    flx_val dl = flx_unsqueeze(g, flxi_widen(s, s->x[2]), FLX_INTS(1));
    flx_val counts = FLX_NONE;
    if (a->oob == OOB_ZERO) {
        counts = flx_gt(g, flxi_sum_axes(s, hot, FLX_INTS(1), true), flxi_number(s, hot, 0.0));
        dl = flxi_masked(s, counts, dl);
    }
    flx_val d = flx_mul(g, flx_sub(g, flx_softmax(g, x, 1), hot), dl);
    if (a->oob == OOB_ZERO)
        d = flxi_masked(s, counts, d);
    y[0] = flxi_as_dtype(s, d, flxi_typeof(s, s->x[0])->dtype);
}

static void backward_vjp_loss(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const label_attrs *a = s->attrs;
    if (s->wanted[0])
        dx[0] = flx_softmax_cross_entropy_backward(s->g, s->x[0], s->x[1], dy[0], flxi_oob_word(a->oob));
}

/* ---- Samples ---- */

static const flxi_sample samples_loss[] = {
    {"T[3, 4], i32[3]{0..3}", NULL, NULL, FLX_OK},
    {"T[2, 3], i64[2]{0..2}", NULL, NULL, FLX_OK},
    {"T[5, 3], i16[5]{-2..4}", "oob=zero", NULL, FLX_OK},
    {"T[4, 3], i32[4]{-2..5}", "oob=clamp", NULL, FLX_OK},
    {"T[2, 1], u8[2]{0..0}", NULL, NULL, FLX_OK},
    {"T[N, 4], i32[N]{0..3}", NULL, NULL, FLX_OK},
    {"T[0, 4], i32[0]", NULL, NULL, FLX_OK},
    {"T[3, 0], i32[3]", "oob=zero", NULL, FLX_E_SHAPE},
    {"T[4], i32[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], i32[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], bool[3]", NULL, NULL, FLX_E_DTYPE},
    {"T[3, 4], i32[3]", "oob=wrap", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_loss_backward[] = {
    {"T[3, 4], i32[3]{0..3}, T[3]", NULL, NULL, FLX_OK},
    {"T[5, 3], i16[5]{-2..4}, T[5]", "oob=zero", NULL, FLX_OK},
    {"T[4, 3], i32[4]{-2..5}, T[4]", "oob=clamp", NULL, FLX_OK},
    {"T[N, 4], i32[N]{0..3}, T[N]", NULL, NULL, FLX_OK},
    {"T[0, 4], i32[0], T[0]", NULL, NULL, FLX_OK},
    {"T[3, 4], i32[3], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 0], i32[3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"f32[3, 4], i32[3], f64[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_softmax_cross_entropy_with_logits = {
    .infer = infer_loss,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_loss,
    .backward_vjp = backward_vjp_loss,
    .batch = flxi_batch_folded,
    .schema = label_schema,
    .attrs_size = sizeof(label_attrs),
    .samples = samples_loss,
};

const flxi_rules flxi_rules_softmax_cross_entropy_backward = {
    .infer = infer_loss_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_loss_backward,
    .batch = flxi_batch_folded,
    .schema = label_schema,
    .attrs_size = sizeof(label_attrs),
    .samples = samples_loss_backward,
};
