/* SPDX-License-Identifier: Apache-2.0 */
/* decoder.c: parts of decoders: a norm of a sum, a causal convolution along the sequence, the whole pre-norm block, and
   the head that drafts a token further ahead. Like all composites they mean their decomposition. */
#include "ops/composite/fused.h"
#include "ops/nn/norm.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/decomposed.h"

#include <string.h>

/* ---- residual_rms_norm ---- */

typedef struct {
    double eps;
} eps_attrs;

static const flxi_attr eps_schema[] = {A_REAL(eps_attrs, eps, 1e-5), A_END};

static flx_code check_gamma(flxi_infer *f, const flx_type *x, uint32_t operand, const char *name)
{
    const flx_type *gamma = f->in[operand];
    flxi_type_text tx, tg;
    if (gamma->rank == 1 && x->rank > 0 && flxi_dims_may_equal(f, gamma->dims[0], x->dims[x->rank - 1]))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must have one element for each column of x: it is %s, x is %s",
                           name, flxi_shape_str(f->ctx, gamma, &tg), flxi_shape_str(f->ctx, x, &tx));
}

static flx_code infer_residual(flxi_infer *f)
{
    flxi_type_text tx, tr;
    FLXI_TRY(flxi_check_eps(f, "eps", ((const eps_attrs *)f->attrs)->eps));
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    bool is_same = f->in[0]->rank == f->in[1]->rank;
    for (int k = 0; is_same && k < f->in[0]->rank; k++)
        is_same = flxi_dims_may_equal(f, f->in[0]->dims[k], f->in[1]->dims[k]);
    if (!is_same)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "x and res must have the same shape: %s and %s",
                               flxi_shape_str(f->ctx, f->in[0], &tx), flxi_shape_str(f->ctx, f->in[1], &tr));
    f->out[0] = f->out[1] = *f->in[0];
    return check_gamma(f, f->in[0], 2, "gamma");
}

static void decompose_residual(flxi_site *s, flx_val *y)
{
    y[1] = flx_add(s->g, s->x[0], s->x[1]);
    y[0] = flx_rms_norm(s->g, y[1], s->x[2], FLX_NONE, -1, ((const eps_attrs *)s->attrs)->eps);
}

static const flxi_sample samples_residual[] = {
    {"T[3, 4], T[3, 4], T[4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4], T[2, 3, 4], T[4]", "eps=0.1", NULL, FLX_OK},
    {"T[N, 4], T[N, 4], T[4]", "eps=0.1", NULL, FLX_OK},
    {"T[0, 4], T[0, 4], T[4]", NULL, NULL, FLX_OK},
    {"T[3, 4], T[4], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 4], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[], T[], T[1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[3, 4], T[4]", "eps=-1", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_residual_rms_norm = {
    .infer = infer_residual,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_residual,
    .schema = eps_schema,
    .attrs_size = sizeof(eps_attrs),
    .samples = samples_residual,
};

/* ---- causal_conv1d ---- */

typedef struct {
    int64_t act;
} act_attrs;

static const flxi_attr conv_schema[] = {A_ACTIVATION(act_attrs, act, FLXI_ACT_none), A_END};

static flx_code infer_causal_conv(flxi_infer *f)
{
    const flx_type *x = f->in[0], *w = f->in[1];
    flxi_type_text tx, tw;
    if (x->rank != 3)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "x must be [N, S, C]: it is %s", flxi_shape_str(f->ctx, x, &tx));
    if (w->rank != 2 || !flxi_dims_may_equal(f, w->dims[0], x->dims[2]))
        return flxi_infer_fail(f, FLX_E_SHAPE, "one row of taps for each channel",
                               "w must be [C, K] for x [N, S, C]: it is %s, x is %s", flxi_shape_str(f->ctx, w, &tw),
                               flxi_shape_str(f->ctx, x, &tx));
    if (!flx_dim_is_static(w->dims[1]) || !flx_dim_is_static(w->dims[0]) || w->dims[1] < 1)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "w must have a known number of channels and at least one tap: it is %s",
                               flxi_shape_str(f->ctx, w, &tw));
    if (f->nin > 2)
        FLXI_TRY(check_gamma(f, x, 2, "b"));
    f->out[0] = *x;
    return FLX_OK;
}

