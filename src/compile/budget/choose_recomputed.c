/* SPDX-License-Identifier: Apache-2.0 */
/* choose_recomputed.c: which values are computed again.

   The step that needs most memory is lowered, until none needs more than the target. Of the slots that are alive
   there but not used, the one is freed that gives most bytes for the time that computing its value again takes. That
   needs the nodes back to values which are in memory at that time anyway: inputs, outputs, slots that live as long;
   small slots are kept longer. A slot takes part in one recomputation only: the next round, on the new plan, sees what
   became of it. All choices depend on the plan alone. */
#include "compile/budget/recompute.h"
#include "graph/op/work.h"

enum { MAX_NODES = 200 }; /* that one recomputation takes */

typedef struct {
    const flxi_routine *l;
    const flx_graph *g;
    flxi_arena *arena;
    const uint32_t *step_of; /* by node, + 1 */
    size_t *live;            /* by step; as estimated after what was chosen */
    uint32_t *uses_from;     /* by slot: where its steps begin in `uses`; one more than there are slots */
    uint32_t *uses;          /* ascending */
    bool *is_involved;       /* by slot: in what was chosen */
    uint32_t *mark, now;     /* by node: part of the recomputation that is proposed */
} chooser;

/* A recomputation that could be chosen. */
typedef struct {
    uint32_t slot;
    uint32_t after, before;    /* the gap is between these steps */
    uint32_t nodes[MAX_NODES]; /* in the order in which they are needed */
    uint32_t kept[MAX_NODES];  /* slots that are there longer than before, or are read once more */
    uint32_t num_nodes, num_kept;
    double bytes;   /* that are freed */
    double time_ns; /* that it takes, roughly */
} candidate;

static size_t rounded(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* ---- What it takes ---- */

static bool may_copy(const flx_graph *g, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_value_at(g, n->first + k)->pinned)
            return false;
    return !(flxi_ops[n->op].traits & (TRAIT_DECLARED | TRAIT_OPAQUE)) && !flxi_has_effect(n);
}

static bool keep_slot(candidate *k, uint32_t slot)
{
    for (uint32_t i = 0; i < k->num_kept; i++)
        if (k->kept[i] == slot)
            return true;
    if (k->num_kept == MAX_NODES)
        return false;
    k->kept[k->num_kept++] = slot;
    return true;
}

/* Whether the value is there when it is wanted: 1, or 0 when it must be computed, or -1 when the recomputation cannot
   be chosen now. */
static int is_there(chooser *c, candidate *k, uint32_t value)
{
    const flxi_node *n = flxi_node_of(c->g, value);
    if ((flxi_ops[n->op].traits & TRAIT_DECLARED) || flxi_is_const(n))
        return 1;
    if (!c->l->slot_of[value])
        return 0;
    uint32_t number = c->l->slot_of[value] - 1;
    const flxi_slot *s = &c->l->slots[number];
    if (s->segment != SEGMENT_ARENA)
        return 1;
    if (c->is_involved[number])
        return -1;
    bool is_small = 8 * s->nbytes <= c->l->slots[k->slot].nbytes;
    if (s->to < k->before && !is_small)
        return 0;
    if (s->to < k->before)
        k->bytes -= (double)rounded(s->nbytes);
    return keep_slot(k, number) ? 1 : -1;
}

static double time_of(const chooser *c, uint32_t node)
{
    const double flop_per_ns = 50, bytes_per_ns = 10;
    const flxi_node *n = flxi_node_at(c->g, node);
    double bytes = 0;
    size_t nbytes;
    for (uint32_t r = 0; c->step_of[node] && r < n->nout; r++)
        if (c->l->slot_of[n->first + r] && flxi_static_bytes(flxi_type_at(c->g, n->first + r), &nbytes))
            bytes += (double)nbytes;
    return (double)flxi_node_work(c->g, node).flops / flop_per_ns + bytes / bytes_per_ns;
}

/* Adds the node after all that it needs. Recursion ends at MAX_NODES. */
static bool need(chooser *c, candidate *k, uint32_t node, uint32_t depth)
{
    const flxi_node *n = flxi_node_at(c->g, node);
    if (c->mark[node] == c->now)
        return true;
    if (depth >= MAX_NODES || !may_copy(c->g, n))
        return false;
    for (uint32_t i = 0; i < n->nin; i++) {
        int there = is_there(c, k, n->in[i]);
        if (there < 0 || (!there && !need(c, k, flxi_value_at(c->g, n->in[i])->node, depth + 1)))
            return false;
    }
    if (k->num_nodes == MAX_NODES)
        return false;
    c->mark[node] = c->now;
    k->nodes[k->num_nodes++] = node;
    k->time_ns += time_of(c, node);
    return true;
}

/* ---- One choice ---- */

