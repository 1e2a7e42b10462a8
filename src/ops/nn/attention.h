/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h: shared by attention and the composites around it. */
#ifndef FLXI_ATTENTION_H
#define FLXI_ATTENTION_H

#include "ops/nn/head_layout.h"
#include "ops/opcode.h"

#define FLXI_MASK_KINDS "none causal sliding_window custom bias"
typedef enum { MASK_NONE, MASK_CAUSAL, MASK_SLIDING_WINDOW, MASK_CUSTOM, MASK_BIAS } flxi_mask_kind;

typedef struct {
    int64_t layout;
    int64_t num_heads, head_dim, num_kv_heads;
    int64_t mask_kind;
    int64_t window;              /* of sliding_window: how many keys before its own a query sees */
    double score_scale, softcap; /* NaN: 1/sqrt(head_dim), none */
    int64_t wrt;                 /* attention_backward: which operand's cotangent */
} flxi_attention_attrs;

/* Rows of a schema for the fields that define how scores become weights. */
#define A_SCORES(T) \
    A_INT_OPT(T, window, "none"), A_REAL_OPT(T, score_scale, "1/√head_dim"), A_REAL_OPT(T, softcap, "none")

/* The attributes of attention, or of its cotangents; NULL: of another op. */
static inline const flxi_attention_attrs *flxi_attention_attrs_of(flxi_opcode op, const void *attrs)
{
    bool is_ours = op == OP_attention || op == OP_attention_backward || op == OP_attention_backward_all;
    return is_ours ? (const flxi_attention_attrs *)attrs : NULL;
}

static inline const flxi_attention_attrs *flxi_attention_of(const flxi_node *n)
{
    return flxi_attention_attrs_of(n->op, n->attrs);
}

static inline bool flxi_mask_is_operand(int64_t mask_kind)
{
    return mask_kind == MASK_CUSTOM || mask_kind == MASK_BIAS;
}

/* Fails with ATTRIBUTE when window, softcap or score_scale are out of range or do not match the mask kind. */
flx_code flxi_check_scores(flxi_infer *f, int64_t mask_kind, int64_t window, double score_scale, double softcap);

/* Fails with DTYPE or SHAPE unless operand i is a mask of that kind for scores [N, H, Sq, Sk]. */
flx_code flxi_check_mask(flxi_infer *f, uint32_t operand, int64_t mask_kind, int32_t dtype, const flx_dim *scores);

#endif