enum { MOST_TAPS = 8 }; /* that are written out */

/* A sum of products with x moved along the sequence: one kernel, in which nothing is transposed. Products before the
   start are masked, so that infinite weights have no effect there. */
static flx_val sum_of_taps(flxi_site *s, int64_t taps)
{
    const flx_type type = *flxi_typeof(s, s->x[0]);
    const flx_dim channels = flxi_typeof(s, s->x[1])->dims[0];
    flx_val x = flxi_widen(s, s->x[0]), w = flxi_widen(s, s->x[1]), sum = FLX_NONE;
    flx_val at = flxi_positions_along(s, &type, 1);
    for (int64_t k = 0; k < taps; k++) {
        const int64_t by = taps - 1 - k;
        flx_val tap = flxi_reshape_to(s, flx_narrow(s->g, w, 1, k, 1), 1, &channels);
        flx_val term = flx_mul(s->g, by ? flxi_move_along(s, x, 1, by) : x, tap);
        flx_val is_inside = flx_ge(s->g, at, flxi_number(s, at, (double)by));
        sum = flxi_sum(s, sum, by ? flxi_masked(s, is_inside, term) : term);
    }
    return flxi_as_dtype(s, sum, type.dtype);
}

/* A convolution with as many groups as channels, over [N, C, S], padded only at the start. */
static flx_val grouped_conv(flxi_site *s)
{
    const flx_type *w = flxi_typeof(s, s->x[1]);
    int64_t padding[2] = {w->dims[1] - 1, 0};
    flx_conv_attrs attrs = FLX_CONV_ATTRS;
    attrs.groups = w->dims[0];
    attrs.padding = (flx_ints){padding, 2};
    flx_val z = flx_conv_with(s->g, flx_transpose(s->g, s->x[0], FLX_INTS(0, 2, 1)),
                              flx_unsqueeze(s->g, s->x[1], FLX_INTS(1)), &attrs);
    return flx_transpose(s->g, z, FLX_INTS(0, 2, 1));
}

static void decompose_causal_conv(flxi_site *s, flx_val *y)
{
    const int64_t taps = flxi_typeof(s, s->x[1])->dims[1];
    flx_val z = taps <= MOST_TAPS ? sum_of_taps(s, taps) : grouped_conv(s);
    y[0] = flxi_activate(s->g, ((const act_attrs *)s->attrs)->act, s->nin > 2 ? flx_add(s->g, z, s->x[2]) : z);
}

static const flxi_sample samples_causal_conv[] = {
    {"T[2, 5, 3], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[1, 4, 2]{-0.5..0.5}, T[2, 3]{-0.5..0.5}, T[2]{-0.5..0.5}", "act=silu", NULL, FLX_OK},
    {"T[N, 4, 2], T[2, 1], T[2]", NULL, NULL, FLX_OK},
    {"T[1, 2, 2], T[2, 4]", NULL, NULL, FLX_OK},
    {"T[0, 4, 2], T[2, 3]", NULL, NULL, FLX_OK},
    {"T[1, 4, 2]{-0.5..0.5}, T[2, 9]{-0.5..0.5}", NULL, NULL, FLX_OK},
    {"T[4, 2], T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 4, 2], T[3, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 4, 2], T[2, 0]", NULL, NULL, FLX_E_SHAPE},
    {"T[1, 4, 2], T[2, 3], T[3]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_causal_conv1d = {
    .infer = infer_causal_conv,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_causal_conv,
    .schema = conv_schema,
    .attrs_size = sizeof(act_attrs),
    .samples = samples_causal_conv,
};

/* ---- decoder_block ---- */

typedef struct {
    int64_t num_heads, num_kv_heads, window, act, mask_kind;
    double eps, score_scale, softcap;
} decoder_attrs;

#define MASKS "causal none sliding_window"
enum { MASK_SLIDING = 2 };

static const flxi_attr decoder_schema[] = {
    A_INT_REQ(decoder_attrs, num_heads),
    A_INT_OPT(decoder_attrs, num_kv_heads, "num_heads"),
    A_ACTIVATION(decoder_attrs, act, FLXI_ACT_silu),
    A_WORD(decoder_attrs, mask_kind, MASKS),
    A_INT_OPT(decoder_attrs, window, "none"),
    A_REAL(decoder_attrs, eps, 1e-5),
    A_REAL_OPT(decoder_attrs, score_scale, "1/√head_dim"),
    A_REAL_OPT(decoder_attrs, softcap, "none"),
    A_END,
};

enum { IN_X, IN_GAMMA1, IN_Q, IN_K, IN_V, IN_O, IN_GAMMA2, IN_GATE, IN_UP, IN_DOWN, IN_COS, IN_SIN, ALL_INPUTS };

static flx_code check_heads(flxi_infer *f, decoder_attrs *a)
{
    if (a->num_kv_heads == FLXI_ABSENT)
        a->num_kv_heads = a->num_heads;
    if (a->num_heads < 1 || a->num_kv_heads < 1 || a->num_heads % a->num_kv_heads)
        return flxi_infer_fail(
            f, FLX_E_ATTRIBUTE, "each key and value head is shared by the same number of query heads",
            "num_kv_heads must divide num_heads: %lld and %lld", (long long)a->num_kv_heads, (long long)a->num_heads);
    if ((a->mask_kind == MASK_SLIDING) != (a->window != FLXI_ABSENT))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "window is given with mask_kind=sliding_window and only then");
    return FLX_OK;
}