/* The gap of the slot around the step: false when the step uses it, or it is not alive there. */
static bool find_gap(const chooser *c, uint32_t slot, uint32_t step, candidate *k)
{
    const flxi_slot *s = &c->l->slots[slot];
    if (s->segment != SEGMENT_ARENA || !s->nbytes || c->is_involved[slot] || s->from >= step || s->to <= step)
        return false;
    k->after = s->from;
    for (uint32_t i = c->uses_from[slot]; i < c->uses_from[slot + 1]; i++) {
        if (c->uses[i] == step)
            return false;
        k->before = c->uses[i];
        if (c->uses[i] > step)
            return true;
        k->after = c->uses[i];
    }
    return false;
}

static bool propose(chooser *c, uint32_t slot, uint32_t step, candidate *k)
{
    k->num_nodes = k->num_kept = 0;
    k->slot = slot;
    k->time_ns = 0;
    k->bytes = (double)rounded(c->l->slots[slot].nbytes);
    c->now++;
    return find_gap(c, slot, step, k) && need(c, k, flxi_value_at(c->g, c->l->slots[slot].value)->node, 0) &&
           k->bytes > 0;
}

static flx_code choose(chooser *c, const candidate *k, flxi_recomputation *out, flx_error *err)
{
    *out = (flxi_recomputation){.value = c->l->slots[k->slot].value,
                                .step = k->before,
                                .nodes = flxi_dup(c->arena, uint32_t, k->nodes, k->num_nodes),
                                .num_nodes = k->num_nodes};
    c->is_involved[k->slot] = true;
    for (uint32_t t = k->after + 1; t < k->before; t++)
        c->live[t] -= rounded(c->l->slots[k->slot].nbytes);
    for (uint32_t i = 0; i < k->num_kept; i++) {
        const flxi_slot *s = &c->l->slots[k->kept[i]];
        c->is_involved[k->kept[i]] = true;
        for (uint32_t t = s->to + 1; t <= k->before; t++)
            c->live[t] += rounded(s->nbytes);
    }
    return out->nodes ? FLX_OK : flxi_oom(err, "a memory plan");
}

static uint32_t highest(const chooser *c)
{
    uint32_t best = 0;
    for (uint32_t t = 1; t < c->l->num_steps; t++)
        best = c->live[t] > c->live[best] ? t : best;
    return best;
}

/* ---- The whole ---- */

static flx_code list_uses(chooser *c, flx_error *err)
{
    const flxi_routine *l = c->l;
    size_t total = 0;
    for (uint32_t t = 0; t < l->num_steps; t++)
        for (uint32_t k = 0; k < l->steps[t].num_slots; k++, total++)
            c->uses_from[l->steps[t].slots[k] + 1]++;
    c->uses = flxi_new(c->arena, uint32_t, total + 1);
    uint32_t *fill = flxi_new(c->arena, uint32_t, l->num_slots + 1);
    if (!c->uses || !fill)
        return flxi_oom(err, "a memory plan");
    for (uint32_t i = 0; i < l->num_slots; i++)
        c->uses_from[i + 1] += c->uses_from[i];
    for (uint32_t t = 0; t < l->num_steps; t++)
        for (uint32_t k = 0; k < l->steps[t].num_slots; k++) {
            uint32_t slot = l->steps[t].slots[k];
            c->uses[c->uses_from[slot] + fill[slot]++] = t;
        }
    return FLX_OK;
}

static flx_code begin(chooser *c, flx_error *err)
{
    const flxi_routine *l = c->l;
    c->step_of = flxi_steps_of_nodes(l, c->arena);
    c->live = flxi_live_bytes(l, c->arena);
    c->uses_from = flxi_new(c->arena, uint32_t, l->num_slots + 2);
    c->is_involved = flxi_new(c->arena, bool, l->num_slots + 1);
    c->mark = flxi_new(c->arena, uint32_t, l->g->node_count + 1);
    if (!c->step_of || !c->live || !c->uses_from || !c->is_involved || !c->mark)
        return flxi_oom(err, "a memory plan");
    return list_uses(c, err);
}

flx_code flxi_choose_recomputations(const flxi_routine *l, size_t target, flxi_arena *arena, flxi_recomputations *out,
                                    flx_error *err)
{
    chooser c = {.l = l, .g = l->g, .arena = arena};
    candidate *now = flxi_new(arena, candidate, 1), *best = flxi_new(arena, candidate, 1);
    flxi_recomputation *list = flxi_new(arena, flxi_recomputation, l->num_slots + 1);
    *out = (flxi_recomputations){.at = list};
    if (!now || !best || !list)
        return flxi_oom(err, "a memory plan");
    FLXI_TRY(begin(&c, err));
    while (l->num_steps) {
        uint32_t step = highest(&c);
        best->bytes = 0;
        best->time_ns = 1;
        if (c.live[step] <= target)
            break;
        for (uint32_t i = 0; i < l->num_slots; i++)
            if (propose(&c, i, step, now) && now->bytes * best->time_ns > best->bytes * now->time_ns)
                *best = *now;
        if (best->bytes <= 0)
            break;
        FLXI_TRY(choose(&c, best, &list[out->n++], err));
    }
    return FLX_OK;
}
