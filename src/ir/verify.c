/* verify.c: every invariant of a graph, checked from scratch: order, arities, types equal to what inference says, attributes
   in normal form, names unique; and the structural hash, which rests on the same facts. */
#include "ir/module.h"

#include <fluxion/graph.h>

enum { NODES_PER_SCRATCH = 4096 }; /* the scratch graph of re-inference is renewed that often, to bound its memory */

static flx_code broken(const flx_graph *g, uint32_t i, flx_error *err, const char *what)
{
    const flxi_node *n = flxi_node_at(g, i);
    const char *name = n->nout ? flxi_value_at(g, n->first)->name : NULL;
    flxi_fail(err, FLX_E_INTERNAL, "node %u (%s): %s", i, flxi_ops[n->op].name, what);
    flxi_at(err, "%.50s/%.50s", g->name, name ? name : flxi_ops[n->op].name);
    return FLX_E_INTERNAL;
}

static flx_code check_order(const flx_graph *g, uint32_t i, uint32_t next_id, flx_error *err)
{
    const flxi_node *n = flxi_node_at(g, i);
    if (n->op == OP_NONE || n->op >= OP_COUNT)
        return flxi_fail(err, FLX_E_INTERNAL, "node %u has no op", i);
    if (n->first != next_id)
        return broken(g, i, err, "result ids are not consecutive");
    for (uint32_t k = 0; k < n->nin; k++)
        if (n->in[k] == 0 || n->in[k] >= n->first)
            return broken(g, i, err, "an operand does not come before its user");
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_value_at(g, n->first + k)->node != i)
            return broken(g, i, err, "a result does not point back to its node");
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
    FLXI_TRY(flxi_infer_node(scratch, (flxi_opcode)n->op, in, n->nin, attrs, &out, &nout, err));
    if (nout != n->nout)
        return broken(g, i, err, "inference gives another number of results");
    for (uint32_t k = 0; k < nout; k++)
        if (!flxi_type_equal(&out[k], flxi_type_at(g, n->first + k)))
            return broken(g, i, err, "a result's type is not the inferred one");
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
            flx_graph_free(scratch);
            scratch = flx_graph_new(g->ctx, "verify");
            if (!scratch)
                return flxi_oom(err, "verifying");
        }
        code = check_order(g, i, next_id, err);
        if (code == FLX_OK)
            code = check_types(g, scratch, i, err);
        next_id += flxi_node_at(g, i)->nout;
    }
    flx_graph_free(scratch);
    if (code == FLX_OK && next_id != g->value_count + 1)
        return flxi_fail(err, FLX_E_INTERNAL, "graph '%s' counts its values wrongly", g->name);
    return code;
}

static flx_code check_outputs(const flx_graph *g, flx_error *err)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i].val == 0 || g->outputs.at[i].val > g->value_count || !g->outputs.at[i].name)
            return flxi_fail(err, FLX_E_INTERNAL, "graph '%s': output %zu does not exist", g->name, i);
    return FLX_OK;
}

flx_code flxi_verify(const flx_graph *g, flx_error *err)
{
    const flxi_allocator *mem = &g->ctx->mem;
    flxi_graph_list list = {0};
    flx_code code = flxi_collect_graphs(mem, g, &list);
    if (code != FLX_OK)
        flxi_oom(err, "verifying");
    for (size_t i = 0; code == FLX_OK && i < list.graphs.n; i++) {
        code = check_nodes(list.graphs.at[i], err);
        if (code == FLX_OK)
            code = check_outputs(list.graphs.at[i], err);
    }
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

static uint64_t hash_node(const flx_graph *g, const flxi_node *n, uint64_t h)
{
    h = flxi_hash_text(h, flxi_ops[n->op].name);
    for (uint32_t k = 0; k < n->nin; k++)
        h = flxi_hash_u64(h, flxi_value_number(g, n->in[k]));
    h = flxi_attrs_hash(g->ctx, &flxi_ops[n->op], n->attrs, h, flx_graph_hash);
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

/* A graph in use as a body cannot change, so its hash is kept: shared bodies would otherwise be walked again and again. */
uint64_t flx_graph_hash(const flx_graph *g)
{
    if (!flxi_graph_alive(g) || g->error.code)
        return 0;
    if (!atomic_load(&g->sealed))
        return hash_nodes(g);
    flx_graph *own = (flx_graph *)(uintptr_t)g; /* the kept hash is no visible change */
    uint64_t kept = atomic_load(&own->kept_hash);
    if (!kept) {
        kept = hash_nodes(g);
        atomic_store(&own->kept_hash, kept);
    }
    return kept;
}
