/* SPDX-License-Identifier: Apache-2.0 */
/* split_components.c: vectors of few components, computed component by component where many of them are reduced, or
   taken apart.

   A sum of forces over all particles reads values such as f32[1024, 1024, 3] and leaves f32[1024, 3]. Neighbours in
   memory are components of one vector, which belong to different sums: lanes that walk along a sum would gather with a
   stride, and the kernel that makes the vectors cannot also sum them. So each component is made a value of its own, by
   the pointwise ops and views that make the vectors, and reduced for itself: the sums of all components share one loop,
   and the vectors are never in memory. What is not made by such ops is read component by component.

   Sums of the components of each vector, such as lengths, and slices of components, as in cross products, are made of
   components too, unless something else reads the vectors: these would be computed twice. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "graph/op/origin.h"
#include "ops/express/express.h"
#include "ops/opcode.h"

#include <fluxion/ops.h>

/* The most components of a vector. */
enum { MOST = 4, NO_AXIS = -1 };

/* Sums of fewer terms, and values of fewer elements, are not worth it. */
static const int64_t least_terms = 16, least_elements = 4096;

typedef struct {
    flxi_copy c;
    flxi_arena arena;
    int8_t *axis;                 /* by value: the axis of its components if these are needed, or NO_AXIS */
    int8_t *wished;               /* likewise, if these are all that is read of it */
    uint32_t *reads, *part_reads; /* by value: all, and those of components along the axis that is wished for */
    uint32_t *parts;              /* by value, MOST each: its components in the new graph */
} splitting;

static const flx_type *type_of(const splitting *s, uint32_t value)
{
    return flxi_type_at(s->c.from, value);
}

/* ---- Where components are ---- */

static bool is_pointwise(const flxi_node *n)
{
    return flxi_ops[n->op].op_class == CLASS_POINTWISE && flxi_ops[n->op].rules->element && n->nout == 1 &&
           !flxi_has_effect(n) && !(flxi_ops[n->op].traits & TRAIT_OPAQUE);
}

static bool is_view(const flxi_node *n)
{
    return n->op == OP_unsqueeze || n->op == OP_squeeze || n->op == OP_reshape || n->op == OP_expand ||
           n->op == OP_broadcast_in_dim;
}

/* Whether the node puts components together, one from each operand. */
static bool joins_parts(const splitting *s, const flxi_node *n, int axis)
{
    if ((n->op != OP_concat && n->op != OP_stack) || flxi_node_int(n, "axis") != axis)
        return false;
    return n->nin == type_of(s, n->first)->dims[axis];
}

/* The axis of operand k that becomes the axis of the result; NO_AXIS: there is none, or it is stretched. */
static int axis_before(const splitting *s, const flxi_node *n, uint32_t k, int axis)
{
    const flx_type *x = type_of(s, n->in[k]), *y = type_of(s, n->first);
    int found = NO_AXIS;
    if (flxi_ops[n->op].op_class == CLASS_POINTWISE || n->op == OP_expand) {
        found = axis - (y->rank - x->rank);
    } else if (n->op == OP_broadcast_in_dim) {
        const flx_ints *to = flxi_node_ints(n, "axes");
        for (size_t i = 0; i < to->n; i++)
            found = to->v[i] == axis ? (int)i : found;
    } else if (is_view(n)) { /* an axis with as many elements before it and after it */
        int64_t before = flxi_static_extent(y, 0, axis), extent = y->dims[axis];
        for (int i = 0; i < x->rank && found < 0; i++)
            if (x->dims[i] == extent && flxi_static_extent(x, 0, i) == before)
                found = i;
    }
    return found >= 0 && x->dims[found] == y->dims[axis] ? found : NO_AXIS;
}

/* Whether components of the result along the axis are made from components of the operands. */
static bool can_split(const splitting *s, const flxi_node *n, int axis)
{
    if (is_view(n))
        return n->op == OP_broadcast_in_dim || n->op == OP_expand || axis_before(s, n, 0, axis) != NO_AXIS;
    return is_pointwise(n) || joins_parts(s, n, axis);
}

static bool is_split(const splitting *s, const flxi_node *n)
{
    return n->nout == 1 && s->axis[n->first] != NO_AXIS && can_split(s, n, s->axis[n->first]);
}

