/* SPDX-License-Identifier: Apache-2.0 */
/* custom_rules.c: derivatives and batching of custom_fn. Reverse mode uses vjp_body; without one it transposes
   jvp_body (it must be linear in the tangents); without either it differentiates fwd_body. Forward mode uses jvp_body
   or differentiates fwd_body. When only one of the two is given the other mode ignores it: providing consistent rules
   is up to the user.

   With recompute=true the node is not inlined in the forward part, so that nothing inside it is kept, and its vjp is
   another such node, which recomputes the intermediate values. Each needs them only while it runs, and the same holds
   for the derivatives of either of them. */
#include "ops/control/control.h"

static uint32_t results_of(const custom_attrs *a)
{
    return (uint32_t)(a->fwd_body->outputs.n - (size_t)a->num_residuals);
}

uint32_t flxi_saved_custom(flxi_site *s)
{
    const custom_attrs *a = s->attrs;
    return a->vjp_body && !a->recompute ? (uint32_t)a->num_residuals : 0;
}

static void append_whole(flxi_site *s, const flx_graph *body, int64_t residuals, const flx_val *in, uint32_t n,
                         flx_val *out, uint32_t nout)
{
    flx_custom_fn_attrs made = FLX_CUSTOM_FN_ATTRS;
    made.fwd_body = body;
    made.num_residuals = residuals;
    made.recompute = 1;
    flx_custom_fn_with(s->g, in, n, out, nout, &made);
}

/* Inlined, the forward part and its derivative share what both compute; called, the derivative computes it again. */
static void use_body(flxi_site *s, const flx_graph *body, const flx_val *in, flx_val *out)
{
    flxi_inline_or_call(s->g, body, FLXI_INLINE_TOGETHER, in, out);
}

static bool keeps_rule(const custom_attrs *a)
{
    return a->jvp_body && !a->vjp_body;
}

/* The forward body is inlined, so that what the reverse sweep needs of it is available: residuals, and values that its
   own differentiation would recompute. Once vjp_body is used, the forward part no longer has its own rule; a jvp_body
   alone stays with it. */
void flxi_primal_custom(flxi_site *s, flx_val *y, flx_val *saved)
{
    const custom_attrs *a = s->attrs;
    if (keeps_rule(a)) {
        flxi_append(s, NULL, s->x, s->nin, y);
        return;
    }
    if (a->recompute) {
        append_whole(s, a->fwd_body, a->num_residuals, s->x, s->nin, y, s->nout);
        return;
    }
    flx_val *out = flxi_rule_new(s, flx_val, a->fwd_body->outputs.n);
    if (!out)
        return;
    use_body(s, a->fwd_body, s->x, out);
    for (uint32_t k = 0; k < s->nout; k++)
        y[k] = out[k];
    for (uint32_t k = 0; k < flxi_saved_custom(s); k++)
        saved[k] = out[s->nout + k];
}

static bool has_zero_grad(const custom_attrs *a, uint32_t i)
{
    for (size_t k = 0; k < a->zero_grads.n; k++)
        if (a->zero_grads.v[k] == i)
            return true;
    return false;
}

static void by_vjp_body(flxi_site *s, const custom_attrs *a, const flx_val *dy, flx_val *dx)
{
    flx_val *in = flxi_rule_new(s, flx_val, a->vjp_body->leaves.n);
    flx_val *out = flxi_rule_new(s, flx_val, a->vjp_body->outputs.n);
    uint32_t n = 0;
    if (!in || !out)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t k = 0; k < s->nout; k++)
        in[n++] = s->y[k];
    for (uint32_t k = 0; k < (uint32_t)a->num_residuals; k++)
        in[n++] = s->saved[k];
    for (uint32_t k = 0; k < s->nout; k++)
        in[n++] = flxi_or_zeros(s, dy[k], s->y[k]);
    use_body(s, a->vjp_body, in, out);
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->nin; i++)
        if (!has_zero_grad(a, i) && flxi_can_vary(flxi_typeof(s, s->x[i])))
            dx[i] = out[at++];
}

