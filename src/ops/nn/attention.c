/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: attention and its cotangents, each defined by its decomposition.

   Heads that share keys are never copied: the queries of a group are stacked, [N, Hk, G*Sq, D], so that one
   product with [N, Hk, D, Sk] gives all their scores, and the sums over the group that the cotangents of k and v need
   are part of a product too. Besides the scores [N, H, Sq, Sk] nothing is larger than the operands.

   Keys that are not allowed get the score -inf and so the weight 0. In a row where none is allowed, 0 replaces -inf, so
   that the softmax is finite, and the weights are set to 0 afterwards: no derivative passes through such a row, in
   either mode, to any order. f16 and bf16 are computed in f32 and rounded at the end. */
#include "ops/nn/attention.h"

#include "ops/opcode.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/rule_lists.h"

#include <math.h>

enum { SCORES_RANK = 4 };
typedef enum { WRT_QUERY, WRT_KEY, WRT_VALUE, WRT_BIAS } wrt_operand; /* positions in the list of words */

/* clang-format off: one line for each attribute */
#define FORWARD_SCHEMA                                                                                             \
    {.name = "layout",                                                                                             \
     .kind = ATTR_WORD,                                                                                            \
     .offset = offsetof(flxi_attention_attrs, layout),                                                             \
     .words = FLXI_HEAD_LAYOUTS,                                                                                   \
     .flags = ATTR_REQUIRED},                                                                                      \
        A_INT_OPT(flxi_attention_attrs, num_heads, "from q"), A_INT_OPT(flxi_attention_attrs, head_dim, "from q"), \
        A_INT_OPT(flxi_attention_attrs, num_kv_heads, "num_heads"),                                                \
        A_WORD(flxi_attention_attrs, mask_kind, FLXI_MASK_KINDS), A_SCORES(flxi_attention_attrs)
/* clang-format on */

static const flxi_attr forward_schema[] = {FORWARD_SCHEMA, A_END};
static const flxi_attr backward_schema[] = {A_WORD_REQ(flxi_attention_attrs, wrt, "query key value bias"),
                                            FORWARD_SCHEMA, A_END};

/* ---- Inference ---- */

flx_code flxi_check_scores(flxi_infer *f, int64_t mask_kind, int64_t window, double score_scale, double softcap)
{
    bool windowed = mask_kind == MASK_SLIDING_WINDOW;
    if (windowed && window == FLXI_ABSENT)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "window=w allows a key and the w before it",
                               "mask_kind=sliding_window needs a window");
    if (!windowed && window != FLXI_ABSENT)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "set mask_kind=sliding_window",
                               "window needs mask_kind=sliding_window");
    if (windowed && window < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "window=0 allows one key", "window must not be negative: it is %lld",
                               (long long)window);
    if (softcap <= 0 || isinf(softcap))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "omit it for no cap",
                               "softcap must be positive and finite: it is %g", softcap);
    if (isinf(score_scale))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "score_scale must be finite");
    return FLX_OK;
}

flx_code flxi_check_mask(flxi_infer *f, uint32_t operand, int64_t mask_kind, int32_t dtype, const flx_dim *scores)
{
    const flx_type *m = f->in[operand];
    flx_type whole = flx_type_make((flx_dtype)dtype, SCORES_RANK, scores);
    flxi_type_text tm, ts;
    bool keys_only = mask_kind == MASK_CUSTOM && m->rank == 2;
    if (mask_kind == MASK_BIAS && m->dtype != dtype)
        return flxi_infer_fail(f, FLX_E_DTYPE, "cast it", "the bias must be %s like the queries, not %s",
                               flx_dtype_name(dtype), flx_dtype_name(m->dtype));
    if (flxi_is_complex(m->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, NULL, "the mask must be bool or real, not %s", flx_dtype_name(m->dtype));
    bool fits = m->rank <= SCORES_RANK;
    for (int k = 0; fits && k < m->rank; k++) {
        int axis = keys_only && k == 0 ? 0 : SCORES_RANK - m->rank + k;
        fits = m->dims[k] == 1 || flxi_dims_may_equal(f, m->dims[k], scores[axis]);
    }
    if (fits)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE,
                           keys_only ? "two axes are batch and keys; a mask for queries and keys is [1, 1, Sq, Sk]"
                                     : "axes align at the last one",
                           "the mask, of shape %s, does not broadcast to the scores [N, H, Sq, Sk] = %s",
                           flxi_shape_str(f->ctx, m, &tm), flxi_shape_str(f->ctx, &whole, &ts));
}

/* The numeric attributes are in range and consistent. */
static flx_code check_heads(flxi_infer *f, const flxi_attention_attrs *a)
{
    if (a->num_heads < 1 || a->num_kv_heads < 1 || a->head_dim < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "num_heads=%lld, num_kv_heads=%lld and head_dim=%lld must be at least 1",
                               (long long)a->num_heads, (long long)a->num_kv_heads, (long long)a->head_dim);
    if (a->num_heads % a->num_kv_heads)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "each head of keys and values is shared by the same number of heads",
                               "num_kv_heads=%lld does not divide num_heads=%lld", (long long)a->num_kv_heads,
                               (long long)a->num_heads);
    return FLX_OK;
}

