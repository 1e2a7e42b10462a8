/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c: one graph for all processes of a mesh. A forward sweep places each value: where an operand is cut along
   an axis that the op passes on, or sums over, the node computes on parts; everything else is gathered first. Cuts of
   several operands that contradict each other are decided by the first. A sum over processes is made where it is needed
   (terms.c): a reduce_scatter if those that use it want it cut, or else an all_reduce. */
#include "passes/partition/partition.h"

#include "base/distinct.h"
#include "base/host/stop.h"
#include "base/options.h"
#include "graph/op/attr_access.h"
#include "ops/rule/shard.h"
#include "passes/decompose.h"
#include "passes/partition/cut_memo.h"
#include "passes/pass.h"

/* ---- Nodes ---- */

static const int64_t most_visits = 20000000; /* some minutes */

flx_code flxi_visit_node(flxi_partition *p)
{
    if (++p->memo->visits > most_visits)
        return flxi_fail_hint(p->err, FLX_E_SIZE, "cut fewer operands of nodes with bodies, or along fewer axes",
                              "'%.60s': the bodies can be cut in too many ways: more than %lld nodes", p->from->name,
                              (long long)most_visits);
    return flxi_stopped() ? flxi_stop_check(p->err) : FLX_OK;
}

bool flxi_reads_cut(const flxi_partition *p, const flxi_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        if (flxi_is_cut(&p->placed[n->in[i]].cuts))
            return true;
    return false;
}

static void put_value(flxi_partition *p, uint32_t id, flx_val v, const flxi_cuts *cuts, flxi_along terms)
{
    bool is_whole = !terms && !flxi_is_cut(cuts);
    p->placed[id] = (flxi_placed){.v = v, .cuts = *cuts, .terms = terms, .whole = is_whole ? v : FLX_NONE};
}

/* The node's attributes for a part: extents of the result, and how many groups it has along its last axis. */
static void *attrs_of_part(flxi_partition *p, flxi_site *s, const flxi_cuts *result, const flx_type *part)
{
    const struct flxi_shard *rule = s->op->rules->shard;
    void *attrs = flxi_site_attrs(s);
    const flx_ints *shape = attrs && rule && rule->shape ? flxi_attr_ints(s->op, attrs, rule->shape) : NULL;
    flxi_along last = part->rank > 0 ? result->at[part->rank - 1] : WHOLE;
    if (attrs && rule && rule->groups && last != WHOLE)
        flxi_attr_set_int(s->op, attrs, rule->groups,
                          flxi_attr_int(s->op, attrs, rule->groups) / flxi_along_size(p, last));
    if (!shape || !shape->v)
        return attrs;
    int64_t *dims = flxi_dup(&p->to->arena, int64_t, shape->v, shape->n);
    if (!dims)
        return NULL;
    for (size_t k = 0; k < shape->n && k < (size_t)part->rank; k++)
        dims[k] = result->at[k] == WHOLE ? dims[k] : part->dims[k];
    memcpy((void *)(uintptr_t)shape, &(flx_ints){dims, shape->n}, sizeof *shape);
    return attrs;
}

/* What the processes computed where the node combines elements along a cut axis: the result, or a term of it. */
static flx_val combine_parts(flxi_partition *p, const flxi_node *n, flx_val v, const flxi_along chosen[LABELS],
                             flxi_along *terms)
{
    const struct flxi_shard *rule = flxi_ops[n->op].rules->shard;
    bool is_sum = rule && rule->combine && strcmp(rule->combine, "sum") == 0;
    for (int k = FIRST_SUM; k < LABELS; k++)
        if (is_sum)
            *terms |= chosen[k];
        else if (chosen[k] != WHOLE)
            v = flxi_combine_parts(p, v, chosen[k], rule->combine);
    return v;
}

/* One of the lists by which an op lengthens an axis, to be changed. NULL: there is none. */
static int64_t *own_list(flxi_partition *p, const flxi_op *op, void *attrs, const char *name)
{
    const flx_ints *list = attrs && name ? flxi_attr_ints(op, attrs, name) : NULL;
    int64_t *copy = list && list->v ? flxi_dup(&p->to->arena, int64_t, list->v, list->n) : NULL;
    if (copy)
        memcpy((void *)(uintptr_t)list, &(flx_ints){copy, list->n}, sizeof *list);
    return copy;
}

