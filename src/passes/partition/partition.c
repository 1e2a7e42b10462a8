/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c: one graph for all processes of a mesh. A forward sweep places each value: where an operand is cut along
   an axis that the op passes on, or sums over, the node computes on parts; everything else is gathered first. Cuts of
   several operands that contradict each other are decided by the first. */
#include "passes/partition/partition.h"

#include "base/distinct.h"
#include "base/options.h"
#include "graph/op/attr_access.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"
#include "passes/decompose.h"
#include "passes/pass.h"

/* ---- What axes of operands mean to a node ---- */

enum { NO_LABEL = -1, FIRST_SUM = FLX_MAX_RANK, LABELS = 2 * FLX_MAX_RANK };

/* The axis of the result that an axis of an operand becomes, or FIRST_SUM + the sum that it belongs to. */
static int label_of(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const flxi_op *op = &flxi_ops[n->op];
    const struct flxi_shard *rule = op->rules->shard;
    const flxi_use use = {g, n, operand, 0};
    flxi_link l = {.axis = axis};
    int sum = rule && rule->summed ? rule->summed(g, n, operand, axis) : -1;
    if (sum >= 0)
        return FIRST_SUM + sum;
    bool passes =
        op->rules->link ? op->rules->link(&use, &l) : op->op_class == CLASS_POINTWISE && flxi_link_aligned(&use, &l);
    bool is_whole = passes && l.axis >= 0 && l.lo == 0 && l.hi == 0;
    return is_whole && flxi_link_operand(&use)->dims[axis] == flxi_link_result(&use)->dims[l.axis] ? l.axis : NO_LABEL;
}

static bool has_rule(const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    bool is_pointwise = op->op_class == CLASS_POINTWISE && op->rules->scalar;
    return n->nout == 1 &&
           (op->rules->shard || is_pointwise || (op->op_class == CLASS_POINTWISE && op->rules->element));
}

/* For each label the axis of the mesh along which the node is cut. */
static void choose_cuts(const flxi_partition *p, const flxi_node *n, int8_t chosen[LABELS])
{
    bool is_used[FLXI_MESH_AXES] = {false};
    memset(chosen, WHOLE, LABELS);
    for (uint32_t i = 0; i < n->nin; i++)
        for (int k = 0; k < flxi_type_at(p->from, n->in[i])->rank; k++) {
            int m = p->placed[n->in[i]].cuts.at[k], label = m == WHOLE ? NO_LABEL : label_of(p->from, n, i, k);
            if (label == NO_LABEL || chosen[label] != WHOLE || is_used[m])
                continue;
            chosen[label] = (int8_t)m;
            is_used[m] = true;
        }
}

/* ---- Nodes ---- */

static bool is_any_cut(const flxi_partition *p, const flxi_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        if (flxi_is_cut(&p->placed[n->in[i]].cuts))
            return true;
    return false;
}

static void put_value(flxi_partition *p, uint32_t id, flx_val v, const flxi_cuts *cuts)
{
    p->placed[id] = (flxi_placed){.v = v, .cuts = *cuts, .whole = flxi_is_cut(cuts) ? FLX_NONE : v};
}

/* The node's attributes, with the shape of a part where they hold the shape of the result. */
static void *attrs_of_part(flxi_partition *p, flxi_site *s, const flxi_node *n, const flx_type *part)
{
    const struct flxi_shard *rule = s->op->rules->shard;
    void *attrs = flxi_site_attrs(s);
    const flx_ints *shape = attrs && rule && rule->shape ? flxi_attr_ints(s->op, attrs, rule->shape) : NULL;
    (void)n;
    if (!shape || !shape->v)
        return attrs;
    int64_t *dims = flxi_dup(&p->to->arena, int64_t, part->dims, part->rank);
    if (!dims)
        return NULL;
    memcpy((void *)(uintptr_t)shape, &(flx_ints){dims, (size_t)part->rank}, sizeof *shape);
    return attrs;
}

static flx_code run_on_parts(flxi_partition *p, flxi_site *s, const flxi_node *n, const int8_t chosen[LABELS])
{
    const flxi_op *op = &flxi_ops[n->op];
    flx_val *x = flxi_new(&p->to->arena, flx_val, n->nin), y = FLX_NONE;
    flxi_cuts result = flxi_no_cuts();
    if (!x)
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < n->nin; i++) {
        flxi_cuts want = flxi_no_cuts();
        for (int k = 0; k < flxi_type_at(p->from, n->in[i])->rank; k++) {
            int label = label_of(p->from, n, i, k);
            want.at[k] = label == NO_LABEL ? WHOLE : chosen[label];
        }
        x[i] = flxi_recut(p, n->in[i], &want);
    }
    memcpy(result.at, chosen, sizeof result.at);
    flx_type part = flxi_part_type(p, flxi_type_at(p->from, n->first), &result);
    flxi_append(s, attrs_of_part(p, s, n, &part), x, n->nin, &y);
    for (int k = FIRST_SUM; k < LABELS; k++)
        if (chosen[k] != WHOLE)
            y = flxi_combine_parts(p, y, chosen[k], op->rules->shard->combine);
    put_value(p, n->first, y, &result);
    p->report.cut++;
    return flxi_built(p->to, p->err);
}

