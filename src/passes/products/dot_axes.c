/* SPDX-License-Identifier: Apache-2.0 */
/* dot_axes.c: see dot_axes.h. */
#include "passes/products/dot_axes.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

/* matmul of one matrix on the right, or of as many on both sides. */
static bool matmul_axes(const flx_graph *g, const flxi_node *n, flxi_dot_axes *d)
{
    const flx_type *a = flxi_type_at(g, n->in[0]), *b = flxi_type_at(g, n->in[1]);
    size_t batch = (size_t)b->rank - 2;
    if (b->rank != 2 && (a->rank != b->rank || memcmp(a->dims, b->dims, batch * sizeof *a->dims) != 0))
        return false;
    d->summed[0] = a->rank - 1;
    d->summed[1] = b->rank - 2;
    for (size_t k = 0; k < batch; k++)
        d->batch[k] = (int64_t)k;
    d->lc = (flx_ints){&d->summed[0], 1};
    d->rc = (flx_ints){&d->summed[1], 1};
    d->lb = d->rb = (flx_ints){d->batch, batch};
    return true;
}

bool flxi_find_dot_axes(const flx_graph *g, const flxi_node *n, flxi_dot_axes *d)
{
    if (n->op == OP_matmul)
        return matmul_axes(g, n, d);
    if (n->op != OP_dot_general)
        return false;
    d->lc = *flxi_node_ints(n, "lc");
    d->rc = *flxi_node_ints(n, "rc");
    d->lb = *flxi_node_ints(n, "lb");
    d->rb = *flxi_node_ints(n, "rb");
    return true;
}
