/* SPDX-License-Identifier: Apache-2.0 */
/* fused_attention.c: an attention block with its projections, and a transformer layer around one. Both mean their
   decomposition; attributes say which operands there are; this is never guessed from their number. */
#include "ops/nn/attention.h"

#include "ops/composite/fused.h"
#include "ops/nn/norm.h"
#include "ops/nn/rotary.h"
#include "ops/opcode.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"

#include <math.h>

/* ---- Operands by role ---- */

#define PART_MAP(X) \
    X(hidden)       \
    X(wqkv) X(bqkv) X(wo) X(bo) X(cos) X(sin) X(gamma1) X(beta1) X(w1) X(b1) X(w2) X(b2) X(gamma2) X(beta2) X(mask)
typedef enum {
#define PART(name) PART_##name,
    PART_MAP(PART)
#undef PART
        PART_COUNT
} part;

static const char *const part_names[PART_COUNT] = {
#define PART(name) #name,
    PART_MAP(PART)
#undef PART
};

#define ABSENT UINT32_MAX
typedef struct {
    uint32_t at[PART_COUNT]; /* the operand that it is, or ABSENT */
    uint32_t count;
} parts;

static void list_parts(parts *p, const part *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p->at[list[i]] = p->count++;
}

static parts no_parts(void)
{
    parts p = {.count = 0};
    for (int i = 0; i < PART_COUNT; i++)
        p.at[i] = ABSENT;
    return p;
}

#define LIST_PARTS(p, ...) \
    list_parts((p), (const part[]){__VA_ARGS__}, sizeof((const part[]){__VA_ARGS__}) / sizeof(part))

static const flx_type *type_of(const flxi_infer *f, const parts *p, part which)
{
    return p->at[which] == ABSENT ? NULL : f->in[p->at[which]];
}

static flx_val value_of(const flxi_site *s, const parts *p, part which)
{
    return p->at[which] == ABSENT ? FLX_NONE : s->x[p->at[which]];
}

/* As many operands as the attributes say, all of one dtype except for the mask. */
static flx_code check_parts(flxi_infer *f, const parts *p, const char *hint)
{
    if (f->nin != p->count)
        return flxi_infer_fail(f, FLX_E_ARITY, hint, "with these attributes, expected %u operands, got %u", p->count,
                               f->nin);
    for (int i = 0; i < PART_COUNT; i++) {
        const flx_type *t = type_of(f, p, (part)i);
        if (t && i != PART_mask && t->dtype != f->in[0]->dtype)
            return flxi_infer_fail(f, FLX_E_DTYPE, "cast it", "%s is %s, but hidden is %s", part_names[i],
                                   flx_dtype_name(t->dtype), flx_dtype_name(f->in[0]->dtype));
    }
    return FLX_OK;
}

/* ---- The attention block ---- */

typedef struct { /* of both ops; each schema shows what it has */
    int64_t num_heads, head_dim;
    int64_t has_bias, has_rope;
    int64_t mask_kind, window;
    double score_scale, softcap;
    int64_t ffn_dim, act;
    double eps1, eps2;
} fused_attrs;

/* wqkv makes queries, keys and values of num_heads heads; *head_dim is derived from it where absent. */
static flx_code infer_projection(flxi_infer *f, const flx_type *qkv, int64_t num_heads, int64_t *head_dim)
{
    flx_dim columns = qkv->dims[2];
    flxi_dim_text text;
    if (num_heads < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_heads must be at least 1: it is %lld",
                               (long long)num_heads);
    if (*head_dim == FLXI_ABSENT && flxi_dim_is_number(columns) && columns % 3 == 0 && columns / 3 % num_heads == 0)
        *head_dim = columns / 3 / num_heads;
    flx_dim wanted =
        *head_dim == FLXI_ABSENT ? FLX_DIM_INVALID : flx_dim_mul(f->ctx, 3, flx_dim_mul(f->ctx, num_heads, *head_dim));
    if (wanted != FLX_DIM_INVALID && *head_dim >= 1 && flxi_dims_may_equal(f, columns, wanted))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, "queries, keys and values are side by side in its columns",
                           "wqkv must have 3 * num_heads * head_dim columns, with num_heads=%lld: it has %s",
                           (long long)num_heads, flxi_dim_str(f->ctx, columns, &text));
}