/* Where the op moves a cut axis, elements of the neighbour come first. */
static flx_val take_from_neighbours(flxi_partition *p, const flxi_node *n, const flxi_cuts *cuts, const flx_val *x,
                                    void *attrs)
{
    const struct flxi_shard *rule = flxi_ops[n->op].rules->shard;
    flx_val moved = x[0];
    int64_t *low = rule && rule->low ? own_list(p, &flxi_ops[n->op], attrs, rule->low) : NULL;
    int64_t *high = low ? own_list(p, &flxi_ops[n->op], attrs, rule->high) : NULL;
    for (int k = 0; high && k < flxi_type_at(p->from, n->in[0])->rank; k++) {
        if (cuts->at[k] == WHOLE || low[k] == 0)
            continue;
        moved = flxi_shift(p, moved, x[1], k, cuts->at[k], low[k]);
        low[k] = high[k] = 0;
    }
    return moved;
}

/* `terms`: the operands are terms of sums along these axes, and so are the results. */
static flx_code run_on_parts(flxi_partition *p, flxi_site *s, const flxi_node *n, const flxi_along chosen[LABELS],
                             flxi_along terms)
{
    flx_val *x = flxi_new(p->arena, flx_val, n->nin), *y = flxi_new(p->arena, flx_val, n->nout);
    flxi_cuts result = flxi_no_cuts();
    if (!x || !y)
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < n->nin; i++) {
        flxi_cuts want = flxi_wanted_cuts(p, n, i, chosen);
        x[i] = flxi_recut(p, n->in[i], &want);
    }
    memcpy(result.at, chosen, sizeof result.at);
    flx_type part = flxi_part_type(p, flxi_type_at(p->from, n->first), &result);
    void *attrs = attrs_of_part(p, s, &result, &part);
    x[0] = take_from_neighbours(p, n, &result, x, attrs);
    flxi_append(s, attrs, x, n->nin, y);
    for (uint32_t k = 0; k < n->nout; k++) {
        flx_val v = combine_parts(p, n, y[k], chosen, &terms);
        put_value(p, n->first + k, v, &result, terms);
    }
    p->report.cut++;
    return flxi_built(p->to, p->err);
}

static flx_code run_whole(flxi_partition *p, flxi_site *s, const flxi_node *n, flxi_along terms)
{
    const flxi_cuts whole = flxi_no_cuts();
    flx_val *x = flxi_new(p->arena, flx_val, n->nin), *y = flxi_new(p->arena, flx_val, n->nout);
    if (!x || !y)
        return flxi_oom(p->err, "a partition");
    p->report.whole++;
    p->report.gathered += flxi_reads_cut(p, n);
    for (uint32_t i = 0; i < n->nin; i++)
        x[i] = flxi_recut(p, n->in[i], &whole);
    flxi_append(s, NULL, x, n->nin, y);
    for (uint32_t k = 0; k < n->nout; k++)
        put_value(p, n->first + k, y[k], &whole, terms);
    return flxi_built(p->to, p->err);
}

/* A value whose cuts the graph says. */
static flx_code run_sharding(flxi_partition *p, const flxi_node *n, const char *spec)
{
    flxi_cuts cuts;
    const char *name = flxi_value_at(p->from, n->first)->name;
    FLXI_TRY(flxi_read_cuts(p, spec, flxi_type_at(p->from, n->first), name ? name : "shard", &cuts, p->err));
    put_value(p, n->first, flxi_recut(p, n->in[0], &cuts), &cuts, 0);
    return flxi_built(p->to, p->err);
}

static flx_code append_bodies(flxi_partition *p, flxi_site *s, const flxi_node *n, flxi_body_cuts *cuts)
{
    void *attrs;
    flx_val *x = flxi_new(p->arena, flx_val, n->nin), *y = flxi_new(p->arena, flx_val, n->nout);
    if (!x || !y)
        return flxi_oom(p->err, "a partition");
    FLXI_TRY(flxi_cut_bodies(p, n, cuts, &attrs));
    for (uint32_t i = 0; i < n->nin; i++) {
        x[i] = flxi_recut(p, n->in[i], &cuts->operands[i]);
        if (cuts->terms[i])
            x[i] = flxi_first_term(p, x[i], cuts->terms[i]);
    }
    flxi_append(s, attrs, x, n->nin, y);
    for (uint32_t k = 0; k < n->nout; k++)
        put_value(p, n->first + k, y[k], &cuts->results[k], cuts->sums[k]);
    p->report.cut++;
    return flxi_built(p->to, p->err);
}

