/* SPDX-License-Identifier: Apache-2.0 */
/* import_rule_calls.c: what a program says about its derivatives. The values of a program do not show it, so that
   jax_plugins.fluxion writes calls when it exports one: fluxion_stop_gradient passes its operands on;
   fluxion_custom_vjp and fluxion_custom_jvp call a function, the first of called_computations, whose derivative is the
   second, with the inputs and results that the bodies of custom_fn have. */
#include "stablehlo/import/call/import_custom_call.h"
#include "stablehlo/import/import_scope.h"

static void stop_gradient(hlo_site *s)
{
    if (s->nx != s->ny) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu operands and %zu results", s->nx, s->ny);
        return;
    }
    for (size_t i = 0; i < s->nx; i++)
        s->y[i] = flx_stop_gradient(s->g, s->x[i]);
}

/* A function as a graph of its own; NULL with the error in the graph. */
static const flx_graph *body_of(hlo_site *s, const hlo_attr *name)
{
    const hlo_captures nothing = {0};
    const hlo_function *f = name->kind == HLO_A_SYMBOL ? flxi_hlo_find(s->im->module, name->text) : NULL;
    if (f && !f->is_declared_only)
        return flxi_hlo_body(s, &f->body, NULL, &nothing);
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute called_computations must name functions with a body");
    return NULL;
}

static void with_rule(hlo_site *s, bool is_reverse)
{
    const hlo_attr *names = flxi_hlo_attr(s->op, "called_computations");
    flx_custom_fn_attrs attrs = FLX_CUSTOM_FN_ATTRS;
    if (!names || names->kind != HLO_A_ARRAY || names->num_items != 2) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute called_computations must name a function and its rule");
        return;
    }
    attrs.fwd_body = body_of(s, names->items[0]);
    const flx_graph *rule = attrs.fwd_body ? body_of(s, names->items[1]) : NULL;
    if (!rule)
        return;
    if (attrs.fwd_body->outputs.n < s->ny) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its function returns %zu values, but it has %zu results",
                      attrs.fwd_body->outputs.n, s->ny);
        return;
    }
    *(is_reverse ? &attrs.vjp_body : &attrs.jvp_body) = rule;
    attrs.num_residuals = (int64_t)(attrs.fwd_body->outputs.n - s->ny);
    flx_custom_fn_with(s->g, s->x, s->nx, s->y, s->ny, &attrs);
}

static void custom_vjp(hlo_site *s)
{
    with_rule(s, true);
}

static void custom_jvp(hlo_site *s)
{
    with_rule(s, false);
}

const hlo_call_target flxi_hlo_rule_targets[] = {
    {"fluxion_stop_gradient", stop_gradient},
    {"fluxion_custom_vjp", custom_vjp},
    {"fluxion_custom_jvp", custom_jvp},
    {0},
};
