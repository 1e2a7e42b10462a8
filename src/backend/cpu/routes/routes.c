/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c: the table of routes and what they share. */
#include "backend/cpu/routes/routes.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

static const flxi_route routes[] = {
#define ROUTE(op, route, applies, scratch, run) {OP_##op, #route, applies, scratch, run, NULL, NULL, false, NULL},
#define IN_PLACE_ROUTE(op, route, applies, scratch, run) \
    {OP_##op, #route, applies, scratch, run, NULL, NULL, true, NULL},
#define PREFERRED_ROUTE(op, route, applies, scratch, preferred, run) \
    {OP_##op, #route, applies, scratch, run, NULL, NULL, false, preferred},
#define PREPARED_ROUTE(op, route, applies, scratch, kept, prepare, run) \
    {OP_##op, #route, applies, scratch, run, kept, prepare, false, NULL},
#include "backend/cpu/routes/routes.def"
#undef ROUTE
#undef IN_PLACE_ROUTE
#undef PREFERRED_ROUTE
#undef PREPARED_ROUTE
};

flxi_route_node flxi_route_node_of(const flxi_device_node *n)
{
    return (flxi_route_node){.op = n->op,
                             .attrs = n->attrs,
                             .nin = n->nin,
                             .nout = n->nout,
                             .in_types = n->in_types,
                             .out_types = n->out_types,
                             .label = n->label,
                             .origin = n->origin};
}

const flxi_route *flxi_route_list(size_t *count)
{
    *count = sizeof routes / sizeof *routes;
    return routes;
}

const flxi_route *flxi_route_find(const flxi_route_node *n, flxi_route_reasons *reasons)
{
    if (reasons)
        reasons->count = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (routes[i].op != n->op)
            continue;
        const char *why = routes[i].applies(n);
        if (!why)
            return &routes[i];
        if (reasons && reasons->count < (int)(sizeof reasons->at / sizeof *reasons->at)) {
            reasons->at[reasons->count].route = routes[i].name;
            reasons->at[reasons->count++].why = why;
        }
    }
    return NULL;
}

const char flxi_route_too_small[] = "too small for blocks to pay";

/* ---- For routes ---- */

int64_t flxi_route_int(const flxi_route_node *n, const char *name)
{
    const int64_t *x = flxi_attr_field(&flxi_ops[n->op], n->attrs, name, STORED_INT);
    return x ? *x : 0;
}

flx_ints flxi_route_ints(const flxi_route_node *n, const char *name)
{
    return *flxi_attr_ints(&flxi_ops[n->op], n->attrs, name);
}

bool flxi_route_has_graph(const flxi_route_node *n, const char *name)
{
    return flxi_attr_graph(&flxi_ops[n->op], n->attrs, name) != NULL;
}

int64_t flxi_route_count(const flx_type *t)
{
    return flxi_known_count(t);
}

int64_t flxi_route_chunk(int64_t count, int64_t bytes_each)
{
    static const int64_t worth = 1 << 16;
    int64_t chunk = bytes_each > 0 ? worth / bytes_each : count;
    return chunk < 1 ? 1 : chunk > count ? count : chunk;
}

size_t flxi_no_scratch(const flxi_route_node *n, int threads)
{
    (void)n;
    (void)threads;
    return 0;
}
