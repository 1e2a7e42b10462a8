/* SPDX-License-Identifier: Apache-2.0 */
/* shard_wishes.c: how the users of a value would like it to be cut. Values are placed once without making nodes, so
   that it is known which nodes compute on parts; then wishes go backwards, from outputs and from those nodes to what
   they read. A sum over processes looks at them: the gradient of a parameter whose state is cut is only needed in
   parts. */
#include "passes/partition/partition.h"

static bool has_axis(const flxi_cuts *c, int mesh_axis)
{
    for (int k = 0; k < FLX_MAX_RANK; k++)
        if (c->at[k] == mesh_axis)
            return true;
    return false;
}

/* What is wished already comes first. */
static void add_wish(flxi_cuts *wish, const flxi_cuts *more, int rank)
{
    for (int k = 0; k < rank; k++)
        if (wish->at[k] == WHOLE && more->at[k] != WHOLE && !has_axis(wish, more->at[k]))
            wish->at[k] = more->at[k];
}

/* ---- Where values will be cut, if sums are whole ---- */

static flx_code place_leaf(flxi_partition *p, const flxi_node *n, const flx_sharding *list, size_t count)
{
    const flxi_value *v = flxi_value_at(p->from, n->first);
    return flxi_listed_cuts(p, v->name, v->type, list, count, &p->placed[n->first].cuts);
}

static flx_code place_node(flxi_partition *p, const flxi_node *n)
{
    const char *said = flxi_said_cuts(n);
    int8_t chosen[LABELS];
    if (said) {
        const char *name = flxi_value_at(p->from, n->first)->name;
        return flxi_read_cuts(p, said, flxi_type_at(p->from, n->first), name ? name : "shard",
                              &p->placed[n->first].cuts, p->err);
    }
    bool is_cut = flxi_choose_cuts(p, n, chosen);
    for (uint32_t k = 0; k < n->nout; k++) {
        p->placed[n->first + k].cuts = flxi_no_cuts();
        if (is_cut)
            memcpy(p->placed[n->first + k].cuts.at, chosen, sizeof p->placed[0].cuts.at);
    }
    return FLX_OK;
}

/* ---- Backwards ---- */

static void wish_of_outputs(flxi_partition *p, uint32_t value, const flxi_cuts *cuts)
{
    add_wish(&p->wishes[value], cuts, flxi_type_at(p->from, value)->rank);
}

/* A node that computes on parts wants its operands in parts; one whose result is wanted in parts passes that on. */
static void wish_of_node(flxi_partition *p, const flxi_node *n)
{
    int8_t chosen[LABELS];
    if (!flxi_has_shard_rule(n))
        return;
    flxi_choose_cuts(p, n, chosen);
    flxi_cuts result;
    memcpy(result.at, chosen, sizeof result.at);
    add_wish(&result, &p->wishes[n->first], flxi_type_at(p->from, n->first)->rank);
    memcpy(chosen, result.at, sizeof result.at);
    for (uint32_t i = 0; i < n->nin; i++) {
        flxi_cuts want = flxi_wanted_cuts(p, n, i, chosen);
        add_wish(&p->wishes[n->in[i]], &want, flxi_type_at(p->from, n->in[i])->rank);
    }
}

flx_code flxi_find_wishes(flxi_partition *p, const flx_sharding *list, size_t count)
{
    const flx_graph *g = p->from;
    for (uint32_t id = 0; id <= g->value_count; id++)
        p->wishes[id] = flxi_no_cuts();
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_leaf = flxi_ops[n->op].traits & TRAIT_DECLARED;
        FLXI_TRY(is_leaf ? place_leaf(p, n, list, count) : place_node(p, n));
    }
    for (size_t i = 0; i < g->outputs.n; i++) {
        flxi_cuts cuts;
        uint32_t id = g->outputs.at[i].val;
        FLXI_TRY(flxi_listed_cuts(p, g->outputs.at[i].name, flxi_type_at(g, id), list, count, &cuts));
        wish_of_outputs(p, id, &cuts);
    }
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        if (flxi_said_cuts(n))
            add_wish(&p->wishes[n->in[0]], &p->placed[n->first].cuts, flxi_type_at(g, n->first)->rank);
        else if (n->nin > 0)
            wish_of_node(p, n);
    }
    return FLX_OK;
}