/* Batch and keys of the operands agree. */
static flx_code check_extents(flxi_infer *f, const flxi_heads *q, const flxi_heads *k, const flxi_heads *v)
{
    flxi_type_text tq, tk, tv;
    bool batch =
        flxi_dims_may_equal(f, q->n, k->n) && flxi_dims_may_equal(f, q->n, v->n) && flxi_dims_may_equal(f, k->n, v->n);
    if (batch && flxi_dims_may_equal(f, k->tokens, v->tokens))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s differ: q is %s, k is %s, v is %s",
                           batch ? "the keys of k and v" : "the batch extents", flxi_shape_str(f->ctx, f->in[0], &tq),
                           flxi_shape_str(f->ctx, f->in[1], &tk), flxi_shape_str(f->ctx, f->in[2], &tv));
}

/* Checks q, k, v and the operand `mask`, if the kind has one; *y becomes the type of the result. */
static flx_code infer_forward(flxi_infer *f, uint32_t mask, flx_type *y)
{
    flxi_attention_attrs *a = f->attrs;
    flxi_heads q, k, v;
    int64_t width = FLXI_ABSENT;
    bool is_masked = f->nin > mask;
    if (is_masked != flxi_mask_is_operand(a->mask_kind))
        return flxi_infer_fail(f, FLX_E_ARITY, is_masked ? "set mask_kind=custom or mask_kind=bias" : NULL,
                               is_masked ? "this mask_kind takes no mask" : "this mask_kind needs a mask");
    FLXI_TRY(flxi_infer_heads(f, 0, a->layout, &a->num_heads, &a->head_dim, &q));
    if (a->num_kv_heads == FLXI_ABSENT)
        a->num_kv_heads = a->num_heads;
    FLXI_TRY(check_heads(f, a));
    FLXI_TRY(flxi_infer_heads(f, 1, a->layout, &a->num_kv_heads, &a->head_dim, &k));
    FLXI_TRY(flxi_infer_heads(f, 2, a->layout, &a->num_kv_heads, &width, &v));
    FLXI_TRY(check_extents(f, &q, &k, &v));
    FLXI_TRY(flxi_check_scores(f, a->mask_kind, a->window, a->score_scale, a->softcap));
    flx_dim scores[SCORES_RANK] = {flxi_agreed_dim(q.n, flxi_agreed_dim(k.n, v.n)), a->num_heads, q.tokens,
                                   flxi_agreed_dim(k.tokens, v.tokens)};
    if (is_masked)
        FLXI_TRY(flxi_check_mask(f, mask, a->mask_kind, f->in[0]->dtype, scores));
    *y = flxi_heads_type(f->ctx, f->in[0]->dtype, a->layout, &(flxi_heads){q.n, a->num_heads, q.tokens, v.width});
    return FLX_OK;
}

static flx_code infer_attention(flxi_infer *f)
{
    return infer_forward(f, 3, &f->out[0]);
}

/* The operands of attention, and dy at position 3. */
static flx_code infer_with_dy(flxi_infer *f)
{
    flx_type y;
    flxi_type_text td, ty;
    FLXI_TRY(infer_forward(f, 4, &y));
    bool is_same = f->in[3]->rank == y.rank;
    for (int k = 0; is_same && k < y.rank; k++)
        is_same = flxi_dims_may_equal(f, f->in[3]->dims[k], y.dims[k]);
    if (!is_same)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "dy must have the shape of the result, %s, but it is %s",
                               flxi_shape_str(f->ctx, &y, &ty), flxi_shape_str(f->ctx, f->in[3], &td));
    return FLX_OK;
}

static flx_code infer_backward_all(flxi_infer *f)
{
    FLXI_TRY(infer_with_dy(f));
    for (int i = 0; i < 3; i++)
        f->out[i] = *f->in[i];
    return FLX_OK;
}

static flx_code infer_backward(flxi_infer *f)
{
    const flxi_attention_attrs *a = f->attrs;
    FLXI_TRY(infer_with_dy(f));
    if (a->wrt == WRT_BIAS && a->mask_kind != MASK_BIAS)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "a custom mask has no cotangent", "wrt=bias needs mask_kind=bias");
    f->out[0] = *f->in[a->wrt == WRT_BIAS ? 4 : a->wrt];
    return FLX_OK;
}

/* ---- Weights ---- */

typedef struct {
    flxi_site *s;
    const flxi_attention_attrs *a;
    flxi_heads q, k, v;  /* k and v with their own number of heads */
    flx_val q4, k4, v4;  /* [N, H, S, D], wide */
    flx_val mask;        /* FLX_NONE, or [.., .., .., ..] that stretches to the scores */
    flx_val allowed;     /* FLX_NONE: all keys are */
    bool has_empty_rows; /* maybe: rows where no key is allowed */
    flx_val capped;      /* tanh(s / softcap), with a cap */
    flx_val weights;     /* P, [N, H, Sq, Sk] */
} attending;

