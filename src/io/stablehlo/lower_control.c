/* lower_control.c: loops and branches, and operations that talk to other processes, of which there are none here.

   Bodies of our loops and branches see their operands only, so what regions use from outside is handed to them: to branches
   as operands, to loops as carries that stay as they are. */
#include "io/stablehlo/lower.h"

#include "ir/eval.h"
#include "ir/opcode.h"
#include "ir/site.h"

#include <string.h>

/* The operands from `first` on, then the captures. */
static flx_val *with_captures(hlo_site *s, size_t first, const hlo_captures *c)
{
    size_t own = s->nx - first;
    flx_val *x = flxi_hlo_new(s, flx_val, own + c->num_vals);
    if (x) {
        memcpy(x, s->x + first, own * sizeof *x);
        if (c->num_vals)
            memcpy(x + own, c->vals, c->num_vals * sizeof *x);
    }
    return x;
}

static bool gives(hlo_site *s, size_t got)
{
    if (got == s->ny)
        return true;
    flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region gives %zu values, but %zu are named", got, s->ny);
    return false;
}

/* ---- Branches ---- */

static void inline_branch(hlo_site *s, const hlo_region *r)
{
    size_t n = flxi_hlo_inline_region(s, r, NULL, 0, s->y, s->ny);
    if (!flxi_hlo_failed(s))
        gives(s, n);
}

/* The branch that a known operand 0 takes, NULL where only a run knows. */
static const hlo_region *known_branch(hlo_site *s, bool is_index)
{
    flx_tensor *t = flxi_hlo_known(s, s->x[0]);
    if (!t || flx_tensor_count(t) != 1) {
        flx_tensor_release(t);
        return NULL;
    }
    int64_t i = flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_bytes(t), 0);
    size_t n = s->op->num_regions;
    flx_tensor_release(t);
    if (!is_index)
        return &s->op->regions[i == 0];
    return &s->op->regions[i >= 0 && (uint64_t)i < n ? (size_t)i : n - 1];
}

static void branch(hlo_site *s, bool is_index)
{
    const hlo_op *op = s->op;
    hlo_captures captures;
    const hlo_region *taken = known_branch(s, is_index);
    if (taken || s->ny == 0) {
        if (taken)
            inline_branch(s, taken);
        else
            flxi_hlo_unsupported(s, "branches without results");
        return;
    }
    const flx_graph **bodies = flxi_hlo_new(s, const flx_graph *, op->num_regions);
    if (!bodies || !flxi_hlo_captures(s, op->regions, op->num_regions, &captures))
        return;
    for (size_t i = 0; i < op->num_regions; i++) {
        bodies[i] = flxi_hlo_body(s, &op->regions[i], NULL, &captures);
        if (!bodies[i] || !gives(s, bodies[i]->outputs.n))
            return;
    }
    flx_val *x = with_captures(s, 0, &captures);
    if (!x)
        return;
    if (is_index)
        flx_case(s->g, x, 1 + captures.num_vals, (flx_graphs){bodies, op->num_regions}, s->y, s->ny);
    else
        flx_if(s->g, x, 1 + captures.num_vals, bodies[0], bodies[1], s->y, s->ny);
}

static void lower_if(hlo_site *s)
{
    branch(s, false);
}

static void lower_case(hlo_site *s)
{
    if (s->op->num_regions == 0)
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has no branches");
    else
        branch(s, true);
}

/* ---- Loops that count ---- */

typedef struct {
    hlo_site *s;
    const flx_graph *cond, *body;
    const flx_val *carries; /* at the start */
} loop;

static const flxi_node *node_of(const flx_graph *g, uint32_t id)
{
    return flxi_node_at(g, flxi_value_at(g, id)->node);
}

/* Position of a leaf; the number of leaves for other values. */
static size_t leaf_at(const flx_graph *g, uint32_t id)
{
    size_t i = 0;
    while (i < g->leaves.n && g->leaves.at[i] != id)
        i++;
    return i;
}

/* flxi_hlo_known for a value of a body. */
static flx_tensor *known_in(hlo_site *s, const flx_graph *g, uint32_t id)
{
    hlo_site inner = *s;
    inner.g = (flx_graph *)(uintptr_t)g; /* it is only read */
    return flxi_hlo_known(&inner, (flx_val){id, g->serial});
}