/* The columns of q, k and v hold their heads; all heads have the same width. */
static flx_code check_widths(flxi_infer *f, const decoder_attrs *a, const flx_type *q, const flx_type *k,
                             const flx_type *v)
{
    flxi_type_text tq, tk, tv;
    int last = q->rank - 1;
    flx_dim width = q->dims[last], kv = k->dims[last];
    bool fits = flx_dim_is_static(width) && flx_dim_is_static(kv) && width % a->num_heads == 0 &&
                kv == width / a->num_heads * a->num_kv_heads && flxi_dims_may_equal(f, kv, v->dims[last]);
    if (fits)
        return FLX_OK;
    return flxi_infer_fail(
        f, FLX_E_SHAPE, "num_kv_heads says how many heads keys and values have; if absent, as many as queries",
        "wq, wk and wv must have columns for %lld and %lld heads of equal width: q is %s, k is %s, v is %s",
        (long long)a->num_heads, (long long)a->num_kv_heads, flxi_shape_str(f->ctx, q, &tq),
        flxi_shape_str(f->ctx, k, &tk), flxi_shape_str(f->ctx, v, &tv));
}

static flx_code infer_attention_part(flxi_infer *f, const decoder_attrs *a)
{
    flx_type q, k, v, y;
    FLXI_TRY(flxi_check_eps(f, "eps", a->eps));
    FLXI_TRY(check_gamma(f, f->in[IN_X], IN_GAMMA1, "gamma1"));
    FLXI_TRY(flxi_infer_linear(f, f->in[IN_X], f->in[IN_Q], NULL, "wq", "", &q));
    FLXI_TRY(flxi_infer_linear(f, f->in[IN_X], f->in[IN_K], NULL, "wk", "", &k));
    FLXI_TRY(flxi_infer_linear(f, f->in[IN_X], f->in[IN_V], NULL, "wv", "", &v));
    FLXI_TRY(check_widths(f, a, &q, &k, &v));
    return flxi_infer_linear(f, &q, f->in[IN_O], NULL, "wo", "", &y);
}

static flx_code infer_ffn_part(flxi_infer *f)
{
    flx_type gate, up, y;
    flxi_type_text tg, tu;
    FLXI_TRY(check_gamma(f, f->in[IN_X], IN_GAMMA2, "gamma2"));
    FLXI_TRY(flxi_infer_linear(f, f->in[IN_X], f->in[IN_GATE], NULL, "w_gate", "", &gate));
    FLXI_TRY(flxi_infer_linear(f, f->in[IN_X], f->in[IN_UP], NULL, "w_up", "", &up));
    if (!flxi_dims_may_equal(f, gate.dims[gate.rank - 1], up.dims[up.rank - 1]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "w_gate and w_up must have the same number of columns: %s and %s",
                               flxi_shape_str(f->ctx, f->in[IN_GATE], &tg), flxi_shape_str(f->ctx, f->in[IN_UP], &tu));
    return flxi_infer_linear(f, &up, f->in[IN_DOWN], NULL, "w_down", "", &y);
}

static flx_code check_returns(flxi_infer *f, uint32_t operand, const char *name)
{
    const flx_type *x = f->in[IN_X], *w = f->in[operand];
    flxi_type_text tx, tw;
    if (flxi_dims_may_equal(f, w->dims[1], x->dims[x->rank - 1]))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must have as many columns as x: it is %s, x is %s", name,
                           flxi_shape_str(f->ctx, w, &tw), flxi_shape_str(f->ctx, x, &tx));
}

