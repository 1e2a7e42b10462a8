/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_regions.c: runs of pointwise ops as one op each. From the last node on, a pointwise node that is in no
   region yet begins one; an operand joins when it is pointwise, only the region reads it, it is not pinned and the
   region does not exceed the limit of values that it may read. Nodes are visited in descending order, so all readers of
   an operand are known by then. */
#include "autodiff/autodiff.h"
#include "passes/patterns/pattern.h"

enum { MOST_INPUTS = 16 };

typedef struct {
    const flx_graph *g;
    uint32_t *uses;   /* by id */
    uint32_t *inner;  /* by id: uses inside the region of its node */
    uint32_t *region; /* by node: 1 + the last node of the region; 0: none */
    uint32_t *above;  /* by node: the next one of its region */
    uint32_t *lowest; /* by node, the last one of a region: the first one */
    uint32_t *map;    /* by id: ids of the current body */
    uint32_t *inputs; /* of the current region */
    size_t n;
    flx_error *err;
} regions;

static bool may_join(const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    return op->op_class == CLASS_POINTWISE && n->nout == 1 && n->nin > 0 && !flxi_has_effect(n) &&
           !(op->traits & TRAIT_HIR);
}

/* A scalar constant is part of a body, not an operand. */
static bool is_literal(const flx_graph *g, uint32_t id)
{
    const flxi_node *n = flxi_maker(g, id);
    return (flxi_is_const(n) || n->op == OP_full) && flxi_type_at(g, id)->rank == 0;
}

static bool is_input(const regions *r, uint32_t id)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->inputs[i] == id)
            return true;
    return false;
}

static void add_inputs(regions *r, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (!is_literal(r->g, n->in[k]) && !is_input(r, n->in[k]))
            r->inputs[r->n++] = n->in[k];
}

/* How many inputs the region had if node n, which makes one of them, joined. */
static size_t inputs_with(const regions *r, const flxi_node *n)
{
    size_t count = r->n - 1;
    for (uint32_t k = 0; k < n->nin; k++) {
        bool repeats = is_input(r, n->in[k]) || is_literal(r->g, n->in[k]);
        for (uint32_t i = 0; i < k; i++)
            repeats |= n->in[i] == n->in[k];
        count += !repeats;
    }
    return count;
}

static void join(regions *r, uint32_t node, uint32_t last)
{
    const flxi_node *n = flxi_node_at(r->g, node);
    for (size_t i = 0; i < r->n; i++)
        if (r->inputs[i] == n->first)
            r->inputs[i] = r->inputs[--r->n];
    r->region[node] = last + 1;
    r->above[node] = r->lowest[last];
    r->lowest[last] = node;
    add_inputs(r, n);
    for (uint32_t k = 0; k < n->nin; k++)
        r->inner[n->in[k]]++;
}

/* The input made last that may join; 0 when there is none. */
static uint32_t next_to_join(const regions *r)
{
    uint32_t best = 0;
    for (size_t i = 0; i < r->n; i++) {
        const flxi_value *v = flxi_value_at(r->g, r->inputs[i]);
        const flxi_node *n = flxi_node_at(r->g, v->node);
        if (r->inputs[i] > best && !v->pinned && r->uses[r->inputs[i]] == r->inner[r->inputs[i]] && may_join(n) &&
            inputs_with(r, n) <= MOST_INPUTS)
            best = r->inputs[i];
    }
    return best;
}

static void grow_region(regions *r, uint32_t last)
{
    const flxi_node *n = flxi_node_at(r->g, last);
    r->n = 0;
    if (r->region[last] || !may_join(n) || n->nin > MOST_INPUTS)
        return;
    for (uint32_t k = 0; k < n->nin; k++)
        r->inner[n->in[k]] = 0; /* uses in other regions do not count */
    r->lowest[last] = last;
    join(r, last, last);
    for (uint32_t id = next_to_join(r); id; id = next_to_join(r)) {
        uint32_t node = flxi_value_at(r->g, id)->node;
        const flxi_node *joins = flxi_node_at(r->g, node);
        for (uint32_t k = 0; k < joins->nin; k++)
            if (!is_input(r, joins->in[k]))
                r->inner[joins->in[k]] = 0;
        join(r, node, last);
    }
}

/* ---- Bodies ---- */

