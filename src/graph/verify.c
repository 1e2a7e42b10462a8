/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: every invariant of a graph, checked from scratch: order, arities, types equal to what inference says,
   attributes in normal form, leaves listed, names legal and unique; and the structural hash, which relies on the same
   facts. No reference is followed before it has been checked, so an invalid graph is reported and does not crash the
   verifier. */
#include "graph/initialisation.h"
#include "graph/module.h"

#include <fluxion/graph.h>

enum { NODES_PER_SCRATCH = 4096 }; /* the scratch graph of re-inference is then replaced, to bound its memory */

static flx_code broken(const flx_graph *g, uint32_t i, flx_error *err, const char *what)
{
    const char *op = flxi_ops[flxi_node_at(g, i)->op].name;
    flxi_fail(err, FLX_E_INTERNAL, "node %u (%s): %s", i, op, what);
    flxi_at(err, "%.50s/%.50s", g->name, op);
    return FLX_E_INTERNAL;
}

static flx_code check_order(const flx_graph *g, uint32_t i, uint32_t next_id, flx_error *err)
{
    const flxi_node *n = flxi_node_at(g, i);
    if (n->op == OP_NONE || n->op >= flxi_op_rows)
        return flxi_fail(err, FLX_E_INTERNAL, "node %u has no op", i);
    if (n->first != next_id || n->nout == 0 || n->nout > g->value_count - (next_id - 1))
        return broken(g, i, err, "result ids are not consecutive");
    if (!n->attrs != !flxi_ops[n->op].rules->schema)
        return broken(g, i, err, "attributes are missing, or given for an op that has none");
    for (uint32_t k = 0; k < n->nin; k++)
        if (n->in[k] == 0 || n->in[k] >= n->first)
            return broken(g, i, err, "an operand does not come before its user");
    for (uint32_t k = 0; k < n->nout; k++) {
        const flxi_value *v = flxi_value_at(g, n->first + k);
        if (v->node != i)
            return broken(g, i, err, "a result does not point back to its node");
        if (!v->type || (v->name && !flxi_is_name(v->name, strlen(v->name))))
            return broken(g, i, err, "a result has no type or no legal name");
    }
    return FLX_OK;
}

static flx_code check_types(const flx_graph *g, flx_graph *scratch, uint32_t i, flx_error *err)
{
    const flxi_node *n = flxi_node_at(g, i);
    const flxi_op *op = &flxi_ops[n->op];
    void *attrs;
    FLXI_TRY(flxi_attrs_clone(scratch, op, n->attrs, NULL, &attrs, err));
    const flx_type **in = flxi_new(&scratch->arena, const flx_type *, n->nin);
    int fixed = flxi_fixed_results(op);
    flx_type *out = flxi_new(&scratch->arena, flx_type, fixed < 0 ? 0 : fixed);
    uint32_t nout;
    if (!in || !out)
        return flxi_oom(err, "verifying");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = flxi_type_at(g, n->in[k]);
    flx_code code = flxi_infer_node(scratch, n->op, in, n->nin, attrs, &out, &nout, err);
    if (code == FLX_E_OOM || scratch->error.code) /* the scratch graph itself can only run out of memory */
        return flxi_oom(err, "verifying");
    if (code != FLX_OK)
        return broken(g, i, err, "inference rejects it");
    if (nout != n->nout)
        return broken(g, i, err, "inference returns a different number of results");
    for (uint32_t k = 0; k < nout; k++)
        if (!flxi_type_equal(&out[k], flxi_type_at(g, n->first + k)))
            return broken(g, i, err, "a result's type differs from the inferred one");
    if (!flxi_attrs_equal(op, attrs, n->attrs))
        return broken(g, i, err, "attributes are not in normal form");
    return FLX_OK;
}

static flx_code check_nodes(const flx_graph *g, flx_error *err)
{
    flx_graph *scratch = NULL;
    flx_code code = FLX_OK;
    uint32_t next_id = 1;
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        if (i % NODES_PER_SCRATCH == 0) {
            flx_graph_release(scratch);
            scratch = flx_graph_new(g->ctx, "verify");
            if (!scratch)
                return flxi_oom(err, "verifying");
        }
        code = check_order(g, i, next_id, err);
        if (code == FLX_OK)
            code = check_types(g, scratch, i, err);
        next_id += flxi_node_at(g, i)->nout;
    }
    flx_graph_release(scratch);
    if (code == FLX_OK && next_id != g->value_count + 1)
        return flxi_fail(err, FLX_E_INTERNAL, "graph '%s' has a wrong count of values", g->name);
    return code;
}

static flx_code check_init(const flx_graph *g, uint32_t i, flx_error *err)
{
    const flxi_node *n = flxi_node_at(g, i);
    flx_init init = flxi_leaf_init(g, n->first), normal = init;
    flx_error ignored = {0};
    if (!init.kind)
        return FLX_OK;
    bool is_fit = flxi_is_param(n) && flxi_init_check(flxi_type_at(g, n->first), &normal, &ignored) == FLX_OK;
    return is_fit && normal.scale == init.scale ? FLX_OK : broken(g, i, err, "its initialisation is not valid");
}

/* The list of leaves contains every declared node, in order. */
static flx_code check_leaves(const flx_graph *g, flx_error *err)
{
    size_t k = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (!(flxi_ops[n->op].traits & TRAIT_DECLARED))
            continue;
        if (k == g->leaves.n || g->leaves.at[k++] != n->first || !flxi_value_at(g, n->first)->name)
            return broken(g, i, err, "it is not listed as a leaf, or has no name");
        FLXI_TRY(check_init(g, i, err));
    }
    if (k != g->leaves.n)
        return flxi_fail(err, FLX_E_INTERNAL, "graph '%s' lists leaves that do not exist", g->name);
    return FLX_OK;
}

