/* SPDX-License-Identifier: Apache-2.0 */
/* learned_step.c: rounding to multiples of a step s that is itself trained (learned step size quantisation).

   With z = x / s and Q = 2^(bits - 1) - 1: y = clamp(round(z), -Q, Q) s. Derivatives hold the rounding constant: in
   range y moves with x as if nothing were rounded, and with s by psi(z) = round(z) - z; out of range it is ±Q s, so
   psi = ±Q. These are not the derivatives of one function, so their own derivatives are not symmetric; each follows its
   formula here. A step below 1e-12 is replaced by 1e-12 and gets no derivative. */
#include "ops/opcode.h"
#include "ops/quant/channel.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

typedef struct {
    int64_t bits, axis;
    double grad_scale;
} step_attrs;

static const flxi_attr step_schema[] = {
    A_INT(step_attrs, bits, 8),
    A_INT_OPT(step_attrs, axis, "none"),
    A_REAL(step_attrs, grad_scale, 1.0),
    A_END,
};

static const double least_step = 1e-12;

/* ---- Inference ---- */

static flx_code infer_step(flxi_infer *f)
{
    step_attrs *a = f->attrs;
    flx_dim count;
    if (a->bits < 2 || a->bits > 8)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "bits must be within 2 ... 8: it is %lld", (long long)a->bits);
    if (!isfinite(a->grad_scale))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "grad_scale must be finite: it is %g", a->grad_scale);
    FLXI_TRY(flxi_norm_channels(f, &a->axis, f->in[0], &count));
    FLXI_TRY(flxi_need_per_channel(f, 1, a->axis, count, true));
    if (flxi_type_count(f->ctx, f->in[1]) == 1)
        a->axis = FLXI_ABSENT; /* one step for all channels */
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_code infer_backward_x(flxi_infer *f)
{
    FLXI_TRY(infer_step(f));
    return flxi_merge_shape(f, 2, -1, &f->out[0]);
}

static flx_code infer_backward_scale(flxi_infer *f)
{
    FLXI_TRY(infer_backward_x(f));
    f->out[0] = *f->in[1];
    return FLX_OK;
}

/* ---- The formulas ---- */

typedef struct { /* all wide */
    flx_val x;
    flx_val s;      /* broadcasting over x, at least 1e-12 */
    flx_val learns; /* where the step is not held at 1e-12 */
    flx_val z;
    flx_val inside; /* |z| <= Q */
    flx_val most;   /* Q */
} step;

static step step_of(flxi_site *s)
{
    const step_attrs *a = s->attrs;
    flx_graph *g = s->g;
    step p = {.x = flxi_wide(s, s->x[0])};
    flx_val given = flxi_channel_view(s, flxi_wide(s, s->x[1]), a->axis, flxi_typeof(s, p.x));
    flx_val least = flxi_number(s, given, least_step);
    flx_val small = flx_lt(g, given, least);
    p.learns = flx_not(g, small);
    p.s = flx_where(g, small, least, given);
    p.most = flxi_number(s, p.x, (double)((1 << (a->bits - 1)) - 1));
    p.z = flx_div(g, p.x, p.s);
    p.inside = flx_le(g, flx_abs(g, p.z), p.most);
    return p;
}

/* grad_scale psi(z), 0 where s gets no derivative. */
static flx_val slope(flxi_site *s, const step *p)
{
    flx_graph *g = s->g;
    flx_val psi =
        flx_where(g, p->inside, flx_sub(g, flx_round(g, p->z, NULL), p->z), flx_mul(g, flx_sign(g, p->z), p->most));
    psi = flx_mul(g, psi, flxi_number(s, psi, ((const step_attrs *)s->attrs)->grad_scale));
    return flxi_masked(s, p->learns, psi);
}

static flx_val cotangent_of_each(flxi_site *s, const step *p, flx_val dy)
{
    return flx_mul(s->g, flxi_wide(s, dy), slope(s, p));
}