/* What a node reads: a literal is copied, a value from outside becomes an input, and goes to r->inputs. */
static flx_code bind_operand(regions *r, flx_graph *body, uint32_t id)
{
    if (r->map[id])
        return FLX_OK;
    if (is_literal(r->g, id))
        return flxi_graft(body, r->g, flxi_value_at(r->g, id)->node, r->map, r->err);
    r->map[id] = flxi_new_leaf(body, "x", "", flxi_type_at(r->g, id)).id;
    r->inputs[r->n++] = id;
    return flxi_built(body, r->err);
}

static flx_code fill_body(regions *r, uint32_t last, flx_graph *body)
{
    flx_code code = FLX_OK;
    r->n = 0;
    for (uint32_t i = r->lowest[last]; code == FLX_OK; i = r->above[i]) {
        const flxi_node *n = flxi_node_at(r->g, i);
        for (uint32_t k = 0; code == FLX_OK && k < n->nin; k++)
            code = bind_operand(r, body, n->in[k]);
        if (code == FLX_OK)
            code = flxi_graft(body, r->g, i, r->map, r->err);
        if (i == last)
            break;
    }
    if (code != FLX_OK)
        return code;
    flx_output(body, (flx_val){r->map[flxi_node_at(r->g, last)->first], body->serial}, "y");
    return flxi_built(body, r->err);
}

static void clear_map(regions *r, uint32_t last)
{
    for (uint32_t i = r->lowest[last];; i = r->above[i]) {
        const flxi_node *n = flxi_node_at(r->g, i);
        r->map[n->first] = 0;
        for (uint32_t k = 0; k < n->nin; k++)
            r->map[n->in[k]] = 0;
        if (i == last)
            return;
    }
}

static flx_code write_region(regions *r, flxi_copy *c, uint32_t last)
{
    flx_graph *body = flx_graph_new(r->g->ctx, "region");
    flx_val in[MOST_INPUTS];
    flx_code code = body ? fill_body(r, last, body) : flxi_oom(r->err, "a region");
    for (size_t i = 0; code == FLX_OK && i < r->n; i++)
        in[i] = (flx_val){c->remap.id[r->inputs[i]], c->to->serial};
    if (code == FLX_OK) {
        flx_val y = flx_elementwise_region(c->to, in, r->n, body);
        code = flxi_built(c->to, r->err);
        if (code == FLX_OK)
            flxi_copy_replace(c, flxi_node_at(r->g, last)->first, y.id);
    }
    clear_map(r, last);
    flx_graph_release(body);
    return code;
}

static flx_code write_regions(regions *r, flx_graph **out, uint32_t *count)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, r->g, r->err);
    for (uint32_t i = 0; code == FLX_OK && i < r->g->node_count; i++) {
        uint32_t last = r->region[i] - 1;
        if (!r->region[i] || r->lowest[last] == last) {
            code = flxi_copy_node(&c, i);
        } else if (i == last) {
            code = write_region(r, &c, last);
            ++*count;
        }
    }
    flx_graph *whole = NULL;
    FLXI_TRY(flxi_copy_end(&c, code, &whole, NULL));
    code = flxi_pass_dce(whole, out, NULL, r->err); /* literals that only regions read */
    flx_graph_release(whole);
    return code;
}

flx_code flxi_rewrite_regions(const flx_graph *in, flx_graph **out, uint32_t *count, flx_error *err)
{
    flxi_arena arena;
    size_t ids = (size_t)in->value_count + 1, nodes = in->node_count;
    flxi_arena_init(&arena, &in->ctx->mem);
    regions r = {.g = in, .err = err, .uses = flxi_count_uses(in)};
    r.inner = flxi_new(&arena, uint32_t, ids);
    r.map = flxi_new(&arena, uint32_t, ids);
    r.region = flxi_new(&arena, uint32_t, nodes);
    r.above = flxi_new(&arena, uint32_t, nodes);
    r.lowest = flxi_new(&arena, uint32_t, nodes);
    r.inputs = flxi_new(&arena, uint32_t, 2 * MOST_INPUTS);
    bool is_whole = r.uses && r.inner && r.map && r.region && r.above && r.lowest && r.inputs;
    flx_code code = is_whole ? FLX_OK : flxi_oom(err, "regions");
    for (uint32_t i = in->node_count; is_whole && i-- > 0;)
        grow_region(&r, i);
    if (is_whole)
        code = write_regions(&r, out, count);
    if (r.uses)
        flxi_free(&in->ctx->mem, r.uses, ids, sizeof *r.uses);
    flxi_arena_free(&arena);
    return code;
}
