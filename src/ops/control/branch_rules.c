/* SPDX-License-Identifier: Apache-2.0 */
/* branch_rules.c: derivatives and batching of `if` and `case`. Both are a selector, captures and a list of branches;
   the derivative is the same selector over the branches' derivatives, so only the branch that was taken is
   differentiated and nothing leaks from the others. With a batched selector the branches that some example takes run,
   and each example selects its own. Reverse mode keeps the others apart as after `where` where ops treat elements or
   examples one by one. A branch with other ops would still see examples that are not meant for it, whose numbers may
   be poison to it or may keep its loops from ending: there they are replaced by an example that takes the branch, and
   the branch is left out if none does. */
#include "ops/control/control.h"

#include "ops/opcode.h"

typedef struct {
    const flx_graph *const *v;
    size_t n;
} branch_list;

static branch_list branches_of(flxi_site *s, const flx_graph *two[2])
{
    if (s->op == &flxi_ops[OP_case]) {
        const case_attrs *a = s->attrs;
        return (branch_list){a->branches.v, a->branches.n};
    }
    const if_attrs *a = s->attrs;
    two[0] = a->then_body;
    two[1] = a->else_body;
    return (branch_list){two, 2};
}

/* The op again with other branches and operands; frees the branches. */
static void append_branches(flxi_site *s, flx_graph **bodies, size_t n, const flx_val *in, uint32_t nin, flx_val *out,
                            uint32_t nout)
{
    if (!s->g->error.code && s->op == &flxi_ops[OP_if])
        flx_if(s->g, in, nin, out, nout, bodies[0], bodies[1]);
    else if (!s->g->error.code)
        flx_case(s->g, in, nin, out, nout, (flx_graphs){(const flx_graph *const *)bodies, n});
    for (size_t i = 0; i < n; i++)
        flx_graph_release(bodies[i]);
}

/* ---- Derivatives ---- */

static void vjp_branches(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flx_graph *two[2];
    branch_list list = branches_of(s, two);
    bool *seeded = flxi_rule_new(s, bool, s->nout);
    flx_val *in = flxi_rule_new(s, flx_val, s->nin + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    flx_graph **bodies = flxi_rule_new(s, flx_graph *, list.n);
    if (!seeded || !in || !out || !bodies)
        return;
    uint32_t nin = 0;
    for (uint32_t i = 0; i < s->nin; i++)
        in[nin++] = s->x[i];
    for (uint32_t k = 0; k < s->nout; k++) {
        seeded[k] = !flxi_is_none(dy[k]);
        if (seeded[k])
            in[nin++] = dy[k];
    }
    for (size_t i = 0; i < list.n; i++)
        bodies[i] = s->bodies->vjp(s, list.v[i], seeded, s->wanted + 1);
    append_branches(s, bodies, list.n, in, nin, out, s->nin);
    uint32_t at = 0;
    for (uint32_t i = 1; i < s->nin; i++)
        if (s->wanted[i] && flxi_can_vary(flxi_typeof(s, s->x[i])))
            dx[i] = out[at++];
}

static void jvp_branches(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flx_graph *two[2];
    branch_list list = branches_of(s, two);
    bool *active = flxi_rule_new(s, bool, s->nin);
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin);
    flx_val *out = flxi_rule_new(s, flx_val, 2 * s->nout);
    flx_graph **bodies = flxi_rule_new(s, flx_graph *, list.n);
    if (!active || !in || !out || !bodies)
        return;
    uint32_t nin = 0;
    for (uint32_t i = 0; i < s->nin; i++)
        in[nin++] = s->x[i];
    for (uint32_t i = 1; i < s->nin; i++) {
        active[i - 1] = !flxi_is_none(tx[i]);
        if (active[i - 1])
            in[nin++] = tx[i];
    }
    for (size_t i = 0; i < list.n; i++)
        bodies[i] = s->bodies->jvp(s, list.v[i], active);
    append_branches(s, bodies, list.n, in, nin, out, 2 * s->nout);
    uint32_t at = s->nout;
    for (uint32_t k = 0; k < s->nout; k++) {
        s->new_y[k] = out[k];
        if (flxi_can_vary(flxi_typeof(s, s->y[k])))
            ty[k] = out[at++];
    }
}

