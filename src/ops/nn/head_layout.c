/* SPDX-License-Identifier: Apache-2.0 */
/* head_layout.c: see head_layout.h. */
#include "ops/nn/head_layout.h"

#include "ops/rule/axis/extent.h"

typedef struct {
    const char *shape;
    int rank, heads, tokens; /* axes; heads -1: folded into the last axis */
} layout_axes;

static const layout_axes layouts[] = {
    [HEADS_BHSD] = {"[N, H, S, D]", 4, 1, 2},
    [HEADS_BSHD] = {"[N, S, H, D]", 4, 2, 1},
    [HEADS_BSD] = {"[N, S, H*D]", 3, -1, 1},
};

/* ---- Inference ---- */

/* An attribute that an axis of the operand determines. */
static flx_code infer_shown(flxi_infer *f, uint32_t operand, const char *what, flx_dim shown, const char *hint,
                            int64_t *attr)
{
    char name[32];
    flxi_dim_text text;
    flxi_operand_name(f, operand, name, sizeof name);
    if (*attr == FLXI_ABSENT && !flxi_dim_is_number(shown))
        return flxi_infer_fail(f, FLX_E_SHAPE, "only batch and sequence may be symbols",
                               "the %s of %s must be a number, not %s", what, name, flxi_dim_str(f->ctx, shown, &text));
    if (*attr == FLXI_ABSENT)
        *attr = shown;
    if (flxi_dims_may_equal(f, shown, *attr))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, hint, "the %s of %s must be %lld, not %s", what, name, (long long)*attr,
                           flxi_dim_str(f->ctx, shown, &text));
}

/* H*D in one axis: one of them must be known. */
static flx_code infer_folded(flxi_infer *f, uint32_t operand, flx_dim last, int64_t *num_heads, int64_t *head_dim)
{
    char name[32];
    flxi_dim_text text;
    int64_t *known = *num_heads == FLXI_ABSENT ? head_dim : num_heads;
    int64_t *other = known == num_heads ? head_dim : num_heads;
    if (*known == FLXI_ABSENT)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "layout=bsd does not determine them: give num_heads",
                               "num_heads or head_dim is missing");
    if (*other == FLXI_ABSENT && flxi_dim_is_number(last) && *known > 0 && last % *known == 0)
        *other = last / *known;
    flx_dim product = *other == FLXI_ABSENT ? FLX_DIM_INVALID : flx_dim_mul(f->ctx, *num_heads, *head_dim);
    if (product != FLX_DIM_INVALID && flxi_dims_may_equal(f, last, product))
        return FLX_OK;
    flxi_operand_name(f, operand, name, sizeof name);
    flxi_dim_str(f->ctx, last, &text);
    if (*other == FLXI_ABSENT)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "the last axis of %s, of extent %s, is not %lld %s", name,
                               text.text, (long long)*known, known == num_heads ? "heads" : "wide heads");
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "the last axis of %s must be %lld heads of %lld, not %s", name,
                           (long long)*num_heads, (long long)*head_dim, text.text);
}

flx_code flxi_infer_heads(flxi_infer *f, uint32_t operand, int64_t layout, int64_t *num_heads, int64_t *head_dim,
                          flxi_heads *heads)
{
    const flx_type *t = f->in[operand];
    const layout_axes *l = &layouts[layout];
    char name[32];
    flxi_type_text text;
    if (t->rank != l->rank)
        return flxi_infer_fail(f, FLX_E_SHAPE, "is it in another layout? The layouts are " FLXI_HEAD_LAYOUTS,
                               "%s must be %s, but it is %s", flxi_operand_name(f, operand, name, sizeof name),
                               l->shape, flxi_shape_str(f->ctx, t, &text));
    if (l->heads < 0) {
        FLXI_TRY(infer_folded(f, operand, t->dims[2], num_heads, head_dim));
    } else {
        const char *hint = operand ? "num_kv_heads says how many heads keys and values have" : NULL;
        FLXI_TRY(infer_shown(f, operand, "number of heads", t->dims[l->heads], hint, num_heads));
        FLXI_TRY(infer_shown(f, operand, "head width", t->dims[3], NULL, head_dim));
    }
    *heads = flxi_heads_of(t, layout, *num_heads, *head_dim);
    return FLX_OK;
}

/* ---- Types and values ---- */

flxi_heads flxi_heads_of(const flx_type *t, int64_t layout, int64_t num_heads, int64_t head_dim)
{
    return (flxi_heads){t->dims[0], num_heads, t->dims[layouts[layout].tokens], head_dim};
}

flx_type flxi_heads_type(flx_context *ctx, int32_t dtype, int64_t layout, const flxi_heads *h)
{
    flx_dim dims[4] = {h->n, h->heads, h->tokens, h->width};
    if (layout != HEADS_BHSD) {
        dims[1] = h->tokens;
        dims[2] = h->heads;
    }
    if (layout == HEADS_BSD)
        dims[2] = flx_dim_mul(ctx, h->heads, h->width);
    return flx_type_make((flx_dtype)dtype, layouts[layout].rank, dims);
}

static const int64_t heads_and_tokens[4] = {0, 2, 1, 3};

flx_val flxi_to_heads(flxi_site *s, flx_val v, int64_t layout, const flxi_heads *h)
{
    flx_dim dims[4] = {h->n, h->heads, h->tokens, h->width};
    if (layout == HEADS_BHSD)
        return flxi_reshape_to(s, v, 4, dims);
    flx_dim apart[4] = {h->n, h->tokens, h->heads, h->width};
    return flx_transpose(s->g, flxi_reshape_to(s, v, 4, apart), (flx_ints){heads_and_tokens, 4});
}

flx_val flxi_from_heads(flxi_site *s, flx_val v, int64_t layout, const flxi_heads *h)
{
    flx_type t = flxi_heads_type(s->ctx, flxi_typeof(s, v)->dtype, layout, h);
    if (layout != HEADS_BHSD)
        v = flx_transpose(s->g, v, (flx_ints){heads_and_tokens, 4});
    return flxi_reshape_to(s, v, t.rank, t.dims);
}

/* ---- Batching ---- */

flx_type flxi_example_type(const flxi_site *s, uint32_t i)
{
    const flx_type *t = flxi_typeof(s, s->x[i]);
    return s->batched[i] ? flx_type_make((flx_dtype)t->dtype, t->rank - 1, t->dims + 1) : *t;
}

flx_val flxi_fold_batch(flxi_site *s, flx_val v, bool is_batched, flx_dim n)
{
    flx_type t = *flxi_typeof(s, v);
    flx_dim dims[FLX_MAX_RANK + 1];
    int own = t.rank - is_batched; /* axes of one example */
    dims[0] = s->size;
    for (int k = 0; k < own; k++)
        dims[k + 1] = t.dims[k + is_batched];
    if (!is_batched)
        v = flxi_expand_to(s, v, own + 1, dims);
    dims[1] = flx_dim_mul(s->ctx, s->size, n);
    return flxi_reshape_to(s, v, own, dims + 1);
}

flx_val flxi_unfold_batch(flxi_site *s, flx_val v, const flx_type *example)
{
    flx_dim dims[FLX_MAX_RANK + 1] = {s->size};
    for (int k = 0; k < example->rank; k++)
        dims[k + 1] = example->dims[k];
    return flxi_reshape_to(s, v, example->rank + 1, dims);
}
