/* SPDX-License-Identifier: Apache-2.0 */
/* route_index.c: see route_index.h. */
#include "backend/cpu/routes/route_index.h"

#include <stdio.h>

flxi_route_index flxi_route_indices(const flxi_route_node *n, uint32_t operand, int64_t extent)
{
    return (flxi_route_index){.n = n,
                              .operand = operand,
                              .count = flxi_route_count(n->in_types[operand]),
                              .extent = extent,
                              .policy = (flxi_oob)flxi_route_int(n, "oob")};
}

flx_code flxi_route_check_indices(const flxi_route_index *x)
{
    const char *label = x->n->label;
    char op[120];
    snprintf(op, sizeof op, "%s%s%.80s%s", flxi_ops[x->n->op].name, label ? " '" : "", label ? label : "",
             label ? "'" : "");
    int32_t dtype = x->n->in_types[x->operand]->dtype;
    const void *idx = x->n->in[x->operand];
    for (int64_t i = 0; i < x->count; i++) {
        if (flxi_route_position(x, i) != -2)
            continue;
        int64_t k = flxi_load_int(dtype, idx, i);
        if (flxi_is_float(dtype) && !flxi_route_is_whole(flxi_load_double(dtype, idx, i)))
            return flxi_fail(x->n->err, FLX_E_INDEX, "%s: element %lld of the index operand is not an integer", op,
                             (long long)i);
        char number[24];
        snprintf(number, sizeof number, dtype == FLX_U64 ? "%llu" : "%lld", (unsigned long long)k);
        return flxi_fail_hint(x->n->err, FLX_E_INDEX, "oob=zero drops such positions, oob=clamp moves them into range",
                              "%s: index %s is out of range for an axis of extent %lld", op, number,
                              (long long)x->extent);
    }
    return FLX_OK;
}