void flxi_vjp_if(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    vjp_branches(s, dy, dx);
}

void flxi_jvp_if(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    jvp_branches(s, tx, ty);
}

void flxi_vjp_case(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    vjp_branches(s, dy, dx);
}

void flxi_jvp_case(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    jvp_branches(s, tx, ty);
}

/* ---- Batching ---- */

/* A result is batched if it is batched in any branch: a first round finds out, a second makes the branches agree. */
static void batch_shared_selector(flxi_site *s, branch_list list, flx_val *by)
{
    bool *out = flxi_rule_new(s, bool, s->nout);
    flx_graph **bodies = flxi_rule_new(s, flx_graph *, list.n);
    if (!out || !bodies)
        return;
    for (uint32_t k = 0; k < s->nout; k++)
        s->by_batched[k] = false;
    for (size_t i = 0; i < list.n; i++) {
        flx_graph_release(s->bodies->vmap(s, list.v[i], s->batched + 1, out, false));
        for (uint32_t k = 0; k < s->nout; k++)
            s->by_batched[k] |= out[k];
    }
    for (size_t i = 0; i < list.n; i++)
        bodies[i] = s->bodies->vmap(s, list.v[i], s->batched + 1, s->by_batched, true);
    append_branches(s, bodies, list.n, s->x, s->nin, by, s->nout);
}

/* [B] or [B, 1 …] as [B, 1 …] of the given rank. */
static flx_val selector_for(flxi_site *s, flx_val mask, int rank)
{
    flx_dim dims[FLX_MAX_RANK];
    dims[0] = s->size;
    for (int k = 1; k < rank; k++)
        dims[k] = 1;
    return flxi_reshape_to(s, mask, rank, dims);
}

/* Where branch i is taken. A NaN takes the second branch of `if`. */
static flx_val chosen(flxi_site *s, size_t i)
{
    flx_val selector = s->x[0];
    if (s->op == &flxi_ops[OP_case])
        return flx_eq(s->g, selector, flxi_number(s, selector, (double)i));
    flx_val nonzero = flx_ne(s->g, selector, flxi_number(s, selector, 0.0));
    bool may_be_nan = flxi_can_vary(flxi_typeof(s, selector));
    return may_be_nan ? flx_and(s->g, nonzero, flx_eq(s->g, selector, selector)) : nonzero;
}

/* Whether every op treats elements one by one or multiplies and adds them: what is not selected then does no harm. */
static bool is_simple(const flx_graph *body)
{
    for (uint32_t i = 0; i < body->node_count; i++) {
        const flxi_op *op = &flxi_ops[flxi_node_at(body, i)->op];
        bool is_leaf = op->op_class == CLASS_LEAF || (op->traits & TRAIT_DECLARED);
        bool is_linear = (op->traits & (TRAIT_LINEAR | TRAIT_MULTILINEAR)) != 0;
        if (!is_leaf && !is_linear && op->op_class != CLASS_POINTWISE)
            return false;
    }
    return true;
}

/* The operands of a branch, with those of the first example that takes it in place of all that do not. A row is added
   to the mask and gather may miss, so that a batch may be empty. */
static void replace_others(flxi_site *s, flx_val mask, flx_val *x)
{
    flx_type last = flx_type_make(FLX_I32, 1, (const flx_dim[]){1});
    flx_val rows[2] = {flx_cast(s->g, flxi_reshape_to(s, mask, 1, &s->size), FLX_I32), flxi_zeros(s, &last)};
    flx_val first = flx_argmax(s->g, flx_concat(s->g, rows, 2, 0), 0, true, FLX_I32);
    for (uint32_t i = 1; i < s->nin; i++) {
        x[i - 1] = s->x[i];
        if (!s->batched[i])
            continue;
        flx_val one = flx_stop_gradient(s->g, flx_gather(s->g, s->x[i], first, 0, "zero"));
        x[i - 1] = flx_where(s->g, selector_for(s, mask, flxi_typeof(s, s->x[i])->rank), s->x[i], one);
    }
}

