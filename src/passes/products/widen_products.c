/* SPDX-License-Identifier: Apache-2.0 */
/* widen_products.c: products of integers that are cast to a wider dtype before, so that their sums are exact, as
   widening_dot. The casts disappear where nothing else reads them, and with them the memory for the wide operands; a
   device that multiplies narrow integers does many of them at once. */
#include "passes/pass.h"
#include "passes/products/dot_axes.h"

#include "graph/op/site.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* Products of fewer multiplications are faster together with their neighbours. */
static const double least_products = 1 << 15;

/* The operand of a cast of an integer to a wider one; 0: the value is something else. */
static uint32_t uncast(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_of(g, value);
    if (n->op != OP_cast || flxi_value_at(g, value)->pinned)
        return 0;
    int32_t from = flxi_type_at(g, n->in[0])->dtype;
    int32_t to = flxi_type_at(g, value)->dtype;
    bool is_wider = flxi_is_int(from) && flxi_is_int(to) && flx_dtype_size(to) > flx_dtype_size(from);
    return is_wider ? n->in[0] : 0;
}

static bool is_large(const flx_graph *g, const flxi_node *n, const flxi_dot_axes *d)
{
    const flx_type *l = flxi_type_at(g, n->in[0]);
    int64_t results, elements;
    if (!flxi_static_count(flxi_type_at(g, n->first), &results) || !flxi_static_count(l, &elements))
        return false;
    double products = (double)results;
    for (size_t i = 0; i < d->lc.n; i++)
        products *= (double)l->dims[d->lc.v[i]];
    return products >= least_products;
}

/* The node without its casts, in the new graph; FLX_NONE: it stays as it is. */
static flx_val widened(flxi_copy *c, const flxi_node *n)
{
    const flx_graph *g = c->from;
    flxi_dot_axes d;
    if (!flxi_find_dot_axes(g, n, &d) || flxi_value_at(g, n->first)->pinned)
        return FLX_NONE;
    uint32_t l = uncast(g, n->in[0]);
    uint32_t r = uncast(g, n->in[1]);
    if (!l || !r || !is_large(g, n, &d))
        return FLX_NONE;
    flx_val narrow[2] = {{c->remap.id[l], c->to->serial}, {c->remap.id[r], c->to->serial}};
    return flx_widening_dot(c->to, narrow[0], narrow[1], d.lc, d.rc, d.lb, d.rb,
                            (flx_dtype)flxi_type_at(g, n->first)->dtype);
}

flx_code flxi_widen_products(const flx_graph *in, bool (*has_way)(const flx_graph *g, uint32_t node, const void *user),
                             const void *user, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        flx_val y = widened(&c, n);
        code = flx_graph_error(c.to, err);
        if (code == FLX_OK && !flxi_is_none(y) && has_way(c.to, flxi_value_at(c.to, y.id)->node, user))
            flxi_copy_replace(&c, n->first, y.id);
        else if (code == FLX_OK)
            code = flxi_copy_node(&c, i); /* what was appended for nothing is swept by a later pass */
    }
    return flxi_copy_end(&c, code, out, remap);
}
