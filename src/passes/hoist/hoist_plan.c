/* SPDX-License-Identifier: Apache-2.0 */
/* hoist_plan.c: see hoist_plan.h.

   Leaving the loop costs memory: a value of all steps instead of one. So it pays only for nodes that would be a step of
   their own inside, mainly products ("costly"), and for the nodes around them, as long as that reduces what has to be
   kept. A carry that is only added to, such as the gradient of a weight, needs no loop either: the sum over the steps
   of products is one product over all steps. Nodes with effects, random numbers and control flow stay. */
#include "passes/hoist/hoist_plan.h"

#include "ops/opcode.h"

enum { ON_CARRY = 1, ON_SEQUENCE = 2 };
enum { MOST_DEPTH = 32 }; /* of a sum of terms */

/* ---- Looking at the body ---- */

const flxi_node *flxi_hoist_node(const flxi_hoist_plan *p, uint32_t value)
{
    return flxi_node_of(p->body, value);
}

flxi_hoist_part flxi_hoist_part_of(const flxi_hoist_plan *p, uint32_t value)
{
    return (flxi_hoist_part)p->part[flxi_value_at(p->body, value)->node];
}

static void set_part(flxi_hoist_plan *p, uint32_t value, flxi_hoist_part part)
{
    p->part[flxi_value_at(p->body, value)->node] = (uint8_t)part;
}

static size_t bytes_of(const flxi_hoist_plan *p, uint32_t value)
{
    size_t n = 0;
    flxi_static_bytes(flxi_type_at(p->body, value), &n);
    return n;
}

static bool is_leaf(const flxi_node *n)
{
    return flxi_ops[n->op].traits & TRAIT_DECLARED;
}

static bool is_view(const flxi_node *n)
{
    return flxi_ops[n->op].op_class == CLASS_SHAPE && flxi_ops[n->op].rules->pull;
}

/* Inside a loop it would be a separate step, one call for every iteration. */
static bool is_costly(const flxi_node *n)
{
    const flxi_rules *r = flxi_ops[n->op].rules;
    return !is_leaf(n) && !r->element && !r->pull && !r->fold;
}

/* Has the same value wherever and however often it is computed. */
static bool is_pure(const flxi_hoist_plan *p, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (is_leaf(n) || flxi_has_effect(n) || (op->traits & (TRAIT_OPAQUE | TRAIT_HIR)) || op->op_class == CLASS_RANDOM ||
        op->op_class == CLASS_CONTROL)
        return false;
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_value_at(p->body, n->first + k)->pinned)
            return false;
    return true;
}

/* Has a form for all steps at once that is not a loop. */
static bool can_batch(const flxi_hoist_plan *p, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (!is_pure(p, n) || n->nin == 0 || (!op->rules->batch && op->op_class != CLASS_POINTWISE))
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (flxi_type_at(p->body, n->in[k])->rank == FLX_MAX_RANK)
            return false;
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_type_at(p->body, n->first + k)->rank == FLX_MAX_RANK)
            return false;
    return true;
}

