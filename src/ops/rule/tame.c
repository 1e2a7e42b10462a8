/* SPDX-License-Identifier: Apache-2.0 */
/* tame.c: see tame.h. */
#include "ops/rule/tame.h"

#include <math.h>

enum { FEW = 64 }; /* more elements are not looked at */

bool flxi_is_tame_constant(const flx_graph *g, uint32_t id, double least)
{
    const flxi_node *n = flxi_node_of(g, id);
    for (; flxi_ops[n->op].traits & TRAIT_COPIES; n = flxi_node_of(g, n->in[0]))
        continue;
    const flx_tensor *t = n->nin ? NULL : flxi_held_tensor(n);
    bool is_tame = t && t->count <= FEW && !flxi_is_complex(t->type.dtype);
    for (int64_t i = 0; is_tame && i < t->count; i++)
        is_tame = isfinite(flx_tensor_get(t, i)) && fabs(flx_tensor_get(t, i)) >= least;
    return is_tame;
}

bool flxi_always_tame(const flx_graph *g, const flxi_node *n, uint32_t operand)
{
    (void)g;
    (void)n;
    (void)operand;
    return true;
}
