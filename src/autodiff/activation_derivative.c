/* SPDX-License-Identifier: Apache-2.0 */
/* activation_derivative.c: f'(x) of a pointwise op of one operand, as ordinary nodes in the graph that x belongs to.
   Both modes multiply with this factor, so that hand-written backward passes cannot disagree with the transforms. */
#include "autodiff/autodiff.h"

#include <string.h>

static flx_val no_derivative(flx_graph *g, const char *op, const char *why)
{
    flxi_graph_failf(g, FLX_E_NO_RULE, "pointwise functions of one operand have one, such as gelu, tanh and sqrt",
                     "'%s' has no f'(x): %s", op, why);
    return FLX_NONE;
}

static bool takes_one_operand(const flxi_op *op)
{
    const flxi_operands *o = flxi_operands_of(op);
    return op->op_class == CLASS_POINTWISE && o->count == 1 && !o->variadic;
}

/* The Jacobian of a pointwise op is diagonal, so the vjp of ones is its diagonal. */
static flx_val vjp_of_ones(flxi_site *s)
{
    flx_val one = flxi_full(s, flxi_typeof(s, s->y[0]), 1.0);
    flx_val d = FLX_NONE;
    bool is_wanted = true;
    s->wanted = &is_wanted;
    s->op->rules->vjp(s, &one, &d);
    return flxi_or_zeros(s, d, s->x[0]);
}

static flx_val derivative(flxi_site *s)
{
    const flxi_rules *r = s->op->rules;
    const flx_type *type = flxi_typeof(s, s->x[0]);
    if (s->op->traits & TRAIT_ZERO_GRAD)
        return flxi_zeros_like(s, s->x[0]);
    if (r->partial)
        return flxi_expand_like(s, r->partial(s, 0), type);
    if (r->mask)
        return flx_where(s->g, r->mask(s, 0), flxi_number(s, s->x[0], 1.0), flxi_number(s, s->x[0], 0.0));
    if (flxi_is_complex(type->dtype))
        return no_derivative(s->g, s->op->name, "it is not holomorphic");
    return r->vjp ? vjp_of_ones(s) : no_derivative(s->g, s->op->name, "the op has no derivative");
}

flx_val flx_activation_derivative(flx_graph *g, const char *op, flx_val x)
{
    flx_val y = FLX_NONE;
    flxi_opcode code = op ? flxi_op_lookup(op, strlen(op)) : OP_NONE;
    if (code != OP_NONE && flx_graph_error(g, NULL) == FLX_OK && !takes_one_operand(&flxi_ops[code]))
        return no_derivative(g, flxi_ops[code].name, "it is not a pointwise function of one operand");
    if (!flx_op(g, op, &x, 1, NULL, 0, &y, 1)) /* also reports an unknown name and a bad x */
        return FLX_NONE;
    const flxi_node *n = flxi_node_at(g, g->node_count - 1);
    flxi_site s = {.g = g,
                   .ctx = g->ctx,
                   .op = &flxi_ops[code],
                   .attrs = n->attrs,
                   .nin = 1,
                   .nout = 1,
                   .x = &x,
                   .y = &y,
                   .bodies = &flxi_bodies};
    const flx_type *type = flxi_typeof(&s, x);
    if (!flxi_in(FLXI_FLOATS | FLXI_COMPLEX, type->dtype))
        return no_derivative(g, s.op->name, "x is neither floating nor complex");
    if (flxi_typeof(&s, y)->dtype != type->dtype)
        return no_derivative(g, s.op->name, "its result has a different dtype than x");
    return derivative(&s);
}