static void find_dependences(flxi_hoist_plan *p)
{
    const flx_graph *g = p->body;
    for (uint32_t i = 0; i < g->leaves.n; i++) {
        uint32_t v = g->leaves.at[i];
        p->depends[v] = i < p->carries ? ON_CARRY : i < p->shared ? 0 : ON_SEQUENCE;
        set_part(p, v, i < p->carries ? PART_LOOP : i < p->shared ? PART_ONCE : PART_BEFORE);
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        uint8_t on = 0;
        for (uint32_t k = 0; k < n->nin; k++) {
            on |= p->depends[n->in[k]];
            p->uses[n->in[k]]++;
        }
        for (uint32_t k = 0; !is_leaf(n) && k < n->nout; k++)
            p->depends[n->first + k] = on;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        p->uses[g->outputs.at[k].val]++;
}

/* ---- The same in all steps ---- */

static bool feeds_costly(const flxi_hoist_plan *p, uint32_t value)
{
    for (uint32_t i = flxi_value_at(p->body, value)->node + 1; i < p->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(p->body, i);
        for (uint32_t k = 0; k < n->nin; k++)
            if (n->in[k] == value && is_costly(n))
                return true;
    }
    return false;
}

/* Views are read in place wherever they are used, but products need transposed matrices in memory. */
static flxi_hoist_part part_of_constant(const flxi_hoist_plan *p, const flxi_node *n)
{
    int64_t most = 0;
    if (!is_pure(p, n))
        return PART_LOOP;
    for (uint32_t k = 0; k < n->nin; k++) {
        if (flxi_hoist_part_of(p, n->in[k]) == PART_LOOP)
            return PART_LOOP;
        most = flxi_count_at(p->body, n->in[k]) > most ? flxi_count_at(p->body, n->in[k]) : most;
    }
    if (n->nin == 0 || (is_view(n) && !(n->op == OP_transpose && feeds_costly(p, n->first))))
        return PART_ANYWHERE;
    for (uint32_t k = 0; k < n->nout; k++)
        if (flxi_count_at(p->body, n->first + k) > most)
            return is_costly(n) ? PART_ONCE : PART_ANYWHERE;
    return PART_ONCE;
}

static void assign_constants(flxi_hoist_plan *p)
{
    for (uint32_t i = 0; i < p->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(p->body, i);
        if (!is_leaf(n) && n->nout > 0 && p->depends[n->first] == 0)
            p->part[i] = (uint8_t)part_of_constant(p, n);
    }
}

/* ---- Before the loop ---- */

static bool is_outside(flxi_hoist_part part)
{
    return part == PART_ONCE || part == PART_BEFORE || part == PART_ANYWHERE;
}

/* By node: it depends on no carry. */
static bool *find_early(flxi_hoist_plan *p)
{
    bool *early = flxi_new(&p->arena, bool, p->body->node_count + 1);
    for (uint32_t i = 0; early && i < p->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(p->body, i);
        early[i] = p->part[i] == PART_LOOP && can_batch(p, n) && p->depends[n->first] == ON_SEQUENCE;
        for (uint32_t k = 0; early[i] && k < n->nin; k++)
            early[i] = is_outside(flxi_hoist_part_of(p, n->in[k])) || early[flxi_value_at(p->body, n->in[k])->node];
    }
    return early;
}

/* Including everything that it needs. */
static void put_before(flxi_hoist_plan *p, uint32_t node)
{
    p->part[node] = PART_BEFORE;
    for (uint32_t i = node + 1; i-- > 0;) {
        const flxi_node *n = flxi_node_at(p->body, i);
        for (uint32_t k = 0; p->part[i] == PART_BEFORE && k < n->nin; k++)
            if (!is_outside(flxi_hoist_part_of(p, n->in[k])))
                set_part(p, n->in[k], PART_BEFORE);
    }
}

/* Who reads the values of the body besides nodes before the loop. Views are read in place: who reads one reads what it
   is a view of. */
typedef struct {
    uint32_t *base;    /* by value: itself, or what it is a view of */
    uint32_t *readers; /* by such a value: operands and outputs */
} early_values;

static void find_readers(const flxi_hoist_plan *p, const bool *early, early_values *e)
{
    const flx_graph *g = p->body;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        bool is_through = early[i] && is_view(n);
        for (uint32_t k = 0; k < n->nout; k++)
            e->base[n->first + k] = is_through ? e->base[n->in[0]] : n->first + k;
        for (uint32_t k = 0; p->part[i] != PART_BEFORE && !is_through && k < n->nin; k++)
            e->readers[e->base[n->in[k]]]++;
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        e->readers[e->base[g->outputs.at[k].val]]++;
}

/* How many bytes need not be kept any more when the node, which alone reads them, is before the loop. */
static size_t freed_bytes(const flxi_hoist_plan *p, const early_values *e, const flxi_node *n)
{
    size_t sum = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint32_t base = e->base[n->in[k]], reads = 0, first = n->nin;
        bool is_kept = flxi_hoist_part_of(p, base) == PART_BEFORE && !is_leaf(flxi_hoist_node(p, base));
        for (uint32_t l = n->nin; l-- > 0;)
            if (e->base[n->in[l]] == base) {
                reads++;
                first = l;
            }
        if (is_kept && first == k && reads == e->readers[base])
            sum += bytes_of(p, base);
    }
    return sum;
}

