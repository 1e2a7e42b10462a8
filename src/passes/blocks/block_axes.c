/* SPDX-License-Identifier: Apache-2.0 */
/* block_axes.c: along which axis a set of nodes is cut. From one axis of one value the axes of all others follow, node
   by node, until nothing changes; it can be cut if no node mixes positions along it, except sums that nothing in the
   set reads. Of several such axes the one is taken whose blocks have the least in common: the examples or heads, which
   share nothing, before the rows, which share the keys. What is chosen depends on shapes alone. */
#include "passes/blocks/block_rows.h"

typedef struct {
    int axis; /* of the seed */
    int64_t extent;
    double sums;   /* bytes of results that are sums over the blocks */
    double shared; /* bytes of operands that all blocks read */
    int64_t rows;
} cut;

static bool is_inside(const flxi_block_set *s, uint32_t value)
{
    return s->position[flxi_value_at(s->g, value)->node] != 0;
}

static const flxi_node *member(const flxi_block_set *s, uint32_t i)
{
    return flxi_node_at(s->g, s->nodes[i]);
}

static double bytes_of(const flx_graph *g, uint32_t value)
{
    size_t n = 0;
    flxi_static_bytes(flxi_type_at(g, value), &n);
    return (double)n;
}

/* ---- Following an axis ---- */

static bool assign(flxi_block_set *s, uint32_t value, int axis, bool *changed)
{
    if (s->axis[value] == axis)
        return true;
    if (s->axis[value] >= 0)
        return false;
    s->axis[value] = axis;
    *changed = true;
    return true;
}

static void push_node(flxi_block_set *s, const flxi_node *n, bool *changed)
{
    for (uint32_t k = 0; s->axis[n->first] < 0 && k < n->nin; k++) {
        int axis = is_inside(s, n->in[k]) ? s->axis[n->in[k]] : -1;
        int to = axis < 0 ? -1 : flxi_block_push(s->g, n, k, axis, s->extent);
        if (to >= 0)
            assign(s, n->first, to, changed);
    }
}

/* False: two positions of the result depend on one operand in a way that cannot be cut. */
static bool pull_node(flxi_block_set *s, const flxi_node *n, bool *changed)
{
    int axis = s->axis[n->first], from;
    for (uint32_t k = 0; axis >= 0 && k < n->nin; k++) {
        if (!flxi_block_pull(s->g, n, k, axis, s->extent, &from))
            return false;
        if (!is_inside(s, n->in[k]))
            continue;
        if (from < 0 ? s->axis[n->in[k]] >= 0 : !assign(s, n->in[k], from, changed))
            return false;
    }
    return true;
}

/* A sum whose other operand has the axis too: the same positions meet. */
static bool pull_sum(flxi_block_set *s, const flxi_node *n, bool *changed)
{
    for (uint32_t k = 0; s->axis[n->first] < 0 && k < n->nin; k++) {
        int axis = is_inside(s, n->in[k]) ? s->axis[n->in[k]] : -1, other;
        if (axis < 0 || !flxi_block_sums(s->g, n, k, axis, &other) || n->nin != 2 || !is_inside(s, n->in[1 - k]))
            continue;
        if (!assign(s, n->in[1 - k], other, changed))
            return false;
    }
    return true;
}

bool flxi_block_follow(flxi_block_set *s, uint32_t seed, int axis, int64_t extent)
{
    bool changed = true;
    for (uint32_t i = 0; i < s->num_nodes; i++)
        s->axis[member(s, i)->first] = -1;
    s->extent = extent;
    s->axis[seed] = axis;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < s->num_nodes; i++)
            push_node(s, member(s, i), &changed);
        for (uint32_t i = s->num_nodes; i-- > 0;)
            if (!pull_node(s, member(s, i), &changed) || !pull_sum(s, member(s, i), &changed))
                return false;
    }
    return true;
}

/* ---- Checking ---- */

