/* SPDX-License-Identifier: Apache-2.0 */
/* reuse_steps.c: see reuse_steps.h.

   Replacing each carry by the result that becomes this carry in the next step turns a value of the body into its
   successor: what the next step computes instead of this value. Where the body computes the successor itself, the
   next step need not: the successor is carried to it, and the first step receives what the initial carries give. */
#include "passes/hoist/reuse_steps.h"

#include "graph/op/work.h"
#include "ops/control/control.h"

#include <stdio.h>

enum { MOST_KEPT = 16 };

/* The operations that a carried element must save, and those that the whole loop must. */
static const double least_saved = 8, least_saved_in_all = 1 << 16;

typedef struct {
    flxi_copy *c;
    const flxi_node *n;
    const scan_attrs *a;
    const flx_graph *body;
    int64_t length;
    flxi_arena arena;
    flxi_index seen; /* nodes by what they compute */
    uint32_t *next;  /* by value: its successor, 0 where the body does not compute it */
    bool *is_kept;   /* by value: carried from now on */
    bool *is_needed; /* scratch, by value */
    uint32_t kept[MOST_KEPT];
    uint32_t count;
} reusing;

/* ---- Successors ---- */

static bool is_same_always(const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    return n->nout == 1 && !(op->traits & (TRAIT_DECLARED | TRAIT_OPAQUE)) && !flxi_has_effect(n);
}

/* The value that node n would make from the successors of its operands; 0: the body has none. */
static uint32_t find_made(const reusing *r, const flxi_node *n)
{
    uint32_t i;
    uint64_t h = flxi_node_hash(r->body, n, r->next);
    for (flxi_probe p = flxi_index_first(&r->seen, h); flxi_index_next(&r->seen, &p, &i);) {
        const flxi_node *m = flxi_node_at(r->body, i);
        if (flxi_nodes_same(n, r->next, m))
            return m->first;
    }
    return 0;
}

static void find_successor(reusing *r, const flxi_node *n)
{
    bool is_known = is_same_always(n), is_same = true;
    for (uint32_t k = 0; is_known && k < n->nin; k++) {
        is_known = r->next[n->in[k]] != 0;
        is_same &= r->next[n->in[k]] == n->in[k];
    }
    if (is_known)
        r->next[n->first] = is_same ? n->first : find_made(r, n);
}

static flx_code find_successors(reusing *r)
{
    const flx_graph *g = r->body;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (is_same_always(n) && !flxi_index_add(&g->ctx->mem, &r->seen, flxi_node_hash(g, n, NULL), i))
            return flxi_oom(r->c->err, "a pass");
    }
    for (uint32_t k = 0; k < g->leaves.n; k++) {
        uint32_t v = g->leaves.at[k];
        bool is_carry = k < r->a->num_carry, is_shared = k < r->a->num_carry + r->a->num_bcast;
        r->next[v] = is_carry ? g->outputs.at[k].val : is_shared ? v : 0;
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        find_successor(r, flxi_node_at(g, i));
    return FLX_OK;
}

/* ---- What to carry ---- */

static bool has_other_successor(const reusing *r, uint32_t value)
{
    return r->next[value] && r->next[value] != value &&
           !(flxi_ops[flxi_node_of(r->body, value)->op].traits & TRAIT_DECLARED);
}

/* By value: its successor is computed, and something reads it whose own successor is not. */
static void find_candidates(reusing *r)
{
    const flx_graph *g = r->body;
    memset(r->is_needed, 0, (size_t)g->value_count + 1);
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_reused = n->nout == 1 && r->next[n->first];
        for (uint32_t k = 0; !is_reused && k < n->nin; k++)
            r->is_needed[n->in[k]] = true;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        r->is_needed[g->outputs.at[k].val] = true;
    for (uint32_t v = g->value_count; v > 0 && r->count < MOST_KEPT; v--)
        if (r->is_needed[v] && has_other_successor(r, v)) {
            r->is_kept[v] = true;
            r->kept[r->count++] = v;
        }
}

