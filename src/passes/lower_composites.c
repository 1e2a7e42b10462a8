/* SPDX-License-Identifier: Apache-2.0 */
/* lower_composites.c: see lower_composites.h. A policy is a choice of rules: which one decomposes a node, if any. Nodes
   are expanded until the policy keeps all of them, then bodies are lowered the same way, each once however often it is
   used. Bodies come second because an expansion may add some. */
#include "passes/lower_composites.h"

#include "passes/body_map.h"

#include <fluxion/catalogue.h>

/* ---- Policies ---- */

static flxi_expansion choose_direct(const flx_graph *g, uint32_t i, const void *user)
{
    const flxi_op *op = &flxi_ops[flxi_node_at(g, i)->op];
    (void)user;
    if (!(op->traits & TRAIT_HIR))
        return NULL;
    return op->rules->to_composites ? op->rules->to_composites : op->rules->decompose;
}

static flxi_expansion choose_fusable(const flx_graph *g, uint32_t i, const void *user)
{
    const flxi_op *op = &flxi_ops[flxi_node_at(g, i)->op];
    (void)user;
    return op->traits & TRAIT_HIR ? op->rules->decompose : NULL;
}

/* Composites of HIR have no derivative rules of their own, so they are among these. */
static flxi_expansion choose_autodiff(const flx_graph *g, uint32_t i, const void *user)
{
    const flxi_op *op = &flxi_ops[flxi_node_at(g, i)->op];
    (void)user;
    return flxi_rule_kind(op, MODE_VJP) == FLX_RULE_DECOMPOSE ? op->rules->decompose : NULL;
}

static const flxi_choose_expansion policies[] = {
    [FLX_POLICY_DIRECT] = choose_direct,
    [FLX_POLICY_FUSABLE] = choose_fusable,
    [FLX_POLICY_FOR_AUTODIFF] = choose_autodiff,
};

enum { NUM_POLICIES = sizeof policies / sizeof *policies };

/* ---- Graphs and bodies ---- */

typedef struct {
    flxi_choose_expansion choose;
    const void *user;
    bool keeps_lowered; /* what is of stage MIR has nothing left to expand */
    flxi_body_map bodies;
} lowering;

static flx_code lower_in(lowering *l, const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* What needs no lowering stays the same graph, so that it is still known to be the same. */
static flx_code lower_body(void *user, const flx_graph *body, flx_graph **out, flx_error *err)
{
    const lowering *l = user;
    if (body->is_lowered && l->keeps_lowered) {
        *out = flx_graph_retain((flx_graph *)(uintptr_t)body);
        return FLX_OK;
    }
    return lower_in(user, body, out, NULL, err);
}

/* The recursion is as deep as bodies nest, which is bounded. */
static flx_code lower_in(lowering *l, const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flx_graph *expanded = NULL;
    flxi_remap first = {0};
    flxi_remap second = {0};
    FLXI_TRY(flxi_expand(in, l->choose, l->user, &expanded, &first, err));
    flx_code code = flxi_map_bodies(&l->bodies, expanded, out, &second, err);
    flx_graph_release(expanded);
    if (code != FLX_OK) {
        flxi_remap_free(&first);
        return code;
    }
    flxi_remap_compose(&first, &second);
    flxi_remap_free(&second);
    (*out)->is_lowered = true;
    if (remap)
        *remap = first;
    else
        flxi_remap_free(&first);
    return FLX_OK;
}

flx_code flxi_lower(const flx_graph *in, flx_policy policy, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    lowering l = {.choose = policies[policy],
                  .keeps_lowered = policy != FLX_POLICY_FOR_AUTODIFF,
                  .bodies = {.mem = &in->ctx->mem, .map = lower_body}};
    l.bodies.user = &l;
    flx_code code = lower_in(&l, in, out, remap, err);
    flxi_body_map_free(&l.bodies);
    return code;
}

flx_code flxi_lower_by(const flx_graph *in, flxi_choose_expansion choose, const void *user, flx_graph **out,
                       flx_error *err)
{
    lowering l = {.choose = choose, .user = user, .bodies = {.mem = &in->ctx->mem, .map = lower_body}};
    l.bodies.user = &l;
    flx_code code = lower_in(&l, in, out, NULL, err);
    flxi_body_map_free(&l.bodies);
    return code;
}

flx_code flxi_pass_lower(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return flxi_lower(in, FLX_POLICY_DIRECT, out, remap, err);
}

flx_graph *flx_lower(const flx_graph *g, flx_policy policy, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK && ((int)policy < 0 || (int)policy >= NUM_POLICIES))
        code = flxi_fail(&local, FLX_E_USAGE, "flx_lower: unknown policy %d", (int)policy);
    if (code == FLX_OK)
        code = flxi_lower(g, policy, &out, NULL, &local);
    if (code == FLX_OK)
        code = flxi_verify(out, &local);
    if (code == FLX_OK)
        return out;
    flx_graph_release(out);
    if (err)
        *err = local;
    return NULL;
}
