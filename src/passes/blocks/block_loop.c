/* SPDX-License-Identifier: Apache-2.0 */
/* block_loop.c: a set of nodes as a scan over blocks of its rows. The body has the nodes of the set with fewer rows.
   Operands that are cut are its sequences, the others are shared; sums over the rows are carries to which each block
   adds its part, other results are stacked. Rows that are left over are computed after the loop by the same nodes.

   A set that is divided into parts of rows and columns has a body for each of them, all of which become part of the
   graph itself: they have different extents. */
#include "passes/blocks/block_rows.h"

#include "graph/op/attr_access.h"
#include "graph/op/site.h"
#include "ops/opcode.h"

#include <stdio.h>

/* An operand of the set. */
typedef struct {
    uint32_t value;
    int axis;      /* that is cut; -1: none */
    int column;    /* the axis of columns, where there are parts; -1: none */
    bool is_count; /* the positions along the axis of an iota, which `value` is */
    uint32_t id;   /* in the body */
} leaf;

/* A value that is needed outside, and its axes as those of a leaf. */
typedef struct {
    uint32_t value;
    int axis, column;
} result;

typedef struct {
    flxi_block_part part;
    flx_graph *body;
} part_body;

struct flxi_block_loop {
    const flx_graph *g;
    const flxi_allocator *mem;
    FLXI_VEC(leaf) leaves; /* shared ones first */
    uint32_t num_shared;
    FLXI_VEC(result) sums;   /* in the order of carries */
    FLXI_VEC(result) stacks; /* in the order of other results */
    int64_t extent, rows, columns;
    FLXI_VEC(part_body) parts;
    flx_graph *body, *last; /* without parts. last: for the rows that are left over, or NULL */
};

/* ---- Operands ---- */

static bool is_inside(const flxi_block_set *s, uint32_t value)
{
    return s->position[flxi_value_at(s->g, value)->node] != 0;
}

static int column_of(const flxi_block_set *s, uint32_t value)
{
    return s->num_parts ? s->column[value] : -1;
}

/* Whether the node counts along an axis that is cut; the axis is that of *x, which is the leaf that replaces it. */
static bool counts(const flxi_block_set *s, const flxi_node *n, leaf *x)
{
    int axis = n->op == OP_iota ? (int)flxi_node_int(n, "axis") : -1;
    *x = (leaf){.value = n->first, .axis = -1, .column = -1, .is_count = true};
    if (axis >= 0 && axis == s->axis[n->first])
        x->axis = axis;
    else if (axis >= 0 && axis == column_of(s, n->first))
        x->column = axis;
    return x->axis >= 0 || x->column >= 0;
}

/* A single number becomes part of the body. */
static bool is_number(const flx_graph *g, uint32_t value)
{
    const flxi_node *n = flxi_node_of(g, value);
    int64_t count = 0;
    return (flxi_is_const(n) || n->op == OP_full) && flxi_static_count(flxi_type_at(g, value), &count) && count == 1;
}

static int counted_axis(const leaf *x)
{
    return x->axis >= 0 ? x->axis : x->column;
}

static leaf *find_leaf(const flxi_block_loop *l, leaf want)
{
    for (size_t i = 0; i < l->leaves.n; i++) {
        leaf *x = &l->leaves.at[i];
        if (x->value == want.value && x->axis == want.axis && x->column == want.column && x->is_count == want.is_count)
            return x;
    }
    return NULL;
}

static flx_code add_leaf(flxi_block_loop *l, leaf x, flx_error *err)
{
    if (find_leaf(l, x))
        return FLX_OK;
    return flxi_push(l->mem, &l->leaves, x) ? FLX_OK : flxi_oom(err, "a pass");
}

static leaf operand_leaf(const flxi_block_set *s, const flxi_node *n, uint32_t k)
{
    flxi_block_set columns = *s;
    columns.axis = s->column;
    columns.extent = s->columns;
    return (leaf){.value = n->in[k],
                  .axis = flxi_block_operand_axis(s, n, k),
                  .column = s->num_parts ? flxi_block_operand_axis(&columns, n, k) : -1};
}