/* Moves a node that makes no more than it frees. */
static void move_before(flxi_hoist_plan *p, early_values *e, uint32_t node)
{
    const flxi_node *n = flxi_node_at(p->body, node);
    size_t made = 0;
    for (uint32_t k = 0; k < n->nout; k++)
        made += bytes_of(p, n->first + k);
    if (made > freed_bytes(p, e, n))
        return;
    put_before(p, node);
    for (uint32_t k = 0; k < n->nin; k++)
        e->readers[e->base[n->in[k]]]--;
}

/* The costly nodes, then what follows them as long as no more has to be kept. Where one value becomes several, such as
   the gates of a recurrent cell, it is the one that is kept. */
static flx_code assign_before(flxi_hoist_plan *p, flx_error *err)
{
    const bool *early = find_early(p);
    early_values e = {.base = flxi_new(&p->arena, uint32_t, p->body->value_count + 1),
                      .readers = flxi_new(&p->arena, uint32_t, p->body->value_count + 1)};
    if (!early || !e.base || !e.readers)
        return flxi_oom(err, "hoisting");
    for (uint32_t i = 0; i < p->body->node_count; i++)
        if (early[i] && is_costly(flxi_node_at(p->body, i)))
            put_before(p, i);
    find_readers(p, early, &e);
    for (uint32_t i = 0; i < p->body->node_count; i++)
        if (early[i] && p->part[i] != PART_BEFORE && !is_view(flxi_node_at(p->body, i)))
            move_before(p, &e, i);
    return FLX_OK;
}

/* ---- After the loop ---- */

/* A value that something after the loop needs from every step. */
static void want_rows(flxi_hoist_plan *p, uint32_t value)
{
    if (flxi_hoist_part_of(p, value) == PART_LOOP)
        p->is_stacked[value] = true;
}

/* By node: no carry depends on it, and everything that reads it can move after the loop. */
static bool *find_late(flxi_hoist_plan *p)
{
    const flx_graph *g = p->body;
    bool *late = flxi_new(&p->arena, bool, g->node_count + 1);
    bool *is_wanted = flxi_new(&p->arena, bool, g->value_count + 1); /* inside */
    if (!late || !is_wanted)
        return NULL;
    for (uint32_t k = 0; k < p->carries; k++)
        if (!p->is_sunk[k])
            is_wanted[g->outputs.at[k].val] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(g, i);
        if (p->part[i] != PART_LOOP || is_leaf(n))
            continue;
        late[i] = can_batch(p, n) && p->depends[n->first] != 0;
        for (uint32_t k = 0; k < n->nout; k++)
            late[i] &= !is_wanted[n->first + k];
        for (uint32_t k = 0; !late[i] && k < n->nin; k++)
            is_wanted[n->in[k]] = true;
    }
    return late;
}

static void put_after(flxi_hoist_plan *p, uint32_t node)
{
    const flxi_node *n = flxi_node_at(p->body, node);
    p->part[node] = PART_AFTER;
    for (uint32_t k = 0; k < n->nout; k++)
        p->is_stacked[n->first + k] = false;
    for (uint32_t k = 0; k < n->nin; k++)
        want_rows(p, n->in[k]);
}