/* ---- What reads components ---- */

/* The last axis of a node's operand, where that is many vectors of real numbers that a pointwise op makes. */
static int axis_of_vectors(const splitting *s, const flxi_node *n)
{
    int64_t count;
    if (n->nin != 1 || n->nout != 1)
        return NO_AXIS;
    const flx_type *x = type_of(s, n->in[0]);
    int last = x->rank - 1;
    if ((x->dtype != FLX_F32 && x->dtype != FLX_F64) || last < 1 || !flxi_static_count(x, &count) ||
        count < least_elements || x->dims[last] < 2 || x->dims[last] > MOST)
        return NO_AXIS;
    const flxi_node *maker = flxi_node_of(s->c.from, n->in[0]);
    return is_pointwise(maker) || joins_parts(s, maker, last) ? last : NO_AXIS;
}

static bool is_fold(const flxi_node *n)
{
    const flxi_kfold *f = flxi_ops[n->op].rules->fold;
    return f && !f->value_op;
}

/* The axis of the components of vectors of which many are reduced. */
static int reduced_vectors(const splitting *s, const flxi_node *n)
{
    int last = is_fold(n) ? axis_of_vectors(s, n) : NO_AXIS;
    int64_t terms = 1;
    if (last == NO_AXIS)
        return NO_AXIS;
    const flx_ints axes = flxi_ops[n->op].rules->fold->axes(n->attrs);
    for (size_t k = 0; k < axes.n; k++) {
        if (axes.v[k] == last)
            return NO_AXIS;
        terms *= type_of(s, n->in[0])->dims[axes.v[k]];
    }
    return terms >= least_terms ? last : NO_AXIS;
}

static bool adds_parts(const flxi_node *n, int last)
{
    if (n->op != OP_reduce_sum)
        return false;
    const flx_ints axes = flxi_ops[n->op].rules->fold->axes(n->attrs);
    return axes.n == 1 && axes.v[0] == last;
}

/* Whether a node takes some components of each vector, which are neighbours. */
static bool takes_parts(const splitting *s, const flxi_node *n, int last)
{
    if (n->op == OP_narrow)
        return flxi_node_int(n, "axis") == last;
    if (n->op != OP_slice || flxi_node_ints(n, "stride")->v[last] != 1)
        return false;
    for (int k = 0; k < last; k++)
        if (type_of(s, n->in[0])->dims[k] != type_of(s, n->first)->dims[k])
            return false;
    return true;
}

static int64_t first_taken(const flxi_node *n, int last)
{
    return n->op == OP_narrow ? flxi_node_int(n, "start") : flxi_node_ints(n, "start")->v[last];
}

/* The axis of the components that a node adds or takes. */
static int read_parts(const splitting *s, const flxi_node *n)
{
    int last = axis_of_vectors(s, n);
    return last != NO_AXIS && (adds_parts(n, last) || takes_parts(s, n, last)) ? last : NO_AXIS;
}

/* ---- What is needed ---- */

static void count_reads(splitting *s)
{
    const flx_graph *g = s->c.from;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < flxi_node_at(g, i)->nin; k++)
            s->reads[flxi_node_at(g, i)->in[k]]++;
    for (size_t k = 0; k < g->outputs.n; k++)
        s->reads[g->outputs.at[k].val]++;
}

/* A value of which components along different axes are needed keeps the first; others are read from the whole. */
static void need(splitting *s, uint32_t value, int axis)
{
    if (axis != NO_AXIS && s->axis[value] == NO_AXIS && flxi_type_is_static(type_of(s, value)))
        s->axis[value] = (int8_t)axis;
}

static void wish(splitting *s, uint32_t value, int axis)
{
    if (axis == NO_AXIS || (s->wished[value] != NO_AXIS && s->wished[value] != axis))
        return;
    s->wished[value] = (int8_t)axis;
    s->part_reads[value]++;
}

/* Whether nothing but its components is read of the value. */
static bool is_granted(const splitting *s, uint32_t value)
{
    return s->wished[value] != NO_AXIS && s->part_reads[value] == s->reads[value] &&
           !flxi_value_at(s->c.from, value)->pinned && flxi_type_is_static(type_of(s, value));
}

