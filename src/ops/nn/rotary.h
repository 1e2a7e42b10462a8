/* SPDX-License-Identifier: Apache-2.0 */
/* rotary.h: the tables of a rotary embedding, for ops that also rotate heads. */
#ifndef FLXI_ROTARY_H
#define FLXI_ROTARY_H

#include "ops/nn/head_layout.h"

/* Fails with SHAPE unless operands cos and sin are [S, T] or [N, S, T] for these heads, with T at least `half`. */
flx_code flxi_check_rope_tables(flxi_infer *f, uint32_t cos_operand, uint32_t sin_operand, const flxi_heads *heads,
                                int64_t half);

#endif
