/* SPDX-License-Identifier: Apache-2.0 */
/* route_index.h: the indices that routes read positions from, under the out-of-range policy of docs/numerics.md. */
#ifndef FLXI_ROUTE_INDEX_H
#define FLXI_ROUTE_INDEX_H

#include "backend/cpu/routes/routes.h"
#include "graph/op/eval.h"

#include <math.h>

typedef struct {
    const flxi_route_node *n;
    uint32_t operand;      /* which one holds the indices */
    int64_t count, extent; /* indices, and positions they may name */
    flxi_oob policy;
} flxi_route_index;

/* The indices in that operand; the op has the attribute `oob`. */
flxi_route_index flxi_route_indices(const flxi_route_node *n, uint32_t operand, int64_t extent);

static inline bool flxi_route_is_whole(double v)
{
    return v == trunc(v) && isfinite(v);
}

/* The position that index i names, or -1 when it is dropped; -2 is an error. */
static inline int64_t flxi_route_position(const flxi_route_index *x, int64_t i)
{
    int32_t dtype = x->n->in_types[x->operand]->dtype;
    const void *idx = x->n->in[x->operand];
    int64_t k = flxi_load_int(dtype, idx, i);
    bool is_index = !flxi_is_float(dtype) || flxi_route_is_whole(flxi_load_double(dtype, idx, i));
    if (is_index && k >= 0 && k < x->extent)
        return k;
    if (x->policy == OOB_ZERO)
        return -1;
    if (x->policy == OOB_CLAMP && x->extent > 0)
        return dtype == FLX_U64 || k >= x->extent ? x->extent - 1 : k < 0 ? 0 : k;
    return -2;
}

/* Fails as the definition does on the first index that is an error. */
flx_code flxi_route_check_indices(const flxi_route_index *x);

#endif
