/* SPDX-License-Identifier: Apache-2.0 */
/* constants_to_params.c: constants become parameters, whose values the caller keeps elsewhere: a file of weights next
   to the graph. Constants of bodies stay, since a body sees only its operands. */
#include "passes/pass.h"

#include <fluxion/transform.h>
#include <stdio.h>

typedef struct {
    flxi_copy copy;
    flx_constant_fn choose;
    void *user;
    uint32_t number; /* of the next name */
} moving;

static bool is_taken(const moving *m, const char *name)
{
    size_t i;
    return flxi_find_leaf(m->copy.from, name, &i) || flxi_find_leaf(m->copy.to, name, &i);
}

/* The constant's own name if it has one that is not the name of an input, else weight0, weight1 … */
static const char *name_for(moving *m, uint32_t id, char room[32])
{
    const char *own = flxi_value_at(m->copy.from, id)->name;
    if (own && !is_taken(m, own))
        return own;
    do
        snprintf(room, 32, "weight%u", m->number++);
    while (is_taken(m, room));
    return room;
}

static flx_code move_constant(moving *m, uint32_t node)
{
    flxi_copy *c = &m->copy;
    const flxi_node *n = flxi_node_at(c->from, node);
    uint32_t before = m->number;
    char room[32];
    const char *name = name_for(m, n->first, room);
    if (!m->choose(m->user, name, (flx_tensor *)(uintptr_t)flxi_const_data(n))) {
        m->number = before;
        return flxi_copy_node(c, node);
    }
    uint32_t id = flxi_add_leaf(c->to, flxi_leaf_op(true), name, flxi_type_at(c->from, n->first));
    if (!id)
        return flx_graph_error(c->to, c->err);
    flxi_copy_replace(c, n->first, id);
    return FLX_OK;
}

flx_graph *flx_constants_to_params(const flx_graph *g, flx_constant_fn choose, void *user, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    moving m = {.choose = choose, .user = user};
    flx_code code =
        choose ? flx_graph_error(g, &local)
               : flxi_fail(&local, FLX_E_USAGE, "flx_constants_to_params: the function that selects constants is NULL");
    if (code == FLX_OK) {
        code = flxi_copy_begin(&m.copy, g, &local);
        for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
            code = flxi_is_const(flxi_node_at(g, i)) ? move_constant(&m, i) : flxi_copy_node(&m.copy, i);
        code = flxi_copy_end(&m.copy, code, &out, NULL);
    }
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