static flx_code check_outputs(const flx_graph *g, flx_error *err)
{
    for (size_t i = 0; i < g->outputs.n; i++) {
        const flxi_output *o = &g->outputs.at[i];
        if (o->val == 0 || o->val > g->value_count || !o->name || !flxi_is_name(o->name, strlen(o->name)))
            return flxi_fail(err, FLX_E_INTERNAL, "graph '%s': output %zu does not exist or has no legal name", g->name,
                             i);
    }
    return FLX_OK;
}

/* Registers a name. An output may have the name of the leaf that it returns. */
static flx_code take_name(flxi_strings *taken, const flx_graph *g, const char *name, flx_error *err)
{
    size_t before = taken->texts.n;
    if (!flxi_intern(taken, name, strlen(name)))
        return flxi_oom(err, "verifying");
    if (taken->texts.n == before)
        return flxi_fail(err, FLX_E_INTERNAL, "graph '%s': the name '%.60s' is given twice", g->name, name);
    return FLX_OK;
}

static flx_code check_unique(const flx_graph *g, flxi_strings *taken, flx_error *err)
{
    for (size_t i = 0; i < g->leaves.n; i++)
        FLXI_TRY(take_name(taken, g, flxi_value_at(g, g->leaves.at[i])->name, err));
    for (size_t i = 0; i < g->outputs.n; i++) {
        const flxi_output *o = &g->outputs.at[i];
        const flxi_value *v = flxi_value_at(g, o->val);
        size_t first;
        bool is_leaf = (flxi_ops[flxi_node_at(g, v->node)->op].traits & TRAIT_DECLARED) != 0;
        if (!flxi_find_output(g, o->name, &first))
            return flxi_fail(err, FLX_E_INTERNAL, "graph '%s': output %zu cannot be found by its name", g->name, i);
        if (!(is_leaf && first == i && strcmp(v->name, o->name) == 0))
            FLXI_TRY(take_name(taken, g, o->name, err));
    }
    return FLX_OK;
}

static flx_code check_names(const flx_graph *g, flx_error *err)
{
    flxi_arena arena;
    flxi_arena_init(&arena, &g->ctx->mem);
    flxi_strings taken = {.arena = &arena};
    flx_code code = check_unique(g, &taken, err);
    flxi_strings_free(&taken);
    flxi_arena_free(&arena);
    return code;
}

static flx_code check_graph(const flx_graph *g, flx_error *err)
{
    FLXI_TRY(check_nodes(g, err));
    FLXI_TRY(check_leaves(g, err));
    FLXI_TRY(check_outputs(g, err));
    return check_names(g, err);
}

flx_code flxi_verify(const flx_graph *g, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    flxi_graph_list list = {0};
    flx_code code = flxi_collect_graphs(mem, g, &list);
    if (code != FLX_OK)
        flxi_oom(err, "verifying");
    for (size_t i = 0; code == FLX_OK && i < list.graphs.n; i++)
        code = check_graph(list.graphs.at[i], err);
    flxi_graph_list_free(mem, &list);
    return code;
}

flx_code flx_graph_verify(const flx_graph *g, flx_error *err)
{
    flx_error local = {0};
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = flxi_verify(g, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

/* ---- Structural hash ---- */

static uint64_t hash_type(flx_context *ctx, uint64_t h, const flx_type *t)
{
    h = flxi_hash_u64(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
    for (int i = 0; i < t->rank; i++)
        h = flxi_dim_hash(ctx, h, t->dims[i]);
    return h;
}

/* A graph in use as a body cannot change, so its hash is cached: shared bodies would otherwise be visited
   repeatedly. */
static uint64_t hash_body(const flx_graph *g);

static uint64_t hash_node(const flx_graph *g, const flxi_node *n, uint64_t h)
{
    h = flxi_hash_text(h, flxi_ops[n->op].name);
    for (uint32_t k = 0; k < n->nin; k++)
        h = flxi_hash_u64(h, flxi_value_number(g, n->in[k]));
    h = flxi_attrs_hash(g->ctx, &flxi_ops[n->op], n->attrs, h, hash_body);
    for (uint32_t k = 0; k < n->nout; k++) {
        const flxi_value *v = flxi_value_at(g, n->first + k);
        h = hash_type(g->ctx, h, v->type);
        h = flxi_hash_u64(h, v->pinned);
    }
    return h;
}

static uint64_t hash_nodes(const flx_graph *g)
{
    uint64_t h = FLXI_HASH_SEED;
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        h = flxi_hash_text(hash_node(g, flxi_node_at(g, v->node), h), v->name);
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        if (!(flxi_ops[flxi_node_at(g, i)->op].traits & TRAIT_DECLARED))
            h = hash_node(g, flxi_node_at(g, i), h);
    for (size_t i = 0; i < g->outputs.n; i++)
        h = flxi_hash_text(flxi_hash_u64(h, flxi_value_number(g, g->outputs.at[i].val)), g->outputs.at[i].name);
    return h ? h : 1;
}

uint64_t flx_graph_hash(const flx_graph *g)
{
    if (!flxi_graph_alive(g) || g->error.code)
        return 0;
    return atomic_load(&g->sealed) ? hash_body(g) : hash_nodes(g);
}

static uint64_t hash_body(const flx_graph *g)
{
    flx_graph *own = (flx_graph *)(uintptr_t)g; /* caching the hash is not a visible change */
    uint64_t kept = atomic_load(&own->kept_hash);
    if (!kept) {
        kept = hash_nodes(g);
        atomic_store(&own->kept_hash, kept);
    }
    return kept;
}
