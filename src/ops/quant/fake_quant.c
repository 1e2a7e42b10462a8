/* SPDX-License-Identifier: Apache-2.0 */
/* fake_quant.c: floats rounded to the grid that a quantised tensor would have, for quantisation-aware training.

   y = clamp(round(x / s), -Q, Q) s with Q = 2^(bits - 1) - 1. The scale s comes from the tensor itself, from a moving
   average whose new state is a second result, or from a fixed state. Every derivative treats s as a constant, and the
   rounding as a function with the derivative m(x) that `ste` selects: the straight-through estimator. The value and its
   derivatives take s from one function, so they cannot disagree about it. */
#include "ops/opcode.h"
#include "ops/quant/channel.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

enum { MODE_PER_BATCH, MODE_EMA, MODE_FIXED };                        /* order of the words */
enum { STE_CLIPPED_IDENTITY, STE_IDENTITY, STE_TANH, STE_HARD_TANH }; /* order of the words */

typedef struct {
    int64_t bits, axis, ste, scale_mode;
    double decay;
} fake_attrs;

static const flxi_attr fake_schema[] = {
    A_INT(fake_attrs, bits, 8),
    A_INT_OPT(fake_attrs, axis, "none"),
    A_WORD(fake_attrs, ste, "clipped_identity identity tanh hard_tanh"),
    A_WORD(fake_attrs, scale_mode, "per_batch ema fixed"),
    A_REAL(fake_attrs, decay, 0.9),
    A_END,
};

static const double least_scale = 1e-12;

/* ---- Inference ---- */

/* `k` is the position of the state, which is called `name`, among the operands. */
static flx_code check_fake(flxi_infer *f, uint32_t k, const char *name)
{
    fake_attrs *a = f->attrs;
    flx_dim count;
    bool is_needed = a->scale_mode != MODE_PER_BATCH;
    if (a->bits < 2 || a->bits > 8)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "bits must be within 2 ... 8: it is %lld", (long long)a->bits);
    if (!(a->decay >= 0.0 && a->decay <= 1.0))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "decay must be within 0 ... 1: it is %g", a->decay);
    FLXI_TRY(flxi_norm_channels(f, &a->axis, f->in[0], &count));
    if (is_needed != (f->nin > k))
        return flxi_infer_fail(
            f, FLX_E_ARITY, "scale_mode=ema and fixed take a state, per_batch computes its own scale",
            is_needed ? "this scale_mode needs the operand %s" : "scale_mode=per_batch takes no %s", name);
    return is_needed ? flxi_need_per_channel(f, k, a->axis, count, false) : FLX_OK;
}

static flx_code infer_fake(flxi_infer *f)
{
    const fake_attrs *a = f->attrs;
    FLXI_TRY(check_fake(f, 1, "state"));
    FLXI_TRY(flxi_results(f, a->scale_mode == MODE_EMA ? 2 : 1));
    f->out[0] = *f->in[0];
    if (a->scale_mode == MODE_EMA)
        f->out[1] = *f->in[1];
    return FLX_OK;
}

static flx_code infer_fake_backward(flxi_infer *f)
{
    FLXI_TRY(check_fake(f, 2, "s"));
    return flxi_equal_shapes(f, 2, &f->out[0]);
}

/* ---- Scales ---- */

static double levels(const fake_attrs *a)
{
    return (double)((1 << (a->bits - 1)) - 1);
}

/* max(max |x| / Q, 1e-12) over each channel; an empty one has the smallest scale. */
static flx_val batch_scale(flxi_site *s, flx_val x)
{
    const fake_attrs *a = s->attrs;
    int64_t room[FLX_MAX_RANK];
    flx_ints axes = flxi_axes_within_channel(a->axis, flxi_typeof(s, x)->rank, room);
    flx_val most = flx_reduce_max(s->g, flx_abs(s->g, x), axes, 1);
    return flx_max(s->g, flx_div(s->g, most, flxi_number(s, x, levels(a))), flxi_number(s, x, least_scale));
}

/* The moving average after the state: initially the scale of the batch. */
static flx_val moved_state(flxi_site *s, flx_val x, flx_val state)
{
    const fake_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val now = batch_scale(s, x);
    flx_val old = flxi_channel_view(s, flxi_wide(s, state), a->axis, flxi_typeof(s, x));
    flx_val next =
        flx_add(g, flx_mul(g, old, flxi_number(s, x, a->decay)), flx_mul(g, now, flxi_number(s, x, 1.0 - a->decay)));
    flx_val first = flx_le(g, old, flxi_number(s, x, 0.0));
    return flxi_reshape_to(s, flxi_as(s, flx_where(g, first, now, next), state), flxi_typeof(s, state)->rank,
                           flxi_typeof(s, state)->dims);
}

