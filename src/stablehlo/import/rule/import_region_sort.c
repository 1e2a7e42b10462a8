/* SPDX-License-Identifier: Apache-2.0 */
/* import_region_sort.c: sort.

   Most comparators say K(a) < K(b), or > throughout, for some keys K in lexicographic order. Then the keys are computed
   for all elements at once and our sort orders by them: that puts NaN after all numbers, which a comparator that is not
   an order leaves open. Any other comparator is called for each pair. */
#include "stablehlo/import/rule/import_region.h"

#include "graph/op/site.h"
#include "ops/opcode.h"

#include <string.h>

enum { MAX_COMPARED = 4096 }; /* nodes that may be compared to see that two keys are the same function */

typedef struct {
    hlo_site *s;
    const hlo_element_body *body;
    bool *reached;               /* by value of the body */
    uint32_t keys[FLX_MAX_RANK]; /* values of the body that are made from a's only */
    size_t num_keys;
    bool is_descending;
    int budget;
} key_search;

/* Whether q is what p is, with a and b exchanged where `mirror` is 1. */
static bool is_same(key_search *k, uint32_t p, uint32_t q, size_t mirror)
{
    const flx_graph *g = k->body->graph;
    size_t i = flxi_leaf_at(g, p);
    size_t j = flxi_leaf_at(g, q);
    if (--k->budget < 0)
        return false;
    if (i < g->leaves.n || j < g->leaves.n)
        return j == (i < k->body->num_args ? i ^ mirror : i);
    const flxi_node *a = flxi_node_of(g, p);
    const flxi_node *b = flxi_node_of(g, q);
    if (a->op != b->op || a->nin != b->nin || p - a->first != q - b->first ||
        !flxi_attrs_equal(&flxi_ops[a->op], a->attrs, b->attrs))
        return false;
    for (uint32_t n = 0; n < a->nin; n++)
        if (!is_same(k, a->in[n], b->in[n], mirror))
            return false;
    return true;
}

static bool is_needed(const key_search *k, const flxi_node *n)
{
    for (uint32_t r = 0; r < n->nout; r++)
        if (k->reached[n->first + r])
            return true;
    return false;
}

/* Marks what a value is made from. */
static void reach(key_search *k, uint32_t id)
{
    const flx_graph *g = k->body->graph;
    memset(k->reached, 0, (g->value_count + 1) * sizeof *k->reached);
    k->reached[id] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t j = 0; is_needed(k, n) && j < n->nin; j++)
            k->reached[n->in[j]] = true;
    }
}

/* Made from elements of one side: 0 for a, 1 for b; −1: of both or none. */
static int side_of(key_search *k, uint32_t id)
{
    bool uses[2] = {false, false};
    reach(k, id);
    for (size_t i = 0; i < k->body->num_args; i++)
        uses[i % 2] = uses[i % 2] || k->reached[k->body->graph->leaves.at[i]];
    return uses[0] == uses[1] ? -1 : (int)uses[1];
}

/* A comparison of a key of a with the same key of b; *key is that of a, *swapped whether b's comes first. */
static bool match_pair(key_search *k, const flxi_node *n, uint32_t *key, bool *swapped)
{
    if (n->nin != 2 || !is_same(k, n->in[0], n->in[1], 1))
        return false;
    int side = side_of(k, n->in[0]);
    *swapped = side == 1;
    *key = n->in[*swapped];
    return side >= 0;
}

/* K(a) < K(b) or K(a) > K(b), in the direction of the keys before. */
static bool match_strict(key_search *k, const flxi_node *n)
{
    uint32_t key;
    bool is_swapped;
    if ((n->op != OP_lt && n->op != OP_gt) || k->num_keys == FLX_MAX_RANK || !match_pair(k, n, &key, &is_swapped))
        return false;
    bool is_descending = (n->op == OP_gt) != is_swapped;
    if (k->num_keys && is_descending != k->is_descending)
        return false;
    k->is_descending = is_descending;
    k->keys[k->num_keys++] = key;
    return true;
}

static bool match_order(key_search *k, uint32_t id);

/* and(K(a) = K(b), rest), in any order, where K is the last key found. */
static bool match_tie(key_search *k, const flxi_node *n)
{
    const flx_graph *g = k->body->graph;
    for (uint32_t i = 0; n->op == OP_and && i < 2; i++) {
        const flxi_node *tie = flxi_node_of(g, n->in[i]);
        uint32_t key;
        bool is_swapped;
        if (tie->op == OP_eq && match_pair(k, tie, &key, &is_swapped) && is_same(k, key, k->keys[k->num_keys - 1], 0))
            return match_order(k, n->in[1 - i]);
    }
    return false;
}

