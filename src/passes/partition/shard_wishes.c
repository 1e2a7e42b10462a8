/* SPDX-License-Identifier: Apache-2.0 */
/* shard_wishes.c: how the users of a value would like it to be cut. Values are placed once without making nodes, so
   that it is known which nodes compute on parts; then wishes go backwards, from outputs and from those nodes to what
   they read. A sum over processes looks at them: the gradient of a parameter whose state is cut is only needed in
   parts. */
#include "passes/partition/partition.h"

/* ---- Where values will be cut, if sums are whole ---- */

static flx_code place_said(flxi_partition *p, const flxi_node *n, const char *said)
{
    const char *name = flxi_value_at(p->from, n->first)->name;
    return flxi_read_cuts(p, said, flxi_type_at(p->from, n->first), name ? name : "shard", &p->placed[n->first].cuts,
                          p->err);
}

static flx_code place_by_bodies(flxi_partition *p, const flxi_node *n)
{
    flxi_body_cuts cuts;
    FLXI_TRY(flxi_choose_body_cuts(p, n, &cuts));
    for (uint32_t k = 0; k < n->nout; k++)
        p->placed[n->first + k].cuts = cuts.results[k];
    p->report.gathered += !cuts.is_cut && flxi_reads_cut(p, n);
    return FLX_OK;
}

flx_code flxi_place_node(flxi_partition *p, const flxi_node *n)
{
    const char *said = flxi_said_cuts(n);
    flxi_along chosen[LABELS];
    if (said)
        return place_said(p, n, said);
    if (flxi_is_by_bodies(n))
        return place_by_bodies(p, n);
    bool is_cut = flxi_choose_cuts(p, n, chosen);
    p->report.gathered += !is_cut && flxi_reads_cut(p, n);
    for (uint32_t k = 0; k < n->nout; k++) {
        p->placed[n->first + k].cuts = flxi_no_cuts();
        if (is_cut)
            memcpy(p->placed[n->first + k].cuts.at, chosen, sizeof p->placed[0].cuts.at);
    }
    return FLX_OK;
}

flx_code flxi_place_all(flxi_partition *p)
{
    const flx_graph *g = p->from;
    p->placed = flxi_new(p->arena, flxi_placed, g->value_count + 1);
    if (!p->placed)
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        FLXI_TRY(flxi_visit_node(p));
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            p->placed[n->first].cuts = p->given[n->first];
        else
            FLXI_TRY(flxi_place_node(p, n));
    }
    return FLX_OK;
}

/* ---- Backwards ---- */

static void wish_of_outputs(flxi_partition *p, uint32_t value, const flxi_cuts *cuts)
{
    flxi_add_cuts(&p->wishes[value], cuts, flxi_type_at(p->from, value)->rank);
}

/* A node that computes on parts wants its operands in parts; one whose result is wanted in parts passes that on. */
static void wish_of_node(flxi_partition *p, const flxi_node *n)
{
    flxi_along chosen[LABELS];
    if (!flxi_has_shard_rule(n))
        return;
    flxi_choose_cuts(p, n, chosen);
    flxi_cuts result;
    memcpy(result.at, chosen, sizeof result.at);
    flxi_add_cuts(&result, &p->wishes[n->first], flxi_type_at(p->from, n->first)->rank);
    memcpy(chosen, result.at, sizeof result.at);
    for (uint32_t i = 0; i < n->nin; i++) {
        flxi_cuts want = flxi_wanted_cuts(p, n, i, chosen);
        flxi_add_cuts(&p->wishes[n->in[i]], &want, flxi_type_at(p->from, n->in[i])->rank);
    }
}

flx_code flxi_find_wishes(flxi_partition *p)
{
    const flx_graph *g = p->from;
    p->wishes = flxi_new(p->arena, flxi_cuts, g->value_count + 1);
    if (!p->wishes)
        return flxi_oom(p->err, "a partition");
    for (uint32_t id = 0; id <= g->value_count; id++)
        p->wishes[id] = flxi_no_cuts();
    FLXI_TRY(flxi_place_all(p));
    p->report.gathered = 0; /* counted again when nodes are made */
    for (size_t i = 0; i < g->outputs.n; i++)
        wish_of_outputs(p, g->outputs.at[i].val, &p->given_output[i]);
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        if (flxi_said_cuts(n))
            flxi_add_cuts(&p->wishes[n->in[0]], &p->placed[n->first].cuts, flxi_type_at(g, n->first)->rank);
        else if (n->nin > 0)
            wish_of_node(p, n);
    }
    return FLX_OK;
}