/* Whatever reads a costly node that moves after the loop moves as well. */
static void put_readers_after(flxi_hoist_plan *p, uint32_t node)
{
    put_after(p, node);
    for (uint32_t i = node + 1; i < p->body->node_count; i++) {
        const flxi_node *n = flxi_node_at(p->body, i);
        for (uint32_t k = 0; p->part[i] == PART_LOOP && k < n->nin; k++)
            if (flxi_hoist_part_of(p, n->in[k]) == PART_AFTER)
                put_after(p, i);
    }
}

/* Whether only nodes after the loop read the node's results, and they need at least as many bytes of it as it reads. */
static bool follows(const flxi_hoist_plan *p, uint32_t node)
{
    const flxi_node *n = flxi_node_at(p->body, node);
    size_t made = 0, read = 0;
    for (uint32_t k = 0; k < n->nout; k++) {
        if (p->uses[n->first + k] && !p->is_stacked[n->first + k])
            return false;
        made += bytes_of(p, n->first + k);
    }
    for (uint32_t i = node + 1; i < p->body->node_count; i++) {
        const flxi_node *reader = flxi_node_at(p->body, i);
        for (uint32_t k = 0; p->part[i] == PART_LOOP && k < reader->nin; k++)
            if (reader->in[k] >= n->first && reader->in[k] < n->first + n->nout)
                return false;
    }
    for (uint32_t k = 0; k < n->nin; k++)
        if (flxi_hoist_part_of(p, n->in[k]) == PART_LOOP && !p->is_stacked[n->in[k]])
            read += bytes_of(p, n->in[k]);
    return read <= made;
}

static flx_code assign_after(flxi_hoist_plan *p, flx_error *err)
{
    const bool *late = find_late(p);
    if (!late)
        return flxi_oom(err, "hoisting");
    for (uint32_t i = 0; i < p->body->node_count; i++)
        if (late[i] && p->part[i] == PART_LOOP && is_costly(flxi_node_at(p->body, i)))
            put_readers_after(p, i);
    for (uint32_t i = p->body->node_count; i-- > 0;)
        if (late[i] && p->part[i] == PART_LOOP && follows(p, i))
            put_after(p, i);
    return FLX_OK;
}

/* ---- Sums over the steps ---- */

/* The other operand if the carry is only added to; 0: it is used in other ways. */
static uint32_t added_to(const flxi_hoist_plan *p, uint32_t carry)
{
    uint32_t before = p->body->leaves.at[carry], after = p->body->outputs.at[carry].val;
    const flxi_node *n = flxi_hoist_node(p, after);
    const flx_type *t = flxi_type_at(p->body, before);
    bool is_sum = t->dtype == FLX_F32 || t->dtype == FLX_F64 || t->dtype == FLX_C64 || t->dtype == FLX_C128;
    if (!is_sum || n->op != OP_add || p->uses[before] != 1 || p->uses[after] != 1 || !is_pure(p, n) ||
        (n->in[0] != before && n->in[1] != before))
        return 0;
    uint32_t term = n->in[n->in[0] == before];
    return flxi_type_equal(flxi_type_at(p->body, term), t) ? term : 0;
}

uint32_t flxi_hoist_term(const flxi_hoist_plan *p, uint32_t carry)
{
    return added_to(p, carry);
}

/* A product whose sum over the steps is a product over the steps: both sides change with the step. */
static bool is_summed_product(const flxi_hoist_plan *p, const flxi_node *n)
{
    if (n->op != OP_matmul && n->op != OP_dot_general)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const flx_type *t = flxi_type_at(p->body, n->in[k]);
        if (p->depends[n->in[k]] == 0 || t->rank == FLX_MAX_RANK || (n->op == OP_matmul && t->rank != 2))
            return false;
    }
    return true;
}

/* Its rows of all steps are kept anyway. */
static bool has_rows(const flxi_hoist_plan *p, uint32_t value)
{
    flxi_hoist_part part = flxi_hoist_part_of(p, value);
    return part == PART_BEFORE || part == PART_AFTER || p->is_stacked[value];
}

