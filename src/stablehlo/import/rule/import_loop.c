/* SPDX-License-Identifier: Apache-2.0 */
/* import_loop.c: while.

   A loop whose condition compares a counter with a limit, both known, becomes a scan of that many steps: what it
   carries unchanged is handed to each step without being copied, an array that is read row by row as the counter runs
   becomes a sequence, and one that is written so becomes the stacked results of the steps. Scans of other systems have
   this form once they are written as loops. All other loops remain loops; what their regions use from outside is
   carried along. */
#include "stablehlo/import/rule/import_region.h"

#include "graph/op/eval.h"
#include "graph/op/site.h"
#include "graph/type/type.h"
#include "ops/opcode.h"

#include <string.h>

typedef enum {
    VARIES,
    FIXED,  /* given back as it is */
    READ,   /* fixed, and only read: one row in each round */
    WRITTEN /* only written: likewise */
} carry_role;

typedef struct {
    hlo_site *s;
    const flx_graph *cond, *body;
    const flx_val *x; /* carries at the start */
    size_t n;         /* how many, captures included */
    size_t counter;   /* the carry that counts from `start` in steps of `step` */
    int64_t start, step, rounds;
    bool is_backward;  /* rows from the last to the first */
    carry_role *roles; /* of the carries */
    uint32_t *uses;    /* how often each value of the body is used */
} loop;

static bool is_fixed(const loop *l, size_t carry)
{
    return l->body->outputs.at[carry].val == l->body->leaves.at[carry];
}

/* ---- Loops that count ---- */

static bool integer_in(flx_tensor *t, int64_t *out)
{
    bool ok = t && flx_tensor_count(t) == 1 && flxi_is_int(flx_tensor_type(t)->dtype);
    if (ok)
        *out = flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_const_data(t), 0);
    flx_tensor_release(t);
    return ok;
}

/* A value of a body that is the same known integer in each round: a constant, or a carry that stays as it is. */
static bool fixed_integer(const loop *l, const flx_graph *g, uint32_t id, int64_t *out)
{
    size_t leaf = flxi_leaf_at(g, id);
    if (leaf < g->leaves.n)
        return is_fixed(l, leaf) && integer_in(flxi_hlo_known(l->s, l->x[leaf]), out);
    hlo_site inner = *l->s;
    inner.g = (flx_graph *)(uintptr_t)g; /* it is only read */
    return integer_in(flxi_hlo_known(&inner, (flx_val){id, g->serial}), out);
}

/* The counter grows by the same number in each round. */
static bool find_step(loop *l)
{
    const flxi_node *n = flxi_node_of(l->body, l->body->outputs.at[l->counter].val);
    uint32_t leaf = l->body->leaves.at[l->counter];
    if (n->op != OP_add)
        return false;
    for (size_t i = 0; i < 2; i++)
        if (n->in[i] == leaf)
            return fixed_integer(l, l->body, n->in[1 - i], &l->step);
    return false;
}

/* Finds out how often the loop runs; false when only a run knows. */
static bool find_rounds(loop *l)
{
    enum { FAR = 1 << 30 }; /* differences of numbers below cannot overflow */
    const flxi_node *n = flxi_node_of(l->cond, l->cond->outputs.at[0].val);
    int64_t limit;
    if (n->op != OP_lt && n->op != OP_le)
        return false;
    l->counter = flxi_leaf_at(l->cond, n->in[0]);
    if (l->counter == l->cond->leaves.n || !find_step(l) || !fixed_integer(l, l->cond, n->in[1], &limit) ||
        !integer_in(flxi_hlo_known(l->s, l->x[l->counter]), &l->start))
        return false;
    limit += n->op == OP_le;
    if (l->step <= 0 || l->step > FAR || l->start < -FAR || l->start > FAR || limit < -FAR || limit > FAR)
        return false;
    l->rounds = limit > l->start ? (limit - l->start + l->step - 1) / l->step : 0;
    return true;
}

/* ---- Rows ---- */

