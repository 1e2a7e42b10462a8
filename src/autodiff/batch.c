/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c: the batching sweep. Values that depend on no batched input are shared unchanged. All others have a leading
   batch axis. Pointwise ops only need their operands' ranks aligned; other ops have rules; an op without one runs in a
   loop over the examples, which is a scan with no carry: correct for every op, but slow; so does an op whose rule
   declines. */
#include "autodiff/autodiff.h"

/* Operands of lower per-example rank get axes of extent 1 after the batch axis, so that axes align as before. */
static void batch_pointwise(flxi_site *s, flx_val *by)
{
    int rank = 0;
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    if (!x)
        return;
    for (uint32_t k = 0; k < s->nin; k++)
        if (flxi_example_rank(s, k) > rank)
            rank = flxi_example_rank(s, k);
    for (uint32_t k = 0; k < s->nin; k++)
        x[k] = flxi_align(s, s->x[k], s->batched[k], rank);
    flxi_append(s, NULL, x, s->nin, by);
}

/* The op alone as a graph, on the types of one example; broadcast inputs first, then the batched ones. */
static flx_graph *example_graph(flxi_site *s)
{
    flx_graph *t = flx_graph_new(s->ctx, "example");
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    flx_val *y = flxi_rule_new(s, flx_val, s->nout);
    if (!t || !x || !y) {
        flx_graph_release(t);
        return NULL;
    }
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < s->nin; k++) {
            const flx_type *type = flxi_typeof(s, s->x[k]);
            if (s->batched[k] != (pass == 1))
                continue;
            flx_type one = pass ? flx_type_make((flx_dtype)type->dtype, type->rank - 1, type->dims + 1) : *type;
            x[k] = flxi_new_leaf(t, "x", "", &one);
        }
    flxi_site inner = *s;
    inner.g = t;
    inner.x = x;
    flxi_append(&inner, NULL, x, s->nin, y);
    for (uint32_t k = 0; k < s->nout; k++)
        flx_output(t, y[k], NULL);
    return t;
}

static void batch_by_loop(flxi_site *s, flx_val *by)
{
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    flx_graph *body = in ? example_graph(s) : NULL;
    uint32_t n = 0;
    if (!body) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: batching");
        return;
    }
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < s->nin; k++)
            if (s->batched[k] == (pass == 1))
                in[n++] = s->x[k];
    uint32_t shared = 0;
    for (uint32_t k = 0; k < s->nin; k++)
        shared += !s->batched[k];
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = body;
    a.num_carry = 0;
    a.num_bcast = shared;
    a.length = s->size;
    flx_scan_with(s->g, in, n, by, s->nout, &a);
    flx_graph_release(body);
}

/* Checks result k of a rule against the value of the unbatched graph, and notes it in its stead. */
static flx_code take_result(flxi_batching *b, uint32_t value, flx_val by, bool is_batched, const char *op,
                            flx_error *err)
{
    const flxi_value *v = flxi_value_at(b->src, value);
    const flx_type *made = flx_val_type(b->g, by);
    int32_t front = is_batched;
    if (!made || made->dtype != v->type->dtype || made->rank != v->type->rank + front ||
        memcmp(made->dims + front, v->type->dims, (size_t)v->type->rank * sizeof(flx_dim)) != 0)
        return flxi_fail(err, FLX_E_INTERNAL, "%s: its batching rule returns a wrong type", op);
    b->map[value] = by.id;
    b->batched[value] = is_batched;
    flxi_value_at(b->g, by.id)->pinned |= v->pinned;
    if (v->name)
        flxi_label(b->g, by.id, v->name, strlen(v->name));
    return FLX_OK;
}

static flx_code batch_node(flxi_batching *b, flxi_body_memo *memo, uint32_t i, flx_error *err)
{
    const flxi_node *n = flxi_node_at(b->src, i);
    flx_graph *g = b->g;
    flxi_site s = flxi_site_of(g, b->src, i, b->map);
    FLXI_TRY(flxi_built(g, err));
    bool *batched = flxi_new(&g->arena, bool, n->nin);
    bool *results = flxi_new(&g->arena, bool, n->nout);
    flx_val *by = flxi_new(&g->arena, flx_val, n->nout);
    if (!batched || !results || !by)
        return flxi_oom(err, "batching");
    for (uint32_t k = 0; k < n->nin; k++)
        batched[k] = b->batched[n->in[k]];
    for (uint32_t k = 0; k < n->nout; k++)
        results[k] = true;
    s.batched = batched;
    s.by_batched = results;
    s.size = b->size;
    s.memo = memo;
    flxi_origin_scope scope;
    flxi_origin_begin(&scope, b->src, n);
    if (s.op->rules->batch)
        s.op->rules->batch(&s, by);
    else if (s.op->op_class == CLASS_POINTWISE)
        batch_pointwise(&s, by);
    if (flxi_is_none(by[0]) && !g->error.code)
        batch_by_loop(&s, by);
    flxi_origin_end(&scope);
    FLXI_TRY(flxi_built(g, err));
    for (uint32_t k = 0; k < n->nout; k++)
        FLXI_TRY(take_result(b, n->first + k, by[k], results[k], s.op->name, err));
    return FLX_OK;
}

static flx_code sweep(flxi_batching *b, flxi_body_memo *memo, flx_error *err)
{
    for (uint32_t i = 0; i < b->src->node_count; i++) {
        const flxi_node *n = flxi_node_at(b->src, i);
        bool any = false;
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        for (uint32_t k = 0; k < n->nin; k++)
            any |= b->batched[n->in[k]];
        flx_code code = any ? batch_node(b, memo, i, err) : flxi_graft(b->g, b->src, i, b->map, err);
        if (code != FLX_OK) {
            flxi_at_node(err, b->src, n);
            return code;
        }
    }
    return FLX_OK;
}

flx_code flxi_batch_sweep(flxi_batching *b, flx_error *err)
{
    flxi_body_memo own = {0};
    flx_code code = sweep(b, b->memo ? b->memo : &own, err);
    flxi_memo_free(&own);
    return code;
}
