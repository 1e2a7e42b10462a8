/* SPDX-License-Identifier: Apache-2.0 */
/* terms.c: sums over processes that wait. A node that sums along a cut axis gives each process a term of its result.
   The terms are added up when something needs the sum: an op that is linear computes with terms as well, so the
   gradients of a parameter that is used k times are added first and exchanged once, and a loop that collects a sum
   exchanges it after the last round. The sum of all processes is then rounded after these additions, not before. */
#include "ops/opcode.h"
#include "passes/partition/partition.h"

#include <fluxion/graph.h>

/* ---- Uses ---- */

static uint32_t *count_uses(flxi_arena *arena, const flx_graph *g)
{
    uint32_t *uses = flxi_new(arena, uint32_t, g->value_count + 1);
    for (uint32_t i = 0; uses && i < g->node_count; i++)
        for (uint32_t k = 0; k < flxi_node_at(g, i)->nin; k++)
            uses[flxi_node_at(g, i)->in[k]]++;
    for (size_t i = 0; uses && i < g->outputs.n; i++)
        uses[g->outputs.at[i].val]++;
    return uses;
}

flx_code flxi_find_uses(flxi_partition *p)
{
    p->uses = count_uses(p->arena, p->from);
    return p->uses ? FLX_OK : flxi_oom(p->err, "a partition");
}

/* ---- Adding up ---- */

/* The axis along which the users of the sum want parts, and along which axes of the mesh; false: they want all. */
static bool find_wish(const flxi_partition *p, uint32_t value, int *axis, flxi_along *along)
{
    const flxi_placed *x = &p->placed[value];
    const flx_type *t = flxi_type_at(p->from, value);
    for (int k = 0; k < t->rank && t->dtype != FLX_BOOL; k++) {
        flxi_along wish = p->wishes[value].at[k];
        if (wish == WHOLE || (wish & ~x->terms) || x->cuts.at[k] != WHOLE || !flxi_can_cut(p, t->dims[k], wish))
            continue;
        *axis = k;
        *along = wish;
        return true;
    }
    return false;
}

void flxi_settle(flxi_partition *p, uint32_t value)
{
    flxi_placed *x = &p->placed[value];
    flxi_along along;
    int axis;
    if (!x->terms)
        return;
    while (find_wish(p, value, &axis, &along)) {
        x->v = flxi_scatter_sum(p, x->v, axis, along);
        x->cuts.at[axis] = along;
        x->terms &= (flxi_along)~along;
    }
    if (x->terms)
        x->v = flxi_combine_parts(p, x->v, x->terms, "sum");
    x->terms = 0;
    x->whole = flxi_is_cut(&x->cuts) ? FLX_NONE : x->v;
}

/* ---- Computing with terms ---- */

static int64_t count_elements(const flxi_partition *p, uint32_t value)
{
    const flx_type part = flxi_part_type(p, flxi_type_at(p->from, value), &p->placed[value].cuts);
    int64_t n = 1;
    for (int k = 0; k < part.rank; k++)
        n *= part.dims[k];
    return n;
}

static bool is_zero(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_of(g, value);
    const flx_tensor *t = flxi_is_const(n) ? flxi_const_data(n) : NULL;
    static const unsigned char zeros[16] = {0};
    return t && t->nbytes <= sizeof zeros && memcmp(t->data, zeros, t->nbytes) == 0;
}

/* Whether the sum of the operand can wait for that of the result. */
static bool can_wait(const flxi_partition *p, uint32_t value)
{
    return p->uses[value] == 1 && (p->placed[value].terms || (p->accumulates && p->accumulates[value]));
}

/* The axes along which operands are terms: the same for all that the op is linear in. Others, such as indices, and
   zeros have the same value in all processes. */
static flxi_along find_terms(const flxi_partition *p, const flxi_node *n)
{
    const flxi_operands *roles = flxi_operands_of(&flxi_ops[n->op]);
    flxi_along terms = 0, cut = 0;
    for (uint32_t i = 0; i < n->nin; i++)
        terms |= p->placed[n->in[i]].terms;
    for (uint32_t i = 0; i < n->nin; i++) {
        const flxi_placed *x = &p->placed[n->in[i]];
        for (int k = 0; k < FLX_MAX_RANK; k++)
            cut |= x->cuts.at[k];
        bool is_alike = flxi_operand_role(roles, i) != ROLE_SAME || is_zero(p->from, n->in[i]);
        if (is_alike ? x->terms != 0 : !can_wait(p, n->in[i]) || (x->terms && x->terms != terms))
            return 0;
    }
    return terms & cut ? 0 : terms;
}

/* Whether the node takes its operands as they are cut; what it then computes is no larger. */
static bool keeps_cuts(const flxi_partition *p, const flxi_node *n)
{
    flxi_along chosen[LABELS];
    int64_t before = 0, after = 0;
    bool is_cut = flxi_choose_cuts(p, n, chosen), keeps = true;
    for (uint32_t i = 0; i < n->nin && keeps; i++) {
        flxi_cuts want = is_cut ? flxi_wanted_cuts(p, n, i, chosen) : flxi_no_cuts();
        keeps = memcmp(&want, &p->placed[n->in[i]].cuts, sizeof want) == 0;
        before += p->placed[n->in[i]].terms ? count_elements(p, n->in[i]) : 0;
    }
    for (uint32_t k = 0; k < n->nout && keeps; k++) {
        flxi_cuts result;
        memcpy(result.at, chosen, sizeof result.at);
        p->placed[n->first + k].cuts = result;
        after += count_elements(p, n->first + k);
    }
    return keeps && after <= before;
}

/* Integers are left out: an op may round them. */
static bool is_linear(const flxi_partition *p, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    return (op->traits & TRAIT_LINEAR) && !(op->traits & TRAIT_OPAQUE) && n->nout > 0 &&
           flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flxi_type_at(p->from, n->first)->dtype);
}

flxi_along flxi_pass_terms(flxi_partition *p, const flxi_node *n)
{
    flxi_along terms = is_linear(p, n) ? find_terms(p, n) : 0;
    if (!terms || !keeps_cuts(p, n))
        return 0;
    for (uint32_t i = 0; i < n->nin; i++)
        if (can_wait(p, n->in[i]))
            p->placed[n->in[i]].terms = terms;
    return terms;
}

/* ---- Loops ---- */

/* A carry that a round reads once, to add to it what it returns as the carry of the next. */
static bool is_accumulator(const flxi_partition *p, uint32_t carry)
{
    const flx_graph *g = p->from;
    uint32_t before = g->leaves.at[carry], after = g->outputs.at[carry].val;
    const flxi_node *n = flxi_node_of(g, after);
    bool reads = false;
    for (uint32_t i = 0; i < n->nin; i++)
        reads |= n->in[i] == before;
    return reads && (n->op == OP_add || n->op == OP_add_n) && p->uses[before] == 1 && p->uses[after] == 1 &&
           flxi_type_equal(flxi_type_at(g, before), flxi_type_at(g, after));
}

flx_code flxi_find_accumulators(flxi_partition *p, uint32_t carries, const flx_graph *test)
{
    const flx_graph *g = p->from;
    uint32_t *tested = test ? count_uses(p->arena, test) : NULL;
    p->uses = count_uses(p->arena, g);
    p->accumulates = flxi_new(p->arena, bool, g->value_count + 1);
    if (!p->uses || !p->accumulates || (test && !tested))
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < carries && i < g->leaves.n; i++)
        p->accumulates[g->leaves.at[i]] =
            is_accumulator(p, i) && (!test || (i < test->leaves.n && tested[test->leaves.at[i]] == 0));
    return FLX_OK;
}