bool flxi_block_is_sum(const flxi_block_set *s, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin && s->axis[n->first] < 0; k++)
        if (is_inside(s, n->in[k]) && s->axis[n->in[k]] >= 0)
            return true;
    return false;
}

int flxi_block_operand_axis(const flxi_block_set *s, const flxi_node *n, uint32_t operand)
{
    int axis = -1, other;
    if (is_inside(s, n->in[operand]))
        return s->axis[n->in[operand]];
    if (s->axis[n->first] >= 0) {
        flxi_block_pull(s->g, n, operand, s->axis[n->first], s->extent, &axis);
        return axis;
    }
    if (n->nin != 2 || !is_inside(s, n->in[1 - operand]) || s->axis[n->in[1 - operand]] < 0)
        return -1;
    return flxi_block_sums(s->g, n, 1 - operand, s->axis[n->in[1 - operand]], &other) ? other : -1;
}

/* Every block's part of such a node is added to the others'. */
static bool is_true_sum(const flxi_block_set *s, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        int axis = is_inside(s, n->in[k]) ? s->axis[n->in[k]] : flxi_block_operand_axis(s, n, k), other;
        if (axis < 0 || !flxi_block_sums(s->g, n, k, axis, &other))
            return false;
    }
    return true;
}

static bool reads_sum(const flxi_block_set *s, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (is_inside(s, n->in[k]) && flxi_block_is_sum(s, flxi_node_of(s->g, n->in[k])))
            return true;
    return false;
}

static bool can_cut(const flxi_block_set *s)
{
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flxi_node *n = member(s, i);
        if ((s->is_large[n->first] && s->axis[n->first] < 0) || reads_sum(s, n) ||
            (flxi_block_is_sum(s, n) && !is_true_sum(s, n)))
            return false;
    }
    return true;
}

/* ---- Choosing ---- */

/* What products read and write: the rest is computed inside of kernels. */
static double stored_bytes(const flxi_block_set *s, bool *is_counted)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flxi_node *n = member(s, i);
        for (uint32_t k = 0; flxi_is_contraction(n) && k <= n->nin; k++) {
            uint32_t value = k < n->nin ? n->in[k] : n->first;
            if (is_counted[value] || !s->is_large[value] || !is_inside(s, value))
                continue;
            is_counted[value] = true;
            sum += bytes_of(s->g, value);
        }
    }
    return sum;
}

static bool is_before(const flxi_block_set *s, uint32_t i, uint32_t operand)
{
    const flxi_node *n = member(s, i);
    for (uint32_t k = 0; k < operand; k++)
        if (n->in[k] == n->in[operand])
            return true;
    return false;
}

static void weigh(const flxi_block_set *s, cut *c)
{
    c->sums = c->shared = 0;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flxi_node *n = member(s, i);
        bool is_sum = flxi_block_is_sum(s, n), is_cut = is_sum || s->axis[n->first] >= 0;
        c->sums += is_sum ? bytes_of(s->g, n->first) : 0;
        for (uint32_t k = 0; is_cut && k < n->nin; k++)
            if (!is_inside(s, n->in[k]) && !is_before(s, i, k) && flxi_type_at(s->g, n->in[k])->rank > 0 &&
                flxi_block_operand_axis(s, n, k) < 0)
                c->shared += bytes_of(s->g, n->in[k]);
    }
}

/* The largest divisor up to `rows`, unless that is much smaller: then there is a last block of another size. */
static int64_t even_rows(int64_t extent, int64_t rows)
{
    int64_t d = rows;
    while (extent % d)
        d--;
    return 2 * d > rows ? d : rows;
}

static int64_t at_least(double x)
{
    int64_t n = (int64_t)x;
    return (double)n < x ? n + 1 : n;
}

/* Rows of a block; 0: it does not pay. Sums are read and written in each block, which must cost less than what is saved
   by not keeping the rest. */