static flx_val transposed(attending *t, flx_val v)
{
    return flx_transpose(t->s->g, v, FLX_INTS(0, 1, 3, 2));
}

/* [N, H, Sq, m] with the rows of a group stacked, [N, Hk, G*Sq, m]; and back. */
static flx_val grouped(attending *t, flx_val v, bool is_grouped)
{
    flx_dim m = flxi_typeof(t->s, v)->dims[3];
    flx_dim rows = flx_dim_mul(t->s->ctx, t->q.heads / t->k.heads, t->q.tokens);
    flx_dim dims[4] = {t->q.n, is_grouped ? t->k.heads : t->q.heads, is_grouped ? rows : t->q.tokens, m};
    return flxi_reshape_to(t->s, v, 4, dims);
}

/* For each query row of `rows` [N, H, Sq, m] its product with the matrix [N, Hk, m, l] of its group: [N, H, Sq, l]. */
static flx_val times(attending *t, flx_val rows, flx_val matrix)
{
    return grouped(t, flx_matmul(t->s->g, grouped(t, rows, true), matrix), false);
}

/* The products of all rows of a group, summed: [N, H, Sq, l]^T [N, H, Sq, m] to [N, Hk, l, m]. */
static flx_val summed(attending *t, flx_val left, flx_val right)
{
    return flx_matmul(t->s->g, transposed(t, grouped(t, left, true)), grouped(t, right, true));
}

static flx_val times_number(flxi_site *s, flx_val v, double x)
{
    return flx_mul(s->g, v, flxi_number(s, v, x));
}

static double score_scale(const flxi_attention_attrs *a)
{
    return isnan(a->score_scale) ? 1 / sqrt((double)a->head_dim) : a->score_scale;
}

/* The position of each query among the keys, [Sq, 1]: the last query is at the last key where there are more keys. */
static flx_val query_positions(attending *t)
{
    flxi_site *s = t->s;
    flx_type column = flx_type_make(FLX_I64, 2, (flx_dim[]){t->q.tokens, 1});
    flx_val i = flx_iota(s->g, &column, 0);
    flx_val zero = flx_scalar(s->g, FLX_I64, 0);
    flx_dim before = flx_dim_sub(s->ctx, t->k.tokens, t->q.tokens);
    if (flxi_dim_is_number(before) && before <= 0)
        return i;
    flx_val offset =
        flx_sub(s->g, flxi_index_number(s, FLX_I64, t->k.tokens), flxi_index_number(s, FLX_I64, t->q.tokens));
    return flx_add(s->g, i, flx_max(s->g, offset, zero));
}

/* Causal and windowed: [Sq, Sk]. The window's far edge matters only as far as a tensor can reach. */
static flx_val allowed_positions(attending *t)
{
    flxi_site *s = t->s;
    const int64_t most = INT64_C(1) << 53; /* a scalar is made from a double */
    flx_type row = flx_type_make(FLX_I64, 2, (flx_dim[]){1, t->k.tokens});
    flx_val j = flx_iota(s->g, &row, 1);
    flx_val i = query_positions(t);
    flx_val allowed = flx_le(s->g, j, i);
    if (t->a->mask_kind == MASK_CAUSAL)
        return allowed;
    flx_val window = flx_scalar(s->g, FLX_I64, (double)(t->a->window < most ? t->a->window : most));
    return flx_and(s->g, allowed, flx_ge(s->g, j, flx_sub(s->g, i, window)));
}

/* The mask with all four axes. A custom mask of two axes has batch and keys. */
static flx_val mask_of_scores(attending *t, flx_val mask)
{
    const flx_type *m = flxi_typeof(t->s, mask);
    flx_dim dims[SCORES_RANK] = {1, 1, 1, 1};
    int shift = SCORES_RANK - m->rank;
    for (int k = 0; k < m->rank; k++)
        dims[shift + k] = m->dims[k];
    if (t->a->mask_kind == MASK_CUSTOM && m->rank == 2) {
        dims[0] = m->dims[0];
        dims[2] = 1;
    }
    const flx_dim scores[SCORES_RANK] = {t->q.n, t->q.heads, t->q.tokens, t->k.tokens};
    for (int k = 0; k < SCORES_RANK; k++) /* a number where one of the two has a symbol */
        dims[k] = dims[k] == 1 ? 1 : scores[k];
    return flxi_reshape_to(t->s, mask, SCORES_RANK, dims);
}

static flx_val allowed_by_mask(attending *t)
{
    flxi_site *s = t->s;
    int32_t dtype = flxi_typeof(s, t->mask)->dtype;
    if (t->a->mask_kind == MASK_BIAS)
        return flx_ne(s->g, t->mask, flxi_number(s, t->mask, -INFINITY));
    if (dtype == FLX_BOOL)
        return t->mask;
    return flx_ge(s->g, t->mask, flxi_number(s, t->mask, flxi_is_float(dtype) ? 0.5 : 1));
}

