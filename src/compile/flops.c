/* SPDX-License-Identifier: Apache-2.0 */
/* flops.c: see flops.h. */
#include "compile/flops.h"

#include "graph/op/work.h"

/* Whether the bodies of a node are steps of their own, which are counted there. */
static bool is_counted_in_bodies(const flx_graph *g, const flxi_node *n)
{
    flxi_body b;
    const flxi_rules *r = flxi_ops[n->op].rules;
    return r->bodies && r->bodies(g, n, 0, &b) &&
           (b.role == BODY_FUNCTION || b.role == BODY_BRANCH || b.role == BODY_TEST || b.role == BODY_ROUND);
}

int64_t flxi_node_flops(const flx_graph *g, uint32_t node)
{
    return is_counted_in_bodies(g, flxi_node_at(g, node)) ? 0 : flxi_node_work(g, node).flops;
}