static flx_code find_leaves(flxi_block_loop *l, const flxi_block_set *s)
{
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        for (uint32_t i = 0; i < s->num_nodes; i++) {
            const flxi_node *n = flxi_node_at(s->g, s->nodes[i]);
            leaf x;
            if (counts(s, n, &x) && is_cut)
                FLXI_TRY(add_leaf(l, x, s->err));
            for (uint32_t k = 0; k < n->nin; k++) {
                x = operand_leaf(s, n, k);
                if (!is_inside(s, n->in[k]) && !is_number(s->g, n->in[k]) && (x.axis >= 0) == (is_cut == 1))
                    FLXI_TRY(add_leaf(l, x, s->err));
            }
        }
        l->num_shared = is_cut ? l->num_shared : (uint32_t)l->leaves.n;
    }
    return FLX_OK;
}

static flx_code find_results(flxi_block_loop *l, const flxi_block_set *s)
{
    for (uint32_t i = 0; i < s->num_results; i++) {
        result r = {s->results[i], s->axis[s->results[i]], column_of(s, s->results[i])};
        if (!(r.axis < 0 ? flxi_push(l->mem, &l->sums, r) : flxi_push(l->mem, &l->stacks, r)))
            return flxi_oom(s->err, "a pass");
    }
    return FLX_OK;
}

/* ---- Bodies ---- */

typedef struct {
    flxi_block_loop *l;
    const flxi_block_set *s;
    flx_graph *g;
    flxi_block_part part;
    uint32_t *id; /* by value of the set */
    uint32_t *carries;
} making;

static flx_type cut_type(const making *m, uint32_t value, int axis, int column)
{
    flx_type t = *flxi_type_at(m->s->g, value);
    if (axis >= 0)
        t.dims[axis] = t.dims[axis] / m->s->extent * m->part.rows;
    if (column >= 0)
        t.dims[column] = t.dims[column] / m->s->columns * m->part.columns;
    return t;
}

static flx_type type_in_block(const making *m, uint32_t value)
{
    return cut_type(m, value, m->s->axis[value], column_of(m->s, value));
}

static uint32_t add_input(making *m, const char *kind, size_t i, const flx_type *t)
{
    char name[32];
    snprintf(name, sizeof name, "%s%zu", kind, i);
    return flxi_add_leaf(m->g, OP_input, name, t);
}

static void add_inputs(making *m)
{
    flxi_block_loop *l = m->l;
    for (size_t i = 0; i < l->sums.n && !m->s->num_parts; i++)
        m->carries[i] = add_input(m, "sum", i, flxi_type_at(l->g, l->sums.at[i].value));
    for (size_t i = 0; i < l->leaves.n; i++) {
        leaf *x = &l->leaves.at[i];
        flx_type t = cut_type(m, x->value, x->axis, x->column);
        if (x->is_count)
            t = flx_type_make((flx_dtype)t.dtype, 1, &t.dims[counted_axis(x)]);
        x->id = add_input(m, i < l->num_shared ? "shared" : "rows", i, &t);
    }
}

static flx_val value_of(const making *m, uint32_t id)
{
    return (flx_val){id, m->g->serial};
}

/* The node as it is, with other operands. */
static uint32_t copy_node(making *m, const flxi_node *n, const uint32_t *in)
{
    void *attrs = NULL;
    flx_error err = {0};
    const flxi_attr_map same = {0};
    if (flxi_attrs_clone(m->g, &flxi_ops[n->op], n->attrs, &same, &attrs, &err) != FLX_OK) {
        flxi_graph_fail(m->g, &err); /* kept there: what is built on it is not looked at one by one */
        return 0;
    }
    return flxi_add_node(m->g, n->op, in, n->nin, attrs);
}

static uint32_t copy_number(making *m, uint32_t value)
{
    return copy_node(m, flxi_node_of(m->s->g, value), NULL);
}

static uint32_t operand_id(making *m, const flxi_node *n, uint32_t k)
{
    if (is_inside(m->s, n->in[k]))
        return m->id[n->in[k]];
    if (is_number(m->s->g, n->in[k]))
        return copy_number(m, n->in[k]);
    const leaf *x = find_leaf(m->l, operand_leaf(m->s, n, k));
    return x ? x->id : 0;
}

