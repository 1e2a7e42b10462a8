/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c: the forward sweep. Every node is copied, and if a tangent reaches it, its tangent is appended after it. An
   absent tangent is zero and costs nothing. In order of preference an op uses its own rule, its partials, its linearity
   (the op applied to the tangents), its multilinearity (one operand at a time), or its vjp: that is linear in the
   cotangent u, so its derivative with respect to u, applied to the tangent, is the tangent of the result. */
#include "autodiff/autodiff.h"

#include <fluxion/catalogue.h>

typedef struct {
    flxi_forward *f;
    flxi_body_memo *memo;
    flx_error *err;
} pushing;

static flx_val expand_to_result(flxi_site *s, flx_val v, uint32_t k)
{
    return flxi_is_none(v) ? v : flxi_expand_like(s, v, flxi_typeof(s, s->y[k]));
}

static void pointwise_jvp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    for (uint32_t k = 0; k < s->nin; k++) {
        if (flxi_is_none(tx[k]))
            continue;
        flx_val p = s->op->rules->mask ? s->op->rules->mask(s, k) : s->op->rules->partial(s, k);
        if (flxi_is_none(p))
            continue;
        ty[0] = flxi_sum(s, ty[0], s->op->rules->mask ? flxi_masked(s, p, tx[k]) : flx_mul(s->g, tx[k], p));
    }
    ty[0] = expand_to_result(s, ty[0], 0);
}

/* The op itself, with zeros for the tangents that are absent; operands with a role keep their values. */
static void linear_jvp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flxi_operands *o = flxi_operands_of(s->op);
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    if (!x)
        return;
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = flxi_operand_role(o, k) == ROLE_SAME ? flxi_or_zero_tangent(s, tx[k], s->x[k]) : s->x[k];
    flxi_append(s, NULL, x, s->nin, ty);
}

static void multilinear_jvp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    if (!x)
        return;
    for (uint32_t k = 0; k < s->nin; k++) {
        if (flxi_is_none(tx[k]))
            continue;
        for (uint32_t i = 0; i < s->nin; i++)
            x[i] = i == k ? tx[k] : s->x[i];
        ty[0] = flxi_sum(s, ty[0], flxi_emit1(s, NULL, x, s->nin));
    }
}

/* ---- The sweep ---- */

/* The copied node is then dead, and simplification removes it. */
static void replace_results(pushing *p, const flxi_node *n, const flxi_site *s)
{
    for (uint32_t k = 0; k < n->nout; k++) {
        if (flxi_is_none(s->new_y[k]))
            continue;
        flxi_value *old = flxi_value_at(p->f->g, p->f->map[n->first + k]);
        flxi_value *made = flxi_value_at(p->f->g, s->new_y[k].id);
        made->pinned |= old->pinned;
        made->name = made->name ? made->name : old->name;
        old->pinned = 0;
        old->name = NULL;
        p->f->map[n->first + k] = s->new_y[k].id;
    }
}

bool flxi_append_jvp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flxi_rules *r = s->op->rules;
    if (r->jvp)
        r->jvp(s, tx, ty);
    else if (r->partial || r->mask)
        pointwise_jvp(s, tx, ty);
    else if (s->op->traits & TRAIT_LINEAR)
        linear_jvp(s, tx, ty);
    else if (s->op->traits & TRAIT_MULTILINEAR)
        multilinear_jvp(s, tx, ty);
    else if (r->vjp)
        flxi_jvp_from_vjp(s, tx, ty);
    else
        return false;
    return true;
}

/* The tangent of operand k, where it matters to the node. */
static flx_val arriving(const flxi_forward *f, const flxi_node *n, uint32_t k)
{
    bool matters = flxi_takes_derivative(&flxi_ops[n->op], flxi_type_at(f->src, n->in[k])->dtype);
    return matters ? f->tangent[n->in[k]] : FLX_NONE;
}

static flx_code call_rule(pushing *p, const flxi_node *n, uint32_t i)
{
    flx_graph *g = p->f->g;
    flxi_site s = flxi_site_of(g, p->f->src, i, p->f->map);
    FLXI_TRY(flxi_built(g, p->err));
    s.memo = p->memo;
    flx_val *tx = flxi_new(&g->arena, flx_val, n->nin);
    flx_val *ty = flxi_new(&g->arena, flx_val, n->nout);
    if (!tx || !ty)
        return flxi_oom(p->err, "tangents");
    bool is_quantised = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        tx[k] = arriving(p->f, n, k);
        is_quantised |= !flxi_is_none(tx[k]) && flxi_is_int(flxi_type_at(p->f->src, n->in[k])->dtype);
    }
    s.new_y = flxi_new(&g->arena, flx_val, n->nout);
    if (!s.new_y)
        return flxi_oom(p->err, "tangents");
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, p->f->src, n);
    bool has_rule = flxi_append_jvp(&s, tx, ty);
    flxi_origin_end(&scope);
    if (!has_rule)
        return flxi_no_rule(p->err, p->f->src, n, "forward");
    FLXI_TRY(flxi_built(g, p->err));
    replace_results(p, n, &s);
    for (uint32_t k = 0; k < n->nout; k++) {
        const flx_type *type = flxi_type_at(p->f->src, n->first + k);
        flx_type want = flxi_tangent_type(type);
        const flx_type *made = flx_val_type(g, ty[k]);
        if (!flxi_gives_derivative(s.op, type->dtype, is_quantised))
            continue;
        if (!flxi_is_none(ty[k]) && (!made || !flxi_type_equal(made, &want)))
            return flxi_fail(p->err, FLX_E_INTERNAL, "%s: the type of a tangent differs from that of its value",
                             s.op->name);
        p->f->tangent[n->first + k] = ty[k];
    }
    return FLX_OK;
}

/* Whether a tangent reaches the node and a result can have one: integers and bools have none, so that an op without a
   rule does no harm where only they come out (float bits as an integer). Reverse mode finds the same (find_active). */
static bool is_reached(const flxi_forward *f, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    bool reached = false;
    bool is_quantised = false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!flxi_is_none(arriving(f, n, k))) {
            reached = true;
            is_quantised |= flxi_is_int(flxi_type_at(f->src, n->in[k])->dtype);
        }
    for (uint32_t k = 0; reached && k < n->nout; k++)
        if (flxi_gives_derivative(op, flxi_type_at(f->src, n->first + k)->dtype, is_quantised))
            return flxi_rule_kind(op, MODE_JVP) != FLX_RULE_ZERO;
    return false;
}

static flx_code sweep(pushing *p)
{
    flxi_forward *f = p->f;
    for (uint32_t i = 0; i < f->src->node_count; i++) {
        const flxi_node *n = flxi_node_at(f->src, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        FLXI_TRY(flxi_graft(f->g, f->src, i, f->map, p->err));
        if (!is_reached(f, n))
            continue;
        flx_code code = call_rule(p, n, i);
        if (code != FLX_OK) {
            flxi_at_node(p->err, f->src, n);
            return code;
        }
    }
    return FLX_OK;
}

flx_code flxi_forward_sweep(flxi_forward *f, flx_error *err)
{
    flxi_body_memo own = {0};
    pushing p = {f, f->memo ? f->memo : &own, err};
    flx_code code = sweep(&p);
    flxi_memo_free(&own);
    return code;
}