static bool is_integer(const loop *l, uint32_t id, int64_t wanted)
{
    int64_t v;
    return fixed_integer(l, l->body, id, &v) && v == wanted;
}

/* rounds − 1 − counter, as (rounds − 1) − counter or (rounds − counter) − 1. */
static bool counts_down(const loop *l, const flxi_node *n)
{
    uint32_t counter = l->body->leaves.at[l->counter];
    if (n->op != OP_sub)
        return false;
    if (n->in[1] == counter)
        return is_integer(l, n->in[0], l->rounds - 1);
    const flxi_node *inner = flxi_node_of(l->body, n->in[0]);
    return inner->op == OP_sub && inner->in[1] == counter && is_integer(l, inner->in[0], l->rounds) &&
           is_integer(l, n->in[1], 1);
}

/* The row of this round, also after a test that makes negative numbers count from the end: it is never negative. */
static bool is_row_number(const loop *l, uint32_t id)
{
    const flxi_node *n = flxi_node_of(l->body, id);
    if (n->op == OP_where) {
        const flxi_node *test = flxi_node_of(l->body, n->in[0]);
        return test->op == OP_lt && test->in[0] == n->in[2] && is_integer(l, test->in[1], 0) &&
               is_row_number(l, n->in[2]);
    }
    return l->is_backward ? counts_down(l, n) : id == l->body->leaves.at[l->counter];
}

/* Indices from operand `first` of the node on: the row, then zeros. */
static bool is_at_row(const loop *l, const flxi_node *n, uint32_t first)
{
    bool ok = n->nin > first && is_row_number(l, n->in[first]);
    for (uint32_t i = first + 1; ok && i < n->nin; i++)
        ok = is_integer(l, n->in[i], 0);
    return ok;
}

/* `part` is one row of `whole`, which has as many rows as the loop has rounds. */
static bool is_row_of(const loop *l, uint32_t part, uint32_t whole)
{
    const flx_type *p = flxi_type_at(l->body, part);
    const flx_type *w = flxi_type_at(l->body, whole);
    bool ok = w->rank > 0 && p->rank == w->rank && p->dims[0] == 1 && w->dims[0] == l->rounds;
    for (int k = 1; ok && k < w->rank; k++)
        ok = p->dims[k] == w->dims[k];
    return ok;
}

static bool reads_row(const loop *l, const flxi_node *n, uint32_t leaf)
{
    return n->op == OP_dynamic_slice && n->in[0] == leaf && is_row_of(l, n->first, leaf) && is_at_row(l, n, 1);
}

static bool is_only_read(const loop *l, size_t carry)
{
    uint32_t leaf = l->body->leaves.at[carry];
    uint32_t reads = 0;
    for (uint32_t i = 0; i < l->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(l->body, i);
        if (n->nin && n->in[0] == leaf && reads_row(l, n, leaf))
            reads++;
    }
    return reads > 0 && l->uses[leaf] == reads + 1; /* and given back */
}

static bool is_only_written(const loop *l, size_t carry)
{
    uint32_t leaf = l->body->leaves.at[carry];
    const flxi_node *n = flxi_node_of(l->body, l->body->outputs.at[carry].val);
    return n->op == OP_dynamic_update_slice && n->in[0] == leaf && l->uses[leaf] == 1 && l->uses[n->first] == 1 &&
           is_row_of(l, n->in[1], leaf) && is_at_row(l, n, 2);
}

static bool count_uses(loop *l)
{
    l->uses = flxi_hlo_new(l->s, uint32_t, l->body->value_count + 1);
    if (!l->uses)
        return false;
    memset(l->uses, 0, (l->body->value_count + 1) * sizeof *l->uses);
    for (uint32_t i = 0; i < l->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(l->body, i);
        for (uint32_t k = 0; k < n->nin; k++)
            l->uses[n->in[k]]++;
    }
    for (size_t k = 0; k < l->n; k++)
        l->uses[l->body->outputs.at[k].val]++;
    return true;
}

