/* SPDX-License-Identifier: Apache-2.0 */
/* name_groups.c: see name_groups.h. Layers name their parameters ("layer0.attention.q.w"), but few of the values that
   they compute, and transforms and passes make nodes without names. So names spread from parameters to the ops that
   read them, and from there to the ops between: first in the order of the graph, each op into the group that contains
   its operands; then against the order, for what comes before the parameters of its layer; then once more in order,
   with the readers known, so that an addition that ends a layer is part of it. */
#include "report/name_groups.h"

#include "graph/op/origin.h"
#include "report/phases.h"

enum { LOOKED_AT = 8, MAX_DEPTH = 12 }; /* operands and readers of a node; components of a name */

typedef struct {
    flxi_name_groups *t;
    const flx_graph *g;
    const uint8_t *phases;
    uint32_t *first_reader, *readers; /* by node */
    bool *is_fixed;                   /* by node: its own name says where it belongs */
} spreading;

static uint32_t producer(const flx_graph *g, uint32_t value)
{
    return flxi_value_at(g, value)->node;
}

/* ---- The tree ---- */

static uint64_t hash_of(uint32_t parent, const char *name)
{
    return flxi_hash_text(flxi_hash_u64(FLXI_HASH_SEED, parent), name);
}

/* The group of this name, made if it is new; UINT32_MAX when memory is exhausted. */
static uint32_t child_of(flxi_name_groups *t, uint32_t parent, const char *name, size_t n)
{
    const char *kept = flxi_intern(&t->texts, name, n);
    uint32_t at;
    if (!kept)
        return UINT32_MAX;
    uint64_t hash = hash_of(parent, kept);
    for (flxi_probe p = flxi_index_first(&t->index, hash); flxi_index_next(&t->index, &p, &at);)
        if (t->groups.at[at].parent == parent && t->groups.at[at].name == kept)
            return at;
    at = (uint32_t)t->groups.n;
    if (!flxi_push(t->mem, &t->groups, ((flxi_name_group){kept, parent, t->groups.at[parent].depth + 1})) ||
        !flxi_index_add(t->mem, &t->index, hash, at))
        return UINT32_MAX;
    return at;
}

/* The group of what is called a.b.c: b in a. 0 for a name without a dot. */
static uint32_t group_of_name(flxi_name_groups *t, const char *name)
{
    uint32_t group = 0;
    const char *dot;
    name = flxi_plain_name(name);
    for (int i = 0; i < MAX_DEPTH && group != UINT32_MAX && (dot = strchr(name, '.')); name = dot + 1, i++)
        if (dot > name)
            group = child_of(t, group, name, (size_t)(dot - name));
    return group;
}

uint32_t flxi_common_group(const flxi_name_groups *t, uint32_t a, uint32_t b)
{
    while (a != b) {
        bool is_deeper = t->groups.at[a].depth > t->groups.at[b].depth;
        if (!is_deeper)
            b = t->groups.at[b].parent;
        else
            a = t->groups.at[a].parent;
    }
    return a;
}

/* ---- Spreading ---- */

static uint32_t own_group(spreading *s, const flxi_node *n)
{
    const char *label = flxi_node_label(s->g, n);
    uint32_t group = label ? group_of_name(s->t, label) : 0;
    if (!group && n->origin && n->origin->label)
        group = group_of_name(s->t, n->origin->label);
    return group;
}

/* Of the first parameter that it reads which is in a group. */
static uint32_t parameter_group(const spreading *s, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t p = producer(s->g, n->in[k]);
        if (flxi_is_param(flxi_node_at(s->g, p)) && s->t->of[p])
            return s->t->of[p];
    }
    return 0;
}

/* The innermost that contains all operands; `phase`: only those of this phase, FLXI_PHASES: of any. */
static uint32_t operand_group(const spreading *s, const flxi_node *n, int phase)
{
    uint32_t group = FLXI_VIEW_NONE;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t p = producer(s->g, n->in[k]);
        bool is_leaf = flxi_node_at(s->g, p)->nin == 0;
        if (is_leaf || (phase != FLXI_PHASES && s->phases[p] != phase))
            continue;
        group = group == FLXI_VIEW_NONE ? s->t->of[p] : flxi_common_group(s->t, group, s->t->of[p]);
    }
    return group == FLXI_VIEW_NONE ? 0 : group;
}

static flx_code spread_down(spreading *s, flx_error *err)
{
    for (uint32_t i = 0; i < s->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(s->g, i);
        uint32_t group = own_group(s, n);
        if (group == UINT32_MAX)
            return flxi_oom(err, "a view of a graph");
        s->is_fixed[i] = group != 0 || n->nin == 0;
        if (!group && n->nin) {
            group = parameter_group(s, n);
            s->is_fixed[i] = group != 0;
        }
        if (!group && s->phases[i] == FLXI_BACKWARD)
            group = operand_group(s, n, FLXI_FORWARD);
        s->t->of[i] = group ? group : operand_group(s, n, FLXI_PHASES);
    }
    return FLX_OK;
}

