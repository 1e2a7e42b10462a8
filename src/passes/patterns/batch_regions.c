/* SPDX-License-Identifier: Apache-2.0 */
/* batch_regions.c: the same chain of pointwise ops on several slices of its operands, joined again along the same axis,
   is one batch_elementwise_region: the chain then is in the graph once, and so is its kernel. */
#include "autodiff/autodiff.h"
#include "passes/patterns/pattern.h"

enum { MOST_OPERANDS = 16 };

/* A concatenation of regions. */
typedef struct {
    const flx_graph *g;
    const uint32_t *uses; /* by id */
    const flxi_node *join;
    int64_t back;                  /* the axis, counted from the last one, which is 1 */
    uint32_t whole[MOST_OPERANDS]; /* what all slices of an operand are taken from, or the operand itself */
    bool is_sliced[MOST_OPERANDS];
    flx_dim *starts, *lens;
} batch;

static const flxi_node *part(const batch *b, uint32_t p)
{
    return flxi_maker(b->g, b->join->in[p]);
}

/* ---- Bodies ---- */

static const flx_graph *body_of(const flxi_node *n)
{
    return flxi_attr_graph(&flxi_ops[n->op], n->attrs, "body");
}

static bool is_same_node(const flx_graph *g, const flxi_node *a, const flx_graph *h, const flxi_node *b)
{
    const flx_type *t = flxi_type_at(g, a->first), *u = flxi_type_at(h, b->first);
    return a->op == b->op && a->nin == b->nin && t->dtype == u->dtype && t->rank == u->rank &&
           memcmp(a->in, b->in, a->nin * sizeof *a->in) == 0 &&
           (a->op == OP_input || flxi_attrs_equal(&flxi_ops[a->op], a->attrs, b->attrs));
}

/* Nodes are in the same order where the regions grew in the same way; extents of inputs may differ. */
static bool is_same_chain(const flx_graph *g, const flx_graph *h)
{
    if (g->node_count != h->node_count || g->leaves.n != h->leaves.n || g->outputs.at[0].val != h->outputs.at[0].val)
        return false;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (!is_same_node(g, flxi_node_at(g, i), h, flxi_node_at(h, i)))
            return false;
    return true;
}

/* ---- Slices ---- */

/* The value of which v is the part [start, start + len) along the axis, or 0. */
static uint32_t sliced_from(const batch *b, uint32_t v, flx_dim start, flx_dim len)
{
    const flxi_node *n = flxi_made_by(b->g, v, OP_narrow);
    const flx_type *t = flxi_type_at(b->g, v);
    if (!n || flxi_node_int(n, "axis") != t->rank - b->back || t->dims[t->rank - b->back] != len)
        return 0;
    return flxi_node_int(n, "start") == start ? n->in[0] : 0;
}

/* Whether every slice of the result reads the same elements of v. */
static bool is_stretched(const batch *b, uint32_t v)
{
    const flx_type *t = flxi_type_at(b->g, v);
    return t->rank < b->back || t->dims[t->rank - b->back] == 1;
}

/* Where part p starts: as its first operand that is cut says. */
static bool find_start(const batch *b, uint32_t p, flx_dim *start)
{
    const flxi_node *n = part(b, p);
    for (uint32_t k = 0; k < n->nin; k++) {
        const flxi_node *cut = flxi_made_by(b->g, n->in[k], OP_narrow);
        if (cut && !is_stretched(b, n->in[k])) {
            *start = flxi_node_int(cut, "start");
            return true;
        }
    }
    return false;
}

static bool read_operand(batch *b, uint32_t k)
{
    const flxi_node *first = part(b, 0);
    uint32_t from = sliced_from(b, first->in[k], b->starts[0], b->lens[0]);
    b->is_sliced[k] = from && !is_stretched(b, from);
    b->whole[k] = b->is_sliced[k] ? from : first->in[k];
    if (!b->is_sliced[k] && !is_stretched(b, first->in[k]))
        return false;
    for (uint32_t p = 1; p < b->join->nin; p++) {
        uint32_t v = part(b, p)->in[k];
        if ((b->is_sliced[k] ? sliced_from(b, v, b->starts[p], b->lens[p]) : v) != b->whole[k])
            return false;
    }
    return true;
}