/* A value of a body that is the same number in each round: a constant, or a carry that stays as it is. */
static bool fixed_number(const loop *l, const flx_graph *g, uint32_t id, int64_t *out)
{
    size_t leaf = leaf_at(g, id);
    bool is_carry = leaf < g->leaves.n;
    if (is_carry && l->body->outputs.at[leaf].val != l->body->leaves.at[leaf])
        return false;
    flx_tensor *t = is_carry ? flxi_hlo_known(l->s, l->carries[leaf]) : known_in(l->s, g, id);
    bool ok = t && flx_tensor_count(t) == 1 && flxi_is_int(flx_tensor_type(t)->dtype);
    if (ok)
        *out = flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_bytes(t), 0);
    flx_tensor_release(t);
    return ok;
}

/* The carry grows by the same number in each round. */
static bool step_of(const loop *l, size_t carry, int64_t *step)
{
    uint32_t leaf = l->body->leaves.at[carry];
    const flxi_node *n = node_of(l->body, l->body->outputs.at[carry].val);
    if (n->op != OP_add)
        return false;
    for (size_t i = 0; i < 2; i++)
        if (n->in[i] == leaf)
            return fixed_number(l, l->body, n->in[1 - i], step);
    return false;
}

/* How often the loop runs, where its condition compares a counter that starts at a known number and grows by a fixed step with
   a fixed limit; FLX_DEFAULT for other loops. With a bound a loop can be differentiated in reverse. */
static int64_t rounds_of(const loop *l)
{
    enum { FAR = 1 << 30 }; /* differences below cannot overflow */
    const flxi_node *n = node_of(l->cond, l->cond->outputs.at[0].val);
    if (n->op != OP_lt && n->op != OP_le)
        return FLX_DEFAULT;
    size_t counter = leaf_at(l->cond, n->in[0]);
    int64_t start;
    int64_t step;
    int64_t limit;
    if (counter == l->cond->leaves.n || !step_of(l, counter, &step) || !fixed_number(l, l->cond, n->in[1], &limit))
        return FLX_DEFAULT;
    flx_tensor *t = flxi_hlo_known(l->s, l->carries[counter]);
    if (!t)
        return FLX_DEFAULT;
    start = flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_bytes(t), 0);
    flx_tensor_release(t);
    limit += n->op == OP_le;
    if (step <= 0 || step > FAR || start < -FAR || start > FAR || limit < -FAR || limit > FAR)
        return FLX_DEFAULT;
    return limit > start ? (limit - start + step - 1) / step : 0;
}

/* ---- while ---- */

static void lower_while(hlo_site *s)
{
    hlo_captures captures;
    if (!flxi_hlo_captures(s, s->op->regions, 2, &captures))
        return;
    captures.are_carried = true;
    size_t n = s->nx + captures.num_vals;
    const flx_type **types = flxi_hlo_new(s, const flx_type *, s->nx);
    flx_val *x = with_captures(s, 0, &captures);
    flx_val *y = flxi_hlo_new(s, flx_val, n);
    if (!types || !x || !y)
        return;
    for (size_t i = 0; i < s->nx; i++)
        types[i] = flxi_hlo_typeof(s, s->x[i]);
    loop l = {.s = s, .carries = x};
    l.body = flxi_hlo_body(s, &s->op->regions[1], types, &captures);
    captures.are_carried = false;
    l.cond = l.body ? flxi_hlo_body(s, &s->op->regions[0], types, &captures) : NULL;
    if (!l.cond || !gives(s, l.body->outputs.n - captures.num_vals))
        return;
    if (s->ny != s->nx || l.cond->outputs.n != 1) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu carries and %zu results, and its condition gives %zu values",
                      s->nx, s->ny, l.cond->outputs.n);
        return;
    }
    flx_while(s->g, x, n, l.cond, l.body, rounds_of(&l), y, n);
    memcpy(s->y, y, s->ny * sizeof *y);
}

/* ---- One process ---- */

/* Groups of one: [[0]], or none. */
static bool is_alone(hlo_site *s, const char *name)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, name);
    flx_ints groups = flxi_hlo_ints(s, name);
    bool alone = true;
    for (size_t i = 0; i < groups.n; i++)
        alone = alone && groups.v[i] <= 0; /* −1 fills up shorter groups */
    if (a && (!alone || groups.n > 1))
        flxi_hlo_unsupported(s, "more than one process");
    return !flxi_hlo_failed(s);
}

