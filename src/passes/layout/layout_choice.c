/* SPDX-License-Identifier: Apache-2.0 */
/* layout_choice.c: which values are stored with their channels last.

   Convolutions say which axis of their operands and results has the channels; nodes that treat all elements of a
   channel alike pass this on, forward and backward. Values that such nodes connect are stored alike, since a transpose
   would be needed between them; a convolution reads and writes any layout, so it connects nothing. Each set of values
   is moved if that saves more than it costs: a convolution saves the transposition in registers of what it reads or
   writes, while a value that comes from elsewhere or is needed elsewhere is transposed in memory. Both are counted in
   elements, so that the batch does not matter. */
#include "passes/layout/layout.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"

enum { MOST_SWEEPS = 8 };

bool flxi_layout_is_free(const flx_type *t, int channel)
{
    bool is_free = true;
    for (int k = channel + 1; k < t->rank; k++)
        is_free = is_free && t->dims[k] == 1;
    return is_free || t->dims[channel] == 1;
}

static const flx_type *type_of(const flxi_layout_choice *w, uint32_t value)
{
    return flxi_type_at(w->g, value);
}

/* ---- Where channels are ---- */

/* Whether the node computes each channel alike, as far as its op says. */
static bool may_follow(const flx_graph *g, const flxi_node *n)
{
    if (!flxi_layout_row_of(n) || n->nout != 1 || flxi_has_effect(n))
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!flxi_type_is_static(flxi_type_at(g, n->in[k])))
            return false;
    return flxi_type_is_static(flxi_type_at(g, n->first)) &&
           (!flxi_layout_row_of(n)->is_reshape ||
            flxi_layout_keeps_axes(flxi_type_at(g, n->in[0]), flxi_type_at(g, n->first)));
}

static bool set_channel(flxi_layout_choice *w, uint32_t value, int channel)
{
    if (channel < 0 || w->channel[value] >= 0)
        return false;
    w->channel[value] = (int8_t)channel;
    return true;
}

/* From the operands to the result and back; whether anything is new. */
static bool pass_on(flxi_layout_choice *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->g, i);
    bool is_new = false;
    if (!w->follows[i])
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (w->channel[n->in[k]] >= 0)
            is_new |= set_channel(w, n->first, flxi_layout_after(w->g, n, k, w->channel[n->in[k]]));
    if (w->channel[n->first] < 0)
        return is_new;
    for (uint32_t k = 0; k < n->nin; k++)
        is_new |= set_channel(w, n->in[k], flxi_layout_before(w->g, n, k, w->channel[n->first]));
    return is_new;
}

static void find_channels(flxi_layout_choice *w)
{
    uint32_t nodes = w->g->node_count;
    for (uint32_t i = 0; i < nodes; i++) {
        const flxi_node *n = flxi_node_at(w->g, i);
        w->follows[i] = may_follow(w->g, n);
        for (uint32_t k = 0; k < n->nin + n->nout; k++)
            set_channel(w, k < n->nin ? n->in[k] : n->first, flxi_layout_of_conv(n, k));
    }
    bool is_new = true;
    for (int sweep = 0; is_new && sweep < MOST_SWEEPS; sweep++) {
        is_new = false;
        for (uint32_t i = 0; i < nodes; i++)
            is_new |= pass_on(w, i);
        for (uint32_t i = nodes; i-- > 0;)
            is_new |= pass_on(w, i);
    }
}

/* ---- What is stored alike ---- */

/* Whether the order of its elements depends on the axis. */
static bool is_ordered(const flxi_layout_choice *w, uint32_t value)
{
    return w->channel[value] >= 0 && !flxi_layout_is_free(type_of(w, value), w->channel[value]);
}

static bool is_conv(const flxi_node *n)
{
    return n->nin >= 2 && (flxi_layout_of_conv(n, 0) >= 0 || flxi_layout_of_conv(n, n->nin) >= 0);
}

/* Whether a node can make the value with its channels last. */
static bool can_move(const flxi_layout_choice *w, uint32_t value)
{
    uint32_t maker = flxi_value_at(w->g, value)->node;
    const flxi_node *n = flxi_node_at(w->g, maker);
    return is_ordered(w, value) && !flxi_value_at(w->g, value)->pinned &&
           (w->follows[maker] || (is_conv(n) && flxi_layout_of_conv(n, n->nin) >= 0));
}

/* Whether the channels of the operands are where those of the result say. A reduction over the channels has none. */
static bool agrees(const flxi_layout_choice *w, const flxi_node *n)
{
    int after = w->channel[n->first];
    bool is_connected = after >= 0;
    if (flxi_layout_row_of(n)->is_pool && (after != 1 || type_of(w, n->first)->rank == FLX_MAX_RANK))
        return false;
    for (uint32_t k = 0; k < n->nin; k++) {
        int found = w->channel[n->in[k]], wanted = after >= 0 ? flxi_layout_before(w->g, n, k, after) : found;
        bool is_free = !is_ordered(w, n->in[k]) && (wanted < 0 || flxi_layout_is_free(type_of(w, n->in[k]), wanted));
        is_connected |= found >= 0;
        if (wanted != found && !is_free)
            return false;
    }
    return is_connected && (after >= 0 || !flxi_layout_row_of(n)->is_reshape);
}