/* The type of the block's result, which is that of hidden. */
static flx_code infer_block(flxi_infer *f, const parts *p, fused_attrs *a, flx_type *y)
{
    const flx_type *hidden = f->in[0];
    const flx_type *wo = type_of(f, p, PART_wo);
    flx_type qkv, heads, made;
    flxi_type_text th, tw;
    if (hidden->rank != 3)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "hidden must be [N, S, E], but it is %s",
                               flxi_shape_str(f->ctx, hidden, &th));
    FLXI_TRY(flxi_infer_linear(f, hidden, type_of(f, p, PART_wqkv), type_of(f, p, PART_bqkv), "wqkv", "bqkv", &qkv));
    FLXI_TRY(infer_projection(f, &qkv, a->num_heads, &a->head_dim));
    FLXI_TRY(flxi_check_scores(f, a->mask_kind, a->window, a->score_scale, a->softcap));
    flx_dim scores[4] = {hidden->dims[0], a->num_heads, hidden->dims[1], hidden->dims[1]};
    if (flxi_mask_is_operand(a->mask_kind))
        FLXI_TRY(flxi_check_mask(f, p->at[PART_mask], a->mask_kind, hidden->dtype, scores));
    flxi_heads each = {hidden->dims[0], a->num_heads, hidden->dims[1], a->head_dim};
    if (p->at[PART_cos] != ABSENT && a->head_dim % 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "elements are rotated in pairs",
                               "with has_rope the width of a head must be even: it is %lld", (long long)a->head_dim);
    if (p->at[PART_cos] != ABSENT)
        FLXI_TRY(flxi_check_rope_tables(f, p->at[PART_cos], p->at[PART_sin], &each, a->head_dim / 2));
    heads = *hidden;
    heads.dims[2] = a->num_heads * a->head_dim;
    FLXI_TRY(flxi_infer_linear(f, &heads, wo, type_of(f, p, PART_bo), "wo", "bo", &made));
    if (!flxi_dims_may_equal(f, made.dims[2], hidden->dims[2]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "wo must have as many columns as hidden: wo is %s, hidden %s",
                               flxi_shape_str(f->ctx, wo, &tw), flxi_shape_str(f->ctx, hidden, &th));
    *y = *hidden;
    return FLX_OK;
}

static flx_val rotate(flxi_site *s, flx_val x, const parts *p, const fused_attrs *a)
{
    if (p->at[PART_cos] == ABSENT)
        return x;
    return flx_rope(s->g, x, value_of(s, p, PART_cos), value_of(s, p, PART_sin), "bsd", a->head_dim, FLX_DEFAULT,
                    a->num_heads);
}

static flx_val append_block(flxi_site *s, const parts *p, const fused_attrs *a)
{
    flx_graph *g = s->g;
    flx_type hidden = *flxi_typeof(s, s->x[0]);
    flxi_attention_attrs attrs = {.layout = HEADS_BSD,
                                  .num_heads = a->num_heads,
                                  .head_dim = a->head_dim,
                                  .num_kv_heads = a->num_heads,
                                  .mask_kind = a->mask_kind,
                                  .window = a->window,
                                  .score_scale = a->score_scale,
                                  .softcap = a->softcap};
    flxi_site attention = *s;
    attention.op = &flxi_ops[OP_attention];
    attention.attrs = &attrs;
    int64_t width = a->num_heads * a->head_dim;
    bool is_masked = flxi_mask_is_operand(a->mask_kind);
    flx_val qkv = flxi_linear(g, s->x[0], value_of(s, p, PART_wqkv), value_of(s, p, PART_bqkv), FLXI_ACT_none);
    flx_val x[4] = {[3] = is_masked ? value_of(s, p, PART_mask) : FLX_NONE};
    for (int i = 0; i < 3; i++)
        x[i] = flx_narrow(g, qkv, 2, i * width, width);
    x[0] = rotate(s, x[0], p, a);
    x[1] = rotate(s, x[1], p, a);
    flx_val mixed = flxi_emit1(&attention, NULL, x, is_masked ? 4 : 3);
    flx_val y = flxi_linear(g, mixed, value_of(s, p, PART_wo), value_of(s, p, PART_bo), FLXI_ACT_none);
    return flxi_reshape_to(s, y, hidden.rank,
                           hidden.dims); /* the columns of wo may be a number where those of hidden are a symbol */
}

