/* SPDX-License-Identifier: Apache-2.0 */
/* route_index.c: see route_index.h. */
#include "backend/cpu/routes/route_index.h"

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
    const flxi_route_node *n = x->n;
    for (int64_t i = 0; i < x->count; i++)
        if (flxi_route_position(x, i) == -2)
            return flxi_index_fail((flxi_index_reader){&flxi_ops[n->op], n->label, n->origin},
                                   n->in_types[x->operand]->dtype, n->in[x->operand], i, x->extent, n->err);
    return FLX_OK;
}