/* What a single process gets from a collective operation: its own values, in the element types of the results. */
static void pass_on(hlo_site *s)
{
    if (s->ny != s->nx) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it gives %zu values for %zu", s->ny, s->nx);
        return;
    }
    for (size_t i = 0; i < s->nx; i++) {
        const hlo_type *t = i < s->op->num_results ? flxi_hlo_result_type(s, i) : NULL;
        bool is_same = !t || t->kind != HLO_TENSOR || flxi_hlo_carrier(t) == flxi_hlo_dtype(s, s->x[i]);
        s->y[i] = is_same ? s->x[i] : flx_cast(s->g, s->x[i], flxi_hlo_carrier(t));
    }
}

static void lower_collective(hlo_site *s)
{
    if (is_alone(s, "replica_groups"))
        pass_on(s);
}

/* Without a pair that ends here the result is zero. */
static void lower_permute(hlo_site *s)
{
    flx_ints pairs = flxi_hlo_ints(s, "source_target_pairs");
    for (size_t i = 0; i < pairs.n; i++)
        if (pairs.v[i] != 0)
            flxi_hlo_unsupported(s, "more than one process");
    if (flxi_hlo_failed(s))
        return;
    pass_on(s);
    for (size_t i = 0; i < s->ny && pairs.n == 0; i++)
        s->y[i] = flxi_hlo_fill(s, flxi_hlo_number(s, s->x[i], 0), flxi_hlo_typeof(s, s->x[i]));
}

static void lower_own_number(hlo_site *s)
{
    s->y[0] = flx_scalar(s->g, FLX_U32, 0);
}

/* What is started runs at once; the future stands for its results. */
static void lower_async_start(hlo_site *s)
{
    size_t n = flxi_hlo_inline_region(s, &s->op->regions[0], s->x, s->nx, s->y, s->ny);
    if (!flxi_hlo_failed(s))
        gives(s, n);
}

static void lower_nothing_else(hlo_site *s)
{
    flxi_hlo_unsupported(s, "there is no other process or host to talk to");
}

#define ANY (HLO_MOVES | HLO_TAKES_ANY)

const hlo_rule flxi_hlo_control_rules[] = {
    {"stablehlo.if", 1, 2, ANY, lower_if, NULL, NULL},
    {"stablehlo.case", 1, HLO_MANY, ANY, lower_case, NULL, NULL},
    {"stablehlo.while", HLO_MANY, 2, ANY, lower_while, NULL, NULL},
    {"stablehlo.all_reduce", HLO_MANY, 1, ANY, lower_collective, NULL, NULL},
    {"stablehlo.reduce_scatter", HLO_MANY, 1, ANY, lower_collective, NULL, NULL},
    {"stablehlo.all_gather", HLO_MANY, 0, ANY, lower_collective, NULL, NULL},
    {"stablehlo.all_to_all", HLO_MANY, 0, ANY, lower_collective, NULL, NULL},
    {"stablehlo.collective_broadcast", HLO_MANY, 0, ANY, lower_collective, NULL, NULL},
    {"stablehlo.cross-replica-sum", HLO_MANY, 0, ANY, lower_collective, NULL, NULL},
    {"stablehlo.collective_permute", HLO_MANY, 0, ANY, lower_permute, NULL, NULL},
    {"stablehlo.partition_id", 0, 0, ANY, lower_own_number, NULL, NULL},
    {"stablehlo.replica_id", 0, 0, ANY, lower_own_number, NULL, NULL},
    {"stablehlo.async_start", HLO_MANY, 1, ANY, lower_async_start, NULL, NULL},
    {"stablehlo.async_done", HLO_MANY, 0, ANY, pass_on, NULL, NULL},
    {"stablehlo.send", HLO_MANY, 0, ANY, lower_nothing_else, NULL, NULL},
    {"stablehlo.recv", HLO_MANY, 0, ANY, lower_nothing_else, NULL, NULL},
    {"stablehlo.infeed", HLO_MANY, 0, ANY, lower_nothing_else, NULL, NULL},
    {"stablehlo.outfeed", HLO_MANY, 0, ANY, lower_nothing_else, NULL, NULL},
    {0},
};
