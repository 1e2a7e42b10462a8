/* SPDX-License-Identifier: Apache-2.0 */
/* quantised_products.c: finding products with weights. */
#include "passes/quantise/quantised_products.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"
#include "passes/products/dot_axes.h"

/* Sums of that many products of i8 and i8, and of a zero point with as many weights, fit in i32. */
static const int64_t most_summed = 65536;

/* What w is, or is the transpose of, if that is a matrix of weights; else 0. */
static uint32_t weights_of(const flx_graph *g, uint32_t w, bool *is_transposed)
{
    const flxi_node *n = flxi_node_of(g, w);
    *is_transposed = n->op == OP_transpose && flxi_type_at(g, w)->rank == 2 && flxi_node_ints(n, "perm")->v[0] == 1;
    uint32_t root = *is_transposed ? n->in[0] : w;
    n = flxi_node_of(g, root);
    const flx_type *t = flxi_type_at(g, root);
    bool is_matrix = t->rank == 2 && t->dtype == FLX_F32 && flxi_type_is_static(t);
    return is_matrix && (flxi_is_param(n) || flxi_is_const(n)) ? root : 0;
}

static flxi_quantised_product product_at(const flx_graph *g, const flxi_node *n)
{
    static const flxi_quantised_product none = {0};
    flxi_quantised_product p = {0};
    flxi_dot_axes d;
    bool other;
    if (!flxi_find_dot_axes(g, n, &d) || d.lc.n != 1 || d.lb.n || flxi_value_at(g, n->first)->pinned)
        return none;
    const flx_type *x = flxi_type_at(g, n->in[0]), *w = flxi_type_at(g, n->in[1]);
    p = (flxi_quantised_product){.x = n->in[0], .w = n->in[1], .x_axis = d.lc.v[0], .w_axis = d.rc.v[0]};
    p.weights = x->dtype == FLX_F32 && w->rank == 2 ? weights_of(g, p.w, &p.is_transposed) : 0;
    bool has_weights = p.weights && !weights_of(g, p.x, &other);
    return has_weights && w->dims[p.w_axis] > 0 && w->dims[p.w_axis] <= most_summed && w->dims[1 - p.w_axis] > 0 ? p
                                                                                                                 : none;
}

flx_code flxi_find_quantised_products(const flx_graph *g, flxi_quantised_products *out, flx_error *err)
{
    *out = (flxi_quantised_products){.g = g};
    flxi_arena_init(&out->arena, &g->ctx->mem);
    out->at = flxi_new(&out->arena, flxi_quantised_product, g->node_count);
    out->low = flxi_new(&out->arena, double, g->value_count + 1);
    out->high = flxi_new(&out->arena, double, g->value_count + 1);
    if (!out->at || !out->low || !out->high)
        return flxi_oom(err, "quantisation");
    for (uint32_t i = 0; i < g->node_count; i++)
        out->at[i] = product_at(g, flxi_node_at(g, i));
    return FLX_OK;
}

void flxi_quantised_products_free(flxi_quantised_products *p)
{
    flxi_arena_free(&p->arena);
}
