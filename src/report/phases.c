/* SPDX-License-Identifier: Apache-2.0 */
/* phases.c: see phases.h. Transforms name their results (docs/transforms.md): d_<input> is a derivative and
   new_<parameter> an update, where there is such an input. */
#include "report/phases.h"

static const char *const prefixes[] = {"new_state_", "new_", "state_", "d_", "tangent_", "hvp_"};

const char *flxi_plain_name(const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0 && name[n])
            return name + n;
    }
    return name;
}

/* Whether the output is called prefix + the name of a leaf. */
static bool is_made_for_leaf(const flx_graph *g, const char *output, const char *prefix)
{
    size_t leaf, n = strlen(prefix);
    return strncmp(output, prefix, n) == 0 && flxi_find_leaf(g, output + n, &leaf);
}

/* Outputs that a training step has beside those of the loss: what guards it, and how it went. */
static bool is_of_step(const flx_graph *g, const char *output)
{
    size_t leaf;
    if (strcmp(output, "rate") == 0)
        return flxi_find_leaf(g, "state_step", &leaf);
    return strcmp(output, "loss_or_gradient_norm") == 0 || strcmp(output, "gradient_squares") == 0;
}

static uint32_t producer(const flx_graph *g, uint32_t value)
{
    return flxi_value_at(g, value)->node;
}

static bool is_leaf(const flxi_node *n)
{
    return flxi_is_input(n) || flxi_is_param(n);
}

/* A leaf that only the update reads: the state of the optimiser, or its rate. */
static bool is_of_update(const flx_graph *g, const flxi_node *n)
{
    const char *name = flxi_value_at(g, n->first)->name;
    if (!name || !is_leaf(n))
        return false;
    return strcmp(name, "lr") == 0 || (strncmp(name, "state_", 6) == 0 && flxi_is_param(n));
}

/* Everything that the marked nodes need is marked, too. */
static void spread_up(const flx_graph *g, bool *needed)
{
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; needed[i] && k < n->nin; k++)
            needed[producer(g, n->in[k])] = true;
    }
}

static void find_update(const flx_graph *g, const bool *forward, bool *update)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        update[i] |= is_of_update(g, n);
        for (uint32_t k = 0; !forward[i] && k < n->nin; k++)
            update[i] |= update[producer(g, n->in[k])];
    }
}

/* Leaves and constants belong to the first phase that reads them. */
static void move_leaves(const flx_graph *g, uint8_t *phases)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->nin == 0)
            phases[i] = FLXI_PHASES;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; k < n->nin; k++) {
            uint32_t p = producer(g, n->in[k]);
            if (flxi_node_at(g, p)->nin == 0 && phases[i] < phases[p])
                phases[p] = phases[i];
        }
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        phases[i] = phases[i] == FLXI_PHASES ? FLXI_FORWARD : phases[i];
}

static size_t count_updates(const flx_graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->outputs.n; i++)
        n += is_made_for_leaf(g, g->outputs.at[i].name, "new_");
    return n;
}

flx_code flxi_find_phases(const flx_graph *g, flxi_arena *arena, uint8_t **out, flx_error *err)
{
    uint8_t *phases = flxi_new(arena, uint8_t, g->node_count + 1);
    bool *forward = flxi_new(arena, bool, g->node_count + 1), *update = flxi_new(arena, bool, g->node_count + 1);
    size_t plain = 0, updates = count_updates(g), others = 0;
    if (!phases || !forward || !update)
        return flxi_oom(err, "a view of a graph");
    *out = phases;
    for (size_t i = 0; i < g->outputs.n; i++) {
        const char *name = g->outputs.at[i].name;
        bool is_update = is_made_for_leaf(g, name, "new_"), is_other = updates && is_of_step(g, name);
        bool is_plain = !is_update && !is_other && !is_made_for_leaf(g, name, "d_");
        uint32_t node = producer(g, g->outputs.at[i].val);
        forward[node] |= is_plain;
        update[node] |= is_update && flxi_node_at(g, node)->nin > 0;
        plain += is_plain;
        others += is_other;
    }
    if (plain == 0 || plain + others == g->outputs.n)
        return FLX_OK;
    spread_up(g, forward);
    if (updates)
        find_update(g, forward, update);
    for (uint32_t i = 0; i < g->node_count; i++)
        phases[i] = forward[i] ? FLXI_FORWARD : update[i] ? FLXI_UPDATE : FLXI_BACKWARD;
    move_leaves(g, phases);
    return FLX_OK;
}