/* How many arrays are read or written by rows, in the order that the loop says. */
static size_t find_rows(loop *l)
{
    size_t found = 0;
    for (size_t k = 0; k < l->n; k++) {
        if (l->roles[k] == FIXED && is_only_read(l, k))
            l->roles[k] = READ;
        if (l->roles[k] == VARIES && is_only_written(l, k))
            l->roles[k] = WRITTEN;
        found += l->roles[k] == READ || l->roles[k] == WRITTEN;
    }
    return found;
}

static bool find_roles(loop *l)
{
    l->roles = flxi_hlo_new(l->s, carry_role, l->n);
    if (!l->roles || !count_uses(l))
        return false;
    for (size_t k = 0; k < l->n; k++)
        l->roles[k] = is_fixed(l, k) ? FIXED : VARIES;
    if (l->start == 0 && l->step == 1 && find_rows(l) == 0) {
        l->is_backward = true;
        find_rows(l);
    }
    return true;
}

/* ---- The scan ---- */

/* Type of a row: that of the array without its first axis. */
static flx_type row_type(const flx_type *t)
{
    flx_type row = {.dtype = t->dtype, .rank = t->rank - 1};
    for (int k = 0; k < row.rank; k++)
        row.dims[k] = t->dims[k + 1];
    return row;
}

/* Declares inputs for the carries of one role; map receives their ids. */
static void declare_role(const loop *l, flx_graph *g, carry_role role, uint32_t *map)
{
    for (size_t k = 0; k < l->n; k++) {
        const flx_type *t = flxi_type_at(l->body, l->body->leaves.at[k]);
        flx_type row = role == READ && l->roles[k] == role ? row_type(t) : *t;
        if (l->roles[k] == role)
            map[l->body->leaves.at[k]] = flxi_hlo_body_input(g, g->leaves.n, &row).id;
    }
}

/* Copies a node of the body; one that reads a row gives the row that the step has, one that writes a row is left
   out. */
static flx_code copy_node(const loop *l, flx_graph *g, uint32_t i, uint32_t *map, flx_error *err)
{
    const flxi_node *n = flxi_node_at(l->body, i);
    size_t leaf = n->nin ? flxi_leaf_at(l->body, n->in[0]) : l->n;
    carry_role role = leaf < l->n ? l->roles[leaf] : VARIES;
    if (role == WRITTEN)
        return FLX_OK;
    if (role != READ)
        return flxi_graft(g, l->body, i, map, err);
    const flx_type *t = flxi_type_at(l->body, n->first);
    flx_val row = {map[n->in[0]], g->serial};
    map[n->first] = flx_reshape(g, row, flxi_hlo_dims(t)).id;
    return FLX_OK;
}

/* Carries, fixed values, rows → carries, rows written; NULL with the error in s->g. */
static const flx_graph *scan_step(const loop *l)
{
    const flx_graph *body = l->body;
    flx_graph *g = flxi_hlo_new_body(l->s);
    uint32_t *map = flxi_hlo_new(l->s, uint32_t, body->value_count + 1);
    flx_error err = {0};
    flx_code code = FLX_OK;
    if (!g || !map)
        return NULL;
    declare_role(l, g, VARIES, map);
    declare_role(l, g, FIXED, map);
    declare_role(l, g, READ, map);
    for (uint32_t i = 0; i < body->node_count && code == FLX_OK; i++)
        if (!(flxi_ops[flxi_node_at(body, i)->op].traits & TRAIT_DECLARED))
            code = copy_node(l, g, i, map, &err);
    if (code != FLX_OK)
        flxi_graph_fail(g, &err);
    for (size_t k = 0; k < l->n; k++)
        if (l->roles[k] == VARIES)
            flx_output(g, (flx_val){map[body->outputs.at[k].val], g->serial}, NULL);
    for (size_t k = 0; k < l->n; k++)
        if (l->roles[k] == WRITTEN) {
            flx_type row = row_type(flxi_type_at(body, body->leaves.at[k]));
            flx_val v = {map[flxi_node_of(body, body->outputs.at[k].val)->in[1]], g->serial};
            flx_output(g, flx_reshape(g, v, flxi_hlo_dims(&row)), NULL);
        }
    return flxi_hlo_finished(l->s, g);
}