/* jvp_body as a function of its tangents, transposed. */
static void by_transposed_jvp(flxi_site *s, const custom_attrs *a, const flx_val *dy, flx_val *dx)
{
    size_t leaves = a->jvp_body->leaves.n;
    bool *wanted = flxi_rule_new(s, bool, leaves);
    bool *tangents = flxi_rule_new(s, bool, leaves);
    bool *seeded = flxi_rule_new(s, bool, s->nout);
    flx_val *in = flxi_rule_new(s, flx_val, leaves + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    uint32_t n = 0;
    if (!wanted || !tangents || !seeded || !in || !out)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t i = 0; i < s->nin; i++) { /* linear in them: any value will do */
        wanted[n] = s->wanted[i];
        in[n++] = flxi_zeros_like(s, s->x[i]);
    }
    for (uint32_t k = 0; k < s->nout; k++)
        in[n++] = s->y[k];
    for (uint32_t k = 0; k < s->nout; k++) {
        seeded[k] = !flxi_is_none(dy[k]);
        if (seeded[k])
            in[n++] = dy[k];
    }
    for (uint32_t i = 0; i < s->nin; i++)
        tangents[s->nin + i] = true;
    if (!s->bodies->check_linear(s, a->jvp_body, tangents, "jvp_body"))
        return;
    flx_graph *transposed = s->bodies->vjp(s, a->jvp_body, seeded, wanted);
    if (!transposed)
        return;
    use_body(s, transposed, in, out);
    flx_graph_release(transposed);
    for (uint32_t i = 0, at = 0; i < s->nin; i++)
        if (s->wanted[i] && flxi_can_vary(flxi_typeof(s, s->x[i])))
            dx[i] = out[at++];
}

static void by_forward_body(flxi_site *s, const custom_attrs *a, const flx_val *dy, flx_val *dx)
{
    bool *seeded = flxi_rule_new(s, bool, a->fwd_body->outputs.n);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    uint32_t n = 0;
    if (!seeded || !in || !out)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t k = 0; k < results_of(a); k++) {
        seeded[k] = !flxi_is_none(dy[k]);
        if (seeded[k])
            in[n++] = dy[k];
    }
    flx_graph *back = s->bodies->vjp(s, a->fwd_body, seeded, s->wanted);
    if (!back)
        return;
    use_body(s, back, in, out);
    flx_graph_release(back);
    for (uint32_t i = 0, at = 0; i < s->nin; i++)
        if (s->wanted[i] && flxi_can_vary(flxi_typeof(s, s->x[i])))
            dx[i] = out[at++];
}

static void by_rule(flxi_site *s, const custom_attrs *a, const flx_val *dy, flx_val *dx)
{
    if (a->vjp_body)
        by_vjp_body(s, a, dy, dx);
    else if (a->jvp_body)
        by_transposed_jvp(s, a, dy, dx);
    else
        by_forward_body(s, a, dy, dx);
}

/* ---- Recomputing ---- */

/* (x…, dy…) → dx…: the forward body again, then the rule. */
static flx_graph *recomputing_body(flxi_site *s, const custom_attrs *a, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = flxi_new_body(s, a->fwd_body->name);
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    flx_val *d = flxi_rule_new(s, flx_val, s->nout);
    flx_val *y = flxi_rule_new(s, flx_val, a->fwd_body->outputs.n);
    if (!g || !x || !d || !y) {
        flx_graph_release(g);
        return NULL;
    }
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = flxi_declare(g, 'r', flxi_typeof(s, s->x[i]));
    for (uint32_t k = 0; k < s->nout; k++)
        if (!flxi_is_none(dy[k]))
            d[k] = flxi_declare(g, 'r', flxi_typeof(s, s->y[k]));
    flxi_site inner = *s;
    inner.g = g;
    inner.x = x;
    inner.y = y;
    inner.saved = y + s->nout;
    if (keeps_rule(a))
        flxi_append(&inner, NULL, x, s->nin, y);
    else
        use_body(&inner, a->fwd_body, x, y);
    by_rule(&inner, a, d, dx);
    for (uint32_t i = 0; i < s->nin; i++)
        if (!flxi_is_none(dx[i]))
            flx_output(g, dx[i], NULL);
    return s->bodies->simplify(s, g);
}

/* Passes would merge what is computed again with the first time, and keep it until then: so the operands go through a
   barrier together with the cotangents, which are not there before. Parameters need none, since what depends on them
   alone is better kept. */