/* A mask, if given, is always in the same position; only the kinds custom and bias read it, and only they need it. */
static parts block_parts(const fused_attrs *a, uint32_t nin)
{
    parts p = no_parts();
    uint32_t without = 3 + (a->has_bias ? 2u : 0u) + (a->has_rope ? 2u : 0u);
    LIST_PARTS(&p, PART_hidden, PART_wqkv, PART_wo);
    if (flxi_mask_is_operand(a->mask_kind) || nin != without)
        LIST_PARTS(&p, PART_mask);
    if (a->has_bias)
        LIST_PARTS(&p, PART_bqkv, PART_bo);
    if (a->has_rope)
        LIST_PARTS(&p, PART_cos, PART_sin);
    return p;
}

static const flxi_attr block_schema[] = {
    A_INT_REQ(fused_attrs, num_heads),
    A_INT_OPT(fused_attrs, head_dim, "from wqkv"),
    A_BOOL(fused_attrs, has_bias, 0),
    A_BOOL(fused_attrs, has_rope, 0),
    {.name = "mask_kind",
     .kind = ATTR_WORD,
     .offset = offsetof(fused_attrs, mask_kind),
     .words = FLXI_MASK_KINDS,
     .fallback = MASK_CUSTOM},
    A_SCORES(fused_attrs),
    A_END,
};

static flx_code infer_attention_block(flxi_infer *f)
{
    fused_attrs *a = f->attrs;
    parts p = block_parts(a, f->nin);
    FLXI_TRY(check_parts(f, &p, "hidden, wqkv, wo, mask; has_bias: bqkv, bo; has_rope: cos, sin"));
    return infer_block(f, &p, a, &f->out[0]);
}

static void decompose_attention_block(flxi_site *s, flx_val *y)
{
    parts p = block_parts(s->attrs, s->nin);
    y[0] = append_block(s, &p, s->attrs);
}

#define HALF "{-0.5..0.5}"
#define BLOCK "T[2, 3, 4]" HALF ", T[4, 12]" HALF ", T[4, 4]" HALF
static const flxi_sample samples_block[] = {
    {BLOCK ", bool[2, 3]", "num_heads=2, head_dim=2", NULL, FLX_OK},
    {"T[1, 2, 4]" HALF ", T[4, 12]" HALF ", T[4, 4]" HALF ", T[2, 2]" HALF ", T[2, 2], T[2, 2]",
     "num_heads=1, has_rope=true, mask_kind=bias", NULL, FLX_OK},
    {BLOCK ", T[3, 1]" HALF ", T[3, 1]" HALF, "num_heads=2, has_rope=true, mask_kind=causal, softcap=2", NULL, FLX_OK},
    {"T[1, 2, 3]" HALF ", T[3, 6]" HALF ", T[2, 3]" HALF ", i8[2]{1..1}, T[6]" HALF ", T[3]" HALF ", T[1, 2, 1]" HALF
     ", T[1, 2, 1]" HALF,
     "num_heads=1, has_bias=true, has_rope=true, score_scale=0.5", NULL, FLX_OK},
    {BLOCK ", bool[2, 3]", "num_heads=2, mask_kind=none", NULL, FLX_OK},
    {"T[N, M, 2]" HALF ", T[2, 6]" HALF ", T[2, 2]" HALF, "num_heads=1, mask_kind=sliding_window, window=1", NULL,
     FLX_OK},
    {"T[2, 0, 4], T[4, 12], T[4, 4]", "num_heads=2, mask_kind=none", NULL, FLX_OK},
    {"T[2, 3, 4], T[4, 12], T[4, 4]", "num_heads=2", NULL, FLX_E_ARITY},
    {"T[2, 3, 4], T[4, 12], T[4, 4], bool[2, 3], T[12]", "num_heads=2, has_bias=true", NULL, FLX_E_ARITY},
    {"T[2, 3, 4], T[4, 12], T[4, 4], bool[2, 3]", "num_heads=3", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[4, 12], T[4, 4], bool[2, 3]", "num_heads=0", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[4, 12], T[4, 4], bool[2, 3]", "num_heads=2", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[4, 12], T[4, 3], bool[2, 3]", "num_heads=2", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[4, 12], T[4, 4], bool[3, 3]", "num_heads=2", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[4, 12], T[4, 4], T[3, 1], T[2, 1]", "num_heads=2, has_rope=true, mask_kind=none", NULL,
     FLX_E_SHAPE},
    {"T[2, 3, 4], T[4, 12], T[4, 4], bool[2, 3], i32[12], T[4]", "num_heads=2, has_bias=true", NULL, FLX_E_DTYPE},
    {"T[2, 3, 4], T[4, 12], T[4, 4], bool[2, 3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_fused_attention_block = {
    .infer = infer_attention_block,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_attention_block,
    .schema = block_schema,
    .attrs_size = sizeof(fused_attrs),
    .samples = samples_block,
};

/* ---- The transformer layer ---- */

static const flxi_attr layer_schema[] = {
    A_INT_REQ(fused_attrs, num_heads),
    A_INT_OPT(fused_attrs, head_dim, "from wqkv"),
    A_INT_OPT(fused_attrs, ffn_dim, "from w1"),
    A_ACTIVATION(fused_attrs, act, FLXI_ACT_gelu),
    A_BOOL(fused_attrs, has_bias, 1),
    A_REAL(fused_attrs, eps1, 1e-5),
    A_REAL(fused_attrs, eps2, 1e-5),
    A_END,
};

static parts layer_parts(const fused_attrs *a)
{
    parts p = no_parts();
    if (a->has_bias)
        LIST_PARTS(&p, PART_hidden, PART_wqkv, PART_bqkv, PART_wo, PART_bo, PART_gamma1, PART_beta1, PART_w1, PART_b1,
                   PART_w2, PART_b2, PART_gamma2, PART_beta2, PART_mask);
    else
        LIST_PARTS(&p, PART_hidden, PART_wqkv, PART_wo, PART_gamma1, PART_w1, PART_w2, PART_gamma2, PART_mask);
    return p;
}

/* A layer has no attributes for its scores, so the mask kind is custom. */
static fused_attrs with_custom_mask(const fused_attrs *a)
{
    fused_attrs b = *a;
    b.mask_kind = MASK_CUSTOM;
    b.window = FLXI_ABSENT;
    b.score_scale = b.softcap = NAN;
    return b;
}

/* gamma and beta have one element for each column of hidden. */
static flx_code check_vector(flxi_infer *f, const parts *p, part which)
{
    const flx_type *v = type_of(f, p, which);
    flxi_type_text tv, th;
    if (!v || (v->rank == 1 && flxi_dims_may_equal(f, v->dims[0], f->in[0]->dims[2])))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                           "%s must have one element for each column of hidden: %s is %s, hidden %s", part_names[which],
                           part_names[which], flxi_shape_str(f->ctx, v, &tv), flxi_shape_str(f->ctx, f->in[0], &th));
}