/* Marks what the body needs where `is_kept` is given, and counts the operations. */
static double count_needed(reusing *r)
{
    const flx_graph *g = r->body;
    double flops = 0;
    memset(r->is_needed, 0, (size_t)g->value_count + 1);
    for (size_t k = 0; k < g->outputs.n; k++)
        r->is_needed[g->outputs.at[k].val] = true;
    for (uint32_t k = 0; k < r->count; k++)
        r->is_needed[r->next[r->kept[k]]] |= r->is_kept[r->kept[k]];
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_computed = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_computed |= r->is_needed[n->first + k] && !r->is_kept[n->first + k];
        if (!is_computed)
            continue;
        flops += (double)flxi_node_work(g, i).flops;
        for (uint32_t k = 0; k < n->nin; k++)
            r->is_needed[n->in[k]] = true;
    }
    return flops;
}

/* Keeps those that save more than they cost, each compared with all but it. */
static bool choose(reusing *r)
{
    find_candidates(r);
    uint32_t left = 0;
    for (uint32_t k = 0; k < r->count; k++) {
        uint32_t v = r->kept[k];
        int64_t elements = 0;
        flxi_static_count(flxi_type_at(r->body, v), &elements);
        double with = count_needed(r);
        r->is_kept[v] = false;
        r->is_kept[v] = count_needed(r) - with >= least_saved * (double)elements;
    }
    double flops = count_needed(r);
    for (uint32_t k = 0; k < r->count; k++)
        if (r->is_kept[r->kept[k]])
            r->kept[left++] = r->kept[k];
    memset(r->is_kept, 0, (size_t)r->body->value_count + 1);
    r->count = 0;
    double saved = count_needed(r) - flops;
    r->count = left;
    for (uint32_t k = 0; k < left; k++)
        r->is_kept[r->kept[k]] = true;
    return left > 0 && saved * (double)(r->length - 1) >= least_saved_in_all;
}

/* ---- The new scan ---- */

static flx_code declare(const reusing *r, flx_graph *g, uint32_t value, uint32_t *map)
{
    char name[24];
    snprintf(name, sizeof name, "x%u", (unsigned)g->leaves.n);
    map[value] = flx_input(g, name, flxi_type_at(r->body, value)).id;
    return flxi_built(g, r->c->err);
}

/* The nodes of the body that `is_needed`, and that are not given. */
static flx_code graft_needed(const reusing *r, flx_graph *g, uint32_t *map)
{
    for (uint32_t i = 0; i < r->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(r->body, i);
        bool is_computed = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_computed |= r->is_needed[n->first + k] && !map[n->first + k];
        if (is_computed)
            FLXI_TRY(flxi_graft(g, r->body, i, map, r->c->err));
    }
    return FLX_OK;
}

static flx_code output(const reusing *r, flx_graph *g, const uint32_t *map, uint32_t value)
{
    return flx_output(g, (flx_val){map[value], g->serial}, NULL) == FLX_OK ? FLX_OK : flxi_built(g, r->c->err);
}

/* One step, which receives what is kept after the carries and returns the successors after theirs. */
static flx_code make_step(reusing *r, flx_graph *g, uint32_t *map)
{
    const flx_graph *body = r->body;
    size_t carries = (size_t)r->a->num_carry;
    g->is_lowered = body->is_lowered;
    for (size_t k = 0; k <= body->leaves.n; k++) {
        for (uint32_t i = 0; k == carries && i < r->count; i++)
            FLXI_TRY(declare(r, g, r->kept[i], map));
        if (k < body->leaves.n)
            FLXI_TRY(declare(r, g, body->leaves.at[k], map));
    }
    count_needed(r);
    FLXI_TRY(graft_needed(r, g, map));
    for (size_t k = 0; k <= body->outputs.n; k++) {
        for (uint32_t i = 0; k == carries && i < r->count; i++)
            FLXI_TRY(output(r, g, map, r->next[r->kept[i]]));
        if (k < body->outputs.n)
            FLXI_TRY(output(r, g, map, body->outputs.at[k].val));
    }
    return FLX_OK;
}