/* A strict comparison, or or(strict, and(tie, rest)) in any order. */
static bool match_order(key_search *k, uint32_t id)
{
    const flxi_node *n = flxi_node_of(k->body->graph, id);
    if (n->op != OP_or)
        return match_strict(k, n);
    for (uint32_t i = 0; i < 2; i++) {
        size_t found = k->num_keys;
        if (match_strict(k, flxi_node_of(k->body->graph, n->in[i])))
            return match_tie(k, flxi_node_of(k->body->graph, n->in[1 - i]));
        k->num_keys = found;
    }
    return false;
}

/* ---- Keys of all elements ---- */

/* Value `id` of the body for all elements: the operand itself, or a map over all operands. */
static flx_val key_values(key_search *k, uint32_t id)
{
    hlo_site *s = k->s;
    const flx_graph *body = k->body->graph;
    size_t leaf = flxi_leaf_at(body, id);
    if (leaf < body->leaves.n)
        return s->x[leaf / 2];
    flx_graph *g = flxi_hlo_new_body(s);
    uint32_t *map = flxi_hlo_new(s, uint32_t, body->value_count + 1);
    flx_val *x = flxi_hlo_new(s, flx_val, s->nx + k->body->num_outer);
    if (!g || !map || !x)
        return FLX_NONE;
    for (size_t i = 0; i < s->nx + k->body->num_outer; i++) {
        uint32_t own = body->leaves.at[i < s->nx ? 2 * i : k->body->num_args + i - s->nx];
        map[own] = flxi_hlo_body_input(g, i, flxi_type_at(body, own)).id;
        x[i] = i < s->nx ? s->x[i] : flxi_hlo_like(s, k->body->outer[i - s->nx], s->x[0]);
    }
    flx_error err = {0};
    flx_code code = FLX_OK;
    reach(k, id);
    for (uint32_t i = 0; i < body->node_count && code == FLX_OK; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        if (is_needed(k, n) && !(flxi_ops[n->op].traits & TRAIT_DECLARED))
            code = flxi_graft(g, body, i, map, &err);
    }
    if (code != FLX_OK) {
        flxi_graph_fail(s->g, &err);
        return FLX_NONE;
    }
    flx_output(g, (flx_val){map[id], g->serial}, NULL);
    flx_val key = FLX_NONE;
    if (flxi_hlo_finished(s, g))
        flx_map(s->g, x, s->nx + k->body->num_outer, &key, 1, g);
    return key;
}

/* Sorts by the keys found; operands that are keys themselves are not sorted twice. */
static void sort_by_keys(key_search *k, flx_sort_attrs a)
{
    hlo_site *s = k->s;
    size_t room = k->num_keys + s->nx;
    flx_val *x = flxi_hlo_new(s, flx_val, room);
    flx_val *y = flxi_hlo_new(s, flx_val, room);
    size_t *position = flxi_hlo_new(s, size_t, s->nx);
    size_t n = 0;
    if (!x || !y || !position)
        return;
    while (n < k->num_keys) {
        x[n] = key_values(k, k->keys[n]);
        n++;
    }
    for (size_t i = 0; i < s->nx; i++) {
        size_t at = 0;
        while (at < n && x[at].id != s->x[i].id)
            at++;
        if (at == n)
            x[n++] = s->x[i];
        position[i] = at;
    }
    a.num_keys = (int64_t)k->num_keys;
    a.descending = k->is_descending;
    flx_sort_with(s->g, x, n, y, n, &a);
    for (size_t i = 0; i < s->nx; i++)
        s->y[i] = y[position[i]];
}

static void sort_by_body(hlo_site *s, const hlo_element_body *body, flx_sort_attrs a)
{
    size_t n = s->nx + body->num_outer;
    flx_val *x = flxi_hlo_new(s, flx_val, n);
    flx_val *y = flxi_hlo_new(s, flx_val, n);
    a.compare = flxi_hlo_compare_graph(s, body);
    if (!x || !y || !a.compare)
        return;
    memcpy(x, s->x, s->nx * sizeof *x);
    for (size_t i = 0; i < body->num_outer; i++)
        x[s->nx + i] = flxi_hlo_like(s, body->outer[i], s->x[0]);
    flx_sort_with(s->g, x, n, y, n, &a);
    memcpy(s->y, y, s->nx * sizeof *y);
}

void flxi_hlo_import_sort(hlo_site *s)
{
    hlo_element_body body;
    flx_sort_attrs a = FLX_SORT_ATTRS;
    if (s->nx == 0 || s->ny != s->nx) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu results for %zu arrays", s->ny, s->nx);
        return;
    }
    a.axis = flxi_hlo_int(s, "dimension", -1);
    a.stable = flxi_hlo_flag(s, "is_stable", false);
    if (!flxi_hlo_element_body(s, &s->op->regions[0], 2 * s->nx, &body))
        return;
    key_search k = {.s = s, .body = &body, .budget = MAX_COMPARED};
    k.reached = flxi_hlo_new(s, bool, body.graph->value_count + 1);
    if (!k.reached)
        return;
    if (body.graph->outputs.n == 1 && match_order(&k, body.graph->outputs.at[0].val))
        sort_by_keys(&k, a);
    else
        sort_by_body(s, &body, a);
}
