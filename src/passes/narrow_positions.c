/* SPDX-License-Identifier: Apache-2.0 */
/* narrow_positions.c: comparisons of positions in 32 bits. Masks are made by comparing positions along axes, often as
   i64, and a kernel with 64-bit numbers in it takes half as many elements at a time. Where all numbers that lead to a
   comparison are known to be small, they are computed as i32: the result is the same. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "graph/op/site.h"
#include "ops/opcode.h"

/* Numbers between -most and most, in whatever order they are added; chains of at most that many nodes; what has fewer
   elements is not worth it. */
static const int64_t most = INT64_C(1) << 30;
enum { MOST_NODES = 24 };
static const int64_t least_elements = 1024;

typedef struct {
    int64_t lo, hi;
    int nodes; /* that lead to the value; 0: its range is not known */
} range;

typedef struct {
    flxi_copy c;
    range *ranges;   /* by value */
    uint32_t *small; /* by value: its i32 form in the new graph, or 0 */
} narrowing;

static bool is_comparison(flxi_opcode op)
{
    return op == OP_lt || op == OP_le || op == OP_gt || op == OP_ge || op == OP_eq || op == OP_ne;
}

static bool is_movement(flxi_opcode op)
{
    return op == OP_reshape || op == OP_transpose || op == OP_expand || op == OP_broadcast_in_dim || op == OP_squeeze ||
           op == OP_unsqueeze || op == OP_narrow || op == OP_slice;
}

static range range_of_number(const flx_tensor *t)
{
    int64_t x = flxi_load_int(t->type.dtype, t->data, 0);
    return (range){x, x, 1};
}

static range range_of_pair(const flxi_node *n, range a, range b)
{
    range r = {.nodes = a.nodes && b.nodes ? a.nodes + b.nodes + 1 : 0};
    if (n->op == OP_add) {
        r.lo = a.lo + b.lo;
        r.hi = a.hi + b.hi;
    } else if (n->op == OP_sub) {
        r.lo = a.lo - b.hi;
        r.hi = a.hi - b.lo;
    } else {
        r.lo = a.lo < b.lo ? a.lo : b.lo; /* max and min */
        r.hi = a.hi > b.hi ? a.hi : b.hi;
    }
    return r;
}

static range range_of(const narrowing *w, const flxi_node *n)
{
    const flx_graph *g = w->c.from;
    const flx_type *t = flxi_type_at(g, n->first);
    const range none = {0}, *r = w->ranges;
    if (n->nout != 1 || t->dtype != FLX_I64 || !flxi_type_is_static(t))
        return none;
    if (n->op == OP_iota)
        return (range){0, t->dims[flxi_node_int(n, "axis")], 1};
    if (n->op == OP_full)
        return range_of_number(flxi_node_tensor(n, "value"));
    if (flxi_is_const(n))
        return t->rank == 0 ? range_of_number(flxi_const_data(n)) : none;
    if (is_movement(n->op) && r[n->in[0]].nodes)
        return (range){r[n->in[0]].lo, r[n->in[0]].hi, r[n->in[0]].nodes + 1};
    bool is_pair = n->op == OP_add || n->op == OP_sub || n->op == OP_max || n->op == OP_min;
    return is_pair ? range_of_pair(n, r[n->in[0]], r[n->in[1]]) : none;
}

static range bounded(range r)
{
    bool is_small = r.nodes <= MOST_NODES && r.lo >= -most && r.hi <= most;
    return is_small ? r : (range){0};
}

static bool is_known(const narrowing *w, uint32_t value)
{
    return w->ranges[value].nodes != 0;
}

/* A comparison all of whose operands are known, with many elements. */
static bool is_narrowed(const narrowing *w, const flxi_node *n)
{
    int64_t count = 0;
    return is_comparison(n->op) && is_known(w, n->in[0]) && is_known(w, n->in[1]) &&
           flxi_static_count(flxi_type_at(w->c.from, n->first), &count) && count >= least_elements;
}

static uint32_t small_number(flx_graph *g, const flx_type *t, const flx_tensor *value)
{
    flxi_site site = flxi_plain_site(g);
    return flxi_full(&site, t, (double)flxi_load_int(value->type.dtype, value->data, 0)).id;
}

/* The value as i32; the number of nodes on the way is bounded. */
static uint32_t small_form(narrowing *w, uint32_t value)
{
    flx_graph *g = w->c.to;
    const flxi_node *n = flxi_node_of(w->c.from, value);
    flx_type t = *flxi_type_at(w->c.from, value);
    uint32_t in[2] = {0}, *made = &w->small[value];
    void *attrs = NULL;
    if (*made)
        return *made;
    t.dtype = FLX_I32;
    if (n->op == OP_iota)
        return *made = flx_iota(g, &t, flxi_node_int(n, "axis")).id;
    if (n->nin == 0)
        return *made = small_number(g, &t, n->op == OP_full ? flxi_node_tensor(n, "value") : flxi_const_data(n));
    for (uint32_t k = 0; k < n->nin && k < 2; k++)
        if (!(in[k] = small_form(w, n->in[k])))
            return 0;
    const flxi_attr_map same = {0};
    flx_error err = {0};
    if (flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, &same, &attrs, &err) != FLX_OK) {
        flxi_graph_fail(g, &err);
        return 0;
    }
    return *made = flxi_add_node(g, n->op, in, n->nin, attrs);
}

static flx_code visit(narrowing *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->c.from, i);
    if (n->nout)
        w->ranges[n->first] = bounded(range_of(w, n));
    if (!is_narrowed(w, n))
        return flxi_copy_node(&w->c, i);
    uint32_t in[2] = {small_form(w, n->in[0]), small_form(w, n->in[1])};
    uint32_t id = in[0] && in[1] ? flxi_add_node(w->c.to, n->op, in, 2, NULL) : 0;
    FLXI_TRY(flxi_built(w->c.to, w->c.err));
    if (!id)
        return flxi_oom(w->c.err, "a pass");
    flxi_copy_replace(&w->c, n->first, id);
    return FLX_OK;
}

flx_code flxi_pass_narrow_positions(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    narrowing w = {0};
    const flxi_allocator *mem = &in->ctx->mem;
    size_t n = (size_t)in->value_count + 1;
    flx_code code = flxi_copy_begin(&w.c, in, err);
    w.ranges = flxi_alloc(mem, n, sizeof *w.ranges);
    w.small = flxi_alloc(mem, n, sizeof *w.small);
    if (code == FLX_OK && (!w.ranges || !w.small))
        code = flxi_oom(err, "a pass");
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = visit(&w, i);
    if (w.ranges)
        flxi_free(mem, w.ranges, n, sizeof *w.ranges);
    if (w.small)
        flxi_free(mem, w.small, n, sizeof *w.small);
    return flxi_copy_end(&w.c, code, out, remap);
}