/* What the first step receives, computed before the loop. */
static flx_code make_first(reusing *r, uint32_t *map)
{
    const flx_graph *body = r->body;
    memset(r->is_needed, 0, (size_t)body->value_count + 1);
    for (uint32_t k = 0; k < body->leaves.n; k++)
        map[body->leaves.at[k]] = r->c->remap.id[r->n->in[k]];
    for (uint32_t k = 0; k < r->count; k++)
        r->is_needed[r->kept[k]] = true;
    for (uint32_t i = body->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(body, i);
        for (uint32_t k = 0; r->is_needed[n->first] && k < n->nin; k++)
            r->is_needed[n->in[k]] = true;
    }
    return graft_needed(r, r->c->to, map);
}

static flx_code append_scan(reusing *r, flx_graph *step, const uint32_t *first)
{
    uint32_t carries = (uint32_t)r->a->num_carry, nin = r->n->nin + r->count, nout = r->n->nout + r->count;
    flx_val *in = flxi_new(&r->arena, flx_val, nin), *results = flxi_new(&r->arena, flx_val, nout);
    if (!in || !results)
        return flxi_oom(r->c->err, "a pass");
    for (uint32_t k = 0; k < nin; k++) {
        bool is_new = k >= carries && k < carries + r->count;
        uint32_t old = k < carries ? k : k - r->count;
        in[k] = (flx_val){is_new ? first[r->kept[k - carries]] : r->c->remap.id[r->n->in[old]], r->c->to->serial};
    }
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = step;
    attrs.num_carry = carries + r->count;
    attrs.num_bcast = r->a->num_bcast;
    attrs.length = r->length;
    attrs.reverse = r->a->reverse != 0;
    flx_scan_with(r->c->to, in, nin, results, nout, &attrs);
    FLXI_TRY(flxi_built(r->c->to, r->c->err));
    for (uint32_t k = 0; k < r->n->nout; k++)
        flxi_copy_replace(r->c, r->n->first + k, results[k < carries ? k : k + r->count].id);
    return FLX_OK;
}

static flx_code carry_kept(reusing *r)
{
    size_t values = (size_t)r->body->value_count + 1;
    uint32_t *inside = flxi_new(&r->arena, uint32_t, values), *before = flxi_new(&r->arena, uint32_t, values);
    flx_graph *step = flx_graph_new(r->body->ctx, r->body->name);
    flx_code code = inside && before && step ? FLX_OK : flxi_oom(r->c->err, "a pass");
    if (code == FLX_OK)
        code = make_step(r, step, inside);
    if (code == FLX_OK)
        code = make_first(r, before);
    if (code == FLX_OK)
        code = append_scan(r, step, before);
    flx_graph_release(step);
    return code;
}

static flx_code reuse_in(flxi_copy *c, const flxi_node *n, const flx_graph *body, int64_t length, bool *is_done)
{
    reusing r = {.c = c, .n = n, .a = flxi_scan_attrs(n), .body = body, .length = length};
    const flxi_allocator *mem = &body->ctx->mem;
    size_t values = (size_t)body->value_count + 1;
    if (r.a->save_trajectory)
        return FLX_OK; /* what is kept would be stacked as well */
    flxi_arena_init(&r.arena, mem);
    r.next = flxi_new(&r.arena, uint32_t, values);
    r.is_kept = flxi_new(&r.arena, bool, values);
    r.is_needed = flxi_new(&r.arena, bool, values);
    flx_code code = r.next && r.is_kept && r.is_needed ? find_successors(&r) : flxi_oom(c->err, "a pass");
    *is_done = code == FLX_OK && choose(&r);
    if (*is_done)
        code = carry_kept(&r);
    flxi_index_free(mem, &r.seen);
    flxi_arena_free(&r.arena);
    return code;
}

flx_code flxi_reuse_steps(const flx_graph *in, flxi_prepare_body prepare, const void *user, flx_graph **out,
                          flxi_remap *remap, flx_error *err)
{
    return flxi_visit_scans(in, prepare, user, reuse_in, out, remap, err);
}
