/* SPDX-License-Identifier: Apache-2.0 */
/* light_nodes.c: see light_nodes.h. */
#include "compile/light_nodes.h"

#include "compile/access.h"

/* Results of fewer elements are not worth it. Operands that are this many times smaller stay in the caches. */
static const int64_t min_count = 1 << 16, much_smaller = 32;

typedef struct {
    const flx_graph *g;
    uint32_t *num_users;    /* by node */
    uint32_t *column_users; /* by node: how many of them fold columns, or only pass the elements on to such folds */
} survey;

/* A fold along an axis that is not the last: rows of its results are contiguous. */
static bool folds_columns(const flx_graph *g, const flxi_node *n)
{
    flxi_space space;
    return flxi_ops[n->op].rules->fold && flxi_fold_space(g, n, &space) && space.inner > 1;
}

/* The same elements with the same last axis, as a reshape that joins the others. */
static bool keeps_lines(const flx_graph *g, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (op->op_class != CLASS_SHAPE || !(op->traits & TRAIT_COPIES) || n->nout != 1)
        return false;
    const flx_type *from = flxi_type_at(g, n->in[0]), *to = flxi_type_at(g, n->first);
    return from->rank > 0 && to->rank > 0 && from->dims[from->rank - 1] == to->dims[to->rank - 1] &&
           flxi_count_at(g, n->in[0]) == flxi_count_at(g, n->first);
}

/* From the last node to the first: users are counted before their operands. */
static void count_users(survey *s)
{
    for (uint32_t i = s->g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(s->g, i);
        bool passes_on = s->num_users[i] > 0 && s->column_users[i] == s->num_users[i] && keeps_lines(s->g, n);
        for (uint32_t k = 0; k < n->nin; k++) {
            uint32_t source = flxi_value_at(s->g, n->in[k])->node;
            s->num_users[source]++;
            s->column_users[source] += passes_on || folds_columns(s->g, n);
        }
    }
    for (size_t k = 0; k < s->g->outputs.n; k++)
        s->num_users[flxi_value_at(s->g, s->g->outputs.at[k].val)->node]++;
}

static uint32_t count_large_operands(const flx_graph *g, const flxi_node *n, int64_t count)
{
    uint32_t large = 0;
    for (uint32_t k = 0; k < n->nin; k++)
        large += flxi_count_at(g, n->in[k]) > count / much_smaller;
    return large;
}

/* f16 or bf16 as f32. */
static bool widens(const flx_graph *g, const flxi_node *n)
{
    int32_t from = flxi_type_at(g, n->in[0])->dtype;
    return n->nin == 1 && (from == FLX_F16 || from == FLX_BF16);
}

static bool is_light(const survey *s, uint32_t i, bool only_widened)
{
    const flxi_node *n = flxi_node_at(s->g, i);
    const flxi_op *op = &flxi_ops[n->op];
    int64_t count = n->nout == 1 ? flxi_count_at(s->g, n->first) : 0;
    if (count < min_count || op->op_class != CLASS_POINTWISE || flxi_value_at(s->g, n->first)->pinned ||
        flxi_type_at(s->g, n->first)->dtype != FLX_F32)
        return false;
    if (widens(s->g, n) || only_widened)
        return widens(s->g, n);
    if (n->nin != 2 || !(op->traits & (TRAIT_LINEAR | TRAIT_MULTILINEAR)))
        return false;
    bool is_for_columns = s->num_users[i] > 0 && s->column_users[i] == s->num_users[i];
    return is_for_columns || (s->num_users[i] > 1 && count_large_operands(s->g, n, count) == 1);
}

bool *flxi_find_light_nodes(const flx_graph *g, bool only_widened, flxi_arena *arena)
{
    survey s = {.g = g,
                .num_users = flxi_new(arena, uint32_t, g->node_count + 1),
                .column_users = flxi_new(arena, uint32_t, g->node_count + 1)};
    bool *light = flxi_new(arena, bool, g->node_count + 1);
    if (!s.num_users || !s.column_users || !light)
        return NULL;
    count_users(&s);
    for (uint32_t i = 0; i < g->node_count; i++)
        light[i] = is_light(&s, i, only_widened);
    return light;
}