static flx_code infer_transformer_layer(flxi_infer *f)
{
    fused_attrs *a = f->attrs;
    parts p = layer_parts(a);
    fused_attrs scores = with_custom_mask(a);
    flx_type h, made;
    flxi_dim_text text;
    FLXI_TRY(check_parts(f, &p,
                         a->has_bias ? "has_bias=false takes no bqkv, bo, beta1, b1, b2, beta2"
                                     : "hidden, wqkv, wo, gamma1, w1, w2, gamma2, mask"));
    FLXI_TRY(flxi_check_eps(f, "eps1", a->eps1));
    FLXI_TRY(flxi_check_eps(f, "eps2", a->eps2));
    FLXI_TRY(infer_block(f, &p, &scores, &f->out[0]));
    a->head_dim = scores.head_dim;
    for (int i = PART_gamma1; i <= PART_beta2; i++)
        if (i == PART_gamma1 || i == PART_beta1 || i >= PART_gamma2)
            FLXI_TRY(check_vector(f, &p, (part)i));
    FLXI_TRY(flxi_infer_linear(f, f->in[0], type_of(f, &p, PART_w1), type_of(f, &p, PART_b1), "w1", "b1", &h));
    if (a->ffn_dim == FLXI_ABSENT && flxi_dim_is_number(h.dims[2]))
        a->ffn_dim = h.dims[2];
    if (a->ffn_dim != FLXI_ABSENT && !flxi_dims_may_equal(f, h.dims[2], a->ffn_dim))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "w1 must have ffn_dim=%lld columns, not %s", (long long)a->ffn_dim,
                               flxi_dim_str(f->ctx, h.dims[2], &text));
    FLXI_TRY(flxi_infer_linear(f, &h, type_of(f, &p, PART_w2), type_of(f, &p, PART_b2), "w2", "b2", &made));
    if (!flxi_dims_may_equal(f, made.dims[2], f->in[0]->dims[2]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "w2 must have as many columns as hidden, not %s",
                               flxi_dim_str(f->ctx, made.dims[2], &text));
    return FLX_OK;
}