/* Whether the sum of a value over the steps can be computed after the loop: it consists of products or, in the second
   pass, of sums of what is kept anyway. */
static bool can_sum(const flxi_hoist_plan *p, uint32_t value, bool is_second, int depth)
{
    const flxi_node *n = flxi_hoist_node(p, value);
    if (p->depends[value] != 0 && is_second && has_rows(p, value))
        return true;
    if (p->uses[value] != 1 || !is_pure(p, n) || depth == 0)
        return false;
    if (n->op == OP_add)
        return flxi_type_equal(flxi_type_at(p->body, n->in[0]), flxi_type_at(p->body, n->in[1])) &&
               can_sum(p, n->in[0], is_second, depth - 1) && can_sum(p, n->in[1], is_second, depth - 1);
    if (n->op == OP_transpose || n->op == OP_reshape)
        return can_sum(p, n->in[0], is_second, depth - 1);
    if (n->op == OP_reduce_sum)
        return is_second && p->depends[n->in[0]] != 0 && has_rows(p, n->in[0]);
    return is_summed_product(p, n);
}

static void want_terms(flxi_hoist_plan *p, uint32_t value)
{
    const flxi_node *n = flxi_hoist_node(p, value);
    if (p->depends[value] != 0 && has_rows(p, value))
        return;
    set_part(p, value, PART_TERM);
    for (uint32_t k = 0; k < n->nin; k++) {
        if (n->op == OP_add || n->op == OP_transpose || n->op == OP_reshape)
            want_terms(p, n->in[k]);
        else
            want_rows(p, n->in[k]);
    }
}

static void sink_sums(flxi_hoist_plan *p, bool is_second)
{
    for (uint32_t k = 0; k < p->carries && !p->a->save_trajectory; k++) {
        uint32_t term = p->is_sunk[k] ? 0 : added_to(p, k);
        if (!term || !can_sum(p, term, is_second, MOST_DEPTH))
            continue;
        p->is_sunk[k] = true;
        set_part(p, p->body->outputs.at[k].val, PART_TERM);
        want_terms(p, term);
    }
}

/* ---- The whole plan ---- */

flx_code flxi_hoist_plan_make(flxi_hoist_plan *p, const flxi_allocator *mem, flx_error *err)
{
    const flx_graph *g = p->body;
    flxi_arena_init(&p->arena, mem);
    p->part = flxi_new(&p->arena, uint8_t, g->node_count + 1);
    p->depends = flxi_new(&p->arena, uint8_t, g->value_count + 1);
    p->uses = flxi_new(&p->arena, uint32_t, g->value_count + 1);
    p->is_sunk = flxi_new(&p->arena, bool, p->carries + 1);
    p->is_stacked = flxi_new(&p->arena, bool, g->value_count + 1);
    if (!p->part || !p->depends || !p->uses || !p->is_sunk || !p->is_stacked)
        return flxi_oom(err, "hoisting");
    find_dependences(p);
    assign_constants(p);
    if (p->only_once)
        return FLX_OK;
    sink_sums(p, false);
    FLXI_TRY(assign_before(p, err));
    FLXI_TRY(assign_after(p, err));
    for (uint32_t v = 1; v <= g->value_count; v++)
        p->is_stacked[v] &= flxi_hoist_part_of(p, v) == PART_LOOP;
    sink_sums(p, true);
    return FLX_OK;
}

void flxi_hoist_plan_free(flxi_hoist_plan *p)
{
    flxi_arena_free(&p->arena);
}

bool flxi_hoist_pays(const flxi_hoist_plan *p)
{
    for (uint32_t i = 0; i < p->body->node_count; i++)
        if (!is_leaf(flxi_node_at(p->body, i)) && p->part[i] != PART_LOOP && p->part[i] != PART_ANYWHERE)
            return true;
    return false;
}