/* From the last node to the first, so that all readers of a value come before what makes it. */
static void find_needed(splitting *s)
{
    count_reads(s);
    for (uint32_t i = s->c.from->node_count; i-- > 0;) {
        const flxi_node *n = flxi_node_at(s->c.from, i);
        int axis = reduced_vectors(s, n), parts = read_parts(s, n);
        if (axis != NO_AXIS)
            need(s, n->in[0], axis);
        if (parts != NO_AXIS)
            wish(s, n->in[0], parts);
        bool is_needed = n->nout == 1 && s->axis[n->first] != NO_AXIS;
        if (n->nout == 1 && !is_needed && is_granted(s, n->first))
            s->axis[n->first] = s->wished[n->first];
        for (uint32_t k = 0; is_split(s, n) && k < n->nin; k++)
            (is_needed ? need : wish)(s, n->in[k], axis_before(s, n, k, s->axis[n->first]));
    }
}

/* ---- Components ---- */

static uint32_t *parts_of(const splitting *s, uint32_t value)
{
    return &s->parts[(size_t)value * MOST];
}

/* Component i of a value along an axis, which has one element then. */
static flx_val part_of(splitting *s, uint32_t value, int axis, int64_t i)
{
    flx_val whole = {s->c.remap.id[value], s->c.to->serial};
    if (s->axis[value] == axis && parts_of(s, value)[i])
        return (flx_val){parts_of(s, value)[i], s->c.to->serial};
    return flx_narrow(s->c.to, whole, axis, i, 1);
}

/* Component i of operand k of node n, or all of it where it has none. */
static flx_val operand_part(splitting *s, const flxi_node *n, uint32_t k, int axis, int64_t i)
{
    int before = axis_before(s, n, k, axis);
    return before == NO_AXIS ? (flx_val){s->c.remap.id[n->in[k]], s->c.to->serial} : part_of(s, n->in[k], before, i);
}

static flx_val split_view(splitting *s, const flxi_node *n, flx_val x, int axis)
{
    flx_type y = *type_of(s, n->first);
    y.dims[axis] = 1;
    flx_ints shape = {y.dims, (size_t)y.rank};
    if (n->op == OP_broadcast_in_dim)
        return flx_broadcast_in_dim(s->c.to, x, shape, *flxi_node_ints(n, "axes"));
    if (n->op == OP_expand)
        return flx_expand(s->c.to, x, shape);
    return flx_reshape(s->c.to, x, shape);
}

/* Pointwise op n for component i: its operands have one element along the axis. */
static uint32_t split_pointwise(splitting *s, const flxi_node *n, int axis, int64_t i)
{
    flx_graph *g = s->c.to;
    uint32_t *in = flxi_new(&g->arena, uint32_t, n->nin + 1);
    void *attrs;
    if (!in || flxi_attrs_clone(g, &flxi_ops[n->op], n->attrs, &s->c.attrs, &attrs, s->c.err) != FLX_OK)
        return 0;
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = operand_part(s, n, k, axis, i).id;
    uint32_t made = flxi_add_node(g, n->op, in, n->nin, attrs);
    if (made)
        flxi_copy_origin(g, n);
    return made;
}

static uint32_t split_node(splitting *s, const flxi_node *n, int axis, int64_t i)
{
    flx_graph *g = s->c.to;
    if (is_view(n))
        return split_view(s, n, operand_part(s, n, 0, axis, i), axis).id;
    if (!joins_parts(s, n, axis))
        return split_pointwise(s, n, axis, i);
    flx_type one = *type_of(s, n->first);
    one.dims[axis] = 1;
    flx_val x = {s->c.remap.id[n->in[i]], g->serial};
    return flx_reshape(g, x, (flx_ints){one.dims, (size_t)one.rank}).id;
}

static flx_code split_value(splitting *s, const flxi_node *n)
{
    int axis = s->axis[n->first];
    for (int64_t i = 0; i < type_of(s, n->first)->dims[axis]; i++)
        parts_of(s, n->first)[i] = split_node(s, n, axis, i);
    return flx_graph_error(s->c.to, s->c.err);
}

/* ---- Reductions ---- */