/* ---- Batches ---- */

static bool is_region(const batch *b, uint32_t v)
{
    const flxi_node *n = flxi_made_by(b->g, v, OP_elementwise_region);
    return n && n->nin <= MOST_OPERANDS && b->uses[v] == 1 && !flxi_value_at(b->g, v)->pinned;
}

static bool are_regions(const batch *b)
{
    for (uint32_t p = 0; p < b->join->nin; p++)
        if (!is_region(b, b->join->in[p]) || part(b, p)->nin != part(b, 0)->nin ||
            !is_same_chain(body_of(part(b, 0)), body_of(part(b, p))))
            return false;
    return b->join->nin > 1;
}

/* Slices are in order and do not overlap, and all operands that are cut have the same extent. */
static bool is_batch(batch *b)
{
    const flxi_node *first = part(b, 0);
    int rank = 0;
    flx_dim extent = 0, end = 0;
    for (uint32_t p = 0; p < b->join->nin; p++) {
        const flx_type *t = flxi_type_at(b->g, b->join->in[p]);
        b->lens[p] = t->dims[t->rank - b->back];
        if (!find_start(b, p, &b->starts[p]) || !flxi_dim_is_number(b->starts[p]) || !flxi_dim_is_number(b->lens[p]) ||
            b->starts[p] < end)
            return false;
        end = b->starts[p] + b->lens[p];
    }
    for (uint32_t k = 0; k < first->nin; k++) {
        if (!read_operand(b, k))
            return false;
        const flx_type *t = flxi_type_at(b->g, b->whole[k]);
        rank = t->rank > rank ? t->rank : rank;
        if (b->is_sliced[k] && extent && t->dims[t->rank - b->back] != extent)
            return false;
        extent = b->is_sliced[k] ? t->dims[t->rank - b->back] : extent;
    }
    return extent && rank == flxi_type_at(b->g, b->join->first)->rank;
}

static flx_code write_batch(const batch *b, flxi_copy *c)
{
    const flxi_node *first = part(b, 0);
    flx_val in[MOST_OPERANDS];
    for (uint32_t k = 0; k < first->nin; k++)
        in[k] = (flx_val){c->remap.id[b->whole[k]], c->to->serial};
    flx_val y = flx_batch_elementwise_region(c->to, in, first->nin, .body = body_of(first),
                                             .axis = flxi_node_int(b->join, "axis"),
                                             .starts = {b->starts, b->join->nin}, .lens = {b->lens, b->join->nin});
    flx_code code = flxi_built(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, b->join->first, y.id);
    return code;
}

static flx_code copy_or_batch(flxi_copy *c, flxi_arena *arena, const uint32_t *uses, uint32_t i, uint32_t *count)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    batch b = {.g = c->from, .uses = uses, .join = n};
    if (n->op != OP_concat)
        return flxi_copy_node(c, i);
    b.back = flxi_type_at(c->from, n->first)->rank - flxi_node_int(n, "axis");
    b.starts = flxi_new(arena, flx_dim, n->nin);
    b.lens = flxi_new(arena, flx_dim, n->nin);
    if (!b.starts || !b.lens)
        return flxi_oom(c->err, "regions");
    if (!are_regions(&b) || !is_batch(&b))
        return flxi_copy_node(c, i);
    ++*count;
    return write_batch(&b, c);
}

flx_code flxi_batch_regions(const flx_graph *in, flx_graph **out, uint32_t *count, flx_error *err)
{
    flxi_copy c;
    flxi_arena arena;
    flx_graph *whole = NULL;
    size_t ids = (size_t)in->value_count + 1;
    uint32_t *uses = flxi_count_uses(in);
    if (!uses)
        return flxi_oom(err, "regions");
    flxi_arena_init(&arena, &in->ctx->mem);
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = copy_or_batch(&c, &arena, uses, i, count);
    code = flxi_copy_end(&c, code, &whole, NULL);
    if (code == FLX_OK)
        code = flxi_pass_dce(whole, out, NULL, err); /* slices that only regions read */
    flx_graph_release(whole);
    flxi_arena_free(&arena);
    flxi_free(&in->ctx->mem, uses, ids, sizeof *uses);
    return code;
}