/* The scale that a state represents, wide and broadcasting over x. A moving average is used unchanged, unless it became
   0 when it was rounded to a half float. NaN stays. */
static flx_val state_scale(flxi_site *s, flx_val x, flx_val state)
{
    const fake_attrs *a = s->attrs;
    flx_val v = flxi_channel_view(s, flxi_wide(s, state), a->axis, flxi_typeof(s, x));
    flx_val least = flxi_number(s, x, least_scale);
    if (a->scale_mode == MODE_FIXED)
        return flx_max(s->g, v, least);
    return flx_where(s->g, flx_le(s->g, v, flxi_number(s, x, 0.0)), least, v);
}

/* The scale of fake_quantize at a site of it; *state receives the new state where there is one. */
static flx_val forward_scale(flxi_site *s, flx_val x, flx_val *state)
{
    const fake_attrs *a = s->attrs;
    if (a->scale_mode == MODE_PER_BATCH)
        return batch_scale(s, x);
    *state = a->scale_mode == MODE_EMA ? moved_state(s, x, s->x[1]) : s->x[1];
    return state_scale(s, x, *state);
}

static flx_val codes_of(flxi_site *s, flx_val x, flx_val scale)
{
    return flx_round(s->g, flx_div(s->g, x, scale), NULL);
}

static void decompose_fake(flxi_site *s, flx_val *y)
{
    const fake_attrs *a = s->attrs;
    flx_val x = flxi_wide(s, s->x[0]);
    flx_val state = FLX_NONE;
    flx_val scale = forward_scale(s, x, &state);
    flx_val most = flxi_number(s, x, levels(a));
    flx_val code = flx_clamp(s->g, flxi_number(s, x, -levels(a)), codes_of(s, x, scale), most);
    y[0] = flxi_as(s, flx_mul(s->g, code, scale), s->x[0]);
    if (a->scale_mode == MODE_EMA)
        y[1] = state;
}

/* ---- Derivatives ---- */

/* v m(x), where x and the scale are wide. The codes are tested, not |x| <= Q s, which rounding could make false for
   exactly the maximum that determines the scale. */
static flx_val through_rounding(flxi_site *s, flx_val x, flx_val scale, flx_val v)
{
    const fake_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val one = flxi_number(s, x, 1.0);
    flx_val most = flxi_number(s, x, levels(a));
    scale = flx_stop_gradient(g, scale);
    if (a->ste == STE_IDENTITY)
        return v;
    if (a->ste == STE_CLIPPED_IDENTITY)
        return flxi_masked(s, flx_le(g, flx_abs(g, codes_of(s, x, scale)), most), v);
    flx_val z = flx_div(g, x, flx_mul(g, scale, most));
    flx_val m = a->ste == STE_TANH ? flx_sub(g, one, flx_square(g, flx_tanh(g, z)))
                                   : flx_relu(g, flx_sub(g, one, flx_abs(g, z)));
    return flxi_as(s, flx_mul(g, flxi_wide(s, v), m), v);
}

static flx_val derivative(flxi_site *s, flx_val v)
{
    flx_val x = flxi_wide(s, s->x[0]);
    flx_val state = FLX_NONE;
    return through_rounding(s, x, forward_scale(s, x, &state), v);
}

static void vjp_fake(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[0] && !flxi_is_none(dy[0]))
        dx[0] = derivative(s, dy[0]);
}

static void jvp_fake(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    if (!flxi_is_none(tx[0]))
        ty[0] = derivative(s, tx[0]);
}

static void backward_vjp_fake(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const fake_attrs *a = s->attrs;
    bool has_state = a->scale_mode != MODE_PER_BATCH;
    flx_val in[3] = {s->x[0], dy[0], a->scale_mode == MODE_EMA ? s->y[1] : s->x[s->nin - 1]};
    flxi_site backward = *s;
    backward.op = &flxi_ops[OP_fake_quantize_backward];
    if (s->wanted[0] && !flxi_is_none(dy[0]))
        dx[0] = flxi_emit1(&backward, NULL, in, has_state ? 3 : 2);
}

static void decompose_fake_backward(flxi_site *s, flx_val *y)
{
    const fake_attrs *a = s->attrs;
    flx_val x = flxi_wide(s, s->x[0]);
    flx_val scale = a->scale_mode == MODE_PER_BATCH ? batch_scale(s, x) : state_scale(s, x, s->x[2]);
    y[0] = through_rounding(s, x, scale, s->x[1]);
}

/* ---- Batching: a scale for each channel of each example ---- */