static uint32_t deeper(const spreading *s, uint32_t a, uint32_t b)
{
    return s->t->groups.at[b].depth > s->t->groups.at[a].depth ? b : a;
}

/* The innermost group with both an operand and a reader of the node, or with all its operands. */
static uint32_t group_between(const spreading *s, uint32_t i)
{
    const flxi_node *n = flxi_node_at(s->g, i);
    uint32_t best = deeper(s, s->t->of[i], operand_group(s, n, s->phases[i]));
    for (uint32_t k = 0; k < n->nin && k < LOOKED_AT; k++) {
        uint32_t p = producer(s->g, n->in[k]);
        uint32_t end = s->first_reader[i + 1] - s->first_reader[i];
        bool is_near = s->phases[p] == s->phases[i] && flxi_node_at(s->g, p)->nin;
        for (uint32_t r = 0; is_near && r < end && r < LOOKED_AT; r++) {
            uint32_t reader = s->readers[s->first_reader[i] + r];
            if (s->phases[reader] == s->phases[i])
                best = deeper(s, best, flxi_common_group(s->t, s->t->of[p], s->t->of[reader]));
        }
    }
    return best;
}

static void spread_between(const spreading *s)
{
    for (uint32_t i = 0; i < s->g->node_count; i++)
        if (!s->is_fixed[i])
            s->t->of[i] = group_between(s, i);
}

/* What only a deeper group reads is part of it, such as the mean of a norm, which comes before its parameters; unless
   the node is in a group around that one already. */
static void spread_up(const spreading *s)
{
    for (uint32_t i = s->g->node_count; i-- > 0;) {
        uint32_t group = FLXI_VIEW_NONE, own = s->t->of[i];
        for (uint32_t r = s->first_reader[i]; !s->is_fixed[i] && r < s->first_reader[i + 1]; r++) {
            uint32_t reader = s->readers[r];
            if (s->phases[reader] == s->phases[i])
                group = group == FLXI_VIEW_NONE ? s->t->of[reader] : flxi_common_group(s->t, group, s->t->of[reader]);
        }
        if (group != FLXI_VIEW_NONE && deeper(s, own, group) == group &&
            (own == 0 || flxi_common_group(s->t, own, group) != own))
            s->t->of[i] = group;
    }
}

/* Leaves outside of all groups that one group alone reads. */
static void adopt_leaves(const spreading *s)
{
    for (uint32_t i = 0; i < s->g->node_count; i++) {
        uint32_t begin = s->first_reader[i], end = s->first_reader[i + 1];
        if (flxi_node_at(s->g, i)->nin || s->t->of[i] || begin == end)
            continue;
        uint32_t group = s->t->of[s->readers[begin]];
        for (uint32_t r = begin + 1; r < end; r++)
            group = flxi_common_group(s->t, group, s->t->of[s->readers[r]]);
        s->t->of[i] = group;
    }
}

static bool list_readers(spreading *s, flxi_arena *arena)
{
    uint32_t n = s->g->node_count;
    uint64_t edges = 0;
    s->first_reader = flxi_new(arena, uint32_t, n + 2);
    if (!s->first_reader)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const flxi_node *node = flxi_node_at(s->g, i);
        edges += node->nin;
        for (uint32_t k = 0; k < node->nin; k++)
            s->first_reader[producer(s->g, node->in[k]) + 2]++;
    }
    s->readers = edges < UINT32_MAX ? flxi_new(arena, uint32_t, edges) : NULL;
    if (!s->readers)
        return false;
    for (uint32_t i = 2; i < n + 2; i++)
        s->first_reader[i] += s->first_reader[i - 1];
    for (uint32_t i = 0; i < n; i++) {
        const flxi_node *node = flxi_node_at(s->g, i);
        for (uint32_t k = 0; k < node->nin; k++)
            s->readers[s->first_reader[producer(s->g, node->in[k]) + 1]++] = i;
    }
    return true;
}

flx_code flxi_find_name_groups(flxi_name_groups *t, const flx_graph *g, const uint8_t *phases, flxi_arena *arena,
                               flx_error *err)
{
    spreading s = {.t = t, .g = g, .phases = phases};
    *t = (flxi_name_groups){.mem = arena->mem, .texts = {.arena = arena}};
    t->of = flxi_new(arena, uint32_t, g->node_count + 1);
    s.is_fixed = flxi_new(arena, bool, g->node_count + 1);
    if (!t->of || !s.is_fixed || !flxi_push(t->mem, &t->groups, ((flxi_name_group){.name = ""})) ||
        !list_readers(&s, arena))
        return flxi_oom(err, "a view of a graph");
    FLXI_TRY(spread_down(&s, err));
    spread_up(&s);
    spread_between(&s);
    spread_up(&s);
    adopt_leaves(&s);
    return FLX_OK;
}

void flxi_name_groups_free(flxi_name_groups *t)
{
    if (!t->mem)
        return;
    flxi_vec_free(t->mem, &t->groups);
    flxi_index_free(t->mem, &t->index);
    flxi_strings_free(&t->texts);
}