static int64_t rows_of(const flxi_block_set *s, uint32_t seed, const cut *c, double stored)
{
    double each = stored / (double)c->extent;
    int64_t lines = flxi_type_at(s->g, seed)->dims[c->axis] / c->extent,
            rows = (int64_t)(s->limits->wanted_block / each);
    bool is_shared = c->sums > 0 || c->shared >= s->limits->least_shared;
    if (is_shared) {
        int64_t least = (s->limits->least_rows + lines - 1) / lines;
        rows = rows < least ? least : rows;
    }
    if (c->sums > 0) {
        int64_t least = at_least((double)c->extent * 3 * c->sums / (2 * stored));
        rows = rows < least ? least : rows;
    }
    rows = rows < 1 ? 1 : rows;
    if (rows >= c->extent || (is_shared && (double)rows * each > s->limits->most_block))
        return 0;
    return even_rows(c->extent, rows);
}

static bool is_better(const cut *a, const cut *b)
{
    if ((a->sums > 0) != (b->sums > 0))
        return b->sums > 0;
    if (a->shared != b->shared)
        return a->shared < b->shared;
    return a->axis != b->axis ? a->axis < b->axis : a->extent > b->extent;
}

static bool consider(flxi_block_set *s, uint32_t seed, cut c, double stored, cut *best)
{
    if (!flxi_block_follow(s, seed, c.axis, c.extent) || !can_cut(s))
        return false;
    weigh(s, &c);
    c.rows = rows_of(s, seed, &c, stored);
    if (!c.rows || (best->rows && !is_better(&c, best)))
        return false;
    *best = c;
    return true;
}

/* An axis may be two for other nodes, [heads * rows] and [heads, rows]: its parts are as many as other axes have
   positions. */
static void consider_parts(flxi_block_set *s, uint32_t seed, int axis, double stored, cut *best)
{
    int64_t whole = flxi_type_at(s->g, seed)->dims[axis], tried[8];
    size_t n = 0;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flx_type *t = flxi_type_at(s->g, member(s, i)->first);
        for (int k = 0; k < t->rank && n < sizeof tried / sizeof *tried; k++) {
            bool is_new = t->dims[k] > 1 && t->dims[k] < whole && whole % t->dims[k] == 0;
            for (size_t j = 0; j < n; j++)
                is_new &= tried[j] != t->dims[k];
            if (!is_new)
                continue;
            tried[n++] = t->dims[k];
            consider(s, seed, (cut){.axis = axis, .extent = t->dims[k]}, stored, best);
        }
    }
}

/* What does not depend on the block is computed before the loop, unless its elements follow from a few numbers. */
static void drop_invariant(flxi_block_set *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->num_nodes; i++) {
        const flxi_node *n = member(s, i);
        bool is_cut = s->axis[n->first] >= 0 || flxi_block_is_sum(s, n);
        if (!is_cut && !s->is_generated[s->nodes[i]]) {
            s->position[s->nodes[i]] = 0;
            continue;
        }
        s->position[s->nodes[i]] = kept + 1;
        s->nodes[kept++] = s->nodes[i];
    }
    s->num_nodes = kept;
}

bool flxi_block_choose(flxi_block_set *s, uint32_t seed)
{
    cut best = {0};
    const flx_type *t = flxi_type_at(s->g, seed);
    bool *is_counted = flxi_new(s->arena, bool, s->g->value_count + 1);
    double stored = is_counted ? stored_bytes(s, is_counted) : 0;
    if (stored < s->limits->least_whole)
        return false;
    for (int a = 0; a < t->rank; a++) {
        if (t->dims[a] < 2)
            continue;
        consider(s, seed, (cut){.axis = a, .extent = t->dims[a]}, stored, &best);
        consider_parts(s, seed, a, stored, &best);
    }
    if (!best.rows)
        return false;
    flxi_block_follow(s, seed, best.axis, best.extent);
    s->rows = best.rows;
    drop_invariant(s);
    return true;
}