static flx_code run_bodies(flxi_partition *p, flxi_site *s, const flxi_node *n)
{
    flxi_body_cuts cuts;
    FLXI_TRY(flxi_choose_body_cuts(p, n, &cuts));
    return cuts.is_cut ? append_bodies(p, s, n, &cuts) : run_whole(p, s, n, 0);
}

static flx_code partition_node(flxi_partition *p, uint32_t i, uint32_t *map)
{
    const flxi_node *n = flxi_node_at(p->from, i);
    const char *said = flxi_said_cuts(n);
    flxi_along chosen[LABELS], terms = flxi_pass_terms(p, n);
    for (uint32_t k = 0; k < n->nin && !terms; k++)
        flxi_settle(p, n->in[k]);
    if (flxi_has_exchange(n))
        return flxi_fail_hint(p->err, FLX_E_UNSUPPORTED, "partition a graph without exchanges: they are added",
                              "the graph has the exchange %s already", flxi_ops[n->op].name);
    if (said)
        return run_sharding(p, n, said);
    flxi_site s = flxi_site_of(p->to, p->from, i, map);
    FLXI_TRY(flxi_built(p->to, p->err));
    if (flxi_is_by_bodies(n))
        return run_bodies(p, &s, n);
    return flxi_choose_cuts(p, n, chosen) ? run_on_parts(p, &s, n, chosen, terms) : run_whole(p, &s, n, terms);
}

/* ---- Leaves and outputs ---- */

static flx_code place_leaf(flxi_partition *p, uint32_t node)
{
    const flxi_node *n = flxi_node_at(p->from, node);
    const flxi_value *v = flxi_value_at(p->from, n->first);
    const flxi_cuts *cuts = &p->given[n->first];
    flx_type part = flxi_part_type(p, v->type, cuts);
    flx_val leaf = flxi_is_param(n) ? flx_param(p->to, v->name, &part) : flx_input(p->to, v->name, &part);
    put_value(p, n->first, leaf, cuts, 0);
    return flxi_built(p->to, p->err);
}

/* A sum that a loop collects stays one of its terms. */
static flx_code place_outputs(flxi_partition *p)
{
    for (size_t i = 0; i < p->from->outputs.n; i++) {
        const flxi_output *o = &p->from->outputs.at[i];
        if (!p->accumulates || i >= p->from->leaves.n || !p->placed[p->from->leaves.at[i]].terms)
            flxi_settle(p, o->val);
        flx_output(p->to, flxi_recut(p, o->val, &p->given_output[i]), o->name);
    }
    return flxi_built(p->to, p->err);
}

/* ---- All ---- */

static flx_code check_names(const flx_graph *g, const flx_sharding *list, size_t count, flx_error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t leaf;
        bool is_known = list[i].name && list[i].spec && flxi_find_leaf(g, list[i].name, &leaf);
        for (size_t k = 0; list[i].name && list[i].spec && k < g->outputs.n; k++)
            is_known |= strcmp(g->outputs.at[k].name, list[i].name) == 0;
        if (!is_known)
            return flxi_fail(err, FLX_E_NAME, "'%.60s' has no input, parameter or output '%.60s'", g->name,
                             list[i].name ? list[i].name : "");
    }
    return flxi_check_distinct(&g->ctx->mem, "the list says twice how to cut", list, count, sizeof *list, err);
}