static void find_allowed(attending *t)
{
    int64_t kind = t->a->mask_kind;
    flx_dim before = flx_dim_sub(t->s->ctx, t->k.tokens, t->q.tokens);
    bool reaches = flxi_dim_is_number(before) && before >= 0; /* every query is at a key */
    t->allowed = kind == MASK_NONE ? FLX_NONE : flxi_is_none(t->mask) ? allowed_positions(t) : allowed_by_mask(t);
    t->has_empty_rows = kind == MASK_SLIDING_WINDOW ? !reaches : flxi_mask_is_operand(kind);
}

/* softmax over the allowed keys of l */
static flx_val weights_of(attending *t, flx_val l)
{
    flx_graph *g = t->s->g;
    flx_val fill = flxi_number(t->s, l, -INFINITY);
    if (flxi_is_none(t->allowed))
        return flx_softmax(g, l, 3);
    if (t->has_empty_rows)
        fill = flx_where(g, flx_reduce_any(g, t->allowed, FLX_INTS(-1), true), fill, flxi_number(t->s, l, 0));
    flx_val p = flx_softmax(g, flx_where(g, t->allowed, l, fill), 3);
    return t->has_empty_rows ? flxi_masked(t->s, t->allowed, p) : p;
}

/* The operands as heads, and the weights. `mask` may be FLX_NONE. */
static attending attend(flxi_site *s, flx_val mask)
{
    const flxi_attention_attrs *a = s->attrs;
    attending t = {.s = s, .a = a, .capped = FLX_NONE};
    const flx_type *tq = flxi_typeof(s, s->x[0]), *tk = flxi_typeof(s, s->x[1]), *tv = flxi_typeof(s, s->x[2]);
    flx_dim last = tv->rank ? tv->dims[tv->rank - 1] : 1;
    t.q = flxi_heads_of(tq, a->layout, a->num_heads, a->head_dim);
    t.k = flxi_heads_of(tk, a->layout, a->num_kv_heads, a->head_dim);
    t.v = flxi_heads_of(tv, a->layout, a->num_kv_heads, a->layout == HEADS_BSD ? last / a->num_kv_heads : last);
    t.q.n = t.k.n = t.v.n = flxi_agreed_dim(t.q.n, flxi_agreed_dim(t.k.n, t.v.n));
    t.k.tokens = t.v.tokens = flxi_agreed_dim(t.k.tokens, t.v.tokens);
    t.q4 = flxi_to_heads(s, flxi_widen(s, s->x[0]), a->layout, &t.q);
    t.k4 = flxi_to_heads(s, flxi_widen(s, s->x[1]), a->layout, &t.k);
    t.v4 = flxi_to_heads(s, flxi_widen(s, s->x[2]), a->layout, &t.v);
    t.mask = flxi_is_none(mask) ? mask : mask_of_scores(&t, mask);
    find_allowed(&t);
    flx_val l = times_number(s, times(&t, t.q4, transposed(&t, t.k4)), score_scale(a));
    if (!isnan(a->softcap)) {
        t.capped = flx_tanh(s->g, flx_div(s->g, l, flxi_number(s, l, a->softcap)));
        l = times_number(s, t.capped, a->softcap);
    }
    if (a->mask_kind == MASK_BIAS)
        l = flx_add(s->g, l, flxi_masked(s, t.allowed, flxi_widen(s, t.mask)));
    t.weights = weights_of(&t, l);
    return t;
}

/* [N, H, S, D] in the layout of operand i. */
static flx_val as_operand(attending *t, flx_val v, uint32_t i, const flxi_heads *heads)
{
    const flx_type *type = flxi_typeof(t->s, t->s->x[i]);
    return flxi_as_dtype(t->s, flxi_reshape_like(t->s, flxi_from_heads(t->s, v, t->a->layout, heads), type),
                         type->dtype);
}

/* ---- Causal attention in parts ---- */

/* Queries that cannot see the last keys are computed without them: with many tokens that is half of the work. Parts
   have about as many queries as this: fewer would make products too small, more would leave more to mask. */
enum { PART_QUERIES = 256, MOST_PARTS = 8 };

typedef struct {
    int64_t queries, keys; /* of all parts */
    int64_t each;          /* queries of a part; 0: there are no parts */
    int axis;              /* of tokens, in all operands */
} causal_parts;