/* Appends the starts of the carries of one role; returns how many they are. */
static int64_t list_role(const loop *l, carry_role role, flx_val *x, size_t *n)
{
    size_t before = *n;
    for (size_t k = 0; k < l->n; k++)
        if (l->roles[k] == role)
            x[(*n)++] = l->x[k];
    return (int64_t)(*n - before);
}

static void scan_loop(const loop *l, flx_val *y)
{
    hlo_site *s = l->s;
    flx_val *x = flxi_hlo_new(s, flx_val, l->n);
    flx_val *out = flxi_hlo_new(s, flx_val, l->n);
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    size_t n = 0;
    size_t next = 0;
    if (!x || !out || !(a.body = scan_step(l)))
        return;
    a.num_carry = list_role(l, VARIES, x, &n);
    a.num_bcast = list_role(l, FIXED, x, &n);
    list_role(l, READ, x, &n);
    a.length = l->rounds;
    a.reverse = l->is_backward;
    flx_scan_with(s->g, x, n, out, a.body->outputs.n, &a);
    for (size_t k = 0; k < l->n; k++)
        y[k] = l->roles[k] == VARIES ? out[next++] : l->x[k];
    for (size_t k = 0; k < l->n; k++)
        if (l->roles[k] == WRITTEN)
            y[k] = out[next++];
}

/* ---- The rule ---- */

/* Both regions as graphs on the carries and what they use from outside. */
static bool build_loop(loop *l)
{
    hlo_site *s = l->s;
    hlo_captures captures;
    if (!flxi_hlo_captures(s, s->op->regions, 2, &captures))
        return false;
    l->n = s->nx + captures.num_vals;
    const flx_type **types = flxi_hlo_new(s, const flx_type *, s->nx);
    flx_val *x = flxi_hlo_new(s, flx_val, l->n);
    if (!types || !x)
        return false;
    for (size_t i = 0; i < l->n; i++) {
        x[i] = i < s->nx ? s->x[i] : captures.vals[i - s->nx];
        if (i < s->nx)
            types[i] = flxi_hlo_typeof(s, x[i]);
    }
    l->x = x;
    l->cond = flxi_hlo_body(s, &s->op->regions[0], types, &captures);
    captures.are_carried = true;
    l->body = l->cond ? flxi_hlo_body(s, &s->op->regions[1], types, &captures) : NULL;
    if (!l->body)
        return false;
    if (s->nx == 0 || s->ny != s->nx || l->body->outputs.n != l->n || l->cond->outputs.n != 1) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL,
                      "it has %zu carries and %zu results; its condition returns %zu values, its body %zu", s->nx,
                      s->ny, l->cond->outputs.n, l->body->outputs.n - captures.num_vals);
        return false;
    }
    return true;
}

/* A step of a scan is the same in all rounds: its carries keep their types. */
static bool keeps_types(const loop *l)
{
    for (size_t k = 0; k < l->n; k++) {
        uint32_t leaf = l->body->leaves.at[k];
        if (!flxi_type_equal(flxi_type_at(l->body, leaf), flxi_type_at(l->body, l->body->outputs.at[k].val)))
            return false;
    }
    return true;
}

void flxi_hlo_import_while(hlo_site *s)
{
    loop l = {.s = s};
    if (!build_loop(&l))
        return;
    flx_val *y = flxi_hlo_new(s, flx_val, l.n);
    if (!y)
        return;
    if (!keeps_types(&l) || !find_rounds(&l))
        flx_while(s->g, l.x, l.n, y, l.n, l.cond, l.body, FLX_DEFAULT);
    else if (find_roles(&l))
        scan_loop(&l, y);
    memcpy(s->y, y, s->ny * sizeof *y);
}
