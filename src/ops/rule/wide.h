/* SPDX-License-Identifier: Apache-2.0 */
/* wide.h: a result that stays in the arithmetic of its dtype until it is complete, so that each element is rounded
   once, whatever the order in which its parts arrive. */
#ifndef FLXI_WIDE_H
#define FLXI_WIDE_H

#include "base/host/stop.h"
#include "graph/op/eval.h"

/* Room for the elements of result 0, each set to `start`; NULL with OOM reported. Ended by flxi_wide_end(). */
static inline flxi_num *flxi_wide_begin(flxi_eval *e, flxi_num start)
{
    int64_t n = e->out[0]->count;
    flxi_num *wide = flxi_alloc(e->mem, (size_t)n, sizeof *wide);
    if (!wide)
        flxi_oom(e->err, e->op->name);
    for (int64_t i = 0; wide && i < n && !flxi_stopped_by_now(); i++)
        wide[i] = start;
    return wide;
}

/* Rounds the elements into result 0, unless code says that something failed; frees them and returns code. */
static inline flx_code flxi_wide_end(flxi_eval *e, flxi_num *wide, flx_code code)
{
    flx_tensor *y = e->out[0];
    const flxi_arith *t = flxi_arith_of(y->type.dtype);
    for (int64_t i = 0; code == FLX_OK && i < y->count && !flxi_stopped_by_now(); i++)
        t->store(y->data, i, wide[i]);
    flxi_free(e->mem, wide, (size_t)y->count, sizeof *wide);
    return code;
}

#endif