static causal_parts find_parts(const flxi_site *s)
{
    const flxi_attention_attrs *a = s->attrs;
    causal_parts p = {.axis = a->layout == HEADS_BHSD ? 2 : 1};
    flx_dim queries = flxi_typeof(s, s->x[0])->dims[p.axis];
    flx_dim keys = flxi_agreed_dim(flxi_typeof(s, s->x[1])->dims[p.axis], flxi_typeof(s, s->x[2])->dims[p.axis]);
    if (a->mask_kind != MASK_CAUSAL || !flxi_dim_is_number(queries) || !flxi_dim_is_number(keys) || queries > keys ||
        queries < 2 * PART_QUERIES || queries < keys / 4) /* nearly all keys are seen by all */
        return p;
    p.queries = queries;
    p.keys = keys;
    p.each = queries / MOST_PARTS > PART_QUERIES ? (queries + MOST_PARTS - 1) / MOST_PARTS : PART_QUERIES;
    return p;
}

/* The same op for the queries of the part that begins at `from`, and the keys that they see. */
static flx_val attend_part(flxi_site *s, const causal_parts *p, const flx_val *x, int64_t from)
{
    flx_graph *g = s->g;
    flx_val part[4];
    int64_t queries = p->queries - from < p->each ? p->queries - from : p->each;
    int64_t keys = p->keys - p->queries + from + queries;
    part[0] = flx_narrow(g, x[0], p->axis, from, queries);
    part[1] = flx_narrow(g, x[1], p->axis, 0, keys);
    part[2] = flx_narrow(g, x[2], p->axis, 0, keys);
    if (s->nin > 3)
        part[3] = flx_narrow(g, x[3], p->axis, from, queries);
    return flxi_emit1(s, NULL, part, s->nin);
}

/* Zeros for the keys that a part does not see. */
static flx_val with_all_keys(flxi_site *s, const causal_parts *p, flx_val d)
{
    const flx_type *t = flxi_typeof(s, d);
    int64_t zeros[FLX_MAX_RANK] = {0}, after[FLX_MAX_RANK] = {0};
    size_t rank = (size_t)t->rank;
    after[p->axis] = p->keys - t->dims[p->axis];
    if (!after[p->axis])
        return d;
    return flx_pad(s->g, d, flxi_number(s, d, 0), ((flx_ints){zeros, rank}), ((flx_ints){after, rank}),
                   ((flx_ints){zeros, rank}));
}

/* Results for queries are put together, those for keys are added. f16 and bf16 are rounded once, at the end. */
static flx_val attend_in_parts(flxi_site *s, const causal_parts *p, bool is_for_keys)
{
    flx_val x[4], d[2 * MOST_PARTS], sum = FLX_NONE;
    int32_t dtype = flxi_typeof(s, s->x[0])->dtype;
    size_t n = 0;
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = flxi_widen(s, s->x[i]);
    for (int64_t from = 0; from < p->queries; from += p->each, n++) {
        d[n] = attend_part(s, p, x, from);
        if (is_for_keys)
            sum = flxi_sum(s, sum, with_all_keys(s, p, d[n]));
    }
    return flxi_as_dtype(s, is_for_keys ? sum : flx_concat(s->g, d, n, p->axis), dtype);
}

static void decompose_attention(flxi_site *s, flx_val *y)
{
    causal_parts parts = find_parts(s);
    if (parts.each) {
        y[0] = attend_in_parts(s, &parts, false);
        return;
    }
    attending t = attend(s, s->nin > 3 ? s->x[3] : FLX_NONE);
    const flx_type *tq = flxi_typeof(s, s->x[0]);
    flxi_heads out = {t.q.n, t.q.heads, t.q.tokens, t.v.width};
    flx_val v = flxi_from_heads(s, times(&t, t.weights, t.v4), t.a->layout, &out);
    out.n = tq->dims[0];
    flx_type type = flxi_heads_type(s->ctx, tq->dtype, t.a->layout, &out);
    y[0] = flxi_as_dtype(s, flxi_reshape_like(s, v, &type), type.dtype);
}

/* ---- Cotangents ---- */

/* The cotangent of the scores before the scale, or with `bias` of the added bias, from that of the result. */
static flx_val score_cotangent(attending *t, flx_val dy, bool of_bias)
{
    flxi_site *s = t->s;
    flx_graph *g = s->g;
    flx_val dp = times(t, dy, transposed(t, t->v4));
    if (t->has_empty_rows)
        dp = flxi_masked(s, t->allowed, dp);
    flx_val dl =
        flx_mul(g, t->weights, flx_sub(g, dp, flx_reduce_sum(g, flx_mul(g, t->weights, dp), FLX_INTS(3), true)));
    if (of_bias)
        return t->has_empty_rows ? flxi_masked(s, t->allowed, dl) : dl;
    if (!flxi_is_none(t->capped)) {
        flx_val one = flxi_number(s, dl, 1);
        dl = flx_mul(g, dl, flx_mul(g, flx_sub(g, one, t->capped), flx_add(g, one, t->capped)));
    }
    return times_number(s, dl, score_scale(t->a));
}