static flx_val cotangent_of_step(flxi_site *s, const step *p, flx_val each)
{
    const flx_type *type = flxi_typeof(s, s->x[1]);
    flx_val sum = flxi_unbroadcast(s, each, flxi_typeof(s, p->s));
    return flxi_as(s, flxi_reshape_to(s, sum, type->rank, type->dims), s->x[1]);
}

static void decompose_step(flxi_site *s, flx_val *y)
{
    step p = step_of(s);
    flx_val code = flx_clamp(s->g, flx_neg(s->g, p.most), flx_round(s->g, p.z, NULL), p.most);
    y[0] = flxi_as(s, flx_mul(s->g, code, p.s), s->x[0]);
}

static void decompose_backward_x(flxi_site *s, flx_val *y)
{
    step p = step_of(s);
    y[0] = flxi_masked(s, p.inside, s->x[2]);
}

static void decompose_backward_scale(flxi_site *s, flx_val *y)
{
    step p = step_of(s);
    y[0] = cotangent_of_step(s, &p, cotangent_of_each(s, &p, s->x[2]));
}

static void vjp_step(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    step p = step_of(s);
    if (s->wanted[0])
        dx[0] = flxi_masked(s, p.inside, dy[0]);
    if (s->wanted[1])
        dx[1] = cotangent_of_step(s, &p, s->bodies->restore_zeros(s, cotangent_of_each(s, &p, dy[0])));
}

static void jvp_step(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    step p = step_of(s);
    flx_val by_x = flxi_is_none(tx[0]) ? FLX_NONE : flxi_masked(s, p.inside, flxi_wide(s, tx[0]));
    flx_val by_s = FLX_NONE;
    if (!flxi_is_none(tx[1])) {
        flx_val t =
            flxi_channel_view(s, flxi_wide(s, tx[1]), ((const step_attrs *)s->attrs)->axis, flxi_typeof(s, p.x));
        by_s = flx_mul(s->g, slope(s, &p), t);
    }
    ty[0] = flxi_as(s, flxi_sum(s, by_x, by_s), s->x[0]);
}

static void backward_vjp_step(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    static const flxi_opcode ops[] = {OP_fake_quantize_lsq_backward_x, OP_fake_quantize_lsq_backward_scale};
    flx_val in[3] = {s->x[0], s->x[1], dy[0]};
    for (uint32_t k = 0; k < 2; k++) {
        flxi_site backward = *s;
        backward.op = &flxi_ops[ops[k]];
        if (s->wanted[k])
            dx[k] = flxi_emit1(&backward, NULL, in, 3);
    }
}

/* ---- Batching ---- */

/* A step that all examples share: the same op on all of them, with the axis of channels one later. */
static void batch_shared(flxi_site *s, flx_val *by)
{
    step_attrs *a = flxi_site_attrs(s);
    flx_val x[3];
    if (!a)
        return;
    if (a->axis != FLXI_ABSENT)
        a->axis++;
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = k == 1 ? s->x[1] : flxi_lift(s, k);
    flxi_append(s, a, x, s->nin, by);
}

/* A step for each channel of each example. */
static flx_val folded(flxi_site *s, flx_type *batch)
{
    step_attrs *a = flxi_site_attrs(s);
    flx_val x[3];
    if (!a)
        return FLX_NONE;
    flx_dim count = flxi_example_channels(s, a->axis);
    *batch = *flxi_typeof(s, flxi_lift(s, 0));
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = k == 1 ? flxi_fold_scales(s, 1, count) : flxi_fold_channels(s, flxi_lift(s, k), a->axis);
    a->axis = 0;
    return flxi_emit1(s, a, x, s->nin);
}

static void batch_step(flxi_site *s, flx_val *by)
{
    flx_type batch;
    if (!s->batched[1]) {
        batch_shared(s, by);
        return;
    }
    flx_val y = folded(s, &batch);
    by[0] = flxi_unfold_channels(s, y, ((const step_attrs *)s->attrs)->axis, &batch);
}