/* Positions along an axis that is cut come from outside. */
static flx_val count(making *m, const flxi_node *n, const flx_type *t)
{
    leaf want;
    if (!counts(m->s, n, &want))
        return flx_iota(m->g, t, flxi_node_int(n, "axis"));
    const leaf *x = find_leaf(m->l, want);
    return flx_broadcast_in_dim(m->g, value_of(m, x ? x->id : 0), (flx_ints){t->dims, (size_t)t->rank},
                                FLX_INTS(counted_axis(&want)));
}

static flx_val sliced(making *m, const flxi_node *n, flx_val x)
{
    flx_ints start = *flxi_node_ints(n, "start"), limit = *flxi_node_ints(n, "limit");
    int64_t ends[FLX_MAX_RANK];
    int axis = m->s->axis[n->first], column = column_of(m->s, n->first);
    for (size_t i = 0; i < limit.n; i++)
        ends[i] = (int)i == axis || (int)i == column ? flx_val_type(m->g, x)->dims[i] : limit.v[i];
    return flx_slice(m->g, x, start, ((flx_ints){ends, limit.n}), *flxi_node_ints(n, "stride"));
}

/* A node whose attributes have extents gets those of the block. */
static uint32_t make_node(making *m, const flxi_node *n, const uint32_t *in, const flx_type *t)
{
    flx_val x = n->nin ? value_of(m, in[0]) : FLX_NONE;
    const flx_ints shape = {t->dims, (size_t)t->rank};
    switch (n->op) {
    case OP_reshape:
    case OP_squeeze:
    case OP_unsqueeze: return flx_reshape(m->g, x, shape).id;
    case OP_expand: return flx_expand(m->g, x, shape).id;
    case OP_broadcast_in_dim: return flx_broadcast_in_dim(m->g, x, shape, *flxi_node_ints(n, "axes")).id;
    case OP_slice: return sliced(m, n, x).id;
    case OP_full: return flx_full(m->g, t, flxi_node_tensor(n, "value")).id;
    case OP_iota: return count(m, n, t).id;
    default: return copy_node(m, n, in);
    }
}

static bool append_node(making *m, const flxi_node *n)
{
    uint32_t *in = flxi_new(&m->g->arena, uint32_t, n->nin + 1);
    flx_type t = type_in_block(m, n->first);
    for (uint32_t k = 0; in && k < n->nin; k++)
        if (!(in[k] = operand_id(m, n, k)))
            return false;
    uint32_t id = in ? make_node(m, n, in, &t) : 0;
    m->id[n->first] = id;
    return id && !m->g->error.code && flxi_type_equal(flxi_type_at(m->g, id), &t);
}

static bool add_outputs(making *m)
{
    const flxi_block_loop *l = m->l;
    char name[32];
    for (size_t i = 0; i < l->sums.n; i++) {
        flx_val sum = value_of(m, m->id[l->sums.at[i].value]);
        if (!m->s->num_parts)
            sum = flx_add(m->g, value_of(m, m->carries[i]), sum);
        snprintf(name, sizeof name, "new_sum%zu", i);
        if (m->g->error.code || flxi_add_output(m->g, sum.id, name) != FLX_OK)
            return false;
    }
    for (size_t i = 0; i < l->stacks.n; i++) {
        snprintf(name, sizeof name, "result%zu", i);
        if (flxi_add_output(m->g, m->id[l->stacks.at[i].value], name) != FLX_OK)
            return false;
    }
    return true;
}

/* NULL in *out: an op does not take the extents of the block, and the set stays as it is. */
static flx_code make_body(flxi_block_loop *l, const flxi_block_set *s, flxi_block_part part, flx_graph **out)
{
    making m = {.l = l, .s = s, .part = part};
    *out = NULL;
    m.id = flxi_new(s->arena, uint32_t, s->g->value_count + 1);
    m.carries = flxi_new(s->arena, uint32_t, l->sums.n + 1);
    m.g = flx_graph_new(s->g->ctx, "block");
    if (!m.id || !m.carries || !m.g) {
        flx_graph_release(m.g);
        return flxi_oom(s->err, "a pass");
    }
    m.g->is_lowered = s->g->is_lowered;
    add_inputs(&m);
    bool ok = !m.g->error.code;
    for (uint32_t i = 0; ok && i < s->num_nodes; i++)
        ok = append_node(&m, flxi_node_at(s->g, s->nodes[i]));
    if (ok && add_outputs(&m)) {
        *out = m.g;
        return FLX_OK;
    }
    bool is_oom = m.g->error.code == FLX_E_OOM;
    flx_graph_release(m.g);
    return is_oom ? flxi_oom(s->err, "a pass") : FLX_OK;
}