/* Component i, the last axis of a reduction's operand, without that axis: reduced. */
static flx_val reduce_part(splitting *s, const flxi_node *n, int axis, int64_t i)
{
    const flx_type *x = type_of(s, n->in[0]);
    flx_val part = part_of(s, n->in[0], axis, i);
    uint32_t in = flx_reshape(s->c.to, part, (flx_ints){x->dims, (size_t)axis}).id;
    void *attrs;
    if (flxi_attrs_clone(s->c.to, &flxi_ops[n->op], n->attrs, &s->c.attrs, &attrs, s->c.err) != FLX_OK)
        return FLX_NONE;
    flx_val y = {flxi_add_node(s->c.to, n->op, &in, 1, attrs), s->c.to->serial};
    if (y.id)
        flxi_copy_origin(s->c.to, n);
    return y;
}

/* Of many vectors: each component, put together afterwards. */
static flx_code reduce_parts(splitting *s, const flxi_node *n, int axis)
{
    flx_val part[MOST];
    int64_t count = type_of(s, n->in[0])->dims[axis];
    for (int64_t i = 0; i < count; i++)
        part[i] = reduce_part(s, n, axis, i);
    flx_val y = flx_stack(s->c.to, part, (size_t)count, type_of(s, n->first)->rank - 1);
    FLXI_TRY(flx_graph_error(s->c.to, s->c.err));
    flxi_copy_replace(&s->c, n->first, y.id);
    return FLX_OK;
}

/* Of each vector: the sum of its components, or those that are taken. */
static flx_code use_parts(splitting *s, const flxi_node *n, int axis)
{
    flx_graph *g = s->c.to;
    const flx_type *t = type_of(s, n->first);
    bool adds = adds_parts(n, axis);
    int64_t first = adds ? 0 : first_taken(n, axis), count = adds ? type_of(s, n->in[0])->dims[axis] : t->dims[axis];
    flx_val part[MOST], y = FLX_NONE;
    for (int64_t i = 0; i < count; i++) {
        part[i] = part_of(s, n->in[0], axis, first + i);
        y = i == 0 ? part[0] : adds ? flx_add(g, y, part[i]) : FLX_NONE;
    }
    if (adds)
        y = flx_reshape(g, y, (flx_ints){t->dims, (size_t)t->rank});
    else if (count > 1)
        y = flx_concat(g, part, (size_t)count, axis);
    FLXI_TRY(flx_graph_error(g, s->c.err));
    flxi_copy_replace(&s->c, n->first, y.id);
    return FLX_OK;
}

/* ---- The pass ---- */

static flx_code visit(splitting *s, uint32_t i)
{
    const flxi_node *n = flxi_node_at(s->c.from, i);
    int axis = reduced_vectors(s, n), parts = read_parts(s, n);
    if (axis != NO_AXIS)
        return reduce_parts(s, n, axis);
    if (parts != NO_AXIS && s->axis[n->in[0]] == parts)
        return use_parts(s, n, parts);
    FLXI_TRY(flxi_copy_node(&s->c, i));
    return is_split(s, n) ? split_value(s, n) : FLX_OK;
}

static flx_code split(splitting *s)
{
    size_t n = (size_t)s->c.from->value_count + 1;
    s->axis = flxi_new(&s->arena, int8_t, n);
    s->wished = flxi_new(&s->arena, int8_t, n);
    s->reads = flxi_new(&s->arena, uint32_t, n);
    s->part_reads = flxi_new(&s->arena, uint32_t, n);
    s->parts = flxi_new(&s->arena, uint32_t, n * MOST);
    if (!s->axis || !s->wished || !s->reads || !s->part_reads || !s->parts)
        return flxi_oom(s->c.err, "a pass");
    memset(s->axis, NO_AXIS, n);
    memset(s->wished, NO_AXIS, n);
    find_needed(s);
    for (uint32_t i = 0; i < s->c.from->node_count; i++)
        FLXI_TRY(visit(s, i));
    return FLX_OK;
}

flx_code flxi_pass_split_components(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    splitting s = {0};
    flxi_arena_init(&s.arena, &in->ctx->mem);
    flx_code code = flxi_copy_begin(&s.c, in, err);
    if (code == FLX_OK)
        code = split(&s);
    flxi_arena_free(&s.arena);
    return flxi_copy_end(&s.c, code, out, remap);
}