static void decompose_backward(flxi_site *s, flx_val *d)
{
    const flxi_attention_attrs *a = s->attrs;
    causal_parts parts = find_parts(s);
    if (parts.each) {
        d[0] = attend_in_parts(s, &parts, a->wrt != WRT_QUERY);
        return;
    }
    attending t = attend(s, s->nin > 4 ? s->x[4] : FLX_NONE);
    flxi_heads out = {t.q.n, t.q.heads, t.q.tokens, t.v.width};
    flx_val dy = flxi_to_heads(s, flxi_widen(s, s->x[3]), a->layout, &out);
    if (a->wrt == WRT_VALUE) {
        d[0] = as_operand(&t, summed(&t, t.weights, dy), 2, &t.v);
        return;
    }
    flx_val ds = score_cotangent(&t, dy, a->wrt == WRT_BIAS);
    if (a->wrt == WRT_QUERY) {
        d[0] = as_operand(&t, times(&t, ds, t.k4), 0, &t.q);
    } else if (a->wrt == WRT_KEY) {
        d[0] = as_operand(&t, summed(&t, ds, t.q4), 1, &t.k);
    } else {
        const flx_type *bias = flxi_typeof(s, s->x[4]);
        flx_val sum = flxi_unbroadcast(s, ds, flxi_typeof(s, t.mask));
        d[0] = flxi_as_dtype(s, flxi_reshape_like(s, sum, bias), bias->dtype);
    }
}

/* One node for each operand that needs a cotangent; shared parts are computed once when they are compiled together. */
static void backward_vjp_attention(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val x[5] = {s->x[0], s->x[1], s->x[2], dy[0], s->nin > 3 ? s->x[3] : FLX_NONE};
    const flxi_attention_attrs *forward = s->attrs;
    flxi_site backward = *s;
    backward.op = &flxi_ops[OP_attention_backward];
    for (uint32_t i = 0; i < s->nin; i++) {
        if (!s->wanted[i] || (i == 3 && forward->mask_kind != MASK_BIAS))
            continue;
        flxi_attention_attrs *a = flxi_site_attrs(&backward);
        if (!a)
            return;
        a->wrt = (int64_t)i;
        dx[i] = flxi_emit1(&backward, a, x, s->nin + 1);
    }
}

static void decompose_backward_all(flxi_site *s, flx_val *d)
{
    flxi_site backward = *s;
    backward.op = &flxi_ops[OP_attention_backward];
    for (uint32_t i = 0; i < 3; i++) {
        flxi_attention_attrs *a = flxi_site_attrs(&backward);
        if (!a)
            return;
        a->wrt = (int64_t)i;
        d[i] = flxi_emit1(&backward, a, s->x, 4);
    }
}

/* ---- Batching: folded into N ---- */

/* The mask [B*n, ..], with four axes. `whole`: also where one mask for all examples would do. */
static flx_val fold_mask(flxi_site *s, uint32_t i, flx_dim n, bool is_whole)
{
    const flxi_attention_attrs *a = s->attrs;
    flx_type m = flxi_example_type(s, i);
    flx_dim dims[SCORES_RANK + 1] = {s->size, 1, 1, 1, 1};
    int first = s->batched[i] ? 0 : 1; /* an unbatched mask has no batch axis yet */
    for (int k = 0; k < m.rank; k++)
        dims[1 + SCORES_RANK - m.rank + k] = m.dims[k];
    if (a->mask_kind == MASK_CUSTOM && m.rank == 2) {
        dims[1] = m.dims[0];
        dims[3] = 1;
    }
    flx_val v = flxi_reshape_to(s, s->x[i], SCORES_RANK + 1 - first, dims + first);
    if (!s->batched[i] && dims[1] == 1 && !is_whole)
        return v;
    if (dims[1] == 1) {
        dims[1] = n;
        v = flxi_expand_to(s, v, SCORES_RANK + 1 - first, dims + first);
    }
    return flxi_fold_batch(s, v, s->batched[i], n);
}

/* The cotangent of a mask that was folded whole, as [B, ..] with the extents of one example. */
static flx_val unfold_bias(flxi_site *s, flx_val d, flx_dim n, const flx_type *example)
{
    flx_type t = *flxi_typeof(s, d);
    flx_dim dims[SCORES_RANK + 1] = {s->size, n, t.dims[1], t.dims[2], t.dims[3]};
    bool per_item = example->rank == SCORES_RANK && example->dims[0] != 1;
    d = flxi_reshape_to(s, d, SCORES_RANK + 1, dims);
    return flxi_unfold_batch(s, per_item ? d : flxi_sum_axes(s, d, FLX_INTS(1), false), example);
}

