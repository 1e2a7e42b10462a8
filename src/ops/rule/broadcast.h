/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast.h: walks operands that broadcast to the shape of a result, one element at a time:

       for (flxi_lanes z = flxi_lanes_begin(e); z.i < z.count; flxi_lanes_next(&z))
           use(out, z.i, x, z.at[0], y, z.at[1]);

   For evaluators that cannot use flxi_eval_pointwise, because the operands have different dtypes, the result's dtype
   differs from theirs, or the bits of an element matter. */
#ifndef FLXI_BROADCAST_H
#define FLXI_BROADCAST_H

#include "base/host/stop.h"
#include "graph/op/eval.h"

enum { FLXI_LANES_MAX = 3 }; /* operands walked at once */

typedef struct {
    const flx_type *to;
    uint32_t operands;
    int64_t stride[FLXI_LANES_MAX][FLX_MAX_RANK]; /* 0 where the operand stretches */
    int64_t index[FLX_MAX_RANK];                  /* the current index */
    int64_t at[FLXI_LANES_MAX];                   /* the element of each operand there */
    int64_t i, count;                             /* the element of the result, and how many it has */
} flxi_lanes;

static inline flxi_lanes flxi_lanes_of(const flx_tensor *const *in, uint32_t n, const flx_tensor *to)
{
    flxi_lanes z = {.to = &to->type, .operands = n < FLXI_LANES_MAX ? n : FLXI_LANES_MAX, .count = to->count};
    for (uint32_t k = 0; k < z.operands; k++)
        flxi_broadcast_strides(&in[k]->type, z.to, z.stride[k]);
    return z;
}

static inline flxi_lanes flxi_lanes_begin(const flxi_eval *e)
{
    return flxi_lanes_of(e->in, e->nin, e->out[0]);
}

/* The last element comes early when the work is stopped. */
static inline void flxi_lanes_next(flxi_lanes *z)
{
    z->i = flxi_stopped_by_now() ? z->count : z->i + 1;
    flxi_next(z->index, z->to->dims, z->to->rank);
    for (uint32_t k = 0; k < z->operands; k++)
        z->at[k] = flxi_offset(z->index, z->stride[k], z->to->rank);
}

#endif