/* layer_norm(x + residual); without a beta it is 0. */
static flx_val normalised_sum(flxi_site *s, flx_val x, flx_val residual, flx_val gamma, flx_val beta, double eps)
{
    return flx_layer_norm(s->g, flx_add(s->g, x, residual), gamma, flxi_or_zeros(s, beta, gamma), -1, eps);
}

static void decompose_transformer_layer(flxi_site *s, flx_val *y)
{
    const fused_attrs *a = s->attrs;
    fused_attrs scores = with_custom_mask(a);
    parts p = layer_parts(a);
    flx_type hidden = *flxi_typeof(s, s->x[0]);
    flx_val h = normalised_sum(s, append_block(s, &p, &scores), s->x[0], value_of(s, &p, PART_gamma1),
                               value_of(s, &p, PART_beta1), a->eps1);
    flx_val f = flxi_linear(s->g, h, value_of(s, &p, PART_w1), value_of(s, &p, PART_b1), a->act);
    f = flxi_linear(s->g, f, value_of(s, &p, PART_w2), value_of(s, &p, PART_b2), FLXI_ACT_none);
    f = flxi_reshape_to(s, f, hidden.rank, hidden.dims);
    y[0] = normalised_sum(s, f, h, value_of(s, &p, PART_gamma2), value_of(s, &p, PART_beta2), a->eps2);
}

#define LAYER8 "T[1, 2, 2], T[2, 6]" HALF ", T[2, 2]" HALF ", T[2], T[2, 3]" HALF ", T[3, 2]" HALF ", T[2]"
#define LAYER13                                                                                                        \
    "T[1, 2, 2], T[2, 6]" HALF ", T[6]" HALF ", T[2, 2]" HALF ", T[2]" HALF ", T[2], T[2], T[2, 3]" HALF ", T[3]" HALF \
    ", T[3, 2]" HALF ", T[2]" HALF ", T[2], T[2]"
static const flxi_sample samples_layer[] = {
    {LAYER8 ", bool[1, 2]", "num_heads=1, head_dim=2, ffn_dim=3, has_bias=false, eps1=0.5, eps2=0.25", NULL, FLX_OK},
    {LAYER13 ", i8[2]{0..1}", "num_heads=2, act=tanh, eps1=0.5, eps2=0.5", NULL, FLX_OK},
    {"T[N, M, 2], T[2, 6]" HALF ", T[2, 2]" HALF ", T[2], T[2, 3]" HALF ", T[3, 2]" HALF ", T[2], bool[N, M]",
     "num_heads=1, has_bias=false, act=none, eps1=0.5, eps2=0.5", NULL, FLX_OK},
    {LAYER13, "num_heads=1", NULL, FLX_E_ARITY},
    {LAYER8 ", bool[1, 2]", "num_heads=1", NULL, FLX_E_ARITY},
    {LAYER13 ", bool[1, 2]", "num_heads=1, has_bias=false", NULL, FLX_E_ARITY},
    {LAYER8 ", bool[1, 2]", "num_heads=1, has_bias=false, ffn_dim=2", NULL, FLX_E_SHAPE},
    {LAYER8 ", bool[1, 2]", "num_heads=1, has_bias=false, eps1=-1", NULL, FLX_E_ATTRIBUTE},
    {LAYER8 ", bool[1, 2]", "num_heads=1, has_bias=false, eps2=nan", NULL, FLX_E_ATTRIBUTE},
    {LAYER8 ", bool[2, 2]", "num_heads=1, has_bias=false", NULL, FLX_E_SHAPE},
    {"T[1, 2, 2], T[2, 6], T[2, 2], T[3], T[2, 3], T[3, 2], T[2], bool[1, 2]", "num_heads=1, has_bias=false", NULL,
     FLX_E_SHAPE},
    {"T[1, 2, 2], T[2, 6], T[2, 2], T[2], T[2, 3], T[3, 3], T[2], bool[1, 2]", "num_heads=1, has_bias=false", NULL,
     FLX_E_SHAPE},
    {"T[1, 2, 2], T[2, 6], T[2, 2], i32[2], T[2, 3], T[3, 2], T[2], bool[1, 2]", "num_heads=1, has_bias=false", NULL,
     FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_fused_transformer_layer = {
    .infer = infer_transformer_layer,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_transformer_layer,
    .schema = layer_schema,
    .attrs_size = sizeof(fused_attrs),
    .samples = samples_layer,
};
