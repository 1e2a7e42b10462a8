/* SPDX-License-Identifier: Apache-2.0 */
/* shard_labels.c: which axes of a node's operands and results are cut together. Axes with one label are cut along one
   axis of the mesh: a label is an axis of the results, or a sum. */
#include "graph/op/attr_access.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"
#include "passes/partition/partition.h"

#include <stdlib.h>

static bool is_pointwise(const flxi_op *op)
{
    return op->op_class == CLASS_POINTWISE && (op->rules->scalar || op->rules->element);
}

bool flxi_has_shard_rule(const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    bool has_rule = op->rules->shard && !op->rules->shard->by_bodies;
    return n->nout > 0 && (has_rule || (n->nout == 1 && is_pointwise(op)));
}

/* The axis of one result by its link: position by position, or block by block. */
static int linked_axis(const flx_graph *g, const flxi_node *n, uint32_t operand, uint32_t result, int axis,
                       int64_t parts)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flxi_use use = {g, n, operand, result};
    flxi_link l = {.axis = axis, .blocks = parts};
    bool passes =
        op->rules->link ? op->rules->link(&use, &l) : op->op_class == CLASS_POINTWISE && flxi_link_aligned(&use, &l);
    if (!passes || l.axis < 0 || l.lo != l.hi)
        return NO_LABEL;
    flx_dim x = flxi_link_operand(&use)->dims[axis], y = flxi_link_result(&use)->dims[l.axis];
    if (l.lo != 0) /* no farther than the neighbour */
        return op->rules->shard->low && operand == 0 && x == y && llabs(l.lo) <= x / parts ? l.axis : NO_LABEL;
    return x == y || (l.by_blocks && x % parts == 0 && y % parts == 0) ? l.axis : NO_LABEL;
}

static int axis_by_links(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t parts)
{
    int first = linked_axis(g, n, operand, 0, axis, parts);
    for (uint32_t k = 1; k < n->nout && first != NO_LABEL; k++)
        if (linked_axis(g, n, operand, k, axis, parts) != first)
            return NO_LABEL;
    return first;
}

/* Each part has whole groups. */
static bool splits_groups(const flx_graph *g, const flxi_node *n, int axis, int64_t parts)
{
    const char *groups = flxi_ops[n->op].rules->shard->groups;
    return groups && axis == flxi_type_at(g, n->first)->rank - 1 && flxi_node_int(n, groups) % parts != 0;
}

int flxi_shard_label(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis, int64_t parts)
{
    const struct flxi_shard *rule = flxi_ops[n->op].rules->shard;
    int sum = rule && rule->summed ? rule->summed(g, n, operand, axis) : -1;
    if (sum >= 0)
        return FIRST_SUM + sum;
    if (!rule || !rule->becomes)
        return axis_by_links(g, n, operand, axis, parts);
    int at = rule->becomes(g, n, operand, axis);
    return at < 0 || splits_groups(g, n, at, parts) ? NO_LABEL : at;
}

bool flxi_choose_cuts(const flxi_partition *p, const flxi_node *n, flxi_along chosen[LABELS])
{
    flxi_along used = 0;
    memset(chosen, WHOLE, LABELS);
    if (!flxi_has_shard_rule(n))
        return false;
    for (uint32_t i = 0; i < n->nin; i++)
        for (int k = 0; k < flxi_type_at(p->from, n->in[i])->rank; k++) {
            flxi_along m = p->placed[n->in[i]].cuts.at[k];
            int label = m == WHOLE ? NO_LABEL : flxi_shard_label(p->from, n, i, k, flxi_along_size(p, m));
            if (label == NO_LABEL || chosen[label] != WHOLE || (used & m))
                continue;
            chosen[label] = m;
            used |= m;
        }
    return used != 0;
}

flxi_cuts flxi_wanted_cuts(const flxi_partition *p, const flxi_node *n, uint32_t operand,
                           const flxi_along chosen[LABELS])
{
    flxi_cuts want = flxi_no_cuts();
    for (int k = 0; k < flxi_type_at(p->from, n->in[operand])->rank; k++)
        for (int label = 0; label < LABELS; label++)
            if (chosen[label] != WHOLE &&
                flxi_shard_label(p->from, n, operand, k, flxi_along_size(p, chosen[label])) == label)
                want.at[k] = chosen[label];
    return want;
}