/* The sum is per example even where the step is shared. */
static void batch_backward_scale(flxi_site *s, flx_val *by)
{
    flx_type batch;
    flx_val y = folded(s, &batch);
    flx_dim dims[2] = {s->size, flxi_example_channels(s, ((const step_attrs *)s->attrs)->axis)};
    by[0] = flxi_reshape_to(s, y, 1 + flxi_example_rank(s, 1), dims);
}

/* ---- Rules ---- */

static const flxi_sample samples_step[] = {
    {"T[3, 4], T[1]{0.2..0.3}", "bits=4", NULL, FLX_OK},
    {"T[3, 4], T[4]{0.2..0.6}", "bits=3, axis=1, grad_scale=0.25", NULL, FLX_OK},
    {"T[2, 3, 2], T[3]{0.5..0.8}", "bits=2, axis=-2", NULL, FLX_OK},
    {"T[3, 2], T[1]{0.2..0.3}", "axis=0", NULL, FLX_OK},
    {"T[], T[]{0.2..0.3}", NULL, NULL, FLX_OK},
    {"T[0, 2], T[2]{0.2..0.3}", "axis=1", NULL, FLX_OK},
    {"T[N, 2], T[N]{0.2..0.3}", "axis=0, bits=4", NULL, FLX_OK},
    {"T[3, 4], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3]", "axis=1", NULL, FLX_E_SHAPE},
    {"T[3, 4], T[1]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[1]", "bits=1", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", NULL, NULL, FLX_E_ARITY},
    {"i32[3], i32[1]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_backward[] = {
    {"T[3, 4], T[1]{0.2..0.3}, T[3, 4]", "bits=4", NULL, FLX_OK},
    {"T[3, 4], T[4]{0.2..0.6}, T[3, 4]", "bits=3, axis=1, grad_scale=0.25", NULL, FLX_OK},
    {"T[3, 2], T[1]{0.2..0.3}, T[3, 2]", "axis=0", NULL, FLX_OK},
    {"T[], T[]{0.2..0.3}, T[]", NULL, NULL, FLX_OK},
    {"T[0, 2], T[2]{0.2..0.3}, T[0, 2]", "axis=1", NULL, FLX_OK},
    {"T[N, 2], T[N]{0.2..0.3}, T[N, 2]", "axis=0, bits=4", NULL, FLX_OK},
    {"T[3, 4], T[1], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3], T[3, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[1], T[3, 4]", "bits=9", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[1]", NULL, NULL, FLX_E_ARITY},
    {0},
};

/* Channels do not meet; each has its own step. */
static bool link_step(const flxi_use *u, flxi_link *l)
{
    int64_t axis = ((const step_attrs *)u->n->attrs)->axis;
    bool is_channel = u->operand == 0 ? l->axis == axis : axis >= 0 && flxi_link_operand(u)->rank == 1;
    return is_channel && flxi_link_move(u, l, axis);
}

const flxi_rules flxi_rules_fake_quantize_lsq = {
    .infer = infer_step,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_step,
    .vjp = vjp_step,
    .backward_vjp = backward_vjp_step,
    .jvp = jvp_step,
    .batch = batch_step,
    .schema = step_schema,
    .attrs_size = sizeof(step_attrs),
    .samples = samples_step,
    .link = link_step,
};

const flxi_rules flxi_rules_fake_quantize_lsq_backward_x = {
    .infer = infer_backward_x,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_backward_x,
    .batch = batch_step,
    .schema = step_schema,
    .attrs_size = sizeof(step_attrs),
    .samples = samples_backward,
};

const flxi_rules flxi_rules_fake_quantize_lsq_backward_scale = {
    .infer = infer_backward_scale,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_backward_scale,
    .batch = batch_backward_scale,
    .schema = step_schema,
    .attrs_size = sizeof(step_attrs),
    .samples = samples_backward,
};