static flx_code run_whole(flxi_partition *p, flxi_site *s, const flxi_node *n)
{
    const flxi_cuts whole = flxi_no_cuts();
    flx_val *x = flxi_new(&p->to->arena, flx_val, n->nin), *y = flxi_new(&p->to->arena, flx_val, n->nout);
    if (!x || !y)
        return flxi_oom(p->err, "a partition");
    p->report.whole++;
    p->report.gathered += is_any_cut(p, n);
    for (uint32_t i = 0; i < n->nin; i++)
        x[i] = flxi_recut(p, n->in[i], &whole);
    flxi_append(s, NULL, x, n->nin, y);
    for (uint32_t k = 0; k < n->nout; k++)
        put_value(p, n->first + k, y[k], &whole);
    return flxi_built(p->to, p->err);
}

/* A value whose cuts the graph says. */
static flx_code run_sharding(flxi_partition *p, const flxi_node *n, const char *spec)
{
    flxi_cuts cuts;
    const char *name = flxi_value_at(p->from, n->first)->name;
    FLXI_TRY(flxi_read_cuts(p, spec, flxi_type_at(p->from, n->first), name ? name : "shard", &cuts, p->err));
    put_value(p, n->first, flxi_recut(p, n->in[0], &cuts), &cuts);
    return flxi_built(p->to, p->err);
}

static flx_code partition_node(flxi_partition *p, uint32_t i, uint32_t *map)
{
    const flxi_node *n = flxi_node_at(p->from, i);
    const char *const *spec = flxi_attr_field(&flxi_ops[n->op], n->attrs, "spec", STORED_STRING);
    int8_t chosen[LABELS];
    if (flxi_has_exchange(n))
        return flxi_fail_hint(p->err, FLX_E_UNSUPPORTED, "partition a graph without exchanges: they are added",
                              "the graph has the exchange %s already", flxi_ops[n->op].name);
    if (spec && n->nin == 1)
        return run_sharding(p, n, *spec);
    flxi_site s = flxi_site_of(p->to, p->from, i, map);
    FLXI_TRY(flxi_built(p->to, p->err));
    if (!has_rule(n) || !is_any_cut(p, n))
        return run_whole(p, &s, n);
    choose_cuts(p, n, chosen);
    for (int k = 0; k < LABELS; k++)
        if (chosen[k] != WHOLE)
            return run_on_parts(p, &s, n, chosen);
    return run_whole(p, &s, n);
}

/* ---- Leaves and outputs ---- */

static flx_code find_cuts(const flxi_partition *p, const char *name, const flx_type *type, const flx_sharding *list,
                          size_t count, flxi_cuts *out)
{
    *out = flxi_no_cuts();
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return flxi_read_cuts(p, list[i].spec, type, name, out, p->err);
    return FLX_OK;
}

static flx_code place_leaf(flxi_partition *p, uint32_t node, const flx_sharding *list, size_t count)
{
    const flxi_node *n = flxi_node_at(p->from, node);
    const flxi_value *v = flxi_value_at(p->from, n->first);
    flxi_cuts cuts;
    FLXI_TRY(find_cuts(p, v->name, v->type, list, count, &cuts));
    flx_type part = flxi_part_type(p, v->type, &cuts);
    flx_val leaf = flxi_is_param(n) ? flx_param(p->to, v->name, &part) : flx_input(p->to, v->name, &part);
    put_value(p, n->first, leaf, &cuts);
    return flxi_built(p->to, p->err);
}

static flx_code place_outputs(flxi_partition *p, const flx_sharding *list, size_t count)
{
    for (size_t i = 0; i < p->from->outputs.n; i++) {
        uint32_t id = p->from->outputs.at[i].val;
        const char *name = p->from->outputs.at[i].name;
        flxi_cuts cuts;
        FLXI_TRY(find_cuts(p, name, flxi_type_at(p->from, id), list, count, &cuts));
        flx_output(p->to, flxi_recut(p, id, &cuts), name);
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

static flx_code sweep(flxi_partition *p, const flx_sharding *list, size_t count)
{
    uint32_t *map = flxi_new(&p->to->arena, uint32_t, p->from->value_count + 1);
    p->placed = flxi_new(&p->to->arena, flxi_placed, p->from->value_count + 1);
    if (!map || !p->placed)
        return flxi_oom(p->err, "a partition");
    for (uint32_t i = 0; i < p->from->node_count; i++) {
        bool is_leaf = flxi_ops[flxi_node_at(p->from, i)->op].traits & TRAIT_DECLARED;
        FLXI_TRY(is_leaf ? place_leaf(p, i, list, count) : partition_node(p, i, map));
        const flxi_node *n = flxi_node_at(p->from, i);
        for (uint32_t k = 0; k < n->nout; k++)
            map[n->first + k] = p->placed[n->first + k].v.id;
    }
    return place_outputs(p, list, count);
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
        return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "replace them with flx_specialise()",
                              "'%.60s' has symbolic dimensions, which cannot be cut", g->name);
    p.to = flx_graph_new(g->ctx, g->name);
    flx_code code = p.to ? sweep(&p, list, count) : flxi_oom(err, "a partition");
    if (code == FLX_OK)
        code = flxi_pass_dce(p.to, out, NULL, err);
    flx_graph_release(p.to);
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