static void batch_attention(flxi_site *s, flx_val *by)
{
    const flxi_attention_attrs *a = s->attrs;
    flx_val x[5];
    bool is_backward = s->op == &flxi_ops[OP_attention_backward];
    bool of_bias = is_backward && a->wrt == WRT_BIAS;
    uint32_t mask = is_backward ? 4 : 3;
    flx_type q = flxi_example_type(s, 0);
    flx_dim n = q.dims[0];
    for (uint32_t i = 1; i < 3; i++)
        n = flxi_agreed_dim(n, flxi_example_type(s, i).dims[0]);
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = i == mask ? fold_mask(s, i, n, of_bias) : flxi_fold_batch(s, s->x[i], s->batched[i], n);
    flx_val y = flxi_emit1(s, NULL, x, s->nin);
    if (of_bias) {
        flx_type bias = flxi_example_type(s, mask);
        by[0] = unfold_bias(s, y, n, &bias);
        return;
    }
    flx_type example = is_backward ? flxi_example_type(s, (uint32_t)a->wrt) : *flxi_typeof(s, y);
    example.dims[0] = is_backward ? example.dims[0] : q.dims[0];
    by[0] = flxi_unfold_batch(s, y, &example);
}

/* ---- Rules ---- */

/* Small scores: saturated weights have derivatives that cancel. */
#define HALF "{-0.5..0.5}"
static const flxi_sample samples_attention[] = {
    {"T[2, 2, 3, 4]" HALF ", T[2, 2, 3, 4]" HALF ", T[2, 2, 3, 4]", "layout=bhsd", NULL, FLX_OK},
    {"T[2, 3, 4, 2]" HALF ", T[2, 5, 2, 2]" HALF ", T[2, 5, 2, 3]",
     "layout=bshd, num_kv_heads=2, mask_kind=causal, softcap=1.5", NULL, FLX_OK},
    {"T[1, 3, 4]" HALF ", T[1, 2, 4]" HALF ", T[1, 2, 6]", "layout=bsd, num_heads=2, score_scale=-0.75", NULL, FLX_OK},
    {"T[1, 4, 2]" HALF ", T[1, 2, 2]" HALF ", T[1, 2, 2]", "layout=bsd, head_dim=2, mask_kind=sliding_window, window=0",
     NULL, FLX_OK},
    {"T[2, 1, 2, 2]" HALF ", T[2, 1, 3, 2]" HALF ", T[2, 1, 3, 1], bool[2, 3]", "layout=bhsd, mask_kind=custom", NULL,
     FLX_OK},
    {"T[2, 1, 2, 2]" HALF ", T[2, 1, 3, 2]" HALF ", T[2, 1, 3, 1], T[2, 1]{0..0.25}", "layout=bhsd, mask_kind=custom",
     NULL, FLX_OK},
    {"T[1, 2, 2, 1]" HALF ", T[1, 1, 2, 1]" HALF ", T[1, 1, 2, 1], i8[2, 1, 2]{0..1}",
     "layout=bhsd, num_kv_heads=1, mask_kind=custom", NULL, FLX_OK},
    {"T[2, 2, 3, 2]" HALF ", T[2, 2, 2, 2]" HALF ", T[2, 2, 2, 2], T[2, 1, 3, 2]" HALF,
     "layout=bhsd, mask_kind=bias, softcap=2", NULL, FLX_OK},
    {"T[2, 3, 2, 1]" HALF ", T[2, 2, 2, 1]" HALF ", T[2, 2, 2, 1], T[3, 2]" HALF, "layout=bshd, mask_kind=bias", NULL,
     FLX_OK},
    {"T[N, 2, M, 2]" HALF ", T[N, 1, K, 2]" HALF ", T[N, 1, K, 2]",
     "layout=bhsd, num_kv_heads=1, mask_kind=sliding_window, window=1", NULL, FLX_OK},
    {"T[N, M, 2]" HALF ", T[N, M, 2]" HALF ", T[N, M, 2], T[N, 1, M, M]" HALF,
     "layout=bsd, num_heads=1, mask_kind=bias", NULL, FLX_OK},
    {"T[2, 1, 3, 2]" HALF ", T[2, 1, 0, 2], T[2, 1, 0, 2]", "layout=bhsd, mask_kind=causal", NULL, FLX_OK},
    {"T[2, 0, 2]" HALF ", T[2, 1, 2]" HALF ", T[2, 1, 2], bool[2, 1]", "layout=bsd, num_heads=1, mask_kind=custom",
     NULL, FLX_OK},
    {"T[2, 3, 4], T[2, 3, 4], T[2, 3, 4]", "layout=bsd", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 3, 4], T[2, 3, 4], T[2, 3, 4]", "layout=bsd, num_heads=3", NULL, FLX_E_SHAPE},
    {"T[2, 3, 4], T[2, 3, 4], T[2, 3, 4]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 4, 3, 2], T[2, 2, 3, 2], T[2, 2, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 4, 3, 2], T[2, 3, 3, 2], T[2, 3, 3, 2]", "layout=bhsd, num_kv_heads=3", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[1, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 4, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 4], T[2, 1, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, N, 3, 2], T[2, N, 3, 2], T[2, N, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, mask_kind=custom", NULL, FLX_E_ARITY},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 3]", "layout=bhsd, mask_kind=causal", NULL, FLX_E_ARITY},
    {"T[2, 1, 3, 2], T[2, 1, 4, 2], T[2, 1, 4, 2], bool[3, 4]", "layout=bhsd, mask_kind=custom", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 4, 2], T[2, 1, 4, 2], T[2, 4]", "layout=bhsd, mask_kind=bias", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], bool[3, 3]", "layout=bhsd, mask_kind=bias", NULL, FLX_E_DTYPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], c64[2, 3]", "layout=bhsd, mask_kind=custom", NULL, FLX_E_DTYPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, mask_kind=sliding_window", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, window=2", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, mask_kind=sliding_window, window=-1", NULL,
     FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, softcap=0", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, num_kv_heads=0", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_attention = {
    .infer = infer_attention,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_attention,
    .backward_vjp = backward_vjp_attention,
    .batch = batch_attention,
    .schema = forward_schema,
    .attrs_size = sizeof(flxi_attention_attrs),
    .samples = samples_attention,
};

static const flxi_sample samples_backward[] = {
    {"T[2, 2, 2, 2]" HALF ", T[2, 1, 3, 2]" HALF ", T[2, 1, 3, 2]" HALF ", T[2, 2, 2, 2]" HALF,
     "wrt=query, layout=bhsd, num_kv_heads=1, softcap=1.5, mask_kind=causal", NULL, FLX_OK},
    {"T[2, 2, 2, 2]" HALF ", T[2, 3, 1, 2]" HALF ", T[2, 3, 1, 1]" HALF ", T[2, 2, 2, 1]" HALF,
     "wrt=key, layout=bshd, num_kv_heads=1, score_scale=0.5", NULL, FLX_OK},
    {"T[1, 2, 4]" HALF ", T[1, 3, 4]" HALF ", T[1, 3, 2]" HALF ", T[1, 2, 2]" HALF ", bool[1, 3]",
     "wrt=value, layout=bsd, num_heads=2, mask_kind=custom", NULL, FLX_OK},
    {"T[2, 1, 2, 2]" HALF ", T[2, 1, 2, 2]" HALF ", T[2, 1, 2, 2]" HALF ", T[2, 1, 2, 2]" HALF ", T[2, 1, 1, 2]" HALF,
     "wrt=bias, layout=bhsd, mask_kind=bias, softcap=2", NULL, FLX_OK},
    {"T[2, 1, 2, 2]" HALF ", T[2, 1, 2, 2]" HALF ", T[2, 1, 2, 2]" HALF ", T[2, 1, 2, 2]" HALF ", T[2, 2]" HALF,
     "wrt=bias, layout=bhsd, mask_kind=bias", NULL, FLX_OK},
    {"T[N, 1, M, 2]" HALF ", T[N, 1, K, 2]" HALF ", T[N, 1, K, 2]" HALF ", T[N, 1, M, 2]" HALF,
     "wrt=key, layout=bhsd, mask_kind=sliding_window, window=1", NULL, FLX_OK},
    {"T[1, 1, 2, 2]" HALF ", T[1, 1, 0, 2]" HALF ", T[1, 1, 0, 2]" HALF ", T[1, 1, 2, 2]" HALF,
     "wrt=query, layout=bhsd", NULL, FLX_OK},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 1], T[2, 1, 3, 2]", "wrt=query, layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], T[3, 3]", "wrt=bias, layout=bhsd, mask_kind=custom",
     NULL, FLX_E_SHAPE},
    {"T[3, 1, 3, 2], T[3, 1, 3, 2], T[3, 1, 3, 2], T[3, 1, 3, 2], T[3, 3]", "wrt=bias, layout=bhsd, mask_kind=custom",
     NULL, FLX_E_ATTRIBUTE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_attention_backward = {
    .infer = infer_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_backward,
    .batch = batch_attention,
    .schema = backward_schema,
    .attrs_size = sizeof(flxi_attention_attrs),
    .samples = samples_backward,
};

static const flxi_sample samples_backward_all[] = {
    {"T[2, 2, 2, 2]" HALF ", T[2, 1, 3, 2]" HALF ", T[2, 1, 3, 2]" HALF ", T[2, 2, 2, 2]" HALF,
     "layout=bhsd, num_kv_heads=1, softcap=1.5, mask_kind=causal", NULL, FLX_OK},
    {"T[2, 3, 2, 2]" HALF ", T[2, 3, 2, 2]" HALF ", T[2, 3, 2, 1]" HALF ", T[2, 3, 2, 1]" HALF,
     "layout=bshd, score_scale=0.5", NULL, FLX_OK},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 1], T[2, 1, 3, 2]", "layout=bhsd", NULL, FLX_E_SHAPE},
    {"T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2], T[2, 1, 3, 2]", "layout=bhsd, mask_kind=bias", NULL, FLX_E_ARITY},
    {0},
};

const flxi_rules flxi_rules_attention_backward_all = {
    .infer = infer_backward_all,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_backward_all,
    .schema = forward_schema,
    .attrs_size = sizeof(flxi_attention_attrs),
    .samples = samples_backward_all,
};