static void keep_apart(flxi_site *s, flx_val *in, uint32_t n)
{
    flx_val *some = flxi_rule_new(s, flx_val, n), *after = flxi_rule_new(s, flx_val, n);
    uint32_t count = 0;
    if (!some || !after || flx_graph_error(s->g, NULL) != FLX_OK)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (!flxi_is_param(flxi_node_of(s->g, in[i].id)))
            some[count++] = in[i];
    if (count < 2)
        return;
    flx_op(s->g, "optimization_barrier", some, count, NULL, 0, after, count);
    count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!flxi_is_param(flxi_node_of(s->g, in[i].id)))
            in[i] = after[count++];
}

static void by_recomputing(flxi_site *s, const custom_attrs *a, const flx_val *dy, flx_val *dx)
{
    flx_val *inside = flxi_rule_new(s, flx_val, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    flx_graph *body = inside && in && out ? recomputing_body(s, a, dy, inside) : NULL;
    uint32_t n = 0;
    if (!body)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    for (uint32_t k = 0; k < s->nout; k++)
        if (!flxi_is_none(dy[k]))
            in[n++] = dy[k];
    keep_apart(s, in, n);
    if (body->outputs.n)
        append_whole(s, body, 0, in, n, out, (uint32_t)body->outputs.n);
    flx_graph_release(body);
    for (uint32_t i = 0, at = 0; i < s->nin; i++)
        if (!flxi_is_none(inside[i]))
            dx[i] = out[at++];
}

void flxi_vjp_custom(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const custom_attrs *a = s->attrs;
    if (a->recompute)
        by_recomputing(s, a, dy, dx);
    else
        by_rule(s, a, dy, dx);
}

/* ---- Forward mode ---- */

void flxi_jvp_custom(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const custom_attrs *a = s->attrs;
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, 2 * a->fwd_body->outputs.n);
    bool *active = flxi_rule_new(s, bool, s->nin);
    uint32_t n = 0;
    if (!in || !out || !active)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[n++] = s->x[i];
    if (a->jvp_body) {
        for (uint32_t i = 0; i < s->nin; i++)
            in[n++] = flxi_or_zeros(s, tx[i], s->x[i]);
        for (uint32_t k = 0; k < s->nout; k++)
            in[n++] = s->y[k];
        use_body(s, a->jvp_body, in, ty);
        return;
    }
    for (uint32_t i = 0; i < s->nin; i++) {
        active[i] = !flxi_is_none(tx[i]);
        if (active[i])
            in[n++] = tx[i];
    }
    flx_graph *pushed = s->bodies->jvp(s, a->fwd_body, active);
    if (!pushed)
        return;
    if (a->recompute)
        append_whole(s, pushed, 0, in, n, out, (uint32_t)pushed->outputs.n);
    else
        use_body(s, pushed, in, out);
    flx_graph_release(pushed);
    size_t at = a->fwd_body->outputs.n;
    for (uint32_t k = 0; k < s->nout; k++) {
        s->new_y[k] = out[k];
        if (flxi_can_vary(flxi_typeof(s, s->y[k])))
            ty[k] = out[at++];
    }
}

/* ---- Batching ---- */

/* A body with every input and output batched; NULL for none. */
static flx_graph *batch_body(flxi_site *s, const flx_graph *body)
{
    size_t most = body ? body->leaves.n + body->outputs.n : 0;
    bool *all = body ? flxi_rule_new(s, bool, most) : NULL;
    for (size_t i = 0; all && i < most; i++)
        all[i] = true;
    return all ? s->bodies->vmap(s, body, all, all, true) : NULL;
}

/* Operands that are shared are stretched, so that a vjp_body's cotangents have their types. */
void flxi_batch_custom(flxi_site *s, flx_val *by)
{
    const custom_attrs *a = s->attrs;
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    for (uint32_t i = 0; x && i < s->nin; i++)
        x[i] = flxi_lift(s, i);
    flx_graph *fwd = batch_body(s, a->fwd_body);
    flx_graph *vjp = batch_body(s, a->vjp_body);
    flx_graph *jvp = batch_body(s, a->jvp_body);
    if (x && !s->g->error.code) {
        flx_custom_fn_attrs made = FLX_CUSTOM_FN_ATTRS;
        made.fwd_body = fwd;
        made.vjp_body = vjp;
        made.jvp_body = jvp;
        made.num_residuals = a->num_residuals;
        made.zero_grads = a->zero_grads;
        made.recompute = (int)a->recompute;
        flx_custom_fn_with(s->g, x, s->nin, by, s->nout, &made);
    }
    flx_graph_release(fwd);
    flx_graph_release(vjp);
    flx_graph_release(jvp);
}