static void release_parts(flxi_block_loop *l)
{
    for (size_t i = 0; i < l->parts.n; i++)
        flx_graph_release(l->parts.at[i].body);
    flxi_vec_free(l->mem, &l->parts);
}

/* The body of the loop and that of what is left over; no body: one of them cannot be made. */
static flx_code make_loop_bodies(flxi_block_loop *l, const flxi_block_set *s)
{
    int64_t left = l->extent % l->rows;
    FLXI_TRY(make_body(l, s, (flxi_block_part){0, l->rows, 0, l->columns}, &l->body));
    if (!l->body || !left)
        return FLX_OK;
    FLXI_TRY(make_body(l, s, (flxi_block_part){l->extent - left, left, 0, l->columns}, &l->last));
    if (!l->last) {
        flx_graph_release(l->body);
        l->body = NULL;
    }
    return FLX_OK;
}

/* No parts: one of the bodies cannot be made. */
static flx_code make_part_bodies(flxi_block_loop *l, const flxi_block_set *s)
{
    for (uint32_t i = 0; i < s->num_parts; i++) {
        part_body p = {.part = s->parts[i]};
        FLXI_TRY(make_body(l, s, p.part, &p.body));
        if (!p.body) {
            release_parts(l);
            return FLX_OK;
        }
        if (!flxi_push(l->mem, &l->parts, p)) {
            flx_graph_release(p.body);
            return flxi_oom(s->err, "a pass");
        }
    }
    return FLX_OK;
}

flx_code flxi_block_loop_new(const flxi_block_set *s, flxi_block_loop **out)
{
    const flxi_allocator *mem = &s->g->ctx->mem;
    flxi_block_loop *l = flxi_alloc(mem, 1, sizeof *l);
    *out = NULL;
    if (!l)
        return flxi_oom(s->err, "a pass");
    l->g = s->g;
    l->mem = mem;
    l->extent = s->extent;
    l->rows = s->rows;
    l->columns = s->columns;
    flx_code code = find_leaves(l, s);
    if (code == FLX_OK)
        code = find_results(l, s);
    if (code == FLX_OK)
        code = s->num_parts ? make_part_bodies(l, s) : make_loop_bodies(l, s);
    if (code == FLX_OK && (l->body || l->parts.n))
        *out = l;
    else
        flxi_block_loop_free(l);
    return code;
}

void flxi_block_loop_free(flxi_block_loop *l)
{
    if (!l)
        return;
    flx_graph_release(l->body);
    flx_graph_release(l->last);
    release_parts(l);
    flxi_vec_free(l->mem, &l->leaves);
    flxi_vec_free(l->mem, &l->sums);
    flxi_vec_free(l->mem, &l->stacks);
    flxi_free(l->mem, l, 1, sizeof *l);
}

/* ---- Outside of the loop ---- */

bool flxi_block_loop_is_ready(const flxi_block_loop *l, const flxi_copy *c)
{
    for (size_t i = 0; i < l->leaves.n; i++)
        if (!l->leaves.at[i].is_count && !c->remap.id[l->leaves.at[i].value])
            return false;
    return true;
}

static flx_ints shape_of(const flx_type *t)
{
    return (flx_ints){t->dims, (size_t)t->rank};
}

static bool is_first(const flx_type *t, int axis)
{
    for (int k = 0; k < axis; k++)
        if (t->dims[k] != 1)
            return false;
    return true;
}

/* [.., blocks * n, ..] to [blocks, .., n, ..]. */
static flx_val stacked(flx_graph *g, flx_val x, int axis, int64_t blocks)
{
    const flx_type *t = flx_val_type(g, x);
    if (!t)
        return FLX_NONE;
    flx_type split = *t, front = *t;
    int64_t perm[FLX_MAX_RANK];
    front.rank = split.rank = t->rank + 1;
    for (int k = 0; k < t->rank; k++) {
        split.dims[k + (k >= axis)] = t->dims[k];
        front.dims[k + 1] = t->dims[k];
        perm[k + 1] = k < axis ? k : k + 1;
    }
    perm[0] = axis;
    front.dims[0] = split.dims[axis] = blocks;
    front.dims[axis + 1] = split.dims[axis + 1] = t->dims[axis] / blocks;
    if (is_first(t, axis))
        return flx_reshape(g, x, shape_of(&front));
    return flx_transpose(g, flx_reshape(g, x, shape_of(&split)), ((flx_ints){perm, (size_t)split.rank}));
}