static void batch_fake(flxi_site *s, flx_val *by)
{
    fake_attrs *a = flxi_site_attrs(s);
    flx_val x[3];
    flx_val y[2] = {FLX_NONE, FLX_NONE};
    uint32_t same = (uint32_t)flxi_operands_of(s->op)->required; /* operands of x's shape; then comes the state */
    if (!a)
        return;
    int64_t axis = a->axis;
    flx_dim count = flxi_example_channels(s, axis);
    flx_type batch = *flxi_typeof(s, flxi_lift(s, 0));
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = k < same ? flxi_fold_channels(s, flxi_lift(s, k), axis) : flxi_fold_scales(s, k, count);
    a->axis = 0;
    flxi_append(s, a, x, s->nin, y);
    by[0] = flxi_unfold_channels(s, y[0], axis, &batch);
    if (s->nout == 2) {
        flx_dim dims[2] = {s->size, count};
        by[1] = flxi_reshape_to(s, y[1], 1 + flxi_example_rank(s, s->nin - 1), dims);
    }
}

/* ---- Rules ---- */

static const flxi_sample samples_fake[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "bits=4, axis=1, ste=identity", NULL, FLX_OK},
    {"T[2, 3, 2]", "bits=3, axis=-2, ste=tanh", NULL, FLX_OK},
    {"T[5]", "bits=2, ste=hard_tanh", NULL, FLX_OK},
    {"T[3, 4], T[1]{0.1..0.2}", "scale_mode=fixed, bits=4, ste=tanh", NULL, FLX_OK},
    {"T[3, 2], T[3]{0.1..0.2}", "scale_mode=fixed, bits=3, axis=0, ste=hard_tanh", NULL, FLX_OK},
    {"T[3, 4], T[]{0.01..0.02}", "scale_mode=ema", NULL, FLX_OK},
    {"T[2, 3], T[3]{-0.02..0.02}", "scale_mode=ema, axis=1, decay=0.5, ste=tanh", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 2]", "axis=1", NULL, FLX_OK},
    {"T[2, 0], T[2]{0.1..0.2}", "axis=0, scale_mode=ema", NULL, FLX_OK},
    {"T[N, 2]", NULL, NULL, FLX_OK},
    {"T[N, 2], T[N]{0.1..0.2}", "axis=0, scale_mode=ema", NULL, FLX_OK},
    {"T[3, 4], T[1]", NULL, NULL, FLX_E_ARITY},
    {"T[3, 4]", "scale_mode=ema", NULL, FLX_E_ARITY},
    {"T[3, 4]", "scale_mode=fixed", NULL, FLX_E_ARITY},
    {"T[3, 4], T[3]", "scale_mode=fixed", NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3]", "scale_mode=fixed, axis=1", NULL, FLX_E_SHAPE},
    {"T[3, 4], T[1, 3]", "scale_mode=ema, axis=0", NULL, FLX_E_SHAPE},
    {"T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "bits=1", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "bits=9", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "decay=1.5", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "ste=sigmoid", NULL, FLX_E_ATTRIBUTE},
    {"i32[3, 4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_fake_backward[] = {
    {"T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[3, 4]", "ste=identity, bits=4", NULL, FLX_OK},
    {"T[2, 3], T[2, 3], T[3]{0.1..0.2}", "bits=4, axis=1, ste=tanh, scale_mode=fixed", NULL, FLX_OK},
    {"T[5], T[5], T[1]{0.1..0.2}", "bits=3, ste=hard_tanh, scale_mode=ema", NULL, FLX_OK},
    {"T[], T[]", "ste=tanh", NULL, FLX_OK},
    {"T[2, 0], T[2, 0]", "axis=0", NULL, FLX_OK},
    {"T[N, 2], T[N, 2]", "axis=0, ste=hard_tanh", NULL, FLX_OK},
    {"T[3, 4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 4], T[1]", NULL, NULL, FLX_E_ARITY},
    {"T[3, 4], T[3, 4]", "scale_mode=fixed", NULL, FLX_E_ARITY},
    {"T[3, 4], T[3, 4], T[3]", "scale_mode=ema", NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 4]", "bits=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* Channels do not meet. The new state is a list of them. */
static bool link_fake(const flxi_use *u, flxi_link *l)
{
    const fake_attrs *a = u->n->attrs;
    return u->operand == 0 && l->axis == a->axis && flxi_link_move(u, l, u->result == 0 ? l->axis : 0);
}

const flxi_rules flxi_rules_fake_quantize = {
    .infer = infer_fake,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_fake,
    .vjp = vjp_fake,
    .backward_vjp = backward_vjp_fake,
    .jvp = jvp_fake,
    .batch = batch_fake,
    .schema = fake_schema,
    .attrs_size = sizeof(fake_attrs),
    .samples = samples_fake,
    .link = link_fake,
};

const flxi_rules flxi_rules_fake_quantize_backward = {
    .infer = infer_fake_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_fake_backward,
    .batch = batch_fake,
    .schema = fake_schema,
    .attrs_size = sizeof(fake_attrs),
    .samples = samples_fake_backward,
};
