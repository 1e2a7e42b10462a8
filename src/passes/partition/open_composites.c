/* SPDX-License-Identifier: Apache-2.0 */
/* open_composites.c: a composite, such as attention, is a node of its own until something about its parts must be
   known: where a cut value arrives at a node that has no rule for parts, but a decomposition, the node is taken apart.
   The bits of its result do not change. */
#include "graph/op/attr_access.h"
#include "passes/decompose.h"
#include "passes/partition/partition.h"

/* Values that may be cut, of the latest graph. */
typedef struct {
    const flx_sharding *list;
    size_t count;
    const flxi_allocator *mem;
    const flx_graph *g;
    uint32_t serial;
    bool *is_cut; /* by value */
    size_t room;
    bool is_short; /* of memory */
} opening;

const char *flxi_said_cuts(const flxi_node *n)
{
    const char *const *spec = flxi_attr_field(&flxi_ops[n->op], n->attrs, "spec", STORED_STRING);
    return spec && n->nin == 1 ? *spec : NULL;
}

static bool says_cut(const char *spec)
{
    return spec[strspn(spec, "-,")] != 0;
}

static bool is_listed(const opening *o, const char *name)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->list[i].name, name) == 0 && says_cut(o->list[i].spec))
            return true;
    return false;
}

static bool begins_cut(const opening *o, const flx_graph *g, const flxi_node *n)
{
    const char *said = flxi_said_cuts(n);
    if (flxi_ops[n->op].traits & TRAIT_DECLARED)
        return is_listed(o, flxi_value_at(g, n->first)->name);
    return said && says_cut(said);
}

static bool reads_cut(const opening *o, const flxi_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        if (o->is_cut[n->in[i]])
            return true;
    return false;
}

static void look_at(opening *o, const flx_graph *g)
{
    size_t room = g->value_count + 1;
    if (o->is_cut)
        flxi_free(o->mem, o->is_cut, o->room, sizeof *o->is_cut);
    o->is_cut = flxi_alloc(o->mem, room, sizeof *o->is_cut);
    o->room = room;
    o->g = g;
    o->serial = g->serial;
    o->is_short |= !o->is_cut;
    for (uint32_t i = 0; o->is_cut && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_cut = begins_cut(o, g, n) || reads_cut(o, n);
        for (uint32_t k = 0; k < n->nout; k++)
            o->is_cut[n->first + k] = is_cut;
    }
}

static flxi_expansion choose(const flx_graph *g, uint32_t node, const void *user)
{
    opening *o = (opening *)(uintptr_t)user;
    const flxi_node *n = flxi_node_at(g, node);
    if (o->g != g || o->serial != g->serial)
        look_at(o, g);
    if (!o->is_cut || flxi_has_shard_rule(n) || flxi_said_cuts(n) || !reads_cut(o, n))
        return NULL;
    return flxi_ops[n->op].rules->decompose;
}

flx_code flxi_open_composites(const flx_graph *g, const flx_sharding *list, size_t count, flx_graph **out,
                              flx_error *err)
{
    opening o = {.list = list, .count = count, .mem = &g->ctx->mem};
    flx_code code = flxi_expand(g, choose, &o, out, NULL, err);
    if (o.is_cut)
        flxi_free(o.mem, o.is_cut, o.room, sizeof *o.is_cut);
    if (code == FLX_OK && o.is_short) {
        flx_graph_release(*out);
        return flxi_oom(err, "a partition");
    }
    return code;
}