/* And back. */
static flx_val joined(flx_graph *g, flx_val x, int axis)
{
    const flx_type *t = flx_val_type(g, x);
    if (!t)
        return FLX_NONE;
    flx_type y = {.dtype = t->dtype, .rank = t->rank - 1};
    int64_t perm[FLX_MAX_RANK];
    for (int k = 0; k < y.rank; k++) {
        y.dims[k] = t->dims[k + 1];
        perm[k + (k >= axis)] = k + 1;
    }
    perm[axis] = 0;
    bool stays = is_first(&y, axis);
    y.dims[axis] *= t->dims[0];
    return flx_reshape(g, stays ? x : flx_transpose(g, x, ((flx_ints){perm, (size_t)t->rank})), shape_of(&y));
}

static flx_val narrowed(flx_graph *g, flx_val x, int axis, int64_t extent, int64_t from, int64_t count)
{
    const flx_type *t = flx_val_type(g, x);
    if (!t || count == extent)
        return x;
    int64_t each = t->dims[axis] / extent;
    return flx_narrow(g, x, axis, from * each, count * each);
}

/* The rows and columns of the operand that a block or part reads. */
static flx_val part_of(const flxi_block_loop *l, flxi_copy *c, const leaf *x, const flxi_block_part *p)
{
    const flx_type *t = flxi_type_at(l->g, x->value);
    flx_val v = {c->remap.id[x->value], c->to->serial};
    if (x->is_count) {
        flx_type line = flx_type_make((flx_dtype)t->dtype, 1, &t->dims[counted_axis(x)]);
        v = flx_iota(c->to, &line, 0);
    }
    if (x->axis >= 0)
        v = narrowed(c->to, v, x->is_count ? 0 : x->axis, l->extent, p->row, p->rows);
    if (x->column >= 0)
        v = narrowed(c->to, v, x->is_count ? 0 : x->column, l->columns, p->column, p->columns);
    return v;
}

static void append_scan(flxi_block_loop *l, flxi_copy *c, flx_val *in, flx_val *out)
{
    int64_t blocks = l->extent / l->rows;
    for (size_t i = 0; i < l->leaves.n; i++) {
        const leaf *x = &l->leaves.at[i];
        flx_val v = part_of(l, c, x, &(flxi_block_part){0, blocks * l->rows, 0, l->columns});
        in[l->sums.n + i] = x->axis < 0 ? v : stacked(c->to, v, x->is_count ? 0 : x->axis, blocks);
    }
    flx_scan_attrs attrs = FLX_SCAN_ATTRS;
    attrs.body = l->body;
    attrs.num_carry = (int64_t)l->sums.n;
    attrs.num_bcast = l->num_shared;
    attrs.length = blocks;
    flx_scan_with(c->to, in, l->sums.n + l->leaves.n, out, l->sums.n + l->stacks.n, &attrs);
    for (size_t i = 0; i < l->stacks.n; i++)
        out[l->sums.n + i] = joined(c->to, out[l->sums.n + i], l->stacks.at[i].axis);
}

/* What is left over, added to the sums and put after the rows. */
static void append_last(flxi_block_loop *l, flxi_copy *c, flx_val *in, flx_val *out, flx_val *rest)
{
    const int64_t left = l->extent % l->rows;
    const flxi_block_part p = {l->extent - left, left, 0, l->columns};
    for (size_t i = 0; i < l->sums.n; i++)
        in[i] = out[i];
    for (size_t i = 0; i < l->leaves.n; i++)
        in[l->sums.n + i] = part_of(l, c, &l->leaves.at[i], &p);
    if (flxi_built(c->to, NULL) != FLX_OK)
        return;
    flxi_inline(c->to, l->last, in, rest);
    for (size_t i = 0; i < l->sums.n; i++)
        out[i] = rest[i];
    for (size_t i = l->sums.n; i < l->sums.n + l->stacks.n; i++) {
        const flx_val both[2] = {out[i], rest[i]};
        out[i] = flx_concat(c->to, both, 2, l->stacks.at[i - l->sums.n].axis);
    }
}