static flx_code infer_decoder(flxi_infer *f)
{
    decoder_attrs *a = f->attrs;
    flxi_type_text tx;
    if (f->nin != IN_COS && f->nin != ALL_INPUTS)
        return flxi_infer_fail(f, FLX_E_ARITY,
                               "x, gamma1, wq, wk, wv, wo, gamma2, w_gate, w_up, w_down, then cos and sin or neither",
                               "expected 10 or 12 operands, got %u", f->nin);
    if (f->in[IN_X]->rank != 3)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "x must be [N, S, E]: it is %s",
                               flxi_shape_str(f->ctx, f->in[IN_X], &tx));
    FLXI_TRY(check_heads(f, a));
    FLXI_TRY(infer_attention_part(f, a));
    FLXI_TRY(infer_ffn_part(f));
    FLXI_TRY(check_returns(f, IN_O, "wo"));
    FLXI_TRY(check_returns(f, IN_DOWN, "w_down"));
    f->out[0] = *f->in[IN_X];
    return FLX_OK;
}

static flx_val turned(flxi_site *s, flx_val x, int64_t heads)
{
    if (s->nin <= IN_COS)
        return x;
    const flx_type *t = flxi_typeof(s, x);
    return flx_rope(s->g, x, s->x[IN_COS], s->x[IN_SIN], "bsd", t->dims[t->rank - 1] / heads, FLX_DEFAULT, heads);
}

static flx_val attend(flxi_site *s, flx_val h)
{
    const decoder_attrs *a = s->attrs;
    size_t n;
    flx_attention_attrs o = FLX_ATTENTION_ATTRS;
    flx_val q = turned(s, flx_matmul(s->g, h, s->x[IN_Q]), a->num_heads);
    flx_val k = turned(s, flx_matmul(s->g, h, s->x[IN_K]), a->num_kv_heads);
    char mask[24] = "";
    const char *word = flxi_word_at(MASKS, a->mask_kind, &n);
    memcpy(mask, word, n);
    o.layout = "bsd";
    o.num_heads = a->num_heads;
    o.num_kv_heads = a->num_kv_heads;
    o.mask_kind = mask;
    o.window = a->window == FLXI_ABSENT ? FLX_DEFAULT : a->window;
    o.score_scale = a->score_scale;
    o.softcap = a->softcap;
    return flx_attention_with(s->g, q, k, flx_matmul(s->g, h, s->x[IN_V]), FLX_NONE, &o);
}

/* What both lowerings share; `join` adds a product to the residual. */
static void write_decoder(flxi_site *s, flx_val *y, flx_val (*join)(flx_graph *, flx_val, flx_val, flx_val))
{
    const decoder_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val h = flx_rms_norm(g, s->x[IN_X], s->x[IN_GAMMA1], FLX_NONE, -1, a->eps);
    flx_val middle = join(g, attend(s, h), s->x[IN_O], s->x[IN_X]);
    h = flx_rms_norm(g, middle, s->x[IN_GAMMA2], FLX_NONE, -1, a->eps);
    flx_val gate = flxi_linear(g, h, s->x[IN_GATE], FLX_NONE, a->act);
    y[0] = join(g, flx_mul(g, gate, flx_matmul(g, h, s->x[IN_UP])), s->x[IN_DOWN], middle);
}

static flx_val product_and_sum(flx_graph *g, flx_val x, flx_val w, flx_val res)
{
    return flx_add(g, flx_matmul(g, x, w), res);
}

static void decompose_decoder(flxi_site *s, flx_val *y)
{
    write_decoder(s, y, product_and_sum);
}

static void compose_decoder(flxi_site *s, flx_val *y)
{
    write_decoder(s, y, flx_fused_matmul_residual);
}