static flx_code sweep(flxi_partition *p)
{
    uint32_t *map = flxi_new(p->arena, uint32_t, p->from->value_count + 1);
    if (!map)
        return flxi_oom(p->err, "a partition");
    FLXI_TRY(flxi_find_uses(p));
    FLXI_TRY(flxi_find_wishes(p));
    for (uint32_t i = 0; i < p->from->node_count; i++) {
        bool is_leaf = flxi_ops[flxi_node_at(p->from, i)->op].traits & TRAIT_DECLARED;
        FLXI_TRY(flxi_visit_node(p));
        FLXI_TRY(is_leaf ? place_leaf(p, i) : partition_node(p, i, map));
        const flxi_node *n = flxi_node_at(p->from, i);
        for (uint32_t k = 0; k < n->nout; k++)
            map[n->first + k] = p->placed[n->first + k].v.id;
    }
    return place_outputs(p);
}

flx_code flxi_partition_open(flxi_partition *p, flx_graph **out)
{
    p->to = flx_graph_new(p->from->ctx, p->from->name);
    flx_code code = p->to ? sweep(p) : flxi_oom(p->err, "a partition");
    if (code == FLX_OK)
        code = flxi_pass_dce(p->to, out, NULL, p->err);
    flx_graph_release(p->to);
    return code;
}

/* The cuts that the list gives for a name; none if it is not there. */
static flx_code listed_cuts(const flxi_partition *p, const char *name, const flx_type *type, const flx_sharding *list,
                            size_t count, flxi_cuts *out)
{
    *out = flxi_no_cuts();
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return flxi_read_cuts(p, list[i].spec, type, name, out, p->err);
    return FLX_OK;
}

static flx_code read_list(flxi_partition *p, const flx_sharding *list, size_t count)
{
    const flx_graph *g = p->from;
    flxi_cuts *leaves = flxi_new(p->arena, flxi_cuts, g->value_count + 1);
    flxi_cuts *outputs = flxi_new(p->arena, flxi_cuts, g->outputs.n + 1);
    if (!leaves || !outputs)
        return flxi_oom(p->err, "a partition");
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        FLXI_TRY(listed_cuts(p, v->name, v->type, list, count, &leaves[g->leaves.at[i]]));
    }
    for (size_t i = 0; i < g->outputs.n; i++)
        FLXI_TRY(
            listed_cuts(p, g->outputs.at[i].name, flxi_type_at(g, g->outputs.at[i].val), list, count, &outputs[i]));
    p->given = leaves;
    p->given_output = outputs;
    return FLX_OK;
}

static flx_code partition(const flx_graph *g, const char *axes, const flx_sharding *list, size_t count,
                          flx_partition_report *report, flx_graph **out, flx_error *err)
{
    flxi_partition p = {.from = g, .err = err};
    int64_t size = 0;
    FLXI_TRY(flx_graph_error(g, err));
    FLXI_TRY(flxi_mesh_read_axes(axes, &size, p.axes, &p.num_axes, err));
    FLXI_TRY(check_names(g, list, count, err));
    if (g->symbols.n)
        return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "give the extents: --set DIM=INT (flx_specialise())",
                              "'%.60s' has the symbolic dimension %.60s; only numbers can be cut", g->name,
                              g->symbols.at[0]);
    flx_graph *open = NULL;
    FLXI_TRY(flxi_open_composites(g, list, count, &open, err));
    flxi_arena arena;
    flxi_cut_memo memo = {.mem = &g->ctx->mem, .arena = &arena};
    flxi_arena_init(&arena, &g->ctx->mem);
    p.from = open;
    p.arena = &arena;
    p.memo = &memo;
    flx_code code = read_list(&p, list, count);
    if (code == FLX_OK)
        code = flxi_partition_open(&p, out);
    flxi_cut_memo_free(&memo);
    flxi_arena_free(&arena);
    flx_graph_release(open);
    if (code == FLX_OK && report)
        code = FLXI_FILL_OPTIONS(flx_partition_report, report, &p.report, err);
    return code;
}

flx_graph *flx_partition(const flx_graph *g, const char *axes, const flx_sharding *shardings, size_t count,
                         flx_partition_report *report, flx_error *err)
{
    flx_graph *out = NULL;
    flx_error local = {0};
    flx_code code = g && axes && (shardings || !count)
                        ? partition(g, axes, shardings, count, report, &out, &local)
                        : flxi_fail(&local, FLX_E_USAGE, "flx_partition: a graph, axes and a list are needed");
    if (code != FLX_OK && err)
        *err = local;
    return out;
}