/* A graph of the captures alone that returns zeros like the results of the body: for a batch in which no
   example takes the branch. */
static flx_graph *zeros_of(flxi_site *s, const flx_graph *body)
{
    flx_graph *g = flxi_new_body(s, body->name);
    for (size_t i = 0; g && i < body->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(body, body->leaves.at[i]);
        flx_input(g, v->name, v->type);
    }
    flxi_site inner = *s;
    inner.g = g;
    for (size_t k = 0; g && k < body->outputs.n; k++)
        flx_output(g, flxi_zeros(&inner, flxi_type_at(body, body->outputs.at[k].val)), NULL);
    return g;
}

/* The branch, if an example takes it. */
static void run_guarded(flxi_site *s, flx_graph *body, flx_val mask, flx_val *out)
{
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    flx_graph *none = in ? zeros_of(s, body) : NULL;
    if (!none)
        return;
    in[0] = flx_reduce_any(s->g, mask, FLX_ALL, 0);
    replace_others(s, mask, in + 1);
    flx_if(s->g, in, s->nin, out, s->nout, body, none);
    flx_graph_release(none);
}

/* Where branch i is taken; the last is the default. */
static flx_val taken(flxi_site *s, branch_list list, size_t i)
{
    if (i + 1 < list.n)
        return chosen(s, i);
    flx_val other = FLX_NONE;
    for (size_t k = 0; k + 1 < list.n; k++)
        other = k == 0 ? chosen(s, k) : flx_or(s->g, other, chosen(s, k));
    return list.n > 1 ? flx_not(s->g, other) : FLX_NONE;
}

flx_val flxi_branch_taken(flxi_site *s, size_t i)
{
    const flx_graph *two[2];
    branch_list list = branches_of(s, two);
    if (list.n == 1)
        return flx_scalar(s->g, FLX_BOOL, 1);
    return flxi_reshape_to(s, taken(s, list, i), 0, NULL);
}

static void batch_own_selectors(flxi_site *s, branch_list list, flx_val *by)
{
    bool *all = flxi_rule_new(s, bool, s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nout);
    if (!all || !out)
        return;
    for (uint32_t k = 0; k < s->nout; k++)
        all[k] = true;
    for (size_t i = list.n; i-- > 0;) { /* the last branch is the default */
        flx_graph *body = s->bodies->vmap(s, list.v[i], s->batched + 1, all, true);
        if (!body)
            return;
        if (list.n > 1 && !is_simple(body))
            run_guarded(s, body, taken(s, list, i), out);
        else
            flxi_inline_or_call(s->g, body, FLXI_INLINE_EACH, s->x + 1, out);
        flx_graph_release(body);
        flx_val mask = i + 1 < list.n ? chosen(s, i) : FLX_NONE;
        for (uint32_t k = 0; k < s->nout; k++)
            by[k] = flxi_is_none(mask)
                        ? out[k]
                        : flx_where(s->g, selector_for(s, mask, flxi_typeof(s, out[k])->rank), out[k], by[k]);
    }
}

static void batch_branches(flxi_site *s, flx_val *by)
{
    const flx_graph *two[2];
    branch_list list = branches_of(s, two);
    if (s->batched[0])
        batch_own_selectors(s, list, by);
    else
        batch_shared_selector(s, list, by);
}

void flxi_batch_if(flxi_site *s, flx_val *by)
{
    batch_branches(s, by);
}

void flxi_batch_case(flxi_site *s, flx_val *by)
{
    batch_branches(s, by);
}