#define SMALL "{-0.5..0.5}"
#define WEIGHTS                                                                                         \
    "T[4]" SMALL ", T[4, 4]" SMALL ", T[4, 2]" SMALL ", T[4, 2]" SMALL ", T[4, 4]" SMALL ", T[4]" SMALL \
    ", T[4, 3]" SMALL ", T[4, 3]" SMALL ", T[3, 4]" SMALL
static const flxi_sample samples_decoder[] = {
    {"T[1, 3, 4]" SMALL ", " WEIGHTS, "num_heads=2, num_kv_heads=1, eps=0.1", NULL, FLX_OK},
    {"T[N, 2, 4]" SMALL ", " WEIGHTS ", T[2, 1], T[2, 1]", "num_heads=2, num_kv_heads=1, eps=0.1", NULL, FLX_OK},
    {"T[1, 3, 4]" SMALL ", " WEIGHTS,
     "num_heads=2, num_kv_heads=1, eps=0.1, mask_kind=sliding_window, window=1, act=gelu, softcap=2", NULL, FLX_OK},
    {"T[1, 0, 4], " WEIGHTS, "num_heads=2, num_kv_heads=1, mask_kind=none", NULL, FLX_OK},
    {"T[1, 3, 4], " WEIGHTS, "num_heads=2", NULL, FLX_E_SHAPE},
    {"T[1, 3, 4], " WEIGHTS, "num_heads=2, num_kv_heads=1, eps=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 3, 4], " WEIGHTS, "num_heads=2, num_kv_heads=3", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 3, 4], " WEIGHTS, "num_heads=2, num_kv_heads=1, window=2", NULL, FLX_E_ATTRIBUTE},
    {"T[1, 3, 4], " WEIGHTS ", T[3, 1]", "num_heads=2, num_kv_heads=1", NULL, FLX_E_ARITY},
    {"T[3, 4], " WEIGHTS, "num_heads=2, num_kv_heads=1", NULL, FLX_E_SHAPE},
    {"T[1, 3, 5], " WEIGHTS, "num_heads=2, num_kv_heads=1", NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_decoder_block = {
    .infer = infer_decoder,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_decoder,
    .to_composites = compose_decoder,
    .schema = decoder_schema,
    .attrs_size = sizeof(decoder_attrs),
    .samples = samples_decoder,
};

/* ---- draft_head ---- */

static const flxi_attr draft_schema[] = {A_ACTIVATION(act_attrs, act, FLXI_ACT_silu), A_END};

static flx_code infer_draft(flxi_infer *f)
{
    flx_type h;
    flxi_type_text tx, tw;
    FLXI_TRY(flxi_infer_linear(f, f->in[0], f->in[1], NULL, "w", "", &h));
    if (!flxi_dims_may_equal(f, f->in[1]->dims[0], f->in[1]->dims[1]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                               "w must be square, since x is added to its product: it is %s, x is %s",
                               flxi_shape_str(f->ctx, f->in[1], &tw), flxi_shape_str(f->ctx, f->in[0], &tx));
    return flxi_infer_linear(f, f->in[0], f->in[2], NULL, "w_out", "", &f->out[0]);
}

static void decompose_draft(flxi_site *s, flx_val *y)
{
    flx_val h = flxi_linear(s->g, s->x[0], s->x[1], FLX_NONE, ((const act_attrs *)s->attrs)->act);
    y[0] = flx_matmul(s->g, flx_add(s->g, s->x[0], h), s->x[2]);
}

static const flxi_sample samples_draft[] = {
    {"T[3, 4], T[4, 4], T[4, 6]", NULL, NULL, FLX_OK},      {"T[2, 3, 4], T[4, 4], T[4, 2]", "act=gelu", NULL, FLX_OK},
    {"T[N, 4], T[4, 4], T[4, V]", NULL, NULL, FLX_OK},      {"T[3, 4], T[4, 5], T[4, 6]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4], T[4, 4], T[5, 6]", NULL, NULL, FLX_E_SHAPE}, {0},
};

const flxi_rules flxi_rules_draft_head = {
    .infer = infer_draft,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_draft,
    .schema = draft_schema,
    .attrs_size = sizeof(act_attrs),
    .samples = samples_draft,
};
