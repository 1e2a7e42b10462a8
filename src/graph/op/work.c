/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: see work.h. Control flow costs what its bodies cost; an op of a class without a rule of thumb costs what its
   decomposition costs, which is built in a graph of its own for that. */
#include "graph/op/work.h"

#include "graph/op/site.h"

#include <stdio.h>

/* ---- Counting ---- */

int64_t flxi_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t flxi_plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

int64_t flxi_work_count(const flx_type *t)
{
    return flxi_known_count(t);
}

int64_t flxi_work_extent(flx_dim d)
{
    return flxi_dim_is_number(d) && d > 0 && d != FLXI_ABSENT ? d : 0;
}

int64_t flxi_work_pairs(const flx_type *y, int64_t pairs)
{
    return flxi_times(pairs, flxi_in(FLXI_COMPLEX, y->dtype) ? 8 : 2);
}

static int64_t bytes_of(const flx_type *t)
{
    size_t nbytes = 0;
    return flxi_static_bytes(t, &nbytes) && nbytes <= INT64_MAX ? (int64_t)nbytes : 0;
}

static bool is_floating(const flx_graph *g, uint32_t id)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, flxi_type_at(g, id)->dtype);
}

void flxi_work_results(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    for (uint32_t k = 0; k < n->nout; k++)
        w->flops =
            flxi_plus(w->flops, is_floating(g, n->first + k) ? flxi_work_count(flxi_type_at(g, n->first + k)) : 0);
}

void flxi_work_picked(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    int64_t read = bytes_of(flxi_type_at(g, n->first));
    int64_t all = bytes_of(flxi_type_at(g, n->in[0]));
    w->bytes -= read < all ? all - read : 0;
}

/* ---- Bodies ---- */

/* Kept for a body, which cannot change: bodies may be used exponentially often. */
static int64_t graph_flops(const flx_graph *g)
{
    flx_graph *body = atomic_load(&g->sealed) ? (flx_graph *)(uintptr_t)g : NULL;
    int64_t flops = body ? (int64_t)atomic_load(&body->kept_flops) - 1 : -1;
    if (flops >= 0)
        return flops;
    flops = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        flops = flxi_plus(flops, flxi_node_work(g, i).flops);
    if (body)
        atomic_store(&body->kept_flops, (uint64_t)flops + 1);
    return flops;
}

/* All bodies, each as often as it runs, once where that depends on the data; of branches the most expensive one. */
static int64_t flops_of_bodies(const flx_graph *g, const flxi_node *n)
{
    flxi_body b;
    int64_t flops = 0, branch = 0;
    for (uint32_t i = 0; flxi_ops[n->op].rules->bodies(g, n, i, &b); i++) {
        int64_t one = b.role == BODY_RULE ? 0 : graph_flops(b.graph);
        if (b.role == BODY_BRANCH)
            branch = one > branch ? one : branch;
        else
            flops = flxi_plus(flops, flxi_times(one, b.runs == FLXI_ABSENT ? 1 : flxi_work_extent(b.runs)));
    }
    return flxi_plus(flops, branch);
}

/* ---- Decompositions ---- */

/* 0 where memory is short or the rule fails: a report goes without the number then. */
static int64_t flops_of_decomposition(const flx_graph *g, const flxi_node *n)
{
    flx_graph *meaning = flx_graph_new(g->ctx, "work");
    if (!meaning)
        return 0;
    const flxi_op *op = &flxi_ops[n->op];
    flx_val *vals = flxi_new(&meaning->arena, flx_val, n->nin + n->nout + 1);
    for (uint32_t i = 0; vals && i < n->nin; i++) {
        char name[24];
        snprintf(name, sizeof name, "x%u", i);
        vals[i] =
            (flx_val){flxi_add_leaf(meaning, flxi_leaf_op(false), name, flxi_type_at(g, n->in[i])), meaning->serial};
    }
    flxi_site s = {.g = meaning,
                   .ctx = g->ctx,
                   .op = op,
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
                   .x = vals,
                   .bodies = &flxi_bodies};
    if (vals && !meaning->error.code)
        op->rules->decompose(&s, vals + n->nin);
    int64_t flops = vals && !meaning->error.code ? graph_flops(meaning) : 0;
    flx_graph_release(meaning);
    return flops;
}

void flxi_work_decomposed(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    w->flops = flops_of_decomposition(g, n);
}

/* ---- All ---- */

/* Classes whose ops cost about the same for each element. */
typedef enum { NOT_BY_CLASS, PER_RESULT, PER_OPERAND, NONE } class_rule;

static const class_rule class_rules[] = {
    [CLASS_LEAF] = NONE,  [CLASS_POINTWISE] = PER_RESULT, [CLASS_REDUCE] = PER_OPERAND, [CLASS_AXIS] = PER_OPERAND,
    [CLASS_SHAPE] = NONE, [CLASS_INDEX] = NONE,           [CLASS_RANDOM] = PER_RESULT,  [CLASS_IDENTITY] = NONE,
};

bool flxi_has_work(const flxi_op *op)
{
    const flxi_rules *r = op->rules;
    return r->work || class_rules[op->op_class] != NOT_BY_CLASS || r->bodies || r->decompose;
}

static bool is_arithmetic(const flx_graph *g, const flxi_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        if (is_floating(g, n->in[i]))
            return true;
    return is_floating(g, n->first);
}

static int64_t flops_without_rule(const flx_graph *g, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    class_rule by_class = class_rules[op->op_class];
    if (by_class == PER_RESULT || by_class == PER_OPERAND)
        return flxi_work_count(flxi_type_at(g, by_class == PER_RESULT ? n->first : n->in[0]));
    if (by_class == NONE)
        return 0;
    if (op->rules->bodies)
        return flops_of_bodies(g, n);
    return op->rules->decompose ? flops_of_decomposition(g, n) : 0;
}

flxi_work flxi_node_work(const flx_graph *g, uint32_t node)
{
    const flxi_node *n = flxi_node_at(g, node);
    flxi_work w = {0};
    if (n->nin == 0 || n->nout == 0)
        return w;
    for (uint32_t i = 0; i < n->nin; i++)
        w.bytes = flxi_plus(w.bytes, bytes_of(flxi_type_at(g, n->in[i])));
    for (uint32_t k = 0; k < n->nout; k++)
        w.bytes = flxi_plus(w.bytes, bytes_of(flxi_type_at(g, n->first + k)));
    if (flxi_ops[n->op].rules->work)
        flxi_ops[n->op].rules->work(g, n, &w);
    else
        w.flops = flops_without_rule(g, n);
    if (flxi_ops[n->op].op_class != CLASS_CONTROL && !is_arithmetic(g, n))
        w.flops = 0;
    return w;
}
