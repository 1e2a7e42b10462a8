/* SPDX-License-Identifier: Apache-2.0 */
/* join_cotangents.c: the cotangents of q, k and v of attention, which reverse mode makes as a node each, as one node,
   for devices that compute them together: all three need the same scores. */
#include "passes/decompose.h"
#include "passes/pass.h"

#include "ops/nn/attention.h"
#include "ops/opcode.h"

enum { WRTS = 3 };

static bool is_cotangent(const flx_graph *g, const flxi_node *n)
{
    return n->op == OP_attention_backward && n->nin == WRTS + 1 && !flxi_value_at(g, n->first)->pinned &&
           flxi_attention_of(n)->wrt < WRTS;
}

/* Whether both belong to one attention. */
static bool belong(const flxi_node *a, const flxi_node *b)
{
    flxi_attention_attrs x = *flxi_attention_of(a), y = *flxi_attention_of(b);
    x.wrt = y.wrt = 0;
    return memcmp(a->in, b->in, (WRTS + 1) * sizeof *a->in) == 0 && memcmp(&x, &y, sizeof x) == 0;
}

/* All three in the new graph, for node i and those after it that belong to it; false: they stay as they are. */
static bool join(flxi_copy *c, uint32_t i, bool (*has_way)(const flx_graph *g, uint32_t node, const void *user),
                 const void *user, flx_val *d)
{
    flxi_site s = flxi_site_of(c->to, c->from, i, c->remap.id);
    s.op = &flxi_ops[OP_attention_backward_all];
    s.nout = WRTS;
    flxi_attention_attrs *a = flxi_site_attrs(&s);
    if (!a)
        return false;
    a->wrt = 0;
    flxi_append(&s, a, s.x, WRTS + 1, d);
    return flx_graph_error(c->to, NULL) == FLX_OK && has_way(c->to, flxi_value_at(c->to, d[0].id)->node, user);
}

static void replace_all(flxi_copy *c, uint32_t i, const flx_val *d)
{
    const flxi_node *first = flxi_node_at(c->from, i);
    for (uint32_t j = i; j < c->from->node_count; j++) {
        const flxi_node *n = flxi_node_at(c->from, j);
        if (is_cotangent(c->from, n) && belong(first, n))
            flxi_copy_replace(c, n->first, d[flxi_attention_of(n)->wrt].id);
    }
}

static uint32_t count_others(const flx_graph *g, uint32_t i)
{
    uint32_t count = 0;
    for (uint32_t j = i + 1; j < g->node_count; j++)
        count += is_cotangent(g, flxi_node_at(g, j)) && belong(flxi_node_at(g, i), flxi_node_at(g, j));
    return count;
}

flx_code flxi_join_cotangents(const flx_graph *in, bool (*has_way)(const flx_graph *g, uint32_t node, const void *user),
                              const void *user, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        flx_val d[WRTS];
        if (is_cotangent(in, n) && c.remap.id[n->first])
            continue; /* with one before */
        bool joins = is_cotangent(in, n) && count_others(in, i) && join(&c, i, has_way, user, d);
        code = flx_graph_error(c.to, err);
        if (code == FLX_OK && joins)
            replace_all(&c, i, d);
        else if (code == FLX_OK)
            code = flxi_copy_node(&c, i); /* what was appended for nothing is swept by a later pass */
    }
    return flxi_copy_end(&c, code, out, remap);
}