static void append_loop(flxi_block_loop *l, flxi_copy *c, flx_val *in, flx_val *out)
{
    flxi_site site = flxi_plain_site(c->to);
    for (size_t i = 0; i < l->sums.n; i++)
        in[i] = flxi_zeros(&site, flxi_type_at(l->g, l->sums.at[i].value));
    append_scan(l, c, in, out);
    if (l->last)
        append_last(l, c, in, out, out + l->sums.n + l->stacks.n);
}

/* Zeros for the columns that a part leaves out. */
static flx_val with_all_columns(const flxi_block_loop *l, flx_graph *g, flx_val x, int column, const flxi_block_part *p)
{
    const flx_type *t = flx_val_type(g, x);
    if (!t || column < 0 || p->columns == l->columns)
        return x;
    flxi_site site = flxi_plain_site(g);
    int64_t low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0}, none[FLX_MAX_RANK] = {0};
    size_t rank = (size_t)t->rank;
    int64_t each = t->dims[column] / p->columns;
    low[column] = p->column * each;
    high[column] = (l->columns - p->column - p->columns) * each;
    return flx_pad(g, x, flxi_number(&site, x, 0), ((flx_ints){low, rank}), ((flx_ints){high, rank}),
                   ((flx_ints){none, rank}));
}

/* All parts, one after the other: out[i * results + k] is result k of part i. */
static void append_part_bodies(flxi_block_loop *l, flxi_copy *c, flx_val *in, flx_val *out)
{
    size_t results = l->sums.n + l->stacks.n;
    for (size_t i = 0; i < l->parts.n; i++) {
        const part_body *b = &l->parts.at[i];
        flx_val *y = &out[i * results];
        for (size_t k = 0; k < l->leaves.n; k++)
            in[k] = part_of(l, c, &l->leaves.at[k], &b->part);
        if (flxi_built(c->to, NULL) != FLX_OK)
            return;
        flxi_inline(c->to, b->body, in, y);
        for (size_t k = 0; k < results; k++) {
            const result *r = k < l->sums.n ? &l->sums.at[k] : &l->stacks.at[k - l->sums.n];
            y[k] = with_all_columns(l, c->to, y[k], r->column, &b->part);
        }
    }
}

/* Sums of the parts are added in their order, rows are put together: the results are the first of `out`. */
static void append_parts(flxi_block_loop *l, flxi_copy *c, flx_val *in, flx_val *out, flx_val *rows)
{
    size_t results = l->sums.n + l->stacks.n;
    append_part_bodies(l, c, in, out);
    for (size_t k = 0; k < results; k++) {
        for (size_t i = 0; i < l->parts.n; i++)
            rows[i] = out[i * results + k];
        if (k >= l->sums.n)
            out[k] = flx_concat(c->to, rows, l->parts.n, l->stacks.at[k - l->sums.n].axis);
        for (size_t i = 1; k < l->sums.n && i < l->parts.n; i++)
            out[k] = flx_add(c->to, out[k], rows[i]);
    }
}

flx_code flxi_block_loop_append(flxi_block_loop *l, flxi_copy *c)
{
    size_t results = l->sums.n + l->stacks.n, times = l->parts.n + 2;
    flx_val *in = flxi_new(&c->to->arena, flx_val, l->sums.n + l->leaves.n + 1);
    flx_val *out = flxi_new(&c->to->arena, flx_val, times * results + 1);
    flx_val *rows = flxi_new(&c->to->arena, flx_val, times);
    if (!in || !out || !rows)
        return flxi_oom(c->err, "a pass");
    if (l->parts.n)
        append_parts(l, c, in, out, rows);
    else
        append_loop(l, c, in, out);
    FLXI_TRY(flxi_built(c->to, c->err));
    for (size_t i = 0; i < results; i++) {
        const result *r = i < l->sums.n ? &l->sums.at[i] : &l->stacks.at[i - l->sums.n];
        flxi_copy_replace(c, r->value, out[i].id);
    }
    return FLX_OK;
}