static uint32_t root_of(const flxi_layout_choice *w, uint32_t value)
{
    while (w->parent[value] != value) {
        w->parent[value] = w->parent[w->parent[value]];
        value = w->parent[value];
    }
    return value;
}

/* A value among the node's that can be moved, with which all others that can are stored; 0: none. */
static uint32_t anchor_of(const flxi_layout_choice *w, const flxi_node *n)
{
    if (can_move(w, n->first))
        return n->first;
    for (uint32_t k = 0; k < n->nin; k++)
        if (can_move(w, n->in[k]))
            return n->in[k];
    return 0;
}

static void connect(flxi_layout_choice *w)
{
    for (uint32_t i = 0; i < w->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(w->g, i);
        w->follows[i] = w->follows[i] && agrees(w, n);
    }
    for (uint32_t i = 0; i < w->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(w->g, i);
        uint32_t anchor = w->follows[i] ? anchor_of(w, n) : 0;
        for (uint32_t k = 0; anchor && k < n->nin; k++)
            if (can_move(w, n->in[k]))
                w->parent[root_of(w, n->in[k])] = root_of(w, anchor);
    }
}

/* ---- Whether it pays ---- */

static double elements_of(const flxi_layout_choice *w, uint32_t value)
{
    const flx_type *t = type_of(w, value);
    return (double)flxi_static_extent(t, 0, t->rank);
}

/* A convolution that reads or writes the value runs over channels if these are last. */
static void gain(flxi_layout_choice *w, const flxi_node *n, uint32_t k)
{
    uint32_t value = k < n->nin ? n->in[k] : n->first;
    int channel = flxi_layout_of_conv(n, k);
    if (channel < 0 || channel != w->channel[value] || !can_move(w, value))
        return;
    const flx_type *t = type_of(w, value);
    if (flxi_node_int(n, "groups") == 1 && t->rank <= 4 && flxi_is_float(t->dtype) &&
        t->dims[channel] >= w->limits->least_channels)
        w->balance[root_of(w, value)] += elements_of(w, value);
}

/* A transpose between the value and those of `root`; one is enough for all that need it. */
static void spend(flxi_layout_choice *w, uint32_t value, uint32_t root)
{
    if (w->seen[value] == root)
        return;
    w->seen[value] = root;
    w->balance[root] -= w->limits->transpose_cost * elements_of(w, value);
}

/* Operands of a node that comes with a set and that do not. A transpose that is there already stays one. */
static void spend_before(flxi_layout_choice *w, const flxi_node *n)
{
    uint32_t anchor = anchor_of(w, n);
    for (uint32_t k = 0; anchor && k < n->nin; k++)
        if (is_ordered(w, n->in[k]) && !can_move(w, n->in[k]) && !flxi_uniform(w->g, n->in[k]) &&
            flxi_node_of(w->g, n->in[k])->op != OP_transpose)
            spend(w, n->in[k], root_of(w, anchor));
}

static void spend_after(flxi_layout_choice *w, uint32_t value)
{
    if (can_move(w, value))
        spend(w, value, root_of(w, value));
}

static void balance(flxi_layout_choice *w)
{
    const flx_graph *g = w->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin + n->nout; k++)
            gain(w, n, k);
        if (w->follows[i])
            spend_before(w, n);
        for (uint32_t k = 0; !w->follows[i] && n->op != OP_transpose && k < n->nin; k++)
            if (flxi_layout_of_conv(n, k) < 0)
                spend_after(w, n->in[k]);
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        spend_after(w, g->outputs.at[k].val);
}

bool flxi_layout_moves(const flxi_layout_choice *w, uint32_t value)
{
    return can_move(w, value) && w->balance[root_of(w, value)] > 0;
}

/* ---- All of it ---- */

flx_code flxi_layout_choose(flxi_layout_choice *w, const flx_graph *g, const flxi_layout_limits *limits, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    size_t n = (size_t)g->value_count + 1;
    *w = (flxi_layout_choice){.g = g, .limits = limits};
    w->channel = flxi_alloc(mem, n, sizeof *w->channel);
    w->follows = flxi_alloc(mem, (size_t)g->node_count + 1, sizeof *w->follows);
    w->parent = flxi_alloc(mem, n, sizeof *w->parent);
    w->seen = flxi_alloc(mem, n, sizeof *w->seen);
    w->balance = flxi_alloc(mem, n, sizeof *w->balance);
    if (!w->channel || !w->follows || !w->parent || !w->seen || !w->balance)
        return flxi_oom(err, "a pass");
    for (uint32_t v = 0; v < n; v++) {
        w->channel[v] = FLXI_NO_CHANNELS;
        w->parent[v] = v;
    }
    find_channels(w);
    connect(w);
    balance(w);
    return FLX_OK;
}

void flxi_layout_free(flxi_layout_choice *w)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    size_t n = (size_t)w->g->value_count + 1;
    if (w->channel)
        flxi_free(mem, w->channel, n, sizeof *w->channel);
    if (w->follows)
        flxi_free(mem, w->follows, (size_t)w->g->node_count + 1, sizeof *w->follows);
    if (w->parent)
        flxi_free(mem, w->parent, n, sizeof *w->parent);
    if (w->seen)
        flxi_free(mem, w->seen, n, sizeof *w->seen);
    if (w->balance)
        flxi_free(mem, w->balance, n, sizeof *w->balance);
}
