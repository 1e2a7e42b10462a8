/* SPDX-License-Identifier: Apache-2.0 */
/* head_layout.h: tensors of attention heads. Each op that takes them specifies the order of the axes; it is never
   guessed from extents, which may be equal. Rules compute on [N, H, S, D]: batch, heads, tokens, width of a head. */
#ifndef FLXI_HEAD_LAYOUT_H
#define FLXI_HEAD_LAYOUT_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

#define FLXI_HEAD_LAYOUTS "bhsd bshd bsd"
typedef enum { HEADS_BHSD, HEADS_BSHD, HEADS_BSD } flxi_head_layout; /* positions in that list; bsd is [N, S, H*D] */

typedef struct {
    flx_dim n, heads, tokens, width;
} flxi_heads;

/* Reads operand i. *num_heads and *head_dim are checked against its shape where they are given; where they are
   FLXI_ABSENT they are taken from the shape, and it is an error when the shape does not determine them. */
flx_code flxi_infer_heads(flxi_infer *f, uint32_t operand, int64_t layout, int64_t *num_heads, int64_t *head_dim,
                          flxi_heads *heads);

/* The batch and token extents of a tensor whose heads and width are known. */
flxi_heads flxi_heads_of(const flx_type *t, int64_t layout, int64_t num_heads, int64_t head_dim);
flx_type flxi_heads_type(flx_context *ctx, int32_t dtype, int64_t layout, const flxi_heads *heads);

/* v as [N, H, S, D], and such a tensor in a layout. */
flx_val flxi_to_heads(flxi_site *s, flx_val v, int64_t layout, const flxi_heads *heads);
flx_val flxi_from_heads(flxi_site *s, flx_val v, int64_t layout, const flxi_heads *heads);

/* ---- Batching: the batch axis is folded into N ---- */

/* v of a batched operand [B, N, ..], or of one that is not, [N, ..], as [B*n, ..]. */
flx_val flxi_fold_batch(flxi_site *s, flx_val v, bool is_batched, flx_dim n);
/* [B*n, ..] as [B, ..] with the extents of one example. */
flx_val flxi_unfold_batch(flxi_site *s, flx_val v, const flx_type *example);
/* The type of operand i without the batch axis. */
flx_type flxi_example_type(const flxi_site *s, uint32_t i);

#endif
